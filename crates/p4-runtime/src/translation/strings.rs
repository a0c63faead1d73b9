//! Strings and the numbers that they stand for: one for each, none for two.

use crate::canonical::Misfit;
use ir::Bits;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Strings of one type, at most.
const STRINGS_MAX: usize = 1 << 20;
/// Bytes of a string, at most.
const BYTES_MAX: usize = 256;

#[derive(Debug, Default)]
struct Map {
    numbers: HashMap<Box<[u8]>, u128>,
    texts: HashMap<u128, Box<[u8]>>,
    /// No number from 1 to below this one is free.
    next: u128,
    /// All numbers in the order in which they were given.
    order: Vec<u128>,
}

impl Map {
    fn give(&mut self, text: &[u8], n: u128) {
        self.numbers.insert(text.into(), n);
        self.texts.insert(n, text.into());
        self.order.push(n);
    }
}

/// The strings of a type.
#[derive(Debug)]
pub struct Strings {
    width: u32,
    map: Mutex<Map>,
}

/// The number that decimal digits say, if they are the shortest ones.
fn decimal(text: &[u8]) -> Option<u128> {
    let shortest = text == b"0" || text.first().is_some_and(|b| (b'1'..=b'9').contains(b));
    let digits = shortest && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

impl Strings {
    /// Those of a type of so many bits.
    pub fn new(width: u32) -> Strings {
        Strings { width, map: Mutex::default() }
    }

    /// The largest number that the type holds and this map counts.
    fn most(&self) -> u128 {
        match self.width {
            128.. => u128::MAX,
            width => (1 << width) - 1,
        }
    }

    /// What a string stands for.
    pub fn number(&self, text: &[u8]) -> Result<Bits, Misfit> {
        if text.len() > BYTES_MAX {
            return Err(Misfit::Long { most: BYTES_MAX });
        }
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = map.numbers.get(text) {
            return Ok(Bits::from_u128(*n, self.width));
        }
        if map.numbers.len() >= STRINGS_MAX {
            return Err(Misfit::Full);
        }
        let said = match decimal(text) {
            Some(n) if n > self.most() => {
                let has = u64::from(128 - n.leading_zeros());
                return Err(Misfit::Wide { has, width: self.width });
            }
            None if text.is_empty() => Some(0),
            said => said,
        };
        let n = match said {
            Some(n) if map.texts.contains_key(&n) => return Err(Misfit::Taken),
            Some(n) => n,
            None => {
                let mut n = map.next.max(1);
                while map.texts.contains_key(&n) {
                    n += 1;
                }
                if n > self.most() {
                    return Err(Misfit::Full);
                }
                map.next = n + 1;
                n
            }
        };
        map.give(text, n);
        Ok(Bits::from_u128(n, self.width))
    }

    /// How many strings have a number.
    pub fn len(&self) -> usize {
        self.map.lock().unwrap_or_else(PoisonError::into_inner).order.len()
    }

    /// None has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The strings that have got their numbers since so many had.
    pub fn given_since(&self, before: usize) -> Vec<(Box<[u8]>, u128)> {
        let map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        let given = map.order.get(before..).unwrap_or_default().iter();
        given.filter_map(|n| Some((map.texts.get(n)?.clone(), *n))).collect()
    }

    /// Gives a string the number that it had before. False if one of both is taken, or cannot be.
    pub fn give(&self, text: &[u8], number: u128) -> bool {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        match (map.numbers.get(text), map.texts.get(&number)) {
            (Some(n), _) => *n == number,
            (None, Some(_)) => false,
            _ if number > self.most() || text.len() > BYTES_MAX => false,
            _ => {
                map.give(text, number);
                true
            }
        }
    }

    /// The string of a number; decimal digits, if nobody has given it one.
    pub fn text(&self, value: &Bits) -> Vec<u8> {
        let Some(n) = value.to_u128() else {
            // Wider than any number that a string stands for.
            return format!("0x{}", hex(&value.to_be_bytes())).into_bytes();
        };
        let map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        match map.texts.get(&n) {
            Some(text) => text.to_vec(),
            None => n.to_string().into_bytes(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(strings: &Strings, text: &str) -> Result<u128, Misfit> {
        strings.number(text.as_bytes()).map(|b| b.to_u128().unwrap())
    }

    #[test]
    fn strings_have_numbers_of_their_own() {
        let s = Strings::new(9);
        assert_eq!(number(&s, "red"), Ok(1));
        assert_eq!(number(&s, "2"), Ok(2));
        assert_eq!(number(&s, "blue"), Ok(3));
        assert_eq!(number(&s, "red"), Ok(1));
        assert_eq!(number(&s, ""), Ok(0));
        assert_eq!(number(&s, "007"), Ok(4), "only the shortest digits are a number");
        let text = |n| String::from_utf8(s.text(&Bits::from_u128(n, 9))).unwrap();
        assert_eq!(
            [text(0), text(1), text(2), text(3), text(300)],
            ["", "red", "2", "blue", "300"].map(str::to_owned)
        );
    }

    #[test]
    fn numbers_are_given_back() {
        let (old, new) = (Strings::new(9), Strings::new(9));
        for text in ["red", "7", "", "blue"] {
            number(&old, text).unwrap();
        }
        assert_eq!(old.given_since(3), [(Box::from(*b"blue"), 2)]);
        for (text, n) in old.given_since(0).iter().rev() {
            assert!(new.give(text, *n));
        }
        assert_eq!(number(&new, "blue"), Ok(2));
        assert_eq!((number(&new, "green"), new.len()), (Ok(3), 5), "the next one is free");
        assert!(new.give(b"red", 1), "it has that number");
        assert!(!new.give(b"red", 4) && !new.give(b"pink", 1) && !new.give(b"pink", 512));
    }

    #[test]
    fn no_number_is_given_twice() {
        let s = Strings::new(2);
        assert_eq!(number(&s, "a"), Ok(1));
        assert_eq!(number(&s, "1"), Err(Misfit::Taken));
        assert_eq!(number(&s, "4"), Err(Misfit::Wide { has: 3, width: 2 }));
        assert_eq!(number(&s, "b"), Ok(2));
        assert_eq!(number(&s, "3"), Ok(3));
        assert_eq!(number(&s, "c"), Err(Misfit::Full));
        assert_eq!(number(&s, &"x".repeat(300)), Err(Misfit::Long { most: 256 }));
        assert_eq!(number(&s, ""), Ok(0));
        assert_eq!(number(&s, "0"), Err(Misfit::Taken));
    }
}
