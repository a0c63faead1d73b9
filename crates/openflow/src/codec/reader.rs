//! Reading bytes in network order, with an error that says where and what.
//!
//! A [`Reader`] covers one structure of a message; a structure within has a reader of its own, whose
//! error code is that structure's "bad length". No read goes beyond the structure.

use crate::error::{ErrorCode, ErrorMessage};
use crate::field::FieldId;
use crate::flow_match::MatchError;
use crate::ids::MacAddr;
use thiserror::Error;

/// Why bytes are no message, and what to answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{fault}, at byte {offset} ({code})")]
pub struct DecodeError {
    /// The error to answer with.
    pub code: ErrorCode,
    /// Where, in bytes from the start of the message.
    pub offset: usize,
    /// What is wrong.
    pub fault: DecodeFault,
}

impl DecodeError {
    /// The error message that refuses `request` (its bytes from the header on).
    pub fn answer(&self, request: &[u8]) -> ErrorMessage {
        ErrorMessage::refuse(self.code, request)
    }
}

/// What is wrong with the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeFault {
    /// A structure ends too soon.
    #[error("{what} ends too soon: {need} bytes needed, {left} left")]
    Short {
        /// The structure.
        what: &'static str,
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        left: usize,
    },
    /// A structure has bytes too many.
    #[error("{what} has {left} bytes too many")]
    Trailing {
        /// The structure.
        what: &'static str,
        /// Bytes too many.
        left: usize,
    },
    /// A length is wrong.
    #[error("{what} has length {got}; {right} is right")]
    Length {
        /// Of what.
        what: &'static str,
        /// As it is.
        got: usize,
        /// What would be right.
        right: &'static str,
    },
    /// A value is wrong.
    #[error("{what} is {got:#x}; {right} is right")]
    Value {
        /// Of what.
        what: &'static str,
        /// As it is.
        got: u128,
        /// What would be right.
        right: &'static str,
    },
    /// What is said of a field is wrong.
    #[error("{what} of {field} is {got:#x}; {right} is right")]
    Field {
        /// What of it.
        what: &'static str,
        /// Its name.
        field: &'static str,
        /// As it is.
        got: u128,
        /// What would be right.
        right: &'static str,
    },
    /// A field that this switch does not have.
    #[error("{field} (header {header:#010x}) is no field that this switch has here")]
    UnknownField {
        /// Its name, as far as it is known.
        field: &'static str,
        /// Its header.
        header: u32,
    },
    /// Something that is known by name and not done here.
    #[error("{what} {subtype}, {name}, is not there")]
    Absent {
        /// What kind of thing.
        what: &'static str,
        /// Its name.
        name: &'static str,
        /// Its number.
        subtype: u16,
    },
    /// The match is wrong.
    #[error("{0}")]
    Match(MatchError),
}

pub(crate) type Result<T> = std::result::Result<T, DecodeError>;

/// The bytes of one structure, read from the front.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// Offset in the message of the end of `bytes`.
    end: usize,
    what: &'static str,
    code: ErrorCode,
}

impl<'a> Reader<'a> {
    /// A reader of a structure that begins at byte `offset` of the message; reading beyond it is
    /// error `code`.
    pub(crate) fn new(
        bytes: &'a [u8],
        offset: usize,
        what: &'static str,
        code: ErrorCode,
    ) -> Reader<'a> {
        Reader { bytes, end: offset + bytes.len(), what, code }
    }

    /// The rest of this structure under another name and code.
    pub(crate) fn named(self, what: &'static str, code: ErrorCode) -> Reader<'a> {
        Reader { what, code, ..self }
    }

    pub(crate) fn offset(&self) -> usize {
        self.end - self.bytes.len()
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[cold]
    fn short(&self, need: usize) -> DecodeError {
        self.error(self.code, DecodeFault::Short { what: self.what, need, left: self.bytes.len() })
    }

    /// An error at the present place.
    #[cold]
    pub(crate) fn error(&self, code: ErrorCode, fault: DecodeFault) -> DecodeError {
        DecodeError { code, offset: self.offset(), fault }
    }

    /// A wrong value, just before the present place.
    #[cold]
    pub(crate) fn bad_value(
        &self,
        code: ErrorCode,
        what: &'static str,
        got: impl Into<u128>,
        right: &'static str,
    ) -> DecodeError {
        self.error(code, DecodeFault::Value { what, got: got.into(), right })
    }

    /// The same of a field.
    #[cold]
    pub(crate) fn bad_field(
        &self,
        code: ErrorCode,
        what: &'static str,
        field: FieldId,
        got: impl Into<u128>,
        right: &'static str,
    ) -> DecodeError {
        let field = field.info().ofctl[0];
        self.error(code, DecodeFault::Field { what, field, got: got.into(), right })
    }

    /// A wrong length of this structure.
    #[cold]
    pub(crate) fn bad_length(&self, got: usize, right: &'static str) -> DecodeError {
        self.error(self.code, DecodeFault::Length { what: self.what, got, right })
    }

    #[inline]
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        match self.bytes.split_at_checked(n) {
            Some((head, tail)) => {
                self.bytes = tail;
                Ok(head)
            }
            None => Err(self.short(n)),
        }
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.bytes.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.bytes = tail;
                Ok(*head)
            }
            None => Err(self.short(N)),
        }
    }

    pub(crate) fn skip(&mut self, n: usize) -> Result<()> {
        self.take(n).map(|_| ())
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn mac(&mut self) -> Result<MacAddr> {
        self.array().map(MacAddr)
    }

    /// A number of `n` bytes, at most 16.
    #[inline]
    pub(crate) fn number(&mut self, n: usize) -> Result<u128> {
        Ok(match n {
            1 => self.u8()?.into(),
            2 => self.u16()?.into(),
            4 => self.u32()?.into(),
            6 => self.mac()?.to_u64().into(),
            8 => self.u64()?.into(),
            _ => self.take(n)?.iter().fold(0, |v, b| v << 8 | u128::from(*b)),
        })
    }

    /// A text in `n` bytes with a NUL at its end, where the last byte always counts as one. Bytes
    /// that are no UTF-8 are replaced, and what then goes beyond `n` bytes is cut.
    pub(crate) fn text(&mut self, n: usize) -> Result<String> {
        let bytes = &self.take(n)?[..n - 1];
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(n - 1);
        let mut text = String::from_utf8_lossy(&bytes[..end]).into_owned();
        text.truncate(text.floor_char_boundary(n - 1));
        Ok(text)
    }

    /// All bytes that are left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    /// The 16-bit number `at` bytes ahead.
    pub(crate) fn peek_u16(&self, at: usize) -> Result<u16> {
        match self.bytes.get(at..at + 2) {
            Some(b) => Ok(u16::from_be_bytes([b[0], b[1]])),
            None => Err(self.short(at + 2)),
        }
    }

    /// A reader of the next `n` bytes, which are a structure named `what`.
    pub(crate) fn sub(
        &mut self,
        n: usize,
        what: &'static str,
        code: ErrorCode,
    ) -> Result<Reader<'a>> {
        let offset = self.offset();
        let inner = Reader { what, code, ..*self };
        match self.bytes.split_at_checked(n) {
            Some((head, tail)) => {
                self.bytes = tail;
                Ok(Reader::new(head, offset, what, code))
            }
            None => Err(inner.short(n)),
        }
    }

    /// A reader of the structure that comes next and has its own length `length_at` bytes in, which
    /// must be at least `min` (and more than the length's own place).
    pub(crate) fn element(
        &mut self,
        length_at: usize,
        min: usize,
        what: &'static str,
        code: ErrorCode,
    ) -> Result<Reader<'a>> {
        let ahead = self.named(what, code);
        let length = usize::from(ahead.peek_u16(length_at)?);
        if length < min {
            return Err(ahead.bad_length(length, "more"));
        }
        self.sub(length, what, code)
    }

    /// The structure ends here.
    pub(crate) fn finish(self) -> Result<()> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(self.error(
                self.code,
                DecodeFault::Trailing { what: self.what, left: self.bytes.len() },
            ))
        }
    }
}
