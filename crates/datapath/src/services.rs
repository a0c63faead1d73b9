//! Services: what programs call by name and do not say themselves ([`ir::Op::Service`]).
//!
//! In: a packet that the pipeline hands over, with arguments. Out: answers, perhaps another packet, or its
//! drop. A [`Services`] is a list by name that all workers of a switch share; a program that calls what is
//! not in the list gets answers of zero, and the packet goes on.
//!
//! Compiled code hands over all packets of a burst that have come to the same call ([`Service::burst`]), in the
//! order in which they came in; the interpreter one at a time ([`Service::call`]). So of two calls on a packet's
//! way, a burst makes the first for all its packets before the second for any: what a packet learns of
//! others of its own burst may differ from what it would learn if it came alone, as with any switch that works on
//! bursts. A packet that the code leaves to the interpreter behind a call is not handed over again
//! ([`externs::Resumed`](crate::externs::Resumed)).
//!
//! A service may leave packets of a burst to come alone, behind it ([`Handed::left`]), and let one that comes alone wait
//! ([`waiting`]).
//!
//! [`connections`] puts the tracker of the crate `service` behind this interface, [`elements`] what else is there;
//! [`answers`] answers for addresses that those own; [`admission`] asks the control side's own; [`trackers`] are those of all of them.
//!
//! Invariants: a call takes bounded time, whatever the packet; what grows with what a service holds is done
//! by [`Service::tend`], off the packet path, in slices.

pub mod admission;
pub mod answers;
mod call;
pub mod connections;
pub mod elements;
pub mod trackers;
pub mod waiting;

use crate::counts::Serve;
use ir::{Bits, DropReason, program};
use jit::Handed;
use port::{Csum, Mark};
use std::sync::Arc;

pub use admission::Admission;
pub use call::{Burst, Call, Service, WordsCall, one_by_one};
pub use connections::Connections;
pub use elements::Elements;
pub use waiting::{StartPoint, WaitNews, WaitTicket, WaitingPacket};

/// The services of a switch.
#[derive(Clone, Default)]
pub struct Services {
    list: Vec<(String, Arc<dyn Service>)>,
    connections: Option<Arc<Connections>>,
    elements: Option<Arc<Elements>>,
    /// Always there; it is asked where the list has none of its name.
    admission: Arc<Admission>,
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

    /// Adds a list of SoftFlow's elements, empty at first, under the names that OpenFlow's program has for it, and what is
    /// answered for their addresses.
    pub fn soft(&mut self) {
        let elements = Arc::new(Elements::default());
        self.insert(elements::NAME, elements.clone());
        self.insert(elements::EDIT_NAME, elements.clone());
        self.insert(answers::NAME, elements.answers().clone());
        self.elements = Some(elements);
    }

    /// The list of SoftFlow's elements, if there is one.
    pub fn elements(&self) -> Option<&Arc<Elements>> {
        self.elements.as_ref()
    }

    /// Who is asked whether entries may be made of packets.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// The tracker, if there is one.
    pub fn connections(&self) -> Option<&Arc<Connections>> {
        self.connections.as_ref()
    }

    /// Hands a packet over; to nobody, if there is no service of this name.
    #[inline]
    pub fn call(&self, mut call: Call<'_>, results: &mut [Bits]) -> bool {
        let named = self.list.iter().enumerate().find(|(_, (name, _))| *name == call.service.name);
        let Some((at, (_, service))) = named else {
            if call.service.name == admission::NAME {
                self.admission.call(call, results);
            }
            return true;
        };
        let mut news = call.news.take();
        let passes = service.call(Call { news: news.as_deref_mut(), ..call }, results);
        if let Some(waits) = news.and_then(|news| news.waits.as_mut()) {
            waits.service = at;
        }
        passes
    }

    /// The same with words in place of values.
    pub fn call_words(&self, mut call: WordsCall<'_>, results: &mut [u64]) -> bool {
        let named = self.list.iter().enumerate().find(|(_, (name, _))| *name == call.service.name);
        let Some((at, (_, service))) = named else {
            if call.service.name == admission::NAME {
                self.admission.call_words(call, results);
            }
            return true;
        };
        let mut news = call.news.take();
        let passes = service.call_words(WordsCall { news: news.as_deref_mut(), ..call }, results);
        if let Some(waits) = news.and_then(|news| news.waits.as_mut()) {
            waits.service = at;
        }
        passes
    }

    /// Hands a frame to the service that has said that it waits; given back if it goes on already.
    pub fn keep(&self, waits: WaitTicket, kept: WaitingPacket) -> Option<WaitingPacket> {
        match self.list.get(waits.service) {
            Some((_, service)) => service.keep(waits, kept),
            None => {
                kept.drop(DropReason::FragmentLost);
                None
            }
        }
    }

    /// Frames that wait are dropped and counted: the switch ends.
    pub fn give_up(&self, reason: DropReason) {
        self.list.iter().for_each(|(_, service)| service.give_up(reason));
    }

    /// Hands packets of a burst over; to nobody, if there is no service of this name.
    #[inline]
    pub fn burst(&self, burst: Burst<'_>, packets: &mut [Handed<'_>]) {
        match self.list.iter().find(|(name, _)| *name == burst.service.name) {
            Some((_, service)) => service.burst(burst, packets),
            None if burst.service.name == admission::NAME => self.admission.burst(burst, packets),
            None => packets.iter_mut().for_each(|handed| handed.results.fill(0)),
        }
    }

    /// Who serves a burst's packets.
    pub fn serve<'a>(&'a self, csums: &'a [Csum], now_ns: u64) -> Serving<'a> {
        Serving { services: self, csums, marks: &[], now_ns }
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

/// Services at a burst's calls.
pub struct Serving<'a> {
    services: &'a Services,
    csums: &'a [Csum],
    marks: &'a [Mark],
    now_ns: u64,
}

impl<'a> Serving<'a> {
    /// The same, with what ports report of the packets.
    #[must_use]
    pub fn marked(self, marks: &'a [Mark]) -> Serving<'a> {
        Serving { marks, ..self }
    }
}

impl Serve for Serving<'_> {
    fn serve(&mut self, service: &program::Service, packets: &mut [Handed<'_>]) {
        let (csums, marks, now_ns) = (self.csums, self.marks, self.now_ns);
        self.services.burst(Burst { service, csums, marks, now_ns, leaves: true }, packets);
    }
}
