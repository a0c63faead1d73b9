//! Layer 3, by hand: longest prefix to next hop.
//!
//! DIR-24-8 (Gupta, Lin, McKeown, INFOCOM 1998) without its second part, as no route of the use case
//! is longer than /24: one load from 64 MiB.

// Several arrays are walked side by side, by place.
#![allow(clippy::needless_range_loop)]

use super::rewrite::dec_ttl;
use super::{BURST, Burst, Cell, DROP, FRONT, Limit, be16, be32, put};
use crate::cache::prefetch;
use crate::cases;
use crate::cases::routes::Route;

/// From the first 24 bits of an address to a route's number; 0 is none.
pub(super) struct Dir24(Vec<u32>);

impl Dir24 {
    /// Of these routes, numbered from 1.
    pub(super) fn new(routes: &[Route]) -> Dir24 {
        let mut order: Vec<(u32, &Route)> = (1..).zip(routes).collect();
        order.sort_by_key(|(_, r)| r.len);
        let mut table = vec![0; 1 << 24];
        for (number, route) in order {
            assert!(route.len <= 24, "routes are drawn no longer than /24");
            let from = (route.prefix >> 8) as usize;
            table[from..from + (1 << (24 - route.len))].fill(number);
        }
        Dir24(table)
    }

    /// Asks for an address's route.
    #[inline(always)]
    pub(super) fn touch(&self, address: u32) {
        prefetch(&self.0, (address >> 8) as usize);
    }

    /// The route's number.
    #[inline(always)]
    pub(super) fn get(&self, address: u32) -> u32 {
        self.0.get((address >> 8) as usize).copied().unwrap_or(0)
    }
}

/// Both addresses and the port, ready to be written.
#[derive(Clone, Copy, Default)]
#[repr(align(16))]
pub(super) struct Hop {
    /// Destination, then source.
    pub(super) macs: [u8; 12],
    /// The port.
    pub(super) port: u32,
}

impl Hop {
    /// Of these.
    pub(super) fn new(dst: u64, src: u64, port: u32) -> Hop {
        let mut macs = [0; 12];
        macs[..6].copy_from_slice(&dst.to_be_bytes()[2..]);
        macs[6..].copy_from_slice(&src.to_be_bytes()[2..]);
        Hop { macs, port }
    }
}

/// The loop. A cell's word is the next hop.
pub(crate) struct L3 {
    table: Dir24,
    cells: Vec<Cell>,
    hops: Vec<Hop>,
}

impl L3 {
    /// For this use case.
    pub(crate) fn new(case: &cases::L3) -> L3 {
        let of = |r: &Route| Cell::with(r.hop.into());
        L3 {
            table: Dir24::new(&case.routes),
            cells: std::iter::once(Cell::default()).chain(case.routes.iter().map(of)).collect(),
            hops: case.hops.iter().map(|h| Hop::new(h.dst, h.src, h.port)).collect(),
        }
    }

    fn burst<const COUNT: bool>(&mut self, burst: &mut Burst, now_ns: u64) {
        const IP: usize = FRONT + 14;
        let n = burst.n.min(BURST);
        let mut addresses = [0u32; BURST];
        let mut numbers = [0u32; BURST];
        for i in 0..n {
            addresses[i] = be32(&burst.rooms[i], IP + 16);
            self.table.touch(addresses[i]);
        }
        for i in 0..n {
            let room = &burst.rooms[i];
            let plain = (be16(room, IP - 2) == 0x0800) & (room.0[IP] == 0x45);
            numbers[i] = if plain { self.table.get(addresses[i]) } else { 0 };
            prefetch(&self.cells, numbers[i] as usize);
        }
        for i in 0..n {
            burst.start[i] = FRONT as u32;
            burst.out_port[i] = DROP;
            let number = numbers[i] as usize;
            if number == 0 {
                continue;
            }
            let cell = &mut self.cells[number];
            cell.count::<COUNT>(burst.len[i], now_ns);
            let hop = self.hops[cell.word as usize];
            let room = &mut burst.rooms[i];
            if dec_ttl(room, IP) {
                put(room, FRONT, hop.macs);
                burst.out_port[i] = hop.port;
            }
        }
    }
}

impl Limit for L3 {
    fn run(&mut self, burst: &mut Burst, counted: bool, now_ns: u64) {
        if counted { self.burst::<true>(burst, now_ns) } else { self.burst::<false>(burst, now_ns) }
    }
}
