//! Calls of members: methods of externs, tables, headers and stacks; `apply`.

use super::{Args, Face};
use crate::ast::{self, ExprKind as A};
use crate::check::names::Sym;
use crate::check::{Checker, Place};
use crate::diag::Diagnostic;
use crate::hir::{Builtin, Call, Callee, Const, Expr, ExprKind, Param, Signature, annotated};
use crate::lex::Name;
use crate::source::Span;
use crate::types::*;
use num_traits::ToPrimitive;

impl Checker<'_> {
    pub(super) fn call_member(
        &mut self,
        object: &ast::Expr,
        name: &ast::Ident,
        types: &[ast::Type],
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        // A table's application, and what may be done with types.
        if let A::Path(path) = &object.kind
            && let Some(Sym::Table(id)) = self.find(path).map(|f| f.sym.clone())
        {
            return self.call_table(id, name, args, span);
        }
        if let Some(ty) = self.as_type(object) {
            if &*name.name == "apply" && matches!(self.p.ty(ty), Ty::Apply(..)) {
                return self.call_type(ty, args, object.span, span);
            }
            if let Some(e) = self.size_call(ty, name, args, span) {
                return e;
            }
            if *self.p.ty(ty) != Ty::Bad {
                let text = format!("the type {} has no method `{}`", self.show(ty), name.name);
                self.error("unknown-method", name.span, text);
            }
            self.args_anyway(args);
            return self.bad(span);
        }
        let object = self.expr(object);
        let ty = self.zonk(object.ty);
        let object = Expr { ty, ..object };
        if let Some(builtin) = self.builtin(ty, &name.name) {
            return self.call_builtin(object, builtin, name, args, span);
        }
        if !matches!(self.p.ty(ty), Ty::Extern(..) | Ty::Apply(..))
            && let Some(e) = self.size_call(ty, name, args, span)
        {
            return e;
        }
        match self.p.ty(ty).clone() {
            Ty::Bad => {
                self.args_anyway(args);
                self.bad(span)
            }
            Ty::Extern(e, targs) => {
                let ext = &self.p.externs[e.index()];
                let methods: Vec<(usize, Signature)> = ext
                    .methods
                    .iter()
                    .enumerate()
                    .filter(|(_, m)| m.result.is_some() && m.name == name.name)
                    .map(|(i, m)| (i, m.clone()))
                    .collect();
                if methods.is_empty() {
                    let text = format!("the extern `{}` has no method `{}`", ext.name, name.name);
                    let known: Vec<Name> = ext
                        .methods
                        .iter()
                        .filter(|m| m.result.is_some())
                        .map(|m| m.name.clone())
                        .collect();
                    let d = Diagnostic::error("unknown-method", name.span, text);
                    self.d.add(d.nearest(&name.name, known.iter().map(|n| &**n)));
                    self.args_anyway(args);
                    return self.bad(span);
                }
                let vars = ext.type_params.clone();
                let Some(chosen) = self.choose("method", &methods, args, name.span) else {
                    return self.bad(span);
                };
                let signature = self.p.externs[e.index()].methods[chosen].clone();
                let (Args { list: args, order }, type_args, result) =
                    self.with_signature(&signature, types, args, span, &vars, &targs);
                self.deprecated(&signature, name.span);
                if self.context.place == Place::Declarations && !self.pure(&signature) {
                    self.error("bad-place", span, "a method is called among declarations");
                }
                if &*self.p.externs[e.index()].name == "packet_in"
                    && &*signature.name == "lookahead"
                {
                    let size = self.size_bits(result);
                    let open = matches!(self.p.ty(result), Ty::Var(_) | Ty::Bad);
                    if !open && size.is_none_or(|(lo, hi)| lo != hi) {
                        let text = format!(
                            "`lookahead` reads a value of fixed width, and this is {}",
                            self.show(result)
                        );
                        self.error("bad-type", span, text);
                    }
                }
                if &*self.p.externs[e.index()].name == "packet_in" && &*signature.name == "extract"
                {
                    self.check_extract(&args, span);
                }
                if &*self.p.externs[e.index()].name == "packet_out"
                    && &*signature.name == "emit"
                    && let Some(Some(value)) = args.first()
                {
                    self.check_emit(value);
                }
                let callee = Callee::Method(object, e, chosen);
                let call = Call { callee, type_args, args, order };
                Expr { kind: ExprKind::Call(Box::new(call)), ty: result, span, value: None }
            }
            Ty::Apply(a, targs) if &*name.name == "apply" => {
                self.call_apply(object, a, &targs, args, span)
            }
            _ => {
                let text = format!("{} has no method `{}`", self.show(ty), name.name);
                let d = Diagnostic::error("unknown-method", name.span, text);
                let known: &[&str] = match self.p.ty(ty) {
                    Ty::Struct(..) => {
                        &["isValid", "setValid", "setInvalid", "minSizeInBits", "minSizeInBytes"]
                    }
                    Ty::Stack(..) => &["push_front", "pop_front"],
                    Ty::Apply(..) => &["apply"],
                    _ => &[],
                };
                self.d.add(d.nearest(&name.name, known.iter().copied()));
                self.args_anyway(args);
                self.bad(span)
            }
        }
    }

    pub(super) fn pure(&self, s: &Signature) -> bool {
        annotated(&s.annotations, "pure")
            || annotated(&s.annotations, "noSideEffects")
            || s.result != Some(basic::VOID)
    }

    /// `extract` reads headers, and the second form one with a varbit field.
    pub(super) fn check_extract(&mut self, args: &[Option<Expr>], span: Span) {
        let Some(Some(header)) = args.first() else { return };
        let ty = self.zonk(header.ty);
        let (is_header, at) = (self.is_header(ty), header.span);
        match self.p.ty(ty).clone() {
            Ty::Bad | Ty::Var(_) => {}
            Ty::Struct(s, _) if is_header => {
                let fields = self.p.structs[s.index()].fields.clone();
                let varbits =
                    fields.iter().filter(|f| matches!(self.p.ty(f.ty), Ty::Varbit(_))).count();
                if varbits > 1 {
                    let text = format!(
                        "{} has more than one varbit field and cannot be extracted",
                        self.show(ty)
                    );
                    self.error("bad-extract", at, text);
                }
                let varbit = varbits > 0;
                if varbit && args.len() == 1 {
                    let text = format!(
                        "{} has a varbit field, whose width `extract` needs",
                        self.show(ty)
                    );
                    let d = Diagnostic::error("bad-extract", span, text);
                    self.d.add(d.help("give it: `extract(h, bits)`"));
                }
                if !varbit && args.len() == 2 {
                    let text =
                        format!("{} has no varbit field that could have a width", self.show(ty));
                    self.error("bad-extract", span, text);
                }
            }
            _ => {
                let text = format!("`extract` reads a header, and this is {}", self.show(ty));
                self.error("bad-extract", at, text);
            }
        }
    }

    /// `emit` writes headers, stacks, unions, and structs and tuples of such (§16.1).
    pub(super) fn check_emit(&mut self, value: &Expr) {
        let ty = self.settle(value.ty);
        let Some((wrong, field)) = self.not_emitted(ty) else { return };
        let text = match &field {
            None => format!("`emit` writes headers, and this is {}", self.show(wrong)),
            Some(name) => format!(
                "`emit` writes headers, and the field `{name}` of {} is {}",
                self.show(ty),
                self.show(wrong)
            ),
        };
        let d = Diagnostic::error("bad-emit", value.span, text);
        let help = match &value.kind {
            ExprKind::Field(base, _) if self.is_header(base.ty) => "emit the whole header",
            _ => "emit headers, header unions, stacks, or structs and tuples of these",
        };
        self.d.add(d.help(help));
    }

    /// What of a type cannot be emitted, and the field that holds it.
    pub(super) fn not_emitted(&mut self, ty: TyId) -> Option<(TyId, Option<String>)> {
        let ty = self.zonk(ty);
        match self.p.ty(ty).clone() {
            Ty::Bad | Ty::Var(_) | Ty::Infer(_) | Ty::Invalid => None,
            Ty::Struct(..) if self.is_header(ty) || self.is_union(ty) => None,
            Ty::Stack(e, _) if self.is_header(e) || self.is_union(e) => None,
            Ty::Struct(s, args) => {
                let types = self.p.field_types(s, &args);
                let fields = self.p.structs[s.index()].fields.clone();
                fields.iter().zip(types).find_map(|(f, t)| {
                    let (wrong, inner) = self.not_emitted(t)?;
                    let name =
                        inner.map_or_else(|| f.name.to_string(), |i| format!("{}.{i}", f.name));
                    Some((wrong, Some(name)))
                })
            }
            Ty::Tuple(items) | Ty::Literal(_, items, _) => {
                items.iter().enumerate().find_map(|(i, t)| {
                    let (wrong, inner) = self.not_emitted(*t)?;
                    Some((
                        wrong,
                        Some(inner.map_or_else(|| format!("[{i}]"), |n| format!("[{i}].{n}"))),
                    ))
                })
            }
            _ => Some((ty, None)),
        }
    }

    pub(super) fn no_args(&mut self, args: &[ast::Arg], name: &ast::Ident) {
        if let Some(first) = args.first() {
            self.error("bad-arguments", first.span, format!("`{}` takes no arguments", name.name));
        }
    }

    /// `minSizeInBits()` and the like (§8.12).
    pub(super) fn size_call(
        &mut self,
        ty: TyId,
        name: &ast::Ident,
        args: &[ast::Arg],
        span: Span,
    ) -> Option<Expr> {
        let (least, bytes) = match &*name.name {
            "minSizeInBits" => (true, false),
            "minSizeInBytes" => (true, true),
            "maxSizeInBits" => (false, false),
            "maxSizeInBytes" => (false, true),
            _ => return None,
        };
        self.no_args(args, name);
        let ty = self.zonk(ty);
        if matches!(self.p.ty(ty), Ty::Var(_) | Ty::Infer(_)) {
            return None;
        }
        let Some((lo, hi)) = self.size_bits(ty) else {
            let text = format!("{} has no size", self.show(ty));
            self.error("bad-type", span, text);
            return Some(self.bad(span));
        };
        let bits = if least { lo } else { hi };
        let value = if bytes { bits.div_ceil(8) } else { bits };
        Some(self.constant(Const::Int(value.into()), basic::INT, span))
    }

    pub(super) fn call_table(
        &mut self,
        id: TableId,
        name: &ast::Ident,
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        if &*name.name != "apply" {
            let text = format!("a table has no method `{}`", name.name);
            let d = Diagnostic::error("unknown-method", name.span, text);
            self.d.add(d.help("it has `apply()`"));
            return self.bad(span);
        }
        self.no_args(args, name);
        if !matches!(self.context.place, Place::Apply | Place::Table) {
            let place = match self.context.place {
                Place::Action => "an action",
                Place::Function => "a function",
                Place::State => "a parser",
                _ => "a declaration",
            };
            let text = format!("a table is applied in {place}");
            let d = Diagnostic::error("bad-place", span, text);
            self.d.add(d.help("tables are applied in a control's apply block"));
        }
        let callee = Callee::Table(id);
        let call = Call { callee, type_args: Vec::new(), args: Vec::new(), order: Vec::new() };
        let ty = self.p.types.id(Ty::TableResult(id));
        Expr { kind: ExprKind::Call(Box::new(call)), ty, span, value: None }
    }

    /// `C.apply(...)` on the type: an object of its own (§14.1.1).
    pub(super) fn call_type(&mut self, ty: TyId, args: &[ast::Arg], at: Span, span: Span) -> Expr {
        let Ty::Apply(a, targs) = self.p.ty(ty).clone() else { return self.bad(span) };
        let old = std::mem::replace(&mut self.context.place, Place::Declarations);
        let made = self.construct(ty, &[], at);
        self.context.place = old;
        let Some(c) = made else { return self.bad(span) };
        let object = Expr { kind: ExprKind::Construct(Box::new(c)), ty, span: at, value: None };
        self.call_apply(object, a, &targs, args, span)
    }

    pub(super) fn call_apply(
        &mut self,
        object: Expr,
        a: ApplyId,
        targs: &[TyId],
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        let def = &self.p.applicables[a.index()];
        let (name, at, is_parser) = (def.name.clone(), def.span, def.is_parser);
        let (vars, params) = (def.type_params.clone(), def.params.clone());
        let right = if is_parser { Place::State } else { Place::Apply };
        if self.context.place != right {
            let text = format!(
                "the {} `{name}` is applied here",
                if is_parser { "parser" } else { "control" }
            );
            let d = Diagnostic::error("bad-place", span, text);
            self.d.add(d.help(if is_parser {
                "parsers are applied in the states of other parsers"
            } else {
                "controls are applied in the apply blocks of other controls"
            }));
        }
        let params = params
            .into_iter()
            .map(|p| Param { ty: self.p.types.substitute(p.ty, &vars, targs), ..p })
            .collect();
        let face = Face { name, span: at, params, known: true };
        let Args { list: args, order } = self.match_args(&face, args, span);
        let call = Call { callee: Callee::Apply(object, a), type_args: Vec::new(), args, order };
        Expr { kind: ExprKind::Call(Box::new(call)), ty: basic::VOID, span, value: None }
    }

    pub(super) fn call_builtin(
        &mut self,
        object: Expr,
        builtin: Builtin,
        name: &ast::Ident,
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        let ty = if builtin == Builtin::IsValid { basic::BOOL } else { basic::VOID };
        if builtin != Builtin::IsValid
            && let Some(why) = self.not_writable(&object)
        {
            let text = format!("`{}` changes what cannot be changed", name.name);
            let d = Diagnostic::error("not-writable", object.span, text);
            self.d.add(d.note(Span::default(), why));
        }
        let mut out = Vec::new();
        if matches!(builtin, Builtin::PushFront | Builtin::PopFront) {
            match args {
                [ast::Arg { value: Some(count), .. }] => {
                    let e = self.expr(count);
                    let n = match (&e.value, self.p.ty(e.ty)) {
                        (_, Ty::Bad) => None,
                        (Some(Const::Int(n)), _) => n.to_u32(),
                        _ => None,
                    };
                    match n {
                        Some(0) | None if *self.p.ty(e.ty) != Ty::Bad => {
                            let text = format!(
                                "`{}` takes a positive number known at compile time",
                                name.name
                            );
                            self.error("bad-arguments", count.span, text);
                        }
                        _ => out.push(Some(e)),
                    }
                }
                _ => {
                    self.error(
                        "bad-arguments",
                        span,
                        format!("`{}` takes one argument", name.name),
                    );
                    self.args_anyway(args);
                }
            }
        } else {
            self.no_args(args, name);
        }
        let callee = Callee::Builtin(object, builtin);
        let call = Call { callee, type_args: Vec::new(), args: out, order: Vec::new() };
        Expr { kind: ExprKind::Call(Box::new(call)), ty, span, value: None }
    }
}
