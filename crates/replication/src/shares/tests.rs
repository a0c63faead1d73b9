//! Members with shares among them, over links that lose nothing.

use super::*;
use crate::member::{Action, Role};
use crate::message::Body;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

fn config(name: &str, all: &[&str]) -> Config {
    Config {
        group: "g".to_owned(),
        share: String::new(),
        name: name.to_owned(),
        peers: all.iter().filter(|other| **other != name).map(|name| (*name).to_owned()).collect(),
        priority: 100,
        interval_ns: 10 * MS,
        misses: 3,
        hold_ns: 200 * MS,
        settles_ns: 500 * MS,
        digest: 1,
        incarnation: 1,
        returns_ns: Some(300 * MS),
    }
}

fn shares(n: usize) -> Vec<Share> {
    (0..n).map(|n| Share { name: format!("s{n}"), prefer: Vec::new() }).collect()
}

/// Members by name, and the store.
struct Bed {
    now: u64,
    members: BTreeMap<String, Shares>,
    store: BTreeMap<String, (u64, Owner)>,
    /// When a share was promoted, where.
    promoted: Vec<(u64, String, String)>,
}

impl Bed {
    fn new() -> Bed {
        Bed { now: 0, members: BTreeMap::new(), store: BTreeMap::new(), promoted: Vec::new() }
    }

    fn join(&mut self, name: &str, all: &[&str], count: usize) {
        let config = Config { incarnation: self.now + 1, ..config(name, all) };
        let mut joined = Shares::new(&config, &shares(count), self.now).unwrap();
        joined.connected(true);
        for share in shares(count) {
            let (revision, owner) = match self.store.get(&share.name) {
                Some((revision, owner)) => (*revision, Some(owner.clone())),
                None => (0, None),
            };
            joined.stored(self.now, &share.name, revision, owner);
        }
        self.members.insert(name.to_owned(), joined);
    }

    fn leave(&mut self, name: &str) {
        self.members.remove(name);
        let now = self.now;
        self.members.values_mut().for_each(|other| other.closed(now, name));
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += MS;
            let now = self.now;
            for name in self.members.keys().cloned().collect::<Vec<_>>() {
                let member = self.members.get_mut(&name).unwrap();
                member.tick(now, now);
                if let Some(at) = member.gives_back(now) {
                    member.all_mut()[at].hand_over(now, now).unwrap();
                }
                self.act(&name);
            }
        }
    }

    fn act(&mut self, name: &str) {
        let now = self.now;
        let mut done = Vec::new();
        for member in self.members.get_mut(name).unwrap().all_mut() {
            let share = member.config().share.clone();
            done.extend(member.take_actions().into_iter().map(|action| (share.clone(), action)));
        }
        let again = !done.is_empty();
        for (share, action) in done {
            let others = self.members.iter_mut().filter(|(other, _)| *other != name);
            match action {
                Action::Beat(beat) => {
                    let [octets] = &Heartbeat::pack(&[beat])[..] else { panic!("one datagram") };
                    for (_, other) in others {
                        for beat in Heartbeat::unpack(octets).unwrap() {
                            other.heard(now, beat);
                        }
                    }
                }
                Action::Send(message) => {
                    for (_, other) in others {
                        other.received(now, message.clone());
                    }
                }
                Action::TellAll(to) => {
                    let me = self.members.get_mut(name).unwrap();
                    let at = me.find(&share).unwrap();
                    let me = &mut me.all_mut()[at];
                    let (id, begins) = me.all_begins(now, now, &to).unwrap();
                    let ends = me.all_ends(now, now, id).unwrap();
                    let to = self.members.get_mut(&to).unwrap();
                    to.received(now, begins);
                    to.received(now, ends);
                }
                Action::Write(revision, owner) => {
                    let known = self.store.get(&share).map_or(0, |(revision, _)| *revision);
                    assert_eq!(known, revision, "nobody else writes");
                    self.store.insert(share.clone(), (revision + 1, owner.clone()));
                    for member in self.members.values_mut() {
                        member.stored(now, &share, revision + 1, Some(owner.clone()));
                    }
                }
                Action::Promote(..) => self.promoted.push((now, share, name.to_owned())),
                _ => {}
            }
        }
        if again {
            self.act(name);
        }
    }

    /// Who has which share: each share exactly one.
    fn owners(&self) -> BTreeMap<String, String> {
        let mut owners = BTreeMap::new();
        for (name, member) in &self.members {
            for share in member.all().iter().filter(|share| share.role() == Role::Active) {
                let twice = owners.insert(share.config().share.clone(), name.clone());
                assert_eq!(twice, None, "{}", share.config().share);
            }
        }
        owners
    }

    fn count(&self, name: &str) -> usize {
        self.owners().values().filter(|owner| *owner == name).count()
    }
}

#[test]
fn members_come_and_go_and_shares_move_one_at_a_time() {
    const N: usize = 16;
    let all = ["a", "b", "c"];
    let mut bed = Bed::new();
    bed.join("a", &all, N);
    bed.run(1000);
    assert_eq!((bed.owners().len(), bed.count("a")), (N, N), "who is alone has all");
    let begin = bed.promoted.len();
    bed.join("b", &all, N);
    bed.run(5000);
    let (a, b) = (bed.count("a"), bed.count("b"));
    assert_eq!(a + b, N);
    assert!(a >= 4 && b >= 4, "{a} {b}");
    // One at a time.
    let times: Vec<u64> = bed.promoted[begin..].iter().map(|(at, ..)| *at).collect();
    assert_eq!(times.len(), b);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= BETWEEN_NS), "{times:?}");
    bed.join("c", &all, N);
    bed.run(5000);
    let settled = bed.owners();
    assert!(all.iter().all(|name| bed.count(name) >= 2), "{settled:?}");
    // One goes: only its shares move, and at once.
    let begin = bed.promoted.len();
    bed.leave("b");
    bed.run(50);
    for (share, owner) in bed.owners() {
        assert!(owner == settled[&share] || settled[&share] == "b", "{share}");
    }
    assert_eq!(bed.owners().len(), N);
    assert_eq!(bed.promoted.len() - begin, settled.values().filter(|owner| *owner == "b").count());
    // It comes again: all is as before.
    bed.join("b", &all, N);
    bed.run(6000);
    assert_eq!(bed.owners(), settled);
}

#[test]
fn who_is_drained_gets_nothing_back() {
    let all = ["a", "b"];
    let mut bed = Bed::new();
    bed.join("a", &all, 8);
    bed.join("b", &all, 8);
    bed.run(5000);
    let settled = bed.owners();
    assert!(bed.count("a") > 0 && bed.count("b") > 0);
    let now = bed.now;
    for share in bed.members.get_mut("a").unwrap().all_mut() {
        share.set_drained(true);
        if share.role() == Role::Active {
            share.hand_over(now, now).unwrap();
        }
    }
    bed.run(3000);
    assert_eq!((bed.count("a"), bed.count("b")), (0, 8));
    // It still goes on when the other one cannot.
    bed.leave("b");
    bed.run(100);
    assert_eq!(bed.count("a"), 8);
    bed.members.get_mut("a").unwrap().all_mut().iter_mut().for_each(|it| it.set_drained(false));
    bed.join("b", &all, 8);
    bed.run(5000);
    assert_eq!(bed.owners(), settled);
}

#[test]
fn a_word_to_go_on_that_is_lost_costs_no_more_than_silence() {
    let all = ["a", "b"];
    let mut bed = Bed::new();
    bed.join("a", &all, 1);
    bed.run(1000);
    bed.join("b", &all, 1);
    bed.run(200);
    let now = bed.now;
    let a = &mut bed.members.get_mut("a").unwrap().all_mut()[0];
    a.hand_over(now, now).unwrap();
    let actions = a.take_actions();
    let lost = actions.iter().filter(|action| {
        matches!(action, Action::Send(message) if matches!(message.body, Body::GoOn { .. }))
    });
    assert_eq!(lost.count(), 1);
    bed.run(45);
    assert_eq!(bed.count("b"), 1);
}

#[test]
fn what_is_wrong_is_named() {
    let all = ["a", "b"];
    let wrong = |shares: &[Share]| Shares::new(&config("a", &all), shares, 0).unwrap_err();
    assert_eq!(wrong(&shares(257)), ConfigError::Many);
    let twice = [shares(1), shares(1)].concat();
    assert_eq!(wrong(&twice).to_string(), "two shares are named s0");
    let prefers = Share { name: "s".to_owned(), prefer: vec!["c".to_owned()] };
    assert_eq!(wrong(&[prefers]).to_string(), "share s prefers c, which is no member");
    let odd = Share { name: "a.b".to_owned(), prefer: Vec::new() };
    assert!(wrong(&[odd]).to_string().contains("no name"));
}
