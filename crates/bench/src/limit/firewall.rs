//! The firewall, by hand: what each part of the list says is worked out for every frame, and the
//! first one that says something is chosen without a branch.

use super::index::{Index, Place};
use super::{BURST, Burst, Cell, DROP, FRONT, Limit, be16, be32};
use crate::cases;
use crate::cases::firewall::{INSIDE as INSIDE_PORT, MANAGERS, OUTSIDE, SERVICES};

/// The loop. Cells: denied, inside, echo, management, blocked networks, services.
pub(crate) struct Firewall {
    /// By the first 16 bits of a source: its group.
    first: Vec<u8>,
    /// By group and the next 8 bits: the blocked network's cell, or 0.
    groups: Vec<[u16; 256]>,
    index: Index,
    cells: Vec<Cell>,
    /// The first service's cell.
    services: usize,
}

const DENIED: usize = 0;
const INSIDE: usize = 1;
const ECHO: usize = 2;
const MANAGEMENT: usize = 3;
const BLOCKED: usize = 4;

fn key(address: u32, port: u16) -> u64 {
    u64::from(address) << 16 | u64::from(port)
}

impl Firewall {
    /// For this use case.
    pub(crate) fn new(case: &cases::Firewall) -> Firewall {
        use cases::Firewall as Case;
        let inside = u64::from(INSIDE_PORT);
        // Nothing, outside, inside, inside.
        let mut cells: Vec<Cell> =
            [u64::from(DROP), OUTSIDE.into(), inside, inside].map(Cell::with).into();
        let mut first = vec![0u8; 1 << 16];
        let mut groups = vec![[0u16; 256]];
        for (prefix, len) in &case.blocked {
            let number = cells.len() as u16;
            cells.push(Cell::with(DROP.into()));
            let high = (prefix >> 16) as usize;
            // Networks are far apart, but two longer than /16 may share their first half.
            let group = if *len > 16 && first[high] != 0 {
                usize::from(first[high])
            } else {
                groups.push([0; 256]);
                groups.len() - 1
            };
            let (from, n) = match len {
                0..=16 => (0, 256),
                _ => ((prefix >> 8 & 0xff) as usize, 1 << (24 - len)),
            };
            groups[group][from..from + n].fill(number);
            let span = if *len < 16 { 1 << (16 - len) } else { 1 };
            first[high..high + span].fill(group as u8);
        }
        let mut keys = Vec::new();
        let services = cells.len();
        for server in 0..case.servers {
            for port in SERVICES {
                keys.push(key(Case::address(server), port));
                cells.push(Cell::with(key(Case::address(server), port) << 16 | inside));
            }
        }
        Firewall { first, groups, index: Index::new(keys.into_iter()), cells, services }
    }

    fn burst<const COUNT: bool>(&mut self, burst: &mut Burst, now_ns: u64) {
        const IP: usize = FRONT + 14;
        let n = burst.n.min(BURST);
        let mut places = [Place::default(); BURST];
        let mut blocked = [0u16; BURST];
        for i in 0..n {
            let room = &burst.rooms[i];
            places[i] = self.index.place(key(be32(room, IP + 16), be16(room, IP + 22)));
            let src = be32(room, IP + 12);
            let group = self.first[(src >> 16) as usize];
            blocked[i] = self.groups[usize::from(group)][(src >> 8 & 0xff) as usize];
        }
        let (index, cells, services) = (&self.index, &mut self.cells[..], self.services);
        for i in 0..n {
            let room = &burst.rooms[i];
            let key = key(be32(room, IP + 16), be16(room, IP + 22));
            let mut number = index.guess(places[i]) as usize;
            let is_key = |n: u32| cells[services + n as usize - 1].word >> 16 == key;
            let missed = (number == 0) & index.is_final_miss(places[i], number as u32);
            if !missed && (number == 0 || !is_key(number as u32)) {
                number = index.search(places[i], is_key) as usize;
            }
            let plain = (be16(room, IP - 2) == 0x0800) & (room.0[IP] == 0x45);
            let tcp = room.0[IP + 9] == 6;
            let echo = (room.0[IP + 9] == 1) & (room.0[IP + 20] == 8);
            let managed =
                (be32(room, IP + 12) & 0xffff_ff00 == MANAGERS) & (be16(room, IP + 22) == 22);
            // From the last resort to the first.
            let chosen = if echo { ECHO } else { DENIED };
            let chosen = if tcp & managed { MANAGEMENT } else { chosen };
            let chosen = if tcp & (number != 0) { services + number - 1 } else { chosen };
            let chosen = if blocked[i] != 0 { usize::from(blocked[i]) } else { chosen };
            let chosen = if plain { chosen } else { DENIED };
            let inside = burst.in_port[i] == INSIDE_PORT;
            let chosen = if inside { INSIDE } else { chosen };
            let cell = &mut cells[chosen];
            cell.count::<COUNT>(burst.len[i], now_ns);
            burst.start[i] = FRONT as u32;
            burst.out_port[i] = cell.word as u32 & 0xffff;
        }
    }
}

impl Limit for Firewall {
    fn run(&mut self, burst: &mut Burst, counted: bool, now_ns: u64) {
        if counted { self.burst::<true>(burst, now_ns) } else { self.burst::<false>(burst, now_ns) }
    }
}

const _: () = assert!(BLOCKED == MANAGEMENT + 1);
