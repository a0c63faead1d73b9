//! How many of p4c's samples the checker accepts, and how many of its wrong programs it refuses.
//!
//!     cargo run --release -p p4 --example samples -- P4C_CHECKOUT [--list]
//!
//! Of `testdata/p4_16_samples` those that include no architecture but `v1model.p4` (or none at all)
//! count; of `testdata/p4_16_errors` likewise. The samples are read where they are; none is kept.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What became of one file.
struct Outcome {
    name: String,
    errors: usize,
    told: String,
    panicked: bool,
    time: Duration,
}

fn check(path: &Path) -> Outcome {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let start = Instant::now();
    let result = p4::with_stack(|| {
        std::panic::catch_unwind(AssertUnwindSafe(|| {
            let options = p4::preprocess::Options::default();
            let c = p4::front(&p4::preprocess::Disk, &options, path, &text);
            (c.diagnostics.errors(), c.diagnostics.render(&c.map))
        }))
    });
    let time = start.elapsed();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match result {
        Ok((errors, told)) => Outcome { name, errors, told, panicked: false, time },
        Err(_) => Outcome { name, errors: 0, told: String::new(), panicked: true, time },
    }
}

/// The programs that need nothing but core.p4 and v1model.p4.
fn programs(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|d| d.flatten().map(|e| e.path()).collect())
        .unwrap_or_default();
    files.retain(|p| p.extension().is_some_and(|e| e == "p4"));
    files.retain(|p| {
        let text = String::from_utf8_lossy(&std::fs::read(p).unwrap_or_default()).into_owned();
        !text.is_empty()
            && text
                .lines()
                .filter(|l| l.trim_start().starts_with("#include"))
                .all(|l| l.contains("core.p4") || l.contains("v1model.p4"))
    });
    files.sort();
    files
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(root) = args.first().map(Path::new) else {
        eprintln!("usage: samples P4C_CHECKOUT [--list]");
        std::process::exit(2);
    };
    let list = args.iter().any(|a| a == "--list");
    for (folder, good) in [("testdata/p4_16_samples", true), ("testdata/p4_16_errors", false)] {
        let outcomes: Vec<Outcome> =
            programs(&root.join(folder)).iter().map(|p| check(p)).collect();
        let right = outcomes.iter().filter(|o| !o.panicked && (o.errors == 0) == good).count();
        let panics = outcomes.iter().filter(|o| o.panicked).count();
        let mut times: Vec<Duration> = outcomes.iter().map(|o| o.time).collect();
        times.sort();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let longest = times.last().copied().unwrap_or_default();
        println!(
            "{folder}: {right} of {} {} ({:.1} %), {panics} panics, median {median:.1?}, longest {longest:.1?}",
            outcomes.len(),
            if good { "accepted" } else { "refused" },
            100.0 * right as f64 / outcomes.len().max(1) as f64,
        );
        if list {
            for o in outcomes.iter().filter(|o| o.panicked || (o.errors == 0) != good) {
                println!("== {}{}", o.name, if o.panicked { " PANIC" } else { "" });
                print!("{}", o.told);
            }
        }
    }
}
