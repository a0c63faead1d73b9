//! Flow entries: their modification, removal and statistics.

use crate::action::Instructions;
pub use crate::entry_stats::EntryStats;
use crate::flow_match::Match;
use crate::ids::{Age, BufferId, GroupId, PortNo, TableId};
use crate::version::Version;
use bitflags::bitflags;

/// What a flow-mod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowModCommand {
    /// Add an entry, replacing the one with the same match and priority.
    Add,
    /// Change the instructions of all entries that the match covers.
    Modify,
    /// Change the instructions of the entry with this match and priority.
    ModifyStrict,
    /// Delete all entries that the match covers.
    Delete,
    /// Delete the entry with this match and priority.
    DeleteStrict,
}

bitflags! {
    /// Options of a flow entry.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct FlowModFlags: u16 {
        /// Tell the controller when the entry goes.
        const SEND_FLOW_REM = 1 << 0;
        /// Refuse to add an entry that overlaps one of the same priority.
        const CHECK_OVERLAP = 1 << 1;
        /// Set the entry's counters to zero (1.3).
        const RESET_COUNTS = 1 << 2;
        /// Do not count packets (1.3).
        const NO_PKT_COUNTS = 1 << 3;
        /// Do not count bytes (1.3).
        const NO_BYT_COUNTS = 1 << 4;
        /// An emergency entry (1.0, whose wire bit is 2).
        const EMERG = 1 << 15;
    }
}

/// What an entry of 1.0 says that counts for nothing, and is told back to who speaks 1.0 (1.0.2 §3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Uncounted {
    /// The priority of an entry without wildcards, which has the highest whatever it says.
    pub priority: Option<u16>,
    /// The high bytes of ICMP's type and code, of which the low ones count.
    pub icmp: [u8; 2],
}

/// Adds, changes or deletes flow entries (1.3.5 §7.3.4.1, 1.0.2 §5.3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// The version whose rules hold: in 1.0 a modify without target adds, and a modify sets the
    /// cookie; from 1.2 on neither.
    pub dialect: Version,
    /// The opaque value of the entry; a filter in modify and delete of 1.3.
    pub cookie: u64,
    /// The bits of `cookie` that filter; 0 for none. 0 in 1.0.
    pub cookie_mask: u64,
    /// The cookie that a modify of NXM sets in the entries that `cookie` and `cookie_mask` filter, if any.
    pub new_cookie: Option<u64>,
    /// The table; [`TableId::ALL`] in 1.0, where an add then means table 0, and all else every table.
    pub table_id: TableId,
    /// What to do.
    pub command: FlowModCommand,
    /// Seconds without a packet until the entry goes; 0 for never.
    pub idle_timeout: u16,
    /// Seconds until the entry goes; 0 for never.
    pub hard_timeout: u16,
    /// Higher wins.
    pub priority: u16,
    /// A kept packet to send through the new entry.
    pub buffer_id: Option<BufferId>,
    /// For deletes: only entries that output here; [`PortNo::ANY`] for all.
    pub out_port: PortNo,
    /// For deletes: only entries that use this group; [`GroupId::ANY`] for all.
    pub out_group: GroupId,
    /// Options.
    pub flags: FlowModFlags,
    /// Entries of less importance are evicted first (1.4); 0 before.
    pub importance: u16,
    /// 1.0 with Nicira's table numbers or matches: all tables and cookie filters are there.
    pub extended: bool,
    /// 1.0's.
    pub uncounted: Uncounted,
    /// What the entry matches.
    pub matching: Match,
    /// What it does.
    pub instructions: Instructions,
}

impl FlowMod {
    /// An add of version 1.3 to table 0 with nothing set: default priority 0x8000, no filter.
    pub fn add(matching: Match, instructions: Instructions) -> FlowMod {
        FlowMod {
            dialect: Version::V13,
            cookie: 0,
            cookie_mask: 0,
            new_cookie: None,
            table_id: TableId(0),
            command: FlowModCommand::Add,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: 0x8000,
            buffer_id: None,
            out_port: PortNo::ANY,
            out_group: GroupId::ANY,
            flags: FlowModFlags::empty(),
            importance: 0,
            extended: false,
            uncounted: Uncounted::default(),
            matching,
            instructions,
        }
    }

    /// The cookie that a modify gives to the entries that it changes: none from 1.3 on, where it
    /// filters; in 1.0 the message's, where all ones say that the entries keep theirs.
    pub fn cookie_of_modify(&self) -> Option<u64> {
        let said = if self.cookie_mask == 0 { Some(self.cookie) } else { self.new_cookie };
        said.filter(|cookie| self.dialect == Version::V10 && *cookie != u64::MAX)
    }
}

/// Why an entry went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowRemovedReason {
    /// No packet for the idle timeout.
    IdleTimeout,
    /// The hard timeout passed.
    HardTimeout,
    /// A delete.
    Delete,
    /// Its group was deleted (1.3; told as a delete in 1.0).
    GroupDelete,
    /// Its meter was deleted (1.4; told as a delete before).
    MeterDelete,
    /// Another entry needed its room (1.4; told as a delete before).
    Eviction,
}

impl FlowRemovedReason {
    /// The number in a version; what it has no number for is a delete.
    pub fn wire(self, version: Version) -> u8 {
        match self {
            FlowRemovedReason::IdleTimeout => 0,
            FlowRemovedReason::HardTimeout => 1,
            FlowRemovedReason::GroupDelete if version >= Version::V13 => 3,
            FlowRemovedReason::MeterDelete if version >= Version::V14 => 4,
            FlowRemovedReason::Eviction if version >= Version::V14 => 5,
            _ => 2,
        }
    }
}

/// Tells that a flow entry went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// The entry's.
    pub cookie: u64,
    /// The entry's.
    pub priority: u16,
    /// Why.
    pub reason: FlowRemovedReason,
    /// Where it was; 0 in 1.0.
    pub table_id: TableId,
    /// How long it lived.
    pub age: Age,
    /// The entry's.
    pub idle_timeout: u16,
    /// The entry's; 0 in 1.0, which leaves it out.
    pub hard_timeout: u16,
    /// Packets that matched.
    pub packet_count: u64,
    /// Bytes in them.
    pub byte_count: u64,
    /// The entry's, in 1.0.
    pub uncounted: Uncounted,
    /// The entry's.
    pub matching: Match,
}

/// Asks for flow statistics, single or aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStatsRequest {
    /// Of this table; [`TableId::ALL`] for all.
    pub table_id: TableId,
    /// Only entries that output here; [`PortNo::ANY`] for all.
    pub out_port: PortNo,
    /// Only entries that use this group; [`GroupId::ANY`] for all.
    pub out_group: GroupId,
    /// Only entries with this cookie under `cookie_mask`.
    pub cookie: u64,
    /// 0 for all cookies.
    pub cookie_mask: u64,
    /// Only entries that this covers.
    pub matching: Match,
    /// 1.0 by Nicira's request: all tables and cookie filters are there, and the reply says them.
    pub extended: bool,
}

impl FlowStatsRequest {
    /// Asks for every entry of every table.
    pub fn all() -> FlowStatsRequest {
        FlowStatsRequest {
            table_id: TableId::ALL,
            out_port: PortNo::ANY,
            out_group: GroupId::ANY,
            cookie: 0,
            cookie_mask: 0,
            matching: Match::default(),
            extended: false,
        }
    }
}

/// One flow entry as the switch reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// Where it is.
    pub table_id: TableId,
    /// How long it has been there.
    pub age: Age,
    /// Higher wins.
    pub priority: u16,
    /// Seconds.
    pub idle_timeout: u16,
    /// Seconds.
    pub hard_timeout: u16,
    /// The entry's flags; empty in 1.0, which leaves them out.
    pub flags: FlowModFlags,
    /// The entry's; 0 before 1.4, which leaves it out.
    pub importance: u16,
    /// The entry's.
    pub cookie: u64,
    /// Packets that matched.
    pub packet_count: u64,
    /// Bytes in them.
    pub byte_count: u64,
    /// The entry's, in 1.0.
    pub uncounted: Uncounted,
    /// What it matches.
    pub matching: Match,
    /// What it does.
    pub instructions: Instructions,
}

/// Sums over flow entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AggregateStats {
    /// Packets that matched any of them.
    pub packet_count: u64,
    /// Bytes in them.
    pub byte_count: u64,
    /// How many entries.
    pub flow_count: u32,
}

/// Counters of one flow entry (1.5), without what the entry does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowCounts {
    /// Where it is.
    pub table_id: TableId,
    /// 0 when it was asked for, 1 when a trigger sent it.
    pub reason: u8,
    /// Higher wins.
    pub priority: u16,
    /// What it matches.
    pub matching: Match,
    /// Its counters.
    pub stats: EntryStats,
}
