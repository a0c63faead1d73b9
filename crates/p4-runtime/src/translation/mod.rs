//! Types that the client has other values of (`@p4runtime_translation`, P4Runtime specification 1.4 and later).
//!
//! | the type says | value of the client | value of the program |
//! |---|---|---|
//! | a width | a number of that width | the same number; it has to fit |
//! | a string | decimal digits | the number that they say |
//! | | any other string | a number of its own, from 0 for the empty string and from 1 for others |
//!
//! In: bytes of a client, or a value of the program. Out: the other one. Strings keep their numbers as long as the program
//! runs, programs that take over its state included; types with the same URI and width share them.
//!
//! Checked by: the tests below; `tests/translation.rs`.

mod strings;

pub use strings::Strings;

use crate::canonical::{self, Misfit};
use ir::Bits;
use std::sync::Arc;

/// How the client writes values of a type.
#[derive(Clone, Debug, Default)]
pub enum Sdn {
    /// As the program does.
    #[default]
    Plain,
    /// As numbers of another width.
    Number,
    /// As strings.
    Text(Arc<Strings>),
}

impl PartialEq for Sdn {
    fn eq(&self, other: &Sdn) -> bool {
        match (self, other) {
            (Sdn::Plain, Sdn::Plain) | (Sdn::Number, Sdn::Number) => true,
            (Sdn::Text(a), Sdn::Text(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Eq for Sdn {}

impl Sdn {
    /// The program's value, of this width. A string that has no number yet gets one.
    pub fn read(&self, bytes: &[u8], width: u32) -> Result<Bits, Misfit> {
        match self {
            Sdn::Plain | Sdn::Number => canonical::read(bytes, width),
            Sdn::Text(strings) => strings.number(bytes),
        }
    }

    /// The client's value.
    pub fn write(&self, value: &Bits) -> Vec<u8> {
        match self {
            Sdn::Plain | Sdn::Number => canonical::write(value),
            Sdn::Text(strings) => strings.text(value),
        }
    }

    /// The client has other values than the program.
    pub fn translates(&self) -> bool {
        *self != Sdn::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_and_have_to_fit() {
        let sdn = Sdn::Number;
        assert_eq!(sdn.read(&[0, 0, 0, 7], 9).unwrap(), Bits::from_u128(7, 9));
        assert_eq!(sdn.read(&[0, 0, 2, 0], 9), Err(Misfit::Wide { has: 10, width: 9 }));
        assert_eq!(sdn.write(&Bits::from_u128(300, 9)), [1, 44]);
    }
}
