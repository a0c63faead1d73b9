//! The parser, unrolled: which states are entered with which stacks how full.
//!
//! An [`Instance`] is a state together with the last valid element of every stack that the state, or
//! one behind it, looks at; so `extract next` has one known element. Instances are in an order in
//! which control only moves forward. A transition back (a loop that takes no element of a stack) and
//! everything past [`INSTANCES_MAX`] is not compiled.
//!
//! Holds true: a packet enters at most [`INSTANCES_MAX`] instances, fewer than the interpreter's
//! bound on steps.

use crate::set::Set;
use crate::shape::{Shape, elements};
use crate::version::{DEPTH_MAX, STATE_VERSIONS};
use ir::program::PARSER_STEPS_MAX;
use ir::{
    Bits, Expr, FieldRef, HeaderId, ParserOp, ParserState, ParserStateId, Program, Select,
    SelectCase, Transition,
};
use std::collections::{HashMap, VecDeque};

/// Instances compiled, at most.
pub(crate) const INSTANCES_MAX: usize = 192;
const _: () = assert!(INSTANCES_MAX < PARSER_STEPS_MAX);

/// By stack: its last valid element.
pub(crate) type Lasts = Vec<Option<u32>>;

/// A state and how full the stacks are.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) state: ParserStateId,
    pub(crate) lasts: Lasts,
    /// The headers extracted on any way here come before this place in the deparser.
    pub(crate) order: u32,
}

/// The unrolled parser.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// The first one is the start.
    pub(crate) instances: Vec<Instance>,
    places: HashMap<(ParserStateId, Lasts), usize>,
    /// By state: stacks that matter in it or behind it.
    stacks: Vec<Set>,
    /// The headers may lie in another order than the deparser's, or with bytes between that do not leave: whoever emits lays
    /// all of them anew.
    pub(crate) shuffled: bool,
    /// What leaves may differ from what was parsed in a way that code does not emit.
    pub(crate) disorder: bool,
    /// By instance: where the packet may be entered by code of its own, in bytes from its start.
    short: Vec<Vec<u64>>,
    /// What [`floor`](Self::floor) says.
    floor: Option<u64>,
}

/// Bytes that nearly all packets have: Ethernet, IPv4, TCP.
const FLOOR_MAX: u64 = 54;

/// What a parser operation does to what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Extracts this header.
    Extract(HeaderId, Lies),
    /// There is no room in the stack.
    Full,
    /// Something else.
    Other,
}

/// How an extracted header lies among those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lies {
    /// In the deparser's order.
    InOrder,
    /// Elsewhere, or it does not leave.
    Elsewhere,
    /// It leaves several times.
    Repeated,
}

impl Graph {
    pub(crate) fn new(program: &Program, shape: &Shape) -> Graph {
        let mut graph = Graph { stacks: stacks(program), ..Graph::default() };
        if program.parser.is_empty() {
            return graph;
        }
        // Breadth first, so that what is left out is what is deepest.
        let mut found: Vec<(ParserStateId, Lasts)> = Vec::new();
        let mut numbers: HashMap<(ParserStateId, Lasts), usize> = HashMap::new();
        let mut next: Vec<Vec<usize>> = Vec::new();
        let start = (ParserStateId(0), vec![None; program.stacks.len()]);
        numbers.insert(start.clone(), 0);
        found.push(start);
        let mut at = 0;
        while at < found.len() {
            let (state, mut lasts) = found[at].clone();
            let mut to = Vec::new();
            let state = &program.parser[state.index()];
            let mut order = 0;
            let ends = |op| step(program, shape, op, &mut lasts, &mut order) == Step::Full;
            if !state.ops.iter().any(ends) {
                targets(
                    &state.next,
                    &|keys, case| graph.possible(program, keys, case, &lasts),
                    &mut |target| {
                        let key = graph.key(target, &lasts);
                        let number = numbers.get(&key).copied().or_else(|| {
                            (found.len() < INSTANCES_MAX).then(|| {
                                numbers.insert(key.clone(), found.len());
                                found.push(key);
                                found.len() - 1
                            })
                        });
                        to.extend(number);
                    },
                );
            }
            next.push(to);
            at += 1;
        }
        // Depth first: reverse postorder is an order in which all but loops go forward.
        let mut place = vec![usize::MAX; found.len()];
        let mut entered = vec![false; found.len()];
        let mut postorder = Vec::new();
        let mut stack = vec![(0, 0)];
        entered[0] = true;
        while let Some((node, i)) = stack.pop() {
            match next[node].get(i) {
                Some(to) => {
                    stack.push((node, i + 1));
                    if !entered[*to] {
                        entered[*to] = true;
                        stack.push((*to, 0));
                    }
                }
                None => postorder.push(node),
            }
        }
        for (at, node) in postorder.iter().rev().enumerate() {
            place[*node] = at;
            let (state, lasts) = found[*node].clone();
            graph.places.insert((state, lasts.clone()), at);
            graph.instances.push(Instance { state, lasts, order: 0 });
        }
        for (at, node) in postorder.iter().rev().enumerate() {
            let Instance { state, mut lasts, mut order } = graph.instances[at].clone();
            for op in &program.parser[state.index()].ops {
                let step = step(program, shape, op, &mut lasts, &mut order);
                let union = |h: HeaderId| program.headers[h.index()].union.is_some();
                match step {
                    Step::Extract(header, lies) => {
                        graph.shuffled |= lies == Lies::Elsewhere || union(header);
                        graph.disorder |= lies == Lies::Repeated;
                    }
                    Step::Full => break,
                    Step::Other => match op {
                        ParserOp::Advance(_) => graph.shuffled = true,
                        ParserOp::Assign(field, _) => {
                            let header = !matches!(field, FieldRef::Meta(_));
                            graph.disorder |= header && asks_what_was_parsed(program);
                        }
                        _ => {}
                    },
                }
            }
            for to in &next[*node] {
                let to = place[*to];
                if to > at {
                    graph.instances[to].order = graph.instances[to].order.max(order);
                }
            }
        }
        (graph.short, graph.floor) = graph.short_ways(program, shape);
        graph
    }

    /// Breadth first: the shortest ways to each instance, as far as lengths are known.
    fn short_ways(&self, program: &Program, shape: &Shape) -> (Vec<Vec<u64>>, Option<u64>) {
        let mut floor = None;
        let mut short: Vec<Vec<u64>> = vec![Vec::new(); self.instances.len()];
        let mut queue = VecDeque::from([(0usize, 0u64, 0u32)]);
        while let Some((at, mut cursor, mut depth)) = queue.pop_front() {
            let Instance { state, mut lasts, mut order } = self.instances[at].clone();
            let state = &program.parser[state.index()];
            let known = state.ops.iter().all(|op| {
                let step = step(program, shape, op, &mut lasts, &mut order);
                match (step, op) {
                    (Step::Extract(header, _), _) => {
                        let header = &shape.headers[header.index()];
                        cursor += u64::from(header.fixed / 8);
                        depth += 1;
                        header.varbit.is_none()
                    }
                    (Step::Full, _) | (_, ParserOp::Advance(_)) => false,
                    _ => true,
                }
            });
            if at > 0 && cursor <= FLOOR_MAX {
                floor = floor.max(Some(cursor));
            }
            if !known || depth > DEPTH_MAX {
                continue;
            }
            targets(
                &state.next,
                &|keys, case| self.possible(program, keys, case, &lasts),
                &mut |target| {
                    let Some(to) = self.target(at, target, &lasts) else { return };
                    let ways = &mut short[to];
                    if ways.len() < STATE_VERSIONS && !ways.contains(&cursor) {
                        ways.push(cursor);
                        queue.push_back((to, cursor, depth));
                    }
                },
            );
        }
        (short, floor)
    }

    /// How many bytes packets should have for the entry to parse them: enough for the headers on
    /// short ways, as far as nearly all packets have so many. `None` if a packet's length is looked
    /// at no more than once anyway.
    pub(crate) fn floor(&self) -> Option<u64> {
        self.floor
    }

    /// An instance is worth code of its own where it is entered so many bytes into the packet.
    pub(crate) fn is_short(&self, instance: usize, cursor: u64) -> bool {
        self.short[instance].contains(&cursor)
    }

    /// False if a case asks for another number of valid elements than there are. (If headers are
    /// extracted into the middle of a stack, there may be fewer than the last one's place says; what
    /// is left out by mistake bails out.)
    fn possible(&self, program: &Program, keys: &[Expr], case: &SelectCase, lasts: &Lasts) -> bool {
        keys.iter().zip(&case.patterns).all(|(key, pattern)| {
            let Expr::StackSize(stack) = key else { return true };
            let first = program.stacks[stack.index()].first.0;
            let size = lasts[stack.index()].map_or(0, |last| last + 1 - first);
            let size = Bits::from_u128(size.into(), 8);
            match pattern {
                Select::Any | Select::ValueSet(_) => true,
                Select::Masked(v, mask) => size.and(mask) == v.and(mask),
                Select::Range(lo, hi) => size.compare(lo).is_ge() && size.compare(hi).is_le(),
            }
        })
    }

    fn key(&self, state: ParserStateId, lasts: &Lasts) -> (ParserStateId, Lasts) {
        let matter = &self.stacks[state.index()];
        let keep = |(i, last): (usize, &Option<u32>)| last.filter(|_| matter.has(i));
        (state, lasts.iter().enumerate().map(keep).collect())
    }

    /// The instance that a transition from instance `from` leads to; `None` if it is not compiled.
    pub(crate) fn target(&self, from: usize, state: ParserStateId, lasts: &Lasts) -> Option<usize> {
        self.places.get(&self.key(state, lasts)).copied().filter(|to| *to > from)
    }
}

/// Somebody asks for the packet as it was parsed, not as the parser has written it: a checksum, or a service. Else what
/// the parser writes to a header is a write like any other.
pub(crate) fn asks_what_was_parsed(program: &Program) -> bool {
    !(program.checksums.is_empty() && program.services.is_empty())
}

/// Follows an operation: `lasts` and `order` become what holds after it.
pub(crate) fn step(
    program: &Program,
    shape: &Shape,
    op: &ParserOp,
    lasts: &mut Lasts,
    order: &mut u32,
) -> Step {
    let header = match op {
        ParserOp::Extract { header, .. } => *header,
        ParserOp::ExtractNext { stack, .. } => {
            let declared = &program.stacks[stack.index()];
            let next = lasts[stack.index()].map_or(declared.first.0, |last| last + 1);
            if next >= declared.first.0 + declared.size {
                return Step::Full;
            }
            HeaderId(next)
        }
        _ => return Step::Other,
    };
    if let Some((stack, _)) = program.headers[header.index()].stack {
        let last = &mut lasts[stack.index()];
        *last = Some(last.map_or(header.0, |last| last.max(header.0)));
    }
    match shape.headers[header.index()].order {
        Some(place) if place >= *order => {
            *order = place + 1;
            Step::Extract(header, Lies::InOrder)
        }
        None if program.deparser.contains(&header) => Step::Extract(header, Lies::Repeated),
        _ => Step::Extract(header, Lies::Elsewhere),
    }
}

/// Calls `f` on every state that a transition can lead to by cases that are possible.
fn targets(
    transition: &Transition,
    possible: &dyn Fn(&[Expr], &SelectCase) -> bool,
    f: &mut dyn FnMut(ParserStateId),
) {
    match transition {
        Transition::Accept | Transition::Reject => {}
        Transition::State(state) => f(*state),
        Transition::Select { keys, cases } => {
            for case in cases.iter().filter(|case| possible(keys, case)) {
                targets(&case.next, possible, f);
            }
        }
    }
}

/// By state: stacks that it, or a state behind it, looks at.
fn stacks(program: &Program) -> Vec<Set> {
    let own = |state: &ParserState| {
        let mut set = Set::new(program.stacks.len());
        let mut note = |e: &Expr| {
            e.visit(&mut |e| match e {
                Expr::StackSize(stack) => set.insert(stack.index()),
                Expr::Field(FieldRef::Last(stack, _)) => set.insert(stack.index()),
                _ => {}
            });
        };
        let mut next = vec![&state.next];
        while let Some(transition) = next.pop() {
            if let Transition::Select { keys, cases } = transition {
                keys.iter().for_each(&mut note);
                next.extend(cases.iter().map(|case| &case.next));
            }
        }
        for op in &state.ops {
            match op {
                ParserOp::Extract { varbit, .. } => varbit.iter().for_each(&mut note),
                ParserOp::ExtractNext { varbit, .. } => varbit.iter().for_each(&mut note),
                ParserOp::Advance(e) | ParserOp::Verify(e, _) => note(e),
                ParserOp::Assign(_, e) => note(e),
            }
        }
        for op in &state.ops {
            match op {
                ParserOp::ExtractNext { stack, .. } => set.insert(stack.index()),
                ParserOp::Assign(FieldRef::Last(stack, _), _) => set.insert(stack.index()),
                _ => {}
            }
        }
        set
    };
    let mut sets: Vec<Set> = program.parser.iter().map(own).collect();
    loop {
        let before = sets.clone();
        for (i, state) in program.parser.iter().enumerate() {
            targets(&state.next, &|_, _| true, &mut |to| {
                let behind = sets[to.index()].clone();
                sets[i].join(&behind);
            });
        }
        if sets == before {
            return sets;
        }
    }
}

/// Headers of unions that are elements of stacks make `lasts` unknown.
pub(crate) fn supported(program: &Program) -> bool {
    (0..program.stacks.len() as u32)
        .flat_map(|s| elements(program, ir::StackId(s)))
        .all(|h| program.headers[h.index()].union.is_none())
}
