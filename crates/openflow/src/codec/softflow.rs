//! SoftFlow's action on the wire ([`crate::softflow`]).

use super::reader::{Reader, Result};
use super::writer::Put;
use crate::error::ErrorCode;
use crate::softflow::{ElementName, SOFTFLOW, Softflow};

/// The subtype of the only action there is.
const SUBTYPE: u16 = 1;

/// Reads the action behind its experimenter.
pub(super) fn decode(r: &mut Reader<'_>) -> Result<Softflow> {
    let subtype = r.u16()?;
    if subtype != SUBTYPE {
        return Err(r.bad_value(ErrorCode::BacBadExpType, "softflow's subtype", subtype, "1"));
    }
    let length = usize::from(r.u16()?);
    let argument = r.u32()?;
    if length > r.left() {
        return Err(r.bad_length(length, "a name within the action"));
    }
    let bytes = r.sub(length, "softflow's name", ErrorCode::BacBadLen)?.rest();
    let name = std::str::from_utf8(bytes).ok().and_then(|name| ElementName::new(name).ok());
    let Some(name) = name else {
        let right = "1 to 32 letters, digits, `_`, `-` and `.`, and a letter first";
        return Err(r.bad_value(
            ErrorCode::BacBadArgument,
            "softflow's name",
            length as u32,
            right,
        ));
    };
    r.rest();
    Ok(Softflow { name, argument })
}

/// Writes the whole action.
pub(super) fn encode(buf: &mut Vec<u8>, softflow: &Softflow) {
    let start = buf.len();
    buf.put_u16(0xffff);
    buf.put_u16(0);
    buf.put_u32(SOFTFLOW);
    buf.put_u16(SUBTYPE);
    buf.put_u16(softflow.name.as_str().len() as u16);
    buf.put_u32(softflow.argument);
    buf.extend_from_slice(softflow.name.as_str().as_bytes());
    buf.pad_to_8(start);
    buf.patch_length(start + 2, start);
}
