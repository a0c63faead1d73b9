//! What every lookup structure does.

use crate::declined::InsertError;
use crate::hit::Hit;
use crate::kind::Kind;
use crate::probes::Probes;
use crate::rule::{Layout, Rule};
use crate::rules::assert_burst;

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
        assert_burst(self.layout(), keys, stride, hits.len());
        let key_len = self.layout().key_len();
        for (i, hit) in hits.iter_mut().enumerate() {
            *hit = self.lookup(&keys[i * stride..][..key_len]);
        }
    }
    /// What looking these keys up takes, counted; none of a structure that does not say.
    fn probes(&self, _keys: &mut dyn Iterator<Item = &[u8]>) -> Option<Probes> {
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
