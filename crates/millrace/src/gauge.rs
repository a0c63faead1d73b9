//! `millrace gauge`: characterises any OpenFlow switch.
//!
//! In: how to reach the switch, and two ports wired to it. Out: a table, or with `--json` one object;
//! progress on standard error; on demand a page of plots and JUnit XML. `gauge page` and `gauge compare`
//! make theirs from the reports in files. Exit status of `gauge run`: 0 good, 1 found wanting, 2 usage, 3 the switch
//! failed, 4 disturbed, 5 interrupted, 6 not measured ([`Verdict`]). Whatever ends a session, the report is written first.

use crate::cli::{GaugeCalibrateOptions, GaugeCommand, GaugeRunOptions};
use ::gauge::advice::{Machine, advice};
use ::gauge::compare::compare;
use ::gauge::describe;
use ::gauge::junit::junit;
use ::gauge::lua::Script;
use ::gauge::module::cliffs::MASKS_MAX;
use ::gauge::page::page;
use ::gauge::probe::{ADDRESSES_MAX, FLOWS_MAX};
use ::gauge::report::Verdict;
use ::gauge::traffic::Frames;
use ::gauge::{
    Arrivals, DataPort, Filter, Interrupt, MODULES, Module, Peer, Recording, Settings, Stored,
    Threshold,
};
use control::failure::Failure;
use control::port_kinds::{self, KINDS};
use of_channel::TlsFiles;
use openflow::Version;
use port::kind::{Environment, Generates, OffWire};
use port::spec::Spec;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// `millrace gauge`.
pub(crate) fn run(command: GaugeCommand) -> Result<(), Failure> {
    match command {
        GaugeCommand::Modules => {
            for module in MODULES {
                println!("{:<16} {}", module.name, module.about);
            }
            Ok(())
        }
        GaugeCommand::Calibrate(options) => calibrate(&options),
        GaugeCommand::Run(options) => measure(*options),
        GaugeCommand::Page(options) => draw(&options.reports, &options.out),
        GaugeCommand::Compare(options) => {
            let mut files = [options.reports, options.against];
            if files[1].is_empty() {
                if files[0].len() != 2 {
                    let text = "expected two reports, or reports --against REPORT...";
                    return Err(Failure::Usage(format!("compare: {text}, not {}", files[0].len())));
                }
                files[1] = files[0].split_off(1);
            }
            let all = files.concat();
            let sides =
                [0, 1].map(|i| files[i].iter().map(|p| read(p)).collect::<Result<Vec<_>, _>>());
            let [a, b] = sides;
            let (a, b) = (a?, b?);
            let called = names(&all);
            let (of_a, of_b) = called.split_at(a.len());
            let (a, b): (Vec<&Stored>, Vec<&Stored>) = (a.iter().collect(), b.iter().collect());
            let compared = compare([&of_a.join("+"), &of_b.join("+")], &a, &b);
            print!("{compared}");
            if let Some(out) = &options.html {
                draw(&all, out)?;
            }
            match compared.status() {
                0 => Ok(()),
                1 => Err(Failure::Bad("the two sides differ".into())),
                status => Err(Failure::Status(
                    status,
                    "nothing could be judged: it takes three undisturbed repetitions a side (gauge run --repeat 3)".into(),
                )),
            }
        }
    }
}

fn read(path: &Path) -> Result<Stored, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::Bad(format!("{}: {e}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| failed(&e))?;
    Stored::parse(&text).map_err(|e| failed(&e))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|e| Failure::Bad(format!("{}: {e}", path.display())))
}

/// What reports are called: their files' names, or their whole paths where those are alike.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let stem = |path: &PathBuf| path.file_stem().map(|s| s.to_string_lossy().into_owned());
    let short: Vec<String> = paths.iter().filter_map(stem).collect();
    let told_apart = short.iter().collect::<BTreeSet<_>>().len() == paths.len();
    match told_apart {
        true => short,
        false => paths.iter().map(|path| path.display().to_string()).collect(),
    }
}

fn draw(paths: &[PathBuf], out: &Path) -> Result<(), Failure> {
    let reports: Vec<Stored> = paths.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let names = names(paths);
    let all: Vec<(&str, &Stored)> = names.iter().map(String::as_str).zip(&reports).collect();
    write(out, &page(&all))
}

fn measure(options: GaugeRunOptions) -> Result<(), Failure> {
    let peer = peer(&options)?;
    let modules = match options.modules.is_empty() && !options.scripts.is_empty() {
        true => Vec::new(),
        false => modules(&options.modules)?,
    };
    let settings = settings(&options)?;
    let versions = versions(&options.protocols)?;
    let scripts: Vec<&str> = settings.scripts.iter().map(|s| s.name.as_str()).collect();
    let thresholds = options
        .at_most
        .iter()
        .map(|t| Threshold::parse(t, &scripts).map_err(Failure::usage))
        .collect::<Result<Vec<Threshold>, _>>()?;
    let record = settings.record.clone();
    let settings = Settings {
        interrupt: interrupted()
            .map_err(|e| Failure::bad(format!("cannot wait for signals: {e}")))?,
        ..settings
    };
    let [input, output] = two(&options.ports, "--port", "where probes go in, where they come out")?;
    let environment = environment(options.eal.as_deref())?;
    let ports = (open(&input, 1, &environment)?, open(&output, 2, &environment)?);
    let mut looped = looped(&options.loopback, &environment)?;
    let pair = looped.as_mut().map(|(a, b)| (a, b));
    let mut progress = |line: &str| eprintln!("millrace: gauge: {line}");
    let mut report =
        ::gauge::gauge(&peer, &versions, ports, pair, settings, &modules, &mut progress);
    report.judge(&thresholds);
    report.command = std::env::args().collect();
    // All that was asked for is written, as far as that goes; the first that cannot be is told at the end.
    let mut unwritten = None;
    let mut keep = |done: Result<(), Failure>| {
        if let Err(text) = done.map_err(Failure::text) {
            unwritten.get_or_insert(text);
        }
    };
    if let Some(record) = record {
        keep(record.end().map_err(|e| Failure::Bad(format!("{}: {e}", record.path()))));
    }
    let json = serde_json::to_string(&report).map_err(Failure::bad)?;
    if let Some(path) = &options.out {
        keep(write(path, &json));
    }
    // Drawn from what a reader of the file would have.
    let stored = Stored::parse(&json).map_err(Failure::bad)?;
    if let Some(path) = &options.html {
        keep(write(path, &page(&[("report", &stored)])));
    }
    if let Some(path) = &options.junit {
        keep(write(path, &junit(&stored)));
    }
    if options.json {
        println!("{json}");
    } else {
        print!("{report}");
    }
    let verdict = report.verdict();
    let why = match verdict {
        Verdict::Good => match unwritten {
            None => return Ok(()),
            Some(text) => return Err(Failure::Status(Verdict::NotMeasured.status(), text)),
        },
        Verdict::Wanting => "the switch was found wanting; see the report".to_string(),
        Verdict::SwitchFailed => format!("the switch failed: {}", report.ended.why),
        Verdict::NotMeasured if !report.ended.why.is_empty() => report.ended.why.clone(),
        Verdict::NotMeasured => "a module broke off; see the report".to_string(),
        Verdict::Disturbed => {
            "a run or the calibration stayed disturbed; see the report".to_string()
        }
        Verdict::Interrupted => {
            "interrupted; the report tells what was measured until then".to_string()
        }
    };
    let why = unwritten.map_or(why.clone(), |text| format!("{why}; {text}"));
    Err(Failure::Status(verdict.status(), why))
}

/// From now on the first SIGINT or SIGTERM ends the session, with its report; the second ends the process.
fn interrupted() -> std::io::Result<Interrupt> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(Verdict::Interrupted.status()),
            flag.clone(),
        )?;
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(Interrupt::by(flag))
}

fn calibrate(options: &GaugeCalibrateOptions) -> Result<(), Failure> {
    within("--rate", options.rate, 1.0, 2e7)?;
    within("--probes", options.probes.into(), 1.0, 1e8)?;
    let mut looped = looped(&options.loopback, &environment(options.eal.as_deref())?)?;
    let pair = looped.as_mut().map(|(a, b)| (a, b));
    let settings =
        Settings { rate_pps: options.rate, probes: options.probes, ..Settings::default() };
    let done = ::gauge::calibrate::run(pair, &settings).map_err(Failure::bad)?;
    if options.json {
        println!("{}", serde_json::to_string(&done).map_err(Failure::bad)?);
    } else {
        print!("{done}");
        for text in advice(&done, Machine::now()) {
            println!("       {text}");
        }
    }
    if done.data_lost == 0 && done.disturbed.is_empty() {
        return Ok(());
    }
    if done.data_lost == 0 {
        let text = format!("the calibration was disturbed: {}", done.disturbed.join("; "));
        return Err(Failure::Status(Verdict::Disturbed.status(), text));
    }
    Err(Failure::Bad("probes were lost without a switch between: the rate is too high".into()))
}

/// The pair of ports to calibrate by.
fn looped(
    specs: &[String],
    environment: &Environment,
) -> Result<Option<(DataPort, DataPort)>, Failure> {
    if specs.is_empty() {
        return Ok(None);
    }
    let [a, b] = two(specs, "--loopback", "two ports joined back to back")?;
    Ok(Some((open(&a, 0, environment)?, open(&b, 0, environment)?)))
}

/// The switch, with what TLS needs.
fn peer(options: &GaugeRunOptions) -> Result<Peer, Failure> {
    let peer: Peer = options.switch.parse().map_err(Failure::usage)?;
    let files = options.private_key.clone().zip(options.certificate.clone());
    match files {
        Some((private_key, certificate)) => {
            let ca_cert = options.ca_cert.clone();
            Ok(peer.with_tls(TlsFiles {
                private_key,
                certificate,
                ca_cert,
                bootstrap: false,
                crl: None,
            }))
        }
        None if peer.is_tls() => Err(Failure::Usage(
            "--switch by TLS wants --private-key, --certificate and, to connect, --ca-cert".into(),
        )),
        None => Ok(peer),
    }
}

/// The modules of the user's own.
fn scripts(paths: &[PathBuf]) -> Result<Vec<Script>, Failure> {
    let read = |path: &PathBuf| {
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|e| Failure::Bad(format!("{name}: {e}")))?;
        Script::read(&name, &text).map_err(Failure::Bad)
    };
    paths.iter().map(read).collect()
}

/// What was described, and what was recorded.
fn traffic(options: &GaugeRunOptions) -> Result<Vec<(String, Arc<Frames>)>, Failure> {
    let faster = match (options.gaps.as_str(), options.gaps.strip_prefix("faster:")) {
        ("original", _) => Some(1.0),
        ("rate", _) => None,
        (_, Some(factor)) => factor.parse().ok().filter(|f| (1e-6..=1e6).contains(f)),
        _ => None,
    };
    if faster.is_none() && options.gaps != "rate" {
        let text = "expected original, rate or faster:F with F from 0.000001 to 1000000";
        return Err(Failure::Usage(format!("--gaps {}: {text}", options.gaps)));
    }
    let mut all = Vec::new();
    for text in &options.flows {
        let frames =
            describe::described(text).map_err(|e| Failure::Usage(format!("--flow: {e}")))?;
        all.push((text.clone(), Arc::new(frames)));
    }
    for path in &options.traces {
        let failed = |e: &dyn std::fmt::Display| Failure::Bad(format!("{}: {e}", path.display()));
        let file = std::fs::File::open(path).map_err(|e| failed(&e))?;
        let frames =
            describe::recorded(std::io::BufReader::new(file), faster).map_err(|e| failed(&e))?;
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        all.push((format!("{name}, gaps {}", options.gaps), Arc::new(frames)));
    }
    Ok(all)
}

fn filter(text: &str) -> Result<Arc<Filter>, Failure> {
    let parsed = Filter::parse(text).map_err(|e| Failure::Usage(format!("--filter: {e}")))?;
    Ok(Arc::new(parsed))
}

fn record(path: &Path) -> Result<Recording, Failure> {
    Recording::create(path).map_err(|e| Failure::Bad(format!("{}: {e}", path.display())))
}

fn modules(names: &[String]) -> Result<Vec<&'static Module>, Failure> {
    if names.is_empty() {
        return Ok(MODULES.iter().collect());
    }
    let find = |name: &String| {
        MODULES.iter().find(|m| m.name == name).ok_or_else(|| {
            let known: Vec<&str> = MODULES.iter().map(|m| m.name).collect();
            Failure::Usage(format!("there is no module {name}; known: {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}

fn within(what: &str, value: f64, min: f64, max: f64) -> Result<(), Failure> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Failure::Usage(format!("{what} {value}: expected a number from {min} to {max}")))
}

fn settings(options: &GaugeRunOptions) -> Result<Settings, Failure> {
    let arrivals: Arrivals = options.arrivals.parse().map_err(Failure::usage)?;
    within("--rate", options.rate, 1.0, 2e7)?;
    within("--probes", options.probes.into(), 1.0, 1e8)?;
    within("--rounds", options.rounds.into(), 1.0, 1e4)?;
    within("--repeat", options.repeat.into(), 1.0, 1000.0)?;
    within("--attempts", options.attempts.into(), 1.0, 100.0)?;
    for size in &options.sizes {
        within("--sizes", *size as f64, 64.0, 1518.0)?;
    }
    for batch in &options.batches {
        within("--batches", (*batch).into(), 1.0, (ADDRESSES_MAX - 1).into())?;
    }
    for rate in &options.more_rates {
        within("--more-rates", *rate, 1.0, 2e7)?;
    }
    for rules in &options.occupancies {
        within("--occupancies", (*rules).into(), 1.0, 1e7)?;
    }
    for flows in &options.active_flows {
        within("--active-flows", (*flows).into(), 1.0, FLOWS_MAX.into())?;
    }
    for masks in &options.masks {
        within("--masks", (*masks).into(), 1.0, MASKS_MAX.into())?;
    }
    within("--loss-probes", options.loss_probes.into(), 1.0, 1e9)?;
    within("--loss-rate", options.loss_rate, 1.0, 2e7)?;
    within("--max-rate", options.max_rate, 100.0, 2e7)?;
    within("--loss-goal", options.loss_goal, 0.0, 0.5)?;
    within("--trial-ms", options.trial_ms.into(), 10.0, 600_000.0)?;
    Ok(Settings {
        seed: options.seed,
        rate_pps: options.rate,
        arrivals,
        probes: options.probes,
        sizes: options.sizes.clone(),
        batches: options.batches.clone(),
        barrier_rounds: options.rounds,
        attempts: options.attempts,
        repetitions: options.repeat,
        more_rates_pps: options.more_rates.clone(),
        loss_probes: options.loss_probes,
        loss_pps: options.loss_rate,
        rate_max_pps: options.max_rate,
        loss_goal: options.loss_goal,
        trial_ms: options.trial_ms,
        occupancies: options.occupancies.clone(),
        active_flows: options.active_flows.clone(),
        masks: options.masks.clone(),
        restart: options.restart.clone(),
        switch_pid: options.switch_pid,
        described: traffic(options)?,
        scripts: scripts(&options.scripts)?,
        filter: options.filter.as_deref().map(filter).transpose()?,
        record: options.capture.as_deref().map(record).transpose()?,
        ..Settings::default()
    })
}

fn versions(list: &str) -> Result<Vec<Version>, Failure> {
    let one = |word: &str| {
        Version::from_name(word).ok_or_else(|| {
            let known = Version::ALL.map(Version::name).join(", ");
            Failure::Usage(format!("--protocols: unknown version {word:?}; known: {known}"))
        })
    };
    list.split(',').map(one).collect()
}

fn two(specs: &[String], option: &str, what: &str) -> Result<[Spec; 2], Failure> {
    let parsed: Vec<Spec> = specs
        .iter()
        .map(|s| port_kinds::parse(s).map_err(|e| Failure::Usage(format!("port {s:?}: {e}"))))
        .collect::<Result<_, _>>()?;
    let count = parsed.len();
    parsed.try_into().map_err(|_| {
        Failure::Usage(format!("{option} is wanted twice ({what}), not {count} times"))
    })
}

/// What kinds of ports find: traffic is generated, and DPDK's devices have one queue each way, as one thread sends and
/// captures.
fn environment(eal: Option<&str>) -> Result<Environment, Failure> {
    let eal = port_dpdk::eal::split(eal.unwrap_or_default()).map_err(Failure::Usage)?;
    let dpdk = port_dpdk::Options { eal, rx_queues: Some(1), ..port_dpdk::Options::default() };
    Ok(Environment::default().with(Generates).with(dpdk))
}

/// Opens a port of ours; without a number of its own it is wired to the switch's port `number`.
fn open(spec: &Spec, number: u32, environment: &Environment) -> Result<DataPort, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::Bad(format!("port {}: {e}", spec.name()));
    if let Some(OffWire { why, instead }) = spec.attachment.kind().off_wire {
        let kinds = KINDS.on_wire().join(", ");
        let instead = instead.map_or_else(|| format!("use one of {kinds}"), str::to_owned);
        return Err(Failure::Usage(format!("port {}: {why}; {instead}", spec.name())));
    }
    let port = spec.open(environment);
    let port = port.map_err(|e| failed(&e))?;
    DataPort::new(spec.name(), spec.number.unwrap_or(number), port).map_err(|e| failed(&e))
}
