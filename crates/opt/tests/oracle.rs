//! Random pipelines: the interpreter gives the same on the program and on what passes made of it.
//!
//! `OPT_ORACLE_SEEDS` and `OPT_ORACLE_FROM` run more of them, from another seed on.

mod common;

use common::check;
use ir::testing::{Rng, packet, pipeline, update};
use opt::{Bail, Options, contents};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

fn packets(rng: &mut Rng, n: usize) -> Vec<(u32, Vec<u8>)> {
    (0..n).map(|_| (rng.below(4) as u32, packet(rng))).collect()
}

/// All passes, one of them off, only some of them, with and without bailing out.
fn options(rng: &mut Rng) -> Options {
    let mut options = Options::default();
    match rng.below(4) {
        0 => {
            options.set(rng.pick(Options::PASSES), false);
        }
        1 => {
            for pass in &Options::PASSES[1..] {
                options.set(pass, rng.one_in(2));
            }
        }
        _ => {}
    }
    if rng.one_in(2) {
        let mut bit = || rng.one_in(2);
        options.bail = Bail {
            groups: bit(),
            clones: bit(),
            reparses: bit(),
            passes: bit(),
            calls: bit(),
            copies: bit(),
            services: bit(),
            copied_services: bit(),
        };
    }
    options
}

#[test]
fn random_pipelines_do_the_same() {
    let from = number("OPT_ORACLE_FROM", 0);
    for seed in from..from + number("OPT_ORACLE_SEEDS", 2500) {
        let mut rng = Rng::new(seed ^ 0x0b7);
        let mut pipeline = pipeline(seed);
        for version in 0..2 {
            let what = format!("seed {seed}, version {version}");
            let packets = packets(&mut rng, 12);
            let summary = contents(&pipeline);
            check(&pipeline, &summary, Options::default(), &packets, &what);
            let mut some = options(&mut rng);
            // A packet parsed again leaves no trace where there is no parser.
            some.bail.reparses &= !pipeline.program().parser.is_empty();
            check(&pipeline, &summary, some, &packets, &what);
            for _ in 0..6 {
                let update = update(&pipeline, &mut rng);
                let _ = pipeline.transact(&[update]);
            }
        }
    }
}

#[test]
fn without_passes_nothing_changes() {
    for seed in 0..50 {
        let pipeline = pipeline(seed);
        let same = opt::optimise(pipeline.program(), &contents(&pipeline), &Options::none());
        assert_eq!(same.program, **pipeline.program());
        assert!(same.tables.iter().all(Option::is_some) && same.notes.is_empty());
    }
}

#[test]
fn passes_have_names() {
    let mut options = Options::default();
    for pass in Options::PASSES {
        assert!(options.set(pass, false), "{pass}");
    }
    assert_eq!(options, Options::none());
    assert!(!options.set("no_such_pass", true));
}
