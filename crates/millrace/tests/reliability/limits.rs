//! A switch under the limits of a process lives, and says what it refuses.

use crate::bed::{Controller, MILLRACE, PATIENCE, Switch, flow, text};
use openflow::{
    Action, Bucket, BucketId, ErrorCode, ErrorKind, FlowMod, FlowModCommand, GroupId, GroupMod,
    GroupModCommand, GroupType, Message, PortNo,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Instant;

/// A switch behind `ulimit`.
fn limited(limit: &str, words: &[&str]) -> Switch {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\""), MILLRACE]);
    Switch::start_by(command, words)
}

/// The codes of errors that came before a barrier's answer.
fn refused(controller: &mut Controller) -> Vec<ErrorKind> {
    let told = controller.barrier();
    let errors = told.iter().map(|message| match message {
        Message::Error(error) => error.kind,
        other => panic!("{other:?}"),
    });
    errors.collect()
}

fn group(n: u32) -> GroupMod {
    let bucket = Bucket {
        id: BucketId(0),
        weight: 0,
        watch_port: PortNo::ANY,
        watch_group: GroupId::ANY,
        actions: vec![Action::output(PortNo(2))],
    };
    GroupMod {
        command: GroupModCommand::Add,
        group_type: GroupType::All,
        group_id: GroupId(n),
        command_bucket: BucketId::ALL,
        selection: None,
        buckets: vec![bucket],
    }
}

#[test]
fn entries_and_groups_beyond_the_memory_are_refused() {
    let switch = limited("-v 1200000", &[]);
    let mut controller = switch.controller();
    let mut added = 0;
    let full = 'full: loop {
        assert!(added < 3_000_000, "there is no bound");
        for _ in 0..5000 {
            controller.send(&Message::FlowMod(flow(added)));
            added += 1;
        }
        if let [first, ..] = refused(&mut controller)[..] {
            break 'full first;
        }
    };
    assert_eq!(full, ErrorKind::Code(ErrorCode::FmfcTableFull));
    // It goes on: what is there can be taken away, and there is room again.
    controller.send(&Message::FlowMod(FlowMod { command: FlowModCommand::Delete, ..flow(0) }));
    assert_eq!(refused(&mut controller), []);
    controller.send(&Message::FlowMod(flow(added)));
    assert_eq!(refused(&mut controller), []);
    // The same with groups, beside the entries.
    let mut groups = 0;
    let full = 'full: loop {
        assert!(groups < 3_000_000, "there is no bound");
        for _ in 0..5000 {
            controller.send(&Message::GroupMod(group(groups)));
            groups += 1;
        }
        if let [first, ..] = refused(&mut controller)[..] {
            break 'full first;
        }
    };
    assert_eq!(full, ErrorKind::Code(ErrorCode::GmfcOutOfGroups));
    assert!(switch.ask(&["stats"]).status.success());
}

/// Peers that say hello take what descriptors there are for them, not those of the switch itself.
#[test]
fn connections_beyond_the_descriptors_are_closed() {
    let theirs = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp:{}", theirs.local_addr().unwrap());
    let switch = limited("-n 96", &["--controller", &target]);
    let (mut first, _) = theirs.accept().unwrap();
    let (mut kept, mut closed) = (Vec::new(), 0);
    for _ in 0..200 {
        let mut stream = UnixStream::connect(switch.path("of")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // A hello or the end comes at once.
        match stream.read(&mut [0; 8]) {
            Ok(0) | Err(_) => closed += 1,
            Ok(_) => kept.push(stream),
        }
    }
    assert!(closed > 100 && !kept.is_empty(), "{} of 200 were kept", kept.len());
    // The controller that it connects to is served, and so are commands.
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(first.read(&mut [0; 8]).unwrap() > 0);
    drop(first);
    let _again: TcpStream = theirs.accept().unwrap().0;
    let stats = switch.ask(&["stats"]);
    assert!(stats.status.success(), "{}", text(&stats));
    // Whoever leaves makes room.
    drop(kept);
    let until = Instant::now() + PATIENCE;
    loop {
        let mut stream = UnixStream::connect(switch.path("of")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        if stream.read(&mut [0; 8]).is_ok_and(|n| n > 0) {
            break;
        }
        assert!(Instant::now() < until, "no room comes back");
    }
}

#[test]
fn clients_of_the_control_socket_beyond_its_bound_are_told() {
    let switch = Switch::start(&[]);
    let ctl = switch.path("ctl");
    // They say nothing, and are waited for.
    let mut idle: Vec<UnixStream> = (0..32).map(|_| UnixStream::connect(&ctl).unwrap()).collect();
    let ask = || {
        let mut stream = UnixStream::connect(&ctl).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"{\"command\":\"stats\"}\n").unwrap();
        let mut answer = String::new();
        // Whoever is refused may find the connection reset behind the answer.
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    let until = Instant::now() + PATIENCE;
    while !ask().contains("32 others are being answered") {
        assert!(Instant::now() < until, "more than 32 are answered");
    }
    idle.truncate(8);
    while ask().contains("others are being answered") {
        assert!(Instant::now() < until, "those who left still count");
    }
}

#[test]
fn the_control_socket_is_a_group_s_if_it_is_given_to_one() {
    let id = |flag: &str| {
        let output = Command::new("id").arg(flag).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let name = id("-gn");
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000 && exec \"$0\" \"$@\"", MILLRACE]);
    let switch = Switch::start_by(command, &["--ctl-group", &name]);
    let socket = std::fs::metadata(switch.path("ctl")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o660);
    assert_eq!(socket.gid().to_string(), id("-g"));
    let alone = Switch::start(&[]);
    let socket = std::fs::metadata(alone.path("ctl")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
}
