//! The command as its users meet it: options, exit status, what goes to which output.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::running::confined;

/// What all that is waited for must happen within, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn millrace(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(words).stdin(Stdio::null()).env_remove("BLESS");
    command.output().expect("the binary was built for this test")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&out(output))
        .unwrap_or_else(|e| panic!("{e}: {}{}", out(output), err(output)))
}

#[test]
fn help_names_every_command() {
    let help = millrace(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for command in
        ["demo", "run", "trace", "stats", "explain", "test", "doctor", "gauge", "completions"]
    {
        assert!(
            out(&help).contains(&format!("\n  {command} ")),
            "{command} is missing:\n{}",
            out(&help)
        );
    }
    let version = out(&millrace(&["--version"]));
    assert!(version.starts_with("millrace "), "{version}");
}

#[test]
fn wrong_use_exits_with_2() {
    for words in [
        &["run", "--bogus"][..],
        &["nonsense"],
        &[],
        &["run", "--workers", "0"],
        &["run", "--fail-mode", "open"],
        &["run", "--cpus", "3-1"],
        &["demo", "nothing"],
        &["demo", "gateway", "--namespaces"],
        &["trace", "in_port=1,tcpp"],
    ] {
        let output = millrace(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", err(&output));
        assert!(out(&output).is_empty(), "{words:?}");
        assert!(!err(&output).is_empty(), "{words:?}");
    }
}

/// Every user of a machine sees arguments.
#[test]
fn secrets_of_services_are_no_arguments() {
    const KEY: &str = "00112233445566778899aabbccddeeff";
    let open = format!("x transcoder direction=encrypt key={KEY}");
    let lines = ["lb balancer backends=a,b key=987654321", &open, "y transcoder key=00"];
    for line in lines {
        let refused = millrace(&["run", "--port", "memory:a", "--service", line]);
        assert_eq!(refused.status.code(), Some(2), "{line}: {}", err(&refused));
        let error = err(&refused);
        assert!(error.contains("give key-file=PATH"), "{error}");
        assert!(!error.contains(KEY) && !error.contains("987654321"), "{error}");
    }
    // Before any switch is asked.
    let key = format!("key={KEY}");
    let words = ["service", "--ctl", "/nonexistent", "add", "x", "transcoder", "direction=encrypt"];
    let refused = millrace(&[&words[..], &[&key]].concat());
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
    assert!(err(&refused).contains("give key-file=PATH"), "{}", err(&refused));
    assert!(!err(&refused).contains(KEY), "{}", err(&refused));
}

#[test]
fn a_wrong_port_is_told_in_golden_words() {
    let output = millrace(&["run", "--port", "a:1=tapp:t0"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        err(&output),
        "millrace: port \"a:1=tapp:t0\": unknown kind of port \"tapp\", did you mean \"tap\"?; known: memory, pcap, tap, \
         af_packet, af_xdp, dpdk, patch, internal, geneve, vxlan, gre, erspan\n"
    );
}

#[test]
fn a_missing_file_exits_with_1() {
    for words in [
        &["run", "/nonexistent/m.toml"][..],
        &["test", "/nonexistent/a.mill"],
        &["stats", "--ctl", "/nonexistent/ctl"],
        &["trace", "tcp", "--flows", "/nonexistent/flows"],
    ] {
        let output = millrace(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", err(&output));
        assert!(err(&output).contains("/nonexistent/"), "{words:?}: {}", err(&output));
    }
}

#[test]
fn completions_are_not_empty() {
    let output = millrace(&["completions", "bash"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(out(&output).contains("_millrace"));
}

/// As in `millrace ... | head -1`.
#[test]
fn a_reader_that_has_gone_ends_a_command_quietly() {
    for words in [
        &["completions", "bash"][..],
        &["completions", "zsh"],
        &["--help"],
        &["doctor"],
        &["doctor", "--json"],
        &["service", "kinds"],
        &["gauge", "modules"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let output = command.args(words).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let output = output.spawn().unwrap().wait_with_output().unwrap();
        // A build with DPDK logs that it starts that, to try it.
        let errors = err(&output);
        let errors: Vec<&str> = errors.lines().filter(|l| !l.contains("level=info")).collect();
        assert!(errors.is_empty(), "{words:?}: {errors:?}");
        // As if SIGPIPE had ended it; clap ends its help as a success.
        assert!([Some(141), Some(0)].contains(&output.status.code()), "{words:?}: {output:?}");
    }
}

#[test]
fn doctor_reports_every_kind_of_port() {
    let output = millrace(&["doctor", "--json"]);
    let report = json(&output);
    let kinds: Vec<_> =
        report["ports"].as_array().unwrap().iter().map(|p| p["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["memory", "pcap", "tap", "af_packet", "af_xdp", "dpdk"]);
    assert_eq!(report["ports"][0]["works"], true);
    assert!(report["workers"]["cores"].as_u64().unwrap() >= 1);
    assert!(report["control_socket"]["detail"].is_string());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}

#[test]
fn every_demo_is_clean() {
    for (name, unicast) in [("gateway", true), ("firewall", true), ("learning", false)] {
        let output = millrace(&["demo", name, "--headless", "--seconds", "1", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", err(&output));
        let report = json(&output);
        let number =
            |key: &str| report[key].as_u64().unwrap_or_else(|| panic!("{name}: {key} in {report}"));
        assert_eq!(report["demo"], name);
        assert_eq!(number("errors"), 0, "{report}");
        assert!(number("verified") > 0, "{report}");
        assert_eq!(number("verified"), number("forwarded"), "{report}");
        assert!(number("flows") > 0 && report["engine"].is_string() && report["pps"].is_number());
        let dropped: u64 =
            report["dropped"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        if unicast {
            assert!(dropped > 0, "what must not pass is part of the scene: {report}");
            assert_eq!(number("packets"), number("forwarded") + dropped, "{report}");
        }
    }
}

#[test]
fn a_demos_flows_can_be_traced() {
    let flows = millrace(&["demo", "firewall", "--print-flows"]);
    assert_eq!(flows.status.code(), Some(0));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("firewall.flows");
    std::fs::write(&file, &flows.stdout).unwrap();
    let web = "in_port=2,tcp,nw_src=203.0.113.9,nw_dst=192.0.2.1,tp_src=40000,tp_dst=80";
    let traced = millrace(&["trace", web, "--flows", file.to_str().unwrap(), "--json"]);
    let traced = json(&traced);
    assert_eq!(traced["outputs"][0]["port"], 3, "{traced}");
    let telnet = web.replace("tp_dst=80", "tp_dst=23");
    let traced = json(&millrace(&["trace", &telnet, "--flows", file.to_str().unwrap(), "--json"]));
    assert_eq!(traced["outputs"].as_array().map(Vec::len), Some(0), "{traced}");
}

#[test]
fn trace_without_a_switch_shows_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("flows");
    std::fs::write(&file, "# to port 2\nin_port=1,ip,nw_dst=10.0.0.0/8,actions=dec_ttl,output:2\n")
        .unwrap();
    let packet = "in_port=1,udp,nw_dst=10.1.2.3";
    let output = millrace(&["trace", packet, "--flows", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("\nout 2: "), "{}", out(&output));
    std::fs::write(&file, "actions=outptu:2\n").unwrap();
    let output = millrace(&["trace", packet, "--flows", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("flows:1: "), "{}", err(&output));
}

#[test]
fn filetests_pass_fail_skip_and_are_blessed() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let table = "table route { key ipv4.dst lpm; actions forward drop }\n\
                 action forward(port: 32) { output port }\n\
                 entry route 10.0.0.0/8 => forward(2)\n\
                 packet in=7 eth/ipv4(dst=10.1.2.3)/udp\n";
    std::fs::write(path("good.mill"), format!("; Good.\ntest run\n{table}; expect out=2 same\n"))
        .unwrap();
    std::fs::write(path("bad.mill"), format!("; Bad.\ntest run\n{table}; expect out=3 same\n"))
        .unwrap();
    std::fs::write(
        path("other.mill"),
        format!("; Other.\ntest run\nengines asic\n{table}; expect out=3 same\n"),
    )
    .unwrap();
    let folder = dir.path().to_str().unwrap();
    let output = millrace(&["test", folder]);
    assert_eq!(output.status.code(), Some(1), "{}{}", out(&output), err(&output));
    assert!(out(&output).ends_with("\n1 passed, 1 failed, 1 skipped\n"), "{}", out(&output));
    assert!(out(&output).contains("bad.mill:7: "), "{}", out(&output));
    let report = json(&millrace(&["test", "--json", folder]));
    assert_eq!((&report["passed"], &report["failed"]), (&1.into(), &1.into()));
    assert_eq!(millrace(&["test", "--bless", folder]).status.code(), Some(0));
    assert!(std::fs::read_to_string(path("bad.mill")).unwrap().contains("; expect out=2 same"));
    assert!(out(&millrace(&["test", folder])).ends_with("\n2 passed, 0 failed, 1 skipped\n"));
}

/// A running switch; killed if the test ends early.
struct Running(Child);

impl Running {
    /// Starts it and waits for its `ready` line, which it returns.
    fn start(words: &[&str]) -> (Running, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let child = confined(command.args(words)).stdin(Stdio::null());
        let mut running = Running(child.stderr(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(running.0.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("millrace: ready") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it was ready");
        }
        // What it says from now on must not fill the pipe.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        (running, line)
    }

    /// Asks it to stop, and waits.
    fn stop(self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.ended()
    }

    /// Waits for its end.
    fn ended(mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it did not stop within {PATIENCE:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is gone already after `stop`.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn run_says_ready_answers_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (ctl, flows) = (file("ctl"), file("flows"));
    std::fs::write(&flows, "in_port=1,actions=output:2\n").unwrap();
    let words = [
        "run",
        "--port",
        "left=memory:a",
        "--port",
        "right:7=memory:b",
        "--ctl",
        &ctl,
        "--flows",
        &flows,
    ];
    let (running, ready) = Running::start(&words);
    assert!(ready.starts_with("millrace: ready ports 1="), "{ready}");
    assert!(ready.contains(&format!("ctl:{ctl}")), "{ready}");
    let stats = json(&millrace(&["stats", "--ctl", &ctl, "--json"]));
    assert_eq!(stats["ports"].as_array().map(Vec::len), Some(2), "{stats}");
    assert_eq!(stats["ports"][1]["number"], 7, "{stats}");
    let shown = millrace(&["stats", "--ctl", &ctl]);
    assert!(out(&shown).contains("memory"), "{}", out(&shown));
    assert!(out(&shown).contains("packets run by: code 0"), "{}", out(&shown));
    let explained = json(&millrace(&["explain", "--ctl", &ctl, "--json"]));
    assert!(!explained["tables"].as_array().unwrap().is_empty(), "{explained}");
    let traced = json(&millrace(&["trace", "in_port=1,tcp", "--ctl", &ctl, "--json"]));
    assert_eq!(traced["outputs"][0]["port"], 2, "{traced}");
    assert_eq!(running.stop(), Some(0));
    assert!(!Path::new(&ctl).exists(), "the control socket is left behind");
}

/// A capture of these frames.
fn write_pcap(path: &str, frames: &[Vec<u8>]) {
    let mut bytes =
        vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0];
    for frame in frames {
        bytes.extend([0; 8]);
        bytes.extend((frame.len() as u32).to_le_bytes());
        bytes.extend((frame.len() as u32).to_le_bytes());
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).unwrap();
}

/// The frames of a capture that a port has written.
fn read_pcap(path: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    // Of a port that has sent no frame the file may be empty.
    let (mut rest, mut frames) = (bytes.get(24..).unwrap_or_default(), Vec::new());
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    frames
}

/// A connection is opened through a source translation, the switch is stopped and started again: with `--state`
/// its answer passes, translated back, and that of a stranger does not; without, neither does.
#[test]
fn connections_outlive_the_switch() {
    use service::craft::Frame;
    use wire::tcp::Flags;
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (ctl, flows, state) = (file("ctl"), file("flows"), file("state"));
    let program = "in_port=1,ip,actions=ct(commit,zone=1,nat(src=192.0.2.1),table=1)\n\
                   in_port=2,ip,actions=ct(zone=1,nat,table=2)\n\
                   table=1,actions=output:2\n\
                   table=2,ct_state=+trk+est,actions=output:1\n";
    std::fs::write(&flows, program).unwrap();
    let (inside, outside) = (([10, 0, 0, 1].into(), 1000), ([198, 51, 100, 2].into(), 80));
    let translated = ([192, 0, 2, 1].into(), 1000);
    let both = Flags::SYN | Flags::ACK;
    let syn = Frame::tcp(inside, outside, Flags::SYN, (1, 0), 0).bytes();
    let answer = |to| Frame::tcp(outside, to, both, (7, 2), 0).bytes();
    let stranger = answer((translated.0, 2000));
    write_pcap(&file("syn"), &[syn]);
    write_pcap(&file("answers"), &[stranger, answer(translated)]);
    write_pcap(&file("none"), &[]);

    // Starts a switch that receives these files, and waits until it has judged so many packets.
    let start = |left: &str, right: &str, n: u64, state: Option<&str>| {
        let left = format!("left=pcap:rx={},tx={}", file(left), file("to_left"));
        let right = format!("right=pcap:rx={},tx={}", file(right), file("to_right"));
        let mut words =
            vec!["run", "--port", &left, "--port", &right, "--ctl", &ctl, "--flows", &flows];
        words.extend(state.iter().flat_map(|path| ["--state", path]));
        let (running, _) = Running::start(&words);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = json(&millrace(&["conntrack", "--ctl", &ctl, "--json"]));
            let judged = ["new", "established", "invalid"];
            if judged.iter().map(|name| shown["counters"][name].as_u64().unwrap()).sum::<u64>() == n
            {
                return running;
            }
            assert!(Instant::now() < deadline, "{shown}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(start("syn", "none", 1, Some(&state)).stop(), Some(0));
    let left_as = Frame::tcp(translated, outside, Flags::SYN, (1, 0), 0).bytes();
    assert_eq!(read_pcap(&file("to_right")), [left_as]);

    let running = start("none", "answers", 2, Some(&state));
    assert!(Path::new(&state).exists(), "it stays until there is a newer one");
    let image = file("image");
    let exported = json(&millrace(&["conntrack", "export", &image, "--ctl", &ctl, "--json"]));
    assert_eq!(exported["exported"], 1, "{exported}");
    let import = || out(&millrace(&["conntrack", "import", &image, "--ctl", &ctl]));
    assert!(import().starts_with("0 connections imported, 1 that the switch had; taken "));
    assert!(out(&millrace(&["conntrack", "flush", "--ctl", &ctl])).starts_with("1 "));
    assert!(import().starts_with("1 connections imported; taken "));
    assert_eq!(running.stop(), Some(0));
    assert_eq!(read_pcap(&file("to_left")), [answer(inside)]);

    // A damaged file is refused by the one and stops the other's start; nothing is lost by either.
    let good = std::fs::read(&state).unwrap();
    let mut damaged = good.clone();
    damaged[50] ^= 1;
    std::fs::write(&state, &damaged).unwrap();
    let refused = millrace(&["run", "--ctl", &ctl, "--state", &state]);
    assert_eq!(refused.status.code(), Some(1));
    let why = "the image is damaged: the checksum of chunk 0 at octet 32 is wrong";
    assert!(err(&refused).contains(why), "{}", err(&refused));
    assert_eq!(std::fs::read(&state).unwrap(), damaged);

    let running = start("none", "answers", 2, None);
    let refused = millrace(&["conntrack", "import", &state, "--ctl", &ctl]);
    assert!(refused.status.code() == Some(1) && err(&refused).contains(why), "{}", err(&refused));
    assert_eq!(running.stop(), Some(0));
    assert_eq!(read_pcap(&file("to_left")), Vec::<Vec<u8>>::new());

    let refused = millrace(&["run", "--p4", "a.p4", "--state", &state]);
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    for words in [&["doctor"][..], &["service", "kinds"], &["service", "kinds", "--json"]] {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let done = command.args(words).stdout(write).stderr(Stdio::piped()).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr).to_string();
        assert!(!told.contains("panicked"), "{words:?}: {told}");
    }
}

/// Another process goes on with entries and connections where the running one was.
#[test]
fn a_running_switch_is_taken_over() {
    use service::craft::Frame;
    use wire::tcp::Flags;
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (ctl, flows, groups, meters) = (file("ctl"), file("flows"), file("groups"), file("meters"));
    // A group that leads to another one, which is told behind it.
    std::fs::write(
        &groups,
        "group_id=2,type=indirect,bucket=output:2\ngroup_id=1,type=all,bucket=group:2\n",
    )
    .unwrap();
    std::fs::write(&meters, "meter=5,kbps,band=type=drop,rate=100000\n").unwrap();
    let program = "in_port=1,ip,actions=ct(commit,zone=1,nat(src=192.0.2.1),table=1)\n\
                   in_port=2,ip,actions=ct(zone=1,nat,table=2)\n\
                   table=1,cookie=0x17,hard_timeout=600,actions=meter:5,group:1\n\
                   table=2,ct_state=+trk+est,actions=output:1\n\
                   table=9,priority=5,dl_dst=00:00:00:00:00:0a,actions=output:1\n";
    // What reflects the last one comes with it, not as an entry that is in its way.
    let synchronise = ["--synchronise", "8=9,drop"];
    std::fs::write(&flows, program).unwrap();
    let (inside, outside) = (([10, 0, 0, 1].into(), 1000), ([198, 51, 100, 2].into(), 80));
    let translated = ([192, 0, 2, 1].into(), 1000);
    let syn = Frame::tcp(inside, outside, Flags::SYN, (1, 0), 0).bytes();
    let answer = |to| Frame::tcp(outside, to, Flags::SYN | Flags::ACK, (7, 2), 0).bytes();
    write_pcap(&file("syn"), &[syn]);
    write_pcap(&file("answers"), &[answer((translated.0, 2000)), answer(translated)]);
    write_pcap(&file("none"), &[]);
    let ports = |left: &str, right: &str, to: &str| {
        let left = format!("left=pcap:rx={},tx={}{to}", file(left), file("left"));
        [left, format!("right=pcap:rx={},tx={}{to}", file(right), file("right"))]
    };
    let judges = |n: u64| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = json(&millrace(&["conntrack", "--ctl", &ctl, "--json"]));
            let judged = ["new", "established", "invalid"];
            let sum: u64 = judged.iter().map(|n| shown["counters"][n].as_u64().unwrap()).sum();
            if sum == n {
                return;
            }
            assert!(Instant::now() < deadline, "{shown}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let (listen, id) = ("ptcp:0:127.0.0.1", "00000000000000ab");
    let [left, right] = ports("syn", "none", "1");
    let mut words = vec!["run", "--port", &left, "--port", &right, "--ctl", &ctl];
    words.extend(["--flows", &flows, "--groups", &groups, "--meters", &meters]);
    words.extend(["--listen", listen, "--datapath-id", id]);
    words.extend(synchronise);
    let (first, ready) = Running::start(&words);
    judges(1);

    // Whoever asks and goes away leaves it as it was, controllers included.
    let mut asks = std::os::unix::net::UnixStream::connect(&ctl).unwrap();
    asks.write_all(b"{\"command\":\"take_over\"}\n").unwrap();
    let mut told = String::new();
    BufReader::new(&asks).read_line(&mut told).unwrap();
    assert!(told.contains("result"), "{told}");
    asks.write_all(b"entries\n").unwrap();
    let [left, right] = ports("none", "none", "2");
    let also = ["run", "--port", &left, "--port", &right, "--take-over", &ctl, "--ctl", &ctl];
    let refused = millrace(&also);
    assert!(err(&refused).contains("another process is taking over already"), "{}", err(&refused));
    drop(asks);
    let target = ready.split_whitespace().find(|word| word.starts_with("ptcp:"));
    assert!(target.is_some(), "{ready}");
    judges(1);

    let [left, right] = ports("none", "answers", "2");
    let mut words = vec!["run", "--port", &left, "--port", &right, "--ctl", &ctl];
    words.extend(["--take-over", &ctl, "--listen", listen]);
    words.extend(synchronise);
    // The one that went away may not have been noticed yet.
    let deadline = Instant::now() + PATIENCE;
    let second = loop {
        let mut child = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let child = confined(child.args(&words));
        let child = child.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Running(child);
        let mut lines = BufReader::new(running.0.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("millrace: ") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it was ready");
        }
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        if line.starts_with("millrace: ready") {
            break running;
        }
        assert!(line.contains("already") && Instant::now() < deadline, "{line}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(first.ended(), Some(0), "its end is no failure");
    judges(2);
    let stats = json(&millrace(&["stats", "--ctl", &ctl, "--json"]));
    assert_eq!(stats["ports"].as_array().unwrap().len(), 2);
    assert_eq!(second.stop(), Some(0));
    let left_as = Frame::tcp(translated, outside, Flags::SYN, (1, 0), 0).bytes();
    assert_eq!(read_pcap(&file("right1")), [left_as], "by the groups and the meter");
    assert_eq!(read_pcap(&file("left2")), [answer(inside)], "the connection goes on");

    let gone = millrace(&["run", "--take-over", &ctl]);
    assert!(gone.status.code() == Some(1) && err(&gone).contains("cannot ask the switch"));
    let refused = millrace(&["run", "--p4", "a.p4", "--take-over", &ctl]);
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
}

/// A file of the project.
fn project(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_p4_program_runs_is_asked_changed_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let ctl = file("ctl");
    let (program, entries) = (project("examples/p4/router.p4"), project("examples/p4/router.txt"));
    let words = [
        "run",
        "--port",
        "memory:pa",
        "--port",
        "memory:pb",
        "--ctl",
        &ctl,
        "--p4",
        &program,
        "--entries",
        &entries,
    ];
    let (running, ready) = Running::start(&words);
    assert!(ready.contains(&format!("listening ctl:{ctl}")), "{ready}");
    let packet = "020000000100 020000000001 0800 45000014 00000000 401166d4 0a010001 0a020002";
    let trace = || json(&millrace(&["trace", "--in-port", "1", packet, "--ctl", &ctl, "--json"]));
    assert_eq!(trace()["outputs"][0]["port"], 2, "{}", trace());
    let p4 = |words: &[&str]| {
        let (what, rest) = words.split_first().unwrap();
        millrace(&[&["p4", what, "--ctl", &ctl][..], rest].concat())
    };
    let done = p4(&["do", "table_modify", "routes", "route", "1", "=>", "1", "10.1.0.1"]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    assert_eq!(trace()["outputs"][0]["port"], 1, "{}", trace());
    let dump = out(&p4(&["do", "table_dump", "routes"]));
    assert!(dump.contains("Forward.route 10.2.0.0/16 => 1 10.1.0.1  # handle 1"), "{dump}");
    let refused = p4(&["do", "table_add", "routs", "route", "1/8", "=>", "1"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("the nearest is `routes`"), "{}", err(&refused));
    // A program that is wrong leaves all as it was; one that is right takes the entries over.
    let next = file("next.p4");
    let text = std::fs::read_to_string(&program).unwrap();
    std::fs::write(&next, text.replace("h.ip.ttl <= 1", "h.ip.ttll <= 1")).unwrap();
    let wrong = p4(&["load", &next]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(err(&wrong).contains("ttll"), "{}", err(&wrong));
    assert_eq!(trace()["outputs"][0]["port"], 1);
    std::fs::write(&next, text.replace("h.ip.ttl <= 1", "h.ip.ttl <= 64")).unwrap();
    let loaded = p4(&["load", &next, "--json"]);
    assert_eq!(loaded.status.code(), Some(0), "{}", err(&loaded));
    assert_eq!(json(&loaded)["entries"], 7, "{}", out(&loaded));
    assert_eq!(trace()["outputs"].as_array().map(Vec::len), Some(0), "{}", trace());
    let explained = json(&millrace(&["explain", "--ctl", &ctl, "--json"]));
    assert!(explained.to_string().contains("Forward.neighbours"), "{explained}");
    assert_eq!(running.stop(), Some(0));
}

#[test]
fn p4_and_openflow_are_one_or_the_other() {
    let program = project("examples/p4/router.p4");
    for (words, told) in [
        (&["run", "--p4", &program, "--listen", "ptcp:0"][..], "--listen is for OpenFlow's tables"),
        (&["run", "--entries", "x"], "name it with --p4"),
        (&["trace", "tcp", "--p4", &program, "--flows", "x"], "cannot be used with"),
    ] {
        let output = millrace(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", err(&output));
        assert!(err(&output).contains(told), "{words:?}: {}", err(&output));
    }
    // Entries that are wrong are told all at once, with their lines.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("entries");
    std::fs::write(&path, "table_add routs route 1/8 => 1 2\n\ntable_add routes route 1/8 => 1\n")
        .unwrap();
    let entries = path.to_str().unwrap();
    let output = millrace(&["trace", "tcp", "--p4", &program, "--entries", entries]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err(&output).contains("entries:1: table_add: there is no table `routs`"),
        "{}",
        err(&output)
    );
    assert!(
        err(&output).contains("entries:3: table_add: `Forward.route` takes 2 arguments"),
        "{}",
        err(&output)
    );
}

/// What gauge cannot measure through, capture by, or judge, is said before anything is opened.
#[test]
fn gauge_says_what_it_cannot_use() {
    let wires = ["--port", "tap:mrg0", "--port", "tap:mrg1"];
    for (words, text) in [
        (
            &["--port", "pcap:rx=a", "--port", "tap:x"][..],
            "a file is no wire to a switch; --trace FILE",
        ),
        (&["--port", "memory:a", "--port", "tap:x"][..], "port a: memory ports lead to nowhere"),
        (
            &[&wires[..], &["--filter", "port http"]].concat()[..],
            "--filter: at 5: \"http\": expected 0 to 65535",
        ),
        (
            &[&wires[..], &["--at-most", "mine.lost=1"]].concat()[..],
            "there is no module mine; known: echo",
        ),
        (
            &[&wires[..], &["--capture", "/nowhere/a.pcap"]].concat()[..],
            "/nowhere/a.pcap: No such file",
        ),
    ] {
        let output =
            millrace(&[&["gauge", "run", "--switch", "tcp:127.0.0.1:1"][..], words].concat());
        assert!(!output.status.success() && out(&output).is_empty(), "{words:?}");
        assert!(err(&output).contains(text), "{words:?}: {}", err(&output));
    }
}

/// A table that is reached by a call that comes back, or by a group's bucket, is no table that no packet can reach.
#[test]
fn explain_tells_what_is_out_of_reach_from_what_code_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let flows = file(
        "flows",
        "table=0,priority=2,in_port=1,actions=resubmit(,1),output:3\n\
         table=0,priority=1,in_port=2,actions=group:1\n\
         table=1,in_port=1,actions=output:2\n\
         table=2,in_port=2,actions=output:3\n\
         table=3,in_port=3,actions=output:3\n",
    );
    let groups = file("groups", "group_id=1,type=indirect,bucket=actions=resubmit(,2)\n");
    let options = ["explain", "--flows", &flows, "--groups", &groups, "--json"];
    let explained = json(&millrace(&options));
    let says = |table: &str| {
        let tables = explained["tables"].as_array().unwrap();
        let one = tables.iter().find(|t| t["table"] == table).expect("it has entries");
        one["choice"].as_str().unwrap().contains("no packet can reach it")
    };
    assert_eq!(["t0", "t1", "t2", "t3"].map(says), [false, false, false, true], "{explained}");
    assert!(explained["leaves"].is_array() && explained["packets"]["code"]["packets"] == 0);
    let shown = out(&millrace(&options[..5]));
    assert!(shown.contains("packets run by: code 0"), "{shown}");
}

/// What a bench needs of groups and meters is given as files, also as a switch dumps them.
#[test]
fn a_pipeline_is_benched_with_groups_and_meters() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let flows = file("flows", "table=0,actions=meter:1,group:1\n");
    let groups = file(
        "groups",
        "OFPST_GROUP_DESC reply (OF1.5) (xid=0x2):\n group_id=1,type=ff,bucket=watch_port:2,actions=output:2\n",
    );
    let meters = file(
        "meters",
        "OFPST_METER_CONFIG reply (OF1.5) (xid=0x2):\nmeter=1 kbps stats bands=\ntype=drop rate=4000000000\n",
    );
    let case = dir.path().join("case").to_str().unwrap().to_owned();
    let made = millrace(&["bench", "use-case", "l2:10", "--out", &case, "--active-flows", "10"]);
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
    let trace = format!("1={case}/port1.pcap");
    let options =
        ["bench", "pipeline", "--flows", &flows, "--groups", &groups, "--meters", &meters];
    let rest = ["--trace", &trace, "--ports", "3", "--seconds", "0.01", "--runs", "1", "--json"];
    let benched = json(&millrace(&[&options[..], &rest].concat()));
    assert_eq!(benched["mismatches"], 0, "{benched}");
    assert_eq!(benched["verdicts"]["drop"], 0, "{benched}");
    let ports: Vec<&String> = benched["per_port"].as_object().unwrap().keys().collect();
    assert_eq!(ports, ["2"], "{benched}");
}

/// What a controller changes, and what unknown users send, is told beside traffic that goes on.
#[test]
fn changes_and_floods_are_benched_beside_traffic() {
    let short = ["--seconds", "0.2", "--runs", "1", "--pps", "20000", "--json"];
    let run = |words: &[&str]| json(&millrace(&[&["bench"][..], words, &short].concat()));
    let reactive = run(&["reactive", "--rate", "200", "--keep", "3", "--flows", "10"]);
    assert_eq!(reactive["changes"], 40, "{reactive}");
    assert_eq!(reactive["packet_outs_lost"], 0, "{reactive}");
    assert!(reactive["p50_ms"].as_f64().unwrap() <= reactive["p99_ms"].as_f64().unwrap());
    assert!(reactive["changing"]["rate"].as_f64().unwrap() > 1000.0, "{reactive}");
    let flood = run(&["flood", "2x3,20", "--active-flows", "12", "--punt-rate", "1000"]);
    for key in ["known_quiet", "known_flooded", "flood", "copies"] {
        assert!(flood[key].as_f64().unwrap() > 0.0, "{key}: {flood}");
    }
    assert_eq!(flood["interpreted"], 0, "{flood}");
    let wrong = millrace(&["bench", "flood", "no gateway"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let wrong = millrace(&["bench", "reactive", "--keep", "0"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

/// One construct of each language does what its line says; how they fare is the bench's to say.
#[test]
fn constructs_are_checked() {
    for language in ["openflow", "p4"] {
        let words = [
            "bench",
            "constructs",
            "--language",
            language,
            "--only",
            "output",
            "--check",
            "--json",
        ];
        let done = millrace(&words);
        let value: serde_json::Value = serde_json::from_str(&out(&done)).unwrap();
        assert_eq!(value["wrong"], 0, "{value}");
        let plain = &value["constructs"][0];
        assert_eq!((&plain["interpreted"], &plain["whole"]), (&0.0.into(), &0.0.into()), "{value}");
    }
    let none = millrace(&["bench", "constructs", "--only", "nothing of the kind"]);
    assert_eq!(none.status.code(), Some(2));
}

/// A P4 program with these declarations, ingress locals and statements.
fn p4(top: &str, locals: &str, apply: &str) -> String {
    format!(
        "#include <core.p4>\n#include <v1model.p4>\n{top}
        header e_t {{ bit<8> a; }} struct H {{ e_t e; }} struct M {{ bit<32> x; }}
        parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {{
            state start {{ b.extract(h.e); transition accept; }} }}
        control V(inout H h, inout M m) {{ apply {{}} }}
        control I(inout H h, inout M m, inout standard_metadata_t s) {{ {locals} apply {{ {apply} }} }}
        control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{}} }}
        control C(inout H h, inout M m) {{ apply {{}} }}
        control D(packet_out b, in H h) {{ apply {{ b.emit(h); }} }}"
    )
}

const MAIN: &str = "\nV1Switch(P(), V(), I(), E(), C(), D()) main;\n";

/// Whether a program is good: `check` says what `build` does, and tells of it by its status.
#[test]
fn p4_check_fails_for_what_build_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.p4").display().to_string();
    let with = |top, locals, apply| p4(top, locals, apply) + MAIN;
    let good = with("", "", "s.egress_spec = 1;");
    let cases: [(String, i32, &str); 9] = [
        (good.clone(), 0, ""),
        (with("", "", "bit<8> q; h.e.a = q;"), 0, "warning[uninitialised]"),
        (with("", "", "h.e.setInvalid(); m.x = (bit<32>)h.e.a;"), 0, "warning[invalid-header]"),
        // It is well typed, and no program.
        (p4("", "", ""), 1, "main"),
        (with("", "", "m.x = 5 +;"), 1, "x.p4:"),
        (with("", "", "m.y = 5;"), 1, "`y`"),
        // What is declared but not there.
        (with("extern bit<32> mine(in bit<32> x);", "", "m.x = mine(m.x);"), 1, "mine"),
        (with("", "register<bit<2048>>(4294967295) r;", "r.write(1, 1);"), 1, "4294967295"),
        ("#include \"missing.p4\"\n".to_string() + &good, 1, "missing.p4"),
    ];
    for (text, status, says) in cases {
        std::fs::write(&file, &text).unwrap();
        let check = millrace(&["p4", "check", &file]);
        let build = millrace(&["p4", "build", &file, "-o", "/dev/null"]);
        let told = err(&check);
        assert_eq!(check.status.code(), Some(status), "{text}: {told}");
        assert_eq!(build.status.code(), Some(status), "{text}: {}", err(&build));
        assert!(
            told.contains(says) && (status, says) != (0, "") || told.is_empty(),
            "{text}: {told}"
        );
        let report = millrace(&["p4", "check", "--json", &file]);
        assert_eq!(report.status.code(), Some(status), "{text}");
        let (errors, warnings) = (&json(&report)["errors"], &json(&report)["warnings"]);
        assert_eq!(errors.as_u64() > Some(0), status == 1, "{text}: {errors}");
        assert!(*warnings == u64::from(says.starts_with("warning")), "{text}: {warnings}");
    }
    // Of what cannot be read nothing is known; what is no plain file is refused, and not waited for.
    let fifo = dir.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    for (path, says) in [
        (fifo.display().to_string(), "a FIFO or pipe"),
        (dir.path().display().to_string(), "a directory"),
        ("/dev/zero".to_string(), "a character device"),
    ] {
        let check = millrace(&["p4", "check", &path]);
        assert_eq!(check.status.code(), Some(2), "{path}");
        assert!(err(&check).contains(says), "{path}: {}", err(&check));
    }
}

/// Short programs that would become large ones are refused by a running switch, which goes on with the one it has.
#[test]
fn p4_load_refuses_what_would_take_the_switch_down() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (good, bad, ctl) = (file("good.p4"), file("bad.p4"), file("ctl"));
    let table = "table t { key = { h.e.a: exact; } actions = { NoAction; } }";
    std::fs::write(&good, p4("", table, "t.apply();") + MAIN).unwrap();
    // A switch that wants too much memory is ended by the kernel.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 8000000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_millrace")]);
    command.args(["run", "--p4", &good, "--port", "memory:a", "--ctl", &ctl]);
    let child = confined(&mut command).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut switch = Ends(child);
    let mut lines = BufReader::new(switch.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("millrace: ready") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it was ready");
    }
    std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
    let doubling = |first: &str, next: &dyn Fn(u32) -> String| -> String {
        (1..40).fold(first.to_string(), |all, n| all + "\n" + &next(n))
    };
    let controls = doubling("control c0(inout bit<32> x) { apply { x = x + 1; } }", &|n| {
        let m = n - 1;
        format!(
            "control c{n}(inout bit<32> x) {{ c{m}() a; c{m}() b; apply {{ a.apply(x); b.apply(x); }} }}"
        )
    });
    let structs = doubling("struct s0 { bit<32> a; }", &|n| {
        format!("struct s{n} {{ s{m} a; s{m} b; }}", m = n - 1)
    });
    let functions = doubling("bit<32> f0(in bit<32> x) { return x + 1; }", &|n| {
        format!("bit<32> f{n}(in bit<32> x) {{ return f{m}(x) + f{m}(x + 1); }}", m = n - 1)
    });
    let macros =
        doubling("#define M0 m.x = m.x + 1;", &|n| format!("#define M{n} M{m} M{m}", m = n - 1));
    let cases = [
        ("a register", p4("", "register<bit<2048>>(4294967295) r;", "r.write(1, 1);")),
        ("counters", p4("", "counter(4294967295, CounterType.bytes) c;", "c.count(1);")),
        ("controls", p4(&controls, "c39() c;", "c.apply(m.x);")),
        ("structs", p4(&structs, "", "s39 y; y = y;")),
        ("functions", p4(&functions, "", "m.x = f39(m.x);")),
        ("macros", p4(&macros, "", "M39")),
        ("loops", p4("", "", "for (bit<32> i in 0 .. 0xffffffff) { m.x = m.x + i; }")),
    ];
    for (name, text) in cases {
        std::fs::write(&bad, text + MAIN).unwrap();
        let since = Instant::now();
        let load = millrace(&["p4", "load", "--ctl", &ctl, &bad]);
        assert_eq!(load.status.code(), Some(1), "{name}: {}", err(&load));
        let told = err(&load);
        assert!(told.contains("error[") || told.contains("millrace:"), "{name}: {told}");
        assert!(!told.contains("nonsense"), "{name}: {told}");
        assert!(since.elapsed() < PATIENCE, "{name}: {:?}", since.elapsed());
        // It goes on with what it has.
        let tables = millrace(&["p4", "do", "--ctl", &ctl, "show_tables"]);
        assert!(tables.status.success() && out(&tables).contains("I.t"), "{name}: {tables:?}");
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", switch.0.id())).unwrap();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches("kB").trim().parse().unwrap();
    assert!(kib < 2 << 20, "{kib} KiB at most");
    let load = millrace(&["p4", "load", "--ctl", &ctl, &good]);
    assert!(load.status.success(), "{}", err(&load));
}

/// A process that is killed with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
