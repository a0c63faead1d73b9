//! What connections share: who is there, fail modes, spreading events, snooping.
//!
//! Locks, always taken in this order: `spreading`, the agent, `members`, `roles`. The agent is held
//! for one message at a time; nobody holds it while waiting for workers on behalf of a barrier.
//! `spreading` keeps events in order, as two threads collect them.

use crate::config::{Config, FailMode};
use crate::contact::Contacts;
use crate::monitors::{Monitors, WAITING_MAX, messages};
use crate::places::Places;
use crate::queue::{Queued, Sender, Told};
use crate::roles::{Asynchronous, ConnectionId, Roles};
use crate::status::joining;
use of_pipeline::keeping::Written;
use of_pipeline::{Agent, Event};
use openflow::codec::Header;
use openflow::{
    ControllerReason, ErrorCode, FlowMonitorRequest, FlowUpdate, Message, MonitorCommand,
    MultipartReply, MultipartReplyBody, Nicira, Version,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use switch::{FairLimit, Switch};

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
    /// We connected to the controller of a main connection once more (1.3.5 §6.3.5).
    Auxiliary {
        /// The main connection.
        main: ConnectionId,
        /// Which one of its auxiliary connections, from 1 on.
        id: u8,
    },
}

pub(crate) struct Member {
    queue: Sender,
    version: Option<Version>,
    pub(crate) origin: Origin,
    /// Where it is.
    pub(crate) peer: String,
    monitors: Monitors,
    /// Packet-ins of `controller` actions with another id are not for it.
    controller_id: u16,
    /// What is left of its packet-ins, if they are limited.
    limit: Option<RefCell<FairLimit>>,
}

impl Member {
    /// Queues what its flow monitors tell.
    fn tell_updates(&mut self) {
        for message in self.monitors.take() {
            let kind = Asynchronous::FlowUpdate;
            self.queue.put(Queued::Told(Arc::new(Told { kind, message })));
        }
        if !self.monitors.paused && self.queue.waiting() > WAITING_MAX {
            self.monitors.paused = true;
            let message = pause(self.version, FlowUpdate::Paused);
            let kind = Asynchronous::FlowUpdate;
            self.queue.put(Queued::Told(Arc::new(Told { kind, message })));
            self.queue.pause();
        }
    }

    /// The version of a controller that has shaken hands, by its main connection.
    pub(crate) fn controller(&self) -> Option<Version> {
        let main = matches!(self.origin, Origin::Configured | Origin::Accepted);
        self.version.filter(|_| main)
    }

    /// It has shaken hands as an auxiliary connection of this one.
    fn attends(&self, to: ConnectionId) -> bool {
        matches!(self.origin, Origin::Auxiliary { main, .. } if main == to)
            && self.version.is_some()
    }
}

/// What connections share.
pub(crate) struct Shared {
    pub(crate) switch: Switch,
    pub(crate) config: Config,
    agent: Arc<Mutex<Agent>>,
    /// Returns once what requests changed is kept, where it is.
    written: Option<Written>,
    spreading: Mutex<()>,
    members: Mutex<HashMap<ConnectionId, Member>>,
    roles: Mutex<Roles>,
    snoopers: AtomicUsize,
    next_id: AtomicU64,
    packet_ins_dropped: AtomicU64,
    /// For those who connect.
    pub(crate) places: Places,
    /// Controllers of the configuration.
    pub(crate) contacts: Contacts,
    /// Bytes of messages in all bundles.
    pub(crate) bundled: Arc<AtomicUsize>,
    busy: Arc<AtomicUsize>,
    /// Controllers were there when members were last looked at.
    controllers_there: AtomicBool,
}

/// A place among those whose requests wait; given back when dropped.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // See `switch`: what is guarded changes in single steps.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// That flow updates pause or go on, in the words of a version.
fn pause(version: Option<Version>, update: FlowUpdate) -> Message {
    if version.is_none_or(|v| v >= Version::V14) {
        let body = MultipartReplyBody::FlowMonitor(vec![update]);
        return Message::MultipartReply(MultipartReply { more: false, body });
    }
    Message::Nicira(match update {
        FlowUpdate::Paused => Nicira::MonitorPaused,
        _ => Nicira::MonitorResumed,
    })
}

impl Shared {
    /// Nobody is connected yet.
    pub(crate) fn new(switch: Switch, agent: Arc<Mutex<Agent>>, config: Config) -> Shared {
        let written = lock(&agent).written();
        let shared = Shared {
            written,
            places: Places::new(config.connections_max),
            switch,
            config,
            agent,
            spreading: Mutex::new(()),
            members: Mutex::default(),
            roles: Mutex::default(),
            snoopers: AtomicUsize::new(0),
            next_id: AtomicU64::new(1),
            packet_ins_dropped: AtomicU64::new(0),
            contacts: Contacts::default(),
            bundled: Arc::default(),
            busy: Arc::default(),
            controllers_there: AtomicBool::new(false),
        };
        shared.members_changed();
        shared
    }

    /// A place among the connections that have more requests than they had time for.
    pub(crate) fn wait_busily(&self) -> Place {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Place(self.busy.clone())
    }

    /// How many have such a place.
    pub(crate) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// What requests changed so far is kept, where it is: nothing is told before.
    pub(crate) fn settle_kept(&self) {
        if let Some(written) = &self.written {
            written();
        }
    }

    pub(crate) fn agent(&self) -> MutexGuard<'_, Agent> {
        lock(&self.agent)
    }

    pub(crate) fn members(&self) -> MutexGuard<'_, HashMap<ConnectionId, Member>> {
        lock(&self.members)
    }

    pub(crate) fn roles(&self) -> MutexGuard<'_, Roles> {
        lock(&self.roles)
    }

    /// A connection is there, and will shake hands.
    pub(crate) fn arrived(
        &self,
        origin: Origin,
        peer: String,
        place: &str,
        queue: Sender,
    ) -> ConnectionId {
        // Relaxed, here and below: the numbers guard nothing.
        let id = ConnectionId(self.next_id.fetch_add(1, Ordering::Relaxed));
        lock(&self.members).insert(
            id,
            Member {
                queue,
                version: None,
                origin,
                peer,
                monitors: Monitors::default(),
                controller_id: 0,
                limit: self
                    .config
                    .rate(place)
                    .map(|rate| RefCell::new(rate.limit(self.switch.now_ns()))),
            },
        );
        if origin == Origin::Snooper {
            self.snoopers.fetch_add(1, Ordering::Relaxed);
        }
        id
    }

    /// A connection has agreed on a version.
    pub(crate) fn joined(&self, id: ConnectionId, version: Version) {
        let origin = lock(&self.members).get_mut(&id).map(|member| {
            member.version = Some(version);
            if member.origin == Origin::Configured {
                self.contacts.change(&member.peer, |one| one.is_there(Instant::now()));
            }
            member.origin
        });
        if origin.is_some_and(|o| matches!(o, Origin::Configured | Origin::Accepted)) {
            self.roles().join(id, version);
            self.members_changed();
            self.tell_of(&[id], origin.map_or(ControllerReason::Added, joining));
        }
    }

    /// A connection is gone.
    pub(crate) fn left(&self, id: ConnectionId) {
        let Some(member) = lock(&self.members).remove(&id) else { return };
        let gone = member.controller().is_some().then(|| self.status_of(id, &member));
        if member.origin == Origin::Snooper {
            self.snoopers.fetch_sub(1, Ordering::Relaxed);
        }
        if member.controller().is_some() {
            self.roles().leave(id);
            self.members_changed();
            self.watch_changed();
        }
        if let Some(mut status) = gone {
            status.up = false;
            status.reason = match member.origin {
                Origin::Configured => ControllerReason::Channel,
                _ => ControllerReason::Removed,
            };
            self.tell_status(status);
        }
    }

    /// The version that a main connection has agreed on, while it is there.
    pub(crate) fn agreed(&self, main: ConnectionId) -> Option<Version> {
        lock(&self.members).get(&main).and_then(Member::controller)
    }

    /// The id by which `controller` actions name this connection.
    pub(crate) fn set_controller_id(&self, id: ConnectionId, controller_id: u16) {
        if let Some(member) = lock(&self.members).get_mut(&id) {
            member.controller_id = controller_id;
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
        let (mut any, mut configured, mut v10) = (false, false, false);
        for member in lock(&self.members).values() {
            any |= member.controller().is_some();
            configured |= member.controller().is_some() && member.origin == Origin::Configured;
            v10 |= member.controller() == Some(Version::V10);
        }
        // Where none are configured, those who connect are the controllers.
        let there = if self.config.controllers.is_empty() { any } else { configured };
        let were_there = self.controllers_there.swap(there, Ordering::Relaxed);
        let mut agent = self.agent();
        agent.set_miss_to_controller(v10);
        if were_there && !there {
            agent.lost_controllers();
        }
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

    /// Begins, changes or ends flow monitors of a connection. Gives back what they tell first; on a
    /// refusal, of the request with this number, nothing from there on was done.
    pub(crate) fn monitor(
        &self,
        id: ConnectionId,
        version: Version,
        requests: &[FlowMonitorRequest],
    ) -> Result<Vec<Message>, (ErrorCode, String)> {
        let mut updates = Vec::new();
        let result = {
            let mut agent = self.agent();
            let mut members = lock(&self.members);
            let Some(member) = members.get_mut(&id) else { return Ok(Vec::new()) };
            let result = requests.iter().try_for_each(|request| {
                let first = match request.command {
                    MonitorCommand::Delete => Vec::new(),
                    _ => agent
                        .monitored(version, request)
                        .map_err(|refusal| (refusal.code(), refusal.to_string()))?,
                };
                member.monitors.request(request)?;
                updates.extend(first);
                Ok(())
            });
            agent.set_watched(members.values().any(|m| !m.monitors.is_empty()));
            result
        };
        result.map(|()| {
            let mut list = messages(updates);
            if list.is_empty() {
                let body = MultipartReplyBody::FlowMonitor(Vec::new());
                list.push(Message::MultipartReply(MultipartReply { more: false, body }));
            }
            let last = list.len() - 1;
            for message in &mut list[..last] {
                if let Message::MultipartReply(reply) = message {
                    reply.more = true;
                }
            }
            list
        })
    }

    /// What the flow monitors of a connection tell after a pause.
    pub(crate) fn resume(&self, id: ConnectionId, version: Version) -> Vec<Message> {
        let agent = self.agent();
        let mut members = lock(&self.members);
        let Some(member) = members.get_mut(&id) else { return Vec::new() };
        member.monitors.paused = false;
        let mut list = messages(member.monitors.all(&agent, version));
        list.push(pause(Some(version), FlowUpdate::Resumed));
        list
    }

    /// Changes are told while somebody watches.
    fn watch_changed(&self) {
        let mut agent = self.agent();
        let watched = lock(&self.members).values().any(|m| !m.monitors.is_empty());
        agent.set_watched(watched);
    }

    fn spread(&self, events: Vec<Event>) {
        let mut members = lock(&self.members);
        let changes = events.iter().filter_map(|event| match event {
            Event::FlowChange(change) => Some(change),
            _ => None,
        });
        for change in changes {
            for (id, member) in members.iter_mut().filter(|(_, m)| !m.monitors.is_empty()) {
                member.monitors.change(change, id.0);
            }
        }
        members.values_mut().filter(|m| !m.monitors.is_empty()).for_each(Member::tell_updates);
        let roles = self.roles();
        let mut to: Vec<&Sender> = Vec::new();
        for event in events {
            if matches!(event, Event::FlowChange(_)) {
                continue;
            }
            let kind = Asynchronous::of(&event);
            let wants = |(id, m): &(&ConnectionId, &Member)| {
                let id_of_event = match &event {
                    Event::PacketInTo(id, _) => Some(*id),
                    Event::PacketIn(_) => Some(0),
                    _ => None,
                };
                id_of_event.is_none_or(|id| id == m.controller_id)
                    && m.controller().is_some_and(|v| event.is_for(v))
                    && roles.is_wanted(**id, kind)
            };
            to.clear();
            let in_port = match &event {
                Event::PacketIn(p) | Event::PacketInTo(_, p) => Some(p.in_port().0),
                _ => None,
            };
            for (id, member) in members.iter().filter(wants) {
                if let (Some(limit), Some(in_port)) = (&member.limit, in_port)
                    && !limit.borrow_mut().admit(in_port, self.switch.now_ns())
                {
                    self.packet_ins_dropped.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                // Packets of one port stay in their order.
                let auxiliary = match &event {
                    Event::PacketIn(p) | Event::PacketInTo(_, p) if self.config.auxiliary > 0 => {
                        let mut all: Vec<_> =
                            members.iter().filter(|(_, m)| m.attends(*id)).collect();
                        all.sort_by_key(|(id, _)| **id);
                        let at = p.in_port().0 as usize % all.len().max(1);
                        all.get(at).map(|(_, m)| &m.queue)
                    }
                    _ => None,
                };
                to.push(auxiliary.unwrap_or(&member.queue));
            }
            if to.is_empty() {
                continue;
            }
            let message = match event {
                Event::PacketIn(p) | Event::PacketInTo(_, p) => Message::PacketIn(p),
                Event::FlowRemoved(r) => Message::FlowRemoved(r),
                Event::PortStatus(s) => Message::PortStatus(s),
                Event::TableStatus(s) => Message::TableStatus(s),
                Event::FlowStats(counts) => {
                    let body = MultipartReplyBody::FlowCounts(vec![counts]);
                    Message::MultipartReply(MultipartReply { more: false, body })
                }
                Event::FlowChange(_) => continue,
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
