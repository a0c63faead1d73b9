//! `Interface`: where packets come in and go out.

use super::notes::Notes;
use super::reader::Reader;
use crate::address::{LOCAL, Mac};
use crate::feature::Feature;
use ovsdb::{Datum, Row, Uuid};
use std::collections::BTreeMap;

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The row's name; none for a bridge's own interface without a row.
    pub uuid: Option<Uuid>,
    /// What the switch is told.
    pub settings: InterfaceSettings,
    /// The number that is asked for.
    pub request: Option<u32>,
    /// The number that it had last.
    pub last: Option<u32>,
    /// What is asked for and not done. An interface that is refused is not opened.
    pub notes: Notes,
}

/// What the switch is told of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceSettings {
    /// Its name, the kernel's for those that it knows.
    pub name: String,
    /// `system`, `internal`, `tap`, `patch`, or another type.
    pub kind: String,
    /// The type's options.
    pub options: BTreeMap<String, String>,
    /// Frames behind the Ethernet header, at most.
    pub mtu: Option<u32>,
    /// Its address.
    pub address: Option<Mac>,
    /// What it may receive.
    pub policing: Policing,
    /// Its session of BFD, if it is to have one.
    pub bfd: Option<bfd::Config>,
    /// `other_config`, for types and bonds that have keys there.
    pub others: BTreeMap<String, String>,
}

/// What an interface may receive; 0 for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policing {
    /// Kilobits a second, and at once.
    pub kbps: (u64, u64),
    /// Thousands of packets a second, and at once.
    pub kpkts: (u64, u64),
}

impl InterfaceSettings {
    /// As it is before anything of it is set.
    pub fn as_opened(&self) -> InterfaceSettings {
        InterfaceSettings {
            mtu: None,
            address: None,
            policing: Policing::default(),
            bfd: None,
            ..self.clone()
        }
    }

    /// The switch must open it anew to make it so.
    pub fn must_reopen(&self, now: &InterfaceSettings) -> bool {
        (&self.kind, &self.options) != (&now.kind, &now.options)
    }
}

fn texts(row: &Row, column: &str) -> BTreeMap<String, String> {
    match row.get(column) {
        Some(Datum::Map(map)) => {
            map.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
        }
        _ => BTreeMap::new(),
    }
}

impl Interface {
    pub(crate) fn of(reader: &Reader<'_>, uuid: Uuid, row: &Row) -> Interface {
        let mut notes = Notes::default();
        let kind = match row.text("type") {
            None | Some("") => "system",
            Some(kind) => kind,
        };
        let mut settings = InterfaceSettings {
            name: row.text("name").unwrap_or_default().to_owned(),
            kind: kind.to_owned(),
            options: texts(row, "options"),
            others: texts(row, "other_config"),
            ..Default::default()
        };
        if !reader.can(&mut notes, Feature::Interface(kind.to_owned())) {
            notes.refuse_for_last();
        }
        if kind == "patch" && !settings.options.contains_key("peer") {
            notes.refuse("a patch port needs options:peer");
        }
        if kind == "patch" && settings.options.get("peer") == Some(&settings.name) {
            notes.refuse("options:peer: a patch port cannot be its own peer");
        }
        let natural = |column| row.integer(column).and_then(|value| u32::try_from(value).ok());
        if let Some(mtu) = natural("mtu_request")
            && reader.can(&mut notes, Feature::Mtu)
        {
            settings.mtu = Some(mtu);
        }
        settings.address = address(reader, row, kind, &mut notes);
        settings.policing = policing(reader, row, &mut notes);
        settings.bfd = bfd(reader, row, kind, &mut notes);
        beside(reader, row, &mut notes);
        let number = |column| natural(column).filter(|number| *number < 65280 && *number > 0);
        Interface {
            uuid: Some(uuid),
            settings,
            request: number("ofport_request"),
            last: number("ofport"),
            notes,
        }
    }

    /// A bridge's own.
    pub(crate) fn own(bridge: &str) -> Interface {
        let settings = InterfaceSettings {
            name: bridge.to_owned(),
            kind: "internal".to_owned(),
            ..Default::default()
        };
        Interface { uuid: None, settings, request: None, last: None, notes: Notes::default() }
    }

    /// The number that it has whatever is asked for.
    pub(crate) fn fixed(&self, bridge: &str) -> Option<u32> {
        (self.settings.name == bridge).then_some(LOCAL)
    }
}

/// Only internal interfaces get one, as in Open vSwitch: those of network cards are the kernel's.
fn address(reader: &Reader<'_>, row: &Row, kind: &str, notes: &mut Notes) -> Option<Mac> {
    let text = row.text("mac")?;
    match text.parse::<Mac>().ok().filter(|mac| mac.is_station()) {
        None => notes.add(format!("mac {text} is no address of one station")),
        Some(_) if kind != "internal" => {
            notes.add("mac: only an internal interface gets an address here");
        }
        Some(mac) => return reader.can(notes, Feature::Address).then_some(mac),
    }
    None
}

fn policing(reader: &Reader<'_>, row: &Row, notes: &mut Notes) -> Policing {
    let natural = |column| row.integer(column).and_then(|v| u64::try_from(v).ok()).unwrap_or(0);
    let (rate, packets) =
        (natural("ingress_policing_rate"), natural("ingress_policing_kpkts_rate"));
    if (rate, packets) == (0, 0) || !reader.can(notes, Feature::Policing) {
        return Policing::default();
    }
    // Open vSwitch's bursts, where none is given: 8,000 kilobits, 16,000 packets.
    let or = |column, default| match natural(column) {
        0 => default,
        given => given,
    };
    Policing {
        kbps: if rate == 0 { (0, 0) } else { (rate, or("ingress_policing_burst", 8000)) },
        kpkts: if packets == 0 {
            (0, 0)
        } else {
            (packets, or("ingress_policing_kpkts_burst", 16))
        },
    }
}

/// A session that cannot be is none.
fn bfd(reader: &Reader<'_>, row: &Row, kind: &str, notes: &mut Notes) -> Option<bfd::Config> {
    match bfd::Config::read(&texts(row, "bfd")) {
        Ok(config) => config.filter(|_| reader.can(notes, Feature::Bfd(kind.to_owned()))),
        Err(error) => {
            notes.add(format!("bfd: {error}"));
            None
        }
    }
}

/// Protocols that an interface may run.
fn beside(reader: &Reader<'_>, row: &Row, notes: &mut Notes) {
    if row.key("lldp", "enable") == Some("true") {
        reader.can(notes, Feature::Lldp);
    }
    if row.integer("cfm_mpid").is_some() {
        notes.add("cfm_mpid: connectivity fault management is not done, and not planned");
    }
}
