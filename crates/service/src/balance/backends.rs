//! Backends of a balancer: names, weights and numbers; who takes flows, by what people, checks and drains say.
//!
//! Three have a say. People set a backend up, draining or down ([`Backends::set`], [`Backends::drain`]). A drain may have a
//! deadline, after which the backend is down ([`Backends::over`]). Checks ([`Backends::told`]) take a backend out that does
//! not answer. A backend takes new flows if nobody objects, and none at all if a check does.
//!
//! If checks take all backends out that people have up, [`AllDown`] decides: by default none of the checks counts then.
//!
//! Invariants: a number is one backend's; what changes is published whole. One change at a time: `watched` is locked over it.
//! Cost: a change makes Maglev's table anew, some milliseconds, while packets go on by the old one.
//! Checked by: the tests below, and those of [`elements`](super::elements).

use super::check::{Check, Found};
use super::follow::Told;
use super::{Health, Maglev, NUMBERS_MAX};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// A backend, as people write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name: what decides its entries of the table, so the same on all switches.
    pub name: String,
    /// Its share, against those of others.
    pub weight: u32,
    /// Whether it takes flows.
    pub health: Health,
    /// Its number, by which flow entries name it, from 1 to [`NUMBERS_MAX`]; none for the one that it has or gets.
    pub number: Option<u16>,
}

/// `NAME@NUMBER:WEIGHT`, and the health where it is not up.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(number) = self.number {
            write!(f, "@{number}")?;
        }
        write!(f, ":{}", self.weight)?;
        match self.health {
            Health::Up => Ok(()),
            Health::Draining => f.write_str(":draining"),
            Health::Down => f.write_str(":down"),
        }
    }
}

/// The backends of a service and their table, shared by all workers' instances and whoever watches over
/// health. Instances see a change with their next burst.
///
/// A backend is known by its name, and its number is its own: it keeps it while others come and go, and gets the same one
/// when it comes back. Numbers of backends that are gone go to no other until all have been given, so that the list
/// and the flow entries that name its numbers can be changed one after the other.
#[derive(Debug)]
pub struct Backends {
    pub(super) state: RwLock<State>,
    /// How often `state` has changed.
    pub(super) changes: AtomicU64,
    watched: Mutex<Watched>,
    all_down: AllDown,
}

/// What happens when checks take out all backends that people have up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllDown {
    /// Checks do not count then: it may be their way that is broken.
    #[default]
    Keep,
    /// New flows get no backend.
    Refuse,
}

/// What the control side knows of backends.
#[derive(Debug, Default)]
struct Watched {
    /// What checks have found, by name.
    found: HashMap<String, Found>,
    /// When drains end, by name.
    drains: HashMap<String, u64>,
    /// Where backends are, by name.
    hosts: HashMap<String, IpAddr>,
}

impl Watched {
    /// A check has taken it out.
    fn is_out(&self, name: &str) -> bool {
        self.found.get(name).is_some_and(|found| !found.alive)
    }

    /// Only what is about backends that there are; drains that were set otherwise are over.
    fn retain(&mut self, members: &[Member]) {
        let known = |name: &String| members.iter().any(|member| member.name == *name);
        self.found.retain(|name, _| known(name));
        self.drains.retain(|name, _| {
            members.iter().any(|m| m.name == *name && m.health == Health::Draining)
        });
    }
}

/// A backend, and what is known of it.
#[derive(Debug, Clone)]
pub struct Status {
    /// As people have it.
    pub member: Member,
    /// Where checks find it.
    pub host: Option<IpAddr>,
    /// Whether it takes flows.
    pub takes: Health,
    /// What checks have found, if there are any.
    pub found: Option<Found>,
    /// When its drain ends.
    pub drain_until_ns: Option<u64>,
}

/// There is no backend of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown;

/// Two backends that would have one number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    /// The number.
    pub number: u16,
    /// Who has it.
    pub of: String,
}

#[derive(Debug)]
pub(super) struct State {
    members: Vec<Member>,
    /// What each number is, from 1 on: a name's number, weight and health.
    pub(super) numbers: Vec<(u64, u32, Health)>,
    pub(super) table: Arc<Maglev>,
    /// The numbers that names have or had last.
    given: HashMap<String, u16>,
    /// The smallest number that nobody has had yet.
    pub(super) fresh: u16,
}

impl State {
    /// `takes` says whether a backend takes flows, in the order of the list.
    fn new(
        mut members: Vec<Member>,
        takes: &[Health],
        before: Option<&State>,
    ) -> Result<State, Clash> {
        let mut given = before.map_or_else(HashMap::new, |before| before.given.clone());
        let mut fresh = before.map_or(1, |before| before.fresh);
        // What is said goes first, then what was before; who is new gets what is left.
        let mut owners: HashMap<u16, usize> = HashMap::with_capacity(members.len());
        for is_said in [true, false] {
            for n in 0..members.len() {
                let number = match (is_said, members[n].number) {
                    (true, Some(number)) => number,
                    (false, None) => match given.get(&members[n].name) {
                        Some(number) => *number,
                        None => continue,
                    },
                    _ => continue,
                };
                if let Some(owner) = owners.insert(number, n) {
                    let of = members[owner].name.clone();
                    return Err(Clash { number, of });
                }
                if is_said {
                    // Whoever had it is gone, or will clash.
                    given.retain(|name, n| *n != number || members.iter().any(|m| m.name == *name));
                }
            }
        }
        for (number, n) in &owners {
            members[*n].number = Some(*number);
        }
        for member in members.iter_mut().filter(|member| member.number.is_none()) {
            while fresh <= NUMBERS_MAX && owners.contains_key(&fresh) {
                fresh += 1;
            }
            let number = if fresh <= NUMBERS_MAX {
                fresh += 1;
                fresh - 1
            } else {
                // All were given: the numbers of those that are gone serve again.
                given.retain(|_, number| owners.contains_key(number));
                (1..=NUMBERS_MAX).find(|n| !owners.contains_key(n)).unwrap_or(NUMBERS_MAX)
            };
            owners.insert(number, usize::MAX);
            member.number = Some(number);
        }
        for member in &members {
            if let Some(number) = member.number {
                given.insert(member.name.clone(), number);
                // A number that was said is not given to others either.
                if number == fresh {
                    fresh += 1;
                }
            }
        }
        let last = members.iter().filter_map(|m| m.number).max().unwrap_or(0);
        let mut numbers = vec![(0, 0, Health::Down); last.into()];
        for (member, takes) in members.iter().zip(takes) {
            let Some(number) = member.number else { continue };
            numbers[usize::from(number) - 1] = (name_number(&member.name), member.weight, *takes);
        }
        let table = Arc::new(Maglev::of_healthy(&numbers));
        Ok(State { members, numbers, table, given, fresh })
    }
}

/// A name as a number, the same at all times (FNV-1a).
pub(super) fn name_number(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x100_0000_01b3)
    })
}

impl Backends {
    /// These backends, each name once; those of which no number is said are numbered as listed.
    ///
    /// # Errors
    /// If two have one number.
    pub fn new(members: Vec<Member>) -> Result<Backends, Clash> {
        let takes: Vec<Health> = members.iter().map(|member| member.health).collect();
        let state = RwLock::new(State::new(members, &takes, None)?);
        Ok(Backends {
            state,
            changes: AtomicU64::new(1),
            watched: Mutex::default(),
            all_down: AllDown::default(),
        })
    }

    /// What happens when checks take all out.
    #[must_use]
    pub fn with_all_down(self, all_down: AllDown) -> Backends {
        Backends { all_down, ..self }
    }

    /// Puts others in place of the backends, each name once; one whose name and number are as before keeps its flows. Takes
    /// some milliseconds, in which packets go on by the old table.
    ///
    /// # Errors
    /// If two have one number; then nothing has changed.
    pub fn set(&self, members: Vec<Member>) -> Result<(), Clash> {
        self.publish(&mut self.watched(), members)
    }

    /// The same, and where they are.
    ///
    /// # Errors
    /// If two have one number; then nothing has changed.
    pub fn set_with_hosts(
        &self,
        members: Vec<Member>,
        hosts: HashMap<String, IpAddr>,
    ) -> Result<(), Clash> {
        let watched = &mut self.watched();
        self.publish(watched, members)?;
        watched.hosts = hosts;
        Ok(())
    }

    fn publish(&self, watched: &mut Watched, members: Vec<Member>) -> Result<(), Clash> {
        let takes = self.takes(watched, &members);
        let new = State::new(members, &takes, Some(&self.read()))?;
        watched.retain(&new.members);
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = new;
        self.changes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The same backends, after something else has changed.
    fn publish_again(&self, watched: &mut Watched) {
        // Names and numbers stay, so they cannot clash.
        let _ = self.publish(watched, self.list());
    }

    /// Whether backends take flows, in the order of the list.
    fn takes(&self, watched: &Watched, members: &[Member]) -> Vec<Health> {
        let wanted = |member: &&Member| member.health == Health::Up && member.weight != 0;
        let one_lives = members.iter().filter(wanted).any(|m| !watched.is_out(&m.name));
        let checks_count = one_lives || self.all_down == AllDown::Refuse;
        let takes = |member: &Member| match watched.is_out(&member.name) {
            true if checks_count || member.health != Health::Up => Health::Down,
            _ => member.health,
        };
        members.iter().map(takes).collect()
    }

    /// Sets the health of the backend of this name; false if there is none.
    pub fn set_health(&self, name: &str, health: Health) -> bool {
        self.change_health(&mut self.watched(), name, health)
    }

    fn change_health(&self, watched: &mut Watched, name: &str, health: Health) -> bool {
        let mut members = self.list();
        let Some(member) = members.iter_mut().find(|member| member.name == name) else {
            return false;
        };
        member.health = health;
        // Names and numbers stay, so they cannot clash.
        self.publish(watched, members).is_ok()
    }

    /// A backend gets no new flows and keeps those that it has, until this time if one is said: then it is down.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn drain(&self, name: &str, until_ns: Option<u64>) -> Result<(), Unknown> {
        let watched = &mut self.watched();
        if !self.change_health(watched, name, Health::Draining) {
            return Err(Unknown);
        }
        match until_ns {
            Some(until_ns) => watched.drains.insert(name.to_owned(), until_ns),
            None => watched.drains.remove(name),
        };
        Ok(())
    }

    /// Drains whose time is over end: these backends are down now.
    pub fn over(&self, now_ns: u64) -> Vec<String> {
        let watched = &mut self.watched();
        let is_over = |(_, until): &(&String, &u64)| **until <= now_ns;
        let over: Vec<String> =
            watched.drains.iter().filter(is_over).map(|(n, _)| n.clone()).collect();
        for name in &over {
            self.change_health(watched, name, Health::Down);
        }
        over
    }

    /// Backends that are to be asked now, and where; they count as asked. One that people have down is not asked.
    pub fn due(&self, check: &Check, now_ns: u64) -> Vec<(String, IpAddr)> {
        let watched = &mut *self.watched();
        let mut due = Vec::new();
        for member in self.list().iter().filter(|member| member.health != Health::Down) {
            let host = watched.hosts.get(&member.name).copied();
            let Some(host) = host.or_else(|| member.name.parse().ok()) else { continue };
            let found = watched.found.entry(member.name.clone());
            let found = found.or_insert_with(|| Found::new(now_ns));
            if !found.is_asked && found.next_ns <= now_ns {
                found.is_asked = true;
                let interval = u64::try_from(check.interval.as_nanos()).unwrap_or(u64::MAX);
                found.next_ns = now_ns.saturating_add(interval);
                due.push((member.name.clone(), host));
            }
        }
        due
    }

    /// The answer of a backend: how long it took, or why it is not good. What has changed, if something has: whether it lives.
    pub fn told(
        &self,
        name: &str,
        check: &Check,
        now_ns: u64,
        answer: Result<u64, String>,
    ) -> Option<bool> {
        let watched = &mut *self.watched();
        // One that is gone by now has nothing to tell.
        let found = watched.found.get_mut(name)?;
        if !found.take(check, now_ns, answer) {
            return None;
        }
        let alive = found.alive;
        self.publish_again(watched);
        Some(alive)
    }

    /// Another process has found this of a backend: it is believed until the next answer. False if there is none of this name.
    pub fn adopt_found(&self, name: &str, found: Found) -> bool {
        let watched = &mut *self.watched();
        if !self.read().members.iter().any(|member| member.name == name) {
            return false;
        }
        watched.found.insert(name.to_owned(), Found { is_asked: false, otherwise: 0, ..found });
        self.publish_again(watched);
        true
    }

    /// Has those that there are as another process has them.
    pub(super) fn adopt_told(&self, all: &HashMap<String, Told>) {
        let watched = &mut *self.watched();
        let mut members = self.list();
        let before = (members.clone(), self.takes(watched, &members));
        for member in &mut members {
            let Some(told) = all.get(&member.name) else { continue };
            member.health = told.health;
            match told.drain_until_ns {
                Some(until_ns) => watched.drains.insert(member.name.clone(), until_ns),
                None => watched.drains.remove(&member.name),
            };
            if let Some(found) = &told.found {
                watched.found.insert(member.name.clone(), found.clone());
            }
        }
        // A new table takes some milliseconds.
        if (&before.0, &before.1) != (&members, &self.takes(watched, &members)) {
            // Names and numbers stay, so they cannot clash.
            let _ = self.publish(watched, members);
        }
    }

    /// How often something has changed of who takes flows.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// All that is known of backends, as they were listed.
    pub fn status(&self) -> Vec<Status> {
        let watched = self.watched();
        let members = self.list();
        let takes = self.takes(&watched, &members);
        let status = |(member, takes): (Member, Health)| Status {
            host: watched.hosts.get(&member.name).copied().or_else(|| member.name.parse().ok()),
            takes,
            found: watched.found.get(&member.name).cloned(),
            drain_until_ns: watched.drains.get(&member.name).copied(),
            member,
        };
        members.into_iter().zip(takes).map(status).collect()
    }

    /// Where backends are, as it was said.
    pub fn hosts(&self) -> HashMap<String, IpAddr> {
        self.watched().hosts.clone()
    }

    /// The backends, as they were listed, each with its number.
    pub fn list(&self) -> Vec<Member> {
        self.read().members.clone()
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        // What is guarded is valid after each step.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::tests::check;
    use super::*;

    fn backends(names: &[&str], all_down: AllDown) -> Backends {
        let up = |name: &&str| Member {
            name: (*name).to_owned(),
            weight: 1,
            health: Health::Up,
            number: None,
        };
        Backends::new(names.iter().map(up).collect()).unwrap().with_all_down(all_down)
    }

    fn takes(backends: &Backends) -> Vec<Health> {
        backends.status().iter().map(|status| status.takes).collect()
    }

    fn failed() -> Result<u64, String> {
        Err("refused".to_owned())
    }

    /// All are asked at this time; those named fail.
    fn round(backends: &Backends, now_ns: u64, failing: &[&str]) {
        let check = check(1, 1);
        for (name, _) in backends.due(&check, now_ns) {
            let answer = if failing.contains(&&*name) { failed() } else { Ok(1) };
            backends.told(&name, &check, now_ns, answer);
        }
    }

    const A: &str = "10.0.0.1";
    const B: &str = "10.0.0.2";

    #[test]
    fn a_backend_that_does_not_answer_takes_no_flows_and_comes_back() {
        use Health::{Down, Draining, Up};
        let backends = backends(&[A, B], AllDown::Keep);
        round(&backends, 0, &[A]);
        assert_eq!(takes(&backends), [Down, Up]);
        assert!(backends.list().iter().all(|member| member.health == Up), "people have it up");
        // What draining keeps, a check takes.
        backends.drain(A, None).unwrap();
        assert_eq!(takes(&backends), [Down, Up]);
        let second = 1_000_000_000;
        assert!(backends.due(&check(1, 1), 2 * second - 1).is_empty());
        round(&backends, 2 * second, &[]);
        assert_eq!(takes(&backends), [Draining, Up]);
        assert!(backends.set_health(A, Up));
        assert_eq!(takes(&backends), [Up, Up]);
    }

    #[test]
    fn when_all_fail_checks_do_not_count_or_nobody_takes_flows() {
        use Health::{Down, Up};
        for (all_down, expected) in [(AllDown::Keep, [Up, Up, Down]), (AllDown::Refuse, [Down; 3])]
        {
            let backends = backends(&[A, B, "10.0.0.3"], all_down);
            backends.set_health("10.0.0.3", Down);
            round(&backends, 0, &[A, B]);
            assert_eq!(takes(&backends), expected, "{all_down:?}");
            let numbers: Vec<_> = backends.read().numbers.iter().map(|n| n.2).collect();
            assert_eq!(numbers, expected, "what packets go by");
        }
    }

    #[test]
    fn who_is_asked_is_not_asked_again_before_the_answer() {
        let backends = backends(&[A, "web"], AllDown::Keep);
        let check = check(1, 1);
        let asked = backends.due(&check, 0);
        assert_eq!(asked, [(A.to_owned(), A.parse().unwrap())], "web is nowhere");
        assert!(backends.due(&check, u64::MAX).is_empty());
        backends.told(A, &check, 5, Ok(1));
        assert_eq!(backends.due(&check, u64::MAX).len(), 1);
        // Of one that is gone and comes back nothing is known.
        backends.set(Vec::new()).unwrap();
        assert_eq!(backends.told(A, &check, 6, failed()), None);
        let hosts = HashMap::from([("web".to_owned(), B.parse().unwrap())]);
        let web = Member { name: "web".into(), weight: 1, health: Health::Up, number: None };
        backends.set_with_hosts(vec![web], hosts).unwrap();
        assert_eq!(backends.due(&check, 0), [("web".to_owned(), B.parse().unwrap())]);
    }

    #[test]
    fn a_drain_ends_at_its_deadline_unless_it_is_taken_back() {
        use Health::{Down, Draining, Up};
        let backends = backends(&["a", "b"], AllDown::Keep);
        assert_eq!(backends.drain("c", None), Err(Unknown));
        backends.drain("a", Some(100)).unwrap();
        backends.drain("b", Some(100)).unwrap();
        assert_eq!(takes(&backends), [Draining; 2]);
        assert!(backends.over(99).is_empty());
        backends.set_health("b", Up);
        assert_eq!(backends.over(100), ["a"]);
        assert_eq!(takes(&backends), [Down, Up]);
        assert!(backends.over(u64::MAX).is_empty());
        // A drain without a deadline has none of before.
        backends.drain("a", Some(7)).unwrap();
        backends.drain("a", None).unwrap();
        assert!(backends.over(u64::MAX).is_empty());
    }
}
