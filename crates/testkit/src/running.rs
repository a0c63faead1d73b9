//! A process of ours that runs until the test ends: a switch, mostly.
//!
//! With `MILLRACE_CONFINE=1` in the environment every switch that a test starts is confined (`run --confine`): whatever
//! tests need, a confined switch has. `MILLRACE_CONFINE_PATH` names more folders for it, with colons between them.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What all that is waited for must happen within, on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Confines the switch that this command starts, if the environment says so. Other commands stay as they are.
pub fn confined(command: &mut Command) -> &mut Command {
    let on = std::env::var("MILLRACE_CONFINE").is_ok_and(|value| value == "1");
    let more = std::env::var("MILLRACE_CONFINE_PATH").unwrap_or_default();
    let words = if on { words(command, &more) } else { Vec::new() };
    command.args(words)
}

/// What confines the switch that this command starts; nothing, if it starts none or confines it itself.
fn words(command: &Command, more: &str) -> Vec<String> {
    let is_ours = |word: &OsStr| Path::new(word).file_name() == Some(OsStr::new("millrace"));
    let all: Vec<&OsStr> =
        std::iter::once(command.get_program()).chain(command.get_args()).collect();
    // It may be behind a command of its own: `nsenter ... millrace run ...`.
    let runs = all.windows(2).any(|pair| is_ours(pair[0]) && pair[1] == "run");
    if !runs || all.iter().any(|word| *word == "--confine") {
        return Vec::new();
    }
    let folders = more.split(':').filter(|folder| !folder.is_empty());
    let folders = folders.flat_map(|folder| ["--confine-path".to_owned(), folder.to_owned()]);
    std::iter::once("--confine".to_owned()).chain(folders).collect()
}

/// A process that has said that it is ready; killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Lines of its standard error up to that word.
    pub said: String,
}

impl Running {
    /// Starts it, and waits for the line of its standard error that begins so.
    pub fn start(command: &mut Command, ready: &str) -> Running {
        let command = confined(command).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn();
        // A binary that this test has written may be open in a process that another test has just forked, until that runs its own.
        let busy = |child: &std::io::Result<Child>| {
            child.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::ExecutableFileBusy)
        };
        for _ in 0..500 {
            if !busy(&child) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            child = command.spawn();
        }
        let mut running = Running { child: child.expect("it starts"), said: String::new() };
        let mut lines = BufReader::new(running.child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        while !line.starts_with(ready) {
            line.clear();
            let len = lines.read_line(&mut line).expect("it is readable");
            assert!(len > 0, "it ended before it was ready: {}", running.said);
            running.said.push_str(&line);
        }
        // What it says from now on must not fill the pipe.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        running
    }

    /// What `--metrics` of it counts: the first line that begins so.
    ///
    /// # Panics
    /// If it exports nothing.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let at = self.said.split("metrics:").nth(1).expect("it was started with --metrics");
        let at = at.split(|c: char| c == ',' || c.is_whitespace()).next().unwrap_or_default();
        let mut stream = TcpStream::connect(at).expect("its metrics are there");
        let asked = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let mut text = String::new();
        let answer = stream.write_all(asked).and_then(|()| stream.read_to_string(&mut text));
        answer.expect("it answers");
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.rsplit_once(' ')?.1.parse().ok()
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("it was there");
    }

    /// Waits for its end: its status, if no signal has ended it.
    pub fn ended(mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it did not end within {PATIENCE:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_confined_and_nothing_else_is() {
        let of = |program: &str, args: &[&str]| words(Command::new(program).args(args), "/a:/b");
        let all = ["--confine", "--confine-path", "/a", "--confine-path", "/b"];
        assert_eq!(of("target/ci/millrace", &["run", "--port", "memory:a"]), all);
        assert_eq!(of("nsenter", &["-n", "--", "x/millrace", "run"]), all);
        assert!(of("millrace", &["run", "--confine"]).is_empty(), "it is already");
        assert!(of("millrace", &["gauge", "run"]).is_empty());
        assert!(of("docker", &["run"]).is_empty());
    }
}
