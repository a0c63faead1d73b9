//! `millrace p4 shell`: the commands of `p4 do` at a prompt.
//!
//! At a terminal there are a prompt, completion of what the running program has by name, and a history that the next shell
//! has, too. Without one, lines are read and done one by one, as a script gives them; the status is 1 if any went wrong.
//!
//! Names are asked of the switch at the start, and anew after each line that may have replaced the program: a shell may stay
//! open while another one loads.
//! Checked by: the tests of [`complete`]; `tests/p4_shell.rs`, lines by a pipe; `lab/p4_shell`, keys by a terminal.

mod complete;

use crate::cli::P4ShellOptions;
use control::client::{To, ask};
use control::failure::Failure;
use control::verbs::p4_do::P4Do;
use control::verbs::p4_names::P4Names;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;

/// Lines that are kept, at most.
const HISTORY: usize = 1000;
/// What stands before a line.
const PROMPT: &str = "p4> ";

/// Does a line; what it tells goes to standard output. False if it went wrong, which is told.
fn does(to: To<'_>, line: &str) -> Result<bool, Failure> {
    let value = ask(to, &P4Do { text: line.to_owned() })?;
    for told in value["told"].as_array().into_iter().flatten() {
        println!("{}", told.as_str().unwrap_or(""));
    }
    let wrong = value["wrong"].as_array().map_or(&[][..], Vec::as_slice);
    for one in wrong {
        eprintln!("{}", one["text"].as_str().unwrap_or(""));
    }
    Ok(wrong.is_empty())
}

/// Whether a line ends the shell.
fn ends(line: &str) -> bool {
    matches!(line, "exit" | "quit" | "EOF")
}

/// Lines of a script.
fn lines(to: To<'_>) -> Result<(), Failure> {
    let mut wrong = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(Failure::bad)?;
        let line = line.trim();
        if ends(line) {
            break;
        }
        if !line.is_empty() && !does(to, line)? {
            wrong += 1;
        }
    }
    match wrong {
        0 => Ok(()),
        1 => Err(Failure::bad("1 line went wrong")),
        n => Err(Failure::bad(format!("{n} lines went wrong"))),
    }
}

/// Where lines are kept, unless it is said.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    state.or_else(home).map(|folder| folder.join("millrace/p4_history"))
}

/// Runs the command.
pub(crate) fn run(options: &P4ShellOptions) -> Result<(), Failure> {
    let to = options.to.whom();
    let names = ask(to, &P4Names {})?;
    if !std::io::stdin().is_terminal() {
        return lines(to);
    }
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .auto_add_history(true)
        .max_history_size(HISTORY)
        .map_err(Failure::bad)?
        .build();
    let mut editor: Editor<complete::Helper, FileHistory> =
        Editor::with_config(config).map_err(Failure::bad)?;
    editor.set_helper(Some(complete::Helper::new(&names)));
    let kept = match &options.history {
        Some(path) => Some(path.clone()),
        None => history_file(),
    };
    if let Some(path) = kept.as_deref().filter(|path| path.exists())
        && let Err(error) = editor.load_history(path)
    {
        eprintln!("the history {} is not read: {error}", path.display());
    }
    println!("`help` lists the commands; the tab key completes words; control-D ends");
    let ended = prompt(to, &mut editor);
    if let Some(path) = &kept {
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let saved = made.map_err(ReadlineError::from).and_then(|()| editor.save_history(path));
        if let Err(error) = saved {
            eprintln!("the history {} is not kept: {error}", path.display());
        }
    }
    ended
}

fn prompt(to: To<'_>, editor: &mut Editor<complete::Helper, FileHistory>) -> Result<(), Failure> {
    loop {
        let line = match editor.readline(PROMPT) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(Failure::bad(error)),
        };
        let line = line.trim();
        if ends(line) {
            return Ok(());
        }
        if line.is_empty() {
            continue;
        }
        does(to, line)?;
        // Another program may run by now.
        if let Ok(names) = ask(to, &P4Names {}) {
            editor.set_helper(Some(complete::Helper::new(&names)));
        }
    }
}
