//! What the switch tells controllers without being asked, the same for every version.

use crate::monitor::FlowChange;
use openflow::{
    FlowCounts, FlowRemoved, PacketIn, PacketInReason, PortStatus, TableId, TableStatus, Version,
};

/// An asynchronous event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // packet-ins are the bulk; a box would cost an allocation each
pub enum Event {
    /// A packet for the controllers.
    PacketIn(PacketIn),
    /// A packet for the controllers that set this id.
    PacketInTo(u16, PacketIn),
    /// A flow entry that asked for it went.
    FlowRemoved(FlowRemoved),
    /// A port came, went or changed.
    PortStatus(PortStatus),
    /// A flow entry came, went or changed, and somebody watches.
    FlowChange(Box<FlowChange>),
    /// A table's vacancy crossed a threshold (1.4).
    TableStatus(TableStatus),
    /// Statistics of an entry have reached a threshold (1.5).
    FlowStats(FlowCounts),
}

impl Event {
    /// Whether controllers of this version are told.
    ///
    /// A packet that matched nothing at all (no table-miss entry either: its cookie is all ones,
    /// which entries cannot have) is told to 1.0 alone, whose tables send misses to the controller;
    /// in 1.3 such a packet is dropped. 1.0 knows neither invalid TTLs nor tables but the first.
    pub fn is_for(&self, version: Version) -> bool {
        match (self, version) {
            (Event::PacketInTo(..), _) => true,
            (Event::PacketIn(p), Version::V10) => p.reason != PacketInReason::InvalidTtl,
            (Event::PacketIn(p), _) => {
                p.reason != PacketInReason::NoMatch || p.cookie != PacketIn::NO_COOKIE
            }
            (Event::FlowRemoved(r), Version::V10) => r.table_id == TableId(0),
            (Event::TableStatus(_), version) => version >= Version::V14,
            (Event::FlowStats(_), version) => version >= Version::V15,
            (Event::FlowChange(_), _) => true,
            (Event::FlowRemoved(_) | Event::PortStatus(_), _) => true,
        }
    }
}
