//! Group-mod, and groups in multipart messages. 1.3 only.

use super::Encode;
use super::Loss;
use super::action::{decode_actions, encode_actions};
use super::reader::{Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;
use crate::group::{
    Bucket, BucketStats, GroupCapabilities, GroupDesc, GroupFeatures, GroupMod, GroupModCommand,
    GroupStats, GroupType,
};
use crate::ids::{Age, GroupId, PortNo};
use crate::version::Version;

const TYPES: [GroupType; 4] =
    [GroupType::All, GroupType::Select, GroupType::Indirect, GroupType::FastFailover];

fn type_from_wire(r: &Reader<'_>, number: u8) -> Result<GroupType> {
    TYPES
        .get(usize::from(number))
        .copied()
        .ok_or_else(|| r.bad_value(ErrorCode::GmfcBadType, "group type", number, "0 to 3"))
}

fn type_to_wire(group_type: GroupType) -> u8 {
    match group_type {
        GroupType::All => 0,
        GroupType::Select => 1,
        GroupType::Indirect => 2,
        GroupType::FastFailover => 3,
    }
}

pub(super) fn decode_mod(r: &mut Reader<'_>) -> Result<GroupMod> {
    let number = r.u16()?;
    let command = match number {
        0 => GroupModCommand::Add,
        1 => GroupModCommand::Modify,
        2 => GroupModCommand::Delete,
        _ => {
            let code = ErrorCode::GmfcBadCommand;
            return Err(r.bad_value(code, "group-mod command", number, "0 to 2"));
        }
    };
    let number = r.u8()?;
    let group_type = type_from_wire(r, number)?;
    r.skip(1)?;
    let group_id = GroupId(r.u32()?);
    let buckets = decode_buckets(r)?;
    Ok(GroupMod { command, group_type, group_id, buckets })
}

fn decode_buckets(r: &mut Reader<'_>) -> Result<Vec<Bucket>> {
    let mut buckets = Vec::new();
    while !r.is_empty() {
        let mut r = r.element(0, 16, "bucket", ErrorCode::GmfcBadBucket)?;
        r.skip(2)?;
        let weight = r.u16()?;
        let watch_port = PortNo(r.u32()?);
        let watch_group = GroupId(r.u32()?);
        r.skip(4)?;
        let actions = decode_actions(Version::V13, &mut r)?;
        buckets.push(Bucket { weight, watch_port, watch_group, actions });
    }
    Ok(buckets)
}

fn encode_buckets(buf: &mut Vec<u8>, buckets: &[Bucket], loss: Loss) -> Encode {
    for bucket in buckets {
        let start = buf.len();
        buf.put_u16(0);
        buf.put_u16(bucket.weight);
        buf.put_u32(bucket.watch_port.0);
        buf.put_u32(bucket.watch_group.0);
        buf.pad(4);
        encode_actions(buf, Version::V13, &bucket.actions, None, loss)?;
        buf.patch_length(start, start);
    }
    Ok(())
}

pub(super) fn encode_mod(buf: &mut Vec<u8>, m: &GroupMod) -> Encode {
    buf.put_u16(match m.command {
        GroupModCommand::Add => 0,
        GroupModCommand::Modify => 1,
        GroupModCommand::Delete => 2,
    });
    buf.put_u8(type_to_wire(m.group_type));
    buf.pad(1);
    buf.put_u32(m.group_id.0);
    encode_buckets(buf, &m.buckets, Loss::Refuse)
}

pub(super) fn decode_desc(list: &mut Reader<'_>) -> Result<GroupDesc> {
    let mut r = list.element(0, 8, "group description", ErrorCode::BrcBadLen)?;
    r.skip(2)?;
    let number = r.u8()?;
    let group_type = type_from_wire(&r, number)?;
    r.skip(1)?;
    let group_id = GroupId(r.u32()?);
    let buckets = decode_buckets(&mut r)?;
    Ok(GroupDesc { group_type, group_id, buckets })
}

pub(super) fn encode_desc(buf: &mut Vec<u8>, m: &GroupDesc) -> Encode {
    let start = buf.len();
    buf.put_u16(0);
    buf.put_u8(type_to_wire(m.group_type));
    buf.pad(1);
    buf.put_u32(m.group_id.0);
    encode_buckets(buf, &m.buckets, Loss::LeaveOut)?;
    buf.patch_length(start, start);
    Ok(())
}

pub(super) fn decode_stats(list: &mut Reader<'_>) -> Result<GroupStats> {
    let mut r = list.element(0, 40, "group statistics", ErrorCode::BrcBadLen)?;
    r.skip(4)?;
    let group_id = GroupId(r.u32()?);
    let ref_count = r.u32()?;
    r.skip(4)?;
    let packet_count = r.u64()?;
    let byte_count = r.u64()?;
    let age = Age { sec: r.u32()?, nsec: r.u32()? };
    let mut buckets = Vec::with_capacity(r.left() / 16);
    while !r.is_empty() {
        buckets.push(BucketStats { packet_count: r.u64()?, byte_count: r.u64()? });
    }
    Ok(GroupStats { group_id, ref_count, packet_count, byte_count, age, buckets })
}

pub(super) fn encode_stats(buf: &mut Vec<u8>, m: &GroupStats) {
    let start = buf.len();
    buf.put_u16(0);
    buf.pad(2);
    buf.put_u32(m.group_id.0);
    buf.put_u32(m.ref_count);
    buf.pad(4);
    buf.put_u64(m.packet_count);
    buf.put_u64(m.byte_count);
    buf.put_age(m.age);
    for bucket in &m.buckets {
        buf.put_u64(bucket.packet_count);
        buf.put_u64(bucket.byte_count);
    }
    buf.patch_length(start, start);
}

fn four(r: &mut Reader<'_>) -> Result<[u32; 4]> {
    Ok([r.u32()?, r.u32()?, r.u32()?, r.u32()?])
}

pub(super) fn decode_features(r: &mut Reader<'_>) -> Result<GroupFeatures> {
    Ok(GroupFeatures {
        types: r.u32()?,
        capabilities: GroupCapabilities::from_bits_retain(r.u32()?),
        max_groups: four(r)?,
        actions: four(r)?,
    })
}

pub(super) fn encode_features(buf: &mut Vec<u8>, m: &GroupFeatures) {
    buf.put_u32(m.types);
    buf.put_u32(m.capabilities.bits());
    m.max_groups.iter().chain(&m.actions).for_each(|v| buf.put_u32(*v));
}
