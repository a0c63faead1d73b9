//! Passes behind each other: what follows a service is laid out as a copy of the pipeline.
//!
//! ```text
//! service softflow(..); sf_stage = sf_stage + 1; recirculate keep {sf_stage, ..}
//! ```
//!
//! becomes, in the first copy, `..; goto t0@1`, where `t0@1` begins a copy of all blocks, tables and actions.
//! Facts then tell the copies apart: where `sf_stage` is 1, the entries of stage 0 are gone (SoftFlow §3, stage
//! coalescing). In the last copy the recirculation stays.
//!
//! A recirculation behind a service is a jump: either nothing has changed the packet since it was parsed last, or it
//! is parsed again behind the service. What the parser says of the packet in metadata is as it was then:
//!
//! - behind a service that only looks, it is what the parser left, which is kept aside where anything else
//!   writes to it;
//! - behind one that edits, it is what the parser has just left, if nothing that it adds to was left over;
//! - behind one that only looks at a packet that may have been changed before ([`changed`]), the same: the
//!   program calls another service there, as far as it declares, one that edits, whose number is higher
//!   ([`original_service`]).
//!
//! Requires: an engine parses a packet again behind a service that edits. Ensures: the program does
//! the same; a program of which that cannot be told is left alone. Ids of the first copy are those of before.

use crate::copies::{ACTIONS, writes};
use ir::program::{Service, intrinsic};
use ir::{
    Action, ActionCall, ActionId, Block, BlockId, Expr, FieldRef, MetaId, Op, ParserOp, Program,
    ServiceId, Table, TableId, Terminator, Transition,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::contents::Contents;

/// Copies at most.
pub(crate) const COPIES_MAX: usize = 9;

/// The table of the pipeline that a copy's is one of, in a program with so many tables before it was unrolled.
pub fn original_table(table: TableId, tables: usize) -> TableId {
    TableId(table.0 % tables.max(1) as u32)
}

/// The service of the pipeline that one is, in a program with so many services before it was unrolled.
pub fn original_service(service: ServiceId, services: usize) -> ServiceId {
    ServiceId(service.0 % services.max(1) as u32)
}

/// The copy of a pipeline's action that belongs to the same copy of the pipeline as another does.
pub(crate) fn beside(action: ActionId, other: ActionId) -> ActionId {
    ActionId(action.0 + other.0 / ACTIONS * ACTIONS)
}

/// The action of the pipeline that a copy's is one of.
pub(crate) fn original_action(action: ActionId) -> ActionId {
    ActionId(action.0 % ACTIONS)
}

/// The copy of an action that a table's copy runs.
pub fn copied_action(action: ActionId, table: TableId, tables: usize) -> ActionId {
    ActionId(action.0 + table.0 / tables.max(1) as u32 * ACTIONS)
}

/// Something that tables run may recirculate behind a service.
pub fn may(program: &Program, contents: &Contents) -> bool {
    if program.services.is_empty() {
        return false;
    }
    let mut found = false;
    for table in &contents.tables {
        for id in table.actions.iter().chain([&table.default.action]) {
            let body = contents.actions.get(id).map_or(&[][..], |action| &action.body);
            let mut look = |op: &Op| found |= matches!(op, Op::Recirculate { .. });
            body.iter().for_each(|op| op.visit(&mut look));
        }
    }
    found
}

/// What is known of the program as a whole.
struct Unroll<'a> {
    program: &'a Program,
    copies: usize,
    /// Metadata that something but the parser writes to.
    written: BTreeSet<MetaId>,
    /// Metadata that the parser writes to.
    parsed: BTreeSet<MetaId>,
    /// Metadata of the parser's that it looks at.
    looked_at: BTreeSet<MetaId>,
    /// Where what the parser left is kept, by what it left.
    aside: BTreeMap<MetaId, MetaId>,
}

/// A program of so many copies, and its contents; in actions that are named, packets that services only look at may
/// have been changed. None if nothing recirculates behind a service, or if it cannot be
/// told what that comes to.
pub(crate) fn unroll(
    program: &Program,
    contents: &Contents,
    copies: usize,
    changed: &BTreeSet<ActionId>,
) -> Option<(Program, Contents)> {
    if !may(program, contents) {
        return None;
    }
    let mut written = BTreeSet::new();
    let blocks = program.blocks.iter().map(|b| &b.ops);
    let bodies = blocks.chain(contents.actions.values().map(|a| &a.body));
    let mut all = |meta| {
        written.insert(meta);
    };
    bodies.flatten().for_each(|op| op.visit(&mut |op| writes(op, &mut all)));
    let mut parsed: BTreeSet<MetaId> = [intrinsic::PARSER_ERROR].into();
    let mut looked_at = BTreeSet::new();
    let mut look = |e: &Expr| metas(e, &mut looked_at);
    for state in &program.parser {
        for op in &state.ops {
            match op {
                ParserOp::Extract { varbit, .. } | ParserOp::ExtractNext { varbit, .. } => {
                    varbit.iter().for_each(&mut look);
                }
                ParserOp::Advance(e) | ParserOp::Verify(e, _) => look(e),
                ParserOp::Assign(field, e) => {
                    if let FieldRef::Meta(meta) = field {
                        parsed.insert(*meta);
                    }
                    look(e);
                }
            }
        }
        if let Transition::Select { keys, .. } = &state.next {
            keys.iter().for_each(&mut look);
        }
    }
    looked_at.remove(&intrinsic::IN_PORT);
    let fixed = [intrinsic::IN_PORT, intrinsic::NOW, intrinsic::PACKET_LENGTH, intrinsic::PASS];
    let numbers = contents.actions.keys().all(|id| id.0 < ACTIONS);
    if !looked_at.is_subset(&parsed) || fixed.iter().any(|m| written.contains(m)) || !numbers {
        return None;
    }
    let mut unroll = Unroll { program, copies, written, parsed, looked_at, aside: BTreeMap::new() };
    // A bucket goes nowhere, so an action of one that recirculates must stay as it is.
    let bucket = |id: &ActionId| {
        contents.actions.get(id).is_some_and(|action| {
            let mut found = false;
            let mut look = |op: &Op| found |= matches!(op, Op::Recirculate { .. });
            action.body.iter().for_each(|op| op.visit(&mut look));
            found
        })
    };
    if contents.buckets.iter().flat_map(|buckets| &buckets.actions).any(bucket) {
        return None;
    }
    let behind_service = |action: &Arc<Action>| unroll.jumps(&action.body);
    if !contents.actions.values().any(behind_service) {
        return None;
    }
    let mut metadata = program.metadata.clone();
    for meta in unroll.parsed.intersection(&unroll.written) {
        let mut kept = program.metadata[meta.index()].clone();
        kept.name = format!("{}@parsed", kept.name);
        unroll.aside.insert(*meta, MetaId(metadata.len() as u32));
        metadata.push(kept);
    }
    let mut blocks = Vec::with_capacity(program.blocks.len() * copies);
    let mut tables = Vec::with_capacity(program.tables.len() * copies);
    let mut held = Vec::with_capacity(contents.tables.len() * copies);
    let mut actions = BTreeMap::new();
    for copy in 0..copies {
        let own = Copy { of: &unroll, number: copy, changed: false };
        blocks.extend(program.blocks.iter().map(|block| own.block(block)));
        tables.extend(program.tables.iter().map(|table| own.table(table)));
        for table in &contents.tables {
            let mut table = table.clone();
            table.actions.iter_mut().for_each(|id| *id = own.action(*id));
            table.only.iter_mut().for_each(|call| call.action = own.action(call.action));
            table.default.action = own.action(table.default.action);
            held.push(table);
        }
        for (id, action) in &contents.actions {
            let changed = changed.contains(&own.action(*id));
            let body = Copy { changed, ..own }.ops(&action.body, true);
            let (name, params) = (action.name.clone(), action.params.clone());
            actions.insert(own.action(*id), Arc::new(Action { name, params, body }));
        }
    }
    if let Some(first) = blocks.first_mut() {
        let keep = unroll.aside.iter().map(|(from, to)| assign(*to, Expr::meta(*from)));
        first.ops.splice(..0, keep);
    }
    let mut services = program.services.clone();
    if !changed.is_empty() {
        // Each once more, as one that edits.
        services.extend(program.services.iter().map(|s| Service { edits: true, ..s.clone() }));
    }
    let program = Program { metadata, blocks, tables, services, ..program.clone() };
    let value_sets = contents.value_sets.clone();
    let buckets = contents.buckets.clone();
    Some((program, Contents { tables: held, actions, value_sets, buckets }))
}

/// Whether a packet may still recirculate behind a service in the last copy, so that another one would serve.
pub(crate) fn goes_on<'a>(
    actions: impl Iterator<Item = (&'a ActionId, &'a Arc<Action>)>,
    copies: usize,
) -> bool {
    let last = |id: &ActionId| id.0 / ACTIONS == copies as u32 - 1;
    actions.filter(|(id, _)| last(id)).any(|(_, action)| {
        let mut found = false;
        let mut look = |op: &Op| found |= matches!(op, Op::Recirculate { .. });
        action.body.iter().for_each(|op| op.visit(&mut look));
        found
    })
}

/// Actions in which a service that only looks may be called with a packet that was changed since it was parsed; of
/// a program of so many copies.
///
/// Errs on the side of naming them. All are named if a block calls such a service.
pub(crate) fn changed(
    program: &Program,
    actions: &BTreeMap<ActionId, Arc<Action>>,
    tables: &[Option<crate::LiveTable>],
    copies: usize,
) -> BTreeSet<ActionId> {
    let mut way = Way {
        program,
        copy: 0,
        blocks: program.blocks.len() / copies.max(1),
        at: vec![false; program.blocks.len()],
        found: false,
        parsed: false,
    };
    let writes = |op: &ParserOp| matches!(op, ParserOp::Assign(field, _) if !is_meta(field));
    way.parsed = program.parser.iter().flat_map(|state| &state.ops).any(writes);
    way.at.fill(way.parsed);
    let mut named = BTreeSet::new();
    for (b, block) in program.blocks.iter().enumerate() {
        let mut here = way.at[b];
        way.copy = b / way.blocks.max(1);
        way.ops(&block.ops, &mut here);
        if std::mem::take(&mut way.found) {
            return actions.keys().copied().collect();
        }
        let mut next: Vec<BlockId> = Vec::new();
        match &block.end {
            Terminator::Exit => {}
            Terminator::Jump(to) => next.push(*to),
            Terminator::If { then, or_else, .. } => next.extend([*then, *or_else]),
            Terminator::Apply { table, hit, miss, by_action } => {
                next.extend([*hit, *miss]);
                next.extend(by_action.iter().map(|(_, to)| *to));
                let live = tables.get(table.index()).and_then(Option::as_ref);
                let before = here;
                for id in live.map_or(&[][..], |table| &table.actions) {
                    let mut behind = before;
                    way.ops(actions.get(id).map_or(&[][..], |action| &action.body), &mut behind);
                    if std::mem::take(&mut way.found) {
                        named.insert(*id);
                    }
                    here |= behind;
                }
            }
        }
        next.into_iter().for_each(|to| way.to(to, here));
    }
    named
}

fn is_meta(field: &FieldRef) -> bool {
    matches!(field, FieldRef::Meta(_))
}

/// What may have become of packets on their way.
struct Way<'a> {
    program: &'a Program,
    /// The copy that they are in, and blocks of each.
    copy: usize,
    blocks: usize,
    /// By block: they may be changed in front of it.
    at: Vec<bool>,
    /// A changed packet may come to a service that only looks.
    found: bool,
    /// The parser itself writes to headers.
    parsed: bool,
}

impl Way<'_> {
    fn to(&mut self, block: BlockId, changed: bool) {
        // Into another copy they come as they were parsed.
        let jumps = block.index() / self.blocks.max(1) > self.copy;
        if let Some(at) = self.at.get_mut(block.index()) {
            *at |= if jumps { self.parsed } else { changed };
        }
    }

    fn ops(&mut self, ops: &[Op], changed: &mut bool) {
        self.walk(ops, changed);
        // What is done behind a goto, in whatever it stands, is done before.
        let mut goto = |op: &Op| {
            if let Op::Goto(block) = op {
                self.to(*block, *changed);
            }
        };
        ops.iter().for_each(|op| op.visit(&mut goto));
    }

    fn walk(&mut self, ops: &[Op], changed: &mut bool) {
        for op in ops {
            match op {
                Op::Assign(field, _)
                | Op::AssignSlice(field, ..)
                | Op::PayloadSum { field }
                | Op::PayloadHash { field, .. }
                | Op::PortIs { field, .. }
                | Op::RegisterRead { field, .. }
                | Op::Random { field, .. } => *changed |= !is_meta(field),
                Op::Meter { color, level, .. } => *changed |= !is_meta(color) || !is_meta(level),
                Op::SetValid(_)
                | Op::SetInvalid(_)
                | Op::CopyHeader { .. }
                | Op::CopyVarbit { .. }
                | Op::PushFront(..)
                | Op::PopFront(..)
                | Op::Truncate { .. }
                | Op::Reparse => *changed = true,
                Op::Service { service, .. } => match self.program.services[service.index()].edits {
                    true => *changed = self.parsed,
                    false => self.found |= *changed,
                },
                Op::If { then, or_else, .. } => {
                    let mut other = *changed;
                    self.walk(then, changed);
                    self.walk(or_else, &mut other);
                    *changed |= other;
                }
                Op::Loop { body, .. } | Op::OnCopy { body } => {
                    self.walk(body, changed);
                    self.walk(body, changed);
                }
                Op::Goto(block) => self.to(*block, *changed),
                // Where they lead, anything may have become of a packet; and of this one behind a call.
                Op::Clone { block, .. } | Op::Call { block, .. } => {
                    self.to(*block, true);
                    *changed = true;
                }
                Op::Output { .. }
                | Op::Group { .. }
                | Op::Punt { .. }
                | Op::Digest { .. }
                | Op::Count { .. }
                | Op::RegisterWrite { .. }
                | Op::Resubmit { .. }
                | Op::Recirculate { .. }
                | Op::Drop(_)
                | Op::Exit => {}
            }
        }
    }
}

fn assign(meta: MetaId, value: Expr) -> Op {
    Op::Assign(FieldRef::Meta(meta), value)
}

/// Metadata that an expression looks at.
fn metas(e: &Expr, found: &mut BTreeSet<MetaId>) {
    e.visit(&mut |e| {
        if let Expr::Field(FieldRef::Meta(meta)) = e {
            found.insert(*meta);
        }
    });
}

/// One copy.
#[derive(Clone, Copy)]
struct Copy<'a> {
    of: &'a Unroll<'a>,
    number: usize,
    /// The packet may have been changed before the call.
    changed: bool,
}

impl Unroll<'_> {
    /// What a recirculation at the end of a list stands behind: the place of a service, and whether it edits.
    fn service(&self, list: &[Op], keep: &[MetaId]) -> Option<(usize, bool)> {
        if keep.iter().any(|meta| self.parsed.contains(meta)) {
            return None;
        }
        let at = list.iter().rposition(|op| !matches!(op, Op::Assign(FieldRef::Meta(_), _)))?;
        let Op::Service { service, args, results } = &list[at] else { return None };
        let edits = self.program.services.get(service.index())?.edits;
        let mut between = BTreeSet::new();
        let mut all = |meta| {
            between.insert(meta);
        };
        list[at..].iter().for_each(|op| writes(op, &mut all));
        between.extend(results);
        if !between.is_disjoint(&self.parsed) {
            return None;
        }
        if edits {
            // What it adds to begins anew, and the service is told nothing of what it left.
            let zero = |meta: &MetaId| {
                let is = |op: &Op| match op {
                    Op::Assign(FieldRef::Meta(to), Expr::Const(value)) => {
                        to == meta && value.is_zero()
                    }
                    _ => false,
                };
                list[..at].iter().rev().take_while(|op| matches!(op, Op::Assign(..))).any(is)
            };
            let mut told = BTreeSet::new();
            args.iter().for_each(|e| metas(e, &mut told));
            if !self.looked_at.iter().all(zero) || !told.is_disjoint(&self.parsed) {
                return None;
            }
        }
        Some((at, edits))
    }

    /// A recirculation of this list becomes a jump.
    fn jumps(&self, list: &[Op]) -> bool {
        list.iter().enumerate().any(|(at, op)| match op {
            Op::Recirculate { keep } => self.service(&list[..at], keep).is_some(),
            Op::If { then, or_else, .. } if at + 1 == list.len() => {
                self.jumps(then) || self.jumps(or_else)
            }
            _ => false,
        })
    }
}

impl Copy<'_> {
    fn to(&self, block: BlockId) -> BlockId {
        BlockId(block.0 + (self.number * self.of.program.blocks.len()) as u32)
    }

    fn applied(&self, table: TableId) -> TableId {
        TableId(table.0 + (self.number * self.of.program.tables.len()) as u32)
    }

    fn action(&self, action: ActionId) -> ActionId {
        ActionId(action.0 + self.number as u32 * ACTIONS)
    }

    fn name(&self, name: &str) -> String {
        match self.number {
            0 => name.to_string(),
            n => format!("{name}@{n}"),
        }
    }

    fn table(&self, table: &Table) -> Table {
        let call = |call: &ActionCall| ActionCall {
            action: self.action(call.action),
            args: call.args.clone(),
        };
        let actions = table.actions.as_ref();
        Table {
            name: self.name(&table.name),
            default: call(&table.default),
            actions: actions.map(|list| list.iter().map(|id| self.action(*id)).collect()),
            ..table.clone()
        }
    }

    fn block(&self, block: &Block) -> Block {
        let end = match &block.end {
            Terminator::Exit => Terminator::Exit,
            Terminator::Jump(to) => Terminator::Jump(self.to(*to)),
            Terminator::If { condition, then, or_else } => Terminator::If {
                condition: condition.clone(),
                then: self.to(*then),
                or_else: self.to(*or_else),
            },
            Terminator::Apply { table, hit, miss, by_action } => Terminator::Apply {
                table: self.applied(*table),
                hit: self.to(*hit),
                miss: self.to(*miss),
                by_action: by_action.iter().map(|(a, b)| (self.action(*a), self.to(*b))).collect(),
            },
        };
        Block { name: self.name(&block.name), ops: self.ops(&block.ops, false), end }
    }

    /// A list; `last`: nothing is done behind it but what a goto says.
    fn ops(&self, list: &[Op], last: bool) -> Vec<Op> {
        let mut out = Vec::with_capacity(list.len());
        for (at, op) in list.iter().enumerate() {
            out.push(match op {
                Op::Goto(block) => Op::Goto(self.to(*block)),
                Op::Clone { block, copy } => Op::Clone { block: self.to(*block), copy: *copy },
                Op::Call { block, until, guise, site } => {
                    let mut guise = guise.clone();
                    if let Some(guise) = &mut guise {
                        guise.tables.iter_mut().for_each(|table| *table = self.applied(*table));
                    }
                    Op::Call { block: self.to(*block), until: self.to(*until), guise, site: *site }
                }
                Op::If { condition, then, or_else } => {
                    let last = last && at + 1 == list.len();
                    let (then, or_else) = (self.ops(then, last), self.ops(or_else, last));
                    Op::If { condition: condition.clone(), then, or_else }
                }
                Op::Loop { condition, body } => {
                    Op::Loop { condition: condition.clone(), body: self.ops(body, false) }
                }
                Op::OnCopy { body } => Op::OnCopy { body: self.ops(body, false) },
                Op::Recirculate { keep } if last && self.number + 1 < self.of.copies => {
                    match self.of.service(&list[..at], keep) {
                        Some((service, edits)) if edits || !self.changed => {
                            self.jump(&mut out, service, edits, keep);
                            return out;
                        }
                        Some((service, _)) if !self.is_told(&list[service]) => {
                            if let Op::Service { service, .. } = &mut out[service] {
                                service.0 += self.of.program.services.len() as u32;
                            }
                            self.jump(&mut out, service, true, keep);
                            return out;
                        }
                        _ => op.clone(),
                    }
                }
                op => op.clone(),
            });
        }
        out
    }

    /// A service is told what the parser left, which is zeroed before a call that edits.
    fn is_told(&self, call: &Op) -> bool {
        let mut told = BTreeSet::new();
        call.exprs(&mut |e| metas(e, &mut told));
        !told.is_disjoint(&self.of.parsed)
    }

    /// Goes on in the next copy, as a pass begins.
    fn jump(&self, out: &mut Vec<Op>, service: usize, edits: bool, keep: &[MetaId]) {
        let of = self.of;
        let width = |meta: &MetaId| of.program.metadata[meta.index()].width;
        let zero = |meta: &MetaId| assign(*meta, Expr::int(0, width(meta)));
        if edits {
            let parsed = of.parsed.iter().filter(|meta| **meta != intrinsic::PARSER_ERROR);
            let fresh: Vec<Op> = parsed.map(zero).collect();
            out.splice(service..service, fresh);
        }
        for (left, kept) in &of.aside {
            out.push(match edits {
                true => assign(*kept, Expr::meta(*left)),
                false => assign(*left, Expr::meta(*kept)),
            });
        }
        let others = of.written.iter();
        let others = others.filter(|m| !keep.contains(m) && !of.parsed.contains(m));
        out.extend(others.map(zero));
        out.push(assign(intrinsic::PASS, Expr::int(2, width(&intrinsic::PASS))));
        let first = Copy { number: self.number + 1, ..*self }.to(BlockId(0));
        out.push(Op::Goto(first));
    }
}
