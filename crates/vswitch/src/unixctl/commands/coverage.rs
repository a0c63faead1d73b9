//! `coverage/*`: events and how often they came.

use super::command::{Answer, Command, Context};
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

pub(super) const COMMANDS: &[Command] = &[
    Command { name: "coverage/show", usage: "", min: 0, max: 0, run: show },
    Command { name: "coverage/read-counter", usage: "COUNTER", min: 1, max: 1, run: read },
];

fn counts(context: &Context) -> Vec<(String, u64)> {
    let progress = context.watch.progress();
    let of = |name: &str, count: u64| (name.to_owned(), count);
    let mut counts = vec![
        of("bridge_reconfigure", progress.reconfigured),
        of("vswitch_steps", progress.steps),
        of("vswitch_refused_now", progress.refused as u64),
        of("vswitch_unsupported_now", progress.unsupported as u64),
        of("txn_error", progress.transactions_failed),
        of("unixctl_received", context.counts.received.load(Ordering::Relaxed)),
        of("unixctl_missing", context.counts.missing.load(Ordering::Relaxed)),
        of("unixctl_refused", context.counts.refused.load(Ordering::Relaxed)),
    ];
    counts.extend(context.switch.counts());
    counts
}

fn show(context: &Context, _: &[String]) -> Answer {
    let counts = counts(context);
    let mut out = "Event coverage:\n".to_owned();
    let never = counts.iter().filter(|(_, count)| *count == 0).count();
    for (name, count) in counts.iter().filter(|(_, count)| *count > 0) {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{name:<24} total: {count}");
    }
    let _ = writeln!(out, "{never} events never hit");
    Ok(out)
}

fn read(context: &Context, words: &[String]) -> Answer {
    let found = counts(context).into_iter().find(|(name, _)| *name == words[0]);
    found.map(|(_, count)| format!("{count}\n")).ok_or_else(|| "No such counter".to_owned())
}
