//! Inference and implicit casts (specification §8.11.2, §8.17).

use super::Checker;
use crate::ast::{Direction, StructKind};
use crate::diag::{Diagnostic, nearest};
use crate::hir::{Const, Expr, ExprKind};
use crate::source::Span;
use crate::types::*;
use num_bigint::BigInt;
use std::rc::Rc;

impl Checker<'_> {
    /// A type to be found out.
    pub(super) fn fresh(&mut self) -> TyId {
        let n = self.infer.len() as u32;
        self.infer.push(None);
        self.p.types.id(Ty::Infer(n))
    }

    /// What is known of a type's outermost shape.
    pub(super) fn shallow(&self, mut ty: TyId) -> TyId {
        while let Ty::Infer(n) = self.p.ty(ty) {
            match self.infer[*n as usize] {
                Some(next) => ty = next,
                None => break,
            }
        }
        ty
    }

    /// A type with all that was found out filled in.
    pub(super) fn zonk(&mut self, ty: TyId) -> TyId {
        let ty = self.shallow(ty);
        if matches!(self.p.ty(ty), Ty::Infer(_) | Ty::Bit(_) | Ty::Bool) {
            return ty;
        }
        let infer = &self.infer;
        // Bindings never form a circle (`bind`), so this ends.
        fn go(types: &mut Types, infer: &[Option<TyId>], ty: TyId) -> TyId {
            types.clone_map(ty, &mut |types, t| match t {
                Ty::Infer(n) => infer[*n as usize].map(|next| go(types, infer, next)),
                _ => None,
            })
        }
        go(&mut self.p.types, infer, ty)
    }

    /// It holds types that are not known yet.
    pub(super) fn open(&mut self, ty: TyId) -> bool {
        let ty = self.zonk(ty);
        let mut open = false;
        self.p.types.map(ty, &mut |t| {
            open |= matches!(t, Ty::Infer(_));
            None
        });
        open
    }

    fn bind(&mut self, n: u32, ty: TyId) -> bool {
        let ty = self.zonk(ty);
        if *self.p.ty(ty) == Ty::Infer(n) {
            return true;
        }
        let mut circle = false;
        self.p.types.map(ty, &mut |t| {
            circle |= *t == Ty::Infer(n);
            None
        });
        if circle {
            return false;
        }
        self.infer[n as usize] = Some(ty);
        true
    }

    /// Makes two types the same, if they can be.
    pub(super) fn unify(&mut self, a: TyId, b: TyId) -> bool {
        let (a, b) = (self.shallow(a), self.shallow(b));
        if a == b {
            return true;
        }
        let all = |this: &mut Self, x: &Rc<[TyId]>, y: &Rc<[TyId]>| {
            x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| this.unify(*x, *y))
        };
        match (self.p.ty(a).clone(), self.p.ty(b).clone()) {
            (Ty::Bad, _) | (_, Ty::Bad) => true,
            (Ty::Infer(n), _) => self.bind(n, b),
            (_, Ty::Infer(n)) => self.bind(n, a),
            (Ty::Struct(x, xs), Ty::Struct(y, ys)) => x == y && all(self, &xs, &ys),
            (Ty::Extern(x, xs), Ty::Extern(y, ys)) => x == y && all(self, &xs, &ys),
            (Ty::Package(x, xs), Ty::Package(y, ys)) => x == y && all(self, &xs, &ys),
            (Ty::Tuple(xs), Ty::Tuple(ys)) => all(self, &xs, &ys),
            (Ty::List(x), Ty::List(y)) | (Ty::Set(x), Ty::Set(y)) => self.unify(x, y),
            (Ty::Stack(x, n), Ty::Stack(y, m)) => n == m && self.unify(x, y),
            (Ty::Apply(x, xs), Ty::Apply(y, ys)) => {
                if x == y {
                    all(self, &xs, &ys)
                } else {
                    self.same_face(x, &xs, y, &ys)
                }
            }
            _ => false,
        }
    }

    /// A parser or control may stand where a type with the same parameters is asked for (§7.2.12).
    fn same_face(&mut self, x: ApplyId, xs: &[TyId], y: ApplyId, ys: &[TyId]) -> bool {
        let face = |this: &mut Self, id: ApplyId, args: &[TyId]| {
            let a = &this.p.applicables[id.index()];
            let (vars, is_parser) = (a.type_params.clone(), a.is_parser);
            let params: Vec<(Direction, TyId, bool)> = a
                .params
                .iter()
                .map(|p| (p.direction, p.ty, p.optional || p.default.is_some()))
                .collect();
            let types = &mut this.p.types;
            let params: Vec<(Direction, TyId, bool)> = params
                .into_iter()
                .map(|(d, t, o)| (d, types.substitute(t, &vars, args), o))
                .collect();
            (is_parser, params)
        };
        let (xp, xf) = face(self, x, xs);
        let (yp, yf) = face(self, y, ys);
        let n = xf.len().min(yf.len());
        let rest_optional = xf[n..].iter().chain(&yf[n..]).all(|(_, _, optional)| *optional);
        xp == yp
            && rest_optional
            && xf.iter().zip(&yf).all(|((d, t, _), (e, u, _))| d == e && self.unify(*t, *u))
    }

    /// The type that a literal has when nothing asks for another one.
    pub(super) fn settle(&mut self, ty: TyId) -> TyId {
        let ty = self.zonk(ty);
        match self.p.ty(ty).clone() {
            Ty::Literal(None, items, false) => {
                let items: Rc<[TyId]> = items.iter().map(|i| self.settle(*i)).collect();
                self.p.types.id(Ty::Tuple(items))
            }
            _ => ty,
        }
    }

    /// The expression as a value of type `to`: itself, or with the implicit casts there are. Tells if
    /// it cannot be.
    pub(super) fn coerce(&mut self, e: Expr, to: TyId) -> Expr {
        let span = e.span;
        let from = self.zonk(e.ty);
        match self.try_coerce(e, to) {
            Ok(e) => e,
            Err(detail) => {
                let (to, from) = (self.zonk(to), self.zonk(from));
                let text = format!("expected {}, found {}", self.p.show(to), self.p.show(from));
                let mut d = Diagnostic::error("type-mismatch", span, text);
                let (t, f) = (self.p.ty(to).clone(), self.p.ty(from).clone());
                if !detail.is_empty() {
                    d = d.note(Span::default(), detail);
                }
                d = match (&t, &f) {
                    (Ty::Bit(_) | Ty::Signed(_), Ty::Bit(_) | Ty::Signed(_))
                        if matches!(
                            (&t, &f),
                            (Ty::Bit(_), Ty::Bit(_)) | (Ty::Signed(_), Ty::Signed(_))
                        ) =>
                    {
                        d.help(format!("cast it: `({}) ...`", self.p.show(to)))
                    }
                    (Ty::Bool, Ty::Bit(1)) | (Ty::Bit(1), Ty::Bool) => {
                        d.help(format!("cast it: `({}) ...`", self.p.show(to)))
                    }
                    (Ty::Bool, Ty::Bit(_) | Ty::Int | Ty::Signed(_)) => {
                        d.help("compare it: `... != 0`")
                    }
                    (Ty::New(n), _) if self.p.newtypes[n.index()].base == from => {
                        d.help(format!("cast it: `({}) ...`", self.p.show(to)))
                    }
                    (_, Ty::New(n)) if self.p.newtypes[n.index()].base == to => {
                        d.help(format!("cast it: `({}) ...`", self.p.show(to)))
                    }
                    (Ty::Enum(n), Ty::Int | Ty::Bit(_))
                        if self.p.enums[n.index()].repr.is_some() =>
                    {
                        d.help(format!("cast it: `({}) ...`", self.p.show(to)))
                    }
                    _ => d,
                };
                self.d.add(d);
                self.bad(span)
            }
        }
    }

    pub(super) fn bad(&self, span: Span) -> Expr {
        Expr { kind: ExprKind::Bad, ty: basic::BAD, span, value: None }
    }

    /// As `coerce`; the error may hold a detail.
    pub(super) fn try_coerce(&mut self, e: Expr, to: TyId) -> Result<Expr, String> {
        let to = self.shallow(to);
        let from = self.shallow(e.ty);
        if from == to {
            return Ok(e);
        }
        match (self.p.ty(from).clone(), self.p.ty(to).clone()) {
            (Ty::Bad, _) | (_, Ty::Bad) => Ok(Expr { ty: to, ..e }),
            (Ty::Literal(..), Ty::Infer(_)) => {
                let settled = self.settle(from);
                let e = if settled == from { e } else { self.try_coerce(e, settled)? };
                self.unify(settled, to);
                Ok(Expr { ty: settled, ..e })
            }
            (Ty::Int, Ty::Bit(_) | Ty::Signed(_)) => Ok(self.cast_to(e, to, false)),
            // A number without a width fits a `type` of numbers, as the PINS programs write them.
            (Ty::Int, Ty::New(_)) if self.width_of(to).is_some() && e.value.is_some() => {
                Ok(self.cast_to(e, to, false))
            }
            // A number with a width that is known may be an `int`.
            (Ty::Bit(_) | Ty::Signed(_), Ty::Int) if e.value.is_some() => {
                Ok(self.cast_to(e, to, true))
            }
            (Ty::Int, Ty::Set(inner)) if self.is_number(inner) => self.try_coerce(e, inner),
            (Ty::Literal(names, types, dots), _) => self.aggregate(e, names, &types, dots, to),
            (Ty::Invalid, Ty::Struct(s, _))
                if self.p.structs[s.index()].kind != StructKind::Struct =>
            {
                Ok(Expr { ty: to, value: Some(Const::Invalid), ..e })
            }
            (Ty::Dots, _) => match self.default_value(to) {
                Some(value) => {
                    Ok(Expr { kind: ExprKind::Const, ty: to, span: e.span, value: Some(value) })
                }
                None => Err("this type has no default value".into()),
            },
            // §8.3: a serializable enum is a value of its representation.
            (Ty::Enum(n), Ty::Bit(_) | Ty::Signed(_)) => match self.p.enums[n.index()].repr {
                Some(repr) if repr == to => Ok(self.cast_to(e, to, false)),
                _ => Err(String::new()),
            },
            _ if self.unify(from, to) => Ok(Expr { ty: to, ..e }),
            _ => Err(String::new()),
        }
    }

    /// `{...}` as a struct, header, tuple, list or stack.
    fn aggregate(
        &mut self,
        e: Expr,
        names: Option<Rc<[crate::lex::Name]>>,
        types: &[TyId],
        dots: bool,
        to: TyId,
    ) -> Result<Expr, String> {
        if let ExprKind::Mux(c, a, b) = e.kind {
            let a = self.try_coerce(*a, to)?;
            let b = self.try_coerce(*b, to)?;
            return Ok(Expr { kind: ExprKind::Mux(c, Box::new(a), Box::new(b)), ty: to, ..e });
        }
        let (wanted, field_names): (Vec<TyId>, Option<Vec<crate::lex::Name>>) =
            match self.p.ty(to).clone() {
                Ty::Struct(s, args) if self.p.structs[s.index()].kind != StructKind::Union => {
                    let names =
                        self.p.structs[s.index()].fields.iter().map(|f| f.name.clone()).collect();
                    (self.p.field_types(s, &args), Some(names))
                }
                Ty::Tuple(items) => (items.to_vec(), None),
                Ty::Stack(element, n) => {
                    if types.len() > n as usize {
                        return Err(format!("{} elements for a stack of {n}", types.len()));
                    }
                    (vec![element; n as usize], None)
                }
                Ty::List(element) => (vec![element; types.len()], None),
                Ty::Literal(other, items, _) if other == names => (items.to_vec(), None),
                _ => return Err(String::new()),
            };
        let ExprKind::Aggregate(items) = e.kind else {
            // A constant by name: its elements are known.
            return match e.value {
                Some(Const::List(values)) if names.is_none() && values.len() == types.len() => {
                    let items = values
                        .iter()
                        .zip(types)
                        .map(|(v, t)| Expr {
                            kind: ExprKind::Const,
                            ty: *t,
                            span: e.span,
                            value: Some(v.clone()),
                        })
                        .collect();
                    let e = Expr { kind: ExprKind::Aggregate(items), value: None, ..e };
                    self.aggregate(e, names, types, dots, to)
                }
                _ => Err(String::new()),
            };
        };
        let mut slots: Vec<Option<Expr>> = (0..wanted.len()).map(|_| None).collect();
        let mut order = Vec::new();
        match (&names, &field_names) {
            (Some(names), Some(fields)) => {
                for (name, item) in names.iter().zip(items) {
                    let Some(i) = fields.iter().position(|f| f == name) else {
                        let near = nearest(name, fields.iter().map(|f| &**f));
                        let hint =
                            near.map_or(String::new(), |n| format!("; the nearest is `{n}`"));
                        return Err(format!("{} has no field `{name}`{hint}", self.p.show(to)));
                    };
                    order.push(i);
                    slots[i] = Some(self.try_coerce(item, wanted[i]).map_err(|detail| {
                        if detail.is_empty() {
                            format!("the field `{name}` has another type")
                        } else {
                            detail
                        }
                    })?);
                }
            }
            (Some(_), None) if !matches!(self.p.ty(to), Ty::Literal(..)) => {
                return Err("only structs and headers have fields with names".into());
            }
            _ => {
                if items.len() > wanted.len() {
                    return Err(format!("{} values for {} fields", items.len(), wanted.len()));
                }
                for (i, item) in items.into_iter().enumerate() {
                    slots[i] = Some(self.try_coerce(item, wanted[i]).map_err(|detail| {
                        if detail.is_empty() {
                            format!("value {} has another type", i + 1)
                        } else {
                            detail
                        }
                    })?);
                }
            }
        }
        let missing = slots.iter().position(Option::is_none);
        if let Some(i) = missing {
            if !dots {
                return Err(match &field_names {
                    Some(fields) => format!("the field `{}` has no value", fields[i]),
                    None => format!("{} values are needed", wanted.len()),
                });
            }
            for (slot, ty) in slots.iter_mut().zip(&wanted) {
                if slot.is_none() {
                    let Some(value) = self.default_value(*ty) else {
                        return Err(format!("{} has no default value", self.show(*ty)));
                    };
                    *slot = Some(Expr {
                        kind: ExprKind::Const,
                        ty: *ty,
                        span: e.span,
                        value: Some(value),
                    });
                }
            }
        }
        let items: Vec<Expr> = slots.into_iter().flatten().collect();
        let value: Option<Vec<Const>> = items.iter().map(|i| i.value.clone()).collect();
        let kind = match value.is_none() && !order.is_sorted() {
            true => ExprKind::Reordered(items, order),
            false => ExprKind::Aggregate(items),
        };
        let value = value.map(|v| Const::List(v.into()));
        Ok(Expr { kind, ty: to, span: e.span, value })
    }

    /// What `...` stands for (§7.3).
    pub(super) fn default_value(&mut self, ty: TyId) -> Option<Const> {
        let ty = self.zonk(ty);
        Some(match self.p.ty(ty).clone() {
            Ty::Bool => Const::Bool(false),
            Ty::Int | Ty::Bit(_) | Ty::Signed(_) | Ty::Varbit(_) => Const::Int(BigInt::ZERO),
            Ty::String => Const::Str("".into()),
            Ty::Error => Const::Error(0),
            Ty::Enum(e) => match self.p.enums[e.index()].repr {
                Some(_) => Const::Int(BigInt::ZERO),
                None => Const::Enum(0),
            },
            Ty::New(n) => {
                let base = self.p.newtypes[n.index()].base;
                self.default_value(base)?
            }
            Ty::Struct(s, args) => match self.p.structs[s.index()].kind {
                StructKind::Struct => {
                    let fields = self.p.field_types(s, &args);
                    let values: Option<Vec<Const>> =
                        fields.iter().map(|f| self.default_value(*f)).collect();
                    Const::List(values?.into())
                }
                _ => Const::Invalid,
            },
            Ty::Tuple(items) => {
                let values: Option<Vec<Const>> =
                    items.iter().map(|f| self.default_value(*f)).collect();
                Const::List(values?.into())
            }
            Ty::Stack(element, n) => {
                let value = self.default_value(element)?;
                Const::List(vec![value; n as usize].into())
            }
            Ty::List(_) => Const::List(Vec::new().into()),
            _ => return None,
        })
    }
}
