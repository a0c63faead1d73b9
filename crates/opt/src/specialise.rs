//! What packets can reach, and what is known of them there.
//!
//!     action_set: if as.present == 0 then end else as_execute
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

use crate::known::Known;
use crate::mark::Marks;
use crate::set::Set;
use crate::simplify::Facts;
use crate::state::{Link, State, elements};
use crate::{Contents, Options, Work, live_table};
use ir::program::intrinsic;
use ir::{
    Action, ActionCall, ActionId, Block, BlockId, Copy, Expr, FieldRef, HeaderId, Op, ParserOp,
    ParserState, Program, Select, SelectCase, Table, TableId, Terminator, Transition,
};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Walks until nothing is taken to be known of metadata that comes back to the parser.
const ROUNDS_MAX: u32 = 4;
/// Visits of a parser state until nothing is taken to be known of its metadata.
const VISITS_MAX: u32 = 8;

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
    let empty = |old: &Block| Block {
        name: old.name.clone(),
        ops: Vec::new(),
        end: Terminator::Exit,
    };
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
    };
    let mut work = Work { contents, options, program, actions, tables, notes: Vec::new() };
    work.note("reach", text);
    work
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
    /// What stands in front of the parser has changed.
    again: bool,
    round: u32,
    /// Facts are not recorded any more: actions are rewritten.
    quiet: bool,
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
            again: false,
            round: 0,
            quiet: false,
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

    // The parser.

    /// Facts in front of each state and behind the parser.
    fn parse(&mut self) {
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
        let mut queue = VecDeque::from([0]);
        self.states[0] = Some(self.unparsed.clone());
        while let Some(at) = queue.pop_front() {
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
                if grown && !queue.contains(&to) {
                    queue.push_back(to);
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
                    let answers = columns.map(|(p, (_, (known, _)))| self.select(p, known));
                    let all = answers.fold(Some(true), |all, one| match (all, one) {
                        (Some(false), _) | (_, Some(false)) => Some(false),
                        (Some(true), Some(true)) => Some(true),
                        _ => None,
                    });
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
    fn behind_parser(&self, before: &State) -> Option<State> {
        let parsed = self.parsed.as_ref()?;
        let mut state = parsed.clone();
        for (meta, known) in before.metas() {
            if !self.assigned.contains(meta.index()) {
                state.set_meta(meta, known);
            }
        }
        Some(state)
    }

    fn new_parser(&self) -> Vec<ParserState> {
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

    // Blocks.

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
            None => drop(self.actions.insert(id, Seen { state: state.clone(), args: args.clone() })),
        }
        args
    }

    /// Buckets may run any action but those that only tables can run (which `goto`), and nobody says
    /// where.
    fn buckets(&mut self) {
        if self.buckets || self.quiet {
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

    // Operations.

    fn ops(&mut self, ops: &[Op], path: &mut Path, args: &[Known], mut out: Option<&mut Vec<Op>>) {
        for op in ops {
            if path.state.is_none() {
                return;
            }
            self.op(op, path, args, out.as_deref_mut());
        }
    }

    fn op(&mut self, op: &Op, path: &mut Path, args: &[Known], out: Option<&mut Vec<Op>>) {
        let (program, fold) = (self.program, self.options.fold);
        let build = out.is_some();
        let Some(state) = &mut path.state else { return };
        let same = || build.then(|| op.clone());
        let mut ends = self.options.bail.at(op);
        let new = match op {
            _ if ends => same(),
            Op::Assign(field, value) => {
                let (known, new) = self.simplify(value, state, args);
                let idle = match field {
                    FieldRef::Meta(meta) => {
                        known.only().is_some() && known == state.meta(*meta)
                    }
                    field => !state.writable(program, *field),
                };
                state.write(*field, known);
                let assign = || Op::Assign(*field, new.unwrap_or_else(|| value.clone()));
                (build && !(idle && fold)).then(assign)
            }
            Op::AssignSlice(field, hi, lo, value) => {
                let (known, new) = self.simplify(value, state, args);
                let writable = state.writable(program, *field);
                if let FieldRef::Meta(meta) = field {
                    let mut whole = state.meta(*meta);
                    if *hi < crate::known::WIDTH_MAX && whole.width <= crate::known::WIDTH_MAX {
                        let mask = crate::known::mask(hi - lo + 1) << lo;
                        whole.zeros = whole.zeros & !mask | known.zeros << lo & mask;
                        whole.ones = whole.ones & !mask | known.ones << lo & mask;
                    } else {
                        whole = Known::nothing(whole.width);
                    }
                    state.set_meta(*meta, whole);
                }
                let assign =
                    || Op::AssignSlice(*field, *hi, *lo, new.unwrap_or_else(|| value.clone()));
                (build && (writable || !fold)).then(assign)
            }
            Op::SetValid(header) => {
                let was = fold && state.must.contains(header.index());
                // The other members of its union already are invalid.
                if !was {
                    state.make_valid(program, *header, true);
                }
                if was { None } else { same() }
            }
            Op::SetInvalid(header) => {
                let was = !fold || state.may.contains(header.index());
                if was {
                    state.make_invalid(*header);
                }
                if was { same() } else { None }
            }
            Op::CopyHeader { to, from } => {
                state.copy_header(program, *to, *from);
                same()
            }
            Op::PushFront(stack, count) => {
                state.push_front(program, *stack, *count);
                same()
            }
            Op::PopFront(stack, count) => {
                state.pop_front(program, *stack, *count);
                same()
            }
            Op::Reparse => {
                let before = state.clone();
                self.parsed_again(&before);
                path.state = self.behind_parser(&before);
                same()
            }
            Op::Output { port } => {
                build.then(|| Op::Output { port: self.simplified(port, state, args) })
            }
            Op::Group { group } => {
                let new = build.then(|| Op::Group { group: self.simplified(group, state, args) });
                self.buckets();
                new
            }
            Op::Clone { block, copy } => {
                let mut before = state.clone();
                before.set_meta(intrinsic::PASS, Known::value(3, 8));
                let start = match copy {
                    Copy::Current => Some(before),
                    Copy::Ingress => {
                        self.parsed_again(&before);
                        self.behind_parser(&before)
                    }
                };
                self.reach(*block, start);
                same()
            }
            Op::Resubmit { keep } | Op::Recirculate { keep } => {
                let mut next = State::received(program);
                for meta in keep {
                    next.set_meta(*meta, state.meta(*meta));
                }
                next.forget(intrinsic::PACKET_LENGTH);
                let pass = if matches!(op, Op::Resubmit { .. }) { 1 } else { 2 };
                next.set_meta(intrinsic::PASS, Known::value(pass, 8));
                if !self.quiet {
                    self.again |= self.entry.join(&next);
                    self.again |= self.unparsed.join(&next);
                }
                ends = true;
                same()
            }
            Op::Punt { reason, args: values } => build.then(|| {
                let values = values.iter().map(|e| self.simplified(e, state, args)).collect();
                Op::Punt { reason: *reason, args: values }
            }),
            Op::Digest { digest, args: values } => build.then(|| {
                let values = values.iter().map(|e| self.simplified(e, state, args)).collect();
                Op::Digest { digest: *digest, args: values }
            }),
            Op::Meter { meter, color, level } => {
                let meter = build.then(|| self.simplified(meter, state, args));
                state.write(*color, Known::nothing(8));
                state.write(*level, Known::nothing(8));
                meter.map(|meter| Op::Meter { meter, color: *color, level: *level })
            }
            Op::Count { counter, index } => build.then(|| Op::Count {
                counter: *counter,
                index: self.simplified(index, state, args),
            }),
            Op::RegisterRead { field, register, index } => {
                let index = build.then(|| self.simplified(index, state, args));
                state.write(*field, Known::nothing(0));
                let (field, register) = (*field, *register);
                index.map(|index| Op::RegisterRead { field, register, index })
            }
            Op::RegisterWrite { register, index, value } => build.then(|| Op::RegisterWrite {
                register: *register,
                index: self.simplified(index, state, args),
                value: self.simplified(value, state, args),
            }),
            Op::Random { field, lo, hi } => {
                let new = build.then(|| Op::Random {
                    field: *field,
                    lo: self.simplified(lo, state, args),
                    hi: self.simplified(hi, state, args),
                });
                state.write(*field, Known::nothing(0));
                new
            }
            Op::If { condition, then, or_else } => {
                return self.branch(condition, then, or_else, path, args, out);
            }
            Op::Goto(block) => {
                path.goto = smallvec![Some(*block)];
                same()
            }
            Op::Drop(_) | Op::Exit => {
                ends = true;
                same()
            }
        };
        if ends {
            path.state = None;
        }
        if let (Some(out), Some(new)) = (out, new) {
            out.push(new);
        }
    }

    fn branch(
        &mut self,
        condition: &Expr,
        then: &[Op],
        or_else: &[Op],
        path: &mut Path,
        args: &[Known],
        out: Option<&mut Vec<Op>>,
    ) {
        let Some(state) = &mut path.state else { return };
        let (known, new) = self.simplify(condition, state, args);
        if let Some(value) = known.only().filter(|_| self.options.fold) {
            let taken = if value == 0 { or_else } else { then };
            return self.ops(taken, path, args, out);
        }
        let condition = new.as_ref().unwrap_or(condition);
        let mut other = path.clone();
        if let (Some(state), Some(other), true) =
            (&mut path.state, &mut other.state, self.options.fold)
        {
            state.assume(condition, true);
            other.assume(condition, false);
        }
        let Some(out) = out else {
            self.ops(then, path, args, None);
            self.ops(or_else, &mut other, args, None);
            return path.join(other);
        };
        let (mut new_then, mut new_else) = (Vec::new(), Vec::new());
        self.ops(then, path, args, Some(&mut new_then));
        self.ops(or_else, &mut other, args, Some(&mut new_else));
        path.join(other);
        if !(new_then.is_empty() && new_else.is_empty() && self.options.fold) {
            let condition = condition.clone();
            out.push(Op::If { condition, then: new_then, or_else: new_else });
        }
    }

    /// The packet comes to the parser once more.
    fn parsed_again(&mut self, before: &State) {
        if self.quiet {
            return;
        }
        let mut before = before.clone();
        before.clear_headers();
        self.again |= self.unparsed.join(&before);
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
    links: Vec<(ir::MetaId, Option<Set>, Option<Set>)>,
}

impl<'a> Ends<'a> {
    fn new(program: &'a Program, assigned: &Set) -> Ends<'a> {
        let bits = program.metadata.iter().enumerate();
        let bits = bits.filter(|(i, m)| m.width == 1 && assigned.contains(*i));
        let links = bits.map(|(i, _)| (ir::MetaId(i as u32), None, None)).collect();
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
