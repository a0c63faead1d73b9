//! Lookups against a judge while rules come and go: counts what differs.
//!
//! `cargo run --release -p classify --example soak -- LOOKUPS FILE...`: the files are ClassBench rule sets, unpacked.
//! Lookups are shared out among the files, and in each among the forms a general table takes: as rules come, and
//! chosen for all at once ([`Table::arranged`]), which is chosen anew now and then. Half of the rules are loaded; after each burst of 32 keys one
//! comes or goes. Keys are drawn from all rules. The judge is tuple space search, under the same operations, whose own judge in tests is a
//! linear search; it is compared with one here for one key of every 64 bursts.
//!
//! Ends with status 1 if any answer differs.

use std::process::ExitCode;

use classify::classbench::{self, Draw, KEY_LEN, STRIDE, layout};
use classify::tuple_merge::TupleMerge;
use classify::tuple_space::TupleSpace;
use classify::{Hit, Rule, Structure, Table};

const BURST: usize = 32;
const KEYS: usize = 1 << 16;
/// Bursts after which a table is arranged anew.
const ANEW: u64 = 1 << 14;

/// What is judged.
enum Subject {
    AsTheyCome(TupleMerge),
    Arranged(Table),
}

#[derive(Default)]
struct Counts {
    lookups: u64,
    updates: u64,
    arranged: u64,
    wrong: u64,
}

fn run(rules: &[Rule], mut subject: Subject, lookups: u64, draw: &mut Draw, counts: &mut Counts) {
    let keys = classbench::headers(rules, KEYS, draw.below(1 << 30) as u64);
    let mut inside: Vec<&Rule> = rules.iter().collect();
    draw.shuffle(&mut inside);
    let mut outside = inside.split_off(rules.len() / 2);
    let mut judge = TupleSpace::new(layout());
    for rule in &inside {
        let _ = judge.insert(rule);
        match &mut subject {
            Subject::AsTheyCome(subject) => drop(subject.insert(rule)),
            Subject::Arranged(subject) => drop(subject.insert(rule)),
        }
    }
    for burst in 0..lookups.div_ceil(BURST as u64) {
        if let Subject::Arranged(table) = &mut subject
            && burst % ANEW == 0
        {
            *table = table.arranged();
            counts.arranged += 1;
        }
        let from = burst as usize * BURST % KEYS;
        let keys = &keys[from * STRIDE..][..BURST * STRIDE];
        let (mut got, mut want) = ([Hit::MISS; BURST], [Hit::MISS; BURST]);
        judge.lookup_burst(keys, STRIDE, &mut want);
        match &subject {
            Subject::AsTheyCome(subject) => subject.lookup_burst(keys, STRIDE, &mut got),
            Subject::Arranged(subject) => subject.lookup_burst(keys, STRIDE, &mut got),
        }
        counts.wrong += got.iter().zip(&want).filter(|(got, want)| got != want).count() as u64;
        counts.lookups += BURST as u64;
        if burst % 64 == 0 {
            let key = &keys[..KEY_LEN];
            let matching = inside.iter().filter(|rule| rule.matches(key));
            let best = matching.max_by_key(|rule| rule.priority).map_or(Hit::MISS, |r| r.hit());
            counts.wrong += u64::from(best != want[0]);
        }
        let comes = inside.is_empty() || !outside.is_empty() && draw.below(2) == 0;
        let (from, to) = match comes {
            true => (&mut outside, &mut inside),
            false => (&mut inside, &mut outside),
        };
        let rule = from.swap_remove(draw.below(from.len()));
        to.push(rule);
        let of = match (&mut subject, comes) {
            (Subject::AsTheyCome(subject), true) => subject.insert(rule).is_ok(),
            (Subject::AsTheyCome(subject), false) => subject.remove(rule.id).is_some(),
            (Subject::Arranged(subject), true) => subject.insert(rule).is_ok(),
            (Subject::Arranged(subject), false) => subject.remove(rule.id).is_some(),
        };
        let judges =
            if comes { judge.insert(rule).is_ok() } else { judge.remove(rule.id).is_some() };
        counts.wrong += u64::from(!of) + u64::from(!judges);
        counts.updates += 1;
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let lookups: Option<u64> = words.next().and_then(|word| word.parse().ok());
    let files: Vec<String> = words.collect();
    let (Some(lookups), false) = (lookups, files.is_empty()) else {
        eprintln!("usage: soak LOOKUPS FILE...");
        return ExitCode::from(2);
    };
    let mut sets = Vec::new();
    for file in &files {
        let read = std::fs::read_to_string(file).map_err(|error| error.to_string());
        match read.and_then(|text| classbench::rules(&text).map_err(|error| error.to_string())) {
            Ok(rules) if rules.len() > 1 => sets.push((file, rules)),
            Ok(_) => eprintln!("{file}: fewer than two rules; left out"),
            Err(error) => {
                eprintln!("{file}: {error}");
                return ExitCode::from(2);
            }
        }
    }
    let mut total = Counts::default();
    let each = lookups.div_ceil(2 * sets.len().max(1) as u64);
    let draw = &mut Draw::new(0x50a4);
    for (file, rules) in &sets {
        let subjects = [
            Subject::AsTheyCome(TupleMerge::new(layout())),
            Subject::Arranged(Table::with_layout(layout())),
        ];
        for subject in subjects {
            run(rules, subject, each, draw, &mut total);
        }
        let Counts { lookups, updates, arranged, wrong } = total;
        println!(
            "{file}: {} rules; so far {lookups} lookups, {updates} updates in flight, arranged {arranged} times, {wrong} wrong",
            rules.len()
        );
    }
    if total.wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
