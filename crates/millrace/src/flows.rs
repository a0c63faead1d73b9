//! `millrace flows`, `groups`, `meters`: what controllers have programmed, with counters; entries' rates, again and again.

use crate::cli::{FlowOrder, FlowsOptions, GroupsOptions, MetersOptions};
use crate::show::show;
use control::client::ask;
use control::failure::Failure;
use control::output::say;
use control::verbs::flows::{Answer, Flows, One, Sort};
use control::verbs::groups::Groups;
use control::verbs::meters::Meters;
use serde_json::json;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Rates are of so long.
const INTERVAL: Duration = Duration::from_secs(1);
/// Lines of `--watch`, where the terminal's height is not asked for.
const LINES: usize = 40;

/// `millrace flows`.
pub(crate) fn flows(options: FlowsOptions) -> Result<(), Failure> {
    let by_rate = options.sort == FlowOrder::Rate;
    let question =
        |limit| Flows { filter: options.filter.join(","), sort: sort(options.sort), limit };
    if !by_rate && !options.watch {
        return show::<Flows>(ask(options.to.whom(), &question(options.limit))?, options.json);
    }
    // Whoever is fastest may be anywhere in the list.
    let whole = || -> Result<(Instant, Answer), Failure> {
        let value = ask(options.to.whom(), &question(usize::MAX))?;
        let answer = serde_json::from_value(value);
        let answer = answer.map_err(|e| Failure::Bad(format!("the switch's answer: {e}")))?;
        Ok((Instant::now(), answer))
    };
    let limit = if options.watch { options.limit.min(LINES) } else { options.limit };
    let mut before = whole()?;
    loop {
        std::thread::sleep(INTERVAL);
        let now = whole()?;
        let seconds = now.0.duration_since(before.0).as_secs_f64();
        let rated = rated(&before.1, &now.1, seconds, by_rate, limit);
        if options.json {
            say(format_args!("{}\n", json(&rated)));
        } else {
            let clear = options.watch && std::io::stdout().is_terminal();
            let begin = if clear { "\x1b[H\x1b[2J" } else { "" };
            say(format_args!("{begin}{}\n", text(&now.1, &rated)));
        }
        if !options.watch {
            return Ok(());
        }
        before = now;
    }
}

/// `millrace groups`.
pub(crate) fn groups(options: GroupsOptions) -> Result<(), Failure> {
    let GroupsOptions { group, shown } = options;
    let question = Groups { group, limit: shown.limit };
    show::<Groups>(ask(shown.to.whom(), &question)?, shown.json)
}

/// `millrace meters`.
pub(crate) fn meters(options: MetersOptions) -> Result<(), Failure> {
    let MetersOptions { meter, shown } = options;
    let question = Meters { meter, limit: shown.limit };
    show::<Meters>(ask(shown.to.whom(), &question)?, shown.json)
}

fn sort(order: FlowOrder) -> Sort {
    match order {
        FlowOrder::Table | FlowOrder::Rate => Sort::Table,
        FlowOrder::Packets => Sort::Packets,
        FlowOrder::Bytes => Sort::Bytes,
        FlowOrder::Recent => Sort::Recent,
    }
}

/// An entry with its packets and bytes a second.
struct Rated<'a> {
    one: &'a One,
    packets: f64,
    bytes: f64,
}

/// What came between two answers. An entry that has come meanwhile has all of its packets from then.
fn rated<'a>(
    before: &Answer,
    now: &'a Answer,
    seconds: f64,
    by_rate: bool,
    limit: usize,
) -> Vec<Rated<'a>> {
    let old: HashMap<u32, &One> = before.flows.iter().map(|one| (one.id, one)).collect();
    let rate = |now: u64, old: u64| now.saturating_sub(old) as f64 / seconds.max(1e-9);
    let mut all: Vec<Rated<'_>> = now
        .flows
        .iter()
        .map(|one| {
            let of =
                |count: fn(&One) -> u64| rate(count(one), old.get(&one.id).map_or(0, |o| count(o)));
            Rated { one, packets: of(|one| one.packets), bytes: of(|one| one.bytes) }
        })
        .collect();
    if by_rate {
        all.sort_by(|a, b| b.packets.total_cmp(&a.packets));
    }
    all.truncate(limit);
    all
}

fn json(rated: &[Rated<'_>]) -> String {
    let flows: Vec<_> = rated
        .iter()
        .map(|rated| {
            json!({
                "flow": rated.one,
                "packets_per_second": rated.packets,
                "bytes_per_second": rated.bytes,
            })
        })
        .collect();
    json!({ "flows": flows }).to_string()
}

fn text(answer: &Answer, rated: &[Rated<'_>]) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{:>5} {:>8} {:>12} {:>10} {:>12}  {:<40} actions",
        "table", "priority", "packets", "packets/s", "bits/s", "match"
    );
    for Rated { one, packets, bytes } in rated {
        let matching = if one.matching.is_empty() { "*" } else { &one.matching };
        let _ = writeln!(
            out,
            "{:>5} {:>8} {:>12} {packets:>10.0} {:>12.0}  {matching:<40} {}",
            one.table,
            one.priority,
            one.packets,
            bytes * 8.0,
            one.actions
        );
    }
    if rated.len() < answer.chosen {
        let _ = writeln!(out, "{} of {} entries", rated.len(), answer.chosen);
    }
    out.trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(counts: &[(u32, u64)]) -> Answer {
        let one = |&(id, packets)| One { id, packets, bytes: packets * 100, ..One::default() };
        let flows: Vec<One> = counts.iter().map(one).collect();
        Answer { chosen: flows.len(), total: flows.len(), flows }
    }

    #[test]
    fn rates_are_what_came_in_between_the_fastest_first() {
        let (before, now) = (answer(&[(1, 10), (2, 500)]), answer(&[(1, 30), (2, 504), (3, 8)]));
        let rated = rated(&before, &now, 2.0, true, 2);
        let rates: Vec<_> = rated.iter().map(|one| (one.one.id, one.packets, one.bytes)).collect();
        assert_eq!(rates, [(1, 10.0, 1000.0), (3, 4.0, 400.0)]);
        let text = text(&now, &rated);
        assert!(text.ends_with("\n2 of 3 entries"), "{text}");
        assert!(json(&rated).contains(r#""packets_per_second":10.0"#));
    }

    #[test]
    fn an_entry_that_was_given_anew_has_no_negative_rate() {
        let (before, now) = (answer(&[(1, 100)]), answer(&[(1, 4)]));
        assert_eq!(rated(&before, &now, 1.0, false, 9)[0].packets, 0.0);
    }
}
