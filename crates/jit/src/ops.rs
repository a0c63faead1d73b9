//! Operations and blocks.
//!
//! An operation that is not compiled bails out when it is reached. Before a packet changes, a copy of its headers is
//! laid aside for outputs that were noted ([`crate::lay`]). Groups are [`crate::groups`]' business. For state (registers, meters, arrays of
//! counters, random numbers) code calls functions ([`crate::state`]), and to tell the control side something ([`crate::told`]). Further passes would
//! need more than that; a call of a service is a stop ([`crate::stops`]), if no header came or went before. A loop goes on in code for [`ROUNDS`] rounds between two lookups, so that a
//! packet's work stays bounded; longer ones, and sums over the payload behind a lookup, where it is not known
//! any more where the payload begins, are the interpreter's, as are copies of varbit fields.

mod counts;
mod direct;

use crate::emit::{CopyEnd, Ended, Env, Gen, packet, shared, trusted};
use crate::flow::gotos;
use crate::shape::elements;
use crate::stops::Origin;
use crate::unit::NodeSpec;
use crate::value::{Base, Val, load_words, store_columns, store_words};
use crate::version::{BLOCK_VERSIONS, Facts, pick};
use abi::{Hit, MORE_MAX, OUTPUTS_MAX, offset, size};
use cranelift_codegen::ir::{
    Block, BlockCall, Endianness, InstBuilder, JumpTableData, Value, condcodes::IntCC, types,
};
use ir::program::intrinsic;
use ir::{
    Action, ActionCall, ActionId, BlockId, DropReason, FieldRef, HeaderId, Op, PuntReason, StackId,
    Terminator,
};
use smallvec::SmallVec;

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
/// In one action, what follows a choice is generated for both sides so often, at most.
const DOUBLED_MAX: u32 = 6;

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
            if *doubled >= DOUBLED_MAX || !last() {
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
            Op::PortLive { field, port } => {
                let port = self.value(port, env)?;
                self.port_live(*field, &port)?;
            }
            Op::Resubmit { .. } => return Err(self.bail("the packet is resubmitted")),
            Op::Recirculate { .. } => return Err(self.bail("the packet is recirculated")),
            Op::Punt { reason: PuntReason::InvalidTtl, .. } => return Err(self.bail(EXPIRED)),
            Op::Punt { reason, args } => self.punt(*reason, args, env)?,
            Op::Digest { digest, args } => self.digest(*digest, args, env)?,
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
                    Op::Group { .. } | Op::PortLive { field: FieldRef::Meta(_), .. } => false,
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

    /// Does operations on the copy that is being made, and ends it.
    pub(crate) fn copy_ops(&mut self, ops: &[Op], args: &[Val]) {
        let site = Site { args, missed: None, lookup_missed: None };
        if self.ops(ops, site).is_ok() {
            self.end_copy(None);
        }
    }

    /// Does operations on a copy of the packet, which ends with them. What is output meanwhile is noted as all outputs are.
    fn on_copy(&mut self, body: &[Op], site: Site<'_>) -> Result<(), Ended> {
        let depth = self.copy.map_or(0, |copy| copy.depth + 1);
        if depth >= DEPTH_MAX || !self.plan.few_copies {
            return Err(self.bail("a copy of copies, or one of many"));
        }
        let changes = self.changes(body);
        let kept = self.taken_along();
        let kept: Vec<_> = kept.into_iter().map(|var| (var, self.b.use_var(var))).collect();
        let copy = CopyEnd { rest: self.b.create_block(), ends: false, changes, depth };
        let outer = self.copy.replace(copy);
        if self.ops(body, site).is_ok() {
            self.end_copy(None);
        }
        let copy = std::mem::replace(&mut self.copy, outer).unwrap_or(copy);
        if !copy.ends {
            // All ways bail out.
            return Err(Ended);
        }
        self.enter(copy.rest);
        kept.into_iter().for_each(|(var, value)| self.b.def_var(var, value));
        Ok(())
    }

    /// The copy that operations are done on ends, given up for a reason or not.
    fn end_copy(&mut self, dropped: Option<DropReason>) -> Ended {
        let Some(copy) = self.copy else { return Ended };
        // What it has output is as it is now, which the packet itself is not.
        if copy.changes && self.touch(&Val::bool(true)).is_err() {
            return Ended;
        }
        if let Some(reason) = dropped {
            self.lose(reason);
        }
        self.b.ins().jump(copy.rest, &[]);
        self.copy = Some(CopyEnd { ends: true, ..copy });
        Ended
    }

    /// `while condition { body }`.
    fn rounds(&mut self, condition: &ir::Expr, body: &[Op], site: Site<'_>) -> Result<(), Ended> {
        if self.plan.stops.order.len() + 2 > SEGMENTS_MAX {
            return Err(self.bail("a loop in a program of many tables"));
        }
        let (head, round, rest) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.ins().jump(head, &[]);
        // What comes back here is not known yet: the block is sealed behind the loop.
        self.b.switch_to_block(head);
        let env = Env { args: site.args, ..Env::default() };
        let done = match self.value(condition, env) {
            Ok(condition) if condition.known_truth() == Some(false) => {
                self.b.ins().jump(rest, &[]);
                Ok(())
            }
            Ok(condition) => {
                self.branch(&condition, round, rest);
                self.enter(round);
                self.round(body, site, head)
            }
            ended => ended.map(|_| ()),
        };
        self.b.seal_block(head);
        if done.is_err() {
            // Not even the condition can be worked out.
            return Err(Ended);
        }
        self.enter(rest);
        Ok(())
    }

    /// One round, and back to the head of the loop.
    fn round(&mut self, body: &[Op], site: Site<'_>, head: Block) -> Result<(), Ended> {
        let rounds = self.b.use_var(self.rounds);
        let most = self.constant(ROUNDS);
        let many = self.compare(IntCC::UnsignedGreaterThanOrEqual, rounds, most);
        let more = self.plus(rounds, 1);
        self.b.def_var(self.rounds, more);
        if self.bail_if(&many, "a loop of many rounds").is_ok() && self.ops(body, site).is_ok() {
            self.b.ins().jump(head, &[]);
        }
        Ok(())
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

    pub(crate) fn assign(&mut self, field: FieldRef, value: &Val) -> Result<(), Ended> {
        match field {
            FieldRef::Meta(id) => {
                if self.plan.checksum_meta[id.index()] {
                    self.touch(&Val::bool(true))?;
                }
                self.set_meta(id, value);
                Ok(())
            }
            FieldRef::Header(h, f) => {
                let valid = self.valid(h);
                self.touch(&valid)?;
                self.write(h, f, value, &valid)
            }
            FieldRef::Last(stack, f) => {
                let all: Vec<HeaderId> = elements(self.plan.program, stack).collect();
                let mut behind = Val::bool(false);
                for h in all.into_iter().rev() {
                    let valid = self.valid(h);
                    let none_behind = self.not(&behind);
                    let last = self.and(&valid, &none_behind);
                    self.touch(&last)?;
                    self.write(h, f, value, &last)?;
                    behind = self.or(&behind, &valid);
                }
                Ok(())
            }
        }
    }

    /// Writes a field if the condition (its header is valid, at least) holds.
    pub(crate) fn write(
        &mut self,
        h: HeaderId,
        f: ir::FieldId,
        value: &Val,
        condition: &Val,
    ) -> Result<(), Ended> {
        if condition.known_truth() == Some(false) {
            return Ok(());
        }
        let field = &self.plan.program.type_of(h).fields[f.index()];
        if field.varbit {
            return self.bail_if(condition, "a varbit field is written");
        }
        let width = field.width;
        let Some(vars) = self.fields[self.plan.shape.field(h, f)].clone() else {
            // Not foreseen: leave it to the interpreter.
            return self.bail_if(condition, "a field is written unexpectedly");
        };
        let value = value.cast(&mut self.b, width);
        let dirty = self.get(vars.dirty, 1);
        let new = if condition.known_truth() == Some(true) || dirty.known_truth() == Some(false) {
            value
        } else {
            let old = self.get_wide(&vars.limbs, width);
            match Val::mux(&mut self.b, condition, &value, &old) {
                Ok(new) => new,
                Err(e) => return Err(self.bail(&e.to_string())),
            }
        };
        self.set_wide(&vars.limbs, &new);
        let dirty = self.or(&dirty, condition);
        self.set(vars.dirty, &dirty);
        Ok(())
    }

    fn set_invalid(&mut self, h: HeaderId) {
        let Some(vars) = self.headers[h.index()].clone() else { return };
        self.set_known(vars.valid, 0);
        self.b.def_var(vars.base, self.zeros);
        self.set_known(vars.varbit, 0);
        self.set_dirty(h, 0);
    }

    pub(crate) fn set_dirty(&mut self, h: HeaderId, k: u64) {
        let first = self.plan.shape.headers[h.index()].first_field;
        for f in first..first + self.plan.program.type_of(h).fields.len() {
            if let Some(vars) = self.fields[f].clone() {
                self.set_known(vars.dirty, k);
            }
        }
    }

    /// Other members of a header's union become invalid if the condition holds.
    pub(crate) fn invalidate_union(&mut self, h: HeaderId, condition: &Val) {
        let program = self.plan.program;
        let Some(union) = program.headers[h.index()].union else { return };
        for member in program.unions[union.index()].members.clone() {
            if member == h {
                continue;
            }
            let Some(vars) = self.headers[member.index()].clone() else { continue };
            let zero = self.constant(0);
            for (var, none) in [(vars.valid, zero), (vars.base, self.zeros), (vars.varbit, zero)] {
                let old = self.b.use_var(var);
                let new = self.select(condition, none, old);
                self.b.def_var(var, new);
            }
            let first = self.plan.shape.headers[member.index()].first_field;
            for f in first..first + program.type_of(member).fields.len() {
                if let Some(vars) = self.fields[f].clone() {
                    let old = self.b.use_var(vars.dirty);
                    let new = self.select(condition, zero, old);
                    self.b.def_var(vars.dirty, new);
                }
            }
        }
    }

    fn set_valid(&mut self, h: HeaderId) -> Result<(), Ended> {
        let Some(vars) = self.headers[h.index()].clone() else {
            return Err(self.bail("a header is made valid unexpectedly"));
        };
        let valid = self.valid(h);
        let not = self.not(&valid);
        self.touch(&not)?;
        let base = self.b.use_var(vars.base);
        let base = self.select(&valid, base, self.fresh);
        self.b.def_var(vars.base, base);
        self.set_known(vars.valid, 1);
        self.invalidate_union(h, &Val::bool(true));
        self.set_known(self.moved, 1);
        Ok(())
    }

    /// `to = from`.
    fn copy_header(&mut self, to: HeaderId, from: HeaderId) -> Result<(), Ended> {
        if to == from {
            return Ok(());
        }
        let valid = self.valid(from);
        let Some(source) = self.headers[from.index()].clone() else {
            self.set_invalid(to);
            return Ok(());
        };
        let Some(target) = self.headers[to.index()].clone() else {
            // Never valid, so neither is what would be copied.
            return self.bail_if(&valid, "a header is copied unexpectedly");
        };
        self.invalidate_union(to, &valid);
        // A member of the union may have been the source itself; what it was is copied.
        let same_union = self.plan.program.headers[to.index()].union.is_some()
            && self.plan.program.headers[to.index()].union
                == self.plan.program.headers[from.index()].union;
        if same_union {
            return Err(self.bail("a header is copied within a union"));
        }
        for (to, from) in [
            (target.valid, source.valid),
            (target.base, source.base),
            (target.varbit, source.varbit),
        ] {
            let value = self.b.use_var(from);
            self.b.def_var(to, value);
        }
        let shape = &self.plan.shape;
        let (first_to, first_from) =
            (shape.headers[to.index()].first_field, shape.headers[from.index()].first_field);
        for f in 0..self.plan.program.type_of(to).fields.len() {
            let source = self.fields[first_from + f].clone();
            let Some(target) = self.fields[first_to + f].clone() else {
                if let Some(source) = source {
                    let dirty = self.get(source.dirty, 1);
                    self.bail_if(&dirty, "a written field is copied unexpectedly")?;
                }
                continue;
            };
            match source {
                None => self.set_known(target.dirty, 0),
                Some(source) => {
                    let pairs = target.limbs.iter().zip(&source.limbs);
                    for (to, from) in pairs.chain([(&target.dirty, &source.dirty)]) {
                        let value = self.b.use_var(*from);
                        self.b.def_var(*to, value);
                    }
                }
            }
        }
        Ok(())
    }

    fn push_front(&mut self, stack: StackId, n: u32) -> Result<(), Ended> {
        self.touch(&Val::bool(true))?;
        let all: Vec<HeaderId> = elements(self.plan.program, stack).collect();
        let n = n as usize;
        if n > all.len() {
            return Err(self.end(Some(DropReason::HeaderStackOverflow)));
        }
        let mut full = Val::bool(false);
        for h in &all[all.len() - n..] {
            let valid = self.valid(*h);
            full = self.or(&full, &valid);
        }
        match full.known_truth() {
            Some(true) => return Err(self.end(Some(DropReason::HeaderStackOverflow))),
            Some(false) => {}
            None => {
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                self.branch(&full, yes, no);
                self.enter(yes);
                self.end(Some(DropReason::HeaderStackOverflow));
                self.enter(no);
            }
        }
        for i in (n..all.len()).rev() {
            self.copy_header(all[i], all[i - n])?;
        }
        for h in &all[..n] {
            self.set_invalid(*h);
            self.set_valid(*h)?;
        }
        self.set_known(self.moved, 1);
        Ok(())
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

    // Ends.

    /// The pass ends, given up for a reason or not.
    pub(crate) fn end(&mut self, dropped: Option<DropReason>) -> Ended {
        if self.copy.is_some() {
            return self.end_copy(dropped);
        }
        let (outputs, told) = (self.get(self.outputs, 8), self.get(self.told, 64));
        let punted = told.shr(&mut self.b, 1).is_nonzero(&mut self.b);
        let outputs = outputs.is_nonzero(&mut self.b);
        let goes = self.or(&outputs, &punted);
        match goes.known_truth() {
            Some(true) => return self.forward(),
            Some(false) => {}
            None => {
                let (some, none) = (self.b.create_block(), self.b.create_block());
                self.branch(&goes, some, none);
                self.enter(some);
                self.forward();
                self.enter(none);
            }
        }
        match dropped {
            Some(reason) => self.drop(reason as u32),
            None => {
                let (lost, one) = (self.b.use_var(self.lost), self.constant(1));
                let none = self.compare(IntCC::UnsignedLessThan, lost, one);
                let rest = self.b.create_block();
                match none.known_truth() {
                    Some(true) => {
                        self.b.ins().jump(rest, &[]);
                    }
                    truth => {
                        let some = self.b.create_block();
                        self.branch(&none, rest, some);
                        self.enter(some);
                        let reason = self.b.ins().iadd_imm_s(lost, -1);
                        let reason = self.b.ins().ireduce(types::I32, reason);
                        self.drop_for(reason);
                        if truth == Some(false) {
                            return Ended;
                        }
                    }
                }
                self.enter(rest);
                let missed = self.get(self.missed, 1);
                match missed.known_truth() {
                    Some(true) => self.drop(DropReason::TableMiss as u32),
                    Some(false) => self.drop(DropReason::NoOutput as u32),
                    None => {
                        let (yes, no) = (self.b.create_block(), self.b.create_block());
                        self.branch(&missed, yes, no);
                        self.enter(yes);
                        self.drop(DropReason::TableMiss as u32);
                        self.enter(no);
                        self.drop(DropReason::NoOutput as u32)
                    }
                }
            }
        }
    }

    // Blocks.

    /// Control goes to a block.
    pub(crate) fn go(&mut self, from: BlockId, to: BlockId) -> Ended {
        if to <= from || to.index() >= self.plan.program.blocks.len() {
            return self.end(None);
        }
        let plan = self.plan;
        let facts = self.facts(&plan.flow.live[to.index()]);
        let block = self.version(to, facts);
        self.b.ins().jump(block, &[]);
        Ended
    }

    /// The version of a block for these facts, which is yet to be generated.
    pub(crate) fn version(&mut self, block: BlockId, facts: Facts) -> Block {
        let versions = self.versions.entry(block.0).or_default();
        let (b, pending) = (&mut self.b, &mut self.pending);
        let number = versions.len() as u32;
        let at = pick(versions, facts, BLOCK_VERSIONS, || {
            let new = b.create_block();
            pending.insert((block.0, number), new);
            new
        });
        versions[at].1
    }

    /// Follows gotos that operations may have chosen. Without one, code goes on here.
    fn follow_gotos(&mut self, from: BlockId, ops: &[Op]) -> Result<(), Ended> {
        let mut targets = Vec::new();
        gotos(ops, &mut |block| targets.push(block));
        targets.sort_unstable();
        targets.dedup();
        if targets.is_empty() {
            return Ok(());
        }
        let goto = self.b.use_var(self.goto);
        match self.known(goto) {
            Some(0) => return Ok(()),
            Some(k) => return Err(self.go(from, BlockId(k as u32 - 1))),
            None => {}
        }
        for target in targets {
            let k = self.constant(u64::from(target.0) + 1);
            let taken = self.compare(IntCC::Equal, goto, k);
            let (yes, no) = (self.b.create_block(), self.b.create_block());
            self.branch(&taken, yes, no);
            self.enter(yes);
            self.go(from, target);
            self.enter(no);
        }
        Ok(())
    }

    /// Generates the blocks that are pending, and those that they go to.
    pub(crate) fn pending_blocks(&mut self) {
        while let Some(((id, _), block)) = self.pending.pop_first() {
            self.enter(block);
            let _: Result<(), Ended> = self.block(BlockId(id));
        }
    }

    fn block(&mut self, id: BlockId) -> Result<(), Ended> {
        let plan = self.plan;
        let block = &plan.program.blocks[id.index()];
        self.site = format!("block {}", block.name);
        self.set_known(self.goto, 0);
        self.block_from(id, &block.ops)
    }

    /// A block from these of its operations on.
    fn block_from(&mut self, id: BlockId, ops: &[Op]) -> Result<(), Ended> {
        let plan = self.plan;
        let block = &plan.program.blocks[id.index()];
        self.origin = Origin::Block(id);
        self.ops(ops, Site { args: &[], missed: None, lookup_missed: None })?;
        self.follow_gotos(id, &block.ops)?;
        match &block.end {
            Terminator::Jump(next) => Err(self.go(id, *next)),
            Terminator::Exit => Err(self.end(None)),
            Terminator::If { condition, then, or_else } => {
                let condition = self.value(condition, Env::default())?;
                match condition.known_truth() {
                    Some(true) => return Err(self.go(id, *then)),
                    Some(false) => return Err(self.go(id, *or_else)),
                    None => {}
                }
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                self.branch(&condition, yes, no);
                self.enter(yes);
                self.go(id, *then);
                self.enter(no);
                Err(self.go(id, *or_else))
            }
            Terminator::Apply { table, hit, miss, by_action } => {
                let Some(node) = plan.flow.node_of[id.index()] else {
                    return Err(self.bail("a table that is not planned for"));
                };
                let spec = &plan.unit.nodes[node];
                if spec.applied != *table {
                    return Err(self.bail("a table that is not planned for"));
                }
                let applied = Applied { block: id, hit: *hit, miss: *miss, by_action };
                match &spec.direct {
                    Some(_) => self.direct(spec, spec.table, applied),
                    None => self.park(node, spec, None),
                }
            }
        }
    }

    /// The packet's columns of a table's key, in order.
    fn columns(&mut self, spec: &NodeSpec, used: &dyn Fn(u16) -> bool) -> Result<Vec<Val>, Ended> {
        let plan = self.plan;
        let key = &plan.program.tables[spec.applied.index()].key;
        let mut values = Vec::new();
        for column in &spec.columns {
            values.push(match key.get(*column as usize) {
                Some(key) if used(*column) => {
                    let value = self.value(&key.expr, Env::default())?;
                    value.cast(&mut self.b, key.width)
                }
                _ => Val::zero(0),
            });
        }
        Ok(values)
    }

    /// Leaves the packet waiting at a node, or at the twin that is worked out (`which`).
    pub(crate) fn park(
        &mut self,
        node: usize,
        spec: &NodeSpec,
        which: Option<Value>,
    ) -> Result<(), Ended> {
        let plan = self.plan;
        let columns = self.columns(spec, &|_| true)?;
        let (stride, len) = plan.key(node);
        let flags = trusted();
        let leader = spec.leader.unwrap_or(node);
        let Some(point) = &plan.flow.points[leader] else {
            return Err(self.bail("a table that is not planned for"));
        };
        let facts = self.facts_at(point);
        let (facts, number) = self.points.version(leader, facts);
        let facts = facts.clone();
        let (io, station) = (plan.frame.io(leader) as i32, plan.frame.station(leader));
        let place = self.b.ins().uload32(flags, self.context, io + offset::NODE_LEN);
        let at = match stride.is_power_of_two() {
            true => self.b.ins().ishl_imm_u(place, i64::from(stride.trailing_zeros())),
            false => self.b.ins().imul_imm_u(place, stride as i64),
        };
        let key = self.b.ins().iadd(self.context, at);
        let key = Base::new(key, shared()).at(station.keys as i32);
        store_columns(&mut self.b, key, &columns, len, stride);
        if plan.is_mixed(leader) {
            let at = self.listed(place, 2);
            let table = match which {
                Some(which) => self.b.ins().ireduce(types::I32, which),
                None => self.b.ins().iconst(types::I32, node as i64),
            };
            self.b.ins().store(flags, table, at, station.tables as i32);
        }
        self.increment(self.context, io + offset::NODE_LEN, place);
        self.wait(number, Some(place));
        self.save(point, &facts);
        self.b.ins().jump(self.next, &[]);
        Err(Ended)
    }

    /// Stores one more than a number of 32 bits.
    pub(crate) fn increment(&mut self, base: Value, at: i32, old: Value) {
        let more = self.b.ins().iadd_imm_u(old, 1);
        let more = self.b.ins().ireduce(types::I32, more);
        self.b.ins().store(trusted(), more, base, at);
    }

    pub(crate) fn store_outputs(&mut self) {
        let outputs = self.b.use_var(self.outputs);
        let outputs = self.b.ins().ireduce(types::I8, outputs);
        self.b.ins().store(trusted(), outputs, self.packet, offset::PACKET_OUTPUTS_LEN);
    }

    pub(crate) fn store_laid(&mut self) {
        let laid = self.b.use_var(self.laid);
        let laid = self.b.ins().ireduce(types::I8, laid);
        self.b.ins().store(trusted(), laid, self.packet, offset::PACKET_LAID);
    }

    /// A packet that waited at a node and about which this is known goes on: `entry` is what it
    /// has hit, `record` the address of the action record.
    pub(crate) fn resume(&mut self, node: usize, facts: &Facts, entry: Value, record: Value) {
        let plan = self.plan;
        let spec = &plan.unit.nodes[node];
        let block = &plan.program.blocks[spec.block.index()];
        self.site = format!("block {}", block.name);
        let Some(point) = &plan.flow.points[node] else {
            self.bail("a table that is not planned for");
            return;
        };
        self.restore(point, facts);
        self.one_more_lookup();
        self.looked_up(spec.table, self.looked_up_at, Some(entry));
        if plan.program.tables[spec.applied.index()].counters {
            self.count_entry(entry);
        }
        let Terminator::Apply { hit, miss, by_action, .. } = &block.end else {
            self.bail("a table that is not planned for");
            return;
        };
        let applied = Applied { block: spec.block, hit: *hit, miss: *miss, by_action };
        let none = self.constant(u64::from(Hit::MISS_ENTRY));
        let missed = self.compare(IntCC::Equal, entry, none);
        let variant = self.b.ins().load(types::I32, trusted(), record, 0);
        let unknown = self.b.create_block();
        let known: Vec<Block> = spec.actions.iter().map(|_| self.b.create_block()).collect();
        if known.len() <= COMPARED_MAX {
            // The default action has the first variant, so it is asked for last.
            for (at, block) in known.iter().enumerate().rev() {
                let is = self.b.ins().icmp_imm_u(IntCC::Equal, variant, at as i64 + 1);
                let rest = if at == 0 { unknown } else { self.b.create_block() };
                self.b.ins().brif(is, *block, &[], rest, &[]);
                if at > 0 {
                    self.enter(rest);
                }
            }
            if known.is_empty() {
                self.b.ins().jump(unknown, &[]);
            }
        } else {
            let default = self.call_block(unknown);
            let mut cases = vec![default];
            for block in &known {
                cases.push(self.call_block(*block));
            }
            let table = JumpTableData::new(default, &cases);
            let table = self.b.create_jump_table(table);
            self.b.ins().br_table(variant, table);
        }
        self.enter(unknown);
        self.bail("an action that is not compiled");
        for (block, id) in known.into_iter().zip(&spec.actions) {
            self.enter(block);
            let _: Result<(), Ended> =
                self.variant(*id, record, spec.record_words, &missed, &applied);
        }
    }

    fn call_block(&mut self, block: Block) -> BlockCall {
        self.b.func.dfg.block_call(block, &[])
    }

    fn variant(
        &mut self,
        id: ActionId,
        record: Value,
        words: u32,
        missed: &Val,
        applied: &Applied<'_>,
    ) -> Result<(), Ended> {
        let Some(action) = self.plan.unit.program.actions.get(&id) else {
            return Err(self.bail("an action that does not exist"));
        };
        let need: u32 = 1 + action.params.iter().map(|p| p.width.div_ceil(64)).sum::<u32>();
        if need > words {
            return Err(self.bail("an action with more arguments than its records have"));
        }
        let mut args: SmallVec<[Val; 4]> = SmallVec::new();
        let mut at = 8;
        let used = params_used(action);
        for (i, param) in action.params.iter().enumerate() {
            let base = Base::new(record, trusted());
            args.push(match used.contains(&(i as u32)) {
                true => load_words(&mut self.b, base, at, param.width),
                false => Val::zero(param.width),
            });
            at += 8 * param.width.div_ceil(64) as i32;
        }
        self.run_action(id, action, &args, missed, applied)
    }

    /// Runs an action; then control goes on as it or the block says.
    fn run_action(
        &mut self,
        id: ActionId,
        action: &Action,
        args: &[Val],
        missed: &Val,
        applied: &Applied<'_>,
    ) -> Result<(), Ended> {
        let idle = Val::bool(action.body.iter().all(|op| matches!(op, Op::Exit)));
        let idle_miss = self.and(missed, &idle);
        self.set_known(self.goto, 0);
        let site = Site { args, missed: Some(&idle_miss), lookup_missed: Some(missed) };
        let Some(node) = self.plan.flow.node_of[applied.block.index()] else {
            return Err(self.bail("a table that is not planned for"));
        };
        let before = std::mem::replace(&mut self.origin, Origin::Action(node, id));
        self.action_from(id, action, &action.body, site, missed, applied);
        self.origin = before;
        Err(Ended)
    }

    /// An action from these of its operations on; then control goes on as it or the block says.
    fn action_from(
        &mut self,
        id: ActionId,
        action: &Action,
        ops: &[Op],
        site: Site<'_>,
        missed: &Val,
        applied: &Applied<'_>,
    ) {
        let before = std::mem::replace(&mut self.site, format!("action {}", action.name));
        self.ops_then(ops, site, &mut 0, &mut |g, _| {
            match site.missed {
                Some(idle) => g.set(g.missed, idle),
                None => g.set_known(g.missed, 0),
            }
            let _: Result<(), Ended> = g.proceed(id, &action.body, missed, applied);
            Ended
        });
        self.site = before;
    }

    /// The packet waits at a stop.
    fn stop(&mut self, op: &Op, args: &[ir::Expr], site: Site<'_>) -> Ended {
        match self.wait_at(op, args, site) {
            Ok(()) | Err(Ended) => Ended,
        }
    }

    fn wait_at(&mut self, op: &Op, args: &[ir::Expr], site: Site<'_>) -> Result<(), Ended> {
        let plan = self.plan;
        let Some(stop) = plan.stops.find(self.origin, op) else {
            return Err(self.bail("a service in a loop, or amid choices"));
        };
        let station = plan.station(stop);
        let Some(point) = &plan.flow.points[station] else {
            return Err(self.bail("a service that is not planned for"));
        };
        // It is handed the packet as it would leave.
        if self.always() {
            return Err(self.bail("a service, and a checksum that is computed anew"));
        }
        let moved = self.get(self.moved, 1);
        self.bail_if(&moved, "a service behind headers that came or went")?;
        self.set_known(self.moved, 0);
        let in_order = self.get(self.in_order, 1);
        let disorder = self.not(&in_order);
        self.bail_if(&disorder, "the headers do not lie in the deparser's order")?;
        let stopped = &plan.stops.all[stop];
        if stopped.edits || stopped.results.iter().any(|m| plan.checksum_meta[m.index()]) {
            self.touch(&Val::bool(true))?;
        }
        let laid = self.b.use_var(self.laid);
        if stopped.edits && self.known(laid) != Some(0) {
            // It edits the frame itself: the driver is told which copies go on with what came in.
            self.store_laid();
        }
        let env = Env { args: site.args, ..Env::default() };
        let mut values: SmallVec<[Val; 8]> = SmallVec::new();
        let service = &plan.program.services[plan.stops.all[stop].service.index()];
        for (e, param) in args.iter().zip(&service.args) {
            let value = self.value(e, env)?;
            values.push(value.cast(&mut self.b, param.width));
        }
        // Also where none of them can be laid aside: then it bails out.
        if !plan.flow.changed[stop].is_empty() {
            self.images()?;
        }
        let facts = self.facts_at(point);
        let (facts, number) = self.points.version(station, facts);
        let facts = facts.clone();
        let flags = trusted();
        let (io, told) = (plan.frame.io(station) as i32, plan.frame.station(station).keys as i32);
        let place = self.b.ins().uload32(flags, self.context, io + offset::NODE_LEN);
        let stride = 8 * i64::from(plan.words(stop).0.max(1));
        let at = self.b.ins().imul_imm_u(place, stride);
        let told_at = self.b.ins().iadd(self.context, at);
        let told = Base::new(told_at, flags).at(told);
        let mut at = 0;
        for value in &values {
            store_words(&mut self.b, told, at, value);
            at += 8 * value.width.div_ceil(64) as i32;
        }
        self.increment(self.context, io + offset::NODE_LEN, place);
        self.wait(number, Some(place));
        self.save(point, &facts);
        let at = plan.slots.action;
        let goto = self.get(self.goto, 64);
        self.store_slot(at, &goto);
        if let Origin::Action(_, id) = self.origin {
            self.store_slot(at + 8, site.lookup_missed.unwrap_or(&Val::bool(false)));
            let used = plan.unit.program.actions.get(&id).map(|a| params_used(a));
            let mut at = at + 16;
            for (i, arg) in (0..).zip(site.args) {
                if used.as_ref().is_some_and(|used| used.contains(&i)) {
                    self.store_slot(at, arg);
                }
                at += 8 * arg.width.div_ceil(64) as i32;
            }
        }
        self.b.ins().jump(self.next, &[]);
        Err(Ended)
    }

    /// A packet that waited at a stop and about which this is known goes on; `passes` is 0 if the service
    /// has dropped it.
    pub(crate) fn resume_behind(&mut self, stop: usize, facts: &Facts, passes: Value) {
        let plan = self.plan;
        let station = plan.station(stop);
        let stopped = &plan.stops.all[stop];
        self.site = "behind a service".to_owned();
        let Some(point) = &plan.flow.points[station] else {
            self.bail("a service that is not planned for");
            return;
        };
        self.restore(point, facts);
        let zero = self.constant(0);
        let passes = self.compare(IntCC::NotEqual, passes, zero);
        let (yes, no) = (self.b.create_block(), self.b.create_block());
        self.branch(&passes, yes, no);
        self.enter(no);
        self.end(Some(DropReason::Service));
        self.enter(yes);
        match stopped.edits {
            true => {
                self.parses_for = Some(stop);
                self.parsed_here = true;
                self.any_way = true;
                self.behind_parser = &plan.flow.rests[stop];
                self.by_parser = &plan.flow.rests[stop];
                self.parse();
            }
            false => self.rest_of(stop),
        }
    }

    /// The packet was parsed anew behind a service that edits: goes on there.
    pub(crate) fn behind_edit(&mut self) {
        if let Some(stop) = self.parses_for {
            self.rest_of(stop);
        }
    }

    /// What is done behind a stop.
    fn rest_of(&mut self, stop: usize) {
        let plan = self.plan;
        let stopped = &plan.stops.all[stop];
        if stopped.edits {
            // The parser may have written these, too.
            for meta in stopped.results {
                if let Some(at) = plan.slots.meta[meta.index()] {
                    let value = self.load_slot(at, plan.program.metadata[meta.index()].width);
                    self.set_meta(*meta, &value);
                }
            }
        }
        let at = plan.slots.action;
        let goto = self.load_slot(at, 64);
        self.set(self.goto, &goto);
        self.origin = stopped.origin;
        match stopped.origin {
            // Nobody waits there.
            Origin::Bucket => {}
            Origin::Block(block) => {
                self.site = format!("block {}", plan.program.blocks[block.index()].name);
                let _: Result<(), Ended> = self.block_from(block, stopped.rest);
            }
            Origin::Action(node, id) => {
                let block = plan.unit.nodes[node].block;
                let action = plan.unit.program.actions.get(&id);
                let (Some(action), Terminator::Apply { hit, miss, by_action, .. }) =
                    (action, &plan.program.blocks[block.index()].end)
                else {
                    self.bail("an action that does not exist");
                    return;
                };
                let missed = self.load_slot(at + 8, 1);
                let used = params_used(action);
                let mut at = at + 16;
                let mut args: SmallVec<[Val; 4]> = SmallVec::new();
                for (i, param) in (0..).zip(&action.params) {
                    args.push(match used.contains(&i) {
                        true => self.load_slot(at, param.width),
                        false => Val::zero(param.width),
                    });
                    at += 8 * param.width.div_ceil(64) as i32;
                }
                let applied = Applied { block, hit: *hit, miss: *miss, by_action };
                // A call is something that was done.
                let site = Site { args: &args, missed: None, lookup_missed: Some(&missed) };
                self.action_from(id, action, stopped.rest, site, &missed, &applied);
            }
        }
    }

    fn proceed(
        &mut self,
        id: ActionId,
        body: &[Op],
        missed: &Val,
        applied: &Applied<'_>,
    ) -> Result<(), Ended> {
        self.follow_gotos(applied.block, body)?;
        if let Some((_, to)) = applied.by_action.iter().find(|(action, _)| *action == id) {
            return Err(self.go(applied.block, *to));
        }
        let (hit, miss) = (applied.hit, applied.miss);
        match missed.known_truth() {
            _ if hit == miss => Err(self.go(applied.block, hit)),
            Some(true) => Err(self.go(applied.block, miss)),
            Some(false) => Err(self.go(applied.block, hit)),
            None => {
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                self.branch(missed, yes, no);
                self.enter(yes);
                self.go(applied.block, miss);
                self.enter(no);
                Err(self.go(applied.block, hit))
            }
        }
    }

    /// Runs an action with constant arguments, wherever it wants to go, then what is said.
    pub(crate) fn run_to(&mut self, call: &ActionCall, then: &mut dyn FnMut(&mut Self) -> Ended) {
        let Some(action) = self.plan.unit.program.actions.get(&call.action) else {
            self.bail("an action that does not exist");
            return;
        };
        let args: SmallVec<[Val; 4]> =
            call.args.iter().map(|bits| Val::constant(&mut self.b, bits)).collect();
        let before = std::mem::replace(&mut self.site, format!("action {}", action.name));
        let missed = Val::bool(false);
        let site = Site { args: &args, missed: Some(&missed), lookup_missed: None };
        self.set_known(self.goto, 0);
        self.ops_then(&action.body, site, &mut 0, &mut |g, _| {
            g.set_known(g.missed, 0);
            then(g)
        });
        self.site = before;
    }

    /// Runs an action with constant arguments.
    fn call(
        &mut self,
        call: &ActionCall,
        missed: bool,
        applied: &Applied<'_>,
    ) -> Result<(), Ended> {
        let Some(action) = self.plan.unit.program.actions.get(&call.action) else {
            return Err(self.bail("an action that does not exist"));
        };
        let args: SmallVec<[Val; 4]> =
            call.args.iter().map(|bits| Val::constant(&mut self.b, bits)).collect();
        self.run_action(call.action, action, &args, &Val::bool(missed), applied)
    }
}

/// Parameters that an action's body looks at.
pub(crate) fn params_used(action: &Action) -> SmallVec<[u32; 8]> {
    let mut used = SmallVec::new();
    for op in &action.body {
        op.visit(&mut |op| {
            op.exprs(&mut |e| {
                e.visit(&mut |e| {
                    if let ir::Expr::Param(i) = e {
                        used.push(*i);
                    }
                });
            });
        });
    }
    used
}
