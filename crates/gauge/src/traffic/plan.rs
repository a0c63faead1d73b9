//! What is to be sent, and what to be captured.

use crate::arrivals::Arrivals;
use crate::expect::Makes;
use crate::filter::Filter;
use crate::interrupt::Interrupt;
use crate::probe;
use crate::record::Recording;
use port::prng::Prng;
use std::sync::Arc;
use std::time::Duration;

/// The longest that is waited for what is still on its way, unless a plan says otherwise.
pub const DRAIN_MAX: Duration = Duration::from_secs(60);

/// Which flow a probe belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turns {
    /// One after the other, and again.
    #[default]
    Regular,
    /// Any, by the seed.
    Random,
}

/// Frames to be sent in place of probes of our own form, each with a probe written over its end.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    /// The frames, one for each flow; none is empty.
    pub frames: Vec<Vec<u8>>,
    /// When each is due after the start, in nanoseconds, rising; without them the plan's arrivals count.
    pub offsets: Option<Vec<u64>>,
}

/// What to send and to expect.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Marks the probes of this run.
    pub stream: u16,
    /// How many, at most.
    pub probes: u32,
    /// They belong to so many flows in turn, at least one.
    pub flows: u32,
    /// The flow of the first, of those; regular turns begin there.
    pub first_flow: u32,
    /// Length of a frame, without the frame check sequence.
    pub len: usize,
    /// Probes a second.
    pub rate_pps: f64,
    /// How they follow each other.
    pub arrivals: Arrivals,
    /// For [`Arrivals::Poisson`].
    pub seed: u64,
    /// Whether we send them; if not, others do, and we look for them until stopped.
    pub transmit: bool,
    /// Which flow each belongs to.
    pub turns: Turns,
    /// What to send, if not probes of our own form.
    pub frames: Option<Arc<Frames>>,
    /// What comes back at the sending port has come out, too; else that is a fault.
    pub both: bool,
    /// What the rule makes of the frames.
    pub makes: Makes,
    /// Latencies that have grown by more than this, and stay so, end the sending: there is a queue, which need not be
    /// filled.
    pub queue_max: Option<Duration>,
    /// The longest that is waited in all at the end, however much still comes.
    pub drain_max: Duration,
    /// Ends it, from outside.
    pub interrupt: Interrupt,
    /// Only frames that it passes are captured.
    pub filter: Option<Arc<Filter>>,
    /// Where captured frames are written, too.
    pub record: Option<Recording>,
    /// How long nothing must come at the end before what is missing counts as lost. If the last
    /// probe is back, the run ends sooner.
    pub drain: Duration,
}

impl Plan {
    /// The flow of a probe.
    #[inline]
    pub fn flow(&self, seq: u32) -> u32 {
        let flows = self.flows_in_all();
        match self.turns {
            _ if flows == 1 => 0,
            Turns::Regular => {
                ((u64::from(self.first_flow) + u64::from(seq)) % u64::from(flows)) as u32
            }
            Turns::Random => Prng::new(self.seed ^ u64::from(seq) << 20).below(flows.into()) as u32,
        }
    }

    /// How many flows there are.
    pub fn flows_in_all(&self) -> u32 {
        match &self.frames {
            Some(frames) => frames.frames.len() as u32,
            None => self.flows.clamp(1, probe::FLOWS_MAX),
        }
    }
}
