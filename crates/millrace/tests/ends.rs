//! What is left when a process ends, however it ends: connections of a switch that was killed, a report of a gauge
//! that was interrupted, a switch that does not come to its end.

use port::pcap;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use service::conntrack::image::Image;
use service::craft::Frame;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::running::confined;
use wire::tcp::Flags;

const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");
/// What all that is waited for must happen within, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A process, killed if the test ends early.
struct Running {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        confined(&mut command).env_remove("RUST_LOG").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let to = log.clone();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| to.lock().unwrap().push(line));
        });
        Running { child, log }
    }

    fn millrace(words: &[&str]) -> Running {
        let mut command = Command::new(MILLRACE);
        command.args(words);
        Running::start(command)
    }

    /// Whether some line has these words.
    fn has_said(&self, words: &str) -> bool {
        self.log.lock().unwrap().iter().any(|line| line.contains(words))
    }

    /// Waits for a line with these words.
    fn says(&self, words: &str) {
        until(&format!("{words}: {:#?}", self.log), || self.has_said(words));
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        until("it has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is gone already after `ended`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn write_pcap(path: &Path, frames: &[Frame]) {
    let mut writer = pcap::Writer::new(File::create(path).unwrap()).unwrap();
    for frame in frames {
        writer.write(1_000_000_000, &frame.bytes()).unwrap();
    }
    writer.flush().unwrap();
}

fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = pcap::Reader::new(File::open(path).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Ok(Some(record)) = reader.next_record() {
        frames.push(record.data.to_vec());
    }
    frames
}

const A: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 1000);
const B: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 80);

/// A firewall that lets new connections in, and what belongs to one.
const FIREWALL: &str = "table=0,tcp actions=ct(table=1)
table=1,ct_state=+trk+new,tcp,tp_dst=80,tcp_flags=+syn-ack actions=ct(commit),output:2
table=1,ct_state=+trk+est actions=output:2
";

/// A switch that is killed has written its connections some time before. They move on; the next switch takes what they
/// send then for theirs.
#[test]
fn connections_of_a_killed_switch_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let text = |name: &str| file(name).display().to_string();
    std::fs::write(file("flows"), FIREWALL).unwrap();
    let run = |input: &str, output: &str| {
        let (input, output) = (text(input), text(output));
        Running::millrace(&[
            "run",
            "--port",
            &format!("in:1=pcap:rx={input}"),
            "--port",
            &format!("out:2=pcap:tx={output}"),
            "--flows",
            &text("flows"),
            "--state",
            &text("state"),
            "--state-interval",
            "1",
            "--ctl",
            &text("ctl"),
        ])
    };
    let begins = [
        Frame::tcp(A, B, Flags::SYN, (100, 0), 0),
        Frame::tcp(B, A, Flags::SYN | Flags::ACK, (200, 101), 0),
        Frame::tcp(A, B, Flags::ACK, (101, 201), 10),
    ];
    write_pcap(&file("begins"), &begins);
    let mut first = run("begins", "first");
    first.says("millrace: ready");
    let image = || Image::read(std::fs::read(file("state")).ok()?).ok();
    until("the connection is written", || {
        image().is_some_and(|image| image.len() == 1 && image.went_on())
    });
    first.signal(Signal::KILL);
    assert_eq!(first.ended(), None, "a signal has no status");

    // Many windows later, in both directions; and of a connection that nobody knows.
    let far = 5_000_000;
    let stranger = (A.0, 1001);
    let later = [
        Frame::tcp(A, B, Flags::ACK, (111 + far, 201 + far), 10),
        Frame::tcp(B, A, Flags::ACK, (201 + far, 121 + far), 10),
        Frame::tcp(stranger, B, Flags::ACK, (7, 7), 10),
        Frame::tcp(A, B, Flags::ACK, (121 + far, 211 + far), 20),
    ];
    write_pcap(&file("later"), &later);
    let mut second = run("later", "second");
    second.says("1 connections imported");
    second.says("TCP's windows are not checked");
    let expected = [0, 1, 3].map(|i| later[i].bytes());
    until("what belongs to it passes", || {
        second.has_said("millrace: ready") && File::open(file("second")).is_ok() && {
            let frames = read_pcap(&file("second"));
            frames.len() >= expected.len()
        }
    });
    second.signal(Signal::TERM);
    assert_eq!(second.ended(), Some(0), "{:#?}", second.log);
    assert_eq!(read_pcap(&file("second")), expected);
    // That was an end in order: whoever begins next may check again.
    assert!(!image().unwrap().went_on());
    let mut third = run("later", "third");
    third.says("1 connections imported");
    third.says("millrace: ready");
    assert!(!third.has_said("TCP's windows are not checked"));
    third.signal(Signal::TERM);
    assert_eq!(third.ended(), Some(0));
}

/// Opening a pipe that nobody reads does not return, so the switch cannot come to its end by itself.
#[test]
fn a_switch_that_does_not_come_to_its_end_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let ctl = dir.path().join("ctl").display().to_string();
    let port = format!("out=pcap:tx={}", pipe.display());
    let mut hanging = Running::millrace(&["run", "--port", &port, "--ctl", &ctl]);
    hanging.says("opening a pipe waits for who reads it");
    hanging.signal(Signal::TERM);
    // A second one does not make it any worse.
    hanging.says("told to end");
    hanging.signal(Signal::INT);
    assert_eq!(hanging.ended(), Some(70), "{:#?}", hanging.log);
    hanging.says("the switch has not ended within 10 seconds");
}

/// Runs a command in a new namespace; none where that is not allowed.
fn namespace() -> Option<Running> {
    let lines = "set -e; ip link set lo up
        for i in 1 2; do ip link add s$i type veth peer name g$i; ip link set s$i up; ip link set g$i up; done
        echo made >&2; exec sleep 1000";
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", lines]);
    let may = Command::new("unshare").args(["--net", "true"]).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        println!("skipped: needs root, for network namespaces");
        return None;
    }
    let space = Running::start(command);
    space.says("made");
    Some(space)
}

fn within(space: &Running, words: &[&str]) -> Command {
    let pid = space.child.id().to_string();
    let mut command = Command::new("nsenter");
    command.args(["-t", &pid, "-n", "--", MILLRACE]).args(words).stdout(Stdio::null());
    command
}

/// A gauge and its switch, and where the report lies.
struct Gauged {
    dir: tempfile::TempDir,
    space: Running,
    _switch: Running,
    gauge: Running,
}

impl Gauged {
    fn start(modules: &[&str]) -> Option<Gauged> {
        let space = namespace()?;
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name).display().to_string();
        let switch = Running::start(within(
            &space,
            &[
                "run",
                "--port",
                "a:1=af_packet:s1",
                "--port",
                "b:2=af_packet:s2",
                "--listen",
                "ptcp:6653:127.0.0.1",
                "--ctl",
                &file("ctl"),
            ],
        ));
        switch.says("millrace: ready");
        let mut words = vec!["gauge", "run", "--switch", "tcp:127.0.0.1:6653"];
        words.extend(["--port", "a:1=af_packet:g1", "--port", "b:2=af_packet:g2", "--sizes", "64"]);
        let (report, page, junit) = (file("report.json"), file("report.html"), file("report.xml"));
        words.extend(["--out", &report, "--html", &page, "--junit", &junit]);
        modules.iter().for_each(|module| words.extend(["--module", module]));
        let gauge = Running::start(within(&space, &words));
        Some(Gauged { dir, space, _switch: switch, gauge })
    }

    fn report(&self) -> Value {
        for file in ["report.html", "report.xml"] {
            assert!(self.dir.path().join(file).exists(), "{file}: {:#?}", self.gauge.log);
        }
        let text = std::fs::read_to_string(self.dir.path().join("report.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Entries that the switch has.
    fn entries(&self) -> usize {
        let ctl = self.dir.path().join("ctl").display().to_string();
        let mut command = within(&self.space, &["stats", "--json", "--ctl", &ctl]);
        let output = command.stdout(Stdio::piped()).output().unwrap();
        let stats: Value = serde_json::from_slice(&output.stdout).unwrap();
        let tables = stats["tables"].as_array().unwrap().iter();
        tables.map(|table| table["entries"].as_u64().unwrap() as usize).sum()
    }
}

#[test]
fn an_interrupted_gauge_leaves_its_report_and_no_entry() {
    for signal in [Signal::INT, Signal::TERM] {
        let Some(mut gauged) = Gauged::start(&["echo", "loss", "statistics"]) else { return };
        gauged.gauge.says("loss");
        assert!(gauged.entries() > 0);
        gauged.gauge.signal(signal);
        assert_eq!(gauged.gauge.ended(), Some(5), "{:#?}", gauged.gauge.log);
        let report = gauged.report();
        assert_eq!(report["ended"]["how"], "interrupted", "{report:#}");
        assert_eq!(report["modules"][0]["runs"].as_array().unwrap().len(), 1, "{report:#}");
        assert_eq!(report["modules"][1]["broke"], "interrupted", "{report:#}");
        assert_eq!(report["ended"]["left_behind"], Value::Null);
        assert_eq!(gauged.entries(), 0);
    }
}

/// A link of the gauge's own that goes for good is no fault of the switch's; what was measured is told.
#[test]
fn a_gauge_whose_link_goes_leaves_its_report() {
    let Some(mut gauged) = Gauged::start(&["echo", "loss", "statistics"]) else { return };
    gauged.gauge.says("loss");
    let pid = gauged.space.child.id().to_string();
    let down = ["-n", "ip", "link", "set", "g2", "down"];
    assert!(Command::new("nsenter").args(["-t", &pid]).args(down).status().unwrap().success());
    assert_eq!(gauged.gauge.ended(), Some(6), "{:#?}", gauged.gauge.log);
    let report = gauged.report();
    assert_eq!(report["modules"][0]["runs"].as_array().unwrap().len(), 1, "{report:#}");
    let text = report.to_string();
    assert!(
        text.contains("the link of one of our ports went down") || text.contains("down"),
        "{text}"
    );
    let findings = report["modules"].as_array().unwrap().iter().flat_map(|m| {
        m["runs"].as_array().unwrap().iter().flat_map(|r| r["findings"].as_array().unwrap())
    });
    assert_eq!(findings.count(), 0, "{report:#}");
}
