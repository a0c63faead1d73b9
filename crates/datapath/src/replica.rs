//! The interpreter engine: two replicas of the tables, one serving, one following.
//!
//! A [`Replica`] is what the interpreter needs to forward by a version: the program, an index per
//! table ([`classify::Table`]), entries, groups, meters. The engine keeps two of them. Updates go to
//! the one that no worker uses, [`publish`](crate::Engine::publish) makes it current, and the other
//! one catches up with the same updates when the next ones come (left-right, after Ramalhete and
//! Correia). So an update costs two edits in place and no copy, readers take no lock, and no `unsafe`
//! is needed: `Arc::get_mut` succeeds exactly when the last worker has let go.
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
use classify::{Layout, Range, Rule};
use hashbrown::HashMap;
use interp::{Externs, Input, Sink, Trace, View};
use ir::{
    Action, ActionCall, ActionId, Bits, Entry, Group, GroupId, MatchKind, MeterId, Pattern,
    Pipeline, Program, Select, Table, TableId, Update, ValueSetId, Verdict,
};
use state::counters::CounterArena;
use std::sync::Arc;

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
        };
        // A table of exact keys only is looked up by all of them from the start.
        if table.key.iter().all(|k| k.kind == MatchKind::Exact) {
            index.use_keys(table, (0..table.key.len() as u16).collect());
        }
        index
    }

    fn use_keys(&mut self, table: &Table, used: Vec<u16>) {
        self.lens = used.iter().map(|k| (table.key[*k as usize].width as usize).div_ceil(8)).collect();
        self.used = used;
        // Key lengths are bounded by the verifier far below the layout's limit.
        let layout = Layout::new(&self.lens).unwrap_or_else(|_| empty_layout());
        self.table = classify::Table::with_layout(layout);
        let mut entries: Vec<_> = self.entries.values().cloned().collect();
        entries.sort_by_key(|(_, seq)| *seq);
        for (entry, seq) in &entries {
            self.index(table, entry, *seq);
        }
    }

    fn insert(&mut self, table: &Table, entry: &Arc<Entry>, seq: u64) {
        let missing: Vec<u16> =
            entry.matches.iter().map(|m| m.key).filter(|k| !self.used.contains(k)).collect();
        if !missing.is_empty() {
            let mut used = [&self.used[..], &missing[..]].concat();
            used.sort_unstable();
            self.use_keys(table, used);
        }
        self.index(table, entry, seq);
        self.entries.insert(entry.id.0, (entry.clone(), seq));
    }

    fn index(&mut self, table: &Table, entry: &Entry, seq: u64) {
        let rule = self.rule(table, entry, seq);
        let inserted = self.table.insert(&rule);
        debug_assert!(inserted.is_ok(), "the pipeline has verified the entry: {inserted:?}");
    }

    /// An entry as a rule over packed keys.
    fn rule(&self, table: &Table, entry: &Entry, seq: u64) -> Rule {
        let key_len: usize = self.lens.iter().sum();
        let mut value = vec![0u8; key_len];
        let mut mask = vec![0u8; key_len];
        let mut ranges = Vec::new();
        let mut prefix_len = 0;
        let mut at = 0;
        for (key, len) in self.used.iter().zip(&self.lens) {
            let width = table.key[*key as usize].width;
            if let Some(m) = entry.matches.iter().find(|m| m.key == *key) {
                let (v, m) = match &m.pattern {
                    Pattern::Exact(v) => (v.clone(), Bits::ones(width)),
                    Pattern::Prefix(v, n) => (v.clone(), Bits::prefix_mask(*n, width)),
                    Pattern::Masked(v, m) => (v.clone(), m.clone()),
                    Pattern::Range(lo, hi) => {
                        if let (Some(lo), Some(hi)) = (lo.to_u128(), hi.to_u128()) {
                            ranges.push(Range { offset: at as u32, len: *len as u8, lo, hi });
                        }
                        (Bits::zero(width), Bits::zero(width))
                    }
                };
                if self.lpm == Some(*key) {
                    prefix_len = m.prefix_len().unwrap_or(0);
                }
                let bytes = |b: Bits| b.cast(8 * *len as u32).to_be_bytes();
                value[at..at + len].copy_from_slice(&bytes(v.and(&m)));
                mask[at..at + len].copy_from_slice(&bytes(m));
            }
            at += len;
        }
        Rule {
            id: entry.id.0,
            priority: rank(entry.priority, prefix_len),
            seq: (u64::from(0xffff - prefix_len.min(0xffff)) << 48) | (seq & 0xffff_ffff_ffff),
            value: value.into(),
            mask: mask.into(),
            ranges: ranges.into(),
        }
    }

    fn lookup(&self, key: &mut dyn FnMut(u16) -> Bits) -> Option<&Arc<Entry>> {
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
            let value = key(*k);
            let bytes = value.low_u128().to_be_bytes();
            if *len <= 16 {
                packed[at..at + len].copy_from_slice(&bytes[16 - len..]);
            } else {
                packed[at..at + len].copy_from_slice(&value.cast(8 * *len as u32).to_be_bytes());
            }
            at += len;
        }
        self.table.lookup(packed).and_then(|id| self.entries.get(&id)).map(|(entry, _)| entry)
    }
}

fn empty_layout() -> Layout {
    // No fields: zero bytes are within every limit.
    Layout::new(&[]).unwrap_or_else(|e| unreachable!("a layout without fields is refused: {e}"))
}

/// Priorities in the order of [`ir::Table`]'s rule: priority first, then prefix length. Where all
/// entries have priority 0, as in a table of prefixes, the length alone is the priority, which is
/// what the `lpm` structure wants to see.
fn rank(priority: i32, prefix_len: u32) -> u32 {
    const ZERO: i64 = 1 << 31;
    let rank = match priority {
        0 => ZERO + i64::from(prefix_len.min(4095)),
        p if p > 0 => ZERO + 4096 + i64::from(p),
        p => ZERO + i64::from(p),
    };
    rank.clamp(0, i64::from(u32::MAX)) as u32
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
                let index = &mut self.tables[t.index()];
                index.table.remove(id.0);
                index.entries.remove(&id.0);
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
            Step::SetProgram(program, state) => *self = Replica::new(program.clone(), state.clone()),
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
        self.tables[table.index()].lookup(key).map(|e| &**e)
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
            nudge();
            waited += 1;
            std::thread::sleep(std::time::Duration::from_micros(u64::from(waited.min(50)) * 2));
        };
        self.behind.drain(..).for_each(|step| replica.follow(&step));
        self.fresh.iter().for_each(|step| replica.follow(step));
        self.behind.append(&mut self.fresh);
        std::mem::swap(&mut self.serving, &mut self.following);
        self.serving.clone()
    }

    fn explain(&self) -> Vec<TableExplanation> {
        let tables = self.serving.program.tables.iter().zip(&self.serving.tables);
        let with_entries = tables.filter(|(_, index)| !index.entries.is_empty());
        with_entries
            .map(|(table, index)| TableExplanation {
                table: table.name.clone(),
                entries: index.entries.len(),
                choice: index.table.choice().to_string(),
                memory_bytes: index.table.memory_bytes(),
            })
            .collect()
    }
}
