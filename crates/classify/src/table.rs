//! The table that its users hold: one structure at a time, changed when it no longer serves.
//!
//! An insert that the structure declines moves the table: to the best structure while the table is
//! small, else to the general one, which takes over the store as it stands. [`Table::reoptimise`]
//! chooses anew, for instance after a bulk load. Both happen within the call and depend on the
//! operations alone, so two replicas given the same operations stay equal; and a structure never
//! declines a removal.
//!
//! Invariants: answers do not depend on which structure serves.
//! Cost: insert, that of the structure; a move to the general form costs a sort of the masks, one
//! to `lpm` a trie insert per prefix.
//! Checked by: `tests/model.rs`.

use crate::choose::{Choice, Declined, Kind, Verdict, choose};
use crate::hash::Hash;
use crate::linear::Linear;
use crate::lpm::Lpm;
use crate::rule::{Layout, LayoutError, Rule};
use crate::rules::Rules;
use crate::shape::TableShape;
use crate::tuple_space::TupleSpace;
use crate::{Explain, InsertError, Structure};

/// Entries up to which a declined insert makes the whole choice again; beyond, the general form
/// takes over at once and choosing again is left to [`Table::reoptimise`].
const RECHOOSE_ENTRIES_MAX: usize = 256;

/// A lookup table that picks its structure.
#[derive(Debug)]
pub struct Table {
    current: Current,
    choice: Choice,
    pinned: Option<Kind>,
}

#[derive(Debug)]
enum Current {
    Linear(Linear),
    Hash(Hash),
    Lpm(Box<Lpm>),
    TupleSpace(TupleSpace),
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
            Current::TupleSpace($s) => $body,
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

    /// A table that uses this structure whenever it fits, and the general one else; for tests and
    /// comparisons. An empty table cannot be `lpm`; pin, load, then [`Table::reoptimise`].
    pub fn pinned(layout: Layout, kind: Kind) -> Table {
        Self::build(layout, Some(kind))
    }

    fn build(layout: Layout, pinned: Option<Kind>) -> Table {
        let rules = Rules::new(layout);
        let choice = choose(&TableShape::of_rules(&rules), pinned);
        Table { current: Current::of(&choice, rules), choice, pinned }
    }

    /// Adds a rule; refuses one that is malformed or whose id is taken, and nothing else.
    pub fn insert(&mut self, rule: &Rule) -> Result<Inserted, InsertError> {
        let reason = match current!(&mut self.current, s => s.insert(rule)) {
            Ok(()) => return Ok(Inserted::InPlace),
            Err(InsertError::Declined(reason)) => reason,
            Err(refused) => return Err(refused),
        };
        let from = self.kind();
        let rules = self.take_rules();
        let small = rules.len() < RECHOOSE_ENTRIES_MAX;
        let mut general = TupleSpace::from_rules(rules);
        let inserted = general.insert(rule);
        let pinned = if small { self.pinned } else { Some(Kind::TupleSpace) };
        let mut choice = choose(&TableShape::of_rules(general.rules()), pinned);
        if !small {
            for (_, verdict) in &mut choice.verdicts {
                if let Verdict::Passed(why) = verdict {
                    *why = "the general form serves until the choice is made again".into();
                }
            }
        }
        self.current = match choice.kind {
            Kind::TupleSpace => Current::TupleSpace(general),
            _ => Current::of(&choice, general.into_rules()),
        };
        self.choice = choice;
        inserted?;
        Ok(Inserted::Moved(Moved { from, to: self.kind(), reason: Some(reason) }))
    }

    /// Takes a rule out; it comes back normalised.
    pub fn remove(&mut self, id: u32) -> Option<Rule> {
        current!(&mut self.current, s => s.remove(id))
    }

    /// Takes every rule out and chooses as for an empty table.
    pub fn clear(&mut self) {
        *self = Self::build(self.layout().clone(), self.pinned);
    }

    /// Id of the best rule that matches. Panics if the key is not as long as the layout says.
    #[inline]
    pub fn lookup(&self, key: &[u8]) -> Option<u32> {
        current!(&self.current, s => s.lookup(key))
    }

    /// Looks up the keys that lie side by side in `keys`; see [`Structure::lookup_batch`].
    pub fn lookup_batch(&self, keys: &[u8], out: &mut [Option<u32>]) {
        current!(&self.current, s => s.lookup_batch(keys, out));
    }

    /// Chooses again by the entries of now, and moves if that chooses otherwise.
    pub fn reoptimise(&mut self) -> Option<Moved> {
        let from = self.kind();
        self.choice = choose(&self.shape(), self.pinned);
        if self.choice.kind == from {
            return None;
        }
        let rules = self.take_rules();
        self.current = Current::of(&self.choice, rules);
        Some(Moved { from, to: self.kind(), reason: None })
    }

    /// The rules, summed up as they are now.
    pub fn shape(&self) -> TableShape {
        match &self.current {
            Current::Linear(s) => {
                let rules: Vec<Rule> = s.iter().collect();
                TableShape::of(s.layout().clone(), &rules)
            }
            Current::Hash(s) => TableShape::of_rules(s.rules()),
            Current::Lpm(s) => TableShape::of_rules(s.rules()),
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
        match std::mem::replace(&mut self.current, empty) {
            Current::Hash(s) => s.into_rules(),
            Current::Lpm(s) => s.into_rules(),
            Current::TupleSpace(s) => s.into_rules(),
            Current::Linear(s) => {
                let mut rules = Rules::new(layout);
                for rule in s.iter() {
                    rules.insert(&rule);
                }
                rules
            }
        }
    }
}

impl Current {
    fn of(choice: &Choice, rules: Rules) -> Current {
        match (choice.kind, choice.field) {
            (Kind::Hash, _) => Current::Hash(Hash::from_rules(rules)),
            (Kind::Lpm, Some(field)) => Current::Lpm(Box::new(Lpm::from_rules(rules, field))),
            (Kind::Linear, _) => {
                let mut linear = Linear::new(rules.layout().clone());
                for rule in rules.iter() {
                    // The store has admitted each of them already.
                    let _ = linear.insert(&rule);
                }
                Current::Linear(linear)
            }
            (Kind::Lpm | Kind::TupleSpace, _) => Current::TupleSpace(TupleSpace::from_rules(rules)),
        }
    }
}
