//! Stops parsing where nothing that follows is looked at.
//!
//!     state start: extract eth; select eth.type { 0x0800: ipv4, .. }
//!     state ipv4: extract ipv4; ..
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
//! A parser that runs again on emitted bytes comes to the same cut.
//!
//! Requires: live checksums known. Ensures: no state of the parser is idle; none but live ones has
//! anything in it; metadata that nobody reads is not set.

use crate::Work;
use crate::set::Set;
use crate::state::elements;
use crate::uses::Uses;
use ir::program::{PARSER_STEPS_MAX, intrinsic};
use ir::{Expr, FieldRef, ParserOp, ParserState, Program, Select, SelectCase, Transition};
use std::collections::VecDeque;

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

struct Cut<'a> {
    program: &'a Program,
    /// Metadata and headers that somebody looks at.
    uses: Uses,
    /// Headers with a checksum over the payload.
    payload: Set,
    /// To reject is another thing than to accept.
    rejects: bool,
    /// The parser may run in circles, or for long.
    loops: bool,
    /// Place of each header in the deparser.
    order: Vec<Option<usize>>,
    /// Headers that may be valid in front of each state; `None` for one that nothing leads to.
    before: Vec<Option<Set>>,
    idle: Vec<bool>,
}

impl<'a> Cut<'a> {
    fn new(work: &'a Work<'_>) -> Cut<'a> {
        let program = &work.program;
        let mut uses = Uses::of(work);
        let mut payload = Set::default();
        for checksum in &program.checksums {
            uses.checksum(program, checksum);
            match checksum.field {
                _ if !checksum.payload => {}
                FieldRef::Header(header, _) => payload.insert(header.index()),
                FieldRef::Last(stack, _) => {
                    elements(program, stack).for_each(|i| payload.insert(i));
                }
                FieldRef::Meta(_) => {}
            }
        }
        let mut order = vec![None; program.headers.len()];
        for (at, header) in program.deparser.iter().enumerate() {
            order[header.index()] = Some(at);
        }
        let error = uses.metas.contains(intrinsic::PARSER_ERROR.index());
        let mut cut = Cut {
            program,
            uses,
            payload,
            rejects: error || !program.reject_continues,
            loops: false,
            order,
            before: vec![None; program.parser.len()],
            idle: vec![false; program.parser.len()],
        };
        cut.flow();
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

    /// Finds what is idle and what is read.
    fn settle(&mut self) {
        loop {
            self.find_idle();
            let read = (self.uses.metas.len(), self.uses.headers.len());
            for at in 0..self.idle.len() {
                if self.before[at].is_some() && !self.idle[at] {
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
        let n = self.program.parser.len();
        self.idle = (0..n).map(|at| self.idle_itself(at)).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for at in (0..n).rev() {
                let to = successors(&self.program.parser[at].next);
                if self.idle[at] && !to.iter().all(|to| self.idle[*to]) {
                    self.idle[at] = false;
                    changed = true;
                }
            }
        }
    }

    /// The state makes no difference by itself.
    fn idle_itself(&self, at: usize) -> bool {
        let Some(before) = &self.before[at] else { return true };
        let state = &self.program.parser[at];
        let mut valid = before.clone();
        self.ops_idle(&state.ops, &mut valid)
            && (!self.rejects || !self.loops && !may_reject(&state.next))
    }

    fn ops_idle(&self, ops: &[ParserOp], valid: &mut Set) -> bool {
        // What a checksum covers must not become more.
        let covered = |valid: &Set| self.payload.iter().any(|h| valid.contains(h));
        ops.iter().all(|op| {
            let idle = !covered(valid) && self.op_idle(op, valid);
            self.extracted(op, valid);
            idle
        }) && !covered(valid)
    }

    fn op_idle(&self, op: &ParserOp, valid: &Set) -> bool {
        match op {
            ParserOp::Extract { header, .. } => {
                let own = header.index();
                !self.rejects && self.may_be_payload(own..own + 1, valid)
            }
            ParserOp::ExtractNext { stack, .. } => {
                !self.rejects && self.may_be_payload(elements(self.program, *stack), valid)
            }
            ParserOp::Advance(Expr::Const(bits)) => bits.is_zero(),
            ParserOp::Advance(_) => false,
            ParserOp::Assign(FieldRef::Meta(meta), _) => !self.uses.metas.contains(meta.index()),
            ParserOp::Assign(..) => false,
            ParserOp::Verify(..) => !self.rejects,
        }
    }

    /// Of these headers (one, or a stack, whose elements are extracted in order) the next one is as
    /// well payload, if these may be valid already.
    fn may_be_payload(&self, headers: std::ops::Range<usize>, valid: &Set) -> bool {
        let mut last = None;
        for i in headers.clone() {
            let place = self.order[i];
            let free = self.program.headers[i].union.is_none() && !self.uses.headers.contains(i);
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
                ParserOp::Extract { varbit, .. } | ParserOp::ExtractNext { varbit, .. } => {
                    varbit.iter().for_each(|e| self.uses.expr(program, e));
                }
                ParserOp::Assign(FieldRef::Meta(meta), e) => {
                    if self.uses.metas.contains(meta.index()) {
                        self.uses.expr(program, e);
                    }
                }
                ParserOp::Assign(FieldRef::Header(header, _), e) => {
                    self.uses.expr(program, e);
                    self.uses.headers.insert(header.index());
                }
                ParserOp::Assign(FieldRef::Last(stack, _), e) => {
                    self.uses.expr(program, e);
                    self.uses.expr(program, &Expr::StackSize(*stack));
                }
                ParserOp::Advance(e) | ParserOp::Verify(e, _) => self.uses.expr(program, e),
            }
        }
        if self.decides(&state.next) {
            self.read_by_transition(&state.next);
        }
    }

    fn read_by_transition(&mut self, transition: &Transition) {
        if let Transition::Select { keys, cases } = transition {
            keys.iter().for_each(|e| self.uses.expr(self.program, e));
            cases.iter().for_each(|case| self.read_by_transition(&case.next));
        }
    }

    /// The transition may lead to a state that is not idle, or reject where that matters.
    fn decides(&self, transition: &Transition) -> bool {
        self.rejects && may_reject(transition)
            || successors(transition).iter().any(|to| !self.idle[*to])
    }

    fn new_parser(&self) -> Vec<ParserState> {
        let mut new: Vec<ParserState> = Vec::with_capacity(self.idle.len());
        for (at, old) in self.program.parser.iter().enumerate() {
            let name = old.name.clone();
            let mut state = ParserState { name, ops: Vec::new(), next: Transition::Accept };
            if let (Some(before), false) = (&self.before[at], self.idle[at]) {
                state.next = self.new_transition(&old.next);
                state.ops = self.new_ops(&old.ops, before, state.next == Transition::Accept);
            }
            new.push(state);
        }
        // States that only others led to which are gone.
        let mut reached = vec![false; new.len()];
        let mut left = vec![0];
        while let Some(at) = left.pop() {
            if !std::mem::replace(&mut reached[at], true) {
                left.extend(successors(&new[at].next));
            }
        }
        for (state, reached) in new.iter_mut().zip(reached) {
            if !reached {
                state.ops.clear();
                state.next = Transition::Accept;
            }
        }
        new
    }

    fn new_ops(&self, ops: &[ParserOp], before: &Set, last: bool) -> Vec<ParserOp> {
        let mut kept = ops.len();
        while last && kept > 0 {
            let mut valid = before.clone();
            ops[..kept - 1].iter().for_each(|op| self.extracted(op, &mut valid));
            if !self.ops_idle(&ops[kept - 1..kept], &mut valid) {
                break;
            }
            kept -= 1;
        }
        let dead = |op: &&ParserOp| matches!(op, ParserOp::Assign(FieldRef::Meta(m), _) if !self.uses.metas.contains(m.index()));
        ops[..kept].iter().filter(|op| !dead(op)).cloned().collect()
    }

    fn new_transition(&self, transition: &Transition) -> Transition {
        if !self.decides(transition) {
            return Transition::Accept;
        }
        let Transition::Select { keys, cases } = transition else { return transition.clone() };
        let mut new: Vec<SelectCase> = Vec::with_capacity(cases.len());
        for case in cases {
            let next = match &case.next {
                Transition::State(to) if self.idle[to.index()] => Transition::Accept,
                Transition::Reject if !self.rejects => Transition::Accept,
                other => self.new_transition(other),
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
        // Cases in front of the last one, which takes all, that lead to where it leads.
        if new.last().is_some_and(|case| any(&case.patterns))
            && let Some(last) = new.pop()
        {
            while new.last().is_some_and(|case| case.next == last.next) {
                new.pop();
            }
            if new.is_empty() {
                return last.next;
            }
            new.push(last);
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
