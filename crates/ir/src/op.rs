//! Operations: what an action or a block does to a packet, one step at a time.
//!
//! An operation either completes and the next one follows, or it ends the current pass
//! ([`Op::Drop`], [`Op::Exit`], [`Op::Resubmit`], [`Op::Recirculate`], a failing header operation),
//! or it chooses where control goes after the action ([`Op::Goto`]).
//!
//! *Output* is immediate: [`Op::Output`] sends the packet as it is at that moment (headers emitted in
//! deparser order, then the payload), later writes do not touch that copy. A pass that ends without
//! any output, punt or resubmission is a drop, with the reason that ended it or `no_output`.

use crate::expr::{Expr, FieldRef};
use crate::id::{BlockId, DigestId, HeaderId, MetaId, RegisterId, ServiceId, StackId, TableId};
use crate::verdict::{DropReason, PuntReason};

/// What a copy of the packet starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Copy {
    /// Headers and metadata as they are now.
    Current,
    /// The bytes as they came in, parsed again; metadata as it is now (P4 "clone ingress to
    /// egress", v1model's I2E).
    Ingress,
}

/// Another ingress port, and other values of key columns, for some lookups of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guise {
    /// What `std.in_port` is to their keys, 32 bits.
    pub in_port: Expr,
    /// Columns of their keys that have another value, of the column's width, as it is when the call begins.
    pub columns: Vec<(u32, Expr)>,
    /// The tables that are looked up so.
    pub tables: Vec<TableId>,
}

/// What a program may ask of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortIs {
    /// It is there and up.
    Live,
    /// It is there, and frames that it is sent begin with a descriptor (of a tunnel port).
    Tunnel,
}

impl PortIs {
    /// All of them.
    pub const ALL: [PortIs; 2] = [PortIs::Live, PortIs::Tunnel];

    /// What it is in the text form.
    pub fn word(self) -> &'static str {
        match self {
            PortIs::Live => "port_live",
            PortIs::Tunnel => "port_tunnel",
        }
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `field = value`, same width. A write to a field of an invalid header does nothing.
    Assign(FieldRef, Expr),
    /// `field[hi:lo] = value`.
    AssignSlice(FieldRef, u32, u32, Expr),
    /// Makes a header valid; its fields become zero unless it already was valid. In a union, the
    /// other members become invalid.
    SetValid(HeaderId),
    /// Makes a header invalid.
    SetInvalid(HeaderId),
    /// `to = from`, validity and all fields; the same header type.
    CopyHeader {
        /// Destination.
        to: HeaderId,
        /// Source.
        from: HeaderId,
    },
    /// `to = from` of varbit fields of one greatest width: the bits and how many they are. Nothing, if
    /// the header of `to` is invalid; no bits, if that of `from` is.
    CopyVarbit {
        /// Destination.
        to: FieldRef,
        /// Source.
        from: FieldRef,
    },
    /// Shifts the stack's elements up by `count`; the first `count` become valid, with zero fields.
    /// If a valid element would fall off the end, drops with `header_stack_overflow`.
    PushFront(StackId, u32),
    /// Shifts the stack's elements down by `count`; the first `count` are lost.
    PopFront(StackId, u32),
    /// Emits the headers and parses the result again from the start state. Metadata stays.
    Reparse,
    /// Sends a copy to a port.
    Output {
        /// The port number, 32 bits.
        port: Expr,
    },
    /// Hands copies to the buckets of a group that its kind selects (see
    /// [`GroupKind`](crate::pipeline::GroupKind)); the packet itself goes on unchanged.
    Group {
        /// The group number, 32 bits.
        group: Expr,
    },
    /// Runs a block on a copy of the packet until that pass ends; the packet itself goes on.
    Clone {
        /// Where the copy starts.
        block: BlockId,
        /// What the copy is.
        copy: Copy,
    },
    /// Does a list on a copy of the packet, which ends with it; the packet itself goes on.
    OnCopy {
        /// What the copy does. It goes nowhere (rule L2).
        body: Vec<Op>,
    },
    /// Runs blocks on the packet itself, from one until control would come to another one, and then
    /// does the next operation. A drop, an exit or a last block in between end the call, not the pass;
    /// a resubmission or recirculation ends both. Calls of one received frame and all its copies are
    /// at most [`CALLS_MAX`], and at most [`CALL_DEPTH_MAX`] inside each other; one more drops with
    /// `loop_limit`, which ends the pass and every call that it is inside of.
    Call {
        /// Where it begins: any block, earlier ones included.
        block: BlockId,
        /// Where it is over.
        until: BlockId,
        /// Lookups by another port.
        guise: Option<Guise>,
        /// Which of its action's calls it is, as whoever wrote the action counts them: it says so of copies for the
        /// control plane that are made inside of it.
        site: u16,
    },
    /// `field =` one bit, whether something holds of a port.
    PortIs {
        /// Destination.
        field: FieldRef,
        /// What.
        what: PortIs,
        /// The port number, 32 bits.
        port: Expr,
    },
    /// Ends this pass and starts another one at the parser with the packet's bytes as they came in;
    /// `keep` names the metadata that is carried over, all other becomes zero (intrinsic metadata
    /// excepted).
    Resubmit {
        /// Metadata kept.
        keep: Vec<MetaId>,
    },
    /// As `Resubmit`, with the packet as it is now.
    Recirculate {
        /// Metadata kept.
        keep: Vec<MetaId>,
    },
    /// Sends a copy to the control plane, with the values of `args` beside it.
    Punt {
        /// Why.
        reason: PuntReason,
        /// Values that the control plane wants to know, by position.
        args: Vec<Expr>,
    },
    /// Sends a message of values to the control plane.
    Digest {
        /// Which digest.
        digest: DigestId,
        /// One value for each of its fields.
        args: Vec<Expr>,
        /// If it is given, repeats may be left out. The first so many values say what the message is about, the others
        /// what holds of it. The switch may leave out a message that it sent a moment ago with the same values. It sends
        /// it again if it has sent another one about the same since, or if the control plane asks for that.
        once: Option<u8>,
    },
    /// Hands the packet as it is now, headers emitted, to a service, and writes what it answers. A
    /// service that [edits](crate::program::Service::edits) may have changed bytes: the packet is then
    /// parsed again from the start state, as by [`Op::Reparse`], before the answers are written. A
    /// service may also drop the packet (`service_drop`), which ends the pass.
    Service {
        /// Which service.
        service: ServiceId,
        /// One value for each of its arguments.
        args: Vec<Expr>,
        /// Where its results go, in order; of the last ones, nothing need be known.
        results: Vec<MetaId>,
    },
    /// Asks a meter about this packet; `color` becomes 0 (green: no band exceeded), 1 (yellow:
    /// a band that marks) or 2 (red: a band that drops), `level` the band's level or 0. A meter that
    /// does not exist is green.
    Meter {
        /// The meter number, 32 bits.
        meter: Expr,
        /// Receives the colour, 8 bits.
        color: FieldRef,
        /// Receives the band's level, 8 bits.
        level: FieldRef,
    },
    /// Counts the packet in an indirect counter: cell `index` of array `counter`.
    Count {
        /// The counter array's number in the program.
        counter: u32,
        /// Cell, 32 bits; past the end does nothing.
        index: Expr,
    },
    /// `field = register[index]`; zero past the end.
    RegisterRead {
        /// Destination.
        field: FieldRef,
        /// The array.
        register: RegisterId,
        /// Cell, 32 bits.
        index: Expr,
    },
    /// `register[index] = value`; nothing past the end.
    RegisterWrite {
        /// The array.
        register: RegisterId,
        /// Cell, 32 bits.
        index: Expr,
        /// New value.
        value: Expr,
    },
    /// `field =` a random value between `lo` and `hi`, both included.
    Random {
        /// Destination.
        field: FieldRef,
        /// Least value.
        lo: Expr,
        /// Greatest value.
        hi: Expr,
    },
    /// `field =` the ones' complement sum (RFC 1071, not complemented) of what the parser left of the
    /// packet, 16 bits; an odd last byte is the high one of its word.
    PayloadSum {
        /// Destination.
        field: FieldRef,
    },
    /// `field =` the hash of the inputs and, behind them, of what the parser left of the packet. The inputs
    /// are padded with zero bits to whole bytes, and so is the rest of the packet.
    PayloadHash {
        /// Destination.
        field: FieldRef,
        /// An [`Expr::Hash`] of the field's width, which has function and inputs; its value is not asked for.
        hash: Expr,
    },
    /// What is output from here on in this pass, by copies made from here on too, has at most so many
    /// bytes. The shortest length holds.
    Truncate {
        /// Bytes, 32 bits.
        length: Expr,
    },
    /// Does a list again and again, as long as the condition holds before it. The rounds of one received
    /// frame and all its copies are at most [`ROUNDS_MAX`]; one more drops with `loop_limit`.
    Loop {
        /// One bit.
        condition: Expr,
        /// One round. It goes nowhere else and makes no copies (rule L1).
        body: Vec<Op>,
    },
    /// Does one list or the other.
    If {
        /// One bit.
        condition: Expr,
        /// When it is 1.
        then: Vec<Op>,
        /// When it is 0.
        or_else: Vec<Op>,
    },
    /// After this action, control goes to this block, whatever the table's terminator says. The
    /// block must come later than the one that applies the table.
    Goto(BlockId),
    /// Ends the pass; unless something was output, the packet counts as dropped for `reason`.
    Drop(DropReason),
    /// Ends the pass.
    Exit,
}

/// Rounds of [`Op::Loop`] that one received frame and its copies may take.
pub const ROUNDS_MAX: u32 = 65_536;
/// Runs of [`Op::Call`] that one received frame and its copies may take.
pub const CALLS_MAX: u32 = 4096;
/// Calls that a call may be inside of, itself included.
pub const CALL_DEPTH_MAX: u32 = 64;

impl Op {
    /// Calls `f` on this operation and every one inside it.
    pub fn visit(&self, f: &mut dyn FnMut(&Op)) {
        f(self);
        match self {
            Op::If { then, or_else, .. } => then.iter().chain(or_else).for_each(|op| op.visit(f)),
            Op::Loop { body, .. } | Op::OnCopy { body } => body.iter().for_each(|op| op.visit(f)),
            _ => {}
        }
    }

    /// Calls `f` on every expression that this operation evaluates itself (not those of operations
    /// inside it).
    pub fn exprs(&self, f: &mut dyn FnMut(&Expr)) {
        match self {
            Op::Assign(_, e) | Op::AssignSlice(_, _, _, e) => f(e),
            Op::Output { port: e }
            | Op::Group { group: e }
            | Op::Meter { meter: e, .. }
            | Op::Count { index: e, .. }
            | Op::RegisterRead { index: e, .. }
            | Op::Truncate { length: e }
            | Op::PayloadHash { hash: e, .. }
            | Op::PortIs { port: e, .. }
            | Op::Loop { condition: e, .. }
            | Op::If { condition: e, .. } => f(e),
            Op::Call { guise: Some(Guise { in_port, columns, .. }), .. } => {
                f(in_port);
                columns.iter().for_each(|(_, e)| f(e));
            }
            Op::RegisterWrite { index, value, .. } => {
                f(index);
                f(value);
            }
            Op::Random { lo, hi, .. } => {
                f(lo);
                f(hi);
            }
            Op::Punt { args, .. } | Op::Digest { args, .. } | Op::Service { args, .. } => {
                args.iter().for_each(f)
            }
            Op::SetValid(_)
            | Op::SetInvalid(_)
            | Op::CopyHeader { .. }
            | Op::CopyVarbit { .. }
            | Op::PayloadSum { .. }
            | Op::PushFront(..)
            | Op::PopFront(..)
            | Op::Reparse
            | Op::Clone { .. }
            | Op::OnCopy { .. }
            | Op::Call { .. }
            | Op::Resubmit { .. }
            | Op::Recirculate { .. }
            | Op::Goto(_)
            | Op::Drop(_)
            | Op::Exit => {}
        }
    }
}
