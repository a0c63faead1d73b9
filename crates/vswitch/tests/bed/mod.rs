//! A real `ovsdb-server` with Open vSwitch's schema, a reconciler on it with a switch that remembers, and Open vSwitch's
//! tools.

// Each test file uses a part.
#![allow(dead_code)]

use ovsdb::{Client, Config};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vswitch::desired::columns;
use vswitch::fake::Fake;
use vswitch::reconcile::{LOCK, Reconciler};
use vswitch::switch::Switch;

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const SOON: Duration = Duration::from_secs(20);

fn program(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"]
        .map(|dir| Path::new(dir).join(name))
        .into_iter()
        .find(|path| path.exists())
}

pub(crate) struct Bed {
    pub(crate) dir: tempfile::TempDir,
    server: Option<Child>,
    pub(crate) fake: Arc<Fake>,
    reconciler: Option<Reconciler>,
}

impl Bed {
    /// With a switch; none where Open vSwitch's programs are not installed.
    pub(crate) fn with(fake: Fake) -> Option<Bed> {
        for name in ["ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-appctl"] {
            if program(name).is_none() || !Path::new(SCHEMA).exists() {
                println!("skipped: there is no {name} or no {SCHEMA} (package openvswitch-switch)");
                return None;
            }
        }
        let dir = tempfile::tempdir().expect("a folder");
        let db = dir.path().join("conf.db");
        let tool = program("ovsdb-tool").expect("found before");
        let made = Command::new(tool).arg("create").arg(&db).arg(SCHEMA).status();
        assert!(made.expect("ovsdb-tool").success());
        let mut bed = Bed { dir, server: None, fake: Arc::new(fake), reconciler: None };
        bed.start_server();
        assert!(bed.run("ovs-vsctl", &["--no-wait", "init"]).status.success());
        bed.start_switch();
        Some(bed)
    }

    pub(crate) fn new() -> Option<Bed> {
        Bed::with(Fake::default())
    }

    pub(crate) fn start_server(&mut self) {
        let dir = self.dir.path();
        let socket = dir.join("db.sock");
        let child = Command::new(program("ovsdb-server").expect("found before"))
            .arg(dir.join("conf.db"))
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", dir.join("ovsdb.ctl").display()))
            .args(["--no-chdir", "-vconsole:off"])
            .stdout(Stdio::null())
            .spawn();
        self.server = Some(child.expect("ovsdb-server starts"));
        let until = Instant::now() + SOON;
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < until, "ovsdb-server does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn kill_server(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().expect("it runs");
            server.wait().expect("it ends");
        }
    }

    /// The reconciler begins, with a switch that knows nothing yet.
    pub(crate) fn start_switch(&mut self) {
        let remote = format!("unix:{}", self.dir.path().join("db.sock").display());
        let mut config = Config::new(remote.parse().expect("a remote"), "Open_vSwitch");
        config.lock = Some(LOCK.to_owned());
        let client = Client::start(columns::follow(config)).expect("a thread");
        let switch: Arc<dyn Switch> = self.fake.clone();
        let reconciler = Reconciler::start(client, switch, self.dir.path().to_owned());
        self.reconciler = Some(reconciler.expect("a thread"));
        assert!(self.reconciler().wait_ready(SOON), "no configuration is reached");
    }

    /// It ends, and the switch with all that it had.
    pub(crate) fn stop_switch(&mut self) {
        drop(self.reconciler.take());
        self.fake = Arc::default();
    }

    pub(crate) fn reconciler(&self) -> &Reconciler {
        self.reconciler.as_ref().expect("it runs")
    }

    /// A tool of Open vSwitch, with this folder as its run directory.
    pub(crate) fn run(&self, name: &str, words: &[&str]) -> Output {
        let output = Command::new(program(name).expect("found before"))
            .env("OVS_RUNDIR", self.dir.path())
            .env("OVS_SYSCONFDIR", self.dir.path())
            .arg("--timeout=20")
            .args(words)
            .output();
        output.expect("it runs")
    }

    /// `ovs-vsctl` with these words, which must succeed. The answer without the last line's end.
    pub(crate) fn vsctl(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let output = self.run("ovs-vsctl", &words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ovs-vsctl {line}: {said}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// What it says on standard error, whether or not it fails.
    pub(crate) fn vsctl_says(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        String::from_utf8_lossy(&self.run("ovs-vsctl", &words).stderr).trim_end().to_owned()
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut(&Bed) -> bool) {
        let until = Instant::now() + SOON;
        while !is_so(self) {
            assert!(Instant::now() < until, "never: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Numbers of a bridge's interfaces.
    pub(crate) fn numbers(&self, bridge: &str) -> Vec<(String, u32)> {
        let held = self.fake.held();
        let has = &held.bridges[bridge];
        has.interfaces.iter().map(|(name, (number, _))| (name.clone(), *number)).collect()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        drop(self.reconciler.take());
        self.kill_server();
    }
}
