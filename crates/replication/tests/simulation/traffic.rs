//! Connections and backends: made, told, applied.

use crate::world::{BEGINS, MS, Planted, World};
use replication::message::Part;
use replication::pool::Pool;
use std::collections::BTreeMap;

/// Outside ports of a share.
const PORTS: u16 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) port: u16,
    pub(crate) opened: u64,
    /// How far it has come, which nobody tells.
    pub(crate) progress: u64,
}

/// Stripes of ports: the second half is the pool, where there is one.
const STRIPES: u16 = 16;
const POOL: u64 = 0xff00;

/// What a member holds of a share.
pub(crate) struct Held {
    pub(crate) connections: BTreeMap<u32, Connection>,
    /// What is known of a balancer's backends: another number with each change, and when it changed.
    pub(crate) backends: (u64, u64),
    pub(crate) pool: Pool,
    /// Stripes that it has asked for.
    asked: u64,
    /// What is to be told.
    changed: Vec<u32>,
    backends_changed: bool,
    /// Until when it opens connections.
    opens_until: u64,
    /// When something of the stream was last lost on the way to it.
    pub(crate) lost_at: u64,
    /// When it last had all.
    pub(crate) synced_since: Option<u64>,
}

impl Held {
    pub(crate) fn new(name: &str) -> Held {
        Held {
            connections: BTreeMap::new(),
            backends: (0, 0),
            pool: Pool::new(name, POOL),
            asked: 0,
            changed: Vec::new(),
            backends_changed: false,
            opens_until: 0,
            lost_at: 0,
            synced_since: None,
        }
    }

    /// Of one that has started anew.
    pub(crate) fn after(before: &Held, name: &str) -> Held {
        Held { lost_at: before.lost_at, ..Held::new(name) }
    }

    pub(crate) fn demoted(&mut self) {
        self.changed.clear();
        self.backends_changed = false;
    }
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

fn backends((number, changed): (u64, u64)) -> Part {
    let records = [number.to_le_bytes(), changed.to_le_bytes()].concat();
    Part { tracker: "lb".to_owned(), records }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl World {
    pub(crate) fn apply(&mut self, n: usize, share: usize, parts: &[Part]) {
        for part in parts {
            if part.tracker == "lb" {
                let told = (word(&part.records, 0), word(&part.records, 8));
                self.nodes[n].held[share].backends = told;
                continue;
            }
            let mut bytes = &part.records[..];
            while let [kind, rest @ ..] = bytes {
                let id = u32::from_le_bytes(rest[..4].try_into().unwrap());
                let held = &mut self.nodes[n].held[share];
                if *kind == 0 {
                    held.connections.remove(&id);
                    bytes = &rest[4..];
                    continue;
                }
                let port = u16::from_le_bytes(rest[4..6].try_into().unwrap());
                let connection =
                    Connection { port, opened: word(rest, 6), progress: word(rest, 14) };
                bytes = &rest[22..];
                if let Some(old) = held.connections.insert(id, connection)
                    && old.port != port
                {
                    self.fail(format!("connection {id} had port {}, and has {port}", old.port));
                }
            }
        }
    }

    pub(crate) fn tell_all(&mut self, n: usize, share: usize, to: &str) {
        let (now, wall) = (self.now, self.wall(n));
        let Some((id, begins)) = self.member_mut(n, share).all_begins(now, wall, to) else {
            return;
        };
        self.send(n, share, begins);
        let held = &self.nodes[n].held[share];
        let records: Vec<Vec<u8>> =
            held.connections.iter().map(|(id, c)| record(*id, Some(c))).collect();
        let mut all: Vec<Part> = records
            .chunks(16)
            .map(|some| Part { tracker: "ct".to_owned(), records: some.concat() })
            .collect();
        all.push(backends(held.backends));
        for part in all {
            let message = self.member_mut(n, share).part_of_all(now, wall, id, vec![part]);
            if let Some(message) = message {
                self.send(n, share, message);
            }
        }
        if let Some(message) = self.member_mut(n, share).all_ends(now, wall, id) {
            self.send(n, share, message);
        }
    }

    /// Connections may be opened for as long as the member says.
    pub(crate) fn renew_leases(&mut self, n: usize) {
        for share in 0..self.store.len() {
            let opens = self.member(n, share).opens_for(self.now);
            self.nodes[n].held[share].opens_until = self.now + opens;
        }
    }

    fn may_open(&self, n: usize, share: usize) -> bool {
        let opens_until = self.nodes[n].held[share].opens_until;
        self.planted == Planted::NoFence || self.now < opens_until
    }

    /// Who was paused runs what lies in its queues, before it hears anything: also packets of connections that another member has
    /// opened meanwhile, if it went on as this one was silent. Two that were active before, as one is cut off or the store has not said
    /// yet who of them is, open connections beside each other, of other ports; so does who is to go on by somebody's word.
    pub(crate) fn packets_that_waited(&mut self, n: usize) {
        let paused_at = self.nodes[n].paused_at;
        if self.asked >= paused_at {
            return;
        }
        for share in 0..self.store.len() {
            let alone = self.nodes[n].alone[share];
            if !alone || !self.is_active(n, share) || !self.may_open(n, share) {
                continue;
            }
            for other in self.active(share).into_iter().filter(|other| *other != n) {
                if !self.has_heard_last(other, n, share) {
                    continue;
                }
                let own = &self.nodes[n].held[share].connections;
                let theirs = &self.nodes[other].held[share].connections;
                let mut lately = theirs.iter().filter(|(_, c)| c.opened >= paused_at);
                if let Some((id, _)) = lately.find(|(id, _)| !own.contains_key(id)) {
                    let what =
                        format!("share {share}: {id} has a port of {other}, and gets one of {n}");
                    return self.fail(what);
                }
            }
        }
    }

    /// Whether a member has heard the last heartbeat of another one.
    fn has_heard_last(&self, who: usize, of: usize, share: usize) -> bool {
        let view = self.member(who, share).view(self.now);
        let of_it = view.peers.iter().find(|peer| peer.name == crate::world::name(of));
        let last = of_it.and_then(|peer| peer.last.as_ref());
        last.is_some_and(|last| last.number == self.nodes[of].beats[share])
    }

    /// Packets come to who is active: connections begin, go on, and end; what has changed is told each millisecond.
    pub(crate) fn traffic(&mut self, n: usize) {
        for share in 0..self.store.len() {
            if self.is_active(n, share) {
                if self.random.one_in(3) && self.may_open(n, share) {
                    self.opens(n, share);
                }
                self.goes_on(n, share);
                self.publish(n, share);
            }
        }
    }

    /// Whether a member may give a port out. Half of its own it gives out only once it knows all connections; of the other half, another part
    /// each time it starts. What is in the pool it has claimed, or claims some of it when it runs short, which it does
    /// when trouble begins.
    fn may_give(&mut self, n: usize, share: usize, port: u16) -> bool {
        let (count, stripe) = (self.nodes.len() as u16, port % STRIPES);
        let knows = self.member(n, share).has_synced();
        if self.planted == Planted::NoStripes {
            return true;
        }
        if self.pool && POOL >> stripe & 1 != 0 {
            let short = knows && self.now >= BEGINS && self.random.one_in(30);
            let held = &mut self.nodes[n].held[share];
            let mut mine = held.pool.mine(knows);
            if self.planted == Planted::ClaimUnconfirmed {
                mine |= held.asked;
            }
            if mine >> stripe & 1 == 0
                && short
                && let Some((revision, claims)) = held.pool.claim(1)
            {
                held.asked |= claims.of(&crate::world::name(n));
                self.claim(n, share, revision, claims);
            }
            return mine >> stripe & 1 != 0;
        }
        let part = u64::from(port / STRIPES) % 16;
        let safe = match part {
            0..8 => knows,
            _ => self.nodes[n].starts % 8 == part - 8,
        };
        stripe % count == n as u16 && safe
    }

    fn opens(&mut self, n: usize, share: usize) {
        let port = self.random.below(PORTS.into()) as u16;
        let its = self.may_give(n, share, port);
        let taken = self.nodes[n].held[share].connections.values().any(|c| c.port == port);
        if !its || taken {
            return;
        }
        self.connections += 1;
        let id = self.connections;
        self.judge_binding(n, share, id, port);
        let connection = Connection { port, opened: self.now, progress: 0 };
        let held = &mut self.nodes[n].held[share];
        held.connections.insert(id, connection);
        held.changed.push(id);
    }

    fn goes_on(&mut self, n: usize, share: usize) {
        let one_in = |random: &mut crate::world::Random, n| random.one_in(n);
        // A backend comes up, or goes down.
        if one_in(&mut self.random, 50) {
            self.backends += 1;
            let held = &mut self.nodes[n].held[share];
            (held.backends, held.backends_changed) = ((self.backends, self.now), true);
        }
        let len = self.nodes[n].held[share].connections.len() as u64;
        let at = self.random.below(len) as usize;
        let Some(id) = self.nodes[n].held[share].connections.keys().nth(at).copied() else {
            return;
        };
        let ends = one_in(&mut self.random, 40);
        let held = &mut self.nodes[n].held[share];
        if ends {
            self.closed.insert(id);
            held.connections.remove(&id);
            held.changed.push(id);
        } else if let Some(connection) = held.connections.get_mut(&id) {
            connection.progress += 1;
        }
    }

    /// Tells what has changed.
    pub(crate) fn publish(&mut self, n: usize, share: usize) {
        let (now, wall) = (self.now, self.wall(n));
        let held = &mut self.nodes[n].held[share];
        let changed = std::mem::take(&mut held.changed);
        let told = std::mem::take(&mut held.backends_changed);
        let mut parts = Vec::new();
        if !changed.is_empty() {
            let records = changed
                .iter()
                .map(|id| record(*id, held.connections.get(id)))
                .collect::<Vec<_>>()
                .concat();
            parts.push(Part { tracker: "ct".to_owned(), records });
        }
        if told {
            parts.push(backends(held.backends));
        }
        if !parts.is_empty()
            && let Some(message) = self.member_mut(n, share).changes(now, wall, parts)
        {
            self.send(n, share, message);
        }
    }
}

/// Between the last change of a connection and its being applied elsewhere, at most: a batch, the engine.
pub(crate) const L: u64 = 6 * MS;
