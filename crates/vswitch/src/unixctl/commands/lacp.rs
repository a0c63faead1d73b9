//! `lacp/*`: the link aggregation control protocol.

use super::command::{Answer, Command, Context};

pub(super) const COMMANDS: &[Command] = &[
    Command { name: "lacp/show", usage: "[port]", min: 0, max: 1, run: |c, w| of("show", c, w) },
    Command {
        name: "lacp/show-stats",
        usage: "[port]",
        min: 0,
        max: 1,
        run: |c, w| of("show-stats", c, w),
    },
];

fn of(what: &str, context: &Context, words: &[String]) -> Answer {
    let mut all = vec![what];
    all.extend(words.iter().map(String::as_str));
    context.switch.ask("lacp", &all)
}
