//! `millrace gauge`: characterises any OpenFlow switch.
//!
//! In: how to reach the switch, and two ports wired to it. Out: a table, or with `--json` one object;
//! progress on standard error. Exit status 0 says that nothing was found, no threshold is broken and
//! no run was invalid; 1 the contrary, or that nothing could be measured.

use crate::Failure;
use crate::cli::{GaugeCommand, GaugeRunOptions};
use ::gauge::{Arrivals, DataPort, MODULES, Module, Peer, Settings, Threshold};
use openflow::Version;
use port::spec::{Kind, Spec};

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
    }
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
        std::fs::write(path, &json)
            .map_err(|e| Failure::Bad(format!("{}: {e}", path.display())))?;
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
