//! The declarations: headers, metadata, parser, deparser, actions, tables, blocks.
//!
//! A program is immutable while it runs; what controllers add lives in
//! [`Pipeline`](crate::pipeline::Pipeline). Order carries meaning in three places: fields of a header
//! type (wire order), the deparser's list (emission order), and blocks (control only ever moves to a
//! later block, so every pass ends).

use crate::bits::Bits;
use crate::call::ActionCall;
use crate::expr::{Expr, FieldRef};
use crate::id::{
    ActionId, BlockId, DigestId, FieldId, HeaderId, HeaderTypeId, MetaId, ParserStateId,
    RegisterId, ServiceId, StackId, TableId, UnionId, ValueSetId,
};
use crate::op::Op;
use std::sync::Arc;

/// Widest field of a fixed width, in bits.
pub const FIELD_WIDTH_MAX: u32 = 2048;

/// Widest varbit field, in bits: the longest packet, 65,535 bytes.
pub const VARBIT_WIDTH_MAX: u32 = 8 * 65_535;

/// What all header instances of a program have room for, in bytes.
pub const HEADERS_BYTES_MAX: u64 = 1 << 24;

/// A field of a header type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name, unique in its header type.
    pub name: String,
    /// Width in bits; of a varbit field, the greatest one.
    pub width: u32,
    /// Its width is set when it is extracted. Only the last field may be one.
    pub varbit: bool,
}

/// A header type: fields in wire order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderType {
    /// Name, unique in the program.
    pub name: String,
    /// Fields in wire order.
    pub fields: Vec<Field>,
}

impl HeaderType {
    /// Bits of all fixed-width fields.
    pub fn fixed_width(&self) -> u32 {
        self.fields.iter().filter(|f| !f.varbit).map(|f| f.width).sum()
    }

    /// Bit offset of a field from the header's start.
    pub fn offset(&self, field: FieldId) -> u32 {
        self.fields[..field.index()].iter().map(|f| f.width).sum()
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<FieldId> {
        self.fields.iter().position(|f| f.name == name).map(|i| FieldId(i as u32))
    }
}

/// A header instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderInstance {
    /// Name, unique in the program; of a stack's element, `stack[i]`.
    pub name: String,
    /// Its type.
    pub header_type: HeaderTypeId,
    /// The stack it is an element of, and its place.
    pub stack: Option<(StackId, u32)>,
    /// The union it is a member of.
    pub union: Option<UnionId>,
}

/// A header stack: consecutive header instances of one type, 0 outermost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Name, unique in the program.
    pub name: String,
    /// The first element.
    pub first: HeaderId,
    /// How many.
    pub size: u32,
}

/// A header union: at most one member is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    /// Name, unique in the program.
    pub name: String,
    /// Members.
    pub members: Vec<HeaderId>,
}

/// A metadata field: zero when a pass starts, unless intrinsic or carried over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaField {
    /// Name, unique in the program.
    pub name: String,
    /// Width in bits.
    pub width: u32,
}

/// Intrinsic metadata: the first fields of every program, filled in when a pass starts.
pub mod intrinsic {
    use super::MetaId;

    /// The port the packet came in by; 32 bits.
    pub const IN_PORT: MetaId = MetaId(0);
    /// Bytes of the packet as it came in (or was recirculated); 32 bits.
    pub const PACKET_LENGTH: MetaId = MetaId(1);
    /// The queue that `output` uses; 32 bits, writable.
    pub const QUEUE: MetaId = MetaId(2);
    /// The parser's error code; 8 bits.
    pub const PARSER_ERROR: MetaId = MetaId(3);
    /// What started this pass: 0 reception, 1 resubmission, 2 recirculation, 3 clone, 4 injection
    /// by the control plane; 8 bits.
    pub const PASS: MetaId = MetaId(4);
    /// When the packet came in, in nanoseconds of the switch's clock; 64 bits.
    pub const NOW: MetaId = MetaId(5);

    /// Names and widths, in the order of their ids.
    pub const FIELDS: [(&str, u32); 6] = [
        ("std.in_port", 32),
        ("std.packet_length", 32),
        ("std.queue", 32),
        ("std.parser_error", 8),
        ("std.pass", 8),
        ("std.now", 64),
    ];
}

/// Parser error codes (`std.parser_error`), as P4-16 core.p4 names them; programs may add more.
pub mod parser_error {
    /// No error.
    pub const NONE: u8 = 0;
    /// `extract` past the packet's end.
    pub const PACKET_TOO_SHORT: u8 = 1;
    /// No case of a `select` matched.
    pub const NO_MATCH: u8 = 2;
    /// `extract` into a full stack.
    pub const STACK_OUT_OF_BOUNDS: u8 = 3;
    /// A varbit field longer than declared, or not whole bytes where bytes are needed.
    pub const HEADER_TOO_SHORT: u8 = 4;
    /// More steps than [`PARSER_STEPS_MAX`](super::PARSER_STEPS_MAX).
    pub const TIMEOUT: u8 = 5;
    /// The first code a program may use for its own.
    pub const USER: u8 = 16;
}

/// Parser states entered for one packet, at most; a loop that goes on longer is a `TIMEOUT`.
pub const PARSER_STEPS_MAX: usize = 256;

/// One step of a parser state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParserOp {
    /// Reads a header: its fixed fields, then `varbit` bits into its varbit field.
    Extract {
        /// Which instance.
        header: HeaderId,
        /// Width of the varbit field in bits, if the type has one.
        varbit: Option<Expr>,
    },
    /// Reads the next element of a stack.
    ExtractNext {
        /// Which stack.
        stack: StackId,
        /// Width of the varbit field in bits, if the type has one.
        varbit: Option<Expr>,
    },
    /// Skips bits, which are then not part of the packet any more (P4-16 §12.8.5).
    Advance(Expr),
    /// Sets a metadata or header field.
    Assign(FieldRef, Expr),
    /// Goes to reject with this error code unless the condition holds.
    Verify(Expr, u8),
}

/// One column of a select case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// Anything.
    Any,
    /// `value & mask`.
    Masked(Bits, Bits),
    /// A range, both ends included.
    Range(Bits, Bits),
    /// A member of a value set.
    ValueSet(ValueSetId),
}

/// One case of a select.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectCase {
    /// One pattern for each key.
    pub patterns: Vec<Select>,
    /// Where to go.
    pub next: Transition,
}

/// How a parser state ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Parsing is done; the rest is payload.
    Accept,
    /// Parsing failed: the packet is dropped as `parser_reject`, unless the program says that
    /// rejected packets go on ([`Program::reject_continues`]).
    Reject,
    /// The next state.
    State(ParserStateId),
    /// The first case that matches; none is the error `NO_MATCH` and reject.
    Select {
        /// Values to look at.
        keys: Vec<Expr>,
        /// Cases in order.
        cases: Vec<SelectCase>,
    },
}

/// A parser state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParserState {
    /// Name, unique among states.
    pub name: String,
    /// Steps.
    pub ops: Vec<ParserOp>,
    /// The end.
    pub next: Transition,
}

/// A value set: patterns that the control plane fills in (P4-16 §12.11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSet {
    /// Name, unique in the program.
    pub name: String,
    /// Width of its one key in bits.
    pub width: u32,
    /// Greatest number of members.
    pub capacity: u32,
}

/// The function of a checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumAlgorithm {
    /// RFC 1071 ones' complement sum, complemented.
    Csum16,
    /// CRC-32C as SCTP carries it (RFC 9260 appendix A: byte-reversed).
    Crc32c,
}

/// When a checksum field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumMode {
    /// Adjusted by the difference of the inputs since parsing (RFC 1624), if there is one: a wrong
    /// checksum stays as wrong as it was. `Csum16` only. A header that became valid since has no
    /// difference: its checksum field is left as it was written.
    Incremental,
    /// Computed anew from all inputs and, if `payload`, the payload, but only if an input differs
    /// from what was parsed.
    IfChanged,
    /// Computed anew at every emission.
    Always,
}

/// A checksum field that is kept right when the packet is emitted.
///
/// Inputs are values, not writes: the difference is between what the inputs were after parsing and
/// what they are when the packet is emitted, so the order and number of writes do not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The field that holds it. It is in no input.
    pub field: FieldRef,
    /// The function.
    pub algorithm: ChecksumAlgorithm,
    /// When it is written.
    pub mode: ChecksumMode,
    /// What it covers, concatenated; a multiple of 16 bits in all. For `Crc32c`, the bytes of the
    /// header in front of the payload, with the checksum field's own bytes given as zero.
    pub inputs: Vec<Expr>,
    /// The unparsed payload is covered too (modes `IfChanged`, `Always`).
    pub payload: bool,
    /// Written only if this holds (one bit).
    pub condition: Option<Expr>,
    /// A field of zero means that there is no checksum, and stays; a computed zero is written as
    /// all ones (RFC 768).
    pub zero_is_none: bool,
}

/// A service: what a program calls ([`Op::Service`](crate::Op::Service)) and does not say itself, such as
/// one that knows connections. Whoever runs the program finds it by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Name, unique in the program.
    pub name: String,
    /// What it is told.
    pub args: Vec<Param>,
    /// What it answers.
    pub results: Vec<Param>,
    /// It may change the packet's bytes, though not how many they are.
    pub edits: bool,
}

/// A parameter of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Name, unique in its action.
    pub name: String,
    /// Width in bits.
    pub width: u32,
}

/// An action: operations on the packet, with parameters from the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Name, unique in the pipeline.
    pub name: String,
    /// Parameters.
    pub params: Vec<Param>,
    /// What it does.
    pub body: Vec<Op>,
}

impl Action {
    /// Widths of the parameters.
    pub fn param_widths(&self) -> Vec<u32> {
        self.params.iter().map(|p| p.width).collect()
    }
}

/// How a key field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchKind {
    /// Equal.
    Exact,
    /// Equal in the highest bits; a longer prefix wins where the table has no priorities.
    Lpm,
    /// Equal under a mask.
    Ternary,
    /// Between two values.
    Range,
    /// Equal, or not looked at.
    Optional,
}

impl MatchKind {
    /// The text form's word.
    pub fn word(self) -> &'static str {
        match self {
            MatchKind::Exact => "exact",
            MatchKind::Lpm => "lpm",
            MatchKind::Ternary => "ternary",
            MatchKind::Range => "range",
            MatchKind::Optional => "optional",
        }
    }
}

/// One key field of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name in entries, unique in its table.
    pub name: String,
    /// What is looked at.
    pub expr: Expr,
    /// How.
    pub kind: MatchKind,
    /// Width in bits.
    pub width: u32,
}

/// A table.
///
/// Which entry wins: the highest priority; among equal ones the longest prefix, if the table has
/// exactly one `lpm` key; then the one inserted first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name, unique in the program.
    pub name: String,
    /// Key fields; tables may share them.
    pub key: Arc<[Key]>,
    /// Actions that entries may use; `None` allows all.
    pub actions: Option<Vec<ActionId>>,
    /// What happens when nothing matches, until the control plane says otherwise.
    pub default: ActionCall,
    /// The control plane may not change the default.
    pub default_const: bool,
    /// Most entries.
    pub capacity: u32,
    /// Entries count packets and bytes and keep when they were last used.
    pub counters: bool,
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// The next block.
    Jump(BlockId),
    /// One block or the other.
    If {
        /// One bit.
        condition: Expr,
        /// When it is 1.
        then: BlockId,
        /// When it is 0.
        or_else: BlockId,
    },
    /// Looks a table up and runs the action; then, unless the action said `goto`, the block listed
    /// for that action, else the one for hit or miss.
    Apply {
        /// Which table.
        table: TableId,
        /// After an entry matched.
        hit: BlockId,
        /// After none matched.
        miss: BlockId,
        /// By the action that ran (P4 `switch (t.apply().action_run)`).
        by_action: Vec<(ActionId, BlockId)>,
    },
    /// The pass ends.
    Exit,
}

/// A control block: operations, then a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Name, unique among blocks.
    pub name: String,
    /// Operations.
    pub ops: Vec<Op>,
    /// The decision.
    pub end: Terminator,
}

/// A register array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Name, unique in the program.
    pub name: String,
    /// Width of a cell in bits.
    pub width: u32,
    /// Number of cells.
    pub size: u32,
}

/// An indirect counter array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterArray {
    /// Name, unique in the program.
    pub name: String,
    /// Number of cells.
    pub size: u32,
}

/// A message of values to the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Name, unique in the program.
    pub name: String,
    /// Fields: names and widths in bits.
    pub fields: Vec<Param>,
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Header types.
    pub header_types: Vec<HeaderType>,
    /// Header instances, stack elements among them.
    pub headers: Vec<HeaderInstance>,
    /// Header stacks.
    pub stacks: Vec<Stack>,
    /// Header unions.
    pub unions: Vec<Union>,
    /// Metadata; the first are [`intrinsic`].
    pub metadata: Vec<MetaField>,
    /// Value sets.
    pub value_sets: Vec<ValueSet>,
    /// Parser states; the first is the start. Without any, the whole packet is payload.
    pub parser: Vec<ParserState>,
    /// A packet that the parser rejects runs through the blocks all the same, with
    /// `std.parser_error` set and the headers extracted so far (v1model does so).
    pub reject_continues: bool,
    /// What some packets have in front that is no part of their length.
    pub preface: Option<Preface>,
    /// Headers in the order they are emitted; a stack stands for its elements.
    pub deparser: Vec<HeaderId>,
    /// Checksum fields, written in this order.
    pub checksums: Vec<Checksum>,
    /// Actions that come with the program.
    pub actions: Vec<Arc<Action>>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Blocks; control starts at the first one and only moves to later ones.
    pub blocks: Vec<Block>,
    /// Register arrays.
    pub registers: Vec<Register>,
    /// Indirect counter arrays.
    pub counters: Vec<CounterArray>,
    /// Digests.
    pub digests: Vec<Digest>,
    /// Services.
    pub services: Vec<Service>,
}

/// Bytes in front of packets that came in by some ports. What is behind them is the packet: `std.packet_length`, counters
/// and meters do not have them. A packet that goes through the pipeline again as it would leave has none: a program that
/// recirculates behind a service takes it off before, as OpenFlow's does with a tunnel port's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Preface {
    /// The upper 16 bits of `std.in_port` of such ports.
    pub ports: u16,
    /// How many they are.
    pub bytes: u16,
}

impl Preface {
    /// Of a packet that came in by this port.
    #[inline]
    pub fn of(preface: Option<Preface>, in_port: u32) -> u32 {
        match preface {
            Some(Preface { ports, bytes }) if in_port >> 16 == u32::from(ports) => bytes.into(),
            _ => 0,
        }
    }
}

impl Default for Program {
    fn default() -> Self {
        Program::new()
    }
}

macro_rules! find {
    ($($(#[$doc:meta])* $fn:ident, $vec:ident, $id:ident;)*) => {$(
        $(#[$doc])*
        pub fn $fn(&self, name: &str) -> Option<$id> {
            self.$vec.iter().position(|x| x.name == name).map(|i| $id(i as u32))
        }
    )*};
}

impl Program {
    /// A program of nothing but the intrinsic metadata.
    pub fn new() -> Program {
        Program {
            header_types: Vec::new(),
            headers: Vec::new(),
            stacks: Vec::new(),
            unions: Vec::new(),
            metadata: intrinsic::FIELDS
                .iter()
                .map(|(name, width)| MetaField { name: (*name).to_string(), width: *width })
                .collect(),
            value_sets: Vec::new(),
            parser: Vec::new(),
            reject_continues: false,
            preface: None,
            deparser: Vec::new(),
            checksums: Vec::new(),
            actions: Vec::new(),
            tables: Vec::new(),
            blocks: Vec::new(),
            registers: Vec::new(),
            counters: Vec::new(),
            digests: Vec::new(),
            services: Vec::new(),
        }
    }

    find! {
        /// The header type with this name.
        find_header_type, header_types, HeaderTypeId;
        /// The header instance with this name (`stack[0]` for an element).
        find_header, headers, HeaderId;
        /// The stack with this name.
        find_stack, stacks, StackId;
        /// The metadata field with this name.
        find_meta, metadata, MetaId;
        /// The value set with this name.
        find_value_set, value_sets, ValueSetId;
        /// The parser state with this name.
        find_state, parser, ParserStateId;
        /// The action with this name, among those that come with the program.
        find_action, actions, ActionId;
        /// The table with this name.
        find_table, tables, TableId;
        /// The block with this name.
        find_block, blocks, BlockId;
        /// The register array with this name.
        find_register, registers, RegisterId;
        /// The digest with this name.
        find_digest, digests, DigestId;
        /// The service with this name.
        find_service, services, ServiceId;
    }

    /// The type of a header instance. The instance exists.
    pub fn type_of(&self, header: HeaderId) -> &HeaderType {
        &self.header_types[self.headers[header.index()].header_type.index()]
    }

    /// Width of a field in bits (the greatest, of a varbit one), if it exists.
    pub fn field_width(&self, field: FieldRef) -> Option<u32> {
        match field {
            FieldRef::Meta(id) => Some(self.metadata.get(id.index())?.width),
            FieldRef::Header(header, field) => {
                let header = self.headers.get(header.index())?;
                let ty = self.header_types.get(header.header_type.index())?;
                Some(ty.fields.get(field.index())?.width)
            }
            FieldRef::Last(stack, field) => {
                let stack = self.stacks.get(stack.index())?;
                self.field_width(FieldRef::Header(stack.first, field))
            }
        }
    }

    /// The field named `header.field`, `stack[i].field`, `stack.last.field` or a metadata name.
    pub fn find_field(&self, name: &str) -> Option<FieldRef> {
        if let Some(meta) = self.find_meta(name) {
            return Some(FieldRef::Meta(meta));
        }
        let (head, field) = name.rsplit_once('.')?;
        if let Some(stack) = head.strip_suffix(".last").and_then(|s| self.find_stack(s)) {
            let field = self.type_of(self.stacks[stack.index()].first).field(field)?;
            return Some(FieldRef::Last(stack, field));
        }
        let header = self.find_header(head)?;
        Some(FieldRef::Header(header, self.type_of(header).field(field)?))
    }

    /// The spelling that [`find_field`](Self::find_field) reads back. The field exists.
    pub fn field_name(&self, field: FieldRef) -> String {
        match field {
            FieldRef::Meta(id) => self.metadata[id.index()].name.clone(),
            FieldRef::Header(header, field) => format!(
                "{}.{}",
                self.headers[header.index()].name,
                self.type_of(header).fields[field.index()].name
            ),
            FieldRef::Last(stack, field) => {
                let stack = &self.stacks[stack.index()];
                let ty = self.type_of(stack.first);
                format!("{}.last.{}", stack.name, ty.fields[field.index()].name)
            }
        }
    }
}
