//! A confined switch does all that its configuration names, and nothing else; roles at its control sockets.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use testkit::running::Running;

struct Bed {
    dir: tempfile::TempDir,
    running: Running,
}

impl Bed {
    fn start(words: &[&str]) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path("own")).unwrap();
        std::fs::write(path("outside"), "secret").unwrap();
        std::fs::write(path("own/flows"), "cookie=0x77,in_port=1,actions=output:2\n").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(["run", "--port", "memory:a", "--port", "memory:b", "--flows"]);
        command.arg(path("own/flows")).arg("--ctl").arg(path("own/ctl")).args(words);
        let running = Running::start(&mut command, "millrace: ready");
        Bed { dir, running }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ask_at(&self, ctl: &str, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(words).arg("--ctl").arg(self.path(ctl));
        command.stdin(Stdio::null()).output().expect("it was built for this test")
    }

    fn done(&self, words: &[&str]) -> Value {
        let output = self.ask_at("own/ctl", &[words, &["--json"]].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one object")
    }

    fn refused_at(&self, ctl: &str, words: &[&str], why: &str) {
        let output = self.ask_at(ctl, words);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && told.contains(why), "{words:?}: {told}");
    }

    /// What the kernel says of all threads of this process.
    fn status(pid: u64, name: &str) -> Vec<String> {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let of = |thread: std::io::Result<std::fs::DirEntry>| {
            let text = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
            line.unwrap().to_owned()
        };
        threads.map(of).collect()
    }
}

#[test]
fn a_confined_switch_has_what_it_names_and_nothing_else() {
    let bed = Bed::start(&["--confine", "--log-changes", "/dev/null"]);
    let pid = u64::from(bed.running.pid());
    for (name, value) in [
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("CapEff", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
    ] {
        let threads = Bed::status(pid, name);
        assert!(threads.len() > 3 && threads.iter().all(|one| one == value), "{name}: {threads:?}");
    }
    assert!(bed.running.said.contains("msg=\"confined\""), "{}", bed.running.said);
    assert_eq!(bed.done(&["flows"])["flows"][0]["cookie"], "0x77");
    assert_eq!(bed.done(&["trace", "in_port=1,tcp"])["outputs"][0]["port"], 2);
    let outside = bed.path("outside").display().to_string();
    bed.refused_at("own/ctl", &["conntrack", "import", &outside], "Permission denied");
    let inside = bed.path("own/none").display().to_string();
    bed.refused_at("own/ctl", &["conntrack", "import", &inside], "No such file");
    bed.refused_at("own/ctl", &["port", "add", "tap:mrconfined"], "has given up CAP_NET_ADMIN");
    assert!(bed.ask_at("own/ctl", &["port", "add", "memory:c"]).status.success());
    // What takes over is confined, too.
    let told = bed.done(&["upgrade"]);
    let now = told["now"]["pid"].as_u64().unwrap();
    assert!(Bed::status(now, "Seccomp").iter().all(|one| one == "2"));
    bed.refused_at("own/ctl", &["conntrack", "import", &outside], "Permission denied");
    assert_eq!(bed.done(&["flows"])["flows"][0]["cookie"], "0x77");
    let pid = rustix::process::Pid::from_raw(now as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(bed.running.ended(), Some(0));
}

#[test]
fn a_folder_more_may_be_read_where_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let more = dir.path().display().to_string();
    let bed = Bed::start(&["--confine", "--confine-path", &more]);
    let file = dir.path().join("none").display().to_string();
    bed.refused_at("own/ctl", &["conntrack", "import", &file], "No such file");
}

#[test]
fn each_role_has_a_socket_and_does_what_it_may() {
    let bed = Bed::start(&["--ctl-readers", "0", "--ctl-operators", "0"]);
    for name in ["own/ctl.read", "own/ctl.operate"] {
        let mode = std::fs::metadata(bed.path(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o660, "{name}");
        assert!(bed.ask_at(name, &["flows"]).status.success());
        assert!(bed.ask_at(name, &["trace", "in_port=1,tcp"]).status.success());
        bed.refused_at(name, &["upgrade"], "upgrade wants the role admin");
        bed.refused_at(name, &["port", "add", "memory:c"], "port wants the role admin");
        bed.refused_at(name, &["save", "/nonexistent"], "save wants the role admin");
    }
    bed.refused_at("own/ctl.read", &["conntrack", "flush"], "and you have read");
    bed.refused_at("own/ctl.read", &["port", "remove", "b"], "port wants the role operate");
    bed.refused_at("own/ctl.read", &["capture", "--count", "1", "--text"], "the role operate");
    assert!(bed.ask_at("own/ctl.operate", &["port", "remove", "b"]).status.success());
    assert!(bed.ask_at("own/ctl", &["port", "add", "memory:c"]).status.success());
    // A new process has all three sockets, and leaves none behind.
    let told = bed.done(&["upgrade"]);
    assert!(bed.ask_at("own/ctl.read", &["flows"]).status.success());
    let pid = rustix::process::Pid::from_raw(told["now"]["pid"].as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let deadline = std::time::Instant::now() + testkit::running::PATIENCE;
    while bed.path("own/ctl").exists() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(bed.running.ended(), Some(0));
}
