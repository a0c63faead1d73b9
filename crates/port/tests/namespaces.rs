//! Ports on real interfaces, with hosts in network namespaces that keep their default offloads.

mod lab;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use lab::{Bridge, Lab, iperf, must, ping, sh};
use port::af_packet::AfPacket;
use port::inherited::Inherited;
use port::kind::Environment;
use port::tap::Tap;
use port::{Burst, Csum, Frame, Gso, GsoKind, LinkState, Offload, Pool, Port, StampedBy, TxQueue};

const A: &str = "10.77.0.1";
const B: &str = "10.77.0.2";

fn two_af_packet(lab: &Lab) -> (AfPacket, AfPacket) {
    lab.veth("a", "p1", A);
    lab.veth("b", "p2", B);
    lab.within("s", || (AfPacket::open("p1").expect("p1"), AfPacket::open("p2").expect("p2")))
}

fn two_taps(lab: &Lab) -> (Tap, Tap) {
    let mut taps = lab.within("s", || (Tap::open("t1").expect("t1"), Tap::open("t2").expect("t2")));
    lab.give_tap("a", "t1", A);
    lab.give_tap("b", "t2", B);
    assert_eq!((taps.0.link(), taps.1.link()), (LinkState::UP, LinkState::UP));
    taps
}

#[test]
fn af_packet_loses_no_ping() {
    let Some(lab) = Lab::new() else { return };
    let (mut a, mut b) = two_af_packet(&lab);
    let _bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
    assert_eq!(ping(&lab, "a", B, 1000, "0.002"), 1000);
    assert_eq!(ping(&lab, "a", &format!("{B} -s 6000"), 20, "0.01"), 20);
}

#[test]
fn af_packet_throughput_with_default_offloads() {
    let Some(lab) = Lab::new() else { return };
    let (mut a, mut b) = two_af_packet(&lab);
    let bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
    let Some(gbps) = iperf(&lab, B, 3, "") else { return };
    println!("af_packet, TCP, default offloads: {gbps} Gb/s; {:?}", bridge.counts);
    assert!(gbps > 1.0);
    assert!(bridge.counts[1].load(Relaxed) > 100, "GSO frames came through whole");
    println!("socket drops: {:?} {:?}", a.kernel_stats(), b.kernel_stats());
}

#[test]
fn tap_loses_no_ping() {
    let Some(lab) = Lab::new() else { return };
    let (mut a, mut b) = two_taps(&lab);
    let _bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
    assert_eq!(ping(&lab, "a", B, 1000, "0.002"), 1000);
}

#[test]
fn tap_throughput_with_default_offloads() {
    let Some(lab) = Lab::new() else { return };
    let (mut a, mut b) = two_taps(&lab);
    let bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
    let Some(gbps) = iperf(&lab, B, 3, "") else { return };
    println!("tap, TCP, default offloads: {gbps} Gb/s; {:?}", bridge.counts);
    assert!(gbps > 1.0);
    assert!(bridge.counts[1].load(Relaxed) > 100, "GSO frames came through whole");
}

/// Ports of two kinds joined: TCP in one direction, UDP segmentation in the other.
#[test]
fn tap_to_af_packet_and_udp_segmentation() {
    let Some(lab) = Lab::new() else { return };
    let mut a = lab.within("s", || Tap::open("t1").expect("t1"));
    lab.give_tap("a", "t1", A);
    lab.veth("b", "p2", B);
    let mut b = lab.within("s", || AfPacket::open("p2").expect("p2"));
    let bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
    assert_eq!(ping(&lab, "b", A, 50, "0.002"), 50);
    if let Some(gbps) = iperf(&lab, B, 1, "-R") {
        println!("af_packet to tap, TCP: {gbps} Gb/s");
        assert!(gbps > 0.5);
    }
    if !sh("command -v python3").status.success() {
        println!("skipped: needs python3");
        return;
    }
    let receiver = "import socket; s = socket.socket(2, 2); s.bind(('', 9)); s.settimeout(60); \
                    print(sum(len(s.recv(65536)) for _ in range(5)))";
    let ns = lab.ns("b");
    let receiving =
        std::thread::spawn(move || must(&format!("ip netns exec {ns} python3 -c \"{receiver}\"")));
    wait_for("it listens", || lab.at("b", "cat /proc/net/udp").contains(":0009 "));
    // SOL_UDP, UDP_SEGMENT: five datagrams in one system call, one frame as far as here.
    let sender = format!(
        "import socket; s = socket.socket(2, 2); s.setsockopt(17, 103, 1000); \
         s.sendto(b'x' * 5000, ('{B}', 9))"
    );
    let before = bridge.counts[1].load(Relaxed);
    lab.at("a", &format!("python3 -c \"{sender}\""));
    assert_eq!(receiving.join().unwrap().trim(), "5000");
    assert_eq!(bridge.counts[1].load(Relaxed), before + 1, "a UDP GSO frame");
}

#[test]
fn software_completes_what_a_host_left_open() {
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", A);
    lab.at("a", &format!("ip neigh add {B} lladdr 02:00:00:00:00:02 dev eth0"));
    let mut port = lab.within("s", || AfPacket::open("p1").expect("p1"));
    let mut rx = lab.within("s", || port.rx_queue(0).unwrap());
    let config = port::memory::Config { carries_offload: false, ..Default::default() };
    let (mut plain, far) = port::memory::port("m", config).unwrap();
    let mut tx = plain.tx_queue().unwrap();
    lab.at("a", &format!("bash -c 'echo hello > /dev/udp/{B}/9'"));
    let (mut burst, mut pool) = (Burst::new(), Pool::new());
    let mut seen = false;
    for _ in 0..600 {
        port::wait_readable(rx.fd().unwrap(), Duration::from_millis(100));
        rx.rx(&mut burst, &mut pool).unwrap();
        for frame in burst.drain() {
            if matches!(frame.offload.csum, Csum::Partial { offset: 6, .. }) {
                tx.tx_owned(frame, &mut pool).unwrap();
                tx.flush();
                let data = far.take().unwrap().data().to_vec();
                wire::offload::verify_checksums(&data).unwrap();
                seen = true;
            }
        }
        if seen {
            return;
        }
    }
    panic!("no datagram with a partial checksum came");
}

/// The kernel refuses this frame for its offset of the checksum, as one before 6.2 refuses all that are cut into datagrams.
#[test]
fn what_the_kernel_will_not_cut_into_datagrams_is_cut_before() {
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", A);
    lab.at("a", "ip link set eth0 promisc on");
    let mut far = lab.within("a", || AfPacket::open("eth0").expect("eth0"));
    let mut rx = lab.within("a", || far.rx_queue(0).unwrap());
    let mut port = lab.within("s", || AfPacket::open("p1").expect("p1"));
    let mut tx = lab.within("s", || port.tx_queue().unwrap());
    let mut data =
        [&[2u8; 12][..], &[8, 0, 0x45, 0, 0x0b, 0xd4, 0, 0, 0x40, 0, 64, 17, 0, 0]].concat();
    data.extend([10, 77, 0, 2, 10, 77, 0, 1, 0x12, 0x34, 0, 9, 0x0b, 0xc0, 0, 0]);
    data.resize(42 + 3000, 7);
    let mut whole = Frame::copy_of(&data);
    whole.offload = Offload {
        csum: Csum::Partial { start: 34, offset: 4 },
        gso: Some(Gso { kind: GsoKind::UdpL4, size: 1200, hdr_len: 42, ecn: false }),
    };
    let mut wanted = Vec::new();
    port::gso::complete(&whole, &mut Pool::new(), |part| wanted.push(part.data().to_vec()))
        .unwrap();
    tx.tx(&whole).unwrap();
    let report = tx.flush();
    assert_eq!((report.sent, report.drops.total()), (3, 0));
    let (mut burst, mut pool, mut got) = (Burst::new(), Pool::new(), Vec::new());
    while got.len() < 3 && port::wait_readable(rx.fd().unwrap(), Duration::from_secs(20)) {
        rx.rx(&mut burst, &mut pool).unwrap();
        let ours = burst.drain().filter(|frame| frame.data().starts_with(&[2; 12]));
        got.extend(ours.map(|frame| frame.data().to_vec()));
    }
    assert!(got == wanted);
    let mut tap = lab.within("s", || Tap::open("t1").expect("t1"));
    let mut tx = tap.tx_queue().unwrap();
    tx.tx(&whole).unwrap();
    let report = tx.flush();
    assert_eq!((report.sent, report.drops.total()), (3, 0));
}

/// A tag that the kernel takes out of the frame on its way is put back, whatever else the frame
/// owes.
#[test]
fn vlan_tags_come_through() {
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", A);
    let mut host = lab.within("a", || AfPacket::open("eth0").expect("eth0"));
    let mut tx = lab.within("a", || host.tx_queue().unwrap());
    let mut port = lab.within("s", || AfPacket::open("p1").expect("p1"));
    let mut rx = lab.within("s", || port.rx_queue(0).unwrap());
    let tagged = |tpid: [u8; 2], csum| {
        let mut data = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1];
        data.extend(tpid);
        data.extend([0x60, 5, 8, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 1, 1, 1, 1]);
        data.extend([2, 2, 2, 2, 0, 7, 0, 7, 0, 12, 0, 0, 1, 2, 3, 4]);
        data.resize(60, 0);
        let mut frame = Frame::copy_of(&data);
        frame.offload.csum = csum;
        frame
    };
    let sent = [
        tagged([0x81, 0], Csum::None),
        tagged([0x88, 0xa8], Csum::None),
        tagged([0x81, 0], Csum::Partial { start: 38, offset: 6 }),
    ];
    for frame in &sent {
        tx.tx(frame).unwrap();
    }
    assert_eq!(tx.flush().sent, 3);
    let (mut burst, mut pool, mut seen) = (Burst::new(), Pool::new(), Vec::new());
    while seen.len() < 3 {
        assert!(port::wait_readable(rx.fd().unwrap(), Duration::from_secs(60)), "no frame");
        rx.rx(&mut burst, &mut pool).unwrap();
        seen.extend(burst.drain().filter(|f| f.data()[..6] == [2, 0, 0, 0, 0, 9]));
    }
    for (sent, seen) in sent.iter().zip(&seen) {
        assert_eq!(sent.data(), seen.data());
    }
    assert_eq!(seen[2].offload, sent[2].offload);
}

/// How many short frames a second one thread takes in, next to one that sends as fast as it can.
#[test]
fn af_packet_short_frames() {
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", A);
    let mut host = lab.within("a", || AfPacket::open("eth0").expect("eth0"));
    let mut tx = lab.within("a", || host.tx_queue().unwrap());
    let mut port = lab.within("s", || AfPacket::open("p1").expect("p1"));
    let mut rx = lab.within("s", || port.rx_queue(0).unwrap());
    const SENT: u64 = 300_000;
    let sender = std::thread::spawn(move || {
        let frame = Frame::copy_of(&[2; 60]);
        let mut report = port::TxReport::default();
        for i in 0..SENT {
            tx.tx(&frame).unwrap();
            if i % 32 == 31 {
                report.merge(&tx.flush());
            }
        }
        report.merge(&tx.flush());
        report
    });
    let (mut burst, mut pool, mut received, mut last) = (Burst::new(), Pool::new(), 0, 0);
    let start = std::time::Instant::now();
    let mut took = start.elapsed();
    while last > 0 || port::wait_readable(rx.fd().unwrap(), Duration::from_millis(300)) {
        last = rx.rx(&mut burst, &mut pool).unwrap_or(0);
        received += burst.frames().iter().filter(|f| f.data() == [2; 60]).count() as u64;
        burst.recycle(&mut pool);
        if last > 0 {
            took = start.elapsed();
        }
    }
    let report = sender.join().unwrap();
    let dropped = port.kernel_stats().rx_dropped;
    println!("af_packet, 60-byte frames: {received} in {took:?}, {dropped} dropped");
    // Nothing is lost without being counted. Frames of the host's own may be among the dropped.
    assert!(received <= report.sent && received + dropped >= report.sent);
    assert_eq!(report.sent + report.drops.total(), SENT);
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(std::time::Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn af_packet_survives_an_interface_made_anew() {
    let Some(lab) = Lab::new() else { return };
    let (mut a, mut b) = two_af_packet(&lab);
    let _bridge = lab.within("s", || Bridge::start(&mut a, &mut b));
    assert_eq!(ping(&lab, "a", B, 3, "0.002"), 3);
    must(&format!("ip -n {} link del p1", lab.ns("s")));
    assert!(port::wait_readable(a.event_fd().unwrap(), Duration::from_secs(60)), "no event");
    wait_for("gone", || a.link() == LinkState::GONE);
    assert!(matches!(a.set_admin(true), Err(port::Error::NoInterface { .. })));
    lab.veth("a", "p1", A);
    wait_for("up", || a.link().is_up());
    // The link is up before whoever forwards has opened its socket anew.
    wait_for("forwarding", || ping(&lab, "a", B, 1, "0.002") == 1);
    assert_eq!(ping(&lab, "a", B, 10, "0.002"), 10);
    a.set_admin(false).unwrap();
    wait_for("down", || !a.link().admin_up && a.link().present);
    a.set_admin(true).unwrap();
    wait_for("up again", || a.link().is_up());
    wait_for("forwarding again", || ping(&lab, "a", B, 1, "0.002") == 1);
    assert_eq!(ping(&lab, "a", B, 10, "0.01"), 10);
}

/// Another port goes on with its socket: what waits in it comes once, and nothing that comes meanwhile is lost.
#[test]
fn af_packet_goes_on_with_the_socket_of_another() {
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", A);
    lab.at("a", &format!("ip neigh add {B} lladdr 02:00:00:00:00:02 dev eth0"));
    let send = |n: u32| {
        lab.at(
            "a",
            &format!("bash -c 'for i in $(seq {n}); do echo -n 123456789 >/dev/udp/{B}/9; done'"),
        );
    };
    let open = || AfPacket::open("p1").expect("p1");
    let (mut old, mut new) = lab.within("s", || (open(), open()));
    assert!(old.receiving().is_none(), "it receives nothing yet");
    let mut first = lab.within("s", || old.rx_queue(0).expect("a socket"));
    let mut pool = Pool::new();
    let mut count = |rx: &mut Box<dyn port::RxQueue>| {
        let (mut burst, mut frames) = (Burst::new(), 0);
        while rx.rx(&mut burst, &mut pool).expect("the interface is there") > 0 {
            // Ethernet, IPv4, UDP, and what was sent.
            frames += burst.drain().filter(|frame| frame.data().len() == 14 + 20 + 8 + 9).count();
        }
        frames
    };
    send(3);
    assert_eq!(count(&mut first), 3);
    send(4);
    assert!(new.receive_by(old.receiving().expect("it receives")));
    let mut second = lab.within("s", || new.rx_queue(0).expect("the same socket"));
    drop((first, old));
    send(5);
    assert_eq!(count(&mut second), 9);
}

/// What a process that takes over goes on with: the interface keeps its addresses, its namespace and the frames that wait.
#[test]
fn a_tap_interface_outlives_who_hands_it_over() {
    let Some(lab) = Lab::new() else { return };
    let ns = lab.ns("s");
    let inherited = Inherited::default();
    let environment = Environment::default().with(inherited.clone());
    let open = || {
        let attached = (port::tap::KIND.parse)("t1", 0).expect("a name");
        lab.within("s", || attached.open("t1", &environment).expect("t1"))
    };
    let mut old = open();
    let rx = old.rx_queue(0).unwrap();
    must(&format!("ip -n {ns} addr add 192.0.2.9/24 dev t1"));
    let index = || lab.at("s", "cat /sys/class/net/t1/ifindex");
    let before = index();
    inherited.put("t1", old.receiving().expect("it has one"));
    drop((rx, old));
    lab.at("s", "bash -c 'echo -n 123456789 >/dev/udp/192.0.2.255/9' || true");
    lab.at("s", "ping -c 1 -W 0.1 192.0.2.1 || true");
    let mut new = open();
    assert_eq!(index(), before, "it is the same interface");
    assert!(inherited.take("t1").is_none(), "the port has it");
    let (mut rx, mut tx) = (new.rx_queue(0).unwrap(), new.tx_queue().unwrap());
    let (mut burst, mut pool) = (Burst::new(), Pool::new());
    assert!(rx.rx(&mut burst, &mut pool).expect("the interface is there") > 0, "frames waited");
    assert_eq!(tx.tx(&Frame::copy_of(&[0; 60])), Ok(()));
    assert!(new.link().admin_up);
    // In another namespace it goes on, too.
    must(&format!("ip -n {ns} link set t1 netns {}", lab.ns("a")));
    inherited.put("t1", new.receiving().expect("it has one"));
    drop((rx, tx, new));
    let mut third = open();
    assert!(third.link().present, "{:?}", third.link());
    // Something that is no interface is not gone on with.
    let file = std::fs::File::open("/dev/null").unwrap();
    inherited.put("t1", file.into());
    drop(third);
    assert!(open().link().admin_up);
}

#[test]
fn tap_survives_deletion_by_others() {
    let Some(lab) = Lab::new() else { return };
    let mut tap = lab.within("s", || Tap::open("t1").expect("t1"));
    let (mut rx, mut tx) = (tap.rx_queue(0).unwrap(), tap.tx_queue().unwrap());
    must(&format!("ip -n {} link del t1", lab.ns("s")));
    assert_eq!(tx.tx(&Frame::copy_of(&[0; 60])), Err(port::DropReason::PortGone));
    assert!(matches!(rx.rx(&mut Burst::new(), &mut Pool::new()), Err(port::RxError::Gone)));
    // `link` makes it again, in the namespace of its caller.
    lab.within("s", || wait_for("up", || tap.link().is_up()));
    assert_eq!(tx.tx(&Frame::copy_of(&[0; 60])), Ok(()));
    lab.give_tap("a", "t1", A);
    assert_eq!(tap.link(), LinkState::UP);
    tap.set_admin(false).unwrap();
    assert!(!tap.link().admin_up);
    assert_eq!(tx.tx(&Frame::copy_of(&[0; 60])), Err(port::DropReason::TxLinkDown));
    let seen = sh(&format!("ip -n {} link show eth0", lab.ns("a")));
    assert!(!String::from_utf8_lossy(&seen.stdout).contains(",UP"));
}

/// A veth has no clock of its own: the kernel stamps, before we fetch.
#[test]
fn af_packet_is_stamped_by_the_best_that_there_is() {
    let Some(lab) = Lab::new() else { return };
    let (mut a, mut b) = two_af_packet(&lab);
    assert_eq!(a.stamp_arrivals(), StampedBy::Kernel);
    assert_eq!(b.stamp_arrivals(), StampedBy::Kernel);
    let mut rx = lab.within("s", || a.rx_queue(0).unwrap());
    let before = port::now_ns();
    lab.at("a", "ping -c 1 -W 1 10.77.0.9 || true");
    std::thread::sleep(Duration::from_millis(300));
    let (mut burst, mut pool) = (Burst::new(), Pool::new());
    assert!(rx.rx(&mut burst, &mut pool).unwrap() > 0);
    let now = port::now_ns();
    let at = burst.frames()[0].rx_ns;
    assert!(before < at && now - at >= 250_000_000, "{} {}", at - before, now - at);
}

/// Numbered as they were given, from 0 each time; between our giving a frame and its arrival by the kernel's stamp.
#[test]
fn af_packet_tells_when_frames_left() {
    let Some(lab) = Lab::new() else { return };
    let s = lab.ns("s");
    must(&format!("ip link add c0 netns {s} type veth peer name c1 netns {s}"));
    let (mut tx, mut rx, _ports) = lab.within("s", || {
        let mut a = AfPacket::open("c0").unwrap();
        let mut b = AfPacket::open("c1").unwrap();
        b.stamp_arrivals();
        let queues = (a.tx_queue().unwrap(), b.rx_queue(0).unwrap());
        (queues.0, queues.1, (a, b))
    });
    let told = |tx: &mut dyn TxQueue| {
        let mut all = Vec::new();
        tx.departures(&mut |number, at| all.push((number, at)));
        all
    };
    let mut give = |tx: &mut dyn TxQueue, count: u8| {
        for number in 0..count {
            let mut bytes = [number; 60];
            bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
            assert_eq!(tx.tx(&Frame::copy_of(&bytes)), Ok(()));
        }
        tx.flush();
        let (mut burst, mut pool, mut came) = (Burst::new(), Pool::new(), Vec::new());
        for _ in 0..30_000 {
            while rx.rx(&mut burst, &mut pool).unwrap_or(0) > 0 {
                let ours = burst.frames().iter().filter(|f| f.data()[12..14] == [0x88, 0xb5]);
                came.extend(ours.map(|frame| (frame.data()[0], frame.rx_ns)));
                burst.recycle(&mut pool);
            }
            if came.len() >= count.into() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        came
    };
    give(&mut *tx, 3);
    assert_eq!(told(&mut *tx), []);
    for count in [10, 200] {
        assert!(tx.stamp_departures(true));
        let before = port::now_ns();
        let came = give(&mut *tx, count);
        let left = told(&mut *tx);
        assert_eq!((came.len(), left.len()), (count.into(), count.into()));
        for ((number, at), (first, arrived)) in left.into_iter().zip(came) {
            assert_eq!(number, first.into());
            assert!(before <= at && at <= arrived, "{before} {at} {arrived}");
        }
    }
    assert!(!tx.stamp_departures(false));
    give(&mut *tx, 3);
    assert_eq!(told(&mut *tx), []);
}
