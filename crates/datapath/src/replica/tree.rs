//! The decision tree of a table, for packets that run one at a time ([`classify::decision_tree`]).
//!
//! It stands beside the index, and follows the same updates. It is there while code of whole programs is bound, the table is not
//! larger than [`ENTRIES_MAX`], and the tree is of use for its entries; else packets are looked up in the index. When a tree
//! was of no use, another one is made of the entries once as many changes have come as there are entries.

use super::index::Index;
use classify::decision_tree::{DecisionTree, Fields};
use classify::{Hit, Rule};
use interp::KeyFields;
use ir::Table;

/// Tables of more entries have none: their indexes are better at it, and take updates at less cost.
const ENTRIES_MAX: usize = 4096;

/// A table's tree, if it is to have one.
#[derive(Default)]
pub(super) struct Tree {
    wanted: bool,
    tree: Option<DecisionTree>,
    /// Changes to come until another one is tried.
    wait: usize,
}

/// The key fields that an index uses, by their places in its packed key.
struct Used<'a> {
    used: &'a [u16],
    key: &'a mut dyn KeyFields,
}

impl Fields for Used<'_> {
    #[inline]
    fn word(&mut self, field: usize) -> u64 {
        self.key.word(self.used[field])
    }

    fn bytes(&mut self, field: usize, out: &mut [u8]) {
        self.key.bytes(self.used[field], out);
    }
}

impl Tree {
    /// What the tree says, if there is one.
    #[inline]
    pub(super) fn find(&self, used: &[u16], key: &mut dyn KeyFields) -> Option<Hit> {
        self.tree.as_ref().map(|tree| tree.find(&mut Used { used, key }))
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// The tree, for those who tell of it.
    pub(super) fn get(&self) -> Option<&DecisionTree> {
        self.tree.as_ref()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.tree.as_ref().map_or(0, DecisionTree::memory_bytes)
    }

    /// There is none from now on, until it is made.
    pub(super) fn drop(&mut self) {
        self.tree = None;
    }

    fn give_up(&mut self, entries: usize) {
        self.tree = None;
        self.wait = entries.max(1);
    }

    pub(super) fn insert(&mut self, rule: &Rule) {
        if let Some(tree) = &mut self.tree
            && (tree.len() == ENTRIES_MAX || tree.insert(rule).is_err())
        {
            let entries = tree.len();
            self.give_up(entries);
        }
    }

    pub(super) fn remove(&mut self, rule: &Rule) {
        if let Some(tree) = &mut self.tree {
            tree.remove(rule);
        }
    }

    pub(super) fn set_action(&mut self, rule: &Rule, action: u32) {
        if let Some(tree) = &mut self.tree {
            tree.set_action(rule, action);
        }
    }

    /// Something has changed; whether a tree may be made now.
    fn is_due(&mut self) -> bool {
        self.wait = self.wait.saturating_sub(1);
        self.wanted && self.tree.is_none() && self.wait == 0
    }
}

impl Index {
    /// Whether the table is to have a tree.
    pub(super) fn want_tree(&mut self, table: &Table, wanted: bool) {
        if self.tree.wanted != wanted {
            self.tree = Tree { wanted, ..Tree::default() };
            self.grow(table);
        }
    }

    /// Makes the tree, if there is to be one and it is time.
    pub(super) fn grow(&mut self, table: &Table) {
        if !self.tree.is_due() || self.entries.is_empty() {
            return;
        }
        let entries = self.entries.len();
        if entries <= ENTRIES_MAX && self.unindexed.is_empty() {
            let rules = self.rules_in_order(table);
            self.tree.tree = DecisionTree::of(self.table.layout(), &rules);
        }
        if self.tree.tree.is_none() {
            self.tree.give_up(entries);
        }
    }

    /// The entry that wins, and its action record.
    #[inline]
    pub(super) fn find_lazily(&self, table: &Table, key: &mut dyn KeyFields) -> Option<(u32, u32)> {
        match self.tree.find(&self.used, key) {
            Some(hit) => hit.is_hit().then_some((hit.entry, hit.action)),
            None => self.find(table, &mut |at, out| key.bytes(at, out)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{ActionCall, ActionId, Bits, Entry, EntryId, Expr, Key, KeyMatch, MatchKind, Pattern};
    use port::prng::Prng;
    use smallvec::SmallVec;
    use std::sync::Arc;

    const WIDTHS: [u32; 6] = [64, 12, 1, 32, 128, 48];

    fn table() -> Table {
        let key = |(at, width): (usize, &u32)| Key {
            name: format!("k{at}"),
            expr: Expr::int(0, *width),
            kind: if at == 3 { MatchKind::Range } else { MatchKind::Ternary },
            width: *width,
        };
        Table {
            name: "t".into(),
            key: WIDTHS.iter().enumerate().map(key).collect(),
            actions: None,
            default: ActionCall { action: ActionId(0), args: SmallVec::new() },
            default_const: false,
            capacity: 1 << 20,
            counters: false,
        }
    }

    fn entry(random: &mut Prng, id: u32) -> Arc<Entry> {
        let mut matches = Vec::new();
        for (at, width) in WIDTHS.into_iter().enumerate() {
            if random.below(3) > u64::from(at == 0) {
                continue;
            }
            let value = Bits::from_u128(random.below(6).into(), width);
            let pattern = match random.below(4) {
                0 if at == 3 => {
                    Pattern::Range(value, Bits::from_u128(u128::from(5 + random.below(9)), width))
                }
                1 => {
                    let mask = Bits::from_u128(2, width);
                    Pattern::Masked(value.and(&mask), mask)
                }
                _ => Pattern::Masked(value, Bits::ones(width)),
            };
            matches.push(KeyMatch { key: at as u16, pattern });
        }
        Arc::new(Entry {
            id: EntryId(id),
            priority: random.below(5) as i32,
            matches: matches.into(),
            action: ActionCall { action: ActionId(random.below(9) as u32), args: SmallVec::new() },
            cookie: 0,
            idle_timeout_ns: 0,
            hard_timeout_ns: 0,
        })
    }

    struct Values(Vec<Bits>);

    impl KeyFields for Values {
        fn bytes(&mut self, at: u16, out: &mut [u8]) {
            out.copy_from_slice(&self.0[usize::from(at)].to_be_bytes());
        }

        fn word(&mut self, at: u16) -> u64 {
            self.0[usize::from(at)].low_u64()
        }
    }

    #[test]
    fn tree_and_index_agree_whatever_is_done_to_the_table() {
        let (table, mut by_tree) = (table(), 0);
        for seed in 0..40 {
            let mut random = Prng::new(seed);
            let mut index = Index::new(&table, None, 0);
            // Wanted before there is an entry, or amid them.
            let wanted_at = random.below(60);
            let (mut held, mut seq): (Vec<Arc<Entry>>, u64) = (Vec::new(), 0);
            for step in 0..250 {
                if step == wanted_at {
                    index.want_tree(&table, true);
                }
                let at = random.below(held.len() as u64) as usize;
                match random.below(16) {
                    0..=8 if held.len() < 60 => {
                        let entry = entry(&mut random, step as u32);
                        held.push(entry.clone());
                        seq += 1;
                        index.insert(&table, &entry, seq);
                    }
                    0..=11 if !held.is_empty() => {
                        let entry = held.swap_remove(at);
                        index.remove(&table, entry.id.0);
                    }
                    12..=14 if !held.is_empty() => {
                        let action = ActionId(random.below(9) as u32);
                        let call = ActionCall { action, args: SmallVec::new() };
                        held[at] = Arc::new(Entry { action: call, ..(*held[at]).clone() });
                        index.modify(&table, &held[at]);
                    }
                    15 if random.below(20) == 0 => {
                        held.clear();
                        index.clear(&table);
                    }
                    _ => {}
                }
                for _ in 0..10 {
                    let value = |width: u32| Bits::from_u128(random.below(6).into(), width);
                    let mut key = Values(WIDTHS.into_iter().map(value).collect());
                    let packed = index.find(&table, &mut |at, out| key.bytes(at, out));
                    assert_eq!(index.find_lazily(&table, &mut key), packed, "{seed}: {step}");
                    let won = packed.map(|(id, record)| (id, index.records.call(record).action));
                    let best = held.iter().filter(|e| e.matches(&key.0));
                    let most = best.clone().map(|e| e.priority).max();
                    let holds = |e: &Arc<Entry>| won == Some((e.id.0, e.action.action));
                    let right = best.clone().any(|e| Some(e.priority) == most && holds(e));
                    assert!(right || (won.is_none() && most.is_none()), "{seed}: {step}, {won:?}");
                }
                by_tree += usize::from(index.tree.get().is_some_and(|tree| tree.len() > 8));
            }
        }
        assert!(by_tree > 3000, "a tree has served: {by_tree}");
    }

    #[test]
    fn a_large_table_has_none() {
        let (table, mut random) = (table(), Prng::new(1));
        let mut index = Index::new(&table, None, 0);
        index.want_tree(&table, true);
        for id in 0..ENTRIES_MAX as u32 + 1 {
            let mut entry = (*entry(&mut random, id)).clone();
            let own = Pattern::Exact(Bits::from_u128(id.into(), 64));
            entry.matches = [KeyMatch { key: 0, pattern: own }].into();
            index.insert(&table, &Arc::new(entry), id.into());
            assert_eq!(index.tree.get().is_some(), id < ENTRIES_MAX as u32, "{id}");
        }
        assert_eq!(index.tree.memory_bytes(), 0);
    }
}
