//! What a sample has: counters of all bridges at a moment. What is kept of it for who comes later: rates, and drops by reason.

use crate::bridges::{Bridge, Bridges};
use crate::verbs::packets::{self, Packets};
use crate::verbs::stats::Table;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// All bridges at a moment.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    /// Milliseconds since 1970.
    pub(super) at_ms: u64,
    bridges: Vec<OfBridge>,
    point: Point,
}

#[derive(Debug, Serialize)]
struct OfBridge {
    name: String,
    /// `openflow` or `p4`.
    kind: &'static str,
    entries: usize,
    ports: Vec<OfPort>,
    tables: Vec<Table>,
    packets: Packets,
    /// Connections and how many of them are half open; none where none are tracked.
    connections: Option<(usize, usize)>,
}

#[derive(Debug, Serialize)]
struct OfPort {
    number: u32,
    name: String,
    spec: String,
    up: bool,
    present: bool,
    rx_packets: u64,
    rx_bytes: u64,
    tx_packets: u64,
    tx_bytes: u64,
    drops: BTreeMap<&'static str, u64>,
}

/// What has happened between two samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Point {
    at_ms: u64,
    /// Milliseconds since the one before.
    span_ms: u64,
    rx_packets: u64,
    tx_packets: u64,
    rx_bytes: u64,
    tx_bytes: u64,
    /// Frames by reason.
    drops: BTreeMap<&'static str, u64>,
}

/// Counters of a port, by which what has happened is found.
type Before = BTreeMap<(String, u32), ([u64; 4], BTreeMap<&'static str, u64>)>;

/// Takes samples, and knows the last one's counters.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    at_ms: Option<u64>,
    before: Before,
}

impl Sampler {
    /// A sample of now, and what has happened since the last one.
    pub(super) fn take(&mut self, bridges: &Bridges) -> (Sample, Point) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let at_ms = since.map_or(0, |since| since.as_millis() as u64);
        let bridges: Vec<OfBridge> = bridges.all().iter().map(of_bridge).collect();
        let point = self.point(at_ms, &bridges);
        (Sample { at_ms, bridges, point: point.clone() }, point)
    }

    /// A port that was not there before has done nothing yet: what it has counted may be old.
    fn point(&mut self, at_ms: u64, bridges: &[OfBridge]) -> Point {
        let span_ms = self.at_ms.replace(at_ms).map_or(0, |before| at_ms.saturating_sub(before));
        let mut point = Point { at_ms, span_ms, ..Point::default() };
        let mut now = Before::new();
        for (bridge, port) in bridges.iter().flat_map(|b| b.ports.iter().map(move |p| (b, p))) {
            let key = (bridge.name.clone(), port.number);
            let counts = [port.rx_packets, port.tx_packets, port.rx_bytes, port.tx_bytes];
            if let Some((before, drops)) = self.before.get(&key) {
                let sums = [
                    &mut point.rx_packets,
                    &mut point.tx_packets,
                    &mut point.rx_bytes,
                    &mut point.tx_bytes,
                ];
                for ((sum, now), before) in sums.into_iter().zip(counts).zip(before) {
                    *sum += now.saturating_sub(*before);
                }
                for (reason, n) in &port.drops {
                    let new = n.saturating_sub(drops.get(reason).copied().unwrap_or(0));
                    if new > 0 {
                        *point.drops.entry(reason).or_default() += new;
                    }
                }
            }
            now.insert(key, (counts, port.drops.clone()));
        }
        self.before = now;
        point
    }
}

fn of_bridge(bridge: &Arc<Bridge>) -> OfBridge {
    let switch = bridge.switch();
    let names: Vec<String> =
        switch.with_pipeline(|p| p.program().tables.iter().map(|t| t.name.clone()).collect());
    let tables = names.into_iter().zip(0..).map(|(table, id)| {
        let stats = switch.table_stats(ir::TableId(id));
        let (entries, lookups, matches) = (stats.entries as u64, stats.lookups, stats.matches);
        Table { table, entries, lookups, matches }
    });
    let tables: Vec<Table> = tables.filter(|t| t.entries > 0 || t.lookups > 0).collect();
    let connections = switch.services().connections().map(|connections| {
        let (held, half_open, _) = connections.size();
        (held, half_open)
    });
    let openflow = bridge.openflow();
    OfBridge {
        name: bridge.name().to_owned(),
        kind: if openflow.is_some() { "openflow" } else { "p4" },
        entries: match &openflow {
            Some(openflow) => openflow.agent().flows().total().0,
            None => tables.iter().map(|table| table.entries as usize).sum(),
        },
        ports: bridge.ports().into_iter().map(OfPort::from).collect(),
        tables,
        packets: packets::of(&switch.ran()),
        connections,
    }
}

impl From<crate::bridges::PortState> for OfPort {
    fn from(port: crate::bridges::PortState) -> OfPort {
        let (view, counters) = (port.view, port.counters);
        OfPort {
            number: view.number,
            name: port.config.name,
            spec: port.config.attachment.to_string(),
            up: view.is_up(),
            present: view.link.present,
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            drops: counters.drops.iter().map(|(word, n)| (*word, *n)).collect(),
        }
    }
}
