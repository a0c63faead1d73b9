//! A process that cannot take another one's place leaves it as it was, whatever is wrong, and however late.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::running::{PATIENCE, Running};

fn millrace(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(words).stdin(Stdio::null()).output().expect("it was built for this test")
}

fn started(words: &[&str]) -> Running {
    Running::start(Command::new(env!("CARGO_BIN_EXE_millrace")).args(words), "millrace: ready")
}

fn send(running: &Running, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(running.pid() as i32).expect("it is not 0");
    rustix::process::kill_process(pid, signal).unwrap();
}

/// A switch to be taken over, its files and its control socket.
struct Bed {
    dir: tempfile::TempDir,
    old: Running,
}

impl Bed {
    fn start() -> Bed {
        Bed::with("in_port=1,actions=output:2\n", &[])
    }

    /// One with these entries and further words.
    fn with(flows: &str, words: &[&str]) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(file("flows"), flows).unwrap();
        let listen = format!("punix:{}", file("of"));
        let (flows, ctl) = (file("flows"), file("ctl"));
        let mut all = vec!["run", "--port", "memory:a", "--port", "memory:b", "--flows", &flows];
        all.extend(["--ctl", &ctl, "--listen", &listen]);
        all.extend(words);
        let old = started(&all);
        Bed { dir, old }
    }

    fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// It forwards by its entry, and controllers may come.
    fn lives(&self, why: &str) {
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(self.file("of")).is_err() {
            assert!(Instant::now() < deadline, "{why}: controllers cannot come");
            std::thread::sleep(Duration::from_millis(10));
        }
        let traced = millrace(&["trace", "in_port=1,tcp", "--ctl", &self.file("ctl"), "--json"]);
        let told: serde_json::Value = serde_json::from_slice(&traced.stdout).expect("it answers");
        assert_eq!(told["outputs"][0]["port"], 2, "{why}: {told}");
    }

    /// A new process with these words and the old one's places: it must fail.
    fn refused(&self, words: &[&str], status: i32, why: &str) {
        let (ctl, listen) = (self.file("ctl"), format!("punix:{}", self.file("of")));
        let mut all = vec!["run", "--take-over", &ctl, "--ctl", &ctl, "--listen", &listen];
        all.extend(words);
        let output = millrace(&all);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(status) && told.contains(why), "{words:?}: {told}");
        self.lives(why);
    }
}

#[test]
fn whatever_is_wrong_with_the_new_one_the_old_one_goes_on() {
    let bed = Bed::start();
    std::fs::write(bed.file("wrong"), "in_port=1,actions=outptu:2\n").unwrap();
    std::fs::write(bed.file("regular"), "precious").unwrap();
    let wrong = bed.file("wrong");
    let regular = bed.file("regular");
    let punix = format!("punix:{regular}");
    let state = bed.file("no/folder/state");
    let tx = format!("pcap:tx={}", bed.file("no/folder/tx"));
    let cases: [(&[&str], i32, &str); 17] = [
        (&["--port", "af_packet:procno0"], 1, "there is no such interface"),
        (&["--port", "af_xdp:procno0"], 1, "there is no such interface"),
        (&["--port", "pcap:rx=/nonexistent"], 1, "/nonexistent"),
        (&["--port", &tx], 1, "no/folder/tx"),
        (&["--port", "memory:a", "--port", "memory:a"], 2, "is in use"),
        (&["--port", "x:1=memory:a", "--port", "y:1=memory:b"], 2, "port number 1 is in use"),
        (&["--listen", "ptcp:0:203.0.113.1"], 1, "cannot listen on ptcp:0:203.0.113.1"),
        (&["--listen", &punix], 1, "no socket"),
        (&["--flows", "/nonexistent"], 1, "/nonexistent"),
        (&["--flows", &wrong], 1, "wrong:1: "),
        (&["--groups", &wrong], 1, "wrong:1: "),
        (
            &["--private-key", "/nonexistent", "--certificate", "/nonexistent"],
            1,
            "TLS: /nonexistent",
        ),
        (&["--port", "memory:a", "--queue", "nosuch:1,min=1M"], 2, "there is no port \"nosuch\""),
        (&["--service", "x transcoder mode=cbc"], 1, "transcoder needs direction="),
        (&["--service", "x transcoder key=00"], 2, "give key-file=PATH"),
        (&["--state", &state], 1, "cannot be written"),
        (&["--port", "memory:a", "--rx-worker", "a=7"], 2, "there is no worker 7"),
    ];
    for (words, status, why) in cases {
        bed.refused(words, status, why);
    }
    assert_eq!(std::fs::read_to_string(&regular).unwrap(), "precious");
    send(&bed.old, rustix::process::Signal::TERM);
    assert_eq!(bed.old.ended(), Some(0));
}

/// Reads an answer in parts.
fn answer(stream: &mut BufReader<UnixStream>) -> usize {
    let mut all = 0;
    loop {
        let mut len = [0; 4];
        stream.read_exact(&mut len).unwrap();
        match u32::from_le_bytes(len) as usize {
            0 => return all,
            len => {
                stream.read_exact(&mut vec![0; len]).unwrap();
                all += len;
            }
        }
    }
}

#[test]
fn one_that_goes_away_at_any_step_before_the_last_is_as_if_it_had_not_come() {
    let bed = Bed::start();
    let steps = ["entries", "connections", "changes", "stop", "services", "changes"];
    for count in 0..=steps.len() {
        // The one before may not have been noticed to have gone.
        let deadline = Instant::now() + PATIENCE;
        let mut stream = loop {
            let mut stream = UnixStream::connect(bed.file("ctl")).unwrap();
            stream.write_all(b"{\"command\":\"take_over\"}\n").unwrap();
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            if line.contains("\"take_over\":6") {
                break stream;
            }
            assert!(line.contains("already") && Instant::now() < deadline, "{line}");
            std::thread::sleep(Duration::from_millis(10));
        };
        for step in &steps[..count] {
            stream.get_mut().write_all(format!("{step}\n").as_bytes()).unwrap();
            answer(&mut stream);
        }
        drop(stream);
        bed.lives(&format!("after {count} steps"));
    }
    send(&bed.old, rustix::process::Signal::TERM);
    assert_eq!(bed.old.ended(), Some(0));
}

/// 1.0's settings name no version of IP and no protocol; later versions have no such actions, and the new process has them.
#[test]
fn actions_that_only_1_0_has_are_taken_over() {
    let groups = tempfile::NamedTempFile::new().unwrap();
    let line = "group_id=1,type=all,bucket=mod_nw_dst:10.0.0.9,mod_tp_src:7,output:1\n";
    std::fs::write(groups.path(), line).unwrap();
    let flows = "in_port=1,actions=output:2\n\
                 in_port=2,udp,actions=group:1\n\
                 in_port=2,actions=clone(mod_tp_dst:99,output:1),mod_nw_src:1.2.3.4,output:1\n";
    let groups = groups.path().display().to_string();
    let bed = Bed::with(flows, &["--groups", &groups]);
    let (ctl, listen) = (bed.file("ctl"), format!("punix:{}", bed.file("of")));
    let told = |packet: &str| {
        let traced = millrace(&["trace", packet, "--ctl", &ctl]);
        let text = String::from_utf8(traced.stdout).unwrap();
        text.lines().filter(|line| line.starts_with("out ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let packets = [
        "in_port=2,udp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=5,tp_dst=53",
        "in_port=2,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=5,tp_dst=53",
        "in_port=2,arp,arp_spa=10.0.0.1,arp_tpa=10.0.0.2",
    ];
    let before = packets.map(told);
    assert!(before[1].len() == 2 && before[1][1].contains("1.2.3.4"), "{before:?}");
    assert!(before[0][0].contains("10.0.0.9") && !before[2][1].contains("1.2.3.4"), "{before:?}");
    let words = ["--port", "memory:a", "--port", "memory:b", "--listen", &listen];
    let mut all = vec!["run", "--take-over", &ctl, "--ctl", &ctl];
    all.extend(words);
    let new = started(&all);
    let Bed { dir, old } = bed;
    assert_eq!(old.ended(), Some(0));
    assert_eq!(packets.map(told), before);
    drop((new, dir));
}

/// A drain goes on with the time that it has left, and a backend that failed its checks stays out.
#[test]
fn drains_and_checks_of_backends_are_taken_over() {
    // Nobody listens there: the one check of this test's time fails.
    let service = "lb balancer backends=a,b,127.0.0.1 hosts=a=127.0.0.2,b=127.0.0.3 check=tcp check_port=9 \
                   check_interval=1h all_down=refuse";
    let service = service.replace("1h", "3600s");
    let bed = Bed::with("in_port=1,actions=output:2\n", &["--service", &service]);
    let (ctl, listen) = (bed.file("ctl"), format!("punix:{}", bed.file("of")));
    let backends = || -> Vec<serde_json::Value> {
        let told = millrace(&["service", "backends", "lb", "--json", "--ctl", &ctl]);
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).expect("it answers");
        told["services"][0]["backends"].as_array().unwrap().clone()
    };
    let deadline = Instant::now() + PATIENCE;
    while backends().iter().any(|one| one["answers"] != false) {
        assert!(Instant::now() < deadline, "all are asked: {:?}", backends());
        std::thread::sleep(Duration::from_millis(20));
    }
    let drained = millrace(&["service", "drain", "lb", "a", "--deadline", "1h", "--ctl", &ctl]);
    assert!(drained.status.success());
    let new = started(&[
        "run",
        "--take-over",
        &ctl,
        "--ctl",
        &ctl,
        "--port",
        "memory:a",
        "--port",
        "memory:b",
        "--listen",
        &listen,
        "--service",
        &service,
    ]);
    let Bed { dir, old } = bed;
    assert_eq!(old.ended(), Some(0));
    let after = backends();
    assert_eq!((&after[0]["set"], &after[1]["set"]), (&"draining".into(), &"up".into()));
    let left = after[0]["drain_seconds"].as_f64().unwrap();
    assert!((3000.0..=3600.0).contains(&left), "{left}");
    for one in &after {
        assert_eq!((&one["answers"], &one["error"]), (&false.into(), &"connection refused".into()));
        assert!(one["failures"].as_u64() >= Some(1) && one["state"] == "down", "{one}");
    }
    drop((new, dir));
}

#[test]
fn signals_that_mean_nothing_to_it_do_not_end_it_and_the_others_do_in_order() {
    use rustix::process::Signal;
    for last in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let bed = Bed::start();
        for signal in
            [Signal::HUP, Signal::USR1, Signal::USR2, Signal::PIPE, Signal::ALARM, Signal::XFSZ]
        {
            send(&bed.old, signal);
            bed.lives(&format!("{signal:?}"));
        }
        let (ctl, of) = (bed.file("ctl"), bed.file("of"));
        send(&bed.old, last);
        assert_eq!(bed.old.ended(), Some(0), "{last:?}");
        assert!(!std::path::Path::new(&ctl).exists() && !std::path::Path::new(&of).exists());
    }
}
