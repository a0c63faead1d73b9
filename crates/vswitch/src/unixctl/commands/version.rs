//! `version`.

use super::command::Command;

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "version",
    usage: "",
    min: 0,
    max: 0,
    run: |context, _| Ok(context.version.clone()),
}];
