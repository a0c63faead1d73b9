//! What may hold at each place of a program, and what is looked at behind it.
//!
//! Forward, block by block: metadata that may differ from its start value, headers that may be valid,
//! fields that may have been written. Backward: metadata and headers that something later reads.
//! A packet that waits at a node or at a stop keeps what both say ([`Point`]); everything else is known.
//!
//! Holds true: both err on the side of keeping. Blocks only go to later ones, so one pass each way
//! is enough.

use crate::graph::{Graph, Step, step};
use crate::set::Set;
use crate::shape::{Read, Shape, elements, reads};
use crate::stops::{Origin, Stops};
use crate::unit::{NodeSpec, Unit};
use ir::program::intrinsic;
use ir::{
    ActionId, BlockId, ChecksumMode, Expr, FieldRef, HeaderId, Op, ParserOp, Program, PuntReason,
    Terminator,
};
use std::cell::{Cell, RefCell};

/// What may hold at some place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct May {
    /// Metadata, intrinsic or not, that may have been assigned.
    pub(crate) meta: Set,
    /// Headers that may be valid.
    pub(crate) valid: Set,
    /// Fields (by [`Shape::field`]) that may differ from the packet's bytes.
    pub(crate) dirty: Set,
    /// Headers may have come, gone or moved since parsing.
    pub(crate) moved: bool,
    /// Something may have been output.
    pub(crate) output: bool,
    /// What is output may be cut.
    pub(crate) cut: bool,
    /// A copy may have been given up.
    pub(crate) lost: bool,
    /// The control side may be told something.
    pub(crate) told: bool,
}

impl May {
    fn join(&mut self, other: &May) {
        self.meta.join(&other.meta);
        self.valid.join(&other.valid);
        self.dirty.join(&other.dirty);
        self.moved |= other.moved;
        self.output |= other.output;
        self.cut |= other.cut;
        self.lost |= other.lost;
        self.told |= other.told;
    }
}

/// What is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) meta: Set,
    pub(crate) headers: Set,
}

impl Live {
    fn join(&mut self, other: &Live) {
        self.meta.join(&other.meta);
        self.headers.join(&other.headers);
    }
}

/// Where packets wait for a lookup.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) may: May,
    pub(crate) live: Live,
}

/// Everything about a unit.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// By node, and behind the nodes by stop; `None` for one that no packet reaches.
    pub(crate) points: Vec<Option<Point>>,
    /// By stop: fields that may have been written since the packet was parsed.
    pub(crate) changed: Vec<Set>,
    /// By stop: what its rest, or anything later, looks at.
    pub(crate) rests: Vec<Live>,
    /// At some end of a pass.
    pub(crate) end: May,
    /// Metadata that operations assign.
    pub(crate) assigned: Set,
    /// By block: the node that applies its table.
    pub(crate) node_of: Vec<Option<usize>>,
    /// By checksum: an input may have changed.
    pub(crate) checksums: Vec<bool>,
    /// By block: what it, or a later one, looks at.
    pub(crate) live: Vec<Live>,
    /// What the parser, or anything later, looks at.
    pub(crate) parsed: Live,
    /// What the end of a pass looks at.
    pub(crate) last: Live,
}

struct Analysis<'a> {
    program: &'a Program,
    shape: &'a Shape,
    graph: &'a Graph,
    stops: &'a Stops<'a>,
    /// What groups' buckets may do.
    buckets: Vec<&'a [Op]>,
    /// Inputs of the hashes that they are chosen by.
    hashes: Vec<&'a Expr>,
    /// Groups that what is looked at is inside of.
    groups: Cell<u32>,
    /// Whose operations are looked at.
    origin: Cell<Origin>,
    /// By stop: what may hold there.
    stopped: RefCell<Vec<Option<May>>>,
    /// At some end of a pass: an operation anywhere may be the last one.
    end: RefCell<May>,
    /// Metadata that operations assign.
    assigned: RefCell<Set>,
}

impl Flow {
    pub(crate) fn new(unit: &Unit, shape: &Shape, graph: &Graph, stops: &Stops<'_>) -> Flow {
        let program = &unit.program.program;
        let bodies = unit.buckets.iter().filter_map(|id| unit.program.actions.get(id));
        let a = Analysis {
            program,
            shape,
            graph,
            stops,
            buckets: bodies.map(|action| &action.body[..]).collect(),
            hashes: unit.hashes.iter().flatten().flat_map(|inputs| inputs.iter()).collect(),
            groups: Cell::new(0),
            origin: Cell::new(Origin::Block(BlockId(0))),
            stopped: RefCell::new(vec![None; stops.all.len()]),
            end: RefCell::default(),
            assigned: RefCell::new(Set::new(program.metadata.len())),
        };
        let blocks = program.blocks.len();
        let mut node_of = vec![None; blocks];
        for (i, node) in unit.nodes.iter().enumerate() {
            if let Some(place) = node_of.get_mut(node.block.index()) {
                *place = Some(i);
            }
        }
        let body = |id: &ActionId| unit.program.actions.get(id).map_or(&[][..], |a| &a.body[..]);

        let mut at: Vec<Option<May>> = vec![None; blocks];
        let mut points: Vec<Option<Point>> = vec![None; unit.nodes.len()];
        let start = a.parsed();
        a.end.replace(start.clone());
        if let Some(first) = at.first_mut() {
            *first = Some(start);
        }
        for (b, block) in program.blocks.iter().enumerate() {
            a.origin.set(Origin::Block(BlockId(b as u32)));
            let arrives = at[b].clone().map(|mut may| {
                a.ops(&block.ops, &mut may);
                may
            });
            // Packets of its twins, which come earlier, go on here.
            let mut twins = Vec::new();
            if let Some(node) = node_of[b] {
                let led = |(_, n): &(usize, &NodeSpec)| n.leader == Some(node);
                twins.extend(unit.nodes.iter().enumerate().filter(led).map(|(i, _)| i));
            }
            let of_twins = twins.iter().filter_map(|twin| points[*twin].clone());
            let all = arrives.into_iter().chain(of_twins.map(|point| point.may));
            let joined = all.reduce(|mut all, one| {
                all.join(&one);
                all
            });
            let Some(mut may) = joined else { continue };
            if let Some(node) = node_of[b]
                && matches!(block.end, Terminator::Apply { .. })
            {
                points[node] = Some(Point { may: may.clone(), live: a.nothing() });
                for twin in &twins {
                    if let Some(point) = &mut points[*twin] {
                        point.may = may.clone();
                    }
                }
                let before = may.clone();
                for action in unit.nodes[node].may_run() {
                    let mut after = before.clone();
                    a.origin.set(Origin::Action(node, action));
                    a.ops(body(&action), &mut after);
                    may.join(&after);
                }
            }
            a.next(unit, node_of[b], b, &mut |to| match &mut at[to] {
                Some(there) => there.join(&may),
                none => *none = Some(may.clone()),
            });
        }

        // What the end of a pass looks at.
        let (mut end, assigned) = (a.end.take(), a.assigned.take());
        let mut last = a.nothing();
        let changes = |e: &Expr| {
            let mut changed = false;
            reads(program, e, &mut |read| {
                changed |= match read {
                    Read::Meta(m) => assigned.has(m),
                    Read::Header(h) => end.moved && shape.structural[h.index()],
                    Read::Field(h, f) => {
                        end.dirty.has(shape.field(h, f)) || end.moved && shape.structural[h.index()]
                    }
                }
            });
            changed
        };
        let mut checksums: Vec<bool> = Vec::new();
        for checksum in &program.checksums {
            // A checksum written before may be an input of this one.
            let written = |e: &Expr| {
                let mut found = false;
                e.visit(&mut |e| {
                    let earlier = program.checksums[..checksums.len()].iter().zip(&checksums);
                    found |= matches!(e, Expr::Field(f) if earlier
                        .clone()
                        .any(|(c, changes)| *changes && c.field == *f));
                });
                found
            };
            // Only what may have changed is looked at.
            let changed: Vec<&Expr> =
                checksum.inputs.iter().filter(|e| changes(e) || written(e)).collect();
            checksums.push(!changed.is_empty());
            if !changed.is_empty() || checksum.mode == ChecksumMode::Always {
                let field = Expr::Field(checksum.field);
                for e in changed.into_iter().chain(&checksum.condition).chain([&field]) {
                    a.expr(e, &mut last);
                }
            }
        }
        for (checksum, may) in program.checksums.iter().zip(&checksums) {
            if let (FieldRef::Header(h, f), true) = (checksum.field, *may) {
                end.dirty.insert(shape.field(h, f));
            }
        }
        for field in 0..program.headers.len() {
            let header = &shape.headers[field];
            let n = program.type_of(HeaderId(field as u32)).fields.len();
            if (0..n).any(|f| end.dirty.has(header.first_field + f))
                || end.moved && header.order.is_some_and(|order| order < shape.moving)
            {
                last.headers.insert(field);
            }
        }

        let mut live: Vec<Live> = vec![a.nothing(); blocks];
        let mut rests: Vec<Live> = vec![a.nothing(); stops.all.len()];
        let rest_of = |rests: &mut Vec<Live>, of: &dyn Fn(Origin) -> bool, here: &Live| {
            for (stop, rest) in stops.all.iter().zip(rests) {
                if of(stop.origin) {
                    *rest = here.clone();
                    a.use_ops(stop.rest, rest);
                }
            }
        };
        for b in (0..blocks).rev() {
            let block = &program.blocks[b];
            let mut here = last.clone();
            a.next(unit, node_of[b], b, &mut |to| here.join(&live[to]));
            if let Some(node) = node_of[b] {
                let of = |origin| matches!(origin, Origin::Action(n, _) if n == node);
                rest_of(&mut rests, &of, &here);
            }
            match (&block.end, node_of[b]) {
                (Terminator::Apply { table, .. }, Some(node)) => {
                    let spec = &unit.nodes[node];
                    spec.may_run().iter().for_each(|action| a.use_ops(body(action), &mut here));
                    let leader = spec.leader.and_then(|leader| points[leader].clone());
                    if let Some(point) = &mut points[node] {
                        point.live = here.clone();
                        if let Some(leader) = leader {
                            point.live.join(&leader.live);
                        }
                    }
                    for column in &spec.columns {
                        if let Some(key) = program.tables[table.index()].key.get(*column as usize) {
                            a.expr(&key.expr, &mut here);
                        }
                    }
                }
                (Terminator::If { condition, .. }, _) => a.expr(condition, &mut here),
                _ => {}
            }
            rest_of(&mut rests, &|origin| origin == Origin::Block(BlockId(b as u32)), &here);
            a.use_ops(&block.ops, &mut here);
            live[b] = here;
        }
        let mut changed = Vec::new();
        for ((stop, rest), may) in stops.all.iter().zip(&mut rests).zip(a.stopped.take()) {
            changed.push(may.as_ref().map_or_else(Set::default, |may| may.dirty.clone()));
            points.push(may.map(|mut may| {
                // They are there behind it.
                stop.results.iter().for_each(|meta| may.meta.insert(meta.index()));
                let mut live = rest.clone();
                if stop.edits {
                    a.use_parser(rest);
                    // Nothing of the headers as they were matters any more.
                    live = Live { meta: rest.meta.clone(), headers: a.nothing().headers };
                }
                Point { may, live }
            }));
        }
        let mut parsed = live.first().cloned().unwrap_or_else(|| last.clone());
        a.use_parser(&mut parsed);
        Flow { points, changed, rests, end, assigned, node_of, checksums, live, parsed, last }
    }
}

impl Flow {
    /// What the first block, or anything later, looks at.
    pub(crate) fn at_first(&self) -> &Live {
        self.live.first().unwrap_or(&self.last)
    }
}

impl Analysis<'_> {
    fn nothing(&self) -> Live {
        Live {
            meta: Set::new(self.program.metadata.len()),
            headers: Set::new(self.program.headers.len()),
        }
    }

    /// After the parser.
    fn parsed(&self) -> May {
        let graph = self.graph;
        let mut may = May {
            meta: Set::new(self.program.metadata.len()),
            valid: Set::new(self.program.headers.len()),
            dirty: Set::new(self.shape.fields),
            moved: graph.shuffled,
            output: false,
            cut: false,
            lost: false,
            told: false,
        };
        if !graph.instances.is_empty() {
            may.meta.insert(intrinsic::PARSER_ERROR.index());
        }
        // Twice, so that a write counts whichever instance comes first in the list.
        for instance in graph.instances.iter().chain(&graph.instances) {
            let (mut lasts, mut order) = (instance.lasts.clone(), instance.order);
            for op in &self.program.parser[instance.state.index()].ops {
                match step(self.program, self.shape, op, &mut lasts, &mut order) {
                    Step::Extract(header, _) => may.valid.insert(header.index()),
                    Step::Full => break,
                    Step::Other => {
                        if let ParserOp::Assign(field, _) = op {
                            self.write(*field, &mut may);
                        }
                    }
                }
            }
        }
        may
    }

    /// Calls `f` on the blocks that may follow.
    fn next(&self, unit: &Unit, node: Option<usize>, b: usize, f: &mut dyn FnMut(usize)) {
        let block = &self.program.blocks[b];
        let blocks = self.program.blocks.len();
        // Going back ends the pass.
        let mut to = |block: BlockId| {
            if block.index() > b && block.index() < blocks {
                f(block.index());
            }
        };
        gotos(&block.ops, &mut to);
        match &block.end {
            Terminator::Jump(next) => to(*next),
            Terminator::If { then, or_else, .. } => {
                to(*then);
                to(*or_else);
            }
            Terminator::Apply { hit, miss, by_action, .. } => {
                let Some(node) = node else { return };
                to(*hit);
                to(*miss);
                by_action.iter().for_each(|(_, block)| to(*block));
                for action in unit.nodes[node].may_run() {
                    if let Some(action) = unit.program.actions.get(&action) {
                        gotos(&action.body, &mut to);
                    }
                }
            }
            Terminator::Exit => {}
        }
    }

    /// Follows operations; `may` becomes what may hold behind them, or where they end the pass.
    fn ops(&self, ops: &[Op], may: &mut May) {
        for op in ops {
            self.op(op, may);
            self.end.borrow_mut().join(may);
        }
    }

    fn op(&self, op: &Op, may: &mut May) {
        let shape = self.shape;
        let ids = |h: HeaderId| {
            let n = self.program.type_of(h).fields.len();
            let first = shape.headers[h.index()].first_field;
            first..first + n
        };
        match op {
            Op::Assign(field, _) | Op::AssignSlice(field, ..) => self.assign(*field, may),
            Op::SetValid(h) => {
                may.valid.insert(h.index());
                may.moved = true;
            }
            Op::SetInvalid(_) => may.moved = true,
            Op::CopyHeader { to, from } => {
                self.copy(*to, *from, may);
                may.moved = true;
            }
            Op::PushFront(stack, n) => {
                let all: Vec<HeaderId> = elements(self.program, *stack).collect();
                let n = (*n as usize).min(all.len());
                for i in (n..all.len()).rev() {
                    self.copy(all[i], all[i - n], may);
                }
                for h in &all[..n] {
                    may.valid.insert(h.index());
                    ids(*h).for_each(|f| may.dirty.remove(f));
                }
                may.moved = true;
            }
            Op::PopFront(stack, n) => {
                let all: Vec<HeaderId> = elements(self.program, *stack).collect();
                let n = (*n as usize).min(all.len());
                for i in 0..all.len() - n {
                    self.copy(all[i], all[i + n], may);
                }
                for h in &all[all.len() - n..] {
                    may.valid.remove(h.index());
                    ids(*h).for_each(|f| may.dirty.remove(f));
                }
                may.moved = true;
            }
            Op::Output { .. } => may.output = true,
            Op::If { then, or_else, .. } => {
                let mut other = may.clone();
                self.ops(then, may);
                self.ops(or_else, &mut other);
                may.join(&other);
            }
            Op::Group { .. } => {
                let groups = self.groups.get();
                may.lost = true;
                if groups < crate::unit::GROUP_DEPTH_MAX {
                    self.groups.set(groups + 1);
                    let origin = self.origin.replace(Origin::Bucket);
                    for body in &self.buckets {
                        let mut copy = may.clone();
                        self.ops(body, &mut copy);
                        may.output |= copy.output;
                        may.told |= copy.told;
                    }
                    self.origin.set(origin);
                    self.groups.set(groups);
                }
            }
            Op::PortIs { field, .. } => {
                if let FieldRef::Meta(id) = field {
                    self.assigned.borrow_mut().insert(id.index());
                }
                self.write(*field, may);
            }
            // These bail out.
            Op::Reparse
            | Op::Clone { .. }
            | Op::Call { .. }
            | Op::Resubmit { .. }
            | Op::Recirculate { .. }
            | Op::CopyVarbit { .. }
            | Op::PayloadHash { .. } => {}
            Op::Count { .. } | Op::RegisterWrite { .. } => {}
            // It bails out.
            Op::Punt { reason: PuntReason::InvalidTtl, .. } => {}
            // What is told of it has copies, too.
            Op::Punt { .. } | Op::Digest { .. } => (may.told, may.output) = (true, true),
            Op::RegisterRead { field, .. } | Op::Random { field, .. } => self.assign(*field, may),
            Op::Meter { color, level, .. } => {
                self.assign(*color, may);
                self.assign(*level, may);
            }
            Op::Truncate { .. } => may.cut = true,
            Op::OnCopy { body } => {
                let mut copy = may.clone();
                self.ops(body, &mut copy);
                may.output |= copy.output;
                may.told |= copy.told;
                may.lost = true;
            }
            Op::PayloadSum { field } => self.assign(*field, may),
            Op::Service { service, results, .. } => {
                if let Some(stop) = self.stops.find(self.origin.get(), op) {
                    match &mut self.stopped.borrow_mut()[stop] {
                        Some(there) => there.join(may),
                        none => *none = Some(may.clone()),
                    }
                }
                // It may be dropped there.
                self.end.borrow_mut().join(may);
                if self.program.services[service.index()].edits {
                    // Of the headers as they were nothing is left.
                    let parsed = self.parsed();
                    may.meta.join(&parsed.meta);
                    let May { output, cut, lost, told, .. } = *may;
                    *may = May { meta: may.meta.clone(), output, cut, lost, told, ..parsed };
                }
                for meta in results {
                    self.assigned.borrow_mut().insert(meta.index());
                    may.meta.insert(meta.index());
                }
            }
            // Until a round adds nothing: what may hold only grows.
            Op::Loop { body, .. } => loop {
                let before = may.clone();
                let mut round = may.clone();
                self.ops(body, &mut round);
                may.join(&round);
                if *may == before {
                    break;
                }
            },
            Op::Goto(_) | Op::Drop(_) | Op::Exit => {}
        }
    }

    fn copy(&self, to: HeaderId, from: HeaderId, may: &mut May) {
        if to == from {
            return;
        }
        let shape = self.shape;
        may.valid.set(to.index(), may.valid.has(from.index()));
        for f in 0..self.program.type_of(to).fields.len() {
            let dirty = may.dirty.has(shape.headers[from.index()].first_field + f);
            may.dirty.set(shape.headers[to.index()].first_field + f, dirty);
        }
    }

    fn assign(&self, field: FieldRef, may: &mut May) {
        if let FieldRef::Meta(id) = field {
            self.assigned.borrow_mut().insert(id.index());
        }
        self.write(field, may);
    }

    fn write(&self, field: FieldRef, may: &mut May) {
        match field {
            FieldRef::Meta(id) => may.meta.insert(id.index()),
            FieldRef::Header(h, f) => {
                if may.valid.has(h.index()) {
                    may.dirty.insert(self.shape.field(h, f));
                }
            }
            FieldRef::Last(stack, f) => {
                for h in elements(self.program, stack) {
                    if may.valid.has(h.index()) {
                        may.dirty.insert(self.shape.field(h, f));
                    }
                }
            }
        }
    }

    /// What an expression looks at.
    fn expr(&self, e: &Expr, live: &mut Live) {
        reads(self.program, e, &mut |read| match read {
            Read::Meta(m) => live.meta.insert(m),
            Read::Header(h) | Read::Field(h, _) => live.headers.insert(h.index()),
        });
    }

    /// What the parser looks at.
    fn use_parser(&self, live: &mut Live) {
        for state in &self.program.parser {
            for op in &state.ops {
                match op {
                    ParserOp::Extract { varbit: Some(e), .. }
                    | ParserOp::ExtractNext { varbit: Some(e), .. }
                    | ParserOp::Advance(e)
                    | ParserOp::Assign(_, e)
                    | ParserOp::Verify(e, _) => self.expr(e, live),
                    ParserOp::Extract { .. } | ParserOp::ExtractNext { .. } => {}
                }
            }
            let mut next = vec![&state.next];
            while let Some(transition) = next.pop() {
                if let ir::Transition::Select { keys, cases } = transition {
                    keys.iter().for_each(|key| self.expr(key, live));
                    next.extend(cases.iter().map(|case| &case.next));
                }
            }
        }
    }

    fn use_ops(&self, ops: &[Op], live: &mut Live) {
        let whole = |h: HeaderId, live: &mut Live| {
            live.headers.insert(h.index());
            if let Some(union) = self.program.headers[h.index()].union {
                let members = &self.program.unions[union.index()].members;
                members.iter().for_each(|m| live.headers.insert(m.index()));
            }
        };
        let mut groups = false;
        for op in ops {
            op.visit(&mut |op| {
                op.exprs(&mut |e| self.expr(e, live));
                match op {
                    Op::Assign(FieldRef::Meta(_), _) => {}
                    Op::PayloadSum { field: FieldRef::Meta(_) }
                    | Op::RegisterRead { field: FieldRef::Meta(_), .. }
                    | Op::Random { field: FieldRef::Meta(_), .. } => {}
                    Op::Assign(field, _)
                    | Op::AssignSlice(field, ..)
                    | Op::RegisterRead { field, .. }
                    | Op::Random { field, .. }
                    | Op::PayloadSum { field } => self.expr(&Expr::Field(*field), live),
                    Op::Meter { color, level, .. } => {
                        for field in [color, level] {
                            if !matches!(field, FieldRef::Meta(_)) {
                                self.expr(&Expr::Field(*field), live);
                            }
                        }
                    }
                    Op::SetValid(h) | Op::SetInvalid(h) => whole(*h, live),
                    Op::CopyHeader { to, from } => {
                        whole(*to, live);
                        whole(*from, live);
                    }
                    Op::PushFront(stack, _) | Op::PopFront(stack, _) => {
                        elements(self.program, *stack).for_each(|h| whole(h, live))
                    }
                    Op::Output { .. } => live.meta.insert(intrinsic::QUEUE.index()),
                    Op::PortIs { field: FieldRef::Meta(_), .. } => {}
                    Op::PortIs { field, .. } => self.expr(&Expr::Field(*field), live),
                    Op::Group { .. } => groups = true,
                    _ => {}
                }
            });
        }
        // Buckets of one group inside of another do what some bucket does.
        if groups && self.groups.get() == 0 {
            self.groups.set(1);
            self.buckets.iter().for_each(|body| self.use_ops(body, live));
            self.hashes.iter().for_each(|e| self.expr(e, live));
            self.groups.set(0);
        }
    }
}

/// Calls `f` on every block that operations may go to.
pub(crate) fn gotos(ops: &[Op], f: &mut dyn FnMut(BlockId)) {
    for op in ops {
        op.visit(&mut |op| {
            if let Op::Goto(block) = op {
                f(*block);
            }
        });
    }
}
