//! What follows a clone, or a call, and does nothing that anyone sees.
//!
//! ```text
//! clone(..; call t8; called = called - 1); reg3 = 7      nothing is sent behind it, whatever reg3 is
//! ```
//!
//! Quiet is a list that only writes metadata, or looks at it to choose between such lists. Where one side of a choice does
//! more, the list is quiet as long as control does not go there: under a condition, which is to be false.
//!
//! Holds true: conditions look at metadata alone; of quiet lists that share them, none writes what they look at
//! ([`Conditions::holds`]).

use ir::{BlockId, Expr, FieldRef, MetaId, Op, Program, Terminator};
use std::collections::BTreeSet;

/// What has to be false for quiet lists to be quiet, and what these write.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    loud: Vec<Expr>,
    written: BTreeSet<MetaId>,
}

impl Conditions {
    pub(super) fn join(&mut self, other: &Conditions) {
        for condition in &other.loud {
            if !self.loud.contains(condition) {
                self.loud.push(condition.clone());
            }
        }
        self.written.extend(&other.written);
    }

    /// One bit: some list is not quiet.
    pub(super) fn loud(&self) -> Expr {
        let all = self.loud.iter().cloned();
        all.reduce(Expr::or).unwrap_or(Expr::bool(false))
    }

    /// Whatever is asked behind a quiet list could be asked in front of it.
    pub(super) fn holds(&self) -> bool {
        let mut read = BTreeSet::new();
        for condition in &self.loud {
            condition.visit(&mut |e| {
                if let Expr::Field(FieldRef::Meta(meta)) = e {
                    read.insert(*meta);
                }
            });
        }
        read.is_disjoint(&self.written)
    }

    fn ask(&mut self, condition: Expr) -> Option<()> {
        let mut metadata = true;
        condition.visit(&mut |e| {
            metadata &= match e {
                Expr::Field(field) => matches!(field, FieldRef::Meta(_)),
                Expr::Param(_) | Expr::Valid(_) | Expr::StackSize(_) => false,
                Expr::Lookahead { .. } | Expr::Remaining | Expr::Hash { .. } => false,
                _ => true,
            };
        });
        if metadata && !self.loud.contains(&condition) {
            self.loud.push(condition);
        }
        metadata.then_some(())
    }
}

/// A quiet list's conditions, and whether the pass ends in it whichever way control takes. None if it is not quiet.
pub(super) fn list(ops: &[Op]) -> Option<(Conditions, bool)> {
    let mut all = Conditions::default();
    for op in ops {
        match op {
            Op::Assign(FieldRef::Meta(meta), _) | Op::AssignSlice(FieldRef::Meta(meta), ..) => {
                all.written.insert(*meta);
            }
            Op::Exit => return Some((all, true)),
            Op::If { condition, then, or_else } => {
                let ends = match (list(then), list(or_else)) {
                    (Some((then, ends)), Some((or_else, also))) => {
                        all.join(&then);
                        all.join(&or_else);
                        ends && also
                    }
                    (Some((then, ends)), None) => {
                        all.join(&then);
                        all.ask(condition.clone().not())?;
                        ends
                    }
                    (None, Some((or_else, ends))) => {
                        all.join(&or_else);
                        all.ask(condition.clone())?;
                        ends
                    }
                    (None, None) => return None,
                };
                if ends {
                    return Some((all, true));
                }
            }
            _ => return None,
        }
    }
    Some((all, false))
}

/// By block: under which conditions it, and all that follows it to the end of the pass, is quiet; none for one that is not.
pub(super) fn blocks(program: &Program) -> Vec<Option<Conditions>> {
    let mut all: Vec<Option<Conditions>> = vec![None; program.blocks.len()];
    for (at, block) in program.blocks.iter().enumerate().rev() {
        all[at] = one(&all, at, &block.ops, &block.end);
    }
    all
}

fn one(all: &[Option<Conditions>], at: usize, ops: &[Op], end: &Terminator) -> Option<Conditions> {
    let (mut own, ends) = list(ops)?;
    // What does not lead on ends the pass.
    let to = |block: &BlockId| match block.index() > at {
        true => all.get(block.index()).cloned().flatten(),
        false => Some(Conditions::default()),
    };
    match end {
        _ if ends => {}
        Terminator::Exit => {}
        Terminator::Jump(next) => own.join(&to(next)?),
        Terminator::If { condition, then, or_else } => match (to(then), to(or_else)) {
            (Some(then), Some(or_else)) => {
                own.join(&then);
                own.join(&or_else);
            }
            (Some(quiet), None) => {
                own.join(&quiet);
                own.ask(condition.clone().not())?;
            }
            (None, Some(quiet)) => {
                own.join(&quiet);
                own.ask(condition.clone())?;
            }
            (None, None) => return None,
        },
        Terminator::Apply { .. } => return None,
    }
    Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::DropReason;

    fn meta(n: u32) -> Expr {
        Expr::meta(MetaId(n))
    }

    fn set(n: u32) -> Op {
        Op::Assign(FieldRef::Meta(MetaId(n)), Expr::int(1, 1))
    }

    fn when(condition: Expr, then: Vec<Op>) -> Op {
        Op::If { condition, then, or_else: Vec::new() }
    }

    #[test]
    fn lists_that_only_write_metadata_are_quiet() {
        let (conditions, ends) = list(&[set(9), when(meta(8), vec![set(10)])]).unwrap();
        assert!(!ends && conditions.holds() && conditions.loud() == Expr::bool(false));
        assert!(list(&[set(9), Op::Output { port: Expr::int(1, 32) }]).is_none());
        assert!(list(&[Op::Drop(DropReason::Meter)]).is_none());
        // What is behind an end does not matter.
        assert!(list(&[Op::Exit, Op::Drop(DropReason::Meter)]).unwrap().1);
    }

    #[test]
    fn what_is_louder_on_one_side_is_a_condition() {
        let drop = when(meta(8), vec![Op::Drop(DropReason::Meter)]);
        let (conditions, _) = list(&[set(9), drop.clone()]).unwrap();
        assert_eq!(conditions.loud(), meta(8));
        assert!(conditions.holds());
        // It is not what it was in front.
        assert!(!list(&[set(8), drop]).unwrap().0.holds());
        // Nobody else knows an action's arguments.
        assert!(list(&[when(Expr::Param(0), vec![Op::Drop(DropReason::Meter)])]).is_none());
    }
}
