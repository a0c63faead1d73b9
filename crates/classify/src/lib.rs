//! Lookup structures: from a packed key to the best entry that matches it.
//!
//! In: keys, fixed-length byte strings per table, laid out by a [`Layout`] (fields side by side,
//! big-endian, each on a byte boundary), and [`Rule`]s over such keys (value, mask, ranges,
//! priority). Out: a [`Hit`], the id and the action that the caller gave the winning rule.
//!
//! Every structure answers the same question, so any of them may serve a table:
//!
//! | module | takes | lookup costs |
//! |---|---|---|
//! | [`linear`] | everything; the oracle | one compare per entry |
//! | [`hash`] | one mask over the whole key | one probe |
//! | [`lpm`] | one prefix field, other fields exact, priorities that grow with the length | one load to /20 and two to /24 in IPv4; else a walk in a compressed trie |
//! | [`range`] | ranges in one field, other fields exact, any priorities | a probe and log2 of the ranges |
//! | [`scan`] | some thousands of rules under few masks, or few rules | a fraction of a nanosecond per eight rules, a probe per mask of many |
//! | [`decomposed`] | what it was planned from | one small table after another |
//! | [`tuple_merge`] | everything | one probe per merged tuple, fewer with early exit |
//! | [`cuts`] | what bits of the key part, all at once; later ones go the same ways | a node and a leaf or two |
//! | [`bit_vectors`] | up to some two thousand, all at once; later ones stand beside | a line for each two bytes of the key and 512 rules |
//! | [`tuple_space`] | everything; only for few masks | one probe per distinct mask, fewer with early exit |
//!
//! [`Table`] owns one of them, moves its entries when an insert no longer fits, and says why
//! ([`Choice`]). [`Table::arranged`] is the general form as there is time to choose it for all rules: merged tuples,
//! cuts or bit vectors, by what lookups take ([`probes`]). `hash`, `range`, `scan` and `tuple_space` keep their rules in the same store, grouped and
//! indexed by mask, so that one can take over from another without copying a rule; to and from the
//! others the rules are copied.
//!
//! Invariants: the winner is the rule that matches with the highest priority, among equals the one
//! with the lowest `seq`, then the lowest id: a total order, so every structure and every replica
//! that saw the same operations gives the same answer. Lookups take `&self`, allocate nothing and
//! have no interior mutability; everything is `Send + Sync`.
//!
//! Absences: no sockets, threads, clocks or randomness (hash seeds are arguments); nothing here
//! knows OpenFlow or P4.
//!
//! [`classbench`] reads and draws rule sets and headers for benches.
//!
//! Checked by: `tests/model.rs`, which plays random operations on every structure and on `linear`;
//! `tests/hostile.rs`, rules made to defeat an arrangement; `benches/lookup.rs` compares with `linear` before it times.

mod buckets;
mod group;
mod lanes;
mod mask;
mod probe;
pub mod probes;
mod review;
mod rows;
mod rule;
mod rules;
mod shape;
pub(crate) mod simd;
mod tagged;

pub mod bit_vectors;
pub mod choose;
pub mod classbench;
pub mod cuts;
pub mod decomposed;
pub mod generated;
pub mod hash;
pub mod linear;
pub mod lpm;
pub mod range;
pub mod scan;
pub mod table;
pub mod tuple_merge;
pub mod tuple_space;

pub use choose::{Choice, Declined, Kind, Verdict, choose};
pub use review::{Review, review};
pub use rule::{Field, Layout, LayoutError, RANGE_LEN_MAX, Range, Rule, RuleError};
pub use shape::{MaskShape, TableShape};
pub use simd::prefetch;
pub use table::{Inserted, Moved, Table, lookup_mixed};

/// What a lookup found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Hit {
    /// The id of the rule that won, or [`Hit::MISS_ENTRY`].
    pub entry: u32,
    /// The action that the caller gave the rule; 0 on a miss.
    pub action: u32,
}

impl Hit {
    /// In place of an entry: nothing matched. No rule may have this id.
    pub const MISS_ENTRY: u32 = u32::MAX;
    /// Nothing matched.
    pub const MISS: Hit = Hit { entry: Hit::MISS_ENTRY, action: 0 };

    /// A rule matched.
    #[inline]
    pub fn is_hit(self) -> bool {
        self.entry != Hit::MISS_ENTRY
    }
}

impl Default for Hit {
    fn default() -> Hit {
        Hit::MISS
    }
}

/// Why a structure refused a rule. It is unchanged after a refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InsertError {
    /// The rule itself is malformed for this table.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The id is taken; ids are the caller's entry slots and unique in a table.
    #[error("entry id {0} is in use; remove it first or choose another id")]
    DuplicateId(u32),
    /// The rule is sound but this structure cannot hold it; a more general one can.
    #[error("declined: {0}")]
    Declined(Declined),
}

/// What a structure says of itself: the source of `explain table`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explain {
    /// Which structure this is.
    pub kind: Kind,
    /// Rules held.
    pub entries: usize,
    /// Distinct masks, after ranges have lent their common leading bits to the mask.
    pub masks: usize,
    /// Steps of the longest lookup: hash probes, trie nodes, or compares.
    pub probes_max: usize,
    /// Rules that still carry ranges to be compared.
    pub ranged: usize,
    /// Bytes held on the heap, as allocated.
    pub memory_bytes: usize,
}

impl std::fmt::Display for Explain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {} entries, {} masks, at most {} {}, {} with ranges, {} bytes",
            self.kind,
            self.entries,
            self.masks,
            self.probes_max,
            match self.kind {
                Kind::Linear => "compares",
                Kind::Lpm => "nodes",
                Kind::Range | Kind::Scan => "steps",
                Kind::Cuts => "nodes",
                Kind::BitVectors => "parts",
                Kind::Hash | Kind::TupleMerge | Kind::TupleSpace | Kind::Decomposed => "probes",
            },
            self.ranged,
            self.memory_bytes
        )
    }
}

/// What every lookup structure does.
///
/// `key` arguments must be exactly [`Layout::key_len`] bytes long: keys are built by our own code,
/// so another length is a broken invariant and panics.
pub trait Structure: std::fmt::Debug + Send + Sync {
    /// Which structure this is.
    fn kind(&self) -> Kind;
    /// How keys are laid out.
    fn layout(&self) -> &Layout;
    /// Adds a rule, in place.
    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError>;
    /// Takes a rule out, in place. The rule comes back normalised (see [`Rule::normalised`]).
    fn remove(&mut self, id: u32) -> Option<Rule>;
    /// Gives a rule another action, in place; false if there is no rule of that id.
    fn set_action(&mut self, id: u32, action: u32) -> bool;
    /// What is kept of this rule will be changed soon: asks for its memory, where that gains.
    fn touch(&self, _id: u32) {}
    /// The best rule that matches, or [`Hit::MISS`].
    fn lookup(&self, key: &[u8]) -> Hit;
    /// Looks up `hits.len()` keys, the i-th of which begins at `keys[i * stride]`.
    ///
    /// `stride` is [`Layout::stride`] or any larger multiple of 8; the bytes between the end of a
    /// key and the next key's begin are zero. Panics if `keys` is too short for that.
    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        rules::assert_burst(self.layout(), keys, stride, hits.len());
        let key_len = self.layout().key_len();
        for (i, hit) in hits.iter_mut().enumerate() {
            *hit = self.lookup(&keys[i * stride..][..key_len]);
        }
    }
    /// What looking these keys up takes, counted; none of a structure that does not say.
    fn probes(&self, _keys: &mut dyn Iterator<Item = &[u8]>) -> Option<probes::Probes> {
        None
    }
    /// Number of rules.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes held on the heap, as allocated.
    fn memory_bytes(&self) -> usize;
    /// Every rule, normalised; in an order that depends on the past operations alone.
    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_>;
    /// Figures for `explain`.
    fn explain(&self) -> Explain;
}
