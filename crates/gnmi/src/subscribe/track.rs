//! What a stream has told of each leaf, and what is due.
//!
//! A leaf whose update finds no room waits: what it is when there is room is told, with the number of values that were
//! lost meanwhile (`duplicates`). So a slow client misses what was between, and never the last value.

use crate::fault::{Fault, fault};
use crate::interface::{Interface, Snapshot};
use crate::path::Frame;
use crate::proto::subscribe_response::Response;
use crate::proto::{Notification, SubscribeResponse};
use crate::schema::LEAVES;
use crate::subscribe::plan::{Entry, Plan, When};
use crate::tree::Style;
use crate::value::{Value, Written};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

/// Leaves that a stream keeps the last values of, at most.
pub const TOLD_MAX: usize = 1 << 18;
/// It is looked so often whether something was missed.
const RECHECK: Duration = Duration::from_secs(1);
/// What has found no room is tried so much later.
const RETRY: Duration = Duration::from_millis(50);

/// What was told of a leaf.
#[derive(Clone, Debug, Default)]
struct Told {
    value: Option<Value>,
    /// Values that found no room since.
    lost: u32,
}

/// An entry's leaves.
#[derive(Debug)]
struct Track {
    entry: Entry,
    told: BTreeMap<String, Vec<Told>>,
    /// When it is looked at next.
    next: Instant,
    heartbeat: Option<Instant>,
    /// Some found no room.
    waiting: bool,
}

/// Where notifications go.
pub trait Room {
    /// Takes one, if there is room.
    fn offer(&mut self, response: SubscribeResponse) -> bool;
}

/// All entries of a stream.
#[derive(Debug)]
pub struct Tracks {
    written: Written,
    frame: Frame,
    all: Vec<Track>,
    /// Updates that found no room.
    lost: u64,
}

impl Tracks {
    /// Nothing was told.
    pub fn new(plan: &Plan, now: Instant) -> Tracks {
        let track = |entry: &Entry| {
            let (first, heartbeat) = match entry.when {
                When::Changes { heartbeat } => (RECHECK, heartbeat),
                When::Samples { interval, heartbeat, .. } => (interval, heartbeat),
            };
            Track {
                entry: entry.clone(),
                told: BTreeMap::new(),
                next: now + first,
                heartbeat: heartbeat.map(|after| now + after),
                waiting: false,
            }
        };
        let all = plan.entries.iter().map(track).collect();
        Tracks { written: plan.written, frame: plan.frame.clone(), all, lost: 0 }
    }

    /// Updates that found no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// When something is due.
    pub fn due(&self) -> Option<Instant> {
        self.all.iter().flat_map(|track| [Some(track.next), track.heartbeat]).flatten().min()
    }

    /// What is due by now needs counters.
    pub fn counts(&self, now: Instant) -> bool {
        let is_due = |t: &&Track| t.next <= now || t.heartbeat.is_some_and(|at| at <= now);
        let mut due = self.all.iter().filter(is_due);
        due.any(|track| track.entry.rows.iter().any(|row| LEAVES[*row].counts))
    }

    /// All that there is, as told from now on.
    pub fn begin(&mut self, snapshot: &Snapshot) -> Result<Vec<Notification>, Fault> {
        let leaves = self.all.iter().map(|t| t.of(snapshot).count() * t.entry.rows.len());
        within(leaves.sum())?;
        let style = (self.written, &self.frame);
        let mut all = Vec::new();
        for track in &mut self.all {
            for interface in track.of(snapshot) {
                all.extend(track.notification(style, interface, snapshot.at_ns, false));
                track.settle(interface);
            }
        }
        Ok(all)
    }

    /// All that there is, and nothing is kept of it.
    pub fn once<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = Notification> + 'a {
        let of = move |track: &'a Track| {
            let style = (self.written, &self.frame);
            let interfaces = track.of(snapshot);
            interfaces.filter_map(move |i| track.notification(style, i, snapshot.at_ns, false))
        };
        self.all.iter().flat_map(of)
    }

    /// An interface has changed, or has gone.
    pub fn event(
        &mut self,
        interface: &Interface,
        gone: bool,
        at_ns: i64,
        room: &mut impl Room,
    ) -> Result<(), Fault> {
        let style = (self.written, &self.frame);
        for track in self.all.iter_mut().filter(|track| track.is_of(interface)) {
            let When::Changes { .. } = track.entry.when else { continue };
            let lost = match gone {
                true => track.removed(style, &interface.name, at_ns, room),
                false => track.offer(style, interface, at_ns, true, true, room),
            };
            self.lost += lost;
            if track.waiting {
                track.next = track.next.min(Instant::now() + RETRY);
            }
        }
        self.check()
    }

    /// Tells what is due.
    pub fn tell(
        &mut self,
        now: Instant,
        snapshot: &Snapshot,
        room: &mut impl Room,
    ) -> Result<(), Fault> {
        let style = (self.written, &self.frame);
        let there: HashSet<&str> = snapshot.interfaces.iter().map(|i| &*i.name).collect();
        for track in &mut self.all {
            let beats = track.heartbeat.is_some_and(|at| at <= now);
            if track.next > now && !beats {
                continue;
            }
            let (changed, pause, counted) = match track.entry.when {
                When::Changes { .. } => (!beats, RECHECK, beats),
                When::Samples { interval, suppress, .. } => {
                    // Between samples a heartbeat tells all, too.
                    (suppress && !beats, interval, true)
                }
            };
            track.waiting = false;
            for interface in track.of(snapshot) {
                self.lost += track.offer(style, interface, snapshot.at_ns, changed, counted, room);
            }
            let gone = track.told.keys().filter(|name| !there.contains(name.as_str()));
            let gone: Vec<String> = gone.cloned().collect();
            for name in gone {
                self.lost += track.removed(style, &name, snapshot.at_ns, room);
            }
            if track.next <= now {
                // Who is late does not catch up.
                track.next = (track.next + pause).max(now + pause / 2);
            }
            if track.waiting && matches!(track.entry.when, When::Changes { .. }) {
                track.next = track.next.min(now + RETRY);
            }
            let (When::Changes { heartbeat } | When::Samples { heartbeat, .. }) = track.entry.when;
            if let (true, Some(after)) = (beats, heartbeat) {
                track.heartbeat = Some(now + after);
            }
        }
        self.check()
    }

    fn check(&self) -> Result<(), Fault> {
        within(self.all.iter().map(|track| track.told.len() * track.entry.rows.len()).sum())
    }
}

fn within(leaves: usize) -> Result<(), Fault> {
    if leaves <= TOLD_MAX {
        return Ok(());
    }
    Err(fault!(
        ResourceExhausted,
        "the stream has {leaves} leaves; there may be {TOLD_MAX}: subscribe to less"
    ))
}

fn update(notification: Notification) -> SubscribeResponse {
    let response = Some(Response::Update(notification));
    SubscribeResponse { response, ..SubscribeResponse::default() }
}

impl Track {
    fn is_of(&self, interface: &Interface) -> bool {
        self.entry.interface.as_ref().is_none_or(|name| *name == interface.name)
    }

    fn of<'a>(&self, snapshot: &'a Snapshot) -> impl Iterator<Item = &'a Interface> + use<'a> {
        let name = self.entry.interface.clone();
        let is = move |i: &&Interface| name.as_ref().is_none_or(|name| *name == i.name);
        snapshot.interfaces.iter().filter(is)
    }

    /// What is to be told of an interface; all, or what has `changed`.
    fn notification(
        &self,
        (written, frame): (Written, &Frame),
        interface: &Interface,
        at_ns: i64,
        changed: bool,
    ) -> Option<Notification> {
        let style = Style { frame, origin: &self.entry.origin, written };
        let told = self.told.get(&interface.name);
        let rows = self.entry.rows.iter().enumerate();
        let update = rows.filter_map(|(at, row)| {
            let told = told.map(|all| &all[at]);
            let value = told.and_then(|told| told.value.as_ref());
            if changed && value.is_some_and(|v| *v == (LEAVES[*row].read)(interface)) {
                return None;
            }
            let mut update = style.leaf(*row, interface);
            update.duplicates = told.map_or(0, |told| told.lost);
            Some(update)
        });
        let update: Vec<_> = update.collect();
        let prefix = frame.prefix.clone();
        (!update.is_empty()).then(|| Notification {
            timestamp: at_ns,
            prefix,
            update,
            ..Notification::default()
        })
    }

    /// Its values are what the client knows.
    fn settle(&mut self, interface: &Interface) {
        let rows = &self.entry.rows;
        let value = |row: &usize| Some((LEAVES[*row].read)(interface));
        let told = rows.iter().map(|row| Told { value: value(row), lost: 0 }).collect();
        self.told.insert(interface.name.clone(), told);
    }

    /// Tells of an interface if there is room. How many values are lost otherwise; they are `counted` unless they were
    /// before.
    fn offer(
        &mut self,
        style: (Written, &Frame),
        interface: &Interface,
        at_ns: i64,
        changed: bool,
        counted: bool,
        room: &mut impl Room,
    ) -> u64 {
        let Some(notification) = self.notification(style, interface, at_ns, changed) else {
            return 0;
        };
        if room.offer(update(notification)) {
            self.settle(interface);
            return 0;
        }
        self.waiting = true;
        let none = || vec![Told::default(); self.entry.rows.len()];
        let told = self.told.entry(interface.name.clone()).or_insert_with(none);
        let mut lost = 0;
        for (told, row) in told.iter_mut().zip(&self.entry.rows) {
            let differs = told.value.as_ref() != Some(&(LEAVES[*row].read)(interface));
            if counted && (!changed || differs) {
                told.lost = told.lost.saturating_add(1);
                lost += 1;
            }
        }
        lost
    }

    /// Tells that an interface has gone.
    fn removed(
        &mut self,
        (written, frame): (Written, &Frame),
        name: &str,
        at_ns: i64,
        room: &mut impl Room,
    ) -> u64 {
        if !self.told.contains_key(name) {
            return 0;
        }
        let style = Style { frame, origin: &self.entry.origin, written };
        let notification = Notification {
            timestamp: at_ns,
            prefix: frame.prefix.clone(),
            delete: vec![style.interface(name)],
            ..Notification::default()
        };
        if !room.offer(update(notification)) {
            self.waiting = true;
            return 1;
        }
        self.told.remove(name);
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::text;
    use crate::proto::SubscriptionMode;
    use crate::proto::typed_value::Value as Typed;
    use crate::subscribe::plan::first;
    use crate::subscribe::plan::tests::{list, request, subscription};
    use crate::tree::tests::interface;

    /// So much room.
    struct Shelf(usize, Vec<Notification>);

    impl Room for Shelf {
        fn offer(&mut self, response: SubscribeResponse) -> bool {
            let Some(Response::Update(notification)) = response.response else { panic!() };
            let fits = self.1.len() < self.0;
            if fits {
                self.1.push(notification);
            }
            fits
        }
    }

    impl Shelf {
        /// What was told, as `leaf=value`, with losses as `+N`; it is empty then.
        fn take(&mut self) -> Vec<String> {
            let each = |notification: Notification| {
                let leaf = |path: &Option<_>| text(path.as_ref().unwrap());
                let updates = notification.update.iter().map(|u| {
                    let value = match u.val.clone().unwrap().value.unwrap() {
                        Typed::StringVal(text) => text,
                        Typed::UintVal(n) => n.to_string(),
                        other => format!("{other:?}"),
                    };
                    let lost =
                        if u.duplicates > 0 { format!("+{}", u.duplicates) } else { String::new() };
                    format!("{}={value}{lost}", leaf(&u.path).rsplit('/').next().unwrap())
                });
                let deletes = notification.delete.iter().map(|path| format!("gone {}", text(path)));
                updates.chain(deletes).collect::<Vec<_>>().join(" ")
            };
            self.1.drain(..).map(each).collect()
        }
    }

    struct Bed {
        tracks: Tracks,
        snapshot: Snapshot,
        now: Instant,
        shelf: Shelf,
    }

    impl Bed {
        fn of(leaf: &str, mode: SubscriptionMode, interval: u64, suppress: bool, beat: u64) -> Bed {
            let mut one = subscription(&format!("/interfaces/interface/state/{leaf}"), mode);
            one.sample_interval = interval * 1_000_000_000;
            one.suppress_redundant = suppress;
            one.heartbeat_interval = beat * 1_000_000_000;
            let plan = first(&request(list(vec![one]))).unwrap();
            let now = Instant::now();
            let snapshot = Snapshot { at_ns: 1, interfaces: vec![interface(1)] };
            Bed { tracks: Tracks::new(&plan, now), snapshot, now, shelf: Shelf(9, Vec::new()) }
        }

        fn begin(&mut self) -> Vec<String> {
            self.shelf.1 = self.tracks.begin(&self.snapshot).unwrap();
            self.shelf.take()
        }

        /// What is told when so many seconds have passed.
        fn after(&mut self, seconds: u64) -> Vec<String> {
            self.now += Duration::from_secs(seconds);
            self.tracks.tell(self.now, &self.snapshot, &mut self.shelf).unwrap();
            self.shelf.take()
        }

        fn change(&mut self, up: bool) -> Vec<String> {
            self.snapshot.interfaces[0].up = up;
            let interface = self.snapshot.interfaces[0].clone();
            self.tracks.event(&interface, false, 2, &mut self.shelf).unwrap();
            self.shelf.take()
        }
    }

    #[test]
    fn changes_are_told_once_and_by_heartbeats() {
        let mut bed = Bed::of("oper-status", SubscriptionMode::OnChange, 0, false, 0);
        assert_eq!(bed.begin(), ["oper-status=UP"]);
        assert!(bed.change(true).is_empty() && bed.after(5).is_empty());
        assert_eq!(bed.change(false), ["oper-status=DOWN"]);
        assert_eq!(bed.change(true), ["oper-status=UP"]);
        // What no event has told is found.
        bed.snapshot.interfaces[0].up = false;
        assert_eq!(bed.after(1), ["oper-status=DOWN"]);
        bed.snapshot.interfaces.push(interface(3));
        assert_eq!(bed.after(1), ["oper-status=UP"]);
        bed.snapshot.interfaces.remove(0);
        assert_eq!(bed.after(1), ["gone /interfaces/interface[name=p1]"]);
        bed.tracks.event(&interface(3), true, 2, &mut bed.shelf).unwrap();
        assert_eq!(bed.shelf.take(), ["gone /interfaces/interface[name=p3]"]);
        bed.snapshot.interfaces.clear();
        assert!(bed.after(1).is_empty());
        let mut bed = Bed::of("oper-status", SubscriptionMode::OnChange, 0, false, 3);
        assert_eq!(bed.begin(), ["oper-status=UP"]);
        assert!(bed.after(2).is_empty());
        for _ in 0..3 {
            assert_eq!(bed.after(3), ["oper-status=UP"]);
        }
    }

    #[test]
    fn samples_are_told_after_each_interval() {
        let octets = "counters/in-octets";
        let mut bed = Bed::of(octets, SubscriptionMode::Sample, 2, false, 0);
        assert_eq!(bed.begin(), ["in-octets=100"]);
        assert_eq!(bed.tracks.due(), Some(bed.now + Duration::from_secs(2)));
        assert!(bed.after(1).is_empty());
        assert!(bed.tracks.counts(bed.now + Duration::from_secs(1)));
        assert_eq!(bed.after(1), ["in-octets=100"]);
        assert_eq!(bed.after(2), ["in-octets=100"]);
        // One that is late does not catch up.
        assert_eq!(bed.after(60), ["in-octets=100"]);
        assert!(bed.after(0).is_empty());
        let mut bed = Bed::of(octets, SubscriptionMode::Sample, 2, true, 7);
        assert_eq!(bed.begin(), ["in-octets=100"]);
        assert!(bed.after(2).is_empty() && bed.after(2).is_empty());
        bed.snapshot.interfaces[0].counters.in_octets = 101;
        assert_eq!(bed.after(2), ["in-octets=101"]);
        assert_eq!(bed.after(1), ["in-octets=101"], "a heartbeat tells what has not changed");
        // Counters by their changes are looked at each second.
        let mut bed = Bed::of(octets, SubscriptionMode::OnChange, 0, false, 0);
        assert_eq!(bed.begin(), ["in-octets=100"]);
        assert!(bed.after(1).is_empty());
        bed.snapshot.interfaces[0].counters.in_octets = 200;
        assert_eq!(bed.after(1), ["in-octets=200"]);
    }

    #[test]
    fn what_finds_no_room_is_told_later_with_what_was_lost() {
        let mut bed = Bed::of("oper-status", SubscriptionMode::OnChange, 0, false, 0);
        bed.begin();
        bed.shelf.0 = 0;
        assert!(bed.change(false).is_empty() && bed.change(true).is_empty());
        assert!(bed.change(false).is_empty());
        assert_eq!(bed.tracks.lost(), 2, "what is as it was told is no loss");
        // It is tried soon, and what is tried again is no other loss.
        assert!(bed.tracks.due().unwrap() <= Instant::now() + RETRY);
        assert!(bed.after(1).is_empty());
        assert_eq!(bed.tracks.lost(), 2);
        bed.shelf.0 = 9;
        assert_eq!(bed.after(1), ["oper-status=DOWN+2"]);
        assert_eq!(bed.change(true), ["oper-status=UP"]);
        bed.shelf.0 = 0;
        bed.snapshot.interfaces.clear();
        assert!(bed.after(1).is_empty());
        bed.shelf.0 = 9;
        assert_eq!(bed.after(1), ["gone /interfaces/interface[name=p1]"]);
    }

    #[test]
    fn a_stream_keeps_so_much() {
        let mut bed = Bed::of("", SubscriptionMode::TargetDefined, 0, false, 0);
        bed.snapshot.interfaces = (0..20_000).map(interface).collect();
        let fault = bed.tracks.begin(&bed.snapshot).unwrap_err();
        assert_eq!(fault.code, tonic::Code::ResourceExhausted);
        assert!(fault.text.contains("subscribe to less"), "{}", fault.text);
    }
}
