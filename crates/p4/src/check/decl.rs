//! Declarations (specification §7.2, §10, §11, §13, §14.1, §15, §18): types, externs, functions, actions,
//! parsers and their states, controls, packages, instances.

mod types;

use super::names::Sym;
use super::{Checker, Context, Place};
use crate::ast::{self, DeclKind, Direction, ExprKind as A, Ident, StructKind};
use crate::diag::Diagnostic;
use crate::hir::*;
use crate::lex::Name;
use crate::limits::{DEPTH_MAX, LEAVES_MAX};
use crate::source::Span;
use crate::types::*;
use std::collections::HashMap;
use std::rc::Rc;

/// Whose parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Function,
    Action,
    Apply,
    Constructor,
    Package,
}

impl Checker<'_> {
    fn context(&self, place: Place) -> Context {
        Context { place, result: None, loops: 0, this: None, inside: self.context.inside }
    }

    pub(super) fn top(&mut self, decl: &ast::Decl) {
        self.declaration(decl);
        if let Some(size) = self.p.types.too_large.take() {
            let text = format!(
                "a type here holds {} single values and is {} types deep; at most {LEAVES_MAX} and \
                 {DEPTH_MAX} are possible",
                size.leaves, size.depth
            );
            self.error("too-large", decl.name.span, text);
        }
    }

    fn declaration(&mut self, decl: &ast::Decl) {
        let name = &decl.name;
        let annotations = self.annotations(decl);
        match &decl.kind {
            DeclKind::Const(ty, value) => {
                if let Some(StmtKind::Var(..)) = self.constant_decl(ty, value, name) {
                    self.error(
                        "not-constant",
                        value.span,
                        "a constant is known at compile time, and this is not",
                    );
                }
                if let Some(value) = self.constant_at_top(name) {
                    self.p.constants.insert(name.name.clone(), value);
                }
            }
            DeclKind::Var(..) => {
                let text = format!(
                    "the variable `{}` is declared outside of parsers and controls",
                    name.name
                );
                let d = Diagnostic::error("bad-place", decl.span, text);
                self.d.add(d.help("make it a constant, or declare it where it is used"));
            }
            DeclKind::Instance(ty, args, body) => {
                if let Some(id) = self.instance(decl, ty, args, body.as_deref()) {
                    let made = self.p.instances[id.index()].construct.ty;
                    if matches!(self.p.ty(made), Ty::Apply(..)) {
                        let text = format!(
                            "`{}` is a parser or control made outside of a package",
                            name.name
                        );
                        let d = Diagnostic::error("bad-place", decl.span, text);
                        self.d.add(d.help("make it as an argument of the package"));
                    }
                    self.p.top.push(id);
                }
            }
            DeclKind::Error(names) => {
                for n in names {
                    if self.p.errors.contains(&n.name) {
                        let text = format!("the error `{}` is declared twice", n.name);
                        self.error("duplicate-name", n.span, text);
                    } else {
                        self.p.errors.push(n.name.clone());
                    }
                }
            }
            DeclKind::MatchKind(names) => {
                for n in names {
                    if self.p.match_kinds.contains(&n.name) {
                        let text = format!("the match kind `{}` is declared twice", n.name);
                        self.error("duplicate-name", n.span, text);
                    } else {
                        self.p.match_kinds.push(n.name.clone());
                    }
                }
            }
            DeclKind::Enum(repr, members) => self.enumeration(name, repr.as_ref(), members),
            DeclKind::Struct(kind, types, fields) => {
                self.structure(name, *kind, types, fields, annotations)
            }
            DeclKind::Typedef(ty) => {
                let ty = self.ty(ty);
                self.declare(name, Sym::Type(ty));
            }
            DeclKind::Newtype(t) => {
                let base = self.ty(t);
                let ok = matches!(
                    self.p.ty(base),
                    Ty::Bad | Ty::Bool | Ty::Bit(_) | Ty::Signed(_) | Ty::New(_)
                );
                if !ok {
                    let text = format!(
                        "a new type is made of bit, int or bool, not of {}",
                        self.show(base)
                    );
                    self.error("bad-type", t.span, text);
                }
                let id = NewtypeId(self.p.newtypes.len() as u32);
                let base = if ok { base } else { basic::BAD };
                self.p.newtypes.push(Newtype {
                    name: name.name.clone(),
                    span: name.span,
                    base,
                    annotations,
                });
                let ty = self.p.types.id(Ty::New(id));
                self.declare(name, Sym::Type(ty));
            }
            DeclKind::Extern(types, methods) => self.external(name, types, methods, annotations),
            DeclKind::ExternFunction(proto) => {
                let signature = self.scoped(|c| c.signature(proto, annotations));
                self.function(name, signature, None);
            }
            DeclKind::Function(proto, body) => {
                let (signature, body) = self.function_body(proto, body, annotations, None);
                self.function(name, signature, Some(body));
            }
            DeclKind::Action(params, body) => {
                self.action(name, params, body, annotations);
            }
            DeclKind::Parser(types, params, body) => {
                self.parser(name, types, params, body.as_ref(), annotations)
            }
            DeclKind::Control(types, params, body) => {
                self.control(name, types, params, body.as_ref(), annotations)
            }
            DeclKind::Package(types, params) => {
                let id = PackageId(self.p.packages.len() as u32);
                let (type_params, params) = self.scoped(|c| {
                    let types = c.type_params(types);
                    let mut params = c.params(params, Owner::Package);
                    let hidden = c.close(params.iter_mut().map(|p| &mut p.ty));
                    c.p.hidden.insert(id, hidden.len());
                    ([types, hidden].concat(), params)
                });
                let package =
                    Package { name: name.name.clone(), span: name.span, type_params, params };
                self.p.packages.push(package);
                self.declare(name, Sym::Package(id));
            }
            DeclKind::Table(_) | DeclKind::ValueSet(..) => {
                self.error(
                    "bad-place",
                    decl.span,
                    "this is declared inside of a parser or control",
                );
            }
        }
    }

    fn type_params(&mut self, names: &[Ident]) -> Vec<TypeVarId> {
        let mut ids = Vec::new();
        for name in names {
            let id = TypeVarId(self.p.type_vars.len() as u32);
            self.p.type_vars.push(name.name.clone());
            let ty = self.p.types.id(Ty::Var(id));
            self.declare(name, Sym::Type(ty));
            ids.push(id);
        }
        ids
    }

    /// A parameter's type. In packages, whose parameters are objects, `_` is a type that does not matter.
    fn param_type(&mut self, t: &ast::Type, owner: Owner) -> TyId {
        match owner {
            Owner::Package | Owner::Constructor => self.ty_or(t, true),
            _ => self.ty(t),
        }
    }

    /// Parameters, declared in the innermost scope.
    fn params(&mut self, params: &[ast::Param], owner: Owner) -> Vec<Param> {
        let mut out = Vec::new();
        let mut directionless: Option<Span> = None;
        for p in params {
            let ty = self.param_type(&p.ty, owner);
            let optional = annotated(&p.annotations, "optional");
            let direction = p.direction;
            let object = matches!(self.p.ty(ty), Ty::Extern(..) | Ty::Apply(..) | Ty::Package(..));
            if direction != Direction::None {
                let bad = match owner {
                    Owner::Constructor => {
                        Some("a constructor parameter has no direction".to_string())
                    }
                    Owner::Package => Some("a package's parameter has no direction".to_string()),
                    _ if object => Some(format!(
                        "{} is an object, so its parameter has no direction",
                        self.show(ty)
                    )),
                    _ if ty == basic::INT => Some(
                        "an `int` is known at compile time, so its parameter has no direction"
                            .into(),
                    ),
                    _ if ty == basic::STRING => Some(
                        "a string is known at compile time, so its parameter has no direction"
                            .into(),
                    ),
                    _ => None,
                };
                if let Some(text) = bad {
                    let d = Diagnostic::error("bad-direction", p.name.span, text);
                    self.d.add(d.help(format!("leave `{}` out", direction.word().trim())));
                }
            }
            let wrong_object = match self.p.ty(ty) {
                Ty::Package(..) => owner != Owner::Package,
                Ty::Apply(..) => matches!(owner, Owner::Function | Owner::Action),
                Ty::Extern(..) => owner == Owner::Action,
                Ty::Void => true,
                _ => false,
            };
            if wrong_object {
                let text = format!("a parameter cannot be {} here", self.show(ty));
                self.error("bad-type", p.ty.span, text);
            }
            if owner == Owner::Action {
                match (direction, directionless) {
                    (Direction::None, None) => directionless = Some(p.name.span),
                    (Direction::None, Some(_)) | (_, None) => {}
                    (_, Some(first)) => {
                        let text = format!(
                            "the parameter `{}` has a direction and follows one without",
                            p.name.name
                        );
                        let d = Diagnostic::error("bad-direction", p.name.span, text);
                        let d = d.note(first, "this one comes from the control plane");
                        self.d.add(d.help("move the parameters without direction to the end"));
                    }
                }
            }
            if optional && p.default.is_some() {
                self.error(
                    "bad-default",
                    p.name.span,
                    "an optional parameter has no default value",
                );
            }
            let default = p.default.as_ref().map(|e| {
                if matches!(direction, Direction::Out | Direction::InOut) {
                    let text = format!(
                        "the parameter `{}{}` cannot have a default value",
                        direction.word(),
                        p.name.name
                    );
                    self.error("bad-default", e.span, text);
                }
                let value = self.expr(e);
                let value = self.coerce(value, ty);
                if !self.known(&value) && !self.is_object(value.ty) {
                    self.error(
                        "not-constant",
                        e.span,
                        "a default value is known at compile time, and this is not",
                    );
                }
                value
            });
            let kind = match owner {
                Owner::Constructor | Owner::Package => VarKind::Constructor,
                _ => VarKind::Param(direction),
            };
            let var = self.new_var(&p.name, ty, kind);
            self.declare(&p.name, Sym::Var(var));
            out.push(Param {
                name: p.name.name.clone(),
                ty,
                direction,
                span: p.name.span,
                optional,
                default,
                var,
                annotations: p.annotations.as_slice().into(),
            });
        }
        out
    }

    fn action(
        &mut self,
        name: &Ident,
        params: &[ast::Param],
        body: &ast::Block,
        annotations: Rc<[ast::Annotation]>,
    ) -> ActionId {
        let context = Context { result: Some(basic::VOID), ..self.context(Place::Action) };
        let (params, body) = self.within(context, |c| {
            let params = c.params(params, Owner::Action);
            (params, c.block(&body.stmts))
        });
        let id = ActionId(self.p.actions.len() as u32);
        self.p.actions.push(Action {
            name: name.name.clone(),
            span: name.span,
            params,
            body,
            annotations,
        });
        self.declare(name, Sym::Action(id));
        id
    }

    /// A parser or control: its parameters, and those of its constructor with its inside, if it has one.
    fn applicable(
        &mut self,
        name: &Ident,
        blank: Applicable,
        types: &[Ident],
        params: &[ast::Param],
        own: &[ast::Param],
        inside: Option<&mut dyn FnMut(&mut Self) -> Body>,
    ) {
        let kind = inside.is_some().then_some(blank.is_parser);
        let context = Context { inside: kind, ..self.context(Place::Declarations) };
        let a = self.within(context, |c| {
            let type_params = c.type_params(types);
            let params = c.params(params, Owner::Apply);
            let mut ctor_params = Vec::new();
            let body = inside.map(|inside| {
                ctor_params = c.params(own, Owner::Constructor);
                c.scoped(inside)
            });
            Applicable { type_params, params, ctor_params, body, ..blank }
        });
        let id = ApplyId(self.p.applicables.len() as u32);
        self.p.applicables.push(a);
        self.declare(name, Sym::Apply(id));
    }

    fn parser(
        &mut self,
        name: &Ident,
        types: &[Ident],
        params: &[ast::Param],
        body: Option<&ast::ParserBody>,
        annotations: Rc<[ast::Annotation]>,
    ) {
        let blank = blank(name, true, annotations);
        match body {
            None => self.applicable(name, blank, types, params, &[], None),
            Some(b) => {
                let inside = &mut |c: &mut Self| c.parser_body(name, b);
                self.applicable(name, blank, types, params, &b.ctor_params, Some(inside));
            }
        }
    }

    fn parser_body(&mut self, name: &Ident, b: &ast::ParserBody) -> Body {
        let mut body = Body {
            locals: self.locals(&b.locals, &mut Vec::new(), &mut Vec::new()),
            ..Body::default()
        };
        self.unique("state", b.states.iter().map(|s| &s.name));
        for s in &b.states {
            if matches!(&*s.name.name, "accept" | "reject") {
                let text =
                    format!("the state `{}` is always there and is not declared", s.name.name);
                self.error("duplicate-name", s.name.span, text);
            }
        }
        let names: HashMap<Name, usize> =
            b.states.iter().enumerate().map(|(i, s)| (s.name.name.clone(), i)).collect();
        if !names.contains_key("start") {
            let text = format!("the parser `{}` has no state `start`", name.name);
            let d = Diagnostic::error("no-start", name.span, text);
            self.d.add(d.nearest("start", names.keys().map(|n| &**n)));
        }
        for s in &b.states {
            let context = self.context(Place::State);
            let state = self.within(context, |c| {
                let stmts = c.stmts(&s.stmts);
                let transition = match &s.transition {
                    None => {
                        let text = format!(
                            "the state `{}` has no transition, so it rejects the packet",
                            s.name.name
                        );
                        let d = Diagnostic::warning("no-transition", s.name.span, text);
                        c.d.add(d.help("write `transition accept;`, or `transition reject;`"));
                        Transition::To(Target::Reject)
                    }
                    Some(ast::Transition::To(to)) => Transition::To(c.target(to, &names)),
                    Some(ast::Transition::Select(keys, cases, span)) => {
                        c.select(keys, cases, *span, &names)
                    }
                };
                State { name: s.name.name.clone(), span: s.name.span, stmts, transition }
            });
            body.states.push(state);
        }
        body
    }

    fn target(&mut self, to: &Ident, names: &HashMap<Name, usize>) -> Target {
        match &*to.name {
            "accept" => Target::Accept,
            "reject" => Target::Reject,
            word => match names.get(word) {
                Some(i) => Target::State(*i),
                None => {
                    let text = format!("the parser has no state `{word}`");
                    let mut known: Vec<&str> = names.keys().map(|n| &**n).collect();
                    known.extend(["accept", "reject"]);
                    known.sort_unstable();
                    let d = Diagnostic::error("unknown-state", to.span, text);
                    self.d.add(d.nearest(word, known));
                    Target::Reject
                }
            },
        }
    }

    fn select(
        &mut self,
        keys: &[ast::Expr],
        cases: &[ast::SelectCase],
        span: Span,
        names: &HashMap<Name, usize>,
    ) -> Transition {
        let keys: Vec<Expr> = keys.iter().map(|k| self.expr(k)).collect();
        for k in &keys {
            let ty = self.settle(k.ty);
            if !self.selectable(ty) {
                let text = format!(
                    "a select is on numbers, bools, enums and errors, and this is {}",
                    self.show(ty)
                );
                self.error("bad-select", k.span, text);
            }
        }
        if keys.is_empty() {
            self.d.add(Diagnostic::warning("bad-select", span, "this select looks at nothing"));
        }
        let mut out = Vec::new();
        let mut rest: Option<Span> = None;
        for case in cases {
            let target = self.target(&case.state, names);
            if let Some(first) = rest.take() {
                let d = Diagnostic::warning("unreachable", case.span, "this case is never reached");
                self.d.add(d.note(first, "this one takes everything"));
            }
            let sets = match (&case.set.kind, keys.len()) {
                (A::Dontcare | A::Default, n) => {
                    rest = Some(case.span);
                    (0..n).map(|i| self.set(&case.set, keys[i].ty)).collect()
                }
                (A::SetTuple(sets), n) if sets.len() == n => {
                    sets.iter().zip(&keys).map(|(s, k)| self.set(s, k.ty)).collect()
                }
                (A::SetTuple(sets), n) if n != 1 => {
                    let text = format!("{} sets for {n} values", sets.len());
                    self.error("bad-select", case.set.span, text);
                    continue;
                }
                (_, 1) => vec![self.set(&case.set, keys[0].ty)],
                (_, n) => {
                    let types = keys.iter().map(|k| k.ty).collect();
                    let tuple = self.p.types.id(Ty::Tuple(types));
                    let e = self.set(&case.set, tuple);
                    if matches!(e.kind, ExprKind::Bad) {
                        continue;
                    }
                    match e.kind {
                        ExprKind::Aggregate(items) if items.len() == n => items,
                        _ => vec![e],
                    }
                }
            };
            for s in &sets {
                self.set_known(s);
            }
            out.push((sets, target));
        }
        Transition::Select(keys, out)
    }

    /// The parts of a set are known at compile time.
    pub(super) fn set_known(&mut self, set: &Expr) {
        let parts: Vec<&Expr> = match &set.kind {
            ExprKind::Any | ExprKind::ValueSet(_) | ExprKind::Bad => return,
            ExprKind::Mask(a, b) | ExprKind::Range(a, b) => vec![a, b],
            ExprKind::SetTuple(items) => {
                items.iter().for_each(|i| self.set_known(i));
                return;
            }
            _ => vec![set],
        };
        for p in parts {
            if !self.known(p) {
                self.error(
                    "not-constant",
                    p.span,
                    "this is known at compile time in a set, and here it is not",
                );
            }
        }
    }

    fn selectable(&mut self, ty: TyId) -> bool {
        match self.p.ty(ty).clone() {
            Ty::Bad
            | Ty::Bool
            | Ty::Bit(_)
            | Ty::Signed(_)
            | Ty::Int
            | Ty::Enum(_)
            | Ty::Error
            | Ty::New(_) => true,
            Ty::Tuple(items) => items.iter().all(|i| self.selectable(*i)),
            _ => false,
        }
    }

    /// The locals of a parser or control, in order.
    fn locals(
        &mut self,
        decls: &[ast::Decl],
        actions: &mut Vec<ActionId>,
        tables: &mut Vec<TableId>,
    ) -> Vec<Stmt> {
        let mut out = Vec::new();
        for decl in decls {
            let annotations = self.annotations(decl);
            match &decl.kind {
                DeclKind::Action(params, body) => {
                    if self.context.inside == Some(true) {
                        self.error("bad-place", decl.span, "an action does not belong in a parser");
                    }
                    actions.push(self.action(&decl.name, params, body, annotations));
                }
                DeclKind::Table(properties) => {
                    if self.context.inside == Some(true) {
                        self.error("bad-place", decl.span, "a table does not belong in a parser");
                        continue;
                    }
                    tables.push(self.table(&decl.name, properties, annotations));
                }
                DeclKind::ValueSet(ty, size) => {
                    let member = self.ty(ty);
                    if !matches!(
                        self.p.ty(member),
                        Ty::Bit(_)
                            | Ty::Signed(_)
                            | Ty::Bool
                            | Ty::Enum(_)
                            | Ty::Error
                            | Ty::New(_)
                            | Ty::Tuple(_)
                            | Ty::Bad
                    ) && self.struct_kind(member) != Some(StructKind::Struct)
                    {
                        let text = format!("a value set cannot be of {}", self.show(member));
                        self.error("bad-type", ty.span, text);
                    }
                    let size = self.expr(size);
                    if !self.known(&size)
                        || !self.is_number(size.ty) && *self.p.ty(size.ty) != Ty::Bad
                    {
                        self.error(
                            "not-constant",
                            size.span,
                            "a value set's size is a number known at compile time",
                        );
                    }
                    let id = ValueSetId(self.p.value_sets.len() as u32);
                    let name = &decl.name;
                    self.p.value_sets.push(ValueSet {
                        name: name.name.clone(),
                        span: name.span,
                        ty: member,
                        size,
                        annotations,
                    });
                    self.declare(name, Sym::ValueSet(id));
                }
                _ => {
                    if let Some(kind) = self.local(decl) {
                        out.push(Stmt { kind, span: decl.span });
                    }
                }
            }
        }
        out
    }

    fn control(
        &mut self,
        name: &Ident,
        types: &[Ident],
        params: &[ast::Param],
        body: Option<&ast::ControlBody>,
        annotations: Rc<[ast::Annotation]>,
    ) {
        let blank = blank(name, false, annotations);
        match body {
            None => self.applicable(name, blank, types, params, &[], None),
            Some(b) => {
                let inside = &mut |c: &mut Self| {
                    let mut body = Body::default();
                    body.locals = c.locals(&b.locals, &mut body.actions, &mut body.tables);
                    let context = Context { result: Some(basic::VOID), ..c.context(Place::Apply) };
                    body.apply = c.within(context, |c| c.stmts(&b.apply.stmts));
                    body
                };
                self.applicable(name, blank, types, params, &b.ctor_params, Some(inside));
            }
        }
    }

    /// An instance with a name, and the functions that it defines.
    pub(super) fn instance(
        &mut self,
        decl: &ast::Decl,
        ty: &ast::Type,
        args: &[ast::Arg],
        body: Option<&[ast::Decl]>,
    ) -> Option<InstanceId> {
        let made = match &ty.kind {
            ast::TypeKind::Named(path, targs) => {
                let sym = match self.find(path) {
                    Some(e) => e.sym.clone(),
                    None => {
                        self.unknown(path, |s| {
                            matches!(s, Sym::Extern(_) | Sym::Apply(_) | Sym::Package(_))
                        });
                        Sym::Bad
                    }
                };
                let targs = targs.iter().map(|t| self.ty_or(t, true)).collect();
                self.named(&sym, targs, ty.span, true)
            }
            _ => self.ty(ty),
        };
        let construct = match self.construct(made, args, ty.span) {
            Some(c) => c,
            None => {
                self.declare(&decl.name, Sym::Bad);
                return None;
            }
        };
        let functions = self.implementations(decl, construct.ty, body);
        let id = InstanceId(self.p.instances.len() as u32);
        self.p.instances.push(Instance {
            name: decl.name.name.clone(),
            span: decl.name.span,
            construct,
            functions,
            annotations: decl.annotations.as_slice().into(),
        });
        self.declare(&decl.name, Sym::Instance(id));
        Some(id)
    }

    fn implementations(
        &mut self,
        decl: &ast::Decl,
        ty: TyId,
        body: Option<&[ast::Decl]>,
    ) -> Vec<FunctionId> {
        let Ty::Extern(e, args) = self.p.ty(ty).clone() else {
            if body.is_some() && *self.p.ty(ty) != Ty::Bad {
                self.error(
                    "bad-implementation",
                    decl.name.span,
                    "only instances of externs define methods",
                );
            }
            return Vec::new();
        };
        let ext = self.p.externs[e.index()].clone();
        let mut done: Vec<(Name, usize)> = Vec::new();
        let mut functions = Vec::new();
        self.scopes.push(super::names::Scope::default());
        for d in body.unwrap_or_default() {
            let annotations: Rc<[ast::Annotation]> = d.annotations.as_slice().into();
            match &d.kind {
                DeclKind::Function(proto, block) => {
                    let (signature, stmts) =
                        self.function_body(proto, block, annotations, Some(ty));
                    let same = ext.methods.iter().filter(|m| {
                        m.name == signature.name && m.params.len() == signature.params.len()
                    });
                    match same.clone().find(|m| m.is_abstract) {
                        Some(m) => {
                            self.check_implementation(m, &signature, &ext.type_params, &args);
                            done.push((signature.name.clone(), signature.params.len()));
                        }
                        None => {
                            let text = format!(
                                "the extern `{}` has no abstract method `{}` with these parameters",
                                ext.name, signature.name
                            );
                            let d = Diagnostic::error("bad-implementation", signature.span, text);
                            let known: Vec<&str> = ext
                                .methods
                                .iter()
                                .filter(|m| m.is_abstract)
                                .map(|m| &*m.name)
                                .collect();
                            self.d.add(d.nearest(&signature.name, known));
                        }
                    }
                    functions.push(self.function(&d.name, signature, Some(stmts)));
                }
                DeclKind::Instance(t, a, b) => {
                    self.instance(d, t, a, b.as_deref());
                }
                _ => self.error(
                    "bad-implementation",
                    d.span,
                    "an instance's block holds functions and instances",
                ),
            }
        }
        self.scopes.pop();
        for m in ext.methods.iter().filter(|m| m.is_abstract) {
            if !done.iter().any(|(n, k)| *n == m.name && *k == m.params.len()) {
                let text = format!(
                    "`{}` does not define the abstract method `{}` of `{}`",
                    decl.name.name, m.name, ext.name
                );
                let d = Diagnostic::error("bad-implementation", decl.name.span, text);
                let d = d.note(m.span, "it is declared here");
                self.d.add(d.help(format!("define it: `{} = {{ ... }}`", decl.name.name)));
            }
        }
        functions
    }

    fn check_implementation(
        &mut self,
        m: &Signature,
        s: &Signature,
        vars: &[TypeVarId],
        args: &[TyId],
    ) {
        if m.type_params.len() != s.type_params.len() {
            self.error(
                "bad-implementation",
                s.span,
                "this has other type parameters than the abstract method",
            );
            return;
        }
        let own: Vec<TyId> = s.type_params.iter().map(|v| self.p.types.id(Ty::Var(*v))).collect();
        let same = |c: &mut Self, a: TyId, b: TyId| {
            let a = c.p.types.substitute(a, vars, args);
            let a = c.p.types.substitute(a, &m.type_params, &own);
            c.unify(a, b)
        };
        for (p, q) in m.params.iter().zip(&s.params) {
            if p.direction != q.direction || !same(self, p.ty, q.ty) {
                let text =
                    format!("the parameter `{}` differs from that of the abstract method", q.name);
                let d = Diagnostic::error("bad-implementation", q.span, text);
                self.d.add(d.note(p.span, "that one is declared here"));
            }
        }
        if let (Some(a), Some(b)) = (m.result, s.result)
            && !same(self, a, b)
        {
            let text =
                format!("this returns {}, and the abstract method {}", self.show(b), self.show(a));
            self.error("bad-implementation", s.span, text);
        }
    }

    /// Of what is written, the text; spaces as written.
    pub(super) fn text_of(e: &ast::Expr) -> String {
        match &e.kind {
            A::Path(p) => p.ident.name.to_string(),
            A::Member(a, n) => format!("{}.{}", Self::text_of(a), n.name),
            A::Index(a, i) => format!("{}[{}]", Self::text_of(a), Self::text_of(i)),
            A::Int(v, _) => v.to_string(),
            A::Slice(a, h, l) => {
                format!("{}[{}:{}]", Self::text_of(a), Self::text_of(h), Self::text_of(l))
            }
            A::Binary(op, a, b) => {
                format!("{} {} {}", Self::text_of(a), op.word(), Self::text_of(b))
            }
            A::Call(f, _, args) => {
                let args: Vec<String> = args
                    .iter()
                    .map(|a| a.value.as_ref().map_or("_".into(), Self::text_of))
                    .collect();
                format!("{}({})", Self::text_of(f), args.join(", "))
            }
            A::Cast(_, a) => Self::text_of(a),
            A::Bool(b) => b.to_string(),
            A::Unary(op, a) => {
                let sign = match op {
                    ast::UnaryOp::Plus => "+",
                    ast::UnaryOp::Neg => "-",
                    ast::UnaryOp::Not => "~",
                    ast::UnaryOp::LogicalNot => "!",
                };
                format!("{sign}{}", Self::text_of(a))
            }
            _ => "?".into(),
        }
    }

    pub(super) fn key_fits(&mut self, ty: TyId, span: Span) {
        let ty = self.zonk(ty);
        let ok = matches!(
            self.p.ty(ty),
            Ty::Bad
                | Ty::Bool
                | Ty::Bit(_)
                | Ty::Signed(_)
                | Ty::Enum(_)
                | Ty::Error
                | Ty::New(_)
                | Ty::Var(_)
        );
        if !ok {
            let text = format!(
                "a key is a number of a width, a bool, an enum or an error, and this is {}",
                self.show(ty)
            );
            self.error("bad-key", span, text);
        }
    }
}

/// A parser or control of which nothing but its name is known.
fn blank(name: &Ident, is_parser: bool, annotations: Rc<[ast::Annotation]>) -> Applicable {
    Applicable {
        name: name.name.clone(),
        span: name.span,
        is_parser,
        type_params: Vec::new(),
        params: Vec::new(),
        ctor_params: Vec::new(),
        body: None,
        annotations,
    }
}
