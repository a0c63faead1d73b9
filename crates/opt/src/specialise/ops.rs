//! Facts through operations, which become better ones on the way.

use super::{Flow, Path};
use crate::known::Known;
use crate::state::State;
use ir::program::intrinsic;
use ir::{Copy, Expr, FieldRef, Op};
use smallvec::smallvec;

impl Flow<'_> {
    /// Goes through a list of operations; with `out`, writes what is left of it.
    pub(super) fn ops(
        &mut self,
        ops: &[Op],
        path: &mut Path,
        args: &[Known],
        mut out: Option<&mut Vec<Op>>,
    ) {
        for op in ops {
            if path.state.is_none() {
                return;
            }
            self.op(op, path, args, out.as_deref_mut());
        }
    }

    fn op(&mut self, op: &Op, path: &mut Path, args: &[Known], out: Option<&mut Vec<Op>>) {
        let (program, fold) = (self.program, self.options.fold);
        let build = out.is_some();
        let Some(state) = &mut path.state else { return };
        let same = || build.then(|| op.clone());
        let mut ends = self.options.bail.at(op);
        let new = match op {
            _ if ends => same(),
            Op::Assign(field, value) => {
                let (known, new) = self.simplify(value, state, args);
                let idle = match field {
                    FieldRef::Meta(meta) => known.only().is_some() && known == state.meta(*meta),
                    field => !state.writable(program, *field),
                };
                state.write(*field, known);
                let assign = || Op::Assign(*field, new.unwrap_or_else(|| value.clone()));
                (build && !(idle && fold)).then(assign)
            }
            Op::AssignSlice(field, hi, lo, value) => {
                let (known, new) = self.simplify(value, state, args);
                let writable = state.writable(program, *field);
                if let FieldRef::Meta(meta) = field {
                    let mut whole = state.meta(*meta);
                    if *hi < crate::known::WIDTH_MAX && whole.width <= crate::known::WIDTH_MAX {
                        let mask = crate::known::mask(hi - lo + 1) << lo;
                        whole.zeros = whole.zeros & !mask | known.zeros << lo & mask;
                        whole.ones = whole.ones & !mask | known.ones << lo & mask;
                    } else {
                        whole = Known::nothing(whole.width);
                    }
                    state.set_meta(*meta, whole);
                }
                let assign =
                    || Op::AssignSlice(*field, *hi, *lo, new.unwrap_or_else(|| value.clone()));
                (build && (writable || !fold)).then(assign)
            }
            Op::SetValid(header) => {
                let was = fold && state.must.contains(header.index());
                // The other members of its union already are invalid.
                if !was {
                    state.make_valid(program, *header, true);
                }
                if was { None } else { same() }
            }
            Op::SetInvalid(header) => {
                let was = !fold || state.may.contains(header.index());
                if was {
                    state.make_invalid(*header);
                }
                if was { same() } else { None }
            }
            Op::CopyHeader { to, from } => {
                state.copy_header(program, *to, *from);
                same()
            }
            Op::CopyVarbit { to, .. } => {
                state.write(*to, Known::nothing(0));
                same()
            }
            Op::PayloadSum { field } | Op::PayloadHash { field, .. } => {
                state.write(*field, Known::nothing(0));
                same()
            }
            Op::Truncate { length } => {
                build.then(|| Op::Truncate { length: self.simplified(length, state, args) })
            }
            // A round may find what any other left: nothing is known in it, nor behind it.
            Op::Loop { .. } => {
                *state = State::anything(program);
                same()
            }
            Op::PushFront(stack, count) => {
                state.push_front(program, *stack, *count);
                same()
            }
            Op::PopFront(stack, count) => {
                state.pop_front(program, *stack, *count);
                same()
            }
            Op::Reparse => {
                let before = state.clone();
                self.parsed_again(&before);
                path.state = self.behind_parser(&before);
                same()
            }
            Op::Output { port } => {
                build.then(|| Op::Output { port: self.simplified(port, state, args) })
            }
            Op::Group { group } => {
                let new = build.then(|| Op::Group { group: self.simplified(group, state, args) });
                let state = state.clone();
                self.buckets(&state);
                new
            }
            Op::Clone { block, copy } => {
                let mut before = state.clone();
                before.set_meta(intrinsic::PASS, Known::value(3, 8));
                let start = match copy {
                    Copy::Current => Some(before),
                    Copy::Ingress => {
                        self.parsed_again(&before);
                        self.behind_parser(&before)
                    }
                };
                self.reach(*block, start);
                same()
            }
            // The engine gives the packet up there, or no pass runs.
            Op::Call { .. } => {
                *state = State::anything(program);
                same()
            }
            // What is done on a copy is not done to the packet. What holds for groups there is not looked at.
            Op::OnCopy { body } => {
                let mut groups = false;
                let mut look = |op: &Op| groups |= matches!(op, Op::Group { .. });
                body.iter().for_each(|op| op.visit(&mut look));
                if groups && !self.options.bail.groups {
                    self.buckets(&State::anything(program));
                }
                same()
            }
            Op::PortIs { field, what, port } => {
                let port = build.then(|| self.simplified(port, state, args));
                state.write(*field, Known::nothing(1));
                port.map(|port| Op::PortIs { field: *field, what: *what, port })
            }
            Op::Resubmit { keep } | Op::Recirculate { keep } => {
                let mut next = State::received(program);
                for meta in keep {
                    next.set_meta(*meta, state.meta(*meta));
                }
                next.forget(intrinsic::PACKET_LENGTH);
                let pass = if matches!(op, Op::Resubmit { .. }) { 1 } else { 2 };
                next.set_meta(intrinsic::PASS, Known::value(pass, 8));
                if !self.quiet {
                    self.again |= self.entry.join(&next);
                    self.again |= self.unparsed.join(&next);
                }
                ends = true;
                same()
            }
            Op::Punt { reason, args: values } => build.then(|| {
                let values = values.iter().map(|e| self.simplified(e, state, args)).collect();
                Op::Punt { reason: *reason, args: values }
            }),
            Op::Digest { digest, args: values, once } => build.then(|| {
                let values = values.iter().map(|e| self.simplified(e, state, args)).collect();
                Op::Digest { digest: *digest, args: values, once: *once }
            }),
            Op::Service { service, args: values, results } => {
                let new = build.then(|| Op::Service {
                    service: *service,
                    args: values.iter().map(|e| self.simplified(e, state, args)).collect(),
                    results: results.clone(),
                });
                if program.services[service.index()].edits {
                    let before = state.clone();
                    self.parsed_again(&before);
                    *state = State::anything(program);
                    // What the parser does not write stays.
                    for (meta, known) in before.metas() {
                        if !self.assigned.contains(meta.index()) {
                            state.set_meta(meta, known);
                        }
                    }
                }
                for meta in results {
                    state.write(FieldRef::Meta(*meta), Known::nothing(0));
                }
                new
            }
            Op::Meter { meter, color, level } => {
                let meter = build.then(|| self.simplified(meter, state, args));
                state.write(*color, Known::nothing(8));
                state.write(*level, Known::nothing(8));
                meter.map(|meter| Op::Meter { meter, color: *color, level: *level })
            }
            Op::Count { counter, index } => build.then(|| Op::Count {
                counter: *counter,
                index: self.simplified(index, state, args),
            }),
            Op::RegisterRead { field, register, index } => {
                let index = build.then(|| self.simplified(index, state, args));
                state.write(*field, Known::nothing(0));
                let (field, register) = (*field, *register);
                index.map(|index| Op::RegisterRead { field, register, index })
            }
            Op::RegisterWrite { register, index, value } => build.then(|| Op::RegisterWrite {
                register: *register,
                index: self.simplified(index, state, args),
                value: self.simplified(value, state, args),
            }),
            Op::Random { field, lo, hi } => {
                let new = build.then(|| Op::Random {
                    field: *field,
                    lo: self.simplified(lo, state, args),
                    hi: self.simplified(hi, state, args),
                });
                state.write(*field, Known::nothing(0));
                new
            }
            Op::If { condition, then, or_else } => {
                return self.branch(condition, then, or_else, path, args, out);
            }
            Op::Goto(block) => {
                path.goto = smallvec![Some(*block)];
                same()
            }
            Op::Drop(_) | Op::Exit => {
                ends = true;
                same()
            }
        };
        if ends {
            path.state = None;
        }
        if let (Some(out), Some(new)) = (out, new) {
            out.push(new);
        }
    }

    fn branch(
        &mut self,
        condition: &Expr,
        then: &[Op],
        or_else: &[Op],
        path: &mut Path,
        args: &[Known],
        out: Option<&mut Vec<Op>>,
    ) {
        let Some(state) = &mut path.state else { return };
        let (known, new) = self.simplify(condition, state, args);
        if let Some(value) = known.only().filter(|_| self.options.fold) {
            let taken = if value == 0 { or_else } else { then };
            return self.ops(taken, path, args, out);
        }
        let condition = new.as_ref().unwrap_or(condition);
        let mut other = path.clone();
        if let (Some(state), Some(other), true) =
            (&mut path.state, &mut other.state, self.options.fold)
        {
            state.assume(condition, true);
            other.assume(condition, false);
        }
        let Some(out) = out else {
            self.ops(then, path, args, None);
            self.ops(or_else, &mut other, args, None);
            return path.join(other);
        };
        let (mut new_then, mut new_else) = (Vec::new(), Vec::new());
        self.ops(then, path, args, Some(&mut new_then));
        self.ops(or_else, &mut other, args, Some(&mut new_else));
        path.join(other);
        if !(new_then.is_empty() && new_else.is_empty() && self.options.fold) {
            let condition = condition.clone();
            out.push(Op::If { condition, then: new_then, or_else: new_else });
        }
    }

    /// The packet comes to the parser once more.
    fn parsed_again(&mut self, before: &State) {
        if self.quiet {
            return;
        }
        let mut before = before.clone();
        before.clear_headers();
        self.again |= self.unparsed.join(&before);
    }
}
