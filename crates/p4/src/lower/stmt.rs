//! Statements and calls; tables, parsers and loops are files below.

mod loops;
mod parsers;
mod tables;

use super::fold::{binary, mux};
use super::operand::V;
use super::step::Step;
use super::{Frame, Lower, ObjectKind, Part, Refused, Result, expr::calls, join};
use crate::ast::Direction;
use crate::hir::{self, Builtin, Call, Callee, Const, ExprKind, Stmt, StmtKind};
use crate::source::Span;
use crate::types::*;
use ir::{BinaryOp, Bits, Expr, FieldRef, Op};
use num_traits::ToPrimitive;
use std::collections::HashSet;

/// Times that a loop is unrolled, at most.
const UNROLL_MAX: usize = 1024;
/// Calls written out in place, at most.
const INLINE_MAX: u32 = 100_000;

/// What parameters are inside of a body.
type Bound = Vec<(VarId, V)>;
/// What is copied back when a body is done: to where, and from where.
type Back = Vec<(V, V)>;

impl Lower<'_> {
    pub(super) fn stmts(&mut self, stmts: &[Stmt]) -> Result<()> {
        stmts.iter().try_for_each(|s| self.stmt(s))
    }

    fn block(&mut self, stmts: &[Stmt]) -> Result<Vec<Step>> {
        self.steps(|l| l.stmts(stmts))
    }

    fn stmt(&mut self, s: &Stmt) -> Result<()> {
        self.nested(s.span, |l| l.stmt_inside(s))
    }

    fn stmt_inside(&mut self, s: &Stmt) -> Result<()> {
        let span = s.span;
        match &s.kind {
            StmtKind::Assign(l, r) => {
                if let ExprKind::PlusSlice(a, lo, w) = &l.kind {
                    return self.assign_plus_slice(a, lo, *w, r, span);
                }
                // The loop's own variable, known while it is unrolled.
                if let ExprKind::Var(v) = &l.kind
                    && self.v1.loop_vars.contains(v)
                {
                    let value = self.expr(r)?;
                    let known = matches!(&value, V::E(Expr::Const(_), _) | V::C(_));
                    if !known {
                        return self.refuse(
                            span,
                            "the variable of a loop gets a value that is not known at compile time",
                        );
                    }
                    self.frame.vars.insert(*v, value);
                    return Ok(());
                }
                // The left side comes first (§12.1): a call on the right changes no index of it.
                let place = self.expr(l)?;
                let place = if calls(r) { self.freeze(place) } else { place };
                let old = if calls(l) {
                    self.compound.replace((l.span, place.clone()))
                } else {
                    self.compound.take()
                };
                let value = self.expr(r);
                self.compound = old;
                self.assign(&place, &value?, span)
            }
            StmtKind::Call(e) => {
                self.expr(e)?;
                Ok(())
            }
            StmtKind::If(c, a, b) => {
                if let ExprKind::TableField(call, field) = &c.kind
                    && *field != hir::TableField::ActionRun
                {
                    let (a, b) = (self.block(a)?, self.block(b)?);
                    let (hit, miss) = if *field == hir::TableField::Hit { (a, b) } else { (b, a) };
                    return self.apply_table(call, hit, miss, Vec::new(), span);
                }
                let c = self.condition(c)?;
                if let Expr::Const(known) = &c {
                    return self.stmts(if known.is_zero() { b } else { a });
                }
                let (a, b) = (self.block(a)?, self.block(b)?);
                self.out.push(Step::If(c, a, b));
                Ok(())
            }
            StmtKind::Block(b) => self.stmts(b),
            StmtKind::Exit => {
                if self.in_action {
                    let to = if self.part == Part::Ingress {
                        super::v1model::EXIT_INGRESS
                    } else {
                        super::v1model::EXIT_EGRESS
                    };
                    self.op(Op::Goto(to));
                }
                if let Some(flag) = self.exit_flag {
                    self.op(Op::Assign(flag, Expr::bool(true)));
                }
                match self.on_exit {
                    Some(label) => self.out.push(Step::Break(label)),
                    None => return self.refuse(span, "`exit` is not supported here"),
                }
                Ok(())
            }
            StmtKind::Return(value) => {
                let Some((label, place)) = self.on_return.clone() else {
                    return self.refuse(span, "`return` is not supported here");
                };
                if let (Some(e), Some(place)) = (value, &place) {
                    let v = self.expr(e)?;
                    self.assign(place, &v, span)?;
                }
                self.out.push(Step::Break(label));
                Ok(())
            }
            StmtKind::Break | StmtKind::Continue => {
                let Some((on_break, on_continue)) = self.loops.last().copied() else {
                    return Err(Refused);
                };
                let label = if matches!(s.kind, StmtKind::Break) { on_break } else { on_continue };
                self.out.push(Step::Break(label));
                Ok(())
            }
            StmtKind::Var(v, value) => {
                if self.p.vars[v.index()].kind == hir::VarKind::Const
                    && self.frame.vars.contains_key(v)
                {
                    return Ok(());
                }
                let var = self.p.vars[v.index()].clone();
                let initial = match value {
                    Some(e) => Some(self.expr(e)?),
                    None => None,
                };
                let name = join(&self.frame.path, &var.name);
                let place = match self.v1.local_places.get(&(self.frame.path.clone(), *v)) {
                    Some(p) => p.clone(),
                    None => self.alloc(var.ty, &name, var.span)?,
                };
                self.v1.local_places.insert((self.frame.path.clone(), *v), place.clone());
                match initial {
                    Some(i) => self.assign(&place, &i, span)?,
                    None => self.invalidate(&place),
                }
                self.frame.vars.insert(*v, place);
                Ok(())
            }
            StmtKind::Instance(_) => Ok(()),
            StmtKind::SwitchAction(call, cases, default) => {
                let mut by_action = Vec::new();
                for (actions, body) in cases {
                    by_action.push((actions.clone(), self.block(body)?));
                }
                let rest = match default {
                    Some(body) => self.block(body)?,
                    None => Vec::new(),
                };
                self.spend(super::tree::weight(&rest), span)?;
                self.apply_table(call, rest.clone(), rest, by_action, span)
            }
            StmtKind::Switch(e, cases, default) => {
                let value = self.expr(e)?;
                let (value, w) = self.read(&value, span)?;
                let value = self.keep(value, w);
                let mut rest = match default {
                    Some(body) => self.block(body)?,
                    None => Vec::new(),
                };
                for (labels, body) in cases.iter().rev() {
                    let body = self.block(body)?;
                    let mut any = Expr::bool(false);
                    for l in labels {
                        let v = self.expr(l)?;
                        let v = match v {
                            V::C(Const::Int(n)) => V::E(Expr::Const(super::fold::bits(&n, w)), w),
                            v => v,
                        };
                        let (x, _) = self.read(&v, l.span)?;
                        any = binary(
                            BinaryOp::LogicalOr,
                            any,
                            binary(BinaryOp::Eq, value.clone(), x),
                        );
                    }
                    rest = vec![Step::If(any, body, rest)];
                }
                self.out.extend(rest);
                Ok(())
            }
            StmtKind::For(init, condition, update, body) => {
                self.for_loop(init, condition, update, body, span)
            }
            StmtKind::ForIn(v, set, body) => self.for_in(*v, set, body, span),
        }
    }

    fn assign_plus_slice(
        &mut self,
        a: &hir::Expr,
        lo: &hir::Expr,
        w: u32,
        r: &hir::Expr,
        span: Span,
    ) -> Result<()> {
        // From left to right: the place, where in it, the value.
        let place = self.expr(a)?;
        let place = if calls(lo) || calls(r) { self.freeze(place) } else { place };
        let (at, at_width) = self.scalar(lo)?;
        let lo = if calls(r) { self.keep(at, at_width) } else { at };
        let (value, _) = self.scalar(r)?;
        let (old, width) = self.read(&place, span)?;
        let mask = Bits::ones(w).cast(width);
        let hole = Expr::Unary(
            ir::UnaryOp::Not,
            Box::new(binary(BinaryOp::Shl, Expr::Const(mask), lo.clone())),
        );
        let moved = binary(BinaryOp::Shl, super::fold::cast(value, w, width, false), lo);
        let new = binary(BinaryOp::Or, binary(BinaryOp::And, old, hole), moved);
        self.write(&place, new, span)
    }

    // Loops are written out round by round if they end by what is known at compile time; the others are
    // loops of the pipeline language.

    // Calls.

    pub(super) fn call(&mut self, c: &Call, ty: TyId, span: Span) -> Result<V> {
        self.inside_call(span, |l| l.call_inside(c, ty, span))
    }

    fn call_inside(&mut self, c: &Call, ty: TyId, span: Span) -> Result<V> {
        self.inlined += 1;
        if self.inlined > INLINE_MAX {
            let text =
                format!("the program has more than {INLINE_MAX} calls, each written out in place");
            self.d.add(crate::diag::Diagnostic::error("too-large", span, text));
            return Err(Refused);
        }
        match &c.callee {
            Callee::Function(f) => {
                let function = self.p.functions[f.index()].clone();
                let Some(body) = &function.body else {
                    return self.extern_function(&function.signature, c, span);
                };
                let args: Vec<TyId> = c.type_args.iter().map(|t| self.ty(*t)).collect();
                let types = function.signature.type_params.iter().copied().zip(args).collect();
                let result = function.signature.result.unwrap_or(basic::VOID);
                let frame = Frame { types, path: self.frame.path.clone(), ..Frame::default() };
                self.inline(&function.signature.params, c, body, frame, result, false)
            }
            Callee::Action(a) => {
                let action = self.p.actions[a.index()].clone();
                let outer = std::mem::replace(&mut self.v1.in_called, true);
                if !outer && !self.in_action {
                    let name = self.action_name(*a).1;
                    if !self.names.called.iter().any(|c| c.0 == name) {
                        self.names.called.push((name, *a));
                    }
                }
                let frame = self.frame.clone();
                let done = self.inline(&action.params, c, &action.body, frame, basic::VOID, true);
                self.v1.in_called = outer;
                done
            }
            Callee::Table(_) => {
                let e =
                    hir::Expr { kind: ExprKind::Call(Box::new(c.clone())), ty, span, value: None };
                self.apply_table(&e, Vec::new(), Vec::new(), Vec::new(), span)?;
                Ok(V::Void)
            }
            Callee::Apply(object, _) => {
                let V::O(id) = self.expr(object)? else {
                    return self.refuse(span, "what is applied here is not known");
                };
                self.apply_object(id, c, object, span)?;
                Ok(V::Void)
            }
            Callee::Builtin(object, builtin) => self.builtin(object, *builtin, c, span),
            Callee::Method(object, e, m) => self.method(object, *e, *m, c, ty, span),
        }
    }

    /// Writes a body out in place: arguments in, body, arguments out (§6.7).
    fn inline(
        &mut self,
        params: &[hir::Param],
        c: &Call,
        body: &[Stmt],
        mut frame: Frame,
        result: TyId,
        sees: bool,
    ) -> Result<V> {
        let span = body.first().map_or(Span::default(), |s| s.span);
        let (bound, back) = self.bind_args(params, c, &frame, false, sees, span)?;
        frame.vars.extend(bound);
        let label = self.label();
        // An `exit` inside goes on only after the arguments were copied out.
        let exit = if back.is_empty() || self.on_exit.is_none() || !sees {
            None
        } else {
            let inner = self.label();
            let (flag, _) = self.temp("exited", 1);
            let outer = (self.on_exit.replace(inner), self.exit_flag.replace(flag));
            Some((inner, flag, outer))
        };
        let (steps, home) = {
            let outer = std::mem::replace(&mut self.frame, frame);
            let home = if result == basic::VOID {
                Ok(None)
            } else {
                self.alloc(result, "tmp.result", span).map(Some)
            };
            let steps = match home {
                Ok(home) => {
                    let old = self.on_return.replace((label, home.clone()));
                    let loops = std::mem::take(&mut self.loops);
                    let steps = self.steps(|l| l.stmts(body));
                    self.loops = loops;
                    self.on_return = old;
                    steps.map(|s| (s, home))
                }
                Err(e) => Err(e),
            };
            self.frame = outer;
            steps?
        };
        let Some((inner, flag, outer)) = exit else {
            self.out.push(Step::Scope(label, steps));
            for (place, value) in back {
                self.assign(&place, &value, span)?;
            }
            return Ok(home.unwrap_or(V::Void));
        };
        (self.on_exit, self.exit_flag) = outer;
        let exits = super::tree::leaves_for(&steps, inner);
        if exits {
            self.op(Op::Assign(flag, Expr::bool(false)));
        }
        self.out.push(Step::Scope(inner, vec![Step::Scope(label, steps)]));
        for (place, value) in back {
            self.assign(&place, &value, span)?;
        }
        if exits && let Some(to) = outer.0 {
            let mut go = Vec::new();
            if let Some(f) = outer.1 {
                go.push(Step::Op(Op::Assign(f, Expr::bool(true))));
            }
            go.push(Step::Break(to));
            self.out.push(Step::If(Expr::Field(flag), go, Vec::new()));
        }
        Ok(home.unwrap_or(V::Void))
    }

    /// Values of parameters, and what is copied back.
    fn bind_args(
        &mut self,
        params: &[hir::Param],
        c: &Call,
        inner: &Frame,
        alias: bool,
        sees: bool,
        span: Span,
    ) -> Result<(Bound, Back)> {
        let mut bound = Vec::new();
        let mut back = Vec::new();
        // A body that sees other variables may change what an argument was read from.
        let writes =
            sees || params.iter().any(|p| matches!(p.direction, Direction::Out | Direction::InOut));
        let order = c.written();
        for (n, i) in order.iter().enumerate() {
            let (Some(p), Some(a)) = (params.get(*i), c.args.get(*i)) else { continue };
            let behind = order[n + 1..].iter().filter_map(|i| c.args[*i].as_ref());
            let writes = writes || behind.into_iter().any(calls);
            let ty = {
                let types = inner.types.clone();
                let (vars, args): (Vec<TypeVarId>, Vec<TyId>) = types.into_iter().unzip();
                self.p.types.substitute(p.ty, &vars, &args)
            };
            let value = match a {
                Some(e) => {
                    let v = self.expr(e)?;
                    self.cast_value(v, e.ty, ty, span)?
                }
                None if p.direction == Direction::Out => self.alloc(ty, "tmp.unused", span)?,
                None => continue,
            };
            let object = matches!(value, V::O(_) | V::Void);
            match p.direction {
                _ if object || alias => bound.push((p.var, value)),
                Direction::None | Direction::In => {
                    // A large expression is written once, however often the body reads it.
                    let large = matches!(&value, V::E(e, _) if super::fold::weight(e) > 64);
                    let keep = writes || large;
                    let v = if keep { self.keep_value(&value, ty, span)? } else { value };
                    bound.push((p.var, v));
                }
                Direction::Out | Direction::InOut => {
                    // Where it is copied back to is known from here on (§6.8).
                    let place = self.freeze(value);
                    let home = self.alloc(ty, &format!("tmp.{}", p.name), span)?;
                    if p.direction == Direction::InOut {
                        self.assign(&home, &place, span)?;
                    } else {
                        self.begin(&home);
                    }
                    bound.push((p.var, home.clone()));
                    back.push((place, home));
                }
            }
        }
        Ok((bound, back))
    }

    /// A parser or control inside of another one.
    fn apply_object(&mut self, id: usize, c: &Call, object: &hir::Expr, span: Span) -> Result<()> {
        let o = self.objects[id].clone();
        let ObjectKind::Inside(inside) = o.kind else { return Err(Refused) };
        let def = self.p.applicables[inside.index()].clone();
        let Some(body) = def.body else { return Err(Refused) };
        if self.v1.stack.contains(&id) {
            return self.refuse(span, "this is applied inside of itself");
        }
        // One place of application, places that do not overlap: the parameters are the arguments.
        // (A parser is written out anew at each place; a control's tables are there once.)
        let once = match &object.kind {
            _ if self.part == Part::Parser => true,
            ExprKind::Instance(i) => {
                *self.sites.entry(*i).or_insert(0) += 1;
                self.v1.site_count(&self.p, *i) == 1
            }
            ExprKind::Construct(_) => true,
            _ => false,
        };
        let alias = once && self.separate(&def.params, c)?;
        let mut frame = o.frame.clone();
        let (bound, back) = if alias {
            self.bind_args(&def.params, c, &frame, true, false, span)?
        } else {
            self.bind_home(id, &def.params, c, &frame, span)?
        };
        if alias {
            for p in def.params.iter().filter(|p| p.direction == Direction::Out) {
                if let Some((_, v)) = bound.iter().find(|(var, _)| *var == p.var) {
                    self.invalidate(v);
                }
            }
        }
        frame.vars.extend(bound);
        self.v1.stack.push(id);
        let result = self.apply_body(id, &body, frame);
        self.v1.stack.pop();
        result?;
        for (place, value) in back {
            self.assign(&place, &value, span)?;
        }
        Ok(())
    }

    fn apply_body(&mut self, id: usize, body: &hir::Body, frame: Frame) -> Result<()> {
        if self.part == Part::Parser {
            return self.sub_parser(id, body, frame);
        }
        let label = self.label();
        let outer = std::mem::replace(&mut self.frame, frame);
        let old = self.on_return.replace((label, None));
        let steps = self.steps(|l| {
            l.stmts(&body.locals)?;
            l.stmts(&body.apply)
        });
        self.on_return = old;
        self.objects[id].frame.tables.extend(self.frame.tables.clone());
        self.frame = outer;
        self.out.push(Step::Scope(label, steps?));
        Ok(())
    }

    /// The arguments are places of their own, none inside of another.
    fn separate(&mut self, params: &[hir::Param], c: &Call) -> Result<bool> {
        let mut seen: HashSet<u64> = HashSet::new();
        for (p, a) in params.iter().zip(&c.args) {
            let Some(e) = a else { return Ok(false) };
            if calls(e) {
                return Ok(false);
            }
            let v = self.expr(e)?;
            if matches!(v, V::O(_) | V::Void) {
                continue;
            }
            let mut ids = Vec::new();
            let mut whole = true;
            identity(&v, &mut ids, &mut whole);
            if !whole && p.direction != Direction::None {
                return Ok(false);
            }
            for i in ids {
                if !seen.insert(i) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Arguments copied to where this object's parameters live.
    fn bind_home(
        &mut self,
        id: usize,
        params: &[hir::Param],
        c: &Call,
        inner: &Frame,
        span: Span,
    ) -> Result<(Bound, Back)> {
        let mut bound = Vec::new();
        let mut back = Vec::new();
        for i in c.written() {
            let (Some(p), Some(a)) = (params.get(i), c.args.get(i)) else { continue };
            let (vars, args): (Vec<TypeVarId>, Vec<TyId>) = inner.types.iter().copied().unzip();
            let ty = self.p.types.substitute(p.ty, &vars, &args);
            let value = match a {
                Some(e) => {
                    let v = self.expr(e)?;
                    let v = self.cast_value(v, e.ty, ty, span)?;
                    Some(if p.direction == Direction::In { v } else { self.freeze(v) })
                }
                None => None,
            };
            if let Some(v @ (V::O(_) | V::Void)) = &value {
                bound.push((p.var, v.clone()));
                continue;
            }
            let known = self.homes.get(&id).and_then(|h| h.get(&p.var)).cloned();
            let home = match known {
                Some(h) => h,
                None => {
                    let path = self.objects[id].path.clone();
                    let h = self.alloc(ty, &join(&path, &p.name), span)?;
                    self.homes.entry(id).or_default().insert(p.var, h.clone());
                    h
                }
            };
            match (&value, p.direction) {
                (Some(v), Direction::In | Direction::InOut | Direction::None) => {
                    self.assign(&home, v, span)?
                }
                _ => self.begin(&home),
            }
            if let (Some(v), Direction::Out | Direction::InOut) = (value, p.direction) {
                back.push((v, home.clone()));
            }
            bound.push((p.var, home));
        }
        Ok((bound, back))
    }

    /// What an `out` parameter is at first.
    fn begin(&mut self, home: &V) {
        match self.part {
            Part::Parser => self.invalidate(home),
            _ => self.clear(home),
        }
    }

    fn builtin(&mut self, object: &hir::Expr, builtin: Builtin, c: &Call, span: Span) -> Result<V> {
        let v = self.expr(object)?;
        let count = match c.args.first() {
            Some(Some(e)) => match &e.value {
                Some(Const::Int(n)) => n.to_u32().unwrap_or(u32::MAX),
                _ => 1,
            },
            _ => 1,
        };
        match (builtin, &v) {
            (Builtin::IsValid, v) => Ok(V::E(self.valid(v, span)?, 1)),
            (Builtin::SetValid, V::H(h, _)) => {
                self.op(Op::SetValid(*h));
                Ok(V::Void)
            }
            (Builtin::SetInvalid, V::H(h, _)) => {
                self.op(Op::SetInvalid(*h));
                Ok(V::Void)
            }
            (Builtin::SetValid | Builtin::SetInvalid, V::Dyn(items, index)) => {
                let (index, iw) = self.keep_index(index);
                for (i, item) in items.iter().enumerate() {
                    let V::H(h, _) = item else { continue };
                    let op = if builtin == Builtin::SetValid {
                        Op::SetValid(*h)
                    } else {
                        Op::SetInvalid(*h)
                    };
                    let is = binary(BinaryOp::Eq, index.clone(), Expr::int(i as u128, iw));
                    self.out.push(Step::If(is, vec![Step::Op(op)], Vec::new()));
                }
                Ok(V::Void)
            }
            (Builtin::PushFront, V::K(items, _, next)) => {
                // Elements fall off the end (§8.18): the pipeline language's push drops the packet then.
                let n = items.len();
                let k = (count as usize).min(n);
                for i in (k..n).rev() {
                    self.assign(&items[i].clone(), &items[i - k].clone(), span)?;
                }
                for item in &items[..k] {
                    self.assign(item, &V::Invalid, span)?;
                }
                if let (Part::Parser, Some(next)) = (self.part, next) {
                    let room = Expr::int((n - k) as u128, 8);
                    let full = binary(BinaryOp::Ge, Expr::meta(*next), room);
                    let more = binary(BinaryOp::Add, Expr::meta(*next), Expr::int(k as u128, 8));
                    self.set_next(*next, mux(full, Expr::int(n as u128, 8), more));
                }
                Ok(V::Void)
            }
            (Builtin::PopFront, V::K(items, _, next)) => {
                let n = items.len();
                let k = (count as usize).min(n);
                for i in 0..n - k {
                    self.assign(&items[i].clone(), &items[i + k].clone(), span)?;
                }
                for item in &items[n - k..] {
                    self.assign(item, &V::Invalid, span)?;
                }
                if let (Part::Parser, Some(next)) = (self.part, next) {
                    let by = Expr::int(k as u128, 8);
                    self.set_next(*next, binary(BinaryOp::SubSat, Expr::meta(*next), by));
                }
                Ok(V::Void)
            }
            _ => self.refuse(span, "this is not supported"),
        }
    }

    // Tables.

    // Parsers.
}

/// What a place consists of, as numbers; `whole` is false if that is not known or is a part of a field.
fn identity(v: &V, out: &mut Vec<u64>, whole: &mut bool) {
    match v {
        V::F(FieldRef::Meta(m), _) => out.push(u64::from(m.0)),
        V::F(FieldRef::Header(h, f), _) => {
            out.push((1 << 62) | (u64::from(h.0) << 24) | u64::from(f.0))
        }
        V::H(h, _) => out.push((2 << 61) | u64::from(h.0)),
        V::S(items, _) | V::K(items, ..) => items.iter().for_each(|i| identity(i, out, whole)),
        V::C(_) | V::O(_) => {}
        _ => *whole = false,
    }
}
