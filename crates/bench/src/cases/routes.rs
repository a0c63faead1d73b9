//! Routing tables as the Internet has them, drawn from a seed.
//!
//! Lengths are in proportion to those of today's table of some 950,000 IPv4 routes; two in five of
//! the routes longer than /16 lie within a shorter one, as customers' routes do within providers'.

use port::prng::Prng;
use std::collections::HashSet;

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    /// The network; zero below the prefix.
    pub(crate) prefix: u32,
    /// The prefix's bits.
    pub(crate) len: u32,
    /// Which next hop.
    pub(crate) hop: u32,
}

impl Route {
    /// Some address that it covers.
    pub(crate) fn address(&self, random: u64) -> u32 {
        self.prefix | (random as u32 & !mask(self.len))
    }
}

/// How many routes of each length a table of the Internet has.
const LENGTHS: [(u32, u64); 17] = [
    (8, 16),
    (9, 13),
    (10, 40),
    (11, 100),
    (12, 300),
    (13, 590),
    (14, 1_200),
    (15, 2_100),
    (16, 13_500),
    (17, 8_300),
    (18, 14_000),
    (19, 25_500),
    (20, 43_000),
    (21, 52_000),
    (22, 110_000),
    (23, 98_000),
    (24, 590_000),
];

/// The bits of a prefix.
pub(crate) fn mask(len: u32) -> u32 {
    u32::MAX.checked_shl(32 - len).unwrap_or(0)
}

/// Different routes, `n` of them, over so many next hops.
pub(crate) fn draw(n: usize, hops: u32, random: &mut Prng) -> Vec<Route> {
    let total: u64 = LENGTHS.iter().map(|(_, n)| n).sum();
    let mut seen = HashSet::with_capacity(n);
    let mut routes: Vec<Route> = Vec::with_capacity(n);
    // Places of those that others may lie within.
    let mut outer: Vec<Route> = Vec::new();
    while routes.len() < n {
        let mut draw = random.below(total);
        let mut len = 24;
        for (candidate, share) in LENGTHS {
            len = candidate;
            match draw.checked_sub(share) {
                Some(rest) => draw = rest,
                None => break,
            }
        }
        let mut prefix = random.next_u64() as u32;
        if len > 16 && !outer.is_empty() && random.below(5) < 2 {
            let within = outer[random.below(outer.len() as u64) as usize];
            if within.len < len {
                prefix = within.address(random.next_u64());
            }
        }
        prefix &= mask(len);
        if !is_routable(prefix, len) || !seen.insert((prefix, len)) {
            continue;
        }
        let route = Route { prefix, len, hop: random.below(hops.into()) as u32 };
        if len < 22 {
            outer.push(route);
        }
        routes.push(route);
    }
    routes
}

/// Unicast addresses other than private ones, this host's, and those of carriers' NAT, which the
/// gateway's users have.
fn is_routable(prefix: u32, len: u32) -> bool {
    const KEPT_OUT: [(u32, u32); 5] = [
        (0x0a00_0000, 8),
        (0x7f00_0000, 8),
        (0x6440_0000, 10),
        (0xac10_0000, 12),
        (0xc0a8_0000, 16),
    ];
    let overlaps = |(other, other_len): (u32, u32)| {
        let common = mask(len.min(other_len));
        prefix & common == other & common
    };
    (1..224).contains(&(prefix >> 24)) && !KEPT_OUT.into_iter().any(overlaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_table_has_the_lengths_of_the_internet() {
        let routes = draw(50_000, 64, &mut Prng::new(1));
        let share = |len| routes.iter().filter(|r| r.len == len).count() as f64 / 50_000.0;
        assert!((0.58..0.65).contains(&share(24)), "{}", share(24));
        assert!((0.10..0.13).contains(&share(22)), "{}", share(22));
        assert!(routes.iter().all(|r| r.prefix & !mask(r.len) == 0 && r.hop < 64));
        assert!(!is_routable(0x6400_0000, 8) && is_routable(0x6300_0000, 8));
        // Some lie within others.
        let set: HashSet<_> = routes.iter().map(|r| (r.prefix, r.len)).collect();
        let inner = |r: &&Route| (8..r.len).any(|l| set.contains(&(r.prefix & mask(l), l)));
        assert!(routes.iter().filter(inner).count() > 5_000);
    }
}
