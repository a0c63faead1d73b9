//! Ports and queues: description, configuration, statistics.
//!
//! Bits are 1.3's; 1.0's that 1.3 dropped have places of their own, and the codec maps feature bits,
//! whose numbers differ.

use crate::ids::{Age, MacAddr, PortNo, QueueId};
use bitflags::bitflags;

bitflags! {
    /// What the administrator has set on a port.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PortConfig: u32 {
        /// Administratively down.
        const PORT_DOWN = 1 << 0;
        /// No spanning tree here (1.0).
        const NO_STP = 1 << 1;
        /// Drop what comes in.
        const NO_RECV = 1 << 2;
        /// Drop spanning-tree packets that come in (1.0).
        const NO_RECV_STP = 1 << 3;
        /// Leave out when flooding (1.0).
        const NO_FLOOD = 1 << 4;
        /// Drop what is to go out.
        const NO_FWD = 1 << 5;
        /// Send no packet-in for this port.
        const NO_PACKET_IN = 1 << 6;
    }
}

impl PortConfig {
    /// The bits of 1.0.
    pub const V10: PortConfig = PortConfig::all();
    /// The bits of 1.3.
    pub const V13: PortConfig = PortConfig::PORT_DOWN
        .union(PortConfig::NO_RECV)
        .union(PortConfig::NO_FWD)
        .union(PortConfig::NO_PACKET_IN);
}

bitflags! {
    /// What the switch sees of a port.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PortState: u32 {
        /// No link.
        const LINK_DOWN = 1 << 0;
        /// Blocked by a protocol outside OpenFlow (1.3).
        const BLOCKED = 1 << 1;
        /// Live, for fast failover (1.3).
        const LIVE = 1 << 2;
        /// 1.0's spanning-tree state 1, learning (with 2: 3, blocked).
        const STP_LEARN = 1 << 8;
        /// 1.0's spanning-tree state 2, forwarding.
        const STP_FORWARD = 1 << 9;
    }
}

bitflags! {
    /// Speeds and media.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PortFeatures: u32 {
        /// 10 Mb/s half duplex.
        const MB10_HD = 1 << 0;
        /// 10 Mb/s full duplex.
        const MB10_FD = 1 << 1;
        /// 100 Mb/s half duplex.
        const MB100_HD = 1 << 2;
        /// 100 Mb/s full duplex.
        const MB100_FD = 1 << 3;
        /// 1 Gb/s half duplex.
        const GB1_HD = 1 << 4;
        /// 1 Gb/s full duplex.
        const GB1_FD = 1 << 5;
        /// 10 Gb/s full duplex.
        const GB10_FD = 1 << 6;
        /// 40 Gb/s full duplex (1.3).
        const GB40_FD = 1 << 7;
        /// 100 Gb/s full duplex (1.3).
        const GB100_FD = 1 << 8;
        /// 1 Tb/s full duplex (1.3).
        const TB1_FD = 1 << 9;
        /// Another speed (1.3).
        const OTHER = 1 << 10;
        /// Copper.
        const COPPER = 1 << 11;
        /// Fibre.
        const FIBER = 1 << 12;
        /// Negotiates by itself.
        const AUTONEG = 1 << 13;
        /// Pauses.
        const PAUSE = 1 << 14;
        /// Pauses one way.
        const PAUSE_ASYM = 1 << 15;
    }
}

/// A port (1.3.5 §7.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortDesc {
    /// Its number.
    pub port_no: PortNo,
    /// Its address.
    pub hw_addr: MacAddr,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// What is set.
    pub config: PortConfig,
    /// What is seen.
    pub state: PortState,
    /// What it does now.
    pub curr: PortFeatures,
    /// What it tells its peer.
    pub advertised: PortFeatures,
    /// What it could do.
    pub supported: PortFeatures,
    /// What its peer tells.
    pub peer: PortFeatures,
    /// Bit rate now, kb/s; 0 in 1.0.
    pub curr_speed: u32,
    /// Highest bit rate, kb/s; 0 in 1.0.
    pub max_speed: u32,
}

/// Why a port-status was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortReason {
    /// The port is new.
    Add,
    /// The port went.
    Delete,
    /// Something about it changed.
    Modify,
}

/// Tells that a port came, went or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// Which of these.
    pub reason: PortReason,
    /// The port as it is now (as it was, if it went).
    pub desc: PortDesc,
}

/// Changes a port's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMod {
    /// Which port.
    pub port_no: PortNo,
    /// Its address, for safety.
    pub hw_addr: MacAddr,
    /// New values of the bits in `mask`.
    pub config: PortConfig,
    /// The bits to change.
    pub mask: PortConfig,
    /// What to advertise; empty for no change.
    pub advertise: PortFeatures,
}

/// A port's counters; `u64::MAX` where the switch does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStats {
    /// Which port.
    pub port_no: PortNo,
    /// Packets in.
    pub rx_packets: u64,
    /// Packets out.
    pub tx_packets: u64,
    /// Bytes in.
    pub rx_bytes: u64,
    /// Bytes out.
    pub tx_bytes: u64,
    /// Dropped coming in.
    pub rx_dropped: u64,
    /// Dropped going out.
    pub tx_dropped: u64,
    /// Errors coming in, of all kinds.
    pub rx_errors: u64,
    /// Errors going out, of all kinds.
    pub tx_errors: u64,
    /// Frames misaligned.
    pub rx_frame_err: u64,
    /// Overruns.
    pub rx_over_err: u64,
    /// Wrong checksums.
    pub rx_crc_err: u64,
    /// Collisions.
    pub collisions: u64,
    /// How long the port has been there; [`PortStats::NO_AGE`] in 1.0, which leaves it out.
    pub age: Age,
}

impl PortStats {
    /// The age that stands for "not known".
    pub const NO_AGE: Age = Age { sec: u32::MAX, nsec: u32::MAX };
}

/// Asks for a queue's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStatsRequest {
    /// Of this port; [`PortNo::ANY`] for all.
    pub port_no: PortNo,
    /// Of this queue; [`QueueId::ALL`] for all.
    pub queue_id: QueueId,
}

/// A queue's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// Its port.
    pub port_no: PortNo,
    /// Which.
    pub queue_id: QueueId,
    /// Bytes out.
    pub tx_bytes: u64,
    /// Packets out.
    pub tx_packets: u64,
    /// Packets lost for lack of room.
    pub tx_errors: u64,
    /// How long it has been there; [`PortStats::NO_AGE`] in 1.0.
    pub age: Age,
}

/// One property of a queue (1.3.5 §7.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueProperty {
    /// Guaranteed rate in tenths of a percent; above 1000: none.
    MinRate(u16),
    /// Highest rate in tenths of a percent; above 1000: none (1.3).
    MaxRate(u16),
    /// An experimenter's (1.3).
    Experimenter {
        /// Who.
        experimenter: u32,
        /// The bytes after the id.
        data: Vec<u8>,
    },
}

/// A queue's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Which.
    pub queue_id: QueueId,
    /// Its port; [`PortNo::ANY`] in 1.0, which leaves it out here.
    pub port_no: PortNo,
    /// What is set.
    pub properties: Vec<QueueProperty>,
}

/// The queues of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfigReply {
    /// Which port, as asked.
    pub port_no: PortNo,
    /// Its queues.
    pub queues: Vec<QueueConfig>,
}
