//! Everything about a unit that is worked out before code is generated.

use crate::flow::Flow;
use crate::frame::{Frame, Slots};
use crate::graph::Graph;
use crate::set::Set;
use crate::shape::Shape;
use crate::stops::Stops;
use crate::unit::{BUCKET_COPIES_MAX, Unit};
use ir::{FieldRef, HeaderId, Op, Program};

/// A unit and what follows from it.
pub(crate) struct Plan<'u> {
    pub(crate) unit: &'u Unit,
    pub(crate) program: &'u Program,
    pub(crate) shape: Shape,
    pub(crate) graph: Graph,
    pub(crate) flow: Flow,
    pub(crate) stops: Stops<'u>,
    pub(crate) slots: Slots,
    pub(crate) frame: Frame,
    /// Metadata that a checksum looks at.
    pub(crate) checksum_meta: Vec<bool>,
    /// No packet makes more copies in the midst of operations than the interpreter allows.
    pub(crate) few_copies: bool,
    /// Packets may ask for what depends on those before them.
    pub(crate) asks: bool,
}

/// Headers that a packet may have written when it waits at a stop, at most: bits of a word.
const IMAGES_MAX: usize = 64;

impl<'u> Plan<'u> {
    /// Where the parts of a burst's memory lie.
    fn frame_of(&self) -> Frame {
        let nodes = (0..self.unit.nodes.len()).map(|node| self.key(node).0);
        let stops = (0..self.stops.all.len()).map(|stop| 8 * self.words(stop).0.max(1) as usize);
        Frame::new(nodes.chain(stops).collect::<Vec<usize>>().into_iter(), &self.slots)
    }

    pub(crate) fn new(unit: &'u Unit) -> Plan<'u> {
        let program = &unit.program.program;
        let blocks = program.blocks.iter().flat_map(|b| &b.ops);
        let actions = unit.program.actions.values().flat_map(|a| &a.body);
        let mut shape = Shape::new(program, blocks.chain(actions));
        let graph = Graph::new(program, &shape);
        if graph.shuffled {
            // Whichever lies where it should not, what comes behind it has to move.
            shape.moving = program.deparser.len() as u32;
        }
        let stops = Stops::new(unit);
        let flow = Flow::new(unit, &shape, &graph, &stops);
        let mut slots = slots(program, &shape, &graph, &flow);
        if !stops.all.is_empty() {
            let words = unit.program.actions.values().map(|a| words(&a.params)).max();
            slots.action = slots.stride as i32;
            let mut end = slots.stride + 8 * (2 + words.unwrap_or(0));
            let written = written_at_stops(program, &shape, &flow);
            if !written.is_empty() {
                slots.changed = end as i32;
                end += 8;
            }
            for h in written {
                slots.images.push((h, end as i32));
                end += 8 + (shape.headers[h.index()].fixed / 8).next_multiple_of(8);
            }
            slots.stride = end.next_multiple_of(64);
        }
        let mut checksum_meta = vec![false; program.metadata.len()];
        for checksum in &program.checksums {
            for e in checksum.inputs.iter().chain(&checksum.condition) {
                crate::shape::reads(program, e, &mut |read| {
                    if let crate::shape::Read::Meta(m) = read {
                        checksum_meta[m] = true;
                    }
                });
            }
        }
        let frame = Frame::default();
        let few_copies = copies(unit) <= COPIES_MAX && bucket_copies(unit) <= BUCKET_COPIES_MAX;
        let mut plan = Plan {
            unit,
            program,
            shape,
            graph,
            flow,
            stops,
            slots,
            frame,
            checksum_meta,
            few_copies,
            asks: may_ask(unit),
        };
        plan.frame = plan.frame_of();
        plan
    }

    /// Packets of its twins wait at a node, too.
    pub(crate) fn is_mixed(&self, node: usize) -> bool {
        self.unit.nodes.iter().any(|other| other.leader == Some(node))
    }

    /// Headers may have been written when a packet waits at the stop.
    pub(crate) fn may_change(&self, stop: usize) -> bool {
        !self.slots.images.is_empty() && !self.flow.changed[stop].is_empty()
    }

    /// The stop's number among nodes and stops.
    pub(crate) fn station(&self, stop: usize) -> usize {
        self.unit.nodes.len() + stop
    }

    /// Words of a stop's arguments, and of its answers.
    pub(crate) fn words(&self, stop: usize) -> (u32, u32) {
        let service = &self.program.services[self.stops.all[stop].service.index()];
        (words(&service.args), words(&service.results))
    }

    /// Bytes from one key to the next, and of one key, at a node.
    pub(crate) fn key(&self, node: usize) -> (usize, usize) {
        let spec = &self.unit.nodes[node];
        let key = &self.program.tables[spec.applied.index()].key;
        let bytes = spec
            .columns
            .iter()
            .map(|c| key.get(*c as usize).map_or(0, |k| (k.width as usize).div_ceil(8)));
        let len: usize = bytes.sum();
        (len.next_multiple_of(8).max(8), len)
    }
}

/// Copies that a packet makes in the midst of operations, at most: the interpreter makes more, of which others are some;
/// buckets, and what these make, are fewer than 641 ([`abi::COUNTED_MAX`]) times four.
const COPIES_MAX: usize = 1024;

/// How many of them a bucket's action makes, at most.
fn bucket_copies(unit: &Unit) -> usize {
    let bodies = unit.buckets.iter().filter_map(|id| unit.program.actions.get(id));
    bodies.map(|action| count_copies(&action.body)).max().unwrap_or(0)
}

fn count_copies(ops: &[Op]) -> usize {
    let mut n = 0;
    let mut one = |op: &Op| n += usize::from(matches!(op, Op::OnCopy { .. }));
    ops.iter().for_each(|op| op.visit(&mut one));
    n
}

/// How many of them a packet makes, at most: it comes to each block once, and runs one action there.
fn copies(unit: &Unit) -> usize {
    let blocks = unit.program.program.blocks.iter().map(|block| count_copies(&block.ops));
    let actions = unit.nodes.iter().map(|node| {
        let bodies = node.may_run().into_iter();
        let bodies = bodies.filter_map(|id| unit.program.actions.get(&id));
        bodies.map(|action| count_copies(&action.body)).max().unwrap_or(0)
    });
    blocks.chain(actions).sum()
}

/// Headers of whole bytes that are written at some stop, when the packet is handed over as it would leave.
fn written_at_stops(program: &Program, shape: &Shape, flow: &Flow) -> Vec<HeaderId> {
    if flow.changed.iter().all(Set::is_empty) {
        return Vec::new();
    }
    let summed = |h: HeaderId| {
        let mut checksums = program.checksums.iter().zip(&flow.checksums);
        checksums.any(|(c, may)| *may && matches!(c.field, FieldRef::Header(of, _) if of == h))
    };
    let written = |h: &HeaderId| {
        let header = &shape.headers[h.index()];
        let fields = header.first_field..header.first_field + program.type_of(*h).fields.len();
        let any = |changed: &Set| fields.clone().any(|field| changed.has(field));
        let whole = header.order.is_some() && header.fixed.is_multiple_of(8);
        whole && (summed(*h) || flow.changed.iter().any(any))
    };
    let all = (0..program.headers.len() as u32).map(HeaderId).filter(written);
    all.take(IMAGES_MAX).collect()
}

/// Words of values one after the other.
pub(crate) fn words(params: &[ir::program::Param]) -> u32 {
    params.iter().map(|p| p.width.div_ceil(64)).sum()
}

fn slots(program: &Program, shape: &Shape, graph: &Graph, flow: &Flow) -> Slots {
    let mut at = 0i32;
    let mut words = |n: u32| {
        let place = at;
        at += 8 * n as i32;
        Some(place)
    };
    let points = || flow.points.iter().flatten();
    let limbs = |width: u32| width.div_ceil(64);
    let mut slots = Slots { zeros: (shape.longest + 16).next_multiple_of(64), ..Slots::default() };
    for (m, field) in program.metadata.iter().enumerate() {
        let kept = points().any(|p| p.may.meta.has(m) && p.live.meta.has(m));
        slots.meta.push(if kept { words(limbs(field.width)) } else { None });
    }
    for h in 0..program.headers.len() {
        let kept = points().any(|p| p.may.valid.has(h) && p.live.headers.has(h));
        let varbit = shape.headers[h].varbit.is_some();
        slots.headers.push(if kept { words(1 + u32::from(varbit)) } else { None });
    }
    for h in 0..program.headers.len() {
        for (f, field) in program.type_of(HeaderId(h as u32)).fields.iter().enumerate() {
            let number = shape.headers[h].first_field + f;
            // A varbit field is never written in code.
            let kept =
                !field.varbit && points().any(|p| p.may.dirty.has(number) && p.live.headers.has(h));
            slots.fields.push(if kept { words(1 + limbs(field.width)) } else { None });
        }
    }
    if points().next().is_some() {
        if flow.end.moved {
            slots.edge = words(1);
        }
        if graph.disorder {
            slots.in_order = words(1);
        }
        if points().any(|p| p.may.output) {
            slots.unlaid = words(1);
        }
        if points().any(|p| p.may.cut) {
            slots.cut = words(1);
        }
        if points().any(|p| p.may.lost) {
            slots.lost = words(1);
        }
        if points().any(|p| p.may.told) {
            slots.told = words(1);
        }
        if flow.end.told {
            slots.last = words(1);
        }
    }
    slots.stride = (at as u32).next_multiple_of(64).max(64);
    let moving: u32 = program
        .deparser
        .iter()
        .filter_map(|h| {
            let header = &shape.headers[h.index()];
            let moves = header.order.is_some_and(|order| order < shape.moving);
            moves.then(|| (header.fixed + header.varbit.unwrap_or(0)).div_ceil(8))
        })
        .sum();
    slots.scratch = (moving + 16).next_multiple_of(64);
    slots
}

/// In a program of this unit, packets may ask for what depends on the packets before them.
fn may_ask(unit: &Unit) -> bool {
    let blocks = unit.program.program.blocks.iter().flat_map(|block| &block.ops);
    let actions = unit.program.actions.values().flat_map(|action| &action.body);
    let mut ordered = false;
    blocks.chain(actions).for_each(|op| op.visit(&mut |op| ordered |= asks(op)));
    ordered
}

/// What it answers depends on the packets before, or what those behind are answered depends on it.
fn asks(op: &Op) -> bool {
    matches!(
        op,
        Op::Meter { .. } | Op::RegisterRead { .. } | Op::RegisterWrite { .. } | Op::Random { .. }
    )
}
