//! What a capture says of a run: latencies, what disturbed it, and what is wrong whatever was asked.

use crate::latency::{Latency, Summary};
use crate::run::{Finding, WIRE};
use crate::traffic::{Capture, Odd};

/// Strangers' frames that do not yet disturb a run, and the share of its own from which on they do.
const STRANGERS_MIN: u64 = 10;

const STRANGERS_SHARE: f64 = 0.01;

/// Losses on our own side: they hide what the switch did.
pub fn blindness(capture: &Capture) -> Vec<String> {
    let mut reasons = Vec::new();
    if capture.missed > 0 {
        reasons
            .push(format!("{} frames were lost on our side, captured too slowly", capture.missed));
    }
    if capture.refused > 0 {
        reasons.push(format!("our port refused to send {} probes", capture.refused));
    }
    reasons.extend(disturbing(&capture.odd));
    reasons
}

/// What else disturbs a run: links that went, and others that use the ports.
pub(crate) fn disturbing(odd: &Odd) -> Vec<String> {
    let mut reasons = Vec::new();
    if odd.link_gone > 0 {
        reasons.push("the link of one of our ports went down".to_string());
    }
    let strangers = odd.strangers() + odd.sent_by_others;
    let share = odd.looked_at as f64 * STRANGERS_SHARE;
    if strangers > STRANGERS_MIN && strangers as f64 > share {
        reasons.push(format!("others used the ports: {}", strangers_told(odd)));
    }
    reasons
}

fn strangers_told(odd: &Odd) -> String {
    let kinds = [
        (odd.others, "probes of another run came out (another gauge, or a capture played back)"),
        (odd.earlier, "probes of earlier runs came out"),
        (odd.foreign, "frames came out that are no probes"),
        (odd.sent_by_others, "frames were sent to the switch by others"),
    ];
    let there = kinds.iter().filter(|(n, _)| *n > 0);
    there.map(|(n, what)| format!("{n} {what}")).collect::<Vec<_>>().join(", ")
}

pub(crate) fn strangers(odd: &Odd) -> Option<String> {
    (odd.strangers() + odd.sent_by_others > 0).then(|| strangers_told(odd))
}

/// What is wrong with what came out, whatever was asked.
pub(crate) fn wrongs(odd: &Odd) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |what, n: u64, did: &str| {
        if n > 0 {
            let text = format!("{n} of {} frames {did}", odd.looked_at);
            findings.push(Finding { what, text });
        }
    };
    let fields = || {
        let each = odd.fields.iter().map(|(name, n)| format!("{name} ({n})"));
        each.collect::<Vec<_>>().join(", ")
    };
    // The same bit each time is no accident.
    let stuck = odd.corrupted > 1 && odd.bit.is_some_and(|(_, same)| same);
    let (corrupted, changed) = match stuck {
        true => (0, odd.changed + odd.corrupted),
        false => (odd.corrupted, odd.changed),
    };
    found("frames_doubled", odd.doubled, "came out more than once");
    let text = format!("came out with a bit flipped, in {}", fields());
    found("frames_corrupted", corrupted, &text);
    let text = format!("came out other than the rule makes them; what differs: {}", fields());
    found("frames_changed", changed, &text);
    let text = "came out as they went in, though the rule changes them";
    found("action_not_done", odd.undone, text);
    let text = "came out, but what they are can no longer be read";
    found("frames_unreadable", odd.unreadable, text);
    let text = "came back at the port that sends them, which no rule names";
    found("frames_returned", odd.returned, text);
    findings
}

/// Sums up a capture's latencies.
pub fn latencies(capture: &Capture) -> Latency {
    let mut latency = Latency::default();
    capture.latencies().for_each(|ns| latency.record(ns));
    latency
}

/// What the wire took, where the kernel stamped both ends of it.
pub fn wires(capture: &Capture) -> Option<Latency> {
    let mut latency = Latency::default();
    capture.wires().for_each(|ns| latency.record(ns));
    (latency.count() > 0).then_some(latency)
}

/// Sums up both, under the names that runs have them by.
pub fn both_latencies(capture: &Capture) -> Vec<(&'static str, Summary)> {
    let mut both = vec![("latency", latencies(capture).summary())];
    both.extend(wires(capture).map(|wire| (WIRE, wire.summary())));
    both
}
