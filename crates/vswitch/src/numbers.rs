//! Numbers of a bridge's interfaces (`ofport`).
//!
//! One that is asked for is given if it is free, then the one that the database remembers, then the next that was not given
//! lately: numbers come round only after all others, so that entries for a port that has gone do not meet another.

use std::collections::BTreeSet;

/// The highest number that an interface is given without asking (OpenFlow 1.0's ports end at 0xff00).
const MAX: u32 = 65279;

/// The numbers of a bridge.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    used: BTreeSet<u32>,
    last: u32,
}

impl Numbers {
    /// A number of an interface that asks for `request` and had `before`; none if there is none.
    pub fn take(&mut self, request: Option<u32>, before: Option<u32>) -> Option<u32> {
        let free = |number: &u32| !self.used.contains(number);
        let wanted = request.filter(free).or(before.filter(free));
        let number = match wanted {
            Some(number) => number,
            None => {
                let mut all = (self.last + 1..=MAX).chain(1..=self.last);
                let number = all.find(free)?;
                self.last = number;
                number
            }
        };
        // What is remembered counts as given: after a restart the next ones go on behind it.
        if request != Some(number) {
            self.last = self.last.max(number);
        }
        self.used.insert(number);
        Some(number)
    }

    /// It was taken and never used: the next one may have it.
    pub fn take_back(&mut self, number: u32) {
        self.used.remove(&number);
        if self.last == number {
            self.last -= 1;
        }
    }

    /// It is free again.
    pub fn give_back(&mut self, number: u32) {
        self.used.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_asked_then_as_before_then_the_next() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.take(None, None), Some(1));
        assert_eq!(numbers.take(Some(7), Some(3)), Some(7));
        assert_eq!(numbers.take(Some(7), Some(3)), Some(3), "7 is taken");
        assert_eq!(numbers.take(None, None), Some(4));
        numbers.give_back(4);
        assert_eq!(numbers.take(None, None), Some(5), "4 was given lately");
        assert_eq!(numbers.take(None, Some(4)), Some(4));
        assert_eq!(numbers.take(None, None), Some(6));
        numbers.take_back(6);
        assert_eq!(numbers.take(None, None), Some(6), "nobody has had it");
    }

    #[test]
    fn numbers_come_round_and_end() {
        let mut numbers = Numbers::default();
        for number in 1..=MAX {
            assert_eq!(numbers.take(None, None), Some(number));
        }
        assert_eq!(numbers.take(None, None), None);
        numbers.give_back(12);
        assert_eq!(numbers.take(None, None), Some(12));
    }
}
