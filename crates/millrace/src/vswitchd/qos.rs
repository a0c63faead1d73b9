//! Egress queues and ingress policing of the database, as the switch has them, and what `ovs-appctl qos/*` shows.

use control::bridges::Bridge;
use datapath::policer::Policing;
use datapath::queues::{QueueConfig, QueuesConfig};
use std::fmt::Write as _;
use vswitch::desired::interface::Policing as Wanted;
use vswitch::desired::qos::{QosSettings, QueueSettings};

/// The types that are there; `linux-noop` asks for nothing.
pub(super) const TYPES: [&str; 3] = ["linux-htb", "linux-hfsc", "egress-policer"];

/// HTB guarantees no less, in bits a second.
const HTB_MIN: u64 = 12_000;

/// What a port is told; an error where it cannot be.
pub(super) fn queues(qos: Option<&QosSettings>) -> Result<QueuesConfig, String> {
    let Some(qos) = qos else { return Ok(QueuesConfig::default()) };
    match qos.kind.as_str() {
        "egress-policer" => policer(qos),
        kind => {
            let of = |(id, queue): (&u32, &QueueSettings)| match kind {
                "linux-hfsc" => hfsc(*id, queue),
                _ => htb(*id, queue),
            };
            let marked =
                |queue: (&u32, &QueueSettings)| QueueConfig { dscp: queue.1.dscp, ..of(queue) };
            let queues = qos.queues.iter().map(marked).collect();
            Ok(QueuesConfig { max_bps: qos.rate_max, burst_bytes: None, queues })
        }
    }
}

fn htb(id: u32, queue: &QueueSettings) -> QueueConfig {
    QueueConfig {
        min_bps: Some(queue.rate_min.unwrap_or(0).max(HTB_MIN)),
        max_bps: queue.rate_max,
        priority: queue.priority.unwrap_or(0),
        burst_bytes: queue.burst.map(|bits| bits / 8),
        ..QueueConfig::new(id)
    }
}

/// What nobody is guaranteed is shared in proportion to what they are.
fn hfsc(id: u32, queue: &QueueSettings) -> QueueConfig {
    let min = queue.rate_min.unwrap_or(0).max(1);
    QueueConfig {
        min_bps: Some(min),
        max_bps: queue.rate_max,
        weight: u32::try_from(min / 1000).unwrap_or(u32::MAX).max(1),
        ..QueueConfig::new(id)
    }
}

/// A rate in bytes a second and what may leave at once, beyond which frames do not wait.
fn policer(qos: &QosSettings) -> Result<QueuesConfig, String> {
    let number = |key: &str| {
        let text =
            qos.others.get(key).ok_or_else(|| format!("egress-policer: {key} is missing"))?;
        text.parse::<u64>()
            .map_err(|_| format!("egress-policer: {key}={text} is no number of bytes"))
    };
    let (rate, burst) = (number("cir")?, number("cbs")?);
    let first = QueueConfig { limit: 1, ..QueueConfig::new(0) };
    Ok(QueuesConfig {
        max_bps: Some(rate.saturating_mul(8)),
        burst_bytes: Some(burst),
        queues: vec![first],
    })
}

/// What a port may receive.
pub(super) fn policing(wanted: Wanted) -> Policing {
    let some = |(rate, burst): (u64, u64)| {
        (rate > 0).then(|| (rate.saturating_mul(1000), burst.saturating_mul(1000)))
    };
    Policing { bits: some(wanted.kbps), packets: some(wanted.kpkts) }
}

/// `qos/show`.
pub(super) fn show(bridge: &Bridge, interface: &str, qos: Option<&QosSettings>) -> String {
    let Some(qos) = qos else { return format!("QoS not configured on {interface}\n") };
    let mut out = format!("QoS: {interface} {}\n", qos.kind);
    // Writing to a string does not fail.
    if let Some(rate) = qos.rate_max {
        let _ = writeln!(out, "max-rate: {rate}");
    }
    for (key, value) in &qos.others {
        let _ = writeln!(out, "{key}: {value}");
    }
    let number = bridge.port(interface).ok().map(|port| port.view.number);
    let queues = number.and_then(|number| bridge.switch().queues(number));
    for (config, counters) in queues.iter().flat_map(|queues| queues.counters()) {
        let _ = match config.id {
            0 => writeln!(out, "\nDefault:"),
            id => writeln!(out, "\nQueue {id}:"),
        };
        let told = qos.queues.get(&config.id).cloned().unwrap_or_default();
        let values = [
            ("burst", told.burst),
            ("dscp", told.dscp.map(u64::from)),
            ("max-rate", told.rate_max),
            ("min-rate", config.min_bps.filter(|_| qos.queues.contains_key(&config.id))),
            ("priority", told.priority.map(u64::from)),
            ("tx_packets", Some(counters.tx_packets)),
            ("tx_bytes", Some(counters.tx_bytes)),
            ("tx_errors", Some(counters.tx_errors)),
        ];
        for (key, value) in values {
            if let Some(value) = value {
                let _ = writeln!(out, "  {key}: {value}");
            }
        }
    }
    out
}

/// `qos/show-types`.
pub(super) fn types() -> String {
    TYPES.iter().chain(&["linux-noop"]).map(|kind| format!("QoS type: {kind}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::queues::LIMIT;
    use std::collections::BTreeMap;

    fn qos(kind: &str) -> QosSettings {
        let queue = QueueSettings {
            rate_min: Some(500_000),
            rate_max: Some(800_000),
            burst: Some(80_000),
            priority: Some(3),
            dscp: Some(46),
        };
        QosSettings {
            kind: kind.to_owned(),
            rate_max: Some(1_000_000),
            queues: BTreeMap::from([(0, QueueSettings::default()), (7, queue)]),
            others: BTreeMap::new(),
        }
    }

    #[test]
    fn htb_keeps_rates_burst_and_priority() {
        let config = queues(Some(&qos("linux-htb"))).unwrap();
        assert_eq!(config.max_bps, Some(1_000_000));
        assert_eq!(config.queues[0].min_bps, Some(HTB_MIN));
        let seven = &config.queues[1];
        assert_eq!((seven.id, seven.min_bps, seven.max_bps), (7, Some(500_000), Some(800_000)));
        assert_eq!((seven.burst_bytes, seven.priority, seven.limit), (Some(10_000), 3, LIMIT));
        assert_eq!((seven.dscp, config.queues[0].dscp), (Some(46), None));
        assert!(queues(None).unwrap().is_empty());
    }

    #[test]
    fn hfsc_shares_what_is_left_by_guarantees() {
        let config = queues(Some(&qos("linux-hfsc"))).unwrap();
        assert_eq!((config.queues[0].weight, config.queues[1].weight), (1, 500));
        assert_eq!(config.queues[1].priority, 0);
    }

    #[test]
    fn a_policer_has_one_rate_and_no_queue() {
        let mut policer = QosSettings { kind: "egress-policer".to_owned(), ..Default::default() };
        assert!(queues(Some(&policer)).unwrap_err().contains("cir is missing"));
        policer.others.insert("cir".to_owned(), "125000".to_owned());
        policer.others.insert("cbs".to_owned(), "2048".to_owned());
        let config = queues(Some(&policer)).unwrap();
        assert_eq!((config.max_bps, config.burst_bytes), (Some(1_000_000), Some(2048)));
        assert_eq!(config.queues[0].limit, 1);
        policer.others.insert("eir".to_owned(), "1".to_owned());
        // It is told in the port's row, and the policer is there.
        assert_eq!(queues(Some(&policer)).unwrap().max_bps, Some(1_000_000));
    }

    #[test]
    fn policing_is_in_thousands() {
        let wanted = Wanted { kbps: (1000, 8000), kpkts: (0, 0) };
        let policing = policing(wanted);
        assert_eq!((policing.bits, policing.packets), (Some((1_000_000, 8_000_000)), None));
    }
}
