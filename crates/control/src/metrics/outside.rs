//! Outside addresses of address translation: of services of the kind `nat`, and of `ct(nat)` under the name `ct`.

use super::source::{SERIES_MOST, Source};
use crate::program::services::owners;
use metrics::{Family, Text};
use service::nat::Outside;

const SOCKETS: Family = Family::gauge(
    "millrace_nat_sockets",
    "Inside sockets that have a port of an outside address, of all protocols",
);
const PORTS: Family = Family::gauge(
    "millrace_nat_ports",
    "Ports that an outside address has, for each protocol; ends that differ may share one",
);
const LEFT_OUT: Family = Family::gauge(
    "millrace_nat_addresses_left_out",
    "Outside addresses that have no series of their own, as there are too many",
);
const EXHAUSTED: Family = Family::counter(
    "millrace_nat_exhausted",
    "Connections that were refused, as no address and port was left",
);
const BLOCKS: Family =
    Family::gauge("millrace_nat_blocks", "Blocks of ports, by whether a sender has them");

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let mut all: Vec<(&str, String, Outside)> = Vec::new();
    for bridge in &source.all {
        let services = bridge.switch().services();
        let tracker = services.connections().and_then(|one| one.outside(SERIES_MOST));
        all.extend(tracker.map(|told| (bridge.name(), "ct".to_owned(), told)));
        for named in owners(bridge.switch()) {
            let told = named.outside(SERIES_MOST);
            all.extend(told.map(|told| (bridge.name(), named.name.clone(), told)));
        }
    }
    for (is_ports, family) in [SOCKETS, PORTS].iter().enumerate() {
        let mut family = text.family(family);
        for (bridge, service, told) in &all {
            for one in &told.addresses {
                let address = one.address.to_string();
                let labels = [("bridge", *bridge), ("service", service), ("address", &*address)];
                family.put(&labels, if is_ports == 1 { one.ports.into() } else { one.sockets });
            }
        }
    }
    let mut each = |family: &Family, value: &dyn Fn(&Outside) -> u64| {
        let mut family = text.family(family);
        for (bridge, service, told) in &all {
            family.put(&[("bridge", *bridge), ("service", service)], value(told));
        }
    };
    each(&LEFT_OUT, &|told| told.left_out);
    each(&EXHAUSTED, &|told| told.exhausted);
    let mut family = text.family(&BLOCKS);
    for (bridge, service, told) in &all {
        let Some((used, of)) = told.blocks else { continue };
        for (state, n) in [("used", used), ("free", of - used)] {
            family.put(&[("bridge", *bridge), ("service", service), ("state", state)], n);
        }
    }
}
