//! One switch on the bench: preparing it, repeating what was disturbed, running the modules.

use crate::arrivals::Arrivals;
use crate::calibrate;
use crate::clock;
use crate::control::{Control, Peer};
use crate::error::Error;
use crate::expect::Makes;
use crate::filter::Filter;
use crate::latency::{Latency, Summary};
use crate::lua::Script;
use crate::module::Module;
use crate::probe::{self, Probe};
use crate::record::Recording;
use crate::report::{
    Ended, Finding, How, Machine, ModuleReport, REVISION, Report, Run, SCHEMA, SwitchUnderTest,
    WIRE,
};
use crate::traffic::{
    self, Capture, DRAIN_MAX, DataPort, Frames, Interrupt, Live, Odd, Plan, SLOT_NS, Turns,
};
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
    /// How often each module is asked.
    pub repetitions: u32,
    /// Ends the session, from outside.
    #[serde(skip)]
    pub interrupt: Interrupt,
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
            repetitions: 1,
            interrupt: Interrupt::default(),
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
    /// What was odd in the traffic of the run in progress.
    odd: Odd,
    /// Runs of the module in progress, which stand even if it breaks.
    done: Vec<Run>,
}

/// Strangers' frames that do not yet disturb a run, and the share of its own from which on they do.
const STRANGERS_MIN: u64 = 10;
const STRANGERS_SHARE: f64 = 0.01;

impl Bench {
    /// Puts a switch on the bench: all its flow entries are removed, and the wires are checked.
    pub fn new(
        control: Control,
        input: DataPort,
        output: DataPort,
        settings: Settings,
    ) -> Result<Bench, Error> {
        let mut bench = Bench::unchecked(control, input, output, settings);
        bench.check()?;
        Ok(bench)
    }

    fn unchecked(control: Control, input: DataPort, output: DataPort, settings: Settings) -> Bench {
        let (odd, done) = (Odd::default(), Vec::new());
        let mut bench = Bench { control, input, output, settings, stream: 0, odd, done };
        bench.control.interrupt_by(bench.settings.interrupt.clone());
        bench
    }

    /// Empties the switch, and checks that its ports are wired as we were told.
    fn check(&mut self) -> Result<(), Error> {
        self.control.clear()?;
        self.check_wire(false)?;
        self.check_wire(true)
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
            makes: Makes::Same,
            queue_max: None,
            drain_max: DRAIN_MAX,
            interrupt: self.settings.interrupt.clone(),
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
        let Bench { control, input, output, odd, .. } = self;
        let (capture, result) = run_beside(control, input, output, plan, live, during)?;
        let mut seen = capture.odd.clone();
        if matches!(plan.makes, Makes::Anything) {
            // Rules that we do not know may copy and send back.
            (seen.doubled, seen.returned) = (0, 0);
        }
        odd.add(&seen);
        Ok((capture, result))
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
    ///
    /// What is wrong whatever a module asks (frames doubled, changed, returned; replies doubled) is added to its findings.
    /// A run that stays disturbed accuses nobody: what it would have found is kept as a remark.
    pub fn repeat(
        &mut self,
        run: impl FnMut(&mut Bench) -> Result<Run, Error>,
    ) -> Result<Run, Error> {
        self.repeat_up_to(self.settings.attempts, run)
    }

    /// The same, at most so often.
    pub fn repeat_up_to(
        &mut self,
        attempts: u32,
        mut run: impl FnMut(&mut Bench) -> Result<Run, Error>,
    ) -> Result<Run, Error> {
        let (mut attempt, mut remarks) = (0, Vec::new());
        loop {
            attempt += 1;
            self.odd = Odd::default();
            self.control.take_doubled();
            self.control.take_link_changes();
            let mut done = run(self)?;
            // What is still on its way on the channel is of this run; a channel that has ended shows.
            let ended = self.control.settle();
            done.attempts = attempt;
            let odd = std::mem::take(&mut self.odd);
            for reason in disturbing(&odd) {
                if !done.disturbed.contains(&reason) {
                    done.disturbed.push(reason);
                }
            }
            done.findings.extend(wrongs(&odd));
            done.findings.extend(self.control.take_doubled());
            done.notes.extend(strangers(&odd));
            done.notes.extend(self.control.take_link_changes());
            let refused = self.control.take_errors();
            done.notes
                .extend(refused.iter().map(|(_, e)| format!("the switch refused: {:?}", e.kind)));
            if !done.disturbed.is_empty() {
                let reasons = done.disturbed.join("; ");
                remarks.push(format!("attempt {attempt} was disturbed: {reasons}"));
                let not = |f: Finding| format!("not believed: {}: {}", f.what, f.text);
                done.notes.extend(done.findings.drain(..).map(not));
            }
            let last = done.disturbed.is_empty() || attempt >= attempts || ended.is_err();
            if last {
                if done.disturbed.is_empty() {
                    done.notes.append(&mut remarks);
                }
                self.done.push(done.clone());
                return ended.map(|()| done);
            }
        }
    }

    /// What disturbed a capture of so many probes.
    pub fn disturbances(&self, capture: &Capture) -> Vec<String> {
        let mut reasons: Vec<String> = self.lateness(capture).into_iter().collect();
        reasons.extend(blindness(capture));
        reasons
    }

    /// Whether too many probes missed their slot.
    pub fn lateness(&self, capture: &Capture) -> Option<String> {
        let all = capture.due.len() as u64;
        let ms = SLOT_NS / 1_000_000;
        (capture.late as f64 > all as f64 * self.settings.late_share_max)
            .then(|| format!("{} of {all} probes missed their slot by over {ms} ms", capture.late))
    }

    /// Waits for a port of ours whose link is gone, for at most so long; says whether both have theirs.
    fn wait_for_links(&mut self, most: Duration) -> bool {
        let (input, output) = (&mut self.input, &mut self.output);
        wait(most, || input.has_link() && output.has_link())
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
    reasons.extend(disturbing(&capture.odd));
    reasons
}

/// What else disturbs a run: links that went, and others that use the ports.
fn disturbing(odd: &Odd) -> Vec<String> {
    let mut reasons = Vec::new();
    if odd.link_gone > 0 {
        reasons.push("the link of one of our ports went down".to_string());
    }
    let strangers = odd.strangers() + odd.sent_by_others;
    let share = odd.looked_at as f64 * STRANGERS_SHARE;
    if strangers > STRANGERS_MIN && strangers as f64 > share {
        reasons.push(format!("others used the ports: {}", strangers_told(odd)));
    }
    reasons
}

fn strangers_told(odd: &Odd) -> String {
    let kinds = [
        (odd.others, "probes of another run came out (another gauge, or a capture played back)"),
        (odd.earlier, "probes of earlier runs came out"),
        (odd.foreign, "frames came out that are no probes"),
        (odd.sent_by_others, "frames were sent to the switch by others"),
    ];
    let there = kinds.iter().filter(|(n, _)| *n > 0);
    there.map(|(n, what)| format!("{n} {what}")).collect::<Vec<_>>().join(", ")
}

fn strangers(odd: &Odd) -> Option<String> {
    (odd.strangers() + odd.sent_by_others > 0).then(|| strangers_told(odd))
}

/// What is wrong with what came out, whatever was asked.
fn wrongs(odd: &Odd) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |what, n: u64, did: &str| {
        if n > 0 {
            let text = format!("{n} of {} frames {did}", odd.looked_at);
            findings.push(Finding { what, text });
        }
    };
    let fields = || {
        let each = odd.fields.iter().map(|(name, n)| format!("{name} ({n})"));
        each.collect::<Vec<_>>().join(", ")
    };
    // The same bit each time is no accident.
    let stuck = odd.corrupted > 1 && odd.bit.is_some_and(|(_, same)| same);
    let (corrupted, changed) = match stuck {
        true => (0, odd.changed + odd.corrupted),
        false => (odd.corrupted, odd.changed),
    };
    found("frames_doubled", odd.doubled, "came out more than once");
    let text = format!("came out with a bit flipped, in {}", fields());
    found("frames_corrupted", corrupted, &text);
    let text = format!("came out other than the rule makes them; what differs: {}", fields());
    found("frames_changed", changed, &text);
    let text = "came out as they went in, though the rule changes them";
    found("action_not_done", odd.undone, text);
    let text = "came out, but what they are can no longer be read";
    found("frames_unreadable", odd.unreadable, text);
    let text = "came back at the port that sends them, which no rule names";
    found("frames_returned", odd.returned, text);
    findings
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
/// All flow entries of the switch are removed before, between and after the modules. Whatever happens, the report
/// tells what was measured until then, and how it ended ([`Report::ended`]).
pub fn gauge(
    peer: &Peer,
    versions: &[Version],
    (input, output): (DataPort, DataPort),
    pair: Option<(&mut DataPort, &mut DataPort)>,
    settings: Settings,
    modules: &[&Module],
    progress: &mut dyn FnMut(&str),
) -> Report {
    let wired = |p: &DataPort| {
        let DataPort { name, kind, number, stamps, .. } = p;
        format!("{name} ({kind}, stamped by the {stamps}) is wired to port {number}")
    };
    let mut report = Report {
        schema: SCHEMA,
        revision: REVISION,
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::this(),
        switch: SwitchUnderTest {
            peer: peer.to_string(),
            ports: vec![wired(&input), wired(&output)],
            ..SwitchUnderTest::default()
        },
        settings: settings.clone(),
        calibration: calibrate::Calibration::default(),
        modules: Vec::new(),
        broken_thresholds: Vec::new(),
        ended: Ended::default(),
        good: false,
    };
    let names = modules.iter().map(|m| m.name.to_string());
    let scripts = settings.scripts.iter().map(|s| s.name.clone());
    report.modules = names.chain(scripts).map(ModuleReport::named).collect();
    if let Err(error) =
        session(peer, versions, (input, output), pair, settings, modules, progress, &mut report)
    {
        progress(&format!("cut short: {error}"));
        let left_behind = report.ended.left_behind.take();
        report.ended = Ended { how: how(&error), why: error.to_string(), left_behind };
    }
    let why = report.ended.why.clone();
    for module in report.modules.iter_mut().filter(|m| !m.is_asked()) {
        module.skipped = Some(format!("not reached: {why}"));
    }
    report.judge(&[]);
    report
}

fn how(error: &Error) -> How {
    match error {
        Error::Interrupted => How::Interrupted,
        error if error.is_of_switch() => How::SwitchFailed,
        _ => How::NotMeasured,
    }
}

/// How long a channel that closed is tried to be opened again, and a link that went is waited for.
const BACK: Duration = Duration::from_secs(5);
/// So many modules that break one after the other end the session.
const BROKEN_MAX: u32 = 2;

#[allow(clippy::too_many_arguments, reason = "they are gauge's, and what they fill")]
fn session(
    peer: &Peer,
    versions: &[Version],
    (input, output): (DataPort, DataPort),
    pair: Option<(&mut DataPort, &mut DataPort)>,
    settings: Settings,
    modules: &[&Module],
    progress: &mut dyn FnMut(&str),
    report: &mut Report,
) -> Result<(), Error> {
    progress("calibration");
    report.calibration = calibrate::run(pair, &settings)?;
    progress(&format!("control channel: {peer}"));
    let control = Control::open(peer, versions)?;
    let d = control.description();
    report.switch = SwitchUnderTest {
        openflow: control.version().to_string(),
        datapath_id: format!("{:016x}", control.features().datapath_id),
        manufacturer: d.manufacturer.clone(),
        hardware: d.hardware.clone(),
        software: d.software.clone(),
        ..std::mem::take(&mut report.switch)
    };
    let (repetitions, scripts) = (settings.repetitions, settings.scripts.clone());
    let mut bench = Bench::unchecked(control, input, output, settings);
    // From here on there are rules of ours in the switch, however it ends.
    let ended = bench
        .check()
        .and_then(|()| ask_all(&mut bench, modules, &scripts, repetitions, progress, report));
    bench.control.interrupt_by(Interrupt::default());
    let left = match bench.control.leave() {
        Err(error) if error.is_of_switch() => back(&mut bench).and_then(|()| bench.control.leave()),
        left => left,
    };
    report.ended.left_behind = left.err().map(|error| error.to_string());
    ended
}

/// Opens the channel anew, after it broke.
fn back(bench: &mut Bench) -> Result<(), Error> {
    let until = std::time::Instant::now() + BACK;
    loop {
        match bench.control.reopen() {
            Ok(()) => return Ok(()),
            Err(error) if std::time::Instant::now() >= until => return Err(error),
            Err(_) if bench.settings.interrupt.is_raised() => return Err(Error::Interrupted),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn ask_all(
    bench: &mut Bench,
    modules: &[&Module],
    scripts: &[Script],
    repetitions: u32,
    progress: &mut dyn FnMut(&str),
    report: &mut Report,
) -> Result<(), Error> {
    let (mut broken, mut failed) = (0, None);
    for repetition in 0..repetitions {
        for at in 0..modules.len() + scripts.len() {
            bench.done.clear();
            let runs = match modules.get(at) {
                Some(module) => {
                    progress(module.name);
                    bench.control.clear().and_then(|()| (module.run)(bench, progress))
                }
                None => scripts[at - modules.len()].run(bench, progress),
            };
            let there = &mut report.modules[at];
            there.asked = true;
            let (mut runs, error) = match runs {
                Ok(runs) => (runs, None),
                // What it had measured until then stands.
                Err(error) => (std::mem::take(&mut bench.done), Some(error)),
            };
            runs.iter_mut().for_each(|run| run.repetition = repetition);
            there.runs.append(&mut runs);
            let Some(error) = error else {
                broken = 0;
                continue;
            };
            let name = there.module.clone();
            if error.is_of_one_module() {
                progress(&format!("{name}: skipped: {error}"));
                there.skipped = Some(error.to_string());
                continue;
            }
            if matches!(error, Error::Interrupted) {
                there.broke = Some(error.to_string());
                return Err(error);
            }
            progress(&format!("{name}: broken off: {error}"));
            there.broke = Some(error.to_string());
            if error.is_of_switch() {
                let what = if matches!(error, Error::Timeout { .. }) {
                    "no_answer"
                } else {
                    "channel_closed"
                };
                let finding = Finding { what, text: error.to_string() };
                let label = "the control channel".into();
                there.runs.push(Run {
                    label,
                    attempts: 1,
                    findings: vec![finding],
                    repetition,
                    ..Run::default()
                });
            }
            broken += 1;
            if broken >= BROKEN_MAX {
                return Err(error);
            }
            let again = match error.is_of_switch() {
                true => back(bench).is_ok(),
                false => bench.wait_for_links(BACK),
            };
            if !again {
                return Err(error);
            }
            // It goes on, but it failed.
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(()), Err)
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
