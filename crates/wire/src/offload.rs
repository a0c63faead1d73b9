//! Checksums left to hardware: finishing them, and leaving them again.
//!
//! Linux hands a frame whose sender left the checksum to the device as `CHECKSUM_PARTIAL`; a
//! virtio-net header says so by `VIRTIO_NET_HDR_F_NEEDS_CSUM` with `csum_start` and `csum_offset`
//! (Virtio 1.2 §5.1.6.2). The checksum field then holds the folded sum of the pseudo-header, not
//! complemented, and the rest is to be added: sum from `csum_start` to the end of the frame,
//! complement, store at `csum_start + csum_offset`.
//!
//! - [`complete_partial_checksum`] does that in software, for a port that cannot.
//! - [`pseudo_header_partial`] writes the field as NEEDS_CSUM expects it, after header fields
//!   under it were changed, or to leave a full checksum to the device.
//! - [`fill_checksums`] and [`verify_checksums`] do whole frames, for hosts and tests.
//!
//! SCTP is left to devices in the same words (`csum_offset` 8), but the device then computes a
//! CRC32c and the field counts for nothing; both functions know it, though not of SCTP within a
//! tunnel, where [`Layers`] does not look.

use crate::bytes::{Field, need, span};
use crate::checksum::{self, Pseudo};
use crate::layers::{ChecksumKind, Fragment, Layers, Network};
use crate::{Error, IpProtocol, ipv4, ipv6, sctp};

const WHAT: &str = "partial checksum";

/// Where a partial checksum begins and where it goes, as the virtio-net header says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialChecksum {
    /// First octet to be summed, from the frame's beginning (`csum_start`).
    pub start: u16,
    /// Where the checksum lies, from `start` (`csum_offset`).
    pub offset: u16,
}

/// Finishes a partial checksum over `frame[csum_start..]`, storing it `csum_offset` octets on.
///
/// A checksum that computes to 0 is stored as 0xffff: UDP asks for it, and for all others the two
/// mean the same. Octets after the packet, such as padding, must be zero or not there.
///
/// # Errors
/// [`Error::Truncated`] when the field does not lie within the frame; the frame is then unchanged.
pub fn complete_partial_checksum(
    frame: &mut [u8],
    csum_start: usize,
    csum_offset: usize,
) -> Result<(), Error> {
    let at = csum_start.saturating_add(csum_offset);
    need(WHAT, frame, at.saturating_add(2).max(csum_start))?;
    // Only SCTP has its checksum at 8, so that others need not be looked at twice.
    if csum_offset == sctp::CHECKSUM_AT {
        let layers = Layers::of(frame);
        if layers.protocol == Some(IpProtocol::SCTP) && layers.l4 == Some(csum_start) {
            // Padding after the packet is no part of what the CRC covers.
            let mut packet = sctp::Packet::new_checked(&mut frame[csum_start..layers.l3_end])?;
            packet.fill_checksum();
            return Ok(());
        }
    }
    let sum = checksum::checksum(&frame[csum_start..]);
    checksum::udp(sum).put(frame, at);
    Ok(())
}

/// Writes the transport checksum field as NEEDS_CSUM expects it (the folded sum of the
/// pseudo-header, not complemented; zero where there is no pseudo-header) and says where the
/// summing begins and the checksum goes.
///
/// The addresses are the packet's own, or the last stop of a source route or routing header (RFC
/// 8200 §8.1); the length is the IP packet's less its headers.
///
/// # Errors
/// The walk's, when the frame's headers do not lead to a transport header;
/// [`Error::Malformed`] for a protocol without a checksum that devices compute, a fragment, a
/// routing header that cannot be read, or UDP-Lite that covers a part of its payload;
/// [`Error::TooLarge`] when the transport header begins beyond 65535.
pub fn pseudo_header_partial(frame: &mut [u8]) -> Result<PartialChecksum, Error> {
    let (layers, l4, at, kind) = transport(frame)?;
    let too_large = |value: usize| Error::TooLarge {
        what: WHAT,
        field: "start",
        value: value as u64,
        max: 0xffff,
    };
    let start = u16::try_from(l4).map_err(|_| too_large(l4))?;
    match kind {
        ChecksumKind::Pseudo => {
            let (pseudo, protocol) = pseudo_header(frame, &layers)?;
            let len = u32::try_from(layers.l3_end - l4).unwrap_or(u32::MAX);
            pseudo.sum(protocol, len).fold().put(frame, at);
        }
        ChecksumKind::Plain => 0_u16.put(frame, at),
        ChecksumKind::Crc32c => 0_u32.put(frame, at),
    }
    Ok(PartialChecksum { start, offset: (at - l4) as u16 })
}

/// The pseudo-header under which the transport packet of `frame`, whose layers these are, is
/// summed, with the addresses that [`pseudo_header_partial`] names, and the protocol in it.
///
/// # Errors
/// The IP header's, when it lies; [`Error::Malformed`] for a frame that is not IP, a routing header
/// that cannot be read, or UDP-Lite that covers a part of its payload.
pub fn pseudo_header(frame: &[u8], layers: &Layers) -> Result<(Pseudo, IpProtocol), Error> {
    let protocol = layers.protocol.unwrap_or_default();
    let l3 = span(frame, layers.l3.unwrap_or(usize::MAX), layers.l3_end);
    if let (IpProtocol::UDP_LITE, Some(l4)) = (protocol, layers.l4) {
        // RFC 3828 §3.1: a coverage of 0 is all of it.
        let coverage = usize::from(u16::get(frame, l4 + 4));
        if coverage != 0 && coverage != layers.l3_end - l4 {
            let why = "UDP-Lite covers a part of the payload; devices sum all of it";
            return Err(Error::Malformed { what: WHAT, why });
        }
    }
    let pseudo = match layers.network {
        Network::Ipv4 => Pseudo::from(&ipv4::Packet::new_header_checked(l3)?),
        Network::Other | Network::Arp => {
            return Err(Error::Malformed { what: WHAT, why: "the frame is not IP" });
        }
        Network::Ipv6 => {
            let packet = ipv6::Packet::new_header_checked(l3)?;
            let why = "the routing header's last stop cannot be read; expected type 0, 2 or 4";
            let dst = packet.final_dst().ok_or(Error::Malformed { what: WHAT, why })?;
            Pseudo::V6 { src: packet.src(), dst }
        }
    };
    Ok((pseudo, protocol))
}

/// Computes every checksum of the frame's network and transport headers and stores it. Answers
/// whether there was a transport checksum to fill; fragments and unknown protocols have none.
///
/// # Errors
/// The walk's, when the frame ends within a header.
pub fn fill_checksums(frame: &mut [u8]) -> Result<bool, Error> {
    let layers = Layers::of(frame);
    if let Some(error) = layers.stopped {
        return Err(error);
    }
    if let (Network::Ipv4, Some(l3)) = (layers.network, layers.l3) {
        ipv4::Packet::new_header_checked(&mut frame[l3..])?.fill_checksum();
    }
    if layers.checksum_at.is_none() || layers.fragment != Fragment::Whole {
        return Ok(false);
    }
    let frame = &mut frame[..layers.l3_end];
    let partial = pseudo_header_partial(frame)?;
    complete_partial_checksum(frame, partial.start.into(), partial.offset.into())?;
    Ok(true)
}

/// Whether the checksums of the frame's network and transport headers are right. A transport
/// checksum that is absent, in a fragment, or of an unknown protocol is not looked at.
///
/// # Errors
/// [`Error::Checksum`] for the first that is wrong; the walk's, when the frame ends within a
/// header.
pub fn verify_checksums(frame: &[u8]) -> Result<(), Error> {
    let layers = Layers::of(frame);
    if let Some(error) = layers.stopped {
        return Err(error);
    }
    // What is stored is right if writing it anew changes nothing, but for the two zeros.
    let mut again = frame.to_vec();
    let filled = fill_checksums(&mut again)?;
    let differ = |what, found: u16, expected: u16| {
        let same = found == expected || (found == 0xffff && expected == 0);
        let (found, expected) = (found.into(), expected.into());
        if same { Ok(()) } else { Err(Error::Checksum { what, found, expected }) }
    };
    if let (Network::Ipv4, Some(l3)) = (layers.network, layers.l3) {
        differ("ipv4 header", u16::get(frame, l3 + 10), u16::get(&again, l3 + 10))?;
    }
    let (Some(at), true) = (layers.checksum_at, filled) else { return Ok(()) };
    let protocol = layers.protocol.unwrap_or_default();
    let what = protocol.name().unwrap_or("transport");
    if layers.checksum_kind() == Some(ChecksumKind::Crc32c) {
        let (found, expected) = (u32::get(frame, at), u32::get(&again, at));
        return if found == expected {
            Ok(())
        } else {
            Err(Error::Checksum { what, found, expected })
        };
    }
    match (u16::get(frame, at), u16::get(&again, at)) {
        (0, _) if protocol == IpProtocol::UDP => Ok(()),
        // Filling writes 0 as 0xffff, which only UDP has to.
        (0, 0xffff) => Ok(()),
        (found, expected) => differ(what, found, expected),
    }
}

fn transport(frame: &[u8]) -> Result<(Layers, usize, usize, ChecksumKind), Error> {
    let malformed = |why| Error::Malformed { what: WHAT, why };
    let layers = Layers::of(frame);
    if let Some(error) = layers.stopped {
        return Err(error);
    }
    if layers.fragment != Fragment::Whole {
        return Err(malformed("the frame is a fragment; only whole datagrams have one"));
    }
    match (layers.l4, layers.checksum_at, layers.checksum_kind()) {
        (Some(l4), Some(at), Some(kind)) => Ok((layers, l4, at, kind)),
        (None, ..) => Err(malformed("the frame is not IP")),
        _ => Err(malformed("no checksum field of TCP, UDP, SCTP or ICMP lies within the packet")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::frames;

    fn sample(name: &str) -> Vec<u8> {
        frames().into_iter().find(|(found, _)| *found == name).unwrap().1
    }

    #[test]
    fn filled_frames_verify_and_any_flip_shows() {
        for (name, frame) in frames() {
            verify_checksums(&frame).unwrap_or_else(|e| panic!("{name}: {e}"));
            let layers = Layers::of(&frame);
            let (Some(_), Some(l4)) = (layers.checksum_at, layers.l4) else { continue };
            if matches!(name, "vxlan" | "geneve" | "gtpu") {
                continue; // Their outer UDP has no checksum.
            }
            let mut flipped = frame.clone();
            flipped[l4] ^= 1;
            assert!(matches!(verify_checksums(&flipped), Err(Error::Checksum { .. })), "{name}");
        }
    }

    #[test]
    fn partial_then_complete_is_the_full_checksum() {
        for (name, frame) in frames() {
            let mut partial = frame.clone();
            match pseudo_header_partial(&mut partial) {
                Ok(PartialChecksum { start, offset }) => {
                    assert_eq!(Layers::of(&frame).l4, Some(start.into()), "{name}");
                    complete_partial_checksum(&mut partial, start.into(), offset.into()).unwrap();
                    verify_checksums(&partial).unwrap();
                    if !matches!(name, "vxlan" | "geneve" | "gtpu") {
                        assert_eq!(partial, frame, "{name}");
                    }
                }
                Err(error) => assert!(matches!(name, "arp" | "gre"), "{name}: {error}"),
            }
        }
    }

    #[test]
    fn partial_field_is_the_uncomplemented_pseudo_header() {
        let mut frame = sample("udp4");
        let partial = pseudo_header_partial(&mut frame).unwrap();
        assert_eq!(partial, PartialChecksum { start: 34, offset: 6 });
        // 10.0.0.1 + 10.0.0.2 + protocol 17 + length 8 + 4.
        let sum = 0x0a00 + 1 + 0x0a00 + 2 + 17 + 12;
        assert_eq!(u16::get(&frame, 40), sum);
    }

    #[test]
    fn out_of_range_is_refused_and_changes_nothing() {
        let frame = sample("tcp4");
        let len = frame.len();
        for (start, offset) in [
            (len, 0),
            (len - 1, 0),
            (0, len - 1),
            (usize::MAX, usize::MAX),
            (usize::MAX, 0),
            (0, usize::MAX),
            (34, usize::MAX - 34),
        ] {
            let mut copy = frame.clone();
            let result = complete_partial_checksum(&mut copy, start, offset);
            assert!(matches!(result, Err(Error::Truncated { .. })), "{start} {offset}");
            assert_eq!(copy, frame);
        }
        assert!(complete_partial_checksum(&mut [], 0, 0).is_err());
        assert!(complete_partial_checksum(&mut [1, 2], 0, 0).is_ok());
    }

    #[test]
    fn a_zero_is_stored_as_ones() {
        let mut bytes = [0, 0, 0xff, 0xff];
        complete_partial_checksum(&mut bytes, 0, 0).unwrap();
        assert_eq!(bytes, [0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn sctp_left_to_the_device_is_a_crc() {
        let frame = sample("sctp4");
        let mut partial = frame.clone();
        partial[42..46].fill(0x5a); // What the field held counts for nothing.
        complete_partial_checksum(&mut partial, 34, 8).unwrap();
        assert_eq!(partial, frame);
    }

    #[test]
    fn the_crc_leaves_padding_out() {
        let frame = sample("sctp4");
        let mut padded = [&frame[..], &[0xee; 10]].concat();
        padded[42..46].fill(0);
        complete_partial_checksum(&mut padded, 34, 8).unwrap();
        assert_eq!(padded[..frame.len()], frame);
    }

    #[test]
    fn no_pseudo_header_without_ip() {
        let frame = sample("arp");
        let found = pseudo_header(&frame, &Layers::of(&frame));
        assert!(matches!(found, Err(Error::Malformed { .. })), "{found:?}");
    }

    #[test]
    fn the_pseudo_header_has_the_last_stop() {
        // A routing header with one segment left: the checksum is over that address.
        let (mut frame, last) = (sample("udp6"), [0x20; 16]);
        let direct = pseudo_header_partial(&mut frame).map(|_| u16::get(&frame, 60)).unwrap();
        let dst: [u8; 16] = frame[38..54].try_into().unwrap();
        let mut routing = vec![17, 2, 0, 1, 0, 0, 0, 0];
        routing.extend(last);
        frame.splice(54..54, routing);
        frame[20] = IpProtocol::ROUTING.0;
        frame[19] += 24;
        pseudo_header_partial(&mut frame).unwrap();
        let (old, new) = (u128::from_be_bytes(dst), u128::from_be_bytes(last));
        let expected = checksum::Delta::new().u128(old, new).apply_partial(direct);
        assert_eq!(u16::get(&frame, 84), expected);
        frame[56] = 3; // A kind whose addresses are compressed.
        assert!(matches!(pseudo_header_partial(&mut frame), Err(Error::Malformed { .. })));
    }

    #[test]
    fn fragments_have_none() {
        let mut frame = sample("udp4");
        frame[20] |= 0x20;
        assert!(matches!(pseudo_header_partial(&mut frame), Err(Error::Malformed { .. })));
        assert_eq!(fill_checksums(&mut frame), Ok(false));
    }

    #[test]
    fn padding_is_not_summed() {
        let mut frame = sample("udp4");
        frame.extend([0xaa; 14]);
        frame[34] ^= 1;
        assert_eq!(fill_checksums(&mut frame), Ok(true));
        verify_checksums(&frame).unwrap();
    }
}
