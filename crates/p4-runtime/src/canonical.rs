//! Byte strings of values (P4Runtime §8.4): big-endian, any number of zeros in front read, none written.

use crate::code::Code;
use ir::Bits;

/// Why bytes are no value of a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// There are no bytes.
    #[error("is empty; zero is one byte 0x00")]
    Empty,
    /// The value is too large.
    #[error("needs {has} bits; the width is {width}")]
    Wide {
        /// Bits that it has.
        has: u64,
        /// Bits that it may have.
        width: u32,
    },
    /// A string is too long.
    #[error("is a string of more than {most} bytes")]
    Long {
        /// Bytes that it may have.
        most: usize,
    },
    /// A string says a number that another one has.
    #[error("says a number that another string stands for")]
    Taken,
    /// All numbers of the type have strings.
    #[error("finds no number: all of its type are taken by other strings")]
    Full,
}

impl Misfit {
    /// Its canonical code.
    pub fn code(self) -> Code {
        match self {
            Misfit::Empty | Misfit::Long { .. } | Misfit::Taken => Code::InvalidArgument,
            Misfit::Wide { .. } => Code::OutOfRange,
            Misfit::Full => Code::ResourceExhausted,
        }
    }
}

/// A value of a width.
pub fn read(bytes: &[u8], width: u32) -> Result<Bits, Misfit> {
    if bytes.is_empty() {
        return Err(Misfit::Empty);
    }
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    let rest = &bytes[zeros..];
    let has = match rest.first() {
        Some(first) => rest.len() as u64 * 8 - u64::from(first.leading_zeros()),
        None => 0,
    };
    if has > u64::from(width) {
        return Err(Misfit::Wide { has, width });
    }
    if rest.len() <= 16 {
        let value = rest.iter().fold(0, |n: u128, b| n << 8 | u128::from(*b));
        return Ok(Bits::from_u128(value, width));
    }
    let len = (width as usize).div_ceil(8);
    let mut whole = vec![0; len - rest.len()];
    whole.extend_from_slice(rest);
    Ok(Bits::from_be_bytes(&whole, len as u32 * 8).cast(width))
}

/// A value's shortest bytes.
pub fn write(value: &Bits) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    match bytes.get(zeros..) {
        Some(rest) if !rest.is_empty() => rest.to_vec(),
        _ => vec![0],
    }
}

/// A number's shortest bytes.
pub fn write_number(value: u64) -> Vec<u8> {
    write(&Bits::from_u128(value.into(), 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_width_is_read_and_the_shortest_is_written() {
        for (bytes, width, short) in [
            (&[0u8][..], 1, &[0u8][..]),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 0, 7], 3, &[7]),
            (&[1, 0xff], 9, &[1, 0xff]),
            (&[0, 0x80, 0], 32, &[0x80, 0]),
            (&[0xff; 16], 128, &[0xff; 16]),
        ] {
            let value = read(bytes, width).unwrap();
            assert_eq!(value.width(), width);
            assert_eq!(write(&value), short);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(read(&[], 8), Err(Misfit::Empty));
        assert_eq!(read(&[8], 3), Err(Misfit::Wide { has: 4, width: 3 }));
        assert_eq!(read(&[2, 0], 9), Err(Misfit::Wide { has: 10, width: 9 }));
        assert_eq!(read(&[0, 1, 0, 0], 16), Err(Misfit::Wide { has: 17, width: 16 }));
        assert_eq!(write_number(0), [0]);
        assert_eq!(write_number(510), [1, 0xfe]);
    }
}
