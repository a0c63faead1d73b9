//! `bond/*`: several interfaces as one.

use super::command::{Answer, Command, Context};

pub(super) const COMMANDS: &[Command] = &[
    Command { name: "bond/list", usage: "", min: 0, max: 0, run: |c, _| ask(c, &["list"]) },
    Command { name: "bond/show", usage: "[port]", min: 0, max: 1, run: |c, w| of("show", c, w) },
    Command {
        name: "bond/migrate",
        usage: "port hash member",
        min: 3,
        max: 3,
        run: |c, w| of("migrate", c, w),
    },
    Command {
        name: "bond/set-active-member",
        usage: "port member",
        min: 2,
        max: 2,
        run: |c, w| of("set-active-member", c, w),
    },
    Command {
        name: "bond/enable-member",
        usage: "port member",
        min: 2,
        max: 2,
        run: |c, w| of("enable-member", c, w),
    },
    Command {
        name: "bond/disable-member",
        usage: "port member",
        min: 2,
        max: 2,
        run: |c, w| of("disable-member", c, w),
    },
    Command {
        name: "bond/hash",
        usage: "mac [vlan] [basis]",
        min: 1,
        max: 3,
        run: |c, w| of("hash", c, w),
    },
];

fn of(what: &str, context: &Context, words: &[String]) -> Answer {
    let mut all = vec![what];
    all.extend(words.iter().map(String::as_str));
    ask(context, &all)
}

fn ask(context: &Context, words: &[&str]) -> Answer {
    context.switch.ask("bond", words)
}
