//! The parser graph: from Ethernet to the last field that OpenFlow can match.
//!
//! Ethernet, up to four VLAN tags or as many as are asked for, then by EtherType: PBB (the I-TAG; the customer's frame stays
//! payload), MPLS (behind the bottom of the stack, IPv4 or IPv6 if the first nibble says so), ARP,
//! IPv4 with options, IPv6 with extension headers, then TCP, UDP, SCTP, ICMP, ICMPv6 with neighbour
//! discovery. A header that is cut short or malformed is left in the payload: the packet goes on,
//! and fields of that header read as zero.
//!
//! Metadata that the parser computes is taken to be zero at the start; who parses again zeroes it
//! first ([`super::ops::reparse`]), but for what checksums look at: that the IPv6 state sets.
//!
//! Fragments (1.3.5 §7.3.2, `OFPC_FRAG_*`; ovs-ofctl(8), `set-frags`): fields of layer 4 read as zero in
//! later fragments, which have none, and in first ones, whose header is one of its own that only a
//! checksum looks at, so that changed addresses leave it right. One value set says which fragments
//! (first, later) are to be dropped, another one whether first ones have their fields after all.

use super::headers::{Headers, IPV6_EXTENSIONS_MAX, MPLS_PARSED, ND_OPTIONS_MAX};
use super::tunnel;
use ir::builder::Builder;
use ir::{
    BinaryOp, Bits, Expr, FieldRef, HeaderId, MetaId, ParserOp, ParserStateId, Select, SelectCase,
    Transition, ValueSetId,
};

/// `OFPIEH_*`: bits of the `ipv6_exthdr` pseudo-field (1.3.5 §7.2.3.8).
pub mod exthdr {
    /// "No next header" was met.
    pub const NONEXT: u16 = 1 << 0;
    /// Encapsulating security payload.
    pub const ESP: u16 = 1 << 1;
    /// Authentication header.
    pub const AUTH: u16 = 1 << 2;
    /// One or two destination options headers.
    pub const DEST: u16 = 1 << 3;
    /// Fragment header.
    pub const FRAG: u16 = 1 << 4;
    /// Routing header.
    pub const ROUTER: u16 = 1 << 5;
    /// Hop-by-hop options.
    pub const HOP: u16 = 1 << 6;
    /// A header came more often than expected.
    pub const UNREP: u16 = 1 << 7;
    /// Headers came in another order than RFC 2460 §4.1 prefers.
    pub const UNSEQ: u16 = 1 << 8;
}

fn exact(value: u128, width: u32) -> Select {
    Select::Masked(Bits::from_u128(value, width), Bits::ones(width))
}

fn masked(value: u128, mask: u128, width: u32) -> Select {
    Select::Masked(Bits::from_u128(value, width), Bits::from_u128(mask, width))
}

fn range(lo: u128, hi: u128, width: u32) -> Select {
    Select::Range(Bits::from_u128(lo, width), Bits::from_u128(hi, width))
}

fn case(patterns: Vec<Select>, state: ParserStateId) -> SelectCase {
    SelectCase { patterns, next: Transition::State(state) }
}

/// The last case: nothing above matched, the rest is payload.
fn accept(keys: usize) -> SelectCase {
    SelectCase { patterns: vec![Select::Any; keys], next: Transition::Accept }
}

fn lookahead(skip: u32, width: u32) -> Expr {
    Expr::Lookahead { skip, width }
}

fn extract(header: HeaderId) -> ParserOp {
    ParserOp::Extract { header, varbit: None }
}

fn assign(meta: MetaId, value: Expr) -> ParserOp {
    ParserOp::Assign(FieldRef::Meta(meta), value)
}

/// `(byte + add) * 2^shift - 16` bits: the rest of a header whose second byte counts units.
fn rest_bits(add: u128, shift: u128) -> Expr {
    let units = Expr::binary(BinaryOp::Add, lookahead(8, 8).cast(16), Expr::int(add, 16));
    let bits = Expr::binary(BinaryOp::Shl, units, Expr::int(shift, 16));
    Expr::binary(BinaryOp::Sub, bits, Expr::int(16, 16))
}

/// States by what they take, so that earlier ones can go to later ones.
struct States {
    vlan: ParserStateId,
    llc: ParserStateId,
    mpls: ParserStateId,
    pbb: ParserStateId,
    arp: ParserStateId,
    ipv4: ParserStateId,
    ipv6: ParserStateId,
    tcp: ParserStateId,
    udp: ParserStateId,
    sctp: ParserStateId,
    icmp: ParserStateId,
    icmpv6: ParserStateId,
    first_tcp: ParserStateId,
    first_udp: ParserStateId,
    first_icmpv6: ParserStateId,
    fragment_drop: ParserStateId,
}

/// The value sets of fragments.
#[derive(Clone, Copy)]
struct Policy {
    /// Those to drop.
    drop: ValueSetId,
    /// Those whose fields of layer 4 are shown.
    shown: ValueSetId,
}

/// Declares the whole parser. Returns the value sets of fragments to drop, and of those whose fields of layer 4
/// are shown: members are values of [`Headers::fragment`] (1 first, 3 later fragments).
pub(super) fn declare(b: &mut Builder, h: &Headers) -> (ValueSetId, ValueSetId) {
    let drop = b.value_set("drop_fragments", 2, 4);
    let shown = b.value_set("shown_fragments", 2, 4);
    let policy = Policy { drop, shown };
    let first = b.state("start");
    let start = if h.tunnels.is_some() { b.state("frame") } else { first };
    tunnel::start(b, h, first, start);
    let s = States {
        vlan: b.state("vlan"),
        llc: b.state("llc"),
        mpls: b.state("mpls"),
        pbb: b.state("pbb"),
        arp: b.state("arp"),
        ipv4: b.state("ipv4"),
        ipv6: b.state("ipv6"),
        tcp: b.state("tcp"),
        udp: b.state("udp"),
        sctp: b.state("sctp"),
        icmp: b.state("icmp"),
        icmpv6: b.state("icmpv6"),
        first_tcp: b.state("first_tcp"),
        first_udp: b.state("first_udp"),
        first_icmpv6: b.state("first_icmpv6"),
        fragment_drop: b.state("fragment_drop"),
    };

    // The length field of an LLC frame is below 0x600 (IEEE 802.3 §3.2.6).
    let mut cases = ether_type_cases(&s, 2);
    let tag = |tpid: u128| case(vec![exact(tpid, 16), Select::Any], s.vlan);
    cases.extend([tag(0x8100), tag(0x88a8)]);
    cases.extend([case(vec![range(0, 0x05ff, 16), Select::Any], s.llc), accept(2)]);
    b.set_state(
        start,
        vec![
            extract(h.eth),
            assign(h.ok, Expr::bool(true)),
            assign(h.ether_type, Expr::Field(h.eth_type)),
        ],
        Transition::Select { keys: vec![Expr::Field(h.eth_type), lookahead(0, 8)], cases },
    );

    let mut cases = ether_type_cases(&s, 3);
    // What is behind the last tag is payload, even if it is a tag; its type is the packet's EtherType.
    let more = range(0, (h.vlan_parsed - 1).into(), 8);
    let tag = |tpid: u128| case(vec![exact(tpid, 16), Select::Any, more.clone()], s.vlan);
    cases.extend([tag(0x8100), tag(0x88a8)]);
    cases.push(case(vec![range(0, 0x05ff, 16), Select::Any, Select::Any], s.llc));
    cases.push(accept(3));
    let last = Expr::Field(h.vlan_last_type);
    b.set_state(
        s.vlan,
        vec![
            ParserOp::ExtractNext { stack: h.vlan, varbit: None },
            assign(h.ether_type, last.clone()),
        ],
        Transition::Select { keys: vec![last, lookahead(0, 8), Expr::StackSize(h.vlan)], cases },
    );

    llc(b, h, &s);
    mpls(b, h, &s);
    b.set_state(s.pbb, vec![extract(h.itag)], Transition::Accept);
    arp(b, h, &s);
    ipv4(b, h, &s, policy);
    ipv6(b, h, &s, policy);
    let first =
        [(s.first_tcp, h.first_tcp), (s.first_udp, h.first_udp), (s.first_icmpv6, h.first_icmpv6)];
    for (state, header) in
        [(s.tcp, h.tcp), (s.udp, h.udp), (s.icmp, h.icmp)].into_iter().chain(first)
    {
        b.set_state(state, vec![extract(header)], Transition::Accept);
    }
    sctp(b, h, &s);
    icmpv6(b, h, &s);
    b.set_state(s.fragment_drop, vec![assign(h.ok, Expr::bool(false))], Transition::Accept);
    (drop, shown)
}

/// Cases on (EtherType, the byte behind it, ...): an IP version that contradicts the EtherType, or
/// an impossible header length, is payload.
fn ether_type_cases(s: &States, keys: usize) -> Vec<SelectCase> {
    let c = |ether_type: u128, next: Select, state: ParserStateId| {
        let mut patterns = vec![Select::Any; keys];
        patterns[0] = exact(ether_type, 16);
        patterns[1] = next;
        case(patterns, state)
    };
    vec![
        c(0x0800, range(0x45, 0x4f, 8), s.ipv4),
        c(0x86dd, masked(0x60, 0xf0, 8), s.ipv6),
        c(0x0806, Select::Any, s.arp),
        c(0x8035, Select::Any, s.arp),
        c(0x8847, Select::Any, s.mpls),
        c(0x8848, Select::Any, s.mpls),
        c(0x88e7, Select::Any, s.pbb),
    ]
}

/// LLC: SNAP with OUI 0 carries an EtherType; all else is of type 0x05ff, as OpenFlow 1.0 §3.4
/// has it.
fn llc(b: &mut Builder, h: &Headers, s: &States) {
    let snap = b.state("snap");
    let plain = b.state("llc_plain");
    b.set_state(
        s.llc,
        vec![],
        Transition::Select {
            keys: vec![lookahead(0, 48)],
            cases: vec![
                case(vec![exact(0xaaaa_0300_0000, 48)], snap),
                case(vec![Select::Any], plain),
            ],
        },
    );
    b.set_state(plain, vec![assign(h.ether_type, Expr::int(0x05ff, 16))], Transition::Accept);
    let mut cases = ether_type_cases(s, 2);
    cases.push(accept(2));
    b.set_state(
        snap,
        vec![extract(h.snap), assign(h.ether_type, Expr::Field(h.snap_type))],
        Transition::Select { keys: vec![Expr::Field(h.snap_type), lookahead(0, 8)], cases },
    );
}

fn mpls(b: &mut Builder, h: &Headers, s: &States) {
    let inner = b.state("mpls_inner");
    b.set_state(
        s.mpls,
        vec![ParserOp::ExtractNext { stack: h.mpls, varbit: None }],
        Transition::Select {
            keys: vec![Expr::Field(h.mpls_last_bos), Expr::StackSize(h.mpls)],
            cases: vec![
                case(vec![exact(1, 1), Select::Any], inner),
                case(vec![Select::Any, range(0, (MPLS_PARSED - 1) as u128, 8)], s.mpls),
                accept(2),
            ],
        },
    );
    b.set_state(
        inner,
        vec![],
        Transition::Select {
            keys: vec![lookahead(0, 8)],
            cases: vec![
                case(vec![range(0x45, 0x4f, 8)], s.ipv4),
                case(vec![masked(0x60, 0xf0, 8)], s.ipv6),
                accept(1),
            ],
        },
    );
}

/// Only ARP for IPv4 over Ethernet has fields at known places.
fn arp(b: &mut Builder, h: &Headers, s: &States) {
    let known = b.state("arp_ipv4");
    b.set_state(
        s.arp,
        vec![],
        Transition::Select {
            keys: vec![lookahead(0, 48)],
            cases: vec![case(vec![exact(0x0001_0800_0604, 48)], known), accept(1)],
        },
    );
    b.set_state(known, vec![extract(h.arp)], Transition::Accept);
}

fn ipv4(b: &mut Builder, h: &Headers, s: &States, policy: Policy) {
    let rare = b.state("ipv4_rare");
    let options = b.state("ipv4_options");
    let unfragmented = b.state("ipv4_behind_options");
    let fragment = b.state("ipv4_fragment");
    let protocols = [(6u128, s.tcp), (17, s.udp), (1, s.icmp), (132, s.sctp)];
    let proto = || Expr::Field(h.ipv4_proto);
    let ihl = || Expr::Field(h.ipv4_ihl);
    let frag = || Expr::Field(h.ipv4_frag);

    // Without options and unfragmented: one step to layer 4.
    let plain = [exact(5, 4), exact(0, 14)];
    let mut cases: Vec<_> = protocols
        .iter()
        .map(|(n, state)| case(vec![plain[0].clone(), plain[1].clone(), exact(*n, 8)], *state))
        .collect();
    cases.push(SelectCase {
        patterns: vec![plain[0].clone(), plain[1].clone(), Select::Any],
        next: Transition::Accept,
    });
    cases.push(case(vec![Select::Any; 3], rare));
    b.set_state(
        s.ipv4,
        vec![extract(h.ipv4), assign(h.ip_proto, proto())],
        Transition::Select { keys: vec![ihl(), frag(), proto()], cases },
    );

    b.set_state(
        rare,
        vec![],
        Transition::Select {
            keys: vec![ihl(), frag()],
            cases: vec![
                case(vec![exact(5, 4), Select::Any], fragment),
                case(vec![Select::Any; 2], options),
            ],
        },
    );
    let words = Expr::binary(BinaryOp::Sub, ihl().cast(16), Expr::int(5, 16));
    let bits = Expr::binary(BinaryOp::Shl, words, Expr::int(5, 16));
    b.set_state(
        options,
        vec![ParserOp::Extract { header: h.ipv4_options, varbit: Some(bits) }],
        Transition::Select {
            keys: vec![frag()],
            cases: vec![case(vec![exact(0, 14)], unfragmented), case(vec![Select::Any], fragment)],
        },
    );
    let layer_4 = |keys: usize| {
        let mut cases: Vec<_> = protocols
            .iter()
            .map(|(n, state)| {
                let mut patterns = vec![Select::Any; keys];
                patterns[keys - 1] = exact(*n, 8);
                case(patterns, *state)
            })
            .collect();
        cases.push(accept(keys));
        cases
    };
    b.set_state(
        unfragmented,
        vec![],
        Transition::Select { keys: vec![proto()], cases: layer_4(1) },
    );
    let later = frag().slice(12, 0).ne(Expr::int(0, 13));
    b.set_state(
        fragment,
        vec![assign(h.fragment, Expr::binary(BinaryOp::Concat, later, Expr::bool(true)))],
        Transition::Select {
            keys: vec![Expr::meta(h.fragment), proto()],
            cases: fragment_cases(policy, s, shown_cases(policy, s, &protocols), Vec::new()),
        },
    );
}

/// On (fragment, protocol): drop by policy; a later fragment is payload; a first one goes on as `shown` says,
/// or else as `others` do.
fn fragment_cases(
    policy: Policy,
    s: &States,
    shown: Vec<SelectCase>,
    others: Vec<SelectCase>,
) -> Vec<SelectCase> {
    let drop = case(vec![Select::ValueSet(policy.drop), Select::Any], s.fragment_drop);
    let later =
        SelectCase { patterns: vec![exact(0b11, 2), Select::Any], next: Transition::Accept };
    [drop, later].into_iter().chain(shown).chain(others).chain([accept(2)]).collect()
}

/// On (fragment, protocol): layer 4 of first fragments, by policy with its fields or without.
fn shown_cases(policy: Policy, s: &States, protocols: &[(u128, ParserStateId)]) -> Vec<SelectCase> {
    let of = |fragment: Select, n: u128, state| case(vec![fragment, exact(n, 8)], state);
    let shown = protocols.iter().map(|(n, state)| of(Select::ValueSet(policy.shown), *n, *state));
    let hidden = [(6, s.first_tcp), (17, s.first_udp), (58, s.first_icmpv6)];
    let hidden = hidden.into_iter().filter(|(n, _)| protocols.iter().any(|(p, _)| p == n));
    shown.chain(hidden.map(|(n, state)| of(Select::Any, n, state))).collect()
}

fn ipv6(b: &mut Builder, h: &Headers, s: &States, policy: Policy) {
    // Numbers and places (RFC 2460 §4.1); destination options have two places.
    let hop = b.state("ipv6_hop");
    let dest = b.state("ipv6_dest");
    let routing = b.state("ipv6_routing");
    let frag = b.state("ipv6_frag");
    let frag_policy = b.state("ipv6_fragment");
    let auth = b.state("ipv6_auth");
    let esp = b.state("ipv6_esp");
    let none = b.state("ipv6_none");
    let body = b.state("ipv6_ext");
    let auth_body = b.state("ipv6_auth_body");

    let layer_4 = [(6u128, s.tcp), (17, s.udp), (58, s.icmpv6), (132, s.sctp)];
    let extensions =
        [(0u128, hop), (60, dest), (43, routing), (44, frag), (51, auth), (50, esp), (59, none)];
    // On (fragment, next header), or on the latter alone.
    let by_number = |fragment: Option<Select>, numbers: &[(u128, ParserStateId)]| {
        let patterns = |n: u128| fragment.clone().into_iter().chain([exact(n, 8)]).collect();
        let cases = numbers.iter().map(|(n, state)| case(patterns(*n), *state));
        cases.collect::<Vec<SelectCase>>()
    };
    let first_cases: Vec<SelectCase> =
        [by_number(None, &layer_4), by_number(None, &extensions), vec![accept(1)]].concat();
    b.set_state(
        s.ipv6,
        vec![
            extract(h.ipv6),
            assign(h.ip_proto, Expr::Field(h.ipv6_next)),
            assign(h.fragment, Expr::int(0, 2)),
            assign(h.routed, Expr::bool(false)),
        ],
        Transition::Select { keys: vec![Expr::Field(h.ipv6_next)], cases: first_cases },
    );

    let seen = |bit: u16| {
        let bits = Expr::binary(BinaryOp::And, Expr::meta(h.exthdr), Expr::int(bit.into(), 9));
        bits.ne(Expr::int(0, 9))
    };
    let behind =
        |rank: u128| Expr::binary(BinaryOp::Gt, Expr::meta(h.exthdr_rank), Expr::int(rank, 3));
    let flag = |when: Expr, bit: u16| {
        Expr::Mux(Box::new(when), Box::new(Expr::int(bit.into(), 9)), Box::new(Expr::int(0, 9)))
    };
    let set = |exprs: Vec<Expr>| {
        let all =
            exprs.into_iter().fold(Expr::meta(h.exthdr), |a, e| Expr::binary(BinaryOp::Or, a, e));
        assign(h.exthdr, all)
    };
    // A header with one place in the order.
    let once = |bit: u16, rank: u128| {
        let rank_now = Expr::Mux(
            Box::new(behind(rank)),
            Box::new(Expr::meta(h.exthdr_rank)),
            Box::new(Expr::int(rank, 3)),
        );
        vec![
            set(vec![
                Expr::int(bit.into(), 9),
                flag(seen(bit), exthdr::UNREP),
                flag(behind(rank), exthdr::UNSEQ),
            ]),
            assign(h.exthdr_rank, rank_now),
        ]
    };
    // Long headers (beyond 256 bytes) and deep chains stay in the payload.
    let room = || range(0, (IPV6_EXTENSIONS_MAX - 1) as u128, 8);
    let take = |units: u128, state: ParserStateId| Transition::Select {
        keys: vec![Expr::StackSize(h.ipv6_ext), lookahead(8, 8)],
        cases: vec![case(vec![room(), range(0, units, 8)], state), accept(2)],
    };

    b.set_state(hop, once(exthdr::HOP, 1), take(31, body));
    // In front of routing and fragment headers (rank 2), or last (rank 7); a third one is one too
    // many.
    let first_place = Expr::binary(BinaryOp::Lt, Expr::meta(h.exthdr_rank), Expr::int(2, 3));
    b.set_state(
        dest,
        vec![
            set(vec![
                Expr::int(exthdr::DEST.into(), 9),
                flag(Expr::meta(h.exthdr_rank).eq(Expr::int(7, 3)), exthdr::UNREP),
            ]),
            assign(
                h.exthdr_rank,
                Expr::Mux(
                    Box::new(first_place),
                    Box::new(Expr::int(2, 3)),
                    Box::new(Expr::int(7, 3)),
                ),
            ),
        ],
        take(31, body),
    );
    let mut ops = once(exthdr::ROUTER, 3);
    let segments_left = lookahead(24, 8).ne(Expr::int(0, 8));
    ops.push(assign(h.routed, segments_left));
    b.set_state(routing, ops, take(31, body));
    b.set_state(auth, once(exthdr::AUTH, 5), take(62, auth_body));
    b.set_state(esp, once(exthdr::ESP, 6), Transition::Accept);
    b.set_state(none, vec![set(vec![Expr::int(exthdr::NONEXT.into(), 9)])], Transition::Accept);

    let last = || Expr::Field(h.ipv6_ext_last_next);
    for (state, bits) in [(body, rest_bits(1, 6)), (auth_body, rest_bits(2, 5))] {
        b.set_state(
            state,
            vec![
                ParserOp::ExtractNext { stack: h.ipv6_ext, varbit: Some(bits) },
                assign(h.ip_proto, last()),
            ],
            Transition::Select {
                keys: vec![Expr::meta(h.fragment), last()],
                cases: [
                    by_number(Some(exact(0, 2)), &layer_4),
                    shown_cases(policy, s, &layer_4),
                    by_number(Some(Select::Any), &extensions),
                    vec![accept(2)],
                ]
                .concat(),
            },
        );
    }

    // A fragment header with offset 0 and no more fragments makes no fragment (RFC 6946).
    let mut ops = once(exthdr::FRAG, 4);
    let later = lookahead(16, 13).ne(Expr::int(0, 13));
    let more = lookahead(31, 1);
    ops.push(assign(h.fragment, Expr::binary(BinaryOp::Concat, later.clone(), later.or(more))));
    b.set_state(
        frag,
        ops,
        Transition::Select {
            keys: vec![Expr::StackSize(h.ipv6_ext)],
            cases: vec![case(vec![room()], frag_policy), accept(1)],
        },
    );
    b.set_state(
        frag_policy,
        vec![
            ParserOp::ExtractNext { stack: h.ipv6_ext, varbit: Some(Expr::int(48, 16)) },
            assign(h.ip_proto, last()),
        ],
        Transition::Select {
            keys: vec![Expr::meta(h.fragment), last()],
            cases: fragment_cases(
                policy,
                s,
                [by_number(Some(exact(0, 2)), &layer_4), shown_cases(policy, s, &layer_4)].concat(),
                by_number(Some(Select::Any), &extensions),
            ),
        },
    );
}

/// SCTP. Its checksum covers the chunks up to the end of the IP packet, but not the padding of a
/// short Ethernet frame (46 bytes, IEEE 802.3 §3.2.7); so chunks of such a packet are taken, too.
fn sctp(b: &mut Builder, h: &Headers, s: &States) {
    let length = |field: FieldRef| Expr::Field(field).cast(16);
    let header = Expr::binary(BinaryOp::Shl, length(h.ipv4_ihl), Expr::int(2, 16));
    let segment = Expr::binary(BinaryOp::Sub, length(h.ipv4_len), header);
    let mut cases = Vec::new();
    for (short, bytes) in h.sctp_short.into_iter().zip([4u128, 8, 12]) {
        let state = b.state(&format!("sctp_{bytes}"));
        b.set_state(state, vec![extract(short)], Transition::Accept);
        cases.push(case(vec![exact(12 + bytes, 16)], state));
    }
    cases.push(accept(1));
    let next = Transition::Select { keys: vec![segment], cases };
    b.set_state(s.sctp, vec![extract(h.sctp)], next);
}

/// ICMPv6, and of neighbour solicitations and advertisements (RFC 4861 §4.3, §4.4) the target and
/// the link-layer address option that OpenFlow knows for each.
fn icmpv6(b: &mut Builder, h: &Headers, s: &States) {
    let solicit = b.state("nd_solicit");
    let advert = b.state("nd_advert");
    b.set_state(
        s.icmpv6,
        vec![extract(h.icmpv6)],
        Transition::Select {
            keys: vec![Expr::Field(h.icmpv6_type)],
            cases: vec![
                case(vec![exact(135, 8)], solicit),
                case(vec![exact(136, 8)], advert),
                accept(1),
            ],
        },
    );
    for (entry, kind, name, address) in
        [(solicit, 1u128, "nd_sll", h.nd_sll), (advert, 2, "nd_tll", h.nd_tll)]
    {
        let found = b.state(name);
        let other = b.state(&format!("{name}_not_yet"));
        let options = || Transition::Select {
            keys: vec![lookahead(0, 8), lookahead(8, 8), Expr::StackSize(h.nd_option)],
            cases: vec![
                case(vec![exact(kind, 8), exact(1, 8), Select::Any], found),
                case(
                    vec![Select::Any, range(1, 8, 8), range(0, (ND_OPTIONS_MAX - 1) as u128, 8)],
                    other,
                ),
                accept(3),
            ],
        };
        b.set_state(entry, vec![extract(h.nd)], options());
        b.set_state(found, vec![extract(address)], Transition::Accept);
        b.set_state(
            other,
            vec![ParserOp::ExtractNext { stack: h.nd_option, varbit: Some(rest_bits(0, 6)) }],
            options(),
        );
    }
}
