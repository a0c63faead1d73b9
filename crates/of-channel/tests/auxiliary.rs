//! Auxiliary connections (1.3.5 §6.3.5): the switch connects to a controller more than once.

mod common;

use common::*;
use of_channel::connection::Timing;
use of_channel::{Config, Target};
use openflow::{
    Action, ErrorCode, ErrorKind, Message, PacketInReason, PacketOut, PortNo, Role, RoleMessage,
    Version,
};
use std::io::Read;
use std::net::TcpListener;
use std::time::{Duration, Instant};

const V13: Version = Version::V13;

fn pursuing(listener: &TcpListener, auxiliary: u8) -> Config {
    let port = listener.local_addr().unwrap().port();
    Config {
        controllers: vec![Target { host: "127.0.0.1".into(), port, tls: false }],
        auxiliary,
        timing: Timing { probe: Duration::from_secs(60) },
        backoff_max: Duration::from_millis(20),
        ..Config::default()
    }
}

/// The next connection, and its auxiliary id.
fn next(listener: &TcpListener) -> (u8, Controller) {
    let mut c = Controller::new(listener.accept().unwrap().0, V13);
    match c.ask(&Message::FeaturesRequest) {
        Message::FeaturesReply(features) => (features.auxiliary_id, c),
        other => panic!("{other:?}"),
    }
}

/// Reads to the end.
fn ends(mut c: Controller) {
    let mut bytes = [0; 4096];
    c.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    while c.stream.read(&mut bytes).is_ok_and(|n| n > 0) {}
}

#[test]
fn auxiliary_connections_share_the_main_one_s_role_and_end_with_it() {
    //= openflow-1.3.5 §6.3.5: the main connection has auxiliary id 0 and comes first; the others
    //= have ids of their own, speak its version, and end when it ends.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bed = Bed::new(pursuing(&listener, 2));
    let (id, mut main) = next(&listener);
    assert_eq!(id, 0);
    let (a, b) = (next(&listener), next(&listener));
    let mut ids = [a.0, b.0];
    ids.sort();
    assert_eq!(ids, [1, 2]);
    let (mut a, b) = (a.1, b.1);
    // A request by one of them is answered there, and done.
    a.send(&Message::FlowMod(flow(1)));
    a.barrier();
    assert_eq!(bed.flows(), 1);
    // One controller is there, not three.
    assert_eq!(bed.channel().connected(), [V13]);
    // The role is the channel's.
    let slave = RoleMessage { role: Role::Slave, short_id: 0, generation_id: 1 };
    assert!(matches!(main.ask(&Message::RoleRequest(slave)), Message::RoleReply(_)));
    let xid = a.send(&Message::FlowMod(flow(2)));
    let all = a.until(xid);
    let is_slave = ErrorKind::Code(ErrorCode::BrcIsSlave);
    assert!(matches!(&all.last().unwrap().1, Message::Error(e) if e.kind == is_slave));
    let equal = RoleMessage { role: Role::Equal, short_id: 0, generation_id: 2 };
    assert!(matches!(a.ask(&Message::RoleRequest(equal)), Message::RoleReply(_)));
    main.send(&Message::FlowMod(to_controller()));
    main.barrier();
    // Packet-ins of a port come by one of them, always the same, in their order.
    for n in 0..20 {
        assert!(bed.hosts[0].inject_bytes(&frame(100 + n, 60)));
    }
    let mut told = 0;
    let mut by = [a, b];
    let until = Instant::now() + PATIENCE;
    let mut only = None;
    while told < 20 {
        assert!(Instant::now() < until, "{told} packet-ins came");
        for (n, c) in by.iter_mut().enumerate() {
            while let Some(Some((_, message))) = c.next_within(Duration::from_millis(20)) {
                let Message::PacketIn(p) = message else { panic!("{message:?}") };
                assert_ne!(p.reason, PacketInReason::InvalidTtl);
                assert_eq!(p.data, frame(100 + told, 60));
                assert_eq!(*only.get_or_insert(n), n);
                told += 1;
            }
        }
    }
    let packet = PacketOut {
        buffer_id: None,
        in_port: PortNo::CONTROLLER,
        pipeline: Default::default(),
        actions: vec![Action::output(PortNo(2))],
        data: frame(7, 60),
    };
    by[0].send(&Message::PacketOut(packet));
    by[0].barrier();
    wait_for("the packet-out", || bed.hosts[1].take().is_some());
    // One that ends is made again; the main one takes all along.
    let [a, b] = by;
    drop(a);
    let (again, a) = next(&listener);
    assert!(again == 1 || again == 2);
    drop(main);
    ends(a);
    ends(b);
    let (id, _main) = next(&listener);
    assert_eq!(id, 0);
}

#[test]
fn an_auxiliary_connection_of_another_version_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _bed = Bed::new(pursuing(&listener, 1));
    let (id, mut main) = next(&listener);
    assert_eq!(id, 0);
    let mut other = Controller::silent(listener.accept().unwrap().0, Version::V14);
    let versions = Some(openflow::VersionSet::of(&[Version::V14]));
    other.send(&Message::Hello(openflow::Hello { versions }));
    ends(other);
    main.barrier();
    let (id, _auxiliary) = next(&listener);
    assert_eq!(id, 1);
}
