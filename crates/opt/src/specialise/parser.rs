//! Facts through the parser.
//!
//! States are visited until what stands in front of each no longer changes; after [`VISITS_MAX`]
//! visits nothing is taken to be known of metadata there. Every operation that may fail is an end of
//! its own. A state is rewritten in the end, with what holds whenever the parser runs.

use super::Flow;
use crate::known::Known;
use crate::set::Set;
use crate::state::{Link, State, elements};
use ir::program::intrinsic;
use ir::{HeaderId, MetaId, ParserOp, ParserState, Program, Select, SelectCase, Transition};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Visits of a parser state until nothing is taken to be known of its metadata.
const VISITS_MAX: u32 = 40;

impl Flow<'_> {
    /// Facts in front of each state and behind the parser.
    pub(super) fn parse(&mut self) {
        let n = self.program.parser.len();
        self.states = vec![None; n];
        if n == 0 {
            let mut end = self.unparsed.clone();
            end.set_meta(intrinsic::PARSER_ERROR, Known::value(0, 8));
            self.parsed = Some(end);
            return;
        }
        let mut ends = Ends::new(self.program, &self.assigned);
        let mut visits = vec![0; n];
        // Earlier states first: most parsers are written down in the order in which they run.
        let mut queue = BTreeSet::from([0]);
        self.states[0] = Some(self.unparsed.clone());
        while let Some(at) = queue.pop_first() {
            let Some(state) = self.states[at].clone() else { continue };
            visits[at] += 1;
            let mut exits = Vec::new();
            self.state(at, state, &mut exits, None);
            for (to, mut state) in exits {
                let Exit::State(to) = to else {
                    ends.add(to == Exit::Accept, state);
                    continue;
                };
                if visits[to] >= VISITS_MAX {
                    state.forget_metas();
                }
                let grown = match &mut self.states[to] {
                    Some(there) => there.join(&state),
                    none => {
                        *none = Some(state);
                        true
                    }
                };
                if grown {
                    queue.insert(to);
                }
            }
        }
        self.parsed = ends.finish();
    }

    /// One parser state: where it leads to, with which facts; with `out`, the state rewritten.
    fn state(
        &self,
        at: usize,
        mut state: State,
        exits: &mut Vec<(Exit, State)>,
        mut out: Option<&mut ParserState>,
    ) {
        let program = self.program;
        let old = &program.parser[at];
        // Too many steps.
        exits.push((Exit::Reject, state.clone()));
        for op in &old.ops {
            let mut new = None;
            match op {
                ParserOp::Extract { header, varbit } => {
                    exits.push((Exit::Reject, state.clone()));
                    state.make_valid(program, *header, true);
                    let varbit = varbit.as_ref().map(|e| self.simplified(e, &state, &[]));
                    self.fails_halfway(&state, *header, varbit.is_some(), exits);
                    if out.is_some() {
                        new = Some(ParserOp::Extract { header: *header, varbit });
                    }
                }
                ParserOp::ExtractNext { stack, varbit } => {
                    exits.push((Exit::Reject, state.clone()));
                    let elements = elements(program, *stack);
                    let last = (elements.clone()).rev().find(|i| state.may.contains(*i));
                    let sure = (elements.clone()).rev().find(|i| state.must.contains(*i));
                    let from = sure.map_or(elements.start, |i| i + 1);
                    let to = last.map_or(elements.start, |i| i + 1).min(elements.end - 1);
                    for i in from..=to {
                        state.make_valid(program, HeaderId(i as u32), from == to);
                    }
                    let varbit = varbit.as_ref().map(|e| self.simplified(e, &state, &[]));
                    if varbit.is_some() {
                        let mut halfway = state.clone();
                        elements.clone().for_each(|i| {
                            halfway.must.remove(i);
                        });
                        exits.push((Exit::Reject, halfway));
                    }
                    if out.is_some() {
                        new = Some(ParserOp::ExtractNext { stack: *stack, varbit });
                    }
                    // It is surely full.
                    if from > to {
                        if let (Some(out), Some(new)) = (&mut out, new) {
                            out.ops.push(new);
                        }
                        return;
                    }
                }
                ParserOp::Advance(by) => {
                    exits.push((Exit::Reject, state.clone()));
                    if out.is_some() {
                        new = Some(ParserOp::Advance(self.simplified(by, &state, &[])));
                    }
                }
                ParserOp::Assign(field, value) => {
                    let (known, better) = self.simplify(value, &state, &[]);
                    state.write(*field, known);
                    if out.is_some() {
                        let value = better.unwrap_or_else(|| value.clone());
                        new = Some(ParserOp::Assign(*field, value));
                    }
                }
                ParserOp::Verify(condition, code) => {
                    let (known, better) = self.simplify(condition, &state, &[]);
                    if known.only() != Some(1) {
                        exits.push((Exit::Reject, state.clone()));
                        if out.is_some() {
                            let condition = better.unwrap_or_else(|| condition.clone());
                            new = Some(ParserOp::Verify(condition, *code));
                        }
                        if self.options.fold {
                            state.assume(condition, true);
                        }
                    }
                }
            }
            if let (Some(out), Some(new)) = (&mut out, new) {
                out.ops.push(new);
            }
        }
        let next = self.transition(&old.next, &state, exits, out.is_some());
        if let (Some(out), Some(next)) = (out, next) {
            out.next = next;
        }
    }

    /// An extraction that fails behind the fixed fields leaves the header invalid.
    fn fails_halfway(
        &self,
        extracted: &State,
        header: HeaderId,
        varbit: bool,
        exits: &mut Vec<(Exit, State)>,
    ) {
        if varbit {
            let mut halfway = extracted.clone();
            halfway.make_invalid(header);
            exits.push((Exit::Reject, halfway));
        }
    }

    fn transition(
        &self,
        transition: &Transition,
        state: &State,
        exits: &mut Vec<(Exit, State)>,
        build: bool,
    ) -> Option<Transition> {
        let mut exit = |to: Exit| exits.push((to, state.clone()));
        match transition {
            Transition::Accept => exit(Exit::Accept),
            Transition::Reject => exit(Exit::Reject),
            Transition::State(to) => exit(Exit::State(to.index())),
            Transition::Select { keys, cases } => {
                let keys: SmallVec<[_; 4]> =
                    keys.iter().map(|e| (e, self.simplify(e, state, &[]))).collect();
                let mut new = Vec::new();
                let mut decided = false;
                for case in cases {
                    let columns = case.patterns.iter().zip(&keys);
                    let answers: SmallVec<[_; 4]> =
                        columns.map(|(p, (_, (known, _)))| self.select(p, known)).collect();
                    let all = if answers.contains(&Some(false)) {
                        Some(false)
                    } else {
                        (!answers.contains(&None)).then_some(true)
                    };
                    if all == Some(false) {
                        continue;
                    }
                    let next = self.transition(&case.next, state, exits, build);
                    if let Some(next) = next {
                        new.push(SelectCase { patterns: case.patterns.clone(), next });
                    }
                    if all == Some(true) {
                        decided = true;
                        break;
                    }
                }
                if !decided {
                    exits.push((Exit::Reject, state.clone()));
                }
                if !build {
                    return None;
                }
                if decided && new.len() == 1 {
                    return new.pop().map(|case| case.next);
                }
                let keys = keys.into_iter();
                let keys = keys.map(|(old, (_, new))| new.unwrap_or_else(|| old.clone())).collect();
                return Some(Transition::Select { keys, cases: new });
            }
        }
        build.then(|| transition.clone())
    }

    /// A pattern surely matches, surely does not, or may.
    fn select(&self, pattern: &Select, value: &Known) -> Option<bool> {
        match pattern {
            Select::Any => Some(true),
            Select::Masked(wanted, mask) => {
                let (wanted, mask) = (Known::of(wanted), Known::of(mask));
                let contradicts = value.zeros & wanted.ones | value.ones & wanted.zeros;
                if contradicts & mask.ones != 0 {
                    return Some(false);
                }
                let known = (value.zeros | value.ones) & mask.ones == mask.ones;
                (known && mask.only().is_some() && value.width == mask.width).then_some(true)
            }
            Select::Range(lo, hi) => {
                let value = value.constant()?;
                Some(value.compare(lo).is_ge() && value.compare(hi).is_le())
            }
            Select::ValueSet(id) => {
                let members = self.contents.value_sets.get(id.index())?;
                members.is_empty().then_some(false)
            }
        }
    }

    /// Facts behind the parser, for a packet that comes to it with these.
    pub(super) fn behind_parser(&self, before: &State) -> Option<State> {
        let parsed = self.parsed.as_ref()?;
        let mut state = parsed.clone();
        for (meta, known) in before.metas() {
            if !self.assigned.contains(meta.index()) {
                state.set_meta(meta, known);
            }
        }
        Some(state)
    }

    pub(super) fn new_parser(&self) -> Vec<ParserState> {
        let mut exits = Vec::new();
        let one = |(at, old): (usize, &ParserState)| {
            let mut new =
                ParserState { name: old.name.clone(), ops: Vec::new(), next: Transition::Accept };
            if let Some(state) = &self.states[at] {
                self.state(at, state.clone(), &mut exits, Some(&mut new));
                exits.clear();
            }
            new
        };
        self.program.parser.iter().enumerate().map(one).collect()
    }
}

/// Where a parser state leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    Accept,
    Reject,
    State(usize),
}

/// Facts behind the parser, gathered from all its ends.
struct Ends<'a> {
    program: &'a Program,
    joined: Option<State>,
    /// What each one-bit field says; sets are `None` until there is an end that says something.
    links: Vec<(MetaId, Option<Set>, Option<Set>)>,
}

impl<'a> Ends<'a> {
    fn new(program: &'a Program, assigned: &Set) -> Ends<'a> {
        let bits = program.metadata.iter().enumerate();
        let bits = bits.filter(|(i, m)| m.width == 1 && assigned.contains(*i));
        let links = bits.map(|(i, _)| (MetaId(i as u32), None, None)).collect();
        Ends { program, joined: None, links }
    }

    fn add(&mut self, accepted: bool, mut state: State) {
        if !accepted && !self.program.reject_continues {
            return;
        }
        let error = if accepted { Known::value(0, 8) } else { Known::nothing(8) };
        state.set_meta(intrinsic::PARSER_ERROR, error);
        for (meta, must, may) in &mut self.links {
            let known = state.meta(*meta);
            if known.only() != Some(0) {
                match must {
                    Some(must) => drop(must.intersect(&state.must)),
                    None => *must = Some(state.must.clone()),
                }
            }
            if known.only() != Some(1) {
                may.get_or_insert_default().union(&state.may);
            }
        }
        match &mut self.joined {
            Some(joined) => drop(joined.join(&state)),
            None => self.joined = Some(state),
        }
    }

    fn finish(self) -> Option<State> {
        let mut state = self.joined?;
        let links = self.links.into_iter().filter_map(|(meta, must, may)| {
            // A field that is always the same tells nothing.
            Some(Link { meta, must_if_one: must?, may_if_zero: may? })
        });
        state.set_links(links.collect());
        Some(state)
    }
}
