//! Paths: what packets do whose way through tables is known before they come.
//!
//! ```text
//! table 8: metadata=1, reg14=2      ->  reg10 = 1, goto 9
//! table 9: metadata=1               ->  goto 10          known: metadata is 1
//! table 10: metadata=1, reg0=8/8    ->  drop             reg0 is 0: surely not
//! table 10: metadata=1              ->  goto 11          known
//! ```
//!
//! A packet that matches in table 8 matches what it does in tables 9 and 10. A controller with a pipeline of a hundred
//! tables (OVN's) has most of them look at what earlier ones wrote. So what is known of packets at a lookup ([`facts`]) leaves few
//! entries of its table; often one. A *plan* says how the table is looked up where this is known: not at all, by a few
//! comparisons, by one field that decides what else is known, or whole. Its *outcomes* are ways on: lookups to count,
//! words of metadata to write, then an action, the next block.
//!
//! In: the program's code, what tables hold ([`interp::View`]), facts. Out: an outcome for a packet. A worker makes plans as packets come
//! to them, and drops those of a table when it changes. What a plan holds follows from the entries alone, and so does
//! how many there may be. It is no cache of flows: packets of new flows take the same plans.
//!
//! | module | holds |
//! |---|---|
//! | `facts` | what is known at a place |
//! | `follow` | what operations do to it |
//! | `plan` | how a table is looked up there; ways on |
//!
//! Invariants: facts hold of every packet that has them ([`TOP`] holds of all); a plan is dropped between packets only,
//! so that what it holds stays while its action runs. Memory is bounded by [`PLANS_MAX`] and [`STATES_MAX`].
//! Checked by: `tests/whole.rs`, with views that have versions; `datapath`'s differential tests.

mod facts;
mod follow;
mod plan;

pub(crate) use follow::{Begin, Write};
pub(super) use plan::{Choice, Outcome, Test};

use super::code::Code;
use super::layout::Layout;
use super::site::{Site, What};
use facts::{Facts, Subjects};
use follow::Follow;
use interp::View;
use ir::{BlockId, Entry, TableId, Terminator};
use plan::{Plan, Stretch};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// What is known, by number.
pub(crate) type StateId = u32;

/// Nothing is known.
pub(crate) const TOP: StateId = 0;

/// Plans that a worker has, at most. Where there is none, tables are looked up whole.
const PLANS_MAX: usize = 8192;
/// Different facts that it has, at most.
const STATES_MAX: usize = 16384;
/// A table of more entries is looked up whole.
const ENTRIES_MAX: usize = 4096;
/// Values that a field may decide by; of a field of more values, none is learnt.
const VALUES_MAX: usize = 24;
/// Packets without a change after which a table counts as quiet.
const QUIET: u64 = 4096;
/// Packets that come by before a plan of a restless table is made, at most.
const PATIENCE_MAX: u32 = 256;

/// What plans are made of.
#[derive(Clone, Copy)]
pub(super) struct World<'a> {
    pub(super) view: &'a dyn View,
    pub(super) code: &'a Code,
}

/// An action that runs for a copy, and how far it has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doing {
    pub(super) plan: u32,
    pub(super) outcome: u32,
    pub(super) from: Begin,
}

/// A worker's paths.
#[derive(Debug, Default)]
pub(super) struct Paths {
    layout: Option<Arc<Layout>>,
    subjects: Subjects,
    version: Option<u64>,
    tables: Vec<TablePaths>,
    /// Tables that plans look at.
    loaded: Vec<TableId>,
    states: Vec<State>,
    ids: HashMap<Arc<Facts>, StateId>,
    plans: Vec<Option<Box<Plan>>>,
    free: Vec<u32>,
    /// What is known of a packet that has been parsed.
    start: StateId,
    /// By column: it has too many values to decide by.
    spread: Vec<bool>,
    packets: u64,
    full: Full,
}

/// What paths had no room for, by how often it was wanted. Packets go their way all the same, more slowly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Full {
    /// A plan of a lookup, so that the table was looked up whole.
    pub plans: u64,
    /// What is known of packets at a place, so that nothing is.
    pub facts: u64,
}

impl Full {
    /// There was room for all.
    pub const NO: Full = Full { plans: 0, facts: 0 };

    /// What has come since an earlier count.
    #[must_use]
    pub fn since(self, before: Full) -> Full {
        Full { plans: self.plans - before.plans, facts: self.facts - before.facts }
    }
}

/// A table, as far as plans are concerned.
#[derive(Debug, Default)]
struct TablePaths {
    loaded: bool,
    stamp: u64,
    /// Best first; none if they are too many.
    entries: Option<Vec<Arc<Entry>>>,
    /// Plans that are other ones if it changes. Some may be gone.
    dependents: Vec<u32>,
    /// Packets that come by before a plan is made.
    patience: u32,
    changed: u64,
}

#[derive(Debug)]
struct State {
    facts: Arc<Facts>,
    /// Plans of lookups where this is known.
    slots: SmallVec<[Slot; 1]>,
    /// What is known behind the code of blocks.
    blocks: SmallVec<[(BlockId, StateId); 1]>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    block: BlockId,
    /// None while it waits.
    plan: Option<u32>,
    seen: u32,
}

impl Paths {
    /// Before a packet runs: plans that do not hold any more go.
    pub(super) fn begin(&mut self, world: World<'_>, version: u64) {
        self.packets += 1;
        let layout = &world.code.layout;
        if !self.layout.as_ref().is_some_and(|known| Arc::ptr_eq(known, layout)) {
            return self.reset(world, version);
        }
        if self.version != Some(version) {
            self.update(world, version);
        }
    }

    #[cold]
    fn reset(&mut self, world: World<'_>, version: u64) {
        let layout = &world.code.layout;
        let subjects = Subjects::new(&layout.program);
        let start = Facts::received(&layout.program, &subjects);
        *self = Paths {
            layout: Some(layout.clone()),
            version: Some(version),
            tables: layout.program.tables.iter().map(|_| TablePaths::default()).collect(),
            spread: vec![false; subjects.columns()],
            packets: self.packets,
            full: self.full,
            subjects,
            ..Paths::default()
        };
        self.state(Facts::default());
        self.start = self.state(start);
    }

    /// Tables hold something else.
    #[cold]
    fn update(&mut self, world: World<'_>, version: u64) {
        if self.is_full() {
            return self.reset(world, version);
        }
        self.version = Some(version);
        for table in std::mem::take(&mut self.loaded) {
            let stamp = world.view.stamp(table);
            let of = &mut self.tables[table.index()];
            if of.stamp == stamp {
                self.loaded.push(table);
                continue;
            }
            of.patience = match self.packets - of.changed < QUIET {
                true => (2 * of.patience + 1).min(PATIENCE_MAX),
                false => 0,
            };
            (of.loaded, of.entries, of.changed) = (false, None, self.packets);
            for plan in std::mem::take(&mut of.dependents) {
                self.forget(plan);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.states.len() >= STATES_MAX || self.plans.len() >= PLANS_MAX && self.free.is_empty()
    }

    /// Drops a plan, if it is there.
    fn forget(&mut self, plan: u32) {
        if let Some(gone) = self.plans.get_mut(plan as usize).and_then(Option::take) {
            self.states[gone.state as usize].slots.retain(|slot| slot.plan != Some(plan));
            self.free.push(plan);
        }
    }

    /// What there was no room for since the last call.
    #[inline]
    pub(super) fn take_full(&mut self) -> Full {
        std::mem::take(&mut self.full)
    }

    /// What is known of a packet that was received and parsed.
    pub(super) fn start(&self) -> StateId {
        self.start
    }

    /// The number of facts. If there are too many, nothing is known.
    fn state(&mut self, facts: Facts) -> StateId {
        if let Some(known) = self.ids.get(&facts) {
            return *known;
        }
        if self.states.len() >= STATES_MAX {
            self.full.facts += 1;
            return TOP;
        }
        let (facts, id) = (Arc::new(facts), self.states.len() as StateId);
        self.ids.insert(facts.clone(), id);
        self.states.push(State { facts, slots: SmallVec::new(), blocks: SmallVec::new() });
        id
    }

    /// A table's entries are at hand, if they are not too many.
    fn load(&mut self, world: World<'_>, table: TableId) -> bool {
        let of = &mut self.tables[table.index()];
        if !of.loaded {
            of.loaded = true;
            of.stamp = world.view.stamp(table);
            of.entries = world.view.in_order(table, ENTRIES_MAX);
            self.loaded.push(table);
        }
        of.entries.is_some()
    }

    /// The plan of a block's lookup where this is known. None: the table is looked up whole.
    #[inline]
    pub(super) fn plan(&mut self, world: World<'_>, at: StateId, block: BlockId) -> Option<u32> {
        let slots = &self.states[at as usize].slots;
        match slots.iter().find(|slot| slot.block == block) {
            Some(Slot { plan: Some(plan), .. }) => Some(*plan),
            _ => self.new_plan(world, at, block),
        }
    }

    #[cold]
    fn new_plan(&mut self, world: World<'_>, at: StateId, block: BlockId) -> Option<u32> {
        let Terminator::Apply { table, .. } = &world.code.blocks[block.index()].end else {
            return None;
        };
        let patience = self.tables[table.index()].patience;
        let slots = &mut self.states[at as usize].slots;
        let place = slots.iter().position(|slot| slot.block == block).unwrap_or_else(|| {
            slots.push(Slot { block, plan: None, seen: 0 });
            slots.len() - 1
        });
        slots[place].seen = slots[place].seen.saturating_add(1);
        if slots[place].seen <= patience {
            return None;
        }
        if self.plans.len() >= PLANS_MAX && self.free.is_empty() {
            self.full.plans += 1;
            return None;
        }
        if !self.load(world, *table) {
            return None;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.plans.push(None);
            self.plans.len() as u32 - 1
        });
        let plan = self.make(world, at, block, *table, id);
        self.plans[id as usize] = Some(Box::new(plan));
        self.states[at as usize].slots[place].plan = Some(id);
        Some(id)
    }

    /// A plan that is there.
    #[inline]
    pub(super) fn at(&mut self, plan: u32) -> &mut Plan {
        match &mut self.plans[plan as usize] {
            Some(plan) => plan,
            None => unreachable!("plans go between packets only"),
        }
    }

    fn follow<'a>(&'a self, layout: &'a Layout, args: &'a [opt::known::Known]) -> Follow<'a> {
        Follow { layout, subjects: &self.subjects, args }
    }

    /// What is known at a site of an action's code, or behind it all; and the number of the operation. None: nothing.
    pub(super) fn stretch(
        &mut self,
        at: StateId,
        doing: &Doing,
        site: Option<&Site>,
    ) -> Option<(StateId, u32)> {
        let outcome = &mut self.at(doing.plan).outcomes[doing.outcome as usize];
        let act = outcome.act.as_mut()?;
        let to = site.map(|site| std::ptr::from_ref(site) as usize);
        let known = |seen: &Stretch| (seen.at, seen.from, seen.to) == (at, doing.from, to);
        match act.seen.iter().position(known) {
            // Those that are taken are found at once.
            Some(0) => act.seen[0].came_to,
            Some(place) => {
                act.seen.swap(place, place / 2);
                act.seen[place / 2].came_to
            }
            None => self.new_stretch(at, doing, site),
        }
    }

    #[cold]
    fn new_stretch(
        &mut self,
        at: StateId,
        doing: &Doing,
        site: Option<&Site>,
    ) -> Option<(StateId, u32)> {
        let layout = self.layout.clone()?;
        let act = self.at(doing.plan).outcomes[doing.outcome as usize].act.as_ref()?;
        let (action, args) = (act.action.clone(), act.known.clone());
        let facts = self.states[at as usize].facts.clone();
        let follow = self.follow(&layout, &args);
        let go = |to| follow.to(&action.body, (*facts).clone(), doing.from, to);
        let mut came_to = None;
        match site.map(|site| &site.what) {
            None => came_to = go(None).map(|facts| (facts, 0)),
            Some(What::Op(op)) => {
                // Operations may look alike. Facts tell which of them code may come to.
                let stops = follow::stops(&action.body);
                for (number, _) in stops.iter().filter(|(_, stop)| follow::alike(stop, op)) {
                    let Some(facts) = go(Some(*number)) else { continue };
                    if came_to.is_some() {
                        came_to = None;
                        break;
                    }
                    came_to = Some((facts, *number));
                }
            }
            Some(_) => {}
        }
        let came_to = came_to.map(|(facts, number)| (self.state(facts), number));
        let to = site.map(|site| std::ptr::from_ref(site) as usize);
        let act = self.at(doing.plan).outcomes[doing.outcome as usize].act.as_mut()?;
        act.note(Stretch { at, from: doing.from, to, came_to });
        came_to
    }

    /// What is known behind a block's code.
    pub(super) fn behind_block(
        &mut self,
        world: World<'_>,
        at: StateId,
        block: BlockId,
    ) -> StateId {
        let blocks = &self.states[at as usize].blocks;
        if let Some((_, behind)) = blocks.iter().find(|(b, _)| *b == block) {
            return *behind;
        }
        let layout = &world.code.layout;
        let ops = &layout.program.blocks[block.index()].ops;
        let facts = (*self.states[at as usize].facts).clone();
        let stops = !follow::stops(ops).is_empty();
        let behind = match stops {
            true => None,
            false => self.follow(layout, &[]).to(ops, facts, Begin::Start, None),
        };
        let behind = behind.map_or(TOP, |facts| self.state(facts));
        self.states[at as usize].blocks.push((block, behind));
        behind
    }

    /// The facts where a field has this value; none if there are too many values, or nothing new is known.
    pub(super) fn child(&mut self, world: World<'_>, plan: u32, value: u64) -> Option<StateId> {
        let layout = world.code.layout.clone();
        let Plan { table, state, choice, .. } = self.at(plan);
        let (table, state) = (*table, *state);
        let Choice::Switch { key, mask, children } = choice else { return None };
        let (key, mask, many) = (*key, *mask, children.len() >= VALUES_MAX);
        let column = self.subjects.of_table(table.index())[usize::from(key)]?;
        if many {
            self.spread[usize::from(column)] = true;
            self.forget(plan);
            return Some(state);
        }
        let mut facts = (*self.states[state as usize].facts).clone();
        let known = opt::known::Known {
            width: 64,
            zeros: (!value & mask).into(),
            ones: (value & mask).into(),
        };
        facts.learn(&layout.program, &self.subjects, column, known);
        let child = self.state(facts);
        if child == TOP || child == state {
            return None;
        }
        if let Choice::Switch { children, .. } = &mut self.at(plan).choice {
            children.push((value, child));
        }
        Some(child)
    }
}
