//! Learning for NORMAL (1.3.5 §4.5): which station is where, in each VLAN.
//!
//! The program looks a packet's source up among known (VLAN, address, port) triples and sends a
//! digest for an unknown one; it sends to known (VLAN, address) pairs by their port and floods the
//! rest. Here digests become entries of both tables. A station that moves changes its port; one that
//! is silent for [`AGEING_S`], or as long as is configured, is forgotten, by the idle timeout of its source entry; those of a port
//! that goes down are forgotten at once, so that traffic floods to where they may be now.
//!
//! Ports share the tables' room. When it is full, a new station takes the place of one of the port that
//! has most, the one there that was not heard of for longest: so a flood of addresses at
//! one port costs the stations of the others nothing. Stations give way at [`EVICTIONS`] a second at
//! most, dealt fairly among the ports that ask; beyond it they are not learnt, and traffic to them
//! floods. Both are counted (`stations_evicted`, `stations_not_learnt`).
//!
//! Ports that are bonded are one place, the bond's number. What a bond that balances by source sends may come back by
//! another member; so that it is not learnt there, all stations are in a third table while there is such a bond, and one
//! that said by a gratuitous ARP where it is stays there for [`LOCKED_NS`].
//!
//! A station that somebody has put at a port stays there ([`fixed`]).
//!
//! Invariants: a station has exactly one entry in each of the tables; `behind` and `sizes` hold
//! exactly the stations that are known and may give way.
//! Bounded by the tables' capacity.

mod fixed;

pub use fixed::StationRefusal;

use crate::env::Env;
use crate::flow::timeout_ns;
use crate::refusal::Refusal;
use crate::stage::{Batch, Stage};
pub use crate::vlans::AGEING_S;
use crate::vlans::NormalConfig;
use hashbrown::HashMap;
use ir::{ActionCall, Bits, Entry, EntryId, KeyMatch, Update};
use of_lower::Layout;
use of_lower::normal::bond::moved_matches;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use switch::{FairLimit, Switch};

/// Stations that give way to others, a second and at once, at most.
const EVICTIONS: u64 = 2000;
const EVICTIONS_AT_ONCE: u64 = 512;
/// Stations that are looked at for one that has been silent, at most.
const CHANCES: usize = 64;
/// That stations give way is said again after so long.
const FULL_AGAIN_NS: u64 = 60_000_000_000;
/// A station that said by ARP where it is stays there for so long, whatever comes back by a bond.
const LOCKED_NS: u64 = 5_000_000_000;

/// A station's VLAN (0 untagged) and address.
type Place = (u16, u64);

#[derive(Clone, Copy, Debug)]
struct Station {
    port: u32,
    source: EntryId,
    destination: EntryId,
    /// That it is known, for bonds whose own packets may come back.
    known: Option<EntryId>,
    /// It has said at a port where it is: until then no bond is believed that says otherwise.
    locked_ns: u64,
    /// Somebody has put it there: it stays.
    fixed: bool,
    /// Its place among those of its port.
    turn: u64,
    /// When it was learnt or, if it was looked at since, when its last packet had come.
    seen_ns: u64,
}

/// The stations that NORMAL knows.
#[derive(Debug, Default)]
pub struct Stations {
    known: HashMap<Place, Station>,
    by_source: HashMap<EntryId, Place>,
    /// By port, by when they were seen last and their turn: the one first that gives way first.
    behind: HashMap<u32, BTreeMap<(u64, u64), Place>>,
    /// How many there are behind each port.
    sizes: BTreeSet<(usize, u32)>,
    turns: u64,
    limit: Option<FairLimit>,
    full_said_ns: Option<u64>,
    /// Ports that are no trunks of all VLANs, and those of mirrors, behind which nobody is.
    vlans: NormalConfig,
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

    /// The port, or a bond's first member.
    fn shown(&self, bundle: u32) -> u32 {
        let bond = self.vlans.bond(bundle);
        bond.and_then(|bond| bond.members.keys().next().copied()).unwrap_or(bundle)
    }

    /// Where a station is: its port, or its bond's first one.
    pub fn port(&self, vlan: u16, mac: u64) -> Option<u32> {
        self.known.get(&(vlan, mac)).map(|s| self.shown(s.port))
    }

    /// All stations: VLAN, address, port.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64, u32)> {
        self.known.iter().map(|((vlan, mac), s)| (*vlan, *mac, self.shown(s.port)))
    }

    /// The same, and when the last packet of each had come, by the clock of the switch that they are at; none of those that
    /// stay. The one that was not heard of for longest comes first; one that stays is as of when it was put there.
    pub fn seen(&self, switch: &Switch) -> impl Iterator<Item = (u16, u64, u32, Option<u64>)> {
        let of = |((vlan, mac), s): (&Place, &Station)| {
            let used_ns = switch.counter(s.source.0).last_used_ns.unwrap_or(0);
            let last_ns = if s.fixed { s.seen_ns } else { used_ns.max(s.seen_ns) };
            let seen_ns = (!s.fixed).then_some(last_ns);
            ((last_ns, s.turn), (*vlan, *mac, self.shown(s.port), seen_ns))
        };
        let mut all: Vec<_> = self.known.iter().map(of).collect();
        all.sort_unstable_by_key(|(last, _)| *last);
        all.into_iter().map(|(_, station)| station)
    }

    /// What ports are told of VLANs. Those behind a port that changed are to be forgotten.
    pub(crate) fn set_vlans(&mut self, config: &NormalConfig) {
        self.vlans = config.clone();
    }

    /// How many there may be.
    pub(crate) fn most(&self, env: &Env) -> usize {
        self.vlans.stations.most(env.config.program.normal_capacity) as usize
    }

    fn insert(&mut self, place: Place, mut station: Station) {
        self.remove(place);
        self.turns += 1;
        station.turn = self.turns;
        self.by_source.insert(station.source, place);
        if !station.fixed {
            self.line_up(station.port, |line| {
                line.insert((station.seen_ns, station.turn), place);
            });
        }
        self.known.insert(place, station);
    }

    fn remove(&mut self, place: Place) {
        if let Some(station) = self.known.remove(&place) {
            self.by_source.remove(&station.source);
            if !station.fixed {
                self.line_up(station.port, |line| {
                    line.remove(&(station.seen_ns, station.turn));
                });
            }
        }
    }

    /// Changes who is behind a port.
    fn line_up(&mut self, port: u32, change: impl FnOnce(&mut BTreeMap<(u64, u64), Place>)) {
        let line = self.behind.entry(port).or_default();
        self.sizes.remove(&(line.len(), port));
        change(line);
        let size = line.len();
        if size == 0 {
            self.behind.remove(&port);
        } else {
            self.sizes.insert((size, port));
        }
    }

    /// Who gives way to a new station of a port: of the port that has most, in doubt of another than the new one's
    /// own, the one that was not heard of for longest. Where more than [`CHANCES`] were heard of since they were looked at
    /// last, one of those.
    fn victim(&mut self, port: u32, used_ns: impl Fn(EntryId) -> u64) -> Option<Place> {
        let (most, greediest) = *self.sizes.last()?;
        let mut equals = self.sizes.iter().rev().take_while(|(size, _)| *size == most);
        let from = equals.find(|(_, other)| *other != port).map_or(greediest, |(_, other)| *other);
        for _ in 0..CHANCES {
            let (_, place) = self.behind.get(&from)?.first_key_value()?;
            let place = *place;
            let mut station = *self.known.get(&place)?;
            let used = used_ns(station.source);
            if used <= station.seen_ns {
                return Some(place);
            }
            station.seen_ns = used;
            self.insert(place, station);
        }
        self.behind.get(&from)?.first_key_value().map(|(_, place)| *place)
    }

    /// Whether one more may give way now.
    fn may_evict(&mut self, port: u32, now_ns: u64) -> bool {
        let fresh = || FairLimit::new(EVICTIONS, EVICTIONS_AT_ONCE, now_ns);
        self.limit.get_or_insert_with(fresh).admit(port, now_ns)
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
        idle_timeout_ns: timeout_ns(idle_timeout_s),
        hard_timeout_ns: 0,
    })
}

/// A station is not one of those that a bond's own packets may come from.
fn forget_known(tx: &mut Batch<'_>, layout: &Layout, station: &Station) {
    if let (Some(id), Some(table)) = (station.known, layout.vlans.bonds.moved) {
        tx.push(Update::Delete(table, id));
        tx.spend(id.0);
    }
}

impl Stations {
    /// A digest came: a packet of an unknown source.
    pub(crate) fn learn(&mut self, env: &Env, stage: &mut Stage, args: &[Bits]) {
        let at = |i: usize| args.get(i).map_or(0, Bits::low_u64);
        let (vlan, mac, port, arp) = (at(0) as u16, at(1), at(2) as u32, at(3) == 1);
        let bonded = self.vlans.bond(port).is_some();
        // A digest may be older than the port's going down, or its coming to a bond.
        let live = || env.switch.port(port).is_some_and(|view| view.is_up());
        let alone = || !self.vlans.is_mirrors(port) && self.vlans.bond_of(port).is_none();
        if !(bonded || live() && alone()) {
            return;
        }
        let now_ns = env.switch.now_ns();
        let elsewhere = self.known.get(&(vlan, mac)).filter(|old| old.port != port);
        if elsewhere.is_some_and(|old| old.fixed) {
            env.switch.tally("stations_fixed", 1);
            return;
        }
        if bonded && arp && elsewhere.is_some_and(|old| old.locked_ns > now_ns) {
            env.switch.tally("stations_locked", 1);
            return;
        }
        match self.place(env, stage, (vlan, mac), (port, false)) {
            Ok(true) => {}
            Ok(false) => env.switch.tally("stations_not_learnt", 1),
            Err(refusal) => {
                env.switch.tally("stations_not_learnt", 1);
                tracing::warn!(vlan, mac = format_args!("{mac:012x}"), port, %refusal, "a station is not learnt");
            }
        }
        if arp
            && !bonded
            && let Some(station) = self.known.get_mut(&(vlan, mac))
        {
            station.locked_ns = now_ns + LOCKED_NS;
        }
    }

    /// Who gives way to a new station of a port, if there is no room; an error if nobody may.
    fn makes_room(&mut self, env: &Env, port: u32) -> Result<Option<Place>, ()> {
        let most = self.most(env);
        if self.len() < most {
            return Ok(None);
        }
        if self.sizes.is_empty() {
            // All of them stay.
            return Err(());
        }
        let now_ns = env.switch.now_ns();
        if !self.may_evict(port, now_ns) {
            return Err(());
        }
        let said = self.full_said_ns;
        if said.is_none_or(|said| now_ns.saturating_sub(said) >= FULL_AGAIN_NS) {
            self.full_said_ns = Some(now_ns);
            let greediest = self.sizes.last().copied().unwrap_or_default();
            tracing::warn!(
                stations = most,
                port_with_most = greediest.1,
                its_stations = greediest.0,
                "all places for stations are taken; the oldest of the port that has most give way"
            );
        }
        let switch = &env.switch;
        let used_ns = |source: EntryId| switch.counter(source.0).last_used_ns.unwrap_or(0);
        Ok(self.victim(port, used_ns))
    }

    /// A station is behind a port from now on, where it stays if `fixed`. Says whether there is room for it.
    fn place(
        &mut self,
        env: &Env,
        stage: &mut Stage,
        place: Place,
        (port, fixed): (u32, bool),
    ) -> Result<bool, Refusal> {
        let old = self.known.get(&place).copied();
        // Several packets of a source may have asked before the first was answered.
        if old.is_some_and(|old| old.port == port && (old.fixed || !fixed)) {
            return Ok(true);
        }
        let victim = match old {
            Some(_) => None,
            None => match self.makes_room(env, port) {
                Ok(victim) => victim,
                Err(()) => return Ok(false),
            },
        };
        let layout = &env.layout;
        let mut tx = Batch::new(&env.switch, stage);
        if let Some(gone) = victim.and_then(|victim| self.known.get(&victim)) {
            tx.push(Update::Delete(layout.normal_src, gone.source));
            tx.push(Update::Delete(layout.normal_dst, gone.destination));
            tx.spend(gone.source.0);
            tx.spend(gone.destination.0);
            forget_known(&mut tx, layout, gone);
        }
        let source = tx.take_entry_id()?;
        let (vlan, mac) = place;
        let vlans = self.vlans.ports.get(&port);
        let to = |id| entry(id, layout.normal_dst_entry(vlan, mac, port, vlans), 0);
        let known = match (old.and_then(|old| old.known), layout.vlans.bonds.moved) {
            (None, Some(table)) => {
                let id = tx.take_entry_id()?;
                let what = (moved_matches(vlan, mac), layout.vlans.bonds.reflected());
                tx.push(Update::Insert(table, entry(id, what, 0)));
                Some(id)
            }
            (known, _) => known,
        };
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
        let age_s = if fixed { 0 } else { self.vlans.stations.age_s };
        let from = entry(source, layout.normal_src_entry(vlan, mac, port), age_s);
        tx.push(Update::Insert(layout.normal_src, from));
        tx.commit()?.retire(&env.switch);
        if let Some(victim) = victim {
            self.remove(victim);
            env.switch.tally("stations_evicted", 1);
        }
        let seen_ns = env.switch.now_ns();
        let (turn, locked_ns) = (0, 0);
        let new = Station { port, source, destination, known, locked_ns, fixed, turn, seen_ns };
        self.insert(place, new);
        Ok(true)
    }

    /// Room or age have changed: those that are too many go, first those that were heard of longest ago, and the others
    /// stay for as long as is said now.
    pub(crate) fn set_bounds(&mut self, env: &Env, stage: &mut Stage) {
        let most = self.most(env);
        if self.len() > most {
            let seen = self.seen(&env.switch);
            let mut all: Vec<(u64, Place)> =
                seen.filter_map(|(vlan, mac, _, seen)| Some((seen?, (vlan, mac)))).collect();
            all.sort_unstable();
            // Those that stay may be too many by themselves.
            let gone = (self.len() - most).min(all.len());
            env.switch.tally("stations_evicted", gone as u64);
            let places = all.into_iter().take(gone).map(|(_, place)| place).collect();
            self.remove_all(env, stage, places);
        }
        let age_s = self.vlans.stations.age_s;
        let mut tx = Batch::new(&env.switch, stage);
        for ((vlan, mac), station) in self.known.iter().filter(|(_, station)| !station.fixed) {
            let of = env.layout.normal_src_entry(*vlan, *mac, station.port);
            tx.push(Update::Modify(env.layout.normal_src, entry(station.source, of, age_s)));
        }
        match tx.commit() {
            Ok(spent) => spent.retire(&env.switch),
            Err(refusal) => tracing::error!(%refusal, "stations stay as long as before"),
        }
    }

    /// Stations that were silent for too long.
    pub(crate) fn expire(&mut self, env: &Env, stage: &mut Stage, sources: &[EntryId]) {
        let places = sources.iter().filter_map(|id| self.by_source.get(id).copied()).collect();
        self.remove_all(env, stage, places);
    }

    /// The stations behind a port may be anywhere now, but those that stay, unless all go.
    pub(crate) fn forget_port(&mut self, env: &Env, stage: &mut Stage, port: u32, all: bool) {
        let behind = self.known.iter().filter(|(_, s)| s.port == port && (all || !s.fixed));
        let places = behind.map(|(place, _)| *place).collect();
        self.remove_all(env, stage, places);
    }

    /// These may be anywhere now, but those that stay.
    pub(crate) fn forget_these(&mut self, env: &Env, stage: &mut Stage, places: &[(u16, u64)]) {
        let goes = |place: &&Place| self.known.get(*place).is_some_and(|station| !station.fixed);
        let gone = places.iter().filter(goes).copied().collect();
        self.remove_all(env, stage, gone);
    }

    /// All stations may be anywhere now, but those that stay, unless all go. Says how many there were.
    pub(crate) fn forget_all(&mut self, env: &Env, stage: &mut Stage, all: bool) -> usize {
        let before = self.len();
        let gone = self.known.iter().filter(|(_, station)| all || !station.fixed);
        let places = gone.map(|(place, _)| *place).collect();
        self.remove_all(env, stage, places);
        before - self.len()
    }

    fn remove_all(&mut self, env: &Env, stage: &mut Stage, places: Vec<Place>) {
        if places.is_empty() {
            return;
        }
        let mut tx = Batch::new(&env.switch, stage);
        for place in &places {
            if let Some(station) = self.known.get(place) {
                tx.push(Update::Delete(env.layout.normal_src, station.source));
                tx.push(Update::Delete(env.layout.normal_dst, station.destination));
                tx.spend(station.source.0);
                tx.spend(station.destination.0);
                forget_known(&mut tx, &env.layout, station);
            }
        }
        match tx.commit() {
            Ok(spent) => {
                spent.retire(&env.switch);
                places.into_iter().for_each(|place| self.remove(place));
            }
            Err(refusal) => tracing::error!(%refusal, "stations stay"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(port: u32, n: u32, seen_ns: u64) -> Station {
        let (source, destination) = (EntryId(2 * n), EntryId(2 * n + 1));
        let (known, locked_ns, fixed, turn) = (None, 0, false, 0);
        Station { port, source, destination, known, locked_ns, fixed, turn, seen_ns }
    }

    /// So many stations behind each port, each learnt after the one before.
    fn stations(sizes: &[(u32, u32)]) -> Stations {
        let (mut stations, mut n) = (Stations::default(), 0);
        for (port, size) in sizes {
            for _ in 0..*size {
                stations.insert((0, n.into()), station(*port, n, n.into()));
                n += 1;
            }
        }
        stations
    }

    fn silent(_: EntryId) -> u64 {
        0
    }

    #[test]
    fn the_port_with_most_gives_way_oldest_first() {
        let mut all = stations(&[(1, 5), (2, 2), (3, 3)]);
        for expected in 0..2 {
            let victim = all.victim(2, silent).unwrap();
            assert_eq!((victim, all.known[&victim].port), ((0, expected), 1));
            all.remove(victim);
        }
        // Port 1 and port 3 have three each: as in Open vSwitch, another port than the one that asks gives way.
        assert_eq!(all.victim(3, silent), Some((0, 2)));
        assert_eq!(all.victim(1, silent), Some((0, 7)));
        all.insert((0, 99), station(3, 99, 99));
        assert_eq!(all.victim(3, silent), Some((0, 7)), "a port that has most gives way itself");
        all.remove((0, 99));
        assert!(all.victim(9, silent).is_some());
        assert_eq!(Stations::default().victim(1, silent), None);
    }

    #[test]
    fn who_was_heard_of_stays_but_not_for_ever() {
        let mut all = stations(&[(1, 4), (2, 1)]);
        // Stations 0 and 1 have sent something since they were learnt.
        let used = |id: EntryId| if id.0 < 4 { 1000 } else { 0 };
        assert_eq!(all.victim(2, used), Some((0, 2)));
        assert_eq!(all.victim(2, used), Some((0, 2)), "asked again, the answer is the same");
        all.remove((0, 2));
        all.remove((0, 3));
        assert_eq!(all.victim(1, used), Some((0, 0)), "nothing was heard since it was looked at");
        let mut busy = stations(&[(1, 20)]);
        let clock = std::cell::Cell::new(1000);
        let always = |_: EntryId| {
            clock.set(clock.get() + 1);
            clock.get()
        };
        assert!(busy.victim(2, always).is_some(), "where all are busy one goes");
    }

    #[test]
    fn who_is_behind_which_port_follows_moves_and_removals() {
        let mut all = stations(&[(1, 3), (2, 3)]);
        all.insert((0, 0), station(2, 0, 9));
        assert_eq!(all.sizes.iter().copied().collect::<Vec<_>>(), [(2, 1), (4, 2)]);
        all.remove((0, 1));
        all.remove((0, 2));
        all.remove((0, 2));
        assert_eq!(all.sizes.iter().copied().collect::<Vec<_>>(), [(4, 2)]);
        assert!(!all.behind.contains_key(&1));
        let by_port: usize = all.behind.values().map(BTreeMap::len).sum();
        assert_eq!((by_port, all.by_source.len()), (all.len(), all.len()));
    }
}
