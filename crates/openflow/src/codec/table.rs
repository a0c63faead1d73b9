//! Table-mod, table statistics, table features (1.3.5 §7.3.3, §7.3.5.4, §7.3.5.5).

use super::action::{decode_action_types, decode_instruction_types, encode_type};
use super::oxm::decode_headers;
use super::reader::{Reader, Result};
use super::writer::Put;
use crate::action::{ActionType, InstructionType};
use crate::error::ErrorCode;
use crate::field::OxmHeader;
use crate::ids::TableId;
use crate::table::{TableFeatures, TableMod, TableProperty, TableStats};
use crate::version::Version;

const NAME_LEN: usize = 32;

pub(super) fn decode_mod(r: &mut Reader<'_>) -> Result<TableMod> {
    let table_id = TableId(r.u8()?);
    r.skip(3)?;
    Ok(TableMod { table_id, config: r.u32()? })
}

pub(super) fn encode_mod(buf: &mut Vec<u8>, m: &TableMod) {
    buf.put_u8(m.table_id.0);
    buf.pad(3);
    buf.put_u32(m.config);
}

pub(super) fn decode_stats(version: Version, r: &mut Reader<'_>) -> Result<TableStats> {
    let mut stats = TableStats { table_id: TableId(r.u8()?), ..TableStats::default() };
    r.skip(3)?;
    if version == Version::V10 {
        stats.name = r.text(NAME_LEN)?;
        stats.wildcards = r.u32()?;
        stats.max_entries = r.u32()?;
    }
    stats.active_count = r.u32()?;
    stats.lookup_count = r.u64()?;
    stats.matched_count = r.u64()?;
    Ok(stats)
}

pub(super) fn encode_stats(buf: &mut Vec<u8>, version: Version, m: &TableStats) {
    buf.put_u8(m.table_id.0);
    buf.pad(3);
    if version == Version::V10 {
        buf.put_text(&m.name, NAME_LEN);
        buf.put_u32(m.wildcards);
        buf.put_u32(m.max_entries);
    }
    buf.put_u32(m.active_count);
    buf.put_u64(m.lookup_count);
    buf.put_u64(m.matched_count);
}

pub(super) fn decode_features(list: &mut Reader<'_>) -> Result<TableFeatures> {
    let mut r = list.element(0, 64, "table features", ErrorCode::TffcBadLen)?;
    r.skip(2)?;
    let table_id = TableId(r.u8()?);
    r.skip(5)?;
    let name = r.text(NAME_LEN)?;
    let metadata_match = r.u64()?;
    let metadata_write = r.u64()?;
    let config = r.u32()?;
    let max_entries = r.u32()?;
    let mut properties = Vec::new();
    while !r.is_empty() {
        properties.push(decode_property(&mut r)?);
    }
    Ok(TableFeatures {
        table_id,
        name,
        metadata_match,
        metadata_write,
        config,
        max_entries,
        properties,
    })
}

fn decode_property(list: &mut Reader<'_>) -> Result<TableProperty> {
    let mut r = list.element(2, 4, "table feature property", ErrorCode::TffcBadLen)?;
    // The length leaves out the padding to 8 bytes.
    let padding = r.left().next_multiple_of(8) - r.left();
    list.skip(padding)?;
    let number = r.u16()?;
    r.skip(2)?;
    let miss = number & 1 == 1;
    Ok(match number {
        0 | 1 => TableProperty::Instructions { miss, types: decode_instruction_types(&mut r)? },
        2 | 3 => TableProperty::NextTables {
            miss,
            tables: r.rest().iter().map(|id| TableId(*id)).collect(),
        },
        4 | 5 => TableProperty::WriteActions { miss, types: decode_action_types(&mut r)? },
        6 | 7 => TableProperty::ApplyActions { miss, types: decode_action_types(&mut r)? },
        8 => TableProperty::Match(decode_headers(&mut r)?),
        10 => TableProperty::Wildcards(decode_headers(&mut r)?),
        12 | 13 => TableProperty::WriteSetField { miss, fields: decode_headers(&mut r)? },
        14 | 15 => TableProperty::ApplySetField { miss, fields: decode_headers(&mut r)? },
        0xfffe | 0xffff => TableProperty::Experimenter {
            miss,
            experimenter: r.u32()?,
            exp_type: r.u32()?,
            data: r.rest().to_vec(),
        },
        _ => {
            return Err(r.bad_value(
                ErrorCode::TffcBadType,
                "table feature property",
                number,
                "0 to 8, 10, 12 to 15, 0xfffe or 0xffff",
            ));
        }
    })
}

pub(super) fn encode_features(buf: &mut Vec<u8>, m: &TableFeatures) {
    let start = buf.len();
    buf.put_u16(0);
    buf.put_u8(m.table_id.0);
    buf.pad(5);
    buf.put_text(&m.name, NAME_LEN);
    buf.put_u64(m.metadata_match);
    buf.put_u64(m.metadata_write);
    buf.put_u32(m.config);
    buf.put_u32(m.max_entries);
    m.properties.iter().for_each(|p| encode_property(buf, p));
    buf.patch_length(start, start);
}

fn encode_property(buf: &mut Vec<u8>, property: &TableProperty) {
    let start = buf.len();
    let number = match property {
        TableProperty::Instructions { miss, .. } => u16::from(*miss),
        TableProperty::NextTables { miss, .. } => 2 + u16::from(*miss),
        TableProperty::WriteActions { miss, .. } => 4 + u16::from(*miss),
        TableProperty::ApplyActions { miss, .. } => 6 + u16::from(*miss),
        TableProperty::Match(_) => 8,
        TableProperty::Wildcards(_) => 10,
        TableProperty::WriteSetField { miss, .. } => 12 + u16::from(*miss),
        TableProperty::ApplySetField { miss, .. } => 14 + u16::from(*miss),
        TableProperty::Experimenter { miss, .. } => 0xfffe + u16::from(*miss),
    };
    buf.put_u16(number);
    buf.put_u16(0);
    match property {
        TableProperty::Instructions { types, .. } => {
            for t in types {
                let experimenter = match t {
                    InstructionType::Experimenter(id) => Some(*id),
                    _ => None,
                };
                encode_type(buf, t.wire(), experimenter);
            }
        }
        TableProperty::WriteActions { types, .. } | TableProperty::ApplyActions { types, .. } => {
            for t in types {
                let experimenter = match t {
                    ActionType::Experimenter(id) => Some(*id),
                    _ => None,
                };
                encode_type(buf, t.wire(), experimenter);
            }
        }
        TableProperty::NextTables { tables, .. } => buf.extend(tables.iter().map(|id| id.0)),
        TableProperty::Match(fields)
        | TableProperty::Wildcards(fields)
        | TableProperty::WriteSetField { fields, .. }
        | TableProperty::ApplySetField { fields, .. } => {
            fields.iter().for_each(|OxmHeader(bits)| buf.put_u32(*bits));
        }
        TableProperty::Experimenter { experimenter, exp_type, data, .. } => {
            buf.put_u32(*experimenter);
            buf.put_u32(*exp_type);
            buf.extend_from_slice(data);
        }
    }
    buf.patch_length(start + 2, start);
    buf.pad_to_8(start);
}
