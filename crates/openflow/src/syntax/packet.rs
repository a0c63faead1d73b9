//! A frame from a match, as `ovs-appctl ofproto/trace` makes one.

use super::context::Context;
use super::error::{Fault, SyntaxError};
use super::matches::Builder;
use super::piece::{Piece, Result, Words};
use crate::field::{FieldId, VLAN_PRESENT};
use crate::flow_match::Match;
use crate::version::Version;

/// Bytes of the shortest Ethernet frame, without its check sequence.
const FRAME_MIN: usize = 60;
/// What is taken for fields that the text leaves out: local unicast Ethernet addresses, addresses
/// for documentation (RFC 5737, RFC 3849), a dynamic port towards discard.
const ETH_SRC: u128 = 0x0200_0000_0001;
const ETH_DST: u128 = 0x0200_0000_0002;
const IPV4_SRC: u128 = 0xc000_0201;
const IPV4_DST: u128 = 0xc000_0202;
const IPV6_SRC: u128 = 0x2001_0db8 << 96 | 1;
const IPV6_DST: u128 = 0x2001_0db8 << 96 | 2;
const PORT_SRC: u128 = 49152;
const PORT_DST: u128 = 9;
const TTL: u8 = 64;
/// The hop limit of neighbour discovery (RFC 4861 §7.1).
const TTL_ND: u8 = 255;

/// A packet that a text describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The port that it comes in by, if the text says so.
    pub in_port: Option<u32>,
    /// The frame, at least 60 bytes, checksums and lengths right.
    pub bytes: Vec<u8>,
}

/// Reads a match as `ofproto/trace` takes it and makes a frame with those fields: Ethernet, a VLAN
/// tag, MPLS, ARP, IPv4, IPv6, TCP, UDP, SCTP, ICMP, ICMPv6 with neighbour discovery. Besides a
/// match's words it knows `nw_ttl` and `mpls_ttl`. What is left out gets a plausible value; so do
/// bits outside a mask, which are 0.
///
/// # Errors
/// The first word that is wrong, or that no frame can show.
pub fn parse_packet(text: &str) -> Result<Described> {
    let cx = Context::new(Version::V13);
    let mut words = Words::of(Piece::line(text));
    let mut builder = Builder::new(&cx, &["nw_ttl", "mpls_ttl"]);
    let (mut ttl, mut mpls_ttl) = (None, None);
    while let Some(word) = words.next()? {
        match word.key.text.to_ascii_lowercase().as_str() {
            "nw_ttl" => ttl = Some(word.arg()?.u8()?),
            "mpls_ttl" => mpls_ttl = Some(word.arg()?.u8()?),
            "metadata" | "tun_id" | "tunnel_id" | "in_phy_port" | "ipv6_exthdr" | "pbb_isid" => {
                return Err(word.key.refused("no frame is made with it; leave it out"));
            }
            _ => builder.word(&word)?,
        }
    }
    let matching = builder.finish()?;
    let in_port = matching.exact(FieldId::InPort).map(|port| port as u32);
    let mut bytes = Frame { matching: &matching, ttl, mpls_ttl, bytes: Vec::new() }.build();
    bytes.resize(bytes.len().max(FRAME_MIN), 0);
    // Behind MPLS the walk guesses the network header, as any node does.
    match wire::offload::fill_checksums(&mut bytes) {
        Ok(_) => Ok(Described { in_port, bytes }),
        Err(error) => {
            let why = format!("the frame cannot be finished: {error}");
            Err(SyntaxError::new(0, text, Fault::Refused(why)))
        }
    }
}

struct Frame<'a> {
    matching: &'a Match,
    ttl: Option<u8>,
    mpls_ttl: Option<u8>,
    bytes: Vec<u8>,
}

impl Frame<'_> {
    fn get(&self, id: FieldId, default: u128) -> u128 {
        self.matching.get(id).map_or(default, |field| field.value)
    }

    /// Appends the low `len` bytes of `value`.
    fn put(&mut self, value: u128, len: usize) {
        self.bytes.extend_from_slice(&value.to_be_bytes()[16 - len..]);
    }

    fn field(&mut self, id: FieldId, default: u128, len: usize) {
        self.put(self.get(id, default), len);
    }

    fn build(mut self) -> Vec<u8> {
        self.field(FieldId::EthDst, ETH_DST, 6);
        self.field(FieldId::EthSrc, ETH_SRC, 6);
        let vid = self.get(FieldId::VlanVid, 0);
        if vid & VLAN_PRESENT != 0 || self.matching.has(FieldId::VlanPcp) {
            self.put(0x8100, 2);
            self.put(self.get(FieldId::VlanPcp, 0) << 13 | vid & 0x0fff, 2);
        }
        // A length would make it no Ethernet II frame; 0x05ff is `ovs-ofctl`'s word for that.
        let eth_type = self.get(FieldId::EthType, 0x88b5);
        match eth_type {
            0x0000..=0x05ff => self.put(46, 2),
            eth_type => self.put(eth_type, 2),
        }
        match eth_type {
            0x0800 => self.ipv4(),
            0x86dd => self.ipv6(),
            0x0806 | 0x8035 => self.arp(eth_type),
            0x8847 | 0x8848 => self.mpls(),
            _ => {}
        }
        self.bytes
    }

    fn mpls(&mut self) {
        let bottom = self.get(FieldId::MplsBos, 1);
        let ttl = u128::from(self.mpls_ttl.unwrap_or(TTL));
        let entry = self.get(FieldId::MplsLabel, 16) << 12 | self.get(FieldId::MplsTc, 0) << 9;
        self.put(entry | bottom << 8 | ttl, 4);
        if bottom == 0 {
            self.put(16 << 12 | 1 << 8 | ttl, 4);
        }
        self.ipv4();
    }

    fn arp(&mut self, eth_type: u128) {
        // Ethernet, IPv4, their lengths (RFC 826); a reverse request is 3 (RFC 903).
        self.put(0x0001_0800_0604, 6);
        self.field(FieldId::ArpOp, if eth_type == 0x8035 { 3 } else { 1 }, 2);
        let sender = self.get(FieldId::EthSrc, ETH_SRC);
        self.field(FieldId::ArpSha, sender, 6);
        self.field(FieldId::ArpSpa, IPV4_SRC, 4);
        self.field(FieldId::ArpTha, 0, 6);
        self.field(FieldId::ArpTpa, IPV4_DST, 4);
    }

    fn tos(&self) -> u128 {
        self.get(FieldId::IpDscp, 0) << 2 | self.get(FieldId::IpEcn, 0)
    }

    fn ipv4(&mut self) {
        let start = self.bytes.len();
        // 17 stands for no protocol said, behind IPv4 alone or MPLS.
        let proto = self.get(FieldId::IpProto, 17);
        self.put(0x45 << 8 | self.tos(), 2);
        self.put(0, 2);
        self.put(0, 4);
        self.put(u128::from(self.ttl.unwrap_or(TTL)) << 8 | proto, 2);
        self.put(0, 2);
        self.field(FieldId::Ipv4Src, IPV4_SRC, 4);
        self.field(FieldId::Ipv4Dst, IPV4_DST, 4);
        self.transport(proto);
        self.patch(start + 2, self.bytes.len() - start);
    }

    fn ipv6(&mut self) {
        let start = self.bytes.len();
        let proto = self.get(FieldId::IpProto, 17);
        let discovery = proto == 58 && matches!(self.get(FieldId::Icmpv6Type, 0), 133..=137);
        let ttl = self.ttl.unwrap_or(if discovery { TTL_ND } else { TTL });
        self.put(6 << 28 | self.tos() << 20 | self.get(FieldId::Ipv6Flabel, 0), 4);
        self.put(0, 2);
        self.put(proto << 8 | u128::from(ttl), 2);
        self.field(FieldId::Ipv6Src, IPV6_SRC, 16);
        self.field(FieldId::Ipv6Dst, IPV6_DST, 16);
        self.transport(proto);
        self.patch(start + 4, self.bytes.len() - start - 40);
    }

    fn patch(&mut self, at: usize, length: usize) {
        self.bytes[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
    }

    fn transport(&mut self, proto: u128) {
        let ports = |frame: &mut Self, src, dst| {
            frame.field(src, PORT_SRC, 2);
            frame.field(dst, PORT_DST, 2);
        };
        match proto {
            6 => {
                ports(self, FieldId::TcpSrc, FieldId::TcpDst);
                self.put(0, 8);
                // Five words of header; SYN, as it has no sequence yet; a window.
                self.put(0x5002_ffff, 4);
                self.put(0, 4);
            }
            17 => {
                ports(self, FieldId::UdpSrc, FieldId::UdpDst);
                self.put(8, 2);
                self.put(0, 2);
            }
            132 => {
                ports(self, FieldId::SctpSrc, FieldId::SctpDst);
                self.put(0, 8);
                // One COOKIE ACK chunk (RFC 9260 §3.3.12), the shortest that may stand alone.
                self.put(0x0b00_0004, 4);
            }
            1 => {
                // An echo request, unless said otherwise.
                self.field(FieldId::Icmpv4Type, 8, 1);
                self.field(FieldId::Icmpv4Code, 0, 1);
                self.put(0, 6);
            }
            58 => {
                let kind = self.get(FieldId::Icmpv6Type, 128);
                self.put(kind, 1);
                self.field(FieldId::Icmpv6Code, 0, 1);
                self.put(0, 6);
                if let 135 | 136 = kind {
                    self.field(FieldId::Ipv6NdTarget, IPV6_DST, 16);
                    // Options 1, source, and 2, target address, of one unit of 8 bytes.
                    let (id, option) = match kind {
                        135 => (FieldId::Ipv6NdSll, 1),
                        _ => (FieldId::Ipv6NdTll, 2),
                    };
                    let own = self.get(FieldId::EthSrc, ETH_SRC);
                    self.put(option << 8 | 1, 2);
                    self.field(id, own, 6);
                }
            }
            _ => {}
        }
    }
}
