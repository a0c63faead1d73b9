//! Neighbour discovery for IPv6 (RFC 4861 §4): five ICMPv6 messages and their options.
//!
//! A view begins with the ICMPv6 header; its checksum is the ICMPv6 view's to verify and fill.

use std::net::Ipv6Addr;

use crate::bytes::{Field, fields, fits, flags, need, room, span, store, view};
use crate::icmpv6::{
    self, NEIGHBOR_ADVERTISEMENT, NEIGHBOR_SOLICITATION, REDIRECT, ROUTER_ADVERTISEMENT,
    ROUTER_SOLICITATION,
};
use crate::{Error, MacAddr};

const WHAT: &str = "neighbour discovery message";

/// Source link-layer address option (RFC 4861 §4.6.1).
pub const OPTION_SOURCE_LINK: u8 = 1;
/// Target link-layer address option (RFC 4861 §4.6.1).
pub const OPTION_TARGET_LINK: u8 = 2;
/// Prefix information option (RFC 4861 §4.6.2).
pub const OPTION_PREFIX: u8 = 3;
/// Redirected header option (RFC 4861 §4.6.3).
pub const OPTION_REDIRECTED: u8 = 4;
/// MTU option (RFC 4861 §4.6.4).
pub const OPTION_MTU: u8 = 5;

view! {
    /// A view of a message, from the ICMPv6 type on.
    Packet, check
}

/// Octets before the options, by type.
fn fixed_len(kind: u8) -> Option<usize> {
    match kind {
        ROUTER_SOLICITATION => Some(8),
        ROUTER_ADVERTISEMENT => Some(16),
        NEIGHBOR_SOLICITATION | NEIGHBOR_ADVERTISEMENT => Some(24),
        REDIRECT => Some(40),
        _ => None,
    }
}

fn check(bytes: &[u8]) -> Result<(), Error> {
    need(WHAT, bytes, icmpv6::HEADER_LEN)?;
    let kind = bytes[0];
    let Some(len) = fixed_len(kind) else {
        let (value, want) = (kind.into(), "133 to 137");
        return Err(Error::Field { what: WHAT, field: "type", value, want });
    };
    need(WHAT, bytes, len)?;
    // RFC 4861 §6.1 and §7.1: a message with an option of length zero is discarded whole.
    Options { rest: &bytes[len..] }.try_for_each(|option| option.map(drop))
}

fields! {
    Packet {
        /// ICMPv6 type.
        kind, set_kind: u8 @ 0;
        /// ICMPv6 code, 0.
        code, set_code: u8 @ 1;
        /// Target of a solicitation, an advertisement or a redirect; meaningless otherwise.
        target, set_target: Ipv6Addr @ 8;
        /// Destination of a redirect; meaningless otherwise.
        redirect_dst, set_redirect_dst: Ipv6Addr @ 24;
    }
}

flags! {
    Packet {
        /// Of a neighbour advertisement: the sender is a router.
        router, set_router @ 4, 0x80;
        /// Of a neighbour advertisement: it answers a solicitation.
        solicited, set_solicited @ 4, 0x40;
        /// Of a neighbour advertisement: it overrides what the receiver has cached.
        overrides, set_overrides @ 4, 0x20;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    fn options_at(&self) -> usize {
        fixed_len(self.kind()).unwrap_or(usize::MAX)
    }

    /// The options, one by one.
    pub fn options(&self) -> Options<'_> {
        Options { rest: span(self.as_bytes(), self.options_at(), usize::MAX) }
    }

    /// Where the MAC address of the first link-layer option of `kind` lies in the buffer.
    fn link_at(&self, kind: u8) -> Option<usize> {
        let mut at = self.options_at();
        for option in self.options().flatten() {
            if option.kind == kind && option.data.len() == 6 {
                return Some(at + 2);
            }
            at += option.data.len() + 2;
        }
        None
    }

    fn link(&self, kind: u8) -> Option<MacAddr> {
        self.link_at(kind).map(|at| MacAddr::get(self.as_bytes(), at))
    }

    /// The first source link-layer address option's MAC address.
    pub fn source_link(&self) -> Option<MacAddr> {
        self.link(OPTION_SOURCE_LINK)
    }

    /// The first target link-layer address option's MAC address.
    pub fn target_link(&self) -> Option<MacAddr> {
        self.link(OPTION_TARGET_LINK)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    fn set_link(&mut self, kind: u8, mac: MacAddr) -> bool {
        let at = self.link_at(kind);
        if let Some(at) = at {
            mac.put(self.as_bytes_mut(), at);
        }
        at.is_some()
    }

    /// Writes the first source link-layer address option; false if there is none.
    pub fn set_source_link(&mut self, mac: MacAddr) -> bool {
        self.set_link(OPTION_SOURCE_LINK, mac)
    }

    /// Writes the first target link-layer address option; false if there is none.
    pub fn set_target_link(&mut self, mac: MacAddr) -> bool {
        self.set_link(OPTION_TARGET_LINK, mac)
    }
}

/// An option as it lies in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawOpt<'a> {
    /// Option type.
    pub kind: u8,
    /// Data without type and length: 6 octets more than a multiple of 8.
    pub data: &'a [u8],
}

/// A walk over options (RFC 4861 §4.6), whose lengths count words of 8 octets; ends after an
/// error.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<RawOpt<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        let &kind = rest.first()?;
        let what = "neighbour discovery option";
        let len = usize::from(u8::get(rest, 1)) * 8;
        if len == 0 && rest.len() >= 2 {
            let want = "at least 1 word of 8 octets";
            return Some(Err(Error::Field { what, field: "length", value: 0, want }));
        }
        Some(need(what, rest, len.max(8)).map(|()| {
            let (option, after) = rest.split_at(len);
            self.rest = after;
            RawOpt { kind, data: &option[2..] }
        }))
    }
}

/// An option as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opt {
    /// The sender's MAC address.
    SourceLink(MacAddr),
    /// The target's MAC address.
    TargetLink(MacAddr),
    /// A prefix.
    Prefix {
        /// Length in bits.
        len: u8,
        /// Addresses in it are on the link.
        on_link: bool,
        /// Hosts may form addresses in it.
        autonomous: bool,
        /// Seconds for which it is on the link; all ones for ever.
        valid_s: u32,
        /// Seconds for which formed addresses are preferred; all ones for ever.
        preferred_s: u32,
        /// The prefix.
        prefix: Ipv6Addr,
    },
    /// The link's MTU in octets.
    Mtu(u32),
    /// The packet that caused a redirect, as much of it as fits: a multiple of 8 octets.
    Redirected(Vec<u8>),
    /// Another type, or a known one with a length that is not its own.
    Other {
        /// Option type.
        kind: u8,
        /// Data without type and length: 6 octets more than a multiple of 8.
        data: Vec<u8>,
    },
}

impl Opt {
    /// Reads an option.
    pub fn parse(raw: RawOpt<'_>) -> Self {
        let data = raw.data;
        match (raw.kind, data.len()) {
            (OPTION_SOURCE_LINK, 6) => Opt::SourceLink(MacAddr::get(data, 0)),
            (OPTION_TARGET_LINK, 6) => Opt::TargetLink(MacAddr::get(data, 0)),
            (OPTION_PREFIX, 30) => Opt::Prefix {
                len: data[0],
                on_link: data[1] & 0x80 != 0,
                autonomous: data[1] & 0x40 != 0,
                valid_s: u32::get(data, 2),
                preferred_s: u32::get(data, 6),
                prefix: Ipv6Addr::get(data, 14),
            },
            (OPTION_REDIRECTED, 6..) => Opt::Redirected(data[6..].to_vec()),
            (OPTION_MTU, 6) => Opt::Mtu(u32::get(data, 2)),
            (kind, _) => Opt::Other { kind, data: data.to_vec() },
        }
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        match self {
            Opt::SourceLink(_) | Opt::TargetLink(_) | Opt::Mtu(_) => 8,
            Opt::Prefix { .. } => 32,
            Opt::Redirected(packet) => 8 + packet.len(),
            Opt::Other { data, .. } => 2 + data.len(),
        }
    }

    /// Writes the option to the front of `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short, [`Error::TooLarge`] for more than 255 words,
    /// [`Error::Malformed`] for data that does not fill words.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        let what = "neighbour discovery option";
        let len = self.buffer_len();
        fits(what, "length", len as u64, 255 * 8)?;
        if !len.is_multiple_of(8) {
            let why = "its length is no multiple of 8 octets; pad it with zeros";
            return Err(Error::Malformed { what, why });
        }
        let out = room(what, out, len)?;
        out[1] = (len / 8) as u8;
        match self {
            Opt::SourceLink(mac) => {
                out[0] = OPTION_SOURCE_LINK;
                mac.put(out, 2);
            }
            Opt::TargetLink(mac) => {
                out[0] = OPTION_TARGET_LINK;
                mac.put(out, 2);
            }
            Opt::Prefix { len, on_link, autonomous, valid_s, preferred_s, prefix } => {
                out[0] = OPTION_PREFIX;
                out[2] = *len;
                out[3] = u8::from(*on_link) << 7 | u8::from(*autonomous) << 6;
                valid_s.put(out, 4);
                preferred_s.put(out, 8);
                prefix.put(out, 16);
            }
            Opt::Mtu(mtu) => {
                out[0] = OPTION_MTU;
                mtu.put(out, 4);
            }
            Opt::Redirected(packet) => {
                out[0] = OPTION_REDIRECTED;
                store(out, 8, packet);
            }
            Opt::Other { kind, data } => {
                out[0] = *kind;
                store(out, 2, data);
            }
        }
        Ok(())
    }
}

/// The part of a message before its options, as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Who are the routers?
    RouterSolicitation,
    /// I am a router.
    RouterAdvertisement {
        /// Hop limit for hosts to use; 0 for unspecified.
        hop_limit: u8,
        /// Addresses come from DHCPv6.
        managed: bool,
        /// Other configuration comes from DHCPv6.
        other_config: bool,
        /// Seconds for which it is a default router; 0 for never.
        lifetime_s: u16,
        /// Milliseconds for which a neighbour counts as reachable; 0 for unspecified.
        reachable_ms: u32,
        /// Milliseconds between solicitations; 0 for unspecified.
        retransmit_ms: u32,
    },
    /// Who has the target?
    NeighborSolicitation {
        /// The address asked for.
        target: Ipv6Addr,
    },
    /// I have the target.
    NeighborAdvertisement {
        /// The sender is a router.
        router: bool,
        /// It answers a solicitation.
        solicited: bool,
        /// It overrides what the receiver has cached.
        overrides: bool,
        /// The address.
        target: Ipv6Addr,
    },
    /// There is a better first hop.
    Redirect {
        /// The better first hop.
        target: Ipv6Addr,
        /// The destination to be reached by it.
        dst: Ipv6Addr,
    },
}

/// A message with its options as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repr {
    /// The message.
    pub message: Message,
    /// Its options, in order.
    pub options: Vec<Opt>,
}

impl Repr {
    /// Reads the message. Its checksum is the ICMPv6 view's to verify.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        packet.check()?;
        let bytes = packet.as_bytes();
        let target = packet.target();
        let message = match packet.kind() {
            ROUTER_SOLICITATION => Message::RouterSolicitation,
            ROUTER_ADVERTISEMENT => Message::RouterAdvertisement {
                hop_limit: u8::get(bytes, 4),
                managed: u8::get(bytes, 5) & 0x80 != 0,
                other_config: u8::get(bytes, 5) & 0x40 != 0,
                lifetime_s: u16::get(bytes, 6),
                reachable_ms: u32::get(bytes, 8),
                retransmit_ms: u32::get(bytes, 12),
            },
            NEIGHBOR_SOLICITATION => Message::NeighborSolicitation { target },
            NEIGHBOR_ADVERTISEMENT => Message::NeighborAdvertisement {
                router: packet.router(),
                solicited: packet.solicited(),
                overrides: packet.overrides(),
                target,
            },
            _ => Message::Redirect { target, dst: packet.redirect_dst() },
        };
        let options = packet.options().map(|option| option.map(Opt::parse));
        Ok(Repr { message, options: options.collect::<Result<_, _>>()? })
    }

    fn fixed_len(&self) -> usize {
        match self.message {
            Message::RouterSolicitation => 8,
            Message::RouterAdvertisement { .. } => 16,
            Message::NeighborSolicitation { .. } | Message::NeighborAdvertisement { .. } => 24,
            Message::Redirect { .. } => 40,
        }
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        self.fixed_len() + self.options.iter().map(Opt::buffer_len).sum::<usize>()
    }

    /// Writes the message, ICMPv6 header included and its checksum zero (see
    /// [`icmpv6::Packet::fill_checksum`]), to the front of `out`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `out` is too short, and those of [`Opt::emit`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Error> {
        let out = room(WHAT, out, self.buffer_len())?;
        let mut packet = Packet { buffer: &mut *out };
        match self.message {
            Message::RouterSolicitation => packet.set_kind(ROUTER_SOLICITATION),
            Message::RouterAdvertisement {
                hop_limit,
                managed,
                other_config,
                lifetime_s,
                reachable_ms,
                retransmit_ms,
            } => {
                packet.set_kind(ROUTER_ADVERTISEMENT);
                let bytes = packet.as_bytes_mut();
                hop_limit.put(bytes, 4);
                (u8::from(managed) << 7 | u8::from(other_config) << 6).put(bytes, 5);
                lifetime_s.put(bytes, 6);
                reachable_ms.put(bytes, 8);
                retransmit_ms.put(bytes, 12);
            }
            Message::NeighborSolicitation { target } => {
                packet.set_kind(NEIGHBOR_SOLICITATION);
                packet.set_target(target);
            }
            Message::NeighborAdvertisement { router, solicited, overrides, target } => {
                packet.set_kind(NEIGHBOR_ADVERTISEMENT);
                packet.set_router(router);
                packet.set_solicited(solicited);
                packet.set_overrides(overrides);
                packet.set_target(target);
            }
            Message::Redirect { target, dst } => {
                packet.set_kind(REDIRECT);
                packet.set_target(target);
                packet.set_redirect_dst(dst);
            }
        }
        let mut at = self.fixed_len();
        for option in &self.options {
            option.emit(&mut out[at..])?;
            at += option.buffer_len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Repr> {
        let target = "fe80::1".parse().unwrap();
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        let prefix = Opt::Prefix {
            len: 64,
            on_link: true,
            autonomous: true,
            valid_s: 86400,
            preferred_s: u32::MAX,
            prefix: "2001:db8::".parse().unwrap(),
        };
        let advertisement = Message::RouterAdvertisement {
            hop_limit: 64,
            managed: true,
            other_config: false,
            lifetime_s: 1800,
            reachable_ms: 1,
            retransmit_ms: 2,
        };
        let advert = Message::NeighborAdvertisement {
            router: true,
            solicited: true,
            overrides: false,
            target,
        };
        let other = Opt::Other { kind: 25, data: vec![7; 22] };
        let redirect = Message::Redirect { target, dst: "2001:db8::7".parse().unwrap() };
        vec![
            Repr { message: Message::RouterSolicitation, options: vec![Opt::SourceLink(mac)] },
            Repr { message: advertisement, options: vec![Opt::Mtu(1500), prefix, other] },
            Repr {
                message: Message::NeighborSolicitation { target },
                options: vec![Opt::SourceLink(mac)],
            },
            Repr { message: advert, options: vec![Opt::Mtu(9), Opt::TargetLink(mac)] },
            Repr { message: redirect, options: vec![Opt::Redirected(vec![9; 48])] },
        ]
    }

    #[test]
    fn round_trip_and_every_truncation() {
        for repr in samples() {
            let mut out = vec![0xff; repr.buffer_len()];
            repr.emit(&mut out).unwrap();
            assert_eq!(Repr::parse(&Packet::new_checked(&out[..]).unwrap()).unwrap(), repr);
            for len in 0..out.len() {
                // Between options a message is shorter, and whole.
                match Packet::new_checked(&out[..len]) {
                    Ok(packet) => {
                        assert!(Repr::parse(&packet).unwrap().options.len() < repr.options.len());
                    }
                    Err(error) => assert!(matches!(error, Error::Truncated { .. }), "{error}"),
                }
            }
            let short = out.len() - 1;
            assert!(matches!(repr.emit(&mut out[..short]), Err(Error::NoRoom { .. })));
        }
    }

    #[test]
    fn link_layer_options_in_place() {
        let repr = &samples()[3];
        let mut out = vec![0; repr.buffer_len()];
        repr.emit(&mut out).unwrap();
        let mut packet = Packet::new_checked(&mut out[..]).unwrap();
        assert_eq!(packet.target_link(), Some(MacAddr([2, 0, 0, 0, 0, 9])));
        assert_eq!(packet.source_link(), None);
        assert!(packet.set_target_link(MacAddr::BROADCAST));
        assert!(!packet.set_source_link(MacAddr::ZERO));
        assert_eq!(packet.target_link(), Some(MacAddr::BROADCAST));
    }

    #[test]
    fn a_zero_length_option_condemns_the_message() {
        let mut bytes = [0; 32];
        bytes[0] = NEIGHBOR_SOLICITATION;
        bytes[24] = 1;
        assert!(matches!(
            Packet::new_checked(&bytes[..]),
            Err(Error::Field { field: "length", value: 0, .. })
        ));
        bytes[25] = 2;
        assert!(matches!(Packet::new_checked(&bytes[..]), Err(Error::Truncated { need: 16, .. })));
        bytes[0] = 128;
        assert!(matches!(Packet::new_checked(&bytes[..]), Err(Error::Field { field: "type", .. })));
        let odd = Opt::Other { kind: 1, data: vec![0; 5] };
        assert!(matches!(odd.emit(&mut [0; 8]), Err(Error::Malformed { .. })));
    }
}
