//! STF: p4c's packet tests.
//!
//! A file is a list of commands, one a line; `#` begins a comment.
//!
//! ```text
//! packet PORT BYTES                     sends a packet
//! expect PORT [BYTES] [$]               a packet leaves by this port; * is any digit; $ ends it
//! no_packet                             nothing has left that was not expected
//! wait                                  all that was sent has been handled (here it always has)
//! add TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...) [= HANDLE]
//! setdefault TABLE ACTION(NAME:VALUE, ...)
//! remove HANDLE | remove all TABLE
//! check_counter NAME(INDEX | HANDLE) [packets | bytes] [== | != | < | <= | > | >=] NUMBER
//! mc_mgrp_create GROUP;  mc_node_create RID PORT ...;  mc_node_associate GROUP NODE
//! mirroring_add SESSION PORT;  mirroring_add_mc SESSION GROUP;  mirroring_get SESSION
//! expect_digest VALUE ...               the next message to the control plane has these values
//! register_read NAME INDEX [== VALUE];  register_write NAME INDEX VALUE;  register_reset NAME
//! meter_set_rates ...;  meter_array_set_rates ...;  act_prof_...;  table_...;  pvs_...;  set_crc...
//! ```
//! The last line's are as in [`commands`](crate::commands); time goes on by a millisecond with each packet.
//! The index of a direct counter is its entry's handle, as `table_add` counts them.
//! Packets leave in order, port by port. Every expectation must be met, and in a file with any, every
//! packet that leaves must be expected. Bytes without `$` are the packet's beginning. Higher priorities win.

use crate::control::value::{show, value};
use crate::control::{Control, Written};
use crate::lower::names::{TableName, find};
use ir::text::filetest::{Engine, Event, Injected, Outcome, Parsing};
use ir::{Bits, DropReason, EntryId, Pipeline, RegisterId, TableId, Update, Verdict};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;

/// What went otherwise than expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The line, from 1; 0 is the end of the file.
    pub line: usize,
    /// What was expected and what happened.
    pub text: String,
}

/// A packet that is expected: for each digit its value, or any.
#[derive(Clone, Debug)]
struct Expected {
    line: usize,
    digits: Option<Vec<Option<u8>>>,
    exact: bool,
}

/// How a file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Counters count each packet's frame check sequence, four bytes, as hardware on Ethernet does; some
    /// tests were written for such.
    pub check_sequence: bool,
}

struct Run<'a> {
    options: Options,
    control: &'a mut Control,
    engine: &'a mut dyn Engine,
    now_ns: u64,
    /// Packets that left, by port.
    out: BTreeMap<u32, Vec<Vec<u8>>>,
    expected: BTreeMap<u32, Vec<Expected>>,
    handles: HashMap<String, (TableId, EntryId)>,
    /// Messages to the control plane that no `expect_digest` has taken.
    digests: VecDeque<Vec<ir::Bits>>,
    /// There was an `expect_digest`.
    expects_digests: bool,
    failures: Vec<Failure>,
    checks: usize,
    /// There was an `expect`.
    expects: bool,
}

/// Runs a file. How many checks there were, and those that failed.
pub fn run(text: &str, control: &mut Control, engine: &mut dyn Engine) -> (usize, Vec<Failure>) {
    run_with(text, control, engine, Options::default())
}

/// As [`run`], read as `options` say.
pub fn run_with(
    text: &str,
    control: &mut Control,
    engine: &mut dyn Engine,
    options: Options,
) -> (usize, Vec<Failure>) {
    engine.load(&control.pipeline);
    let mut run = Run {
        options,
        control,
        engine,
        now_ns: 1_000_000_000,
        out: BTreeMap::new(),
        expected: BTreeMap::new(),
        handles: HashMap::new(),
        digests: VecDeque::new(),
        expects_digests: false,
        failures: Vec::new(),
        checks: 0,
        expects: false,
    };
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        if let Err(text) = run.command(line, i + 1) {
            run.failures.push(Failure { line: i + 1, text });
        }
    }
    run.compare();
    // A file that expects no packet at all is about something else.
    if run.expects {
        run.unexpected(0);
    }
    if run.expects_digests {
        for digest in std::mem::take(&mut run.digests) {
            let text = format!("unexpected digest {}", shown(&digest));
            run.failures.push(Failure { line: 0, text });
        }
    }
    (run.checks, run.failures)
}

/// The packet test of a program's file: `NAME.stf` beside `NAME.p4`, or, of one that was translated into the folder
/// `SAMPLES_outputs`, in `SAMPLES`.
pub fn beside(program: &Path) -> Option<String> {
    let test = program.with_extension("stf");
    std::fs::read_to_string(&test).ok().or_else(|| {
        let folder = program.parent()?;
        let source = folder.file_name()?.to_str()?.strip_suffix("_outputs")?;
        std::fs::read_to_string(folder.with_file_name(source).join(test.file_name()?)).ok()
    })
}

/// An engine that takes down what a file sends; nothing ever leaves.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// Ports and bytes, in order.
    pub packets: Vec<(u32, Vec<u8>)>,
}

impl Engine for Recorder {
    fn load(&mut self, _: &Pipeline) {}

    fn update(&mut self, _: &[Update], _: &Pipeline) {}

    fn packet(&mut self, packet: &Injected<'_>) -> Outcome {
        self.packets.push((packet.in_port, packet.bytes.to_vec()));
        let verdict = Verdict::Drop(DropReason::NoOutput);
        Outcome { events: Vec::new(), verdict, trace: Vec::new() }
    }

    fn parse(&mut self, _: &[u8]) -> Option<Parsing> {
        None
    }

    fn set_register(&mut self, _: RegisterId, _: u32, _: &Bits) {}

    fn register(&mut self, _: RegisterId, _: u32) -> Option<Bits> {
        None
    }

    fn set_port(&mut self, _: u32, _: bool) {}

    fn stats(&mut self, _: &str) -> Option<String> {
        None
    }
}

/// The body of the fuzz target: any text is run to its end, a line that is wrong is named, and the same file run again
/// on a new engine says the same.
///
/// # Panics
/// If it does not.
pub fn fuzz(program: &crate::lower::Lowered, engine: impl Fn() -> Box<dyn Engine>, data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let run_once = || {
        let mut control = Control::new(program.clone()).expect("the program is good");
        run(&text, &mut control, &mut *engine())
    };
    let (checks, failures) = run_once();
    let lines = text.lines().count();
    assert!(failures.iter().all(|f| f.line <= lines && !f.text.is_empty()), "{failures:?}");
    assert_eq!((checks, failures), run_once());
}

fn digits(text: &str) -> Result<Vec<Option<u8>>, String> {
    text.chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| match c {
            '*' => Ok(None),
            c => c
                .to_digit(16)
                .map(|d| Some(d as u8))
                .ok_or(format!("`{c}` is no hexadecimal digit")),
        })
        .collect()
}

fn shown(values: &[ir::Bits]) -> String {
    values.iter().map(show).collect::<Vec<_>>().join(" ")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn int(text: &str) -> Result<u32, String> {
    let v = value(text, 32)?;
    Ok(v.low_u32())
}

impl Run<'_> {
    fn command(&mut self, line: &str, number: usize) -> Result<(), String> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let words: Vec<&str> = rest.split_whitespace().collect();
        let word_at =
            |i: usize| words.get(i).copied().ok_or(format!("`{word}` needs more than that"));
        match word {
            "packet" => self.packet(rest),
            "expect" => self.expect(rest, number),
            "no_packet" => {
                self.compare();
                self.unexpected(number);
                Ok(())
            }
            "wait" => {
                self.compare();
                Ok(())
            }
            "add" => self.add(rest),
            "setdefault" => {
                let (table, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let (action, args) = call(rest)?;
                let updates = self.control.set_default(table, &action, &args)?;
                self.update(updates)
            }
            "remove" => self.remove(&words),
            "check_counter" => self.check_counter(rest),
            "mc_mgrp_create" => {
                let updates = self.control.group_create(int(word_at(0)?)?)?;
                self.update(updates)
            }
            "mc_node_create" => {
                let rid = int(word_at(0)?)? as u16;
                let ports: Result<Vec<u16>, String> =
                    words[1..].iter().map(|p| int(p).map(|p| p as u16)).collect();
                self.control.node_create(rid, ports?);
                Ok(())
            }
            "mc_node_associate" => {
                let updates =
                    self.control.node_associate(int(word_at(0)?)?, int(word_at(1)?)? as usize)?;
                self.update(updates)
            }
            "mirroring_add" => {
                let updates = self.control.mirror(int(word_at(0)?)?, int(word_at(1)?)? as u16)?;
                self.update(updates)
            }
            "mirroring_add_mc" => {
                let updates = self.control.mirror_group(int(word_at(0)?)?, int(word_at(1)?)?)?;
                self.update(updates)
            }
            "register_write" => {
                let (_, id, width) = self.register(word_at(0)?)?;
                let v = value(word_at(2)?, width)?;
                self.engine.set_register(id, int(word_at(1)?)?, &v);
                Ok(())
            }
            "register_reset" => {
                let (_, id, width) = self.register(word_at(0)?)?;
                let size = self.control.pipeline.program().registers[id.index()].size;
                (0..size).for_each(|i| self.engine.set_register(id, i, &ir::Bits::zero(width)));
                Ok(())
            }
            "expect_digest" => {
                self.checks += 1;
                self.expects_digests = true;
                let Some(found) = self.digests.pop_front() else {
                    return Err("no digest was sent".into());
                };
                let same = words.len() == found.len()
                    && words
                        .iter()
                        .zip(&found)
                        .all(|(w, f)| value(w, f.width()).is_ok_and(|w| w == *f));
                match same {
                    true => Ok(()),
                    false => Err(format!("expected digest {rest}, found {}", shown(&found))),
                }
            }
            "register_read" => {
                let (name, id, width) = self.register(word_at(0)?)?;
                let cell = int(word_at(1)?)?;
                let Some(found) = self.engine.register(id, cell) else {
                    return Err(format!("the register `{name}` has no cell {cell}"));
                };
                let wanted = match words[2..] {
                    // It is printed, and nothing is compared.
                    [] => return Ok(()),
                    ["==", wanted] => value(wanted, width)?,
                    _ => return Err("write `register_read NAME INDEX == VALUE`".into()),
                };
                self.checks += 1;
                match found == wanted {
                    true => Ok(()),
                    false => Err(format!(
                        "{name}[{cell}]: expected {}, found {}",
                        show(&wanted),
                        show(&found)
                    )),
                }
            }
            // They print, and nothing is compared.
            "mirroring_get" | "meter_get_rates" | "counter_read" => Ok(()),
            word if word.starts_with("meter_")
                || word.starts_with("act_prof_")
                || word.starts_with("table_")
                || word.starts_with("set_crc")
                || word.starts_with("pvs_") =>
            {
                let mut plane = Gather(Vec::new());
                let (_, wrong) = crate::commands::run(line, self.control, &mut plane);
                self.update(plane.0)?;
                wrong.into_iter().next().map_or(Ok(()), |w| Err(w.text))
            }
            other => {
                const KNOWN: &[&str] = &[
                    "packet",
                    "expect",
                    "expect_digest",
                    "no_packet",
                    "wait",
                    "add",
                    "setdefault",
                    "remove",
                    "check_counter",
                    "mc_mgrp_create",
                    "mc_node_create",
                    "mc_node_associate",
                    "mirroring_add",
                    "mirroring_add_mc",
                    "register_read",
                    "register_write",
                ];
                let near = crate::diag::nearest(other, KNOWN.iter().copied());
                let near = near.map_or(String::new(), |n| format!("; the nearest is `{n}`"));
                Err(format!("there is no command `{other}`{near}"))
            }
        }
    }

    fn register(&self, name: &str) -> Result<(String, ir::RegisterId, u32), String> {
        find(&self.control.names.registers, |r| &r.0, name)
            .cloned()
            .ok_or(format!("there is no register `{name}`"))
    }

    fn update(&mut self, updates: Vec<Update>) -> Result<(), String> {
        self.engine.update(&updates, &self.control.pipeline);
        Ok(())
    }

    fn packet(&mut self, rest: &str) -> Result<(), String> {
        let (port, data) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let in_port = int(port)?;
        let digits = digits(data)?;
        if digits.len() % 2 != 0 {
            return Err("the packet has half a byte".into());
        }
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(|c| Some(c[0]? << 4 | c[1]?)).collect();
        let bytes = bytes.ok_or("a packet that is sent has no wild digits")?;
        self.now_ns += 1_000_000;
        let outcome = self.engine.packet(&Injected { bytes: &bytes, in_port, now_ns: self.now_ns });
        for event in outcome.events {
            match event {
                Event::Out { port, bytes, .. } => self.out.entry(port).or_default().push(bytes),
                Event::Digest { args, .. } => self.digests.push_back(args),
                Event::Punt { .. } => {}
            }
        }
        Ok(())
    }

    fn expect(&mut self, rest: &str, line: usize) -> Result<(), String> {
        let (port, data) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let (data, exact) = match data.trim().strip_suffix('$') {
            Some(data) => (data, true),
            None => (data.trim(), false),
        };
        self.expects = true;
        let digits = if data.is_empty() && !exact { None } else { Some(digits(data)?) };
        self.expected.entry(int(port)?).or_default().push(Expected { line, digits, exact });
        Ok(())
    }

    /// Compares what left with what was expected so far.
    fn compare(&mut self) {
        for (port, expected) in std::mem::take(&mut self.expected) {
            for e in expected {
                self.checks += 1;
                let out = self.out.entry(port).or_default();
                if out.is_empty() {
                    let text = format!("no packet left by port {port}");
                    self.failures.push(Failure { line: e.line, text });
                    continue;
                }
                let bytes = out.remove(0);
                let Some(digits) = &e.digits else { continue };
                let found: Vec<u8> = bytes.iter().flat_map(|b| [b >> 4, b & 15]).collect();
                let same = digits.iter().zip(&found).all(|(d, f)| d.is_none_or(|d| d == *f));
                let long =
                    if e.exact { found.len() == digits.len() } else { found.len() >= digits.len() };
                if !same || !long {
                    let want: String = digits
                        .iter()
                        .map(|d| d.map_or('*', |d| char::from_digit(d.into(), 16).unwrap_or('?')))
                        .collect();
                    let text = format!(
                        "port {port}: expected {want}{}, found {}",
                        if e.exact { "$" } else { "" },
                        hex(&bytes)
                    );
                    self.failures.push(Failure { line: e.line, text });
                }
            }
        }
    }

    /// Tells of packets that nothing expected.
    fn unexpected(&mut self, line: usize) {
        self.checks += 1;
        for (port, packets) in std::mem::take(&mut self.out) {
            for bytes in packets {
                let text = format!("port {port}: unexpected packet {}", hex(&bytes));
                self.failures.push(Failure { line, text });
            }
        }
    }

    fn add(&mut self, rest: &str) -> Result<(), String> {
        let (rest, handle) = match rest.rsplit_once('=') {
            Some((head, handle)) if head.trim_end().ends_with(')') => {
                (head.trim(), Some(handle.trim().to_string()))
            }
            _ => (rest, None),
        };
        let (table, rest) =
            rest.split_once(char::is_whitespace).ok_or("`add` needs a table and an action")?;
        let mut rest = rest.trim();
        let mut priority = 0;
        if let Some((word, after)) = rest.split_once(char::is_whitespace)
            && let Ok(p) = word.parse::<i32>()
        {
            priority = p;
            rest = after.trim();
        }
        let mut keys = Vec::new();
        while let Some((word, after)) = rest.split_once(char::is_whitespace) {
            let before_call = rest.find('(').unwrap_or(rest.len());
            if word.len() >= before_call || !word.contains(':') {
                break;
            }
            let (name, value) = word.split_once(':').unwrap_or((word, ""));
            keys.push((Some(name.to_string()), value.to_string()));
            rest = after.trim();
        }
        let (action, args) = call(rest)?;
        let t = self.control.table(table)?;
        let id = t.id;
        let prioritised = crate::control::prioritised(t);
        let (entry, updates) = self.control.add(
            table,
            &keys,
            if prioritised { priority } else { 0 },
            &action,
            &args,
        )?;
        if let Some(handle) = handle {
            self.handles.insert(handle, (id, entry));
        }
        self.update(updates)
    }

    fn remove(&mut self, words: &[&str]) -> Result<(), String> {
        if let ["all", table @ ..] = words {
            let ids: Vec<TableId> = match table {
                [name] => vec![self.control.table(name)?.id],
                _ => self.control.names.tables.iter().map(|t| t.id).collect(),
            };
            let mut all = Vec::new();
            for id in ids {
                let entries: Vec<EntryId> =
                    self.control.pipeline.entries(id).iter().map(|e| e.id).collect();
                for e in entries {
                    all.extend(self.control.remove(id, e)?);
                }
            }
            return self.update(all);
        }
        let handle = words.last().ok_or("`remove` needs the handle of an entry")?;
        let (table, entry) =
            self.handles.remove(*handle).ok_or(format!("there is no entry `{handle}`"))?;
        let updates = self.control.remove(table, entry)?;
        self.update(updates)
    }

    fn check_counter(&mut self, rest: &str) -> Result<(), String> {
        let (name, rest) = rest.split_once('(').ok_or("write `check_counter NAME(INDEX) ...`")?;
        let (index, rest) = rest.split_once(')').ok_or("the index never ends")?;
        let mut words: Vec<&str> = rest.split_whitespace().collect();
        let what = match words.first() {
            Some(w @ (&"packets" | &"bytes")) => {
                let w = *w;
                words.remove(0);
                w
            }
            _ => "packets",
        };
        if words.is_empty() {
            // It is printed, and nothing is compared.
            return Ok(());
        }
        let (op, wanted) = match words.as_slice() {
            [op, n] => (*op, *n),
            [n] => ("==", *n),
            _ => return Err("write `check_counter NAME(INDEX) packets == NUMBER`".into()),
        };
        let name = name.trim();
        let stats = match index.trim().strip_prefix('$') {
            Some(handle) => {
                let (_, entry) =
                    self.handles.get(handle).ok_or(format!("there is no entry `{handle}`"))?;
                self.engine.stats(&format!("entry {}", entry.0))
            }
            None => {
                let cell = int(index.trim())?;
                let tables = &self.control.names.tables;
                let direct: Vec<_> = tables.iter().filter(|t| t.counter.is_some()).collect();
                let of = |t: &&TableName| t.counter.clone().unwrap_or_default();
                let names: Vec<String> = direct.iter().map(of).collect();
                if let Some((_, id)) = find(&self.control.names.counters, |c| &c.0, name) {
                    let counter = &self.control.pipeline.program().counters[*id as usize].name;
                    self.engine.stats(&format!("counter {}({cell})", ir::text::print_name(counter)))
                } else if let Some(found) = find(&names, |n| n, name)
                    && let Some(at) = names.iter().position(|n| n == found)
                {
                    let (_, entry) = self.control.entry(&direct[at].name, cell)?;
                    self.engine.stats(&format!("entry {}", entry.0))
                } else {
                    return Err(format!("there is no counter `{name}`"));
                }
            }
        };
        let stats = stats.ok_or("this engine keeps no such count")?;
        let found = number_after(&stats, what).ok_or(format!("`{what}` is not in `{stats}`"))?;
        let packets = number_after(&stats, "packets").unwrap_or(0);
        let found = match (what, self.options.check_sequence) {
            ("bytes", true) => found + 4 * packets,
            _ => found,
        };
        let wanted: u64 = wanted.parse().map_err(|_| format!("`{wanted}` is no number"))?;
        let holds = match op {
            "==" | "=" => found == wanted,
            "!=" => found != wanted,
            "<" => found < wanted,
            "<=" => found <= wanted,
            ">" => found > wanted,
            ">=" => found >= wanted,
            other => return Err(format!("`{other}` is no comparison")),
        };
        self.checks += 1;
        if holds {
            Ok(())
        } else {
            Err(format!("{name}: expected {what} {op} {wanted}, found {found}"))
        }
    }
}

/// A plane that keeps updates for the engine of a test, which has all that a file asks about itself.
struct Gather(Vec<Update>);

impl crate::commands::Plane for Gather {
    fn update(&mut self, updates: &[Update]) -> Result<(), String> {
        self.0.extend_from_slice(updates);
        Ok(())
    }

    fn register(&mut self, _: ir::RegisterId, _: u32) -> Result<Option<ir::Bits>, String> {
        Err("ask with register_read".into())
    }

    fn set_register(&mut self, _: ir::RegisterId, _: u32, _: &ir::Bits) -> Result<(), String> {
        Err("write with register_write".into())
    }

    fn counter(&mut self, _: u32, _: u32) -> Result<Option<(u64, u64)>, String> {
        Err("ask with check_counter".into())
    }

    fn reset_counter(&mut self, _: u32, _: u32) -> Result<(), String> {
        Err("counters are not reset in a test".into())
    }

    fn entry(&mut self, _: EntryId) -> Result<(u64, u64), String> {
        Ok((0, 0))
    }

    fn reset_entry(&mut self, _: EntryId) -> Result<(), String> {
        Err("counters are not reset in a test".into())
    }

    fn table(&mut self, _: TableId) -> Result<(u64, u64), String> {
        Ok((0, 0))
    }
}

/// The number that stands with a word, as in `packets=3` or `3 packets`.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let clean: String = text.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    let words: Vec<&str> = clean.split_whitespace().collect();
    let at = words.iter().position(|w| *w == word)?;
    words
        .get(at + 1)
        .and_then(|w| w.parse().ok())
        .or_else(|| words.get(at.checked_sub(1)?)?.parse().ok())
}

/// `NAME(NAME:VALUE, ...)`.
fn call(text: &str) -> Result<(String, Vec<Written>), String> {
    let text = text.trim();
    let (name, rest) =
        text.split_once('(').ok_or(format!("`{text}`: an action is written with parentheses"))?;
    let inner = rest.trim().strip_suffix(')').ok_or(format!("`{text}` lacks its `)`"))?;
    let args = inner
        .split(',')
        .map(str::trim)
        .filter(|a| !a.is_empty())
        .map(|a| match a.split_once([':', '=']) {
            Some((n, v)) => (Some(n.trim().to_string()), v.trim().to_string()),
            None => (None, a.to_string()),
        })
        .collect();
    Ok((name.trim().to_string(), args))
}
