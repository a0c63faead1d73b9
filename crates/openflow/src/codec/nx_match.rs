//! Matches of NXM TLVs (ovs-fields(7)).

use super::nxm::{field_of, fitted, header_of, unknown_field};
use super::oxm;
use super::reader::{Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;
use crate::field::{FieldId, NXM_CLASS_NX, NXM_CLASS_OF, VLAN_PRESENT};
use crate::flow_match::{Match, MatchError, MatchField};
use crate::ids::PortNo;

/// `NXM_OF_VLAN_TCI`: the tag's 16 bits, of which 0x1000 says that there is one.
const VLAN_TCI: (u16, u8) = (NXM_CLASS_OF, 4);
/// `NXM_OF_IP_TOS`: the DSCP in its place in the byte.
const IP_TOS: (u16, u8) = (NXM_CLASS_OF, 5);
/// `NXM_NX_COOKIE`: a filter of flow-mods and requests, no field.
const COOKIE: (u16, u8) = (NXM_CLASS_NX, 30);

/// A match of NXM TLVs, and the cookie that it filters by.
#[derive(Default)]
pub(super) struct NxMatch {
    pub(super) matching: Match,
    pub(super) cookie: u64,
    pub(super) cookie_mask: u64,
}

/// Reads `length` bytes of NXM TLVs and the padding behind them.
pub(super) fn decode_match(r: &mut Reader<'_>, length: usize) -> Result<NxMatch> {
    let padded = length.next_multiple_of(8);
    let mut all = r.sub(padded, "match with its padding", ErrorCode::BmcBadLen)?;
    let fields = all.sub(length, "match", ErrorCode::BmcBadLen)?;
    decode_tlvs(fields)
}

/// Reads TLVs of NXM's and OpenFlow's to the end.
pub(super) fn decode_fields(r: &mut Reader<'_>) -> Result<Match> {
    let fields = r.sub(r.left(), "fields", ErrorCode::BmcBadLen)?;
    decode_tlvs(fields).map(|out| out.matching)
}

fn decode_tlvs(mut fields: Reader<'_>) -> Result<NxMatch> {
    let mut out = NxMatch::default();
    while !fields.is_empty() {
        let header = oxm::header(&mut fields)?;
        if let Some((first, count)) = super::oxm::registers(header) {
            for field in super::oxm::decode_registers(&mut fields, header, first, count)? {
                out.matching.insert(field).map_err(|e| super::oxm::match_error(&fields, e))?;
            }
            continue;
        }
        let key = (header.class(), header.number());
        let (id, bytes) = match key {
            VLAN_TCI => (FieldId::VlanVid, 2),
            IP_TOS => (FieldId::IpDscp, 1),
            COOKIE => (FieldId::Metadata, 8),
            _ => field_of(header)
                .ok_or_else(|| unknown_field(&fields, ErrorCode::BmcBadField, header))?,
        };
        if header.length() != bytes << u32::from(header.has_mask()) {
            let right = super::nxm::length_rule(id);
            return Err(fields.bad_value(ErrorCode::BmcBadLen, "NXM header", header.0, right));
        }
        let mut value = fields.number(bytes)?;
        let all = u128::MAX >> (128 - 8 * bytes);
        let mut mask = if header.has_mask() { fields.number(bytes)? } else { all };
        if value & !mask != 0 {
            let right = "a value within its mask";
            return Err(fields.bad_value(ErrorCode::BmcBadWildcards, "NXM value", value, right));
        }
        match key {
            COOKIE => {
                (out.cookie, out.cookie_mask) = (value as u64, mask as u64);
                continue;
            }
            VLAN_TCI => {
                // It is both fields of OpenFlow's.
                let twice = [FieldId::VlanVid, FieldId::VlanPcp]
                    .into_iter()
                    .find(|id| out.matching.has(*id));
                if let Some(field) = twice {
                    return Err(super::oxm::match_error(&fields, MatchError::Duplicate { field }));
                }
                vlan_tci(&mut out.matching, value, mask);
                continue;
            }
            IP_TOS => (value, mask) = (value >> 2, mask >> 2),
            // Nicira's ports have 16 bits.
            _ if id == FieldId::InPort && bytes == 2 => {
                value = PortNo::from_v10(value as u16).0.into();
            }
            _ => {}
        }
        let whole = !header.has_mask() || mask & id.all_bits() == id.all_bits();
        if whole {
            mask = super::nxm::whole(id, bytes);
        }
        let field = MatchField::masked(id, value & mask, mask)
            .map_err(|e| super::oxm::match_error(&fields, e))?;
        out.matching.check_prerequisites(id).map_err(|e| super::oxm::match_error(&fields, e))?;
        out.matching.insert(field).map_err(|e| super::oxm::match_error(&fields, e))?;
    }
    Ok(out)
}

/// NXM's tag as OpenFlow's id and priority.
fn vlan_tci(matching: &mut Match, tci: u128, mask: u128) {
    matching.set_masked(FieldId::VlanVid, tci & 0x1fff, mask & 0x1fff);
    let no_tag = mask & VLAN_PRESENT != 0 && tci & VLAN_PRESENT == 0;
    if mask >> 13 == 7 && !no_tag {
        matching.set(FieldId::VlanPcp, tci >> 13);
    }
}

/// Writes NXM TLVs without padding; gives back how many bytes.
pub(super) fn encode_match(buf: &mut Vec<u8>, matching: &Match, cookie: (u64, u64)) -> usize {
    let start = buf.len();
    let vid = matching.get(FieldId::VlanVid).map_or((0, 0), |f| (f.value, f.mask));
    let pcp = matching.get(FieldId::VlanPcp).map_or((0, 0), |f| (f.value, f.mask));
    let (tci, mut tci_mask) = (vid.0 | pcp.0 << 13, vid.1 | pcp.1 << 13);
    // Without a tag none of its bits is set.
    if vid.1 == 0x1fff && vid.0 == 0 {
        tci_mask = 0xffff;
    }
    for field in matching {
        let (mut value, mut mask) = (field.value, field.mask);
        match field.id {
            FieldId::VlanPcp => continue,
            FieldId::VlanVid => {
                let whole = tci_mask == 0xffff;
                let length = if whole { 2 } else { 4 };
                buf.put_u32(0x0000_0800 | u32::from(!whole) << 8 | length);
                buf.put_u16(tci as u16);
                if !whole {
                    buf.put_u16(tci_mask as u16);
                }
                continue;
            }
            FieldId::IpDscp => {
                buf.put_u32(0x0000_0a01);
                buf.put_u8((value << 2) as u8);
                continue;
            }
            FieldId::InPort => {
                value = PortNo(value as u32).to_v10().unwrap_or(0xffff).into();
                mask = 0xffff;
            }
            _ => {}
        }
        let mask = (!field.is_exact()).then_some(mask);
        let usual = header_of(field.id, mask.is_some());
        let (header, bytes, mask) = fitted(field.id, (value, mask), usual);
        oxm::put_header(buf, header);
        buf.put_number(value, bytes);
        if let Some(mask) = mask {
            buf.put_number(mask, bytes);
        }
    }
    if cookie.1 != 0 {
        buf.put_u32(0x0001_3d10);
        buf.put_u64(cookie.0);
        buf.put_u64(cookie.1);
    }
    let length = buf.len() - start;
    buf.pad_to_8(start);
    length
}
