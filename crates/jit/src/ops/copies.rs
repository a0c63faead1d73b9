//! Operations on copies of the packet, which end with them.

use super::{DEPTH_MAX, Site};
use crate::emit::{CopyEnd, Ended, Gen};
use crate::value::Val;
use cranelift_codegen::ir::InstBuilder;
use ir::{DropReason, Op};

impl<'f, 'p> Gen<'f, 'p> {
    /// Does operations on the copy that is being made, and ends it.
    pub(crate) fn copy_ops(&mut self, ops: &[Op], args: &[Val]) {
        let site = Site { args, missed: None, lookup_missed: None };
        if self.ops(ops, site).is_ok() {
            self.end_copy(None);
        }
    }

    /// Does operations on a copy of the packet, which ends with them. What is output meanwhile is noted as all outputs are.
    pub(super) fn on_copy(&mut self, body: &[Op], site: Site<'_>) -> Result<(), Ended> {
        let depth = self.copy.map_or(0, |copy| copy.depth + 1);
        if depth >= DEPTH_MAX || !self.plan.few_copies {
            return Err(self.bail("a copy of copies, or one of many"));
        }
        let changes = self.changes(body);
        let kept = self.taken_along();
        let kept: Vec<_> = kept.into_iter().map(|var| (var, self.b.use_var(var))).collect();
        let copy = CopyEnd { rest: self.b.create_block(), ends: false, changes, depth };
        let outer = self.copy.replace(copy);
        if self.ops(body, site).is_ok() {
            self.end_copy(None);
        }
        let copy = std::mem::replace(&mut self.copy, outer).unwrap_or(copy);
        if !copy.ends {
            // All ways bail out.
            return Err(Ended);
        }
        self.enter(copy.rest);
        kept.into_iter().for_each(|(var, value)| self.b.def_var(var, value));
        Ok(())
    }

    /// The copy that operations are done on ends, given up for a reason or not.
    pub(super) fn end_copy(&mut self, dropped: Option<DropReason>) -> Ended {
        let Some(copy) = self.copy else { return Ended };
        // What it has output is as it is now, which the packet itself is not.
        if copy.changes && self.touch(&Val::bool(true)).is_err() {
            return Ended;
        }
        if let Some(reason) = dropped {
            self.lose(reason);
        }
        self.b.ins().jump(copy.rest, &[]);
        self.copy = Some(CopyEnd { ends: true, ..copy });
        Ended
    }
}
