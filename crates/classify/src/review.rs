//! A burst's answers, looked at once before others use them.
//!
//! Cost: a fraction of an instruction an answer where registers are wide.
//! Checked by: the unit test below.

use crate::hit::Hit;
use crate::simd::{self, Kernel, Lanes};

/// What answers have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Review {
    /// How many are of a rule.
    pub matches: u32,
    /// The highest action; 0 of no answers.
    pub action_max: u32,
}

struct Looked<'a> {
    hits: &'a [Hit],
    review: &'a mut Review,
}

impl Kernel for Looked<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let (mut matches, mut action_max) = (0u32, 0u32);
        for hit in self.hits {
            matches += u32::from(hit.is_hit());
            action_max = action_max.max(hit.action);
        }
        *self.review = Review { matches, action_max };
    }
}

/// Looks at answers.
#[inline]
pub fn review(hits: &[Hit]) -> Review {
    let mut review = Review::default();
    simd::fastest(Looked { hits, review: &mut review });
    review
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_answers_are_looked_at() {
        let hits: Vec<Hit> = (0..70u32)
            .map(|i| match i % 3 {
                0 => Hit::MISS,
                _ => Hit { entry: i, action: (i * 37 % 64) << 26 },
            })
            .collect();
        for max in [0, 1, 2] {
            simd::LANES_MAX.set(max);
            for count in 0..=hits.len() {
                let some = &hits[..count];
                let matches = some.iter().filter(|hit| hit.is_hit()).count() as u32;
                let action_max = some.iter().map(|hit| hit.action).max().unwrap_or(0);
                assert_eq!(review(some), Review { matches, action_max });
            }
        }
        simd::LANES_MAX.set(2);
    }
}
