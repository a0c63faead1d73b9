//! Synchronised tables: a table that has the entries of another one, as they look from the other side (1.4.1
//! §5.11).
//!
//! The switch is configured with them ([`Synchronised`]), and controllers are told in table features. For each
//! entry of the source that names an end of the way (an Ethernet, IP or ARP address, a transport port) the
//! synchronised table has its *reflection*: of the same priority, cookie and importance, with sources and
//! destinations in each other's places, and with the instructions of the source, or those that the configuration
//! gives all of them. So an entry that forwards packets to a station brings one that knows packets from it.
//!
//! OpenFlow leaves to the switch what is reflected and how it is translated. Here:
//!
//! | | |
//! |---|---|
//! | entries that name no end, such as a table-miss entry | are each table's own: they look the same from both sides |
//! | timeouts, a flow-removed message | the source entry's; its reflection goes with it, untold |
//! | counters | each has its own |
//! | a request that changes a reflection without its source | is refused: OFPFMFC_IS_SYNC |
//! | an entry whose reflection cannot be (its place is taken, its table full, its instructions impossible there, conjunctions) | is refused: OFPFMFC_CANT_SYNC |
//! | entries of a synchronised table's own | are as in any table; none of them evicts a reflection |
//!
//! Invariants: an entry of a source that names an end has exactly one reflection in each table that is synchronised
//! from it, and every reflection has its source; what is done to both is one transaction. No table is both a source
//! and synchronised, and none is synchronised from two, so that transposing a reflection's match leads back.
//! Cost: nothing where no table is synchronised; else that of one more entry, and one strict lookup to find it.
//! Checked by: `tests/synchronised.rs`, whose model is a plain list of the sources' entries.

use crate::env::Env;
use crate::flow::{Flow, FlowKey};
use crate::refusal::Refusal;
use crate::stores::{Placing, Stores};
use crate::synchronised::{Impossible, Synchronised};
use crate::validate::Rules;
use of_lower::conjunctive::{self, Part};
use of_lower::{Call, Context, lower_instructions};
use openflow::{FieldId, FlowModFlags, Instruction, Instructions, Match, Version};

/// Whether a switch can have these.
pub(crate) fn check(list: &[Synchronised], rules: &Rules<'_>) -> Result<(), Impossible> {
    for (i, one) in list.iter().enumerate() {
        let Synchronised { table, from, instructions } = one;
        let refused = |why: String| Err(Impossible { table: *table, from: *from, why });
        if let Some(none) = [table, from].into_iter().find(|t| !rules.configs.contains(**t)) {
            return refused(format!(
                "there is no table {none}, tables are 0 to {}",
                rules.tables - 1
            ));
        }
        if table == from {
            return refused("it is the same one".to_owned());
        }
        if list[..i].iter().any(|other| other.table == *table) {
            return refused("it is synchronised already".to_owned());
        }
        if list.iter().any(|other| other.table == *from) {
            return refused("the source is synchronised itself".to_owned());
        }
        let Some(instructions) = instructions else { continue };
        if let Err(refusal) = rules.instructions(Version::V15, *table, None, instructions) {
            return refused(refusal.to_string());
        }
        // Rules that know no groups and meters refuse those; what takes part in conjunctions is left.
        if is_of_conjunctions(&Match::new(), instructions) {
            return refused("its entries would be part of conjunctions".to_owned());
        }
    }
    Ok(())
}

fn is_of_conjunctions(matching: &Match, instructions: &[Instruction]) -> bool {
    matching.has(FieldId::ConjId) || conjunctive::part(matching, instructions) != Part::None
}

/// What a reflection does: instructions, and these lowered.
type Reflected = (Instructions, Call);

impl Stores {
    /// The tables that are synchronised from this one.
    fn followers(&self, table: u8) -> impl Iterator<Item = &Synchronised> {
        self.synchronised.iter().filter(move |one| one.from == table)
    }

    /// The table that this one is synchronised from, and what its entries do if that is given.
    pub(crate) fn synchronised_from(&self, table: u8) -> Option<&Synchronised> {
        self.synchronised.iter().find(|one| one.table == table)
    }

    /// What reflects an entry.
    pub(crate) fn reflections_of(&self, key: FlowKey) -> Vec<FlowKey> {
        let mut followers = self.followers(key.table).peekable();
        if followers.peek().is_none() {
            return Vec::new();
        }
        let Some(flow) = self.flows.get(key) else { return Vec::new() };
        let Some(matching) = flow.matching.transposed() else { return Vec::new() };
        followers.filter_map(|to| self.reflection_at(to.table, flow.priority, &matching)).collect()
    }

    /// The reflection of this priority and match.
    fn reflection_at(&self, table: u8, priority: u16, matching: &Match) -> Option<FlowKey> {
        let key = self.flows.find_strict(table, priority, matching)?;
        self.flows.get(key).is_some_and(|flow| flow.synchronised).then_some(key)
    }

    /// What an entry reflects, if it does.
    pub(crate) fn source_of(&self, key: FlowKey) -> Option<FlowKey> {
        let flow = self.flows.get(key).filter(|flow| flow.synchronised)?;
        let from = self.synchronised_from(key.table)?.from;
        self.flows.find_strict(from, flow.priority, &flow.matching.transposed()?)
    }

    /// Whether the entry of this priority and match reflects another one.
    pub(crate) fn is_reflection(&self, table: u8, priority: u16, matching: &Match) -> bool {
        self.reflection_at(table, priority, matching).is_some()
    }

    /// These entries, and behind them what reflects them.
    pub(crate) fn with_reflections(&self, mut keys: Vec<FlowKey>) -> Vec<FlowKey> {
        if !self.synchronised.is_empty() {
            let beside: Vec<_> = keys.iter().flat_map(|key| self.reflections_of(*key)).collect();
            keys.extend(beside);
        }
        keys
    }

    //= openflow-1.5.1 §7.5.4: an entry that is there by synchronisation is read-only where the switch says so:
    //= OFPFMFC_IS_SYNC.
    /// Refuses a request about these entries, which are in order, if it changes a reflection without its source.
    pub(crate) fn may_change(&self, keys: &[FlowKey]) -> Result<(), Refusal> {
        if self.synchronised.is_empty() {
            return Ok(());
        }
        let alone = keys.iter().find(|key| {
            self.source_of(**key).is_some_and(|source| keys.binary_search(&source).is_err())
        });
        let Some(FlowKey { table, .. }) = alone.copied() else { return Ok(()) };
        let from = self.synchronised_from(table).map_or(table, |one| one.from);
        Err(Refusal::IsSynchronised { table, from })
    }

    //= openflow-1.4.1 §5.11: what is added to the source is added to the table that is synchronised from it; an
    //= entry for which that cannot be is refused with OFPFMFC_CANT_SYNC.
    /// What an add of this entry brings beside it; these entries go at the same time.
    pub(crate) fn reflect(
        &self,
        env: &Env,
        dialect: Version,
        source: &Placing,
        leaving: &[FlowKey],
    ) -> Result<Vec<Placing>, Refusal> {
        let (table, flow) = (source.table, &source.flow);
        let mut all = Vec::new();
        for to in self.followers(table) {
            let Some(matching) = flow.matching.transposed() else { break };
            let cannot = |why: String| Refusal::CannotSynchronise { table, to: to.table, why };
            let old = self.flows.find_strict(to.table, flow.priority, &matching);
            let taken = |key| self.flows.get(key).is_some_and(|flow| !flow.synchronised);
            if old.is_some_and(taken) {
                return Err(cannot("an entry of its own is in that place; delete it".to_owned()));
            }
            let capacity = self.tables.capacity(to.table);
            let left = leaving.iter().filter(|key| key.table == to.table).count();
            if old.is_none() && self.flows.len(to.table) - left >= capacity as usize {
                return Err(cannot(format!("it is full: {capacity} of {capacity} entries")));
            }
            let instructions = &flow.instructions;
            let (instructions, call) =
                self.reflected_instructions(env, dialect, to, &matching, instructions)?;
            let flow = Flow {
                flags: flow.flags - FlowModFlags::SEND_FLOW_REM,
                synchronised: true,
                idle_timeout: 0,
                hard_timeout: 0,
                matching,
                instructions: instructions.into(),
                ..*flow
            };
            all.push(Placing { table: to.table, old, flow, call });
        }
        Ok(all)
    }

    /// What the reflection of an entry with these instructions does; `matching` is the reflection's.
    pub(crate) fn reflected_instructions(
        &self,
        env: &Env,
        dialect: Version,
        to: &Synchronised,
        matching: &Match,
        instructions: &Instructions,
    ) -> Result<Reflected, Refusal> {
        let cannot = |why: String| Refusal::CannotSynchronise { table: to.from, to: to.table, why };
        if is_of_conjunctions(matching, instructions) {
            return Err(cannot("conjunctions are not reflected".to_owned()));
        }
        let instructions = to.instructions.as_ref().unwrap_or(instructions);
        let lowered = || {
            self.rules(env).instructions(dialect, to.table, Some(matching), instructions)?;
            let (layout, elements, context) = (&env.layout, env.elements(), Context::Entry);
            Ok(lower_instructions(layout, &elements, to.table, context, instructions)?)
        };
        let call = lowered().map_err(|refusal: Refusal| cannot(refusal.to_string()))?;
        Ok((instructions.clone(), call))
    }

    /// What reflects these entries does once they do this.
    pub(crate) fn reflect_change(
        &self,
        env: &Env,
        dialect: Version,
        keys: &[FlowKey],
        instructions: &Instructions,
    ) -> Result<Vec<(FlowKey, Reflected)>, Refusal> {
        let mut reflected = Vec::new();
        for key in keys {
            for reflection in self.reflections_of(*key) {
                let to = self.synchronised_from(reflection.table);
                let Some((to, flow)) = to.zip(self.flows.get(reflection)) else { continue };
                let matching = &flow.matching;
                let new = self.reflected_instructions(env, dialect, to, matching, instructions)?;
                reflected.push((reflection, new));
            }
        }
        Ok(reflected)
    }
}
