//! Signs of life: which thread of a switch stands still, and where.
//!
//! A worker is asked to answer a command that does nothing; it costs packets nothing. Other threads count their
//! rounds ([`Pulse`]), one a second at least. [`Switch::watch`] looks at all of them [`LOOKS`] times within its bound:
//! who has not moved for as many looks stands still. Looks count, not the clock: a process that was stopped and
//! continued, or a machine that slept, has lost a look, no more.
//!
//! Where a thread stands is what the kernel tells of it (`/proc/self/task/N/syscall`, `wchan`).
//!
//! Checked by: the tests below, with looks that they make themselves; `tests/watch.rs`, with a port that blocks.

use crate::switch::Switch;
use crate::workers::tid;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Looks within the bound.
pub const LOOKS: u32 = 5;
/// A thread that does long work by its nature is given so many bounds.
pub const LONG: u32 = 10;

/// A thread's sign of life.
#[derive(Clone, Debug)]
pub struct Pulse(Arc<Beats>);

#[derive(Debug)]
pub(crate) struct Beats {
    name: String,
    rounds: AtomicU64,
    /// The thread, 0 before it has said so.
    tid: AtomicI32,
    /// How many bounds it may take for a round.
    patience: u32,
}

impl Pulse {
    pub(crate) fn new(name: &str, patience: u32) -> (Pulse, Weak<Beats>) {
        let (rounds, tid) = (AtomicU64::new(0), AtomicI32::new(0));
        let beats = Arc::new(Beats { name: name.to_owned(), rounds, tid, patience });
        let weak = Arc::downgrade(&beats);
        (Pulse(beats), weak)
    }

    /// It is of the thread that calls.
    pub fn here(&self) {
        self.0.tid.store(tid(), Ordering::Relaxed);
    }

    /// One more round: the thread lives.
    pub fn beat(&self) {
        self.0.rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// A thread that stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Still {
    /// Its name.
    pub thread: String,
    /// Where it stands.
    pub place: String,
}

impl std::fmt::Display for Still {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.thread, self.place)
    }
}

/// What a look sees of a thread.
pub(crate) struct Sign {
    pub(crate) name: String,
    pub(crate) tid: i32,
    /// Changes as long as it lives.
    pub(crate) moved: u64,
    /// There is nothing that it would have to do.
    pub(crate) idle: bool,
    pub(crate) patience: u32,
}

impl Sign {
    pub(crate) fn of(beats: &Beats) -> Sign {
        Sign {
            name: beats.name.clone(),
            tid: beats.tid.load(Ordering::Relaxed),
            moved: beats.rounds.load(Ordering::Relaxed),
            idle: false,
            patience: beats.patience,
        }
    }

    fn still(&self) -> Still {
        Still { thread: self.name.clone(), place: place(self.tid) }
    }
}

/// What was seen of each thread, and how many looks ago it moved.
#[derive(Default)]
struct Seen(HashMap<(String, i32), (u64, u32)>);

impl Seen {
    /// One look; who stands still, if somebody does.
    fn look(&mut self, signs: &[Sign]) -> Option<Still> {
        let mut still = None;
        let mut seen = HashMap::with_capacity(signs.len());
        for sign in signs {
            let key = (sign.name.clone(), sign.tid);
            let looks = match self.0.get(&key) {
                Some((moved, looks)) if *moved == sign.moved && !sign.idle => looks + 1,
                _ => 0,
            };
            if looks >= LOOKS * sign.patience {
                still.get_or_insert_with(|| sign.still());
            }
            seen.insert(key, (sign.moved, looks));
        }
        // Threads that have ended are forgotten.
        self.0 = seen;
        still
    }
}

impl Switch {
    /// A sign of life for a thread of the switch's clients, which is watched from now on until the sign is dropped.
    pub fn pulse(&self, name: &str) -> Pulse {
        let (pulse, weak) = Pulse::new(name, 1);
        self.inner.add_pulse(weak);
        pulse
    }

    /// Watches all threads, until the switch stops: tells the first one that has not moved for so long, and ends.
    pub fn watch(
        &self,
        bound: Duration,
        tell: impl FnOnce(Still) + Send + 'static,
    ) -> std::io::Result<()> {
        let (weak, signals) = (Arc::downgrade(&self.inner), self.inner.signals.clone());
        let watching = move || {
            let mut seen = Seen::default();
            while !signals.is_stopping() {
                std::thread::sleep(bound / LOOKS);
                let Some(inner) = weak.upgrade() else { return };
                if let Some(still) = seen.look(&inner.signs()) {
                    if !signals.is_stopping() {
                        tell(still);
                    }
                    return;
                }
                // Whoever has answered is asked again.
                inner.ask_workers();
            }
        };
        std::thread::Builder::new().name("watchdog".into()).spawn(watching).map(|_| ())
    }

    /// Workers that have not yet done what they were told, and where they are: for who waits for them in vain.
    pub fn busy_workers(&self) -> Vec<Still> {
        self.inner.worker_signs().filter(|sign| !sign.idle).map(|sign| sign.still()).collect()
    }
}

/// Where a thread of this process is, as far as the kernel tells.
pub fn place(tid: i32) -> String {
    let read = |what: &str| std::fs::read_to_string(format!("/proc/self/task/{tid}/{what}"));
    let Ok(call) = read("syscall") else { return "the kernel does not tell where".to_owned() };
    let mut words = call.split_whitespace();
    let Some(number) = words.next().and_then(|word| word.parse::<i64>().ok()).filter(|n| *n >= 0)
    else {
        return "running, in no system call".to_owned();
    };
    let first =
        words.next().and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    let mut text = match name(number) {
        Some((name, of_descriptor)) => {
            let file = first.filter(|_| of_descriptor).and_then(descriptor);
            file.map_or_else(
                || format!("in {name}"),
                |file| format!("in {name} on {}", file.display()),
            )
        }
        None => format!("in system call {number}"),
    };
    if let Ok(function) = read("wchan")
        && !matches!(function.as_str(), "" | "0")
    {
        text.push_str(&format!(", waits in {function}"));
    }
    text
}

fn descriptor(fd: u64) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()
}

/// A system call that may wait long, and whether its first argument is a descriptor.
#[cfg(target_arch = "x86_64")]
fn name(number: i64) -> Option<(&'static str, bool)> {
    let all = [
        (0, "read", true),
        (1, "write", true),
        (7, "poll", false),
        (16, "ioctl", true),
        (17, "pread", true),
        (18, "pwrite", true),
        (19, "readv", true),
        (20, "writev", true),
        (35, "nanosleep", false),
        (44, "sendto", true),
        (45, "recvfrom", true),
        (46, "sendmsg", true),
        (47, "recvmsg", true),
        (74, "fsync", true),
        (77, "ftruncate", true),
        (202, "futex", false),
        (230, "clock_nanosleep", false),
        (271, "ppoll", false),
        (299, "recvmmsg", true),
        (307, "sendmmsg", true),
    ];
    all.iter().find(|(n, ..)| *n == number).map(|(_, name, fd)| (*name, *fd))
}

#[cfg(not(target_arch = "x86_64"))]
fn name(_: i64) -> Option<(&'static str, bool)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(name: &str, moved: u64, idle: bool, patience: u32) -> Sign {
        Sign { name: name.into(), tid: 0, moved, idle, patience }
    }

    #[test]
    fn who_has_not_moved_for_all_looks_stands_still() {
        let mut seen = Seen::default();
        for moved in 0..20 {
            // The second one has nothing to do.
            assert_eq!(seen.look(&[sign("a", moved, false, 1), sign("b", 7, true, 1)]), None);
        }
        for _ in 0..LOOKS - 1 {
            assert_eq!(seen.look(&[sign("a", 19, false, 1)]), None);
        }
        let still = seen.look(&[sign("a", 19, false, 1)]).unwrap();
        assert_eq!(still.thread, "a");
    }

    #[test]
    fn one_move_is_enough_to_be_given_the_whole_bound_again() {
        let mut seen = Seen::default();
        for round in 0..10 {
            for _ in 0..LOOKS {
                assert_eq!(seen.look(&[sign("a", round, false, 1)]), None);
            }
        }
    }

    #[test]
    fn long_work_is_given_more_bounds_and_the_dead_are_forgotten() {
        let mut seen = Seen::default();
        for _ in 0..LOOKS * LONG {
            assert_eq!(seen.look(&[sign("compile", 1, false, LONG)]), None);
        }
        assert_eq!(seen.look(&[]), None);
        assert_eq!(seen.look(&[sign("compile", 1, false, LONG)]), None, "another of the same name");
        for _ in 0..LOOKS * LONG - 1 {
            assert_eq!(seen.look(&[sign("compile", 1, false, LONG)]), None);
        }
        assert!(seen.look(&[sign("compile", 1, false, LONG)]).is_some());
    }

    #[test]
    fn the_kernel_tells_where_a_thread_waits() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            use std::io::Read;
            send.send(tid()).unwrap();
            let mut reader = reader;
            reader.read_exact(&mut [0]).unwrap();
        });
        let tid = receive.recv().unwrap();
        // Some kernels do not tell, where tracing is forbidden.
        while place(tid) == "running, in no system call" {
            std::thread::yield_now();
        }
        let place = place(tid);
        let told = place.contains("in read on pipe:") || place.contains("does not tell");
        assert!(told || cfg!(not(target_arch = "x86_64")) || place.contains("futex"), "{place}");
        std::io::Write::write_all(&mut writer, b"x").unwrap();
        waiting.join().unwrap();
    }
}
