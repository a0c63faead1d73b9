//! `bfd/*`: whether the other ends of tunnels live.

use super::command::{Answer, Command, Context};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "bfd/set-forwarding",
        usage: "[interface] normal|false|true",
        min: 1,
        max: 2,
        run: |c, w| of("set-forwarding", c, w),
    },
    Command {
        name: "bfd/show",
        usage: "[interface]",
        min: 0,
        max: 1,
        run: |c, w| of("show", c, w),
    },
];

fn of(what: &str, context: &Context, words: &[String]) -> Answer {
    let mut all = vec![what];
    all.extend(words.iter().map(String::as_str));
    context.switch.ask("bfd", &all)
}
