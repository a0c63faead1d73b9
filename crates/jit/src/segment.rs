//! One function for each place where a burst is taken up: at its start, and behind each lookup.
//!
//! A segment loops over its packets. Each runs until it waits at a node, is done, or bails out.

use crate::bails::Bails;
use crate::emit::{Gen, trusted};
use crate::plan::Plan;
use abi::{offset, size, status};
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, Signature, UserFuncName, condcodes::IntCC, types,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

/// Generates a segment: the entry, or the one behind a node.
pub(crate) fn generate(
    plan: &Plan<'_>,
    node: Option<usize>,
    bails: &mut Bails,
    isa: &dyn TargetIsa,
    frontend: &mut FunctionBuilderContext,
) -> Function {
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params.push(AbiParam::new(types::I64));
    let name = UserFuncName::user(0, node.map_or(0, |node| node as u32 + 1));
    let mut function = Function::with_name_signature(name, signature);
    let builder = FunctionBuilder::new(&mut function, frontend);
    let mut g = Gen::new(builder, plan, bails);
    let flags = trusted();

    let packets = g.b.ins().load(types::I64, flags, g.context, offset::CONTEXT_PACKETS);
    let mut io = None;
    let count = match node {
        None => g.b.ins().uload32(flags, g.context, offset::CONTEXT_LEN),
        Some(node) => {
            let nodes = g.b.ins().load(types::I64, flags, g.context, offset::CONTEXT_NODES);
            let at = g.plus(nodes, (node * size::NODE_IO) as u64);
            let mut load = |offset| g.b.ins().load(types::I64, flags, at, offset);
            let (records, hits) = (load(offset::NODE_RECORDS), load(offset::NODE_HITS));
            let items = load(offset::NODE_ITEMS);
            io = Some((node, records, hits, items));
            g.b.ins().uload32(flags, at, offset::NODE_LEN)
        }
    };
    let i = g.b.declare_var(types::I64);
    g.set_known(i, 0);
    let (head, body, exit) = (g.b.create_block(), g.b.create_block(), g.b.create_block());
    g.b.ins().jump(head, &[]);
    g.b.switch_to_block(head);
    let place = g.b.use_var(i);
    let more = g.b.ins().icmp(IntCC::UnsignedLessThan, place, count);
    g.b.ins().brif(more, body, &[], exit, &[]);
    g.enter(body);
    g.index = match io {
        None => place,
        Some((_, _, _, items)) => {
            let at = g.b.ins().ishl_imm_u(place, 2);
            let item = g.b.ins().iadd(items, at);
            let noted = g.b.ins().uload32(flags, item, 0);
            g.b.ins().band_imm_u(noted, i64::from(abi::ITEM_PACKET_MASK))
        }
    };
    let at = g.b.ins().imul_imm_u(g.index, size::PACKET as i64);
    g.packet = g.b.ins().iadd(packets, at);
    g.data = g.b.ins().load(types::I64, flags, g.packet, offset::PACKET_DATA);
    g.len = g.b.ins().uload32(flags, g.packet, offset::PACKET_LEN);
    let at = g.b.ins().imul_imm_u(g.index, i64::from(plan.slots.stride));
    let slots = g.b.ins().iadd(g.zeros, at);
    g.slots = g.plus(slots, u64::from(plan.slots.start()));
    match io {
        None => {
            g.begin();
            g.parse();
        }
        Some((node, records, hits, _)) => {
            let at = g.b.ins().ishl_imm_u(place, i64::from(size::HIT.trailing_zeros()));
            let hit = g.b.ins().iadd(hits, at);
            let entry = g.b.ins().uload32(flags, hit, offset::HIT_ENTRY);
            let at = g.b.ins().ishl_imm_u(place, 3);
            let at = g.b.ins().iadd(records, at);
            let record = g.b.ins().load(types::I64, flags, at, 0);
            g.resume(node, entry, record);
            g.pending_blocks();
        }
    }
    g.commit();

    for (block, state) in [(g.bail_block, status::BAIL), (g.drop_block, status::DROP)] {
        g.enter(block);
        let reason = g.b.block_params(block)[0];
        let state_value = g.b.ins().iconst(types::I8, i64::from(state));
        g.b.ins().store(flags, reason, g.packet, offset::PACKET_REASON);
        g.b.ins().store(flags, state_value, g.packet, offset::PACKET_STATUS);
        if state == status::BAIL {
            let none = g.b.ins().iconst(types::I8, 0);
            g.b.ins().store(flags, none, g.packet, offset::PACKET_OUTPUTS_LEN);
        }
        g.b.ins().jump(g.next, &[]);
    }
    g.enter(g.next);
    let place = g.b.use_var(i);
    let place = g.b.ins().iadd_imm_u(place, 1);
    g.b.def_var(i, place);
    g.b.ins().jump(head, &[]);
    g.b.seal_block(head);
    g.enter(exit);
    g.b.ins().return_(&[]);
    g.b.finalize(isa.frontend_config());
    function
}
const _: () = assert!(size::HIT.is_power_of_two());
