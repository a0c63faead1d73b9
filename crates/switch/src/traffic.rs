//! How much traffic comes in, as engines are told ([`Engine::note_traffic`](datapath::Engine::note_traffic)).
//!
//! Counted are the packets that have come in since the last look by the ports of then, whether or not they are there still,
//! and by those that have come since. So a port that goes makes the others' traffic look neither heavier nor lighter.
//!
//! Cost: a look reads each port's counters; there is one in [`INTERVAL`] at most.
//! Checked by: the tests below; on a switch `a_port_that_goes_takes_nobody_s_traffic_along`.

use datapath::{PortShared, PortTable};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// It is looked at over so long at least.
pub(crate) const INTERVAL: Duration = Duration::from_millis(1);

/// The last look.
pub(crate) struct Traffic {
    at: Instant,
    ports: Arc<PortTable>,
    /// The ports of then, and how many packets each had received.
    seen: Vec<(Arc<PortShared>, u64)>,
}

impl Traffic {
    /// Nothing was looked at yet.
    pub(crate) fn new(at: Instant) -> Traffic {
        Traffic { at, ports: Arc::default(), seen: Vec::new() }
    }

    /// Packets a second since the last look; none if that was a moment ago, and this is not one then.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        ports: impl FnOnce() -> Arc<PortTable>,
    ) -> Option<u64> {
        let elapsed = now.saturating_duration_since(self.at);
        if elapsed < INTERVAL {
            return None;
        }
        let (mut packets, ports) = (0, ports());
        for (port, seen) in &mut self.seen {
            let received = port.rx_packets();
            packets += received - std::mem::replace(seen, received);
        }
        if !Arc::ptr_eq(&ports, &self.ports) {
            self.seen.retain(|(port, _)| has(&ports, port));
            for port in ports.sorted().into_iter().filter(|port| !has(&self.ports, port)) {
                let received = port.rx_packets();
                packets += received;
                self.seen.push((port, received));
            }
            self.ports = ports;
        }
        self.at = now;
        Some((packets as f64 / elapsed.as_secs_f64()) as u64)
    }
}

/// The port is there, and no other one of its number.
fn has(ports: &PortTable, port: &Arc<PortShared>) -> bool {
    ports.get(port.number).is_some_and(|there| Arc::ptr_eq(there, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::PortFlags;

    fn port(number: u32, received: u64) -> Arc<PortShared> {
        let port = Arc::new(PortShared::new(number, "p", PortFlags::UP, 1));
        port.cell(0).count_rx(received, 0);
        port
    }

    /// What a look finds a second after the last one.
    fn second(traffic: &mut Traffic, ports: &[&Arc<PortShared>]) -> u64 {
        let mut table = PortTable::default();
        ports.iter().for_each(|port| table.insert(Arc::clone(port)));
        traffic.look(traffic.at + Duration::from_secs(1), || Arc::new(table)).unwrap()
    }

    #[test]
    fn ports_that_come_and_go_count_for_what_they_received() {
        let mut traffic = Traffic::new(Instant::now());
        let (a, b) = (port(1, 500), port(2, 30));
        assert_eq!(second(&mut traffic, &[&a, &b]), 530);
        assert_eq!(second(&mut traffic, &[&a, &b]), 0);
        // One goes that has received more, ever, than the others since; and one that has received less.
        a.cell(0).count_rx(7, 0);
        b.cell(0).count_rx(200, 0);
        assert_eq!(second(&mut traffic, &[&b]), 207);
        a.cell(0).count_rx(1000, 0);
        b.cell(0).count_rx(900, 0);
        let c = port(3, 40);
        assert_eq!(second(&mut traffic, &[&c]), 940);
        // Another one of the same number.
        c.cell(0).count_rx(1, 0);
        let d = port(3, 60);
        assert_eq!(second(&mut traffic, &[&d]), 61);
        d.cell(0).count_rx(5, 0);
        assert_eq!(second(&mut traffic, &[]), 5);
        assert_eq!(second(&mut traffic, &[]), 0);
    }

    #[test]
    fn a_moment_is_too_short_to_tell() {
        let (mut traffic, a) = (Traffic::new(Instant::now()), port(1, 9));
        let soon = traffic.at + INTERVAL / 2;
        assert_eq!(traffic.look(soon, || unreachable!("no look is taken")), None);
        assert_eq!(second(&mut traffic, &[&a]), 9);
    }
}
