//! Lookups by [paths](super::super::paths): what is known of a packet decides how a table is looked up, if it is at all.

use super::super::layout::at;
use super::super::paths::{Begin, Choice, Doing, Outcome, Paths, TOP, Test, Write};
use super::super::site::Site;
use super::super::state::Copy;
use super::{End, Keys, Run, take_goto};
use interp::KeyFields;
use ir::{Bits, BlockId, TableId};
use smallvec::SmallVec;

impl Test {
    /// The packet's key is so.
    #[inline]
    fn holds(&self, keys: &mut Keys<'_, '_>) -> bool {
        match self {
            Test::Word { key, mask, value } => keys.word(*key) & mask == *value,
            Test::Any { key, width, pattern } => {
                let mut bytes: SmallVec<[u8; 16]> = SmallVec::new();
                bytes.resize(width.div_ceil(8) as usize, 0);
                keys.bytes(*key, &mut bytes);
                pattern.matches(&Bits::from_be_bytes(&bytes, *width))
            }
        }
    }
}

impl Run<'_> {
    /// Goes on from the lookup of this block as far as is known: the next block, or why the pass ended. None, with nothing done:
    /// the table is to be looked up.
    #[inline]
    pub(super) fn walk(
        &mut self,
        copy: &mut Copy,
        (block, table): (BlockId, TableId),
        until: Option<BlockId>,
    ) -> Option<Result<BlockId, End>> {
        if copy.guise.is_some() {
            return None;
        }
        let paths = self.paths.take()?;
        let (chosen, next) = match self.choose(paths, copy, block, table) {
            Some(chosen) => {
                let plan = paths.at(chosen.0);
                let outcome = &plan.outcomes[chosen.1 as usize];
                // A call ends on the way.
                match until.is_some_and(|until| outcome.passed.contains(&until)) {
                    true => (None, None),
                    false => (Some(chosen), self.go(outcome, copy)),
                }
            }
            None => (None, None),
        };
        self.paths = Some(paths);
        let chosen = chosen?;
        Some(match next {
            Some(next) => next,
            None => self.act(copy, chosen),
        })
    }

    /// The outcome of a lookup: its plan, and its number there.
    #[inline]
    fn choose(
        &mut self,
        paths: &mut Paths,
        copy: &mut Copy,
        block: BlockId,
        table: TableId,
    ) -> Option<(u32, u32)> {
        let (world, code) = (self.world, self.code);
        let list = &code.keys[code.key_of[table.index()]];
        let mut state = copy.at;
        loop {
            let number = paths.plan(world, state, block)?;
            let plan = paths.at(number);
            let mut keys = Keys { run: self, copy, keys: list, columns: &[] };
            match &plan.choice {
                Choice::Known => return Some((number, 0)),
                Choice::Tests(lists) => {
                    let first = lists
                        .iter()
                        .position(|tests| tests.iter().all(|test| test.holds(&mut keys)));
                    return Some((number, first.unwrap_or(lists.len()) as u32));
                }
                Choice::Switch { key, mask, children } => {
                    let value = keys.word(*key) & mask;
                    let child = children.iter().find(|(v, _)| *v == value);
                    state = match child {
                        Some((_, child)) => *child,
                        None => paths.child(world, number, value)?,
                    };
                }
                Choice::Find(by_entry) => {
                    let found = world.view.find(table, &mut keys);
                    let outcome = match by_entry.get(&found.entry) {
                        Some(outcome) => *outcome,
                        None => paths.found(world, number, found.entry)?,
                    };
                    return Some((number, outcome));
                }
            }
        }
    }

    /// Counts lookups and writes what is known to be written: the next block, or why the pass ends, if that is all.
    #[inline]
    fn go(&mut self, outcome: &Outcome, copy: &mut Copy) -> Option<Result<BlockId, End>> {
        self.externs.count_lookups(&outcome.steps, copy.length);
        for Write { word, keep, value } in &outcome.writes {
            let word = &mut copy.words[*word as usize];
            *word = *word & keep | value;
        }
        copy.last = outcome.steps.last().map(|step| (step.table, step.entry));
        copy.bucket = None;
        copy.words[at::MISSED] = u64::from(outcome.missed);
        copy.at = outcome.at;
        match (outcome.end, &outcome.act) {
            (Some(None), _) => Some(Err(End::Exit)),
            (Some(Some(reason)), _) => Some(Err(End::Drop(reason))),
            (None, None) => Some(Ok(outcome.next)),
            (None, Some(_)) => None,
        }
    }

    /// Runs the action of an outcome: the next block, or why the pass ended.
    fn act(&mut self, copy: &mut Copy, (plan, number): (u32, u32)) -> Result<BlockId, End> {
        let code = self.code;
        let Some(paths) = &mut self.paths else { unreachable!("the outcome is one of theirs") };
        let outcome = &paths.at(plan).outcomes[number as usize];
        let (next, missed) = (outcome.next, outcome.missed);
        let (behind, ended) = (outcome.behind, outcome.ended);
        let Some(act) = &outcome.act else { return Ok(next) };
        let stops = act.stops;
        copy.doing = stops.then_some(Doing { plan, outcome: number, from: Begin::Start });
        let action = code.actions.get(act.id);
        let entry = action.and_then(|action| Some((action.entry.as_ref()?, action.words)));
        // The arguments stay where they are: plans go between packets only.
        let (args, given) = (act.words.as_ptr(), act.words.len());
        let end = entry.and_then(|(entry, words)| {
            // Code reads so many.
            assert!(given >= words, "an outcome has its action's arguments");
            End::of(self.enter(copy, entry, args))
        });
        copy.words[at::MISSED] = u64::from(missed);
        let doing = copy.doing.take();
        if let Some(end) = end {
            copy.at = if stops { TOP } else { ended };
            return Err(end);
        }
        copy.at = match (stops, doing, &mut self.paths) {
            (false, ..) => behind,
            (true, Some(doing), Some(paths)) => {
                paths.stretch(copy.at, &doing, None).map_or(TOP, |(behind, _)| behind)
            }
            _ => TOP,
        };
        Ok(take_goto(copy).unwrap_or(next))
    }

    /// Code has come to a site: what is known of the packet there is noted in it, and what goes on behind the site is
    /// handed out, to be [given back](Copy::doing) there.
    pub(super) fn stop(&mut self, copy: &mut Copy, site: &Site) -> Option<Doing> {
        let doing = copy.doing.take();
        let known = match (doing, &mut self.paths) {
            (Some(doing), Some(paths)) => {
                let known = paths.stretch(copy.at, &doing, Some(site));
                known.map(|(known, number)| (known, number, doing))
            }
            _ => None,
        };
        let Some((known, stop, doing)) = known else {
            copy.at = TOP;
            return None;
        };
        copy.at = known;
        Some(Doing { from: Begin::Behind { stop, changed: false }, ..doing })
    }

    /// A block's code has run on the packet.
    pub(super) fn ran_block(&mut self, copy: &mut Copy, before: u32, block: BlockId) {
        let world = self.world;
        if let Some(paths) = &mut self.paths {
            copy.at = paths.behind_block(world, before, block);
        }
    }
}

impl Doing {
    /// The copy goes on inside of the operation that it stopped at.
    pub(super) fn inside(self) -> Doing {
        match self.from {
            Begin::Behind { stop, .. } => Doing { from: Begin::Inside(stop), ..self },
            _ => self,
        }
    }

    /// The service that it stopped at has changed the packet.
    pub(super) fn changed(self) -> Doing {
        match self.from {
            Begin::Behind { stop, .. } => {
                Doing { from: Begin::Behind { stop, changed: true }, ..self }
            }
            _ => self,
        }
    }
}
