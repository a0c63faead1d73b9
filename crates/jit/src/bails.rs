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
}

impl Bails {
    /// Something else is compiled.
    pub(crate) fn begin(&mut self) {
        self.used.clear();
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
