//! What the database can ask for and not every switch can do.

use std::fmt;

/// Something that the database can ask for and that not every switch can do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// Interfaces of this type; `system` if the row names none.
    Interface(String),
    /// A port's VLAN mode other than a trunk of all VLANs.
    Vlan,
    /// Several interfaces as one port.
    Bond,
    /// LACP on a port.
    Lacp,
    /// Egress queues of this type.
    Qos(String),
    /// A limit on what an interface receives.
    Policing,
    /// Copies of packets to a port or VLAN.
    Mirror,
    /// Multicast snooping.
    Multicast,
    /// NetFlow, sFlow or IPFIX.
    Export(&'static str),
    /// Bidirectional forwarding detection of interfaces of this type.
    Bfd(String),
    /// LLDP and auto-attach.
    Lldp,
    /// An interface's MTU.
    Mtu,
    /// An address of an interface or bridge.
    Address,
    /// A bound on learnt addresses.
    MacTableSize,
    /// How long learnt addresses are kept.
    MacAging,
    /// Frames to reserved addresses are forwarded by NORMAL.
    ForwardBpdu,
    /// A bound on the entries of a flow table, and what happens beyond it.
    FlowLimit,
    /// Limits of packet-ins for each controller.
    ControllerRate,
    /// Connections of a zone have this timeout of their own, by the database's name.
    Timeout(String),
    /// Ports that exchange no packets with each other.
    Protected,
    /// VLANs of which packets are flooded whatever is learnt.
    FloodVlans,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::Interface(kind) => return write!(f, "interface type {kind}"),
            Feature::Qos(kind) => return write!(f, "QoS type {kind}"),
            Feature::Timeout(key) => return write!(f, "timeout {key}"),
            Feature::Export(what) => what,
            Feature::Vlan => "VLAN modes",
            Feature::Bond => "bonds",
            Feature::Lacp => "LACP",
            Feature::Policing => "ingress policing",
            Feature::Mirror => "mirrors",
            Feature::Multicast => "multicast snooping",
            Feature::Bfd(_) => "BFD",
            Feature::Lldp => "LLDP",
            Feature::Mtu => "mtu_request",
            Feature::Address => "MAC addresses",
            Feature::MacTableSize => "mac-table-size",
            Feature::MacAging => "mac-aging-time",
            Feature::ForwardBpdu => "forward-bpdu",
            Feature::FlowLimit => "flow_limit",
            Feature::ControllerRate => "controller_rate_limit",
            Feature::Protected => "protected ports",
            Feature::FloodVlans => "flood_vlans",
        })
    }
}
