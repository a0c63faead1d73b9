//! `Interface`: its number, its error, its link, its counters.

use super::rows::{Rows, integer, maybe};
use super::sources::Report;
use crate::actual::ActualInterface;
use crate::desired::bridge::Bridge;
use crate::desired::interface::Interface;
use crate::desired::port::Port;
use crate::switch::InterfaceView;
use ovsdb::Datum;

pub(super) fn report(
    report: &Report<'_>,
    bridge: &Bridge,
    port: &Port,
    interface: &Interface,
    rows: &mut Rows,
) {
    let Some(uuid) = interface.uuid else { return };
    let name = &interface.settings.name;
    let has = report.actual.bridges.get(&bridge.settings.name);
    let number = has.and_then(|has| has.interfaces.get(name)).map(|open| open.number);
    let view = report.views.interfaces.get(name).filter(|_| number.is_some());
    let error = error(report, bridge, port, interface);
    let mut columns =
        vec![("ofport", Datum::from(number.map_or(-1, i64::from))), ("error", maybe(error))];
    columns.extend(link(view));
    // A new interface's are written at once.
    let row = report.database.row("Interface", uuid);
    let none = row.and_then(|row| row.get("statistics")).is_some_and(Datum::is_empty);
    if report.statistics || view.is_none() || none {
        let counters = view.into_iter().flat_map(|view| &view.statistics);
        let counters = counters.map(|(key, value)| (*key, integer(*value)));
        columns.push(("statistics", Datum::map(counters)));
    }
    rows.put("Interface", uuid, columns);
}

/// Why it is not open, or what it lacks; of its port and bridge, too, since these have no such column and `ovs-vsctl show`
/// prints this one.
fn error(
    report: &Report<'_>,
    bridge: &Bridge,
    port: &Port,
    interface: &Interface,
) -> Option<String> {
    let name = &interface.settings.name;
    let refusals = report.refusals;
    let whole = bridge.notes.refused().or(port.notes.refused()).or(interface.notes.refused());
    let refused = whole
        .map(str::to_owned)
        .or_else(|| refusals.bridges.get(&bridge.settings.name).cloned())
        .or_else(|| refusals.interfaces.get(name).cloned())
        .or_else(|| refusals.ports.get(&port.settings.name).cloned());
    refused.or_else(|| {
        let notes: Vec<&str> = interface.notes.iter().chain(port.notes.iter()).collect();
        (!notes.is_empty()).then(|| notes.join("; ")).or_else(|| alone(report, bridge, interface))
    })
}

/// A patch port whose other end is not there, or belongs to another, in Open vSwitch's words.
fn alone(report: &Report<'_>, bridge: &Bridge, interface: &Interface) -> Option<String> {
    let settings = &interface.settings;
    let peer = settings.options.get("peer").filter(|_| settings.kind == "patch")?;
    let mut open = report.actual.bridges.values().filter_map(|has| has.interfaces.get(peer));
    let back = |other: &ActualInterface| {
        other.settings.kind == "patch" && other.settings.options.get("peer") == Some(&settings.name)
    };
    if open.any(back) {
        return None;
    }
    let row = report.database.row("Bridge", bridge.uuid);
    let kind = row.and_then(|row| row.text("datapath_type")).filter(|kind| !kind.is_empty());
    Some(format!("No usable peer '{peer}' exists in '{}' datapath.", kind.unwrap_or("system")))
}

fn link(view: Option<&InterfaceView>) -> Vec<(&'static str, Datum)> {
    let word = |up: bool| if up { "up" } else { "down" };
    let status = view.into_iter().flat_map(|view| view.status.clone());
    let bfd = view.into_iter().flat_map(|view| view.bfd_status.clone());
    vec![
        ("admin_state", maybe(view.map(|view| word(view.up)))),
        ("link_state", maybe(view.map(|view| word(view.carrier)))),
        ("link_resets", maybe(view.map(|view| integer(view.link_resets)))),
        ("link_speed", maybe(view.and_then(|view| view.speed).map(integer))),
        (
            "duplex",
            maybe(view.and_then(|view| view.full_duplex).map(|f| if f { "full" } else { "half" })),
        ),
        ("mtu", maybe(view.and_then(|view| view.mtu).map(i64::from))),
        ("mac_in_use", maybe(view.and_then(|view| view.mac).map(|mac| mac.to_string()))),
        ("lacp_current", maybe(view.and_then(|view| view.lacp_current))),
        ("ifindex", maybe(view.and_then(|view| view.ifindex).map(i64::from))),
        ("status", Datum::map(status)),
        ("bfd_status", Datum::map(bfd)),
    ]
}
