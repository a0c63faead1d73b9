//! What one OpenFlow action does to a packet (1.3.5 §5.12), as IR operations.
//!
//! Each function takes the values it needs as expressions, so that the same operations serve
//! immediate actions (parameters) and the action set (slots). An action whose header the packet
//! lacks does nothing.
//!
//! An output goes straight to its port or, where there are egress tables, through these first: see
//! `send`.

use super::fields::write_ether_type;
use super::headers::{Headers, VLAN_MAX};
use super::layout::{GROUP_ALL, GROUP_FLOOD, Layout};
use super::normal::mirror;
use super::normal::protected::unless_protected;
use super::slots::Kind;
pub use super::tags::{ensure_vlan, pop_vlan, push_vlan};
use super::tunnel;
use ir::program::intrinsic;
use ir::{
    BinaryOp, BlockId, DropReason, Expr, FieldRef, Guise, HeaderId, Op, PuntReason, ServiceId,
};
use openflow::{FieldId, HashFields, PortNo};

pub(super) fn when(condition: Expr, then: Vec<Op>) -> Op {
    Op::If { condition, then, or_else: Vec::new() }
}

fn port(p: PortNo) -> Expr {
    Expr::int(p.0.into(), 32)
}

fn get(field: FieldRef) -> Expr {
    Expr::Field(field)
}

/// Parses the packet again as it is now. What the parser takes to be zero, and looks at, is zeroed first; nothing
/// of that is an input of a checksum, which the emission before parsing writes.
pub fn reparse(h: &Headers) -> Vec<Op> {
    let zero = |meta, width| Op::Assign(FieldRef::Meta(meta), Expr::int(0, width));
    let (proto, fragment) = (zero(h.ip_proto, 8), zero(h.fragment, 2));
    vec![proto, zero(h.exthdr, 9), zero(h.exthdr_rank, 3), fragment, Op::Reparse]
}

/// Hands the packet to a service and then to the first table: it carries the fields `sf_*`, of which the stage is
/// one higher, and nothing else (SoftFlow §3).
pub fn softflow(
    h: &Headers,
    service: ServiceId,
    edits: bool,
    element: Expr,
    argument: Expr,
) -> Vec<Op> {
    let [register, action, stage, coalesce, told] = h.sf;
    let of = Expr::meta;
    let set = |meta, value| Op::Assign(FieldRef::Meta(meta), value);
    // What was written is parsed again.
    let mut ops = if edits { reparse(h) } else { Vec::new() };
    ops.pop();
    let args = vec![element.clone(), argument.clone(), of(register), of(action), of(stage)];
    ops.push(Op::Service { service, args, results: vec![register, coalesce] });
    ops.push(set(action, element));
    ops.push(set(stage, Expr::binary(BinaryOp::Add, of(stage), Expr::int(1, 8))));
    ops.push(set(told, argument));
    let mut keep = h.sf.to_vec();
    if !h.mirrors.is_empty() {
        keep.extend([h.entered, h.mirrored]);
    }
    keep.extend(tunnel::kept(h));
    ops.push(Op::Recirculate { keep });
    ops
}

/// Egress processing that one packet and the copies of it may begin, one inside of another: what an
/// entry of an egress table outputs is processed once more, what that outputs is not sent.
pub const EGRESS_PASSES_MAX: u8 = 2;

//= openflow-1.5.1 §5.1: with egress tables, an output begins egress processing for that port.
//= openflow-1.5.1 §5.12: its action set has the output alone; other pipeline fields stay.
//= openflow-1.5.1 §5.12: outputs of egress tables' entries begin it again, and are kept from going on
//= for ever.
/// Sends a copy to one port.
fn send(to: Expr, h: &Headers) -> Vec<Op> {
    if h.egress.is_some() {
        return send_unmirrored(to, h);
    }
    // As in Open vSwitch, mirrors' copies come behind the packet itself.
    let mut ops = send_unmirrored(to.clone(), h);
    ops.extend(mirror::leaving(h, &to));
    unless_protected(h, &to, ops)
}

/// The same without the copies of mirrors.
pub(crate) fn send_unmirrored(to: Expr, h: &Headers) -> Vec<Op> {
    let Some(block) = h.egress else { return tunnel::output(h, to) };
    let set = |meta, value| Op::Assign(FieldRef::Meta(meta), value);
    let passes = || Expr::meta(h.egress_passes);
    let more = Expr::binary(BinaryOp::Lt, passes(), Expr::int(EGRESS_PASSES_MAX.into(), 8));
    let body = vec![
        set(h.slots.output, to),
        set(h.slots.max_len, Expr::int(0, 16)),
        set(h.slots.present, Expr::int(Kind::Output.bit().into(), 64)),
        set(h.suppressed, Expr::bool(false)),
        set(h.exit, Expr::bool(false)),
        set(h.egress_passes, Expr::binary(BinaryOp::Add, passes(), Expr::int(1, 8))),
        // Control only comes to later blocks, so the call ends with the copy's way.
        Op::Call { block, until: h.table_block(0), guise: None, site: 0 },
    ];
    vec![when(more, vec![Op::OnCopy { body }])]
}

/// Does the output of an action set that is executed: in the end of egress processing, the packet
/// leaves by its port, the ingress port included.
pub fn output_of_set(h: &Headers, normal: BlockId) -> Op {
    let (to, max_len) = (Expr::meta(h.slots.output), Expr::meta(h.slots.max_len));
    match h.egress {
        None => output_last(h, to, max_len, PuntReason::ActionSet, normal),
        Some(_) => Op::If {
            condition: Expr::meta(h.egress_passes).eq(Expr::int(0, 8)),
            then: vec![output_last(h, to.clone(), max_len, PuntReason::ActionSet, normal)],
            or_else: {
                let mut ops = tunnel::output(h, to.clone());
                ops.extend(mirror::leaving(h, &to));
                unless_protected(h, &to, ops)
            },
        },
    }
}

/// Sends a copy to an ordinary port, unless it came in by it (1.3.5 §4.5: only `IN_PORT` sends a
/// packet back).
pub fn output(to: Expr, h: &Headers) -> Op {
    Op::If {
        condition: to.clone().ne(h.in_port()),
        then: send(to, h),
        or_else: vec![Op::Assign(FieldRef::Meta(h.suppressed), Expr::bool(true))],
    }
}

/// Sends a copy back.
pub fn output_in_port(h: &Headers) -> Vec<Op> {
    send(h.in_port(), h)
}

/// Does an output with a copy of at most so many bytes.
pub fn truncated(h: &Headers, to: Expr, bytes: Expr, output: Vec<Op>) -> Op {
    let mut body = tunnel::truncate(h, to, bytes);
    body.extend(output);
    Op::OnCopy { body }
}

/// To every port but the ingress port: the group that the rules keep for it.
pub fn output_all(h: &Headers) -> Vec<Op> {
    let mut ops = mirror::flooded(h, |mirror| mirror.all);
    ops.push(Op::Group { group: Expr::int(GROUP_ALL.0.into(), 32) });
    ops
}

/// To every port that takes part in flooding, but the ingress port.
pub fn output_flood(h: &Headers) -> Vec<Op> {
    let mut ops = mirror::flooded(h, |mirror| mirror.flood);
    ops.push(Op::Group { group: Expr::int(GROUP_FLOOD.0.into(), 32) });
    ops
}

/// Runs a copy through a block: NORMAL, or the first table.
pub fn run_copy(block: BlockId) -> Op {
    Op::Clone { block, copy: ir::Copy::Current }
}

/// The same where a clone must not be: a copy calls the block, at whose end it ends.
pub fn call_on_copy(block: BlockId, nowhere: BlockId) -> Op {
    Op::OnCopy { body: vec![Op::Call { block, until: nowhere, guise: None, site: 0 }] }
}

/// A port's number as fields and registers have it: 0xfff8 to 0xffff are the reserved ports of 16 bits, and
/// mean those of 32.
pub fn wide_port(of: Expr) -> Expr {
    let reserved = of.clone().slice(31, 3).eq(Expr::int(0x1fff, 29));
    let wide = Expr::binary(BinaryOp::Or, of.clone(), Expr::int(0xffff_0000, 32));
    Expr::Mux(Box::new(reserved), Box::new(wide), Box::new(of))
}

/// A port's number as registers take it: that of a reserved port has 16 bits there.
pub fn short_port(of: Expr) -> Expr {
    let reserved = Expr::binary(BinaryOp::Ge, of.clone(), port(PortNo::MAX));
    let short = Expr::binary(BinaryOp::And, of.clone(), Expr::int(0xffff, 32));
    Expr::Mux(Box::new(reserved), Box::new(short), Box::new(of))
}

/// Sends a copy to the controller, with the arguments of [`super::PuntArgs`].
pub fn punt(h: &Headers, reason: PuntReason, max_len: Expr) -> Op {
    punt_to(h, reason, max_len, Expr::int(0, 16))
}

/// The same for the controllers of an id.
pub fn punt_to(h: &Headers, reason: PuntReason, max_len: Expr, id: Expr) -> Op {
    let (metadata, tunnel_id) = (Expr::meta(h.metadata), Expr::meta(h.tunnel_id));
    let args = vec![h.in_port(), h.in_port(), metadata, tunnel_id, max_len, id];
    Op::Punt { reason, args }
}

/// The same for the controllers of an id, with all of the packet's fields, as Open vSwitch tells them.
pub fn punt_all(h: &Headers, reason: PuntReason, max_len: Expr, id: Expr) -> Op {
    punt_with(h, reason, max_len, id, Expr::int(0, 16))
}

/// What an entry's plain action for the controller does: it tells all of the packet's fields. A table-miss entry tells
/// fewer, since it meets floods of unknown packets: registers, and what is known of a connection or tunnel, are left out.
pub fn punt_for(h: &Headers, reason: PuntReason, max_len: Expr) -> Op {
    match reason {
        PuntReason::TableMiss => punt(h, reason, max_len),
        _ => punt_all(h, reason, max_len, Expr::int(0, 16)),
    }
}

/// The same with bytes that the list carries, or to wait: the `which`-th of such actions, from 1 on.
pub fn punt_with(h: &Headers, reason: PuntReason, max_len: Expr, id: Expr, which: Expr) -> Op {
    match punt_to(h, reason, max_len, id) {
        Op::Punt { reason, mut args } => {
            args.push(which);
            args.extend(super::PuntArgs::PIPELINE.map(|field| super::fields::read(h, field)));
            let options: Vec<u8> = h.tunnels.iter().flat_map(|t| t.mapped()).collect();
            let bits = options.iter().fold(0u64, |bits, index| bits | 1 << index);
            args.push(Expr::int(bits.into(), 64));
            args.extend(
                options
                    .iter()
                    .map(|index| super::fields::read(h, FieldId::tun_metadata_of(*index))),
            );
            args.push(Expr::meta(h.injection));
            Op::Punt { reason, args }
        }
        other => other,
    }
}

/// Sends a copy to a port that is known only at run time, ordinary or reserved, at the end of the
/// packet's way.
pub fn output_last(
    h: &Headers,
    to: Expr,
    max_len: Expr,
    reason: PuntReason,
    normal: BlockId,
) -> Op {
    let back = vec![Op::Drop(DropReason::OutputToIngress)];
    output_to(h, to, max_len, reason, run_copy(normal), back)
}

/// The same on the way; `back` is done instead of an output to the ingress port.
fn output_to(
    h: &Headers,
    to: Expr,
    max_len: Expr,
    reason: PuntReason,
    normal: Op,
    back: Vec<Op>,
) -> Op {
    let is = |p: PortNo| to.clone().eq(port(p));
    let ordinary = Expr::binary(BinaryOp::Lt, to.clone(), port(PortNo::MAX)).or(is(PortNo::LOCAL));
    let reserved = [
        (PortNo::CONTROLLER, vec![punt(h, reason, max_len)]),
        (PortNo::IN_PORT, output_in_port(h)),
        (PortNo::FLOOD, output_flood(h)),
        (PortNo::ALL, output_all(h)),
        (PortNo::NORMAL, vec![normal]),
    ];
    let otherwise = reserved
        .into_iter()
        .rev()
        .fold(Vec::new(), |or_else, (p, then)| vec![Op::If { condition: is(p), then, or_else }]);
    let send = Op::If { condition: to.clone().ne(h.in_port()), then: send(to, h), or_else: back };
    Op::If { condition: ordinary, then: vec![send], or_else: otherwise }
}

/// Sends a copy to a port that a field names.
pub fn output_named(h: &Headers, to: Expr, max_len: Expr, normal: Op) -> Op {
    let back = vec![Op::Assign(FieldRef::Meta(h.suppressed), Expr::bool(true))];
    output_to(h, to, max_len, PuntReason::Action, normal, back)
}

/// An entry says drop: what earlier tables wrote is done all the same (1.3.5 §5.9), and an output to the
/// ingress port that did not happen stays the reason.
pub fn drop_unless_set(layout: &Layout) -> Op {
    let unset = Expr::meta(layout.slots.present).eq(Expr::int(0, 64));
    let suppressed = Expr::meta(layout.headers.suppressed);
    let mut condition = unset.and(suppressed.not());
    if !layout.headers.protected.is_empty() {
        condition = condition.and(Expr::meta(layout.headers.withheld).not());
    }
    when(condition, vec![Op::Drop(DropReason::Action)])
}

/// Runs the entries of a table on the packet (Open vSwitch's `resubmit`), by its own port or another.
/// A meter that drops there drops the packet; an `exit` there ends it here, too, once the action set
/// (at `until`) is done, which that of a `copy` is not.
pub fn resubmit(
    h: &Headers,
    table: BlockId,
    lookup: Option<Guise>,
    until: BlockId,
    copy: bool,
    site: u16,
) -> Vec<Op> {
    let red = Expr::meta(h.color).eq(Expr::int(2, 8));
    // Whoever comes first does the set; further out it is empty.
    let set = match copy {
        true => Vec::new(),
        false => {
            let never = h.table_block(0);
            vec![Op::Call { block: until, until: never, guise: None, site: 0 }, h.slots.clear()]
        }
    };
    let exit = set.into_iter().chain([Op::Exit]).collect();
    let count = |op| {
        let counted = Expr::binary(op, Expr::meta(h.called), Expr::int(1, 8));
        Op::Assign(FieldRef::Meta(h.called), counted)
    };
    vec![
        count(BinaryOp::Add),
        Op::Call { block: table, until, guise: lookup, site },
        count(BinaryOp::Sub),
        when(red, vec![Op::Drop(DropReason::Meter)]),
        when(Expr::meta(h.exit), exit),
    ]
}

/// Does something with IP packets that have been tracked and belong to a connection.
pub fn if_tracked(h: &Headers, then: Vec<Op>) -> Op {
    let is = |ether_type| Expr::meta(h.ether_type).eq(Expr::int(ether_type, 16));
    let tracked = super::fields::read(h, FieldId::CtNwProto).ne(Expr::int(0, 8));
    when(tracked.and(is(0x0800).or(is(0x86dd))), then)
}

/// Bits of the mark or label that the next `ct` sets; `value` has no others than those of `mask`.
pub fn ct_set(h: &Headers, id: FieldId, value: Expr, mask: Expr) -> Vec<Op> {
    let at = if id == FieldId::CtMark { 0 } else { 2 };
    let (old, bits) = (h.ct_exec[at], h.ct_exec[at + 1]);
    let merged = super::fields::merge(Expr::meta(old), value, mask.clone());
    let all = Expr::binary(BinaryOp::Or, Expr::meta(bits), mask);
    vec![Op::Assign(FieldRef::Meta(old), merged), Op::Assign(FieldRef::Meta(bits), all)]
}

/// The packet is as if it had not been tracked.
pub fn ct_clear(h: &Headers) -> Vec<Op> {
    let clear = |(meta, (_, width)): (ir::MetaId, (&str, u32))| {
        Op::Assign(FieldRef::Meta(meta), Expr::int(0, width))
    };
    h.ct.into_iter().zip(contract::ct::RESULTS).map(clear).collect()
}

/// An entry in front of the others, behind all VLAN tags: label, traffic class and TTL of the
/// outermost one, or the IP header's TTL.
pub fn push_mpls(h: &Headers, ether_type: Expr) -> Vec<Op> {
    let below = |field: FieldRef| get(Headers::nth(field, 1));
    let second = HeaderId(h.mpls_0.0 + 1);
    let mut ops = vec![
        Op::PushFront(h.mpls, 1),
        Op::Assign(h.mpls_label, below(h.mpls_label)),
        Op::Assign(h.mpls_tc, below(h.mpls_tc)),
        Op::Assign(h.mpls_bos, Expr::Valid(second).not()),
        Op::Assign(
            h.mpls_ttl,
            Expr::Mux(
                Box::new(Expr::Valid(second)),
                Box::new(below(h.mpls_ttl)),
                Box::new(Headers::either(h.ipv4_ttl, h.ipv6_hlim)),
            ),
        ),
    ];
    ops.extend(write_ether_type(h, ether_type));
    ops
}

/// Takes the outermost entry off; what is behind it is of this EtherType, and is parsed as such.
pub fn pop_mpls(h: &Headers, ether_type: Expr) -> Vec<Op> {
    let mut ops = vec![Op::PopFront(h.mpls, 1)];
    ops.extend(write_ether_type(h, ether_type));
    ops.extend(reparse(h));
    vec![when(Expr::Valid(h.mpls_0), ops)]
}

/// Wraps the frame: backbone addresses are the customer's, I-SID that of the outermost service tag,
/// priority that of the outermost VLAN tag (1.3.5 §5.12.1).
pub fn push_pbb(h: &Headers, ether_type: Expr) -> Vec<Op> {
    let mut ops = vec![
        Op::SetValid(h.push_eth),
        Op::Assign(h.push_eth_dst, get(h.eth_dst)),
        Op::Assign(h.push_eth_src, get(h.eth_src)),
        Op::Assign(h.push_eth_type, ether_type),
        Op::SetValid(h.push_itag),
        Op::Assign(h.push_itag_pcp, get(h.vlan_pcp)),
        Op::Assign(h.push_itag_isid, get(h.itag_isid)),
    ];
    ops.extend(reparse(h));
    ops
}

/// Unwraps the customer's frame: backbone addresses, backbone VLAN tags and the service tag go.
pub fn pop_pbb(h: &Headers) -> Vec<Op> {
    let mut ops = vec![
        Op::SetInvalid(h.eth),
        Op::PopFront(h.vlan, VLAN_MAX),
        Op::SetInvalid(h.snap),
        Op::SetInvalid(h.itag),
    ];
    ops.extend(reparse(h));
    let outermost = Expr::Valid(h.itag).and(Expr::meta(h.ether_type).eq(Expr::int(0x88e7, 16)));
    vec![when(outermost, ops)]
}

/// The outermost TTL becomes that of the header below it: MPLS to MPLS, or IP to MPLS.
pub fn copy_ttl_out(h: &Headers) -> Vec<Op> {
    let ip = Expr::Valid(h.ipv4).or(Expr::Valid(h.ipv6));
    vec![Op::If {
        condition: Expr::Valid(HeaderId(h.mpls_0.0 + 1)),
        then: vec![Op::Assign(h.mpls_ttl, get(Headers::nth(h.mpls_ttl, 1)))],
        or_else: vec![when(
            ip,
            vec![Op::Assign(h.mpls_ttl, Headers::either(h.ipv4_ttl, h.ipv6_hlim))],
        )],
    }]
}

/// The TTL below the outermost MPLS entry becomes that entry's.
pub fn copy_ttl_in(h: &Headers) -> Vec<Op> {
    vec![when(
        Expr::Valid(h.mpls_0),
        vec![Op::If {
            condition: Expr::Valid(HeaderId(h.mpls_0.0 + 1)),
            then: vec![Op::Assign(Headers::nth(h.mpls_ttl, 1), get(h.mpls_ttl))],
            or_else: vec![
                Op::Assign(h.ipv4_ttl, get(h.mpls_ttl)),
                Op::Assign(h.ipv6_hlim, get(h.mpls_ttl)),
            ],
        }],
    )]
}

/// A packet whose TTL is 0 or would become it goes to the controller, if that wants it, and no
/// further (1.3.5 §7.4.1 `OFPR_INVALID_TTL`).
fn decrement(
    h: &Headers,
    ids: Vec<Expr>,
    ttl: Expr,
    has: Expr,
    store: impl Fn(Expr) -> Vec<Op>,
) -> Vec<Op> {
    let expired = Expr::binary(BinaryOp::Le, ttl.clone(), Expr::int(1, 8));
    let less = Expr::binary(BinaryOp::Sub, ttl, Expr::int(1, 8));
    let all = || Expr::int(u16::MAX.into(), 16);
    let tell = ids.into_iter().map(|id| punt_to(h, PuntReason::InvalidTtl, all(), id));
    let then = tell.chain([Op::Drop(DropReason::InvalidTtl)]).collect();
    vec![when(has, vec![Op::If { condition: expired, then, or_else: store(less) }])]
}

/// Decrements the outermost MPLS TTL.
pub fn dec_mpls_ttl(h: &Headers) -> Vec<Op> {
    let store = |ttl| vec![Op::Assign(h.mpls_ttl, ttl)];
    decrement(h, vec![Expr::int(0, 16)], get(h.mpls_ttl), Expr::Valid(h.mpls_0), store)
}

/// Decrements the TTL or hop limit of an IP packet (not of one behind MPLS).
pub fn dec_nw_ttl(h: &Headers) -> Vec<Op> {
    dec_nw_ttl_to(h, vec![Expr::int(0, 16)])
}

/// The same; who is told of what expires are the controllers of these ids.
pub fn dec_nw_ttl_to(h: &Headers, ids: Vec<Expr>) -> Vec<Op> {
    let ttl = Headers::either(h.ipv4_ttl, h.ipv6_hlim);
    let present = Expr::Valid(h.ipv4).or(Expr::Valid(h.ipv6));
    // Whichever header is missing takes no write, so the second assignment reads what the first did.
    let store =
        |less: Expr| vec![Op::Assign(h.ipv4_ttl, less.clone()), Op::Assign(h.ipv6_hlim, less)];
    decrement(h, ids, ttl, h.is_ip().and(present), store)
}

/// Sets the TTL or hop limit of an IP packet (not of one behind MPLS).
pub fn set_nw_ttl(h: &Headers, ttl: Expr) -> Vec<Op> {
    vec![when(h.is_ip(), vec![Op::Assign(h.ipv4_ttl, ttl.clone()), Op::Assign(h.ipv6_hlim, ttl)])]
}

/// Sets the outermost MPLS TTL.
pub fn set_mpls_ttl(h: &Headers, ttl: Expr) -> Vec<Op> {
    vec![Op::Assign(h.mpls_ttl, ttl)]
}

/// A TCP packet with FIN or RST.
pub fn ends_connection(h: &Headers) -> Expr {
    Expr::binary(BinaryOp::And, get(h.tcp_flags), Expr::int(5, 12)).ne(Expr::int(0, 12))
}

/// Chooses the queue for outputs from here on.
pub fn set_queue(queue: Expr) -> Vec<Op> {
    vec![Op::Assign(FieldRef::Meta(intrinsic::QUEUE), queue)]
}

/// Notes the queue, for a while in which it is another.
pub fn keep_queue(h: &Headers) -> Vec<Op> {
    vec![Op::Assign(FieldRef::Meta(h.kept_queue), Expr::meta(intrinsic::QUEUE))]
}

/// Hands copies to a group's buckets.
pub fn group(id: Expr) -> Vec<Op> {
    vec![Op::Group { group: id }]
}

/// Asks a meter, and does the rest unless it says red; the packet stays as it is.
pub fn within(h: &Headers, id: Expr, ops: Vec<Op>) -> Vec<Op> {
    vec![
        Op::Meter { meter: id, color: FieldRef::Meta(h.color), level: FieldRef::Meta(h.level) },
        when(Expr::meta(h.color).ne(Expr::int(2, 8)), ops),
        // Whoever called this table looks at the colour for packets that a meter dropped.
        Op::Assign(FieldRef::Meta(h.color), Expr::int(0, 8)),
    ]
}

/// Asks a meter: red drops, yellow raises the drop precedence of an assured-forwarding code point
/// (RFC 2597 §6) by the band's level, within its class (1.3.5 §5.7.1).
pub fn meter(h: &Headers, id: Expr) -> Vec<Op> {
    let dscp = || Headers::either(h.ipv4_dscp, h.ipv6_dscp);
    let class = |low, high| {
        let class = dscp().slice(5, 3);
        let at_least = Expr::binary(BinaryOp::Ge, class.clone(), Expr::int(low, 3));
        at_least.and(Expr::binary(BinaryOp::Le, class, Expr::int(high, 3)))
    };
    let precedence = || dscp().slice(2, 1);
    let assured = class(1, 4)
        .and(precedence().ne(Expr::int(0, 2)))
        .and(dscp().slice(0, 0).eq(Expr::int(0, 1)));
    let sum = Expr::binary(BinaryOp::AddSat, precedence().cast(8), Expr::meta(h.level));
    let raised = Expr::Mux(
        Box::new(Expr::binary(BinaryOp::Gt, sum.clone(), Expr::int(3, 8))),
        Box::new(Expr::int(3, 2)),
        Box::new(sum.slice(1, 0)),
    );
    let remark = |field: FieldRef| Op::AssignSlice(field, 2, 1, raised.clone());
    vec![
        Op::Meter { meter: id, color: FieldRef::Meta(h.color), level: FieldRef::Meta(h.level) },
        when(
            Expr::meta(h.color).ne(Expr::int(0, 8)),
            vec![Op::If {
                condition: Expr::meta(h.color).eq(Expr::int(2, 8)),
                then: vec![Op::Drop(DropReason::Meter)],
                or_else: vec![when(
                    h.is_ip().and(assured),
                    vec![remark(h.ipv4_dscp), remark(h.ipv6_dscp)],
                )],
            }],
        ),
    ]
}

/// Puts a value on the packet's stack. A packet whose stack is full is dropped: one that went on
/// without its value would go wrong.
pub fn stack_push(h: &Headers, value: Expr) -> Vec<Op> {
    let full = Expr::meta(h.stacked).eq(Expr::int(h.stack.len() as u128, 8));
    let mut ops = vec![when(full, vec![Op::Drop(DropReason::HeaderStackOverflow)])];
    for i in (1..h.stack.len()).rev() {
        ops.push(Op::Assign(FieldRef::Meta(h.stack[i]), Expr::meta(h.stack[i - 1])));
    }
    ops.push(Op::Assign(FieldRef::Meta(h.stack[0]), value.cast(128)));
    let more = Expr::binary(BinaryOp::Add, Expr::meta(h.stacked), Expr::int(1, 8));
    ops.push(Op::Assign(FieldRef::Meta(h.stacked), more));
    ops
}

/// Takes the last value off the stack; `store` writes it. An empty stack gives nothing.
pub fn stack_pop(h: &Headers, store: Vec<Op>) -> Vec<Op> {
    let mut ops = store;
    for i in 1..h.stack.len() {
        ops.push(Op::Assign(FieldRef::Meta(h.stack[i - 1]), Expr::meta(h.stack[i])));
    }
    let less = Expr::binary(BinaryOp::Sub, Expr::meta(h.stacked), Expr::int(1, 8));
    ops.push(Op::Assign(FieldRef::Meta(h.stacked), less));
    vec![when(Expr::meta(h.stacked).ne(Expr::int(0, 8)), ops)]
}

/// A hash of 32 bits of the packet's fields. Symmetric ones take each pair's exclusive or, so that
/// both directions have one hash.
pub fn multipath_hash(h: &Headers, fields: HashFields, basis: Expr) -> Expr {
    let xor = |a: FieldRef, b: FieldRef| Expr::binary(BinaryOp::Xor, get(a), get(b));
    let network = || vec![xor(h.ipv4_src, h.ipv4_dst), xor(h.ipv6_src, h.ipv6_dst)];
    let ports = || vec![xor(h.tcp_src, h.tcp_dst), xor(h.sctp_src, h.sctp_dst)];
    let proto = || Expr::meta(h.ip_proto);
    let mut inputs = match fields {
        HashFields::EthSrc => vec![get(h.eth_src)],
        HashFields::NwSrc => vec![get(h.ipv4_src), get(h.ipv6_src)],
        HashFields::NwDst => vec![get(h.ipv4_dst), get(h.ipv6_dst)],
        HashFields::SymmetricL3 => network(),
        HashFields::SymmetricL4 => {
            let link = [xor(h.eth_src, h.eth_dst), Expr::meta(h.ether_type), get(h.vlan_vid)];
            let udp = [xor(h.udp_src, h.udp_dst), proto()];
            link.into_iter().chain(network()).chain(ports()).chain(udp).collect()
        }
        HashFields::SymmetricL3L4 => {
            network().into_iter().chain(ports()).chain([proto()]).collect()
        }
        HashFields::SymmetricL3L4Udp => {
            let udp = [xor(h.udp_src, h.udp_dst), proto()];
            network().into_iter().chain(ports()).chain(udp).collect()
        }
    };
    inputs.push(basis);
    let crc = Expr::Hash { algorithm: ir::HashAlgorithm::Crc32c, width: 32, inputs };
    // A CRC is linear: of addresses that differ in few bits its high bits take few values. The high
    // half of a product is not.
    let product = Expr::binary(BinaryOp::Mul, crc.cast(64), Expr::int(0x9e37_79b9_7f4a_7c15, 64));
    product.slice(63, 32)
}

/// Chooses one of some ports that is live into `h.member`; no port if none is (Open vSwitch's `bundle`).
/// By weight, each draws a number from the packet's hash and its own place, and the greatest wins
/// (Thaler and Ravishankar 1998).
pub fn choose_member(h: &Headers, ports: Vec<Expr>, hash: Option<Expr>) -> Vec<Op> {
    let meta = |id| FieldRef::Meta(id);
    let none = || port(PortNo::ANY);
    let unchosen = || Expr::meta(h.member).eq(none());
    let mut ops = vec![Op::Assign(meta(h.member), none())];
    let by_weight = hash.is_some();
    ops.extend(hash.map(|hash| Op::Assign(meta(h.member_hash), hash)));
    for (i, port) in ports.into_iter().enumerate() {
        let live =
            Op::PortIs { field: meta(h.member_live), what: ir::PortIs::Live, port: port.clone() };
        let is_live = Expr::meta(h.member_live);
        let take = Op::Assign(meta(h.member), port);
        if !by_weight {
            ops.push(when(unchosen(), vec![live, when(is_live, vec![take])]));
            continue;
        }
        let weight = draw(h, i as u64);
        let best = Expr::meta(h.member_weight);
        let more = unchosen().or(Expr::binary(BinaryOp::Gt, weight.clone(), best));
        let take = vec![Op::Assign(meta(h.member_weight), weight), take];
        ops.extend([live, when(is_live.and(more), take)]);
    }
    ops
}

/// The number that a packet, by its hash in `h.member_hash`, draws for a place.
fn draw(h: &Headers, at: u64) -> Expr {
    let own = Expr::int(place(at).into(), 64);
    let mixed = Expr::binary(BinaryOp::Xor, Expr::meta(h.member_hash).cast(64), own);
    let product = Expr::binary(BinaryOp::Mul, mixed, Expr::int(0xff51_afd7_ed55_8ccd, 64));
    product.slice(63, 32)
}

/// Chooses the link of the highest random weight into `h.member`.
pub fn choose_link(h: &Headers, links: u8, hash: Expr) -> Vec<Op> {
    let set = |id, value| Op::Assign(FieldRef::Meta(id), value);
    let link = |i: u8| Expr::int(i.into(), 32);
    let mut ops =
        vec![set(h.member_hash, hash), set(h.member, link(0)), set(h.member_weight, draw(h, 0))];
    for i in 1..links {
        let weight = draw(h, i.into());
        let more = Expr::binary(BinaryOp::Gt, weight.clone(), Expr::meta(h.member_weight));
        let take = vec![set(h.member_weight, weight), set(h.member, link(i))];
        ops.push(when(more, take));
    }
    ops
}

/// Numbers that [`draw_link`] draws before it takes the remainder: each is a link's in at least every other
/// case.
const DRAWS: u64 = 32;

/// Draws numbers below `modulo` until one is a link's, into `h.member`.
pub fn draw_link(h: &Headers, links: Expr, modulo: Expr, hash: Expr) -> Vec<Op> {
    let set = |id, value| Op::Assign(FieldRef::Meta(id), value);
    let below =
        |of: Expr, n: Expr| Expr::binary(BinaryOp::Mul, of.cast(64), n.cast(64)).slice(63, 32);
    let none = || Expr::binary(BinaryOp::Ge, Expr::meta(h.member), links.clone());
    let mut ops = vec![set(h.member_hash, hash), set(h.member, below(draw(h, 0), modulo.clone()))];
    for i in 1..DRAWS {
        let again = set(h.member, below(draw(h, i), modulo.clone()));
        ops.push(when(none(), vec![again]));
    }
    let last = set(h.member, below(Expr::meta(h.member_hash), links.clone()));
    ops.push(when(none(), vec![last]));
    ops
}

/// 64 bits that a member's place stands for (splitmix64, Steele et al. 2014).
fn place(i: u64) -> u64 {
    let z = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
