//! `qos/*`: egress queues.

use super::command::{Answer, Command, Context};

pub(super) const COMMANDS: &[Command] = &[
    Command { name: "qos/show", usage: "interface", min: 1, max: 1, run: |c, w| of("show", c, w) },
    Command {
        name: "qos/show-types",
        usage: "interface",
        min: 1,
        max: 1,
        run: |c, w| of("show-types", c, w),
    },
];

fn of(what: &str, context: &Context, words: &[String]) -> Answer {
    let mut all = vec![what];
    all.extend(words.iter().map(String::as_str));
    context.switch.ask("qos", &all)
}
