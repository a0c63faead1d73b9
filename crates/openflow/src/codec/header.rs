//! The header of every message.

use super::loss::{Encode, EncodeError};
use super::writer::Put;
use crate::ids::Xid;
use crate::version::Version;

/// Bytes of a message's header.
pub const HEADER_LEN: usize = 8;
/// The most bytes that a message can have.
pub const MESSAGE_LEN_MAX: usize = 0xffff;

/// The header of every message of every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version number as on the wire, known or not.
    pub version: u8,
    /// Message type number, of that version.
    pub message_type: u8,
    /// Bytes of the message with this header.
    pub length: u16,
    /// Transaction.
    pub xid: Xid,
}

impl Header {
    /// The number of `OFPT_HELLO` in every version.
    pub const HELLO: u8 = 0;
    /// The number of `OFPT_ERROR` in every version.
    pub const ERROR: u8 = 1;

    /// Reads the header at the front of `bytes`; none if there are fewer than 8.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let b = bytes.first_chunk::<HEADER_LEN>()?;
        Some(Header {
            version: b[0],
            message_type: b[1],
            length: u16::from_be_bytes([b[2], b[3]]),
            xid: Xid(u32::from_be_bytes([b[4], b[5], b[6], b[7]])),
        })
    }
}

/// Writes a header whose length is still to come.
pub(super) fn put_header(buf: &mut Vec<u8>, version: Version, number: u8, xid: Xid) {
    buf.put_u8(version.wire());
    buf.put_u8(number);
    buf.put_u16(0);
    buf.put_u32(xid.0);
}

/// Writes the length of the message that began at `start`.
pub(super) fn finish_message(buf: &mut Vec<u8>, start: usize) -> Encode {
    let length = buf.len() - start;
    if length > MESSAGE_LEN_MAX {
        return Err(EncodeError::TooLong { length });
    }
    buf.patch_length(start + 2, start);
    Ok(())
}
