//! AF_XDP on veth, with hosts in network namespaces that keep their default offloads.

#[path = "../../port/tests/lab/mod.rs"]
mod lab;

use std::time::Duration;

use lab::{Bridge, Lab, iperf, must, ping};
use port::af_packet::AfPacket;
use port::spec::{self, XdpMode};
use port::{LinkState, Port};
use port_xdp::Xdp;

const A: &str = "10.77.0.1";
const B: &str = "10.77.0.2";

fn spec(interface: &str, mode: XdpMode) -> spec::Xdp {
    spec::Xdp { interface: interface.to_owned(), queue: None, mode, busy_poll_us: None }
}

fn two_ports(lab: &Lab, mode: XdpMode) -> (Xdp, Xdp) {
    lab.veth("a", "p1", A);
    lab.veth("b", "p2", B);
    lab.within("s", || {
        let open = |name| Xdp::open(&spec(name, mode)).expect(name);
        (open("p1"), open("p2"))
    })
}

fn passes_pings_and_tcp(mode: XdpMode) {
    let Some(lab) = Lab::new() else { return };
    let (mut a, mut b) = two_ports(&lab, mode);
    assert_eq!(a.is_native(), mode == XdpMode::Native);
    if mode == XdpMode::Generic {
        assert!(a.info().warnings[0].contains("ethtool -K PEER tso off gso off"));
        for which in ["a", "b"] {
            lab.at(which, "ethtool -K eth0 tso off gso off");
        }
    }
    let bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
    assert_eq!(ping(&lab, "a", B, 1000, "0.002"), 1000);
    if let Some(gbps) = iperf(&lab, B, 2, "") {
        println!("af_xdp {mode:?}, TCP: {gbps} Gb/s; {:?}", bridge.counts);
        println!("drops: {} {}", a.kernel_stats().rx_dropped, b.kernel_stats().rx_dropped);
        assert!(gbps > 0.1, "TCP crawls");
    }
}

#[test]
fn native_passes_pings_and_tcp() {
    passes_pings_and_tcp(XdpMode::Native);
}

/// With the remedy that the port's warning names.
#[test]
fn generic_passes_pings_and_remedied_tcp() {
    passes_pings_and_tcp(XdpMode::Generic);
}

#[test]
fn auto_is_native_on_veth_and_says_what_it_costs() {
    let Some(lab) = Lab::new() else { return };
    let (a, _b) = two_ports(&lab, XdpMode::Auto);
    assert!(a.is_native());
    assert!(a.info().warnings[0].contains("switched TSO and GSO off"));
    let busy = lab.within("s", || Xdp::open(&spec("p1", XdpMode::Auto))).err().expect("busy");
    assert!(busy.to_string().contains("somebody else uses queue 0"), "{busy}");
}

/// Bulk TCP both ways between a port that carries offloads and one that does not.
#[test]
fn joins_af_packet_with_default_offloads() {
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", A);
    lab.veth("b", "p2", B);
    let mut a = lab.within("s", || AfPacket::open("p1").expect("p1"));
    let mut b = lab.within("s", || Xdp::open(&spec("p2", XdpMode::Auto)).expect("p2"));
    let _bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
    assert_eq!(ping(&lab, "a", B, 50, "0.002"), 50);
    for options in ["", "-R"] {
        if let Some(gbps) = iperf(&lab, B, 1, options) {
            println!("af_packet and af_xdp, TCP {options}: {gbps} Gb/s");
            assert!(gbps > 0.1);
        }
    }
}

#[test]
fn takes_every_queue_of_an_interface() {
    let Some(lab) = Lab::new() else { return };
    if !lab::sh("command -v ethtool").status.success() {
        println!("skipped: needs ethtool");
        return;
    }
    lab.veth("a", "p1", A);
    lab.veth("b", "p2", B);
    for (which, interface) in [("a", "eth0"), ("s", "p1"), ("b", "eth0"), ("s", "p2")] {
        if !lab::sh(&format!("ip netns exec {} ethtool -L {interface} rx 2 tx 2", lab.ns(which)))
            .status
            .success()
        {
            println!("skipped: veth has one queue here");
            return;
        }
    }
    // Of one queue, the port says what it leaves out.
    let one = spec::Xdp { queue: Some(1), ..spec("p1", XdpMode::Native) };
    let port = lab.within("s", || Xdp::open(&one).expect("p1"));
    assert_eq!(port.info().rx_queues, 1);
    let warnings = port.info().warnings.join("\n");
    assert!(warnings.contains("over 2 queues, of which this port takes queue 1"), "{warnings}");
    drop(port);
    for busy_poll_us in [None, Some(20)] {
        let spec = |name| spec::Xdp { busy_poll_us, ..spec(name, XdpMode::Native) };
        let (spec_a, spec_b) = (spec("p1"), spec("p2"));
        let (mut a, mut b) =
            lab.within("s", || (Xdp::open(&spec_a).expect("p1"), Xdp::open(&spec_b).expect("p2")));
        assert_eq!((a.info().rx_queues, b.info().rx_queues), (2, 2));
        let bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
        assert_eq!(ping(&lab, "a", B, 200, "0.002"), 200);
        drop(bridge);
    }
    // Many flows come by both queues, none twice.
    let mut a = lab.within("s", || Xdp::open(&spec("p1", XdpMode::Native)).expect("p1"));
    let mut queues = [a.rx_queue(0).expect("queue 0"), a.rx_queue(1).expect("queue 1")];
    assert!(a.rx_queue(1).is_err() && a.rx_queue(2).is_err());
    lab.at("a", "ip neigh replace 10.77.0.9 lladdr 02:00:00:00:00:09 dev eth0");
    let send = "for p in $(seq 200); do echo x >/dev/udp/10.77.0.9/$((p + 1000)); done";
    lab.at("a", &format!("bash -c '{send}'"));
    let (mut burst, mut pool) = (port::Burst::new(), port::Pool::new());
    let mut counts = [0; 2];
    for _ in 0..200 {
        for (queue, count) in queues.iter_mut().zip(&mut counts) {
            queue.rx(&mut burst, &mut pool).expect("it is up");
            let frames = burst.drain().collect::<Vec<_>>();
            *count +=
                frames.iter().filter(|frame| frame.data()[..6] == *b"\x02\0\0\0\0\x09").count();
            frames.into_iter().for_each(|frame| pool.give(frame));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(counts.iter().sum::<usize>(), 200, "{counts:?}");
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
}

#[test]
fn leaves_nothing_behind() {
    let Some(lab) = Lab::new() else { return };
    let (a, b) = two_ports(&lab, XdpMode::Auto);
    let shown = || must(&format!("ip -n {} link show p1", lab.ns("s")));
    assert!(shown().contains("xdp"), "{}", shown());
    drop((a, b));
    assert!(!shown().contains("xdp"), "{}", shown());
}

#[test]
fn survives_an_interface_made_anew() {
    let Some(lab) = Lab::new() else { return };
    let (mut a, mut b) = two_ports(&lab, XdpMode::Auto);
    let _bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
    assert_eq!(ping(&lab, "a", B, 5, "0.002"), 5);
    must(&format!("ip -n {} link del p1", lab.ns("s")));
    assert!(port::wait_readable(a.event_fd().unwrap(), Duration::from_secs(2)), "no event");
    lab.within("s", || wait_for("gone", || a.link() == LinkState::GONE));
    lab.veth("a", "p1", A);
    lab.within("s", || wait_for("up", || a.link().is_up()));
    assert_eq!(ping(&lab, "a", B, 20, "0.002"), 20);
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..300 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}
