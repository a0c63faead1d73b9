//! A script is asked: its functions are called as things happen.

use super::limits::CAPTURES_MAX;
use super::machine::Machine;
use super::measurement::seconds;
use super::script::Script;
use crate::bench::Bench;
use crate::clock;
use crate::control::{Control, Received};
use crate::describe::described;
use crate::error::Error;
use crate::expect::Makes;
use crate::filter::Filter;
use crate::metrics;
use crate::probe;
use crate::run::{Run, Series, intern};
use crate::snmp;
use crate::traffic::{Came, Live, Plan, Turns};
use mlua::{Table, Value};
use openflow::syntax;
use openflow::{Message, MultipartReplyBody, Xid};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// The longest that a script may measure, unless it says more by `t:limit`.
const LIMIT: Duration = Duration::from_secs(60);

impl Script {
    /// Asks it.
    pub fn run(
        &self,
        bench: &mut Bench,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<Run>, Error> {
        progress(&self.name);
        Ok(vec![bench.repeat(|bench| self.once(bench, progress))?])
    }

    fn once(&self, bench: &mut Bench, progress: &mut dyn FnMut(&str)) -> Result<Run, Error> {
        bench.control.clear()?;
        let machine = Machine::new(&self.path, &self.text).map_err(Error::Script)?;
        {
            let mut shared = machine.t.0.borrow_mut();
            shared.version = Some(bench.control.version());
            (shared.input, shared.output) = (bench.input.number, bench.output.number);
            shared.began = clock::now();
        }
        machine.call("init", Value::Nil)?;
        let mut plan = self.plan(bench.plan(), &machine)?;
        let filter = self.filter(&machine.call("filter", Value::Nil)?)?;
        let (captured, came) = sync_channel(CAPTURES_MAX);
        let live = match &filter.captures {
            Captures::None => Live::default(),
            Captures::Probes => Live::with_captures(Some(captured)),
            Captures::Frames(expression) => {
                plan.filter = Some(expression.clone());
                Live::with_frames(captured)
            }
        };
        let (capture, ()) = bench.traffic_by(&plan, live, |control, live| {
            let result = events(&machine, &plan, &filter, control, live, &came);
            live.stop();
            result
        })?;
        // What came back while the run was being ended.
        while let Ok(probe) = came.try_recv() {
            machine.call("capture", captured_table(&machine, &plan, &probe)?)?;
        }
        machine.call("destroy", Value::Nil)?;
        let mut shared = machine.t.0.borrow_mut();
        shared.notes.drain(..).for_each(|note| progress(&format!("{}: {note}", self.name)));
        let mut disturbed = match plan.transmit {
            true => bench.disturbances(&capture),
            false => Vec::new(),
        };
        if capture.untold > 0 {
            disturbed
                .push(format!("{} captures came faster than the script took them", capture.untold));
        }
        let mut figures = vec![
            ("sent", capture.sent_count() as f64),
            ("received", capture.received_count() as f64),
        ];
        figures.extend(shared.figures.iter().map(|(name, value)| (intern(name), *value)));
        let latencies = &shared.latencies;
        let series = &shared.series;
        Ok(Run {
            label: self.about.clone(),
            disturbed,
            figures,
            latencies: latencies.iter().map(|(name, l)| (intern(name), l.summary())).collect(),
            series: series
                .iter()
                .map(|(name, points)| Series {
                    name: intern(name),
                    x: "x, as the script says",
                    y: "y, as the script says",
                    points: points.clone(),
                })
                .collect(),
            findings: shared.findings.clone(),
            ..Run::default()
        })
    }

    pub(super) fn filter(&self, value: &Value) -> Result<Wanted, Error> {
        let failed = |text: String| Error::Script(format!("{}: filter: {text}", self.path));
        let mut wanted = Wanted::default();
        let table = match value {
            Value::Nil => return Ok(wanted),
            Value::Table(table) => table,
            _ => return Err(failed("expected a table, such as {capture = true}".into())),
        };
        for pair in table.pairs::<String, Value>() {
            match pair.map_err(|e| failed(e.to_string()))? {
                (key, Value::Boolean(probes)) if key == "capture" => {
                    wanted.captures = if probes { Captures::Probes } else { Captures::None };
                }
                (key, Value::String(text)) if key == "capture" => {
                    let text = text.to_string_lossy();
                    let filter = Filter::parse(&text)
                        .map_err(|e| failed(format!("capture = {text:?}: {e}")))?;
                    wanted.captures = Captures::Frames(Arc::new(filter));
                }
                (key, Value::Table(list)) if key == "messages" => {
                    let list: Vec<String> = list
                        .sequence_values()
                        .collect::<Result<_, _>>()
                        .map_err(|e| failed(e.to_string()))?;
                    if let Some(kind) = list.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
                        let known = KINDS.join(", ");
                        return Err(failed(format!(
                            "there are no messages {kind:?}; known: {known}"
                        )));
                    }
                    wanted.messages = Some(list);
                }
                (key, _) => {
                    let forms = "capture = true, capture = \"EXPRESSION\", messages = {...}";
                    return Err(failed(format!("{key}: expected one of {forms}")));
                }
            }
        }
        Ok(wanted)
    }

    pub(super) fn plan(&self, base: Plan, machine: &Machine) -> Result<Plan, Error> {
        let failed = |text: String| Error::Script(format!("{}: traffic: {text}", self.path));
        let makes = Makes::Anything;
        let idle = Plan { probes: 1, transmit: false, makes: makes.clone(), ..base.clone() };
        let Value::Table(wanted) = machine.call("traffic", Value::Nil)? else { return Ok(idle) };
        let mut plan = Plan { drain: Duration::from_millis(500), makes, ..base };
        for pair in wanted.pairs::<String, Value>() {
            let (key, value) = pair.map_err(|e| failed(e.to_string()))?;
            let number = || value.as_f64().or(value.as_i64().map(|n| n as f64));
            let within = |min: f64, max: f64| {
                number()
                    .filter(|n| (min..=max).contains(n))
                    .ok_or_else(|| failed(format!("{key}: expected a number from {min} to {max}")))
            };
            match key.as_str() {
                "rate" => plan.rate_pps = within(1.0, 2e7)?,
                "probes" => plan.probes = within(1.0, 1e8)? as u32,
                "flows" => plan.flows = within(1.0, probe::FLOWS_MAX.into())? as u32,
                "size" => plan.len = within(64.0, 1518.0)? as usize - 4,
                "random" if value.as_boolean() == Some(true) => plan.turns = Turns::Random,
                "random" => {}
                "description" => {
                    let text = value.as_string().map_or_else(String::new, |s| s.to_string_lossy());
                    plan.frames = Some(Arc::new(described(&text).map_err(failed)?));
                }
                _ => {
                    let known = "rate, probes, flows, size, random, description";
                    return Err(failed(format!("unknown key {key:?}; known: {known}")));
                }
            }
        }
        Ok(plan)
    }
}

/// What a script wants to hear of.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) captures: Captures,
    /// None: all.
    pub(super) messages: Option<Vec<String>>,
}

/// Which frames a script wants to hear of.
#[derive(Default)]
pub(super) enum Captures {
    #[default]
    None,
    /// Probes of its traffic, each once.
    Probes,
    /// All that an expression passes.
    Frames(Arc<Filter>),
}

/// Kinds of messages, as filters name them.
const KINDS: [&str; 8] = [
    "packet_in",
    "flow_removed",
    "port_status",
    "barrier_reply",
    "echo_reply",
    "stats",
    "error",
    "other",
];

/// The measurement: until the script stops it, its traffic has ended, or its time is over.
fn events(
    machine: &Machine,
    plan: &Plan,
    filter: &Wanted,
    control: &mut Control,
    live: &Live,
    came: &Receiver<Came>,
) -> Result<(), Error> {
    let began = Instant::now();
    machine.call("start", Value::Nil)?;
    let mut ended_at = None;
    loop {
        send(machine, control)?;
        let shared = machine.t.0.borrow();
        let limit = shared.limit.unwrap_or(LIMIT);
        let (stopped, timers) = (shared.stopped, shared.timers.first().copied());
        drop(shared);
        if stopped || began.elapsed() > limit {
            return Ok(());
        }
        if let Some((due, id)) = timers.filter(|(due, _)| clock::now() >= *due) {
            machine.t.0.borrow_mut().timers.remove(&(due, id));
            machine.call("timer", Value::Integer(id))?;
            continue;
        }
        let urls = std::mem::take(&mut machine.t.0.borrow_mut().scrapes);
        for url in urls {
            let found = metrics::scrape(&url).map_err(Error::Script)?;
            let table = machine.lua.create_table_from(found).map_err(script)?;
            machine.call("metrics", Value::Table(table))?;
        }
        let polls = std::mem::take(&mut machine.t.0.borrow_mut().polls);
        for (agent, community, oids) in polls {
            let list: Vec<&str> = oids.iter().map(String::as_str).collect();
            let values = snmp::get(&agent, &community, &list).map_err(Error::Script)?;
            let table = machine.lua.create_table().map_err(script)?;
            for (oid, value) in oids.iter().zip(values) {
                let value = match value {
                    snmp::Value::Number(n) => Value::Number(n as f64),
                    snmp::Value::Octets(bytes) => {
                        Value::String(machine.lua.create_string(&bytes).map_err(script)?)
                    }
                    snmp::Value::Missing => Value::Nil,
                };
                table.set(oid.as_str(), value).map_err(script)?;
            }
            machine.call("snmp", Value::Table(table))?;
        }
        let mut busy = false;
        while let Ok(probe) = came.try_recv() {
            busy = true;
            machine.call("capture", captured_table(machine, plan, &probe)?)?;
        }
        let wait = Duration::from_micros(if busy { 0 } else { 200 });
        if let Some(received) = control.next(wait)? {
            let word = word(&received.message);
            let wanted = filter.messages.as_ref().is_none_or(|list| list.iter().any(|w| w == word));
            if wanted {
                let table = message_table(machine, word, &received).map_err(script)?;
                machine.call("message", Value::Table(table))?;
            }
            control.take_errors();
            control.take_packet_ins();
            continue;
        }
        let idle = machine.t.0.borrow().timers.is_empty() && !busy;
        let done = plan.transmit && live.sent() >= u64::from(plan.probes);
        if done && idle {
            // What is on its way gets its time.
            let since = *ended_at.get_or_insert_with(Instant::now);
            if since.elapsed() > plan.drain {
                return Ok(());
            }
        }
    }
}

fn script(e: mlua::Error) -> Error {
    Error::Script(e.to_string())
}

/// Sends what the script has queued.
fn send(machine: &Machine, control: &mut Control) -> Result<(), Error> {
    let mut shared = machine.t.0.borrow_mut();
    let messages = std::mem::take(&mut shared.outgoing);
    if !messages.is_empty() {
        let (_, Xid(last)) = control.send_all(&messages)?;
        shared.next_xid = last;
    }
    Ok(())
}

pub(super) fn captured_table(machine: &Machine, plan: &Plan, came: &Came) -> Result<Value, Error> {
    let make = || {
        let shared = machine.t.0.borrow();
        let table = machine.lua.create_table()?;
        if let Some((seq, due)) = came.probe {
            table.set("seq", seq)?;
            table.set("flow", plan.flow(seq))?;
            table.set("due", seconds(&shared, due))?;
        }
        table.set("at", seconds(&shared, came.at))?;
        table.set("port", if came.returned { shared.input } else { shared.output })?;
        if !came.bytes.is_empty() {
            table.set("data", machine.lua.create_string(&came.bytes)?)?;
        }
        Ok(Value::Table(table))
    };
    make().map_err(script)
}

/// A message's kind, as filters name it.
pub(super) fn word(message: &Message) -> &'static str {
    // One of KINDS.
    match message {
        Message::PacketIn(_) => "packet_in",
        Message::FlowRemoved(_) => "flow_removed",
        Message::PortStatus(_) => "port_status",
        Message::BarrierReply => "barrier_reply",
        Message::EchoReply(_) => "echo_reply",
        Message::MultipartReply(_) => "stats",
        Message::Error(_) => "error",
        _ => "other",
    }
}

pub(super) fn message_table(
    machine: &Machine,
    word: &str,
    received: &Received,
) -> mlua::Result<Table> {
    let lua = &machine.lua;
    let table = lua.create_table()?;
    table.set("type", word)?;
    table.set("xid", received.xid.0)?;
    table.set("at", seconds(&machine.t.0.borrow(), received.at))?;
    match &received.message {
        Message::PacketIn(packet) => {
            table.set("data", lua.create_string(&packet.data)?)?;
            if let Some(probe) = probe::parse(&packet.data) {
                table.set("seq", probe.seq)?;
                table.set("due", seconds(&machine.t.0.borrow(), probe.due))?;
            }
        }
        Message::EchoReply(data) => table.set("data", lua.create_string(data)?)?,
        Message::Error(error) => table.set("text", format!("{error:?}"))?,
        Message::MultipartReply(reply) => {
            let list = lua.create_table()?;
            match &reply.body {
                MultipartReplyBody::Flow(entries) => {
                    for entry in entries {
                        let one = lua.create_table()?;
                        let version = machine.t.0.borrow().version();
                        one.set("match", syntax::print_match(&entry.matching, version))?;
                        one.set("priority", entry.priority)?;
                        one.set("packets", entry.packet_count)?;
                        one.set("bytes", entry.byte_count)?;
                        list.push(one)?;
                    }
                }
                MultipartReplyBody::PortStats(ports) => {
                    for port in ports {
                        let one = lua.create_table()?;
                        one.set("port", port.port_no.0)?;
                        one.set("rx_packets", port.rx_packets)?;
                        one.set("tx_packets", port.tx_packets)?;
                        one.set("rx_bytes", port.rx_bytes)?;
                        one.set("tx_bytes", port.tx_bytes)?;
                        one.set("rx_dropped", port.rx_dropped)?;
                        one.set("tx_dropped", port.tx_dropped)?;
                        list.push(one)?;
                    }
                }
                MultipartReplyBody::Table(tables) => {
                    for of_table in tables {
                        let one = lua.create_table()?;
                        one.set("table", of_table.table_id.0)?;
                        one.set("active", of_table.active_count)?;
                        list.push(one)?;
                    }
                }
                _ => {}
            }
            table.set("entries", list)?;
            table.set("more", reply.more)?;
        }
        _ => {}
    }
    Ok(table)
}
