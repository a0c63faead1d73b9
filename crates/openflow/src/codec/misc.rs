//! Hello, error, experimenter, and packets in and out.

use super::action::{decode_actions, encode_actions};
use super::buffer::{buffer_from_wire, buffer_to_wire};
use super::ct_flush;
use super::loss::{Encode, EncodeError, Loss};
use super::oxm::{Unknown, decode_match, encode_match};
use super::reader::{Reader, Result};
use super::tlv_table;
use super::writer::Put;
use crate::error::{ErrorCode, ErrorKind, ErrorMessage};
use crate::field::FieldId;
use crate::flow_match::Match;
use crate::ids::NICIRA;
use crate::ids::{BufferId, PortNo, TableId};
use crate::message::{Experimenter, Hello, Message, Nicira};
use crate::packet::{PacketIn, PacketInReason, PacketOut};
use crate::version::{Version, VersionSet};

const HELLO_VERSION_BITMAP: u16 = 1;
const ERROR_EXPERIMENTER: u16 = 0xffff;
/// `NXET_VENDOR`: 1.0's errors of vendors, as Nicira writes them. The vendor's pair follows the vendor's id.
const ERROR_VENDOR: u16 = 0xb0c2;

/// Reads a hello. Elements that are not known or not well-formed say nothing: a hello must work
/// between any two versions.
pub(super) fn decode_hello(r: &mut Reader<'_>) -> Hello {
    let mut elements = Reader::new(r.rest(), 0, "hello", ErrorCode::BrcBadLen);
    let mut hello = Hello::default();
    while let Ok(mut element) = elements.element(2, 4, "hello element", ErrorCode::BrcBadLen) {
        let padding = element.left().next_multiple_of(8) - element.left();
        if element.u16() == Ok(HELLO_VERSION_BITMAP)
            && element.skip(2).is_ok()
            && let Ok(bits) = element.u32()
        {
            hello.versions = Some(VersionSet(bits));
        }
        if elements.skip(padding).is_err() {
            break;
        }
    }
    hello
}

pub(super) fn encode_hello(buf: &mut Vec<u8>, hello: &Hello) {
    if let Some(versions) = hello.versions {
        buf.put_u16(HELLO_VERSION_BITMAP);
        buf.put_u16(8);
        buf.put_u32(versions.0);
    }
}

pub(super) fn decode_error(version: Version, r: &mut Reader<'_>) -> Result<ErrorMessage> {
    let (error_type, code) = (r.u16()?, r.u16()?);
    let kind = if error_type == ERROR_EXPERIMENTER && version >= Version::V13 {
        let experimenter = r.u32()?;
        let known = match experimenter {
            ErrorCode::ONF if version == Version::V13 => ErrorCode::from_onf_v13(code),
            NICIRA => ErrorCode::from_nicira(code),
            _ => None,
        };
        match known {
            Some(code) => ErrorKind::Code(code),
            None => ErrorKind::Experimenter { exp_type: code, experimenter },
        }
    } else if let Some(code) = decode_error_nx(version, (error_type, code), r) {
        ErrorKind::Code(code)
    } else {
        match ErrorCode::from_wire(version, error_type, code) {
            Some(code) => ErrorKind::Code(code),
            None => ErrorKind::Unknown { error_type, code },
        }
    };
    Ok(ErrorMessage { kind, data: r.rest().to_vec() })
}

/// One of Nicira's errors of 1.0, if it is known.
fn decode_error_nx(version: Version, numbers: (u16, u16), r: &mut Reader<'_>) -> Option<ErrorCode> {
    let mut ahead = *r;
    if version != Version::V10 || numbers != (ERROR_VENDOR, 0) || ahead.u32().ok()? != NICIRA {
        return None;
    }
    let code = ErrorCode::from_nicira_v10(ahead.u16().ok()?, ahead.u16().ok()?)?;
    *r = ahead;
    Some(code)
}

pub(super) fn encode_error(buf: &mut Vec<u8>, version: Version, error: &ErrorMessage) -> Encode {
    match error.kind {
        ErrorKind::Code(code) if version == Version::V13 && code.onf_v13().is_some() => {
            buf.put_u16(ERROR_EXPERIMENTER);
            buf.put_u16(code.onf_v13().unwrap_or(0));
            buf.put_u32(ErrorCode::ONF);
        }
        ErrorKind::Code(code) if version >= Version::V13 && code.nicira().is_some() => {
            buf.put_u16(ERROR_EXPERIMENTER);
            buf.put_u16(code.nicira().unwrap_or(0));
            buf.put_u32(NICIRA);
        }
        ErrorKind::Code(code) if version == Version::V10 && code.nicira_v10().is_some() => {
            let (error_type, code) = code.nicira_v10().unwrap_or_default();
            buf.put_u16(ERROR_VENDOR);
            buf.put_u16(0);
            buf.put_u32(NICIRA);
            buf.put_u16(error_type);
            buf.put_u16(code);
        }
        ErrorKind::Code(code) => {
            let (error_type, code) = code.wire(version);
            buf.put_u16(error_type);
            buf.put_u16(code);
        }
        ErrorKind::Unknown { error_type, code } => {
            buf.put_u16(error_type);
            buf.put_u16(code);
        }
        ErrorKind::Experimenter { experimenter, exp_type } => {
            if version < Version::V13 {
                let what = "experimenters' errors";
                return Err(EncodeError::NotInVersion { version, what });
            }
            buf.put_u16(ERROR_EXPERIMENTER);
            buf.put_u16(exp_type);
            buf.put_u32(experimenter);
        }
    }
    buf.extend_from_slice(&error.data);
    Ok(())
}

pub(super) fn decode_experimenter(version: Version, r: &mut Reader<'_>) -> Result<Experimenter> {
    let experimenter = r.u32()?;
    let exp_type = match version {
        Version::V10 => None,
        _ => Some(r.u32()?),
    };
    Ok(Experimenter { experimenter, exp_type, data: r.rest().to_vec() })
}

/// `NXT_ROLE_REQUEST`: how a controller of 1.0 asks for a role.
pub(super) const NX_ROLE_REQUEST: u32 = 10;
/// `NXT_ROLE_REPLY`.
pub(super) const NX_ROLE_REPLY: u32 = 11;

/// What Nicira's message sets, if it is one that is known.
pub(super) fn nicira_setting(e: &Experimenter) -> Result<Option<Message>> {
    let (Some(exp_type), NICIRA) = (e.exp_type, e.experimenter) else { return Ok(None) };
    let mut r = Reader::new(&e.data, 16, "Nicira's message", ErrorCode::BrcBadLen);
    let known = match exp_type {
        super::packet_in2::RESUME => {
            let resume = super::packet_in2::decode_resume(&mut r)?;
            return Ok(Some(Message::Resume(Box::new(resume))));
        }
        12 => Nicira::FlowFormat(r.u32()?),
        15 => {
            let on = r.u8()?;
            r.skip(7)?;
            Nicira::FlowModTableId(on != 0)
        }
        16 => Nicira::PacketInFormat(r.u32()?),
        20 => {
            r.skip(6)?;
            Nicira::ControllerId(r.u16()?)
        }
        29 => {
            r.skip(6)?;
            Nicira::FlushZone(r.u16()?)
        }
        ct_flush::FLUSH => Nicira::CtFlush(Box::new(ct_flush::decode(&mut r)?)),
        21 => Nicira::MonitorCancel(r.u32()?),
        tlv_table::MOD => Nicira::TlvTableMod(tlv_table::decode_mod(&mut r)?),
        tlv_table::REQUEST => Nicira::TlvTableRequest,
        tlv_table::REPLY => Nicira::TlvTableReply(tlv_table::decode_reply(&mut r)?),
        22 => Nicira::MonitorPaused,
        23 => Nicira::MonitorResumed,
        _ => return Ok(None),
    };
    r.finish()?;
    Ok(Some(Message::Nicira(known)))
}

pub(super) fn encode_nicira(buf: &mut Vec<u8>, setting: &Nicira) {
    buf.put_u32(NICIRA);
    match setting {
        Nicira::FlowFormat(format) => {
            buf.put_u32(12);
            buf.put_u32(*format);
        }
        Nicira::FlowModTableId(on) => {
            buf.put_u32(15);
            buf.put_u8(u8::from(*on));
            buf.pad(7);
        }
        Nicira::PacketInFormat(format) => {
            buf.put_u32(16);
            buf.put_u32(*format);
        }
        Nicira::ControllerId(id) => {
            buf.put_u32(20);
            buf.pad(6);
            buf.put_u16(*id);
        }
        Nicira::FlushZone(zone) => {
            buf.put_u32(29);
            buf.pad(6);
            buf.put_u16(*zone);
        }
        Nicira::CtFlush(flush) => {
            buf.put_u32(ct_flush::FLUSH);
            ct_flush::encode(buf, flush);
        }
        Nicira::MonitorCancel(id) => {
            buf.put_u32(21);
            buf.put_u32(*id);
        }
        Nicira::MonitorPaused => buf.put_u32(22),
        Nicira::MonitorResumed => buf.put_u32(23),
        Nicira::TlvTableMod(change) => {
            buf.put_u32(tlv_table::MOD);
            tlv_table::encode_mod(buf, change);
        }
        Nicira::TlvTableRequest => buf.put_u32(tlv_table::REQUEST),
        Nicira::TlvTableReply(reply) => {
            buf.put_u32(tlv_table::REPLY);
            tlv_table::encode_reply(buf, reply);
        }
    }
}

/// Reads a vendor's or experimenter's message; of Nicira's, those that are known are what they mean.
pub(super) fn decode_vendor(
    version: Version,
    table_ids: bool,
    r: &mut Reader<'_>,
) -> Result<Message> {
    let mut ahead = *r;
    if version == Version::V10 && ahead.u32() == Ok(NICIRA) {
        match ahead.u32() {
            Ok(13) => {
                *r = ahead;
                return Ok(Message::FlowMod(super::own_fields::restored(
                    super::flow::decode_nx_mod(table_ids, r)?,
                )));
            }
            Ok(super::group::NX_GROUP_MOD) => {
                *r = ahead;
                return Ok(Message::GroupMod(super::group::decode_mod(version, r)?));
            }
            Ok(NX_ROLE_REQUEST) => {
                *r = ahead;
                return Ok(Message::RoleRequest(super::switch::decode_nx_role(r)?));
            }
            Ok(NX_ROLE_REPLY) => {
                *r = ahead;
                return Ok(Message::RoleReply(super::switch::decode_nx_role(r)?));
            }
            _ => {}
        }
        let mut e = decode_experimenter(version, r)?;
        let (head, rest) = match e.data.split_first_chunk::<4>() {
            Some((head, rest)) => (u32::from_be_bytes(*head), rest.to_vec()),
            None => return Ok(Message::Experimenter(e)),
        };
        let typed = Experimenter { exp_type: Some(head), data: rest, ..e.clone() };
        if let Some(known) = nicira_setting(&typed)? {
            return Ok(known);
        }
        e.exp_type = None;
        return Ok(Message::Experimenter(e));
    }
    let e = decode_experimenter(version, r)?;
    match nicira_setting(&e)? {
        Some(known) => Ok(known),
        None => Ok(Message::Experimenter(e)),
    }
}

/// Writes an experimenter's body. A type that 1.0 has no place for becomes its data's first word; a
/// type that is missing in 1.3 is 0.
pub(super) fn encode_experimenter(buf: &mut Vec<u8>, version: Version, e: &Experimenter) {
    buf.put_u32(e.experimenter);
    match (version, e.exp_type) {
        (Version::V10, None) => {}
        (_, exp_type) => buf.put_u32(exp_type.unwrap_or(0)),
    }
    buf.extend_from_slice(&e.data);
}

fn reason_from_wire(r: &Reader<'_>, version: Version, number: u8) -> Result<PacketInReason> {
    let (count, right) = if version >= Version::V14 { (6, "0 to 5") } else { (3, "0 to 2") };
    let known = PacketInReason::ALL[..count].get(usize::from(number)).copied();
    known.ok_or_else(|| r.bad_value(ErrorCode::BrcBadType, "packet-in reason", number, right))
}

pub(super) fn decode_packet_in(version: Version, r: &mut Reader<'_>) -> Result<PacketIn> {
    let buffer_id = buffer_from_wire(r.u32()?);
    let total_len = r.u16()?;
    match version {
        Version::V10 => {
            let in_port = PortNo::from_v10(r.u16()?);
            let number = r.u8()?;
            let reason = reason_from_wire(r, version, number)?;
            r.skip(1)?;
            Ok(PacketIn {
                buffer_id,
                total_len,
                reason,
                table_id: TableId(0),
                cookie: PacketIn::NO_COOKIE,
                matching: Match::new().with(FieldId::InPort, in_port.0.into()),
                data: r.rest().to_vec(),
                userdata: Vec::new(),
                continuation: Vec::new(),
            })
        }
        _ => {
            let number = r.u8()?;
            let reason = reason_from_wire(r, version, number)?;
            let table_id = TableId(r.u8()?);
            let cookie = r.u64()?;
            let matching = decode_match(version, r, Unknown::Skip)?;
            r.skip(2)?;
            let data = r.rest().to_vec();
            let userdata = Vec::new();
            Ok(PacketIn {
                buffer_id,
                total_len,
                reason,
                table_id,
                cookie,
                matching,
                data,
                userdata,
                continuation: Vec::new(),
            })
        }
    }
}

pub(super) fn encode_packet_in(buf: &mut Vec<u8>, version: Version, packet: &PacketIn) -> Encode {
    buf.put_u32(buffer_to_wire(packet.buffer_id));
    buf.put_u16(packet.total_len);
    // 1.0 does not name an invalid TTL; Open vSwitch sends it there too.
    let reason = packet.reason.wire(version);
    match version {
        Version::V10 => {
            buf.put_u16(packet.in_port().to_v10().unwrap_or(0xffff));
            buf.put_u8(reason);
            buf.pad(1);
        }
        _ => {
            buf.put_u8(reason);
            buf.put_u8(packet.table_id.0);
            buf.put_u64(packet.cookie);
            encode_match(buf, version, &packet.matching, Loss::LeaveOut)?;
            buf.pad(2);
        }
    }
    buf.extend_from_slice(&packet.data);
    Ok(())
}

pub(super) fn decode_packet_out(version: Version, r: &mut Reader<'_>) -> Result<PacketOut> {
    let buffer_id = buffer_from_wire(r.u32()?);
    if version >= Version::V15 {
        return decode_packet_out_15(r, buffer_id);
    }
    let in_port = match version {
        Version::V10 => PortNo::from_v10(r.u16()?),
        _ => PortNo(r.u32()?),
    };
    let actions_len = usize::from(r.u16()?);
    if version >= Version::V13 {
        r.skip(6)?;
    }
    let mut list = r.sub(actions_len, "packet-out's action list", ErrorCode::BrcBadLen)?;
    let actions = decode_actions(version, &mut list)?;
    let data = r.rest().to_vec();
    Ok(PacketOut { buffer_id, in_port, pipeline: Match::new(), actions, data })
}

//= openflow-1.5.1 §7.3.6: the ingress port and other pipeline fields come as a match.
fn decode_packet_out_15(r: &mut Reader<'_>, buffer_id: Option<BufferId>) -> Result<PacketOut> {
    let version = Version::V15;
    let actions_len = usize::from(r.u16()?);
    r.skip(2)?;
    let mut pipeline = decode_match(version, r, Unknown::Refuse)?;
    for field in &pipeline {
        let fields = [FieldId::InPort, FieldId::Metadata, FieldId::TunnelId, FieldId::PacketType];
        if !fields.contains(&field.id) && !field.id.is_register() || !field.is_exact() {
            let code = ErrorCode::BrcPipelineFieldsOnly;
            let right = "exact pipeline fields";
            return Err(r.bad_value(code, "packet-out's match field", field.id as u8, right));
        }
    }
    let Some(in_port) = pipeline.exact(FieldId::InPort) else {
        return Err(r.bad_value(ErrorCode::BrcBadPort, "packet-out's in_port", 0u8, "a port"));
    };
    pipeline.remove(FieldId::InPort);
    let mut list = r.sub(actions_len, "packet-out's action list", ErrorCode::BrcBadLen)?;
    let actions = decode_actions(version, &mut list)?;
    let data = r.rest().to_vec();
    Ok(PacketOut { buffer_id, in_port: PortNo(in_port as u32), pipeline, actions, data })
}

pub(super) fn encode_packet_out(buf: &mut Vec<u8>, version: Version, packet: &PacketOut) -> Encode {
    buf.put_u32(buffer_to_wire(packet.buffer_id));
    if version >= Version::V15 {
        let length_at = buf.len();
        buf.put_u16(0);
        buf.pad(2);
        let matching = packet.pipeline.clone().with(FieldId::InPort, packet.in_port.0.into());
        encode_match(buf, version, &matching, Loss::Refuse)?;
        let start = buf.len();
        encode_actions(buf, version, &packet.actions, None, Loss::Refuse)?;
        buf.patch_length(length_at, start);
        buf.extend_from_slice(&packet.data);
        return Ok(());
    }
    if !packet.pipeline.is_empty() {
        return Loss::Refuse.leave_out(version, "pipeline fields of a packet-out");
    }
    match version {
        Version::V10 => buf.put_u16(Loss::Refuse.port(packet.in_port)?),
        _ => buf.put_u32(packet.in_port.0),
    }
    let length_at = buf.len();
    buf.put_u16(0);
    if version >= Version::V13 {
        buf.pad(6);
    }
    let start = buf.len();
    encode_actions(buf, version, &packet.actions, None, Loss::Refuse)?;
    buf.patch_length(length_at, start);
    buf.extend_from_slice(&packet.data);
    Ok(())
}
