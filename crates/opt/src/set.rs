//! Sets of small numbers: headers, metadata fields.
//!
//! Cost: a word for every 64 numbers; up to 128 without an allocation.

use smallvec::SmallVec;

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Set(SmallVec<[u64; 2]>);

impl Set {
    /// The numbers below `n`.
    pub(crate) fn below(n: usize) -> Set {
        let mut set = Set::default();
        (0..n).for_each(|i| set.insert(i));
        set
    }

    pub(crate) fn contains(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
    }

    pub(crate) fn insert(&mut self, i: usize) {
        if self.0.len() <= i / 64 {
            self.0.resize(i / 64 + 1, 0);
        }
        self.0[i / 64] |= 1 << (i % 64);
    }

    pub(crate) fn remove(&mut self, i: usize) {
        if let Some(word) = self.0.get_mut(i / 64) {
            *word &= !(1 << (i % 64));
        }
    }

    pub(crate) fn set(&mut self, i: usize, there: bool) {
        match there {
            true => self.insert(i),
            false => self.remove(i),
        }
    }

    /// Adds those of `other`; true if one of them was not there.
    pub(crate) fn union(&mut self, other: &Set) -> bool {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut grown = false;
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            grown |= *more & !*word != 0;
            *word |= more;
        }
        grown
    }

    /// Keeps those that are in `other` too; true if one went.
    pub(crate) fn intersect(&mut self, other: &Set) -> bool {
        let mut shrunk = false;
        for (i, word) in self.0.iter_mut().enumerate() {
            let kept = *word & other.0.get(i).copied().unwrap_or(0);
            shrunk |= kept != *word;
            *word = kept;
        }
        shrunk
    }

    /// In ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        let bits = |(at, word): (usize, &u64)| {
            let word = *word;
            (0..64).filter(move |i| word >> i & 1 == 1).map(move |i| 64 * at + i)
        };
        self.0.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(bits)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_set() {
        let mut a = Set::below(3);
        a.insert(2);
        a.insert(200);
        assert!(a.contains(200) && !a.contains(199));
        assert_eq!(a.iter().collect::<Vec<_>>(), [0, 1, 2, 200]);
        let mut b = Set::default();
        assert!(b.union(&a) && !b.union(&a));
        b.remove(1);
        assert!(a.intersect(&b) && !a.intersect(&b));
        assert_eq!((a.len(), a.contains(1), a.contains(200)), (3, false, true));
        assert!(a.intersect(&Set::default()));
        assert_eq!(a.len(), 0);
    }
}
