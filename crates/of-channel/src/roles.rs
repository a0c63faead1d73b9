//! Who is master, and which asynchronous messages each connection wants (OpenFlow 1.3.5 §6.3.4,
//! §7.3.9, §7.3.10).
//!
//! A connection begins as equal. At most one is master: who becomes master makes the master before
//! it slave. Requests for master or slave carry a generation id that may not go back, so that a
//! controller that was overtaken cannot overtake in turn.

use of_pipeline::Event;
use openflow::{AsyncConfig, FlowRemovedReason, PacketInReason, PortReason, Role, RoleMessage};
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
    role: Role,
    wants: AsyncConfig,
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
}

impl Asynchronous {
    /// The kind and reason of the message that tells an event.
    pub fn of(event: &Event) -> Asynchronous {
        match event {
            Event::PacketIn(p) => Asynchronous::PacketIn(p.reason),
            Event::FlowRemoved(r) => Asynchronous::FlowRemoved(r.reason),
            Event::PortStatus(s) => Asynchronous::PortStatus(s.reason),
        }
    }
}

impl Roles {
    /// A connection has shaken hands.
    pub fn join(&mut self, id: ConnectionId) {
        self.members.insert(id, Member { role: Role::Equal, wants: AsyncConfig::DEFAULT });
    }

    /// A connection is gone.
    pub fn leave(&mut self, id: ConnectionId) {
        self.members.remove(&id);
    }

    /// The role of a connection.
    pub fn role(&self, id: ConnectionId) -> Role {
        self.members.get(&id).map_or(Role::Equal, |m| m.role)
    }

    /// A connection asks for a role. The answer is what it has then.
    pub fn request(
        &mut self,
        id: ConnectionId,
        request: RoleMessage,
    ) -> Result<RoleMessage, Stale> {
        if matches!(request.role, Role::Master | Role::Slave) {
            // The distance is signed, so that the counter may wrap (1.3.5 §6.3.4).
            match self.generation {
                Some(newest) if (request.generation_id.wrapping_sub(newest) as i64) < 0 => {
                    return Err(Stale { given: request.generation_id, newest });
                }
                _ => self.generation = Some(request.generation_id),
            }
        }
        if request.role == Role::Master {
            for member in self.members.values_mut().filter(|m| m.role == Role::Master) {
                member.role = Role::Slave;
            }
        }
        if let Some(member) = self.members.get_mut(&id)
            && request.role != Role::NoChange
        {
            member.role = request.role;
        }
        let generation_id = self.generation.unwrap_or(u64::MAX);
        Ok(RoleMessage { role: self.role(id), generation_id })
    }

    /// What a connection wants.
    pub fn wants(&self, id: ConnectionId) -> AsyncConfig {
        self.members.get(&id).map_or(AsyncConfig::DEFAULT, |m| m.wants)
    }

    /// A connection says what it wants.
    pub fn set_wants(&mut self, id: ConnectionId, wants: AsyncConfig) {
        if let Some(member) = self.members.get_mut(&id) {
            member.wants = wants;
        }
    }

    /// A connection wants a message.
    pub fn is_wanted(&self, id: ConnectionId, message: Asynchronous) -> bool {
        let Some(member) = self.members.get(&id) else { return false };
        let column = usize::from(member.role == Role::Slave);
        let (masks, bit) = match message {
            Asynchronous::PacketIn(reason) => (
                member.wants.packet_in,
                match reason {
                    PacketInReason::NoMatch => 0,
                    PacketInReason::Action => 1,
                    PacketInReason::InvalidTtl => 2,
                },
            ),
            Asynchronous::PortStatus(reason) => (
                member.wants.port_status,
                match reason {
                    PortReason::Add => 0,
                    PortReason::Delete => 1,
                    PortReason::Modify => 2,
                },
            ),
            Asynchronous::FlowRemoved(reason) => (
                member.wants.flow_removed,
                match reason {
                    FlowRemovedReason::IdleTimeout => 0,
                    FlowRemovedReason::HardTimeout => 1,
                    FlowRemovedReason::Delete => 2,
                    FlowRemovedReason::GroupDelete => 3,
                },
            ),
        };
        masks[column] >> bit & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(role: Role, generation_id: u64) -> RoleMessage {
        RoleMessage { role, generation_id }
    }

    #[test]
    fn one_master_at_most() {
        let (a, b) = (ConnectionId(1), ConnectionId(2));
        let mut roles = Roles::default();
        roles.join(a);
        roles.join(b);
        assert_eq!(roles.role(a), Role::Equal);
        assert_eq!(roles.request(a, ask(Role::NoChange, 0)).unwrap(), ask(Role::Equal, u64::MAX));
        assert_eq!(roles.request(a, ask(Role::Master, 5)).unwrap(), ask(Role::Master, 5));
        assert_eq!(roles.request(b, ask(Role::Master, 5)).unwrap(), ask(Role::Master, 5));
        assert_eq!(roles.role(a), Role::Slave);
        assert_eq!(roles.request(a, ask(Role::Master, 4)), Err(Stale { given: 4, newest: 5 }));
        assert_eq!(roles.request(a, ask(Role::Equal, 0)).unwrap().role, Role::Equal);
        assert_eq!(roles.role(b), Role::Master);
    }

    #[test]
    fn generations_wrap() {
        let a = ConnectionId(1);
        let mut roles = Roles::default();
        roles.join(a);
        roles.request(a, ask(Role::Slave, u64::MAX)).unwrap();
        roles.request(a, ask(Role::Slave, 3)).unwrap();
        assert!(roles.request(a, ask(Role::Slave, u64::MAX)).is_err());
    }

    #[test]
    fn slaves_hear_of_ports_only_unless_they_ask() {
        let a = ConnectionId(1);
        let mut roles = Roles::default();
        roles.join(a);
        let packet = Asynchronous::PacketIn(PacketInReason::Action);
        let port = Asynchronous::PortStatus(PortReason::Modify);
        assert!(roles.is_wanted(a, packet) && roles.is_wanted(a, port));
        roles.request(a, ask(Role::Slave, 1)).unwrap();
        assert!(!roles.is_wanted(a, packet) && roles.is_wanted(a, port));
        roles.set_wants(a, AsyncConfig { packet_in: [0, 2], ..AsyncConfig::DEFAULT });
        assert!(roles.is_wanted(a, packet));
        roles.leave(a);
        assert!(!roles.is_wanted(a, port));
    }
}
