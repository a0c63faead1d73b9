//! Sets of small numbers.

/// A set of numbers below a bound that is given when it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    /// Empty, for numbers below `bound`.
    pub(crate) fn new(bound: usize) -> Set {
        Set(vec![0; bound.div_ceil(64)])
    }

    /// Adds a number.
    pub(crate) fn insert(&mut self, i: usize) {
        if let Some(word) = self.0.get_mut(i / 64) {
            *word |= 1 << (i % 64);
        }
    }

    /// Takes a number out.
    pub(crate) fn remove(&mut self, i: usize) {
        if let Some(word) = self.0.get_mut(i / 64) {
            *word &= !(1 << (i % 64));
        }
    }

    /// Puts a number in or takes it out.
    pub(crate) fn set(&mut self, i: usize, is_in: bool) {
        if is_in { self.insert(i) } else { self.remove(i) }
    }

    /// The number is in it.
    pub(crate) fn has(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
    }

    /// There is no number in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Adds all numbers of another set.
    pub(crate) fn join(&mut self, other: &Set) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_in_and_out() {
        let mut set = Set::new(70);
        for i in [0, 63, 64, 69] {
            assert!(!set.has(i));
            set.insert(i);
            assert!(set.has(i));
        }
        // Past the bound there is nothing.
        set.insert(1000);
        assert!(!set.has(1000));
        let mut other = Set::new(70);
        other.insert(5);
        other.join(&set);
        other.set(63, false);
        assert!(!other.is_empty() && Set::new(70).is_empty());
        let all: Vec<usize> = (0..70).filter(|i| other.has(*i)).collect();
        assert_eq!(all, [0, 5, 64, 69]);
    }
}
