//! One function for each place where a burst is taken up: at its start, and behind each lookup.
//!
//! A segment loops over its packets. Each runs until it waits at a node, is done, or bails out.

use crate::bails::Bails;
use crate::emit::{Gen, fixed, trusted};
use crate::plan::Plan;
use crate::unused::drop_unused;
use crate::version::{Facts, Points, Which};
use abi::{offset, size, status};
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, Signature, UserFuncName, Value, condcodes::IntCC, types,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

/// Generates a segment.
pub(crate) fn generate(
    plan: &Plan<'_>,
    which: Which,
    bails: &mut Bails,
    points: &mut Points,
    isa: &dyn TargetIsa,
    frontend: &mut FunctionBuilderContext,
) -> Function {
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params.push(AbiParam::new(types::I64));
    let behind = match which {
        Which::Entry | Which::Rest => None,
        Which::Behind { node, version } => {
            points.get(node, version).map(|(facts, point)| (node, facts.clone(), point))
        }
    };
    let number = match which {
        Which::Entry => 0,
        Which::Rest => 1,
        Which::Behind { .. } => behind.as_ref().map_or(0, |(_, _, point)| point + 2),
    };
    let rest = (which == Which::Rest).then(|| points.rest());
    points.here = match which {
        Which::Entry | Which::Rest => None,
        Which::Behind { node, .. } => Some(node),
    };
    let name = UserFuncName::user(0, number);
    let mut function = Function::with_name_signature(name, signature);
    let builder = FunctionBuilder::new(&mut function, frontend);
    let mut g = Gen::new(builder, plan, bails, points);
    let flags = trusted();

    let frame = &plan.frame;
    g.any_way = which == Which::Rest;
    // The packets, or, where some have waited, their items at this place.
    let packets = g.b.ins().load(types::I64, flags, g.context, offset::CONTEXT_PACKETS);
    let list = match &behind {
        None => rest,
        Some((_, _, point)) => Some(*point),
    };
    let list = list.map(|point| frame.point(point as usize) as i32);
    let io = behind.as_ref().map(|(node, facts, _)| {
        let records = (*node < plan.unit.nodes.len()).then(|| match plan.is_mixed(*node) {
            true => Records::Of(frame.station(*node).tables as i32),
            false => {
                let at = frame.io(*node) as i32 + offset::NODE_RECORDS;
                Records::One(g.b.ins().load(types::I64, flags, g.context, at))
            }
        });
        Io { node: *node, facts, records, hits: frame.station(*node).hits as i32 }
    });
    // These loads stay in front of the loop, which those that may be moved do not.
    g.counts = io.is_some().then(|| g.load_counts(flags));
    // Of packets their addresses, of items their numbers.
    let (first, step, end) = match list {
        None => {
            let mut place = |at: i32| {
                let number = g.b.ins().uload32(flags, g.context, at);
                let bytes = g.b.ins().ishl_imm_u(number, i64::from(size::PACKET.trailing_zeros()));
                g.b.ins().iadd(packets, bytes)
            };
            let (from, end) = (place(offset::CONTEXT_FROM), place(offset::CONTEXT_LEN));
            (from, size::PACKET as u64, end)
        }
        Some(list) => {
            let len = g.b.ins().uload32(flags, g.context, list + offset::POINT_LEN);
            (g.constant(0), 1, len)
        }
    };
    let i = g.b.declare_var(types::I64);
    g.b.def_var(i, first);
    // The end is looked for behind each packet, and once in front of all.
    let (body, exit) = (g.b.create_block(), g.b.create_block());
    let more = g.b.ins().icmp(IntCC::UnsignedLessThan, first, end);
    g.b.ins().brif(more, body, &[], exit, &[]);
    g.b.switch_to_block(body);
    let at = g.b.use_var(i);
    let (packet, place) = match list {
        None => (at, at),
        Some(list) => {
            let item = g.listed(at, 3);
            let item = g.b.ins().load(types::I64, flags, item, list + offset::POINT_ITEMS);
            let place = g.b.ins().band_imm_u(item, abi::ITEM_PLACE_MASK as i64);
            // Not by a mask: what is worked out with constants is worked out anew in every block.
            (g.b.ins().isub(item, place), place)
        }
    };
    g.take(packet);
    // Slots lie side by side as packets do, and take some times as much room.
    const { assert!(size::PACKET == 64, "slots take whole packets' room") };
    let number = g.b.ins().isub(packet, packets);
    let at = g.b.ins().imul_imm_u(number, i64::from(plan.slots.stride / 64));
    let slots = g.b.ins().iadd(g.zeros, at);
    g.slots = g.plus(slots, u64::from(plan.slots.start()));
    match io {
        None => {
            g.parsed_here = true;
            if which == Which::Entry && plan.asks {
                g.stay_behind();
            }
            g.begin();
            g.parse();
        }
        Some(io) => {
            let hit = g.listed(place, size::HIT.trailing_zeros());
            let entry = g.b.ins().uload32(flags, hit, io.hits + offset::HIT_ENTRY);
            match io.records {
                Some(records) => {
                    let action = g.b.ins().uload32(flags, hit, io.hits + offset::HIT_ACTION);
                    if let Records::Of(tables) = records {
                        let at = g.listed(place, 2);
                        g.looked_up_at = Some(g.b.ins().uload32(flags, at, tables));
                    }
                    let records = g.records(records, place);
                    let bytes = 8 * i64::from(plan.unit.nodes[io.node].record_words);
                    let at = g.b.ins().imul_imm_u(action, bytes);
                    let record = g.b.ins().iadd(records, at);
                    g.resume(io.node, io.facts, entry, record);
                }
                None => g.resume_behind(io.node - plan.unit.nodes.len(), io.facts, entry),
            }
            g.pending_blocks();
        }
    }
    g.commit();

    for (block, state) in [(g.bail_block, status::BAIL), (g.drop_block, status::DROP)] {
        g.enter(block);
        let reason = g.b.block_params(block)[0];
        if let Some(lookups) = g.b.block_params(block).get(1).copied() {
            let lookups = g.b.ins().ireduce(types::I32, lookups);
            g.b.ins().store(flags, lookups, g.packet, offset::PACKET_LOOKUPS);
        }
        let mut state_value = g.b.ins().iconst(types::I8, i64::from(state));
        if state == status::DROP {
            let told = plan.flow.end.told.then(|| g.b.use_var(g.told));
            g.sink(told);
        }
        if state == status::DROP && plan.flow.end.told {
            let told = g.b.use_var(g.told);
            let telling = g.b.ins().iconst(types::I8, i64::from(status::TOLD));
            state_value = g.b.ins().select(told, telling, state_value);
            let none = g.b.ins().iconst(types::I8, 0);
            g.b.ins().store(flags, none, g.packet, offset::PACKET_OUTPUTS_LEN);
            g.b.ins().store(flags, none, g.packet, offset::PACKET_LAID);
        }
        g.b.ins().store(flags, reason, g.packet, offset::PACKET_REASON);
        g.b.ins().store(flags, state_value, g.packet, offset::PACKET_STATUS);
        if state == status::BAIL {
            let none = g.b.ins().iconst(types::I8, 0);
            g.b.ins().store(flags, none, g.packet, offset::PACKET_OUTPUTS_LEN);
            if plan.asks {
                let left = g.b.ins().iconst(types::I32, 1);
                g.b.ins().store(flags, left, g.context, offset::CONTEXT_LEFT);
            }
        }
        g.b.ins().jump(g.next, &[]);
    }
    g.enter(g.next);
    let at = g.b.use_var(i);
    let at = g.b.ins().iadd_imm_u(at, step as i64);
    g.b.def_var(i, at);
    let more = g.b.ins().icmp(IntCC::UnsignedLessThan, at, end);
    g.b.ins().brif(more, body, &[], exit, &[]);
    g.b.seal_block(body);
    g.enter(exit);
    g.b.ins().return_(&[]);
    g.b.finalize(isa.frontend_config());
    bails.count_values(function.dfg.num_values());
    drop_unused(&mut function);
    function
}
const _: () = assert!(
    size::HIT.is_power_of_two()
        && size::PACKET.is_power_of_two()
        && size::NODE_IO.is_power_of_two()
);

impl Gen<'_, '_> {
    /// Where a packet has left for the segment that parses whatever comes, those behind it do so, too.
    fn stay_behind(&mut self) {
        let io = self.plan.frame.point(self.points.rest() as usize) as i32;
        let waiting = self.b.ins().uload32(trusted(), self.context, io + offset::POINT_LEN);
        let zero = self.constant(0);
        let waiting = self.compare(IntCC::NotEqual, waiting, zero);
        let (away, here) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(away);
        self.branch(&waiting, away, here);
        self.enter(away);
        self.leave();
        self.enter(here);
    }

    /// The address of the action records of the packet at this place.
    fn records(&mut self, records: Records, place: Value) -> Value {
        let flags = trusted();
        match records {
            Records::One(records) => records,
            Records::Of(tables) => {
                let at = self.listed(place, 2);
                let node = self.b.ins().uload32(flags, at, tables);
                let at = self.listed(node, size::NODE_IO.trailing_zeros());
                let first = self.plan.frame.io(0) as i32;
                self.b.ins().load(types::I64, flags, at, first + offset::NODE_RECORDS)
            }
        }
    }

    /// What is noted beside the packet: where.
    pub(crate) fn noted(&mut self) -> Value {
        self.points.notes = true;
        const { assert!(size::PACKET == 64 && size::NOTED.is_multiple_of(64)) };
        let flags = fixed();
        let packets = self.b.ins().load(types::I64, flags, self.context, offset::CONTEXT_PACKETS);
        let noted = self.b.ins().load(types::I64, flags, self.context, offset::CONTEXT_NOTED);
        let number = self.b.ins().isub(self.packet, packets);
        let at = self.b.ins().imul_imm_u(number, size::NOTED as i64 / 64);
        self.b.ins().iadd(noted, at)
    }

    /// An item of a list in the burst's memory, of items of so many bytes (as a power of two): the list's
    /// offset is to be added.
    pub(crate) fn listed(&mut self, place: Value, power: u32) -> Value {
        let at = self.b.ins().ishl_imm_u(place, i64::from(power));
        self.b.ins().iadd(self.context, at)
    }

    /// Adds the packet to those that wait at a point, with its place at the node or stop, if it has one.
    pub(crate) fn wait(&mut self, point: u32, place: Option<Value>) {
        let flags = trusted();
        let io = self.plan.frame.point(point as usize) as i32;
        let len = self.b.ins().uload32(flags, self.context, io + offset::POINT_LEN);
        let item = match place {
            Some(place) => self.b.ins().bor(self.packet, place),
            None => self.packet,
        };
        let at = self.listed(len, 3);
        self.b.ins().store(flags, item, at, io + offset::POINT_ITEMS);
        self.increment(self.context, io + offset::POINT_LEN, len);
    }
}

/// What a segment behind a node reads.
struct Io<'f> {
    node: usize,
    facts: &'f Facts,
    /// None behind a stop.
    records: Option<Records>,
    /// Where answers are in the burst's memory.
    hits: i32,
}

/// Where action records are.
enum Records {
    /// All in one place.
    One(Value),
    /// Each packet's where its own table has them: the nodes that they were looked up at are listed here.
    Of(i32),
}
