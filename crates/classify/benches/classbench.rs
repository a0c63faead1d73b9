//! Lookups and updates on ClassBench rule sets, of the general structures side by side.
//!
//! `cargo bench -p classify --bench classbench -- DIRECTORY [WORD...]`: rule sets are the files
//! `SEED_SIZE.rules.xz` of the directory whose names contain one of the words (all, without words); they
//! are unpacked by `xz`. Without a directory there is nothing to measure. Headers are drawn from the rules:
//! corners and random points of each. Answers are compared with a scan of the rules first.
//!
//! Updates are measured as in the TupleMerge paper: half of the rules are loaded, then inserts of others
//! and removals come in random order.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use classify::bit_vectors::BitVectors;
use classify::classbench::{self, Draw, KEY_LEN as KEY, STRIDE, layout};
use classify::cuts::Cuts;
use classify::probes::Probes;
use classify::tuple_merge::TupleMerge;
use classify::tuple_space::TupleSpace;
use classify::{Hit, Rule, Structure};

const BURST: usize = 32;
const KEYS: usize = 1 << 18;
const RUNS: usize = 5;

fn read(path: &Path) -> Vec<Rule> {
    let output = Command::new("xz").arg("-dc").arg(path).output();
    let text = match output {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            return Vec::new();
        }
    };
    classbench::rules(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn burst_all(subject: &dyn Structure, keys: &[u8], hits: &mut [Hit]) {
    for (keys, hits) in keys.chunks(BURST * STRIDE).zip(hits.chunks_mut(BURST)) {
        subject.lookup_burst(keys, STRIDE, hits);
    }
}

struct Figures {
    burst_ns: f64,
    single_ns: f64,
    update_ns: f64,
    build_ms: f64,
    tuples: usize,
    bytes: f64,
    probes: Option<Probes>,
}

/// Makes a structure that holds some rules.
type Build<'a> = dyn Fn(&[Rule]) -> Box<dyn Structure> + 'a;

/// A structure that rules come to one by one, in random order.
fn filled(mut subject: Box<dyn Structure>, rules: &[Rule]) -> Box<dyn Structure> {
    for rule in shuffled(rules, &mut Draw::new(5)) {
        subject.insert(rule).expect("a rule of a set fits");
    }
    subject
}

fn shuffled<'a>(rules: &'a [Rule], draw: &mut Draw) -> Vec<&'a Rule> {
    let mut order: Vec<&Rule> = rules.iter().collect();
    draw.shuffle(&mut order);
    order
}

/// Nanoseconds an update, as the paper counts; no number if the structure comes to decline one.
fn updates(new: &Build<'_>, rules: &[Rule]) -> f64 {
    let draw = &mut Draw::new(99);
    let (mut inside, mut outside) = (shuffled(rules, draw), Vec::new());
    outside.extend(inside.split_off(rules.len() / 2));
    let loaded: Vec<Rule> = inside.iter().map(|&rule| rule.clone()).collect();
    let mut subject = new(&loaded);
    let count = (2 * rules.len()).clamp(20_000, 1_000_000);
    let began = Instant::now();
    for _ in 0..count {
        if draw.below(2) == 0 && !outside.is_empty() {
            let rule = outside.swap_remove(draw.below(outside.len()));
            if subject.insert(rule).is_err() {
                return f64::NAN;
            }
            inside.push(rule);
        } else if !inside.is_empty() {
            let rule = inside.swap_remove(draw.below(inside.len()));
            black_box(subject.remove(rule.id));
            outside.push(rule);
        }
    }
    began.elapsed().as_nanos() as f64 / count as f64
}

fn measure(new: &Build<'_>, rules: &[Rule], keys: &[u8], want: &[Hit]) -> Figures {
    let began = Instant::now();
    let subject = new(rules);
    let build_ms = began.elapsed().as_secs_f64() * 1e3;
    let mut hits = vec![Hit::MISS; KEYS];
    burst_all(&*subject, keys, &mut hits);
    for ((key, hit), want) in keys.chunks(STRIDE).zip(&hits).zip(want) {
        assert_eq!((subject.lookup(&key[..KEY]), *hit), (*want, *want), "{}", subject.kind());
    }
    let (mut burst_ns, mut single_ns) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..RUNS {
        let began = Instant::now();
        burst_all(&*subject, keys, black_box(&mut hits));
        burst_ns = burst_ns.min(began.elapsed().as_nanos() as f64 / KEYS as f64);
        let began = Instant::now();
        for key in keys.chunks(STRIDE).take(KEYS / 8) {
            black_box(subject.lookup(&key[..KEY]));
        }
        single_ns = single_ns.min(began.elapsed().as_nanos() as f64 / (KEYS / 8) as f64);
    }
    let probes = subject.probes(&mut keys.chunks(STRIDE).take(20_000).map(|key| &key[..KEY]));
    let tuples = subject.explain().probes_max;
    let bytes = subject.memory_bytes() as f64 / rules.len() as f64;
    let update_ns = updates(new, rules);
    Figures { burst_ns, single_ns, update_ns, build_ms, tuples, bytes, probes }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|w| !w.starts_with("--")).collect();
    let Some((directory, words)) = words.split_first() else {
        return println!("no directory of rule sets is given; nothing to measure");
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    paths.retain(|path| {
        let name = path.to_string_lossy();
        name.ends_with(".rules.xz") && (words.is_empty() || words.iter().any(|w| name.contains(w)))
    });
    paths.sort();
    // By their names: tuple space search; merged tuples as rules come, and chosen for all at once.
    let subjects: [(&str, &Build<'_>); 5] = [
        ("tuple_space", &|rules| filled(Box::new(TupleSpace::new(layout())), rules)),
        ("tuple_merge", &|rules| filled(Box::new(TupleMerge::new(layout())), rules)),
        ("  arranged", &|rules| Box::new(TupleMerge::arranged(layout(), rules.iter().cloned()))),
        ("cuts", &|rules| Box::new(Cuts::of(layout(), rules.iter().cloned()).expect("it parts"))),
        ("bits", &|rules| match BitVectors::of(layout(), rules.iter().cloned()) {
            Ok(bits) => Box::new(bits),
            // Too many rules.
            Err(_) => Box::new(Cuts::of(layout(), rules.iter().cloned()).expect("it parts")),
        }),
    ];
    let mut sums = [(0.0, 0); 5];
    for path in paths {
        let rules = read(&path);
        if rules.is_empty() {
            continue;
        }
        let keys = classbench::headers(&rules, KEYS, 1);
        let mut want = Vec::new();
        let checks = (100_000_000 / rules.len()).clamp(100, KEYS);
        for key in keys.chunks(STRIDE).take(checks) {
            let best = rules.iter().find(|rule| rule.matches(&key[..KEY]));
            want.push(best.map_or(Hit::MISS, Rule::hit));
        }
        let began = Instant::now();
        for key in keys.chunks(STRIDE).take(100) {
            black_box(rules.iter().find(|rule| rule.matches(&key[..KEY])));
        }
        let linear_ns = began.elapsed().as_nanos() as f64 / 100.0;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().replace(".rules", "");
        println!("{name:<10} {:>6} rules, linear {linear_ns:>8.0} ns", rules.len());
        let mut first = None;
        for ((name, new), sum) in subjects.iter().zip(&mut sums) {
            let f = measure(*new, &rules, &keys, &want);
            let times = *first.get_or_insert(f.burst_ns) / f.burst_ns;
            *sum = (sum.0 + times.ln(), sum.1 + 1);
            println!(
                "  {:<12} burst {:>7.1} ns ({times:>5.1} times) alone {:>7.1} ns, {:>4} tuples, \
                 {:>8.0} updates/s, {:>4.0} bytes/rule, built in {:.0} ms",
                name,
                f.burst_ns,
                f.single_ns,
                f.tuples,
                1e9 / f.update_ns,
                f.bytes,
                f.build_ms
            );
            if let Some(probes) = f.probes {
                let (tables, compared) = (probes.tables_per_lookup(), probes.compared_per_lookup());
                println!(
                    "               a lookup asks {tables:.1} tables and compares {compared:.1} times"
                );
            }
        }
    }
    for ((name, _), (sum, count)) in subjects.iter().zip(sums).filter(|(_, (_, count))| *count > 0)
    {
        let mean = (sum / f64::from(count)).exp();
        println!("{name:<12} {mean:>5.2} times over {count} sets, geometric mean");
    }
}
