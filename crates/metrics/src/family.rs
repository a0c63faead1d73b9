//! What a family of metrics is.

/// Its kind, by the names of OpenMetrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows. Samples end in `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by size. Samples end in `_bucket`, `_sum` and `_count`.
    Histogram,
    /// Words that change seldom, as labels of the value 1. Samples end in `_info`.
    Info,
}

/// Metrics of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name, without the ending of its kind.
    pub name: &'static str,
    /// What it counts, in a line.
    pub help: &'static str,
    /// What it is.
    pub kind: Kind,
}

impl Family {
    /// One that only grows.
    pub const fn counter(name: &'static str, help: &'static str) -> Family {
        Family { name, help, kind: Kind::Counter }
    }

    /// One that goes up and down.
    pub const fn gauge(name: &'static str, help: &'static str) -> Family {
        Family { name, help, kind: Kind::Gauge }
    }

    /// Counts by size.
    pub const fn histogram(name: &'static str, help: &'static str) -> Family {
        Family { name, help, kind: Kind::Histogram }
    }

    /// Words.
    pub const fn info(name: &'static str, help: &'static str) -> Family {
        Family { name, help, kind: Kind::Info }
    }

    /// What is wrong with it by Prometheus' rules for names, if anything.
    pub fn fault(&self) -> Option<String> {
        let Family { name, help, kind } = self;
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins || !name.chars().all(word) || name.contains("__") || name.ends_with('_') {
            return Some(format!("{name}: not lower-case words joined by `_`"));
        }
        let endings = ["_total", "_info", "_bucket", "_sum", "_count", "_created"];
        if let Some(ending) = endings.iter().find(|ending| name.ends_with(**ending)) {
            return Some(format!("{name}: the ending {ending} is written for it"));
        }
        if *kind == Kind::Histogram && !name.ends_with("_seconds") && !name.ends_with("_bytes") {
            return Some(format!("{name}: a histogram's name ends with its unit"));
        }
        let units = ["_ms", "_us", "_ns", "_milliseconds", "_bits", "_kilobytes", "_percent"];
        if let Some(unit) = units.iter().find(|unit| name.ends_with(**unit)) {
            return Some(format!("{name}: {unit} is no base unit"));
        }
        if help.is_empty() || help.contains('\n') {
            return Some(format!("{name}: its help is no line"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_break_the_rules_are_found() {
        assert_eq!(Family::counter("m_port_receive_packets", "x").fault(), None);
        assert_eq!(Family::histogram("m_compile_seconds", "x").fault(), None);
        let bad = [
            Family::counter("m_packets_total", "x"),
            Family::counter("M_packets", "x"),
            Family::counter("m-packets", "x"),
            Family::counter("9packets", "x"),
            Family::gauge("m_time_ms", "x"),
            Family::histogram("m_compile", "x"),
            Family::gauge("m_x", ""),
            Family::gauge("m_x", "a\nb"),
            Family::info("m_build_info", "x"),
        ];
        for family in bad {
            assert!(family.fault().is_some(), "{family:?}");
        }
    }
}
