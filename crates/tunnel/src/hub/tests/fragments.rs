//! Outer packets that come in fragments.

use super::*;
use crate::fragments::tests::cut;

/// What a port sends for an inner frame, as frames of two fragments.
fn halves(from: &mut End, inner: &[u8], id: u8) -> [Frame; 2] {
    from.tx[0].tx(&plain(inner)).unwrap();
    from.tx[0].flush();
    let whole = take(&mut *from.device[0]).remove(0);
    let (ethernet, packet) = whole.data().split_at(14);
    let len = packet.len() - if packet[0] == 0x45 { 20 } else { 40 };
    let part = |octets: std::ops::Range<usize>| {
        let more = octets.end < len;
        Frame::copy_of(&[ethernet, &cut(packet, id, octets, more)].concat())
    };
    [part(0..32), part(32..len)]
}

fn ends(kind: Kind, own: &str, v6: bool) -> [End; 2] {
    let remote = |n: u8| if v6 { super::v6(n) } else { v4(n) };
    [(1, 2), (2, 1)].map(|(here, there)| {
        let text = format!("remote_ip={},key=5{own}", remote(there));
        end(Arc::new(Net::new(here)), 1, kind, &text)
    })
}

#[test]
fn they_are_put_together_where_the_port_says_so() {
    for kind in [Kind::Geneve, Kind::Vxlan, Kind::Gre] {
        for v6 in [false, true] {
            let [mut a, mut b] = ends(kind, ",reassemble=true,csum=true", v6);
            for id in 0..3 {
                let inner = udp4(id.into(), 0);
                let [first, last] = halves(&mut a, &inner, id);
                give(&mut *b.takers[0], first);
                b.takers[0].flush();
                assert!(take(&mut *b.rx[0]).is_empty());
                give(&mut *b.takers[0], last);
                b.takers[0].flush();
                let frames = take(&mut *b.rx[0]);
                assert_eq!(frames.len(), 1, "{kind} {v6}");
                assert_eq!(frames[0].data()[LEN..], inner);
            }
            assert!(refusals(&b.hub).is_empty());
        }
    }
}

#[test]
fn those_of_the_host_stay_its_own() {
    let [mut a, mut b] = ends(Kind::Geneve, ",reassemble=true", false);
    let [first, last] = halves(&mut a, &udp4(1, 0), 1);
    // A later fragment says no port, and nobody knows it yet.
    assert!(!b.takers[0].wants(&last));
    give(&mut *b.takers[0], first.clone());
    assert!(b.takers[0].wants(&last));
    let change = |frame: &Frame, at: usize, to: u8| {
        let mut other = frame.clone();
        other.data_mut()[at] = to;
        other
    };
    assert!(!b.takers[0].wants(&change(&last, 19, 2)), "another identification");
    assert!(!b.takers[0].wants(&change(&first, 37, 99)), "another UDP port");
    assert!(!b.takers[0].wants(&change(&first, 33, 9)), "another host");
    assert!(!b.takers[0].wants(&change(&first, 23, 6)), "TCP");
    assert!(refusals(&b.hub).is_empty());
    // The checksum is one of the whole packet.
    let [mut a, mut b] = ends(Kind::Geneve, ",reassemble=true,csum=true", false);
    let [first, last] = halves(&mut a, &udp4(1, 0), 1);
    give(&mut *b.takers[0], first);
    give(&mut *b.takers[0], change(&last, 50, last.data()[50] ^ 1));
    assert_eq!(refusals(&b.hub), [(None, false, Refused::UdpChecksum, 1)]);
}

#[test]
fn they_are_refused_where_it_does_not() {
    let [mut a, mut b] = ends(Kind::Gre, "", false);
    let [first, last] = halves(&mut a, &udp4(1, 0), 1);
    give(&mut *b.takers[0], first.clone());
    give(&mut *b.takers[0], last.clone());
    assert_eq!(refusals(&b.hub), [(None, false, Refused::Fragment, 2)]);
    // Another port asks for it.
    let other = config(Kind::Gre, "remote_ip=10.0.0.9,key=5,reassemble=true");
    let port = b.hub.open("u", other).unwrap();
    give(&mut *b.takers[0], first);
    give(&mut *b.takers[0], last);
    assert_eq!(refusals(&b.hub), [(None, false, Refused::Fragment, 3)]);
    drop(port);
    assert!(take(&mut *b.rx[0]).is_empty());
}
