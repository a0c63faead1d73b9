//! Packets of tunnels by the kernel's sockets, between two namespaces.

mod lab;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lab::{Lab, until};
use underlay::Underlay;
use underlay::kernel::{GsoKind, Outgoing, Received, Receiver, Sender, Taken};

const A4: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 2);

fn v4(to: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, protocol, 0, 0];
    packet.extend(A4.octets());
    packet.extend(to.octets());
    packet.extend(payload);
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet
}

fn v6(to: Ipv6Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([protocol, 64]);
    packet.extend(A6.octets());
    packet.extend(to.octets());
    packet.extend(payload);
    packet
}

/// A UDP datagram without checksum.
fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = 40_000u16.to_be_bytes().to_vec();
    datagram.extend(port.to_be_bytes());
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    datagram
}

/// Two ends: one sends in namespace `a`, one receives in `b`.
struct Ends<'a> {
    lab: &'a Lab,
    sender: Sender,
    receiver: Receiver,
    underlay: Underlay,
    got: Vec<Vec<u8>>,
}

impl<'a> Ends<'a> {
    fn new(lab: &'a Lab) -> Ends<'a> {
        let sender = lab.within("a", Sender::open).expect("a sender");
        let (underlay, receiver) = lab.within("b", || {
            let underlay = Underlay::start().expect("an underlay");
            let receiver = Receiver::open(&underlay).expect("a receiver");
            (underlay, receiver)
        });
        Ends { lab, sender, receiver, underlay, got: Vec::new() }
    }

    fn add_port(&mut self, port: u16) -> Result<(), Taken> {
        let receiver = &mut self.receiver;
        self.lab.within("b", || receiver.add_port(port))
    }

    fn set_gre(&mut self, on: bool) -> Result<(), Taken> {
        let receiver = &mut self.receiver;
        self.lab.within("b", || receiver.set_gre(on))
    }

    fn send(&mut self, packet: &[u8]) -> usize {
        self.sender.send([Outgoing { packet, mark: 0, device: 0 }])
    }

    /// Sends a packet, and a mark behind it that surely comes; what came before the mark.
    fn try_packet(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        let datagram = udp(4789, b"mark");
        let is_v6 = packet[0] >> 4 == 6;
        let mark = if is_v6 { v6(B6, 17, &datagram) } else { v4(B4, 17, &datagram) };
        self.send(packet);
        self.send(&mark);
        let (receiver, got) = (&mut self.receiver, &mut self.got);
        until("the mark has come", || {
            receiver.receive(|Received { packet, .. }| got.push(packet.to_vec()));
            got.last().is_some_and(|last| last.ends_with(b"mark"))
        });
        self.got.pop();
        // What the kernel fills in.
        let mut got = std::mem::take(&mut self.got);
        got.iter_mut().filter(|it| it[0] >> 4 == 4).for_each(|it| it[10..12].fill(0));
        got
    }
}

#[test]
fn packets_for_this_host_come_whole_and_others_do_not() {
    let Some(lab) = Lab::new() else { return };
    // One stands behind the other, not for the other itself.
    lab.ip("a", "route add 10.99.0.0/16 via 10.1.0.2");
    let mut ends = Ends::new(&lab);
    ends.add_port(4789).expect("VXLAN's port");
    ends.add_port(6081).expect("Geneve's port");
    let long = udp(4789, &[7; 1400]);
    let wanted = [
        v4(B4, 17, &udp(4789, b"one")),
        v4(B4, 17, &udp(6081, b"")),
        v4(B4, 17, &long),
        v6(B6, 17, &udp(4789, b"six")),
    ];
    for packet in &wanted {
        assert_eq!(ends.try_packet(packet), vec![packet.clone()]);
    }
    let options = {
        let mut packet = v4(B4, 17, &udp(4789, b"options"));
        packet.splice(20..20, [1, 1, 1, 0]);
        let len = packet.len() as u8;
        (packet[0], packet[3]) = (0x46, len);
        packet
    };
    assert_eq!(ends.try_packet(&options), vec![options.clone()], "ports behind options are found");
    let refused = [
        v4(B4, 17, &udp(4790, b"another port")),
        v4(B4, 6, &udp(4789, b"TCP")),
        v4(B4, 47, b"GRE that nobody wants"),
        v6(B6, 47, b"GRE that nobody wants"),
        v4(Ipv4Addr::new(10, 99, 0, 1), 17, &udp(4789, b"to be routed")),
    ];
    for packet in &refused {
        assert_eq!(ends.try_packet(packet), [] as [Vec<u8>; 0]);
    }
    assert_eq!(ends.receiver.counts().not_local, 1);
    ends.set_gre(true).expect("GRE");
    ends.set_gre(true).expect("GRE, again");
    for packet in [v4(B4, 47, &[0, 0, 0x65, 0x58, 1, 2]), v6(B6, 47, &[0, 0, 0x65, 0x58, 1, 2])] {
        assert_eq!(ends.try_packet(&packet), vec![packet.clone()]);
    }
    ends.set_gre(false).expect("no GRE");
    assert_eq!(ends.try_packet(&v4(B4, 47, b"no more")), [] as [Vec<u8>; 0]);
    assert!(ends.receiver.remove_port(6081).expect("a port less"));
    assert!(!ends.receiver.remove_port(6081).expect("no port less"));
    assert_eq!(ends.try_packet(&v4(B4, 17, &udp(6081, b""))), [] as [Vec<u8>; 0]);
    let counts = ends.receiver.counts().clone();
    assert_eq!((counts.malformed, counts.overruns, counts.failed.len()), (0, 0, 0), "{counts:?}");
    drop(ends.underlay);
}

#[test]
fn fragments_come_as_they_are() {
    let Some(lab) = Lab::new() else { return };
    let mut ends = Ends::new(&lab);
    ends.add_port(4789).expect("VXLAN's port");
    let fragment = |offset: u16, more: u16, payload: &[u8]| {
        let mut packet = v4(B4, 17, payload);
        packet[6..8].copy_from_slice(&((offset / 8) | (more << 13)).to_be_bytes());
        packet
    };
    let v6_fragment = |offset: u16, payload: &[u8]| {
        let mut body = vec![17, 0];
        body.extend((offset | 1).to_be_bytes());
        body.extend([0, 0, 0, 9]);
        body.extend(payload);
        v6(B6, 44, &body)
    };
    let first = udp(4789, &[1; 16]);
    for packet in [
        fragment(0, 1, &first),
        fragment(24, 0, &[2; 8]),
        v6_fragment(0, &first),
        v6_fragment(24, &[2; 8]),
    ] {
        assert_eq!(ends.try_packet(&packet), vec![packet.clone()]);
    }
    for packet in [fragment(0, 1, &udp(53, &[1; 16])), v6_fragment(0, &udp(53, &[1; 16]))] {
        assert_eq!(ends.try_packet(&packet), [] as [Vec<u8>; 0], "the first one of another port");
    }
}

#[test]
fn the_kernel_does_not_say_that_a_received_port_is_unreachable() {
    let Some(lab) = Lab::new() else { return };
    let mut ends = Ends::new(&lab);
    ends.add_port(4789).expect("VXLAN's port");
    ends.set_gre(true).expect("GRE");
    let said = || {
        let text = lab.ip("b", "-s link show v1");
        let all =
            lab::must(&format!("ip netns exec {} cat /proc/net/snmp /proc/net/snmp6", lab.ns("b")));
        let icmp = all
            .lines()
            .filter(|line| line.starts_with("Icmp:"))
            .nth(1)
            .expect("counters")
            .to_owned();
        let icmp6 =
            all.lines().find(|line| line.starts_with("Icmp6OutDestUnreachs")).expect("a counter");
        assert!(!text.is_empty());
        // IcmpMsg's rates would blur it: OutDestUnreachs stands 16th behind the name, whatever comes after it.
        (
            icmp.split_whitespace().nth(out_unreachable(&all)).expect("a counter").to_owned(),
            icmp6.to_owned(),
        )
    };
    let before = said();
    for packet in [
        v4(B4, 17, &udp(4789, b"x")),
        v6(B6, 17, &udp(4789, b"x")),
        v4(B4, 47, &[0; 8]),
        v6(B6, 47, &[0; 8]),
    ] {
        assert_eq!(ends.try_packet(&packet).len(), 1);
    }
    assert_eq!(said(), before);
    ends.send(&v4(B4, 17, &udp(4790, b"x")));
    until("it does of another port", || said().0 != before.0);
}

/// Which word of the line `Icmp:` counts what was said unreachable.
fn out_unreachable(text: &str) -> usize {
    let names = text.lines().find(|line| line.starts_with("Icmp:")).expect("names");
    names.split_whitespace().position(|name| name == "OutDestUnreachs").expect("the counter")
}

#[test]
fn a_taken_port_is_refused_by_its_number() {
    let Some(lab) = Lab::new() else { return };
    lab.ip("b", "link add vx type vxlan dstport 4789 external");
    lab.ip("b", "link set vx up");
    let mut ends = Ends::new(&lab);
    let taken = ends.add_port(4789).unwrap_err().to_string();
    assert_eq!(
        taken,
        "UDP port 4789 is taken in this network namespace: by a program, or by a tunnel device of the kernel (`ip -d link`)"
    );
    assert_eq!(
        ends.add_port(0).unwrap_err().to_string(),
        "UDP port 0 is no port: 1 to 65535 was expected"
    );
    let elsewhere = ends.receiver.add_port(4789).unwrap_err().to_string();
    assert_eq!(elsewhere, "the calling thread is in another network namespace than the receiver");
    assert_eq!(ends.receiver.ports().count(), 0);
    lab.ip("b", "link del vx");
    until("it is free", || ends.add_port(4789).is_ok());
    for port in 10_000..10_255 {
        ends.add_port(port).expect("a port");
    }
    let many = ends.add_port(10_255).unwrap_err().to_string();
    assert_eq!(many, "UDP port 10255 is one too many: a receiver has 256 at most");
    for port in [4789, 10_000, 10_254] {
        let packet = v4(B4, 17, &udp(port, b"last"));
        assert_eq!(ends.try_packet(&packet), vec![packet.clone()], "{port}");
        let packet = v6(B6, 17, &udp(port, b"last"));
        assert_eq!(ends.try_packet(&packet), vec![packet.clone()], "{port}");
    }
}

#[test]
fn packets_go_by_their_marks_and_refusals_are_counted() {
    let Some(lab) = Lab::new() else { return };
    for line in [
        "rule add fwmark 5 table 77",
        "route add blackhole 10.1.0.2/32 table 77",
        "-6 rule add fwmark 5 blackhole",
    ] {
        lab.ip("a", line);
    }
    lab.ip("a", "rule add pref 0 fwmark 5 table 77");
    lab.ip("a", "-6 rule add pref 0 fwmark 5 unreachable");
    let mut ends = Ends::new(&lab);
    ends.add_port(4789).expect("VXLAN's port");
    let one = v4(B4, 17, &udp(4789, b"one"));
    let six = v6(B6, 17, &udp(4789, b"six"));
    let away = v4(Ipv4Addr::new(192, 0, 2, 1), 17, &udp(4789, b"away"));
    let long = v4(B4, 17, &udp(4789, &[0; 1600]));
    let packets =
        [(&one, 0), (&one, 5), (&away, 0), (&six, 0), (&six, 5), (&long, 0), (&six, 9), (&one, 9)];
    let sent = ends.sender.send(packets.map(|(packet, mark)| Outgoing { packet, mark, device: 0 }));
    assert_eq!(sent, 4);
    assert_eq!(ends.sender.send([Outgoing { packet: &one[..30], mark: 0, device: 0 }]), 0);
    let counts = ends.sender.counts();
    assert_eq!((counts.sent, counts.malformed), (4, 1));
    let refused: u64 = counts.refused.values().sum();
    assert_eq!(refused, 4, "{counts:?}");
    // EMSGSIZE, ENETUNREACH.
    assert!(counts.refused[&90] == 1 && counts.refused[&101] >= 1, "{counts:?}");
    let mut got = 0;
    let receiver = &mut ends.receiver;
    until("those four have come", || {
        got += receiver.receive(|it| assert!(it.offload.gso.is_none()));
        got == 4
    });
}

/// A device of the kernel's leaves checksums and segments to the cable, which has no use for them.
#[test]
fn a_kernels_tunnel_sends_packets_with_their_offload() {
    let Some(lab) = Lab::new() else { return };
    lab.ip("a", "link add vx type vxlan id 7 dstport 4789 local 10.1.0.1 remote 10.1.0.2 dev v0");
    lab.ip("a", "link set vx up address 02:00:00:00:00:aa");
    lab.ip("a", "addr add 10.50.0.1/24 dev vx");
    lab.ip("a", "neigh add 10.50.0.2 lladdr 02:00:00:00:00:bb dev vx nud permanent");
    let mut ends = Ends::new(&lab);
    ends.add_port(4789).expect("VXLAN's port");
    lab.within("a", || {
        let address: (IpAddr, u16) = ([10, 50, 0, 2].into(), 9);
        let socket = std::net::UdpSocket::bind("10.50.0.1:0").expect("a socket");
        socket.send_to(&[5; 100], address).expect("sent");
    });
    let mut seen = None;
    let receiver = &mut ends.receiver;
    until("it has come", || {
        receiver.receive(|it| {
            // Outer headers, VXLAN, Ethernet, IPv4 and UDP.
            let inner = it.packet.get(20 + 8 + 8 + 14..).unwrap_or_default();
            if inner.ends_with(&[5; 100]) {
                seen = Some((it.offload, it.packet.len()));
            }
        });
        seen.is_some()
    });
    let (offload, len) = seen.expect("seen");
    assert_eq!(len, 20 + 8 + 8 + 14 + 20 + 8 + 100);
    // The inner UDP header begins behind the inner IPv4 header; its checksum is 6 octets into it.
    assert_eq!(offload.checksum, Some((20 + 8 + 8 + 14 + 20, 6)), "{offload:?}");
}

/// A device of the kernel's hands many datagrams to the cable as one.
#[test]
fn a_kernels_tunnel_sends_many_datagrams_as_one() {
    let Some(lab) = Lab::new() else { return };
    if !lab::sh("command -v python3").status.success() {
        println!("skipped: needs python3");
        return;
    }
    lab.ip("a", "link add vx type vxlan id 7 dstport 4789 local 10.1.0.1 remote 10.1.0.2 dev v0");
    lab.ip("a", "link set vx up address 02:00:00:00:00:aa");
    lab.ip("a", "addr add 10.50.0.1/24 dev vx");
    lab.ip("a", "neigh add 10.50.0.2 lladdr 02:00:00:00:00:bb dev vx nud permanent");
    let mut ends = Ends::new(&lab);
    ends.add_port(4789).expect("VXLAN's port");
    // SOL_UDP, UDP_SEGMENT.
    let send = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(17, 103, 1000); \
                s.sendto(b'x' * 9500, ('10.50.0.2', 9))";
    lab::must(&format!("ip netns exec {} python3 -c \"{send}\"", lab.ns("a")));
    let mut seen = None;
    let receiver = &mut ends.receiver;
    until("it has come", || {
        receiver.receive(|it| {
            if it.packet.ends_with(b"xxx") {
                seen = Some((it.offload, it.packet.len()));
            }
        });
        seen.is_some()
    });
    let (offload, len) = seen.expect("seen");
    assert_eq!(len, 20 + 8 + 8 + 14 + 20 + 8 + 9500);
    assert_eq!(offload.gso, Some((GsoKind::UdpSegments, 1000)), "{offload:?}");
    assert_eq!(offload.checksum, Some((20 + 8 + 8 + 14 + 20, 6)), "{offload:?}");
    assert_eq!(ends.receiver.counts().failed.len(), 0);
}
