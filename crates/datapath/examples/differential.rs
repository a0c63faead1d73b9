//! Engines against the interpreter for as long as one likes: random programs, entries, updates in
//! flight and packets, every template forced in turn.
//!
//!     cargo run --release -p datapath --example differential -- --seconds 60
//!
//! | option | means |
//! |---|---|
//! | `--pipelines N` | ends after so many pipelines |
//! | `--packets-per N` | packets for each pipeline; 1000 |
//! | `--slower N` | changes come N times as seldom, so that more packets see what was compiled; 1 |
//! | `--seconds N` | ends after so long |
//! | `--seed N` | the first pipeline's seed; the others follow it |
//! | `--engine jit\|interp` | what is tested |
//! | `--template all\|auto\|direct_code\|hash\|..` | all ways in turn, or one |
//! | `--kinds all\|shaped\|lookups\|any\|p4` | where pipelines come from |
//! | `--p4 PATH` | P4 programs of this folder, or this one, too, as far as they compile; may be given again |
//! | `--interpreted N` | fails if the interpreter has run more than N packets |
//! | `--packets N` | ends after so many packets |
//! | `--race N` | every N-th pipeline is updated by another thread while it forwards; 16, 0 is none |
//! | `--threads N` | so many pipelines at once |
//! | `--out FOLDER` | where files of mismatches go |
//! | `--mismatches N` | ends after so many; 1 |
//!
//! Progress goes to the standard error; with `RUST_BACKTRACE` set, panics do too. Exit status 1 if anything differs; each mismatch is written
//! as a `.mill` test file, made small.

#[path = "../tests/differential/harness/mod.rs"]
mod harness;

use harness::Subject;
use harness::case::Case;
use harness::p4;
use harness::print::{mill, save};
use harness::race::race;
use harness::run::{Buffers, Mismatch, Stats, run};
use harness::shrink::shrink;
use harness::source::{Kind, Source};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

struct Options {
    pipelines: u64,
    packets_max: u64,
    packets: usize,
    slower: usize,
    seconds: u64,
    seed: u64,
    subjects: Vec<Subject>,
    kind: Option<Kind>,
    race: u64,
    threads: usize,
    out: PathBuf,
    mismatches: u64,
    interpreted_max: u64,
}

fn number<T: FromStr>(option: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{option}: {value:?} is no number"))
}

fn options() -> Result<Options, String> {
    let mut o = Options {
        pipelines: u64::MAX,
        packets_max: u64::MAX,
        packets: 1000,
        slower: 1,
        seconds: u64::MAX,
        seed: 1,
        subjects: Vec::new(),
        kind: None,
        race: 16,
        threads: 1,
        out: PathBuf::from("mismatches"),
        mismatches: 1,
        interpreted_max: u64::MAX,
    };
    let (mut engine, mut template) = ("jit".to_string(), "all".to_string());
    let mut folders = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option} takes a value"))?;
        match option.as_str() {
            "--pipelines" => o.pipelines = number(&option, &value)?,
            "--packets-per" => o.packets = number(&option, &value)?,
            "--slower" => o.slower = number(&option, &value)?,
            "--packets" => o.packets_max = number(&option, &value)?,
            "--p4" => folders.push(PathBuf::from(value)),
            "--seconds" => o.seconds = number(&option, &value)?,
            "--seed" => o.seed = number(&option, &value)?,
            "--race" => o.race = number(&option, &value)?,
            "--threads" => o.threads = number(&option, &value)?,
            "--interpreted" => o.interpreted_max = number(&option, &value)?,
            "--mismatches" => o.mismatches = number(&option, &value)?,
            "--out" => o.out = PathBuf::from(value),
            "--engine" => engine = value,
            "--template" => template = value,
            "--kinds" if value == "all" => o.kind = None,
            "--kinds" => {
                let found = Kind::ALL.into_iter().find(|k| k.word() == value);
                o.kind = Some(found.ok_or_else(|| format!("there is no kind {value:?}"))?);
            }
            other => return Err(format!("there is no option {other}; read the head of this file")),
        }
    }
    p4::FOLDERS.set(folders).expect("options are read once");
    o.subjects = match engine.as_str() {
        "interp" => vec![Subject::interp()],
        "jit" => Subject::compiled(),
        other => return Err(format!("there is no engine {other:?}: choose jit, interp")),
    };
    if template != "all" {
        let names = [format!("jit(template={template})"), format!("jit({template})")];
        let auto = template == "auto";
        o.subjects.retain(|s| names.contains(&s.name) || (auto && s.name == "jit"));
        if o.subjects.is_empty() {
            return Err(format!("there is no template {template:?}"));
        }
    }
    Ok(o)
}

/// What all threads have done.
struct Work {
    options: Options,
    started: Instant,
    next: AtomicU64,
    done: AtomicU64,
    packets: AtomicU64,
    mismatches: AtomicU64,
    total: Mutex<Stats>,
}

impl Work {
    fn ended(&self) -> bool {
        self.started.elapsed().as_secs() >= self.options.seconds
            || self.mismatches.load(Ordering::Relaxed) >= self.options.mismatches
            || self.packets.load(Ordering::Relaxed) >= self.options.packets_max
    }

    /// Takes pipeline after pipeline.
    fn run(&self) {
        let o = &self.options;
        let mut buffers = Buffers::default();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= o.pipelines || self.ended() {
                return;
            }
            let seed = o.seed.wrapping_add(number);
            let kind = o.kind.unwrap_or_else(|| Kind::of(number));
            // Each engine takes a round of all kinds.
            let subject = &o.subjects[(number / Kind::ROUND) as usize % o.subjects.len()];
            let case = Source::new(kind, seed).slow_case(o.packets, o.slower);
            let beside = o.race > 0 && number % o.race == o.race - 1;
            let result = match beside {
                false => run(&case, subject, &mut buffers).map_err(|how| Box::new((case, *how))),
                true => race(&case, subject, &mut buffers),
            };
            match result {
                Ok(stats) => {
                    self.packets.fetch_add(stats.packets, Ordering::Relaxed);
                    self.total.lock().expect("no holder panics").add(&stats);
                }
                Err(found) => self.mismatch(&found.0, &found.1, subject, kind, seed),
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn mismatch(&self, case: &Case, how: &Mismatch, subject: &Subject, kind: Kind, seed: u64) {
        let number = self.mismatches.fetch_add(1, Ordering::Relaxed);
        let name = &subject.name;
        eprintln!("{name} differs on {} {seed}; making it small", kind.word());
        let mut buffers = Buffers::default();
        let limit = Duration::from_secs(60);
        let mut fails = |case: &Case| run(case, subject, &mut buffers).err();
        let again = fails(case);
        let sure = if again.is_some() { "" } else { " (only beside other threads)" };
        let (case, how) = match again {
            Some(how) => shrink(case, &how, limit, &mut fails),
            None => (case.clone(), how.clone()),
        };
        let head = format!("{name} differs from the interpreter: {} {seed}{sure}.", kind.word());
        let text = mill(&case, &how, name, &head);
        println!("{text}");
        let file = format!("{}_{seed}_{number}", kind.word());
        match save(&self.options.out, &file, &text) {
            Ok(path) => eprintln!("written to {}", path.display()),
            Err(error) => eprintln!("cannot write it: {error}"),
        }
    }

    fn progress(&self) {
        let total = self.total.lock().expect("no holder panics").clone();
        let seconds = self.started.elapsed().as_secs_f64();
        let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        let left: u64 = total.bails.values().sum();
        eprintln!(
            "{seconds:.0} s: {} pipelines, {} packets ({:.0}/s), {:.0} % forwarded, {:.0} % of \
             lookups hit, {} transactions ({} refused), {:.1} % left by the code for bursts, {} \
             packets interpreted, {} mismatches",
            self.done.load(Ordering::Relaxed),
            total.packets,
            total.packets as f64 / seconds,
            percent(total.forwarded, total.packets),
            percent(total.matches, total.lookups),
            total.transactions,
            total.refused,
            percent(left, total.packets),
            total.interpreted,
            self.mismatches.load(Ordering::Relaxed),
        );
    }

    fn bails(&self) {
        let total = self.total.lock().expect("no holder panics").clone();
        let mut list: Vec<_> = total.bails.iter().collect();
        list.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        for (reason, n) in list.into_iter().take(30) {
            let share = 100.0 * *n as f64 / total.packets.max(1) as f64;
            eprintln!("  {share:5.2} %  {reason}");
        }
    }
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    // A panic is a mismatch, which is told with all that led to it; where it was, to who asks.
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    let threads = options.threads.max(1);
    let work = Work {
        options,
        started: Instant::now(),
        next: AtomicU64::new(0),
        done: AtomicU64::new(0),
        packets: AtomicU64::new(0),
        mismatches: AtomicU64::new(0),
        total: Mutex::new(Stats::default()),
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work.run())).collect();
        let mut told = Instant::now();
        while workers.iter().any(|w| !w.is_finished()) {
            std::thread::sleep(Duration::from_millis(100));
            if told.elapsed() > Duration::from_secs(10) {
                work.progress();
                told = Instant::now();
            }
        }
    });
    if p4::FOLDERS.get().is_some_and(|list| !list.is_empty()) {
        let (all, compiled) = p4::programs();
        eprintln!("{compiled} of {all} P4 programs compile and took part");
    }
    work.progress();
    work.bails();
    let interpreted = work.total.lock().expect("no holder panics").interpreted;
    let too_many = interpreted > work.options.interpreted_max;
    if too_many {
        eprintln!(
            "{interpreted} packets were interpreted; {} may be",
            work.options.interpreted_max
        );
    }
    match work.mismatches.load(Ordering::Relaxed) {
        0 if !too_many => ExitCode::SUCCESS,
        _ => ExitCode::from(1),
    }
}
