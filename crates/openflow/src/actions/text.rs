//! What the texts of several actions have in common.

use super::row::Parsed;
use crate::syntax::piece::{Piece, Word};

/// Bytes with dots between.
pub(super) fn dotted(arg: Piece<'_>) -> Parsed<Vec<u8>> {
    let byte = |text: &str| u8::from_str_radix(text, 16).ok().filter(|_| text.len() == 2);
    let bytes: Option<Vec<u8>> = arg.text.split('.').map(byte).collect();
    bytes.ok_or_else(|| arg.expected("bytes of two hexadecimal digits with dots between"))
}

/// `experimenter:ID:BYTES`, the bytes in hexadecimal, a multiple of eight of them.
pub(crate) fn experimenter(word: &Word<'_>) -> Parsed<(u32, Vec<u8>)> {
    let arg = word.arg()?;
    let Some((id, bytes)) = arg.split_once(":") else {
        return Err(arg.expected(format!("`{}:ID:BYTES`", word.key.text)));
    };
    let data = bytes.hex_bytes()?;
    if data.len() % 8 != 0 {
        return Err(bytes.expected("a multiple of 8 bytes"));
    }
    Ok((id.u32()?, data))
}
