//! Types as written to types, and what may be inside of what (specification §7.2.8).

use super::names::Sym;
use super::{Checker, Place};
use crate::ast::{Expr, StructKind, Type, TypeKind};
use crate::diag::Diagnostic;
use crate::hir::Const;
use crate::source::Span;
use crate::types::*;
use num_bigint::BigInt;
use std::rc::Rc;

/// Widest `bit` and `int`.
pub(super) const WIDTH_MAX: u32 = 65_535;
/// Widest `varbit`: the longest packet.
const VARBIT_MAX: u32 = ir::program::VARBIT_WIDTH_MAX;
/// Largest stack.
const STACK_MAX: u32 = 4096;

/// What a type is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A field of a struct or element of a tuple.
    Field,
    /// A field of a header.
    HeaderField,
    /// A field of a header union.
    UnionField,
    /// An element of a tuple.
    Tuple,
    /// A variable.
    Variable,
    /// An element of a list.
    List,
}

impl Checker<'_> {
    /// A type as written. `_` is allowed only as a type argument of something that infers.
    pub(super) fn ty(&mut self, t: &Type) -> TyId {
        self.ty_or(t, false)
    }

    pub(super) fn ty_or(&mut self, t: &Type, dontcare: bool) -> TyId {
        match &t.kind {
            TypeKind::Bool => basic::BOOL,
            TypeKind::Error => basic::ERROR,
            TypeKind::MatchKind => basic::MATCH_KIND,
            TypeKind::String => basic::STRING,
            TypeKind::Void => basic::VOID,
            TypeKind::Int => basic::INT,
            TypeKind::Bit(None) => self.p.types.bit(1),
            TypeKind::Bit(Some(e)) => match self.width(e, 0, WIDTH_MAX) {
                Some(w) => self.p.types.bit(w),
                None => basic::BAD,
            },
            TypeKind::SignedInt(e) => match self.width(e, 1, WIDTH_MAX) {
                Some(w) => self.p.types.id(Ty::Signed(w)),
                None => basic::BAD,
            },
            TypeKind::Varbit(e) => match self.width(e, 0, VARBIT_MAX) {
                Some(w) => self.p.types.id(Ty::Varbit(w)),
                None => basic::BAD,
            },
            TypeKind::Named(path, args) => {
                let sym = match self.find(path) {
                    Some(entry) => entry.sym.clone(),
                    None => {
                        self.unknown(path, |s| {
                            matches!(
                                s,
                                Sym::Type(_)
                                    | Sym::Struct(_)
                                    | Sym::Extern(_)
                                    | Sym::Apply(_)
                                    | Sym::Package(_)
                            )
                        });
                        Sym::Bad
                    }
                };
                let args: Vec<TyId> = args.iter().map(|a| self.ty_or(a, dontcare)).collect();
                self.named(&sym, args, t.span, false)
            }
            TypeKind::Stack(element, size) => {
                let element_ty = self.ty_or(element, dontcare);
                let size_value = self.natural(size, "a stack's size", STACK_MAX);
                let ok = matches!(self.p.ty(element_ty), Ty::Bad | Ty::Var(_) | Ty::Infer(_))
                    || self.is_header(element_ty)
                    || self.is_union(element_ty);
                if !ok {
                    let text = format!(
                        "a stack holds headers or header unions, not {}",
                        self.show(element_ty)
                    );
                    self.error("bad-type", element.span, text);
                    return basic::BAD;
                }
                match size_value {
                    Some(n) => self.p.types.id(Ty::Stack(element_ty, n)),
                    None => basic::BAD,
                }
            }
            TypeKind::Tuple(items) => {
                let mut list = Vec::new();
                for item in items {
                    let ty = self.ty_or(item, dontcare);
                    self.fits(ty, Use::Tuple, item.span);
                    list.push(ty);
                }
                self.p.types.id(Ty::Tuple(list.into()))
            }
            TypeKind::List(item) => {
                let ty = self.ty_or(item, dontcare);
                self.fits(ty, Use::List, item.span);
                self.p.types.id(Ty::List(ty))
            }
            TypeKind::Dontcare => {
                if dontcare {
                    self.fresh()
                } else {
                    let d = Diagnostic::error("bad-type", t.span, "`_` is no type here");
                    self.d
                        .add(d.help("it may only stand for a type argument that can be inferred"));
                    basic::BAD
                }
            }
            TypeKind::Bad => basic::BAD,
        }
    }

    /// The type that a name with arguments stands for. Without arguments, a generic one gets fresh
    /// ones if `infer`.
    pub(super) fn named(&mut self, sym: &Sym, args: Vec<TyId>, span: Span, infer: bool) -> TyId {
        let params = match sym {
            Sym::Type(_) => 0,
            Sym::Struct(s) => self.p.structs[s.index()].type_params.len(),
            Sym::Extern(s) => self.p.externs[s.index()].type_params.len(),
            Sym::Apply(s) => self.p.applicables[s.index()].type_params.len(),
            Sym::Package(s) => self.p.packages[s.index()].type_params.len(),
            Sym::Bad => return basic::BAD,
            other => {
                let text = format!("a type is needed here, and this is {}", other.what());
                self.error("not-a-type", span, text);
                return basic::BAD;
            }
        };
        let hidden = match sym {
            Sym::Package(p) => self.p.hidden.get(p).copied().unwrap_or(0),
            _ => 0,
        };
        let mut args = args;
        if infer && hidden > 0 && args.len() == params - hidden {
            args.extend((0..hidden).map(|_| self.fresh()).collect::<Vec<_>>());
        }
        let args: Rc<[TyId]> = if args.is_empty() && params > 0 && infer {
            (0..params).map(|_| self.fresh()).collect()
        } else {
            args.into()
        };
        if args.len() != params {
            let text = match (params, args.len()) {
                (0, _) => "this type takes no type arguments".to_string(),
                (n, 0) => {
                    format!("this type needs {n} type argument{}", if n == 1 { "" } else { "s" })
                }
                (n, m) => format!("this type takes {n} type arguments, not {m}"),
            };
            self.error("type-arguments", span, text);
            return basic::BAD;
        }
        let ty = match sym {
            Sym::Type(ty) => return *ty,
            Sym::Struct(s) => Ty::Struct(*s, args.clone()),
            Sym::Extern(s) => Ty::Extern(*s, args.clone()),
            Sym::Apply(s) => Ty::Apply(*s, args.clone()),
            Sym::Package(s) => Ty::Package(*s, args.clone()),
            _ => return basic::BAD,
        };
        if let Sym::Struct(s) = sym
            && params > 0
        {
            // What was allowed for a type parameter may not be for what takes its place.
            let kind = self.p.structs[s.index()].kind;
            for field in self.p.field_types(*s, &args) {
                self.fits(field, field_use(kind), span);
            }
        }
        self.p.types.id(ty)
    }

    fn width(&mut self, e: &Expr, least: u32, most: u32) -> Option<u32> {
        let width = self.natural(e, "a width", most)?;
        if width < least {
            self.error("bad-width", e.span, "a signed number has at least one bit");
            return None;
        }
        Some(width)
    }

    /// A number known at compile time, from 0 to `max`.
    pub(super) fn natural(&mut self, e: &Expr, what: &str, max: u32) -> Option<u32> {
        let old = std::mem::replace(&mut self.context.place, Place::Declarations);
        let value = self.expr(e);
        self.context.place = old;
        if *self.p.ty(value.ty) == Ty::Bad {
            return None;
        }
        let Some(Const::Int(n)) = &value.value else {
            let is_number = self.is_number(value.ty);
            let text = if is_number {
                format!("{what} is known at compile time, and this is not")
            } else {
                format!("{what} is a number, and this is {}", self.show(value.ty))
            };
            self.error("not-constant", e.span, text);
            return None;
        };
        match u32::try_from(n).ok().filter(|n| *n <= max) {
            Some(n) => Some(n),
            None => {
                let text = if *n < BigInt::from(0) {
                    format!("{what} is not negative, and this is {n}")
                } else {
                    format!("{what} is at most {max}, and this is {n}")
                };
                self.error("bad-width", e.span, text);
                None
            }
        }
    }

    pub(super) fn is_number(&self, ty: TyId) -> bool {
        matches!(self.p.ty(ty), Ty::Bit(_) | Ty::Signed(_) | Ty::Int)
    }

    pub(super) fn struct_kind(&self, ty: TyId) -> Option<StructKind> {
        match self.p.ty(ty) {
            Ty::Struct(s, _) => Some(self.p.structs[s.index()].kind),
            _ => None,
        }
    }

    pub(super) fn is_header(&self, ty: TyId) -> bool {
        self.struct_kind(ty) == Some(StructKind::Header)
    }

    pub(super) fn is_union(&self, ty: TyId) -> bool {
        self.struct_kind(ty) == Some(StructKind::Union)
    }

    /// Tells if a type may not be used so.
    pub(super) fn fits(&mut self, ty: TyId, how: Use, span: Span) -> bool {
        let ty = self.zonk(ty);
        let kind = self.struct_kind(ty);
        let struct_ok = |this: &mut Self| match this.p.ty(ty).clone() {
            // A struct in a header holds only what a header may.
            Ty::Struct(s, args) => {
                let fields = this.p.field_types(s, &args);
                fields.iter().all(|f| match this.p.ty(*f) {
                    Ty::Struct(..) => this.header_field(*f),
                    _ => this.header_field(*f),
                })
            }
            _ => false,
        };
        let ok = match (how, self.p.ty(ty)) {
            (_, Ty::Bad | Ty::Var(_) | Ty::Infer(_)) => true,
            (
                _,
                Ty::Void
                | Ty::Extern(..)
                | Ty::Apply(..)
                | Ty::Package(..)
                | Ty::Set(_)
                | Ty::TableResult(_)
                | Ty::ActionRun(_)
                | Ty::Invalid
                | Ty::Dots,
            ) => false,
            (Use::List, _) => true,
            (Use::UnionField, _) => kind == Some(StructKind::Header),
            (Use::HeaderField, Ty::Struct(..)) => {
                kind == Some(StructKind::Struct) && struct_ok(self)
            }
            (Use::HeaderField, _) => self.header_field(ty),
            (Use::Field | Use::Variable, Ty::Int | Ty::String | Ty::MatchKind) => false,
            (Use::Field | Use::Variable | Use::Tuple, _) => true,
        };
        if !ok {
            let what = match how {
                Use::Field => "a struct",
                Use::Tuple => "a tuple",
                Use::HeaderField => "a header",
                Use::UnionField => "a header union",
                Use::Variable => "a variable",
                Use::List => "a list",
            };
            let text = format!("{what} cannot hold {}", self.show(ty));
            let d = Diagnostic::error("bad-type", span, text);
            self.d.add(match (how, self.p.ty(ty)) {
                (_, Ty::Int) => d.help("give it a width: `bit<32>`"),
                (Use::UnionField, _) => d.help("the members of a header union are headers"),
                (Use::HeaderField, Ty::Enum(_)) => {
                    d.help("give the enum a representation: `enum bit<8> ...`")
                }
                _ => d,
            });
        }
        ok
    }

    /// What may be inside of a header.
    fn header_field(&mut self, ty: TyId) -> bool {
        match self.p.ty(ty).clone() {
            Ty::Bad | Ty::Var(_) | Ty::Infer(_) => true,
            Ty::Bool | Ty::Bit(_) | Ty::Signed(_) | Ty::Varbit(_) => true,
            Ty::Enum(e) => self.p.enums[e.index()].repr.is_some(),
            Ty::New(n) => {
                let base = self.p.newtypes[n.index()].base;
                self.header_field(base)
            }
            Ty::Struct(s, args) => {
                self.p.structs[s.index()].kind == StructKind::Struct
                    && self.p.field_types(s, &args).iter().all(|f| self.header_field(*f))
            }
            _ => false,
        }
    }

    /// Bits of a value of this type, if all of it is of fixed width: least and greatest.
    pub(super) fn size_bits(&mut self, ty: TyId) -> Option<(u64, u64)> {
        match self.p.ty(ty).clone() {
            Ty::Bool => Some((1, 1)),
            Ty::Bit(w) | Ty::Signed(w) => Some((w.into(), w.into())),
            Ty::Varbit(w) => Some((0, w.into())),
            Ty::Enum(e) => {
                let repr = self.p.enums[e.index()].repr?;
                self.size_bits(repr)
            }
            Ty::New(n) => {
                let base = self.p.newtypes[n.index()].base;
                self.size_bits(base)
            }
            Ty::Stack(e, n) => {
                let (lo, hi) = self.size_bits(e)?;
                Some((lo * u64::from(n), hi * u64::from(n)))
            }
            Ty::Tuple(items) => self.sum_bits(&items),
            Ty::Struct(s, args) => {
                let fields = self.p.field_types(s, &args);
                if self.p.structs[s.index()].kind == StructKind::Union {
                    let sizes: Option<Vec<(u64, u64)>> =
                        fields.iter().map(|f| self.size_bits(*f)).collect();
                    let sizes = sizes?;
                    let least = sizes.iter().map(|s| s.0).min()?;
                    return Some((least, sizes.iter().map(|s| s.1).max()?));
                }
                self.sum_bits(&fields)
            }
            _ => None,
        }
    }

    fn sum_bits(&mut self, types: &[TyId]) -> Option<(u64, u64)> {
        types.iter().try_fold((0, 0), |(lo, hi), f| {
            let (a, b) = self.size_bits(*f)?;
            Some((lo + a, hi + b))
        })
    }
}

/// What a field of such a struct is used for.
pub(super) fn field_use(kind: StructKind) -> Use {
    match kind {
        StructKind::Struct => Use::Field,
        StructKind::Header => Use::HeaderField,
        StructKind::Union => Use::UnionField,
    }
}
