//! VLAN tags: they come and go (1.3.5 §5.12).

use super::headers::Headers;
use ir::{Expr, Op};

fn when(condition: Expr, then: Vec<Op>) -> Op {
    Op::If { condition, then, or_else: Vec::new() }
}

/// 1.3.5 §5.12: a tag in front of the others, with id and priority of the one that was outermost.
pub fn push_vlan(h: &Headers, tpid: Expr) -> Vec<Op> {
    vec![
        Op::PushFront(h.vlan, 1),
        Op::Assign(h.vlan_pcp, Expr::Field(Headers::nth(h.vlan_pcp, 1))),
        Op::Assign(h.vlan_vid, Expr::Field(Headers::nth(h.vlan_vid, 1))),
        Op::Assign(h.vlan_type, Expr::Field(h.eth_type)),
        Op::Assign(h.eth_type, tpid),
    ]
}

/// Takes the outermost tag off.
pub fn pop_vlan(h: &Headers) -> Vec<Op> {
    vec![when(
        Expr::Valid(h.vlan_0),
        vec![Op::Assign(h.eth_type, Expr::Field(h.vlan_type)), Op::PopFront(h.vlan, 1)],
    )]
}

/// Pushes a tag with id and priority 0 onto a packet without one, as 1.0's `SET_VLAN_VID` and
/// `SET_VLAN_PCP` do.
pub fn ensure_vlan(h: &Headers) -> Op {
    when(Expr::Valid(h.vlan_0).not(), push_vlan(h, Expr::int(0x8100, 16)))
}
