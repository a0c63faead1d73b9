//! Random programs, pipelines, updates and packets, for tests and fuzzing of whoever runs them.
//!
//! A seed gives the same thing on every machine. What comes out obeys the verifier's rules and uses
//! everything the language has: odd widths, varbit fields, stacks, unions, parser loops, value sets,
//! checksums, every expression and operation, all kinds of match and group, clones and gotos.
//! Packets are random bytes of which the ones that select states are likely.
//!
//! Cost: some ten microseconds a program.
//! Checked by: `tests/random.rs`, which verifies and round-trips what comes out.

mod shaped;
pub mod walk;

pub use shaped::{COUNTERS, IDS, Shape, Shaped, shaped};

use crate::bits::Bits;
use crate::builder::Builder;
use crate::expr::{BinaryOp, Crc, Expr, FieldRef, HashAlgorithm, UnaryOp};
use crate::id::*;
use crate::op::{Copy, Guise, Op};
use crate::pipeline::*;
use crate::program::*;
use crate::verdict::{DropReason, PuntReason};
use std::sync::Arc;

/// A preface for some programs, which changes nothing else of a seed. One that calls services has none: if it recirculated
/// behind them, it would have to take the preface off.
fn preface(rng: &Rng, program: &Program) -> Option<Preface> {
    let mut rng = rng.clone();
    // Of all ports, or of none that there is.
    let (ports, bytes) = (rng.below(2) as u16, rng.below(80) as u16);
    (rng.one_in(4) && program.services.is_empty()).then_some(Preface { ports, bytes })
}

/// A small generator of random numbers (splitmix64, Steele et al. 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next_u64() % n as u64) as usize }
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of a list that is not empty.
    pub fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// A value: often small, or all ones, else anything.
    pub fn bits(&mut self, width: u32) -> Bits {
        match self.below(4) {
            0 => Bits::from_u128(self.below(4) as u128, width),
            1 if self.one_in(4) => Bits::ones(width),
            _ => {
                let bytes: Vec<u8> =
                    (0..(width as usize).div_ceil(8)).map(|_| self.next_u64() as u8).collect();
                Bits::from_be_bytes(&bytes, width)
            }
        }
    }
}

const WIDTHS: [u32; 16] = [1, 2, 3, 4, 5, 7, 8, 8, 12, 13, 16, 16, 32, 48, 64, 128];

/// Where an expression or operation stands.
#[derive(Clone, Copy)]
struct Site<'a> {
    params: &'a [u32],
    parser: bool,
}

const NOWHERE: Site<'static> = Site { params: &[], parser: false };

struct Maker {
    rng: Rng,
    p: Program,
    /// Blocks there will be.
    blocks: usize,
}

/// A random program that obeys the verifier.
pub fn program(seed: u64) -> Program {
    let mut m = Maker { rng: Rng::new(seed), p: Program::new(), blocks: 0 };
    m.headers();
    m.parser();
    m.control();
    m.p
}

/// A random program with entries, groups, meters, value sets and added actions.
pub fn pipeline(seed: u64) -> Pipeline {
    let program = Arc::new(program(seed));
    let mut p = Pipeline::new(program).expect("random programs obey the verifier");
    let mut rng = Rng::new(seed ^ 0x5eed);
    for _ in 0..rng.below(40) {
        let update = update(&p, &mut rng);
        // An update that the pipeline refuses is not in it.
        let _ = p.transact(&[update]);
    }
    p
}

/// A random update, which the pipeline may refuse.
pub fn update(p: &Pipeline, rng: &mut Rng) -> Update {
    let program = p.program().clone();
    let mut m = Maker { rng: rng.clone(), blocks: program.blocks.len(), p: (*program).clone() };
    let update = m.update(p);
    *rng = m.rng;
    update
}

/// Random bytes, the likelier ones first.
pub fn packet(rng: &mut Rng) -> Vec<u8> {
    let len = if rng.one_in(6) { rng.below(8) } else { rng.below(96) };
    (0..len)
        .map(|_| if rng.one_in(2) { rng.below(4) as u8 } else { rng.next_u64() as u8 })
        .collect()
}

impl Maker {
    fn headers(&mut self) {
        let mut b = Builder::new();
        let mut types = Vec::new();
        for i in 0..1 + self.rng.below(4) {
            let mut fields: Vec<Field> = (0..1 + self.rng.below(5))
                .map(|f| {
                    let width = if f == 0 { 8 } else { self.rng.pick(&WIDTHS) };
                    Field { name: format!("f{f}"), width, varbit: false }
                })
                .collect();
            let total: u32 = fields.iter().map(|f| f.width).sum();
            if !total.is_multiple_of(8) && !self.rng.one_in(8) {
                fields.push(Field { name: "pad".into(), width: 8 - total % 8, varbit: false });
            }
            if self.rng.one_in(4) {
                let width = 8 * (1 + self.rng.below(16)) as u32;
                fields.push(Field { name: "more".into(), width, varbit: true });
            }
            types.push(b.header_type_fields(&format!("type{i}"), fields));
        }
        for i in 0..1 + self.rng.below(4) {
            b.header(&format!("h{i}"), self.rng.pick(&types));
        }
        for i in 0..self.rng.below(3) {
            b.stack(&format!("s{i}"), self.rng.pick(&types), 1 + self.rng.below(3) as u32);
        }
        if self.rng.one_in(2) {
            let (x, y) =
                (b.header("u0", self.rng.pick(&types)), b.header("u1", self.rng.pick(&types)));
            b.union("u", &[x, y]);
        }
        b.meta("m8", 8);
        b.meta("m8b", 8);
        b.meta("m32", 32);
        for i in 0..self.rng.below(5) {
            b.meta(&format!("m{i}.x"), self.rng.pick(&WIDTHS));
        }
        b.value_set("set8", 8, 1 + self.rng.below(4) as u32);
        for i in 0..1 + self.rng.below(2) {
            b.register(&format!("r{i}"), self.rng.pick(&WIDTHS), self.rng.below(8) as u32);
            b.counter(&format!("c{i}"), self.rng.below(8) as u32);
        }
        b.digest("d0", &[("a", 32), ("b", self.rng.pick(&WIDTHS))]);
        let wide = self.rng.pick(&WIDTHS);
        b.service("v0", &[("a", 32), ("b", wide)], &[("x", 8), ("y", 8)], false);
        b.service("v1", &[("a", wide)], &[("x", 8)], true);
        self.p = b.finish();
    }

    fn has_varbit(&self, h: HeaderId) -> bool {
        self.p.type_of(h).fields.last().is_some_and(|f| f.varbit)
    }

    fn varbit(&mut self, h: HeaderId) -> Option<Expr> {
        if !self.has_varbit(h) {
            return None;
        }
        // Mostly whole bytes that fit; sometimes anything.
        let site = Site { params: &[], parser: true };
        Some(if self.rng.one_in(6) {
            self.expr(8, 2, site)
        } else {
            let n = Expr::Lookahead { skip: self.rng.below(8) as u32, width: 2 }.cast(32);
            Expr::binary(BinaryOp::Shl, n, Expr::int(3, 32))
        })
    }

    fn parser(&mut self) {
        let site = Site { params: &[], parser: true };
        let n = self.rng.below(6);
        for i in 0..n {
            let mut ops = Vec::new();
            for _ in 0..1 + self.rng.below(2) {
                ops.push(match self.rng.below(8) {
                    0 => ParserOp::Advance(Expr::int(8 * self.rng.below(3) as u128, 32)),
                    1 => {
                        let f = self.target();
                        let width = self.width(f);
                        ParserOp::Assign(f, self.expr(width, 2, site))
                    }
                    2 if self.rng.one_in(2) => {
                        let code = 16 + self.rng.below(4) as u8;
                        ParserOp::Verify(self.expr(1, 2, site), code)
                    }
                    3 | 4 if !self.p.stacks.is_empty() => {
                        let stack = StackId(self.rng.below(self.p.stacks.len()) as u32);
                        let varbit = self.varbit(self.p.stacks[stack.index()].first);
                        ParserOp::ExtractNext { stack, varbit }
                    }
                    _ => {
                        let header = self.header();
                        ParserOp::Extract { header, varbit: self.varbit(header) }
                    }
                });
            }
            let next = self.transition(n, 0);
            self.p.parser.push(ParserState { name: format!("state{i}"), ops, next });
        }
        self.p.reject_continues = self.rng.one_in(2);
        self.p.preface = preface(&self.rng, &self.p);
        let mut order: Vec<Vec<HeaderId>> = self
            .p
            .stacks
            .iter()
            .map(|s| (s.first.0..s.first.0 + s.size).map(HeaderId).collect())
            .collect();
        for (i, h) in self.p.headers.iter().enumerate() {
            if h.stack.is_none() {
                order.push(vec![HeaderId(i as u32)]);
            }
        }
        while !order.is_empty() {
            let next = order.remove(self.rng.below(order.len()));
            if !self.rng.one_in(10) {
                self.p.deparser.extend(next);
            }
        }
        self.checksums();
    }

    fn transition(&mut self, states: usize, depth: u32) -> Transition {
        let site = Site { params: &[], parser: true };
        match self.rng.below(8) {
            0 => Transition::Accept,
            1 if self.rng.one_in(3) => Transition::Reject,
            1 | 2 => Transition::State(ParserStateId(self.rng.below(states) as u32)),
            _ if depth > 1 => Transition::Accept,
            _ => {
                let mut keys = vec![if self.rng.one_in(2) {
                    Expr::Lookahead { skip: 0, width: 8 }
                } else {
                    self.expr(8, 1, site)
                }];
                let mut widths = vec![8];
                if self.rng.one_in(3) {
                    let w = self.rng.pick(&WIDTHS);
                    keys.push(self.expr(w, 2, site));
                    widths.push(w);
                }
                let cases = (0..1 + self.rng.below(4))
                    .map(|_| SelectCase {
                        patterns: widths.iter().map(|w| self.select(*w, true)).collect(),
                        next: self.transition(states, depth + 1),
                    })
                    .collect();
                Transition::Select { keys, cases }
            }
        }
    }

    fn select(&mut self, width: u32, sets: bool) -> Select {
        let (a, b) = (self.rng.bits(width), self.rng.bits(width));
        match self.rng.below(6) {
            0 => Select::Any,
            1 => Select::Masked(a.and(&b), b),
            2 if a.compare(&b).is_le() => Select::Range(a, b),
            2 => Select::Range(b, a),
            3 if width == 8 && sets => Select::ValueSet(ValueSetId(0)),
            _ => {
                Select::Masked(Bits::from_u128(self.rng.below(4) as u128, width), Bits::ones(width))
            }
        }
    }

    fn checksums(&mut self) {
        for _ in 0..self.rng.below(3) {
            let header = self.header();
            let ty = self.p.type_of(header);
            let algorithm = self.rng.pick(&[ChecksumAlgorithm::Csum16, ChecksumAlgorithm::Crc32c]);
            let want = if algorithm == ChecksumAlgorithm::Csum16 { 16 } else { 32 };
            let Some(at) = ty.fields.iter().position(|f| f.width == want && !f.varbit) else {
                continue;
            };
            let field = FieldRef::Header(header, FieldId(at as u32));
            let inputs = ty
                .fields
                .iter()
                .enumerate()
                .filter(|(i, f)| *i != at && !f.varbit)
                .map(|(i, f)| {
                    let e = Expr::header(header, FieldId(i as u32));
                    e.cast(f.width.next_multiple_of(16))
                })
                .collect();
            let payload = self.rng.one_in(3);
            let mut mode = self.rng.pick(&[
                ChecksumMode::Incremental,
                ChecksumMode::IfChanged,
                ChecksumMode::Always,
            ]);
            if payload || algorithm == ChecksumAlgorithm::Crc32c {
                mode = self.rng.pick(&[ChecksumMode::IfChanged, ChecksumMode::Always]);
            }
            let condition = self.rng.one_in(2).then_some(Expr::Valid(header));
            let zero_is_none = self.rng.one_in(3);
            let sum = Checksum { field, algorithm, mode, inputs, payload, condition, zero_is_none };
            self.p.checksums.push(sum);
        }
    }

    fn header(&mut self) -> HeaderId {
        HeaderId(self.rng.below(self.p.headers.len()) as u32)
    }

    fn any_field(&mut self) -> FieldRef {
        if self.rng.one_in(3) {
            return FieldRef::Meta(MetaId(self.rng.below(self.p.metadata.len()) as u32));
        }
        if !self.p.stacks.is_empty() && self.rng.one_in(8) {
            let s = StackId(self.rng.below(self.p.stacks.len()) as u32);
            let n = self.p.type_of(self.p.stacks[s.index()].first).fields.len();
            return FieldRef::Last(s, FieldId(self.rng.below(n) as u32));
        }
        let h = self.header();
        let n = self.p.type_of(h).fields.len();
        FieldRef::Header(h, FieldId(self.rng.below(n) as u32))
    }

    fn is_varbit(&self, f: FieldRef) -> bool {
        let (h, id) = match f {
            FieldRef::Meta(_) => return false,
            FieldRef::Header(h, id) => (h, id),
            FieldRef::Last(s, id) => (self.p.stacks[s.index()].first, id),
        };
        self.p.type_of(h).fields[id.index()].varbit
    }

    /// A field to read.
    fn field(&mut self) -> FieldRef {
        loop {
            let f = self.any_field();
            if !self.is_varbit(f) {
                return f;
            }
        }
    }

    /// A field to write: none of the intrinsic ones but the queue.
    fn target(&mut self) -> FieldRef {
        loop {
            match self.field() {
                FieldRef::Meta(m)
                    if m.index() < intrinsic::FIELDS.len() && m != intrinsic::QUEUE => {}
                f => return f,
            }
        }
    }

    fn width(&self, f: FieldRef) -> u32 {
        self.p.field_width(f).unwrap_or(1)
    }

    fn expr(&mut self, width: u32, depth: u32, site: Site<'_>) -> Expr {
        if depth == 0 || self.rng.one_in(4) {
            return self.leaf(width, site);
        }
        let d = depth - 1;
        if width == 1 && self.rng.one_in(2) {
            return self.condition(d, site);
        }
        match self.rng.below(10) {
            0 | 1 => {
                let op = self.rng.pick(&[
                    BinaryOp::Add,
                    BinaryOp::Sub,
                    BinaryOp::Mul,
                    BinaryOp::AddSat,
                    BinaryOp::SubSat,
                    BinaryOp::And,
                    BinaryOp::Or,
                    BinaryOp::Xor,
                ]);
                Expr::binary(op, self.expr(width, d, site), self.expr(width, d, site))
            }
            2 => {
                let op = self.rng.pick(&[BinaryOp::Shl, BinaryOp::Shr, BinaryOp::Sar]);
                let w = self.rng.pick(&[3, 8, 32, 64]);
                let by = if self.rng.one_in(2) {
                    Expr::int(self.rng.below(40) as u128, 8)
                } else {
                    self.expr(w, d, site)
                };
                Expr::binary(op, self.expr(width, d, site), by)
            }
            3 if width > 1 => {
                let high = 1 + self.rng.below(width as usize - 1) as u32;
                let (a, b) = (self.expr(high, d, site), self.expr(width - high, d, site));
                Expr::binary(BinaryOp::Concat, a, b)
            }
            4 => {
                let op = self.rng.pick(&[UnaryOp::Not, UnaryOp::Neg]);
                Expr::Unary(op, Box::new(self.expr(width, d, site)))
            }
            5 => {
                let c = self.condition(d, site);
                let (a, b) = (self.expr(width, d, site), self.expr(width, d, site));
                Expr::Mux(Box::new(c), Box::new(a), Box::new(b))
            }
            6 => {
                let low = self.rng.below(16) as u32;
                let above = self.rng.below(16) as u32;
                let inner = self.expr(width + low + above, d, site);
                inner.slice(low + width - 1, low)
            }
            7 => {
                let own = HashAlgorithm::Crc(self.crc());
                let algorithm = self.rng.pick(&[
                    HashAlgorithm::Identity,
                    HashAlgorithm::Crc16,
                    HashAlgorithm::Crc32,
                    HashAlgorithm::Crc32c,
                    HashAlgorithm::Csum16,
                    HashAlgorithm::Xor16,
                    own,
                ]);
                let inputs = (0..self.rng.below(3))
                    .map(|_| {
                        let w = self.rng.pick(&WIDTHS);
                        self.expr(w, d, site)
                    })
                    .collect();
                Expr::Hash { algorithm, width, inputs }
            }
            8 => {
                let w = self.rng.pick(&WIDTHS);
                Expr::SignCast(Box::new(self.expr(w, d, site)), width)
            }
            _ => {
                let w = self.rng.pick(&WIDTHS);
                self.expr(w, d, site).cast(width)
            }
        }
    }

    fn crc(&mut self) -> Crc {
        let width = self.rng.pick(&[8, 12, 16, 24, 31, 32]);
        let mut part = || (self.rng.next_u64() >> 32 >> (32 - width)) as u32;
        let (polynomial, init, xor_out) = (part(), part(), part());
        let (reflect_in, reflect_out) = (self.rng.one_in(2), self.rng.one_in(2));
        let function = self.rng.below(3) as u32;
        Crc { width, polynomial, init, xor_out, reflect_in, reflect_out, function }
    }

    fn condition(&mut self, depth: u32, site: Site<'_>) -> Expr {
        if self.rng.one_in(4) {
            return Expr::Valid(self.header());
        }
        if depth > 0 && self.rng.one_in(3) {
            let (a, b) = (self.condition(depth - 1, site), self.condition(depth - 1, site));
            return match self.rng.below(3) {
                0 => a.and(b),
                1 => a.or(b),
                _ => a.not(),
            };
        }
        let op = self.rng.pick(&[
            BinaryOp::Eq,
            BinaryOp::Ne,
            BinaryOp::Lt,
            BinaryOp::Le,
            BinaryOp::Gt,
            BinaryOp::Ge,
            BinaryOp::SLt,
            BinaryOp::SLe,
        ]);
        let w = self.rng.pick(&WIDTHS);
        Expr::binary(op, self.expr(w, depth.min(1), site), self.expr(w, depth.min(1), site))
    }

    fn leaf(&mut self, width: u32, site: Site<'_>) -> Expr {
        let fit = |e: Expr, w: u32| if w == width { e } else { e.cast(width) };
        match self.rng.below(8) {
            0 | 1 => Expr::Const(self.rng.bits(width)),
            2 if !site.params.is_empty() => {
                let i = self.rng.below(site.params.len());
                fit(Expr::Param(i as u32), site.params[i])
            }
            3 if site.parser => Expr::Lookahead { skip: self.rng.below(24) as u32, width },
            4 if site.parser => fit(Expr::Remaining, 32),
            5 if !self.p.stacks.is_empty() => {
                fit(Expr::StackSize(StackId(self.rng.below(self.p.stacks.len()) as u32)), 8)
            }
            _ => {
                let f = self.field();
                fit(Expr::Field(f), self.width(f))
            }
        }
    }

    /// A body. `block`: where it stands, `None` in an action; `group`: it may use groups.
    fn ops(&mut self, most: usize, block: Option<usize>, site: Site<'_>, group: bool) -> Vec<Op> {
        (0..self.rng.below(most + 1)).map(|_| self.op(2, block, site, group)).collect()
    }

    fn op(&mut self, depth: u32, block: Option<usize>, site: Site<'_>, group: bool) -> Op {
        let last = BlockId(self.blocks as u32 - 1);
        let (m8, m8b) = (FieldRef::Meta(MetaId(6)), FieldRef::Meta(MetaId(7)));
        let small = |m: &mut Maker| {
            if m.rng.one_in(2) {
                Expr::int(m.rng.below(6) as u128, 32)
            } else {
                Expr::binary(BinaryOp::And, m.expr(32, 1, site), Expr::int(7, 32))
            }
        };
        match self.rng.below(30) {
            0..=6 => {
                let f = self.target();
                let width = self.width(f);
                Op::Assign(f, self.expr(width, 3, site))
            }
            7 => {
                let f = self.target();
                let lo = self.rng.below(self.width(f) as usize) as u32;
                let hi = lo + self.rng.below((self.width(f) - lo) as usize) as u32;
                Op::AssignSlice(f, hi, lo, self.expr(hi - lo + 1, 2, site))
            }
            8 => Op::SetValid(self.header()),
            9 => Op::SetInvalid(self.header()),
            10 => {
                let (to, from) = (self.header(), self.header());
                let same = self.p.headers[to.index()].header_type
                    == self.p.headers[from.index()].header_type;
                Op::CopyHeader { to, from: if same { from } else { to } }
            }
            11 | 12 if !self.p.stacks.is_empty() => {
                let s = StackId(self.rng.below(self.p.stacks.len()) as u32);
                let n = 1 + self.rng.below(self.p.stacks[s.index()].size as usize) as u32;
                if self.rng.one_in(2) { Op::PushFront(s, n) } else { Op::PopFront(s, n) }
            }
            13 if self.rng.one_in(4) => Op::Reparse,
            14..=16 => Op::Output { port: small(self) },
            17 if group => Op::Group { group: small(self) },
            18 => match block {
                Some(b) if b + 1 < self.blocks => {
                    let later = b + 1 + self.rng.below(self.blocks - b - 1);
                    let copy = self.rng.pick(&[Copy::Current, Copy::Ingress]);
                    Op::Clone { block: BlockId(later as u32), copy }
                }
                None => Op::Clone { block: last, copy: Copy::Current },
                _ => Op::Exit,
            },
            19 if depth > 0 && self.rng.one_in(3) => {
                let n = self.rng.below(3);
                // An action's `goto` would be the copy's.
                let mut body: Vec<Op> =
                    (0..n).map(|_| self.op(depth - 1, block, site, group)).collect();
                body.retain(|op| {
                    let mut stays = true;
                    op.visit(&mut |op| stays &= !matches!(op, Op::Goto(_)));
                    stays
                });
                Op::OnCopy { body }
            }
            19 if self.rng.one_in(3) => {
                let in_port = self.rng.one_in(2).then(|| small(self));
                let tables = self.p.tables.len();
                let guise = in_port.map(|in_port| {
                    let table = TableId(self.rng.below(tables.max(1)) as u32);
                    let key = self.p.tables.get(table.index()).map_or(&[][..], |t| &t.key);
                    let widths: Vec<(u32, u32)> = (0..).zip(key.iter().map(|k| k.width)).collect();
                    let tables = if tables == 0 { vec![] } else { vec![table] };
                    let mut columns = Vec::new();
                    for (column, width) in widths {
                        if self.rng.one_in(3) {
                            columns.push((column, self.expr(width, 1, site)));
                        }
                    }
                    Guise { in_port, columns, tables }
                });
                let block = BlockId(self.rng.below(self.blocks) as u32);
                let until = BlockId(self.rng.below(self.blocks) as u32);
                Op::Call { block, until, guise, site: self.rng.below(3) as u16 }
            }
            19 if self.rng.one_in(3) => {
                let keep = (6..self.p.metadata.len() as u32)
                    .filter(|_| self.rng.one_in(2))
                    .map(MetaId)
                    .collect();
                if self.rng.one_in(2) { Op::Resubmit { keep } } else { Op::Recirculate { keep } }
            }
            20 => {
                let args = (0..self.rng.below(3))
                    .map(|_| {
                        let w = self.rng.pick(&WIDTHS);
                        self.expr(w, 1, site)
                    })
                    .collect();
                Op::Punt { reason: self.rng.pick(PuntReason::ALL), args }
            }
            21 => {
                let widths: Vec<u32> = self.p.digests[0].fields.iter().map(|f| f.width).collect();
                let args: Vec<Expr> = widths.into_iter().map(|w| self.expr(w, 1, site)).collect();
                let about = self.rng.below(args.len() + 1) as u8;
                let once = self.rng.one_in(2).then_some(about);
                Op::Digest { digest: DigestId(0), args, once }
            }
            22 if self.rng.one_in(2) => {
                let service = self.rng.below(2);
                let declared = &self.p.services[service];
                let widths: Vec<u32> = declared.args.iter().map(|a| a.width).collect();
                let most = declared.results.len();
                let args = widths.into_iter().map(|w| self.expr(w, 1, site)).collect();
                let results = [MetaId(6), MetaId(7)][..self.rng.below(most + 1)].to_vec();
                Op::Service { service: ServiceId(service as u32), args, results }
            }
            22 => Op::Meter { meter: small(self), color: m8, level: m8b },
            23 => {
                let counter = self.rng.below(self.p.counters.len()) as u32;
                Op::Count { counter, index: small(self) }
            }
            24 | 25 => {
                let register = RegisterId(self.rng.below(self.p.registers.len()) as u32);
                let width = self.p.registers[register.index()].width;
                let index = small(self);
                let fields: Vec<FieldRef> = (0..8).map(|_| self.target()).collect();
                let field = fields.into_iter().find(|f| self.width(*f) == width);
                match field {
                    Some(field) if self.rng.one_in(2) => {
                        Op::RegisterRead { field, register, index }
                    }
                    _ => Op::RegisterWrite { register, index, value: self.expr(width, 2, site) },
                }
            }
            26 if block.is_none() && self.rng.one_in(3) => Op::Goto(last),
            27 if depth > 0 => {
                let condition = self.condition(2, site);
                let list = |m: &mut Maker| -> Vec<Op> {
                    (0..m.rng.below(3)).map(|_| m.op(depth - 1, block, site, group)).collect()
                };
                let then = list(self);
                Op::If { condition, then, or_else: list(self) }
            }
            28 if depth > 0 && self.rng.one_in(4) => {
                // It counts up to a few rounds, unless something inside sets it back.
                let (at, most) = (m8, self.rng.below(4) as u128);
                let condition = Expr::binary(BinaryOp::Lt, Expr::Field(at), Expr::int(most, 8));
                let up = Expr::binary(BinaryOp::Add, Expr::Field(at), Expr::int(1, 8));
                let mut body: Vec<Op> =
                    (0..self.rng.below(3)).map(|_| self.op(0, block, site, false)).collect();
                body.retain(|op| {
                    let mut stays = true;
                    op.visit(&mut |op| stays &= !crate::verify::leaves_a_loop(op));
                    stays
                });
                body.push(Op::Assign(at, up));
                Op::Loop { condition, body }
            }
            28 if self.rng.one_in(4) => Op::Truncate { length: small(self) },
            28 if self.rng.one_in(3) => Op::Drop(self.rng.pick(DropReason::ALL)),
            29 if self.rng.one_in(4) => Op::Exit,
            _ => {
                let f = self.target();
                let width = self.width(f);
                let (a, b) = (self.rng.bits(width), self.rng.bits(width));
                let (lo, hi) = if a.compare(&b).is_le() { (a, b) } else { (b, a) };
                if self.rng.one_in(4) {
                    Op::Random { field: f, lo: Expr::Const(lo), hi: Expr::Const(hi) }
                } else {
                    Op::Assign(f, Expr::Const(lo))
                }
            }
        }
    }

    fn action(&mut self, name: &str) -> Action {
        let params: Vec<Param> = (0..self.rng.below(3))
            .map(|i| Param { name: format!("p{i}"), width: self.rng.pick(&WIDTHS) })
            .collect();
        let widths: Vec<u32> = params.iter().map(|p| p.width).collect();
        let body = self.ops(4, None, Site { params: &widths, parser: false }, true);
        Action { name: name.into(), params, body }
    }

    fn control(&mut self) {
        let tables = self.rng.below(4);
        self.blocks = 2 + tables + self.rng.below(3);
        for i in 0..2 + self.rng.below(6) {
            let action = self.action(&format!("a{i}"));
            self.p.actions.push(Arc::new(action));
        }
        for i in 0..tables {
            let table = self.table(i);
            self.p.tables.push(table);
        }
        for i in 0..self.blocks {
            // The last block uses no groups, so that buckets may clone to it.
            let is_last = i + 1 == self.blocks;
            let ops = self.ops(3, Some(i), NOWHERE, !is_last);
            let end = if is_last { Terminator::Exit } else { self.terminator(i) };
            self.p.blocks.push(Block { name: format!("b{i}"), ops, end });
        }
    }

    fn terminator(&mut self, i: usize) -> Terminator {
        let later = |m: &mut Maker| BlockId((i + 1 + m.rng.below(m.blocks - i - 1)) as u32);
        match self.rng.below(6) {
            0 => Terminator::Jump(later(self)),
            1 => {
                let condition = self.condition(2, NOWHERE);
                Terminator::If { condition, then: later(self), or_else: later(self) }
            }
            2 if self.rng.one_in(4) => Terminator::Exit,
            _ if self.p.tables.is_empty() => Terminator::Jump(later(self)),
            _ => {
                let table = TableId(self.rng.below(self.p.tables.len()) as u32);
                let t = &self.p.tables[table.index()];
                let mut known = match &t.actions {
                    Some(list) => list.clone(),
                    None => (0..self.p.actions.len() as u32).map(ActionId).collect(),
                };
                known.retain(|_| self.rng.one_in(4));
                let next = BlockId(i as u32 + 1);
                let by_action = known.into_iter().map(|a| (a, later(self))).collect();
                let miss = if self.rng.one_in(2) { next } else { later(self) };
                Terminator::Apply { table, hit: next, miss, by_action }
            }
        }
    }

    fn call(&mut self, id: ActionId, action: &Action) -> ActionCall {
        let args: Vec<Bits> = action
            .params
            .iter()
            .map(|p| {
                if self.rng.one_in(2) {
                    Bits::from_u128(self.rng.below(8) as u128, p.width)
                } else {
                    self.rng.bits(p.width)
                }
            })
            .collect();
        ActionCall::with(id, args)
    }

    fn table(&mut self, i: usize) -> Table {
        let kinds = [
            MatchKind::Exact,
            MatchKind::Lpm,
            MatchKind::Ternary,
            MatchKind::Range,
            MatchKind::Optional,
        ];
        let mut key: Vec<Key> = Vec::new();
        for k in 0..self.rng.below(4) {
            let f = self.field();
            let (width, kind) = (self.width(f), self.rng.pick(&kinds));
            let name = self.p.field_name(f);
            if self.rng.one_in(3) || key.iter().any(|k| k.name == name) {
                let width = self.rng.pick(&WIDTHS);
                let expr = self.expr(width, 2, NOWHERE);
                key.push(Key { name: format!("k{k}"), expr, kind, width });
            } else {
                key.push(Key { name, expr: Expr::Field(f), kind, width });
            }
        }
        let all: Vec<ActionId> = (0..self.p.actions.len() as u32).map(ActionId).collect();
        let actions = self
            .rng
            .one_in(2)
            .then(|| all.iter().copied().filter(|_| !self.rng.one_in(3)).collect::<Vec<_>>());
        let default = self.rng.pick(&all);
        let action = self.p.actions[default.index()].clone();
        let key = match self.p.tables.last() {
            Some(before) if self.rng.one_in(4) => before.key.clone(),
            _ => key.into(),
        };
        Table {
            name: format!("t{i}"),
            key,
            actions,
            default: self.call(default, &action),
            default_const: self.rng.one_in(6),
            capacity: 1 + self.rng.below(60) as u32,
            counters: self.rng.one_in(2),
        }
    }

    fn pattern(&mut self, key: &Key) -> Option<Pattern> {
        let w = key.width;
        let (a, b) = (self.rng.bits(w), self.rng.bits(w));
        let small = Bits::from_u128(self.rng.below(4) as u128, w);
        let exact = Pattern::Exact(small);
        Some(match key.kind {
            MatchKind::Exact => exact,
            _ if self.rng.one_in(4) => return None,
            _ if self.rng.one_in(3) => exact,
            MatchKind::Optional => Pattern::Exact(a),
            MatchKind::Lpm => {
                let len = self.rng.below(w as usize + 1) as u32;
                Pattern::Prefix(a.and(&Bits::prefix_mask(len, w)), len)
            }
            MatchKind::Ternary => Pattern::Masked(a.and(&b), b),
            MatchKind::Range if a.compare(&b).is_le() => Pattern::Range(a, b),
            MatchKind::Range => Pattern::Range(b, a),
        })
    }

    fn any_call(&mut self, p: &Pipeline) -> ActionCall {
        let mut all: Vec<ActionId> = (0..self.p.actions.len() as u32).map(ActionId).collect();
        all.extend(p.added_actions().map(|(id, _)| id));
        let id = self.rng.pick(&all);
        match p.action(id).cloned() {
            Some(action) => self.call(id, &action),
            None => ActionCall::new(id),
        }
    }

    fn update(&mut self, p: &Pipeline) -> Update {
        let table = TableId(self.rng.below(self.p.tables.len()) as u32);
        let has_table = !self.p.tables.is_empty();
        let number = self.rng.below(6) as u32;
        match self.rng.below(16) {
            0 => {
                let members = (0..self.rng.below(3)).map(|_| self.select(8, false)).collect();
                Update::SetValueSet(ValueSetId(0), members)
            }
            1 => {
                let bands = (0..self.rng.below(3))
                    .map(|i| Band {
                        rate: 1 + self.rng.below(1000) as u64,
                        burst: self.rng.below(10) as u64,
                        color: 1 + (i as u8 & 1),
                        level: self.rng.below(4) as u8,
                    })
                    .collect();
                let meter = Meter { packets: self.rng.one_in(2), bands };
                Update::SetMeter(MeterId(number), Arc::new(meter))
            }
            2 | 3 => {
                let kind = self.rng.pick(&[
                    GroupKind::All,
                    GroupKind::Select,
                    GroupKind::Indirect,
                    GroupKind::FastFailover,
                    GroupKind::Slots,
                ]);
                let n = if kind == GroupKind::Indirect { 1 } else { self.rng.below(4) };
                let buckets = (0..n)
                    .map(|_| Bucket {
                        weight: self.rng.below(4) as u16,
                        watch_port: self.rng.one_in(3).then(|| self.rng.below(4) as u32),
                        watch_group: self.rng.one_in(6).then(|| GroupId(self.rng.below(6) as u32)),
                        action: self.any_call(p),
                        counter: CounterId(self.rng.below(100) as u32),
                    })
                    .collect();
                let hash = (0..self.rng.below(3)).map(|_| self.expr(16, 1, NOWHERE)).collect();
                let group = Group { kind, buckets, hash, counter: CounterId(number) };
                Update::SetGroup(GroupId(number), Arc::new(group))
            }
            4 if self.rng.one_in(2) => Update::RemoveGroup(GroupId(number)),
            4 => Update::RemoveMeter(MeterId(number)),
            5 => {
                let id = 100 + number;
                let action = self.action(&format!("added{id}"));
                Update::AddAction(ActionId(id), Arc::new(action))
            }
            6 if has_table => Update::SetDefault(table, self.any_call(p)),
            7 | 8 if has_table && !p.entries(table).is_empty() => {
                let entries: Vec<_> = p.entries(table).iter().cloned().collect();
                let old = self.rng.pick(&entries);
                if self.rng.one_in(2) {
                    return Update::Delete(table, old.id);
                }
                let new = Entry { action: self.any_call(p), ..(*old).clone() };
                Update::Modify(table, Arc::new(new))
            }
            9 if has_table && self.rng.one_in(8) => Update::Clear(table),
            _ if has_table => {
                let keys = self.p.tables[table.index()].key.clone();
                let matches = keys
                    .iter()
                    .enumerate()
                    .filter_map(|(i, k)| {
                        let pattern = self.pattern(k)?;
                        Some(KeyMatch { key: i as u16, pattern })
                    })
                    .collect();
                let timeout = |r: &mut Rng| if r.one_in(6) { r.below(1 << 30) as u64 } else { 0 };
                let entry = Entry {
                    id: EntryId(1 + self.rng.below(1000) as u32),
                    priority: self.rng.below(5) as i32 - 1,
                    matches,
                    action: self.any_call(p),
                    cookie: self.rng.below(3) as u64,
                    idle_timeout_ns: timeout(&mut self.rng),
                    hard_timeout_ns: timeout(&mut self.rng),
                };
                Update::Insert(table, Arc::new(entry))
            }
            _ => Update::SetValueSet(ValueSetId(0), Vec::new()),
        }
    }
}
