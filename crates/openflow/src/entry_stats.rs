//! Counters of an entry, each there or not (1.5.1 §7.2.4).

use crate::ids::Age;

/// Counters of a flow entry as 1.5 tells them: each there or not (1.5.1 §7.2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EntryStats {
    /// How long it has been there.
    pub duration: Option<Age>,
    /// How long no packet matched.
    pub idle: Option<Age>,
    /// How many entries, of an aggregate.
    pub flows: Option<u32>,
    /// Packets that matched.
    pub packets: Option<u64>,
    /// Bytes in them.
    pub bytes: Option<u64>,
}
