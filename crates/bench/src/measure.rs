//! Timed runs: an engine's lanes, a hand-written loop.
//!
//! Both do the same around what is measured: frames are copied from the trace to the burst's buffers
//! (pipelines edit in place) after the burst before has asked for them, as a port would have put them
//! into a near cache; verdicts and ports are tallied. The time that entries are told is
//! carried forward from burst to burst; the clock is read every [`ROUND`] bursts.
//!
//! A run lasts so long by the wall's clock; what a frame costs is taken from the thread's processor
//! time, so that a machine that is shared tells what the work costs and not who else was there.

use super::frame::LINE;
use super::lane::{BURST, Lane, Seen};
use super::limit::{self, DROP, Limit};
use super::trace::Trace;
use datapath::tally::Ran;
use interp::{Packet, Punt, Sink};
use ir::{Bits, DigestId, Verdict};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Bursts between looks at the clock.
const ROUND: usize = 64;
/// Ports below this are tallied in an array.
const PORTS: usize = 1 << 16;

/// What became of frames.
pub(crate) struct Tally {
    /// Sent to at least one port.
    pub(crate) forward: u64,
    /// Went nowhere.
    pub(crate) drop: u64,
    /// Went to the control side alone.
    pub(crate) punt: u64,
    /// Frames that compiled code left to the interpreter.
    pub(crate) left: u64,
    /// Frames that the code for bursts left to the code for one packet.
    pub(crate) whole: u64,
    ports: Box<[u64]>,
    others: BTreeMap<u32, u64>,
}

impl Tally {
    /// Nothing yet.
    pub(crate) fn new() -> Tally {
        Tally {
            forward: 0,
            drop: 0,
            punt: 0,
            left: 0,
            whole: 0,
            ports: vec![0; PORTS].into(),
            others: BTreeMap::new(),
        }
    }

    #[inline]
    fn sent(&mut self, port: u32) {
        match self.ports.get_mut(port as usize) {
            Some(n) => *n += 1,
            None => *self.others.entry(port).or_default() += 1,
        }
    }

    /// A frame of which the control side was told something.
    #[cold]
    fn told(&mut self, i: usize, packet: &abi::Packet<'_>, code: &jit::Scratch) {
        code.copies(i, packet).for_each(|copy| self.sent(copy.output.port));
        std::hint::black_box(code.told(i, packet).count());
        match code.verdict(i, packet) {
            Some(Verdict::Forward) => self.forward += 1,
            Some(Verdict::Punt(_)) => self.punt += 1,
            _ => self.drop += 1,
        }
    }

    /// Copies by port.
    pub(crate) fn ports(&self) -> BTreeMap<u32, u64> {
        let mut all = self.others.clone();
        all.extend((0..).zip(self.ports.iter().copied()).filter(|(_, n)| *n > 0));
        all
    }

    /// Adds another lane's.
    pub(crate) fn add(&mut self, other: &Tally) {
        self.forward += other.forward;
        self.drop += other.drop;
        self.punt += other.punt;
        self.left += other.left;
        self.whole += other.whole;
        self.ports.iter_mut().zip(&other.ports).for_each(|(a, b)| *a += b);
        for (port, n) in &other.others {
            *self.others.entry(*port).or_default() += n;
        }
    }
}

impl Sink for Tally {
    fn output(&mut self, port: u32, _queue: u32, packet: Packet<'_>) {
        std::hint::black_box(packet);
        self.sent(port);
    }

    fn punt(&mut self, punt: Punt<'_>) {
        std::hint::black_box(punt);
    }

    fn digest(&mut self, _digest: DigestId, _args: &[Bits]) {}
}

impl Seen for Tally {
    fn compiled(&mut self, i: usize, packet: &abi::Packet<'_>, code: &jit::Scratch) {
        match packet.status {
            abi::status::COPIES => {
                code.copies(i, packet).for_each(|copy| self.sent(copy.output.port));
                self.forward += 1;
            }
            abi::status::TOLD => self.told(i, packet, code),
            _ => {
                self.burst(std::slice::from_ref(packet), code);
            }
        }
    }

    // All at once, so that what is counted stays in registers.
    #[inline]
    fn burst(&mut self, packets: &[abi::Packet<'_>], code: &jit::Scratch) -> bool {
        let (mut sent, mut left, mut told) = (0u64, 0u64, 0u64);
        for (i, packet) in packets.iter().enumerate() {
            if let Some(port) = packet.single() {
                self.sent(port);
                sent += 1;
                continue;
            }
            match packet.outputs() {
                _ if packet.status == abi::status::COPIES => {
                    code.copies(i, packet).for_each(|copy| self.sent(copy.output.port));
                    sent += 1;
                }
                _ if packet.status == abi::status::TOLD => {
                    self.told(i, packet, code);
                    told += 1;
                }
                [] => left += u64::from(packet.status == abi::status::BAIL),
                several => {
                    several.iter().for_each(|o| self.sent(o.port));
                    sent += 1;
                }
            }
        }
        self.forward += sent;
        self.drop += packets.len() as u64 - sent - left - told;
        left > 0
    }

    fn interpreted(&mut self, _: usize, run: &mut dyn FnMut(&mut dyn Sink) -> (Verdict, Ran)) {
        let (verdict, ran) = run(self);
        match ran {
            Ran::Whole => self.whole += 1,
            Ran::Code | Ran::Interpreter => self.left += 1,
        }
        match verdict {
            Verdict::Forward => self.forward += 1,
            Verdict::Drop(_) => self.drop += 1,
            Verdict::Punt(_) => self.punt += 1,
        }
    }
}

/// A timed run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Frames.
    pub(crate) packets: u64,
    /// Seconds of processor time.
    pub(crate) seconds: f64,
}

/// This thread's processor time.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

impl Sample {
    /// Nanoseconds a frame.
    pub(crate) fn ns(&self) -> f64 {
        self.seconds * 1e9 / self.packets.max(1) as f64
    }
}

/// The median of some figures; 0 of none.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// Runs bursts for so long. `at` is where in the trace it begins, and where it has come to.
pub(crate) fn bursts(
    trace: &Trace,
    at: &mut usize,
    time: Duration,
    mut burst: impl FnMut(usize, u64),
) -> Sample {
    let (started, used) = (Instant::now(), processor_time());
    let mut packets = 0u64;
    let mut now_ns = 1u64;
    loop {
        for _ in 0..ROUND {
            let mut next = *at + BURST;
            if next >= trace.len() {
                next %= trace.len();
            }
            trace.announce(next, BURST);
            burst(*at, now_ns);
            *at = next;
            now_ns += 1;
        }
        packets += (ROUND * BURST) as u64;
        let elapsed = started.elapsed();
        if elapsed >= time {
            let used = processor_time().saturating_sub(used);
            return Sample { packets, seconds: used.as_secs_f64() };
        }
        now_ns = now_ns.max(elapsed.as_nanos() as u64);
    }
}

/// Runs an engine's lane for so long.
pub(crate) fn lane(
    lane: &mut Lane,
    trace: &Trace,
    at: &mut usize,
    time: Duration,
    tally: &mut Tally,
) -> Sample {
    bursts(trace, at, time, |first, now_ns| lane.burst(trace, first, now_ns, tally))
}

/// Copies a burst's frames to the buffers of a hand-written loop.
#[inline]
pub(crate) fn fill(burst: &mut limit::Burst, trace: &Trace, first: usize) {
    let mut at = first;
    burst.n = limit::BURST;
    for i in 0..limit::BURST {
        let (in_port, len, line) = trace.head(at);
        burst.rooms[i].0[limit::FRONT..limit::FRONT + LINE].copy_from_slice(line);
        burst.len[i] = len as u32;
        burst.in_port[i] = in_port;
        at = if at + 1 == trace.len() { 0 } else { at + 1 };
    }
}

/// Runs a hand-written loop for so long.
pub(crate) fn limit(
    limit: &mut dyn Limit,
    counted: bool,
    trace: &Trace,
    at: &mut usize,
    time: Duration,
    tally: &mut Tally,
) -> Sample {
    let mut burst = limit::Burst::new();
    bursts(trace, at, time, |first, now_ns| {
        fill(&mut burst, trace, first);
        limit.run(&mut burst, counted, now_ns);
        for port in burst.out_port {
            // A drop is tallied with port 0, which no frame is sent to.
            tally.sent(port);
            tally.forward += u64::from(port != DROP);
        }
    })
}

/// What it costs to copy frames to a burst's buffers, and nothing else.
pub(crate) fn copy(trace: &Trace, at: &mut usize, time: Duration) -> Sample {
    let mut burst = limit::Burst::new();
    bursts(trace, at, time, |first, _| {
        fill(&mut burst, trace, first);
        std::hint::black_box(&mut burst);
    })
}

const _: () = assert!(BURST == limit::BURST);

/// The processor's name.
pub(crate) fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![]), 0.0);
    }
}
