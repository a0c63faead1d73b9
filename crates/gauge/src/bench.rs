//! One switch on the bench: preparing it, repeating what was disturbed, running the modules.

use crate::arrivals::Arrivals;
use crate::calibrate;
use crate::clock;
use crate::control::{Control, Peer};
use crate::error::Error;
use crate::latency::Latency;
use crate::module::Module;
use crate::probe::{self, Probe};
use crate::report::{Machine, ModuleReport, Report, Run, SCHEMA, SwitchUnderTest};
use crate::traffic::{self, Capture, DataPort, Live, Plan, SLOT_NS};
use openflow::{
    Action, FieldId, FlowMod, Instruction, Match, Message, MultipartReplyBody,
    MultipartRequestBody, PacketOut, PortNo, Version,
};
use serde::{Serialize, Serializer};
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
            attempts: 3,
            late_share_max: 0.01,
        }
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
            len: probe::LEN_MIN,
            rate_pps: self.settings.rate_pps,
            arrivals: self.settings.arrivals,
            seed: self.settings.seed.wrapping_add(self.stream.into()),
            transmit: true,
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
        let Bench { control, input, output, .. } = self;
        run_beside(control, input, output, plan, during)
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
        std::thread::sleep(Duration::from_millis(300));
        Ok(())
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
        let plan = Plan { probes: 1, transmit: false, ..self.plan() };
        let Bench { control, input, output, .. } = self;
        let (far, near) = if of_input { (output, input) } else { (input, output) };
        let (name, number) = (near.name.clone(), near.number);
        let (capture, ()) = run_beside(control, far, near, &plan, |control, live| {
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
    during: impl FnOnce(&mut Control, &Live) -> Result<R, Error>,
) -> Result<(Capture, R), Error> {
    let live = Live::default();
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
    let wired = |p: &DataPort| format!("{} ({}) is wired to port {}", p.name, p.kind, p.number);
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
    for module in modules {
        progress(module.name);
        bench.control.clear()?;
        let runs = (module.run)(&mut bench, progress)?;
        reports.push(ModuleReport { module: module.name, runs });
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

/// Sums up a capture's latencies.
pub fn latencies(capture: &Capture) -> Latency {
    let mut latency = Latency::default();
    capture.latencies().for_each(|ns| latency.record(ns));
    latency
}
