//! How much of the machine a switch may use: descriptors, and memory for flow entries.
//!
//! Descriptors: the soft limit is raised to the hard one at the start. Those who connect to us may use
//! what is left once [`DESCRIPTORS_KEPT`] and what controllers and ports need are put aside, so that the
//! control socket, configured controllers, ports that are opened again and state files find theirs.
//!
//! Memory: unless `--flows-max` says otherwise, flow entries may use half of what is free at the start but
//! for [`ELSE_BYTES`], which code, queues and connections need,
//! at [`FLOW_BYTES`] each: what the machine has available, what the control group may still use, and what
//! limits of the process (`ulimit -v`, `-d`) leave, whichever is least.

use crate::program::tables::FLOWS_MOST;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Memory for one entry in all its forms, with room for what is made anew beside the old: ordinary ones
/// take some 1.2 KB.
const FLOW_BYTES: u64 = 2048;
/// Memory for all but entries: compiled code, queues, answers.
const ELSE_BYTES: u64 = 64 << 20;
/// Address space that threads ask for and hardly use, where that is limited (`ulimit -v`): the C library's allocator takes
/// 64 MiB for each arena, and gives nearly every thread one.
const ARENA_BYTES: u64 = 64 << 20;
/// As many arenas as threads have at most, unless [`ARENAS`] says otherwise.
const ARENAS_USUAL: u64 = 16;
/// How many arenas there may be, in the words of the C library (mallopt(3)).
const ARENAS: &str = "MALLOC_ARENA_MAX";
/// As many as a switch with little address space has.
const ARENAS_FEW: u64 = 2;
/// However little memory there is, so many entries may be there.
const FLOWS_LEAST: u64 = 1024;
/// Messages in bundles of all connections have this part of the memory for entries.
const BUNDLES_PART: u64 = 4;
/// Descriptors put aside: the control socket and its clients, captures, files, and some for what comes.
const DESCRIPTORS_KEPT: u64 = 96;
/// Descriptors that a port may need when it is opened again, beside those it has.
const DESCRIPTORS_PORT: u64 = 2;

/// Raises the limit of descriptors as far as it goes; says what it is then.
pub(crate) fn raise_descriptors() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    if before.current != before.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Where the address space is limited, begins the process anew with few arenas: with one for each thread, a limit of 1.2 GB
/// is used up before the first entry. The process keeps its number. Comes back if there is nothing to spare.
pub(crate) fn spare_address_space() {
    if getrlimit(Resource::As).current.is_none() || std::env::var_os(ARENAS).is_some() {
        return;
    }
    let anew = std::env::current_exe().map(|program| {
        let mut arguments = std::env::args_os();
        let mut command = Command::new(program);
        if let Some(name) = arguments.next() {
            command.arg0(name);
        }
        command.args(arguments).env(ARENAS, ARENAS_FEW.to_string()).exec()
    });
    let error = anew.unwrap_or_else(|error| error);
    tracing::warn!(%error, "threads take 64 MiB of the limited address space each; set {ARENAS}=2");
}

/// How many arenas the allocator may make.
fn arenas(said: Option<&str>) -> u64 {
    said.and_then(|said| said.trim().parse().ok())
        .map_or(ARENAS_USUAL, |n: u64| n.clamp(1, ARENAS_USUAL))
}

/// How many may connect to us, so that enough descriptors are left for so many controllers and ports.
pub(crate) fn connections(most: usize, controllers: u64, ports: u64) -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let used = std::fs::read_dir("/proc/self/fd").map_or(0, |list| list.count() as u64);
    let connections = left(limit, used, controllers, ports).min(most as u64) as usize;
    if connections < most {
        tracing::warn!(
            open_files_max = limit,
            connections_max = connections,
            "few files may be open: fewer controllers may connect; raise the limit (ulimit -Hn, LimitNOFILE=)"
        );
    }
    connections
}

fn left(limit: u64, used: u64, controllers: u64, ports: u64) -> u64 {
    let kept = DESCRIPTORS_KEPT + 2 * controllers + DESCRIPTORS_PORT * ports;
    // Where hardly any are left, some may connect all the same: otherwise nobody could.
    limit.saturating_sub(used).saturating_sub(kept).max(4)
}

/// Flow entries that there is memory for.
pub(crate) fn flows() -> u32 {
    let root = Path::new("/");
    let free = [available(root), group(root), process(root)].into_iter().flatten().min();
    flows_in(free)
}

/// Bytes that messages in bundles may have, where there may be so many entries.
pub(crate) fn bundles(flows_max: u32) -> usize {
    const LEAST: u64 = 16 << 20;
    const MOST: u64 = 512 << 20;
    (u64::from(flows_max) * FLOW_BYTES / BUNDLES_PART).clamp(LEAST, MOST) as usize
}

fn flows_in(free: Option<u64>) -> u32 {
    let Some(free) = free else { return FLOWS_MOST };
    (free.saturating_sub(ELSE_BYTES) / 2 / FLOW_BYTES).clamp(FLOWS_LEAST, FLOWS_MOST.into()) as u32
}

/// What the machine can give without swapping.
fn available(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What the control groups that we are in leave, version 2 or 1.
fn group(root: &Path) -> Option<u64> {
    let number = |path: &Path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let text = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut least: Option<u64> = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, kinds, place) = (parts.next()?, parts.next()?, parts.next()?);
        let (base, most, used) = match kinds {
            "" => ("sys/fs/cgroup", "memory.max", "memory.current"),
            kinds if kinds.split(',').any(|kind| kind == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        // In a container its own group may be the root of what is seen.
        let base = root.join(base);
        let mut place = Path::new(place.trim_start_matches('/'));
        loop {
            let at = base.join(place);
            if let (Some(most), Some(used)) = (number(&at.join(most)), number(&at.join(used))) {
                let left = most.saturating_sub(used);
                least = Some(least.map_or(left, |least| least.min(left)));
            }
            match place.parent() {
                Some(parent) => place = parent,
                None => break,
            }
        }
    }
    least
}

/// What limits of the process leave.
fn process(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/self/status")).ok()?;
    let used = |word: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(word))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    };
    let (all, data) = (used("VmSize:")?, used("VmData:")?);
    let left = |resource, used: u64| Some(getrlimit(resource).current?.saturating_sub(used));
    let threads = arenas(std::env::var(ARENAS).ok().as_deref()) * ARENA_BYTES;
    [left(Resource::As, all + threads), left(Resource::Data, data)].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_half_of_what_is_free() {
        assert_eq!(flows_in(Some((4 << 30) + ELSE_BYTES)), 1 << 20);
        assert_eq!(flows_in(Some((600 << 20) + ELSE_BYTES)), 153_600);
        for little in [0, ELSE_BYTES, ELSE_BYTES + (1 << 20)] {
            assert_eq!(flows_in(Some(little)), FLOWS_LEAST as u32);
        }
        assert_eq!((flows_in(None), flows_in(Some(u64::MAX))), (FLOWS_MOST, FLOWS_MOST));
        assert_eq!((bundles(1024), bundles(1 << 20)), (16 << 20, 512 << 20));
    }

    #[test]
    fn arenas_are_as_many_as_the_environment_says() {
        for (said, arenas) in
            [(None, 16), (Some("2"), 2), (Some("0"), 1), (Some("99"), 16), (Some("x"), 16)]
        {
            assert_eq!(super::arenas(said), arenas, "{said:?}");
        }
    }

    #[test]
    fn descriptors_are_left_for_what_must_go_on() {
        assert_eq!(left(1024, 22, 1, 2), 1024 - 22 - 96 - 2 - 4);
        assert_eq!(left(64, 22, 1, 2), 4);
        assert!(left(u64::MAX, 0, 0, 0) > 1 << 60);
    }

    #[test]
    fn the_least_of_all_groups_counts() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!((group(dir.path()), available(dir.path())), (None, None));
        write("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:     50 kB\n");
        write("proc/self/cgroup", "0::/a/b\n");
        write("sys/fs/cgroup/a/b/memory.max", "max\n");
        write("sys/fs/cgroup/a/b/memory.current", "10\n");
        assert_eq!((available(dir.path()), group(dir.path())), (Some(51_200), None));
        write("sys/fs/cgroup/a/memory.max", "1000\n");
        write("sys/fs/cgroup/a/memory.current", "400\n");
        assert_eq!(group(dir.path()), Some(600));
        write("sys/fs/cgroup/a/b/memory.max", "200\n");
        assert_eq!(group(dir.path()), Some(190));
        write("proc/self/cgroup", "7:cpu,cpuacct:/x\n5:memory:/x\n0::/\n");
        write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "77\n");
        write("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "7\n");
        assert_eq!(group(dir.path()), Some(70));
    }

    #[test]
    fn this_machine_has_room() {
        assert!(flows() >= FLOWS_LEAST as u32);
        assert!(raise_descriptors() >= 64);
        assert!(connections(8, 1, 1) >= 4);
    }
}
