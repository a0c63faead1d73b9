//! Do a flow entry's counters tell what came, and how soon?
//!
//! So many probes are sent through one entry, then its counters are asked for until they are right.
//! Right is any number from those that came out to those that were sent: what a switch lost before
//! its lookup it need not count. Bytes are those of so many packets, with the frame check sequence or without.
//!
//! Beside the entry's, two more tell the same: the sum over all entries (aggregate statistics), and what the table looked up
//! and matched, of which there is no upper bound here, as other ports may have traffic. An entry that is new has counted
//! nothing.

use super::question::Module;
use crate::bench::Bench;
use crate::clock;
use crate::error::Error;
use crate::judge::blindness;
use crate::run::{Finding, Floor, Run};
use crate::traffic::Plan;
use openflow::{FlowStats, FlowStatsRequest, MultipartReplyBody, MultipartRequestBody};
use std::time::Duration;

/// The module.
pub const MODULE: Module = Module {
    name: "statistics",
    about: "whether a flow entry's counters are right, and after how long",
    figures: &["sent", "packets", "bytes", "lookups", "matched", "fresh_us"],
    latencies: &["reply"],
    over: &[],
    run,
};

/// The longest that counters may take to be right, in nanoseconds.
const FRESH_NS: u64 = 5_000_000_000;
/// How long they must stay right, in nanoseconds: wrong ones may pass by the right number.
const STEADY_NS: u64 = 500_000_000;

fn run(bench: &mut Bench, _: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    Ok(vec![bench.repeat(once)?])
}

fn once(bench: &mut Bench) -> Result<Run, Error> {
    let rule = bench.forward(0);
    bench.only(rule)?;
    // What another entry has counted may still be on its way to be told.
    std::thread::sleep(Duration::from_millis(bench.settings.fresh_max_ms.min(1500).into()));
    let (inherited, _) = ours(&entries(bench)?);
    let table_before = table(bench)?;
    let plan = Plan { probes: bench.settings.probes.min(5000), ..bench.plan() };
    let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
    let (sent, received) = (capture.sent_count(), capture.received_count());
    let len = plan.len as u64;
    let since = capture.received.iter().chain(&capture.sent).copied().max().unwrap_or(0);
    let mut reply = crate::latency::Latency::default();
    let (mut right_since, mut wrong_at) = (None, None);
    let (packets, bytes, fresh_ns) = loop {
        let asked = clock::now();
        let (packets, bytes) = ours(&entries(bench)?);
        let (packets, bytes) =
            (packets - inherited.min(packets), bytes - (inherited * len).min(bytes));
        let now = clock::now();
        reply.record(now - asked);
        let whole = bytes == packets * len || bytes == packets * (len + 4);
        if (received..=sent).contains(&packets) && whole {
            let right = *right_since.get_or_insert(now);
            if now - right >= STEADY_NS {
                break (packets, bytes, Some(right.saturating_sub(since)));
            }
        } else {
            (right_since, wrong_at) = (None, Some(asked));
        }
        if right_since.is_none() && now.saturating_sub(since) > FRESH_NS {
            break (packets, bytes, None);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut findings = Vec::new();
    let others = capture.odd.sent_by_others + capture.odd.strangers();
    if inherited > 0 && others == 0 && blindness(&capture).is_empty() {
        let text = format!("a new entry had counted {inherited} packets before any was sent to it");
        findings.push(Finding { what: "flow_count_inherited", text });
    }
    let (mut figures_of_table, mut wrong) = (Vec::new(), None);
    if let Some([lookups, matched]) = table_before {
        // Late like the entry's, which were right by now or are not judged.
        let until = clock::now() + STEADY_NS * 2;
        let (looked_up, matched) = loop {
            let now = table(bench)?.unwrap_or_default();
            let grown = (now[0].wrapping_sub(lookups), now[1].wrapping_sub(matched));
            if (grown.0 >= received && grown.1 >= received) || clock::now() > until {
                break grown;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        figures_of_table = vec![("lookups", looked_up as f64), ("matched", matched as f64)];
        if looked_up < received || matched < received || matched > looked_up {
            wrong = Some(format!(
                "after {sent} frames were sent and {received} had come out, the table counts {looked_up} lookups and \
                 {matched} matches more"
            ));
        }
    }
    if let Some(text) = wrong.filter(|_| fresh_ns.is_some() && blindness(&capture).is_empty()) {
        findings.push(Finding { what: "table_count_wrong", text });
    }
    let summed = if fresh_ns.is_some() { aggregate(bench)? } else { None };
    if let Some(text) = summed.filter(|_| blindness(&capture).is_empty()) {
        findings.push(Finding { what: "aggregate_count_wrong", text });
    }
    if fresh_ns.is_none() && blindness(&capture).is_empty() {
        let text = format!(
            "{} s after {sent} frames of {len} bytes were sent and {received} had come out, the entry \
             counts {packets} packets and {bytes} bytes",
            FRESH_NS / 1_000_000_000
        );
        findings.push(Finding { what: "flow_count_wrong", text });
    }
    let max_ms = bench.settings.fresh_max_ms;
    // Who looks late for the first time cannot say that they were not right before.
    let was_wrong = wrong_at.is_some_and(|at| at.saturating_sub(since) > ns_of(max_ms));
    if let Some(ns) = fresh_ns.filter(|_| was_wrong)
        && blindness(&capture).is_empty()
    {
        let text = format!("the entry's counters were right only after {:.1} ms", ns as f64 / 1e6);
        findings.push(Finding { what: "flow_count_stale", text });
    }
    let mut figures =
        vec![("sent", sent as f64), ("packets", packets as f64), ("bytes", bytes as f64)];
    figures.append(&mut figures_of_table);
    figures.extend(fresh_ns.map(|ns| ("fresh_us", ns as f64 / 1000.0)));
    Ok(Run {
        label: format!("{sent} frames"),
        // Counting does not hang on when probes were sent.
        disturbed: blindness(&capture),
        figures,
        latencies: vec![("reply", reply.summary())],
        floor: Floor::Control,
        findings,
        ..Run::default()
    })
}

/// Milliseconds, in nanoseconds.
pub(super) fn ns_of(ms: u32) -> u64 {
    u64::from(ms) * 1_000_000
}

fn entries(bench: &mut Bench) -> Result<Vec<FlowStats>, Error> {
    let body = MultipartRequestBody::Flow(FlowStatsRequest::all());
    let parts = bench.control.multipart("flow statistics", body)?;
    let of = |part| match part {
        MultipartReplyBody::Flow(entries) => entries,
        _ => Vec::new(),
    };
    Ok(parts.into_iter().flat_map(of).collect())
}

/// Packets and bytes of the entry that forwards.
fn ours(entries: &[FlowStats]) -> (u64, u64) {
    let entries = entries.iter().filter(|entry| entry.priority == 1000);
    entries.fold((0, 0), |(p, b), entry| (p + entry.packet_count, b + entry.byte_count))
}

/// What the first table has looked up and matched; none if the switch does not tell or does not count.
fn table(bench: &mut Bench) -> Result<Option<[u64; 2]>, Error> {
    let parts = match bench.control.multipart("table statistics", MultipartRequestBody::Table) {
        Ok(parts) => parts,
        Err(e) if e.is_of_one_module() => return Ok(None),
        Err(e) => return Err(e),
    };
    let first = parts.into_iter().find_map(|part| match part {
        MultipartReplyBody::Table(tables) => tables.into_iter().find(|t| t.table_id.0 == 0),
        _ => None,
    });
    let counts = first.map(|t| [t.lookup_count, t.matched_count]);
    Ok(counts.filter(|counts| !counts.contains(&u64::MAX)))
}

/// In how far the sums over all entries are not those of the entries, asked for before and after.
fn aggregate(bench: &mut Bench) -> Result<Option<String>, Error> {
    let sums = |entries: &[FlowStats]| {
        entries.iter().fold([0, 0, 0], |[n, p, b], e| [n + 1, p + e.packet_count, b + e.byte_count])
    };
    let before = sums(&entries(bench)?);
    let body = MultipartRequestBody::Aggregate(FlowStatsRequest::all());
    let parts = match bench.control.multipart("aggregate statistics", body) {
        Ok(parts) => parts,
        Err(e) if e.is_of_one_module() => return Ok(None),
        Err(e) => return Err(e),
    };
    let after = sums(&entries(bench)?);
    let told = parts.into_iter().find_map(|part| match part {
        MultipartReplyBody::Aggregate(sum) => {
            Some([u64::from(sum.flow_count), sum.packet_count, sum.byte_count])
        }
        _ => None,
    });
    let Some(told) = told else { return Ok(None) };
    let fits = (0..3).all(|i| (before[i]..=after[i]).contains(&told[i]));
    let [entries, packets, bytes] = told;
    Ok((!fits).then(|| {
        format!(
            "the sums are told as {entries} entries, {packets} packets, {bytes} bytes, but the entries are {}, with {} and {}",
            after[0], after[1], after[2]
        )
    }))
}
