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
    /// Instructions of the functions that were generated since then.
    instructions: usize,
    /// How many there may be.
    bounds: Bounds,
}

/// Instructions, at most, before what is left bails out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    function: usize,
    unit: usize,
}

impl Bounds {
    /// To give one function's values registers takes more than twice as long for twice as many; all functions of a unit take
    /// a microsecond or two for each instruction.
    pub(crate) const USUAL: Bounds = Bounds { function: 30_000, unit: 200_000 };
    /// Of a program of so many tables that a packet which is left costs more than what it takes to compile the code.
    pub(crate) const LONG: Bounds = Bounds { function: 60_000, unit: 1_500_000 };
    /// None.
    pub(crate) const NONE: Bounds = Bounds { function: usize::MAX, unit: usize::MAX };
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds::USUAL
    }
}

impl Bails {
    /// Something else is compiled.
    pub(crate) fn begin(&mut self, bounds: Bounds) {
        self.used.clear();
        (self.instructions, self.bounds) = (0, bounds);
    }

    /// A function has so many instructions.
    pub(crate) fn count_instructions(&mut self, instructions: usize) {
        self.instructions += instructions;
    }

    /// A function that has so many instructions should have no more.
    pub(crate) fn is_long(&self, instructions: usize) -> bool {
        let Bounds { function, unit } = self.bounds;
        instructions > function || self.instructions.saturating_add(instructions) > unit
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
