//! Layer 2, by hand: destination address to port.

use super::index::{Index, Place};
use super::{BURST, Burst, Cell, DROP, FRONT, Limit, be64};
use crate::cache::prefetch;
use crate::cases;

/// The loop. Cells hold an address in the high 48 bits and its port in the low 16.
pub(crate) struct L2 {
    index: Index,
    cells: Vec<Cell>,
}

impl L2 {
    /// For this use case.
    pub(crate) fn new(case: &cases::L2) -> L2 {
        let none = Cell::with(u64::MAX);
        let of = |(mac, port): &(u64, u32)| Cell::with(mac << 16 | u64::from(*port));
        let cells = std::iter::once(none).chain(case.stations.iter().map(of)).collect();
        L2 { index: Index::new(case.stations.iter().map(|(mac, _)| *mac)), cells }
    }

    fn burst<const COUNT: bool>(&mut self, burst: &mut Burst, now_ns: u64) {
        let n = burst.n.min(BURST);
        let mut keys = [0u64; BURST];
        let mut places = [Place::default(); BURST];
        let mut numbers = [0u32; BURST];
        for i in 0..n {
            keys[i] = be64(&burst.rooms[i], FRONT) >> 16;
            places[i] = self.index.place(keys[i]);
            self.index.touch(places[i]);
        }
        for i in 0..n {
            numbers[i] = self.index.guess(places[i]);
            prefetch(&self.cells, numbers[i] as usize);
        }
        let (index, cells) = (&self.index, &mut self.cells[..]);
        for i in 0..n {
            let mut number = numbers[i];
            if cells[number as usize].word >> 16 != keys[i] {
                let is_key = |n: u32| cells[n as usize].word >> 16 == keys[i];
                number = match index.is_final_miss(places[i], number) {
                    true => 0,
                    false => index.search(places[i], is_key),
                };
            }
            burst.start[i] = FRONT as u32;
            burst.out_port[i] = DROP;
            if number != 0 {
                let cell = &mut cells[number as usize];
                cell.count::<COUNT>(burst.len[i], now_ns);
                // Back to where it came from goes nowhere.
                let port = cell.word as u32 & 0xffff;
                burst.out_port[i] = if port == burst.in_port[i] { DROP } else { port };
            }
        }
    }
}

impl Limit for L2 {
    fn run(&mut self, burst: &mut Burst, counted: bool, now_ns: u64) {
        if counted { self.burst::<true>(burst, now_ns) } else { self.burst::<false>(burst, now_ns) }
    }
}
