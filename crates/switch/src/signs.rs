//! A thread's sign of life, and where a thread stands.

use crate::workers::tid;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

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

    pub(crate) fn still(&self) -> Still {
        Still { thread: self.name.clone(), place: place(self.tid) }
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
