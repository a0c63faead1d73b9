//! AF_XDP on veth, with hosts in network namespaces that keep their default offloads.

#[path = "../../port/tests/lab/mod.rs"]
mod lab;

use std::time::Duration;

use lab::{Bridge, Lab, iperf, must, ping};
use port::af_packet::AfPacket;
use port::{Burst, Frame, LinkState, Pool, Port, RxQueue, TxQueue};
use port_xdp::{Mode, SendBy, Settings, Xdp};

const A: &str = "10.77.0.1";
const B: &str = "10.77.0.2";

fn spec(interface: &str, mode: Mode) -> Settings {
    Settings {
        interface: interface.to_owned(),
        queue: None,
        mode,
        busy_poll_us: None,
        send: SendBy::Auto,
    }
}

fn two_ports(lab: &Lab, mode: Mode) -> (Xdp, Xdp) {
    lab.veth("a", "p1", A);
    lab.veth("b", "p2", B);
    lab.within("s", || {
        let open = |name| Xdp::open(&spec(name, mode)).expect(name);
        (open("p1"), open("p2"))
    })
}

fn passes_pings_and_tcp(mode: Mode) {
    let Some(lab) = Lab::new() else { return };
    let (mut a, mut b) = two_ports(&lab, mode);
    assert_eq!(a.is_native(), mode == Mode::Native);
    if mode == Mode::Generic {
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
    passes_pings_and_tcp(Mode::Native);
}

/// With the remedy that the port's warning names.
#[test]
fn generic_passes_pings_and_remedied_tcp() {
    passes_pings_and_tcp(Mode::Generic);
}

#[test]
fn auto_is_native_on_veth_and_says_what_it_costs() {
    let Some(lab) = Lab::new() else { return };
    let (a, _b) = two_ports(&lab, Mode::Auto);
    assert!(a.is_native());
    assert!(a.info().warnings[0].contains("switched TSO and GSO off"));
    let busy = lab.within("s", || Xdp::open(&spec("p1", Mode::Auto))).err().expect("busy");
    assert!(busy.to_string().contains("somebody else uses queue 0"), "{busy}");
}

/// Bulk TCP both ways between a port that carries offloads and one that does not.
#[test]
fn joins_af_packet_with_default_offloads() {
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", A);
    lab.veth("b", "p2", B);
    let mut a = lab.within("s", || AfPacket::open("p1").expect("p1"));
    let mut b = lab.within("s", || Xdp::open(&spec("p2", Mode::Auto)).expect("p2"));
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
    let one = Settings { queue: Some(1), ..spec("p1", Mode::Native) };
    let port = lab.within("s", || Xdp::open(&one).expect("p1"));
    assert_eq!(port.info().rx_queues, 1);
    let warnings = port.info().warnings.join("\n");
    assert!(warnings.contains("over 2 queues, of which this port takes queue 1"), "{warnings}");
    drop(port);
    for busy_poll_us in [None, Some(20)] {
        let spec = |name| Settings { busy_poll_us, ..spec(name, Mode::Native) };
        let (spec_a, spec_b) = (spec("p1"), spec("p2"));
        let (mut a, mut b) =
            lab.within("s", || (Xdp::open(&spec_a).expect("p1"), Xdp::open(&spec_b).expect("p2")));
        assert_eq!((a.info().rx_queues, b.info().rx_queues), (2, 2));
        let bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
        assert_eq!(ping(&lab, "a", B, 200, "0.002"), 200);
        drop(bridge);
    }
    // Many flows come by both queues, none twice.
    let mut a = lab.within("s", || Xdp::open(&spec("p1", Mode::Native)).expect("p1"));
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
    let (a, b) = two_ports(&lab, Mode::Auto);
    let shown = || must(&format!("ip -n {} link show p1", lab.ns("s")));
    assert!(shown().contains("xdp"), "{}", shown());
    drop((a, b));
    // A process that another test is just starting may hold a copy of the descriptors until it runs its program.
    wait_for("nothing is left of the program", || !shown().contains("xdp"));
}

#[test]
fn survives_an_interface_made_anew() {
    let Some(lab) = Lab::new() else { return };
    let (mut a, mut b) = two_ports(&lab, Mode::Auto);
    let _bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
    assert_eq!(ping(&lab, "a", B, 5, "0.002"), 5);
    must(&format!("ip -n {} link del p1", lab.ns("s")));
    assert!(port::wait_readable(a.event_fd().unwrap(), Duration::from_secs(60)), "no event");
    lab.within("s", || wait_for("gone", || a.link() == LinkState::GONE));
    lab.veth("a", "p1", A);
    lab.within("s", || wait_for("up", || a.link().is_up()));
    assert_eq!(ping(&lab, "a", B, 20, "0.002"), 20);
}

/// Frames of that many bytes each, numbered from `first` on, and filled by their numbers.
fn numbered(first: u32, lens: &[usize]) -> Vec<Vec<u8>> {
    let one = |(number, len): (u32, &usize)| {
        let mut bytes = vec![number as u8; *len];
        bytes[..12].copy_from_slice(b"\x02\0\0\0\0\x09\x02\0\0\0\0\x08");
        bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
        bytes[14..18].copy_from_slice(&number.to_be_bytes());
        bytes
    };
    (first..).zip(lens).map(one).collect()
}

/// Sends the frames in one burst, and takes what comes of ours at the other end.
fn pass(frames: &[Vec<u8>], tx: &mut dyn TxQueue, rx: &mut dyn RxQueue) -> Vec<Vec<u8>> {
    for bytes in frames {
        assert_eq!(tx.tx(&Frame::copy_of(bytes)), Ok(()));
    }
    let report = tx.flush();
    assert_eq!((report.sent, report.drops.total()), (frames.len() as u64, 0));
    let (mut burst, mut pool, mut came) = (Burst::new(), Pool::new(), Vec::new());
    for _ in 0..30_000 {
        // A packet socket says once that its interface was down.
        while rx.rx(&mut burst, &mut pool).unwrap_or(0) > 0 {
            let ours = burst.frames().iter().map(|frame| frame.data().to_vec());
            came.extend(ours.filter(|bytes| bytes[12..14] == [0x88, 0xb5]));
            burst.recycle(&mut pool);
        }
        if came.len() >= frames.len() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    came
}

/// Frames that the interface says it has taken from others as XDP frames.
fn taken_live(lab: &Lab, interface: &str) -> Option<u64> {
    let shown = lab::sh(&format!("ip netns exec {} ethtool -S {interface}", lab.ns("s")));
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let counts = shown.lines().filter_map(|line| line.trim().split_once("_xdp_xmit: "));
    counts.map(|(_, count)| count.parse::<u64>().ok()).sum()
}

/// What leaves past the ring is what was given, in its order, whatever leaves by the ring in between.
#[test]
fn live_bursts_keep_bytes_and_order() {
    let Some(lab) = Lab::new() else { return };
    let s = lab.ns("s");
    must(&format!("ip link add c0 netns {s} type veth peer name c1 netns {s}"));
    let open = |name, send| {
        let spec = Settings { send, ..spec(name, Mode::Native) };
        lab.within("s", || Xdp::open(&spec).expect("a port"))
    };
    let mut a = open("c0", SendBy::Live);
    let alone = a.sending().expect("it was asked for");
    let mut b = open("c1", SendBy::Ring);
    lab.within("s", || wait_for("up", || a.link().is_up() && b.link().is_up()));
    let now = a.sending().expect("it was asked for");
    assert_eq!(b.sending(), None);
    if alone.contains("does not say") || now.contains("making its maps") || now.contains("loading")
    {
        println!("skipped: {now}");
        return;
    }
    assert!(alone.contains("takes no XDP frames"), "{alone}");
    assert!(now.contains("live XDP frames"), "{now}");
    let (mut tx, mut rx) = (a.tx_queue().expect("tx"), b.rx_queue(0).expect("rx"));
    let mut next = 0;
    // Two runs of them are long enough; then of all lengths, of more than there are slots, and of few.
    let mixed = [vec![60; 40], vec![1514; 100], vec![61; 3], vec![60; 50]].concat();
    let lengths: Vec<usize> = (0..200).map(|i| 60 + i * 7).collect();
    for lens in [vec![60; 64], mixed, lengths, vec![300; 700], vec![60; 3], vec![1514; 256]] {
        let frames = numbered(next, &lens);
        next += lens.len() as u32;
        let came = pass(&frames, &mut *tx, &mut *rx);
        assert_eq!(came.len(), frames.len());
        assert!(came == frames, "bytes or order were changed");
    }
    if let Some(live) = taken_live(&lab, "c0") {
        // What had to leave by the ring: 53 of the mixed ones, those of all lengths, three, and 188 of 700 or fewer.
        assert!((64 + 140 + 512 + 256..=u64::from(next) - 256).contains(&live), "{live} of {next}");
    }
    // Without a program at the other end nothing would arrive, so all goes by the ring.
    drop((rx, b));
    // The kernel takes a program off some time after its link was closed.
    let mut told = || a.sending().expect("it was asked for");
    wait_for("no program at the other end", || told().contains("takes no XDP frames"));
    let (_b, mut rx) = lab.within("s", || {
        let mut b = AfPacket::open("c1").expect("c1");
        let rx = b.rx_queue(0).expect("rx");
        (b, rx)
    });
    let frames = numbered(next, &[60; 128]);
    let came = pass(&frames, &mut *tx, &mut *rx);
    assert_eq!(came.len(), 128);
    assert!(came == frames, "bytes or order were changed");
    if lab::sh(&format!("ip netns exec {s} ethtool -K c1 gro on")).status.success() {
        assert!(a.sending().expect("it was asked for").contains("live XDP frames"));
        let before = taken_live(&lab, "c0").expect("ethtool is there");
        let frames = numbered(next + 128, &[60; 128]);
        assert!(pass(&frames, &mut *tx, &mut *rx) == frames);
        assert_eq!(taken_live(&lab, "c0"), Some(before + 128));
    }
}

/// A switch that sends bursts so passes what any does.
#[test]
fn live_ports_pass_pings_and_tcp() {
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", A);
    lab.veth("b", "p2", B);
    for which in ["a", "b"] {
        lab::sh(&format!("ip netns exec {} ethtool -K eth0 gro on", lab.ns(which)));
    }
    let open = |name| {
        let spec = Settings { send: SendBy::Live, ..spec(name, Mode::Native) };
        lab.within("s", || Xdp::open(&spec).expect("a port"))
    };
    let (mut a, mut b) = (open("p1"), open("p2"));
    let bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
    assert_eq!(ping(&lab, "a", B, 500, "0.002"), 500);
    if let Some(gbps) = iperf(&lab, B, 2, "") {
        println!("af_xdp, live, TCP: {gbps} Gb/s; {:?}; {:?}", bridge.counts, a.sending());
        assert!(gbps > 0.1, "TCP crawls");
    }
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(std::time::Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
