//! Outcomes, and whether they are right: the interpreter judges, before anything is timed.
//!
//! A sample of the trace is run by the engine, burst by burst, and by the interpreter, frame by frame
//! with tables of its own; every verdict, port, queue and byte must be the same, and in the end every
//! entry's counts. A use case's hand-written loop is judged likewise, but for queues, reasons and
//! counts, which it has not.

use super::contents::Contents;
use super::lane::{BURST, Bed, Kind, Lane, Seen};
use super::limit::{self, Limit};
use super::trace::Trace;
use control::failure::Failure;
use datapath::tally::Ran;
use interp::Sink;
use interp::sink::Collect;
use ir::{DropReason, Verdict};
use std::fmt::Write as _;

/// Frames of a sample.
const SAMPLE: usize = 16_384;
/// Mismatches that are told in full.
const TOLD: usize = 3;

/// A frame's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    verdict: Verdict,
    /// Port, queue, bytes.
    outputs: Vec<(u32, u32, Vec<u8>)>,
    /// Bytes.
    punts: Vec<Vec<u8>>,
}

impl Outcome {
    fn of(verdict: Verdict, collected: Collect) -> Outcome {
        Outcome {
            verdict,
            outputs: collected.outputs.into_iter().map(|o| (o.port, o.queue, o.bytes)).collect(),
            punts: collected.punts.into_iter().map(|p| p.bytes).collect(),
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.verdict)?;
        for (port, queue, bytes) in &self.outputs {
            write!(f, " port {port} queue {queue} {}", hex(bytes))?;
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        // Writing to a string does not fail.
        let _ = write!(text, "{b:02x}");
        text
    })
}

/// What a check came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checked {
    /// Frames.
    pub(crate) frames: usize,
    /// Frames and counters that were not as the interpreter has them.
    pub(crate) mismatches: usize,
    /// Frames that compiled code left to the interpreter.
    pub(crate) left: usize,
}

/// Of a copy that differs from the frame as code has left it: its headers, where the rest begins in the
/// frame as it came in, and how long it is at most.
type Headers = Option<(Vec<u8>, usize, usize)>;

/// What code has made of a frame.
struct Made {
    shift: i32,
    /// As it came in.
    len: usize,
    verdict: Option<Verdict>,
    copies: Vec<(abi::Output, Headers)>,
    punts: Vec<Headers>,
}

/// Collects a burst's outcomes.
#[derive(Default)]
struct Collector {
    compiled: Vec<(usize, Made)>,
    interpreted: Vec<(usize, Outcome)>,
}

impl Seen for Collector {
    fn compiled(&mut self, i: usize, packet: &abi::Packet<'_>, code: &jit::Scratch) {
        let headers = |h: jit::Headers<'_>| match h.received {
            None => (h.bytes.to_vec(), h.payload, h.cut),
            Some(received) => (h.to_vec(received), usize::MAX, h.cut),
        };
        let copied = |copy: jit::Copy<'_>| (copy.output, copy.headers.map(headers));
        let punt = |told: jit::Told<'_>| match told.what {
            jit::What::Punt { headers: of, .. } => Some(of.map(headers)),
            jit::What::Digest(_) => None,
        };
        let made = Made {
            shift: packet.shift,
            len: packet.len() as usize,
            verdict: code.verdict(i, packet),
            copies: code.copies(i, packet).map(copied).collect(),
            punts: code.told(i, packet).filter_map(punt).collect(),
        };
        self.compiled.push((i, made));
    }

    fn interpreted(&mut self, i: usize, run: &mut dyn FnMut(&mut dyn Sink) -> (Verdict, Ran)) {
        let mut collect = Collect::default();
        let (verdict, _) = run(&mut collect);
        self.interpreted.push((i, Outcome::of(verdict, collect)));
    }
}

impl Collector {
    fn outcomes(self, lane: &Lane) -> Vec<Option<Outcome>> {
        let mut outcomes = vec![None; BURST];
        for (i, Made { shift, len, verdict, copies, punts }) in self.compiled {
            let bytes = |headers: Headers| match headers {
                None => lane.bytes(i, shift, len).to_vec(),
                Some((mut bytes, payload, cut)) => {
                    bytes.extend_from_slice(lane.bytes(i, 0, len).get(payload..).unwrap_or(&[]));
                    bytes.truncate(cut);
                    bytes
                }
            };
            let outputs = copies.into_iter().map(|(o, headers)| (o.port, o.queue, bytes(headers)));
            let (outputs, punts) = (outputs.collect(), punts.into_iter().map(bytes).collect());
            outcomes[i] = verdict.map(|verdict| Outcome { verdict, outputs, punts });
        }
        for (i, outcome) in self.interpreted {
            outcomes[i] = Some(outcome);
        }
        outcomes
    }
}

/// First frames of the sample's bursts, spread over the trace.
fn bursts(trace: &Trace) -> impl Iterator<Item = usize> {
    let n = trace.len().min(SAMPLE).div_ceil(BURST);
    let step = (trace.len() / n).max(1);
    (0..n).map(move |i| i * step)
}

/// The judge.
pub(crate) struct Oracle {
    bed: Bed,
    lane: Lane,
}

impl Oracle {
    /// For these contents.
    pub(crate) fn new(contents: &Contents, ports: u32, len_max: usize) -> Result<Oracle, Failure> {
        let bed = Bed::new(Kind::Interp, contents, ports, 1)?;
        let lane = bed.lane(0, len_max);
        Ok(Oracle { bed, lane })
    }

    /// Tables that frames were looked up in so far, each time counted.
    pub(crate) fn lookups(&self) -> u64 {
        let snapshot = self.bed.publisher.snapshot();
        let tables = self.bed.pipeline.program().tables.len() as u32;
        (0..tables).map(|table| snapshot.state().table(ir::TableId(table)).0).sum()
    }

    fn burst(&mut self, trace: &Trace, first: usize) -> Vec<Option<Outcome>> {
        let mut collector = Collector::default();
        self.lane.burst(trace, first, 1, &mut collector);
        collector.outcomes(&self.lane)
    }

    /// Judges an engine. Its counters must be at zero, as the oracle's.
    pub(crate) fn engine(&mut self, bed: &Bed, trace: &Trace) -> Checked {
        let mut lane = bed.lane(0, trace.len_max());
        let mut checked = Checked::default();
        for first in bursts(trace) {
            let mut collector = Collector::default();
            lane.burst(trace, first, 1, &mut collector);
            checked.left += collector.interpreted.len();
            let outcomes = collector.outcomes(&lane);
            for (i, (right, outcome)) in self.burst(trace, first).iter().zip(&outcomes).enumerate()
            {
                checked.frames += 1;
                if right != outcome {
                    let n = (first + i) % trace.len();
                    checked.tell("the engine", trace, n, right.as_ref(), outcome.as_ref());
                }
            }
        }
        // Before the readers, which hold the arenas' locks.
        let ids = bed.arena_len(&self.bed);
        let (ours, theirs) = (bed.arena.reader(), self.bed.arena.reader());
        for id in 0..ids {
            let (value, right) = (ours.read(id), theirs.read(id));
            if value != right {
                checked.mismatches += 1;
                if checked.mismatches <= TOLD {
                    eprintln!("millrace: entry {id} counted {value:?} and not {right:?}");
                }
            }
        }
        checked
    }

    /// Judges a hand-written loop.
    pub(crate) fn limit(&mut self, limit: &mut dyn Limit, trace: &Trace) -> Checked {
        let mut burst = limit::Burst::new();
        let mut checked = Checked::default();
        for first in bursts(trace) {
            super::measure::fill(&mut burst, trace, first);
            limit.run(&mut burst, true, 1);
            for (i, right) in self.burst(trace, first).iter().enumerate() {
                checked.frames += 1;
                let outcome = match burst.outcome(i) {
                    Some((port, bytes)) => Outcome {
                        verdict: Verdict::Forward,
                        outputs: vec![(port, 0, bytes.to_vec())],
                        punts: Vec::new(),
                    },
                    None => Outcome {
                        verdict: Verdict::Drop(DropReason::Action),
                        outputs: Vec::new(),
                        punts: Vec::new(),
                    },
                };
                let same = right.as_ref().is_some_and(|right| {
                    let dropped = !matches!(right.verdict, Verdict::Forward);
                    right.outputs == outcome.outputs
                        && dropped == matches!(outcome.verdict, Verdict::Drop(_))
                });
                if !same {
                    let n = (first + i) % trace.len();
                    checked.tell("the limit", trace, n, right.as_ref(), Some(&outcome));
                }
            }
        }
        checked
    }
}

impl Checked {
    fn tell(
        &mut self,
        who: &str,
        trace: &Trace,
        n: usize,
        right: Option<&Outcome>,
        outcome: Option<&Outcome>,
    ) {
        self.mismatches += 1;
        if self.mismatches <= TOLD {
            let (port, bytes) = trace.frame(n);
            let text = |o: Option<&Outcome>| o.map_or("nothing".to_string(), ToString::to_string);
            eprintln!(
                "millrace: frame {n} in by port {port}: {}\n  {who}: {}\n  interp: {}",
                hex(&bytes),
                text(outcome),
                text(right)
            );
        }
    }
}

impl Bed {
    /// Counters that either has.
    fn arena_len(&self, other: &Bed) -> u32 {
        self.arena.len().max(other.arena.len()) as u32
    }
}
