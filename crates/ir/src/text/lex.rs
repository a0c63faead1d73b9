//! Tokens of the text form.
//!
//! A newline or `;` separates statements, except inside parentheses and brackets, where a newline
//! is a blank. A `;` that comes first on its line, and `;;` anywhere, begin a comment that ends with
//! the line. A word takes dots and constant indices with it (`vlan[0].pcp`, `std.in_port`).

use super::error::Error;
use crate::bits::{Bits, WIDTH_MAX};

/// A number as written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Literal {
    /// The value, as wide as it needs.
    pub(super) value: Bits,
    /// The width given with it (`16w5`) or by its form (an address).
    pub(super) width: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Word(String),
    /// A name in quotes, never a keyword.
    Quoted(String),
    Literal(Literal),
    Punct(&'static str),
    /// A newline or `;`.
    Separator,
    End,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Word(w) => write!(f, "`{w}`"),
            Kind::Quoted(w) => write!(f, "{w:?}"),
            Kind::Literal(l) => write!(f, "the number {}", l.value),
            Kind::Punct(p) => write!(f, "`{p}`"),
            Kind::Separator => f.write_str("the end of the line"),
            Kind::End => f.write_str("the end of the text"),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Longest first.
const PUNCTS: [&str; 41] = [
    "&&&", "|+|", "|-|", ">>>", "=>", "->", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "++",
    "..", "{", "}", "(", ")", "[", "]", ",", ":", "=", "+", "-", "*", "&", "|", "^", "~", "!", "<",
    ">", "?", "/", "#", ".", "@", "%",
];

/// All tokens of a text whose first line has this number; the last one is `End`.
pub(super) fn tokens(text: &str, first_line: u32) -> Result<Vec<Token>, Error> {
    let mut out: Vec<Token> = Vec::new();
    let mut depth = 0u32;
    let mut end = (first_line, 1);
    for (i, line) in text.split('\n').enumerate() {
        let number = first_line.saturating_add(i as u32);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if !line.trim_start().starts_with(';') {
            Line { text: line, number, at: 0 }.tokens(&mut out, &mut depth)?;
        }
        let column = line.chars().count() as u32 + 1;
        end = (number, column);
        if depth == 0 {
            separate(&mut out, number, column);
        }
    }
    out.push(Token { kind: Kind::End, line: end.0, column: end.1 });
    Ok(out)
}

fn separate(out: &mut Vec<Token>, line: u32, column: u32) {
    if !matches!(out.last(), None | Some(Token { kind: Kind::Separator, .. })) {
        out.push(Token { kind: Kind::Separator, line, column });
    }
}

struct Line<'a> {
    text: &'a str,
    number: u32,
    at: usize,
}

impl Line<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn error(&self, text: String) -> Error {
        let column = self.text[..self.at].chars().count() as u32 + 1;
        Error { line: self.number, column, text }
    }

    fn tokens(&mut self, out: &mut Vec<Token>, depth: &mut u32) -> Result<(), Error> {
        loop {
            let blank = self.rest().len() - self.rest().trim_start().len();
            self.at += blank;
            if self.rest().is_empty() || self.rest().starts_with(";;") {
                return Ok(());
            }
            let column = self.text[..self.at].chars().count() as u32 + 1;
            if self.rest().starts_with(';') {
                self.at += 1;
                separate(out, self.number, column);
                continue;
            }
            let kind = self.token()?;
            match &kind {
                Kind::Punct("(" | "[") => *depth += 1,
                Kind::Punct(")" | "]") => *depth = depth.saturating_sub(1),
                _ => {}
            }
            out.push(Token { kind, line: self.number, column });
        }
    }

    fn token(&mut self) -> Result<Kind, Error> {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or(' ');
        if let Some((literal, len)) = address(rest) {
            self.at += len;
            return Ok(Kind::Literal(literal));
        }
        if first.is_ascii_digit() {
            return self.number();
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let len = word_len(rest);
            let word = rest[..len].to_string();
            self.at += len;
            return Ok(Kind::Word(word));
        }
        if first == '"' {
            return self.quoted();
        }
        for p in PUNCTS {
            if rest.starts_with(p) {
                self.at += p.len();
                return Ok(Kind::Punct(p));
            }
        }
        Err(self.error(format!("{first:?} begins nothing that is known here")))
    }

    fn quoted(&mut self) -> Result<Kind, Error> {
        let mut name = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += i + 1;
                    return Ok(Kind::Quoted(name));
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => name.push('\n'),
                    Some((_, 'r')) => name.push('\r'),
                    Some((_, c)) => name.push(c),
                    None => break,
                },
                c => name.push(c),
            }
        }
        Err(self.error("the quotes are not closed on this line".into()))
    }

    fn number(&mut self) -> Result<Kind, Error> {
        let rest = self.rest();
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let text: String = rest[..len].chars().filter(|c| *c != '_').collect();
        let (width, digits) = match text.split_once('w') {
            Some((w, digits)) => {
                let width = w.parse::<u32>().ok().filter(|w| *w <= WIDTH_MAX);
                let width = width.ok_or_else(|| {
                    self.error(format!("`{w}` is no width; 0 to {WIDTH_MAX} bits are allowed"))
                })?;
                (Some(width), digits)
            }
            None => (None, text.as_str()),
        };
        let value = digits_value(digits)
            .ok_or_else(|| self.error(format!("`{}` is no number", &rest[..len])))?;
        if let Some(w) = width
            && value.cast(w).cast(value.width()) != value
        {
            return Err(self.error(format!("{value} does not fit in {w} bits")));
        }
        self.at += len;
        Ok(Kind::Literal(Literal { value, width }))
    }
}

/// Length of the word at the start: a name, and every `.name` and `[index]` that follows.
pub(super) fn word_len(text: &str) -> usize {
    let b = text.as_bytes();
    let name = |mut i: usize| {
        while i < b.len() && (b[i].is_ascii_alphanumeric() || b[i] == b'_') {
            i += 1;
        }
        i
    };
    let mut i = name(0);
    loop {
        let next = b.get(i + 1).copied().unwrap_or(0);
        if b.get(i) == Some(&b'.') && (next.is_ascii_alphabetic() || next == b'_') {
            i = name(i + 1);
        } else if b.get(i) == Some(&b'[') && next.is_ascii_digit() {
            let mut j = i + 1;
            while j < b.len() && b[j].is_ascii_digit() {
                j += 1;
            }
            if b.get(j) != Some(&b']') {
                return i;
            }
            i = j + 1;
        } else {
            return i;
        }
    }
}

/// Decimal, `0x` or `0b`.
fn digits_value(text: &str) -> Option<Bits> {
    let radix = |digits: &str, bits_per_digit: u32| {
        let width = (digits.len() as u32).checked_mul(bits_per_digit)?;
        if digits.is_empty() || width > 2 * WIDTH_MAX {
            return None;
        }
        let mut bits = vec![0u8; (width as usize).div_ceil(8)];
        for (i, c) in digits.chars().rev().enumerate() {
            let d = c.to_digit(1 << bits_per_digit)?;
            let at = i * bits_per_digit as usize;
            let byte = bits.len() - 1 - at / 8;
            bits[byte] |= (d << (at % 8)) as u8;
        }
        Some(Bits::from_be_bytes(&bits, width.max(1)))
    };
    if let Some(hex) = text.strip_prefix("0x") {
        radix(hex, 4)
    } else if let Some(binary) = text.strip_prefix("0b") {
        radix(binary, 1)
    } else if text.bytes().all(|c| c.is_ascii_digit()) {
        Some(Bits::from_u128(text.parse().ok()?, 128))
    } else {
        None
    }
}

/// An IPv4, IPv6 or MAC address at the start of the text, and its length.
fn address(text: &str) -> Option<(Literal, usize)> {
    let run = |ok: fn(u8) -> bool| text.bytes().take_while(|b| ok(*b)).count();
    let lit = |bytes: &[u8]| {
        let width = bytes.len() as u32 * 8;
        Literal { value: Bits::from_be_bytes(bytes, width), width: Some(width) }
    };
    let len = run(|b| b.is_ascii_hexdigit() || b == b':');
    let colons = text[..len].bytes().filter(|b| *b == b':').count();
    if text[..len].contains("::") || colons >= 5 {
        if colons == 5 && len == 17 {
            let bytes: Option<Vec<u8>> =
                text[..len].split(':').map(|b| u8::from_str_radix(b, 16).ok()).collect();
            if let Some(bytes) = bytes.filter(|b| b.len() == 6) {
                return Some((lit(&bytes), len));
            }
        }
        let addr: std::net::Ipv6Addr = text[..len].parse().ok()?;
        return Some((lit(&addr.octets()), len));
    }
    let mut len = run(|b| b.is_ascii_digit() || b == b'.');
    if let Some(range) = text[..len].find("..") {
        len = range;
    }
    if text[..len].bytes().filter(|b| *b == b'.').count() == 3 {
        let addr: std::net::Ipv4Addr = text[..len].parse().ok()?;
        return Some((lit(&addr.octets()), len));
    }
    None
}
