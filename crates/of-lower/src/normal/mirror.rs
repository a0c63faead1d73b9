//! Mirrors in the program: what of a packet's outputs is copied, and how.
//!
//! A packet is mirrored once to each place (`of.mirrored`, a bit for each mirror). What is selected as it comes in is
//! copied before the first table ([`super::ids::VlanIds::mirror_src`]); what is selected as it leaves, behind that
//! output. NORMAL gives a packet the tags of its port last, so its copies come before. A group of ports makes a copy for each, of which none knows of the others: so FLOOD, ALL and NORMAL's
//! flooding say beforehand which mirrors see one of them.

use super::config::{Mirror, MirrorTo, Reach, Reaches, VlanSet};
use super::edits;
use super::protected::{from_protected, unless_protected};
use crate::headers::Headers;
use crate::layout::group_of_mirror;
use crate::tags::ensure_vlan;
use crate::tunnel;
use ir::{BinaryOp, Expr, FieldRef, Op};

/// Fields of the group of ports, for [`flooded`].
type Reached = fn(&Mirror) -> Reaches;

fn when(condition: Expr, then: Vec<Op>) -> Op {
    Op::If { condition, then, or_else: Vec::new() }
}

fn port(number: u32) -> Expr {
    Expr::int(number.into(), 32)
}

fn has_bit(of: Expr, bit: usize) -> Expr {
    of.slice(bit as u32, bit as u32)
}

fn is_of(vlans: &Option<VlanSet>, h: &Headers) -> Expr {
    vlans.as_ref().map_or(Expr::bool(true), |vlans| vlans.has(&Expr::Field(h.vlan_vid)))
}

/// What sends the copy of a mirror, from the packet with the tags of its VLAN; `before` is done to the copy first.
fn copy(h: &Headers, number: usize, before: Vec<Op>) -> Vec<Op> {
    let mirror = &h.mirrors[number];
    let looks = !matches!(&mirror.to, MirrorTo::Port(_, None));
    let noted = looks.then(|| edits::note_priority(h));
    let mut body: Vec<Op> = noted.into_iter().chain(before).collect();
    let mut condition = None;
    match &mirror.to {
        MirrorTo::Port(to, vlans) => {
            body.extend(vlans.iter().flat_map(|vlans| edits::outgoing_by(h, vlans)));
            let cut = mirror.length_max.map(|bytes| tunnel::truncate(h, port(*to), port(bytes)));
            body.extend(cut.into_iter().flatten());
            let sends = tunnel::output(h, port(*to));
            body.extend(unless_protected(h, &port(*to), sends));
        }
        MirrorTo::Vlan(vlan) => {
            let vlan = || Expr::int((*vlan).into(), 12);
            let reserved = Expr::int(0x0180_c200_0000 >> 4, 44);
            let passes = Expr::Field(h.eth_dst).slice(47, 4).ne(reserved);
            let elsewhere = Expr::Field(h.vlan_vid).ne(vlan()).and(passes);
            let group = Expr::int(group_of_mirror(number).0.into(), 32);
            let mut sent = vec![ensure_vlan(h), Op::Assign(h.vlan_vid, vlan())];
            sent.extend(mirror.length_max.map(|bytes| Op::Truncate { length: port(bytes) }));
            sent.push(Op::Group { group });
            match body.is_empty() {
                true => (body, condition) = (sent, Some(elsewhere)),
                false => body.push(when(elsewhere, sent)),
            }
        }
    }
    let mut ops = vec![Op::Count { counter: h.mirror_counter, index: port(number as u32) }];
    let sent = match body[..] {
        [Op::Output { .. }] => body,
        _ => vec![Op::OnCopy { body }],
    };
    ops.extend(match condition {
        None => sent,
        Some(condition) => vec![when(condition, sent)],
    });
    ops
}

/// The packet has been copied to these mirrors' places.
fn note(h: &Headers, mirrors: Expr) -> Op {
    let all = Expr::binary(BinaryOp::Or, Expr::meta(h.mirrored), mirrors);
    Op::Assign(FieldRef::Meta(h.mirrored), all)
}

/// A mirror's copy, if the packet is selected by something and was not copied there before.
fn once(h: &Headers, number: usize, selected: Expr) -> Op {
    let mirror = &h.mirrors[number];
    let fresh = has_bit(Expr::meta(h.mirrored), number).not();
    let condition = selected.and(fresh).and(is_of(&mirror.vlans, h));
    let mut ops = vec![note(h, Expr::int(mirror.same.into(), 32))];
    ops.extend(copy(h, number, Vec::new()));
    when(condition, ops)
}

/// The copies of a packet that leaves by a port.
pub(crate) fn leaving(h: &Headers, to: &Expr) -> Vec<Op> {
    let one = |(number, mirror): (usize, &Mirror)| {
        let selected = match (&mirror.destinations, &mirror.to) {
            (None, MirrorTo::Port(own, _)) => to.clone().ne(port(*own)),
            (None, MirrorTo::Vlan(_)) => Expr::bool(true),
            (Some(ports), _) => {
                ports.iter().map(|one| to.clone().eq(port(*one))).reduce(Expr::or)?
            }
        };
        Some(once(h, number, selected))
    };
    h.mirrors.iter().enumerate().filter_map(one).collect()
}

/// One value for packets of protected ports, another for those of others.
fn by_protected(h: &Headers, protected: Expr, other: Expr) -> Expr {
    Expr::Mux(Box::new(from_protected(h)), Box::new(protected), Box::new(other))
}

/// The copies of a packet that leaves by FLOOD or ALL.
pub(crate) fn flooded(h: &Headers, reached: Reached) -> Vec<Op> {
    let one = |(number, mirror): (usize, &Mirror)| {
        let selected = |reach| match reach {
            Reach::None => Expr::bool(false),
            Reach::Only(only) => h.in_port().ne(port(only)),
            Reach::Several => Expr::bool(true),
        };
        let Reaches { open, protected } = reached(mirror);
        let selected = match (open, protected) {
            (Reach::None, _) => return None,
            _ if open == protected || h.protected.is_empty() => selected(open),
            _ => by_protected(h, selected(protected), selected(open)),
        };
        Some(once(h, number, selected))
    };
    h.mirrors.iter().enumerate().filter_map(one).collect()
}

/// The copies of a packet that NORMAL floods; an argument of 32 bits for each mirror, from this one on, says which ports
/// are selected ([`Reach::number`]); for packets of protected ports the arguments behind these do.
pub(super) fn flooded_by_normal(h: &Headers, first: u32) -> Vec<Op> {
    let one = |number: usize| {
        let reach = match h.protected.is_empty() {
            true => Expr::Param(first + number as u32),
            false => {
                let protected = Expr::Param(first + (h.mirrors.len() + number) as u32);
                by_protected(h, protected, Expr::Param(first + number as u32))
            }
        };
        once(h, number, reach.clone().ne(port(0)).and(reach.ne(h.bundle())))
    };
    (0..h.mirrors.len()).map(one).collect()
}

/// The copies of a packet that has come in: bits of the mirrors that select it, and of those that it is noted at.
pub(super) fn coming(h: &Headers, of: &Expr, seen: Expr, edits: &[Op]) -> Vec<Op> {
    let one = |number| when(has_bit(of.clone(), number), copy(h, number, edits.to_vec()));
    let mut ops: Vec<Op> = (0..h.mirrors.len()).map(one).collect();
    ops.push(note(h, seen));
    ops
}
