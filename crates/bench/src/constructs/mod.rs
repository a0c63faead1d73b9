//! `millrace bench constructs`: what each construct of either language costs beside plain output, and by what it is run.
//!
//! Each line of `openflow.txt` and `p4.txt` is put alone into a whole switch of one worker behind ports in memory
//! ([`wired`](super::wired)), and timed in turns with that language's first line, which only sends its frames to a port.
//!
//! Before anything is timed, frames must have left as the line says they do, and a switch that interprets everything, given
//! the same frames, must have sent the same bytes by the same ports in the same order. Packets are counted by what has run
//! them, and the counts must be those of the frames.
//!
//! | module | holds |
//! |---|---|
//! | [`list`] | the lines, and programs made of them |
//! | [`frames`] | their frames |

mod frames;
mod list;

use super::measure::{Sample, median};
use super::patch;
use super::trace::Trace;
use super::wired::Wired;
use crate::options::BenchConstructsOptions;
use control::bridges::{Bond, BondError, Mirror, MirrorError, of_named_port};
use control::failure::Failure;
use control::program::tables::Told;
use list::{Construct, Part};
use of_pipeline::vlans::NormalConfig;
use serde_json::{Value, json};
use std::fmt::Write as _;
use switch::{Counted, EngineKind, Ran};

pub(super) use frames::FLOWS;
pub use list::Language;

/// TCP frames of [`FLOWS`] flows, in random order.
pub(super) fn tcp() -> Result<Trace, Failure> {
    "tcp".parse::<frames::Kind>().map_err(Failure::Bad)?.trace()
}

/// Ports of the switch.
const PORTS: u32 = 4;
/// Copies to the control side a second where they are not what is measured.
const PUNT_RATE: u64 = 1_000_000_000;
/// Rounds of all frames until nothing is learnt any more, at most.
const ROUNDS_MAX: usize = 50;
/// Frames of a run, at least and at most.
const FRAMES: std::ops::RangeInclusive<u64> = 2048..=4_000_000;

/// `millrace bench constructs`.
pub(crate) fn run(options: &BenchConstructsOptions) -> Result<(), Failure> {
    if !(options.seconds > 0.0 && options.seconds <= 60.0) || options.runs == 0 {
        return Err(Failure::usage("--seconds must be above 0 and at most 60, --runs at least 1"));
    }
    let (mut rows, mut wrong, mut interpreted) = (Vec::new(), 0, 0);
    for language in Language::ALL {
        if options.language.is_some_and(|only| only != language) {
            continue;
        }
        let constructs = language.constructs().map_err(Failure::Bad)?;
        let named =
            |c: &&Construct| options.only.as_ref().is_none_or(|o| c.name.contains(o.as_str()));
        let mut add = |row: Value| {
            wrong += usize::from(!row["wrong"].is_null());
            interpreted += usize::from(row["interpreted"].as_f64().unwrap_or(0.0) > 0.0);
            if !options.json {
                if rows.is_empty() {
                    println!("{HEAD}");
                }
                print!("{}", text(&row));
            }
            rows.push(row);
        };
        // Of each kind of frames that constructs have.
        let mut plain: Vec<(frames::Kind, Station)> = Vec::new();
        for construct in constructs.iter().filter(named) {
            let row = beside(&mut plain, &constructs[0], construct.frames)
                .and_then(|plain| one(construct, plain, options));
            let row = row.unwrap_or_else(|failure| {
                json!({
                    "language": language.name(), "name": construct.name, "wrong": failure.text(),
                })
            });
            add(row);
        }
        // The one that takes two bridges.
        let wanted = options.only.as_ref().is_none_or(|only| patch::ROW.contains(only.as_str()));
        if language == Language::Openflow && wanted {
            let row = patch::row(options.check, options.runs).unwrap_or_else(|failure| {
                json!({
                    "language": language.name(), "name": patch::ROW, "wrong": failure.text(),
                })
            });
            add(row);
        }
    }
    if rows.is_empty() {
        return Err(Failure::usage("no construct has that in its name"));
    }
    if options.json {
        let value = json!({
            "constructs": rows, "cpu": crate::measure::cpu(), "runs": options.runs, "seconds": options.seconds,
            "wrong": wrong, "with_interpreted": interpreted,
        });
        println!("{value}");
    } else {
        println!(
            "{} constructs, {interpreted} with interpreted packets, {wrong} wrong",
            rows.len()
        );
    }
    if wrong > 0 {
        return Err(Failure::Bad(format!("{wrong} constructs do not what they should")));
    }
    if options.check && interpreted > 0 {
        return Err(Failure::Bad(format!("packets of {interpreted} constructs were interpreted")));
    }
    Ok(())
}

/// Plain output of these frames, made when it is first asked for.
fn beside<'a>(
    made: &'a mut Vec<(frames::Kind, Station)>,
    output: &Construct,
    frames: frames::Kind,
) -> Result<&'a mut Station, Failure> {
    let at = match made.iter().position(|(kind, _)| *kind == frames) {
        Some(at) => at,
        None => {
            let mut station =
                Station::new(&Construct { frames, ..output.clone() }, EngineKind::default())?;
            station.warm()?;
            made.push((frames, station));
            made.len() - 1
        }
    };
    Ok(&mut made[at].1)
}

/// One construct: checked, and timed unless only that is asked for.
fn one(
    construct: &Construct,
    plain: &mut Station,
    options: &BenchConstructsOptions,
) -> Result<Value, Failure> {
    let mut station = Station::new(construct, EngineKind::default())?;
    compare(construct, &mut station)?;
    station.warm()?;
    let mut row = json!({
        "language": construct.language.name(), "name": construct.name,
        "copies": construct.copies, "told": construct.told,
    });
    // What is checked is what is timed, or as many frames as the trace has.
    let mut tried = station.tried(station.frames)?;
    if !options.check {
        let frames = |station: &mut Station| -> Result<u64, Failure> {
            let ns = station.run(station.frames)?.ns().max(1.0);
            let frames = (options.seconds * 1e9 / ns) as u64;
            Ok(frames.clamp(*FRAMES.start(), *FRAMES.end()))
        };
        let (own, others) = (frames(&mut station)?, frames(plain)?);
        let before = station.wired.switch().ran();
        let (mut ns, mut plain_ns, mut pairs, mut packets) =
            (Vec::new(), Vec::new(), Vec::new(), 0);
        for _ in 0..options.runs {
            let beside = plain.run(others)?.ns();
            let sample = station.run(own)?;
            packets += sample.packets;
            ns.push(sample.ns());
            plain_ns.push(beside);
            pairs.push(sample.ns() / beside);
        }
        tried = since(&station.wired.switch().ran(), &before);
        if tried.packets() != packets {
            let said = tried.packets();
            return Err(Failure::Bad(format!(
                "of {packets} packets, {said} were run by something"
            )));
        }
        let (ns, plain_ns) = (median(ns), median(plain_ns));
        row["ns"] = json!(ns);
        row["plain_ns"] = json!(plain_ns);
        row["more_ns"] = json!(ns - plain_ns);
        row["ratio"] = json!(median(pairs));
    }
    let all = tried.packets().max(1) as f64;
    for ran in [Ran::Whole, Ran::Interpreter] {
        let (packets, reasons) = tried.of(ran);
        let share = match ran {
            Ran::Whole => "whole",
            _ => "interpreted",
        };
        row[share] = json!(packets as f64 / all);
        let texts: Vec<&str> = reasons.iter().map(|(text, _)| &**text).collect();
        row[format!("why_{share}")] = json!(texts);
    }
    row["packets"] = json!(tried.packets());
    Ok(row)
}

/// What was counted since.
pub(super) fn since(now: &Counted, before: &Counted) -> Counted {
    let left = |now: &datapath::tally::Left, before: &datapath::tally::Left| {
        let old =
            |text: &str| before.reasons.iter().find(|(t, _)| **t == *text).map_or(0, |(_, n)| *n);
        let reasons = now.reasons.iter().map(|(text, n)| (text.clone(), n - old(text)));
        let reasons = reasons.filter(|(_, n)| *n > 0).collect();
        datapath::tally::Left { packets: now.packets - before.packets, reasons }
    };
    Counted {
        code: now.code.saturating_sub(before.code),
        whole: left(&now.whole, &before.whole),
        interpreter: left(&now.interpreter, &before.interpreter),
        full: now.full.since(before.full),
    }
}

/// A construct in a switch.
struct Station {
    wired: Wired,
    /// Frames of port 1's trace.
    frames: u64,
    learns: bool,
    copies: u64,
    told: u64,
}

impl Station {
    fn new(construct: &Construct, engine: EngineKind) -> Result<Station, Failure> {
        let trace = construct.frames.trace()?;
        let frames = (0..trace.len()).filter(|n| trace.head(*n).0 == 1).count() as u64;
        let wired = wired(construct, engine, &trace)?;
        let (copies, told) = (construct.copies, construct.told);
        Ok(Station { wired, frames, learns: construct.learns, copies, told })
    }

    /// Has all frames come in until nothing is learnt any more, so that connections, entries and the first
    /// copies of a rate are behind what follows.
    fn warm(&mut self) -> Result<(), Failure> {
        let entries = |station: &Station| station.wired.entries();
        for round in 0.. {
            let before = entries(self);
            self.wired.round()?;
            if !self.learns || round > 0 && entries(self) == before {
                break;
            }
            if round == ROUNDS_MAX {
                return Err(Failure::Bad(format!("after {round} rounds it still learns")));
            }
        }
        self.wired.settle()
    }

    fn run(&mut self, frames: u64) -> Result<Sample, Failure> {
        Ok(self.wired.run(1, frames, self.told > 0 || self.learns)?.0)
    }

    /// Has frames come in, looks that as many copies leave as should, and says by what packets were run.
    fn tried(&mut self, frames: u64) -> Result<Counted, Failure> {
        let sent = |station: &Station| station.wired.sent().iter().sum::<u64>();
        let (before, copies) = (self.wired.switch().ran(), sent(self));
        let (_, mut told) = self.wired.run(1, frames, true)?;
        self.wired.switch().sync();
        told += self.wired.pump();
        let ran = since(&self.wired.switch().ran(), &before);
        let copies = sent(self) - copies;
        // Those of a rate that is exceeded are few, and may be some.
        let rare = |n: u64, each: u64| n == frames * each || each == 0 && n <= frames / 20;
        if !rare(copies, self.copies) || !rare(told, self.told) && !self.learns {
            return Err(Failure::Bad(format!(
                "{frames} frames gave {copies} copies and {told} messages to the control side, not {} and {} each",
                self.copies, self.told
            )));
        }
        if ran.packets() != frames {
            return Err(Failure::Bad(format!(
                "of {frames} packets, {} were run by something",
                ran.packets()
            )));
        }
        Ok(ran)
    }
}

/// A switch with a construct.
fn wired(construct: &Construct, engine: EngineKind, trace: &Trace) -> Result<Wired, Failure> {
    let punt_rate = construct.punt_rate.unwrap_or(PUNT_RATE);
    if construct.language == Language::P4 {
        let (program, commands) = (construct.program(), construct.commands());
        let program = (construct.name.as_str(), program.as_str(), commands.as_str());
        return Wired::p4(engine, punt_rate, PORTS, trace, program);
    }
    let mut wired = Wired::with_tunnels(engine, punt_rate, PORTS, trace, &construct.tunnels)?;
    wired.pump();
    wired.set_normal(normal(construct)?)?;
    let option = |part: &Part| match part {
        Part::Option(mapping) => Some(*mapping),
        _ => None,
    };
    wired.map_options(construct.parts.iter().filter_map(option).collect())?;
    for part in &construct.parts {
        let (what, line) = match part {
            Part::Group(line) => (Told::Group, line),
            Part::Meter(line) => (Told::Meter, line),
            Part::Flow(line) => (Told::Flow, line),
            Part::Service(words) => {
                let Some(elements) = wired.switch().services().elements() else { continue };
                control::program::services::add_all(elements, std::slice::from_ref(words))
                    .map_err(Failure::Bad)?;
                continue;
            }
            Part::Vlan(_) | Part::Mirror(_) | Part::Bond(_) | Part::Option(_) => continue,
            Part::Text(..) | Part::Command(_) => continue,
        };
        wired.tell(what, line).map_err(|e| Failure::Bad(format!("{line}: {e}")))?;
    }
    Ok(wired)
}

/// VLANs, mirrors and bonds, whose ports are numbers.
fn normal(construct: &Construct) -> Result<NormalConfig, Failure> {
    let mut config = NormalConfig::default();
    let number = |name: &str| name.parse::<u32>().ok();
    for part in &construct.parts {
        let wrong = |why: String| Failure::Bad(format!("{part:?}: {why}"));
        match part {
            Part::Vlan(text) => {
                let (port, vlan) = of_named_port(text).map_err(wrong)?;
                let port = number(&port).ok_or_else(|| wrong("not a number".to_owned()))?;
                config.ports.extend(vlan.of_port().map(|vlan| (port, vlan)));
            }
            Part::Mirror(text) => {
                let mirror: Mirror = text.parse().map_err(|e: MirrorError| wrong(e.to_string()))?;
                config.mirrors.extend(mirror.of_ports(number));
            }
            Part::Bond(text) => {
                let bond: Bond = text.parse().map_err(|e: BondError| wrong(e.to_string()))?;
                let place = config.bonds.len() as u32;
                config.bonds.push(bond.settled(place, number));
            }
            _ => {}
        }
    }
    Ok(config)
}

/// Both engines send the same, of all frames once.
fn compare(construct: &Construct, station: &mut Station) -> Result<(), Failure> {
    let mut other = Station::new(construct, EngineKind::Interp)?;
    let mut sent = Vec::new();
    for station in [station, &mut other] {
        station.wired.settle()?;
        station.wired.record(true);
        station.wired.round()?;
        station.wired.record(false);
        sent.push(station.wired.recorded());
    }
    for (port, (own, right)) in (1..).zip(sent[0].iter().zip(&sent[1])) {
        if own == right {
            continue;
        }
        let at =
            own.iter().zip(right).position(|(a, b)| a != b).unwrap_or(own.len().min(right.len()));
        let show =
            |frames: &[Vec<u8>]| frames.get(at).map_or("nothing".into(), |f| wire::summary(f));
        return Err(Failure::Bad(format!(
            "port {port}, frame {at} of {} and {}: the switch sends {}, one that interprets everything {}",
            own.len(),
            right.len(),
            show(own),
            show(right)
        )));
    }
    Ok(())
}

const HEAD: &str =
    "construct                            ns     more   ratio  interpreted   whole  why";

/// For people.
fn text(row: &Value) -> String {
    let mut out = String::new();
    let name = format!(
        "{} {}",
        row["language"].as_str().unwrap_or(""),
        row["name"].as_str().unwrap_or("")
    );
    // Writing to a string does not fail.
    let _ = write!(out, "{name:<32}");
    if let Some(wrong) = row["wrong"].as_str() {
        let _ = writeln!(out, "  WRONG: {wrong}");
        return out;
    }
    let number = |key: &str| row[key].as_f64();
    match number("ns").zip(number("more_ns")).zip(number("ratio")) {
        Some(((ns, more), ratio)) => {
            let _ = write!(out, "{ns:>7.1} {more:>8.1} {ratio:>7.2}");
        }
        None => {
            let _ = write!(out, "{:>7} {:>8} {:>7}", "-", "-", "-");
        }
    }
    let share = |key: &str| 100.0 * number(key).unwrap_or(0.0);
    let why = ["why_interpreted", "why_whole"].iter().find_map(|key| row[*key][0].as_str());
    let _ = writeln!(
        out,
        "  {:>9.1} %  {:>5.1} %  {}",
        share("interpreted"),
        share("whole"),
        why.unwrap_or("")
    );
    out
}
