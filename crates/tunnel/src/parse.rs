//! What an outer packet carries: from its IP header to the inner Ethernet frame.
//!
//! A packet that is none for tunnels is left to others: another protocol, a UDP port that no tunnel port has, IPv6 with
//! extension headers, a later fragment of UDP. One that is, and is wrong, is refused with its reason. As in Open vSwitch,
//! IPv4 options and fragments are refused.
//!
//! Cost: one pass over headers; over all octets where there is a checksum. No allocation.
//! Checked by: `tests/octets.rs` against Open vSwitch's answers; the fuzz target `tunnel`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use contract::tunnel::{LEN, OptionMap, flags};
use wire::IpProtocol;
use wire::checksum::{self, Pseudo};

use crate::config::{Config, Kind};
use crate::descriptor::Fields;
use crate::headers::{ERSPAN_2, ERSPAN_3, GBP_FLAGS, GRE_CSUM, GRE_KEY, GRE_SEQ, TEB};
use crate::refused::Refused;

/// What tunnel ports there are, as far as a packet's kind depends on it.
pub trait Kinds {
    /// The kind of the ports at a UDP port.
    fn of_udp(&self, port: u16) -> Option<Kind>;
    /// Whether there are ports of GRE or ERSPAN.
    fn has_gre(&self) -> bool;
}

/// A packet that is for a tunnel port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Of this kind.
    pub kind: Kind,
    /// The UDP port that it came to; 0 for kinds without.
    pub udp_port: u16,
    /// The other end: the outer source.
    pub remote: IpAddr,
    /// This end: the outer destination.
    pub local: IpAddr,
    /// VNI, key or session; 0 if there is none.
    pub id: u64,
    /// It has VXLAN's group policy.
    pub gbp: bool,
    /// All other fields of the descriptor, but for `map`, `src`, `dst`, `id` and `present`.
    fields: Fields,
    /// Where Geneve's options are in the packet.
    options: Range<usize>,
    /// Where the inner frame is in the packet.
    pub inner: Range<usize>,
}

/// What says which port a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whose {
    kind: Kind,
    udp_port: u16,
    id: u64,
    remote: IpAddr,
    local: IpAddr,
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Refused> {
    match bytes.get(at..at + 2) {
        Some(word) => Ok(u16::from_be_bytes([word[0], word[1]])),
        None => Err(Refused::Truncated),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Refused> {
    match bytes.get(at..at + 4) {
        Some(word) => Ok(u32::from_be_bytes([word[0], word[1], word[2], word[3]])),
        None => Err(Refused::Truncated),
    }
}

/// The outer IP header.
struct Ip {
    remote: IpAddr,
    local: IpAddr,
    protocol: u8,
    tos: u8,
    ttl: u8,
    /// Where the payload is.
    payload: Range<usize>,
    /// A fragment: the first one, or a later one.
    fragment: Option<bool>,
    /// Why it is refused if it is for a tunnel.
    refused: Option<Refused>,
}

impl Ip {
    /// None: not IP, or so damaged that nobody can say whom it is for.
    fn read(packet: &[u8]) -> Option<Ip> {
        match packet.first()? >> 4 {
            4 => Ip::v4(packet),
            6 => Ip::v6(packet),
            _ => None,
        }
    }

    fn v4(packet: &[u8]) -> Option<Ip> {
        let header = packet.first_chunk::<20>()?;
        let header_len = usize::from(header[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let bits = u16::from_be_bytes([header[6], header[7]]);
        let fragment = match (bits & 0x1fff, bits & 0x2000) {
            (0, 0) => None,
            (offset, _) => Some(offset == 0),
        };
        let whole = (20..=total).contains(&header_len) && total <= packet.len();
        let refused = match whole {
            false => Some(Refused::IpLength),
            true if checksum::sum(&packet[..header_len]) != 0xffff => Some(Refused::IpChecksum),
            true if header_len > 20 => Some(Refused::IpOptions),
            true => fragment.map(|_| Refused::Fragment),
        };
        let [.., a, b, c, d, e, f, g, h] = *header;
        Some(Ip {
            remote: Ipv4Addr::new(a, b, c, d).into(),
            local: Ipv4Addr::new(e, f, g, h).into(),
            protocol: header[9],
            tos: header[1],
            ttl: header[8],
            payload: if whole { header_len..total } else { 0..0 },
            fragment,
            refused,
        })
    }

    fn v6(packet: &[u8]) -> Option<Ip> {
        let header = packet.first_chunk::<40>()?;
        let address = |at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&header[at..at + 16]);
            IpAddr::from(Ipv6Addr::from(octets))
        };
        let end = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
        let whole = end <= packet.len();
        Some(Ip {
            remote: address(8),
            local: address(24),
            protocol: header[6],
            tos: header[0] << 4 | header[1] >> 4,
            ttl: header[7],
            payload: if whole { 40..end } else { 0..0 },
            fragment: None,
            refused: (!whole).then_some(Refused::IpLength),
        })
    }

    fn pseudo(&self) -> Pseudo {
        match (self.remote, self.local) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => (src, dst).into(),
            (IpAddr::V6(src), IpAddr::V6(dst)) => (src, dst).into(),
            // Both come from one header.
            _ => (Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED).into(),
        }
    }
}

/// A first look at an IP packet: its destination, if its protocol or UDP port is one of tunnels. All that
/// [`Received::read`] takes or refuses has one. Cost: a few loads, for UDP a hash lookup.
#[inline]
pub fn concerns(packet: &[u8], kinds: &impl Kinds) -> Option<IpAddr> {
    let (protocol, l4, to): (u8, usize, IpAddr) = match packet.first()? >> 4 {
        4 => {
            let header = packet.first_chunk::<20>()?;
            let [.., a, b, c, d] = *header;
            (header[9], usize::from(header[0] & 15) * 4, Ipv4Addr::new(a, b, c, d).into())
        }
        6 => {
            let header = packet.first_chunk::<40>()?;
            let mut octets = [0; 16];
            octets.copy_from_slice(&header[24..]);
            (header[6], 40, Ipv6Addr::from(octets).into())
        }
        _ => return None,
    };
    let concerns = match protocol {
        17 => kinds.of_udp(u16_at(packet, l4 + 2).ok()?).is_some(),
        47 => kinds.has_gre(),
        _ => false,
    };
    concerns.then_some(to)
}

impl Received {
    /// Reads a packet from its IP header on; what is behind its end is padding. None: it is not for a tunnel port. `valid`:
    /// its transport checksum has been checked, or need not be.
    pub fn read(
        packet: &[u8],
        kinds: &impl Kinds,
        valid: bool,
    ) -> Result<Option<Received>, Refused> {
        let Some(ip) = Ip::read(packet) else { return Ok(None) };
        match ip.protocol {
            17 if ip.fragment == Some(false) => Ok(None),
            17 => Received::udp(packet, &ip, kinds, valid),
            47 if kinds.has_gre() => match ip.refused {
                Some(refused) => Err(refused),
                None => Received::gre(packet, &ip).map(Some),
            },
            _ => Ok(None),
        }
    }

    fn udp(
        packet: &[u8],
        ip: &Ip,
        kinds: &impl Kinds,
        valid: bool,
    ) -> Result<Option<Received>, Refused> {
        // For its port's sake, a header whose IP is wrong is looked at as well.
        let from = match ip.refused {
            None => ip.payload.start,
            Some(_) if ip.local.is_ipv4() => usize::from(packet[0] & 15) * 4,
            Some(_) => 40,
        };
        let Ok(udp_port) = u16_at(packet, from + 2) else { return Ok(None) };
        let Some(kind) = kinds.of_udp(udp_port) else { return Ok(None) };
        if let Some(refused) = ip.refused {
            return Err(refused);
        }
        let whole = &packet[ip.payload.clone()];
        let len = usize::from(u16_at(whole, 4)?);
        if !(8..=whole.len()).contains(&len) {
            return Err(Refused::UdpLength);
        }
        let udp = &whole[..len];
        // None at all is taken over IPv6, too (RFC 6935 §5).
        if u16_at(udp, 6)? != 0 && !valid && ip.pseudo().sum_over(IpProtocol::UDP, udp) != 0xffff {
            return Err(Refused::UdpChecksum);
        }
        let at = ip.payload.start + 8;
        let end = ip.payload.start + len;
        let mut received = Received::new(kind, ip);
        received.udp_port = udp_port;
        match kind {
            Kind::Geneve => received.geneve(packet, at, end)?,
            _ => received.vxlan(packet, at, end)?,
        }
        Ok(Some(received))
    }

    fn new(kind: Kind, ip: &Ip) -> Received {
        Received {
            kind,
            udp_port: 0,
            remote: ip.remote,
            local: ip.local,
            id: 0,
            gbp: false,
            fields: Fields { tos: ip.tos, ttl: ip.ttl, ..Fields::default() },
            options: 0..0,
            inner: 0..0,
        }
    }

    /// One over IPv4 of which all is known: kind and UDP port, the other end and this one, the VNI, other fields of the descriptor, and where
    /// options and the inner frame are.
    pub(crate) fn whole(
        (kind, udp_port): (Kind, u16),
        (remote, local): ([u8; 4], Ipv4Addr),
        id: u32,
        fields: Fields,
        (options, inner): (Range<usize>, Range<usize>),
    ) -> Received {
        let (remote, local) = (Ipv4Addr::from(remote).into(), local.into());
        Received {
            kind,
            udp_port,
            remote,
            local,
            id: id.into(),
            gbp: false,
            fields,
            options,
            inner,
        }
    }

    /// The inner frame is from here to the end.
    fn carries(&mut self, inner: Range<usize>) -> Result<(), Refused> {
        if inner.start > inner.end {
            return Err(Refused::Truncated);
        }
        if inner.len() < 14 {
            return Err(Refused::InnerTooShort);
        }
        self.inner = inner;
        Ok(())
    }

    //= rfc8926 §3.4: version, options' length, O and C, protocol, VNI.
    fn geneve(&mut self, packet: &[u8], at: usize, end: usize) -> Result<(), Refused> {
        let header = packet.get(at..(at + 8).min(end)).unwrap_or_default();
        let header = header.first_chunk::<8>().ok_or(Refused::Truncated)?;
        if header[0] >> 6 != 0 {
            return Err(Refused::GeneveVersion);
        }
        if u16::from_be_bytes([header[2], header[3]]) != TEB {
            return Err(Refused::GeneveProtocol);
        }
        let options = usize::from(header[0] & 0x3f) * 4;
        if header[1] & 0x80 != 0 {
            self.fields.flags |= flags::OAM;
        }
        self.id = (u32_at(header, 4)? >> 8).into();
        self.options = at + 8..at + 8 + options;
        self.carries(self.options.end..end)
    }

    //= rfc7348 §5: the I flag, the VNI. Other bits are group policy, or wrong as in Open vSwitch.
    fn vxlan(&mut self, packet: &[u8], at: usize, end: usize) -> Result<(), Refused> {
        let header = packet.get(at..(at + 8).min(end)).unwrap_or_default();
        let header = header.first_chunk::<8>().ok_or(Refused::Truncated)?;
        self.gbp = header[0] & 0x80 != 0;
        let rest_is_zero = header[1] & !GBP_FLAGS == 0 && header[7] == 0;
        let nothing = self.gbp || header[1..4] == [0; 3];
        if header[0] & 0x7f != 0x08 || !rest_is_zero || !nothing {
            return Err(Refused::VxlanFlags);
        }
        if self.gbp {
            self.fields.gbp_flags = header[1];
            self.fields.gbp_id = u16::from_be_bytes([header[2], header[3]]);
        }
        self.id = (u32_at(header, 4)? >> 8).into();
        self.carries(at + 8..end)
    }

    //= rfc2784 §2.1, rfc2890 §2: checksum, key and sequence number, in this order.
    fn gre(packet: &[u8], ip: &Ip) -> Result<Received, Refused> {
        let gre = &packet[ip.payload.clone()];
        let (flags, protocol) = (u16_at(gre, 0)?, u16_at(gre, 2)?);
        if flags & !(GRE_CSUM | GRE_KEY | GRE_SEQ) != 0 {
            return Err(Refused::GreFlags);
        }
        let mut at = 4;
        if flags & GRE_CSUM != 0 {
            if gre.len() < 8 {
                return Err(Refused::Truncated);
            }
            if checksum::sum(gre) != 0xffff {
                return Err(Refused::GreChecksum);
            }
            at += 4;
        }
        let kind = match protocol {
            TEB => Kind::Gre,
            ERSPAN_2 | ERSPAN_3 => Kind::Erspan,
            _ => return Err(Refused::GreProtocol),
        };
        let mut received = Received::new(kind, ip);
        if flags & GRE_KEY != 0 {
            received.id = u32_at(gre, at)?.into();
            at += 4;
        }
        if flags & GRE_SEQ != 0 {
            u32_at(gre, at)?;
            at += 4;
        }
        if kind == Kind::Erspan {
            // Type I has no header, and no sequence number to tell it by.
            if flags != GRE_SEQ {
                return Err(Refused::GreFlags);
            }
            at = received.erspan(gre, at)?;
        }
        received.carries(ip.payload.start + at..ip.payload.end)?;
        Ok(received)
    }

    /// Reads the ERSPAN header; says where the frame begins.
    fn erspan(&mut self, gre: &[u8], at: usize) -> Result<usize, Refused> {
        let first = u32_at(gre, at)?;
        self.id = u64::from(first) & Kind::Erspan.key_max();
        match first >> 28 {
            1 => {
                self.fields.erspan_ver = 1;
                self.fields.erspan_idx = u32_at(gre, at + 4)? & 0xf_ffff;
                Ok(at + 8)
            }
            2 => {
                u32_at(gre, at + 4)?;
                let last = u32_at(gre, at + 8)?;
                self.fields.erspan_ver = 2;
                self.fields.erspan_hwid = (last >> 4 & 0x3f) as u8;
                self.fields.erspan_dir = (last >> 3 & 1) as u8;
                // The last bit: a subheader of 8 octets follows.
                Ok(at + 12 + if last & 1 != 0 { 8 } else { 0 })
            }
            _ => Err(Refused::ErspanHeader),
        }
    }

    /// What says which port it is for: packets of which this is the same are for the same one.
    pub fn whose(&self) -> Whose {
        let &Received { kind, udp_port, id, remote, local, .. } = self;
        Whose { kind, udp_port, id, remote, local }
    }

    /// The outer TOS or traffic class.
    pub fn tos(&self) -> u8 {
        self.fields.tos
    }

    /// Whether it has nothing that a port with this configuration, which it was found to be for, does not know.
    pub fn suits(&self, config: &Config) -> Result<(), Refused> {
        match self.gbp && !config.gbp {
            true => Err(Refused::VxlanFlags),
            false => Ok(()),
        }
    }

    /// Writes the descriptor, laid out by this map, to the front of `room`; says how many octets it is. `packet` is what
    /// this was read from.
    pub fn describe(
        &self,
        packet: &[u8],
        map: &OptionMap,
        room: &mut [u8],
    ) -> Result<usize, Refused> {
        let options = packet.get(self.options.clone()).ok_or(Refused::Truncated)?;
        let (src, dst) = (Some(self.remote), Some(self.local));
        describe(Fields { id: self.id, src, dst, ..self.fields }, options, map, room)
    }
}

/// Writes a descriptor with these fields and options, laid out by this map, to the front of `room`; says how many octets it is.
#[inline]
pub(crate) fn describe(
    fields: Fields,
    options: &[u8],
    map: &OptionMap,
    room: &mut [u8],
) -> Result<usize, Refused> {
    let len = map.descriptor_len();
    let (front, data) = room
        .get_mut(..len)
        .and_then(|room| room.split_first_chunk_mut::<LEN>())
        .ok_or(Refused::NoRoom)?;
    data.fill(0);
    let present = read_options(options, map, data)?;
    Fields { map: map.number, present, ..fields }.write(front);
    Ok(len)
}

//= rfc8926 §3.5: an endpoint that does not know a critical option drops the packet.
/// Puts options at their places; says which there are. Of two that are the same, the last one holds.
pub(crate) fn read_options(
    mut options: &[u8],
    map: &OptionMap,
    data: &mut [u8],
) -> Result<u64, Refused> {
    let mut present = 0;
    while !options.is_empty() {
        let Some((head, rest)) = options.split_first_chunk::<4>() else {
            return Err(Refused::GeneveOption);
        };
        let len = usize::from(head[3] & 0x1f) * 4;
        let (value, after) = rest.split_at_checked(len).ok_or(Refused::GeneveOption)?;
        match map.find(u16::from_be_bytes([head[0], head[1]]), head[2]) {
            Some(option) if usize::from(option.len) != len => return Err(Refused::GeneveOption),
            Some(option) => {
                let at = usize::from(option.at);
                data[at..at + len].copy_from_slice(value);
                present |= 1 << option.index;
            }
            None if head[2] & 0x80 != 0 => return Err(Refused::CriticalOption),
            None => {}
        }
        options = after;
    }
    Ok(present)
}
