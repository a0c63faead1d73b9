//! The clock, members, links, the stream and the store.

use crate::judge::{Left, Tally};
use crate::traffic::Held;
use replication::pool::Claims;
use replication::shares::Share;
use replication::{Action, Body, Config, Heartbeat, Member, Message, Owner, Role, Shares};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::rc::Rc;

pub(crate) const MS: u64 = 1_000_000;
/// When trouble begins, when it ends, and how long it is quiet then. No partition lasts longer than it takes a member to settle.
pub(crate) const BEGINS: u64 = 2000 * MS;
pub(crate) const TROUBLED: u64 = BEGINS + 1500 * MS;
const SETTLES: u64 = 1550 * MS;
const QUIET: u64 = 4500 * MS;
/// What must hold in the end is looked at so often, and has held for so long when a history ends before its time.
const LOOKS: u64 = 100 * MS;
const STAYS: u64 = 600 * MS;

/// Faults that are planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planted {
    Nothing,
    /// Every member gives out every port.
    NoStripes,
    /// Nobody cares for a higher epoch, nor for what the store says.
    NoEpochs,
    /// A copy judges by what it was told last of how far a connection has come.
    StrictWindows,
    /// A gap is not noticed.
    NoNumbers,
    /// A share goes to a member that has not all its connections yet.
    AddressFirst,
    /// The store takes what is written over any revision.
    NoCompare,
    /// Nobody gives anything back.
    NoPreference,
    /// Ports of the pool are given out before the store has confirmed a claim.
    ClaimUnconfirmed,
    /// Who was paused opens what has waited for it, before it hears what happened meanwhile.
    NoFence,
}

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n.max(1)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

pub(crate) struct Node {
    pub(crate) members: Shares,
    pub(crate) up: bool,
    pub(crate) paused_until: u64,
    /// When the last pause began.
    pub(crate) paused_at: u64,
    /// Shares that nobody else forwarded then.
    pub(crate) alone: Vec<bool>,
    /// The number of its last heartbeat, by share.
    pub(crate) beats: Vec<u64>,
    /// It was asked to end, and does then.
    pub(crate) ends: Option<u64>,
    /// What came while it was paused.
    pub(crate) inbox: VecDeque<Event>,
    /// By share.
    pub(crate) held: Vec<Held>,
    pub(crate) starts: u64,
    /// How far its clock on the wall is ahead of the time.
    pub(crate) ahead: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Beats(usize, Rc<Vec<Heartbeat>>),
    Closed(usize, usize),
    Stream(usize, Rc<Message>),
    Stored(usize, usize, u64, Option<Owner>),
    Refused(usize, usize),
    Claimed(usize, usize, u64, Option<Claims>),
    NotClaimed(usize, usize),
    Engine(usize, bool),
    Tick(usize),
    Up(usize),
}

impl Event {
    fn to(&self) -> usize {
        match self {
            Event::Beats(to, _)
            | Event::Closed(to, _)
            | Event::Stream(to, _)
            | Event::Stored(to, ..)
            | Event::Refused(to, _)
            | Event::Claimed(to, ..)
            | Event::NotClaimed(to, _)
            | Event::Engine(to, _)
            | Event::Tick(to)
            | Event::Up(to) => *to,
        }
    }
}

/// An event with its time; the earliest comes first, and of one time what was said first.
struct Due(u64, u64, Event);

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        (other.0, other.1).cmp(&(self.0, self.1))
    }
}

/// What the store holds of a share, and to whom it has confirmed which epoch.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) revision: u64,
    pub(crate) owner: Option<Owner>,
    pub(crate) confirmed: BTreeMap<u64, String>,
    /// Stripes of the pool, with their revision.
    pub(crate) claims: (u64, Option<Claims>),
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) planted: Planted,
    pub(crate) now: u64,
    events: BinaryHeap<Due>,
    count: u64,
    pub(crate) nodes: Vec<Node>,
    /// Empty where the group is not divided.
    pub(crate) shares: Vec<Share>,
    /// Half of the ports are a pool.
    pub(crate) pool: bool,
    /// Heartbeats pass between two of them, by each of two paths.
    pub(crate) paths: [Vec<Vec<bool>>; 2],
    /// The engine is up, and reached by each.
    pub(crate) engine: bool,
    pub(crate) reached: Vec<bool>,
    /// By share.
    pub(crate) store: Vec<Stored>,
    /// Messages of one member to another do not overtake each other, but for those that do.
    last: BTreeMap<(usize, usize), u64>,
    /// How many there were.
    pub(crate) connections: u32,
    pub(crate) backends: u64,
    pub(crate) tally: Tally,
    /// What the active member had when it died or handed over, for whoever goes on; by share.
    pub(crate) left: Vec<Option<Left>>,
    /// When somebody last asked a member to go on, whoever else did.
    pub(crate) asked: u64,
    /// Connections whose ends have closed them.
    pub(crate) closed: BTreeSet<u32>,
    pub(crate) quiet: bool,
    /// Since when all has been as it must be in the end, and when it was looked last.
    settled: Option<u64>,
    looked: u64,
    /// What members do is told.
    trace: bool,
    problem: Option<String>,
}

pub(crate) fn name(n: usize) -> String {
    format!("m{n}")
}

pub(crate) fn number(name: &str) -> usize {
    name[1..].parse().unwrap()
}

fn members(n: usize, count: usize, shares: &[Share], starts: u64, now: u64) -> Shares {
    let peers = (0..count).filter(|other| *other != n).map(name).collect();
    let config = Config {
        group: "g".to_owned(),
        share: String::new(),
        name: name(n),
        peers,
        priority: 10 + n as u8,
        interval_ns: 10 * MS,
        misses: 3,
        hold_ns: 200 * MS,
        settles_ns: SETTLES,
        digest: 1,
        incarnation: starts,
        returns_ns: Some(400 * MS),
    };
    Shares::new(&config, shares, now).unwrap()
}

impl World {
    pub(crate) fn new(seed: u64, planted: Planted) -> World {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let count = 2 + random.below(2) as usize;
        let divided = if random.one_in(2) { 2 + random.below(2) } else { 0 };
        let share = |n: u64| {
            let prefer = match random.below(3) {
                0 => Vec::new(),
                _ => vec![name(random.below(count as u64) as usize)],
            };
            Share { name: format!("s{n}"), prefer }
        };
        let shares: Vec<Share> = (0..divided).map(share).collect();
        let of_each = shares.len().max(1);
        let pool = random.one_in(2);
        let all = vec![vec![true; count]; count];
        let mut world = World {
            random,
            planted,
            now: 0,
            events: BinaryHeap::new(),
            count: 0,
            nodes: Vec::new(),
            paths: [all.clone(), all],
            engine: true,
            reached: vec![true; count],
            store: (0..of_each).map(|_| Stored::default()).collect(),
            last: BTreeMap::new(),
            connections: 0,
            backends: 0,
            tally: Tally::default(),
            left: (0..of_each).map(|_| None).collect(),
            asked: 0,
            closed: BTreeSet::new(),
            quiet: false,
            settled: None,
            looked: 0,
            trace: std::env::var_os("REPLICATION_TRACE").is_some(),
            problem: None,
            shares,
            pool,
        };
        for n in 0..count {
            world.nodes.push(Node {
                members: members(n, count, &world.shares, 0, 0),
                up: false,
                paused_until: 0,
                paused_at: 0,
                alone: vec![false; of_each],
                beats: vec![0; of_each],
                ends: None,
                inbox: VecDeque::new(),
                held: (0..of_each).map(|_| Held::new(&name(n))).collect(),
                starts: 0,
                ahead: 0,
            });
            // One in a while joins a group that is there.
            let late = if n > 0 && world.random.one_in(4) { 1500 } else { 20 };
            let at = world.random.below(late * MS);
            world.at(at, Event::Up(n));
        }
        world
    }

    pub(crate) fn at(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.push(Due(time.max(self.now), self.count, event));
    }

    pub(crate) fn fail(&mut self, what: String) {
        let at = self.now / MS;
        self.problem.get_or_insert_with(|| format!("at {at} ms: {what}"));
    }

    pub(crate) fn run(mut self) -> Result<Tally, String> {
        while let Some(Due(time, _, event)) = self.events.pop() {
            if time > TROUBLED + QUIET || self.problem.is_some() {
                break;
            }
            self.now = time;
            self.handle(event);
            if self.now > TROUBLED && self.now >= self.looked + LOOKS && self.is_settled() {
                break;
            }
        }
        if self.problem.is_none() {
            self.judge_the_end();
        }
        match self.problem {
            None => Ok(self.tally),
            Some(problem) => Err(problem),
        }
    }

    /// Whether all has been for some time as it must be in the end: nothing is to come that would change it.
    fn is_settled(&mut self) -> bool {
        self.looked = self.now;
        let is = self.quiet && self.nodes.iter().all(|node| node.up) && self.find_problem().is_ok();
        self.settled = if is { self.settled.or(Some(self.now)) } else { None };
        self.settled.is_some_and(|since| self.now - since >= STAYS)
    }

    /// The state machine of a share at a member.
    pub(crate) fn member(&self, n: usize, share: usize) -> &Member {
        &self.nodes[n].members.all()[share]
    }

    pub(crate) fn member_mut(&mut self, n: usize, share: usize) -> &mut Member {
        &mut self.nodes[n].members.all_mut()[share]
    }

    pub(crate) fn is_active(&self, n: usize, share: usize) -> bool {
        self.nodes[n].up && self.member(n, share).role() == Role::Active
    }

    /// Who is active.
    pub(crate) fn active(&self, share: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|n| self.is_active(*n, share)).collect()
    }

    fn share(&self, name: &str) -> usize {
        self.shares.iter().position(|share| share.name == name).unwrap_or(0)
    }

    fn share_name(&self, share: usize) -> String {
        self.shares.get(share).map(|share| share.name.clone()).unwrap_or_default()
    }

    fn handle(&mut self, event: Event) {
        let n = event.to();
        if let Event::Up(_) = event {
            return self.start(n);
        }
        if !self.nodes[n].up {
            return;
        }
        if self.nodes[n].paused_until > self.now {
            if !matches!(event, Event::Tick(_)) {
                self.nodes[n].inbox.push_back(event);
                return;
            }
            let until = self.nodes[n].paused_until;
            return self.at(until, event);
        }
        if std::mem::take(&mut self.nodes[n].paused_until) > 0 {
            self.packets_that_waited(n);
        }
        let mut closed = matches!(event, Event::Closed(..));
        while let Some(waiting) = self.nodes[n].inbox.pop_front() {
            closed |= matches!(waiting, Event::Closed(..));
            self.given(n, waiting);
        }
        self.given(n, event);
        if closed {
            let wall = self.wall(n);
            self.nodes[n].members.tick(self.now, wall);
            self.act(n);
        }
    }

    fn start(&mut self, n: usize) {
        let (count, now) = (self.nodes.len(), self.now);
        let starts = self.nodes[n].starts + 1;
        let members = members(n, count, &self.shares, starts, now);
        let node = &mut self.nodes[n];
        (node.members, node.starts, node.up, node.ends) = (members, starts, true, None);
        node.inbox.clear();
        for held in &mut node.held {
            *held = Held::after(held, &name(n));
        }
        self.at(now, Event::Tick(n));
        let reached = self.engine && self.reached[n];
        self.at(now + MS, Event::Engine(n, reached));
    }

    /// What the clock on its wall says.
    pub(crate) fn wall(&self, n: usize) -> u64 {
        self.now.wrapping_add(self.nodes[n].ahead)
    }

    /// Asks the store, if it is reached.
    fn read_store(&mut self, n: usize, share: usize) {
        if !(self.engine && self.reached[n]) {
            return;
        }
        let Stored { revision, owner, .. } = &self.store[share];
        let event = Event::Stored(n, share, *revision, owner.clone());
        self.at(self.now + MS, event);
        self.read_claims(n, share);
    }

    fn read_claims(&mut self, n: usize, share: usize) {
        if !(self.engine && self.reached[n]) {
            return;
        }
        let (revision, claims) = self.store[share].claims.clone();
        self.at(self.now + MS, Event::Claimed(n, share, revision, claims));
    }

    fn given(&mut self, n: usize, event: Event) {
        let (now, wall) = (self.now, self.wall(n));
        let strict = self.planted != Planted::NoEpochs;
        match event {
            Event::Beats(_, beats) => {
                for beat in beats.iter() {
                    let mut beat = beat.clone();
                    let member = self.member(n, self.share(&beat.share));
                    if !strict && member.role() == Role::Active {
                        beat.epoch = beat.epoch.min(member.epoch());
                        beat.active = false;
                    }
                    if self.planted == Planted::AddressFirst {
                        (beat.synced, beat.knows) = (true, true);
                    }
                    self.nodes[n].members.heard(now, beat);
                }
            }
            Event::Closed(_, who) => self.nodes[n].members.closed(now, &name(who)),
            Event::Stream(_, message) => {
                let mut message = (*message).clone();
                let member = self.member(n, self.share(&message.share));
                if self.planted == Planted::NoNumbers && member.role() == Role::Standby {
                    let expected = member.view(now).seq + 1;
                    message.seq = if expected == 1 { message.seq } else { expected };
                }
                let asks = message.body == Body::AskForAll;
                if strict || asks || member.role() == Role::Standby {
                    self.nodes[n].members.received(now, message);
                }
            }
            Event::Stored(_, share, revision, owner) => {
                let member = self.member_mut(n, share);
                let other = owner.as_ref().is_some_and(|owner| owner.member != name(n));
                if strict || !other || member.role() == Role::Standby {
                    member.stored(now, revision, owner);
                }
            }
            Event::Refused(_, share) => {
                self.member_mut(n, share).not_written();
                self.read_store(n, share);
            }
            Event::Claimed(_, share, revision, claims) => {
                self.nodes[n].held[share].pool.stored(revision, claims);
            }
            Event::NotClaimed(_, share) => {
                self.nodes[n].held[share].pool.not_written();
                self.read_claims(n, share);
            }
            Event::Engine(_, up) => {
                self.nodes[n].members.connected(up);
                for share in 0..self.store.len() {
                    if up {
                        self.read_store(n, share);
                    }
                }
            }
            Event::Tick(_) => {
                self.nodes[n].members.tick(now, wall);
                if self.planted != Planted::NoPreference
                    && let Some(share) = self.nodes[n].members.gives_back(now)
                {
                    self.hand_over(n, share);
                }
                self.act(n);
                if self.nodes[n].ends.is_some_and(|at| at <= now) {
                    return self.gone(n, true);
                }
                self.at(now + MS, Event::Tick(n));
                self.renew_leases(n);
                self.trouble(n);
                self.traffic(n);
            }
            Event::Up(_) => {}
        }
        self.act(n);
        for share in 0..self.store.len() {
            let member = self.member(n, share);
            let synced = member.role() == Role::Standby && member.is_synced();
            let since = &mut self.nodes[n].held[share].synced_since;
            match (synced, *since) {
                (true, None) => *since = Some(now),
                (false, Some(_)) => *since = None,
                _ => {}
            }
        }
    }

    /// Packets stop, the last changes are told, and another one goes on.
    pub(crate) fn hand_over(&mut self, n: usize, share: usize) {
        let (now, wall) = (self.now, self.wall(n));
        if !self.is_active(n, share) || self.member(n, share).heir(now).is_none() {
            return;
        }
        self.publish(n, share);
        let alone = self.active(share).len() == 1;
        let left = Left::handed(now, n, &self.nodes[n].held[share]);
        if self.member_mut(n, share).hand_over(now, wall).is_ok() {
            self.left[share] = alone.then_some(left);
        }
    }

    pub(crate) fn act(&mut self, n: usize) {
        let mut beats = Vec::new();
        for share in 0..self.store.len() {
            for action in self.member_mut(n, share).take_actions() {
                if self.trace && !matches!(action, Action::Beat(_)) {
                    println!("{} m{n} {} {action:?}", self.now / 1000, self.share_name(share));
                }
                match action {
                    Action::Beat(beat) => beats.push(beat),
                    Action::Send(message) => self.send(n, share, message),
                    Action::Promote(_, reason) => self.promoted(n, share, &reason),
                    Action::Demote(..) => self.nodes[n].held[share].demoted(),
                    Action::Apply(parts) => self.apply(n, share, &parts),
                    Action::TellAll(to) => self.tell_all(n, share, &to),
                    Action::Write(revision, owner) => self.write(n, share, revision, owner),
                    // What was not told is swept 10 s later, which is beyond a history.
                    Action::BeginSync | Action::EndSync => {}
                    Action::Note(_) | Action::Announce => {}
                }
            }
        }
        if !beats.is_empty() {
            self.beat(n, &Rc::new(beats));
        }
    }

    fn write(&mut self, n: usize, share: usize, revision: u64, owner: Owner) {
        let (now, delay) = (self.now, self.random.below(3 * MS));
        if !(self.engine && self.reached[n]) {
            return self.at(now + 5 * MS, Event::Refused(n, share));
        }
        if self.store[share].revision != revision && self.planted != Planted::NoCompare {
            return self.at(now + delay, Event::Refused(n, share));
        }
        self.judge_owner(share, &owner);
        let stored = &mut self.store[share];
        stored.revision += 1;
        stored.owner = Some(owner);
        for to in (0..self.nodes.len()).filter(|to| self.reached[*to]).collect::<Vec<_>>() {
            let Stored { revision, owner, .. } = &self.store[share];
            let event = Event::Stored(to, share, *revision, owner.clone());
            self.at(now + delay, event);
        }
    }

    /// Stripes of the pool are claimed.
    pub(crate) fn claim(&mut self, n: usize, share: usize, revision: u64, claims: Claims) {
        let (now, delay) = (self.now, self.random.below(3 * MS));
        if !(self.engine && self.reached[n]) {
            return self.at(now + 5 * MS, Event::NotClaimed(n, share));
        }
        let stored = &mut self.store[share].claims;
        if stored.0 != revision && self.planted != Planted::NoCompare {
            return self.at(now + delay, Event::NotClaimed(n, share));
        }
        *stored = (stored.0 + 1, Some(claims));
        self.tally.claims += 1;
        for to in (0..self.nodes.len()).filter(|to| self.reached[*to]).collect::<Vec<_>>() {
            let (revision, claims) = self.store[share].claims.clone();
            self.at(now + delay, Event::Claimed(to, share, revision, claims));
        }
    }

    fn beat(&mut self, n: usize, beats: &Rc<Vec<Heartbeat>>) {
        let now = self.now;
        for beat in beats.iter() {
            let share = self.share(&beat.share);
            self.nodes[n].beats[share] = beat.number;
        }
        for to in (0..self.nodes.len()).filter(|to| *to != n) {
            for path in 0..2 {
                if self.paths[path][n][to] && !self.random.one_in(50) {
                    let delay = self.random.below(2 * MS);
                    self.at(now + delay, Event::Beats(to, beats.clone()));
                }
            }
        }
    }

    pub(crate) fn send(&mut self, n: usize, share: usize, message: Message) {
        let (now, message) = (self.now, Rc::new(message));
        for to in (0..self.nodes.len()).filter(|to| *to != n) {
            if !(self.engine && self.reached[n] && self.reached[to]) {
                self.nodes[to].held[share].lost_at = now;
                continue;
            }
            let mut at = now + self.random.below(2 * MS);
            let last = self.last.entry((n, to)).or_insert(0);
            if (BEGINS..TROUBLED).contains(&now) && self.random.one_in(500) {
                // It overtakes, or comes late: for who receives it something is missing.
                at += 2 * MS;
                self.nodes[to].held[share].lost_at = now + 4 * MS;
            } else {
                at = at.max(*last);
                *last = at;
            }
            self.at(at, Event::Stream(to, message.clone()));
        }
    }
}
