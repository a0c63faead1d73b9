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
//! Beside them stands [`decision_tree`], for keys that are looked up one at a time and whose fields are read only when asked
//! for.
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
mod declined;
mod group;
mod hit;
mod kind;
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
mod structure;
mod tagged;

pub mod bit_vectors;
pub mod choose;
pub mod classbench;
pub mod cuts;
pub mod decision_tree;
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

pub use choose::{Choice, Verdict, choose};
pub use declined::{Declined, InsertError};
pub use hit::Hit;
pub use kind::{Kind, UnknownKind};
pub use review::{Review, review};
pub use rule::{Field, Layout, LayoutError, RANGE_LEN_MAX, Range, Rule, RuleError};
pub use shape::{MaskShape, TableShape};
pub use simd::prefetch;
pub use structure::{Explain, Structure};
pub use table::{Inserted, Moved, Table, lookup_mixed};
