//! Actions and instructions on the wire (1.5.1 §7.2.5, §7.2.6; 1.3.5 §7.2.4, §7.2.5; 1.0.2 §5.2.4).

use super::loss::{Encode, Loss};
use super::reader::{Reader, Result};
use super::writer::Put;
use super::{nxm, own_fields, oxm, oxs};
use crate::action::{
    Action, ActionType, Actions, CopyField, ExperimenterAction, ExperimenterInstruction,
    Instruction, InstructionType, Instructions, SetField, StatTrigger, StatTriggerFlags,
};
use crate::actions::row::Decoding;
use crate::actions::{absent, of_nicira, of_type, of_v10, put_note, row, softflow};
use crate::error::ErrorCode;
use crate::field::{FieldId, OxmHeader, VLAN_PRESENT};
use crate::flow_match::Match;
use crate::ids::{MacAddr, MeterId, NICIRA, PortNo, QueueId, TableId};
use crate::softflow::SOFTFLOW;
use crate::version::Version;

const EXPERIMENTER: u16 = 0xffff;
/// How a note begins that is an action of 1.0's ([`keep_v10`](crate::keep_v10)).
const V10_NOTE: &[u8] = b"of10_action";

/// The note that an action of 1.0's is kept in. None for any other, and for a port that 1.0 cannot number.
pub(crate) fn as_v10_note(action: &Action) -> Option<Vec<u8>> {
    let mut note = V10_NOTE.to_vec();
    let written = encode_action_10(&mut note, action, Loss::Refuse);
    (action.is_of_v10() && written.is_ok()).then_some(note)
}

/// Reads actions to the end of `r`.
pub(crate) fn decode_actions(version: Version, r: &mut Reader<'_>) -> Result<Actions> {
    decode_actions_at(version, r, 0)
}

/// The same, inside of so many `clone`s.
pub(super) fn decode_actions_at(
    version: Version,
    r: &mut Reader<'_>,
    depth: usize,
) -> Result<Actions> {
    let mut list = r.named("action list", ErrorCode::BacBadLen);
    r.rest();
    let mut actions = Vec::with_capacity((list.left() / 8).min(4));
    while !list.is_empty() {
        let action = element(&mut list, "action", ErrorCode::BacBadLen)?;
        let action = match version {
            Version::V10 => decode_action_10(action, depth)?,
            _ => decode_action_13(version, action, depth)?,
        };
        action.spread(|one| actions.push(one));
    }
    Ok(actions)
}

/// The next type-length structure, whose length is a multiple of 8.
fn element<'a>(list: &mut Reader<'a>, what: &'static str, code: ErrorCode) -> Result<Reader<'a>> {
    let ahead = list.named(what, code);
    let length = usize::from(ahead.peek_u16(2)?);
    if length < 8 || length % 8 != 0 {
        return Err(ahead.bad_length(length, "a multiple of 8, at least 8,"));
    }
    list.sub(length, what, code)
}

fn decode_action_13(version: Version, mut r: Reader<'_>, depth: usize) -> Result<Action> {
    let number = r.u16()?;
    let _length = r.u16()?;
    if number == EXPERIMENTER {
        return decode_experimenter(version, r, depth);
    }
    let Some(action_type) = ActionType::from_wire(version, number) else {
        return Err(r.bad_value(
            ErrorCode::BacBadType,
            "action type",
            number,
            match version {
                Version::V15 => "0, 11, 12, 15 to 29 or 0xffff",
                _ => "0, 11, 12, 15 to 27 or 0xffff",
            },
        ));
    };
    let action = match action_type {
        ActionType::Output => {
            let port = PortNo(r.u32()?);
            let max_len = r.u16()?;
            r.skip(6)?;
            Action::Output { port, max_len }
        }
        ActionType::SetField => return decode_set_field(version, r),
        ActionType::CopyField => return decode_copy_field(version, r),
        other => match of_type(other).and_then(|row| row.take_standard(&mut r)) {
            Some(action) => action?,
            // `from_wire` knows standard types only; this arm serves the compiler.
            None => return decode_experimenter(version, r, depth),
        },
    };
    r.finish()?;
    Ok(action)
}

fn padded_u8(r: &mut Reader<'_>) -> Result<u8> {
    let value = r.u8()?;
    r.skip(3)?;
    Ok(value)
}

fn decode_experimenter(version: Version, mut r: Reader<'_>, depth: usize) -> Result<Action> {
    let experimenter = r.u32()?;
    if experimenter == NICIRA {
        let subtype = r.u16()?;
        let row = of_nicira(subtype).ok_or_else(|| absent(&r, subtype))?;
        let decoding = Decoding { version, depth, list: decode_actions_at };
        let action = row.decode(subtype, &mut r, &decoding)?;
        if let Some(field) = action.field_without_room() {
            let right = "a field whose header has four octets";
            let code = ErrorCode::BacBadArgument;
            return Err(r.bad_field(code, "the field's number", field, field.info().number, right));
        }
        r.finish()?;
        let Action::Note(note) = &action else { return Ok(action) };
        if let Some(bytes) = note.strip_prefix(own_fields::ACTION) {
            let noted = decode_noted(version, bytes, depth).filter(own_fields::are_named_by);
            return Ok(noted.unwrap_or(action));
        }
        if let Some(bytes) = note.strip_prefix(V10_NOTE) {
            let noted = decode_noted(Version::V10, bytes, depth).filter(Action::is_of_v10);
            return Ok(noted.unwrap_or(action));
        }
        let own = softflow::of_note(note).map(|own| Action::Softflow(Box::new(own)));
        return Ok(own.unwrap_or(action));
    }
    if experimenter == SOFTFLOW {
        return Ok(Action::Softflow(Box::new(softflow::decode(&mut r)?)));
    }
    let data = r.rest().to_vec();
    Ok(Action::Experimenter(Box::new(ExperimenterAction { experimenter, data })))
}

/// The action that a note holds.
fn decode_noted(version: Version, bytes: &[u8], depth: usize) -> Option<Action> {
    let length = usize::from(u16::from_be_bytes(*bytes.get(2..4)?.first_chunk()?));
    let mut list = Reader::new(bytes.get(..length)?, 0, "action of a note", ErrorCode::BacBadLen);
    let r = element(&mut list, "action of a note", ErrorCode::BacBadLen).ok()?;
    let action = match version {
        Version::V10 => decode_action_10(r, depth),
        _ => decode_action_13(version, r, depth),
    };
    action.ok()
}

fn decode_set_field(version: Version, mut r: Reader<'_>) -> Result<Action> {
    let left = r.left();
    let header = oxm::header(&mut r)?;
    //= openflow-1.5.1 §7.2.6.7: from 1.5 on set-field takes a mask.
    let masked = header.has_mask();
    let Some((field, bytes)) = nxm::field_of(header).filter(|f| f.0.info().since <= version) else {
        return Err(nxm::unknown_field(&r, ErrorCode::BacBadSetType, header));
    };
    nxm::settable(&r, field)?;
    if masked && version < Version::V15 {
        let right = "no mask before 1.5";
        return Err(r.bad_field(
            ErrorCode::BacBadSetType,
            "set-field's header",
            field,
            header.0,
            right,
        ));
    }
    let payload = bytes << u32::from(masked);
    // 4 bytes of action header and the field's header come first, padding to 8 last.
    let front = 4 + left - r.left();
    if header.length() != payload || r.left() != (front + payload).next_multiple_of(8) - front {
        return Err(r.bad_field(
            ErrorCode::BacBadSetLen,
            "set-field's header",
            field,
            header.0,
            "the field's length, padded to a multiple of 8",
        ));
    }
    let value = r.number(bytes)?;
    let mask = if masked { Some(r.number(bytes)?) } else { None };
    let all = u128::MAX >> (128 - 8 * bytes) & field.all_bits();
    if mask.is_some_and(|mask| mask & !all != 0 || value & !mask != 0) {
        let (code, right) =
            (ErrorCode::BacBadSetMask, "a mask within the field that covers the value");
        return Err(r.bad_field(code, "set-field's mask", field, mask.unwrap_or(0), right));
    }
    if value & !all != 0 {
        return Err(r.bad_field(
            ErrorCode::BacBadSetArgument,
            "set-field's value",
            field,
            value,
            "a value within the field's width",
        ));
    }
    let mask = mask.filter(|mask| *mask != all);
    let set = nxm::set_field(field, bytes, value, mask);
    if set.field == FieldId::VlanVid && set.mask.is_none() && set.value & VLAN_PRESENT == 0 {
        return Err(r.bad_field(
            ErrorCode::BacBadSetArgument,
            "set-field's value",
            field,
            value,
            "a VLAN id with bit 0x1000",
        ));
    }
    Ok(Action::SetField(set))
}

/// One end of a copy-field: the header of a field without a mask.
fn copied_field(version: Version, r: &mut Reader<'_>) -> Result<FieldId> {
    let header = oxm::header(r)?;
    let known = |(f, _): &(FieldId, usize)| !header.has_mask() && f.info().since <= version;
    match nxm::field_of(header).filter(known) {
        Some((field, _)) => Ok(field),
        None => Err(nxm::unknown_field(r, ErrorCode::BacBadSetType, header)),
    }
}

//= openflow-1.5.1 §7.2.6.8: copy-field names source and destination by their OXM headers.
fn decode_copy_field(version: Version, mut r: Reader<'_>) -> Result<Action> {
    let bits = r.u16()?;
    let (from_offset, to_offset) = (r.u16()?, r.u16()?);
    r.skip(2)?;
    let from = copied_field(version, &mut r)?;
    let to = copied_field(version, &mut r)?;
    let padding = r.rest();
    if padding.len() >= 8 {
        return Err(r.bad_length(padding.len(), "0 to 7 bytes of padding"));
    }
    let from = nxm::bits_of_field(&r, from, from_offset, bits)?;
    let to = nxm::bits_of_field(&r, to, to_offset, bits)?;
    Ok(Action::CopyField(CopyField { bits, from, to }))
}

fn decode_action_10(mut r: Reader<'_>, depth: usize) -> Result<Action> {
    let number = r.u16()?;
    let _length = r.u16()?;
    let action = match number {
        0 => {
            let port = PortNo::from_v10(r.u16()?);
            Action::Output { port, max_len: r.u16()? }
        }
        4 | 5 => {
            let mac = r.mac()?;
            r.skip(6)?;
            let field = if number == 4 { FieldId::EthSrc } else { FieldId::EthDst };
            Action::set_field(field, mac.to_u64().into())
        }
        11 => {
            let number = r.u16()?;
            let port = PortNo::from_v10(number);
            r.skip(6)?;
            let queue = QueueId(r.u32()?);
            if number >= 0xff00 && port != PortNo::IN_PORT && port != PortNo::LOCAL {
                return Err(r.bad_value(
                    ErrorCode::BacBadOutPort,
                    "enqueue's port",
                    number,
                    "an ordinary port, IN_PORT or LOCAL",
                ));
            }
            Action::Enqueue { port, queue }
        }
        EXPERIMENTER => return decode_experimenter(Version::V10, r, depth),
        _ => match of_v10(number).and_then(|row| row.take_standard(&mut r)) {
            Some(action) => action?,
            None => {
                let (code, right) = (ErrorCode::BacBadType, "0 to 11 or 0xffff");
                return Err(r.bad_value(code, "action type", number, right));
            }
        },
    };
    r.finish()?;
    Ok(action)
}

/// Reads instructions to the end of `r`.
pub(super) fn decode_instructions(version: Version, r: &mut Reader<'_>) -> Result<Instructions> {
    let mut list = r.named("instruction list", ErrorCode::BicBadLen);
    r.rest();
    let mut instructions = Instructions::new();
    let mut seen = 0u32;
    while !list.is_empty() {
        let mut r = element(&mut list, "instruction", ErrorCode::BicBadLen)?;
        let number = r.u16()?;
        let _length = r.u16()?;
        if number == EXPERIMENTER {
            let experimenter = r.u32()?;
            let data = r.rest().to_vec();
            instructions.push(Instruction::Experimenter(Box::new(ExperimenterInstruction {
                experimenter,
                data,
            })));
            continue;
        }
        let instruction = match number {
            1 => Instruction::GotoTable(TableId(padded_u8(&mut r)?)),
            2 => {
                r.skip(4)?;
                Instruction::WriteMetadata { value: r.u64()?, mask: r.u64()? }
            }
            3 | 4 => {
                r.skip(4)?;
                let actions = decode_actions(version, &mut r)?;
                match number {
                    3 => Instruction::WriteActions(actions),
                    _ => Instruction::ApplyActions(actions),
                }
            }
            5 => {
                // Some senders put actions here; the specification says there are none.
                r.skip(4)?;
                Instruction::ClearActions
            }
            6 if version < Version::V15 => Instruction::Meter(MeterId(r.u32()?)),
            7 if version >= Version::V15 => {
                let bits = r.u32()?;
                let Some(flags) = StatTriggerFlags::from_bits(bits) else {
                    let (code, what) = (ErrorCode::BicUnsupInst, "stat-trigger's flags");
                    return Err(r.bad_value(code, what, bits, "bits 0 and 1"));
                };
                let thresholds = oxs::decode_thresholds(&mut r)?;
                Instruction::StatTrigger(Box::new(StatTrigger { flags, thresholds }))
            }
            //= openflow-1.5.1 §7.2.5: meter became an action.
            6 if version >= Version::V15 => {
                let right = "1 to 5, 7 or 0xffff";
                return Err(r.bad_value(
                    ErrorCode::BicUnsupInst,
                    "instruction type",
                    number,
                    right,
                ));
            }
            _ => {
                return Err(r.bad_value(
                    ErrorCode::BicUnknownInst,
                    "instruction type",
                    number,
                    "1 to 6 or 0xffff",
                ));
            }
        };
        r.finish()?;
        if seen >> number & 1 == 1 {
            return Err(r.bad_value(
                ErrorCode::BicDupInst,
                "repeated instruction type",
                number,
                "one of each type",
            ));
        }
        seen |= 1 << number;
        instructions.push(instruction);
    }
    Ok(instructions)
}

/// 1.0's action list as instructions.
pub(super) fn instructions_from_v10(actions: Actions) -> Instructions {
    if actions.is_empty() {
        Instructions::new()
    } else {
        smallvec::smallvec![Instruction::ApplyActions(actions)]
    }
}

/// Writes actions. `matching`, where there is one, tells what the packets are, which 1.0's actions
/// need in 1.3.
pub(super) fn encode_actions(
    buf: &mut Vec<u8>,
    version: Version,
    actions: &[Action],
    matching: Option<&Match>,
    loss: Loss,
) -> Encode {
    for action in actions {
        if loss == Loss::LeaveOut && own_fields::are_named_by(action) {
            let mut note = own_fields::ACTION.to_vec();
            encode_actions(
                &mut note,
                version,
                std::slice::from_ref(action),
                matching,
                Loss::Refuse,
            )?;
            put_note(buf, &note);
            continue;
        }
        let list =
            |buf: &mut Vec<u8>, list: &[Action]| encode_actions(buf, version, list, matching, loss);
        let row = row(action);
        if row.is_extension() && row.encode(buf, action, &list)? {
            continue;
        }
        match version {
            Version::V10 => encode_action_10(buf, action, loss)?,
            _ => encode_action_13(buf, version, action, matching, loss)?,
        }
    }
    Ok(())
}

fn encode_action_13(
    buf: &mut Vec<u8>,
    version: Version,
    action: &Action,
    matching: Option<&Match>,
    loss: Loss,
) -> Encode {
    let start = buf.len();
    let wanted = |id| matching.and_then(|m| m.exact(id));
    // What each of 1.0's actions is in 1.3.
    let set = |buf: &mut Vec<u8>, field, value: u128| {
        encode_action_13(buf, version, &Action::set_field(field, value), None, loss)
    };
    match *action {
        Action::SetVlanVid(_) | Action::SetVlanPcp(_) => {
            let tagged = matching.and_then(|m| m.get(FieldId::VlanVid));
            if tagged.is_none_or(|f| f.value & VLAN_PRESENT == 0) {
                encode_action_13(buf, version, &Action::PushVlan(0x8100), None, loss)?;
            }
            return match *action {
                Action::SetVlanVid(vid) => {
                    set(buf, FieldId::VlanVid, u128::from(vid) | VLAN_PRESENT)
                }
                Action::SetVlanPcp(pcp) => set(buf, FieldId::VlanPcp, pcp.into()),
                _ => Ok(()),
            };
        }
        Action::SetNwSrc(v) | Action::SetNwDst(v) => {
            let src = matches!(action, Action::SetNwSrc(_));
            let field = if src { FieldId::Ipv4Src } else { FieldId::Ipv4Dst };
            return set(buf, field, v.into());
        }
        Action::SetNwTos(tos) => return set(buf, FieldId::IpDscp, (tos >> 2).into()),
        Action::SetTpSrc(v) | Action::SetTpDst(v) => {
            let (src, dst) = match wanted(FieldId::IpProto) {
                Some(17) => (FieldId::UdpSrc, FieldId::UdpDst),
                Some(132) => (FieldId::SctpSrc, FieldId::SctpDst),
                _ => (FieldId::TcpSrc, FieldId::TcpDst),
            };
            let field = if matches!(action, Action::SetTpSrc(_)) { src } else { dst };
            return set(buf, field, v.into());
        }
        Action::Enqueue { port, queue } => {
            encode_action_13(buf, version, &Action::SetQueue(queue), None, loss)?;
            let output = Action::Output { port, max_len: 0 };
            encode_action_13(buf, version, &output, None, loss)?;
            return encode_nicira(buf, &Action::PopQueue, loss);
        }
        Action::SetField(SetField { mask: Some(_), .. }) if version < Version::V15 => {
            return encode_nicira(buf, action, loss);
        }
        Action::SetField(SetField { field, .. }) if field.info().since > version => {
            return loss.leave_out(version, "a set-field of a later version's field");
        }
        Action::Meter(_) if version < Version::V15 => {
            return loss.leave_out(version, "meter as an action behind another");
        }
        Action::CopyField(_) if version < Version::V15 => {
            return encode_nicira(buf, action, loss);
        }
        _ => {}
    }
    buf.put_u16(action.action_type().wire());
    buf.put_u16(0);
    match *action {
        Action::Output { port, max_len } => {
            buf.put_u32(port.0);
            buf.put_u16(max_len);
        }
        Action::SetField(SetField { field, value, mask }) => {
            // Nicira's number of the ingress port has 16 bits, by which Open vSwitch names it.
            let (usual, value) = match (field, PortNo(value as u32).to_v10()) {
                (FieldId::InPort, Some(port)) if mask.is_none() => {
                    (nxm::header_of(field, false), port.into())
                }
                _ => {
                    let header = OxmHeader::in_version(field, mask.is_some(), version);
                    ((header, usize::from(field.info().bytes)), value)
                }
            };
            let (header, bytes, mask) = nxm::fitted(field, (value, mask), usual);
            oxm::put_header(buf, header);
            buf.put_number(value, bytes);
            if let Some(mask) = mask {
                buf.put_number(mask, bytes);
            }
        }
        Action::CopyField(CopyField { bits, from, to }) => {
            buf.put_u16(bits);
            buf.put_u16(from.offset);
            buf.put_u16(to.offset);
            buf.pad(2);
            oxm::put_header(buf, OxmHeader::in_version(from.field, false, version));
            oxm::put_header(buf, OxmHeader::in_version(to.field, false, version));
        }
        Action::Experimenter(ref e) => {
            buf.put_u32(e.experimenter);
            buf.extend_from_slice(&e.data);
        }
        // Every other has a row without a form of its own.
        _ => {
            row(action).put_standard(buf, action);
        }
    }
    buf.pad_to_8(start);
    buf.patch_length(start + 2, start);
    Ok(())
}

fn encode_action_10(buf: &mut Vec<u8>, action: &Action, loss: Loss) -> Encode {
    let start = buf.len();
    let head = |buf: &mut Vec<u8>, number: u16| {
        buf.put_u16(number);
        buf.put_u16(0);
    };
    match *action {
        Action::Output { port, max_len } => {
            let port = loss.port(port)?;
            head(buf, 0);
            buf.put_u16(port);
            buf.put_u16(max_len);
        }
        Action::Enqueue { port, queue } => {
            let port = loss.port(port)?;
            head(buf, 11);
            buf.put_u16(port);
            buf.pad(6);
            buf.put_u32(queue.0);
        }
        Action::SetField(SetField { mask: Some(_), .. }) => {
            return encode_nicira(buf, action, loss);
        }
        Action::SetField(SetField { field, value, .. }) => {
            let action = match field {
                FieldId::EthSrc | FieldId::EthDst => {
                    head(buf, if field == FieldId::EthSrc { 4 } else { 5 });
                    buf.put_mac(MacAddr::from_u64(value as u64));
                    buf.pad(6);
                    buf.patch_length(start + 2, start);
                    return Ok(());
                }
                FieldId::VlanVid => Action::SetVlanVid(value as u16 & 0x0fff),
                FieldId::VlanPcp => Action::SetVlanPcp(value as u8),
                FieldId::Ipv4Src => Action::SetNwSrc(value as u32),
                FieldId::Ipv4Dst => Action::SetNwDst(value as u32),
                FieldId::IpDscp => Action::SetNwTos((value as u8) << 2),
                FieldId::TcpSrc | FieldId::UdpSrc | FieldId::SctpSrc => {
                    Action::SetTpSrc(value as u16)
                }
                FieldId::TcpDst | FieldId::UdpDst | FieldId::SctpDst => {
                    Action::SetTpDst(value as u16)
                }
                _ => return encode_nicira(buf, action, loss),
            };
            return encode_action_10(buf, &action, loss);
        }
        // 1.0's actions on VLAN tags push one where there is none.
        Action::PushVlan(0x8100) => return Ok(()),
        Action::Experimenter(ref e) => {
            head(buf, EXPERIMENTER);
            buf.put_u32(e.experimenter);
            buf.extend_from_slice(&e.data);
        }
        _ => match row(action).v10 {
            Some(number) => {
                head(buf, number);
                row(action).put_standard(buf, action);
            }
            // What 1.0 has not, Nicira may have.
            None => return encode_nicira(buf, action, loss),
        },
    }
    buf.pad_to_8(start);
    buf.patch_length(start + 2, start);
    Ok(())
}

/// Writes an action that the version has no number for by one of Nicira's, if there is one.
fn encode_nicira(buf: &mut Vec<u8>, action: &Action, loss: Loss) -> Encode {
    // None of those that OpenFlow has in another version holds a list.
    let no_list = |_: &mut Vec<u8>, _: &[Action]| Ok(());
    match row(action).encode(buf, action, &no_list)? {
        true => Ok(()),
        false => loss.leave_out(Version::V10, "an action that 1.0 has not"),
    }
}

/// Writes instructions.
pub(super) fn encode_instructions(
    buf: &mut Vec<u8>,
    version: Version,
    instructions: &[Instruction],
    matching: &Match,
    loss: Loss,
) -> Encode {
    let converted = meters_of(version, instructions);
    for instruction in converted.as_deref().unwrap_or(instructions) {
        if matches!(instruction, Instruction::StatTrigger(_)) && version < Version::V15 {
            loss.leave_out(version, "a stat-trigger")?;
            continue;
        }
        let start = buf.len();
        buf.put_u16(instruction.instruction_type().wire());
        buf.put_u16(0);
        match instruction {
            Instruction::GotoTable(table) => buf.put_u8(table.0),
            Instruction::WriteMetadata { value, mask } => {
                buf.pad(4);
                buf.put_u64(*value);
                buf.put_u64(*mask);
            }
            Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => {
                buf.pad(4);
                encode_actions(buf, version, actions, Some(matching), loss)?;
            }
            Instruction::ClearActions => buf.pad(4),
            Instruction::Meter(meter) => buf.put_u32(meter.0),
            Instruction::StatTrigger(trigger) => {
                buf.put_u32(trigger.flags.bits());
                oxs::encode(buf, &trigger.thresholds);
            }
            Instruction::Experimenter(e) => {
                buf.put_u32(e.experimenter);
                buf.extend_from_slice(&e.data);
            }
        }
        buf.pad_to_8(start);
        buf.patch_length(start + 2, start);
    }
    Ok(())
}

/// The instructions in the version's words for meters: an instruction up to 1.4, the first of the
/// applied actions from 1.5 on, as Open vSwitch has it. None if they are so already.
fn meters_of(version: Version, instructions: &[Instruction]) -> Option<Instructions> {
    let meter = instructions.iter().find_map(|i| match i {
        Instruction::Meter(meter) => Some(*meter),
        _ => None,
    });
    let applied = instructions.iter().position(|i| matches!(i, Instruction::ApplyActions(_)));
    if version >= Version::V15 {
        let meter = meter?;
        let mut all: Instructions =
            instructions.iter().filter(|i| !matches!(i, Instruction::Meter(_))).cloned().collect();
        match all.iter_mut().find_map(|i| match i {
            Instruction::ApplyActions(actions) => Some(actions),
            _ => None,
        }) {
            Some(actions) => actions.insert(0, Action::Meter(meter)),
            None => all.insert(0, Instruction::ApplyActions(vec![Action::Meter(meter)])),
        }
        return Some(all);
    }
    let at = applied.filter(|_| meter.is_none())?;
    let Some(Instruction::ApplyActions(actions)) = instructions.get(at) else { return None };
    let Some(Action::Meter(meter)) = actions.first() else { return None };
    let mut all: Instructions = instructions.into();
    if actions.len() > 1 {
        all[at] = Instruction::ApplyActions(actions[1..].to_vec());
    } else {
        all.remove(at);
    }
    all.insert(0, Instruction::Meter(*meter));
    Some(all)
}

/// Writes as 1.0's action list what instructions do at once.
pub(super) fn encode_instructions_10(
    buf: &mut Vec<u8>,
    instructions: &[Instruction],
    loss: Loss,
) -> Encode {
    for instruction in instructions {
        match instruction {
            Instruction::ApplyActions(actions) => {
                encode_actions(buf, Version::V10, actions, None, loss)?;
            }
            _ => loss.leave_out(Version::V10, "an instruction other than apply-actions")?,
        }
    }
    Ok(())
}

/// Reads a list of instruction types, as table features have it.
pub(super) fn decode_instruction_types(
    version: Version,
    r: &mut Reader<'_>,
) -> Result<Vec<InstructionType>> {
    let mut types = Vec::new();
    while !r.is_empty() {
        let mut r = r.element(2, 4, "instruction id", ErrorCode::TffcBadLen)?;
        let number = r.u16()?;
        r.skip(2)?;
        types.push(if number == EXPERIMENTER {
            InstructionType::Experimenter(r.u32()?)
        } else {
            InstructionType::from_wire(version, number).ok_or_else(|| {
                let right = match version {
                    Version::V15 => "1 to 5, 7 or 0xffff",
                    _ => "1 to 6 or 0xffff",
                };
                r.bad_value(ErrorCode::TffcBadArgument, "instruction id", number, right)
            })?
        });
    }
    Ok(types)
}

/// Reads a list of action types, as table features have it.
pub(super) fn decode_action_types(version: Version, r: &mut Reader<'_>) -> Result<Vec<ActionType>> {
    let mut types = Vec::new();
    while !r.is_empty() {
        let mut r = r.element(2, 4, "action id", ErrorCode::TffcBadLen)?;
        let number = r.u16()?;
        r.skip(2)?;
        types.push(if number == EXPERIMENTER {
            ActionType::Experimenter(r.u32()?)
        } else {
            ActionType::from_wire(version, number).ok_or_else(|| {
                r.bad_value(
                    ErrorCode::TffcBadArgument,
                    "action id",
                    number,
                    "the number of an action or 0xffff",
                )
            })?
        });
    }
    Ok(types)
}

/// Writes one type of a list in table features.
pub(super) fn encode_type(buf: &mut Vec<u8>, number: u16, experimenter: Option<u32>) {
    buf.put_u16(number);
    match experimenter {
        Some(id) => {
            buf.put_u16(8);
            buf.put_u32(id);
        }
        None => buf.put_u16(4),
    }
}
