//! The action set (1.3.5 §5.10): its execution, and what a list of actions leaves in one.
//!
//! Cost: an empty set costs one comparison; one of nothing but an output, two.

use super::fields;
use super::headers::Headers;
use super::ops;
use super::places::places;
use super::slots::{Kind, Slots, field_bit};
use ir::{BlockId, DropReason, Expr, Op};
use openflow::{Action, FieldId};

/// Operations that execute a set that is not empty. `normal` is the block for copies to NORMAL.
pub(super) fn execute(h: &Headers, s: &Slots, normal: BlockId) -> Vec<Op> {
    let meta = Expr::meta;
    let when =
        |bits: u64, then: Vec<Op>| Op::If { condition: s.any(bits), then, or_else: Vec::new() };
    let structure = [
        (Kind::CopyTtlIn, ops::copy_ttl_in(h)),
        (Kind::PopVlan, ops::pop_vlan(h)),
        (Kind::PopPbb, ops::pop_pbb(h)),
        (Kind::PopMpls, ops::pop_mpls(h, meta(s.pop_mpls))),
        (Kind::PushMpls, ops::push_mpls(h, meta(s.push_mpls))),
        (Kind::PushPbb, ops::push_pbb(h, meta(s.push_pbb))),
        (Kind::PushVlan, ops::push_vlan(h, meta(s.push_vlan))),
        (Kind::CopyTtlOut, ops::copy_ttl_out(h)),
        (Kind::DecMplsTtl, ops::dec_mpls_ttl(h)),
        (Kind::DecNwTtl, ops::dec_nw_ttl(h)),
        (Kind::SetMplsTtl, ops::set_mpls_ttl(h, meta(s.mpls_ttl))),
        (Kind::SetNwTtl, ops::set_nw_ttl(h, meta(s.nw_ttl))),
    ];
    let structure: Vec<(u64, Vec<Op>)> =
        structure.into_iter().map(|(kind, ops)| (kind.bit(), ops)).collect();
    let set_fields = |ids: &[FieldId]| -> Vec<(u64, Vec<Op>)> {
        ids.iter()
            .filter_map(|id| {
                let slot = s.fields[*id as usize]?;
                Some((field_bit(*id), fields::write(h, *id, meta(slot))))
            })
            .collect()
    };
    // Slots by layer, so that a set that leaves a layer alone costs one test for all of it.
    let (link, network): (Vec<FieldId>, Vec<FieldId>) =
        FieldId::ALL.iter().copied().partition(|id| {
            matches!(
                id,
                FieldId::EthDst
                    | FieldId::EthSrc
                    | FieldId::EthType
                    | FieldId::VlanVid
                    | FieldId::VlanPcp
                    | FieldId::TunnelId
            )
        });
    let layers = [structure, set_fields(&link), set_fields(&network)];
    let mut headers: Vec<Op> = Vec::new();
    for layer in layers {
        let bits = layer.iter().fold(0, |bits, (bit, _)| bits | bit);
        let steps = layer.into_iter().map(|(bit, ops)| when(bit, ops)).collect();
        headers.push(when(bits, steps));
    }
    headers.push(when(Kind::SetQueue.bit(), ops::set_queue(meta(s.queue))));

    let ends = Kind::Group.bit() | Kind::Output.bit();
    vec![
        when(!ends, headers),
        Op::If {
            condition: s.any(Kind::Group.bit()),
            then: ops::group(meta(s.group)),
            or_else: vec![Op::If {
                condition: s.any(Kind::Output.bit()),
                then: vec![ops::output_of_set(h, normal)],
                or_else: vec![Op::Drop(DropReason::NoOutput)],
            }],
        },
    ]
}

/// What an action replaces in the set, and its place in the order: actions with equal keys are of
/// the same kind. `None` for an action that a set cannot hold.
pub fn set_key(action: &Action) -> Option<(u8, u8)> {
    places(action).set
}

/// What a list leaves in an empty set: of each kind the last one, in the order of execution. Actions
/// that a set cannot hold come last, in their order.
pub fn merge(actions: &[Action]) -> Vec<&Action> {
    let mut set: Vec<&Action> = Vec::with_capacity(actions.len());
    for action in actions {
        let key = set_key(action);
        match set.iter_mut().find(|a| key.is_some() && set_key(a) == key) {
            Some(place) => *place = action,
            None => set.push(action),
        }
    }
    set.sort_by_key(|a| set_key(a).map_or((1, (0, 0)), |key| (0, key)));
    set
}

/// A set-field of some bits of its field only.
pub fn is_partial(action: &Action) -> bool {
    let all = |field: FieldId| field.all_bits();
    matches!(action, Action::SetField(f) if f.mask.is_some_and(|m| m & all(f.field) != all(f.field)))
}

/// One of 1.0's settings of fields.
fn is_v10_setting(action: &Action) -> bool {
    action.is_of_v10() && !matches!(action, Action::Enqueue { .. })
}

/// A bucket's actions in the order in which they are done.
///
/// What an action set can hold is one: of each kind the last, in the set's order, and no output beside a
/// group (1.3.5 §5.6.1, §5.10). Open vSwitch has more than that, and so has this:
/// copies of fields, settings of some bits and 1.0's settings stand where the set has settings, in the order of
/// the list, and one `resubmit` or `ct` where it has its output. A bucket with anything else is a list, done
/// as it is written.
pub fn as_bucket(actions: &[Action]) -> Vec<&Action> {
    let ahead = |a: &Action| matches!(a, Action::Resubmit { .. } | Action::Ct(_));
    let sets =
        |a: &Action| is_v10_setting(a) || matches!(a, Action::SetField(_) | Action::CopyField(_));
    let held = |a: &Action| set_key(a).is_some() || ahead(a) || sets(a);
    let ends = |a: &&Action| ahead(a) || matches!(a, Action::Output { .. } | Action::Group(_));
    let leads = actions.iter().any(ahead);
    if !actions.iter().all(held) || leads && actions.iter().filter(ends).count() > 1 {
        return actions.iter().collect();
    }
    let in_order =
        |a: &Action| is_partial(a) || is_v10_setting(a) || matches!(a, Action::CopyField(_));
    if !leads && !actions.iter().any(in_order) {
        return as_set(actions);
    }
    let place = |a: &Action| match a {
        a if sets(a) => (Kind::SetNwTtl as u8, 1),
        a => set_key(a).unwrap_or((u8::MAX, 0)),
    };
    let mut set: Vec<&Action> = Vec::with_capacity(actions.len());
    for action in actions {
        match set.iter_mut().find(|a| !sets(action) && place(a) == place(action)) {
            Some(earlier) => *earlier = action,
            None => set.push(action),
        }
    }
    set.sort_by_key(|a| place(a));
    if set.iter().any(|a| matches!(a, Action::Group(_))) {
        set.retain(|a| !matches!(a, Action::Output { .. }));
    }
    set
}

/// What is executed of a list as a set: as [`merge`], but no output beside a group.
pub fn as_set(actions: &[Action]) -> Vec<&Action> {
    let mut set = merge(actions);
    if set.iter().any(|a| matches!(a, Action::Group(_))) {
        set.retain(|a| !matches!(a, Action::Output { .. }));
    }
    set
}
