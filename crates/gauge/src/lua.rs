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
//! within [`PATIENCE`] or takes more than [`MEMORY_MAX`] is stopped with an error, which it cannot catch; but for one that
//! has a pattern backtrack without end, which is one instruction. What it has us keep is bounded, too. Captures that came faster than
//! the script took them are counted, and the run is marked invalid.
//!
//! Checked by: the tests below and of `tests/`, which run the examples.

use crate::bench::{Bench, packet_out};
use crate::clock;
use crate::control::{Control, Received};
use crate::describe::described;
use crate::error::Error;
use crate::expect::Makes;
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
/// Names of figures, of latencies and of series, and findings.
const NAMES_MAX: usize = 200;
/// Bytes of a name, and of a finding or a note.
const NAME_LEN_MAX: usize = 200;
/// Likewise.
const TEXT_LEN_MAX: usize = 4096;
/// Messages, timers, notes and requests to managements that may wait at once, each.
const WAITING_MAX: usize = 10_000;
/// Points of all series.
const POINTS_MAX: usize = 1 << 20;

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
    fn send(&mut self, message: Message) -> mlua::Result<u32> {
        room("messages", self.outgoing.len())?;
        // One that cannot be said is refused here, not when the others are sent.
        openflow::codec::encode(self.version(), Xid(0), &message)
            .map_err(|e| bad(e.to_string()))?;
        self.outgoing.push(message);
        self.next_xid = self.next_xid.wrapping_add(1).max(16);
        Ok(self.next_xid)
    }

    fn version(&self) -> Version {
        self.version.unwrap_or(Version::V13)
    }
}

/// `t` of a script.
#[derive(Clone, Default)]
struct Measurement(Rc<RefCell<Shared>>);

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

/// A script's interpreter, with the time at which the call in progress must be over.
struct Machine {
    lua: Lua,
    until: Rc<RefCell<Instant>>,
    patience: Duration,
    t: Measurement,
    path: String,
}

/// How much a script may use.
#[derive(Clone, Copy)]
struct Budget {
    memory: usize,
    patience: Duration,
    /// Instructions in all, in units of [`STEP`].
    steps: u64,
}

/// Instructions between two looks at the time.
const STEP: u32 = 10_000;

const BUDGET: Budget = Budget { memory: MEMORY_MAX, patience: PATIENCE, steps: u64::MAX };

/// What the libraries would let a script do that nothing could end or that is not its own: an error that says that its time is
/// over is not to be caught (`pcall`, `xpcall`, coroutines), finalizers run where it cannot be stopped, bytecode is not
/// verified, and a move over all numbers is one instruction.
const GUARDS: &str = r#"
local over = ...
local pcall, xpcall, resume, load, type, rawget = pcall, xpcall, coroutine.resume, load, type, rawget
local setmetatable, move, error, close = setmetatable, table.move, error, coroutine.close
local wrap, create = coroutine.wrap, coroutine.create
local function checked(...) over() return ... end
_G.pcall = function(...) return checked(pcall(...)) end
_G.xpcall = function(...) return checked(xpcall(...)) end
coroutine.resume = function(...) return checked(resume(...)) end
coroutine.close = function(...) return checked(close(...)) end
_G.load = function(chunk, name, mode, ...)
    if select('#', ...) > 0 then return load(chunk, name, 't', (...)) end
    return load(chunk, name, 't')
end
_G.setmetatable = function(t, m)
    if type(m) == 'table' and rawget(m, '__gc') ~= nil then error('finalizers (__gc) are not allowed', 2) end
    return setmetatable(t, m)
end
table.move = function(a, from, to, ...)
    if type(from) == 'number' and type(to) == 'number' and to - from > 1e7 then error('table.move: too many elements', 2) end
    return move(a, from, to, ...)
end
dofile, loadfile, collectgarbage = nil, nil, nil
"#;

impl Machine {
    fn new(path: &str, text: &str) -> Result<Machine, String> {
        Machine::within(BUDGET, path, text)
    }

    fn within(budget: Budget, path: &str, text: &str) -> Result<Machine, String> {
        let libraries =
            StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::UTF8 | StdLib::COROUTINE;
        let failed = |e: mlua::Error| format!("{path}: {e}");
        let lua = Lua::new_with(libraries, LuaOptions::default()).map_err(failed)?;
        lua.set_memory_limit(budget.memory).map_err(failed)?;
        let until = Rc::new(RefCell::new(Instant::now() + budget.patience));
        let steps = Rc::new(RefCell::new(0u64));
        let (deadline, spent) = (until.clone(), steps.clone());
        let is_over =
            Rc::new(move || *spent.borrow() > budget.steps || Instant::now() > *deadline.borrow());
        let late = || bad(format!("did not return within {} s", PATIENCE.as_secs()));
        let (hooked, guarded) = (is_over.clone(), is_over);
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(STEP), move |_, _| {
            *steps.borrow_mut() += 1;
            if hooked() { Err(late()) } else { Ok(VmState::Continue) }
        })
        .map_err(failed)?;
        let over = lua.create_function(move |_, ()| if guarded() { Err(late()) } else { Ok(()) });
        lua.load(GUARDS)
            .set_mode(mlua::chunk::ChunkMode::Text)
            .call::<()>(over.map_err(failed)?)
            .map_err(failed)?;
        lua.load(text)
            .set_mode(mlua::chunk::ChunkMode::Text)
            .set_name(format!("@{path}"))
            .exec()
            .map_err(failed)?;
        let patience = budget.patience;
        Ok(Machine { lua, until, patience, t: Measurement::default(), path: path.to_string() })
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
        *self.until.borrow_mut() = Instant::now() + self.patience;
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

    fn plan(&self, base: Plan, machine: &Machine) -> Result<Plan, Error> {
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

/// A script of any bytes: its text, if it begins with a comment or an empty line, else calls of `t` and their arguments. All
/// its functions are called with what a measurement would give them. A fuzz target's body.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = match first {
        b'-' | b'\n' => String::from_utf8_lossy(data).into_owned(),
        _ => calls(rest),
    };
    let text = format!("name = 'f' about = 'f'\n{text}");
    let budget = Budget { memory: 8 << 20, patience: Duration::from_secs(5), steps: 10 };
    let Ok(machine) = Machine::within(budget, "f", &text) else { return };
    let script = Script { name: "f".into(), about: "f".into(), path: "f".into(), text };
    {
        let mut shared = machine.t.0.borrow_mut();
        shared.version = Some(Version::ALL[usize::from(*first) / 2 % Version::ALL.len()]);
        (shared.input, shared.output) = (1, 2);
    }
    let base = Plan { transmit: true, ..crate::calibrate::plan(&crate::Settings::default()) };
    let _ = machine.call("init", Value::Nil);
    let plan = script.plan(base, &machine);
    if let Ok(plan) = &plan {
        assert!(plan.probes >= 1 && plan.flows_in_all() >= 1 && plan.rate_pps >= 1.0);
    }
    let _ = machine.call("filter", Value::Nil).and_then(|value| script.filter(&value));
    let _ = machine.call("start", Value::Nil);
    let _ = machine.call("timer", Value::Integer(i64::from(*first)));
    let probe = Probe { stream: 1, seq: 7, due: 9 };
    for message in [
        Message::BarrierReply,
        Message::EchoReply(rest.to_vec()),
        Message::MultipartReply(openflow::MultipartReply {
            more: false,
            body: MultipartReplyBody::Table(vec![Default::default()]),
        }),
    ] {
        let received = Received { at: 5, xid: Xid(16), message };
        let word = word(&received.message);
        if let Ok(table) = message_table(&machine, word, &received) {
            let _ = machine.call("message", Value::Table(table));
        }
    }
    if let Ok(plan) = &plan {
        let bytes = probe::frame(60, 0, probe).into();
        let came = Came { probe: Some((7, 9)), at: 11, returned: false, bytes };
        if let Ok(table) = captured_table(&machine, plan, &came) {
            let _ = machine.call("capture", table);
        }
    }
    let _ = machine.call("destroy", Value::Nil);
    let shared = machine.t.0.borrow();
    assert!(shared.figures.iter().all(|(n, v)| n.len() <= NAME_LEN_MAX && v.is_finite()));
    assert!(shared.outgoing.len() <= WAITING_MAX && shared.timers.len() <= WAITING_MAX);
    assert!(shared.notes.iter().all(|note| note.len() <= TEXT_LEN_MAX));
    for message in &shared.outgoing {
        assert!(openflow::codec::encode(shared.version(), Xid(1), message).is_ok());
    }
}

/// A script that calls what the bytes choose.
fn calls(bytes: &[u8]) -> String {
    const FUNCTIONS: [&str; 8] =
        ["init", "traffic", "filter", "start", "timer", "message", "capture", "destroy"];
    const METHODS: [&str; 21] = [
        "now",
        "version",
        "ports",
        "address",
        "flow",
        "group",
        "meter",
        "barrier",
        "echo",
        "stats",
        "packet_out",
        "after",
        "scrape",
        "snmp",
        "limit",
        "stop",
        "figure",
        "latency",
        "point",
        "finding",
        "note",
    ];
    const VALUES: [&str; 24] = [
        "nil",
        "0",
        "-1",
        "1.5",
        "0/0",
        "1/0",
        "math.mininteger",
        "4294967296",
        "''",
        "'add'",
        "'flow'",
        "'priority=1,ip actions=output:2'",
        "'group_id=1,type=all,bucket=output:1'",
        "('x'):rep(70000)",
        "'\\xff\\0'",
        "{}",
        "{1, 2, a = {}}",
        "{rate = 0/0, probes = -1}",
        "{capture = 'udp', messages = {'stats'}}",
        "{description = 'udp_dst=1-9,len=64-70'}",
        "t",
        "function() return t:barrier() end",
        "setmetatable({}, {__index = function(_, k) return k end})",
        "coroutine.wrap(function() t:note('y') end)",
    ];
    let mut text = String::new();
    for part in bytes.chunks(12).take(40) {
        let pick = |i: usize, of: usize| usize::from(part.get(i).copied().unwrap_or(0)) % of;
        let name = FUNCTIONS[pick(0, FUNCTIONS.len())];
        let arguments: Vec<&str> =
            (0..pick(2, 4)).map(|i| VALUES[pick(3 + i, VALUES.len())]).collect();
        let call = format!("t:{}({})", METHODS[pick(1, METHODS.len())], arguments.join(", "));
        let call = match pick(7, 4) {
            0 => call,
            1 => format!("pcall(function() {call} end)"),
            2 => format!("for i = 1, 10100 do {call} end"),
            _ => format!("while true do pcall(function() {call} end) end"),
        };
        let gives = VALUES[pick(8, VALUES.len())];
        text.push_str(&format!(
            "do local before = {name} function {name}(t, v) if before then before(t, v) end {call} return {gives} end end\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::prng::Prng;

    #[test]
    fn any_script_ends() {
        let mut prng = Prng::new(3);
        for round in 0..40 {
            let mut bytes: Vec<u8> =
                (0..1 + prng.below(120)).map(|_| prng.next_u64() as u8).collect();
            bytes[0] = round as u8;
            fuzz(&bytes);
        }
        for text in [
            "while true do pcall(function() while true do end end) end",
            "local f = coroutine.wrap(function() while true do end end) f()",
            "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
            "function init(t) while true do pcall(t.barrier, t) end end",
            "setmetatable({}, {__gc = function() while true do end end})",
            "table.move({}, 1, math.maxinteger - 1, 2)",
            "load('\x1bLua')()",
            "\x1bLua",
            "function message(t, m) for k, v in pairs(m) do t:note(tostring(v)) end end",
        ] {
            fuzz(format!("\n{text}").as_bytes());
        }
    }

    #[test]
    fn what_a_script_has_us_keep_is_bounded() {
        let error = |text: &str| {
            let text = format!("function init(t) {text} end");
            let machine = Machine::new("f", &text).unwrap();
            machine.call("init", Value::Nil).unwrap_err().to_string()
        };
        assert!(error("while true do t:barrier() end").contains("more than 10000 messages wait"));
        assert!(error("for i = 1, 1e9 do t:after(1, i) end").contains("more than 10000 timers"));
        assert!(error("while true do t:note('') end").contains("more than 10000 notes"));
        assert!(error("t:figure('a', 0/0)").contains("no number that a report can hold"));
        assert!(error("t:point('a', 1, 1/0)").contains("no number that a report can hold"));
        assert!(error("t:figure(('a'):rep(300), 1)").contains("a name has 300 bytes"));
        assert!(error("t:echo(('a'):rep(70000))").contains("65535 is the most"));
        assert!(error("setmetatable({}, {__gc = print})").contains("finalizers"));
        assert!(error("assert(load(string.dump(function() end)))").contains("binary"));
    }
}
