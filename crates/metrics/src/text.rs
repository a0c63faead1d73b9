//! Families and samples, written down.
//!
//! A family is written once, with all of its samples behind it, as both formats demand. [`Text::family`] begins one; samples
//! go to what it returns. A family without samples is left out.

use crate::family::{Family, Kind};
use crate::format::Format;
use crate::histogram::{BOUNDS_NS, Counts};
use std::fmt::Write as _;

/// A sample's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// Any number.
    Number(f64),
}

impl From<u64> for Value {
    fn from(n: u64) -> Value {
        Value::Count(n)
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Value {
        Value::Count(n as u64)
    }
}

impl From<u32> for Value {
    fn from(n: u32) -> Value {
        Value::Count(n.into())
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Value {
        Value::Count(is.into())
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Value {
        Value::Number(n)
    }
}

/// Nanoseconds as the seconds that Prometheus' names promise.
pub fn seconds(ns: u64) -> Value {
    Value::Number(ns as f64 / 1e9)
}

/// A label: its name, its value.
pub type Label<'a> = (&'static str, &'a str);

/// A text that grows.
#[derive(Debug)]
pub struct Text {
    format: Format,
    out: String,
    /// Families that were begun. One that comes twice would be refused by who reads it.
    begun: Vec<&'static str>,
}

impl Text {
    /// An empty one.
    pub fn new(format: Format) -> Text {
        Text { format, out: String::with_capacity(64 << 10), begun: Vec::new() }
    }

    /// Begins a family. It must not have been begun before.
    pub fn family(&mut self, family: &Family) -> Samples<'_> {
        debug_assert_eq!(family.fault(), None);
        debug_assert!(!self.begun.contains(&family.name), "{} is begun twice", family.name);
        self.begun.push(family.name);
        Samples { family: *family, text: self, headed: false }
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
}

/// A family that samples go to.
#[derive(Debug)]
pub struct Samples<'a> {
    family: Family,
    text: &'a mut Text,
    headed: bool,
}

impl Samples<'_> {
    /// A sample with labels.
    pub fn put(&mut self, labels: &[Label<'_>], value: impl Into<Value>) {
        let ending = match self.family.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.line(ending, labels, None, value.into());
    }

    /// A histogram with labels.
    pub fn put_histogram(&mut self, labels: &[Label<'_>], counts: &Counts) {
        let mut sum = 0;
        for (at, n) in counts.buckets.iter().enumerate() {
            sum += n;
            let bound = BOUNDS_NS.get(at).map_or(f64::INFINITY, |ns| *ns as f64 / 1e9);
            self.line("_bucket", labels, Some(bound), Value::Count(sum));
        }
        self.line("_sum", labels, None, seconds(counts.sum_ns));
        self.line("_count", labels, None, Value::Count(sum));
    }

    fn head(&mut self) {
        let Family { name, help, kind } = self.family;
        let open = self.text.format == Format::OpenMetrics;
        let ending = match kind {
            Kind::Counter if !open => "_total",
            Kind::Info if !open => "_info",
            _ => "",
        };
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
            Kind::Info if open => "info",
            Kind::Gauge | Kind::Info => "gauge",
        };
        let out = &mut self.text.out;
        // Writing to a string does not fail.
        let _ = write!(out, "# HELP {name}{ending} ");
        escape(out, help, open);
        let _ = writeln!(out, "\n# TYPE {name}{ending} {kind}");
        self.headed = true;
    }

    fn line(&mut self, ending: &str, labels: &[Label<'_>], bound: Option<f64>, value: Value) {
        if !self.headed {
            self.head();
        }
        let name = self.family.name;
        let out = &mut self.text.out;
        out.push_str(name);
        out.push_str(ending);
        if !labels.is_empty() || bound.is_some() {
            let mut before = '{';
            for (name, value) in labels {
                out.push(before);
                out.push_str(name);
                out.push_str("=\"");
                escape(out, value, true);
                out.push('"');
                before = ',';
            }
            if let Some(bound) = bound {
                let _ = write!(out, "{before}le=\"{}\"", Shown(bound));
            }
            out.push('}');
        }
        let _ = match value {
            Value::Count(n) => writeln!(out, " {n}"),
            Value::Number(n) => writeln!(out, " {}", Shown(n)),
        };
    }
}

/// A number as both formats have it.
struct Shown(f64);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            n if n == f64::INFINITY => f.write_str("+Inf"),
            n if n == f64::NEG_INFINITY => f.write_str("-Inf"),
            // `Display` has no exponent, and as many digits as tell the number from others.
            n => write!(f, "{n}"),
        }
    }
}

/// Writes text of a label or a help. Quotes are written as they are in helps of Prometheus' own format.
fn escape(out: &mut String, text: &str, quotes: bool) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use std::time::Duration;

    const PACKETS: Family =
        Family::counter("m_port_receive_packets", "Frames that a \"port\" received");
    const UP: Family = Family::gauge("m_port_up", "The port forwards");
    const BUILD: Family = Family::info("m_build", "The program");
    const NONE: Family = Family::gauge("m_none", "No sample");
    const TOOK: Family = Family::histogram("m_change_seconds", "Changes");

    fn text(format: Format) -> String {
        let mut text = Text::new(format);
        let mut packets = text.family(&PACKETS);
        packets.put(&[("bridge", "br0"), ("port", "p1")], 7_u64);
        packets.put(&[("bridge", "br0"), ("port", "a\"b\\c\nd")], u64::MAX);
        text.family(&NONE);
        text.family(&UP).put(&[], true);
        text.family(&BUILD).put(&[("version", "1")], 1_u64);
        text.finish()
    }

    #[test]
    fn prometheus_reads_names_with_their_endings() {
        let expected = r#"# HELP m_port_receive_packets_total Frames that a "port" received
# TYPE m_port_receive_packets_total counter
m_port_receive_packets_total{bridge="br0",port="p1"} 7
m_port_receive_packets_total{bridge="br0",port="a\"b\\c\nd"} 18446744073709551615
# HELP m_port_up The port forwards
# TYPE m_port_up gauge
m_port_up 1
# HELP m_build_info The program
# TYPE m_build_info gauge
m_build_info{version="1"} 1
"#;
        assert_eq!(text(Format::Prometheus), expected);
    }

    #[test]
    fn openmetrics_has_families_without_them_and_an_end() {
        let expected = r#"# HELP m_port_receive_packets Frames that a \"port\" received
# TYPE m_port_receive_packets counter
m_port_receive_packets_total{bridge="br0",port="p1"} 7
m_port_receive_packets_total{bridge="br0",port="a\"b\\c\nd"} 18446744073709551615
# HELP m_port_up The port forwards
# TYPE m_port_up gauge
m_port_up 1
# HELP m_build The program
# TYPE m_build info
m_build_info{version="1"} 1
# EOF
"#;
        assert_eq!(text(Format::OpenMetrics), expected);
    }

    #[test]
    fn buckets_are_sums_up_to_their_bounds() {
        let histogram = Histogram::new();
        for us in [1, 2, 3, 100_000_000] {
            histogram.add(Duration::from_micros(us));
        }
        let mut text = Text::new(Format::Prometheus);
        text.family(&TOOK).put_histogram(&[("kind", "x")], &histogram.counts());
        let text = text.finish();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines[0], r#"m_change_seconds_bucket{kind="x",le="0.000001"} 1"#);
        assert_eq!(lines[1], r#"m_change_seconds_bucket{kind="x",le="0.000004"} 3"#);
        assert_eq!(lines[12], r#"m_change_seconds_bucket{kind="x",le="16.777216"} 3"#);
        assert_eq!(lines[13], r#"m_change_seconds_bucket{kind="x",le="+Inf"} 4"#);
        assert_eq!(lines[14], r#"m_change_seconds_sum{kind="x"} 100.000006"#);
        assert_eq!(lines[15], r#"m_change_seconds_count{kind="x"} 4"#);
    }

    #[test]
    #[should_panic(expected = "begun twice")]
    fn a_family_comes_once() {
        let mut text = Text::new(Format::Prometheus);
        text.family(&UP).put(&[], 1_u64);
        text.family(&UP).put(&[], 1_u64);
    }

    #[test]
    fn ten_thousand_series_are_few_bytes_each() {
        let mut text = Text::new(Format::Prometheus);
        let mut packets = text.family(&PACKETS);
        for n in 0..10_000_u64 {
            packets.put(&[("bridge", "br0"), ("port", &n.to_string())], n);
        }
        assert_eq!(text.finish().lines().count(), 10_002);
    }
}
