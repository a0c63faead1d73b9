//! Multipart requests and replies at random.

use super::monitor::{flow_counts, flow_monitor, flow_update};
use super::{
    age, band, bundle_times, experimenter, flow_stats, flow_stats_request, list, meter_flags, port,
    port_desc, queue_config, table_desc, text,
};
use crate::action::{ActionType, InstructionType};
use crate::bundle::BundleFlags;
use crate::field::{FieldId, OxmHeader};
use crate::flow::AggregateStats;
use crate::ids::{Age, GroupId, MeterId, PortNo, QueueId, TableId};
use crate::meter::{BandStats, MeterConfig, MeterFeatures, MeterStats};
use crate::multipart::{
    BundleFeatures, BundleFeaturesRequest, MultipartReply, MultipartReplyBody, MultipartRequest,
    MultipartRequestBody,
};
use crate::port::{PortStats, QueueStats, QueueStatsRequest};
use crate::switch::{ControllerReason, ControllerStatus, Role, SwitchDesc};
use crate::table::{TableFeatures, TableProperty, TableStats};
use crate::testing::{Rng, groups};
use crate::version::Version;

/// Multipart types that both versions have come first, see [`multipart_kinds`].
pub(super) fn multipart_kinds(version: Version) -> usize {
    match version {
        Version::V10 => 11,
        Version::V13 => 15,
        Version::V14 => 18,
        Version::V15 => 21,
    }
}

pub(super) fn multipart_request(rng: &mut Rng, version: Version) -> MultipartRequest {
    let body = match rng.below(multipart_kinds(version)) {
        0 => MultipartRequestBody::Desc,
        1 => MultipartRequestBody::Flow(flow_stats_request(rng, version)),
        2 => MultipartRequestBody::Aggregate(flow_stats_request(rng, version)),
        3 => MultipartRequestBody::Table,
        4 => MultipartRequestBody::PortStats(port(rng, version)),
        5 => MultipartRequestBody::Queue(QueueStatsRequest {
            port_no: match port(rng, version) {
                PortNo::ALL => PortNo::ANY,
                port => port,
            },
            queue_id: QueueId(rng.u32()),
        }),
        6 => MultipartRequestBody::PortDesc(match version {
            Version::V15 => port(rng, version),
            _ => PortNo::ANY,
        }),
        7 => MultipartRequestBody::Experimenter(experimenter(rng, version)),
        8 => MultipartRequestBody::Group(GroupId(rng.u32())),
        9 => MultipartRequestBody::GroupDesc(match version {
            Version::V10 | Version::V15 => GroupId(rng.u32()),
            _ => GroupId::ALL,
        }),
        10 => MultipartRequestBody::GroupFeatures,
        11 => MultipartRequestBody::Meter(MeterId(rng.u32())),
        12 => MultipartRequestBody::MeterConfig(MeterId(rng.u32())),
        13 => MultipartRequestBody::MeterFeatures,
        14 => MultipartRequestBody::TableFeatures(list(rng, |rng| table_features(rng, version))),
        15 => MultipartRequestBody::TableDesc,
        16 => MultipartRequestBody::QueueDesc(QueueStatsRequest {
            port_no: port(rng, version),
            queue_id: QueueId(rng.u32()),
        }),
        17 => MultipartRequestBody::FlowMonitor(list(rng, |rng| flow_monitor(rng, version))),
        18 => MultipartRequestBody::FlowCounts(flow_stats_request(rng, version)),
        19 => MultipartRequestBody::ControllerStatus,
        _ => MultipartRequestBody::BundleFeatures(BundleFeaturesRequest {
            flags: rng.u32() & 3,
            times: bundle_times(rng),
        }),
    };
    MultipartRequest { more: rng.one_in(4), body }
}

pub(super) fn multipart_reply(rng: &mut Rng, version: Version) -> MultipartReply {
    let body = match rng.below(multipart_kinds(version)) {
        0 => MultipartReplyBody::Desc(Box::new(SwitchDesc {
            manufacturer: text(rng, 255),
            hardware: text(rng, 255),
            software: text(rng, 255),
            serial: text(rng, 31),
            datapath: text(rng, 255),
        })),
        1 => MultipartReplyBody::Flow(list(rng, |rng| flow_stats(rng, version))),
        2 => MultipartReplyBody::Aggregate(AggregateStats {
            packet_count: rng.u64(),
            byte_count: rng.u64(),
            flow_count: rng.u32(),
        }),
        3 => MultipartReplyBody::Table(list(rng, |rng| table_stats(rng, version))),
        4 => MultipartReplyBody::PortStats(list(rng, |rng| port_stats(rng, version))),
        5 => MultipartReplyBody::Queue(list(rng, |rng| queue_stats(rng, version))),
        6 => MultipartReplyBody::PortDesc(list(rng, |rng| port_desc(rng, version))),
        7 => MultipartReplyBody::Experimenter(experimenter(rng, version)),
        8 => MultipartReplyBody::Group(list(rng, groups::group_stats)),
        9 => MultipartReplyBody::GroupDesc(list(rng, |rng| groups::group_desc(rng, version))),
        10 => MultipartReplyBody::GroupFeatures(groups::group_features(rng)),
        11 => MultipartReplyBody::Meter(list(rng, meter_stats)),
        12 => MultipartReplyBody::MeterConfig(list(rng, |rng| MeterConfig {
            flags: meter_flags(rng),
            meter_id: MeterId(rng.u32()),
            bands: list(rng, band),
        })),
        13 => MultipartReplyBody::MeterFeatures(MeterFeatures {
            max_meter: rng.u32(),
            band_types: rng.u32(),
            capabilities: rng.u32(),
            max_bands: rng.u8(),
            max_color: rng.u8(),
            features: if version >= Version::V15 { rng.u32() } else { 0 },
        }),
        14 => MultipartReplyBody::TableFeatures(list(rng, |rng| table_features(rng, version))),
        15 => MultipartReplyBody::TableDesc(list(rng, |rng| table_desc(rng, version))),
        16 => MultipartReplyBody::QueueDesc(list(rng, |rng| queue_config(rng, version))),
        17 => MultipartReplyBody::FlowMonitor(list(rng, |rng| flow_update(rng, version))),
        18 => MultipartReplyBody::FlowCounts(list(rng, |rng| flow_counts(rng, version))),
        19 => MultipartReplyBody::ControllerStatus(list(rng, controller_status)),
        _ => MultipartReplyBody::BundleFeatures(BundleFeatures {
            capabilities: BundleFlags::from_bits_retain(rng.u16()),
            times: bundle_times(rng),
        }),
    };
    MultipartReply { more: rng.one_in(4), body }
}

pub(super) fn controller_status(rng: &mut Rng) -> ControllerStatus {
    ControllerStatus {
        short_id: rng.u16(),
        role: rng.choose(&[Role::Equal, Role::Master, Role::Slave]),
        reason: rng.choose(&ControllerReason::ALL),
        up: rng.one_in(2),
        uri: text(rng, 40),
    }
}

pub(super) fn table_stats(rng: &mut Rng, version: Version) -> TableStats {
    let v10 = version == Version::V10;
    TableStats {
        table_id: TableId(rng.u8()),
        active_count: rng.u32(),
        lookup_count: rng.u64(),
        matched_count: rng.u64(),
        name: if v10 { text(rng, 31) } else { String::new() },
        wildcards: if v10 { rng.u32() } else { 0 },
        max_entries: if v10 { rng.u32() } else { 0 },
    }
}

pub(super) fn stats_age(rng: &mut Rng, version: Version) -> Age {
    if version == Version::V10 { PortStats::NO_AGE } else { age(rng) }
}

pub(super) fn port_stats(rng: &mut Rng, version: Version) -> PortStats {
    PortStats {
        port_no: port(rng, version),
        rx_packets: rng.u64(),
        tx_packets: rng.u64(),
        rx_bytes: rng.u64(),
        tx_bytes: rng.u64(),
        rx_dropped: rng.u64(),
        tx_dropped: rng.u64(),
        rx_errors: rng.u64(),
        tx_errors: rng.u64(),
        rx_frame_err: rng.u64(),
        rx_over_err: rng.u64(),
        rx_crc_err: rng.u64(),
        collisions: rng.u64(),
        age: stats_age(rng, version),
    }
}

pub(super) fn queue_stats(rng: &mut Rng, version: Version) -> QueueStats {
    QueueStats {
        port_no: port(rng, version),
        queue_id: QueueId(rng.u32()),
        tx_bytes: rng.u64(),
        tx_packets: rng.u64(),
        tx_errors: rng.u64(),
        age: stats_age(rng, version),
    }
}

pub(super) fn meter_stats(rng: &mut Rng) -> MeterStats {
    MeterStats {
        meter_id: MeterId(rng.u32()),
        flow_count: rng.u32(),
        packet_in_count: rng.u64(),
        byte_in_count: rng.u64(),
        age: age(rng),
        bands: list(rng, |rng| BandStats { packet_count: rng.u64(), byte_count: rng.u64() }),
    }
}

/// Random features of a table.
pub(super) fn table_features(rng: &mut Rng, version: Version) -> TableFeatures {
    let v15 = version >= Version::V15;
    TableFeatures {
        command: if v15 { rng.u8() } else { 0 },
        features: if v15 { rng.u32() } else { 0 },
        table_id: TableId(rng.u8()),
        name: text(rng, 31),
        metadata_match: rng.u64(),
        metadata_write: rng.u64(),
        config: rng.u32(),
        max_entries: rng.u32(),
        properties: list(rng, |rng| table_property(rng, version)),
    }
}

pub(super) fn table_property(rng: &mut Rng, version: Version) -> TableProperty {
    let miss = rng.one_in(2);
    let kind = match version {
        Version::V10 | Version::V13 => rng.below(9),
        Version::V14 => rng.below(10),
        Version::V15 => rng.below(13),
    };
    let headers =
        |rng: &mut Rng| list(rng, |rng| OxmHeader::of(rng.choose(FieldId::ALL), rng.one_in(2)));
    let types = |rng: &mut Rng| {
        list(rng, |rng| match rng.one_in(5) {
            true => ActionType::Experimenter(rng.u32()),
            false => rng.choose(ActionType::standard(version)),
        })
    };
    match kind {
        0 => TableProperty::Instructions {
            miss,
            types: list(rng, |rng| match rng.one_in(5) {
                true => InstructionType::Experimenter(rng.u32()),
                false => match rng.choose(&InstructionType::STANDARD) {
                    kind if kind.is_in(version) => kind,
                    _ => InstructionType::GotoTable,
                },
            }),
        },
        1 => TableProperty::NextTables { miss, tables: list(rng, |rng| TableId(rng.u8())) },
        2 => TableProperty::WriteActions { miss, types: types(rng) },
        3 => TableProperty::ApplyActions { miss, types: types(rng) },
        4 => TableProperty::Match(headers(rng)),
        5 => TableProperty::Wildcards(headers(rng)),
        6 => TableProperty::WriteSetField { miss, fields: headers(rng) },
        7 => TableProperty::ApplySetField { miss, fields: headers(rng) },
        9 => TableProperty::SyncFrom(list(rng, |rng| TableId(rng.u8()))),
        10 => TableProperty::WriteCopyField { miss, fields: headers(rng) },
        11 => TableProperty::ApplyCopyField { miss, fields: headers(rng) },
        12 => TableProperty::PacketTypes(list(rng, |rng| rng.u32())),
        _ => TableProperty::Experimenter {
            miss,
            experimenter: rng.u32(),
            exp_type: rng.u32(),
            data: rng.bytes(13),
        },
    }
}
