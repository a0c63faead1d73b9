//! One switch on the bench: preparing it, and repeating what was disturbed.

use crate::clock;
use crate::control::{Control, packet_out};
use crate::error::Error;
use crate::expect::Makes;
use crate::judge::{blindness, disturbing, strangers, wrongs};
use crate::probe::{self, Probe};
use crate::run::{Finding, Run};
use crate::settings::Settings;
use crate::traffic::{self, Capture, DRAIN_MAX, DataPort, Live, Odd, Plan, SLOT_NS, Turns};
use openflow::{
    Action, FieldId, FlowMod, Instruction, Match, Message, MultipartReplyBody,
    MultipartRequestBody, PortNo, Version,
};
use std::time::Duration;

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
    pub(crate) done: Vec<Run>,
}

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

    pub(crate) fn unchecked(
        control: Control,
        input: DataPort,
        output: DataPort,
        settings: Settings,
    ) -> Bench {
        let (odd, done) = (Odd::default(), Vec::new());
        let mut bench = Bench { control, input, output, settings, stream: 0, odd, done };
        bench.control.interrupt_by(bench.settings.interrupt.clone());
        bench
    }

    /// Empties the switch, and checks that its ports are wired as we were told.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
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
    pub(crate) fn wait_for_links(&mut self, most: Duration) -> bool {
        let (input, output) = (&mut self.input, &mut self.output);
        clock::wait(most, || input.has_link() && output.has_link())
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
                clock::wait(Duration::from_secs(2), || live.flows_seen() > 0);
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
