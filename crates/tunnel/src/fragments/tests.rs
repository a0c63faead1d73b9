//! Packets that are cut at random come back whole; what contradicts is lost, and counted.

use super::*;
use crate::tests::random::Random;

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// A packet of GRE, or of what `protocol` says, with an identification.
pub(crate) fn packet(v6: bool, id: u8, len: usize) -> Vec<u8> {
    let mut packet = if v6 {
        let mut header = vec![0x60, 0x10, 0, 0, 0, 0, 47, 64];
        header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        header.extend([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        header.extend([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        header
    } else {
        let mut header = vec![0x45, 1, 0, 0, 0, id, 0, 0, 64, 47, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        header[2..4].copy_from_slice(&(len as u16 + 20).to_be_bytes());
        header
    };
    complete(&mut packet);
    packet.extend(payload(len));
    packet
}

fn complete(packet: &mut [u8]) {
    if packet[0] == 0x45 {
        packet[10..12].fill(0);
        let sum = checksum::checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The fragment of a packet's octets from `at` on.
pub(crate) fn cut(whole: &[u8], id: u8, octets: Range<usize>, more: bool) -> Vec<u8> {
    let header = if whole[0] == 0x45 { 20 } else { 40 };
    let mut fragment = whole[..header].to_vec();
    let bits = octets.start as u16;
    if header == 20 {
        fragment[2..4].copy_from_slice(&(octets.len() as u16 + 20).to_be_bytes());
        fragment[6..8].copy_from_slice(&((bits / 8) | (u16::from(more) << 13)).to_be_bytes());
        fragment[5] = id;
        complete(&mut fragment);
    } else {
        fragment[4..6].copy_from_slice(&(octets.len() as u16 + 8).to_be_bytes());
        fragment[6] = FRAGMENT;
        fragment.extend([whole[6], 0]);
        fragment.extend((bits | u16::from(more)).to_be_bytes());
        fragment.extend([0, 0, 0, id]);
    }
    fragment.extend(&whole[header..][octets]);
    fragment
}

/// Adds a fragment; gives what is whole, and what was lost.
fn add(all: &mut Fragments, bytes: &[u8], now: Instant) -> (Option<Vec<u8>>, Vec<Refused>) {
    let fragment = Fragment::read(bytes).expect("a fragment");
    let mut lost = Vec::new();
    (all.add(&fragment, now, &mut |reason| lost.push(reason)), lost)
}

#[test]
fn packets_cut_at_random_come_back_whole() {
    let (mut random, now) = (Random(5), Instant::now());
    for round in 0..400 {
        let v6 = round % 2 == 0;
        let len = 9 + random.below(4000);
        let whole = packet(v6, round as u8, len);
        let (mut parts, mut at) = (Vec::new(), 0);
        while at < len {
            let end = (at + 8 * (1 + random.below(80))).min(len);
            parts.push(cut(&whole, round as u8, at..end, end < len));
            at = end;
        }
        if parts.len() == 1 {
            continue;
        }
        // Some twice, in any order.
        for _ in 0..random.below(3) {
            parts.push(parts[random.below(parts.len())].clone());
        }
        for at in (1..parts.len()).rev() {
            parts.swap(at, random.below(at + 1));
        }
        let (mut all, mut got) = (Fragments::default(), None);
        for part in &parts {
            let (whole, lost) = add(&mut all, part, now);
            // What comes again behind the whole packet waits in vain.
            assert_eq!(lost, [], "round {round}");
            got = got.or(whole);
        }
        assert_eq!(got, Some(whole), "round {round}");
    }
}

#[test]
fn fragments_that_contradict_one_another_lose_their_packet() {
    let now = Instant::now();
    let whole = packet(false, 1, 64);
    let part = |octets: Range<usize>, more| cut(&whole, 1, octets, more);
    let mut other = part(8..24, true);
    other[25] ^= 1;
    for wrong in [
        // They overlap, in part or with other octets.
        [part(0..16, true), part(8..24, true)],
        [part(0..32, true), other],
        // Two ends; one before what has come; more behind the end.
        [part(16..40, false), part(32..64, false)],
        [part(32..48, true), part(16..40, false)],
        [part(16..40, false), part(40..64, true)],
    ] {
        let mut all = Fragments::default();
        assert_eq!(add(&mut all, &wrong[0], now), (None, vec![]));
        assert_eq!(add(&mut all, &wrong[1], now), (None, vec![Refused::FragmentsWrong]));
        assert!(all.is_empty());
    }
    // One that is wrong in itself leaves the others alone.
    let mut all = Fragments::default();
    assert_eq!(add(&mut all, &part(0..16, true), now), (None, vec![]));
    let odd = part(16..23, true);
    assert_eq!(add(&mut all, &odd, now), (None, vec![Refused::FragmentsWrong]));
    let mut long = part(16..24, true);
    long[6..8].copy_from_slice(&0x3fff_u16.to_be_bytes());
    complete(&mut long);
    assert_eq!(add(&mut all, &long, now), (None, vec![Refused::FragmentsWrong]));
    let mut sum = part(16..64, false);
    sum[10] ^= 1;
    assert_eq!(add(&mut all, &sum, now), (None, vec![Refused::IpChecksum]));
    assert_eq!(add(&mut all, &part(16..64, false), now).0, Some(whole.clone()));
}

#[test]
fn congestion_is_of_the_whole_packet() {
    let now = Instant::now();
    let with = |ecn: u8, octets: Range<usize>, more| {
        let mut part = cut(&packet(false, 1, 32), 1, octets, more);
        part[1] = part[1] & !3 | ecn;
        complete(&mut part);
        part
    };
    for (first, second, whole) in [(1, 3, Some(3)), (3, 1, Some(3)), (0, 3, None), (2, 2, Some(2))]
    {
        let mut all = Fragments::default();
        add(&mut all, &with(first, 0..16, true), now);
        let (got, lost) = add(&mut all, &with(second, 16..32, false), now);
        assert_eq!(got.map(|packet| packet[1] & 3), whole);
        assert_eq!(lost.is_empty(), whole.is_some());
    }
}

#[test]
fn what_is_never_whole_is_lost_after_a_time_and_makes_room() {
    let start = Instant::now();
    let part = |id: u8| cut(&packet(false, id, 64), id, 0..32, true);
    let mut all = Fragments::default();
    for id in 0..PACKETS_MAX as u8 {
        assert_eq!(add(&mut all, &part(id), start), (None, vec![]));
    }
    assert_eq!(add(&mut all, &part(200), start), (None, vec![Refused::FragmentsLate]));
    assert_eq!(all.len(), PACKETS_MAX);
    assert!(!all.know(&Fragment::read(&part(0)).expect("a fragment")));
    assert!(all.know(&Fragment::read(&part(1)).expect("a fragment")));
    let (_, lost) = add(&mut all, &part(201), start + TIME);
    assert_eq!((lost.len(), all.len()), (PACKETS_MAX, 1));
}

#[test]
fn other_packets_are_no_fragments() {
    assert!(Fragment::read(&packet(false, 1, 64)).is_none());
    assert!(Fragment::read(&packet(true, 1, 64)).is_none());
    let whole = packet(true, 1, 64);
    let part = cut(&whole, 1, 0..32, true);
    for len in 0..48 {
        assert!(Fragment::read(&part[..len]).is_none(), "{len}");
    }
    // An atomic one is whole by itself (RFC 6946).
    let alone = cut(&whole, 1, 0..64, false);
    assert_eq!(add(&mut Fragments::default(), &alone, Instant::now()).0, Some(whole));
    let mut udp = cut(&packet(false, 1, 64), 1, 0..32, true);
    udp[9] = 17;
    complete(&mut udp);
    let port = Fragment::read(&udp).expect("a fragment").udp_port();
    assert_eq!(port, Some(u16::from_be_bytes([payload(4)[2], payload(4)[3]])));
}
