//! A process of ours that runs until the test ends: a switch, mostly.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What all that is waited for must happen within, on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

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
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
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
