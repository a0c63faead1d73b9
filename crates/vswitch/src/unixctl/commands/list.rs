//! `list-commands`.

use super::all;
use super::command::{Answer, Command, Context};
use std::fmt::Write as _;

pub(super) const COMMANDS: &[Command] =
    &[Command { name: "list-commands", usage: "", min: 0, max: 0, run: list }];

fn list(_: &Context, _: &[String]) -> Answer {
    let mut out = "The available commands are:\n".to_owned();
    for command in all() {
        // Writing to a string does not fail.
        let _ = writeln!(out, "  {:<23} {}", command.name, command.usage);
    }
    Ok(out)
}
