//! Roles, asynchronous messages, versions side by side, snooping.

mod common;

use common::*;
use of_channel::Config;
use openflow::{
    AsyncChange, AsyncConfig, AsyncKind, ErrorCode, ErrorKind, FlowMod, FlowModCommand,
    FlowModFlags, GroupId, Message, MultipartRequest, MultipartRequestBody, PacketOut, PortConfig,
    PortMod, PortNo, Role, RoleMessage, TableId, TableMod, Version,
};
use std::time::Duration;

fn role(role: Role, generation_id: u64) -> Message {
    Message::RoleRequest(RoleMessage { role, short_id: RoleMessage::NO_ID, generation_id })
}

fn code(message: &Message) -> Option<ErrorCode> {
    match message {
        Message::Error(error) => match error.kind {
            ErrorKind::Code(code) => Some(code),
            _ => None,
        },
        _ => None,
    }
}

/// All entries of a table go.
fn delete_all() -> FlowMod {
    FlowMod {
        command: FlowModCommand::Delete,
        table_id: TableId::ALL,
        ..FlowMod::add(openflow::Match::new(), Default::default())
    }
}

/// A frame comes in.
fn packet(bed: &Bed, source: u32) {
    bed.switch.sync();
    bed.hosts[0].inject_bytes(&frame(source, 60));
}

/// These messages come next, and none behind them.
#[track_caller]
fn come(controller: &mut Controller, wanted: &[&str]) {
    let next = |_: &&str| controller.next().expect("closed").1.type_name();
    let came: Vec<_> = wanted.iter().map(next).collect();
    assert_eq!(came, wanted);
    assert_eq!(controller.barrier(), []);
}

/// Long enough for a message to come that is not to come.
fn silence() {
    std::thread::sleep(Duration::from_millis(150));
}

#[test]
fn slaves_read_and_hear_of_ports() {
    let bed = Bed::new(listening());
    let mut master = bed.controller(Version::V13);
    let mut slave = bed.controller(Version::V13);
    let answer = |role, generation_id| {
        Message::RoleReply(RoleMessage { role, short_id: RoleMessage::NO_ID, generation_id })
    };
    assert_eq!(slave.ask(&role(Role::NoChange, 0)), answer(Role::Equal, u64::MAX));
    assert_eq!(slave.ask(&role(Role::Master, u64::MAX - 1)), answer(Role::Master, u64::MAX - 1));
    // The generation wraps; the master before becomes slave.
    assert_eq!(master.ask(&role(Role::Master, 1)), answer(Role::Master, 1));
    assert_eq!(slave.ask(&role(Role::NoChange, 0)), answer(Role::Slave, 1));
    assert_eq!(code(&slave.ask(&role(Role::Master, u64::MAX))), Some(ErrorCode::RrfcStale));
    assert_eq!(slave.ask(&role(Role::Slave, 2)), answer(Role::Slave, 2));

    let features = MultipartRequestBody::TableFeatures(vec![]);
    let read = MultipartRequest { more: false, body: features };
    let out = PacketOut {
        pipeline: openflow::Match::new(),
        buffer_id: None,
        in_port: PortNo::CONTROLLER,
        actions: Default::default(),
        data: frame(1, 60),
    };
    let port_mod = PortMod {
        port_no: PortNo(1),
        hw_addr: openflow::MacAddr::default(),
        config: PortConfig::empty(),
        mask: PortConfig::empty(),
        advertise: openflow::PortFeatures::empty(),
    };
    for message in [
        Message::FlowMod(flow(1)),
        Message::PacketOut(out),
        Message::PortMod(port_mod),
        Message::TableMod(TableMod {
            table_id: TableId(0),
            config: 0,
            eviction: None,
            vacancy: None,
        }),
        Message::GroupMod(openflow::GroupMod {
            command_bucket: openflow::BucketId::ALL,
            selection: None,
            command: openflow::GroupModCommand::Add,
            group_type: openflow::GroupType::All,
            group_id: GroupId(1),
            buckets: vec![],
        }),
    ] {
        assert_eq!(code(&slave.ask(&message)), Some(ErrorCode::BrcIsSlave), "{message:?}");
    }
    assert_eq!(bed.flows(), 0);
    assert!(matches!(slave.ask(&Message::MultipartRequest(read)), Message::MultipartReply(_)));
    // The rest of that answer.
    slave.barrier();

    // Packets and removals are for the master, ports for both.
    master
        .send(&Message::FlowMod(FlowMod { flags: FlowModFlags::SEND_FLOW_REM, ..to_controller() }));
    master.barrier();
    packet(&bed, 7);
    come(&mut master, &["OFPT_PACKET_IN"]);
    master.send(&Message::FlowMod(delete_all()));
    come(&mut master, &["OFPT_FLOW_REMOVED"]);
    bed.hosts[1].set_carrier(false);
    come(&mut master, &["OFPT_PORT_STATUS"]);
    come(&mut slave, &["OFPT_PORT_STATUS"]);

    // Each asks for what it wants.
    let wants = AsyncConfig::default()
        .with(AsyncKind::PacketIn, [0, 0b11])
        .with(AsyncKind::PortStatus, [0b111, 0]);
    let change = AsyncChange::all(Version::V13, &wants);
    slave.send(&Message::SetAsync(change.clone()));
    master.send(&Message::SetAsync(change));
    assert_eq!(slave.ask(&Message::GetAsyncRequest), Message::GetAsyncReply(wants));
    master.send(&Message::FlowMod(to_controller()));
    master.barrier();
    packet(&bed, 8);
    come(&mut slave, &["OFPT_PACKET_IN"]);
    bed.hosts[1].set_carrier(true);
    come(&mut master, &["OFPT_PORT_STATUS"]);
    silence();
    assert_eq!(slave.barrier(), []);
    // The master goes; whoever comes after is equal, and the generation stays.
    drop(master);
    let mut next = bed.controller(Version::V13);
    assert_eq!(next.ask(&role(Role::NoChange, 0)), answer(Role::Equal, 2));
    assert_eq!(code(&next.ask(&role(Role::Master, 1))), Some(ErrorCode::RrfcStale));
}

#[test]
fn versions_live_side_by_side() {
    let bed = Bed::new(listening());
    let mut new = bed.controller(Version::V13);
    packet(&bed, 1);
    silence();
    assert_eq!(new.barrier(), [], "1.3 drops what matches nothing");
    let mut old = bed.controller(Version::V10);
    assert_eq!(bed.channel().connected().len(), 2);
    packet(&bed, 2);
    come(&mut old, &["OFPT_PACKET_IN"]);
    assert_eq!(new.barrier(), []);
    new.send(&Message::FlowMod(to_controller()));
    new.barrier();
    packet(&bed, 3);
    come(&mut old, &["OFPT_PACKET_IN"]);
    come(&mut new, &["OFPT_PACKET_IN"]);
    assert_eq!((old.dump().len(), new.dump().len()), (1, 1));
    new.send(&Message::FlowMod(delete_all()));
    new.barrier();
    drop(old);
    wait_for("it is gone", || bed.channel().connected().len() == 1);
    packet(&bed, 4);
    silence();
    assert_eq!(new.barrier(), [], "misses are dropped again");
}

#[test]
fn what_requests_cause_comes_before_the_barrier() {
    let bed = Bed::new(listening());
    let mut controller = bed.controller(Version::V13);
    let mut other = bed.controller(Version::V13);
    const FLOWS: u32 = 30_000;
    for i in 0..FLOWS {
        let flags = FlowModFlags::SEND_FLOW_REM;
        controller.send(&Message::FlowMod(FlowMod { flags, ..flow(i) }));
    }
    assert_eq!(controller.barrier(), []);
    controller.send(&Message::FlowMod(delete_all()));
    // All at once, and nobody is cut off for it.
    assert_eq!(controller.barrier().len(), FLOWS as usize);
    assert_eq!(other.barrier().len(), FLOWS as usize);
    assert_eq!(bed.flows(), 0);
}

#[test]
fn floods_of_packets_are_bounded_and_the_rest_still_comes() {
    let bed = Bed::new(listening());
    let mut asleep = bed.controller(Version::V13);
    let mut awake = bed.controller(Version::V13);
    asleep.send(&Message::FlowMod(to_controller()));
    asleep.barrier();
    let reader = std::thread::spawn(move || {
        let mut seen = 0;
        // Ends at the port status, which comes last.
        while let Some((_, message)) = awake.next() {
            match message {
                Message::PacketIn(_) => seen += 1,
                Message::PortStatus(_) => break,
                other => panic!("{other:?}"),
            }
        }
        seen
    });
    let mut sent = 0;
    wait_for("packets are dropped", || {
        for _ in 0..200 {
            sent += u32::from(bed.hosts[0].inject_bytes(&frame(sent, 1500)));
        }
        bed.channel().packet_ins_dropped() > 1000
    });
    bed.hosts[1].set_carrier(false);
    let seen = reader.join().unwrap();
    assert!(seen > 0 && seen <= sent);
    // It wakes up and finds the packets that were kept, then the rest.
    let mut kept = 0;
    let last = loop {
        match asleep.next().expect("closed") {
            (_, Message::PacketIn(_)) => kept += 1,
            (_, other) => break other,
        }
    };
    assert!(matches!(last, Message::PortStatus(_)), "{last:?}");
    assert!(kept > 0 && kept < sent, "{kept} of {sent}");
    asleep.barrier();
}

#[test]
fn a_reset_while_packets_wait_concerns_nobody_else() {
    let bed = Bed::new(listening());
    let mut survivor = bed.controller(Version::V13);
    survivor.send(&Message::FlowMod(to_controller()));
    survivor.barrier();
    for round in 0..10 {
        let mut victim = bed.controller(Version::V13);
        for i in 0..300 {
            bed.hosts[0].inject_bytes(&frame(i, 1500));
        }
        // Bytes that are not read make the close a reset; a message is cut in the middle.
        let (_, bytes) = victim.encode(&Message::FlowMod(flow(round)));
        std::io::Write::write_all(&mut victim.stream, &bytes[..bytes.len() / 2]).unwrap();
        drop(victim);
    }
    wait_for("they are gone", || bed.channel().connected().len() == 1);
    survivor.barrier();
    assert_eq!(survivor.dump().len(), 1);
}

#[test]
fn snoopers_see_and_do_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("snoop");
    let bed = Bed::new(Config { snoop: Some(path.clone()), ..listening() });
    let mut controller = bed.controller(Version::V13);
    // A UNIX stream; the codec does not mind where bytes come from.
    let mut unix = std::os::unix::net::UnixStream::connect(&path).unwrap();
    unix.set_read_timeout(Some(PATIENCE)).unwrap();
    let hello = Message::Hello(openflow::Hello::default());
    let mut say = |message: &Message, xid| {
        let bytes = openflow::encode(Version::V13, openflow::Xid(xid), message).unwrap();
        std::io::Write::write_all(&mut unix, &bytes).unwrap();
        let mut header = [0; 8];
        std::io::Read::read_exact(&mut unix, &mut header).unwrap();
        let mut bytes = header.to_vec();
        bytes.resize(usize::from(u16::from_be_bytes([header[2], header[3]])), 0);
        std::io::Read::read_exact(&mut unix, &mut bytes[8..]).unwrap();
        openflow::decode(Version::V13, &bytes).unwrap()
    };
    assert!(matches!(say(&hello, 1), (_, Message::Hello(_))));
    let (_, refused) = say(&Message::FlowMod(flow(1)), 2);
    assert_eq!(code(&refused), Some(ErrorCode::BrcEperm));
    assert_eq!(say(&Message::EchoRequest(vec![5]), 3).1, Message::EchoReply(vec![5]));
    assert_eq!(bed.channel().connected(), [Version::V13], "no controller");
    let xid = controller.send(&Message::FlowMod(flow(2)));
    controller.barrier();
    // Its own messages are not shown.
    assert_eq!(say(&Message::EchoReply(vec![]), 4), (xid, Message::FlowMod(flow(2))));
    let mut old = bed.controller(Version::V10);
    old.barrier();
    // Of 1.0 it is shown only what any version reads.
    let mut shown = Vec::new();
    for _ in 0..4 {
        shown.push(say(&Message::EchoReply(vec![]), 5).1.type_name());
    }
    let hello = "OFPT_HELLO";
    assert_eq!(shown, ["OFPT_BARRIER_REQUEST", "OFPT_BARRIER_REPLY", hello, hello]);
    assert_eq!(bed.flows(), 1);
}

#[test]
fn packet_ins_are_limited_for_each_controller() {
    let rate = Some(of_channel::Rate { per_second: 1, burst: 10 });
    let bed = Bed::new(of_channel::Config { packet_in_rate: rate, ..listening() });
    let mut c = bed.controller(Version::V13);
    let mut other = bed.controller(Version::V13);
    c.send(&Message::FlowMod(to_controller()));
    c.barrier();
    for n in 0..100 {
        assert!(bed.hosts[0].inject_bytes(&frame(n, 60)));
    }
    wait_for("all are told or dropped", || bed.channel().packet_ins_dropped() >= 170);
    let packets = |c: &mut Controller| {
        let told = c.barrier();
        told.iter().filter(|(_, m)| matches!(m, Message::PacketIn(_))).count()
    };
    let (one, two) = (packets(&mut c), packets(&mut other));
    assert!((10..=15).contains(&one) && (10..=15).contains(&two), "{one} {two}");
}
