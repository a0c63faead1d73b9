//! Generated code against the interpreter: random programs, random packets.

#[allow(unreachable_pub)]
mod support;

use ir::testing::{self, Rng};
use ir::{Expr, Op, Pipeline, Program};
use jit::Cache;
use std::sync::Arc;
use support::{Both, Tally, Way, part, parts, unit};
use testkit::copies;

/// Random pipelines from this seed on, each compiled several ways.
fn random(seeds: std::ops::Range<u64>, packets: usize, tally: &mut Tally) {
    every(seeds, packets, tally, &testing::pipeline);
}

fn every(
    seeds: std::ops::Range<u64>,
    packets: usize,
    tally: &mut Tally,
    pipeline: &dyn Fn(u64) -> Pipeline,
) {
    let mut cache = Cache::new();
    for seed in seeds {
        let pipeline = pipeline(seed);
        let mut rng = Rng::new(seed ^ 0xface);
        // Calls of services are compiled.
        let bail = opt::Bail { services: false, copies: false, groups: false, ..opt::Bail::ALL };
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
    random(part(0..60), 150, &mut tally);
    tally.print("random programs");
    assert!(tally.share() > 0.3, "only {:.1} % ran natively", 100.0 * tally.share());
}

/// Outputs, cuts and copies in place of most operations that are not compiled.
fn outputs_among(ops: &mut Vec<Op>, rng: &mut Rng, groups: bool) {
    for op in ops.iter_mut() {
        match op {
            Op::If { then, or_else, .. } => {
                outputs_among(then, rng, groups);
                outputs_among(or_else, rng, groups);
            }
            // It makes no copies.
            Op::Loop { body, .. } => body.retain(|op| matches!(op, Op::Assign(..))),
            Op::OnCopy { body } => outputs_among(body, rng, groups),
            Op::Group { .. } | Op::PortIs { .. } if groups => {}
            Op::Reparse
            | Op::Group { .. }
            | Op::Clone { .. }
            | Op::Call { .. }
            | Op::Resubmit { .. }
            | Op::Recirculate { .. }
            | Op::Punt { .. }
            | Op::Digest { .. }
            | Op::Meter { .. }
            | Op::Count { .. }
            | Op::RegisterRead { .. }
            | Op::RegisterWrite { .. }
            | Op::Random { .. }
            | Op::PortIs { .. }
            | Op::CopyVarbit { .. }
            | Op::PayloadSum { .. }
            | Op::PayloadHash { .. } => {
                let port = Expr::int(rng.below(9) as u128, 32);
                *op = match rng.below(8) {
                    2..=4 if groups => Op::Group { group: Expr::int(rng.below(6) as u128, 32) },
                    0 => Op::Truncate { length: Expr::int(rng.below(40) as u128, 32) },
                    1 => Op::OnCopy { body: vec![Op::Output { port }] },
                    _ => Op::Output { port },
                };
            }
            _ => {}
        }
    }
    // Several in a row, now and then more than lie in a packet's line.
    if rng.one_in(4)
        && let Some(at) = ops.iter().position(|op| matches!(op, Op::Output { .. }))
    {
        let more = ops[at].clone();
        (0..rng.below(5)).for_each(|_| ops.insert(at, more.clone()));
    }
}

/// A random pipeline that outputs much, all headers of which are of whole bytes.
fn pipeline_of_copies(seed: u64) -> Pipeline {
    pipeline_of(seed, false)
}

/// The same, with groups among outputs.
fn pipeline_of_groups(seed: u64) -> Pipeline {
    pipeline_of(seed, true)
}

fn pipeline_of(seed: u64, groups: bool) -> Pipeline {
    let whole = |program: &Program| {
        let types = program.headers.iter().map(|h| &program.header_types[h.header_type.index()]);
        types
            .clone()
            .all(|ty| ty.fixed_width().is_multiple_of(8) && !ty.fields.iter().any(|f| f.varbit))
    };
    let mut programs = (0..).map(|n| testing::program(seed << 20 | n));
    let mut program = programs.find(whole).expect("some program is like that");
    let mut rng = Rng::new(seed ^ 0xc0b1e5);
    program.blocks.iter_mut().for_each(|block| outputs_among(&mut block.ops, &mut rng, groups));
    for action in &mut program.actions {
        outputs_among(&mut Arc::make_mut(action).body, &mut rng, groups);
    }
    let mut pipeline = Pipeline::new(Arc::new(program)).expect("it obeys the verifier as before");
    for _ in 0..rng.below(if groups { 200 } else { 40 }) {
        let update = testing::update(&pipeline, &mut rng);
        // An update that the pipeline refuses is not in it.
        let _ = pipeline.transact(&[update]);
    }
    pipeline
}

#[test]
fn random_copies() {
    let mut tally = Tally::default();
    every(part(0..120), 100, &mut tally, &pipeline_of_copies);
    // A loop of no round, behind which nothing is known, in a program in which no header ever moves.
    every(4402..4403, 100, &mut tally, &pipeline_of_copies);
    tally.print("random copies");
    assert!(tally.share() > 0.5, "only {:.1} % ran natively", 100.0 * tally.share());
    assert!(
        tally.laid > 10_000 / parts() && tally.many > 500 / parts(),
        "{} {}",
        tally.laid,
        tally.many
    );
}

#[test]
fn random_groups() {
    let mut tally = Tally::default();
    every(part(0..150), 100, &mut tally, &pipeline_of_groups);
    tally.print("random groups");
    assert!(tally.share() > 0.5, "only {:.1} % ran natively", 100.0 * tally.share());
    assert!(
        tally.laid > 1000 / parts() && tally.many > 100 / parts(),
        "{} {}",
        tally.laid,
        tally.many
    );
}

/// Frames of every kind that a program of [`copies`] looks at, some cut short.
fn frames_of_copies(rng: &mut Rng, n: usize) -> Vec<(u32, Vec<u8>)> {
    let one = |rng: &mut Rng| {
        let mut bytes = copies::packet(rng).frame();
        if rng.one_in(8) {
            bytes.truncate(rng.below(bytes.len()));
        }
        (1 + rng.below(copies::IN_PORTS as usize) as u32, bytes)
    };
    (0..n).map(|_| one(rng)).collect()
}

fn changing(seeds: std::ops::Range<u64>, packets: usize, tally: &mut Tally) {
    changed(seeds.map(|seed| (seed, copies::program(seed))), packets, tally);
}

fn changed(programs: impl Iterator<Item = (u64, String)>, packets: usize, tally: &mut Tally) {
    let mut cache = Cache::new();
    for (seed, text) in programs {
        let pipeline = ir::text::pipeline(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let mut rng = Rng::new(seed ^ 0xface);
        let frames = frames_of_copies(&mut rng, packets);
        let bail = opt::Bail { services: false, copies: false, groups: false, ..opt::Bail::ALL };
        let ways: [Way<'_>; 3] = [
            ("phased, not optimised", opt::Options::none(), &|_| false),
            ("phased", opt::Options { bail, ..opt::Options::default() }, &|_| false),
            ("direct", opt::Options { bail, ..opt::Options::default() }, &|_| true),
        ];
        for (what, options, direct) in ways {
            let unit = unit(&pipeline, &options, direct);
            let mut both = Both::new(&pipeline, &unit, &mut cache);
            for burst in frames.chunks(64) {
                both.burst(burst, 5, tally, &format!("seed {seed}, {what}: {text}"));
            }
        }
    }
}

/// What packets keep while they wait for the second table: actions of the first one, and what the second one's does.
#[test]
fn copies_wait_for_tables() {
    let bodies = [
        // Nothing is written, but what lies in front of the rest.
        ("output 1; pop vlan 1", "output 2"),
        ("output 1; set_invalid udp", "output 2"),
        ("on_copy { output 1 }", ""),
        ("on_copy { eth.src = 5; output 1 }", "output 2"),
        ("on_copy { drop }", ""),
        ("on_copy { drop checksum_bad }; on_copy { drop }", "on_copy { drop }"),
        ("truncate 30", "output 1"),
        ("output 1; truncate 30; if ipv4.dst & 1 == 1 { truncate 20 }", "output 2; ipv4.ttl = 3"),
        ("if ipv4.dst & 1 == 1 { output 1; ipv4.ttl = ipv4.ttl - 1 }", "output 2"),
        ("if ipv4.dst & 1 == 1 { output 1; ipv4.ttl = 3; output 2 }", "ipv4.src = 10.0.0.1"),
        (
            "output 1; output 2; output 3; if ipv4.dst & 1 == 1 { output 4 }",
            "eth.src = 1; output 5",
        ),
    ];
    let program = |(first, second): (&str, &str)| {
        let (first, second) = (first.to_owned(), second.to_owned());
        format!(
            "use std\ntable t {{ key std.in_port exact; actions a; default a }}\n\
             table u {{ key eth.dst exact; actions b; default b }}\n\
             block first {{ apply t hit next miss next }}\n\
             block next {{ apply u hit over miss over }}\nblock over {{ end }}\n\
             action a {{ {first} }}\naction b {{ {second} }}\n\
             entry t 1 => a\nentry u 02:00:00:00:00:01 => b\n"
        )
    };
    let mut tally = Tally::default();
    changed((0..).zip(bodies.into_iter().map(program)), 128, &mut tally);
    tally.print("copies that wait");
    // Of checksums that cover what came or went, the interpreter is asked.
    assert!(tally.share() > 0.9 && tally.reasons.len() == 1, "{:?}", tally.reasons);
}

/// Packets that change on the way from one port to the next, checksums and tags included.
#[test]
fn random_changes_between_outputs() {
    let mut tally = Tally::default();
    changing(part(0..16), 200, &mut tally);
    tally.print("changes between outputs");
    assert!(tally.share() > 0.9, "only {:.1} % ran natively", 100.0 * tally.share());
    assert!(
        tally.laid > 10_000 / parts() && tally.many > 1000 / parts(),
        "{} {}",
        tally.laid,
        tally.many
    );
}

const CHOOSER: &str = "\
meta way: 8
type h { a: 8; b: 16; c: 3; d: 13 }
header h: h
state start { extract h; select h.a, h.b, h.d { CASES } }
state one { way = 1; accept }
state two { way = 2; accept }
state three { way = h.a + 3; accept }
deparser h
action tell { h.c = cast(3, way); output 1 }
table t { key way exact; default tell }
";

/// Cases of a choice, many of which demand the same of some keys: each is taken where it is the first that matches.
#[test]
fn choices_of_parsers() {
    let (a, b) = (["_", "1", "2", "0 &&& 1", "1..2"], ["_", "0", "0x100 &&& 0xff00", "0x101"]);
    let d = ["_", "0", "0x100 &&& 0x1f00", "3 &&& 3", "0x101"];
    let to = ["one", "two", "three", "accept", "reject"];
    let (mut rng, mut tally, mut cache) = (Rng::new(11), Tally::default(), Cache::new());
    for seed in part(0..60) {
        let mut last = ["_"; 3];
        let mut case = |_| {
            for (key, all) in last.iter_mut().zip([&a[..], &b, &d]) {
                if rng.one_in(2) {
                    *key = rng.pick(all);
                }
            }
            format!("{} => {}", last.join(", "), rng.pick(&to))
        };
        let cases: Vec<String> = (0..7).map(&mut case).collect();
        let text = CHOOSER.replace("CASES", &cases.join("; "));
        let pipeline = ir::text::pipeline(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let frame = |rng: &mut Rng| {
            let bytes = [0, 1, 2, 3].map(|_| rng.pick(&[0u8, 0, 1, 1, 3]));
            let first = rng.below(4) as u8;
            let mut frame = [&[first][..], &bytes, &[7; 3]].concat();
            frame[3] |= rng.below(8) as u8 * 32;
            frame.truncate(if rng.one_in(9) { rng.below(8) } else { 8 });
            (1, frame)
        };
        let frames: Vec<(u32, Vec<u8>)> = (0..256).map(|_| frame(&mut rng)).collect();
        for options in [opt::Options::none(), opt::Options::default()] {
            let unit = unit(&pipeline, &options, &|_| true);
            let mut both = Both::new(&pipeline, &unit, &mut cache);
            for burst in frames.chunks(32) {
                both.burst(burst, 1, &mut tally, &format!("seed {seed}: {text}"));
            }
        }
    }
    tally.print("choices of parsers");
    assert!(tally.share() > 0.7, "only {:.1} % ran natively", 100.0 * tally.share());
}

/// `JIT_SEEDS=1000..2000 cargo test -p jit --release --test differential -- --ignored`
#[test]
#[ignore = "as many seeds as one likes; the test above takes some of them"]
fn many_random_programs() {
    let seeds = std::env::var("JIT_SEEDS").unwrap_or_else(|_| "1000..2000".to_owned());
    let (from, to) = seeds.split_once("..").expect("a range");
    let number = |s: &str| s.parse::<u64>().expect("a number");
    let mut tally = Tally::default();
    let seeds = number(from)..number(to);
    random(seeds.clone(), 200, &mut tally);
    tally.print("random programs");
    let mut tally = Tally::default();
    every(seeds.clone(), 200, &mut tally, &pipeline_of_copies);
    tally.print("random copies");
    let mut tally = Tally::default();
    changing(seeds, 200, &mut tally);
    tally.print("changes between outputs");
}
