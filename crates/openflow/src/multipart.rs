//! Multipart requests and replies (1.3.5 §7.3.5), which 1.0 calls statistics.
//!
//! 1.0 has desc, flow, aggregate, table, port-stats, queue and vendor; the other types exist from
//! 1.3 on (port-desc is also what 1.0's features reply carries), or later where that is said.

use crate::bundle::BundleFlags;
use crate::flow::{AggregateStats, FlowCounts, FlowStats, FlowStatsRequest};
use crate::group::{GroupDesc, GroupFeatures, GroupStats};
use crate::ids::{GroupId, MeterId, PortNo};
use crate::message::Experimenter;
use crate::meter::{MeterConfig, MeterFeatures, MeterStats};
use crate::monitor::{FlowMonitorRequest, FlowUpdate};
use crate::port::{PortDesc, PortStats, QueueConfig, QueueStats, QueueStatsRequest};
use crate::switch::{ControllerStatus, SwitchDesc};
use crate::table::{TableDesc, TableFeatures, TableStats};

/// A multipart request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipartRequest {
    /// More requests with this xid belong to it (1.3).
    pub more: bool,
    /// What is asked.
    pub body: MultipartRequestBody,
}

/// What a multipart request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultipartRequestBody {
    /// The switch's description.
    Desc,
    /// Flow entries.
    Flow(FlowStatsRequest),
    /// Sums over flow entries.
    Aggregate(FlowStatsRequest),
    /// Tables' counters.
    Table,
    /// Ports' counters, of one port or [`PortNo::ANY`].
    PortStats(PortNo),
    /// Queues' counters.
    Queue(QueueStatsRequest),
    /// Groups' counters, of one group or [`GroupId::ALL`].
    Group(GroupId),
    /// Groups' descriptions, of one group (1.5) or [`GroupId::ALL`].
    GroupDesc(GroupId),
    /// What groups can do.
    GroupFeatures,
    /// Meters' counters, of one meter or [`MeterId::ALL`].
    Meter(MeterId),
    /// Meters' configurations, of one meter or [`MeterId::ALL`].
    MeterConfig(MeterId),
    /// What meters can do.
    MeterFeatures,
    /// What tables can do; not empty: configure them so.
    TableFeatures(Vec<TableFeatures>),
    /// Ports' descriptions, of one port (1.5) or [`PortNo::ANY`].
    PortDesc(PortNo),
    /// Tables' configurations (1.4).
    TableDesc,
    /// Queues' descriptions (1.4).
    QueueDesc(QueueStatsRequest),
    /// Flow entries, counters alone (1.5).
    FlowCounts(FlowStatsRequest),
    /// Begins, changes or ends watching flow entries (1.4).
    FlowMonitor(Vec<FlowMonitorRequest>),
    /// The controllers that the switch knows (1.5).
    ControllerStatus,
    /// What bundles can do (1.5).
    BundleFeatures(BundleFeaturesRequest),
    /// An experimenter's.
    Experimenter(Experimenter),
}

/// A multipart reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultipartReply {
    /// More replies with this xid follow.
    pub more: bool,
    /// What was asked for.
    pub body: MultipartReplyBody,
}

/// What a multipart reply tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultipartReplyBody {
    /// The switch's description.
    Desc(Box<SwitchDesc>),
    /// Flow entries.
    Flow(Vec<FlowStats>),
    /// Sums over flow entries.
    Aggregate(AggregateStats),
    /// Flow entries, as Nicira's request asked for them.
    NxFlow(Vec<FlowStats>),
    /// Sums over flow entries, as Nicira's request asked for them.
    NxAggregate(AggregateStats),
    /// Tables' counters.
    Table(Vec<TableStats>),
    /// Ports' counters.
    PortStats(Vec<PortStats>),
    /// Queues' counters.
    Queue(Vec<QueueStats>),
    /// Groups' counters.
    Group(Vec<GroupStats>),
    /// Groups' descriptions.
    GroupDesc(Vec<GroupDesc>),
    /// What groups can do.
    GroupFeatures(GroupFeatures),
    /// Meters' counters.
    Meter(Vec<MeterStats>),
    /// Meters' configurations.
    MeterConfig(Vec<MeterConfig>),
    /// What meters can do.
    MeterFeatures(MeterFeatures),
    /// What tables can do.
    TableFeatures(Vec<TableFeatures>),
    /// Ports' descriptions.
    PortDesc(Vec<PortDesc>),
    /// Tables' configurations.
    TableDesc(Vec<TableDesc>),
    /// Queues' descriptions.
    QueueDesc(Vec<QueueConfig>),
    /// Flow entries' counters.
    FlowCounts(Vec<FlowCounts>),
    /// What became of watched flow entries.
    FlowMonitor(Vec<FlowUpdate>),
    /// The controllers that the switch knows.
    ControllerStatus(Vec<ControllerStatus>),
    /// What bundles can do.
    BundleFeatures(BundleFeatures),
    /// An experimenter's.
    Experimenter(Experimenter),
}

/// Asks what bundles can do (1.5.1 §7.3.5.20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleFeaturesRequest {
    /// See [`BundleFeaturesRequest::TIMESTAMP`] and the like.
    pub flags: u32,
    /// The sender's, as far as the flags ask for them.
    pub times: Option<BundleTimes>,
}

impl BundleFeaturesRequest {
    /// `OFPBF_TIMESTAMP`: the sender's time is there.
    pub const TIMESTAMP: u32 = 1;
    /// `OFPBF_TIME_SET_SCHED`: the bounds of scheduling become those of the request.
    pub const SET_BOUNDS: u32 = 2;
}

/// Times of scheduled bundles (1.5.1 §7.3.5.20): each seconds and nanoseconds, points since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BundleTimes {
    /// How far from its time a bundle may be done.
    pub accuracy: (u64, u32),
    /// How far ahead one may be scheduled.
    pub future: (u64, u32),
    /// How late a commit may come and be done at once.
    pub past: (u64, u32),
    /// What time it is.
    pub now: (u64, u32),
}

/// What bundles can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleFeatures {
    /// The flags that bundles may have.
    pub capabilities: BundleFlags,
    /// When bundles can be scheduled.
    pub times: Option<BundleTimes>,
}
