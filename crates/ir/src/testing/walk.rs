//! Packets that follow a program's parser, and entries of values that such packets have.
//!
//! A walk goes from state to state: it appends each header that is extracted, draws the fields' values,
//! chooses a case of each select and writes what that case asks for into the bits that the keys come from.
//! Where it cannot tell what a key comes from, the packet goes another way than the walk, which does no harm.
//!
//! Values come from a pool: the constants of the program and of known entries by width, and very small
//! numbers, so that entries of the same pool match.

use super::Rng;
use crate::{
    ActionCall, ActionId, BinaryOp, Bits, Entry, EntryId, Expr, FieldId, FieldRef, HeaderId, Key,
    KeyMatch, MatchKind, MetaId, Op, ParserOp, Pattern, Pipeline, Program, Select, TableId,
    Terminator, Transition,
};
use std::collections::BTreeMap;

/// States of one walk, at most.
const STATES_MAX: usize = 24;
/// Tries to find a length for a varbit field that the header can have.
const LENGTHS_MAX: usize = 8;

/// Values by width.
#[derive(Debug, Default)]
pub struct Pool(BTreeMap<u32, Vec<Bits>>);

impl Pool {
    /// The constants of a program.
    pub fn of(program: &Program) -> Pool {
        let mut pool = Pool::default();
        let mut exprs = |e: &Expr| e.visit(&mut |e| pool.constant(e));
        let ops = |ops: &[Op], f: &mut dyn FnMut(&Expr)| {
            ops.iter().for_each(|op| op.visit(&mut |op| op.exprs(f)));
        };
        for block in &program.blocks {
            ops(&block.ops, &mut exprs);
            if let Terminator::If { condition, .. } = &block.end {
                exprs(condition);
            }
        }
        program.actions.iter().for_each(|a| ops(&a.body, &mut exprs));
        pool
    }

    fn constant(&mut self, e: &Expr) {
        if let Expr::Const(value) = e {
            self.add(value);
        }
    }

    /// One more value.
    pub fn add(&mut self, value: &Bits) {
        let list = self.0.entry(value.width()).or_default();
        if !list.contains(value) {
            list.push(value.clone());
        }
    }

    /// The values of a pattern.
    pub fn add_pattern(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Exact(v) | Pattern::Prefix(v, _) | Pattern::Masked(v, _) => self.add(v),
            Pattern::Range(lo, hi) => {
                self.add(lo);
                self.add(hi);
            }
        }
    }

    /// A value.
    pub fn draw(&self, rng: &mut Rng, width: u32) -> Bits {
        match (rng.below(8), self.0.get(&width)) {
            (0..=3, Some(known)) => rng.pick(known),
            (7, _) => rng.bits(width),
            _ => Bits::from_u128(rng.below(3) as u128, width),
        }
    }

    /// A pattern for a key; none leaves it out.
    pub fn pattern(&self, rng: &mut Rng, key: &Key) -> Option<Pattern> {
        let width = key.width;
        let value = self.draw(rng, width);
        if key.kind == MatchKind::Exact {
            return Some(Pattern::Exact(value));
        }
        if rng.one_in(4) {
            return None;
        }
        Some(match key.kind {
            MatchKind::Lpm => {
                let len = rng.pick(&[width, width, width - width / 4, width / 2, 1]).min(width);
                Pattern::Prefix(value.and(&Bits::prefix_mask(len, width)), len)
            }
            MatchKind::Ternary => {
                let mask = match rng.below(4) {
                    0 => rng.bits(width),
                    1 => Bits::prefix_mask(width / 2, width),
                    _ => Bits::ones(width),
                };
                Pattern::Masked(value.and(&mask), mask)
            }
            MatchKind::Range => {
                let other = self.draw(rng, width);
                if value.compare(&other).is_le() {
                    Pattern::Range(value, other)
                } else {
                    Pattern::Range(other, value)
                }
            }
            MatchKind::Exact | MatchKind::Optional => Pattern::Exact(value),
        })
    }
}

/// A call of one of a table's actions, with arguments of the pool.
pub fn call(p: &Pipeline, table: TableId, pool: &Pool, rng: &mut Rng) -> ActionCall {
    let program = p.program();
    let action = match &program.tables[table.index()].actions {
        Some(list) if !list.is_empty() => rng.pick(list),
        _ => ActionId(rng.below(program.actions.len()) as u32),
    };
    let mut call = ActionCall::new(action);
    if let Some(action) = p.action(action) {
        call.args = action.param_widths().into_iter().map(|width| pool.draw(rng, width)).collect();
    }
    call
}

/// An entry of a table, which the pipeline may refuse: keys of the pool, and this call.
pub fn entry(
    program: &Program,
    table: TableId,
    id: EntryId,
    call: ActionCall,
    pool: &Pool,
    rng: &mut Rng,
) -> Entry {
    let mut matches = Vec::new();
    for (key, k) in (0..).zip(program.tables[table.index()].key.iter()) {
        let pattern = pool.pattern(rng, k);
        matches.extend(pattern.map(|pattern| KeyMatch { key, pattern }));
    }
    Entry {
        id,
        matches: matches.into(),
        priority: rng.below(4) as i32,
        action: call,
        cookie: 0,
        idle_timeout_ns: 0,
        hard_timeout_ns: 0,
    }
}

/// A packet on its way through the parser.
struct Walk<'a> {
    program: &'a Program,
    pool: &'a Pool,
    /// Members of value sets that may be there.
    sets: &'a [Vec<Select>],
    rng: &'a mut Rng,
    bytes: Vec<u8>,
    /// Bits extracted.
    at: usize,
    /// Where fields lie that were extracted, in bits.
    places: BTreeMap<(HeaderId, FieldId), usize>,
    /// What metadata fields were set to.
    metas: BTreeMap<MetaId, Expr>,
    /// Elements of stacks that were extracted.
    elements: Vec<u32>,
}

/// A packet for the program.
pub fn packet(program: &Program, pool: &Pool, sets: &[Vec<Select>], rng: &mut Rng) -> Vec<u8> {
    let mut walk = Walk {
        program,
        pool,
        sets,
        rng,
        bytes: Vec::with_capacity(128),
        at: 0,
        places: BTreeMap::new(),
        metas: BTreeMap::new(),
        elements: vec![0; program.stacks.len()],
    };
    walk.states();
    let Walk { mut bytes, at, rng, .. } = walk;
    bytes.truncate(at.div_ceil(8));
    let payload = rng.pick(&[0, 1, 20, 46, 100]);
    bytes.extend((0..payload).map(|_| rng.next_u64() as u8));
    if bytes.is_empty() {
        bytes.push(0);
    }
    bytes
}

impl Walk<'_> {
    fn states(&mut self) {
        let program = self.program;
        let mut state = 0;
        for _ in 0..STATES_MAX {
            let Some(s) = program.parser.get(state) else { return };
            if !s.ops.iter().all(|op| self.op(op)) {
                return;
            }
            match self.transition(&s.next) {
                Some(next) => state = next,
                None => return,
            }
        }
    }

    fn transition(&mut self, next: &Transition) -> Option<usize> {
        match next {
            Transition::Accept | Transition::Reject => None,
            Transition::State(state) => Some(state.index()),
            Transition::Select { keys, cases } => {
                let case = &cases.get(self.rng.below(cases.len()))?;
                for (key, pattern) in keys.iter().zip(&case.patterns) {
                    self.select(key, pattern);
                }
                self.transition(&case.next)
            }
        }
    }

    fn select(&mut self, key: &Expr, pattern: &Select) {
        match pattern {
            Select::Any => {}
            Select::Masked(value, mask) => {
                let other = self.rng.bits(value.width()).and(&mask.not());
                self.aim(key, &value.or(&other));
            }
            Select::Range(lo, hi) => {
                let end = self.rng.pick(&[lo, hi]).clone();
                self.aim(key, &end);
            }
            Select::ValueSet(set) => {
                let sets = self.sets;
                let members = &sets[set.index()];
                if !members.is_empty() {
                    let member = &members[self.rng.below(members.len())];
                    self.select(key, member);
                }
            }
        }
    }

    /// Does a step; false if the packet ends here.
    fn op(&mut self, op: &ParserOp) -> bool {
        match op {
            ParserOp::Extract { header, varbit } => self.extract(*header, varbit.as_ref()),
            ParserOp::ExtractNext { stack, varbit } => {
                let s = &self.program.stacks[stack.index()];
                let element = self.elements[stack.index()];
                self.elements[stack.index()] += 1;
                element < s.size && self.extract(HeaderId(s.first.0 + element), varbit.as_ref())
            }
            ParserOp::Advance(bits) => match self.eval(bits) {
                Some(bits) if bits.low_u32() < 8000 => {
                    self.at += bits.low_u32() as usize;
                    self.reach(self.at);
                    true
                }
                _ => false,
            },
            ParserOp::Assign(FieldRef::Meta(meta), value) => {
                // Of packet bits alone, it can be aimed at later. Of metadata, which may be this very
                // field (a counter of the headers that are left), its value now is what counts.
                let mut reads_metas = false;
                value.visit(&mut |e| reads_metas |= matches!(e, Expr::Field(FieldRef::Meta(_))));
                let value = match reads_metas {
                    true => self.eval(value).map(Expr::Const),
                    false => Some(value.clone()),
                };
                match value {
                    Some(value) => self.metas.insert(*meta, value),
                    None => self.metas.remove(meta),
                };
                true
            }
            ParserOp::Assign(..) => true,
            ParserOp::Verify(condition, _) => {
                if !self.rng.one_in(8) {
                    self.hold(condition);
                }
                true
            }
        }
    }

    fn reach(&mut self, bits: usize) {
        let bytes = bits.div_ceil(8);
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
    }

    fn extract(&mut self, header: HeaderId, varbit: Option<&Expr>) -> bool {
        let program = self.program;
        let fields = &program.type_of(header).fields;
        let start = self.at;
        for _ in 0..LENGTHS_MAX {
            let mut at = start;
            for (f, field) in fields.iter().enumerate().filter(|(_, f)| !f.varbit) {
                let value = self.pool.draw(self.rng, field.width);
                self.reach(at + field.width as usize);
                value.deposit(&mut self.bytes, at);
                self.places.insert((header, FieldId(f as u32)), at);
                at += field.width as usize;
            }
            let Some(varbit) = varbit else {
                self.at = at;
                return true;
            };
            let most = fields.last().map_or(0, |f| f.width);
            let length = self.eval(varbit).map(|v| v.low_u32()).filter(|n| *n <= most);
            if let Some(length) = length.filter(|n| (at + *n as usize).is_multiple_of(8)) {
                self.at = at + length as usize;
                self.reach(self.at);
                return true;
            }
        }
        false
    }

    /// Where a field lies.
    fn place(&self, field: FieldRef) -> Option<usize> {
        match field {
            FieldRef::Header(h, f) => self.places.get(&(h, f)).copied(),
            FieldRef::Last(stack, f) => {
                let element = self.elements[stack.index()].checked_sub(1)?;
                let first = self.program.stacks[stack.index()].first;
                self.places.get(&(HeaderId(first.0 + element), f)).copied()
            }
            FieldRef::Meta(_) => None,
        }
    }

    /// Makes an expression have this value, if that is simple.
    fn aim(&mut self, e: &Expr, value: &Bits) {
        match e {
            Expr::Field(FieldRef::Meta(meta)) => {
                if let Some(e) = self.metas.get(meta).cloned() {
                    self.aim(&e, value);
                }
            }
            Expr::Field(field) => {
                let width = self.program.field_width(*field).unwrap_or(0);
                if let Some(place) = self.place(*field) {
                    value.cast(width).deposit(&mut self.bytes, place);
                }
            }
            Expr::Lookahead { skip, width } => {
                let place = self.at + *skip as usize;
                self.reach(place + *width as usize);
                value.cast(*width).deposit(&mut self.bytes, place);
            }
            Expr::Slice(inner, hi, lo) => {
                if let Some(whole) = self.eval(inner) {
                    self.aim(inner, &whole.with_slice(*hi, *lo, value));
                }
            }
            Expr::Cast(inner, _) => {
                if let Some(whole) = self.eval(inner) {
                    self.aim(inner, &value.cast(whole.width()));
                }
            }
            Expr::Binary(BinaryOp::Concat, high, low) => {
                if let (Some(h), Some(l)) = (self.eval(high), self.eval(low)) {
                    self.aim(low, &value.cast(l.width()));
                    self.aim(high, &value.shr(l.width()).cast(h.width()));
                }
            }
            _ => {}
        }
    }

    /// Makes a condition hold, if that is simple.
    fn hold(&mut self, e: &Expr) {
        match e {
            Expr::Binary(BinaryOp::LogicalAnd, a, b) => {
                self.hold(a);
                self.hold(b);
            }
            Expr::Binary(BinaryOp::Eq | BinaryOp::Ge | BinaryOp::Le, a, b) => {
                if let Some(b) = self.eval(b) {
                    self.aim(a, &b);
                }
            }
            _ => {}
        }
    }

    /// What an expression of simple operators is now.
    fn eval(&self, e: &Expr) -> Option<Bits> {
        Some(match e {
            Expr::Const(value) => value.clone(),
            Expr::Field(FieldRef::Meta(meta)) => match self.metas.get(meta) {
                Some(e) => self.eval(e)?,
                None => Bits::zero(self.program.field_width(FieldRef::Meta(*meta))?),
            },
            Expr::Field(field) => {
                let width = self.program.field_width(*field)?;
                Bits::extract(&self.bytes, self.place(*field)?, width)
            }
            Expr::Lookahead { skip, width } => {
                let place = self.at + *skip as usize;
                if place + *width as usize > 8 * self.bytes.len() {
                    return Some(Bits::zero(*width));
                }
                Bits::extract(&self.bytes, place, *width)
            }
            Expr::Slice(e, hi, lo) => self.eval(e)?.slice(*hi, *lo),
            Expr::Cast(e, width) => self.eval(e)?.cast(*width),
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                match op {
                    BinaryOp::Add => a.add(&b),
                    BinaryOp::Sub => a.sub(&b),
                    BinaryOp::Mul => a.mul(&b),
                    BinaryOp::Shl => a.shl(b.shift_amount()),
                    BinaryOp::Shr => a.shr(b.shift_amount()),
                    BinaryOp::And => a.and(&b),
                    BinaryOp::Or => a.or(&b),
                    BinaryOp::Concat => a.concat(&b),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }
}
