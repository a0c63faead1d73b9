//! `observe`: frames as they come in, each with what became of it: a stream of lines of JSON, sampled at a bounded cost.
//!
//! `capture` copies every frame; this looks at so many a second, and below that rate at each. A filter is a match in
//! the syntax of flow entries, and means what an entry with it means.

use super::capture::{is_gone, name, wall_ns};
use crate::protocol::{Reply, line};
use crate::role::Role;
use crate::verb::{At, Verb};
use of_lower::filter::FrameFilter;
use openflow::syntax::{self, Context};
use openflow::{PortNo, Version};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use switch::{CaptureFilter, CaptureRecord, Captured, Switch};

/// Frames that each worker looks at in a second, unless the question says otherwise.
pub const RATE: u32 = 2_000;
/// Octets of a frame that a filter and a summary look at.
const SNAP: usize = 512;
/// Written frames are handed on after so long at the latest.
const TICK: Duration = Duration::from_millis(50);
/// How often it is told how many frames nobody looked at.
const REPORT: Duration = Duration::from_secs(1);

/// The question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Observe {
    /// A match as flow entries have it; all frames if it is empty.
    pub filter: String,
    /// Those alone of which at least one copy is dropped.
    pub dropped: bool,
    /// Those alone that are dropped for this reason.
    pub reason: Option<String>,
    /// So many frames a second each worker looks at.
    pub rate: NonZeroU32,
    /// So many frames.
    pub count: Option<u64>,
    /// The frame's octets, in hexadecimal.
    pub hex: bool,
}

impl Default for Observe {
    fn default() -> Observe {
        Observe {
            filter: String::new(),
            dropped: false,
            reason: None,
            rate: const { NonZeroU32::new(RATE).unwrap() },
            count: None,
            hex: false,
        }
    }
}

/// A line of the stream: a frame, or a remark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// What was not looked at. It is tried first: a frame's fields may be missing, these not.
    Passed(Passed),
    /// A frame.
    Seen(Seen),
}

/// A frame that came in, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// When: microseconds since 1970.
    pub time_us: u64,
    /// The port it came in by.
    pub in_port: u32,
    /// That port's name.
    pub in_name: String,
    /// Its octets.
    pub len: usize,
    /// Addresses, protocol, ports.
    pub summary: String,
    /// `forwarded`, `dropped`, `controller`, or several with `+` between; `none` if nothing is known.
    pub verdict: String,
    /// Names of ports that copies went to.
    pub sent: Vec<String>,
    /// Why copies went nowhere.
    pub dropped: Vec<Dropped>,
    /// Copies for the controller.
    pub punted: u32,
    /// Octets in hexadecimal, if they were asked for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hex: String,
}

/// Why a frame or a copy of it went nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dropped {
    /// The reason, as counters call it.
    pub reason: String,
    /// The port that the copy should have gone to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// Frames of the last second that are not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Nobody looked at them: more came than the rate allows.
    pub passed: u64,
    /// They found no room on their way here.
    pub missed: u64,
}

impl Verb for Observe {
    const NAME: &'static str = "observe";
    const ABOUT: &'static str = "Verdicts of frames as they come in, sampled: a stream";
    type Answer = ();

    fn answer(self, at: &At<'_>) -> Result<Reply<()>, String> {
        let switch = at.switch()?.clone();
        let chosen = Chosen::of(&switch, &self)?;
        Ok(Reply::Stream((), Box::new(move |client| self.stream(&switch, chosen, client))))
    }

    /// Frames are told.
    fn role(&self) -> Role {
        Role::Operate
    }

    fn text((): &()) -> String {
        String::new()
    }
}

/// Every reason for which a frame, or a copy of it, may go nowhere.
fn reasons() -> impl Iterator<Item = &'static str> {
    let program = ir::DropReason::ALL.iter().map(|reason| reason.word());
    program.chain(port::DropReason::ALL.iter().map(|reason| reason.name()))
}

/// Which frames are told.
struct Chosen {
    filter: Option<FrameFilter>,
    dropped: bool,
    reason: Option<String>,
}

impl Chosen {
    fn of(switch: &Switch, question: &Observe) -> Result<Chosen, String> {
        let ports = switch.ports();
        let named = |name: &str| {
            let port = ports.iter().find(|port| port.info.name == name)?;
            Some(PortNo(port.number))
        };
        let context = Context { version: Version::V15, ports: &named };
        let failed = |error: String| format!("{}: {error}", question.filter);
        let matching = syntax::parse_match(&question.filter, &context);
        let matching = matching.map_err(|error| failed(error.to_string()))?;
        let filter = match matching.is_empty() {
            true => None,
            false => Some(FrameFilter::new(&matching).map_err(failed)?),
        };
        if let Some(reason) = &question.reason
            && !reasons().any(|known| known == reason)
        {
            let known: Vec<&str> = reasons().collect();
            return Err(format!(
                "no frame is dropped for {reason:?}; reasons are {}",
                known.join(", ")
            ));
        }
        Ok(Chosen { filter, dropped: question.dropped, reason: question.reason.clone() })
    }

    fn takes(&mut self, record: &CaptureRecord) -> bool {
        let drops = &record.fate.dropped;
        if self.dropped && drops.is_empty() {
            return false;
        }
        if let Some(only) = &self.reason
            && !drops.iter().any(|(reason, _)| reason == only)
        {
            return false;
        }
        self.filter.as_mut().is_none_or(|filter| filter.takes(record.port, &record.bytes))
    }
}

impl Observe {
    /// Writes lines until the reader has gone or has had as many as it wants.
    fn stream(&self, switch: &Switch, mut chosen: Chosen, client: &UnixStream) -> io::Result<()> {
        let captured = switch.capture(CaptureFilter {
            ingress: true,
            rate: Some(self.rate),
            snap_len: SNAP,
            ..CaptureFilter::default()
        });
        let mut out = BufWriter::new(client);
        let mut names = Names::default();
        let mut left = self.count.unwrap_or(u64::MAX);
        let (mut flushed, mut reported) = (Instant::now(), Instant::now());
        let mut told = Passed::default();
        while left > 0 {
            if let Some(record) = captured.next(TICK)
                && chosen.takes(&record)
            {
                out.write_all(&line(&seen(switch, &mut names, &record, self.hex))?)?;
                left -= 1;
            }
            if flushed.elapsed() < TICK && left > 0 {
                continue;
            }
            if reported.elapsed() >= REPORT || left == 0 {
                reported = Instant::now();
                report(&captured, &mut told, &mut out)?;
                names.known.clear();
            }
            out.flush()?;
            flushed = Instant::now();
            if is_gone(client) {
                return Ok(());
            }
        }
        out.flush()
    }
}

/// Tells what was not looked at since it was told last.
fn report(captured: &Captured, told: &mut Passed, out: &mut impl Write) -> io::Result<()> {
    let now = Passed { passed: captured.passed(), missed: captured.missed() };
    let since = Passed { passed: now.passed - told.passed, missed: now.missed - told.missed };
    *told = now;
    match since == Passed::default() {
        true => Ok(()),
        false => out.write_all(&line(&since)?),
    }
}

/// Names of ports, which are looked up once a second.
#[derive(Default)]
struct Names {
    known: BTreeMap<u32, String>,
}

impl Names {
    fn of(&mut self, switch: &Switch, port: u32) -> String {
        self.known.entry(port).or_insert_with(|| name(switch, port)).clone()
    }
}

fn seen(switch: &Switch, names: &mut Names, record: &CaptureRecord, hex: bool) -> Seen {
    let fate = &record.fate;
    let kinds = [
        (!fate.sent.is_empty(), "forwarded"),
        (!fate.dropped.is_empty(), "dropped"),
        (fate.punted > 0, "controller"),
    ];
    let verdict: Vec<&str> = kinds.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    let mut octets = String::new();
    if hex {
        for octet in &record.bytes {
            // Writing to a string does not fail.
            let _ = write!(octets, "{octet:02x}");
        }
    }
    Seen {
        time_us: wall_ns(switch, record.ns) / 1_000,
        in_port: record.port,
        in_name: names.of(switch, record.port),
        len: record.len,
        summary: wire::summary(&record.bytes),
        verdict: if verdict.is_empty() { "none".to_owned() } else { verdict.join("+") },
        sent: fate.sent.iter().map(|port| names.of(switch, *port)).collect(),
        dropped: fate
            .dropped
            .iter()
            .map(|(reason, port)| Dropped {
                reason: (*reason).to_owned(),
                at: port.map(|port| names.of(switch, port)),
            })
            .collect(),
        punted: fate.punted,
        hex: octets,
    }
}

/// A line for people.
pub fn shown(line: &Line) -> String {
    let seen = match line {
        Line::Passed(Passed { passed, missed: 0 }) => {
            return format!("{passed} more frames came; --rate N looks at more");
        }
        Line::Passed(Passed { passed, missed }) => {
            return format!(
                "{} more frames came; {missed} of them had no room on their way here",
                passed + missed
            );
        }
        Line::Seen(seen) => seen,
    };
    let (seconds, micros) = (seen.time_us / 1_000_000 % 86_400, seen.time_us % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut fates = Vec::new();
    if !seen.sent.is_empty() {
        fates.push(format!("to {}", seen.sent.join(", ")));
    }
    fates.extend(seen.dropped.iter().map(|dropped| match &dropped.at {
        Some(port) => format!("DROPPED at {port}: {}", dropped.reason),
        None => format!("DROPPED: {}", dropped.reason),
    }));
    if seen.punted > 0 {
        fates.push("to the controller".to_owned());
    }
    if fates.is_empty() {
        fates.push("nothing is known of it".to_owned());
    }
    let mut out = format!(
        "{hour:02}:{minute:02}:{second:02}.{micros:06} {:<10} {} -> {}",
        seen.in_name,
        seen.summary,
        fates.join("; ")
    );
    if !seen.hex.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(out, "\n    {}", seen.hex);
    }
    out
}

#[cfg(test)]
mod tests;
