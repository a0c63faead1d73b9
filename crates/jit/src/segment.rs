//! One function for each place where a burst is taken up: at its start, and behind each lookup.
//!
//! A segment loops over its packets. Each runs until it waits at a node, is done, or bails out.

use crate::bails::Bails;
use crate::emit::{Gen, fixed, trusted};
use crate::plan::Plan;
use crate::version::{Facts, Points};
use abi::{offset, size, status};
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, Signature, UserFuncName, Value, condcodes::IntCC, types,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

/// Which segment: the entry, or a version of the code behind a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The start of a burst.
    Entry,
    /// The start for packets that the entry does not parse.
    Rest,
    /// Behind a node or a stop.
    Behind {
        /// The node, or as many as there are nodes more than the stop.
        node: usize,
        /// Which of its versions.
        version: usize,
    },
}

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
    let name = UserFuncName::user(0, number);
    let mut function = Function::with_name_signature(name, signature);
    let builder = FunctionBuilder::new(&mut function, frontend);
    let mut g = Gen::new(builder, plan, bails, points);
    let flags = trusted();

    let packets = g.b.ins().load(types::I64, fixed(), g.context, offset::CONTEXT_PACKETS);
    let mut io = None;
    let mut items = None;
    g.any_way = which == Which::Rest;
    let count = match &behind {
        None => match rest {
            None => g.b.ins().uload32(flags, g.context, offset::CONTEXT_LEN),
            Some(point) => {
                let (list, len) = g.waiting(point);
                items = Some(list);
                len
            }
        },
        Some((node, facts, point)) => {
            let nodes = g.b.ins().load(types::I64, fixed(), g.context, offset::CONTEXT_NODES);
            let at = g.plus(nodes, (node * size::NODE_IO) as u64);
            let hits = g.b.ins().load(types::I64, flags, at, offset::NODE_HITS);
            let is_table = *node < plan.unit.nodes.len();
            let mut load = |field| g.b.ins().load(types::I64, flags, at, field);
            let records = is_table.then(|| match plan.is_mixed(*node) {
                true => Records::Of { nodes, tables: load(offset::NODE_TABLES) },
                false => Records::One(load(offset::NODE_RECORDS)),
            });
            let (list, len) = g.waiting(*point);
            items = Some(list);
            io = Some(Io { node: *node, facts, records, hits });
            len
        }
    };
    let i = g.b.declare_var(types::I64);
    g.set_known(i, 0);
    let (head, body, exit) = (g.b.create_block(), g.b.create_block(), g.b.create_block());
    g.b.ins().jump(head, &[]);
    g.b.switch_to_block(head);
    let place = g.b.use_var(i);
    let more = g.b.ins().icmp(IntCC::UnsignedLessThan, place, count);
    g.b.ins().brif(more, body, &[], exit, &[]);
    g.enter(body);
    let mut item = place;
    g.index = match items {
        None => place,
        Some(items) => {
            let at = g.b.ins().ishl_imm_u(place, 2);
            let at = g.b.ins().iadd(items, at);
            item = g.b.ins().uload32(flags, at, 0);
            g.b.ins().ushr_imm_u(item, i64::from(abi::ITEM_PACKET_SHIFT))
        }
    };
    let at = g.b.ins().ishl_imm_u(g.index, i64::from(size::PACKET.trailing_zeros()));
    let packet = g.b.ins().iadd(packets, at);
    g.take(packet);
    let at = g.b.ins().imul_imm_u(g.index, i64::from(plan.slots.stride));
    let slots = g.b.ins().iadd(g.zeros, at);
    g.slots = g.plus(slots, u64::from(plan.slots.start()));
    match io {
        None => {
            g.parsed_here = true;
            g.begin();
            g.parse();
        }
        Some(io) => {
            let place = g.b.ins().band_imm_u(item, i64::from(abi::ITEM_PLACE_MASK));
            let at = g.b.ins().ishl_imm_u(place, i64::from(size::HIT.trailing_zeros()));
            let hit = g.b.ins().iadd(io.hits, at);
            let entry = g.b.ins().uload32(flags, hit, offset::HIT_ENTRY);
            match io.records {
                Some(records) => {
                    let action = g.b.ins().uload32(flags, hit, offset::HIT_ACTION);
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
        let state_value = g.b.ins().iconst(types::I8, i64::from(state));
        g.b.ins().store(flags, reason, g.packet, offset::PACKET_REASON);
        g.b.ins().store(flags, state_value, g.packet, offset::PACKET_STATUS);
        if state == status::BAIL {
            let none = g.b.ins().iconst(types::I8, 0);
            g.b.ins().store(flags, none, g.packet, offset::PACKET_OUTPUTS_LEN);
        }
        g.b.ins().jump(g.next, &[]);
    }
    g.enter(g.next);
    let place = g.b.use_var(i);
    let place = g.b.ins().iadd_imm_u(place, 1);
    g.b.def_var(i, place);
    g.b.ins().jump(head, &[]);
    g.b.seal_block(head);
    g.enter(exit);
    g.b.ins().return_(&[]);
    g.b.finalize(isa.frontend_config());
    function
}
const _: () = assert!(size::HIT.is_power_of_two() && size::PACKET.is_power_of_two());

impl Gen<'_, '_> {
    /// The address of the action records of the packet at this place.
    fn records(&mut self, records: Records, place: Value) -> Value {
        let flags = trusted();
        match records {
            Records::One(records) => records,
            Records::Of { nodes, tables } => {
                let at = self.b.ins().ishl_imm_u(place, 2);
                let at = self.b.ins().iadd(tables, at);
                let node = self.b.ins().uload32(flags, at, 0);
                let at = self.b.ins().imul_imm_u(node, size::NODE_IO as i64);
                let at = self.b.ins().iadd(nodes, at);
                self.b.ins().load(types::I64, flags, at, offset::NODE_RECORDS)
            }
        }
    }

    /// Who waits at a point: the items' address and how many there are.
    fn waiting(&mut self, point: u32) -> (Value, Value) {
        let flags = trusted();
        let all = self.b.ins().load(types::I64, fixed(), self.context, offset::CONTEXT_POINTS);
        let io = self.plus(all, u64::from(point) * size::POINT_IO as u64);
        let items = self.b.ins().load(types::I64, flags, io, offset::POINT_ITEMS);
        (items, self.b.ins().uload32(flags, io, offset::POINT_LEN))
    }

    /// Adds an item to a point.
    pub(crate) fn wait(&mut self, io: Value, item: Value) {
        let flags = trusted();
        let len = self.b.ins().uload32(flags, io, offset::POINT_LEN);
        let items = self.b.ins().load(types::I64, flags, io, offset::POINT_ITEMS);
        let at = self.b.ins().ishl_imm_u(len, 2);
        let at = self.b.ins().iadd(items, at);
        let item = self.b.ins().ireduce(types::I32, item);
        self.b.ins().store(flags, item, at, 0);
        self.increment(io, offset::POINT_LEN, len);
    }
}

/// What a segment behind a node reads.
struct Io<'f> {
    node: usize,
    facts: &'f Facts,
    /// None behind a stop.
    records: Option<Records>,
    hits: Value,
}

/// Where action records are.
enum Records {
    /// All in one place.
    One(Value),
    /// Each packet's where its own table has them.
    Of {
        /// The nodes.
        nodes: Value,
        /// The node that each packet was looked up at.
        tables: Value,
    },
}
