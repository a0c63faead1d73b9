//! Multipart requests and replies, and the cutting of long replies (1.3.5 §7.3.5; 1.0.2 §5.3.5).
//!
//! A reply's entries are written one after another; the entry that would make the message too long
//! is moved behind a new header, so nothing is encoded twice. Port descriptions exist in 1.0 too,
//! as Open vSwitch has them there (type 13 with 1.0's ports): `ovs-ofctl dump-ports-desc` asks so.

use super::header::{HEADER_LEN, MESSAGE_LEN_MAX, finish_message, put_header};
use super::loss::{Encode, EncodeError};
use super::reader::{Reader, Result};
use super::writer::Put;
use super::{bundle, flow, group, meter, misc, monitor, own_fields, port, switch, table};
use crate::error::ErrorCode;
use crate::flow::FlowStats;
use crate::ids::NICIRA;
use crate::ids::{GroupId, MeterId, PortNo, Xid};
use crate::monitor::{FlowUpdate, FullUpdate};
use crate::multipart::{
    MultipartReply, MultipartReplyBody as Reply, MultipartRequest, MultipartRequestBody as Request,
};
use crate::version::Version;
use std::borrow::Cow;

const DESC: u16 = 0;
const FLOW: u16 = 1;
const AGGREGATE: u16 = 2;
const TABLE: u16 = 3;
const PORT_STATS: u16 = 4;
const QUEUE: u16 = 5;
const GROUP: u16 = 6;
const GROUP_DESC: u16 = 7;
const GROUP_FEATURES: u16 = 8;
const METER: u16 = 9;
const METER_CONFIG: u16 = 10;
const METER_FEATURES: u16 = 11;
const TABLE_FEATURES: u16 = 12;
const PORT_DESC: u16 = 13;
const TABLE_DESC: u16 = 14;
const QUEUE_DESC: u16 = 15;
const FLOW_MONITOR: u16 = 16;
const FLOW_COUNTS: u16 = 17;
const CONTROLLER_STATUS: u16 = 18;
const BUNDLE_FEATURES: u16 = 19;
const EXPERIMENTER: u16 = 0xffff;

const MORE: u16 = 1;

/// Whether the version has the type.
fn exists(version: Version, number: u16) -> bool {
    match version {
        Version::V10 => matches!(number, DESC..=QUEUE | PORT_DESC | EXPERIMENTER),
        Version::V13 => matches!(number, DESC..=PORT_DESC | EXPERIMENTER),
        Version::V14 => matches!(number, DESC..=FLOW_MONITOR | EXPERIMENTER),
        Version::V15 => {
            matches!(number, DESC..=BUNDLE_FEATURES | EXPERIMENTER)
        }
    }
}

/// Reads type and flags, and padding where there is some.
fn decode_head(version: Version, r: &mut Reader<'_>) -> Result<(u16, bool)> {
    let number = r.u16()?;
    if !exists(version, number) {
        let right = match version {
            Version::V10 => "0 to 5, 13 or 0xffff",
            Version::V13 => "0 to 13 or 0xffff",
            Version::V14 => "0 to 16 or 0xffff",
            Version::V15 => "0 to 19 or 0xffff",
        };
        return Err(r.bad_value(ErrorCode::BrcBadMultipart, "multipart type", number, right));
    }
    let more = r.u16()? & MORE != 0;
    if version >= Version::V13 {
        r.skip(4)?;
    }
    Ok((number, more))
}

fn put_head(buf: &mut Vec<u8>, version: Version, number: u16, more: bool) -> Encode {
    if !exists(version, number) {
        return Err(EncodeError::NotInVersion { version, what: name(number) });
    }
    buf.put_u16(number);
    buf.put_u16(if more { MORE } else { 0 });
    if version >= Version::V13 {
        buf.pad(4);
    }
    Ok(())
}

fn name(number: u16) -> &'static str {
    match number {
        GROUP => "OFPMP_GROUP",
        GROUP_DESC => "OFPMP_GROUP_DESC",
        GROUP_FEATURES => "OFPMP_GROUP_FEATURES",
        METER => "OFPMP_METER",
        METER_CONFIG => "OFPMP_METER_CONFIG",
        METER_FEATURES => "OFPMP_METER_FEATURES",
        TABLE_FEATURES => "OFPMP_TABLE_FEATURES",
        TABLE_DESC => "OFPMP_TABLE_DESC",
        QUEUE_DESC => "OFPMP_QUEUE_DESC",
        FLOW_MONITOR => "OFPMP_FLOW_MONITOR",
        FLOW_COUNTS => "OFPMP_FLOW_STATS",
        CONTROLLER_STATUS => "OFPMP_CONTROLLER_STATUS",
        BUNDLE_FEATURES => "OFPMP_BUNDLE_FEATURES",
        _ => "such multipart message",
    }
}

/// Reads entries to the end of `r`.
fn entries<'a, T>(
    r: &mut Reader<'a>,
    mut decode: impl FnMut(&mut Reader<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut list = Vec::new();
    while !r.is_empty() {
        list.push(decode(r)?);
    }
    Ok(list)
}

/// A number and its padding.
fn padded_id(r: &mut Reader<'_>) -> Result<u32> {
    let id = r.u32()?;
    r.skip(4)?;
    Ok(id)
}

pub(super) fn decode_request(version: Version, r: &mut Reader<'_>) -> Result<MultipartRequest> {
    let (number, more) = decode_head(version, r)?;
    let mut id = || padded_id(r);
    let body = match number {
        DESC => Request::Desc,
        FLOW => Request::Flow(flow::decode_stats_request(version, r)?),
        AGGREGATE => Request::Aggregate(flow::decode_stats_request(version, r)?),
        TABLE => Request::Table,
        PORT_STATS => Request::PortStats(port::decode_stats_request(version, r)?),
        QUEUE => Request::Queue(port::decode_queue_stats_request(version, r)?),
        GROUP => Request::Group(GroupId(id()?)),
        //= openflow-1.5.1 §7.3.5.10: from 1.5 on one group may be asked about.
        GROUP_DESC if version >= Version::V15 => Request::GroupDesc(GroupId(id()?)),
        GROUP_DESC => Request::GroupDesc(GroupId::ALL),
        GROUP_FEATURES => Request::GroupFeatures,
        METER => Request::Meter(MeterId(id()?)),
        METER_CONFIG => Request::MeterConfig(MeterId(id()?)),
        METER_FEATURES => Request::MeterFeatures,
        TABLE_FEATURES => {
            Request::TableFeatures(entries(r, |r| table::decode_features(version, r))?)
        }
        PORT_DESC if version >= Version::V15 => Request::PortDesc(PortNo(id()?)),
        PORT_DESC => {
            // Some senders append a port number, as 1.5 does; all ports are the answer in 1.3.
            r.rest();
            Request::PortDesc(PortNo::ANY)
        }
        TABLE_DESC => Request::TableDesc,
        QUEUE_DESC => Request::QueueDesc(port::decode_queue_stats_request(version, r)?),
        FLOW_MONITOR => Request::FlowMonitor(entries(r, |r| monitor::decode_request(version, r))?),
        FLOW_COUNTS => Request::FlowCounts(flow::decode_stats_request(version, r)?),
        CONTROLLER_STATUS => Request::ControllerStatus,
        BUNDLE_FEATURES => Request::BundleFeatures(bundle::decode_features_request(r)?),
        _ => match vendor_stats(version, r) {
            Some(0) => Request::Flow(flow::decode_nx_stats_request(r)?),
            Some(NX_GROUP) => Request::Group(GroupId(padded_id(r)?)),
            Some(NX_GROUP_DESC) => Request::GroupDesc(GroupId(padded_id(r)?)),
            Some(NX_GROUP_FEATURES) => Request::GroupFeatures,
            Some(MONITOR) => {
                Request::FlowMonitor(entries(r, |r| monitor::decode_request_nx(version, r))?)
            }
            Some(_) => Request::Aggregate(flow::decode_nx_stats_request(r)?),
            None => Request::Experimenter(misc::decode_experimenter(version, r)?),
        },
    };
    Ok(MultipartRequest { more, body })
}

/// Nicira's subtype of flow monitors.
const MONITOR: u32 = 2;
/// The ONF's of the same, in 1.3.
const MONITOR_ONF: u32 = 1870;

/// Nicira's of groups, their buckets and what they can be, in 1.0.
const NX_GROUP: u32 = 7;
const NX_GROUP_DESC: u32 = 8;
const NX_GROUP_FEATURES: u32 = 9;

/// Nicira's subtype of what 1.0 says about groups.
fn nx_group(version: Version, number: u16) -> Option<u32> {
    let of_groups = matches!(number, GROUP..=GROUP_FEATURES) && version == Version::V10;
    of_groups.then(|| NX_GROUP + u32::from(number - GROUP))
}

/// Passes over the head of requests about flow entries (0), their sums (1), their monitors (2) and groups (7 to 9)
/// that are Nicira's in 1.0 or the ONF's in 1.3, if it is one.
fn vendor_stats(version: Version, r: &mut Reader<'_>) -> Option<u32> {
    let mut ahead = *r;
    let vendor = ahead.u32().ok()?;
    let subtype = match (version, vendor, ahead.u32().ok()?) {
        (Version::V10, NICIRA, subtype @ (0..=MONITOR | NX_GROUP..=NX_GROUP_FEATURES)) => {
            ahead.skip(4).ok()?;
            subtype
        }
        (Version::V13, ErrorCode::ONF, MONITOR_ONF) => MONITOR,
        _ => return None,
    };
    *r = ahead;
    Some(subtype)
}

/// Whether a version says flow monitors by an extension.
fn monitors_by_vendor(version: Version) -> bool {
    version < Version::V14
}

fn put_monitor(buf: &mut Vec<u8>, version: Version) {
    if version == Version::V10 {
        put_nicira(buf, MONITOR);
    } else {
        buf.put_u32(ErrorCode::ONF);
        buf.put_u32(MONITOR_ONF);
    }
}

fn put_nicira(buf: &mut Vec<u8>, subtype: u32) {
    buf.put_u32(NICIRA);
    buf.put_u32(subtype);
    buf.pad(4);
}

pub(super) fn encode_request(
    buf: &mut Vec<u8>,
    version: Version,
    request: &MultipartRequest,
) -> Encode {
    let number = match &request.body {
        Request::Flow(m) | Request::Aggregate(m) if m.extended && version == Version::V10 => {
            EXPERIMENTER
        }
        Request::FlowMonitor(_) if monitors_by_vendor(version) => EXPERIMENTER,
        Request::Desc => DESC,
        Request::Flow(_) => FLOW,
        Request::Aggregate(_) => AGGREGATE,
        Request::Table => TABLE,
        Request::PortStats(_) => PORT_STATS,
        Request::Queue(_) => QUEUE,
        Request::Group(_) => GROUP,
        Request::GroupDesc(_) => GROUP_DESC,
        Request::GroupFeatures => GROUP_FEATURES,
        Request::Meter(_) => METER,
        Request::MeterConfig(_) => METER_CONFIG,
        Request::MeterFeatures => METER_FEATURES,
        Request::TableFeatures(_) => TABLE_FEATURES,
        Request::PortDesc(_) => PORT_DESC,
        Request::TableDesc => TABLE_DESC,
        Request::QueueDesc(_) => QUEUE_DESC,
        Request::FlowMonitor(_) => FLOW_MONITOR,
        Request::FlowCounts(_) => FLOW_COUNTS,
        Request::ControllerStatus => CONTROLLER_STATUS,
        Request::BundleFeatures(_) => BUNDLE_FEATURES,
        Request::Experimenter(_) => EXPERIMENTER,
    };
    let of_groups = nx_group(version, number);
    put_head(buf, version, of_groups.map_or(number, |_| EXPERIMENTER), request.more)?;
    of_groups.iter().for_each(|subtype| put_nicira(buf, *subtype));
    match &request.body {
        Request::Flow(m) | Request::Aggregate(m) if number == EXPERIMENTER => {
            put_nicira(buf, u32::from(matches!(request.body, Request::Aggregate(_))));
            flow::encode_nx_stats_request(buf, m)?;
        }
        Request::Flow(m) | Request::Aggregate(m) | Request::FlowCounts(m) => {
            flow::encode_stats_request(buf, version, m)?;
        }
        Request::PortStats(port) => port::encode_stats_request(buf, version, *port)?,
        Request::Queue(m) | Request::QueueDesc(m) => {
            port::encode_queue_stats_request(buf, version, m)?;
        }
        Request::Group(GroupId(id))
        | Request::Meter(MeterId(id))
        | Request::MeterConfig(MeterId(id)) => {
            buf.put_u32(*id);
            buf.pad(4);
        }
        Request::TableFeatures(list) => {
            list.iter().for_each(|m| table::encode_features(buf, version, m));
        }
        Request::Experimenter(m) => misc::encode_experimenter(buf, version, m),
        Request::GroupDesc(GroupId(id)) | Request::PortDesc(PortNo(id)) => {
            if version >= Version::V15 || of_groups.is_some() {
                buf.put_u32(*id);
                buf.pad(4);
            }
        }
        Request::FlowMonitor(list) if number == EXPERIMENTER => {
            put_monitor(buf, version);
            list.iter().try_for_each(|m| monitor::encode_request_nx(buf, version, m))?;
        }
        Request::FlowMonitor(list) => {
            list.iter().try_for_each(|m| monitor::encode_request(buf, version, m))?;
        }
        Request::BundleFeatures(m) => bundle::encode_features_request(buf, m),
        Request::Desc
        | Request::Table
        | Request::GroupFeatures
        | Request::MeterFeatures
        | Request::ControllerStatus
        | Request::TableDesc => {}
    }
    Ok(())
}

pub(super) fn decode_reply(version: Version, r: &mut Reader<'_>) -> Result<MultipartReply> {
    let (number, more) = decode_head(version, r)?;
    let body = match number {
        DESC => Reply::Desc(Box::new(switch::decode_desc(r)?)),
        FLOW => Reply::Flow(entries(r, |r| flow::decode_stats(version, r).map(restored))?),
        AGGREGATE => Reply::Aggregate(flow::decode_aggregate(version, r)?),
        TABLE => Reply::Table(entries(r, |r| table::decode_stats(version, r))?),
        PORT_STATS => Reply::PortStats(entries(r, |r| port::decode_stats(version, r))?),
        QUEUE => Reply::Queue(entries(r, |r| port::decode_queue_stats(version, r))?),
        GROUP => Reply::Group(entries(r, group::decode_stats)?),
        GROUP_DESC => Reply::GroupDesc(entries(r, |r| group::decode_desc(version, r))?),
        GROUP_FEATURES => Reply::GroupFeatures(group::decode_features(r)?),
        METER => Reply::Meter(entries(r, meter::decode_stats)?),
        METER_CONFIG => Reply::MeterConfig(entries(r, meter::decode_config)?),
        METER_FEATURES => Reply::MeterFeatures(meter::decode_features(version, r)?),
        TABLE_FEATURES => Reply::TableFeatures(entries(r, |r| table::decode_features(version, r))?),
        TABLE_DESC => Reply::TableDesc(entries(r, table::decode_desc)?),
        QUEUE_DESC => Reply::QueueDesc(entries(r, port::decode_queue_desc)?),
        FLOW_MONITOR => {
            let update = |r: &mut Reader<'_>| monitor::decode_update(version, r);
            Reply::FlowMonitor(entries(r, |r| update(r).map(restored_update))?)
        }
        FLOW_COUNTS => Reply::FlowCounts(entries(r, flow::decode_counts)?),
        CONTROLLER_STATUS => Reply::ControllerStatus(entries(r, switch::decode_controller_status)?),
        BUNDLE_FEATURES => Reply::BundleFeatures(bundle::decode_features(r)?),
        PORT_DESC => Reply::PortDesc(entries(r, |r| port::decode_desc(version, r))?),
        _ => match vendor_stats(version, r) {
            Some(NX_GROUP) => Reply::Group(entries(r, group::decode_stats)?),
            Some(NX_GROUP_DESC) => {
                Reply::GroupDesc(entries(r, |r| group::decode_desc(version, r))?)
            }
            Some(NX_GROUP_FEATURES) => Reply::GroupFeatures(group::decode_features(r)?),
            Some(MONITOR) => {
                let update = |r: &mut Reader<'_>| monitor::decode_update_nx(version, r);
                Reply::FlowMonitor(entries(r, |r| update(r).map(restored_update))?)
            }
            Some(0) => Reply::NxFlow(entries(r, |r| flow::decode_nx_stats(r).map(restored))?),
            Some(_) => Reply::NxAggregate(flow::decode_aggregate(version, r)?),
            None => Reply::Experimenter(misc::decode_experimenter(version, r)?),
        },
    };
    Ok(MultipartReply { more, body })
}

/// A flow entry as it is told to others.
fn told(m: &FlowStats) -> Cow<'_, FlowStats> {
    match own_fields::told(&m.matching, &m.instructions) {
        Some((matching, instructions)) => {
            Cow::Owned(FlowStats { matching, instructions, ..m.clone() })
        }
        None => Cow::Borrowed(m),
    }
}

/// The same of a change of one.
fn told_update(m: &FlowUpdate) -> Cow<'_, FlowUpdate> {
    let FlowUpdate::Full(full) = m else { return Cow::Borrowed(m) };
    match own_fields::told(&full.matching, &full.instructions) {
        Some((matching, instructions)) => {
            Cow::Owned(FlowUpdate::Full(FullUpdate { matching, instructions, ..full.clone() }))
        }
        None => Cow::Borrowed(m),
    }
}

/// A flow entry as it is.
fn restored(mut m: FlowStats) -> FlowStats {
    own_fields::restore(&mut m.matching, &mut m.instructions);
    m
}

/// The same of a change of one.
fn restored_update(mut update: FlowUpdate) -> FlowUpdate {
    if let FlowUpdate::Full(m) = &mut update {
        own_fields::restore(&mut m.matching, &mut m.instructions);
    }
    update
}

/// Writes a reply as one message or more.
pub(super) fn encode_reply(
    buf: &mut Vec<u8>,
    version: Version,
    message_number: u8,
    xid: Xid,
    reply: &MultipartReply,
) -> Encode {
    let number = match reply.body {
        Reply::FlowMonitor(_) if monitors_by_vendor(version) => EXPERIMENTER,
        Reply::Desc(_) => DESC,
        Reply::Flow(_) => FLOW,
        Reply::Aggregate(_) => AGGREGATE,
        Reply::NxFlow(_) | Reply::NxAggregate(_) if version == Version::V10 => EXPERIMENTER,
        Reply::NxFlow(_) => FLOW,
        Reply::NxAggregate(_) => AGGREGATE,
        Reply::Table(_) => TABLE,
        Reply::PortStats(_) => PORT_STATS,
        Reply::Queue(_) => QUEUE,
        Reply::Group(_) => GROUP,
        Reply::GroupDesc(_) => GROUP_DESC,
        Reply::GroupFeatures(_) => GROUP_FEATURES,
        Reply::Meter(_) => METER,
        Reply::MeterConfig(_) => METER_CONFIG,
        Reply::MeterFeatures(_) => METER_FEATURES,
        Reply::TableFeatures(_) => TABLE_FEATURES,
        Reply::PortDesc(_) => PORT_DESC,
        Reply::TableDesc(_) => TABLE_DESC,
        Reply::QueueDesc(_) => QUEUE_DESC,
        Reply::FlowMonitor(_) => FLOW_MONITOR,
        Reply::FlowCounts(_) => FLOW_COUNTS,
        Reply::ControllerStatus(_) => CONTROLLER_STATUS,
        Reply::BundleFeatures(_) => BUNDLE_FEATURES,
        Reply::Experimenter(_) => EXPERIMENTER,
    };
    let start = buf.len();
    put_header(buf, version, message_number, xid);
    let of_groups = nx_group(version, number);
    put_head(buf, version, of_groups.map_or(number, |_| EXPERIMENTER), reply.more)?;
    of_groups.iter().for_each(|subtype| put_nicira(buf, *subtype));
    if number == EXPERIMENTER {
        match &reply.body {
            Reply::NxFlow(_) => put_nicira(buf, 0),
            Reply::NxAggregate(_) => put_nicira(buf, 1),
            Reply::FlowMonitor(_) => put_monitor(buf, version),
            _ => {}
        }
    }
    let mut parts = Parts { start, head_len: buf.len() - start };
    match &reply.body {
        Reply::Desc(m) => switch::encode_desc(buf, m),
        Reply::Flow(list) => {
            parts.put(buf, list, |buf, m| flow::encode_stats(buf, version, &told(m)))?;
        }
        Reply::Aggregate(m) => flow::encode_aggregate(buf, version, m),
        Reply::NxFlow(list) if version == Version::V10 => {
            parts.put(buf, list, |buf, m| flow::encode_nx_stats(buf, &told(m)))?;
        }
        Reply::NxFlow(list) => {
            parts.put(buf, list, |buf, m| flow::encode_stats(buf, version, &told(m)))?;
        }
        Reply::NxAggregate(m) => flow::encode_aggregate(buf, version, m),
        Reply::Table(list) => {
            parts.put_all(buf, list, |b, m| table::encode_stats(b, version, m))?
        }
        Reply::PortStats(list) => {
            parts.put_all(buf, list, |b, m| port::encode_stats(b, version, m))?;
        }
        Reply::Queue(list) => {
            parts.put_all(buf, list, |b, m| port::encode_queue_stats(b, version, m))?;
        }
        Reply::Group(list) => parts.put_all(buf, list, group::encode_stats)?,
        Reply::GroupDesc(list) => {
            parts.put(buf, list, |buf, m| group::encode_desc(buf, version, m))?;
        }
        Reply::GroupFeatures(m) => group::encode_features(buf, m),
        Reply::Meter(list) => parts.put_all(buf, list, meter::encode_stats)?,
        Reply::MeterConfig(list) => parts.put_all(buf, list, meter::encode_config)?,
        Reply::MeterFeatures(m) => meter::encode_features(buf, version, m),
        Reply::TableFeatures(list) => {
            parts.put_all(buf, list, |b, m| table::encode_features(b, version, m))?;
        }
        Reply::TableDesc(list) => parts.put_all(buf, list, table::encode_desc)?,
        Reply::QueueDesc(list) => parts.put_all(buf, list, port::encode_queue_desc)?,
        Reply::FlowMonitor(list) if number == EXPERIMENTER => {
            parts.put(buf, list, |buf, m| {
                monitor::encode_update_nx(buf, version, &told_update(m))
            })?;
        }
        Reply::FlowMonitor(list) => {
            parts.put(buf, list, |buf, m| monitor::encode_update(buf, version, &told_update(m)))?;
        }
        Reply::FlowCounts(list) => parts.put(buf, list, flow::encode_counts)?,
        Reply::ControllerStatus(list) => {
            parts.put_all(buf, list, switch::encode_controller_status)?;
        }
        Reply::BundleFeatures(m) => bundle::encode_features(buf, m),
        Reply::PortDesc(list) => {
            parts.put_all(buf, list, |b, m| port::encode_desc(b, version, m))?
        }
        Reply::Experimenter(m) => misc::encode_experimenter(buf, version, m),
    }
    finish_message(buf, parts.start)
}

/// A reply under way: cut where it grows too long.
struct Parts {
    /// Where the present message began.
    start: usize,
    /// Bytes of its header and of the multipart header.
    head_len: usize,
}

impl Parts {
    fn put<T>(
        &mut self,
        buf: &mut Vec<u8>,
        list: &[T],
        mut encode: impl FnMut(&mut Vec<u8>, &T) -> Encode,
    ) -> Encode {
        for entry in list {
            let entry_at = buf.len();
            encode(buf, entry)?;
            if buf.len() - self.start <= MESSAGE_LEN_MAX {
                continue;
            }
            let length = buf.len() - entry_at + self.head_len;
            if length > MESSAGE_LEN_MAX {
                return Err(EncodeError::TooLong { length });
            }
            // The entry begins a new message, whose head is a copy of this one's.
            let tail = buf.split_off(entry_at);
            buf.patch_length(self.start + 2, self.start);
            let head = self.start..self.start + self.head_len;
            let next = buf.len();
            buf.extend_from_within(head);
            // The flags come after header and type.
            let flags_at = self.start + HEADER_LEN + 2;
            buf[flags_at + 1] |= MORE as u8;
            buf.extend_from_slice(&tail);
            self.start = next;
        }
        Ok(())
    }

    fn put_all<T>(
        &mut self,
        buf: &mut Vec<u8>,
        list: &[T],
        encode: impl Fn(&mut Vec<u8>, &T),
    ) -> Encode {
        self.put(buf, list, |buf, entry| {
            encode(buf, entry);
            Ok(())
        })
    }
}
