//! Test files: a program, what is put into it, packets, and what must become of them.
//!
//! ```text
//! ; What this file shows.                      first line: a sentence
//! test run [plan]
//! engines interp, jit
//! use std                                      implied if the file declares no header type
//! table route { key ipv4.dst lpm; actions forward drop }
//! entry route 10.1.0.0/16 => forward(2)        before the first step: the pipeline to begin with
//!
//! packet in=7 eth/ipv4(dst=10.1.2.3)/udp       steps, in order
//! ; expect out=2 set(ipv4.ttl=63)              all copies of a packet, in order
//! ; expect punt action same
//! ; expect digest learn(5, 7)
//! ; expect drop table_miss                     if none went anywhere
//! ; trace route: 10.1.0.0/16 -> forward(2)     lines of the trace, in order, others between
//! insert route 10.2.0.0/16 => forward(3)       updates in flight
//! ; error ...                                  the refusal; without this line, it must succeed
//! ```
//!
//! Steps: `packet in=PORT [at=NANOSECONDS] PACKET`; `hex in=PORT BYTES`; `insert`, `modify`
//! (same key and priority, new action), `delete` (key and priority), `clear TABLE`, `default`,
//! `group`, `meter`, `members`, `action NAME id=ID {}`, `remove group|meter|action NUMBER`;
//! `transaction { update ... }`, whole or not at all; `register NAME(CELL) = VALUE`;
//! `port NUMBER up|down`; `color METER COLOR [LEVEL]` (what a meter answers). Comments that check: `expect`, `trace`, `error`, `register NAME(CELL) =
//! VALUE`, `stats WHAT: TEXT` and `plan LINE` (lines of how
//! tables are looked up, in order, others between; for engines that choose). Other comments are prose.
//!
//! Expected bytes are built from text: `same` (the input's bytes), `set(FIELD=
//! VALUE, ...)` (the input with these fields changed and filled-in fields filled in anew), a
//! packet, or `hex`. They are compared byte by byte.
//!
//! In: the text of a file. Out: a [`Document`], to be [`run`] by any [`Engine`], and to be blessed.
//! Checked by: `tests`, and every file under `filetests`.

mod notation;
mod run;
#[cfg(test)]
mod tests;

pub use notation::{Fills, Packet, Parsing, Part};
pub use run::{Engine, Event, Failure, Injected, Outcome, Report, bless, run};

use super::Error;
use super::contents;
use super::cursor::{Cursor, Parsed};
use super::lex::{self, Kind, Token};
use super::parse;
use crate::bits::Bits;
use crate::id::{ActionId, GroupId, MeterId, RegisterId, TableId};
use crate::pipeline::{Entry, Pipeline, Update};
use crate::program::Program;
use crate::verdict::{DropReason, PuntReason};
use std::sync::Arc;

/// A test file.
#[derive(Clone, Debug)]
pub struct Document {
    /// Words after `test`: `run`, `plan`.
    pub tests: Vec<String>,
    /// Engines named, or none for all.
    pub engines: Vec<String>,
    /// The pipeline to begin with.
    pub pipeline: Pipeline,
    /// How packets are filled in.
    pub fills: Fills,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// The id of the next entry that gives none.
    next_entry: u32,
}

/// One step and what is checked after it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Line in the file, from 1.
    pub line: u32,
    /// The last line of the step itself; checks follow.
    pub last_line: u32,
    /// What happens.
    pub action: StepAction,
    /// What must be so afterwards.
    pub checks: Vec<Check>,
}

/// What happens in a step.
#[derive(Clone, Debug)]
pub enum StepAction {
    /// A packet comes in.
    Packet {
        /// The port.
        port: u32,
        /// When, in nanoseconds; 0 unless given.
        at_ns: u64,
        /// The packet as written, unless it was written as bytes.
        packet: Option<Packet>,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Updates, as one transaction. Read when it is their turn, by [`Document::updates`].
    Updates(Statements),
    /// A register's cell is set.
    Register(RegisterId, u32, Bits),
    /// A port goes up or down.
    Port(u32, bool),
    /// A meter does not measure, but answers this from now on.
    Color {
        /// Which meter.
        meter: MeterId,
        /// 0 green, 1 yellow, 2 red.
        color: u8,
        /// The band's level.
        level: u8,
    },
}

/// Statements that are read when it is their turn, as what they mean depends on those before.
#[derive(Clone, Debug)]
pub struct Statements {
    tokens: Vec<Token>,
}

/// A comment that checks.
#[derive(Clone, Debug)]
pub struct Check {
    /// Line in the file, from 1.
    pub line: u32,
    /// What must be so.
    pub kind: CheckKind,
}

/// What must be so.
#[derive(Clone, Debug, PartialEq)]
pub enum CheckKind {
    /// A copy of the packet goes to a port, to a queue if one is given.
    Out {
        /// The port.
        port: u32,
        /// The queue, 0 if none is given.
        queue: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A copy goes to the control plane.
    Punt {
        /// Why.
        reason: PuntReason,
        /// Values beside it; not checked if none are given.
        args: Option<Vec<String>>,
        /// The bytes; not checked if none are given.
        bytes: Option<Vec<u8>>,
    },
    /// A message goes to the control plane: `name(value, ...)`.
    Digest(String),
    /// Nothing went anywhere.
    Drop(DropReason),
    /// A line of the trace, without its indentation.
    Trace(String),
    /// The update is refused with this text.
    Error(String),
    /// A register's cell holds this.
    Register(RegisterId, u32, Bits),
    /// The engine's count of something: what, and the text.
    Stats(String, String),
    /// A line about how the pipeline is planned.
    Plan(String),
}

impl CheckKind {
    /// It tells of a copy or of the end of a packet.
    fn is_expectation(&self) -> bool {
        use CheckKind::*;
        matches!(self, Out { .. } | Punt { .. } | Digest(_) | Drop(_))
    }
}

const STEPS: [&str; 14] = [
    "color",
    "packet",
    "hex",
    "insert",
    "modify",
    "delete",
    "clear",
    "remove",
    "transaction",
    "port",
    "default",
    "group",
    "meter",
    "members",
];

/// A statement of the file: its lines, joined.
struct Statement {
    line: u32,
    last_line: u32,
    text: String,
}

enum Piece {
    Statement(Statement),
    Comment(u32, String),
}

impl Document {
    /// Reads a file.
    pub fn parse(source: &str) -> Result<Document, Error> {
        let parts = parts(source);
        let mut tests = Vec::new();
        let mut engines = Vec::new();
        // Declarations keep their lines, so that errors in them name the right one.
        let mut declarations: Vec<&str> = Vec::new();
        let mut started = false;
        let mut rest = Vec::new();
        for part in &parts {
            let Piece::Statement(s) = part else {
                if started {
                    rest.push(part);
                }
                continue;
            };
            let word = s.text.trim_start();
            let word = &word[..lex::word_len(word)];
            let register = word == "register" && s.text.contains('=');
            let is_step = matches!(word, "packet" | "hex" | "insert" | "modify" | "delete")
                || matches!(word, "clear" | "remove" | "transaction" | "port" | "color")
                || register;
            started |= is_step;
            match word {
                "test" => tests.extend(words(&s.text[word.len()..], ' ')),
                "engines" => engines.extend(words(&s.text[word.len()..], ',')),
                _ if started => rest.push(part),
                _ => {
                    declarations.resize(s.line as usize - 1, "");
                    declarations.extend(s.text.split('\n'));
                }
            }
        }
        let text = declarations.join("\n");
        let mut items = parse::items(&text, 1)?;
        let own = items.iter().any(|i| matches!(i.keyword.as_str(), "type" | "header"));
        if !own {
            let mut library = format!("{text}\nuse std");
            if text.is_empty() {
                library = "use std".into();
            }
            items = parse::items(&library, 1)?;
        }
        let program = Arc::new(parse::program(&items)?);
        let fail = |e: crate::verify::Error| Error { line: 1, column: 1, text: e.to_string() };
        let mut pipeline = Pipeline::new(program.clone()).map_err(fail)?;
        let mut next_entry = 1;
        contents::apply(&mut pipeline, &items, &mut next_entry)?;
        let fills = Fills::parse(&program, &items)?;
        let mut out = Document { tests, engines, pipeline, fills, steps: Vec::new(), next_entry };
        for part in rest {
            match part {
                Piece::Statement(s) => {
                    let action = out.step(&program, s)?;
                    let (line, last_line) = (s.line, s.last_line);
                    out.steps.push(Step { line, last_line, action, checks: Vec::new() });
                }
                Piece::Comment(line, text) => {
                    let Some(step) = out.steps.last() else { continue };
                    let kind = check(&program, &out.fills, step, text, *line)?;
                    if let (Some(kind), Some(step)) = (kind, out.steps.last_mut()) {
                        step.checks.push(Check { line: *line, kind });
                    }
                }
            }
        }
        Ok(out)
    }

    fn step(&self, program: &Program, s: &Statement) -> Parsed<StepAction> {
        let tokens = lex::tokens(&s.text, s.line)?;
        let mut c = Cursor::new(&tokens);
        let at = c.clone();
        let word = c.name("a step")?;
        let step = match word.as_str() {
            "packet" | "hex" => {
                let (mut port, mut at_ns) = (1, 0);
                while matches!(c.peek_at(1), Kind::Punct("=")) {
                    if c.eat_word("in") {
                        c.next();
                        port = c.u32("a port")?;
                    } else {
                        c.want_word("at")?;
                        c.next();
                        at_ns = c.number("nanoseconds", 64)? as u64;
                    }
                }
                if word == "hex" {
                    // The digits are no tokens: what comes behind the last option is.
                    let text = s.text.trim_start().trim_start_matches("hex");
                    let digits = text.split_whitespace().filter(|w| !w.contains('='));
                    let bytes = notation::raw(&digits.collect::<String>(), s.line)?;
                    return Ok(StepAction::Packet { port, at_ns, packet: None, bytes });
                }
                let packet = Packet::parse(program, &mut c)?;
                let bytes = packet.bytes(program, &self.fills);
                StepAction::Packet { port, at_ns, packet: Some(packet), bytes }
            }
            "register" => {
                let (register, cell, value) = register(program, &mut c)?;
                StepAction::Register(register, cell, value)
            }
            "port" => {
                let port = c.u32("a port")?;
                StepAction::Port(
                    port,
                    parse::word(&mut c, "a state", &[("up", true), ("down", false)])?,
                )
            }
            "color" => StepAction::Color {
                meter: MeterId(c.u32("a meter's number")?),
                color: c.number("a colour", 8)? as u8,
                level: if c.at_end() { 0 } else { c.number("a level", 8)? as u8 },
            },
            w if STEPS.contains(&w) || w == "entry" || w == "action" => {
                return Ok(StepAction::Updates(Statements { tokens }));
            }
            other => {
                let near = super::cursor::nearest(other, STEPS);
                return at.error(format!("`{other}` is no step{near}"));
            }
        };
        c.end_statement()?;
        Ok(step)
    }

    /// The id that the next entry inserted by a test gets.
    pub fn next_entry(&self) -> u32 {
        self.next_entry
    }

    /// What the statements of a step mean for a pipeline as it is now.
    pub fn updates(
        statements: &Statements,
        pipeline: &Pipeline,
        next_entry: &mut u32,
    ) -> Result<Vec<Update>, Error> {
        let mut c = Cursor::new(&statements.tokens);
        let mut out = Vec::new();
        if c.eat_word("transaction") {
            // Later statements may refer to what earlier ones did; a draft keeps up.
            let mut draft = pipeline.clone();
            c.statements(|c| {
                let update = update(&draft, c, next_entry)?;
                let _ = draft.transact(std::slice::from_ref(&update));
                out.push(update);
                Ok(())
            })?;
        } else {
            out.push(update(pipeline, &mut c, next_entry)?);
        }
        c.end_statement()?;
        Ok(out)
    }
}

/// One update.
fn update(p: &Pipeline, c: &mut Cursor<'_>, next: &mut u32) -> Parsed<Update> {
    let at = c.clone();
    let word = c.name("an update")?;
    Ok(match word.as_str() {
        "insert" | "entry" => contents::entry(p, c, next)?,
        "modify" => {
            let (table, mut entry) = found(p, c, next)?;
            c.want("=>")?;
            entry.action = contents::call(p, c)?;
            Update::Modify(table, Arc::new(entry))
        }
        "delete" => {
            let (table, entry) = found(p, c, next)?;
            Update::Delete(table, entry.id)
        }
        "clear" => Update::Clear(contents::table_id(p.program(), c)?),
        "default" => contents::default(p, c)?,
        "group" => contents::group(p, c)?,
        "meter" => contents::meter(c)?,
        "members" => contents::members(p.program(), c)?,
        "action" => {
            let at = c.clone();
            let (action, id) = parse::action(p.program(), c)?;
            let Some(id) = id else { return at.error("an action added now needs an `id=`") };
            Update::AddAction(id, Arc::new(action))
        }
        "remove" => {
            let kind = parse::word(c, "a kind", &[("group", 0), ("meter", 1), ("action", 2)])?;
            let n = c.u32("a number")?;
            match kind {
                0 => Update::RemoveGroup(GroupId(n)),
                1 => Update::RemoveMeter(MeterId(n)),
                _ => Update::RemoveAction(ActionId(n)),
            }
        }
        other => {
            let near = super::cursor::nearest(other, STEPS);
            return at.error(format!("`{other}` is no update{near}"));
        }
    })
}

/// The entry with the key and priority given, under its own id. One that is not there keeps the id
/// that it would have got, or the one given, so that the pipeline can refuse it.
fn found(p: &Pipeline, c: &mut Cursor<'_>, next: &u32) -> Parsed<(TableId, Entry)> {
    let (table, mut entry) = contents::entry_key(p, c, next)?;
    if let Some(old) = p.entries(table).find_strict(entry.priority, &entry.matches) {
        entry.id = old.id;
    }
    Ok((table, entry))
}

/// `name(cell) = value`.
fn register(program: &Program, c: &mut Cursor<'_>) -> Parsed<(RegisterId, u32, Bits)> {
    let known = program.registers.iter().map(|r| &*r.name);
    let id = super::code::lookup(c, "register", |n| program.find_register(n), known)?;
    c.want("(")?;
    let cell = c.u32("a cell")?;
    c.want(")")?;
    c.want("=")?;
    Ok((id, cell, c.value(program.registers[id.index()].width)?))
}

/// Reads a comment that checks; `None` for prose.
fn check(
    program: &Program,
    fills: &Fills,
    step: &Step,
    text: &str,
    line: u32,
) -> Parsed<Option<CheckKind>> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    Ok(Some(match word {
        "trace" => CheckKind::Trace(rest.to_string()),
        "error" => CheckKind::Error(rest.to_string()),
        "plan" => CheckKind::Plan(rest.to_string()),
        "stats" => {
            let (what, text) = rest.split_once(':').unwrap_or((rest, ""));
            CheckKind::Stats(what.trim().to_string(), text.trim().to_string())
        }
        "register" => {
            let tokens = lex::tokens(rest, line)?;
            let (r, cell, value) = register(program, &mut Cursor::new(&tokens))?;
            CheckKind::Register(r, cell, value)
        }
        "expect" => {
            let StepAction::Packet { packet, bytes, .. } = &step.action else {
                let text = "an expectation comes after a packet".to_string();
                return Err(Error { line, column: 1, text });
            };
            expectation(program, fills, packet.as_ref(), bytes, rest, line)?
        }
        _ => return Ok(None),
    }))
}

fn expectation(
    program: &Program,
    fills: &Fills,
    input: Option<&Packet>,
    bytes: &[u8],
    text: &str,
    line: u32,
) -> Parsed<CheckKind> {
    if let Some(rest) = text.strip_prefix("digest ") {
        return Ok(CheckKind::Digest(rest.trim().to_string()));
    }
    // Digits of raw bytes are no tokens.
    let (text, raw) = match text.split_once(" hex ") {
        Some((text, digits)) => (text, Some(notation::raw(digits, line)?)),
        None => (text, None),
    };
    let tokens = lex::tokens(text, line)?;
    let mut c = Cursor::new(&tokens);
    let shape = |c: &mut Cursor<'_>| -> Parsed<Vec<u8>> {
        if let Some(raw) = &raw {
            return Ok(raw.clone());
        }
        if c.eat_word("same") {
            return Ok(bytes.to_vec());
        }
        if c.is_word("set") && matches!(c.peek_at(1), Kind::Punct("(")) {
            let Some(input) = input else {
                return c.error("the packet was given as bytes; so must be what is expected");
            };
            c.next();
            c.next();
            let mut packet = input.clone();
            packet.set(program, c)?;
            return Ok(packet.bytes(program, fills));
        }
        Ok(Packet::parse(program, c)?.bytes(program, fills))
    };
    let at = c.clone();
    let kind = match c.name("`out`, `drop`, `punt` or `digest`")?.as_str() {
        "out" => {
            c.want("=")?;
            let port = c.u32("a port")?;
            let mut queue = 0;
            if c.is_word("queue") && matches!(c.peek_at(1), Kind::Punct("=")) {
                c.next();
                c.next();
                queue = c.u32("a queue")?;
            }
            CheckKind::Out { port, queue, bytes: shape(&mut c)? }
        }
        "drop" => {
            let words: Vec<(&str, DropReason)> =
                DropReason::ALL.iter().map(|r| (r.word(), *r)).collect();
            CheckKind::Drop(parse::word(&mut c, "a drop reason", &words)?)
        }
        "punt" => {
            let words: Vec<(&str, PuntReason)> =
                PuntReason::ALL.iter().map(|r| (r.word(), *r)).collect();
            let reason = parse::word(&mut c, "a punt reason", &words)?;
            let mut args = None;
            if c.eat("(") {
                let args = args.get_or_insert_with(Vec::new);
                while !c.eat(")") {
                    if !args.is_empty() {
                        c.want(",")?;
                    }
                    args.push(format!("{:#}", c.literal("a value")?.value));
                }
            }
            let bytes = if c.at_end() && raw.is_none() { None } else { Some(shape(&mut c)?) };
            CheckKind::Punt { reason, args, bytes }
        }
        _ => return at.expected("`out`, `drop`, `punt` or `digest`"),
    };
    c.end_statement()?;
    Ok(kind)
}

fn words(text: &str, by: char) -> Vec<String> {
    text.split(by).map(str::trim).filter(|w| !w.is_empty()).map(str::to_string).collect()
}

/// Statements (whose braces and parentheses close) and comment lines, in order.
fn parts(source: &str) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut open: Option<Statement> = None;
    let mut depth = 0i32;
    for (i, line) in source.lines().enumerate() {
        let number = i as u32 + 1;
        let trimmed = line.trim_start();
        if let Some(comment) = trimmed.strip_prefix(';') {
            match &mut open {
                Some(s) => {
                    s.text.push('\n');
                    s.last_line = number;
                }
                None => out.push(Piece::Comment(number, comment.to_string())),
            }
            continue;
        }
        if trimmed.is_empty() && open.is_none() {
            continue;
        }
        match &mut open {
            Some(s) => {
                s.text.push('\n');
                s.text.push_str(line);
                s.last_line = number;
            }
            None => {
                let text = line.to_string();
                open = Some(Statement { line: number, last_line: number, text });
            }
        }
        depth += nesting(line);
        if depth <= 0 {
            depth = 0;
            out.extend(open.take().map(Piece::Statement));
        }
    }
    out.extend(open.take().map(Piece::Statement));
    out
}

/// How many braces and parentheses a line leaves open.
fn nesting(line: &str) -> i32 {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (i, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            ';' if line[i..].starts_with(";;") => break,
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
    }
    depth
}
