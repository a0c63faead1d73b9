//! A packet's state while code for it is generated, and expressions over it.
//!
//! The state lives in Cranelift variables: metadata, and for each header whether it is valid and where
//! its bytes are. A field is read from the packet's bytes, unless an operation may have written it:
//! then it has a variable and a flag that says which of both counts. Nothing is written to the packet
//! before [`commit`](crate::commit).
//!
//! Constants are made once, in the entry block, and remembered. So where all ways that meet agree on
//! a constant, the variable *is* that constant, and what depends on it folds: a header that was not
//! parsed on any way costs nothing.
//!
//! Holds true: an invalid header's base is the zero area, its fields are not written, its varbit
//! field is empty; so reading it needs no test.

use crate::bails::Bails;
use crate::flow::Live;
use crate::plan::Plan;
use crate::shape::elements;
use crate::stops::Origin;
use crate::value::{Adjust, Base, Val, load_be, load_words, store_words};
use crate::version::{Facts, Know, Points};
use abi::offset;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{
    AliasRegion, AliasRegionData, Block, BlockArg, InstBuilder, MemFlagsData, Value,
    condcodes::IntCC, types,
};
use cranelift_frontend::{FunctionBuilder, Variable};
use ir::program::intrinsic;
use ir::{
    BinaryOp, BlockId, Expr, FieldId, FieldRef, HashAlgorithm, HeaderId, MetaId, Preface, StackId,
};
use std::collections::{BTreeMap, HashMap};

/// No output is cut.
pub(crate) const UNCUT: u64 = u32::MAX as u64;

/// Code for the rest of the block is not needed: it was ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended;

/// A header's variables.
#[derive(Clone, Debug)]
pub(crate) struct HeaderVars {
    /// 0 or 1.
    pub(crate) valid: Variable,
    /// Address of its first byte.
    pub(crate) base: Variable,
    /// Bytes of its varbit field.
    pub(crate) varbit: Variable,
}

/// Variables of a field that operations may write.
#[derive(Clone, Debug)]
pub(crate) struct FieldVars {
    /// 1 if it was written.
    pub(crate) dirty: Variable,
    /// Then this is its value.
    pub(crate) limbs: Vec<Variable>,
}

/// How a copy that is made in the midst of operations ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyEnd {
    /// The packet itself goes on here.
    pub(crate) rest: Block,
    /// Some way leads there.
    pub(crate) ends: bool,
    /// Operations may change what is output.
    pub(crate) changes: bool,
    /// Copies that it is inside of.
    pub(crate) depth: u32,
}

/// What counting an entry takes: where cells are, how many there are, the time.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) cells: Value,
    pub(crate) len: Value,
    pub(crate) now: Value,
}

/// What expressions may look at beside the state.
#[derive(Clone, Copy, Default)]
pub(crate) struct Env<'e> {
    /// The action's arguments.
    pub(crate) args: &'e [Val],
    /// The header fields' values as they were parsed.
    pub(crate) then: bool,
    /// Within the parser.
    pub(crate) parser: bool,
}

/// A function under construction.
pub(crate) struct Gen<'f, 'p> {
    pub(crate) b: FunctionBuilder<'f>,
    pub(crate) plan: &'p Plan<'p>,
    pub(crate) bails: &'p mut Bails,
    pub(crate) points: &'p mut Points,
    pub(crate) entry: Block,
    consts: HashMap<u64, Value>,
    known: HashMap<Value, u64>,
    /// Addresses so many bytes behind the packet's first byte, and the other way round.
    places: HashMap<u64, Value>,
    placed: HashMap<Value, u64>,
    /// The argument.
    pub(crate) context: Value,
    /// Zeros, as many as the longest header has bytes: where invalid headers are.
    pub(crate) zeros: Value,
    /// As many again: where headers are that were made valid.
    pub(crate) fresh: Value,
    /// Room for headers in front of a payload.
    pub(crate) scratch: Value,
    /// The packet's description, bytes and length, and its state slots.
    pub(crate) packet: Value,
    pub(crate) data: Value,
    pub(crate) len: Value,
    /// Without a preface.
    pub(crate) length: Value,
    pub(crate) slots: Value,
    /// At hand for all packets, where each is counted.
    pub(crate) counts: Option<Counts>,
    pub(crate) meta: Vec<Option<Vec<Variable>>>,
    pub(crate) headers: Vec<Option<HeaderVars>>,
    pub(crate) fields: Vec<Option<FieldVars>>,
    /// Bytes parsed.
    pub(crate) cursor: Variable,
    /// Bytes of the headers that can move.
    pub(crate) edge: Variable,
    /// 1 as long as the parsed headers lie in the deparser's order.
    pub(crate) in_order: Variable,
    /// 1 if headers came, went or moved.
    pub(crate) moved: Variable,
    /// How many outputs there are.
    pub(crate) outputs: Variable,
    /// 1 if the last of them have no copy laid: they are as the packet is now.
    pub(crate) unlaid: Variable,
    /// How many copies were laid.
    pub(crate) laid: Variable,
    /// Bytes that outputs have from here on, at most.
    pub(crate) cut: Variable,
    /// 0, or 1 more than the reason that the first copy which was given up was given up for.
    pub(crate) lost: Variable,
    /// What the control side is told: bits of [`crate::told`].
    pub(crate) told: Variable,
    /// What was looked up last, as [`abi::state::Tell`] is told it; 0 if nothing was, or nobody asks.
    pub(crate) last: Variable,
    /// At a node of several tables: the packet's own node.
    pub(crate) looked_up_at: Option<Value>,
    /// What is generated is done on a copy of the packet, which ends so.
    pub(crate) copy: Option<CopyEnd>,
    /// Groups that what is generated is inside of.
    pub(crate) groups: u32,
    /// Places where a copy may be laid, so far.
    pub(crate) layings: u32,
    /// 1 if the last lookup missed and nothing was done since.
    pub(crate) missed: Variable,
    /// 0, or 1 more than the block that an action wants to go to.
    pub(crate) goto: Variable,
    /// Lookups that were counted for the packet so far.
    pub(crate) lookups: Variable,
    /// Rounds of loops so far.
    pub(crate) rounds: Variable,
    /// The packet was parsed in this function, so that its payload's place is known.
    pub(crate) parsed_here: bool,
    /// Where packets that are done go.
    pub(crate) next: Block,
    /// Takes the number of the bail-out.
    pub(crate) bail_block: Block,
    /// Takes the reason.
    pub(crate) drop_block: Block,
    /// Versions of the end that writes the packet's bytes and forwards it.
    pub(crate) commits: Vec<(Facts, Block)>,
    /// By program block: its versions.
    pub(crate) versions: HashMap<u32, Vec<(Facts, Block)>>,
    /// Program blocks that are still to be generated, with the number of the version.
    pub(crate) pending: BTreeMap<(u32, u32), Block>,
    /// The parser takes any way, with code that knows nothing.
    pub(crate) any_way: bool,
    /// The packet has at least so many bytes.
    pub(crate) floor: u64,
    /// Whose operations are being generated.
    pub(crate) origin: Origin,
    /// What is looked at behind the parser, and by it.
    pub(crate) behind_parser: &'p Live,
    pub(crate) by_parser: &'p Live,
    /// Behind the parser, the rest of this stop is done; otherwise the first block.
    pub(crate) parses_for: Option<usize>,
    /// What is being generated, for bail-outs.
    pub(crate) site: String,
}

/// Regions of memory: a store to one does not change the other. Bytes of headers, and all that the
/// code shares with the switch.
const HEADERS: u32 = 0;
const SHARED: u32 = 1;

/// Flags of accesses to bytes of headers: in packets, and where headers are that are not.
pub(crate) fn packet() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_alias_region(Some(AliasRegion::from_u32(HEADERS)))
}

/// Bytes of headers from an address on.
pub(crate) fn bytes(address: Value) -> Base {
    Base::new(address, packet())
}

/// Flags of accesses outside of packets.
pub(crate) fn shared() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_alias_region(Some(AliasRegion::from_u32(SHARED)))
}

/// Flags of accesses outside of packets to what is aligned, as nearly all is.
pub(crate) fn trusted() -> MemFlagsData {
    shared().with_aligned()
}

/// Flags of loads whose place nobody writes while a segment runs: these may be shared and moved.
pub(crate) fn fixed() -> MemFlagsData {
    trusted().with_readonly().with_can_move()
}

impl<'f, 'p> Gen<'f, 'p> {
    pub(crate) fn new(
        mut b: FunctionBuilder<'f>,
        plan: &'p Plan<'p>,
        bails: &'p mut Bails,
        points: &'p mut Points,
    ) -> Gen<'f, 'p> {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        b.seal_block(entry);
        for (user_id, description) in [(HEADERS, "headers"), (SHARED, "shared")] {
            let description = description.into();
            b.func.dfg.alias_regions.insert(AliasRegionData { user_id, description });
        }
        let context = b.block_params(entry)[0];
        let zeros = b.ins().iadd_imm_u(context, plan.frame.state() as i64);
        let fresh = b.ins().iadd_imm_u(zeros, i64::from(plan.slots.zeros));
        let scratch = b.ins().iadd_imm_u(zeros, 2 * i64::from(plan.slots.zeros));
        let mut var = || b.declare_var(types::I64);
        let end = &plan.flow.end;
        let program = plan.program;
        let limbs = |width: u32| width.div_ceil(64);
        let mut meta = Vec::new();
        for (m, field) in program.metadata.iter().enumerate() {
            let vars = end.meta.has(m).then(|| (0..limbs(field.width)).map(|_| var()).collect());
            meta.push(vars);
        }
        let mut headers = Vec::new();
        let mut fields = Vec::new();
        for h in 0..program.headers.len() {
            headers.push(end.valid.has(h).then(|| HeaderVars {
                valid: var(),
                base: var(),
                varbit: var(),
            }));
            for field in &program.type_of(HeaderId(h as u32)).fields {
                // A varbit field is never written in code.
                let dirty = end.dirty.has(fields.len()) && !field.varbit;
                fields.push(dirty.then(|| FieldVars {
                    dirty: var(),
                    limbs: (0..limbs(field.width)).map(|_| var()).collect(),
                }));
            }
        }
        let (cursor, edge, in_order, moved) = (var(), var(), var(), var());
        let (outputs, missed, goto, lookups) = (var(), var(), var(), var());
        let rounds = var();
        let (unlaid, laid, cut, lost) = (var(), var(), var(), var());
        let (told, last) = (var(), var());
        let next = b.create_block();
        let bail_block = b.create_block();
        b.append_block_param(bail_block, types::I32);
        b.append_block_param(bail_block, types::I64);
        b.set_cold_block(bail_block);
        let drop_block = b.create_block();
        b.append_block_param(drop_block, types::I32);
        Gen {
            b,
            plan,
            bails,
            points,
            entry,
            consts: HashMap::new(),
            known: HashMap::new(),
            places: HashMap::new(),
            placed: HashMap::new(),
            context,
            zeros,
            fresh,
            scratch,
            packet: context,
            data: context,
            len: context,
            length: context,
            slots: context,
            counts: None,
            meta,
            headers,
            fields,
            cursor,
            edge,
            in_order,
            moved,
            outputs,
            unlaid,
            laid,
            cut,
            lost,
            told,
            last,
            looked_up_at: None,
            copy: None,
            groups: 0,
            layings: 0,
            missed,
            goto,
            lookups,
            rounds,
            parsed_here: false,
            next,
            bail_block,
            drop_block,
            commits: Vec::new(),
            versions: HashMap::new(),
            pending: BTreeMap::new(),
            any_way: false,
            floor: 0,
            origin: Origin::Block(BlockId(0)),
            behind_parser: plan.flow.at_first(),
            by_parser: &plan.flow.parsed,
            parses_for: None,
            site: String::new(),
        }
    }

    /// A constant, the same value each time.
    pub(crate) fn constant(&mut self, k: u64) -> Value {
        if let Some(value) = self.consts.get(&k) {
            return *value;
        }
        let mut at = FuncCursor::new(self.b.func).at_first_insertion_point(self.entry);
        let value = at.ins().iconst(types::I64, k as i64);
        self.consts.insert(k, value);
        self.known.insert(value, k);
        value
    }

    /// The constant that a value is.
    pub(crate) fn known(&self, value: Value) -> Option<u64> {
        self.known.get(&self.b.func.dfg.resolve_aliases(value)).copied()
    }

    /// The packet is at hand: its description's and its bytes' address, its length.
    pub(crate) fn take(&mut self, packet: Value) {
        self.packet = packet;
        self.data = self.b.ins().load(types::I64, trusted(), packet, offset::PACKET_DATA);
        self.len = self.b.ins().uload32(trusted(), packet, offset::PACKET_LEN);
        self.length = match self.plan.program.preface {
            Some(preface) => self.without(preface),
            None => self.len,
        };
        self.places = HashMap::from([(0, self.data)]);
        self.placed = HashMap::from([(self.data, 0)]);
    }

    /// The packet's length without the preface that it may have.
    fn without(&mut self, preface: Preface) -> Value {
        let port = self.b.ins().uload32(trusted(), self.packet, offset::PACKET_IN_PORT);
        let upper = self.b.ins().ushr_imm_u(port, 16);
        let of = self.b.ins().icmp_imm_u(IntCC::Equal, upper, i64::from(preface.ports));
        // One that is shorter has no length.
        let bytes = self.b.ins().iconst(types::I64, i64::from(preface.bytes));
        let less = self.b.ins().umin(self.len, bytes);
        let none = self.b.ins().iconst(types::I64, 0);
        let less = self.b.ins().select(of, less, none);
        self.b.ins().isub(self.len, less)
    }

    /// The address so many bytes behind the packet's first byte, the same value each time.
    pub(crate) fn place(&mut self, k: u64) -> Value {
        if let Some(value) = self.places.get(&k) {
            return *value;
        }
        let offset = self.constant(k);
        let mut at = FuncCursor::new(self.b.func);
        match at.func.dfg.value_def(self.data) {
            cranelift_codegen::ir::ValueDef::Result(inst, _) => {
                at.goto_after_inst(inst);
            }
            // The packet's address is always loaded.
            _ => return self.b.ins().iadd(self.data, offset),
        }
        let value = at.ins().iadd(self.data, offset);
        self.places.insert(k, value);
        self.placed.insert(value, k);
        value
    }

    /// What is known of a value.
    pub(crate) fn know(&self, value: Value) -> Know {
        let value = self.b.func.dfg.resolve_aliases(value);
        if let Some(k) = self.known.get(&value) {
            return Know::Const(*k);
        }
        if value == self.zeros {
            return Know::Zeros;
        }
        if value == self.fresh {
            return Know::Fresh;
        }
        self.placed.get(&value).map_or(Know::Unknown, |k| Know::Data(*k))
    }

    /// What is known of a variable.
    pub(crate) fn know_var(&mut self, var: Variable) -> Know {
        let value = self.b.use_var(var);
        self.know(value)
    }

    /// A value that is known.
    pub(crate) fn recall(&mut self, know: Know) -> Option<Value> {
        match know {
            Know::Unknown => None,
            Know::Const(k) => Some(self.constant(k)),
            Know::Data(k) => Some(self.place(k)),
            Know::Zeros => Some(self.zeros),
            Know::Fresh => Some(self.fresh),
        }
    }

    /// A variable of 64 bits, as a number of this width.
    pub(crate) fn get(&mut self, var: Variable, width: u32) -> Val {
        self.get_wide(&[var], width)
    }

    pub(crate) fn get_wide(&mut self, vars: &[Variable], width: u32) -> Val {
        let limbs: Vec<Value> = vars.iter().map(|v| self.b.use_var(*v)).collect();
        let known: Option<Vec<u64>> = limbs.iter().map(|v| self.known(*v)).collect();
        match known {
            Some(known) => {
                let bytes: Vec<u8> = known.iter().rev().flat_map(|k| k.to_be_bytes()).collect();
                Val::constant(&mut self.b, &ir::Bits::from_be_bytes(&bytes, width))
            }
            None => Val::from_variables(&self.b, width, &limbs),
        }
    }

    pub(crate) fn set(&mut self, var: Variable, value: &Val) {
        self.set_wide(&[var], value);
    }

    pub(crate) fn set_wide(&mut self, vars: &[Variable], value: &Val) {
        let limbs = match value.as_const() {
            Some(bits) => {
                let limb = |i: usize| bits.limbs().get(i).copied().unwrap_or(0);
                (0..vars.len()).map(|i| self.constant(limb(i))).collect()
            }
            None => value.limbs(&mut self.b),
        };
        for (i, var) in vars.iter().enumerate() {
            let limb = match limbs.get(i) {
                Some(limb) => *limb,
                None => self.constant(0),
            };
            self.b.def_var(*var, limb);
        }
    }

    pub(crate) fn set_known(&mut self, var: Variable, k: u64) {
        let value = self.constant(k);
        self.b.def_var(var, value);
    }

    /// `condition ? x : y` for values of 64 bits.
    pub(crate) fn select(&mut self, condition: &Val, x: Value, y: Value) -> Value {
        let same = self.b.func.dfg.resolve_aliases(x) == self.b.func.dfg.resolve_aliases(y);
        match condition.known_truth() {
            _ if same => x,
            Some(true) => x,
            Some(false) => y,
            None => {
                let condition = condition.truth(&mut self.b);
                self.b.ins().select(condition, x, y)
            }
        }
    }

    pub(crate) fn or(&mut self, x: &Val, y: &Val) -> Val {
        match (x.known_truth(), y.known_truth()) {
            (Some(true), _) | (_, Some(true)) => Val::bool(true),
            (Some(false), _) => y.clone(),
            (_, Some(false)) => x.clone(),
            _ => Val::binary(&mut self.b, BinaryOp::LogicalOr, x, y).unwrap_or(Val::bool(true)),
        }
    }

    pub(crate) fn and(&mut self, x: &Val, y: &Val) -> Val {
        match (x.known_truth(), y.known_truth()) {
            (Some(false), _) | (_, Some(false)) => Val::bool(false),
            (Some(true), _) => y.clone(),
            (_, Some(true)) => x.clone(),
            _ => Val::binary(&mut self.b, BinaryOp::LogicalAnd, x, y).unwrap_or(Val::bool(false)),
        }
    }

    pub(crate) fn not(&mut self, x: &Val) -> Val {
        x.is_zero(&mut self.b)
    }

    /// An integer comparison of 64-bit values.
    pub(crate) fn compare(&mut self, how: IntCC, x: Value, y: Value) -> Val {
        if let (Some(x), Some(y)) = (self.known(x), self.known(y)) {
            match how {
                IntCC::Equal => return Val::bool(x == y),
                IntCC::NotEqual => return Val::bool(x != y),
                IntCC::UnsignedLessThan => return Val::bool(x < y),
                IntCC::UnsignedGreaterThan => return Val::bool(x > y),
                IntCC::UnsignedLessThanOrEqual => return Val::bool(x <= y),
                _ => {}
            }
        }
        let flag = self.b.ins().icmp(how, x, y);
        Val::from_flag(&mut self.b, flag)
    }

    /// `x + k`.
    pub(crate) fn plus(&mut self, x: Value, k: u64) -> Value {
        match self.known(x) {
            _ if k == 0 => x,
            Some(x) => self.constant(x.wrapping_add(k)),
            None => self.b.ins().iadd_imm_u(x, k as i64),
        }
    }

    /// `x + y`.
    pub(crate) fn sum(&mut self, x: Value, y: Value) -> Value {
        match (self.known(x), self.known(y)) {
            (_, Some(y)) => self.plus(x, y),
            (Some(x), _) => self.plus(y, x),
            _ => self.b.ins().iadd(x, y),
        }
    }

    // Control.

    /// A new block whose only way in is the one that is about to be emitted.
    pub(crate) fn enter(&mut self, block: Block) {
        self.b.seal_block(block);
        self.b.switch_to_block(block);
    }

    pub(crate) fn branch(&mut self, condition: &Val, then: Block, or_else: Block) {
        match condition.known_truth() {
            Some(true) => {
                self.b.ins().jump(then, &[]);
            }
            Some(false) => {
                self.b.ins().jump(or_else, &[]);
            }
            None => {
                let condition = condition.truth(&mut self.b);
                self.b.ins().brif(condition, then, &[], or_else, &[]);
            }
        }
    }

    /// What the block for bail-outs is told.
    fn bailing(&mut self, why: &str) -> [BlockArg; 2] {
        let number = self.bails.number(why, &self.site);
        let number = self.b.ins().iconst(types::I32, i64::from(number));
        [BlockArg::Value(number), BlockArg::Value(self.b.use_var(self.lookups))]
    }

    /// Leaves the packet to the interpreter.
    pub(crate) fn bail(&mut self, why: &str) -> Ended {
        let told = self.bailing(why);
        self.b.ins().jump(self.bail_block, &told);
        Ended
    }

    /// Leaves the packet to the interpreter if the condition holds.
    pub(crate) fn bail_if(&mut self, condition: &Val, why: &str) -> Result<(), Ended> {
        match condition.known_truth() {
            Some(false) => Ok(()),
            Some(true) => Err(self.bail(why)),
            None => {
                let told = self.bailing(why);
                let condition = condition.truth(&mut self.b);
                let rest = self.b.create_block();
                self.b.ins().brif(condition, self.bail_block, &told, rest, &[]);
                self.enter(rest);
                Ok(())
            }
        }
    }

    /// Drops the packet.
    pub(crate) fn drop(&mut self, reason: u32) -> Ended {
        let reason = self.b.ins().iconst(types::I32, i64::from(reason));
        self.drop_for(reason)
    }

    /// The same, for a reason of 32 bits.
    pub(crate) fn drop_for(&mut self, reason: Value) -> Ended {
        self.b.ins().jump(self.drop_block, &[BlockArg::Value(reason)]);
        Ended
    }

    // State.

    /// A packet begins: nothing was parsed.
    pub(crate) fn begin(&mut self) {
        let zero = self.constant(0);
        for m in 0..self.meta.len() {
            if self.meta[m].is_some() {
                let value = self.initial(m);
                self.set_meta(MetaId(m as u32), &value);
            }
        }
        for h in 0..self.headers.len() {
            if let Some(vars) = self.headers[h].clone() {
                self.b.def_var(vars.valid, zero);
                self.b.def_var(vars.base, self.zeros);
                self.b.def_var(vars.varbit, zero);
            }
        }
        for f in 0..self.fields.len() {
            if let Some(vars) = self.fields[f].clone() {
                for var in vars.limbs.iter().chain([&vars.dirty]) {
                    self.b.def_var(*var, zero);
                }
            }
        }
        for var in [self.cursor, self.edge, self.moved, self.outputs, self.missed, self.goto] {
            self.b.def_var(var, zero);
        }
        for var in [self.unlaid, self.laid, self.lost, self.told, self.last] {
            self.b.def_var(var, zero);
        }
        self.set_known(self.cut, UNCUT);
        self.b.def_var(self.lookups, zero);
        self.b.def_var(self.rounds, zero);
        self.set_known(self.in_order, 1);
    }

    /// What a metadata field is when a pass starts.
    fn initial(&mut self, m: usize) -> Val {
        let width = self.plan.program.metadata[m].width;
        match MetaId(m as u32) {
            intrinsic::IN_PORT => {
                let port = self.b.ins().uload32(trusted(), self.packet, offset::PACKET_IN_PORT);
                Val::from_i64(&mut self.b, port, 32).cast(&mut self.b, width)
            }
            intrinsic::PACKET_LENGTH => {
                Val::from_i64(&mut self.b, self.length, 32).cast(&mut self.b, width)
            }
            intrinsic::NOW => {
                let now =
                    self.b.ins().load(types::I64, fixed(), self.context, offset::CONTEXT_NOW_NS);
                Val::from_i64(&mut self.b, now, 64).cast(&mut self.b, width)
            }
            _ => Val::zero(width),
        }
    }

    pub(crate) fn read_meta(&mut self, id: MetaId) -> Val {
        let width = self.plan.program.metadata[id.index()].width;
        match self.meta[id.index()].clone() {
            Some(vars) => self.get_wide(&vars, width),
            None => self.initial(id.index()),
        }
    }

    pub(crate) fn set_meta(&mut self, id: MetaId, value: &Val) {
        let width = self.plan.program.metadata[id.index()].width;
        if let Some(vars) = self.meta[id.index()].clone() {
            let value = value.cast(&mut self.b, width);
            self.set_wide(&vars, &value);
        }
    }

    pub(crate) fn valid(&mut self, h: HeaderId) -> Val {
        match self.headers[h.index()].clone() {
            Some(vars) => self.get(vars.valid, 1),
            None => Val::bool(false),
        }
    }

    pub(crate) fn base(&mut self, h: HeaderId) -> Value {
        match self.headers[h.index()].clone() {
            Some(vars) => {
                let base = self.b.use_var(vars.base);
                self.b.func.dfg.resolve_aliases(base)
            }
            None => self.zeros,
        }
    }

    /// Whether a field was written.
    pub(crate) fn dirty(&mut self, h: HeaderId, f: FieldId) -> Val {
        match self.fields[self.plan.shape.field(h, f)].clone() {
            Some(vars) => self.get(vars.dirty, 1),
            None => Val::bool(false),
        }
    }

    pub(crate) fn width(&self, field: FieldRef) -> u32 {
        self.plan.program.field_width(field).unwrap_or(0)
    }

    /// A field's bits at a header's base.
    fn load(&mut self, base: Value, h: HeaderId, f: FieldId) -> Val {
        let ty = self.plan.program.type_of(h);
        let (offset, width) = (ty.offset(f), ty.fields[f.index()].width);
        let base = self.b.func.dfg.resolve_aliases(base);
        if base == self.zeros || base == self.fresh {
            return Val::zero(width);
        }
        let end = self.plan.shape.headers[h.index()].fixed.div_ceil(8) as i32;
        load_be(&mut self.b, bytes(base), (offset / 8) as i32, offset % 8, width, 0..end)
    }

    /// A field's value, or what it was when it was parsed.
    pub(crate) fn read_header(
        &mut self,
        h: HeaderId,
        f: FieldId,
        then: bool,
    ) -> Result<Val, String> {
        let ty = self.plan.program.type_of(h);
        if ty.fields[f.index()].varbit {
            return Err("a varbit field is read".to_owned());
        }
        let width = ty.fields[f.index()].width;
        if self.valid(h).known_truth() == Some(false) {
            return Ok(Val::zero(width));
        }
        let base = self.base(h);
        let written = match self.fields[self.plan.shape.field(h, f)].clone() {
            Some(vars) if !then => Some(vars),
            _ => None,
        };
        let Some(vars) = written else { return Ok(self.load(base, h, f)) };
        let dirty = self.get(vars.dirty, 1);
        match dirty.known_truth() {
            Some(false) => Ok(self.load(base, h, f)),
            Some(true) => Ok(self.get_wide(&vars.limbs, width)),
            None => {
                let (old, new) = (self.load(base, h, f), self.get_wide(&vars.limbs, width));
                Val::mux(&mut self.b, &dirty, &new, &old).map_err(|e| e.to_string())
            }
        }
    }

    fn read_last(&mut self, stack: StackId, f: FieldId, then: bool) -> Result<Val, String> {
        let mut value: Option<Val> = None;
        let all: Vec<HeaderId> = elements(self.plan.program, stack).collect();
        // From the innermost on, as far as it is not known to be the last one.
        let mut chain = Vec::new();
        for h in all.iter().rev() {
            let valid = self.valid(*h);
            match valid.known_truth() {
                Some(false) => continue,
                Some(true) => {
                    chain.push((*h, valid));
                    break;
                }
                None => chain.push((*h, valid)),
            }
        }
        for (h, valid) in chain.iter().rev() {
            let here = self.read_header(*h, f, then)?;
            value = Some(match value {
                // What is not valid reads as zero.
                None => here,
                Some(below) => {
                    Val::mux(&mut self.b, valid, &here, &below).map_err(|e| e.to_string())?
                }
            });
        }
        let width = self.width(FieldRef::Last(stack, f));
        Ok(value.unwrap_or_else(|| Val::zero(width)))
    }

    /// How many elements of a stack are valid.
    pub(crate) fn stack_size(&mut self, stack: StackId) -> Val {
        let mut size = Val::zero(8);
        for h in elements(self.plan.program, stack) {
            let valid = self.valid(h);
            size = size.add(&mut self.b, &valid);
        }
        size
    }

    /// The value of an expression, or why generated code cannot work it out.
    pub(crate) fn eval(&mut self, e: &Expr, env: Env<'_>) -> Result<Val, String> {
        let text = |e: crate::value::Unsupported| e.to_string();
        Ok(match e {
            Expr::Const(bits) => Val::constant(&mut self.b, bits),
            Expr::Param(i) => env.args.get(*i as usize).cloned().unwrap_or_else(|| Val::zero(0)),
            Expr::Field(FieldRef::Meta(id)) => self.read_meta(*id),
            Expr::Field(FieldRef::Header(h, f)) => self.read_header(*h, *f, env.then)?,
            Expr::Field(FieldRef::Last(stack, f)) => self.read_last(*stack, *f, env.then)?,
            Expr::Valid(h) => self.valid(*h),
            Expr::StackSize(stack) => self.stack_size(*stack),
            Expr::Lookahead { skip, width } if env.parser => self.lookahead(*skip, *width)?,
            Expr::Remaining if env.parser => {
                let cursor = self.b.use_var(self.cursor);
                let left = self.b.ins().isub(self.len, cursor);
                let left = self.b.ins().ishl_imm_u(left, 3);
                Val::from_i64_masked(&mut self.b, left, 32)
            }
            Expr::Lookahead { .. } | Expr::Remaining => {
                return Err("the unparsed rest is read outside of the parser".to_owned());
            }
            Expr::Slice(e, hi, lo) => self.eval(e, env)?.slice(&mut self.b, *hi, *lo),
            Expr::Cast(e, width) => self.eval(e, env)?.cast(&mut self.b, *width),
            Expr::SignCast(e, width) => self.eval(e, env)?.sign_cast(&mut self.b, *width),
            Expr::Unary(op, e) => {
                let value = self.eval(e, env)?;
                Val::unary(&mut self.b, *op, &value).map_err(text)?
            }
            Expr::Binary(op, x, y) => {
                let x = self.eval(x, env)?;
                match (op, x.known_truth()) {
                    (BinaryOp::LogicalAnd, Some(false)) => return Ok(Val::bool(false)),
                    (BinaryOp::LogicalOr, Some(true)) => return Ok(Val::bool(true)),
                    _ => {}
                }
                let y = self.eval(y, env)?;
                Val::binary(&mut self.b, *op, &x, &y).map_err(text)?
            }
            Expr::Mux(condition, x, y) => {
                let condition = self.eval(condition, env)?;
                match condition.known_truth() {
                    Some(true) => self.eval(x, env)?,
                    Some(false) => self.eval(y, env)?,
                    None => {
                        let (x, y) = (self.eval(x, env)?, self.eval(y, env)?);
                        Val::mux(&mut self.b, &condition, &x, &y).map_err(text)?
                    }
                }
            }
            Expr::Hash { algorithm: HashAlgorithm::Csum16, width, inputs } => {
                let (mut sum, mut position) = (Adjust::new(), 0);
                for e in inputs {
                    let value = self.eval(e, env)?;
                    sum.include(&mut self.b, &value, position % 16);
                    position += value.width;
                }
                sum.anew(&mut self.b).cast(&mut self.b, *width)
            }
            Expr::Hash { algorithm, width, inputs } => {
                let values: Result<Vec<Val>, String> =
                    inputs.iter().map(|e| self.eval(e, env)).collect();
                let values = values?;
                let hash = match algorithm {
                    HashAlgorithm::Crc32c => {
                        let hash = self.crc32c(&values)?;
                        match self.known(hash) {
                            Some(known) => {
                                let bits = ir::Bits::from_u128(known.into(), 32);
                                Val::constant(&mut self.b, &bits)
                            }
                            None => Val::from_i64(&mut self.b, hash, 32),
                        }
                    }
                    _ => crate::value::hash(&mut self.b, *algorithm, &values).map_err(text)?,
                };
                hash.cast(&mut self.b, *width)
            }
        })
    }

    /// As [`eval`](Self::eval); what cannot be worked out bails out.
    pub(crate) fn value(&mut self, e: &Expr, env: Env<'_>) -> Result<Val, Ended> {
        match self.eval(e, env) {
            Ok(value) => Ok(value),
            Err(why) => Err(self.bail(&why)),
        }
    }

    // State slots.

    /// Loads a variable from the packet's slots.
    pub(crate) fn load_slot(&mut self, at: i32, width: u32) -> Val {
        load_words(&mut self.b, Base::new(self.slots, trusted()), at, width)
    }

    /// Stores a value into the packet's slots.
    pub(crate) fn store_slot(&mut self, at: i32, value: &Val) {
        store_words(&mut self.b, Base::new(self.slots, trusted()), at, value);
    }
}
