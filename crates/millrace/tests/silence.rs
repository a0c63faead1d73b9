//! Nothing fails in silence, and nobody who does not read the log holds the switch up.

use openflow::codec::{self, Frame};
use openflow::{
    Action, ErrorCode, ErrorKind, FieldId, FlowMod, FlowModCommand, Hello, Instruction, Match,
    Message, PortNo, TableId, Version, VersionSet, Xid,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What all that is waited for must happen within, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");

/// A switch on memory ports, ended when dropped.
struct Switch {
    child: Child,
    dir: tempfile::TempDir,
    log: Arc<Mutex<Vec<String>>>,
}

impl Switch {
    fn spawn(mut command: Command, words: &[&str]) -> (Child, tempfile::TempDir, ChildStderr) {
        let dir = tempfile::tempdir().unwrap();
        let of = format!("punix:{}", dir.path().join("of").display());
        command.args(["run", "--port", "left=memory:a", "--port", "right=memory:b"]);
        command.args(["--listen", &of, "--ctl"]).arg(dir.path().join("ctl")).args(words);
        command.env_remove("RUST_LOG").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        (child, dir, stderr)
    }

    /// Its log is read all the time.
    fn start(words: &[&str]) -> Switch {
        Switch::start_by(Command::new(MILLRACE), words)
    }

    fn start_by(command: Command, words: &[&str]) -> Switch {
        let (child, dir, stderr) = Switch::spawn(command, words);
        let log = Arc::<Mutex<Vec<String>>>::default();
        let to = log.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                to.lock().unwrap().push(line);
            }
        });
        let switch = Switch { child, dir, log };
        switch.says("millrace: ready");
        switch
    }

    /// The first line with these words; waits for it.
    fn says(&self, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let log = self.log.lock().unwrap();
            if let Some(line) = log.iter().find(|line| line.contains(words)) {
                return line.clone();
            }
            assert!(Instant::now() < until, "{words}: not among {log:#?}");
            drop(log);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ask(&self, words: &[&str]) -> Output {
        let mut command = Command::new(MILLRACE);
        command.args(words).arg("--ctl").arg(self.path("ctl")).stdin(Stdio::null());
        command.output().unwrap()
    }

    fn controller(&self) -> Controller {
        Controller::new(UnixStream::connect(self.path("of")).unwrap())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Controller {
    stream: UnixStream,
    input: Vec<u8>,
    xid: u32,
}

impl Controller {
    fn new(stream: UnixStream) -> Controller {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut controller = Controller { stream, input: Vec::new(), xid: 7 };
        let versions = Some(VersionSet::of(&[Version::V13]));
        controller.send(&Message::Hello(Hello { versions }));
        controller.barrier();
        controller
    }

    fn send(&mut self, message: &Message) -> Xid {
        self.xid += 1;
        let bytes = codec::encode(Version::V13, Xid(self.xid), message).unwrap();
        self.stream.write_all(&bytes).unwrap();
        Xid(self.xid)
    }

    /// What came before the answer to a barrier.
    fn barrier(&mut self) -> Vec<Message> {
        let asked = self.send(&Message::BarrierRequest);
        let mut all = Vec::new();
        loop {
            while let Frame::Message { length } = codec::frame(&self.input) {
                let bytes: Vec<u8> = self.input.drain(..length).collect();
                let (xid, message) = codec::decode(Version::V13, &bytes).unwrap();
                if xid == asked {
                    return all;
                }
                all.push(message);
            }
            let mut chunk = [0; 4096];
            let count = self.stream.read(&mut chunk).unwrap();
            assert!(count > 0, "closed");
            self.input.extend_from_slice(&chunk[..count]);
        }
    }
}

fn flow(n: u32) -> FlowMod {
    let matching = Match::new().with(FieldId::EthDst, n.into());
    let output = Instruction::ApplyActions(vec![Action::output(PortNo(2))]);
    FlowMod { cookie: 0xabc, ..FlowMod::add(matching, [output].into_iter().collect()) }
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    let (child, dir, stderr) = Switch::spawn(Command::new(MILLRACE), &[]);
    let mut switch = Switch { child, dir, log: Arc::default() };
    // As far as the line that says it is ready, and no further; the pipe stays open.
    let mut reader = BufReader::new(stderr);
    let mut line = String::new();
    while !line.contains("millrace: ready") {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0);
    }
    let mut controller = switch.controller();
    // Requests that are refused are logged, each with its bytes of text, more than a pipe holds.
    let wrong = FlowMod { table_id: TableId(255), ..flow(1) };
    for _ in 0..20 {
        (0..500).for_each(|_| {
            controller.send(&Message::FlowMod(wrong.clone()));
        });
        assert_eq!(controller.barrier().len(), 500, "all are refused");
    }
    for _ in 0..400 {
        drop(switch.controller());
    }
    controller.send(&Message::FlowMod(flow(1)));
    assert!(controller.barrier().is_empty());
    assert!(text(&switch.ask(&["stats"])).contains("requests_refused=10000"));
    // Told to end, it ends.
    let pid = switch.child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    let until = Instant::now() + PATIENCE;
    while switch.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(reader);
}

#[test]
fn what_is_refused_is_said_with_its_words_and_what_comes_again_is_counted() {
    let switch = Switch::start(&[]);
    assert!(switch.says("nothing is programmed").contains("level=warn"));
    let mut controller = switch.controller();
    let wrong = FlowMod { table_id: TableId(255), ..flow(1) };
    controller.send(&Message::FlowMod(wrong.clone()));
    controller.barrier();
    let line = switch.says("msg=\"refused\"");
    assert!(line.starts_with("time=20") && line.contains("level=info"), "{line}");
    assert!(line.contains("there is no table 255"), "{line}");
    (0..300).for_each(|_| {
        controller.send(&Message::FlowMod(wrong.clone()));
    });
    controller.barrier();
    assert!(switch.says("more suppressed").contains(": refused"));
}

#[test]
fn changes_are_said_summed_up_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("changes");
    let switch = Switch::start(&["--log-changes", &kept.display().to_string()]);
    let mut controller = switch.controller();
    (0..500).for_each(|n| {
        controller.send(&Message::FlowMod(flow(n)));
    });
    let all = FlowMod { command: FlowModCommand::Delete, matching: Match::new(), ..flow(0) };
    controller.send(&Message::FlowMod(FlowMod { cookie: 0, ..all }));
    assert!(controller.barrier().is_empty());
    let first = switch.says("msg=\"flow_mod add\"");
    assert!(first.contains("peer=unix") && first.contains("actions=output:2"), "{first}");
    let sum = switch.says("flow_mods in the last");
    assert!(sum.contains(" adds, 1 delete)"), "{sum}");
    let until = Instant::now() + PATIENCE;
    let lines = || std::fs::read_to_string(&kept).unwrap().lines().count();
    while lines() < 501 {
        assert!(Instant::now() < until, "{} of 501 are kept", lines());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn there_are_no_more_entries_than_allowed() {
    let switch = Switch::start(&["--flows-max", "3"]);
    let mut controller = switch.controller();
    (0..3).for_each(|n| {
        controller.send(&Message::FlowMod(flow(n)));
    });
    assert!(controller.barrier().is_empty());
    controller.send(&Message::FlowMod(FlowMod { table_id: TableId(9), ..flow(9) }));
    let told = controller.barrier();
    let [Message::Error(error)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(error.kind, ErrorKind::Code(ErrorCode::FmfcTableFull));
    switch.says("3 flow entries in all tables, which is what --flows-max allows");
}

#[test]
fn traces_tell_entries_and_ports_by_their_names() {
    let switch = Switch::start(&[]);
    let mut controller = switch.controller();
    let matching = Match::new().with(FieldId::InPort, 1);
    controller.send(&Message::FlowMod(FlowMod { priority: 77, matching, ..flow(1) }));
    controller.barrier();
    let trace = |port: &str| switch.ask(&["trace", "udp", "--in-port", port]);
    let told = text(&trace("1"));
    assert!(told.contains("in 1 (left):") && told.contains("out 2 (right):"), "{told}");
    assert!(told.contains("priority 77, cookie 0xabc, 0 packets, 0 bytes"), "{told}");
    let refused = trace("9");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("there is no port 9; there are: 1 (left), 2 (right)"));
    let stats = text(&switch.ask(&["stats"]));
    assert!(stats.contains("1 left") && stats.contains("2 right"), "{stats}");
}

#[test]
fn controllers_that_are_not_reached_are_named() {
    let switch = Switch::start(&["--controller", "tcp:no-such-host.invalid:6653"]);
    let line = switch.says("the controller is not reached");
    assert!(line.contains("level=warn") && line.contains("no-such-host.invalid"), "{line}");
    assert!(text(&switch.ask(&["stats"])).contains("controller_attempts_failed="));
}

#[test]
fn ports_are_called_by_the_name_that_they_were_given() {
    let may = Command::new("unshare").args(["--net", "test", "-c", "/dev/net/tun"]).status();
    if !may.is_ok_and(|status| status.success()) {
        println!("skipped: needs root and /dev/net/tun");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--net", MILLRACE]);
    let switch = Switch::start_by(command, &["--port", "wan=tap:tap7"]);
    let (pid, delete) = (switch.child.id().to_string(), ["-n", "ip", "link", "delete", "tap7"]);
    let deleted = Command::new("nsenter").args(["-t", &pid]).args(delete).status();
    assert!(deleted.unwrap().success());
    let line = switch.says("made it again");
    assert!(line.contains("port=wan interface=tap7"), "{line}");
}
