//! The table that its users hold: one structure at a time, changed when it no longer serves.
//!
//! An insert that the structure declines moves the table: to the best structure while the table is
//! small, else to the general one. That happens within the call. [`Table::reoptimise`] chooses anew in place, for instance after a bulk load;
//! [`Table::rebuilt`] makes another table of the same rules and leaves this one serving. All depend
//! on the operations alone, so two replicas given the same operations stay equal; and a structure
//! never declines a removal.
//!
//! A table may also hold a structure made elsewhere ([`Table::from_structure`]). When that declines
//! a rule, the general form takes over from a copy of its rules.
//!
//! Invariants: answers do not depend on which structure serves.
//! Cost: insert, that of the structure; a move to the general form costs an insert per rule, one to
//! `lpm` a trie insert per prefix.
//! Checked by: `tests/model.rs`.

use crate::bit_vectors::BitVectors;
use crate::choose::{Choice, Verdict, choose};
use crate::cuts::Cuts;
use crate::declined::{Declined, InsertError};
use crate::generated::Generator;
use crate::hash::{self, Hash, Together};
use crate::hit::Hit;
use crate::kind::Kind;
use crate::linear::Linear;
use crate::lpm::Lpm;
use crate::probes::{self, Probes};
use crate::range::Intervals;
use crate::rule::{Layout, LayoutError, Rule};
use crate::rules::{Rules, assert_burst};
use crate::scan::Scan;
use crate::shape::TableShape;
use crate::simd::PHASE;
use crate::structure::{Explain, Structure};
use crate::tuple_merge::TupleMerge;
use crate::tuple_space::TupleSpace;

/// Entries up to which a declined insert makes the whole choice again; beyond, the general form
/// takes over at once and choosing again is left to [`Table::reoptimise`].
const RECHOOSE_ENTRIES_MAX: usize = 256;

/// What part of the time of now another arrangement may take to be worth the change.
pub const WORTH: f64 = 0.8;

/// A lookup table that picks its structure.
#[derive(Debug)]
pub struct Table {
    current: Current,
    choice: Choice,
    forced: Option<Kind>,
}

#[derive(Debug)]
enum Current {
    Linear(Linear),
    Hash(Hash),
    Lpm(Box<Lpm>),
    Range(Box<Intervals>),
    Scan(Box<Scan>),
    TupleMerge(Box<TupleMerge>),
    Cuts(Box<Cuts>),
    BitVectors(Box<BitVectors>),
    TupleSpace(TupleSpace),
    Other(Box<dyn Structure>),
}

/// What an insert did besides inserting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    /// The structure took the rule in place.
    InPlace,
    /// It could not, and another serves now.
    Moved(Moved),
}

/// A change of structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// What served before.
    pub from: Kind,
    /// What serves now.
    pub to: Kind,
    /// What the old structure declined; none if the choice was merely made again.
    pub reason: Option<Declined>,
}

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.from, self.to)?;
        self.reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
    }
}

/// Calls the structure that serves, without a virtual call.
macro_rules! current {
    ($table:expr, $s:ident => $body:expr) => {
        match $table {
            Current::Linear($s) => $body,
            Current::Hash($s) => $body,
            Current::Lpm($s) => $body,
            Current::Range($s) => $body,
            Current::Scan($s) => $body,
            Current::TupleMerge($s) => $body,
            Current::Cuts($s) => $body,
            Current::BitVectors($s) => $body,
            Current::TupleSpace($s) => $body,
            Current::Other($s) => $body,
        }
    };
}

impl Table {
    /// A table whose key is `key_len` bytes of which nothing else is known.
    pub fn new(key_len: usize) -> Result<Table, LayoutError> {
        Ok(Self::with_layout(Layout::opaque(key_len)?))
    }

    /// A table whose fields are known.
    pub fn with_layout(layout: Layout) -> Table {
        Self::build(layout, None)
    }

    /// A table that one kind of structure must serve, if one is given: it declines rules that this
    /// kind cannot hold rather than move. For options, tests and comparisons.
    pub fn with_kind(layout: Layout, forced: Option<Kind>) -> Table {
        Self::build(layout, forced)
    }

    /// A table served by a structure made elsewhere, such as a [`Kind::Decomposed`] one.
    pub fn from_structure(structure: Box<dyn Structure>) -> Table {
        let shape = TableShape::of_iter(structure.layout().clone(), structure.iter());
        let mut choice = choose(&shape, None);
        let kind = structure.kind();
        for (_, verdict) in &mut choice.verdicts {
            if let Verdict::Chosen(_) | Verdict::Passed(_) = verdict {
                *verdict = Verdict::Passed(format!("{kind} was planned"));
            }
        }
        choice.verdicts.retain(|(considered, _)| *considered != kind);
        choice.verdicts.insert(0, (kind, Verdict::Chosen("planned for these entries".into())));
        choice.kind = kind;
        Table { current: Current::Other(structure), choice, forced: None }
    }

    fn build(layout: Layout, forced: Option<Kind>) -> Table {
        let rules = Rules::new(layout);
        let choice = choose(&TableShape::of_rules(&rules), forced);
        Table { current: Current::of(&choice, rules), choice, forced }
    }

    /// Adds a rule. Refuses one that is malformed, whose id is taken, or that a structure which is
    /// forced on the table declines; else it finds a place.
    pub fn insert(&mut self, rule: &Rule) -> Result<Inserted, InsertError> {
        if let Some(kind) = self.forced
            && kind != self.kind()
        {
            return self.insert_forced(kind, rule);
        }
        let reason = match current!(&mut self.current, s => s.insert(rule)) {
            Ok(()) => return Ok(Inserted::InPlace),
            Err(InsertError::Declined(reason)) => match self.forced {
                Some(kind) => return self.insert_forced(kind, rule),
                None => reason,
            },
            Err(refused) => return Err(refused),
        };
        let from = self.kind();
        let mut rules = self.take_rules();
        let inserted = rules.admit(rule).map(|normal| {
            rules.insert(&normal);
        });
        let small = rules.len() <= RECHOOSE_ENTRIES_MAX;
        let pinned = if small { None } else { Some(Kind::TupleMerge) };
        let mut choice = choose(&TableShape::of_rules(&rules), pinned);
        if !small {
            for (_, verdict) in &mut choice.verdicts {
                if let Verdict::Passed(why) = verdict {
                    *why = "the general form serves until the choice is made again".into();
                }
            }
        }
        self.current = Current::of(&choice, rules);
        self.choice = choice;
        inserted?;
        Ok(Inserted::Moved(Moved { from, to: self.kind(), reason: Some(reason) }))
    }

    /// Adds a rule if a structure of the forced kind can hold it beside the others, built anew.
    fn insert_forced(&mut self, kind: Kind, rule: &Rule) -> Result<Inserted, InsertError> {
        let mut rules = self.take_rules();
        let normal = rules.admit(rule);
        let refused = match normal {
            Ok(normal) => {
                rules.insert(&normal);
                let choice = choose(&TableShape::of_rules(&rules), Some(kind));
                let layout = rules.layout().clone();
                let declined = match kind {
                    // Whether it can be shows when it is made.
                    Kind::BitVectors => BitVectors::of(layout, rules.iter()).err(),
                    _ => (choice.kind != kind).then(|| choice.declined(kind)),
                };
                let Some(declined) = declined else {
                    self.current = Current::of(&choice, rules);
                    self.choice = choice;
                    return Ok(Inserted::InPlace);
                };
                rules.remove(normal.id);
                InsertError::Declined(declined)
            }
            Err(refused) => refused,
        };
        let choice = choose(&TableShape::of_rules(&rules), Some(kind));
        self.current = Current::of(&choice, rules);
        Err(refused)
    }

    /// Takes a rule out; it comes back normalised.
    pub fn remove(&mut self, id: u32) -> Option<Rule> {
        current!(&mut self.current, s => s.remove(id))
    }

    /// Gives a rule another action; false if there is none of that id.
    pub fn set_action(&mut self, id: u32, action: u32) -> bool {
        current!(&mut self.current, s => s.set_action(id, action))
    }

    /// Asks for the memory of a rule that will be changed soon; see [`Structure::touch`].
    #[inline]
    pub fn touch(&self, id: u32) {
        current!(&self.current, s => s.touch(id))
    }

    /// Takes every rule out and chooses as for an empty table.
    pub fn clear(&mut self) {
        *self = Self::build(self.layout().clone(), self.forced);
    }

    /// The best rule that matches. Panics if the key is not as long as the layout says.
    #[inline]
    pub fn lookup(&self, key: &[u8]) -> Hit {
        current!(&self.current, s => s.lookup(key))
    }

    /// Looks up keys that lie `stride` bytes apart; see [`Structure::lookup_burst`].
    #[inline]
    pub fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        current!(&self.current, s => s.lookup_burst(keys, stride, hits));
    }

    /// Chooses again by the entries of now, and moves if that chooses otherwise.
    pub fn reoptimise(&mut self) -> Option<Moved> {
        let from = self.kind();
        self.choice = choose(&self.shape(), self.forced);
        if self.choice.kind == from {
            return None;
        }
        let rules = self.take_rules();
        self.current = Current::of(&self.choice, rules);
        Some(Moved { from, to: self.kind(), reason: None })
    }

    /// Another table of the same rules, served by this kind of structure, or why there is none.
    ///
    /// Takes the time of inserting every rule, but leaves this table alone: meant for a control
    /// core while this one serves.
    pub fn rebuilt(&self, kind: Kind) -> Result<Table, Declined> {
        let mut rules = Rules::new(self.layout().clone());
        for rule in self.iter() {
            rules.insert(&rule);
        }
        let mut choice = choose(&TableShape::of_rules(&rules), Some(kind));
        if choice.kind != kind {
            return Err(choice.declined(kind));
        }
        // Not pinned, if it is what would be chosen.
        let free = choose(&TableShape::of_rules(&rules), None);
        if free.kind == kind {
            choice = free;
        }
        let current = match kind {
            // There is time to choose tuples for all rules at once.
            Kind::TupleMerge => {
                let layout = self.layout().clone();
                Current::TupleMerge(Box::new(TupleMerge::arranged(layout, rules.iter())))
            }
            Kind::Cuts => Current::Cuts(Box::new(Cuts::of(self.layout().clone(), rules.iter())?)),
            Kind::BitVectors => {
                let layout = self.layout().clone();
                Current::BitVectors(Box::new(BitVectors::of(layout, rules.iter())?))
            }
            _ => Current::of(&choice, rules),
        };
        Ok(Table { current, choice, forced: self.forced })
    }

    /// Another table of the same rules, which goes its own way from here on. Takes as long as the memory takes to
    /// be copied; where a structure made elsewhere serves, its rules are read out one by one, and stand in a
    /// plain list.
    #[must_use]
    pub fn snapshot(&self) -> Table {
        let current = match &self.current {
            Current::Linear(s) => Current::Linear(s.clone()),
            Current::Hash(s) => Current::Hash(s.clone()),
            Current::Lpm(s) => Current::Lpm(s.clone()),
            Current::Range(s) => Current::Range(s.clone()),
            Current::Scan(s) => Current::Scan(s.clone()),
            Current::TupleMerge(s) => Current::TupleMerge(s.clone()),
            Current::Cuts(s) => Current::Cuts(s.clone()),
            Current::BitVectors(s) => Current::BitVectors(s.clone()),
            Current::TupleSpace(s) => Current::TupleSpace(s.clone()),
            Current::Other(s) => {
                let mut linear = Linear::new(s.layout().clone());
                for rule in s.iter() {
                    // What one structure has admitted is no news to another.
                    let _ = linear.insert(&rule);
                }
                Current::Linear(linear)
            }
        };
        Table { current, choice: self.choice.clone(), forced: self.forced }
    }

    /// Another table of the same rules in the general form, as there is time to choose it for all rules at
    /// once: [`Kind::TupleMerge`], [`Kind::Cuts`] or [`Kind::BitVectors`], whichever takes least to look up keys
    /// that the rules suggest.
    ///
    /// Takes a second or so per 100,000 rules, but leaves this table alone.
    pub fn arranged(&self) -> Table {
        self.arranged_for(&mut std::iter::empty())
    }

    /// As [`Table::arranged`], by what it takes to look these keys up, if there are some.
    pub fn arranged_for(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Table {
        let mut rules = Rules::new(self.layout().clone());
        for rule in self.iter() {
            rules.insert(&rule);
        }
        let current = Current::arranged(&rules, keys);
        let kind = current!(&current, s => s.kind());
        let choice = choose(&TableShape::of_rules(&rules), Some(kind));
        Table { current, choice, forced: self.forced }
    }

    /// Another table of the same rules that looks these keys up in less time, if there is one that does so in
    /// at most [`WORTH`] of it; none where a special form serves. Without keys, such that the rules suggest
    /// are taken.
    ///
    /// The general form takes rules as they come, and its tuples, or cuts, are chosen by the first of them. So
    /// this is asked now and then on a control core, with keys that traffic has brought, and decides by
    /// what looking them up takes ([`Probes`]), not by a clock: replicas agree.
    pub fn improved(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Option<Table> {
        if !self.kind().is_general() || self.forced.is_some() {
            return None;
        }
        let mut keys: Vec<Box<[u8]>> = keys.map(Box::from).collect();
        if keys.is_empty() {
            keys = probes::sample(&self.iter().collect::<Vec<Rule>>());
        }
        let keys = || keys.iter().map(|key| &**key);
        let other = self.arranged_for(&mut keys());
        (other.ns(&mut keys())? <= WORTH * self.ns(&mut keys())?).then_some(other)
    }

    /// Has code made for the rules of now, where the structure that serves can be looked up by such; false if there is none.
    /// For a control core; takes some ten microseconds.
    pub fn generate(&mut self, generator: Generator<'_>) -> bool {
        match &mut self.current {
            Current::BitVectors(s) => s.generate(generator),
            _ => false,
        }
    }

    /// Nanoseconds that looking up one of these keys takes, about: counted ([`Probes`]), not timed. None where no
    /// general form serves. Panics if a key is not as long as the layout says.
    pub fn ns(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Option<f64> {
        let probes = self.probes(keys)?;
        Some(probes.ns(self.kind(), self.memory_bytes()))
    }

    /// How the general form holds the entries, in a line: masks, tables, collisions, and what a lookup takes: of
    /// keys that the entries suggest, and of these keys, which traffic has brought. None where another structure
    /// serves.
    pub fn accounting(&self, traffic: &mut dyn Iterator<Item = &[u8]>) -> Option<String> {
        let (tables, collisions, each, unit) = match &self.current {
            Current::TupleMerge(s) => {
                let longest = s.chain_longest();
                (s.tuples(), format!("chains of at most {longest}"), "tuples", "rules")
            }
            Current::Cuts(s) => {
                let copies = s.copies() as f64 / s.len().max(1) as f64;
                (s.nodes(), format!("{copies:.2} copies of each"), "nodes", "blocks of rules")
            }
            Current::BitVectors(s) => {
                let code = match s.code_bytes() {
                    0 => "no code of their own".to_string(),
                    bytes => format!("{bytes} bytes of code made for them"),
                };
                let beside = format!("{} entries beside, {code}", s.beside());
                (s.parts(), beside, "parts", "lines of bits")
            }
            Current::Other(s) if s.kind().is_general() => {
                (s.explain().probes_max, "in place of a tree".to_string(), "tuples", "rules")
            }
            _ => return None,
        };
        let rules: Vec<Rule> = self.iter().collect();
        let keys = probes::sample(&rules);
        let expected = self.probes(&mut keys.iter().map(|key| &**key))?;
        let measured = self.probes(traffic)?;
        let Explain { entries, masks, ranged, .. } = self.explain();
        let took = |probes: Probes| {
            let (asked, compared) = (probes.tables_per_lookup(), probes.compared_per_lookup());
            format!("asks {asked:.1} {each} and compares {compared:.1} {unit}")
        };
        let measured = match measured.lookups {
            0 => "no traffic has been measured".to_string(),
            lookups => format!("measured on {lookups} keys of traffic, it {}", took(measured)),
        };
        Some(format!(
            "wildcards: {entries} entries in {masks} masks, {ranged} with ranges; {tables} {each}, \
             {collisions}; expected, a lookup {}; {measured}",
            took(expected),
        ))
    }

    /// What looking these keys up takes, counted; none of a structure that does not say. Panics if a key is
    /// not as long as the layout says.
    pub fn probes(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Option<Probes> {
        current!(&self.current, s => s.probes(keys))
    }

    /// The rules, summed up as they are now.
    pub fn shape(&self) -> TableShape {
        match &self.current {
            Current::Linear(s) => TableShape::of_iter(s.layout().clone(), s.iter()),
            Current::Other(s) => TableShape::of_iter(s.layout().clone(), s.iter()),
            Current::Hash(s) => TableShape::of_rules(s.rules()),
            Current::Lpm(s) => s.shape(),
            Current::Range(s) => TableShape::of_rules(s.rules()),
            Current::Scan(s) => TableShape::of_rules(s.rules()),
            Current::TupleMerge(s) => s.shape(),
            Current::Cuts(s) => s.shape(),
            Current::BitVectors(s) => s.shape(),
            Current::TupleSpace(s) => TableShape::of_rules(s.rules()),
        }
    }

    /// The last choice made, with the figures of then.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Which structure serves.
    pub fn kind(&self) -> Kind {
        current!(&self.current, s => s.kind())
    }

    /// How keys are laid out.
    pub fn layout(&self) -> &Layout {
        current!(&self.current, s => s.layout())
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        current!(&self.current, s => s.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held on the heap.
    pub fn memory_bytes(&self) -> usize {
        current!(&self.current, s => s.memory_bytes())
    }

    /// Every rule, normalised; in an order that depends on the past operations alone.
    pub fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        current!(&self.current, s => s.iter())
    }

    /// Figures of the structure that serves.
    pub fn explain(&self) -> Explain {
        current!(&self.current, s => s.explain())
    }

    fn take_rules(&mut self) -> Rules {
        let layout = self.layout().clone();
        let empty = Current::Linear(Linear::new(layout.clone()));
        let copied = |rules: &mut dyn Iterator<Item = Rule>| {
            let mut store = Rules::new(layout);
            for rule in rules {
                store.insert(&rule);
            }
            store
        };
        match std::mem::replace(&mut self.current, empty) {
            Current::Hash(s) => s.into_rules(),
            Current::Lpm(s) => s.into_rules(),
            Current::Range(s) => s.into_rules(),
            Current::Scan(s) => s.into_rules(),
            Current::TupleSpace(s) => s.into_rules(),
            Current::TupleMerge(s) => copied(&mut s.iter()),
            Current::Cuts(s) => copied(&mut s.iter()),
            Current::BitVectors(s) => copied(&mut s.iter()),
            Current::Linear(s) => copied(&mut s.iter()),
            Current::Other(s) => copied(&mut s.iter()),
        }
    }
}

/// Looks up `hits.len()` keys, the i-th of which begins at `keys[i * stride]` and is asked of table `tables[of[i]]`. All
/// tables must have the same layout.
///
/// For the rest as [`Structure::lookup_burst`]. Where tables are hashes under masks of as many
/// words, all are gone through together, so that their cache misses overlap; else neighbouring keys
/// of one table are.
///
/// # Panics
///
/// If `of` has fewer items than `hits`, an item names no table, or `keys` are too short, as a burst's must not be.
pub fn lookup_mixed(tables: &[&Table], of: &[u8], keys: &[u8], stride: usize, hits: &mut [Hit]) {
    if hits.is_empty() {
        return;
    }
    let table_of = |i: usize| tables[usize::from(of[i])];
    assert_burst(table_of(0).layout(), keys, stride, hits.len());
    let together = Together::of(tables.iter().map(|table| match &table.current {
        Current::Hash(hash) => Some(hash),
        _ => None,
    }));
    for (part, hits) in hits.chunks_mut(PHASE).enumerate() {
        let (first, count) = (part * PHASE, hits.len());
        let keys = &keys[first * stride..][..count * stride];
        let mut left = hash::mixed(&together, &of[first..][..count], keys, stride, hits);
        while left != 0 {
            let from = left.trailing_zeros() as usize;
            let table = table_of(first + from);
            let same = |&i: &usize| left >> i & 1 == 1 && std::ptr::eq(table_of(first + i), table);
            let to = (from + 1..count).find(|i| !same(i)).unwrap_or(count);
            table.lookup_burst(&keys[from * stride..], stride, &mut hits[from..to]);
            (from..to).for_each(|i| left &= !(1 << i));
        }
    }
}

impl Current {
    /// The general form where there is time to choose for all rules at once: tuples, cuts or bit vectors, whichever
    /// take least to look some keys up.
    fn arranged(rules: &Rules, keys: &mut dyn Iterator<Item = &[u8]>) -> Current {
        let layout = rules.layout();
        let merged = TupleMerge::arranged(layout.clone(), rules.iter());
        let mut made = vec![Current::TupleMerge(Box::new(merged))];
        if let Ok(cuts) = Cuts::of(layout.clone(), rules.iter()) {
            made.push(Current::Cuts(Box::new(cuts)));
        }
        if let Ok(bits) = BitVectors::of(layout.clone(), rules.iter()) {
            made.push(Current::BitVectors(Box::new(bits)));
        }
        let mut keys: Vec<Box<[u8]>> = keys.map(Box::from).collect();
        if keys.is_empty() {
            keys = probes::sample(&rules.iter().collect::<Vec<Rule>>());
        }
        let ns = |made: &Current| {
            let probes = current!(made, s => s.probes(&mut keys.iter().map(|key| &**key)));
            let (kind, bytes) = current!(made, s => (s.kind(), s.memory_bytes()));
            probes.map_or(f64::INFINITY, |probes| probes.ns(kind, bytes))
        };
        // Of equals the first.
        let at = (1..made.len())
            .fold(0, |best, at| if ns(&made[at]) < ns(&made[best]) { at } else { best });
        made.swap_remove(at)
    }

    fn of(choice: &Choice, rules: Rules) -> Current {
        match (choice.kind, choice.field) {
            (Kind::Hash, _) => Current::Hash(Hash::from_rules(rules)),
            (Kind::Lpm, Some(field)) => Current::Lpm(Box::new(Lpm::from_rules(rules, field))),
            (Kind::Range, Some(field)) => {
                Current::Range(Box::new(Intervals::from_rules(rules, field)))
            }
            (Kind::Scan, _) => Current::Scan(Box::new(Scan::from_rules(rules))),
            (Kind::Linear, _) => {
                let mut linear = Linear::new(rules.layout().clone());
                for rule in rules.iter() {
                    // The store has admitted each of them already.
                    let _ = linear.insert(&rule);
                }
                Current::Linear(linear)
            }
            (Kind::TupleSpace, _) => Current::TupleSpace(TupleSpace::from_rules(rules)),
            (Kind::Cuts, _) if let Ok(cuts) = Cuts::of(rules.layout().clone(), rules.iter()) => {
                Current::Cuts(Box::new(cuts))
            }
            (Kind::BitVectors, _)
                if let Ok(bits) = BitVectors::of(rules.layout().clone(), rules.iter()) =>
            {
                Current::BitVectors(Box::new(bits))
            }
            _ => {
                let layout = rules.layout().clone();
                Current::TupleMerge(Box::new(TupleMerge::of(layout, rules.iter())))
            }
        }
    }
}
