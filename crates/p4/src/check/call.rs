//! Calls: arguments to parameters, overloads, directions, type arguments; constructors; methods
//! (specification §6.7, §8.20, §9, §11).

mod members;

use super::names::Sym;
use super::{Checker, Place};
use crate::ast::{self, Direction, ExprKind as A};
use crate::diag::Diagnostic;
use crate::hir::{Call, Callee, Const, Construct, Expr, ExprKind, Param, Signature, annotated};
use crate::lex::Name;
use crate::source::Span;
use crate::types::*;

/// What arguments are matched with.
struct Face {
    /// For messages.
    name: Name,
    span: Span,
    params: Vec<Param>,
    /// Arguments without direction are known at compile time.
    known: bool,
}

/// What was made of arguments.
struct Args {
    /// In the order of the parameters.
    list: Vec<Option<Expr>>,
    /// Of arguments with names: places in the list in the order in which they are written.
    order: Vec<usize>,
}

impl Checker<'_> {
    pub(super) fn call(
        &mut self,
        f: &ast::Expr,
        types: &[ast::Type],
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        match &f.kind {
            A::Path(path) => {
                let sym = match self.find(path) {
                    Some(entry) => entry.sym.clone(),
                    None => {
                        self.unknown(path, |s| {
                            matches!(
                                s,
                                Sym::Functions(_) | Sym::Action(_) | Sym::Extern(_) | Sym::Apply(_)
                            )
                        });
                        Sym::Bad
                    }
                };
                match sym {
                    Sym::Functions(all) => self.call_function(&all, types, args, f.span, span),
                    Sym::Action(id) => self.call_action(id, types, args, span),
                    Sym::Extern(_) | Sym::Apply(_) | Sym::Package(_) | Sym::Type(_) => {
                        let type_args = types.iter().map(|t| self.ty_or(t, true)).collect();
                        let ty = self.named(&sym, type_args, f.span, true);
                        self.construct_value(ty, args, span)
                    }
                    Sym::Bad => {
                        self.args_anyway(args);
                        self.bad(span)
                    }
                    other => {
                        let text = format!(
                            "`{}` is {} and cannot be called",
                            path.ident.name,
                            other.what()
                        );
                        let d = Diagnostic::error("not-callable", f.span, text);
                        self.d.add(match other {
                            Sym::Table(_) => {
                                d.help(format!("apply it: `{}.apply()`", path.ident.name))
                            }
                            Sym::Instance(_) => d.help("call one of its methods, or `.apply(...)`"),
                            _ => d,
                        });
                        self.args_anyway(args);
                        self.bad(span)
                    }
                }
            }
            A::Type(t) => {
                let ty = self.ty_or(t, true);
                self.construct_value(ty, args, span)
            }
            A::Member(object, name) => self.call_member(object, name, types, args, span),
            _ => {
                let e = self.expr(f);
                if *self.p.ty(e.ty) != Ty::Bad {
                    let text = format!("{} cannot be called", self.show(e.ty));
                    self.error("not-callable", f.span, text);
                }
                self.args_anyway(args);
                self.bad(span)
            }
        }
    }

    /// Checks arguments whose parameters are not known.
    fn args_anyway(&mut self, args: &[ast::Arg]) {
        for arg in args {
            if let Some(value) = &arg.value
                && self.as_type(value).is_none()
            {
                self.expr(value);
            }
        }
    }

    /// Those of several functions that so many arguments, or these names, fit.
    fn candidates(&self, faces: &[(usize, &Signature)], args: &[ast::Arg]) -> Vec<usize> {
        let fits = |s: &Signature| {
            if args.len() > s.params.len() {
                return false;
            }
            let named = args.iter().all(|a| match &a.name {
                Some(n) => s.params.iter().any(|p| p.name == n.name),
                None => true,
            });
            let given = |i: usize, p: &Param| match args.first().and_then(|a| a.name.as_ref()) {
                Some(_) => args.iter().any(|a| a.name.as_ref().is_some_and(|n| n.name == p.name)),
                None => i < args.len(),
            };
            let rest = s
                .params
                .iter()
                .enumerate()
                .all(|(i, p)| given(i, p) || p.optional || p.default.is_some());
            named && rest
        };
        faces.iter().filter(|(_, s)| fits(s)).map(|(i, _)| *i).collect()
    }

    /// Chooses among overloads by number and names of arguments.
    fn choose(
        &mut self,
        what: &str,
        faces: &[(usize, Signature)],
        args: &[ast::Arg],
        span: Span,
    ) -> Option<usize> {
        if let [(i, _)] = faces {
            return Some(*i);
        }
        let refs: Vec<(usize, &Signature)> = faces.iter().map(|(i, s)| (*i, s)).collect();
        let fitting = self.candidates(&refs, args);
        match fitting.as_slice() {
            [one] => Some(*one),
            [] => {
                let text = format!(
                    "no {what} takes {} argument{} like these",
                    args.len(),
                    if args.len() == 1 { "" } else { "s" }
                );
                let mut d = Diagnostic::error("no-overload", span, text);
                for (_, s) in faces {
                    let params: Vec<String> = s.params.iter().map(|p| p.name.to_string()).collect();
                    d = d.note(s.span, format!("there is {}({})", s.name, params.join(", ")));
                }
                self.d.add(d);
                self.args_anyway(args);
                None
            }
            [first, ..] => {
                // Several take so many: the one whose types fit.
                let values: Vec<Option<TyId>> = args
                    .iter()
                    .map(|a| a.value.as_ref().map(|v| self.quietly(|c| c.expr(v).ty)))
                    .collect();
                let mut by_type = Vec::new();
                for i in &fitting {
                    let Some((_, s)) = faces.iter().find(|(j, _)| j == i) else { continue };
                    let vars = s.type_params.clone();
                    let params: Vec<TyId> = s.params.iter().map(|p| p.ty).collect();
                    let fresh: Vec<TyId> = vars.iter().map(|_| self.fresh()).collect();
                    let fits = params.iter().zip(&values).all(|(p, v)| {
                        let p = self.p.types.substitute(*p, &vars, &fresh);
                        v.is_none_or(|v| {
                            let e = Expr { kind: ExprKind::Bad, ty: v, span, value: None };
                            let number = *self.p.ty(v) == Ty::Int && self.width_of(p).is_some();
                            number || self.try_coerce(e, p).is_ok()
                        })
                    });
                    if fits {
                        by_type.push(*i);
                    }
                }
                match by_type.as_slice() {
                    [one] => Some(*one),
                    [] => Some(*first),
                    _ => {
                        let text = format!("several {what}s fit these arguments");
                        let mut d = Diagnostic::error("ambiguous", span, text);
                        for (_, s) in faces.iter().filter(|(i, _)| by_type.contains(i)) {
                            d = d.note(s.span, "this one");
                        }
                        self.d.add(d);
                        None
                    }
                }
            }
        }
    }

    /// Runs `f` and forgets what it tells.
    fn quietly<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let mut kept = std::mem::take(self.d);
        let result = f(self);
        std::mem::swap(self.d, &mut kept);
        result
    }

    fn call_function(
        &mut self,
        all: &[FunctionId],
        types: &[ast::Type],
        args: &[ast::Arg],
        name_span: Span,
        span: Span,
    ) -> Expr {
        let faces: Vec<(usize, Signature)> = all
            .iter()
            .map(|f| (f.index(), self.p.functions[f.index()].signature.clone()))
            .collect();
        let Some(chosen) = self.choose("function", &faces, args, name_span) else {
            return self.bad(span);
        };
        let id = FunctionId(chosen as u32);
        let signature = self.p.functions[chosen].signature.clone();
        let is_extern = self.p.functions[chosen].body.is_none();
        if is_extern
            && &*signature.name == "verify"
            && self.context.place != Place::State
            && self.context.place != Place::Function
        {
            self.error("bad-place", name_span, "`verify` is for parsers");
        }
        let (Args { list: call_args, order }, type_args, result) =
            self.with_signature(&signature, types, args, span, &[], &[]);
        self.deprecated(&signature, name_span);
        if is_extern && &*signature.name == "static_assert" {
            return self.static_assert(id, call_args, span);
        }
        let call = Call { callee: Callee::Function(id), type_args, args: call_args, order };
        Expr { kind: ExprKind::Call(Box::new(call)), ty: result, span, value: None }
    }

    fn deprecated(&mut self, s: &Signature, span: Span) {
        if annotated(&s.annotations, "deprecated") {
            let why = crate::hir::annotation_text(&s.annotations, "deprecated");
            self.d.add(super::names::deprecated(&s.name, span, s.span, why));
        }
    }

    fn static_assert(&mut self, id: FunctionId, args: Vec<Option<Expr>>, span: Span) -> Expr {
        let message = match args.get(1) {
            Some(Some(e)) => match &e.value {
                Some(Const::Str(s)) => s.to_string(),
                _ => String::new(),
            },
            _ => String::new(),
        };
        match args.first() {
            Some(Some(e)) => match (&e.value, &e.kind) {
                (Some(Const::Bool(true)), _) => {}
                (Some(Const::Bool(false)), _) => {
                    let text = if message.is_empty() {
                        "the static assertion fails".into()
                    } else {
                        format!("the static assertion fails: {message}")
                    };
                    self.error("static-assert", span, text);
                }
                (_, ExprKind::Bad) => {}
                _ => self.error(
                    "not-constant",
                    e.span,
                    "a static assertion is known at compile time",
                ),
            },
            _ => return self.bad(span),
        }
        let call =
            Call { callee: Callee::Function(id), type_args: Vec::new(), args, order: Vec::new() };
        Expr {
            kind: ExprKind::Call(Box::new(call)),
            ty: basic::BOOL,
            span,
            value: Some(Const::Bool(true)),
        }
    }

    /// Arguments, type arguments and result of a function's or method's call; `outer` are the type
    /// parameters of the extern it belongs to, and `outer_args` what they are.
    fn with_signature(
        &mut self,
        s: &Signature,
        types: &[ast::Type],
        args: &[ast::Arg],
        span: Span,
        outer: &[TypeVarId],
        outer_args: &[TyId],
    ) -> (Args, Vec<TyId>, TyId) {
        let mut type_args: Vec<TyId> = types.iter().map(|t| self.ty_or(t, true)).collect();
        if !types.is_empty() && types.len() != s.type_params.len() {
            let text = format!(
                "`{}` takes {} type arguments, not {}",
                s.name,
                s.type_params.len(),
                types.len()
            );
            let d = Diagnostic::error("type-arguments", span, text);
            self.d.add(d.note(s.span, "it is declared here"));
            type_args.clear();
        }
        if type_args.is_empty() {
            type_args = s.type_params.iter().map(|_| self.fresh()).collect();
        }
        for (t, written) in type_args.clone().iter().zip(types) {
            if matches!(self.p.ty(*t), Ty::Void) {
                self.error("bad-type", written.span, "`void` is no type argument");
            }
        }
        let replace = |this: &mut Self, ty: TyId| {
            let ty = this.p.types.substitute(ty, outer, outer_args);
            this.p.types.substitute(ty, &s.type_params, &type_args)
        };
        let params =
            s.params.iter().map(|p| Param { ty: replace(self, p.ty), ..p.clone() }).collect();
        let result = s.result.map_or(basic::VOID, |r| replace(self, r));
        let face = Face { name: s.name.clone(), span: s.span, params, known: true };
        let Args { list: args, order } = self.match_args(&face, args, span);
        for (p, a) in face.params.iter().zip(&args) {
            let Some(a) = a else { continue };
            let ty = self.zonk(p.ty);
            let directed = p.direction != Direction::None;
            match self.p.ty(ty) {
                Ty::Int if directed => {
                    let d = Diagnostic::error(
                        "cannot-infer",
                        a.span,
                        "the width of this number cannot be inferred",
                    );
                    self.d.add(d.help("write it: `8w1`"));
                }
                Ty::String if directed => {
                    let d = Diagnostic::error(
                        "bad-direction",
                        a.span,
                        "a string for a parameter with a direction",
                    );
                    self.d.add(d.note(p.span, "the parameter is declared here"));
                }
                Ty::Apply(..) | Ty::Package(..) => {
                    let text = format!("an argument of a function cannot be {}", self.show(ty));
                    self.error("bad-type", a.span, text);
                }
                _ => {}
            }
        }
        for (i, t) in type_args.clone().iter().enumerate() {
            let ty = self.zonk(*t);
            if self.open(ty) && !args.iter().flatten().any(|a| *self.p.ty(a.ty) == Ty::Bad) {
                let var = self.p.type_vars[s.type_params[i].index()].clone();
                let text = format!("the type argument {var} of `{}` cannot be inferred", s.name);
                let d = Diagnostic::error("cannot-infer", span, text);
                self.d.add(d.help(format!("write it: `{}<...>(...)`", s.name)));
            }
        }
        let type_args = type_args.iter().map(|t| self.zonk(*t)).collect();
        let result = self.zonk(result);
        // What type parameters became may not be allowed where they stand (§7.2.8).
        for (p, a) in face.params.iter().zip(&args) {
            if a.is_some() {
                self.well_formed(p.ty, span);
            }
        }
        self.well_formed(result, span);
        let mut args = args;
        for a in args.iter_mut().flatten() {
            a.ty = self.zonk(a.ty);
        }
        (Args { list: args, order }, type_args, result)
    }

    /// Types inside of generic types are allowed where they are, now that they are known.
    fn well_formed(&mut self, ty: TyId, span: Span) {
        let ty = self.zonk(ty);
        match self.p.ty(ty).clone() {
            Ty::Struct(s, args) if !args.is_empty() => {
                let how = super::types::field_use(self.p.structs[s.index()].kind);
                for field in self.p.field_types(s, &args) {
                    self.fits(field, how, span);
                }
            }
            Ty::Stack(e, _) => {
                let ok = self.is_header(e)
                    || self.is_union(e)
                    || matches!(self.p.ty(e), Ty::Bad | Ty::Var(_) | Ty::Infer(_));
                if !ok {
                    let text =
                        format!("a stack holds headers or header unions, not {}", self.show(e));
                    self.error("bad-type", span, text);
                }
            }
            Ty::Tuple(items) => {
                for item in items.iter() {
                    self.fits(*item, super::types::Use::Tuple, span);
                }
            }
            _ => {}
        }
    }

    /// Arguments in the order of the parameters, each of its parameter's type.
    fn match_args(&mut self, face: &Face, args: &[ast::Arg], span: Span) -> Args {
        let n = face.params.len();
        let mut slots: Vec<Option<&ast::Arg>> = vec![None; n];
        let mut order = Vec::new();
        let named = args.iter().filter(|a| a.name.is_some()).count();
        if named != 0 && named != args.len() {
            let d = Diagnostic::error(
                "bad-arguments",
                span,
                "some arguments have names and some have not",
            );
            self.d.add(d.help("give names to all of them or to none"));
            self.args_anyway(args);
            return Args { list: vec![None; n], order };
        }
        for (i, arg) in args.iter().enumerate() {
            let at = match &arg.name {
                Some(name) => match face.params.iter().position(|p| p.name == name.name) {
                    Some(at) => at,
                    None => {
                        let text = format!("`{}` has no parameter `{}`", face.name, name.name);
                        let d = Diagnostic::error("bad-arguments", name.span, text);
                        self.d.add(d.nearest(&name.name, face.params.iter().map(|p| &*p.name)));
                        continue;
                    }
                },
                None if i < n => i,
                None => {
                    let text = format!(
                        "`{}` takes {n} argument{}, not {}",
                        face.name,
                        if n == 1 { "" } else { "s" },
                        args.len()
                    );
                    let d = Diagnostic::error("bad-arguments", arg.span, text);
                    self.d.add(d.note(face.span, "it is declared here"));
                    break;
                }
            };
            if slots[at].is_some() {
                let text = format!("the parameter `{}` is given twice", face.params[at].name);
                self.error("bad-arguments", arg.span, text);
                continue;
            }
            slots[at] = Some(arg);
            if arg.name.is_some() {
                order.push(at);
            }
        }
        // Values first; then those whose type depends on the others'.
        let mut values: Vec<Option<Expr>> = slots
            .iter()
            .map(|slot| slot.and_then(|a| a.value.as_ref()).map(|v| self.expr(v)))
            .collect();
        let mut out: Vec<Option<Expr>> = vec![None; n];
        for late in [false, true] {
            for i in 0..n {
                let Some(value) = values[i].take() else { continue };
                let ty = self.shallow(value.ty);
                let loose =
                    matches!(self.p.ty(ty), Ty::Int | Ty::Literal(..) | Ty::Dots | Ty::Invalid);
                if loose != late {
                    values[i] = Some(value);
                    continue;
                }
                let param = &face.params[i];
                out[i] = Some(self.argument(face, param, value));
            }
        }
        for (i, param) in face.params.iter().enumerate() {
            match slots[i] {
                // `_`: only where nothing is read of it.
                Some(arg)
                    if arg.value.is_none()
                        && param.direction != Direction::Out
                        && !param.optional =>
                {
                    let text = format!("the parameter `{}` needs a value", param.name);
                    let d = Diagnostic::error("bad-arguments", arg.span, text);
                    self.d.add(d.help("`_` may only stand for an `out` argument"));
                }
                Some(_) => {}
                None if out[i].is_none() => match &param.default {
                    Some(default) => {
                        let default = default.clone();
                        out[i] = Some(self.argument(face, param, default));
                    }
                    None if param.optional => {}
                    None => {
                        let text = format!(
                            "the parameter `{}` of `{}` has no argument",
                            param.name, face.name
                        );
                        let d = Diagnostic::error("bad-arguments", span, text);
                        let d = d.note(param.span, "it is declared here");
                        let near = self.variable_of(param.ty);
                        self.d.add(match near {
                            Some(name) => d.help(format!("`{name}` is of its type: pass that")),
                            None => d,
                        });
                    }
                },
                None => {}
            }
        }
        Args { list: out, order }
    }

    /// The only variable at hand of a struct's type, as a hint.
    fn variable_of(&mut self, ty: TyId) -> Option<Name> {
        let ty = self.zonk(ty);
        self.struct_kind(ty)?;
        let vars = self.scopes.iter().flat_map(|s| &s.names).filter_map(|(name, e)| match e.sym {
            Sym::Var(v) if self.p.vars[v.index()].ty == ty => Some(name),
            _ => None,
        });
        let mut found: Vec<&Name> = vars.collect();
        found.sort_unstable();
        found.dedup();
        match found.as_slice() {
            [one] => Some((*one).clone()),
            _ => None,
        }
    }

    fn argument(&mut self, face: &Face, param: &Param, value: Expr) -> Expr {
        let span = value.span;
        match param.direction {
            Direction::Out | Direction::InOut => {
                if let Some(why) = self.not_writable(&value) {
                    let text = format!(
                        "the argument of `{}{}` is not a place to write to",
                        param.direction.word(),
                        param.name
                    );
                    let d = Diagnostic::error("not-writable", span, text);
                    self.d.add(d.note(Span::default(), why));
                    return value;
                }
                if !self.unify(value.ty, param.ty) {
                    let (to, from) = (self.show(param.ty), self.show(value.ty));
                    let text = format!("expected {to}, found {from}");
                    let d = Diagnostic::error("type-mismatch", span, text);
                    let text = format!(
                        "nothing is cast for the parameter `{}{}`",
                        param.direction.word(),
                        param.name
                    );
                    self.d.add(d.note(param.span, text));
                }
                let ty = self.zonk(value.ty);
                Expr { ty, ..value }
            }
            Direction::In => self.coerce(value, param.ty),
            Direction::None => {
                let value = self.coerce(value, param.ty);
                if face.known && !self.known(&value) && !self.is_object(value.ty) {
                    let text = format!(
                        "the argument of `{}` is known at compile time, and this is not",
                        param.name
                    );
                    let d = Diagnostic::error("not-constant", span, text);
                    self.d.add(d.note(param.span, "the parameter has no direction"));
                }
                value
            }
        }
    }

    /// An object rather than a value.
    pub(super) fn is_object(&self, ty: TyId) -> bool {
        matches!(
            self.p.ty(self.shallow(ty)),
            Ty::Extern(..) | Ty::Apply(..) | Ty::Package(..) | Ty::Bad | Ty::Set(_)
        )
    }

    fn call_action(
        &mut self,
        id: ActionId,
        types: &[ast::Type],
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        let action = &self.p.actions[id.index()];
        let (name, at, params) = (action.name.clone(), action.span, action.params.clone());
        if !types.is_empty() {
            self.error("type-arguments", span, "actions take no type arguments");
        }
        match self.context.place {
            Place::Apply | Place::Action => {}
            _ => {
                let text = format!(
                    "the action `{name}` is called outside of a control's apply block or another action"
                );
                self.error("bad-place", span, text);
            }
        }
        let face = Face { name, span: at, params, known: false };
        let Args { list: args, order } = self.match_args(&face, args, span);
        let call = Call { callee: Callee::Action(id), type_args: Vec::new(), args, order };
        Expr { kind: ExprKind::Call(Box::new(call)), ty: basic::VOID, span, value: None }
    }

    fn construct_value(&mut self, ty: TyId, args: &[ast::Arg], span: Span) -> Expr {
        if self.context.place != Place::Declarations && self.context.place != Place::Table {
            let ok = *self.p.ty(ty) == Ty::Bad;
            if !ok {
                let d =
                    Diagnostic::error("bad-place", span, "an object is made where statements run");
                self.d.add(d.help("declare it with a name before, and use the name here"));
            }
        }
        match self.construct(ty, args, span) {
            Some(c) => {
                let ty = c.ty;
                if let Ty::Extern(e, _) = self.p.ty(ty)
                    && let Some(m) =
                        self.p.externs[e.index()].methods.iter().find(|m| m.is_abstract)
                {
                    let text = format!("nothing defines the abstract method `{}`", m.name);
                    let d = Diagnostic::error("bad-implementation", span, text);
                    let d = d.note(m.span, "it is declared here");
                    self.d.add(d.help("declare an instance with a name and define it there"));
                }
                Expr { kind: ExprKind::Construct(Box::new(c)), ty, span, value: None }
            }
            None => self.bad(span),
        }
    }

    /// The construction of an object of this type (§11.3).
    pub(super) fn construct(
        &mut self,
        ty: TyId,
        args: &[ast::Arg],
        span: Span,
    ) -> Option<Construct> {
        let old = std::mem::replace(&mut self.context.place, Place::Declarations);
        let result = self.construct_inside(ty, args, span);
        self.context.place = old;
        result
    }

    fn construct_inside(&mut self, ty: TyId, args: &[ast::Arg], span: Span) -> Option<Construct> {
        let shape = self.p.ty(ty).clone();
        let (name, at, vars, targs, params, constructor) = match &shape {
            Ty::Extern(e, targs) => {
                let ext = &self.p.externs[e.index()];
                let (name, at, vars) = (ext.name.clone(), ext.span, ext.type_params.clone());
                let ctors: Vec<(usize, Signature)> = ext
                    .methods
                    .iter()
                    .enumerate()
                    .filter(|(_, m)| m.result.is_none())
                    .map(|(i, m)| (i, m.clone()))
                    .collect();
                if ctors.is_empty() {
                    let text =
                        format!("the extern `{name}` has no constructor, so nothing can make one");
                    let d = Diagnostic::error("bad-constructor", span, text);
                    self.d.add(d.note(at, "it is declared here"));
                    self.args_anyway(args);
                    return None;
                }
                let chosen = self.choose("constructor", &ctors, args, span)?;
                let ctor = self.p.externs[e.index()].methods[chosen].clone();
                let own: Vec<TyId> = ctor.type_params.iter().map(|_| self.fresh()).collect();
                let params: Vec<Param> = ctor
                    .params
                    .into_iter()
                    .map(|p| Param {
                        ty: self.p.types.substitute(p.ty, &ctor.type_params, &own),
                        ..p
                    })
                    .collect();
                (name, at, vars, targs.clone(), params, chosen)
            }
            Ty::Apply(a, targs) => {
                let def = &self.p.applicables[a.index()];
                if def.body.is_none() {
                    let text = format!("`{}` is only a type, without a body", def.name);
                    let at = def.span;
                    let d = Diagnostic::error("bad-constructor", span, text);
                    self.d.add(d.note(at, "it is declared here"));
                    self.args_anyway(args);
                    return None;
                }
                let inside = self.context.inside;
                let (name, is_parser) = (def.name.clone(), def.is_parser);
                let (at, params) = (def.span, def.ctor_params.clone());
                let vars = def.type_params.clone();
                if inside.is_some_and(|parser| parser != is_parser) {
                    let text = if is_parser {
                        format!("the parser `{name}` is made inside of a control")
                    } else {
                        format!("the control `{name}` is made inside of a parser")
                    };
                    self.error("bad-place", span, text);
                }
                (name, at, vars, targs.clone(), params, 0)
            }
            Ty::Package(p, targs) => {
                let def = &self.p.packages[p.index()];
                let (name, at) = (def.name.clone(), def.span);
                let (vars, params) = (def.type_params.clone(), def.params.clone());
                if self.context.inside.is_some() {
                    let text =
                        format!("the package `{name}` is made inside of a parser or control");
                    self.error("bad-place", span, text);
                }
                (name, at, vars, targs.clone(), params, 0)
            }
            Ty::Bad => {
                self.args_anyway(args);
                return None;
            }
            _ => {
                let text = format!("{} is no object that can be made", self.show(ty));
                let d = Diagnostic::error("bad-constructor", span, text);
                self.d.add(d.help("for a value, cast: `(T) {...}`"));
                self.args_anyway(args);
                return None;
            }
        };
        let params = params
            .into_iter()
            .map(|p| Param { ty: self.p.types.substitute(p.ty, &vars, &targs), ..p })
            .collect();
        let face = Face { name: name.clone(), span: at, params, known: true };
        let before = self.d.errors();
        let args = self.match_args(&face, args, span).list;
        let ty = self.zonk(ty);
        if self.open(ty) && self.d.errors() == before {
            let optional_left = matches!(shape, Ty::Package(..) | Ty::Apply(..));
            if !optional_left {
                let text = format!("the type arguments of `{name}` cannot be inferred");
                let d = Diagnostic::error("cannot-infer", span, text);
                self.d.add(d.help(format!("write them: `{name}<...>(...)`")));
            }
        }
        Some(Construct { ty, constructor, args })
    }
}
