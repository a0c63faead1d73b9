//! Calls that code stops at, and what follows them.

use super::{Applied, Site};
use crate::emit::{Ended, Env, Gen, trusted};
use crate::shape::params_used;
use crate::stops::Origin;
use crate::value::{Base, Val, store_words};
use crate::version::Facts;
use abi::offset;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::{ActionId, DropReason, Op, Terminator};
use smallvec::SmallVec;

impl<'f, 'p> Gen<'f, 'p> {
    /// The packet waits at a stop.
    pub(super) fn stop(&mut self, op: &Op, args: &[ir::Expr], site: Site<'_>) -> Ended {
        match self.wait_at(op, args, site) {
            Ok(()) | Err(Ended) => Ended,
        }
    }

    pub(super) fn wait_at(
        &mut self,
        op: &Op,
        args: &[ir::Expr],
        site: Site<'_>,
    ) -> Result<(), Ended> {
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
    pub(super) fn rest_of(&mut self, stop: usize) {
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

    pub(super) fn proceed(
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
}
