//! `millrace config --to`: the configuration of a fleet, in its store.

use crate::cli::ConfigCommand;
use crate::config::{coloured, is_plain};
use control::failure::Failure;
use control::fleet::Place;
use control::fleet::ask::{self, Heard, Status, Waiting};
use control::output::say;
use serde_json::{Value, json, to_value};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Members are waited for so long.
const WAIT_S: u64 = 30;
/// Where nobody looks on, it is told so often who is waited for, in seconds.
const LEFT_EVERY_S: u64 = 5;

/// `millrace config COMMAND --to PLACE`.
pub(crate) fn fleet(
    place: &str,
    command: ConfigCommand,
    json: bool,
    wait: Option<u64>,
) -> Result<(), Failure> {
    let place = Place::parse(place).map_err(|error| Failure::Usage(format!("--to {error}")))?;
    let mut progress = Progress { json, terminal: std::io::stderr().is_terminal(), open: false };
    let mut tell = |heard: Heard<'_>| progress.tell(&heard);
    let waiting = Waiting { span: Duration::from_secs(wait.unwrap_or(WAIT_S)), tell: &mut tell };
    match command {
        ConfigCommand::Check { file } => {
            let text = read(&file)?;
            ask::plan(&place, &text).map(drop)?;
            say(format_args!("{}: right, as far as it can be known here\n", file.display()));
            Ok(())
        }
        ConfigCommand::Plan { file } => {
            let changes = ask::plan(&place, &read(&named(file)?)?)?;
            if json {
                return told(&json!({ "changes": changes }));
            }
            let mut text: String = changes.iter().map(|line| format!("{line}\n")).collect();
            if text.is_empty() {
                text = "nothing to change\n".to_owned();
            }
            let plain = !std::io::stdout().is_terminal() || is_plain();
            say(format_args!("{}", if plain { text } else { coloured(&text) }));
            Ok(())
        }
        ConfigCommand::Apply { file, confirm_within } => {
            let text = read(&named(file)?)?;
            let status = ask::apply(&place, &text, confirm_within, waiting);
            finish(status, json)
        }
        ConfigCommand::Confirm => finish(ask::confirm(&place, waiting), json),
        ConfigCommand::Rollback => finish(ask::rollback(&place, waiting), json),
        ConfigCommand::Status => {
            let status = ask::status(&place)?;
            if json {
                return told(&to_value(status).map_err(Failure::bad)?);
            }
            say(format_args!("{}", status.text()));
            Ok(())
        }
        ConfigCommand::History => {
            let all = ask::history(&place)?;
            if json {
                return told(&json!({ "versions": all }));
            }
            for one in all {
                let (version, time, by) = (one.version, one.time, one.by);
                let confirmed = if one.confirmed { "" } else { ", not confirmed" };
                let digest = one.digest.get(..8).unwrap_or_default();
                say(format_args!(
                    "{version:>4} {time} {by}, {} lines, digest {digest}{confirmed}\n",
                    one.lines
                ));
            }
            Ok(())
        }
        ConfigCommand::Show { number } => {
            let text = ask::show(&place, number)?;
            match json {
                true => told(&json!({ "text": text })),
                false => {
                    say(format_args!("{text}"));
                    Ok(())
                }
            }
        }
        ConfigCommand::Forget { member } => {
            ask::forget(&place, &member)?;
            if !json {
                say(format_args!("{member} is forgotten\n"));
            }
            Ok(())
        }
    }
}

fn named(file: Option<PathBuf>) -> Result<PathBuf, Failure> {
    file.ok_or_else(|| Failure::usage("a fleet's store reads no file: name one"))
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::Bad(format!("{}: {error}", file.display())))
}

fn told(what: &Value) -> Result<(), Failure> {
    say(format_args!("{what}\n"));
    Ok(())
}

/// Tells what has become of a version; fails unless all members have it.
fn finish(status: Result<Status, Failure>, json: bool) -> Result<(), Failure> {
    let status = status?;
    let whole = status.is_whole();
    let have = status.members.iter().filter(|one| one.running == status.version).count();
    match json {
        true => told(&to_value(&status).map_err(Failure::bad)?)?,
        false => {
            let waits = status
                .confirm_within_s
                .map(|left| format!(", which waits for confirmation: {left} s left"));
            let (all, version) = (status.members.len(), status.version);
            let waits = waits.unwrap_or_default();
            say(format_args!("{have} of {all} members have version {version}{waits}\n"));
        }
    }
    match whole {
        true => Ok(()),
        false if status.members.is_empty() => {
            Err(Failure::Bad("no member has said anything of it: it waits for them".to_owned()))
        }
        false => Err(Failure::Bad("not all members have it".to_owned())),
    }
}

/// What is shown while members are waited for: lines of members on standard output, the time left on standard error.
struct Progress {
    json: bool,
    terminal: bool,
    open: bool,
}

impl Progress {
    fn tell(&mut self, heard: &Heard<'_>) {
        match heard {
            Heard::Line(line) => {
                if std::mem::take(&mut self.open) {
                    eprint!("\r\x1b[K");
                }
                if !self.json {
                    say(format_args!("{line}\n"));
                }
            }
            Heard::Left(missing, seconds) => {
                let who =
                    if missing.is_empty() { "members".to_owned() } else { missing.join(", ") };
                if self.terminal {
                    self.open = true;
                    eprint!("\r\x1b[Kwaiting for {who}: {seconds} s left");
                    // Whoever cannot be told is not.
                    drop(std::io::stderr().flush());
                } else if seconds % LEFT_EVERY_S == 0 {
                    eprintln!("waiting for {who}: {seconds} s left");
                }
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.open {
            eprint!("\r\x1b[K");
        }
    }
}
