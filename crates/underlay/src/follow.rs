//! The thread `underlay`: hears what changes, applies it to the state, and reads anew what is in doubt.
//!
//! Most news are applied as they are told. Routes of IPv4 go without a word when a device goes down or an address is removed;
//! so such news have routes read anew, as have changes of next hops, and routes that were appended or removed in part. Lost
//! news have everything read anew.
//!
//! Cost: reading anew is limited to a fifth of the time, so a large table that changes all the time does not keep a processor busy.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::message::{Change, Message, next_message, read};
use crate::netlink::{Asker, Came, Dump, News};
use crate::state::{Routes, Rule, State};
use crate::underlay::Shared;

/// Datagrams that are read before they are applied, at most.
const BATCH: usize = 256;
/// After reading anew, the next time comes no sooner than this many times as long as it took.
const REST: u32 = 4;
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// After a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// What is to be read anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doubts {
    /// Links, addresses and neighbours.
    pub(crate) rest: bool,
    pub(crate) rules: bool,
    pub(crate) routes: bool,
}

impl Doubts {
    pub(crate) const ALL: Doubts = Doubts { rest: true, rules: true, routes: true };

    fn any(self) -> bool {
        self != Doubts::default()
    }
}

/// Makes a change; what is in doubt is noted. Whether an answer may be another one now.
pub(crate) fn apply(state: &mut State, change: Change, doubts: &mut Doubts) -> bool {
    let told = match change {
        Change::Link(link) => {
            let before = state.links.insert(link.index, link.clone());
            let stood = before.as_ref().map(|one| (one.up, one.carrier));
            doubts.routes |= stood.is_some_and(|stood| stood != (link.up, link.carrier));
            return before.is_none_or(|before| before != link);
        }
        Change::LinkGone(device) => {
            doubts.routes = true;
            state.addresses.remove(&device);
            state.neighbours.retain(|(of, _), _| *of != device);
            state.own();
            return state.links.remove(&device).is_some();
        }
        Change::Address(address) => return state.put_address(address),
        Change::AddressGone(address) => {
            doubts.routes = true;
            return state.remove_address(&address);
        }
        Change::Neighbour(device, address, known) => {
            let before = state.neighbours.insert((device, address), known);
            return before.and_then(|before| before.mac) != known.mac;
        }
        Change::NeighbourGone(device, address) => {
            let before = state.neighbours.remove(&(device, address));
            return before.is_some_and(|before| before.mac.is_some());
        }
        Change::Rule(_) | Change::RuleGone => {
            doubts.rules = true;
            return false;
        }
        Change::Route(route, replaces) => state.routes.added(route, replaces),
        Change::RouteGone(route) => state.routes.removed(&route),
        Change::NextHops => Err(crate::state::Doubt),
        Change::Ignored(_) | Change::Other => return false,
    };
    told.unwrap_or_else(|_| {
        doubts.routes = true;
        false
    })
}

/// Reads messages, and counts those that cannot be read.
pub(crate) fn read_counted(shared: &Shared, message: &Message<'_>) -> Option<Change> {
    match read(message) {
        Ok(Change::Other) => None,
        Ok(Change::Ignored(why)) => {
            shared.ignore(why);
            None
        }
        Ok(change) => Some(change),
        Err(error) => {
            shared.malformed(message.kind, &error);
            None
        }
    }
}

/// Reads all that is in doubt. Reading again puts nothing there twice.
pub(crate) fn read_anew(shared: &Shared, asker: &mut Asker, doubts: Doubts) -> io::Result<()> {
    let mut fresh = State::default();
    let mut ignored = Vec::new();
    if doubts.rest {
        for what in [Dump::Links, Dump::Addresses, Dump::Neighbours] {
            let mut changes = Vec::new();
            collect(shared, asker, what, None, &mut changes, &mut ignored)?;
            for change in changes {
                apply(&mut fresh, change, &mut Doubts::default());
            }
        }
    }
    for v6 in [false, true] {
        if doubts.rules {
            let mut changes = Vec::new();
            collect(shared, asker, Dump::Rules, Some(v6), &mut changes, &mut ignored)?;
            let rules = &mut fresh.rules[usize::from(v6)];
            rules.extend(changes.into_iter().filter_map(|change| match change {
                Change::Rule(rule) if rule.v6 == v6 => Some(rule),
                _ => None,
            }));
            rules.sort_by_key(|rule: &Rule| rule.priority);
        }
        if doubts.routes {
            let mut changes = Vec::new();
            collect(shared, asker, Dump::Routes, Some(v6), &mut changes, &mut ignored)?;
            for change in changes {
                // A kernel without IPv6 answers by what it has.
                if let Change::Route(route, _) = change
                    && route.to.address.is_ipv6() == v6
                {
                    fresh.routes.put(route);
                }
            }
        }
    }
    for rule in fresh.rules.iter().flatten() {
        if let Some(why) = rule.ignored {
            shared.ignore(why);
        }
    }
    ignored.into_iter().for_each(|why| shared.ignore(why));
    shared.change(|state| {
        if doubts.rest {
            state.links = fresh.links;
            state.addresses = fresh.addresses;
            state.neighbours = fresh.neighbours;
            state.own();
        }
        if doubts.rules {
            state.rules = fresh.rules;
        }
        let old = if doubts.routes {
            std::mem::replace(&mut state.routes, fresh.routes)
        } else {
            Routes::default()
        };
        // The old ones are freed when nobody waits for the lock any more.
        (true, old)
    });
    Ok(())
}

fn collect(
    shared: &Shared,
    asker: &mut Asker,
    what: Dump,
    v6: Option<bool>,
    changes: &mut Vec<Change>,
    ignored: &mut Vec<&'static str>,
) -> io::Result<()> {
    let gathered = std::cell::RefCell::new((changes, Vec::new()));
    asker.dump(
        what,
        v6,
        &mut || {
            let (changes, ignored) = &mut *gathered.borrow_mut();
            changes.clear();
            ignored.clear();
        },
        &mut |message| {
            let (changes, ignored) = &mut *gathered.borrow_mut();
            match read(message) {
                Ok(Change::Other) => {}
                Ok(Change::Ignored(why)) => ignored.push(why),
                Ok(change) => changes.push(change),
                Err(error) => shared.malformed(message.kind, &error),
            }
        },
    )?;
    ignored.append(&mut gathered.into_inner().1);
    Ok(())
}

/// The thread, until [`Shared::stop`].
pub(crate) fn run(shared: &Arc<Shared>, mut news: News, mut asker: Asker) {
    let mut doubts = Doubts::default();
    let mut due = Instant::now();
    while !shared.stop.load(Acquire) {
        let now = Instant::now();
        if doubts.any() && now >= due {
            shared.counts.rereads.fetch_add(1, Relaxed);
            let failed = read_anew(shared, &mut asker, doubts).err();
            let took = now.elapsed();
            due = Instant::now() + (took * REST).max(PAUSE_MIN);
            match failed {
                None => doubts = Doubts::default(),
                Some(error) => {
                    shared.failed("reading what the kernel knows", &error);
                    // An answer that came too late must not be taken for one to the next question.
                    if let Ok(fresh) = Asker::open() {
                        asker = fresh;
                    }
                    due = Instant::now() + PAUSE;
                }
            }
        }
        let wait = doubts.any().then(|| due.saturating_duration_since(Instant::now()));
        wait_for(shared, &news, wait);
        for (device, address) in shared.wake.take() {
            if let Err(error) = asker.resolve(device, address) {
                shared.counts.asks_refused.fetch_add(1, Relaxed);
                tracing::debug!(device, %address, %error, "the kernel does not resolve a neighbour");
            }
        }
        if let Err(error) = hear(shared, &mut news, &mut doubts) {
            shared.failed("hearing what changes", &error);
            doubts = Doubts::ALL;
            due = Instant::now() + PAUSE;
            // The error may stay: not in a hurry.
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Reads what has come and applies it, all at once.
fn hear(shared: &Shared, news: &mut News, doubts: &mut Doubts) -> io::Result<()> {
    let mut changes = Vec::new();
    let mut failed = Ok(());
    for _ in 0..BATCH {
        match news.next() {
            Ok(Came::Nothing) => break,
            Ok(Came::Overrun) => {
                shared.counts.overruns.fetch_add(1, Relaxed);
                shared.once("netlink", || {
                    tracing::warn!("news of the network were lost: everything is read anew");
                });
                *doubts = Doubts::ALL;
            }
            Ok(Came::Datagram(mut datagram)) => {
                while let Some(message) = next_message(&mut datagram) {
                    match message {
                        Ok(message) => changes.extend(read_counted(shared, &message)),
                        Err(error) => {
                            shared.malformed(0, &error);
                            *doubts = Doubts::ALL;
                        }
                    }
                }
            }
            Err(error) => {
                failed = Err(error);
                break;
            }
        }
    }
    if !changes.is_empty() {
        shared.change(|state| {
            let mut changed = false;
            for change in changes {
                changed |= apply(state, change, doubts);
            }
            (changed, ())
        });
    }
    failed
}

fn wait_for(shared: &Shared, news: &News, wait: Option<Duration>) {
    let limit = wait.map(|wait| Timespec {
        tv_sec: wait.as_secs() as i64,
        tv_nsec: i64::from(wait.subsec_nanos()),
    });
    let mut fds = [
        PollFd::from_borrowed_fd(news.fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(shared.wake.fd.as_fd(), PollFlags::IN),
    ];
    // Interrupted or not: what has come is looked at.
    let _ = poll(&mut fds, limit.as_ref());
}

/// Neighbours that were asked for, and when.
#[derive(Default)]
pub(crate) struct Asked {
    at: HashMap<(u32, IpAddr), Instant>,
}

/// What becomes of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    Yes,
    /// It was asked for a moment ago.
    Lately,
    /// So many were that there is no room.
    Full,
}

impl Asked {
    /// Neighbours that are remembered.
    const MAX: usize = 4096;
    /// Time between two wishes for one.
    pub(crate) const PAUSE: Duration = Duration::from_secs(1);

    pub(crate) fn admit(&mut self, device: u32, address: IpAddr, now: Instant) -> Admitted {
        let lately = |at: &Instant| now.saturating_duration_since(*at) < Asked::PAUSE;
        if self.at.get(&(device, address)).is_some_and(lately) {
            return Admitted::Lately;
        }
        if self.at.len() >= Asked::MAX {
            self.at.retain(|_, at| lately(at));
        }
        if self.at.len() >= Asked::MAX {
            return Admitted::Full;
        }
        self.at.insert((device, address), now);
        Admitted::Yes
    }
}

/// Marks a change for readers: first the change, then the number.
pub(crate) fn publish(version: &std::sync::atomic::AtomicU64) {
    version.fetch_add(1, Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_is_asked_for_once_a_second_and_many_have_a_bound() {
        let mut asked = Asked::default();
        let begun = Instant::now();
        let address = |n: u32| IpAddr::V4(n.into());
        assert_eq!(asked.admit(1, address(1), begun), Admitted::Yes);
        assert_eq!(asked.admit(1, address(1), begun), Admitted::Lately);
        assert_eq!(asked.admit(2, address(1), begun), Admitted::Yes, "on another device");
        assert_eq!(asked.admit(1, address(1), begun + Asked::PAUSE), Admitted::Yes);
        let later = begun + 3 * Asked::PAUSE;
        for n in 0..Asked::MAX as u32 {
            assert_eq!(asked.admit(3, address(n), later), Admitted::Yes, "old ones make room");
        }
        assert_eq!(asked.admit(4, address(0), later), Admitted::Full);
        assert_eq!(asked.admit(4, address(0), later + Asked::PAUSE), Admitted::Yes);
    }
}
