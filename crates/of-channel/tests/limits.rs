//! How many may connect, what bundles hold in all, and controllers that are not reached.

mod common;

use common::*;
use of_channel::{Config, Listen};
use openflow::{
    BundleAdd, BundleControl, BundleControlType, BundleFlags, BundleId, ErrorCode, ErrorKind,
    Message, Version,
};
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;

fn tally(bed: &Bed, name: &str) -> u64 {
    let all = bed.switch.tallies();
    all.iter().find(|(n, _)| *n == name).map_or(0, |(_, n)| *n)
}

/// The other end closes without a word, or with its hello.
fn is_closed(stream: &mut impl Read) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn one_source_leaves_places_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("of.sock");
    let mut config = Config { connections_max: 40, ..listening() };
    config.listeners.push(Listen::Unix(path.clone()));
    let bed = Bed::new(config);
    let mut mine: Vec<_> = (0..10).map(|_| bed.controller(Version::V13)).collect();
    let mut refused = bed.connect();
    refused.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(is_closed(&mut refused));
    assert_eq!(tally(&bed, "connections_refused"), 1);
    // The operator's socket is another source.
    let mut operator = UnixStream::connect(&path).unwrap();
    operator.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut hello = [0; 8];
    operator.read_exact(&mut hello).unwrap();
    assert_eq!(hello[1], 0, "a hello");
    // Those who are there are served, and a place that is given back is free.
    mine[0].barrier();
    mine.pop();
    wait_for("there is a place again", || {
        let mut again = bed.connect();
        again.set_read_timeout(Some(PATIENCE)).unwrap();
        again.read_exact(&mut hello).is_ok()
    });
}

#[test]
fn a_controller_that_we_connect_to_needs_no_place() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp:127.0.0.1:{}", server.local_addr().unwrap().port());
    let config =
        Config { connections_max: 4, controllers: vec![target.parse().unwrap()], ..listening() };
    let bed = Bed::new(config);
    let _all: Vec<_> = (0..4).map(|_| bed.controller(Version::V13)).collect();
    let (stream, _) = server.accept().unwrap();
    let mut controller = Controller::new(stream, Version::V13);
    controller.barrier();
}

#[test]
fn attempts_that_fail_are_counted_whatever_the_cause() {
    // A port that nobody listens on, and a name that there is not.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for target in [format!("tcp:127.0.0.1:{free}"), "tcp:no-such-host.invalid:1".to_owned()] {
        let bed = Bed::new(Config { controllers: vec![target.parse().unwrap()], ..listening() });
        wait_for("an attempt has failed", || tally(&bed, "controller_attempts_failed") > 0);
    }
    // One that is there, and says nothing that we understand.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp:{}", server.local_addr().unwrap());
    let bed = Bed::new(Config { controllers: vec![target.parse().unwrap()], ..listening() });
    drop(server.accept().unwrap());
    wait_for("it is no controller", || tally(&bed, "controller_attempts_failed") > 0);
}

#[test]
fn bundles_of_all_connections_share_a_bound() {
    let bed = Bed::new(Config { bundles_bytes_max: 1000, ..listening() });
    let id = BundleId(1);
    let flags = BundleFlags::ATOMIC;
    let add = |controller: &mut Controller| {
        let (xid, message) = controller.encode(&Message::FlowMod(flow(1)));
        let add = Message::BundleAdd(BundleAdd { bundle_id: id, flags, message });
        let bytes = openflow::codec::encode(Version::V14, xid, &add).unwrap();
        std::io::Write::write_all(&mut controller.stream, &bytes).unwrap();
        controller.barrier()
    };
    let mut first = bed.controller(Version::V14);
    let fit = (0..).take_while(|_| add(&mut first).is_empty()).count();
    assert!((5..20).contains(&fit), "{fit}");
    let mut second = bed.controller(Version::V14);
    let told = add(&mut second);
    let [(_, Message::Error(error))] = &told[..] else { panic!("{told:?}") };
    assert_eq!(error.kind, ErrorKind::Code(ErrorCode::BfcOutOfBundles));
    // A commit gives the room back, and so does the end of a connection.
    let commit = |controller: &mut Controller| {
        let control = BundleControlType::CommitRequest;
        let request = BundleControl { bundle_id: id, control, flags, time: None };
        controller.ask(&Message::BundleControl(request))
    };
    assert!(matches!(commit(&mut first), Message::BundleControl(_)));
    assert!(add(&mut second).is_empty());
    assert_eq!((0..).take_while(|_| add(&mut first).is_empty()).count(), fit - 1);
    drop(first);
    wait_for("its bundle went with it", || add(&mut second).is_empty());
}
