//! Loops: some rounds in one segment, then the next.

use super::{ROUNDS, SEGMENTS_MAX, Site};
use crate::emit::{Ended, Env, Gen};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder};
use ir::Op;

impl<'f, 'p> Gen<'f, 'p> {
    /// `while condition { body }`.
    pub(super) fn rounds(
        &mut self,
        condition: &ir::Expr,
        body: &[Op],
        site: Site<'_>,
    ) -> Result<(), Ended> {
        if self.plan.stops.order.len() + 2 > SEGMENTS_MAX {
            return Err(self.bail("a loop in a program of many tables"));
        }
        let (head, round, rest) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.ins().jump(head, &[]);
        // What comes back here is not known yet: the block is sealed behind the loop.
        self.b.switch_to_block(head);
        let env = Env { args: site.args, ..Env::default() };
        let done = match self.value(condition, env) {
            Ok(condition) if condition.known_truth() == Some(false) => {
                self.b.ins().jump(rest, &[]);
                Ok(())
            }
            Ok(condition) => {
                self.branch(&condition, round, rest);
                self.enter(round);
                self.round(body, site, head)
            }
            ended => ended.map(|_| ()),
        };
        self.b.seal_block(head);
        if done.is_err() {
            // Not even the condition can be worked out.
            return Err(Ended);
        }
        self.enter(rest);
        Ok(())
    }

    /// One round, and back to the head of the loop.
    pub(super) fn round(&mut self, body: &[Op], site: Site<'_>, head: Block) -> Result<(), Ended> {
        let rounds = self.b.use_var(self.rounds);
        let most = self.constant(ROUNDS);
        let many = self.compare(IntCC::UnsignedGreaterThanOrEqual, rounds, most);
        let more = self.plus(rounds, 1);
        self.b.def_var(self.rounds, more);
        if self.bail_if(&many, "a loop of many rounds").is_ok() && self.ops(body, site).is_ok() {
            self.b.ins().jump(head, &[]);
        }
        Ok(())
    }
}
