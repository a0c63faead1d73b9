//! The string of an annotation, and its tokens.

/// What is wrong with a restriction's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {text}")]
pub struct Wrong {
    /// Where, in characters from 1.
    pub column: usize,
    /// What.
    pub text: String,
}

/// Bytes of a restriction's text, at most.
const TEXT_MAX: usize = 1 << 16;

/// Tokens of a restriction's text, at most: what the stack is enough for.
const TOKENS_MAX: usize = 2048;

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tok {
    /// A name, dots included.
    Name(String),
    /// A number, highest byte first.
    Number(Vec<u8>),
    /// A string in single quotes.
    Quoted(String),
    /// Punctuation.
    Sign(&'static str),
    End,
}

/// A token and where it is.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) tok: Tok,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// What is wrong at a byte of a text.
pub(super) fn wrong(text: &str, at: usize, what: impl Into<String>) -> Wrong {
    let before = text.get(..at).unwrap_or(text);
    Wrong { column: before.chars().count() + 1, text: what.into() }
}

/// The string of an annotation with this name, as a P4Info has it; strings one after the other are one.
pub(super) fn string_of(annotation: &str, word: &str) -> Option<Result<String, Wrong>> {
    let rest = annotation.trim().strip_prefix('@')?.strip_prefix(word)?.trim_start();
    let body = rest.strip_prefix('(')?.trim_end().strip_suffix(')')?;
    let bad = |text: &str| Some(Err(Wrong { column: 1, text: text.to_owned() }));
    if body.len() > TEXT_MAX {
        return bad(&format!("a text of {} bytes; {TEXT_MAX} is the most", body.len()));
    }
    let mut out = String::new();
    let mut chars = body.chars();
    let mut inside = false;
    while let Some(c) = chars.next() {
        match (inside, c) {
            (_, '"') => inside = !inside,
            (true, '\\') => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(c @ ('"' | '\\' | '\'')) => out.push(c),
                _ => return bad("an escape is \\n, \\t, \\\", \\' or \\\\"),
            },
            (true, c) => out.push(c),
            (false, c) if c.is_whitespace() => {}
            (false, _) => return bad("the annotation's body is no string"),
        }
    }
    match inside {
        true => bad("the string does not end"),
        false => Some(Ok(out)),
    }
}

const SIGNS: &[&str] =
    &["::", "&&", "||", "->", "==", "!=", "<=", ">=", "<", ">", ";", "!", "-", "(", ")"];

/// The tokens of a text.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Wrong> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").ok_or_else(|| wrong(text, at, "the comment does not end"))?;
            at += end + 2;
        } else {
            let (tok, len) = token(text, at, c)?;
            out.push(Token { tok, from: at, to: at + len });
            at += len;
        }
    }
    if out.len() > TOKENS_MAX {
        return Err(wrong(
            text,
            0,
            format!("{} words and signs; {TOKENS_MAX} is the most", out.len()),
        ));
    }
    out.push(Token { tok: Tok::End, from: text.len(), to: text.len() });
    Ok(out)
}

fn token(text: &str, at: usize, c: char) -> Result<(Tok, usize), Wrong> {
    let rest = &text[at..];
    let run = |good: fn(char) -> bool| rest.find(|c| !good(c)).unwrap_or(rest.len());
    if c.is_ascii_digit() {
        let len = run(|c| c.is_ascii_alphanumeric());
        let bytes = number(&rest[..len]);
        let bytes =
            bytes.ok_or_else(|| wrong(text, at, format!("`{}` is no number", &rest[..len])))?;
        return Ok((Tok::Number(bytes), len));
    }
    if c.is_ascii_alphabetic() || c == '_' {
        let len = run(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '[' | ']'));
        return Ok((Tok::Name(rest[..len].to_owned()), len));
    }
    if c == '\'' {
        let end = rest[1..].find('\'').ok_or_else(|| wrong(text, at, "the string does not end"))?;
        return Ok((Tok::Quoted(rest[1..=end].to_owned()), end + 2));
    }
    match SIGNS.iter().copied().find(|s| rest.starts_with(s)) {
        Some(sign) => Ok((Tok::Sign(sign), sign.len())),
        None => Err(wrong(text, at, format!("`{c}` is no operator"))),
    }
}

/// A number's bytes, highest first, without zeros in front.
fn number(text: &str) -> Option<Vec<u8>> {
    let (base, digits) = match text.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (16, &text[2..]),
        Some("0o") => (8, &text[2..]),
        Some("0b") => (2, &text[2..]),
        Some("0d") => (10, &text[2..]),
        _ => (10, text),
    };
    if digits.is_empty() || digits.len() > 1024 {
        return None;
    }
    let mut bytes: Vec<u8> = Vec::new();
    for d in digits.chars() {
        let mut carry = d.to_digit(base)?;
        for b in bytes.iter_mut().rev() {
            let n = u32::from(*b) * base + carry;
            *b = n as u8;
            carry = n >> 8;
        }
        if carry > 0 {
            bytes.insert(0, carry as u8);
        }
    }
    Some(bytes)
}

/// The bytes of an address.
pub(super) fn address(kind: &str, text: &str) -> Option<Vec<u8>> {
    match kind {
        "ipv4" => Some(text.parse::<std::net::Ipv4Addr>().ok()?.octets().to_vec()),
        "ipv6" => Some(text.parse::<std::net::Ipv6Addr>().ok()?.octets().to_vec()),
        "mac" => {
            let parts: Vec<&str> = text.split(':').collect();
            let byte = |p: &&str| u8::from_str_radix(p, 16).ok().filter(|_| p.len() == 2);
            let bytes: Vec<u8> = parts.iter().filter_map(byte).collect();
            (parts.len() == 6 && bytes.len() == 6).then_some(bytes)
        }
        _ => None,
    }
}
