//! What is asked of a switch: bridges, interfaces, controllers, and what can be seen of them.
//!
//! The reconciler calls the methods that change something, from one thread and in the order of [`crate::diff`]. Commands
//! and reports look from other threads meanwhile. A method either does all that it is asked or refuses with a reason, which
//! the row that asked for it then shows.

pub use crate::address::{LOCAL, Mac};
use crate::desired::bridge::BridgeSettings;
use crate::desired::controller::ControllerSettings;
use crate::desired::datapath::{Policies, ZoneLimits};
use crate::desired::interface::InterfaceSettings;
use crate::desired::mirror::MirrorSettings;
use crate::desired::port::PortSettings;
pub use crate::feature::Feature;
use std::collections::BTreeMap;

/// A switch.
pub trait Switch: Send + Sync {
    /// Why it cannot do something; none if it can.
    fn lacks(&self, feature: &Feature) -> Option<String>;
    /// The types of interfaces that it has.
    fn interface_types(&self) -> Vec<String>;
    /// `Datapath.capabilities`, as far as they are true.
    fn capabilities(&self) -> BTreeMap<String, String>;

    /// Timeouts of connections by zone, of keys that it does not lack. Other zones have the usual ones.
    fn set_timeouts(&self, policies: &Policies);
    /// Limits on connections that the database sets, in place of those that it set before. While there are some, `dpctl`
    /// changes none.
    fn set_zone_limits(&self, limits: &ZoneLimits);
    /// A bridge comes, without ports.
    fn add_bridge(&self, bridge: &BridgeSettings) -> Result<(), String>;
    /// A bridge changes.
    fn set_bridge(&self, bridge: &BridgeSettings) -> Result<(), String>;
    /// A bridge goes, with all that it has.
    fn remove_bridge(&self, bridge: &str) -> Result<(), String>;

    /// An interface comes under a number.
    fn add_interface(
        &self,
        bridge: &str,
        number: u32,
        interface: &InterfaceSettings,
    ) -> Result<(), String>;
    /// What can change of an interface changes.
    fn set_interface(&self, bridge: &str, interface: &InterfaceSettings) -> Result<(), String>;
    /// An interface goes.
    fn remove_interface(&self, bridge: &str, interface: &str) -> Result<(), String>;

    /// VLANs of a port whose interfaces are still to come: they hold for the first packet.
    fn prepare_port(&self, _bridge: &str, _port: &PortSettings) -> Result<(), String> {
        Ok(())
    }
    /// VLANs, queues and bonding of a port whose interfaces are there.
    fn set_port(&self, bridge: &str, port: &PortSettings) -> Result<(), String>;
    /// A port goes. Its interfaces have gone before.
    fn remove_port(&self, bridge: &str, port: &str) -> Result<(), String>;
    /// All mirrors of a bridge.
    fn set_mirrors(&self, bridge: &str, mirrors: &[MirrorSettings]) -> Result<(), String>;
    /// All controllers of a bridge.
    fn set_controllers(
        &self,
        bridge: &str,
        controllers: &[ControllerSettings],
    ) -> Result<(), String>;
    /// Packets come in; until this is first called none does.
    fn set_forwarding(&self, forwards: bool);
    /// Returns when packets are forwarded by all that was asked.
    fn settle(&self);

    /// The bridges that there are.
    fn bridges(&self) -> Vec<String>;
    /// A bridge's interfaces by number.
    fn ports(&self, bridge: &str) -> Vec<Listed>;
    /// Packets that were looked up.
    fn looked_up(&self) -> u64;
    /// A bridge as it is.
    fn bridge(&self, bridge: &str) -> Option<BridgeView>;
    /// The address of a bond's active member, all zeros for none; none if it is no bond.
    fn bond_active(&self, _bridge: &str, _port: &str) -> Option<Mac> {
        None
    }
    /// An interface as it is.
    fn interface(&self, bridge: &str, interface: &str) -> Option<InterfaceView>;
    /// A bridge's controllers, by target.
    fn controllers(&self, bridge: &str) -> BTreeMap<String, ControllerView>;

    /// The addresses that a bridge has learnt.
    fn stations(&self, bridge: &str) -> Result<Vec<Station>, String>;
    /// Forgets them; without a bridge those of all.
    fn flush_stations(&self, bridge: Option<&str>) -> Result<(), String>;
    /// An address that stays.
    fn add_station(&self, bridge: &str, interface: &str, vlan: u16, mac: Mac)
    -> Result<(), String>;
    /// An address that was to stay is forgotten. Says whether there was one.
    fn remove_station(&self, bridge: &str, vlan: u16, mac: Mac) -> Result<bool, String>;
    /// A bridge's entries, a line each.
    fn flows(&self, bridge: &str) -> Result<Vec<String>, String>;
    /// What would happen to a packet, in the form of `ofproto/trace`.
    fn trace(&self, bridge: &str, flow: &str, packet: Option<&[u8]>) -> Result<String, String>;
    /// Connections to a bridge's controllers, or all, are made anew.
    fn reconnect(&self, bridge: Option<&str>) -> Result<(), String>;
    /// The answer to a command of a family that is the switch's own: `bfd`, `bond`, `lacp`, `qos`.
    fn ask(&self, family: &str, words: &[&str]) -> Result<String, String>;
    /// What is known of connections.
    fn connections(&self) -> &dyn Connections;
    /// Events and how often they came, by name.
    fn counts(&self) -> Vec<(String, u64)>;
    /// How much there is of what takes memory, by name.
    fn usage(&self) -> Vec<(String, u64)>;
}

/// The connection tracker.
pub trait Connections {
    /// A line each.
    fn lines(&self, zone: Option<u16>) -> Vec<String>;
    /// Forgets those that the words choose, as `dpctl/flush-conntrack` has them.
    fn flush(&self, words: &[&str]) -> Result<(), String>;
    /// How many there are by protocol.
    fn by_protocol(&self, zone: Option<u16>) -> BTreeMap<String, u64>;
    /// So many are kept at most.
    fn most(&self) -> u64;
    /// Limits: the default, and those of zones with how many there are; 0 for none.
    fn limits(&self) -> Result<Limits, String>;
    /// Sets limits.
    fn set_limits(&self, default: Option<u32>, zones: &[(u16, u32)]) -> Result<(), String>;
    /// Zones have the default limit again, and the default is none if it is named.
    fn clear_limits(&self, default: bool, zones: &[u16]) -> Result<(), String>;
}

/// Limits on connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of zones without one of their own; 0 for none.
    pub default: u32,
    /// Zone, limit, how many there are.
    pub zones: Vec<(u16, u32, u64)>,
}

/// An interface in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its number in the bridge.
    pub number: u32,
    /// Its number among all interfaces.
    pub below: u32,
    /// Its type.
    pub kind: String,
    /// It is one of two ends in this process.
    pub kind_is_patch: bool,
    /// Its type's options.
    pub options: BTreeMap<String, String>,
}

/// A bridge as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeView {
    /// Its datapath id.
    pub datapath_id: u64,
    /// Addresses learnt, and how many there may be.
    pub stations: (u64, u64),
    /// Packets and bytes that each mirror has copied, by name.
    pub mirrors: BTreeMap<String, (u64, u64)>,
}

/// An interface as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceView {
    /// What it stands on is still there.
    pub present: bool,
    /// It is administratively up.
    pub up: bool,
    /// It has a carrier.
    pub carrier: bool,
    /// How often the carrier came or went.
    pub link_resets: u64,
    /// Frames of LACP come from its partner; none if it speaks none.
    pub lacp_current: Option<bool>,
    /// Where its session of BFD stands, as the database has it; empty if it has none.
    pub bfd_status: BTreeMap<String, String>,
    /// Bits a second.
    pub speed: Option<u64>,
    /// Both directions at once.
    pub full_duplex: Option<bool>,
    /// The largest frame behind the Ethernet header.
    pub mtu: Option<u32>,
    /// Its address.
    pub mac: Option<Mac>,
    /// The kernel's number; 0 for what the kernel does not know.
    pub ifindex: Option<u32>,
    /// Counters by the database's names.
    pub statistics: BTreeMap<&'static str, u64>,
    /// More, such as `driver_name`.
    pub status: BTreeMap<String, String>,
}

/// A controller as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerView {
    /// A connection is up.
    pub connected: bool,
    /// `other`, `master` or `slave`.
    pub role: Option<&'static str>,
    /// `state`, `last_error`, `sec_since_connect`, `sec_since_disconnect`.
    pub status: BTreeMap<&'static str, String>,
}

/// An address that was learnt or given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    /// The port's number.
    pub port: u32,
    /// The VLAN, 0 without one.
    pub vlan: u16,
    /// The address.
    pub mac: Mac,
    /// Seconds since its last packet; none for one that stays.
    pub age_s: Option<u64>,
}
