//! Egress queues of ports.

use super::source::Source;
use metrics::{Family, Text};

const PACKETS: Family =
    Family::counter("millrace_queue_transmit_packets", "Frames that an egress queue sent");
const BYTES: Family =
    Family::counter("millrace_queue_transmit_bytes", "Bytes of frames that an egress queue sent");
const DROPS: Family =
    Family::counter("millrace_queue_drops", "Frames for which an egress queue had no room");

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let mut all = Vec::new();
    for bridge in &source.all {
        for port in bridge.switch().ports() {
            let Some(queues) = bridge.switch().queues(port.number) else { continue };
            for (config, counters) in queues.counters() {
                all.push((bridge.name(), port.info.name.clone(), config.id.to_string(), counters));
            }
        }
    }
    let mut each = |family: &Family, value: &dyn Fn(&datapath::queues::QueueCounters) -> u64| {
        let mut family = text.family(family);
        for (bridge, port, queue, counters) in &all {
            family.put(&[("bridge", bridge), ("port", port), ("queue", queue)], value(counters));
        }
    };
    each(&PACKETS, &|counters| counters.tx_packets);
    each(&BYTES, &|counters| counters.tx_bytes);
    each(&DROPS, &|counters| counters.tx_errors);
}
