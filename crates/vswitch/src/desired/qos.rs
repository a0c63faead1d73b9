//! `QoS` and `Queue`: what a port may send, and in which shares.

use super::notes::Notes;
use super::reader::Reader;
use crate::feature::Feature;
use ovsdb::{Atom, Datum, Row};
use std::collections::BTreeMap;

/// Egress queues of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QosSettings {
    /// `linux-htb` and so on.
    pub kind: String,
    /// The port's rate in bits a second.
    pub rate_max: Option<u64>,
    /// Queues by number.
    pub queues: BTreeMap<u32, QueueSettings>,
    /// Other keys, for types that have more.
    pub others: BTreeMap<String, String>,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// Guaranteed, in bits a second.
    pub rate_min: Option<u64>,
    /// At most, in bits a second.
    pub rate_max: Option<u64>,
    /// At once, in bits.
    pub burst: Option<u64>,
    /// The lower, the earlier it gets what nobody is guaranteed.
    pub priority: Option<u32>,
    /// IP packets leave with it, 0 to 63.
    pub dscp: Option<u8>,
}

impl QosSettings {
    /// What a port's row asks for, if the switch has it. `linux-noop` and no type ask for nothing.
    pub(crate) fn of(reader: &Reader<'_>, port: &Row, notes: &mut Notes) -> Option<QosSettings> {
        let uuid = port.uuids("qos").next()?;
        let row = reader.database.row("QoS", uuid)?;
        let kind = row.text("type").unwrap_or_default();
        if kind == "linux-noop" && has_dscp(reader, row) {
            notes.add("qos: linux-noop: queues' dscp needs queues; linux-htb has some");
        }
        if ["", "linux-noop"].contains(&kind) || !reader.can(notes, Feature::Qos(kind.to_owned())) {
            return None;
        }
        let mut settings = QosSettings { kind: kind.to_owned(), ..Default::default() };
        settings.rate_max = number(row, "max-rate", "qos", notes);
        if let Some(Datum::Map(map)) = row.get("other_config") {
            let pairs = map.iter().map(|(key, value)| (key.to_string(), value.to_string()));
            settings.others = pairs.filter(|(key, _)| key != "max-rate").collect();
        }
        // Nor does Open vSwitch: its policer has one rate.
        if kind == "egress-policer" && number::<u64>(row, "eir", "qos", notes).unwrap_or(0) > 0 {
            notes.add("qos: egress-policer: eir is not done: there is one rate, cir");
        }
        let Some(Datum::Map(queues)) = row.get("queues") else { return Some(settings) };
        for (id, uuid) in queues {
            let (Atom::Integer(id), Atom::Uuid(uuid)) = (id, uuid) else { continue };
            let (Ok(id), Some(row)) = (u32::try_from(*id), reader.database.row("Queue", *uuid))
            else {
                continue;
            };
            settings.queues.insert(id, QueueSettings::of(id, row, notes));
        }
        Some(settings)
    }
}

impl QueueSettings {
    fn of(id: u32, row: &Row, notes: &mut Notes) -> QueueSettings {
        let place = format!("queue {id}");
        let dscp = row.integer("dscp").and_then(|dscp| u8::try_from(dscp).ok());
        if id == 0 && dscp.is_some() {
            notes.add(
                "queue 0: dscp: packets for which no queue was chosen leave by it, too, and are not to be marked",
            );
        }
        QueueSettings {
            dscp: dscp.filter(|_| id != 0),
            rate_min: number(row, "min-rate", &place, notes),
            rate_max: number(row, "max-rate", &place, notes),
            burst: number(row, "burst", &place, notes),
            priority: number(row, "priority", &place, notes),
        }
    }
}

fn number<T: std::str::FromStr>(row: &Row, key: &str, place: &str, notes: &mut Notes) -> Option<T> {
    let text = row.key("other_config", key)?;
    let value = text.parse().ok();
    if value.is_none() {
        notes.add(format!("{place}: {key} {text} is no number"));
    }
    value
}

fn has_dscp(reader: &Reader<'_>, qos: &Row) -> bool {
    let Some(Datum::Map(queues)) = qos.get("queues") else { return false };
    queues.iter().any(|(_, uuid)| {
        let Atom::Uuid(uuid) = uuid else { return false };
        reader.database.row("Queue", *uuid).is_some_and(|row| row.integer("dscp").is_some())
    })
}
