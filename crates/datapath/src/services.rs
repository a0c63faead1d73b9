//! Services: what programs call by name and do not say themselves ([`ir::Op::Service`]).
//!
//! In: a packet that the pipeline hands over, with arguments. Out: answers, perhaps another packet, or its
//! drop. A [`Services`] is a list by name that all workers of a switch share; a program that calls what is
//! not in the list gets answers of zero, and the packet goes on.
//!
//! [`connections`] puts the tracker of the crate `service` behind this interface.
//!
//! Invariants: a call takes bounded time, whatever the packet; what grows with what a service holds is done
//! by [`Service::tend`], off the packet path, in slices.

pub mod connections;

use ir::{Bits, program};
use port::Csum;
use std::sync::Arc;

pub use connections::Connections;

/// A packet that is handed to a service.
#[derive(Debug)]
pub struct Call<'a> {
    /// What the program declares.
    pub service: &'a program::Service,
    /// Values of its arguments; of their widths.
    pub args: &'a [Bits],
    /// The packet's octets. Only a service that [edits](program::Service::edits) may change them.
    pub packet: &'a mut [u8],
    /// What is known of its transport checksum.
    pub csum: Csum,
    /// The time, of the switch's clock.
    pub now_ns: u64,
    /// Somebody wants to know what would happen: nothing is to be remembered.
    pub look: bool,
}

/// A service, as the pipeline sees it.
pub trait Service: Send + Sync {
    /// Takes a packet. `results` are zero, of the declared widths. False drops it.
    fn call(&self, call: Call<'_>, results: &mut [Bits]) -> bool;

    /// Does what is due by now and is not done with packets, in slices, so that no call waits for long.
    /// Called a few times in a second, by no worker.
    fn tend(&self, now_ns: u64);
}

/// The services of a switch.
#[derive(Clone, Default)]
pub struct Services {
    list: Vec<(String, Arc<dyn Service>)>,
    connections: Option<Arc<Connections>>,
}

impl Services {
    /// Adds a service under the name that programs call it by, in place of one that had it before.
    pub fn insert(&mut self, name: &str, service: Arc<dyn Service>) {
        self.list.retain(|(n, _)| n != name);
        self.list.push((name.to_string(), service));
    }

    /// Adds a tracker under the names that OpenFlow's program has for it.
    pub fn track(&mut self, config: service::conntrack::Config) {
        let tracker = Arc::new(Connections::new(config, 0));
        self.insert(connections::NAME, tracker.clone());
        self.insert(connections::NAT_NAME, tracker.clone());
        self.connections = Some(tracker);
    }

    /// The tracker, if there is one.
    pub fn connections(&self) -> Option<&Arc<Connections>> {
        self.connections.as_ref()
    }

    /// Hands a packet over; to nobody, if there is no service of this name.
    #[inline]
    pub fn call(&self, call: Call<'_>, results: &mut [Bits]) -> bool {
        match self.list.iter().find(|(name, _)| *name == call.service.name) {
            Some((_, service)) => service.call(call, results),
            None => true,
        }
    }

    /// [`Service::tend`] of each.
    pub fn tend(&self, now_ns: u64) {
        for (at, (_, service)) in self.list.iter().enumerate() {
            // One that has two names is tended once.
            if !self.list[..at].iter().any(|(_, other)| Arc::ptr_eq(other, service)) {
                service.tend(now_ns);
            }
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Writes a number into a result of whatever width it was declared with.
pub(crate) fn answer(results: &mut [Bits], at: usize, value: impl Into<u128>) {
    if let Some(result) = results.get_mut(at) {
        *result = Bits::from_u128(value.into(), 128).cast(result.width());
    }
}
