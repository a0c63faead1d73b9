//! `notify=PROGRAM`: a program that is told of this member's role, as keepalived tells its scripts.
//!
//! It is called with six words: `active` or `standby`, the group, the member, the epoch, the reason, and the share, which is empty where the
//! whole process is active or a standby. It may tell a router to announce a
//! route, or another switch to send elsewhere. Packets wait for nothing of this: it runs beside the member.
//!
//! Bounded: one runs at a time, for [`LIMIT`] at most, and is killed then. Of roles that come meanwhile the last one of each share is told.
//! One that fails, or is killed, is counted and logged.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A program that runs for longer is killed.
const LIMIT: Duration = Duration::from_secs(5);
/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// The word that is the share.
const SHARE: usize = 5;

/// How often it ran, and how often it failed.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    ran: AtomicU64,
    failed: AtomicU64,
}

impl Runs {
    pub(crate) fn both(&self) -> (u64, u64) {
        (self.ran.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

/// A role that is told.
struct Role {
    words: [String; 6],
}

/// The thread that runs it.
pub(crate) struct Notify {
    to: Option<Sender<Role>>,
    group: String,
    member: String,
    pub(crate) runs: Arc<Runs>,
    thread: Option<JoinHandle<()>>,
}

impl Notify {
    pub(crate) fn start(program: &Path, group: &str, member: &str) -> std::io::Result<Notify> {
        Notify::with_limit(program, group, member, LIMIT)
    }

    fn with_limit(
        program: &Path,
        group: &str,
        member: &str,
        limit: Duration,
    ) -> std::io::Result<Notify> {
        let (to, from) = channel();
        let runs = Arc::new(Runs::default());
        let (program, counts) = (program.to_owned(), runs.clone());
        let thread = std::thread::Builder::new()
            .name("notify".to_owned())
            .spawn(move || run(&program, limit, &counts, &from))?;
        let (group, member) = (group.to_owned(), member.to_owned());
        Ok(Notify { to: Some(to), group, member, runs, thread: Some(thread) })
    }

    /// Tells a role.
    pub(crate) fn tell(&self, active: bool, epoch: u64, reason: &str, share: &str) {
        let role = if active { "active" } else { "standby" };
        let words =
            [role, &self.group, &self.member, &epoch.to_string(), reason, share].map(str::to_owned);
        if let Some(to) = &self.to {
            // The thread lives as long as this does.
            let _ = to.send(Role { words });
        }
    }
}

impl Drop for Notify {
    /// Waits until the last role is told, or the time for that is over.
    fn drop(&mut self) {
        drop(self.to.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(program: &PathBuf, limit: Duration, runs: &Runs, from: &Receiver<Role>) {
    let mut waiting: Vec<Role> = Vec::new();
    loop {
        if waiting.is_empty() {
            let Ok(role) = from.recv() else { return };
            waiting.push(role);
        }
        while let Ok(later) = from.try_recv() {
            waiting.retain(|role| role.words[SHARE] != later.words[SHARE]);
            waiting.push(later);
        }
        let role = waiting.remove(0);
        runs.ran.fetch_add(1, Ordering::Relaxed);
        if let Err(why) = once(program, &role, limit) {
            runs.failed.fetch_add(1, Ordering::Relaxed);
            let role = &role.words[0];
            tracing::warn!(program = %program.display(), role, why, "the group's program has failed");
        }
    }
}

fn once(program: &PathBuf, role: &Role, limit: Duration) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(&role.words).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("it does not start: {error}"))?;
    let until = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(status.to_string()),
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end within {} s", limit.as_secs_f64()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn script(folder: &Path, body: &str) -> PathBuf {
        let path = folder.join("notify");
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn it_is_told_the_last_role_and_failures_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("told");
        let body = format!("echo \"$@\" >>{}; [ \"$1\" = standby ]", told.display());
        let notify = Notify::start(&script(folder.path(), &body), "gw", "a").unwrap();
        notify.tell(false, 0, "start", "");
        let runs = notify.runs.clone();
        while runs.both().0 == 0 {
            std::thread::sleep(LOOK);
        }
        for epoch in 1..50 {
            notify.tell(false, epoch, "x", "");
            notify.tell(false, epoch, "x", "lan");
        }
        notify.tell(true, 50, "silent", "");
        drop(notify);
        let text = std::fs::read_to_string(&told).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].trim_end(), "standby gw a 0 start");
        let last =
            |share: &str| lines.iter().rfind(|line| line.ends_with(share)).unwrap().trim_end();
        assert_eq!((last(" "), last(" lan")), ("active gw a 50 silent", "standby gw a 49 x lan"));
        assert!(lines.len() < 20, "roles that are past are not told: {}", lines.len());
        assert_eq!(runs.both(), (lines.len() as u64, 1));
    }

    #[test]
    fn one_that_does_not_end_is_killed_and_one_that_is_not_there_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let program = script(folder.path(), "exec sleep 60");
        let begin = Instant::now();
        let notify = Notify::with_limit(&program, "gw", "a", Duration::from_millis(50)).unwrap();
        let runs = notify.runs.clone();
        notify.tell(true, 1, "x", "");
        drop(notify);
        assert!(begin.elapsed() < Duration::from_secs(30));
        assert_eq!(runs.both(), (1, 1));
        let notify = Notify::start(&folder.path().join("none"), "gw", "a").unwrap();
        let runs = notify.runs.clone();
        notify.tell(true, 1, "x", "");
        drop(notify);
        assert_eq!(runs.both(), (1, 1));
    }
}
