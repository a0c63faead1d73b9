//! Flow monitors: a controller watches flow entries (1.4.1 §7.3.5.17; in 1.0 to 1.3 Nicira's).

use crate::action::Instructions;
use crate::flow_match::Match;
use crate::ids::{GroupId, PortNo, TableId, Xid};
use bitflags::bitflags;

bitflags! {
    /// What a monitor tells.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MonitorFlags: u16 {
        /// Entries that are there when it begins.
        const INITIAL = 1 << 0;
        /// Entries that are added.
        const ADD = 1 << 1;
        /// Entries that go.
        const REMOVED = 1 << 2;
        /// Entries that are changed.
        const MODIFY = 1 << 3;
        /// With what they do.
        const INSTRUCTIONS = 1 << 4;
        /// The watcher's own changes in full, too.
        const NO_ABBREV = 1 << 5;
        /// Nothing but the watcher's own changes.
        const ONLY_OWN = 1 << 6;
    }
}

/// What a monitor request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MonitorCommand {
    /// Begins.
    Add,
    /// Changes what is watched.
    Modify,
    /// Ends.
    Delete,
}

/// Begins, changes or ends watching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMonitorRequest {
    /// Which monitor of the connection.
    pub monitor_id: u32,
    /// What to do.
    pub command: MonitorCommand,
    /// What is told.
    pub flags: MonitorFlags,
    /// Only entries that output here; [`PortNo::ANY`] for all.
    pub out_port: PortNo,
    /// Only entries that use this group; [`GroupId::ANY`] for all.
    pub out_group: GroupId,
    /// Only of this table; [`TableId::ALL`] for all.
    pub table_id: TableId,
    /// Only entries that this covers.
    pub matching: Match,
}

/// Why an entry is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowUpdateKind {
    /// It was there when the monitor began.
    Initial,
    /// It was added.
    Added,
    /// It went.
    Removed,
    /// It was changed.
    Modified,
}

/// What became of a watched flow entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowUpdate {
    /// An entry, in full.
    Full(FullUpdate),
    /// The watcher's own request with this xid was done.
    Abbreviated(Xid),
    /// No more is told until what waits has been taken.
    Paused,
    /// All is told again.
    Resumed,
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullUpdate {
    /// Which of these.
    pub kind: FlowUpdateKind,
    /// Where it is.
    pub table_id: TableId,
    /// Why it went; 0 otherwise: a number of `OFPRR_*`.
    pub reason: u8,
    /// Seconds without a packet until it goes.
    pub idle_timeout: u16,
    /// Seconds until it goes.
    pub hard_timeout: u16,
    /// Higher wins.
    pub priority: u16,
    /// Its controller's.
    pub cookie: u64,
    /// What it matches.
    pub matching: Match,
    /// What it does, if the monitor asked for that.
    pub instructions: Instructions,
}
