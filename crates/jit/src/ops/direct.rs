//! Tables whose entries are code: their patterns are compared one after the other.

use super::Applied;
use crate::emit::{Ended, Gen};
use crate::mutant::{Mutant, is_planted};
use crate::unit::{DirectEntry, NodeSpec};
use crate::value::Val;
use cranelift_codegen::ir::{Block, InstBuilder, types};
use cranelift_frontend::Variable;
use ir::{ActionCall, ActionId, Bits, Pattern, TableId};
use smallvec::SmallVec;

/// Code of an action for all entries behind the first one.
struct SharedAction {
    action: ActionId,
    block: Block,
    /// Of each parameter its width, and a variable for each 64 bits.
    params: Vec<(u32, SmallVec<[Variable; 2]>)>,
}

impl Gen<'_, '_> {
    /// A table whose entries are code.
    pub(super) fn direct(
        &mut self,
        spec: &NodeSpec,
        table: TableId,
        applied: Applied<'_>,
    ) -> Result<(), Ended> {
        let entries = spec.direct.as_deref().unwrap_or_default();
        let used = |column: u16| entries.iter().any(|e| e.matches.iter().any(|m| m.key == column));
        let columns = self.columns(spec, &used)?;
        let turned: Vec<DirectEntry>;
        let entries = match is_planted(Mutant::Priority) {
            true => {
                turned = entries.iter().rev().cloned().collect();
                &turned[..]
            }
            false => entries,
        };
        let (mut at, mut long, mut shared) = (0, Vec::new(), Vec::new());
        while at < entries.len() {
            if let Some(fan) = self.fan(applied.block, &entries[at..]) {
                self.fan_out(spec, &fan, &entries[at], &columns)?;
                at += fan.len;
                continue;
            }
            let entry = &entries[at];
            at += 1;
            let mut matches = Val::bool(true);
            for m in &entry.matches {
                let column = spec.columns.iter().position(|c| *c == m.key);
                let Some(value) = column.map(|c| &columns[c]) else {
                    return Err(self.bail("an entry with an unexpected key field"));
                };
                let here = self.pattern(&m.pattern, value);
                matches = self.and(&matches, &here);
            }
            let rest = match matches.known_truth() {
                Some(false) => continue,
                Some(true) => None,
                None => {
                    let (yes, no) = (self.b.create_block(), self.b.create_block());
                    self.branch(&matches, yes, no);
                    self.enter(yes);
                    Some(no)
                }
            };
            let id = self.constant(u64::from(entry.entry.0));
            self.count_direct(table, Some(id));
            if long.contains(&entry.call.action) {
                self.go_shared(&entry.call, &mut shared);
            } else {
                let before = self.b.func.dfg.num_values();
                let _: Result<(), Ended> = self.call(&entry.call, false, &applied);
                if self.b.func.dfg.num_values() - before > self.points.bounds.shared_from {
                    long.push(entry.call.action);
                }
            }
            match rest {
                Some(rest) => self.enter(rest),
                None => {
                    self.shared_actions(shared, &applied);
                    return Err(Ended);
                }
            }
        }
        self.count_direct(table, None);
        let _: Result<(), Ended> = self.call(&spec.default, true, &applied);
        self.shared_actions(shared, &applied);
        Err(Ended)
    }

    /// Control goes to the code that entries of an action share.
    fn go_shared(&mut self, call: &ActionCall, shared: &mut Vec<SharedAction>) {
        let at = shared.iter().position(|s| s.action == call.action).unwrap_or_else(|| {
            let words = |bits: &Bits| {
                let variables = bits.limbs().iter().map(|_| self.b.declare_var(types::I64));
                (bits.width(), variables.collect())
            };
            let params = call.args.iter().map(words).collect();
            shared.push(SharedAction { action: call.action, block: self.b.create_block(), params });
            shared.len() - 1
        });
        for (bits, (_, variables)) in call.args.iter().zip(&shared[at].params) {
            for (limb, variable) in bits.limbs().iter().zip(variables) {
                self.set_known(*variable, *limb);
            }
        }
        self.b.ins().jump(shared[at].block, &[]);
    }

    /// Generates what entries share.
    fn shared_actions(&mut self, shared: Vec<SharedAction>, applied: &Applied<'_>) {
        for SharedAction { action: id, block, params } in shared {
            self.enter(block);
            let Some(action) = self.plan.unit.program.actions.get(&id) else {
                self.bail("an action that does not exist");
                continue;
            };
            let args: SmallVec<[Val; 4]> = params
                .iter()
                .map(|(width, variables)| {
                    let limbs: SmallVec<[_; 2]> =
                        variables.iter().map(|v| self.b.use_var(*v)).collect();
                    Val::from_limbs(*width, &limbs)
                })
                .collect();
            let _: Result<(), Ended> =
                self.run_action(id, action, &args, &Val::bool(false), applied);
        }
    }

    /// One bit: a value matches a pattern.
    pub(crate) fn pattern(&mut self, pattern: &Pattern, value: &Val) -> Val {
        let b = &mut self.b;
        match pattern {
            Pattern::Exact(v) => {
                let v = Val::constant(b, v);
                value.equal(b, &v)
            }
            Pattern::Prefix(v, len) => {
                let by = value.width - (*len).min(value.width);
                let v = Val::constant(b, &v.shr(by));
                value.shr(b, by).equal(b, &v)
            }
            Pattern::Masked(v, mask) => {
                let (v, mask) = match is_planted(Mutant::Mask) {
                    true => (&without_lowest(v, mask), &without_lowest(mask, mask)),
                    false => (v, mask),
                };
                let (v, mask) = (Val::constant(b, v), Val::constant(b, mask));
                match Val::binary(b, ir::BinaryOp::And, value, &mask) {
                    Ok(masked) => masked.equal(b, &v),
                    Err(_) => Val::bool(false),
                }
            }
            Pattern::Range(lo, hi) => {
                let (lo, hi) = (Val::constant(b, lo), Val::constant(b, hi));
                let below = value.less(b, &lo);
                let above = match is_planted(Mutant::RangeEnd) {
                    true => value.less(b, &hi).is_zero(b),
                    false => hi.less(b, value),
                };
                let outside = self.or(&below, &above);
                self.not(&outside)
            }
        }
    }
}

/// Bits of a value, but for the lowest one of a mask.
fn without_lowest(value: &Bits, mask: &Bits) -> Bits {
    value.and(&mask.sub(&Bits::from_u128(1, mask.width())))
}
