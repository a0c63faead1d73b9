//! Two network namespaces joined by a cable, `v0` to `v1`.
#![allow(dead_code, unreachable_pub)]

use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The namespaces; deleted when dropped.
pub struct Lab {
    id: String,
}

/// Runs a shell command and returns its output.
pub fn sh(command: &str) -> Output {
    Command::new("sh").args(["-c", command]).output().expect("a shell")
}

/// Runs a shell command that must succeed.
pub fn must(command: &str) -> String {
    let output = sh(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Lab {
    /// `None`, with a line that says so, where this cannot be done.
    pub fn new() -> Option<Lab> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("mru-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let lab = Lab { id };
        for which in ["a", "b"] {
            let name = lab.ns(which);
            let made = sh(&format!("ip netns add {name} && ip -n {name} link set lo up"));
            if !made.status.success() {
                println!("skipped: needs root/CAP_NET_ADMIN");
                return None;
            }
        }
        let (a, b) = (lab.ns("a"), lab.ns("b"));
        must(&format!("ip link add v0 netns {a} type veth peer name v1 netns {b}"));
        lab.ip("a", "link set v0 address 02:00:00:00:00:0a up");
        lab.ip("b", "link set v1 address 02:00:00:00:00:0b up");
        lab.ip("a", "addr add 10.1.0.1/24 dev v0");
        lab.ip("b", "addr add 10.1.0.2/24 dev v1");
        lab.ip("a", "addr add fd01::1/64 dev v0 nodad");
        lab.ip("b", "addr add fd01::2/64 dev v1 nodad");
        Some(lab)
    }

    /// The name of a namespace.
    pub fn ns(&self, which: &str) -> String {
        format!("{}-{which}", self.id)
    }

    /// Runs `ip` in a namespace; it must succeed.
    pub fn ip(&self, which: &str, command: &str) -> String {
        must(&format!("ip -n {} {command}", self.ns(which)))
    }

    /// Runs lines of `ip -batch` in a namespace.
    pub fn batch(&self, which: &str, lines: &str) {
        let file = std::env::temp_dir().join(format!("{}.batch", self.id));
        std::fs::write(&file, lines).expect("a file");
        must(&format!("ip -n {} -batch {}", self.ns(which), file.display()));
        std::fs::remove_file(&file).expect("the file");
    }

    /// Runs `work` on a thread moved into a namespace; sockets opened there stay there.
    pub fn within<T: Send>(&self, which: &str, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.ns(which));
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                let file = std::fs::File::open(path).expect("a namespace");
                rustix::thread::move_into_link_name_space(file.as_fd(), None).expect("setns");
                work()
            });
            inside.join().expect("the work inside the namespace")
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for which in ["a", "b"] {
            sh(&format!("ip netns del {}", self.ns(which)));
        }
    }
}
