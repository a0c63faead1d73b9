//! What controllers are told of each other's channels (1.5.1 §7.3.5.15, §7.4.7).
//!
//! The switch knows the controllers of its configuration, whether or not they are there, and those that
//! have connected to it, for as long as they stay. One of the configuration comes and goes
//! (`OFPCSR_CHANNEL_STATUS`); one that connects is added and removed. Auxiliary connections are their
//! main one's, and nobody is told of those who only look on.

use crate::roles::{Asynchronous, Change, ConnectionId};
use crate::shared::{Member, Origin, Shared};
use openflow::{ControllerReason, ControllerStatus, Message, Role, RoleMessage};

/// Why it is told that a connection of this kind has shaken hands.
pub(crate) fn joining(origin: Origin) -> ControllerReason {
    match origin {
        Origin::Configured => ControllerReason::Channel,
        _ => ControllerReason::Added,
    }
}

impl Shared {
    /// Every controller as it is now: first those of the configuration, in its order.
    pub(crate) fn controllers(&self) -> Vec<ControllerStatus> {
        let mut there: Vec<_> = {
            let members = self.members();
            let controllers = members.iter().filter(|(_, m)| m.controller().is_some());
            let mut all: Vec<_> =
                controllers.map(|(id, m)| (*id, m.origin, self.status_of(*id, m))).collect();
            all.sort_by_key(|(id, ..)| *id);
            all
        };
        let mut list = Vec::new();
        for target in &self.config.controllers {
            let uri = target.to_string();
            let is_it = |(_, origin, status): &(_, Origin, ControllerStatus)| {
                *origin == Origin::Configured && status.uri == uri
            };
            list.push(match there.iter().position(is_it) {
                Some(at) => there.remove(at).2,
                None => ControllerStatus {
                    short_id: RoleMessage::NO_ID,
                    role: Role::Equal,
                    reason: ControllerReason::Request,
                    up: false,
                    uri,
                },
            });
        }
        list.extend(there.into_iter().map(|(.., status)| status));
        list
    }

    /// A controller that is there.
    pub(crate) fn status_of(&self, id: ConnectionId, member: &Member) -> ControllerStatus {
        let roles = self.roles();
        ControllerStatus {
            short_id: roles.short_id(id),
            role: roles.role(id),
            reason: ControllerReason::Request,
            up: true,
            uri: member.peer.clone(),
        }
    }

    /// Tells of controllers that are there.
    pub(crate) fn tell_of(&self, ids: &[ConnectionId], reason: ControllerReason) {
        for id in ids {
            let status = self.members().get(id).map(|member| self.status_of(*id, member));
            if let Some(status) = status {
                self.tell_status(ControllerStatus { reason, ..status });
            }
        }
    }

    /// Tells what a request for a role changed.
    pub(crate) fn tell_roles(&self, id: ConnectionId, change: &Change) {
        if change.role {
            self.tell_of(&[id], ControllerReason::Role);
        }
        self.tell_of(&change.displaced, ControllerReason::Role);
        if change.short_id {
            self.tell_of(&[id], ControllerReason::ShortId);
        }
    }

    //= openflow-1.5.1 §7.4.7: a change of a controller's channel, role or number is told to who wants it.
    pub(crate) fn tell_status(&self, status: ControllerStatus) {
        let kind = Asynchronous::ControllerStatus(status.reason);
        self.tell(kind, Message::ControllerStatus(status), |_| true);
    }
}
