//! Drops loads whose results nobody needs, which Cranelift (0.135) keeps.
//!
//! Code that takes a packet up again loads what it is known by before anyone asks for it, and where a table's
//! entries or what is known of the packet make a choice for good, nobody does.
//!
//! In: a function, every load of which may be left out that does not trap. Out: the same without those that are not used, and
//! without what computed only their addresses or was computed from nothing else.
//! Cost: one pass over the instructions.
//! Checked by: the unit test below, and all tests that run generated code.

use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{Function, Inst, Value, ValueDef};

/// Drops what only computes results that nobody needs.
pub(crate) fn drop_unused(func: &mut Function) {
    let mut uses: SecondaryMap<Value, u32> = SecondaryMap::new();
    let mut left: Vec<Inst> = Vec::new();
    for block in func.layout.blocks() {
        for inst in func.layout.block_insts(block) {
            left.push(inst);
            for value in func.dfg.inst_values(inst) {
                uses[func.dfg.resolve_aliases(value)] += 1;
            }
        }
    }
    // From the end on, as most of what uses a result stands behind it.
    while let Some(inst) = left.pop() {
        let unused = |value: &Value| uses[*value] == 0;
        let gone = func.layout.inst_block(inst).is_none();
        if gone || !may_go(func, inst) || !func.dfg.inst_results(inst).iter().all(unused) {
            continue;
        }
        for value in func.dfg.inst_values(inst) {
            let value = func.dfg.resolve_aliases(value);
            uses[value] -= 1;
            if uses[value] == 0
                && let ValueDef::Result(maker, _) = func.dfg.value_def(value)
            {
                left.push(maker);
            }
        }
        func.layout.remove_inst(inst);
    }
}

/// An instruction does nothing but make its results, of which there are some.
fn may_go(func: &Function, inst: Inst) -> bool {
    let data = &func.dfg.insts[inst];
    let opcode = data.opcode();
    let traps = opcode.can_load() && !data.memflags_data(&func.dfg).is_some_and(|f| f.notrap());
    let acts = opcode.is_call()
        || opcode.is_branch()
        || opcode.is_terminator()
        || opcode.can_trap()
        || opcode.can_store()
        || opcode.other_side_effects();
    !acts && !traps && !func.dfg.inst_results(inst).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Signature, types};
    use cranelift_codegen::isa::CallConv;
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

    #[test]
    fn what_is_used_stays() {
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params.push(AbiParam::new(types::I64));
        let mut func = Function::with_name_signature(Default::default(), signature);
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut func, &mut context);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let at = b.block_params(entry)[0];
        let quiet = MemFlagsData::new().with_notrap();
        let used = b.ins().load(types::I64, quiet, at, 0);
        let [compared, passed] = [8, 16].map(|from| b.ins().load(types::I64, quiet, at, from));
        let trapping = b.ins().load(types::I64, MemFlagsData::new(), at, 24);
        // One address is that of a load that is used, one of a load that is not.
        let near = b.ins().iadd(at, used);
        let read = b.ins().load(types::I64, quiet, near, 0);
        let far = b.ins().iadd(used, used);
        let idle = b.ins().uload8(types::I64, quiet, far, 0);
        let swapped = b.ins().bswap(idle);
        b.ins().store(quiet, read, at, 32);
        let (yes, no) = (b.create_block(), b.create_block());
        let given = b.append_block_param(yes, types::I64);
        b.ins().brif(compared, yes, &[passed.into()], no, &[]);
        b.switch_to_block(yes);
        let behind = b.ins().load(types::I64, quiet, given, 0);
        b.ins().return_(&[]);
        b.switch_to_block(no);
        b.ins().return_(&[]);
        b.seal_all_blocks();
        drop_unused(&mut func);
        let stays = |value: Value| {
            let maker = func.dfg.value_def(value).unwrap_inst();
            func.layout.inst_block(maker).is_some()
        };
        let kept = [used, compared, passed, trapping, near, read].map(stays);
        assert_eq!(kept, [true; 6], "{}", func.display());
        let gone = [far, idle, swapped, behind].map(stays);
        assert_eq!(gone, [false; 4], "{}", func.display());
    }
}
