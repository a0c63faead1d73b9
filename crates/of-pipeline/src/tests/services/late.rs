//! Fragments that come before their first one wait in the services `nat` and `conntrack`, bounded, and go on in order.

use super::*;

const TRACKED: [&str; 3] = [
    "sf_stage=0,in_port=1,ip actions=softflow(fw,1)",
    "sf_stage=1,sf_metadata=1 actions=2",
    "sf_stage=1,sf_metadata=0 actions=3",
];
const TRACKER: &str = "fw conntrack connections=1000 fragmented=8";
const NAT: &str = "fw nat direction=out addresses=198.51.100.1 connections=1000";
const NAT6: &str = "fw nat direction=out addresses=2001:db8:f::1 connections=1000";

const ORDERS: [[usize; 3]; 5] = [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1], [1, 2, 0]];

fn drops(bed: &Bed) -> Vec<(&'static str, u64)> {
    let all = bed.agent.switch().port_counters();
    let port = all.into_iter().find(|(view, ..)| view.number == 1);
    port.map(|(_, counters, _)| counters.drops).unwrap_or_default()
}

#[test]
fn a_tracker_s_fragments_come_in_any_order() {
    for in_one_burst in [false, true] {
        each(&[TRACKER], &TRACKED, |bed| {
            for (n, order) in ORDERS.iter().enumerate() {
                let parts = fragments(n as u16 + 1, (v4(1), 1000 + n as u16), (v4(2), 53));
                let sent: Vec<_> = order.iter().map(|part| parts[*part].clone()).collect();
                match in_one_burst {
                    true => bed.burst(1, &sent),
                    false => sent.iter().for_each(|part| bed.send(1, part)),
                }
                let came: Vec<_> = (0..3).map(|_| bed.receive(2)).collect();
                assert_eq!(came[0], parts[0], "{order:?}: the first one leads");
                assert!(parts.iter().all(|part| came.contains(part)), "{order:?}");
            }
            bed.silent(3);
            assert_eq!(drops(bed), []);
        });
    }
}

#[test]
fn a_translation_s_fragments_come_in_any_order() {
    each(&[NAT], &TRACKED, |bed| {
        for (n, order) in ORDERS.iter().enumerate() {
            let parts = fragments(n as u16 + 1, (v4(1), 1000 + n as u16), (v4(2), 53));
            order.iter().for_each(|part| bed.send(1, &parts[*part]));
            let came: Vec<_> = (0..3).map(|_| bed.receive(2)).collect();
            assert!(came.iter().all(|frame| frame[26..30] == [198, 51, 100, 1]), "{order:?}");
            // Behind the header each is as it was, but for the first one's ports and checksum.
            let bodies = came.iter().map(|frame| frame[42..].to_vec());
            let mut bodies: Vec<_> = bodies.collect();
            let mut expected: Vec<_> = parts.iter().map(|part| part[42..].to_vec()).collect();
            bodies.sort();
            expected.sort();
            assert_eq!(bodies, expected, "{order:?}");
        }
        bed.silent(3);
        assert_eq!(drops(bed), []);
    });
}

/// The same of IPv6, whose header of fragments stands behind the fixed one.
fn fragments_of_ipv6(ident: u32, from: (IpAddr, u16), to: (IpAddr, u16)) -> Vec<Vec<u8>> {
    let whole = Frame::udp(from, to, 40).bytes();
    let (head, body) = whole.split_at(14 + 40);
    let parts = body.chunks(16).enumerate().map(|(n, part)| {
        let mut frame = head.to_vec();
        frame[18..20].copy_from_slice(&(8 + part.len() as u16).to_be_bytes());
        let protocol = std::mem::replace(&mut frame[20], 44);
        frame.extend([protocol, 0]);
        frame.extend(((n as u16 * 16) | u16::from(n < 2)).to_be_bytes());
        frame.extend(ident.to_be_bytes());
        frame.extend(part);
        frame
    });
    parts.collect()
}

#[test]
fn fragments_of_ipv6_come_in_any_order() {
    let address = |n: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n]);
    for service in [TRACKER, NAT6] {
        let flows = TRACKED.map(|line| line.replace(",ip ", ",ipv6 "));
        let flows: Vec<&str> = flows.iter().map(String::as_str).collect();
        each(&[service], &flows, |bed| {
            for (n, order) in ORDERS.iter().enumerate() {
                let (from, to) = ((address(1), 1000 + n as u16), (address(2), 53));
                let parts = fragments_of_ipv6(n as u32 + 1, from, to);
                order.iter().for_each(|part| bed.send(1, &parts[*part]));
                let came: Vec<_> = (0..3).map(|_| bed.receive(2)).collect();
                if service == TRACKER {
                    assert!(parts.iter().all(|part| came.contains(part)), "{order:?}");
                } else {
                    let outside = came.iter().filter(|f| f[22..24] == [0x20, 1] && f[37] == 1);
                    assert_eq!(outside.count(), 3, "{order:?}");
                }
            }
            bed.silent(3);
        });
    }
}

/// The first one never comes: what waits is bounded, and what is too much is counted as dropped.
#[test]
fn what_waits_for_what_never_comes_is_bounded() {
    each(&[TRACKER], &TRACKED, |bed| {
        for n in 0..100u16 {
            let parts = fragments(n + 1, (v4(1), 1000 + n), (v4(2), 53));
            bed.burst(1, &parts[1..]);
        }
        bed.silent(2);
        bed.silent(3);
        let lost: u64 = drops(bed).iter().map(|(_, n)| n).sum();
        assert!((1..200).contains(&lost), "{lost} of 200 are lost, the others wait");
        // Others are served meanwhile.
        let parts = fragments(1000, (v4(3), 1000), (v4(2), 53));
        for part in &parts {
            bed.send(1, part);
            assert_eq!(&bed.receive(2), part);
        }
        bed.agent.switch().stop();
        let lost: u64 = drops(bed).iter().map(|(_, n)| n).sum();
        assert_eq!(lost, 200, "none is forgotten: {:?}", drops(bed));
    });
}

/// Its service goes: nothing waits for ever, and each is counted.
#[test]
fn a_service_that_goes_gives_up_what_waits_in_it() {
    for service in [TRACKER, NAT] {
        each(&[service], &TRACKED, |bed| {
            let parts = fragments(7, (v4(1), 1000), (v4(2), 53));
            bed.send(1, &parts[2]);
            bed.send(1, &parts[1]);
            bed.silent(2);
            assert_eq!(drops(bed), []);
            let elements = bed.agent.switch().services().elements().unwrap().clone();
            assert!(elements.remove(number("fw")));
            bed.until("what waits is given up", |bed| {
                drops(bed).iter().map(|(_, n)| n).sum::<u64>() == 2
            });
            bed.silent(2);
        });
    }
}
