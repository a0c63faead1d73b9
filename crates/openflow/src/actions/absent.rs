//! Nicira's actions that are known by name and not done here.

use crate::codec::reader::{DecodeError, DecodeFault, Reader};
use crate::error::ErrorCode;

/// Actions that are known by name and not done here.
fn name(subtype: u16) -> &'static str {
    match subtype {
        29 | 38 | 41 => "sample",
        36 => "nat outside of ct",
        37 => "controller with a property that is new",
        46 | 47 => "encap and decap",
        48 => "dec_nsh_ttl",
        _ => "an action",
    }
}

/// Refuses one of them by its number.
pub(crate) fn absent(r: &Reader<'_>, subtype: u16) -> DecodeError {
    let fault = DecodeFault::Absent { what: "Nicira's action", name: name(subtype), subtype };
    r.error(ErrorCode::BacBadExpType, fault)
}
