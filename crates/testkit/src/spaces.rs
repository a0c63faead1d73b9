//! Network namespaces of a test, and commands in them.
//!
//! They have names that no other test has, and are gone, with what runs in them, when dropped. Where none can be made, a test
//! says so and passes. Costs: a process for each command.

use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Namespaces that belong together.
#[derive(Debug)]
pub struct Spaces {
    id: String,
    which: &'static [&'static str],
}

/// Runs a shell command and returns its output.
///
/// # Panics
/// Without a shell.
pub fn sh(command: &str) -> Output {
    Command::new("sh").args(["-c", command]).output().expect("a shell")
}

/// Runs a shell command that must succeed.
///
/// # Panics
/// If it does not.
pub fn must(command: &str) -> String {
    let output = sh(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Waits until something is so.
///
/// # Panics
/// If it is not within 30 s.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Spaces {
    /// Makes one for each of these words. None, with a line that says so, where this cannot be done.
    pub fn new(which: &'static [&'static str]) -> Option<Spaces> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("mrt-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let spaces = Spaces { id, which };
        for which in which {
            let name = spaces.ns(which);
            let made = sh(&format!("ip netns add {name} && ip -n {name} link set lo up"));
            if !made.status.success() {
                println!("skipped: needs root/CAP_NET_ADMIN");
                return None;
            }
        }
        Some(spaces)
    }

    /// The name of a namespace.
    pub fn ns(&self, which: &str) -> String {
        format!("{}-{which}", self.id)
    }

    /// Runs a command in a namespace; it must succeed.
    pub fn at(&self, which: &str, command: &str) -> String {
        must(&format!("ip netns exec {} {command}", self.ns(which)))
    }

    /// Runs `ip` in a namespace; it must succeed.
    pub fn ip(&self, which: &str, command: &str) -> String {
        must(&format!("ip -n {} {command}", self.ns(which)))
    }

    /// Runs lines of `ip -batch` in a namespace.
    ///
    /// # Panics
    /// If one of them fails.
    pub fn batch(&self, which: &str, lines: &str) {
        let file = std::env::temp_dir().join(format!("{}.batch", self.id));
        std::fs::write(&file, lines).expect("a file");
        must(&format!("ip -n {} -batch {}", self.ns(which), file.display()));
        std::fs::remove_file(&file).expect("the file");
    }

    /// Runs `work` on a thread moved into a namespace; sockets opened there stay there.
    ///
    /// # Panics
    /// If `work` does.
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

impl Drop for Spaces {
    fn drop(&mut self) {
        for which in self.which {
            sh(&format!("ip netns pids {0} | xargs -r kill; ip netns del {0}", self.ns(which)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_apart_and_gone_when_dropped() {
        let Some(spaces) = Spaces::new(&["a", "b"]) else { return };
        let (a, b) = (spaces.ns("a"), spaces.ns("b"));
        spaces.batch("a", "link add one type veth peer name two\nlink set one up\n");
        assert!(spaces.ip("a", "-br link").contains("one"));
        assert!(!spaces.at("b", "ip -br link").contains("one"));
        let listener = spaces.within("a", || std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let to = listener.local_addr().unwrap();
        let connects =
            |which: &str| spaces.within(which, || std::net::TcpStream::connect(to).is_ok());
        assert!(connects("a") && !connects("b"));
        drop(spaces);
        let left = String::from_utf8(sh("ip netns list").stdout).unwrap();
        assert!(left.lines().all(|line| !line.starts_with(&a) && !line.starts_with(&b)), "{left}");
    }
}
