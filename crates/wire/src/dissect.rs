//! A walk over everything in a frame, tunnels included, for people to read.
//!
//! [`dissect`] yields one [`Layer`] per header: its name, where it lies, what it says in a few
//! words, and all its fields. It goes on until it meets data, or a header that cannot be read, and
//! then says why. Lengths that lie are clamped, so that a frame cut short by a capture still
//! prints as far as it goes.
//!
//! Invariants: every layer but the last takes at least 4 octets, and there are at most
//! [`LAYERS_MAX`].
//! Cost: allocates freely; for traces, not for the packet path.

use std::fmt::Write;

use crate::bytes::{Field, span};
use crate::checksum::Pseudo;
use crate::{Error, EtherType, IpProtocol, arp, ethernet, geneve, gre, gtpu, icmpv4, icmpv6};
use crate::{ipv4, ipv6, mpls, ndp, pbb, sctp, tcp, udp, vlan, vxlan};

/// Most layers that are printed of a frame; a stack of thousands of labels says no more.
pub(crate) const LAYERS_MAX: usize = 64;

/// A header that was found.
pub(crate) struct Layer {
    /// Its protocol.
    pub(crate) name: &'static str,
    /// Where it begins in the frame.
    pub(crate) from: usize,
    /// Where it ends.
    pub(crate) to: usize,
    /// What it says, in a few words.
    pub(crate) brief: String,
    /// Its fields, in order.
    pub(crate) fields: Vec<(&'static str, String)>,
}

/// What a frame was found to hold.
pub(crate) struct Dissection {
    /// Its headers, outermost first.
    pub(crate) layers: Vec<Layer>,
    /// Where the data after the last header lies.
    pub(crate) data: (usize, usize),
    /// Why the walk stopped before the data, if it did.
    pub(crate) stopped: Option<Error>,
}

/// What comes next.
#[derive(Clone, Copy)]
enum Next {
    Ethernet,
    Type(EtherType),
    Ip(IpProtocol, Option<Pseudo>),
    Vxlan,
    Geneve,
    Gtpu,
    /// An IP packet whose version is in its first nibble, possibly cut short.
    AnyIp,
    Data,
}

struct Walk<'a> {
    frame: &'a [u8],
    /// What is left to read.
    at: usize,
    end: usize,
    next: Next,
    layers: Vec<Layer>,
}

/// Walks over `frame`.
pub(crate) fn dissect(frame: &[u8]) -> Dissection {
    let mut walk =
        Walk { frame, at: 0, end: frame.len(), next: Next::Ethernet, layers: Vec::new() };
    let mut stopped = None;
    while walk.layers.len() < LAYERS_MAX && !matches!(walk.next, Next::Data) {
        if let Err(error) = walk.step() {
            stopped = Some(error);
            break;
        }
    }
    Dissection { layers: walk.layers, data: (walk.at, walk.end), stopped }
}

macro_rules! texts {
    ($($name:literal: $value:expr),* $(,)?) => { vec![$(($name, $value.to_string())),*] };
}

fn verdict(right: bool, partial: bool) -> &'static str {
    match (right, partial) {
        (true, _) => "right",
        (false, true) => "partial",
        (false, false) => "wrong",
    }
}

/// A transport checksum with its verdict: right, partial (the pseudo-header's sum alone) or wrong.
fn judged(stored: u16, protocol: IpProtocol, pseudo: Option<&Pseudo>, bytes: &[u8]) -> String {
    let Some(pseudo) = pseudo else { return format!("{stored:#06x}") };
    let right = pseudo.sum_over(protocol, bytes) == 0xffff;
    let partial = stored == pseudo.sum(protocol, bytes.len() as u32).fold();
    format!("{stored:#06x} ({})", verdict(right, partial))
}

impl<'a> Walk<'a> {
    fn rest(&self) -> &'a [u8] {
        span(self.frame, self.at, self.end)
    }

    fn push(
        &mut self,
        name: &'static str,
        len: usize,
        brief: String,
        fields: Vec<(&'static str, String)>,
        next: Next,
    ) {
        let from = self.at;
        self.at = (from + len).min(self.end);
        self.layers.push(Layer { name, from, to: self.at, brief, fields });
        self.next = next;
    }

    fn step(&mut self) -> Result<(), Error> {
        match self.next {
            Next::Ethernet => self.ethernet(),
            Next::Type(kind) if kind.is_vlan() => self.vlan(kind),
            Next::Type(kind) if kind.is_mpls() => self.mpls(kind),
            Next::Type(EtherType::PBB) => self.pbb(),
            Next::Type(EtherType::ARP | EtherType::RARP) => self.arp(),
            Next::Type(EtherType::IPV4) | Next::Ip(IpProtocol::IPV4, _) => self.ipv4(),
            Next::Type(EtherType::IPV6) | Next::Ip(IpProtocol::IPV6, _) => self.ipv6(),
            Next::Type(EtherType::TRANSPARENT_ETHERNET) | Next::Ip(IpProtocol::ETHERNET, _) => {
                self.ethernet()
            }
            Next::Ip(IpProtocol::MPLS, _) => self.mpls(EtherType::MPLS),
            Next::Ip(IpProtocol::TCP, pseudo) => self.tcp(pseudo),
            Next::Ip(IpProtocol::UDP, pseudo) => self.udp(pseudo),
            Next::Ip(IpProtocol::SCTP, _) => self.sctp(),
            Next::Ip(IpProtocol::ICMP, _) => self.icmpv4(),
            Next::Ip(IpProtocol::ICMPV6, pseudo) => self.icmpv6(pseudo),
            Next::Ip(IpProtocol::GRE, _) => self.gre(),
            Next::Vxlan => self.vxlan(),
            Next::Geneve => self.geneve(),
            Next::Gtpu => self.gtpu(),
            Next::AnyIp => {
                self.next = mpls::guess_payload(self.rest()).map_or(Next::Data, Next::Type);
                Ok(())
            }
            Next::Type(_) | Next::Ip(..) | Next::Data => {
                self.next = Next::Data;
                Ok(())
            }
        }
    }

    fn ethernet(&mut self) -> Result<(), Error> {
        let rest = self.rest();
        crate::bytes::need("ethernet header", rest, ethernet::HEADER_LEN)?;
        let (dst, src) = (crate::MacAddr::get(rest, 0), crate::MacAddr::get(rest, 6));
        let kind = EtherType::get(rest, 12);
        let mut brief = format!("{src}>{dst}");
        if kind.is_length() {
            let _ = write!(brief, " llc");
        } else if kind.name().is_none() || matches!(kind, EtherType::LLDP) {
            let _ = write!(brief, " type {kind}");
        }
        let kind_text = if kind.is_length() { kind.0.to_string() } else { kind.to_string() };
        let fields = texts!["dst": dst, "src": src, "type": kind_text];
        let next = if kind.is_length() { Next::Data } else { Next::Type(kind) };
        self.push("eth", ethernet::HEADER_LEN, brief, fields, next);
        Ok(())
    }

    fn vlan(&mut self, tpid: EtherType) -> Result<(), Error> {
        let tag = vlan::Packet::new_checked(self.rest())?;
        let mut brief = tag.vid().to_string();
        if tag.pcp() != 0 {
            let _ = write!(brief, " pcp {}", tag.pcp());
        }
        let fields = texts![
            "vid": tag.vid(), "pcp": tag.pcp(), "dei": tag.dei(), "type": tag.ethertype(),
        ];
        let name = if tpid == EtherType::SVLAN { "svlan" } else { "vlan" };
        self.push(name, vlan::TAG_LEN, brief, fields, Next::Type(tag.ethertype()));
        Ok(())
    }

    fn pbb(&mut self) -> Result<(), Error> {
        let tag = pbb::Packet::new_checked(self.rest())?;
        let fields =
            texts!["isid": tag.isid(), "pcp": tag.pcp(), "dei": tag.dei(), "uca": tag.uca()];
        self.push("pbb", pbb::TAG_LEN, format!("isid {}", tag.isid()), fields, Next::Ethernet);
        Ok(())
    }

    fn mpls(&mut self, kind: EtherType) -> Result<(), Error> {
        let entry = mpls::Packet::new_checked(self.rest())?;
        let brief = format!("{} ttl {}", entry.label(), entry.ttl());
        let fields = texts![
            "label": entry.label(), "tc": entry.tc(), "bottom": entry.bottom(), "ttl": entry.ttl(),
        ];
        let next = if entry.bottom() { Next::AnyIp } else { Next::Type(kind) };
        self.push("mpls", mpls::ENTRY_LEN, brief, fields, next);
        Ok(())
    }

    fn arp(&mut self) -> Result<(), Error> {
        let packet = arp::Packet::new_checked(self.rest())?;
        let (brief, fields) = match arp::Repr::parse(&packet) {
            Ok(repr) => {
                let brief = match repr.operation {
                    arp::Operation::Request => {
                        format!("who-has {} tell {}", repr.target_ip, repr.sender_ip)
                    }
                    arp::Operation::Reply => {
                        format!("{} is-at {}", repr.sender_ip, repr.sender_mac)
                    }
                    other => format!("op {}", u16::from(other)),
                };
                let fields = texts![
                    "operation": packet.operation(),
                    "sender_mac": repr.sender_mac,
                    "sender_ip": repr.sender_ip,
                    "target_mac": repr.target_mac,
                    "target_ip": repr.target_ip,
                ];
                (brief, fields)
            }
            Err(_) => {
                let fields = texts![
                    "hardware_type": packet.hardware_type(),
                    "protocol_type": packet.protocol_type(),
                    "operation": packet.operation(),
                ];
                (format!("op {}", packet.operation()), fields)
            }
        };
        let len = arp::FIXED_LEN
            + 2 * usize::from(packet.hardware_len())
            + 2 * usize::from(packet.protocol_len());
        self.push("arp", len, brief, fields, Next::Data);
        Ok(())
    }

    fn ipv4(&mut self) -> Result<(), Error> {
        let packet = ipv4::Packet::new_header_checked(self.rest())?;
        let mut brief = format!("{}>{} ttl {}", packet.src(), packet.dst(), packet.ttl());
        let later = packet.fragment_offset() != 0;
        if packet.is_fragment() {
            let more = if packet.more_fragments() { "+" } else { "" };
            let _ = write!(brief, " frag {}{more}", packet.fragment_offset());
        }
        let checksum =
            format!("{:#06x} ({})", packet.checksum(), verdict(packet.verify_checksum(), false));
        let mut fields = texts![
            "src": packet.src(), "dst": packet.dst(), "protocol": packet.protocol(),
            "ttl": packet.ttl(), "dscp": packet.dscp(), "ecn": packet.ecn(),
            "total_len": packet.total_len(), "ident": format!("{:#06x}", packet.ident()),
            "dont_fragment": packet.dont_fragment(), "more_fragments": packet.more_fragments(),
            "fragment_offset": packet.fragment_offset(), "checksum": checksum,
        ];
        for option in packet.options() {
            fields.push(match option {
                Ok(option) => ("option", format!("{} {}", option.kind, hex(option.data, 40))),
                Err(error) => ("option", error.to_string()),
            });
        }
        let len = packet.header_len();
        if packet.total_len() != 0 {
            let total_len = usize::from(packet.total_len()).max(len);
            self.end = self.end.min(self.at + total_len);
        }
        let whole = !packet.is_fragment();
        let next = if later {
            Next::Data
        } else {
            Next::Ip(packet.protocol(), whole.then(|| Pseudo::from(&packet)))
        };
        finish_brief(&mut brief, packet.protocol(), later);
        self.push("ipv4", len, brief, fields, next);
        Ok(())
    }

    fn ipv6(&mut self) -> Result<(), Error> {
        let packet = ipv6::Packet::new_header_checked(self.rest())?;
        let mut brief = format!("{}>{} hlim {}", packet.src(), packet.dst(), packet.hop_limit());
        let fields = texts![
            "src": packet.src(), "dst": packet.dst(), "next_header": packet.next_header(),
            "hop_limit": packet.hop_limit(), "dscp": packet.dscp(), "ecn": packet.ecn(),
            "flow_label": format!("{:#07x}", packet.flow_label()),
            "payload_len": packet.payload_len(),
        ];
        let payload_len = packet.payload().len();
        if packet.payload_len() != 0 || payload_len != 0 {
            self.end = self.end.min(self.at + ipv6::HEADER_LEN + payload_len);
        }
        let start = self.at + ipv6::HEADER_LEN;
        let mut chain =
            ipv6::ext::Chain::new(packet.next_header(), span(self.frame, start, self.end));
        let mut headers = Vec::new();
        let mut failed = None;
        for header in chain.by_ref() {
            match header {
                Ok(header) => headers.push(header),
                Err(error) => failed = Some(error),
            }
        }
        let end = chain.here();
        let later = end.fragment.is_some_and(|fragment| fragment.offset != 0);
        let whole = end.fragment.is_none_or(|fragment| fragment.is_atomic());
        let pseudo = packet.final_dst().filter(|_| whole);
        let pseudo = pseudo.map(|dst| Pseudo::V6 { src: packet.src(), dst });
        let next = if later { Next::Data } else { Next::Ip(end.protocol, pseudo) };
        if headers.is_empty() && failed.is_none() {
            finish_brief(&mut brief, end.protocol, later);
        }
        self.push("ipv6", ipv6::HEADER_LEN, brief, fields, next);
        for header in headers {
            self.ipv6_extension(header, end, next);
        }
        failed.map_or(Ok(()), Err)
    }

    fn ipv6_extension(&mut self, header: ipv6::ext::Header<'_>, end: ipv6::ext::End, next: Next) {
        if self.layers.len() >= LAYERS_MAX {
            return;
        }
        let mut fields = texts!["next_header": header.next];
        let mut brief = String::new();
        if let Some(fragment) = header.fragment() {
            let more = if fragment.more { "+" } else { "" };
            let _ = write!(brief, "{}{more}", fragment.offset);
            fields.extend(texts![
                "offset": fragment.offset, "more": fragment.more,
                "ident": format!("{:#010x}", fragment.ident),
            ]);
        }
        if header.kind == IpProtocol::ROUTING {
            let _ = write!(brief, "type {} left {}", header.routing_type(), header.segments_left());
            fields.extend(texts![
                "type": header.routing_type(), "segments_left": header.segments_left(),
            ]);
        }
        for option in header.options() {
            fields.push(match option {
                Ok(option) => ("option", format!("{:#04x} {}", option.kind, hex(option.data, 16))),
                Err(error) => ("option", error.to_string()),
            });
        }
        if header.offset + header.bytes.len() == end.offset {
            finish_brief(&mut brief, end.protocol, matches!(next, Next::Data));
        }
        let name = header.kind.name().unwrap_or("extension");
        self.push(name, header.bytes.len(), brief.trim_start().to_owned(), fields, next);
    }

    fn tcp(&mut self, pseudo: Option<Pseudo>) -> Result<(), Error> {
        let packet = tcp::Packet::new_checked(self.rest())?;
        let brief = format!("{}>{} [{}]", packet.src_port(), packet.dst_port(), packet.flags());
        let checksum =
            judged(packet.checksum(), IpProtocol::TCP, pseudo.as_ref(), packet.as_bytes());
        let mut fields = texts![
            "src_port": packet.src_port(), "dst_port": packet.dst_port(), "seq": packet.seq(),
            "ack": packet.ack(), "flags": packet.flags(), "window": packet.window(),
            "urgent": packet.urgent(), "checksum": checksum,
        ];
        for option in packet.options() {
            let text = option.map_or_else(|error| error.to_string(), |o| format!("{o:?}"));
            fields.push(("option", text));
        }
        self.push("tcp", packet.header_len(), brief, fields, Next::Data);
        Ok(())
    }

    fn udp(&mut self, pseudo: Option<Pseudo>) -> Result<(), Error> {
        let rest = self.rest();
        let packet = udp::Packet::new_header_checked(rest)?;
        let brief = format!("{}>{}", packet.src_port(), packet.dst_port());
        let checksum = if packet.checksum() == 0 {
            "none".to_owned()
        } else {
            let datagram = span(rest, 0, packet.len().into());
            judged(packet.checksum(), IpProtocol::UDP, pseudo.as_ref(), datagram)
        };
        let fields = texts![
            "src_port": packet.src_port(), "dst_port": packet.dst_port(), "len": packet.len(),
            "checksum": checksum,
        ];
        let next = match packet.dst_port() {
            udp::PORT_VXLAN => Next::Vxlan,
            udp::PORT_GENEVE => Next::Geneve,
            udp::PORT_GTPU => Next::Gtpu,
            _ => Next::Data,
        };
        self.end = self.end.min(self.at + usize::from(packet.len()));
        self.push("udp", udp::HEADER_LEN, brief, fields, next);
        Ok(())
    }

    fn sctp(&mut self) -> Result<(), Error> {
        let packet = sctp::Packet::new_checked(self.rest())?;
        let mut brief = format!("{}>{}", packet.src_port(), packet.dst_port());
        let right = verdict(packet.verify_checksum(), false);
        let mut fields = texts![
            "src_port": packet.src_port(), "dst_port": packet.dst_port(),
            "tag": format!("{:#010x}", packet.tag()),
            "checksum": format!("{:#010x} ({right})", packet.checksum()),
        ];
        for (i, chunk) in packet.chunks().take(LAYERS_MAX).enumerate() {
            match chunk {
                Ok(chunk) => {
                    let name = chunk.name().unwrap_or("chunk");
                    if i == 0 {
                        let _ = write!(brief, " [{name}]");
                    }
                    let text = format!("{} {name} {} octets", chunk.kind, chunk.data.len());
                    fields.push(("chunk", text));
                }
                Err(error) => fields.push(("chunk", error.to_string())),
            }
        }
        self.push("sctp", sctp::HEADER_LEN, brief, fields, Next::Data);
        Ok(())
    }

    fn icmpv4(&mut self) -> Result<(), Error> {
        let packet = icmpv4::Packet::new_checked(self.rest())?;
        let brief = match icmpv4::Repr::parse(&packet)? {
            icmpv4::Repr::EchoRequest { ident, sequence } => {
                format!("echo-request id {ident} seq {sequence}")
            }
            icmpv4::Repr::EchoReply { ident, sequence } => {
                format!("echo-reply id {ident} seq {sequence}")
            }
            icmpv4::Repr::DestUnreachable { code: 4, mtu } => format!("unreachable 4 mtu {mtu}"),
            icmpv4::Repr::DestUnreachable { code, .. } => format!("unreachable {code}"),
            icmpv4::Repr::TimeExceeded { code } => format!("time-exceeded {code}"),
            icmpv4::Repr::Redirect { code, gateway } => format!("redirect {code} to {gateway}"),
            icmpv4::Repr::ParameterProblem { code, pointer } => {
                format!("parameter-problem {code} at {pointer}")
            }
            icmpv4::Repr::Other { kind, code, .. } => format!("type {kind} code {code}"),
        };
        let right = verdict(packet.verify_checksum(), packet.checksum() == 0);
        let fields = texts![
            "type": packet.kind(), "code": packet.code(),
            "checksum": format!("{:#06x} ({right})", packet.checksum()),
            "rest": format!("{:#010x}", packet.rest()),
        ];
        let next = if packet.is_error() { Next::AnyIp } else { Next::Data };
        self.push("icmp", icmpv4::HEADER_LEN, brief, fields, next);
        Ok(())
    }

    fn icmpv6(&mut self, pseudo: Option<Pseudo>) -> Result<(), Error> {
        let rest = self.rest();
        let packet = icmpv6::Packet::new_checked(rest)?;
        let checksum = judged(packet.checksum(), IpProtocol::ICMPV6, pseudo.as_ref(), rest);
        let mut fields = texts!["type": packet.kind(), "code": packet.code(), "checksum": checksum];
        if packet.is_ndp() {
            let message = ndp::Packet::new_checked(rest)?;
            let repr = ndp::Repr::parse(&message)?;
            let brief = match repr.message {
                ndp::Message::RouterSolicitation => "router-solicitation".to_owned(),
                ndp::Message::RouterAdvertisement { lifetime_s, .. } => {
                    format!("router-advertisement lifetime {lifetime_s}s")
                }
                ndp::Message::NeighborSolicitation { target } => format!("who-has {target}"),
                ndp::Message::NeighborAdvertisement { target, .. } => {
                    let mac = message.target_link().map(|mac| format!(" is-at {mac}"));
                    format!("neighbor-advertisement {target}{}", mac.unwrap_or_default())
                }
                ndp::Message::Redirect { target, dst } => format!("redirect {dst} to {target}"),
            };
            fields.push(("message", format!("{:?}", repr.message)));
            fields.extend(repr.options.iter().map(|option| ("option", format!("{option:?}"))));
            self.push("icmpv6", rest.len(), brief, fields, Next::Data);
            return Ok(());
        }
        let brief = match icmpv6::Repr::parse(&packet)? {
            icmpv6::Repr::EchoRequest { ident, sequence } => {
                format!("echo-request id {ident} seq {sequence}")
            }
            icmpv6::Repr::EchoReply { ident, sequence } => {
                format!("echo-reply id {ident} seq {sequence}")
            }
            icmpv6::Repr::DestUnreachable { code } => format!("unreachable {code}"),
            icmpv6::Repr::PacketTooBig { mtu } => format!("too-big mtu {mtu}"),
            icmpv6::Repr::TimeExceeded { code } => format!("time-exceeded {code}"),
            icmpv6::Repr::ParameterProblem { code, pointer } => {
                format!("parameter-problem {code} at {pointer}")
            }
            icmpv6::Repr::Other { kind, code, .. } => format!("type {kind} code {code}"),
        };
        fields.push(("rest", format!("{:#010x}", packet.rest())));
        let next = if packet.is_error() { Next::AnyIp } else { Next::Data };
        self.push("icmpv6", icmpv6::HEADER_LEN, brief, fields, next);
        Ok(())
    }

    fn gre(&mut self) -> Result<(), Error> {
        let packet = gre::Packet::new_checked(self.rest())?;
        let mut brief = packet.protocol().to_string();
        let mut fields = texts!["protocol": packet.protocol()];
        if let Some(checksum) = packet.checksum() {
            let right = verdict(packet.verify_checksum(), false);
            fields.push(("checksum", format!("{checksum:#06x} ({right})")));
        }
        if let Some(key) = packet.key() {
            let _ = write!(brief, " key {key:#x}");
            fields.push(("key", format!("{key:#010x}")));
        }
        if let Some(sequence) = packet.sequence() {
            let _ = write!(brief, " seq {sequence}");
            fields.push(("sequence", sequence.to_string()));
        }
        let next = Next::Type(packet.protocol());
        self.push("gre", packet.header_len(), brief, fields, next);
        Ok(())
    }

    fn vxlan(&mut self) -> Result<(), Error> {
        let packet = vxlan::Packet::new_checked(self.rest())?;
        let fields = texts!["flags": format!("{:#04x}", packet.flags()), "vni": packet.vni()];
        let brief = format!("vni {}", packet.vni());
        self.push("vxlan", vxlan::HEADER_LEN, brief, fields, Next::Ethernet);
        Ok(())
    }

    fn geneve(&mut self) -> Result<(), Error> {
        let packet = geneve::Packet::new_checked(self.rest())?;
        let mut fields = texts![
            "vni": packet.vni(), "protocol": packet.protocol(), "control": packet.control(),
            "critical": packet.critical(),
        ];
        for option in packet.options() {
            fields.push(match option {
                Ok(o) => {
                    let data = hex(o.data, 16);
                    ("option", format!("{:#06x} {:#04x} {data}", o.class, o.kind))
                }
                Err(error) => ("option", error.to_string()),
            });
        }
        let brief = format!("vni {}", packet.vni());
        let next = Next::Type(packet.protocol());
        self.push("geneve", packet.header_len(), brief, fields, next);
        Ok(())
    }

    fn gtpu(&mut self) -> Result<(), Error> {
        let packet = gtpu::Packet::new_checked(self.rest())?;
        let brief = format!("teid {:#x} type {}", packet.teid(), packet.kind());
        let mut fields = texts![
            "type": packet.kind(), "teid": format!("{:#010x}", packet.teid()), "len": packet.len(),
        ];
        if let Some(sequence) = packet.sequence() {
            fields.push(("sequence", sequence.to_string()));
        }
        if let Some(npdu) = packet.npdu() {
            fields.push(("npdu", npdu.to_string()));
        }
        for e in packet.extensions().flatten() {
            fields.push(("extension", format!("{:#04x} {}", e.kind, hex(e.data, 16))));
        }
        let next = if packet.kind() == gtpu::G_PDU { Next::AnyIp } else { Next::Data };
        self.push("gtpu", packet.header_len(), brief, fields, next);
        Ok(())
    }
}

/// Names a payload that has no layer of its own: a protocol not known here, or a later fragment.
fn finish_brief(brief: &mut String, protocol: IpProtocol, later: bool) {
    let known = matches!(
        protocol,
        IpProtocol::TCP
            | IpProtocol::UDP
            | IpProtocol::SCTP
            | IpProtocol::ICMP
            | IpProtocol::ICMPV6
            | IpProtocol::GRE
            | IpProtocol::IPV4
            | IpProtocol::IPV6
            | IpProtocol::MPLS
            | IpProtocol::ETHERNET
    );
    if later || !known {
        let _ = write!(brief, " {protocol}");
    }
}

/// The octets in hex, at most `max` of them.
pub(crate) fn hex(bytes: &[u8], max: usize) -> String {
    let mut text = String::new();
    for octet in bytes.iter().take(max) {
        let _ = write!(text, "{octet:02x}");
    }
    if bytes.len() > max {
        text.push_str("...");
    }
    text
}
