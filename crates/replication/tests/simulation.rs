//! Members, store and stream under a virtual clock: seeded histories of traffic, loss, delay, reordering, pauses, partitions, crashes,
//! restarts and clocks that are set; what must hold of all of them, and faults that are planted and must be found.
//!
//! `REPLICATION_HISTORIES=100000` runs so many (a few minutes); a failure names its seed.

use replication::message::Part;
use replication::{Action, Body, Config, Member, Message, Owner, Reason, Role};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

const MS: u64 = 1_000_000;
/// Between the last change of a connection and its being applied elsewhere, at most: a batch, the engine.
const L: u64 = 6 * MS;
/// When trouble begins, when it ends, and how long it is quiet then. No partition lasts longer than it takes a member to settle.
const BEGINS: u64 = 2000 * MS;
const TROUBLED: u64 = BEGINS + 1500 * MS;
const SETTLES: u64 = 1550 * MS;
const QUIET: u64 = 2500 * MS;
const PORTS: u16 = 256;

/// Faults that are planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// Every member gives out every port.
    NoStripes,
    /// Nobody cares for a higher epoch, nor for what the store says.
    NoEpochs,
    /// A copy judges by what it was told last of how far a connection has come.
    StrictWindows,
    /// A gap is not noticed.
    NoNumbers,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Connection {
    port: u16,
    opened: u64,
    /// How far it has come, which nobody tells.
    progress: u64,
}

struct Node {
    member: Member,
    up: bool,
    paused_until: u64,
    /// What came while it was paused.
    inbox: VecDeque<Event>,
    connections: BTreeMap<u32, Connection>,
    /// What is to be told.
    changed: Vec<u32>,
    told: BTreeMap<u32, ()>,
    syncing: Option<BTreeMap<u32, ()>>,
    starts: u64,
    /// How far its clock on the wall is ahead of the time.
    ahead: u64,
    /// When something of the stream was last lost on the way to it.
    lost_at: u64,
    /// When it last had all.
    synced_since: Option<u64>,
}

#[derive(Debug, Clone)]
enum Event {
    Beat(usize, replication::Heartbeat),
    Closed(usize, usize),
    Stream(usize, Message),
    Stored(usize, u64, Option<Owner>),
    Refused(usize),
    Engine(usize, bool),
    Tick(usize),
    Up(usize),
}

impl Event {
    fn to(&self) -> usize {
        match self {
            Event::Beat(to, _)
            | Event::Closed(to, _)
            | Event::Stream(to, _)
            | Event::Stored(to, ..)
            | Event::Refused(to)
            | Event::Engine(to, _)
            | Event::Tick(to)
            | Event::Up(to) => *to,
        }
    }
}

struct World {
    random: Random,
    planted: Planted,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    of: BTreeMap<u64, Event>,
    count: u64,
    nodes: Vec<Node>,
    /// Heartbeats pass between two of them, by each of two paths.
    paths: [Vec<Vec<bool>>; 2],
    /// The engine is up, and reached by each.
    engine: bool,
    reached: Vec<bool>,
    store: (u64, Option<Owner>),
    /// Messages of one member to another do not overtake each other, but for those that do.
    last: BTreeMap<(usize, usize), u64>,
    connections: u32,
    takeovers: u64,
    kept: u64,
    /// What the active member had when it died, for whoever goes on.
    died: Option<(u64, usize, BTreeMap<u32, Connection>)>,
    /// Connections whose ends have closed them.
    closed: BTreeSet<u32>,
    quiet: bool,
    problem: Option<String>,
}

fn name(n: usize) -> String {
    format!("m{n}")
}

fn number(name: &str) -> usize {
    name[1..].parse().unwrap()
}

fn member(n: usize, count: usize, starts: u64, now: u64) -> Member {
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
    Member::new(config, now).unwrap()
}

fn record(id: u32, connection: Option<&Connection>) -> Vec<u8> {
    let mut out = vec![u8::from(connection.is_some())];
    out.extend(id.to_le_bytes());
    let Some(Connection { port, opened, progress }) = connection else { return out };
    out.extend(port.to_le_bytes());
    out.extend(opened.to_le_bytes());
    out.extend(progress.to_le_bytes());
    out
}

impl World {
    fn new(seed: u64, planted: Planted) -> World {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let count = 2 + random.below(2) as usize;
        let all = vec![vec![true; count]; count];
        let mut world = World {
            random,
            planted,
            now: 0,
            events: BinaryHeap::new(),
            of: BTreeMap::new(),
            count: 0,
            nodes: Vec::new(),
            paths: [all.clone(), all],
            engine: true,
            reached: vec![true; count],
            store: (0, None),
            last: BTreeMap::new(),
            connections: 0,
            takeovers: 0,
            kept: 0,
            died: None,
            closed: BTreeSet::new(),
            quiet: false,
            problem: None,
        };
        for n in 0..count {
            world.nodes.push(Node {
                member: member(n, count, 0, 0),
                up: false,
                paused_until: 0,
                inbox: VecDeque::new(),
                connections: BTreeMap::new(),
                changed: Vec::new(),
                told: BTreeMap::new(),
                syncing: None,
                starts: 0,
                ahead: 0,
                lost_at: 0,
                synced_since: None,
            });
            let at = world.random.below(20 * MS);
            world.at(at, Event::Up(n));
        }
        world
    }

    fn at(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time.max(self.now), self.count)));
        self.of.insert(self.count, event);
    }

    fn fail(&mut self, what: String) {
        let at = self.now / MS;
        self.problem.get_or_insert_with(|| format!("at {at} ms: {what}"));
    }

    fn run(mut self) -> Result<(u64, u64), String> {
        while let Some(Reverse((time, n))) = self.events.pop() {
            if time > TROUBLED + QUIET || self.problem.is_some() {
                break;
            }
            self.now = time;
            let Some(event) = self.of.remove(&n) else { continue };
            self.handle(event);
        }
        if self.problem.is_none() {
            let active: Vec<_> = (0..self.nodes.len()).filter(|n| self.is_active(*n)).collect();
            if active.len() != 1 {
                self.fail(format!("{active:?} are active in the end"));
            }
            let unsynced = self.nodes.iter().filter(|node| !node.member.view(self.now).synced);
            let unsynced = unsynced.count();
            if unsynced > 0 {
                self.fail(format!("{unsynced} have not all in the end"));
            }
        }
        match self.problem {
            None => Ok((self.takeovers, self.kept)),
            Some(problem) => Err(problem),
        }
    }

    fn is_active(&self, n: usize) -> bool {
        self.nodes[n].up && self.nodes[n].member.role() == Role::Active
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
        let mut closed = matches!(event, Event::Closed(..));
        while let Some(waiting) = self.nodes[n].inbox.pop_front() {
            closed |= matches!(waiting, Event::Closed(..));
            self.given(n, waiting);
        }
        self.given(n, event);
        if closed {
            let wall = self.wall(n);
            self.nodes[n].member.tick(self.now, wall);
            self.act(n);
        }
    }

    fn start(&mut self, n: usize) {
        let (count, now) = (self.nodes.len(), self.now);
        let node = &mut self.nodes[n];
        node.starts += 1;
        node.member = member(n, count, node.starts, now);
        node.up = true;
        node.inbox.clear();
        node.connections.clear();
        (node.changed, node.told, node.syncing) = (Vec::new(), BTreeMap::new(), None);
        node.synced_since = None;
        self.at(now, Event::Tick(n));
        let reached = self.engine && self.reached[n];
        self.at(now + MS, Event::Engine(n, reached));
    }

    /// What the clock on its wall says.
    fn wall(&self, n: usize) -> u64 {
        self.now.wrapping_add(self.nodes[n].ahead)
    }

    fn given(&mut self, n: usize, event: Event) {
        let (now, wall) = (self.now, self.wall(n));
        let member = &mut self.nodes[n].member;
        let strict = self.planted != Planted::NoEpochs;
        match event {
            Event::Beat(_, mut beat) => {
                if !strict && member.role() == Role::Active {
                    beat.epoch = beat.epoch.min(member.epoch());
                    beat.active = false;
                }
                member.heard(now, beat);
            }
            Event::Closed(_, who) => member.closed(now, &name(who)),
            Event::Stream(_, mut message) => {
                if self.planted == Planted::NoNumbers && member.role() == Role::Standby {
                    let expected = member.view(now).seq + 1;
                    message.seq = if expected == 1 { message.seq } else { expected };
                }
                let asks = message.body == Body::AskForAll;
                if strict || asks || member.role() == Role::Standby {
                    member.received(now, message);
                }
            }
            Event::Stored(_, revision, owner) => {
                if strict || member.role() == Role::Standby {
                    member.stored(now, revision, owner);
                }
            }
            Event::Refused(_) => {
                member.not_written();
                let (revision, owner) = self.store.clone();
                self.at(now + MS, Event::Stored(n, revision, owner));
            }
            Event::Engine(_, up) => {
                member.connected(up);
                if up {
                    let (revision, owner) = self.store.clone();
                    self.at(now + MS, Event::Stored(n, revision, owner));
                }
            }
            Event::Tick(_) => {
                member.tick(now, wall);
                if member.gives_back(now) {
                    let _ = member.hand_over(now, wall);
                }
                self.act(n);
                self.at(now + MS, Event::Tick(n));
                self.trouble(n);
                self.traffic(n);
            }
            Event::Up(_) => {}
        }
        self.act(n);
        let node = &mut self.nodes[n];
        let synced = node.member.role() == Role::Standby && node.member.view(now).synced;
        match (synced, node.synced_since) {
            (true, None) => node.synced_since = Some(now),
            (false, Some(_)) => node.synced_since = None,
            _ => {}
        }
    }

    fn act(&mut self, n: usize) {
        for action in self.nodes[n].member.take_actions() {
            if std::env::var_os("REPLICATION_TRACE").is_some() && !matches!(action, Action::Beat(_))
            {
                println!("{} m{n} {action:?}", self.now / 1000);
            }
            match action {
                Action::Beat(beat) => self.beat(n, &beat),
                Action::Send(message) => self.send(n, &message),
                Action::Promote(_, reason) => self.promoted(n, &reason),
                Action::Demote(..) => {
                    let node = &mut self.nodes[n];
                    (node.changed, node.syncing) = (Vec::new(), None);
                }
                Action::BeginSync => self.nodes[n].syncing = Some(BTreeMap::new()),
                Action::Apply(parts) => self.apply(n, &parts),
                // What was not told is swept 10 s later, which is beyond a history.
                Action::EndSync => self.nodes[n].syncing = None,
                Action::TellAll(to) => self.tell_all(n, &to),
                Action::Write(revision, owner) => {
                    let (now, delay) = (self.now, self.random.below(3 * MS));
                    if !(self.engine && self.reached[n]) {
                        self.at(now + 5 * MS, Event::Refused(n));
                    } else if self.store.0 == revision {
                        self.store = (revision + 1, Some(owner));
                        for to in 0..self.nodes.len() {
                            if self.reached[to] {
                                let (revision, owner) = self.store.clone();
                                self.at(now + delay, Event::Stored(to, revision, owner));
                            }
                        }
                    } else {
                        self.at(now + delay, Event::Refused(n));
                    }
                }
                Action::Note(_) | Action::Announce => {}
            }
        }
    }

    fn beat(&mut self, n: usize, beat: &replication::Heartbeat) {
        let now = self.now;
        for to in (0..self.nodes.len()).filter(|to| *to != n) {
            for path in 0..2 {
                if self.paths[path][n][to] && !self.random.one_in(50) {
                    let delay = self.random.below(2 * MS);
                    self.at(now + delay, Event::Beat(to, beat.clone()));
                }
            }
        }
    }

    fn send(&mut self, n: usize, message: &Message) {
        let now = self.now;
        for to in (0..self.nodes.len()).filter(|to| *to != n) {
            if !(self.engine && self.reached[n] && self.reached[to]) {
                self.nodes[to].lost_at = now;
                continue;
            }
            let mut at = now + self.random.below(2 * MS);
            let last = self.last.entry((n, to)).or_insert(0);
            if (BEGINS..TROUBLED).contains(&now) && self.random.one_in(500) {
                // It overtakes, or comes late: for who receives it something is missing.
                at += 2 * MS;
                self.nodes[to].lost_at = now + 4 * MS;
            } else {
                at = at.max(*last);
                *last = at;
            }
            self.at(at, Event::Stream(to, message.clone()));
        }
    }

    fn apply(&mut self, n: usize, parts: &[Part]) {
        for part in parts {
            let mut bytes = &part.records[..];
            while let [kind, rest @ ..] = bytes {
                let id = u32::from_le_bytes(rest[..4].try_into().unwrap());
                let node = &mut self.nodes[n];
                if *kind == 0 {
                    node.connections.remove(&id);
                    bytes = &rest[4..];
                    continue;
                }
                let word = |at: usize| u64::from_le_bytes(rest[at..at + 8].try_into().unwrap());
                let port = u16::from_le_bytes(rest[4..6].try_into().unwrap());
                let connection = Connection { port, opened: word(6), progress: word(14) };
                bytes = &rest[22..];
                if let Some(told) = &mut node.syncing {
                    told.insert(id, ());
                }
                if let Some(old) = node.connections.insert(id, connection)
                    && old.port != port
                {
                    self.fail(format!("connection {id} had port {}, and has {port}", old.port));
                }
            }
        }
    }

    fn tell_all(&mut self, n: usize, to: &str) {
        let (now, wall) = (self.now, self.wall(n));
        let Some((id, begins)) = self.nodes[n].member.all_begins(now, wall, to) else { return };
        self.send(n, &begins);
        let node = &self.nodes[n];
        let records: Vec<Vec<u8>> =
            node.connections.iter().map(|(id, c)| record(*id, Some(c))).collect();
        for some in records.chunks(16) {
            let parts = vec![Part { tracker: "ct".to_owned(), records: some.concat() }];
            if let Some(message) = self.nodes[n].member.part_of_all(now, wall, id, parts) {
                self.send(n, &message);
            }
        }
        if let Some(message) = self.nodes[n].member.all_ends(now, wall, id) {
            self.send(n, &message);
        }
    }

    /// Packets come to who is active: connections begin, go on, and end; what has changed is told each millisecond.
    fn traffic(&mut self, n: usize) {
        if !self.is_active(n) {
            return;
        }
        let (now, wall) = (self.now, self.wall(n));
        let count = self.nodes.len() as u16;
        if self.random.one_in(3) {
            let port = self.random.below(PORTS.into()) as u16;
            // Half of its own it gives out only once it knows all connections; of the other half, another part each time it starts.
            let (node, part) = (&self.nodes[n], u64::from(port / count) % 16);
            let safe = match part {
                0..8 => node.member.has_synced(),
                _ => node.starts % 8 == part - 8,
            };
            let its = port % count == n as u16 && safe || self.planted == Planted::NoStripes;
            let taken = self.nodes[n].connections.values().any(|c| c.port == port);
            if its && !taken {
                self.connections += 1;
                let id = self.connections;
                for (other, node) in self.nodes.iter().enumerate() {
                    let open = |id: &u32| !self.closed.contains(id);
                    let same = node.connections.iter().find(|(id, c)| c.port == port && open(id));
                    // One that is no more than an old copy is superseded when its holder learns of it.
                    let lives = other != n && self.is_active(other);
                    if let (Some((theirs, _)), true) = (same, lives) {
                        let what = format!("port {port} is bound by {id} and {theirs} at once");
                        self.problem.get_or_insert(what);
                    }
                }
                let connection = Connection { port, opened: now, progress: 0 };
                self.nodes[n].connections.insert(id, connection);
                self.nodes[n].changed.push(id);
            }
        }
        let all: Vec<u32> = self.nodes[n].connections.keys().copied().collect();
        if !all.is_empty() {
            let id = all[self.random.below(all.len() as u64) as usize];
            if self.random.one_in(40) {
                self.closed.insert(id);
                self.nodes[n].connections.remove(&id);
                self.nodes[n].changed.push(id);
            } else if let Some(connection) = self.nodes[n].connections.get_mut(&id) {
                connection.progress += 1;
            }
        }
        let node = &mut self.nodes[n];
        let changed = std::mem::take(&mut node.changed);
        if changed.is_empty() {
            return;
        }
        let records = changed
            .iter()
            .map(|id| record(*id, node.connections.get(id)))
            .collect::<Vec<_>>()
            .concat();
        let parts = vec![Part { tracker: "ct".to_owned(), records }];
        if let Some(message) = node.member.changes(now, wall, parts) {
            self.send(n, &message);
        }
    }

    /// Somebody goes on.
    fn promoted(&mut self, n: usize, reason: &Reason) {
        let Some((at, who, had)) = &self.died else { return };
        let theirs =
            matches!(reason, Reason::Closed(name) | Reason::Silent(name) if number(name) == *who);
        let node = &self.nodes[n];
        let sure =
            node.synced_since.is_some_and(|since| since + L < *at) && node.lost_at + 100 * MS < *at;
        if !theirs || !sure {
            return;
        }
        self.takeovers += 1;
        let mut lost = None;
        for (id, connection) in had.iter().filter(|(_, c)| c.opened + L < *at) {
            match node.connections.get(id) {
                None => lost = Some(format!("{id} of {who} is lost to {n}")),
                Some(copy) if copy.port != connection.port => {
                    lost = Some(format!("{id} has another port"));
                }
                Some(copy) => {
                    if self.planted == Planted::StrictWindows
                        && copy.progress + 3 < connection.progress
                    {
                        lost = Some(format!("{id} is stuck"));
                    }
                    self.kept += 1;
                }
            }
        }
        self.died = None;
        if let Some(lost) = lost {
            self.fail(lost);
        }
    }

    /// What goes wrong, once in a while and until it is quiet.
    fn trouble(&mut self, n: usize) {
        let (now, count) = (self.now, self.nodes.len());
        if now < BEGINS {
            return;
        }
        if now > TROUBLED {
            if !std::mem::replace(&mut self.quiet, true) {
                self.paths = [vec![vec![true; count]; count], vec![vec![true; count]; count]];
                self.reached = vec![true; count];
                self.engine = true;
                for to in 0..count {
                    self.at(now + 40 * MS, Event::Engine(to, true));
                }
            }
            return;
        }
        let other = self.random.below(count as u64) as usize;
        match self.random.below(4000) {
            0..4 => self.crash(n),
            // Stopped by a signal, or starved.
            4..8 => {
                let span = [5, 40, 300][self.random.below(3) as usize];
                self.nodes[n].paused_until = now + self.random.below(span * MS);
            }
            8..12 => {
                let path = self.random.below(2) as usize;
                let both = self.random.one_in(2);
                for p in 0..2 {
                    if p == path || both {
                        self.paths[p][n][other] = false;
                        self.paths[p][other][n] = self.random.one_in(4);
                    }
                }
            }
            12..24 => {
                for path in &mut self.paths {
                    (path[n][other], path[other][n]) = (true, true);
                }
            }
            24..26 => self.set_engine(None, false),
            26..36 => self.set_engine(None, true),
            36..38 => self.set_engine(Some(n), false),
            38..48 => self.set_engine(Some(n), true),
            48 => {
                let wall = self.wall(n);
                if self.nodes[n].member.heir(now).is_some() && self.is_active(n) {
                    let _ = self.nodes[n].member.hand_over(now, wall);
                }
            }
            // Somebody sets the clock.
            49..51 => self.nodes[n].ahead = self.random.next(),
            _ => {}
        }
    }

    fn crash(&mut self, n: usize) {
        let now = self.now;
        if self.is_active(n) {
            let had = self.nodes[n].connections.clone();
            let alone = (0..self.nodes.len()).filter(|other| self.is_active(*other)).count() == 1;
            self.died = alone.then_some((now, n, had));
        }
        self.nodes[n].up = false;
        for to in (0..self.nodes.len()).filter(|to| *to != n) {
            // A host that goes says nothing; a process that goes has a kernel that does.
            if self.random.one_in(2) && self.paths[0][n][to] {
                self.at(now + MS, Event::Closed(to, n));
            }
        }
        let down = 50 * MS + self.random.below(600 * MS);
        self.at(now + down, Event::Up(n));
    }

    fn set_engine(&mut self, of: Option<usize>, up: bool) {
        let now = self.now;
        match of {
            None => self.engine = up,
            Some(n) => self.reached[n] = up,
        }
        for n in 0..self.nodes.len() {
            let reached = self.engine && self.reached[n];
            if !reached {
                self.nodes[n].lost_at = now;
            }
            let delay = self.random.below(30 * MS);
            self.at(now + delay, Event::Engine(n, reached));
        }
    }
}

/// One history, told.
#[test]
#[ignore = "for who looks at a seed: REPLICATION_SEED=23 REPLICATION_TRACE=1"]
fn a_seed() {
    let seed = std::env::var("REPLICATION_SEED").unwrap().parse().unwrap();
    println!("{:?}", World::new(seed, Planted::Nothing).run());
}

fn histories() -> u64 {
    std::env::var("REPLICATION_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(400)
}

#[test]
fn what_must_hold_holds_in_all_histories() {
    let (mut takeovers, mut kept) = (0, 0);
    for seed in 1..=histories() {
        match World::new(seed, Planted::Nothing).run() {
            Ok((t, k)) => (takeovers, kept) = (takeovers + t, kept + k),
            Err(problem) => panic!("seed {seed}: {problem}"),
        }
    }
    println!("{} histories, {takeovers} takeovers, {kept} connections kept", histories());
    assert!(takeovers * 10 > histories(), "{takeovers}");
    assert!(kept > takeovers, "{kept}");
}

#[test]
fn faults_that_are_planted_are_found() {
    let planted =
        [Planted::NoStripes, Planted::NoEpochs, Planted::StrictWindows, Planted::NoNumbers];
    for fault in planted {
        let found = (1..=2000).find_map(|seed| Some((seed, World::new(seed, fault).run().err()?)));
        let (seed, problem) = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
        println!("{fault:?}: seed {seed}: {problem}");
    }
}
