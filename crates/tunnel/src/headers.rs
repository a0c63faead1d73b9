//! Outer headers of a frame that leaves by a tunnel port: Ethernet, IP, UDP or GRE, and the tunnel's own.
//!
//! A port has a template of constants for either IP version, made once. A frame's headers are a copy of it, patched:
//! addresses, TOS and TTL, lengths, key, options, source port, checksums. So it is done in Open vSwitch (`tnl_push`).
//!
//! - ECN is that of the inner packet, CE as ECT(0); `tos=inherit` copies DSCP, `ttl=inherit` the TTL (RFC 6040 §4.1).
//! - UDP over IPv6 always has a checksum (RFC 8200 §8.1); over IPv4 if `csum` asks for it (RFC 7348 §5, RFC 8926 §3.3).
//! - An IPv4 packet that may be fragmented has an identification of its own (RFC 6864 §4); the others have 0.
//! - VXLAN says the group policy if one is set, as Linux does.
//!
//! Cost: a copy of some 50 octets; a checksum over all only where there is one. No allocation.
//! Checked by: `tests/octets.rs` against Open vSwitch's answers.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use contract::tunnel::{LEN, OptionMap, flags};
use wire::IpProtocol;
use wire::checksum::{self, Pseudo, Sum};

use crate::config::{Config, Given, Inherit, Kind, TTL};
use crate::descriptor::Fields;
use crate::inner::Inner;
use crate::refused::Refused;

/// Octets of options, at most.
pub const OPTIONS_MAX: usize = 252;
/// Octets of all headers, at most.
pub const HEADERS_MAX: usize = ETHERNET + 40 + 8 + 8 + OPTIONS_MAX;
/// Octets of the headers without options, at most.
const TEMPLATE_MAX: usize = ETHERNET + 40 + 16;
const ETHERNET: usize = 14;
const UDP: u8 = 17;
const GRE: u8 = 47;
/// GRE's flags (RFC 2890 §2).
pub(crate) const GRE_CSUM: u16 = 0x8000;
pub(crate) const GRE_KEY: u16 = 0x2000;
pub(crate) const GRE_SEQ: u16 = 0x1000;
/// Transparent Ethernet bridging.
pub(crate) const TEB: u16 = 0x6558;
/// ERSPAN II and III.
pub(crate) const ERSPAN_2: u16 = 0x88be;
pub(crate) const ERSPAN_3: u16 = 0x22eb;

/// A frame with its descriptor taken off.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The descriptor's fields.
    pub fields: Fields,
    /// The descriptor's options.
    options: &'a [u8],
    /// The inner frame.
    pub inner: &'a [u8],
    map: &'a OptionMap,
}

impl<'a> Packet<'a> {
    /// Takes off a descriptor that is laid out by this map.
    pub fn read(frame: &'a [u8], map: &'a OptionMap) -> Result<Packet<'a>, Refused> {
        let (descriptor, inner) =
            frame.split_at_checked(map.descriptor_len()).ok_or(Refused::Descriptor)?;
        Packet::of(descriptor, inner, map)
    }

    /// The same, of a descriptor and a frame that lie apart.
    pub fn of(
        descriptor: &'a [u8],
        inner: &'a [u8],
        map: &'a OptionMap,
    ) -> Result<Packet<'a>, Refused> {
        let fields = Fields::read(descriptor).ok_or(Refused::Descriptor)?;
        if fields.map != map.number {
            return Err(Refused::StaleMap);
        }
        let options = &descriptor[LEN..];
        if inner.len() < ETHERNET {
            return Err(Refused::TooShort);
        }
        Ok(Packet { fields, options, inner, map })
    }
}

/// Between which ends an outer packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The other end.
    pub remote: IpAddr,
    /// This end.
    pub source: IpAddr,
    /// The hardware address of the device that it leaves by.
    pub local_mac: [u8; 6],
    /// That of the next hop.
    pub next_mac: [u8; 6],
    /// The time in units of 100 µs, for ERSPAN III.
    pub stamp: u32,
}

/// The way out of a tunnel port.
#[derive(Debug)]
pub struct Outgoing {
    config: Config,
    v4: Template,
    v6: Template,
    /// Of GRE and ERSPAN.
    sequence: AtomicU32,
    /// IPv4 identification of packets that may be fragmented.
    identification: AtomicU16,
}

#[derive(Debug)]
struct Template {
    octets: [u8; TEMPLATE_MAX],
    /// Where UDP or GRE begins.
    l4: usize,
    len: usize,
}

fn put16(octets: &mut [u8], at: usize, value: u16) {
    octets[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn put32(octets: &mut [u8], at: usize, value: u32) {
    octets[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

impl Template {
    fn new(config: &Config, is_ipv4: bool) -> Template {
        let mut octets = [0; TEMPLATE_MAX];
        let protocol = if config.kind.udp_port().is_some() { UDP } else { GRE };
        let l4 = if is_ipv4 {
            put16(&mut octets, 12, 0x0800);
            octets[14] = 0x45;
            if config.df_default {
                octets[20] = 0x40;
            }
            octets[23] = protocol;
            ETHERNET + 20
        } else {
            put16(&mut octets, 12, 0x86dd);
            octets[14] = 0x60;
            octets[20] = protocol;
            ETHERNET + 40
        };
        let len = match config.kind {
            Kind::Geneve => {
                put16(&mut octets, l4 + 2, config.dst_port);
                put16(&mut octets, l4 + 10, TEB);
                l4 + 16
            }
            Kind::Vxlan => {
                put16(&mut octets, l4 + 2, config.dst_port);
                octets[l4 + 8] = 0x08;
                l4 + 16
            }
            Kind::Gre => {
                let has = [
                    (config.csum, GRE_CSUM),
                    (config.out_key.is_some(), GRE_KEY),
                    (config.seq, GRE_SEQ),
                ];
                let there = has.iter().filter(|(there, _)| *there);
                let flags = there.clone().fold(0, |all, (_, flag)| all | flag);
                put16(&mut octets, l4, flags);
                put16(&mut octets, l4 + 2, TEB);
                l4 + 4 + 4 * there.count()
            }
            Kind::Erspan => {
                put16(&mut octets, l4, GRE_SEQ);
                l4 + 8
            }
        };
        Template { octets, l4, len }
    }
}

impl Outgoing {
    /// For a port.
    pub fn new(config: Config) -> Outgoing {
        let (v4, v6) = (Template::new(&config, true), Template::new(&config, false));
        let (sequence, identification) = (AtomicU32::new(0), AtomicU16::new(0));
        Outgoing { config, v4, v6, sequence, identification }
    }

    /// The port's options.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where a packet goes, and from where if that is given.
    pub fn ends(&self, fields: &Fields) -> Result<(IpAddr, Option<IpAddr>), Refused> {
        self.ends_of(fields.src, fields.dst)
    }

    /// The same, of the ends that a descriptor names.
    #[inline]
    pub fn ends_of(
        &self,
        source: Option<IpAddr>,
        destination: Option<IpAddr>,
    ) -> Result<(IpAddr, Option<IpAddr>), Refused> {
        let remote = match self.config.remote {
            Given::Fixed(remote) => remote,
            Given::Flow => destination.ok_or(Refused::NoRemote)?,
        };
        let local = match self.config.local {
            Some(Given::Fixed(local)) => Some(local),
            Some(Given::Flow) => source,
            None => None,
        };
        if local.is_some_and(|local| local.is_ipv4() != remote.is_ipv4()) {
            return Err(Refused::Families);
        }
        Ok((remote, local))
    }

    /// Writes the headers of a packet to the front of `room`; says how many octets they are. The inner frame follows them.
    pub fn write(
        &self,
        packet: &Packet<'_>,
        path: &Path,
        room: &mut [u8],
    ) -> Result<usize, Refused> {
        let (template, pseudo) = match (path.source, path.remote) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => (&self.v4, Pseudo::from((src, dst))),
            (IpAddr::V6(src), IpAddr::V6(dst)) => (&self.v6, Pseudo::from((src, dst))),
            _ => return Err(Refused::Families),
        };
        let (fields, l4) = (&packet.fields, template.l4);
        let Some(front) = room.get_mut(..template.len) else { return Err(Refused::NoRoom) };
        front.copy_from_slice(&template.octets[..template.len]);
        front[..6].copy_from_slice(&path.next_mac);
        front[6..12].copy_from_slice(&path.local_mac);
        let id = match self.config.out_key {
            Some(Given::Fixed(id)) => id,
            Some(Given::Flow) => fields.id,
            None => 0,
        };
        let len = match self.config.kind {
            Kind::Geneve => {
                put32(room, l4 + 12, (id as u32) << 8);
                let Packet { fields, options, map, .. } = packet;
                let options =
                    write_options(fields.present, options, map, &mut room[template.len..])?;
                room[l4 + 8] = (options.len / 4) as u8;
                let oam = if fields.flags & flags::OAM != 0 { 0x80 } else { 0 };
                room[l4 + 9] = oam | if options.critical { 0x40 } else { 0 };
                template.len + options.len
            }
            Kind::Vxlan => {
                if self.config.gbp && (fields.gbp_id != 0 || fields.gbp_flags != 0) {
                    room[l4 + 8] |= 0x80;
                    room[l4 + 9] = fields.gbp_flags & GBP_FLAGS;
                    put16(room, l4 + 10, fields.gbp_id);
                }
                put32(room, l4 + 12, (id as u32) << 8);
                template.len
            }
            Kind::Gre => {
                let mut at = l4 + 4 + if self.config.csum { 4 } else { 0 };
                if self.config.out_key.is_some() {
                    put32(room, at, id as u32);
                    at += 4;
                }
                if self.config.seq {
                    put32(room, at, self.sequence.fetch_add(1, Ordering::Relaxed));
                }
                template.len
            }
            Kind::Erspan => self.write_erspan(fields, id, path, l4, room)?,
        };
        let inner = Inner::of(packet.inner);
        self.write_ip(&inner, path, l4, len + packet.inner.len(), room)?;
        let covered = len + packet.inner.len() - l4;
        if self.config.kind.udp_port().is_some() {
            put16(room, l4, inner.source_port());
            put16(room, l4 + 4, covered as u16);
            if self.config.csum || path.remote.is_ipv6() {
                let mut sum = pseudo.sum(IpProtocol::UDP, covered as u32);
                sum.add_bytes(&room[l4..len]);
                sum.add_bytes(packet.inner);
                put16(room, l4 + 6, checksum::udp(sum.finish()));
            }
        } else if self.config.csum {
            let mut sum = Sum::new();
            sum.add_bytes(&room[l4..len]);
            sum.add_bytes(packet.inner);
            put16(room, l4 + 4, sum.finish());
        }
        Ok(len)
    }

    /// The IP header, but for what the template has. `end`: octets of the whole outer frame.
    fn write_ip(
        &self,
        inner: &Inner,
        path: &Path,
        l4: usize,
        end: usize,
        room: &mut [u8],
    ) -> Result<(), Refused> {
        let dscp = match self.config.tos {
            Inherit::Fixed(tos) => tos,
            Inherit::Inner => inner.tos.unwrap_or(0),
        };
        let tos = dscp & !3 | inner.outer_ecn();
        let ttl = match self.config.ttl {
            Inherit::Fixed(ttl) => ttl,
            Inherit::Inner => inner.ttl.unwrap_or(TTL),
        };
        match (path.source, path.remote) {
            (IpAddr::V4(source), IpAddr::V4(remote)) => {
                let len = u16::try_from(end - ETHERNET).map_err(|_| Refused::TooLong)?;
                room[15] = tos;
                put16(room, 16, len);
                if !self.config.df_default {
                    let next = || self.identification.fetch_add(1, Ordering::Relaxed);
                    // The kernel would put one of its own in place of 0, in each fragment.
                    let id = match next() {
                        0 => next(),
                        id => id,
                    };
                    put16(room, 18, id);
                }
                room[22] = ttl;
                room[26..30].copy_from_slice(&source.octets());
                room[30..34].copy_from_slice(&remote.octets());
                let sum = checksum::checksum(&room[ETHERNET..l4]);
                put16(room, 24, sum);
            }
            (IpAddr::V6(source), IpAddr::V6(remote)) => {
                let len = u16::try_from(end - l4).map_err(|_| Refused::TooLong)?;
                room[14] = 0x60 | tos >> 4;
                room[15] = tos << 4;
                put16(room, 18, len);
                room[21] = ttl;
                room[22..38].copy_from_slice(&source.octets());
                room[38..54].copy_from_slice(&remote.octets());
            }
            _ => return Err(Refused::Families),
        }
        Ok(())
    }

    /// The ERSPAN header behind GRE's, whose protocol and sequence number it writes as well.
    fn write_erspan(
        &self,
        fields: &Fields,
        id: u64,
        path: &Path,
        l4: usize,
        room: &mut [u8],
    ) -> Result<usize, Refused> {
        let of = |given: Given<u8>, field: u8, max: u8| match given {
            Given::Fixed(value) => Ok(value),
            Given::Flow if field <= max => Ok(field),
            Given::Flow => Err(Refused::ErspanField),
        };
        let at = l4 + 8;
        let session = (id & Kind::Erspan.key_max()) as u32;
        let (protocol, len) = match of(self.config.erspan_ver, fields.erspan_ver, u8::MAX)? {
            1 => (ERSPAN_2, at + 8),
            2 => (ERSPAN_3, at + 12),
            _ => return Err(Refused::ErspanVersion),
        };
        if room.len() < len {
            return Err(Refused::NoRoom);
        }
        put16(room, l4 + 2, protocol);
        if protocol == ERSPAN_2 {
            let index = match self.config.erspan_idx {
                Given::Fixed(index) => index,
                Given::Flow if fields.erspan_idx <= 0xf_ffff => fields.erspan_idx,
                Given::Flow => return Err(Refused::ErspanField),
            };
            put32(room, at, 1 << 28 | session);
            put32(room, at + 4, index);
        } else {
            let hwid = of(self.config.erspan_hwid, fields.erspan_hwid, 0x3f)?;
            let direction = of(self.config.erspan_dir, fields.erspan_dir, 1)?;
            put32(room, at, 2 << 28 | session);
            put32(room, at + 4, path.stamp);
            put32(room, at + 8, u32::from(hwid) << 4 | u32::from(direction) << 3);
        }
        put32(room, l4 + 4, self.sequence.fetch_add(1, Ordering::Relaxed));
        Ok(len)
    }
}

/// VXLAN's group policy: do not learn, and applied.
pub(crate) const GBP_FLAGS: u8 = 0x48;

/// Options that were written.
pub(crate) struct Options {
    /// Octets.
    pub(crate) len: usize,
    /// One of them is critical.
    pub(crate) critical: bool,
}

/// Writes the options that are there, by index, as Open vSwitch does. `data`: what a descriptor has of them.
pub(crate) fn write_options(
    mut present: u64,
    data: &[u8],
    map: &OptionMap,
    room: &mut [u8],
) -> Result<Options, Refused> {
    let mut options = Options { len: 0, critical: false };
    while present != 0 {
        let index = present.trailing_zeros() as u8;
        present &= present - 1;
        let option = map.by_index(index).ok_or(Refused::StaleMap)?;
        let (at, len) = (usize::from(option.at), usize::from(option.len));
        let data = data.get(at..at + len).ok_or(Refused::Descriptor)?;
        if options.len + 4 + len > OPTIONS_MAX {
            return Err(Refused::OptionsTooLong);
        }
        let out = room.get_mut(options.len..options.len + 4 + len).ok_or(Refused::NoRoom)?;
        put16(out, 0, option.class);
        out[2] = option.kind;
        out[3] = option.len / 4;
        out[4..].copy_from_slice(data);
        options.len += 4 + len;
        options.critical |= option.kind & 0x80 != 0;
    }
    Ok(options)
}
