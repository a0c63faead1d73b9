//! The interface of a service (SoftFlow §3, §5), and how a pipeline calls it.
//!
//! An [`Element`] is a service by the name that flows write (`softflow(NAME,ARG)`). An [`Instance`] is the state
//! behind such a name: thousands are cheap, since one is what a constructor returns and no more. It is called by one worker at a
//! time and needs no locks; whoever holds it sees to that.
//!
//! Elements of one *group* share an instance, made by the first of them. Settings that are one element's
//! [own](crate::catalogue::Setting::own) give each its [role](Element::role) there; in all others they agree.
//!
//! # What a packet carries
//!
//! [`Metadata`], SoftFlow's figure 3. It is all zero when a packet comes in. The pipeline sets `argument`
//! before a call; a service may write `register` and `coalesce`.
//!
//! # What a call means
//!
//! The service consumes the packet; `stage` is one higher, `action` names the element, and the packet enters
//! table 0 anew. All of that is the caller's: `datapath::services::elements` calls instances with the packets
//! of a burst that have come to one call, and the pipeline's program does the rest. What an element
//! [promises](Element::writes) decides whether the packet is parsed again.

use crate::catalogue::Error;
pub use crate::conntrack::{Apart, Ticket};
use crate::conntrack::{Selection, Tracker};
pub use crate::kept::{Given, Kept};
use crate::nat::Outside;
use crate::packet::{Carries, Packet};

/// What a packet carries from service to service (SoftFlow figure 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metadata {
    /// `sf_metadata`: a register that services and tables share.
    pub register: u64,
    /// `sf_action`: the element called last, by its number; 0 for none.
    pub action: u32,
    /// `sf_stage`: services called so far.
    pub stage: u8,
    /// `sf_coalesce`: whether lookups may be skipped after this call.
    pub coalesce: bool,
    /// `sf_argument`: what the action said.
    pub argument: u32,
}

/// What a service says of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fate {
    /// The tables go on with it.
    #[default]
    Continue,
    /// It is dropped, and counted by the service.
    Drop,
    /// It is left to come alone, behind its burst.
    Apart,
    /// It is kept under this ticket, until the service says that it goes on or is lost.
    Waits(Ticket),
}

/// Which parts of a packet an element may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Writes {
    /// None: only metadata.
    Nothing,
    /// What follows the transport header, and checksums that cover it.
    Payload,
    /// IP addresses, transport ports, and checksums.
    Ends,
    /// Anything; no lookup can be skipped.
    Anything,
}

/// A packet, what it carries, and what becomes of it.
#[derive(Debug)]
pub struct Passing<'a> {
    /// The frame and its offsets.
    pub packet: Packet<'a>,
    /// What it carries.
    pub metadata: Metadata,
    /// What the service says of it.
    pub fate: Fate,
    /// What may be said of it.
    pub apart: Apart,
}

impl<'a> Passing<'a> {
    /// A packet that comes in.
    pub fn new(packet: Packet<'a>) -> Passing<'a> {
        let (metadata, fate) = (Metadata::default(), Fate::Continue);
        Passing { packet, metadata, fate, apart: Apart::Never }
    }
}

impl<'a> Carries<'a> for Passing<'a> {
    #[inline(always)]
    fn packet(&mut self) -> &mut Packet<'a> {
        &mut self.packet
    }
}

/// One worker's state of an element, or of all elements of a group.
pub trait Instance: Send {
    /// Takes a burst at time `now_ns`. Packets whose fate is not [`Fate::Continue`] are not to be
    /// changed; metadata's `stage` and `action` are the caller's.
    fn ingress(&mut self, now_ns: u64, burst: &mut [Passing<'_>]);

    /// The same, for the element of its group that has this [role](Element::role).
    fn ingress_as(&mut self, role: u32, now_ns: u64, burst: &mut [Passing<'_>]) {
        let _ = role;
        self.ingress(now_ns, burst);
    }

    /// Tickets of packets that go on now, in this order, and of those that are lost.
    fn news(&mut self) -> (Vec<Ticket>, Vec<Ticket>) {
        (Vec::new(), Vec::new())
    }

    /// Gives up what waits no longer, if it is not done with packets.
    fn tend(&mut self, _now_ns: u64) {}

    /// What it keeps of its packets, of so many places from this one on: for who guards it by a lock and lets go of it between
    /// slices. The place to go on from; none if these were the last, as they are of one that keeps nothing.
    fn page(
        &self,
        _now_ns: u64,
        _from: usize,
        _places: usize,
        _see: &mut dyn FnMut(Kept),
    ) -> Option<usize> {
        None
    }

    /// Forgets connections that are chosen; how many there were.
    fn forget(&mut self, _chosen: &Selection) -> usize {
        0
    }

    /// Connections that it keeps, those of them that are half open, and the octets that they take.
    fn size(&self) -> (usize, usize, usize) {
        (0, 0, 0)
    }

    /// What is taken of its outside addresses, at most so many one by one; none if it translates nothing.
    fn outside(&self, _most: usize) -> Option<Outside> {
        None
    }

    /// What the backends of a balancer were given.
    fn given(&mut self) -> Vec<Given> {
        Vec::new()
    }

    /// An image of what it keeps, for the process that goes on in this one's place; none of one that keeps nothing.
    /// `taken_at` is in seconds since 1970. No packet comes any more.
    fn export(&mut self, _now_ns: u64, _taken_at: u64) -> Option<Vec<u8>> {
        None
    }

    /// Goes on with an image of another process: how many connections or flows it has taken.
    ///
    /// # Errors
    /// If it is no image of such an instance.
    fn import(&mut self, _now_ns: u64, _image: Vec<u8>) -> Result<usize, String> {
        Err("a service of this kind keeps nothing".to_owned())
    }

    /// Tells flows that another process could not know the way of (`balance::follow`), of so many places from this one on; the place to
    /// go on from. None of one that has no such flows.
    fn tell_flows(
        &mut self,
        _now_ns: u64,
        _from: usize,
        _places: usize,
        _out: &mut Vec<u8>,
    ) -> Option<usize> {
        None
    }

    /// Goes on with flows that another process has told: how many.
    ///
    /// # Errors
    /// If they are none.
    fn told_flows(&mut self, _now_ns: u64, _records: &[u8]) -> Result<usize, String> {
        Err("a service of this kind has no such flows".to_owned())
    }

    /// The tracker that it keeps its connections in, if it does so: for who follows it, or has it go on elsewhere.
    fn tracker(&mut self) -> Option<&mut Tracker> {
        None
    }

    /// Names, in stable words, and numbers.
    fn counters(&self) -> Vec<(&'static str, u64)>;

    /// Counters whose names are known only while it runs: those that a module in a sandbox has.
    fn own_counters(&mut self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// An action of a service.
pub trait Element: Send + Sync {
    /// The name that flows write.
    fn name(&self) -> &'static str;

    /// What it may write.
    fn writes(&self) -> Writes;

    /// What it is among the elements of its group: they share one instance, which is told.
    fn role(&self) -> u32 {
        0
    }

    /// State for a worker. `seed` is a number that nobody outside can guess and that no other instance
    /// was given, in earlier runs included: 64 random bits.
    fn instance(&self, worker: usize, now_ns: u64, seed: u64) -> Box<dyn Instance>;

    /// Sets what can be set while instances run: they see it with their next burst. With an error,
    /// nothing was set.
    ///
    /// # Errors
    /// Of most elements, for every key: nothing of them can be.
    fn set(&self, settings: &[(String, String)]) -> Result<(), Error> {
        let (kind, allowed) = (self.name(), "nothing of it can");
        let running = |key: &String| Error::Running { kind, key: key.clone(), allowed };
        settings.first().map_or(Ok(()), |(key, _)| Err(running(key)))
    }

    /// Itself, for who knows its kind and wants more of it than elements have.
    fn itself(&self) -> Option<&dyn std::any::Any> {
        None
    }

    /// Settings whose values may have changed since it was made, with those that they have now.
    fn current(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}
