//! Reasons to leave a packet to the interpreter, numbered.
//!
//! A sentence keeps its number for as long as the cache lives, so that code compiled earlier stays
//! right. There are as many as there are kinds of things that are not compiled, times places.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Sentences and their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bails {
    sentences: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    /// Numbers that were asked for since the last [`Bails::begin`].
    used: BTreeSet<u32>,
    /// Values of the functions that were generated since then.
    values: usize,
    /// They may be as many as there are.
    unbounded: bool,
    /// How many of a function and of a unit, at most.
    most: [usize; 2],
    /// Something bailed out because of that.
    over: bool,
}

/// Values of one function, at most, before what is left of it bails out: to give them registers takes more than
/// twice as long for twice as many.
const FUNCTION_VALUES_MAX: usize = 30_000;
/// Values of all functions of a unit, likewise: each takes some microseconds. The access gateway takes 28,000.
const UNIT_VALUES_MAX: usize = 250_000;
/// Both, where nothing is left to be tried.
const LAST_MAX: [usize; 2] = [120_000, 400_000];

impl Bails {
    /// Something else is compiled.
    pub(crate) fn begin(&mut self, unbounded: bool, last: bool) {
        self.used.clear();
        self.most = if last { LAST_MAX } else { [FUNCTION_VALUES_MAX, UNIT_VALUES_MAX] };
        (self.values, self.unbounded, self.over) = (0, unbounded, false);
    }

    /// A function has so many values.
    pub(crate) fn count_values(&mut self, values: usize) {
        self.values += values;
    }

    /// A function that has so many values should have no more.
    pub(crate) fn is_long(&mut self, values: usize) -> bool {
        let [function, unit] = self.most;
        let long = values > function || self.values + values > unit;
        self.over |= long && !self.unbounded;
        long && !self.unbounded
    }

    /// Something was too long since the last [`Bails::begin`].
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Those of what is compiled now.
    pub(crate) fn used(&self) -> impl Iterator<Item = Arc<str>> {
        self.used.iter().filter_map(|number| self.sentences.get(*number as usize).cloned())
    }

    /// The number of a sentence.
    pub(crate) fn number(&mut self, why: &str, site: &str) -> u32 {
        let number = self.find(why, site);
        self.used.insert(number);
        number
    }

    fn find(&mut self, why: &str, site: &str) -> u32 {
        let sentence = if site.is_empty() { why.to_owned() } else { format!("{site}: {why}") };
        if let Some(number) = self.numbers.get(sentence.as_str()) {
            return *number;
        }
        let number = self.sentences.len() as u32;
        let sentence: Arc<str> = sentence.into();
        self.sentences.push(sentence.clone());
        self.numbers.insert(sentence, number);
        number
    }

    /// All sentences by number.
    pub(crate) fn sentences(&self) -> &[Arc<str>] {
        &self.sentences
    }
}
