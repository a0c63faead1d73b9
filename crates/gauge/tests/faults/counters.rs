//! Faults in counters.

use crate::lab::Lab;
use crate::lab::rounds;
use crate::shim::Counter;
use crate::shim::Lies;
use gauge::module;
use openflow::Version;
use std::time::Duration;

#[test]
fn late_counters_are_found() {
    for _ in 0..rounds() {
        let stale = Some(Duration::from_millis(1200));
        let mut lab = Lab::new(Version::V13, Lies { stale, ..Lies::default() });
        lab.bench.as_mut().unwrap().settings.fresh_max_ms = 500;
        assert_eq!(lab.findings(&module::statistics::MODULE), ["flow_count_stale"]);
    }
}

/// A machine that stands still between the last probe and the first look has the gauge look late: no time is too short then.
#[test]
fn counters_that_are_right_at_the_first_look_are_not_late() {
    for _ in 0..rounds() {
        let mut lab = Lab::new(Version::V13, Lies::default());
        lab.bench.as_mut().unwrap().settings.fresh_max_ms = 0;
        // An entry counts a packet before it is sent, so the first look finds all that came out.
        let runs = lab.ask(&module::statistics::MODULE);
        assert_eq!(runs[0].findings, []);
        assert!(runs[0].value("fresh_us").unwrap() > 0.0);
    }
}

#[test]
fn wrong_counters_are_found() {
    for (counter, by, found) in [
        (Counter::FlowPackets, 1, "flow_count_wrong"),
        (Counter::FlowBytes, 7, "flow_count_wrong"),
        (Counter::TableLookups, 1, "table_count_wrong"),
        (Counter::Aggregate, 1, "aggregate_count_wrong"),
    ] {
        let miscounts = Some((counter, by));
        let mut lab = Lab::new(Version::V13, Lies { miscounts, ..Lies::default() });
        assert_eq!(lab.findings(&module::statistics::MODULE), [found], "{counter:?}");
    }
    for (counter, by) in [
        (Counter::PortTx, 1),
        (Counter::PortRxShare, 9),
        (Counter::PortRxBytes, 1),
        (Counter::PortRxErrors, 1),
        (Counter::PortTxDropped, 1),
    ] {
        let version = if by == 9 { Version::V13 } else { Version::V10 };
        let miscounts = Some((counter, by));
        let mut lab = Lab::new(version, Lies { miscounts, ..Lies::default() });
        assert_eq!(lab.findings(&module::counters::MODULE), ["port_count_wrong"], "{counter:?}");
    }
}
