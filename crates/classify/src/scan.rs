//! Few rules, or few masks: every rule, or mask, is tried on all keys of a burst at once.
//!
//! Rules are numbered by precedence, and the lowest number (*rank*) found wins. Masks of few rules have
//! theirs compared, eight rules at a time (module `lanes`); a mask of many rules has a small
//! hash (module `probe`). These steps are taken in the order of the best rank that each could
//! find, for all keys of the burst together, without a branch on any one key; when every key has a rank
//! better than what is left, the rest is spared. Behind a rule that matches everything nothing is
//! looked for.
//!
//! It declines tables of too many rules or steps, so that an update, which numbers rules anew and
//! arranges the lanes again, stays short.
//!
//! Invariants: `order` is every row by precedence, `hits` are their answers and a miss behind them;
//! `floor` is the rank of the first rule that matches everything, or that miss. A rule ranked above the
//! floor is in exactly one lane or in its mask's probe.
//! Cost: lookup, a compare of eight rules a fraction of a nanosecond, a probe a few; update, a pass over
//! the ranks, and the lanes.
//! Checked by: [`linear`](crate::linear), in the tests below and `tests/model.rs`.

use std::cmp::Ordering::{Equal, Greater, Less};

use crate::declined::{Declined, InsertError};
use crate::group::Payload;
use crate::hit::Hit;
use crate::kind::Kind;
use crate::lanes::{LANES_MAX, Lane, Level, Matched, Round};
use crate::mask;
use crate::probe::{Probe, WORDS_MAX};
use crate::rule::{Layout, Rule};
use crate::rules::{Rules, assert_burst, assert_key};
use crate::shape::TableShape;
use crate::simd::PHASE;
use crate::structure::{Explain, Structure};

/// Rules held, at most.
pub const ENTRIES_MAX: usize = 4096;
/// Rules that are compared in lanes, at most.
pub const COMPARED_MAX: usize = 4 * LANES_MAX;
/// Rules of one mask that are compared, at most: two blocks of lanes cost as much as one probe does.
pub const COMPARED_PER_MASK_MAX: usize = 16;
/// Masks that have a hash, at most.
pub const PROBES_MAX: usize = 16;

/// Rules that compare ranges under masks that have a hash, at most: those of one value are compared one after the
/// other, and nothing says how many of one value there are.
pub const RANGED_MAX: usize = 128;

/// Every rule or mask, tried on all keys at once.
#[derive(Debug, Clone)]
pub struct Scan {
    rules: Rules,
    level: Level,
    order: Vec<u32>,
    hits: Vec<Hit>,
    floor: u32,
    /// By the number of their group.
    probes: Vec<Option<Box<Probe>>>,
    steps: Vec<Step>,
}

/// A part of the search.
#[derive(Debug, Clone)]
struct Step {
    /// The best rank that it could find.
    best: u32,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    /// Rules in lanes; whether some compare ranges besides.
    Compare(Box<Round>, bool),
    /// The hash of a group.
    Probe(u32),
}

/// How many rules there are to compare, and masks to probe.
struct Extent {
    entries: usize,
    compared: usize,
    probes: usize,
    /// Of the rules under masks that are probed, those with ranges.
    ranged: usize,
}

impl Extent {
    fn fits(&self) -> Result<(), Declined> {
        let Extent { entries, compared, probes, ranged } = *self;
        if entries > ENTRIES_MAX {
            return Err(Declined::Entries { entries, max: ENTRIES_MAX });
        }
        if compared > COMPARED_MAX {
            return Err(Declined::Compared { entries: compared, max: COMPARED_MAX });
        }
        if probes > PROBES_MAX {
            return Err(Declined::Probes { masks: probes, max: PROBES_MAX });
        }
        if ranged > RANGED_MAX {
            return Err(Declined::Colliding { entries: ranged, max: RANGED_MAX });
        }
        Ok(())
    }
}

/// Whether the structure can hold a table.
pub(crate) fn fits(shape: &TableShape) -> Result<(), Declined> {
    if shape.entries == 0 {
        return Err(Declined::Empty);
    }
    let (compared, probes) = steps(shape);
    Extent { entries: shape.entries, compared, probes, ranged: ranged(shape) }.fits()
}

/// Entries that would be compared, and masks that would be probed.
pub fn steps(shape: &TableShape) -> (usize, usize) {
    shape.masks.iter().fold((0, 0), |(compared, probes), mask| {
        let words = mask::windows(&mask.mask).len();
        if probed(mask.entries, words) {
            (compared, probes + 1)
        } else if words == 0 && mask.ranged == 0 {
            // Of those that match everything the first ends the search.
            (compared, probes)
        } else {
            (compared + mask.entries, probes)
        }
    })
}

/// Entries with ranges under masks that would be probed.
pub(crate) fn ranged(shape: &TableShape) -> usize {
    let masks = shape.masks.iter();
    let probed = masks.filter(|mask| probed(mask.entries, mask::windows(&mask.mask).len()));
    probed.map(|mask| mask.ranged).sum()
}

/// Whether rules of one mask are found by a hash.
fn probed(entries: usize, words: usize) -> bool {
    entries > COMPARED_PER_MASK_MAX && (1..=WORDS_MAX).contains(&words)
}

impl Scan {
    /// An empty one.
    pub fn new(layout: Layout) -> Scan {
        Self::from_rules(Rules::new(layout))
    }

    /// Takes over a store as it is, which must fit.
    pub(crate) fn from_rules(rules: Rules) -> Scan {
        let rules = rules.paying(Payload::Row);
        let store = rules.store();
        let mut order: Vec<u32> = rules.iter().filter_map(|rule| store.ids.get(rule.id)).collect();
        order.sort_unstable_by(|&a, &b| {
            if store.rows.candidate(a).beats(&store.rows.candidate(b)) { Less } else { Greater }
        });
        let hits = order.iter().map(|&row| store.rows.hit(row)).chain([Hit::MISS]).collect();
        let mut scan = Scan {
            level: Level::detect(),
            floor: 0,
            probes: Vec::new(),
            steps: Vec::new(),
            rules,
            order,
            hits,
        };
        let groups: Vec<u32> = scan.rules.groups().map(|(at, _)| at).collect();
        groups.into_iter().for_each(|at| scan.fit_probe(at));
        scan.floor = scan.floor_from(0);
        scan.arrange();
        scan
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn into_rules(self) -> Rules {
        self.rules
    }

    /// The rank of a row, or the one that it would have.
    fn rank_of(&self, row: u32) -> usize {
        let rows = &self.rules.store().rows;
        let of = rows.candidate(row);
        self.order.partition_point(|&other| rows.candidate(other).beats(&of))
    }

    /// The rank of the first rule from `from` on that matches everything, or that of a miss.
    fn floor_from(&self, from: usize) -> u32 {
        let takes_all = |&&row: &&u32| {
            let group = self.rules.group(self.rules.store().rows.group(row));
            group.is_some_and(|group| group.mask().iter().all(|&byte| byte == 0))
                && self.rules.store().rows.ranges(row).is_empty()
        };
        let ahead = self.order[from..].iter().take_while(|row| !takes_all(row)).count();
        (from + ahead) as u32
    }

    /// Makes or drops a group's probe, as its size demands.
    fn fit_probe(&mut self, at: u32) {
        let slot = at as usize;
        if self.probes.len() <= slot {
            self.probes.resize_with(slot + 1, || None);
        }
        let Some(group) = self.rules.group(at) else {
            self.probes[slot] = None;
            return;
        };
        let wanted = probed(group.len(), group.windows().len());
        // A group that shrinks keeps its probe for a while, lest it be made again and again.
        let kept = wanted || 2 * group.len() > COMPARED_PER_MASK_MAX;
        match &self.probes[slot] {
            Some(_) if !kept => self.probes[slot] = None,
            None if wanted => {
                let rows = &self.rules.store().rows;
                let mut probe = Probe::new(group.windows(), self.rules.layout().seed());
                for (&row, rank) in self.order.iter().zip(0..) {
                    if rows.group(row) == at {
                        probe.insert(rows.value(row), rank, !rows.ranges(row).is_empty());
                    }
                }
                self.probes[slot] = Some(Box::new(probe));
            }
            _ => {}
        }
    }

    fn probe(&self, group: u32) -> Option<&Probe> {
        self.probes.get(group as usize)?.as_deref()
    }

    /// Lays out lanes and steps by the ranks of now.
    fn arrange(&mut self) {
        let rows = &self.rules.store().rows;
        let key_len = self.rules.layout().key_len();
        let mut masks = Vec::new();
        let mut values = Vec::new();
        let mut ranks: Vec<(u32, bool)> = Vec::new();
        for (&row, rank) in self.order[..self.floor as usize].iter().zip(0..) {
            let at = rows.group(row);
            let Some(group) = self.rules.group(at) else { continue };
            if self.probe(at).is_some() {
                continue;
            }
            masks.extend_from_slice(group.mask());
            values.resize(masks.len(), 0);
            let value = &mut values[masks.len() - key_len..];
            mask::unload(group.windows(), rows.value(row), value);
            ranks.push((rank, !rows.ranges(row).is_empty()));
        }
        let lane = |(at, &(rank, ranged)): (usize, &(u32, bool))| {
            let bytes = at * key_len..(at + 1) * key_len;
            Lane { mask: &masks[bytes.clone()], value: &values[bytes], rank, ranged }
        };
        let lanes: Vec<Lane<'_>> = ranks.iter().enumerate().map(lane).collect();
        let mut steps = Vec::new();
        for lanes in lanes.chunks(LANES_MAX) {
            let round = Round::new(lanes);
            let ranged = round.has_ranged();
            steps.push(Step { best: round.best(), what: What::Compare(Box::new(round), ranged) });
        }
        for (probe, at) in self.probes.iter().zip(0..) {
            let Some(probe) = probe else { continue };
            let best = probe.rank_min();
            if best < self.floor {
                steps.push(Step { best, what: What::Probe(at) });
            }
        }
        steps.sort_unstable_by_key(|step| step.best);
        self.steps = steps;
    }

    /// Whether one more rule of this mask fits.
    fn has_room(&self, rule: &Rule) -> Result<(), Declined> {
        let mut extent =
            Extent { entries: self.order.len() + 1, compared: 0, probes: 0, ranged: 0 };
        let of = self.rules.group_for(&rule.mask);
        let takes_all = rule.ranges.is_empty() && rule.mask.iter().all(|&byte| byte == 0);
        if of.is_none() && !takes_all {
            extent.compared = 1;
        }
        for (at, group) in self.rules.groups() {
            let entries = group.len() + usize::from(of == Some(at));
            let has = self.probe(at).is_some();
            if has || probed(entries, group.windows().len()) {
                extent.probes += 1;
                let one_more = of == Some(at) && !rule.ranges.is_empty();
                extent.ranged += group.ranged() + usize::from(one_more);
            } else if !(group.ranged() == 0
                && (of != Some(at) || takes_all)
                && group.mask().iter().all(|&byte| byte == 0))
            {
                extent.compared += entries;
            }
        }
        extent.fits()
    }

    /// Whether a key meets the ranges of the rule of a rank.
    fn meets(&self, rank: u32, key: &[u8]) -> bool {
        let row = self.order[rank as usize];
        self.rules.store().rows.ranges(row).iter().all(|range| range.contains(key))
    }

    /// Lowers the best ranks to those of lanes that match and whose ranges are met.
    #[cold]
    fn meet(
        &self,
        round: &Round,
        (keys, stride): (&[u8], usize),
        matched: &Matched,
        best: &mut [u32],
    ) {
        for ((best, &lanes), key) in best.iter_mut().zip(matched).zip(keys.chunks(stride)) {
            let mut better = round.ranged(lanes).take_while(|rank| rank < best);
            if let Some(rank) = better.find(|&rank| self.meets(rank, key)) {
                *best = rank;
            }
        }
    }

    /// Looks up a key of at least eight bytes.
    fn search_one(&self, key: &[u8]) -> Hit {
        let mut best = self.floor;
        for step in &self.steps {
            if best < step.best {
                break;
            }
            best = match &step.what {
                What::Compare(round, _) => {
                    let (best, matched) = round.compare_one(self.level, key, best);
                    let mut ranged = round.ranged(matched).take_while(|&rank| rank < best);
                    ranged.find(|&rank| self.meets(rank, key)).unwrap_or(best)
                }
                What::Probe(at) => match self.probe(*at) {
                    Some(probe) => probe.find(key, |rank| self.meets(rank, key)).min(best),
                    None => best,
                },
            };
        }
        self.hits[best as usize]
    }

    /// Looks up to [`PHASE`] keys up.
    fn search(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        let count = hits.len();
        let mut best = [self.floor; PHASE];
        for step in &self.steps {
            if best[..count].iter().all(|&best| best < step.best) {
                break;
            }
            match &step.what {
                What::Compare(round, ranged) => {
                    let mut matched = [[0; 8]; PHASE];
                    let burst = (keys, stride, count);
                    round.compare(self.level, burst, &mut matched, &mut best);
                    if *ranged {
                        self.meet(round, (keys, stride), &matched, &mut best[..count]);
                    }
                }
                What::Probe(at) => {
                    let Some(probe) = self.probe(*at) else { continue };
                    let mut again = probe.ask(keys, stride, count, &mut best);
                    while again != 0 {
                        let i = again.trailing_zeros() as usize;
                        let key = &keys[i * stride..][..stride];
                        let found = probe.find(key, |rank| self.meets(rank, key));
                        best[i] = best[i].min(found);
                        again &= again - 1;
                    }
                }
            }
        }
        for (hit, &best) in hits.iter_mut().zip(&best) {
            *hit = self.hits[best as usize];
        }
    }
}

impl Structure for Scan {
    fn kind(&self) -> Kind {
        Kind::Scan
    }

    fn layout(&self) -> &Layout {
        self.rules.layout()
    }

    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError> {
        let rule = self.rules.admit(rule)?;
        self.has_room(&rule).map_err(InsertError::Declined)?;
        let at = self.rules.insert(&rule);
        let Some(row) = self.rules.store().ids.get(rule.id) else { return Ok(()) };
        let rank = self.rank_of(row);
        self.order.insert(rank, row);
        self.hits.insert(rank, rule.hit());
        for probe in self.probes.iter_mut().flatten() {
            probe.raise(rank as u32);
        }
        match self.probes.get_mut(at as usize) {
            Some(Some(probe)) => {
                let rows = &self.rules.store().rows;
                probe.insert(rows.value(row), rank as u32, !rule.ranges.is_empty());
            }
            _ => self.fit_probe(at),
        }
        let takes_all = rule.ranges.is_empty() && rule.mask.iter().all(|&byte| byte == 0);
        self.floor += u32::from(rank as u32 <= self.floor);
        if takes_all {
            self.floor = self.floor.min(rank as u32);
        }
        self.arrange();
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        let row = self.rules.store().ids.get(id)?;
        let at = self.rules.group_of(id)?;
        let rank = self.rank_of(row);
        if let Some(Some(probe)) = self.probes.get_mut(at as usize) {
            probe.remove(self.rules.store().rows.value(row), rank as u32);
        }
        let (rule, _) = self.rules.remove(id)?;
        self.order.remove(rank);
        self.hits.remove(rank);
        for probe in self.probes.iter_mut().flatten() {
            probe.lower(rank as u32);
        }
        self.fit_probe(at);
        match (rank as u32).cmp(&self.floor) {
            Less => self.floor -= 1,
            Equal => self.floor = self.floor_from(rank),
            Greater => {}
        }
        self.arrange();
        Some(rule)
    }

    fn set_action(&mut self, id: u32, action: u32) -> bool {
        let Some(row) = self.rules.store().ids.get(id) else { return false };
        let rank = self.rank_of(row);
        self.hits[rank].action = action;
        self.rules.set_action(id, action)
    }

    fn lookup(&self, key: &[u8]) -> Hit {
        assert_key(self.layout(), key);
        let mut word = [0; 8];
        match word.get_mut(..key.len()) {
            // Words are read whole.
            Some(short) => {
                short.copy_from_slice(key);
                self.search_one(&word)
            }
            None => self.search_one(key),
        }
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        assert_burst(self.layout(), keys, stride, hits.len());
        for (part, hits) in hits.chunks_mut(PHASE).enumerate() {
            self.search(&keys[part * PHASE * stride..], stride, hits);
        }
    }

    fn len(&self) -> usize {
        self.rules.len()
    }

    fn memory_bytes(&self) -> usize {
        let step = |step: &Step| match &step.what {
            What::Compare(round, _) => size_of::<Round>() + round.memory_bytes(),
            What::Probe(_) => 0,
        };
        let probes = self.probes.iter().flatten();
        self.rules.memory_bytes()
            + self.order.capacity() * 4
            + self.hits.capacity() * size_of::<Hit>()
            + self.probes.capacity() * size_of::<Option<Box<Probe>>>()
            + probes.map(|probe| size_of::<Probe>() + probe.memory_bytes()).sum::<usize>()
            + self.steps.capacity() * size_of::<Step>()
            + self.steps.iter().map(step).sum::<usize>()
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        Box::new(self.rules.iter())
    }

    fn explain(&self) -> Explain {
        let steps = self.steps.iter().map(|step| match &step.what {
            What::Compare(round, _) => round.blocks(),
            What::Probe(_) => 1,
        });
        Explain {
            kind: Kind::Scan,
            entries: self.len(),
            masks: self.rules.masks(),
            probes_max: steps.sum(),
            ranged: self.rules.ranged(),
            memory_bytes: self.memory_bytes(),
        }
    }
}
