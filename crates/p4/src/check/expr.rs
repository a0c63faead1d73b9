//! Expressions (specification §8).

mod operators;

use super::names::Sym;
use super::{Checker, Place};
use crate::ast::{self, Direction, ExprKind as A, StructKind};
use crate::diag::Diagnostic;
use crate::hir::{Builtin, Const, Expr, ExprKind, TableField, VarKind};
use crate::lex::Name;
use crate::source::Span;
use crate::types::*;
use num_traits::Signed;
use num_traits::ToPrimitive;
use std::rc::Rc;

impl Checker<'_> {
    pub(super) fn constant(&self, value: Const, ty: TyId, span: Span) -> Expr {
        Expr { kind: ExprKind::Const, ty, span, value: Some(value) }
    }

    /// An expression that is a value.
    pub(super) fn expr(&mut self, e: &ast::Expr) -> Expr {
        let span = e.span;
        match &e.kind {
            A::Bool(b) => self.constant(Const::Bool(*b), basic::BOOL, span),
            A::Str(s) => self.constant(Const::Str(s.clone()), basic::STRING, span),
            A::Int(v, None) => self.constant(Const::Int(v.clone()), basic::INT, span),
            A::Int(v, Some((w, signed))) => {
                let ty = if *signed { Ty::Signed(*w) } else { Ty::Bit(*w) };
                let ty = self.p.types.id(ty);
                let fitted = self.fitted(v.clone(), ty);
                if fitted != *v && v.bits() > u64::from(*w) {
                    let text = format!("{v} does not fit {}; it becomes {fitted}", self.p.show(ty));
                    self.d.add(Diagnostic::warning("overflow", span, text));
                }
                self.constant(Const::Int(fitted), ty, span)
            }
            A::This => match self.context.this {
                Some(ty) => Expr { kind: ExprKind::This, ty, span, value: None },
                None => {
                    self.error(
                        "bad-this",
                        span,
                        "`this` means an extern instance, inside of its methods only",
                    );
                    self.bad(span)
                }
            },
            A::Path(path) => self.path(path, span),
            A::Type(_) => {
                self.error("not-a-value", span, "a value is needed here, and this is a type");
                self.bad(span)
            }
            A::Member(inner, name) => self.member(inner, name, span),
            A::Index(base, index) => self.index(base, index, span),
            A::Slice(base, hi, lo) => self.slice(base, hi, lo, span),
            A::PlusSlice(base, lo, width) => self.plus_slice(base, lo, width, span),
            A::Unary(op, inner) => {
                let a = self.expr(inner);
                self.unary(*op, a, span)
            }
            A::Binary(op, a, b) => {
                let a = self.expr(a);
                let b = self.expr(b);
                self.binary(*op, a, b, span)
            }
            A::Mux(c, a, b) => self.mux(c, a, b, span),
            A::Cast(ty, inner) => {
                let to = self.ty(ty);
                let e = self.expr(inner);
                self.cast(e, to, span)
            }
            A::Call(f, types, args) => self.call(f, types, args, span),
            A::List(items, dots) => {
                let items: Vec<Expr> = items.iter().map(|i| self.expr(i)).collect();
                self.literal(None, items, *dots, span)
            }
            A::Struct(fields, dots) => {
                self.unique("field", fields.iter().map(|(n, _)| n));
                let names = fields.iter().map(|(n, _)| n.name.clone()).collect();
                let items: Vec<Expr> = fields.iter().map(|(_, i)| self.expr(i)).collect();
                self.literal(Some(names), items, *dots, span)
            }
            A::Dots => Expr { kind: ExprKind::Const, ty: basic::DOTS, span, value: None },
            A::Invalid => Expr {
                kind: ExprKind::Invalid,
                ty: basic::INVALID,
                span,
                value: Some(Const::Invalid),
            },
            A::Dontcare | A::Default | A::Mask(..) | A::Range(..) | A::SetTuple(_) => {
                self.error("not-a-value", span, "a value is needed here, and this is a set");
                self.bad(span)
            }
            A::Bad => self.bad(span),
        }
    }

    fn literal(
        &mut self,
        names: Option<Rc<[Name]>>,
        items: Vec<Expr>,
        dots: bool,
        span: Span,
    ) -> Expr {
        let types = items.iter().map(|i| i.ty).collect();
        let ty = self.p.types.id(Ty::Literal(names, types, dots));
        let values: Option<Vec<Const>> = items.iter().map(|i| i.value.clone()).collect();
        let value = values.filter(|_| !dots).map(|v| Const::List(v.into()));
        Expr { kind: ExprKind::Aggregate(items), ty, span, value }
    }

    fn path(&mut self, path: &ast::Path, span: Span) -> Expr {
        match self.lookup(path) {
            Sym::Var(id) => {
                let ty = self.p.vars[id.index()].ty;
                Expr { kind: ExprKind::Var(id), ty, span, value: None }
            }
            Sym::Const(value, ty) => self.constant(value, ty, span),
            Sym::Instance(id) => {
                let ty = self.p.instances[id.index()].construct.ty;
                Expr { kind: ExprKind::Instance(id), ty, span, value: None }
            }
            Sym::ValueSet(id) => {
                let inner = self.p.value_sets[id.index()].ty;
                let ty = self.p.types.id(Ty::Set(inner));
                Expr { kind: ExprKind::ValueSet(id), ty, span, value: None }
            }
            Sym::Bad => self.bad(span),
            other => {
                let text = format!(
                    "a value is needed here, and `{}` is {}",
                    path.ident.name,
                    other.what()
                );
                let d = Diagnostic::error("not-a-value", span, text);
                self.d.add(match other {
                    Sym::Functions(_) | Sym::Action(_) => d.help("call it with `(...)`"),
                    Sym::Table(_) => d.help("apply it with `.apply()`"),
                    _ => d,
                });
                self.bad(span)
            }
        }
    }

    /// If an expression is the name of a type, the type.
    pub(super) fn as_type(&mut self, e: &ast::Expr) -> Option<TyId> {
        match &e.kind {
            A::Type(ty) => Some(self.ty(ty)),
            A::Path(path) => match self.find(path).map(|f| f.sym.clone()) {
                Some(
                    sym @ (Sym::Type(_)
                    | Sym::Struct(_)
                    | Sym::Extern(_)
                    | Sym::Apply(_)
                    | Sym::Package(_)),
                ) => Some(self.named(&sym, Vec::new(), e.span, true)),
                _ => None,
            },
            _ => None,
        }
    }

    fn member(&mut self, inner: &ast::Expr, name: &ast::Ident, span: Span) -> Expr {
        if let Some(ty) = self.as_type(inner) {
            return self.type_member(ty, name, span);
        }
        let base = self.expr(inner);
        let ty = self.zonk(base.ty);
        match self.p.ty(ty).clone() {
            Ty::Bad => self.bad(span),
            Ty::Struct(s, args) => {
                let names: Vec<Name> =
                    self.p.structs[s.index()].fields.iter().map(|f| f.name.clone()).collect();
                let Some(i) = names.iter().position(|n| *n == name.name) else {
                    let kind = self.p.structs[s.index()].kind;
                    let text = format!(
                        "{} `{}` has no field `{}`",
                        kind.word(),
                        self.p.show(ty),
                        name.name
                    );
                    let d = Diagnostic::error("unknown-field", name.span, text);
                    let d = d.nearest(&name.name, names.iter().map(|n| &**n));
                    let method = ["isValid", "setValid", "setInvalid"].contains(&&*name.name);
                    self.d.add(if method && kind != StructKind::Struct {
                        d.help(format!("call it: `{}()`", name.name))
                    } else {
                        d
                    });
                    return self.bad(span);
                };
                let field = self.p.field_types(s, &args)[i];
                let value = match &base.value {
                    Some(Const::List(items)) => items.get(i).cloned(),
                    _ => None,
                };
                let kind = match value {
                    Some(_) => ExprKind::Const,
                    None => ExprKind::Field(Box::new(base), i as u32),
                };
                Expr { kind, ty: field, span, value }
            }
            Ty::Literal(Some(names), types, _) => {
                let found = names.iter().position(|n| *n == name.name);
                match (found, base.kind) {
                    (Some(i), ExprKind::Aggregate(mut items)) if i < items.len() => {
                        items.swap_remove(i)
                    }
                    (Some(i), _) => {
                        let value = match &base.value {
                            Some(Const::List(v)) => v.get(i).cloned(),
                            _ => None,
                        };
                        Expr { kind: ExprKind::Const, ty: types[i], span, value }
                    }
                    (None, _) => {
                        let text = format!("there is no field `{}`", name.name);
                        let d = Diagnostic::error("unknown-field", name.span, text);
                        self.d.add(d.nearest(&name.name, names.iter().map(|n| &**n)));
                        self.bad(span)
                    }
                }
            }
            Ty::Stack(element, n) => self.stack_member(base, element, n, name, span),
            Ty::TableResult(t) => {
                let (field, ty) = match &*name.name {
                    "hit" => (TableField::Hit, basic::BOOL),
                    "miss" => (TableField::Miss, basic::BOOL),
                    "action_run" => (TableField::ActionRun, self.p.types.id(Ty::ActionRun(t))),
                    other => {
                        let text = format!("the result of apply() has no `{other}`");
                        let d = Diagnostic::error("unknown-field", name.span, text);
                        let d = d.help("it has `hit`, `miss` and `action_run`");
                        self.d.add(d);
                        return self.bad(span);
                    }
                };
                Expr { kind: ExprKind::TableField(Box::new(base), field), ty, span, value: None }
            }
            _ => {
                let text = format!("{} has no field `{}`", self.show(ty), name.name);
                self.error("unknown-field", name.span, text);
                self.bad(span)
            }
        }
    }

    fn stack_member(
        &mut self,
        base: Expr,
        element: TyId,
        n: u32,
        name: &ast::Ident,
        span: Span,
    ) -> Expr {
        let word = &*name.name;
        let parser_only = matches!(word, "next" | "last" | "lastIndex");
        if parser_only
            && self.context.place != Place::State
            && self.context.place != Place::Function
        {
            let text = format!("`{word}` of a stack is known in parsers only");
            self.error("bad-place", name.span, text);
            return self.bad(span);
        }
        let (kind, ty) = match word {
            "next" => (ExprKind::Next(Box::new(base)), element),
            "last" => (ExprKind::Last(Box::new(base)), element),
            "lastIndex" => (ExprKind::LastIndex(Box::new(base)), basic::BIT32),
            "size" => return self.constant(Const::Int(n.into()), basic::BIT32, span),
            other => {
                let text = format!("a stack has no field `{other}`");
                let d = Diagnostic::error("unknown-field", name.span, text);
                self.d.add(d.nearest(
                    other,
                    ["next", "last", "lastIndex", "size", "push_front", "pop_front"],
                ));
                return self.bad(span);
            }
        };
        Expr { kind, ty, span, value: None }
    }

    fn type_member(&mut self, ty: TyId, name: &ast::Ident, span: Span) -> Expr {
        let (known, value): (Vec<Name>, Option<Const>) = match self.p.ty(ty) {
            Ty::Bad => return self.bad(span),
            Ty::Error => {
                let at = self.p.errors.iter().position(|e| *e == name.name);
                (self.p.errors.clone(), at.map(|i| Const::Error(i as u32)))
            }
            Ty::MatchKind => {
                let at = self.p.match_kinds.iter().position(|e| *e == name.name);
                (self.p.match_kinds.clone(), at.map(|i| Const::MatchKind(i as u32)))
            }
            Ty::Enum(e) => {
                let e = &self.p.enums[e.index()];
                let at = e.members.iter().position(|(n, _)| *n == name.name);
                let value = at.map(|i| match &e.members[i].1 {
                    Some(v) => Const::Int(v.clone()),
                    None => Const::Enum(i as u32),
                });
                (e.members.iter().map(|(n, _)| n.clone()).collect(), value)
            }
            _ => {
                let text = format!("the type {} has no member `{}`", self.p.show(ty), name.name);
                self.error("unknown-field", name.span, text);
                return self.bad(span);
            }
        };
        match value {
            Some(v) => self.constant(v, ty, span),
            None => {
                let text = format!("{} has no member `{}`", self.p.show(ty), name.name);
                let d = Diagnostic::error("unknown-member", name.span, text);
                self.d.add(d.nearest(&name.name, known.iter().map(|n| &**n)));
                self.bad(span)
            }
        }
    }

    fn index(&mut self, base: &ast::Expr, index: &ast::Expr, span: Span) -> Expr {
        let base = self.expr(base);
        let i = self.expr(index);
        let base_ty = self.zonk(base.ty);
        let i_ty = self.zonk(i.ty);
        let i = match self.p.ty(i_ty).clone() {
            Ty::Bad => return self.bad(span),
            Ty::Enum(e) if self.p.enums[e.index()].repr.is_some() => {
                let repr = self.p.enums[e.index()].repr.unwrap_or(basic::BAD);
                self.cast_to(i, repr, true)
            }
            Ty::Bit(_) | Ty::Signed(_) | Ty::Int => i,
            _ => {
                let text = format!("an index is a number, and this is {}", self.p.show(i_ty));
                self.error("type-mismatch", index.span, text);
                return self.bad(span);
            }
        };
        let known = match &i.value {
            Some(Const::Int(v)) => Some(v.clone()),
            _ => None,
        };
        let check = |this: &mut Self, len: usize, what: &str| -> Option<usize> {
            let v = known.as_ref()?;
            match v.to_usize().filter(|v| *v < len) {
                Some(v) => Some(v),
                None => {
                    let text = if v.is_negative() {
                        format!("an index is not negative, and this is {v}")
                    } else {
                        format!(
                            "{what} has {len} elements, the last one at {}",
                            len.saturating_sub(1)
                        )
                    };
                    this.error("index-out-of-bounds", index.span, text);
                    None
                }
            }
        };
        let element = match self.p.ty(base_ty).clone() {
            Ty::Bad => return self.bad(span),
            Ty::Stack(element, n) => {
                if known.is_some() && check(self, n as usize, "the stack").is_none() {
                    return self.bad(span);
                }
                element
            }
            Ty::Tuple(types) | Ty::Literal(None, types, false) => {
                if known.is_none() {
                    self.error(
                        "not-constant",
                        index.span,
                        "the index into a tuple is known at compile time",
                    );
                    return self.bad(span);
                }
                match check(self, types.len(), "the tuple") {
                    Some(n) => types[n],
                    None => return self.bad(span),
                }
            }
            Ty::List(element) => {
                if let Some(Const::List(items)) = &base.value
                    && known.is_some()
                {
                    let len = items.len();
                    if check(self, len, "the list").is_none() {
                        return self.bad(span);
                    }
                }
                element
            }
            _ => {
                let text = format!(
                    "only stacks, tuples and lists have elements, and this is {}",
                    self.p.show(base_ty)
                );
                let d = Diagnostic::error("type-mismatch", base.span, text);
                let bits = matches!(self.p.ty(base_ty), Ty::Bit(_) | Ty::Signed(_));
                self.d.add(if bits { d.help("one bit is the slice `[i:i]`") } else { d });
                return self.bad(span);
            }
        };
        let value = match (&base.value, known.and_then(|k| k.to_usize())) {
            (Some(Const::List(items)), Some(k)) => items.get(k).cloned(),
            _ => None,
        };
        let kind = match value {
            Some(_) => ExprKind::Const,
            None => ExprKind::Index(Box::new(base), Box::new(i)),
        };
        Expr { kind, ty: element, span, value }
    }

    /// What bits can be taken of; the width, `None` for `int`.
    fn sliceable(&mut self, base: Expr) -> Option<(Expr, Option<u32>)> {
        let ty = self.zonk(base.ty);
        match self.p.ty(ty).clone() {
            Ty::Bad => None,
            Ty::Bit(w) | Ty::Signed(w) => Some((base, Some(w))),
            Ty::Int if base.value.is_some() => Some((base, None)),
            Ty::Enum(e) => {
                let repr = self.p.enums[e.index()].repr;
                match repr.and_then(|r| self.width_of(r).map(|w| (r, w.0))) {
                    Some((repr, w)) => Some((self.cast_to(base, repr, true), Some(w))),
                    None => {
                        let text = format!(
                            "bits can be taken of numbers, and this is {}",
                            self.p.show(ty)
                        );
                        self.error("type-mismatch", base.span, text);
                        None
                    }
                }
            }
            _ => {
                let text = format!("bits can be taken of numbers, and this is {}", self.p.show(ty));
                self.error("type-mismatch", base.span, text);
                None
            }
        }
    }

    fn slice(&mut self, base: &ast::Expr, hi: &ast::Expr, lo: &ast::Expr, span: Span) -> Expr {
        let base = self.expr(base);
        let h = self.natural(hi, "the end of a slice", u32::MAX);
        let l = self.natural(lo, "the end of a slice", u32::MAX);
        let Some((base, width)) = self.sliceable(base) else { return self.bad(span) };
        let (Some(h), Some(l)) = (h, l) else { return self.bad(span) };
        self.make_slice(base, width, h, l, hi.span.to(lo.span), span)
    }

    fn make_slice(
        &mut self,
        base: Expr,
        width: Option<u32>,
        h: u32,
        l: u32,
        at: Span,
        span: Span,
    ) -> Expr {
        if h < l {
            let d = Diagnostic::error(
                "bad-slice",
                at,
                format!("the slice ends before it begins: [{h}:{l}]"),
            );
            self.d.add(d.help(format!("write the higher bit first: [{l}:{h}]")));
            return self.bad(span);
        }
        if width.is_some_and(|w| h >= w) || h - l >= super::types::WIDTH_MAX {
            let ty = self.show(base.ty);
            let text = match width {
                Some(w) if w > 0 => format!("bit {h} of {ty}, whose highest bit is {}", w - 1),
                _ => format!("bit {h} of {ty}"),
            };
            self.error("bad-slice", at, text);
            return self.bad(span);
        }
        let ty = self.p.types.bit(h - l + 1);
        let value = base.value.as_ref().and_then(|v| Self::fold_slice(v, h, l));
        let kind = match value {
            Some(_) => ExprKind::Const,
            None => ExprKind::Slice(Box::new(base), h, l),
        };
        Expr { kind, ty, span, value }
    }

    fn plus_slice(
        &mut self,
        base: &ast::Expr,
        lo: &ast::Expr,
        width: &ast::Expr,
        span: Span,
    ) -> Expr {
        let base = self.expr(base);
        let w = self.natural(width, "the width of a slice", super::types::WIDTH_MAX);
        let l = self.expr(lo);
        let Some((base, of)) = self.sliceable(base) else { return self.bad(span) };
        let Some(w) = w else { return self.bad(span) };
        if w == 0 {
            self.error("bad-slice", width.span, "a slice has at least one bit");
            return self.bad(span);
        }
        if let Some(Const::Int(v)) = &l.value {
            let Some(l) = v.to_u32().filter(|l| l.checked_add(w).is_some()) else {
                self.error("bad-slice", lo.span, format!("a slice from bit {v} on"));
                return self.bad(span);
            };
            return self.make_slice(base, of, l + w - 1, l, lo.span.to(width.span), span);
        }
        if !matches!(self.p.ty(l.ty), Ty::Bit(_) | Ty::Bad) {
            let text =
                format!("a slice begins at an unsigned number, and this is {}", self.show(l.ty));
            self.error("type-mismatch", lo.span, text);
            return self.bad(span);
        }
        if of.is_some_and(|of| w > of) {
            self.error("bad-slice", width.span, format!("{w} bits of {}", self.p.show(base.ty)));
            return self.bad(span);
        }
        let ty = self.p.types.bit(w);
        Expr { kind: ExprKind::PlusSlice(Box::new(base), Box::new(l), w), ty, span, value: None }
    }

    /// A value of type bool.
    pub(super) fn condition(&mut self, e: &ast::Expr) -> Expr {
        let e = self.expr(e);
        self.coerce(e, basic::BOOL)
    }

    /// It is known when objects are made, at the latest (§18.1).
    pub(super) fn known(&self, e: &Expr) -> bool {
        if e.value.is_some() {
            return true;
        }
        match &e.kind {
            ExprKind::Const | ExprKind::Bad | ExprKind::Instance(_) | ExprKind::Construct(_) => {
                true
            }
            ExprKind::Var(v) => matches!(
                self.p.vars[v.index()].kind,
                VarKind::Constructor | VarKind::Const | VarKind::Param(Direction::None)
            ),
            ExprKind::Field(a, _)
            | ExprKind::Slice(a, _, _)
            | ExprKind::Unary(_, a)
            | ExprKind::Cast(a) => self.known(a),
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) | ExprKind::PlusSlice(a, b, _) => {
                self.known(a) && self.known(b)
            }
            ExprKind::Mux(a, b, c) => self.known(a) && self.known(b) && self.known(c),
            ExprKind::Aggregate(items) | ExprKind::Reordered(items, _) => {
                items.iter().all(|i| self.known(i))
            }
            ExprKind::Call(call) => {
                matches!(&call.callee, crate::hir::Callee::Function(f)
                    if &*self.p.functions[f.index()].signature.name == "static_assert")
            }
            _ => false,
        }
    }

    /// Why an expression cannot be written to, if it cannot.
    pub(super) fn not_writable(&self, e: &Expr) -> Option<String> {
        match &e.kind {
            ExprKind::Bad => None,
            ExprKind::Var(v) => {
                let var = &self.p.vars[v.index()];
                match var.kind {
                    VarKind::Local | VarKind::Param(Direction::Out | Direction::InOut) => None,
                    VarKind::Param(Direction::In) => {
                        Some(format!("`{}` is an `in` parameter, which can only be read", var.name))
                    }
                    VarKind::Param(Direction::None) => Some(format!(
                        "`{}` is a parameter without direction, which can only be read",
                        var.name
                    )),
                    VarKind::Constructor => Some(format!(
                        "`{}` is a constructor parameter, which can only be read",
                        var.name
                    )),
                    VarKind::Loop => None,
                    VarKind::Const => Some(format!("`{}` is a constant", var.name)),
                }
            }
            ExprKind::Field(a, _) | ExprKind::Slice(a, _, _) | ExprKind::PlusSlice(a, _, _) => {
                self.not_writable(a)
            }
            ExprKind::Index(a, _) => {
                if matches!(self.p.ty(a.ty), Ty::List(_) | Ty::Literal(..)) {
                    return Some("the elements of a list can only be read".into());
                }
                self.not_writable(a)
            }
            ExprKind::Next(a) | ExprKind::Last(a) => self.not_writable(a),
            ExprKind::LastIndex(_) => Some("`lastIndex` can only be read".into()),
            ExprKind::Const => Some("this is a constant".into()),
            _ => Some("this is a value, not a place that holds one".into()),
        }
    }

    /// A set (§8.13) of values of this type, as one key of a select or an entry.
    pub(super) fn set(&mut self, e: &ast::Expr, ty: TyId) -> Expr {
        let span = e.span;
        match &e.kind {
            A::Dontcare | A::Default => {
                let set = self.p.types.id(Ty::Set(ty));
                Expr { kind: ExprKind::Any, ty: set, span, value: None }
            }
            A::Mask(a, b) | A::Range(a, b) => {
                let mask = matches!(e.kind, A::Mask(..));
                let a = self.expr(a);
                let b = self.expr(b);
                let (a, b) = (self.plain_set_end(a, ty), self.plain_set_end(b, ty));
                let ok = matches!(self.p.ty(a.ty), Ty::Bit(_) | Ty::Bad | Ty::Int)
                    || (!mask && matches!(self.p.ty(a.ty), Ty::Signed(_)))
                    || self.width_of(a.ty).is_some_and(|(_, signed)| !signed);
                if !ok {
                    let text = format!(
                        "{} of {}",
                        if mask { "a mask" } else { "a range" },
                        self.p.show(a.ty)
                    );
                    let d = Diagnostic::error("type-mismatch", span, text);
                    self.d.add(d.help(if mask {
                        "masks are of unsigned numbers"
                    } else {
                        "ranges are of numbers"
                    }));
                    return self.bad(span);
                }
                if let (false, Some(Const::Int(x)), Some(Const::Int(y))) =
                    (mask, &a.value, &b.value)
                    && x > y
                {
                    let text = format!("the range ends at {y}, before it begins at {x}");
                    self.d.add(Diagnostic::warning("empty-range", span, text));
                }
                let set = self.p.types.id(Ty::Set(a.ty));
                let kind = if mask {
                    ExprKind::Mask(Box::new(a), Box::new(b))
                } else {
                    ExprKind::Range(Box::new(a), Box::new(b))
                };
                Expr { kind, ty: set, span, value: None }
            }
            A::SetTuple(items) if items.len() == 1 => self.set(&items[0], ty),
            A::SetTuple(items) => {
                // A key that is itself a tuple or struct.
                let parts: Option<Vec<TyId>> = match self.p.ty(ty).clone() {
                    Ty::Tuple(parts) | Ty::Literal(None, parts, false) => Some(parts.to_vec()),
                    Ty::Struct(s, args) => Some(self.p.field_types(s, &args)),
                    Ty::Bad => None,
                    _ => {
                        let text =
                            format!("{} sets for one key of type {}", items.len(), self.show(ty));
                        self.error("type-mismatch", span, text);
                        None
                    }
                };
                let Some(parts) = parts else { return self.bad(span) };
                if parts.len() != items.len() {
                    let text = format!("{} sets for {} keys", items.len(), parts.len());
                    self.error("type-mismatch", span, text);
                    return self.bad(span);
                }
                let sets = items.iter().zip(parts).map(|(i, t)| self.set(i, t)).collect();
                let set = self.p.types.id(Ty::Set(ty));
                Expr { kind: ExprKind::SetTuple(sets), ty: set, span, value: None }
            }
            _ => {
                let value = self.expr(e);
                if let Ty::Set(inner) = self.p.ty(value.ty).clone() {
                    let inner = match self.p.ty(inner).clone() {
                        Ty::Struct(s, args) if self.width_of(ty).is_some() => {
                            let fields = self.p.field_types(s, &args);
                            if fields.len() == 1 { fields[0] } else { inner }
                        }
                        _ => inner,
                    };
                    let (flat, wanted) = (self.flat(inner), self.flat(ty));
                    let same = flat.len() == wanted.len()
                        && flat.iter().zip(&wanted).all(|(a, b)| self.unify(*a, *b));
                    if !same && !self.unify(inner, ty) {
                        let text =
                            format!("expected {}, found {}", self.show(ty), self.show(value.ty));
                        self.error("type-mismatch", span, text);
                    }
                    return value;
                }
                self.coerce(value, ty)
            }
        }
    }

    /// The types of all leaves.
    fn flat(&mut self, ty: TyId) -> Vec<TyId> {
        match self.p.ty(ty).clone() {
            Ty::Struct(s, args) => {
                let fields = self.p.field_types(s, &args);
                fields.into_iter().flat_map(|f| self.flat(f)).collect()
            }
            Ty::Tuple(items) => items.iter().flat_map(|f| self.flat(*f)).collect(),
            _ => vec![ty],
        }
    }

    fn plain_set_end(&mut self, e: Expr, ty: TyId) -> Expr {
        let e = self.plain_number(e);
        let ty = match self.p.ty(ty) {
            Ty::Enum(n) => self.p.enums[n.index()].repr.unwrap_or(ty),
            _ => ty,
        };
        self.coerce(e, ty)
    }

    pub(super) fn builtin(&mut self, ty: TyId, name: &str) -> Option<Builtin> {
        let union = self.is_union(ty);
        let header = self.is_header(ty);
        match (self.p.ty(ty), name) {
            (Ty::Struct(..), "isValid") if header || union => Some(Builtin::IsValid),
            (Ty::Struct(..), "setValid") if header => Some(Builtin::SetValid),
            (Ty::Struct(..), "setInvalid") if header => Some(Builtin::SetInvalid),
            (Ty::Stack(..), "push_front") => Some(Builtin::PushFront),
            (Ty::Stack(..), "pop_front") => Some(Builtin::PopFront),
            _ => None,
        }
    }
}
