//! Warnings of values that are used before they are there: a variable read before anything is written to it, a
//! header's field used behind `setInvalid()`, a field written in front of `setValid()`.
//!
//! Statements of one list are followed from one to the next, up to the first that might change what is
//! known (a branch, a call, a mention in any other way). So what is told is certain on the way through
//! the list, and what hangs on a condition is not told. Costs: each list is read once for each
//! variable declared and each header set in it, up to [`AHEAD_MAX`] statements.

use super::Checker;
use crate::diag::Diagnostic;
use crate::hir::{Builtin, Callee, Expr, ExprKind, Stmt, StmtKind};
use crate::types::*;

/// Statements that are looked at behind one.
const AHEAD_MAX: usize = 64;

/// A variable, or a field of one and so on, without indices.
type Place = (VarId, Vec<u32>);

fn place(e: &Expr) -> Option<Place> {
    match &e.kind {
        ExprKind::Var(v) => Some((*v, Vec::new())),
        ExprKind::Field(inner, i) => {
            let (v, mut path) = place(inner)?;
            path.push(*i);
            Some((v, path))
        }
        _ => None,
    }
}

/// A plain expression: nothing in it is called or applied. Calls `f` on every place that it reads.
fn reads<'e>(e: &'e Expr, f: &mut dyn FnMut(&'e Expr, Place)) -> bool {
    if e.value.is_some() {
        return true;
    }
    if let Some(p) = place(e) {
        f(e, p);
        return true;
    }
    match &e.kind {
        ExprKind::Slice(a, ..) | ExprKind::Unary(_, a) | ExprKind::Cast(a) => reads(a, f),
        ExprKind::Binary(_, a, b) => reads(a, f) && reads(b, f),
        ExprKind::Const => true,
        _ => false,
    }
}

/// A call of `setValid` or `setInvalid`, and of what.
fn validity(s: &Stmt) -> Option<(Place, Builtin)> {
    let StmtKind::Call(e) = &s.kind else { return None };
    let ExprKind::Call(c) = &e.kind else { return None };
    match &c.callee {
        Callee::Builtin(object, b @ (Builtin::SetValid | Builtin::SetInvalid)) => {
            Some((place(object)?, *b))
        }
        _ => None,
    }
}

/// The first place is the second or a part of it.
fn within(part: &Place, whole: &Place) -> bool {
    part.0 == whole.0 && part.1.starts_with(&whole.1)
}

impl Checker<'_> {
    /// Tells what is certainly wrong in a list of statements.
    pub(super) fn follow(&mut self, stmts: &[Stmt]) {
        for (i, s) in stmts.iter().enumerate() {
            let ahead = &stmts[i + 1..stmts.len().min(i + 1 + AHEAD_MAX)];
            match &s.kind {
                StmtKind::Var(v, None) if self.is_single(*v) => self.unset(*v, ahead),
                StmtKind::Assign(l, _) => self.written_early(l, &stmts[..i], ahead),
                _ => {
                    if let Some((header, Builtin::SetInvalid)) = validity(s) {
                        self.used_invalid(&header, s, ahead);
                    }
                }
            }
        }
    }

    fn is_single(&self, v: VarId) -> bool {
        matches!(self.p.ty(self.p.vars[v.index()].ty), Ty::Bit(_) | Ty::Signed(_) | Ty::Bool)
    }

    /// A variable that is read in front of the first write.
    fn unset(&mut self, v: VarId, ahead: &[Stmt]) {
        for s in ahead {
            let (read, goes_on) = match &s.kind {
                StmtKind::Assign(l, r) => (Some(r), place(l).is_some_and(|p| p.0 != v)),
                StmtKind::Var(_, Some(r)) => (Some(r), true),
                StmtKind::Var(_, None) => (None, true),
                StmtKind::If(c, ..) => (Some(c), false),
                _ => (None, false),
            };
            let mut at = None;
            let plain = read.is_none_or(|r| {
                reads(r, &mut |e, p| {
                    if p.0 == v {
                        at.get_or_insert(e.span);
                    }
                })
            });
            if let Some(at) = at {
                let var = &self.p.vars[v.index()];
                let text = format!("`{}` is read before anything is written to it", var.name);
                let d = Diagnostic::warning("uninitialised", at, text);
                let d = d.note(var.span, "it is declared here");
                return self.d.add(d.help("give it a value where it is declared"));
            }
            if !plain || !goes_on {
                return;
            }
        }
    }

    /// A field that is written, and whose header then becomes valid.
    fn written_early(&mut self, l: &Expr, behind: &[Stmt], ahead: &[Stmt]) {
        let Some(field) = place(l) else { return };
        let ExprKind::Field(base, _) = &l.kind else { return };
        if !self.is_header(base.ty) {
            return;
        }
        // Of several writes the first is told.
        let header: Place = (field.0, field.1[..field.1.len() - 1].to_vec());
        let touched = |s: &Stmt| match &s.kind {
            StmtKind::Assign(l, _) => place(l).is_none_or(|p| within(&p, &header)),
            _ => validity(s).is_some_and(|(p, _)| p == header),
        };
        if behind.iter().any(touched) {
            return;
        }
        for s in ahead {
            match (&s.kind, validity(s)) {
                (_, Some((p, Builtin::SetValid))) if p == header => {
                    let text = "the field is written before its header becomes valid, and is lost";
                    let d = Diagnostic::warning("written-early", l.span, text);
                    let d = d.note(s.span, "the header becomes valid here, all its fields unset");
                    return self.d.add(d.help("call `setValid()` first"));
                }
                (StmtKind::Assign(..), _) => {}
                _ => return,
            }
        }
    }

    /// A field of a header that was made invalid.
    fn used_invalid(&mut self, header: &Place, by: &Stmt, ahead: &[Stmt]) {
        for s in ahead {
            let StmtKind::Assign(l, r) = &s.kind else { return };
            if place(l).is_none_or(|p| p == *header || within(header, &p)) {
                return;
            }
            let mut at = place(l).filter(|p| within(p, header)).map(|_| l.span);
            let plain = reads(r, &mut |e, p| {
                if within(&p, header) && p != *header {
                    at.get_or_insert(e.span);
                }
            });
            if let Some(at) = at {
                let d = Diagnostic::warning("invalid-header", at, "a field of an invalid header");
                let d = d.note(by.span, "the header becomes invalid here");
                return self.d.add(d.help("use the field first, or make the header valid"));
            }
            if !plain {
                return;
            }
        }
    }
}
