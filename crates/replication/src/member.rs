//! A member's state machine.
//!
//! Whoever runs it calls [`Member::tick`] at the latest at [`Member::next_wake`], after all that has come was given to it, and does
//! what [`Member::take_actions`] says, in that order. Times are nanoseconds of one monotonic clock.
//!
//! # Who takes over, and when
//!
//! A standby whose active member is dead, by silence on all paths or by a closed socket, is promoted at once if it comes first
//! among the standbys that live: those that are synchronised before others, then by priority, then by name. Each one behind it waits two
//! heartbeats longer, in which it hears of the first. A standby with another configuration is promoted only by command.
//!
//! Who is active no more by its own word, as it has handed over, is waited for as long as one that is silent: its word to go on may be lost.
//!
//! With no active member in sight, as at a start, members wait [`Config::hold_ns`] for one. Then whom the store names comes
//! first, and the order of standbys decides when it does not come.
//!
//! Who was not run for a while, stopped by a signal or starved, judges nobody by what it has not heard meanwhile.

use crate::bytes::is_name;
use crate::heartbeat::Heartbeat;
use crate::message::{Body, Message, Part};
use crate::receiver::{Receiver, Sync, Take};
use crate::store::{Owner, Store};
use std::collections::BTreeMap;

/// An active member that has nothing to say says so, each so many heartbeats: standbys notice what they have missed.
const IDLE_BEATS: u64 = 5;
/// All is asked for again after so many heartbeats without an answer, or without a part of it.
const ASK_AGAIN_BEATS: u64 = 100;

/// Connections that were not told of in a synchronisation are kept so long.
pub const SWEEP_NS: u64 = 10_000_000_000;
/// Who is active and named by the store for so long is alone: no other could be active without having learnt of it.
pub const SETTLES_NS: u64 = 10_000_000_000;

/// What a member is told of itself and its group.
#[derive(Debug, Clone)]
pub struct Config {
    /// The group.
    pub group: String,
    /// The share; empty where the group has none.
    pub share: String,
    /// Its name.
    pub name: String,
    /// The others' names.
    pub peers: Vec<String>,
    /// Who of several standbys comes first: the highest.
    pub priority: u8,
    /// Between two heartbeats.
    pub interval_ns: u64,
    /// So many heartbeats in a row that are missing mean that a member is dead.
    pub misses: u32,
    /// How long a member waits for an active one before it thinks of being one.
    pub hold_ns: u64,
    /// Who is active and named by the store for so long knows all that there is, if no partition lasts longer: [`SETTLES_NS`].
    pub settles_ns: u64,
    /// Of what must be the same for one to go on for another.
    pub digest: u64,
    /// Another number each time it starts.
    pub incarnation: u64,
    /// A member of a higher priority that has lived for so long and has all connections gets its place back; none: whoever is
    /// active stays so.
    pub returns_ns: Option<u64>,
}

/// Why members cannot be as they are configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A name that is none.
    #[error("{0:?} is no name of a member, group or share; take 1 to 64 letters, digits, - and _")]
    Name(String),
    /// A name that two have.
    #[error("two members are named {0}")]
    Twice(String),
    /// A share that two have.
    #[error("two shares are named {0}")]
    ShareTwice(String),
    /// More shares than there may be.
    #[error("a group has {} shares at most", crate::shares::SHARES_MAX)]
    Many,
    /// A share prefers nobody's member.
    #[error("share {0} prefers {1}, which is no member")]
    Prefers(String, String),
    /// No heartbeat.
    #[error("heartbeats need an interval of at least 1 ms, and at least 2 that may be missing")]
    Heartbeat,
}

impl Config {
    /// Whether it can be.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut names = vec![&self.name];
        let share = Some(&self.share).filter(|share| !share.is_empty());
        for name in self.peers.iter().chain([&self.name, &self.group]).chain(share) {
            if !is_name(name) {
                return Err(ConfigError::Name(name.clone()));
            }
        }
        for name in &self.peers {
            if names.contains(&name) {
                return Err(ConfigError::Twice(name.clone()));
            }
            names.push(name);
        }
        match self.interval_ns < 1_000_000 || self.misses < 2 {
            true => Err(ConfigError::Heartbeat),
            false => Ok(()),
        }
    }
}

/// What a member does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It forwards nothing and keeps a copy.
    Standby,
    /// It forwards.
    Active,
}

/// Why a member was promoted or is a standby again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// No other member is active.
    Alone,
    /// The process of the active member has ended.
    Closed(String),
    /// Nothing is heard of the active member.
    Silent(String),
    /// The active member has handed over.
    HandedOver(String),
    /// Somebody has asked for it.
    Asked,
    /// Another member has a higher epoch.
    Epoch(String),
    /// The store has another one.
    Store(String),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Alone => f.write_str("no other member is active"),
            Reason::Closed(name) => write!(f, "the process of {name} has ended"),
            Reason::Silent(name) => write!(f, "nothing is heard of {name}"),
            Reason::HandedOver(name) => write!(f, "{name} has handed over"),
            Reason::Asked => f.write_str("asked for"),
            Reason::Epoch(name) => write!(f, "{name} has a higher epoch"),
            Reason::Store(name) => write!(f, "the store has {name}"),
        }
    }
}

/// The same in a word, for metrics.
impl Reason {
    /// A word.
    pub fn word(&self) -> &'static str {
        match self {
            Reason::Alone => "alone",
            Reason::Closed(_) => "closed",
            Reason::Silent(_) => "silent",
            Reason::HandedOver(_) => "handed_over",
            Reason::Asked => "asked",
            Reason::Epoch(_) => "epoch",
            Reason::Store(_) => "store",
        }
    }
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// To all members, by all paths.
    Beat(Heartbeat),
    /// By the engine, to all members.
    Send(Message),
    /// Forward, from now on, in this epoch.
    Promote(u64, Reason),
    /// Tell the network anew where the addresses are: another member that was active, too, is so no more, and may have been heard last.
    Announce,
    /// Forward no more.
    Demote(u64, Reason),
    /// What is told from here on is all that there is.
    BeginSync,
    /// The copy is to have this.
    Apply(Vec<Part>),
    /// What was not told since is gone, [`SWEEP_NS`] later: until then another member that was active before may still have it, with
    /// a port of this one's own.
    EndSync,
    /// All connections are to be told: [`Member::all_begins`], [`Member::part_of_all`], [`Member::all_ends`].
    TellAll(String),
    /// Into the store, if its revision is still this one.
    Write(u64, Owner),
    /// Something that people want to know.
    Note(String),
}

/// What is known of another member.
#[derive(Debug, Default)]
struct Peer {
    /// When it was heard last, by any path.
    heard_ns: Option<u64>,
    /// When its socket has closed.
    closed_ns: Option<u64>,
    /// Since when it was heard without a break.
    since_ns: u64,
    last: Option<Heartbeat>,
    /// It was said that its configuration differs.
    differs: bool,
}

/// A member, as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerView {
    /// Its name.
    pub name: String,
    /// Whether it lives.
    pub alive: bool,
    /// Nanoseconds since it was heard.
    pub silent_ns: Option<u64>,
    /// What it said last.
    pub last: Option<Heartbeat>,
    /// Whether its configuration is the same.
    pub same: bool,
}

/// A group, as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The share; empty where the group has none.
    pub share: String,
    /// What this member does.
    pub role: Role,
    /// The highest epoch that it knows.
    pub epoch: u64,
    /// Whether somebody would go on with all connections if the active member died.
    pub protected: bool,
    /// Of a standby, whether it has all connections.
    pub synced: bool,
    /// The number of the last message that it has sent, or applied.
    pub seq: u64,
    /// Messages that were missing.
    pub gaps: u64,
    /// Messages of members that were active before.
    pub stale: u64,
    /// What the store holds.
    pub store: Store,
    /// The others.
    pub peers: Vec<PeerView>,
}

/// A member.
#[derive(Debug)]
pub struct Member {
    config: Config,
    role: Role,
    epoch: u64,
    peers: BTreeMap<String, Peer>,
    store: Store,
    /// A write into the store is under way.
    writes: bool,
    /// The first that there is.
    is_first: bool,
    receiver: Receiver,
    /// When the receiver has last taken something.
    taken_ns: u64,
    seq: u64,
    sent_ns: u64,
    beat_ns: u64,
    beats: u64,
    /// From when on silence counts.
    listens_ns: u64,
    ticked_ns: u64,
    /// When the last heartbeat that was due was sent.
    beaten_ns: u64,
    /// When it last noticed that others may have missed it for so long that they have gone on. Until it knows better it opens nothing.
    unsure_ns: Option<u64>,
    /// No active member is in sight since.
    alone_ns: u64,
    ends: bool,
    /// Somebody has told it not to forward.
    holds_back: bool,
    /// Whose message of the stream came last in which epoch, and when: it lives, though nothing else may be heard of it.
    streamed: Option<(String, u64, u64)>,
    /// It was drained: it comes last, and gets nothing back.
    drained: bool,
    /// It has had all connections since it started: it knows what an earlier self has given out.
    has_synced: bool,
    /// It has all connections that there are now, as a standby of one who has, or as who went on having had all. Others learn from it what their
    /// earlier selves have given out. Who went on without all of them does not know that.
    complete: bool,
    /// Since when it is active and named by the store.
    owns_ns: u64,
    actions: Vec<Action>,
}

impl Member {
    /// A standby that knows nothing yet.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: Config, now_ns: u64) -> Result<Member, ConfigError> {
        config.check()?;
        let peers = config.peers.iter().map(|name| (name.clone(), Peer::default())).collect();
        Ok(Member {
            role: Role::Standby,
            epoch: 0,
            peers,
            store: Store::default(),
            writes: false,
            is_first: false,
            receiver: Receiver::new(),
            taken_ns: now_ns,
            seq: 0,
            sent_ns: now_ns,
            beat_ns: now_ns,
            beats: 0,
            listens_ns: now_ns,
            ticked_ns: now_ns,
            beaten_ns: now_ns,
            unsure_ns: None,
            alone_ns: now_ns,
            ends: false,
            holds_back: false,
            streamed: None,
            drained: false,
            has_synced: false,
            complete: false,
            owns_ns: now_ns,
            actions: Vec::new(),
            config,
        })
    }

    /// What it does.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether it has had all connections since it started, from one who had them. One that has not may have given out ports before, of connections that live
    /// on elsewhere: it gives out none of those until it knows better.
    pub fn has_synced(&self) -> bool {
        self.has_synced
    }

    /// Whether it has all connections of the member that is active in the epoch that it knows, or is active.
    pub fn is_synced(&self) -> bool {
        let of_this = self.receiver.of().is_some_and(|(_, epoch)| epoch == self.epoch);
        self.role == Role::Active || self.receiver.sync() == Sync::Has && of_this
    }

    /// The highest epoch that it knows.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What it was told.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its configuration is another one.
    pub fn set_digest(&mut self, digest: u64) {
        self.config.digest = digest;
    }

    /// What is to be done now.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// When [`tick`](Self::tick) is due at the latest.
    pub fn next_wake(&self) -> u64 {
        self.beat_ns
    }

    /// Who of several standbys comes first: the highest.
    fn priority(&self) -> u8 {
        if self.drained { 0 } else { self.config.priority }
    }

    fn is_alive(&self, peer: &Peer, now_ns: u64) -> bool {
        let bound = self.config.interval_ns * u64::from(self.config.misses);
        let heard = |heard: u64| now_ns.saturating_sub(heard.max(self.listens_ns)) <= bound;
        peer.closed_ns.is_none()
            && peer.heard_ns.is_some_and(heard)
            && !peer.last.as_ref().is_some_and(|last| last.ends)
    }

    /// The member that is active as far as is known, and whether it lives.
    fn leader(&self, now_ns: u64) -> Option<(&str, &Peer, bool)> {
        let active = |peer: &&Peer| {
            peer.last.as_ref().is_some_and(|last| last.active && last.epoch == self.epoch)
        };
        let (name, peer) = self.peers.iter().find(|(_, peer)| active(peer))?;
        Some((name, peer, self.is_alive(peer, now_ns)))
    }

    /// How many of the other standbys that live come before this one.
    fn rank(&self, now_ns: u64) -> u64 {
        let mine = (self.receiver.sync() == Sync::Has, self.priority());
        let before = |(name, peer): &(&String, &Peer)| {
            let Some(last) = peer.last.as_ref().filter(|_| self.is_alive(peer, now_ns)) else {
                return false;
            };
            let its = (last.synced, last.priority);
            !last.active
                && last.digest == self.config.digest
                && (its > mine || its == mine && **name < self.config.name)
        };
        self.peers.iter().filter(before).count() as u64
    }

    fn message(&mut self, now_ns: u64, wall_ns: u64, body: Body) -> Message {
        // Of an active member messages are numbered; others ask.
        if self.role == Role::Active {
            self.seq += 1;
            self.sent_ns = now_ns;
        }
        Message {
            from: self.config.name.clone(),
            share: self.config.share.clone(),
            epoch: self.epoch,
            seq: self.seq,
            digest: self.config.digest,
            sent_ns: wall_ns,
            body,
        }
    }

    /// The message that tells changes; none of one that is not active.
    pub fn changes(&mut self, now_ns: u64, wall_ns: u64, parts: Vec<Part>) -> Option<Message> {
        (self.role == Role::Active).then(|| self.message(now_ns, wall_ns, Body::Changes(parts)))
    }

    /// The message before all connections.
    pub fn all_begins(&mut self, now_ns: u64, wall_ns: u64, to: &str) -> Option<(u64, Message)> {
        if self.role != Role::Active {
            return None;
        }
        let id = self.seq + 1;
        let body = Body::AllBegins { id, to: to.to_owned() };
        Some((id, self.message(now_ns, wall_ns, body)))
    }

    /// A message with some of them.
    pub fn part_of_all(
        &mut self,
        now_ns: u64,
        wall_ns: u64,
        id: u64,
        parts: Vec<Part>,
    ) -> Option<Message> {
        (self.role == Role::Active)
            .then(|| self.message(now_ns, wall_ns, Body::PartOfAll { id, parts }))
    }

    /// The message behind them.
    pub fn all_ends(&mut self, now_ns: u64, wall_ns: u64, id: u64) -> Option<Message> {
        (self.role == Role::Active).then(|| self.message(now_ns, wall_ns, Body::AllEnds { id }))
    }

    /// Time has passed, and all that has come by now was given to it.
    pub fn tick(&mut self, now_ns: u64, wall_ns: u64) {
        let interval = self.config.interval_ns;
        let bound = interval * u64::from(self.config.misses);
        if now_ns.saturating_sub(self.ticked_ns) > bound {
            self.listens_ns = now_ns;
        }
        self.ticked_ns = now_ns;
        let missed = now_ns.saturating_sub(self.beaten_ns);
        if missed > bound && (missed >= self.config.hold_ns || self.had_company()) {
            self.unsure_ns = Some(now_ns);
        } else if self.unsure_ns.is_some_and(|since| self.is_sure(now_ns, since)) {
            self.unsure_ns = None;
        }
        if now_ns >= self.beat_ns {
            self.beat();
            self.beaten_ns = now_ns;
            self.beat_ns = (self.beat_ns + interval).max(now_ns + interval / 2);
        }
        self.settle(now_ns);
        match self.role {
            Role::Active if now_ns.saturating_sub(self.sent_ns) >= self.idle_beats() * interval => {
                let idle = self.message(now_ns, wall_ns, Body::Changes(Vec::new()));
                self.actions.push(Action::Send(idle));
            }
            Role::Active => {}
            Role::Standby => {
                self.consider(now_ns);
                self.ask(now_ns, wall_ns);
            }
        }
    }

    /// Whether another member lived when the last heartbeat was sent. One that has started since waits before it goes on.
    fn had_company(&self) -> bool {
        self.peers.values().any(|peer| self.is_alive(peer, self.beaten_ns))
    }

    /// Whether it would know by now if another member had gone on in its place: it has listened for as long as silence takes, or has heard
    /// from each other one, and not what had waited for it.
    fn is_sure(&self, now_ns: u64, unsure_ns: u64) -> bool {
        let interval = self.config.interval_ns;
        let fresh = |peer: &Peer| peer.heard_ns.is_some_and(|heard| heard >= unsure_ns + interval);
        now_ns.saturating_sub(unsure_ns) > interval * u64::from(self.config.misses)
            || self.peers.values().all(fresh)
    }

    /// For how long from now on connections may be opened here, if it is not run meanwhile. The others hear nothing of it then, and one of them
    /// goes on: it opens what comes, and two would give one connection two ports.
    pub fn opens_for(&self, now_ns: u64) -> u64 {
        let bound = self.config.interval_ns * u64::from(self.config.misses);
        match (self.role, self.unsure_ns) {
            // Who ends has said so, and another one goes on as soon as it hears of it.
            (Role::Active, None) if !self.ends => (self.beaten_ns + bound).saturating_sub(now_ns),
            _ => 0,
        }
    }

    /// Heartbeats between two messages of one that has nothing to say: one, where another member may not hear its heartbeats either.
    fn idle_beats(&self) -> u64 {
        let all_hear = self.peers.values().all(|peer| self.is_alive(peer, self.ticked_ns));
        if all_hear { IDLE_BEATS } else { 1 }
    }

    /// One that is active, alone, and named by the store for long enough knows all that there is.
    fn settle(&mut self, now_ns: u64) {
        let mine = matches!(&self.store.owner, Some((_, Some(owner)))
            if owner.member == self.config.name && owner.epoch == self.epoch);
        let other = self.peers.values().any(|peer| {
            self.is_alive(peer, now_ns) && peer.last.as_ref().is_some_and(|last| last.active)
        });
        if self.role != Role::Active || !mine || !self.store.connected || other {
            self.owns_ns = now_ns;
        } else if now_ns.saturating_sub(self.owns_ns) >= self.config.settles_ns {
            (self.has_synced, self.complete) = (true, true);
        }
    }

    fn beat(&mut self) {
        let synced = self.is_synced();
        let active = self.role == Role::Active;
        let beat = Heartbeat {
            group: self.config.group.clone(),
            from: self.config.name.clone(),
            share: self.config.share.clone(),
            epoch: self.epoch,
            active,
            synced,
            ends: self.ends,
            knows: self.complete,
            priority: self.priority(),
            seq: if active { self.seq } else { self.receiver.applied() },
            digest: self.config.digest,
            incarnation: self.config.incarnation,
            number: self.beats,
        };
        self.beats += 1;
        self.actions.push(Action::Beat(beat));
    }

    /// Whether to take over.
    fn consider(&mut self, now_ns: u64) {
        if self.ends || self.holds_back || self.role == Role::Active {
            return;
        }
        let interval = self.config.interval_ns;
        let bound = interval * u64::from(self.config.misses);
        let rank = self.rank(now_ns);
        // Whose messages come by the engine lives, though its heartbeats do not come. What was under way when its socket closed says nothing.
        let streams = self.streamed.as_ref().is_some_and(|(name, epoch, at)| {
            let open = self.peers.get(name).is_some_and(|peer| {
                peer.closed_ns.is_none() && !peer.last.as_ref().is_some_and(|last| last.ends)
            });
            open && *epoch == self.epoch && now_ns.saturating_sub(*at) <= bound
        });
        match self.leader(now_ns) {
            Some((_, _, true)) => self.alone_ns = now_ns,
            Some(_) | None if streams && self.stepped_down().is_none() => self.alone_ns = now_ns,
            Some((name, peer, false)) => {
                let ended = peer.last.as_ref().is_some_and(|last| last.ends);
                let since = match (peer.closed_ns, peer.heard_ns) {
                    (Some(closed), _) => closed,
                    (None, Some(heard)) if ended => heard,
                    (None, heard) => heard.unwrap_or(0).max(self.listens_ns) + bound,
                };
                let name = name.to_owned();
                let same = peer.last.as_ref().is_some_and(|last| last.digest == self.config.digest);
                if !same {
                    self.say_it_differs(&name);
                } else if now_ns >= since + rank * 2 * interval {
                    let reason = match peer.closed_ns.is_some() || ended {
                        true => Reason::Closed(name),
                        false => Reason::Silent(name),
                    };
                    self.promote(now_ns, reason);
                }
            }
            None if self.stepped_down().is_some() => {
                // Its word to go on comes by the stream, and may be lost.
                let wait = bound + rank * 2 * interval;
                if now_ns.saturating_sub(self.alone_ns) >= wait
                    && let Some(name) = self.stepped_down()
                {
                    self.promote(now_ns, Reason::HandedOver(name));
                }
            }
            None => {
                let owner = match &self.store.owner {
                    Some((_, Some(owner))) => Some(&owner.member),
                    _ => None,
                };
                let mine = owner == Some(&self.config.name);
                // Whom the store names is given time, if it lives.
                let other = owner.filter(|name| **name != self.config.name);
                let theirs = other
                    .and_then(|name| self.peers.get(name))
                    .is_some_and(|peer| self.is_alive(peer, now_ns));
                let turns = if mine { 0 } else { rank + u64::from(theirs) * 3 };
                let wait = self.config.hold_ns + turns * self.config.hold_ns / 4;
                if now_ns.saturating_sub(self.alone_ns) >= wait {
                    self.promote(now_ns, Reason::Alone);
                }
            }
        }
    }

    /// The member whose connections this one has all, if it says that it is active no more and nobody else is.
    fn stepped_down(&self) -> Option<String> {
        if self.receiver.sync() != Sync::Has {
            return None;
        }
        let (name, epoch) = self.receiver.of()?;
        let last = self.peers.get(name)?.last.as_ref()?;
        let down = !last.active && last.epoch == epoch && epoch == self.epoch;
        (down && last.digest == self.config.digest).then(|| name.to_owned())
    }

    fn say_it_differs(&mut self, name: &str) {
        let Some(peer) = self.peers.get_mut(name) else { return };
        if !std::mem::replace(&mut peer.differs, true) {
            let note = format!(
                "{name} has another configuration: this member does not take its place unless it is told to (`millrace \
                 replication promote`)"
            );
            self.actions.push(Action::Note(note));
        }
    }

    fn ask(&mut self, now_ns: u64, wall_ns: u64) {
        if self.role == Role::Active {
            return;
        }
        let again = ASK_AGAIN_BEATS * self.config.interval_ns;
        let due = match self.receiver.sync() {
            Sync::Missing => true,
            Sync::Asked(at) => now_ns.saturating_sub(at) >= again,
            Sync::Comes(_) => now_ns.saturating_sub(self.taken_ns) >= again,
            Sync::Has => false,
        };
        let leads = matches!(self.leader(now_ns), Some((_, _, true)));
        if due && leads && self.store.connected {
            self.receiver.asked(now_ns);
            let message = self.message(now_ns, wall_ns, Body::AskForAll);
            self.actions.push(Action::Send(message));
        }
    }

    fn promote(&mut self, now_ns: u64, reason: Reason) {
        let stored = match &self.store.owner {
            Some((_, Some(owner))) => owner.epoch,
            _ => 0,
        };
        self.complete &= self.is_synced();
        self.epoch = self.epoch.max(stored) + 1;
        self.role = Role::Active;
        self.holds_back = false;
        // The others hear of it at once.
        (self.beaten_ns, self.unsure_ns) = (now_ns, None);
        (self.seq, self.sent_ns) = (0, now_ns);
        self.actions.push(Action::Promote(self.epoch, reason));
        self.beat();
        self.claim();
    }

    fn demote(&mut self, now_ns: u64, reason: Reason) {
        if self.role == Role::Standby {
            return;
        }
        self.role = Role::Standby;
        self.alone_ns = now_ns;
        self.receiver.lost();
        self.complete = false;
        self.actions.push(Action::Demote(self.epoch, reason));
    }

    /// Says in the store that it is active, if the store does not.
    fn claim(&mut self) {
        let Some((revision, owner)) = &self.store.owner else { return };
        let me = Owner { epoch: self.epoch, member: self.config.name.clone() };
        if self.role == Role::Active && !self.writes && owner.as_ref() != Some(&me) {
            (self.writes, self.is_first) = (true, *revision == 0);
            self.actions.push(Action::Write(*revision, me));
        }
    }

    /// A heartbeat has come, by any path.
    pub fn heard(&mut self, now_ns: u64, beat: Heartbeat) {
        let bound = self.config.interval_ns * u64::from(self.config.misses);
        if beat.group != self.config.group || beat.share != self.config.share {
            return;
        }
        let Some(peer) = self.peers.get_mut(&beat.from) else { return };
        let anew = peer.last.as_ref().is_some_and(|last| last.incarnation != beat.incarnation);
        // What was under way when its socket closed says nothing.
        if peer.closed_ns.is_some_and(|closed| anew || now_ns > closed + bound) {
            peer.closed_ns = None;
        }
        if peer.closed_ns.is_some() {
            return;
        }
        if anew && self.receiver.of().is_some_and(|(name, _)| name == beat.from) {
            // Its messages are numbered anew.
            self.receiver.begin_anew();
        }
        let older = |last: &Heartbeat| !anew && last.number >= beat.number;
        if anew || peer.heard_ns.is_none_or(|heard| now_ns.saturating_sub(heard) > bound) {
            peer.since_ns = now_ns;
        }
        peer.heard_ns = Some(now_ns);
        if !peer.last.as_ref().is_some_and(older) {
            let gave_way = !beat.active && peer.last.as_ref().is_some_and(|last| last.active);
            if gave_way && self.role == Role::Active {
                self.actions.push(Action::Announce);
            }
            peer.differs &= beat.digest != self.config.digest;
            peer.last = Some(beat.clone());
        }
        self.knows_of(now_ns, &beat.from, beat.epoch, beat.active);
        // From one who knows nothing, all is nothing.
        if beat.active && beat.epoch == self.epoch && self.role == Role::Standby {
            self.complete = beat.knows && self.is_synced();
            self.has_synced |= self.complete;
        }
    }

    /// Somebody has an epoch, and is active or not.
    fn knows_of(&mut self, now_ns: u64, name: &str, epoch: u64, active: bool) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.demote(now_ns, Reason::Epoch(name.to_owned()));
        } else if epoch == self.epoch
            && active
            && self.role == Role::Active
            && !self.store.connected
            && *name < *self.config.name
        {
            // Two were promoted at once, and the store cannot say who was first.
            self.demote(now_ns, Reason::Epoch(name.to_owned()));
        }
        if active && epoch == self.epoch && self.role == Role::Standby {
            self.receiver.follow(name, epoch);
        }
    }

    /// A member's socket has closed: its process has ended, or its machine was asked and knows of none. Whoever runs this gives it all
    /// that has come, and then [ticks](Self::tick) at once.
    pub fn closed(&mut self, now_ns: u64, name: &str) {
        if let Some(peer) = self.peers.get_mut(name) {
            peer.closed_ns.get_or_insert(now_ns);
        }
    }

    /// A message of the stream has come.
    pub fn received(&mut self, now_ns: u64, message: Message) {
        if !self.peers.contains_key(&message.from) || message.share != self.config.share {
            return;
        }
        if message.body == Body::AskForAll {
            if self.role == Role::Active {
                self.actions.push(Action::TellAll(message.from));
            }
            return;
        }
        let from = message.from.clone();
        if message.epoch >= self.epoch {
            self.knows_of(now_ns, &from, message.epoch, true);
            self.streamed = Some((from.clone(), message.epoch, now_ns));
        }
        if self.role == Role::Active {
            return;
        }
        self.taken_ns = now_ns;
        match self.receiver.take(&self.config.name, message) {
            Take::Nothing => {}
            Take::Begin => self.actions.push(Action::BeginSync),
            Take::Apply(parts) => self.actions.push(Action::Apply(parts)),
            Take::End => self.actions.push(Action::EndSync),
            Take::GoOn => self.promote(now_ns, Reason::HandedOver(from)),
        }
    }

    /// Something that was to be applied was not: a tracker had no room, or is not there.
    pub fn lost(&mut self) {
        self.receiver.lost();
    }

    /// The engine is there, or is not.
    pub fn connected(&mut self, connected: bool) {
        if self.store.connected == connected {
            return;
        }
        self.store.connected = connected;
        if !connected {
            (self.writes, self.is_first) = (false, false);
            // What comes while it is away is lost.
            if self.role == Role::Standby {
                self.receiver.lost();
            }
        }
    }

    /// What the store holds, or that it holds nothing.
    pub fn stored(&mut self, now_ns: u64, revision: u64, owner: Option<Owner>) {
        if self.store.owner.as_ref().is_some_and(|(known, _)| *known > revision) {
            return;
        }
        self.writes = false;
        self.store.owner = Some((revision, owner.clone()));
        let mine = owner.as_ref().is_some_and(|owner| owner.member == self.config.name);
        // Nobody has been active before it: there is nothing to know.
        if std::mem::take(&mut self.is_first) && mine && self.role == Role::Active {
            (self.has_synced, self.complete) = (true, true);
        }
        if let Some(Owner { epoch, member }) = owner {
            let other = member != self.config.name;
            if other && epoch >= self.epoch && self.role == Role::Active {
                self.epoch = epoch;
                self.demote(now_ns, Reason::Store(member));
            } else if epoch > self.epoch && self.role == Role::Active {
                // An earlier self has written it, and others may know that epoch.
                self.epoch = epoch + 1;
                let note = format!(
                    "the store knows of epoch {epoch}: this member goes on in the next one"
                );
                self.actions.push(Action::Note(note));
                self.beat();
            } else if epoch > self.epoch {
                self.epoch = epoch;
            }
        }
        self.claim();
    }

    /// A write was refused or has failed: the store is read again, and [`stored`](Self::stored) told.
    pub fn not_written(&mut self) {
        (self.writes, self.is_first) = (false, false);
    }

    /// It is to forward, whoever else does.
    ///
    /// # Errors
    /// If it does already.
    pub fn promote_by_command(&mut self, now_ns: u64) -> Result<(), String> {
        match self.role {
            Role::Active => Err("this member is active already".to_owned()),
            Role::Standby => {
                self.drained = false;
                self.promote(now_ns, Reason::Asked);
                Ok(())
            }
        }
    }

    /// It is to forward no more, until it is told to. A standby does not go on by itself then, as where another program decides.
    pub fn demote_by_command(&mut self, now_ns: u64) {
        self.holds_back = true;
        if self.role == Role::Active {
            self.demote(now_ns, Reason::Asked);
        }
    }

    /// Something that was to be told was not: the next message has a number that shows it.
    pub fn skip(&mut self) {
        self.seq += 1;
    }

    /// Who would go on if this member handed over: it lives and has all connections.
    ///
    /// Who was not run for a while believes nobody by what was said before, nor by what has waited for it meanwhile. Who has all of another
    /// member's, of an earlier epoch, has not all of this one's.
    pub fn heir(&self, now_ns: u64) -> Option<String> {
        let interval = self.config.interval_ns;
        let bound = interval * u64::from(self.config.misses);
        let fresh = |heard: u64| {
            heard >= self.listens_ns + interval && now_ns.saturating_sub(heard) <= bound
        };
        let fits = |peer: &Peer| {
            let lives = self.is_alive(peer, now_ns) && peer.heard_ns.is_some_and(fresh);
            peer.last.as_ref().filter(|_| lives).is_some_and(|last| {
                let all = last.synced && last.epoch == self.epoch;
                all && !last.active && last.digest == self.config.digest
            })
        };
        let heirs = self.peers.iter().filter(|(_, peer)| fits(peer));
        let first = heirs.max_by_key(|(name, peer)| {
            (peer.last.as_ref().map(|last| last.priority), std::cmp::Reverse(*name))
        });
        first.map(|(name, _)| name.clone())
    }

    /// Whether the place is to be given back now: the first of those who may go on has a higher priority, and has lived for long enough.
    pub fn gives_back(&self, now_ns: u64) -> bool {
        let (Role::Active, Some(returns_ns)) = (self.role, self.config.returns_ns) else {
            return false;
        };
        let first = self.heir(now_ns).and_then(|name| self.peers.get(&name));
        first.is_some_and(|peer| {
            let last = peer.last.as_ref();
            last.is_some_and(|last| last.priority > self.priority() && last.knows)
                && now_ns.saturating_sub(peer.since_ns) >= returns_ns
        })
    }

    /// It comes last from now on, and gets nothing back; or as it was configured.
    pub fn set_drained(&mut self, drained: bool) {
        self.drained = drained;
    }

    /// Whether it was drained.
    pub fn is_drained(&self) -> bool {
        self.drained
    }

    /// Hands over to the first of those who may: this member has stopped, and its last changes were sent. Says to whom.
    ///
    /// # Errors
    /// If it is not active, or nobody has all connections.
    pub fn hand_over(&mut self, now_ns: u64, wall_ns: u64) -> Result<String, String> {
        if self.role != Role::Active {
            return Err("this member is a standby: ask the active one".to_owned());
        }
        let Some(to) = self.heir(now_ns) else {
            return Err("no standby that lives has all connections and the same configuration: see `millrace \
                        replication show`"
                .to_owned());
        };
        let message = self.message(now_ns, wall_ns, Body::GoOn { to: to.clone() });
        self.actions.push(Action::Send(message));
        self.demote(now_ns, Reason::HandedOver(to.clone()));
        Ok(to)
    }

    /// It ends: the others need not wait for its silence.
    pub fn end(&mut self) {
        self.ends = true;
        self.beat();
    }

    /// What people are shown.
    pub fn view(&self, now_ns: u64) -> View {
        let peers = self.peers.iter().map(|(name, peer)| PeerView {
            name: name.clone(),
            alive: self.is_alive(peer, now_ns),
            silent_ns: peer.heard_ns.map(|heard| now_ns.saturating_sub(heard)),
            last: peer.last.clone(),
            same: peer.last.as_ref().is_none_or(|last| last.digest == self.config.digest),
        });
        let peers: Vec<PeerView> = peers.collect();
        let synced = self.is_synced();
        let protected = match self.role {
            Role::Active => self.heir(now_ns).is_some(),
            Role::Standby => synced,
        };
        View {
            share: self.config.share.clone(),
            role: self.role,
            epoch: self.epoch,
            protected,
            synced,
            seq: if self.role == Role::Active { self.seq } else { self.receiver.applied() },
            gaps: self.receiver.gaps,
            stale: self.receiver.stale,
            store: self.store.clone(),
            peers,
        }
    }
}
