//! `vlog/*`: the log.

use super::command::{Answer, Command, Context, LogFile};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "vlog/set",
        usage: "{spec | PATTERN:destination:pattern}",
        min: 1,
        max: usize::MAX,
        run: set,
    },
    Command {
        name: "vlog/list",
        usage: "",
        min: 0,
        max: 0,
        run: |context, _| Ok(context.levels.list()),
    },
    Command {
        name: "vlog/reopen",
        usage: "",
        min: 0,
        max: 0,
        run: |context, _| (context.log_file)(LogFile::Reopen),
    },
    Command {
        name: "vlog/close",
        usage: "",
        min: 0,
        max: 0,
        run: |context, _| (context.log_file)(LogFile::Close),
    },
];

fn set(context: &Context, words: &[String]) -> Answer {
    words.iter().try_for_each(|word| context.levels.set(word))?;
    Ok(String::new())
}
