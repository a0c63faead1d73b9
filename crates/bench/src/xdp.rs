//! `millrace bench xdp`: the switch on AF_XDP ports, beside the bare forwarding loop on the same sockets.
//!
//! Both ends of one veth pair lie in a namespace of the bench's own. What comes in by the one goes out by the
//! other, and so comes in again: a handful of frames circulates as fast as it is forwarded, without a
//! generator that would have to be faster. All that the kernel does for a frame, on its way out and in,
//! happens in the forwarding thread's calls.
//!
//! In turns: the bare loop ([`port_xdp::bare`]), then a whole switch with one worker and an entry from port 1
//! to port 2. A rate is frames over the forwarding thread's processor time; figures are medians,
//! the ratio is the median of the pairs'. Frames that were lost on the way are told, as a ring that runs
//! empty would make it a measurement of polling.

use super::measure::median;
use crate::options::BenchXdpOptions;
use control::failure::Failure;
use control::program::tables;
use openflow::syntax::{self, Context};
use openflow::{Message, PortNo, Version};
use port::af_packet::AfPacket;
use port::{Frame, Port as _};
use port_xdp::bare::Bare;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The ends of the veth pair.
const FROM: &str = "mrx0";
const TO: &str = "mrx1";
/// Before a run is timed.
const WARM_UP: Duration = Duration::from_millis(100);
/// How long an interface may refuse the first frames.
const PATIENCE: Duration = Duration::from_secs(2);

/// What one run has found.
struct Run {
    frames: u64,
    /// The forwarding thread's.
    seconds: f64,
    /// Frames that circulated in the end, of those that were put in.
    left: usize,
}

impl Run {
    fn mpps(&self) -> f64 {
        self.frames as f64 / self.seconds.max(1e-9) / 1e6
    }
}

/// `millrace bench xdp`.
pub(super) fn run(options: &BenchXdpOptions) -> Result<(), Failure> {
    if !(1..=1500).contains(&options.frames) || !(60..=1514).contains(&options.len) {
        return Err(Failure::usage("--frames must be 1 to 1500, --len 60 to 1514"));
    }
    if options.runs == 0 || !(0.01..=3600.0).contains(&options.seconds) {
        return Err(Failure::usage("--runs must be 1 or more, --seconds 0.01 to 3600"));
    }
    let place = Namespace::make()?;
    // A thread of its own goes there, and ends.
    let runs = std::thread::scope(|scope| {
        scope
            .spawn(|| place.enter().and_then(|()| all(options)))
            .join()
            .unwrap_or_else(|_| Err(Failure::Bad("the thread in the namespace panicked".into())))
    })?;
    let rates = |of: fn(&(Run, Run)) -> &Run| median(runs.iter().map(|r| of(r).mpps()).collect());
    let (bare, millrace) = (rates(|r| &r.0), rates(|r| &r.1));
    let ratio = median(runs.iter().map(|(b, m)| m.mpps() / b.mpps()).collect());
    let left = runs.iter().flat_map(|(b, m)| [b.left, m.left]).min().unwrap_or(0);
    if options.json {
        let each =
            |of: fn(&(Run, Run)) -> &Run| runs.iter().map(|r| of(r).mpps()).collect::<Vec<f64>>();
        let value = json!({
            "bench": "xdp", "len": options.len, "frames": options.frames, "frames_left": left,
            "bare_mpps": bare, "millrace_mpps": millrace, "ratio": ratio,
            "bare_runs": each(|r| &r.0), "millrace_runs": each(|r| &r.1),
        });
        println!("{value}");
    } else {
        println!("bare loop   {bare:.3} million frames a second ({:.0} ns each)", 1e3 / bare);
        println!(
            "millrace    {millrace:.3} million frames a second ({:.0} ns each)",
            1e3 / millrace
        );
        println!("millrace / bare loop   {ratio:.3}   (medians of {} runs in turns)", runs.len());
        println!("circulating in the end   {left} of {} frames, at least", options.frames);
    }
    if left == 0 {
        return Err(Failure::Bad("every frame was lost: what was timed is an empty ring".into()));
    }
    Ok(())
}

/// All runs, in pairs.
fn all(options: &BenchXdpOptions) -> Result<Vec<(Run, Run)>, Failure> {
    (0..options.runs).map(|_| Ok((bare(options)?, millrace(options)?))).collect()
}

/// Puts the frames in, at the sending end: from there they come in by the other.
fn seed(options: &BenchXdpOptions) -> Result<(), Failure> {
    let mut port = AfPacket::open(TO).map_err(Failure::bad)?;
    let mut tx = port.tx_queue().map_err(Failure::bad)?;
    let mut bytes = vec![0; options.len];
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    let frame = Frame::copy_of(&bytes);
    // The interface's own queue may be full for a moment; what it lost is sent again.
    let (mut sent, until) = (0, Instant::now() + PATIENCE);
    while sent < options.frames {
        let n = (options.frames - sent).min(32);
        for _ in 0..n {
            tx.tx(&frame).map_err(Failure::bad)?;
        }
        let lost = tx.flush().drops.total();
        sent += n - (lost as usize).min(n);
        if lost > 0 {
            if Instant::now() > until {
                return Err(Failure::Bad(format!(
                    "{TO} does not take the frames: {lost} of {n} lost"
                )));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

fn bare(options: &BenchXdpOptions) -> Result<Run, Failure> {
    let mut forwarding = Bare::open(FROM, TO).map_err(Failure::bad)?;
    seed(options)?;
    let mut go = |time: Duration| {
        let (mut frames, begun) = (0, Instant::now());
        while begun.elapsed() < time {
            // The clock is not asked for each burst.
            frames += (0..16).map(|_| forwarding.step()).sum::<usize>();
        }
        frames as u64
    };
    go(WARM_UP);
    let before = own_seconds();
    let frames = go(Duration::from_secs_f64(options.seconds));
    let seconds = own_seconds() - before;
    let (mut left, begun) = (0, Instant::now());
    while begun.elapsed() < WARM_UP {
        left += forwarding.discard();
    }
    Ok(Run { frames, seconds, left })
}

/// Processor time of this thread so far, in seconds.
fn own_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn millrace(options: &BenchXdpOptions) -> Result<Run, Failure> {
    let switch = tables::start(1, Vec::new(), 1000, Default::default(), None)?;
    for (number, name) in [(1, FROM), (2, TO)] {
        let spec = port_xdp::Settings {
            interface: name.into(),
            queue: Some(0),
            mode: port_xdp::Mode::Native,
            busy_poll_us: None,
            send: port_xdp::SendBy::Auto,
        };
        let port = port_xdp::open(&spec).map_err(Failure::bad)?;
        switch.add_port(Some(number), port).map_err(Failure::bad)?;
    }
    let mut agent = tables::agent(&switch, Some(1))?;
    let mut add = |line: &str| -> Result<(), Failure> {
        let none = |_: &str| -> Option<PortNo> { None };
        let context = Context { version: Version::V13, ports: &none };
        let flow = syntax::parse_flow(line, &context).map_err(Failure::bad)?;
        agent.handle(Version::V13, Message::FlowMod(flow)).map_err(Failure::bad)?;
        switch.sync();
        Ok(())
    };
    add("priority=1,in_port=1,actions=output:2")?;
    switch.set_polling(true);
    seed(options)?;
    let sent = || switch.port_counters().iter().map(|(_, c, _)| c.tx_packets).sum::<u64>();
    let worker = Worker::find()?;
    std::thread::sleep(WARM_UP);
    let (frames, seconds) = (sent(), worker.seconds()?);
    std::thread::sleep(Duration::from_secs_f64(options.seconds));
    let (frames, seconds) = (sent() - frames, worker.seconds()? - seconds);
    let dropped = || {
        let counters = switch.port_counters();
        let drops = counters.iter().flat_map(|(_, c, _)| &c.drops);
        drops.map(|(_, n)| *n as usize).sum::<usize>()
    };
    let before = dropped();
    add("priority=2,in_port=1,actions=drop")?;
    std::thread::sleep(WARM_UP);
    let left = dropped() - before;
    switch.stop();
    Ok(Run { frames, seconds, left })
}

/// The thread of the switch's only worker.
struct Worker {
    schedstat: std::path::PathBuf,
}

impl Worker {
    fn find() -> Result<Worker, Failure> {
        let tasks = std::fs::read_dir("/proc/self/task").map_err(Failure::bad)?;
        for task in tasks.flatten() {
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            if name.trim() == "worker-0" {
                return Ok(Worker { schedstat: task.path().join("schedstat") });
            }
        }
        Err(Failure::Bad("the switch's worker has no thread of its name".into()))
    }

    /// Its processor time so far.
    fn seconds(&self) -> Result<f64, Failure> {
        let text = std::fs::read_to_string(&self.schedstat).map_err(Failure::bad)?;
        let ns = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        ns.map(|ns| ns as f64 / 1e9).ok_or_else(|| {
            Failure::Bad(format!("{}: no processor time in {text:?}", self.schedstat.display()))
        })
    }
}

/// A network namespace with the veth pair; gone when dropped.
struct Namespace {
    name: String,
}

impl Namespace {
    fn make() -> Result<Namespace, Failure> {
        let name = format!("mrx{}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let place = Namespace { name };
        let ns = &place.name;
        ip(&format!("-n {ns} link add {FROM} type veth peer name {TO}"))?;
        for end in [FROM, TO] {
            // Nothing but our frames: no neighbour is to be asked for.
            ip(&format!("-n {ns} link set {end} arp off addrgenmode none"))?;
            ip(&format!("-n {ns} link set {end} up"))?;
        }
        Ok(place)
    }

    /// Moves the calling thread there.
    fn enter(&self) -> Result<(), Failure> {
        let path = format!("/run/netns/{}", self.name);
        let file = std::fs::File::open(&path)
            .map_err(|e| Failure::Bad(format!("cannot open {path}: {e}")))?;
        rustix::thread::move_into_link_name_space(
            file.as_fd(),
            Some(rustix::thread::LinkNameSpaceType::Network),
        )
        .map_err(|e| Failure::Bad(format!("cannot enter {path}: {e}")))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(Failure::Bad(text) | Failure::Usage(text) | Failure::Status(_, text)) =
            ip(&format!("netns del {}", self.name))
        {
            eprintln!("millrace: {text}");
        }
    }
}

fn ip(words: &str) -> Result<(), Failure> {
    let output = Command::new("ip").args(words.split(' ')).stdin(Stdio::null()).output();
    let output = output
        .map_err(|e| Failure::Bad(format!("cannot run ip: {e}; it is in the package iproute2")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Bad(format!("ip {words}: {}; the bench needs root", text.trim())))
}
