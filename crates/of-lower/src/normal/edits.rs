//! What a port's VLANs do to the tags of a packet, as it comes in and as it leaves.
//!
//! Between the two a packet has the tags of the VLAN that it is in: those of a trunk. So what a port does in either
//! direction says nothing of the other port.

use super::config::{Incoming, PortVlans, PriorityTags, VlanMode};
use crate::headers::Headers;
use crate::tags::{ensure_vlan, pop_vlan, push_vlan};
use ir::{Expr, FieldRef, HeaderId, Op};

fn when(condition: Expr, then: Vec<Op>) -> Op {
    Op::If { condition, then, or_else: Vec::new() }
}

fn is_zero(field: FieldRef, width: u32) -> Expr {
    Expr::Field(field).eq(Expr::int(0, width))
}

/// What comes in: the kind, and its values as expressions of 12 and 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum In {
    /// See [`Incoming::Access`].
    Access,
    /// See [`Incoming::Native`].
    Native,
    /// See [`Incoming::Tunnel`].
    Tunnel,
}

/// A packet that came in gets the tags of its VLAN.
pub(super) fn incoming(h: &Headers, kind: In, vlan: Expr, ether_type: Expr) -> Vec<Op> {
    let mut ops = match kind {
        In::Tunnel => {
            let mut ops = push_vlan(h, ether_type);
            ops.push(Op::Assign(h.vlan_pcp, Expr::int(0, 3)));
            ops
        }
        In::Native => vec![ensure_vlan(h)],
        In::Access => {
            // Of tags that have no VLAN in front of them nothing is left.
            let inner = HeaderId(h.vlan_0.0 + 1);
            let priority = Headers::nth(h.vlan_pcp, 1);
            let one = vec![Op::Assign(priority, Expr::Field(h.vlan_pcp)), Op::PopFront(h.vlan, 1)];
            vec![when(Expr::Valid(inner), one), ensure_vlan(h)]
        }
    };
    ops.push(Op::Assign(h.vlan_vid, vlan));
    ops
}

/// How packets leave by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// With their tags.
    Trunk,
    /// Without any.
    Access,
    /// Without one if it is of the port's own VLAN.
    Native,
    /// Without the outermost one.
    Tunnel,
}

impl Out {
    /// All of them.
    pub const ALL: [Out; 4] = [Out::Trunk, Out::Access, Out::Native, Out::Tunnel];
    /// All ways of priorities without a VLAN.
    pub const TAGS: [PriorityTags; 3] =
        [PriorityTags::Never, PriorityTags::IfNonZero, PriorityTags::Always];

    /// That of a port, and its own VLAN.
    pub(crate) fn of(vlans: &PortVlans) -> (Out, u16) {
        match vlans.mode {
            VlanMode::Trunk | VlanMode::NativeTagged(_) => (Out::Trunk, 0),
            VlanMode::Access(vlan) => (Out::Access, vlan),
            VlanMode::NativeUntagged(vlan) => (Out::Native, vlan),
            VlanMode::Tunnel { vlan, .. } => (Out::Tunnel, vlan),
        }
    }
}

/// Notes the priority that the packet came with, for [`outgoing`].
pub(super) fn note_priority(h: &Headers) -> Op {
    Op::Assign(FieldRef::Meta(h.scratch), Expr::Field(h.vlan_pcp).cast(128))
}

/// The tags of a packet's VLAN become those that it leaves with; `own` is the port's own VLAN, 12 bits.
pub(super) fn outgoing(h: &Headers, out: Out, priority: PriorityTags, own: &Expr) -> Vec<Op> {
    let mut ops = pop_vlan(h);
    match out {
        Out::Trunk => return tagged(h, priority),
        // A VLAN is told by two tags at most: what is behind them is no tag.
        Out::Access => {
            ops.extend(pop_vlan(h));
            ops.extend(untagged(h, priority));
        }
        Out::Native => {
            ops.extend(tagged(h, priority));
            let condition = Expr::Field(h.vlan_vid).eq(own.clone());
            return vec![Op::If { condition, then: ops, or_else: tagged(h, priority) }];
        }
        Out::Tunnel => ops.extend(tagged(h, priority)),
    }
    ops
}

/// The priority that the packet came with.
fn came_with(h: &Headers) -> Expr {
    Expr::meta(h.scratch).slice(2, 0)
}

/// The outermost tag is one of those that are looked at, if there is one.
fn tagged(h: &Headers, priority: PriorityTags) -> Vec<Op> {
    let mut ops = Vec::new();
    if priority != PriorityTags::Never {
        let none = came_with(h).eq(Expr::int(0, 3));
        ops.push(when(none.not(), vec![ensure_vlan(h)]));
        ops.push(Op::Assign(h.vlan_pcp, came_with(h)));
    }
    if priority != PriorityTags::Always {
        let null = Expr::Valid(h.vlan_0).and(is_zero(h.vlan_vid, 12)).and(is_zero(h.vlan_pcp, 3));
        ops.push(when(null, pop_vlan(h)));
    }
    ops
}

/// None of the tags that are looked at is left.
fn untagged(h: &Headers, priority: PriorityTags) -> Vec<Op> {
    if priority == PriorityTags::Never {
        return Vec::new();
    }
    let mut then = push_vlan(h, Expr::int(0x8100, 16));
    then.push(Op::Assign(h.vlan_vid, Expr::int(0, 12)));
    then.push(Op::Assign(h.vlan_pcp, came_with(h)));
    vec![when(came_with(h).eq(Expr::int(0, 3)).not(), then)]
}

/// The same of a port that is known.
pub(super) fn outgoing_by(h: &Headers, vlans: &PortVlans) -> Vec<Op> {
    let (out, own) = Out::of(vlans);
    outgoing(h, out, vlans.priority_tags, &Expr::int(own.into(), 12))
}

impl Incoming {
    /// The kind, VLAN and type; none if nothing is done.
    pub(crate) fn parts(self) -> Option<(In, u16, u16)> {
        Some(match self {
            Incoming::Pass => return None,
            Incoming::Access(vlan) => (In::Access, vlan, 0),
            Incoming::Native(vlan) => (In::Native, vlan, 0),
            Incoming::Tunnel(vlan, ether_type) => (In::Tunnel, vlan, ether_type),
        })
    }
}
