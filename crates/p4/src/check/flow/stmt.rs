//! Statements: where ways part and meet.

use super::state::State;
use super::walker::{Loop, Place, STEPS_MAX, Walker};
use crate::hir::{Const, Expr, ExprKind, ForSet, Stmt, StmtKind, TableField};
use crate::types::{ActionId, VarId};

impl Walker<'_> {
    /// Statements one after the other.
    pub(super) fn stmts(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            if !self.state.reached {
                return;
            }
            self.steps += 1;
            self.stmt(s);
        }
    }

    fn stmt(&mut self, s: &Stmt) {
        match &s.kind {
            StmtKind::Assign(l, r) => self.assign(l, r),
            StmtKind::Call(e) => self.eval(e),
            StmtKind::If(c, then, or_else) => {
                let before = self.state.clone();
                let (yes, no) = self.condition(c);
                self.state = yes;
                self.stmts(then);
                let after = std::mem::replace(&mut self.state, no);
                self.stmts(or_else);
                self.state.join(&after);
                self.state.forget_asked(&before);
            }
            StmtKind::Block(all) => self.stmts(all),
            StmtKind::Exit => {
                let state = self.state.take();
                self.exits.join(&state);
            }
            StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.eval(value);
                }
                let state = self.state.take();
                self.returns.join(&state);
            }
            StmtKind::SwitchAction(e, cases, otherwise) => {
                self.switch_action(e, cases, otherwise.as_deref());
            }
            StmtKind::Switch(e, cases, otherwise) => {
                let before = self.state.clone();
                self.eval(e);
                let all = cases.iter().map(|(_, body)| &body[..]).chain(otherwise.as_deref());
                let all = match Self::chosen(e, cases) {
                    Some(None) => otherwise.iter().map(|body| &body[..]).collect(),
                    Some(Some(i)) => vec![&cases[i].1[..]],
                    None => all.collect::<Vec<_>>(),
                };
                let start = self.state.take();
                let mut end = State::default();
                for body in all {
                    self.state = start.clone();
                    self.stmts(body);
                    end.join(&self.state);
                }
                // Values for which there is no case.
                if otherwise.is_none() && !matches!(Self::chosen(e, cases), Some(Some(_))) {
                    end.join(&start);
                }
                end.forget_asked(&before);
                self.state = end;
            }
            StmtKind::For(init, c, update, body) => {
                self.stmts(init);
                self.repeat(&mut |w| {
                    let (yes, no) = w.condition(c);
                    w.state = yes;
                    w.turn(body);
                    w.stmts(update);
                    no
                });
            }
            StmtKind::ForIn(v, set, body) => self.for_in(*v, set, body),
            StmtKind::Break | StmtKind::Continue => {
                let state = self.state.take();
                if let Some(l) = self.loops.last_mut() {
                    match s.kind {
                        StmtKind::Break => l.breaks.join(&state),
                        _ => l.continues.join(&state),
                    }
                }
            }
            StmtKind::Var(v, value) => {
                if let Some(e) = value {
                    self.eval(e);
                }
                if !self.state.reached {
                    return;
                }
                self.declare(*v, self.p.vars[v.index()].ty);
                if let (Some(e), Some(to)) = (value, self.var(*v)) {
                    self.store(&to, e);
                }
            }
            StmtKind::Instance(_) => {}
        }
    }

    /// The case that a value known at compile time takes (or none), if all is known.
    fn chosen(e: &Expr, cases: &[(Vec<Expr>, Vec<Stmt>)]) -> Option<Option<usize>> {
        let value = e.value.as_ref()?;
        for (i, (labels, _)) in cases.iter().enumerate() {
            for label in labels {
                if label.value.as_ref()? == value {
                    return Some(Some(i));
                }
            }
        }
        Some(None)
    }

    /// `l = r`.
    fn assign(&mut self, l: &Expr, r: &Expr) {
        self.eval(r);
        self.indices(l);
        self.use_fields(match &l.kind {
            ExprKind::Slice(inner, ..) | ExprKind::PlusSlice(inner, ..) => inner,
            _ => l,
        });
        // What is known of the value, before the write to another member of its union.
        let from = self.place(r).filter(|_| r.value.is_none());
        let from = from.filter(|p| p.bases.len() == 1 && p.ty == l.ty);
        let known = from.map(|p| self.known(&p));
        self.write(l);
        let Some(to) = self.place(l) else { return };
        match known {
            Some(known) => self.give(&to, &known),
            None => self.store(&to, r),
        }
    }

    fn switch_action(
        &mut self,
        e: &Expr,
        cases: &[(Vec<ActionId>, Vec<Stmt>)],
        otherwise: Option<&[Stmt]>,
    ) {
        let before = self.state.clone();
        let table = match &e.kind {
            ExprKind::TableField(inner, TableField::ActionRun) => Self::applied(inner),
            _ => Self::applied(e),
        };
        let ways = match table {
            Some(id) => self.table(id),
            None => {
                self.eval(e);
                vec![(ActionId(u32::MAX), self.state.take())]
            }
        };
        let mut end = State::default();
        let named = |a: &ActionId| cases.iter().any(|(labels, _)| labels.contains(a));
        let bodies = cases.iter().map(|(labels, body)| (Some(labels), &body[..]));
        for (labels, body) in bodies.chain([(None, otherwise.unwrap_or_default())]) {
            self.state = State::default();
            for (action, way) in &ways {
                let taken = match labels {
                    Some(labels) => table.is_none() || labels.contains(action),
                    None => !named(action),
                };
                if taken {
                    self.state.join(way);
                }
            }
            self.stmts(body);
            end.join(&self.state);
        }
        end.forget_asked(&before);
        self.state = end;
    }

    /// The body of a loop once, up to where its `continue`s meet.
    fn turn(&mut self, body: &[Stmt]) {
        self.stmts(body);
        if let Some(l) = self.loops.last_mut() {
            let continues = l.continues.take();
            self.state.join(&continues);
        }
    }

    /// A turn again and again, until it changes nothing; a turn gives the state in which the loop ends before
    /// it. Then once more, to tell.
    fn repeat(&mut self, turn: &mut dyn FnMut(&mut Self) -> State) {
        self.quiet += 1;
        while self.state.reached && self.steps <= STEPS_MAX {
            let head = self.state.clone();
            self.loops.push(Loop::default());
            turn(self);
            self.loops.pop();
            self.state.join(&head);
            if self.state == head {
                break;
            }
        }
        self.quiet -= 1;
        self.loops.push(Loop::default());
        let mut end = turn(self);
        if let Some(l) = self.loops.pop() {
            end.join(&l.breaks);
        }
        self.state = end;
    }

    fn for_in(&mut self, v: VarId, set: &ForSet, body: &[Stmt]) {
        let once = match set {
            ForSet::Range(a, b) => {
                self.eval(a);
                self.eval(b);
                matches!((&a.value, &b.value), (Some(Const::Int(a)), Some(Const::Int(b))) if a <= b)
            }
            ForSet::Expr(e) => {
                self.eval(e);
                false
            }
        };
        let ty = self.p.vars[v.index()].ty;
        let step = |w: &mut Self| {
            w.declare(v, ty);
            w.set_var(v);
            if let (ForSet::Expr(e), Some(to)) = (set, w.var(v))
                && let Some(from) = w.place(e)
                && let Some((count, each, element)) = w.shape(from.ty).elements()
                && let ([base], true) = (&from.bases[..], element == to.ty)
            {
                // All elements are alike, or nothing is known of the one at hand.
                let at = |i: u32| Place { bases: vec![base + i * each], ty: element };
                let first = w.known(&at(0));
                if (1..count).all(|i| w.known(&at(i)) == first) {
                    w.give(&to, &first);
                }
            }
        };
        // The first turn by itself, if there is one for certain.
        if once {
            self.loops.push(Loop::default());
            step(self);
            self.turn(body);
            let breaks = self.loops.pop().map(|l| l.breaks);
            self.repeat(&mut |w| {
                let end = w.state.clone();
                step(w);
                w.turn(body);
                end
            });
            breaks.iter().for_each(|way| self.state.join(way));
            return;
        }
        self.repeat(&mut |w| {
            let end = w.state.clone();
            step(w);
            w.turn(body);
            end
        });
    }
}
