//! The switch as a whole: features, configuration, description, roles, asynchronous messages.

use crate::ids::{MacAddr, PortNo};
use crate::port::PortDesc;
use crate::version::Version;
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
        /// Bundles (1.5).
        const BUNDLES = 1 << 9;
        /// Flow monitors (1.5).
        const FLOW_MONITORING = 1 << 10;
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
    /// They are processed as other packets; the fields of layer 4 read as 0 in all of them.
    #[default]
    Normal,
    /// Drop them.
    Drop,
    /// Reassemble them.
    Reassemble,
    /// Nicira's: as [`Normal`](Self::Normal), but the first fragment has its fields of layer 4.
    NxMatch,
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
    /// The controller's number among those of the switch (1.5); [`RoleMessage::NO_ID`] before.
    pub short_id: u16,
    /// Of the master's election; older ones are refused.
    pub generation_id: u64,
}

impl RoleMessage {
    /// `OFPCID_UNDEFINED`: no number was given.
    pub const NO_ID: u16 = 0;
}

/// Why a controller is told its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoleReason {
    /// Another controller became master (0).
    MasterRequest,
    /// The switch's configuration changed (1).
    Config,
    /// An experimenter's reason (2).
    Experimenter,
}

/// Tells a controller that its role changed (1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleStatus {
    /// The role that it has now.
    pub role: Role,
    /// Why.
    pub reason: RoleReason,
    /// The newest one seen.
    pub generation_id: u64,
}

/// Why a controller's status is told (1.5.1 §7.4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControllerReason {
    /// It was asked for (0).
    Request,
    /// The channel came up or went down (1).
    Channel,
    /// The controller's role changed (2).
    Role,
    /// The controller is new to the switch (3).
    Added,
    /// The switch does not know the controller any more (4).
    Removed,
    /// The controller gave itself another number (5).
    ShortId,
    /// An experimenter's reason (6).
    Experimenter,
}

impl ControllerReason {
    /// All, in the order of their numbers.
    pub const ALL: [ControllerReason; 7] = [
        ControllerReason::Request,
        ControllerReason::Channel,
        ControllerReason::Role,
        ControllerReason::Added,
        ControllerReason::Removed,
        ControllerReason::ShortId,
        ControllerReason::Experimenter,
    ];
}

/// A controller as the switch sees it (1.5.1 §7.4.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerStatus {
    /// The number that it gave itself; [`RoleMessage::NO_ID`] if none.
    pub short_id: u16,
    /// Its role, or the one that it had last.
    pub role: Role,
    /// Why this is told.
    pub reason: ControllerReason,
    /// The channel to it works.
    pub up: bool,
    /// Where it is, such as `tcp:192.0.2.1:6653`; empty where that is not told.
    pub uri: String,
}

/// A kind of asynchronous message that a connection may want or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AsyncKind {
    /// `OFPT_PACKET_IN`.
    PacketIn,
    /// `OFPT_PORT_STATUS`.
    PortStatus,
    /// `OFPT_FLOW_REMOVED`.
    FlowRemoved,
    /// `OFPT_ROLE_STATUS` (1.4).
    RoleStatus,
    /// `OFPT_TABLE_STATUS` (1.4).
    TableStatus,
    /// `OFPT_REQUESTFORWARD` (1.4).
    RequestForward,
    /// Flow statistics by triggers (1.5).
    FlowStats,
    /// `OFPT_CONTROLLER_STATUS` (1.5).
    ControllerStatus,
}

impl AsyncKind {
    /// Every kind, in the order of 1.4's and 1.5's property types.
    pub const ALL: [AsyncKind; 8] = [
        AsyncKind::PacketIn,
        AsyncKind::PortStatus,
        AsyncKind::FlowRemoved,
        AsyncKind::RoleStatus,
        AsyncKind::TableStatus,
        AsyncKind::RequestForward,
        AsyncKind::FlowStats,
        AsyncKind::ControllerStatus,
    ];

    /// The reasons that there are, bit *n* for reason *n* (1.4.1 §7.4, 1.5.1 §7.4).
    pub fn reasons(self) -> u32 {
        match self {
            AsyncKind::PacketIn | AsyncKind::FlowRemoved => 0x3f,
            AsyncKind::ControllerStatus => 0x7f,
            AsyncKind::PortStatus | AsyncKind::RoleStatus => 0x07,
            AsyncKind::TableStatus => 0x18,
            AsyncKind::RequestForward | AsyncKind::FlowStats => 0x03,
        }
    }

    /// How many of [`AsyncKind::ALL`] a version has.
    pub fn count(version: Version) -> usize {
        match version {
            Version::V10 | Version::V13 => 3,
            Version::V14 => 6,
            Version::V15 => 8,
        }
    }
}

/// Which asynchronous messages a connection wants (1.3.5 §7.3.10, 1.4.1 §7.3.10). For each kind
/// ([`AsyncKind::ALL`]) two masks: index 0 holds for master and equal, 1 for slave; bit *n* of a mask
/// is reason *n* of that message. Kinds that a version lacks are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AsyncConfig {
    /// The masks, by kind and role.
    pub masks: [[u32; 2]; 8],
}

impl AsyncConfig {
    /// What a connection of 1.0 or 1.3 starts with: everything to master and equal but packets whose
    /// TTL is invalid (as with Open vSwitch), port-status to slaves.
    pub const DEFAULT: AsyncConfig = AsyncConfig {
        masks: [[0b011, 0], [0b111, 0b111], [0b1111, 0], [0; 2], [0; 2], [0; 2], [0; 2], [0; 2]],
    };

    /// What a connection of a version starts with. Open vSwitch's defaults: what 1.3 tells, and
    /// role-status and table-status to all; of 1.5's, what triggers tell, but not the status of other
    /// controllers, which `ovs-ofctl` cannot read.
    pub fn default_of(version: Version) -> AsyncConfig {
        let mut config = AsyncConfig::DEFAULT;
        if version >= Version::V14 {
            config.masks[0] = [0b11_1011, 0];
            config.masks[2] = [0b11_1111, 0];
            config.masks[3] = [0b111, 0b111];
            config.masks[4] = [0b1_1000, 0];
        }
        if version >= Version::V15 {
            config.masks[6] = [0b10, 0];
        }
        config
    }

    /// A kind's masks.
    pub fn of(&self, kind: AsyncKind) -> [u32; 2] {
        self.masks[kind as usize]
    }

    /// The same with other masks for a kind.
    #[must_use]
    pub fn with(mut self, kind: AsyncKind, masks: [u32; 2]) -> AsyncConfig {
        self.masks[kind as usize] = masks;
        self
    }
}

/// Sets some of the masks of an [`AsyncConfig`]; 1.3's message sets all that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AsyncChange {
    /// Kind, whether for slaves, and the mask.
    pub masks: Vec<(AsyncKind, bool, u32)>,
}

impl AsyncChange {
    /// Changes a configuration; a later mask of the same kind replaces an earlier one.
    pub fn apply(&self, config: &mut AsyncConfig) {
        for &(kind, slave, mask) in &self.masks {
            config.masks[kind as usize][usize::from(slave)] = mask;
        }
    }

    /// The change that sets everything that a version has.
    pub fn all(version: Version, config: &AsyncConfig) -> AsyncChange {
        let kinds = &AsyncKind::ALL[..AsyncKind::count(version)];
        let mask = |kind: AsyncKind, slave| (kind, slave, config.of(kind)[usize::from(slave)]);
        AsyncChange {
            masks: kinds.iter().flat_map(|k| [mask(*k, false), mask(*k, true)]).collect(),
        }
    }
}

/// Asks for a port's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfigRequest {
    /// Which; [`PortNo::ANY`] for all (1.3).
    pub port_no: PortNo,
}
