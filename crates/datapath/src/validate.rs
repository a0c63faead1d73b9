//! Translation validation: a sample of what compiled code did, done again by the interpreter.
//!
//! A worker copies one packet in so many before its burst runs, and hands it with what the code made
//! of it, and with the snapshot, to whoever [`check`]s it on a control core. Packets that the code
//! left to the interpreter are no samples. The ring is short, and a worker never waits: what does not
//! fit is not checked. A sample in the ring keeps its snapshot in use, so the control side's next
//! publication but one waits for its check, microseconds.
//!
//! What code finishes depends on nothing but packet, tables and what services and state have answered, which the sample has with
//! it, so the same snapshot must do the same. Packets that a service might have changed are no samples.

use crate::engine::{Forward, Scratch};
use crate::externs::Resumed;
use crossbeam_channel::{Receiver, Sender};
use interp::{Input, NullExterns, Start, sink::Collect};
use ir::Verdict;
use jit::Said;
use std::fmt::Write as _;
use std::sync::Arc;

/// Samples that wait, at most.
const WAITING_MAX: usize = 16;

/// What compiled code made of a packet.
pub struct Sample {
    forward: Arc<dyn Forward>,
    in_port: u32,
    now_ns: u64,
    before: Vec<u8>,
    verdict: Verdict,
    copies: Vec<FullCopy>,
    answers: Said,
}

/// A copy in full: port, queue, bytes.
pub type FullCopy = (u32, u32, Vec<u8>);

/// A worker's end: which packets to take, and where to put them.
#[derive(Clone)]
pub struct Sampler {
    every: u32,
    /// Packets until the next one is taken.
    left: u32,
    sender: Sender<Sample>,
}

/// A packet that was picked before its burst ran.
pub struct Picked {
    /// Its place in the burst.
    pub at: usize,
    before: Vec<u8>,
}

/// A ring for samples of one packet in `every`.
pub fn ring(every: u32) -> (Sampler, Receiver<Sample>) {
    let (sender, receiver) = crossbeam_channel::bounded(WAITING_MAX);
    (Sampler { every: every.max(1), left: 0, sender }, receiver)
}

impl Sampler {
    /// Whether one of the next `n` packets is to be taken, and which.
    pub fn pick<'a>(&mut self, n: usize, bytes: impl Fn(usize) -> &'a [u8]) -> Option<Picked> {
        if self.passes(n) {
            return None;
        }
        let at = self.left as usize;
        // The next one is so many packets behind this one; one a burst at most.
        self.left = self.every.saturating_sub((n - at) as u32);
        (!self.sender.is_full()).then(|| Picked { at, before: bytes(at).to_vec() })
    }

    /// Whether [`pick`](Self::pick) takes one of the next `n` packets; if not, they are counted.
    #[inline]
    pub fn passes(&mut self, n: usize) -> bool {
        let passes = self.left as usize >= n;
        if passes {
            self.left -= n as u32;
        }
        passes
    }

    /// Hands a packet over that compiled code has finished.
    pub fn take(
        &self,
        picked: Picked,
        forward: &Arc<dyn Forward>,
        in_port: u32,
        now_ns: u64,
        done: Done,
    ) {
        // If it does not fit now, it is not checked.
        let _ = self.sender.try_send(Sample {
            forward: forward.clone(),
            in_port,
            now_ns,
            before: picked.before,
            verdict: done.verdict,
            copies: done.copies,
            answers: done.answers,
        });
    }
}

/// The copies that code has sent of a packet, in full. It lies in this buffer, and came in so far behind the buffer's start and so
/// long.
pub fn full_copies<'c>(
    outcome: &abi::Outcome,
    copies: impl Iterator<Item = jit::Copy<'c>>,
    (buffer, start, len): (&[u8], usize, usize),
) -> Vec<FullCopy> {
    let end = start + len;
    let left = start.saturating_add_signed(outcome.shift as isize);
    let bytes = |copy: &jit::Copy<'_>| match copy.headers {
        None => buffer[left..end].to_vec(),
        Some(headers) => headers.to_vec(&buffer[start..end]),
    };
    copies.map(|copy| (copy.output.port, copy.output.queue, bytes(&copy))).collect()
}

/// What compiled code made of a packet.
pub struct Done {
    /// What has become of it.
    pub verdict: Verdict,
    /// The copies that it has sent.
    pub copies: Vec<FullCopy>,
    /// What services and state have answered.
    pub answers: Said,
}

/// Runs a sample through the interpreter. If that does something else, says what, with the packet and
/// the version.
pub fn check(sample: &Sample, scratch: &mut Scratch) -> Result<(), String> {
    let input = Input {
        bytes: &sample.before,
        in_port: sample.in_port,
        now_ns: sample.now_ns,
        start: Start::Pipeline,
    };
    let mut sink = Collect::default();
    let mut externs = NullExterns;
    let mut externs = Resumed::new(&mut externs, 0, &sample.answers);
    let verdict = sample.forward.run(scratch, input, &mut externs, &mut sink);
    let wanted: Vec<FullCopy> =
        sink.outputs.into_iter().map(|o| (o.port, o.queue, o.bytes)).collect();
    if verdict == sample.verdict && wanted == sample.copies {
        return Ok(());
    }
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, b| {
            // Writing to a string does not fail.
            let _ = write!(text, "{b:02x}");
            text
        })
    };
    let list = |copies: &[FullCopy]| {
        let one = |(port, queue, bytes): &FullCopy| match queue {
            0 => format!("{port}: {}", hex(bytes)),
            _ => format!("{port} queue {queue}: {}", hex(bytes)),
        };
        copies.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    Err(format!(
        "version {}: packet {} from port {}: code says {} to [{}], the interpreter {} to [{}]",
        sample.forward.version(),
        hex(&sample.before),
        sample.in_port,
        sample.verdict,
        list(&sample.copies),
        verdict,
        list(&wanted)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_in_so_many_is_taken() {
        let (mut sampler, _receiver) = ring(100);
        let (mut seen, mut taken) = (0, Vec::new());
        for n in (0..1000).map(|i| 1 + i % 32) {
            if let Some(picked) = sampler.pick(n, |_| &[]) {
                assert!(picked.at < n);
                taken.push(seen + picked.at);
            }
            seen += n;
        }
        assert_eq!(taken[0], 0);
        assert!(taken.windows(2).all(|w| w[1] - w[0] == 100), "{taken:?}");
    }
}
