//! Mutated programs through the whole compiler: none may panic or take long.
//!
//!     cargo run --release -p p4 --example mutate -- SECONDS SEED FOLDER...
//!
//! Takes the `.p4` files of the folders, cuts, doubles and swaps pieces of their lines, words and bytes,
//! and prints each program that panicked or took more than two seconds. The seed fixes the sequence. Times
//! are the processor's, so that a busy machine slows no program.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

/// splitmix64 (Steele et al., 2014).
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

fn mutate(text: &str, other: &str, chance: &mut Chance) -> String {
    let split = |t: &str| -> Vec<String> {
        t.split_inclusive([' ', '\n', '(', ';', ',', '<', '.']).map(str::to_string).collect()
    };
    let mut words = split(text);
    let others = split(other);
    for _ in 0..=chance.below(4) {
        if words.is_empty() {
            break;
        }
        let (i, j) = (chance.below(words.len()), chance.below(words.len()));
        match chance.below(6) {
            0 => {
                words.remove(i);
            }
            1 => words.swap(i, j),
            2 => {
                let word = words[j].clone();
                words.insert(i, word);
            }
            3 if !others.is_empty() => words[i] = others[chance.below(others.len())].clone(),
            4 => words.truncate(i),
            _ => {
                let mut bytes = words[i].clone().into_bytes();
                let at = chance.below(bytes.len());
                if let Some(b) = bytes.get_mut(at) {
                    *b = b"0123456789<>(){};.,+-*&|^~!=_ab\"#@"[chance.below(34)];
                }
                words[i] = String::from_utf8_lossy(&bytes).into_owned();
            }
        }
    }
    words.concat()
}

/// Processor time of this process so far, to a hundredth of a second (proc_pid_stat(5), fields 14 and 15).
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        behind.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().and_then(|s| s.parse().ok()).unwrap_or(10);
    let seed: u64 = args.next().and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut texts = Vec::new();
    for folder in args {
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .map(|d| d.flatten().map(|e| e.path()).collect())
            .unwrap_or_default();
        files.retain(|p: &std::path::PathBuf| p.extension().is_some_and(|e| e == "p4"));
        files.sort();
        texts.extend(files.iter().filter_map(|p| std::fs::read_to_string(p).ok()));
    }
    if texts.is_empty() {
        eprintln!("usage: mutate SECONDS SEED FOLDER...");
        std::process::exit(2);
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut chance = Chance(seed);
    let (mut runs, mut bad, mut longest) = (0u64, 0u64, Duration::ZERO);
    while Instant::now() < end {
        let (a, b) = (chance.below(texts.len()), chance.below(texts.len()));
        let text = mutate(&texts[a], &texts[b], &mut chance);
        let start = processor_time();
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| p4::fuzz(text.as_bytes())));
        let took = processor_time() - start;
        longest = longest.max(took);
        runs += 1;
        if result.is_err() || took > Duration::from_secs(2) {
            bad += 1;
            println!(
                "==== {} after {took:.1?}\n{text}",
                if result.is_err() { "panic" } else { "slow" }
            );
        }
    }
    println!("{runs} programs, {bad} panicked or took more than 2 s, longest {longest:.1?}");
    std::process::exit(i32::from(bad > 0));
}
