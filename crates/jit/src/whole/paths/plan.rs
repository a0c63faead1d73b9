//! How a table is looked up where something is known of the packet, and ways on from there.

use super::super::code::{ActionCode, Code};
use super::facts::{About, Column, Facts};
use super::follow::{self, Begin, Folded, Write};
use super::{Paths, StateId, TOP, World};
use interp::Lookup;
use ir::{
    Action, ActionCall, ActionId, Bits, BlockId, DropReason, Entry, EntryId, KeyMatch, Pattern,
    TableId, Terminator,
};
use opt::known::{Known, mask};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Entries that are compared one by one, at most.
const TESTS_MAX: usize = 8;
/// From so many entries on, one field's value decides, where that is worth it.
const SWITCH_FROM: usize = 3;
/// Lookups on one way, at most.
const STEPS_MAX: usize = 64;
/// Ways on from a lookup of a whole table.
const OUTCOMES_MAX: usize = 1024;
/// What is remembered of an action's stretches.
const SEEN_MAX: usize = 64;

/// A plan.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) table: TableId,
    pub(super) block: BlockId,
    pub(super) state: StateId,
    pub(crate) choice: Choice,
    pub(crate) outcomes: Vec<Outcome>,
}

/// How the way on is found.
#[derive(Debug)]
pub(crate) enum Choice {
    /// There is one.
    Known,
    /// The first of these lists of which all hold; behind them there is one more outcome.
    Tests(Box<[Box<[Test]>]>),
    /// By bits of a field: what is known then.
    Switch { key: u16, mask: u64, children: SmallVec<[(u64, StateId); 4]> },
    /// The table is looked up; outcomes by entry.
    Find(HashMap<Option<EntryId>, u32>),
}

/// A comparison of a key field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// Of at most 64 bits.
    Word { key: u16, mask: u64, value: u64 },
    /// Of any other.
    Any { key: u16, width: u32, pattern: Pattern },
}

/// A way on.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Lookups, in their order. There is at least one.
    pub(crate) steps: Box<[Lookup]>,
    /// What is written by all actions but the last, and by that too if it does nothing else.
    pub(crate) writes: Box<[Write]>,
    /// The last action does nothing, and nothing matched.
    pub(crate) missed: bool,
    /// The last action, if it does more than to write.
    pub(crate) act: Option<Box<Act>>,
    /// What is known in front of that, or behind all.
    pub(crate) at: StateId,
    /// What is known behind it, unless it stops on its way.
    pub(crate) behind: StateId,
    /// What is known where it ends the pass.
    pub(crate) ended: StateId,
    /// The pass ends there: with a drop, for this reason.
    pub(crate) end: Option<Option<DropReason>>,
    /// Where control goes, unless that action says otherwise.
    pub(crate) next: BlockId,
    /// Blocks that it goes by.
    pub(crate) passed: Box<[BlockId]>,
}

/// An action to be run.
#[derive(Debug)]
pub(crate) struct Act {
    pub(crate) id: ActionId,
    pub(crate) action: Arc<Action>,
    pub(crate) words: Box<[u64]>,
    pub(super) known: Arc<[Known]>,
    /// It asks for something on its way.
    pub(crate) stops: bool,
    pub(super) seen: Vec<Stretch>,
}

/// What code of an action did between two stops.
#[derive(Debug)]
pub(super) struct Stretch {
    /// What was known when it began, and where.
    pub(super) at: StateId,
    pub(super) from: Begin,
    /// Where its site lies, or at the end.
    pub(super) to: Option<usize>,
    /// What is known there, and the number of the operation.
    pub(super) came_to: Option<(StateId, u32)>,
}

impl Act {
    /// Remembers a stretch, in place of one that was not taken lately.
    pub(super) fn note(&mut self, seen: Stretch) {
        if self.seen.len() == SEEN_MAX {
            self.seen.pop();
        }
        self.seen.push(seen);
    }
}

/// Entries that may match, with what remains to be compared; if one surely does, it is the last.
struct Candidates {
    /// Places in the table's list.
    left: Vec<(usize, Vec<Test>)>,
    /// The one that surely matches if none before it does; none: nothing matches then.
    sure: Option<usize>,
    /// There are more than [`CANDIDATES_MAX`].
    many: bool,
}

/// A field that entries look at.
#[derive(Default)]
struct Field {
    key: u16,
    /// How many do.
    entries: usize,
    /// At which of its bits.
    bits: u64,
    /// Which bits and values.
    values: Vec<(u64, u64)>,
}

/// Entries that are looked at before a plan takes the whole table.
const CANDIDATES_MAX: usize = 256;

/// A pattern's bits that are not known to be as it says; none if it surely does not match. `Some(None)`: it does.
#[allow(clippy::option_option)]
fn remaining(key: u16, width: u32, pattern: &Pattern, known: &Known) -> Option<Option<Test>> {
    match opt::residual::surely(pattern, known) {
        Some(true) => return Some(None),
        Some(false) => return None,
        None => {}
    }
    let narrow = |value: &Bits, mask: u128| {
        let mask = (mask & !(known.zeros | known.ones)) as u64;
        Test::Word { key, mask, value: value.low_u64() & mask }
    };
    let all = mask(width);
    Some(Some(match pattern {
        _ if width > 64 => Test::Any { key, width, pattern: pattern.clone() },
        Pattern::Exact(value) => narrow(value, all),
        Pattern::Masked(value, mask) => narrow(value, mask.low_u128()),
        Pattern::Prefix(value, length) => narrow(value, all & !mask(width - (*length).min(width))),
        Pattern::Range(..) => Test::Any { key, width, pattern: pattern.clone() },
    }))
}

impl Paths {
    /// What may match in a table where this is known. The table is loaded.
    fn candidates(&self, world: World<'_>, facts: &Facts, table: TableId) -> Option<Candidates> {
        let entries = self.tables[table.index()].entries.as_ref()?;
        let program = &world.code.layout.program;
        let about = About { program, subjects: &self.subjects, facts };
        let columns = self.subjects.of_table(table.index());
        let key = &program.tables[table.index()].key;
        let mut known: Vec<Option<Known>> = vec![None; key.len()];
        let mut of = |at: usize| {
            *known[at].get_or_insert_with(|| match columns[at] {
                Some(column) => about.column(column),
                None => Known::nothing(key[at].width),
            })
        };
        let mut found = Candidates { left: Vec::new(), sure: None, many: false };
        'entries: for (place, entry) in entries.iter().enumerate() {
            let mut tests = Vec::new();
            for KeyMatch { key: at, pattern } in &entry.matches {
                let width = key[usize::from(*at)].width;
                match remaining(*at, width, pattern, &of(usize::from(*at))) {
                    None => continue 'entries,
                    Some(None) => {}
                    Some(Some(test)) => tests.push(test),
                }
            }
            if tests.is_empty() {
                found.sure = Some(place);
                break;
            }
            if found.left.len() == CANDIDATES_MAX {
                found.many = true;
                break;
            }
            found.left.push((place, tests));
        }
        Some(found)
    }

    /// Makes a plan; the table is loaded, and the plan will have this number.
    pub(super) fn make(
        &mut self,
        world: World<'_>,
        state: StateId,
        block: BlockId,
        table: TableId,
        id: u32,
    ) -> Plan {
        let facts = self.states[state as usize].facts.clone();
        let mut plan = Plan {
            table,
            block,
            state,
            choice: Choice::Find(HashMap::new()),
            outcomes: Vec::new(),
        };
        self.tables[table.index()].dependents.push(id);
        let Some(candidates) = self.candidates(world, &facts, table) else { return plan };
        let Candidates { left, sure, many } = candidates;
        if !many
            && (left.len() >= SWITCH_FROM)
            && let Some((key, mask)) = self.decides(world, table, &left)
        {
            plan.choice = Choice::Switch { key, mask, children: SmallVec::new() };
            return plan;
        }
        if many || left.len() > TESTS_MAX {
            return plan;
        }
        let mut tests = Vec::new();
        for (place, list) in left {
            let entry = self.entry(table, place);
            plan.outcomes.push(self.outcome(world, &facts, block, entry.as_ref(), id));
            tests.push(list.into_boxed_slice());
        }
        let entry = sure.and_then(|place| self.entry(table, place));
        plan.outcomes.push(self.outcome(world, &facts, block, entry.as_ref(), id));
        plan.choice = match tests.is_empty() {
            true => Choice::Known,
            false => Choice::Tests(tests.into_boxed_slice()),
        };
        plan
    }

    fn entry(&self, table: TableId, place: usize) -> Option<Arc<Entry>> {
        self.tables[table.index()].entries.as_ref()?.get(place).cloned()
    }

    /// The field, and which of its bits, that tells most entries apart; none if no field has few values.
    fn decides(
        &self,
        world: World<'_>,
        table: TableId,
        left: &[(usize, Vec<Test>)],
    ) -> Option<(u16, u64)> {
        let columns = self.subjects.of_table(table.index());
        let code = world.code;
        let keys = &code.keys[code.key_of[table.index()]];
        let mut fields: Vec<Field> = Vec::new();
        let mut ranged: Vec<u16> = Vec::new();
        for test in left.iter().flat_map(|(_, tests)| tests) {
            match test {
                Test::Word { key, mask, value } => {
                    let at = fields.iter().position(|f| f.key == *key).unwrap_or_else(|| {
                        fields.push(Field { key: *key, ..Field::default() });
                        fields.len() - 1
                    });
                    let field = &mut fields[at];
                    field.entries += 1;
                    field.bits |= mask;
                    if !field.values.contains(&(*mask, *value)) {
                        field.values.push((*mask, *value));
                    }
                }
                Test::Any { key, .. } => ranged.push(*key),
            }
        }
        let fits = |field: &&Field| {
            let key = usize::from(field.key);
            columns[key].is_some_and(|column| !self.spread[usize::from(column)])
                && keys[key].bytes <= 8
                && !ranged.contains(&field.key)
                && field.values.len() < super::VALUES_MAX
        };
        let fields = fields.iter().filter(fits);
        let best = fields.max_by_key(|f| (f.entries, std::cmp::Reverse(f.values.len())))?;
        (2 * best.entries >= left.len()).then_some((best.key, best.bits))
    }

    /// The way on from the lookup of a block, by this entry, or by none.
    pub(super) fn outcome(
        &mut self,
        world: World<'_>,
        facts: &Facts,
        block: BlockId,
        entry: Option<&Arc<Entry>>,
        plan: u32,
    ) -> Outcome {
        let code = world.code;
        let layout = code.layout.clone();
        let (mut facts, mut block, mut entry) = (facts.clone(), block, entry.cloned());
        let mut steps = Vec::new();
        let mut writes: Vec<Write> = Vec::new();
        let mut passed = Vec::new();
        loop {
            let Terminator::Apply { table, hit, miss, by_action } = &code.blocks[block.index()].end
            else {
                unreachable!("plans are of blocks that look up");
            };
            if let Some(entry) = &entry {
                self.learn(world, &mut facts, *table, entry);
            }
            let counts = entry.is_some() && layout.program.tables[table.index()].counters;
            steps.push(Lookup { table: *table, entry: entry.as_ref().map(|e| e.id), counts });
            let call: ActionCall = match &entry {
                Some(entry) => entry.action.clone(),
                None => world.view.default_action(*table).clone(),
            };
            let listed = by_action.iter().find(|(action, _)| *action == call.action);
            let ended = if entry.is_some() { *hit } else { *miss };
            let next = listed.map_or(ended, |(_, block)| *block);
            let action = code.actions.get(call.action);
            let missed = entry.is_none() && action.is_none_or(|action| action.idle);
            let known: Arc<[Known]> = call.args.iter().map(Known::of).collect();
            let body = action.map_or(&[][..], |action| &action.action.body);
            let folded = self.follow(&layout, &known).folded(body, facts.clone());
            let Some((after, folded)) = folded else {
                let Some(ActionCode { action, .. }) = action else {
                    unreachable!("an action without operations is folded");
                };
                let act = Act::new(&call, action.clone(), known.clone());
                let (behind, ended) = match act.stops {
                    true => (None, None),
                    false => self.follow(&layout, &known).ends(&action.body, facts.clone()),
                };
                let mut known = |facts: Option<Facts>| facts.map_or(TOP, |facts| self.state(facts));
                let (behind, ended) = (known(behind), known(ended));
                let (at, act) = (self.state(facts), Some(Box::new(act)));
                self.depend(&steps, plan);
                let (steps, writes, passed) = (steps.into(), writes.into(), passed.into());
                let end = None;
                return Outcome {
                    steps,
                    writes,
                    missed,
                    act,
                    at,
                    behind,
                    ended,
                    end,
                    next,
                    passed,
                };
            };
            facts = after;
            folded.writes.iter().for_each(|write| Folded::write(&mut writes, *write));
            let next = folded.goto.unwrap_or(next);
            let ahead = match steps.len() < STEPS_MAX && folded.end.is_none() {
                true => self.ahead(world, &facts, block, next, &mut passed),
                false => Err(next),
            };
            match ahead {
                Ok((at, sure)) => (block, entry) = (at, sure),
                Err(next) => {
                    let at = self.state(facts);
                    self.depend(&steps, plan);
                    let (steps, writes, passed) = (steps.into(), writes.into(), passed.into());
                    let (act, behind, ended, end) = (None, at, at, folded.end);
                    return Outcome {
                        steps,
                        writes,
                        missed,
                        act,
                        at,
                        behind,
                        ended,
                        end,
                        next,
                        passed,
                    };
                }
            }
        }
    }

    /// A plan is another one if one of these tables changes.
    fn depend(&mut self, steps: &[Lookup], plan: u32) {
        for step in steps {
            let dependents = &mut self.tables[step.table.index()].dependents;
            if dependents.last() != Some(&plan) {
                dependents.push(plan);
            }
        }
    }

    /// The next lookup, if what matches there is known: its block, and the entry. Else where control goes.
    fn ahead(
        &mut self,
        world: World<'_>,
        facts: &Facts,
        from: BlockId,
        next: BlockId,
        passed: &mut Vec<BlockId>,
    ) -> Result<(BlockId, Option<Arc<Entry>>), BlockId> {
        let code: &Code = world.code;
        let (mut from, mut next) = (from, next);
        loop {
            let block = code.blocks.get(next.index()).filter(|block| block.entry.is_none());
            let (true, Some(block)) = (next > from, block) else { return Err(next) };
            match &block.end {
                Terminator::Jump(to) => {
                    passed.push(next);
                    (from, next) = (next, *to);
                }
                Terminator::Apply { table, .. } => {
                    let quiet = self.tables[table.index()].patience == 0;
                    if !quiet || !self.load(world, *table) {
                        return Err(next);
                    }
                    let candidates = self.candidates(world, facts, *table);
                    return match candidates {
                        Some(Candidates { left, sure, many: false }) if left.is_empty() => {
                            passed.push(next);
                            Ok((next, sure.and_then(|place| self.entry(*table, place))))
                        }
                        _ => Err(next),
                    };
                }
                Terminator::If { .. } | Terminator::Exit => return Err(next),
            }
        }
    }

    /// What an entry's match tells.
    fn learn(&self, world: World<'_>, facts: &mut Facts, table: TableId, entry: &Entry) {
        let program = &world.code.layout.program;
        let columns = self.subjects.of_table(table.index());
        for KeyMatch { key, pattern } in &entry.matches {
            let Some(column): Option<Column> = columns[usize::from(*key)] else { continue };
            let width = program.tables[table.index()].key[usize::from(*key)].width;
            let all = mask(width);
            let (value, bits) = match pattern {
                Pattern::Exact(value) => (value, all),
                Pattern::Masked(value, mask) => (value, mask.low_u128()),
                Pattern::Prefix(value, length) => {
                    (value, all & !mask(width - (*length).min(width)))
                }
                Pattern::Range(..) => continue,
            };
            let value = value.low_u128();
            let known = Known { width, zeros: !value & bits, ones: value & bits };
            facts.learn(program, &self.subjects, column, known);
        }
    }

    /// The way on behind a lookup of the whole table, by what matched.
    pub(crate) fn found(
        &mut self,
        world: World<'_>,
        plan: u32,
        entry: Option<EntryId>,
    ) -> Option<u32> {
        let Plan { table, block, state, choice, outcomes } = self.at(plan);
        let (table, block, state, number) = (*table, *block, *state, outcomes.len());
        let Choice::Find(by_entry) = choice else { return None };
        if let Some(outcome) = by_entry.get(&entry) {
            return Some(*outcome);
        }
        if number == OUTCOMES_MAX {
            return None;
        }
        let facts = self.states[state as usize].facts.clone();
        let held = match entry {
            Some(id) => {
                let entries = self.tables[table.index()].entries.as_ref()?;
                Some(entries.iter().find(|held| held.id == id)?.clone())
            }
            None => None,
        };
        let outcome = self.outcome(world, &facts, block, held.as_ref(), plan);
        let plan = self.at(plan);
        plan.outcomes.push(outcome);
        if let Choice::Find(by_entry) = &mut plan.choice {
            by_entry.insert(entry, number as u32);
        }
        Some(number as u32)
    }
}

impl Act {
    fn new(call: &ActionCall, action: Arc<Action>, known: Arc<[Known]>) -> Act {
        let words = call.args.iter().flat_map(|arg| arg.limbs().iter().copied()).collect();
        let stops = !follow::stops(&action.body).is_empty();
        Act { id: call.action, action, words, known, stops, seen: Vec::new() }
    }
}
