//! What controllers are to be told: events, and changes of entries while somebody watches them.

use crate::event::Event;
use crate::flow::{Flow, FlowKey};
use crate::monitor::{FlowChange, Requester, full};
use openflow::{FlowRemovedReason, FlowUpdateKind, FullUpdate, Instructions, Version};

/// What is to be told when the agent is asked next.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    events: Vec<Event>,
    /// Somebody watches flow entries.
    pub(crate) watched: bool,
}

impl Outbox {
    /// One more event.
    pub(crate) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Some more events.
    pub(crate) fn extend(&mut self, events: impl IntoIterator<Item = Event>) {
        self.events.extend(events);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// The events behind the first so many did not happen.
    pub(crate) fn truncate(&mut self, events: usize) {
        self.events.truncate(events);
    }

    /// All of them, to be told.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// An entry came, or was changed and did this before; `by` asked for it.
    pub(crate) fn changed(
        &mut self,
        by: Option<Requester>,
        key: FlowKey,
        flow: &Flow,
        before: Option<Instructions>,
    ) {
        if !self.watched {
            return;
        }
        let kind = match before {
            Some(_) => FlowUpdateKind::Modified,
            None => FlowUpdateKind::Added,
        };
        let change = FlowChange { update: full(kind, key, flow), before, by };
        self.events.push(Event::FlowChange(Box::new(change)));
    }

    /// An entry went; `by` asked for it.
    pub(crate) fn gone(
        &mut self,
        by: Option<Requester>,
        key: FlowKey,
        flow: &Flow,
        reason: FlowRemovedReason,
    ) {
        if !self.watched {
            return;
        }
        let reason = reason.wire(Version::V14);
        let update = FullUpdate { reason, ..full(FlowUpdateKind::Removed, key, flow) };
        let change = FlowChange { update, before: None, by };
        self.events.push(Event::FlowChange(Box::new(change)));
    }
}
