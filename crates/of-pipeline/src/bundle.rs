//! Bundles: requests that happen together or not at all (1.4.1 §6.8).
//!
//! The requests are executed one after another against the stores, so that a later one sees what an
//! earlier one did; what they would do to the switch gathers ([`Stage`](crate::transaction::Stage)).
//! If all are right the switch takes it as one transaction: packets see all of it from one version
//! on. If one is refused, the stores' journals undo what was done to them, and nothing was done to
//! the switch.
//!
//! What cannot be taken back waits until the bundle has happened: packet-outs, flow-removed messages,
//! counters that are set to zero. What a port-mod sets is set back.
//!
//! Cost: that of the requests, and a copy of each entry that they change or remove.

use crate::agent::Agent;
use crate::refusal::Refusal;
use crate::removed::Removed;
use openflow::{Message, PortConfig, Version};
use switch::Injection;

/// What waits for the end of a bundle.
#[derive(Default)]
pub(crate) struct Deferred {
    /// Counters to be set to zero.
    pub(crate) resets: Vec<u32>,
    /// Entries that went, to be told.
    pub(crate) removed: Vec<Removed>,
    /// Packets to be sent.
    packets: Vec<Injection>,
    /// Ports whose configuration changed, with what it was.
    ports: Vec<(u32, switch::PortConfig, PortConfig)>,
}

/// Which request of a bundle was refused, and why. Nothing of the bundle happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message {at} of the bundle: {refusal}")]
pub struct BundleFault {
    /// Which, from 0 on.
    pub at: usize,
    /// Why.
    pub refusal: Refusal,
}

/// Whether a bundle may hold such a message.
pub fn may_hold(message: &Message) -> bool {
    matches!(
        message,
        Message::FlowMod(_)
            | Message::GroupMod(_)
            | Message::MeterMod(_)
            | Message::PortMod(_)
            | Message::PacketOut(_)
    )
}

impl Agent {
    /// Executes the requests of a bundle in their order: all of them, or none.
    pub fn bundle(&mut self, _version: Version, requests: Vec<Message>) -> Result<(), BundleFault> {
        self.interner.begin();
        self.flows.begin();
        self.conjunctions.keep();
        self.groups.begin();
        self.meters.begin();
        let events = self.events.len();
        let count = requests.len();
        let mut done = Ok(());
        for (at, request) in requests.into_iter().enumerate() {
            if let Err(refusal) = self.bundled(request) {
                done = Err(BundleFault { at, refusal });
                break;
            }
        }
        let done = done.and_then(|()| {
            let at = count.saturating_sub(1);
            self.interner.finish(&self.switch).map_err(|refusal| BundleFault { at, refusal })
        });
        let deferred = std::mem::take(&mut self.deferred);
        match done {
            Ok(spent) => {
                self.flows.keep();
                self.conjunctions.keep();
                self.groups.keep();
                self.meters.keep();
                deferred.resets.into_iter().for_each(|id| self.switch.reset_counter(id));
                self.tell_removed(deferred.removed);
                spent.retire(&self.switch);
                self.delete_orphans();
                deferred.packets.into_iter().for_each(|packet| self.switch.inject(packet));
                Ok(())
            }
            Err(fault) => {
                self.interner.abort(&self.switch);
                self.flows.undo();
                self.conjunctions.undo();
                self.groups.undo();
                self.meters.undo();
                self.events.truncate(events);
                for (port, config, ours) in deferred.ports.into_iter().rev() {
                    self.ports.set(port, ours);
                    if let Err(error) = self.switch.configure_port(port, config) {
                        tracing::error!(port, %error, "what a bundle set is not set back");
                    }
                }
                Err(fault)
            }
        }
    }

    fn bundled(&mut self, request: Message) -> Result<(), Refusal> {
        self.open_rooms(&request);
        match request {
            Message::FlowMod(request) => self.flow_mod(request),
            Message::GroupMod(request) => self.group_mod(request),
            Message::MeterMod(request) => self.meter_mod(request),
            Message::PortMod(request) => {
                let port = request.port_no.0;
                let before = self.switch.port(port).map(|view| view.config);
                let ours = self.ports.configured(port);
                self.port_mod(request)?;
                self.deferred.ports.extend(before.map(|config| (port, config, ours)));
                Ok(())
            }
            Message::PacketOut(request) => {
                // Bundles are of 1.4, and an extension of 1.3.
                let packet = self.injection(request)?;
                self.deferred.packets.extend(packet);
                Ok(())
            }
            other => Err(Refusal::NotInBundle { name: other.type_name() }),
        }
    }
}
