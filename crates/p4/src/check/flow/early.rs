//! Fields that are written in front of `setValid()`, which loses them.
//!
//! Statements of one list are followed from one to the next, and into every branch, up to the first that
//! might change what is known (a write, a call that may do one, a mention in any other way). Costs: what
//! follows in a list, branches included, is read once for each header of which a field is written in it, up to
//! [`AHEAD_MAX`] statements of each list.

use super::walker::Walker;
use crate::diag::Diagnostic;
use crate::hir::{Builtin, Callee, Expr, ExprKind, ForSet, Stmt, StmtKind};
use crate::source::Span;
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

/// The parts of an expression.
fn parts(e: &Expr) -> Vec<&Expr> {
    match &e.kind {
        ExprKind::Field(a, _)
        | ExprKind::Next(a)
        | ExprKind::Last(a)
        | ExprKind::LastIndex(a)
        | ExprKind::Slice(a, ..)
        | ExprKind::Unary(_, a)
        | ExprKind::Cast(a)
        | ExprKind::TableField(a, _) => vec![a],
        ExprKind::Index(a, b)
        | ExprKind::PlusSlice(a, b, _)
        | ExprKind::Binary(_, a, b)
        | ExprKind::Mask(a, b)
        | ExprKind::Range(a, b) => vec![a, b],
        ExprKind::Mux(a, b, c) => vec![a, b, c],
        ExprKind::Aggregate(all) | ExprKind::Reordered(all, _) | ExprKind::SetTuple(all) => {
            all.iter().collect()
        }
        ExprKind::Construct(made) => made.args.iter().flatten().collect(),
        ExprKind::Call(call) => {
            let object = match &call.callee {
                Callee::Method(object, ..)
                | Callee::Apply(object, _)
                | Callee::Builtin(object, _) => Some(object),
                Callee::Function(_) | Callee::Action(_) | Callee::Table(_) => None,
            };
            object.into_iter().chain(call.args.iter().flatten()).collect()
        }
        ExprKind::Const
        | ExprKind::Var(_)
        | ExprKind::Invalid
        | ExprKind::Instance(_)
        | ExprKind::Any
        | ExprKind::ValueSet(_)
        | ExprKind::This
        | ExprKind::Bad => Vec::new(),
    }
}

/// Something of the expression is so.
fn any(e: &Expr, so: &dyn Fn(&Expr) -> bool) -> bool {
    so(e) || parts(e).into_iter().any(|part| any(part, so))
}

/// The expressions of a statement, and the lists in it of which one is done, or none.
fn split(s: &Stmt) -> (Vec<&Expr>, Vec<&[Stmt]>) {
    match &s.kind {
        StmtKind::Assign(l, r) => (vec![r, l], Vec::new()),
        StmtKind::Call(e) => (vec![e], Vec::new()),
        StmtKind::If(c, then, or_else) => (vec![c], vec![then, or_else]),
        StmtKind::Block(all) => (Vec::new(), vec![all]),
        StmtKind::Return(e) | StmtKind::Var(_, e) => (e.iter().collect(), Vec::new()),
        StmtKind::SwitchAction(e, cases, otherwise) => {
            let cases = cases.iter().map(|(_, body)| &body[..]);
            (vec![e], cases.chain(otherwise.as_deref()).collect())
        }
        StmtKind::Switch(e, cases, otherwise) => {
            let labels = cases.iter().flat_map(|(labels, _)| labels);
            let bodies = cases.iter().map(|(_, body)| &body[..]);
            ([e].into_iter().chain(labels).collect(), bodies.chain(otherwise.as_deref()).collect())
        }
        StmtKind::For(init, c, update, body) => (vec![c], vec![init, update, body]),
        StmtKind::ForIn(_, set, body) => match set {
            ForSet::Range(a, b) => (vec![a, b], vec![body]),
            ForSet::Expr(e) => (vec![e], vec![body]),
        },
        StmtKind::Exit | StmtKind::Break | StmtKind::Continue | StmtKind::Instance(_) => {
            (Vec::new(), Vec::new())
        }
    }
}

/// The variable is mentioned.
fn names(e: &Expr, v: VarId) -> bool {
    any(e, &|e| matches!(&e.kind, ExprKind::Var(other) if *other == v))
}

/// Changes nothing of a header and does not ask whether it is valid. Actions and tables see what is around them;
/// other calls, what they are given.
fn harmless(e: &Expr, header: &Place) -> bool {
    let ExprKind::Call(call) = &e.kind else {
        return parts(e).into_iter().all(|part| harmless(part, header));
    };
    match &call.callee {
        Callee::Action(_) | Callee::Table(_) => false,
        Callee::Builtin(object, Builtin::IsValid | Builtin::SetValid | Builtin::SetInvalid) => {
            place(object).is_some_and(|p| p != *header)
        }
        _ => !parts(e).into_iter().any(|part| names(part, header.0)),
    }
}

/// What is behind such a statement in its list is not done.
fn leaves(s: &Stmt) -> bool {
    matches!(s.kind, StmtKind::Exit | StmtKind::Return(_) | StmtKind::Break | StmtKind::Continue)
}

/// What is in such a statement is done more than once.
fn loops(s: &Stmt) -> bool {
    matches!(s.kind, StmtKind::For(..) | StmtKind::ForIn(..))
}

/// What is found when statements are followed.
enum Found {
    /// The use that is looked for.
    Use(Span),
    /// What may change all that is known.
    End,
    /// Neither.
    Nothing,
}

/// What is found in lists of which one is done, or none. One that leaves before it changes anything is no way to
/// what follows.
fn branches(lists: Vec<&[Stmt]>, follow: &dyn Fn(&[Stmt]) -> Found) -> Found {
    let mut ended = false;
    for list in lists {
        match follow(list) {
            Found::Use(at) => return Found::Use(at),
            Found::End => ended = true,
            Found::Nothing => {}
        }
    }
    if ended { Found::End } else { Found::Nothing }
}

/// Where the header certainly becomes valid, before anything else is done with it.
fn made_valid(header: &Place, stmts: &[Stmt]) -> Found {
    for s in stmts.iter().take(AHEAD_MAX) {
        match validity(s) {
            Some((p, Builtin::SetValid)) if p == *header => return Found::Use(s.span),
            Some((p, _)) if p != *header => continue,
            _ => {}
        }
        let (exprs, lists) = split(s);
        if let StmtKind::Assign(l, r) = &s.kind {
            let whole = place(l).is_none_or(|p| within(header, &p));
            if whole || !harmless(r, header) {
                return Found::End;
            }
            continue;
        }
        if leaves(s) || loops(s) || !exprs.into_iter().all(|e| harmless(e, header)) {
            return Found::End;
        }
        match branches(lists, &|list| made_valid(header, list)) {
            Found::Nothing => {}
            found => return found,
        }
    }
    Found::Nothing
}

/// The first place is the second or a part of it.
fn within(part: &Place, whole: &Place) -> bool {
    part.0 == whole.0 && part.1.starts_with(&whole.1)
}

impl Walker<'_> {
    /// Tells of fields that are written too early in a list of statements.
    pub(super) fn early(&mut self, stmts: &[Stmt]) {
        for (i, s) in stmts.iter().enumerate() {
            if let StmtKind::Assign(l, _) = &s.kind {
                self.written_early(l, &stmts[..i], &stmts[i + 1..]);
            }
            split(s).1.into_iter().for_each(|list| self.early(list));
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
        let Found::Use(at) = made_valid(&header, ahead) else { return };
        let text = "the field is written before its header becomes valid, and is lost";
        let d = Diagnostic::warning("written-early", l.span, text);
        let d = d.note(at, "the header becomes valid here, all its fields unset");
        self.early.insert(l.span);
        self.tell(d.help("call `setValid()` first"));
    }
}
