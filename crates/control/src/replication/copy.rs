//! The trackers of all bridges, or those of a share's services: followed where this member is active, a copy where it is a standby.
//!
//! Where the group has no shares, the gates of all bridges are shut at a standby, and no frame passes. A share has services of its own:
//! those are what stands by, and the bridges forward on.

use super::balancers::Balancers;
use super::lease::Lease;
use super::registers::Registers;
use crate::bridges::Bridges;
use datapath::services::elements::{Elements, Named};
use datapath::services::trackers::Tracked;
use replication::message::Part;
use service::balance::Health;
use service::nat::{STRIPES, Stripes};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use switch::Switch;

/// Octets of changes that a tracker keeps until they are taken, at most: the longest message is not much longer.
const LOG_MAX: usize = 512 << 10;
/// Records that are applied while packets wait, which they do not do at a standby.
const APPLIED: usize = 1024;
/// Places that are looked at in one slice of telling all: some 100 µs, while packets wait.
const TOLD: usize = 1024;

/// Outside addresses of a tracker that are looked at, to know whether ports run short.
const SCARCE_MAX: usize = 256;

struct One {
    tracked: Tracked,
    switch: Switch,
    /// A buffer that takes the place of the one that is taken.
    spare: Vec<u8>,
}

/// All of them, by bridge and name.
pub(crate) struct Copy {
    bridges: Bridges,
    /// Names of the share's services, or of their groups; none where there are no shares.
    scope: Option<Vec<String>>,
    all: BTreeMap<String, One>,
    balancers: Balancers,
    registers: Registers,
    active: bool,
    stripes: Stripes,
    /// Connections for which there was no port, when it was looked last.
    exhausted: u64,
    min_age_ns: u64,
    /// Until when its trackers open connections.
    lease: Arc<Lease>,
    /// Records for trackers that are not here.
    pub(crate) unknown: u64,
    /// Records that were no records.
    pub(crate) refused: u64,
    /// Connections for which there was no room.
    pub(crate) no_room: u64,
    /// Records that were told, and applied.
    pub(crate) told: u64,
    pub(crate) applied: u64,
}

/// How far the telling of all has come.
pub(crate) struct Telling {
    pub(crate) id: u64,
    /// The tracker that comes next, and the place there.
    next: Option<(String, usize)>,
    /// The balancer that comes next, behind all trackers.
    balancer: Option<(String, usize)>,
    /// The register that comes next, behind all balancers.
    register: Option<(String, u32)>,
}

impl Copy {
    /// Copies of all trackers, or those of these services: they stand still, and no frame passes.
    pub(crate) fn standby(bridges: &Bridges, scope: Option<Vec<String>>) -> Copy {
        let mut copy = Copy {
            bridges: bridges.clone(),
            scope,
            all: BTreeMap::new(),
            balancers: Balancers::default(),
            registers: Registers::new(Vec::new()),
            active: false,
            stripes: Stripes::ALL,
            exhausted: 0,
            min_age_ns: 0,
            lease: Lease::over(),
            unknown: 0,
            refused: 0,
            no_room: 0,
            told: 0,
            applied: 0,
        };
        copy.stand_still();
        copy
    }

    /// Connections that are younger are told when they are older.
    pub(crate) fn older_than(self, min_age: Duration) -> Copy {
        Copy { min_age_ns: u64::try_from(min_age.as_nanos()).unwrap_or(u64::MAX), ..self }
    }

    /// With these registers of P4 programs.
    pub(crate) fn with_registers(self, names: &[String]) -> Copy {
        let mut copy = Copy { registers: Registers::new(names.to_vec()), ..self };
        copy.look();
        copy
    }

    /// Trackers that have come since, and those that have gone.
    pub(crate) fn look(&mut self) {
        let mut all = BTreeMap::new();
        match &self.scope {
            None => self.each_switch(|switch| switch.set_standby_if_new(!self.active)),
            Some(scope) => self.each_switch(|switch| {
                switch.services().elements().iter().for_each(|elements| elements.hold(scope));
            }),
        }
        for bridge in self.bridges.all() {
            for tracked in bridge.switch().services().trackers() {
                let service = tracked.name.strip_prefix("service:");
                let outside = |scope: &Vec<String>| {
                    !service.is_some_and(|service| scope.iter().any(|name| name == service))
                };
                if self.scope.as_ref().is_some_and(outside) {
                    continue;
                }
                let name = format!("{}/{}", bridge.name(), tracked.name);
                let known = self.all.remove(&name).filter(|one| one.tracked.is(&tracked));
                let one = known.unwrap_or_else(|| {
                    let one = One { tracked, switch: bridge.switch().clone(), spare: Vec::new() };
                    one.tracked.with(|tracker| tracker.set_fence(Some(self.lease.question())));
                    self.begin(&one);
                    one
                });
                all.insert(name, one);
            }
        }
        self.all = all;
        self.balancers.look(self.spreading());
        self.registers.look(&self.bridges);
        if self.scope.is_some() {
            self.gate(!self.active);
        }
    }

    /// Balancers, each group once.
    fn spreading(&self) -> Vec<(String, Arc<Named>, Switch)> {
        let mut all = Vec::new();
        for bridge in self.bridges.all() {
            let Some(elements) = bridge.switch().services().elements() else { continue };
            for named in elements.owners().into_iter().filter(|named| named.spread().is_some()) {
                let service = named.group.as_ref().unwrap_or(&named.name);
                if self.scope.as_ref().is_none_or(|scope| scope.contains(service)) {
                    let name = format!("{}/service:{service}", bridge.name());
                    all.push((name, named, bridge.switch().clone()));
                }
            }
        }
        all
    }

    fn begin(&self, one: &One) {
        let (now_ns, active, stripes) = (one.switch.now_ns(), self.active, self.stripes);
        one.tracked.with(|tracker| {
            tracker.set_stripes(stripes);
            if active {
                tracker.go_on(now_ns);
                tracker.follow(LOG_MAX);
                tracker.follow_older_than(self.min_age_ns);
            } else {
                tracker.unfollow();
                tracker.stand_still(now_ns);
            }
        });
    }

    fn each_switch(&self, mut act: impl FnMut(&Switch)) {
        self.bridges.all().iter().for_each(|bridge| act(bridge.switch()));
    }

    fn gate(&self, standby: bool) {
        match &self.scope {
            None => self.each_switch(|switch| switch.set_standby(standby)),
            Some(scope) => {
                self.each_service(scope, |elements, named| elements.set_standby(named, standby));
            }
        }
    }

    /// The services of the share, each group once.
    fn each_service(&self, scope: &[String], mut act: impl FnMut(&Elements, &Named)) {
        self.each_switch(|switch| {
            let Some(elements) = switch.services().elements() else { return };
            let its = |named: &Arc<Named>| {
                scope.iter().any(|name| *name == *named.group.as_ref().unwrap_or(&named.name))
            };
            elements
                .owners()
                .iter()
                .filter(|named| its(named))
                .for_each(|named| act(elements, named));
        });
    }

    /// Names of registers that no program has.
    pub(crate) fn missing_registers(&self) -> Vec<String> {
        self.registers.missing()
    }

    /// Names of the share's services that are not there.
    pub(crate) fn missing(&self) -> Vec<String> {
        let Some(scope) = &self.scope else { return Vec::new() };
        let mut there = Vec::new();
        self.each_service(scope, |_, named| {
            there.push(named.group.clone().unwrap_or_else(|| named.name.clone()));
        });
        scope.iter().filter(|name| !there.contains(name)).cloned().collect()
    }

    /// No frame passes, and then no connection ages.
    pub(crate) fn stand_still(&mut self) {
        self.active = false;
        self.lease.renew(Duration::ZERO);
        self.gate(true);
        self.look();
        self.all.values().for_each(|one| self.begin(one));
    }

    /// Connections go on, and then frames pass; new ones are opened for so long.
    pub(crate) fn go_on(&mut self, stripes: Stripes, opens: Duration) {
        self.active = true;
        self.stripes = stripes;
        self.lease.renew(opens);
        self.all.values().for_each(|one| self.begin(one));
        self.balancers.begin();
        self.registers.begin();
        self.gate(false);
    }

    /// New connections are opened for so long from now on, unless more is said: then another member may open them. Those that are known
    /// pass for ever, since their translations never change.
    pub(crate) fn open_for(&self, span: Duration) {
        if self.active {
            self.lease.renew(span);
        }
    }

    /// Packets that found no connection while another member may have opened it.
    pub(crate) fn fenced(&self) -> u64 {
        let fenced = |one: &One| one.tracked.with(|tracker| tracker.counters().fenced);
        self.all.values().filter_map(fenced).sum()
    }

    /// Packets pass no more; what they have changed is still told.
    pub(crate) fn stop_packets(&self) {
        self.gate(true);
    }

    /// Ports of these stripes from now on.
    pub(crate) fn set_stripes(&mut self, stripes: Stripes) {
        if self.stripes != stripes {
            self.stripes = stripes;
            for one in self.all.values() {
                one.tracked.with(|tracker| tracker.set_stripes(stripes));
            }
        }
    }

    /// Whether ports run short: a connection found none since it was asked last, or three of four that may be given out are taken.
    pub(crate) fn is_scarce(&mut self) -> bool {
        let (mut exhausted, mut scarce) = (0, false);
        let may = u64::from(self.stripes.0.count_ones());
        let full = |used: u64, of: u64| of > 0 && used * u64::from(STRIPES) * 4 >= of * may * 3;
        for one in self.all.values() {
            let Some(outside) = one.tracked.with(|tracker| tracker.outside(SCARCE_MAX)) else {
                continue;
            };
            exhausted += outside.exhausted;
            let addresses = outside.addresses.iter();
            scarce |= addresses.into_iter().any(|one| full(one.sockets, one.ports.into()));
            scarce |= outside.blocks.is_some_and(|(used, of)| full(used as u64, of as u64));
        }
        let grown = std::mem::replace(&mut self.exhausted, exhausted) < exhausted;
        scarce || grown
    }

    /// What has changed since it was asked last, in messages' worth; true if more has than there was room for.
    pub(crate) fn changes(&mut self) -> (Vec<Vec<Part>>, bool) {
        let (mut messages, mut full) = (Vec::<Vec<Part>>::new(), false);
        let mut len = usize::MAX;
        for (name, one) in &mut self.all {
            let spare = match std::mem::take(&mut one.spare) {
                spare if spare.capacity() < LOG_MAX => Vec::with_capacity(LOG_MAX),
                spare => spare,
            };
            let now_ns = one.switch.now_ns();
            let taken = one.tracked.with(|tracker| tracker.take_changes(now_ns, spare));
            let Some(mut changes) = taken else {
                continue;
            };
            full |= changes.full;
            self.told += changes.told;
            if !changes.records.is_empty() {
                let part = Part { tracker: name.clone(), records: changes.records.clone() };
                let its = part.records.len();
                match messages.last_mut() {
                    Some(parts) if len.saturating_add(its) <= LOG_MAX => {
                        parts.push(part);
                        len += its;
                    }
                    _ => {
                        messages.push(vec![part]);
                        len = its;
                    }
                }
            }
            changes.records.clear();
            one.spare = changes.records;
        }
        messages.extend(self.balancers.changes().into_iter().map(|part| vec![part]));
        if let Some(bridge) = self.bridges.first() {
            messages
                .extend(self.registers.changes(bridge.switch().now_ns()).map(|part| vec![part]));
        }
        (messages, full)
    }

    /// Begins to tell all.
    pub(crate) fn telling(&self, id: u64) -> Telling {
        let next = self.all.keys().next().map(|name| (name.clone(), 0));
        Telling { id, next, balancer: self.balancers.first(), register: self.registers.first() }
    }

    /// The next of them; none if these were all.
    pub(crate) fn tell(&mut self, telling: &mut Telling) -> Option<Vec<Part>> {
        let Some((name, from)) = telling.next.take() else {
            if let Some(at) = telling.balancer.take() {
                let (parts, next) = self.balancers.tell(at);
                telling.balancer = next;
                return Some(parts);
            }
            let (part, next) = self.registers.tell(telling.register.take()?);
            telling.register = next;
            return Some(part.into_iter().collect());
        };
        let after = |name: &String| {
            let range = (std::ops::Bound::Excluded(name.clone()), std::ops::Bound::Unbounded);
            self.all.range(range).next().map(|(name, _)| (name.clone(), 0))
        };
        let Some(one) = self.all.get(&name) else {
            telling.next = after(&name);
            return Some(Vec::new());
        };
        let (now_ns, mut records) = (one.switch.now_ns(), Vec::with_capacity(TOLD * 64));
        let next = one
            .tracked
            .with(|tracker| tracker.tell_all(now_ns, from, TOLD, &mut records))
            .flatten();
        telling.next = match next {
            Some(from) => Some((name.clone(), from)),
            None => after(&name),
        };
        Some(match records.is_empty() {
            true => Vec::new(),
            false => vec![Part { tracker: name, records }],
        })
    }

    /// What is told from here on is all that there is.
    pub(crate) fn begin_sync(&mut self) {
        for one in self.all.values() {
            one.tracked.with(service::conntrack::Tracker::begin_sync);
        }
    }

    /// Connections that were not told since are gone.
    pub(crate) fn sweep(&mut self) {
        for one in self.all.values() {
            let mut from = Some(0);
            while let Some(at) = from {
                from = one.tracked.with(|tracker| tracker.end_sync(at, APPLIED)).flatten();
            }
        }
    }

    /// Applies what another member has told; false if something of it could not be.
    pub(crate) fn apply(&mut self, parts: &[Part]) -> bool {
        let mut whole = true;
        for part in parts {
            if !self.all.contains_key(&part.tracker) {
                match self.balancers.apply(part).or_else(|| self.registers.apply(part)) {
                    Some(Ok(taken)) => {
                        self.applied += taken;
                        continue;
                    }
                    Some(Err(error)) => {
                        self.refused += 1;
                        whole = false;
                        tracing::warn!(of = part.tracker, error, "changes that are none");
                        continue;
                    }
                    None => self.look(),
                }
            }
            let Some(one) = self.all.get(&part.tracker) else {
                // It comes when the service does: not asked for again and again.
                self.unknown += 1;
                continue;
            };
            let mut records = &part.records[..];
            while !records.is_empty() {
                let now_ns = one.switch.now_ns();
                match one.tracked.with(|tracker| tracker.apply(now_ns, &mut records, APPLIED)) {
                    Some(Ok(applied)) => {
                        self.applied += applied.connections + applied.gone;
                        self.no_room += applied.no_room;
                    }
                    Some(Err(error)) => {
                        self.refused += 1;
                        whole = false;
                        tracing::warn!(tracker = part.tracker, error, "changes that are none");
                        break;
                    }
                    None => break,
                }
            }
        }
        whole
    }

    /// What must be the same for one member to go on for another: services, by what they were made with, and the version of a fleet's
    /// configuration.
    pub(crate) fn digest(&self) -> u64 {
        let mut text = self.bridges.fleet().map(|fleet| fleet.digest()).unwrap_or_default();
        for bridge in self.bridges.all() {
            text.push_str(bridge.name());
            if self.scope.is_none() {
                for tracked in bridge.switch().services().trackers() {
                    text.push('\n');
                    text.push_str(&tracked.name);
                }
            }
            let elements = bridge.switch().services().elements();
            for named in elements.map(|elements| elements.list()).unwrap_or_default() {
                let name = named.group.as_ref().unwrap_or(&named.name);
                if self.scope.as_ref().is_some_and(|scope| !scope.contains(name)) {
                    continue;
                }
                let mut settings = named.settings();
                if let Some(spread) = named.spread() {
                    // What people and checks say of a backend is told, and may come later.
                    let mut list = spread.backends().list();
                    list.iter_mut().for_each(|member| member.health = Health::Up);
                    let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                    settings.retain(|(key, _)| key != "backends" && key != "health");
                    settings.push(("backends".to_owned(), list.join(",")));
                }
                text.push_str(&format!("\n{} {} {settings:?}", named.name, named.kind));
            }
            text.push('\n');
        }
        let sum = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        sum.as_ref().first_chunk().map_or(0, |octets| u64::from_le_bytes(*octets))
    }
}

#[cfg(test)]
mod tests;
