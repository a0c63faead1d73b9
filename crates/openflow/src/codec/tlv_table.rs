//! The map of Geneve options to fields (`NXT_TLV_TABLE_MOD`, `NXT_TLV_TABLE_REQUEST`, `NXT_TLV_TABLE_REPLY`).

use super::reader::{Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;
use crate::message::{TlvMapping, TlvTableCommand, TlvTableMod, TlvTableReply};

/// `NXT_TLV_TABLE_MOD`.
pub(super) const MOD: u32 = 24;
/// `NXT_TLV_TABLE_REQUEST`.
pub(super) const REQUEST: u32 = 25;
/// `NXT_TLV_TABLE_REPLY`.
pub(super) const REPLY: u32 = 26;

const COMMANDS: [TlvTableCommand; 3] =
    [TlvTableCommand::Add, TlvTableCommand::Delete, TlvTableCommand::Clear];

pub(super) fn decode_mod(r: &mut Reader<'_>) -> Result<TlvTableMod> {
    let command = r.u16()?;
    let Some(&command) = COMMANDS.get(usize::from(command)) else {
        let (code, right) = (ErrorCode::TtmfcBadCommand, "0 (add), 1 (delete) or 2 (clear)");
        return Err(r.bad_value(code, "tlv table mod's command", command, right));
    };
    r.skip(6)?;
    Ok(TlvTableMod { command, mappings: decode_mappings(r)? })
}

pub(super) fn encode_mod(buf: &mut Vec<u8>, change: &TlvTableMod) {
    let number = COMMANDS.iter().position(|command| *command == change.command);
    buf.put_u16(number.unwrap_or(0) as u16);
    buf.pad(6);
    encode_mappings(buf, &change.mappings);
}

pub(super) fn decode_reply(r: &mut Reader<'_>) -> Result<TlvTableReply> {
    let (max_option_space, max_fields) = (r.u32()?, r.u16()?);
    r.skip(10)?;
    Ok(TlvTableReply { max_option_space, max_fields, mappings: decode_mappings(r)? })
}

pub(super) fn encode_reply(buf: &mut Vec<u8>, reply: &TlvTableReply) {
    buf.put_u32(reply.max_option_space);
    buf.put_u16(reply.max_fields);
    buf.pad(10);
    encode_mappings(buf, &reply.mappings);
}

fn decode_mappings(r: &mut Reader<'_>) -> Result<Vec<TlvMapping>> {
    let mut mappings = Vec::new();
    while !r.is_empty() {
        let (class, kind, len, index) = (r.u16()?, r.u8()?, r.u8()?, r.u16()?);
        r.skip(2)?;
        mappings.push(TlvMapping { class, kind, len, index });
    }
    Ok(mappings)
}

fn encode_mappings(buf: &mut Vec<u8>, mappings: &[TlvMapping]) {
    for mapping in mappings {
        buf.put_u16(mapping.class);
        buf.put_u8(mapping.kind);
        buf.put_u8(mapping.len);
        buf.put_u16(mapping.index);
        buf.pad(2);
    }
}
