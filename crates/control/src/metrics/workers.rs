//! Workers: rounds, frames, and what they spend their time on. The share of a worker that is busy is
//! `rate(millrace_worker_busy_seconds_total[1m])`.

use super::source::Source;
use metrics::text::seconds;
use metrics::{Family, Text};

const BUSY: Family =
    Family::counter("millrace_worker_busy_seconds", "Time in rounds that found frames or commands");
const ASLEEP: Family =
    Family::counter("millrace_worker_sleep_seconds", "Time asleep, as nothing came");
const SLEEPS: Family =
    Family::counter("millrace_worker_sleeps", "How often the worker fell asleep");
const ROUNDS: Family =
    Family::counter("millrace_worker_rounds", "Rounds over all receive queues, by what they found");
const TAKEN: Family =
    Family::counter("millrace_worker_taken", "Frames and commands that rounds found");

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let loads = source.bridges.workers().loads();
    let names: Vec<String> = (0..loads.len()).map(|n| n.to_string()).collect();
    let all = || names.iter().zip(&loads);
    let mut family = text.family(&BUSY);
    all().for_each(|(name, load)| family.put(&[("worker", name)], seconds(load.busy_ns)));
    let mut family = text.family(&ASLEEP);
    all().for_each(|(name, load)| family.put(&[("worker", name)], seconds(load.asleep_ns)));
    let mut family = text.family(&SLEEPS);
    all().for_each(|(name, load)| family.put(&[("worker", name)], load.sleeps));
    let mut family = text.family(&ROUNDS);
    for (name, load) in all() {
        family.put(&[("worker", name), ("found", "something")], load.busy_rounds);
        family.put(&[("worker", name), ("found", "nothing")], load.idle_rounds);
    }
    let mut family = text.family(&TAKEN);
    all().for_each(|(name, load)| family.put(&[("worker", name)], load.taken));
}
