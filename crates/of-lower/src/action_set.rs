//! The action set (1.3.5 §5.10): one slot of metadata for each kind of action, and their execution.
//!
//! `as.present` has a bit for each kind, `as.*` its argument. Write-actions stores arguments and
//! sets bits, so a later action of the same kind replaces an earlier one; clear-actions zeroes the
//! bits. Each settable field is a kind of its own. The order of the bits is the order of execution.
//!
//! Cost: an empty set costs one comparison; one of nothing but an output, two.

use super::fields;
use super::headers::Headers;
use super::ops;
use ir::builder::Builder;
use ir::{BinaryOp, BlockId, DropReason, Expr, FieldRef, MetaId, Op};
use openflow::{Action, FIELDS, FieldId, GroupId, PortNo, QueueId};

/// A kind of action in the set, in the order of execution but for set-fields, which come after
/// [`Kind::SetNwTtl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // the names are those of the actions
pub enum Kind {
    CopyTtlIn,
    PopVlan,
    PopPbb,
    PopMpls,
    PushMpls,
    PushPbb,
    PushVlan,
    CopyTtlOut,
    DecMplsTtl,
    DecNwTtl,
    SetMplsTtl,
    SetNwTtl,
    SetQueue,
    Group,
    Output,
}

/// The bit of the first field's set-field; field *n* has bit `FIELD_BIT + n`.
const FIELD_BIT: u32 = 16;
/// Whether the set has a place for a set-field of this field: headers have one, and the tunnel's id.
pub fn has_slot(id: FieldId) -> bool {
    let own = [FieldId::PktMark, FieldId::SfMetadata, FieldId::InPort, FieldId::Metadata];
    id.info().settable && !id.is_register() && !id.is_composite() && !own.contains(&id)
}

const _: () = assert!(
    FIELD_BIT as usize + FieldId::NwTtl as usize <= 63
        && FieldId::Reg0 as usize > FieldId::NwTtl as usize,
    "as.present has 64 bits, and fields behind the registers' beginning have no place"
);

impl Kind {
    /// The bit in `as.present`.
    pub fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// The bit of a field's set-field in `as.present`.
pub fn field_bit(id: FieldId) -> u64 {
    1 << (FIELD_BIT + id as u32)
}

/// The metadata of the action set.
#[derive(Clone, Debug)]
pub struct Slots {
    /// Which slots are in use.
    pub present: MetaId,
    /// EtherTypes.
    pub pop_mpls: MetaId,
    /// EtherTypes.
    pub push_mpls: MetaId,
    /// EtherTypes.
    pub push_pbb: MetaId,
    /// EtherTypes.
    pub push_vlan: MetaId,
    /// TTL.
    pub mpls_ttl: MetaId,
    /// TTL.
    pub nw_ttl: MetaId,
    /// Queue.
    pub queue: MetaId,
    /// Group.
    pub group: MetaId,
    /// Port.
    pub output: MetaId,
    /// For the controller.
    pub max_len: MetaId,
    /// Values of set-fields, by field; none for a field that cannot be set.
    pub fields: Vec<Option<MetaId>>,
}

impl Slots {
    /// Declares the metadata.
    pub(super) fn declare(b: &mut Builder) -> Slots {
        Slots {
            present: b.meta("as.present", 64),
            pop_mpls: b.meta("as.pop_mpls", 16),
            push_mpls: b.meta("as.push_mpls", 16),
            push_pbb: b.meta("as.push_pbb", 16),
            push_vlan: b.meta("as.push_vlan", 16),
            mpls_ttl: b.meta("as.mpls_ttl", 8),
            nw_ttl: b.meta("as.nw_ttl", 8),
            queue: b.meta("as.queue", 32),
            group: b.meta("as.group", 32),
            output: b.meta("as.output", 32),
            max_len: b.meta("as.max_len", 16),
            fields: FIELDS
                .iter()
                .map(|f| has_slot(f.id).then(|| b.meta(&format!("as.{}", f.id), f.bits)))
                .collect(),
        }
    }

    /// Adds slots to the set: `present |= bits`.
    pub fn mark(&self, bits: u64) -> Op {
        let all = Expr::binary(BinaryOp::Or, Expr::meta(self.present), Expr::int(bits.into(), 64));
        Op::Assign(FieldRef::Meta(self.present), all)
    }

    /// Empties the set.
    pub fn clear(&self) -> Op {
        Op::Assign(FieldRef::Meta(self.present), Expr::int(0, 64))
    }

    /// All of it: which slots are in use, then their values.
    pub(super) fn all(&self) -> impl Iterator<Item = MetaId> {
        let own = [
            self.present,
            self.pop_mpls,
            self.push_mpls,
            self.push_pbb,
            self.push_vlan,
            self.mpls_ttl,
            self.nw_ttl,
            self.queue,
            self.group,
            self.output,
            self.max_len,
        ];
        own.into_iter().chain(self.fields.iter().flatten().copied())
    }

    /// The actions of a set, of the values of [`all`](Slots::all), in the order of execution.
    pub(super) fn actions(&self, values: &[u128]) -> Vec<Action> {
        let at = |i: usize| values.get(i).copied().unwrap_or(0);
        let present = at(0) as u64;
        let has = |bit: u64| present & bit != 0;
        let kinds = [
            (Kind::CopyTtlIn, Action::CopyTtlIn),
            (Kind::PopVlan, Action::PopVlan),
            (Kind::PopPbb, Action::PopPbb),
            (Kind::PopMpls, Action::PopMpls(at(1) as u16)),
            (Kind::PushMpls, Action::PushMpls(at(2) as u16)),
            (Kind::PushPbb, Action::PushPbb(at(3) as u16)),
            (Kind::PushVlan, Action::PushVlan(at(4) as u16)),
            (Kind::CopyTtlOut, Action::CopyTtlOut),
            (Kind::DecMplsTtl, Action::DecMplsTtl),
            (Kind::DecNwTtl, Action::DecNwTtl),
            (Kind::SetMplsTtl, Action::SetMplsTtl(at(5) as u8)),
            (Kind::SetNwTtl, Action::SetNwTtl(at(6) as u8)),
        ];
        let last = [
            (Kind::SetQueue, Action::SetQueue(QueueId(at(7) as u32))),
            (Kind::Group, Action::Group(GroupId(at(8) as u32))),
            (Kind::Output, Action::Output { port: PortNo(at(9) as u32), max_len: at(10) as u16 }),
        ];
        let fields = FIELDS.iter().zip(&self.fields).filter(|(_, slot)| slot.is_some());
        let fields = fields.enumerate().filter(|(_, (f, _))| has(field_bit(f.id)));
        let fields = fields.map(|(i, (f, _))| Action::set_field(f.id, at(11 + i)));
        let of = |kinds: Vec<(Kind, Action)>| {
            kinds.into_iter().filter(|(kind, _)| has(kind.bit())).map(|(_, action)| action)
        };
        of(kinds.into()).chain(fields).chain(of(last.into())).collect()
    }

    /// The port of the set's output; `OFPP_UNSET` without one.
    pub fn actset_output(&self) -> Expr {
        //= openflow-1.5.1 §7.2.3.9: actset_output is OFPP_UNSET without an output in the action set, and
        //= where a group stands before it.
        let outputs = self.any(Kind::Output.bit()).and(self.any(Kind::Group.bit()).not());
        let unset = Expr::int(PortNo::UNSET.0.into(), 32);
        Expr::Mux(Box::new(outputs), Box::new(Expr::meta(self.output)), Box::new(unset))
    }

    /// One bit: some of these slots are in use.
    pub fn any(&self, bits: u64) -> Expr {
        if bits.is_power_of_two() {
            let at = bits.trailing_zeros();
            return Expr::meta(self.present).slice(at, at);
        }
        let masked =
            Expr::binary(BinaryOp::And, Expr::meta(self.present), Expr::int(bits.into(), 64));
        masked.ne(Expr::int(0, 64))
    }
}

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
    let kind = match action {
        Action::CopyTtlIn => Kind::CopyTtlIn,
        Action::PopVlan => Kind::PopVlan,
        Action::PopPbb => Kind::PopPbb,
        Action::PopMpls(_) => Kind::PopMpls,
        Action::PushMpls(_) => Kind::PushMpls,
        Action::PushPbb(_) => Kind::PushPbb,
        Action::PushVlan(_) => Kind::PushVlan,
        Action::CopyTtlOut => Kind::CopyTtlOut,
        Action::DecMplsTtl => Kind::DecMplsTtl,
        Action::DecNwTtl => Kind::DecNwTtl,
        Action::SetMplsTtl(_) => Kind::SetMplsTtl,
        Action::SetNwTtl(_) => Kind::SetNwTtl,
        Action::SetField(f) => return Some((Kind::SetNwTtl as u8, 1 + f.field as u8)),
        Action::SetQueue(_) => Kind::SetQueue,
        Action::Group(_) => Kind::Group,
        Action::Output { .. } => Kind::Output,
        Action::SetVlanVid(_)
        | Action::SetVlanPcp(_)
        | Action::SetNwSrc(_)
        | Action::SetNwDst(_)
        | Action::SetNwTos(_)
        | Action::SetTpSrc(_)
        | Action::SetTpDst(_)
        | Action::Enqueue { .. }
        | Action::Meter(_)
        | Action::CopyField(_)
        | Action::Resubmit { .. }
        | Action::PopQueue
        | Action::OutputTruncated { .. }
        | Action::FinTimeout(_)
        | Action::Note(_)
        | Action::Controller(_)
        | Action::DecNwTtlTo(_)
        | Action::OutputField { .. }
        | Action::StackPush(_)
        | Action::StackPop(_)
        | Action::CheckPktLarger { .. }
        | Action::Multipath(_)
        | Action::Learn(_)
        | Action::Bundle(_)
        | Action::Clone(_)
        | Action::Ct(_)
        | Action::CtClear
        | Action::Exit
        | Action::Conjunction(_)
        | Action::Softflow(_)
        | Action::Experimenter(_) => return None,
    };
    Some((kind as u8, 0))
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

/// A bucket's actions in the order in which they are done.
///
/// What an action set can hold is one: of each kind the last, in the set's order, and no output beside a
/// group (1.3.5 §5.6.1, §5.10). Open vSwitch has more than that, and so has this:
/// copies of fields and settings of some bits stand where the set has settings, in the order of the
/// list, and one `resubmit` or `ct` where it has its output. A bucket with anything else is a list, done
/// as it is written.
pub fn as_bucket(actions: &[Action]) -> Vec<&Action> {
    let ahead = |a: &Action| matches!(a, Action::Resubmit { .. } | Action::Ct(_));
    let sets = |a: &Action| matches!(a, Action::SetField(_) | Action::CopyField(_));
    let held = |a: &Action| set_key(a).is_some() || ahead(a) || sets(a);
    let ends = |a: &&Action| ahead(a) || matches!(a, Action::Output { .. } | Action::Group(_));
    let leads = actions.iter().any(ahead);
    if !actions.iter().all(held) || leads && actions.iter().filter(ends).count() > 1 {
        return actions.iter().collect();
    }
    if !leads && !actions.iter().any(|a| is_partial(a) || matches!(a, Action::CopyField(_))) {
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
