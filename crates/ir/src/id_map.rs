//! A map from ids that somebody counts out, found without a hash.
//!
//! Whoever numbers entries counts from 0 and uses numbers again, so nearly all ids lie in one array, and finding one is one
//! load. Ids far off lie in pages of sixteen, which a hash finds.
//!
//! Invariants: an id below [`NEAR_MIN`], or below [`NEAR_EACH`] for each that is held, is near; the array is as long as a
//! multiple of a page, so a page is either near or far.
//! Cost: a look-up, one load, or one hash; memory, sixteen slots for each value at worst. Room is given back as values go.
//! Checked by: the test below, against a map; `tests/model.rs` of whoever uses it.

use hashbrown::HashMap;

/// Ids of a page.
const PAGE: usize = 16;
/// Ids below this lie side by side.
const NEAR_MIN: usize = 1 << 10;
/// So do ids below so many for each that is held.
const NEAR_EACH: usize = 4;
/// Room for so many ids for each that is held is given back.
const ROOM_EACH: usize = 16;

/// Values by id.
#[derive(Clone, Debug)]
pub struct IdMap<T> {
    near: Vec<Option<T>>,
    far: HashMap<u32, Box<[Option<T>; PAGE]>>,
    len: usize,
}

impl<T> Default for IdMap<T> {
    fn default() -> IdMap<T> {
        IdMap { near: Vec::new(), far: HashMap::new(), len: 0 }
    }
}

/// The page of an id far off, and its place there.
fn place(id: u32) -> (u32, usize) {
    (id / PAGE as u32, id as usize % PAGE)
}

impl<T> IdMap<T> {
    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of an id.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&T> {
        match self.near.get(id as usize) {
            Some(slot) => slot.as_ref(),
            None if self.far.is_empty() => None,
            None => {
                let (page, at) = place(id);
                self.far.get(&page)?[at].as_ref()
            }
        }
    }

    /// The value of an id, to be changed.
    #[inline]
    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        match self.near.get_mut(id as usize) {
            Some(slot) => slot.as_mut(),
            None => {
                let (page, at) = place(id);
                self.far.get_mut(&page)?[at].as_mut()
            }
        }
    }

    /// Sets the value of an id; the one that it had.
    pub fn insert(&mut self, id: u32, value: T) -> Option<T> {
        let at = id as usize;
        if at >= self.near.len() && at < NEAR_MIN.max(NEAR_EACH * (self.len + 1)) {
            self.widen(at + 1);
        }
        let slot = match self.near.get_mut(at) {
            Some(slot) => slot,
            None => {
                let (page, at) = place(id);
                let page = self.far.entry(page).or_insert_with(|| Box::new([const { None }; PAGE]));
                &mut page[at]
            }
        };
        let before = slot.replace(value);
        self.len += usize::from(before.is_none());
        before
    }

    /// Lets so many ids, at least, lie side by side.
    fn widen(&mut self, ids: usize) {
        let ids = ids.next_power_of_two().max(2 * PAGE);
        self.near.resize_with(ids, || None);
        let near = &mut self.near;
        self.far.retain(|page, held| {
            let from = *page as usize * PAGE;
            let Some(to) = near.get_mut(from..from + PAGE) else { return true };
            to.iter_mut().zip(held.iter_mut()).for_each(|(to, from)| *to = from.take());
            false
        });
    }

    /// Takes the value of an id out.
    pub fn remove(&mut self, id: u32) -> Option<T> {
        let held = match self.near.get_mut(id as usize) {
            Some(slot) => slot.take()?,
            None => {
                let (page, at) = place(id);
                let slots = self.far.get_mut(&page)?;
                let held = slots[at].take()?;
                if slots.iter().all(Option::is_none) {
                    self.far.remove(&page);
                }
                held
            }
        };
        self.len -= 1;
        if self.len == 0 {
            // What many ids needed is not kept.
            *self = IdMap::default();
        } else if self.near.len() > NEAR_MIN && self.near.len() > ROOM_EACH * self.len {
            self.narrow();
        }
        Some(held)
    }

    /// Gives the room back that many ids needed. Those that are left and too high to be near are far from now on.
    #[cold]
    fn narrow(&mut self) {
        let ids = NEAR_MIN.max((NEAR_EACH * (self.len + 1)).next_power_of_two());
        let above = self.near.drain(ids.min(self.near.len())..).enumerate();
        for (at, value) in above.filter_map(|(at, value)| Some((ids + at, value?))) {
            let (page, at) = place(at as u32);
            let page = self.far.entry(page).or_insert_with(|| Box::new([const { None }; PAGE]));
            page[at] = Some(value);
        }
        self.near.shrink_to_fit();
        if self.far.is_empty() {
            self.far = HashMap::new();
        }
    }

    /// All values, in no order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        let far = self.far.values().flat_map(|page| page.iter());
        self.near.iter().chain(far).filter_map(Option::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn ids_near_and_far_are_found_as_in_a_plain_map() {
        let (mut map, mut plain) = (IdMap::default(), BTreeMap::new());
        let mut state = 7u64;
        for step in 0..60_000u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let draw = (state >> 33) as u32;
            // Side by side, some way off, anywhere, and the last ones there are.
            let id = match step / 3 % 4 {
                0 => draw % 500,
                1 => draw % 9000,
                2 => draw.wrapping_mul(40_503),
                _ => u32::MAX - draw % 20,
            };
            if plain.contains_key(&id) && draw & 64 == 0 || step % 20_000 > 15_000 {
                assert_eq!(map.remove(id), plain.remove(&id));
            } else {
                assert_eq!(map.insert(id, step), plain.insert(id, step));
            }
            if let Some(value) = map.get_mut(id) {
                *value += 1;
                *plain.get_mut(&id).unwrap() += 1;
            }
            assert_eq!((map.get(id), map.len()), (plain.get(&id), plain.len()));
            assert_eq!(map.is_empty(), plain.is_empty());
            if step % 1000 == 0 {
                let mut values: Vec<u32> = map.values().copied().collect();
                let mut wanted: Vec<u32> = plain.values().copied().collect();
                values.sort_unstable();
                wanted.sort_unstable();
                assert_eq!(values, wanted);
            }
        }
        for (id, value) in plain {
            assert_eq!(map.get(id), Some(&value));
            assert_eq!((map.remove(id), map.remove(id)), (Some(value), None));
            assert!(map.near.len() <= NEAR_MIN.max(ROOM_EACH * map.len()), "{}", map.near.len());
        }
        assert!(map.is_empty() && map.near.is_empty() && map.far.is_empty());
    }
}
