//! Properties: the type-length-value lists of 1.4 and later (1.4.1 §7.2.1).
//!
//! A property's length leaves out the padding to 8 bytes behind it. The faults have codes of their
//! own, `OFPBPC_*`.

use super::reader::{DecodeError, Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;

/// The type of experimenters' properties.
pub(super) const EXPERIMENTER: u16 = 0xffff;

/// The next property of a list: its type, and a reader of what follows its length.
pub(super) fn next<'a>(
    list: &mut Reader<'a>,
    what: &'static str,
) -> Result<Option<(u16, Reader<'a>)>> {
    if list.is_empty() {
        return Ok(None);
    }
    let mut property = list.element(2, 4, what, ErrorCode::BpcBadLen)?;
    let length = property.left();
    let padding = (length.next_multiple_of(8) - length).min(list.left());
    list.skip(padding)?;
    let number = property.u16()?;
    property.skip(2)?;
    Ok(Some((number, property)))
}

/// The error about a type that is not known.
pub(super) fn unknown(property: &Reader<'_>, what: &'static str, number: u16) -> DecodeError {
    property.bad_value(ErrorCode::BpcBadType, what, number, "a type of this version")
}

/// The error about an experimenter's property, of which none is known.
pub(super) fn experimenter(property: &mut Reader<'_>) -> Result<DecodeError> {
    let id = property.u32()?;
    let code = ErrorCode::BpcBadExperimenter;
    Ok(property.bad_value(code, "property's experimenter", id, "none"))
}

/// Begins a property.
pub(crate) fn begin(buf: &mut Vec<u8>, number: u16) -> usize {
    let start = buf.len();
    buf.put_u16(number);
    buf.put_u16(0);
    start
}

/// Ends the property that began at `start`, with its padding.
pub(crate) fn end(buf: &mut Vec<u8>, start: usize) {
    buf.patch_length(start + 2, start);
    buf.pad_to_8(start);
}
