//! Packets between switch and controller.

use crate::action::Actions;
use crate::field::FieldId;
use crate::flow_match::Match;
use crate::ids::{BufferId, PortNo, TableId};
pub use crate::reason::PacketInReason;

/// A packet for the controller (1.3.5 §7.4.1, 1.0.2 §5.4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Where the switch keeps all of it.
    pub buffer_id: Option<BufferId>,
    /// Its full length.
    pub total_len: u16,
    /// Why it came.
    pub reason: PacketInReason,
    /// The table that sent it; 0 in 1.0.
    pub table_id: TableId,
    /// Of the entry that sent it, or all ones; all ones in 1.0.
    pub cookie: u64,
    /// Pipeline fields: `in_port`, and `in_phy_port`, `metadata`, `tunnel_id` where not zero.
    pub matching: Match,
    /// Its first bytes.
    pub data: Vec<u8>,
    /// What the action that sent it carries for the controller; told in Nicira's packet-in format 2 alone.
    pub userdata: Vec<u8>,
    /// What resumes the packet, which waits for that; empty if it does not wait. Told in Nicira's packet-in
    /// format 2 alone.
    pub continuation: Vec<u8>,
}

/// Resumes a packet that waits (`NXT_RESUME`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The packet, which the controller may have changed.
    pub data: Vec<u8>,
    /// Its pipeline fields, which the controller may have changed.
    pub matching: Match,
    /// As the packet-in told it.
    pub continuation: Vec<u8>,
}

impl PacketIn {
    /// No cookie is known.
    pub const NO_COOKIE: u64 = u64::MAX;

    /// The port it came in by; [`PortNo::ANY`] when the message does not say.
    pub fn in_port(&self) -> PortNo {
        match self.matching.get(FieldId::InPort) {
            Some(field) => PortNo(field.value as u32),
            None => PortNo::ANY,
        }
    }
}

/// A packet from the controller (1.3.5 §7.3.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Send this kept packet; `data` is empty then.
    pub buffer_id: Option<BufferId>,
    /// Act as if it had come in by this port; [`PortNo::CONTROLLER`] or [`PortNo::ANY`] for none.
    pub in_port: PortNo,
    /// Further pipeline fields that it has, `metadata` and `tunnel_id` (1.5).
    pub pipeline: Match,
    /// What to do with it.
    pub actions: Actions,
    /// Its bytes.
    pub data: Vec<u8>,
}
