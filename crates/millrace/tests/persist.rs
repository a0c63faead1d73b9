//! What controllers programmed outlives the process: killed, stopped, taken over; and what `--persist` refuses.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use testkit::running::{PATIENCE, Running};

fn millrace(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(words).stdin(Stdio::null()).output().expect("it was built for this test")
}

/// A folder with a switch's files.
struct Bed {
    dir: tempfile::TempDir,
}

impl Bed {
    fn new() -> Bed {
        let bed = Bed { dir: tempfile::tempdir().unwrap() };
        std::fs::write(bed.path("flows"), "table=9,priority=9,actions=drop\n").unwrap();
        bed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn words(&self, more: &[&str]) -> Vec<String> {
        let listen = format!("punix:{}", self.file("of"));
        let own = ["run", "--engine", "interp", "--listen", &listen];
        let files = ["--persist", &self.file("kept"), "--ctl", &self.file("ctl")].map(String::from);
        let own = own.iter().chain(more).map(|word| (*word).to_owned());
        own.chain(files).collect()
    }

    fn start(&self, more: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(self.words(more));
        Running::start(&mut command, "millrace: ready")
    }

    fn refused(&self, more: &[&str], why: &str) {
        let words = self.words(more);
        let output = millrace(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(why), "{told}");
    }

    /// The entries' cookies, in order.
    fn cookies(&self) -> Vec<String> {
        let shown = millrace(&["flows", "--json", "--ctl", &self.file("ctl")]);
        let told: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("it answers");
        let flows = told["flows"].as_array().expect("a list");
        let mut all: Vec<String> =
            flows.iter().map(|flow| flow["cookie"].as_str().unwrap().to_owned()).collect();
        all.sort();
        all
    }

    /// Adds entries of OpenFlow 1.3, and waits for the answer to the barrier behind them.
    fn program(&self, cookies: &[u64]) {
        let mut controller = UnixStream::connect(self.path("of")).unwrap();
        controller.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bytes = vec![4, 0, 0, 8, 0, 0, 0, 1];
        for cookie in cookies {
            let mut body = cookie.to_be_bytes().to_vec();
            // No mask; table 0, add; no timeouts; a priority of its own; no buffer, any port and group.
            body.extend([0; 8]);
            body.extend([0, 0, 0, 0, 0, 0]);
            body.extend((*cookie as u16).to_be_bytes());
            body.extend([0xff; 12]);
            body.extend([0; 4]);
            // An empty match.
            body.extend([0, 1, 0, 4, 0, 0, 0, 0]);
            bytes.extend([4, 14, 0, 8 + body.len() as u8, 0, 0, 0, 2]);
            bytes.extend(body);
        }
        bytes.extend([4, 20, 0, 8, 0, 0, 0, 3]);
        controller.write_all(&bytes).unwrap();
        loop {
            let mut head = [0; 8];
            controller.read_exact(&mut head).unwrap();
            let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
            controller.read_exact(&mut vec![0; length - 8]).unwrap();
            assert_ne!(head[1], 1, "an error");
            if head[1] == 21 {
                return;
            }
        }
    }
}

#[test]
fn a_killed_switch_comes_back_with_all_that_was_acknowledged() {
    let bed = Bed::new();
    let flows = bed.file("flows");
    let running = bed.start(&["--flows", &flows]);
    assert_eq!(bed.cookies(), ["0x0"]);
    bed.program(&[0x11, 0x12]);
    // By SIGKILL.
    drop(running);
    // The file is not read again: what was kept is what there is.
    std::fs::write(&flows, "table=7,cookie=0x99,actions=drop\n").unwrap();
    let running = bed.start(&["--flows", &flows]);
    assert_eq!(bed.cookies(), ["0x0", "0x11", "0x12"]);
    bed.program(&[0x13]);
    drop(running);
    let _running = bed.start(&[]);
    assert_eq!(bed.cookies(), ["0x0", "0x11", "0x12", "0x13"]);
}

#[test]
fn a_folder_is_one_switch_s() {
    let bed = Bed::new();
    let _running = bed.start(&[]);
    let other = Bed::new();
    let kept = bed.file("kept");
    let words = ["run", "--persist", &kept, "--ctl", &other.file("ctl")];
    let output = millrace(&words);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let why = "is in use by another process; stop it, or choose another folder";
    assert!(output.status.code() == Some(1) && told.contains(why), "{told}");
}

#[test]
fn what_a_switch_that_takes_over_is_told_is_kept() {
    let bed = Bed::new();
    let old = bed.start(&[]);
    bed.program(&[0x21]);
    let ctl = bed.file("ctl");
    let new = bed.start(&["--take-over", &ctl]);
    assert_eq!(old.ended(), Some(0));
    bed.program(&[0x22]);
    assert_eq!(bed.cookies(), ["0x21", "0x22"]);
    drop(new);
    let running = bed.start(&[]);
    assert_eq!(bed.cookies(), ["0x21", "0x22"]);
    // A new one that fails leaves the folder with the running one.
    bed.refused(&["--take-over", &ctl, "--flows", "/nonexistent"], "/nonexistent");
    bed.program(&[0x23]);
    drop(running);
    let _running = bed.start(&[]);
    assert_eq!(bed.cookies(), ["0x21", "0x22", "0x23"]);
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let bed = Bed::new();
    let (p4, kept) = (bed.file("program.p4"), bed.file("kept"));
    let output = millrace(&["run", "--p4", &p4, "--persist", &kept]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let why = "--persist keeps what OpenFlow controllers program";
    assert!(output.status.code() == Some(2) && told.contains(why), "{told}");
    bed.refused(&["--persist-sync", "often"], "--persist-sync often: always, never, or seconds");
}
