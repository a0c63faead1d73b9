//! For tests, here and in other crates: random messages and the body of a fuzz target.

pub mod arbitrary;
mod groups;
pub(crate) mod parts;
pub(crate) mod rng;

pub use rng::Rng;

use crate::codec::{Frame, decode, encode, frame};
use crate::version::Version;

/// A fuzz target's body: bytes as a stream of messages, in every version.
///
/// Whatever decodes must encode, and what that gives must decode to the same message.
///
/// # Panics
/// When it does not; that is the finding.
pub fn fuzz_decode(data: &[u8]) {
    let mut rest = data;
    while let Frame::Message { length } = frame(rest) {
        let (message, tail) = rest.split_at(length);
        rest = tail;
        for version in Version::ALL {
            check_stable(version, message);
        }
    }
}

/// Decodes `bytes`; if that goes well, checks that encoding and decoding again changes nothing.
///
/// # Panics
/// When it does.
pub fn check_stable(version: Version, bytes: &[u8]) {
    let Ok((xid, message)) = decode(version, bytes) else { return };
    // A hello or an error may be of another version than the connection's.
    let version = bytes.first().copied().and_then(Version::from_wire).unwrap_or(version);
    let encoded = match encode(version, xid, &message) {
        Ok(encoded) => encoded,
        Err(error) => panic!("{message:?} was decoded, but: {error}"),
    };
    match decode(version, &encoded) {
        Ok(again) => assert_eq!((xid, message), again, "decoded, encoded, decoded"),
        Err(error) => panic!("{message:?} was decoded and encoded, but: {error}"),
    }
}
