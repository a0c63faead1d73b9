//! The slots of the action set (1.3.5 §5.10): one of metadata for each kind of action.
//!
//! `as.present` has a bit for each kind, `as.*` its argument. Write-actions stores arguments and
//! sets bits, so a later action of the same kind replaces an earlier one; clear-actions zeroes the
//! bits. Each settable field is a kind of its own. The order of the bits is the order of execution.

use ir::builder::Builder;
use ir::{BinaryOp, Expr, FieldRef, MetaId, Op};
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
    // From the registers on fields are metadata of the packet.
    let early = (id as usize) < FieldId::Reg0 as usize;
    let own = [FieldId::InPort, FieldId::Metadata];
    early && id.info().settable && !id.is_composite() && !own.contains(&id)
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

    /// Its word in an action's name.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::CopyTtlIn => "copy_ttl_in",
            Kind::PopVlan => "pop_vlan",
            Kind::PopPbb => "pop_pbb",
            Kind::PopMpls => "pop_mpls",
            Kind::PushMpls => "push_mpls",
            Kind::PushPbb => "push_pbb",
            Kind::PushVlan => "push_vlan",
            Kind::CopyTtlOut => "copy_ttl_out",
            Kind::DecMplsTtl => "dec_mpls_ttl",
            Kind::DecNwTtl => "dec_nw_ttl",
            Kind::SetMplsTtl => "set_mpls_ttl",
            Kind::SetNwTtl => "set_nw_ttl",
            Kind::SetQueue => "set_queue",
            Kind::Group => "group",
            Kind::Output => "output",
        }
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
