//! Calls: arguments go in and out; bodies that are known are followed, tables branch into their actions.

use super::state::State;
use super::walker::{Body, STEPS_MAX, Walker};
use crate::ast::Direction;
use crate::hir::{ActionCall, Builtin, Call, Callee, Expr, ExprKind, Param};
use crate::types::*;

impl Walker<'_> {
    /// The table that an expression applies.
    pub(super) fn applied(e: &Expr) -> Option<TableId> {
        match &e.kind {
            ExprKind::Call(call) => match call.callee {
                Callee::Table(id) => Some(id),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn call(&mut self, e: &Expr, c: &Call) {
        let p = self.p;
        match &c.callee {
            Callee::Builtin(object, builtin) => {
                self.indices(object);
                c.args.iter().flatten().for_each(|arg| self.eval(arg));
                match builtin {
                    Builtin::IsValid => self.ask(object),
                    Builtin::SetValid => self.make(object, true, e.span),
                    Builtin::SetInvalid => self.make(object, false, e.span),
                    // Which elements move where is not followed.
                    Builtin::PushFront | Builtin::PopFront => self.write(object),
                }
            }
            Callee::Function(id) => {
                let f = &p.functions[id.index()];
                self.arguments(&f.signature.params, c);
                match &f.body {
                    Some(_)
                        if self.known_end(
                            Body::Function(*id),
                            &f.signature.params,
                            &c.args,
                            e.span,
                        ) => {}
                    Some(body) => {
                        self.quiet += 1;
                        self.follow(&f.signature.params, &c.args, &mut |w| w.stmts(body));
                        self.quiet -= 1;
                    }
                    None => self.all_written(&f.signature.params, &c.args),
                }
            }
            Callee::Method(object, ext, which) => {
                let params = &p.externs[ext.index()].methods[*which].params;
                self.arguments(params, c);
                if let ExprKind::Instance(id) = &object.kind {
                    self.methods(&p.instances[id.index()].functions);
                }
                self.all_written(params, &c.args);
            }
            Callee::Action(id) => {
                let a = &p.actions[id.index()];
                self.arguments(&a.params, c);
                self.action(*id, &c.args);
            }
            Callee::Apply(_, id) => {
                let a = &p.applicables[id.index()];
                self.arguments(&a.params, c);
                let Some(body) = &a.body else {
                    return self.all_written(&a.params, &c.args);
                };
                if self.known_end(Body::Apply(*id), &a.params, &c.args, e.span) {
                    return;
                }
                self.quiet += 1;
                self.follow(&a.params, &c.args, &mut |w| {
                    w.stmts(&body.locals);
                    match a.is_parser {
                        true => drop(w.graph(body)),
                        false => w.stmts(&body.apply),
                    }
                });
                self.quiet -= 1;
            }
            Callee::Table(id) => {
                let before = self.state.clone();
                let ways = self.table(*id);
                self.state = State::default();
                ways.iter().for_each(|(_, way)| self.state.join(way));
                self.state.forget_asked(&before);
            }
        }
    }

    /// Methods that an instance defines, which its other methods may call.
    fn methods(&mut self, functions: &[FunctionId]) {
        let p = self.p;
        for id in functions {
            let f = &p.functions[id.index()];
            let Some(body) = &f.body else { continue };
            self.quiet += 1;
            self.follow(&f.signature.params, &[], &mut |w| w.stmts(body));
            self.quiet -= 1;
        }
    }

    /// What arguments read, in the order in which they are written.
    fn arguments(&mut self, params: &[Param], c: &Call) {
        for i in c.written() {
            if let (Some(param), Some(Some(arg))) = (params.get(i), c.args.get(i)) {
                self.argument(param, arg);
            }
        }
    }

    fn argument(&mut self, param: &Param, arg: &Expr) {
        if param.direction != Direction::Out {
            return self.eval(arg);
        }
        self.indices(arg);
        self.use_fields(arg);
    }

    /// All that goes out is written.
    fn all_written(&mut self, params: &[Param], args: &[Option<Expr>]) {
        for (param, arg) in params.iter().zip(args) {
            if let (Direction::Out | Direction::InOut, Some(arg)) = (param.direction, arg) {
                self.write(arg);
            }
        }
    }

    /// A body with its parameters, whose arguments were evaluated.
    fn follow(&mut self, params: &[Param], args: &[Option<Expr>], body: &mut dyn FnMut(&mut Self)) {
        if !self.state.reached {
            return;
        }
        if self.steps > STEPS_MAX {
            return self.all_written(params, args);
        }
        let arg = |i: usize| args.get(i).and_then(|a| a.as_ref());
        for (i, param) in params.iter().enumerate() {
            self.declare(param.var, param.ty);
            let Some(to) = self.var(param.var) else { continue };
            match (param.direction, arg(i)) {
                (Direction::Out, _) => {}
                (_, Some(e)) => self.store(&to, e),
                (_, None) => self.set_var(param.var),
            }
        }
        let returns = std::mem::take(&mut self.returns);
        let loops = std::mem::take(&mut self.loops);
        body(self);
        let returned = std::mem::replace(&mut self.returns, returns);
        self.loops = loops;
        self.state.join(&returned);
        for (i, param) in params.iter().enumerate() {
            let (Direction::Out | Direction::InOut, Some(arg)) = (param.direction, arg(i)) else {
                continue;
            };
            self.write(arg);
            let (Some(from), Some(to)) = (self.var(param.var), self.place(arg)) else { continue };
            if from.ty == to.ty {
                self.copy(&from, &to);
            }
        }
    }

    /// An action, whose arguments were evaluated.
    fn action(&mut self, id: ActionId, args: &[Option<Expr>]) {
        let p = self.p;
        let a = &p.actions[id.index()];
        if self.quiet == 0 {
            self.followed.insert(id);
        }
        self.follow(&a.params, args, &mut |w| {
            w.stmts(&a.body);
            let returned = w.returns.take();
            w.state.join(&returned);
            w.unset_outs(&a.params, &a.name);
        });
    }

    /// A table: what is known behind each of its actions. Which one is run is for the entries to say, and they
    /// are often chosen so that headers are valid where they are used. So what one action makes invalid and
    /// another does not is no doubt about what follows.
    pub(super) fn table(&mut self, id: TableId) -> Vec<(ActionId, State)> {
        let t = &self.p.tables[id.index()];
        for key in &t.keys {
            self.eval(&key.expr);
        }
        let before = self.state.take();
        let mut ways: Vec<(ActionId, State)> = Vec::new();
        for call in t.actions.iter().chain(&t.default) {
            if !ways.iter().any(|(action, _)| *action == call.action) {
                self.state = before.clone();
                self.entry(call);
                let mut way = self.state.take();
                way.doubt_invalid(&before);
                ways.push((call.action, way));
            }
        }
        if ways.is_empty() {
            // Nothing to do for it; a name that no action has.
            ways.push((ActionId(u32::MAX), before));
        }
        ways
    }

    /// An action of a table with its arguments.
    fn entry(&mut self, call: &ActionCall) {
        let params = &self.p.actions[call.action.index()].params;
        for i in call.written() {
            if let (Some(param), Some(Some(arg))) = (params.get(i), call.args.get(i)) {
                self.argument(param, arg);
            }
        }
        self.action(call.action, &call.args);
    }
}
