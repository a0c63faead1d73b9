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

mod actions;
mod headers;
mod packet;

use super::Rng;
use crate::bits::Bits;
use crate::builder::Builder;
use crate::expr::{BinaryOp, Expr, FieldRef, HashAlgorithm};
use crate::id::*;
use crate::op::{Copy, Op, PortIs};
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
        program.preface = super::preface(&self.rng, &program);
        Made { program: Arc::new(program), names: n, plans, exotic }
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
                    GroupKind::Slots,
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
                let hash = [value(header(made.names.v4, at::SRC4))].into();
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
