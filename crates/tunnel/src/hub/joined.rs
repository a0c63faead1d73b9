//! Packets of one inner frame's segments, as one frame: a UDP datagram that is to be cut into such of equal size.
//!
//! Outer headers are written once. Behind them lie a tunnel header, a segment, the same header, the next segment and so on.
//! To all that carry it, this is a UDP frame that owes its cutting ([`GsoKind::UdpL4`]): the bridge below runs it once, and
//! Linux or a device's hardware cuts it, which gives each datagram its length, IPv4 identification and checksum.
//!
//! Left out: headers that differ from packet to packet, which are GRE's with sequence numbers and IPv4's without DF; GRE,
//! which is no UDP; and UDP without a checksum, which such a frame cannot have. Those packets leave one by one.
//! Cost: one copy of the payload, and one pass for the inner checksum.

use port::gso::Segments;
use port::{Csum, Frame, Gso, GsoKind, Offload, Pool};
use wire::IpProtocol;
use wire::checksum::{self, Pseudo};

use crate::config::Config;

const ETHERNET: usize = 14;
const UDP: usize = 8;
/// Octets of an IP packet, at most.
const PACKET_MAX: usize = 65_535;
/// Datagrams of a frame, at most: Linux cuts no more out of what a program sends.
const COUNT_MAX: usize = 64;

/// Whether the packets of a port may become one frame, if there is a remote that they go to.
pub(super) fn may_join(config: &Config) -> bool {
    config.kind.udp_port().is_some() && config.csum && config.df_default
}

/// Makes a frame of the segments from `from` on, as many as fit; says which is the first that did not. `headers` are all in
/// front of the first segment.
pub(super) fn join(
    headers: &[u8],
    segments: &Segments<'_>,
    from: usize,
    pool: &mut Pool,
) -> (Frame, usize) {
    let is_ipv6 = headers.get(ETHERNET).is_some_and(|first| first >> 4 == 6);
    let l4 = ETHERNET + if is_ipv6 { 40 } else { 20 };
    let between = &headers[l4 + UDP..];
    let size = between.len() + segments.len_of(from);
    let fits = ((PACKET_MAX + ETHERNET - l4 - UDP) / size).clamp(1, COUNT_MAX);
    let until = segments.count().min(from + fits);
    let mut frame = pool.take(l4 + UDP + (until - from) * size);
    frame.extend(&headers[..l4 + UDP]);
    for index in from..until {
        frame.extend(between);
        segments.append(index, &mut frame);
    }
    let len = frame.len();
    let data = frame.data_mut();
    put(data, l4 + 4, len - l4);
    let pseudo = if is_ipv6 {
        put(data, ETHERNET + 4, len - l4);
        addresses(&data[22..54]).map(|(src, dst): ([u8; 16], [u8; 16])| {
            Pseudo::from((std::net::Ipv6Addr::from(src), std::net::Ipv6Addr::from(dst)))
        })
    } else {
        put(data, ETHERNET + 2, len - ETHERNET);
        put(data, ETHERNET + 10, 0);
        let sum = checksum::checksum(&data[ETHERNET..l4]);
        put(data, ETHERNET + 10, sum.into());
        addresses(&data[26..34]).map(|(src, dst): ([u8; 4], [u8; 4])| {
            Pseudo::from((std::net::Ipv4Addr::from(src), std::net::Ipv4Addr::from(dst)))
        })
    };
    if let Some(pseudo) = pseudo {
        let bare = pseudo.sum(IpProtocol::UDP, (len - l4) as u32).fold();
        put(data, l4 + 6, bare.into());
    }
    // Both are below 65,536, as the packet is.
    let hdr_len = (l4 + UDP) as u16;
    let gso = Gso { kind: GsoKind::UdpL4, size: size as u16, hdr_len, ecn: false };
    let csum = Csum::Partial { start: l4 as u16, offset: 6 };
    frame.offload = Offload { csum, gso: (until - from > 1).then_some(gso) };
    (frame, until)
}

fn addresses<const N: usize>(both: &[u8]) -> Option<([u8; N], [u8; N])> {
    let (src, rest) = both.split_first_chunk()?;
    Some((*src, *rest.first_chunk()?))
}

/// Stores the low 16 bits.
fn put(data: &mut [u8], at: usize, value: usize) {
    data[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}
