//! Offloads completed in software: for ports that carry none.
//!
//! A frame with a partial checksum gets its checksum; a frame that stands for many segments is cut
//! into them, as the sender's kernel would have done at its own interface. So a Linux host behind
//! TAP or AF_PACKET keeps its default offloads whatever the frame's way out is.
//!
//! Cutting works on the headers that are there (VLAN tags, MPLS labels, PBB, IPv4 or IPv6 with
//! extension headers, then TCP or UDP) and computes lengths, IPv4 identifications, sequence numbers
//! and all checksums anew. Of TCP's flags, FIN and PSH stay with the last segment and CWR with the
//! first (RFC 3168 §6.1.2).
//!
//! Left out: `UdpFragment` (UFO), which Linux has not produced since 4.14; such a frame is dropped
//! as `tx_no_offload`.
//!
//! Cost: one copy of the payload and one pass for its checksum.

use crate::offload::{Csum, GsoKind, VNET_HDR_LEN};
use crate::{DropReason, Frame, Offload, Pool};
use wire::checksum::{self, Pseudo};
use wire::layers::{Fragment, Layers, Network, transport_checksum};
use wire::{IpProtocol, offload};

/// Bytes of an Ethernet header.
pub(crate) const ETH_LEN: usize = 14;
const HDR_LEN_HINT_MAX: u16 = 256;

/// Refuses a frame that the port could not send: shorter than an Ethernet header, or longer than
/// `mtu` allows behind a header with two VLAN tags. A GSO frame is judged by its segments.
#[inline]
pub fn check_len(frame: &Frame, mtu: u32) -> Result<(), DropReason> {
    if frame.len() < ETH_LEN {
        return Err(DropReason::TxTooShort);
    }
    if frame.offload.gso.is_none() && !fits(frame.len(), mtu) {
        return Err(DropReason::TxTooLong);
    }
    Ok(())
}

/// Whether the port could send a frame of so many bytes that is to be sent as it is.
#[inline]
pub fn fits(len: usize, mtu: u32) -> bool {
    (ETH_LEN..=mtu as usize + ETH_LEN + 8).contains(&len)
}

/// Gives `emit` the frame, or its segments, with nothing owed any more.
pub fn complete(
    frame: &Frame,
    pool: &mut Pool,
    mut emit: impl FnMut(Frame),
) -> Result<(), DropReason> {
    if frame.offload.gso.is_some() {
        return segment(frame, pool, &mut emit).ok_or(DropReason::TxNoOffload);
    }
    let mut copy = pool.clone_of(frame);
    match complete_sum(&mut copy) {
        Ok(()) => emit(copy),
        Err(reason) => {
            pool.give(copy);
            return Err(reason);
        }
    }
    Ok(())
}

/// Completes the checksum of a frame that is not to be cut, where it lies.
pub fn complete_sum(frame: &mut Frame) -> Result<(), DropReason> {
    if let Csum::Partial { start, offset } = frame.offload.csum {
        offload::complete_partial_checksum(frame.data_mut(), start.into(), offset.into())
            .map_err(|_| DropReason::TxNoOffload)?;
    }
    frame.offload.csum = Csum::Valid;
    Ok(())
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

/// Whether it is a UDP frame that is to be cut into datagrams, which Linux does since 6.2.
pub(crate) fn is_udp(frame: &Frame) -> bool {
    frame.offload.gso.is_some_and(|gso| gso.kind == GsoKind::UdpL4)
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
    let Some(headers) = Headers::of(data) else { return Csum::None };
    let Some(field) = u16_at(data, headers.l4 + headers.checksum_offset) else { return Csum::None };
    let Some(packet) = data.get(headers.l4..headers.end) else { return Csum::None };
    let bare = headers.pseudo.sum(headers.protocol, packet.len() as u32).fold();
    if field != usize::from(bare) || headers.pseudo.sum_over(headers.protocol, packet) == 0xffff {
        return Csum::None;
    }
    match u16::try_from(headers.l4) {
        Ok(start) => Csum::Partial { start, offset: headers.checksum_offset as u16 },
        Err(_) => Csum::None,
    }
}

/// The headers of a frame that holds a whole TCP or UDP packet under IP.
struct Headers {
    is_ipv6: bool,
    protocol: IpProtocol,
    pseudo: Pseudo,
    /// Where the IP header begins.
    l3: usize,
    /// Where the TCP or UDP header begins.
    l4: usize,
    /// End of the IP packet; the rest is padding.
    end: usize,
    /// Where the checksum lies, from `l4`.
    checksum_offset: usize,
}

impl Headers {
    fn of(data: &[u8]) -> Option<Headers> {
        let layers = Layers::of(data);
        let protocol = layers.protocol?;
        let is_whole = layers.stopped.is_none() && layers.fragment == Fragment::Whole;
        if !is_whole || !matches!(protocol, IpProtocol::TCP | IpProtocol::UDP) {
            return None;
        }
        let is_ipv6 = layers.network == Network::Ipv6;
        Some(Headers {
            is_ipv6,
            protocol,
            pseudo: offload::pseudo_header(data, &layers).ok()?.0,
            l3: layers.l3?,
            l4: layers.l4?,
            end: layers.l3_end,
            checksum_offset: transport_checksum(protocol, is_ipv6)?.1,
        })
    }
}

/// Cuts a GSO frame; `None` if its headers are not what its offload says.
fn segment(frame: &Frame, pool: &mut Pool, emit: &mut impl FnMut(Frame)) -> Option<()> {
    let segments = Segments::of(frame)?;
    segments.emit(frame, pool, emit);
    Some(())
}

/// Cuts a GSO frame without its transport checksums, for who takes the segments apart at once: their sums are called
/// valid, and the fields hold what stood there. `None` as for [`complete`].
pub fn cut_without_sums(
    frame: &Frame,
    pool: &mut Pool,
    mut emit: impl FnMut(Frame),
) -> Result<(), DropReason> {
    let segments = Segments::of(frame).ok_or(DropReason::TxNoOffload)?;
    Segments { sums: false, ..segments }.emit(frame, pool, &mut emit);
    Ok(())
}

/// What a GSO frame is cut into, to be written piece by piece.
pub struct Segments<'a> {
    found: Headers,
    headers: &'a [u8],
    payload: &'a [u8],
    size: usize,
    /// Transport checksums are to be computed.
    sums: bool,
}

impl<'a> Segments<'a> {
    /// Of a frame; `None` if its headers are not what its offload says, or nothing is to be cut.
    pub fn of(frame: &'a Frame) -> Option<Segments<'a>> {
        let (data, gso) = (frame.data(), frame.offload.gso?);
        let found = Headers::of(data)?;
        let (protocol, wants_ipv6) = match gso.kind {
            GsoKind::TcpV4 => (IpProtocol::TCP, Some(false)),
            GsoKind::TcpV6 => (IpProtocol::TCP, Some(true)),
            GsoKind::UdpL4 => (IpProtocol::UDP, None),
            GsoKind::UdpFragment => return None,
        };
        if found.protocol != protocol || wants_ipv6.is_some_and(|v6| v6 != found.is_ipv6) {
            return None;
        }
        let transport_len = match protocol {
            IpProtocol::TCP => wire::tcp::Packet::new_checked(&data[found.l4..]).ok()?.header_len(),
            _ => wire::udp::HEADER_LEN,
        };
        let headers = data.get(..found.l4 + transport_len)?;
        let payload = data.get(headers.len()..found.end)?;
        Some(Segments { found, headers, payload, size: usize::from(gso.size).max(1), sums: true })
    }

    /// How many there are, one at least.
    pub fn count(&self) -> usize {
        self.payload.len().div_ceil(self.size).max(1)
    }

    fn part(&self, index: usize) -> &'a [u8] {
        let from = (index * self.size).min(self.payload.len());
        &self.payload[from..self.payload.len().min(from + self.size)]
    }

    /// Octets of one.
    pub fn len_of(&self, index: usize) -> usize {
        self.headers.len() + self.part(index).len()
    }

    /// Adds one at the end of a frame.
    pub fn append(&self, index: usize, out: &mut Frame) {
        let at = out.len();
        out.extend(self.headers);
        out.extend(self.part(index));
        let (offset, is_last) = (index * self.size, index + 1 == self.count());
        let place = Place { index, offset, is_last };
        finish_segment(&mut out.data_mut()[at..], &self.found, place, self.sums);
    }

    fn emit(&self, frame: &Frame, pool: &mut Pool, emit: &mut impl FnMut(Frame)) {
        for index in 0..self.count() {
            let mut out = pool.take(self.len_of(index));
            self.append(index, &mut out);
            out.copy_metadata(frame);
            out.offload = Offload { csum: Csum::Valid, gso: None };
            emit(out);
        }
    }
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
fn finish_segment(data: &mut [u8], headers: &Headers, place: Place, sums: bool) {
    let (l3, l4) = (headers.l3, headers.l4);
    let transport_len = data.len() - l4;
    if headers.protocol == IpProtocol::TCP {
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
    if headers.is_ipv6 {
        put_u16(data, l3 + 4, data.len() - l3 - 40);
    } else {
        put_u16(data, l3 + 2, data.len() - l3);
        let id = u16::from_be_bytes([data[l3 + 4], data[l3 + 5]]).wrapping_add(place.index as u16);
        put_u16(data, l3 + 4, id.into());
        put_u16(data, l3 + 10, 0);
        let header_sum = checksum::checksum(&data[l3..l4]);
        put_u16(data, l3 + 10, header_sum.into());
    }
    if !sums {
        return;
    }
    let field = l4 + headers.checksum_offset;
    put_u16(data, field, 0);
    // The form of zero that UDP asks for means the same to TCP.
    let sum = checksum::udp(headers.pseudo.checksum(headers.protocol, &data[l4..]));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gso;

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

    /// The sum of RFC 1071 §1, two bytes at a time, folded; all pieces but the last are even.
    fn plain_sum(pieces: &[&[u8]]) -> u16 {
        let mut sum = 0u32;
        for pair in pieces.iter().flat_map(|piece| piece.chunks(2)) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// Verifies all checksums and lengths of a segment; returns IPv4 id, seq, flags and payload.
    fn read_tcp(data: &[u8]) -> (usize, u32, u8, Vec<u8>) {
        let headers = Headers::of(data).expect("headers");
        assert_eq!(headers.end, data.len(), "IP length");
        let (l3, l4) = (headers.l3, headers.l4);
        let [hi, lo] = ((data.len() - l4) as u16).to_be_bytes();
        let (id, addresses) = if headers.is_ipv6 {
            (0, &data[l3 + 8..l3 + 40])
        } else {
            assert_eq!(plain_sum(&[&data[l3..l4]]), 0xffff);
            (u16_at(data, l3 + 4).unwrap(), &data[l3 + 12..l3 + 20])
        };
        assert_eq!(plain_sum(&[addresses, &[0, 6, hi, lo], &data[l4..]]), 0xffff, "TCP checksum");
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
        let addresses = frame.data()[26..34].to_vec();
        let pseudo = plain_sum(&[&addresses, &[0, 6, 0, 35]]);
        put_u16(frame.data_mut(), 50, pseudo.into());
        let mut done = Vec::new();
        complete(&frame, &mut Pool::new(), |part| done.push(part)).unwrap();
        assert_eq!(plain_sum(&[&pseudo.to_be_bytes(), &done[0].data()[34..]]), 0xffff);
    }

    #[test]
    fn finds_debts_without_being_told() {
        for is_ipv6 in [false, true] {
            let mut frame = tcp_frame(is_ipv6, 1, b"abc", 0x10);
            let owed = frame.offload.csum;
            let Csum::Partial { start, offset } = owed else { panic!() };
            assert_eq!(find_debt(frame.data()), Csum::None);
            let partial = offload::pseudo_header_partial(frame.data_mut()).unwrap();
            assert_eq!((partial.start, partial.offset), (start, offset));
            assert_eq!(find_debt(frame.data()), owed);
            let (start, offset) = (start.into(), offset.into());
            offload::complete_partial_checksum(frame.data_mut(), start, offset).unwrap();
            assert_eq!(find_debt(frame.data()), Csum::None);
        }
        assert_eq!(find_debt(&[]), Csum::None);
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
