//! Hello, versions, silence, connecting, listening, stopping.

mod common;

use common::*;
use of_channel::connection::Timing;
use of_channel::{Config, FailMode, Listen, Target};
use openflow::codec;
use openflow::{
    Action, ErrorCode, ErrorKind, FlowMod, FlowModFlags, Hello, Instruction, Match, Message,
    PortNo, TableId, Version, VersionSet, Xid,
};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::time::{Duration, Instant};

/// The raw header and body of our own making.
fn raw(version: u8, kind: u8, xid: u32, body: &[u8]) -> Vec<u8> {
    let length = (8 + body.len()) as u16;
    let mut bytes = vec![version, kind];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&xid.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Everything until the end of the stream, as raw messages.
fn rest(bed: &Bed, hello: &[u8]) -> Vec<Vec<u8>> {
    let mut stream = bed.connect();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(hello).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let mut messages = Vec::new();
    while !all.is_empty() {
        let length = usize::from(u16::from_be_bytes([all[2], all[3]]));
        messages.push(all.drain(..length).collect());
    }
    messages
}

#[test]
fn versions_are_agreed_on() {
    let bed = Bed::new(listening());
    let bitmap = |bits: u32| [&[0, 1, 0, 8][..], &bits.to_be_bytes()].concat();
    let garbage = [0, 9, 0, 5, 1, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0x12];
    let cases: &[(u8, Vec<u8>, u8)] = &[
        (4, bitmap(0x12), 4),
        (1, vec![], 1),
        (6, vec![], 6),
        (5, vec![], 5),
        (0xff, vec![], 6),
        (6, bitmap(0x72), 6),
        (6, bitmap(0x32), 5),
        (6, bitmap(0x02), 1),
        (4, vec![0, 1, 0, 99, 1], 4),
        (4, vec![0], 4),
        (1, garbage.to_vec(), 4),
        (4, bitmap(0), 4),
    ];
    for (header, body, expected) in cases {
        let mut stream = bed.connect();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // In single bytes: what is partial waits.
        for byte in raw(*header, 0, 7, body) {
            stream.write_all(&[byte]).unwrap();
        }
        stream.write_all(&raw(*expected, 2, 9, b"echo")).unwrap();
        let mut hello = [0; 16];
        stream.read_exact(&mut hello).unwrap();
        assert_eq!(hello, *raw(6, 0, 1, &bitmap(0x72)));
        let mut echo = [0; 12];
        stream.read_exact(&mut echo).unwrap();
        assert_eq!(echo, *raw(*expected, 3, 9, b"echo"), "hello {header} {body:x?}");
    }
}

#[test]
fn no_common_version_is_said_and_ends_it() {
    let bed = Bed::new(Config { protocols: VersionSet::of(&[Version::V13]), ..listening() });
    for (header, body) in [(1, vec![]), (3, vec![]), (5, vec![0, 1, 0, 8, 0, 0, 0, 0x60])] {
        // More follows: what is not read must not swallow the error.
        let mut bytes = raw(header, 0, 0x77, &body);
        bytes.extend(raw(header, 2, 2, &[0; 5000]));
        let got = rest(&bed, &bytes);
        let error = &got[1];
        assert_eq!((error[1], &error[4..12]), (1, &[0, 0, 0, 0x77, 0, 0, 0, 0][..]), "{error:x?}");
        assert_eq!(&error[12..], b"this switch speaks OpenFlow13");
        // In a version that the peer knows, where we do.
        assert_eq!(error[0], if header == 3 { 4 } else { header });
    }
}

#[test]
fn anything_before_hello_is_refused() {
    let bed = Bed::new(listening());
    let error_of = |bytes: &[u8]| {
        let got = rest(&bed, bytes);
        assert_eq!(got.len(), 2, "{got:x?}");
        match codec::decode(Version::V13, &got[1]).unwrap() {
            (_, Message::Error(error)) => error.kind,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(error_of(&raw(4, 5, 1, &[])), ErrorKind::Code(ErrorCode::BrcBadType));
    assert_eq!(error_of(&raw(4, 99, 1, &[])), ErrorKind::Code(ErrorCode::BrcBadType));
    assert_eq!(error_of(&raw(9, 5, 1, &[])), ErrorKind::Code(ErrorCode::BrcBadVersion));
    assert_eq!(error_of(b"GET / HTTP/1.1\r\n\r\n"), ErrorKind::Code(ErrorCode::BrcBadLen));
    assert_eq!(error_of(&[4, 0, 0, 7, 0, 0, 0, 0]), ErrorKind::Code(ErrorCode::BrcBadLen));
    // A peer that refuses our hello is not answered.
    assert_eq!(rest(&bed, &raw(4, 1, 1, &[0, 0, 0, 0])).len(), 1);
    assert_eq!(bed.channel().connected(), []);
}

#[test]
fn silence_ends_it_before_and_after_hello() {
    let probe = Duration::from_millis(100);
    let bed = Bed::new(Config { timing: Timing { probe }, ..listening() });
    let started = Instant::now();
    // No hello, though bytes trickle.
    let mut slow = bed.connect();
    let trickle = std::thread::spawn(move || {
        while slow.write_all(&[4]).is_ok() && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        started.elapsed()
    });
    let mut controller = Controller::new(bed.connect(), Version::V13);
    // Probed, and kept as long as it answers.
    for _ in 0..3 {
        match controller.next() {
            Some((xid, Message::EchoRequest(data))) => {
                let reply = Message::EchoReply(data);
                let bytes = codec::encode(Version::V13, xid, &reply).unwrap();
                controller.stream.write_all(&bytes).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(started.elapsed() >= 3 * probe);
    assert!(matches!(controller.next(), Some((_, Message::EchoRequest(_)))));
    let probed = Instant::now();
    assert_eq!(controller.next(), None, "given up");
    assert!(probed.elapsed() >= probe / 2);
    assert!(trickle.join().unwrap() < PATIENCE);
    wait_for("nobody is left", || bed.channel().connected().is_empty());
}

#[test]
fn time_that_a_request_takes_is_no_silence() {
    let probe = Duration::from_millis(100);
    let bed = Bed::new(Config { timing: Timing { probe }, ..listening() });
    let mut controller = Controller::new(bed.connect(), Version::V13);
    let busy = bed.agent.lock().unwrap();
    let asked = controller.send(&Message::GetConfigRequest);
    std::thread::sleep(5 * probe);
    drop(busy);
    let mut answered = false;
    loop {
        match controller.next().expect("it stays") {
            (xid, Message::EchoRequest(data)) => {
                let reply = Message::EchoReply(data);
                let bytes = codec::encode(Version::V13, xid, &reply).unwrap();
                controller.stream.write_all(&bytes).unwrap();
                if answered {
                    break;
                }
            }
            (xid, Message::GetConfigReply(_)) => answered = xid == asked,
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(controller.ask(&Message::GetConfigRequest), Message::GetConfigReply(_)));
}

#[test]
fn wrong_versions_and_lengths_later_are_refused() {
    let bed = Bed::new(listening());
    let mut controller = bed.controller(Version::V13);
    controller.stream.write_all(&raw(1, 5, 0x55, &[])).unwrap();
    match controller.next().unwrap() {
        (xid, Message::Error(error)) => {
            assert_eq!(xid, Xid(0x55));
            assert_eq!(error.kind, ErrorKind::Code(ErrorCode::BrcBadVersion));
            assert_eq!(error.data, raw(1, 5, 0x55, &[]));
        }
        other => panic!("{other:?}"),
    }
    // A second hello says nothing.
    controller.send(&Message::Hello(Hello::default()));
    assert_eq!(controller.barrier(), []);
    // What cannot be cut into messages ends it, with an error.
    controller.stream.write_all(&[4, 2, 0, 4, 0, 0, 0, 1, 9, 9]).unwrap();
    let (_, error) = controller.next().unwrap();
    assert!(matches!(error, Message::Error(e) if e.kind == ErrorKind::Code(ErrorCode::BrcBadLen)));
    assert_eq!(controller.next(), None);
}

#[test]
fn what_came_before_a_half_close_is_answered() {
    let bed = Bed::new(listening());
    let mut controller = bed.controller(Version::V13);
    for i in 0..5000 {
        controller.send(&Message::FlowMod(flow(i)));
    }
    let xid = controller.send(&Message::EchoRequest(vec![1; 1000]));
    controller.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(controller.until(xid).len(), 1);
    assert_eq!(controller.next(), None);
    assert_eq!(bed.flows(), 5000);
}

#[test]
fn controllers_are_pursued_and_fail_modes_follow() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = Config {
        controllers: vec![Target { host: "127.0.0.1".into(), port, tls: false }],
        fail_mode: FailMode::Standalone,
        backoff_max: Duration::from_millis(400),
        ..listening()
    };
    let bed = Bed::new(config);
    let forwards = |bed: &Bed, n| {
        bed.switch.sync();
        bed.hosts[0].inject_bytes(&frame(n, 60));
        bed.hosts[1].take_within(Duration::from_millis(300)).is_some()
    };
    let mut times = Vec::new();
    for _ in 0..5 {
        // Accepted and closed: no controller, so the pause grows.
        drop(listener.accept().unwrap());
        times.push(Instant::now());
    }
    // One of the two may be told late on a busy machine, which makes the one longer and the other shorter.
    let pauses = [times[3] - times[2], times[4] - times[3]];
    assert!(pauses.iter().max() >= Some(&Duration::from_millis(350)), "backs off: {pauses:?}");
    assert!(pauses.iter().min() < Some(&Duration::from_secs(2)), "up to a most: {pauses:?}");
    wait_for("on its own it bridges", || forwards(&bed, 1));
    let visitor = bed.controller(Version::V13);
    wait_for("a visitor is no controller", || forwards(&bed, 2));
    let mut controller = Controller::new(listener.accept().unwrap().0, Version::V13);
    controller.barrier();
    assert!(!forwards(&bed, 3), "controlled it drops what matches nothing");
    controller.send(&Message::FlowMod(flow(4)));
    controller.barrier();
    drop(controller);
    let mut again = Controller::new(listener.accept().unwrap().0, Version::V13);
    assert_eq!(again.dump().len(), 1, "the tables are as they were");
    drop((again, visitor, listener));
    wait_for("on its own again", || forwards(&bed, 5));
    assert_eq!(bed.flows(), 1);
}

/// A frame that an entry of [`flow`] sends out of port 2 goes back where emergency entries decide.
#[test]
fn emergency_entries_are_used_once_the_last_controller_is_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = Target { host: "127.0.0.1".into(), port, tls: false };
    let emergency = || {
        let back = Action::Output { port: PortNo::IN_PORT, max_len: 0 };
        let instructions = [Instruction::ApplyActions(vec![back])].into_iter().collect();
        Message::FlowMod(FlowMod {
            dialect: Version::V10,
            table_id: TableId::ALL,
            flags: FlowModFlags::EMERG,
            ..FlowMod::add(Match::new(), instructions)
        })
    };
    let out = |bed: &Bed, at: usize| {
        bed.switch.sync();
        bed.hosts[0].inject_bytes(&frame(4, 60));
        bed.hosts[at].take_within(Duration::from_millis(300)).is_some()
    };
    // Where controllers are configured, visitors count for nothing; where none are, they are the controllers.
    for configured in [true, false] {
        let controllers = if configured { vec![target.clone()] } else { Vec::new() };
        let backoff_max = Duration::from_millis(400);
        let bed = Bed::new(Config { controllers, backoff_max, ..listening() });
        let connect = || match configured {
            true => Controller::new(listener.accept().unwrap().0, Version::V10),
            false => bed.controller(Version::V10),
        };
        let mut controller = connect();
        controller.send(&Message::FlowMod(FlowMod { dialect: Version::V10, ..flow(4) }));
        controller.send(&emergency());
        assert_eq!(controller.barrier(), []);
        let visitor = bed.controller(Version::V13);
        wait_for("its entry", || out(&bed, 1));
        if configured {
            drop(controller);
            wait_for("emergency", || out(&bed, 0));
            drop(visitor);
        } else {
            drop(controller);
            wait_for("one is left", || out(&bed, 1));
            drop(visitor);
            wait_for("emergency", || out(&bed, 0));
        }
        assert_eq!(bed.flows(), 1);
        let mut again = connect();
        wait_for("they stay", || out(&bed, 0));
        again.barrier();
    }
}

#[test]
fn it_stops_soon_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.sock");
    let listen = Listen::Unix(path.clone());
    let mut config = Config { snoop: Some(dir.path().join("snoop")), ..listening() };
    config.listeners.push(listen);
    // A controller that is a black hole: connecting must not hold up stopping.
    config.controllers.push(Target { host: "192.0.2.1".into(), port: 6653, tls: false });
    let mut bed = Bed::new(config);
    let address = bed.address();
    let mut open: Vec<_> = (0..50).map(|_| bed.controller(Version::V13)).collect();
    let half = bed.connect();
    // One that asks for much and takes nothing.
    for i in 0..20_000 {
        open[0].send(&Message::FlowMod(flow(i)));
    }
    open[0].barrier();
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(path.exists());
    let started = Instant::now();
    bed.channel = None;
    // Connecting would take two minutes, and who takes nothing never does.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(!path.exists() && !dir.path().join("snoop").exists());
    for controller in &mut open {
        assert_eq!(controller.next(), None);
    }
    drop(half);
    let after = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(after + 50 <= before, "{before} descriptors before, {after} after");
    // The port is free at once.
    TcpListener::bind(address).unwrap();
    assert_eq!(bed.flows(), 20_000);
}
