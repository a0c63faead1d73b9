//! Services: what programs call by name and do not say themselves ([`ir::Op::Service`]).
//!
//! In: a packet that the pipeline hands over, with arguments. Out: answers, perhaps another packet, or its
//! drop. A [`Services`] is a list by name that all workers of a switch share; a program that calls what is
//! not in the list gets answers of zero, and the packet goes on.
//!
//! Compiled code hands over all packets of a burst that have come to the same call ([`Service::burst`]), in the
//! order in which they came in; the interpreter one at a time ([`Service::call`]). So of two calls on a packet's
//! way, a burst makes the first for all its packets before the second for any: what a packet is told of
//! others of its own burst may differ from what it would be told if it came alone, as with any switch that works on
//! bursts. A packet that the code leaves to the interpreter behind a call is not handed over again
//! ([`lane::Resumed`](crate::lane::Resumed)).
//!
//! A service may leave packets of a burst to come alone, behind it ([`Handed::left`]), and let one that comes alone wait
//! ([`waiting`]).
//!
//! [`connections`] puts the tracker of the crate `service` behind this interface, [`elements`] what else is there;
//! [`admission`] asks the control side's own.
//!
//! Invariants: a call takes bounded time, whatever the packet; what grows with what a service holds is done
//! by [`Service::tend`], off the packet path, in slices.

pub mod admission;
pub mod connections;
pub mod elements;
pub mod waiting;

use crate::lane::Serve;
use ir::{Bits, DropReason, program};
use jit::Handed;
use port::{Csum, Mark};
use service::packet::Hint;
use smallvec::SmallVec;
use std::sync::Arc;

pub use admission::Admission;
pub use connections::Connections;
pub use elements::Elements;
pub use waiting::{Begins, Kept, News, Waits};

/// A packet that is handed to a service.
#[derive(Debug)]
pub struct Call<'a> {
    /// What the program declares.
    pub service: &'a program::Service,
    /// Values of its arguments; of their widths.
    pub args: &'a [Bits],
    /// The packet's octets. Only a service that [edits](program::Service::edits) may change them, and how many they are.
    pub packet: &'a mut Vec<u8>,
    /// What is known of its transport checksum.
    pub csum: Csum,
    /// The time, of the switch's clock.
    pub now_ns: u64,
    /// Somebody wants to know what would happen: nothing is to be remembered.
    pub look: bool,
    /// Where it says what waits and what goes on, if there is somebody who keeps packets.
    pub news: Option<&'a mut News>,
}

/// Packets that are handed to a service together, beside the packets.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    /// What the program declares.
    pub service: &'a program::Service,
    /// What is known of the transport checksums of the burst's packets, by their numbers.
    pub csums: &'a [Csum],
    /// What ports have said of them, by their numbers; may be wrong, and is checked by who uses it.
    pub marks: &'a [Mark],
    /// The time, of the switch's clock.
    pub now_ns: u64,
    /// Packets may be [left](Handed::left).
    pub leaves: bool,
}

impl Burst<'_> {
    /// What is known of a packet's transport checksum.
    pub fn csum(&self, packet: &Handed<'_>) -> Csum {
        self.csums.get(packet.packet).copied().unwrap_or(Csum::None)
    }

    /// What its port has said of a packet.
    pub fn hint(&self, packet: &Handed<'_>) -> Hint {
        let mark = self.marks.get(packet.packet).copied().unwrap_or_default();
        Hint { mark: mark.value, generation: mark.generation }
    }
}

/// Takes packets one at a time: values in place of words.
pub fn one_by_one(
    service: &program::Service,
    packets: &mut [Handed<'_>],
    mut call: impl FnMut(usize, &[Bits], &mut [u8], &mut [Bits]) -> bool,
) {
    for handed in packets {
        let mut words = handed.args;
        let mut args: SmallVec<[Bits; 16]> = SmallVec::new();
        for arg in &service.args {
            let value = Bits::from_words(words, arg.width);
            words = words.get(value.limbs().len()..).unwrap_or_default();
            args.push(value);
        }
        let mut results: SmallVec<[Bits; 16]> =
            service.results.iter().map(|r| Bits::zero(r.width)).collect();
        handed.passes = call(handed.packet, &args, handed.bytes, &mut results);
        let words = results.iter().flat_map(|result| result.limbs());
        handed.results.iter_mut().zip(words).for_each(|(to, word)| *to = *word);
    }
}

/// A service, as the pipeline sees it.
pub trait Service: Send + Sync {
    /// Takes packets of a burst, in the order in which they came in.
    fn burst(&self, burst: Burst<'_>, packets: &mut [Handed<'_>]) {
        one_by_one(burst.service, packets, |at, args, packet, results| {
            let csum = burst.csums.get(at).copied().unwrap_or(Csum::None);
            let (service, now_ns) = (burst.service, burst.now_ns);
            let mut whole = packet.to_vec();
            let packet_of =
                Call { service, args, packet: &mut whole, csum, now_ns, look: false, news: None };
            let passes = self.call(packet_of, results);
            // Code has room for as many octets as there were.
            if service.edits && whole.len() == packet.len() {
                packet.copy_from_slice(&whole);
            }
            passes
        });
    }

    /// Takes a packet. `results` are zero, of the declared widths. False drops it.
    fn call(&self, call: Call<'_>, results: &mut [Bits]) -> bool;

    /// Does what is due by now and is not done with packets, in slices, so that no call waits for long.
    /// Called a few times in a second, by no worker.
    fn tend(&self, now_ns: u64);

    /// Takes a frame of which it has said that it waits; gives it back if it goes on already.
    fn keep(&self, _waits: Waits, kept: Kept) -> Option<Kept> {
        kept.drop(DropReason::FragmentLost);
        None
    }

    /// Frames that wait are dropped: the switch ends.
    fn give_up(&self, _reason: DropReason) {}
}

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

    /// Adds a list of SoftFlow's elements, empty at first, under the names that OpenFlow's program has for it.
    pub fn soft(&mut self) {
        let elements = Arc::new(Elements::default());
        self.insert(elements::NAME, elements.clone());
        self.insert(elements::EDIT_NAME, elements.clone());
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

    /// Hands a frame to the service that has said that it waits; given back if it goes on already.
    pub fn keep(&self, waits: Waits, kept: Kept) -> Option<Kept> {
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
    /// The same, with what ports have said of the packets.
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

/// Writes a number into a result of whatever width it was declared with.
pub(crate) fn answer(results: &mut [Bits], at: usize, value: impl Into<u128>) {
    if let Some(result) = results.get_mut(at) {
        *result = Bits::from_u128(value.into(), result.width());
    }
}
