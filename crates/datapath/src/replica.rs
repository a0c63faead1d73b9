//! Two replicas of the tables, one serving, one following; by themselves, the interpreter engine.
//!
//! A [`Replica`] is what it takes to forward by a version: the program, an index per table
//! ([`classify::Table`]), action records, entries, groups, meters, and perhaps compiled code, which
//! looks tables up in these same indexes ([`compiled`](crate::compiled)). The engine keeps two of them. Updates go to
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

mod view;

use crate::compiled::Code;
use crate::engine::{Engine, Forward, Scratch, TableExplanation};
use crate::lane::{Calls, Counts};
use crate::meter::LiveMeter;
use crate::program_state::ProgramState;
use crate::records::Records;
use crate::samples::{EVERY, Samples};
use crate::tally::{Ran, Reason, Tally};
use classify::{Hit, InsertError, Kind, Layout, Range, Rule, RuleError};
use hashbrown::HashMap;
use interp::{Externs, Input, Sink, Trace};
use ir::{
    Action, ActionCall, ActionId, Bits, Entry, Group, GroupId, KeyMatch, MatchKind, MeterId,
    Pattern, Pipeline, Program, Select, Table, TableId, Update, ValueSetId, Verdict,
};
use plan::choose::{self, Decomposition, Facts, Refused, TablePlan};
use plan::{Column, Model};
use smallvec::SmallVec;
use state::counters::CounterArena;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
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
    /// Another structure takes over a table's rules.
    Serve(TableId, Served),
    /// One that was made beside takes over.
    Adopt(TableId, Arc<Beside>),
    Version(u64),
}

impl Step {
    /// The entry that it changes.
    fn changes(&self) -> Option<(TableId, ir::EntryId)> {
        match self {
            Step::Modify(table, entry) => Some((*table, entry.id)),
            Step::Delete(table, id) => Some((*table, *id)),
            _ => None,
        }
    }
}

/// A structure to be made of a table's rules.
#[derive(Clone)]
pub(crate) enum Served {
    Kind(Kind),
    Decomposed(Arc<Decomposition>),
}

impl Served {
    /// Makes it of a table's rules, and leaves the table alone: none if it cannot hold them, or, where a general
    /// form serves already, if looking these keys up would not become much faster.
    fn of(&self, table: &classify::Table, keys: &[Box<[u8]>]) -> Option<classify::Table> {
        let mut keys = keys.iter().map(|key| &**key);
        match self {
            Served::Kind(Kind::TupleMerge) if table.kind().is_general() => {
                table.improved(&mut keys)
            }
            // The general form has several, and time to choose.
            Served::Kind(Kind::TupleMerge) => Some(table.arranged_for(&mut keys)),
            Served::Kind(kind) => table.rebuilt(*kind).ok(),
            Served::Decomposed(plan) => {
                let rules: Vec<Rule> = table.iter().collect();
                let structure = plan.structure(table.layout().clone(), &rules).ok()?;
                Some(classify::Table::from_structure(Box::new(structure)))
            }
        }
    }
}

/// What an index was built over; while that stays, its rules fit into another structure made for it.
#[derive(Clone, PartialEq, Eq)]
struct Over {
    used: Vec<u16>,
    flat: bool,
}

/// A table's rules as they were when another structure was asked for, and what to make of them.
pub(crate) struct Wanted {
    served: Served,
    table: classify::Table,
    keys: Vec<Box<[u8]>>,
    over: Over,
}

impl Wanted {
    /// Makes the structure, for each replica; takes its time. None if there is nothing to gain.
    pub(crate) fn make(self) -> Option<Beside> {
        let Wanted { served, table, keys, over } = self;
        let mut first = served.of(&table, &keys)?;
        // Copies share it.
        first.generate(&jit::lookup::generate);
        let ns = match keys.is_empty() {
            true => None,
            false => first.ns(&mut keys.iter().map(|key| &**key)),
        };
        let second = match served {
            Served::Decomposed(_) => served.of(&table, &keys)?,
            Served::Kind(_) => first.snapshot(),
        };
        Some(Beside { tables: Mutex::new(vec![second, first]), over, lacks: Vec::new(), ns })
    }
}

/// Another structure for a table, made beside the one that serves: one for each replica.
pub(crate) struct Beside {
    tables: Mutex<Vec<classify::Table>>,
    over: Over,
    /// Entries that have come, changed or gone since the rules were copied.
    lacks: Vec<u32>,
    /// What looking up a key of traffic takes in it, counted.
    pub(crate) ns: Option<f64>,
}

impl Beside {
    /// Brings it up to date: what these entries are now.
    pub(crate) fn follow(&mut self, changes: &[(u32, Option<Rule>)]) {
        let tables = self.tables.get_mut().unwrap_or_else(PoisonError::into_inner);
        for table in tables {
            changes.iter().for_each(|(id, rule)| replace(table, *id, rule.as_ref()));
        }
    }
}

/// Makes an entry of a structure what it is now. What a structure refuses it lacks, so it is not adopted.
fn replace(table: &mut classify::Table, id: u32, rule: Option<&Rule>) {
    table.remove(id);
    if let Some(rule) = rule {
        let _ = table.insert(rule);
    }
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
    entries: HashMap<u32, Held>,
    default: ActionCall,
    /// What the index answers with, for compiled code.
    records: Records,
    /// Keys that traffic has brought.
    samples: Samples,
    /// The kind asked for, where that can hold the entries.
    forced: Option<Kind>,
    /// The only `lpm` key, whose length decides between equal priorities.
    lpm: Option<u16>,
    /// All entries have had priority 0 so far: prefix lengths serve as priorities.
    flat: bool,
    /// Entries that the index cannot hold, because of a range over more than 128 bits.
    unindexed: Vec<u32>,
    /// Indexes of what is left of the entries where code knows something of the key.
    parts: Vec<Part>,
}

/// An index of what a view leaves of a table's entries.
struct Part {
    view: opt::View,
    /// Bytes of each of its key fields.
    lens: Vec<usize>,
    table: classify::Table,
    /// Entries that look at other fields, or that the index cannot hold: it is no use while there are some.
    others: BTreeSet<u32>,
}

impl Part {
    fn new(table: &Table, view: &opt::View) -> Part {
        let lens = lens(table, &view.columns);
        let layout = Layout::new(&lens).unwrap_or_else(|_| empty_layout());
        let table = classify::Table::with_layout(layout);
        Part { view: view.clone(), lens, table, others: BTreeSet::new() }
    }

    fn remove(&mut self, id: u32) {
        self.table.remove(id);
        self.others.remove(&id);
    }
}

/// Bytes of key fields.
fn lens(table: &Table, columns: &[u16]) -> Vec<usize> {
    columns.iter().map(|k| (table.key[*k as usize].width as usize).div_ceil(8)).collect()
}

/// An entry, with its place in the order of insertion and its action record.
#[derive(Clone)]
struct Held {
    entry: Arc<Entry>,
    seq: u64,
    record: u32,
}

/// Keys up to this many bytes are packed on the stack.
const KEY_INLINE: usize = 128;

impl Index {
    fn new(table: &Table, forced: Option<Kind>) -> Index {
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
            records: Records::new(&table.default),
            samples: Samples::default(),
            forced,
            lpm,
            flat: true,
            unindexed: Vec::new(),
            parts: Vec::new(),
        };
        // A table of exact keys only is looked up by all of them from the start.
        if table.key.iter().all(|k| k.kind == MatchKind::Exact) {
            index.use_keys(table, (0..table.key.len() as u16).collect());
        }
        index
    }

    fn use_keys(&mut self, table: &Table, used: Vec<u16>) {
        self.lens = lens(table, &used);
        self.used = used;
        self.samples = Samples::new(self.lens.iter().sum());
        self.build(table, self.forced);
    }

    /// Makes the index anew, of the forced kind if that takes every entry.
    fn build(&mut self, table: &Table, forced: Option<Kind>) {
        // Key lengths are bounded by the verifier far below the layout's limit.
        let layout = Layout::new(&self.lens).unwrap_or_else(|_| empty_layout());
        self.table = classify::Table::with_kind(layout, forced);
        self.unindexed.clear();
        let mut entries: Vec<_> = self.entries.values().cloned().collect();
        entries.sort_by_key(|held| held.seq);
        for held in &entries {
            if !self.index(table, held) {
                return self.build(table, None);
            }
        }
        for part in std::mem::take(&mut self.parts) {
            let part = self.filled(table, &part.view);
            self.parts.push(part);
        }
    }

    /// The index of what a view leaves of the entries.
    fn filled(&self, table: &Table, view: &opt::View) -> Part {
        let mut part = Part::new(table, view);
        let mut entries: Vec<&Held> = self.entries.values().collect();
        entries.sort_by_key(|held| held.seq);
        entries.into_iter().for_each(|held| self.put(table, &mut part, held));
        part
    }

    /// Adds an entry to such an index, if it may match there.
    fn put(&self, table: &Table, part: &mut Part, held: &Held) {
        let id = held.entry.id.0;
        let Some(rest) = part.view.rest(&held.entry.matches) else { return };
        if rest.iter().any(|m| !part.view.columns.contains(&m.key)) {
            part.others.insert(id);
            return;
        }
        let rule = self.rule_over(table, held, (&part.view.columns, &part.lens), &rest);
        match part.table.insert(&rule) {
            Ok(_) => {}
            Err(InsertError::Rule(RuleError::RangeLen(_))) => drop(part.others.insert(id)),
            Err(error) => panic!("table {}: a verified entry is refused: {error}", table.name),
        }
    }

    /// Keeps the indexes of these views, makes those that are not there, and tells where each is: none that is no use.
    fn keep(&mut self, table: &Table, views: &[&opt::View]) {
        self.parts.retain(|part| views.contains(&&part.view));
        for view in views {
            if !self.parts.iter().any(|part| part.view == **view) {
                let part = self.filled(table, view);
                self.parts.push(part);
            }
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
        let record = self.records.acquire(&entry.action);
        let held = Held { entry: entry.clone(), seq, record };
        if !self.index(table, &held) {
            // The kind that was asked for cannot hold it beside the others.
            self.build(table, None);
            self.index(table, &held);
        }
        let mut parts = std::mem::take(&mut self.parts);
        parts.iter_mut().for_each(|part| self.put(table, part, &held));
        self.parts = parts;
        self.entries.insert(entry.id.0, held);
    }

    /// False: the kind that is forced on the index declines.
    fn index(&mut self, table: &Table, held: &Held) -> bool {
        let rule = self.rule(table, held);
        match self.table.insert(&rule) {
            Ok(_) => {}
            Err(InsertError::Rule(RuleError::RangeLen(_))) => {
                self.unindexed.push(held.entry.id.0);
            }
            Err(InsertError::Declined(_)) => return false,
            Err(error) => panic!("table {}: a verified entry is refused: {error}", table.name),
        }
        true
    }

    fn modify(&mut self, entry: &Arc<Entry>) {
        let Some(held) = self.entries.get_mut(&entry.id.0) else { return };
        let record = self.records.acquire(&entry.action);
        self.records.release(held.record);
        (held.entry, held.record) = (entry.clone(), record);
        self.table.set_action(entry.id.0, record);
        for part in &mut self.parts {
            part.table.set_action(entry.id.0, record);
        }
    }

    fn set_default(&mut self, call: &ActionCall) {
        self.default = call.clone();
        self.records.set_default(call);
    }

    fn remove(&mut self, table: &Table, id: u32) {
        if let Some(held) = self.entries.remove(&id) {
            self.records.release(held.record);
        }
        if self.entries.is_empty() {
            self.clear(table);
        } else {
            self.table.remove(id);
            self.unindexed.retain(|other| *other != id);
            self.parts.iter_mut().for_each(|part| part.remove(id));
        }
    }

    /// Lets go of all entries. The next ones may look at other keys; variants of actions keep their
    /// numbers.
    fn clear(&mut self, table: &Table) {
        // In an order that both replicas share: the next calls take the records that are let go, and a
        // structure that was made of one replica's rules may come to serve the other.
        let mut records: Vec<u32> = self.entries.values().map(|held| held.record).collect();
        records.sort_unstable();
        records.into_iter().for_each(|record| self.records.release(record));
        let fresh = Index::new(table, self.forced);
        let Index { default, records, .. } = std::mem::replace(self, fresh);
        (self.default, self.records) = (default, records);
    }

    /// Moves the rules to another structure, if that takes them.
    fn serve(&mut self, served: &Served) {
        if let Some(table) = served.of(&self.table, &[]) {
            self.table = table;
        }
    }

    fn over(&self) -> Over {
        Over { used: self.used.clone(), flat: self.flat }
    }

    /// Moves to a structure made beside, if it still fits; else nothing changes.
    fn adopt(&mut self, table: &Table, beside: &Beside) {
        let made = beside.tables.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(mut fresh) = made.filter(|_| beside.over == self.over()) else { return };
        for &id in &beside.lacks {
            let rule = self.entries.get(&id).map(|held| self.rule(table, held));
            replace(&mut fresh, id, rule.as_ref());
        }
        if fresh.len() == self.table.len() {
            self.table = fresh;
        } else {
            let (holds, has) = (fresh.len(), self.table.len());
            tracing::error!(table = table.name, holds, has, "a structure made beside lacks rules");
        }
    }

    /// How the table is best looked up by what it holds now.
    fn plan(
        &self,
        table: &Table,
        model: &Model,
        options: &choose::Options,
    ) -> Result<TablePlan, Refused> {
        let shape = self.table.shape();
        let key = self.used.iter().map(|k| &table.key[*k as usize]);
        let columns: Vec<Column> =
            key.map(|k| Column { name: k.name.clone(), bits: k.width }).collect();
        let rules = || self.table.iter().collect::<Vec<Rule>>();
        let facts = Facts {
            columns: &columns,
            rules: Some(&rules),
            memory_bytes: Some(self.table.memory_bytes() as u64),
            ..Facts::new(&table.name, &shape)
        };
        choose::choose_table(&facts, model, options)
    }

    /// Entries, best first.
    fn in_order(&self, table: &Table) -> Vec<&Arc<Entry>> {
        let mut entries: Vec<&Held> = self.entries.values().collect();
        entries.sort_by_key(|held| std::cmp::Reverse(self.place(table, held.entry.id.0)));
        entries.into_iter().map(|held| &held.entry).collect()
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
        if let Some(line) = self.accounting() {
            text = format!("{}\n  {line}", text.trim_end());
        }
        text
    }

    /// How the general form holds the entries, and what lookups take, expected and measured.
    fn accounting(&self) -> Option<String> {
        let keys = self.traffic();
        self.table.accounting(&mut keys.iter().map(|key| &**key))
    }

    /// Keys that traffic has brought.
    fn traffic(&self) -> Vec<Box<[u8]>> {
        self.samples.keys(self.table.layout().key_len())
    }

    /// Place of an entry among those that match: the greatest wins.
    fn place(&self, table: &Table, id: u32) -> Option<(i32, u32, std::cmp::Reverse<u64>)> {
        let Held { entry, seq, .. } = self.entries.get(&id)?;
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
    fn rule(&self, table: &Table, held: &Held) -> Rule {
        self.rule_over(table, held, (&self.used, &self.lens), &held.entry.matches)
    }

    /// The same with these of its patterns, over keys of these fields.
    fn rule_over(
        &self,
        table: &Table,
        held: &Held,
        (used, lens): (&[u16], &[usize]),
        matches: &[KeyMatch],
    ) -> Rule {
        let Held { entry, seq, record } = held;
        let key_len: usize = lens.iter().sum();
        let mut value = vec![0u8; key_len];
        let mut mask = vec![0u8; key_len];
        let mut ranges = Vec::new();
        let mut at = 0;
        for (key, len) in used.iter().zip(lens) {
            let width = table.key[*key as usize].width;
            if let Some(m) = matches.iter().find(|m| m.key == *key) {
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
            action: *record,
        }
    }

    fn lookup(&self, table: &Table, key: &mut dyn FnMut(u16) -> Bits) -> Option<&Arc<Entry>> {
        self.lookup_packed(table, &mut |at, out| pack(&key(at), out))
    }

    /// `key` writes a key field's value, right-aligned, to as many bytes as it takes.
    fn lookup_packed(
        &self,
        table: &Table,
        key: &mut dyn FnMut(u16, &mut [u8]),
    ) -> Option<&Arc<Entry>> {
        let (id, _) = self.find(table, key)?;
        self.entries.get(&id).map(|held| &held.entry)
    }

    /// The entry that wins, and its action record.
    #[inline]
    fn find(&self, table: &Table, key: &mut dyn FnMut(u16, &mut [u8])) -> Option<(u32, u32)> {
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
            key(*k, &mut packed[at..at + len]);
            at += len;
        }
        let hit = self.table.lookup(packed);
        let mut best = hit.is_hit().then_some((hit.entry, hit.action));
        for id in &self.unindexed {
            let better = best.is_none_or(|(b, _)| self.place(table, *id) > self.place(table, b));
            let mut value = |at: u16| {
                let width = table.key[usize::from(at)].width;
                let mut bytes: SmallVec<[u8; KEY_INLINE]> = SmallVec::new();
                bytes.resize(width.div_ceil(8) as usize, 0);
                key(at, &mut bytes);
                Bits::from_be_bytes(&bytes, width)
            };
            let mut all = |e: &Entry| e.matches.iter().all(|m| m.pattern.matches(&value(m.key)));
            if let Some(held) = self.entries.get(id).filter(|_| better)
                && all(&held.entry)
            {
                best = Some((*id, held.record));
            }
        }
        best
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
    /// The same for compiled code.
    chunks: jit::Groups,
    meters: HashMap<MeterId, Arc<LiveMeter>>,
    value_sets: Vec<Vec<Select>>,
    forced: Option<Kind>,
    tally: Arc<Tally>,
    /// Why packets are interpreted if there is no code.
    without: Reason,
    /// Code that fits what the tables hold.
    code: Option<Arc<Code>>,
    /// By node of the code, where it is looked up.
    looked_up: Vec<Place>,
    /// Code that runs what that code leaves; it has all actions.
    whole: Option<Arc<jit::whole::Code>>,
}

/// Where a node's lookups go.
#[derive(Clone, Copy)]
struct Place {
    /// The table, if it can be looked up as the code does it, else `NOWHERE`.
    table: u32,
    /// The number of one of its parts, else `NOWHERE`: the table's own index.
    part: u32,
}

impl Replica {
    fn new(
        program: Arc<Program>,
        state: Arc<ProgramState>,
        forced: Option<Kind>,
        (tally, without): (Arc<Tally>, Reason),
    ) -> Replica {
        Replica {
            version: 0,
            tables: program.tables.iter().map(|t| Index::new(t, forced)).collect(),
            actions: HashMap::new(),
            groups: HashMap::new(),
            chunks: jit::Groups::default(),
            meters: HashMap::new(),
            value_sets: vec![Vec::new(); program.value_sets.len()],
            forced,
            tally,
            without,
            code: None,
            looked_up: Vec::new(),
            whole: None,
            state,
            program,
        }
    }

    /// Follows steps in order. What they change lies anywhere in memory: a handful of steps asks for
    /// it together, so that they wait once.
    fn follow_all(&mut self, steps: &[Step]) {
        for steps in steps.chunks(TOGETHER) {
            // Tables of a program that comes with these steps are not there yet.
            let changed = || {
                let changed = steps.iter().filter_map(Step::changes);
                changed.filter_map(|(table, id)| Some((self.tables.get(table.index())?, id.0)))
            };
            for (index, id) in changed() {
                index.table.touch(id);
                if let Some(held) = index.entries.get(&id) {
                    classify::prefetch(&*held.entry);
                }
            }
            // The last to let go of an entry goes through all that it owns.
            for (index, id) in changed() {
                if let Some(held) = index.entries.get(&id) {
                    held.entry.matches.first().into_iter().for_each(classify::prefetch);
                    held.entry.action.args.first().into_iter().for_each(classify::prefetch);
                }
            }
            steps.iter().for_each(|step| self.follow(step));
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
            Step::Modify(t, entry) => self.tables[t.index()].modify(entry),
            Step::Delete(t, id) => {
                self.tables[t.index()].remove(&self.program.tables[t.index()], id.0);
            }
            Step::Clear(t) => self.tables[t.index()].clear(&self.program.tables[t.index()]),
            Step::SetDefault(t, call) => self.tables[t.index()].set_default(call),
            Step::Serve(t, served) => self.tables[t.index()].serve(served),
            Step::Adopt(t, beside) => {
                self.tables[t.index()].adopt(&self.program.tables[t.index()], beside)
            }
            Step::SetAction(id, None) => {
                // Only what is not used is removed, so only those tables know it that have used it.
                self.actions.remove(id);
                self.tables.iter_mut().for_each(|index| index.records.retire(*id));
                self.chunks.retire(*id);
            }
            Step::SetAction(id, action) => set(&mut self.actions, *id, action.clone()),
            Step::SetGroup(id, group) => {
                set(&mut self.groups, *id, group.clone());
                self.chunks.set(*id, group.as_ref());
            }
            Step::SetMeter(id, meter) => set(&mut self.meters, *id, meter.clone()),
            Step::SetValueSet(id, members) => self.value_sets[id.index()] = members.clone(),
            Step::SetProgram(program, state) => {
                let counts = (self.tally.clone(), self.without);
                *self = Replica::new(program.clone(), state.clone(), self.forced, counts)
            }
            Step::Version(version) => self.version = *version,
        }
    }
}

/// What the compiling engine asks of it.
impl Replica {
    /// Key positions that a table's packed key holds.
    pub(crate) fn columns(&self, table: TableId) -> &[u16] {
        &self.tables[table.index()].used
    }

    /// Action records of a table.
    pub(crate) fn records(&self, table: TableId) -> &Records {
        &self.tables[table.index()].records
    }

    /// Groups, as compiled code sees them.
    pub(crate) fn chunks(&self) -> &jit::Groups {
        &self.chunks
    }

    /// Entries in a table.
    pub(crate) fn len(&self, table: TableId) -> usize {
        self.tables[table.index()].entries.len()
    }

    /// What a table holds.
    pub(crate) fn contents(&self, table: TableId) -> opt::TableContents {
        let index = &self.tables[table.index()];
        let mut actions: Vec<ActionId> = Vec::new();
        let mut only = None;
        if !index.entries.is_empty() {
            let entries = index.entries.values();
            actions = index.records.of_entries().collect();
            actions.sort_unstable();
            if index.entries.len() == 1 {
                only = entries.map(|held| held.entry.action.clone()).next();
            }
        }
        opt::TableContents {
            entries: index.entries.len(),
            columns: index.used.clone(),
            actions,
            only,
            default: index.default.clone(),
        }
    }

    /// A table's entries, best first, as the pipeline has them.
    pub(crate) fn entries_in_order(&self, table: TableId) -> Vec<Arc<Entry>> {
        let index = &self.tables[table.index()];
        let entries = index.in_order(&self.program.tables[table.index()]);
        entries.into_iter().cloned().collect()
    }

    /// A table's entries, best first.
    pub(crate) fn direct_entries(&self, table: TableId) -> Vec<jit::DirectEntry> {
        let index = &self.tables[table.index()];
        let entries = index.in_order(&self.program.tables[table.index()]);
        let direct = |e: &Arc<Entry>| jit::DirectEntry {
            entry: e.id,
            matches: e.matches.clone(),
            call: e.action.clone(),
        };
        entries.into_iter().map(direct).collect()
    }

    /// How a table is best looked up by what it holds now.
    pub(crate) fn plan(
        &self,
        table: TableId,
        model: &Model,
        options: &choose::Options,
    ) -> Result<TablePlan, Refused> {
        let at = table.index();
        self.tables[at].plan(&self.program.tables[at], model, options)
    }

    /// What serves a table.
    pub(crate) fn kind(&self, table: TableId) -> Kind {
        self.tables[table.index()].table.kind()
    }

    /// How the general form holds a table's entries, if it does.
    pub(crate) fn accounting(&self, table: TableId) -> Option<String> {
        self.tables[table.index()].accounting()
    }

    /// Keys of a table that traffic has brought, how many ever, and what looking one up takes, counted, if a
    /// general form serves.
    pub(crate) fn measured(&self, table: TableId) -> (usize, Option<f64>) {
        let index = &self.tables[table.index()];
        let keys = index.traffic();
        let ns = match index.table.kind().is_general() && !keys.is_empty() {
            true => index.table.ns(&mut keys.iter().map(|key| &**key)),
            false => None,
        };
        (index.samples.noted(), ns)
    }

    /// What another structure for a table is made of.
    pub(crate) fn wanted(&self, table: TableId, served: Served) -> Wanted {
        let index = &self.tables[table.index()];
        let (keys, over) = (index.traffic(), index.over());
        Wanted { served, table: index.table.snapshot(), keys, over }
    }

    /// What these entries of a table are now, as its structures know them.
    pub(crate) fn rules_now(&self, table: TableId, ids: &[u32]) -> Vec<(u32, Option<Rule>)> {
        let index = &self.tables[table.index()];
        let of = &self.program.tables[table.index()];
        let now = |&id: &u32| (id, index.entries.get(&id).map(|held| index.rule(of, held)));
        ids.iter().map(now).collect()
    }

    /// A kind of structure is forced on the tables, and serves this one.
    pub(crate) fn is_forced(&self, table: TableId) -> bool {
        self.tables[table.index()].forced.is_some()
    }

    /// Bytes that a table's lookups go through.
    pub(crate) fn memory_bytes(&self, table: TableId) -> usize {
        let index = &self.tables[table.index()];
        let parts: usize = index.parts.iter().map(|part| part.table.memory_bytes()).sum();
        index.table.memory_bytes() + parts + index.records.memory_bytes()
    }

    /// Entries that may match where this is known look at no other fields than the view has.
    pub(crate) fn holds(&self, table: TableId, view: &opt::View) -> bool {
        let index = &self.tables[table.index()];
        match index.parts.iter().find(|part| part.view == *view) {
            Some(part) => part.others.is_empty(),
            None => view.holds(&self.entries_in_order(table)),
        }
    }

    /// Entries of the part of a table that a node of the code looks up, and what serves them.
    pub(crate) fn part(&self, node: usize) -> Option<(usize, Kind)> {
        let place = self.looked_up.get(node)?;
        let part = self.tables.get(place.table as usize)?.parts.get(place.part as usize)?;
        Some((part.table.len(), part.table.kind()))
    }

    /// Forwards by this code from now on, as far as the tables allow.
    pub(crate) fn bind(&mut self, code: Option<Arc<Code>>) {
        self.looked_up.clear();
        if let Some(code) = &code {
            let nodes = || code.unit.nodes.iter().zip(&code.views);
            for (at, index) in self.tables.iter_mut().enumerate() {
                let own = nodes().filter(|(node, _)| node.table.index() == at);
                let views: Vec<&opt::View> = own.filter_map(|(_, view)| view.as_ref()).collect();
                if !(views.is_empty() && index.parts.is_empty()) {
                    index.keep(&self.program.tables[at], &views);
                }
            }
            let place = |(node, view): (&jit::NodeSpec, &Option<opt::View>)| {
                let index = &self.tables[node.table.index()];
                let part = view.as_ref().map(|view| {
                    let at = index.parts.iter().position(|part| part.view == *view);
                    at.filter(|at| index.parts[*at].others.is_empty())
                });
                let serves = match part {
                    None => index.used == node.columns && index.unindexed.is_empty(),
                    Some(part) => part.is_some(),
                };
                let fits = serves && index.records.stride() as u32 == node.record_words;
                let table = if fits { node.table.0 } else { NOWHERE };
                Place { table, part: part.flatten().map_or(NOWHERE, |at| at as u32) }
            };
            self.looked_up.extend(nodes().map(place));
        }
        self.code = code;
    }

    /// Runs packets by this code from now on.
    pub(crate) fn bind_whole(&mut self, code: Option<Arc<jit::whole::Code>>) {
        self.whole = code;
    }
}

/// No table, or no part of one.
const NOWHERE: u32 = u32::MAX;

/// Compiled code's lookups at its nodes.
struct Nodes<'a> {
    replica: &'a Replica,
    /// A key of each lookup is noted: this one, counted around.
    noted: Option<u32>,
    /// Which ports are live.
    live: &'a abi::Live,
}

impl Nodes<'_> {
    #[inline(always)]
    fn index(&self, node: usize) -> Option<&Index> {
        self.replica.tables.get(self.replica.looked_up[node].table as usize)
    }

    /// What of an index a node looks up.
    #[inline(always)]
    fn table<'i>(&self, index: &'i Index, node: usize) -> &'i classify::Table {
        let part = index.parts.get(self.replica.looked_up[node].part as usize);
        part.map_or(&index.table, |part| &part.table)
    }

    /// Notes a key of a lookup of so many.
    #[cold]
    fn note(
        &self,
        at: u32,
        node: impl Fn(usize) -> usize,
        keys: &[u8],
        stride: usize,
        count: usize,
    ) {
        let at = at as usize % count.max(1);
        if let Some(index) = self.index(node(at))
            && self.replica.looked_up[node(at)].part == NOWHERE
            && let Some(key) = keys.get(at * stride..(at + 1) * stride)
        {
            index.samples.note(key);
        }
    }
}

impl jit::Tables for Nodes<'_> {
    #[inline]
    fn lookup(&self, node: usize, keys: &[u8], stride: usize, hits: &mut [Hit]) -> bool {
        let index = self.index(node);
        if let Some(at) = self.noted {
            self.note(at, |_| node, keys, stride, hits.len());
        }
        if let Some(index) = index {
            self.table(index, node).lookup_burst(keys, stride, hits);
        }
        index.is_some()
    }

    #[inline]
    fn lookup_mixed(
        &self,
        nodes: &[u32],
        of: &[u8],
        keys: &[u8],
        stride: usize,
        hits: &mut [Hit],
    ) -> bool {
        if let Some(at) = self.noted {
            self.note(at, |at| nodes[usize::from(of[at])] as usize, keys, stride, hits.len());
        }
        let mut tables: SmallVec<[&classify::Table; abi::BURST_MAX]> = SmallVec::new();
        for node in nodes {
            let Some(index) = self.index(*node as usize) else { return false };
            tables.push(self.table(index, *node as usize));
        }
        classify::lookup_mixed(&tables, of, keys, stride, hits);
        true
    }

    #[inline]
    fn records(&self, node: usize) -> &[u64] {
        self.index(node).map_or(&[], |index| index.records.words())
    }

    #[inline]
    fn groups(&self) -> abi::Groups<'_> {
        self.replica.chunks.view(self.live)
    }
}

impl Forward for Replica {
    fn version(&self) -> u64 {
        self.version
    }

    fn state(&self) -> &Arc<ProgramState> {
        &self.state
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn reason(&self, bail: u32) -> Reason {
        self.code.as_ref().map_or(self.without, |code| code.reason(bail))
    }

    fn meter(&self, meter: MeterId) -> Option<&LiveMeter> {
        self.meters.get(&meter).map(|m| &**m)
    }

    fn burst(
        &self,
        scratch: &mut Scratch,
        packets: &mut [abi::Packet<'_>],
        counts: &mut Counts<'_>,
        now_ns: u64,
    ) {
        match &self.code {
            Some(code) => {
                scratch.bursts = scratch.bursts.wrapping_add(1);
                let noted =
                    (scratch.bursts.is_multiple_of(EVERY)).then_some(scratch.bursts / EVERY);
                let nodes = Nodes { replica: self, noted, live: counts.live };
                let counters = counts.counters();
                let mut calls = Calls { program: &self.program, forward: self, counts };
                let scratch = &mut scratch.code;
                code.compiled.run(&nodes, counters, &mut calls, scratch, packets, now_ns);
            }
            None => {
                scratch.code.forget();
                packets.iter_mut().for_each(|packet| packet.bail(0));
            }
        }
    }

    fn run(
        &self,
        scratch: &mut Scratch,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
    ) -> Verdict {
        if let Some(code) = &self.whole
            && let Some(verdict) = scratch.whole.run(code, self, input, externs, sink)
        {
            scratch.ran = Ran::Whole;
            return verdict;
        }
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

/// Steps that ask for memory together.
const TOGETHER: usize = 32;
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
        InterpEngine::without_code(program, workers, arena, Reason::ENGINE)
    }

    /// As [`new`](InterpEngine::new), and why packets are interpreted that come by while there is no code.
    pub(crate) fn without_code(
        program: Arc<Program>,
        workers: usize,
        arena: Arc<CounterArena>,
        why: Reason,
    ) -> (InterpEngine, Arc<dyn Forward>) {
        let state = Arc::new(ProgramState::new(&program, workers));
        let tally = Arc::new(Tally::new(workers));
        let counts = || (tally.clone(), why);
        let replica = || Arc::new(Replica::new(program.clone(), state.clone(), None, counts()));
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
            Update::SetProgram(program) => {
                // Packets have written to what serves, whatever was set and not published since.
                let before = Some((&*self.serving.program, &*self.serving.state));
                let state = ProgramState::after(program, self.workers, before);
                Step::SetProgram(program.clone(), Arc::new(state))
            }
        }
    }
}

/// What the compiling engine does step by step.
impl InterpEngine {
    /// Lets the replica that no worker uses catch up with everything; waits for workers to leave it.
    pub(crate) fn catch_up(&mut self, nudge: &dyn Fn()) {
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
        replica.follow_all(&self.behind);
        self.behind.clear();
        replica.follow_all(&self.fresh);
        std::mem::swap(&mut self.behind, &mut self.fresh);
        self.fresh.shrink_to(STEPS_KEPT);
    }

    /// No worker uses the replica that is to catch up.
    pub(crate) fn is_free(&mut self) -> bool {
        Arc::get_mut(&mut self.following).is_some()
    }

    /// Makes the replica that has caught up the serving one.
    pub(crate) fn swap(&mut self) -> Arc<dyn Forward> {
        std::mem::swap(&mut self.serving, &mut self.following);
        self.serving.clone()
    }

    /// The replica that has caught up: between [`catch_up`](Self::catch_up) and
    /// [`swap`](Self::swap) the following one, else the serving one.
    pub(crate) fn following(&self) -> &Replica {
        &self.following
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Packets by what ran them.
    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.serving.tally
    }

    /// The replica that workers use.
    pub(crate) fn serving(&self) -> &Replica {
        &self.serving
    }

    /// All that was applied was published.
    pub(crate) fn is_published(&self) -> bool {
        self.fresh.is_empty()
    }

    /// Binds code to the following replica, which has caught up.
    pub(crate) fn bind(&mut self, code: Option<Arc<Code>>) {
        match Arc::get_mut(&mut self.following) {
            Some(replica) => replica.bind(code),
            None => unreachable!("code is bound after the replica has caught up"),
        }
    }

    /// The same for code that runs what that leaves.
    pub(crate) fn bind_whole(&mut self, code: Option<Arc<jit::whole::Code>>) {
        match Arc::get_mut(&mut self.following) {
            Some(replica) => replica.bind_whole(code),
            None => unreachable!("code is bound after the replica has caught up"),
        }
    }

    /// Every table of both replicas, empty ones still, is looked up by this kind of structure.
    pub(crate) fn force(&mut self, kind: Kind) {
        for replica in [&mut self.serving, &mut self.following] {
            let (program, state) = (replica.program.clone(), replica.state.clone());
            let counts = (replica.tally.clone(), replica.without);
            *replica = Arc::new(Replica::new(program, state, Some(kind), counts));
        }
    }

    /// Has both replicas look a table up by another structure: the following one, which has caught up and is not
    /// published yet, at once.
    pub(crate) fn serve(&mut self, table: TableId, served: Served) {
        let step = Step::Serve(table, served);
        match Arc::get_mut(&mut self.following) {
            Some(replica) => {
                replica.follow(&step);
                self.behind.push(step);
            }
            None => self.fresh.push(step),
        }
    }

    /// Has both replicas move a table, with the next publication, to what was made beside. `lacks` are the entries
    /// that have come, changed or gone since it was last brought up to date.
    pub(crate) fn adopt(&mut self, table: TableId, beside: Beside, lacks: Vec<u32>) {
        self.fresh.push(Step::Adopt(table, Arc::new(Beside { lacks, ..beside })));
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
        self.catch_up(nudge);
        self.swap()
    }

    fn is_free(&mut self) -> bool {
        InterpEngine::is_free(self)
    }

    fn settle(&mut self) -> bool {
        if let Some(replica) = Arc::get_mut(&mut self.following) {
            replica.follow_all(&self.behind);
            self.behind.clear();
            self.behind.shrink_to(STEPS_KEPT);
        }
        false
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
