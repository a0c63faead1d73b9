//! Which connections are to be forgotten: by zone, addresses, ports, mark and label (Open vSwitch's `ct-flush`).
//!
//! What is not said chooses nothing. A whole tuple of the opener's names one connection, by either of its directions and in
//! zone 0 unless a zone is said. Anything less chooses all that agree, in all zones.
//!
//! The text is Open vSwitch's: `zone=5 mark=1/0xf labels=2 ct_nw_src=10.0.0.1,ct_nw_proto=6,ct_tp_dst=80 ct_nw_dst=10.0.0.1`.
//! The first list of fields is the opener's direction, the second the other.

use super::request::Connection;
use super::tuple::Tuple;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::IpProtocol;

/// What connections have to agree with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Their zone.
    pub zone: Option<u16>,
    /// Their protocol; 0 for any.
    pub protocol: u8,
    /// The opener's direction.
    pub original: Ends,
    /// The other.
    pub reply: Ends,
    /// The mark, and which bits of it count.
    pub mark: (u32, u32),
    /// The label, likewise.
    pub label: (u128, u128),
}

/// Addresses and ports of one direction; 0 and none for any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// From this address.
    pub src: Option<IpAddr>,
    /// To this one.
    pub dst: Option<IpAddr>,
    /// From this port.
    pub src_port: u16,
    /// To this one.
    pub dst_port: u16,
    /// ICMP's identifier, type and code. They count if one of them is not 0.
    pub icmp: (u16, u8, u8),
}

impl Ends {
    fn says_nothing(&self) -> bool {
        *self == Ends::default()
    }

    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        [self.src, self.dst].into_iter().flatten()
    }

    /// All of a tuple is said.
    fn is_whole(&self, protocol: u8) -> bool {
        let ports = is_icmp(protocol) || (self.src_port != 0 && self.dst_port != 0);
        self.src.is_some() && self.dst.is_some() && ports
    }

    fn fits(&self, protocol: u8, tuple: &Tuple) -> bool {
        let has = |wanted: Option<IpAddr>, bits: u128| {
            wanted.is_none_or(|address| address == address_of(tuple.v6, bits))
        };
        let ports = match is_icmp(protocol) {
            true => self.icmp == (0, 0, 0) || tuple.message() == Some(self.icmp),
            false => {
                (self.src_port == 0 || self.src_port == tuple.src_port)
                    && (self.dst_port == 0 || self.dst_port == tuple.dst_port)
            }
        };
        has(self.src, tuple.src) && has(self.dst, tuple.dst) && ports
    }

    /// Of a whole tuple also what is 0 counts.
    fn is(&self, protocol: u8, tuple: &Tuple) -> bool {
        self.fits(protocol, tuple)
            && (!is_icmp(protocol) || tuple.message().is_none_or(|message| message == self.icmp))
    }
}

fn is_icmp(protocol: u8) -> bool {
    matches!(IpProtocol(protocol), IpProtocol::ICMP | IpProtocol::ICMPV6)
}

fn address_of(v6: bool, bits: u128) -> IpAddr {
    match v6 {
        true => Ipv6Addr::from(bits).into(),
        false => Ipv4Addr::from(bits as u32).into(),
    }
}

impl Selection {
    /// All connections of a zone, or of all.
    pub fn zone(zone: Option<u16>) -> Selection {
        Selection { zone, ..Selection::default() }
    }

    /// Nothing is said but the zone.
    pub fn is_zone_only(&self) -> bool {
        *self == Selection::zone(self.zone)
    }

    /// Addresses of both IP versions are named, so no connection agrees.
    pub fn mixes_versions(&self) -> bool {
        let mut all = self.original.addresses().chain(self.reply.addresses());
        let first = all.next();
        first.is_some_and(|first| all.any(|other| other.is_ipv4() != first.is_ipv4()))
    }

    /// A whole tuple of the opener's and nothing more.
    fn names_one(&self) -> bool {
        self.original.is_whole(self.protocol)
            && self.reply.says_nothing()
            && (self.mark.1, self.label.1) == (0, 0)
    }

    /// Whether a connection is one of them.
    pub fn takes(&self, connection: &Connection) -> bool {
        let Connection { original, reply, mark, label, .. } = connection;
        let protocol = original.protocol.0;
        if self.protocol != 0 && self.protocol != protocol {
            return false;
        }
        if self.names_one() {
            let is = |tuple| self.original.is(self.protocol, tuple);
            return original.zone == self.zone.unwrap_or(0) && (is(original) || is(reply));
        }
        self.zone.is_none_or(|zone| zone == original.zone)
            && self.original.fits(self.protocol, original)
            && self.reply.fits(self.protocol, reply)
            && (mark ^ self.mark.0) & self.mark.1 == 0
            && (label ^ self.label.0) & self.label.1 == 0
    }

    /// Reads the words of a command.
    ///
    /// # Errors
    /// What is wrong with which word.
    pub fn parse(words: &[&str]) -> Result<Selection, String> {
        let mut read = Selection::default();
        let mut rest = words;
        if let Some(zone) = next(&mut rest, "zone=") {
            let wrong =
                |_| format!("failed to parse zone {zone}: a number up to 65535 was expected");
            read.zone = Some(zone.parse().map_err(wrong)?);
        }
        if let Some(text) = next(&mut rest, "mark=") {
            let (mark, mask) = masked(text, u32::MAX.into())
                .ok_or_else(|| format!("failed to parse mark {text}: M or M/MASK was expected"))?;
            read.mark = (mark as u32, mask as u32);
        }
        if let Some(text) = next(&mut rest, "labels=") {
            read.label = masked(text, u128::MAX).ok_or_else(|| {
                format!("failed to parse labels {text}: L or L/MASK was expected")
            })?;
        }
        for direction in 0..2 {
            let Some(fields) = next(&mut rest, "") else { break };
            read.fields(direction == 1, fields)?;
        }
        match next(&mut rest, "") {
            None => Ok(read),
            Some(word) => Err(format!(
                "invalid arguments: {word} comes after what may be said (zone=, mark=, labels=, two tuples)"
            )),
        }
    }

    fn fields(&mut self, reply: bool, text: &str) -> Result<(), String> {
        let mut seen = Vec::new();
        for field in text.split([',', ' ']).filter(|field| !field.is_empty()) {
            let (key, value) = field.split_once('=').unwrap_or((field, ""));
            if value.is_empty() {
                return Err(format!("field {key} missing value"));
            }
            if seen.contains(&key) {
                return Err(format!("{key} is set multiple times"));
            }
            seen.push(key);
            let wrong = || format!("failed to parse field {key}: {value}");
            let small = || value.parse::<u8>().map_err(|_| wrong());
            let number = || value.parse::<u16>().map_err(|_| wrong());
            let ends = if reply { &mut self.reply } else { &mut self.original };
            match key {
                "ct_nw_src" | "ct_nw_dst" => {
                    let address: Ipv4Addr = value.parse().map_err(|_| wrong())?;
                    let place = if key.ends_with("src") { &mut ends.src } else { &mut ends.dst };
                    *place = Some(address.into());
                }
                "ct_ipv6_src" | "ct_ipv6_dst" => {
                    let address: Ipv6Addr = value.parse().map_err(|_| wrong())?;
                    let place = if key.ends_with("src") { &mut ends.src } else { &mut ends.dst };
                    *place = Some(address.into());
                }
                "ct_nw_proto" => {
                    let protocol = small()?;
                    if self.protocol != 0 && self.protocol != protocol {
                        return Err("ct_nw_proto differs between the two directions".to_owned());
                    }
                    self.protocol = protocol;
                }
                "ct_tp_src" => ends.src_port = number()?,
                "ct_tp_dst" => ends.dst_port = number()?,
                "icmp_id" => ends.icmp.0 = number()?,
                "icmp_type" => ends.icmp.1 = small()?,
                "icmp_code" => ends.icmp.2 = small()?,
                _ => return Err(format!("invalid conntrack tuple field: {key}")),
            }
        }
        self.check(reply)
    }

    fn check(&self, reply: bool) -> Result<(), String> {
        let ends = if reply { &self.reply } else { &self.original };
        if self.mixes_versions() {
            return Err("the L3 protocol does not match: addresses are of IPv4 and IPv6".to_owned());
        }
        if ends.icmp != (0, 0, 0) && !is_icmp(self.protocol) {
            return Err("invalid L4 fields: icmp_* needs ct_nw_proto=1 or 58".to_owned());
        }
        match self.protocol == 0 && (ends.src_port, ends.dst_port) != (0, 0) {
            true => Err("port is set without protocol".to_owned()),
            false => Ok(()),
        }
    }
}

/// What follows `key` in the next word, if it begins so; the word is taken.
fn next<'a>(words: &mut &[&'a str], key: &str) -> Option<&'a str> {
    let (first, rest) = words.split_first()?;
    let value = first.strip_prefix(key)?;
    *words = rest;
    Some(value)
}

/// A number, and a mask behind `/`; one of all bits if there is none.
fn masked(text: &str, ones: u128) -> Option<(u128, u128)> {
    let number = |text: &str| {
        let read = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u128::from_str_radix(digits, 16),
            None => text.parse(),
        };
        read.ok().filter(|number| number & !ones == 0)
    };
    match text.split_once('/') {
        None => Some((number(text)?, ones)),
        Some((value, mask)) => Some((number(value)?, number(mask)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tuple::Role;
    use super::*;

    fn tuple(protocol: IpProtocol, zone: u16, from: (u8, u16), to: (u8, u16)) -> Tuple {
        let address = |n: u8| 0x0a00_0000 | u128::from(n);
        let (src, dst) = (address(from.0), address(to.0));
        let role = if is_icmp(protocol.0) { Role::Request } else { Role::Any };
        Tuple { src, dst, src_port: from.1, dst_port: to.1, zone, protocol, v6: false, role }
    }

    fn connection(original: Tuple, mark: u32, label: u128) -> Connection {
        let (tcp, sctp, replied, assured) = (None, None, false, false);
        let reply = original.inverted();
        Connection {
            original,
            reply,
            mark,
            label,
            tcp,
            sctp,
            replied,
            assured,
            timeout: 9,
            account: None,
        }
    }

    fn takes(words: &[&str], of: &Connection) -> bool {
        Selection::parse(words).expect("they are right").takes(of)
    }

    #[test]
    fn what_is_not_said_chooses_nothing() {
        let one = connection(tuple(IpProtocol::UDP, 5, (1, 10), (2, 20)), 0xaa, 3 << 64);
        for words in [
            &[][..],
            &["zone=5"],
            &["mark=0xaa"],
            &["mark=2/2"],
            &["labels=0x30000000000000000"],
            &["zone=5", "mark=170", "ct_nw_src=10.0.0.1"],
            &["ct_nw_proto=17,ct_tp_src=10"],
            &["ct_nw_dst=10.0.0.2"],
            &["", "ct_nw_src=10.0.0.2"],
            &["", "ct_nw_src=10.0.0.2,ct_nw_proto=17,ct_tp_dst=10"],
        ] {
            assert!(takes(words, &one), "{words:?}");
        }
        for words in [
            &["zone=6"][..],
            &["mark=0xab"],
            &["labels=1"],
            &["ct_nw_src=10.0.0.2"],
            &["ct_nw_proto=6"],
            &["ct_nw_proto=17,ct_tp_src=20"],
            &["ct_ipv6_src=fd00::1"],
            &["", "ct_nw_src=10.0.0.1"],
        ] {
            assert!(!takes(words, &one), "{words:?}");
        }
    }

    #[test]
    fn a_whole_tuple_is_one_connection_by_either_direction_in_zone_0() {
        let forth =
            "ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=17,ct_tp_src=10,ct_tp_dst=20";
        let back = "ct_nw_src=10.0.0.2,ct_nw_dst=10.0.0.1,ct_nw_proto=17,ct_tp_src=20,ct_tp_dst=10";
        let of = |zone| connection(tuple(IpProtocol::UDP, zone, (1, 10), (2, 20)), 0, 0);
        for words in [forth, back] {
            assert!(takes(&[words], &of(0)) && !takes(&[words], &of(5)));
            assert!(takes(&["zone=5", words], &of(5)) && !takes(&["zone=5", words], &of(0)));
        }
        // With a mark it is one condition among others.
        assert!(takes(&["mark=0", forth], &of(5)) && !takes(&["mark=0", back], &of(5)));
    }

    #[test]
    fn pings_are_chosen_by_identifier_type_and_code() {
        let ping = connection(tuple(IpProtocol::ICMP, 0, (1, 77), (2, 8 << 8)), 0, 0);
        let ends = "ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=1";
        let whole = |id, kind| format!("{ends},icmp_id={id},icmp_type={kind},icmp_code=0");
        assert!(takes(&[&whole(77, 8)], &ping));
        assert!(!takes(&[&whole(78, 8)], &ping) && !takes(&[&whole(77, 0)], &ping));
        let answer = "ct_nw_src=10.0.0.2,ct_nw_dst=10.0.0.1,ct_nw_proto=1,icmp_id=77,icmp_type=0,icmp_code=0";
        assert!(takes(&[answer], &ping) && takes(&["", answer], &ping));
        assert!(
            takes(&["ct_nw_proto=1"], &ping) && takes(&["ct_nw_src=10.0.0.1,ct_nw_proto=1"], &ping)
        );
    }

    #[test]
    fn wrong_words_are_refused() {
        let said = |words: &[&str]| Selection::parse(words).expect_err("it is wrong");
        assert!(said(&["zone=invalid"]).contains("failed to parse zone"));
        assert!(said(&["zone=65536"]).contains("failed to parse zone"));
        assert!(said(&["mark=x"]).contains("failed to parse mark"));
        assert!(said(&["mark=0x100000000"]).contains("failed to parse mark"));
        assert!(said(&["labels=1/"]).contains("failed to parse labels"));
        assert_eq!(said(&["invalid=1"]), "invalid conntrack tuple field: invalid");
        assert_eq!(said(&["ct_nw_src"]), "field ct_nw_src missing value");
        assert!(said(&["ct_nw_src=x"]).contains("failed to parse field ct_nw_src"));
        assert!(said(&["ct_nw_src=10.0.0.1,ct_nw_src=10.0.0.2"]).contains("multiple times"));
        assert!(said(&["ct_nw_src=10.0.0.1,ct_ipv6_dst=::1"]).contains("L3 protocol"));
        assert!(said(&["ct_nw_src=10.0.0.1", "ct_ipv6_dst=::1"]).contains("L3 protocol"));
        assert!(said(&["ct_tp_src=1"]).contains("without protocol"));
        assert!(said(&["ct_nw_proto=6,icmp_id=1"]).contains("L4 fields"));
        assert!(said(&["", "", "more"]).contains("invalid arguments"));
        assert!(said(&["mark=1", "zone=1"]).contains("field: zone"));
    }
}
