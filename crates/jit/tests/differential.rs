//! Generated code against the interpreter: random programs, random packets.

#[allow(unreachable_pub)]
mod support;

use ir::testing::{self, Rng};
use jit::Cache;
use support::{Both, Tally, Way, unit};

/// Random pipelines from this seed on, each compiled several ways.
fn random(seeds: std::ops::Range<u64>, packets: usize, tally: &mut Tally) {
    let mut cache = Cache::new();
    for seed in seeds {
        let pipeline = testing::pipeline(seed);
        let mut rng = Rng::new(seed ^ 0xface);
        // Calls of services are compiled.
        let bail = opt::Bail { services: false, ..opt::Bail::ALL };
        let ways: [Way<'_>; 4] = [
            ("phased, not optimised", opt::Options::none(), &|_| false),
            ("direct, not optimised", opt::Options::none(), &|_| true),
            ("phased", opt::Options::default(), &|_| false),
            ("small ones direct", opt::Options { bail, ..opt::Options::default() }, &|n| n < 3),
        ];
        for (what, options, direct) in ways {
            let unit = unit(&pipeline, &options, direct);
            let mut both = Both::new(&pipeline, &unit, &mut cache);
            let what = format!("seed {seed}, {what}");
            let frames: Vec<(u32, Vec<u8>)> =
                (0..packets).map(|_| (rng.below(4) as u32, testing::packet(&mut rng))).collect();
            for burst in frames.chunks(32) {
                both.burst(burst, 1 + rng.next_u64() % 1000, tally, &what);
            }
            for frame in frames.iter().take(20) {
                both.burst(std::slice::from_ref(frame), 7, tally, &what);
            }
        }
    }
}

#[test]
fn random_programs() {
    let mut tally = Tally::default();
    random(0..60, 150, &mut tally);
    tally.print("random programs");
    assert!(tally.share() > 0.3, "only {:.1} % ran natively", 100.0 * tally.share());
}

/// `JIT_SEEDS=1000..2000 cargo test -p jit --release --test differential -- --ignored`
#[test]
#[ignore = "as many seeds as one likes; the test above takes some of them"]
fn many_random_programs() {
    let seeds = std::env::var("JIT_SEEDS").unwrap_or_else(|_| "1000..2000".to_owned());
    let (from, to) = seeds.split_once("..").expect("a range");
    let number = |s: &str| s.parse::<u64>().expect("a number");
    let mut tally = Tally::default();
    random(number(from)..number(to), 200, &mut tally);
    tally.print("random programs");
}
