//! `#if` arithmetic as C's preprocessor does it: 64 bits, signed unless an operand is unsigned; names that are
//! no macros are 0.

use crate::lex::{Tok, Token};

/// Conditions inside of conditions, at most.
const DEPTH_MAX: usize = 512;

/// Operators of two operands, those that bind least first.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", ">", "<=", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// Whether a condition holds; or which token is at fault, and why.
pub(super) fn holds(tokens: &[Token]) -> Result<bool, (usize, String)> {
    let mut c = Arithmetic { tokens, at: 0, depth: 0, idle: 0 };
    match c.list() {
        Ok(value) if c.at == tokens.len() => Ok(value.truth()),
        Ok(_) => Err((c.at, "the condition ends before this".into())),
        Err(text) => Err((c.at, text)),
    }
}

/// A number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    bits: u64,
    unsigned: bool,
}

impl Value {
    fn signed(value: i64) -> Value {
        Value { bits: value.cast_unsigned(), unsigned: false }
    }

    fn bool(value: bool) -> Value {
        Value::signed(value.into())
    }

    fn truth(self) -> bool {
        self.bits != 0
    }

    /// To the left by so many bits; to the right, if it is negative.
    fn shift(self, by: i128) -> Value {
        let bits = match u32::try_from(by.unsigned_abs()).unwrap_or(u32::MAX) {
            n if by >= 0 => self.bits.checked_shl(n).unwrap_or(0),
            n if self.unsigned => self.bits.checked_shr(n).unwrap_or(0),
            n => (self.bits.cast_signed() >> n.min(63)).cast_unsigned(),
        };
        Value { bits, ..self }
    }

    /// As a count to shift by.
    fn count(self) -> i128 {
        match self.unsigned {
            true => self.bits.into(),
            false => self.bits.cast_signed().into(),
        }
    }

    /// An operator other than division. Both operands are unsigned if one is.
    fn apply(self, op: &str, other: Value) -> Value {
        let unsigned = self.unsigned || other.unsigned;
        let (a, b) = (self.bits, other.bits);
        let less = |a: u64, b: u64| match unsigned {
            true => a < b,
            false => a.cast_signed() < b.cast_signed(),
        };
        let bits = match op {
            "||" => return Value::bool(self.truth() || other.truth()),
            "&&" => return Value::bool(self.truth() && other.truth()),
            "==" => return Value::bool(a == b),
            "!=" => return Value::bool(a != b),
            "<" => return Value::bool(less(a, b)),
            ">" => return Value::bool(less(b, a)),
            "<=" => return Value::bool(!less(b, a)),
            ">=" => return Value::bool(!less(a, b)),
            "<<" => return self.shift(other.count()),
            ">>" => return self.shift(-other.count()),
            "|" => a | b,
            "^" => a ^ b,
            "&" => a & b,
            "+" => a.wrapping_add(b),
            "-" => a.wrapping_sub(b),
            _ => a.wrapping_mul(b),
        };
        Value { bits, unsigned }
    }

    /// Quotient or remainder; none by zero.
    fn divide(self, op: &str, other: Value) -> Option<Value> {
        let unsigned = self.unsigned || other.unsigned;
        let (a, b) = (self.bits, other.bits);
        if b == 0 {
            return None;
        }
        let (x, y) = (a.cast_signed(), b.cast_signed());
        let bits = match (op, unsigned) {
            ("/", true) => a / b,
            ("/", false) => x.wrapping_div(y).cast_unsigned(),
            (_, true) => a % b,
            (_, false) => x.wrapping_rem(y).cast_unsigned(),
        };
        Some(Value { bits, unsigned })
    }
}

struct Arithmetic<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    /// What is read now does not matter (`0 && ...`): there may be divisions by zero.
    idle: usize,
}

impl Arithmetic<'_> {
    fn peek(&self) -> Option<&str> {
        let greater = |t: &Token| t.tok == Tok::P(">");
        match &self.tokens.get(self.at)?.tok {
            // Two tokens to P4.
            Tok::P(">")
                if self.tokens.get(self.at + 1).is_some_and(|t| greater(t) && !t.spaced) =>
            {
                Some(">>")
            }
            Tok::P(p) => Some(p),
            _ => None,
        }
    }

    /// Values with commas between: the last.
    fn list(&mut self) -> Result<Value, String> {
        let mut value = self.value(0)?;
        while self.peek() == Some(",") {
            self.at += 1;
            value = self.value(0)?;
        }
        Ok(value)
    }

    fn value(&mut self, level: usize) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("the condition is nested too deeply".into());
        }
        let result = self.value_inside(level);
        self.depth -= 1;
        result
    }

    fn value_inside(&mut self, level: usize) -> Result<Value, String> {
        let Some(ops) = LEVELS.get(level) else { return self.unary() };
        let mut a = self.value(level + 1)?;
        while let Some(op) = self.peek().and_then(|p| ops.iter().find(|o| **o == p)).copied() {
            self.at += if op == ">>" { 2 } else { 1 };
            let idle = usize::from(op == "&&" && !a.truth() || op == "||" && a.truth());
            self.idle += idle;
            let b = self.value(level + 1);
            self.idle -= idle;
            let b = b?;
            a = match op {
                "/" | "%" => match a.divide(op, b) {
                    Some(value) => value,
                    None if self.idle > 0 => a,
                    None => return Err("division by zero".into()),
                },
                _ => a.apply(op, b),
            };
        }
        if level == 0 && self.peek() == Some("?") {
            self.at += 1;
            self.idle += usize::from(!a.truth());
            let yes = self.list();
            self.idle -= usize::from(!a.truth());
            let yes = yes?;
            if self.peek() != Some(":") {
                return Err("`?` needs a `:`".into());
            }
            self.at += 1;
            self.idle += usize::from(a.truth());
            let no = self.value(0);
            self.idle -= usize::from(a.truth());
            let no = no?;
            let unsigned = yes.unsigned || no.unsigned;
            return Ok(Value { unsigned, ..if a.truth() { yes } else { no } });
        }
        Ok(a)
    }

    fn unary(&mut self) -> Result<Value, String> {
        let Some(token) = self.tokens.get(self.at) else {
            return Err("the condition ends where a value should be".into());
        };
        self.at += 1;
        match &token.tok {
            Tok::Int(text) => number(text),
            Tok::Char(text) => character(text).inspect_err(|_| self.at -= 1),
            Tok::Kw("true") => Ok(Value::signed(1)),
            Tok::Ident(_) | Tok::Kw(_) => Ok(Value::signed(0)),
            Tok::P("(") => {
                let v = self.list()?;
                if self.peek() != Some(")") {
                    return Err("a `)` is missing".into());
                }
                self.at += 1;
                Ok(v)
            }
            Tok::P(op @ ("!" | "-" | "+" | "~")) => {
                let op = *op;
                let v = self.value(LEVELS.len())?;
                Ok(match op {
                    "!" => Value::bool(!v.truth()),
                    "-" => Value { bits: v.bits.wrapping_neg(), ..v },
                    "~" => Value { bits: !v.bits, ..v },
                    _ => v,
                })
            }
            other => {
                self.at -= 1;
                Err(format!("{} is no value", other.describe()))
            }
        }
    }
}

/// A number of C or of P4. One that is too large to be signed is unsigned.
fn number(text: &str) -> Result<Value, String> {
    let bare = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let large = |_| "the number is too large".to_string();
    let octal = bare.len() > 1 && bare.starts_with('0') && bare.bytes().all(|b| b.is_ascii_digit());
    let bits = if octal {
        u64::from_str_radix(bare, 8).map_err(|e| format!("`{text}`: {e}"))?
    } else {
        let read = crate::literal::integer(text)
            .or_else(|e| crate::literal::integer(bare).map_err(|_| e))?;
        match i64::try_from(&read.value) {
            Ok(value) => value.cast_unsigned(),
            Err(_) => u64::try_from(&read.value).map_err(large)?,
        }
    };
    let suffix = &text[bare.len()..];
    let unsigned = suffix.contains(['u', 'U']) || bits.cast_signed() < 0;
    Ok(Value { bits, unsigned })
}

/// A character constant: bytes, the last four of which count, as C's compilers do. One by itself is signed.
fn character(text: &str) -> Result<Value, String> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let mut digits = |radix: u32, max: usize, mut value: u32| {
            let mut count = 0;
            while let Some(d) = rest.peek().filter(|_| count < max).and_then(|c| c.to_digit(radix))
            {
                value = value.wrapping_mul(radix) + d;
                rest.next();
                count += 1;
            }
            (count, value)
        };
        let byte = match digits(8, 3, 0) {
            (0, _) => match rest.next() {
                Some('x') => {
                    let mut value = None;
                    while let Some(d) = rest.peek().and_then(|c| c.to_digit(16)) {
                        value = Some(value.unwrap_or(0u32) << 4 | d);
                        rest.next();
                    }
                    value.ok_or("`\\x` needs hexadecimal digits")?
                }
                Some('n') => 10,
                Some('t') => 9,
                Some('r') => 13,
                Some('a') => 7,
                Some('b') => 8,
                Some('f') => 12,
                Some('v') => 11,
                Some('e' | 'E') => 27,
                Some(other) => other.into(),
                None => return Err("a character is missing behind `\\`".into()),
            },
            (_, value) => value,
        };
        bytes.push((byte & 0xff) as u8);
    }
    match bytes[..] {
        [] => Err("a character is missing between the quotes".into()),
        [one] => Ok(Value::signed(one.cast_signed().into())),
        _ => {
            let value = bytes.iter().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
            Ok(Value::signed(value.cast_signed().into()))
        }
    }
}
