//! Ports: frames, bytes, drops by reason, links.

use super::source::Source;
use metrics::text::Value;
use metrics::{Family, Text};

const PORT: Family = Family::info("millrace_port", "A port's number and kind");
const UP: Family = Family::gauge("millrace_port_up", "The port is up: frames can pass");
const PRESENT: Family = Family::gauge("millrace_port_present", "What the port stands on is there");
const SPEED: Family = Family::gauge(
    "millrace_port_speed_bytes_per_second",
    "The speed of the port's link, where it is known",
);
const TRANSITIONS: Family =
    Family::counter("millrace_port_link_changes", "How often the port went up or down");
const RX_PACKETS: Family = Family::counter("millrace_port_receive_packets", "Frames that came in");
const RX_BYTES: Family =
    Family::counter("millrace_port_receive_bytes", "Bytes of frames that came in");
const TX_PACKETS: Family =
    Family::counter("millrace_port_transmit_packets", "Frames that went out");
const TX_BYTES: Family =
    Family::counter("millrace_port_transmit_bytes", "Bytes of frames that went out");
const DROPS: Family =
    Family::counter("millrace_port_drops", "Frames that the switch dropped, by reason");
const PUNTS: Family = Family::counter("millrace_port_punts", "Copies of frames for controllers");
const DIGESTS: Family =
    Family::counter("millrace_port_digests_refused", "Digests for which there was no room");
const KERNEL: Family = Family::counter(
    "millrace_port_kernel_drops",
    "Frames that the kernel or the device dropped before or behind the switch, by direction",
);
const ERRORS: Family = Family::counter(
    "millrace_port_kernel_errors",
    "Frames that the kernel or the device received or sent wrongly, by direction",
);

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let ports: Vec<_> = source
        .all
        .iter()
        .flat_map(|bridge| {
            let counters = bridge.switch().port_counters().into_iter();
            counters.map(|(view, counters, kernel)| (bridge.name(), view, counters, kernel))
        })
        .collect();
    let mut family = text.family(&PORT);
    for (bridge, view, ..) in &ports {
        let number = view.number.to_string();
        let labels = [
            ("bridge", *bridge),
            ("port", &*view.info.name),
            ("number", &number),
            ("kind", view.info.kind),
        ];
        family.put(&labels, 1_u64);
    }
    let mut each = |family: &Family, value: &dyn Fn(&_) -> Option<Value>| {
        let mut family = text.family(family);
        for port in &ports {
            if let Some(value) = value(port) {
                family.put(&[("bridge", port.0), ("port", &port.1.info.name)], value);
            }
        }
    };
    each(&UP, &|(_, view, ..)| Some(view.is_up().into()));
    each(&PRESENT, &|(_, view, ..)| Some(view.link.present.into()));
    each(&SPEED, &|(_, view, ..)| match view.info.curr_speed_kbps {
        0 => None,
        kbps => Some((f64::from(kbps) * 125.0).into()),
    });
    each(&TRANSITIONS, &|(_, view, ..)| Some(view.transitions.into()));
    each(&RX_PACKETS, &|(_, _, counters, _)| Some(counters.rx_packets.into()));
    each(&RX_BYTES, &|(_, _, counters, _)| Some(counters.rx_bytes.into()));
    each(&TX_PACKETS, &|(_, _, counters, _)| Some(counters.tx_packets.into()));
    each(&TX_BYTES, &|(_, _, counters, _)| Some(counters.tx_bytes.into()));
    each(&PUNTS, &|(_, _, counters, _)| Some(counters.punted.into()));
    each(&DIGESTS, &|(_, _, counters, _)| Some(counters.digests_refused.into()));
    let mut family = text.family(&DROPS);
    for (bridge, view, counters, _) in &ports {
        for (reason, n) in &counters.drops {
            family.put(&[("bridge", bridge), ("port", &view.info.name), ("reason", reason)], *n);
        }
    }
    let mut both = |family: &Family, values: &dyn Fn(&port::KernelStats) -> [u64; 2]| {
        let mut family = text.family(family);
        for (bridge, view, _, kernel) in &ports {
            for (direction, n) in ["receive", "transmit"].into_iter().zip(values(kernel)) {
                let labels =
                    [("bridge", *bridge), ("port", &*view.info.name), ("direction", direction)];
                family.put(&labels, n);
            }
        }
    };
    both(&KERNEL, &|kernel| [kernel.rx_dropped, kernel.tx_dropped]);
    both(&ERRORS, &|kernel| [kernel.rx_errors, kernel.tx_errors]);
}
