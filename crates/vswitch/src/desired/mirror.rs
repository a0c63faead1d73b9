//! `Mirror`: copies of packets.

use super::notes::Notes;
use super::port::{Port, vlans};
use super::reader::Reader;
use crate::feature::Feature;
use ovsdb::{Row, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The row's name.
    pub uuid: Uuid,
    /// What the switch is told.
    pub settings: MirrorSettings,
}

/// What the switch is told of a mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorSettings {
    /// Its name.
    pub name: String,
    /// Packets that come in by these ports are copied.
    pub sources: BTreeSet<String>,
    /// Packets that go out by these ports are.
    pub destinations: BTreeSet<String>,
    /// Every packet is.
    pub all: bool,
    /// Only those of these VLANs; all if empty.
    pub vlans: BTreeSet<u16>,
    /// Copies go out by this port.
    pub to_port: Option<String>,
    /// Copies go to this VLAN.
    pub to_vlan: Option<u16>,
    /// Copies are cut at this length.
    pub length_max: Option<u32>,
}

impl Mirror {
    /// Those of a bridge that the switch can have.
    pub(crate) fn all(
        reader: &Reader<'_>,
        bridge: &Row,
        ports: &BTreeMap<String, Arc<Port>>,
        notes: &mut Notes,
    ) -> Vec<Mirror> {
        let rows = bridge.uuids("mirrors");
        let rows = rows.filter_map(|uuid| Some((uuid, reader.database.row("Mirror", uuid)?)));
        let mut mirrors = Vec::new();
        for (uuid, row) in rows {
            let settings = settings(row, ports);
            let name = settings.name.clone();
            let mut own = Notes::default();
            if settings.to_port.is_some() == settings.to_vlan.is_some() {
                own.add("output_port or output_vlan, one of them, was expected");
            } else if reader.can(&mut own, Feature::Mirror) {
                mirrors.push(Mirror { uuid, settings });
            }
            own.iter().for_each(|note| notes.add(format!("mirror {name}: {note}")));
        }
        mirrors.sort_by(|a, b| a.settings.name.cmp(&b.settings.name));
        mirrors
    }
}

/// Bytes of a copy, at most. Open vSwitch takes the largest number for no bound.
fn length(bytes: i64) -> Option<u32> {
    u32::try_from(bytes).ok().filter(|bytes| *bytes < 65_535)
}

fn settings(row: &Row, ports: &BTreeMap<String, Arc<Port>>) -> MirrorSettings {
    let name = |uuid: Uuid| {
        let port = ports.values().find(|port| port.uuid == Some(uuid))?;
        Some(port.settings.name.clone())
    };
    let names = |column| row.uuids(column).filter_map(name).collect();
    MirrorSettings {
        name: row.text("name").unwrap_or_default().to_owned(),
        sources: names("select_src_port"),
        destinations: names("select_dst_port"),
        all: row.boolean("select_all") == Some(true),
        vlans: vlans(row, "select_vlan"),
        to_port: row.uuids("output_port").find_map(name),
        to_vlan: row.integer("output_vlan").and_then(|vlan| u16::try_from(vlan).ok()),
        length_max: row.integer("snaplen").and_then(length),
    }
}
