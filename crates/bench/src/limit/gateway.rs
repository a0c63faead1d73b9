//! The access gateway, by hand: users to the Internet, the Internet to users.
//!
//! One index holds the users twice, by VLAN and private address and by public address. The burst is
//! parted by direction after the lookups, so that neither rewriting loop has to ask.

use super::index::{Index, Place};
use super::l3::{Dir24, Hop};
use super::rewrite::{address, dec_ttl};
use super::{BURST, Burst, Cell, DROP, FRONT, Limit, be16, be32, put};
use crate::cache::prefetch;
use crate::cases;

/// A user in one direction: its entry's counts, its key, and what a frame is given. A cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct User {
    entry: Cell,
    /// The address that takes the place of the other.
    address: u32,
    /// Addresses and tag to be written in front, down only.
    front: [u8; 16],
}

/// The loop.
pub(crate) struct Gateway {
    index: Index,
    users: Vec<User>,
    table: Dir24,
    routes: Vec<Cell>,
    hops: Vec<Hop>,
    /// Table 0's entries by VLAN, and that of the Internet.
    vlans: Vec<Cell>,
    internet: Cell,
}

/// Keys of both directions in one index.
const DOWN: u64 = 1 << 48;

impl Gateway {
    /// For this use case.
    pub(crate) fn new(case: &cases::Gateway) -> Gateway {
        use cases::Gateway as Case;
        let mut users = vec![User { entry: Cell::with(u64::MAX), ..User::default() }];
        for customer in 0..case.customers {
            let vlan = Case::vlan(customer);
            for user in 0..case.users {
                let (private, public) = (Case::private(user), case.public(customer, user));
                let mut front = [0; 16];
                let macs = Hop::new(case.user_mac(customer, user), Case::our_mac(1), 0).macs;
                front[..12].copy_from_slice(&macs);
                front[12..14].copy_from_slice(&0x8100u16.to_be_bytes());
                front[14..].copy_from_slice(&vlan.to_be_bytes());
                let up = u64::from(vlan) << 32 | u64::from(private);
                let down = DOWN | u64::from(public);
                let user = |key, address| User { entry: Cell::with(key), address, front };
                users.extend([user(up, public), user(down, private)]);
            }
        }
        let hops = 1 + case.routes.iter().map(|r| r.hop).max().unwrap_or(0);
        let ours = Case::our_mac(2);
        Gateway {
            index: Index::new(users[1..].iter().map(|u| u.entry.word)),
            table: Dir24::new(&case.routes),
            routes: std::iter::once(Cell::default())
                .chain(case.routes.iter().map(|r| Cell::with(r.hop.into())))
                .collect(),
            hops: (0..hops).map(|h| Hop::new(Case::hop_mac(h), ours, 2)).collect(),
            vlans: vec![Cell::default(); 4096],
            internet: Cell::default(),
            users,
        }
    }

    fn burst<const COUNT: bool>(&mut self, burst: &mut Burst, now_ns: u64) {
        const UP_IP: usize = FRONT + 18;
        const DOWN_IP: usize = FRONT + 14;
        let n = burst.n.min(BURST);
        let mut keys = [0u64; BURST];
        let mut places = [Place::default(); BURST];
        let mut numbers = [0u32; BURST];
        for i in 0..n {
            let room = &burst.rooms[i];
            let up = burst.in_port[i] == 1;
            let vlan = u64::from(be16(room, FRONT + 14) & 0xfff);
            let up_key = vlan << 32 | u64::from(be32(room, UP_IP + 12));
            let down_key = DOWN | u64::from(be32(room, DOWN_IP + 16));
            let ip = if up { UP_IP } else { DOWN_IP };
            let tagged = !up | (be16(room, FRONT + 12) == 0x8100);
            let plain = tagged & (be16(room, ip - 2) == 0x0800) & (room.0[ip & 127] == 0x45);
            // What is not plain has the key that nobody has.
            let key = if up { up_key } else { down_key };
            keys[i] = if plain { key } else { u64::MAX - 1 };
            places[i] = self.index.place(keys[i]);
            self.index.touch(places[i]);
            self.table.touch(be32(room, UP_IP + 16));
        }
        for i in 0..n {
            numbers[i] = self.index.guess(places[i]);
            prefetch(&self.users, numbers[i] as usize);
        }
        // Part them, with the routes of those that go up.
        let (mut up, mut down) = ([0u8; BURST], [0u8; BURST]);
        let (mut ups, mut downs) = (0usize, 0usize);
        let mut routes = [0u32; BURST];
        for i in 0..n {
            let mut number = numbers[i];
            if self.users[number as usize].entry.word != keys[i] {
                let users = &self.users;
                number = match self.index.is_final_miss(places[i], number) {
                    true => 0,
                    false => {
                        self.index.search(places[i], |n| users[n as usize].entry.word == keys[i])
                    }
                };
                numbers[i] = number;
            }
            burst.start[i] = FRONT as u32;
            burst.out_port[i] = DROP;
            let goes_up = burst.in_port[i] == 1;
            up[ups % BURST] = i as u8;
            down[downs % BURST] = i as u8;
            ups += usize::from(goes_up);
            downs += usize::from(!goes_up);
            let route = self.table.get(be32(&burst.rooms[i], UP_IP + 16));
            routes[i] = if goes_up & (number != 0) { route } else { 0 };
            prefetch(&self.routes, routes[i] as usize);
        }
        for i in up[..ups].iter().map(|i| usize::from(*i) % BURST) {
            let room = &mut burst.rooms[i];
            let len = burst.len[i];
            let vlan = usize::from(be16(room, FRONT + 14) & 0xfff);
            self.vlans[vlan].count::<COUNT>(len, now_ns);
            let (number, route) = (numbers[i] as usize, routes[i] as usize);
            if number == 0 {
                continue;
            }
            let user = &mut self.users[number];
            user.entry.count::<COUNT>(len - 4, now_ns);
            if route == 0 {
                continue;
            }
            let route = &mut self.routes[route];
            route.count::<COUNT>(len - 4, now_ns);
            let hop = self.hops[route.word as usize];
            let old = be32(room, UP_IP + 12);
            if dec_ttl(room, UP_IP) {
                address(room, UP_IP, UP_IP + 12, old, user.address);
                put(room, FRONT + 4, hop.macs);
                burst.start[i] = FRONT as u32 + 4;
                burst.out_port[i] = hop.port;
            }
        }
        if COUNT {
            for i in down[..downs].iter().map(|i| usize::from(*i) % BURST) {
                self.internet.count::<COUNT>(burst.len[i], now_ns);
            }
        }
        for i in down[..downs].iter().map(|i| usize::from(*i) % BURST) {
            let number = numbers[i] as usize;
            if number == 0 {
                continue;
            }
            let room = &mut burst.rooms[i];
            let user = &mut self.users[number];
            user.entry.count::<COUNT>(burst.len[i], now_ns);
            let old = be32(room, DOWN_IP + 16);
            if dec_ttl(room, DOWN_IP) {
                address(room, DOWN_IP, DOWN_IP + 16, old, user.address);
                put(room, FRONT - 4, user.front);
                burst.start[i] = FRONT as u32 - 4;
                burst.out_port[i] = 1;
            }
        }
    }
}

impl Limit for Gateway {
    fn run(&mut self, burst: &mut Burst, counted: bool, now_ns: u64) {
        if counted { self.burst::<true>(burst, now_ns) } else { self.burst::<false>(burst, now_ns) }
    }
}
