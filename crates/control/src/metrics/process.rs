//! The process: what it is, and what it uses. Names that begin with `process_` are those of all Prometheus clients.

use super::source::Source;
use metrics::{Family, Text};
use std::fs;

const BUILD: Family =
    Family::info("millrace_build", "The version of the program and its instruction set");
const CPU: Family = Family::counter("process_cpu_seconds", "Processor time of all threads");
const RESIDENT: Family = Family::gauge("process_resident_memory_bytes", "Memory in use");
const VIRTUAL: Family = Family::gauge("process_virtual_memory_bytes", "Address space in use");
const OPEN: Family = Family::gauge("process_open_fds", "File descriptors that are open");
const MOST: Family = Family::gauge("process_max_fds", "File descriptors that may be open");
const START: Family =
    Family::gauge("process_start_time_seconds", "When the process began, since 1970");
const THREADS: Family = Family::gauge("process_threads", "Threads");

/// Clock ticks a second, on every Linux that there is.
const TICKS: f64 = 100.0;

pub(super) fn tell(_: &Source<'_>, text: &mut Text) {
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("architecture", std::env::consts::ARCH)];
    text.family(&BUILD).put(&labels, 1_u64);
    let Some(stat) = fs::read_to_string("/proc/self/stat").ok().and_then(|stat| Stat::of(&stat))
    else {
        return;
    };
    text.family(&CPU).put(&[], stat.cpu_ticks as f64 / TICKS);
    text.family(&RESIDENT).put(&[], stat.resident_pages * rustix::param::page_size() as u64);
    text.family(&VIRTUAL).put(&[], stat.virtual_bytes);
    text.family(&THREADS).put(&[], stat.threads);
    if let Ok(list) = fs::read_dir("/proc/self/fd") {
        // One of them is the list's own.
        text.family(&OPEN).put(&[], list.count().saturating_sub(1));
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    text.family(&MOST).put(&[], limit.map_or(f64::INFINITY, |n| n as f64));
    let booted = fs::read_to_string("/proc/stat").ok().and_then(|stat| booted(&stat));
    if let Some(booted) = booted {
        text.family(&START).put(&[], booted as f64 + stat.start_ticks as f64 / TICKS);
    }
}

/// What `/proc/self/stat` tells (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn of(text: &str) -> Option<Stat> {
        // The name stands in parentheses and may hold anything.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Stat {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// When the machine began, in seconds since 1970.
fn booted(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_the_name() {
        let line = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 12 13 14 15 16 9 18 500 4096 3 0";
        let expected = Stat {
            cpu_ticks: 42,
            threads: 9,
            start_ticks: 500,
            virtual_bytes: 4096,
            resident_pages: 3,
        };
        assert_eq!(Stat::of(line), Some(expected));
        assert_eq!(Stat::of("7 (a) S 1"), None);
        assert_eq!(booted("cpu 1 2\nbtime 17\n"), Some(17));
    }
}
