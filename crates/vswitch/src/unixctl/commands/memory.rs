//! `memory/show`: how much there is of what takes memory.

use super::command::{Answer, Command, Context};

pub(super) const COMMANDS: &[Command] =
    &[Command { name: "memory/show", usage: "", min: 0, max: 0, run: show }];

fn show(context: &Context, _: &[String]) -> Answer {
    let mut usage = context.switch.usage();
    usage.push(("ovsdb-rows".to_owned(), context.watch.progress().rows as u64));
    usage.sort();
    let words: Vec<String> =
        usage.into_iter().map(|(name, count)| format!("{name}:{count}")).collect();
    Ok(words.join(" "))
}
