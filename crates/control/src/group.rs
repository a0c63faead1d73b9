//! The group that this process is a member of, as verbs and metrics see it; [`replication`](crate::replication) is what it is.

use replication::View;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What has happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// Heartbeats heard.
    pub(crate) beats: u64,
    /// Messages brought, and their octets.
    pub(crate) messages: u64,
    pub(crate) octets: u64,
    /// Messages that were none.
    pub(crate) damaged: u64,
    /// Messages sent, their octets, and those that the engine did not take.
    pub(crate) sent: u64,
    pub(crate) sent_octets: u64,
    pub(crate) unsent: u64,
    /// How often more had changed than there was room for.
    pub(crate) full: u64,
    /// Between a message's being sent and its being taken, by the two clocks.
    pub(crate) lag_ns: u64,
    /// Records told, and applied.
    pub(crate) told: u64,
    pub(crate) applied: u64,
    /// Records for trackers that are not here, records that were none, connections without room.
    pub(crate) unknown: u64,
    pub(crate) refused: u64,
    pub(crate) no_room: u64,
    /// Packets without a connection that came while another member may have opened it.
    pub(crate) fenced: u64,
    /// Stripes of the pool that were claimed, and not: the store had others', or did not answer.
    pub(crate) claims: u64,
    pub(crate) claims_refused: u64,
    /// What is wrong with the engine, and how often something was.
    pub(crate) fault: Option<String>,
    pub(crate) faults: u64,
    /// How often the program of `notify=` ran, and how often it failed.
    pub(crate) notified: Option<(u64, u64)>,
    /// Messages about shares that are not here.
    pub(crate) other_share: u64,
    /// Promotions and demotions, by reason.
    pub(crate) promotions: BTreeMap<&'static str, u64>,
    pub(crate) demotions: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub(crate) fn promoted(&mut self, reason: &'static str) {
        *self.promotions.entry(reason).or_default() += 1;
    }

    pub(crate) fn demoted(&mut self, reason: &'static str) {
        *self.demotions.entry(reason).or_default() += 1;
    }
}

/// Stripes of ports, of 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stripes {
    /// That this member may give ports of now, of its own and of the pool.
    pub usable: u32,
    /// That it has claimed of the pool.
    pub claimed: u32,
    /// Of the pool, that nobody has claimed.
    pub free: u32,
}

/// What people are shown.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) group: String,
    pub(crate) member: String,
    /// Of each share; one of a group without them.
    pub(crate) views: Vec<View>,
    /// Of each, whether it was drained here.
    pub(crate) drained: Vec<bool>,
    /// Of each, its services that are not there, and registers.
    pub(crate) missing: Vec<Vec<String>>,
    /// Of each, stripes of ports, where some are a pool.
    pub(crate) stripes: Vec<Option<Stripes>>,
    pub(crate) counts: Counts,
}

/// The group.
pub(crate) trait Group: Send + Sync {
    /// What is known of it.
    fn shown(&self) -> Shown;
    /// This member forwards a share, or all, whoever else does.
    fn promote(&self, share: Option<String>) -> Result<(), String>;
    /// It forwards it no more, whoever else does, until it is told to.
    fn demote(&self, share: Option<String>) -> Result<(), String>;
    /// It hands over, says to whom, and gets nothing back.
    fn drain(&self, share: Option<String>) -> Result<String, String>;
    /// It was drained, and gets its shares back.
    fn rebalance(&self) -> Result<(), String>;
    /// A member is gone for good: what it has claimed of the pool is free.
    fn forget(&self, member: String) -> Result<(), String>;
    /// It hands over if it can, and ends.
    fn stop(&self);
}
