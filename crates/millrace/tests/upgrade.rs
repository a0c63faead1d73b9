//! `millrace upgrade`: another binary goes on where the running one is, or the running one goes on; and what a service
//! manager is told.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Instant;
use testkit::running::{PATIENCE, Running};

/// A running switch, and its service manager.
struct Bed {
    dir: tempfile::TempDir,
    manager: UnixDatagram,
    old: Running,
}

impl Bed {
    fn start(words: &[&str]) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let manager = UnixDatagram::bind(path("notify")).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        std::fs::write(path("flows"), "cookie=0x77,in_port=1,actions=output:2\n").unwrap();
        let configuration = format!(
            "port = [\"memory:a\", \"memory:b\"]\nflows = [{:?}]\nctl = {:?}\n",
            path("flows"),
            path("ctl")
        );
        std::fs::write(path("switch.toml"), configuration).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_millrace"), path("millrace")).unwrap();
        let mut command = Command::new(path("millrace"));
        command.arg("run").arg(path("switch.toml")).args(words);
        command.env("NOTIFY_SOCKET", path("notify")).env("WATCHDOG_USEC", "2000000");
        let old = Running::start(&mut command, "millrace: ready");
        Bed { dir, manager, old }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ask(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(words).arg("--ctl").arg(self.path("ctl"));
        command.stdin(Stdio::null()).output().expect("it was built for this test")
    }

    fn done(&self, words: &[&str]) -> Value {
        let output = self.ask(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one object")
    }

    /// A program of this text, which tells a version of ours.
    fn script(&self, name: &str, then: &str) -> String {
        let text = format!(
            "#!/bin/sh\n[ \"$1\" != --version ] || {{ echo 'millrace 99.0.0'; exit 0; }}\n{then}\n"
        );
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// It forwards, and this process does.
    fn lives(&self, pid: u32) {
        let flows = self.done(&["flows"]);
        assert_eq!(flows["flows"][0]["cookie"], "0x77", "{flows}");
        let traced = self.done(&["trace", "in_port=1,tcp"]);
        assert_eq!(traced["outputs"][0]["port"], 2, "{traced}");
        let runs = std::fs::read_link(format!("/proc/{pid}/exe"));
        assert!(runs.is_ok(), "process {pid} has gone");
    }

    /// The next word to the manager that holds this.
    fn told(&self, wanted: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut bytes = [0; 4096];
        while Instant::now() < deadline {
            let len = self.manager.recv(&mut bytes).expect("the manager is told");
            let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
            if text.contains(wanted) {
                return text;
            }
        }
        panic!("nobody said {wanted}");
    }

    fn refused(&self, words: &[&str], why: &str) {
        let output = self.ask(&[&["upgrade"], words].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && told.contains(why), "{words:?}: {told}");
        self.lives(self.old.pid());
    }
}

/// Ends a process that is not our child.
fn end(number: u64) {
    let pid = rustix::process::Pid::from_raw(number as i32).expect("it is not 0");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let deadline = Instant::now() + PATIENCE;
    // Nobody may have waited for it: it has no file any more.
    while std::fs::read_link(format!("/proc/{number}/exe")).is_ok() {
        assert!(Instant::now() < deadline, "process {number} does not end");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn another_binary_goes_on_and_the_service_manager_follows() {
    let bed = Bed::start(&[]);
    let before = bed.old.pid();
    let ready = bed.told("READY=1");
    assert!(ready.contains(&format!("MAINPID={before}\n")), "{ready}");
    assert!(ready.contains("STATUS=ready ports 1=a,2=b"), "{ready}");
    bed.told("WATCHDOG=1");
    assert_eq!(bed.done(&["upgrade", "--if-changed"])["upgraded"], false);
    // As a package does it: another file has the name.
    std::fs::copy(env!("CARGO_BIN_EXE_millrace"), bed.path("new")).unwrap();
    std::fs::rename(bed.path("new"), bed.path("millrace")).unwrap();
    let told = bed.done(&["upgrade", "--if-changed"]);
    assert_eq!(
        (&told["upgraded"], &told["before"]["pid"]),
        (&true.into(), &before.into()),
        "{told}"
    );
    assert!(told["pause_ms"].as_str().is_some_and(|ms| ms.parse::<f64>().is_ok()), "{told}");
    let now = told["now"]["pid"].as_u64().unwrap();
    assert_ne!(now, u64::from(before));
    // The old one says so before the new one speaks for itself.
    bed.told(&format!("MAINPID={now}"));
    let ready = bed.told("READY=1");
    assert!(ready.contains(&format!("MAINPID={now}\n")), "{ready}");
    bed.lives(now as u32);
    bed.told("WATCHDOG=1");
    // Once more, from the new one.
    let again = bed.done(&["upgrade"]);
    let last = again["now"]["pid"].as_u64().unwrap();
    assert_eq!(again["before"]["pid"], now);
    bed.lives(last as u32);
    let Bed { dir, old, .. } = bed;
    assert_eq!(old.ended(), Some(0));
    end(last);
    drop(dir);
}

#[test]
fn whatever_fails_the_running_one_goes_on_and_the_reason_is_told() {
    let bed = Bed::start(&[]);
    bed.refused(&["/nonexistent/millrace"], "/nonexistent/millrace: No such file");
    bed.refused(&["/etc/passwd"], "/etc/passwd does not start");
    bed.refused(&["/bin/true"], "is no millrace");
    let script = bed.script("fails", "exit 3");
    bed.refused(&[&script], "it has ended: exit status: 3");
    let script = bed.script("tells", "echo 'it has no ports' >&0; exit 1");
    bed.refused(&[&script], "the running switch goes on: it has no ports");
    // One that asks to take over, and goes away in the midst of it.
    let script = bed.script(
        "leaves",
        "exec python3 - \"$@\" <<'END'\nimport socket, sys\ns = socket.socket(socket.AF_UNIX)\n\
         s.connect(sys.argv[-1])\ns.sendall(b'{\"command\":\"take_over\"}\\n')\ns.recv(100)\n\
         s.sendall(b'stop\\n')\ns.recv(100)\nEND",
    );
    bed.refused(&[&script], "it has ended: exit status: 0");
    // The configuration is read anew, and is wrong now.
    std::fs::write(bed.path("switch.toml"), "port = [\"nosuch:a\"]\n").unwrap();
    let own = bed.path("millrace").display().to_string();
    bed.refused(&[&own], "nosuch");
    let pid = u64::from(bed.old.pid());
    let output = bed.ask(&["upgrade", "--or-reload"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("nosuch"), "{told}");
    bed.lives(pid as u32);
}

#[test]
fn a_reload_applies_the_configuration_where_the_binary_is_the_same() {
    let bed = Bed::start(&[]);
    let path = bed.path("switch.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"memory:b\"", "\"memory:b\", \"memory:c\"")).unwrap();
    let output = bed.ask(&["upgrade", "--or-reload"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ports = bed.done(&["port", "show"]);
    assert!(ports.to_string().contains("\"c\""), "{ports}");
    bed.lives(bed.old.pid());
}

#[test]
fn a_bridge_that_the_configuration_does_not_have_is_not_lost() {
    let bed = Bed::start(&[]);
    assert!(bed.ask(&["bridge", "add", "other"]).status.success());
    bed.refused(&[], "has a bridge \"other\", and the configuration has none");
}
