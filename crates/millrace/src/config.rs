//! `millrace config`: a configuration file checked, planned, applied to a running switch and taken back.

use crate::cli::{ConfigCommand, ConfigOptions};
use crate::show::show;
use control::client::ask;
use control::config::Options;
use control::failure::Failure;
use control::output::say;
use control::reload;
use control::verbs::config::{ConfigQuestion, What};
use std::io::IsTerminal as _;
use std::path::PathBuf;

/// `millrace config`.
pub(crate) fn config(options: ConfigOptions) -> Result<(), Failure> {
    let ConfigOptions { command, json, fleet, wait, to } = options;
    if let Some(place) = fleet {
        return crate::fleet::fleet(&place, command, json, wait);
    }
    if wait.is_some() {
        return Err(Failure::usage(
            "--wait is for the members of a fleet: name its store with --to",
        ));
    }
    let (what, file, confirm_within_seconds) = match command {
        ConfigCommand::Check { file } => return check(file, json),
        ConfigCommand::Plan { file } => (What::Plan, file, None),
        ConfigCommand::Apply { file, confirm_within } => (What::Apply, file, confirm_within),
        ConfigCommand::Confirm => (What::Confirm, None, None),
        ConfigCommand::Rollback => (What::Rollback, None, None),
        ConfigCommand::History => (What::History, None, None),
        ConfigCommand::Status | ConfigCommand::Show { .. } | ConfigCommand::Forget { .. } => {
            return Err(Failure::usage(
                "this is asked of a fleet's store: name it with --to nats://HOST[:PORT]/GROUP",
            ));
        }
    };
    // The switch may run elsewhere in the file system.
    let absolute = |path: PathBuf| {
        std::path::absolute(&path)
            .map_err(|error| Failure::Bad(format!("{}: {error}", path.display())))
    };
    let file = file.map(absolute).transpose()?;
    let question = ConfigQuestion { what, file, confirm_within_seconds };
    let answer = ask(to.whom(), &question)?;
    if json || !std::io::stdout().is_terminal() || is_plain() {
        return show::<ConfigQuestion>(answer, json);
    }
    say(format_args!("{}", coloured(&control::client::text::<ConfigQuestion>(answer)?)));
    Ok(())
}

fn check(file: PathBuf, json: bool) -> Result<(), Failure> {
    let shown = file.display().to_string();
    reload::check(Options { config: Some(file), ..Options::default() })?;
    match json {
        true => say(format_args!("{}\n", serde_json::json!({ "file": shown, "right": true }))),
        false => say(format_args!("{shown}: right\n")),
    }
    Ok(())
}

/// The terminal, or its user by NO_COLOR, wants no colours.
pub(crate) fn is_plain() -> bool {
    let is = |name, wanted: fn(&str) -> bool| std::env::var(name).is_ok_and(|value| wanted(&value));
    is("TERM", |term| term == "dumb") || is("NO_COLOR", |value| !value.is_empty())
}

/// In the colours of a diff.
pub(crate) fn coloured(text: &str) -> String {
    let line = |line: &str| {
        let colour = match line.as_bytes().first() {
            Some(b'+') => "32",
            Some(b'-') => "31",
            Some(b'~') => "33",
            Some(b'!') => "35",
            _ => return format!("{line}\n"),
        };
        format!("\x1b[{colour}m{line}\x1b[0m\n")
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_colours_of_a_diff() {
        let text = "+ port a of br0\n- port b of br0\nconfiguration 1: applied\n";
        let expected = "\x1b[32m+ port a of br0\x1b[0m\n\x1b[31m- port b of br0\x1b[0m\nconfiguration 1: applied\n";
        assert_eq!(coloured(text), expected);
    }

    #[test]
    fn a_file_is_checked_with_those_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let (file, flows) = (folder.path().join("switch.toml"), folder.path().join("flows.txt"));
        let text = format!("port = [\"p1=memory:check-a\"]\nflows = [{flows:?}]\n");
        std::fs::write(&file, text).unwrap();
        let missing = check(file.clone(), false).unwrap_err().text();
        assert!(missing.contains("flows.txt"), "{missing}");
        std::fs::write(&flows, "in_port=1,actions=outptu:2\n").unwrap();
        let wrong = check(file.clone(), false).unwrap_err().text();
        assert!(wrong.contains("flows.txt:1: column 19: unknown action `outptu`"), "{wrong}");
        std::fs::write(&flows, "in_port=1,actions=output:2\n").unwrap();
        check(file, true).unwrap();
    }
}
