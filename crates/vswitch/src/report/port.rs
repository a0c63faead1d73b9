//! `Port`: what of it is not done.

use super::interface;
use super::rows::{Rows, maybe, unsupported};
use super::sources::Report;
use crate::desired::bridge::Bridge;
use crate::desired::port::Port;
use ovsdb::Datum;

pub(super) fn report(report: &Report<'_>, bridge: &Bridge, port: &Port, rows: &mut Rows) {
    let refusal = report.refusals.ports.get(&port.settings.name);
    if let Some(uuid) = port.uuid {
        let status = unsupported(port.notes.line(), refusal);
        let mut columns = vec![("status", Datum::map(status))];
        // As Open vSwitch has it, the column of a port that is no bond is empty.
        let active = report.views.bonds.get(&port.settings.name);
        columns.push(("bond_active_slave", maybe(active.map(ToString::to_string))));
        rows.put("Port", uuid, columns);
    }
    for one in port.interfaces.values() {
        interface::report(report, bridge, port, one, rows);
    }
}
