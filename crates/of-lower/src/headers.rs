//! The headers and metadata that OpenFlow's match fields live in.
//!
//! Every header is laid out as it is on the wire, so that emitting what was extracted gives the
//! same bytes. Two instances, `push_eth` and `push_itag`, are never extracted: `push_pbb` fills
//! them, they come first in the deparser, and the packet is parsed again.
//!
//! Stacks have more room than the parser fills ([`VLAN_PARSED`], [`MPLS_PARSED`]): the rest is for
//! tags pushed by one pass. Deeper tags than the parser takes stay in the payload, untouched.

use super::normal::config::{Bonding, Extras, MIRRORS_MAX, Mirror, VlanSet};
use super::normal::port_set::PortSet;
use super::slots::Slots;
use super::tunnel::parts::TunnelHeaders;
use contract::{ct as tracker, tunnel as descriptor};
use ir::builder::Builder;
use ir::program::Field;
use ir::{BlockId, Expr, FieldRef, HeaderId, MetaId, StackId};
use openflow::FieldId;
use std::sync::Arc;

/// What a packet carries from service to service (SoftFlow, figure 3): the `sf_*` fields.
pub const SF_FIELDS: [(&str, u32); 5] =
    [("metadata", 64), ("action", 32), ("stage", 8), ("coalesce", 1), ("argument", 32)];

/// Match fields that are metadata of their own, 0 when the packet comes in, and nothing else: each needs no more than its place
/// in this list.
pub const METADATA: [FieldId; 12] = {
    use FieldId::*;
    [
        PktMark,
        TunSrc,
        TunDst,
        TunIpv6Src,
        TunIpv6Dst,
        TunGbpId,
        TunGbpFlags,
        TunErspanVer,
        TunErspanIdx,
        TunErspanDir,
        TunErspanHwid,
        TunFlags,
    ]
};

/// VLAN tags that the parser takes, outermost first, unless it is told to take fewer.
pub const VLAN_PARSED: u32 = 4;
/// VLAN tags that a packet can have in one pass.
pub const VLAN_MAX: u32 = 8;
/// MPLS entries that the parser takes, outermost first.
pub const MPLS_PARSED: u32 = 8;
/// MPLS entries that a packet can have in one pass.
pub const MPLS_MAX: u32 = 12;
/// IPv6 extension headers that the parser takes.
pub const IPV6_EXTENSIONS_MAX: u32 = 8;
/// Neighbour discovery options in front of the link-layer address that the parser takes.
pub const ND_OPTIONS_MAX: u32 = 2;

macro_rules! headers {
    ($($(#[$doc:meta])* $name:ident: $ty:ty,)*) => {
        /// Ids of all headers, of the fields that something reads or writes, and of the metadata.
        ///
        /// A field of a stack is that of its first (outermost) element; [`Headers::nth`] gives the
        /// others.
        #[derive(Clone, Debug)]
        #[allow(missing_docs)] // the names are those of the program's text form
        pub struct Headers { $($(#[$doc])* pub $name: $ty,)* }
    };
}

headers! {
    push_eth: HeaderId, push_eth_dst: FieldRef, push_eth_src: FieldRef, push_eth_type: FieldRef,
    push_itag: HeaderId, push_itag_pcp: FieldRef, push_itag_isid: FieldRef,
    eth: HeaderId, eth_dst: FieldRef, eth_src: FieldRef, eth_type: FieldRef,
    vlan: StackId, vlan_0: HeaderId,
    vlan_pcp: FieldRef, vlan_vid: FieldRef, vlan_type: FieldRef,
    /// The EtherType behind the innermost tag.
    vlan_last_type: FieldRef,
    snap: HeaderId, snap_type: FieldRef,
    mpls: StackId, mpls_0: HeaderId,
    mpls_label: FieldRef, mpls_tc: FieldRef, mpls_bos: FieldRef, mpls_ttl: FieldRef,
    /// The bottom-of-stack bit of the entry parsed last.
    mpls_last_bos: FieldRef,
    itag: HeaderId, itag_uca: FieldRef, itag_isid: FieldRef,
    arp: HeaderId, arp_op: FieldRef, arp_sha: FieldRef, arp_spa: FieldRef, arp_tha: FieldRef,
    arp_tpa: FieldRef,
    ipv4: HeaderId, ipv4_version: FieldRef, ipv4_ihl: FieldRef, ipv4_dscp: FieldRef,
    ipv4_ecn: FieldRef, ipv4_len: FieldRef,
    /// More-fragments bit and fragment offset, 14 bits.
    ipv4_frag: FieldRef,
    ipv4_ttl: FieldRef, ipv4_proto: FieldRef, ipv4_csum: FieldRef, ipv4_src: FieldRef,
    ipv4_dst: FieldRef,
    ipv4_options: HeaderId,
    ipv6: HeaderId, ipv6_dscp: FieldRef, ipv6_ecn: FieldRef, ipv6_flabel: FieldRef,
    ipv6_next: FieldRef, ipv6_hlim: FieldRef, ipv6_src: FieldRef, ipv6_dst: FieldRef,
    /// Extension headers, whatever their type.
    ipv6_ext: StackId, ipv6_ext_0: HeaderId,
    /// The next header behind the last extension header.
    ipv6_ext_last_next: FieldRef,
    tcp: HeaderId, tcp_src: FieldRef, tcp_dst: FieldRef, tcp_flags: FieldRef, tcp_csum: FieldRef,
    udp: HeaderId, udp_src: FieldRef, udp_dst: FieldRef, udp_csum: FieldRef,
    sctp: HeaderId, sctp_src: FieldRef, sctp_dst: FieldRef, sctp_vtag: FieldRef,
    sctp_csum: FieldRef,
    /// All chunks of a packet so short that an Ethernet frame of it is padded: 4, 8 or 12 bytes.
    sctp_short: [HeaderId; 3], sctp_short_data: [FieldRef; 3],
    /// Headers of first fragments whose fields are not shown: only their checksums follow the addresses.
    first_tcp: HeaderId, first_tcp_csum: FieldRef, first_udp: HeaderId, first_udp_csum: FieldRef,
    first_icmpv6: HeaderId, first_icmpv6_csum: FieldRef,
    icmp: HeaderId, icmp_type: FieldRef, icmp_code: FieldRef, icmp_csum: FieldRef,
    icmpv6: HeaderId, icmpv6_type: FieldRef, icmpv6_code: FieldRef, icmpv6_csum: FieldRef,
    nd: HeaderId, nd_target: FieldRef,
    /// Options in front of the link-layer address.
    nd_option: StackId,
    nd_sll: HeaderId, nd_sll_addr: FieldRef,
    nd_tll: HeaderId, nd_tll_addr: FieldRef,

    /// 1 once an Ethernet header was parsed and the fragment policy lets the packet pass.
    ok: MetaId,
    /// The EtherType behind all VLAN tags; 0x05ff for an LLC frame without SNAP.
    ether_type: MetaId,
    /// The IPv4 protocol, or the next header behind IPv6's extension headers.
    ip_proto: MetaId,
    /// `OFPIEH_*` bits (1.3.5 §7.2.3.8).
    exthdr: MetaId,
    /// The place in RFC 2460 §4.1's order of the extension header seen last.
    exthdr_rank: MetaId,
    /// Bit 0: the packet is a fragment; bit 1: not the first one.
    fragment: MetaId,
    /// A routing header has segments left, so that checksums cover another destination.
    routed: MetaId,
    /// OpenFlow's metadata register.
    metadata: MetaId,
    /// The logical port's metadata.
    tunnel_id: MetaId,
    /// Open vSwitch's registers.
    regs: [MetaId; 16],
    /// The packet's stack: what was pushed last comes first.
    stack: [MetaId; 4],
    /// How many are on it.
    stacked: MetaId,
    /// Which of the control side's own packets it is; 0 for one of a port's.
    injection: MetaId,
    /// How many tables were resubmitted to that have not come back.
    called: MetaId,
    /// Whether what was learned last is or will be there.
    learnt: MetaId,
    /// A bundle's member that was chosen, and how: the packet's hash, the greatest weight so far, and
    /// whether a member is live.
    member: MetaId,
    /// See `member`.
    member_hash: MetaId,
    /// See `member`.
    member_weight: MetaId,
    /// See `member`.
    member_live: MetaId,
    /// The conjunctive flow whose entries are looked up.
    conj_id: MetaId,
    /// What the connection tracker said, in the order of [`tracker::RESULTS`].
    ct: [MetaId; tracker::RESULTS.len()],
    /// Value and mask of the mark, and of the label, that the next `ct` sets.
    ct_exec: [MetaId; 4],
    /// An output to the ingress port was suppressed.
    suppressed: MetaId,
    /// What the meter said.
    color: MetaId, level: MetaId,
    /// The queue that an `enqueue` sets another in place of.
    kept_queue: MetaId,
    /// The action set's metadata.
    slots: Slots,
    /// How many output ports' egress processing the packet, or what it is a copy of, has begun; 0 in
    /// ingress tables.
    egress_passes: MetaId,
    /// An `exit` was reached: tables that it was resubmitted from do no more.
    exit: MetaId,
    /// Those of [`METADATA`], in its order.
    plain: [MetaId; METADATA.len()],
    /// The port that the packet came in by, exclusive-or the one that actions say it did.
    in_port_changed: MetaId,
    /// A value on its way into several fields.
    scratch: MetaId,
    /// What the packet carries from service to service, in the order of [`SF_FIELDS`].
    sf: [MetaId; SF_FIELDS.len()],
    /// The block of the first egress table; none while outputs go straight to their ports.
    egress: Option<BlockId>,
    /// The packet's mirrors are decided as far as it came in.
    entered: MetaId,
    /// Mirrors whose place has a copy of the packet, a bit each.
    mirrored: MetaId,
    /// Of the ports that share a group under NORMAL: those that a packet is for.
    flood_class: MetaId,
    /// Nothing went to a port, since the packet came in by another protected one.
    withheld: MetaId,
    /// A service has made the packet an answer, which goes back.
    answered: MetaId,
    /// Ports that exchange no packets.
    protected: PortSet,
    /// VLANs in which NORMAL neither learns nor asks where stations are.
    flood_vlans: VlanSet,
    /// NORMAL forwards frames to addresses that are reserved for bridges.
    forwards_bpdu: bool,
    /// Under NORMAL where there are bonds: the port that the packet came in by, or its bond.
    bundle: MetaId,
    /// It came in by a bond that balances by source.
    slb: MetaId,
    /// What the program has for bonds.
    bonds: Option<Arc<Bonding>>,
    /// The program's mirrors.
    mirrors: Arc<[Mirror]>,
    /// The counters of mirrors.
    mirror_counter: u32,
    /// What the program has for tunnel ports.
    tunnels: Option<TunnelHeaders>,
    /// VLAN tags that the parser takes.
    vlan_parsed: u32,
    /// Blocks in front of those of tables.
    first_block: u32,
}

/// The block that applies a flow table. Behind each comes that of its conjunctive flows.
fn block(first: u32, table: u8) -> BlockId {
    BlockId(first + 2 * u32::from(table))
}

fn varbit(fields: &[(&str, u32)], name: &str, width: u32) -> Vec<Field> {
    let fixed = |(name, width): &(&str, u32)| Field {
        name: (*name).to_string(),
        width: *width,
        varbit: false,
    };
    let last = Field { name: name.to_string(), width, varbit: true };
    fields.iter().map(fixed).chain([last]).collect()
}

impl Headers {
    /// The block that applies a flow table.
    pub(super) fn table_block(&self, table: u8) -> BlockId {
        block(self.first_block, table)
    }

    /// The block that applies a table's conjunctive flows.
    pub(super) fn conjunctive_block(&self, table: u8) -> BlockId {
        BlockId(self.table_block(table).0 + 1)
    }

    /// Declares everything, and the order of emission.
    pub(super) fn declare(b: &mut Builder, extras: &Extras) -> Headers {
        let mirrors = extras.mirrors.clone();
        let first_block = if mirrors.is_empty() { 0 } else { 2 };
        let egress = extras.first_egress.map(|table| block(first_block, table));
        let eth_t = b.header_type("ethernet", &[("dst", 48), ("src", 48), ("type", 16)]);
        let itag_t =
            b.header_type("itag", &[("pcp", 3), ("dei", 1), ("uca", 1), ("res", 3), ("isid", 24)]);
        let vlan_t = b.header_type("vlan", &[("pcp", 3), ("dei", 1), ("vid", 12), ("type", 16)]);
        let snap_t = b.header_type("snap", &[("llc", 24), ("oui", 24), ("type", 16)]);
        let mpls_t = b.header_type("mpls", &[("label", 20), ("tc", 3), ("bos", 1), ("ttl", 8)]);
        let arp_t = b.header_type(
            "arp",
            &[
                ("htype", 16),
                ("ptype", 16),
                ("hlen", 8),
                ("plen", 8),
                ("op", 16),
                ("sha", 48),
                ("spa", 32),
                ("tha", 48),
                ("tpa", 32),
            ],
        );
        let ipv4_t = b.header_type(
            "ipv4",
            &[
                ("version", 4),
                ("ihl", 4),
                ("dscp", 6),
                ("ecn", 2),
                ("len", 16),
                ("id", 16),
                ("flags", 2),
                ("frag", 14),
                ("ttl", 8),
                ("proto", 8),
                ("csum", 16),
                ("src", 32),
                ("dst", 32),
            ],
        );
        let ipv4_options_t = b.header_type_fields("ipv4_options", varbit(&[], "options", 320));
        let ipv6_t = b.header_type(
            "ipv6",
            &[
                ("version", 4),
                ("dscp", 6),
                ("ecn", 2),
                ("flabel", 20),
                ("len", 16),
                ("next", 8),
                ("hlim", 8),
                ("src", 128),
                ("dst", 128),
            ],
        );
        let ipv6_ext_t =
            b.header_type_fields("ipv6_ext", varbit(&[("next", 8), ("len", 8)], "body", 2032));
        let tcp_t = b.header_type(
            "tcp",
            &[
                ("src", 16),
                ("dst", 16),
                ("seq", 32),
                ("ack", 32),
                ("offset", 4),
                ("flags", 12),
                ("window", 16),
                ("csum", 16),
                ("urgent", 16),
            ],
        );
        let udp_t = b.header_type("udp", &[("src", 16), ("dst", 16), ("len", 16), ("csum", 16)]);
        let sctp_t = b.header_type("sctp", &[("src", 16), ("dst", 16), ("vtag", 32), ("csum", 32)]);
        let sctp_short_t = [4, 8, 12]
            .map(|bytes| b.header_type(&format!("sctp_{bytes}"), &[("chunks", 8 * bytes)]));
        let icmp_t = b.header_type("icmp", &[("type", 8), ("code", 8), ("csum", 16)]);
        let nd_t = b.header_type("nd", &[("flags", 32), ("target", 128)]);
        let nd_option_t =
            b.header_type_fields("nd_option", varbit(&[("type", 8), ("len", 8)], "body", 496));
        let nd_ll_t = b.header_type("nd_ll", &[("type", 8), ("len", 8), ("addr", 48)]);

        let push_eth = b.header("push_eth", eth_t);
        let push_itag = b.header("push_itag", itag_t);
        let eth = b.header("eth", eth_t);
        let vlan = b.stack("vlan", vlan_t, VLAN_MAX);
        let snap = b.header("snap", snap_t);
        let mpls = b.stack("mpls", mpls_t, MPLS_MAX);
        let itag = b.header("itag", itag_t);
        let arp = b.header("arp", arp_t);
        let ipv4 = b.header("ipv4", ipv4_t);
        let ipv4_options = b.header("ipv4_options", ipv4_options_t);
        let ipv6 = b.header("ipv6", ipv6_t);
        let ipv6_ext = b.stack("ipv6_ext", ipv6_ext_t, IPV6_EXTENSIONS_MAX);
        let tcp = b.header("tcp", tcp_t);
        let udp = b.header("udp", udp_t);
        let sctp = b.header("sctp", sctp_t);
        let sctp_short = sctp_short_t.map(|ty| {
            let name = b.program().header_types[ty.index()].name.clone();
            b.header(&name, ty)
        });
        let icmp = b.header("icmp", icmp_t);
        let icmpv6 = b.header("icmpv6", icmp_t);
        let first_tcp = b.header("first_tcp", tcp_t);
        let first_udp = b.header("first_udp", udp_t);
        let first_icmpv6 = b.header("first_icmpv6", icmp_t);
        let nd = b.header("nd", nd_t);
        let nd_option = b.stack("nd_option", nd_option_t, ND_OPTIONS_MAX);
        let nd_sll = b.header("nd_sll", nd_ll_t);
        let nd_tll = b.header("nd_tll", nd_ll_t);

        let tunnels = extras.tunnels.as_ref().map(|map| TunnelHeaders::declare(b, map));
        b.emit(push_eth);
        b.emit(push_itag);
        b.emit(eth);
        b.emit_stack(vlan);
        b.emit(snap);
        b.emit_stack(mpls);
        for header in [itag, arp, ipv4, ipv4_options, ipv6] {
            b.emit(header);
        }
        b.emit_stack(ipv6_ext);
        for header in [tcp, udp, sctp].into_iter().chain(sctp_short).chain([icmp, icmpv6, nd]) {
            b.emit(header);
        }
        b.emit_stack(nd_option);
        b.emit(nd_sll);
        b.emit(nd_tll);
        for header in [first_tcp, first_udp, first_icmpv6] {
            b.emit(header);
        }

        let ok = b.meta("of.ok", 1);
        let ether_type = b.meta("of.eth_type", 16);
        let ip_proto = b.meta("of.ip_proto", 8);
        let exthdr = b.meta("of.ipv6_exthdr", 9);
        let exthdr_rank = b.meta("of.ipv6_exthdr_rank", 3);
        let fragment = b.meta("of.fragment", 2);
        let routed = b.meta("of.routed", 1);
        let metadata = b.meta("of.metadata", 64);
        let regs = std::array::from_fn(|i| b.meta(&format!("of.reg{i}"), 32));
        let stack = std::array::from_fn(|i| b.meta(&format!("of.stack{i}"), 128));
        let stacked = b.meta("of.stacked", 8);
        let injection = b.meta("of.injection", 32);
        let learnt = b.meta("of.learnt", 1);
        let called = b.meta("of.called", 8);
        let member = b.meta("of.member", 32);
        let member_hash = b.meta("of.member_hash", 32);
        let member_weight = b.meta("of.member_weight", 32);
        let member_live = b.meta("of.member_live", 1);
        let conj_id = b.meta("of.conj_id", 32);
        let ct = tracker::RESULTS.map(|(name, width)| b.meta(&format!("of.ct_{name}"), width));
        let ct_exec = [("mark", 32), ("mark_mask", 32), ("label", 128), ("label_mask", 128)]
            .map(|(name, width)| b.meta(&format!("of.ct_exec_{name}"), width));
        let tunnel_id = b.meta("of.tunnel_id", 64);
        let suppressed = b.meta("of.suppressed", 1);
        let color = b.meta("of.color", 8);
        let level = b.meta("of.level", 8);
        let slots = Slots::declare(b);
        let egress_passes = b.meta("of.egress_passes", 8);
        let exit = b.meta("of.exit", 1);
        let plain = METADATA.map(|id| b.meta(&format!("of.{id}"), id.info().bits));
        let in_port_changed = b.meta("of.in_port_changed", 32);
        let scratch = b.meta("of.scratch", 128);
        let sf = SF_FIELDS.map(|(name, width)| b.meta(&format!("of.sf_{name}"), width));
        let entered = b.meta("of.entered", 1);
        let mirrored = b.meta("of.mirrored", 32);
        let flood_class = b.meta("of.flood_class", 32);
        let bundle = b.meta("of.bundle", 32);
        let slb = b.meta("of.slb", 1);
        let kept_queue = b.meta("of.kept_queue", 32);
        let withheld = b.meta("of.withheld", 1);
        let answered = b.meta("of.answered", 1);
        let mirror_counter = match mirrors.is_empty() {
            true => 0,
            false => b.counter("mirrors", MIRRORS_MAX as u32),
        };

        let field = |h: HeaderId, name: &str| FieldRef::Header(h, b.field(h, name));
        let last = |s: StackId, name: &str| FieldRef::Last(s, b.field(b.element(s, 0), name));
        let vlan_0 = b.element(vlan, 0);
        let mpls_0 = b.element(mpls, 0);
        let ipv6_ext_0 = b.element(ipv6_ext, 0);
        Headers {
            push_eth,
            push_eth_dst: field(push_eth, "dst"),
            push_eth_src: field(push_eth, "src"),
            push_eth_type: field(push_eth, "type"),
            push_itag,
            push_itag_pcp: field(push_itag, "pcp"),
            push_itag_isid: field(push_itag, "isid"),
            eth,
            eth_dst: field(eth, "dst"),
            eth_src: field(eth, "src"),
            eth_type: field(eth, "type"),
            vlan,
            vlan_0,
            vlan_pcp: field(vlan_0, "pcp"),
            vlan_vid: field(vlan_0, "vid"),
            vlan_type: field(vlan_0, "type"),
            vlan_last_type: last(vlan, "type"),
            snap,
            snap_type: field(snap, "type"),
            mpls,
            mpls_0,
            mpls_label: field(mpls_0, "label"),
            mpls_tc: field(mpls_0, "tc"),
            mpls_bos: field(mpls_0, "bos"),
            mpls_ttl: field(mpls_0, "ttl"),
            mpls_last_bos: last(mpls, "bos"),
            itag,
            itag_uca: field(itag, "uca"),
            itag_isid: field(itag, "isid"),
            arp,
            arp_op: field(arp, "op"),
            arp_sha: field(arp, "sha"),
            arp_spa: field(arp, "spa"),
            arp_tha: field(arp, "tha"),
            arp_tpa: field(arp, "tpa"),
            ipv4,
            ipv4_version: field(ipv4, "version"),
            ipv4_ihl: field(ipv4, "ihl"),
            ipv4_dscp: field(ipv4, "dscp"),
            ipv4_ecn: field(ipv4, "ecn"),
            ipv4_len: field(ipv4, "len"),
            ipv4_frag: field(ipv4, "frag"),
            ipv4_ttl: field(ipv4, "ttl"),
            ipv4_proto: field(ipv4, "proto"),
            ipv4_csum: field(ipv4, "csum"),
            ipv4_src: field(ipv4, "src"),
            ipv4_dst: field(ipv4, "dst"),
            ipv4_options,
            ipv6,
            ipv6_dscp: field(ipv6, "dscp"),
            ipv6_ecn: field(ipv6, "ecn"),
            ipv6_flabel: field(ipv6, "flabel"),
            ipv6_next: field(ipv6, "next"),
            ipv6_hlim: field(ipv6, "hlim"),
            ipv6_src: field(ipv6, "src"),
            ipv6_dst: field(ipv6, "dst"),
            ipv6_ext,
            ipv6_ext_0,
            ipv6_ext_last_next: last(ipv6_ext, "next"),
            tcp,
            tcp_src: field(tcp, "src"),
            tcp_dst: field(tcp, "dst"),
            tcp_flags: field(tcp, "flags"),
            tcp_csum: field(tcp, "csum"),
            udp,
            udp_src: field(udp, "src"),
            udp_dst: field(udp, "dst"),
            udp_csum: field(udp, "csum"),
            sctp,
            sctp_src: field(sctp, "src"),
            sctp_dst: field(sctp, "dst"),
            sctp_vtag: field(sctp, "vtag"),
            sctp_csum: field(sctp, "csum"),
            sctp_short,
            sctp_short_data: sctp_short.map(|h| field(h, "chunks")),
            first_tcp,
            first_tcp_csum: field(first_tcp, "csum"),
            first_udp,
            first_udp_csum: field(first_udp, "csum"),
            first_icmpv6,
            first_icmpv6_csum: field(first_icmpv6, "csum"),
            icmp,
            icmp_type: field(icmp, "type"),
            icmp_code: field(icmp, "code"),
            icmp_csum: field(icmp, "csum"),
            icmpv6,
            icmpv6_type: field(icmpv6, "type"),
            icmpv6_code: field(icmpv6, "code"),
            icmpv6_csum: field(icmpv6, "csum"),
            nd,
            nd_target: field(nd, "target"),
            nd_option,
            nd_sll,
            nd_sll_addr: field(nd_sll, "addr"),
            nd_tll,
            nd_tll_addr: field(nd_tll, "addr"),
            ok,
            ether_type,
            ip_proto,
            exthdr,
            exthdr_rank,
            fragment,
            routed,
            metadata,
            tunnel_id,
            regs,
            stack,
            stacked,
            injection,
            learnt,
            called,
            member,
            member_hash,
            member_weight,
            member_live,
            conj_id,
            ct,
            ct_exec,
            suppressed,
            color,
            level,
            kept_queue,
            slots,
            egress_passes,
            exit,
            plain,
            in_port_changed,
            scratch,
            sf,
            egress,
            entered,
            mirrored,
            flood_class,
            withheld,
            answered,
            protected: extras.protected.clone(),
            flood_vlans: extras.flood_vlans.clone(),
            forwards_bpdu: extras.forwards_bpdu,
            bundle,
            slb,
            bonds: extras.bonds.clone(),
            mirrors,
            mirror_counter,
            tunnels,
            vlan_parsed: extras.vlan_parsed(),
            first_block,
        }
    }

    /// The port that the packet came in by, or that actions say it did. Where none says so, what is kept of
    /// that is known to be zero, and the compiler leaves it out.
    pub fn in_port(&self) -> Expr {
        let real = Expr::meta(ir::program::intrinsic::IN_PORT);
        Expr::binary(ir::BinaryOp::Xor, real, Expr::meta(self.in_port_changed))
    }

    /// The port that the packet came in by.
    pub(crate) fn in_phy_port(&self) -> Expr {
        let port = ir::program::intrinsic::IN_PORT;
        match self.tunnels {
            // Without what it is marked by for a tunnel port.
            Some(_) => {
                let of_tunnel = Expr::meta(port).slice(31, 16);
                let of_tunnel = of_tunnel.eq(Expr::int(u128::from(descriptor::IN_PORT >> 16), 16));
                let number = Expr::meta(port).slice(15, 0).cast(32);
                Expr::Mux(Box::new(of_tunnel), Box::new(number), Box::new(Expr::meta(port)))
            }
            None => Expr::meta(port),
        }
    }

    /// The metadata of a match field that is metadata and nothing else.
    pub(crate) fn meta_of(&self, id: FieldId) -> Option<MetaId> {
        let at = METADATA.iter().position(|plain| *plain == id);
        at.map(|at| self.plain[at]).or((id == FieldId::TunnelId).then_some(self.tunnel_id))
    }

    /// Under NORMAL: that port, or the bond that it is a member of.
    pub(super) fn bundle(&self) -> Expr {
        match self.bonds {
            Some(_) => Expr::meta(self.bundle),
            None => self.in_port(),
        }
    }

    /// The same field of the `i`-th element of the stack.
    pub fn nth(field: FieldRef, i: u32) -> FieldRef {
        match field {
            FieldRef::Header(header, field) => FieldRef::Header(HeaderId(header.0 + i), field),
            other => other,
        }
    }

    /// One bit: the packet's EtherType is IPv4's or IPv6's.
    pub fn is_ip(&self) -> Expr {
        let is = |v: u128| Expr::meta(self.ether_type).eq(Expr::int(v, 16));
        is(0x0800).or(is(0x86dd))
    }

    /// Bitwise or of the same field in IPv4 and IPv6: at most one of the headers is valid, and a
    /// field of the other one reads as zero.
    pub fn either(v4: FieldRef, v6: FieldRef) -> Expr {
        Expr::binary(ir::BinaryOp::Or, Expr::Field(v4), Expr::Field(v6))
    }
}
