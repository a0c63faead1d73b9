//! Places and values: reading, writing, copying.

use super::fold::{binary, bits, cast, choose, mux, not, slice, weight};
use super::operand::{V, leaves};
use super::step::Step;
use super::{Lower, Part, Refused, Result};
use crate::hir::Const;
use crate::source::Span;
use crate::types::*;
use ir::{BinaryOp, Bits, Expr, FieldId, FieldRef, HeaderId, Op};

impl Lower<'_> {
    /// The value of a bit string and its width.
    pub(super) fn read(&mut self, v: &V, span: Span) -> Result<(Expr, u32)> {
        Ok(match v {
            V::E(e, w) => (e.clone(), *w),
            V::F(f, w) => (Expr::Field(*f), *w),
            V::Slice(inner, hi, lo) => {
                let (e, w) = self.read(inner, span)?;
                (slice(e, w, *hi, *lo), hi - lo + 1)
            }
            V::C(Const::Bool(b)) => (Expr::bool(*b), 1),
            V::C(Const::Enum(i)) => (Expr::int(u128::from(*i), 32), 32),
            V::C(Const::Error(i)) => (Expr::int(u128::from(self.error_code(*i)), 8), 8),
            V::Dyn(items, index) => {
                self.spend(items.len() as u64 * weight(index), span)?;
                let iw = self.index_width(index);
                let mut values = Vec::new();
                let mut width = 0;
                for item in items.iter() {
                    let (e, w) = self.read(item, span)?;
                    values.push(e);
                    width = w;
                }
                match choose(index, iw, &values) {
                    Some(value) => (value, width),
                    None => return self.refuse(span, "an element of nothing"),
                }
            }
            V::S(items, _) if items.len() == 1 => self.read(&items[0].clone(), span)?,
            _ => return self.refuse(span, "a single value is needed here, and this is not one"),
        })
    }

    pub(super) fn index_width(&self, e: &Expr) -> u32 {
        e.width(self.b.program(), &[]).unwrap_or(32)
    }

    /// Code of an error in the pipeline language.
    pub(super) fn error_code(&self, i: u32) -> u8 {
        use ir::program::parser_error as e;
        match self.p.errors.get(i as usize).map(|n| &**n) {
            Some("NoError") => e::NONE,
            Some("PacketTooShort") => e::PACKET_TOO_SHORT,
            Some("NoMatch") => e::NO_MATCH,
            Some("StackOutOfBounds") => e::STACK_OUT_OF_BOUNDS,
            Some("HeaderTooShort") => e::HEADER_TOO_SHORT,
            Some("ParserTimeout") => e::TIMEOUT,
            _ => e::USER.saturating_add(i as u8),
        }
    }

    /// A constant as a value of this type.
    pub(super) fn constant(&mut self, c: &Const, ty: TyId) -> Result<V> {
        let ty = self.ty(ty);
        Ok(match (c, self.p.ty(ty).clone()) {
            (Const::Int(v), Ty::Int) => V::C(Const::Int(v.clone())),
            (Const::Int(v), _) => match self.width(ty) {
                Some(w) => V::E(Expr::Const(bits(v, w)), w),
                None => V::C(c.clone()),
            },
            (Const::Bool(b), _) => V::E(Expr::bool(*b), 1),
            (Const::Enum(i), _) => V::E(Expr::int(u128::from(*i), 32), 32),
            (Const::Error(i), _) => V::E(Expr::int(u128::from(self.error_code(*i)), 8), 8),
            (Const::List(items), Ty::Struct(s, args)) => {
                let types = self.p.field_types(s, &args);
                let mut out = Vec::new();
                for (i, t) in items.iter().zip(types) {
                    out.push(self.constant(i, t)?);
                }
                V::S(out.into(), ty)
            }
            (Const::List(items), Ty::Tuple(types) | Ty::Literal(_, types, _)) => {
                let mut out = Vec::new();
                for (i, t) in items.iter().zip(types.iter()) {
                    out.push(self.constant(i, *t)?);
                }
                V::S(out.into(), ty)
            }
            (Const::List(items), Ty::Stack(t, _) | Ty::List(t)) => {
                let mut out = Vec::new();
                for i in items.iter() {
                    out.push(self.constant(i, t)?);
                }
                V::S(out.into(), ty)
            }
            (Const::Invalid, _) => V::Invalid,
            (c, _) => V::C(c.clone()),
        })
    }

    /// A field of a struct, header or union.
    pub(super) fn field(&mut self, v: &V, i: u32, span: Span) -> Result<V> {
        match v {
            V::S(items, _) => match items.get(i as usize) {
                Some(v) => Ok(v.clone()),
                None => self.refuse(span, "this has no such field"),
            },
            V::H(h, ty) => {
                let Ty::Struct(s, args) = self.p.ty(*ty).clone() else { return Err(Refused) };
                let types = self.p.field_types(s, &args);
                let mut at = 0;
                for t in &types[..i as usize] {
                    at += self.leaves(*t);
                }
                Ok(self.header_leaf(*h, &mut at, types[i as usize]))
            }
            V::Dyn(items, index) => {
                let items: Result<Vec<V>> = items.iter().map(|v| self.field(v, i, span)).collect();
                Ok(V::Dyn(items?.into(), index.clone()))
            }
            V::C(Const::List(items)) => match items.get(i as usize) {
                Some(c) => Ok(V::C(c.clone())),
                None => self.refuse(span, "this has no such field"),
            },
            _ => self.refuse(span, "this has no fields that could be known"),
        }
    }

    /// How many fields of the pipeline language a type has: what has no bits is none.
    fn leaves(&mut self, ty: TyId) -> u32 {
        match self.p.ty(ty).clone() {
            Ty::Struct(s, args) => {
                let types = self.p.field_types(s, &args);
                types.into_iter().map(|t| self.leaves(t)).sum()
            }
            _ if self.width(ty) == Some(0) => 0,
            _ => 1,
        }
    }

    fn header_leaf(&mut self, h: HeaderId, at: &mut u32, ty: TyId) -> V {
        if let Ty::Struct(s, args) = self.p.ty(ty).clone() {
            let types = self.p.field_types(s, &args);
            let items: Vec<V> = types.into_iter().map(|t| self.header_leaf(h, at, t)).collect();
            return V::S(items.into(), ty);
        }
        if self.width(ty) == Some(0) {
            return V::E(Expr::Const(Bits::zero(0)), 0);
        }
        let field = FieldId(*at);
        *at += 1;
        let width = self.b.program().field_width(FieldRef::Header(h, field)).unwrap_or(1);
        V::F(FieldRef::Header(h, field), width)
    }

    /// All fields of a header as values.
    pub(super) fn header_values(&mut self, h: HeaderId, ty: TyId) -> Vec<V> {
        let Ty::Struct(s, args) = self.p.ty(ty).clone() else { return Vec::new() };
        let types = self.p.field_types(s, &args);
        let mut at = 0;
        types.into_iter().map(|t| self.header_leaf(h, &mut at, t)).collect()
    }

    /// Every bit string in a value, in order.
    pub(super) fn flatten(&mut self, v: &V, span: Span) -> Result<Vec<(Expr, u32)>> {
        match v {
            V::S(items, _) | V::K(items, ..) => {
                let mut out = Vec::new();
                for i in items.iter() {
                    out.extend(self.flatten(i, span)?);
                }
                Ok(out)
            }
            V::H(h, ty) => {
                let fields = self.header_values(*h, *ty);
                let mut out = Vec::new();
                for f in fields {
                    out.extend(self.flatten(&f, span)?);
                }
                Ok(out)
            }
            V::E(_, 0) | V::Void => Ok(Vec::new()),
            _ => Ok(vec![self.read(v, span)?]),
        }
    }

    /// Writes a bit string.
    pub(super) fn write(&mut self, place: &V, value: Expr, span: Span) -> Result<()> {
        match place {
            V::F(f, _) => {
                self.op(Op::Assign(*f, value));
                Ok(())
            }
            V::Slice(inner, hi, lo) => match &**inner {
                V::F(f, _) => {
                    self.op(Op::AssignSlice(*f, *hi, *lo, value));
                    Ok(())
                }
                V::Slice(deeper, _, base) => {
                    let v = V::Slice(deeper.clone(), hi + base, lo + base);
                    self.write(&v, value, span)
                }
                V::Dyn(items, index) => {
                    let items: Vec<V> =
                        items.iter().map(|i| V::Slice(Box::new(i.clone()), *hi, *lo)).collect();
                    let v = V::Dyn(items.into(), index.clone());
                    self.write(&v, value, span)
                }
                _ => self.refuse(span, "these bits cannot be written"),
            },
            V::Dyn(items, index) => {
                // The value may read what is written: it is kept first.
                let w = value.width(self.b.program(), &self.v1.params).unwrap_or(1);
                let value = self.keep(value, w);
                let iw = self.index_width(index);
                let index = self.keep((**index).clone(), iw);
                for (i, item) in items.iter().enumerate() {
                    if self.part == Part::Parser {
                        // No state of its own for each of them.
                        let is = binary(BinaryOp::Eq, index.clone(), Expr::int(i as u128, iw));
                        let (old, _) = self.read(item, span)?;
                        self.write(item, mux(is, value.clone(), old), span)?;
                        continue;
                    }
                    let then = self.steps(|l| l.write(item, value.clone(), span))?;
                    let is = binary(BinaryOp::Eq, index.clone(), Expr::int(i as u128, iw));
                    self.out.push(Step::If(is, then, Vec::new()));
                }
                Ok(())
            }
            V::E(_, 0) => Ok(()),
            V::S(items, _) if items.len() == 1 => self.write(&items[0].clone(), value, span),
            _ => self.refuse(span, "this cannot be written"),
        }
    }

    /// A value that later writes do not change.
    pub(super) fn keep(&mut self, e: Expr, width: u32) -> Expr {
        if matches!(e, Expr::Const(_) | Expr::Param(_)) || width == 0 {
            return e;
        }
        if matches!(e, Expr::Field(FieldRef::Meta(m)) if self.v1.kept.contains(&m)) {
            return e;
        }
        let (field, _) = self.temp("value", width);
        if let FieldRef::Meta(m) = field {
            self.v1.kept.insert(m);
        }
        self.op(Op::Assign(field, e));
        Expr::Field(field)
    }

    /// An index that what is written does not change.
    pub(super) fn keep_index(&mut self, index: &Expr) -> (Expr, u32) {
        let width = self.index_width(index);
        (self.keep(index.clone(), width), width)
    }

    /// A place whose indices are as they are now.
    pub(super) fn freeze(&mut self, v: V) -> V {
        match v {
            V::Dyn(items, index) => {
                let (index, _) = self.keep_index(&index);
                let items: Vec<V> = items.iter().map(|i| self.freeze(i.clone())).collect();
                V::Dyn(items.into(), Box::new(index))
            }
            V::Slice(inner, hi, lo) => V::Slice(Box::new(self.freeze(*inner)), hi, lo),
            V::F(FieldRef::Last(stack, field), width) => {
                let declared = &self.b.program().stacks[stack.index()];
                let elements = declared.first.0..declared.first.0 + declared.size;
                let leaf = |h| V::F(FieldRef::Header(HeaderId(h), field), width);
                let items: Vec<V> = elements.map(leaf).collect();
                let last = binary(BinaryOp::Sub, Expr::StackSize(stack), Expr::int(1, 8));
                V::Dyn(items.into(), Box::new(self.keep(last, 8)))
            }
            V::S(items, ty) if items.iter().any(V::moves) => {
                let items: Vec<V> = items.iter().map(|i| self.freeze(i.clone())).collect();
                V::S(items.into(), ty)
            }
            other => other,
        }
    }

    /// A copy of a whole value that later writes do not change.
    pub(super) fn keep_value(&mut self, v: &V, ty: TyId, span: Span) -> Result<V> {
        match v {
            V::C(_) | V::O(_) | V::Void | V::Invalid => Ok(v.clone()),
            V::E(Expr::Const(_), _) => Ok(v.clone()),
            _ => {
                let home = self.alloc(ty, "tmp.copy", span)?;
                self.assign(&home, v, span)?;
                Ok(home)
            }
        }
    }

    /// Copies a value of any type to a place.
    pub(super) fn assign(&mut self, place: &V, value: &V, span: Span) -> Result<()> {
        match (place, value) {
            (V::Void, _) | (_, V::Void) | (V::O(_), V::O(_)) => Ok(()),
            (V::H(to, _), V::H(from, _)) => {
                if to != from {
                    self.op(Op::CopyHeader { to: *to, from: *from });
                }
                Ok(())
            }
            (V::H(to, _), V::Invalid) => {
                self.op(Op::SetInvalid(*to));
                Ok(())
            }
            (V::H(to, ty), V::S(items, _)) => {
                // A header out of values becomes valid; the values may read it.
                let fields = self.header_values(*to, *ty);
                let mut kept = Vec::new();
                for i in items.iter() {
                    let flat = self.flatten(i, span)?;
                    for (e, w) in flat {
                        kept.push(self.keep(e, w));
                    }
                }
                self.op(Op::SetValid(*to));
                let mut kept = kept.into_iter();
                for f in fields {
                    // What has no bits has no value among these.
                    let bits = |leaf: &V| !matches!(leaf, V::E(_, 0));
                    for leaf in leaves(&f).into_iter().filter(bits) {
                        if let Some(e) = kept.next() {
                            self.write(&leaf, e, span)?;
                        }
                    }
                }
                Ok(())
            }
            (V::S(to, _), V::Invalid) | (V::K(to, ..), V::Invalid) => {
                for i in to.iter() {
                    self.assign(i, &V::Invalid, span)?;
                }
                if let (Part::Parser, V::K(_, _, Some(next))) = (self.part, place) {
                    self.set_next(*next, Expr::int(0, 8));
                }
                Ok(())
            }
            (V::S(to, _), V::S(from, _)) => {
                // A union's members: the valid one last, so that it stays.
                let all_headers = to.iter().all(|v| matches!(v, V::H(..)))
                    && from.iter().all(|v| matches!(v, V::H(..)))
                    && matches!(place, V::S(_, t) if self.is_union(*t));
                if all_headers {
                    return self.assign_union(to, from);
                }
                // `{a, b} = {b, a}`: values are read before any is written.
                let temporaries = from.iter().any(|v| {
                    !matches!(
                        v,
                        V::S(..) | V::H(..) | V::K(..) | V::F(..) | V::E(Expr::Const(_), _)
                    )
                });
                if temporaries {
                    let mut kept = Vec::new();
                    for v in from.iter() {
                        kept.push(match v {
                            V::E(e, w) => V::E(self.keep(e.clone(), *w), *w),
                            other => other.clone(),
                        });
                    }
                    for (t, f) in to.iter().zip(&kept) {
                        self.assign(t, f, span)?;
                    }
                    return Ok(());
                }
                let literal = !matches!(value, V::S(_, t) if matches!(self.p.ty(*t), Ty::Struct(..)))
                    || from.iter().any(|v| matches!(v, V::F(..)));
                if literal && from.len() > 1 {
                    let mut kept = Vec::new();
                    for v in from.iter() {
                        kept.push(match v {
                            V::F(f, w) => {
                                let clash = to.iter().any(|t| matches!(t, V::F(g, _) if g == f));
                                if clash {
                                    V::E(self.keep(Expr::Field(*f), *w), *w)
                                } else {
                                    v.clone()
                                }
                            }
                            other => other.clone(),
                        });
                    }
                    for (t, f) in to.iter().zip(&kept) {
                        self.assign(t, f, span)?;
                    }
                    return Ok(());
                }
                for (t, f) in to.iter().zip(from.iter()) {
                    self.assign(t, f, span)?;
                }
                Ok(())
            }
            (V::K(to, _, tn), V::K(from, ..)) => {
                for (t, f) in to.iter().zip(from.iter()) {
                    self.assign(t, f, span)?;
                }
                // The next index goes along (§8.18); only parsers have one.
                if let (Part::Parser, Some(next)) = (self.part, tn) {
                    let index = self.next_index(value, "next", span)?;
                    self.set_next(*next, index);
                }
                Ok(())
            }
            (V::K(to, ..), V::S(from, _)) => {
                for (t, f) in to.iter().zip(from.iter()) {
                    self.assign(t, f, span)?;
                }
                Ok(())
            }
            (V::Dyn(items, index), _) if self.compound(&items[0]) => {
                let (index, iw) = self.keep_index(index);
                for (i, item) in items.iter().enumerate() {
                    let then = self.steps(|l| l.assign(item, value, span))?;
                    let is = binary(BinaryOp::Eq, index.clone(), Expr::int(i as u128, iw));
                    self.out.push(Step::If(is, then, Vec::new()));
                }
                Ok(())
            }
            (_, V::Dyn(items, index)) if self.compound(&items[0]) => {
                let (index, iw) = self.keep_index(index);
                for (i, item) in items.iter().enumerate() {
                    let then = self.steps(|l| l.assign(place, item, span))?;
                    let is = binary(BinaryOp::Eq, index.clone(), Expr::int(i as u128, iw));
                    self.out.push(Step::If(is, then, Vec::new()));
                }
                Ok(())
            }
            (V::F(to, _), V::F(from, _)) if self.is_varbit(*to) && self.is_varbit(*from) => {
                if let FieldRef::Header(h, _) = to
                    && self.v1.varbits.contains(h)
                {
                    self.op(Op::SetValid(*h));
                }
                self.op(Op::CopyVarbit { to: *to, from: *from });
                Ok(())
            }
            _ => {
                let (e, w) = self.read(value, span)?;
                let pw = self.place_width(place);
                let e = cast(e, w, pw.unwrap_or(w), false);
                self.write(place, e, span)
            }
        }
    }

    pub(super) fn is_varbit(&self, field: FieldRef) -> bool {
        let program = self.b.program();
        matches!(field, FieldRef::Header(h, f) if program.type_of(h).fields[f.index()].varbit)
    }

    fn place_width(&self, v: &V) -> Option<u32> {
        match v {
            V::F(_, w) | V::E(_, w) => Some(*w),
            V::Slice(_, hi, lo) => Some(hi - lo + 1),
            V::Dyn(items, _) => self.place_width(&items[0]),
            _ => None,
        }
    }

    fn compound(&self, v: &V) -> bool {
        match v {
            V::S(..) | V::H(..) | V::K(..) => true,
            V::Dyn(items, _) => self.compound(&items[0]),
            _ => false,
        }
    }

    fn assign_union(&mut self, to: &[V], from: &[V]) -> Result<()> {
        for (t, f) in to.iter().zip(from) {
            let (V::H(t, _), V::H(f, _)) = (t, f) else { continue };
            if t == f {
                continue;
            }
            let copy = vec![Step::Op(Op::CopyHeader { to: *t, from: *f })];
            let clear = vec![Step::Op(Op::SetInvalid(*t))];
            self.out.push(Step::If(Expr::Valid(*f), copy, clear));
        }
        Ok(())
    }

    /// Makes every header in a place invalid, and in a parser every stack begin anew.
    pub(super) fn invalidate(&mut self, v: &V) {
        let mut headers = Vec::new();
        v.headers(&mut |h| headers.push(h));
        for h in headers {
            self.op(Op::SetInvalid(h));
        }
        if self.part == Part::Parser {
            let mut nexts = Vec::new();
            v.nexts(&mut |m| nexts.push(m));
            for next in nexts {
                self.set_next(next, Expr::int(0, 8));
            }
        }
    }

    /// Makes every header in a place invalid and everything else zero: an `out` parameter, a variable.
    pub(super) fn clear(&mut self, v: &V) {
        let mut headers = Vec::new();
        v.headers(&mut |h| headers.push(h));
        for h in headers {
            self.op(Op::SetInvalid(h));
        }
        let mut metas = Vec::new();
        v.metas(&mut |m| metas.push(m));
        for m in metas {
            let w = self.b.program().metadata[m.index()].width;
            self.op(Op::Assign(FieldRef::Meta(m), Expr::Const(Bits::zero(w))));
        }
    }

    /// One bit: the header, or a union's member, is valid.
    pub(super) fn valid(&mut self, v: &V, span: Span) -> Result<Expr> {
        match v {
            V::H(h, _) => Ok(Expr::Valid(*h)),
            V::S(items, _) => {
                let mut any = Expr::bool(false);
                for i in items.iter() {
                    let one = self.valid(i, span)?;
                    any = binary(BinaryOp::LogicalOr, any, one);
                }
                Ok(any)
            }
            V::Invalid => Ok(Expr::bool(false)),
            V::Dyn(items, index) => {
                let iw = self.index_width(index);
                let mut values = Vec::new();
                for item in items.iter() {
                    values.push(self.valid(item, span)?);
                }
                // Past the end there is nothing.
                values.push(Expr::bool(false));
                Ok(choose(index, iw, &values).unwrap_or(Expr::bool(false)))
            }
            _ => self.refuse(span, "this has no validity"),
        }
    }

    /// One bit: two values are equal.
    pub(super) fn equal(&mut self, a: &V, b: &V, span: Span) -> Result<Expr> {
        match (a, b) {
            (V::H(..), V::H(..) | V::Invalid | V::S(..))
            | (V::Invalid, V::H(..) | V::Invalid)
            | (V::S(..), V::H(..)) => {
                let valid = |l: &mut Self, v: &V| match v {
                    V::S(..) => Ok(Expr::bool(true)),
                    v => l.valid(v, span),
                };
                let (va, vb) = (valid(self, a)?, valid(self, b)?);
                if matches!(a, V::Invalid) || matches!(b, V::Invalid) {
                    return Ok(binary(BinaryOp::Eq, va, vb));
                }
                let (fa, fb) = (self.flatten(a, span)?, self.flatten(b, span)?);
                let mut same = Expr::bool(true);
                for ((x, _), (y, _)) in fa.into_iter().zip(fb) {
                    same = binary(BinaryOp::LogicalAnd, same, binary(BinaryOp::Eq, x, y));
                }
                // Two invalid ones are equal, whatever they hold (§8.18).
                let both = binary(
                    BinaryOp::LogicalAnd,
                    binary(BinaryOp::LogicalAnd, va.clone(), vb.clone()),
                    same,
                );
                let none = binary(BinaryOp::LogicalAnd, not(va), not(vb));
                Ok(binary(BinaryOp::LogicalOr, both, none))
            }
            (V::S(x, _) | V::K(x, ..), V::S(y, _) | V::K(y, ..)) => {
                let mut same = Expr::bool(true);
                for (a, b) in x.iter().zip(y.iter()) {
                    let one = self.equal(a, b, span)?;
                    same = binary(BinaryOp::LogicalAnd, same, one);
                }
                Ok(same)
            }
            (V::S(..) | V::K(..), V::Invalid) | (V::Invalid, V::S(..) | V::K(..)) => {
                let other = if matches!(a, V::Invalid) { b } else { a };
                Ok(not(self.valid(other, span)?))
            }
            _ => {
                let (x, w) = self.read(a, span)?;
                let (y, v) = self.read(b, span)?;
                Ok(binary(BinaryOp::Eq, x, cast(y, v, w, false)))
            }
        }
    }
}
