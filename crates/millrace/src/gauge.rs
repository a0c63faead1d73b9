//! `millrace gauge`: characterises any OpenFlow switch.
//!
//! In: how to reach the switch, and two ports wired to it. Out: a table, or with `--json` one object;
//! progress on standard error; on demand a page of plots and JUnit XML. `gauge page` and `gauge compare`
//! make theirs from the reports in files. Exit status 0 says that nothing was found, no threshold is broken and
//! no run was invalid; 1 the contrary, or that nothing could be measured.

use crate::Failure;
use crate::cli::{GaugeCommand, GaugeRunOptions};
use ::gauge::compare::compare;
use ::gauge::junit::junit;
use ::gauge::page::page;
use ::gauge::{Arrivals, DataPort, MODULES, Module, Peer, Settings, Stored, Threshold};
use openflow::Version;
use port::spec::{Kind, Spec};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// `millrace gauge`.
pub(crate) fn run(command: GaugeCommand) -> Result<(), Failure> {
    match command {
        GaugeCommand::Modules => {
            for module in MODULES {
                println!("{:<12} {}", module.name, module.about);
            }
            Ok(())
        }
        GaugeCommand::Run(options) => measure(*options),
        GaugeCommand::Page(options) => draw(&options.reports, &options.out),
        GaugeCommand::Compare(options) => {
            let (a, b) = (read(&options.a)?, read(&options.b)?);
            let names = names(&[options.a.clone(), options.b.clone()]);
            print!("{}", compare([&names[0], &names[1]], &a, &b));
            match &options.html {
                Some(out) => draw(&[options.a, options.b], out),
                None => Ok(()),
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
    let peer: Peer = options.switch.parse().map_err(Failure::usage)?;
    let modules = modules(&options.modules)?;
    let settings = settings(&options)?;
    let versions = versions(&options.protocols)?;
    let thresholds = options
        .at_most
        .iter()
        .map(|t| t.parse().map_err(Failure::usage))
        .collect::<Result<Vec<Threshold>, _>>()?;
    let [input, output] = two(&options.ports, "--port", "where probes go in, where they come out")?;
    let looped = match options.loopback.is_empty() {
        true => None,
        false => Some(two(&options.loopback, "--loopback", "two ports joined back to back")?),
    };
    let ports = (open(&input, 1)?, open(&output, 2)?);
    let mut looped = match &looped {
        Some([a, b]) => Some((open(a, 0)?, open(b, 0)?)),
        None => None,
    };
    let pair = looped.as_mut().map(|(a, b)| (a, b));
    let mut progress = |line: &str| eprintln!("millrace: gauge: {line}");
    let mut report =
        ::gauge::gauge(&peer, &versions, ports, pair, settings, &modules, &mut progress)
            .map_err(Failure::bad)?;
    report.judge(&thresholds);
    let json = serde_json::to_string(&report).map_err(Failure::bad)?;
    if let Some(path) = &options.out {
        write(path, &json)?;
    }
    // Drawn from what a reader of the file would have.
    let stored = Stored::parse(&json).map_err(Failure::bad)?;
    if let Some(path) = &options.html {
        write(path, &page(&[("report", &stored)]))?;
    }
    if let Some(path) = &options.junit {
        write(path, &junit(&stored))?;
    }
    if options.json {
        println!("{json}");
    } else {
        print!("{report}");
    }
    if report.good {
        return Ok(());
    }
    Err(Failure::Bad("the switch was found wanting, or a run was invalid; see the report".into()))
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

fn settings(options: &GaugeRunOptions) -> Result<Settings, Failure> {
    let arrivals: Arrivals = options.arrivals.parse().map_err(Failure::usage)?;
    let within = |what: &str, value: f64, min: f64, max: f64| {
        if (min..=max).contains(&value) {
            return Ok(());
        }
        Err(Failure::Usage(format!("{what} {value}: expected a number from {min} to {max}")))
    };
    within("--rate", options.rate, 1.0, 2e7)?;
    within("--probes", options.probes.into(), 1.0, 1e8)?;
    within("--rounds", options.rounds.into(), 1.0, 1e4)?;
    within("--attempts", options.attempts.into(), 1.0, 100.0)?;
    for size in &options.sizes {
        within("--sizes", *size as f64, 64.0, 1518.0)?;
    }
    for batch in &options.batches {
        within("--batches", (*batch).into(), 1.0, (::gauge::probe::FLOWS_MAX - 1).into())?;
    }
    Ok(Settings {
        seed: options.seed,
        rate_pps: options.rate,
        arrivals,
        probes: options.probes,
        sizes: options.sizes.clone(),
        batches: options.batches.clone(),
        barrier_rounds: options.rounds,
        attempts: options.attempts,
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
    let parsed: Vec<Spec> =
        specs.iter().map(|s| Spec::parse(s).map_err(Failure::usage)).collect::<Result<_, _>>()?;
    let count = parsed.len();
    parsed.try_into().map_err(|_| {
        Failure::Usage(format!("{option} is wanted twice ({what}), not {count} times"))
    })
}

/// Opens a port of ours; without a number of its own it is wired to the switch's port `number`.
fn open(spec: &Spec, number: u32) -> Result<DataPort, Failure> {
    let port = match &spec.kind {
        Kind::AfXdp(xdp) => port_xdp::open(xdp),
        Kind::Tap(_) | Kind::AfPacket(_) => spec.open(),
        Kind::Pcap { .. } | Kind::Memory(_) | Kind::Dpdk(_) => {
            let text = "a switch is measured through af_packet, af_xdp or tap ports";
            return Err(Failure::Usage(format!("port {}: {text}", spec.name())));
        }
    };
    let failed = |e: &dyn std::fmt::Display| Failure::Bad(format!("port {}: {e}", spec.name()));
    let port = port.map_err(|e| failed(&e))?;
    DataPort::new(spec.name(), spec.number.unwrap_or(number), port).map_err(|e| failed(&e))
}
