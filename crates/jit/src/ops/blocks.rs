//! Blocks, the lookups that end them, and the actions that lookups choose.

use super::{Applied, COMPARED_MAX, Site};
use crate::emit::{Ended, Env, Gen, shared, trusted};
use crate::flow::gotos;
use crate::shape::params_used;
use crate::stops::Origin;
use crate::unit::NodeSpec;
use crate::value::{Base, Val, load_words, store_columns};
use crate::version::{Facts, pick};
use abi::{Hit, offset};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockCall, InstBuilder, JumpTableData, Value, types};
use ir::{Action, ActionCall, ActionId, BlockId, DropReason, Op, Terminator};
use smallvec::SmallVec;

impl<'f, 'p> Gen<'f, 'p> {
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
        let bound = self.points.bounds.block;
        let versions = self.versions.entry(block.0).or_default();
        let (b, pending) = (&mut self.b, &mut self.pending);
        let number = versions.len() as u32;
        let at = pick(versions, facts, bound, || {
            let new = b.create_block();
            pending.insert((block.0, number), new);
            new
        });
        versions[at].1
    }

    /// Follows gotos that operations may have chosen. Without one, code goes on here.
    pub(super) fn follow_gotos(&mut self, from: BlockId, ops: &[Op]) -> Result<(), Ended> {
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

    pub(super) fn block(&mut self, id: BlockId) -> Result<(), Ended> {
        let plan = self.plan;
        let block = &plan.program.blocks[id.index()];
        self.site = format!("block {}", block.name);
        self.set_known(self.goto, 0);
        self.block_from(id, &block.ops)
    }

    /// A block from these of its operations on.
    pub(super) fn block_from(&mut self, id: BlockId, ops: &[Op]) -> Result<(), Ended> {
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
    pub(super) fn columns(
        &mut self,
        spec: &NodeSpec,
        used: &dyn Fn(u16) -> bool,
    ) -> Result<Vec<Val>, Ended> {
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

    pub(super) fn call_block(&mut self, block: Block) -> BlockCall {
        self.b.func.dfg.block_call(block, &[])
    }

    pub(super) fn variant(
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
    pub(super) fn run_action(
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
    pub(super) fn action_from(
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
    pub(super) fn call(
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
