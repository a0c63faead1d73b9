//! Every expression of a program, to be changed in place.
//!
//! For changes that keep widths and meaning elsewhere, such as another polynomial of a hash function; the
//! verifier says whether the result still is a program.

use crate::expr::Expr;
use crate::op::{Guise, Op};
use crate::program::{ParserOp, Program, Terminator, Transition};
use std::sync::Arc;

type Change<'f> = &'f mut dyn FnMut(&mut Expr);

impl Program {
    /// Calls `f` on every expression, those inside of others after them.
    pub fn exprs_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        for state in &mut self.parser {
            for op in &mut state.ops {
                match op {
                    ParserOp::Extract { varbit: Some(e), .. }
                    | ParserOp::ExtractNext { varbit: Some(e), .. }
                    | ParserOp::Advance(e)
                    | ParserOp::Assign(_, e)
                    | ParserOp::Verify(e, _) => expr(e, f),
                    ParserOp::Extract { .. } | ParserOp::ExtractNext { .. } => {}
                }
            }
            transition(&mut state.next, f);
        }
        for checksum in &mut self.checksums {
            checksum.inputs.iter_mut().chain(&mut checksum.condition).for_each(|e| expr(e, f));
        }
        for action in &mut self.actions {
            Arc::make_mut(action).body.iter_mut().for_each(|o| op(o, f));
        }
        for table in &mut self.tables {
            let mut key = table.key.to_vec();
            key.iter_mut().for_each(|k| expr(&mut k.expr, f));
            if *key != *table.key {
                table.key = key.into();
            }
        }
        for block in &mut self.blocks {
            block.ops.iter_mut().for_each(|o| op(o, f));
            if let Terminator::If { condition, .. } = &mut block.end {
                expr(condition, f);
            }
        }
    }
}

impl Op {
    /// Calls `f` on every expression of this operation and of those inside it, those inside of others after them.
    pub fn exprs_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        op(self, f);
    }
}

fn transition(next: &mut Transition, f: Change<'_>) {
    if let Transition::Select { keys, cases } = next {
        keys.iter_mut().for_each(|e| expr(e, f));
        cases.iter_mut().for_each(|case| transition(&mut case.next, f));
    }
}

fn op(o: &mut Op, f: Change<'_>) {
    match o {
        Op::Assign(_, e)
        | Op::AssignSlice(_, _, _, e)
        | Op::Output { port: e }
        | Op::Group { group: e }
        | Op::Meter { meter: e, .. }
        | Op::Count { index: e, .. }
        | Op::RegisterRead { index: e, .. }
        | Op::Truncate { length: e }
        | Op::PayloadHash { hash: e, .. }
        | Op::PortIs { port: e, .. } => expr(e, f),
        Op::Call { guise: Some(Guise { in_port, columns, .. }), .. } => {
            expr(in_port, f);
            columns.iter_mut().for_each(|(_, e)| expr(e, f));
        }
        Op::RegisterWrite { index: a, value: b, .. } | Op::Random { lo: a, hi: b, .. } => {
            expr(a, f);
            expr(b, f);
        }
        Op::Punt { args, .. } | Op::Digest { args, .. } | Op::Service { args, .. } => {
            args.iter_mut().for_each(|e| expr(e, f));
        }
        Op::Loop { condition, body } => {
            expr(condition, f);
            body.iter_mut().for_each(|o| op(o, f));
        }
        Op::If { condition, then, or_else } => {
            expr(condition, f);
            then.iter_mut().chain(or_else).for_each(|o| op(o, f));
        }
        Op::OnCopy { body } => body.iter_mut().for_each(|o| op(o, f)),
        Op::SetValid(_)
        | Op::SetInvalid(_)
        | Op::CopyHeader { .. }
        | Op::CopyVarbit { .. }
        | Op::PayloadSum { .. }
        | Op::PushFront(..)
        | Op::PopFront(..)
        | Op::Reparse
        | Op::Clone { .. }
        | Op::Call { .. }
        | Op::Resubmit { .. }
        | Op::Recirculate { .. }
        | Op::Goto(_)
        | Op::Drop(_)
        | Op::Exit => {}
    }
}

fn expr(e: &mut Expr, f: Change<'_>) {
    f(e);
    match e {
        Expr::Const(_)
        | Expr::Field(_)
        | Expr::Param(_)
        | Expr::Valid(_)
        | Expr::StackSize(_)
        | Expr::Lookahead { .. }
        | Expr::Remaining => {}
        Expr::Slice(e, _, _) | Expr::Cast(e, _) | Expr::SignCast(e, _) | Expr::Unary(_, e) => {
            expr(e, f)
        }
        Expr::Binary(_, a, b) => {
            expr(a, f);
            expr(b, f);
        }
        Expr::Mux(c, a, b) => {
            expr(c, f);
            expr(a, f);
            expr(b, f);
        }
        Expr::Hash { inputs, .. } => inputs.iter_mut().for_each(|e| expr(e, f)),
    }
}

#[cfg(test)]
mod tests {
    use crate::expr::{Expr, HashAlgorithm};

    /// No change is no change; and what is changed everywhere is left nowhere.
    #[test]
    fn every_expression_is_reached() {
        let mut hashes = 0;
        for seed in 0..200 {
            let program = crate::testing::program(seed);
            let mut changed = program.clone();
            changed.exprs_mut(&mut |_| ());
            assert_eq!(changed, program);
            changed.exprs_mut(&mut |e| {
                if let Expr::Hash { algorithm, .. } = e {
                    *algorithm = HashAlgorithm::Identity;
                    hashes += 1;
                }
            });
            let printed = crate::text::print_program(&changed);
            assert_eq!(printed.matches("hash(").count(), printed.matches("hash(identity").count());
        }
        assert!(hashes > 100);
    }
}
