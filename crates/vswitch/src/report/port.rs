//! `Port`: what of it is not done.

use super::interface;
use super::rows::{Rows, unsupported};
use super::sources::Report;
use crate::desired::bridge::Bridge;
use crate::desired::port::Port;
use ovsdb::Datum;

pub(super) fn report(report: &Report<'_>, bridge: &Bridge, port: &Port, rows: &mut Rows) {
    let refusal = report.refusals.ports.get(&port.settings.name);
    if let Some(uuid) = port.uuid {
        let status = unsupported(port.notes.line(), refusal);
        rows.put("Port", uuid, vec![("status", Datum::map(status))]);
    }
    for one in port.interfaces.values() {
        interface::report(report, bridge, port, one, rows);
    }
}
