//! A session: one switch is calibrated for, asked by the modules in their order, and left as it was.

use crate::advice::{self, advice};
use crate::bench::Bench;
use crate::calibrate;
use crate::clock;
use crate::control::{Control, Peer};
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::lua::Script;
use crate::module::Module;
use crate::pace::Pace;
use crate::report::{Ended, How, Machine, ModuleReport, REVISION, Report, SCHEMA, SwitchUnderTest};
use crate::run::{Finding, Run};
use crate::settings::Settings;
use crate::traffic::DataPort;
use openflow::Version;
use std::time::Duration;

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
        taken_at: clock::utc(),
        command: Vec::new(),
        machine: Machine::this(),
        switch: SwitchUnderTest {
            peer: peer.to_string(),
            ports: vec![wired(&input), wired(&output)],
            ..SwitchUnderTest::default()
        },
        settings: settings.clone(),
        calibration: calibrate::Calibration::default(),
        advice: Vec::new(),
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
    report.advice = advice(&report.calibration, advice::Machine::now());
    report.advice.iter().for_each(|text| progress(text));
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
    let names = modules.iter().map(|module| module.name);
    let names = names.chain(scripts.iter().map(|script| script.name.as_str()));
    let mut pace = Pace::new(names.collect(), repetitions);
    for repetition in 0..repetitions {
        for at in 0..modules.len() + scripts.len() {
            bench.done.clear();
            progress(&pace.begin());
            let runs = match modules.get(at) {
                Some(module) => bench.control.clear().and_then(|()| (module.run)(bench, progress)),
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
