//! Longest prefix match, timed beside a hand-written DIR-24-8 over the same prefixes.
//!
//! `cargo bench -p classify --bench lpm`; with `-- small`, without the largest tables. Answers are
//! compared before anything is timed: IPv4's with DIR-24-8's, IPv6's with a table by length.
//!
//! Prefixes have about the lengths of the Internet's tables and lie in clusters, as allocations do;
//! a line says when they are spread evenly instead. Keys are timed in parts of a few thousand, of
//! each part the least of several runs counts, so that what else the machine does matters less. The
//! plain DIR-24-8 answers with a hit too, one load behind the number it finds.

use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::time::Instant;

use classify::lpm::Lpm;
use classify::{Hit, Layout, Rule, Structure};

const BURST: usize = 32;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// How many prefixes in a thousand have each length, after the public routing tables.
const IPV4: [(u32, u64); 19] = [
    (24, 600),
    (22, 115),
    (23, 100),
    (21, 50),
    (20, 45),
    (19, 28),
    (18, 15),
    (16, 15),
    (17, 9),
    (32, 4),
    (15, 3),
    (14, 3),
    (27, 2),
    (25, 2),
    (29, 2),
    (28, 2),
    (13, 2),
    (12, 2),
    (8, 1),
];
const IPV6: [(u32, u64); 12] = [
    (48, 460),
    (32, 130),
    (44, 110),
    (40, 90),
    (36, 60),
    (46, 40),
    (42, 30),
    (29, 30),
    (33, 20),
    (47, 15),
    (64, 10),
    (128, 5),
];

/// A prefix: its bits, left-aligned, and its length.
type Prefix = (u128, u32);

fn cut(bits: u128, len: u32) -> u128 {
    bits & u128::MAX.checked_shl(128 - len).unwrap_or(0)
}

fn prefixes(n: usize, lens: &[(u32, u64)], clusters: Option<u32>, seed: &mut u64) -> Vec<Prefix> {
    let wide = |seed: &mut u64| u128::from(random(seed)) << 64 | u128::from(random(seed));
    let homes: Vec<u128> = (0..(n / 16).max(4)).map(|_| wide(seed)).collect();
    let total: u64 = lens.iter().map(|l| l.1).sum();
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    while found.len() < n {
        let mut left = random(seed) % total;
        let drawn = lens.iter().find(|l| match left.checked_sub(l.1) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        let len = drawn.map_or(24, |l| l.0);
        let bits = match clusters {
            Some(bits) => {
                let home = homes[random(seed) as usize % homes.len()];
                cut(home, bits) | wide(seed) >> bits
            }
            None => wide(seed),
        };
        let prefix = (cut(bits, len), len);
        if seen.insert(prefix) {
            found.push(prefix);
        }
    }
    found
}

/// The textbook's: 2^24 numbers, and 256 more where a longer prefix begins. Filled shortest first.
struct Dir248 {
    first: Vec<u32>,
    second: Vec<u32>,
}

const LONGER: u32 = 1 << 31;

impl Dir248 {
    fn new(prefixes: &[Prefix]) -> Dir248 {
        let mut order: Vec<usize> = (0..prefixes.len()).collect();
        order.sort_by_key(|&i| prefixes[i].1);
        let mut dir = Dir248 { first: vec![0; 1 << 24], second: Vec::new() };
        for i in order {
            let (bits, len) = ((prefixes[i].0 >> 96) as u32, prefixes[i].1);
            let (at, number) = ((bits >> 8) as usize, i as u32 + 1);
            if len <= 24 {
                dir.first[at..at + (1 << (24 - len))].fill(number);
                continue;
            }
            if dir.first[at] & LONGER == 0 {
                let group = LONGER | (dir.second.len() / 256) as u32;
                let fill = std::mem::replace(&mut dir.first[at], group);
                dir.second.resize(dir.second.len() + 256, fill);
            }
            let at = (dir.first[at] & !LONGER) as usize * 256 + (bits & 255) as usize;
            dir.second[at..at + (1 << (32 - len))].fill(number);
        }
        dir
    }

    #[inline(always)]
    fn lookup(&self, key: u32) -> u32 {
        let number = self.first[(key >> 8) as usize];
        match number & LONGER {
            0 => number,
            _ => self.second[(number & !LONGER) as usize * 256 + (key & 255) as usize],
        }
    }
}

/// Bursts in a part.
const PART: usize = 1_024;

/// Nanoseconds per key: of each part of the keys the least of several runs.
fn least(runs: usize, keys: &[u8], stride: usize, mut run: impl FnMut(&[u8])) -> f64 {
    let parts: Vec<&[u8]> = keys.chunks(PART * BURST * stride).collect();
    let mut times = vec![f64::MAX; parts.len()];
    for _ in 0..runs {
        for (time, part) in times.iter_mut().zip(&parts) {
            let began = Instant::now();
            run(part);
            *time = time.min(began.elapsed().as_nanos() as f64);
        }
    }
    times.iter().sum::<f64>() / (keys.len() / stride) as f64
}

/// What is put before the prefix field.
#[derive(Clone, Copy)]
enum Side {
    None,
    /// One value of two bytes.
    EtherType,
    /// This many values of two bytes.
    Vrf(u16),
}

struct Case {
    name: &'static str,
    bytes: usize,
    side: Side,
    prefixes: Vec<Prefix>,
}

impl Case {
    fn side_len(&self) -> usize {
        if let Side::None = self.side { 0 } else { 2 }
    }

    fn side_of(&self, i: usize) -> u16 {
        match self.side {
            Side::Vrf(values) => i as u16 % values,
            _ => 0x0800,
        }
    }

    fn packed(&self, i: usize, bits: u128) -> Vec<u8> {
        let mut key = self.side_of(i).to_be_bytes()[..self.side_len()].to_vec();
        key.extend(&bits.to_be_bytes()[..self.bytes]);
        key
    }

    fn rule(&self, i: usize) -> Rule {
        let (bits, len) = self.prefixes[i];
        let mut mask = vec![0xff; self.side_len()];
        mask.extend(&cut(u128::MAX, len).to_be_bytes()[..self.bytes]);
        let rule = Rule::new(i as u32, len, i as u64, &self.packed(i, bits), &mask);
        rule.with_action(i as u32 % 7 + 1)
    }
}

fn run(case: &Case, seed: &mut u64) {
    let layout = match case.side {
        Side::None => Layout::new(&[case.bytes]),
        _ => Layout::new(&[2, case.bytes]),
    };
    let layout = layout.expect("a few bytes are a key");
    let (stride, key_len) = (layout.stride(), layout.key_len());
    let n = case.prefixes.len();
    let rules: Vec<Rule> = (0..n).map(|i| case.rule(i)).collect();
    let field = layout.fields().len() - 1;
    let mut lpm = Lpm::new(layout, field).expect("the field is there");
    let began = Instant::now();
    for rule in &rules {
        lpm.insert(rule).expect("the bench's rules fit");
    }
    let build_ms = began.elapsed().as_secs_f64() * 1e3;
    println!(
        "{} {n} prefixes: built in {build_ms:.1} ms, {:.1} bytes/prefix, {:.2} MB; {}",
        case.name,
        lpm.memory_bytes() as f64 / n as f64,
        lpm.memory_bytes() as f64 / 1e6,
        lpm.explain(),
    );
    let plain = (case.bytes == 4 && case.side_len() == 0).then(|| Dir248::new(&case.prefixes));
    let numbers: Vec<Hit> = std::iter::once(Hit::MISS).chain(rules.iter().map(Rule::hit)).collect();
    for flows in [100, 1_000_000] {
        let drawn: Vec<(usize, u128)> = (0..flows)
            .map(|_| {
                let i = random(seed) as usize % n;
                let (bits, len) = case.prefixes[i];
                let host = u128::from(random(seed)) << 64 | u128::from(random(seed));
                (i, bits | host & !cut(u128::MAX, len))
            })
            .collect();
        let count = flows.max(4_096) / BURST * BURST;
        let mut keys = vec![0; count * stride];
        for (i, key) in keys.chunks_mut(stride).enumerate() {
            let (at, bits) = drawn[i % flows];
            key[..key_len].copy_from_slice(&case.packed(at, bits));
        }
        check(case, &lpm, &keys, stride, key_len, plain.as_ref(), &numbers);
        let runs = if flows < count { 200 } else { 15 };
        let single = least(runs, &keys, stride, |keys| {
            for key in keys.chunks_exact(stride) {
                black_box(lpm.lookup(&key[..key_len]));
            }
        });
        let mut hits = [Hit::MISS; BURST];
        let burst = least(runs, &keys, stride, |keys| {
            for keys in keys.chunks_exact(stride * BURST) {
                lpm.lookup_burst(keys, stride, &mut hits);
                black_box(&hits);
            }
        });
        print!("  {flows:>7} flows: {single:>6.2} ns single {burst:>6.2} burst");
        if let Some(dir) = &plain {
            let key_of = |key: &[u8]| u32::from_be_bytes([key[0], key[1], key[2], key[3]]);
            let single = least(runs, &keys, stride, |keys| {
                for key in keys.chunks_exact(stride) {
                    black_box(numbers[dir.lookup(key_of(key)) as usize]);
                }
            });
            let burst = least(runs, &keys, stride, |keys| {
                for keys in keys.chunks_exact(stride * BURST) {
                    let mut found = [0; BURST];
                    for (found, key) in found.iter_mut().zip(keys.chunks_exact(stride)) {
                        *found = dir.lookup(key_of(key));
                    }
                    for (hit, number) in hits.iter_mut().zip(found) {
                        *hit = numbers[number as usize];
                    }
                    black_box(&hits);
                }
            });
            print!("; DIR-24-8 {single:>6.2} single {burst:>6.2} in bursts");
        }
        println!();
    }
    updates(&mut lpm, &rules, seed);
}

fn check(
    case: &Case,
    lpm: &Lpm,
    keys: &[u8],
    stride: usize,
    key_len: usize,
    plain: Option<&Dir248>,
    numbers: &[Hit],
) {
    let mut by_len: Vec<HashMap<(u16, u128), u32>> = vec![HashMap::new(); 129];
    if plain.is_none() {
        for (i, &(bits, len)) in case.prefixes.iter().enumerate() {
            by_len[len as usize].insert((case.side_of(i), bits), i as u32);
        }
    }
    let mut hits = [Hit::MISS; BURST];
    for keys in keys.chunks_exact(stride * BURST).take(2_000) {
        lpm.lookup_burst(keys, stride, &mut hits);
        for (key, &hit) in keys.chunks_exact(stride).zip(&hits) {
            let key = &key[..key_len];
            assert_eq!(lpm.lookup(key), hit);
            let (side, field) = key.split_at(case.side_len());
            let mut wide = [0; 16];
            wide[..field.len()].copy_from_slice(field);
            let bits = u128::from_be_bytes(wide);
            let want = match plain {
                Some(dir) => numbers[dir.lookup((bits >> 96) as u32) as usize],
                None => {
                    let side = side.first_chunk().map_or(0x0800, |&s| u16::from_be_bytes(s));
                    let of = |len: usize| by_len[len].get(&(side, cut(bits, len as u32)));
                    let best = (0..129).rev().find_map(of);
                    best.map_or(Hit::MISS, |&i| numbers[i as usize + 1])
                }
            };
            assert_eq!(hit, want);
        }
    }
}

/// Updates of prefixes drawn by chance, with times for those of 24 bits and the short ones apart.
fn updates(lpm: &mut Lpm, rules: &[Rule], seed: &mut u64) {
    let us = |began: Instant, n: usize| began.elapsed().as_secs_f64() * 1e6 / n.max(1) as f64;
    for (name, lens) in [("of 20 bits and more", 20..129), ("shorter", 0..20)] {
        let mut chosen: Vec<&Rule> = Vec::new();
        let mut seen = HashSet::new();
        for _ in 0..20_000 {
            let rule = &rules[random(seed) as usize % rules.len()];
            if lens.contains(&rule.priority) && seen.insert(rule.id) {
                chosen.push(rule);
            }
        }
        let began = Instant::now();
        for rule in &chosen {
            black_box(lpm.remove(rule.id));
        }
        let remove = us(began, chosen.len());
        let began = Instant::now();
        for rule in &chosen {
            lpm.insert(rule).expect("what was removed fits again");
        }
        let insert = us(began, chosen.len());
        let began = Instant::now();
        for rule in &chosen {
            assert!(lpm.set_action(rule.id, rule.action));
        }
        let set = us(began, chosen.len());
        println!(
            "  {:>6} prefixes {name}: remove {remove:.2} us, insert {insert:.2}, set_action {set:.3}",
            chosen.len()
        );
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let small = args.iter().any(|arg| arg == "small");
    let seed = &mut 0x1234_5678_9abc_def1;
    for n in [1, 10, 1_000, 10_000, 500_000] {
        if small && n > 10_000 {
            continue;
        }
        let prefixes = prefixes(n, &IPV4, Some(18), seed);
        run(&Case { name: "IPv4", bytes: 4, side: Side::None, prefixes }, seed);
    }
    if !small {
        let prefixes = prefixes(500_000, &IPV4, None, seed);
        run(&Case { name: "IPv4 spread evenly", bytes: 4, side: Side::None, prefixes }, seed);
    }
    let hosts = if small { 10_000 } else { 500_000 };
    let all = [(32, 1)];
    let prefixes_of = prefixes(hosts, &all, None, seed);
    run(&Case { name: "IPv4 hosts", bytes: 4, side: Side::None, prefixes: prefixes_of }, seed);
    for n in [10, 1_000, 10_000, 500_000] {
        if small && n > 10_000 {
            continue;
        }
        let prefixes = prefixes(n, &IPV4, Some(18), seed);
        run(&Case { name: "eth_type, IPv4", bytes: 4, side: Side::EtherType, prefixes }, seed);
    }
    for (n, vrfs) in [(1_000, 2), (10_000, 1_000), (500_000, 1_000)] {
        if small && n > 10_000 {
            continue;
        }
        let prefixes = prefixes(n, &IPV4, Some(18), seed);
        let side = Side::Vrf(vrfs);
        println!("{vrfs} values of the side key:");
        run(&Case { name: "VRF, IPv4", bytes: 4, side, prefixes }, seed);
    }
    for n in [10, 1_000, 10_000, 200_000] {
        if small && n > 10_000 {
            continue;
        }
        let prefixes = prefixes(n, &IPV6, Some(28), seed);
        run(&Case { name: "IPv6", bytes: 16, side: Side::None, prefixes }, seed);
    }
}
