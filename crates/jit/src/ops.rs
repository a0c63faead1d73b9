//! Operations and blocks.
//!
//! An operation that is not compiled bails out when it is reached. Before a packet changes, a copy of its headers is
//! laid aside for outputs that were noted ([`crate::lay`]). Groups are [`crate::groups`]' business. For state (registers, meters, arrays of
//! counters, random numbers) code calls functions ([`crate::state`]), and to tell the control side something ([`crate::told`]). Further passes would
//! need more than that; a call of a service is a stop ([`crate::stops`]), if no header came or went before. A loop goes on in code for [`ROUNDS`] rounds between two lookups, so that a
//! packet's work stays bounded; longer ones, and sums over the payload behind a lookup, where it is not known
//! any more where the payload begins, are the interpreter's, as are copies of varbit fields.

mod blocks;
mod copies;
mod counts;
mod direct;
mod headers;
mod loops;
mod stops;

use crate::emit::{Ended, Env, Gen, packet, shared, trusted};
use crate::shape::elements;
use crate::value::Val;
use abi::{MORE_MAX, OUTPUTS_MAX, offset, size};
use cranelift_codegen::ir::{Block, Endianness, InstBuilder, condcodes::IntCC, types};
use ir::program::intrinsic;
use ir::{ActionId, BlockId, FieldRef, HeaderId, Op, PuntReason};

/// Where operations stand.
#[derive(Clone, Copy)]
pub(crate) struct Site<'s> {
    /// The action's arguments.
    args: &'s [Val],
    /// In an action: one bit, whether the lookup missed and the action does nothing.
    missed: Option<&'s Val>,
    /// In an action: one bit, whether the lookup missed.
    lookup_missed: Option<&'s Val>,
}

/// So many actions are told apart by compares, more by a jump table.
const COMPARED_MAX: usize = 4;

/// Copies that a copy may be inside of, as the interpreter has it.
const DEPTH_MAX: u32 = 16;

/// Rounds of loops that a packet takes in one segment. All segments of a packet together take fewer than
/// the interpreter allows.
const ROUNDS: u64 = 1024;
/// Segments of a packet are fewer than this where loops are compiled.
const SEGMENTS_MAX: usize = ir::op::ROUNDS_MAX as usize / ROUNDS as usize;

/// How a table's lookup goes on, by what it found.
struct Applied<'s> {
    block: BlockId,
    hit: BlockId,
    miss: BlockId,
    by_action: &'s [(ActionId, BlockId)],
}

/// Seldom, and every hop asks. To note what was looked up last, in case a packet's life ends, would cost each packet 2 ns.
const EXPIRED: &str = "a TTL that has expired";

impl<'f, 'p> Gen<'f, 'p> {
    /// Operations in order.
    fn ops(&mut self, ops: &[Op], site: Site<'_>) -> Result<(), Ended> {
        ops.iter().try_for_each(|op| self.op(op, site))
    }

    /// Operations in order, then what comes behind them. That is generated anew for each side of a
    /// last choice, so that what the side has made known stays known.
    fn ops_then(
        &mut self,
        ops: &[Op],
        site: Site<'_>,
        doubled: &mut u32,
        then: &mut dyn FnMut(&mut Self, &mut u32) -> Ended,
    ) -> Ended {
        for (at, op) in ops.iter().enumerate() {
            let rest = &ops[at + 1..];
            let last = || !rest.iter().any(|op| matches!(op, Op::If { .. }));
            let Op::If { condition, then: yes, or_else: no } = op else {
                if self.op(op, site).is_err() {
                    return Ended;
                }
                continue;
            };
            if *doubled >= self.points.bounds.doubled || !last() {
                if self.op(op, site).is_err() {
                    return Ended;
                }
                continue;
            }
            self.set_known(self.missed, 0);
            let env = Env { args: site.args, ..Env::default() };
            let Ok(condition) = self.value(condition, env) else { return Ended };
            let mut behind =
                |g: &mut Self, doubled: &mut u32| g.ops_then(rest, site, doubled, then);
            match condition.known_truth() {
                Some(true) => return self.ops_then(yes, site, doubled, &mut behind),
                Some(false) => return self.ops_then(no, site, doubled, &mut behind),
                None => {}
            }
            *doubled += 1;
            let blocks = (self.b.create_block(), self.b.create_block());
            self.branch(&condition, blocks.0, blocks.1);
            for (block, ops) in [(blocks.0, yes), (blocks.1, no)] {
                self.enter(block);
                self.ops_then(ops, site, doubled, &mut behind);
            }
            return Ended;
        }
        then(self, doubled)
    }

    fn op(&mut self, op: &Op, site: Site<'_>) -> Result<(), Ended> {
        if self.bails.is_long(self.b.func.dfg.num_values()) {
            return Err(self.bail("the code would become too long"));
        }
        if !matches!(op, Op::Exit) {
            self.set_known(self.missed, 0);
        }
        let env = Env { args: site.args, ..Env::default() };
        match op {
            Op::Assign(field, value) => {
                let value = self.value(value, env)?;
                self.assign(*field, &value)?;
            }
            Op::AssignSlice(field, hi, lo, value) => {
                let value = self.value(value, env)?;
                let old = self.value(&ir::Expr::Field(*field), env)?;
                let width = old.width;
                let keep = ir::Bits::ones(width).with_slice(*hi, *lo, &ir::Bits::zero(hi - lo + 1));
                let keep = Val::constant(&mut self.b, &keep);
                let part = value.cast(&mut self.b, hi - lo + 1).cast(&mut self.b, width);
                let part = part.shl(&mut self.b, *lo);
                let both = Val::binary(&mut self.b, ir::BinaryOp::And, &old, &keep)
                    .and_then(|old| Val::binary(&mut self.b, ir::BinaryOp::Or, &old, &part));
                let whole = both.map_err(|e| self.bail(&e.to_string()))?;
                self.assign(*field, &whole)?;
            }
            Op::SetValid(h) => self.set_valid(*h)?,
            Op::SetInvalid(h) => {
                let valid = self.valid(*h);
                self.touch(&valid)?;
                self.set_invalid(*h);
                self.set_known(self.moved, 1);
            }
            Op::CopyHeader { to, from } if to == from => {}
            Op::CopyHeader { to, from } => {
                self.touch(&Val::bool(true))?;
                self.copy_header(*to, *from)?;
                self.set_known(self.moved, 1);
            }
            Op::PushFront(stack, n) => self.push_front(*stack, *n)?,
            Op::PopFront(stack, n) => {
                self.touch(&Val::bool(true))?;
                let all: Vec<HeaderId> = elements(self.plan.program, *stack).collect();
                let n = (*n as usize).min(all.len());
                for i in 0..all.len() - n {
                    self.copy_header(all[i], all[i + n])?;
                }
                for h in &all[all.len() - n..] {
                    self.set_invalid(*h);
                }
                self.set_known(self.moved, 1);
            }
            Op::Output { port } => {
                let port = self.value(port, env)?;
                self.output(&port)?;
            }
            Op::If { condition, then, or_else } => {
                let condition = self.value(condition, env)?;
                match condition.known_truth() {
                    Some(true) => return self.ops(then, site),
                    Some(false) => return self.ops(or_else, site),
                    None => {}
                }
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                self.branch(&condition, yes, no);
                let mut rest: Option<Block> = None;
                for (block, ops) in [(yes, then), (no, or_else)] {
                    self.enter(block);
                    if self.ops(ops, site).is_ok() {
                        let rest = *rest.get_or_insert_with(|| self.b.create_block());
                        self.b.ins().jump(rest, &[]);
                    }
                }
                self.enter(rest.ok_or(Ended)?);
            }
            Op::Goto(block) => self.set_known(self.goto, u64::from(block.0) + 1),
            Op::Drop(reason) => return Err(self.end(Some(*reason))),
            Op::Exit => {
                if let Some(missed) = site.missed {
                    self.set(self.missed, missed);
                }
                return Err(self.end(None));
            }
            Op::Reparse => return Err(self.bail("the packet is parsed again")),
            Op::Group { group } => {
                let group = self.value(group, env)?;
                self.group(&group)?;
            }
            Op::Clone { .. } => return Err(self.bail("a clone")),
            Op::OnCopy { body } => match body[..] {
                // Nothing leaves.
                [Op::Drop(reason)] if self.copy.is_none() && self.plan.few_copies => {
                    self.lose(reason);
                }
                _ => self.on_copy(body, site)?,
            },
            Op::Call { .. } => return Err(self.bail("a call")),
            Op::Service { args, .. } => return Err(self.stop(op, args, site)),
            Op::PortIs { field, what, port } => {
                let port = self.value(port, env)?;
                self.port_is(*field, *what, &port)?;
            }
            Op::Resubmit { .. } => return Err(self.bail("the packet is resubmitted")),
            Op::Recirculate { .. } => return Err(self.bail("the packet is recirculated")),
            Op::Punt { reason: PuntReason::InvalidTtl, .. } => return Err(self.bail(EXPIRED)),
            Op::Punt { reason, args } => self.punt(*reason, args, env)?,
            Op::Digest { digest, args, once } => self.digest(*digest, args, *once, env)?,
            Op::Meter { meter, color, level } => self.meter(meter, *color, *level, env)?,
            Op::Count { counter, index } => self.count_in(*counter, index, env)?,
            Op::RegisterRead { field, register, index } => {
                self.read_register(*field, *register, index, env)?;
            }
            Op::RegisterWrite { register, index, value } => {
                self.write_register(*register, index, value, env)?;
            }
            Op::Random { field, lo, hi } => self.random(*field, lo, hi, env)?,
            Op::CopyVarbit { .. } => return Err(self.bail("a varbit field is copied")),
            Op::PayloadSum { field } if self.parsed_here => {
                let sum = self.payload_sum();
                self.assign(*field, &sum)?;
            }
            Op::PayloadSum { .. } => {
                return Err(self.bail("a checksum of the payload behind a lookup"));
            }
            Op::PayloadHash { .. } => return Err(self.bail("a hash of the payload")),
            Op::Truncate { length } => {
                let length = self.value(length, env)?;
                self.touch(&Val::bool(true))?;
                self.truncate(&length)?;
            }
            Op::Loop { condition, body } => self.rounds(condition, body, site)?,
        }
        Ok(())
    }

    /// Operations may change what is output.
    pub(crate) fn changes(&self, ops: &[Op]) -> bool {
        let mut changes = false;
        let checksum_meta = &self.plan.checksum_meta;
        ops.iter().for_each(|op| {
            op.visit(&mut |op| {
                changes |= match op {
                    Op::Assign(FieldRef::Meta(id), _) => checksum_meta[id.index()],
                    // What is done on a copy inside of this one is laid at its end.
                    Op::Group { .. } | Op::PortIs { field: FieldRef::Meta(_), .. } => false,
                    Op::Output { .. }
                    | Op::If { .. }
                    | Op::Drop(_)
                    | Op::Exit
                    | Op::Count { .. }
                    | Op::RegisterWrite { .. }
                    | Op::Punt { .. }
                    | Op::Digest { .. } => false,
                    _ => true,
                };
            });
        });
        changes
    }

    /// The ones' complement sum of what the parser left, 16 bits, not complemented.
    fn payload_sum(&mut self) -> Val {
        let cursor = self.b.use_var(self.cursor);
        let (at, sum) = (self.b.declare_var(types::I64), self.b.declare_var(types::I64));
        self.b.def_var(at, cursor);
        self.set_known(sum, 0);
        // Words as this machine reads them: the sum of swapped words is the swapped sum (RFC 1071 §2B). What is
        // left of the last four bytes is a word, then a byte that is the first one of its word.
        for size in [4i64, 2, 1] {
            let (head, body, rest) =
                (self.b.create_block(), self.b.create_block(), self.b.create_block());
            self.b.ins().jump(head, &[]);
            self.b.switch_to_block(head);
            let here = self.b.use_var(at);
            let end = self.plus(here, size as u64);
            let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, self.len);
            self.b.ins().brif(fits, body, &[], rest, &[]);
            self.enter(body);
            let address = self.b.ins().iadd(self.data, here);
            let flags = packet().with_endianness(Endianness::Little);
            let word = match size {
                4 => self.b.ins().uload32(flags, address, 0),
                2 => self.b.ins().uload16(types::I64, flags, address, 0),
                _ => self.b.ins().uload8(types::I64, flags, address, 0),
            };
            let so_far = self.b.use_var(sum);
            let so_far = self.b.ins().iadd(so_far, word);
            self.b.def_var(sum, so_far);
            self.b.def_var(at, end);
            self.b.ins().jump(head, &[]);
            self.b.seal_block(head);
            self.enter(rest);
        }
        let mut all = self.b.use_var(sum);
        for bits in [32, 16, 16, 16] {
            let low = self.b.ins().band_imm_u(all, (1i64 << bits) - 1);
            let high = self.b.ins().ushr_imm_u(all, bits);
            all = self.b.ins().iadd(low, high);
        }
        let word = self.b.ins().ireduce(types::I16, all);
        let word = self.b.ins().bswap(word);
        let word = self.b.ins().uextend(types::I64, word);
        Val::from_i64(&mut self.b, word, 16)
    }

    fn output(&mut self, port: &Val) -> Result<(), Ended> {
        let in_order = self.get(self.in_order, 1);
        let disorder = self.not(&in_order);
        self.bail_if(&disorder, "the headers do not lie in the deparser's order")?;
        let queue = self.read_meta(intrinsic::QUEUE);
        let count = self.b.use_var(self.outputs);
        const NEAR: u64 = OUTPUTS_MAX as u64;
        const ALL: u64 = (OUTPUTS_MAX + MORE_MAX) as u64;
        const BYTES: i64 = size::OUTPUT as i64;
        // Where output 0 would be, were they all beside the packet.
        const MORE: i32 = offset::NOTED_MORE - OUTPUTS_MAX as i32 * size::OUTPUT as i32;
        let place = match self.known(count) {
            Some(count) if count >= ALL => {
                return Err(self.bail("more outputs than there is room for"));
            }
            Some(count) if count < NEAR => {
                (self.packet, offset::PACKET_OUTPUTS + (BYTES as u64 * count) as i32)
            }
            Some(count) => (self.noted(), MORE + (BYTES as u64 * count) as i32),
            None => {
                let max = self.constant(ALL);
                let full = self.compare(IntCC::Equal, count, max);
                self.bail_if(&full, "more outputs than there is room for")?;
                let near = self.constant(NEAR);
                let near = self.compare(IntCC::UnsignedLessThan, count, near);
                let noted = self.noted();
                let (here, there) = (
                    self.b.ins().iadd_imm_s(self.packet, i64::from(offset::PACKET_OUTPUTS)),
                    self.b.ins().iadd_imm_s(noted, i64::from(MORE)),
                );
                let first = self.select(&near, here, there);
                let at = self.b.ins().imul_imm_u(count, BYTES);
                (self.b.ins().iadd(first, at), 0)
            }
        };
        let more = self.plus(count, 1);
        self.b.def_var(self.outputs, more);
        self.set_known(self.unlaid, 1);
        if queue.known_truth() == Some(false) {
            // Port and queue lie side by side, the lower bytes first.
            let port = port.cast(&mut self.b, 32).to_i64_low(&mut self.b);
            let flags = shared().with_endianness(Endianness::Little);
            self.b.ins().store(flags, port, place.0, place.1);
        } else {
            let (port, queue) = (port.low_u32(&mut self.b), queue.low_u32(&mut self.b));
            self.b.ins().store(trusted(), port, place.0, place.1);
            self.b.ins().store(trusted(), queue, place.0, place.1 + 4);
        }
        Ok(())
    }
}
