//! `exit`.

use super::command::{Answer, Command, Context};

pub(super) const COMMANDS: &[Command] =
    &[Command { name: "exit", usage: "[--cleanup]", min: 0, max: 1, run: exit }];

fn exit(context: &Context, words: &[String]) -> Answer {
    match words.first().map(String::as_str) {
        // The datapath ends with the process, so there is nothing else to clean.
        None | Some("--cleanup") => {
            (context.exit)();
            Ok(String::new())
        }
        Some(other) => Err(format!("exit: {other}: --cleanup was expected")),
    }
}
