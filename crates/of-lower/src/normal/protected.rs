//! Protected ports: no packet that came in by one of them leaves by another, whatever sends it there (Open vSwitch's
//! `Port.protected`).
//!
//! The ports are part of the program, as blocks of numbers with the same highest bits. A program without such ports has
//! nothing of this. Cost: for each block a comparison of the ingress port, and for packets of protected ports one of the
//! port that they go to.

use crate::headers::Headers;
use ir::{DropReason, Expr, FieldRef, Op};

/// The packet came in by a protected port.
pub(crate) fn from_protected(h: &Headers) -> Expr {
    h.protected.has(&h.in_port())
}

/// Does what sends the packet to a port, unless both are protected.
pub(crate) fn unless_protected(h: &Headers, to: &Expr, sends: Vec<Op>) -> Vec<Op> {
    if h.protected.is_empty() {
        return sends;
    }
    let withheld = Op::Assign(FieldRef::Meta(h.withheld), Expr::bool(true));
    let condition = from_protected(h).and(h.protected.has(to));
    vec![Op::If { condition, then: vec![withheld], or_else: sends }]
}

/// The reason for a packet of which nothing else was sent.
pub(crate) fn drop_withheld(h: &Headers) -> Option<Op> {
    let then = vec![Op::Drop(DropReason::ProtectedPort)];
    let condition = Expr::meta(h.withheld);
    (!h.protected.is_empty()).then(|| Op::If { condition, then, or_else: Vec::new() })
}
