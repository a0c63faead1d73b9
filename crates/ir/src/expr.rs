//! Expressions: pure, typed by width, total.
//!
//! Every expression has a width in bits that follows from its operands ([`Expr::width`]); booleans
//! are one bit. Evaluation never fails: reading a field of an invalid header gives zero, a shift by
//! the width or more gives zero, division does not exist.

use crate::bits::Bits;
use crate::id::{FieldId, HeaderId, MetaId, StackId};

/// A place that holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldRef {
    /// A metadata field.
    Meta(MetaId),
    /// A field of a header instance.
    Header(HeaderId, FieldId),
    /// A field of the last valid element of a stack (P4-16 §8.18 `last`); zero if there is none.
    Last(StackId, FieldId),
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// Bitwise complement; width of the operand.
    Not,
    /// Two's complement negation; width of the operand.
    Neg,
    /// Logical not of a one-bit value.
    LogicalNot,
}

/// Operators of two operands of the same width (shifts and concatenation excepted).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// Wrapping addition.
    Add,
    /// Wrapping subtraction.
    Sub,
    /// Wrapping multiplication.
    Mul,
    /// Saturating unsigned addition.
    AddSat,
    /// Saturating unsigned subtraction.
    SubSat,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Shift left by an unsigned amount of any width.
    Shl,
    /// Logical shift right by an unsigned amount of any width.
    Shr,
    /// Arithmetic shift right (the left operand as two's complement).
    Sar,
    /// Equal; one bit.
    Eq,
    /// Not equal; one bit.
    Ne,
    /// Unsigned less; one bit.
    Lt,
    /// Unsigned less or equal; one bit.
    Le,
    /// Unsigned greater; one bit.
    Gt,
    /// Unsigned greater or equal; one bit.
    Ge,
    /// Signed less; one bit.
    SLt,
    /// Signed less or equal; one bit.
    SLe,
    /// Logical and of one-bit values (both sides are pure, so it need not short-circuit).
    LogicalAnd,
    /// Logical or of one-bit values.
    LogicalOr,
    /// Concatenation: the left operand becomes the high bits.
    Concat,
}

/// Functions from a bit string to a short value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// The low bits of the input itself.
    Identity,
    /// CRC-16/ARC (polynomial 0x8005, reflected), as P4's `crc16`.
    Crc16,
    /// CRC-32 (IEEE 802.3, reflected), as P4's `crc32`.
    Crc32,
    /// CRC-32C (Castagnoli, reflected).
    Crc32c,
    /// RFC 1071 ones' complement sum, complemented.
    Csum16,
    /// XOR of the input's 16-bit words.
    Xor16,
    /// A CRC by its parameters, as P4's `crc16_custom` and `crc32_custom`.
    Crc(Crc),
}

/// What a CRC is made of, in the terms of Williams' "A painless guide to CRC error detection
/// algorithms" (1993), which catalogues of CRCs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Crc {
    /// Bits of the register and the result, 8 to 32 (rule W8).
    pub width: u32,
    /// The polynomial without its highest term, highest bit first.
    pub polynomial: u32,
    /// The register before the first byte, as if nothing were reflected.
    pub init: u32,
    /// What the result is XORed with last.
    pub xor_out: u32,
    /// Bytes come in lowest bit first.
    pub reflect_in: bool,
    /// The register is turned round before the last XOR.
    pub reflect_out: bool,
    /// Which of the program's functions it is, for whoever changes its parameters. It does not change the
    /// value.
    pub function: u32,
}

impl HashAlgorithm {
    /// The parameters of a CRC.
    pub fn crc(self) -> Option<Crc> {
        let both = |width, polynomial, all: u32| Crc {
            width,
            polynomial,
            init: all,
            xor_out: all,
            reflect_in: true,
            reflect_out: true,
            function: 0,
        };
        match self {
            HashAlgorithm::Crc16 => Some(both(16, 0x8005, 0)),
            HashAlgorithm::Crc32 => Some(both(32, 0x04c1_1db7, u32::MAX)),
            HashAlgorithm::Crc32c => Some(both(32, 0x1edc_6f41, u32::MAX)),
            HashAlgorithm::Crc(crc) => Some(crc),
            HashAlgorithm::Identity | HashAlgorithm::Csum16 | HashAlgorithm::Xor16 => None,
        }
    }
}

/// A pure expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A constant.
    Const(Bits),
    /// The value of a field.
    Field(FieldRef),
    /// The action's parameter of this index (inside actions only).
    Param(u32),
    /// One bit: the header instance is valid.
    Valid(HeaderId),
    /// How many elements of the stack are valid; 8 bits.
    StackSize(StackId),
    /// The next `width` bits of the unparsed packet, without consuming them, skipping `skip` bits
    /// first (parser states only); zero-extended on the right past the packet's end.
    Lookahead {
        /// Bits skipped.
        skip: u32,
        /// Bits read.
        width: u32,
    },
    /// Bits left unparsed in the packet (parser states only); 32 bits.
    Remaining,
    /// Bits `hi` to `lo` (inclusive, 0 is the least significant).
    Slice(Box<Expr>, u32, u32),
    /// The value at another width: truncated or zero-extended.
    Cast(Box<Expr>, u32),
    /// The value at another width: truncated or sign-extended.
    SignCast(Box<Expr>, u32),
    /// One operand.
    Unary(UnaryOp, Box<Expr>),
    /// Two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `condition ? then : else`; the condition is one bit wide.
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A hash of the concatenated inputs (padded with zero bits to whole bytes), cast to `width`. A varbit
    /// field that is an input gives as many bits as it has now.
    Hash {
        /// The function.
        algorithm: HashAlgorithm,
        /// Result width in bits.
        width: u32,
        /// Inputs, first one in the high bits.
        inputs: Vec<Expr>,
    },
}

impl Expr {
    /// A constant of `width` bits.
    pub fn int(value: u128, width: u32) -> Expr {
        Expr::Const(Bits::from_u128(value, width))
    }

    /// True or false, one bit.
    pub fn bool(value: bool) -> Expr {
        Expr::int(value as u128, 1)
    }

    /// A metadata field's value.
    pub fn meta(id: MetaId) -> Expr {
        Expr::Field(FieldRef::Meta(id))
    }

    /// A header field's value.
    pub fn header(header: HeaderId, field: FieldId) -> Expr {
        Expr::Field(FieldRef::Header(header, field))
    }

    /// An operation of two operands.
    pub fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
        Expr::Binary(op, Box::new(a), Box::new(b))
    }

    /// `self == other`, one bit.
    pub fn eq(self, other: Expr) -> Expr {
        Expr::binary(BinaryOp::Eq, self, other)
    }

    /// `self != other`, one bit.
    pub fn ne(self, other: Expr) -> Expr {
        Expr::binary(BinaryOp::Ne, self, other)
    }

    /// Logical and, one bit.
    pub fn and(self, other: Expr) -> Expr {
        Expr::binary(BinaryOp::LogicalAnd, self, other)
    }

    /// Logical or, one bit.
    pub fn or(self, other: Expr) -> Expr {
        Expr::binary(BinaryOp::LogicalOr, self, other)
    }

    /// Logical not, one bit.
    #[allow(clippy::should_implement_trait)]
    pub fn not(self) -> Expr {
        Expr::Unary(UnaryOp::LogicalNot, Box::new(self))
    }

    /// Bits `hi` to `lo`, inclusive.
    pub fn slice(self, hi: u32, lo: u32) -> Expr {
        Expr::Slice(Box::new(self), hi, lo)
    }

    /// Truncated or zero-extended to `width`.
    pub fn cast(self, width: u32) -> Expr {
        Expr::Cast(Box::new(self), width)
    }

    /// Calls `f` on this expression and every one inside it, outermost first.
    pub fn visit(&self, f: &mut dyn FnMut(&Expr)) {
        f(self);
        match self {
            Expr::Const(_)
            | Expr::Field(_)
            | Expr::Param(_)
            | Expr::Valid(_)
            | Expr::StackSize(_)
            | Expr::Lookahead { .. }
            | Expr::Remaining => {}
            Expr::Slice(e, _, _) | Expr::Cast(e, _) | Expr::SignCast(e, _) | Expr::Unary(_, e) => {
                e.visit(f)
            }
            Expr::Binary(_, a, b) => {
                a.visit(f);
                b.visit(f);
            }
            Expr::Mux(c, a, b) => {
                c.visit(f);
                a.visit(f);
                b.visit(f);
            }
            Expr::Hash { inputs, .. } => inputs.iter().for_each(|e| e.visit(f)),
        }
    }
}
