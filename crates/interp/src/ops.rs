//! Operations, one by one.

use crate::context::{Context, Seen};
use crate::machine::{CLONE_DEPTH_MAX, End, REPARSES_MAX, Run};
use crate::show;
use crate::sink::{Caller, Punt};
use crate::trace::Kind;
use ir::op::{CALL_DEPTH_MAX, CALLS_MAX, Guise};
use ir::program::intrinsic;
use ir::{
    Bits, BlockId, Copy, DropReason, Expr, FieldRef, MetaId, MeterId, Op, PuntReason, ServiceId,
};
use smallvec::SmallVec;

impl<'a> Run<'a> {
    /// Does a list of operations; why the pass ended, if it did.
    pub(crate) fn ops(
        &mut self,
        context: &mut Context,
        ops: &'a [Op],
        args: &'a [Bits],
    ) -> Option<End<'a>> {
        ops.iter().find_map(|op| self.op(context, op, args))
    }

    fn op(&mut self, context: &mut Context, op: &'a Op, args: &'a [Bits]) -> Option<End<'a>> {
        let layout = self.layout;
        if !matches!(op, Op::Exit) {
            context.missed = false;
        }
        match op {
            Op::Assign(field, value) => {
                let value = self.env(context, args).eval(value);
                self.assign(context, *field, &value);
            }
            Op::AssignSlice(field, hi, lo, value) => {
                let value = self.env(context, args).eval(value);
                let whole = context.store.read(layout, *field).with_slice(*hi, *lo, &value);
                self.assign(context, *field, &whole);
            }
            Op::SetValid(header) => {
                if !context.store.valid(*header) {
                    context.touch(layout);
                    context.store.set_valid(layout, *header);
                }
                self.note(Kind::Op, || format!("set_valid {}", show::header(layout, *header)));
            }
            Op::SetInvalid(header) => {
                if context.store.valid(*header) {
                    context.touch(layout);
                    context.store.set_invalid(*header);
                }
                self.note(Kind::Op, || format!("set_invalid {}", show::header(layout, *header)));
            }
            Op::CopyHeader { to, from } => {
                context.touch(layout);
                context.store.copy_header(layout, *to, *from);
                self.note(Kind::Op, || {
                    format!("{} = {}", show::header(layout, *to), show::header(layout, *from))
                });
            }
            Op::CopyVarbit { to, from } => {
                if context.touch_field(layout, *to) {
                    context.store.copy_varbit(layout, *to, *from);
                }
                self.note(Kind::Op, || {
                    let name = |f: &FieldRef| layout.program.field_name(*f);
                    format!("{} = {}", name(to), name(from))
                });
            }
            Op::PayloadSum { field } => {
                let sum = crate::checksum::payload_sum(context, self.input, self.scratch);
                self.assign(context, *field, &Bits::from_u128(sum.into(), 16));
            }
            Op::PayloadHash { field, hash } => {
                let Expr::Hash { algorithm, width, inputs } = hash else { return None };
                let mut bytes = Vec::new();
                let bits = self.env(context, args).concat(inputs, &mut bytes, true);
                let value = crate::checksum::payload_hash(
                    context,
                    self.input,
                    self.scratch,
                    *algorithm,
                    bytes,
                    bits,
                );
                self.assign(context, *field, &value.cast(*width));
            }
            Op::Truncate { length } => {
                let length = self.env(context, args).eval(length).low_u32();
                context.cut = context.cut.min(length);
                self.note(Kind::Op, || format!("truncate {length}"));
            }
            Op::Loop { condition, body } => {
                while self.env(context, args).holds(condition) {
                    if self.rounds == ir::op::ROUNDS_MAX {
                        return Some(End::Drop(DropReason::LoopLimit));
                    }
                    self.rounds += 1;
                    let end = self.ops(context, body, args);
                    if end.is_some() {
                        return end;
                    }
                }
            }
            Op::PushFront(stack, count) => {
                self.note(Kind::Op, || {
                    format!("push_front {} {count}", layout.program.stacks[stack.index()].name)
                });
                context.touch(layout);
                if !context.store.push_front(layout, *stack, *count) {
                    return Some(End::Drop(DropReason::HeaderStackOverflow));
                }
            }
            Op::PopFront(stack, count) => {
                self.note(Kind::Op, || {
                    format!("pop_front {} {count}", layout.program.stacks[stack.index()].name)
                });
                context.touch(layout);
                context.store.pop_front(layout, *stack, *count);
            }
            Op::Reparse => {
                if self.reparses == REPARSES_MAX {
                    return Some(End::Drop(DropReason::RecirculationLimit));
                }
                self.reparses += 1;
                self.emit_to_source(context);
                if !self.parse(context) {
                    return Some(End::Drop(DropReason::ParserReject));
                }
            }
            Op::Output { port } => {
                let port = self.env(context, args).eval(port).low_u32();
                self.output(context, port);
            }
            Op::Group { group } => {
                let group = self.env(context, args).eval(group).low_u32();
                self.group(context, ir::GroupId(group));
            }
            Op::Clone { block, copy } => self.clone_to(context, *block, *copy),
            Op::OnCopy { body } => self.on_copy(context, body, args),
            Op::Call { block, until, guise, site } => {
                return self.call(context, (*block, *until), guise.as_ref(), *site, args);
            }
            Op::PortIs { field, what, port } => {
                let port = self.env(context, args).eval(port).low_u32();
                let holds = self.externs.port_is(*what, port);
                self.assign(context, *field, &Bits::from_u128(holds.into(), 1));
            }
            Op::Resubmit { keep } => return Some(End::Resubmit(keep)),
            Op::Recirculate { keep } => return Some(End::Recirculate(keep)),
            Op::Punt { reason, args: values } => self.punt(context, *reason, values, args),
            Op::Digest { digest, args: values, .. } => {
                let values = self.values(context, values, args);
                self.note(Kind::Digest, || show::digest(layout, *digest, &values));
                self.sink.digest(*digest, &values);
            }
            Op::Service { service, args: values, results } => {
                return self.service(context, *service, values, results, args);
            }
            Op::Meter { meter, color, level } => {
                let meter = self.env(context, args).eval(meter).low_u32();
                let answer = self.externs.meter(MeterId(meter), context.length);
                self.note(Kind::Meter, || {
                    let word = match answer.color {
                        0 => "green",
                        1 => "yellow",
                        _ => "red",
                    };
                    format!("meter {meter}: {word}, level {}", answer.level)
                });
                self.write(context, *color, &Bits::from_u128(answer.color.into(), 8));
                self.write(context, *level, &Bits::from_u128(answer.level.into(), 8));
            }
            Op::Count { counter, index } => {
                let index = self.env(context, args).eval(index).low_u32();
                self.externs.count_indirect(*counter, index, context.length);
                self.note(Kind::Op, || {
                    format!("count {}({index})", layout.program.counters[*counter as usize].name)
                });
            }
            Op::RegisterRead { field, register, index } => {
                let index = self.env(context, args).eval(index).low_u32();
                let declared = &layout.program.registers[register.index()];
                let value = self.externs.register_read(*register, index);
                let value = value.unwrap_or_else(|| Bits::zero(declared.width));
                self.write(context, *field, &value);
                self.note(Kind::Op, || {
                    let name = layout.program.field_name(*field);
                    let value = show::field_value(layout, *field, &value);
                    format!("{name} = {}({index}) = {value}", declared.name)
                });
            }
            Op::RegisterWrite { register, index, value } => {
                let env = self.env(context, args);
                let (index, value) = (env.eval(index).low_u32(), env.eval(value).into_owned());
                self.note(Kind::Op, || {
                    let name = &layout.program.registers[register.index()].name;
                    format!("{name}({index}) = {}", show::value("", &value))
                });
                self.externs.register_write(*register, index, value);
            }
            Op::Random { field, lo, hi } => {
                let env = self.env(context, args);
                let (lo, hi) = (env.eval(lo), env.eval(hi));
                let value = self.externs.random(&lo, &hi);
                self.assign(context, *field, &value);
            }
            Op::If { condition, then, or_else } => {
                let holds = self.env(context, args).holds(condition);
                return self.ops(context, if holds { then } else { or_else }, args);
            }
            Op::Goto(block) => {
                let name = || format!("goto {}", layout.program.blocks[block.index()].name);
                self.note(Kind::Op, name);
                context.goto = Some(*block);
            }
            Op::Drop(reason) => return Some(End::Drop(*reason)),
            Op::Exit => return Some(End::Exit),
        }
        None
    }

    /// Why the pass ends in a service, if it does.
    fn service(
        &mut self,
        context: &mut Context,
        id: ServiceId,
        values: &'a [Expr],
        results: &'a [MetaId],
        args: &'a [Bits],
    ) -> Option<End<'a>> {
        let layout = self.layout;
        let service = &layout.program.services[id.index()];
        if service.edits {
            if self.reparses == REPARSES_MAX {
                return Some(End::Drop(DropReason::RecirculationLimit));
            }
            self.reparses += 1;
        }
        let values = self.values(context, values, args);
        let mut answers: SmallVec<[Bits; 4]> =
            service.results.iter().map(|r| Bits::zero(r.width)).collect();
        let emitted = self.emit(context);
        let packet = emitted.packet(self.emitted, self.input);
        let headers = packet.headers.len();
        let mut bytes = packet.to_vec();
        let passes = self.externs.service(service, &values, &mut bytes, &mut answers);
        self.note(Kind::Op, || {
            let list = |bits: &[Bits]| {
                bits.iter().map(|v| show::value("", v)).collect::<Vec<_>>().join(", ")
            };
            let drops = if passes { "" } else { ", drop" };
            format!("service {}({}) = {}{drops}", service.name, list(&values), list(&answers))
        });
        if !passes {
            return Some(End::Drop(DropReason::Service));
        }
        if service.edits {
            // What it left alone of the payload stays where it is.
            let kept = bytes.get(headers..) == Some(&self.input[emitted.payload..]);
            let same = kept && emitted.same && bytes[..headers] == self.input[..headers];
            context.source.tail = match (same, kept) {
                (true, _) => 0,
                (false, true) => emitted.payload,
                (false, false) => self.input.len(),
            };
            bytes.truncate(if same {
                0
            } else if kept {
                headers
            } else {
                bytes.len()
            });
            context.source.front = bytes;
            if !self.parse(context) {
                return Some(End::Drop(DropReason::ParserReject));
            }
        }
        for (meta, answer) in results.iter().zip(&answers) {
            self.assign(context, FieldRef::Meta(*meta), answer);
        }
        None
    }

    /// Writes a field, without a word.
    fn write(&mut self, context: &mut Context, field: FieldRef, value: &Bits) -> bool {
        let effect = context.touch_field(self.layout, field);
        if effect {
            context.store.write(self.layout, field, value);
        }
        effect
    }

    fn assign(&mut self, context: &mut Context, field: FieldRef, value: &Bits) {
        let layout = self.layout;
        let effect = self.write(context, field, value);
        self.note(Kind::Op, || {
            let name = layout.program.field_name(field);
            match effect {
                true => format!("{name} = {}", show::field_value(layout, field, value)),
                false => format!("{name}: header not valid, nothing assigned"),
            }
        });
    }

    fn values(
        &self,
        context: &Context,
        exprs: &'a [Expr],
        args: &'a [Bits],
    ) -> SmallVec<[Bits; 4]> {
        let env = self.env(context, args);
        exprs.iter().map(|e| env.eval(e).into_owned()).collect()
    }

    fn output(&mut self, context: &mut Context, port: u32) {
        let queue = context.store.meta_u32(self.layout, intrinsic::QUEUE);
        let emitted = self.emit_cut(context);
        let packet = emitted.packet(self.emitted, self.input);
        if let Some(trace) = &mut self.trace {
            let queue = if queue == 0 { String::new() } else { format!(" queue {queue}") };
            let text = format!("output {port}{queue}: {} bytes", packet.len());
            trace.add(Kind::Output, text);
        }
        if context.cut != u32::MAX {
            self.sink.cut_to(context.cut);
        }
        self.sink.output(port, queue, packet);
        self.output = true;
    }

    fn punt(
        &mut self,
        context: &mut Context,
        reason: PuntReason,
        values: &'a [Expr],
        args: &'a [Bits],
    ) {
        let values = self.values(context, values, args);
        let emitted = self.emit(context);
        let packet = emitted.packet(self.emitted, self.input);
        if let Some(trace) = &mut self.trace {
            let values: Vec<String> = values.iter().map(|v| show::value("", v)).collect();
            let text = format!("punt {reason}({}): {} bytes", values.join(", "), packet.len());
            trace.add(Kind::Punt, text);
        }
        let table = context.last.map(|(table, _)| table);
        let entry = context.last.and_then(|(_, entry)| entry);
        let callers = self.callers.get(context.outside..).unwrap_or_default();
        let bucket = context.bucket;
        self.sink.punt(Punt { reason, table, entry, bucket, callers, args: &values, packet });
        self.punted.get_or_insert(reason);
    }

    fn clone_to(&mut self, context: &Context, block: BlockId, copy: Copy) {
        let layout = self.layout;
        self.open(Kind::Clone, || format!("clone {}", layout.program.blocks[block.index()].name));
        let made = context.clone_depth < CLONE_DEPTH_MAX
            && self.copy(context, |run, clone| {
                clone.clone_depth += 1;
                clone.goto = None;
                clone.touch_field(layout, FieldRef::Meta(intrinsic::PASS));
                clone.store.set_meta(layout, intrinsic::PASS, 3);
                if copy == Copy::Ingress {
                    clone.source.copy_from(&clone.origin);
                    if !run.parse(clone) {
                        return End::Drop(DropReason::ParserReject);
                    }
                }
                run.blocks(clone, block)
            });
        if !made {
            self.lose(DropReason::RecirculationLimit);
        }
        self.close();
    }

    fn on_copy(&mut self, context: &Context, body: &'a [Op], args: &'a [Bits]) {
        self.open(Kind::Clone, || "on_copy".to_string());
        let made = context.clone_depth < CLONE_DEPTH_MAX
            && self.copy(context, |run, copy| {
                copy.clone_depth += 1;
                copy.goto = None;
                run.ops(copy, body, args).unwrap_or(End::Exit)
            });
        if !made {
            self.lose(DropReason::RecirculationLimit);
        }
        self.close();
    }

    /// Why the pass ends behind a call, if it does.
    fn call(
        &mut self,
        context: &mut Context,
        (block, until): (BlockId, BlockId),
        guise: Option<&'a Guise>,
        site: u16,
        args: &'a [Bits],
    ) -> Option<End<'a>> {
        let layout = self.layout;
        if self.calls == CALLS_MAX || self.call_depth == CALL_DEPTH_MAX {
            return Some(End::Drop(DropReason::LoopLimit));
        }
        self.calls += 1;
        self.call_depth += 1;
        let seen = guise.map(|g| {
            let env = self.env(context, args);
            let value = |(column, e): &(u32, Expr)| (*column, env.eval(e).into_owned());
            Seen {
                in_port: env.eval(&g.in_port).low_u32(),
                columns: g.columns.iter().map(value).collect(),
                tables: SmallVec::from_slice(&g.tables),
            }
        });
        self.open(Kind::Clone, || format!("call {}", layout.program.blocks[block.index()].name));
        let before = (context.last, context.bucket, context.goto.take());
        let outer = std::mem::replace(&mut context.guise, seen);
        let table = context.last.map(|(table, _)| table);
        let entry = context.last.and_then(|(_, entry)| entry);
        self.callers.push(Caller { table, entry, bucket: context.bucket, site });
        let end = self.blocks_until(context, block, Some(until));
        self.callers.pop();
        (context.last, context.bucket, context.goto) = before;
        context.guise = outer;
        // What it missed was looked up by the way.
        context.missed = false;
        self.call_depth -= 1;
        let end = match end {
            End::Exit => None,
            End::Drop(DropReason::LoopLimit) => Some(End::Drop(DropReason::LoopLimit)),
            End::Drop(reason) => {
                self.lose(reason);
                None
            }
            End::Resubmit(_) | End::Recirculate(_) => Some(end),
        };
        self.close();
        end
    }

    /// A copy was given up before it was made.
    pub(crate) fn lose(&mut self, reason: DropReason) {
        self.note(Kind::Drop, || format!("drop {reason}"));
        self.lost.get_or_insert(reason);
    }
}
