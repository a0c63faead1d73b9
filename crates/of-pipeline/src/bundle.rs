//! Bundles: requests that happen together or not at all (1.4.1 §6.8).
//!
//! The requests are executed one after another against the stores, so that a later one sees what an
//! earlier one did; what they would do to the switch gathers ([`Stage`](crate::stage::Stage)).
//! If all are right the switch takes it as one transaction: packets see all of it from one version
//! on. If one is refused, the stores' journals undo what was done to them, and nothing was done to
//! the switch.
//!
//! What cannot be taken back waits until the bundle has happened: packet-outs, flow-removed messages,
//! counters that are set to zero. What a port-mod sets is set back.
//!
//! Cost: that of the requests, and a copy of each entry that they change or remove.

use crate::agent::Agent;
use crate::monitor::Requester;
use crate::refusal::Refusal;
use crate::transaction::{Change, Transaction};
use openflow::{Message, Version};

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
    /// Executes the requests of a bundle in their order: all of them, or none. Nobody's: who watches entries is told of
    /// no requester.
    pub fn bundle(&mut self, version: Version, requests: Vec<Message>) -> Result<(), BundleFault> {
        self.bundle_by(None, version, requests)
    }

    /// The same; `by` tells whose bundle it is.
    pub fn bundle_by(
        &mut self,
        by: Option<Requester>,
        _version: Version,
        requests: Vec<Message>,
    ) -> Result<(), BundleFault> {
        let done = self.transaction(by).bundle(requests);
        self.keep();
        done
    }
}

impl Transaction<'_> {
    /// Executes the requests of a bundle.
    fn bundle(&mut self, requests: Vec<Message>) -> Result<(), BundleFault> {
        let events = self.outbox.len();
        let last = requests.len().saturating_sub(1);
        self.begin();
        let mut requests = requests.into_iter().enumerate();
        let done = requests.try_for_each(|(at, message)| {
            let change = Change::of(message)
                .map_err(|other| Refusal::NotInBundle { name: other.type_name() });
            let done = change.and_then(|change| self.apply(change));
            done.map_err(|refusal| BundleFault { at, refusal })
        });
        let done = match done {
            Ok(()) => self.end().map_err(|refusal| BundleFault { at: last, refusal }),
            Err(fault) => Err(fault),
        };
        if done.is_err() {
            self.take_back(events);
        }
        done
    }
}
