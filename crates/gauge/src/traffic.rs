//! Data ports, and one loop that sends probes on schedule and captures what comes back.
//!
//! [`drive`] runs in a thread of its own while the measuring thread talks to the switch. Each probe
//! has a time at which it is due; it is sent then, or as soon after as the loop gets to it, and never
//! left out. Latency counts from when a probe was *due*, so a sender that falls behind shows in the
//! figures rather than hiding a stall; how far it fell behind is kept, and a run in which too many
//! probes missed their slot is not believed ([`Capture::late`]).
//!
//! Sent times are taken before a probe is handed to its port, received times after a burst was
//! taken from its port: what happened in between, the switch's part included, is never told too
//! short. A port that can has its device or its kernel stamp what arrives: then the received time is when the frame
//! came to the device, or was taken from it, and how late this process was scheduled is not in the figures. Which it was
//! is told by [`DataPort::stamps`].
//!
//! Latency from due to captured has our own sending in it. Where the kernel says when a frame came, it also says when a frame
//! left, at rates at which that costs nothing ([`STAMPED_MAX_PPS`]): what lies between the two is what the wire took, free of
//! when this process ran ([`Capture::wires`]). It tells nothing of probes that were held up before they left, so it stands
//! beside the latency and not in its place.
//!
//! What comes out is compared with what the rule makes of what was sent ([`Plan::makes`]), byte by byte, and the port that
//! sends is looked at, too: what is not right, and what is not ours, is kept in [`Odd`].
//!
//! Cost: one look at the clock for each burst in either direction, and no allocation for a frame: a probe of the
//! same flow as the one before it is made by writing its number and time into that one's frame.

use crate::arrivals::{Arrivals, Offsets};
use crate::clock;
use crate::error::Error;
use crate::expect::{self, Makes};
use crate::filter::Filter;
use crate::probe::{self, Probe, Reading};
use crate::record::Recording;
use port::prng::Prng;
use port::{
    BURST_MAX, Burst, Frame, Pool, Port, RxError, RxQueue, StampedBy, TxQueue, wait_readable,
};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// A probe that leaves so much after it was due has missed its slot, in nanoseconds.
pub const SLOT_NS: u64 = 1_000_000;
/// How long to look for others after the last probe has come back, in nanoseconds.
const GRACE_NS: u64 = 50_000_000;
/// Probes that are sent before the loop looks for what came; a port that sends many at once at little cost has as
/// many as are due, up to this.
const SENT_MAX: usize = 4 * BURST_MAX;
/// Up to so many probes a second the kernel is asked when each left.
pub const STAMPED_MAX_PPS: f64 = 25_000.0;
/// The loop sleeps only if nothing is due for so long; shorter waits are spent looking.
const SPIN_NS: u64 = 300_000;
/// How often the port that sends is looked at for what came back, and the links for whether they are there.
const ASIDE_NS: u64 = 1_000_000;
/// Likewise, for links.
const LINK_NS: u64 = 100_000_000;
/// Latencies that stay above [`Plan::queue_max`] for so long are those of a queue, and no stall of ours.
const QUEUED_NS: u64 = 100_000_000;

/// Frames that an interface has received and sent in all, ours and others', where somebody counts them.
type Counted = Box<dyn FnMut() -> Option<[u64; 2]> + Send>;

/// The longest that is waited for what is still on its way, unless a plan says otherwise.
pub const DRAIN_MAX: Duration = Duration::from_secs(60);

/// A port of ours, wired to one of the switch's.
pub struct DataPort {
    /// Its name.
    pub name: String,
    /// The number of the switch's port at the other end.
    pub number: u32,
    /// What kind of port it is.
    pub kind: &'static str,
    /// Who says when a frame arrived.
    pub stamps: StampedBy,
    port: Box<dyn Port>,
    /// All its receive queues: which of them a frame comes by is for the interface to say.
    rx: Vec<Box<dyn RxQueue>>,
    tx: Box<dyn TxQueue>,
    lost: u64,
    counted: Option<Counted>,
}

/// Frames that an interface of this thread's network namespace has received and sent (proc_pid_net(5)).
fn passed_by_interface(name: &str) -> Option<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").ok()?;
    let of = |line: &str| line.trim().strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
    let line = text.lines().find_map(of)?;
    let number = |at: usize| line.split_whitespace().nth(at)?.parse().ok();
    Some([number(1)?, number(9)?])
}

impl DataPort {
    /// Opens the queues of a port that is wired to the switch's port `number`.
    pub fn new(name: &str, number: u32, mut port: Box<dyn Port>) -> Result<DataPort, Error> {
        let failed = |source| Error::Port { name: name.to_string(), source };
        let stamps = port.stamp_arrivals();
        let queues = 0..port.info().rx_queues;
        let rx = queues.map(|queue| port.rx_queue(queue)).collect::<Result<_, _>>();
        let rx = rx.map_err(failed)?;
        let tx = port.tx_queue().map_err(failed)?;
        let kind = port.info().kind;
        let name = name.to_string();
        let counted: Option<Counted> = match kind {
            "af_packet" => {
                let interface = port.info().name.clone();
                Some(Box::new(move || passed_by_interface(&interface)))
            }
            _ => None,
        };
        let mut port = DataPort { name, number, kind, stamps, port, rx, tx, lost: 0, counted };
        port.lost = port.lost_in_all();
        Ok(port)
    }

    /// Has another say how many frames its interface has received and sent in all.
    pub fn counted_by(
        mut self,
        counted: impl FnMut() -> Option<[u64; 2]> + Send + 'static,
    ) -> DataPort {
        self.counted = Some(Box::new(counted));
        self
    }

    /// Frames that its interface has received and sent in all, where that is known.
    pub fn passed_in_all(&mut self) -> Option<[u64; 2]> {
        self.counted.as_mut()?()
    }

    /// Whether there is a link now.
    pub fn has_link(&mut self) -> bool {
        self.port.glance().unwrap_or_else(|| self.port.link().is_up())
    }

    /// The longest probe that fits, without the frame check sequence.
    pub fn len_max(&self) -> usize {
        (self.port.info().mtu as usize + 14).min(probe::LEN_MAX)
    }

    /// Takes the link away from the switch, or gives it back.
    pub fn set_link(&mut self, up: bool) -> Result<(), Error> {
        let failed = |source| Error::Port { name: self.name.clone(), source };
        self.port.set_admin(up).map_err(failed)
    }

    fn lost_in_all(&mut self) -> u64 {
        let queues: u64 = self.rx.iter().map(|queue| queue.drops().total()).sum();
        self.port.kernel_stats().rx_dropped + queues
    }

    /// Takes what its queues have ready, as much as the burst has room for.
    fn receive(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let mut got = 0;
        for queue in &mut self.rx {
            got += queue.rx(burst, pool)?;
        }
        Ok(got)
    }

    /// Rests until a frame may have come, for at most so long.
    fn rest(&self, most: Duration) {
        match &self.rx[..] {
            [only] => match only.fd() {
                Some(fd) => drop(wait_readable(fd, most)),
                None => std::thread::yield_now(),
            },
            // Only one can be slept on: the others are looked at soon.
            _ => std::thread::sleep(most.min(Duration::from_nanos(SPIN_NS))),
        }
    }

    /// How frames leave by it, where there is more than one way; looked at now.
    pub fn sending(&mut self) -> Option<String> {
        self.port.sending()
    }

    /// Frames that came to this port and were lost on our side since the last call.
    fn newly_lost(&mut self) -> u64 {
        let lost = self.lost_in_all();
        let before = std::mem::replace(&mut self.lost, lost);
        lost.saturating_sub(before)
    }
}

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

/// Says that all is to end as soon as it can; clones say the same.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// One that is raised by setting this.
    pub fn by(flag: Arc<AtomicBool>) -> Interrupt {
        Interrupt(flag)
    }

    /// All is to end.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether all is to end.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What is wrong with frames that came out, whatever the rules are, and what came that is not of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Odd {
    /// Frames that were compared, or are probes.
    pub looked_at: u64,
    /// Copies beyond the first.
    pub doubled: u64,
    /// Probes that came back at the port that sends.
    pub returned: u64,
    /// Frames of which one bit was flipped.
    pub corrupted: u64,
    /// Frames that differ otherwise from what they should be.
    pub changed: u64,
    /// Frames that came out as they went in, though the rule changes them.
    pub undone: u64,
    /// Frames that look like ours but whose mark cannot be read.
    pub unreadable: u64,
    /// The fields that differ, and in how many frames.
    pub fields: BTreeMap<&'static str, u64>,
    /// The bit that was flipped first, and whether it was always that one.
    pub bit: Option<(usize, bool)>,
    /// Probes of another process.
    pub others: u64,
    /// Probes of earlier runs of this process.
    pub earlier: u64,
    /// Frames that are no probes.
    pub foreign: u64,
    /// Bytes of these, and of others' and earlier probes.
    pub strange_bytes: u64,
    /// Frames that others have sent out of the sending port's interface.
    pub sent_by_others: u64,
    /// How often a link was found gone.
    pub link_gone: u64,
}

impl Odd {
    /// Adds what another run saw.
    pub fn add(&mut self, more: &Odd) {
        let Odd { looked_at, doubled, returned, corrupted, changed, undone, unreadable, .. } = more;
        self.looked_at += looked_at;
        self.doubled += doubled;
        self.returned += returned;
        self.corrupted += corrupted;
        self.changed += changed;
        self.undone += undone;
        self.unreadable += unreadable;
        more.fields.iter().for_each(|(name, n)| *self.fields.entry(name).or_default() += n);
        self.bit = match (self.bit, more.bit) {
            (Some((a, same)), Some((b, too))) => Some((a, same && too && a == b)),
            (a, b) => a.or(b),
        };
        self.others += more.others;
        self.earlier += more.earlier;
        self.foreign += more.foreign;
        self.strange_bytes += more.strange_bytes;
        self.sent_by_others += more.sent_by_others;
        self.link_gone += more.link_gone;
    }

    /// Frames that came out and are not of the run.
    pub fn strangers(&self) -> u64 {
        self.others + self.earlier + self.foreign
    }

    fn differs(&mut self, expected: &[u8], came: &[u8]) {
        match expect::flipped(expected, came) {
            Some(bit) => {
                self.corrupted += 1;
                self.bit = Some(self.bit.map_or((bit, true), |(b, same)| (b, same && b == bit)));
            }
            None => self.changed += 1,
        }
        for name in expect::differences(expected, came) {
            *self.fields.entry(name).or_default() += 1;
        }
    }
}

/// A probe that came back, or any frame where [`Live::with_frames`] asks for them.
#[derive(Clone, Debug)]
pub struct Came {
    /// Its number and when it was due, by [`clock`]; none if it is no probe of this run.
    pub probe: Option<(u32, u64)>,
    /// When it came.
    pub at: u64,
    /// Whether it came to the port that sends.
    pub returned: bool,
    /// Its bytes, if they were asked for.
    pub bytes: Box<[u8]>,
}

/// What another thread can see of a run, and do to it.
#[derive(Debug, Default)]
pub struct Live {
    stop: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
    returned: AtomicU64,
    flows_seen: AtomicU64,
    cut: AtomicBool,
    captures: Option<SyncSender<Came>>,
    /// Not only probes, each once, but all frames that are captured, with their bytes.
    frames: bool,
}

impl Live {
    /// One that tells of each probe that comes back, as long as somebody takes it.
    pub fn with_captures(captures: Option<SyncSender<Came>>) -> Live {
        Live { captures, ..Live::default() }
    }

    /// One that tells of every frame that is captured, with its bytes, likewise.
    pub fn with_frames(captures: SyncSender<Came>) -> Live {
        Live { captures: Some(captures), frames: true, ..Live::default() }
    }

    /// No more probes; the run ends when those on their way are there, or the drain time is over.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Probes sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Probes that came back.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    /// Those of them that came back at the port that sent them.
    pub fn returned(&self) -> u64 {
        self.returned.load(Ordering::Acquire)
    }

    /// Waits until something is so or the run ends, for at most so long; says whether it is so.
    pub fn wait(&self, most: Duration, so: impl Fn() -> bool) -> bool {
        crate::bench::wait(most, || so() || self.stop.load(Ordering::Acquire)) && so()
    }

    /// Takes the receiving port's link away from the switch, until the run ends.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Release);
    }

    /// Flows of which a probe came back.
    pub fn flows_seen(&self) -> u64 {
        self.flows_seen.load(Ordering::Acquire)
    }
}

/// What happened, probe by probe: the index is the sequence number. Times by [`clock`]; 0 is never.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// When each was due.
    pub due: Vec<u64>,
    /// When each was sent; of those that the port took.
    pub sent: Vec<u64>,
    /// When each first came back.
    pub received: Vec<u64>,
    /// When the kernel handed each to its device, and took it from one, by the wall clock; 0 where it did not say.
    pub on_wire: Vec<[u64; 2]>,
    /// Which of them came back at the port that sent them ([`Plan::both`]).
    pub returned: Vec<bool>,
    /// When the link was taken away; 0 if it was not.
    pub cut_at: u64,
    /// From the first probe's being sent to the last one's, in nanoseconds.
    pub sending_ns: u64,
    /// Probes or frames that nobody took in time from [`Live::with_captures`] or [`Live::with_frames`].
    pub untold: u64,
    /// Frames that the filter kept out.
    pub filtered: u64,
    /// When the first and the last probe came back; 0 if none did.
    pub came_first: u64,
    /// Likewise.
    pub came_last: u64,
    /// What is wrong with what came, and what is not ours.
    pub odd: Odd,
    /// Whether the sending ended early, as latencies said that there is a queue.
    pub queued: bool,
    /// Probes that came after a later one of the same flow.
    pub reordered: u64,
    /// Probes that our port refused to send.
    pub refused: u64,
    /// Frames that were lost on our side of the wire.
    pub missed: u64,
    /// Probes that left more than [`SLOT_NS`] after they were due.
    pub late: u64,
}

impl Capture {
    /// Probes sent.
    pub fn sent_count(&self) -> u64 {
        self.sent.iter().filter(|t| **t > 0).count() as u64
    }

    /// Probes that were sent and did not come out. What came but could not be read is not counted here.
    pub fn lost_count(&self) -> u64 {
        self.sent_count().saturating_sub(self.received_count() + self.odd.unreadable)
    }

    /// Probes that came back, each counted once.
    pub fn received_count(&self) -> u64 {
        self.received.iter().filter(|t| **t > 0).count() as u64
    }

    /// From when it was due to its coming back, of each that did, in nanoseconds.
    pub fn latencies(&self) -> impl Iterator<Item = u64> + '_ {
        let both = self.due.iter().zip(&self.received);
        both.filter(|(_, r)| **r > 0).map(|(due, r)| r.saturating_sub(*due))
    }

    /// From when the kernel let it go to when the kernel had it again, of each of which it said both, in nanoseconds.
    pub fn wires(&self) -> impl Iterator<Item = u64> + '_ {
        let known = self.on_wire.iter().filter(|[left, came]| *left > 0 && *came > 0);
        known.map(|[left, came]| came.saturating_sub(*left))
    }
}

/// What a run has seen so far, while it captures.
struct Seen<'a> {
    plan: &'a Plan,
    live: &'a Live,
    capture: Capture,
    newest: Vec<u64>,
    flows: Vec<bool>,
    received: u64,
    last_at: u64,
    /// The frame that should come, and of which flow it is.
    expected: Vec<u8>,
    expected_flow: Option<u32>,
    /// The first bytes of all frames that are sent; made when one is first needed.
    heads: Option<HashSet<[u8; 12]>>,
    /// The least latency since the run began, and since when latencies are too great.
    least: u64,
    queued_since: u64,
}

impl Seen<'_> {
    /// Takes all that a port has ready; how many frames there were.
    fn take(
        &mut self,
        port: &mut DataPort,
        burst: &mut Burst,
        pool: &mut Pool,
        returned: bool,
    ) -> Result<usize, Error> {
        let got = match port.receive(burst, pool) {
            Ok(got) => got,
            // Its link was taken away by ourselves.
            Err(_) if self.capture.cut_at > 0 => 0,
            Err(reason) => {
                let (name, reason) = (port.name.clone(), reason.to_string());
                return Err(Error::Receive { name, reason });
            }
        };
        if got == 0 {
            return Ok(0);
        }
        let by_kernel = port.stamps != StampedBy::Process;
        let (now, wall) = (clock::now(), if by_kernel { port::now_ns() } else { 0 });
        let before = self.received;
        for frame in burst.frames() {
            let bytes = frame.data();
            if self.plan.filter.as_ref().is_some_and(|filter| !filter.passes(bytes)) {
                self.capture.filtered += 1;
                continue;
            }
            let age = if by_kernel { wall.saturating_sub(frame.rx_ns) } else { 0 };
            let at = now.saturating_sub(age);
            let aside = returned && !self.plan.both;
            if let Some(record) = self.plan.record.as_ref().filter(|_| !aside) {
                record.write(port::now_ns().saturating_sub(age), bytes);
            }
            let probe = self.read(bytes, aside);
            if self.live.frames && !aside {
                let probe = probe.map(|(probe, _)| (probe.seq, probe.due));
                self.tell(Came { probe, at, returned, bytes: bytes.into() });
            }
            if let Some((probe, whole)) = probe {
                if aside {
                    self.capture.odd.returned += 1;
                    continue;
                }
                let stamp = if by_kernel { frame.rx_ns } else { 0 };
                if self.one(probe, at, stamp, returned) {
                    self.judge(probe, bytes, whole);
                }
            }
        }
        burst.recycle(pool);
        if self.received > before {
            self.live.received.store(self.received, Ordering::Release);
        }
        Ok(got)
    }

    fn tell(&mut self, came: Came) {
        if let Some(captures) = &self.live.captures {
            self.capture.untold += u64::from(captures.try_send(came).is_err());
        }
    }

    /// Which probe of the run a frame is, and whether its mark was whole; what else came is counted.
    #[inline]
    fn read(&mut self, bytes: &[u8], aside: bool) -> Option<(Probe, bool)> {
        let odd = &mut self.capture.odd;
        let (probe, whole) = match probe::read(bytes) {
            Some(Reading::Ours(probe)) => (probe, true),
            Some(Reading::Damaged(probe)) => (probe, false),
            Some(Reading::Others) => {
                odd.others += u64::from(!aside);
                odd.strange_bytes += if aside { 0 } else { bytes.len() as u64 };
                return None;
            }
            None => {
                self.unread(bytes, aside);
                return None;
            }
        };
        if probe.stream != self.plan.stream {
            odd.earlier += u64::from(!aside);
            odd.strange_bytes += if aside { 0 } else { bytes.len() as u64 };
            return None;
        }
        // What we send ourselves we know by heart.
        let due = self.capture.due.get(probe.seq as usize).copied();
        let fits = match self.plan.transmit {
            true => due.is_some_and(|due| due > 0 && probe::due_told(due) == probe.due),
            false => due.is_some(),
        };
        if !fits {
            self.unread(bytes, aside);
            return None;
        }
        Some((
            Probe { due: due.filter(|_| self.plan.transmit).unwrap_or(probe.due), ..probe },
            whole,
        ))
    }

    /// A frame that is no probe: one of ours that is beyond recognition, or somebody else's.
    fn unread(&mut self, bytes: &[u8], aside: bool) {
        let plan = self.plan;
        let heads = self.heads.get_or_insert_with(|| match &plan.frames {
            Some(frames) => frames.frames.iter().filter_map(|f| f.first_chunk().copied()).collect(),
            None => {
                let probe = Probe { stream: 0, seq: 0, due: 0 };
                let own = probe::frame(probe::LEN_MIN, 0, probe);
                own.first_chunk().copied().into_iter().collect()
            }
        });
        let ours = bytes.first_chunk().is_some_and(|head: &[u8; 12]| heads.contains(head));
        let odd = &mut self.capture.odd;
        match (ours, aside) {
            (true, true) => odd.returned += 1,
            (false, true) => {}
            (true, false) => {
                odd.unreadable += 1;
                odd.looked_at += 1;
                *odd.fields.entry("mark").or_default() += 1;
            }
            (false, false) => {
                odd.foreign += 1;
                odd.strange_bytes += bytes.len() as u64;
            }
        }
    }

    /// Compares a frame with what the rule makes of it.
    #[inline]
    fn judge(&mut self, probe: Probe, came: &[u8], whole: bool) {
        self.capture.odd.looked_at += 1;
        let flow = self.plan.flow(probe.seq);
        let template = match (&self.plan.makes, &self.plan.frames) {
            (Makes::Anything, _) => {
                if !whole {
                    self.capture.odd.corrupted += 1;
                    *self.capture.odd.fields.entry("mark").or_default() += 1;
                }
                return;
            }
            (_, Some(frames)) => Some(&frames.frames[flow as usize]),
            (_, None) => None,
        };
        match template {
            Some(template) => {
                self.expected.clear();
                self.expected.extend_from_slice(template);
                probe::stamp(&mut self.expected, probe);
            }
            None if self.expected_flow == Some(flow) => probe::renumber(&mut self.expected, probe),
            None => probe::rewrite(&mut self.expected, flow, probe),
        }
        self.expected_flow = Some(flow);
        match &self.plan.makes {
            Makes::Changed(actions) => {
                let mut made = self.expected.clone();
                // Actions that nobody knows here are not judged.
                if expect::apply(actions, &mut made).is_none() || came == made {
                    return;
                }
                match came == self.expected {
                    true => self.capture.odd.undone += 1,
                    false => self.capture.odd.differs(&made, came),
                }
            }
            _ if came == self.expected => {}
            _ => self.capture.odd.differs(&self.expected, came),
        }
    }

    /// Takes note of a probe; `false` if it had come before.
    #[inline]
    fn one(&mut self, probe: Probe, at: u64, stamp: u64, returned: bool) -> bool {
        let seq = probe.seq as usize;
        let capture = &mut self.capture;
        let Some(received) = capture.received.get_mut(seq) else { return false };
        if *received != 0 {
            capture.odd.doubled += 1;
            return false;
        }
        // A clock that was set back in between must not make it "never".
        *received = at.max(probe.due).max(1);
        capture.due[seq] = probe.due;
        if let Some(most) = self.plan.queue_max {
            let took = at.saturating_sub(capture.sent.get(seq).copied().unwrap_or(at));
            self.least = self.least.min(took);
            if took <= self.least.saturating_add(most.as_nanos() as u64) {
                self.queued_since = 0;
            } else if self.queued_since == 0 {
                self.queued_since = at;
            } else if at.saturating_sub(self.queued_since) > QUEUED_NS {
                capture.queued = true;
            }
        }
        if let Some([_, came]) = capture.on_wire.get_mut(seq) {
            *came = stamp;
        }
        self.last_at = at;
        if self.received == 0 {
            capture.came_first = at;
        }
        self.received += 1;
        if returned {
            capture.returned[seq] = true;
            self.live.returned.fetch_add(1, Ordering::AcqRel);
        }
        let flow = self.plan.flow(probe.seq) as usize;
        let newest = &mut self.newest[flow];
        capture.reordered += u64::from(*newest > u64::from(probe.seq));
        *newest = u64::from(probe.seq).max(*newest);
        if !std::mem::replace(&mut self.flows[flow], true) {
            self.live.flows_seen.fetch_add(1, Ordering::AcqRel);
        }
        if self.live.captures.is_some() && !self.live.frames {
            let probe = Some((probe.seq, probe.due));
            self.tell(Came { probe, at, returned, bytes: Box::default() });
        }
        true
    }
}

/// When probes are due after the start.
enum Schedule<'a> {
    Recorded(std::slice::Iter<'a, u64>),
    Made(Offsets),
}

impl Schedule<'_> {
    #[inline]
    fn next(&mut self) -> Option<u64> {
        match self {
            Schedule::Recorded(offsets) => offsets.next().copied(),
            Schedule::Made(offsets) => offsets.next(),
        }
    }
}

/// Memory that is there before the first probe: a page that the kernel finds only when it is written to would
/// hold up a burst.
fn zeroes(count: usize) -> Vec<u64> {
    let mut list = vec![std::hint::black_box(1); count];
    list.fill(0);
    list
}

/// Sends by `tx` what the plan says, and captures at `rx` what comes of it.
pub fn drive(
    tx: &mut DataPort,
    rx: &mut DataPort,
    plan: &Plan,
    live: &Live,
) -> Result<Capture, Error> {
    let stamped = plan.transmit
        && plan.rate_pps <= STAMPED_MAX_PPS
        && rx.stamps == StampedBy::Kernel
        && tx.tx.stamp_departures(true);
    let result = driven(tx, rx, plan, live, stamped);
    if stamped {
        tx.tx.stamp_departures(false);
    }
    if live.cut.load(Ordering::Acquire) {
        rx.set_link(true)?;
        // Its socket says once that the link was gone.
        drop(rx.receive(&mut Burst::new(), &mut Pool::new()));
    }
    result
}

fn driven(
    tx: &mut DataPort,
    rx: &mut DataPort,
    plan: &Plan,
    live: &Live,
    stamped: bool,
) -> Result<Capture, Error> {
    let flows = plan.flows_in_all();
    let probes = plan.probes as usize;
    let len = plan.len.min(tx.len_max());
    let mut seen = Seen {
        plan,
        live,
        capture: Capture {
            due: zeroes(probes),
            sent: zeroes(probes),
            received: zeroes(probes),
            on_wire: vec![[0; 2]; if stamped { probes } else { 0 }],
            returned: vec![false; probes],
            ..Capture::default()
        },
        newest: vec![0; flows as usize],
        flows: vec![false; flows as usize],
        received: 0,
        last_at: 0,
        expected: probe::frame(len, 0, Probe { stream: plan.stream, seq: 0, due: 0 }),
        expected_flow: None,
        heads: None,
        least: u64::MAX,
        queued_since: 0,
    };
    let mut offsets = match plan.frames.as_ref().and_then(|f| f.offsets.as_ref()) {
        Some(recorded) => Schedule::Recorded(recorded.iter()),
        None => Schedule::Made(plan.arrivals.offsets(plan.rate_pps, plan.seed)),
    };
    let (mut burst, mut pool) = (Burst::new(), Pool::new());
    let mut frame =
        Frame::copy_of(&probe::frame(len, 0, Probe { stream: plan.stream, seq: 0, due: 0 }));
    // What came in before is not of this run.
    while seen.take(rx, &mut burst, &mut pool, false)? > 0 {}
    while seen.take(tx, &mut burst, &mut pool, true)? > 0 {}
    seen.capture.odd = Odd::default();
    rx.newly_lost();
    let counted = tx.passed_in_all();
    let (mut aside_at, mut link_at, mut had_link) = (0, 0, true);
    let sent_max = if tx.sending().is_some() { SENT_MAX } else { BURST_MAX };
    let start = clock::now() + 500_000;
    let mut next = 0;
    let mut due = start + offsets.next().unwrap_or(0);
    let mut done_at = None;
    let mut flow = plan.flow(0);
    // The flow that the frame is of.
    let mut made = None;
    // The numbers of the probes that the port took, in that order, where it tells when they left.
    let mut taken: Vec<u32> = Vec::with_capacity(if stamped { probes } else { 0 });
    // Frames sent since one came.
    let mut unseen = 0;
    loop {
        let mut waiting = 0;
        if plan.interrupt.is_raised() {
            live.stop();
            return Err(Error::Interrupted);
        }
        let stopped = live.stop.load(Ordering::Acquire) || seen.capture.queued;
        if seen.capture.cut_at == 0 && live.cut.load(Ordering::Acquire) {
            seen.capture.cut_at = clock::now();
            rx.set_link(false)?;
        }
        let sending = plan.transmit && !stopped && next < probes;
        let now = clock::now();
        while sending && due <= now && next < probes && waiting < sent_max {
            let probe = Probe { stream: plan.stream, seq: next as u32, due };
            match &plan.frames {
                Some(frames) => {
                    frame.replace(&frames.frames[flow as usize]);
                    probe::stamp(frame.data_mut(), probe);
                }
                None if made == Some(flow) => probe::renumber(frame.data_mut(), probe),
                None => probe::rewrite(frame.data_mut(), flow, probe),
            }
            made = Some(flow);
            seen.capture.due[next] = due;
            seen.capture.late += u64::from(now - due > SLOT_NS);
            match tx.tx.tx(&frame) {
                Ok(()) => {
                    seen.capture.sent[next] = now;
                    if stamped {
                        taken.push(next as u32);
                    }
                }
                Err(_) => seen.capture.refused += 1,
            }
            next += 1;
            waiting += 1;
            flow = match plan.turns {
                Turns::Regular if flow + 1 == flows => 0,
                Turns::Regular => flow + 1,
                Turns::Random => plan.flow(next as u32),
            };
            due = start + offsets.next().unwrap_or(u64::MAX - start);
        }
        if waiting > 0 {
            // Probes that are refused here were counted as sent; they must not look like losses.
            seen.capture.refused += tx.tx.flush().drops.total();
            live.sent.store(next as u64, Ordering::Release);
        }
        let mut got = 0;
        loop {
            let more = seen.take(rx, &mut burst, &mut pool, false)?;
            got += more;
            // What came of a long burst is not left lying for the next one to add to.
            if more < BURST_MAX || got >= waiting {
                break;
            }
        }
        if plan.both || now.saturating_sub(aside_at) > ASIDE_NS {
            aside_at = now;
            let back = seen.take(tx, &mut burst, &mut pool, true)?;
            got += if plan.both { back } else { 0 };
        }
        if now.saturating_sub(link_at) > LINK_NS && !live.cut.load(Ordering::Acquire) {
            link_at = now;
            let has = tx.has_link() && rx.has_link();
            seen.capture.odd.link_gone += u64::from(had_link && !has);
            had_link = has;
        }
        unseen = if got > 0 { 0 } else { unseen + waiting };
        if unseen >= BURST_MAX {
            // What carries the frames may wait for this processor: a thread of the kernel's, the switch itself.
            std::thread::yield_now();
            unseen = 0;
        }
        if stamped && (got > 0 || waiting > 0) {
            departures(&mut *tx.tx, &taken, &mut seen.capture.on_wire);
        }
        if got > 0 || waiting > 0 {
            continue;
        }
        let now = clock::now();
        let done = stopped || (plan.transmit && next >= probes);
        if done {
            let expected = if plan.transmit { next } else { probes };
            let last_is_back = expected > 0 && seen.capture.received[expected - 1] != 0;
            let quiet = if last_is_back { GRACE_NS } else { plan.drain.as_nanos() as u64 };
            let quiet_since = (*done_at.get_or_insert(now)).max(seen.last_at);
            let waited = now.saturating_sub(done_at.unwrap_or(now));
            if seen.received >= expected as u64
                || now.saturating_sub(quiet_since) >= quiet
                || waited >= plan.drain_max.as_nanos() as u64
            {
                break;
            }
        }
        let idle = if sending && !done { due.saturating_sub(now) } else { 2_000_000 };
        if idle > SPIN_NS {
            // Of two ports only one can be slept on: the other is looked at soon.
            let most = if plan.both { SPIN_NS } else { 2_000_000 };
            let rest = Duration::from_nanos((idle - SPIN_NS).min(most));
            match seen.capture.cut_at {
                0 => rx.rest(rest),
                // Without a link its socket is ready all the time, to say so.
                _ => std::thread::sleep(rest),
            }
        }
    }
    if stamped {
        departures(&mut *tx.tx, &taken, &mut seen.capture.on_wire);
    }
    while seen.take(tx, &mut burst, &mut pool, true)? == BURST_MAX {}
    let mut capture = seen.capture;
    if let (Some([_, before]), Some([_, after])) = (counted, tx.passed_in_all()) {
        capture.odd.sent_by_others = after.saturating_sub(before).saturating_sub(next as u64);
    }
    capture.came_last = seen.last_at;
    capture.missed = rx.newly_lost();
    if plan.transmit {
        for list in [&mut capture.due, &mut capture.sent, &mut capture.received] {
            list.truncate(next);
        }
        capture.returned.truncate(next);
        capture.on_wire.truncate(next);
        let sent = || capture.sent.iter().copied().filter(|at| *at > 0);
        capture.sending_ns = sent().max().unwrap_or(0) - sent().min().unwrap_or(0);
    }
    Ok(capture)
}

/// Takes what the port tells of when probes left. `taken`: those that it took, in that order.
fn departures(tx: &mut dyn TxQueue, taken: &[u32], on_wire: &mut [[u64; 2]]) {
    tx.departures(&mut |number, at| {
        let seq = usize::try_from(number).ok().and_then(|number| taken.get(number));
        if let Some([left, _]) = seq.and_then(|seq| on_wire.get_mut(*seq as usize)) {
            *left = at;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::fault::{FaultInjector, Faults};
    use port::memory;

    fn plan(probes: u32) -> Plan {
        Plan {
            stream: 3,
            probes,
            flows: 7,
            first_flow: 0,
            len: 60,
            rate_pps: 50_000.0,
            arrivals: Arrivals::Poisson,
            seed: 1,
            transmit: true,
            turns: Turns::Regular,
            frames: None,
            both: false,
            makes: Makes::Same,
            queue_max: None,
            drain_max: DRAIN_MAX,
            interrupt: Interrupt::default(),
            filter: None,
            record: None,
            drain: Duration::from_millis(300),
        }
    }

    fn over(faults: Faults) -> Capture {
        let (a, b) = memory::cable("a", "b", memory::Config::default()).unwrap();
        let a = Box::new(FaultInjector::new(Box::new(a), faults, 5));
        let mut a = DataPort::new("a", 1, a).unwrap();
        let mut b = DataPort::new("b", 2, Box::new(b)).unwrap();
        drive(&mut a, &mut b, &plan(5000), &Live::default()).unwrap()
    }

    #[test]
    fn a_cable_loses_nothing_and_adds_up() {
        let capture = over(Faults::default());
        let clean = Odd { looked_at: 5000, ..Odd::default() };
        assert_eq!((capture.sent_count(), capture.received_count()), (5000, 5000));
        assert_eq!((&capture.odd, capture.reordered, capture.missed), (&clean, 0, 0));
        assert!(capture.due.is_sorted());
        for i in 0..5000 {
            assert!(capture.due[i] <= capture.sent[i] && capture.sent[i] <= capture.received[i]);
        }
        let seconds = (capture.due[4999] - capture.due[0]) as f64 / 1e9;
        assert!((0.09..0.11).contains(&seconds), "{seconds}");
    }

    #[test]
    fn losses_copies_and_disorder_are_told_apart() {
        let capture = over(Faults { loss: 0.05, ..Faults::default() });
        assert!((100..500).contains(&(capture.sent_count() - capture.received_count())));
        assert_eq!((capture.odd.doubled, capture.reordered), (0, 0));
        let capture = over(Faults { duplication: 0.05, ..Faults::default() });
        assert!(capture.odd.doubled > 100 && capture.received_count() == 5000);
    }

    #[test]
    fn flipped_bits_are_corruption_and_nothing_else() {
        let capture = over(Faults { corruption: 0.05, ..Faults::default() });
        let odd = &capture.odd;
        assert!((150..350).contains(&odd.corrupted), "{odd:?}");
        assert_eq!(
            (capture.lost_count(), odd.doubled, capture.reordered, odd.changed),
            (0, 0, 0, 0)
        );
        // Anywhere in the frame: the mark is 18 bytes of 60.
        assert!(odd.fields["payload"] * 2 < odd.corrupted && odd.fields.len() > 8, "{odd:?}");
        assert!(odd.bit.is_some_and(|(_, same)| !same));
        assert!(capture.latencies().all(|ns| ns < 60_000_000_000));
    }

    #[test]
    fn what_others_send_and_what_comes_back_is_told() {
        let (a, far_a) = memory::port("a", memory::Config::default()).unwrap();
        let (b, far_b) = memory::port("b", memory::Config::default()).unwrap();
        let mut sent = [0, 0].into_iter().chain([0, 5300]);
        let counted = move || sent.nth(1).map(|n| [0, n]);
        let mut a = DataPort::new("a", 1, Box::new(a)).unwrap().counted_by(counted);
        let mut b = DataPort::new("b", 2, Box::new(b)).unwrap();
        let live = Live::default();
        let plan = Plan { probes: 5000, ..plan(5000) };
        let capture = std::thread::scope(|scope| {
            let run = scope.spawn(|| drive(&mut a, &mut b, &plan, &live));
            let mut stranger = probe::frame(60, 1, Probe { stream: 3, seq: 9, due: 9 });
            probe::estrange(&mut stranger, Probe { stream: 3, seq: 9, due: 9 });
            let stale = probe::frame(60, 1, Probe { stream: 2, seq: 9, due: 9 });
            let mut n = 0;
            while !run.is_finished() {
                let Some(frame) = far_a.take_within(Duration::from_millis(5)) else { continue };
                // A hub, and somebody else's frames.
                if n < 100 {
                    far_a.inject_bytes(frame.data());
                    far_b.inject_bytes(&stranger);
                    far_b.inject_bytes(&[7; 60]);
                    far_b.inject_bytes(&stale);
                }
                far_b.inject_bytes(frame.data());
                n += 1;
            }
            run.join().unwrap().unwrap()
        });
        let odd = &capture.odd;
        assert_eq!((capture.lost_count(), odd.doubled, capture.reordered), (0, 0, 0));
        assert_eq!((odd.returned, odd.others, odd.foreign, odd.earlier), (100, 100, 100, 100));
        assert_eq!((odd.sent_by_others, odd.looked_at), (300, 5000));
    }

    #[test]
    fn an_interrupt_ends_a_run() {
        let (a, b) = memory::cable("a", "b", memory::Config::default()).unwrap();
        let mut a = DataPort::new("a", 1, Box::new(a)).unwrap();
        let mut b = DataPort::new("b", 2, Box::new(b)).unwrap();
        let plan = plan(1_000_000);
        plan.interrupt.raise();
        let ended = drive(&mut a, &mut b, &plan, &Live::default());
        assert!(matches!(ended, Err(Error::Interrupted)));
    }

    #[test]
    fn stops_when_told() {
        let (a, b) = memory::cable("a", "b", memory::Config::default()).unwrap();
        let mut a = DataPort::new("a", 1, Box::new(a)).unwrap();
        let mut b = DataPort::new("b", 2, Box::new(b)).unwrap();
        let live = Live::default();
        let plan = plan(1_000_000);
        let capture = std::thread::scope(|scope| {
            let run = scope.spawn(|| drive(&mut a, &mut b, &plan, &live));
            while live.flows_seen() < 7 {
                std::thread::sleep(Duration::from_millis(1));
            }
            live.stop();
            run.join().unwrap().unwrap()
        });
        assert!(capture.due.len() < 1_000_000);
        assert_eq!(capture.sent_count(), capture.received_count());
    }
}
