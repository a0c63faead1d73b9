//! What connections share: who is there, fail modes, spreading events, snooping.
//!
//! Locks, always taken in this order: `spreading`, the agent, `members`, `roles`. The agent is held
//! for one message at a time; nobody holds it while waiting for workers on behalf of a barrier.
//! `spreading` keeps events in order, as two threads collect them.

use crate::channel::{Config, FailMode};
use crate::queue::{Queued, Sender, Told};
use crate::roles::{Asynchronous, ConnectionId, Roles};
use of_pipeline::{Agent, Event};
use openflow::codec::Header;
use openflow::{Message, Version};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use switch::Switch;

/// Message types up to this number are those that any version may send to any other: hello, error,
/// echo request and reply.
const NEUTRAL_TYPE_MAX: u8 = 3;

/// How a connection came to be, which decides what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// We connected to a configured controller.
    Configured,
    /// It connected to us.
    Accepted,
    /// It connected to us in order to see all messages, and may do nothing else.
    Snooper,
}

struct Member {
    queue: Sender,
    version: Option<Version>,
    origin: Origin,
}

impl Member {
    /// The version of a controller that has shaken hands.
    fn controller(&self) -> Option<Version> {
        self.version.filter(|_| self.origin != Origin::Snooper)
    }
}

/// What connections share.
pub(crate) struct Shared {
    pub(crate) switch: Switch,
    pub(crate) config: Config,
    agent: Arc<Mutex<Agent>>,
    spreading: Mutex<()>,
    members: Mutex<HashMap<ConnectionId, Member>>,
    roles: Mutex<Roles>,
    snoopers: AtomicUsize,
    next_id: AtomicU64,
    packet_ins_dropped: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // See `switch`: what is guarded changes in single steps.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    /// Nobody is connected yet.
    pub(crate) fn new(switch: Switch, agent: Arc<Mutex<Agent>>, config: Config) -> Shared {
        let shared = Shared {
            switch,
            config,
            agent,
            spreading: Mutex::new(()),
            members: Mutex::default(),
            roles: Mutex::default(),
            snoopers: AtomicUsize::new(0),
            next_id: AtomicU64::new(1),
            packet_ins_dropped: AtomicU64::new(0),
        };
        shared.members_changed();
        shared
    }

    pub(crate) fn agent(&self) -> MutexGuard<'_, Agent> {
        lock(&self.agent)
    }

    pub(crate) fn roles(&self) -> MutexGuard<'_, Roles> {
        lock(&self.roles)
    }

    /// A connection is there, and will shake hands.
    pub(crate) fn arrived(&self, origin: Origin, queue: Sender) -> ConnectionId {
        // Relaxed, here and below: the numbers guard nothing.
        let id = ConnectionId(self.next_id.fetch_add(1, Ordering::Relaxed));
        lock(&self.members).insert(id, Member { queue, version: None, origin });
        if origin == Origin::Snooper {
            self.snoopers.fetch_add(1, Ordering::Relaxed);
        }
        id
    }

    /// A connection has agreed on a version.
    pub(crate) fn joined(&self, id: ConnectionId, version: Version) {
        let origin = lock(&self.members).get_mut(&id).map(|member| {
            member.version = Some(version);
            member.origin
        });
        if origin.is_some_and(|o| o != Origin::Snooper) {
            self.roles().join(id, version);
            self.members_changed();
        }
    }

    /// A connection is gone.
    pub(crate) fn left(&self, id: ConnectionId) {
        let Some(member) = lock(&self.members).remove(&id) else { return };
        if member.origin == Origin::Snooper {
            self.snoopers.fetch_sub(1, Ordering::Relaxed);
        }
        if member.controller().is_some() {
            self.roles().leave(id);
            self.members_changed();
        }
    }

    /// Connections, whether or not they have shaken hands.
    pub(crate) fn connections(&self) -> usize {
        lock(&self.members).len()
    }

    /// Versions of the controllers that are connected.
    pub(crate) fn versions(&self) -> Vec<Version> {
        lock(&self.members).values().filter_map(Member::controller).collect()
    }

    /// Packet-ins that a controller did not take.
    pub(crate) fn packet_ins_dropped(&self) -> u64 {
        self.packet_ins_dropped.load(Ordering::Relaxed)
    }

    /// Misses and fail modes follow who is connected. Only the thread of the connections calls this
    /// once that runs, so what was counted is still so when the agent is told.
    fn members_changed(&self) {
        let (mut configured, mut v10) = (false, false);
        for member in lock(&self.members).values() {
            configured |= member.controller().is_some() && member.origin == Origin::Configured;
            v10 |= member.controller() == Some(Version::V10);
        }
        let mut agent = self.agent();
        agent.set_miss_to_controller(v10);
        if self.config.fail_mode == FailMode::Standalone {
            agent.set_standalone(!configured);
        }
    }

    /// Shows a message of a connection to snoopers. While there are none, this is one load.
    #[inline]
    pub(crate) fn snoop(&self, from: ConnectionId, bytes: &[u8]) {
        if self.snoopers.load(Ordering::Relaxed) > 0 {
            self.show(from, bytes);
        }
    }

    #[cold]
    fn show(&self, from: ConnectionId, bytes: &[u8]) {
        let Some(header) = Header::parse(bytes) else { return };
        let members = lock(&self.members);
        if members.get(&from).is_none_or(|m| m.origin == Origin::Snooper) {
            return;
        }
        let raw: Arc<[u8]> = bytes.into();
        let neutral = header.message_type <= NEUTRAL_TYPE_MAX;
        for snooper in members.values().filter(|m| m.origin == Origin::Snooper) {
            // A client ends the connection at a message of another version than its own.
            if snooper.version.is_some_and(|v| neutral || v.wire() == header.version) {
                // A snooper that does not keep up misses messages.
                let _ = snooper.queue.put(Queued::Raw(raw.clone()));
            }
        }
    }

    /// Collects what happened in the switch, and queues it for those who want it.
    pub(crate) fn gather(&self) {
        let _turn = lock(&self.spreading);
        let events = self.agent().poll();
        if !events.is_empty() {
            self.spread(events);
        }
    }

    /// Queues a message for connections of 1.4 and later that want it, but for one.
    pub(crate) fn tell(
        &self,
        kind: Asynchronous,
        message: Message,
        to: impl Fn(ConnectionId) -> bool,
    ) {
        let _turn = lock(&self.spreading);
        let members = lock(&self.members);
        let roles = self.roles();
        let told = Arc::new(Told { kind, message });
        for (id, member) in members.iter() {
            let speaks = member.controller().is_some_and(|v| v >= Version::V14);
            if speaks && to(*id) && roles.is_wanted(*id, kind) {
                member.queue.put(Queued::Told(told.clone()));
            }
        }
    }

    fn spread(&self, events: Vec<Event>) {
        let members = lock(&self.members);
        let roles = self.roles();
        let mut to: Vec<&Sender> = Vec::new();
        for event in events {
            let kind = Asynchronous::of(&event);
            let wants = |(id, m): &(&ConnectionId, &Member)| {
                m.controller().is_some_and(|v| event.is_for(v)) && roles.is_wanted(**id, kind)
            };
            to.clear();
            to.extend(members.iter().filter(wants).map(|(_, m)| &m.queue));
            if to.is_empty() {
                continue;
            }
            let message = match event {
                Event::PacketIn(p) => Message::PacketIn(p),
                Event::FlowRemoved(r) => Message::FlowRemoved(r),
                Event::PortStatus(s) => Message::PortStatus(s),
                Event::TableStatus(s) => Message::TableStatus(s),
            };
            let told = Arc::new(Told { kind, message });
            for queue in &to {
                let kept = queue.put(Queued::Told(told.clone()));
                if !kept && matches!(kind, Asynchronous::PacketIn(_)) {
                    self.packet_ins_dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}
