//! Registers, meters, counter arrays, random numbers, punts and digests in code, against the interpreter. What packets are
//! answered depends on the order in which they come.

#[path = "../../opt/tests/common/flows.rs"]
#[allow(dead_code)] // the rest serves other tests
mod flows;
#[allow(unreachable_pub)]
mod support;

use ir::testing::Rng;
use jit::Cache;
use support::{Both, Tally, part, parts, unit};

const HEAD: &str = "\
use std
meta a: 8
meta b: 32
meta w: 200
register seen: 8, 4
register wide: 200, 3
register bit: 1, 5
counter hits: 6
digest learn(mac: 48, number: 32)
digest again(about: 48, number: 32)
action tell(number: 8) { digest learn(eth.src, cast(32, number)); count hits(cast(32, number)) }
table t { key std.in_port exact; actions x y z; default x }
table u { key a ternary; actions z y; default z }
block start { apply t hit next miss next }
block next { apply u hit over miss over }
block over { output 4; end }
";

const ENTRIES: &str = "
entry t 1 => x
entry t 2 => y
entry t 3 => z
entry u 1 &&& 1 priority=2 => y
group 1 all {
  bucket => tell(3)
  bucket => tell(4)
}
";

/// What asks or changes state.
const ASKS: [&str; 11] = [
    "a = read seen(std.in_port)",
    "write seen(std.in_port) = a + 1",
    "ipv4.ttl = read seen(1)",
    "w = read wide(cast(32, a & 3))",
    "write wide(cast(32, a & 3)) = w + cast(200, ipv4.src)",
    "write bit(std.in_port) = 1",
    "meter std.in_port -> a, ipv4.ttl",
    "meter b -> a, a",
    "b = random(3, 900)",
    "ipv4.ttl = random(1, ipv4.ttl)",
    "w = random(0, w)",
];

/// What is told the control side, or only counted.
const TELLS: [&str; 7] = [
    "punt action(b, a)",
    "punt table_miss",
    "group 1",
    "digest learn(eth.src, b)",
    "digest again(cast(48, std.in_port), b) once 1",
    "count hits(std.in_port)",
    "count hits(b)",
];

/// What may stand around.
const OTHERS: [&str; 8] = [
    "ipv4.ttl = ipv4.ttl - 1",
    "ipv4.dst = 10.9.8.7",
    "output 7",
    "output b",
    "b = b + 1",
    "on_copy { output 5; ipv4.ttl = 9; output 6; punt action(a) }",
    "vlan.last.vid = 5",
    "truncate 60",
];

fn statement(rng: &mut Rng, asks: bool, depth: usize) -> String {
    match rng.below(12) {
        0..=3 if asks => rng.pick(&ASKS).to_owned(),
        0..=6 => rng.pick(&TELLS).to_owned(),
        7 if depth > 0 => {
            let condition = rng.pick(&["a & 1 == 1", "valid(ipv4)", "std.in_port == 2"]);
            let (then, or_else) = (body(rng, asks, depth - 1, 2), body(rng, asks, depth - 1, 2));
            format!("if {condition} {{ {then} }} else {{ {or_else} }}")
        }
        // The packet is left to whoever runs it from the start, behind what it has done.
        8 if rng.one_in(4) => "if a & 7 == 3 { resubmit }".to_owned(),
        9 if rng.one_in(3) => rng.pick(&["drop", "exit", "drop meter_drop"]).to_owned(),
        _ => rng.pick(&OTHERS).to_owned(),
    }
}

fn body(rng: &mut Rng, asks: bool, depth: usize, most: usize) -> String {
    let n = rng.below(most + 1);
    (0..n).map(|_| statement(rng, asks, depth)).collect::<Vec<_>>().join("; ")
}

fn frames(rng: &mut Rng, n: usize) -> Vec<(u32, Vec<u8>)> {
    let all = flows::frames();
    let one = |rng: &mut Rng| {
        let mut bytes = rng.pick(&all);
        if rng.one_in(6) {
            bytes.truncate(rng.below(bytes.len()));
        }
        (1 + rng.below(5) as u32, bytes)
    };
    (0..n).map(|_| one(rng)).collect()
}

/// Compiled several ways, each packet alone and in bursts.
fn check(text: &str, rng: &mut Rng, cache: &mut Cache, what: &str) -> Tally {
    let pipeline = ir::text::pipeline(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let bail = opt::Bail { services: false, copies: false, groups: false, ..opt::Bail::ALL };
    let frames = frames(rng, 96);
    let mut tally = Tally::default();
    for (options, direct) in [
        (opt::Options::none(), false),
        (opt::Options { bail, ..opt::Options::default() }, false),
        (opt::Options { bail, ..opt::Options::default() }, true),
    ] {
        let unit = unit(&pipeline, &options, &|_| direct);
        let mut both = Both::new(&pipeline, &unit, cache);
        for burst in frames.chunks(32) {
            both.burst(burst, 5, &mut tally, what);
        }
        both.held = 0x0f33_5555;
        for burst in frames.chunks(32) {
            both.burst(burst, 5, &mut tally, what);
        }
        both.held = 0;
        for frame in frames.iter().take(8) {
            both.burst(std::slice::from_ref(frame), 7, &mut tally, what);
        }
    }
    tally
}

#[test]
fn every_operation_is_code() {
    let mut rng = Rng::new(3);
    let mut cache = Cache::new();
    for op in ASKS.into_iter().chain(TELLS) {
        let text = format!(
            "{HEAD}action x {{ {op} }}\naction y {{ output 2; {op}; ipv4.dst = 10.0.0.1; {op} }}\n\
             action z {{ if a & 1 == 0 {{ {op} }}; a = a + 1 }}\n{ENTRIES}"
        );
        let tally = check(&text, &mut rng, &mut cache, op);
        // Headers that are cut short, and what comes behind such a packet.
        let behind = "a packet before it is not run by code";
        let other = |reason: &&String| !reason.ends_with("cut short") && *reason != behind;
        let others: Vec<&String> = tally.reasons.keys().filter(other).collect();
        assert!(
            others.is_empty() && tally.native > 150,
            "{op}: {} native, {others:?}",
            tally.native
        );
    }
}

fn random(asks: bool, seeds: std::ops::Range<u64>) -> Tally {
    let (mut cache, mut tally) = (Cache::new(), Tally::default());
    for seed in seeds {
        let mut rng = Rng::new(seed ^ 0x57a7e);
        let mut text = HEAD.to_owned();
        for action in ["x", "y", "z"] {
            let body = body(&mut rng, asks, 2, 6);
            text.push_str(&format!("action {action} {{ {body} }}\n"));
        }
        text.push_str(ENTRIES);
        tally.add(check(&text, &mut rng, &mut cache, &format!("seed {seed}")));
    }
    tally
}

#[test]
fn random_programs_with_state() {
    let tally = random(true, part(0..60));
    tally.print("with state");
    assert!(
        tally.share() > 0.3 && tally.told > 2_000 / parts(),
        "{} {}",
        tally.share(),
        tally.told
    );
}

#[test]
fn random_programs_that_tell() {
    let tally = random(false, part(0..60));
    tally.print("that tell");
    assert!(
        tally.share() > 0.5 && tally.told > 5_000 / parts(),
        "{} {}",
        tally.share(),
        tally.told
    );
}
