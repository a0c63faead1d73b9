//! Integer literals (specification §6.4.3.2): `123`, `0xFF`, `0b1010`, `0o17`, `0d19`, with a width as in
//! `8w255` (unsigned) or `8s127` (signed), underscores anywhere between digits.

use num_bigint::BigInt;
use num_traits::Num;

/// What a literal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integer {
    /// Its value as written, before it is fitted to the width.
    pub value: BigInt,
    /// Width in bits and whether it is signed; none of an `int`.
    pub width: Option<(u32, bool)>,
}

/// Widest literal.
const WIDTH_MAX: u32 = 65_535;

/// Reads a literal; the error says what is wrong with it.
pub fn integer(text: &str) -> Result<Integer, String> {
    let prefix = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (width, digits) = match text[prefix..].chars().next() {
        Some(c @ ('w' | 's')) => {
            let width: u32 = text[..prefix]
                .replace('_', "")
                .parse()
                .ok()
                .filter(|w| *w <= WIDTH_MAX)
                .ok_or_else(|| format!("a width is at most {WIDTH_MAX}"))?;
            if width == 0 && c == 's' {
                return Err("a signed number has at least one bit".into());
            }
            (Some((width, c == 's')), &text[prefix + 1..])
        }
        _ => (None, text),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0d" | "0D") => (10, &digits[2..]),
        _ => (10, digits),
    };
    let plain = digits.replace('_', "");
    if plain.is_empty() {
        return Err(format!("`{text}` lacks digits"));
    }
    if plain.len() > 20_000 {
        return Err("the number has more than 20,000 digits".into());
    }
    if let Some(c) = plain.chars().find(|c| !c.is_digit(radix)) {
        return Err(format!("`{c}` is no digit of a number to base {radix}"));
    }
    let value = BigInt::from_str_radix(&plain, radix).map_err(|e| e.to_string())?;
    Ok(Integer { value, width })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let value = |t: &str| integer(t).map(|i| (i.value.to_string(), i.width));
        assert_eq!(value("0xFf_00"), Ok(("65280".into(), None)));
        assert_eq!(value("8w0b1010_1010"), Ok(("170".into(), Some((8, false)))));
        assert_eq!(value("4s7"), Ok(("7".into(), Some((4, true)))));
        assert_eq!(value("0o17"), Ok(("15".into(), None)));
        assert_eq!(value("0d19"), Ok(("19".into(), None)));
        assert_eq!(value("16w0d19"), Ok(("19".into(), Some((16, false)))));
        assert_eq!(value("340282366920938463463374607431768211456").map(|v| v.0.len()), Ok(39));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for bad in ["0x", "8w", "0b2", "12ab", "99999999w1", "0s1", "0o8"] {
            assert!(integer(bad).is_err(), "{bad}");
        }
    }
}
