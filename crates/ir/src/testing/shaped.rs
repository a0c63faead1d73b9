//! Random programs of the shape that people write, with entries, updates and packets that meet.
//!
//! [`program`](super::program) uses the whole language, so what it makes is odd and small, and most
//! packets miss. Here a program parses Ethernet, VLAN tags, IPv4, IPv6, TCP, UDP and ICMP, applies
//! one to six tables and ends in an egress block, as front ends lower theirs. Each table has a
//! [`Shape`] that some lookup structure fits: many exact fields, one prefix, one range, few masks,
//! many masks, few entries, a firewall's. Packets come from some dozen *flows*, and so do the values
//! that entries look for; most packets hit, and the rest is cut short, has bits turned, or is noise.
//!
//! Invariants: a seed gives the same on every machine; programs obey the verifier; meters have no
//! memory (no band, or one that always applies), so that who asks first does not matter.
//! Cost: a packet about a microsecond, an update some microseconds, a program some tens.
//! Checked by: the tests below: validity, round trips of the text form, and how often packets hit.

mod packet;

use super::Rng;
use crate::bits::Bits;
use crate::builder::Builder;
use crate::expr::{BinaryOp, Expr, FieldRef, HashAlgorithm};
use crate::id::*;
use crate::op::{Copy, Op};
use crate::pipeline::*;
use crate::program::*;
use crate::verdict::{DropReason, PuntReason};
use packet::Flow;
use std::sync::Arc;

/// Entry ids are below this, so that they are used again.
pub const IDS: u32 = 700;
/// Counters of groups and buckets are below this, and not below [`IDS`].
pub const COUNTERS: u32 = 800;
/// The first id of an action that is added while running.
const ADDED: u32 = 200;
/// Groups and meters have numbers below this.
const NUMBERS: usize = 4;
/// Ports that actions send to: 1 to this.
const PORTS: usize = 6;

/// What a table is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Some fields, all exact.
    Exact,
    /// One prefix, with exact fields beside it or without.
    Prefix,
    /// One range, with an exact field beside it or without.
    Range,
    /// Ternary fields under two or three masks.
    FewMasks,
    /// Ternary fields under any masks.
    ManyMasks,
    /// At most four entries, keys of any kind.
    Few,
    /// Addresses by prefix, ports by range, protocol; some look at one column, some at all.
    Firewall,
    /// Fields that entries look at or not.
    Optional,
    /// No key: the default is all there is.
    Keyless,
}

const SHAPES: [Shape; 13] = [
    Shape::Exact,
    Shape::Exact,
    Shape::Prefix,
    Shape::Prefix,
    Shape::Range,
    Shape::FewMasks,
    Shape::FewMasks,
    Shape::ManyMasks,
    Shape::Few,
    Shape::Few,
    Shape::Firewall,
    Shape::Firewall,
    Shape::Optional,
];

/// What a key field looks at, in terms of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prop {
    InPort,
    Dst,
    Src,
    Type,
    Vid,
    Tagged,
    Src4,
    Dst4,
    Src6,
    Dst6,
    Is4,
    Proto,
    Ttl,
    Dscp,
    TcpSrc,
    TcpDst,
    UdpSrc,
    UdpDst,
    L4Src,
    L4Dst,
    Length,
    /// The highest byte of the IPv4 destination.
    Net4,
    /// Metadata that actions set to small values.
    Small,
}

/// A field that a table may look at.
#[derive(Clone)]
struct Candidate {
    prop: Prop,
    name: String,
    expr: Expr,
    width: u32,
}

/// What entries of a table are drawn by.
struct Plan {
    shape: Shape,
    props: Vec<Prop>,
    /// For [`Shape::FewMasks`]: a mask for each key.
    masks: Vec<Vec<Bits>>,
    actions: Vec<ActionId>,
}

/// The parts of a program that actions speak of.
#[derive(Clone)]
struct Names {
    eth: HeaderId,
    vlan: StackId,
    tag: HeaderId,
    v4: HeaderId,
    v6: HeaderId,
    tcp: HeaderId,
    udp: HeaderId,
    icmp: HeaderId,
    class: MetaId,
    vrf: MetaId,
    port: MetaId,
    sport: MetaId,
    dport: MetaId,
    color: MetaId,
    level: MetaId,
    live: MetaId,
    stage: MetaId,
    from: MetaId,
    register: RegisterId,
    digest: DigestId,
    counter: u32,
    services: [ServiceId; 2],
    egress: BlockId,
    end: BlockId,
}

/// A program with how it is to be filled.
struct Made {
    program: Arc<Program>,
    names: Names,
    plans: Vec<Plan>,
    exotic: bool,
}

/// The generator: programs, updates and packets about the same flows.
pub struct Shaped {
    rng: Rng,
    flows: Vec<Flow>,
    /// The programs made last; updates are for one of them.
    made: Vec<Made>,
}

/// A generator that starts from `seed`.
pub fn shaped(seed: u64) -> Shaped {
    let mut rng = Rng::new(seed ^ 0x7368_6170_6564);
    let flows = packet::flows(&mut rng);
    Shaped { rng, flows, made: Vec::new() }
}

fn header(h: HeaderId, field: u32) -> FieldRef {
    FieldRef::Header(h, FieldId(field))
}

/// Changes of a packet in front of a call, sometimes: of what the parser looks at, too.
fn changes(r: &mut Rng, n: &Names) -> Vec<Op> {
    let one = |r: &mut Rng| match r.below(6) {
        0 => Op::Assign(header(n.eth, at::ETH_SRC), value(header(n.eth, at::ETH_DST))),
        1 => Op::Assign(header(n.v4, at::DST4), Expr::int(0x0a01_0203, 32)),
        2 => Op::Assign(header(n.v4, at::PROTO4), Expr::int(r.pick(&[6, 17, 1]), 8)),
        3 => Op::Assign(header(n.v4, at::SUM4), value(header(n.v4, at::SUM4))),
        _ => {
            let ttl = header(n.v4, at::TTL4);
            Op::Assign(ttl, binary(BinaryOp::Sub, value(ttl), Expr::int(1, 8)))
        }
    };
    match r.below(3) {
        0 => (0..1 + r.below(2)).map(|_| one(r)).collect(),
        _ => Vec::new(),
    }
}

/// Outputs, of which some are of the packet as it was before it changed again.
fn copies(r: &mut Rng, n: &Names, depth: u32) -> Vec<Op> {
    let out = |r: &mut Rng| match r.below(4) {
        0 => Op::Output { port: Expr::Param(0) },
        1 => Op::Output { port: Expr::meta(n.port) },
        _ => Op::Output { port: Expr::int(1 + r.below(6) as u128, 32) },
    };
    let mut ops = Vec::new();
    for _ in 0..2 + r.below(6) {
        match r.below(14) {
            0..=4 => ops.push(out(r)),
            5 | 6 => ops.extend(changes(r, n)),
            7 => ops.push(Op::Assign(header(n.tag, at::VID), Expr::int(r.below(4096) as u128, 12))),
            8 => ops.push(Op::PopFront(n.vlan, 1)),
            9 => ops.extend([
                Op::PushFront(n.vlan, 1),
                Op::Assign(header(n.tag, at::TAG_TYPE), value(header(n.eth, at::ETH_TYPE))),
                Op::Assign(header(n.eth, at::ETH_TYPE), Expr::int(0x8100, 16)),
            ]),
            10 if r.one_in(2) => {
                let few = r.below(100) as u128;
                ops.push(Op::Truncate { length: Expr::int(few, 32) });
            }
            11 => ops.push(Op::Assign(
                FieldRef::Meta(intrinsic::QUEUE),
                Expr::int(r.below(3) as u128, 32),
            )),
            // To every port.
            12 if r.one_in(2) => {
                let port = |port| Op::Output { port: Expr::int(port, 32) };
                ops.extend((0..4 + r.below(6) as u128).map(port));
            }
            12 if depth > 0 => ops.push(Op::OnCopy { body: copies(r, n, depth - 1) }),
            12 => ops.push(Op::Drop(DropReason::Action)),
            13 if depth > 0 => {
                let odd = value(header(n.v4, at::TTL4)).slice(0, 0);
                let (then, or_else) = (copies(r, n, depth - 1), copies(r, n, depth - 1));
                ops.push(when(odd, then, or_else));
            }
            _ => ops.push(out(r)),
        }
    }
    ops
}

fn value(f: FieldRef) -> Expr {
    Expr::Field(f)
}

fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::binary(op, a, b)
}

fn when(condition: Expr, then: Vec<Op>, or_else: Vec<Op>) -> Op {
    Op::If { condition, then, or_else }
}

/// Positions of fields in their header types.
mod at {
    pub(super) const ETH_DST: u32 = 0;
    pub(super) const ETH_SRC: u32 = 1;
    pub(super) const ETH_TYPE: u32 = 2;
    pub(super) const VID: u32 = 2;
    pub(super) const TAG_TYPE: u32 = 3;
    pub(super) const IHL: u32 = 1;
    pub(super) const DSCP: u32 = 2;
    pub(super) const OFFSET4: u32 = 7;
    pub(super) const TTL4: u32 = 8;
    pub(super) const PROTO4: u32 = 9;
    pub(super) const SUM4: u32 = 10;
    pub(super) const SRC4: u32 = 11;
    pub(super) const DST4: u32 = 12;
    pub(super) const PROTO6: u32 = 4;
    pub(super) const TTL6: u32 = 5;
    pub(super) const SRC6: u32 = 6;
    pub(super) const DST6: u32 = 7;
    pub(super) const SPORT: u32 = 0;
    pub(super) const DPORT: u32 = 1;
    pub(super) const SEQ: u32 = 2;
    pub(super) const TCP_FLAGS: u32 = 6;
    pub(super) const TCP_SUM: u32 = 8;
    pub(super) const UDP_SUM: u32 = 3;
    pub(super) const ICMP_TYPE: u32 = 0;
    pub(super) const ICMP_SUM: u32 = 2;
    pub(super) const ICMP_REST: u32 = 3;
}

/// The queue that `output` uses.
const QUEUE: FieldRef = FieldRef::Meta(intrinsic::QUEUE);

impl Shaped {
    /// The numbers behind it, for choices of the test's own.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// A program. Those made last are remembered, for updates of pipelines that hold them.
    pub fn program(&mut self) -> Arc<Program> {
        let made = self.make();
        let program = made.program.clone();
        if self.made.len() == 4 {
            self.made.remove(0);
        }
        self.made.push(made);
        program
    }

    /// The port that a packet comes in by; its bytes are put into `out`.
    pub fn packet(&mut self, out: &mut Vec<u8>) -> u32 {
        packet::packet(&mut self.rng, &self.flows, out)
    }

    /// A random update, which the pipeline may refuse.
    pub fn update(&mut self, p: &Pipeline) -> Update {
        let at = self.made.iter().position(|m| Arc::ptr_eq(&m.program, p.program()));
        let Some(at) = at else { return Update::Clear(TableId(0)) };
        let made = self.made.remove(at);
        let update = self.draw(&made, p);
        self.made.push(made);
        // Last, as it forgets the oldest one.
        update.unwrap_or_else(|| Update::SetProgram(self.program()))
    }

    fn make(&mut self) -> Made {
        let mut b = Builder::new();
        let exotic = self.rng.one_in(4);
        let options = self.rng.one_in(3);
        let n = self.headers(&mut b, options);
        let l4 = self.rng.one_in(2);
        self.parser(&mut b, &n, options, l4);
        let tables = 1 + self.rng.below(6);
        let again = self.rng.one_in(10);
        // Blocks: one in front, one for each table, perhaps the first table again, egress, end.
        let front = b.block("front");
        for t in 0..tables {
            b.block(&format!("t{t}"));
        }
        if again {
            b.block("again");
        }
        let n = Names { egress: b.block("egress"), end: b.block("end"), ..n };
        if self.rng.one_in(2) {
            self.checksums(&mut b, &n, options);
        }

        let count = 5 + self.rng.below(8);
        for i in 0..count {
            let exotic = exotic && self.rng.one_in(3);
            let action = self.action(&format!("a{i}"), &n, exotic);
            let params: Vec<_> = action.params.iter().map(|p| (p.name.as_str(), p.width)).collect();
            b.action(&action.name, &params, action.body.clone());
        }
        let miss = b.action("miss", &[], vec![Op::Drop(DropReason::TableMiss)]);
        let pass = b.action("pass", &[], Vec::new());

        let candidates = candidates(&n, l4);
        let mut plans = Vec::new();
        for t in 0..tables {
            let (table, plan) = self.table(t, &candidates, count, [miss, pass], &b);
            b.table(table);
            plans.push(plan);
        }
        self.blocks(&mut b, &n, front, tables, again);
        let mut program = b.finish();
        program.reject_continues = self.rng.one_in(2);
        Made { program: Arc::new(program), names: n, plans, exotic }
    }

    fn headers(&mut self, b: &mut Builder, options: bool) -> Names {
        let field = |(name, width): (&str, u32)| Field { name: name.into(), width, varbit: false };
        let more = |fields: &[(&str, u32)]| {
            let mut fields: Vec<Field> = fields.iter().copied().map(field).collect();
            if options {
                fields.push(Field { name: "options".into(), width: 320, varbit: true });
            }
            fields
        };
        let ethernet = b.header_type("ethernet", &[("dst", 48), ("src", 48), ("type", 16)]);
        let tag = b.header_type("tag", &[("pcp", 3), ("dei", 1), ("vid", 12), ("type", 16)]);
        let v4 = more(&[
            ("version", 4),
            ("ihl", 4),
            ("dscp", 6),
            ("ecn", 2),
            ("len", 16),
            ("ident", 16),
            ("flags", 3),
            ("offset", 13),
            ("ttl", 8),
            ("proto", 8),
            ("checksum", 16),
            ("src", 32),
            ("dst", 32),
        ]);
        let v4 = b.header_type_fields("ipv4_t", v4);
        let v6 = b.header_type(
            "ipv6_t",
            &[
                ("version", 4),
                ("tclass", 8),
                ("label", 20),
                ("len", 16),
                ("proto", 8),
                ("ttl", 8),
                ("src", 128),
                ("dst", 128),
            ],
        );
        let tcp = more(&[
            ("sport", 16),
            ("dport", 16),
            ("seq", 32),
            ("ack", 32),
            ("off", 4),
            ("reserved", 4),
            ("flags", 8),
            ("window", 16),
            ("checksum", 16),
            ("urgent", 16),
        ]);
        let tcp = b.header_type_fields("tcp_t", tcp);
        let udp = [("sport", 16), ("dport", 16), ("len", 16), ("checksum", 16)];
        let udp = b.header_type("udp_t", &udp);
        let icmp = [("type", 8), ("code", 8), ("checksum", 16), ("rest", 32)];
        let icmp = b.header_type("icmp_t", &icmp);

        let eth = b.header("eth", ethernet);
        let vlan = b.stack("vlan", tag, 1 + self.rng.below(3) as u32);
        let [v4, v6] = [b.header("ipv4", v4), b.header("ipv6", v6)];
        let [tcp, udp, icmp] = [b.header("tcp", tcp), b.header("udp", udp), b.header("icmp", icmp)];
        b.emit(eth);
        b.emit_stack(vlan);
        [v4, v6, tcp, udp, icmp].into_iter().for_each(|h| b.emit(h));
        let tag = b.element(vlan, 0);
        b.value_set("types", 16, 4);
        Names {
            eth,
            vlan,
            tag,
            v4,
            v6,
            tcp,
            udp,
            icmp,
            class: b.meta("m.class", 8),
            vrf: b.meta("m.vrf", 16),
            port: b.meta("m.port", 32),
            sport: b.meta("m.sport", 16),
            dport: b.meta("m.dport", 16),
            color: b.meta("m.color", 8),
            level: b.meta("m.level", 8),
            live: b.meta("m.live", 1),
            stage: b.meta("m.stage", 8),
            from: b.meta("m.from", 8),
            register: b.register("cells", 32, 4),
            digest: b.digest("seen", &[("mac", 48), ("port", 32)]),
            counter: b.counter("hits", 4),
            services: [false, true].map(|edits| {
                let name = if edits { "edits" } else { "looks" };
                let args = [("to", 32), ("port", 32)];
                b.service(name, &args, &[("class", 8), ("port", 32), ("more", 64)], edits)
            }),
            egress: BlockId(0),
            end: BlockId(0),
        }
    }

    fn parser(&mut self, b: &mut Builder, n: &Names, options: bool, l4: bool) {
        let names = ["start", "tag", "ip4", "ip6", "seg", "dgram", "echo"];
        let states = names.map(|name| b.state(name));
        let [start, tag, ip4, ip6, seg, dgram, echo] = states;
        let one = |value: u128, width: u32| {
            Select::Masked(Bits::from_u128(value, width), Bits::ones(width))
        };
        let case = |pattern: Select, to: ParserStateId| SelectCase {
            patterns: vec![pattern],
            next: Transition::State(to),
        };
        let other = SelectCase { patterns: vec![Select::Any], next: Transition::Accept };
        let mut types = vec![
            case(one(0x8100, 16), tag),
            case(one(0x88a8, 16), tag),
            case(one(0x0800, 16), ip4),
            case(one(0x86dd, 16), ip6),
        ];
        if self.rng.one_in(3) {
            types.push(case(Select::ValueSet(ValueSetId(0)), self.rng.pick(&[ip4, ip6, tag])));
        }
        // Without a last case, other types are an error.
        if !self.rng.one_in(6) {
            types.push(other.clone());
        }
        let extract = |header| ParserOp::Extract { header, varbit: None };
        let by_type =
            |of: FieldRef| Transition::Select { keys: vec![value(of)], cases: types.clone() };
        let first = header(n.eth, at::ETH_TYPE);
        b.set_state(start, vec![extract(n.eth)], by_type(first));
        let mut next = by_type(FieldRef::Last(n.vlan, FieldId(at::TAG_TYPE)));
        let size = b.program().stacks[n.vlan.index()].size;
        if self.rng.one_in(2) {
            // Tags beyond the stack's size are payload, rather than an error.
            let full = one(u128::from(size), 8);
            let cases = vec![
                SelectCase { patterns: vec![full, one(0x8100, 16)], next: Transition::Accept },
                SelectCase {
                    patterns: vec![Select::Any, one(0x8100, 16)],
                    next: Transition::State(tag),
                },
                SelectCase {
                    patterns: vec![Select::Any, one(0x0800, 16)],
                    next: Transition::State(ip4),
                },
                SelectCase {
                    patterns: vec![Select::Any, one(0x86dd, 16)],
                    next: Transition::State(ip6),
                },
                SelectCase { patterns: vec![Select::Any, Select::Any], next: Transition::Accept },
            ];
            let last = value(FieldRef::Last(n.vlan, FieldId(at::TAG_TYPE)));
            next = Transition::Select { keys: vec![Expr::StackSize(n.vlan), last], cases };
        }
        b.set_state(tag, vec![ParserOp::ExtractNext { stack: n.vlan, varbit: None }], next);

        let words = |skip: u32| {
            let more = Expr::Lookahead { skip, width: 4 }.cast(32);
            let more = binary(BinaryOp::SubSat, more, Expr::int(5, 32));
            options.then(|| binary(BinaryOp::Shl, more, Expr::int(5, 32)))
        };
        let mut ops = vec![ParserOp::Extract { header: n.v4, varbit: words(4) }];
        if self.rng.one_in(2) {
            let enough = binary(BinaryOp::Ge, value(header(n.v4, at::IHL)), Expr::int(5, 4));
            ops.push(ParserOp::Verify(enough, parser_error::USER));
        }
        let keys = vec![value(header(n.v4, at::OFFSET4)), value(header(n.v4, at::PROTO4))];
        let whole = |proto: u128, to| SelectCase {
            patterns: vec![one(0, 13), one(proto, 8)],
            next: Transition::State(to),
        };
        let any = SelectCase { patterns: vec![Select::Any, Select::Any], next: Transition::Accept };
        let cases = vec![whole(6, seg), whole(17, dgram), whole(1, echo), any];
        b.set_state(ip4, ops, Transition::Select { keys, cases });
        let cases = vec![
            case(one(6, 8), seg),
            case(one(17, 8), dgram),
            // Extension headers and options are payload.
            SelectCase {
                patterns: vec![Select::Range(Bits::zero(8), Bits::from_u128(5, 8))],
                next: Transition::Accept,
            },
            case(one(58, 8), echo),
            other,
        ];
        let keys = vec![value(header(n.v6, at::PROTO6))];
        b.set_state(ip6, vec![extract(n.v6)], Transition::Select { keys, cases });
        let ports = |h: HeaderId| match l4 {
            true => vec![
                ParserOp::Assign(FieldRef::Meta(n.sport), value(header(h, at::SPORT))),
                ParserOp::Assign(FieldRef::Meta(n.dport), value(header(h, at::DPORT))),
            ],
            false => Vec::new(),
        };
        let ops = [vec![ParserOp::Extract { header: n.tcp, varbit: words(96) }], ports(n.tcp)];
        b.set_state(seg, ops.concat(), Transition::Accept);
        b.set_state(dgram, [vec![extract(n.udp)], ports(n.udp)].concat(), Transition::Accept);
        b.set_state(echo, vec![extract(n.icmp)], Transition::Accept);
    }

    fn checksums(&mut self, b: &mut Builder, n: &Names, options: bool) {
        let all = |b: &Builder, h: HeaderId, but: u32| -> Vec<Expr> {
            let fields = b.program().type_of(h).fields.len() as u32;
            let skip = |i: &u32| {
                *i != but && (options || !b.program().type_of(h).fields[*i as usize].varbit)
            };
            (0..fields).filter(skip).map(|i| value(header(h, i))).collect()
        };
        let addresses = [
            header(n.v4, at::SRC4),
            header(n.v4, at::DST4),
            header(n.v6, at::SRC6),
            header(n.v6, at::DST6),
        ];
        let pseudo: Vec<Expr> = addresses.into_iter().map(value).collect();
        let odd = self.rng.one_in(6);
        for (h, at, with, zero_is_none) in [
            (n.v4, at::SUM4, false, false),
            (n.tcp, at::TCP_SUM, true, false),
            (n.udp, at::UDP_SUM, true, true),
            (n.icmp, at::ICMP_SUM, false, false),
        ] {
            if self.rng.one_in(8) {
                continue;
            }
            let own = all(b, h, at);
            let inputs = if with { [pseudo.clone(), own].concat() } else { own };
            let modes = [ChecksumMode::Incremental, ChecksumMode::IfChanged, ChecksumMode::Always];
            let mode = if odd { self.rng.pick(&modes) } else { ChecksumMode::Incremental };
            let payload = odd && with && mode != ChecksumMode::Incremental;
            b.checksum(Checksum {
                field: header(h, at),
                algorithm: ChecksumAlgorithm::Csum16,
                mode,
                inputs,
                payload,
                condition: Some(Expr::Valid(h)),
                zero_is_none,
            });
        }
    }

    /// An action of a random kind; what a parameter is shows in its name.
    fn action(&mut self, name: &str, n: &Names, exotic: bool) -> Action {
        let (params, body) = if exotic { self.exotic(n) } else { self.usual(n) };
        let params =
            params.iter().map(|(name, width)| Param { name: (*name).into(), width: *width });
        Action { name: name.into(), params: params.collect(), body }
    }

    fn usual(&mut self, n: &Names) -> (Vec<(&'static str, u32)>, Vec<Op>) {
        let p = Expr::Param;
        let meta = FieldRef::Meta;
        let set = Op::Assign;
        let out = |port| Op::Output { port };
        let (dst, src) = (header(n.eth, at::ETH_DST), header(n.eth, at::ETH_SRC));
        let ether_type = header(n.eth, at::ETH_TYPE);
        let onward = |port: Expr, r: &mut Rng| match r.below(3) {
            0 => Op::Output { port },
            _ => Op::Assign(FieldRef::Meta(n.port), port),
        };
        let live = |ttl: FieldRef| {
            vec![
                when(
                    binary(BinaryOp::Le, value(ttl), Expr::int(1, 8)),
                    vec![Op::Drop(DropReason::InvalidTtl)],
                    vec![],
                ),
                set(ttl, binary(BinaryOp::Sub, value(ttl), Expr::int(1, 8))),
            ]
        };
        let r = &mut self.rng;
        match r.below(30) {
            0 | 1 => (vec![("port", 32)], vec![out(p(0))]),
            2 | 3 => (vec![("port", 32)], vec![set(meta(n.port), p(0))]),
            4..=6 => {
                let other = if r.one_in(2) {
                    vec![]
                } else {
                    vec![when(Expr::Valid(n.v6), live(header(n.v6, at::TTL6)), vec![])]
                };
                let ttl = when(Expr::Valid(n.v4), live(header(n.v4, at::TTL4)), other);
                let mut body = vec![set(src, p(0)), set(dst, p(1)), onward(p(2), r)];
                body.insert(r.below(2), ttl);
                (vec![("mac", 48), ("mac2", 48), ("port", 32)], body)
            }
            7 => match r.below(4) {
                0 | 1 => (vec![], vec![Op::Drop(DropReason::Action)]),
                2 => (vec![], vec![Op::Exit]),
                _ => (vec![], vec![]),
            },
            8 => (vec![("port", 32), ("class", 8)], vec![out(p(0)), set(meta(n.class), p(1))]),
            9 => (vec![("class", 8)], vec![set(meta(n.class), p(0))]),
            10 => (vec![("vrf", 16)], vec![set(meta(n.vrf), p(0))]),
            11 | 12 => {
                let mut body = vec![
                    Op::PushFront(n.vlan, 1),
                    set(header(n.tag, at::VID), p(0)),
                    set(header(n.tag, at::TAG_TYPE), value(ether_type)),
                    set(ether_type, Expr::int(0x8100, 16)),
                ];
                if r.one_in(2) {
                    body.push(onward(p(1), r));
                }
                (vec![("vid", 12), ("port", 32)], body)
            }
            13 | 14 => {
                let pop = vec![
                    set(ether_type, value(header(n.tag, at::TAG_TYPE))),
                    Op::PopFront(n.vlan, 1),
                ];
                let body = match r.one_in(2) {
                    true => vec![when(Expr::Valid(n.tag), pop, vec![]), onward(p(0), r)],
                    false => [pop, vec![onward(p(0), r)]].concat(),
                };
                (vec![("port", 32)], body)
            }
            15 => (vec![("vid", 12)], vec![set(header(n.tag, at::VID), p(0))]),
            16 | 17 => {
                let (ip, l4) = match r.one_in(2) {
                    true => (at::SRC4, at::SPORT),
                    false => (at::DST4, at::DPORT),
                };
                let udp = when(Expr::Valid(n.udp), vec![set(header(n.udp, l4), p(1))], vec![]);
                let port = when(Expr::Valid(n.tcp), vec![set(header(n.tcp, l4), p(1))], vec![udp]);
                let body = vec![set(header(n.v4, ip), p(0)), port, onward(p(2), r)];
                (vec![("ip4", 32), ("l4", 16), ("port", 32)], body)
            }
            18 => {
                let ip = r.pick(&[at::SRC6, at::DST6]);
                (vec![("ip6", 128)], vec![set(header(n.v6, ip), p(0))])
            }
            19 => (vec![("dscp", 6)], vec![set(header(n.v4, at::DSCP), p(0))]),
            20 => {
                let part = Op::AssignSlice(header(n.v4, at::DST4), 15, 8, p(0));
                (vec![("class", 8)], vec![part, Op::AssignSlice(meta(n.vrf), 9, 2, p(0))])
            }
            21 => {
                let mut body = vec![out(p(0)), out(p(1))];
                if r.one_in(2) {
                    body.insert(1, set(dst, value(src)));
                }
                (vec![("port", 32), ("port2", 32)], body)
            }
            22 => {
                let to = r.pick(&[n.egress, n.end]);
                (vec![("port", 32)], vec![onward(p(0), r), Op::Goto(to)])
            }
            23 => {
                let dst4 = || value(header(n.v4, at::DST4));
                let body = match r.below(4) {
                    0 => vec![set(dst, value(src)), set(meta(n.class), dst4().slice(7, 0))],
                    1 => {
                        let sum = binary(BinaryOp::Add, dst4().slice(31, 16), Expr::meta(n.vrf));
                        vec![set(meta(n.vrf), sum)]
                    }
                    2 => vec![set(src, binary(BinaryOp::Concat, Expr::meta(n.vrf), dst4()))],
                    _ => {
                        let mux = Expr::Mux(
                            Box::new(binary(
                                BinaryOp::Gt,
                                value(header(n.v4, at::TTL4)),
                                Expr::int(32, 8),
                            )),
                            Box::new(p(0)),
                            Box::new(Expr::meta(intrinsic::IN_PORT)),
                        );
                        vec![set(meta(n.port), mux)]
                    }
                };
                (vec![("port", 32)], body)
            }
            26..=28 => (vec![("port", 32)], copies(r, n, 2)),
            24 => {
                (vec![("port", 32)], vec![set(QUEUE, Expr::int(r.below(3) as u128, 32)), out(p(0))])
            }
            25 => {
                let body = match r.below(5) {
                    0 => vec![Op::SetInvalid(n.tcp)],
                    1 => {
                        vec![Op::SetValid(n.udp), set(header(n.udp, at::DPORT), Expr::int(53, 16))]
                    }
                    2 => vec![Op::SetInvalid(n.tag)],
                    3 => vec![Op::SetValid(n.icmp), set(header(n.icmp, at::ICMP_TYPE), p(0))],
                    _ => vec![
                        Op::SetValid(n.tag),
                        set(header(n.tag, at::TAG_TYPE), Expr::int(0x0800, 16)),
                    ],
                };
                (vec![("class", 8)], body)
            }
            _ => {
                let seq = header(n.tcp, at::SEQ);
                let body = match r.below(4) {
                    0 => vec![set(seq, binary(BinaryOp::Add, value(seq), p(0)))],
                    1 => vec![set(header(n.tcp, at::TCP_FLAGS), Expr::int(0x12, 8))],
                    2 => vec![set(header(n.icmp, at::ICMP_REST), p(0))],
                    _ => vec![set(header(n.icmp, at::ICMP_TYPE), Expr::int(0, 8)), out(p(0))],
                };
                (vec![("port", 32)], body)
            }
        }
    }

    /// What compiled code seldom has.
    fn exotic(&mut self, n: &Names) -> (Vec<(&'static str, u32)>, Vec<Op>) {
        let p = Expr::Param;
        let meta = FieldRef::Meta;
        let mac = || value(header(n.eth, at::ETH_SRC));
        let in_port = || Expr::meta(intrinsic::IN_PORT);
        let small = |e: Expr| binary(BinaryOp::And, e, Expr::int(7, 32));
        let r = &mut self.rng;
        match r.below(17) {
            0 => (vec![("group", 32)], vec![Op::Group { group: p(0) }]),
            1 => {
                let meter = Op::Meter { meter: p(0), color: meta(n.color), level: meta(n.level) };
                let red = Expr::meta(n.color).eq(Expr::int(2, 8));
                let drop = when(red, vec![Op::Drop(DropReason::Meter)], vec![]);
                (vec![("meter", 32)], vec![meter, drop])
            }
            2 => {
                let read =
                    Op::RegisterRead { field: meta(n.port), register: n.register, index: p(0) };
                (vec![("cell", 32)], vec![read])
            }
            3 => {
                let index = small(value(header(n.v4, at::DST4)));
                let write = Op::RegisterWrite { register: n.register, index, value: p(0) };
                (vec![("port", 32)], vec![write])
            }
            4 => (vec![("cell", 32)], vec![Op::Count { counter: n.counter, index: p(0) }]),
            5 => {
                let args = vec![in_port(), Expr::meta(n.vrf)];
                let punt = Op::Punt {
                    reason: r.pick(&[PuntReason::Action, PuntReason::InvalidTtl]),
                    args,
                };
                (vec![("port", 32)], vec![punt, Op::Assign(meta(n.port), p(0))])
            }
            6 => (vec![], vec![Op::Digest { digest: n.digest, args: vec![mac(), in_port()] }]),
            7 => {
                let copy = r.pick(&[Copy::Current, Copy::Ingress]);
                let block = r.pick(&[n.egress, n.end]);
                (
                    vec![("port", 32)],
                    vec![Op::Assign(meta(n.port), p(0)), Op::Clone { block, copy }],
                )
            }
            8 => {
                // Once: the second time the class is not 0.
                let keep = vec![n.class];
                let again =
                    if r.one_in(2) { Op::Resubmit { keep } } else { Op::Recirculate { keep } };
                let first = Expr::meta(n.class).eq(Expr::int(0, 8));
                let body = vec![when(
                    first,
                    vec![Op::Assign(meta(n.class), Expr::int(1, 8)), again],
                    vec![],
                )];
                (vec![], body)
            }
            9 => {
                // Perhaps from afore, where the same entry is met again.
                let block = r.pick(&[BlockId(0), n.egress, n.end]);
                let guise = r.one_in(2).then(|| {
                    let in_port = small(value(header(n.v4, at::DST4)));
                    crate::Guise { in_port, columns: Vec::new(), tables: vec![TableId(0)] }
                });
                let first = Expr::meta(n.class).eq(Expr::int(0, 8));
                let later = guise.is_none() && block > BlockId(0);
                let call = Op::Call { block, until: n.end, guise, site: 0 };
                let once = vec![Op::Assign(meta(n.class), Expr::int(1, 8)), call.clone()];
                // What leads to later tables needs no guard.
                let call = if later { call } else { when(first, once, vec![]) };
                (vec![("port", 32)], vec![call, Op::Assign(meta(n.port), p(0))])
            }
            10 => {
                let body = vec![
                    Op::Assign(header(n.eth, at::ETH_SRC), Expr::int(2, 48)),
                    Op::Output { port: p(0) },
                    Op::Assign(meta(n.port), Expr::int(1, 32)),
                    Op::Call { block: n.egress, until: n.end, guise: None, site: 0 },
                ];
                (vec![("port", 32)], vec![Op::OnCopy { body }])
            }
            11 => {
                let live = Op::PortLive { field: meta(n.live), port: p(0) };
                let to = Op::Assign(meta(n.port), p(0));
                (vec![("port", 32)], vec![live, when(Expr::meta(n.live), vec![to], vec![])])
            }
            13 => {
                let service = r.pick(&n.services);
                let args = vec![value(header(n.v4, at::DST4)), p(0)];
                let mut body = changes(r, n);
                body.push(Op::Service { service, args, results: vec![n.class, n.port] });
                (vec![("port", 32)], body)
            }
            12 => (vec![("vid", 12)], vec![Op::Assign(header(n.tag, at::VID), p(0)), Op::Reparse]),
            14 | 15 => {
                // To a service and round again, as SoftFlow's actions: a few times, or as long as it may.
                let service = r.pick(&n.services);
                let args = vec![value(header(n.v4, at::DST4)), p(0)];
                let mut keep = vec![n.stage, n.from];
                keep.extend([n.class, n.vrf, n.port].into_iter().filter(|_| r.one_in(2)));
                let next = binary(BinaryOp::Add, Expr::meta(n.stage), Expr::int(1, 8));
                let mut call = changes(r, n);
                call.extend([
                    Op::Service { service, args, results: vec![n.class, n.port] },
                    Op::Assign(meta(n.stage), next),
                    Op::Assign(meta(n.from), Expr::int(1 + r.below(2) as u128, 8)),
                    Op::Recirculate { keep },
                ]);
                let few = binary(BinaryOp::Lt, Expr::meta(n.stage), Expr::int(2, 8));
                let to = vec![Op::Assign(meta(n.port), p(0))];
                let body = if r.one_in(6) { call } else { vec![when(few, call, to)] };
                (vec![("port", 32)], body)
            }
            _ => {
                let inputs = vec![value(header(n.v4, at::SRC4)), value(header(n.v4, at::DST4))];
                let algorithm = r.pick(&[HashAlgorithm::Crc32, HashAlgorithm::Xor16]);
                let hash = Expr::Hash { algorithm, width: 32, inputs };
                let one = binary(BinaryOp::And, hash, Expr::int(3, 32));
                (vec![], vec![Op::Assign(meta(n.port), one)])
            }
        }
    }

    fn table(
        &mut self,
        t: usize,
        candidates: &[Candidate],
        actions: usize,
        [miss, pass]: [ActionId; 2],
        b: &Builder,
    ) -> (Table, Plan) {
        let r = &mut self.rng;
        let shape = if r.one_in(16) { Shape::Keyless } else { r.pick(&SHAPES) };
        let of = |props: &[Prop], r: &mut Rng| -> Option<Candidate> {
            let fits: Vec<_> = candidates.iter().filter(|c| props.contains(&c.prop)).collect();
            (!fits.is_empty()).then(|| (*r.pick(&fits)).clone())
        };
        let mut list: Vec<(Candidate, MatchKind)> = Vec::new();
        let mut add = |c: Option<Candidate>, kind| {
            if let Some(c) = c.filter(|c| list.iter().all(|(l, _)| l.name != c.name)) {
                list.push((c, kind));
            }
        };
        let any = |r: &mut Rng| Some(r.pick(candidates));
        match shape {
            Shape::Exact => {
                for _ in 0..1 + r.below(6) {
                    add(any(r), MatchKind::Exact);
                }
            }
            Shape::Prefix => {
                if r.one_in(3) {
                    add(of(&[Prop::Small, Prop::InPort, Prop::Vid], r), MatchKind::Exact);
                }
                let what = r.pick(&[Prop::Dst4, Prop::Dst4, Prop::Dst6, Prop::Src4, Prop::Dst]);
                add(of(&[what], r), MatchKind::Lpm);
                if r.one_in(6) {
                    add(any(r), MatchKind::Optional);
                }
            }
            Shape::Range => {
                let what =
                    [Prop::L4Dst, Prop::TcpDst, Prop::UdpSrc, Prop::Ttl, Prop::Length, Prop::Dst4];
                add(of(&what, r), MatchKind::Range);
                if r.one_in(3) {
                    add(of(&[Prop::Proto, Prop::InPort], r), MatchKind::Exact);
                }
            }
            Shape::FewMasks | Shape::ManyMasks => {
                for _ in 0..2 + r.below(4) {
                    add(any(r), MatchKind::Ternary);
                }
                if r.one_in(4) {
                    add(of(&[Prop::L4Dst, Prop::TcpDst], r), MatchKind::Range);
                }
            }
            Shape::Few => {
                for _ in 0..1 + r.below(3) {
                    let kinds = [
                        MatchKind::Exact,
                        MatchKind::Lpm,
                        MatchKind::Ternary,
                        MatchKind::Range,
                        MatchKind::Optional,
                    ];
                    let kind = r.pick(&kinds);
                    add(any(r), kind);
                }
            }
            Shape::Firewall => {
                let ternary = r.one_in(2);
                let address = if ternary { MatchKind::Ternary } else { MatchKind::Lpm };
                if r.one_in(2) {
                    add(of(&[Prop::InPort], r), MatchKind::Ternary);
                }
                add(of(&[Prop::Src4], r), address);
                add(of(&[Prop::Dst4], r), address);
                add(of(&[Prop::Proto], r), MatchKind::Optional);
                let range = if r.one_in(2) { MatchKind::Range } else { MatchKind::Ternary };
                add(of(&[Prop::L4Src, Prop::TcpSrc], r), range);
                add(of(&[Prop::L4Dst, Prop::TcpDst], r), range);
            }
            Shape::Optional => {
                for _ in 0..1 + r.below(4) {
                    add(any(r), MatchKind::Optional);
                }
            }
            Shape::Keyless => {}
        }
        let masks = (0..2 + r.below(2))
            .map(|_| list.iter().map(|(c, _)| mask(r, c.width)).collect())
            .collect();
        let key = list.iter().map(|(c, kind)| Key {
            name: c.name.clone(),
            expr: c.expr.clone(),
            kind: *kind,
            width: c.width,
        });
        let all: Vec<ActionId> = (0..actions as u32).map(ActionId).collect();
        let mut allowed: Vec<ActionId> = all.iter().copied().filter(|_| !r.one_in(3)).collect();
        allowed.extend([miss, pass]);
        let default = r.pick(&[miss, pass, pass, allowed[0], allowed[0]]);
        let params = b.program().actions[default.index()].params.clone();
        let default = self.call(default, &params);
        let r = &mut self.rng;
        let table = Table {
            name: format!("table{t}"),
            key: key.collect(),
            actions: r.one_in(2).then(|| allowed.clone()),
            default,
            default_const: r.one_in(8),
            capacity: match shape {
                Shape::Few => 1 + r.below(4) as u32,
                _ => r.pick(&[6, 16, 24, 24, 60]),
            },
            counters: !r.one_in(3),
        };
        let props = list.iter().map(|(c, _)| c.prop).collect();
        (table, Plan { shape, props, masks, actions: allowed })
    }

    fn blocks(&mut self, b: &mut Builder, n: &Names, front: BlockId, tables: usize, again: bool) {
        let r = &mut self.rng;
        let first = front.0 + 1;
        let block = |t: usize| BlockId(first + t as u32);
        let mut ops = Vec::new();
        match r.below(8) {
            0 => {
                let condition = Expr::Valid(n.v4).or(Expr::Valid(n.v6)).not();
                ops.push(when(condition, vec![Op::Drop(DropReason::HeaderMissing)], vec![]));
            }
            1 => {
                let condition = Expr::meta(intrinsic::PARSER_ERROR).ne(Expr::int(0, 8));
                ops.push(when(condition, vec![Op::Drop(DropReason::ParserReject)], vec![]));
            }
            2 => {
                let from = Expr::meta(intrinsic::IN_PORT).cast(16);
                ops.push(Op::Assign(
                    FieldRef::Meta(n.vrf),
                    binary(BinaryOp::And, from, Expr::int(1, 16)),
                ));
            }
            _ => {}
        }
        let end = match r.below(3) {
            0 if tables > 1 => Terminator::If {
                condition: Expr::Valid(n.v4),
                then: block(0),
                or_else: block(1 + r.below(tables - 1)),
            },
            _ => Terminator::Jump(block(0)),
        };
        b.set_block(front, ops, end);
        let applied: Vec<usize> = (0..tables).chain(again.then_some(0)).collect();
        for (at, t) in applied.iter().enumerate() {
            let next = block(at + 1);
            let last = n.end.0 - next.0 + 1;
            let later = |r: &mut Rng| BlockId(next.0 + r.below(last as usize) as u32);
            let allowed = b.program().tables[*t].actions.clone();
            let known = allowed
                .unwrap_or_else(|| (0..b.program().actions.len() as u32).map(ActionId).collect());
            let mut by_action = Vec::new();
            if r.one_in(4) {
                let some: Vec<ActionId> = known.into_iter().filter(|_| r.one_in(4)).collect();
                by_action = some.into_iter().map(|a| (a, later(r))).collect();
            }
            let hit = if r.one_in(4) { later(r) } else { next };
            let miss = match r.below(4) {
                0 => later(r),
                1 => hit,
                _ => next,
            };
            let ops = match r.below(6) {
                0 => vec![when(
                    Expr::Valid(n.tag),
                    vec![Op::Assign(FieldRef::Meta(n.vrf), value(header(n.tag, at::VID)).cast(16))],
                    vec![],
                )],
                _ => Vec::new(),
            };
            let end = Terminator::Apply { table: TableId(*t as u32), hit, miss, by_action };
            b.set_block(block(at), ops, end);
        }
        let chosen = Expr::meta(n.port).ne(Expr::int(0, 32));
        let out = Op::Output { port: Expr::meta(n.port) };
        let ops = match r.below(6) {
            0 => vec![when(chosen, vec![out], vec![Op::Drop(DropReason::NoOutput)])],
            1 => vec![out],
            2 => vec![when(chosen, vec![out], vec![])],
            // An uplink for all that has no port.
            _ => vec![when(chosen, vec![out], vec![Op::Output { port: Expr::int(9, 32) }])],
        };
        b.set_block(n.egress, ops, Terminator::Jump(n.end));
        b.set_block(n.end, vec![], Terminator::Exit);
    }

    /// A value for a parameter, by its name.
    fn argument(&mut self, param: &Param) -> Bits {
        let flow = self.rng.below(self.flows.len());
        let flow = &self.flows[flow];
        let r = &mut self.rng;
        let v = match param.name.trim_end_matches('2') {
            "port" => 1 + r.below(PORTS) as u128,
            "mac" => flow.prop(Prop::Dst).unwrap_or(1),
            "ip4" => flow.prop(Prop::Dst4).filter(|v| *v != 0).unwrap_or(0x0a00_0001),
            "ip6" => flow.prop(Prop::Dst6).filter(|v| *v != 0).unwrap_or(1),
            "vid" => r.below(5) as u128,
            "l4" => r.pick(&[0, 53, 80, 443, 0xffff]),
            "group" | "meter" => r.below(NUMBERS) as u128,
            "cell" => r.below(5) as u128,
            _ => r.below(4) as u128,
        };
        Bits::from_u128(v, param.width)
    }

    fn call(&mut self, action: ActionId, params: &[Param]) -> ActionCall {
        let args: Vec<Bits> = params.iter().map(|p| self.argument(p)).collect();
        ActionCall::with(action, args)
    }

    fn any_call(&mut self, p: &Pipeline, from: &[ActionId], open: bool) -> ActionCall {
        let mut id = self.rng.pick(from);
        if open && self.rng.one_in(6) {
            let added: Vec<ActionId> = p.added_actions().map(|(id, _)| id).collect();
            if !added.is_empty() {
                id = self.rng.pick(&added);
            }
        }
        match p.action(id).cloned() {
            Some(action) => self.call(id, &action.params),
            None => ActionCall::new(id),
        }
    }

    fn pattern(&mut self, key: &Key, value: Bits, few: Option<&Bits>) -> Option<Pattern> {
        let w = key.width;
        let r = &mut self.rng;
        match key.kind {
            MatchKind::Exact => Some(Pattern::Exact(value)),
            MatchKind::Optional => (!r.one_in(3)).then_some(Pattern::Exact(value)),
            MatchKind::Lpm => {
                let len = r.pick(&[0, w / 4, w / 2, w / 2 + 1, 3 * w / 4, w - 1, w, w]);
                if len == w && r.one_in(2) {
                    return Some(Pattern::Exact(value));
                }
                Some(Pattern::Prefix(value.and(&Bits::prefix_mask(len, w)), len))
            }
            MatchKind::Ternary => {
                let mask = match few {
                    Some(mask) => mask.clone(),
                    None => mask(r, w),
                };
                if mask == Bits::zero(w) {
                    return None;
                }
                if mask.is_ones() && r.one_in(2) {
                    return Some(Pattern::Exact(value));
                }
                Some(Pattern::Masked(value.and(&mask), mask))
            }
            MatchKind::Range => {
                if r.one_in(6) {
                    return None;
                }
                let wide = Bits::from_u128(r.pick(&[0, 1, 10, 1000, 0xffff]), 128).cast(w);
                let high = Bits::from_u128(r.pick(&[0, 1, 10, 1000, 0xffff]), 128).cast(w);
                Some(Pattern::Range(value.sub_sat(&wide), value.add_sat(&high)))
            }
        }
    }

    fn entry(&mut self, made: &Made, p: &Pipeline, table: TableId) -> Entry {
        let t = &p.program().tables[table.index()];
        let plan = &made.plans[table.index()];
        let flow = self.rng.below(self.flows.len());
        let few = (plan.shape == Shape::FewMasks).then(|| self.rng.below(plan.masks.len()));
        let mut matches = Vec::new();
        for (at, (key, prop)) in t.key.iter().zip(&plan.props).enumerate() {
            let from = if self.rng.one_in(16) { self.rng.below(self.flows.len()) } else { flow };
            let v = match self.flows[from].prop(*prop) {
                Some(v) => v,
                // The first value is likelier: metadata is zero until it is set.
                None => self.rng.below(3) as u128 * u128::from(self.rng.one_in(2)),
            };
            let few = few.map(|i| &plan.masks[i][at]);
            if let Some(pattern) = self.pattern(key, Bits::from_u128(v, key.width), few) {
                matches.push(KeyMatch { key: at as u16, pattern });
            }
        }
        let tables = p.program().tables.len() as u32;
        let free =
            |id: &u32| (0..tables).all(|t| p.entries(TableId(t)).get(EntryId(*id)).is_none());
        let from = self.rng.below(IDS as usize / 2) as u32;
        let id = (from..IDS).find(free).unwrap_or(from);
        let flat = match plan.shape {
            Shape::Exact | Shape::Prefix => !self.rng.one_in(24),
            _ => self.rng.one_in(6),
        };
        let priorities = [0, 1, 2, 3, 5, 10, 100, -1, i32::MAX, i32::MIN];
        Entry {
            id: EntryId(id),
            priority: if flat { 0 } else { self.rng.pick(&priorities) },
            matches: matches.into(),
            action: self.any_call(p, &plan.actions, t.actions.is_none()),
            cookie: 0,
            idle_timeout_ns: 0,
            hard_timeout_ns: 0,
        }
    }

    /// An update; `None` for another program.
    fn draw(&mut self, made: &Made, p: &Pipeline) -> Option<Update> {
        let tables = p.program().tables.len();
        let table = TableId(self.rng.below(tables) as u32);
        let plan = &made.plans[table.index()];
        let open = p.program().tables[table.index()].actions.is_none();
        let entries = p.entries(table).len();
        let number = self.rng.below(NUMBERS) as u32;
        Some(match self.rng.below(200) {
            choice @ 0..=59 if entries > 0 => {
                let at = self.rng.below(entries);
                let old = p.entries(table).iter().nth(at)?.clone();
                if choice < 30 {
                    return Some(Update::Delete(table, old.id));
                }
                let action = self.any_call(p, &plan.actions, open);
                Update::Modify(table, Arc::new(Entry { action, ..(*old).clone() }))
            }
            60 => Update::Clear(table),
            61..=67 => Update::SetDefault(table, self.any_call(p, &plan.actions, open)),
            68..=71 => {
                let exotic = made.exotic && self.rng.one_in(3);
                let action = self.action(&format!("added{number}"), &made.names, exotic);
                Update::AddAction(ActionId(ADDED + number), Arc::new(action))
            }
            72 => {
                // Only what nothing refers to may go.
                let id = ActionId(ADDED + number);
                let calls = |c: &ActionCall| c.action == id;
                let in_table = |t: u32| {
                    let entries = p.entries(TableId(t));
                    calls(entries.default()) || entries.iter().any(|e| calls(&e.action))
                };
                let in_group = |g: &Arc<Group>| g.buckets.iter().any(|b| calls(&b.action));
                let used = (0..tables as u32).any(in_table) || p.groups().any(|(_, g)| in_group(g));
                if used { Update::Clear(table) } else { Update::RemoveAction(id) }
            }
            73..=76 => {
                let types = [0x0800, 0x86dd, 0x8100, 0x9100, 0x1234];
                let mut member = || match self.rng.below(4) {
                    0 => Select::Range(Bits::from_u128(0x9000, 16), Bits::from_u128(0x9fff, 16)),
                    _ => Select::Masked(Bits::from_u128(self.rng.pick(&types), 16), Bits::ones(16)),
                };
                let members = (0..number).map(|_| member()).collect();
                Update::SetValueSet(ValueSetId(0), members)
            }
            77..=84 if made.exotic => {
                let kinds = [
                    GroupKind::All,
                    GroupKind::Select,
                    GroupKind::FastFailover,
                    GroupKind::Indirect,
                ];
                let kind = self.rng.pick(&kinds);
                let count = if kind == GroupKind::Indirect { 1 } else { self.rng.below(4) };
                let buckets = (0..count as u32)
                    .map(|i| Bucket {
                        weight: 1 + i as u16,
                        watch_port: self.rng.one_in(2).then_some(i),
                        watch_group: None,
                        action: self.any_call(p, &plan.actions, true),
                        counter: CounterId(IDS + i),
                    })
                    .collect();
                let hash = vec![value(header(made.names.v4, at::SRC4))];
                let group = Group { kind, buckets, hash, counter: CounterId(IDS + 10 + number) };
                Update::SetGroup(GroupId(number), Arc::new(group))
            }
            85 if made.exotic => Update::RemoveGroup(GroupId(number)),
            86..=89 if made.exotic => {
                let band = |color| Band { rate: 0, burst: 0, color, level: 3 };
                let bands = match self.rng.below(3) {
                    0 => Vec::new(),
                    color => vec![band(color as u8)],
                };
                Update::SetMeter(MeterId(number), Arc::new(Meter { packets: true, bands }))
            }
            90 if made.exotic => Update::RemoveMeter(MeterId(number)),
            91 => return None,
            _ => Update::Insert(table, Arc::new(self.entry(made, p, table))),
        })
    }
}

/// The fields that tables may look at.
fn candidates(n: &Names, l4: bool) -> Vec<Candidate> {
    let mut out = Vec::new();
    let mut add = |prop, name: &str, expr: Expr, width| {
        out.push(Candidate { prop, name: name.into(), expr, width });
    };
    let meta = |m| Expr::meta(m);
    let h = |header_id, field| value(header(header_id, field));
    add(Prop::InPort, "std.in_port", meta(intrinsic::IN_PORT), 32);
    add(Prop::Dst, "eth.dst", h(n.eth, at::ETH_DST), 48);
    add(Prop::Src, "eth.src", h(n.eth, at::ETH_SRC), 48);
    add(Prop::Type, "eth.type", h(n.eth, at::ETH_TYPE), 16);
    add(Prop::Vid, "vlan[0].vid", h(n.tag, at::VID), 12);
    add(Prop::Tagged, "tagged", Expr::Valid(n.tag), 1);
    add(Prop::Src4, "ipv4.src", h(n.v4, at::SRC4), 32);
    add(Prop::Dst4, "ipv4.dst", h(n.v4, at::DST4), 32);
    add(Prop::Src6, "ipv6.src", h(n.v6, at::SRC6), 128);
    add(Prop::Dst6, "ipv6.dst", h(n.v6, at::DST6), 128);
    add(Prop::Is4, "is_ipv4", Expr::Valid(n.v4), 1);
    add(Prop::Ttl, "ipv4.ttl", h(n.v4, at::TTL4), 8);
    add(Prop::Dscp, "ipv4.dscp", h(n.v4, at::DSCP), 6);
    let either = Expr::Mux(
        Box::new(Expr::Valid(n.v4)),
        Box::new(h(n.v4, at::PROTO4)),
        Box::new(h(n.v6, at::PROTO6)),
    );
    add(Prop::Proto, "proto", either, 8);
    if l4 {
        add(Prop::L4Src, "m.sport", meta(n.sport), 16);
        add(Prop::L4Dst, "m.dport", meta(n.dport), 16);
    } else {
        add(Prop::TcpSrc, "tcp.sport", h(n.tcp, at::SPORT), 16);
        add(Prop::TcpDst, "tcp.dport", h(n.tcp, at::DPORT), 16);
    }
    add(Prop::UdpSrc, "udp.sport", h(n.udp, at::SPORT), 16);
    add(Prop::UdpDst, "udp.dport", h(n.udp, at::DPORT), 16);
    add(Prop::Length, "std.packet_length", meta(intrinsic::PACKET_LENGTH), 32);
    add(Prop::Net4, "net", h(n.v4, at::DST4).slice(31, 24), 8);
    add(Prop::Small, "m.class", meta(n.class), 8);
    add(Prop::Small, "m.vrf", meta(n.vrf), 16);
    add(Prop::Small, "m.port", meta(n.port), 32);
    add(Prop::Small, "m.stage", meta(n.stage), 8);
    add(Prop::Small, "m.from", meta(n.from), 8);
    out
}

/// A mask: of a prefix, of all, of nothing, of some bits.
fn mask(r: &mut Rng, width: u32) -> Bits {
    match r.below(8) {
        0 | 1 => Bits::zero(width),
        2..=4 => Bits::ones(width),
        5 => r.bits(width),
        _ => {
            let len = r.pick(&[width / 4, width / 2, width - 1]);
            Bits::prefix_mask(len, width)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn programs_are_valid_and_most_updates_are_taken() {
        let (mut taken, mut asked, mut entries) = (0, 0, 0);
        for seed in 0..300 {
            let mut random = shaped(seed);
            let program = random.program();
            let mut p =
                Pipeline::new(program.clone()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            for _ in 0..60 {
                let update = random.update(&p);
                asked += 1;
                if let Update::SetProgram(program) = &update {
                    let valid = Pipeline::new(program.clone());
                    assert!(valid.is_ok(), "seed {seed}: {:?}", valid.err());
                }
                taken += usize::from(p.transact(&[update]).is_ok());
            }
            let tables = p.program().tables.len() as u32;
            entries += (0..tables).map(|t| p.entries(TableId(t)).len()).sum::<usize>();
        }
        assert!(taken * 2 > asked, "{taken} of {asked} updates");
        assert!(entries > 300 * 6, "{entries} entries");
    }

    #[test]
    fn pipelines_round_trip_as_text() {
        for seed in 0..60 {
            let mut random = shaped(seed);
            let mut p = Pipeline::new(random.program()).unwrap();
            for _ in 0..40 {
                let update = random.update(&p);
                let _ = p.transact(&[update]);
            }
            let printed = text::print_pipeline(&p);
            let again =
                text::pipeline(&printed).unwrap_or_else(|e| panic!("{seed}: {e}\n{printed}"));
            assert_eq!(**p.program(), **again.program(), "seed {seed}\n{printed}");
            assert_eq!(printed, text::print_pipeline(&again));
        }
    }

    #[test]
    fn a_seed_gives_the_same_again() {
        let run = |seed| {
            let mut random = shaped(seed);
            let p = Pipeline::new(random.program()).unwrap();
            let mut bytes = Vec::new();
            let port = random.packet(&mut bytes);
            (text::print_pipeline(&p), format!("{:?}", random.update(&p)), port, bytes)
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }
}
