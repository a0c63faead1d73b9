//! Packets as nearly all of them are: IPv4 without options and whole, UDP to a port and an address that are known, Geneve or
//! VXLAN without group policy.
//!
//! What [`Plain::read`] does not take goes the general way ([`Received`]), which takes or refuses it. What it takes is the same
//! there.
//!
//! Cost: some thirty loads, and the IPv4 checksum; all octets where there is a UDP checksum.
//! Checked by: the tests below and the fuzz target `tunnel`, which compare with the general way.

use std::net::Ipv4Addr;

use contract::tunnel::{OptionMap, flags};
use wire::IpProtocol;
use wire::checksum::{self, Pseudo};

use crate::config::Kind;
use crate::descriptor::Fields;
use crate::headers::TEB;
use crate::parse::{Received, describe};
use crate::refused::Refused;

/// Octets in front of options, or of the inner frame.
const HEADERS: usize = 20 + 8 + 8;

/// Where packets come in that are looked at in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near {
    /// An address of this host.
    pub local: Ipv4Addr,
    /// The UDP port.
    pub udp_port: u16,
    /// The kind of its ports.
    pub kind: Kind,
}

/// What says which port a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    remote: [u8; 4],
    id: u32,
    near: Near,
}

/// A packet that is for a tunnel port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// What says which port it is for.
    pub key: Key,
    /// The outer TOS.
    pub tos: u8,
    ttl: u8,
    oam: bool,
    /// Where the inner frame begins in the packet; options end there.
    pub start: u16,
    /// Where the inner frame ends in the packet.
    pub end: u16,
}

impl Plain {
    /// Reads a packet from its IP header on; what is behind its end is padding. `valid`: its transport checksum has been
    /// checked, or need not be. None: it goes the general way.
    #[inline]
    pub fn read(packet: &[u8], near: &Near, valid: bool) -> Option<Plain> {
        let head = packet.first_chunk::<HEADERS>()?;
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let total = usize::from(word(2));
        // Version and length, no fragment, UDP.
        let is_plain = head[0] == 0x45 && word(6) & 0x3fff == 0 && head[9] == 17;
        let [.., a, b, c, d] = *head.first_chunk::<20>()?;
        if !is_plain || word(22) != near.udp_port || [a, b, c, d] != near.local.octets() {
            return None;
        }
        let udp_len = usize::from(word(24));
        let end = 20 + udp_len;
        let fits = end <= total && total <= packet.len() && udp_len >= 16;
        if !fits || checksum::sum(&head[..20]) != 0xffff {
            return None;
        }
        let (id, last) = (u32::from_be_bytes([0, head[32], head[33], head[34]]), head[35]);
        let tunnel = &head[28..];
        let mut oam = false;
        let start = match near.kind {
            // Version 0, Ethernet.
            Kind::Geneve if tunnel[0] < 0x40 && word(30) == TEB => {
                oam = tunnel[1] & 0x80 != 0;
                HEADERS + usize::from(tunnel[0]) * 4
            }
            Kind::Vxlan if tunnel[..4] == [8, 0, 0, 0] && last == 0 => HEADERS,
            _ => return None,
        };
        if start + 14 > end {
            return None;
        }
        let remote = *head[12..16].first_chunk::<4>()?;
        if word(26) != 0 && !valid {
            let pseudo = Pseudo::from((Ipv4Addr::from(remote), near.local));
            if pseudo.sum_over(IpProtocol::UDP, packet.get(20..end)?) != 0xffff {
                return None;
            }
        }
        Some(Plain {
            key: Key { remote, id, near: *near },
            tos: head[1],
            ttl: head[8],
            oam,
            start: start as u16,
            end: end as u16,
        })
    }

    /// Writes the descriptor, laid out by this map, to the front of `room`; says how many octets it is. `packet` is what
    /// this was read from.
    #[inline]
    pub fn describe(
        &self,
        packet: &[u8],
        map: &OptionMap,
        room: &mut [u8],
    ) -> Result<usize, Refused> {
        let options = packet.get(HEADERS..self.start.into()).ok_or(Refused::Truncated)?;
        let fields = Fields {
            flags: if self.oam { flags::OAM } else { 0 },
            tos: self.tos,
            ttl: self.ttl,
            id: self.key.id.into(),
            src: Some(self.key.remote.into()),
            dst: Some(self.key.near.local.into()),
            ..Fields::default()
        };
        describe(fields, options, map, room)
    }

    /// The same in general terms.
    pub fn received(&self) -> Received {
        let Plain { key: Key { remote, id, near }, tos, ttl, oam, start, end } = *self;
        let flags = if oam { flags::OAM } else { 0 };
        let fields = Fields { tos, ttl, flags, ..Fields::default() };
        let options = match near.kind {
            Kind::Geneve => HEADERS..start.into(),
            _ => 0..0,
        };
        let inner = usize::from(start)..usize::from(end);
        Received::whole(
            (near.kind, near.udp_port),
            (remote, near.local),
            id,
            fields,
            (options, inner),
        )
    }

    /// Its VNI.
    pub fn id(&self) -> u64 {
        self.key.id.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::headers::{Outgoing, Packet, Path};
    use crate::inner::tests::udp4;
    use crate::table::Table;
    use crate::tests::random::Random;
    use contract::tunnel::LEN;

    /// A packet of a port, from its IP header on.
    fn sent(kind: Kind, csum: bool, random: &mut Random) -> Vec<u8> {
        let config = format!("remote_ip=10.0.0.2,key=flow,csum={csum}");
        let out = Outgoing::new(Config::parse(kind, &config).unwrap());
        let map = OptionMap::new(9, &[(3, 0x102, 0x80, 8), (1, 7, 1, 4)]).unwrap();
        let flags = random.below(2) as u16;
        let present = random.below(16) as u64 & 0b1010;
        let id = random.below(1 << 24) as u64;
        let fields = Fields { map: 9, id, flags, present, ..Fields::default() };
        let mut bytes = [0; LEN];
        fields.write(&mut bytes);
        let inner = udp4(random.below(100) as u16, random.below(256) as u8);
        let frame = [&bytes[..], &[7; 12], &inner].concat();
        let packet = Packet::read(&frame, &map).unwrap();
        let path = Path {
            remote: [10, 0, 0, 2].into(),
            source: [10, 0, 0, 1].into(),
            local_mac: [2; 6],
            next_mac: [4; 6],
            stamp: 0,
        };
        let mut room = [0; crate::headers::HEADERS_MAX];
        let len = out.write(&packet, &path, &mut room).unwrap();
        [&room[14..len], &inner].concat()
    }

    #[test]
    fn what_it_takes_is_the_same_in_the_general_way() {
        let mut random = Random(3);
        let map = OptionMap::new(9, &[(3, 0x102, 0x80, 8), (2, 0x500, 1, 4)]).unwrap();
        let (mut taken, mut left) = (0, 0);
        for n in 0..40_000 {
            let kind = [Kind::Geneve, Kind::Vxlan][n % 2];
            let mut table = Table::default();
            table.add(&Config::parse(kind, "remote_ip=flow").unwrap(), ()).unwrap();
            let mut packet = sent(kind, random.below(2) == 1, &mut random);
            let is_mended = n % 3 > 0;
            for _ in 0..random.below(3) {
                let at = random.below(packet.len().min(60));
                packet[at] = random.below(256) as u8;
            }
            if is_mended {
                // What is damaged otherwise has a right header.
                packet[10..12].fill(0);
                let sum = checksum::checksum(&packet[..20]);
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            packet.truncate(packet.len() - random.below(8) / 6 * random.below(packet.len()));
            packet.extend(vec![0; random.below(3)]);
            let near =
                Near { local: [10, 0, 0, 2].into(), udp_port: kind.udp_port().unwrap(), kind };
            let valid = random.below(2) == 1;
            let Some(plain) = Plain::read(&packet, &near, valid) else {
                left += 1;
                continue;
            };
            taken += 1;
            let general = Received::read(&packet, &table, valid).unwrap().unwrap();
            assert_eq!(plain.received(), general);
            assert_eq!((plain.tos, plain.id()), (general.tos(), general.id));
            let (mut a, mut b) = ([1; 512], [1; 512]);
            let (one, other) =
                (plain.describe(&packet, &map, &mut a), general.describe(&packet, &map, &mut b));
            assert_eq!(one, other);
            if one.is_ok() {
                assert_eq!(a, b);
            }
        }
        assert!(taken > 10_000 && left > 5_000, "{taken} and {left}");
    }
}
