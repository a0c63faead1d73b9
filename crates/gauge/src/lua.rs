//! Modules of one's own, in Lua, without recompiling: the life cycle of OFLOPS as functions of a script.
//!
//! A script (Lua 5.4) sets `name` and `about` and defines what it needs of
//!
//! | function | is called | gives |
//! |---|---|---|
//! | `init(t)` | first | |
//! | `traffic(t)` | then | a table: `rate`, `probes`, `flows`, `size`, `random`, or `description`; none: no traffic |
//! | `filter(t)` | then | a table: `capture = true` for each probe that comes back, or an expression of tcpdump's for all frames that it passes; `messages = {"packet_in", ...}` |
//! | `start(t)` | when probes begin to flow | |
//! | `timer(t, id)` | when a time of `t:after` is over | |
//! | `message(t, m)` | for a message that the filter lets through | |
//! | `capture(t, p)` | for a probe, or frame, that came back | |
//! | `metrics(t, m)` | for the answer to `t:scrape` | |
//! | `snmp(t, v)` | for the answer to `t:snmp` | |
//! | `destroy(t)` | when all is over | |
//!
//! `t` is the measurement: `docs/gauge.md` lists what it can. Everything runs in one thread, in the order in which
//! it happened; a script needs no locks. Messages are sent when the function that asked for them has returned.
//!
//! Holds true: a script cannot reach files, processes or the network but through `t`; one that does not return
//! within [`PATIENCE`] or takes more than [`MEMORY_MAX`] is stopped with an error, unless it catches that. Captures that came faster than
//! the script took them are counted, and the run is marked invalid.
//!
//! Checked by: the tests below and of `tests/`, which run the examples.

use crate::bench::{Bench, packet_out};
use crate::clock;
use crate::control::{Control, Received};
use crate::describe::described;
use crate::error::Error;
use crate::filter::Filter;
use crate::latency::Latency;
use crate::metrics;
use crate::probe::{self, Probe};
use crate::report::{Finding, Run, Series, intern};
use crate::snmp;
use crate::traffic::{Came, Live, Plan, Turns};
use mlua::{
    HookTriggers, Lua, LuaOptions, StdLib, Table, UserData, UserDataMethods, Value, VmState,
};
use openflow::syntax::{self, Context};
use openflow::{FlowModCommand, FlowStatsRequest, Message, MultipartReplyBody, MultipartRequest};
use openflow::{MultipartRequestBody, PortNo, Version, Xid};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// The longest that one call of a script's function may take.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The most memory of a script, in bytes.
pub const MEMORY_MAX: usize = 256 << 20;
/// The longest that a script may measure, unless it says more by `t:limit`.
const LIMIT: Duration = Duration::from_secs(60);
/// Captures that may wait for the script.
const CAPTURES_MAX: usize = 1 << 16;
/// Points of a series, samples of a latency have no bound of their own: memory has.
const NAMES_MAX: usize = 200;

/// A script, read.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it calls itself.
    pub name: String,
    /// What it asks.
    pub about: String,
    path: String,
    text: String,
}

/// What the script and the measurement share.
#[derive(Default)]
struct Shared {
    version: Option<Version>,
    input: u32,
    output: u32,
    began: u64,
    next_xid: u32,
    outgoing: Vec<Message>,
    timers: BTreeSet<(u64, i64)>,
    stopped: bool,
    limit: Option<Duration>,
    scrapes: Vec<String>,
    polls: Vec<(String, String, Vec<String>)>,
    figures: Vec<(String, f64)>,
    latencies: BTreeMap<String, Latency>,
    series: BTreeMap<String, Vec<(f64, f64)>>,
    findings: Vec<Finding>,
    notes: Vec<String>,
}

impl Shared {
    /// Queues a message; its transaction.
    fn send(&mut self, message: Message) -> u32 {
        self.outgoing.push(message);
        self.next_xid = self.next_xid.wrapping_add(1).max(16);
        self.next_xid
    }

    fn version(&self) -> Version {
        self.version.unwrap_or(Version::V13)
    }
}

/// `t` of a script.
#[derive(Clone, Default)]
struct Measurement(Rc<RefCell<Shared>>);

fn bad(text: impl Into<String>) -> mlua::Error {
    mlua::Error::RuntimeError(text.into())
}

/// Seconds since the measurement began.
fn seconds(shared: &Shared, at: u64) -> f64 {
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
            Ok(shared.send(Message::FlowMod(openflow::FlowMod { command: *command, ..flow })))
        });
        methods.add_method("group", |_, t, text: String| {
            let mut shared = t.0.borrow_mut();
            let cx = Context::new(shared.version());
            let group =
                syntax::parse_group(&text, &cx).map_err(|e| bad(format!("group {text:?}: {e}")))?;
            Ok(shared.send(Message::GroupMod(group)))
        });
        methods.add_method("meter", |_, t, text: String| {
            let mut shared = t.0.borrow_mut();
            let cx = Context::new(shared.version());
            let meter =
                syntax::parse_meter(&text, &cx).map_err(|e| bad(format!("meter {text:?}: {e}")))?;
            Ok(shared.send(Message::MeterMod(meter)))
        });
        methods
            .add_method("barrier", |_, t, ()| Ok(t.0.borrow_mut().send(Message::BarrierRequest)));
        methods.add_method("echo", |_, t, data: Option<mlua::LuaString>| {
            let data = data.map_or_else(Vec::new, |d| d.as_bytes().to_vec());
            Ok(t.0.borrow_mut().send(Message::EchoRequest(data)))
        });
        methods.add_method("stats", |_, t, what: String| {
            let body = match what.as_str() {
                "flow" => MultipartRequestBody::Flow(FlowStatsRequest::all()),
                "port" => MultipartRequestBody::PortStats(PortNo::ANY),
                "table" => MultipartRequestBody::Table,
                _ => return Err(bad(format!("stats {what:?}: expected flow, port or table"))),
            };
            let request = MultipartRequest { more: false, body };
            Ok(t.0.borrow_mut().send(Message::MultipartRequest(request)))
        });
        methods.add_method("packet_out", |_, t, (port, seq): (u32, Option<u32>)| {
            let mut shared = t.0.borrow_mut();
            let probe = Probe { stream: 0, seq: seq.unwrap_or(0), due: clock::now() };
            let message = packet_out(shared.version(), port, probe);
            Ok(shared.send(message))
        });
        methods.add_method("after", |_, t, (wait, id): (f64, Option<i64>)| {
            if !(0.0..=3600.0).contains(&wait) {
                return Err(bad(format!("after {wait}: expected seconds from 0 to 3600")));
            }
            let due = clock::now() + (wait * 1e9) as u64;
            t.0.borrow_mut().timers.insert((due, id.unwrap_or(0)));
            Ok(())
        });
        methods.add_method("scrape", |_, t, url: String| {
            t.0.borrow_mut().scrapes.push(url);
            Ok(())
        });
        methods.add_method(
            "snmp",
            |_, t, (agent, community, oids): (String, String, Vec<String>)| {
                t.0.borrow_mut().polls.push((agent, community, oids));
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
            let mut shared = t.0.borrow_mut();
            if shared.figures.len() >= NAMES_MAX {
                return Err(bad(format!("more than {NAMES_MAX} figures")));
            }
            shared.figures.retain(|(known, _)| *known != name);
            shared.figures.push((name, value));
            Ok(())
        });
        methods.add_method("latency", |_, t, (name, took): (String, f64)| {
            let mut shared = t.0.borrow_mut();
            if shared.latencies.len() >= NAMES_MAX && !shared.latencies.contains_key(&name) {
                return Err(bad(format!("more than {NAMES_MAX} latencies")));
            }
            shared.latencies.entry(name).or_default().record((took.max(0.0) * 1e9) as u64);
            Ok(())
        });
        methods.add_method("point", |_, t, (name, x, y): (String, f64, f64)| {
            let mut shared = t.0.borrow_mut();
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
            let mut shared = t.0.borrow_mut();
            if shared.findings.len() < NAMES_MAX {
                shared.findings.push(Finding { what: intern(&what), text });
            }
            Ok(())
        });
        methods.add_method("note", |_, t, text: String| {
            t.0.borrow_mut().notes.push(text);
            Ok(())
        });
    }
}

/// A script's interpreter, with the time at which the call in progress must be over.
struct Machine {
    lua: Lua,
    until: Rc<RefCell<Instant>>,
    t: Measurement,
    path: String,
}

impl Machine {
    fn new(path: &str, text: &str) -> Result<Machine, String> {
        let libraries =
            StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::UTF8 | StdLib::COROUTINE;
        let failed = |e: mlua::Error| format!("{path}: {e}");
        let lua = Lua::new_with(libraries, LuaOptions::default()).map_err(failed)?;
        lua.set_memory_limit(MEMORY_MAX).map_err(failed)?;
        let until = Rc::new(RefCell::new(Instant::now() + PATIENCE));
        let deadline = until.clone();
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(100_000), move |_, _| {
            match Instant::now() > *deadline.borrow() {
                true => Err(bad(format!("did not return within {} s", PATIENCE.as_secs()))),
                false => Ok(VmState::Continue),
            }
        })
        .map_err(failed)?;
        // What reads files does not come with the libraries above, but with the base.
        for name in ["dofile", "loadfile"] {
            lua.globals().set(name, Value::Nil).map_err(failed)?;
        }
        lua.load(text).set_name(format!("@{path}")).exec().map_err(failed)?;
        Ok(Machine { lua, until, t: Measurement::default(), path: path.to_string() })
    }

    fn text(&self, name: &str) -> Result<String, String> {
        match self.lua.globals().get::<Value>(name) {
            Ok(Value::String(text)) => Ok(text.to_string_lossy()),
            _ => Err(format!("{}: sets no {name}; expected {name} = \"...\"", self.path)),
        }
    }

    /// Calls a function of the script, if it has it.
    fn call(&self, name: &str, argument: Value) -> Result<Value, Error> {
        let failed = |e: mlua::Error| Error::Script(format!("{}: {name}: {e}", self.path));
        let Value::Function(function) = self.lua.globals().get(name).map_err(failed)? else {
            return Ok(Value::Nil);
        };
        *self.until.borrow_mut() = Instant::now() + PATIENCE;
        function.call((self.t.clone(), argument)).map_err(failed)
    }
}

impl Script {
    /// Reads a script: it must say its name and what it asks.
    pub fn read(path: &str, text: &str) -> Result<Script, String> {
        let machine = Machine::new(path, text)?;
        let (name, about) = (machine.text("name")?, machine.text("about")?);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_word) {
            return Err(format!(
                "{path}: name = {name:?}: expected letters, digits and underscores"
            ));
        }
        Ok(Script { name, about, path: path.to_string(), text: text.to_string() })
    }

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
        let mut plan = self.plan(bench, &machine)?;
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

    fn filter(&self, value: &Value) -> Result<Wanted, Error> {
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

    fn plan(&self, bench: &mut Bench, machine: &Machine) -> Result<Plan, Error> {
        let failed = |text: String| Error::Script(format!("{}: traffic: {text}", self.path));
        let idle = Plan { probes: 1, transmit: false, ..bench.plan() };
        let Value::Table(wanted) = machine.call("traffic", Value::Nil)? else { return Ok(idle) };
        let mut plan = Plan { drain: Duration::from_millis(500), ..bench.plan() };
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
struct Wanted {
    captures: Captures,
    /// None: all.
    messages: Option<Vec<String>>,
}

/// Which frames a script wants to hear of.
#[derive(Default)]
enum Captures {
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

fn captured_table(machine: &Machine, plan: &Plan, came: &Came) -> Result<Value, Error> {
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
fn word(message: &Message) -> &'static str {
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

fn message_table(machine: &Machine, word: &str, received: &Received) -> mlua::Result<Table> {
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
