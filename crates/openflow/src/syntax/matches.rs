//! Matches: field words and protocol shorthands.
//!
//! Some words mean a field that depends on the rest of the match (`nw_src` is `arp_spa` behind
//! `arp`, `tp_src` a TCP, UDP, SCTP port or an ICMP type); they are settled when the whole match
//! has been read, so the order of words does not matter.

use super::context::Context;
use super::error::{Fault, SyntaxError, nearest};
use super::piece::{Piece, Result, Word, Words};
use super::value;
use crate::field::{FIELDS, FieldId, PROTOCOL_RANK, VLAN_PRESENT};
use crate::flow_match::{Match, MatchField};
use crate::version::Version;
use std::fmt::{self, Write};

const VID_BITS: u128 = 0x0fff;
const IPV4: u128 = 0x0800;
const IPV6: u128 = 0x86dd;

/// Protocol shorthands: the word, the Ethernet type, the IP protocol.
const SHORTHANDS: &[(&str, u128, Option<u128>)] = &[
    ("ip", IPV4, None),
    ("ipv4", IPV4, None),
    ("ip4", IPV4, None),
    ("icmp", IPV4, Some(1)),
    ("tcp", IPV4, Some(6)),
    ("udp", IPV4, Some(17)),
    ("sctp", IPV4, Some(132)),
    ("arp", 0x0806, None),
    ("rarp", 0x8035, None),
    ("ipv6", IPV6, None),
    ("ip6", IPV6, None),
    ("icmp6", IPV6, Some(58)),
    ("tcp6", IPV6, Some(6)),
    ("udp6", IPV6, Some(17)),
    ("sctp6", IPV6, Some(132)),
    ("mpls", 0x8847, None),
    ("mplsm", 0x8848, None),
];

/// Words whose field depends on the match, or whose values are not the field's.
const SPECIAL: &[&str] = &[
    "nw_src",
    "nw_dst",
    "nw_proto",
    "tp_src",
    "tp_dst",
    "icmp_type",
    "icmp_code",
    "nw_tos",
    "dl_vlan",
    "vlan_tci",
];

/// Fields that are only in Open vSwitch's extensions, or not in any version read here.
const EXTENSIONS: &[&str] = &[
    "mpls_ttl",
    "skb_priority",
    "conj_id",
    "recirc_id",
    "dp_hash",
    "vlan_tci1",
    "dl_vlan1",
    "dl_vlan_pcp1",
    "nd_reserved",
    "nd_options_type",
    "tunnel_src",
    "tunnel_dst",
];

/// Beginnings of the same.
const EXTENSION_PREFIXES: &[&str] =
    &["nxm_", "nxoxm_", "erspan_", "xreg", "xxreg", "ct_", "tun_", "nsh_"];

fn is_extension(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let numbered = |prefix: &str| match word.strip_prefix(prefix) {
        // `reg` is one only with a number.
        Some(tail) => !prefix.ends_with("reg") || tail.parse::<u8>().is_ok(),
        None => false,
    };
    EXTENSIONS.contains(&word.as_str()) || EXTENSION_PREFIXES.iter().any(|p| numbered(p))
}

/// Every word that a match may have.
fn known() -> impl Iterator<Item = &'static str> {
    let fields = FIELDS.iter().flat_map(|info| info.ofctl.iter().copied());
    fields.chain(SPECIAL.iter().copied()).chain(SHORTHANDS.iter().map(|(word, ..)| *word))
}

/// A number of so many bits.
fn wide_number(piece: Piece<'_>, bits: usize) -> Result<u128> {
    let text = piece.text.to_ascii_lowercase();
    let number = match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let fits = |number: &u128| bits == 128 || *number >> bits == 0;
    let number = number.ok().filter(fits);
    number.ok_or_else(|| piece.expected(format!("a number of {bits} bits")))
}

/// The error of a name that is no field's.
pub(crate) fn unknown_field(name: Piece<'_>) -> SyntaxError {
    if is_extension(name.text) {
        return name.error(Fault::Extension);
    }
    let nearest = nearest(name.text, FIELDS.iter().flat_map(|info| info.ofctl.iter().copied()));
    name.error(Fault::Unknown { what: "field", nearest })
}

/// Reads a match.
///
/// # Errors
/// The first word that is wrong, or that the version cannot say.
pub fn parse_match(text: &str, cx: &Context<'_>) -> Result<Match> {
    let mut words = Words::of(Piece::line(text));
    let mut builder = Builder::new(cx, &[]);
    while let Some(word) = words.next()? {
        builder.word(&word)?;
    }
    builder.finish()
}

/// A match while its words are read.
pub(super) struct Builder<'c, 'a> {
    cx: &'c Context<'c>,
    /// Further words that are known where this match stands, for the nearest one.
    others: &'static [&'static str],
    matching: Match,
    /// Who said which field.
    said: Vec<(FieldId, Piece<'a>)>,
    later: Vec<(&'static str, Word<'a>)>,
}

impl<'c, 'a> Builder<'c, 'a> {
    pub(super) fn new(cx: &'c Context<'c>, others: &'static [&'static str]) -> Builder<'c, 'a> {
        Builder { cx, others, matching: Match::new(), said: Vec::new(), later: Vec::new() }
    }

    /// Takes one word.
    pub(super) fn word(&mut self, word: &Word<'a>) -> Result<()> {
        if let Some((_, eth_type, proto)) = SHORTHANDS.iter().find(|(w, ..)| word.key.is(w)) {
            word.bare()?;
            self.exact(word.key, FieldId::EthType, *eth_type)?;
            return match proto {
                Some(proto) => self.exact(word.key, FieldId::IpProto, *proto),
                None => Ok(()),
            };
        }
        if let Some(special) = SPECIAL.iter().find(|w| word.key.is(w)) {
            return match *special {
                "nw_tos" => self.nw_tos(word),
                "dl_vlan" => self.dl_vlan(word),
                "vlan_tci" => self.vlan_tci(word),
                special => {
                    word.arg()?;
                    self.later.push((special, *word));
                    Ok(())
                }
            };
        }
        match FieldId::from_name(word.key.text) {
            Some(FieldId::VlanTci) => self.vlan_tci(word),
            Some(FieldId::IpTos) => self.nw_tos(word),
            Some(id) => match id.registers() {
                Some((first, count)) => self.registers(word, first, count),
                None => self.field(word, id),
            },
            None if is_extension(word.key.text) => Err(word.extension()),
            None => Err(self.unknown(word.key)),
        }
    }

    fn unknown(&self, key: Piece<'_>) -> SyntaxError {
        let nearest = nearest(key.text, self.others.iter().copied().chain(known()));
        key.error(Fault::Unknown { what: "field", nearest })
    }

    fn field(&mut self, word: &Word<'a>, id: FieldId) -> Result<()> {
        if id.info().since > self.cx.version && self.cx.version > Version::V10 {
            return Err(word.not_in(self.cx.version, "field"));
        }
        let (value, mask) = value::parse(id, word.arg()?, self.cx)?;
        self.set(word.whole, id, value, mask)
    }

    /// Several registers at once, of which the first is the highest.
    fn registers(&mut self, word: &Word<'a>, first: usize, count: usize) -> Result<()> {
        let bits = 32 * count;
        let (value, mask) = match word.arg()?.split_once("/") {
            Some((value, mask)) => (wide_number(value, bits)?, wide_number(mask, bits)?),
            None => (wide_number(word.arg()?, bits)?, u128::MAX >> (128 - bits)),
        };
        for i in 0..count {
            let part = |all: u128| all >> (32 * (count - 1 - i)) & 0xffff_ffff;
            let id = FieldId::register(first + i);
            if part(mask) != 0 {
                self.set(word.whole, id, part(value & mask), part(mask))?;
            }
        }
        Ok(())
    }

    fn exact(&mut self, piece: Piece<'a>, id: FieldId, value: u128) -> Result<()> {
        self.set(piece, id, value, id.all_bits())
    }

    fn set(&mut self, piece: Piece<'a>, id: FieldId, value: u128, mask: u128) -> Result<()> {
        let field = MatchField::masked(id, value, mask)
            .map_err(|error| piece.error(Fault::Match(error)))?;
        if self.cx.version == Version::V10 && mask != 0 && !in_v10(&field) {
            let what = if field.is_exact() { "field" } else { "mask" };
            return Err(piece.error(Fault::NotIn { version: Version::V10, what }));
        }
        match self.matching.get(id) {
            // Shorthands repeat what others said.
            Some(old) if *old == field => Ok(()),
            Some(_) => Err(piece.error(Fault::Twice)),
            None => {
                self.matching.set_masked(id, value, mask);
                self.said.push((id, piece));
                Ok(())
            }
        }
    }

    fn nw_tos(&mut self, word: &Word<'a>) -> Result<()> {
        let arg = word.arg()?;
        match arg.u8()? {
            tos if tos & 3 == 0 => self.exact(word.whole, FieldId::IpDscp, (tos >> 2).into()),
            _ => Err(arg.expected("a type of service whose two low bits are 0")),
        }
    }

    fn dl_vlan(&mut self, word: &Word<'a>) -> Result<()> {
        let arg = word.arg()?;
        match arg.u16()? {
            0xffff => self.exact(word.whole, FieldId::VlanVid, 0),
            vid @ 0..=0x0fff => {
                self.exact(word.whole, FieldId::VlanVid, u128::from(vid) | VLAN_PRESENT)
            }
            _ => Err(arg.expected("a VLAN id from 0 to 4095, or 0xffff for no tag")),
        }
    }

    /// The tag's 16 bits, of which 0x1000 says that there is one.
    fn vlan_tci(&mut self, word: &Word<'a>) -> Result<()> {
        let arg = word.arg()?;
        let (tci, mask) = match arg.split_once("/") {
            Some((tci, mask)) => (tci.number(16)?, mask.number(16)?),
            None => (arg.number(16)?, 0xffff),
        };
        let tci = u128::from(tci & mask);
        let mask = u128::from(mask);
        let no_tag = mask & VLAN_PRESENT != 0 && tci & VLAN_PRESENT == 0;
        if no_tag && tci != 0 {
            return Err(arg.expected("a tag with bit 0x1000, or 0 for no tag"));
        }
        self.set(word.whole, FieldId::VlanVid, tci & 0x1fff, mask & 0x1fff)?;
        match mask >> 13 {
            0 => Ok(()),
            _ if no_tag => Ok(()),
            mask => self.set(word.whole, FieldId::VlanPcp, tci >> 13, mask),
        }
    }

    /// Settles the words that depend on others; checks that every field has what it needs.
    pub(super) fn finish(mut self) -> Result<Match> {
        let later = std::mem::take(&mut self.later);
        // The ports depend on the protocol.
        let (protocols, others): (Vec<_>, Vec<_>) =
            later.into_iter().partition(|(special, _)| *special == "nw_proto");
        for (special, word) in protocols.iter().chain(&others) {
            let id = self.settle(special, word)?;
            self.field(word, id)?;
        }
        if self.matching.has(FieldId::VlanPcp) && !self.matching.has(FieldId::VlanVid) {
            self.matching.set_masked(FieldId::VlanVid, VLAN_PRESENT, VLAN_PRESENT);
        }
        for (id, piece) in &self.said {
            self.matching
                .check_prerequisites(*id)
                .map_err(|error| piece.error(Fault::Match(error)))?;
        }
        if self.cx.version == Version::V10
            && !self.matching.has(FieldId::VlanPcp)
            && let Some(vid) = self.matching.get(FieldId::VlanVid)
            && !vid.is_exact()
            && let Some((_, piece)) = self.said.iter().find(|(id, _)| *id == FieldId::VlanVid)
        {
            return Err(piece.error(Fault::NotIn { version: Version::V10, what: "mask" }));
        }
        Ok(self.matching)
    }

    fn settle(&self, special: &str, word: &Word<'_>) -> Result<FieldId> {
        let eth_type = self.matching.exact(FieldId::EthType);
        let arp = matches!(eth_type, Some(0x0806 | 0x8035));
        let ports = match (eth_type, self.matching.exact(FieldId::IpProto)) {
            (Some(IPV4 | IPV6), Some(6)) => Some((FieldId::TcpSrc, FieldId::TcpDst)),
            (Some(IPV4 | IPV6), Some(17)) => Some((FieldId::UdpSrc, FieldId::UdpDst)),
            (Some(IPV4 | IPV6), Some(132)) => Some((FieldId::SctpSrc, FieldId::SctpDst)),
            (Some(IPV4), Some(1)) => Some((FieldId::Icmpv4Type, FieldId::Icmpv4Code)),
            (Some(IPV6), Some(58)) => Some((FieldId::Icmpv6Type, FieldId::Icmpv6Code)),
            _ => None,
        };
        let port = |pick: fn((FieldId, FieldId)) -> FieldId| {
            ports.map(pick).ok_or_else(|| {
                word.whole.refused("it needs tcp, udp, sctp or icmp, for IPv4 or IPv6, beside it")
            })
        };
        match special {
            "nw_src" if arp => Ok(FieldId::ArpSpa),
            "nw_dst" if arp => Ok(FieldId::ArpTpa),
            "nw_proto" if arp => Ok(FieldId::ArpOp),
            "nw_src" => Ok(FieldId::Ipv4Src),
            "nw_dst" => Ok(FieldId::Ipv4Dst),
            "nw_proto" => Ok(FieldId::IpProto),
            "icmp_type" if eth_type == Some(IPV6) => Ok(FieldId::Icmpv6Type),
            "icmp_code" if eth_type == Some(IPV6) => Ok(FieldId::Icmpv6Code),
            "icmp_type" => Ok(FieldId::Icmpv4Type),
            "icmp_code" => Ok(FieldId::Icmpv4Code),
            "tp_src" => port(|(src, _)| src),
            _ => port(|(_, dst)| dst),
        }
    }
}

/// Whether 1.0's match can say the field so.
fn in_v10(field: &MatchField) -> bool {
    match field.id {
        FieldId::InPort
        | FieldId::EthDst
        | FieldId::EthSrc
        | FieldId::EthType
        | FieldId::VlanPcp
        | FieldId::IpDscp
        | FieldId::IpProto
        | FieldId::TcpSrc
        | FieldId::TcpDst
        | FieldId::UdpSrc
        | FieldId::UdpDst
        | FieldId::SctpSrc
        | FieldId::SctpDst
        | FieldId::Icmpv4Type
        | FieldId::Icmpv4Code
        | FieldId::Icmpv6Type
        | FieldId::Icmpv6Code => field.is_exact(),
        FieldId::VlanVid => field.is_exact() || field.mask == VLAN_PRESENT,
        FieldId::ArpOp => field.is_exact() && field.value <= 0xff,
        FieldId::Ipv4Src | FieldId::Ipv4Dst | FieldId::ArpSpa | FieldId::ArpTpa => {
            let mask = field.mask as u32;
            mask.leading_ones() + mask.trailing_zeros() >= 32
        }
        _ => false,
    }
}

/// Prints a match as `ovs-ofctl` does; nothing for the match of every packet.
pub fn print_match(matching: &Match, version: Version) -> String {
    text(|out| Printer { out, first: true, matching, version }.all())
}

/// What a writer writes.
pub(crate) fn text(write: impl FnOnce(&mut dyn Write) -> fmt::Result) -> String {
    let mut text = String::new();
    // Writing to a string always goes well.
    let _ = write(&mut text);
    text
}

/// Fields that a match may have.
const PRINTED_LEN: usize = {
    let (mut count, mut i) = (0, 0);
    while i < FIELDS.len() {
        count += (FIELDS[i].rank != 0) as usize;
        i += 1;
    }
    count
};

/// Those of them that come before the protocol.
const BEFORE_PROTOCOL: usize = {
    let mut count = 0;
    while FIELDS[PRINTED[count] as usize].rank < PROTOCOL_RANK {
        count += 1;
    }
    count
};

/// The fields that a match may have, in the order of `ovs-ofctl`.
const PRINTED: [FieldId; PRINTED_LEN] = {
    let mut sorted = [FieldId::InPort; PRINTED_LEN];
    let (mut len, mut i) = (0, 0);
    while i < FIELDS.len() {
        if FIELDS[i].rank != 0 {
            // Into its place among those that are there.
            let mut at = len;
            while at > 0 && FIELDS[sorted[at - 1] as usize].rank > FIELDS[i].rank {
                sorted[at] = sorted[at - 1];
                at -= 1;
            }
            sorted[at] = FIELDS[i].id;
            len += 1;
        }
        i += 1;
    }
    sorted
};

/// The name that a printed match has for a field.
fn printed_name(id: FieldId) -> &'static str {
    match id {
        FieldId::TcpSrc | FieldId::UdpSrc | FieldId::SctpSrc => "tp_src",
        FieldId::TcpDst | FieldId::UdpDst | FieldId::SctpDst => "tp_dst",
        FieldId::Icmpv6Type => "icmp_type",
        FieldId::Icmpv6Code => "icmp_code",
        FieldId::IpFrag => "nw_frag",
        id => id.info().ofctl[0],
    }
}

/// Writes fields in the order of `ovs-ofctl`, with commas between.
struct Printer<'a> {
    out: &'a mut dyn Write,
    first: bool,
    matching: &'a Match,
    version: Version,
}

impl Printer<'_> {
    fn comma(&mut self) -> fmt::Result {
        if std::mem::replace(&mut self.first, false) { Ok(()) } else { self.out.write_char(',') }
    }

    fn field(&mut self, id: FieldId) -> fmt::Result {
        let Some(field) = self.matching.get(id) else { return Ok(()) };
        self.comma()?;
        write!(self.out, "{}=", printed_name(id))?;
        value::print(self.out, id, field.value, field.mask)
    }

    fn all(mut self) -> fmt::Result {
        let eth_type = self.matching.exact(FieldId::EthType);
        let proto = self.matching.exact(FieldId::IpProto);
        // Shorthands of the same meaning: the first is the one to print.
        let shorthand = |proto| SHORTHANDS.iter().find(|s| Some(s.1) == eth_type && s.2 == proto);
        let with_proto = proto.and_then(|_| shorthand(proto));
        let (before, behind) = PRINTED.split_at(BEFORE_PROTOCOL);
        before.iter().try_for_each(|id| self.field(*id))?;
        if let Some((word, ..)) = with_proto.or_else(|| shorthand(None)) {
            self.comma()?;
            self.out.write_str(word)?;
        } else if eth_type.is_none() && proto.is_some() {
            self.field(FieldId::IpProto)?;
        }
        for id in behind.iter().filter(|id| self.matching.has(**id)).copied() {
            match id {
                FieldId::VlanVid => self.vlan()?,
                // Said with the id.
                FieldId::VlanPcp if self.matching.has(FieldId::VlanVid) => {}
                FieldId::VlanPcp => self.vlan()?,
                // A shorthand has said it, or what comes in its place.
                FieldId::EthType if shorthand(None).is_some() => {}
                FieldId::IpProto if with_proto.is_some() || eth_type.is_none() => {}
                FieldId::IpDscp => {
                    if let Some(dscp) = self.matching.exact(FieldId::IpDscp) {
                        self.comma()?;
                        write!(self.out, "nw_tos={}", dscp << 2)?;
                    }
                }
                id => self.field(id)?,
            }
        }
        Ok(())
    }

    fn vlan(&mut self) -> fmt::Result {
        let vid = self.matching.get(FieldId::VlanVid).map_or((0, 0), |f| (f.value, f.mask));
        let pcp = self.matching.get(FieldId::VlanPcp).map_or((0, 0), |f| (f.value, f.mask));
        let (value, mask) = (vid.0 | pcp.0 << 13, vid.1 | pcp.1 << 13);
        if mask == 0 {
            return Ok(());
        }
        self.comma()?;
        let tagged = vid.0 & VLAN_PRESENT != 0;
        let whole = matches!(vid.1 & VID_BITS, 0 | VID_BITS);
        if tagged && whole && mask != VLAN_PRESENT {
            if vid.1 & VID_BITS != 0 {
                write!(self.out, "dl_vlan={}", vid.0 & VID_BITS)?;
                if pcp.1 != 0 {
                    self.comma()?;
                }
            }
            if pcp.1 != 0 {
                write!(self.out, "dl_vlan_pcp={}", pcp.0)?;
            }
            return Ok(());
        }
        let none_in_v10 = self.version == Version::V10 && vid == (0, 0x1fff);
        if mask == 0xffff || none_in_v10 {
            write!(self.out, "vlan_tci=0x{value:04x}")
        } else {
            write!(self.out, "vlan_tci=0x{value:04x}/0x{mask:04x}")
        }
    }
}
