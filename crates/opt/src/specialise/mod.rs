//! What packets can reach, and what is known of them there.
//!
//! ```text
//! action_set: if as.present == 0 then end else as_execute
//! ```
//!
//! becomes `jump end` where no live action writes to the action set, and `as_execute` is emptied.
//!
//! The facts ([`State`]) of a received frame go through the parser, then through the blocks in their
//! order; an applied table sends them through every action that it may run. What is taken to be
//! possible is what the contents say: a table without entries runs its default only, one whose
//! entries look at nothing always hits. Blocks only lead to later blocks, so one walk sees all that
//! leads to a block before it; it writes the new block at once. Facts that come back to the parser
//! (another pass, a packet parsed again) may ask for one more walk, a few at most; after
//! [`ROUNDS_MAX`] nothing is known of metadata there.
//!
//! An action is rewritten in the end, with what holds wherever it may run.
//!
//! Requires: nothing. Ensures: what is left is reachable as far as facts tell; the rest is emptied.

mod ops;
mod parser;

use crate::contents::Contents;
use crate::known::Known;
use crate::mark::Marks;
use crate::residual::{self, Part};
use crate::set::Set;
use crate::simplify::Facts;
use crate::state::State;
use crate::unroll::original_table;
use crate::work::{Options, Work};
use crate::{Entries, live_table};
use ir::program::intrinsic;
use ir::{
    Action, ActionCall, ActionId, Block, BlockId, Expr, FieldRef, Op, ParserOp, Program, Table,
    TableId, Terminator,
};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Walks until nothing is taken to be known of metadata that comes back to the parser.
const ROUNDS_MAX: u32 = 4;

/// See the module.
pub(crate) fn specialise<'a>(
    program: &'a Program,
    contents: &'a Contents,
    options: &'a Options,
) -> Work<'a> {
    let mut flow = Flow::new(program, contents, options);
    let blocks = flow.walk();
    let parser = flow.new_parser();
    let keys = flow.new_keys();
    let actions = flow.new_actions();
    let count = |live: usize, all: usize, of: &str| format!("{live} of {all} {of}");
    let reached = blocks.iter().flatten().count();
    let applied = flow.tables.iter().flatten().count();
    let text = format!(
        "{}, {}, {}",
        count(reached, program.blocks.len(), "blocks"),
        count(applied, program.tables.len(), "tables"),
        count(actions.len(), contents.actions.len(), "actions"),
    );
    let tables = (contents.tables.iter().zip(&flow.tables))
        .map(|(table, reached)| reached.as_ref().map(|_| live_table(table)))
        .collect();
    let empty =
        |old: &Block| Block { name: old.name.clone(), ops: Vec::new(), end: Terminator::Exit };
    let blocks = blocks.into_iter().zip(&program.blocks);
    let blocks = blocks.map(|(new, old)| new.unwrap_or_else(|| empty(old))).collect();
    let program = Program {
        header_types: program.header_types.clone(),
        headers: program.headers.clone(),
        stacks: program.stacks.clone(),
        unions: program.unions.clone(),
        metadata: program.metadata.clone(),
        value_sets: program.value_sets.clone(),
        parser,
        reject_continues: program.reject_continues,
        preface: program.preface,
        deparser: program.deparser.clone(),
        checksums: program.checksums.clone(),
        actions: program.actions.clone(),
        tables: (program.tables.iter().zip(keys))
            .map(|(table, key)| match key {
                Some(key) => Table { key, ..table.clone() },
                None => table.clone(),
            })
            .collect(),
        blocks,
        registers: program.registers.clone(),
        counters: program.counters.clone(),
        digests: program.digests.clone(),
        services: program.services.clone(),
    };
    let mut work = Work { contents, options, program, actions, tables, notes: Vec::new() };
    work.note("reach", text);
    work
}

/// What narrows tables.
pub(crate) struct Narrow<'a> {
    /// Entries of the pipeline's tables.
    pub(crate) entries: &'a Entries,
    /// How many tables the pipeline has.
    pub(crate) tables: usize,
}

/// What there is of tables where copies of the pipeline apply them, where it is not all.
pub(crate) fn parts<'a>(
    program: &'a Program,
    contents: &'a Contents,
    options: &'a Options,
    narrow: &'a Narrow<'a>,
) -> Vec<Part> {
    let mut flow = Flow::new(program, contents, options);
    let mut applied = vec![0; program.tables.len()];
    for block in &program.blocks {
        if let Terminator::Apply { table, .. } = &block.end {
            applied[table.index()] += 1;
        }
    }
    flow.narrow = Some((narrow, applied));
    flow.walk();
    flow.parts
}

/// What is known where an action may run.
struct Seen {
    state: State,
    args: SmallVec<[Known; 4]>,
}

/// One way through a list of operations: facts, unless the pass has ended, and where a `goto` has
/// control go (`None`: nowhere in particular).
#[derive(Clone)]
struct Path {
    state: Option<State>,
    goto: SmallVec<[Option<BlockId>; 2]>,
}

impl Path {
    fn new(state: State) -> Path {
        Path { state: Some(state), goto: smallvec![None] }
    }

    fn join(&mut self, other: Path) {
        let Some(theirs) = other.state else { return };
        match &mut self.state {
            Some(mine) => {
                mine.join(&theirs);
                self.goto.extend(other.goto);
                self.goto.sort_unstable();
                self.goto.dedup();
            }
            None => (self.state, self.goto) = (Some(theirs), other.goto),
        }
    }
}

struct Flow<'a> {
    program: &'a Program,
    contents: &'a Contents,
    options: &'a Options,
    marks: Marks<'a>,
    /// In front of the parser, when a pass begins.
    entry: State,
    /// In front of the parser, whenever.
    unparsed: State,
    /// In front of each parser state.
    states: Vec<Option<State>>,
    /// Behind the parser; `None` if it lets no packet through.
    parsed: Option<State>,
    /// Metadata that the parser writes.
    assigned: Set,
    /// In front of each block.
    blocks: Vec<Option<State>>,
    /// Where each table is applied.
    tables: Vec<Option<State>>,
    actions: BTreeMap<ActionId, Seen>,
    /// Groups' buckets may run.
    buckets: bool,
    /// What holds where they do, by action.
    in_buckets: BTreeMap<ActionId, State>,
    /// What stands in front of the parser has changed.
    again: bool,
    round: u32,
    /// Facts are not recorded any more: actions are rewritten.
    quiet: bool,
    /// What narrows tables, and how often each is applied.
    narrow: Option<(&'a Narrow<'a>, Vec<u32>)>,
    parts: Vec<Part>,
}

impl<'a> Flow<'a> {
    fn new(program: &'a Program, contents: &'a Contents, options: &'a Options) -> Flow<'a> {
        let entry = State::received(program);
        let mut assigned = Set::default();
        assigned.insert(intrinsic::PARSER_ERROR.index());
        for op in program.parser.iter().flat_map(|s| &s.ops) {
            if let ParserOp::Assign(FieldRef::Meta(meta), _) = op {
                assigned.insert(meta.index());
            }
        }
        Flow {
            program,
            contents,
            options,
            marks: Marks::new(contents),
            unparsed: entry.clone(),
            entry,
            states: Vec::new(),
            parsed: None,
            assigned,
            blocks: Vec::new(),
            tables: Vec::new(),
            actions: BTreeMap::new(),
            buckets: false,
            in_buckets: BTreeMap::new(),
            again: false,
            round: 0,
            quiet: false,
            narrow: None,
            parts: Vec::new(),
        }
    }

    fn simplify(&self, e: &Expr, state: &State, args: &[Known]) -> (Known, Option<Expr>) {
        if !self.options.fold {
            return (Known::nothing(0), None);
        }
        Facts { program: self.program, state, args }.simplify(e)
    }

    fn simplified(&self, e: &Expr, state: &State, args: &[Known]) -> Expr {
        self.simplify(e, state, args).1.unwrap_or_else(|| e.clone())
    }

    /// Walks until what stands in front of the parser stays; the new blocks.
    fn walk(&mut self) -> Vec<Option<Block>> {
        loop {
            self.round += 1;
            self.again = false;
            self.parse();
            self.blocks = vec![None; self.program.blocks.len()];
            self.tables = vec![None; self.program.tables.len()];
            self.actions.clear();
            self.buckets = false;
            self.in_buckets.clear();
            self.parts.clear();
            let first = self.behind_parser(&self.entry);
            self.reach(BlockId(0), first);
            let mut blocks = Vec::with_capacity(self.blocks.len());
            for at in 0..self.blocks.len() {
                let state = self.blocks[at].take();
                blocks.push(state.map(|state| self.block(BlockId(at as u32), state)));
            }
            if !self.again {
                return blocks;
            }
            if self.round >= ROUNDS_MAX {
                self.entry.forget_metas();
                self.unparsed.forget_metas();
            }
        }
    }

    /// Control comes to a block with these facts.
    fn reach(&mut self, block: BlockId, state: Option<State>) {
        let (Some(state), Some(there)) = (state, self.blocks.get_mut(block.index())) else {
            return;
        };
        match there {
            _ if self.quiet => {}
            Some(there) => drop(there.join(&state)),
            None => *there = Some(state),
        }
    }

    fn block(&mut self, id: BlockId, state: State) -> Block {
        let program = self.program;
        let old = &program.blocks[id.index()];
        let mut ops = Vec::with_capacity(old.ops.len());
        let mut path = Path::new(state);
        self.ops(&old.ops, &mut path, &[], Some(&mut ops));
        self.marks.block(&old.ops, &mut ops);
        let end = match path.state {
            Some(state) => self.terminator(&old.end, state),
            None => Terminator::Exit,
        };
        Block { name: old.name.clone(), ops, end }
    }

    fn terminator(&mut self, end: &Terminator, state: State) -> Terminator {
        match end {
            Terminator::Exit => Terminator::Exit,
            Terminator::Jump(to) => {
                self.reach(*to, Some(state));
                Terminator::Jump(*to)
            }
            Terminator::If { condition, then, or_else } => {
                let (known, new) = self.simplify(condition, &state, &[]);
                let decided = match known.only() {
                    Some(0) => Some(*or_else),
                    Some(_) => Some(*then),
                    None => None,
                };
                if let Some(to) = decided.filter(|_| self.options.fold) {
                    self.reach(to, Some(state));
                    return Terminator::Jump(to);
                }
                let condition = new.unwrap_or_else(|| condition.clone());
                let mut other = state.clone();
                let mut state = state;
                if self.options.fold {
                    state.assume(&condition, true);
                    other.assume(&condition, false);
                }
                self.reach(*then, Some(state));
                self.reach(*or_else, Some(other));
                Terminator::If { condition, then: *then, or_else: *or_else }
            }
            Terminator::Apply { table, hit, miss, by_action } => {
                self.apply(*table, *hit, *miss, by_action, state)
            }
        }
    }

    /// What there is of a table where it is applied, if that is not all.
    fn part(&self, id: TableId, state: &State) -> Option<Part> {
        let (narrow, applied) = self.narrow.as_ref()?;
        let original = original_table(id, narrow.tables);
        if applied[id.index()] != 1 {
            return None;
        }
        let whole = self.contents.tables.get(id.index())?;
        let entries = narrow.entries.get(&original)?;
        let known = |(at, key): (usize, &ir::Key)| match whole.columns.binary_search(&(at as u16)) {
            Ok(_) => self.simplify(&key.expr, state, &[]).0.cast(key.width),
            Err(_) => Known::nothing(key.width),
        };
        let known = self.program.tables[id.index()].key.iter().enumerate().map(known).collect();
        residual::part(id, original, known, entries, whole)
    }

    fn apply(
        &mut self,
        id: TableId,
        hit: BlockId,
        miss: BlockId,
        by_action: &[(ActionId, BlockId)],
        state: State,
    ) -> Terminator {
        let contents = self.contents;
        let Some(table) = contents.tables.get(id.index()) else { return Terminator::Exit };
        let narrowed;
        let table = match self.part(id, &state) {
            Some(part) => {
                narrowed = residual::contents_of(table, &part);
                self.parts.push(part);
                &narrowed
            }
            None => table,
        };
        let always_hits = table.entries > 0 && table.columns.is_empty();
        let never_hits = table.entries == 0;
        let entries = table.actions.iter().filter(|_| !never_hits);
        let only = |action| table.only.as_ref().filter(|call| call.action == action);
        for action in entries {
            self.call(*action, only(*action), &state, hit, by_action, true);
        }
        let default = &table.default;
        self.call(default.action, Some(default), &state, miss, by_action, !always_hits);
        let runs = |a: &ActionId| {
            !never_hits && table.actions.contains(a) || !always_hits && *a == default.action
        };
        match &mut self.tables[id.index()] {
            Some(there) => drop(there.join(&state)),
            none => *none = Some(state),
        }
        Terminator::Apply {
            table: id,
            hit: if never_hits { miss } else { hit },
            miss: if always_hits { hit } else { miss },
            by_action: by_action.iter().filter(|(a, _)| runs(a)).copied().collect(),
        }
    }

    /// A table runs an action, with this call if it is always the same one, and control then goes to
    /// `next` unless action or list say otherwise. Without `flows` it does not in fact happen.
    fn call(
        &mut self,
        id: ActionId,
        call: Option<&ActionCall>,
        state: &State,
        next: BlockId,
        by_action: &[(ActionId, BlockId)],
        flows: bool,
    ) {
        let action = self.contents.actions.get(&id);
        let args = self.see(id, call, state);
        if !flows {
            return;
        }
        let mut path = Path::new(state.clone());
        if let Some(action) = action {
            self.ops(&action.body, &mut path, &args, None);
        }
        let Some(state) = path.state else { return };
        let listed = by_action.iter().find(|(a, _)| *a == id).map_or(next, |(_, block)| *block);
        for goto in path.goto {
            self.reach(goto.unwrap_or(listed), Some(state.clone()));
        }
    }

    /// Remembers that an action may run here; what is known of its arguments.
    fn see(
        &mut self,
        id: ActionId,
        call: Option<&ActionCall>,
        state: &State,
    ) -> SmallVec<[Known; 4]> {
        let params = self.contents.actions.get(&id).map_or(&[][..], |a| &a.params);
        let value = |i: usize| call?.args.get(i).map(Known::of);
        let known = |(i, width): (usize, u32)| match value(i).filter(|_| self.options.arguments) {
            Some(known) if known.width == width => known,
            _ => Known::nothing(width),
        };
        let args: SmallVec<[Known; 4]> =
            params.iter().map(|p| p.width).enumerate().map(known).collect();
        match self.actions.get_mut(&id) {
            Some(seen) => {
                seen.state.join(state);
                for (mine, theirs) in seen.args.iter_mut().zip(&args) {
                    mine.join(theirs);
                }
            }
            None => {
                drop(self.actions.insert(id, Seen { state: state.clone(), args: args.clone() }))
            }
        }
        args
    }

    /// Buckets run the actions that they have, where this holds. Where that is not known, they may run any action but those that only tables can run (which `goto`), and nobody says
    /// where.
    fn buckets(&mut self, state: &State) {
        if self.quiet {
            return;
        }
        if let Some(buckets) = &self.contents.buckets {
            let contents = self.contents;
            for id in &buckets.actions {
                // They do more than they were seen to do where more may hold.
                let more = match self.in_buckets.get_mut(id) {
                    Some(before) => before.join(state),
                    None => self.in_buckets.insert(*id, state.clone()).is_none(),
                };
                let (true, Some(action)) = (more, contents.actions.get(id)) else { continue };
                let state = self.in_buckets[id].clone();
                let args = self.see(*id, None, &state);
                self.ops(&action.body, &mut Path::new(state), &args, None);
            }
            return;
        }
        if self.buckets {
            return;
        }
        self.buckets = true;
        let contents = self.contents;
        let anything = State::anything(self.program);
        for (id, action) in &contents.actions {
            let mut goes = false;
            let mut look = |op: &Op| goes |= matches!(op, Op::Goto(_));
            action.body.iter().for_each(|op| op.visit(&mut look));
            if !goes {
                let args = self.see(*id, None, &anything);
                self.ops(&action.body, &mut Path::new(anything.clone()), &args, None);
            }
        }
    }

    fn new_actions(&mut self) -> BTreeMap<ActionId, Arc<Action>> {
        self.quiet = true;
        let contents = self.contents;
        let mut out = BTreeMap::new();
        for (id, seen) in std::mem::take(&mut self.actions) {
            let Some(old) = contents.actions.get(&id) else { continue };
            let mut body = Vec::with_capacity(old.body.len());
            self.ops(&old.body, &mut Path::new(seen.state), &seen.args, Some(&mut body));
            self.marks.action(id, &old.body, &mut body);
            let new = if body == old.body {
                old.clone()
            } else {
                Arc::new(Action { name: old.name.clone(), params: old.params.clone(), body })
            };
            out.insert(id, new);
        }
        out
    }

    /// Keys of applied tables in which a column that matters became simpler.
    fn new_keys(&self) -> Vec<Option<Arc<[ir::Key]>>> {
        let one = |(at, state): (usize, &Option<State>)| {
            let (state, old) = (state.as_ref()?, &self.program.tables[at].key);
            let mut new: Option<Vec<ir::Key>> = None;
            for column in &self.contents.tables[at].columns {
                let Some(key) = old.get(usize::from(*column)) else { continue };
                if let (_, Some(expr)) = self.simplify(&key.expr, state, &[]) {
                    new.get_or_insert_with(|| old.to_vec())[usize::from(*column)].expr = expr;
                }
            }
            new.map(Arc::from)
        };
        self.tables.iter().enumerate().map(one).collect()
    }
}
