//! `Open_vSwitch.statistics`: figures of the machine, where `other_config:enable-statistics` asks for them.
//!
//! In the words of ovs-vswitchd.conf.db(5): `cpu`, `load_average`, `memory`, `process_NAME`, `file_systems`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What can be found out now. What cannot is absent.
pub fn figures(rundir: &Path) -> BTreeMap<String, String> {
    let mut figures = BTreeMap::new();
    if let Ok(cpus) = std::thread::available_parallelism() {
        figures.insert("cpu".to_owned(), cpus.to_string());
    }
    if let Some(load) = fs::read_to_string("/proc/loadavg").ok().as_deref().and_then(load_average) {
        figures.insert("load_average".to_owned(), load);
    }
    if let Some(memory) = fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(memory) {
        figures.insert("memory".to_owned(), memory);
    }
    for name in ["ovsdb-server", "ovs-vswitchd"] {
        let pid = fs::read_to_string(rundir.join(format!("{name}.pid"))).ok();
        if let Some(line) = pid.and_then(|pid| process(pid.trim())) {
            figures.insert(format!("process_{name}"), line);
        }
    }
    if let Some(line) = fs::read_to_string("/proc/mounts").ok().map(|mounts| file_systems(&mounts))
        && !line.is_empty()
    {
        figures.insert("file_systems".to_owned(), line);
    }
    figures
}

fn load_average(text: &str) -> Option<String> {
    let mut words = text.split_ascii_whitespace();
    let [one, five, fifteen] = [words.next()?, words.next()?, words.next()?];
    Some(format!("{one},{five},{fifteen}"))
}

/// Total, used, cached, swap total, swap used; in kB.
fn memory(text: &str) -> Option<String> {
    let value = |name: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let (total, free, buffers) = (value("MemTotal")?, value("MemFree")?, value("Buffers")?);
    let (cached, swap, swap_free) = (value("Cached")?, value("SwapTotal")?, value("SwapFree")?);
    let used = total.saturating_sub(free);
    let cache = buffers + cached;
    Some(format!("{total},{used},{cache},{swap},{}", swap.saturating_sub(swap_free)))
}

/// Virtual size and resident size in kB, processor time in ms, crashes, and how long it runs in ms, twice: a crash begins
/// neither the first nor the second anew, as no process before this one is known.
fn process(pid: &str) -> Option<String> {
    let of = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    process_line(&of("stat")?, &of("status")?, &uptime)
}

fn process_line(stat: &str, status: &str, uptime: &str) -> Option<String> {
    // The name stands in parentheses and may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let (user, system, start) = (field(14)?, field(15)?, field(22)?);
    let kb = |name: &str| {
        let line = status.lines().find(|line| line.split(':').next() == Some(name))?;
        line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let (size, resident) = (kb("VmSize")?, kb("VmRSS")?);
    let up: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    // Clock ticks are hundredths of seconds on every Linux that there is.
    let runs = ((up * 1000.0) as u64).saturating_sub(start * 10);
    Some(format!("{size},{resident},{},0,{runs},{runs}", (user + system) * 10))
}

/// Mount point, size and use in kB of what is on a disk.
fn file_systems(mounts: &str) -> String {
    let mut all = Vec::new();
    for line in mounts.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(device), Some(point)) = (words.next(), words.next()) else { continue };
        if !device.starts_with('/') {
            continue;
        }
        let Ok(size) = rustix::fs::statvfs(point) else { continue };
        let kb = |blocks: u64| blocks * size.f_frsize / 1024;
        let (total, free) = (kb(size.f_blocks), kb(size.f_bfree));
        all.push(format!("{point},{total},{}", total.saturating_sub(free)));
    }
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_in_the_order_of_the_manual() {
        assert_eq!(load_average("0.10 0.20 0.30 1/2 3\n").as_deref(), Some("0.10,0.20,0.30"));
        let text = "MemTotal: 100 kB\nMemFree: 40 kB\nBuffers: 1 kB\nCached: 2 kB\nSwapTotal: 9 kB\nSwapFree: 4 kB\n";
        assert_eq!(memory(text).as_deref(), Some("100,60,3,9,5"));
        assert_eq!(memory("MemTotal: 100 kB\n"), None);
        let stat = format!("7 (a) b) S {} 3 4 0 0 0 0 0 0 100", "0 ".repeat(10).trim());
        let status = "Name:\tx\nVmSize:\t 9 kB\nVmRSS:\t 4 kB\n";
        let line = process_line(&stat, status, "2.00 1.00");
        assert_eq!(line.as_deref(), Some("9,4,70,0,1000,1000"));
    }

    #[test]
    fn this_machine_has_figures() {
        let figures = figures(Path::new("/nonexistent"));
        for key in ["cpu", "load_average", "memory"] {
            assert!(figures.contains_key(key), "{key}: {figures:?}");
        }
    }
}
