//! Clones, and calls in them, as jumps.
//!
//! ```text
//! block t65: ..; clone(regs = 0; call t8; called = called - 1)     becomes, where nobody sees what follows,
//! block t65: ..; regs = 0; goto t8@1
//! ```
//!
//! A clone's copy, and the packet itself behind the clone, are two ways. Where the packet itself only writes metadata behind
//! it, to the end of the pass ([`quiet`]), one way is enough: the packet becomes the copy. What follows a call on
//! that copy, up to its end, then likewise does nothing. So both are jumps: to a later block in the same *level*, or, where they
//! lead back, to the next level, which is one more copy of the pipeline. Calls of a level lead to blocks that others do, too, so
//! a hundred tables that call each other one behind the other are as many blocks, and no more.
//!
//! In a level each end of a pass is the end of a copy: a drop gives up a copy, and goes on to the end. What conditions lists
//! are quiet under is asked where a copy begins and at the end: where one does not hold, the packet is given up. So it is where
//! clones would be inside of each other deeper than is certainly allowed.
//!
//! Requires: a service that drops in a level gives the packet up ([`Optimised::called`](crate::Optimised)).

use super::{Called, Copy, End, Label, Lay, quiet};
use ir::program::MetaField;
use ir::{BinaryOp, BlockId, Expr, FieldRef, MetaId, Op, Program, Terminator};
use quiet::Conditions;

/// Levels beside the pipeline, at most: an OVN packet from one logical switch by a router to another goes through two.
const LEVELS_MAX: usize = 2;
/// Clones inside of each other that jumps of a packet stand for, at most, and calls: fewer than are allowed, as lists may have
/// more of both.
pub(crate) const CLONES_MAX: u32 = 12;
const CALLS_MAX: u32 = 48;

/// What there is of levels.
pub(super) struct Tails {
    /// By block of the pipeline.
    quiet: Vec<Option<Conditions>>,
    /// Of all lists that jumps have left out.
    conditions: Conditions,
    /// By level, from the first one beside the pipeline: its copy, if some jump leads there.
    levels: Vec<usize>,
    /// Where copies end.
    pub(super) end: Label,
    /// Which level is being laid out, and which block of it.
    pub(super) place: Option<(usize, BlockId)>,
    /// Stands for the conditions.
    loud: MetaId,
    /// Count jumps.
    clones: MetaId,
    calls: MetaId,
    /// Some jump was laid.
    used: bool,
}

impl Tails {
    pub(super) fn new(program: &Program, end: Label, metadata: &mut Vec<MetaField>) -> Tails {
        let mut meta = |name: &str, width| {
            metadata.push(MetaField { name: name.to_owned(), width });
            MetaId(metadata.len() as u32 - 1)
        };
        Tails {
            quiet: quiet::blocks(program),
            conditions: Conditions::default(),
            levels: Vec::new(),
            end,
            place: None,
            loud: meta("loud@", 1),
            clones: meta("clones@", 8),
            calls: meta("calls@", 8),
            used: false,
        }
    }

    /// There is nothing to lay out again without levels for.
    pub(super) fn holds(&self) -> bool {
        self.conditions.holds()
    }

    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// Puts the conditions where they are asked.
    pub(super) fn resolve(&self, e: &mut Expr) {
        if *e == Expr::meta(self.loud) {
            *e = self.conditions.loud();
        }
    }
}

/// A clone whose copy calls something.
pub(super) fn is_clone(op: &Op) -> bool {
    let Op::OnCopy { body } = op else { return false };
    super::any(body, &|op| matches!(op, Op::Call { guise: None, .. }))
}

impl Lay<'_> {
    /// Nobody sees what follows in a list, and behind it, to the end of the pass. Its conditions are then asked at ends.
    fn is_last(&mut self, copy: usize, rest: &[Op], end: End) -> bool {
        let Some(tails) = &self.tails else { return false };
        if tails.levels.len() < LEVELS_MAX && self.copies.len() >= super::COPIES_MAX {
            return false;
        }
        let Some(conditions) = self.follows(copy, rest, end) else { return false };
        if let Some(tails) = &mut self.tails {
            tails.conditions.join(&conditions);
        }
        true
    }

    fn follows(&self, copy: usize, rest: &[Op], end: End) -> Option<Conditions> {
        let tails = self.tails.as_ref()?;
        let (mut all, ends) = quiet::list(rest)?;
        let Copy { back, level, rest, end: behind, from, .. } = &self.copies[copy];
        let is_level = *level > 0 && tails.levels.get(level - 1) == Some(&copy);
        if !ends {
            let label = match end {
                End::To(label) => label,
                End::Of(block) => match &self.program.blocks[block.index()].end {
                    Terminator::Exit => back.map(|(back, _)| back),
                    Terminator::Jump(to) => self.on(copy, block, *to),
                    _ => return None,
                },
            };
            if let Some(label) = label
                && label != tails.end
                && back.is_none_or(|(back, _)| back != label)
            {
                let found = self.copies[copy].labels.iter().find(|(_, own)| **own == label)?;
                all.join(tails.quiet[found.0.index()].as_ref()?);
            }
        }
        // Behind the call that this is a copy for.
        if !is_level && back.is_some() {
            let end = End::To(*behind);
            all.join(&self.follows(*from, rest, end)?);
        }
        Some(all)
    }

    /// The copy is the pipeline, or a level.
    pub(super) fn is_level(&self, copy: usize) -> bool {
        copy == 0 || self.tails.as_ref().is_some_and(|tails| tails.levels.contains(&copy))
    }

    /// The copy that is a level.
    fn level(&mut self, level: usize) -> Option<usize> {
        let tails = self.tails.as_ref()?;
        if level == 0 || level > LEVELS_MAX {
            return None;
        }
        let end = tails.end;
        let quiet: Vec<bool> = tails.quiet.iter().map(Option::is_some).collect();
        while self.tails.as_ref()?.levels.len() < level {
            let loud = (0..quiet.len()).filter(|block| !quiet[*block]);
            let blocks: Vec<BlockId> = loud.map(|block| BlockId(block as u32)).collect();
            // No block is where it is over.
            let over = BlockId(u32::MAX);
            let copy = self.copy(&blocks, Some((end, over)), 0);
            let labels = &mut self.copies[copy].labels;
            let quiet = quiet.iter().zip(0..).filter(|(quiet, _)| **quiet);
            labels.extend(quiet.map(|(_, block)| (BlockId(block), end)));
            let tails = self.tails.as_mut()?;
            tails.levels.push(copy);
            self.copies[copy].level = tails.levels.len();
        }
        self.tails.as_ref()?.levels.get(level - 1).copied()
    }

    /// Lays the levels out that jumps lead to, and what ends copies.
    pub(super) fn levels(&mut self) {
        let mut level = 0;
        while let Some(copy) = self.tails.as_ref().and_then(|tails| tails.levels.get(level)) {
            let copy = *copy;
            let quiet =
                |block: &usize| self.tails.as_ref().is_some_and(|t| t.quiet[*block].is_none());
            let loud = (0..self.program.blocks.len()).filter(quiet);
            let blocks: Vec<BlockId> = loud.map(|block| BlockId(block as u32)).collect();
            self.blocks(copy, &blocks);
            level += 1;
        }
        let Some(tails) = &self.tails else { return };
        if !tails.used {
            return;
        }
        let (label, loud) = (tails.end, Expr::meta(tails.loud));
        let leaves = Op::If { condition: loud, then: vec![self.given_up()], or_else: Vec::new() };
        self.put(label, vec![leaves, super::idle()], Terminator::Exit);
    }

    /// Gives the packet up where it has come by too many jumps, or, into a clone, where lists are not quiet.
    fn jump(&mut self, clone: bool) -> Vec<Op> {
        let given_up = self.given_up();
        let Some(tails) = &mut self.tails else { return Vec::new() };
        tails.used = true;
        let (count, most) = match clone {
            true => (tails.clones, CLONES_MAX),
            false => (tails.calls, CALLS_MAX),
        };
        let many = Expr::binary(BinaryOp::Ge, Expr::meta(count), Expr::int(most.into(), 8));
        let leaves =
            |condition| Op::If { condition, then: vec![given_up.clone()], or_else: vec![] };
        let mut ops = vec![leaves(many)];
        if clone {
            ops.push(leaves(Expr::meta(tails.loud)));
        }
        let more = Expr::binary(BinaryOp::Add, Expr::meta(count), Expr::int(1, 8));
        ops.push(Op::Assign(FieldRef::Meta(count), more));
        ops
    }

    /// A clone of this body, behind which nothing follows, becomes a jump: what is done before, and to what is still to be laid out.
    pub(super) fn tail_of_clone(
        &mut self,
        copy: usize,
        op: &Op,
        rest: &[Op],
        end: Option<End>,
    ) -> Option<(Vec<Op>, Label, Called)> {
        let Op::OnCopy { body } = op else { return None };
        if !is_clone(op) || !self.is_last(copy, rest, end?) {
            return None;
        }
        let level = self.level(self.copies[copy].level.max(1))?;
        let ops = self.jump(true);
        let label = self.label();
        let end = self.tails.as_ref().map(|tails| tails.end);
        let called = Called { copy: level, rest: body.clone(), end, tail: Some(label) };
        Some((ops, label, called))
    }

    /// A call on a copy, behind which nothing follows, becomes a jump.
    pub(super) fn tail_of_call(
        &mut self,
        copy: usize,
        op: &Op,
        rest: &[Op],
        end: Option<End>,
    ) -> Option<(Vec<Op>, Label)> {
        let Op::Call { block, until, guise: None, .. } = op else { return None };
        let level = self.copies[copy].level;
        let quiet = |block: &BlockId| {
            let tails = self.tails.as_ref();
            tails.is_some_and(|t| t.quiet.get(block.index()).is_none_or(Option::is_some))
        };
        // Nothing is done from where the call is over on, so that it need not be over there.
        if level == 0 || until > block && !quiet(until) || !self.is_last(copy, rest, end?) {
            return None;
        }
        let place = self.tails.as_ref()?.place;
        let later = place.is_none_or(|(at, from)| at < level || *block > from);
        let to = self.level(if later { level } else { level + 1 })?;
        let label = *self.copies[to].labels.get(block)?;
        Some((self.jump(false), label))
    }
}
