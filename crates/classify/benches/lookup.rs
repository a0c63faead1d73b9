//! Nanoseconds per lookup and per update of every structure, at 1K and 100K entries.
//!
//! `cargo bench -p classify`. Each structure's answers are first compared with `linear`'s.

use std::hint::black_box;
use std::time::Instant;

use classify::hash::Hash;
use classify::linear::Linear;
use classify::lpm::Lpm;
use classify::tuple_space::TupleSpace;
use classify::{Layout, Rule, Structure};

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn prefix_mask(len: u32) -> [u8; 4] {
    u32::MAX.checked_shl(32 - len).unwrap_or(0).to_be_bytes()
}

/// Five-field exact keys.
fn exact(n: u32, seed: &mut u64) -> Vec<Rule> {
    (0..n)
        .map(|id| {
            let mut value = random(seed).to_be_bytes().to_vec();
            value.extend(id.to_be_bytes());
            value.push(6);
            Rule::new(id, 1, u64::from(id), &value, &[0xff; 13])
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

/// Five fields, prefixes of four lengths each in two of them: 16 masks.
fn ternary(n: u32, seed: &mut u64) -> Vec<Rule> {
    (0..n)
        .map(|id| {
            let mut mask = vec![0xff; 13];
            for at in [0, 4] {
                let len = [16, 20, 24, 32][(random(seed) % 4) as usize];
                mask[at..at + 4].copy_from_slice(&prefix_mask(len));
            }
            let mut value = random(seed).to_be_bytes().to_vec();
            value.extend(random(seed).to_be_bytes().iter().take(5));
            Rule::new(id, (random(seed) % 1000) as u32, u64::from(id), &value, &mask)
        })
        .collect()
}

fn keys(rules: &[Rule], count: usize, seed: &mut u64) -> Vec<u8> {
    let mut keys = Vec::new();
    for _ in 0..count {
        let rule = &rules[random(seed) as usize % rules.len()];
        let free = |m: u8, seed: &mut u64| random(seed) as u8 & !m;
        keys.extend(rule.value.iter().zip(&rule.mask).map(|(v, &m)| v & m | free(m, seed)));
    }
    keys
}

fn measure(mut subject: Box<dyn Structure>, rules: &[Rule], seed: &mut u64) {
    let began = Instant::now();
    for rule in rules {
        subject.insert(rule).expect("the bench's rules fit");
    }
    let build_ns = began.elapsed().as_nanos() as f64 / rules.len() as f64;
    let key_len = subject.layout().key_len();
    let is_linear = subject.kind() == classify::Kind::Linear;
    let count = if is_linear { 2_000_000 / rules.len() } else { 200_000 };
    let keys = keys(rules, count, seed);

    let checks = (2_000_000 / rules.len()).min(count);
    if !is_linear {
        // What `linear` does, without the cost of building it by inserts.
        let mut ordered: Vec<&Rule> = rules.iter().collect();
        ordered.sort_by(|a, b| a.precedence(b));
        for key in keys.chunks(key_len).take(checks) {
            let want = ordered.iter().find(|r| r.matches(key)).map(|r| r.id);
            assert_eq!(subject.lookup(key), want, "{}", subject.kind());
        }
    }

    let began = Instant::now();
    for key in keys.chunks(key_len) {
        black_box(subject.lookup(key));
    }
    let single_ns = began.elapsed().as_nanos() as f64 / count as f64;
    let mut out = vec![None; count];
    let began = Instant::now();
    subject.lookup_batch(&keys, &mut out);
    let batch_ns = began.elapsed().as_nanos() as f64 / count as f64;
    let updates = rules.len().min(if is_linear { 200 } else { 50_000 });
    let began = Instant::now();
    for rule in &rules[..updates] {
        black_box(subject.remove(rule.id));
        subject.insert(rule).expect("what was removed fits again");
    }
    let update_ns = began.elapsed().as_nanos() as f64 / (2 * updates) as f64;
    println!(
        "{:<12} {:>7} entries {single_ns:>10.1} ns/lookup {batch_ns:>10.1} batched \
         {build_ns:>8.0} ns/insert {update_ns:>8.0} ns/update {:>6.1} bytes/entry; {}",
        subject.kind().name(),
        rules.len(),
        subject.memory_bytes() as f64 / rules.len() as f64,
        subject.explain(),
    );
}

fn main() {
    let seed = &mut 0x1234_5678_9abc_def1;
    let five = || Layout::new(&[4, 4, 2, 2, 1]).expect("13 bytes are a key");
    let one = || Layout::new(&[4]).expect("4 bytes are a key");
    for n in [1_000, 100_000] {
        println!("five exact fields");
        let rules = exact(n, seed);
        measure(Box::new(Hash::new(five())), &rules, seed);
        measure(Box::new(TupleSpace::new(five())), &rules, seed);
        println!("IPv4 routes");
        let rules = routes(n, seed);
        measure(Box::new(Lpm::new(one(), 0).expect("one field")), &rules, seed);
        measure(Box::new(TupleSpace::new(one())), &rules, seed);
        println!("five fields, 16 masks");
        let rules = ternary(n, seed);
        measure(Box::new(TupleSpace::new(five())), &rules, seed);
        if n == 1_000 {
            measure(Box::new(Linear::new(five())), &rules, seed);
        }
    }
}
