//! The interpreter engine: two replicas of the tables, one serving, one following.
//!
//! A [`Replica`] is what the interpreter needs to forward by a version: the program, an index per
//! table ([`classify::Table`]), entries, groups, meters. The engine keeps two of them. Updates go to
//! the one that no worker uses, [`publish`](crate::Engine::publish) makes it current, and the other
//! one catches up with the same updates when the next ones come (left-right, after Ramalhete and
//! Correia). So an update costs two edits in place and no copy, readers take no lock, and no `unsafe`
//! is needed: `Arc::get_mut` succeeds exactly when the last worker has let go. When all is quiet,
//! [`settle`](crate::Engine::settle) lets the other one catch up at once, so that what was deleted is
//! freed.
//!
//! An index is built over the key fields that some entry of its table looks at, and no others: of
//! OpenFlow's forty a table uses a few. When an entry uses one more, that table's index is rebuilt.
//!
//! Cost: an update, two index edits; a lookup, evaluating the used key fields and one index lookup.
//! Checked by: `tests/replica.rs`, which compares every verdict with the interpreter on the plain
//! [`ir::Pipeline`] (linear scan) under random updates.

use crate::engine::{Engine, Forward, Scratch, TableExplanation};
use crate::meter::LiveMeter;
use crate::program_state::ProgramState;
use classify::{InsertError, Layout, Range, Rule, RuleError};
use hashbrown::HashMap;
use interp::{Externs, Input, Sink, Trace, View};
use ir::{
    Action, ActionCall, ActionId, Bits, Entry, Group, GroupId, MatchKind, MeterId, Pattern,
    Pipeline, Program, Select, Table, TableId, Update, ValueSetId, Verdict,
};
use state::counters::CounterArena;
use std::sync::Arc;
use std::time::Duration;

/// An update, with what it makes made once, so that both replicas share it.
#[derive(Clone)]
enum Step {
    Insert(TableId, Arc<Entry>, u64),
    Modify(TableId, Arc<Entry>),
    Delete(TableId, ir::EntryId),
    Clear(TableId),
    SetDefault(TableId, ActionCall),
    SetAction(ActionId, Option<Arc<Action>>),
    SetGroup(GroupId, Option<Arc<Group>>),
    SetMeter(MeterId, Option<Arc<LiveMeter>>),
    SetValueSet(ValueSetId, Vec<Select>),
    SetProgram(Arc<Program>, Arc<ProgramState>),
    Version(u64),
}

/// The index of one table.
///
/// Which entry wins is [`ir::Table`]'s rule: priority, then prefix length, then who came first. The
/// index compares a rule's priority, then its `seq`, whose high bits hold the prefix length inverted.
/// While all entries of a table of prefixes have priority 0, the length itself is the rule's
/// priority, which is what the `lpm` structure wants to see; the first entry with another priority
/// has the index built anew.
struct Index {
    /// Key positions that the packed key holds, in its order.
    used: Vec<u16>,
    /// Bytes of each.
    lens: Vec<usize>,
    table: classify::Table,
    entries: HashMap<u32, (Arc<Entry>, u64)>,
    default: ActionCall,
    /// The only `lpm` key, whose length decides between equal priorities.
    lpm: Option<u16>,
    /// All entries have had priority 0 so far: prefix lengths serve as priorities.
    flat: bool,
    /// Entries that the index cannot hold, because of a range over more than 128 bits.
    unindexed: Vec<u32>,
}

/// Keys up to this many bytes are packed on the stack.
const KEY_INLINE: usize = 128;

impl Index {
    fn new(table: &Table) -> Index {
        let mut lpm = (0u16..).zip(table.key.iter()).filter(|(_, k)| k.kind == MatchKind::Lpm);
        let lpm = match (lpm.next(), lpm.next()) {
            (Some((at, _)), None) => Some(at),
            _ => None,
        };
        let mut index = Index {
            used: Vec::new(),
            lens: Vec::new(),
            table: classify::Table::with_layout(empty_layout()),
            entries: HashMap::new(),
            default: table.default.clone(),
            lpm,
            flat: true,
            unindexed: Vec::new(),
        };
        // A table of exact keys only is looked up by all of them from the start.
        if table.key.iter().all(|k| k.kind == MatchKind::Exact) {
            index.use_keys(table, (0..table.key.len() as u16).collect());
        }
        index
    }

    fn use_keys(&mut self, table: &Table, used: Vec<u16>) {
        self.lens =
            used.iter().map(|k| (table.key[*k as usize].width as usize).div_ceil(8)).collect();
        self.used = used;
        // Key lengths are bounded by the verifier far below the layout's limit.
        let layout = Layout::new(&self.lens).unwrap_or_else(|_| empty_layout());
        self.table = classify::Table::with_layout(layout);
        self.unindexed.clear();
        let mut entries: Vec<_> = self.entries.values().cloned().collect();
        entries.sort_by_key(|(_, seq)| *seq);
        for (entry, seq) in &entries {
            self.index(table, entry, *seq);
        }
    }

    fn insert(&mut self, table: &Table, entry: &Arc<Entry>, seq: u64) {
        let missing: Vec<u16> =
            entry.matches.iter().map(|m| m.key).filter(|k| !self.used.contains(k)).collect();
        let flat = self.flat && (entry.priority == 0 || self.lpm.is_none());
        if !missing.is_empty() || flat != self.flat {
            self.flat = flat;
            let mut used = [&self.used[..], &missing[..]].concat();
            used.sort_unstable();
            self.use_keys(table, used);
        }
        self.index(table, entry, seq);
        self.entries.insert(entry.id.0, (entry.clone(), seq));
    }

    fn index(&mut self, table: &Table, entry: &Entry, seq: u64) {
        let rule = self.rule(table, entry, seq);
        match self.table.insert(&rule) {
            Ok(_) => {}
            Err(InsertError::Rule(RuleError::RangeLen(_))) => self.unindexed.push(entry.id.0),
            Err(error) => panic!("table {}: a verified entry is refused: {error}", table.name),
        }
    }

    fn remove(&mut self, table: &Table, id: u32) {
        self.entries.remove(&id);
        if self.entries.is_empty() {
            // The next entries may look at other keys.
            let default = std::mem::replace(&mut self.default, ActionCall::new(ActionId(0)));
            *self = Index { default, ..Index::new(table) };
        } else {
            self.table.remove(id);
            self.unindexed.retain(|other| *other != id);
        }
    }

    /// What serves and why, by the figures of now.
    fn choice(&self, name: &str) -> String {
        let fresh = classify::choose(&self.table.shape(), None);
        let mut text = fresh.titled(name).to_string();
        if fresh.kind != self.table.kind() {
            // It was chosen when the table looked otherwise.
            text = format!(
                "{}\n  until chosen anew, {} serves",
                text.trim_end(),
                self.table.explain()
            );
        }
        text
    }

    /// Place of an entry among those that match: the greatest wins.
    fn place(&self, table: &Table, id: u32) -> Option<(i32, u32, std::cmp::Reverse<u64>)> {
        let (entry, seq) = self.entries.get(&id)?;
        Some((entry.priority, self.prefix_len(table, entry), std::cmp::Reverse(*seq)))
    }

    fn prefix_len(&self, table: &Table, entry: &Entry) -> u32 {
        let Some(key) = self.lpm else { return 0 };
        match entry.matches.iter().find(|m| m.key == key).map(|m| &m.pattern) {
            Some(Pattern::Prefix(_, len)) => *len,
            Some(Pattern::Exact(_)) => table.key[key as usize].width,
            _ => 0,
        }
    }

    /// An entry as a rule over packed keys.
    fn rule(&self, table: &Table, entry: &Entry, seq: u64) -> Rule {
        let key_len: usize = self.lens.iter().sum();
        let mut value = vec![0u8; key_len];
        let mut mask = vec![0u8; key_len];
        let mut ranges = Vec::new();
        let mut at = 0;
        for (key, len) in self.used.iter().zip(&self.lens) {
            let width = table.key[*key as usize].width;
            if let Some(m) = entry.matches.iter().find(|m| m.key == *key) {
                let (v, m) = match &m.pattern {
                    Pattern::Exact(v) => (v.clone(), Bits::ones(width)),
                    Pattern::Prefix(v, n) => (v.clone(), Bits::prefix_mask(*n, width)),
                    Pattern::Masked(v, m) => (v.clone(), m.clone()),
                    Pattern::Range(lo, hi) => {
                        // Of more than 16 bytes, it is refused for that length.
                        let (lo, hi) = (lo.low_u128(), hi.low_u128());
                        let len = u8::try_from(*len).unwrap_or(u8::MAX);
                        ranges.push(Range { offset: at as u32, len, lo, hi });
                        (Bits::zero(width), Bits::zero(width))
                    }
                };
                pack(&v.and(&m), &mut value[at..at + len]);
                pack(&m, &mut mask[at..at + len]);
            }
            at += len;
        }
        // The verifier bounds widths to 2048 bits.
        let prefix_len = self.prefix_len(table, entry).min(0xffff);
        let priority = match self.flat {
            true if self.lpm.is_some() => prefix_len,
            _ => (entry.priority as u32) ^ (1 << 31),
        };
        Rule {
            id: entry.id.0,
            priority,
            seq: (u64::from(0xffff - prefix_len) << 48) | (seq & 0xffff_ffff_ffff),
            value: value.into(),
            mask: mask.into(),
            ranges: ranges.into(),
        }
    }

    fn lookup(&self, table: &Table, key: &mut dyn FnMut(u16) -> Bits) -> Option<&Arc<Entry>> {
        if self.entries.is_empty() {
            return None;
        }
        let key_len = self.table.layout().key_len();
        let mut inline = [0u8; KEY_INLINE];
        let mut heap = Vec::new();
        let packed = if key_len <= KEY_INLINE {
            &mut inline[..key_len]
        } else {
            heap.resize(key_len, 0);
            &mut heap[..]
        };
        let mut at = 0;
        for (k, len) in self.used.iter().zip(&self.lens) {
            pack(&key(*k), &mut packed[at..at + len]);
            at += len;
        }
        let mut best = self.table.lookup(packed);
        for id in &self.unindexed {
            let better = best.is_none_or(|b| self.place(table, *id) > self.place(table, b));
            let mut all = |e: &Entry| e.matches.iter().all(|m| m.pattern.matches(&key(m.key)));
            if better && self.entries.get(id).is_some_and(|(entry, _)| all(entry)) {
                best = Some(*id);
            }
        }
        best.and_then(|id| self.entries.get(&id)).map(|(entry, _)| entry)
    }
}

/// A key field's value in its place of the packed key, right-aligned.
#[inline]
fn pack(value: &Bits, out: &mut [u8]) {
    match out.len() {
        len @ 0..=16 => out.copy_from_slice(&value.low_u128().to_be_bytes()[16 - len..]),
        len => out.copy_from_slice(&value.cast(8 * len as u32).to_be_bytes()),
    }
}

fn empty_layout() -> Layout {
    // No fields: zero bytes are within every limit.
    Layout::new(&[]).unwrap_or_else(|e| unreachable!("a layout without fields is refused: {e}"))
}

/// One of the two replicas.
pub struct Replica {
    version: u64,
    program: Arc<Program>,
    state: Arc<ProgramState>,
    tables: Vec<Index>,
    actions: HashMap<ActionId, Arc<Action>>,
    groups: HashMap<GroupId, Arc<Group>>,
    meters: HashMap<MeterId, Arc<LiveMeter>>,
    value_sets: Vec<Vec<Select>>,
}

impl Replica {
    fn new(program: Arc<Program>, state: Arc<ProgramState>) -> Replica {
        Replica {
            version: 0,
            tables: program.tables.iter().map(Index::new).collect(),
            actions: HashMap::new(),
            groups: HashMap::new(),
            meters: HashMap::new(),
            value_sets: vec![Vec::new(); program.value_sets.len()],
            state,
            program,
        }
    }

    fn follow(&mut self, step: &Step) {
        fn set<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, value: Option<V>) {
            match value {
                Some(v) => map.insert(key, v),
                None => map.remove(&key),
            };
        }
        match step {
            Step::Insert(t, entry, seq) => {
                self.tables[t.index()].insert(&self.program.tables[t.index()], entry, *seq);
            }
            Step::Modify(t, entry) => {
                if let Some((slot, _)) = self.tables[t.index()].entries.get_mut(&entry.id.0) {
                    *slot = entry.clone();
                }
            }
            Step::Delete(t, id) => {
                self.tables[t.index()].remove(&self.program.tables[t.index()], id.0);
            }
            Step::Clear(t) => {
                let default = self.tables[t.index()].default.clone();
                self.tables[t.index()] = Index::new(&self.program.tables[t.index()]);
                self.tables[t.index()].default = default;
            }
            Step::SetDefault(t, call) => self.tables[t.index()].default = call.clone(),
            Step::SetAction(id, action) => set(&mut self.actions, *id, action.clone()),
            Step::SetGroup(id, group) => set(&mut self.groups, *id, group.clone()),
            Step::SetMeter(id, meter) => set(&mut self.meters, *id, meter.clone()),
            Step::SetValueSet(id, members) => self.value_sets[id.index()] = members.clone(),
            Step::SetProgram(program, state) => {
                *self = Replica::new(program.clone(), state.clone())
            }
            Step::Version(version) => self.version = *version,
        }
    }
}

impl View for Replica {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn action(&self, id: ActionId) -> Option<&Action> {
        let own = self.program.actions.get(id.index());
        own.or_else(|| self.actions.get(&id)).map(|a| &**a)
    }

    fn lookup(&self, table: TableId, key: &mut dyn FnMut(u16) -> Bits) -> Option<&Entry> {
        self.tables[table.index()].lookup(&self.program.tables[table.index()], key).map(|e| &**e)
    }

    fn default_action(&self, table: TableId) -> &ActionCall {
        &self.tables[table.index()].default
    }

    fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(&id).map(|g| &**g)
    }

    fn value_set(&self, id: ValueSetId) -> &[Select] {
        &self.value_sets[id.index()]
    }
}

impl Forward for Replica {
    fn version(&self) -> u64 {
        self.version
    }

    fn state(&self) -> &Arc<ProgramState> {
        &self.state
    }

    fn meter(&self, meter: MeterId) -> Option<&LiveMeter> {
        self.meters.get(&meter).map(|m| &**m)
    }

    fn run(
        &self,
        scratch: &mut Scratch,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
    ) -> Verdict {
        scratch.machine.run(self, input, externs, sink, None)
    }

    fn trace(
        &self,
        scratch: &mut Scratch,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
    ) -> (Verdict, Trace) {
        let mut trace = Trace::default();
        let verdict = scratch.machine.run(self, input, externs, sink, Some(&mut trace));
        (verdict, trace)
    }
}

/// Looks at a replica's users so often before it sleeps between looks.
const SPINS: u32 = 200;
/// Room for so many steps is kept for the next transactions.
const STEPS_KEPT: usize = 1024;

/// The interpreter engine.
pub struct InterpEngine {
    workers: usize,
    arena: Arc<CounterArena>,
    serving: Arc<Replica>,
    /// Not used by any worker once they have passed the last publication.
    following: Arc<Replica>,
    /// What `following` lacks: first what `serving` already has, then what came since.
    behind: Vec<Step>,
    sequence: u64,
    /// Steps to take before the next publication that `serving` lacks, too.
    fresh: Vec<Step>,
}

impl InterpEngine {
    /// An engine that forwards by version 0 of this program, and its first snapshot.
    pub fn new(
        program: Arc<Program>,
        workers: usize,
        arena: Arc<CounterArena>,
    ) -> (InterpEngine, Arc<dyn Forward>) {
        let state = Arc::new(ProgramState::new(&program, workers));
        let replica = || Arc::new(Replica::new(program.clone(), state.clone()));
        let serving = replica();
        let engine = InterpEngine {
            workers,
            arena,
            following: replica(),
            serving: serving.clone(),
            behind: Vec::new(),
            sequence: 0,
            fresh: Vec::new(),
        };
        (engine, serving)
    }

    fn step(&mut self, update: &Update, now_ns: u64) -> Step {
        match update {
            Update::Insert(t, entry) => {
                self.sequence += 1;
                Step::Insert(*t, entry.clone(), self.sequence)
            }
            Update::Modify(t, entry) => Step::Modify(*t, entry.clone()),
            Update::Delete(t, id) => Step::Delete(*t, *id),
            Update::Clear(t) => Step::Clear(*t),
            Update::SetDefault(t, call) => Step::SetDefault(*t, call.clone()),
            Update::AddAction(id, action) => Step::SetAction(*id, Some(action.clone())),
            Update::RemoveAction(id) => Step::SetAction(*id, None),
            Update::SetGroup(id, group) => Step::SetGroup(*id, Some(group.clone())),
            Update::RemoveGroup(id) => Step::SetGroup(*id, None),
            Update::SetMeter(id, meter) => match LiveMeter::new(meter, now_ns, &self.arena) {
                Ok(meter) => Step::SetMeter(*id, Some(Arc::new(meter))),
                Err(error) => {
                    tracing::error!(meter = id.0, %error, "the meter passes everything");
                    Step::SetMeter(*id, None)
                }
            },
            Update::RemoveMeter(id) => Step::SetMeter(*id, None),
            Update::SetValueSet(id, members) => Step::SetValueSet(*id, members.clone()),
            Update::SetProgram(program) => Step::SetProgram(
                program.clone(),
                Arc::new(ProgramState::new(program, self.workers)),
            ),
        }
    }
}

impl Engine for InterpEngine {
    fn name(&self) -> &'static str {
        "interp"
    }

    fn apply(&mut self, pipeline: &Pipeline, updates: &[Update], now_ns: u64) {
        for update in updates {
            let step = self.step(update, now_ns);
            self.fresh.push(step);
        }
        self.fresh.push(Step::Version(pipeline.version()));
    }

    fn publish(&mut self, nudge: &dyn Fn()) -> Arc<dyn Forward> {
        let mut waited = 0u32;
        let replica = loop {
            if let Some(replica) = Arc::get_mut(&mut self.following) {
                break replica;
            }
            waited = waited.saturating_add(1);
            if waited < SPINS {
                std::hint::spin_loop();
                continue;
            }
            nudge();
            std::thread::sleep(Duration::from_micros(20));
            if waited == SPINS + 10_000 {
                tracing::warn!(version = self.serving.version, "a worker does not adopt versions");
            }
        };
        self.behind.drain(..).for_each(|step| replica.follow(&step));
        self.fresh.iter().for_each(|step| replica.follow(step));
        std::mem::swap(&mut self.behind, &mut self.fresh);
        self.fresh.shrink_to(STEPS_KEPT);
        std::mem::swap(&mut self.serving, &mut self.following);
        self.serving.clone()
    }

    fn settle(&mut self) {
        if let Some(replica) = Arc::get_mut(&mut self.following) {
            self.behind.drain(..).for_each(|step| replica.follow(&step));
            self.behind.shrink_to(STEPS_KEPT);
        }
    }

    fn explain(&self) -> Vec<TableExplanation> {
        let tables = self.serving.program.tables.iter().zip(&self.serving.tables);
        let with_entries = tables.filter(|(_, index)| !index.entries.is_empty());
        with_entries
            .map(|(table, index)| TableExplanation {
                table: table.name.clone(),
                entries: index.entries.len(),
                choice: index.choice(&table.name),
                memory_bytes: index.table.memory_bytes(),
            })
            .collect()
    }
}
