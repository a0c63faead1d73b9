//! The index of one table: its entries, packed into rules of a lookup structure.
//!
//! An index is built over the key fields that some entry of its table looks at, and no others: of
//! OpenFlow's forty a table uses a few. When an entry uses one more, that table's index is rebuilt.

use super::step::TOGETHER;
use super::structures::{KeyLayout, Planning, Replacement, StructureChoice, replace};
use super::tree::Tree;
use crate::records::Records;
use crate::samples::Samples;
use classify::{Hit, InsertError, Kind, Layout, Range, Rule, RuleError};
use ir::{ActionCall, Bits, Entry, IdMap, KeyMatch, MatchKind, Pattern, Table};
use plan::choose;
use plan::{Column, Model};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The index of one table.
///
/// Which entry wins is [`ir::Table`]'s rule: priority, then prefix length, then who came first. The
/// index compares a rule's priority, then its `seq`, whose high bits hold the prefix length inverted.
/// While all entries of a table of prefixes have priority 0, the length itself is the rule's
/// priority, which is what the `lpm` structure wants to see; the first entry with another priority
/// has the index built anew.
pub(super) struct Index {
    /// Key positions that the packed key holds, in its order.
    pub(super) used: Vec<u16>,
    /// Bytes of each.
    lens: Vec<usize>,
    pub(super) table: classify::Table,
    pub(super) entries: IdMap<Held>,
    pub(super) default: ActionCall,
    /// What the index answers with, for compiled code.
    pub(super) records: Records,
    /// Keys that traffic has brought.
    pub(super) samples: Samples,
    /// The kind asked for, where that can hold the entries.
    pub(super) forced: Option<Kind>,
    /// The only `lpm` key, whose length decides between equal priorities.
    lpm: Option<u16>,
    /// All entries have had priority 0 so far: prefix lengths serve as priorities.
    flat: bool,
    /// Entries that the index cannot hold, because of a range over more than 128 bits.
    pub(super) unindexed: Vec<u32>,
    /// Indexes of what is left of the entries where code knows something of the key.
    pub(super) parts: Vec<Part>,
    /// For packets that run one at a time.
    pub(super) tree: Tree,
    /// Another one whenever entries or the default action are others; the same in both replicas.
    pub(super) stamp: u64,
    /// Room for the rule of an entry that comes.
    room: Option<Rule>,
}

/// An index of what a view leaves of a table's entries.
pub(super) struct Part {
    pub(super) view: opt::View,
    /// Bytes of each of its key fields.
    lens: Vec<usize>,
    pub(super) table: classify::Table,
    /// Entries that look at other fields, or that the index cannot hold: it is no use while there are some.
    pub(super) others: BTreeSet<u32>,
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
pub(super) struct Held {
    pub(super) entry: Arc<Entry>,
    seq: u64,
    record: u32,
}

/// Keys up to this many bytes are packed on the stack.
const KEY_INLINE: usize = 128;

/// Entries of a table that are worth looking others up before they are inserted.
const EXPECTED_FROM: usize = 4096;
/// Bytes of keys that are.
const EXPECTED_STRIDE: usize = 32;

impl Index {
    pub(super) fn new(table: &Table, forced: Option<Kind>, stamp: u64) -> Index {
        let mut lpm = (0u16..).zip(table.key.iter()).filter(|(_, k)| k.kind == MatchKind::Lpm);
        let lpm = match (lpm.next(), lpm.next()) {
            (Some((at, _)), None) => Some(at),
            _ => None,
        };
        let mut index = Index {
            used: Vec::new(),
            lens: Vec::new(),
            table: classify::Table::with_layout(empty_layout()),
            entries: IdMap::default(),
            default: table.default.clone(),
            records: Records::new(&table.default),
            samples: Samples::default(),
            forced,
            lpm,
            flat: true,
            unindexed: Vec::new(),
            parts: Vec::new(),
            tree: Tree::default(),
            stamp,
            room: None,
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
        // Its keys may be others.
        self.tree.drop();
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
        let over = (&part.view.columns[..], &part.lens[..]);
        let rule = self.rule_over(table, held, over, &rest, no_rule());
        match part.table.insert(&rule) {
            Ok(_) => {}
            Err(InsertError::Rule(RuleError::RangeLen(_))) => drop(part.others.insert(id)),
            Err(error) => panic!("table {}: a verified entry is refused: {error}", table.name),
        }
    }

    /// Keeps the indexes of these views, makes those that are not there, and tells where each is: none that is no use.
    pub(super) fn keep(&mut self, table: &Table, views: &[&opt::View]) {
        self.parts.retain(|part| views.contains(&&part.view));
        for view in views {
            if !self.parts.iter().any(|part| part.view == **view) {
                let part = self.filled(table, view);
                self.parts.push(part);
            }
        }
    }

    /// Looks entries up that will be inserted, all together: what an insert reads is then at hand. For a large hash alone, and
    /// keys of few bytes.
    pub(super) fn expect<'e>(&self, entries: impl Iterator<Item = &'e Entry>) {
        let stride = self.table.layout().stride();
        let large = self.table.kind() == Kind::Hash && self.table.len() >= EXPECTED_FROM;
        if !large || stride > EXPECTED_STRIDE {
            return;
        }
        let mut keys = [0; TOGETHER * EXPECTED_STRIDE];
        let mut count = 0;
        for (entry, key) in entries.zip(keys.chunks_exact_mut(stride)) {
            let mut at = 0;
            for (k, len) in self.used.iter().zip(&self.lens) {
                let pattern = entry.matches.iter().find(|m| m.key == *k).map(|m| &m.pattern);
                if let Some(Pattern::Exact(value)) = pattern {
                    pack(value, &mut key[at..at + len]);
                }
                at += len;
            }
            count += 1;
        }
        let mut hits = [Hit::MISS; TOGETHER];
        let hits = &mut hits[..count.min(TOGETHER)];
        self.table.lookup_burst(&keys, stride, hits);
        std::hint::black_box(hits);
    }

    pub(super) fn insert(&mut self, table: &Table, entry: &Arc<Entry>, seq: u64) {
        self.stamp += 1;
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
        if self.tree.get().is_some() {
            self.tree.insert(&self.rule(table, &held));
        }
        self.entries.insert(entry.id.0, held);
        self.grow(table);
    }

    /// False: the kind that is forced on the index declines.
    fn index(&mut self, table: &Table, held: &Held) -> bool {
        let room = self.room.take().unwrap_or_else(no_rule);
        let over = (&self.used[..], &self.lens[..]);
        let rule = self.rule_over(table, held, over, &held.entry.matches, room);
        let done = self.table.insert(&rule);
        self.room = Some(rule);
        match done {
            Ok(_) => {}
            Err(InsertError::Rule(RuleError::RangeLen(_))) => {
                self.unindexed.push(held.entry.id.0);
                self.tree.drop();
            }
            Err(InsertError::Declined(_)) => return false,
            Err(error) => panic!("table {}: a verified entry is refused: {error}", table.name),
        }
        true
    }

    pub(super) fn modify(&mut self, table: &Table, entry: &Arc<Entry>) {
        let in_tree = self.entries.get(entry.id.0).filter(|_| self.tree.get().is_some());
        let in_tree = in_tree.map(|held| self.rule(table, held));
        let Some(held) = self.entries.get_mut(entry.id.0) else { return };
        self.stamp += 1;
        let record = self.records.acquire(&entry.action);
        self.records.release(held.record);
        (held.entry, held.record) = (entry.clone(), record);
        self.table.set_action(entry.id.0, record);
        in_tree.iter().for_each(|rule| self.tree.set_action(rule, record));
        for part in &mut self.parts {
            part.table.set_action(entry.id.0, record);
        }
    }

    pub(super) fn set_default(&mut self, call: &ActionCall) {
        self.stamp += 1;
        self.default = call.clone();
        self.records.set_default(call);
    }

    pub(super) fn remove(&mut self, table: &Table, id: u32) {
        self.stamp += 1;
        if let Some(held) = self.entries.remove(id) {
            if self.tree.get().is_some() {
                self.tree.remove(&self.rule(table, &held));
            }
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
    pub(super) fn clear(&mut self, table: &Table) {
        // In an order that both replicas share: the next calls take the records that are let go, and a
        // structure that was made of one replica's rules may come to serve the other.
        let mut records: Vec<u32> = self.entries.values().map(|held| held.record).collect();
        records.sort_unstable();
        records.into_iter().for_each(|record| self.records.release(record));
        let mut fresh = Index::new(table, self.forced, self.stamp + 1);
        fresh.want_tree(table, self.tree.is_wanted());
        let Index { default, records, .. } = std::mem::replace(self, fresh);
        (self.default, self.records) = (default, records);
    }

    /// Moves the rules to another structure, if that takes them.
    pub(super) fn serve(&mut self, served: &StructureChoice) {
        if let Some(table) = served.of(&self.table, &[]) {
            self.table = table;
        }
    }

    pub(super) fn over(&self) -> KeyLayout {
        KeyLayout { used: self.used.clone(), flat: self.flat }
    }

    /// Moves to a structure made beside, if it still fits; else nothing changes.
    pub(super) fn adopt(&mut self, table: &Table, beside: &Replacement) {
        let made = beside.take();
        let Some(mut fresh) = made.filter(|_| beside.over == self.over()) else { return };
        for &id in &beside.lacks {
            let rule = self.entries.get(id).map(|held| self.rule(table, held));
            replace(&mut fresh, id, rule.as_ref());
        }
        if fresh.len() == self.table.len() {
            self.table = fresh;
        } else {
            let (holds, has) = (fresh.len(), self.table.len());
            tracing::error!(table = table.name, holds, has, "a structure made beside lacks rules");
        }
    }

    /// What a plan of the table depends on beside its rules.
    pub(super) fn planning(
        &self,
        table: &Table,
        model: &Model,
        options: &choose::Options,
    ) -> Planning {
        let key = self.used.iter().map(|k| &table.key[*k as usize]);
        let columns = key.map(|k| Column { name: k.name.clone(), bits: k.width }).collect();
        let (model, options) = (model.clone(), options.clone());
        Planning { name: table.name.clone(), columns, model, options }
    }

    /// Entries as rules, in the order in which they came.
    pub(super) fn rules_in_order(&self, table: &Table) -> Vec<Rule> {
        let mut entries: Vec<&Held> = self.entries.values().collect();
        entries.sort_by_key(|held| held.seq);
        entries.into_iter().map(|held| self.rule(table, held)).collect()
    }

    /// Entries, best first.
    pub(super) fn in_order(&self, table: &Table) -> Vec<&Arc<Entry>> {
        let mut entries: Vec<&Held> = self.entries.values().collect();
        entries.sort_by_key(|held| std::cmp::Reverse(self.place(table, held.entry.id.0)));
        entries.into_iter().map(|held| &held.entry).collect()
    }

    /// What serves and why, by the figures of now.
    pub(super) fn choice(&self, name: &str) -> String {
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
    pub(super) fn accounting(&self) -> Option<String> {
        let keys = self.traffic();
        self.table.accounting(&mut keys.iter().map(|key| &**key))
    }

    /// Keys that traffic has brought.
    pub(super) fn traffic(&self) -> Vec<Box<[u8]>> {
        self.samples.keys(self.table.layout().key_len())
    }

    /// Place of an entry among those that match: the greatest wins.
    fn place(&self, table: &Table, id: u32) -> Option<(i32, u32, std::cmp::Reverse<u64>)> {
        let Held { entry, seq, .. } = self.entries.get(id)?;
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
    pub(super) fn rule(&self, table: &Table, held: &Held) -> Rule {
        let over = (&self.used[..], &self.lens[..]);
        self.rule_over(table, held, over, &held.entry.matches, no_rule())
    }

    /// The same with these of its patterns, over keys of these fields, in the room of another rule.
    fn rule_over(
        &self,
        table: &Table,
        held: &Held,
        (used, lens): (&[u16], &[usize]),
        matches: &[KeyMatch],
        mut rule: Rule,
    ) -> Rule {
        let Held { entry, seq, record } = held;
        let key_len: usize = lens.iter().sum();
        for bytes in [&mut rule.value, &mut rule.mask] {
            match bytes.len() == key_len {
                true => bytes.fill(0),
                false => *bytes = vec![0; key_len].into(),
            }
        }
        let Rule { value, mask, .. } = &mut rule;
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
        rule.id = entry.id.0;
        rule.priority = priority;
        rule.seq = (u64::from(0xffff - prefix_len) << 48) | (seq & 0xffff_ffff_ffff);
        rule.ranges = ranges.into();
        rule.action = *record;
        rule
    }

    pub(super) fn lookup(
        &self,
        table: &Table,
        key: &mut dyn FnMut(u16) -> Bits,
    ) -> Option<&Arc<Entry>> {
        self.lookup_packed(table, &mut |at, out| pack(&key(at), out))
    }

    /// `key` writes a key field's value, right-aligned, to as many bytes as it takes.
    pub(super) fn lookup_packed(
        &self,
        table: &Table,
        key: &mut dyn FnMut(u16, &mut [u8]),
    ) -> Option<&Arc<Entry>> {
        let (id, _) = self.find(table, key)?;
        self.entries.get(id).map(|held| &held.entry)
    }

    /// The entry that wins, and its action record.
    #[inline]
    pub(super) fn find(
        &self,
        table: &Table,
        key: &mut dyn FnMut(u16, &mut [u8]),
    ) -> Option<(u32, u32)> {
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
            if let Some(held) = self.entries.get(*id).filter(|_| better)
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

/// Room for a rule, to be filled.
fn no_rule() -> Rule {
    Rule::new(0, 0, 0, &[], &[])
}

fn empty_layout() -> Layout {
    // No fields: zero bytes are within every limit.
    Layout::new(&[]).unwrap_or_else(|e| unreachable!("a layout without fields is refused: {e}"))
}
