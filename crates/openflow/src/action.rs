//! Actions and instructions, of both versions in one form.
//!
//! 1.3's actions are the base. 1.0's that mean the same are the same variants (`STRIP_VLAN` is
//! [`Action::PopVlan`], `SET_DL_SRC` a [`Action::SetField`] of `eth_src`). Those that 1.3 has no
//! equal for have their own variants: `SET_VLAN_VID` also pushes a tag when there is none,
//! `SET_NW_SRC` and `SET_TP_SRC` do nothing where the packet has no such header, `SET_NW_TOS` leaves
//! ECN alone, `ENQUEUE` is one action. The codec writes each into the other version as Open vSwitch
//! does, where that is possible.

use crate::entry_stats::EntryStats;
use crate::extension::{
    Bits, Conjunction, Conntrack, FinTimeout, Learn, Multipath, PortBundle, ToController,
};
use crate::field::FieldId;
use crate::ids::{GroupId, MeterId, PortNo, QueueId, TableId};
use crate::softflow::Softflow;
use crate::version::Version;
use bitflags::bitflags;

/// One action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send out of `port`; to the controller at most `max_len` bytes.
    Output {
        /// Where to.
        port: PortNo,
        /// Bytes for the controller; [`Action::NO_BUFFER`] for the whole packet. Kept, though
        /// without effect, for other ports.
        max_len: u16,
    },
    /// Copy the TTL from the next-to-outermost to the outermost header.
    CopyTtlOut,
    /// Copy the TTL from the outermost to the next-to-outermost header.
    CopyTtlIn,
    /// Set the outermost MPLS TTL.
    SetMplsTtl(u8),
    /// Decrement the outermost MPLS TTL.
    DecMplsTtl,
    /// Push a VLAN tag of this Ethernet type.
    PushVlan(u16),
    /// Pop the outermost VLAN tag; 1.0's `STRIP_VLAN`.
    PopVlan,
    /// Push an MPLS entry; the Ethernet type becomes this one.
    PushMpls(u16),
    /// Pop the outermost MPLS entry; the Ethernet type becomes this one.
    PopMpls(u16),
    /// Choose the queue for later outputs.
    SetQueue(QueueId),
    /// Process by a group.
    Group(GroupId),
    /// Set the IP TTL or hop limit.
    SetNwTtl(u8),
    /// Decrement the IP TTL or hop limit.
    DecNwTtl,
    /// Set a header or metadata field.
    SetField(SetField),
    /// Push a PBB service tag of this Ethernet type.
    PushPbb(u16),
    /// Pop the outermost PBB service tag.
    PopPbb,
    /// 1.0: set the VLAN id (12 bits), pushing a tag if there is none.
    SetVlanVid(u16),
    /// 1.0: set the VLAN priority (3 bits), pushing a tag if there is none.
    SetVlanPcp(u8),
    /// 1.0: set the IPv4 source where there is one; ARP's addresses stay.
    SetNwSrc(u32),
    /// 1.0: set the IPv4 destination where there is one; ARP's addresses stay.
    SetNwDst(u32),
    /// 1.0: set the DSCP of an IP packet; the value is the whole byte with the two ECN bits 0.
    SetNwTos(u8),
    /// 1.0: set the TCP, UDP or SCTP source port where there is one.
    SetTpSrc(u16),
    /// 1.0: set the TCP, UDP or SCTP destination port where there is one.
    SetTpDst(u16),
    /// 1.0: send out of `port` through `queue`.
    Enqueue {
        /// Where to: an ordinary port or `IN_PORT`.
        port: PortNo,
        /// Its queue.
        queue: QueueId,
    },
    /// Send through a meter (1.5; an instruction before).
    Meter(MeterId),
    /// Copy bits from one field to another (1.5; Nicira's `move` before).
    CopyField(CopyField),
    /// Nicira's `resubmit`: looks the packet up in a table as if it came in by a port.
    Resubmit {
        /// The port; [`PortNo::IN_PORT`] for the one it came in by.
        in_port: PortNo,
        /// The table; [`TableId::ALL`] for the entry's own.
        table: TableId,
        /// The lookup takes addresses, protocol and ports from the connection's opener (`ct_nw_src` and
        /// so on) where the packet is tracked.
        ct: bool,
    },
    /// Nicira's `pop_queue`: outputs choose the queue as if none was set.
    PopQueue,
    /// Open vSwitch's truncating `output`: sends at most so many bytes out of a port.
    OutputTruncated {
        /// Where to: an ordinary port, `IN_PORT` or `LOCAL`.
        port: PortNo,
        /// Bytes of the packet, 14 or more.
        max_len: u32,
    },
    /// Nicira's `fin_timeout`.
    FinTimeout(FinTimeout),
    /// Nicira's `note`: bytes for people; without effect.
    Note(Vec<u8>),
    /// Nicira's `controller` with options.
    Controller(ToController),
    /// Nicira's `dec_ttl` with the ids of the controllers that are told of what expires; without any,
    /// nobody is told.
    DecNwTtlTo(Vec<u16>),
    /// Nicira's `output` to the port that a field names; to the controller at most `max_len` bytes.
    OutputField {
        /// Where the port's number is.
        from: Bits,
        /// Bytes for the controller.
        max_len: u16,
    },
    /// Nicira's `push`: puts bits on the packet's stack.
    StackPush(Bits),
    /// Nicira's `pop`: takes bits from it.
    StackPop(Bits),
    /// Open vSwitch's `check_pkt_larger`: one bit, whether the packet has more bytes.
    CheckPktLarger {
        /// Than so many.
        bytes: u16,
        /// Takes the answer.
        to: Subfield,
    },
    /// Open vSwitch's `delete_field`: the packet has a Geneve option no more.
    DeleteField(FieldId),
    /// Nicira's `multipath`.
    Multipath(Box<Multipath>),
    /// Nicira's `learn`.
    Learn(Box<Learn>),
    /// Nicira's `bundle` and `bundle_load`.
    Bundle(Box<PortBundle>),
    /// Open vSwitch's `clone`: actions on a copy of the packet.
    Clone(Vec<Action>),
    /// Nicira's `ct`.
    Ct(Box<Conntrack>),
    /// Open vSwitch's `ct_clear`: the packet is as if it was not tracked.
    CtClear,
    /// Nicira's `exit`: nothing more is done, in no table, but the action set.
    Exit,
    /// Nicira's `conjunction`: the entry is one of a dimension's of a conjunctive flow.
    Conjunction(Conjunction),
    /// SoftFlow's: a service takes the packet.
    Softflow(Box<Softflow>),
    /// An experimenter's (1.0: vendor's) action.
    Experimenter(Box<ExperimenterAction>),
}

impl Action {
    /// `clone`s that a `clone` may be inside of, itself included.
    pub const CLONE_DEPTH_MAX: usize = 8;

    /// The actions of a list and of all `clone`s in it, in the order in which they are done.
    pub fn flat(actions: &[Action]) -> Flat<'_> {
        Flat { rest: smallvec::smallvec![actions.iter()] }
    }

    /// Bytes that a truncating output leaves, at least.
    pub const TRUNCATED_MIN: u32 = 14;
    /// `OFPCML_MAX`: the largest `max_len` that is a length.
    pub const MAX_LEN_MAX: u16 = 0xffe5;
    /// `OFPCML_NO_BUFFER`: the whole packet, not buffered.
    pub const NO_BUFFER: u16 = 0xffff;

    /// An output of the whole packet.
    pub const fn output(port: PortNo) -> Action {
        Action::Output { port, max_len: Action::NO_BUFFER }
    }

    /// A set-field of all bits of `field`.
    pub const fn set_field(field: FieldId, value: u128) -> Action {
        Action::SetField(SetField { field, value, mask: None })
    }
}

/// Some bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subfield {
    /// The field.
    pub field: FieldId,
    /// Its lowest bit that counts.
    pub offset: u16,
}

/// What a copy-field copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopyField {
    /// How many bits.
    pub bits: u16,
    /// From there on.
    pub from: Subfield,
    /// To there.
    pub to: Subfield,
}

/// What a set-field writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetField {
    /// The field.
    pub field: FieldId,
    /// Its new value, in the field's low bits.
    pub value: u128,
    /// The bits to write, for versions from 1.5 on; none writes all.
    pub mask: Option<u128>,
}

/// An action that an experimenter defines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExperimenterAction {
    /// Who: an IEEE OUI or an id from the foundation.
    pub experimenter: u32,
    /// The bytes after the id, a multiple of 8 of them with the 8-byte action header.
    pub data: Vec<u8>,
}

/// See [`Action::flat`].
#[derive(Clone, Debug)]
pub struct Flat<'a> {
    rest: smallvec::SmallVec<[std::slice::Iter<'a, Action>; 2]>,
}

impl<'a> Iterator for Flat<'a> {
    type Item = &'a Action;

    fn next(&mut self) -> Option<&'a Action> {
        loop {
            match self.rest.last_mut()?.next() {
                None => {
                    self.rest.pop();
                }
                Some(action) => {
                    if let Action::Clone(inner) = action {
                        self.rest.push(inner.iter());
                    }
                    return Some(action);
                }
            }
        }
    }
}

/// A list of actions, in the order of the message.
pub type Actions = Vec<Action>;

/// An action type by name, as table features list it (1.3.5 §7.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionType {
    /// `OFPAT_OUTPUT`, 0.
    Output,
    /// `OFPAT_COPY_TTL_OUT`, 11.
    CopyTtlOut,
    /// `OFPAT_COPY_TTL_IN`, 12.
    CopyTtlIn,
    /// `OFPAT_SET_MPLS_TTL`, 15.
    SetMplsTtl,
    /// `OFPAT_DEC_MPLS_TTL`, 16.
    DecMplsTtl,
    /// `OFPAT_PUSH_VLAN`, 17.
    PushVlan,
    /// `OFPAT_POP_VLAN`, 18.
    PopVlan,
    /// `OFPAT_PUSH_MPLS`, 19.
    PushMpls,
    /// `OFPAT_POP_MPLS`, 20.
    PopMpls,
    /// `OFPAT_SET_QUEUE`, 21.
    SetQueue,
    /// `OFPAT_GROUP`, 22.
    Group,
    /// `OFPAT_SET_NW_TTL`, 23.
    SetNwTtl,
    /// `OFPAT_DEC_NW_TTL`, 24.
    DecNwTtl,
    /// `OFPAT_SET_FIELD`, 25.
    SetField,
    /// `OFPAT_PUSH_PBB`, 26.
    PushPbb,
    /// `OFPAT_POP_PBB`, 27.
    PopPbb,
    /// `OFPAT_COPY_FIELD`, 28 (1.5).
    CopyField,
    /// `OFPAT_METER`, 29 (1.5).
    Meter,
    /// `OFPAT_EXPERIMENTER`, 0xffff, with whose.
    Experimenter(u32),
}

impl ActionType {
    /// The types of 1.5 but for the experimenters', in the order of their numbers.
    pub const STANDARD_V15: [ActionType; 18] = {
        let mut all = [ActionType::Meter; 18];
        let mut i = 0;
        while i < 16 {
            all[i] = ActionType::STANDARD[i];
            i += 1;
        }
        all[16] = ActionType::CopyField;
        all
    };

    /// The types of 1.3 and 1.4 but for the experimenters', in the order of their numbers.
    pub const STANDARD: [ActionType; 16] = [
        ActionType::Output,
        ActionType::CopyTtlOut,
        ActionType::CopyTtlIn,
        ActionType::SetMplsTtl,
        ActionType::DecMplsTtl,
        ActionType::PushVlan,
        ActionType::PopVlan,
        ActionType::PushMpls,
        ActionType::PopMpls,
        ActionType::SetQueue,
        ActionType::Group,
        ActionType::SetNwTtl,
        ActionType::DecNwTtl,
        ActionType::SetField,
        ActionType::PushPbb,
        ActionType::PopPbb,
    ];

    /// 1.3's number.
    pub const fn wire(self) -> u16 {
        match self {
            ActionType::Output => 0,
            ActionType::CopyTtlOut => 11,
            ActionType::CopyTtlIn => 12,
            ActionType::SetMplsTtl => 15,
            ActionType::DecMplsTtl => 16,
            ActionType::PushVlan => 17,
            ActionType::PopVlan => 18,
            ActionType::PushMpls => 19,
            ActionType::PopMpls => 20,
            ActionType::SetQueue => 21,
            ActionType::Group => 22,
            ActionType::SetNwTtl => 23,
            ActionType::DecNwTtl => 24,
            ActionType::SetField => 25,
            ActionType::PushPbb => 26,
            ActionType::PopPbb => 27,
            ActionType::CopyField => 28,
            ActionType::Meter => 29,
            ActionType::Experimenter(_) => 0xffff,
        }
    }

    /// The standard types of a version.
    pub fn standard(version: Version) -> &'static [ActionType] {
        if version >= Version::V15 { &ActionType::STANDARD_V15 } else { &ActionType::STANDARD }
    }

    /// The standard type of a version's number.
    pub fn from_wire(version: Version, number: u16) -> Option<ActionType> {
        ActionType::standard(version).iter().copied().find(|t| t.wire() == number)
    }
}

/// One instruction of a flow entry (1.3.5 §7.2.5).
///
/// 1.0's action list is one [`Instruction::ApplyActions`]; an empty list is no instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// Go on in a later table.
    GotoTable(TableId),
    /// Set the bits of `mask` in the metadata to `value`.
    WriteMetadata {
        /// The bits to write.
        value: u64,
        /// Which of them.
        mask: u64,
    },
    /// Merge into the action set.
    WriteActions(Actions),
    /// Do at once, in this order.
    ApplyActions(Actions),
    /// Empty the action set.
    ClearActions,
    /// Send through a meter first.
    Meter(MeterId),
    /// Tell the controller when statistics of the entry reach thresholds (1.5).
    StatTrigger(Box<StatTrigger>),
    /// An experimenter's instruction.
    Experimenter(Box<ExperimenterInstruction>),
}

impl Instruction {
    /// The instruction's type.
    pub fn instruction_type(&self) -> InstructionType {
        match self {
            Instruction::GotoTable(_) => InstructionType::GotoTable,
            Instruction::WriteMetadata { .. } => InstructionType::WriteMetadata,
            Instruction::WriteActions(_) => InstructionType::WriteActions,
            Instruction::ApplyActions(_) => InstructionType::ApplyActions,
            Instruction::ClearActions => InstructionType::ClearActions,
            Instruction::Meter(_) => InstructionType::Meter,
            Instruction::StatTrigger(_) => InstructionType::StatTrigger,
            Instruction::Experimenter(e) => InstructionType::Experimenter(e.experimenter),
        }
    }
}

bitflags! {
    /// How the thresholds of a [`StatTrigger`] are meant.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct StatTriggerFlags: u32 {
        /// Every multiple of a threshold is one, too.
        const PERIODIC = 1 << 0;
        /// The threshold that is reached first counts, and no other.
        const ONLY_FIRST = 1 << 1;
    }
}

/// Thresholds of an entry's statistics (1.5.1 §7.2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StatTrigger {
    /// How they are meant.
    pub flags: StatTriggerFlags,
    /// The statistics that count, with their thresholds.
    pub thresholds: EntryStats,
}

/// An instruction that an experimenter defines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExperimenterInstruction {
    /// Who.
    pub experimenter: u32,
    /// The bytes after the id.
    pub data: Vec<u8>,
}

/// The instructions of a flow entry: seldom more than one.
pub type Instructions = smallvec::SmallVec<[Instruction; 1]>;

/// An instruction type by name, as table features list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstructionType {
    /// `OFPIT_GOTO_TABLE`, 1.
    GotoTable,
    /// `OFPIT_WRITE_METADATA`, 2.
    WriteMetadata,
    /// `OFPIT_WRITE_ACTIONS`, 3.
    WriteActions,
    /// `OFPIT_APPLY_ACTIONS`, 4.
    ApplyActions,
    /// `OFPIT_CLEAR_ACTIONS`, 5.
    ClearActions,
    /// `OFPIT_METER`, 6; not in 1.5.
    Meter,
    /// `OFPIT_STAT_TRIGGER`, 7 (1.5).
    StatTrigger,
    /// `OFPIT_EXPERIMENTER`, 0xffff, with whose.
    Experimenter(u32),
}

impl InstructionType {
    /// The types of all versions but for the experimenters', in the order of their numbers.
    pub const STANDARD: [InstructionType; 7] = [
        InstructionType::GotoTable,
        InstructionType::WriteMetadata,
        InstructionType::WriteActions,
        InstructionType::ApplyActions,
        InstructionType::ClearActions,
        InstructionType::Meter,
        InstructionType::StatTrigger,
    ];

    /// Whether a version has it.
    pub fn is_in(self, version: Version) -> bool {
        match self {
            //= openflow-1.5.1 §7.2.5: from 1.5 on a meter is an action.
            InstructionType::Meter => version < Version::V15,
            InstructionType::StatTrigger => version >= Version::V15,
            _ => true,
        }
    }

    /// Its number.
    pub const fn wire(self) -> u16 {
        match self {
            InstructionType::GotoTable => 1,
            InstructionType::WriteMetadata => 2,
            InstructionType::WriteActions => 3,
            InstructionType::ApplyActions => 4,
            InstructionType::ClearActions => 5,
            InstructionType::Meter => 6,
            InstructionType::StatTrigger => 7,
            InstructionType::Experimenter(_) => 0xffff,
        }
    }

    /// The standard type of a version's number.
    pub fn from_wire(version: Version, number: u16) -> Option<InstructionType> {
        InstructionType::STANDARD.into_iter().find(|t| t.wire() == number && t.is_in(version))
    }
}
