//! Every fault that can be planted in the code generator ([`mutant`](crate::mutant)) is found by random programs and packets.
//!
//! A fault that nobody finds says that the random differential does not look there: then its programs are to be extended,
//! not the bound.

#[allow(unreachable_pub)]
#[path = "../tests/support/mod.rs"]
mod support;

use crate::Cache;
use crate::mutant::{Mutant, plant};
use ir::testing::{self, Rng};
use ir::{Pipeline, Program, Update};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use support::{Both, Tally, unit};
use testkit::copies;
use testkit::lookups::Lookups;

const ALL: [Mutant; 10] = [
    Mutant::LoadWidth,
    Mutant::ByteOrder,
    Mutant::RangeEnd,
    Mutant::ChecksumDelta,
    Mutant::Mask,
    Mutant::LostCounter,
    Mutant::TimeToLive,
    Mutant::OldCopy,
    Mutant::Slot,
    Mutant::Priority,
];
/// Packets, at most, before a fault must be found: of so many programs, so many each.
const PROGRAMS: u64 = 120;
const PACKETS: usize = 128;
/// Entries of a table that is code, at most.
const DIRECT_MAX: usize = 40;
/// Updates by which programs are filled that come without entries.
const UPDATES: usize = 60;
/// Programs that are run without a fault.
const RIGHT: u64 = 12;

/// A random pipeline, as four generators make them in turn, and packets for it.
fn case(seed: u64) -> (Pipeline, Vec<(u32, Vec<u8>)>) {
    let mut rng = Rng::new(seed ^ 0xface);
    match seed % 4 {
        0 => {
            let frame = |rng: &mut Rng| (rng.below(4) as u32, testing::packet(rng));
            (testing::pipeline(seed), (0..PACKETS).map(|_| frame(&mut rng)).collect())
        }
        1 => {
            let port = |rng: &mut Rng| 1 + rng.below(copies::IN_PORTS as usize) as u32;
            let frame = |rng: &mut Rng| (port(rng), copies::packet(rng).frame());
            let pipeline = ir::text::pipeline(&copies::program(seed)).expect("it is valid");
            (pipeline, (0..PACKETS).map(|_| frame(&mut rng)).collect())
        }
        2 => {
            let mut shaped = testing::shaped(seed);
            let pipeline = filled(shaped.program(), |pipeline| shaped.update(pipeline));
            let mut frame = || {
                let mut bytes = Vec::new();
                (shaped.packet(&mut bytes), bytes)
            };
            (pipeline, (0..PACKETS).map(|_| frame()).collect())
        }
        _ => {
            let mut lookups = Lookups::new(seed);
            let pipeline = filled(lookups.program(), |pipeline| lookups.update(pipeline));
            (pipeline, (0..PACKETS).map(|_| (1, lookups.packet())).collect())
        }
    }
}

/// A pipeline with what updates put there.
fn filled(program: Arc<Program>, mut update: impl FnMut(&Pipeline) -> Update) -> Pipeline {
    let mut pipeline = Pipeline::new(program).expect("it is valid");
    for _ in 0..UPDATES {
        let update = update(&pipeline);
        // One that is refused is not in it.
        let _ = pipeline.transact(&[update]);
    }
    pipeline
}

/// Packets of one random program, until code and interpreter differ.
fn run(seed: u64, packets: &mut u64) -> bool {
    let (pipeline, frames) = case(seed);
    // Half of the programs with small tables that are code, half with tables that are looked up.
    let direct = (seed / 4).is_multiple_of(2);
    let bail = opt::Bail { services: false, copies: false, groups: false, ..opt::Bail::ALL };
    let options = opt::Options { bail, ..opt::Options::default() };
    let unit = unit(&pipeline, &options, &|entries| direct && entries <= DIRECT_MAX);
    let mut cache = Cache::new();
    let mut both = Both::new(&pipeline, &unit, &mut cache);
    let mut tally = Tally::default();
    frames.chunks(32).all(|burst| {
        *packets += burst.len() as u64;
        let compared = || both.burst(burst, 5, &mut tally, &format!("seed {seed}"));
        catch_unwind(AssertUnwindSafe(compared)).is_ok()
    })
}

#[test]
fn without_a_fault_nothing_differs() {
    let mut packets = 0;
    assert!((0..RIGHT).all(|seed| run(seed, &mut packets)));
    assert_eq!(packets, RIGHT * PACKETS as u64);
}

#[test]
fn every_fault_is_found() {
    let mut lost = Vec::new();
    for mutant in ALL {
        plant(Some(mutant));
        let mut packets = 0;
        let found = (0..PROGRAMS).find(|seed| !run(*seed, &mut packets));
        plant(None);
        match found {
            Some(seed) => println!("{mutant:?} is found by program {seed}, packet {packets}"),
            None => lost.push(mutant),
        }
    }
    assert!(lost.is_empty(), "not found in {PROGRAMS} programs: {lost:?}");
}
