//! Engines against the interpreter on the plain pipeline: random programs, entries, updates, packets.
//!
//! A difference is made small and printed as a `.mill` test file. The release example `differential`
//! does the same for as long as one likes.

mod harness;
mod wrong;

use harness::Subject;
use harness::case::Case;
use harness::print::mill;
use harness::race::race;
use harness::run::{Buffers, Mismatch, Stats, run};
use harness::shrink::shrink;
use harness::source::{Kind, Source};
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
    assert!(shaped.forwarded * 3 > shaped.packets, "too few packets get through to tell");
    assert!(shaped.matches * 2 > shaped.lookups, "too few lookups match to tell");
    assert!(lookups.matches * 3 > lookups.lookups);
    assert!(any.packets > 0 && shaped.refused > 0);
}

#[test]
fn updates_beside_forwarding_are_whole() {
    let subject = Subject::interp();
    let mut buffers = Buffers::default();
    let mut total = Stats::default();
    for seed in 0..30 {
        let case = Source::new(Kind::of(seed), 7000 + seed).case(400);
        match race(&case, &subject, &mut buffers) {
            Ok(stats) => total.add(&stats),
            Err(found) => report(&found.0, &found.1, &subject, "updates beside forwarding"),
        }
    }
    assert!(total.packets >= 30 * 400);
}
