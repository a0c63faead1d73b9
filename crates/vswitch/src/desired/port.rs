//! `Port`: an interface, or several as one, with its VLANs and queues.

use super::bond::BondSettings;
use super::interface::Interface;
use super::notes::Notes;
use super::qos::QosSettings;
use super::reader::Reader;
use crate::feature::Feature;
use ovsdb::{Atom, Datum, Row, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// A row with its interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The row's name; none for a bridge's own port without a row.
    pub uuid: Option<Uuid>,
    /// What the switch is told.
    pub settings: PortSettings,
    /// Interfaces by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// What is asked for and not done. A port that is refused has no interface.
    pub notes: Notes,
}

/// What the switch is told of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSettings {
    /// Its name.
    pub name: String,
    /// Its interfaces' names.
    pub interfaces: BTreeSet<String>,
    /// Its VLANs.
    pub vlan: Vlan,
    /// How its interfaces are bonded, if there are several or LACP runs.
    pub bond: Option<BondSettings>,
    /// Its egress queues.
    pub qos: Option<QosSettings>,
    /// It exchanges no packets with other protected ports.
    pub protected: bool,
}

/// A port's VLANs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vlan {
    /// How packets come and go.
    pub mode: VlanMode,
    /// The VLAN of packets without a tag, or of all.
    pub tag: Option<u16>,
    /// VLANs that may come and go; all if empty.
    pub trunks: BTreeSet<u16>,
    /// In a tunnel: inner VLANs that may.
    pub customers: BTreeSet<u16>,
    /// In a tunnel the outer tag's type is 0x88a8, else 0x8100.
    pub service_tag: bool,
    /// Packets whose VLAN is 0 and whose priority is not keep a tag: `other_config:priority-tags`.
    pub priority_tags: PriorityTags,
}

/// How packets go out that have a priority and no VLAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorityTags {
    /// Without a tag.
    #[default]
    Never,
    /// With one if the priority is not 0.
    IfNonZero,
    /// With one.
    Always,
}

/// `vlan_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VlanMode {
    /// Tagged, each in its VLAN; without a tag in VLAN 0.
    #[default]
    Trunk,
    /// All in one VLAN, never tagged.
    Access,
    /// A trunk where packets without a tag are in `tag`; they go out tagged.
    NativeTagged,
    /// They go out without one.
    NativeUntagged,
    /// Whatever comes gets an outer tag.
    Tunnel,
}

/// VLAN ids of a column.
pub(crate) fn vlans(row: &Row, column: &str) -> BTreeSet<u16> {
    let atoms = row.get(column).into_iter().flat_map(Datum::atoms);
    let vlan = |atom: &Atom| match atom {
        Atom::Integer(vlan) => u16::try_from(*vlan).ok(),
        _ => None,
    };
    atoms.filter_map(vlan).collect()
}

impl Port {
    pub(crate) fn of(reader: &Reader<'_>, uuid: Uuid, row: &Row) -> Port {
        let mut notes = Notes::default();
        let name = row.text("name").unwrap_or_default().to_owned();
        let interfaces = row
            .uuids("interfaces")
            .filter_map(|uuid| {
                Some(Interface::of(reader, uuid, reader.database.row("Interface", uuid)?))
            })
            .map(|interface| (interface.settings.name.clone(), interface))
            .collect::<BTreeMap<_, _>>();
        let vlan = vlan(row, &mut notes);
        if vlan != Vlan::default() && !reader.can(&mut notes, Feature::Vlan) {
            // Packets of one VLAN would reach the others.
            notes.refuse_for_last();
        }
        let bond = BondSettings::of(reader, row, &interfaces, &mut notes);
        let protected = row.boolean("protected") == Some(true);
        if protected && !reader.can(&mut notes, Feature::Protected) {
            notes.refuse_for_last();
        }
        if let Some(mac) = row.text("mac") {
            notes.add(format!("mac {mac}: set the interface's"));
        }
        if row.boolean("bond_fake_iface") == Some(true) {
            notes.add("bond_fake_iface: no interface is made for a bond");
        }
        let settings = PortSettings {
            interfaces: interfaces.keys().cloned().collect(),
            vlan,
            bond,
            qos: QosSettings::of(reader, row, &mut notes),
            protected,
            name,
        };
        Port { uuid: Some(uuid), settings, interfaces, notes }
    }

    /// A bridge's own port, of which there is no row.
    pub(crate) fn own(bridge: &str) -> Port {
        let interface = Interface::own(bridge);
        let interfaces = BTreeMap::from([(bridge.to_owned(), interface)]);
        let settings = PortSettings {
            name: bridge.to_owned(),
            interfaces: BTreeSet::from([bridge.to_owned()]),
            ..Default::default()
        };
        Port { uuid: None, settings, interfaces, notes: Notes::default() }
    }
}

fn vlan(row: &Row, notes: &mut Notes) -> Vlan {
    let tag = row.integer("tag").and_then(|tag| u16::try_from(tag).ok());
    let mut trunks = vlans(row, "trunks");
    let mode = match (row.text("vlan_mode"), tag) {
        (Some("access"), _) | (None, Some(_)) => VlanMode::Access,
        (Some("native-tagged"), _) => VlanMode::NativeTagged,
        (Some("native-untagged"), _) => VlanMode::NativeUntagged,
        (Some("dot1q-tunnel"), _) => VlanMode::Tunnel,
        _ => VlanMode::Trunk,
    };
    match mode {
        VlanMode::Access | VlanMode::Tunnel if !trunks.is_empty() => {
            notes.add("trunks: a port in one VLAN has none");
            trunks.clear();
        }
        VlanMode::NativeTagged | VlanMode::NativeUntagged if !trunks.is_empty() => {
            trunks.insert(tag.unwrap_or(0));
        }
        VlanMode::Trunk if tag.is_some() => notes.add("tag: a port of vlan_mode=trunk has none"),
        _ => {}
    }
    let is_tunnel = mode == VlanMode::Tunnel;
    let key = |name| row.key("other_config", name);
    Vlan {
        tag: match mode {
            VlanMode::Trunk => None,
            _ => Some(tag.unwrap_or(0)),
        },
        trunks,
        customers: if is_tunnel { vlans(row, "cvlans") } else { BTreeSet::new() },
        service_tag: is_tunnel && !matches!(key("qinq-ethtype"), Some("802.1q" | "0x8100")),
        priority_tags: match key("priority-tags") {
            Some("true" | "if-nonzero") => PriorityTags::IfNonZero,
            Some("always") => PriorityTags::Always,
            _ => PriorityTags::Never,
        },
        mode,
    }
}
