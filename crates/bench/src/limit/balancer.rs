//! The load balancer, by hand: service and first bit of the source to server, without a branch that
//! depends on the packet.

// Several arrays are walked side by side, by place.
#![allow(clippy::needless_range_loop)]

use super::index::{Index, Place};
use super::{BURST, Burst, Cell, DROP, FRONT, Limit, be16, be32};
use crate::cases;

/// The loop. Cell 0 is the entry that drops, 1 the one that lets servers out, then two a service,
/// with the service's address above the port.
pub(crate) struct Balancer {
    index: Index,
    cells: Vec<Cell>,
}

impl Balancer {
    /// For this use case.
    pub(crate) fn new(case: &cases::Balancer) -> Balancer {
        use cases::Balancer as Case;
        let mut cells = vec![Cell::with(DROP.into()), Cell::with(1)];
        for service in 0..case.services {
            for second in [false, true] {
                let address = u64::from(Case::address(service));
                cells.push(Cell::with(address << 32 | u64::from(Case::server(service, second))));
            }
        }
        let keys: Vec<u64> = (0..case.services).map(|s| Case::address(s).into()).collect();
        Balancer { index: Index::new(keys.into_iter()), cells }
    }

    fn burst<const COUNT: bool>(&mut self, burst: &mut Burst, now_ns: u64) {
        const IP: usize = FRONT + 14;
        let n = burst.n.min(BURST);
        let mut places = [Place::default(); BURST];
        for i in 0..n {
            places[i] = self.index.place(be32(&burst.rooms[i], IP + 16).into());
        }
        let cells = &mut self.cells[..];
        for i in 0..n {
            let room = &burst.rooms[i];
            let dst = be32(room, IP + 16);
            let mut number = self.index.guess(places[i]);
            // A tag that another service has, too, or a bucket that has spilled: rare.
            if number != 0 && (cells[2 * number as usize].word >> 32) as u32 != dst {
                let is_key = |n: u32| (cells[2 * n as usize].word >> 32) as u32 == dst;
                number = self.index.search(places[i], is_key);
            } else if number == 0 && !self.index.is_final_miss(places[i], 0) {
                let is_key = |n: u32| (cells[2 * n as usize].word >> 32) as u32 == dst;
                number = self.index.search(places[i], is_key);
            }
            let plain = (be16(room, IP - 2) == 0x0800) & (room.0[IP] == 0x45);
            let web = plain & (room.0[IP + 9] == 6) & (be16(room, IP + 22) == 80) & (number != 0);
            let served = 2 * number as usize + usize::from(room.0[IP + 12] >> 7);
            let outside = burst.in_port[i] == cases::balancer::OUTSIDE;
            let chosen = if web { served } else { 0 };
            let chosen = if outside { chosen } else { 1 };
            let cell = &mut cells[chosen];
            cell.count::<COUNT>(burst.len[i], now_ns);
            let port = cell.word as u32;
            burst.start[i] = FRONT as u32;
            burst.out_port[i] = if port == burst.in_port[i] { DROP } else { port };
        }
    }
}

impl Limit for Balancer {
    fn run(&mut self, burst: &mut Burst, counted: bool, now_ns: u64) {
        if counted { self.burst::<true>(burst, now_ns) } else { self.burst::<false>(burst, now_ns) }
    }
}
