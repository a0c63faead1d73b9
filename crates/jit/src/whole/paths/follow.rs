//! What operations do to what is known: from where code goes on to where it asks for something.
//!
//! Code asks ([`super::super::site`]) at calls, copies and services, its *stops*. In between nobody sees what it does, so
//! each stretch is followed by facts alone, by way of the branches that may lead from one stop to the next.

use super::super::layout::Layout;
use super::facts::{About, Facts, Subjects};
use ir::{BinaryOp, BlockId, DropReason, Expr, FieldRef, HeaderId, MetaId, Op, UnaryOp};
use opt::known::Known;
use std::ops::Range;

/// Where a stretch begins. Operations have numbers in the order in which they are written, those inside of another
/// one behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// At the first operation.
    Start,
    /// Behind this one, which is a stop. The service has changed the packet.
    Behind { stop: u32, changed: bool },
    /// At the first operation inside of this one.
    Inside(u32),
}

/// A word of metadata that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) word: u32,
    /// Bits that stay.
    pub(crate) keep: u64,
    /// What the others become.
    pub(crate) value: u64,
}

/// What a list of operations comes to that writes constants to bits of metadata, and nothing else.
#[derive(Debug, Default)]
pub(super) struct Folded {
    pub(super) writes: Vec<Write>,
    pub(super) goto: Option<BlockId>,
    /// The pass ends: with a drop, for this reason.
    pub(super) end: Option<Option<DropReason>>,
}

impl Folded {
    /// Adds a write behind the others.
    pub(super) fn write(writes: &mut Vec<Write>, new: Write) {
        match writes.iter_mut().find(|known| known.word == new.word) {
            Some(known) => {
                known.value = known.value & new.keep | new.value;
                known.keep &= new.keep;
            }
            None => writes.push(new),
        }
    }
}

/// Follows operations.
pub(super) struct Follow<'a> {
    pub(super) layout: &'a Layout,
    pub(super) subjects: &'a Subjects,
    /// What is known of the action's arguments.
    pub(super) args: &'a [Known],
}

/// One walk.
struct Walk<'a, 'f> {
    of: &'f Follow<'a>,
    from: Option<Begin>,
    to: Option<u32>,
    arrived: Option<Facts>,
    /// What is known where the pass ends.
    ended: Option<Facts>,
    /// As long as nothing but constants was written.
    folded: Option<Folded>,
}

/// Code asks for something there that others may follow, or that it must not be known to have done.
pub(super) fn is_stop(op: &Op) -> bool {
    matches!(
        op,
        Op::Call { .. }
            | Op::OnCopy { .. }
            | Op::Clone { .. }
            | Op::Group { .. }
            | Op::Service { .. }
    )
}

/// A site of this operation may be this stop's. Sites of copies are without what these do.
pub(super) fn alike(stop: &Op, site: &Op) -> bool {
    match (stop, site) {
        (Op::OnCopy { .. }, Op::OnCopy { .. }) => true,
        _ => stop == site,
    }
}

/// How many operations these are, those inside of them included.
fn count(ops: &[Op]) -> u32 {
    let mut n = 0;
    ops.iter().for_each(|op| op.visit(&mut |_| n += 1));
    n
}

/// The numbers of an operation and of all inside it.
fn numbers(op: &Op, first: u32) -> Range<u32> {
    let mut n = 0;
    op.visit(&mut |_| n += 1);
    first..first + n
}

/// The stops of a list, by number.
pub(super) fn stops(ops: &[Op]) -> Vec<(u32, &Op)> {
    fn list<'a>(ops: &'a [Op], n: &mut u32, all: &mut Vec<(u32, &'a Op)>) {
        for op in ops {
            if is_stop(op) {
                all.push((*n, op));
            }
            *n += 1;
            match op {
                Op::If { then, or_else, .. } => {
                    list(then, n, all);
                    list(or_else, n, all);
                }
                Op::Loop { body, .. } | Op::OnCopy { body } => list(body, n, all),
                _ => {}
            }
        }
    }
    let mut all = Vec::new();
    list(ops, &mut 0, &mut all);
    all
}

impl<'a> Follow<'a> {
    /// What is known at the stop of number `to`, or behind all; none if no packet comes there.
    pub(super) fn to(
        &self,
        ops: &[Op],
        facts: Facts,
        from: Begin,
        to: Option<u32>,
    ) -> Option<Facts> {
        let from = (from != Begin::Start).then_some(from);
        let mut walk = Walk { of: self, from, to, arrived: None, ended: None, folded: None };
        let end = walk.list(ops, 0, Some(facts));
        match to {
            Some(_) => walk.arrived,
            // A list in which it does not begin says nothing.
            None => end.filter(|_| walk.from.is_none()),
        }
    }

    /// What is known behind all, and where the pass ends in between; of a list without stops.
    pub(super) fn ends(&self, ops: &[Op], facts: Facts) -> (Option<Facts>, Option<Facts>) {
        let mut walk =
            Walk { of: self, from: None, to: None, arrived: None, ended: None, folded: None };
        (walk.list(ops, 0, Some(facts)), walk.ended)
    }

    /// What is known behind all, and what is done, if that is to write constants to metadata.
    pub(super) fn folded(&self, ops: &[Op], facts: Facts) -> Option<(Facts, Folded)> {
        let folded = Some(Folded::default());
        let mut walk = Walk { of: self, from: None, to: None, arrived: None, ended: None, folded };
        let end = walk.list(ops, 0, Some(facts));
        let folded = walk.folded?;
        let facts = if folded.end.is_some() { walk.ended } else { end };
        Some((facts?, folded))
    }

    fn known(&self, facts: &Facts, e: &Expr) -> Known {
        let program = &self.layout.program;
        About { program, subjects: self.subjects, facts }.known(e, self.args)
    }
}

impl Follow<'_> {
    /// Bits of metadata that stay, and what the others become, if that is what an expression says of it:
    /// `(meta & ~mask) | value`, say.
    fn kept(&self, e: &Expr, meta: MetaId, width: u32) -> Option<(u128, u128)> {
        let all = opt::known::mask(width);
        if all == 0 {
            return None;
        }
        // Bit by bit: what becomes of a zero, and of a one.
        let zero = self.bits(e, meta, Known::value(0, width))?.only()?;
        let one = self.bits(e, meta, Known::value(all, width))?.only()?;
        let turned = zero & !one;
        (turned == 0).then_some((one & !zero, zero))
    }

    /// What is known of an expression if metadata is this; none if bits of it depend on others of the metadata.
    fn bits(&self, e: &Expr, meta: MetaId, value: Known) -> Option<Known> {
        Some(match e {
            Expr::Const(bits) => Known::of(bits),
            Expr::Param(i) => self.args.get(*i as usize).copied()?,
            Expr::Field(FieldRef::Meta(id)) if *id == meta => value,
            Expr::Cast(inner, width) if *width == value.width => {
                self.bits(inner, meta, value).filter(|known| known.width == *width)?
            }
            Expr::Unary(UnaryOp::Not, inner) => self.bits(inner, meta, value)?.unary(UnaryOp::Not),
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or | BinaryOp::Xor), a, b) => {
                Known::binary(*op, self.bits(a, meta, value)?, self.bits(b, meta, value)?)
            }
            _ => return None,
        })
    }
}

impl Walk<'_, '_> {
    fn joined(&self, a: Option<Facts>, b: Option<Facts>) -> Option<Facts> {
        match (a, b) {
            (Some(mut a), Some(b)) => {
                if a != b {
                    a.join(&self.of.layout.program, &b);
                }
                Some(a)
            }
            (a, b) => a.or(b),
        }
    }

    /// Follows a list of operations, the first one of this number: what is known behind it, if a packet comes there.
    fn list(&mut self, ops: &[Op], first: u32, mut facts: Option<Facts>) -> Option<Facts> {
        let mut n = first;
        for op in ops {
            let numbers = numbers(op, n);
            let next = numbers.end;
            facts = self.one(op, numbers, facts);
            n = next;
            // Nothing of what is left may be where it begins.
            if facts.is_none() && self.from.is_none() {
                return None;
            }
        }
        facts
    }

    fn one(&mut self, op: &Op, numbers: Range<u32>, facts: Option<Facts>) -> Option<Facts> {
        let n = numbers.start;
        match self.from {
            None => self.op(op, numbers, facts?),
            Some(Begin::Behind { stop, changed }) if stop == n => {
                self.from = None;
                Some(self.behind(op, changed, facts?))
            }
            Some(Begin::Inside(at)) if at == n => {
                self.from = None;
                let Op::OnCopy { body } = op else { return None };
                // The copy ends there.
                self.list(body, n + 1, facts);
                None
            }
            Some(Begin::Behind { stop: at, .. } | Begin::Inside(at)) if numbers.contains(&at) => {
                match op {
                    Op::If { then, or_else, .. } => {
                        let middle = n + 1 + count(then);
                        match at < middle {
                            true => self.list(then, n + 1, facts),
                            false => self.list(or_else, middle, facts),
                        }
                    }
                    Op::OnCopy { body } => {
                        self.list(body, n + 1, facts);
                        None
                    }
                    // Rounds of loops are not told apart.
                    _ => None,
                }
            }
            // It is behind this one.
            Some(_) => facts,
        }
    }

    /// What is known behind a stop, where code goes on.
    fn behind(&self, op: &Op, changed: bool, mut facts: Facts) -> Facts {
        let (program, subjects) = (&self.of.layout.program, self.of.subjects);
        if let Op::Service { service, results, .. } = op {
            if program.services[service.index()].edits && changed {
                facts.parsed(subjects);
            }
            results.iter().for_each(|meta| facts.forget(subjects, *meta));
        }
        facts
    }

    /// Something else was done than to write a constant.
    fn does_more(&mut self) {
        self.folded = None;
    }

    fn op(&mut self, op: &Op, numbers: Range<u32>, mut facts: Facts) -> Option<Facts> {
        let n = numbers.start;
        let subjects = self.of.subjects;
        let program = &self.of.layout.program;
        match op {
            Op::Assign(FieldRef::Meta(meta), e) => {
                let known = self.of.known(&facts, e);
                let width = program.metadata[meta.index()].width;
                let known = if known.width == width { known } else { Known::nothing(width) };
                self.fold(*meta, known, e);
                facts.set(subjects, *meta, known);
            }
            Op::AssignSlice(FieldRef::Meta(meta), hi, lo, e) => {
                self.does_more();
                let width = program.metadata[meta.index()].width;
                let new = self.of.known(&facts, e);
                let old = self.of.known(&facts, &Expr::meta(*meta));
                facts.set(subjects, *meta, sliced(old, width, (*hi, *lo), new));
            }
            Op::Goto(block) => {
                if let Some(folded) = &mut self.folded {
                    folded.goto = Some(*block);
                }
            }
            Op::If { condition, then, or_else } => {
                let middle = n + 1 + count(then);
                let known = self.of.known(&facts, condition).only();
                let to_then = self.to.is_some_and(|to| (n + 1..middle).contains(&to));
                let to_else = self.to.is_some_and(|to| (middle..numbers.end).contains(&to));
                return match known {
                    Some(0) => self.list(or_else, middle, Some(facts)),
                    Some(_) => self.list(then, n + 1, Some(facts)),
                    // Only one way leads there, or it is behind, where both lead.
                    None => {
                        self.does_more();
                        let a = (!to_else).then(|| facts.clone());
                        let a = a.and_then(|facts| self.list(then, n + 1, Some(facts)));
                        let b = (!to_then).then_some(facts);
                        let b = b.and_then(|facts| self.list(or_else, middle, Some(facts)));
                        self.joined(a, b)
                    }
                };
            }
            Op::Drop(_) | Op::Exit | Op::Resubmit { .. } | Op::Recirculate { .. } => {
                match (op, &mut self.folded) {
                    (Op::Drop(reason), Some(folded)) => folded.end = Some(Some(*reason)),
                    (Op::Exit, Some(folded)) => folded.end = Some(None),
                    _ => self.does_more(),
                }
                let before = self.ended.take();
                self.ended = self.joined(before, Some(facts));
                return None;
            }
            _ if self.to == Some(n) => {
                let before = self.arrived.take();
                self.arrived = self.joined(before, Some(facts));
                return None;
            }
            // Code would have asked there.
            _ if is_stop(op) => {
                self.does_more();
                return None;
            }
            _ => {
                self.does_more();
                self.other(op, &mut facts);
                // These may end the pass.
                if matches!(op, Op::PushFront(..) | Op::Reparse | Op::Loop { .. }) {
                    let before = self.ended.take();
                    self.ended = self.joined(before, Some(facts.clone()));
                }
            }
        }
        Some(facts)
    }

    /// Metadata becomes the value of an expression, of which this is known.
    fn fold(&mut self, meta: MetaId, known: Known, e: &Expr) {
        if self.of.layout.checksum_meta[meta.index()] {
            return self.does_more();
        }
        let Some(folded) = &mut self.folded else { return };
        let (at, width) = self.of.layout.meta[meta.index()];
        let (keep, value) = match known.only() {
            Some(value) => (0, value),
            None => match self.of.kept(e, meta, width) {
                Some(kept) => kept,
                None => return self.does_more(),
            },
        };
        for number in 0..width.div_ceil(64) {
            let part = |bits: u128| (bits >> (64 * number)) as u64;
            let word = (at / 8) as u32 + number;
            Folded::write(&mut folded.writes, Write { word, keep: part(keep), value: part(value) });
        }
    }

    /// Operations that write to fields what nobody knows.
    fn other(&self, op: &Op, facts: &mut Facts) {
        let (program, subjects) = (&self.of.layout.program, self.of.subjects);
        let header = |facts: &mut Facts, header: HeaderId| {
            facts.forget_header(subjects, header);
            if let Some(union) = program.headers[header.index()].union {
                for member in &program.unions[union.index()].members {
                    facts.forget_header(subjects, *member);
                }
            }
        };
        let stack = |stack: &ir::StackId| self.of.layout.stack(*stack).map(|i| HeaderId(i as u32));
        let field = |facts: &mut Facts, field: &FieldRef| match field {
            FieldRef::Meta(meta) => facts.forget(subjects, *meta),
            FieldRef::Header(h, _) => facts.forget_header(subjects, *h),
            FieldRef::Last(s, _) => stack(s).for_each(|h| facts.forget_header(subjects, h)),
        };
        match op {
            Op::Assign(to, _) | Op::AssignSlice(to, ..) | Op::CopyVarbit { to, .. } => {
                field(facts, to);
            }
            Op::PortIs { field: to, .. }
            | Op::RegisterRead { field: to, .. }
            | Op::Random { field: to, .. }
            | Op::PayloadSum { field: to }
            | Op::PayloadHash { field: to, .. } => field(facts, to),
            Op::Meter { color, level, .. } => {
                field(facts, color);
                field(facts, level);
            }
            Op::SetValid(h) | Op::SetInvalid(h) => header(facts, *h),
            Op::CopyHeader { to, .. } => header(facts, *to),
            Op::PushFront(s, _) | Op::PopFront(s, _) => {
                stack(s).for_each(|h| header(facts, h));
            }
            Op::Reparse => facts.parsed(subjects),
            Op::Loop { body, .. } => {
                // As often as it likes, also not at all. What its operations write is unknown from the first one on.
                let each = |op: &Op| self.forget_writes(op, facts);
                body.iter().for_each(each);
            }
            Op::Service { results, .. } => {
                facts.parsed(subjects);
                results.iter().for_each(|meta| facts.forget(subjects, *meta));
            }
            Op::Output { .. }
            | Op::Punt { .. }
            | Op::Digest { .. }
            | Op::Count { .. }
            | Op::RegisterWrite { .. }
            | Op::Truncate { .. }
            | Op::Group { .. }
            | Op::Clone { .. }
            | Op::OnCopy { .. }
            | Op::Goto(_)
            | Op::Drop(_)
            | Op::Exit
            | Op::Resubmit { .. }
            | Op::Recirculate { .. } => {}
            Op::Call { .. } => *facts = Facts::default(),
            Op::If { then, or_else, .. } => {
                then.iter().chain(or_else).for_each(|op| self.forget_writes(op, facts));
            }
        }
    }

    /// Nothing is known any more of what an operation, or one inside it, writes.
    fn forget_writes(&self, op: &Op, facts: &mut Facts) {
        match op {
            Op::OnCopy { .. } => {}
            _ => self.other(op, facts),
        }
    }
}

/// What is known of a value of which some bits are written.
fn sliced(old: Known, width: u32, (hi, lo): (u32, u32), new: Known) -> Known {
    let places = hi.checked_sub(lo).map_or(0, |n| n + 1);
    if width > opt::known::WIDTH_MAX || old.width != width || hi >= width || places == 0 {
        return Known::nothing(width);
    }
    let under = opt::known::mask(places);
    let new = if new.width == places { new } else { Known::nothing(places) };
    let put = |old: u128, new: u128| old & !(under << lo) | (new & under) << lo;
    Known { width, zeros: put(old.zeros, new.zeros), ones: put(old.ones, new.ones) }
}
