//! The fields that matches and set-field name: one table of descriptors.
//!
//! All basic fields of OpenFlow 1.3 (1.3.5 §7.2.3.7, table 12), those that 1.4 and 1.5 add (1.5.1
//! §7.2.3.8, table 11), and Open vSwitch's registers and packet fields (ovs-fields(7)). A [`FieldId`]
//! is an index into that table; its order is that of the OXM field numbers, then that of the
//! additions. Values are `u128`, right-aligned in the field's width. A field joins by one line in
//! `fields!`, which also says how its value is written and where a printed match has it.
//!
//! A TLV may name a field in several ways: by OpenFlow's class, by Nicira's two classes of NXM, and
//! registers also in pairs and fours. [`OxmHeader::field`] knows those that are one whole field;
//! `codec::nxm` the others.

use crate::ids::NICIRA;
use crate::version::Version;
use std::fmt;

/// The OXM class of the basic fields.
pub const OXM_CLASS_BASIC: u16 = 0x8000;
/// NXM's class of OpenFlow 1.0's fields (`NXM_OF_*`).
pub const NXM_CLASS_OF: u16 = 0x0000;
/// NXM's class of Open vSwitch's fields (`NXM_NX_*`).
pub const NXM_CLASS_NX: u16 = 0x0001;
/// NXM's number of TCP's flags.
const NX_TCP_FLAGS: u32 = 34;
/// The OXM class of packet registers (1.5.1 §7.2.3.10), 64 bits each.
pub const OXM_CLASS_REGISTERS: u16 = 0x8001;
/// The OXM class of what a packet carries from service to service (SoftFlow, figure 3). Nobody has assigned it.
pub const OXM_CLASS_SOFTFLOW: u16 = 0x7366;
/// The OXM class of experimenters' fields.
pub const OXM_CLASS_EXPERIMENTER: u16 = 0xffff;
/// Stands for the fields that Nicira numbers as an experimenter: a header of [`OXM_CLASS_EXPERIMENTER`] with Nicira's id behind
/// it, which [`OxmHeader`] has no room for. No header that is sent or received has this class.
pub const OXM_CLASS_NICIRA: u16 = 0xfffe;
/// The experimenter's id of the Open Networking Foundation, by which 1.3 and 1.4 name fields that OpenFlow
/// numbered later (EXT-109, EXT-233).
pub const ONF: u32 = 0x4f4e_4600;

/// The bit of `vlan_vid` that says that there is a tag (`OFPVID_PRESENT`).
pub const VLAN_PRESENT: u128 = 0x1000;
/// The value of `vlan_vid` that says that there is none (`OFPVID_NONE`).
pub const VLAN_NONE: u128 = 0;

/// The names of `ct_state`'s bits, from bit 0 on.
pub const CT_STATES: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];

/// The names of `tun_flags`' bits, from bit 0 on.
pub const TUN_FLAGS: [&str; 1] = ["oam"];

/// What a match must say before it may use a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prerequisite {
    /// The field is there.
    Present(FieldId),
    /// The field is there, exact, with one of these values.
    OneOf(FieldId, &'static [u128]),
    /// `vlan_vid` is there and not [`VLAN_NONE`].
    VlanTag,
    /// `ct_state` says that the packet belongs to a connection (ovs-fields(7)).
    Connection,
}

impl fmt::Display for Prerequisite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Prerequisite::Present(field) => write!(f, "{field}"),
            Prerequisite::VlanTag => f.write_str("vlan_vid with a tag"),
            Prerequisite::Connection => f.write_str("ct_state with +new, +est, +rel or +trk-inv"),
            Prerequisite::OneOf(field, values) => {
                for (i, value) in values.iter().enumerate() {
                    let or = if i == 0 { "" } else { " or " };
                    if *field == FieldId::EthType {
                        write!(f, "{or}{field}={value:#06x}")?;
                    } else {
                        write!(f, "{or}{field}={value}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// What there is to know about a field.
#[derive(Debug)]
pub struct FieldInfo {
    /// Which.
    pub id: FieldId,
    /// The specification's name, e.g. `OXM_OF_ETH_DST`.
    pub name: &'static str,
    /// Names in `ovs-ofctl`'s syntax with the same value space; the first is the one to print.
    pub ofctl: &'static [&'static str],
    /// Width of the value.
    pub bits: u32,
    /// Bytes of the value in an OXM TLV.
    pub bytes: u8,
    /// Whether a match may mask it.
    pub maskable: bool,
    /// Whether set-field may write it.
    pub settable: bool,
    /// All must hold.
    pub prerequisites: &'static [Prerequisite],
    /// OXM class.
    pub class: u16,
    /// OXM field number.
    pub number: u8,
    /// The first version with it as OXM (1.0's fixed match covers some of them).
    pub since: Version,
    /// How its value is written.
    pub(crate) form: Form,
    /// Its place in a printed match, after those of lower ranks; 0 for one that no match has.
    pub(crate) rank: u16,
}

/// How a field's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A number, or a port's name.
    Port,
    /// An Ethernet address.
    Mac,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A decimal number.
    Decimal,
    /// A hexadecimal one of so many digits or more.
    Hex {
        /// How many.
        digits: usize,
    },
    /// TCP's flags by name.
    TcpFlags,
    /// The bits of [`CT_STATES`] by name.
    CtState,
    /// Whether it is a fragment, by a word.
    Fragment,
    /// A service by its name, or its number.
    Element,
    /// Namespace and type in parentheses.
    PacketType,
    /// The bits of [`TUN_FLAGS`] by name.
    TunFlags,
}

/// Fields of lower ranks come before a printed match's protocol, others behind it.
pub(crate) const PROTOCOL_RANK: u16 = 200;

impl FieldInfo {
    /// The name without its class.
    fn short_name(&self) -> &'static str {
        match self.name.strip_prefix("NXOXM_ET_") {
            Some(name) => name,
            None => &self.name[7..],
        }
    }

    /// The mask with all bits of the field.
    pub const fn all_bits(&self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }
}

use Prerequisite::{Connection, OneOf, Present, VlanTag};

const ETH: FieldId = FieldId::EthType;
const IP: Prerequisite = OneOf(ETH, &[0x0800, 0x86dd]);
const IPV4: Prerequisite = OneOf(ETH, &[0x0800]);
const IPV6: Prerequisite = OneOf(ETH, &[0x86dd]);
// Reverse ARP has the same layout; Open vSwitch takes both.
const ARP: Prerequisite = OneOf(ETH, &[0x0806, 0x8035]);
const MPLS: Prerequisite = OneOf(ETH, &[0x8847, 0x8848]);
const PBB: Prerequisite = OneOf(ETH, &[0x88e7]);
const TCP: Prerequisite = OneOf(FieldId::IpProto, &[6]);
const UDP: Prerequisite = OneOf(FieldId::IpProto, &[17]);
const SCTP: Prerequisite = OneOf(FieldId::IpProto, &[132]);
const ICMPV4: Prerequisite = OneOf(FieldId::IpProto, &[1]);
const ICMPV6: Prerequisite = OneOf(FieldId::IpProto, &[58]);
const ND: Prerequisite = OneOf(FieldId::Icmpv6Type, &[135, 136]);
const ND_SOLICIT: Prerequisite = OneOf(FieldId::Icmpv6Type, &[135]);
const ND_ADVERT: Prerequisite = OneOf(FieldId::Icmpv6Type, &[136]);

macro_rules! fields {
    ($($(#[$meta:meta])* $id:ident $number:literal $name:literal [$($ofctl:literal)+]
       $bits:literal/$bytes:literal $mask:ident $set:ident $since:ident $form:ident $rank:literal
       [$($pre:expr),*];)*) => {
        /// A field, by its place in the descriptor table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum FieldId {
            $($(#[$meta])* $id,)*
        }

        /// The descriptors, by [`FieldId`].
        pub static FIELDS: &[FieldInfo] = &[
            $(FieldInfo {
                id: FieldId::$id,
                name: concat!(fields!(prefix $since), $name),
                ofctl: &[$($ofctl),+],
                bits: $bits,
                bytes: $bytes,
                maskable: fields!(@$mask),
                settable: fields!(@$set),
                prerequisites: &[$($pre),*],
                class: fields!(class $since),
                number: $number,
                since: fields!(since $since),
                form: fields!(form $form),
                rank: $rank,
            },)*
        ];

        impl FieldId {
            /// Every field, in order.
            pub const ALL: &'static [FieldId] = &[$(FieldId::$id,)*];
        }
    };
    (form dec) => { Form::Decimal };
    (form hex) => { Form::Hex { digits: 0 } };
    (form hex4) => { Form::Hex { digits: 4 } };
    (form hex5) => { Form::Hex { digits: 5 } };
    (form port) => { Form::Port };
    (form mac) => { Form::Mac };
    (form ipv4) => { Form::Ipv4 };
    (form ipv6) => { Form::Ipv6 };
    (form tcp_flags) => { Form::TcpFlags };
    (form ct_state) => { Form::CtState };
    (form fragment) => { Form::Fragment };
    (form element) => { Form::Element };
    (form packet_type) => { Form::PacketType };
    (form tun_flags) => { Form::TunFlags };
    (@mask) => { true };
    (@exact) => { false };
    (@set) => { true };
    (@fixed) => { false };
    (prefix nx) => { "NXM_NX_" };
    (prefix et) => { "NXOXM_ET_" };
    (prefix sf) => { "OXM_MR_" };
    (prefix of) => { "NXM_OF_" };
    (prefix $since:ident) => { "OXM_OF_" };
    (class nx) => { NXM_CLASS_NX };
    (class et) => { OXM_CLASS_NICIRA };
    (class sf) => { OXM_CLASS_SOFTFLOW };
    (class of) => { NXM_CLASS_OF };
    (class pkt) => { OXM_CLASS_REGISTERS };
    (class $since:ident) => { OXM_CLASS_BASIC };
    (since v13) => { Version::V13 };
    (since v14) => { Version::V14 };
    (since v15) => { Version::V15 };
    // In 1.3 and 1.4 by the foundation's experimenter header.
    (since onf) => { Version::V13 };
    (since of) => { Version::V10 };
    (since pkt) => { Version::V10 };
    (since nx) => { Version::V10 };
    (since et) => { Version::V10 };
    (since sf) => { Version::V10 };
    // Before 1.5 by Nicira's number.
    (since any) => { Version::V10 };
}

fields! {
    /// Ingress port.
    InPort 0 "IN_PORT" ["in_port"] 32/4 exact set v13 port 380 [];
    /// Ingress physical port.
    InPhyPort 1 "IN_PHY_PORT" ["in_phy_port"] 32/4 exact fixed v13 port 390 [Present(FieldId::InPort)];
    /// Metadata passed between tables.
    Metadata 2 "METADATA" ["metadata"] 64/8 mask set v13 hex 370 [];
    /// Ethernet destination.
    EthDst 3 "ETH_DST" ["dl_dst" "eth_dst"] 48/6 mask set v13 mac 430 [];
    /// Ethernet source.
    EthSrc 4 "ETH_SRC" ["dl_src" "eth_src"] 48/6 mask set v13 mac 420 [];
    /// Ethernet type behind the VLAN tags.
    EthType 5 "ETH_TYPE" ["dl_type" "eth_type"] 16/2 exact set v13 hex4 440 [];
    /// VLAN id with the presence bit.
    VlanVid 6 "VLAN_VID" ["vlan_vid"] 13/2 mask set v13 dec 400 [];
    /// VLAN priority.
    VlanPcp 7 "VLAN_PCP" ["dl_vlan_pcp" "vlan_pcp"] 3/1 exact set v13 dec 410 [VlanTag];
    /// Differentiated-services code point (6 bits).
    IpDscp 8 "IP_DSCP" ["ip_dscp"] 6/1 exact set v13 dec 570 [IP];
    /// Explicit congestion notification.
    IpEcn 9 "IP_ECN" ["nw_ecn" "ip_ecn"] 2/1 exact set v13 dec 580 [IP];
    /// IP protocol.
    IpProto 10 "IP_PROTO" ["nw_proto" "ip_proto"] 8/1 exact set v13 dec 530 [IP];
    /// IPv4 source.
    Ipv4Src 11 "IPV4_SRC" ["nw_src" "ip_src" "ipv4_src"] 32/4 mask set v13 ipv4 510 [IPV4];
    /// IPv4 destination.
    Ipv4Dst 12 "IPV4_DST" ["nw_dst" "ip_dst" "ipv4_dst"] 32/4 mask set v13 ipv4 520 [IPV4];
    /// TCP source port.
    TcpSrc 13 "TCP_SRC" ["tcp_src"] 16/2 mask set v13 dec 700 [IP, TCP];
    /// TCP destination port.
    TcpDst 14 "TCP_DST" ["tcp_dst"] 16/2 mask set v13 dec 710 [IP, TCP];
    /// UDP source port.
    UdpSrc 15 "UDP_SRC" ["udp_src"] 16/2 mask set v13 dec 720 [IP, UDP];
    /// UDP destination port.
    UdpDst 16 "UDP_DST" ["udp_dst"] 16/2 mask set v13 dec 730 [IP, UDP];
    /// SCTP source port.
    SctpSrc 17 "SCTP_SRC" ["sctp_src"] 16/2 mask set v13 dec 740 [IP, SCTP];
    /// SCTP destination port.
    SctpDst 18 "SCTP_DST" ["sctp_dst"] 16/2 mask set v13 dec 750 [IP, SCTP];
    /// ICMP type.
    Icmpv4Type 19 "ICMPV4_TYPE" ["icmp_type" "icmpv4_type"] 8/1 exact set v13 dec 660 [IPV4, ICMPV4];
    /// ICMP code.
    Icmpv4Code 20 "ICMPV4_CODE" ["icmp_code" "icmpv4_code"] 8/1 exact set v13 dec 670 [IPV4, ICMPV4];
    /// ARP operation.
    ArpOp 21 "ARP_OP" ["arp_op"] 16/2 exact set v13 dec 540 [ARP];
    /// ARP sender's IPv4 address.
    ArpSpa 22 "ARP_SPA" ["arp_spa"] 32/4 mask set v13 ipv4 490 [ARP];
    /// ARP target's IPv4 address.
    ArpTpa 23 "ARP_TPA" ["arp_tpa"] 32/4 mask set v13 ipv4 500 [ARP];
    /// ARP sender's hardware address.
    ArpSha 24 "ARP_SHA" ["arp_sha"] 48/6 mask set v13 mac 550 [ARP];
    /// ARP target's hardware address.
    ArpTha 25 "ARP_THA" ["arp_tha"] 48/6 mask set v13 mac 560 [ARP];
    /// IPv6 source.
    Ipv6Src 26 "IPV6_SRC" ["ipv6_src"] 128/16 mask set v13 ipv6 450 [IPV6];
    /// IPv6 destination.
    Ipv6Dst 27 "IPV6_DST" ["ipv6_dst"] 128/16 mask set v13 ipv6 460 [IPV6];
    /// IPv6 flow label.
    Ipv6Flabel 28 "IPV6_FLABEL" ["ipv6_label" "ipv6_flabel"] 20/4 mask set v13 hex5 470 [IPV6];
    /// ICMPv6 type.
    Icmpv6Type 29 "ICMPV6_TYPE" ["icmpv6_type"] 8/1 exact set v13 dec 680 [IPV6, ICMPV6];
    /// ICMPv6 code.
    Icmpv6Code 30 "ICMPV6_CODE" ["icmpv6_code"] 8/1 exact set v13 dec 690 [IPV6, ICMPV6];
    /// Neighbour discovery: target address.
    Ipv6NdTarget 31 "IPV6_ND_TARGET" ["nd_target" "ipv6_nd_target"] 128/16 mask set v13 ipv6 760 [IPV6, ICMPV6, ND];
    /// Neighbour discovery: source link-layer address.
    Ipv6NdSll 32 "IPV6_ND_SLL" ["nd_sll" "ipv6_nd_sll"] 48/6 mask set v13 mac 770 [IPV6, ICMPV6, ND_SOLICIT];
    /// Neighbour discovery: target link-layer address.
    Ipv6NdTll 33 "IPV6_ND_TLL" ["nd_tll" "ipv6_nd_tll"] 48/6 mask set v13 mac 780 [IPV6, ICMPV6, ND_ADVERT];
    /// Outermost MPLS label.
    MplsLabel 34 "MPLS_LABEL" ["mpls_label"] 20/4 exact set v13 dec 610 [MPLS];
    /// Outermost MPLS traffic class.
    MplsTc 35 "MPLS_TC" ["mpls_tc"] 3/1 exact set v13 dec 620 [MPLS];
    /// Outermost MPLS bottom-of-stack bit.
    MplsBos 36 "MPLS_BOS" ["mpls_bos"] 1/1 exact set v13 dec 630 [MPLS];
    /// PBB service instance.
    PbbIsid 37 "PBB_ISID" ["pbb_isid"] 24/3 mask set v13 hex 640 [PBB];
    /// Tunnel's metadata.
    TunnelId 38 "TUNNEL_ID" ["tun_id" "tunnel_id"] 64/8 mask set v13 hex 256 [];
    /// Which IPv6 extension headers there are (nine bits).
    Ipv6Exthdr 39 "IPV6_EXTHDR" ["ipv6_exthdr"] 9/2 mask fixed v13 hex 480 [IPV6];
    /// PBB "use customer address".
    PbbUca 41 "PBB_UCA" ["pbb_uca"] 1/1 exact set v14 dec 650 [PBB];
    /// TCP's flags, 12 bits.
    TcpFlags 42 "TCP_FLAGS" ["tcp_flags"] 12/2 mask fixed any tcp_flags 790 [IP, TCP];
    /// The output port in the action set.
    ActsetOutput 43 "ACTSET_OUTPUT" ["actset_output"] 32/4 exact fixed onf port 220 [];
    /// The type of the packet's outermost header: a namespace and a type in it.
    PacketType 44 "PACKET_TYPE" ["packet_type"] 32/4 exact fixed v15 packet_type 230 [];
    /// Whether the packet is an IP fragment (bit 0), and not the first one (bit 1).
    IpFrag 26 "IP_FRAG" ["ip_frag" "nw_frag"] 2/1 mask fixed nx fragment 600 [IP];
    /// IP time to live or hop limit.
    NwTtl 29 "IP_TTL" ["nw_ttl"] 8/1 exact set nx dec 590 [IP];
    /// A register.
    Reg0 0 "REG0" ["reg0"] 32/4 mask set nx hex 240 [];
    /// A register.
    Reg1 1 "REG1" ["reg1"] 32/4 mask set nx hex 241 [];
    /// A register.
    Reg2 2 "REG2" ["reg2"] 32/4 mask set nx hex 242 [];
    /// A register.
    Reg3 3 "REG3" ["reg3"] 32/4 mask set nx hex 243 [];
    /// A register.
    Reg4 4 "REG4" ["reg4"] 32/4 mask set nx hex 244 [];
    /// A register.
    Reg5 5 "REG5" ["reg5"] 32/4 mask set nx hex 245 [];
    /// A register.
    Reg6 6 "REG6" ["reg6"] 32/4 mask set nx hex 246 [];
    /// A register.
    Reg7 7 "REG7" ["reg7"] 32/4 mask set nx hex 247 [];
    /// A register.
    Reg8 8 "REG8" ["reg8"] 32/4 mask set nx hex 248 [];
    /// A register.
    Reg9 9 "REG9" ["reg9"] 32/4 mask set nx hex 249 [];
    /// A register.
    Reg10 10 "REG10" ["reg10"] 32/4 mask set nx hex 250 [];
    /// A register.
    Reg11 11 "REG11" ["reg11"] 32/4 mask set nx hex 251 [];
    /// A register.
    Reg12 12 "REG12" ["reg12"] 32/4 mask set nx hex 252 [];
    /// A register.
    Reg13 13 "REG13" ["reg13"] 32/4 mask set nx hex 253 [];
    /// A register.
    Reg14 14 "REG14" ["reg14"] 32/4 mask set nx hex 254 [];
    /// A register.
    Reg15 15 "REG15" ["reg15"] 32/4 mask set nx hex 255 [];
    /// The conjunctive flow that a packet matched; 0 for none.
    ConjId 37 "CONJ_ID" ["conj_id"] 32/4 exact fixed nx dec 210 [];
    /// What the connection tracker said of the packet: the bits of [`CT_STATES`], 0 before it was asked.
    CtState 105 "CT_STATE" ["ct_state"] 32/4 mask fixed nx ct_state 70 [];
    /// The zone in which it was asked.
    CtZone 106 "CT_ZONE" ["ct_zone"] 16/2 exact fixed nx dec 80 [];
    /// The connection's mark.
    CtMark 107 "CT_MARK" ["ct_mark"] 32/4 mask fixed nx hex 90 [];
    /// The connection's label.
    CtLabel 108 "CT_LABEL" ["ct_label"] 128/16 mask fixed nx hex 100 [];
    /// The IP protocol of the connection's opener.
    CtNwProto 119 "CT_NW_PROTO" ["ct_nw_proto"] 8/1 exact fixed nx dec 150 [Connection];
    /// The IPv4 source of the connection's opener.
    CtNwSrc 120 "CT_NW_SRC" ["ct_nw_src"] 32/4 mask fixed nx ipv4 110 [Connection];
    /// Its IPv4 destination.
    CtNwDst 121 "CT_NW_DST" ["ct_nw_dst"] 32/4 mask fixed nx ipv4 130 [Connection];
    /// The IPv6 source of the connection's opener.
    CtIpv6Src 122 "CT_IPV6_SRC" ["ct_ipv6_src"] 128/16 mask fixed nx ipv6 120 [Connection];
    /// Its IPv6 destination.
    CtIpv6Dst 123 "CT_IPV6_DST" ["ct_ipv6_dst"] 128/16 mask fixed nx ipv6 140 [Connection];
    /// Its transport source port, or ICMP type.
    CtTpSrc 124 "CT_TP_SRC" ["ct_tp_src"] 16/2 mask fixed nx dec 160 [Connection];
    /// Its transport destination port, or ICMP code.
    CtTpDst 125 "CT_TP_DST" ["ct_tp_dst"] 16/2 mask fixed nx dec 170 [Connection];
    /// A mark that goes with the packet through the tables; 0 at first.
    PktMark 33 "PKT_MARK" ["pkt_mark"] 32/4 mask set nx hex 60 [];
    /// Outer IPv4 source of a packet from a tunnel, or of one that is to leave by one.
    TunSrc 31 "TUN_IPV4_SRC" ["tun_src"] 32/4 mask set nx ipv4 257 [];
    /// Outer IPv4 destination.
    TunDst 32 "TUN_IPV4_DST" ["tun_dst"] 32/4 mask set nx ipv4 258 [];
    /// Outer IPv6 source.
    TunIpv6Src 109 "TUN_IPV6_SRC" ["tun_ipv6_src"] 128/16 mask set nx ipv6 259 [];
    /// Outer IPv6 destination.
    TunIpv6Dst 110 "TUN_IPV6_DST" ["tun_ipv6_dst"] 128/16 mask set nx ipv6 260 [];
    /// VXLAN's group policy: the group.
    TunGbpId 38 "TUN_GBP_ID" ["tun_gbp_id"] 16/2 mask set nx dec 261 [];
    /// VXLAN's group policy: its flags.
    TunGbpFlags 39 "TUN_GBP_FLAGS" ["tun_gbp_flags"] 8/1 mask set nx hex 262 [];
    /// ERSPAN's version: 1 (type II) or 2 (type III).
    TunErspanVer 12 "ERSPAN_VER" ["tun_erspan_ver"] 4/1 mask set et dec 263 [];
    /// ERSPAN type II: the index of the mirror's source.
    TunErspanIdx 11 "ERSPAN_IDX" ["tun_erspan_idx"] 20/4 mask set et hex 264 [];
    /// ERSPAN type III: the direction, 0 for received and 1 for sent.
    TunErspanDir 13 "ERSPAN_DIR" ["tun_erspan_dir"] 1/1 mask set et dec 265 [];
    /// ERSPAN type III: the engine that mirrored.
    TunErspanHwid 14 "ERSPAN_HWID" ["tun_erspan_hwid"] 6/1 mask set et hex 266 [];
    /// Flags of the tunnel's header ([`TUN_FLAGS`]).
    TunFlags 104 "TUN_FLAGS" ["tun_flags"] 1/2 mask set nx tun_flags 267 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata0 40 "TUN_METADATA0" ["tun_metadata0"] 128/16 mask set nx hex 270 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata1 41 "TUN_METADATA1" ["tun_metadata1"] 128/16 mask set nx hex 271 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata2 42 "TUN_METADATA2" ["tun_metadata2"] 128/16 mask set nx hex 272 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata3 43 "TUN_METADATA3" ["tun_metadata3"] 128/16 mask set nx hex 273 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata4 44 "TUN_METADATA4" ["tun_metadata4"] 128/16 mask set nx hex 274 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata5 45 "TUN_METADATA5" ["tun_metadata5"] 128/16 mask set nx hex 275 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata6 46 "TUN_METADATA6" ["tun_metadata6"] 128/16 mask set nx hex 276 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata7 47 "TUN_METADATA7" ["tun_metadata7"] 128/16 mask set nx hex 277 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata8 48 "TUN_METADATA8" ["tun_metadata8"] 128/16 mask set nx hex 278 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata9 49 "TUN_METADATA9" ["tun_metadata9"] 128/16 mask set nx hex 279 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata10 50 "TUN_METADATA10" ["tun_metadata10"] 128/16 mask set nx hex 280 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata11 51 "TUN_METADATA11" ["tun_metadata11"] 128/16 mask set nx hex 281 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata12 52 "TUN_METADATA12" ["tun_metadata12"] 128/16 mask set nx hex 282 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata13 53 "TUN_METADATA13" ["tun_metadata13"] 128/16 mask set nx hex 283 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata14 54 "TUN_METADATA14" ["tun_metadata14"] 128/16 mask set nx hex 284 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata15 55 "TUN_METADATA15" ["tun_metadata15"] 128/16 mask set nx hex 285 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata16 56 "TUN_METADATA16" ["tun_metadata16"] 128/16 mask set nx hex 286 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata17 57 "TUN_METADATA17" ["tun_metadata17"] 128/16 mask set nx hex 287 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata18 58 "TUN_METADATA18" ["tun_metadata18"] 128/16 mask set nx hex 288 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata19 59 "TUN_METADATA19" ["tun_metadata19"] 128/16 mask set nx hex 289 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata20 60 "TUN_METADATA20" ["tun_metadata20"] 128/16 mask set nx hex 290 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata21 61 "TUN_METADATA21" ["tun_metadata21"] 128/16 mask set nx hex 291 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata22 62 "TUN_METADATA22" ["tun_metadata22"] 128/16 mask set nx hex 292 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata23 63 "TUN_METADATA23" ["tun_metadata23"] 128/16 mask set nx hex 293 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata24 64 "TUN_METADATA24" ["tun_metadata24"] 128/16 mask set nx hex 294 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata25 65 "TUN_METADATA25" ["tun_metadata25"] 128/16 mask set nx hex 295 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata26 66 "TUN_METADATA26" ["tun_metadata26"] 128/16 mask set nx hex 296 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata27 67 "TUN_METADATA27" ["tun_metadata27"] 128/16 mask set nx hex 297 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata28 68 "TUN_METADATA28" ["tun_metadata28"] 128/16 mask set nx hex 298 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata29 69 "TUN_METADATA29" ["tun_metadata29"] 128/16 mask set nx hex 299 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata30 70 "TUN_METADATA30" ["tun_metadata30"] 128/16 mask set nx hex 300 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata31 71 "TUN_METADATA31" ["tun_metadata31"] 128/16 mask set nx hex 301 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata32 72 "TUN_METADATA32" ["tun_metadata32"] 128/16 mask set nx hex 302 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata33 73 "TUN_METADATA33" ["tun_metadata33"] 128/16 mask set nx hex 303 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata34 74 "TUN_METADATA34" ["tun_metadata34"] 128/16 mask set nx hex 304 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata35 75 "TUN_METADATA35" ["tun_metadata35"] 128/16 mask set nx hex 305 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata36 76 "TUN_METADATA36" ["tun_metadata36"] 128/16 mask set nx hex 306 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata37 77 "TUN_METADATA37" ["tun_metadata37"] 128/16 mask set nx hex 307 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata38 78 "TUN_METADATA38" ["tun_metadata38"] 128/16 mask set nx hex 308 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata39 79 "TUN_METADATA39" ["tun_metadata39"] 128/16 mask set nx hex 309 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata40 80 "TUN_METADATA40" ["tun_metadata40"] 128/16 mask set nx hex 310 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata41 81 "TUN_METADATA41" ["tun_metadata41"] 128/16 mask set nx hex 311 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata42 82 "TUN_METADATA42" ["tun_metadata42"] 128/16 mask set nx hex 312 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata43 83 "TUN_METADATA43" ["tun_metadata43"] 128/16 mask set nx hex 313 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata44 84 "TUN_METADATA44" ["tun_metadata44"] 128/16 mask set nx hex 314 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata45 85 "TUN_METADATA45" ["tun_metadata45"] 128/16 mask set nx hex 315 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata46 86 "TUN_METADATA46" ["tun_metadata46"] 128/16 mask set nx hex 316 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata47 87 "TUN_METADATA47" ["tun_metadata47"] 128/16 mask set nx hex 317 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata48 88 "TUN_METADATA48" ["tun_metadata48"] 128/16 mask set nx hex 318 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata49 89 "TUN_METADATA49" ["tun_metadata49"] 128/16 mask set nx hex 319 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata50 90 "TUN_METADATA50" ["tun_metadata50"] 128/16 mask set nx hex 320 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata51 91 "TUN_METADATA51" ["tun_metadata51"] 128/16 mask set nx hex 321 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata52 92 "TUN_METADATA52" ["tun_metadata52"] 128/16 mask set nx hex 322 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata53 93 "TUN_METADATA53" ["tun_metadata53"] 128/16 mask set nx hex 323 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata54 94 "TUN_METADATA54" ["tun_metadata54"] 128/16 mask set nx hex 324 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata55 95 "TUN_METADATA55" ["tun_metadata55"] 128/16 mask set nx hex 325 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata56 96 "TUN_METADATA56" ["tun_metadata56"] 128/16 mask set nx hex 326 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata57 97 "TUN_METADATA57" ["tun_metadata57"] 128/16 mask set nx hex 327 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata58 98 "TUN_METADATA58" ["tun_metadata58"] 128/16 mask set nx hex 328 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata59 99 "TUN_METADATA59" ["tun_metadata59"] 128/16 mask set nx hex 329 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata60 100 "TUN_METADATA60" ["tun_metadata60"] 128/16 mask set nx hex 330 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata61 101 "TUN_METADATA61" ["tun_metadata61"] 128/16 mask set nx hex 331 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata62 102 "TUN_METADATA62" ["tun_metadata62"] 128/16 mask set nx hex 332 [];
    /// The Geneve option of this number in the switch's map of options.
    TunMetadata63 103 "TUN_METADATA63" ["tun_metadata63"] 128/16 mask set nx hex 333 [];
    /// What services and tables tell each other; 0 at first.
    SfMetadata 0 "SF_METADATA" ["sf_metadata"] 64/8 mask set sf hex 30 [];
    /// The service that the packet comes from, by the number of its name; 0 for none.
    SfAction 1 "SF_ACTION" ["sf_action"] 32/4 exact fixed sf element 20 [];
    /// Services that the packet has been through.
    SfStage 2 "SF_STAGE" ["sf_stage"] 8/1 exact fixed sf dec 10 [];
    /// Whether the last service let lookups be skipped.
    SfCoalesce 3 "SF_COALESCE" ["sf_coalesce"] 1/1 exact fixed sf dec 50 [];
    /// What the last service was told.
    SfArgument 4 "SF_ARGUMENT" ["sf_argument"] 32/4 mask fixed sf hex 40 [];
    /// Several fields as one, which actions may read and write: the outermost tag, of which bit 12 says that
    /// there is one.
    VlanTci 4 "VLAN_TCI" ["vlan_tci"] 16/2 mask set of hex4 0 [];
    /// The byte that the code point is in; its two low bits read as 0 and are not written.
    IpTos 5 "IP_TOS" ["nw_tos"] 8/1 mask set of dec 0 [IP];
    /// Two registers, `reg0` the higher one.
    XReg0 0 "PKT_REG0" ["xreg0"] 64/8 mask set pkt hex 0 [];
    /// Two registers.
    XReg1 1 "PKT_REG1" ["xreg1"] 64/8 mask set pkt hex 0 [];
    /// Two registers.
    XReg2 2 "PKT_REG2" ["xreg2"] 64/8 mask set pkt hex 0 [];
    /// Two registers.
    XReg3 3 "PKT_REG3" ["xreg3"] 64/8 mask set pkt hex 0 [];
    /// Two registers.
    XReg4 4 "PKT_REG4" ["xreg4"] 64/8 mask set pkt hex 0 [];
    /// Two registers.
    XReg5 5 "PKT_REG5" ["xreg5"] 64/8 mask set pkt hex 0 [];
    /// Two registers.
    XReg6 6 "PKT_REG6" ["xreg6"] 64/8 mask set pkt hex 0 [];
    /// Two registers.
    XReg7 7 "PKT_REG7" ["xreg7"] 64/8 mask set pkt hex 0 [];
    /// Four registers, `reg0` the highest one.
    XXReg0 111 "XXREG0" ["xxreg0"] 128/16 mask set nx hex 0 [];
    /// Four registers.
    XXReg1 112 "XXREG1" ["xxreg1"] 128/16 mask set nx hex 0 [];
    /// Four registers.
    XXReg2 113 "XXREG2" ["xxreg2"] 128/16 mask set nx hex 0 [];
    /// Four registers.
    XXReg3 114 "XXREG3" ["xxreg3"] 128/16 mask set nx hex 0 [];
}

impl FieldId {
    /// The descriptor.
    #[inline]
    pub fn info(self) -> &'static FieldInfo {
        &FIELDS[self as usize]
    }

    /// Whether an experimenter's id follows its header, so that formats with room for four octets cannot name it.
    pub fn has_long_header(self) -> bool {
        self.info().class == OXM_CLASS_NICIRA
    }

    /// Whether it is one of the sixteen registers.
    pub fn is_register(self) -> bool {
        (FieldId::Reg0..=FieldId::Reg15).contains(&self)
    }

    /// The number of a field that is a Geneve option's, 0 to 63. It has as many bits as the switch's map of options says; so its
    /// value may have fewer bytes on the wire than [`FieldInfo::bytes`].
    pub fn tun_metadata(self) -> Option<u8> {
        let first = FieldId::TunMetadata0 as u8;
        (FieldId::TunMetadata0..=FieldId::TunMetadata63).contains(&self).then(|| self as u8 - first)
    }

    /// The field of a Geneve option, by a number below 64.
    pub fn tun_metadata_of(number: u8) -> FieldId {
        FieldId::ALL[FieldId::TunMetadata0 as usize + usize::from(number)]
    }

    /// Whether it is several fields as one. Matches never have such a one, as they have its parts.
    pub fn is_composite(self) -> bool {
        self >= FieldId::VlanTci
    }

    /// The first register, and how many there are, of a field that is several registers.
    pub fn registers(self) -> Option<(usize, usize)> {
        match self {
            id if id >= FieldId::XXReg0 => Some((4 * (id as usize - FieldId::XXReg0 as usize), 4)),
            id if id >= FieldId::XReg0 => Some((2 * (id as usize - FieldId::XReg0 as usize), 2)),
            _ => None,
        }
    }

    /// A register by its number, below 16.
    pub fn register(number: usize) -> FieldId {
        FieldId::ALL[FieldId::Reg0 as usize + number]
    }

    /// The same of the other end of the way: the destination's field for a source's, and the other way round.
    pub fn twin(self) -> Option<FieldId> {
        use FieldId::*;
        const PAIRS: [(FieldId, FieldId); 8] = [
            (EthSrc, EthDst),
            (Ipv4Src, Ipv4Dst),
            (Ipv6Src, Ipv6Dst),
            (TcpSrc, TcpDst),
            (UdpSrc, UdpDst),
            (SctpSrc, SctpDst),
            (ArpSpa, ArpTpa),
            (ArpSha, ArpTha),
        ];
        PAIRS.iter().find_map(|(a, b)| match self {
            id if id == *a => Some(*b),
            id if id == *b => Some(*a),
            _ => None,
        })
    }

    /// Whether it is of a connection, and actions in a `ct(exec(...))` may write it, and no others.
    pub fn is_of_connection(self) -> bool {
        matches!(self, FieldId::CtMark | FieldId::CtLabel)
    }

    /// The mask with all bits of the field.
    #[inline]
    pub fn all_bits(self) -> u128 {
        self.info().all_bits()
    }

    /// The field of an OXM class and number.
    #[inline]
    pub fn from_oxm(class: u16, number: u8) -> Option<FieldId> {
        match (class, number) {
            (NXM_CLASS_NX, 34) => Some(FieldId::TcpFlags),
            (OXM_CLASS_BASIC, 0..=39) => FieldId::ALL.get(number as usize).copied(),
            // As the foundation's; see [`OxmHeader::in_version`].
            (OXM_CLASS_EXPERIMENTER, 42) => Some(FieldId::TcpFlags),
            (OXM_CLASS_EXPERIMENTER, 43) => Some(FieldId::ActsetOutput),
            _ => FIELDS[40..]
                .iter()
                .find(|info| info.class == class && info.number == number)
                .map(|info| info.id),
        }
    }

    /// The field of a name of the specification (`OXM_OF_` optional) or of `ovs-ofctl`, letter case
    /// ignored.
    pub fn from_name(name: &str) -> Option<FieldId> {
        FIELDS
            .iter()
            .find(|info| {
                info.name.eq_ignore_ascii_case(name)
                    || info.short_name().eq_ignore_ascii_case(name)
                    || info.ofctl.iter().any(|n| n.eq_ignore_ascii_case(name))
            })
            .map(|info| info.id)
    }
}

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSet([u64; 3]);

const _: () = assert!(FieldId::ALL.len() <= 192, "the bit set has 192 places");

impl FieldSet {
    /// The field is a member.
    #[inline]
    pub fn has(&self, id: FieldId) -> bool {
        self.0[id as usize / 64] >> (id as usize % 64) & 1 == 1
    }

    /// The field becomes a member. Whether it was none before.
    #[inline]
    pub fn insert(&mut self, id: FieldId) -> bool {
        let before = self.has(id);
        self.0[id as usize / 64] |= 1 << (id as usize % 64);
        !before
    }

    /// The field is no member any more.
    pub fn remove(&mut self, id: FieldId) {
        self.0[id as usize / 64] &= !(1 << (id as usize % 64));
    }

    /// So many members come before this field.
    #[inline]
    pub fn rank(&self, id: FieldId) -> usize {
        let (word, bit) = (id as usize / 64, id as usize % 64);
        let before: u32 = self.0[..word].iter().map(|bits| bits.count_ones()).sum();
        (before + (self.0[word] & ((1 << bit) - 1)).count_ones()) as usize
    }

    /// All members are members of the other set, too.
    #[inline]
    pub fn is_within(&self, other: &FieldSet) -> bool {
        self.0.iter().zip(other.0).all(|(own, other)| own & !other == 0)
    }
}

impl fmt::Display for FieldId {
    /// Writes the specification's short name in lower case, e.g. `eth_dst`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info().short_name().chars().try_for_each(|c| write!(f, "{}", c.to_ascii_lowercase()))
    }
}

/// The 32-bit header of an OXM TLV: class, field number, mask bit, payload length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OxmHeader(pub u32);

impl OxmHeader {
    /// The header of a known field; the length covers value and, if `has_mask`, mask.
    pub fn of(field: FieldId, has_mask: bool) -> OxmHeader {
        let info = field.info();
        let length = u32::from(info.bytes) << u32::from(has_mask);
        OxmHeader(
            u32::from(info.class) << 16
                | u32::from(info.number) << 9
                | u32::from(has_mask) << 8
                | length,
        )
    }

    /// The header of a field in a version: what OpenFlow numbered later is the foundation's before, whose id
    /// follows the header, counts to its length, and is not in here.
    pub fn in_version(field: FieldId, has_mask: bool, version: Version) -> OxmHeader {
        let OxmHeader(bits) = OxmHeader::of(field, has_mask);
        match field {
            FieldId::TcpFlags if version < Version::V13 => {
                OxmHeader(bits & 0x1ff | u32::from(NXM_CLASS_NX) << 16 | NX_TCP_FLAGS << 9)
            }
            FieldId::TcpFlags | FieldId::ActsetOutput if version < Version::V15 => {
                OxmHeader((bits | u32::from(OXM_CLASS_EXPERIMENTER) << 16) + 4)
            }
            _ => OxmHeader(bits),
        }
    }

    /// The experimenter whose id follows the header, if one does.
    pub fn experimenter(self) -> Option<u32> {
        match self.class() {
            OXM_CLASS_EXPERIMENTER => Some(ONF),
            OXM_CLASS_NICIRA => Some(NICIRA),
            _ => None,
        }
    }

    /// OXM class.
    pub const fn class(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Field number within the class, 7 bits.
    pub const fn number(self) -> u8 {
        (self.0 >> 9) as u8 & 0x7f
    }

    /// Whether a mask follows the value.
    pub const fn has_mask(self) -> bool {
        self.0 >> 8 & 1 == 1
    }

    /// Bytes after the header.
    pub const fn length(self) -> usize {
        (self.0 & 0xff) as usize
    }

    /// The field, if known.
    pub fn field(self) -> Option<FieldId> {
        FieldId::from_oxm(self.class(), self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_order_and_consistent() {
        assert_eq!(FIELDS.len(), 169);
        for (i, info) in FIELDS.iter().enumerate() {
            assert_eq!(info.id as usize, i);
            assert!(i >= 40 || info.number as usize == i);
            assert_eq!(FieldId::ALL[i], info.id);
            assert!(u32::from(info.bytes) * 8 >= info.bits);
            assert_eq!(FieldId::from_name(info.name), Some(info.id));
            for name in info.ofctl {
                assert_eq!(FieldId::from_name(name), Some(info.id));
            }
            assert_eq!(OxmHeader::of(info.id, false).field(), Some(info.id));
            assert_eq!(info.rank == 0, info.id.is_composite(), "{}", info.name);
            let same = |other: &&FieldInfo| info.rank != 0 && other.rank == info.rank;
            assert!(FIELDS.iter().filter(same).count() <= 1, "{}: a rank of its own", info.name);
        }
        assert_eq!(OxmHeader::of(FieldId::EthDst, true).0, 0x8000_070c);
        assert_eq!(FieldId::Ipv6NdSll.to_string(), "ipv6_nd_sll");
        assert_eq!(FieldId::from_oxm(0x8000, 40), None);
        assert_eq!(FieldId::from_oxm(0x8000, 42), Some(FieldId::TcpFlags));
        assert_eq!(FieldId::from_oxm(1, 0), Some(FieldId::Reg0));
        assert_eq!(FieldId::from_oxm(1, 16), None);
        assert_eq!(FieldId::from_oxm(1, 37), Some(FieldId::ConjId));
        assert_eq!(FieldId::from_oxm(0x8000, 26), Some(FieldId::Ipv6Src));
    }
}
