//! Statements (specification §12), and where each of them may stand.

use super::names::Sym;
use super::types::Use;
use super::{Checker, Place};
use crate::ast::{self, Label, StmtKind as A};
use crate::diag::Diagnostic;
use crate::hir::{Const, Expr, ExprKind, ForSet, Stmt, StmtKind, TableField, VarKind};
use crate::source::Span;
use crate::types::*;
use std::collections::HashMap;

impl Checker<'_> {
    /// Statements in a scope of their own.
    pub(super) fn block(&mut self, stmts: &[ast::Stmt]) -> Vec<Stmt> {
        self.scoped(|c| c.stmts(stmts))
    }

    pub(super) fn stmts(&mut self, stmts: &[ast::Stmt]) -> Vec<Stmt> {
        let mut out = Vec::new();
        for stmt in stmts {
            if let Some(kind) = self.stmt(stmt) {
                out.push(Stmt { kind, span: stmt.span });
            }
        }
        out
    }

    fn misplaced(&mut self, what: &str, span: Span) {
        let place = match self.context.place {
            Place::State => "a parser",
            Place::Action => "an action",
            Place::Function => "a function",
            Place::Apply => "an apply block",
            _ => "a declaration",
        };
        self.error("bad-place", span, format!("{what} does not belong in {place}"));
    }

    fn stmt(&mut self, stmt: &ast::Stmt) -> Option<StmtKind> {
        let span = stmt.span;
        Some(match &stmt.kind {
            A::Empty => return None,
            A::Block(b) => StmtKind::Block(self.block(&b.stmts)),
            A::Assign(op, left, right) => self.assign(*op, left, right, span),
            A::Call(e) => {
                let e = self.expr(e);
                if matches!(e.kind, ExprKind::Construct(_)) {
                    self.error("not-callable", e.span, "an object is made here and never used");
                }
                StmtKind::Call(e)
            }
            A::If(condition, then, or_else) => {
                let condition = self.condition(condition);
                let then = self.block(std::slice::from_ref(then));
                let or_else =
                    or_else.as_ref().map_or(Vec::new(), |e| self.block(std::slice::from_ref(e)));
                StmtKind::If(condition, then, or_else)
            }
            A::Exit => {
                if !matches!(self.context.place, Place::Apply | Place::Action) {
                    self.misplaced("`exit`", span);
                }
                StmtKind::Exit
            }
            A::Return(value) => self.return_stmt(value.as_ref(), span),
            A::Break | A::Continue => {
                let word = if matches!(stmt.kind, A::Break) { "break" } else { "continue" };
                if self.context.loops == 0 {
                    self.error("bad-place", span, format!("`{word}` outside of a loop"));
                }
                if word == "break" { StmtKind::Break } else { StmtKind::Continue }
            }
            A::Switch(value, cases) => self.switch(value, cases, span)?,
            A::For(init, condition, update, body) => {
                if self.context.place == Place::State {
                    self.misplaced("`for`", span);
                }
                self.scoped(|c| {
                    let init = c.stmts(init);
                    let condition = c.condition(condition);
                    let update = c.stmts(update);
                    c.context.loops += 1;
                    let body = c.block(std::slice::from_ref(body));
                    c.context.loops -= 1;
                    StmtKind::For(init, condition, update, body)
                })
            }
            A::ForIn(ty, name, set, body) => {
                if self.context.place == Place::State {
                    self.misplaced("`for`", span);
                }
                self.for_in(ty, name, set, body)
            }
            A::Decl(decl) => {
                self.annotations(decl);
                return self.local(decl);
            }
        })
    }

    fn assign(
        &mut self,
        op: Option<ast::BinaryOp>,
        left: &ast::Expr,
        right: &ast::Expr,
        span: Span,
    ) -> StmtKind {
        let l = self.expr(left);
        let r = self.expr(right);
        if let Some(why) = self.not_writable(&l) {
            let d = Diagnostic::error("not-writable", left.span, "this cannot be assigned to");
            self.d.add(d.note(Span::default(), why));
        } else if self.is_object(l.ty) && *self.p.ty(l.ty) != Ty::Bad {
            let text = format!("{} is an object, and objects are not assigned", self.show(l.ty));
            self.error("bad-type", left.span, text);
        }
        let r = match op {
            Some(op) => self.binary(op, l.clone(), r, span),
            None => r,
        };
        let to = l.ty;
        let r = self.coerce(r, to);
        StmtKind::Assign(l, r)
    }

    fn return_stmt(&mut self, value: Option<&ast::Expr>, span: Span) -> StmtKind {
        if self.context.place == Place::State {
            self.misplaced("`return`", span);
        }
        let value = match (self.context.result, value) {
            (Some(want), Some(e)) if want != basic::VOID => {
                let e = self.expr(e);
                Some(self.coerce(e, want))
            }
            (Some(want), None) if want != basic::VOID => {
                let text =
                    format!("this returns nothing, and the function returns {}", self.show(want));
                self.error("bad-return", span, text);
                None
            }
            (_, Some(e)) => {
                let e = self.expr(e);
                let d = Diagnostic::error(
                    "bad-return",
                    e.span,
                    "this returns a value, and nothing takes it",
                );
                self.d.add(d.help("write `return;`"));
                None
            }
            (_, None) => None,
        };
        StmtKind::Return(value)
    }

    fn switch(
        &mut self,
        value: &ast::Expr,
        cases: &[ast::SwitchCase],
        span: Span,
    ) -> Option<StmtKind> {
        if self.context.place == Place::State {
            self.misplaced("`switch`", span);
        }
        let value = self.expr(value);
        let ty = self.zonk(value.ty);
        if let Some((_, last)) = cases.iter().enumerate().next_back()
            && last.body.is_none()
        {
            let at = match &last.label {
                Label::Default(span) => *span,
                Label::Value(e) => e.span,
            };
            let d = Diagnostic::warning(
                "bad-switch",
                at,
                "the last case has no block to fall through to",
            );
            self.d.add(d.help("write `{}` if it does nothing"));
        }
        let table = match self.p.ty(ty).clone() {
            Ty::ActionRun(t) => Some(t),
            Ty::Bool
            | Ty::Bit(_)
            | Ty::Signed(_)
            | Ty::Enum(_)
            | Ty::Error
            | Ty::Int
            | Ty::New(_)
            | Ty::Bad => None,
            _ => {
                let text = format!(
                    "a switch is on numbers, enums, errors or an action, and this is {}",
                    self.p.show(ty)
                );
                self.error("bad-switch", value.span, text);
                return None;
            }
        };
        let mut default: Option<Vec<Stmt>> = None;
        let mut default_at: Option<Span> = None;
        let mut actions: Vec<(Vec<ActionId>, Vec<Stmt>)> = Vec::new();
        let mut values: Vec<(Vec<Expr>, Vec<Stmt>)> = Vec::new();
        let mut seen: HashMap<String, Span> = HashMap::new();
        // Labels that fall through to the next block.
        let (mut open_actions, mut open_values, mut open_default) = (Vec::new(), Vec::new(), false);
        for (i, case) in cases.iter().enumerate() {
            match &case.label {
                Label::Default(span) => {
                    if let Some(first) = default_at {
                        let d = Diagnostic::error("duplicate-label", *span, "a second `default`");
                        self.d.add(d.note(first, "the first one is here"));
                    }
                    if i + 1 != cases.len() {
                        let d = Diagnostic::error(
                            "bad-switch",
                            *span,
                            "`default` is not the last case",
                        );
                        self.d.add(d.help("move it to the end"));
                    }
                    default_at = Some(*span);
                    open_default = true;
                }
                Label::Value(e) => match table {
                    Some(t) => {
                        if let Some((id, name)) = self.switch_action(t, e) {
                            if let Some(first) = seen.insert(name.clone(), e.span) {
                                let d = Diagnostic::error(
                                    "duplicate-label",
                                    e.span,
                                    format!("the action `{name}` is there twice"),
                                );
                                self.d.add(d.note(first, "it is here, too"));
                            }
                            open_actions.push(id);
                        }
                    }
                    None => {
                        let label = self.expr(e);
                        let label = self.coerce(label, ty);
                        if label.value.is_none() && !self.known(&label) {
                            self.error(
                                "not-constant",
                                e.span,
                                "a label is known at compile time, and this is not",
                            );
                        }
                        if let Some(v) = &label.value
                            && let Some(first) = seen.insert(format!("{v:?}"), e.span)
                        {
                            let d = Diagnostic::error(
                                "duplicate-label",
                                e.span,
                                "this label is there twice",
                            );
                            self.d.add(d.note(first, "it is here, too"));
                        }
                        open_values.push(label);
                    }
                },
            }
            if let Some(body) = &case.body {
                let stmts = self.block(&body.stmts);
                let (labels, numbers) =
                    (std::mem::take(&mut open_actions), std::mem::take(&mut open_values));
                if open_default {
                    // Labels that share the default's block say nothing more than it.
                    default = Some(stmts);
                    open_default = false;
                } else if !labels.is_empty() {
                    actions.push((labels, stmts));
                } else if !numbers.is_empty() {
                    values.push((numbers, stmts));
                }
            }
        }
        Some(match (table, value.kind) {
            (Some(_), ExprKind::TableField(call, TableField::ActionRun)) => {
                StmtKind::SwitchAction(*call, actions, default)
            }
            (_, kind) => StmtKind::Switch(Expr { kind, ..value }, values, default),
        })
    }

    /// An action's name as a label: one that the table lists.
    fn switch_action(&mut self, table: TableId, e: &ast::Expr) -> Option<(ActionId, String)> {
        let ast::ExprKind::Path(path) = &e.kind else {
            self.error("bad-switch", e.span, "a label of this switch is the name of an action");
            return None;
        };
        let listed: Vec<ActionId> =
            self.p.tables[table.index()].actions.iter().map(|a| a.action).collect();
        match self.find(path).map(|f| f.sym.clone()) {
            Some(Sym::Action(id)) if listed.contains(&id) => {
                Some((id, path.ident.name.to_string()))
            }
            Some(Sym::Action(_)) => {
                let name = &self.p.tables[table.index()].name;
                let text =
                    format!("the table `{name}` does not list the action `{}`", path.ident.name);
                self.error("bad-switch", e.span, text);
                None
            }
            Some(other) => {
                let text = format!("`{}` is {}, not an action", path.ident.name, other.what());
                self.error("bad-switch", e.span, text);
                None
            }
            None => {
                self.unknown(path, |s| matches!(s, Sym::Action(_)));
                None
            }
        }
    }

    fn for_in(
        &mut self,
        ty: &ast::Type,
        name: &ast::Ident,
        set: &ast::ForSet,
        body: &ast::Stmt,
    ) -> StmtKind {
        let want = self.ty(ty);
        self.fits(want, Use::Variable, ty.span);
        let set = match set {
            ast::ForSet::Range(a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                if !matches!(self.p.ty(want), Ty::Bit(_) | Ty::Signed(_) | Ty::Bad) {
                    let text = format!(
                        "a range is of numbers with a width, and the variable is {}",
                        self.show(want)
                    );
                    self.error("type-mismatch", ty.span, text);
                }
                ForSet::Range(self.coerce(a, want), self.coerce(b, want))
            }
            ast::ForSet::Expr(e) => {
                let e = self.expr(e);
                let e_ty = self.settle(e.ty);
                match self.p.ty(e_ty).clone() {
                    Ty::Bad => {}
                    Ty::List(element) | Ty::Stack(element, _) => {
                        if !self.unify(element, want) && !(*self.p.ty(element) == Ty::Int) {
                            let text = format!(
                                "expected {}, found {}",
                                self.show(want),
                                self.show(element)
                            );
                            self.error("type-mismatch", e.span, text);
                        }
                    }
                    Ty::Tuple(items) => {
                        for item in items.iter() {
                            let probe =
                                Expr { kind: ExprKind::Bad, ty: *item, span: e.span, value: None };
                            if self.try_coerce(probe, want).is_err() {
                                let text = format!(
                                    "expected {}, found {}",
                                    self.show(want),
                                    self.show(*item)
                                );
                                self.error("type-mismatch", e.span, text);
                            }
                        }
                    }
                    _ => {
                        let text = format!(
                            "a `for` runs over a range, a list or a stack, and this is {}",
                            self.p.show(e_ty)
                        );
                        self.error("type-mismatch", e.span, text);
                    }
                }
                let target = match (&e.kind, self.p.ty(e.ty).clone()) {
                    (ExprKind::Aggregate(_), Ty::Literal(None, ..)) => {
                        Some(self.p.types.id(Ty::List(want)))
                    }
                    _ => None,
                };
                let e = match target {
                    Some(t) => self.coerce(e, t),
                    None => e,
                };
                ForSet::Expr(e)
            }
        };
        self.scoped(|c| {
            let var = c.new_var(name, want, VarKind::Loop);
            c.declare(name, Sym::Var(var));
            c.context.loops += 1;
            let body = c.block(std::slice::from_ref(body));
            c.context.loops -= 1;
            StmtKind::ForIn(var, set, body)
        })
    }

    /// A variable, constant or instance among statements or locals.
    pub(super) fn local(&mut self, decl: &ast::Decl) -> Option<StmtKind> {
        match &decl.kind {
            ast::DeclKind::Var(ty, value) => {
                let want = self.ty(ty);
                self.fits(want, Use::Variable, ty.span);
                let value = value.as_ref().map(|v| {
                    let e = self.expr(v);
                    self.coerce(e, want)
                });
                let var = self.new_var(&decl.name, want, VarKind::Local);
                self.declare(&decl.name, Sym::Var(var));
                Some(StmtKind::Var(var, value))
            }
            ast::DeclKind::Const(ty, value) => self.constant_decl(ty, value, &decl.name),
            ast::DeclKind::Instance(ty, args, body) => {
                match self.context.place {
                    Place::Declarations => {}
                    _ => {
                        let t = self.ty_or(ty, true);
                        let extern_ok = matches!(self.p.ty(t), Ty::Extern(..) | Ty::Bad);
                        let control_ok = self.context.place == Place::Apply
                            && matches!(self.p.ty(t), Ty::Apply(..));
                        if !extern_ok && !control_ok || self.context.place == Place::Function {
                            self.misplaced("an instance", decl.span);
                        }
                    }
                }
                self.instance(decl, ty, args, body.as_deref()).map(StmtKind::Instance)
            }
            _ => None,
        }
    }

    /// A constant; one that is known only when objects are made becomes a variable.
    pub(super) fn constant_decl(
        &mut self,
        ty: &ast::Type,
        value: &ast::Expr,
        name: &ast::Ident,
    ) -> Option<StmtKind> {
        let want = self.ty(ty);
        if self.is_object(want) && *self.p.ty(want) != Ty::Bad || want == basic::VOID {
            let text = format!("a constant cannot be {}", self.show(want));
            self.error("bad-type", ty.span, text);
        }
        let e = self.expr(value);
        let e = self.coerce(e, want);
        let ty = self.zonk(want);
        match e.value {
            Some(v) => {
                self.declare(name, Sym::Const(v, ty));
                None
            }
            None if matches!(e.kind, ExprKind::Bad) => {
                self.declare(name, Sym::Bad);
                None
            }
            None => {
                if !self.known(&e) {
                    self.error(
                        "not-constant",
                        value.span,
                        "a constant is known at compile time, and this is not",
                    );
                }
                let var = self.new_var(name, ty, VarKind::Const);
                self.declare(name, Sym::Var(var));
                Some(StmtKind::Var(var, Some(e)))
            }
        }
    }

    /// Every way through ends in `return` (or `exit`).
    pub(super) fn returns(stmts: &[Stmt]) -> bool {
        stmts.iter().any(|s| match &s.kind {
            StmtKind::Return(_) | StmtKind::Exit => true,
            StmtKind::Block(b) => Self::returns(b),
            StmtKind::If(c, a, b) => match c.value {
                Some(Const::Bool(true)) => Self::returns(a),
                Some(Const::Bool(false)) => Self::returns(b),
                _ => Self::returns(a) && Self::returns(b),
            },
            StmtKind::Switch(_, cases, default) => {
                cases.iter().all(|(_, b)| Self::returns(b))
                    && default.as_ref().is_some_and(|b| Self::returns(b))
            }
            StmtKind::SwitchAction(_, cases, default) => {
                cases.iter().all(|(_, b)| Self::returns(b))
                    && default.as_ref().is_some_and(|b| Self::returns(b))
            }
            _ => false,
        })
    }
}
