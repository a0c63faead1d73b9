//! Flow tables: configuration, statistics, features (1.3.5 §7.3.3, §7.3.5.4, §7.3.5.5).

use crate::action::{ActionType, InstructionType};
use crate::field::OxmHeader;
use crate::ids::TableId;

/// `OFPTC_EVICTION`: entries may be evicted to make room (1.4).
pub const TABLE_EVICTION: u32 = 1 << 2;
/// `OFPTC_VACANCY_EVENTS`: controllers are told of vacancy (1.4).
pub const TABLE_VACANCY_EVENTS: u32 = 1 << 3;

/// When controllers are told how full a table is (1.4.1 §7.3.4.1), in percent of its capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacancy {
    /// Told when less than this is left.
    pub down: u8,
    /// Told when more than this is left again.
    pub up: u8,
    /// What is left now; 0 in a table-mod.
    pub now: u8,
}

/// Changes a table's configuration (1.3; only deprecated bits exist before 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMod {
    /// Which; [`TableId::ALL`] for all.
    pub table_id: TableId,
    /// `OFPTC_*` bits; 3 are deprecated.
    pub config: u32,
    /// By what entries are chosen for eviction, `OFPTMPEF_*` bits (1.4).
    pub eviction: Option<u32>,
    /// When to tell (1.4).
    pub vacancy: Option<Vacancy>,
}

/// A table's configuration (1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableDesc {
    /// Which.
    pub table_id: TableId,
    /// `OFPTC_*` bits.
    pub config: u32,
    /// By what entries are chosen for eviction, `OFPTMPEF_*` bits.
    pub eviction: Option<u32>,
    /// When to tell.
    pub vacancy: Option<Vacancy>,
}

/// Why a table-status was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableReason {
    /// Less than the threshold is left (3).
    VacancyDown,
    /// More than the threshold is left again (4).
    VacancyUp,
}

/// Tells of a table's vacancy (1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableStatus {
    /// Which of these.
    pub reason: TableReason,
    /// The table.
    pub desc: TableDesc,
}

/// A table's counters, and in 1.0 also what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Which.
    pub table_id: TableId,
    /// Entries.
    pub active_count: u32,
    /// Packets looked up.
    pub lookup_count: u64,
    /// Packets that matched.
    pub matched_count: u64,
    /// 1.0 only: its name, at most 31 bytes. Empty in 1.3, as table features tell it.
    pub name: String,
    /// 1.0 only: wildcard bits that it supports (`OFPFW_*`). 0 in 1.3.
    pub wildcards: u32,
    /// 1.0 only: entries that it can hold. 0 in 1.3.
    pub max_entries: u32,
}

/// What a table can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFeatures {
    /// Which.
    pub table_id: TableId,
    /// What a request does, `OFPTFC_*` (1.5); 0 before and in replies.
    pub command: u8,
    /// `OFPTFF_*` bits (1.5); 0 before.
    pub features: u32,
    /// Its name, at most 31 bytes.
    pub name: String,
    /// Metadata bits that it can match.
    pub metadata_match: u64,
    /// Metadata bits that it can write.
    pub metadata_write: u64,
    /// `OFPTC_*` bits.
    pub config: u32,
    /// Entries that it can hold.
    pub max_entries: u32,
    /// The rest, in the order of the message.
    pub properties: Vec<TableProperty>,
}

/// One property in a table's features. `miss` tells that it is the table-miss entry's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableProperty {
    /// Instructions (0, 1).
    Instructions {
        /// Of the table-miss entry.
        miss: bool,
        /// Which.
        types: Vec<InstructionType>,
    },
    /// Tables that goto may name (2, 3).
    NextTables {
        /// Of the table-miss entry.
        miss: bool,
        /// Which.
        tables: Vec<TableId>,
    },
    /// Actions in write-actions (4, 5).
    WriteActions {
        /// Of the table-miss entry.
        miss: bool,
        /// Which.
        types: Vec<ActionType>,
    },
    /// Actions in apply-actions (6, 7).
    ApplyActions {
        /// Of the table-miss entry.
        miss: bool,
        /// Which.
        types: Vec<ActionType>,
    },
    /// Fields that it can match (8); a header with the mask bit says that masks are supported.
    Match(Vec<OxmHeader>),
    /// Fields that may be left out of a match (10).
    Wildcards(Vec<OxmHeader>),
    /// Fields that write-actions may set (12, 13).
    WriteSetField {
        /// Of the table-miss entry.
        miss: bool,
        /// Which.
        fields: Vec<OxmHeader>,
    },
    /// Fields that apply-actions may set (14, 15).
    ApplySetField {
        /// Of the table-miss entry.
        miss: bool,
        /// Which.
        fields: Vec<OxmHeader>,
    },
    /// Tables that it follows (16; 1.4).
    SyncFrom(Vec<TableId>),
    /// Fields that write-actions may copy (18, 19; 1.5).
    WriteCopyField {
        /// Of the table-miss entry.
        miss: bool,
        /// Which.
        fields: Vec<OxmHeader>,
    },
    /// Fields that apply-actions may copy (20, 21; 1.5).
    ApplyCopyField {
        /// Of the table-miss entry.
        miss: bool,
        /// Which.
        fields: Vec<OxmHeader>,
    },
    /// Packet types that it takes (22; 1.5): values of `packet_type`.
    PacketTypes(Vec<u32>),
    /// An experimenter's (0xfffe, 0xffff).
    Experimenter {
        /// Of the table-miss entry.
        miss: bool,
        /// Who.
        experimenter: u32,
        /// What of theirs.
        exp_type: u32,
        /// The bytes after these.
        data: Vec<u8>,
    },
}
