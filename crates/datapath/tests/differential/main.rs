//! Engines against the interpreter on the plain pipeline: random programs, entries, updates, packets.
//!
//! A difference is made small and printed as a `.mill` test file. The release example `differential`
//! does the same for as long as one likes.

mod harness;
mod wrong;

use harness::Subject;
use harness::case::Case;
use harness::fuzz;
use harness::print::mill;
use harness::race::race;
use harness::run::{Buffers, Mismatch, Stats, run};
use harness::shrink::shrink;
use harness::source::{Kind, Source};
use ir::testing::Rng;
use std::time::Duration;

/// Fails with the file that shows the mismatch.
fn report(case: &Case, mismatch: &Mismatch, subject: &Subject, head: &str) -> ! {
    let mut buffers = Buffers::default();
    let (small, how) = shrink(case, mismatch, Duration::from_secs(10), &mut |case| {
        run(case, subject, &mut buffers).err()
    });
    panic!("{head}\n{}", mill(&small, &how, &subject.name, head));
}

fn hold(subject: &Subject, kind: Kind, seeds: std::ops::Range<u64>, packets: usize) -> Stats {
    let mut buffers = Buffers::default();
    let mut total = Stats::default();
    for seed in seeds {
        let case = Source::new(kind, seed).case(packets);
        match run(&case, subject, &mut buffers) {
            Ok(stats) => total.add(&stats),
            Err(how) => {
                let head = format!("{} differs: {} {seed}", subject.name, kind.word());
                report(&case, &how, subject, &head);
            }
        }
    }
    println!("{} {}: {total:?}", subject.name, kind.word());
    total
}

#[test]
fn the_interpreter_engine_agrees() {
    let subject = Subject::interp();
    let shaped = hold(&subject, Kind::Shaped, 0..150, 150);
    let lookups = hold(&subject, Kind::Lookups, 0..60, 100);
    let any = hold(&subject, Kind::Any, 0..150, 60);
    let p4 = hold(&subject, Kind::P4, 0..60, 100);
    assert!(shaped.forwarded * 3 > shaped.packets, "too few packets get through to tell");
    assert!(shaped.matches * 2 > shaped.lookups, "too few lookups match to tell");
    assert!(lookups.matches * 3 > lookups.lookups);
    assert!(p4.matches * 4 > p4.lookups && p4.forwarded * 4 > p4.packets, "{p4:?}");
    assert!(any.packets > 0 && shaped.refused > 0);
}

#[test]
fn compiled_code_agrees_in_every_way() {
    let mut copied = 0;
    for (i, subject) in (0..).zip(Subject::compiled()) {
        let from = 1000 + 20 * i;
        let shaped = hold(&subject, Kind::Shaped, from..from + 16, 150);
        assert!(shaped.bails.values().sum::<u64>() < shaped.packets, "all is left: {shaped:?}");
        copied += shaped.copied;
        hold(&subject, Kind::Lookups, from..from + 6, 100);
        hold(&subject, Kind::Any, from..from + 6, 100);
        hold(&subject, Kind::P4, from..from + 8, 100);
    }
    assert!(copied > 500, "{copied} packets had copies that differ, or many");
}

fn race_all(subject: &Subject, seeds: std::ops::Range<u64>) {
    let mut buffers = Buffers::default();
    let mut total = Stats::default();
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let case = Source::new(Kind::of(seed), 7000 + seed).case(400);
        match race(&case, subject, &mut buffers) {
            Ok(stats) => total.add(&stats),
            Err(found) => report(&found.0, &found.1, subject, "updates beside forwarding"),
        }
    }
    assert!(total.packets >= count * 400);
}

#[test]
fn updates_beside_forwarding_are_whole() {
    race_all(&Subject::interp(), 0..30);
    Subject::compiled().iter().take(2).for_each(|subject| race_all(subject, 30..33));
}

#[test]
fn the_fuzz_target_takes_any_bytes() {
    let mut rng = Rng::new(1);
    (0..4).for_each(|len| fuzz(&vec![0; 3 * len]));
    for _ in 0..12 {
        let bytes: Vec<u8> = (0..rng.below(400)).map(|_| rng.next_u64() as u8).collect();
        fuzz(&bytes);
    }
}

/// A table is cleared and filled again, then rearranged: what was made of one replica's rules serves the other.
#[test]
fn a_cleared_table_is_rearranged_for_both_replicas() {
    let later = Subject::compiled().into_iter().find(|s| s.name == "jit(later)");
    hold(&later.expect("it is one of the ways"), Kind::Lookups, 395..405, 1000);
}
