//! Cutting a line into words with values, each part knowing its place.
//!
//! A word is a key, which ends at a blank, a comma, `:`, `=` or `(`, and perhaps a value: after `:`
//! or `=` up to the next blank or comma outside parentheses; after `(` up to the `)` that closes it.
//! Blanks and commas separate words, in any number, as for `ovs-ofctl`.

use super::context::Context;
use super::error::{Fault, SyntaxError};
use crate::ids::PortNo;
use crate::version::Version;

/// A part of the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) text: &'a str,
    /// Bytes of the line before it.
    pub(crate) at: usize,
}

pub(crate) type Result<T> = std::result::Result<T, SyntaxError>;

fn is_separator(c: char) -> bool {
    matches!(c, ',' | ' ' | '\t' | '\r' | '\n')
}

impl<'a> Piece<'a> {
    /// The whole line.
    pub(crate) fn line(text: &'a str) -> Piece<'a> {
        Piece { text, at: 0 }
    }

    pub(crate) fn error(self, fault: Fault) -> SyntaxError {
        SyntaxError::new(self.at, self.text, fault)
    }

    pub(crate) fn expected(self, what: impl Into<String>) -> SyntaxError {
        self.error(Fault::Expected(what.into()))
    }

    pub(crate) fn refused(self, why: impl Into<String>) -> SyntaxError {
        self.error(Fault::Refused(why.into()))
    }

    /// The bytes from `from` on.
    fn from(self, from: usize) -> Piece<'a> {
        Piece { text: &self.text[from..], at: self.at + from }
    }

    /// The bytes before `to`.
    fn to(self, to: usize) -> Piece<'a> {
        Piece { text: &self.text[..to], at: self.at }
    }

    /// Without blanks and commas at its ends.
    pub(crate) fn trim(self) -> Piece<'a> {
        let start = self.text.len() - self.text.trim_start_matches(is_separator).len();
        let piece = self.from(start);
        piece.to(piece.text.trim_end_matches(is_separator).len())
    }

    /// What is before and after the first `sign`.
    pub(crate) fn split_once(self, sign: &str) -> Option<(Piece<'a>, Piece<'a>)> {
        let i = self.text.find(sign)?;
        Some((self.to(i), self.from(i + sign.len())))
    }

    pub(crate) fn is(self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }

    /// Without these signs at its ends.
    pub(crate) fn strip(self, signs: &[char]) -> Piece<'a> {
        let start = self.text.len() - self.text.trim_start_matches(signs).len();
        let piece = self.from(start);
        piece.to(piece.text.trim_end_matches(signs).len())
    }

    /// What stands between commas outside parentheses, without blanks around.
    pub(crate) fn list(self) -> Vec<Piece<'a>> {
        let (mut all, mut start, mut depth) = (Vec::new(), 0, 0usize);
        for (i, c) in self.text.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    all.push(self.to(i).from(start).trim());
                    start = i + 1;
                }
                _ => {}
            }
        }
        all.push(self.from(start).trim());
        all.retain(|piece| !piece.text.is_empty());
        all
    }

    /// A number of at most `bits` bits: decimal, `0x` hexadecimal, or octal with a leading 0.
    pub(crate) fn number(self, bits: u32) -> Result<u64> {
        let text = self.text;
        let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
            None => (text, 10),
        };
        // `from_str_radix` takes a sign.
        let number = match digits.starts_with(['+', '-']) {
            true => None,
            false => u64::from_str_radix(digits, radix).ok(),
        };
        let max = u64::MAX >> (64 - bits);
        number
            .filter(|n| *n <= max)
            .ok_or_else(|| self.expected(format!("a number from 0 to {max}")))
    }

    pub(crate) fn u8(self) -> Result<u8> {
        self.number(8).map(|n| n as u8)
    }

    pub(crate) fn u16(self) -> Result<u16> {
        self.number(16).map(|n| n as u16)
    }

    pub(crate) fn u32(self) -> Result<u32> {
        self.number(32).map(|n| n as u32)
    }

    /// A port by number or name. The decimal numbers of OpenFlow 1.0's reserved ports name those in every version, since
    /// scripts written for 1.0 have them.
    pub(crate) fn port(self, cx: &Context<'_>) -> Result<PortNo> {
        if self.text.starts_with(|c: char| c.is_ascii_digit())
            && let Ok(number) = self.number(32)
        {
            let decimal = self.text.bytes().all(|c| c.is_ascii_digit());
            return match cx.version {
                Version::V10 => u16::try_from(number)
                    .map(PortNo::from_v10)
                    .map_err(|_| self.expected("a port of OpenFlow10, from 0 to 65535")),
                _ => Ok(match u16::try_from(number) {
                    // In hexadecimal it is the number that it says.
                    Ok(short) if PortNo::V10_RESERVED.contains(&short) && decimal => {
                        PortNo::from_v10(short)
                    }
                    _ => PortNo(number as u32),
                }),
            };
        }
        self.port_name(cx).ok_or_else(|| self.expected("a port's number or name"))
    }

    /// A port by name.
    pub(crate) fn port_name(self, cx: &Context<'_>) -> Option<PortNo> {
        if self.is("none") {
            return Some(PortNo::ANY);
        }
        if let Some((port, _)) = PortNo::RESERVED.into_iter().find(|(_, name)| self.is(name)) {
            return Some(port);
        }
        let quoted = self.text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
        (cx.ports)(quoted.unwrap_or(self.text))
    }

    /// Bytes as pairs of hexadecimal digits.
    pub(crate) fn hex_bytes(self) -> Result<Vec<u8>> {
        let digits = self.text.as_bytes();
        let pair = |pair: &[u8]| {
            let digit = |c: u8| char::from(c).to_digit(16);
            match pair {
                [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
                _ => None,
            }
        };
        digits
            .chunks(2)
            .map(pair)
            .collect::<Option<Vec<u8>>>()
            .ok_or_else(|| self.expected("pairs of hexadecimal digits"))
    }
}

/// A word of the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) key: Piece<'a>,
    pub(crate) value: Option<Piece<'a>>,
    /// Key, value and what is between.
    pub(crate) whole: Piece<'a>,
    /// From where the value begins to the line's end.
    pub(crate) rest: Piece<'a>,
}

impl<'a> Word<'a> {
    /// The value, which must be there.
    pub(crate) fn arg(&self) -> Result<Piece<'a>> {
        match self.value {
            Some(value) if !value.text.is_empty() => Ok(value),
            _ => Err(self.end().expected(format!("a value for `{}`", self.key.text))),
        }
    }

    /// Whether it has this value.
    pub(crate) fn value_is(&self, text: &str) -> bool {
        self.value.is_some_and(|value| value.is(text))
    }

    /// Checks that there is no value.
    pub(crate) fn bare(&self) -> Result<()> {
        match self.value {
            None => Ok(()),
            Some(value) if value.text.is_empty() && self.parenthesised() => Ok(()),
            Some(_) => Err(self.whole.refused(format!("`{}` takes no value", self.key.text))),
        }
    }

    /// Whether the value stands in parentheses right behind the key.
    pub(crate) fn parenthesised(&self) -> bool {
        self.whole.text[self.key.text.len()..].starts_with('(')
    }

    /// The empty piece where the word ends.
    fn end(&self) -> Piece<'a> {
        self.whole.from(self.whole.text.len())
    }

    pub(crate) fn extension(&self) -> SyntaxError {
        self.key.error(Fault::Extension)
    }

    pub(crate) fn not_in(&self, version: Version, what: &'static str) -> SyntaxError {
        self.key.error(Fault::NotIn { version, what })
    }
}

/// The words of a piece, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    rest: Piece<'a>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(piece: Piece<'a>) -> Words<'a> {
        Words { rest: piece }
    }

    /// The next word; nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Word<'a>>> {
        let rest = self.rest.trim();
        if rest.text.is_empty() {
            return Ok(None);
        }
        let is_end = |c: char| is_separator(c) || matches!(c, ':' | '=' | '(');
        let key_len = rest.text.find(is_end).unwrap_or(rest.text.len());
        let key = rest.to(key_len);
        let sign = rest.text[key_len..].chars().next();
        let after = rest.from(key_len + usize::from(sign.is_some()));
        let (value, whole_len) = match sign {
            Some(':' | '=') => {
                let len = value_len(after)?;
                (Some(after.to(len)), key_len + 1 + len)
            }
            Some('(') => {
                let len = closing(after)?;
                match after.from(len + 1) {
                    // `check_pkt_larger(1500)->FIELD[0]`: the value ends behind the arrow's target.
                    arrow if arrow.text.starts_with("->") => {
                        let len = len + 1 + value_len(arrow)?;
                        (Some(after.to(len)), key_len + 1 + len)
                    }
                    _ => (Some(after.to(len)), key_len + len + 2),
                }
            }
            _ => (None, key_len),
        };
        let whole = rest.to(whole_len);
        if key.text.is_empty() {
            return Err(whole.expected("a word"));
        }
        self.rest = rest.from(whole_len);
        if sign == Some('(')
            && !self.rest.text.is_empty()
            && !self.rest.text.starts_with(is_separator)
        {
            return Err(self.rest.expected("a comma after `)`"));
        }
        Ok(Some(Word { key, value, whole, rest: after }))
    }
}

/// Where the first blank or comma outside parentheses is.
fn value_len(piece: Piece<'_>) -> Result<usize> {
    let mut depth = 0usize;
    let mut open = 0;
    for (i, c) in piece.text.char_indices() {
        match c {
            '(' => {
                open = if depth == 0 { i } else { open };
                depth += 1;
            }
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 && is_separator(c) => return Ok(i),
            _ => {}
        }
    }
    match depth {
        0 => Ok(piece.text.len()),
        _ => Err(piece.from(open).refused("`)` is missing")),
    }
}

/// Where the `)` is that closes a `(` just before the piece.
fn closing(piece: Piece<'_>) -> Result<usize> {
    let mut depth = 1usize;
    for (i, c) in piece.text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return Ok(i),
            ')' => depth -= 1,
            _ => {}
        }
    }
    Err(piece.refused("`)` is missing"))
}
