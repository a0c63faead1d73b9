//! A balancer whose list of backends changes while flows run, and what belongs to a flow without its ports.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use wire::tcp::Flags;

/// Backend N is behind port N + 1; the sixth one is behind the third's port.
const FLOWS: [&str; 7] = [
    "sf_stage=0,in_port=1,ip actions=softflow(lb)",
    "sf_stage=1,sf_metadata=1 actions=2",
    "sf_stage=1,sf_metadata=2 actions=3",
    "sf_stage=1,sf_metadata=3 actions=4",
    "sf_stage=1,sf_metadata=4 actions=5",
    "sf_stage=1,sf_metadata=5 actions=6",
    "sf_stage=1,sf_metadata=6 actions=4",
];

/// The port that a frame leaves by.
fn chosen(bed: &Bed, frame: &[u8]) -> usize {
    bed.send(1, frame);
    let out: Vec<usize> = (2..=6).filter(|port| bed.taken(*port).is_some()).collect();
    assert_eq!(out.len(), 1, "{out:?}");
    out[0]
}

fn client(n: u16) -> ((IpAddr, u16), (IpAddr, u16)) {
    ((IpAddr::from([10, 9, (n >> 8) as u8, n as u8]), 1000 + n), (v4(1), 80))
}

fn syn(n: u16) -> Frame {
    let (from, to) = client(n);
    Frame::tcp(from, to, Flags::SYN, (1, 0), 0)
}

/// Maglev, §3.4: only flows of the backend that goes move, and numbers stay.
#[test]
fn only_flows_of_a_backend_that_goes_move() {
    each(&["lb balancer backends=b1,b2,b3,b4,b5"], &FLOWS, |bed| {
        let before: BTreeMap<u16, usize> =
            (0..100).map(|n| (n, chosen(bed, &syn(n).bytes()))).collect();
        assert_eq!(before.values().collect::<BTreeSet<_>>().len(), 5, "{before:?}");
        let set = |words: &str| {
            let settings = catalogue::parse([words]).unwrap();
            let elements = bed.agent.switch().services().elements().unwrap();
            elements.get(number("lb")).unwrap().set(&settings).unwrap();
        };
        set("backends=b1,b2,b4,b5");
        let mut moved = BTreeSet::new();
        for (n, port) in &before {
            let now = chosen(bed, &syn(*n).bytes());
            match port {
                // b3's.
                4 => drop(moved.insert(now)),
                port => assert_eq!(now, *port, "flow {n}"),
            }
        }
        assert!(!moved.contains(&4) && moved.len() >= 3, "{moved:?}");
        // Whoever comes gets a number that nobody had.
        set("backends=b1,b2,b4,b5,b6");
        for (n, port) in before.iter().filter(|(_, port)| **port != 4) {
            assert_eq!(chosen(bed, &syn(*n).bytes()), *port, "flow {n}");
        }
        let new: BTreeSet<usize> = (200..300).map(|n| chosen(bed, &syn(n).bytes())).collect();
        assert!(new.contains(&4), "b6 is reached by a number of its own: {new:?}");
    });
}

#[test]
fn errors_follow_the_flow_that_they_quote() {
    each(&["lb balancer backends=b1,b2,b3,b4,b5"], &FLOWS, |bed| {
        for n in 0..30 {
            let port = chosen(bed, &syn(n).bytes());
            // A router on the way to the client tells the server that a packet was too long.
            let (from, to) = client(n);
            let sent = Frame::tcp(to, from, Flags::ACK, (7, 2), 20);
            let error = sent.error(IpAddr::from([192, 0, 2, 77]), 3, 4, 28);
            assert_eq!(chosen(bed, &error.bytes()), port, "flow {n}");
        }
    });
}

#[test]
fn fragments_go_where_whole_packets_go() {
    each(&["lb balancer backends=b1,b2,b3,b4,b5"], &FLOWS, |bed| {
        for n in 0..30 {
            let (from, to) = client(n);
            let port = chosen(bed, &Frame::udp(from, to, 32).bytes());
            for part in fragments(n + 1, from, to) {
                assert_eq!(chosen(bed, &part), port, "flow {n}");
            }
        }
    });
}
