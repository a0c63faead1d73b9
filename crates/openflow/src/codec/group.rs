//! Group-mod, and groups in multipart messages (1.5.1 §7.3.4.3; 1.3.5 §7.3.4.2).
//!
//! 1.0 has none of its own; Nicira's messages say there what 1.5's say, with 1.0's actions and NXM's headers.

use super::action::{decode_actions, encode_actions};
use super::loss::{Encode, Loss};
use super::reader::{Reader, Result};
use super::writer::Put;
use super::{nxm, oxm, property};
use crate::error::ErrorCode;
use crate::field::{FieldId, OxmHeader};
use crate::group::{
    Bucket, BucketId, BucketStats, GroupCapabilities, GroupDesc, GroupFeatures, GroupMod,
    GroupModCommand, GroupStats, GroupType, Selection, SelectionMethod, names_buckets,
};
use crate::ids::NICIRA;
use crate::ids::{Age, GroupId, PortNo};
use crate::version::Version;

/// Open vSwitch's command of `--may-create`.
const ADD_OR_MODIFY: u16 = 0x8000;

/// `NXT_GROUP_MOD`: 1.0's group-mod, which is Nicira's.
pub(super) const NX_GROUP_MOD: u32 = 31;

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

pub(super) fn decode_mod(version: Version, r: &mut Reader<'_>) -> Result<GroupMod> {
    let number = r.u16()?;
    let command = match number {
        0 => GroupModCommand::Add,
        1 => GroupModCommand::Modify,
        2 => GroupModCommand::Delete,
        3 if names_buckets(version) => GroupModCommand::InsertBucket,
        5 if names_buckets(version) => GroupModCommand::RemoveBucket,
        ADD_OR_MODIFY => GroupModCommand::AddOrModify,
        _ => {
            let code = ErrorCode::GmfcBadCommand;
            let right = if names_buckets(version) { "0 to 3 or 5" } else { "0 to 2" };
            return Err(r.bad_value(code, "group-mod command", number, right));
        }
    };
    let number = r.u8()?;
    let group_type = type_from_wire(r, number)?;
    r.skip(1)?;
    let group_id = GroupId(r.u32()?);
    let (command_bucket, selection, buckets) = if names_buckets(version) {
        let length = usize::from(r.u16()?);
        r.skip(2)?;
        let command_bucket = BucketId(r.u32()?);
        let mut list = r.sub(length, "bucket list", ErrorCode::GmfcBadBucket)?;
        let buckets = decode_named_buckets(version, &mut list, group_type)?;
        (command_bucket, group_properties(version, r, group_type)?, buckets)
    } else {
        (BucketId::ALL, None, decode_buckets(version, r)?)
    };
    Ok(GroupMod { command, group_type, group_id, command_bucket, selection, buckets })
}

/// Netronome, who defined how select groups choose, and the type of that property.
const NETRONOME: u32 = 0x154d;
const SELECTION_METHOD: u32 = 1;
/// Bytes of a method's name.
const METHOD_BYTES: usize = 16;

/// Groups have no properties but one of an experimenter's.
fn group_properties(
    version: Version,
    r: &mut Reader<'_>,
    group_type: GroupType,
) -> Result<Option<Selection>> {
    let mut selection = None;
    while let Some((number, mut property)) = property::next(r, "group property")? {
        if number != property::EXPERIMENTER {
            return Err(property::unknown(&property, "group property", number));
        }
        let mut head = property;
        if head.u32()? != NETRONOME {
            return Err(property::experimenter(&mut property)?);
        }
        property.skip(4)?;
        let kind = property.u32()?;
        let bad = |r: &Reader<'_>, what, got: u128, right| {
            r.bad_value(ErrorCode::BpcBadValue, what, got, right)
        };
        if kind != SELECTION_METHOD {
            let code = ErrorCode::BpcBadExpType;
            return Err(property.bad_value(code, "Netronome's property", kind, "1"));
        }
        if selection.is_some() {
            let (code, right) = (ErrorCode::BpcDupType, "one selection_method");
            return Err(property.bad_value(code, "Netronome's property", kind, right));
        }
        if group_type != GroupType::Select {
            let got = type_to_wire(group_type).into();
            return Err(bad(&property, "type of a group with selection_method", got, "1 (select)"));
        }
        selection = Some(decode_selection(version, &mut property)?);
    }
    Ok(selection)
}

fn decode_selection(version: Version, r: &mut Reader<'_>) -> Result<Selection> {
    r.skip(4)?;
    let name = r.number(METHOD_BYTES)?;
    let known = SelectionMethod::ALL.iter().find(|(_, n)| method_number(n) == name);
    let bad =
        |r: &Reader<'_>, what, got, right| r.bad_value(ErrorCode::BpcBadValue, what, got, right);
    let Some((method, _)) = known.copied() else {
        return Err(bad(r, "selection_method", name, "hash or dp_hash, in ASCII"));
    };
    let param = r.u64()?;
    if method == SelectionMethod::DpHash && param >> 32 >= SelectionMethod::DP_HASHES {
        return Err(bad(
            r,
            "selection_method_param's high half",
            u128::from(param >> 32),
            "0 or 1",
        ));
    }
    let mut fields: Vec<(FieldId, u128)> = Vec::new();
    while !r.is_empty() {
        if method == SelectionMethod::DpHash {
            return Err(bad(r, "fields' bytes of selection_method dp_hash", r.left() as u128, "0"));
        }
        let header = oxm::on_the_wire(r.u32()?);
        let known = selected(version, header).filter(|_| !header.has_mask());
        let Some((id, _)) = known.filter(|(_, bytes)| header.length() == *bytes) else {
            let right = "a known field's header without the mask bit";
            return Err(bad(r, "OXM header in selection_method's fields", header.0.into(), right));
        };
        let mut mask = r.number(header.length())?;
        let whole = mask == u128::MAX >> (128 - 8 * header.length() as u32);
        if whole {
            mask = id.all_bits();
        }
        if mask & !id.all_bits() != 0 {
            return Err(bad(r, "mask of a field of selection_method", mask, "bits of the field"));
        }
        if fields.iter().any(|(field, _)| *field == id) {
            return Err(bad(
                r,
                "OXM header in selection_method's fields",
                header.0.into(),
                "each once",
            ));
        }
        fields.push((id, mask));
    }
    Ok(Selection { method, param, fields })
}

/// The field of a header in the version, and the bytes of its mask. 1.0 has NXM's headers.
fn selected(version: Version, header: OxmHeader) -> Option<(FieldId, usize)> {
    if version == Version::V10 {
        return nxm::field_of(header);
    }
    let id = header.field().filter(|id| id.info().since <= version)?;
    Some((id, usize::from(id.info().bytes)))
}

/// A method's name as a number of its bytes.
fn method_number(name: &str) -> u128 {
    let mut bytes = [0; METHOD_BYTES];
    bytes.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte);
    u128::from_be_bytes(bytes)
}

fn encode_selection(buf: &mut Vec<u8>, version: Version, selection: &Selection) {
    let at = property::begin(buf, property::EXPERIMENTER);
    buf.put_u32(NETRONOME);
    buf.put_u32(SELECTION_METHOD);
    buf.pad(4);
    buf.extend_from_slice(&method_number(selection.method.name()).to_be_bytes());
    buf.put_u64(selection.param);
    for (field, mask) in &selection.fields {
        let header = match version {
            Version::V10 => nxm::header_of(*field, false).0,
            _ => OxmHeader::in_version(*field, false, version),
        };
        buf.put_u32(header.0);
        buf.put_number(*mask, header.length());
    }
    property::end(buf, at);
}

fn decode_buckets(version: Version, r: &mut Reader<'_>) -> Result<Vec<Bucket>> {
    let mut buckets: Vec<Bucket> = Vec::new();
    while !r.is_empty() {
        let mut r = r.element(0, 16, "bucket", ErrorCode::GmfcBadBucket)?;
        r.skip(2)?;
        let weight = r.u16()?;
        let watch_port = PortNo(r.u32()?);
        let watch_group = GroupId(r.u32()?);
        r.skip(4)?;
        let actions = decode_actions(version, &mut r)?;
        let id = BucketId(buckets.len() as u32);
        buckets.push(Bucket { id, weight, watch_port, watch_group, actions });
    }
    Ok(buckets)
}

/// Reads buckets with numbers, whose weight and watches are properties (1.5.1 §7.3.4.3). Without a weight, a select
/// group's bucket has 1.
fn decode_named_buckets(
    version: Version,
    r: &mut Reader<'_>,
    group_type: GroupType,
) -> Result<Vec<Bucket>> {
    let mut buckets = Vec::new();
    while !r.is_empty() {
        let mut r = r.element(0, 8, "bucket", ErrorCode::GmfcBadBucket)?;
        r.skip(2)?;
        let length = usize::from(r.u16()?);
        let mut bucket = Bucket {
            id: BucketId(r.u32()?),
            weight: u16::from(group_type == GroupType::Select),
            watch_port: PortNo::ANY,
            watch_group: GroupId::ANY,
            actions: Vec::new(),
        };
        if bucket.id > BucketId::MAX {
            return Err(r.bad_value(
                ErrorCode::GmfcBadBucket,
                "bucket id",
                bucket.id.0,
                "0 to 0xffffff00",
            ));
        }
        let mut actions = r.sub(length, "bucket's action list", ErrorCode::GmfcBadBucket)?;
        bucket.actions = decode_actions(version, &mut actions)?;
        while let Some((number, mut property)) = property::next(&mut r, "bucket property")? {
            match number {
                0 => {
                    bucket.weight = property.u16()?;
                    property.skip(2)?;
                }
                1 => bucket.watch_port = PortNo(property.u32()?),
                2 => bucket.watch_group = GroupId(property.u32()?),
                property::EXPERIMENTER => return Err(property::experimenter(&mut property)?),
                _ => return Err(property::unknown(&property, "bucket property", number)),
            }
            property.finish()?;
        }
        buckets.push(bucket);
    }
    Ok(buckets)
}

fn encode_buckets(
    buf: &mut Vec<u8>,
    version: Version,
    group_type: GroupType,
    buckets: &[Bucket],
    loss: Loss,
) -> Encode {
    for bucket in buckets {
        let start = buf.len();
        buf.put_u16(0);
        if names_buckets(version) {
            buf.put_u16(0);
            buf.put_u32(bucket.id.0);
            let actions = buf.len();
            encode_actions(buf, version, &bucket.actions, None, loss)?;
            buf.patch_length(start + 2, actions);
            if bucket.weight != 0 || group_type == GroupType::Select {
                let at = property::begin(buf, 0);
                buf.put_u16(bucket.weight);
                buf.pad(2);
                property::end(buf, at);
            }
            for (number, watch, none) in
                [(1, bucket.watch_port.0, PortNo::ANY.0), (2, bucket.watch_group.0, GroupId::ANY.0)]
            {
                if watch != none {
                    let at = property::begin(buf, number);
                    buf.put_u32(watch);
                    property::end(buf, at);
                }
            }
        } else {
            buf.put_u16(bucket.weight);
            buf.put_u32(bucket.watch_port.0);
            buf.put_u32(bucket.watch_group.0);
            buf.pad(4);
            encode_actions(buf, version, &bucket.actions, None, loss)?;
        }
        buf.patch_length(start, start);
    }
    Ok(())
}

pub(super) fn encode_mod(buf: &mut Vec<u8>, version: Version, m: &GroupMod) -> Encode {
    if version == Version::V10 {
        buf.put_u32(NICIRA);
        buf.put_u32(NX_GROUP_MOD);
    }
    buf.put_u16(match m.command {
        GroupModCommand::Add => 0,
        GroupModCommand::Modify => 1,
        GroupModCommand::Delete => 2,
        GroupModCommand::AddOrModify => ADD_OR_MODIFY,
        _ if !names_buckets(version) => {
            return Loss::Refuse.leave_out(version, "insert or removal of buckets");
        }
        GroupModCommand::InsertBucket => 3,
        GroupModCommand::RemoveBucket => 5,
    });
    buf.put_u8(type_to_wire(m.group_type));
    buf.pad(1);
    buf.put_u32(m.group_id.0);
    if !names_buckets(version) {
        if m.selection.is_some() {
            return Loss::Refuse.leave_out(version, "selection_method");
        }
        return encode_buckets(buf, version, m.group_type, &m.buckets, Loss::Refuse);
    }
    let length_at = buf.len();
    buf.put_u16(0);
    buf.pad(2);
    buf.put_u32(m.command_bucket.0);
    let start = buf.len();
    encode_buckets(buf, version, m.group_type, &m.buckets, Loss::Refuse)?;
    buf.patch_length(length_at, start);
    m.selection.iter().for_each(|selection| encode_selection(buf, version, selection));
    Ok(())
}

pub(super) fn decode_desc(version: Version, list: &mut Reader<'_>) -> Result<GroupDesc> {
    let mut r = list.element(0, 8, "group description", ErrorCode::BrcBadLen)?;
    r.skip(2)?;
    let number = r.u8()?;
    let group_type = type_from_wire(&r, number)?;
    r.skip(1)?;
    let group_id = GroupId(r.u32()?);
    let (selection, buckets) = if names_buckets(version) {
        let length = usize::from(r.u16()?);
        r.skip(6)?;
        let mut list = r.sub(length, "bucket list", ErrorCode::BrcBadLen)?;
        let buckets = decode_named_buckets(version, &mut list, group_type)?;
        (group_properties(version, &mut r, group_type)?, buckets)
    } else {
        (None, decode_buckets(version, &mut r)?)
    };
    Ok(GroupDesc { group_type, group_id, selection, buckets })
}

pub(super) fn encode_desc(buf: &mut Vec<u8>, version: Version, m: &GroupDesc) -> Encode {
    let start = buf.len();
    buf.put_u16(0);
    buf.put_u8(type_to_wire(m.group_type));
    buf.pad(1);
    buf.put_u32(m.group_id.0);
    if names_buckets(version) {
        let length_at = buf.len();
        buf.put_u16(0);
        buf.pad(6);
        let list = buf.len();
        encode_buckets(buf, version, m.group_type, &m.buckets, Loss::LeaveOut)?;
        buf.patch_length(length_at, list);
        m.selection.iter().for_each(|selection| encode_selection(buf, version, selection));
    } else {
        encode_buckets(buf, version, m.group_type, &m.buckets, Loss::LeaveOut)?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::codec::{decode, encode};
    use crate::error::{ErrorKind, ErrorMessage};
    use crate::ids::Xid;
    use crate::message::Message;
    use crate::multipart::{
        MultipartReply, MultipartReplyBody, MultipartRequest, MultipartRequestBody,
    };

    fn bytes(text: &str) -> Vec<u8> {
        let digits: Vec<char> = text.chars().filter(char::is_ascii_hexdigit).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16);
        digits.chunks(2).map(|pair| byte(pair).expect("two digits")).collect()
    }

    /// Reads a message of 1.0, and writes it as it was.
    fn read(text: &str) -> Message {
        let bytes = bytes(text);
        let (xid, message) = decode(Version::V10, &bytes).expect("it is read");
        assert_eq!(encode(Version::V10, xid, &message).expect("it is written"), bytes);
        message
    }

    /// As `ovs-ofctl` 3.1 sends them over 1.0.
    #[test]
    fn group_mods_of_1_0_are_nicira_s() {
        let select = read(
            "010400a800000008 000023200000001f 0000 01 00 00000001 0058 0000 ffffffff
             0020 0008 00000005 0000000800020000 0000000800030000 0001000800000002
             0038 0028 00000000 ffff0018000023200007001f000100040000000000000007
             ffff001000002320000efff803000000 0000000800010000
             ffff00300000154d 0000000100000000 68617368000000000000000000000000
             0000000000000000 00000e04ffffffff",
        );
        let Message::GroupMod(m) = select else { panic!("{select:?}") };
        assert_eq!((m.command, m.group_type), (GroupModCommand::Add, GroupType::Select));
        let selection = m.selection.expect("it says how it chooses");
        assert_eq!(selection.fields, [(FieldId::Ipv4Src, 0xffff_ffff)]);
        let [first, second] = &m.buckets[..] else { panic!("{:?}", m.buckets) };
        assert_eq!((first.id, first.weight, first.watch_port), (BucketId(5), 3, PortNo(2)));
        assert!(matches!(second.actions[..], [Action::SetField(_), Action::Resubmit { .. }]));
        let insert = read(
            "0104003000000006 000023200000001f 0003 00 00 00000002 0010 0000 fffffffe
             0010 0008 00000009 0000000800020000",
        );
        let Message::GroupMod(m) = insert else { panic!("{insert:?}") };
        assert_eq!((m.command, m.command_bucket), (GroupModCommand::InsertBucket, BucketId::LAST));
        let remove =
            read("0104002000000006 000023200000001f 0005 00 00 00000002 0000 0000 00000009");
        let Message::GroupMod(m) = remove else { panic!("{remove:?}") };
        assert_eq!((m.command, m.command_bucket), (GroupModCommand::RemoveBucket, BucketId(9)));
        let create = read(
            "0104003000000006 000023200000001f 8000 00 00 00000016 0010 0000 ffffffff
             0010 0008 00000000 0000000800010000",
        );
        assert!(
            matches!(create, Message::GroupMod(m) if m.command == GroupModCommand::AddOrModify)
        );
    }

    #[test]
    fn requests_and_replies_about_groups_in_1_0_are_nicira_s() {
        let asked = |text: &str| match read(text) {
            Message::MultipartRequest(MultipartRequest { body, .. }) => body,
            other => panic!("{other:?}"),
        };
        let told = |text: &str| match read(text) {
            Message::MultipartReply(MultipartReply { body, .. }) => body,
            other => panic!("{other:?}"),
        };
        let head = "0110002000000002 ffff0000 00002320";
        let body = asked(&format!("{head} 00000008 00000000 00000002 00000000"));
        assert_eq!(body, MultipartRequestBody::GroupDesc(GroupId(2)));
        let body = asked(&format!("{head} 00000007 00000000 fffffffc 00000000"));
        assert_eq!(body, MultipartRequestBody::Group(GroupId::ALL));
        let body = asked("0110001800000002 ffff0000 00002320 00000009 00000000");
        assert_eq!(body, MultipartRequestBody::GroupFeatures);
        let body = told(
            "0111005800000002 ffff0000 00002320 00000008 00000000
             0040 00 00 00000002 0030 000000000000
             0020 0018 00000000 0005001000112233 4455000000000000 0000000800010000
             0010 0008 00000001 0000000800030000",
        );
        let MultipartReplyBody::GroupDesc(list) = body else { panic!("{body:?}") };
        assert_eq!(list[0].buckets[1].actions, [Action::Output { port: PortNo(3), max_len: 0 }]);
        let body = told(
            "0111004000000002 ffff0000 00002320 00000009 00000000
             0000000f 00000007 ffffff00ffffff00ffffff00ffffff00 00000fff00000fff00000fff00000fff",
        );
        assert!(matches!(body, MultipartReplyBody::GroupFeatures(f) if f.types == 0xf));
        let body = told(
            "0111006000000006 ffff0000 00002320 00000007 00000000
             0048 0000 00000001 00000001 00000000 0000000000000009 0000000000000123
             00000000 05f5e100 0000000000000009 0000000000000123 0000000000000000 0000000000000000",
        );
        let MultipartReplyBody::Group(list) = body else { panic!("{body:?}") };
        assert_eq!((list[0].ref_count, list[0].buckets.len()), (1, 2));
    }

    #[test]
    fn errors_about_groups_in_1_0_are_nicira_s() {
        for (code, pair) in [
            (ErrorCode::GmfcGroupExists, [0, 6, 0, 0]),
            (ErrorCode::GmfcUnknownBucket, [0, 6, 0, 15]),
            (ErrorCode::BacBadOutGroup, [0, 2, 0, 9]),
            (ErrorCode::BpcBadValue, [0, 13, 0, 4]),
        ] {
            let error = ErrorMessage { kind: ErrorKind::Code(code), data: vec![1, 2] };
            let message = Message::Error(error);
            let bytes = encode(Version::V10, Xid(6), &message).expect("it is written");
            assert_eq!(bytes[8..12], [0xb0, 0xc2, 0, 0], "{code}");
            assert_eq!((&bytes[12..16], &bytes[16..20]), (&[0, 0, 0x23, 0x20][..], &pair[..]));
            assert_eq!(decode(Version::V10, &bytes).expect("it is read").1, message, "{code}");
        }
        // Another's, or one that is not known, stays what it is.
        for other in ["b0c2 0000 00001234 0006 0000", "b0c2 0000 00002320 0063 0000", "b0c2 0000"] {
            let body = bytes(other);
            let head = [1, 1, 0, 8 + body.len() as u8, 0, 0, 0, 1];
            let read = decode(Version::V10, &[&head[..], &body].concat()).expect("it is read");
            let unknown = ErrorKind::Unknown { error_type: 0xb0c2, code: 0 };
            assert!(matches!(read.1, Message::Error(error) if error.kind == unknown), "{other}");
        }
    }

    #[test]
    fn fields_of_a_selection_in_1_0_have_nxm_s_headers_and_lengths() {
        let port = Selection {
            method: SelectionMethod::Hash,
            param: 1,
            fields: vec![(FieldId::Ipv6Src, u128::MAX), (FieldId::TcpDst, 0xff00)],
        };
        let m = GroupMod {
            command: GroupModCommand::Add,
            group_type: GroupType::Select,
            group_id: GroupId(3),
            command_bucket: BucketId::ALL,
            selection: Some(port),
            buckets: Vec::new(),
        };
        let message = Message::GroupMod(m);
        let bytes = encode(Version::V10, Xid(1), &message).expect("it is written");
        assert!(bytes.windows(4).any(|part| part == [0, 1, 0x26, 16]), "NXM_NX_IPV6_SRC");
        assert!(bytes.windows(6).any(|part| part == [0, 0, 0x14, 2, 0xff, 0]), "NXM_OF_TCP_DST");
        assert_eq!(decode(Version::V10, &bytes).expect("it is read").1, message);
    }
}
