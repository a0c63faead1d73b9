//! Headers that a parser makes valid or invalid, or copies.
//!
//! A parser of the pipeline language makes headers valid by extracting them, and in no other way. What
//! else happens to a header in a parser is kept beside it: a state ([`UNTOUCHED`], [`MADE`], [`GONE`]) and a
//! shadow of each field, in metadata. Once all states are there, [`apply`] has every read and write of such a
//! header in the parser go to where its value then is, and the first block of the controls makes the header
//! what its state and shadows say ([`made_steps`](Lower::made_steps)).

use super::tree::Step;
use super::value::{binary, mux};
use super::{Lower, Result};
use crate::source::Span;
use ir::program::{ParserOp, Transition};
use ir::{BinaryOp, Bits, Expr, FieldId, FieldRef, HeaderId, MetaId, Op, Program};
use std::collections::BTreeMap;

/// As it was extracted, or not.
const UNTOUCHED: u128 = 0;
/// Valid, its fields being the shadows.
const MADE: u128 = 1;
/// Invalid.
const GONE: u128 = 2;

/// What is kept beside a header.
#[derive(Clone, Debug)]
pub(super) struct Made {
    span: Span,
    state: MetaId,
    shadows: Vec<MetaId>,
}

impl Made {
    fn is(&self, state: u128) -> Expr {
        binary(BinaryOp::Eq, Expr::meta(self.state), Expr::int(state, 2))
    }

    fn set(&self, state: Expr) -> ParserOp {
        ParserOp::Assign(FieldRef::Meta(self.state), state)
    }
}

impl Lower<'_> {
    fn made(&mut self, header: HeaderId, span: Span) -> Result<Made> {
        if let Some(made) = self.v1.made.get(&header) {
            return Ok(made.clone());
        }
        let program = self.b.program();
        let instance = &program.headers[header.index()];
        let (name, ty) = (instance.name.clone(), program.type_of(header).clone());
        if ty.fields.iter().any(|f| f.varbit) {
            return self.refuse(
                span,
                "a parser that changes the validity of a header with a varbit field, or copies to one, is not supported",
            );
        }
        let state = self.unique(&format!("made.{name}"));
        let state = self.b.meta(&state, 2);
        let mut shadows = Vec::new();
        for f in &ty.fields {
            let name = self.unique(&format!("made.{name}.{}", f.name));
            shadows.push(self.b.meta(&name, f.width));
        }
        let made = Made { span, state, shadows };
        self.v1.made.insert(header, made.clone());
        Ok(made)
    }

    /// `setValid` and `setInvalid` in a parser.
    pub(super) fn parser_valid(
        &mut self,
        header: HeaderId,
        valid: bool,
        ops: &mut Vec<ParserOp>,
        span: Span,
    ) -> Result<()> {
        let made = self.made(header, span)?;
        let state = match valid {
            // What is valid already stays as it is.
            true => mux(
                binary(BinaryOp::LogicalAnd, made.is(UNTOUCHED), Expr::Valid(header)),
                Expr::int(UNTOUCHED, 2),
                Expr::int(MADE, 2),
            ),
            false => Expr::int(GONE, 2),
        };
        ops.push(made.set(state));
        Ok(())
    }

    /// `to = from` of headers in a parser.
    pub(super) fn parser_copy(
        &mut self,
        to: HeaderId,
        from: HeaderId,
        ops: &mut Vec<ParserOp>,
        span: Span,
    ) -> Result<()> {
        let made = self.made(to, span)?;
        for (i, shadow) in (0..).zip(&made.shadows) {
            let value = Expr::header(from, FieldId(i));
            ops.push(ParserOp::Assign(FieldRef::Meta(*shadow), value));
        }
        ops.push(made.set(mux(Expr::Valid(from), Expr::int(MADE, 2), Expr::int(GONE, 2))));
        Ok(())
    }

    /// Elements of a stack that the parser also counts (`next`, `last`, `lastIndex`) are not made: the
    /// pipeline language counts what was extracted.
    pub(super) fn made_stacks(&mut self) -> Result<()> {
        let program = self.b.program();
        let mut counted = Vec::new();
        let mut look = |e: &Expr| {
            e.visit(&mut |e| {
                if let Expr::StackSize(s) | Expr::Field(FieldRef::Last(s, _)) = e {
                    counted.push(*s);
                }
            });
        };
        let mut next = Vec::new();
        for state in &program.parser {
            for op in &state.ops {
                match op {
                    ParserOp::Extract { varbit, .. } => varbit.iter().for_each(&mut look),
                    ParserOp::ExtractNext { stack, varbit } => {
                        next.push(*stack);
                        varbit.iter().for_each(&mut look);
                    }
                    ParserOp::Advance(e) | ParserOp::Assign(_, e) | ParserOp::Verify(e, _) => {
                        look(e)
                    }
                }
            }
            if let Transition::Select { keys, .. } = &state.next {
                keys.iter().for_each(&mut look);
            }
        }
        counted.extend(next);
        let both = self.v1.made.iter().find(|(h, _)| {
            let stack = program.headers[h.index()].stack;
            stack.is_some_and(|(s, _)| counted.contains(&s))
        });
        match both.map(|(_, made)| made.span) {
            Some(span) => self.refuse(
                span,
                "a parser that copies to elements of a stack and also extracts its `next` or reads its `last` is not supported",
            ),
            None => Ok(()),
        }
    }

    /// What makes headers of their states and shadows, once the parser is done.
    pub(super) fn made_steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (h, made) in &self.v1.made {
            let mut then = vec![Step::Op(Op::SetValid(*h))];
            for (i, shadow) in (0..).zip(&made.shadows) {
                let field = FieldRef::Header(*h, FieldId(i));
                then.push(Step::Op(Op::Assign(field, Expr::meta(*shadow))));
            }
            steps.push(Step::If(made.is(MADE), then, Vec::new()));
            let gone = vec![Step::Op(Op::SetInvalid(*h))];
            steps.push(Step::If(made.is(GONE), gone, Vec::new()));
        }
        steps
    }
}

/// Has the parser read and write such headers where their values are.
pub(super) fn apply(program: &mut Program, made: &BTreeMap<HeaderId, Made>) {
    if made.is_empty() {
        return;
    }
    for state in &mut program.parser {
        let mut ops = Vec::new();
        for mut op in std::mem::take(&mut state.ops) {
            match &mut op {
                ParserOp::Extract { varbit, .. } | ParserOp::ExtractNext { varbit, .. } => {
                    varbit.iter_mut().for_each(|e| read(e, made));
                }
                ParserOp::Advance(e) | ParserOp::Assign(_, e) | ParserOp::Verify(e, _) => {
                    read(e, made);
                }
            }
            let after = match &op {
                ParserOp::Extract { header, .. } => {
                    made.get(header).map(|m| m.set(Expr::int(UNTOUCHED, 2)))
                }
                ParserOp::Assign(FieldRef::Header(h, f), e) => made
                    .get(h)
                    .and_then(|m| m.shadows.get(f.index()))
                    .map(|shadow| ParserOp::Assign(FieldRef::Meta(*shadow), e.clone())),
                _ => None,
            };
            // The shadow first: its new value may be made of what the header's field was.
            if matches!(op, ParserOp::Assign(..)) {
                ops.extend(after);
                ops.push(op);
            } else {
                ops.push(op);
                ops.extend(after);
            }
        }
        state.ops = ops;
        if let Transition::Select { keys, .. } = &mut state.next {
            keys.iter_mut().for_each(|e| read(e, made));
        }
    }
    // A pass that begins anew with metadata of another begins with headers that nothing was done to.
    if let Some(first) = program.parser.first_mut() {
        let clear = made.values().map(|m| m.set(Expr::Const(Bits::zero(2))));
        first.ops.splice(0..0, clear);
    }
}

/// Has an expression of the parser read such headers where their values are.
fn read(e: &mut Expr, made: &BTreeMap<HeaderId, Made>) {
    match e {
        Expr::Field(FieldRef::Header(h, f)) => {
            if let Some(m) = made.get(h)
                && let Some(shadow) = m.shadows.get(f.index())
            {
                *e = mux(m.is(MADE), Expr::meta(*shadow), e.clone());
            }
        }
        Expr::Valid(h) => {
            if let Some(m) = made.get(h) {
                let kept = binary(BinaryOp::LogicalAnd, m.is(UNTOUCHED), e.clone());
                *e = binary(BinaryOp::LogicalOr, m.is(MADE), kept);
            }
        }
        Expr::Const(_)
        | Expr::Field(_)
        | Expr::Param(_)
        | Expr::StackSize(_)
        | Expr::Lookahead { .. }
        | Expr::Remaining => {}
        Expr::Slice(e, _, _) | Expr::Cast(e, _) | Expr::SignCast(e, _) | Expr::Unary(_, e) => {
            read(e, made);
        }
        Expr::Binary(_, a, b) => {
            read(a, made);
            read(b, made);
        }
        Expr::Mux(c, a, b) => {
            read(c, made);
            read(a, made);
            read(b, made);
        }
        Expr::Hash { inputs, .. } => inputs.iter_mut().for_each(|e| read(e, made)),
    }
}
