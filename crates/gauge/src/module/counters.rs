//! Do the counters of ports tell what came and what left, and how soon?
//!
//! As [`statistics`](super::statistics) for flow entries: so many probes are sent, then the counters are asked
//! for until they have grown by the right numbers: packets by any from those that came out to those that were sent,
//! bytes by what so many packets have (with the check sequence or without), errors by none, drops by no more than what
//! did not come out. Other frames may pass the ports meanwhile (a host's own): where our interfaces count what passed them,
//! just so many more are borne. A counter of all ones is one that the switch does not have (1.3.5 §7.3.5.6).

use super::question::Module;
use super::statistics::ns_of;
use crate::bench::Bench;
use crate::clock;
use crate::error::Error;
use crate::judge::blindness;
use crate::latency::Latency;
use crate::run::{Finding, Floor, Run};
use crate::traffic::Plan;
use openflow::{MultipartReplyBody, MultipartRequestBody, PortNo, PortStats};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The module.
pub const MODULE: Module = Module {
    name: "port_statistics",
    about: "whether the counters of ports are right, and after how long",
    figures: &["sent", "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "fresh_us"],
    latencies: &["reply"],
    over: &[],
    run,
};

/// The longest that counters may take to be right, in nanoseconds.
const WRONG_NS: u64 = 5_000_000_000;

fn run(bench: &mut Bench, _: &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error> {
    Ok(vec![bench.repeat(once)?])
}

pub(super) fn of_port(bench: &mut Bench, number: u32) -> Result<PortStats, Error> {
    let body = MultipartRequestBody::PortStats(PortNo(number));
    let parts = bench.control.multipart("port statistics", body)?;
    let mut ports = parts.into_iter().flat_map(|part| match part {
        MultipartReplyBody::PortStats(ports) => ports,
        _ => Vec::new(),
    });
    ports.find(|p| p.port_no == PortNo(number)).ok_or_else(|| {
        Error::NotAsked(format!("the switch has no statistics of its port {number}"))
    })
}

/// What may have passed a port.
struct Passed {
    packets: RangeInclusive<u64>,
    /// Probes of them, and how long each is.
    sent: u64,
    len: u64,
    /// Frames that did not come out.
    lost: u64,
}

impl Passed {
    /// The counters of one direction, and those of faults, that cannot be right.
    fn wrong(&self, counted: [u64; 2], faults: &[(&str, u64)], drops: (&str, u64)) -> Vec<String> {
        let [packets, bytes] = counted;
        let (least, most) = self.packets.clone().into_inner();
        let mut wrong = Vec::new();
        if packets != ABSENT && !self.packets.contains(&packets) {
            wrong.push(format!("{packets} packets, not {least} to {most}"));
        }
        let ours = if packets == ABSENT { self.sent } else { packets.min(self.sent) };
        let more = if packets == ABSENT { most } else { packets } - ours;
        let whole = [ours * self.len, ours * (self.len + 4)];
        let right = match more {
            0 => whole.contains(&bytes),
            // Of others' frames only the number is known.
            _ => (whole[0] + more * 14..=whole[1] + more * 65_536).contains(&bytes),
        };
        if bytes != ABSENT && packets != ABSENT && !right {
            wrong.push(format!("{bytes} bytes, not {} or {}", whole[0], whole[1]));
        }
        for (name, n) in faults.iter().filter(|(_, n)| *n != 0 && *n != ABSENT) {
            wrong.push(format!("{n} {name}, not 0"));
        }
        let (name, n) = drops;
        let most = self.lost + more;
        if n != ABSENT && n > most {
            wrong.push(format!("{n} {name}, not 0 to {most}"));
        }
        wrong
    }
}

/// What stands for a counter that the switch does not have.
const ABSENT: u64 = u64::MAX;

/// How much a counter has grown.
fn grown(before: u64, now: u64) -> u64 {
    if now == ABSENT { ABSENT } else { now.wrapping_sub(before) }
}

fn growth(before: &PortStats, now: &PortStats) -> PortStats {
    PortStats {
        port_no: now.port_no,
        rx_packets: grown(before.rx_packets, now.rx_packets),
        tx_packets: grown(before.tx_packets, now.tx_packets),
        rx_bytes: grown(before.rx_bytes, now.rx_bytes),
        tx_bytes: grown(before.tx_bytes, now.tx_bytes),
        rx_dropped: grown(before.rx_dropped, now.rx_dropped),
        tx_dropped: grown(before.tx_dropped, now.tx_dropped),
        rx_errors: grown(before.rx_errors, now.rx_errors),
        tx_errors: grown(before.tx_errors, now.tx_errors),
        rx_frame_err: grown(before.rx_frame_err, now.rx_frame_err),
        rx_over_err: grown(before.rx_over_err, now.rx_over_err),
        rx_crc_err: grown(before.rx_crc_err, now.rx_crc_err),
        collisions: grown(before.collisions, now.collisions),
        age: now.age,
    }
}

fn once(bench: &mut Bench) -> Result<Run, Error> {
    let rule = bench.forward(0);
    bench.only(rule)?;
    let (from, to) = (bench.input.number, bench.output.number);
    // What is still on its way to the counters is not to be taken for ours.
    std::thread::sleep(Duration::from_millis(bench.settings.fresh_max_ms.min(1500).into()));
    let passed_before = (bench.input.passed_in_all(), bench.output.passed_in_all());
    let before = (of_port(bench, from)?, of_port(bench, to)?);
    let plan = Plan { probes: bench.settings.probes.min(5000), ..bench.plan() };
    let (capture, ()) = bench.traffic(&plan, |_, _| Ok(()))?;
    let (sent, received) = (capture.sent_count(), capture.received_count());
    let since = capture.received.iter().chain(&capture.sent).copied().max().unwrap_or(0);
    let mut reply = Latency::default();
    let lost = sent.saturating_sub(received);
    let mut wrong_at = None;
    let (rx, tx, wrong, fresh_ns) = loop {
        let asked = clock::now();
        let now_in = of_port(bench, from)?;
        let now = clock::now();
        reply.record(now - asked);
        let now_out = of_port(bench, to)?;
        let (rx, tx) = (growth(&before.0, &now_in), growth(&before.1, &now_out));
        // Asked after the counters: what is in them has passed.
        let delta = |before: Option<[u64; 2]>, now: Option<[u64; 2]>, which: usize| {
            Some(now?[which].saturating_sub(before?[which]))
        };
        let into = delta(passed_before.0, bench.input.passed_in_all(), 1).unwrap_or(sent);
        let out = delta(passed_before.1, bench.output.passed_in_all(), 0)
            .map_or(sent + capture.odd.strangers() + capture.odd.doubled, |n| n + lost);
        let passed = |most: u64| Passed {
            packets: received..=most.max(sent),
            sent,
            len: plan.len as u64,
            lost,
        };
        let of_rx = [
            ("receive errors", rx.rx_errors),
            ("frame errors", rx.rx_frame_err),
            ("overruns", rx.rx_over_err),
            ("check sequence errors", rx.rx_crc_err),
        ];
        let of_tx = [("transmit errors", tx.tx_errors), ("collisions", tx.collisions)];
        // What it lost before its port's counter it need not count.
        let [mut wrong, of_out] = [
            passed(into).wrong(
                [rx.rx_packets, rx.rx_bytes],
                &of_rx,
                ("frames dropped coming in", rx.rx_dropped),
            ),
            passed(out).wrong(
                [tx.tx_packets, tx.tx_bytes],
                &of_tx,
                ("frames dropped going out", tx.tx_dropped),
            ),
        ];
        wrong.iter_mut().for_each(|text| text.insert_str(0, &format!("port {from} in: ")));
        wrong.extend(of_out.into_iter().map(|text| format!("port {to} out: {text}")));
        if wrong.is_empty() {
            break (rx, tx, wrong, Some(now.saturating_sub(since)));
        }
        if now.saturating_sub(since) > WRONG_NS {
            break (rx, tx, wrong, None);
        }
        wrong_at = Some(asked);
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut findings = Vec::new();
    // Who looks late for the first time cannot say that they were not right before.
    let max_ns = ns_of(bench.settings.fresh_max_ms);
    let was_wrong = wrong_at.is_some_and(|at: u64| at.saturating_sub(since) > max_ns);
    if blindness(&capture).is_empty() {
        match fresh_ns {
            None => findings.push(Finding {
                what: "port_count_wrong",
                text: format!(
                    "{} s after {sent} frames were sent and {received} had come out: {}",
                    WRONG_NS / 1_000_000_000,
                    wrong.join("; ")
                ),
            }),
            Some(ns) if was_wrong => findings.push(Finding {
                what: "port_count_stale",
                text: format!("the counters were right only after {:.1} ms", ns as f64 / 1e6),
            }),
            Some(_) => {}
        }
    }
    let mut figures = vec![
        ("sent", sent as f64),
        ("rx_packets", rx.rx_packets as f64),
        ("tx_packets", tx.tx_packets as f64),
        ("rx_bytes", rx.rx_bytes as f64),
        ("tx_bytes", tx.tx_bytes as f64),
    ];
    figures.extend(fresh_ns.map(|ns| ("fresh_us", ns as f64 / 1000.0)));
    Ok(Run {
        label: format!("{sent} frames"),
        disturbed: blindness(&capture),
        figures,
        latencies: vec![("reply", reply.summary())],
        floor: Floor::Control,
        findings,
        ..Run::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_bounds() {
        let passed = |most| Passed { packets: 4990..=most, sent: 5000, len: 60, lost: 10 };
        let wrong = |counted, most, faults: &[(&str, u64)], drops| {
            passed(most).wrong(counted, faults, ("drops", drops)).join(", ")
        };
        assert_eq!(wrong([5000, 300_000], 5000, &[], 10), "");
        assert_eq!(wrong([4990, 4990 * 64], 5000, &[("errors", 0)], 0), "");
        assert_eq!(wrong([5045, 5045 * 60], 5045, &[], 0), "");
        assert_eq!(wrong([ABSENT; 2], 5000, &[("errors", ABSENT)], ABSENT), "");
        assert_eq!(wrong([5001, 300_060], 5000, &[], 0), "5001 packets, not 4990 to 5000");
        assert!(wrong([5045, 5045 * 60], 5000, &[], 0).starts_with("5045 packets"));
        assert_eq!(wrong([5000, 300_001], 5000, &[], 0), "300001 bytes, not 300000 or 320000");
        assert_eq!(wrong([5000, 300_000], 5000, &[("errors", 1)], 0), "1 errors, not 0");
        assert_eq!(wrong([5000, 300_000], 5000, &[], 11), "11 drops, not 0 to 10");
    }
}
