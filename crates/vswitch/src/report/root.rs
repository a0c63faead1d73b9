//! `Open_vSwitch`: how far the configuration has come, and what there is.

use super::rows::Rows;
use super::sources::Report;
use crate::desired::root::Root;
use ovsdb::Datum;

/// The Open vSwitch whose database and tools are spoken to. `ovs-ctl` writes its own here; this is for who starts without.
pub(crate) const OVS_VERSION: &str = "3.1.0";

pub(super) fn report(report: &Report<'_>, root: &Root, rows: &mut Rows) {
    let types = report.interface_types.iter().map(String::as_str);
    let mut columns = vec![
        ("cur_cfg", Datum::from(root.next_cfg)),
        ("iface_types", Datum::set(types)),
        ("datapath_types", Datum::set(["netdev", "system"])),
        ("dpdk_initialized", Datum::from(false)),
        ("dpdk_version", Datum::from("none")),
    ];
    let row = report.database.row("Open_vSwitch", root.uuid);
    let is_empty =
        |column: &str| row.and_then(|row| row.get(column)).is_some_and(|datum| datum.is_empty());
    if is_empty("ovs_version") {
        columns.push(("ovs_version", Datum::from(OVS_VERSION)));
    }
    match (&report.machine, root.machine_statistics) {
        (Some(machine), true) => columns.push(("statistics", Datum::map(machine.clone()))),
        (None, true) => {}
        // An empty set is no map to a server.
        (_, false) => columns.push(("statistics", Datum::Map(Default::default()))),
    }
    rows.put("Open_vSwitch", root.uuid, columns);
    for datapath in &root.datapaths {
        let mut capabilities = report.capabilities.clone();
        if let Some(line) = datapath.notes.line() {
            capabilities.insert("unsupported".to_owned(), line);
        }
        rows.put("Datapath", datapath.uuid, vec![("capabilities", Datum::map(capabilities))]);
    }
}
