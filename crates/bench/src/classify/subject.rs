//! The structures that `bench classify` knows, by name.
//!
//! Each is made of rules that come one by one, but for those that choose their form for all rules at once:
//! `auto`, which is what a switch comes to use, `tuple_merge_offline`, `cuts` and `bit_vectors`; of the last, the plain
//! ones are looked up without code of their own.

use super::partition_sort::PartitionSort;
use classify::bit_vectors::BitVectors;
use classify::cuts::Cuts;
use classify::linear::Linear;
use classify::probes::Probes;
use classify::tuple_merge::TupleMerge;
use classify::tuple_space::TupleSpace;
use classify::{Hit, Kind, Rule, Structure, Table, classbench};

/// What is measured.
pub(super) trait Subject: Send + Sync {
    /// Adds a rule; false if it has no place for it.
    fn insert(&mut self, rule: &Rule) -> bool;
    /// Takes a rule out; false if there is none of this id.
    fn remove(&mut self, id: u32) -> bool;
    /// The best rule that matches.
    fn lookup(&self, key: &[u8]) -> Hit;
    /// The same for keys that lie `stride` bytes apart.
    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]);
    /// Bytes on the heap.
    fn memory_bytes(&self) -> usize;
    /// Tables, trees, or compares that a lookup asks, at most.
    fn tables(&self) -> usize;
    /// Which structure it is, in a line.
    fn text(&self) -> String;
    /// What looking these keys up takes, if it says.
    fn probes(&self, _keys: &mut dyn Iterator<Item = &[u8]>) -> Option<Probes> {
        None
    }
}

/// Makes a structure of rules, or says why it cannot.
pub(super) type New = fn(&[&Rule]) -> Result<Box<dyn Subject>, String>;

/// Names, and what makes them.
const NAMES: [(&str, New); 14] = [
    ("auto", auto),
    ("tuple_merge", |rules| filled(TupleMerge::new(classbench::layout()), rules)),
    ("tuple_merge_offline", |rules| {
        let rules = rules.iter().map(|&rule| rule.clone());
        Ok(Box::new(Owned(TupleMerge::arranged(classbench::layout(), rules))))
    }),
    ("cuts", |rules| {
        let rules = rules.iter().map(|&rule| rule.clone());
        let cuts = Cuts::of(classbench::layout(), rules).map_err(|e| e.to_string())?;
        Ok(Box::new(Owned(cuts)))
    }),
    ("bit_vectors", |rules| {
        let rules = rules.iter().map(|&rule| rule.clone());
        let mut bits = BitVectors::of(classbench::layout(), rules).map_err(|e| e.to_string())?;
        bits.generate(&jit::lookup::generate);
        Ok(Box::new(Owned(bits)))
    }),
    ("bit_vectors_plain", |rules| {
        let rules = rules.iter().map(|&rule| rule.clone());
        let bits = BitVectors::of(classbench::layout(), rules).map_err(|e| e.to_string())?;
        Ok(Box::new(Owned(bits)))
    }),
    ("tuple_space", |rules| filled(TupleSpace::new(classbench::layout()), rules)),
    ("partition_sort", |rules| Ok(Box::new(PartitionSort::of(rules)))),
    ("linear", |rules| filled(Linear::new(classbench::layout()), rules)),
    ("hash", |rules| forced(Kind::Hash, rules)),
    ("lpm", |rules| forced(Kind::Lpm, rules)),
    ("range", |rules| forced(Kind::Range, rules)),
    ("scan", |rules| forced(Kind::Scan, rules)),
    ("table", |rules| {
        let mut table = Table::with_layout(classbench::layout());
        rules
            .iter()
            .try_for_each(|rule| table.insert(rule).map(drop))
            .map_err(|e| e.to_string())?;
        Ok(Box::new(table))
    }),
];

/// What makes a structure of this name.
pub(super) fn named(name: &str) -> Result<New, String> {
    let found = NAMES.iter().find(|(known, _)| *known == name);
    found.map(|(_, new)| *new).ok_or_else(|| {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!("unknown algorithm {name:?}; there are {}", names.join(", "))
    })
}

/// A table that has been filled, and has had time to choose.
fn auto(rules: &[&Rule]) -> Result<Box<dyn Subject>, String> {
    let mut table = Table::with_layout(classbench::layout());
    for rule in rules {
        table.insert(rule).map_err(|e| e.to_string())?;
    }
    table.reoptimise();
    let mut table = match table.kind() {
        Kind::TupleMerge => table.arranged(),
        _ => table,
    };
    table.generate(&jit::lookup::generate);
    Ok(Box::new(table))
}

/// A table of this kind, once it holds all rules.
fn forced(kind: Kind, rules: &[&Rule]) -> Result<Box<dyn Subject>, String> {
    let mut table = Table::with_layout(classbench::layout());
    for rule in rules {
        table.insert(rule).map_err(|e| e.to_string())?;
    }
    table.rebuilt(kind).map(|table| Box::new(table) as Box<dyn Subject>).map_err(|e| e.to_string())
}

fn filled<S: Structure + 'static>(mut of: S, rules: &[&Rule]) -> Result<Box<dyn Subject>, String> {
    for rule in rules {
        of.insert(rule).map_err(|e| e.to_string())?;
    }
    Ok(Box::new(Owned(of)))
}

/// A structure by itself, without a table around it.
struct Owned<S>(S);

impl<S: Structure> Subject for Owned<S> {
    fn insert(&mut self, rule: &Rule) -> bool {
        self.0.insert(rule).is_ok()
    }

    fn remove(&mut self, id: u32) -> bool {
        self.0.remove(id).is_some()
    }

    fn lookup(&self, key: &[u8]) -> Hit {
        self.0.lookup(key)
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        self.0.lookup_burst(keys, stride, hits);
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    fn tables(&self) -> usize {
        self.0.explain().probes_max
    }

    fn text(&self) -> String {
        self.0.explain().to_string()
    }

    fn probes(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Option<Probes> {
        self.0.probes(keys)
    }
}

impl Subject for Table {
    fn insert(&mut self, rule: &Rule) -> bool {
        self.insert(rule).is_ok()
    }

    fn remove(&mut self, id: u32) -> bool {
        self.remove(id).is_some()
    }

    fn lookup(&self, key: &[u8]) -> Hit {
        self.lookup(key)
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        self.lookup_burst(keys, stride, hits);
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes()
    }

    fn tables(&self) -> usize {
        self.explain().probes_max
    }

    fn text(&self) -> String {
        self.explain().to_string()
    }

    fn probes(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Option<Probes> {
        self.probes(keys)
    }
}
