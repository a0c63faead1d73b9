//! `Datapath`, `CT_Zone`, `CT_Timeout_Policy`: what a datapath can do, and limits and timeouts of connections by zone.

use super::notes::Notes;
use super::reader::Reader;
use crate::feature::Feature;
use ovsdb::{Atom, Datum, Row, Uuid};
use std::collections::BTreeMap;

/// Timeouts in seconds, by the database's names.
pub type Policy = BTreeMap<String, u32>;
/// By zone.
pub type Policies = BTreeMap<u16, Policy>;

/// Limits on connections; 0 for as many as there is room for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneLimits {
    /// Of zones without one of their own, if the database says.
    pub default: Option<u32>,
    /// Of zones.
    pub zones: BTreeMap<u16, u32>,
}

impl ZoneLimits {
    /// The database sets none.
    pub fn is_empty(&self) -> bool {
        *self == ZoneLimits::default()
    }
}

/// A row of `Datapath`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datapath {
    /// The row's name.
    pub uuid: Uuid,
    /// `system` or `netdev`.
    pub kind: String,
    /// Timeouts of zones.
    pub policies: Policies,
    /// Limits of zones.
    pub limits: ZoneLimits,
    /// Limits and timeouts that are not applied.
    pub notes: Notes,
}

impl Datapath {
    pub(crate) fn all(reader: &Reader<'_>, root: &Row) -> Vec<Datapath> {
        let Some(Datum::Map(datapaths)) = root.get("datapaths") else { return Vec::new() };
        let one = |(kind, uuid): (&Atom, &Atom)| {
            let (Atom::String(kind), Atom::Uuid(uuid)) = (kind, uuid) else { return None };
            let row = reader.database.row("Datapath", *uuid)?;
            let mut notes = Notes::default();
            let policies = policies(reader, row, &mut notes);
            let limits = limits(reader, row);
            Some(Datapath { uuid: *uuid, kind: kind.clone(), policies, limits, notes })
        };
        let mut all: Vec<Datapath> = datapaths.iter().filter_map(one).collect();
        // There is one datapath, which both types name.
        let mut seen: BTreeMap<u16, (String, Policy)> = BTreeMap::new();
        for datapath in &mut all {
            for (zone, policy) in &datapath.policies {
                match seen.get(zone) {
                    Some((kind, other)) if other != policy => datapath.notes.add(format!(
                        "zone {zone}: datapath {kind} gives it other timeouts; there is one datapath, and those hold"
                    )),
                    _ => drop(seen.insert(*zone, (datapath.kind.clone(), policy.clone()))),
                }
            }
        }
        Datapath::compare_limits(&mut all);
        all
    }

    /// Limits that another datapath gives a zone are told.
    fn compare_limits(all: &mut [Datapath]) {
        let mut seen: BTreeMap<Option<u16>, (String, u32)> = BTreeMap::new();
        for datapath in all {
            let default = datapath.limits.default.map(|limit| (None, limit));
            let zones = datapath.limits.zones.iter().map(|(zone, limit)| (Some(*zone), *limit));
            for (zone, limit) in default.into_iter().chain(zones) {
                match seen.get(&zone) {
                    Some((kind, other)) if *other != limit => {
                        let of =
                            zone.map_or("the default".to_owned(), |zone| format!("zone {zone}"));
                        datapath.notes.add(format!(
                            "limit of {of}: datapath {kind} says {other}; there is one datapath, and that holds"
                        ));
                    }
                    _ => drop(seen.insert(zone, (datapath.kind.clone(), limit))),
                }
            }
        }
    }

    /// Of several: what the first one says of a zone.
    pub(crate) fn limits_together(all: &[Datapath]) -> ZoneLimits {
        let mut together = ZoneLimits::default();
        for datapath in all {
            together.default = together.default.or(datapath.limits.default);
            for (zone, limit) in &datapath.limits.zones {
                together.zones.entry(*zone).or_insert(*limit);
            }
        }
        together
    }

    /// Of several, by zone: the first one that says something of a zone.
    pub(crate) fn together(all: &[Datapath]) -> Policies {
        let mut together = Policies::new();
        for (zone, policy) in all.iter().flat_map(|datapath| &datapath.policies) {
            together.entry(*zone).or_insert_with(|| policy.clone());
        }
        together
    }
}

/// The schema bounds what the columns hold.
fn limits(reader: &Reader<'_>, row: &Row) -> ZoneLimits {
    let limit =
        |row: &Row, column: &str| row.integer(column).and_then(|limit| u32::try_from(limit).ok());
    let default = limit(row, "ct_zone_default_limit");
    let Some(Datum::Map(zones)) = row.get("ct_zones") else {
        return ZoneLimits { default, ..ZoneLimits::default() };
    };
    let one = |(zone, uuid): (&Atom, &Atom)| {
        let (Atom::Integer(zone), Atom::Uuid(uuid)) = (zone, uuid) else { return None };
        let row = reader.database.row("CT_Zone", *uuid)?;
        Some((u16::try_from(*zone).ok()?, limit(row, "limit")?))
    };
    ZoneLimits { default, zones: zones.iter().filter_map(one).collect() }
}

fn policies(reader: &Reader<'_>, row: &Row, notes: &mut Notes) -> Policies {
    let Some(Datum::Map(zones)) = row.get("ct_zones") else { return Policies::new() };
    let one = |(zone, uuid): (&Atom, &Atom)| {
        let (Atom::Integer(zone), Atom::Uuid(uuid)) = (zone, uuid) else { return None };
        let zone = u16::try_from(*zone).ok()?;
        let row = reader.database.row("CT_Zone", *uuid)?;
        let policy = row.uuids("timeout_policy").next()?;
        let policy = reader.database.row("CT_Timeout_Policy", policy)?;
        let Some(Datum::Map(timeouts)) = policy.get("timeouts") else { return None };
        let mut read = Policy::new();
        for (key, value) in timeouts {
            let (Atom::String(key), Atom::Integer(value)) = (key, value) else { continue };
            let Ok(seconds) = u32::try_from(*value) else { continue };
            if reader.can(notes, Feature::Timeout(key.clone())) {
                read.insert(key.clone(), seconds);
            }
        }
        (!read.is_empty()).then_some((zone, read))
    };
    zones.iter().filter_map(one).collect()
}
