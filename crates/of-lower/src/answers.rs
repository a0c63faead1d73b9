//! Requests of ARP and neighbour solicitations for addresses that services own are answered before the first flow table.
//!
//! Only programs with [`Extras::answers`](super::normal::config::Extras::answers) have this. The service makes a request its
//! answer, which goes back by its port, past egress tables; all else goes on to the first table as it came. Mirrors see
//! both. A packet of the controller itself, which came by no port, has nowhere to go back to, and goes on.
//!
//! Checked by: `of-pipeline`'s `tests/answers.rs`, by both engines.

use super::headers::Headers;
use super::normal::mirror;
use super::{ops, tunnel};
use ir::{BinaryOp, Expr, FieldRef, Op, ServiceId};
use openflow::PortNo;

/// A request of ARP, or a neighbour solicitation, that came by a port.
fn asks(h: &Headers) -> Expr {
    let arp = Expr::meta(h.ether_type).eq(Expr::int(0x0806, 16));
    let arp = arp.and(Expr::Field(h.arp_op).eq(Expr::int(1, 16)));
    let nd = Expr::Valid(h.icmpv6).and(Expr::Field(h.icmpv6_type).eq(Expr::int(135, 8)));
    let came = Expr::binary(BinaryOp::Lt, h.in_port(), Expr::int(PortNo::MAX.0.into(), 32))
        .or(h.in_port().eq(Expr::int(PortNo::LOCAL.0.into(), 32)));
    arp.or(nd).and(came)
}

/// What the first flow table's block does before the table.
pub(crate) fn ops(h: &Headers, answers: ServiceId) -> Vec<Op> {
    // What was written is parsed again.
    let mut then = ops::reparse(h);
    then.pop();
    then.push(Op::Service { service: answers, args: Vec::new(), results: vec![h.answered] });
    let mut back = tunnel::output(h, h.in_port());
    if !h.mirrors.is_empty() {
        // It is another packet than that which they have seen.
        back.push(Op::Assign(FieldRef::Meta(h.mirrored), Expr::int(0, 32)));
    }
    back.extend(mirror::leaving(h, &h.in_port()));
    back.push(Op::Exit);
    then.push(ops::when(Expr::meta(h.answered), back));
    vec![ops::when(asks(h), then)]
}
