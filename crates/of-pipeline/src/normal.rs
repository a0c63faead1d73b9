//! Learning for NORMAL (1.3.5 §4.5): which station is where, in each VLAN.
//!
//! The program looks a packet's source up among known (VLAN, address, port) triples and sends a
//! digest for an unknown one; it sends to known (VLAN, address) pairs by their port and floods the
//! rest. Here digests become entries of both tables. A station that moves changes its port; one that
//! is silent for [`AGEING_S`] is forgotten, by the idle timeout of its source entry; those of a port
//! that goes down are forgotten at once, so that traffic floods to where they may be now.
//!
//! Invariants: a station has exactly one entry in each of the two tables.
//! Bounded by the tables' capacity: beyond it stations are not learnt, and traffic to them floods.

use crate::agent::Agent;
use crate::refusal::Refusal;
use crate::transaction::Transaction;
use hashbrown::HashMap;
use ir::{ActionCall, Bits, Entry, EntryId, KeyMatch, Update};
use std::sync::Arc;

/// A station is forgotten after so long without a packet from it, in seconds (IEEE 802.1Q §8.8.3).
pub const AGEING_S: u16 = 300;

/// A station's VLAN (0 untagged) and address.
type Place = (u16, u64);

#[derive(Clone, Copy, Debug)]
struct Station {
    port: u32,
    source: EntryId,
    destination: EntryId,
}

/// The stations that NORMAL knows.
#[derive(Debug, Default)]
pub struct Stations {
    known: HashMap<Place, Station>,
    by_source: HashMap<EntryId, Place>,
}

impl Stations {
    /// How many are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// None is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Where a station is: its port.
    pub fn port(&self, vlan: u16, mac: u64) -> Option<u32> {
        self.known.get(&(vlan, mac)).map(|s| s.port)
    }

    /// All stations: VLAN, address, port.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64, u32)> {
        self.known.iter().map(|((vlan, mac), s)| (*vlan, *mac, s.port))
    }

    fn insert(&mut self, place: Place, station: Station) {
        self.by_source.insert(station.source, place);
        if let Some(old) = self.known.insert(place, station)
            && old.source != station.source
        {
            self.by_source.remove(&old.source);
        }
    }

    fn remove(&mut self, place: Place) {
        if let Some(station) = self.known.remove(&place) {
            self.by_source.remove(&station.source);
        }
    }
}

fn entry(
    id: EntryId,
    (matches, action): (Box<[KeyMatch]>, ActionCall),
    idle_timeout_s: u16,
) -> Arc<Entry> {
    Arc::new(Entry {
        id,
        priority: 0,
        matches,
        action,
        cookie: 0,
        idle_timeout_ns: crate::flow_mod::timeout_ns(idle_timeout_s),
        hard_timeout_ns: 0,
    })
}

impl Agent {
    /// A digest came: a packet of an unknown source.
    pub(crate) fn learn(&mut self, args: &[Bits]) {
        let at = |i: usize| args.get(i).map_or(0, Bits::low_u64);
        let (vlan, mac, port) = (at(0) as u16, at(1), at(2) as u32);
        // A digest may be older than the port's going down.
        if !self.switch.port(port).is_some_and(|view| view.is_live()) {
            return;
        }
        if let Err(refusal) = self.place_station((vlan, mac), port) {
            tracing::debug!(vlan, mac = format_args!("{mac:012x}"), port, %refusal, "not learnt");
        }
    }

    fn place_station(&mut self, place: Place, port: u32) -> Result<(), Refusal> {
        let old = self.stations.known.get(&place).copied();
        // Several packets of a source may have asked before the first was answered.
        if old.is_some_and(|old| old.port == port) {
            return Ok(());
        }
        let layout = self.layout.clone();
        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        let source = tx.take_entry_id()?;
        let (vlan, mac) = place;
        let to = |id| entry(id, layout.normal_dst_entry(vlan, mac, port), 0);
        let destination = match old {
            Some(old) => {
                tx.push(Update::Delete(layout.normal_src, old.source));
                tx.spend(old.source.0);
                tx.push(Update::Modify(layout.normal_dst, to(old.destination)));
                old.destination
            }
            None => {
                let id = tx.take_entry_id()?;
                tx.push(Update::Insert(layout.normal_dst, to(id)));
                id
            }
        };
        let from = entry(source, layout.normal_src_entry(vlan, mac, port), AGEING_S);
        tx.push(Update::Insert(layout.normal_src, from));
        tx.commit()?.retire(&self.switch);
        self.stations.insert(place, Station { port, source, destination });
        Ok(())
    }

    /// Stations that were silent for too long.
    pub(crate) fn expire_stations(&mut self, sources: &[EntryId]) {
        let places =
            sources.iter().filter_map(|id| self.stations.by_source.get(id).copied()).collect();
        self.remove_stations(places);
    }

    /// The stations behind a port may be anywhere now.
    pub(crate) fn forget_stations(&mut self, port: u32) {
        let behind = self.stations.known.iter().filter(|(_, s)| s.port == port);
        let places = behind.map(|(place, _)| *place).collect();
        self.remove_stations(places);
    }

    fn remove_stations(&mut self, places: Vec<Place>) {
        if places.is_empty() {
            return;
        }
        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        for place in &places {
            if let Some(station) = self.stations.known.get(place) {
                tx.push(Update::Delete(self.layout.normal_src, station.source));
                tx.push(Update::Delete(self.layout.normal_dst, station.destination));
                tx.spend(station.source.0);
                tx.spend(station.destination.0);
            }
        }
        match tx.commit() {
            Ok(spent) => {
                spent.retire(&self.switch);
                places.into_iter().for_each(|place| self.stations.remove(place));
            }
            Err(refusal) => tracing::error!(%refusal, "stations stay"),
        }
    }
}
