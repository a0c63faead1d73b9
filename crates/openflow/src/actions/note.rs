//! Nicira's `note`: bytes for people, without effect. Notes also carry what other clients have no word for.

use super::row::{Row, foreign, head};
use super::text::dotted;
use crate::action::Action;
use crate::codec::writer::Put;
use crate::version::Version;

pub(super) static NOTE: Row = Row {
    name: "note",
    words: &[("note", Version::V10)],
    nicira: &[8],
    // `note:XX.XX...`: bytes in hexadecimal, filled up with zeros to 6, 14, ... of them.
    parse: Some(|word, _| {
        let mut bytes = dotted(word.arg()?)?;
        fill(&mut bytes);
        Ok(Action::Note(bytes))
    }),
    print: Some(|out, action, _| {
        let Action::Note(bytes) = action else { foreign(action) };
        out.write_str("note:")?;
        bytes
            .iter()
            .enumerate()
            .try_for_each(|(i, byte)| write!(out, "{}{byte:02x}", if i == 0 { "" } else { "." }))
    }),
    decode: Some(|_, r, _| Ok(Action::Note(r.rest().to_vec()))),
    encode: Some(|buf, action, _| {
        let Action::Note(bytes) = action else { foreign(action) };
        head(buf, 8);
        buf.extend_from_slice(bytes);
        Ok(())
    }),
    arbitrary: Some(|rng, _| {
        let mut bytes = rng.bytes(20);
        fill(&mut bytes);
        Action::Note(bytes)
    }),
    ..Row::EXTENSION
};

/// With the bytes in front of it a note is a multiple of eight.
fn fill(bytes: &mut Vec<u8>) {
    bytes.resize((bytes.len() + 2).next_multiple_of(8) - 2, 0);
}

/// Writes bytes as a note.
pub(crate) fn put_note(buf: &mut Vec<u8>, bytes: &[u8]) {
    let start = buf.len();
    head(buf, 8);
    buf.extend_from_slice(bytes);
    buf.pad_to_8(start);
    buf.patch_length(start + 2, start);
}
