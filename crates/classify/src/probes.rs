//! What lookups take, counted: how many tables they ask and how many rules they compare.
//!
//! Counted on keys that the rules themselves suggest ([`sample`]), or on keys that traffic brings. What it
//! costs, roughly, is [`Probes::ns`], by which two arrangements of the same rules are compared; the prices were
//! fitted to `benches/classbench.rs`, 24 sets, and to ten sets of 256K rules; ratios are what matters.
//!
//! Checked by: the unit tests of [`Table::improved`](crate::Table::improved).

use crate::kind::Kind;
use crate::rule::Rule;

/// Keys of a sample, about.
const SAMPLES: usize = 1024;

/// What some lookups took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Probes {
    /// How many lookups.
    pub lookups: usize,
    /// Tables asked: tuples, nodes, or parts of the key.
    pub tables: usize,
    /// Compares: of rules, of blocks of eight rules, or of lines of bits.
    pub compared: usize,
    /// Of these, the ones that another had to come before.
    pub behind: usize,
}

impl Probes {
    /// Tables asked by a lookup, on average.
    pub fn tables_per_lookup(&self) -> f64 {
        self.tables as f64 / self.lookups.max(1) as f64
    }

    /// Compares of a lookup, on average.
    pub fn compared_per_lookup(&self) -> f64 {
        self.compared as f64 / self.lookups.max(1) as f64
    }

    /// Nanoseconds of a lookup in a burst, about, in a structure of this kind that has so many bytes.
    pub fn ns(&self, kind: Kind, bytes: usize) -> f64 {
        let prices = match (kind, bytes) {
            (Kind::BitVectors, _) => [5.0, 1.6, 0.75, 0.0],
            (Kind::Cuts, ..=NEAR) => [6.0, 11.0, 9.0, 0.0],
            (Kind::Cuts, ..=FAR) => [15.0, 18.0, 9.0, 0.0],
            (Kind::Cuts, _) => [60.0, 30.0, 10.0, 0.0],
            (_, ..=NEAR) => [12.0, 9.0, 0.0, 6.0],
            (_, ..=FAR) => [10.0, 15.0, 0.0, 5.0],
            _ => [15.0, 30.0, 0.0, 30.0],
        };
        let [lookup, table, compared, behind] = prices;
        let per = |n: usize| n as f64 / self.lookups.max(1) as f64;
        let tables = lookup + table * per(self.tables);
        tables + compared * per(self.compared) + behind * per(self.behind)
    }
}

/// Bytes that lie in the processor's own caches, about.
const NEAR: usize = 1 << 21;
/// Bytes beyond which nearly every look waits for memory that cores share.
const FAR: usize = 1 << 24;

/// Bits without meaning.
#[derive(Debug)]
pub(crate) struct Noise(u64);

impl Default for Noise {
    fn default() -> Noise {
        Noise(1)
    }
}

impl Noise {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.0 ^ self.0 >> 31
    }
}

/// Keys that meet some of these rules, as far as masks go; the same for the same rules.
pub fn sample(rules: &[Rule]) -> Vec<Box<[u8]>> {
    let mut noise = Noise::default();
    let every = rules.len() / SAMPLES + 1;
    let key = |rule: &Rule| -> Box<[u8]> {
        let bits = rule.value.iter().zip(&rule.mask);
        let mut key: Box<[u8]> = bits.map(|(v, m)| v | noise.word() as u8 & !m).collect();
        for range in &rule.ranges {
            let at = range.offset as usize;
            let value =
                range.lo + u128::from(noise.word()) % (range.hi - range.lo).saturating_add(1);
            let bytes = &value.to_be_bytes()[16 - usize::from(range.len)..];
            if (key[at..].iter().zip(bytes).zip(&rule.mask[at..]))
                .all(|((old, new), mask)| (old ^ new) & mask == 0)
            {
                key[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
        key
    };
    rules.iter().step_by(every).map(key).collect()
}
