//! `millrace upgrade`: the running process is replaced by another binary, or goes on if that fails.

use crate::cli::UpgradeOptions;
use crate::show::show;
use control::client::{answer, ask, follow_answered, read};
use control::failure::Failure;
use control::output::say;
use control::verbs::config::{ConfigQuestion, What};
use control::verbs::events::Events;
use control::verbs::upgrade::{Said, Upgrade};
use control::verbs::version::Version;
use serde_json::json;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The new process answers within so long once the old one has ended.
const ANSWERS_MAX: Duration = Duration::from_secs(60);
/// How often it is asked.
const ASK: Duration = Duration::from_millis(20);

/// `millrace upgrade`.
pub(crate) fn upgrade(options: UpgradeOptions) -> Result<(), Failure> {
    let UpgradeOptions { binary, if_changed, or_reload, json, ctl } = options;
    let began = Instant::now();
    let ctl = ctl.as_deref();
    // The switch runs elsewhere in the file system.
    let absolute = |path: PathBuf| {
        std::path::absolute(&path).map_err(|e| Failure::Bad(format!("{}: {e}", path.display())))
    };
    let binary = binary.map(absolute).transpose()?;
    let before = answer(ctl, &Version {})?;
    let question = Upgrade { binary, if_changed: if_changed || or_reload };
    let (told, mut lines) = follow_answered(ctl, &question)?;
    let told = read::<Upgrade>(told)?;
    if !told.starts {
        if or_reload {
            let question =
                ConfigQuestion { what: What::Apply, file: None, confirm_within_seconds: None };
            return show::<ConfigQuestion>(ask(ctl, &question)?, json);
        }
        let (binary, version) = (told.binary.display().to_string(), &told.version);
        match json {
            true => say(format_args!("{}\n", json!({"binary": binary, "upgraded": false}))),
            false => {
                say(format_args!("{binary}, millrace {version}, is what runs: nothing to do\n"))
            }
        }
        return Ok(());
    }
    let mut line = String::new();
    let new = loop {
        line.clear();
        let lost = |e: std::io::Error| Failure::Bad(format!("the running switch: {e}"));
        if lines.read_line(&mut line).map_err(lost)? == 0 {
            let text = "the running switch has ended without a word; the log may say why";
            return Err(Failure::bad(text));
        }
        match serde_json::from_str(&line).map_err(|e| nonsense(&e))? {
            Said::Started(_) => {}
            Said::TakenOver(pid) => break pid,
            Said::Failed(why) => {
                let why = why.strip_prefix("millrace: ").unwrap_or(&why);
                return Err(Failure::Bad(format!(
                    "not upgraded, the running switch goes on: {why}"
                )));
            }
        }
    };
    answers(ctl, new)?;
    let pause = pause(ctl);
    let (seconds, binary) = (began.elapsed().as_secs_f64(), told.binary.display());
    if json {
        let object = json!({
            "binary": binary.to_string(), "upgraded": true, "seconds": seconds, "pause_ms": pause,
            "before": {"pid": before.pid, "version": before.millrace},
            "now": {"pid": new, "version": told.version},
        });
        say(format_args!("{object}\n"));
        return Ok(());
    }
    let pause = pause.map_or_else(String::new, |ms| format!("; packets waited {ms} ms"));
    say(format_args!(
        "millrace {} (process {}) -> millrace {} (process {new}) in {seconds:.1} s{pause}\n",
        before.millrace, before.pid, told.version
    ));
    Ok(())
}

/// Waits until this process answers at the control socket.
fn answers(ctl: Option<&Path>, pid: u32) -> Result<(), Failure> {
    let until = Instant::now() + ANSWERS_MAX;
    loop {
        let why = match answer(ctl, &Version {}) {
            Ok(version) if version.pid == pid => return Ok(()),
            Ok(version) => format!("process {} answers", version.pid),
            Err(failure) => failure.text(),
        };
        if Instant::now() > until {
            let text = format!("process {pid} has taken over, and does not answer: {why}");
            return Err(Failure::Bad(text));
        }
        std::thread::sleep(ASK);
    }
}

/// How long packets waited, in milliseconds, as the new process tells it.
fn pause(ctl: Option<&Path>) -> Option<String> {
    let question = Events { text: "taken over".to_owned(), limit: 100, ..Events::default() };
    answer(ctl, &question)
        .ok()?
        .events
        .into_iter()
        .rev()
        .find_map(|mut event| event.fields.remove("pause_ms"))
}

fn nonsense(error: &serde_json::Error) -> Failure {
    Failure::Bad(format!("the switch's answer: {error}"))
}
