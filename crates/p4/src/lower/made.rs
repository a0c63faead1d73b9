//! Headers that a parser makes valid or invalid, or copies; stacks that it counts itself.
//!
//! A parser of the pipeline language makes headers valid by extracting them, and in no other way. What
//! else happens to a header in a parser is kept beside it: a state ([`UNTOUCHED`], [`MADE`], [`GONE`]) and a
//! shadow of each field, in metadata. Once all states are there, [`forget_made`](Lower::forget_made) leaves out
//! what makes headers invalid that no way to there makes valid; [`apply`] has every read and write of such a
//! header in the parser go to where its value then is, and the first block of the controls makes the header
//! what its state and shadows say ([`made_steps`](Lower::made_steps)).
//!
//! A stack's `next` and `last` are those of the pipeline language, which counts valid elements, as long as the
//! parser fills it by `next` alone. A stack whose elements it also changes otherwise is counted in metadata, and
//! an element that `next` or `last` means is a choice among all. Which stacks these are is known when the
//! parser is written; then it is written once more ([`made_stacks`](Lower::made_stacks)).

use super::counted::Made;
use super::fold::{binary, mux};
use super::step::Step;
use super::{Lower, Result};
use crate::source::Span;
use ir::program::{ParserOp, ParserState, Transition};
use ir::{BinaryOp, Bits, Expr, FieldId, FieldRef, HeaderId, MetaId, Op, Program};
use std::collections::{BTreeMap, HashMap, HashSet};

/// As it was extracted, or not.
const UNTOUCHED: u128 = 0;
/// Valid, its fields being the shadows.
const MADE: u128 = 1;
/// Invalid.
const GONE: u128 = 2;

impl Lower<'_> {
    fn made(&mut self, header: HeaderId) -> Made {
        if let Some(made) = self.v1.made.get(&header) {
            return made.clone();
        }
        let program = self.b.program();
        let instance = &program.headers[header.index()];
        let (name, ty) = (instance.name.clone(), program.type_of(header).clone());
        let state = self.unique(&format!("made.{name}"));
        let state = self.b.meta(&state, 2);
        let mut shadows = Vec::new();
        for f in &ty.fields {
            let name = self.unique(&format!("made.{name}.{}", f.name));
            shadows.push((!f.varbit).then(|| self.b.meta(&name, f.width)));
        }
        let made = Made { state, shadows };
        self.v1.made.insert(header, made.clone());
        made
    }

    /// The other members of a header's union.
    fn siblings(&self, header: HeaderId) -> Vec<HeaderId> {
        siblings(self.b.program(), header)
    }

    /// `setValid`, `setInvalid` and a copy of a header in a parser, `when` a condition holds.
    pub(super) fn parser_header(
        &mut self,
        op: &Op,
        when: Option<&Expr>,
        ops: &mut Vec<ParserOp>,
        span: Span,
    ) -> Result<()> {
        let only = |new: Expr, old: Expr| match when {
            Some(condition) => mux(condition.clone(), new, old),
            None => new,
        };
        let made = Expr::int(MADE, 2);
        let gone = Expr::int(GONE, 2);
        match op {
            Op::SetInvalid(header) => {
                let m = self.made(*header);
                ops.push(m.set(only(gone, Expr::meta(m.state))));
            }
            Op::SetValid(header) => {
                let m = self.made(*header);
                // What is valid already stays as it is.
                let kept = binary(BinaryOp::LogicalAnd, m.is(UNTOUCHED), Expr::Valid(*header));
                let state = mux(kept, Expr::int(UNTOUCHED, 2), made);
                ops.push(m.set(only(state, Expr::meta(m.state))));
                for other in self.siblings(*header) {
                    let m = self.made(other);
                    ops.push(m.set(only(gone.clone(), Expr::meta(m.state))));
                }
            }
            Op::CopyHeader { to, from } => {
                if self.b.program().type_of(*to).fields.iter().any(|f| f.varbit) {
                    return self.refuse(
                        span,
                        "a parser that copies to a header with a varbit field is not supported; copy it in a control",
                    );
                }
                let m = self.made(*to);
                for (i, shadow) in (0..).zip(&m.shadows) {
                    let Some(shadow) = shadow else { continue };
                    let value = only(Expr::header(*from, FieldId(i)), Expr::meta(*shadow));
                    ops.push(ParserOp::Assign(FieldRef::Meta(*shadow), value));
                }
                // Whether it is valid is read before another member of its union goes.
                let siblings = self.siblings(*to);
                for other in siblings.iter().filter(|s| *s != from) {
                    let m = self.made(*other);
                    let state = mux(Expr::Valid(*from), gone.clone(), Expr::meta(m.state));
                    ops.push(m.set(only(state, Expr::meta(m.state))));
                }
                let state = mux(Expr::Valid(*from), made, gone.clone());
                ops.push(m.set(only(state, Expr::meta(m.state))));
                if siblings.contains(from) {
                    let m = self.made(*from);
                    ops.push(m.set(only(gone, Expr::meta(m.state))));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Leaves out what makes a header invalid that is so already on every way to there: most headers that are
    /// declared, or `out` parameters, when they begin.
    pub(super) fn forget_made(&mut self) {
        if self.v1.made.is_empty() {
            return;
        }
        let program = self.b.program();
        let places: HashMap<HeaderId, usize> =
            self.v1.made.keys().enumerate().map(|(i, h)| (*h, i)).collect();
        let of_state: HashMap<MetaId, usize> =
            self.v1.made.values().enumerate().map(|(i, m)| (m.state, i)).collect();
        // By state of the parser: headers that may have been touched before.
        let mut before: Vec<Option<Vec<bool>>> = vec![None; program.parser.len()];
        let mut waiting = Vec::new();
        if let Some(first) = before.first_mut() {
            *first = Some(vec![false; places.len()]);
            waiting.push(0);
        }
        let gone = Expr::int(GONE, 2);
        // What an operation does; true if it makes a header invalid that is untouched.
        let step = |op: &ParserOp, touched: &mut [bool]| -> bool {
            match op {
                ParserOp::Extract { header, .. } => {
                    if let Some(i) = places.get(header) {
                        touched[*i] = true;
                    }
                }
                ParserOp::ExtractNext { stack, .. } => {
                    let stack = &program.stacks[stack.index()];
                    for h in stack.first.0..stack.first.0 + stack.size {
                        if let Some(i) = places.get(&HeaderId(h)) {
                            touched[*i] = true;
                        }
                    }
                }
                ParserOp::Assign(FieldRef::Meta(m), e) => {
                    if let Some(i) = of_state.get(m) {
                        return !std::mem::replace(&mut touched[*i], *e != gone) && *e == gone;
                    }
                }
                _ => {}
            }
            false
        };
        while let Some(at) = waiting.pop() {
            let Some(mut touched) = before[at].clone() else { continue };
            let state = &program.parser[at];
            state.ops.iter().for_each(|op| {
                step(op, &mut touched);
            });
            each_target(&state.next, &mut |to| {
                let more = match &mut before[to] {
                    Some(known) => {
                        let new = known.iter().zip(&touched).any(|(k, t)| *t && !k);
                        known.iter_mut().zip(&touched).for_each(|(k, t)| *k |= t);
                        new
                    }
                    none => {
                        *none = Some(touched.clone());
                        true
                    }
                };
                if more {
                    waiting.push(to);
                }
            });
        }
        let mut kept: Vec<ParserState> = program.parser.clone();
        let mut used: HashSet<MetaId> = HashSet::new();
        for (state, touched) in kept.iter_mut().zip(before) {
            let mut touched = touched.unwrap_or_else(|| vec![false; places.len()]);
            state.ops.retain(|op| !step(op, &mut touched));
            for op in &state.ops {
                if let ParserOp::Assign(FieldRef::Meta(m), _) = op {
                    used.insert(*m);
                }
            }
        }
        for (i, state) in (0..).zip(kept) {
            self.b.set_state(ir::ParserStateId(i), state.ops, state.next);
        }
        self.v1.made.retain(|_, m| used.contains(&m.state));
    }

    /// Has the parser written anew, with stacks of its own, if it asks the pipeline language's for `next`, `last`
    /// or `lastIndex` and also makes elements otherwise: those are counted as they are extracted.
    pub(super) fn made_stacks(&mut self) -> Result<()> {
        let program = self.b.program();
        let mut counted = HashSet::new();
        let mut look = |e: &Expr| {
            e.visit(&mut |e| {
                if let Expr::StackSize(s) | Expr::Field(FieldRef::Last(s, _)) = e {
                    counted.insert(*s);
                }
            });
        };
        let mut next = HashSet::new();
        let mut other: HashSet<HeaderId> = self.v1.made.keys().copied().collect();
        for state in &program.parser {
            for op in &state.ops {
                match op {
                    ParserOp::Extract { header, varbit } => {
                        other.insert(*header);
                        varbit.iter().for_each(&mut look);
                    }
                    ParserOp::ExtractNext { stack, varbit } => {
                        next.insert(*stack);
                        varbit.iter().for_each(&mut look);
                    }
                    ParserOp::Advance(e) | ParserOp::Assign(_, e) | ParserOp::Verify(e, _) => {
                        look(e)
                    }
                }
            }
            each_key(&state.next, &mut look);
        }
        counted.extend(next);
        let both: HashSet<String> = other
            .iter()
            .filter_map(|h| program.headers[h.index()].stack)
            .filter(|(s, _)| counted.contains(s))
            .map(|(s, _)| program.stacks[s.index()].name.clone())
            .collect();
        if both.is_empty() {
            return Ok(());
        }
        let mut more = self.v1.counted.clone();
        more.names.extend(both);
        more.rounds += 1;
        self.v1.anew = Some(more);
        Err(super::Refused)
    }

    /// What makes headers of their states and shadows, once the parser is done.
    pub(super) fn made_steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        // What goes first, since a member of a union that is made valid makes the others invalid.
        for (h, made) in &self.v1.made {
            let gone = vec![Step::Op(Op::SetInvalid(*h))];
            steps.push(Step::If(made.is(GONE), gone, Vec::new()));
        }
        for (h, made) in &self.v1.made {
            let mut then = Vec::new();
            if made.shadows.iter().any(Option::is_none) {
                // Without the bits of variable width that it had.
                then.push(Step::Op(Op::SetInvalid(*h)));
            }
            then.push(Step::Op(Op::SetValid(*h)));
            for (i, shadow) in (0..).zip(&made.shadows) {
                let Some(shadow) = shadow else { continue };
                let field = FieldRef::Header(*h, FieldId(i));
                then.push(Step::Op(Op::Assign(field, Expr::meta(*shadow))));
            }
            steps.push(Step::If(made.is(MADE), then, Vec::new()));
        }
        steps
    }
}

/// The other members of a header's union.
fn siblings(program: &Program, header: HeaderId) -> Vec<HeaderId> {
    let union = program.headers[header.index()].union;
    let members = union.map(|u| program.unions[u.index()].members.clone()).unwrap_or_default();
    members.into_iter().filter(|m| *m != header).collect()
}

/// Calls `f` on every state that a transition leads to.
fn each_target(next: &Transition, f: &mut dyn FnMut(usize)) {
    match next {
        Transition::State(to) => f(to.index()),
        Transition::Select { cases, .. } => cases.iter().for_each(|c| each_target(&c.next, f)),
        Transition::Accept | Transition::Reject => {}
    }
}

/// Calls `f` on every value that a transition looks at.
fn each_key(next: &Transition, f: &mut dyn FnMut(&Expr)) {
    if let Transition::Select { keys, cases } = next {
        keys.iter().for_each(&mut *f);
        cases.iter().for_each(|c| each_key(&c.next, f));
    }
}

/// Has the parser read and write such headers where their values are, and begin with these metadata at zero.
pub(super) fn apply(program: &mut Program, made: &BTreeMap<HeaderId, Made>, zero: &[MetaId]) {
    let unions: HashMap<HeaderId, Vec<HeaderId>> = (0..program.headers.len() as u32)
        .map(HeaderId)
        .filter(|h| program.headers[h.index()].union.is_some())
        .map(|h| (h, siblings(program, h)))
        .collect();
    let parser = if made.is_empty() { &mut [][..] } else { &mut program.parser };
    for state in parser {
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
            match &op {
                ParserOp::Extract { header, .. } => {
                    // Of a union, only this member is there now.
                    let of = unions.get(header).into_iter().flatten().chain([header]);
                    let after: Vec<ParserOp> = of
                        .filter_map(|h| made.get(h))
                        .map(|m| m.set(Expr::int(UNTOUCHED, 2)))
                        .collect();
                    ops.push(op);
                    ops.extend(after);
                }
                // The shadow first: its new value may be made of what the header's field was.
                ParserOp::Assign(FieldRef::Header(h, f), e) => {
                    let shadow = made.get(h).and_then(|m| m.shadow(*f));
                    let assign = |s| ParserOp::Assign(FieldRef::Meta(s), e.clone());
                    ops.extend(shadow.map(assign));
                    ops.push(op);
                }
                _ => ops.push(op),
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
        let zero = zero.iter().map(|m| ParserOp::Assign(FieldRef::Meta(*m), Expr::int(0, 8)));
        first.ops.splice(0..0, clear.chain(zero));
    }
}

/// Has an expression of the parser read such headers where their values are.
fn read(e: &mut Expr, made: &BTreeMap<HeaderId, Made>) {
    match e {
        Expr::Field(FieldRef::Header(h, f)) => {
            if let Some(m) = made.get(h)
                && let Some(shadow) = m.shadow(*f)
            {
                *e = mux(m.is(MADE), Expr::meta(shadow), e.clone());
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
