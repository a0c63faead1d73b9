//! Tables (specification §14.2): properties, keys, actions, entries.

use super::names::Sym;
use super::{Checker, Place};
use crate::ast::{self, Direction, ExprKind as A, Ident, PropertyValue};
use crate::diag::Diagnostic;
use crate::hir::*;
use crate::source::Span;
use crate::types::*;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive, Zero};
use std::collections::HashMap;
use std::rc::Rc;

/// Properties that the specification or an architecture gives a meaning.
const KNOWN: &[&str] = &[
    "key",
    "actions",
    "default_action",
    "entries",
    "size",
    "implementation",
    "counters",
    "meters",
    "support_timeout",
    "largest_priority_wins",
    "priority_delta",
    "psa_implementation",
    "psa_direct_counter",
    "psa_direct_meter",
    "psa_idle_timeout",
    "pna_implementation",
    "pna_direct_counter",
    "pna_direct_meter",
    "pna_idle_timeout",
    "add_on_miss",
];

impl Checker<'_> {
    pub(super) fn table(
        &mut self,
        name: &Ident,
        properties: &[ast::Property],
        annotations: Rc<[ast::Annotation]>,
    ) -> TableId {
        let old = std::mem::replace(&mut self.context.place, Place::Table);
        let mut table = Table {
            name: name.name.clone(),
            span: name.span,
            keys: Vec::new(),
            actions: Vec::new(),
            default: None,
            default_const: false,
            entries: Vec::new(),
            entries_const: false,
            size: None,
            largest_priority_wins: true,
            priority_delta: 1,
            properties: Vec::new(),
            annotations,
        };
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for p in properties {
            if let Some(first) = seen.insert(&p.name.name, p.name.span) {
                let text = format!("the property `{}` is there twice", p.name.name);
                let d = Diagnostic::error("duplicate-name", p.name.span, text);
                self.d.add(d.note(first, "it is here, too"));
                continue;
            }
            match &p.value {
                PropertyValue::Key(keys) => table.keys = self.keys(keys),
                PropertyValue::Actions(actions) => self.actions(&mut table, actions),
                PropertyValue::Entries(entries) => {
                    table.entries_const = p.is_const;
                    let keyed = |q: &ast::Property| matches!(&q.value, PropertyValue::Key(keys) if !keys.is_empty());
                    let empty = seen.contains_key("key") && entries.is_empty();
                    if !empty && !properties.iter().any(keyed) {
                        let text = format!(
                            "the table `{}` has no keys, so it holds no entries",
                            name.name
                        );
                        let d = Diagnostic::error("bad-table", p.name.span, text);
                        self.d.add(d.help(
                            "add `key = { ... }`, or say with `default_action` what it does",
                        ));
                        continue;
                    }
                    for needed in ["key", "actions"] {
                        if !seen.contains_key(needed) {
                            let text = format!("`entries` comes before `{needed}`");
                            let d = Diagnostic::error("bad-table", p.name.span, text);
                            let there = properties.iter().any(|q| &*q.name.name == needed);
                            self.d.add(d.help(if there {
                                format!("move `{needed}` in front of it")
                            } else {
                                format!("a table with entries has a `{needed}`")
                            }));
                        }
                    }
                    if !seen.contains_key("key") {
                        continue;
                    }
                    // Priorities may depend on properties further down.
                    for q in properties {
                        self.priority_property(&mut table, q);
                    }
                    self.entries(&mut table, entries);
                }
                PropertyValue::Expr(e) => match &*p.name.name {
                    "default_action" => {
                        table.default_const = p.is_const;
                        if !seen.contains_key("actions")
                            && properties.iter().any(|q| &*q.name.name == "actions")
                        {
                            let d = Diagnostic::error(
                                "bad-table",
                                p.name.span,
                                "`default_action` comes before `actions`",
                            );
                            self.d.add(d.help("move `actions` in front of it"));
                        } else {
                            table.default = self.default_action(&table, e);
                        }
                    }
                    "size" => {
                        let e = self.expr(e);
                        match (&e.value, self.p.ty(e.ty)) {
                            (_, Ty::Bad) => {}
                            (Some(Const::Int(n)), _) if !n.is_negative() => {}
                            (None, Ty::Bit(_) | Ty::Int) if self.known(&e) => {}
                            _ => {
                                let text =
                                    "a table's size is a positive number known at compile time";
                                self.error("bad-table", e.span, text);
                            }
                        }
                        table.size = Some(e);
                    }
                    "largest_priority_wins" | "priority_delta" => {
                        self.priority_property(&mut table, p)
                    }
                    word => {
                        if !KNOWN.contains(&word) {
                            let text = format!("no table has a property `{word}`");
                            let d = Diagnostic::warning("unknown-property", p.name.span, text);
                            self.d.add(d.nearest(word, KNOWN.iter().copied()));
                        }
                        table.properties.push(Property {
                            name: p.name.name.clone(),
                            value: self.expr(e),
                            annotations: p.annotations.clone().into(),
                        });
                    }
                },
            }
        }
        if !seen.contains_key("actions") {
            let text = format!("the table `{}` lists no actions", name.name);
            let d = Diagnostic::error("bad-table", name.span, text);
            self.d.add(d.help("add `actions = { ... }`"));
        }
        self.context.place = old;
        let id = TableId(self.p.tables.len() as u32);
        self.p.tables.push(table);
        self.declare(name, Sym::Table(id));
        id
    }

    fn priority_property(&mut self, table: &mut Table, p: &ast::Property) {
        let PropertyValue::Expr(e) = &p.value else { return };
        match &*p.name.name {
            "largest_priority_wins" => {
                let e = self.expr(e);
                match e.value {
                    Some(Const::Bool(b)) => table.largest_priority_wins = b,
                    _ => {
                        self.error("bad-table", e.span, "`largest_priority_wins` is true or false")
                    }
                }
            }
            "priority_delta" => {
                let e = self.expr(e);
                match &e.value {
                    Some(Const::Int(n)) if n.is_positive() && n.to_u32().is_some() => {
                        table.priority_delta = n.to_u32().unwrap_or(1);
                    }
                    _ => self.error("bad-table", e.span, "`priority_delta` is a positive number"),
                }
            }
            _ => {}
        }
    }

    fn keys(&mut self, keys: &[ast::Key]) -> Vec<Key> {
        let mut out = Vec::new();
        for k in keys {
            let expr = self.expr(&k.expr);
            self.key_fits(expr.ty, k.expr.span);
            let kind = self.p.match_kinds.iter().position(|m| *m == k.kind.name);
            let kind = match kind {
                Some(i) => i as u32,
                None => {
                    let text = format!("there is no match kind `{}`", k.kind.name);
                    let known = self.p.match_kinds.clone();
                    let d = Diagnostic::error("unknown-match-kind", k.kind.span, text);
                    let mut d = d.nearest(&k.kind.name, known.iter().map(|n| &**n));
                    if known.is_empty() {
                        d = d.help("include <core.p4>, which declares exact, lpm and ternary");
                    }
                    self.d.add(d);
                    0
                }
            };
            let numeric = self.width_of(expr.ty).is_some();
            if matches!(&*k.kind.name, "lpm" | "range")
                && !numeric
                && *self.p.ty(expr.ty) != Ty::Bad
                && !matches!(self.p.ty(expr.ty), Ty::Var(_))
            {
                let text = format!(
                    "`{}` compares numbers, and this is {}",
                    k.kind.name,
                    self.show(expr.ty)
                );
                self.error("bad-key", k.expr.span, text);
            }
            out.push(Key {
                expr,
                text: Self::text_of(&k.expr),
                kind,
                annotations: k.annotations.as_slice().into(),
            });
        }
        let lpm: Vec<Span> =
            keys.iter().filter(|k| &*k.kind.name == "lpm").map(|k| k.kind.span).collect();
        if let [first, second, ..] = lpm.as_slice() {
            let d = Diagnostic::error("bad-key", *second, "a table has at most one `lpm` key");
            self.d.add(
                d.note(*first, "the first one is here")
                    .help("make the others `ternary` or `exact`"),
            );
        }
        out
    }

    fn find_action(&mut self, path: &ast::Path) -> Option<ActionId> {
        match self.find(path).map(|e| e.sym.clone()) {
            Some(Sym::Action(id)) => Some(id),
            Some(Sym::Bad) => None,
            Some(other) => {
                let text = format!(
                    "an action is needed here, and `{}` is {}",
                    path.ident.name,
                    other.what()
                );
                self.error("not-an-action", path.ident.span, text);
                None
            }
            None => {
                self.unknown(path, |s| matches!(s, Sym::Action(_)));
                None
            }
        }
    }

    fn actions(&mut self, table: &mut Table, actions: &[ast::ActionRef]) {
        for a in actions {
            let Some(id) = self.find_action(&a.path) else { continue };
            if let Some(old) = table.actions.iter().find(|o| o.action == id) {
                let text = format!("the action `{}` is listed twice", a.path.ident.name);
                let d = Diagnostic::error("duplicate-name", a.span, text);
                let d = d.note(old.span, "it is here, too");
                self.d.add(d);
                continue;
            }
            let params = self.p.actions[id.index()].params.clone();
            let directed: Vec<Param> =
                params.iter().filter(|p| p.direction != Direction::None).cloned().collect();
            let args = self.bound_args(
                &a.path.ident,
                &directed,
                a.args.as_deref().unwrap_or_default(),
                a.span,
                false,
            );
            let mut full = args;
            full.resize(params.len(), None);
            let named = a.args.iter().flatten().filter_map(|arg| arg.name.as_ref());
            let order = named.filter_map(|n| params.iter().position(|p| p.name == n.name));
            let order = order.collect();
            table.actions.push(ActionCall {
                action: id,
                args: full,
                order,
                annotations: a.annotations.as_slice().into(),
                span: a.span,
            });
        }
    }

    /// Arguments by position or name, for just these parameters.
    fn bound_args(
        &mut self,
        name: &Ident,
        params: &[Param],
        args: &[ast::Arg],
        span: Span,
        known: bool,
    ) -> Vec<Option<Expr>> {
        let mut out: Vec<Option<Expr>> = vec![None; params.len()];
        for (i, arg) in args.iter().enumerate() {
            let at = match &arg.name {
                Some(n) => params.iter().position(|p| p.name == n.name),
                None => Some(i).filter(|i| *i < params.len()),
            };
            let Some(at) = at else {
                let text = match &arg.name {
                    Some(n) => {
                        format!("`{}` has no parameter `{}` to give here", name.name, n.name)
                    }
                    None => format!(
                        "`{}` takes {} arguments here, not {}",
                        name.name,
                        params.len(),
                        args.len()
                    ),
                };
                let d = Diagnostic::error("bad-arguments", arg.span, text);
                self.d.add(if known {
                    d
                } else {
                    d.help("parameters without direction come from the control plane")
                });
                return out;
            };
            let Some(value) = &arg.value else {
                self.error("bad-arguments", arg.span, "`_` is no argument of an action");
                continue;
            };
            let e = self.expr(value);
            let p = &params[at];
            let e = match p.direction {
                Direction::Out | Direction::InOut => {
                    if let Some(why) = self.not_writable(&e) {
                        let text = format!(
                            "the argument of `{}{}` is not a place to write to",
                            p.direction.word(),
                            p.name
                        );
                        let d = Diagnostic::error("not-writable", e.span, text);
                        self.d.add(d.note(Span::default(), why));
                    }
                    if !self.unify(e.ty, p.ty) {
                        let text =
                            format!("expected {}, found {}", self.show(p.ty), self.show(e.ty));
                        self.error("type-mismatch", e.span, text);
                    }
                    e
                }
                _ => self.coerce(e, p.ty),
            };
            if known && p.direction == Direction::None && !self.known(&e) {
                let text = format!(
                    "the argument of `{}` is known at compile time, and this is not",
                    p.name
                );
                self.error("not-constant", e.span, text);
            }
            out[at] = Some(e);
        }
        for (p, o) in params.iter().zip(&mut out) {
            if o.is_none() {
                if let Some(default) = &p.default {
                    *o = Some(default.clone());
                } else if !p.optional {
                    let text =
                        format!("the parameter `{}` of `{}` has no argument", p.name, name.name);
                    let d = Diagnostic::error("bad-arguments", span, text);
                    self.d.add(d.note(p.span, "it is declared here"));
                }
            }
        }
        out
    }

    /// An action with all its arguments, as default or in an entry.
    fn action_call(
        &mut self,
        table: &Table,
        path: &ast::Path,
        args: &[ast::Arg],
        span: Span,
        default: bool,
    ) -> Option<ActionCall> {
        let id = self.find_action(path)?;
        let Some(listed) = table.actions.iter().find(|a| a.action == id).cloned() else {
            let text = format!(
                "the table `{}` does not list the action `{}`",
                table.name, path.ident.name
            );
            let d = Diagnostic::error("not-listed", span, text);
            self.d.add(d.help("add it to `actions`"));
            return None;
        };
        let only = if default { "tableonly" } else { "defaultonly" };
        if annotated(&listed.annotations, only) {
            let text = format!("the action `{}` is listed as @{only}", path.ident.name);
            let d = Diagnostic::error("not-listed", span, text);
            self.d.add(d.note(listed.span, "here"));
        }
        let params = self.p.actions[id.index()].params.clone();
        let directed = params.iter().filter(|p| p.direction != Direction::None).count();
        // The bound ones are written again in a default action (§14.2.1.3), and may be left out.
        let rest: Vec<Param> =
            params.iter().filter(|p| p.direction == Direction::None).cloned().collect();
        let by_name = args.iter().any(|a| a.name.is_some());
        let given_bound = if by_name {
            args.iter().any(|a| {
                a.name.as_ref().is_some_and(|n| {
                    params.iter().any(|p| p.name == n.name && p.direction != Direction::None)
                })
            })
        } else {
            args.len() > rest.len()
        };
        let mut full: Vec<Option<Expr>> = Vec::new();
        if given_bound && directed > 0 {
            let given = self.bound_args(&path.ident, &params, args, span, true);
            for (i, p) in params.iter().enumerate() {
                if p.direction != Direction::None
                    && let (Some(a), Some(Some(b))) = (&given[i], listed.args.get(i))
                    && !same_expr(a, b)
                {
                    let text =
                        format!("the argument of `{}` differs from the one in `actions`", p.name);
                    let d = Diagnostic::error("bad-arguments", a.span, text);
                    self.d.add(d.note(b.span, "it is bound here"));
                }
            }
            full.extend(given);
        } else if directed > 0 && rest.is_empty() && args.is_empty() || directed == 0 {
            full.extend(listed.args.iter().take(directed).cloned());
            full.extend(self.bound_args(&path.ident, &rest, args, span, true));
        } else {
            if !by_name && directed > 0 && default {
                let text = format!(
                    "`{}` takes {} arguments here, those with a direction included",
                    path.ident.name,
                    params.len()
                );
                self.error("bad-arguments", span, text);
                return None;
            }
            full.extend(listed.args.iter().take(directed).cloned());
            full.extend(self.bound_args(&path.ident, &rest, args, span, true));
        }
        // In the order of the parameters: those with a direction come first (§14.1).
        let order = listed.order;
        Some(ActionCall { action: id, args: full, order, annotations: listed.annotations, span })
    }

    fn default_action(&mut self, table: &Table, e: &ast::Expr) -> Option<ActionCall> {
        match &e.kind {
            A::Path(path) => self.action_call(table, path, &[], e.span, true),
            A::Call(f, _, args) => match &f.kind {
                A::Path(path) => self.action_call(table, path, args, e.span, true),
                _ => {
                    self.error(
                        "not-an-action",
                        f.span,
                        "the default action is an action's name with arguments",
                    );
                    None
                }
            },
            _ => {
                self.error(
                    "not-an-action",
                    e.span,
                    "the default action is an action's name with arguments",
                );
                None
            }
        }
    }

    fn entries(&mut self, table: &mut Table, entries: &[ast::Entry]) {
        let kinds: Vec<String> = table
            .keys
            .iter()
            .map(|k| {
                self.p.match_kinds.get(k.kind as usize).map_or(String::new(), |n| n.to_string())
            })
            .collect();
        let has_lpm = kinds.iter().any(|k| k == "lpm");
        let prioritised =
            kinds.iter().any(|k| matches!(k.as_str(), "ternary" | "range" | "optional"));
        for e in entries {
            let keys = match e.keys.as_slice() {
                // `{a, b}` in place of `(a, b)`.
                [ast::Expr { kind: A::List(items, false), .. }]
                    if items.len() == table.keys.len() =>
                {
                    items
                }
                keys => keys,
            };
            // `_` or `default` alone stands for all keys.
            let all = keys.len() == 1
                && table.keys.len() > 1
                && matches!(keys[0].kind, A::Default | A::Dontcare);
            let key_list: Vec<&ast::Expr> = if all {
                (0..table.keys.len()).map(|_| &keys[0]).collect()
            } else {
                keys.iter().collect()
            };
            if key_list.len() != table.keys.len() {
                let text = format!("{} sets for {} keys", key_list.len(), table.keys.len());
                self.error("bad-entry", e.span, text);
                continue;
            }
            let mut sets = Vec::new();
            for (i, k) in key_list.iter().enumerate() {
                let ty = table.keys[i].expr.ty;
                let set = self.set(k, ty);
                self.set_known(&set);
                self.entry_set(&set, &kinds[i], k.span);
                sets.push(set);
            }
            let priority = match &e.priority {
                None => None,
                Some(p) => {
                    let value = self.expr(p);
                    if !prioritised {
                        let why = if has_lpm { "lpm" } else { "exact" };
                        let text = format!("a table of {why} keys has no priorities");
                        self.error("bad-entry", p.span, text);
                    }
                    match value.value {
                        Some(Const::Int(n)) if !n.is_negative() && n.to_u32().is_some() => Some(n),
                        _ => {
                            self.error(
                                "bad-entry",
                                p.span,
                                "a priority is a number of 32 bits, known at compile time",
                            );
                            None
                        }
                    }
                }
            };
            if table.entries_const && e.is_const {
                let d = Diagnostic::warning(
                    "redundant",
                    e.span,
                    "all of these entries are constant already",
                );
                self.d.add(d);
            }
            let Some(action) = self.action_call(
                table,
                &e.action.path,
                e.action.args.as_deref().unwrap_or_default(),
                e.action.span,
                false,
            ) else {
                continue;
            };
            table.entries.push(Entry {
                is_const: e.is_const || table.entries_const,
                priority,
                annotated_priority: e
                    .annotations
                    .iter()
                    .filter(|a| &*a.name.name == "priority")
                    .find_map(|a| match &a.body {
                        ast::AnnotationBody::Tokens(tokens) => {
                            tokens.iter().find_map(|t| match &t.tok {
                                crate::lex::Tok::Int(text) => crate::literal::integer(text)
                                    .ok()
                                    .and_then(|i| i.value.to_u32()),
                                _ => None,
                            })
                        }
                        _ => None,
                    }),
                keys: sets,
                action,
                span: e.span,
            });
        }
    }

    /// A set that the key's match kind can compare.
    fn entry_set(&mut self, set: &Expr, kind: &str, span: Span) {
        let (bad, help) = match (&set.kind, kind) {
            (ExprKind::Bad, _) => return,
            (ExprKind::Any, "exact") => ("`_`", "an exact key has a value"),
            (ExprKind::Mask(..), "exact") => ("a mask", "make the key `ternary`"),
            (ExprKind::Mask(..), "range" | "optional") => ("a mask", "make the key `ternary`"),
            (ExprKind::Range(..), "exact" | "lpm" | "ternary" | "optional") => {
                ("a range", "make the key `range`")
            }
            (ExprKind::Mask(_, mask), "lpm") => {
                let Some(Const::Int(m)) = &mask.value else { return };
                let width = self.width_of(mask.ty).map_or(0, |w| w.0);
                // Ones, then zeros.
                let inverse = ((BigInt::from(1) << width) - 1u32) ^ m;
                if (&inverse & (&inverse + 1u32)).is_zero() {
                    return;
                }
                ("a mask that is no prefix", "a prefix's mask is ones followed by zeros")
            }
            (ExprKind::ValueSet(_), _) => ("a value set", "value sets are for parsers"),
            _ => return,
        };
        let text = format!("{bad} for a key that is compared `{kind}`");
        self.d.add(Diagnostic::error("bad-entry", span, text).help(help));
    }
}

/// The same place or value, written twice.
fn same_expr(a: &Expr, b: &Expr) -> bool {
    if a.value.is_some() || b.value.is_some() {
        return a.value == b.value;
    }
    match (&a.kind, &b.kind) {
        (ExprKind::Var(x), ExprKind::Var(y)) => x == y,
        (ExprKind::Field(x, i), ExprKind::Field(y, j)) => i == j && same_expr(x, y),
        (ExprKind::Index(x, i), ExprKind::Index(y, j)) => same_expr(x, y) && same_expr(i, j),
        (ExprKind::Slice(x, a, b), ExprKind::Slice(y, c, d)) => a == c && b == d && same_expr(x, y),
        (ExprKind::Cast(x), ExprKind::Cast(y)) => a.ty == b.ty && same_expr(x, y),
        (ExprKind::Unary(o, x), ExprKind::Unary(p, y)) => o == p && same_expr(x, y),
        (ExprKind::Binary(o, a, b), ExprKind::Binary(p, c, d)) => {
            o == p && same_expr(a, c) && same_expr(b, d)
        }
        (ExprKind::Aggregate(xs), ExprKind::Aggregate(ys)) => {
            xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| same_expr(x, y))
        }
        (ExprKind::Call(x), ExprKind::Call(y)) => match (&x.callee, &y.callee) {
            (Callee::Function(f), Callee::Function(g)) => {
                f == g
                    && x.args.iter().zip(&y.args).all(|(a, b)| match (a, b) {
                        (Some(a), Some(b)) => same_expr(a, b),
                        (a, b) => a.is_none() && b.is_none(),
                    })
            }
            _ => false,
        },
        (ExprKind::Bad, _) | (_, ExprKind::Bad) => true,
        _ => false,
    }
}
