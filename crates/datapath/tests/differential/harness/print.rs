//! A failing case as a `.mill` test file: program, entries, packets and updates in flight, with the
//! oracle's answers as expectations, so that it can be kept as it is.
//!
//! What a file cannot say, it says as a comment: another program (the file then begins at it, if
//! nothing before it is needed), bursts, the engine's own steps. An engine that runs the file runs
//! its packets one at a time.

use super::case::{Case, Step};
use super::run::{DEAD_PORT, Mismatch, updates};
use interp::filetest::Interpreter;
use ir::text::filetest::{Document, bless, run};
use ir::text::{print_entry, print_name, print_pipeline, print_program};
use ir::{Entry, Pipeline, TableId, Update};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The file. `head` is its first line, which says what the file is about.
pub(crate) fn mill(case: &Case, mismatch: &Mismatch, engine: &str, head: &str) -> String {
    let source = source(case, mismatch, engine, head);
    match Document::parse(&source) {
        Ok(document) => bless(&source, &run(&document, &mut Interpreter::new())),
        Err(error) => format!("; This does not read back: {error}\n{source}"),
    }
}

/// The file without expectations.
fn source(case: &Case, mismatch: &Mismatch, engine: &str, head: &str) -> String {
    let mut out = format!("; {head}\n");
    for line in mismatch.what.lines().take(40) {
        let _ = writeln!(out, ";;   {line}");
    }
    if updates(case).any(|u| matches!(u, Update::SetProgram(_))) {
        out.push_str(";; Another program comes in between: see the comments.\n");
    }
    let _ = writeln!(out, "test run\nengines interp, {engine}");
    let Ok(mut pipeline) = Pipeline::new(case.program.clone()) else {
        return format!("{out};; The program is refused by the verifier.\n");
    };
    let mut steps = case.steps.iter().peekable();
    while let Some(Step::Transact(list)) = steps.peek()
        && list.iter().all(adds)
    {
        let _ = pipeline.transact(list);
        steps.next();
    }
    out.push_str(&print_pipeline(&pipeline));
    if updates(case).any(|u| matches!(u, Update::SetGroup(..))) {
        let _ = writeln!(out, "port {DEAD_PORT} down");
    }
    for step in steps {
        match step {
            Step::Transact(list) => transaction(&mut out, &mut pipeline, list),
            Step::Burst { packets, late } => {
                if *late {
                    out.push_str(";; run by the version before the last publication\n");
                }
                if packets.len() > 1 {
                    let _ = writeln!(out, ";; a burst of {}", packets.len());
                }
                for packet in packets {
                    // A number of so many digits, as bytes that are no header's.
                    let hex: String = packet.bytes.iter().map(|b| format!("{b:02x}")).collect();
                    let bytes = if hex.is_empty() { "payload".into() } else { format!("0x{hex}") };
                    let _ = writeln!(out, "packet in={} {bytes}", packet.in_port);
                }
            }
            Step::Publish => out.push_str(";; published\n"),
            Step::Settle => out.push_str(";; settled\n"),
            Step::Work => out.push_str(";; the engine's job is run\n"),
            Step::Finish => out.push_str(";; what came of the job is handed over\n"),
        }
    }
    out
}

/// It leaves all that is there as it is, so that a file may begin with what came of it.
fn adds(update: &Update) -> bool {
    use Update::{AddAction, Insert, SetDefault, SetGroup, SetMeter, SetValueSet};
    matches!(
        update,
        Insert(..) | AddAction(..) | SetDefault(..) | SetGroup(..) | SetMeter(..) | SetValueSet(..)
    )
}

fn transaction(out: &mut String, pipeline: &mut Pipeline, list: &[Update]) {
    let before = pipeline.clone();
    if let Err((_, error)) = pipeline.transact(list) {
        let _ = writeln!(out, ";; a transaction of {} updates is refused: {error}", list.len());
        return;
    }
    let mut draft = before;
    let mut text = String::new();
    for update in list {
        let statement = statement(&draft, update);
        let _ = draft.transact(std::slice::from_ref(update));
        text.push_str(&statement);
        text.push('\n');
    }
    match list.len() {
        1 => out.push_str(&text),
        _ => {
            let _ = writeln!(out, "transaction {{\n{text}}}");
        }
    }
}

/// An update as a statement, for a pipeline as it is before.
fn statement(p: &Pipeline, update: &Update) -> String {
    let entry = |word: &str, table: TableId, e: &Entry| {
        let text = print_entry(p, table, e, (word == "insert").then_some(u32::MAX));
        text.replacen("entry", word, 1)
    };
    let gone = |table: TableId, id| match p.entries(table).get(id) {
        Some(e) => {
            let text = entry("delete", table, e);
            text.split(" =>").next().unwrap_or(&text).to_string()
        }
        None => format!(";; {table} has no {id}"),
    };
    match update {
        Update::Insert(table, e) => entry("insert", *table, e),
        Update::Modify(table, e) => entry("modify", *table, &Entry { cookie: 0, ..(**e).clone() }),
        Update::Delete(table, id) => gone(*table, *id),
        Update::Clear(table) => {
            format!("clear {}", print_name(&p.program().tables[table.index()].name))
        }
        Update::RemoveAction(id) => format!("remove action {}", id.0),
        Update::RemoveGroup(id) => format!("remove group {}", id.0),
        Update::RemoveMeter(id) => format!("remove meter {}", id.0),
        Update::SetDefault(table, call) => format!(
            "default {} => {}",
            print_name(&p.program().tables[table.index()].name),
            ir::text::print_call(p, call)
        ),
        Update::AddAction(..)
        | Update::SetGroup(..)
        | Update::SetMeter(..)
        | Update::SetValueSet(..) => added(p, update),
        Update::SetProgram(program) => {
            let text = print_program(program);
            let lines: Vec<String> = text.lines().map(|l| format!(";;   {l}")).collect();
            format!(";; another program:\n{}", lines.join("\n"))
        }
    }
}

/// What the printer says of a pipeline after an update and not before it.
fn added(p: &Pipeline, update: &Update) -> String {
    let mut after = p.clone();
    let (
        Update::AddAction(..)
        | Update::SetGroup(..)
        | Update::SetMeter(..)
        | Update::SetValueSet(..),
        Ok(_),
    ) = (update, after.transact(std::slice::from_ref(update)))
    else {
        return ";; an update that is refused".to_string();
    };
    let items = |p: &Pipeline| -> Vec<String> {
        let text = print_pipeline(p);
        let mut items: Vec<String> = Vec::new();
        for line in text.lines() {
            match items.last_mut() {
                Some(last) if line.starts_with([' ', '}']) => {
                    last.push('\n');
                    last.push_str(line);
                }
                _ => items.push(line.to_string()),
            }
        }
        items
    };
    let old = items(p);
    let new: Vec<String> = items(&after).into_iter().filter(|i| !old.contains(i)).collect();
    match new.is_empty() {
        // The same again, or a value set that becomes empty, which the text form cannot say.
        true => format!(";; nothing new: {update:?}").replace('\n', " "),
        false => new.join("\n"),
    }
}

/// Writes the file into a folder; its path.
pub(crate) fn save(folder: &Path, name: &str, text: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("{name}.mill"));
    std::fs::write(&path, text)?;
    Ok(path)
}
