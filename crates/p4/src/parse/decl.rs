//! Declarations.

use super::{Failed, Parser, Result, Shape};
use crate::ast::*;
use crate::diag::{Diagnostic, nearest};
use crate::lex::Tok;
use crate::source::Span;

const BEGINNINGS: &[&str] = &[
    "const",
    "error",
    "match_kind",
    "enum",
    "struct",
    "header",
    "header_union",
    "typedef",
    "type",
    "extern",
    "action",
    "parser",
    "control",
    "package",
    "table",
];

impl Parser<'_> {
    fn decl(&self, annotations: Vec<Annotation>, kind: DeclKind, name: Ident, start: Span) -> Decl {
        Decl { annotations, kind, name, span: start.to(self.before()) }
    }

    /// A declaration at the top; none for a lone `;`.
    pub(super) fn declaration(&mut self) -> Result<Option<Decl>> {
        if self.eat(";") {
            return Ok(None);
        }
        let start = self.span();
        let annotations = self.annotations()?;
        let none = |span| Ident { name: "".into(), span };
        let decl = match self.peek() {
            Tok::Kw("const") => self.constant(annotations)?,
            Tok::Kw(word @ ("error" | "match_kind")) if self.is_at(1, "{") => {
                let span = self.bump();
                self.bump();
                let names = self.list("}", |p| {
                    p.annotations()?;
                    p.name()
                })?;
                let kind = if *word == "error" {
                    DeclKind::Error(names)
                } else {
                    DeclKind::MatchKind(names)
                };
                self.decl(annotations, kind, none(span), start)
            }
            Tok::Kw("enum") => self.enumeration(annotations)?,
            Tok::Kw("struct") => self.structure(annotations, StructKind::Struct)?,
            Tok::Kw("header") => self.structure(annotations, StructKind::Header)?,
            Tok::Kw("header_union") => self.structure(annotations, StructKind::Union)?,
            Tok::Kw("typedef") => self.typedef(annotations)?,
            Tok::Ident(w) if &**w == "type" && !self.is_at(1, "(") => self.typedef(annotations)?,
            Tok::Kw("extern") => self.external(annotations)?,
            Tok::Kw("action") => self.action(annotations)?,
            Tok::Kw("parser") => self.parser(annotations)?,
            Tok::Kw("control") => self.control(annotations)?,
            Tok::Kw("package") => {
                self.bump();
                let name = self.type_name()?;
                let types = self.type_params()?;
                let params = self.params()?;
                self.expect(";")?;
                self.decl(annotations, DeclKind::Package(types, params), name, start)
            }
            Tok::Kw("table") => {
                let span = self.span();
                let d =
                    Diagnostic::error("syntax", span, "a table is declared inside of a control");
                self.tell(d);
                return Err(Failed);
            }
            _ if self.is_instance() => self.instance(annotations)?,
            _ if self.is_base_type() || self.is_typed_name() => {
                self.function_or_variable(annotations)?
            }
            other => {
                if let Some(word) = other.word() {
                    let d = Diagnostic::error(
                        "syntax",
                        self.span(),
                        format!("expected a declaration, found `{word}`"),
                    );
                    let d = d.nearest(word, BEGINNINGS.iter().copied());
                    self.tell(d);
                    return Err(Failed);
                }
                return self.expected("a declaration");
            }
        };
        Ok(Some(decl))
    }

    /// The name of a new type.
    fn type_name(&mut self) -> Result<Ident> {
        let name = self.name()?;
        self.types.insert(name.name.clone());
        Ok(name)
    }

    pub(super) fn constant(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let start = self.bump();
        let ty = self.ty()?;
        let name = self.name()?;
        if self.is(";") {
            let span = name.span;
            let text = format!("the constant `{}` has no value", name.name);
            self.tell(Diagnostic::error("syntax", span, text).help("give it one with `=`"));
            return Err(Failed);
        }
        self.expect("=")?;
        let value = self.expr()?;
        self.expect(";")?;
        Ok(self.decl(annotations, DeclKind::Const(ty, value), name, start))
    }

    /// `T x` or `T x = e`, without `;`.
    pub(super) fn variable_head(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let start = self.span();
        let ty = self.ty()?;
        let name = self.name()?;
        let value = if self.eat("=") { Some(self.expr()?) } else { None };
        Ok(self.decl(annotations, DeclKind::Var(ty, value), name, start))
    }

    pub(super) fn variable(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let decl = self.variable_head(annotations)?;
        self.expect(";")?;
        Ok(decl)
    }

    pub(super) fn instance(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let start = self.span();
        let ty = self.ty()?;
        let args = self.args()?;
        let name = self.name()?;
        let body = if self.eat("=") {
            self.expect("{")?;
            let (decls, _) = self.items(|p| {
                let annotations = p.annotations()?;
                if p.is_instance() {
                    p.instance(annotations)
                } else {
                    p.function_or_variable(annotations)
                }
            })?;
            Some(decls)
        } else {
            None
        };
        self.expect(";")?;
        Ok(self.decl(annotations, DeclKind::Instance(ty, args, body), name, start))
    }

    fn function_or_variable(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let start = self.span();
        let at = self.at;
        let result = self.ty()?;
        if let TypeKind::Named(path, args) = &result.kind
            && args.is_empty()
            && !self.types.contains(&path.ident.name)
            && let Some(near) = nearest(&path.ident.name, BEGINNINGS.iter().copied())
        {
            let text = format!("expected a declaration, found `{}`", path.ident.name);
            let d = Diagnostic::error("syntax", path.ident.span, text);
            self.tell(d.help(format!("the nearest known name is `{near}`")));
            return Err(Failed);
        }
        let name = self.name()?;
        if !self.is("(") && !self.is("<") {
            self.at = at;
            return self.variable(annotations);
        }
        let type_params = self.type_params()?;
        let params = self.params()?;
        let body = self.block(Vec::new())?;
        let proto = Prototype {
            annotations: Vec::new(),
            result: Some(result),
            name: name.clone(),
            type_params,
            params,
            is_abstract: false,
        };
        Ok(self.decl(annotations, DeclKind::Function(proto, body), name, start))
    }

    fn enumeration(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let start = self.bump();
        let at = self.at;
        // `enum E {` or `enum bit<8> E {` or `enum T E {`.
        let repr = if matches!(self.peek(), Tok::Ident(_)) && self.is_at(1, "{") {
            None
        } else {
            Some(self.ty()?)
        };
        if repr.is_some() && self.at == at {
            return Err(Failed);
        }
        let name = self.type_name()?;
        self.expect("{")?;
        let members = self.list("}", |p| {
            p.annotations()?;
            let name = p.name()?;
            let value = if p.eat("=") { Some(p.expr()?) } else { None };
            Ok((name, value))
        })?;
        Ok(self.decl(annotations, DeclKind::Enum(repr, members), name, start))
    }

    fn structure(&mut self, annotations: Vec<Annotation>, kind: StructKind) -> Result<Decl> {
        let start = self.bump();
        let name = self.type_name()?;
        let types = self.type_params()?;
        self.expect("{")?;
        let (fields, _) = self.items(|p| {
            let annotations = p.annotations()?;
            let ty = p.ty()?;
            let name = p.name()?;
            p.expect(";")?;
            Ok(Field { annotations, ty, name })
        })?;
        Ok(self.decl(annotations, DeclKind::Struct(kind, types, fields), name, start))
    }

    fn typedef(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let new = !self.is_word("typedef");
        let start = self.bump();
        let ty = self.ty()?;
        let name = self.type_name()?;
        self.expect(";")?;
        let kind = if new { DeclKind::Newtype(ty) } else { DeclKind::Typedef(ty) };
        Ok(self.decl(annotations, kind, name, start))
    }

    fn external(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let start = self.bump();
        let object = matches!(self.peek(), Tok::Ident(_))
            && self
                .attempt(Shape::Object, |p| {
                    let at = p.at;
                    p.name()?;
                    p.type_params()?;
                    let yes = p.is("{") || p.is(";");
                    p.at = at;
                    if yes { Ok(()) } else { Err(Failed) }
                })
                .is_some();
        if !object {
            let proto = self.prototype(Vec::new())?;
            self.expect(";")?;
            let name = proto.name.clone();
            return Ok(self.decl(annotations, DeclKind::ExternFunction(proto), name, start));
        }
        let name = self.type_name()?;
        let types = self.type_params()?;
        if self.eat(";") {
            return Ok(self.decl(annotations, DeclKind::Extern(types, Vec::new()), name, start));
        }
        self.expect("{")?;
        let (methods, _) = self.items(|p| {
            let annotations = p.annotations()?;
            let constructor = matches!(p.peek(), Tok::Ident(_)) && p.is_at(1, "(");
            let proto = if constructor {
                let method = p.name()?;
                if method.name != name.name {
                    let text = format!("a constructor of `{0}` is called `{0}`", name.name);
                    let d = Diagnostic::error("syntax", method.span, text);
                    p.tell(d.help("if it is a method, write its result in front: `void`"));
                }
                let params = p.params()?;
                Prototype {
                    annotations,
                    result: None,
                    name: method,
                    type_params: Vec::new(),
                    params,
                    is_abstract: false,
                }
            } else {
                p.prototype(annotations)?
            };
            p.expect(";")?;
            Ok(proto)
        })?;
        Ok(self.decl(annotations, DeclKind::Extern(types, methods), name, start))
    }

    fn prototype(&mut self, annotations: Vec<Annotation>) -> Result<Prototype> {
        let is_abstract = self.eat_word("abstract");
        // The result may be a type parameter that is declared after it.
        let result = Some(self.ty()?);
        let name = self.name()?;
        let type_params = self.type_params()?;
        let params = self.params()?;
        Ok(Prototype { annotations, result, name, type_params, params, is_abstract })
    }

    fn action(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let start = self.bump();
        let name = self.name()?;
        let params = self.params()?;
        let body = self.block(Vec::new())?;
        Ok(self.decl(annotations, DeclKind::Action(params, body), name, start))
    }

    fn parser(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let start = self.bump();
        let name = self.type_name()?;
        let types = self.type_params()?;
        let params = self.params()?;
        if self.eat(";") {
            return Ok(self.decl(annotations, DeclKind::Parser(types, params, None), name, start));
        }
        let ctor_params = if self.is("(") { self.params()? } else { Vec::new() };
        self.expect("{")?;
        let (mut locals, mut states) = (Vec::new(), Vec::new());
        self.items(|p| {
            let start = p.span();
            let annotations = p.annotations()?;
            if p.is_word("state")
                && matches!(p.peek_at(1), Tok::Ident(_) | Tok::Kw(_))
                && p.is_at(2, "{")
            {
                states.push(p.state(annotations, start)?);
            } else {
                locals.push(p.local(annotations)?);
            }
            Ok(())
        })?;
        let body = ParserBody { ctor_params, locals, states };
        Ok(self.decl(annotations, DeclKind::Parser(types, params, Some(body)), name, start))
    }

    fn state(&mut self, annotations: Vec<Annotation>, start: Span) -> Result<State> {
        self.bump();
        let name = self.name()?;
        self.expect("{")?;
        let mut stmts = Vec::new();
        let mut transition = None;
        while !self.is("}") {
            if self.at_end() {
                return self.expected("`}`");
            }
            let from = self.at;
            if self.is_word("transition") {
                match self.transition() {
                    Ok(t) => transition = Some(t),
                    Err(Failed) => {
                        self.next_statement(from);
                        // Told already; a state that goes nowhere is not told as well.
                        transition =
                            Some(Transition::To(Ident { name: "reject".into(), span: start }));
                    }
                }
                if !self.is("}") && !self.at_end() {
                    let span = self.span();
                    let text = "nothing follows a state's transition";
                    self.tell(Diagnostic::error("syntax", span, text));
                    while !self.is("}") && !self.at_end() {
                        let from = self.at;
                        self.next_statement(from);
                    }
                }
                break;
            }
            match self.stmt() {
                Ok(s) => stmts.push(s),
                Err(Failed) => self.next_statement(from),
            }
        }
        self.expect("}")?;
        Ok(State { annotations, name, stmts, transition, span: start.to(self.before()) })
    }

    fn transition(&mut self) -> Result<Transition> {
        self.bump();
        if self.is_word("select") {
            let start = self.bump();
            self.expect("(")?;
            let keys = self.list(")", Self::expr)?;
            self.expect("{")?;
            let (cases, end) = self.items(|p| {
                let start = p.span();
                let set = p.set()?;
                p.expect(":")?;
                let state = p.name()?;
                p.expect(";")?;
                Ok(SelectCase { set, state, span: start.to(p.before()) })
            })?;
            self.eat(";");
            return Ok(Transition::Select(keys, cases, start.to(end)));
        }
        let name = self.name()?;
        self.expect(";")?;
        Ok(Transition::To(name))
    }

    /// A declaration inside of a parser or control.
    fn local(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let start = self.span();
        match self.peek() {
            Tok::Kw("const") => self.constant(annotations),
            Tok::Kw("action") => self.action(annotations),
            Tok::Kw("table") => self.table(annotations),
            Tok::Kw("value_set") => {
                self.bump();
                self.expect("<")?;
                let ty = self.ty()?;
                self.expect(">")?;
                self.expect("(")?;
                let size = self.expr()?;
                self.expect(")")?;
                let name = self.name()?;
                self.expect(";")?;
                Ok(self.decl(annotations, DeclKind::ValueSet(ty, size), name, start))
            }
            _ if self.is_instance() => self.instance(annotations),
            _ if self.is_base_type() || self.is_typed_name() => self.variable(annotations),
            _ => self.expected("a declaration"),
        }
    }

    fn control(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let start = self.bump();
        let name = self.type_name()?;
        let types = self.type_params()?;
        let params = self.params()?;
        if self.eat(";") {
            return Ok(self.decl(annotations, DeclKind::Control(types, params, None), name, start));
        }
        let ctor_params = if self.is("(") { self.params()? } else { Vec::new() };
        self.expect("{")?;
        let mut locals = Vec::new();
        let mut apply = None;
        while !self.is("}") {
            if self.at_end() {
                return self.expected("`}`");
            }
            let from = self.at;
            let block_annotations = self.annotations();
            if self.is_word("apply") && (self.is_at(1, "{") || self.is_at(1, "@")) {
                self.bump();
                let own = self.annotations().unwrap_or_default();
                match self.block(block_annotations.unwrap_or(own)) {
                    Ok(b) => apply = Some(b),
                    Err(Failed) => {
                        self.next_statement(from);
                        continue;
                    }
                }
                if !self.is("}") {
                    let span = self.span();
                    let text = "nothing follows a control's apply block";
                    self.tell(Diagnostic::error("syntax", span, text));
                }
                continue;
            }
            match block_annotations.and_then(|a| self.local(a)) {
                Ok(d) => locals.push(d),
                Err(Failed) => self.next_statement(from),
            }
        }
        let end = self.bump();
        let apply = match apply {
            Some(apply) => apply,
            None => {
                let text = format!("the control `{}` has no apply block", name.name);
                self.tell(
                    Diagnostic::error("syntax", name.span, text).help("add `apply { }` at its end"),
                );
                Block { annotations: Vec::new(), stmts: Vec::new(), span: end }
            }
        };
        let body = ControlBody { ctor_params, locals, apply };
        Ok(self.decl(annotations, DeclKind::Control(types, params, Some(body)), name, start))
    }

    fn table(&mut self, annotations: Vec<Annotation>) -> Result<Decl> {
        let start = self.bump();
        let name = self.name()?;
        self.expect("{")?;
        let (properties, _) = self.items(Self::property)?;
        Ok(self.decl(annotations, DeclKind::Table(properties), name, start))
    }

    fn property(&mut self) -> Result<Property> {
        let annotations = self.annotations()?;
        let is_const = self.eat_word("const");
        let name = self.name()?;
        self.expect("=")?;
        let braces = self.is("{");
        let value = match &*name.name {
            "key" if braces => {
                self.bump();
                let (keys, _) = self.items(|p| {
                    let expr = p.expr()?;
                    p.expect(":")?;
                    let kind = p.name()?;
                    let annotations = p.annotations()?;
                    p.expect(";")?;
                    Ok(Key { expr, kind, annotations })
                })?;
                self.eat(";");
                PropertyValue::Key(keys)
            }
            "actions" if braces => {
                self.bump();
                let (actions, _) = self.items(|p| {
                    let annotations = p.annotations()?;
                    let action = p.action_ref(annotations)?;
                    p.expect(";")?;
                    Ok(action)
                })?;
                self.eat(";");
                PropertyValue::Actions(actions)
            }
            "entries" if braces => {
                self.bump();
                let (entries, _) = self.items(Self::entry)?;
                self.eat(";");
                PropertyValue::Entries(entries)
            }
            "key" | "actions" | "entries" => return self.expected("`{`"),
            _ => {
                let e = self.expr()?;
                self.expect(";")?;
                PropertyValue::Expr(e)
            }
        };
        Ok(Property { annotations, is_const, name, value })
    }

    fn action_ref(&mut self, annotations: Vec<Annotation>) -> Result<ActionRef> {
        let start = self.span();
        let path = self.path()?;
        let args = if self.is("(") { Some(self.args()?) } else { None };
        Ok(ActionRef { annotations, path, args, span: start.to(self.before()) })
    }

    fn entry(&mut self) -> Result<Entry> {
        let start = self.span();
        let is_const = self.eat_word("const");
        let priority = if self.is_word("priority") && self.is_at(1, "=") {
            self.bump();
            self.bump();
            let e = self.expr()?;
            self.expect(":")?;
            Some(e)
        } else {
            None
        };
        let set = self.set()?;
        let keys = match set.kind {
            ExprKind::SetTuple(sets) => sets,
            _ => vec![set],
        };
        self.expect(":")?;
        let action = self.action_ref(Vec::new())?;
        let annotations = self.annotations()?;
        self.expect(";")?;
        let span = start.to(self.before());
        Ok(Entry { is_const, priority, keys, action, annotations, span })
    }
}
