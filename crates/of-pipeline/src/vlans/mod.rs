//! VLANs of ports under NORMAL, bonds and mirrors: what is configured, and what the switch holds for it.
//!
//! In: a [`NormalConfig`], which is whoever configures the bridge's, not a controller's. Out: the program that has blocks
//! for it ([`of_lower::normal`]), entries of its tables and groups. While nothing is configured the program has none of
//! that.
//!
//! | module | holds |
//! |---|---|
//! | `bonds` | several ports as one |
//! | `bundles` | which ports belong to which bond |
//! | `bond_rows` | what tables and groups hold for bonds |
//! | `wanted` | what tables and groups hold for a configuration, and these ports |
//! | `install` | the switch made so |
//!
//! Holds true: entries and groups are those of the configuration and of the ports that are there; a station behind a
//! port was learnt since the port's VLANs changed last. A change is one version of the switch, but for stations, which
//! are forgotten before.

mod bond_rows;
pub mod bonds;
mod bundles;
mod install;
mod wanted;

use bonds::{BONDS_MAX, BondConfig, Hashes};
use ir::{CounterId, GroupId};
use of_lower::headers::VLAN_PARSED;
use of_lower::normal::config::{Extras, MIRRORS_MAX, PortVlans, VlanSet};
use of_lower::normal::port_set::{BLOCKS_MAX, PortSet};
use std::collections::{BTreeMap, BTreeSet};
use wanted::{Group, Row};

/// A station is forgotten after so long without a packet from it, in seconds (IEEE 802.1Q §8.8.3).
pub const AGEING_S: u16 = 300;
/// So many stations are remembered where nothing is said.
pub const STATIONS: u32 = 1 << 14;

/// What NORMAL and mirrors are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NormalConfig {
    /// VLAN tags of a packet that are parsed (Open vSwitch's `vlan-limit`): what is behind them is payload. None for
    /// [`VLAN_PARSED`]. NORMAL tells VLANs by two at most.
    pub vlan_limit: Option<u8>,
    /// Ports that are no trunks of all VLANs.
    pub ports: BTreeMap<u32, PortVlans>,
    /// Mirrors, 32 at most.
    pub mirrors: Vec<MirrorConfig>,
    /// Ports that exchange no packets with each other.
    pub protected: BTreeSet<u32>,
    /// VLANs in which nothing is learnt, and all is flooded.
    pub flood_vlans: VlanSet,
    /// Frames to addresses that are reserved for bridges are forwarded, too.
    pub forwards_bpdu: bool,
    /// How stations are remembered.
    pub stations: StationConfig,
    /// Bonds, 64 at most.
    pub bonds: Vec<BondConfig>,
}

/// How many stations NORMAL remembers, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationConfig {
    /// So many at most; none for [`STATIONS`].
    pub max: Option<u32>,
    /// So long after their last packet, in seconds.
    pub age_s: u16,
}

impl StationConfig {
    /// How many are remembered, where the tables hold so many.
    pub fn most(&self, capacity: u32) -> u32 {
        self.max.unwrap_or(STATIONS.min(capacity))
    }
}

impl Default for StationConfig {
    fn default() -> StationConfig {
        StationConfig { max: None, age_s: AGEING_S }
    }
}

/// Which packets are copied, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorConfig {
    /// Packets that come in by these ports; none for all ports.
    pub sources: Option<BTreeSet<u32>>,
    /// Packets that leave by these; none for all ports.
    pub destinations: Option<BTreeSet<u32>>,
    /// Only those of these VLANs; none for all.
    pub vlans: Option<VlanSet>,
    /// Where copies go.
    pub to: MirrorTarget,
    /// Bytes of a copy, at most.
    pub length_max: Option<u32>,
}

/// Where a mirror's copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorTarget {
    /// To this port, which takes no part in NORMAL.
    Port(u32),
    /// To the ports of this VLAN, tagged with it.
    Vlan(u16),
}

/// A configuration that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NormalRefusal {
    /// There are too many.
    #[error("{0} mirrors: a bridge has at most {MIRRORS_MAX}")]
    Mirrors(usize),
    /// There are too many.
    #[error("{0} bonds: a bridge has at most {BONDS_MAX}")]
    Bonds(usize),
    /// A bond's place.
    #[error("place {0} of a bond: bonds have one each, below {BONDS_MAX}")]
    BondPlace(u32),
    /// A port that belongs to two.
    #[error("port {0} is a member of two bonds")]
    TwoBonds(u32),
    /// A port that takes copies.
    #[error("port {0} is a member of a bond: a mirror's copies cannot go there")]
    MirrorsBond(u32),
    /// A VLAN's number.
    #[error("VLAN {0} does not exist; they are 0 to 4095")]
    Vlan(u16),
    /// Tags that are parsed.
    #[error("vlan-limit {0}: 1 to {VLAN_PARSED} tags can be parsed")]
    Tags(u8),
    /// Numbers of protected ports are too scattered.
    #[error(
        "protected ports: their numbers make {0} blocks, and {BLOCKS_MAX} are the most; give them numbers in a row"
    )]
    Protected(usize),
    /// No room for stations.
    #[error("{0} stations: at least 1, and at most {1}")]
    Stations(u32, u32),
    /// They must stay for a time.
    #[error("stations cannot be forgotten after 0 seconds; 1 is the least")]
    Age,
    /// The switch did not take it.
    #[error("the switch refused it: {0}")]
    Refused(String),
}

/// What is configured, and what there is for it.
#[derive(Debug, Default)]
pub(crate) struct Vlans {
    pub(crate) config: NormalConfig,
    /// Of the program that runs.
    extras: Extras,
    /// Rows of tables, with the ids of their entries.
    rows: Vec<(Row, u32)>,
    groups: BTreeMap<GroupId, Group>,
    /// What slots of bonds count with, by the bond's place.
    slots: BTreeMap<u32, Vec<CounterId>>,
    hashes: Hashes,
    /// What all groups count with; nobody reads it.
    counter: Option<CounterId>,
    /// The ports that rows and groups are of.
    ports_seen: u64,
}

impl NormalConfig {
    /// Nothing is configured.
    pub fn is_empty(&self) -> bool {
        *self == NormalConfig::default()
    }

    /// NORMAL asks for VLANs, so it has tables of its own.
    fn has_tables(&self) -> bool {
        !self.ports.is_empty()
            || !self.mirrors.is_empty()
            || !self.flood_vlans.is_empty()
            || !self.bonds.is_empty()
    }

    /// The port is a mirror's.
    pub fn is_mirrors(&self, port: u32) -> bool {
        self.mirrors.iter().any(|mirror| mirror.to == MirrorTarget::Port(port))
    }

    fn check(&self, capacity: u32) -> Result<(), NormalRefusal> {
        use of_lower::normal::config::VlanMode;
        if self.mirrors.len() > MIRRORS_MAX {
            return Err(NormalRefusal::Mirrors(self.mirrors.len()));
        }
        let blocks = self.protected.iter().copied().collect::<PortSet>().blocks();
        if blocks > BLOCKS_MAX {
            return Err(NormalRefusal::Protected(blocks));
        }
        if let Some(max) = self.stations.max
            && !(1..=capacity).contains(&max)
        {
            return Err(NormalRefusal::Stations(max, capacity));
        }
        if self.stations.age_s == 0 {
            return Err(NormalRefusal::Age);
        }
        if let Some(limit) = self.vlan_limit
            && !(1..=VLAN_PARSED).contains(&u32::from(limit))
        {
            return Err(NormalRefusal::Tags(limit));
        }
        self.check_bonds()?;
        let own = |port: &PortVlans| match port.mode {
            VlanMode::Trunk => 0,
            VlanMode::Access(vlan)
            | VlanMode::NativeTagged(vlan)
            | VlanMode::NativeUntagged(vlan)
            | VlanMode::Tunnel { vlan, .. } => vlan,
        };
        let to = self.mirrors.iter().filter_map(|mirror| match mirror.to {
            MirrorTarget::Vlan(vlan) => Some(vlan),
            MirrorTarget::Port(_) => None,
        });
        match self.ports.values().map(own).chain(to).find(|vlan| *vlan > 4095) {
            Some(vlan) => Err(NormalRefusal::Vlan(vlan)),
            None => Ok(()),
        }
    }
}
