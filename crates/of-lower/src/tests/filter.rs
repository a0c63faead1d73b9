//! A filter takes what an entry with its match takes.

use super::frames::{arp_frame, tcp4, tcp6};
use crate::filter::FrameFilter;
use openflow::{FieldId, Match};

fn takes(matching: Match, in_port: u32, bytes: &[u8]) -> bool {
    let mut filter = FrameFilter::new(&matching).unwrap();
    let first = filter.takes(in_port, bytes);
    // One frame leaves nothing behind for the next.
    assert_eq!(filter.takes(in_port, bytes), first);
    assert!(!filter.takes(in_port, &[]));
    first
}

#[test]
fn frames_are_taken_by_headers_and_port() {
    let tcp = || Match::new().with(FieldId::EthType, 0x800).with(FieldId::IpProto, 6);
    let (v4, v6, arp) = (tcp4().bytes(), tcp6().bytes(), arp_frame().bytes());
    assert!(takes(tcp(), 1, &v4));
    assert!(!takes(tcp(), 1, &v6) && !takes(tcp(), 1, &arp));
    assert!(takes(tcp().with(FieldId::TcpDst, 2222), 1, &v4));
    assert!(!takes(tcp().with(FieldId::TcpDst, 2223), 1, &v4));
    assert!(takes(Match::new().with(FieldId::InPort, 7), 7, &arp));
    assert!(!takes(Match::new().with(FieldId::InPort, 7), 8, &arp));
    let mut net = tcp();
    net.set_masked(FieldId::Ipv4Src, 0xc0a8_0000, 0xffff_0000);
    assert!(takes(net, 1, &v4));
    // The tag is part of what was matched.
    let tagged = tcp4().vlan(0x8100, 5).bytes();
    assert!(takes(tcp().with(FieldId::VlanVid, 0x1005), 1, &tagged));
    assert!(!takes(tcp().with(FieldId::VlanVid, 0x1005), 1, &v4));
}

#[test]
fn state_is_no_part_of_a_frame() {
    let refused = |field| FrameFilter::new(&Match::new().with(field, 1)).unwrap_err();
    for field in
        [FieldId::Reg0, FieldId::Metadata, FieldId::CtZone, FieldId::TunSrc, FieldId::TunnelId]
    {
        assert!(refused(field).contains("no part of a frame"), "{field:?}");
    }
    let headers = FieldId::ALL
        .iter()
        .filter(|field| FrameFilter::new(&Match::new().with(**field, 0)).is_ok());
    // All of OpenFlow 1.5's header fields, and the port.
    for field in
        [FieldId::InPort, FieldId::EthDst, FieldId::TcpFlags, FieldId::Ipv6NdTll, FieldId::NwTtl]
    {
        assert!(headers.clone().any(|known| *known == field), "{field:?}");
    }
}
