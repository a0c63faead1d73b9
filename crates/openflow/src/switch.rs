//! The switch as a whole: features, configuration, description, roles, asynchronous messages.

use crate::ids::{MacAddr, PortNo};
use crate::port::PortDesc;
use bitflags::bitflags;

bitflags! {
    /// What the datapath can do.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Capabilities: u32 {
        /// Flow statistics.
        const FLOW_STATS = 1 << 0;
        /// Table statistics.
        const TABLE_STATS = 1 << 1;
        /// Port statistics.
        const PORT_STATS = 1 << 2;
        /// Group statistics (1.3).
        const GROUP_STATS = 1 << 3;
        /// Reassembles IP fragments.
        const IP_REASM = 1 << 5;
        /// Queue statistics.
        const QUEUE_STATS = 1 << 6;
        /// Blocks looping ports (1.3).
        const PORT_BLOCKED = 1 << 8;
        /// 802.1D spanning tree (1.0, whose wire bit is 3).
        const STP = 1 << 16;
        /// Matches addresses in ARP (1.0, whose wire bit is 7).
        const ARP_MATCH_IP = 1 << 17;
    }
}

/// What the switch is (1.3.5 §7.3.1, 1.0.2 §5.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// Low 48 bits an address, the rest the implementer's.
    pub datapath_id: u64,
    /// Packets that can be kept at once.
    pub n_buffers: u32,
    /// Flow tables.
    pub n_tables: u8,
    /// Which of a controller's connections this is; 0 is the main one (1.3).
    pub auxiliary_id: u8,
    /// What it can do.
    pub capabilities: Capabilities,
    /// 1.0 only: bit *n* is 1.0's action type *n*.
    pub actions: u32,
    /// 1.0 only: the ports; 1.3 asks for them by multipart.
    pub ports: Vec<PortDesc>,
}

impl Features {
    /// The main address within the datapath id.
    pub fn mac(&self) -> MacAddr {
        MacAddr::from_u64(self.datapath_id)
    }
}

/// What to do with IP fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FragmentHandling {
    /// Nothing special.
    #[default]
    Normal,
    /// Drop them.
    Drop,
    /// Reassemble them.
    Reassemble,
}

/// The switch's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Of IP fragments.
    pub fragments: FragmentHandling,
    /// Bytes of a packet that a packet-in carries when it is kept in a buffer; [`Self::NO_BUFFER`]
    /// for all of it, unbuffered.
    pub miss_send_len: u16,
}

impl SwitchConfig {
    /// The whole packet, not kept.
    pub const NO_BUFFER: u16 = 0xffff;
    /// What a switch starts with.
    pub const DEFAULT: SwitchConfig =
        SwitchConfig { fragments: FragmentHandling::Normal, miss_send_len: 128 };
}

/// Who made the switch and which it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchDesc {
    /// Manufacturer, at most 255 bytes.
    pub manufacturer: String,
    /// Hardware, at most 255 bytes.
    pub hardware: String,
    /// Software, at most 255 bytes.
    pub software: String,
    /// Serial number, at most 31 bytes.
    pub serial: String,
    /// Of this datapath, for people, at most 255 bytes.
    pub datapath: String,
}

/// A controller's role (1.3.5 §6.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// In a request: only tell.
    NoChange,
    /// Full access, beside others. What a connection starts with.
    Equal,
    /// Full access, the only master.
    Master,
    /// Read-only.
    Slave,
}

/// A role request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleMessage {
    /// Asked for, or held now.
    pub role: Role,
    /// Of the master's election; older ones are refused.
    pub generation_id: u64,
}

/// Which asynchronous messages a connection wants (1.3.5 §7.3.10). Index 0 holds for master and
/// equal, 1 for slave; bit *n* of a mask is reason *n* of that message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AsyncConfig {
    /// Packet-in reasons.
    pub packet_in: [u32; 2],
    /// Port-status reasons.
    pub port_status: [u32; 2],
    /// Flow-removed reasons.
    pub flow_removed: [u32; 2],
}

impl AsyncConfig {
    /// What a connection starts with: everything to master and equal, port-status to slaves.
    pub const DEFAULT: AsyncConfig = AsyncConfig {
        packet_in: [0b111, 0],
        port_status: [0b111, 0b111],
        flow_removed: [0b1111, 0],
    };
}

/// Asks for a port's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfigRequest {
    /// Which; [`PortNo::ANY`] for all (1.3).
    pub port_no: PortNo,
}
