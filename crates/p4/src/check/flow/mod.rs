//! Warnings of values that are used before they are there.
//!
//! ```p4
//! bit<8> x;                          uninitialised: nothing was written on any way to the read
//! if (c) { x = 1; }
//! m.y = x;                           maybe-uninitialised: on some way
//! h.a.setInvalid();
//! m.y = h.a.ttl;                     invalid-header; on some way, maybe-invalid-header
//! h.a.ttl = 7; h.a.setValid();       written-early
//! action f(out bit<8> r) { }         unset-out
//! ```
//!
//! A forward analysis of each parser, control, function and action, over the typed tree of a program without
//! errors. What is known at a point ([`state`]) has a few bits for each single value and for each header
//! ([`shape`]). Ways are joined where they meet. Parsers are graphs of states, run until nothing changes.
//! Actions are followed where they are called, with their arguments, and a table is a branch into its actions.
//! Functions, controls and parsers are followed for what they do to headers, and told of once, by themselves.
//!
//! What comes in from outside is taken as set and valid. `isValid()` in a condition decides for the branches;
//! behind them only what was done counts, not what was asked. So what is told is so on a way through the
//! program, whatever its conditions; a way on which two conditions exclude each other is taken, too.
//!
//! | module | holds |
//! |---|---|
//! | `shape`, `state` | places of a type's single values; what is known of each |
//! | `walker` | the walk itself: variables, places, what is told |
//! | `expr`, `call`, `stmt`, `graph` | expressions, calls and tables, statements, parsers |
//! | `early` | fields written in front of `setValid()` |
//!
//! Costs: a walk over each body, two for parsers and loops, one for each call of an action, and one for each other
//! call that gets headers that may be invalid; up to [`walker::STEPS_MAX`] statements for a body. Calls beyond
//! that are taken to set everything.

mod call;
mod early;
mod expr;
mod graph;
mod shape;
mod state;
mod stmt;
mod walker;

use crate::ast::Direction;
use crate::diag::{Diagnostic, Diagnostics};
use crate::hir::{Param, Program, Stmt};
use crate::types::{ActionId, ApplyId, FunctionId};
use walker::{Body, Walker};

/// Tells what is wrong in a program that has no errors.
pub(super) fn warn(p: &mut Program, d: &mut Diagnostics) {
    let mut types = std::mem::take(&mut p.types);
    let mut w = Walker::new(p, &mut types, d);
    for (id, f) in (0..).map(FunctionId).zip(&p.functions) {
        let Some(body) = &f.body else { continue };
        w.early(body);
        let params = &f.signature.params;
        body_alone(&mut w, Some(Body::Function(id)), params, body, &f.signature.name);
    }
    for (id, a) in (0..).map(ApplyId).zip(&p.applicables) {
        let Some(body) = &a.body else { continue };
        let lists = body.states.iter().map(|s| &s.stmts[..]);
        lists.chain([&body.apply[..]]).for_each(|list| w.early(list));
        body.actions.iter().for_each(|id| w.early(&p.actions[id.index()].body));
        w.begin(&a.params);
        w.stmts(&body.locals);
        if a.is_parser {
            let rejected = w.graph(body);
            w.ends(Some(Body::Apply(id)), &a.params);
            w.state.join(&rejected);
        } else {
            w.stmts(&body.apply);
            w.ends(Some(Body::Apply(id)), &a.params);
        }
        w.unset_outs(&a.params, &a.name);
        body.actions.iter().for_each(|id| alone(&mut w, p, *id));
    }
    let all = (0..p.actions.len() as u32).map(ActionId);
    all.for_each(|id| alone(&mut w, p, id));
    p.types = types;
}

/// An action that nobody calls.
fn alone(w: &mut Walker<'_>, p: &Program, id: ActionId) {
    if w.followed.contains(&id) {
        return;
    }
    w.followed.insert(id);
    let a = &p.actions[id.index()];
    body_alone(w, None, &a.params, &a.body, &a.name);
}

fn body_alone(
    w: &mut Walker<'_>,
    which: Option<Body>,
    params: &[Param],
    body: &[Stmt],
    name: &str,
) {
    w.begin(params);
    w.stmts(body);
    w.ends(which, params);
    w.unset_outs(params, name);
}

impl Walker<'_> {
    /// Tells of `out` parameters that are not written when a body ends.
    fn unset_outs(&mut self, params: &[Param], name: &str) {
        for param in params.iter().filter(|p| p.direction == Direction::Out) {
            let Some((certain, leaf)) = self.unset_leaf(param) else { continue };
            let text = match certain {
                true => format!("`{leaf}` is an `out` parameter, and `{name}` never writes it"),
                false => {
                    format!(
                        "`{leaf}` is an `out` parameter, and `{name}` may end before it writes it"
                    )
                }
            };
            let d = Diagnostic::warning("unset-out", param.span, text);
            self.tell(d.help("write it on every way through"));
        }
    }
}
