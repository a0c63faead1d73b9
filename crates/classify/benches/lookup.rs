//! Nanoseconds per lookup and per update of every structure, the least of several runs.
//!
//! `cargo bench -p classify [-- WORD]`: only cases whose line contains the word. Each structure's
//! answers are first compared with those of a plain scan of the rules, as many keys as that takes
//! in a second or so, each alone and in bursts. Keys hit rules drawn uniformly, so that a large
//! table is large for the caches, too.

use std::hint::black_box;
use std::time::Instant;

use classify::hash::Hash;
use classify::linear::Linear;
use classify::lpm::Lpm;
use classify::range::Intervals;
use classify::tuple_space::TupleSpace;
use classify::{Hit, Layout, Range, Rule, Structure, Table, lookup_mixed};

/// Keys of a burst.
const BURST: usize = 32;
/// Runs of which the least is reported.
const RUNS: usize = 7;
/// Things done between two looks at the clock.
const PIECE: usize = 2048;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn prefix_mask(len: u32) -> [u8; 4] {
    u32::MAX.checked_shl(32 - len).unwrap_or(0).to_be_bytes()
}

/// Exact keys of so many bytes; the last four count up, as addresses of hosts do.
fn exact(n: u32, len: usize, seed: &mut u64) -> Vec<Rule> {
    (0..n)
        .map(|id| {
            let mut value: Vec<u8> = (0..len - 4).map(|_| random(seed) as u8).collect();
            value.extend(id.to_be_bytes());
            Rule::new(id, 1, u64::from(id), &value, &vec![0xff; len]).with_action(id % 100)
        })
        .collect()
}

/// IPv4 routes, most of them of 24 bits.
fn routes(n: u32, seed: &mut u64) -> Vec<Rule> {
    (0..n)
        .map(|id| {
            let len = match random(seed) % 10 {
                0..6 => 24,
                6..9 => 16 + (random(seed) % 8) as u32,
                _ => 8 + (random(seed) % 25) as u32,
            };
            let mask = prefix_mask(len);
            let value: Vec<u8> =
                (random(seed) as u32).to_be_bytes().iter().zip(mask).map(|(v, m)| v & m).collect();
            Rule::new(id, len, u64::from(id), &value, &mask)
        })
        .collect()
}

/// Five fields, prefixes of `lens` in the two addresses, so that there are up to its square masks.
fn ternary(n: u32, lens: &[u32], seed: &mut u64) -> Vec<Rule> {
    (0..n)
        .map(|id| {
            let mut mask = vec![0xff; 13];
            for at in [0, 4] {
                let len = lens[random(seed) as usize % lens.len()];
                mask[at..at + 4].copy_from_slice(&prefix_mask(len));
            }
            let mut value = random(seed).to_be_bytes().to_vec();
            value.extend(random(seed).to_be_bytes().iter().take(5));
            Rule::new(id, (random(seed) % 1000) as u32, u64::from(id), &value, &mask)
        })
        .collect()
}

/// An exact protocol byte and a range of ports.
fn ports(n: u32, protocols: u64, seed: &mut u64) -> Vec<Rule> {
    (0..n)
        .map(|id| {
            let value = [(random(seed) % protocols) as u8, 0, 0];
            let mut rule =
                Rule::new(id, (random(seed) % 1000) as u32, u64::from(id), &value, &[0xff, 0, 0]);
            let lo = u128::from(random(seed) % 60_000);
            let hi = lo + u128::from(random(seed) % 100);
            rule.ranges = Box::new([Range { offset: 1, len: 2, lo, hi }]);
            rule
        })
        .collect()
}

/// Keys that lie `stride` bytes apart, each drawn from a rule.
fn keys(rules: &[Rule], count: usize, stride: usize, seed: &mut u64) -> Vec<u8> {
    let mut keys = vec![0; count * stride];
    for key in keys.chunks_mut(stride) {
        let rule = &rules[random(seed) as usize % rules.len()];
        for ((to, &v), &m) in key.iter_mut().zip(&rule.value).zip(&rule.mask) {
            *to = v & m | random(seed) as u8 & !m;
        }
        for r in &rule.ranges {
            let value = r.lo + u128::from(random(seed)) % (r.hi - r.lo + 1);
            let len = usize::from(r.len);
            key[r.offset as usize..][..len].copy_from_slice(&value.to_be_bytes()[16 - len..]);
        }
    }
    keys
}

fn burst_all(subject: &dyn Structure, keys: &[u8], stride: usize, hits: &mut [Hit]) {
    for (keys, hits) in keys.chunks(BURST * stride).zip(hits.chunks_mut(BURST)) {
        subject.lookup_burst(keys, stride, hits);
    }
}

/// Nanoseconds each of `count` things, done in pieces: the sum of each piece's least of several
/// runs, so that what interrupts a piece now and then does not count.
fn least(count: usize, mut run: impl FnMut(std::ops::Range<usize>)) -> f64 {
    let mut least = vec![u128::MAX; count.div_ceil(PIECE)];
    for _ in 0..RUNS {
        for (i, least) in least.iter_mut().enumerate() {
            let piece = i * PIECE..count.min((i + 1) * PIECE);
            let began = Instant::now();
            run(piece);
            *least = began.elapsed().as_nanos().min(*least);
        }
    }
    least.iter().sum::<u128>() as f64 / count as f64
}

fn measure(what: &str, mut subject: Box<dyn Structure>, rules: &[Rule], seed: &mut u64) {
    let title = format!("{what:<24} {:<11} {:>7} entries", subject.kind().name(), rules.len());
    if std::env::args().skip(1).any(|word| !word.starts_with("--") && !title.contains(&word)) {
        return;
    }
    let began = Instant::now();
    for rule in rules {
        subject.insert(rule).expect("the bench's rules fit");
    }
    let insert_ns = began.elapsed().as_nanos() as f64 / rules.len() as f64;
    let (key_len, stride) = (subject.layout().key_len(), subject.layout().stride());
    let is_linear = subject.kind() == classify::Kind::Linear;
    // Of small tables few enough that the keys themselves stay in the cache.
    let count = if is_linear { 4096 } else { (4 * rules.len()).clamp(1 << 14, 1 << 20) };
    let keys = keys(rules, count, stride, seed);

    let checks = (30_000_000 / rules.len()).clamp(1, count);
    let mut hits = vec![Hit::default(); count];
    burst_all(&*subject, &keys, stride, &mut hits);
    // What `linear` does, without the cost of building it by inserts.
    let mut ordered: Vec<&Rule> = rules.iter().collect();
    ordered.sort_by(|a, b| a.precedence(b));
    for (key, hit) in keys.chunks(stride).zip(&hits).take(checks) {
        let key = &key[..key_len];
        let want = ordered.iter().find(|r| r.matches(key)).map_or(Hit::MISS, |r| r.hit());
        assert_eq!((subject.lookup(key), *hit), (want, want), "{}", subject.kind());
    }
    for (key, hit) in keys.chunks(stride).zip(&hits) {
        assert_eq!(subject.lookup(&key[..key_len]), *hit, "{}", subject.kind());
    }

    let part = |piece: &std::ops::Range<usize>| &keys[piece.start * stride..piece.end * stride];
    let single_ns = least(count, |piece| {
        for key in part(&piece).chunks(stride) {
            black_box(subject.lookup(&key[..key_len]));
        }
    });
    let burst_ns = least(count, |piece| {
        burst_all(&*subject, part(&piece), stride, black_box(&mut hits[piece]));
    });
    let updates = rules.len().min(if is_linear { 200 } else { 100_000 });
    let of = |i: usize| &rules[i * 7919 % rules.len()];
    let update_ns = least(updates, |piece| {
        for rule in piece.map(of) {
            if black_box(subject.remove(rule.id)).is_some() {
                subject.insert(rule).expect("what was removed fits again");
            }
        }
    });
    let action_ns = least(updates, |piece| {
        for rule in piece.map(of) {
            black_box(subject.set_action(rule.id, 5));
        }
    });
    println!(
        "{title} lookup {single_ns:>6.1} burst {burst_ns:>6.1} insert {insert_ns:>6.0} \
         remove+insert {update_ns:>6.0} set_action {action_ns:>5.0} {:>6.1} bytes/entry {:>4} masks",
        subject.memory_bytes() as f64 / rules.len() as f64,
        subject.explain().masks,
    );
}

/// Bursts of 16 keys, each in one of several tables drawn by chance: every key by a burst of its own
/// and all at once.
fn mixed(tables: u32, n: u32, lens: &[usize], seed: &mut u64) {
    const KEYS: usize = 16;
    let len: usize = lens.iter().sum();
    let title = format!("{len} exact bytes, {tables} tables of {n}");
    if std::env::args().skip(1).any(|word| !word.starts_with("--") && !title.contains(&word)) {
        return;
    }
    let layout = Layout::new(lens).expect("a few bytes are a key");
    let (stride, count) = (layout.stride(), 1 << 14);
    let rules: Vec<Vec<Rule>> = (0..tables).map(|_| exact(n, len, seed)).collect();
    let tables: Vec<Table> = rules
        .iter()
        .map(|rules| {
            let mut table = Table::with_layout(layout.clone());
            for rule in rules {
                table.insert(rule).expect("the bench's rules fit");
            }
            table
        })
        .collect();
    let of: Vec<u8> = (0..count).map(|_| (random(seed) % tables.len() as u64) as u8).collect();
    let keys: Vec<u8> =
        of.iter().flat_map(|&of| keys(&rules[usize::from(of)], 1, stride, seed)).collect();
    let all: Vec<&Table> = tables.iter().collect();
    let part = |at: usize| &keys[at * stride..][..KEYS * stride];
    let (mut alone, mut together) = (vec![Hit::MISS; count], vec![Hit::MISS; count]);
    let alone_ns = least(count, |piece| {
        for i in piece {
            let key = &keys[i * stride..][..stride];
            tables[usize::from(of[i])].lookup_burst(key, stride, &mut alone[i..=i]);
        }
    });
    let together_ns = least(count, |piece| {
        for at in piece.step_by(KEYS) {
            let hits = &mut together[at..][..KEYS];
            lookup_mixed(&all, &of[at..][..KEYS], part(at), stride, hits);
        }
    });
    assert_eq!(alone, together);
    assert!(alone.iter().all(|hit| hit.is_hit()));
    println!("{title}: a burst for each key {alone_ns:>6.1} ns, all at once {together_ns:>6.1} ns");
}

fn main() {
    let seed = &mut 0x1234_5678_9abc_def1;
    for (tables, n) in [(10, 20), (10, 1_000), (100, 20), (100, 1_000)] {
        for lens in [&[6][..], &[4, 4, 2, 2, 1]] {
            mixed(tables, n, lens, seed);
        }
    }
    let layout = |lens: &[usize]| Layout::new(lens).expect("a few bytes are a key");
    let five = [4, 4, 2, 2, 1];
    for n in [4, 1_000, 100_000, 1_000_000] {
        for (what, lens) in [
            ("6 exact bytes", &[6][..]),
            ("8 exact bytes", &[6, 2]),
            ("13 exact bytes", &five),
            ("32 exact bytes", &[16, 16]),
            ("72 exact bytes", &[36, 36]),
        ] {
            if n == 1_000_000 && lens[0] > 6 {
                continue;
            }
            let rules = exact(n, lens.iter().sum(), seed);
            measure(what, Box::new(Hash::new(layout(lens))), &rules, seed);
        }
    }
    for n in [1_000, 100_000] {
        let rules = exact(n, 13, seed);
        measure("13 exact bytes", Box::new(TupleSpace::new(layout(&five))), &rules, seed);
        for (what, lens) in [
            ("five fields, 9 masks", &[16, 24, 32][..]),
            ("five fields, 49 masks", &[8, 12, 16, 20, 24, 28, 32]),
        ] {
            let rules = ternary(n, lens, seed);
            measure(what, Box::new(TupleSpace::new(layout(&five))), &rules, seed);
            if n == 1_000 {
                measure(what, Box::new(Linear::new(layout(&five))), &rules, seed);
            }
        }
        let rules = routes(n, seed);
        measure("IPv4 routes", Box::new(Lpm::new(layout(&[4]), 0).expect("a field")), &rules, seed);
        measure("IPv4 routes", Box::new(TupleSpace::new(layout(&[4]))), &rules, seed);
        for protocols in [1, 200] {
            let what = format!("{protocols} protocols, ports");
            let rules = ports(n / 10, protocols, seed);
            let search = Intervals::new(layout(&[1, 2]), 1).expect("a field");
            measure(&what, Box::new(search), &rules, seed);
            measure(&what, Box::new(TupleSpace::new(layout(&[1, 2]))), &rules, seed);
        }
    }
}
