//! Two members of a group, a and b, with a real broker.

use serde_json::Value;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::nats::Nats;
use testkit::running::{PATIENCE, Running};

pub(crate) struct Pair {
    pub(crate) nats: Nats,
    scheme: &'static str,
    dir: tempfile::TempDir,
    /// Where members listen.
    ports: [u16; 2],
}

impl Pair {
    /// The broker, which `nats` or `tls` reach, with these lines of configuration; none where there is no server.
    pub(crate) fn new(scheme: &'static str, server: Option<&str>) -> Option<Pair> {
        let nats = Nats::start(server)?;
        let free = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (a, b) = (free(), free());
        let ports = [&a, &b].map(|socket| socket.local_addr().unwrap().port());
        Some(Pair { nats, scheme, dir: tempfile::tempdir().unwrap(), ports })
    }

    /// A file of this test; a member's control socket has its name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a member with these words of `--replication` and these options.
    pub(crate) fn member(&self, name: &str, words: &str, options: &[&str]) -> Running {
        let (own, other, peer) = if name == "a" { (0, 1, "b") } else { (1, 0, "a") };
        let (scheme, at, ports) = (self.scheme, self.nats.at(), self.ports);
        let settings = format!(
            "group=gw member={name} server={scheme}://{at} listen=127.0.0.1:{} peer={peer}@127.0.0.1:{} interval=50ms misses=20 {words}",
            ports[own], ports[other]
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(["run", "--port", &format!("memory:pair-{name}")]);
        command.args(["--metrics", "127.0.0.1:0", "--replication", &settings, "--ctl"]);
        command.arg(self.path(name)).args(options);
        Running::start(&mut command, "millrace: ready")
    }

    /// A command to a member.
    pub(crate) fn ask(&self, name: &str, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(words).arg("--ctl").arg(self.path(name)).stdin(Stdio::null());
        command
    }

    /// What a member shows of the group; nothing while it does not answer.
    pub(crate) fn shown(&self, name: &str) -> Value {
        let output = self.ask(name, &["replication", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    pub(crate) fn until(&self, what: &str, is: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is() {
            let both = || ["a", "b"].map(|name| self.shown(name));
            assert!(Instant::now() < deadline, "{what}: {:#?}", both());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
