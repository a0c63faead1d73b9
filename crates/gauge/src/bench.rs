//! One switch on the bench: preparing it, repeating what was disturbed, running the modules.

use crate::arrivals::Arrivals;
use crate::calibrate;
use crate::clock;
use crate::control::{Control, Peer};
use crate::error::Error;
use crate::filter::Filter;
use crate::latency::{Latency, Summary};
use crate::lua::Script;
use crate::module::Module;
use crate::probe::{self, Probe};
use crate::record::Recording;
use crate::report::{Machine, ModuleReport, Report, Run, SCHEMA, SwitchUnderTest, WIRE};
use crate::traffic::{self, Capture, DataPort, Frames, Live, Plan, SLOT_NS, Turns};
use openflow::{
    Action, FieldId, FlowMod, Instruction, Match, Message, MultipartReplyBody,
    MultipartRequestBody, PacketOut, PortNo, Version,
};
use serde::{Serialize, Serializer};
use std::sync::Arc;
use std::time::Duration;

/// What can be chosen.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// What all random choices begin from.
    pub seed: u64,
    /// Probes a second.
    pub rate_pps: f64,
    /// How they follow each other.
    #[serde(serialize_with = "as_text")]
    pub arrivals: Arrivals,
    /// Probes of a run.
    pub probes: u32,
    /// Lengths of frames, in bytes, with the frame check sequence (RFC 2544 §9.1).
    pub sizes: Vec<usize>,
    /// Rules that are added at once.
    pub batches: Vec<u32>,
    /// Times that a batch is added anew to look at barriers.
    pub barrier_rounds: u32,
    /// Echo requests, and how many a second.
    pub echoes: u32,
    /// Likewise.
    pub echo_pps: f64,
    /// Packet-ins and packet-outs, and how many a second.
    pub punts: u32,
    /// Likewise.
    pub punt_pps: f64,
    /// More rates at which frames of each size are forwarded, in probes a second.
    pub more_rates_pps: Vec<f64>,
    /// Probes of the long run that looks for rare losses, and how many a second.
    pub loss_probes: u32,
    /// Likewise.
    pub loss_pps: f64,
    /// How long each trial of a search for a rate is, in milliseconds.
    pub trial_ms: u32,
    /// The highest rate that is searched, in frames a second.
    pub rate_max_pps: f64,
    /// The share of loss that the second search bears.
    pub loss_goal: f64,
    /// The highest rate of packet-ins and packet-outs that is searched.
    pub punt_max_pps: f64,
    /// Rules that are in the table before a batch is added.
    pub occupancies: Vec<u32>,
    /// Flow entries that are asked for while frames are forwarded.
    pub polled_entries: u32,
    /// How long rules are changed without a pause, in milliseconds.
    pub update_ms: u32,
    /// The latest that counters may be right after the last frame, in milliseconds.
    pub fresh_max_ms: u32,
    /// Rates of meters, in packets a second, and how long each is tried, in milliseconds.
    pub meters_pps: Vec<u32>,
    /// Likewise.
    pub meter_ms: u32,
    /// How often the link of a fast-failover group is taken away.
    pub failovers: u32,
    /// Active flows, for flow caches.
    pub active_flows: Vec<u32>,
    /// Masks, for flow caches of wildcards.
    pub masks: Vec<u32>,
    /// Frames a second for both, and for how long, in milliseconds.
    pub cliff_pps: f64,
    /// Likewise.
    pub cliff_ms: u32,
    /// A shell command that restarts the switch.
    pub restart: Option<String>,
    /// The switch's process on this machine, whose processor load is looked at.
    pub switch_pid: Option<u32>,
    /// Traffic of another's making, with its name.
    #[serde(serialize_with = "names")]
    pub described: Vec<(String, Arc<Frames>)>,
    /// Modules of the user's own, asked after ours.
    #[serde(serialize_with = "script_names")]
    pub scripts: Vec<Script>,
    /// Which frames are captured; others are as if they had not come out.
    #[serde(serialize_with = "filter_text")]
    pub filter: Option<Arc<Filter>>,
    /// Where captured frames are written, too.
    #[serde(skip)]
    pub record: Option<Recording>,
    /// How long rules that a barrier has confirmed are given all the same, in milliseconds.
    pub settle_ms: u32,
    /// How often a disturbed run is tried before it stands as invalid.
    pub attempts: u32,
    /// The share of probes that may miss their slot before a run is disturbed.
    pub late_share_max: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            seed: 1,
            rate_pps: 5000.0,
            arrivals: Arrivals::Constant,
            probes: 10_000,
            sizes: vec![64, 512, 1518],
            batches: vec![1, 10, 100],
            barrier_rounds: 10,
            echoes: 1000,
            echo_pps: 500.0,
            punts: 500,
            punt_pps: 250.0,
            more_rates_pps: Vec::new(),
            loss_probes: 120_000,
            loss_pps: 20_000.0,
            trial_ms: 1000,
            rate_max_pps: 200_000.0,
            loss_goal: 0.005,
            punt_max_pps: 20_000.0,
            occupancies: vec![10, 1000, 10_000],
            polled_entries: 1000,
            update_ms: 2000,
            fresh_max_ms: 2000,
            meters_pps: vec![500, 2000],
            meter_ms: 4000,
            failovers: 3,
            active_flows: vec![1, 100, 10_000, 1_000_000],
            masks: vec![1, 4, 16, 64],
            cliff_pps: 20_000.0,
            cliff_ms: 2000,
            restart: None,
            switch_pid: None,
            described: Vec::new(),
            scripts: Vec::new(),
            filter: None,
            record: None,
            settle_ms: 300,
            attempts: 3,
            late_share_max: 0.01,
        }
    }
}

impl Settings {
    /// All rates at which frames are forwarded.
    pub fn rates_pps(&self) -> Vec<f64> {
        [self.rate_pps].into_iter().chain(self.more_rates_pps.iter().copied()).collect()
    }
}

fn names<S: Serializer>(described: &[(String, Arc<Frames>)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(described.iter().map(|(name, _)| name))
}

fn script_names<S: Serializer>(scripts: &[Script], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(scripts.iter().map(|script| &script.name))
}

fn filter_text<S: Serializer>(filter: &Option<Arc<Filter>>, to: S) -> Result<S::Ok, S::Error> {
    match filter {
        Some(filter) => to.serialize_some(filter.text()),
        None => to.serialize_none(),
    }
}

fn as_text<S: Serializer>(arrivals: &Arrivals, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(arrivals)
}

/// A switch under test, with our two ports wired to it.
pub struct Bench {
    /// The controller's end.
    pub control: Control,
    /// Where probes go in.
    pub input: DataPort,
    /// Where they come out.
    pub output: DataPort,
    /// What was chosen.
    pub settings: Settings,
    stream: u16,
}

impl Bench {
    /// Puts a switch on the bench: all its flow entries are removed, and the wires are checked.
    pub fn new(
        control: Control,
        input: DataPort,
        output: DataPort,
        settings: Settings,
    ) -> Result<Bench, Error> {
        let mut bench = Bench { control, input, output, settings, stream: 0 };
        bench.control.clear()?;
        bench.check_wire(false)?;
        bench.check_wire(true)?;
        Ok(bench)
    }

    /// A plan by the settings, for frames of the shortest length and one flow.
    pub fn plan(&mut self) -> Plan {
        self.stream = self.stream.wrapping_add(1);
        Plan {
            stream: self.stream,
            probes: self.settings.probes,
            flows: 1,
            first_flow: 0,
            len: probe::LEN_MIN,
            rate_pps: self.settings.rate_pps,
            arrivals: self.settings.arrivals,
            seed: self.settings.seed.wrapping_add(self.stream.into()),
            transmit: true,
            turns: Turns::Regular,
            frames: None,
            both: false,
            filter: self.settings.filter.clone(),
            record: self.settings.record.clone(),
            drain: Duration::from_secs(2),
        }
    }

    /// Runs traffic from input to output while `during` talks to the switch. The plan ends by
    /// itself, or by [`Live::stop`].
    pub fn traffic<R>(
        &mut self,
        plan: &Plan,
        during: impl FnOnce(&mut Control, &Live) -> Result<R, Error>,
    ) -> Result<(Capture, R), Error> {
        self.traffic_by(plan, Live::default(), during)
    }

    /// Likewise, with a [`Live`] of the caller's.
    pub fn traffic_by<R>(
        &mut self,
        plan: &Plan,
        live: Live,
        during: impl FnOnce(&mut Control, &Live) -> Result<R, Error>,
    ) -> Result<(Capture, R), Error> {
        let Bench { control, input, output, .. } = self;
        run_beside(control, input, output, plan, live, during)
    }

    /// A rule that sends a flow of probes from the input port somewhere.
    pub fn rule(&self, flow: u32, to: PortNo) -> FlowMod {
        let matching = Match::new()
            .with(FieldId::InPort, self.input.number.into())
            .with(FieldId::EthType, 0x0800)
            .with(FieldId::Ipv4Dst, probe::address(flow).into());
        let apply = Instruction::ApplyActions(vec![Action::output(to)]);
        FlowMod { priority: 1000, ..FlowMod::add(matching, [apply].into_iter().collect()) }
    }

    /// A rule from input to output.
    pub fn forward(&self, flow: u32) -> FlowMod {
        self.rule(flow, PortNo(self.output.number))
    }

    /// Adds one rule to an empty switch and waits until its barrier is answered.
    pub fn only(&mut self, rule: FlowMod) -> Result<(), Error> {
        self.control.clear()?;
        self.control.send(&Message::FlowMod(rule))?;
        self.control.barrier("a flow entry")?;
        // An early barrier is another module's finding; the others give the rule time.
        self.settle();
        Ok(())
    }

    /// Gives what a barrier has confirmed a little time more.
    pub fn settle(&self) {
        std::thread::sleep(Duration::from_millis(self.settings.settle_ms.into()));
    }

    /// The processor time of the switch so far, if we were told its process and it can be read.
    pub fn busy(&self) -> Option<Busy> {
        Busy::of(self.settings.switch_pid?)
    }

    /// Repeats a run until it is undisturbed, as often as the settings say.
    pub fn repeat(
        &mut self,
        mut run: impl FnMut(&mut Bench) -> Result<Run, Error>,
    ) -> Result<Run, Error> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut done = run(self)?;
            done.attempts = attempts;
            if done.disturbed.is_empty() || attempts >= self.settings.attempts {
                return Ok(done);
            }
        }
    }

    /// What disturbed a capture of so many probes.
    pub fn disturbances(&self, capture: &Capture) -> Vec<String> {
        let mut reasons = Vec::new();
        let all = capture.due.len() as u64;
        if capture.late as f64 > all as f64 * self.settings.late_share_max {
            let ms = SLOT_NS / 1_000_000;
            reasons.push(format!(
                "{} of {all} probes missed their slot by over {ms} ms",
                capture.late
            ));
        }
        reasons.extend(blindness(capture));
        reasons
    }

    fn check_wire(&mut self, of_input: bool) -> Result<(), Error> {
        // The wires are there whatever is to be captured later.
        let unfiltered = Plan { filter: None, record: None, ..self.plan() };
        let plan = Plan { probes: 1, transmit: false, ..unfiltered };
        let Bench { control, input, output, .. } = self;
        let (far, near) = if of_input { (output, input) } else { (input, output) };
        let (name, number) = (near.name.clone(), near.number);
        let (capture, ()) =
            run_beside(control, far, near, &plan, Live::default(), |control, live| {
                let probe = Probe { stream: plan.stream, seq: 0, due: clock::now() };
                control.send(&packet_out(control.version(), number, probe))?;
                wait(Duration::from_secs(2), || live.flows_seen() > 0);
                live.stop();
                Ok(())
            })?;
        if capture.received_count() == 1 {
            return Ok(());
        }
        let ports = ports(&mut self.control)?.join(", ");
        Err(Error::Wiring(format!(
            "the switch's port {number} does not lead to our port {name}: what was sent out of it by a \
             packet-out did not arrive within 2 s. The switch has the ports {ports}; say which one \
             {name} is wired to by --port {name}:NUMBER=SPEC"
        )))
    }
}

/// What a process has used at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    at: u64,
    ns: u64,
}

impl Busy {
    /// Of all its threads (`/proc/PID/task/TID/schedstat`, proc(5)).
    pub fn of(pid: u32) -> Option<Busy> {
        let mut ns = 0u64;
        for thread in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
            // A thread may end meanwhile.
            let Ok(text) = std::fs::read_to_string(thread.ok()?.path().join("schedstat")) else {
                continue;
            };
            ns += text.split_whitespace().next()?.parse::<u64>().ok()?;
        }
        Some(Busy { at: clock::now(), ns })
    }

    /// Processors busy on average between two moments.
    pub fn load(&self, later: &Busy) -> f64 {
        later.ns.saturating_sub(self.ns) as f64 / later.at.saturating_sub(self.at).max(1) as f64
    }
}

/// Losses on our own side: they hide what the switch did.
pub fn blindness(capture: &Capture) -> Vec<String> {
    let mut reasons = Vec::new();
    if capture.missed > 0 {
        reasons
            .push(format!("{} frames were lost on our side, captured too slowly", capture.missed));
    }
    if capture.refused > 0 {
        reasons.push(format!("our port refused to send {} probes", capture.refused));
    }
    reasons
}

/// A packet-out of a shortest probe by one of the switch's ports.
pub fn packet_out(version: Version, port: u32, probe: Probe) -> Message {
    // 1.0 has no controller among the ports that a packet-out can come from (1.0.0 §5.3.6).
    let in_port = if version == Version::V10 { PortNo::ANY } else { PortNo::CONTROLLER };
    Message::PacketOut(PacketOut {
        buffer_id: None,
        in_port,
        pipeline: Match::new(),
        actions: vec![Action::output(PortNo(port))],
        data: probe::frame(probe::LEN_MIN, 0, probe),
    })
}

/// Waits until something is so, for at most so long; says whether it is.
pub fn wait(most: Duration, mut so: impl FnMut() -> bool) -> bool {
    let until = std::time::Instant::now() + most;
    while !so() {
        if std::time::Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    true
}

fn run_beside<R>(
    control: &mut Control,
    input: &mut DataPort,
    output: &mut DataPort,
    plan: &Plan,
    live: Live,
    during: impl FnOnce(&mut Control, &Live) -> Result<R, Error>,
) -> Result<(Capture, R), Error> {
    std::thread::scope(|scope| {
        let run = scope.spawn(|| traffic::drive(input, output, plan, &live));
        let result = during(control, &live);
        if result.is_err() {
            live.stop();
        }
        let capture = run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((capture?, result?))
    })
}

/// The switch's ports, as `NUMBER (NAME)`.
fn ports(control: &mut Control) -> Result<Vec<String>, Error> {
    let mut descriptions = control.features().ports.clone();
    if control.version() > Version::V10 {
        let body = MultipartRequestBody::PortDesc(PortNo::ANY);
        for part in control.multipart("the description of its ports", body)? {
            if let MultipartReplyBody::PortDesc(part) = part {
                descriptions.extend(part);
            }
        }
    }
    Ok(descriptions.iter().map(|p| format!("{} ({})", p.port_no, p.name)).collect())
}

/// Measures one switch: calibration, then the modules in their order. `pair`: two ports joined back
/// to back for the calibration. `progress` is told what happens, a line each.
///
/// All flow entries of the switch are removed before, between and after the modules.
pub fn gauge(
    peer: &Peer,
    versions: &[Version],
    (input, output): (DataPort, DataPort),
    pair: Option<(&mut DataPort, &mut DataPort)>,
    settings: Settings,
    modules: &[&Module],
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    progress("calibration");
    let calibration = calibrate::run(pair, &settings)?;
    progress(&format!("control channel: {peer}"));
    let control = Control::open(peer, versions)?;
    let wired = |p: &DataPort| {
        let DataPort { name, kind, number, stamps, .. } = p;
        format!("{name} ({kind}, stamped by the {stamps}) is wired to port {number}")
    };
    let d = control.description();
    let switch = SwitchUnderTest {
        peer: peer.to_string(),
        openflow: control.version().to_string(),
        datapath_id: format!("{:016x}", control.features().datapath_id),
        manufacturer: d.manufacturer.clone(),
        hardware: d.hardware.clone(),
        software: d.software.clone(),
        ports: vec![wired(&input), wired(&output)],
    };
    let mut bench = Bench::new(control, input, output, settings.clone())?;
    let mut reports = Vec::new();
    let scripts = settings.scripts.clone();
    for module in modules {
        progress(module.name);
        bench.control.clear()?;
        let runs = (module.run)(&mut bench, progress);
        reports.push(asked(module.name, runs, progress)?);
    }
    for script in &scripts {
        let runs = script.run(&mut bench, progress);
        reports.push(asked(&script.name, runs, progress)?);
    }
    bench.control.clear()?;
    let mut report = Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::this(),
        switch,
        settings,
        calibration,
        modules: reports,
        broken_thresholds: Vec::new(),
        good: false,
    };
    report.judge(&[]);
    Ok(report)
}

/// What came of a module, if that does not end the session.
fn asked(
    name: &str,
    runs: Result<Vec<Run>, Error>,
    progress: &mut dyn FnMut(&str),
) -> Result<ModuleReport, Error> {
    let (runs, skipped) = match runs {
        Ok(runs) => (runs, None),
        Err(e) if e.is_of_one_module() => {
            progress(&format!("{name}: skipped: {e}"));
            (Vec::new(), Some(e.to_string()))
        }
        Err(e) => return Err(e),
    };
    Ok(ModuleReport { module: name.to_string(), skipped, runs })
}

/// Sums up a capture's latencies.
pub fn latencies(capture: &Capture) -> Latency {
    let mut latency = Latency::default();
    capture.latencies().for_each(|ns| latency.record(ns));
    latency
}

/// What the wire took, where the kernel stamped both ends of it.
pub fn wires(capture: &Capture) -> Option<Latency> {
    let mut latency = Latency::default();
    capture.wires().for_each(|ns| latency.record(ns));
    (latency.count() > 0).then_some(latency)
}

/// Sums up both, under the names that runs have them by.
pub fn both_latencies(capture: &Capture) -> Vec<(&'static str, Summary)> {
    let mut both = vec![("latency", latencies(capture).summary())];
    both.extend(wires(capture).map(|wire| (WIRE, wire.summary())));
    both
}
