//! A step of the structured tree ([`tree`](super::tree)), and the scopes that steps leave.

use ir::program::ParserOp;
use ir::{ActionId, Expr, HeaderId, Op, ParserStateId, TableId};

/// A scope's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Label(pub(super) u32);

/// A step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// An operation.
    Op(Op),
    /// A parser's operation.
    Parse(ParserOp),
    /// Extracts the header with this number, one of 8 bits or more (parsers only).
    ExtractAt { index: Expr, headers: Vec<HeaderId>, varbit: Option<Expr> },
    /// States of a parser inside, from its first one to where its `accept` goes (parsers only).
    Parser { start: ParserStateId, done: ParserStateId },
    /// Appends a header to the packet (deparsers only).
    Emit(HeaderId),
    /// One list or the other.
    If(Expr, Vec<Step>, Vec<Step>),
    /// A table, and what follows a hit, a miss, an action.
    Apply {
        table: TableId,
        hit: Vec<Step>,
        miss: Vec<Step>,
        by_action: Vec<(Vec<ActionId>, Vec<Step>)>,
    },
    /// Steps that can be left.
    Scope(Label, Vec<Step>),
    /// Leaves a scope.
    Break(Label),
}
