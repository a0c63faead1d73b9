//! Nothing fails in silence, and nobody who does not read the log holds the switch up.

use crate::bed::*;
use openflow::*;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// Nobody listens there; somebody does, and says nothing or what is no OpenFlow.
#[test]
fn whatever_keeps_a_controller_away_is_said_once_and_counted() {
    let (mute, other) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
    let (mute, other) = (mute.unwrap(), other.unwrap());
    let at = |listener: &TcpListener| format!("tcp:{}", listener.local_addr().unwrap());
    let (refused, mute_at, other_at) = ("tcp:127.0.0.1:1", at(&mute), at(&other));
    let targets = [refused, &mute_at, &other_at].map(|target| ["--controller", target]).concat();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = mute.accept() {
            kept.push(stream);
        }
    });
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = other.accept() {
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let switch = Switch::start(&targets);
    let not_reached = |target: &str| {
        let log = switch.log.lock().unwrap();
        let target = target.to_owned();
        log.iter().filter(|l| l.contains("is not reached") && l.contains(&target)).count()
    };
    let failed = || {
        let stats = text(&switch.ask(&["stats"]));
        let (_, rest) = stats.split_once("controller_attempts_failed=").unwrap_or(("", "0"));
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().unwrap()
    };
    let until = Instant::now() + PATIENCE;
    while failed() < 8 || [refused, &mute_at, &other_at].iter().any(|t| not_reached(t) == 0) {
        assert!(Instant::now() < until, "{} attempts failed", failed());
        std::thread::sleep(Duration::from_millis(20));
    }
    // The first warning is followed by the next after 5 s, and that by one after 50.
    let most = 3 + u32::try_from(PATIENCE.as_secs()).unwrap() / 50;
    for target in [refused, &mute_at, &other_at] {
        assert!((1..=most as usize).contains(&not_reached(target)), "{target}");
    }
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

/// What cannot even be read is named: the field of a match or an action, the action, the unknown experimenter's field.
#[test]
fn what_cannot_be_read_is_named() {
    let switch = Switch::start(&[]);
    let mut controller = switch.controller();
    // A register in a match, and in a load; a note of Nicira's; each is turned into what is not there.
    let register = 0x0001_0004_u32.to_be_bytes();
    let flow = |line: &str| {
        let context = openflow::syntax::Context::new(Version::V13);
        let flow = openflow::syntax::parse_flow(line, &context).unwrap();
        codec::encode(Version::V13, Xid(1), &Message::FlowMod(flow)).unwrap()
    };
    let load = "actions=load:5->NXM_NX_REG0[],output:2";
    let cases = [
        ("reg0=5 actions=output:2", &register[..], &[0, 1, 0x48, 4][..], "recirc_id"),
        (
            "reg0=5 actions=output:2",
            &register[..],
            &[0xff, 0xff, 2, 4, 0, 0, 0x12, 0x34],
            "header 0xffff0204",
        ),
        (load, &register[..], &[0, 1, 0x48, 4], "recirc_id"),
        (
            "actions=note:01.02.03.04.05.06",
            &[0, 0, 0x23, 0x20, 0, 8],
            &[0, 0, 0x23, 0x20, 0, 29],
            "sample",
        ),
    ];
    for (before, (line, was, is, words)) in cases.into_iter().enumerate() {
        let mut bytes = flow(line);
        let at = bytes.windows(was.len()).rposition(|window| window == was).unwrap();
        // The last: an empty match has the same octets.
        bytes[at..at + is.len()].copy_from_slice(is);
        controller.stream.write_all(&bytes).unwrap();
        let told = controller.barrier();
        assert!(matches!(told[..], [Message::Error(_)]), "{line}: {told:?}");
        let said = switch.says_again("msg=\"refused\"", before);
        assert!(said.contains(words), "{words}: {said}");
    }
}
