//! Table-mod, table statistics, features, descriptions, status (1.3.5 §7.3.3, §7.3.5.4, §7.3.5.5;
//! 1.4.1 §7.3.4.1, §7.4.5; 1.5.1 §7.3.5.18).

use super::action::{decode_action_types, decode_instruction_types, encode_type};
use super::oxm::{decode_headers, put_header};
use super::property;
use super::reader::{Reader, Result};
use super::writer::Put;
use crate::action::{ActionType, InstructionType};
use crate::error::ErrorCode;
use crate::field::{FieldId, OxmHeader};
use crate::ids::TableId;
use crate::table::{
    TableDesc, TableFeatures, TableMod, TableProperty, TableReason, TableStats, TableStatus,
    Vacancy,
};
use crate::version::Version;

const NAME_LEN: usize = 32;

pub(super) fn decode_mod(version: Version, r: &mut Reader<'_>) -> Result<TableMod> {
    let table_id = TableId(r.u8()?);
    r.skip(3)?;
    let config = r.u32()?;
    let (eviction, vacancy) =
        if version >= Version::V14 { decode_mod_properties(r)? } else { (None, None) };
    Ok(TableMod { table_id, config, eviction, vacancy })
}

//= openflow-1.4.1 §7.3.4.1: a table's eviction and vacancy are properties.
fn decode_mod_properties(r: &mut Reader<'_>) -> Result<(Option<u32>, Option<Vacancy>)> {
    let (mut eviction, mut vacancy) = (None, None);
    while let Some((number, mut property)) = property::next(r, "table property")? {
        match number {
            2 => eviction = Some(property.u32()?),
            3 => {
                let (down, up, now) = (property.u8()?, property.u8()?, property.u8()?);
                property.skip(1)?;
                if down > up || up > 100 {
                    return Err(property.bad_value(
                        ErrorCode::BpcBadValue,
                        "vacancy thresholds",
                        u16::from_be_bytes([down, up]),
                        "down, up: percentages in that order",
                    ));
                }
                vacancy = Some(Vacancy { down, up, now });
            }
            property::EXPERIMENTER => return Err(property::experimenter(&mut property)?),
            _ => return Err(property::unknown(&property, "table property", number)),
        }
        property.finish()?;
    }
    Ok((eviction, vacancy))
}

fn encode_mod_properties(buf: &mut Vec<u8>, eviction: Option<u32>, vacancy: Option<Vacancy>) {
    if let Some(flags) = eviction {
        let at = property::begin(buf, 2);
        buf.put_u32(flags);
        property::end(buf, at);
    }
    if let Some(Vacancy { down, up, now }) = vacancy {
        let at = property::begin(buf, 3);
        buf.extend_from_slice(&[down, up, now, 0]);
        property::end(buf, at);
    }
}

pub(super) fn encode_mod(buf: &mut Vec<u8>, version: Version, m: &TableMod) {
    buf.put_u8(m.table_id.0);
    buf.pad(3);
    buf.put_u32(m.config);
    if version >= Version::V14 {
        encode_mod_properties(buf, m.eviction, m.vacancy);
    }
}

pub(super) fn decode_desc(list: &mut Reader<'_>) -> Result<TableDesc> {
    let mut r = list.element(0, 8, "table description", ErrorCode::BrcBadLen)?;
    r.skip(2)?;
    let table_id = TableId(r.u8()?);
    r.skip(1)?;
    let config = r.u32()?;
    let (eviction, vacancy) = decode_mod_properties(&mut r)?;
    Ok(TableDesc { table_id, config, eviction, vacancy })
}

pub(super) fn encode_desc(buf: &mut Vec<u8>, m: &TableDesc) {
    let start = buf.len();
    buf.put_u16(0);
    buf.put_u8(m.table_id.0);
    buf.pad(1);
    buf.put_u32(m.config);
    encode_mod_properties(buf, m.eviction, m.vacancy);
    buf.patch_length(start, start);
}

pub(super) fn decode_status(r: &mut Reader<'_>) -> Result<TableStatus> {
    let number = r.u8()?;
    let reason = match number {
        3 => TableReason::VacancyDown,
        4 => TableReason::VacancyUp,
        _ => {
            return Err(r.bad_value(
                ErrorCode::BrcBadType,
                "table-status reason",
                number,
                "3 or 4",
            ));
        }
    };
    r.skip(7)?;
    Ok(TableStatus { reason, desc: decode_desc(r)? })
}

pub(super) fn encode_status(buf: &mut Vec<u8>, m: &TableStatus) {
    buf.put_u8(match m.reason {
        TableReason::VacancyDown => 3,
        TableReason::VacancyUp => 4,
    });
    buf.pad(7);
    encode_desc(buf, &m.desc);
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

pub(super) fn decode_features(version: Version, list: &mut Reader<'_>) -> Result<TableFeatures> {
    let mut r = list.element(0, 64, "table features", ErrorCode::TffcBadLen)?;
    r.skip(2)?;
    let table_id = TableId(r.u8()?);
    let (mut command, mut features) = (r.u8()?, r.u32()?);
    if version < Version::V15 {
        (command, features) = (0, 0);
    }
    let name = r.text(NAME_LEN)?;
    let metadata_match = r.u64()?;
    let metadata_write = r.u64()?;
    let config = r.u32()?;
    let max_entries = r.u32()?;
    let mut properties = Vec::new();
    while !r.is_empty() {
        if let Some(property) = decode_property(version, &mut r)? {
            properties.push(property);
        }
    }
    Ok(TableFeatures {
        table_id,
        command,
        features,
        name,
        metadata_match,
        metadata_write,
        config,
        max_entries,
        properties,
    })
}

/// Reads a property; none for one that a later version than this switch's knows.
fn decode_property(version: Version, list: &mut Reader<'_>) -> Result<Option<TableProperty>> {
    let mut r = list.element(2, 4, "table feature property", ErrorCode::TffcBadLen)?;
    // The length leaves out the padding to 8 bytes.
    let padding = r.left().next_multiple_of(8) - r.left();
    list.skip(padding)?;
    let (v14, v15) = (version >= Version::V14, version >= Version::V15);
    let number = r.u16()?;
    r.skip(2)?;
    let miss = number & 1 == 1;
    Ok(Some(match number {
        0 | 1 => {
            TableProperty::Instructions { miss, types: decode_instruction_types(version, &mut r)? }
        }
        2 | 3 => TableProperty::NextTables {
            miss,
            tables: r.rest().iter().map(|id| TableId(*id)).collect(),
        },
        4 | 5 => TableProperty::WriteActions { miss, types: decode_action_types(version, &mut r)? },
        6 | 7 => TableProperty::ApplyActions { miss, types: decode_action_types(version, &mut r)? },
        8 => TableProperty::Match(decode_headers(&mut r)?),
        10 => TableProperty::Wildcards(decode_headers(&mut r)?),
        12 | 13 => TableProperty::WriteSetField { miss, fields: decode_headers(&mut r)? },
        14 | 15 => TableProperty::ApplySetField { miss, fields: decode_headers(&mut r)? },
        16 if v14 => TableProperty::SyncFrom(r.rest().iter().map(|id| TableId(*id)).collect()),
        18 | 19 if v15 => TableProperty::WriteCopyField { miss, fields: decode_headers(&mut r)? },
        20 | 21 if v15 => TableProperty::ApplyCopyField { miss, fields: decode_headers(&mut r)? },
        22 if v15 => TableProperty::PacketTypes(decode_packet_types(&mut r)?),
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
                "a type of this version",
            ));
        }
    }))
}

/// Reads the values of a packet-types property: OXM TLVs of `packet_type`.
fn decode_packet_types(r: &mut Reader<'_>) -> Result<Vec<u32>> {
    let mut types = Vec::new();
    while !r.is_empty() {
        let header = OxmHeader(r.u32()?);
        if header != OxmHeader::of(FieldId::PacketType, false) {
            let code = ErrorCode::BpcBadValue;
            return Err(r.bad_value(code, "packet type's OXM header", header.0, "packet_type"));
        }
        types.push(r.u32()?);
    }
    Ok(types)
}

pub(super) fn encode_features(buf: &mut Vec<u8>, version: Version, m: &TableFeatures) {
    let start = buf.len();
    buf.put_u16(0);
    buf.put_u8(m.table_id.0);
    if version >= Version::V15 {
        buf.put_u8(m.command);
        buf.put_u32(m.features);
    } else {
        buf.pad(5);
    }
    buf.put_text(&m.name, NAME_LEN);
    buf.put_u64(m.metadata_match);
    buf.put_u64(m.metadata_write);
    buf.put_u32(m.config);
    buf.put_u32(m.max_entries);
    m.properties.iter().for_each(|p| encode_property(buf, version, p));
    buf.patch_length(start, start);
}

/// Writes a property, but for one that the version has not.
fn encode_property(buf: &mut Vec<u8>, version: Version, property: &TableProperty) {
    let start = buf.len();
    let standard = |t: &ActionType| match t {
        ActionType::Experimenter(_) => true,
        t => ActionType::standard(version).contains(t),
    };
    let number = match property {
        TableProperty::Instructions { miss, .. } => u16::from(*miss),
        TableProperty::NextTables { miss, .. } => 2 + u16::from(*miss),
        TableProperty::WriteActions { miss, .. } => 4 + u16::from(*miss),
        TableProperty::ApplyActions { miss, .. } => 6 + u16::from(*miss),
        TableProperty::Match(_) => 8,
        TableProperty::Wildcards(_) => 10,
        TableProperty::WriteSetField { miss, .. } => 12 + u16::from(*miss),
        TableProperty::ApplySetField { miss, .. } => 14 + u16::from(*miss),
        TableProperty::SyncFrom(_) if version < Version::V14 => return,
        TableProperty::WriteCopyField { .. }
        | TableProperty::ApplyCopyField { .. }
        | TableProperty::PacketTypes(_)
            if version < Version::V15 =>
        {
            return;
        }
        TableProperty::SyncFrom(_) => 16,
        TableProperty::WriteCopyField { miss, .. } => 18 + u16::from(*miss),
        TableProperty::ApplyCopyField { miss, .. } => 20 + u16::from(*miss),
        TableProperty::PacketTypes(_) => 22,
        TableProperty::Experimenter { miss, .. } => 0xfffe + u16::from(*miss),
    };
    buf.put_u16(number);
    buf.put_u16(0);
    match property {
        TableProperty::Instructions { types, .. } => {
            for t in types.iter().filter(|t| t.is_in(version)) {
                let experimenter = match t {
                    InstructionType::Experimenter(id) => Some(*id),
                    _ => None,
                };
                encode_type(buf, t.wire(), experimenter);
            }
        }
        TableProperty::WriteActions { types, .. } | TableProperty::ApplyActions { types, .. } => {
            for t in types.iter().filter(|t| standard(t)) {
                let experimenter = match t {
                    ActionType::Experimenter(id) => Some(*id),
                    _ => None,
                };
                encode_type(buf, t.wire(), experimenter);
            }
        }
        TableProperty::NextTables { tables, .. } | TableProperty::SyncFrom(tables) => {
            buf.extend(tables.iter().map(|id| id.0))
        }
        TableProperty::Match(fields)
        | TableProperty::Wildcards(fields)
        | TableProperty::WriteSetField { fields, .. }
        | TableProperty::ApplySetField { fields, .. }
        | TableProperty::WriteCopyField { fields, .. }
        | TableProperty::ApplyCopyField { fields, .. } => {
            fields.iter().for_each(|header| put_header(buf, *header));
        }
        TableProperty::PacketTypes(types) => {
            for t in types {
                buf.put_u32(OxmHeader::of(FieldId::PacketType, false).0);
                buf.put_u32(*t);
            }
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
