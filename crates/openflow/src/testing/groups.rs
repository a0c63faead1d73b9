//! Random groups, each one that a version can say in full.

use super::Rng;
use super::arbitrary::{actions, age, port};
use super::parts::list;
use crate::field::FieldId;
use crate::group::{
    Bucket, BucketId, BucketStats, GroupCapabilities, GroupDesc, GroupFeatures, GroupMod,
    GroupModCommand, GroupStats, GroupType, Selection, SelectionMethod, names_buckets,
};
use crate::ids::GroupId;
use crate::version::Version;

pub(super) fn group_mod(rng: &mut Rng, version: Version) -> GroupMod {
    let commands = [
        GroupModCommand::Add,
        GroupModCommand::Modify,
        GroupModCommand::AddOrModify,
        GroupModCommand::Delete,
        GroupModCommand::InsertBucket,
        GroupModCommand::RemoveBucket,
    ];
    let group_type = group_type(rng);
    let command = rng.choose(&commands[..if names_buckets(version) { 6 } else { 4 }]);
    // Open vSwitch takes it where the group is made alone.
    let makes = commands[..3].contains(&command);
    GroupMod {
        command,
        group_type,
        selection: selection(rng, version, group_type).filter(|_| makes),
        group_id: GroupId(rng.u32()),
        command_bucket: match names_buckets(version) {
            true => BucketId(rng.u32()),
            false => BucketId::ALL,
        },
        buckets: buckets(rng, version),
    }
}

fn group_type(rng: &mut Rng) -> GroupType {
    rng.choose(&[GroupType::All, GroupType::Select, GroupType::Indirect, GroupType::FastFailover])
}

/// How a select group chooses, by fields whose names lie otherwise in 1.0, too.
fn selection(rng: &mut Rng, version: Version, group_type: GroupType) -> Option<Selection> {
    if group_type != GroupType::Select || !names_buckets(version) || rng.one_in(2) {
        return None;
    }
    if rng.one_in(3) {
        let param = u64::from(rng.u32()) | u64::from(rng.one_in(2)) << 32;
        return Some(Selection { method: SelectionMethod::DpHash, param, fields: Vec::new() });
    }
    let known =
        [FieldId::EthSrc, FieldId::Ipv4Dst, FieldId::Reg3, FieldId::TcpSrc, FieldId::IpProto];
    let chosen = rng.below(1 << known.len());
    let fields = known.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1);
    let fields = fields.map(|(_, id)| (*id, rng.u128() & id.all_bits())).collect();
    Some(Selection { method: SelectionMethod::Hash, param: rng.u64(), fields })
}

fn buckets(rng: &mut Rng, version: Version) -> Vec<Bucket> {
    let mut buckets = list(rng, |rng| bucket(rng, version));
    if !names_buckets(version) {
        buckets.iter_mut().enumerate().for_each(|(i, b)| b.id = BucketId(i as u32));
    }
    buckets
}

fn bucket(rng: &mut Rng, version: Version) -> Bucket {
    Bucket {
        id: BucketId(rng.u32() % (BucketId::MAX.0 + 1)),
        weight: rng.u16(),
        watch_port: port(rng, Version::V13),
        watch_group: GroupId(rng.u32()),
        actions: actions(rng, version),
    }
}

pub(super) fn group_desc(rng: &mut Rng, version: Version) -> GroupDesc {
    let group_type = group_type(rng);
    GroupDesc {
        selection: selection(rng, version, group_type),
        group_type,
        group_id: GroupId(rng.u32()),
        buckets: buckets(rng, version),
    }
}

pub(super) fn group_stats(rng: &mut Rng) -> GroupStats {
    GroupStats {
        group_id: GroupId(rng.u32()),
        ref_count: rng.u32(),
        packet_count: rng.u64(),
        byte_count: rng.u64(),
        age: age(rng),
        buckets: list(rng, |rng| BucketStats { packet_count: rng.u64(), byte_count: rng.u64() }),
    }
}

pub(super) fn group_features(rng: &mut Rng) -> GroupFeatures {
    GroupFeatures {
        types: rng.u32(),
        capabilities: GroupCapabilities::from_bits_retain(rng.u32()),
        max_groups: [rng.u32(), rng.u32(), rng.u32(), rng.u32()],
        actions: [rng.u32(), rng.u32(), rng.u32(), rng.u32()],
    }
}
