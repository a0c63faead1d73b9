//! Entries that were learned: as one goes or changes, workers are to tell again of the packets that it is made of.
//!
//! In: which entries were made of what workers told, by the place that came with it; what goes, from the store. Out: places of
//! which workers forget what they told ([`Forgotten`]).

use crate::flow::{Flow, FlowKey};
use crate::observer::Observer;
use hashbrown::HashMap;
use of_lower::intern::Learners;
use openflow::Learn;
use smallvec::SmallVec;
use std::sync::Arc;
use switch::{Forgotten, Place};

/// The same entry may be made of what is told in so many ways; if it is more, the oldest is told again.
const PLACES_MAX: usize = 4;

/// By entry, the places of what was told of it.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    places: HashMap<FlowKey, SmallVec<[Place; PLACES_MAX]>>,
    forgotten: Arc<Forgotten>,
}

impl Learned {
    /// None yet, of a switch whose workers are to forget what they told anybody else.
    pub(crate) fn new(forgotten: Arc<Forgotten>) -> Learned {
        forgotten.forget_all();
        Learned { places: HashMap::new(), forgotten }
    }

    /// This entry is there as it was told by this place.
    pub(crate) fn told(&mut self, key: FlowKey, place: Place) {
        let places = self.places.entry(key).or_default();
        if places.contains(&place) {
            return;
        }
        if places.len() == PLACES_MAX {
            self.forgotten.forget(places.remove(0));
        }
        places.push(place);
    }
}

impl Observer for Learned {
    fn came(&mut self, _: FlowKey, _: &Flow) {}

    fn went(&mut self, key: FlowKey, _: &Flow) {
        let places = self.places.remove(&key);
        places.into_iter().flatten().for_each(|place| self.forgotten.forget(place));
    }
}

/// Follows which `learn`s have which numbers.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) others: Arc<dyn Learners>,
    pub(crate) forgotten: Arc<Forgotten>,
}

impl Learners for Numbers {
    fn begin(&self, which: u32, learn: &Arc<Learn>) {
        // What was told with this number was another's.
        self.forgotten.forget_all();
        self.others.begin(which, learn);
    }

    fn end(&self, which: u32, learn: &Learn) {
        self.others.end(which, learn);
    }
}
