//! Outer headers that are ready but for what each packet brings: for one destination of a port, made once when its route is
//! known.
//!
//! Nearly all packets need no more than this: a copy of the headers, and in it the key, options, lengths, source port, TOS and
//! checksums. What a port or a packet has beyond that ([`Ready::new`] and [`Ready::push`] say what) goes the general way of
//! [`headers`](crate::headers), which sends the same octets.
//!
//! Cost: a copy of a constant number of octets, a look at the inner headers, an IPv4 checksum from a sum that is known; all
//! inner octets where there is a UDP checksum.
//! Checked by: the tests below, which compare with the general way.

use contract::tunnel::{LEN, OptionMap, flags};
use port::Frame;
use wire::checksum::{self, Sum};

use crate::config::{Given, Inherit, Kind};
use crate::descriptor::Brief;
use crate::headers::{Options, Outgoing, Packet, Path, write_options};
use crate::inner::Inner;

/// Octets that are copied: all headers of IPv4, or of IPv6, without options.
const ROOM: usize = 128;
/// Likewise, where this is enough.
const SHORT: usize = 64;
const ETHERNET: usize = 14;

/// Where a key goes that packets bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// It is a number, or there is none.
    Constant,
    /// The upper 24 bits of a word at this place.
    Vni(usize),
    /// A word at this place.
    Word(usize),
}

/// Headers for packets to one destination.
#[derive(Debug)]
pub struct Ready {
    /// The headers end with it.
    octets: [u8; ROOM],
    /// How many octets they are.
    len: usize,
    /// Where UDP or GRE begins.
    l4: usize,
    is_ipv4: bool,
    /// There is a UDP header.
    udp: bool,
    /// It has a checksum.
    sums: bool,
    geneve: bool,
    key: Key,
    /// TOS without ECN; None: the inner one.
    tos: Option<u8>,
    /// The inner TTL is the outer one.
    inherits_ttl: bool,
    /// Of the IPv4 header without length, TOS, and an inherited TTL.
    ip_sum: u64,
    /// Of addresses and protocol, for the UDP checksum.
    pseudo_sum: u64,
}

impl Ready {
    /// Headers of a port for a path. None: packets go the general way. So it is for ERSPAN, group policies, sequence numbers, GRE
    /// with a checksum, and packets that may be fragmented.
    pub fn new(out: &Outgoing, path: &Path) -> Option<Ready> {
        let config = out.config();
        let is_ipv4 = path.remote.is_ipv4();
        let udp = config.kind.udp_port().is_some();
        let general = config.kind == Kind::Erspan
            || config.gbp
            || config.seq
            || (config.csum && !udp)
            || (is_ipv4 && !config.df_default);
        if general {
            return None;
        }
        // Headers of a packet that brings nothing; what it brought is taken out again.
        let (map, descriptor) = (OptionMap::default(), [0; LEN]);
        let probe = Packet::of(&descriptor, &[0; ETHERNET], &map).ok()?;
        let mut room = [0; ROOM];
        let len = out.write(&probe, path, &mut room).ok()?;
        let l4 = ETHERNET + if is_ipv4 { 20 } else { 40 };
        let inherits_ttl = config.ttl == Inherit::Inner;
        if is_ipv4 {
            room[15..18].fill(0);
            room[24..26].fill(0);
            if inherits_ttl {
                room[22] = 0;
            }
        } else {
            // Of the traffic class, 4 bits in each of two octets.
            (room[14], room[15]) = (0x60, 0);
            room[18..20].fill(0);
        }
        if udp {
            room[l4..l4 + 2].fill(0);
            room[l4 + 4..l4 + 8].fill(0);
        }
        let mut octets = [0; ROOM];
        octets[ROOM - len..].copy_from_slice(&room[..len]);
        let mut pseudo = Sum::new();
        pseudo.add_bytes(if is_ipv4 { &room[26..34] } else { &room[22..54] });
        pseudo.add_u16(17);
        let key = match (config.out_key, config.kind) {
            (Some(Given::Flow), Kind::Gre) => Key::Word(l4 + 4),
            (Some(Given::Flow), _) => Key::Vni(l4 + 12),
            _ => Key::Constant,
        };
        Some(Ready {
            octets,
            len,
            l4,
            is_ipv4,
            udp,
            sums: udp && (config.csum || !is_ipv4),
            geneve: config.kind == Kind::Geneve,
            key,
            tos: match config.tos {
                Inherit::Fixed(tos) => Some(tos & !3),
                Inherit::Inner => None,
            },
            inherits_ttl,
            ip_sum: checksum::sum(&room[ETHERNET..ETHERNET + 20]).into(),
            pseudo_sum: pseudo.fold().into(),
        })
    }

    /// Puts the headers in place of a descriptor of this map. `mtu`: octets of the outer IP packet, at most. `room`: for
    /// options. False, with nothing done: the frame has to go the general way, which says what is wrong with it if something is.
    #[inline]
    pub fn push(&self, frame: &mut Frame, map: &OptionMap, mtu: u32, room: &mut [u8]) -> bool {
        let described = map.descriptor_len();
        let Some((descriptor, inner)) = frame.data().split_at_checked(described) else {
            return false;
        };
        let Some(brief) = Brief::read(descriptor) else { return false };
        if brief.map != map.number || inner.len() < ETHERNET {
            return false;
        }
        // Options lie where the headers go, so they are written elsewhere first.
        let mut written = None;
        if self.geneve && brief.present != 0 {
            match write_options(brief.present, &descriptor[LEN..], map, room) {
                Ok(these) => written = Some(these),
                Err(_) => return false,
            }
        }
        let more = written.as_ref().map_or(0, |options| options.len);
        let len = self.len + more;
        let end = len + inner.len();
        let covered = end - self.l4;
        if end - ETHERNET > mtu as usize || end > usize::from(u16::MAX) {
            return false;
        }
        let about = Inner::of(inner);
        let inner_sum = match self.sums {
            true => u64::from(checksum::sum(inner)),
            false => 0,
        };
        frame.pull_front(described);
        let (buffer, at, _) = frame.parts_mut();
        let Some(from) = at.checked_sub(len) else {
            // No room in front: the slow way to it.
            let octets = &self.octets[ROOM - self.len..];
            let head = frame.push_front(len);
            head[..self.len].copy_from_slice(octets);
            head[self.len..].copy_from_slice(&room[..more]);
            self.patch(head, brief, written, (end, covered), about, inner_sum);
            return true;
        };
        let until = from + self.len;
        // As many octets as may be, in a number that is known: what is in front of the headers is nobody's.
        if self.len <= SHORT && until >= SHORT {
            if let (Some(to), Some(octets)) =
                (buffer[..until].last_chunk_mut::<SHORT>(), self.octets.last_chunk::<SHORT>())
            {
                *to = *octets;
            }
        } else {
            buffer[from..until].copy_from_slice(&self.octets[ROOM - self.len..]);
        }
        let head = frame.push_front(len);
        if more > 0 {
            head[self.len..].copy_from_slice(&room[..more]);
        }
        self.patch(head, brief, written, (end, covered), about, inner_sum);
        true
    }

    /// Writes what the packet brings. `end`: octets of the whole frame; `covered`: from UDP or GRE on.
    #[inline]
    fn patch(
        &self,
        head: &mut [u8],
        brief: Brief,
        options: Option<Options>,
        (end, covered): (usize, usize),
        inner: Inner,
        inner_sum: u64,
    ) {
        let l4 = self.l4;
        let (fixed, tunnel) = head.split_at_mut(l4);
        let tos = self.tos.unwrap_or(inner.tos.unwrap_or(0) & !3) | inner.outer_ecn();
        if let (true, Some(ip)) = (self.is_ipv4, fixed.last_chunk_mut::<20>()) {
            let len = (end - ETHERNET) as u16;
            ip[1] = tos;
            ip[2..4].copy_from_slice(&len.to_be_bytes());
            let mut sum = self.ip_sum + u64::from(tos) + u64::from(len);
            if self.inherits_ttl {
                ip[8] = inner.ttl.unwrap_or(crate::config::TTL);
                sum += u64::from(ip[8]) << 8;
            }
            ip[10..12].copy_from_slice(&(!fold(sum)).to_be_bytes());
        } else if let Some(ip) = fixed.last_chunk_mut::<40>() {
            ip[0] = 0x60 | tos >> 4;
            ip[1] = tos << 4;
            ip[4..6].copy_from_slice(&(covered as u16).to_be_bytes());
            if self.inherits_ttl {
                ip[7] = inner.ttl.unwrap_or(crate::config::TTL);
            }
        }
        match self.key {
            Key::Constant => {}
            Key::Vni(at) => {
                let word = (brief.id as u32) << 8;
                tunnel[at - l4..at - l4 + 4].copy_from_slice(&word.to_be_bytes());
            }
            Key::Word(at) => {
                let word = brief.id as u32;
                tunnel[at - l4..at - l4 + 4].copy_from_slice(&word.to_be_bytes());
            }
        }
        if self.geneve {
            let oam = if brief.flags & flags::OAM != 0 { 0x80 } else { 0 };
            let (len, critical) = options.map_or((0, false), |o| (o.len, o.critical));
            tunnel[8] = (len / 4) as u8;
            tunnel[9] = oam | if critical { 0x40 } else { 0 };
        }
        if self.udp {
            tunnel[..2].copy_from_slice(&inner.source_port().to_be_bytes());
            tunnel[4..6].copy_from_slice(&(covered as u16).to_be_bytes());
            if self.sums {
                // All headers of UDP and the tunnel have an even number of octets.
                let sum = self.pseudo_sum + covered as u64;
                let sum = sum + u64::from(checksum::sum(tunnel)) + inner_sum;
                let sum = checksum::udp(!fold(sum));
                tunnel[6..8].copy_from_slice(&sum.to_be_bytes());
            }
        }
    }
}

/// A sum of some 16-bit words, folded.
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::descriptor::Fields;
    use crate::inner::tests::udp4;
    use crate::tests::random::Random;

    fn path(six: bool) -> Path {
        let address = |n: u8| match six {
            true => [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n].into(),
            false => [10, 0, 200, n].into(),
        };
        Path {
            remote: address(2),
            source: address(1),
            local_mac: [2; 6],
            next_mac: [4; 6],
            stamp: 0,
        }
    }

    #[test]
    fn the_octets_are_those_of_the_general_way() {
        let map = OptionMap::new(9, &[(3, 0x102, 0x80, 8), (1, 7, 1, 4), (5, 9, 2, 16)]).unwrap();
        let mut random = Random(5);
        let mut compared = 0;
        let configs = [
            (Kind::Geneve, "key=flow"),
            (Kind::Geneve, "key=77,csum=true,tos=inherit"),
            (Kind::Geneve, "key=flow,csum=true,ttl=inherit,tos=0x1c"),
            (Kind::Vxlan, "key=5"),
            (Kind::Vxlan, "key=flow,csum=true,dst_port=8472"),
            (Kind::Gre, "key=flow,tos=inherit,ttl=inherit"),
            (Kind::Gre, "key=9"),
            (Kind::Gre, ""),
        ];
        for (kind, text) in configs {
            for six in [false, true] {
                let path = path(six);
                let text = format!("remote_ip={},{text}", path.remote);
                let out = Outgoing::new(Config::parse(kind, text.trim_end_matches(',')).unwrap());
                let ready = Ready::new(&out, &path).unwrap();
                for n in 0..200 {
                    let mut inner = udp4(n, random.below(256) as u8);
                    inner[22] = random.below(256) as u8;
                    inner.resize(34 + random.below(1400), n as u8);
                    if n % 5 == 0 {
                        inner[12..14]
                            .copy_from_slice(&(random.below(1 << 16) as u16).to_be_bytes());
                    }
                    let present = random.below(64) as u64 & 0b10_1010;
                    let flags = random.below(2) as u16;
                    let id = random.below(1 << 40) as u64;
                    let fields = Fields { map: 9, id, flags, present, ..Fields::default() };
                    let mut bytes = [0; LEN];
                    fields.write(&mut bytes);
                    let mut bytes = bytes.to_vec();
                    bytes.extend((0..28).map(|_| random.below(256) as u8));
                    bytes.extend(&inner);
                    let packet = Packet::read(&bytes, &map).unwrap();
                    let mut room = [0; crate::headers::HEADERS_MAX];
                    let len = out.write(&packet, &path, &mut room).unwrap();
                    let expected = [&room[..len], &inner].concat();
                    let mtu = (expected.len() - ETHERNET) as u32;
                    let mut frame = Frame::copy_of(&bytes);
                    if n % 7 == 0 {
                        // No room in front of it but that of the descriptor.
                        let (front, rest) = bytes.split_at(frame.headroom());
                        frame.replace(rest);
                        frame.push_front(front.len()).copy_from_slice(front);
                        assert_eq!(frame.headroom(), 0);
                    }
                    let before = frame.data().to_vec();
                    assert!(
                        !ready.push(&mut frame, &map, mtu - 1, &mut room),
                        "longer than the MTU"
                    );
                    assert_eq!(frame.data(), before);
                    assert!(ready.push(&mut frame, &map, mtu, &mut room));
                    assert_eq!(frame.data(), expected, "{kind} {text} {fields:?}");
                    compared += 1;
                }
            }
        }
        assert_eq!(compared, 3200);
    }

    #[test]
    fn what_needs_more_goes_the_general_way() {
        let path = path(false);
        for (kind, text) in [
            (Kind::Vxlan, "key=5,exts=gbp"),
            (Kind::Gre, "csum=true"),
            (Kind::Gre, "seq=true"),
            (Kind::Geneve, "df_default=false"),
            (Kind::Erspan, "erspan_ver=1,erspan_idx=1"),
        ] {
            let text = format!("remote_ip={},{text}", path.remote);
            let out = Outgoing::new(Config::parse(kind, &text).unwrap());
            assert!(Ready::new(&out, &path).is_none(), "{text}");
        }
        let out = Outgoing::new(Config::parse(Kind::Geneve, "remote_ip=10.0.0.2").unwrap());
        let ready = Ready::new(&out, &path).unwrap();
        let map = OptionMap::new(9, &[(3, 0x102, 0x80, 8)]).unwrap();
        let described = |fields: Fields, inner: &[u8]| {
            let mut bytes = [0; LEN];
            fields.write(&mut bytes);
            Frame::copy_of(&[&bytes[..], &[0; 8], inner].concat())
        };
        let inner = udp4(1, 0);
        let whole = Fields { map: 9, ..Fields::default() };
        assert!(ready.push(&mut described(whole, &inner), &map, 1500, &mut [0; 252]));
        // Another map, an option that it has not, a frame that is none, no descriptor.
        let other = Fields { map: 8, ..whole };
        assert!(!ready.push(&mut described(other, &inner), &map, 1500, &mut [0; 252]));
        let option = Fields { present: 1, ..whole };
        assert!(!ready.push(&mut described(option, &inner), &map, 1500, &mut [0; 252]));
        assert!(!ready.push(&mut described(whole, &inner[..13]), &map, 1500, &mut [0; 252]));
        assert!(!ready.push(&mut Frame::copy_of(&[0; 40]), &map, 1500, &mut [0; 252]));
    }
}
