//! Parsers: states, `select`, value sets, and parsers inside of others.

use crate::hir::{self, ExprKind, Target, annotation_text};
use crate::lower::fold::binary;
use crate::lower::step::Step;
use crate::lower::{Frame, Lower, Refused, Result, expr::calls, join};
use crate::source::Span;
use crate::types::*;
use ir::program::{Select, SelectCase, Transition};
use ir::{BinaryOp, Bits, Expr, ParserStateId};
use std::collections::HashMap;

impl Lower<'_> {
    /// A parser inside of a parser: its states are written out, and `accept` goes on after it.
    pub(super) fn sub_parser(&mut self, id: usize, body: &hir::Body, frame: Frame) -> Result<()> {
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
    pub(in crate::lower) fn parser_states(
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

    pub(super) fn select(
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

    pub(super) fn select_patterns(
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

    pub(super) fn value_set(&mut self, v: ValueSetId) -> Result<ir::ValueSetId> {
        if let Some(id) = self.v1.value_sets.get(&(self.frame.path.clone(), v)) {
            return Ok(*id);
        }
        let vs = self.p.value_sets[v.index()].clone();
        let size = self.scalar_constant(&vs.size)?;
        let width = self.total_width(vs.ty);
        let Some(width) = width.filter(|w| *w > 0) else {
            return self.refuse(vs.span, "a value set of this type is not supported");
        };
        let full = match annotation_text(&vs.annotations, "name") {
            Some(text) if text.starts_with('.') => text[1..].to_string(),
            Some(text) => join(&self.frame.path, text),
            None => join(&self.frame.path, &vs.name),
        };
        let unique = self.unique(&full);
        let id = self.b.value_set(&unique, width, size);
        self.names.value_sets.push((full, id, vec![width]));
        self.v1.value_sets.insert((self.frame.path.clone(), v), id);
        Ok(id)
    }
}
