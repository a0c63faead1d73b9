//! Statements, calls, tables, parser states.

use super::fold::{binary, mux};
use super::names::{ActionName, DirectMeter, KeyName, Selector, TableName};
use super::operand::V;
use super::step::Step;
use super::{Frame, Lower, ObjectKind, Part, Refused, Result, TableSite, expr::calls, join};
use crate::ast::Direction;
use crate::hir::{
    self, Builtin, Call, Callee, Const, ExprKind, ForSet, Stmt, StmtKind, Target, annotated,
    annotation_text,
};
use crate::source::Span;
use crate::types::*;
use ir::program::{Key, MatchKind, Select, SelectCase, Table, Transition};
use ir::{
    ActionId as IrAction, BinaryOp, Bits, Entry, EntryId, Expr, FieldRef, HashAlgorithm, KeyMatch,
    Op, ParserStateId, Pattern,
};
use num_traits::ToPrimitive;
use std::collections::{HashMap, HashSet};

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

    fn for_loop(
        &mut self,
        init: &[Stmt],
        condition: &hir::Expr,
        update: &[Stmt],
        body: &[Stmt],
        span: Span,
    ) -> Result<()> {
        // Variables of the loop that are known at compile time all the way.
        let before = self.frame.clone();
        let mut own: HashSet<VarId> = HashSet::new();
        let steps = self.steps(|l| {
            for s in init {
                if let StmtKind::Var(v, Some(e)) = &s.kind {
                    let value = l.expr(e)?;
                    if matches!(value, V::E(Expr::Const(_), _)) && !assigned(body, *v) {
                        l.frame.vars.insert(*v, value);
                        own.insert(*v);
                        continue;
                    }
                }
                l.stmt(s)?;
            }
            Ok(())
        })?;
        let added: Vec<VarId> =
            own.iter().copied().filter(|v| self.v1.loop_vars.insert(*v)).collect();
        let on_break = self.label();
        let result = match self.ends(condition, update) {
            Ok(true) => {
                self.out.extend(steps);
                let rounds = self.steps(|l| l.unroll(condition, update, body, on_break, span));
                rounds.map(|rounds| self.out.push(Step::Scope(on_break, rounds))).map(|()| true)
            }
            other => other,
        };
        for v in added {
            self.v1.loop_vars.remove(&v);
        }
        if result? {
            return Ok(());
        }
        self.frame = before;
        self.stmts(init)?;
        self.open_loop(span, &mut |l| l.condition(condition), &mut |l, on_continue| {
            let inner = l.block(body)?;
            l.out.push(Step::Scope(on_continue, inner));
            l.stmts(update)
        })
    }

    /// A loop ends by what is known at compile time, as far as its condition and its updates tell.
    fn ends(&mut self, condition: &hir::Expr, update: &[Stmt]) -> Result<bool> {
        let before = self.frame.clone();
        let mut ends = false;
        let looked = self.steps(|l| {
            for _ in 0..=UNROLL_MAX {
                if matches!(l.condition(condition)?, Expr::Const(known) if known.is_zero()) {
                    ends = true;
                    break;
                }
                for s in update {
                    if let StmtKind::Assign(left, right) = &s.kind
                        && let ExprKind::Var(v) = &left.kind
                        && l.v1.loop_vars.contains(v)
                    {
                        let value = l.expr(right)?;
                        if !matches!(&value, V::E(Expr::Const(_), _) | V::C(_)) {
                            return Ok(());
                        }
                        l.frame.vars.insert(*v, value);
                    }
                }
            }
            Ok(())
        });
        self.frame = before;
        looked.map(|_| ends)
    }

    fn unroll(
        &mut self,
        condition: &hir::Expr,
        update: &[Stmt],
        body: &[Stmt],
        on_break: super::step::Label,
        span: Span,
    ) -> Result<()> {
        for _ in 0..=UNROLL_MAX {
            let c = self.condition(condition)?;
            match &c {
                Expr::Const(known) if known.is_zero() => return Ok(()),
                Expr::Const(_) => {}
                _ => {
                    let stop = vec![Step::Break(on_break)];
                    self.out.push(Step::If(c, Vec::new(), stop));
                }
            }
            let on_continue = self.label();
            self.loops.push((on_break, on_continue));
            let steps = self.block(body);
            self.loops.pop();
            let steps = steps?;
            self.out.push(Step::Scope(on_continue, steps));
            self.stmts(update)?;
        }
        self.refuse(span, format!("this loop runs more than {UNROLL_MAX} times"))
    }

    /// A loop of the pipeline language: `more` is the condition before a round; `round` writes a round out
    /// and is told what `continue` leaves.
    fn open_loop(
        &mut self,
        span: Span,
        more: &mut dyn FnMut(&mut Self) -> Result<Expr>,
        round: &mut dyn FnMut(&mut Self, super::step::Label) -> Result<()>,
    ) -> Result<()> {
        let (flag, _) = self.temp("more", 1);
        let first = more(self)?;
        self.op(Op::Assign(flag, first));
        let (on_break, on_continue) = (self.label(), self.label());
        self.loops.push((on_break, on_continue));
        // Who breaks leaves the flag as it is: there is no more.
        let steps = self.steps(|l| {
            round(l, on_continue)?;
            let next = more(l)?;
            l.op(Op::Assign(flag, next));
            Ok(())
        });
        self.loops.pop();
        let steps =
            vec![Step::Op(Op::Assign(flag, Expr::bool(false))), Step::Scope(on_break, steps?)];
        let steps = self.loop_steps(Expr::Field(flag), steps, span)?;
        self.out.extend(steps);
        Ok(())
    }

    fn for_in(&mut self, v: VarId, set: &ForSet, body: &[Stmt], span: Span) -> Result<()> {
        let ty = self.p.vars[v.index()].ty;
        let mut values: Vec<(Option<Expr>, V)> = Vec::new();
        match set {
            ForSet::Range(a, b) => {
                let ((a, w), (b, _)) = (self.scalar(a)?, self.scalar(b)?);
                let signed = self.is_signed(ty);
                match (&a, &b) {
                    (Expr::Const(x), Expr::Const(y)) => {
                        let mut at = x.clone();
                        let over = |at: &Bits| {
                            if signed {
                                at.compare_signed(y).is_gt()
                            } else {
                                at.compare(y).is_gt()
                            }
                        };
                        while !over(&at) {
                            if values.len() >= UNROLL_MAX {
                                return self.refuse(
                                    span,
                                    format!("this loop runs more than {UNROLL_MAX} times"),
                                );
                            }
                            values.push((None, V::E(Expr::Const(at.clone()), w)));
                            if at == *y {
                                break;
                            }
                            at = at.add(&Bits::from_u128(1, w));
                        }
                    }
                    _ if w <= 4 && !signed => {
                        let (a, b) = (self.keep(a, w), self.keep(b, w));
                        for i in 0..1u128 << w {
                            let at = Expr::int(i, w);
                            let inside = binary(
                                BinaryOp::LogicalAnd,
                                binary(BinaryOp::Le, a.clone(), at.clone()),
                                binary(BinaryOp::Le, at.clone(), b.clone()),
                            );
                            values.push((Some(inside), V::E(at, w)));
                        }
                    }
                    _ => return self.for_range(v, (a, b), w, signed, body, span),
                }
            }
            ForSet::Expr(e) => {
                let items = match self.expr(e)? {
                    V::S(items, _) | V::K(items, ..) => items,
                    _ => return self.refuse(span, "a loop over this is not supported"),
                };
                for i in items.iter() {
                    let v = self.cast_value(i.clone(), ty, ty, span)?;
                    values.push((None, v));
                }
            }
        }
        let on_break = self.label();
        let written = assigned(body, v);
        let steps = self.steps(|l| {
            for (inside, value) in values {
                let on_continue = l.label();
                l.loops.push((on_break, on_continue));
                let steps = l.steps(|l| {
                    let home = if written { l.keep_place(&value, ty, span)? } else { value };
                    l.frame.vars.insert(v, home);
                    l.stmts(body)
                });
                l.loops.pop();
                let scope = Step::Scope(on_continue, steps?);
                l.out.push(match inside {
                    Some(c) => Step::If(c, vec![scope], Vec::new()),
                    None => scope,
                });
            }
            Ok(())
        })?;
        self.out.push(Step::Scope(on_break, steps));
        Ok(())
    }

    /// `for (v in a..b)`, whose ends are not known at compile time.
    fn for_range(
        &mut self,
        v: VarId,
        (a, b): (Expr, Expr),
        width: u32,
        signed: bool,
        body: &[Stmt],
        span: Span,
    ) -> Result<()> {
        let last = self.keep(b, width);
        let (at, _) = self.temp("at", width);
        let (left, _) = self.temp("left", 1);
        self.op(Op::Assign(at, a));
        let le = if signed { BinaryOp::SLe } else { BinaryOp::Le };
        self.op(Op::Assign(left, binary(le, Expr::Field(at), last.clone())));
        let ty = self.p.vars[v.index()].ty;
        self.open_loop(span, &mut |_| Ok(Expr::Field(left)), &mut |l, on_continue| {
            let home = l.keep_place(&V::F(at, width), ty, span)?;
            l.frame.vars.insert(v, home);
            let inner = l.block(body)?;
            l.out.push(Step::Scope(on_continue, inner));
            // The last value may be the greatest: compared before it is counted up.
            l.op(Op::Assign(left, binary(BinaryOp::Ne, Expr::Field(at), last.clone())));
            let next = binary(BinaryOp::Add, Expr::Field(at), Expr::int(1, width));
            l.op(Op::Assign(at, next));
            Ok(())
        })
    }

    fn keep_place(&mut self, v: &V, ty: TyId, span: Span) -> Result<V> {
        let home = self.alloc(ty, "tmp.loop", span)?;
        self.assign(&home, v, span)?;
        Ok(home)
    }

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

    /// Looks a table up; `call` is its application.
    pub(super) fn apply_table(
        &mut self,
        call: &hir::Expr,
        hit: Vec<Step>,
        miss: Vec<Step>,
        by_action: Vec<(Vec<ActionId>, Vec<Step>)>,
        span: Span,
    ) -> Result<()> {
        let ExprKind::Call(c) = &call.kind else { return Err(Refused) };
        let Callee::Table(t) = &c.callee else { return Err(Refused) };
        let site = self.table_site(*t)?;
        // Keys that are computed by calls, and those in front of them, are computed now.
        let hir_table = self.p.tables[t.index()].clone();
        for (i, k) in hir_table.keys.iter().enumerate() {
            if hir_table.keys[i..].iter().any(|k| calls(&k.expr))
                && let Some(home) = self.v1.key_homes.get(&(site, i)).cloned()
            {
                let v = self.expr(&k.expr)?;
                self.assign(&home, &v, span)?;
            }
        }
        let s = self.tables[site].clone();
        let mut by_action: Vec<(Vec<IrAction>, Vec<Step>)> = by_action
            .into_iter()
            .map(|(actions, steps)| {
                let ids = s
                    .actions
                    .iter()
                    .filter(|(a, _)| actions.contains(a))
                    .map(|(_, i)| *i)
                    .collect();
                (ids, steps)
            })
            .collect();
        let Some((Selector { action, members }, chosen)) = s.selector else {
            self.out.push(Step::Apply { table: s.id, hit, miss, by_action });
            return Ok(());
        };
        // The member's action follows, of which an empty group has none.
        let member = |by_action| Step::Apply {
            table: members,
            hit: Vec::new(),
            miss: Vec::new(),
            by_action,
        };
        if hit.is_empty() && miss.is_empty() {
            let of_group = member(by_action.clone());
            by_action.push((vec![action], vec![of_group]));
        } else if by_action.is_empty() {
            // A group may be the default's as well as an entry's: the table says whether it was hit.
            self.op(Op::Assign(chosen, Expr::bool(false)));
            let behind = |rest: Vec<Step>| {
                let of_group = Step::If(Expr::Field(chosen), vec![member(Vec::new())], Vec::new());
                std::iter::once(of_group).chain(rest).collect()
            };
            let (hit, miss) = (behind(hit), behind(miss));
            self.out.push(Step::Apply { table: s.id, hit, miss, by_action });
            return Ok(());
        } else {
            // What else the actions lead to, the members' lead to as well; hit or miss is the same then.
            let lists = by_action.iter().map(|(_, s)| super::tree::weight(s)).sum::<u64>();
            self.spend(super::tree::weight(&hit) + super::tree::weight(&miss) + lists, span)?;
            let (hit, miss) = (hit.clone(), miss.clone());
            let table = members;
            let member = Step::Apply { table, hit, miss, by_action: by_action.clone() };
            by_action.push((vec![action], vec![member]));
        }
        self.out.push(Step::Apply { table: s.id, hit, miss, by_action });
        Ok(())
    }

    fn table_site(&mut self, t: TableId) -> Result<usize> {
        let key = (self.frame.path.clone(), t);
        if let Some(site) = self.v1.table_sites.get(&key) {
            return Ok(*site);
        }
        let table = self.p.tables[t.index()].clone();
        let own = annotation_text(&table.annotations, "name");
        let full = match own {
            Some(text) if text.starts_with('.') => text[1..].to_string(),
            Some(text) => join(&self.frame.path, text),
            None => join(&self.frame.path, &table.name),
        };
        let site = self.tables.len();
        let mut keys: Vec<Key> = Vec::new();
        let mut key_names = Vec::new();
        let mut columns = Vec::new();
        let mut selects: Vec<Expr> = Vec::new();
        let computed = |i: usize| table.keys[i..].iter().any(|k| calls(&k.expr));
        for (i, k) in table.keys.iter().enumerate() {
            let kind = match self.p.match_kinds.get(k.kind as usize).map(|n| &**n) {
                Some("exact") => MatchKind::Exact,
                Some("lpm") => MatchKind::Lpm,
                Some("ternary") => MatchKind::Ternary,
                Some("range") => MatchKind::Range,
                Some("optional") => MatchKind::Optional,
                Some("selector") => {
                    let v = if computed(i) {
                        let home = self.alloc(k.expr.ty, "tmp.key", k.expr.span)?;
                        self.v1.key_homes.insert((site, i), home.clone());
                        home
                    } else {
                        self.expr(&k.expr)?
                    };
                    selects.extend(self.flatten(&v, k.expr.span)?.into_iter().map(|(e, _)| e));
                    continue;
                }
                other => {
                    let text =
                        format!("the match kind `{}` is not supported", other.unwrap_or("?"));
                    return self.refuse(k.expr.span, text);
                }
            };
            let (expr, width) = if computed(i) {
                let home = self.alloc(k.expr.ty, "tmp.key", k.expr.span)?;
                self.v1.key_homes.insert((site, i), home.clone());
                self.read(&home, k.expr.span)?
            } else {
                self.scalar(&k.expr)?
            };
            if width == 0 {
                continue;
            }
            let name = annotation_text(&k.annotations, "name").unwrap_or(&k.text).to_string();
            let mut unique = name.clone();
            while keys.iter().any(|k| k.name == unique) {
                unique.push('_');
            }
            keys.push(Key { name: unique, expr, kind, width });
            key_names.push(KeyName { name, width, kind, source: i });
            columns.push(i);
        }
        let mut actions: Vec<(ActionId, IrAction)> = Vec::new();
        let mut names = Vec::new();
        for a in &table.actions {
            let (id, name) = self.table_action(a, t, &full)?;
            actions.push((a.action, id));
            names.push(ActionName {
                default_only: annotated(&a.annotations, "defaultonly"),
                ..name
            });
        }
        let default = match &table.default {
            Some(call) => self.action_call(call, &actions)?,
            None => ir::ActionCall::new(self.no_action()),
        };
        let size = match &table.size {
            Some(e) => self.scalar_constant(e)?,
            None => 1024,
        };
        // One's own entries must fit, and testers fill tables of any declared size.
        let capacity = size.max(table.entries.len() as u32).max(1024);
        let timeouts = match table.properties.iter().find(|p| &*p.name == "support_timeout") {
            None => false,
            Some(p) => match p.value.value {
                Some(Const::Bool(b)) => b,
                _ => return self.refuse(p.value.span, "`support_timeout` is true or false"),
            },
        };
        let counter = self.table_object(&table, "counters")?;
        let counter = counter.map(|o| self.objects[o].path.clone());
        let meter = self.table_object(&table, "meters")?;
        // An action that reads another meter than the table's finds green.
        for (name, (_, id)) in names.iter_mut().zip(&actions) {
            let asked = self.v1.metered.get(id).copied();
            name.asks_own = asked.is_some() && asked == meter;
        }
        let meter = meter.and_then(|o| match self.objects[o].kind {
            ObjectKind::DirectMeter(packets) => {
                Some(DirectMeter { name: self.objects[o].path.clone(), packets })
            }
            _ => None,
        });
        let profile = match self.table_object(&table, "implementation")? {
            Some(o) => match self.objects[o].kind {
                ObjectKind::Profile(n, hash) => Some((n, hash)),
                _ => None,
            },
            None => None,
        };
        let mut allowed: Vec<IrAction> = actions.iter().map(|(_, i)| *i).collect();
        allowed.sort();
        allowed.dedup();
        let selector = match profile {
            Some((_, Some(hash))) => Some(self.selector(&full, hash, selects, &allowed)?),
            _ => None,
        };
        if selector.is_some() && meter.is_some() {
            return self.refuse(
                table.span,
                "a table with an action selector and a direct meter is not supported",
            );
        }
        allowed.extend(selector.iter().map(|(s, _)| s.action));
        let unique = self.unique(&full);
        let id = self.b.table(Table {
            name: unique,
            key: keys.clone().into(),
            actions: Some(allowed),
            default,
            default_const: table.default_const,
            capacity,
            // When a packet last matched is kept with the count of packets.
            counters: counter.is_some() || timeouts,
        });
        self.names.tables.push(TableName {
            name: full,
            id,
            source: Some(t),
            size,
            keys: key_names,
            actions: names,
            counter,
            meter,
            profile: profile.map(|(n, _)| n),
            keyless: table.keys.is_empty(),
            selector: selector.as_ref().map(|(s, _)| s.clone()),
            entries_const: table.entries_const && !table.entries.is_empty(),
            timeouts,
        });
        if let Some((n, _)) = profile {
            self.names.profiles[n].tables.push(id);
        }
        self.tables.push(TableSite { id, actions, selector });
        self.v1.table_sites.insert(key, site);
        self.frame.tables.insert(t, site);
        self.table_entries(site, &table, &keys, &columns)?;
        Ok(site)
    }

    /// The object that a property of a table names.
    fn table_object(&mut self, table: &hir::Table, property: &str) -> Result<Option<usize>> {
        let found = table.properties.iter().find(|p| &*p.name == property);
        let Some(found) = found else { return Ok(None) };
        // What is made in place is called as its `@name` says, outside of the control.
        let name = match annotation_text(&found.annotations, "name") {
            Some(name) => format!(".{}", name.trim_start_matches('.')),
            None => format!("{}_{property}", table.name),
        };
        match self.static_value(&found.value, &name)? {
            V::O(o) => Ok(Some(o)),
            _ => Ok(None),
        }
    }

    /// What leads from an entry with a group to one of the group's members: an action that keeps the
    /// group and which place in it the packet's hash falls on, and a table of places.
    fn selector(
        &mut self,
        table: &str,
        algorithm: HashAlgorithm,
        inputs: Vec<Expr>,
        allowed: &[IrAction],
    ) -> Result<(Selector, FieldRef)> {
        let (group, _) = self.temp("group", 32);
        let (place, _) = self.temp("place", 16);
        let (chosen, _) = self.temp("chosen", 1);
        let width = match algorithm {
            HashAlgorithm::Crc16 | HashAlgorithm::Csum16 | HashAlgorithm::Xor16 => 16,
            HashAlgorithm::Crc32 | HashAlgorithm::Crc32c => 32,
            HashAlgorithm::Crc(crc) => crc.width,
            HashAlgorithm::Identity => 64,
        };
        let steps = self.steps(|l| {
            l.op(Op::Assign(group, Expr::Param(0)));
            l.op(Op::Assign(chosen, Expr::bool(true)));
            if inputs.is_empty() {
                // Without keys to choose by, all packets get the group's first member.
                l.op(Op::Assign(place, Expr::int(0, 16)));
                return Ok(());
            }
            let hash = Expr::Hash { algorithm, width, inputs };
            let size = super::fold::cast(Expr::Param(1), 16, width, false);
            let (_, rest) = l.divide(hash, size, width);
            l.op(Op::Assign(place, super::fold::cast(rest, width, 16, false)));
            Ok(())
        })?;
        let body = self.ops(steps)?;
        let name = self.unique(&format!("v1.group.{table}"));
        let action = self.b.action(&name, &[("group", 32), ("size", 16)], body);
        let mut members = allowed.to_vec();
        let nothing = self.no_action();
        if !members.contains(&nothing) {
            members.push(nothing);
        }
        let key = |name: &str, field, width| Key {
            name: name.into(),
            expr: Expr::Field(field),
            kind: MatchKind::Exact,
            width,
        };
        let name = self.unique(&format!("v1.members.{table}"));
        let members = self.b.table(Table {
            name,
            key: vec![key("group", group, 32), key("place", place, 16)].into(),
            actions: Some(members),
            default: ir::ActionCall::new(nothing),
            default_const: true,
            capacity: 1 << 20,
            counters: false,
        });
        Ok((Selector { action, members }, chosen))
    }

    fn scalar_constant(&mut self, e: &hir::Expr) -> Result<u32> {
        let v = self.expr(e)?;
        Ok(match v {
            V::C(Const::Int(n)) => n.to_u32().unwrap_or(u32::MAX),
            V::E(Expr::Const(b), _) => {
                b.to_u128().and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX)
            }
            _ => 1024,
        })
    }

    pub(super) fn no_action(&mut self) -> IrAction {
        if let Some(id) = self.v1.no_action {
            return id;
        }
        let name = self.unique("NoAction");
        let id = self.b.action(&name, &[], Vec::new());
        self.v1.no_action = Some(id);
        id
    }

    /// Where an action is, and its full name.
    fn action_name(&self, id: ActionId) -> (String, String) {
        let action = &self.p.actions[id.index()];
        let mut bodies = self.p.applicables.iter().filter_map(|c| c.body.as_ref());
        let local = bodies.any(|b| b.actions.contains(&id));
        let path = if local { self.frame.path.clone() } else { String::new() };
        let full = match annotation_text(&action.annotations, "name") {
            Some(text) if text.starts_with('.') => text[1..].to_string(),
            Some(text) => join(&path, text),
            None => join(&path, &action.name),
        };
        (path, full)
    }

    /// An action as a table runs it.
    fn table_action(
        &mut self,
        a: &hir::ActionCall,
        t: TableId,
        table: &str,
    ) -> Result<(IrAction, ActionName)> {
        let action = self.p.actions[a.action.index()].clone();
        let bound = action.params.iter().any(|p| p.direction != Direction::None);
        let (path, full) = self.action_name(a.action);
        let mut params: Vec<(String, u32)> = Vec::new();
        let mut values: Vec<(VarId, V)> = Vec::new();
        for p in action.params.iter().filter(|p| p.direction == Direction::None) {
            let v = self.param_value(p.ty, &p.name, &mut params, p.span)?;
            values.push((p.var, v));
        }
        let key =
            (path.clone(), a.action, if bound { Some((self.frame.path.clone(), t)) } else { None });
        let name = ActionName {
            name: full.clone(),
            id: IrAction(0),
            source: Some(a.action),
            params: params.clone(),
            default_only: false,
            metered: false,
            asks_own: false,
        };
        if let Some(id) = self.v1.actions.get(&key) {
            let metered = self.v1.metered.contains_key(id);
            return Ok((*id, ActionName { id: *id, metered, ..name }));
        }
        if action.params.is_empty() && action.body.is_empty() && &*action.name == "NoAction" {
            let id = self.no_action();
            self.v1.actions.insert(key, id);
            return Ok((id, ActionName { id, ..name }));
        }
        let old_params =
            std::mem::replace(&mut self.v1.params, params.iter().map(|p| p.1).collect());
        let old_asked = self.v1.asked.take();
        let old = (self.in_action, self.on_return.take(), self.on_exit);
        self.in_action = true;
        let label = self.label();
        self.on_return = Some((label, None));
        self.on_exit = Some(label);
        let mut frame = self.frame.clone();
        frame.vars.extend(values);
        let steps = self.steps(|l| {
            let mut back = Vec::new();
            for i in a.written() {
                let (Some(p), Some(Some(e))) = (action.params.get(i), a.args.get(i)) else {
                    continue;
                };
                if p.direction == Direction::None {
                    continue;
                }
                let v = l.expr(e)?;
                let v = l.cast_value(v, e.ty, p.ty, p.span)?;
                let v = if p.direction == Direction::In { v } else { l.freeze(v) };
                let home = l.alloc(p.ty, &format!("{full}.{}", p.name), p.span)?;
                if p.direction == Direction::Out {
                    l.clear(&home);
                } else {
                    l.assign(&home, &v, p.span)?;
                }
                if p.direction != Direction::In {
                    back.push((v, home.clone(), p.span));
                }
                frame.vars.insert(p.var, home);
            }
            let inner = l.framed(frame, |l| l.steps(|l| l.stmts(&action.body)))?;
            l.out.push(Step::Scope(label, inner));
            for (place, home, span) in back {
                l.assign(&place, &home, span)?;
            }
            Ok(())
        });
        let ops = match steps {
            Ok(steps) => self.ops(steps),
            Err(e) => Err(e),
        };
        (self.in_action, self.on_return, self.on_exit) = old;
        self.v1.params = old_params;
        let asked = std::mem::replace(&mut self.v1.asked, old_asked);
        let ops = ops?;
        let unique = self.unique(&if bound { format!("{full}.{table}") } else { full });
        let mut list: Vec<(&str, u32)> = params.iter().map(|(n, w)| (n.as_str(), *w)).collect();
        if asked.is_some() {
            list.push(("v1.meter", 32));
        }
        let id = self.b.action(&unique, &list, ops);
        self.v1.actions.insert(key, id);
        if let Some(meter) = asked {
            self.v1.metered.insert(id, meter);
        }
        Ok((id, ActionName { id, metered: asked.is_some(), ..name }))
    }

    /// A parameter from the control plane: one for each bit string in it.
    fn param_value(
        &mut self,
        ty: TyId,
        name: &str,
        params: &mut Vec<(String, u32)>,
        span: Span,
    ) -> Result<V> {
        let ty = self.ty(ty);
        match self.p.ty(ty).clone() {
            Ty::Struct(s, args) if !self.is_header(ty) => {
                let types = self.p.field_types(s, &args);
                let fields = self.p.structs[s.index()].fields.clone();
                let mut items = Vec::new();
                for (f, t) in fields.iter().zip(types) {
                    items.push(self.param_value(t, &format!("{name}_{}", f.name), params, span)?);
                }
                Ok(V::S(items.into(), ty))
            }
            Ty::Tuple(types) => {
                let mut items = Vec::new();
                for (i, t) in types.iter().enumerate() {
                    items.push(self.param_value(*t, &format!("{name}_{i}"), params, span)?);
                }
                Ok(V::S(items.into(), ty))
            }
            _ => match self.width(ty) {
                Some(0) => Ok(V::E(Expr::Const(Bits::zero(0)), 0)),
                Some(w) => {
                    params.push((name.to_string(), w));
                    Ok(V::E(Expr::Param(params.len() as u32 - 1), w))
                }
                None => self.refuse(span, "an action's parameter of this type is not supported"),
            },
        }
    }

    /// A default action or an entry's, with its arguments.
    fn action_call(
        &mut self,
        call: &hir::ActionCall,
        actions: &[(ActionId, IrAction)],
    ) -> Result<ir::ActionCall> {
        let Some((_, id)) = actions.iter().find(|(a, _)| *a == call.action) else {
            return self.refuse(call.span, "the table does not list this action");
        };
        let params = self.p.actions[call.action.index()].params.clone();
        let mut args = Vec::new();
        for (p, a) in params.iter().zip(&call.args) {
            if p.direction != Direction::None {
                continue;
            }
            let Some(e) = a else { return self.refuse(call.span, "an argument is missing") };
            let v = self.expr(e)?;
            let v = self.cast_value(v, e.ty, p.ty, e.span)?;
            for (x, _) in self.flatten(&v, e.span)? {
                match x {
                    Expr::Const(b) => args.push(b),
                    _ => return self.refuse(e.span, "this argument is not known at compile time"),
                }
            }
        }
        // The meter's number is the entry's, who is put in later; a default has none, which is green.
        if self.v1.metered.contains_key(id) {
            args.push(Bits::ones(32));
        }
        Ok(ir::ActionCall::with(*id, args))
    }

    fn table_entries(
        &mut self,
        site: usize,
        table: &hir::Table,
        keys: &[Key],
        columns: &[usize],
    ) -> Result<()> {
        let (id, actions) = (self.tables[site].id, self.tables[site].actions.clone());
        let prioritised = keys
            .iter()
            .any(|k| matches!(k.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional));
        let n = table.entries.len() as i64;
        let delta = i64::from(table.priority_delta);
        let up = table.largest_priority_wins;
        let mut last: Option<i64> = None;
        for (place, e) in table.entries.iter().enumerate() {
            let mut matches = Vec::new();
            for (position, column) in columns.iter().enumerate() {
                let key = &keys[position];
                if let Some(pattern) = self.pattern(&e.keys[*column], key)? {
                    matches.push(KeyMatch { key: position as u16, pattern });
                }
            }
            let priority = match (&e.priority, last) {
                (Some(p), _) => p.to_i64().unwrap_or(i64::from(i32::MAX)),
                (None, None) => {
                    if up {
                        (n - 1) * delta + 1
                    } else {
                        1
                    }
                }
                (None, Some(l)) => {
                    if up {
                        l - delta
                    } else {
                        l + delta
                    }
                }
            };
            last = Some(priority);
            // p4c's own annotation: the smallest number wins, and an entry without it has its place.
            let wins = match table.entries.iter().any(|e| e.annotated_priority.is_some()) {
                true => -i64::from(e.annotated_priority.unwrap_or(place as u32 + 1)),
                false if up => priority,
                false => -priority,
            };
            let action = self.action_call(&e.action, &actions)?;
            let entry = Entry {
                id: EntryId(self.entries.len() as u32 + 1),
                priority: if prioritised {
                    wins.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
                } else {
                    0
                },
                matches: matches.into(),
                action,
                cookie: 0,
                idle_timeout_ns: 0,
                hard_timeout_ns: 0,
            };
            self.entries.push((id, entry));
        }
        Ok(())
    }

    fn constant_bits(&mut self, e: &hir::Expr, width: u32) -> Result<Bits> {
        let v = self.expr(e)?;
        let v = match v {
            V::C(Const::Int(n)) => return Ok(super::fold::bits(&n, width)),
            v => v,
        };
        match self.read(&v, e.span)?.0 {
            Expr::Const(b) => Ok(b.cast(width)),
            _ => self.refuse(e.span, "this is not known at compile time"),
        }
    }

    fn pattern(&mut self, set: &hir::Expr, key: &Key) -> Result<Option<Pattern>> {
        let w = key.width;
        Ok(match &set.kind {
            ExprKind::Any => None,
            ExprKind::SetTuple(items) if items.len() == 1 => return self.pattern(&items[0], key),
            ExprKind::Mask(a, b) => {
                let (a, m) = (self.constant_bits(a, w)?, self.constant_bits(b, w)?);
                let a = a.and(&m);
                match key.kind {
                    MatchKind::Lpm => {
                        let len = m.prefix_len().unwrap_or(w);
                        if len == 0 { None } else { Some(Pattern::Prefix(a, len)) }
                    }
                    _ if m.is_zero() => None,
                    _ => Some(Pattern::Masked(a, m)),
                }
            }
            ExprKind::Range(a, b) => {
                Some(Pattern::Range(self.constant_bits(a, w)?, self.constant_bits(b, w)?))
            }
            _ => Some(Pattern::Exact(self.constant_bits(set, w)?)),
        })
    }

    // Parsers.

    /// A parser inside of a parser: its states are written out, and `accept` goes on after it.
    fn sub_parser(&mut self, id: usize, body: &hir::Body, frame: Frame) -> Result<()> {
        let path = self.objects[id].path.clone();
        let start_name = self.unique(&format!("{path}.start"));
        let start = self.b.state(&start_name);
        let done_name = self.unique(&format!("{path}.done"));
        let done = self.b.state(&done_name);
        let outer = std::mem::replace(&mut self.frame, frame);
        let result = self.parser_states(body, start, Transition::State(done), &path);
        self.frame = outer;
        result?;
        self.out.push(Step::Parser { start, done });
        Ok(())
    }

    /// All states of a parser, from this state on; `accept` is where it goes at the end.
    pub(super) fn parser_states(
        &mut self,
        body: &hir::Body,
        entry: ParserStateId,
        accept: Transition,
        path: &str,
    ) -> Result<()> {
        let mut ids: HashMap<usize, ParserStateId> = HashMap::new();
        for (i, s) in body.states.iter().enumerate() {
            let name = self.unique(&join(path, &s.name));
            ids.insert(i, self.b.state(&name));
        }
        let Some(start) = body.states.iter().position(|s| &*s.name == "start") else {
            return Err(Refused);
        };
        let outer = std::mem::take(&mut self.out);
        let result = (|| {
            self.v1.filled.clear();
            self.stmts(&body.locals)?;
            let steps = std::mem::take(&mut self.out);
            self.states(steps, entry, Transition::State(ids[&start]), path, Span::default())?;
            for (i, s) in body.states.iter().enumerate() {
                self.v1.filled.clear();
                let saved = self.frame.clone();
                let target = |t: &Target| match t {
                    Target::Accept => accept.clone(),
                    Target::Reject => Transition::Reject,
                    Target::State(i) => Transition::State(ids[i]),
                };
                self.stmts(&s.stmts)?;
                let next = match &s.transition {
                    hir::Transition::To(t) => target(t),
                    hir::Transition::Select(keys, cases) => {
                        let cases: Vec<(Vec<hir::Expr>, Transition)> =
                            cases.iter().map(|(sets, t)| (sets.clone(), target(t))).collect();
                        self.select(keys, cases)?
                    }
                };
                let steps = std::mem::take(&mut self.out);
                self.states(steps, ids[&i], next, &join(path, &s.name), s.span)?;
                self.frame = saved;
            }
            Ok(())
        })();
        self.v1.filled.clear();
        self.out = outer;
        result
    }

    fn select(
        &mut self,
        keys: &[hir::Expr],
        cases: Vec<(Vec<hir::Expr>, Transition)>,
    ) -> Result<Transition> {
        let mut exprs: Vec<(Expr, u32)> = Vec::new();
        let mut counts = Vec::new();
        for (i, k) in keys.iter().enumerate() {
            let v = self.expr(k)?;
            let v = self.known(v, k.ty);
            let mut flat = self.flatten(&v, k.span)?;
            if keys[i + 1..].iter().any(calls) {
                for (e, w) in &mut flat {
                    *e = self.keep(e.clone(), *w);
                }
            }
            counts.push(flat.len());
            exprs.extend(flat);
        }
        if exprs.is_empty() {
            return Ok(cases.into_iter().next().map_or(Transition::Reject, |c| c.1));
        }
        // A value set of several fields looks at all of them put together.
        let mut together: Option<usize> = None;
        let mut out = Vec::new();
        for (sets, next) in cases {
            let mut patterns = Vec::new();
            if sets.len() == 1
                && keys.len() > 1
                && let ExprKind::ValueSet(v) = &sets[0].kind
            {
                let id = self.value_set(*v)?;
                let at = match together {
                    Some(at) => at,
                    None => {
                        let mut all = exprs[0].clone();
                        for (e, w) in &exprs[1..] {
                            all = (binary(BinaryOp::Concat, all.0, e.clone()), all.1 + w);
                        }
                        exprs.push(all);
                        together = Some(exprs.len() - 1);
                        exprs.len() - 1
                    }
                };
                patterns = vec![Select::Any; at];
                patterns.push(Select::ValueSet(id));
            } else {
                let mut at = 0;
                for (s, n) in sets.iter().zip(&counts) {
                    self.select_patterns(s, &exprs[at..at + n], &mut patterns)?;
                    at += n;
                }
            }
            out.push(SelectCase { patterns, next });
        }
        for case in &mut out {
            case.patterns.resize(exprs.len(), Select::Any);
        }
        Ok(Transition::Select { keys: exprs.into_iter().map(|(e, _)| e).collect(), cases: out })
    }

    fn select_patterns(
        &mut self,
        set: &hir::Expr,
        keys: &[(Expr, u32)],
        out: &mut Vec<Select>,
    ) -> Result<()> {
        match &set.kind {
            // What has no bits has one value, which each set holds.
            _ if keys.is_empty() => {}
            ExprKind::Any => out.extend(keys.iter().map(|_| Select::Any)),
            ExprKind::SetTuple(items) | ExprKind::Aggregate(items) if items.len() == keys.len() => {
                for (i, k) in items.iter().zip(keys) {
                    self.select_patterns(i, std::slice::from_ref(k), out)?;
                }
            }
            ExprKind::Mask(a, b) => {
                let w = keys[0].1;
                let (a, m) = (self.constant_bits(a, w)?, self.constant_bits(b, w)?);
                out.push(Select::Masked(a.and(&m), m));
            }
            ExprKind::Range(a, b) => {
                let w = keys[0].1;
                let (a, b) = (self.constant_bits(a, w)?, self.constant_bits(b, w)?);
                if a.compare(&b).is_gt() {
                    // Nothing is in it: a value that is both 0 and 1 does not exist either.
                    return self.refuse(set.span, "an empty range is not supported");
                }
                out.push(Select::Range(a, b));
            }
            ExprKind::ValueSet(v) => out.push(Select::ValueSet(self.value_set(*v)?)),
            _ => {
                let w = keys[0].1;
                let v = self.constant_bits(set, w)?;
                out.push(Select::Masked(v, Bits::ones(w)));
            }
        }
        Ok(())
    }

    fn value_set(&mut self, v: ValueSetId) -> Result<ir::ValueSetId> {
        if let Some(id) = self.v1.value_sets.get(&(self.frame.path.clone(), v)) {
            return Ok(*id);
        }
        let vs = self.p.value_sets[v.index()].clone();
        let size = self.scalar_constant(&vs.size)?;
        let width = self.total_width(vs.ty);
        let Some(width) = width.filter(|w| *w > 0) else {
            return self.refuse(vs.span, "a value set of this type is not supported");
        };
        let name = annotation_text(&vs.annotations, "name").unwrap_or(&vs.name).to_string();
        let full = join(&self.frame.path, &name);
        let unique = self.unique(&full);
        let id = self.b.value_set(&unique, width, size);
        self.names.value_sets.push((full, id, vec![width]));
        self.v1.value_sets.insert((self.frame.path.clone(), v), id);
        Ok(id)
    }
}

/// A variable is written somewhere in these statements.
fn assigned(stmts: &[Stmt], v: VarId) -> bool {
    let target = |e: &hir::Expr| {
        let mut e = e;
        loop {
            match &e.kind {
                ExprKind::Var(w) => return *w == v,
                ExprKind::Field(a, _)
                | ExprKind::Slice(a, _, _)
                | ExprKind::Index(a, _)
                | ExprKind::PlusSlice(a, _, _) => e = a,
                _ => return false,
            }
        }
    };
    stmts.iter().any(|s| match &s.kind {
        StmtKind::Assign(l, _) => target(l),
        StmtKind::Call(e) => match &e.kind {
            ExprKind::Call(c) => c.args.iter().flatten().any(&target),
            _ => false,
        },
        StmtKind::If(_, a, b) => assigned(a, v) || assigned(b, v),
        StmtKind::Block(b) | StmtKind::ForIn(_, _, b) => assigned(b, v),
        StmtKind::For(a, _, b, c) => assigned(a, v) || assigned(b, v) || assigned(c, v),
        StmtKind::Switch(_, cases, d) => {
            cases.iter().any(|(_, b)| assigned(b, v)) || d.as_ref().is_some_and(|b| assigned(b, v))
        }
        StmtKind::SwitchAction(_, cases, d) => {
            cases.iter().any(|(_, b)| assigned(b, v)) || d.as_ref().is_some_and(|b| assigned(b, v))
        }
        _ => false,
    })
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
