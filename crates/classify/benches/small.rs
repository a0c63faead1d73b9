//! Nanoseconds per lookup of small general tables: a load balancer's, a firewall's, few rules of many
//! masks. Each structure in bursts and alone, and an update, the least of several runs.
//!
//! `cargo bench -p classify --bench small [-- WORD]`. Answers are compared with a scan of the rules
//! before anything is timed.

use std::hint::black_box;
use std::time::Instant;

use classify::scan::Scan;
use classify::tuple_merge::TupleMerge;
use classify::tuple_space::TupleSpace;
use classify::{Hit, Layout, Rule, Structure};

const BURST: usize = 32;
const KEYS: usize = 4096;
const RUNS: usize = 200;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Fields and the bytes of each: where they lie in a key.
struct Fields(Vec<(&'static str, usize)>);

impl Fields {
    fn layout(&self) -> Layout {
        let lens: Vec<usize> = self.0.iter().map(|field| field.1).collect();
        Layout::new(&lens).expect("a few bytes are a key")
    }

    fn span(&self, name: &str) -> std::ops::Range<usize> {
        let at = self.0.iter().position(|field| field.0 == name).expect("a field by its name");
        let from = self.0[..at].iter().map(|field| field.1).sum();
        from..from + self.0[at].1
    }

    fn rule(&self, id: usize, priority: u32, matches: &[(&str, u64, u32)]) -> Rule {
        let len = self.layout().key_len();
        let (mut value, mut mask) = (vec![0; len], vec![0; len]);
        for &(name, of, bits) in matches {
            let span = self.span(name);
            let width = span.len() as u32 * 8;
            let ones =
                !(u64::MAX.checked_shr(64 - width).unwrap_or(0).checked_shr(bits).unwrap_or(0));
            let from = 8 - span.len();
            mask[span.clone()].copy_from_slice(&ones.to_be_bytes()[from..]);
            value[span].copy_from_slice(&(of & ones).to_be_bytes()[from..]);
        }
        Rule::new(id as u32, priority, id as u64, &value, &mask).with_action(id as u32 + 1)
    }
}

/// A case: rules, and keys drawn as its traffic.
struct Case {
    name: &'static str,
    layout: Layout,
    rules: Vec<Rule>,
    keys: Vec<u8>,
}

fn case(
    name: &'static str,
    fields: &Fields,
    rules: Vec<Rule>,
    draw: impl Fn(&mut u64) -> Rule,
) -> Case {
    let layout = fields.layout();
    let mut keys = vec![0; layout.stride() * KEYS];
    let seed = &mut 0x9e37_79b9_7f4a_7c15;
    for key in keys.chunks_mut(layout.stride()) {
        let rule = draw(seed);
        for ((to, v), m) in key.iter_mut().zip(&rule.value).zip(&rule.mask) {
            *to = v & m | random(seed) as u8 & !m;
        }
    }
    Case { name, layout, rules, keys }
}

const SERVERS: u64 = 0xc612_0001;

fn balancer(services: u64) -> Case {
    let fields = Fields(vec![
        ("in_port", 4),
        ("eth_type", 2),
        ("proto", 1),
        ("src", 4),
        ("dst", 4),
        ("port", 2),
    ]);
    let mut rules = Vec::new();
    let service = |fields: &Fields, id: usize, server: u64, half: u64| {
        let half = half << 31;
        let ip = [("in_port", 1, 32), ("eth_type", 0x800, 16), ("proto", 6, 8)];
        let more = [("src", half, 1), ("dst", SERVERS + server, 32), ("port", 80, 16)];
        fields.rule(id, 100, &[ip, more].concat())
    };
    for n in 0..2 * services {
        rules.push(service(&fields, n as usize, n / 2, n % 2));
    }
    rules.push(fields.rule(rules.len(), 50, &[("in_port", 1, 32)]));
    rules.push(fields.rule(rules.len(), 10, &[]));
    let name = if services > 100 { "balancer, 1000" } else { "balancer, 100" };
    case(name, &fields, rules, |seed| match random(seed) % 2 {
        0 => service(&fields, 0, random(seed) % services, random(seed) % 2),
        _ => fields.rule(0, 0, &[("in_port", 2, 32), ("eth_type", 0x800, 16), ("proto", 6, 8)]),
    })
}

fn firewall(servers: u64) -> Case {
    let fields = Fields(vec![
        ("in_port", 4),
        ("eth_type", 2),
        ("proto", 1),
        ("src", 4),
        ("dst", 4),
        ("port", 2),
        ("icmp", 1),
    ]);
    let ip = [("in_port", 1, 32), ("eth_type", 0x800, 16)];
    let tcp = [&ip[..], &[("proto", 6, 8)]].concat();
    let mut rules = Vec::new();
    let seed = &mut 77;
    for n in 0..16 {
        let len = [12, 14, 16, 18, 20, 22, 23, 24][n % 8];
        let of = 0x2800_0000 + random(seed) % 0x1800_0000;
        rules.push(fields.rule(n, 100, &[&ip[..], &[("src", of, len)]].concat()));
    }
    let web = |id: usize, server: u64, port: u64| {
        fields.rule(
            id,
            90,
            &[&tcp[..], &[("dst", SERVERS + server, 32), ("port", port, 16)]].concat(),
        )
    };
    for n in 0..2 * servers {
        rules.push(web(rules.len(), n / 2, [80, 443][n as usize % 2]));
    }
    let login = [&tcp[..], &[("src", 0xcb00_7100, 24), ("port", 22, 16)]].concat();
    rules.push(fields.rule(rules.len(), 80, &login));
    let ping = [&ip[..], &[("proto", 1, 8), ("icmp", 8, 8)]].concat();
    rules.push(fields.rule(rules.len(), 70, &ping));
    rules.push(fields.rule(rules.len(), 60, &[("in_port", 2, 32)]));
    rules.push(fields.rule(rules.len(), 0, &[]));
    let name = if servers > 100 { "firewall, 1000" } else { "firewall, 100" };
    case(name, &fields, rules.clone(), |seed| match random(seed) % 16 {
        0..8 => fields.rule(0, 0, &[("in_port", 2, 32), ("eth_type", 0x800, 16), ("proto", 6, 8)]),
        8 => rules[random(seed) as usize % rules.len()].clone(),
        9 => rules[random(seed) as usize % 16].clone(),
        _ => web(0, random(seed) % servers, [80, 443][random(seed) as usize % 2]),
    })
}

/// So many rules of so many masks over five fields.
fn filters(name: &'static str, count: usize, masks: usize) -> Case {
    let fields = Fields(vec![("src", 4), ("dst", 4), ("sport", 2), ("dport", 2), ("proto", 1)]);
    let seed = &mut 4711;
    let lens: Vec<[u32; 3]> = (0..masks)
        .map(|_| {
            let len = |seed: &mut u64| [0, 8, 12, 16, 20, 24, 28, 32][random(seed) as usize % 8];
            [len(seed), len(seed), if random(seed).is_multiple_of(2) { 16 } else { 0 }]
        })
        .collect();
    let rules: Vec<Rule> = (0..count)
        .map(|id| {
            let [src, dst, port] = lens[id % masks];
            let matches = [
                ("src", random(seed), src),
                ("dst", random(seed), dst),
                ("dport", random(seed) % 1024, port),
                ("proto", 6, 8),
            ];
            fields.rule(id, (random(seed) % 1000) as u32, &matches)
        })
        .collect();
    case(name, &fields, rules.clone(), |seed| rules[random(seed) as usize % rules.len()].clone())
}

fn burst_all(subject: &dyn Structure, case: &Case, hits: &mut [Hit]) {
    let stride = case.layout.stride();
    for (keys, hits) in case.keys.chunks(BURST * stride).zip(hits.chunks_mut(BURST)) {
        subject.lookup_burst(keys, stride, hits);
    }
}

/// The least nanoseconds of several runs of `count` things.
fn least(count: usize, runs: usize, mut run: impl FnMut()) -> f64 {
    let time = || {
        let began = Instant::now();
        run();
        began.elapsed().as_nanos()
    };
    std::iter::repeat_with(time).take(runs).min().unwrap_or(0) as f64 / count as f64
}

/// A structure with a case's rules, and what was measured.
struct Subject {
    structure: Box<dyn Structure>,
    burst_ns: f64,
    single_ns: f64,
}

/// Fills a structure and compares its answers with a scan of the rules.
fn prepare(case: &Case, mut structure: Box<dyn Structure>) -> Subject {
    for rule in &case.rules {
        structure.insert(rule).expect("the bench's rules fit");
    }
    let (stride, key_len) = (case.layout.stride(), case.layout.key_len());
    let mut hits = vec![Hit::MISS; KEYS];
    burst_all(&*structure, case, &mut hits);
    let mut ordered: Vec<&Rule> = case.rules.iter().collect();
    ordered.sort_by(|a, b| a.precedence(b));
    for (key, hit) in case.keys.chunks(stride).zip(&hits) {
        let key = &key[..key_len];
        let want = ordered.iter().find(|r| r.matches(key)).map_or(Hit::MISS, |r| r.hit());
        assert_eq!((structure.lookup(key), *hit), (want, want), "{}", structure.kind());
    }
    Subject { structure, burst_ns: f64::INFINITY, single_ns: f64::INFINITY }
}

fn measure(case: &Case, structures: Vec<Box<dyn Structure>>) {
    let mut subjects: Vec<Subject> = structures.into_iter().map(|s| prepare(case, s)).collect();
    let (stride, key_len) = (case.layout.stride(), case.layout.key_len());
    let mut hits = vec![Hit::MISS; KEYS];
    // By turns, so that all see the same disturbances.
    for _ in 0..RUNS {
        for Subject { structure, burst_ns, single_ns } in &mut subjects {
            let ns = least(KEYS, 5, || burst_all(&**structure, case, black_box(&mut hits)));
            *burst_ns = burst_ns.min(ns);
            let ns = least(KEYS, 1, || {
                for key in case.keys.chunks(stride) {
                    black_box(structure.lookup(&key[..key_len]));
                }
            });
            *single_ns = single_ns.min(ns);
        }
    }
    let first = subjects[0].burst_ns;
    for Subject { mut structure, burst_ns, single_ns } in subjects {
        let update_ns = least(case.rules.len(), 5, || {
            for rule in &case.rules {
                if black_box(structure.remove(rule.id)).is_some() {
                    structure.insert(rule).expect("what was removed fits again");
                }
            }
        });
        println!(
            "{:<20} {:<11} burst {burst_ns:>5.1} ({:>4.1} times) alone {single_ns:>5.1} \
             remove+insert {update_ns:>5.0}  {} bytes",
            case.name,
            structure.kind().name(),
            first / burst_ns,
            structure.memory_bytes()
        );
    }
}

fn main() {
    let cases = [
        balancer(100),
        firewall(100),
        balancer(1000),
        firewall(1000),
        filters("8 rules, 4 masks", 8, 4),
        filters("20 rules, 10 masks", 20, 10),
        filters("60 rules, 20 masks", 60, 20),
        filters("200 rules, 40 masks", 200, 40),
        filters("200 rules, 5 masks", 200, 5),
        filters("2000 rules, 5 masks", 2000, 5),
    ];
    let words: Vec<String> = std::env::args().skip(1).filter(|w| !w.starts_with("--")).collect();
    for case in cases.iter().filter(|case| words.iter().all(|word| case.name.contains(word))) {
        let layout = || case.layout.clone();
        let tuples = Box::new(TupleSpace::new(layout()));
        let merged = Box::new(TupleMerge::new(layout()));
        measure(case, vec![tuples, Box::new(Scan::new(layout())), merged]);
    }
}
