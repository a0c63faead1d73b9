//! Numbers of buffered packets.

use crate::ids::BufferId;

const NO_BUFFER: u32 = 0xffff_ffff;

/// The buffer of a number.
pub(super) fn buffer_from_wire(number: u32) -> Option<BufferId> {
    (number != NO_BUFFER).then_some(BufferId(number))
}

/// Its number, or that of none.
pub(super) fn buffer_to_wire(buffer: Option<BufferId>) -> u32 {
    buffer.map_or(NO_BUFFER, |b| b.0)
}
