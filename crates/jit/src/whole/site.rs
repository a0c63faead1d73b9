//! Places at which code has Rust do something, and what code says when it ends.

use crate::memory::Entry;
use ir::{Expr, FieldRef, HeaderId, Op};
use std::sync::OnceLock;

/// What Rust does for code, at one place of it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) what: What,
    /// Widths of the values that code hands over, each in as many words as it takes.
    pub(crate) widths: Vec<u32>,
    /// Widths of the action's parameters.
    pub(crate) params: Vec<u32>,
    /// Code of a list of operations: its number among the functions that are made together.
    pub(crate) body: Option<usize>,
    /// That code, once it is made.
    pub(crate) entry: OnceLock<Entry>,
}

/// What is done at a site.
#[derive(Debug)]
pub(crate) enum What {
    /// An operation.
    Op(Op),
    /// A varbit field is written.
    Write(FieldRef),
    /// An expression is worked out.
    Eval(Expr),
    /// A header is extracted, with so many bits of a varbit field if a value is handed over.
    Extract(HeaderId),
    /// A value is looked for in a value set.
    ValueSet(ir::ValueSetId),
    /// The checksum of this number is written.
    Checksum(usize),
}

/// What code ends with: what it is in the lowest byte, a number above.
pub(crate) mod end {
    /// Nothing ended.
    pub(crate) const NONE: u64 = 0;
    /// The pass ends.
    pub(crate) const EXIT: u64 = 1;
    /// It ends with a drop, for the reason of this number.
    pub(crate) const DROP: u64 = 2;
    /// It ends, and another one begins with the bytes as they came in.
    pub(crate) const RESUBMIT: u64 = 3;
    /// It ends, and another one begins with the bytes as they are.
    pub(crate) const RECIRCULATE: u64 = 4;
    /// Control goes to the block of this number.
    pub(crate) const NEXT: u64 = 5;
}
