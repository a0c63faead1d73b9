//! Who is master, and which asynchronous messages each connection wants (OpenFlow 1.3.5 §6.3.4,
//! §7.3.9, §7.3.10).
//!
//! A connection begins as equal. At most one is master: who becomes master makes the master before
//! it slave. Requests for master or slave carry a generation id that may not go back, so that a
//! controller that was overtaken cannot overtake in turn.

use of_pipeline::Event;
use openflow::{
    AsyncChange, AsyncConfig, AsyncKind, ControllerReason, FlowRemovedReason, PacketInReason,
    PortReason, Role, RoleMessage, RoleReason, TableReason, Version,
};
use std::collections::HashMap;

/// Names a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A role request with a generation id older than one seen before (`OFPRRFC_STALE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "generation id {given:#x} is older than {newest:#x}, which was seen before (OFPRRFC_STALE)"
)]
pub struct Stale {
    /// As requested.
    pub given: u64,
    /// The newest one seen.
    pub newest: u64,
}

struct Member {
    version: Version,
    role: Role,
    short_id: u16,
    wants: AsyncConfig,
}

/// What a request for a role changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What the connection is told.
    pub reply: RoleMessage,
    /// Who was master before, and is slave now.
    pub displaced: Vec<ConnectionId>,
    /// The connection itself has another role.
    pub role: bool,
    /// It gave itself another number (1.5).
    pub short_id: bool,
}

/// Roles of all connections.
#[derive(Default)]
pub struct Roles {
    members: HashMap<ConnectionId, Member>,
    generation: Option<u64>,
}

/// An asynchronous message's kind and reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asynchronous {
    /// `OFPT_PACKET_IN`.
    PacketIn(PacketInReason),
    /// `OFPT_FLOW_REMOVED`.
    FlowRemoved(FlowRemovedReason),
    /// `OFPT_PORT_STATUS`.
    PortStatus(PortReason),
    /// `OFPT_ROLE_STATUS`.
    RoleStatus(RoleReason),
    /// `OFPT_TABLE_STATUS`.
    TableStatus(TableReason),
    /// What a flow monitor tells; the monitors themselves say who wants it.
    FlowUpdate,
    /// `OFPT_REQUESTFORWARD`: 0 for a group-mod, 1 for a meter-mod.
    RequestForward(u8),
    /// `OFPT_CONTROLLER_STATUS`.
    ControllerStatus(ControllerReason),
    /// `OFPMP_FLOW_STATS` that nobody asked for, by its reason.
    FlowStats(u8),
}

impl Asynchronous {
    /// The kind and reason of the message that tells an event.
    pub fn of(event: &Event) -> Asynchronous {
        match event {
            Event::PacketIn(p) | Event::PacketInTo(_, p) => Asynchronous::PacketIn(p.reason),
            Event::FlowRemoved(r) => Asynchronous::FlowRemoved(r.reason),
            Event::PortStatus(s) => Asynchronous::PortStatus(s.reason),
            Event::TableStatus(s) => Asynchronous::TableStatus(s.reason),
            Event::FlowStats(counts) => Asynchronous::FlowStats(counts.reason),
            Event::FlowChange(_) => Asynchronous::FlowUpdate,
        }
    }
}

impl Roles {
    /// A connection has shaken hands.
    pub fn join(&mut self, id: ConnectionId, version: Version) {
        let wants = AsyncConfig::default_of(version);
        let short_id = RoleMessage::NO_ID;
        self.members.insert(id, Member { version, role: Role::Equal, short_id, wants });
    }

    /// A connection is gone.
    pub fn leave(&mut self, id: ConnectionId) {
        self.members.remove(&id);
    }

    /// The role of a connection.
    pub fn role(&self, id: ConnectionId) -> Role {
        self.members.get(&id).map_or(Role::Equal, |m| m.role)
    }

    /// The number that a controller gave itself by its connection (1.5.1 §7.3.8).
    pub fn short_id(&self, id: ConnectionId) -> u16 {
        self.members.get(&id).map_or(RoleMessage::NO_ID, |m| m.short_id)
    }

    /// The newest generation id; all ones if there was none.
    pub fn generation(&self) -> u64 {
        self.generation.unwrap_or(u64::MAX)
    }

    /// A connection asks for a role.
    pub fn request(&mut self, id: ConnectionId, request: RoleMessage) -> Result<Change, Stale> {
        // Nicira's requests of 1.0 have no generation.
        let dated = self.members.get(&id).is_none_or(|m| m.version != Version::V10);
        if dated && matches!(request.role, Role::Master | Role::Slave) {
            // The distance is signed, so that the counter may wrap (1.3.5 §6.3.4).
            match self.generation {
                Some(newest) if (request.generation_id.wrapping_sub(newest) as i64) < 0 => {
                    return Err(Stale { given: request.generation_id, newest });
                }
                _ => self.generation = Some(request.generation_id),
            }
        }
        let before = self.role(id);
        let mut displaced = Vec::new();
        if request.role == Role::Master {
            for (other, member) in self.members.iter_mut().filter(|(_, m)| m.role == Role::Master) {
                member.role = Role::Slave;
                if *other != id {
                    displaced.push(*other);
                }
            }
        }
        if let Some(member) = self.members.get_mut(&id)
            && request.role != Role::NoChange
        {
            member.role = request.role;
        }
        let short_id = request.short_id;
        let given = self.members.get_mut(&id).filter(|m| m.version >= Version::V15);
        let renumbered =
            given.is_some_and(|m| std::mem::replace(&mut m.short_id, short_id) != short_id);
        let role = self.role(id);
        let reply = RoleMessage { role, short_id, generation_id: self.generation() };
        Ok(Change { reply, displaced, role: role != before, short_id: renumbered })
    }

    /// What a connection wants.
    pub fn wants(&self, id: ConnectionId) -> AsyncConfig {
        self.members.get(&id).map_or(AsyncConfig::DEFAULT, |m| m.wants)
    }

    /// A connection says what it wants.
    pub fn set_wants(&mut self, id: ConnectionId, change: &AsyncChange) {
        if let Some(member) = self.members.get_mut(&id) {
            change.apply(&mut member.wants);
        }
    }

    /// A connection wants a message.
    pub fn is_wanted(&self, id: ConnectionId, message: Asynchronous) -> bool {
        let Some(member) = self.members.get(&id) else { return false };
        let column = usize::from(member.role == Role::Slave);
        let (kind, bit) = match message {
            Asynchronous::PacketIn(reason) => (AsyncKind::PacketIn, reason.wire(member.version)),
            Asynchronous::PortStatus(reason) => (
                AsyncKind::PortStatus,
                match reason {
                    PortReason::Add => 0,
                    PortReason::Delete => 1,
                    PortReason::Modify => 2,
                },
            ),
            Asynchronous::FlowRemoved(reason) => {
                (AsyncKind::FlowRemoved, reason.wire(member.version))
            }
            Asynchronous::RoleStatus(reason) => (
                AsyncKind::RoleStatus,
                match reason {
                    RoleReason::MasterRequest => 0,
                    RoleReason::Config => 1,
                    RoleReason::Experimenter => 2,
                },
            ),
            Asynchronous::TableStatus(reason) => (
                AsyncKind::TableStatus,
                match reason {
                    TableReason::VacancyDown => 3,
                    TableReason::VacancyUp => 4,
                },
            ),
            Asynchronous::FlowUpdate => return true,
            Asynchronous::RequestForward(kind) => (AsyncKind::RequestForward, kind),
            Asynchronous::FlowStats(reason) => (AsyncKind::FlowStats, reason),
            Asynchronous::ControllerStatus(reason) => (AsyncKind::ControllerStatus, reason as u8),
        };
        let masks = member.wants.of(kind);
        masks[column] >> bit & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(role: Role, generation_id: u64) -> RoleMessage {
        RoleMessage { role, short_id: RoleMessage::NO_ID, generation_id }
    }

    #[test]
    fn one_master_at_most() {
        let (a, b) = (ConnectionId(1), ConnectionId(2));
        let mut roles = Roles::default();
        roles.join(a, Version::V13);
        roles.join(b, Version::V13);
        assert_eq!(roles.role(a), Role::Equal);
        assert_eq!(
            roles.request(a, ask(Role::NoChange, 0)).unwrap().reply,
            ask(Role::Equal, u64::MAX)
        );
        assert_eq!(roles.request(a, ask(Role::Master, 5)).unwrap().reply, ask(Role::Master, 5));
        assert_eq!(roles.request(b, ask(Role::Master, 5)).unwrap().reply, ask(Role::Master, 5));
        assert_eq!(roles.role(a), Role::Slave);
        assert_eq!(roles.request(a, ask(Role::Master, 4)), Err(Stale { given: 4, newest: 5 }));
        assert_eq!(roles.request(a, ask(Role::Equal, 0)).unwrap().reply.role, Role::Equal);
        assert_eq!(roles.role(b), Role::Master);
    }

    #[test]
    fn requests_of_1_0_have_no_generation() {
        let (a, b) = (ConnectionId(1), ConnectionId(2));
        let mut roles = Roles::default();
        roles.join(a, Version::V13);
        roles.join(b, Version::V10);
        roles.request(a, ask(Role::Master, 5)).unwrap();
        roles.request(b, ask(Role::Master, 0)).unwrap();
        assert_eq!((roles.role(a), roles.role(b)), (Role::Slave, Role::Master));
        assert!(roles.request(a, ask(Role::Master, 4)).is_err(), "5 is still the newest");
    }

    #[test]
    fn generations_wrap() {
        let a = ConnectionId(1);
        let mut roles = Roles::default();
        roles.join(a, Version::V13);
        roles.request(a, ask(Role::Slave, u64::MAX)).unwrap();
        roles.request(a, ask(Role::Slave, 3)).unwrap();
        assert!(roles.request(a, ask(Role::Slave, u64::MAX)).is_err());
    }

    #[test]
    fn slaves_hear_of_ports_only_unless_they_ask() {
        let a = ConnectionId(1);
        let mut roles = Roles::default();
        roles.join(a, Version::V13);
        let packet = Asynchronous::PacketIn(PacketInReason::Action);
        let port = Asynchronous::PortStatus(PortReason::Modify);
        assert!(roles.is_wanted(a, packet) && roles.is_wanted(a, port));
        let invalid = Asynchronous::PacketIn(PacketInReason::InvalidTtl);
        assert!(!roles.is_wanted(a, invalid), "who wants those says so");
        roles.request(a, ask(Role::Slave, 1)).unwrap();
        assert!(!roles.is_wanted(a, packet) && roles.is_wanted(a, port));
        let change = AsyncChange { masks: vec![(AsyncKind::PacketIn, true, 2)] };
        roles.set_wants(a, &change);
        assert!(roles.is_wanted(a, packet));
        roles.leave(a);
        assert!(!roles.is_wanted(a, port));
    }
}
