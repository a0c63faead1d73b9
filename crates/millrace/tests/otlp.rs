//! `--otlp` of a process: a collector that is not there is told of once, and nothing waits for it.

use serde_json::Value;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::running::{PATIENCE, Running};

#[test]
fn a_collector_that_is_not_there_is_told_of_once() {
    let dir = tempfile::tempdir().unwrap();
    let ctl = dir.path().join("ctl").display().to_string();
    // A port that nobody has: it was ours until now.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(["run", "--port", "memory:a", "--ctl", &ctl, "--metrics", "127.0.0.1:0"]);
    let running =
        Running::start(command.args(["--otlp", &format!("http://{nobody}")]), "millrace: ready");
    let ask = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let output = command.args(words).args(["--ctl", &ctl, "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let told = || {
        let events = ask(&["events"]);
        let told = events.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        told.filter(|one| one.to_string().contains("collector takes nothing")).count()
    };
    let failed = || {
        use std::io::{Read as _, Write as _};
        let at = running.said.split("metrics:").nth(1).unwrap().split(',').next().unwrap();
        let mut stream = std::net::TcpStream::connect(at.trim()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let line =
            text.lines().find(|line| line.starts_with("millrace_otlp_failed_requests_total"));
        line.unwrap().rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
    };
    let deadline = Instant::now() + PATIENCE;
    while failed() < 3 {
        assert!(Instant::now() < deadline, "it is asked again");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(told(), 1);
    // It ends at once all the same.
    let before = Instant::now();
    let pid = rustix::process::Pid::from_raw(running.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(running.ended(), Some(0));
    assert!(before.elapsed() < Duration::from_secs(20));
}
