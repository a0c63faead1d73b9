//! Actions of Open vSwitch's that no version of OpenFlow has a word for (ovs-actions(7)).

use crate::action::{Action, Subfield};
use crate::ids::{MeterId, PortNo, TableId};
use crate::reason::PacketInReason;
use std::net::IpAddr;

/// Some bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bits {
    /// The field, and its lowest bit that counts.
    pub of: Subfield,
    /// How many of them.
    pub count: u16,
}

/// A packet for the controllers of an id, with a reason of one's own (`controller(...)`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToController {
    /// Bytes of it, at most.
    pub max_len: u16,
    /// Why, as the packet-in tells it.
    pub reason: PacketInReason,
    /// Connections that set this id; 0 for those that set none.
    pub id: u16,
    /// Bytes for the controller, as packet-ins of format 2 tell them.
    pub userdata: Vec<u8>,
    /// The meter within whose rate packets are told; none for all of them.
    pub meter: Option<MeterId>,
    /// The packet waits: it goes on when the controller resumes it (`NXT_RESUME`).
    pub pause: bool,
}

impl ToController {
    /// It asks for nothing that an output to the controllers does not do.
    pub(crate) fn is_output(&self) -> bool {
        let ToController { max_len: _, reason, id, userdata, meter, pause } = self;
        *id == 0
            && *reason == PacketInReason::Action
            && userdata.is_empty()
            && meter.is_none()
            && !pause
    }
}

/// Where a part of a learned entry comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LearnSource {
    /// Bits of the packet's.
    Field(Subfield),
    /// A value.
    Value(u128),
}

/// What a part of a learned entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LearnTarget {
    /// The entry matches these bits.
    Match(Subfield),
    /// The entry loads these bits.
    Load(Subfield),
    /// The entry outputs to the port.
    Output,
}

/// One part of a learned entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LearnSpec {
    /// How many bits.
    pub bits: u16,
    /// From where.
    pub from: LearnSource,
    /// What for.
    pub to: LearnTarget,
}

/// Adds a flow entry made of the packet (`learn(...)`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Learn {
    /// Seconds without a packet until the entry goes; 0 for never.
    pub idle_timeout: u16,
    /// Seconds until it goes; 0 for never.
    pub hard_timeout: u16,
    /// Higher wins.
    pub priority: u16,
    /// The entry's.
    pub cookie: u64,
    /// Tell the controller when it goes.
    pub send_flow_rem: bool,
    /// Learned entries go when the last entry goes that learns with this table and cookie.
    pub delete_learned: bool,
    /// Seconds of the learned entry's idle timeout from a FIN or RST on; 0 leaves it alone.
    pub fin_idle_timeout: u16,
    /// Seconds of its hard timeout from then on; 0 leaves it alone.
    pub fin_hard_timeout: u16,
    /// Entries that may be in the table with the learned entry's cookie; 0 for no limit.
    pub limit: u32,
    /// Takes 1 where the entry is there afterwards, 0 where the limit was reached.
    pub result_dst: Option<Subfield>,
    /// Its table.
    pub table_id: TableId,
    /// What it matches and does.
    pub specs: Vec<LearnSpec>,
}

impl Learn {
    /// The parts of a packet that it takes: those that the entry matches, and those that it loads or outputs to, each in the
    /// order of the specs. The first ones say which entry it is.
    pub fn values(&self) -> (Vec<Bits>, Vec<Bits>) {
        let (mut matched, mut others) = (Vec::new(), Vec::new());
        for spec in &self.specs {
            if let LearnSource::Field(of) = spec.from {
                let is_matched = matches!(spec.to, LearnTarget::Match(_));
                let list = if is_matched { &mut matched } else { &mut others };
                list.push(Bits { of, count: spec.bits });
            }
        }
        (matched, others)
    }
}

impl Default for Learn {
    /// As `learn()` says it.
    fn default() -> Learn {
        Learn {
            idle_timeout: 0,
            hard_timeout: 0,
            priority: 0x8000,
            cookie: 0,
            send_flow_rem: false,
            delete_learned: false,
            fin_idle_timeout: 0,
            fin_hard_timeout: 0,
            limit: 0,
            result_dst: None,
            table_id: TableId(1),
            specs: Vec::new(),
        }
    }
}

/// Shortens an entry's timeouts from its first TCP FIN or RST on (`fin_timeout(...)`). 0 leaves one alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FinTimeout {
    /// Seconds of the idle timeout from then on.
    pub idle_timeout: u16,
    /// Seconds of the hard timeout from then on.
    pub hard_timeout: u16,
}

/// That an entry belongs to a dimension of a conjunctive flow (`conjunction(ID,K/N)`, ovs-fields(7)):
/// a packet that matches an entry of each dimension is looked up again, with `conj_id` set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conjunction {
    /// The conjunctive flow.
    pub id: u32,
    /// Which dimension, from 0 on.
    pub dimension: u8,
    /// How many there are, 2 to 64.
    pub dimensions: u8,
}

impl Conjunction {
    /// Dimensions, at most.
    pub const DIMENSIONS_MAX: u8 = 64;

    /// Whether there may be such a one.
    pub fn is_sound(&self) -> bool {
        (2..=Conjunction::DIMENSIONS_MAX).contains(&self.dimensions)
            && self.dimension < self.dimensions
    }
}

/// Where a packet's zone comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Zone {
    /// This one.
    Number(u16),
    /// What a field says, in at most 16 bits.
    Field(Bits),
}

/// Whose address is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NatSide {
    /// The source's.
    Source,
    /// The destination's.
    Destination,
}

/// How a new connection is translated (`nat(src=...)`, `nat(dst=...)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NatRange {
    /// Whose address.
    pub side: NatSide,
    /// The first address.
    pub first: IpAddr,
    /// The last one, of the same family.
    pub last: IpAddr,
    /// The first and the last port; none leaves the choice to the translator.
    pub ports: Option<(u16, u16)>,
    /// `persistent`, `hash`, `random`: bits 2, 3 and 4 as on the wire.
    pub flags: u16,
}

impl NatRange {
    /// Words of the flags, and their bits.
    pub const FLAGS: [(&str, u16); 3] = [("persistent", 4), ("hash", 8), ("random", 16)];

    /// Whether these are flags that go together.
    pub fn are_flags(flags: u16) -> bool {
        let all = NatRange::FLAGS.iter().fold(0, |all, (_, bit)| all | bit);
        flags & !all == 0 && flags & 24 != 24
    }

    /// Whether there may be such a one.
    pub fn is_sound(&self) -> bool {
        let ports = self.ports.is_none_or(|(first, last)| first != 0 && first <= last);
        self.first.is_ipv4() == self.last.is_ipv4()
            && self.first <= self.last
            && ports
            && NatRange::are_flags(self.flags)
    }
}

/// Translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nat {
    /// Of packets of connections that are translated (`nat`).
    Existing,
    /// And of a new connection.
    New(NatRange),
    /// And of a new connection, whose addresses stay; a port changes where another connection has it
    /// already (`nat(src)`, `nat(dst)`).
    Unranged {
        /// Whose.
        side: NatSide,
        /// As [`NatRange::flags`].
        flags: u16,
    },
}

impl Nat {
    /// Whether it is about new connections, too, which needs `commit`.
    pub fn is_of_new(self) -> bool {
        self != Nat::Existing
    }
}

/// Hands the packet to the connection tracker (`ct(...)`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conntrack {
    /// A new connection is kept.
    pub commit: bool,
    /// One that goes the other way is replaced; only with `commit`.
    pub force: bool,
    /// In which zone.
    pub zone: Zone,
    /// Where a copy goes on that knows what the tracker says; without, nothing shows it.
    pub table: Option<TableId>,
    /// Translation.
    pub nat: Option<Nat>,
    /// The helper that looks for connections related to this one: [`Conntrack::ALGS`], 0 for none.
    pub alg: u16,
    /// Set-fields and copy-fields of `ct_mark` and `ct_label`; only with `commit`.
    pub exec: Vec<Action>,
}

impl Conntrack {
    /// Actions in an `exec(...)`, at most.
    pub const EXEC_MAX: usize = 64;
    /// Helpers by their names, and their numbers: the protocols' ports.
    pub const ALGS: [(&str, u16); 2] = [("ftp", 21), ("tftp", 69)];
}

/// Which fields a choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashFields {
    /// The Ethernet source.
    EthSrc,
    /// Addresses and ports of all layers, both directions alike.
    SymmetricL4,
    /// IP addresses and TCP or SCTP ports, both directions alike.
    SymmetricL3L4,
    /// The same with UDP ports.
    SymmetricL3L4Udp,
    /// The IP source.
    NwSrc,
    /// The IP destination.
    NwDst,
    /// IP addresses, both directions alike.
    SymmetricL3,
}

impl HashFields {
    /// All of them, in the order of their numbers.
    pub const ALL: [(HashFields, &'static str); 7] = [
        (HashFields::EthSrc, "eth_src"),
        (HashFields::SymmetricL4, "symmetric_l4"),
        (HashFields::SymmetricL3L4, "symmetric_l3l4"),
        (HashFields::SymmetricL3L4Udp, "symmetric_l3l4+udp"),
        (HashFields::NwSrc, "nw_src"),
        (HashFields::NwDst, "nw_dst"),
        (HashFields::SymmetricL3, "symmetric_l3"),
    ];
}

/// How a hash becomes a link's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// The remainder by the number of links.
    Modulo,
    /// The links share the hash's range in order.
    Threshold,
    /// The link of the highest random weight: with another number of links, only what must moves. Of more
    /// than [`HashAlgorithm::WEIGHTS_MAX`] links, as [`Modulo`](Self::Modulo).
    Weight,
    /// The first number below that of the links among those that the hash draws below `arg`.
    Iterated,
}

impl HashAlgorithm {
    /// Those that are known, in the order of their numbers.
    pub const ALL: [(HashAlgorithm, &'static str); 4] = [
        (HashAlgorithm::Modulo, "modulo_n"),
        (HashAlgorithm::Threshold, "hash_threshold"),
        (HashAlgorithm::Weight, "hrw"),
        (HashAlgorithm::Iterated, "iter_hash"),
    ];
    /// Links that [`HashAlgorithm::Weight`] weighs.
    pub const WEIGHTS_MAX: u16 = 64;
}

/// Chooses a link by a hash of the packet's fields (`multipath(...)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Multipath {
    /// Of these.
    pub fields: HashFields,
    /// Goes into the hash.
    pub basis: u16,
    /// How.
    pub algorithm: HashAlgorithm,
    /// The number of links less one.
    pub max_link: u16,
    /// For algorithms that take one; kept.
    pub arg: u32,
    /// Takes the link's number.
    pub to: Bits,
}

/// How a `bundle` chooses among its live members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BundleAlgorithm {
    /// The first live one.
    ActiveBackup,
    /// The one of the highest random weight: when one dies, only what was its own moves.
    HighestRandomWeight,
}

impl BundleAlgorithm {
    /// All of them, in the order of their numbers.
    pub const ALL: [(BundleAlgorithm, &'static str); 2] = [
        (BundleAlgorithm::ActiveBackup, "active_backup"),
        (BundleAlgorithm::HighestRandomWeight, "hrw"),
    ];
}

/// Chooses one of some ports that is live (`bundle(...)`, `bundle_load(...)`). No bundle of messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortBundle {
    /// What the choice depends on, if it is by weight.
    pub fields: HashFields,
    /// Goes into the hash.
    pub basis: u16,
    /// How.
    pub algorithm: BundleAlgorithm,
    /// The ports, of 16 bits.
    pub members: Vec<PortNo>,
    /// Takes the port's number, all ones if none is live; without it, the packet is output there.
    pub to: Option<Bits>,
}

impl PortBundle {
    /// Members, at most; Open vSwitch takes 2048.
    pub const MEMBERS_MAX: usize = 64;
}
