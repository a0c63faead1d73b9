//! The interface of a service (SoftFlow §3, §5), and how a pipeline calls it.
//!
//! A [`Group`] is a service as a whole, its settings and what its elements share; an [`Element`] is one of
//! its actions, by the name that flows write (`softflow(NAME,ARG)`). A worker makes its own
//! [`Instance`] of an element for each configuration that the tables name: thousands are cheap, since
//! an instance is what a constructor returns and no more. An instance is one worker's, so it needs no
//! locks; what a group shares among workers is behind its own means.
//!
//! # What a packet carries
//!
//! [`Metadata`], SoftFlow's figure 3. It is all zero when a packet comes in. The pipeline sets `argument`
//! before a call; a service may write `register` and `coalesce`.
//!
//! # What a call means
//!
//! Literally ([`finish`]): the service consumes the packet; `stage` is one higher, `action` names the
//! element, and the packet enters table 0 anew. An executor may skip what it can show to come out the same: if
//! an element [promises](Element::writes) which parts of a packet it may write, and the packet's `coalesce` is
//! set, no lookup whose fields were not written needs to be repeated. A packet with `coalesce` cleared takes
//! the full way.
//!
//! The hook into the pipeline is an extern: the IR's op names an element and an argument; interpreter and
//! compiled code gather packets that reach it, and the worker calls the instance with the burst. It
//! is not there yet.

use crate::catalogue;
use crate::packet::Packet;

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

/// Services called on one packet at most: a table that sends packets to a service whatever their stage
/// would never let them go.
pub const STAGES_MAX: u8 = 32;

/// What a service says of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fate {
    /// The tables go on with it.
    #[default]
    Continue,
    /// It is dropped, and counted by the service.
    Drop,
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
}

impl<'a> Passing<'a> {
    /// A packet that comes in.
    pub fn new(packet: Packet<'a>) -> Passing<'a> {
        Passing { packet, metadata: Metadata::default(), fate: Fate::Continue }
    }
}

/// One worker's state of an element.
pub trait Instance: Send {
    /// Takes a burst at time `now_ns`. Packets whose fate is not [`Fate::Continue`] are not to be
    /// changed; metadata's `stage` and `action` are the caller's.
    fn ingress(&mut self, now_ns: u64, burst: &mut [Passing<'_>]);

    /// Names, in stable words, and numbers.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}

/// An action of a service.
pub trait Element: Send + Sync {
    /// The name that flows write.
    fn name(&self) -> &'static str;

    /// What it may write.
    fn writes(&self) -> Writes;

    /// State for a worker. `seed` is a number that nobody outside can guess and that no other instance
    /// was given, in earlier runs included: 64 random bits.
    fn instance(&self, worker: usize, now_ns: u64, seed: u64) -> Box<dyn Instance>;

    /// Sets what can be set while instances run: they see it with their next burst. With an error,
    /// nothing was set.
    ///
    /// # Errors
    /// Of most elements, for every key: nothing of them can be.
    fn set(&self, settings: &[(String, String)]) -> Result<(), catalogue::Error> {
        let (kind, allowed) = (self.name(), "nothing of it can");
        let running = |key: &String| catalogue::Error::Running { kind, key: key.clone(), allowed };
        settings.first().map_or(Ok(()), |(key, _)| Err(running(key)))
    }
}

/// A service: elements that share what they were made with.
pub trait Group: Send + Sync {
    /// Its elements.
    fn elements(&self) -> Vec<Box<dyn Element>>;
}

/// What is true of each packet after a call of the element numbered `action`: its stage is one higher.
/// One that has been through too many is dropped; the number of those is returned.
pub fn finish(action: u32, burst: &mut [Passing<'_>]) -> u64 {
    let mut looping = 0;
    for passing in burst {
        passing.metadata.action = action;
        if passing.metadata.stage >= STAGES_MAX && passing.fate == Fate::Continue {
            passing.fate = Fate::Drop;
            looping += 1;
        } else {
            passing.metadata.stage = passing.metadata.stage.saturating_add(1);
        }
    }
    looping
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_rise_and_end() {
        let mut frame = testkit::packet::Udp::default().frame();
        let mut burst = [Passing::new(Packet::of(&mut frame))];
        for stage in 1..=STAGES_MAX {
            assert_eq!(finish(7, &mut burst), 0);
            assert_eq!((burst[0].metadata.stage, burst[0].metadata.action), (stage, 7));
        }
        assert_eq!(finish(7, &mut burst), 1);
        assert_eq!((burst[0].fate, burst[0].metadata.stage), (Fate::Drop, STAGES_MAX));
        assert_eq!(finish(7, &mut burst), 0, "counted once");
    }
}
