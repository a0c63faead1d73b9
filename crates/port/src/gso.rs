//! Offloads completed in software: for ports that carry none.
//!
//! A frame with a partial checksum gets its checksum; a frame that stands for many segments is cut
//! into them, as the sender's kernel would have done at its own interface. So a Linux host behind
//! TAP or AF_PACKET keeps its default offloads whatever the frame's way out is.
//!
//! Cutting works on the headers that are there (VLAN tags, MPLS labels, PBB, IPv4 or IPv6 with
//! extension headers, then TCP or UDP) and computes lengths, IPv4 identifications, sequence numbers
//! and all checksums anew. Of TCP's flags, FIN and PSH stay with the last segment and CWR with the
//! first (RFC 3168 §6.1.2). The pseudo-header is that of the IP header's addresses: a segment under
//! an IPv6 routing header with segments left is refused.
//!
//! Left out: `UdpFragment` (UFO), which Linux has not produced since 4.14; such a frame is dropped
//! as `tx_no_offload`.
//!
//! Cost: one copy of the payload and one pass for its checksum.

use crate::offload::{Csum, Gso, GsoKind, VNET_HDR_LEN};
use crate::{DropReason, Frame, Offload, Pool, checksum};

const ETH_LEN: usize = 14;
const HDR_LEN_HINT_MAX: u16 = 256;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// Refuses a frame that the port could not send: shorter than an Ethernet header, or longer than
/// `mtu` allows behind a header with two VLAN tags. A GSO frame is judged by its segments.
pub fn check_len(frame: &Frame, mtu: u32) -> Result<(), DropReason> {
    if frame.len() < ETH_LEN {
        return Err(DropReason::TxTooShort);
    }
    if frame.offload.gso.is_none() && frame.len() > mtu as usize + ETH_LEN + 8 {
        return Err(DropReason::TxTooLong);
    }
    Ok(())
}

/// Gives `emit` the frame, or its segments, with nothing owed any more.
pub fn complete(
    frame: &Frame,
    pool: &mut Pool,
    mut emit: impl FnMut(Frame),
) -> Result<(), DropReason> {
    if let Some(gso) = frame.offload.gso {
        return segment(frame, gso, pool, &mut emit).ok_or(DropReason::TxNoOffload);
    }
    let mut copy = pool.clone_of(frame);
    if let Csum::Partial { start, offset } = frame.offload.csum
        && complete_checksum(copy.data_mut(), start.into(), offset.into()).is_none()
    {
        pool.give(copy);
        return Err(DropReason::TxNoOffload);
    }
    copy.offload = Offload { csum: Csum::Valid, gso: None };
    emit(copy);
    Ok(())
}

/// Completes a partial checksum in place: the sum from `start` to the end goes to
/// `start + offset`. SCTP's is recognised, and gets its CRC32c. `None` if the field lies outside.
pub fn complete_checksum(data: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let field = start.checked_add(offset)?;
    if start > data.len() || field.checked_add(2)? > data.len() {
        return None;
    }
    if offset == 8
        && let Some(layers) = find_layers(data)
        && layers.protocol == SCTP
        && layers.transport == start
    {
        let end = layers.end;
        data.get_mut(field..field + 4)?.fill(0);
        let crc = checksum::crc32c([data.get(start..end)?]);
        data[field..field + 4].copy_from_slice(&crc.to_le_bytes());
        return Some(());
    }
    let sum = checksum::finish_nonzero(checksum::add(0, &data[start..]));
    data[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// Whether Linux can carry the frame's offload itself: it looks for IP behind VLAN tags only, and
/// wants the checksum field inside the frame.
pub fn kernel_carries(frame: &Frame) -> bool {
    let data = frame.data();
    if let Csum::Partial { start, offset } = frame.offload.csum
        && usize::from(start) + usize::from(offset) + 2 > data.len()
    {
        return false;
    }
    if frame.offload.gso.is_none() {
        return true;
    }
    let mut at = 12;
    while let Some(0x8100 | 0x88a8) = u16_at(data, at) {
        at += 4;
    }
    matches!(u16_at(data, at), Some(0x0800 | 0x86dd))
}

/// The virtio-net header to hand to Linux with the frame. The hint of the header length is made
/// modest: Linux allocates that many bytes in one piece, and a receiver may have reported 64 KiB.
pub fn kernel_header(frame: &Frame) -> [u8; VNET_HDR_LEN] {
    let mut offload = frame.offload;
    if let Some(gso) = &mut offload.gso {
        gso.hdr_len = gso.hdr_len.min(HDR_LEN_HINT_MAX).min(frame.len() as u16);
    }
    let [header @ .., _, _] = offload.to_vnet();
    header
}

/// Finds out whether a frame that came without an offload header owes its checksum: the field of
/// TCP or UDP holds the bare sum of the pseudo-header, and is not right as it stands.
///
/// AF_XDP on a virtual interface delivers such frames. A frame damaged on its way looks the same
/// once in 65,536 times at most.
pub fn find_debt(data: &[u8]) -> Csum {
    let Some(layers) = find_layers(data) else { return Csum::None };
    let offset = match layers.protocol {
        TCP => 16,
        UDP => 6,
        _ => return Csum::None,
    };
    let Some(field) = u16_at(data, layers.transport + offset) else { return Csum::None };
    let Some(segment) = data.get(layers.transport..layers.end) else { return Csum::None };
    let pseudo = pseudo_sum(data, &layers, segment.len());
    if field != usize::from(!checksum::finish(pseudo))
        || checksum::finish(checksum::add(pseudo, segment)) == 0
    {
        return Csum::None;
    }
    match u16::try_from(layers.transport) {
        Ok(start) => Csum::Partial { start, offset: offset as u16 },
        Err(_) => Csum::None,
    }
}

/// The sum of the pseudo-header over a transport segment of `len` bytes.
fn pseudo_sum(data: &[u8], layers: &Layers, len: usize) -> u64 {
    let addresses = if layers.is_ipv6 { 8..40 } else { 12..20 };
    let addresses = layers.network + addresses.start..layers.network + addresses.end;
    checksum::add(len as u64 + u64::from(layers.protocol), &data[addresses])
}

/// Where the headers of an IP frame lie.
struct Layers {
    network: usize,
    is_ipv6: bool,
    protocol: u8,
    transport: usize,
    /// End of the IP datagram; the rest is padding.
    end: usize,
}

/// Cuts a GSO frame; `None` if its headers are not what its offload says.
fn segment(frame: &Frame, gso: Gso, pool: &mut Pool, emit: &mut impl FnMut(Frame)) -> Option<()> {
    let data = frame.data();
    let layers = find_layers(data)?;
    let (protocol, wants_ipv6) = match gso.kind {
        GsoKind::TcpV4 => (TCP, Some(false)),
        GsoKind::TcpV6 => (TCP, Some(true)),
        GsoKind::UdpL4 => (UDP, None),
        GsoKind::UdpFragment => return None,
    };
    if layers.protocol != protocol || wants_ipv6.is_some_and(|v6| v6 != layers.is_ipv6) {
        return None;
    }
    let transport_len = match protocol {
        TCP => usize::from(*data.get(layers.transport + 12)? >> 4) * 4,
        _ => 8,
    };
    if transport_len < if protocol == TCP { 20 } else { 8 } {
        return None;
    }
    let headers = data.get(..layers.transport + transport_len)?;
    let payload = data.get(headers.len()..layers.end)?;
    let size = usize::from(gso.size);
    let count = payload.len().div_ceil(size).max(1);
    for i in 0..count {
        let from = i * size;
        let part = &payload[from..payload.len().min(from + size)];
        let mut out = pool.take(headers.len() + part.len());
        out.replace(headers);
        out.extend(part);
        let place = Place { index: i, offset: from, is_last: i + 1 == count };
        finish_segment(out.data_mut(), &layers, place);
        out.copy_metadata(frame);
        out.offload = Offload { csum: Csum::Valid, gso: None };
        emit(out);
    }
    Some(())
}

/// Which segment it is.
struct Place {
    index: usize,
    /// Payload bytes before it.
    offset: usize,
    is_last: bool,
}

/// Makes a copy of the headers right for the segment that follows them. The caller has checked
/// that all headers lie within.
fn finish_segment(data: &mut [u8], layers: &Layers, place: Place) {
    let (l3, l4) = (layers.network, layers.transport);
    let transport_len = data.len() - l4;
    if layers.protocol == TCP {
        let seq = u32::from_be_bytes([data[l4 + 4], data[l4 + 5], data[l4 + 6], data[l4 + 7]])
            .wrapping_add(place.offset as u32);
        data[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
        const FIN_PSH: u8 = 0x09;
        const CWR: u8 = 0x80;
        if !place.is_last {
            data[l4 + 13] &= !FIN_PSH;
        }
        if place.index > 0 {
            data[l4 + 13] &= !CWR;
        }
    } else {
        put_u16(data, l4 + 4, transport_len);
    }
    if layers.is_ipv6 {
        put_u16(data, l3 + 4, data.len() - l3 - 40);
    } else {
        put_u16(data, l3 + 2, data.len() - l3);
        let id = u16::from_be_bytes([data[l3 + 4], data[l3 + 5]]).wrapping_add(place.index as u16);
        put_u16(data, l3 + 4, id.into());
        put_u16(data, l3 + 10, 0);
        let header_sum = checksum::finish(checksum::add(0, &data[l3..l4]));
        put_u16(data, l3 + 10, header_sum.into());
    }
    let sum = pseudo_sum(data, layers, transport_len);
    let field = l4 + if layers.protocol == TCP { 16 } else { 6 };
    put_u16(data, field, 0);
    let sum = checksum::finish_nonzero(checksum::add(sum, &data[l4..]));
    put_u16(data, field, sum.into());
}

/// Stores the low 16 bits. Lengths are at most those of the original datagram, which fitted.
fn put_u16(data: &mut [u8], at: usize, value: usize) {
    data[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

fn u16_at(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..at + 2)?;
    Some(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
}

/// Finds the IP and transport headers, through VLAN tags, MPLS labels and PBB.
fn find_layers(data: &[u8]) -> Option<Layers> {
    let mut at = 12;
    loop {
        match u16_at(data, at)? {
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            // IEEE 802.1Q §9.7: I-TAG of 4 bytes, then the customer's addresses.
            0x88e7 => at += 2 + 4 + 12,
            0x0800 => return ipv4(data, at + 2),
            0x86dd => return ipv6(data, at + 2),
            // RFC 3032 §2.1: labels until the bottom of the stack, which says nothing of what
            // follows.
            0x8847 | 0x8848 => {
                at += 2;
                while data.get(at + 2)? & 1 == 0 {
                    at += 4;
                }
                at += 4;
                return if data.get(at)? >> 4 == 6 { ipv6(data, at) } else { ipv4(data, at) };
            }
            _ => return None,
        }
    }
}

fn ipv4(data: &[u8], network: usize) -> Option<Layers> {
    let first = *data.get(network)?;
    let header_len = usize::from(first & 15) * 4;
    if first >> 4 != 4 || header_len < 20 || data.len() < network + header_len {
        return None;
    }
    let is_fragment = u16_at(data, network + 6)? & 0x3fff != 0;
    let total = u16_at(data, network + 2)?;
    let end = if total == 0 { data.len() } else { data.len().min(network + total) };
    let transport = network + header_len;
    let protocol = data[network + 9];
    (!is_fragment && end >= transport).then_some(Layers {
        network,
        is_ipv6: false,
        protocol,
        transport,
        end,
    })
}

fn ipv6(data: &[u8], network: usize) -> Option<Layers> {
    if data.len() < network + 40 || data[network] >> 4 != 6 {
        return None;
    }
    let payload = u16_at(data, network + 4)?;
    let end = if payload == 0 { data.len() } else { data.len().min(network + 40 + payload) };
    let mut protocol = data[network + 6];
    let mut at = network + 40;
    loop {
        match protocol {
            0 | 43 | 60 => {
                let is_source_routed = protocol == 43 && *data.get(at + 3)? > 0;
                if is_source_routed {
                    return None;
                }
                protocol = *data.get(at)?;
                at += (usize::from(*data.get(at + 1)?) + 1) * 8;
            }
            44 => return None,
            _ => break,
        }
    }
    (end >= at).then_some(Layers { network, is_ipv6: true, protocol, transport: at, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers with a pseudo-header sum in the checksum field, as Linux hands them over.
    fn tcp_frame(is_ipv6: bool, tags: usize, payload: &[u8], flags: u8) -> Frame {
        let mut data = vec![2; 12];
        for _ in 0..tags {
            data.extend([0x81, 0, 0, 5]);
        }
        let tcp_len = 32 + payload.len();
        if is_ipv6 {
            data.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            data.extend((tcp_len as u16).to_be_bytes());
            data.extend([6, 64]);
            data.extend([0xfd; 32]);
        } else {
            data.extend([0x08, 0, 0x45, 0]);
            data.extend((20 + tcp_len as u16).to_be_bytes());
            data.extend([0xff, 0xfe, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        }
        let start = data.len();
        data.extend([0x12, 0x34, 0, 80, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 9]);
        data.extend([0x80, flags, 1, 1, 0, 0, 0, 0]);
        data.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        data.extend(payload);
        let mut frame = Frame::copy_of(&data);
        let kind = if is_ipv6 { GsoKind::TcpV6 } else { GsoKind::TcpV4 };
        frame.offload = Offload {
            csum: Csum::Partial { start: start as u16, offset: 16 },
            gso: Some(Gso { kind, size: 1000, hdr_len: start as u16 + 32, ecn: true }),
        };
        frame
    }

    /// Verifies all checksums and lengths of a segment; returns IPv4 id, seq, flags and payload.
    fn read_tcp(data: &[u8]) -> (usize, u32, u8, Vec<u8>) {
        let layers = find_layers(data).expect("headers");
        assert_eq!(layers.end, data.len(), "IP length");
        let l4 = layers.transport;
        let mut sum = (data.len() - l4) as u64 + 6;
        let id = if layers.is_ipv6 {
            sum = checksum::add(sum, &data[layers.network + 8..layers.network + 40]);
            0
        } else {
            assert_eq!(checksum::finish(checksum::add(0, &data[layers.network..l4])), 0);
            sum = checksum::add(sum, &data[layers.network + 12..layers.network + 20]);
            u16_at(data, layers.network + 4).unwrap()
        };
        assert_eq!(checksum::finish(checksum::add(sum, &data[l4..])), 0, "TCP checksum");
        let seq = u32::from_be_bytes(data[l4 + 4..l4 + 8].try_into().unwrap());
        (id, seq, data[l4 + 13], data[l4 + 32..].to_vec())
    }

    #[test]
    fn cuts_tcp_into_segments_that_join_again() {
        let mut random = crate::prng::Prng::new(3);
        for is_ipv6 in [false, true] {
            for (tags, len) in [(0, 0usize), (0, 1), (1, 1000), (2, 1001), (0, 40_000)] {
                let payload: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                // FIN, PSH, ACK, CWR.
                let frame = tcp_frame(is_ipv6, tags, &payload, 0x99);
                let mut parts = Vec::new();
                complete(&frame, &mut Pool::new(), |part| parts.push(part)).unwrap();
                assert_eq!(parts.len(), len.div_ceil(1000).max(1));
                let mut joined = Vec::new();
                for (i, part) in parts.iter().enumerate() {
                    assert!(part.offload.is_plain());
                    let (id, seq, flags, bytes) = read_tcp(part.data());
                    assert_eq!(seq, 0xffff_fff0u32.wrapping_add(i as u32 * 1000));
                    assert_eq!(id, if is_ipv6 { 0 } else { (0xfffe + i) & 0xffff });
                    let is_last = i + 1 == parts.len();
                    assert_eq!(flags & 0x09, if is_last { 0x09 } else { 0 });
                    assert_eq!(flags & 0x90, if i == 0 { 0x90 } else { 0x10 });
                    joined.extend(bytes);
                }
                assert_eq!(joined, payload);
            }
        }
    }

    #[test]
    fn cuts_under_mpls_and_udp() {
        let payload = [7u8; 2500];
        let mut data = vec![2; 12];
        data.extend([0x88, 0x47, 0, 0, 0x10, 64, 0, 0, 0x21, 64]);
        data.extend([0x45, 0]);
        data.extend((28 + 2500u16).to_be_bytes());
        data.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let start = data.len() as u16;
        data.extend([0, 53, 0, 53, 0, 0, 0, 0]);
        data.extend(payload);
        let mut frame = Frame::copy_of(&data);
        frame.offload = Offload {
            csum: Csum::Partial { start, offset: 6 },
            gso: Some(Gso { kind: GsoKind::UdpL4, size: 1200, hdr_len: 0, ecn: false }),
        };
        let mut lens = Vec::new();
        complete(&frame, &mut Pool::new(), |part| {
            let l4 = usize::from(start);
            assert_eq!(u16_at(part.data(), l4 + 4), Some(part.len() - l4));
            assert_ne!(u16_at(part.data(), l4 + 6), Some(0));
            lens.push(part.len() - l4 - 8);
        })
        .unwrap();
        assert_eq!(lens, [1200, 1200, 100]);
    }

    #[test]
    fn completes_checksums() {
        // The field holds the pseudo-header's sum; completion must verify against it.
        let mut frame = tcp_frame(false, 0, b"abc", 0x10);
        frame.offload.gso = None;
        let pseudo = checksum::add(6 + 35, &frame.data()[26..34]);
        put_u16(frame.data_mut(), 50, usize::from(!checksum::finish(pseudo)));
        let mut done = Vec::new();
        complete(&frame, &mut Pool::new(), |part| done.push(part)).unwrap();
        let sum = checksum::add(pseudo, &done[0].data()[34..]);
        assert_eq!(checksum::finish(sum), 0);
    }

    #[test]
    fn finds_debts_without_being_told() {
        for is_ipv6 in [false, true] {
            let mut frame = tcp_frame(is_ipv6, 1, b"abc", 0x10);
            let owed = frame.offload.csum;
            let Csum::Partial { start, offset } = owed else { panic!() };
            let (start, field) = (usize::from(start), usize::from(start + offset));
            assert_eq!(find_debt(frame.data()), Csum::None);
            let layers = find_layers(frame.data()).unwrap();
            let pseudo = pseudo_sum(frame.data(), &layers, frame.len() - start);
            put_u16(frame.data_mut(), field, usize::from(!checksum::finish(pseudo)));
            assert_eq!(find_debt(frame.data()), owed);
            complete_checksum(frame.data_mut(), start, offset.into()).unwrap();
            assert_eq!(find_debt(frame.data()), Csum::None);
        }
        assert_eq!(find_debt(&[]), Csum::None);
    }

    #[test]
    fn completes_sctp_with_a_crc() {
        let mut data = vec![2; 12];
        data.extend([8, 0, 0x45, 0, 0, 36, 0, 0, 0, 0, 64, 132, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
        data.extend([0, 1, 0, 2, 0, 0, 0, 3, 9, 9, 9, 9, 10, 0, 0, 4]);
        data.extend([0xee; 10]);
        complete_checksum(&mut data, 34, 8).unwrap();
        let crc = checksum::crc32c([&data[34..42], &[0; 4], &data[46..50]]);
        assert_eq!(data[42..46], crc.to_le_bytes());
    }

    /// Whatever the bytes and the offload, the result is a drop reason or frames.
    #[test]
    fn survives_random_bytes() {
        let mut random = crate::prng::Prng::new(11);
        let mut pool = Pool::new();
        let base = tcp_frame(false, 1, &[5; 3000], 0x18);
        for round in 0..20_000 {
            let mut frame = base.clone();
            frame.truncate(random.below(3100) as usize);
            for _ in 0..random.below(6) {
                let len = frame.len().min(80) as u64;
                if len > 0 {
                    let at = random.below(len) as usize;
                    frame.data_mut()[at] = random.next_u64() as u8;
                }
            }
            if round % 2 == 0 {
                let offset = random.below(70) as u16;
                frame.offload.csum = Csum::Partial { start: random.next_u64() as u16, offset };
                frame.offload.gso = None;
            }
            let mut parts = 0;
            let result = complete(&frame, &mut pool, |_| parts += 1);
            assert_eq!(result.is_ok(), parts > 0);
        }
    }
}
