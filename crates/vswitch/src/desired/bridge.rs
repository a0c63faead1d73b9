//! `Bridge`: a switch of its own, with a datapath id, flow tables and controllers.

use super::controller::Controller;
use super::flow_table::FlowTableSettings;
use super::known::Known;
use super::mirror::Mirror;
use super::notes::Notes;
use super::port::Port;
use super::reader::Reader;
use super::root::Keys;
use crate::address::Mac;
use crate::feature::Feature;
use ovsdb::{Atom, Datum, Row, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// So many addresses a bridge learns at most, whatever is asked for.
pub const STATIONS_MAX: u32 = 1 << 20;
/// Open vSwitch takes no less.
const STATIONS_MIN: u32 = 10;

/// A row with what hangs at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// The row's name.
    pub uuid: Uuid,
    /// What the switch is told.
    pub settings: BridgeSettings,
    /// Ports by name.
    pub ports: BTreeMap<String, Arc<Port>>,
    /// Controllers in the order of their targets.
    pub controllers: Vec<Controller>,
    /// Mirrors in the order of their names.
    pub mirrors: Vec<Mirror>,
    /// What is asked for and not done.
    pub notes: Notes,
}

/// Flow tables of a bridge.
const TABLES: u8 = 254;

/// What the switch is told of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeSettings {
    /// Its name, and that of its own interface.
    pub name: String,
    /// `other_config:datapath-id`.
    pub datapath_id: Option<u64>,
    /// `other_config:hwaddr`.
    pub address: Option<Mac>,
    /// `fail_mode=secure`: without a controller nothing is learnt and flooded.
    pub secure: bool,
    /// OpenFlow versions by the database's names; all if empty.
    pub protocols: BTreeSet<String>,
    /// So many addresses are learnt at most.
    pub stations_max: Option<u32>,
    /// They are kept for so long, in seconds.
    pub station_age_s: Option<u16>,
    /// NORMAL forwards frames to reserved addresses.
    pub forwards_bpdu: bool,
    /// `Open_vSwitch other_config:vlan-limit`: so many tags are parsed, 0 for as many as can be.
    pub vlan_limit: u32,
    /// VLANs whose packets are flooded.
    pub flood_vlans: BTreeSet<u16>,
    /// Groups are learnt by IGMP and MLD.
    pub multicast: bool,
    /// Flow tables that have settings.
    pub tables: BTreeMap<u8, FlowTableSettings>,
    /// What switch features tell as description.
    pub description: Option<String>,
    /// What switch features tell as serial number.
    pub serial: Option<String>,
    /// Keys, if a controller is reached by TLS.
    pub keys: Option<Keys>,
}

/// Whether a name could be that of an interface and of a socket's file.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() < 16 && !name.contains('/') && !name.starts_with('.')
}

impl Bridge {
    pub(super) fn of(reader: &Reader<'_>, known: &Known, uuid: Uuid, row: &Row) -> Bridge {
        let mut notes = Notes::default();
        let settings = settings(reader, row, &mut notes);
        refuse_what_is_never_done(reader, row, &mut notes);
        let ports = row
            .uuids("ports")
            .filter_map(|uuid| known.port(reader, uuid))
            .map(|port| (port.settings.name.clone(), port))
            .collect::<BTreeMap<_, _>>();
        let ports = with_own(&settings.name, ports);
        let controllers = row.uuids("controller");
        let controllers = controllers.filter_map(|uuid| {
            Controller::of(reader, uuid, reader.database.row("Controller", uuid)?, &mut notes)
        });
        let mut controllers: Vec<Controller> = controllers.collect();
        controllers.sort_by(|a, b| a.settings.target.cmp(&b.settings.target));
        let mut settings = settings;
        if controllers.iter().any(|one| one.settings.is_tls()) {
            settings.keys = Keys::of_database(reader);
            if settings.keys.is_none() {
                notes.add("controllers by ssl: need keys: ovs-vsctl set-ssl PRIVKEY CERT CACERT");
            }
        }
        let mirrors = Mirror::all(reader, row, &ports, &mut notes);
        Bridge { uuid, settings, ports, controllers, mirrors, notes }
    }
}

/// A bridge has a port of its own, whether or not a row says so.
fn with_own(name: &str, mut ports: BTreeMap<String, Arc<Port>>) -> BTreeMap<String, Arc<Port>> {
    let has = ports.values().any(|port| port.interfaces.contains_key(name));
    if !has {
        ports.insert(name.to_owned(), Arc::new(Port::own(name)));
    }
    ports
}

fn settings(reader: &Reader<'_>, row: &Row, notes: &mut Notes) -> BridgeSettings {
    let name = row.text("name").unwrap_or_default().to_owned();
    if !is_name(&name) {
        notes.refuse(format!("{name:?} is no name of an interface: 1 to 15 characters, no '/'"));
    }
    let kind = row.text("datapath_type").unwrap_or_default();
    if !["", "system", "netdev"].contains(&kind) {
        notes.refuse(format!(
            "datapath_type {kind}: system and netdev are there, and mean the same"
        ));
    }
    let mut settings = BridgeSettings { name, ..Default::default() };
    let key = |name| row.key("other_config", name);
    if let Some(text) = key("datapath-id") {
        settings.datapath_id = datapath_id(text);
        if settings.datapath_id.is_none() {
            notes.add(format!(
                "datapath-id {text}: 16 hexadecimal digits, not all 0, were expected"
            ));
        }
    }
    if let Some(text) = key("hwaddr") {
        let mac = text.parse::<Mac>().ok().filter(|mac| mac.is_station());
        match mac {
            None => notes.add(format!("hwaddr {text} is no address of one station")),
            Some(_) if !reader.can(notes, Feature::Address) => {}
            mac => settings.address = mac,
        }
    }
    settings.vlan_limit = vlan_limit(reader, notes);
    settings.secure = row.text("fail_mode") == Some("secure");
    settings.protocols =
        row.get("protocols").into_iter().flat_map(Datum::atoms).map(Atom::to_string).collect();
    for older in ["OpenFlow11", "OpenFlow12"] {
        if settings.protocols.remove(older) {
            notes.add(format!("protocols: {older} is not spoken"));
            if settings.protocols.is_empty() {
                notes.refuse(format!("protocols: {older} alone is asked for, and is not spoken"));
            }
        }
    }
    learning(reader, row, &mut settings, notes);
    settings.description = key("dp-desc").map(str::to_owned);
    settings.serial = key("dp-sn").map(str::to_owned);
    if let Some(Datum::Map(tables)) = row.get("flow_tables") {
        for (id, uuid) in tables {
            let (Atom::Integer(id), Atom::Uuid(uuid)) = (id, uuid) else { continue };
            let row = reader.database.row("Flow_Table", *uuid);
            let (Ok(id), Some(row)) = (u8::try_from(*id), row) else { continue };
            let table = FlowTableSettings::of(reader, id, row, notes);
            if id < TABLES {
                settings.tables.insert(id, table);
            } else if table != FlowTableSettings::default() {
                // The schema has one more. OVN gives it a row, which asks for nothing.
                notes.add(format!(
                    "flow_tables: there is no table {id}; the last one is {}",
                    TABLES - 1
                ));
            }
        }
    }
    settings
}

/// The limit of all bridges; Open vSwitch's is 1 where none is said.
fn vlan_limit(reader: &Reader<'_>, notes: &mut Notes) -> u32 {
    let root = reader.database.only("Open_vSwitch");
    let text = root.and_then(|(_, row)| row.key("other_config", "vlan-limit"));
    match text.map(str::parse) {
        None => 1,
        Some(Ok(limit)) => limit,
        Some(Err(_)) => {
            notes.add("vlan-limit is no number of tags");
            1
        }
    }
}

/// What NORMAL does.
fn learning(reader: &Reader<'_>, row: &Row, settings: &mut BridgeSettings, notes: &mut Notes) {
    let key = |name| row.key("other_config", name);
    if let Some(text) = key("mac-table-size") {
        match text.parse::<u32>() {
            Err(_) => notes.add(format!("mac-table-size {text} is no number")),
            Ok(size) if reader.can(notes, Feature::MacTableSize) => {
                if size > STATIONS_MAX {
                    notes.add(format!(
                        "mac-table-size {size}: {STATIONS_MAX} addresses are the most"
                    ));
                }
                settings.stations_max = Some(size.clamp(STATIONS_MIN, STATIONS_MAX));
            }
            Ok(_) => {}
        }
    }
    if let Some(text) = key("mac-aging-time") {
        match text.parse() {
            Err(_) => notes.add(format!("mac-aging-time {text} is no number of seconds")),
            Ok(age) if reader.can(notes, Feature::MacAging) => {
                // Open vSwitch's bounds.
                settings.station_age_s = Some(u16::clamp(age, 15, 3600));
            }
            Ok(_) => {}
        }
    }
    let bpdu = key("forward-bpdu") == Some("true");
    settings.forwards_bpdu = bpdu && reader.can(notes, Feature::ForwardBpdu);
    let vlans = super::port::vlans(row, "flood_vlans");
    if !vlans.is_empty() && reader.can(notes, Feature::FloodVlans) {
        settings.flood_vlans = vlans;
    }
    let snoops = row.boolean("mcast_snooping_enable") == Some(true);
    settings.multicast = snoops && reader.can(notes, Feature::Multicast);
}

/// What was decided against, and what is still to come.
fn refuse_what_is_never_done(reader: &Reader<'_>, row: &Row, notes: &mut Notes) {
    let asked = |column: &str| row.get(column).is_some_and(|datum| !datum.is_empty());
    if row.boolean("stp_enable") == Some(true) {
        notes
            .add("stp_enable: spanning trees are not built; loops must be kept out by other means");
    }
    if row.boolean("rstp_enable") == Some(true) {
        notes.add(
            "rstp_enable: spanning trees are not built; loops must be kept out by other means",
        );
    }
    if asked("auto_attach") {
        notes.add("auto_attach: not done, and not planned");
    }
    for (column, name) in [("netflow", "NetFlow"), ("sflow", "sFlow"), ("ipfix", "IPFIX")] {
        if asked(column) {
            reader.can(notes, Feature::Export(name));
        }
    }
}

/// 16 hexadecimal digits, or `0x` and up to 16, not 0: as Open vSwitch reads it.
fn datapath_id(text: &str) -> Option<u64> {
    let digits = match text.strip_prefix("0x") {
        Some(digits) if (1..=16).contains(&digits.len()) => digits,
        None if text.len() == 16 => text,
        _ => return None,
    };
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    hexadecimal.then(|| u64::from_str_radix(digits, 16).ok()).flatten().filter(|id| *id != 0)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn datapath_ids_are_read_as_open_vswitch_reads_them() {
        assert_eq!(datapath_id("00000000000000ff"), Some(255));
        assert_eq!(datapath_id("0xff"), Some(255));
        for wrong in ["", "ff", "0x", "0000000000000000", "0x11111111111111111", "+00000000000000f"]
        {
            assert_eq!(datapath_id(wrong), None, "{wrong}");
        }
    }
}
