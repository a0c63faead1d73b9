//! Generated code against the interpreter: calls of services behind changes of the packet.
//!
//! Services here answer by the octets that they are shown, so a packet that is shown as it should not be goes elsewhere.

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
service looks(to: 32, n: 8) -> (class: 8, port: 32)
service edits(to: 32) -> (class: 8) edits
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
";

const CHANGES: [&str; 9] = [
    "ipv4.ttl = ipv4.ttl - 1",
    "ipv4.dst = 10.9.8.7",
    "eth.src = eth.dst",
    "tcp.dport = tcp.sport",
    "udp.dport = udp.sport",
    "ipv6.ttl = ipv6.ttl - 1",
    "ipv4.ttl = cast(8, b)",
    "vlan.last.vid = 5",
    "udp.checksum = 0",
];

/// What is neither a change nor the end: calls, and choices by what they answered.
fn statement(rng: &mut Rng, depth: usize) -> String {
    match rng.below(12) {
        0..=4 => rng.pick(&CHANGES).to_owned(),
        5 => "service looks(ipv4.dst, ipv4.ttl) -> a, b".to_owned(),
        6 => "service looks(b, a) -> a".to_owned(),
        7 => "service looks(0, 1)".to_owned(),
        8 if rng.one_in(2) => "service edits(ipv4.dst) -> a".to_owned(),
        9 if depth > 0 => {
            let condition = rng.pick(&["a & 1 == 1", "valid(ipv4)", "std.in_port == 2"]);
            let (then, or_else) = (body(rng, depth - 1, 2), body(rng, depth - 1, 2));
            format!("if {condition} {{ {then} }} else {{ {or_else} }}")
        }
        10 => "a = a + ipv4.ttl".to_owned(),
        // The packet goes to the interpreter, behind a call perhaps.
        11 if rng.one_in(3) => "if a & 7 == 3 { punt action(std.in_port) }".to_owned(),
        _ => "b = b ^ ipv4.src".to_owned(),
    }
}

fn body(rng: &mut Rng, depth: usize, most: usize) -> String {
    let n = rng.below(most + 1);
    (0..n).map(|_| statement(rng, depth)).collect::<Vec<_>>().join("; ")
}

fn frames(rng: &mut Rng, n: usize) -> Vec<(u32, Vec<u8>)> {
    let all = flows::frames();
    let one = |rng: &mut Rng| {
        let mut bytes = rng.pick(&all);
        if rng.one_in(6) {
            bytes.truncate(rng.below(bytes.len()));
        }
        (1 + rng.below(3) as u32, bytes)
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
        for frame in frames.iter().take(8) {
            both.burst(std::slice::from_ref(frame), 7, &mut tally, what);
        }
    }
    tally
}

#[test]
fn services_see_a_changed_packet_as_it_would_leave() {
    let mut rng = Rng::new(3);
    let actions = "
action x { ipv4.ttl = ipv4.ttl - 1; service looks(ipv4.dst, ipv4.ttl) -> a, b }
action y { eth.src = eth.dst; service looks(b, a) -> a; ipv4.ttl = ipv4.ttl - 1 }
action z { ipv4.dst = 10.9.8.7; service edits(ipv4.dst) -> a; tcp.dport = 7; service looks(b, a) }
";
    let text = format!("{HEAD}{actions}{ENTRIES}");
    let tally = check(&text, &mut rng, &mut Cache::new(), "by hand");
    tally.print("by hand");
    // What is left are headers that are cut short.
    assert!(tally.changed > 100 && tally.share() > 0.9, "{:.1} % native", 100.0 * tally.share());
}

/// Answers one packet in two.
struct Forgetful;

impl jit::Services for Forgetful {
    fn call(&mut self, _: ir::ServiceId, packets: &mut [jit::Handed<'_>]) {
        for packet in packets.iter_mut().filter(|packet| packet.packet % 2 == 0) {
            packet.results.fill(0);
        }
    }
}

impl jit::State for Forgetful {
    fn count(&mut self, _: u32, _: u32, _: u32) {}
    fn meter(&mut self, _: ir::MeterId, _: u32) -> interp::Color {
        interp::Color::default()
    }
    fn read_register(&mut self, _: ir::RegisterId, _: u32, _: &mut [u64]) {}
    fn write_register(&mut self, _: ir::RegisterId, _: u32, _: &[u64]) {}
    fn random(&mut self, _: usize, lo: &ir::Bits, _: &ir::Bits) -> ir::Bits {
        lo.clone()
    }
    fn holds_back(&mut self, _: usize, _: bool) -> bool {
        false
    }
    fn is_repeat(&mut self, _: &jit::Repeatable<'_>) -> bool {
        false
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "service looks left an answer out")]
fn a_service_that_leaves_an_answer_out_is_found() {
    let actions = "
action x { service looks(ipv4.dst, ipv4.ttl) -> a; output 2 }
action y { output 3 }
action z { output 3 }
";
    let pipeline = ir::text::pipeline(&format!("{HEAD}{actions}{ENTRIES}")).unwrap();
    let unit = unit(&pipeline, &opt::Options::none(), &|_| false);
    let code = jit::compile(&unit, &mut Cache::new(), &jit::Options::default()).unwrap();
    let native = support::Native::new(&unit, &pipeline);
    let scan = support::Scan::new(&unit, &pipeline);
    let mut buffers = vec![vec![0u8; 64]; 2];
    let mut packets: Vec<abi::Packet<'_>> = Vec::new();
    packets.extend(buffers.iter_mut().map(|buffer| abi::Packet::new(buffer, 0, 64, 1)));
    let (mut scratch, counters) = (jit::Scratch::new(), native.counters());
    code.run(&scan, counters, &mut Forgetful, &mut scratch, &mut packets, 0);
}

fn random(seeds: std::ops::Range<u64>) -> Tally {
    let mut cache = Cache::new();
    let mut total = Tally::default();
    for seed in seeds {
        let mut rng = Rng::new(seed ^ 0x5e41);
        let mut text = HEAD.to_owned();
        for name in ["x", "y", "z"] {
            let end = rng.pick(&["output 2", "output 3", "b = 1", "if a & 1 == 0 { output 2 }"]);
            let body = body(&mut rng, 2, 6);
            let both = if body.is_empty() { end.to_owned() } else { format!("{body}; {end}") };
            text.push_str(&format!("action {name} {{ {both} }}\n"));
        }
        text.push_str(ENTRIES);
        let tally = check(&text, &mut rng, &mut cache, &format!("seed {seed}"));
        total.add(tally);
    }
    total
}

#[test]
fn random_changes_and_calls() {
    let tally = random(part(0..40));
    tally.print("random changes and calls");
    assert!(tally.share() > 0.5, "{:.1} % native", 100.0 * tally.share());
    assert!(tally.changed > 1000 / parts(), "{tally:?}");
}

/// `JIT_SEEDS=1000..2000 cargo test -p jit --release --test services -- --ignored`
#[test]
#[ignore = "as many seeds as one likes; the test above takes some of them"]
fn many_random_changes_and_calls() {
    let seeds = std::env::var("JIT_SEEDS").unwrap_or_else(|_| "1000..1400".to_owned());
    let (from, to) = seeds.split_once("..").expect("a range");
    let number = |s: &str| s.parse::<u64>().expect("a number");
    random(number(from)..number(to)).print("random changes and calls");
}
