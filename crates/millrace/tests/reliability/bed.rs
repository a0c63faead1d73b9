//! A switch in a process of its own, and a controller that speaks to it.

use openflow::codec::{self, Frame};
use openflow::{
    Action, FieldId, FlowMod, Hello, Instruction, Match, Message, PortNo, Version, VersionSet, Xid,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::running::confined;

/// What all that is waited for must happen within, on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");

/// A switch on memory ports, ended when dropped.
pub(crate) struct Switch {
    pub(crate) child: Child,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
}

impl Switch {
    pub(crate) fn spawn(
        mut command: Command,
        words: &[&str],
    ) -> (Child, tempfile::TempDir, ChildStderr) {
        let dir = tempfile::tempdir().unwrap();
        let of = format!("punix:{}", dir.path().join("of").display());
        command.args(["run", "--port", "left=memory:a", "--port", "right=memory:b"]);
        command.args(["--listen", &of, "--ctl"]).arg(dir.path().join("ctl")).args(words);
        confined(&mut command).env_remove("RUST_LOG").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        (child, dir, stderr)
    }

    /// Its log is read all the time.
    pub(crate) fn start(words: &[&str]) -> Switch {
        Switch::start_by(Command::new(MILLRACE), words)
    }

    pub(crate) fn start_by(command: Command, words: &[&str]) -> Switch {
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
    pub(crate) fn says(&self, words: &str) -> String {
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

    /// The line with these words that comes behind so many others of the kind.
    pub(crate) fn says_again(&self, words: &str, before: usize) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let log = self.log.lock().unwrap();
            if let Some(line) = log.iter().filter(|line| line.contains(words)).nth(before) {
                return line.clone();
            }
            assert!(Instant::now() < until, "{words}: not {before} times among {log:#?}");
            drop(log);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn ask(&self, words: &[&str]) -> Output {
        let mut command = Command::new(MILLRACE);
        command.args(words).arg("--ctl").arg(self.path("ctl")).stdin(Stdio::null());
        command.output().unwrap()
    }

    pub(crate) fn controller(&self) -> Controller {
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

pub(crate) struct Controller {
    pub(crate) stream: UnixStream,
    pub(crate) input: Vec<u8>,
    pub(crate) xid: u32,
}

impl Controller {
    pub(crate) fn new(stream: UnixStream) -> Controller {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut controller = Controller { stream, input: Vec::new(), xid: 7 };
        let versions = Some(VersionSet::of(&[Version::V13]));
        controller.send(&Message::Hello(Hello { versions }));
        controller.barrier();
        controller
    }

    pub(crate) fn send(&mut self, message: &Message) -> Xid {
        self.xid += 1;
        let bytes = codec::encode(Version::V13, Xid(self.xid), message).unwrap();
        self.stream.write_all(&bytes).unwrap();
        Xid(self.xid)
    }

    /// What came before the answer to a barrier.
    pub(crate) fn barrier(&mut self) -> Vec<Message> {
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

pub(crate) fn flow(n: u32) -> FlowMod {
    let matching = Match::new().with(FieldId::EthDst, n.into());
    let output = Instruction::ApplyActions(vec![Action::output(PortNo(2))]);
    FlowMod { cookie: 0xabc, ..FlowMod::add(matching, [output].into_iter().collect()) }
}

pub(crate) fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}
