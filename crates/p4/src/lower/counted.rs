//! What a parser's headers and stacks are counted by ([`made`](super::made)).

use super::fold::binary;
use ir::program::ParserOp;
use ir::{BinaryOp, Expr, FieldId, FieldRef, MetaId};
use std::collections::HashSet;

/// Times that a parser is written with one more stack of its own; after that, all of them are.
const ROUNDS_MAX: u32 = 4;

/// What is kept beside a header.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) state: MetaId,
    /// One for each field; none for one of variable width, which has no bits in a header that was made.
    pub(super) shadows: Vec<Option<MetaId>>,
}

impl Made {
    pub(super) fn is(&self, state: u128) -> Expr {
        binary(BinaryOp::Eq, Expr::meta(self.state), Expr::int(state, 2))
    }

    pub(super) fn set(&self, state: Expr) -> ParserOp {
        ParserOp::Assign(FieldRef::Meta(self.state), state)
    }

    pub(super) fn shadow(&self, field: FieldId) -> Option<MetaId> {
        self.shadows.get(field.index()).copied().flatten()
    }
}

/// Stacks that a parser counts itself, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    pub(super) names: HashSet<String>,
    pub(super) rounds: u32,
}

impl Counted {
    /// The stack with this name is one.
    pub(super) fn has(&self, name: &str) -> bool {
        self.rounds > ROUNDS_MAX || self.names.contains(name)
    }
}
