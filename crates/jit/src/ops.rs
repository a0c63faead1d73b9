//! Operations and blocks.
//!
//! An operation that is not compiled bails out when it is reached. A write to a header after an
//! output bails out too, because all copies of a packet are alike.

use crate::emit::{Ended, Env, Gen, trusted};
use crate::flow::gotos;
use crate::shape::elements;
use crate::unit::NodeSpec;
use crate::value::{Val, load_words, store_key};
use abi::{Hit, OUTPUTS_MAX, offset, size};
use cranelift_codegen::ir::{
    Block, BlockCall, InstBuilder, JumpTableData, Value, condcodes::IntCC, types,
};
use ir::program::intrinsic;
use ir::{
    Action, ActionCall, ActionId, BlockId, DropReason, FieldRef, HeaderId, Op, Pattern, StackId,
    TableId, Terminator,
};
use smallvec::SmallVec;

/// Where operations stand.
#[derive(Clone, Copy)]
pub(crate) struct Site<'s> {
    /// The action's arguments.
    args: &'s [Val],
    /// In an action: one bit, whether the lookup missed and the action does nothing.
    missed: Option<&'s Val>,
}

/// How a table's lookup goes on, by what it found.
struct Applied<'s> {
    block: BlockId,
    hit: BlockId,
    miss: BlockId,
    by_action: &'s [(ActionId, BlockId)],
}

impl<'f, 'p> Gen<'f, 'p> {
    /// Operations in order.
    fn ops(&mut self, ops: &[Op], site: Site<'_>) -> Result<(), Ended> {
        ops.iter().try_for_each(|op| self.op(op, site))
    }

    fn op(&mut self, op: &Op, site: Site<'_>) -> Result<(), Ended> {
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
            Op::Group { .. } => return Err(self.bail("a group")),
            Op::Clone { .. } => return Err(self.bail("a clone")),
            Op::Resubmit { .. } => return Err(self.bail("the packet is resubmitted")),
            Op::Recirculate { .. } => return Err(self.bail("the packet is recirculated")),
            Op::Punt { .. } => return Err(self.bail("a punt")),
            Op::Digest { .. } => return Err(self.bail("a digest")),
            Op::Meter { .. } => return Err(self.bail("a meter")),
            Op::Count { .. } => return Err(self.bail("an indirect counter")),
            Op::RegisterRead { .. } | Op::RegisterWrite { .. } => {
                return Err(self.bail("a register"));
            }
            Op::Random { .. } => return Err(self.bail("a random number")),
        }
        Ok(())
    }

    /// Something that the emitted bytes depend on is about to change, if the condition holds: bails
    /// out if something was output.
    fn touch(&mut self, condition: &Val) -> Result<(), Ended> {
        let outputs = self.get(self.outputs, 8);
        let both = self.and(condition, &outputs);
        self.bail_if(&both, "the packet changes after an output")
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
        let (port, queue) = (port.low_u32(&mut self.b), queue.low_u32(&mut self.b));
        let count = self.b.use_var(self.outputs);
        let place = match self.known(count) {
            Some(count) if count as usize >= OUTPUTS_MAX => {
                return Err(self.bail("more outputs than there is room for"));
            }
            Some(count) => {
                self.set_known(self.outputs, count + 1);
                (self.packet, offset::PACKET_OUTPUTS + (size::OUTPUT as u64 * count) as i32)
            }
            None => {
                let max = self.constant(OUTPUTS_MAX as u64);
                let full = self.compare(IntCC::Equal, count, max);
                self.bail_if(&full, "more outputs than there is room for")?;
                let more = self.plus(count, 1);
                self.b.def_var(self.outputs, more);
                let at = self.b.ins().imul_imm_u(count, size::OUTPUT as i64);
                (self.b.ins().iadd(self.packet, at), offset::PACKET_OUTPUTS)
            }
        };
        self.b.ins().store(trusted(), port, place.0, place.1);
        self.b.ins().store(trusted(), queue, place.0, place.1 + 4);
        Ok(())
    }

    // Ends.

    /// The pass ends, given up for a reason or not.
    pub(crate) fn end(&mut self, dropped: Option<DropReason>) -> Ended {
        let outputs = self.get(self.outputs, 8);
        match outputs.known_truth() {
            Some(true) => return self.forward(),
            Some(false) => {}
            None => {
                let (some, none) = (self.b.create_block(), self.b.create_block());
                self.branch(&outputs, some, none);
                self.enter(some);
                self.forward();
                self.enter(none);
            }
        }
        match dropped {
            Some(reason) => self.drop(reason as u32),
            None => {
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
        let block = match self.pending.get(&to.0) {
            Some(block) => *block,
            None => {
                let block = self.b.create_block();
                self.pending.insert(to.0, block);
                block
            }
        };
        self.b.ins().jump(block, &[]);
        Ended
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
        while let Some((id, block)) = self.pending.pop_first() {
            self.enter(block);
            let _: Result<(), Ended> = self.block(BlockId(id));
        }
    }

    fn block(&mut self, id: BlockId) -> Result<(), Ended> {
        let plan = self.plan;
        let block = &plan.program.blocks[id.index()];
        self.site = format!("block {}", block.name);
        self.set_known(self.goto, 0);
        self.ops(&block.ops, Site { args: &[], missed: None })?;
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
                if spec.table != *table {
                    return Err(self.bail("a table that is not planned for"));
                }
                let applied = Applied { block: id, hit: *hit, miss: *miss, by_action };
                match &spec.direct {
                    Some(_) => self.direct(spec, *table, applied),
                    None => self.park(node, spec),
                }
            }
        }
    }

    /// The packet's columns of a table's key, in order.
    fn columns(&mut self, spec: &NodeSpec, used: &dyn Fn(u16) -> bool) -> Result<Vec<Val>, Ended> {
        let plan = self.plan;
        let key = &plan.program.tables[spec.table.index()].key;
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

    /// Leaves the packet waiting at a node.
    fn park(&mut self, node: usize, spec: &NodeSpec) -> Result<(), Ended> {
        let plan = self.plan;
        let columns = self.columns(spec, &|_| true)?;
        let (stride, len) = plan.key(node);
        let flags = trusted();
        let nodes = self.b.ins().load(types::I64, flags, self.context, offset::CONTEXT_NODES);
        let leader = spec.leader.unwrap_or(node);
        let io = self.plus(nodes, (leader * size::NODE_IO) as u64);
        let place = self.b.ins().uload32(flags, io, offset::NODE_LEN);
        let keys = self.b.ins().load(types::I64, flags, io, offset::NODE_KEYS);
        let at = match stride.is_power_of_two() {
            true => self.b.ins().ishl_imm_u(place, i64::from(stride.trailing_zeros())),
            false => self.b.ins().imul_imm_u(place, stride as i64),
        };
        let key = self.b.ins().iadd(keys, at);
        let mut at = 0;
        for value in &columns {
            let bytes = value.width.div_ceil(8);
            store_key(&mut self.b, key, at, bytes, value);
            at += bytes as i32;
        }
        store_key(&mut self.b, key, at, (stride - len) as u32, &Val::zero(64));
        let items = self.b.ins().load(types::I64, flags, io, offset::NODE_ITEMS);
        let at = self.b.ins().ishl_imm_u(place, 2);
        let item = self.b.ins().iadd(items, at);
        let noted = self.plus(self.index, (node as u64) << abi::ITEM_NODE_SHIFT);
        let noted = self.b.ins().ireduce(types::I32, noted);
        self.b.ins().store(flags, noted, item, 0);
        let more = self.b.ins().iadd_imm_u(place, 1);
        let more = self.b.ins().ireduce(types::I32, more);
        self.b.ins().store(flags, more, io, offset::NODE_LEN);
        self.save(node);
        self.b.ins().jump(self.next, &[]);
        Err(Ended)
    }

    /// Stores what the code behind a node needs.
    fn save(&mut self, node: usize) {
        let plan = self.plan;
        let Some(point) = &plan.flow.points[node] else { return };
        let slots = &plan.slots;
        for m in 0..self.meta.len() {
            if let Some(at) = slots.meta[m]
                && point.may.meta.has(m)
                && point.live.meta.has(m)
            {
                let value = self.read_meta(ir::MetaId(m as u32));
                self.store_slot(at, &value);
            }
        }
        for h in 0..self.headers.len() {
            if !point.live.headers.has(h) {
                continue;
            }
            let header = &plan.shape.headers[h];
            if let (Some(at), Some(vars)) = (slots.headers[h], self.headers[h].clone())
                && point.may.valid.has(h)
            {
                let base = self.get(vars.base, 64);
                self.store_slot(at, &base);
                if header.varbit.is_some() {
                    let bytes = self.get(vars.varbit, 64);
                    self.store_slot(at + 8, &bytes);
                }
            }
            for (f, field) in plan.program.type_of(HeaderId(h as u32)).fields.iter().enumerate() {
                let f = header.first_field + f;
                if let (Some(at), Some(vars)) = (slots.fields[f], self.fields[f].clone())
                    && point.may.dirty.has(f)
                {
                    let dirty = self.get(vars.dirty, 1);
                    self.store_slot(at, &dirty);
                    if dirty.known_truth() != Some(false) {
                        let value = self.get_wide(&vars.limbs, field.width);
                        self.store_slot(at + 8, &value);
                    }
                }
            }
        }
        if let Some(at) = slots.edge {
            let edge = self.get(self.edge, 64);
            self.store_slot(at, &edge);
        }
        if let Some(at) = slots.in_order {
            let in_order = self.get(self.in_order, 1);
            self.store_slot(at, &in_order);
        }
        if point.may.output {
            self.store_outputs();
        }
    }

    pub(crate) fn store_outputs(&mut self) {
        let outputs = self.b.use_var(self.outputs);
        let outputs = self.b.ins().ireduce(types::I8, outputs);
        self.b.ins().store(trusted(), outputs, self.packet, offset::PACKET_OUTPUTS_LEN);
    }

    /// Sets all variables to what [`save`](Self::save) stored.
    fn restore(&mut self, node: usize) {
        self.begin();
        let plan = self.plan;
        let Some(point) = &plan.flow.points[node] else { return };
        let slots = &plan.slots;
        for m in 0..self.meta.len() {
            if let Some(at) = slots.meta[m]
                && point.may.meta.has(m)
                && point.live.meta.has(m)
            {
                let value = self.load_slot(at, plan.program.metadata[m].width);
                self.set_meta(ir::MetaId(m as u32), &value);
            }
        }
        for h in 0..self.headers.len() {
            if !point.live.headers.has(h) {
                continue;
            }
            let header = &plan.shape.headers[h];
            if let (Some(at), Some(vars)) = (slots.headers[h], self.headers[h].clone())
                && point.may.valid.has(h)
            {
                let base = self.load_slot(at, 64).to_i64_low(&mut self.b);
                self.b.def_var(vars.base, base);
                let valid = self.compare(IntCC::NotEqual, base, self.zeros);
                self.set(vars.valid, &valid);
                if header.varbit.is_some() {
                    let bytes = self.load_slot(at + 8, 64);
                    self.set(vars.varbit, &bytes);
                }
            }
            for (f, field) in plan.program.type_of(HeaderId(h as u32)).fields.iter().enumerate() {
                let f = header.first_field + f;
                if let (Some(at), Some(vars)) = (slots.fields[f], self.fields[f].clone())
                    && point.may.dirty.has(f)
                {
                    let dirty = self.load_slot(at, 1);
                    self.set(vars.dirty, &dirty);
                    let value = self.load_slot(at + 8, field.width);
                    self.set_wide(&vars.limbs, &value);
                }
            }
        }
        if let Some(at) = slots.edge {
            let edge = self.load_slot(at, 64);
            self.set(self.edge, &edge);
        }
        if let Some(at) = slots.in_order {
            let in_order = self.load_slot(at, 1);
            self.set(self.in_order, &in_order);
        }
        if point.may.moved {
            self.set_known(self.moved, 1);
        }
        if point.may.output {
            let flags = trusted();
            let outputs =
                self.b.ins().uload8(types::I64, flags, self.packet, offset::PACKET_OUTPUTS_LEN);
            self.b.def_var(self.outputs, outputs);
        }
    }

    /// A packet that waited at a node goes on: `entry` and `action` (both 32 bits wide) are its
    /// hit, `records` the address of the table's action records.
    pub(crate) fn resume(&mut self, node: usize, entry: Value, record: Value) {
        let plan = self.plan;
        let spec = &plan.unit.nodes[node];
        let block = &plan.program.blocks[spec.block.index()];
        self.site = format!("block {}", block.name);
        self.restore(node);
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
        match &known[..] {
            [only] => {
                let one = self.b.ins().icmp_imm_u(IntCC::Equal, variant, 1);
                self.b.ins().brif(one, *only, &[], unknown, &[]);
            }
            _ => {
                let default = self.call_block(unknown);
                let mut cases = vec![default];
                for block in &known {
                    cases.push(self.call_block(*block));
                }
                let table = JumpTableData::new(default, &cases);
                let table = self.b.create_jump_table(table);
                self.b.ins().br_table(variant, table);
            }
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
            let base = crate::value::Base::new(record, trusted());
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
        let before = std::mem::replace(&mut self.site, format!("action {}", action.name));
        let idle = Val::bool(action.body.iter().all(|op| matches!(op, Op::Exit)));
        let idle_miss = self.and(missed, &idle);
        self.set_known(self.goto, 0);
        let done = self.ops(&action.body, Site { args, missed: Some(&idle_miss) });
        if done.is_ok() {
            self.set(self.missed, &idle_miss);
            let _: Result<(), Ended> = self.proceed(id, &action.body, missed, applied);
        }
        self.site = before;
        Err(Ended)
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

    /// A table whose entries are code.
    fn direct(
        &mut self,
        spec: &NodeSpec,
        table: TableId,
        applied: Applied<'_>,
    ) -> Result<(), Ended> {
        let entries = spec.direct.as_deref().unwrap_or_default();
        let used = |column: u16| entries.iter().any(|e| e.matches.iter().any(|m| m.key == column));
        let columns = self.columns(spec, &used)?;
        for entry in entries {
            let mut matches = Val::bool(true);
            for m in &entry.matches {
                let column = spec.columns.iter().position(|c| *c == m.key);
                let Some(value) = column.map(|c| &columns[c]) else {
                    return Err(self.bail("an entry with an unexpected key field"));
                };
                let here = self.pattern(&m.pattern, value);
                matches = self.and(&matches, &here);
            }
            let rest = match matches.known_truth() {
                Some(false) => continue,
                Some(true) => None,
                None => {
                    let (yes, no) = (self.b.create_block(), self.b.create_block());
                    self.branch(&matches, yes, no);
                    self.enter(yes);
                    Some(no)
                }
            };
            self.log(table, entry.entry.0);
            let _: Result<(), Ended> = self.call(&entry.call, false, &applied);
            match rest {
                Some(rest) => self.enter(rest),
                None => return Err(Ended),
            }
        }
        self.log(table, Hit::MISS_ENTRY);
        self.call(&spec.default, true, &applied)
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

    /// One bit: a value matches a pattern.
    fn pattern(&mut self, pattern: &Pattern, value: &Val) -> Val {
        let b = &mut self.b;
        match pattern {
            Pattern::Exact(v) => {
                let v = Val::constant(b, v);
                value.equal(b, &v)
            }
            Pattern::Prefix(v, len) => {
                let by = value.width - (*len).min(value.width);
                let v = Val::constant(b, &v.shr(by));
                value.shr(b, by).equal(b, &v)
            }
            Pattern::Masked(v, mask) => {
                let (v, mask) = (Val::constant(b, v), Val::constant(b, mask));
                match Val::binary(b, ir::BinaryOp::And, value, &mask) {
                    Ok(masked) => masked.equal(b, &v),
                    Err(_) => Val::bool(false),
                }
            }
            Pattern::Range(lo, hi) => {
                let (lo, hi) = (Val::constant(b, lo), Val::constant(b, hi));
                let (below, above) = (value.less(b, &lo), hi.less(b, value));
                let outside = self.or(&below, &above);
                self.not(&outside)
            }
        }
    }

    /// Notes a lookup, to be counted.
    fn log(&mut self, table: TableId, entry: u32) {
        let flags = trusted();
        let lookups = self.b.ins().load(types::I32, flags, self.packet, offset::PACKET_LOOKUPS);
        let lookups = self.b.ins().iadd_imm_u(lookups, 1);
        self.b.ins().store(flags, lookups, self.packet, offset::PACKET_LOOKUPS);
        let log = self.b.ins().load(types::I64, flags, self.context, offset::CONTEXT_LOG);
        let len = self.b.ins().uload32(flags, self.context, offset::CONTEXT_LOG_LEN);
        let at = self.b.ins().imul_imm_u(len, size::LOG_ENTRY as i64);
        let at = self.b.ins().iadd(log, at);
        let table = self.b.ins().iconst(types::I32, i64::from(table.0));
        let entry = self.b.ins().iconst(types::I32, i64::from(entry));
        let bytes = self.b.ins().ireduce(types::I32, self.len);
        self.b.ins().store(flags, table, at, offset::LOG_TABLE);
        self.b.ins().store(flags, entry, at, offset::LOG_ENTRY);
        self.b.ins().store(flags, bytes, at, offset::LOG_BYTES);
        let len = self.b.ins().iadd_imm_u(len, 1);
        let len = self.b.ins().ireduce(types::I32, len);
        self.b.ins().store(flags, len, self.context, offset::CONTEXT_LOG_LEN);
    }
}

/// Parameters that an action's body looks at.
fn params_used(action: &Action) -> SmallVec<[u32; 8]> {
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
