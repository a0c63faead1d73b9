//! What the view reads of a switch, and rates between two readings.

use std::collections::BTreeMap;
use std::time::Instant;
use switch::Switch;

/// One port's counters.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// Number.
    pub number: u32,
    /// Name.
    pub name: String,
    /// Frames can pass.
    pub up: bool,
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}

/// One table's counters.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Name.
    pub name: String,
    /// Entries.
    pub entries: usize,
    /// Lookups.
    pub lookups: u64,
    /// Of these, matches.
    pub matches: u64,
}

/// Counters at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// The engine's name.
    pub engine: &'static str,
    /// The pipeline's version.
    pub version: u64,
    /// Ports by number.
    pub ports: Vec<Port>,
    /// Tables that have entries or were looked up.
    pub tables: Vec<Table>,
    /// Drops by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Copies to the control side.
    pub punted: u64,
}

impl Sample {
    /// Reads a switch.
    pub fn read(switch: &Switch) -> Sample {
        let mut drops = BTreeMap::new();
        let mut punted = 0;
        let ports = switch
            .port_counters()
            .into_iter()
            .map(|(view, c, _)| {
                for (reason, n) in &c.drops {
                    *drops.entry(*reason).or_default() += n;
                }
                punted += c.punted;
                Port {
                    number: view.number,
                    up: view.is_live(),
                    name: view.info.name,
                    rx_packets: c.rx_packets,
                    rx_bytes: c.rx_bytes,
                    tx_packets: c.tx_packets,
                    tx_bytes: c.tx_bytes,
                }
            })
            .collect();
        let names: Vec<String> =
            switch.with_pipeline(|p| p.program().tables.iter().map(|t| t.name.clone()).collect());
        let tables = (0..)
            .zip(names)
            .map(|(i, name)| {
                let s = switch.table_stats(switch::TableId(i));
                Table { name, entries: s.entries, lookups: s.lookups, matches: s.matches }
            })
            .filter(|t| t.entries > 0 || t.lookups > 0)
            .collect();
        Sample {
            at: Instant::now(),
            engine: switch.engine(),
            version: switch.version(),
            ports,
            tables,
            drops,
            punted,
        }
    }

    /// Frames received in all.
    pub fn rx_packets(&self) -> u64 {
        self.ports.iter().map(|p| p.rx_packets).sum()
    }

    /// Frames sent in all.
    pub fn tx_packets(&self) -> u64 {
        self.ports.iter().map(|p| p.tx_packets).sum()
    }

    /// Drops in all.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }
}

/// What happened per second between two samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Frames received.
    pub rx_pps: f64,
    /// Frames sent.
    pub tx_pps: f64,
    /// Bits sent.
    pub tx_bps: f64,
    /// Drops.
    pub drops: f64,
}

/// Per second, between two samples.
pub fn per_second(before: &Sample, now: &Sample, a: u64, b: u64) -> f64 {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    b.saturating_sub(a) as f64 / seconds
}

impl Rates {
    /// Between two samples.
    pub fn between(before: &Sample, now: &Sample) -> Rates {
        let bytes = |s: &Sample| s.ports.iter().map(|p| p.tx_bytes).sum::<u64>();
        Rates {
            rx_pps: per_second(before, now, before.rx_packets(), now.rx_packets()),
            tx_pps: per_second(before, now, before.tx_packets(), now.tx_packets()),
            tx_bps: 8.0 * per_second(before, now, bytes(before), bytes(now)),
            drops: per_second(before, now, before.dropped(), now.dropped()),
        }
    }
}

/// A number with a unit prefix: `12.3k`.
pub fn short(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{:.2}G", n / 1e9),
        n if n >= 1e6 => format!("{:.2}M", n / 1e6),
        n if n >= 1e3 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// One line of figures.
pub fn line(before: &Sample, now: &Sample) -> String {
    let r = Rates::between(before, now);
    let drops: Vec<String> = now.drops.iter().map(|(reason, n)| format!("{reason}={n}")).collect();
    format!(
        "in {}pps out {}pps {}b/s dropped {}/s [{}] version {}",
        short(r.rx_pps),
        short(r.tx_pps),
        short(r.tx_bps),
        short(r.drops),
        drops.join(" "),
        now.version
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(short(999.0), "999");
        assert_eq!(short(12_345.0), "12.3k");
        assert_eq!(short(1.5e6), "1.50M");
        assert_eq!(short(2.0e10), "20.00G");
    }

    #[test]
    fn rates_of_two_samples() {
        let at = Instant::now();
        let sample = |seconds: u64, n: u64| Sample {
            at: at + std::time::Duration::from_secs(seconds),
            engine: "interp",
            version: 3,
            ports: vec![Port {
                rx_packets: 2 * n,
                tx_packets: n,
                tx_bytes: 100 * n,
                ..Port::default()
            }],
            tables: Vec::new(),
            drops: [("no_output", n)].into(),
            punted: 0,
        };
        let text = line(&sample(0, 0), &sample(2, 4000));
        assert_eq!(
            text,
            "in 4.0kpps out 2.0kpps 1.60Mb/s dropped 2.0k/s [no_output=4000] version 3"
        );
    }
}
