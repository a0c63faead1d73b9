//! `ct` on packets that must wait, that come in the wrong order, or that announce other connections; by both engines.

use super::bed::*;
use openflow::FlowMod;
use openflow::syntax::{Context, parse_flow};
use service::craft::{Frame, checksums_are_right};
use std::net::IpAddr;
use switch::EngineKind;
use wire::IpProtocol;
use wire::tcp::Flags;

fn flow(line: &str) -> FlowMod {
    let flow = parse_flow(line, &Context::new(V13));
    flow.unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// The same by both engines.
fn each(flows: &[&str], test: impl Fn(&mut Bed)) {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let mut bed = Bed::by(engine, program(), 3);
        flows.iter().for_each(|line| drop(bed.ok(flow(line))));
        test(&mut bed);
    }
}

fn v4(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

/// A UDP datagram's fragments, of 16 octets each.
fn fragments(ident: u16, from: (IpAddr, u16), to: (IpAddr, u16)) -> Vec<Vec<u8>> {
    let whole = Frame::udp(from, to, 32);
    let body = whole.bytes()[34..].to_vec();
    let part = |(n, part): (usize, &[u8])| Frame {
        body: part.to_vec(),
        fragment: (ident, (n as u16 * 2) | if n < 2 { 0x2000 } else { 0 }),
        ..whole.clone()
    };
    body.chunks(16).enumerate().map(|part_of| part(part_of).bytes()).collect()
}

/// A switch's drops at port 1, by reason.
fn drops(bed: &Bed) -> Vec<(&'static str, u64)> {
    let all = bed.agent.switch().port_counters();
    let port = all.into_iter().find(|(view, ..)| view.number == 1);
    port.map(|(_, counters, _)| counters.drops).unwrap_or_default()
}

const STATEFUL: [&str; 4] = [
    "table=0,ip,ct_state=-trk actions=ct(table=1)",
    "table=1,ip,in_port=1,ct_state=+trk+new actions=ct(commit),2",
    "table=1,ip,in_port=1,ct_state=+trk+est actions=2",
    "table=1,priority=1,ct_state=+inv actions=3",
];

#[test]
fn fragments_leave_in_order_whatever_order_they_come_in() {
    each(&STATEFUL, |bed| {
        for (n, order) in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1], [1, 2, 0]].iter().enumerate()
        {
            let parts = fragments(n as u16 + 1, (v4(1), 1000 + n as u16), (v4(2), 53));
            order.iter().for_each(|part| bed.send(1, &parts[*part]));
            let mut came: Vec<Vec<u8>> = (0..3).map(|_| bed.receive(2)).collect();
            let first = order.iter().position(|part| *part == 0).unwrap();
            // What waited for the first leaves behind it, in the datagram's order; what comes later, as it comes.
            assert_eq!(came[0], parts[0], "{order:?}");
            let mut waited: Vec<usize> = order[..first].to_vec();
            waited.sort_unstable();
            let expected: Vec<Vec<u8>> =
                waited.iter().chain(&order[first + 1..]).map(|part| parts[*part].clone()).collect();
            assert_eq!(came.split_off(1), expected, "{order:?}");
        }
        bed.silent(3);
        assert_eq!(drops(bed), []);
    });
}

/// A connection begins with a datagram in three fragments, and all of them are in one burst with others' first ones.
#[test]
fn fragments_of_a_burst_follow_the_connection_that_their_first_opens() {
    for translated in [false, true] {
        let commit = if translated { "ct(commit,nat(src=198.51.100.1))" } else { "ct(commit)" };
        let new = format!("table=1,in_port=1,ip,ct_state=+trk+new actions={commit},output:2");
        let flows = [
            "table=0,in_port=1,ip,ct_state=-trk actions=ct(nat,table=1)",
            &new,
            "table=1,in_port=1,ip,ct_state=+trk+est actions=output:2",
            "table=1,priority=1,ip,ct_state=+trk+inv actions=output:3",
        ];
        each(&flows, |bed| {
            for burst in 0..5u16 {
                let datagram =
                    |n: u16| fragments(burst * 10 + n + 1, (v4(1), 1000 + n), (v4(2), 53 + burst));
                let all: Vec<_> = (0..10).flat_map(datagram).collect();
                bed.burst(1, &all);
                let came: Vec<_> = (0..30).map(|_| bed.receive(2)).collect();
                if translated {
                    assert!(came.iter().all(|frame| frame[26..30] == [198, 51, 100, 1]));
                } else {
                    assert_eq!(came, all);
                }
            }
            bed.silent(3);
            assert_eq!(drops(bed), []);
        });
    }
}

/// The same with fragments in the wrong order, and with those of two datagrams in turns.
#[test]
fn fragments_of_a_burst_come_in_any_order() {
    each(&STATEFUL, |bed| {
        for (n, order) in [[2, 1, 0], [1, 2, 0], [1, 0, 2]].iter().enumerate() {
            let one = fragments(n as u16 * 2 + 1, (v4(1), 1000 + n as u16), (v4(2), 53));
            let other = fragments(n as u16 * 2 + 2, (v4(3), 1000 + n as u16), (v4(2), 53));
            let all: Vec<_> =
                order.iter().flat_map(|part| [one[*part].clone(), other[*part].clone()]).collect();
            bed.burst(1, &all);
            let mut came: Vec<_> = (0..6).map(|_| bed.receive(2)).collect();
            let mut expected = [one, other].concat();
            came.sort();
            expected.sort();
            assert_eq!(came, expected, "{order:?}");
        }
        bed.silent(3);
        assert_eq!(drops(bed), []);
    });
}

/// The datagram's source is translated, and each fragment's with it.
#[test]
fn fragments_are_translated_in_any_order() {
    let flows = [
        "table=0,priority=10,ip actions=ct(zone=1,nat,table=1)",
        "table=1,priority=15,in_port=1,ip,ct_state=+trk+new actions=ct(commit,zone=1,nat(src=198.51.100.1)),2",
        "table=1,priority=10,in_port=1,ct_state=+trk+est actions=2",
        "table=1,priority=1,ct_state=+inv actions=3",
    ];
    each(&flows, |bed| {
        for (n, order) in [[0, 1, 2], [2, 1, 0], [1, 2, 0]].iter().enumerate() {
            let parts = fragments(n as u16 + 1, (v4(1), 1000 + n as u16), (v4(2), 53));
            order.iter().for_each(|part| bed.send(1, &parts[*part]));
            for _ in 0..3 {
                assert_eq!(bed.receive(2)[26..30], [198, 51, 100, 1], "{order:?}");
            }
        }
        bed.silent(3);
    });
}

#[test]
fn overlapping_fragments_go_nowhere_and_are_counted() {
    each(&STATEFUL, |bed| {
        let parts = fragments(7, (v4(1), 1000), (v4(2), 53));
        let mut overlapping = parts[1].clone();
        // One unit earlier: over the first one's end.
        overlapping[21] -= 1;
        wire::ipv4::Packet::new_header_checked(&mut overlapping[14..]).unwrap().fill_checksum();
        bed.send(1, &parts[0]);
        assert_eq!(bed.receive(2), parts[0]);
        for part in [&overlapping, &parts[1], &parts[2]] {
            bed.send(1, part);
        }
        bed.silent(2);
        bed.silent(3);
        assert_eq!(drops(bed), [("service_drop", 3)]);
    });
}

#[test]
fn what_still_waits_when_the_switch_stops_is_counted() {
    each(&STATEFUL, |bed| {
        let parts = fragments(7, (v4(1), 1000), (v4(2), 53));
        bed.send(1, &parts[2]);
        bed.send(1, &parts[1]);
        bed.silent(2);
        assert_eq!(drops(bed), []);
        bed.agent.switch().stop();
        assert_eq!(drops(bed), [("switch_stopped", 2)]);
    });
}

/// Entries that change while a fragment waits: it goes on by those that are there then.
#[test]
fn a_fragment_waits_through_a_change_of_entries() {
    each(&STATEFUL, |bed| {
        let parts = fragments(7, (v4(1), 1000), (v4(2), 53));
        bed.send(1, &parts[2]);
        bed.silent(2);
        bed.ok(flow("table=1,priority=40000,ip,in_port=1,ct_state=+trk+new actions=ct(commit),3"));
        bed.send(1, &parts[0]);
        bed.send(1, &parts[1]);
        let came: Vec<_> = (0..3).map(|_| bed.receive(3)).collect();
        assert_eq!(came, [0, 2, 1].map(|n| parts[n].clone()));
    });
}

/// OVN's hairpin: `nat(src)` leaves the address, and changes the port where another connection's answers would come.
#[test]
fn an_address_that_stays() {
    let flows = [
        "table=0,priority=9,in_port=1,ip,nw_dst=10.0.0.50 actions=ct(commit,nat(dst=10.0.0.3)),2",
        "table=0,priority=5,in_port=1,ip actions=ct(commit,nat(src)),3",
        "table=0,priority=5,in_port=2,ip actions=ct(nat,table=1)",
        "table=1,ip,ct_state=+est+rpl actions=1",
    ];
    each(&flows, |bed| {
        let syn = |to| Frame::tcp((v4(1), 10_000), (to, 80), Flags::SYN, (1, 0), 0).bytes();
        bed.send(1, &syn(v4(50)));
        assert_eq!(bed.receive(2), syn(v4(3)));
        bed.send(1, &syn(v4(3)));
        let out = bed.receive(3);
        assert!(checksums_are_right(&out) && out[26..30] == [10, 0, 0, 1]);
        let port = u16::from_be_bytes([out[34], out[35]]);
        assert!(port >= 1024 && port != 10_000);
        let answer = |to| Frame::tcp((v4(3), 80), to, Flags::SYN | Flags::ACK, (9, 2), 0).bytes();
        bed.send(2, &answer((v4(1), port)));
        assert_eq!(bed.receive(1), answer((v4(1), 10_000)));
    });
}

fn segment(from: (IpAddr, u16), to: (IpAddr, u16), numbers: (u32, u32), text: &str) -> Frame {
    let mut frame = Frame::tcp(from, to, Flags::ACK | Flags::PSH, numbers, 0);
    frame.body.extend(text.as_bytes());
    frame
}

/// FTP behind a translation: what the client announces has another length outside, and the data connection comes back.
#[test]
fn a_translated_client_says_where_its_data_goes() {
    let flows = [
        "table=0,ip actions=ct(nat,table=1)",
        "table=1,priority=9,in_port=1,tcp,tp_dst=21,ct_state=+trk+new actions=ct(commit,nat(src=198.51.100.1),alg=ftp,exec(set_field:5->ct_mark)),2",
        "table=1,priority=9,in_port=2,tcp,ct_state=+trk+new+rel,ct_mark=5 actions=ct(commit,nat),1",
        "table=1,priority=5,in_port=1,tcp,ct_state=+trk+est actions=2",
        "table=1,priority=5,in_port=2,tcp,ct_state=+trk+est actions=1",
        "table=1,priority=1,ip actions=3",
    ];
    each(&flows, |bed| {
        let outside = IpAddr::from([198, 51, 100, 1]);
        let (client, server, seen) = ((v4(1), 4000), (v4(2), 21), (outside, 4000));
        bed.send(1, &Frame::tcp(client, server, Flags::SYN, (1000, 0), 0).bytes());
        bed.receive(2);
        bed.send(2, &Frame::tcp(server, seen, Flags::SYN | Flags::ACK, (5000, 1001), 0).bytes());
        bed.receive(1);
        let said = segment(client, server, (1001, 5001), "PORT 10,0,0,1,19,137\r\n");
        bed.send(1, &said.bytes());
        let read = segment(seen, server, (1001, 5001), "PORT 198,51,100,1,19,137\r\n").bytes();
        assert_eq!(bed.receive(2), read);
        let (len, more) = (22, 4);
        bed.send(2, &segment(server, seen, (5001, 1001 + len + more), "200 ok\r\n").bytes());
        assert_eq!(
            bed.receive(1),
            segment(server, client, (5001, 1001 + len), "200 ok\r\n").bytes()
        );
        bed.send(1, &segment(client, server, (1001 + len, 5009), "RETR a\r\n").bytes());
        let moved = segment(seen, server, (1001 + len + more, 5009), "RETR a\r\n").bytes();
        assert_eq!(bed.receive(2), moved);
        let syn = |to| Frame::tcp((v4(2), 20), to, Flags::SYN, (1, 0), 0).bytes();
        bed.send(2, &syn((outside, 5001)));
        assert_eq!(bed.receive(1), syn((v4(1), 5001)));
        bed.send(2, &syn((outside, 5002)));
        assert_eq!(bed.receive(3), syn((outside, 5002)), "nobody announced that");
        let answer = |from| Frame::tcp(from, (v4(2), 20), Flags::SYN | Flags::ACK, (9, 2), 0);
        bed.send(1, &answer((v4(1), 5001)).bytes());
        assert_eq!(bed.receive(2), answer((outside, 5001)).bytes());
    });
}

#[test]
fn a_tftp_server_answers_from_another_port() {
    let flows = [
        "table=0,ip actions=ct(table=1)",
        "table=1,in_port=1,udp,tp_dst=69,ct_state=+trk+new actions=ct(commit,alg=tftp),2",
        "table=1,in_port=2,udp,ct_state=+trk+new+rel actions=ct(commit),1",
        "table=1,priority=1,ip actions=3",
    ];
    each(&flows, |bed| {
        let mut request = Frame::udp((v4(1), 3000), (v4(2), 69), 12);
        request.body[8..].copy_from_slice(b"\0\x01file\0octet");
        bed.send(1, &request.bytes());
        bed.receive(2);
        let data = Frame::new(v4(2), v4(1), IpProtocol::UDP, {
            let answer = Frame::udp((v4(2), 34_567), (v4(1), 3000), 30);
            answer.body
        });
        bed.send(2, &data.bytes());
        assert_eq!(bed.receive(1), data.bytes());
        let other = Frame::udp((v4(9), 34_567), (v4(1), 3000), 30).bytes();
        bed.send(2, &other);
        assert_eq!(bed.receive(3), other);
    });
}

/// What a controller is told of a connection, in the order of `ovs-ofctl`.
fn told(bed: &mut Bed, frame: &[u8]) -> String {
    bed.send(1, frame);
    let matching = bed.event(|event| match event {
        crate::Event::PacketIn(packet) => Some(packet.matching.clone()),
        _ => None,
    });
    openflow::syntax::print_match(&matching, V13)
}

#[test]
fn controllers_are_told_all_of_a_connection_and_what_kind_of_packet_it_is() {
    // As Open vSwitch tells it: zeros, too, and of what belongs to no connection only the packet's type.
    let flows = [
        "ip,ct_state=-trk actions=ct(table=1)",
        "ipv6,ct_state=-trk actions=ct(table=1)",
        "table=1 actions=controller",
    ];
    each(&flows, |bed| {
        let ping = Frame::icmp(v4(1), v4(2), 8, 0, 7, b"ping").bytes();
        let all = told(bed, &ping);
        for word in ["ip,", "ct_nw_src=10.0.0.1", "ct_nw_proto=1", "ct_tp_src=8", "ct_tp_dst=0"] {
            assert!(all.contains(word), "{word}: {all}");
        }
        let mut tagged = ping.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        assert!(told(bed, &tagged).contains("ct_tp_dst=0"), "behind a tag");
        let six = |n: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n]);
        let all = told(bed, &Frame::udp((six(1), 1000), (six(2), 53), 9).bytes());
        for word in ["ipv6,", "ct_ipv6_dst=fd00::2", "ct_tp_dst=53"] {
            assert!(all.contains(word), "{word}: {all}");
        }
        let mut wrong = Frame::tcp((v4(1), 1), (v4(2), 80), Flags::SYN, (1, 0), 0).bytes();
        wrong[50] ^= 1;
        let all = told(bed, &wrong);
        assert!(all.contains("ip,") && all.contains("inv") && !all.contains("ct_nw"), "{all}");
    });
}
