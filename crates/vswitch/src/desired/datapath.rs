//! `Datapath`, `CT_Zone`, `CT_Timeout_Policy`: what a datapath can do, and timeouts of connections by zone.

use super::notes::Notes;
use super::reader::Reader;
use crate::feature::Feature;
use ovsdb::{Atom, Datum, Row, Uuid};

/// A row of `Datapath`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datapath {
    /// The row's name.
    pub uuid: Uuid,
    /// `system` or `netdev`.
    pub kind: String,
    /// Zones with a timeout policy that is not applied.
    pub notes: Notes,
}

impl Datapath {
    pub(crate) fn all(reader: &Reader<'_>, root: &Row) -> Vec<Datapath> {
        let Some(Datum::Map(datapaths)) = root.get("datapaths") else { return Vec::new() };
        let one = |(kind, uuid): (&Atom, &Atom)| {
            let (Atom::String(kind), Atom::Uuid(uuid)) = (kind, uuid) else { return None };
            let row = reader.database.row("Datapath", *uuid)?;
            let mut notes = Notes::default();
            let zones = row.get("ct_zones").map_or(0, Datum::len);
            if zones > 0 {
                reader.can(&mut notes, Feature::TimeoutPolicy);
            }
            Some(Datapath { uuid: *uuid, kind: kind.clone(), notes })
        };
        datapaths.iter().filter_map(one).collect()
    }
}
