//! Declared types: enums, structs, headers, externs, functions.

use super::Owner;
use crate::ast::{self, Ident, StructKind};
use crate::check::names::Sym;
use crate::check::types::field_use;
use crate::check::{Checker, Context, Place};
use crate::diag::Diagnostic;
use crate::hir::*;
use crate::lex::Name;
use crate::source::Span;
use crate::types::*;
use num_bigint::BigInt;
use std::collections::HashMap;
use std::rc::Rc;

impl Checker<'_> {
    pub(super) fn enumeration(
        &mut self,
        name: &Ident,
        repr: Option<&ast::Type>,
        members: &[(Ident, Option<ast::Expr>)],
    ) {
        self.unique("member", members.iter().map(|(n, _)| n));
        let id = EnumId(self.p.enums.len() as u32);
        let repr_ty = repr.map(|t| {
            let ty = self.ty(t);
            if matches!(self.p.ty(ty), Ty::Bit(_) | Ty::Signed(_) | Ty::Bad) {
                return ty;
            }
            let text = format!(
                "an enum is represented by bit or int of a width, not by {}",
                self.show(ty)
            );
            self.error("bad-type", t.span, text);
            basic::BAD
        });
        let mut list: Vec<(Name, Option<BigInt>)> = Vec::new();
        for (member, value) in members {
            let number = match (repr_ty, value) {
                (Some(repr), Some(e)) => {
                    let v = self.expr(e);
                    let v = self.coerce(v, repr);
                    match v.value {
                        Some(Const::Int(n)) => Some(n),
                        _ => {
                            if !matches!(v.kind, ExprKind::Bad) {
                                self.error(
                                    "not-constant",
                                    e.span,
                                    "a member's value is known at compile time",
                                );
                            }
                            Some(BigInt::ZERO)
                        }
                    }
                }
                (Some(_), None) => {
                    let text = format!("the member `{}` has no value", member.name);
                    let d = Diagnostic::error("bad-enum", member.span, text);
                    self.d.add(
                        d.help("each member of an enum with a representation has one: `x = 1`"),
                    );
                    Some(BigInt::ZERO)
                }
                (None, Some(e)) => {
                    let d = Diagnostic::error(
                        "bad-enum",
                        e.span,
                        "a member of an enum without representation has a value",
                    );
                    self.d.add(d.help(format!(
                        "write the representation: `enum bit<8> {} ...`",
                        name.name
                    )));
                    None
                }
                (None, None) => None,
            };
            list.push((member.name.clone(), number));
        }
        self.p.enums.push(Enum {
            name: name.name.clone(),
            span: name.span,
            repr: repr_ty,
            members: list,
        });
        let ty = self.p.types.id(Ty::Enum(id));
        self.declare(name, Sym::Type(ty));
    }

    pub(super) fn structure(
        &mut self,
        name: &Ident,
        kind: StructKind,
        types: &[Ident],
        fields: &[ast::Field],
        annotations: Rc<[ast::Annotation]>,
    ) {
        self.unique("field", fields.iter().map(|f| &f.name));
        let (type_params, list) = self.scoped(|c| {
            let type_params = c.type_params(types);
            let mut list = Vec::new();
            let mut varbit: Option<Span> = None;
            for f in fields {
                let ty = c.ty(&f.ty);
                let ok = c.fits(ty, field_use(kind), f.ty.span);
                if matches!(c.p.ty(ty), Ty::Varbit(_)) && kind == StructKind::Header {
                    if let Some(first) = varbit {
                        let d = Diagnostic::error(
                            "bad-type",
                            f.name.span,
                            "a header has at most one varbit field",
                        );
                        c.d.add(d.note(first, "the first one is here"));
                    }
                    varbit = Some(f.name.span);
                }
                list.push(Field {
                    name: f.name.name.clone(),
                    ty: if ok { ty } else { basic::BAD },
                    span: f.name.span,
                    annotations: f.annotations.as_slice().into(),
                });
            }
            (type_params, list)
        });
        let id = StructId(self.p.structs.len() as u32);
        self.p.types.note_struct(id, list.iter().map(|f| f.ty));
        self.p.structs.push(Struct {
            name: name.name.clone(),
            span: name.span,
            kind,
            type_params: type_params.clone(),
            fields: list,
            annotations,
        });
        self.declare(name, Sym::Struct(id));
    }

    /// Makes type parameters of the `_`s in these types.
    pub(super) fn close<'t>(
        &mut self,
        types: impl Iterator<Item = &'t mut TyId>,
    ) -> Vec<TypeVarId> {
        let mut made: HashMap<u32, TypeVarId> = HashMap::new();
        let mut order = Vec::new();
        for ty in types {
            let open = self.zonk(*ty);
            let vars = &mut self.p.type_vars;
            *ty = self.p.types.clone_map(open, &mut |types, t| match t {
                Ty::Infer(n) => {
                    let id = *made.entry(*n).or_insert_with(|| {
                        vars.push("_".into());
                        let id = TypeVarId(vars.len() as u32 - 1);
                        order.push(id);
                        id
                    });
                    Some(types.id(Ty::Var(id)))
                }
                _ => None,
            });
        }
        order
    }

    /// A function's or method's face, with type parameters and parameters in the innermost scope.
    pub(super) fn signature(
        &mut self,
        proto: &ast::Prototype,
        annotations: Rc<[ast::Annotation]>,
    ) -> Signature {
        let type_params = self.type_params(&proto.type_params);
        let result = proto.result.as_ref().map(|t| {
            let ty = self.ty(t);
            if self.is_object(ty) && *self.p.ty(ty) != Ty::Bad {
                let text = format!("a function cannot return {}", self.show(ty));
                self.error("bad-type", t.span, text);
            }
            ty
        });
        let owner = if proto.result.is_some() { Owner::Function } else { Owner::Constructor };
        let mut type_params = type_params;
        let mut params = self.params(&proto.params, owner);
        if owner == Owner::Constructor {
            type_params.extend(self.close(params.iter_mut().map(|p| &mut p.ty)));
        }
        Signature {
            name: proto.name.name.clone(),
            span: proto.name.span,
            type_params,
            params,
            result,
            is_abstract: proto.is_abstract,
            annotations,
        }
    }

    /// Two functions of one name that no call could tell apart.
    pub(super) fn clash(a: &Signature, b: &Signature) -> bool {
        a.result.is_some() == b.result.is_some()
            && a.params.len() == b.params.len()
            && a.params.iter().zip(&b.params).all(|(x, y)| x.name == y.name && x.ty == y.ty)
    }

    pub(super) fn external(
        &mut self,
        name: &Ident,
        types: &[Ident],
        methods: &[ast::Prototype],
        annotations: Rc<[ast::Annotation]>,
    ) {
        let id = ExternId(self.p.externs.len() as u32);
        // Its methods may speak of it.
        self.p.externs.push(Extern {
            name: name.name.clone(),
            span: name.span,
            type_params: Vec::new(),
            methods: Vec::new(),
            annotations,
        });
        self.declare(name, Sym::Extern(id));
        let (type_params, list) = self.scoped(|c| {
            let type_params = c.type_params(types);
            c.p.externs[id.index()].type_params = type_params.clone();
            let mut list: Vec<Signature> = Vec::new();
            for m in methods {
                if m.result.is_some() && m.name.name == name.name {
                    let d = Diagnostic::error(
                        "duplicate-name",
                        m.name.span,
                        "a method has the name of its extern",
                    );
                    c.d.add(d.help("only constructors have it, and they return nothing"));
                }
                let s = c.scoped(|c| c.signature(m, m.annotations.as_slice().into()));
                if let Some(old) = list.iter().find(|o| o.name == s.name && Self::clash(o, &s)) {
                    let text = format!(
                        "the method `{}` is declared twice with the same parameters",
                        s.name
                    );
                    let d = Diagnostic::error("duplicate-name", s.span, text);
                    c.d.add(d.note(old.span, "it was declared here"));
                }
                list.push(s);
            }
            (type_params, list)
        });
        let e = &mut self.p.externs[id.index()];
        e.type_params = type_params;
        e.methods = list;
    }

    pub(super) fn function(
        &mut self,
        name: &Ident,
        signature: Signature,
        body: Option<Vec<Stmt>>,
    ) -> FunctionId {
        let id = FunctionId(self.p.functions.len() as u32);
        if let Some(Sym::Functions(all)) =
            self.scopes.last().and_then(|s| s.names.get(&name.name)).map(|e| e.sym.clone())
        {
            for other in all {
                let other = &self.p.functions[other.index()].signature;
                if Self::clash(other, &signature) {
                    let text = format!(
                        "the function `{}` is declared twice with the same parameters",
                        name.name
                    );
                    let d = Diagnostic::error("duplicate-name", name.span, text);
                    let d = d.note(other.span, "it was declared here");
                    self.d.add(d);
                    break;
                }
            }
        }
        self.p.functions.push(Function { signature, body });
        self.declare(name, Sym::Functions(vec![id]));
        id
    }

    pub(super) fn function_body(
        &mut self,
        proto: &ast::Prototype,
        body: &ast::Block,
        annotations: Rc<[ast::Annotation]>,
        this: Option<TyId>,
    ) -> (Signature, Vec<Stmt>) {
        let context = Context { this, ..self.context(Place::Function) };
        self.within(context, |c| {
            let signature = c.signature(proto, annotations);
            let result = signature.result.unwrap_or(basic::VOID);
            c.context.result = Some(result);
            let stmts = c.block(&body.stmts);
            if result != basic::VOID && result != basic::BAD && !Self::returns(&stmts) {
                let text =
                    format!("the function `{}` can end without returning a value", proto.name.name);
                let d = Diagnostic::error("bad-return", proto.name.span, text);
                c.d.add(d.help(format!("return {} on every way through it", c.p.show(result))));
            }
            (signature, stmts)
        })
    }
}
