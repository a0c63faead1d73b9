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
        let words = self.words(more);
        self.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Without OpenFlow.
    fn start_with(&self, more: &[&str]) -> Running {
        let (kept, ctl) = (self.file("kept"), self.file("ctl"));
        let own = ["run", "--engine", "interp", "--persist", &kept, "--ctl", &ctl];
        self.run(&own.iter().chain(more).copied().collect::<Vec<_>>())
    }

    fn run(&self, words: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(words);
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
    bed.refused(&["--persist-sync", "often"], "--persist-sync often: always, never, or seconds");
}

const FORWARD: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action go(bit<9> port) { sm.egress_spec = port; }
    table ports { key = { h.h.a: exact; } actions = { go; } }
    apply { ports.apply(); }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout metadata m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

/// A switch of a P4 program that keeps its entries.
impl Bed {
    fn start_p4(&self, more: &[&str]) -> Running {
        let program = self.file("program.p4");
        let own = ["--p4", &program].iter().chain(more).copied().collect::<Vec<_>>();
        self.start_with(&own)
    }

    fn p4(&self, verb: &[&str]) -> Result<String, String> {
        let ctl = self.file("ctl");
        // Lines end the options.
        let (verb, rest) = verb.split_first().unwrap();
        let words: Vec<&str> = ["p4", verb, "--ctl", &ctl].iter().chain(rest).copied().collect();
        let output = millrace(&words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr) + &text(&output.stdout)),
        }
    }
}

#[test]
fn a_p4_program_comes_back_with_its_entries() {
    let bed = Bed::new();
    std::fs::write(bed.path("program.p4"), FORWARD).unwrap();
    std::fs::write(bed.path("entries"), "table_add ports go 1 => 2\n").unwrap();
    let entries = bed.file("entries");
    let running = bed.start_p4(&["--entries", &entries]);
    bed.p4(&["do", "table_add ports go 7 => 3"]).unwrap();
    drop(running);
    // The file is not read again.
    std::fs::write(&entries, "table_add ports go 9 => 9\n").unwrap();
    let running = bed.start_p4(&["--entries", &entries, "--p4runtime", "127.0.0.1:0"]);
    let dump = bed.p4(&["do", "table_dump ports"]).unwrap();
    assert_eq!(bed.p4(&["do", "table_num_entries ports"]).unwrap(), "2", "{dump}");
    drop(running);
    // Another program has other entries; a switch of OpenFlow has none of them.
    let words = |more: &[&str]| {
        let ctl = bed.file("ctl");
        let kept = bed.file("kept");
        let words: Vec<&str> = ["run"]
            .iter()
            .chain(more)
            .chain(&["--persist", &kept, "--ctl", &ctl])
            .copied()
            .collect();
        let output = millrace(&words);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    std::fs::write(bed.path("other.p4"), FORWARD.replace("bit<8> a", "bit<16> a")).unwrap();
    let (code, told) = words(&["--p4", &bed.file("other.p4")]);
    assert!(code == Some(1) && told.contains("has the entries of another program"), "{told}");
    let (code, told) = words(&[]);
    assert!(code == Some(1) && told.contains("was written for a P4 program"), "{told}");
    // A program that is loaded while the switch runs comes back in place of that of the start, with its files.
    let running = bed.start_p4(&[]);
    let (body, more) = FORWARD.split_at(FORWARD.find("control V").unwrap());
    std::fs::write(bed.path("rest.p4"), more).unwrap();
    let next = format!("{body}\nheader more_t {{ bit<8> z; }}\n#include \"rest.p4\"\n");
    std::fs::write(bed.path("next.p4"), next).unwrap();
    bed.p4(&["load", &bed.file("next.p4")]).unwrap();
    bed.p4(&["do", "table_add ports go 9 => 4"]).unwrap();
    let dump = |bed: &Bed| bed.p4(&["do", "table_dump ports"]).unwrap();
    let before = dump(&bed);
    drop(running);
    std::fs::remove_file(bed.path("rest.p4")).unwrap();
    let running = bed.start_p4(&[]);
    assert_eq!(bed.p4(&["do", "table_num_entries ports"]).unwrap(), "3", "{before}");
    assert!(running.said.contains("the program of the file is not used"), "{}", running.said);
    drop(running);
}
