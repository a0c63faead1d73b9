//! `Bridge`: its datapath id, and what of it is not done.

use super::rows::{Rows, integer, maybe, unsupported};
use super::sources::Report;
use super::{controller, port};
use crate::desired::bridge::Bridge;
use ovsdb::Datum;

/// What `datapath_version` says.
const VERSION: &str = concat!("millrace ", env!("CARGO_PKG_VERSION"));

pub(super) fn report(report: &Report<'_>, bridge: &Bridge, rows: &mut Rows) {
    let name = &bridge.settings.name;
    let view = report.views.bridges.get(name);
    let refusal = report.refusals.bridges.get(name);
    let columns = vec![
        ("datapath_id", maybe(view.map(|view| format!("{:016x}", view.datapath_id)))),
        ("datapath_version", Datum::from(if view.is_some() { VERSION } else { "" })),
        ("status", Datum::map(unsupported(bridge.notes.line(), refusal))),
    ];
    rows.put("Bridge", bridge.uuid, columns);
    let due = |name: &String| report.only.is_none_or(|only| only.contains(name));
    for (_, one) in bridge.ports.iter().filter(|(name, _)| due(name)) {
        port::report(report, bridge, one, rows);
    }
    for one in bridge.mirrors.iter().filter(|_| report.statistics) {
        let counts = view.and_then(|view| view.mirrors.get(&one.settings.name));
        let (packets, bytes) = counts.copied().unwrap_or_default();
        let counters = [("tx_bytes", integer(bytes)), ("tx_packets", integer(packets))];
        rows.put("Mirror", one.uuid, vec![("statistics", Datum::map(counters))]);
    }
    let views = report.views.controllers.get(name);
    for one in &bridge.controllers {
        controller::report(one, views.and_then(|all| all.get(&one.settings.target)), rows);
    }
}
