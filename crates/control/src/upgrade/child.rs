//! The new process, as the running one sees it.

use super::reason::{REASON_MAX, VARIABLE};
use crate::protocol::line;
use crate::takeover::handover::Handover;
use crate::{confine, supervisor};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{PipeReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A new process that has not asked for anything by then is ended.
const START_MAX: Duration = Duration::from_secs(120);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// What follows the answer, a line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// The new process runs.
    Started(u32),
    /// There is no way back: this process is the switch now.
    TakenOver(u32),
    /// It has failed, and the one that was asked goes on.
    Failed(String),
}

/// The arguments of this process for one that takes its place.
fn arguments(all: impl Iterator<Item = OsString>, ctl: &Path) -> Vec<OsString> {
    let (mut kept, mut all) = (Vec::new(), all);
    while let Some(word) = all.next() {
        if word == "--take-over" {
            all.next();
        } else if !word.to_str().is_some_and(|word| word.starts_with("--take-over=")) {
            kept.push(word);
        }
    }
    kept.push("--take-over".into());
    kept.push(ctl.into());
    kept
}

/// Starts it.
fn start(binary: &Path, ctl: &Path) -> Result<(Child, PipeReader), String> {
    let shown = |e: std::io::Error| format!("{}: {e}", binary.display());
    let (reasons, told) = std::io::pipe().map_err(shown)?;
    let mut command = Command::new(binary);
    command.args(arguments(std::env::args_os().skip(1), ctl)).env(VARIABLE, "1");
    // Whoever reads it takes the watchdog for another process's.
    command.env_remove("WATCHDOG_PID");
    if let Some(left) = confine::left() {
        command.env(confine::VARIABLE, left);
    }
    let child = command.stdin(Stdio::from(told)).spawn().map_err(shown)?;
    Ok((child, reasons))
}

/// Starts the new process, waits until it has taken over or has failed, and tells the client.
pub(crate) fn run(
    binary: &Path,
    ctl: &Path,
    handover: &Handover,
    client: &UnixStream,
) -> std::io::Result<()> {
    let to = client.try_clone()?;
    let (mut child, reasons) = match start(binary, ctl) {
        Ok(started) => started,
        Err(why) => return say(client, &Said::Failed(why)),
    };
    let (pid, began) = (child.id(), Instant::now());
    handover.at_the_end(move || {
        supervisor::main_process_is(pid);
        // A client that has gone misses nothing else.
        let _ = say(&to, &Said::TakenOver(pid));
    });
    tracing::info!(binary = %binary.display(), pid, "upgrade: the new process was started");
    // Likewise.
    let _ = say(client, &Said::Started(pid));
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if !handover.is_own() {
            // It has asked: from now on the conversation has its own bounds.
        } else if began.elapsed() > START_MAX {
            child.kill()?;
            break child.wait()?;
        }
        std::thread::sleep(LOOK);
    };
    handover.nothing_at_the_end();
    let mut reason = String::new();
    reasons.take(REASON_MAX as u64).read_to_string(&mut reason)?;
    let why = match reason.trim() {
        "" if began.elapsed() > START_MAX => {
            format!("it was not ready within {} seconds", START_MAX.as_secs())
        }
        "" => format!("it has ended: {status}; the log may say why"),
        reason => reason.to_owned(),
    };
    tracing::warn!(pid, why, "the upgrade has failed");
    say(client, &Said::Failed(why))
}

fn say(mut to: &UnixStream, said: &Said) -> std::io::Result<()> {
    to.write_all(&line(said)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_process_has_our_arguments_and_takes_over_from_us() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let made = |text: &str| arguments(words(text).into_iter(), Path::new("/run/m.ctl"));
        let wanted = words("-v run switch.toml --poll --take-over /run/m.ctl");
        assert_eq!(made("-v run switch.toml --poll"), wanted);
        assert_eq!(made("-v run --take-over /old switch.toml --poll"), wanted);
        assert_eq!(made("-v run switch.toml --take-over=/old --poll"), wanted);
    }
}
