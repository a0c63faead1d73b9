//! One hash under one global mask over any set of fields.
//!
//! Besides the rules of that mask there may be rules that match everything (an OpenFlow table-miss
//! entry), the catch-all: they answer when the hash does not.
//!
//! Invariants: the store holds at most one group with a mask that has bits, and one without; no
//! rule carries ranges; every priority of the former exceeds every priority of the latter; payloads
//! are hits.
//! Cost: lookup, one hash and one cache line in most cases; update the same.
//! Checked by: [`linear`](crate::linear), in `tests/model.rs`.

use crate::buckets::{Buckets, EMPTY, NOWHERE, Probe};
use crate::declined::{Declined, InsertError};
use crate::group::{Group, Payload};
use crate::hit::{Hit, pack, unpack};
use crate::kind::Kind;
use crate::mask;
use crate::rule::{Layout, Rule};
use crate::rules::{Rules, assert_burst, assert_key};
use crate::shape::TableShape;
use crate::simd::{self, Each, Kernel, Lanes, PHASE, UNROLLED_MAX, View};
use crate::structure::{Explain, Structure};
use smallvec::SmallVec;

/// Keys from which on a burst goes through stages: fewer are done before wide registers have begun.
const STAGES_FROM: usize = 8;

/// Bytes of buckets from which on all of a burst's are asked for before the first is read: what
/// is smaller lies in the nearer caches, whose latency other keys' work hides.
const PREFETCHED_FROM: usize = 1 << 18;

/// All rules under one mask.
#[derive(Debug, Clone)]
pub struct Hash {
    rules: Rules,
    /// The group under the mask, while there is one.
    group: Option<u32>,
    /// The group that matches everything, while there is one.
    catch_all: Option<u32>,
    /// The answer when the hash has none.
    otherwise: Hit,
}

/// Whether a hash can hold such a table.
pub fn fits(shape: &TableShape) -> Result<(), Declined> {
    if shape.ranged > 0 {
        return Err(Declined::Ranges { entries: shape.ranged });
    }
    let declined = Err(Declined::Masks { masks: shape.masks.len() });
    match &shape.masks[..] {
        [] | [_] => Ok(()),
        [one, other] => {
            let (catch_all, others) = match (is_zero(&one.mask), is_zero(&other.mask)) {
                (true, _) => (one, other),
                (_, true) => (other, one),
                _ => return declined,
            };
            beside(catch_all.priority_max, others.priority_min)
        }
        _ => declined,
    }
}

/// Whether a catch-all of priority `high` ranks below rules of priority `low` and up.
fn beside(high: u32, low: u32) -> Result<(), Declined> {
    if high < low {
        return Ok(());
    }
    Err(Declined::CatchAllOver { priority: high, not_below: low })
}

fn is_zero(mask: &[u8]) -> bool {
    mask.iter().all(|&byte| byte == 0)
}

impl Hash {
    /// An empty one; the first rule whose mask has bits sets the mask.
    pub fn new(layout: Layout) -> Hash {
        Self::from_rules(Rules::new(layout))
    }

    /// Takes over a store that [`fits`].
    pub(crate) fn from_rules(rules: Rules) -> Hash {
        let rules = rules.paying(Payload::Hit);
        let (mut group, mut catch_all) = (None, None);
        for (at, held) in rules.groups() {
            *if is_zero(held.mask()) { &mut catch_all } else { &mut group } = Some(at);
        }
        let mut hash = Hash { rules, group, catch_all, otherwise: Hit::MISS };
        hash.set_otherwise();
        hash
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn into_rules(self) -> Rules {
        self.rules
    }

    fn set_otherwise(&mut self) {
        let found = self.catch_all.and_then(|at| self.rules.group(at)).map(|g| g.find(&[]));
        self.otherwise = unpack(found.unwrap_or(EMPTY));
    }

    /// The rules under the mask, while there are any.
    #[inline]
    fn held(&self) -> Option<&Group> {
        self.rules.group(self.group?)
    }

    fn priorities(&self, group: Option<u32>) -> Option<(u32, u32)> {
        self.rules.group(group?)?.priorities()
    }
}

impl Structure for Hash {
    fn kind(&self) -> Kind {
        Kind::Hash
    }

    fn layout(&self) -> &Layout {
        self.rules.layout()
    }

    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError> {
        let rule = self.rules.admit(rule)?;
        if !rule.ranges.is_empty() {
            return Err(InsertError::Declined(Declined::Ranges { entries: 1 }));
        }
        if is_zero(&rule.mask) {
            if let Some((low, _)) = self.priorities(self.group) {
                beside(rule.priority, low).map_err(InsertError::Declined)?;
            }
            self.catch_all = Some(self.rules.insert(&rule));
            self.set_otherwise();
            return Ok(());
        }
        if self.group.is_some() && self.rules.group_for(&rule.mask) != self.group {
            return Err(InsertError::Declined(Declined::Masks { masks: self.rules.masks() + 1 }));
        }
        if let Some((_, high)) = self.priorities(self.catch_all) {
            beside(high, rule.priority).map_err(InsertError::Declined)?;
        }
        self.group = Some(self.rules.insert(&rule));
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        let (rule, group) = self.rules.remove(id)?;
        if self.rules.group(group).is_none() {
            self.group = self.group.filter(|&at| at != group);
            self.catch_all = self.catch_all.filter(|&at| at != group);
        }
        self.set_otherwise();
        Some(rule)
    }

    fn set_action(&mut self, id: u32, action: u32) -> bool {
        let known = self.rules.set_action(id, action);
        self.set_otherwise();
        known
    }

    fn lookup(&self, key: &[u8]) -> Hit {
        assert_key(self.layout(), key);
        let found = self.held().map(|group| group.find(key));
        match found {
            None | Some(EMPTY) => self.otherwise,
            Some(found) => unpack(found),
        }
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        assert_burst(self.layout(), keys, stride, hits.len());
        let Some(group) = self.held() else {
            hits.fill(self.otherwise);
            return;
        };
        match group.windows().len() {
            1 => burst::<1>(group, self.otherwise, keys, stride, hits),
            2 => burst::<2>(group, self.otherwise, keys, stride, hits),
            3 => burst::<3>(group, self.otherwise, keys, stride, hits),
            4 => burst::<4>(group, self.otherwise, keys, stride, hits),
            5 => burst::<5>(group, self.otherwise, keys, stride, hits),
            6 => burst::<6>(group, self.otherwise, keys, stride, hits),
            7 => burst::<7>(group, self.otherwise, keys, stride, hits),
            _ => burst_wide(group, self.otherwise, keys, stride, hits),
        }
    }

    fn len(&self) -> usize {
        self.rules.len()
    }

    fn memory_bytes(&self) -> usize {
        self.rules.memory_bytes()
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        Box::new(self.rules.iter())
    }

    fn explain(&self) -> Explain {
        Explain {
            kind: Kind::Hash,
            entries: self.len(),
            masks: self.rules.masks(),
            probes_max: usize::from(self.group.is_some()),
            ranged: 0,
            memory_bytes: self.memory_bytes(),
        }
    }
}

/// Looks a burst up whose keys are `W` words under the mask.
fn burst<const W: usize>(
    group: &Group,
    otherwise: Hit,
    keys: &[u8],
    stride: usize,
    hits: &mut [Hit],
) {
    let Some(windows) = group.windows().first_chunk::<W>() else { return };
    let (index, otherwise) = (group.index(), pack(otherwise));
    for (part, hits) in hits.chunks_mut(PHASE).enumerate() {
        let view = View::new(&keys[part * PHASE * stride..], stride, hits.len(), windows);
        if hits.len() < STAGES_FROM {
            for (i, hit) in hits.iter_mut().enumerate() {
                let words = view.words(i);
                let found = index.find(index.home(&words), &words);
                *hit = unpack(if found == EMPTY { otherwise } else { found });
            }
            continue;
        }
        simd::fastest(Burst { index, view, otherwise, hits });
    }
}

/// Up to [`PHASE`] keys of one table.
struct Burst<'a, const W: usize> {
    index: &'a Buckets,
    view: View<'a, W>,
    otherwise: u64,
    hits: &'a mut [Hit],
}

impl<const W: usize> Kernel for Burst<'_, W> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Burst { index, view, otherwise, hits } = self;
        let Probe { lines, place } = index.probe();
        let (mut words, mut homes) = (Each::new(), Each::new());
        let (words, homes) = L::hashes(&view, place, Some(place.buckets), &mut words, &mut homes);
        if size_of_val(lines) >= PREFETCHED_FROM {
            for &home in homes {
                simd::prefetch(&lines[home as usize]);
            }
        }
        for ((hit, words), &home) in hits.iter_mut().zip(words).zip(homes) {
            simd::answer(hit, lines[home as usize].find::<W, L>(words, otherwise));
        }
        // Keys that are not at home: seen to when the others are done.
        let mut away = L::equal(hits, otherwise);
        while away != 0 {
            let i = away.trailing_zeros() as usize;
            away &= away - 1;
            let found = index.find_on::<W, L>(homes[i] as usize, &words[i]);
            if found != EMPTY {
                simd::answer(&mut hits[i], found);
            }
        }
    }
}

/// One of several tables that are looked up at once: what all keys that ask it have in common.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    probe: Probe<'a>,
    otherwise: u64,
    /// The rules under its mask, if there are some and the others of the burst are as wide.
    group: Option<&'a Group>,
    /// It is no hash, or one of other words than the rest: its keys are left alone.
    other: bool,
}

/// Several tables, made ready for bursts of keys.
pub(crate) struct Together<'a> {
    asked: SmallVec<[Asked<'a>; 16]>,
    /// The first that has a group.
    first: Option<&'a Group>,
    /// All that have one see keys as the first does.
    alike: bool,
    /// All have one.
    whole: bool,
}

impl<'a> Together<'a> {
    /// Of tables of one layout, of which those that are no hashes are none.
    #[inline(always)]
    pub(crate) fn of(tables: impl Iterator<Item = Option<&'a Hash>> + Clone) -> Together<'a> {
        let first = tables.clone().find_map(|hash| hash?.held());
        let words = first.map_or(0, |group| group.windows().len());
        // Where it will be used, and not collected elsewhere first: it is large, and made for each burst.
        let asked = SmallVec::new();
        let mut together = Together { asked, first, alike: true, whole: true };
        for hash in tables {
            let held = hash.and_then(Hash::held);
            let group = held.filter(|group| group.windows().len() == words);
            together.alike &=
                group.is_none_or(|group| first.is_some_and(|first| first.sees_as(group)));
            together.whole &= group.is_some();
            together.asked.push(Asked {
                probe: group.map_or(NOWHERE, |group| group.index().probe()),
                otherwise: hash.map_or(EMPTY, |hash| pack(hash.otherwise)),
                group,
                other: hash.is_none() || held.is_some() != group.is_some(),
            });
        }
        together
    }
}

/// Looks up to [`PHASE`] keys up, the i-th in the table of number `of[i]`.
///
/// Returns a bit for each key that was left alone: its table is no hash, or one of more words or of fewer than the
/// first one's.
pub(crate) fn mixed(
    tables: &Together<'_>,
    of: &[u8],
    keys: &[u8],
    stride: usize,
    hits: &mut [Hit],
) -> u32 {
    let mut left = 0;
    let Some(first) = tables.first else {
        for (i, (hit, of)) in hits.iter_mut().zip(of).enumerate() {
            let asked = &tables.asked[usize::from(*of)];
            simd::answer(hit, asked.otherwise);
            left |= u32::from(asked.other) << i;
        }
        return left;
    };
    macro_rules! go {
        ($($width:literal)*) => {
            match first.windows().len() {
                $($width => {
                    let left = &mut left;
                    simd::fastest(Mixed::<$width> { first, tables, of, keys, stride, hits, left });
                })*
                _ => left = !0 >> (PHASE - hits.len()),
            }
        };
    }
    const { assert!(UNROLLED_MAX == 7) };
    go!(1 2 3 4 5 6 7);
    left
}

/// As [`Burst`], of several tables.
struct Mixed<'a, 't, const W: usize> {
    first: &'t Group,
    tables: &'a Together<'t>,
    of: &'a [u8],
    keys: &'a [u8],
    stride: usize,
    hits: &'a mut [Hit],
    left: &'a mut u32,
}

impl<const W: usize> Kernel for Mixed<'_, '_, W> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Mixed { first, tables, of, keys, stride, hits, left } = self;
        let of = &of[..hits.len()];
        let asked = |i: usize| &tables.asked[usize::from(of[i])];
        let (mut others, mut blank) = (0, 0);
        if !tables.whole {
            for i in 0..of.len() {
                let asked = asked(i);
                others |= u32::from(asked.other) << i;
                blank |= u32::from(asked.group.is_none() && !asked.other) << i;
            }
        }
        *left = others;
        let Some(windows) = first.windows().first_chunk::<W>() else { return };
        let (mut words, mut hashes, mut homes) = (Each::new(), Each::new(), Each::new());
        let (words, homes) = if tables.alike {
            let view = View::new(keys, stride, hits.len(), windows);
            let place = first.index().probe().place;
            let (words, hashes) = L::hashes(&view, place, None, &mut words, &mut hashes);
            let home = |i: usize| {
                let Probe { lines, place } = asked(i).probe;
                let home = simd::home_of(hashes[i], place.buckets);
                simd::prefetch(&lines[home as usize]);
                home
            };
            (words, homes.fill(hits.len(), home))
        } else {
            let words = words.fill(hits.len(), |i| {
                let own = asked(i).group.and_then(|group| group.windows().try_into().ok());
                mask::gather(own.unwrap_or(windows), &keys[i * stride..][..stride])
            });
            let home = |i: usize| {
                let Probe { lines, place } = asked(i).probe;
                let home = place.home(words[i].into_iter());
                simd::prefetch(&lines[home as usize]);
                home
            };
            (words, homes.fill(hits.len(), home))
        };
        let mut away = 0;
        for (i, hit) in hits.iter_mut().enumerate() {
            let asked = asked(i);
            let found =
                asked.probe.lines[homes[i] as usize].find::<W, L>(&words[i], asked.otherwise);
            simd::answer(hit, found);
            away |= u32::from(found == asked.otherwise) << i;
        }
        away &= !(others | blank);
        while blank != 0 {
            // Its key may have looked like what lies nowhere.
            let i = blank.trailing_zeros() as usize;
            blank &= blank - 1;
            simd::answer(&mut hits[i], asked(i).otherwise);
        }
        while away != 0 {
            let i = away.trailing_zeros() as usize;
            away &= away - 1;
            let Some(group) = asked(i).group else { continue };
            let found = group.index().find_on::<W, L>(homes[i] as usize, &words[i]);
            if found != EMPTY {
                simd::answer(&mut hits[i], found);
            }
        }
    }
}

/// As [`burst`], for more words than are unrolled.
#[inline(never)]
fn burst_wide(group: &Group, otherwise: Hit, keys: &[u8], stride: usize, hits: &mut [Hit]) {
    let (index, windows) = (group.index(), group.windows());
    for (part, hits) in hits.chunks_mut(PHASE).enumerate() {
        let keys = &keys[part * PHASE * stride..];
        let mut homes = [0; PHASE];
        for (i, home) in homes[..hits.len()].iter_mut().enumerate() {
            *home = index.home_wide(windows, &keys[i * stride..][..stride]);
            index.prefetch_wide(*home);
        }
        for (i, hit) in hits.iter_mut().enumerate() {
            let found = index.find_wide(homes[i], windows, &keys[i * stride..][..stride]);
            *hit = if found == EMPTY { otherwise } else { unpack(found) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts by every kind of instructions answer as keys alone do: keys at home, keys away, keys
    /// that are not there, of every number of words that has a loop of its own and more.
    #[test]
    fn all_instructions_answer_alike() {
        let mut n = 5u64;
        let mut random = move || {
            n ^= n << 13;
            n ^= n >> 7;
            n ^= n << 17;
            n
        };
        for len in [1, 6, 8, 13, 16, 24, 40, 56, 72] {
            let layout = Layout::new(&[len]).unwrap().with_seed(9);
            let stride = layout.stride();
            for entries in [1, 20, 250, 9_000u32] {
                let mut hash = Hash::new(layout.clone());
                let mut draw = |wide: u32| {
                    let mut value = vec![0; len];
                    let random = (random() as u32 % wide).to_be_bytes();
                    value[len.saturating_sub(4)..].copy_from_slice(&random[4 - len.min(4)..]);
                    value
                };
                for id in 0..entries {
                    let value = draw(entries * 2);
                    let rule = Rule::new(id, 7, u64::from(id), &value, &vec![0xff; len]);
                    hash.insert(&rule.with_action(id ^ 1)).unwrap();
                }
                let catch_all = Rule::new(entries, 3, 0, &vec![0; len], &vec![0; len]);
                hash.insert(&catch_all).unwrap();
                for count in [1, 7, 8, 9, 16, 31, 32, 45] {
                    let mut keys = vec![0; count * stride];
                    keys.chunks_mut(stride).for_each(|key| {
                        key[..len].copy_from_slice(&draw(entries * 3));
                    });
                    let want: Vec<Hit> =
                        keys.chunks(stride).map(|key| hash.lookup(&key[..len])).collect();
                    for lanes in 0..=2 {
                        simd::LANES_MAX.set(lanes);
                        let mut got = vec![Hit::MISS; count];
                        hash.lookup_burst(&keys, stride, &mut got);
                        assert_eq!(got, want, "{len} bytes, {entries} entries, lanes {lanes}");
                        for (part, want) in want.chunks(PHASE).enumerate() {
                            let mut got = vec![Hit::MISS; want.len()];
                            let keys = &keys[part * PHASE * stride..];
                            let one = Together::of([Some(&hash)].into_iter());
                            let left = mixed(&one, &[0; PHASE], keys, stride, &mut got);
                            let wide = hash.held().unwrap().windows().len() > UNROLLED_MAX;
                            assert_eq!(left != 0, wide);
                            assert!(wide || got == want, "mixed, {len} bytes, lanes {lanes}");
                        }
                    }
                }
            }
        }
    }
}
