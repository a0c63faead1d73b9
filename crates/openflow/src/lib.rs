//! OpenFlow messages, 1.0, 1.3, 1.4 and 1.5: bytes to and from one version-neutral form.
//!
//! In: bytes of a connection, cut into messages; out: a [`Message`], or a coded error to answer.
//! And back. Both directions of every message type are here, so that a switch, a controller and a
//! test of either use the same code.
//!
//! The neutral form is 1.3's, with places for what only other versions have; field and error numbers live in one table each
//! ([`mod@field`], [`error`]). An action ([`action`]) has a row in `actions`, with its words, numbers, text and bytes. Another
//! version joins by a [`Version`], lines in those tables and arms in the codec.
//!
//! Holds true: no bytes panic; a message that decodes is canonical (matches sorted, masks minimal);
//! an encoding that decodes gives back the same message. Absent: sockets, clocks, threads, and any
//! state of a connection or a switch; what needs those (is the port there? is the table full?)
//! others decide.
//! Checked by: round trips of random messages, known vectors of an independent implementation,
//! truncation and bit flips of every message, a fuzz target, and `ovs-ofctl ofp-print`.

pub mod action;
mod actions;
pub mod bundle;
pub mod codec;
mod entry_stats;
pub mod error;
pub mod extension;
pub mod field;
pub mod flow;
pub mod flow_match;
pub mod group;
pub mod ids;
mod kept;
pub mod message;
pub mod meter;
pub mod monitor;
pub mod multipart;
pub mod packet;
pub mod port;
mod reason;
pub mod softflow;
pub mod switch;
pub mod syntax;
pub mod table;
pub mod testing;
pub mod version;

pub use action::{
    Action, ActionType, Actions, CopyField, Instruction, InstructionType, Instructions, SetField,
    StatTrigger, StatTriggerFlags, Subfield,
};
pub use actions::FieldUse;
pub use bundle::{BundleAdd, BundleControl, BundleControlType, BundleFlags, BundleId};
pub use codec::{
    DecodeError, DecodeFault, EncodeError, Frame, Header, decode, encode, encode_into, frame,
};
pub use error::{ErrorCode, ErrorKind, ErrorMessage};
pub use extension::{
    Bits, BundleAlgorithm, Conjunction, Conntrack, FinTimeout, HashAlgorithm, HashFields, Learn,
    LearnSource, LearnSpec, LearnTarget, Multipath, Nat, NatRange, NatSide, PortBundle,
    ToController, Zone,
};
pub use field::{FIELDS, FieldId, FieldInfo, FieldSet, OxmHeader, Prerequisite};
pub use flow::{
    AggregateStats, EntryStats, FlowCounts, FlowMod, FlowModCommand, FlowModFlags, FlowRemoved,
    FlowRemovedReason, FlowStats, FlowStatsRequest, Uncounted,
};
pub use flow_match::{Match, MatchError, MatchField};
pub use group::{
    Bucket, BucketId, BucketStats, GroupCapabilities, GroupDesc, GroupFeatures, GroupMod,
    GroupModCommand, GroupStats, GroupType, Selection, SelectionMethod,
};
pub use ids::{Age, BufferId, GroupId, MacAddr, MeterId, PortNo, QueueId, TableId, Xid};
pub use kept::keep_v10;
pub use message::{
    CtFlush, CtTuple, Experimenter, ForwardedRequest, Hello, Message, Nicira, RequestForward,
    TlvMapping, TlvTableCommand, TlvTableMod, TlvTableReply,
};
pub use meter::{
    Band, BandKind, BandStats, MeterConfig, MeterFeatures, MeterFlags, MeterMod, MeterModCommand,
    MeterStats,
};
pub use monitor::{
    FlowMonitorRequest, FlowUpdate, FlowUpdateKind, FullUpdate, MonitorCommand, MonitorFlags,
};
pub use multipart::{
    BundleFeatures, BundleFeaturesRequest, BundleTimes, MultipartReply, MultipartReplyBody,
    MultipartRequest, MultipartRequestBody,
};
pub use packet::{PacketIn, PacketInReason, PacketOut, Resume};
pub use port::{
    PortConfig, PortDesc, PortFeatures, PortMod, PortReason, PortState, PortStats, PortStatus,
    QueueConfig, QueueConfigReply, QueueProperty, QueueStats, QueueStatsRequest,
};
pub use softflow::{ElementName, SOFTFLOW, Softflow};
pub use switch::{
    AsyncChange, AsyncConfig, AsyncKind, Capabilities, ControllerReason, ControllerStatus,
    Features, FragmentHandling, QueueConfigRequest, Role, RoleMessage, RoleReason, RoleStatus,
    SwitchConfig, SwitchDesc,
};
pub use table::{
    TableDesc, TableFeatures, TableMod, TableProperty, TableReason, TableStats, TableStatus,
    Vacancy,
};
pub use version::{Version, VersionSet};
