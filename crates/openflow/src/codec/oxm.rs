//! The extensible match of 1.2 and later: a list of OXM TLVs (1.3.5 §7.2.3).

use super::loss::{Encode, Loss};
use super::nxm;
use super::reader::{DecodeError, DecodeFault, Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;
use crate::field::{
    FieldId, FieldSet, ONF, OXM_CLASS_BASIC, OXM_CLASS_EXPERIMENTER, OXM_CLASS_NICIRA, OxmHeader,
};
use crate::flow_match::{Match, MatchError, MatchField};
use crate::ids::NICIRA;
use crate::version::Version;

/// `OFPMT_OXM`.
const MATCH_TYPE_OXM: u16 = 1;

/// What to do with a field that is not known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// Refuse the match: it would mean something else without the field.
    Refuse,
    /// Leave it out: it only informs.
    Skip,
}

/// Reads `ofp_match` with its padding.
pub(super) fn decode_match(
    version: Version,
    r: &mut Reader<'_>,
    unknown: Unknown,
) -> Result<Match> {
    let mut head = r.named("match", ErrorCode::BmcBadLen);
    let match_type = head.u16()?;
    if match_type != MATCH_TYPE_OXM {
        return Err(head.bad_value(ErrorCode::BmcBadType, "match type", match_type, "1 (OXM)"));
    }
    let length = usize::from(head.u16()?);
    if length < 4 {
        return Err(head.bad_length(length, "4 or more"));
    }
    let mut padded =
        r.sub(length.next_multiple_of(8), "match with its padding", ErrorCode::BmcBadLen)?;
    padded.skip(4)?;
    let mut fields = padded.sub(length - 4, "match", ErrorCode::BmcBadLen)?;
    decode_fields(version, &mut fields, unknown)
}

/// Reads the header of a field. What the foundation numbered before OpenFlow did becomes OpenFlow's own; the
/// header of any other experimenter stays as it is, and is no field's.
pub(crate) fn header(r: &mut Reader<'_>) -> Result<OxmHeader> {
    let header = on_the_wire(r.u32()?);
    if header.class() != OXM_CLASS_EXPERIMENTER || header.length() < 4 {
        return Ok(header);
    }
    let mut ahead = *r;
    let id = ahead.u32();
    let class = match (header.field(), FieldId::from_oxm(OXM_CLASS_NICIRA, header.number())) {
        (Some(_), _) if id.clone()? == ONF => OXM_CLASS_BASIC,
        (_, Some(_)) if id.clone()? == NICIRA => OXM_CLASS_NICIRA,
        // A number of the foundation's, under another id.
        (Some(_), _) => return Ok(no_field(header)),
        (None, _) => return Ok(header),
    };
    r.skip(4)?;
    Ok(OxmHeader((header.0 & 0xffff | u32::from(class) << 16) - 4))
}

/// A header of four octets: what stands for Nicira's longer ones here is no field's there.
pub(crate) fn on_the_wire(bits: u32) -> OxmHeader {
    match OxmHeader(bits) {
        header if header.class() == OXM_CLASS_NICIRA => no_field(header),
        header => header,
    }
}

/// The same with a number that no field has.
fn no_field(OxmHeader(bits): OxmHeader) -> OxmHeader {
    OxmHeader(bits | 0xfe00)
}

/// Writes a header, and the experimenter's id if one belongs to it.
pub(crate) fn put_header(buf: &mut Vec<u8>, header: OxmHeader) {
    match header.class() {
        OXM_CLASS_NICIRA => {
            buf.put_u32((header.0 & 0xffff | u32::from(OXM_CLASS_EXPERIMENTER) << 16) + 4);
        }
        _ => buf.put_u32(header.0),
    }
    if let Some(experimenter) = header.experimenter() {
        buf.put_u32(experimenter);
    }
}

/// Reads the TLVs of a match to the end.
pub(super) fn decode_fields(
    version: Version,
    fields: &mut Reader<'_>,
    unknown: Unknown,
) -> Result<Match> {
    let mut matching = Match::new();
    // A field under an all-zero mask is as good as absent, yet may not come twice.
    let mut seen = FieldSet::default();
    while !fields.is_empty() {
        let header = self::header(fields)?;
        if let Some((first, count)) = registers(header) {
            for field in decode_registers(fields, header, first, count)? {
                if !seen.insert(field.id) {
                    return Err(match_error(fields, MatchError::Duplicate { field: field.id }));
                }
                matching.set_masked(field.id, field.value, field.mask);
            }
            continue;
        }
        let known = |id: &FieldId| id.info().since <= version && !id.is_composite();
        let Some(id) = header.field().filter(known) else {
            if unknown == Unknown::Skip {
                fields.skip(header.length())?;
                continue;
            }
            return Err(nxm::unknown_field(fields, ErrorCode::BmcBadField, header));
        };
        let info = id.info();
        let bytes = nxm::value_bytes(id, header, info.bytes.into());
        if header.length() != bytes << u32::from(header.has_mask()) {
            return Err(fields.bad_value(
                ErrorCode::BmcBadLen,
                "OXM header",
                header.0,
                nxm::length_rule(id),
            ));
        }
        let value = fields.number(bytes)?;
        let field = if header.has_mask() {
            let mask = fields.number(bytes)?;
            if !info.maskable {
                let error = MatchError::NotMaskable { field: id, mask };
                return Err(match_error(fields, error));
            }
            MatchField::masked(id, value, mask)
        } else {
            MatchField::masked(id, value, nxm::whole(id, bytes))
        }
        .map_err(|e| match_error(fields, e))?;
        if !seen.insert(id) {
            return Err(match_error(fields, MatchError::Duplicate { field: id }));
        }
        //= openflow-1.3.5 §7.2.3.6: what a field depends on precedes it.
        matching.check_prerequisites(id).map_err(|e| match_error(fields, e))?;
        matching.set_masked(id, field.value, field.mask);
    }
    Ok(matching)
}

/// The first register, and how many there are, of a header that names several: 1.5's packet
/// registers (1.5.1 §7.2.3.10) are pairs, Nicira's `xxreg`s fours; the first is the highest.
pub(super) fn registers(header: OxmHeader) -> Option<(usize, usize)> {
    header.field().and_then(FieldId::registers)
}

/// Reads the value of several registers, as one match field for each.
pub(super) fn decode_registers(
    fields: &mut Reader<'_>,
    header: OxmHeader,
    first: usize,
    count: usize,
) -> Result<Vec<MatchField>> {
    let bytes = 4 * count;
    if header.length() != bytes << u32::from(header.has_mask()) {
        let right = "the field's length, doubled with a mask";
        return Err(fields.bad_value(ErrorCode::BmcBadLen, "OXM header", header.0, right));
    }
    let value = fields.number(bytes)?;
    let all = u128::MAX >> (128 - 8 * bytes);
    let mask = if header.has_mask() { fields.number(bytes)? } else { all };
    if value & !mask != 0 {
        let right = "a value within its mask";
        return Err(fields.bad_value(ErrorCode::BmcBadWildcards, "register", value, right));
    }
    let mut list = Vec::with_capacity(count);
    for i in 0..count {
        let shift = 32 * (count - 1 - i);
        let id = FieldId::register(first + i);
        let part = |bits: u128| bits >> shift & id.all_bits();
        if part(mask) != 0 {
            let field = MatchField::masked(id, part(value), part(mask));
            list.push(field.map_err(|e| match_error(fields, e))?);
        }
    }
    Ok(list)
}

pub(super) fn match_error(r: &Reader<'_>, error: MatchError) -> DecodeError {
    r.error(error.code(), DecodeFault::Match(error))
}

/// Writes `ofp_match` with its padding.
pub(super) fn encode_match(
    buf: &mut Vec<u8>,
    version: Version,
    matching: &Match,
    loss: Loss,
) -> Encode {
    let start = buf.len();
    buf.put_u16(MATCH_TYPE_OXM);
    buf.put_u16(0);
    encode_fields(buf, version, matching, loss)?;
    buf.patch_length(start + 2, start);
    buf.pad_to_8(start);
    Ok(())
}

/// Writes the TLVs of a match.
pub(super) fn encode_fields(
    buf: &mut Vec<u8>,
    version: Version,
    matching: &Match,
    loss: Loss,
) -> Encode {
    for field in matching {
        if field.id.info().since > version {
            loss.leave_out(version, "a later version's field in a match")?;
            continue;
        }
        let mask = (!field.is_exact()).then_some(field.mask);
        let header = OxmHeader::in_version(field.id, mask.is_some(), version);
        let usual = (header, usize::from(field.id.info().bytes));
        let (header, bytes, mask) = nxm::fitted(field.id, (field.value, mask), usual);
        put_header(buf, header);
        buf.put_number(field.value, bytes);
        if let Some(mask) = mask {
            buf.put_number(mask, bytes);
        }
    }
    Ok(())
}

/// Reads a list of OXM headers, as table features have it. Experimenters' fields are left out, but for the
/// foundation's that are known.
pub(super) fn decode_headers(r: &mut Reader<'_>) -> Result<Vec<OxmHeader>> {
    let mut headers = Vec::with_capacity(r.left() / 4);
    while !r.is_empty() {
        let header = on_the_wire(r.u32()?);
        if header.class() != OXM_CLASS_EXPERIMENTER {
            headers.push(header);
            continue;
        }
        let own = FieldId::from_oxm(OXM_CLASS_NICIRA, header.number());
        match r.u32()? {
            ONF if header.field().is_some() => headers.push(header),
            NICIRA if own.is_some() && header.length() >= 4 => {
                headers.push(OxmHeader((header.0 & 0xffff | u32::from(OXM_CLASS_NICIRA) << 16) - 4))
            }
            _ => {}
        }
    }
    Ok(headers)
}
