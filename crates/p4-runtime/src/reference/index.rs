//! What is referred to, and by how many.

use super::refs::{Had, Point, References};
use crate::code::{Fault, fault};
use std::collections::HashMap;

/// What a write takes away and adds.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) before: Had,
    pub(crate) after: Had,
}

/// How many have each point, and how many refer to it.
#[derive(Debug, Default)]
pub struct Index {
    has: HashMap<Point, u32>,
    refers: HashMap<Point, u32>,
    /// The program, and the changes of it by others, that it is of.
    pub(crate) of: (u64, u64),
}

fn add(to: &mut HashMap<Point, u32>, point: Point) {
    *to.entry(point).or_default() += 1;
}

fn take(from: &mut HashMap<Point, u32>, point: &Point) {
    if let Some(n) = from.get_mut(point) {
        *n -= 1;
        if *n == 0 {
            from.remove(point);
        }
    }
}

fn count(all: &[Point], point: &Point) -> u32 {
    all.iter().filter(|p| *p == point).count() as u32
}

impl Index {
    /// Nobody refers to anything.
    pub(crate) fn empty(of: (u64, u64)) -> Index {
        Index { of, ..Index::default() }
    }

    /// Something is there.
    pub(crate) fn add(&mut self, had: Had) {
        had.has.into_iter().for_each(|point| add(&mut self.has, point));
        had.refers.into_iter().for_each(|(point, _)| add(&mut self.refers, point));
    }

    fn take(&mut self, had: &Had) {
        had.has.iter().for_each(|point| take(&mut self.has, point));
        had.refers.iter().for_each(|(point, _)| take(&mut self.refers, point));
    }

    /// A change leaves no reference to nothing.
    pub(crate) fn check(&self, refs: &References, change: &Change) -> Result<(), Fault> {
        let Change { before, after } = change;
        let left = |point: &Point| {
            let has = self.has.get(point).copied().unwrap_or(0) + count(&after.has, point);
            has.saturating_sub(count(&before.has, point))
        };
        for (point, at) in &after.refers {
            if left(point) == 0 {
                return Err(fault!(
                    NotFound,
                    "{at}: it refers to {}, which is not there; insert that first",
                    refs.told(point)
                ));
            }
        }
        for point in before.has.iter().filter(|point| left(point) == 0) {
            let own = before.refers.iter().filter(|(p, _)| p == point).count() as u32;
            let refers = self.refers.get(point).copied().unwrap_or(0).saturating_sub(own);
            if refers > 0 {
                return Err(fault!(
                    FailedPrecondition,
                    "{}: it is referred to {refers} times; delete what refers to it first",
                    refs.told(point)
                ));
            }
        }
        Ok(())
    }

    /// A change is done.
    pub(crate) fn done(&mut self, change: Change) {
        self.take(&change.before);
        self.add(change.after);
    }
}
