//! What the database asks for, as types: one file for each table.
//!
//! In: a [`Database`] of the columns in [`columns`], and what the switch lacks. Out: settings that the switch can have, and
//! beside them what was asked for and is not done. Such a [`Notes`] goes back to the row that asked.
//!
//! Holds true: the same database gives the same settings; nothing in a row is dropped without a note. A column that a
//! newer schema adds is not followed, so it is not known here.

pub mod bond;
pub mod bridge;
pub mod columns;
pub mod controller;
pub mod datapath;
pub mod flow_table;
pub mod interface;
mod known;
pub mod mirror;
pub mod notes;
pub mod port;
pub mod qos;
mod reader;
pub mod root;
#[cfg(test)]
mod tests;

use crate::feature::Feature;
use bridge::Bridge;
use datapath::{Datapath, Policies, ZoneLimits};
use known::Known;
use ovsdb::Database;
use reader::Reader;
use root::Root;
use std::collections::BTreeMap;

/// All that the database asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// The row of `Open_vSwitch`.
    pub root: Option<Root>,
    /// Bridges by name.
    pub bridges: BTreeMap<String, Bridge>,
}

impl Desired {
    /// From a database, for a switch that lacks what `lacks` says.
    pub fn of(database: &Database, lacks: &dyn Fn(&Feature) -> Option<String>) -> Desired {
        Desired::after(database, lacks, None)
    }

    /// The same, faster where it is known what an earlier database asked for.
    pub fn after(
        database: &Database,
        lacks: &dyn Fn(&Feature) -> Option<String>,
        before: Option<(&Database, &Desired)>,
    ) -> Desired {
        let (reader, mut known) = (Reader { database, lacks }, Known::default());
        if let Some((before, desired)) = before {
            known.changed = database.changes(before).into_iter().map(|(_, uuid, _)| uuid).collect();
            let ports = desired.bridges.values().flat_map(|bridge| bridge.ports.values());
            known.ports = ports.filter_map(|port| Some((port.uuid?, port.clone()))).collect();
        }
        let Some((uuid, row)) = database.only("Open_vSwitch") else { return Desired::default() };
        let bridges = row
            .uuids("bridges")
            .filter_map(|uuid| {
                Some(Bridge::of(&reader, &known, uuid, database.row("Bridge", uuid)?))
            })
            .map(|bridge| (bridge.settings.name.clone(), bridge))
            .collect();
        Desired { root: Some(Root::of(&reader, uuid, row)), bridges }
    }

    /// Timeouts of connections by zone.
    pub fn timeouts(&self) -> Policies {
        self.root.as_ref().map_or_else(Policies::new, |root| Datapath::together(&root.datapaths))
    }

    /// Limits on connections by zone.
    pub fn zone_limits(&self) -> ZoneLimits {
        let root = self.root.as_ref();
        root.map_or_else(ZoneLimits::default, |root| Datapath::limits_together(&root.datapaths))
    }

    /// Everything that was asked for and is not done, with the row's name in front.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let root = self.root.iter().flat_map(|root| {
            let own = root.notes.iter().map(str::to_owned);
            own.chain(root.datapaths.iter().flat_map(|datapath| {
                let kind = &datapath.kind;
                datapath.notes.iter().map(move |note| format!("datapath {kind}: {note}"))
            }))
        });
        root.chain(self.bridges.values().flat_map(|bridge| {
            let name = &bridge.settings.name;
            let own = bridge.notes.iter().map(move |note| format!("bridge {name}: {note}"));
            let ports = bridge.ports.values().flat_map(|port| {
                let name = &port.settings.name;
                let own = port.notes.iter().map(move |note| format!("port {name}: {note}"));
                own.chain(port.interfaces.values().flat_map(|interface| {
                    let name = &interface.settings.name;
                    let notes = interface.notes.iter();
                    notes.map(move |note| format!("interface {name}: {note}"))
                }))
            });
            own.chain(ports)
        }))
    }
}
