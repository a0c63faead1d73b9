//! `Controller`: whether it is connected.

use super::rows::{Rows, maybe};
use crate::desired::controller::Controller;
use crate::switch::ControllerView;
use ovsdb::Datum;

pub(super) fn report(controller: &Controller, view: Option<&ControllerView>, rows: &mut Rows) {
    let columns = vec![
        ("is_connected", Datum::from(view.is_some_and(|view| view.connected))),
        ("role", maybe(view.and_then(|view| view.role))),
        (
            "status",
            Datum::map(
                view.into_iter().flat_map(|view| &view.status).map(|(k, v)| (*k, v.clone())),
            ),
        ),
    ];
    rows.put("Controller", controller.uuid, columns);
}
