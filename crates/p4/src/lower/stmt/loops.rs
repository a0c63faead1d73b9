//! Loops, written out round by round as far as their ends are known.

use super::UNROLL_MAX;
use crate::hir::{self, ExprKind, ForSet, Stmt, StmtKind};
use crate::lower::fold::binary;
use crate::lower::operand::V;
use crate::lower::step::Step;
use crate::lower::{Lower, Result};
use crate::source::Span;
use crate::types::*;
use ir::{BinaryOp, Bits, Expr, Op};
use std::collections::HashSet;

/// A variable is written somewhere in these statements.
pub(super) fn assigned(stmts: &[Stmt], v: VarId) -> bool {
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

impl Lower<'_> {
    pub(super) fn for_loop(
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
    pub(super) fn ends(&mut self, condition: &hir::Expr, update: &[Stmt]) -> Result<bool> {
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

    pub(super) fn unroll(
        &mut self,
        condition: &hir::Expr,
        update: &[Stmt],
        body: &[Stmt],
        on_break: crate::lower::step::Label,
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
    pub(super) fn open_loop(
        &mut self,
        span: Span,
        more: &mut dyn FnMut(&mut Self) -> Result<Expr>,
        round: &mut dyn FnMut(&mut Self, crate::lower::step::Label) -> Result<()>,
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

    pub(super) fn for_in(
        &mut self,
        v: VarId,
        set: &ForSet,
        body: &[Stmt],
        span: Span,
    ) -> Result<()> {
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
    pub(super) fn for_range(
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

    pub(super) fn keep_place(&mut self, v: &V, ty: TyId, span: Span) -> Result<V> {
        let home = self.alloc(ty, "tmp.loop", span)?;
        self.assign(&home, v, span)?;
        Ok(home)
    }
}
