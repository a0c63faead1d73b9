//! Stops parsing where nothing that follows is looked at.
//!
//! ```text
//! state start: extract eth; select eth.type { 0x0800: ipv4, .. }
//! state ipv4: extract ipv4; ..
//! ```
//!
//! becomes `state start: extract eth; accept` where live code looks at `eth` only. What was a header
//! is payload then, and leaves as the same bytes in the same place.
//!
//! A state is *idle* if neither it nor what follows it can make a difference: it extracts no header
//! and sets no metadata that anybody reads, writes or makes (in)valid; its headers follow in the
//! deparser's order whatever may be valid before them or may be made valid by an operation; it skips
//! no bits and writes no header; rejecting is as good as accepting, or it cannot reject. States that
//! are not idle read what they branch on, so what is read and what is idle are found together: at
//! first only what live code reads is read, and idle states become fewer until that agrees.
//!
//! What a checksum looks at counts only where it may be written: where its own header and those that
//! its condition wants valid may be. So a state may be idle behind one state and not behind another,
//! and it is the transition between the two that is cut:
//!
//! ```text
//! state ipv6: extract ipv6; select ipv6.next { 6: tcp, .. }     becomes   accept
//! ```
//!
//! where the only checksums left want IPv4, although TCP behind IPv4 is parsed. A *view* is a set of
//! checksums that may be written; every transition has one, and what is idle is found for each view.
//! Metadata that a checksum reads counts in all views, since it outlives the parse that sets it; what
//! only the parser reads counts if a later parse may read it before it sets it.
//!
//! A parser that runs again on emitted bytes comes to the same cut.
//!
//! Requires: live checksums known. Ensures: no transition leads to what is idle; no state has
//! anything in it but live ones; metadata that nobody reads is not set; no case of a select is there
//! that the others decide alike.
//!
//! Cost: proportional to the parser, for each view.

use crate::set::Set;
use crate::state::elements;
use crate::uses::Uses;
use crate::work::Work;
use ir::program::{PARSER_STEPS_MAX, intrinsic};
use ir::{
    BinaryOp, Bits, Checksum, Expr, FieldRef, ParserOp, ParserState, Program, Select, SelectCase,
    Transition,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// See the module.
pub(crate) fn cut_parser(work: &mut Work<'_>) {
    let program = &work.program;
    if program.parser.is_empty() {
        return;
    }
    let mut cut = Cut::new(work);
    cut.settle();
    let new = cut.new_parser();
    let extracts = |parser: &[ParserState]| {
        let ops = parser.iter().flat_map(|s| &s.ops);
        let is =
            |op: &&ParserOp| matches!(op, ParserOp::Extract { .. } | ParserOp::ExtractNext { .. });
        ops.filter(is).count()
    };
    let (before, after) = (extracts(&program.parser), extracts(&new));
    work.program.parser = new;
    if after < before {
        work.note("cut_parser", format!("{after} of {before} extractions"));
    }
}

/// What a checksum looks at, and when.
struct Covers {
    /// Headers that it looks at.
    headers: Set,
    /// Unless all of these are valid, it is not written.
    wants: Set,
    /// Its own headers, if it is over the payload.
    payload: Set,
}

/// A set of checksums that may be written.
struct View {
    checksums: Vec<usize>,
    /// States that are idle if only these are.
    idle: Vec<bool>,
}

struct Cut<'a> {
    program: &'a Program,
    /// Metadata that somebody looks at, headers that somebody but a checksum does.
    uses: Uses,
    /// Metadata that somebody behind the parser looks at.
    outlives: Set,
    /// Metadata that a parse may read before it sets it.
    carried: Set,
    checksums: Vec<Covers>,
    views: Vec<View>,
    /// The view of each state: what may be written for packets that come through it.
    state_views: Vec<usize>,
    /// The view of each transition.
    edge_views: BTreeMap<(usize, usize), usize>,
    /// To reject is another thing than to accept.
    rejects: bool,
    /// The parser may run in circles, or for long.
    loops: bool,
    /// Place of each header in the deparser.
    order: Vec<Option<usize>>,
    /// Headers that may be valid in front of each state; `None` for one that nothing leads to.
    before: Vec<Option<Set>>,
}

impl<'a> Cut<'a> {
    fn new(work: &'a Work<'_>) -> Cut<'a> {
        let program = &work.program;
        let mut uses = Uses::of(work);
        let checksums = program.checksums.iter().map(|c| covers(program, c, &mut uses)).collect();
        let mut order = vec![None; program.headers.len()];
        for (at, header) in program.deparser.iter().enumerate() {
            order[header.index()] = Some(at);
        }
        let error = uses.metas.contains(intrinsic::PARSER_ERROR.index());
        let mut cut = Cut {
            program,
            outlives: uses.metas.clone(),
            carried: Set::default(),
            uses,
            checksums,
            views: Vec::new(),
            state_views: Vec::new(),
            edge_views: BTreeMap::new(),
            rejects: error || !program.reject_continues,
            loops: false,
            order,
            before: vec![None; program.parser.len()],
        };
        cut.flow();
        cut.find_carried();
        cut.find_views();
        cut
    }

    /// Headers that may be valid in front of each state; whether there are circles.
    fn flow(&mut self) {
        self.before[0] = Some(Set::default());
        let mut queue = VecDeque::from([0]);
        while let Some(at) = queue.pop_front() {
            let state = &self.program.parser[at];
            let Some(mut valid) = self.before[at].clone() else { continue };
            state.ops.iter().for_each(|op| self.extracted(op, &mut valid));
            for to in successors(&state.next) {
                let grown = match &mut self.before[to] {
                    Some(there) => there.union(&valid),
                    none => {
                        *none = Some(valid.clone());
                        true
                    }
                };
                if grown {
                    queue.push_back(to);
                }
            }
        }
        // A parser without circles has an order in which all states come after their predecessors.
        let n = self.program.parser.len();
        let mut done = vec![false; n];
        let mut progress = true;
        while progress {
            progress = false;
            for at in 0..n {
                let to = successors(&self.program.parser[at].next);
                if !done[at] && to.iter().all(|to| done[*to]) {
                    done[at] = true;
                    progress = true;
                }
            }
        }
        let circles = (0..n).any(|at| !done[at] && self.before[at].is_some());
        self.loops = circles || n > PARSER_STEPS_MAX;
    }

    fn extracted(&self, op: &ParserOp, valid: &mut Set) {
        match op {
            ParserOp::Extract { header, .. } => valid.insert(header.index()),
            ParserOp::ExtractNext { stack, .. } => {
                elements(self.program, *stack).for_each(|i| valid.insert(i));
            }
            _ => {}
        }
    }

    /// Metadata that a parse may read before it sets it, so that the parse before matters.
    fn find_carried(&mut self) {
        let n = self.program.parser.len();
        let mut before = vec![Set::default(); n];
        let mut grown = true;
        while grown {
            grown = false;
            for at in (0..n).rev() {
                let state = &self.program.parser[at];
                let mut uses = Uses::default();
                read_by_transition(self.program, &state.next, &mut uses);
                let mut live = uses.metas;
                for to in successors(&state.next) {
                    live.union(&before[to]);
                }
                for op in state.ops.iter().rev() {
                    if let ParserOp::Assign(FieldRef::Meta(meta), _) = op {
                        live.remove(meta.index());
                    }
                    let mut uses = Uses::default();
                    read_by_op(self.program, op, &mut uses);
                    live.union(&uses.metas);
                }
                grown |= before[at].union(&live);
            }
        }
        self.carried = before.swap_remove(0);
    }

    /// Somebody behind this parse may look at the metadata.
    fn matters(&self, meta: usize) -> bool {
        self.outlives.contains(meta)
            || self.carried.contains(meta) && self.uses.metas.contains(meta)
    }

    /// Which checksums may be written behind every state and every transition.
    fn find_views(&mut self) {
        let n = self.program.parser.len();
        let own = |at: usize| {
            let mut valid = Set::default();
            self.program.parser[at].ops.iter().for_each(|op| self.extracted(op, &mut valid));
            valid
        };
        let own: Vec<Set> = (0..n).map(own).collect();
        // Headers that a state or one that follows it extracts.
        let mut behind = own.clone();
        let mut grown = true;
        while grown {
            grown = false;
            for at in (0..n).rev() {
                for to in successors(&self.program.parser[at].next) {
                    let more = behind[to].clone();
                    grown |= behind[at].union(&more);
                }
            }
        }
        self.state_views = vec![0; n];
        for at in 0..n {
            let Some(mut valid) = self.before[at].clone() else { continue };
            let mut all = valid.clone();
            all.union(&behind[at]);
            self.state_views[at] = self.view(&all);
            valid.union(&own[at]);
            for to in successors(&self.program.parser[at].next) {
                let mut all = valid.clone();
                all.union(&behind[to]);
                let view = self.view(&all);
                self.edge_views.insert((at, to), view);
            }
        }
    }

    /// The view of packets in which only these headers may be valid behind the parser.
    fn view(&mut self, valid: &Set) -> usize {
        let there = |h: usize| valid.contains(h) || self.uses.made.contains(h);
        let written = |c: &Covers| c.wants.iter().all(there);
        let checksums: Vec<usize> =
            (0..self.checksums.len()).filter(|i| written(&self.checksums[*i])).collect();
        if let Some(at) = self.views.iter().position(|v| v.checksums == checksums) {
            return at;
        }
        self.views.push(View { checksums, idle: Vec::new() });
        self.views.len() - 1
    }

    /// The first state is idle for all packets.
    fn nothing_left(&self) -> bool {
        self.views[self.state_views[0]].idle[0]
    }

    /// Where the transition leads to is idle for packets that take it.
    fn cuts(&self, at: usize, to: usize) -> bool {
        self.edge_views.get(&(at, to)).is_none_or(|view| self.views[*view].idle[to])
    }

    /// States that packets still come to.
    fn reached(&self) -> Vec<bool> {
        let mut reached = vec![false; self.program.parser.len()];
        let mut left = if self.nothing_left() { Vec::new() } else { vec![0] };
        while let Some(at) = left.pop() {
            if !std::mem::replace(&mut reached[at], true) {
                let to = successors(&self.program.parser[at].next);
                left.extend(to.into_iter().filter(|to| !self.cuts(at, *to)));
            }
        }
        reached
    }

    /// Finds what is idle and what is read.
    fn settle(&mut self) {
        loop {
            self.find_idle();
            let read = (self.uses.metas.len(), self.uses.headers.len());
            for (at, reached) in self.reached().into_iter().enumerate() {
                if reached {
                    self.read_by(at);
                }
            }
            if (self.uses.metas.len(), self.uses.headers.len()) == read {
                return;
            }
            // The parser itself may look at the error of the parse before.
            self.rejects |= self.uses.metas.contains(intrinsic::PARSER_ERROR.index());
        }
    }

    fn find_idle(&mut self) {
        for at in 0..self.views.len() {
            let idle = self.idle_in(&self.looks(&self.views[at]));
            self.views[at].idle = idle;
        }
    }

    /// Headers that are looked at in a view, and those with a checksum over the payload.
    fn looks(&self, view: &View) -> Looks {
        let mut looks = Looks { headers: self.uses.headers.clone(), payload: Set::default() };
        for covers in view.checksums.iter().map(|i| &self.checksums[*i]) {
            looks.headers.union(&covers.headers);
            looks.payload.union(&covers.payload);
        }
        looks
    }

    fn idle_in(&self, looks: &Looks) -> Vec<bool> {
        let n = self.program.parser.len();
        let mut idle: Vec<bool> = (0..n).map(|at| self.idle_itself(at, looks)).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for at in (0..n).rev() {
                let to = successors(&self.program.parser[at].next);
                if idle[at] && !to.iter().all(|to| idle[*to]) {
                    idle[at] = false;
                    changed = true;
                }
            }
        }
        idle
    }

    /// The state makes no difference by itself.
    fn idle_itself(&self, at: usize, looks: &Looks) -> bool {
        let Some(before) = &self.before[at] else { return true };
        let state = &self.program.parser[at];
        let mut valid = before.clone();
        self.ops_idle(&state.ops, &mut valid, looks)
            && (!self.rejects || !self.loops && !may_reject(&state.next))
    }

    fn ops_idle(&self, ops: &[ParserOp], valid: &mut Set, looks: &Looks) -> bool {
        // What a checksum covers must not become more.
        let covered = |valid: &Set| looks.payload.iter().any(|h| valid.contains(h));
        ops.iter().all(|op| {
            let idle = !covered(valid) && self.op_idle(op, valid, looks);
            self.extracted(op, valid);
            idle
        }) && !covered(valid)
    }

    fn op_idle(&self, op: &ParserOp, valid: &Set, looks: &Looks) -> bool {
        match op {
            ParserOp::Extract { header, .. } => {
                let own = header.index();
                !self.rejects && self.may_be_payload(own..own + 1, valid, looks)
            }
            ParserOp::ExtractNext { stack, .. } => {
                !self.rejects && self.may_be_payload(elements(self.program, *stack), valid, looks)
            }
            ParserOp::Advance(Expr::Const(bits)) => bits.is_zero(),
            ParserOp::Advance(_) => false,
            ParserOp::Assign(FieldRef::Meta(meta), _) => !self.matters(meta.index()),
            ParserOp::Assign(..) => false,
            ParserOp::Verify(..) => !self.rejects,
        }
    }

    /// Of these headers (one, or a stack, whose elements are extracted in order) the next one is as
    /// well payload, if these may be valid already.
    fn may_be_payload(&self, headers: Range<usize>, valid: &Set, looks: &Looks) -> bool {
        let mut last = None;
        for i in headers.clone() {
            let place = self.order[i];
            let free = self.program.headers[i].union.is_none() && !looks.headers.contains(i);
            if !free || place.is_none() || place <= last {
                return false;
            }
            last = place;
        }
        let first = self.order[headers.start];
        let stack = headers.len() > 1 || self.program.headers[headers.start].stack.is_some();
        let own = |i: usize| stack && headers.len() > 1 && headers.contains(&i);
        valid.iter().filter(|i| !own(*i)).chain(self.uses.made.iter()).all(|i| {
            // One that is not emitted stands nowhere.
            self.order[i].is_none() || self.order[i] < first
        })
    }

    /// Adds what a state reads that is not idle.
    fn read_by(&mut self, at: usize) {
        let program = self.program;
        let state = &program.parser[at];
        for op in &state.ops {
            match op {
                ParserOp::Assign(FieldRef::Meta(meta), _)
                    if !self.uses.metas.contains(meta.index()) => {}
                _ => read_by_op(program, op, &mut self.uses),
            }
        }
        if self.decides(at, &state.next) {
            read_by_transition(program, &state.next, &mut self.uses);
        }
    }

    /// The transition may lead to a state that is not idle, or reject where that matters.
    fn decides(&self, at: usize, transition: &Transition) -> bool {
        self.rejects && may_reject(transition)
            || successors(transition).iter().any(|to| !self.cuts(at, *to))
    }

    fn new_parser(&self) -> Vec<ParserState> {
        let mut new: Vec<ParserState> = Vec::with_capacity(self.program.parser.len());
        let reached = self.reached();
        for (at, old) in self.program.parser.iter().enumerate() {
            let name = old.name.clone();
            let mut state = ParserState { name, ops: Vec::new(), next: Transition::Accept };
            if reached[at] {
                state.next = self.new_transition(at, &old.next);
                state.ops = self.new_ops(at, &old.ops, state.next == Transition::Accept);
            }
            new.push(state);
        }
        new
    }

    fn new_ops(&self, at: usize, ops: &[ParserOp], last: bool) -> Vec<ParserOp> {
        let looks = self.looks(&self.views[self.state_views[at]]);
        let mut kept = ops.len();
        while last && kept > 0 {
            let mut valid = self.before[at].clone().unwrap_or_default();
            ops[..kept - 1].iter().for_each(|op| self.extracted(op, &mut valid));
            if !self.ops_idle(&ops[kept - 1..kept], &mut valid, &looks) {
                break;
            }
            kept -= 1;
        }
        let dead = |op: &&ParserOp| matches!(op, ParserOp::Assign(FieldRef::Meta(m), _) if !self.uses.metas.contains(m.index()));
        ops[..kept].iter().filter(|op| !dead(op)).cloned().collect()
    }

    fn new_transition(&self, at: usize, transition: &Transition) -> Transition {
        if !self.decides(at, transition) {
            return Transition::Accept;
        }
        let Transition::Select { keys, cases } = transition else { return transition.clone() };
        let mut new: Vec<SelectCase> = Vec::with_capacity(cases.len());
        for case in cases {
            let next = match &case.next {
                Transition::State(to) if self.cuts(at, to.index()) => Transition::Accept,
                Transition::Reject if !self.rejects => Transition::Accept,
                other => self.new_transition(at, other),
            };
            let patterns = case.patterns.clone();
            let all = any(&patterns);
            new.push(SelectCase { patterns, next });
            if all {
                break;
            }
        }
        if !self.rejects && !new.last().is_some_and(|case| any(&case.patterns)) {
            // No match rejects, which is as good as to accept.
            let patterns = vec![Select::Any; keys.len()];
            new.push(SelectCase { patterns, next: Transition::Accept });
        }
        for i in (0..new.len()).rev() {
            if decided_by(&new[i], &new[i + 1..]) {
                new.remove(i);
            }
        }
        if let [all] = &new[..]
            && any(&all.patterns)
        {
            return all.next.clone();
        }
        // Columns that no case looks at.
        let used = |i: usize| new.iter().any(|case| case.patterns[i] != Select::Any);
        let used: Vec<bool> = (0..keys.len()).map(used).collect();
        let keep = |i: usize| used[i];
        let keys = (keys.iter().enumerate()).filter(|(i, _)| keep(*i)).map(|(_, e)| e.clone());
        let keys = keys.collect();
        for case in &mut new {
            let patterns = std::mem::take(&mut case.patterns).into_iter().enumerate();
            case.patterns = patterns.filter(|(i, _)| keep(*i)).map(|(_, p)| p).collect();
        }
        Transition::Select { keys, cases: new }
    }
}

fn read_by_op(program: &Program, op: &ParserOp, uses: &mut Uses) {
    match op {
        ParserOp::Extract { varbit, .. } | ParserOp::ExtractNext { varbit, .. } => {
            varbit.iter().for_each(|e| uses.expr(program, e));
        }
        ParserOp::Assign(FieldRef::Meta(_), e) => uses.expr(program, e),
        ParserOp::Assign(FieldRef::Header(header, _), e) => {
            uses.expr(program, e);
            uses.headers.insert(header.index());
        }
        ParserOp::Assign(FieldRef::Last(stack, _), e) => {
            uses.expr(program, e);
            uses.expr(program, &Expr::StackSize(*stack));
        }
        ParserOp::Advance(e) | ParserOp::Verify(e, _) => uses.expr(program, e),
    }
}

fn read_by_transition(program: &Program, transition: &Transition, uses: &mut Uses) {
    if let Transition::Select { keys, cases } = transition {
        keys.iter().for_each(|e| uses.expr(program, e));
        cases.iter().for_each(|case| read_by_transition(program, &case.next, uses));
    }
}

/// Headers that are looked at, and those with a checksum over the payload.
struct Looks {
    headers: Set,
    payload: Set,
}

/// What a checksum looks at. Its metadata is added to `uses`.
fn covers(program: &Program, checksum: &Checksum, uses: &mut Uses) -> Covers {
    let mut own = Uses::default();
    own.checksum(program, checksum);
    uses.metas.union(&own.metas);
    let (mut wants, mut payload) = (Set::default(), Set::default());
    match checksum.field {
        FieldRef::Header(header, _) => {
            wants.insert(header.index());
            payload.insert(header.index());
        }
        FieldRef::Last(stack, _) => elements(program, stack).for_each(|i| payload.insert(i)),
        FieldRef::Meta(_) => {}
    }
    let mut left: Vec<&Expr> = checksum.condition.iter().collect();
    while let Some(e) = left.pop() {
        match e {
            Expr::Valid(header) => wants.insert(header.index()),
            Expr::Binary(BinaryOp::LogicalAnd, a, b) => left.extend([&**a, &**b]),
            _ => {}
        }
    }
    let payload = if checksum.payload { payload } else { Set::default() };
    Covers { headers: own.headers, wants, payload }
}

/// What matches the case is led to the same place by the cases behind it.
fn decided_by(case: &SelectCase, behind: &[SelectCase]) -> bool {
    let pairs = |other: &SelectCase, is: fn(&Select, &Select) -> bool| -> Vec<bool> {
        other.patterns.iter().zip(&case.patterns).map(|(a, b)| is(a, b)).collect()
    };
    for other in behind {
        match other.next == case.next {
            true if pairs(other, includes).iter().all(|yes| *yes) => return true,
            true => {}
            false if pairs(other, apart).iter().any(|yes| *yes) => {}
            false => return false,
        }
    }
    false
}

/// The value, if the pattern has only one.
fn exact(pattern: &Select) -> Option<&Bits> {
    match pattern {
        Select::Masked(value, mask) if *mask == Bits::ones(mask.width()) => Some(value),
        _ => None,
    }
}

/// `a` surely matches whatever `b` does.
fn includes(a: &Select, b: &Select) -> bool {
    match (a, b) {
        (Select::Any, _) => true,
        (Select::Range(lo, hi), Select::Range(l, h)) => {
            lo.compare(l).is_le() && h.compare(hi).is_le()
        }
        (Select::Range(lo, hi), b) => {
            exact(b).is_some_and(|v| lo.compare(v).is_le() && v.compare(hi).is_le())
        }
        (Select::Masked(v, m), Select::Masked(w, n)) => m.and(n) == *m && v.xor(w).and(m).is_zero(),
        _ => a == b,
    }
}

/// Surely nothing matches both.
fn apart(a: &Select, b: &Select) -> bool {
    match (a, b) {
        (Select::Masked(v, m), Select::Masked(w, n)) => !v.xor(w).and(&m.and(n)).is_zero(),
        (Select::Range(lo, hi), Select::Range(l, h)) => {
            hi.compare(l).is_lt() || h.compare(lo).is_lt()
        }
        (Select::Range(lo, hi), other) | (other, Select::Range(lo, hi)) => {
            exact(other).is_some_and(|v| v.compare(lo).is_lt() || v.compare(hi).is_gt())
        }
        _ => false,
    }
}

fn any(patterns: &[Select]) -> bool {
    patterns.iter().all(|p| *p == Select::Any)
}

/// States that a transition may lead to.
fn successors(transition: &Transition) -> Vec<usize> {
    match transition {
        Transition::Accept | Transition::Reject => Vec::new(),
        Transition::State(to) => vec![to.index()],
        Transition::Select { cases, .. } => {
            let mut all: Vec<usize> = cases.iter().flat_map(|c| successors(&c.next)).collect();
            all.sort_unstable();
            all.dedup();
            all
        }
    }
}

/// The transition itself may reject.
fn may_reject(transition: &Transition) -> bool {
    match transition {
        Transition::Accept | Transition::State(_) => false,
        Transition::Reject => true,
        Transition::Select { cases, .. } => {
            !cases.last().is_some_and(|case| any(&case.patterns))
                || cases.iter().any(|case| may_reject(&case.next))
        }
    }
}
