//! `t` of a script: what it can ask of a measurement.

use super::limits::{CAPTURES_MAX, NAME_LEN_MAX, NAMES_MAX, POINTS_MAX, TEXT_LEN_MAX, WAITING_MAX};
use crate::clock;
use crate::control::packet_out;
use crate::latency::Latency;
use crate::probe::{self, Probe};
use crate::run::{Finding, intern};
use mlua::{UserData, UserDataMethods};
use openflow::syntax::{self, Context};
use openflow::{FlowModCommand, FlowStatsRequest, Message, MultipartRequest};
use openflow::{MultipartRequestBody, PortNo, Version, Xid};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// What the script and the measurement share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) version: Option<Version>,
    pub(super) input: u32,
    pub(super) output: u32,
    pub(super) began: u64,
    pub(super) next_xid: u32,
    pub(super) outgoing: Vec<Message>,
    pub(super) timers: BTreeSet<(u64, i64)>,
    pub(super) stopped: bool,
    pub(super) limit: Option<Duration>,
    pub(super) scrapes: Vec<String>,
    pub(super) polls: Vec<(String, String, Vec<String>)>,
    pub(super) figures: Vec<(String, f64)>,
    pub(super) latencies: BTreeMap<String, Latency>,
    pub(super) series: BTreeMap<String, Vec<(f64, f64)>>,
    pub(super) findings: Vec<Finding>,
    pub(super) notes: Vec<String>,
}

impl Shared {
    /// Queues a message; its transaction.
    pub(super) fn send(&mut self, message: Message) -> mlua::Result<u32> {
        room("messages", self.outgoing.len())?;
        // One that cannot be said is refused here, not when the others are sent.
        openflow::codec::encode(self.version(), Xid(0), &message)
            .map_err(|e| bad(e.to_string()))?;
        self.outgoing.push(message);
        self.next_xid = self.next_xid.wrapping_add(1).max(16);
        Ok(self.next_xid)
    }

    pub(super) fn version(&self) -> Version {
        self.version.unwrap_or(Version::V13)
    }
}

/// `t` of a script.
#[derive(Clone, Default)]
pub(super) struct Measurement(pub(super) Rc<RefCell<Shared>>);

/// One more of what waits, if there is room.
fn room(what: &str, there: usize) -> mlua::Result<()> {
    match there < WAITING_MAX {
        true => Ok(()),
        false => Err(bad(format!("more than {WAITING_MAX} {what} wait"))),
    }
}

/// A name that is not too long.
fn named(name: String) -> mlua::Result<String> {
    match name.len() <= NAME_LEN_MAX {
        true => Ok(name),
        false => Err(bad(format!("a name has {} bytes, more than {NAME_LEN_MAX}", name.len()))),
    }
}

/// A number that a report can hold.
fn finite(name: &str, value: f64) -> mlua::Result<f64> {
    match value.is_finite() {
        true => Ok(value),
        false => Err(bad(format!("{name}: {value} is no number that a report can hold"))),
    }
}

/// As much of a text as is kept.
fn cut(mut text: String) -> String {
    let end = (0..=text.len().min(TEXT_LEN_MAX)).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}

pub(super) fn bad(text: impl Into<String>) -> mlua::Error {
    mlua::Error::RuntimeError(text.into())
}

/// Seconds since the measurement began.
pub(super) fn seconds(shared: &Shared, at: u64) -> f64 {
    at.saturating_sub(shared.began) as f64 / 1e9
}

impl UserData for Measurement {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("now", |_, t, ()| Ok(seconds(&t.0.borrow(), clock::now())));
        methods.add_method("version", |_, t, ()| Ok(t.0.borrow().version().name().to_string()));
        methods.add_method("ports", |_, t, ()| {
            let shared = t.0.borrow();
            Ok((shared.input, shared.output))
        });
        methods.add_method("address", |_, _, flow: u32| {
            Ok(std::net::Ipv4Addr::from(probe::address(flow)).to_string())
        });
        methods.add_method("flow", |_, t, (command, text): (String, String)| {
            let mut shared = t.0.borrow_mut();
            let commands = [
                ("add", FlowModCommand::Add),
                ("modify", FlowModCommand::Modify),
                ("modify_strict", FlowModCommand::ModifyStrict),
                ("delete", FlowModCommand::Delete),
                ("delete_strict", FlowModCommand::DeleteStrict),
            ];
            let Some((_, command)) = commands.iter().find(|(word, _)| *word == command) else {
                let known = commands.map(|(word, _)| word).join(", ");
                return Err(bad(format!("flow: unknown command {command:?}; known: {known}")));
            };
            let cx = Context::new(shared.version());
            // What is deleted is told by its match alone.
            let deletes = matches!(command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
            let whole = match deletes && !text.contains("actions=") {
                true => format!("{text} actions=drop"),
                false => text.clone(),
            };
            let flow = syntax::parse_flow(whole.trim(), &cx)
                .map_err(|e| bad(format!("flow {text:?}: {e}")))?;
            shared.send(Message::FlowMod(openflow::FlowMod { command: *command, ..flow }))
        });
        methods.add_method("group", |_, t, text: String| {
            let mut shared = t.0.borrow_mut();
            let cx = Context::new(shared.version());
            let group =
                syntax::parse_group(&text, &cx).map_err(|e| bad(format!("group {text:?}: {e}")))?;
            shared.send(Message::GroupMod(group))
        });
        methods.add_method("meter", |_, t, text: String| {
            let mut shared = t.0.borrow_mut();
            let cx = Context::new(shared.version());
            let meter =
                syntax::parse_meter(&text, &cx).map_err(|e| bad(format!("meter {text:?}: {e}")))?;
            shared.send(Message::MeterMod(meter))
        });
        methods.add_method("barrier", |_, t, ()| t.0.borrow_mut().send(Message::BarrierRequest));
        methods.add_method("echo", |_, t, data: Option<mlua::LuaString>| {
            let data = data.map_or_else(Vec::new, |d| d.as_bytes().to_vec());
            t.0.borrow_mut().send(Message::EchoRequest(data))
        });
        methods.add_method("stats", |_, t, what: String| {
            let body = match what.as_str() {
                "flow" => MultipartRequestBody::Flow(FlowStatsRequest::all()),
                "port" => MultipartRequestBody::PortStats(PortNo::ANY),
                "table" => MultipartRequestBody::Table,
                _ => return Err(bad(format!("stats {what:?}: expected flow, port or table"))),
            };
            let request = MultipartRequest { more: false, body };
            t.0.borrow_mut().send(Message::MultipartRequest(request))
        });
        methods.add_method("packet_out", |_, t, (port, seq): (u32, Option<u32>)| {
            let mut shared = t.0.borrow_mut();
            let probe = Probe { stream: 0, seq: seq.unwrap_or(0), due: clock::now() };
            let message = packet_out(shared.version(), port, probe);
            shared.send(message)
        });
        methods.add_method("after", |_, t, (wait, id): (f64, Option<i64>)| {
            if !(0.0..=3600.0).contains(&wait) {
                return Err(bad(format!("after {wait}: expected seconds from 0 to 3600")));
            }
            let due = clock::now() + (wait * 1e9) as u64;
            let timers = &mut t.0.borrow_mut().timers;
            room("timers", timers.len())?;
            timers.insert((due, id.unwrap_or(0)));
            Ok(())
        });
        methods.add_method("scrape", |_, t, url: String| {
            let scrapes = &mut t.0.borrow_mut().scrapes;
            room("scrapes", scrapes.len())?;
            scrapes.push(url);
            Ok(())
        });
        methods.add_method(
            "snmp",
            |_, t, (agent, community, oids): (String, String, Vec<String>)| {
                let polls = &mut t.0.borrow_mut().polls;
                room("requests to SNMP agents", polls.len())?;
                polls.push((agent, community, oids));
                Ok(())
            },
        );
        methods.add_method("limit", |_, t, limit: f64| {
            if !(0.0..=3600.0).contains(&limit) {
                return Err(bad(format!("limit {limit}: expected seconds from 0 to 3600")));
            }
            t.0.borrow_mut().limit = Some(Duration::from_secs_f64(limit));
            Ok(())
        });
        methods.add_method("stop", |_, t, ()| {
            t.0.borrow_mut().stopped = true;
            Ok(())
        });
        methods.add_method("figure", |_, t, (name, value): (String, f64)| {
            let (name, mut shared) = (named(name)?, t.0.borrow_mut());
            let value = finite(&name, value)?;
            let known = shared.figures.iter().any(|(n, _)| *n == name);
            if shared.figures.len() >= NAMES_MAX && !known {
                return Err(bad(format!("more than {NAMES_MAX} figures")));
            }
            shared.figures.retain(|(known, _)| *known != name);
            shared.figures.push((name, value));
            Ok(())
        });
        methods.add_method("latency", |_, t, (name, took): (String, f64)| {
            let (name, mut shared) = (named(name)?, t.0.borrow_mut());
            let took = finite(&name, took)?;
            if shared.latencies.len() >= NAMES_MAX && !shared.latencies.contains_key(&name) {
                return Err(bad(format!("more than {NAMES_MAX} latencies")));
            }
            shared.latencies.entry(name).or_default().record((took.max(0.0) * 1e9) as u64);
            Ok(())
        });
        methods.add_method("point", |_, t, (name, x, y): (String, f64, f64)| {
            let (name, mut shared) = (named(name)?, t.0.borrow_mut());
            let (x, y) = (finite(&name, x)?, finite(&name, y)?);
            if shared.series.values().map(Vec::len).sum::<usize>() >= POINTS_MAX {
                return Err(bad(format!("more than {POINTS_MAX} points")));
            }
            if shared.series.len() >= NAMES_MAX && !shared.series.contains_key(&name) {
                return Err(bad(format!("more than {NAMES_MAX} series")));
            }
            let points = shared.series.entry(name).or_default();
            if points.len() < CAPTURES_MAX {
                points.push((x, y));
            }
            Ok(())
        });
        methods.add_method("finding", |_, t, (what, text): (String, String)| {
            let (what, mut shared) = (named(what)?, t.0.borrow_mut());
            if shared.findings.len() < NAMES_MAX {
                shared.findings.push(Finding { what: intern(&what), text: cut(text) });
            }
            Ok(())
        });
        methods.add_method("note", |_, t, text: String| {
            let notes = &mut t.0.borrow_mut().notes;
            room("notes", notes.len())?;
            notes.push(cut(text));
            Ok(())
        });
    }
}
