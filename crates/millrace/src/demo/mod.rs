//! `millrace demo`: a switch at work, with hosts and traffic in this process.
//!
//! In: nothing but a name. A [`scene`](Scene) says which ports and flow entries the switch gets and
//! plays the hosts at their far ends; [`stage`] puts the switch together, the same one that
//! `millrace run` runs. Out: the live view, or a line a second, and totals. Flow entries are made as
//! lines of ovs-ofctl's syntax; `--print-flows` shows them, for `millrace run --flows`.
//!
//! Every frame that comes out is compared, byte by byte, with what the scene's own model of the
//! network says, which shares no code with the switch. At the end every frame must be accounted for.
//! Exit status 1 if one was wrong, if one is missing, or if nothing was forwarded.
//!
//! | module | holds |
//! |---|---|
//! | [`gateway`], [`firewall`], [`learning`] | the scenes |
//! | [`namespaces`] | the learning switch between network namespaces |
//! | [`stage`] | the switch, its agent, and the far ends of its ports |
//! | [`traffic`] | streams of frames with known outcomes, at full speed |
//! | [`frames`] | frames, built with `wire` |

mod firewall;
mod frames;
mod gateway;
mod learning;
mod namespaces;
mod scene;
mod stage;
mod traffic;

use crate::cli::{DemoName, DemoOptions};
use console::Sample;
use control::failure::Failure;
use control::signals::{EndSignals, came, on_end};
use control::sync::lock;
use scene::{Scene, Tally};
use serde_json::json;
use stage::Stage;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// `millrace demo`.
pub(crate) fn run(options: DemoOptions) -> Result<(), Failure> {
    if options.namespaces {
        if options.name != DemoName::Learning {
            return Err(Failure::usage(
                "--namespaces goes with the learning demo: millrace demo learning --namespaces",
            ));
        }
        return namespaces::run(&options);
    }
    let mut scene: Box<dyn Scene> = match options.name {
        DemoName::Gateway => Box::new(gateway::Gateway::new()),
        DemoName::Firewall => Box::new(firewall::Firewall::new()),
        DemoName::Learning => Box::new(learning::Learning::new()),
    };
    let flows = scene.flows();
    if options.print_flows {
        println!("{}", flows.join("\n"));
        return Ok(());
    }
    let signals = on_end().map_err(|e| Failure::Bad(format!("cannot wait for signals: {e}")))?;
    let live = !options.headless && !options.json && std::io::stdout().is_terminal();
    let stage = Stage::set(&scene.ports(), &flows)?;
    let tally = Tally::default();
    let stop = AtomicBool::new(false);
    let started = Instant::now();
    let until = options.seconds.and_then(|n| started.checked_add(Duration::from_secs(n)));
    let title = scene.title();
    let unicast = scene.is_unicast();
    let watched = std::thread::scope(|scope| {
        let player = scope.spawn(|| scene.play(stage.ends(), &stop, &tally));
        let watched = if live {
            watch_live(&title, &stage, &tally, &signals, until)
        } else {
            watch_lines(&stage, &signals, until);
            Ok(())
        };
        stop.store(true, Relaxed);
        if player.join().is_err() {
            tally.error(|| "the hosts stopped early".to_string());
        }
        watched
    });
    let seconds = started.elapsed().as_secs_f64();
    watched.map_err(|e| Failure::Bad(format!("the terminal: {e}")))?;
    let sample = settled(&stage, &tally);
    let learned = stage.learned();
    stage.stop();
    account(&sample, unicast, &tally);
    let flows = flows.len();
    let summary =
        Summary { options: &options, sample: &sample, tally: &tally, learned, seconds, flows };
    summary.show()
}

fn watch_live(
    title: &str,
    stage: &Stage,
    tally: &Tally,
    signals: &EndSignals,
    until: Option<Instant>,
) -> std::io::Result<()> {
    let over = || until.is_some_and(|t| Instant::now() >= t) || came(signals, Duration::ZERO);
    let notes = || tally.lines(stage.learned());
    console::live(title, || Sample::read(stage.switch()), notes, over)
}

/// A line a second on standard error.
fn watch_lines(stage: &Stage, signals: &EndSignals, until: Option<Instant>) {
    let mut before = Sample::read(stage.switch());
    loop {
        let second = Duration::from_secs(1);
        let left =
            until.map_or(second, |t| t.saturating_duration_since(Instant::now()).min(second));
        let interrupted = came(signals, left);
        let now = Sample::read(stage.switch());
        eprintln!("{}", console::line(&before, &now));
        before = now;
        if interrupted || until.is_some_and(|t| Instant::now() >= t) {
            return;
        }
    }
}

/// The counters once the switch is through with what it was given, or after two seconds.
fn settled(stage: &Stage, tally: &Tally) -> Sample {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let sample = Sample::read(stage.switch());
        if sample.rx_packets() >= tally.sent.load(Relaxed) || Instant::now() >= deadline {
            return sample;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every frame has its end: it came out and was taken, or was dropped for a reason. Where frames are
/// copied, only what goes in and what comes out can be compared.
fn account(sample: &Sample, unicast: bool, tally: &Tally) {
    let (sent, received) = (tally.sent.load(Relaxed), tally.received.load(Relaxed));
    let (rx, tx, dropped) = (sample.rx_packets(), sample.tx_packets(), sample.dropped());
    if rx != sent {
        tally.error(|| format!("hosts sent {sent} frames, the switch received {rx}"));
    }
    if tx != received {
        tally.error(|| format!("the switch sent {tx} frames, hosts received {received}"));
    }
    if unicast && rx != tx + dropped {
        tally.error(|| format!("received {rx} is not sent {tx} + dropped {dropped}"));
    }
}

struct Summary<'a> {
    options: &'a DemoOptions,
    sample: &'a Sample,
    tally: &'a Tally,
    learned: Option<String>,
    seconds: f64,
    flows: usize,
}

impl Summary<'_> {
    /// Prints the totals; an error if something was wrong.
    fn show(&self) -> Result<(), Failure> {
        let (rx, tx) = (self.sample.rx_packets(), self.sample.tx_packets());
        let (verified, errors) =
            (self.tally.verified.load(Relaxed), self.tally.errors.load(Relaxed));
        let pps = rx as f64 / self.seconds.max(1e-9);
        let name = self.options.name.word();
        if self.options.json {
            println!(
                "{}",
                json!({
                    "demo": name, "seconds": (self.seconds * 1000.0).round() / 1000.0,
                    "packets": rx, "forwarded": tx, "dropped": self.sample.drops, "pps": pps.round(),
                    "verified": verified, "errors": errors, "engine": self.sample.engine,
                    "flows": self.flows,
                })
            );
        } else {
            let drops: Vec<String> = self
                .sample
                .drops
                .iter()
                .filter(|(_, n)| **n > 0)
                .map(|(reason, n)| format!("{reason} {n}"))
                .collect();
            let drops = if drops.is_empty() { "none".to_string() } else { drops.join(", ") };
            eprintln!(
                "{name}: {rx} frames in, {tx} out in {:.1} s ({}pps, engine {}, {} flow entries)",
                self.seconds,
                console::short(pps),
                self.sample.engine,
                self.flows
            );
            eprintln!("dropped: {drops}");
            self.tally.lines(self.learned.clone()).iter().for_each(|l| eprintln!("{l}"));
        }
        if errors > 0 {
            let first = lock(&self.tally.first_error).clone().unwrap_or_default();
            return Err(Failure::Bad(format!("{errors} errors; the first: {first}")));
        }
        if tx == 0 {
            return Err(Failure::Bad("nothing was forwarded".to_string()));
        }
        Ok(())
    }
}
