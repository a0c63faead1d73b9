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

use crate::agent::{Agent, elements};
use crate::flow_table::{Flow, FlowKey};
use crate::refusal::Refusal;
use crate::validate::Rules;
use of_lower::conjunctive::{self, Part};
use of_lower::{Call, Context, lower_instructions};
use openflow::syntax::{Context as Syntax, parse_actions};
use openflow::{FieldId, FlowModFlags, Instruction, Instructions, Match, Version};
use std::str::FromStr;

/// A table that reflects another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synchronised {
    /// It.
    pub table: u8,
    /// The source.
    pub from: u8,
    /// What reflections do; none for what their sources do.
    pub instructions: Option<Instructions>,
}

impl FromStr for Synchronised {
    type Err = String;

    /// `TABLE=SOURCE[,INSTRUCTIONS]`, the instructions in `ovs-ofctl`'s words: `0=1,goto_table:1`.
    fn from_str(text: &str) -> Result<Synchronised, String> {
        let (tables, instructions) = match text.split_once(',') {
            Some((tables, instructions)) => (tables, Some(instructions)),
            None => (text, None),
        };
        let numbers = tables.split_once('=').and_then(|(table, from)| {
            Some((table.trim().parse().ok()?, from.trim().parse().ok()?))
        });
        let Some((table, from)) = numbers else {
            return Err(format!(
                "synchronised table {text}: write TABLE=SOURCE[,INSTRUCTIONS], as in 0=1,goto_table:1"
            ));
        };
        let instructions = instructions
            .map(|words| parse_actions(words, &Syntax::new(Version::V15)))
            .transpose()
            .map_err(|error| format!("synchronised table {text}: {error}"))?;
        Ok(Synchronised { table, from, instructions })
    }
}

/// Why a table cannot be synchronised as the configuration says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("table {table} cannot be synchronised from table {from}: {why}")]
pub struct Impossible {
    table: u8,
    from: u8,
    why: String,
}

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

/// An entry that an add brings beside the one that it is about.
pub(crate) struct Reflection {
    pub(crate) table: u8,
    /// The equal one that is there.
    pub(crate) old: Option<FlowKey>,
    /// All but its action.
    pub(crate) flow: Flow,
    pub(crate) call: Call,
}

impl Agent {
    /// The tables that are synchronised from this one.
    fn followers(&self, table: u8) -> impl Iterator<Item = &Synchronised> {
        self.config.synchronised.iter().filter(move |one| one.from == table)
    }

    /// The table that this one is synchronised from, and what its entries do if that is given.
    pub(crate) fn synchronised_from(&self, table: u8) -> Option<&Synchronised> {
        self.config.synchronised.iter().find(|one| one.table == table)
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
    pub fn is_reflection(&self, table: u8, priority: u16, matching: &Match) -> bool {
        self.reflection_at(table, priority, matching).is_some()
    }

    /// These entries, and behind them what reflects them.
    pub(crate) fn with_reflections(&self, mut keys: Vec<FlowKey>) -> Vec<FlowKey> {
        if !self.config.synchronised.is_empty() {
            let beside: Vec<_> = keys.iter().flat_map(|key| self.reflections_of(*key)).collect();
            keys.extend(beside);
        }
        keys
    }

    //= openflow-1.5.1 §7.5.4: an entry that is there by synchronisation is read-only where the switch says so:
    //= OFPFMFC_IS_SYNC.
    /// Refuses a request about these entries, which are in order, if it changes a reflection without its source.
    pub(crate) fn leaves_sources(&self, keys: &[FlowKey]) -> Result<(), Refusal> {
        if self.config.synchronised.is_empty() {
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
        dialect: Version,
        table: u8,
        flow: &Flow,
        leaving: &[FlowKey],
    ) -> Result<Vec<Reflection>, Refusal> {
        let mut all = Vec::new();
        for to in self.followers(table) {
            let Some(matching) = flow.matching.transposed() else { break };
            let cannot = |why: String| Refusal::CannotSynchronise { table, to: to.table, why };
            let old = self.flows.find_strict(to.table, flow.priority, &matching);
            let taken = |key| self.flows.get(key).is_some_and(|flow| !flow.synchronised);
            if old.is_some_and(taken) {
                return Err(cannot("an entry of its own is in that place; delete it".to_owned()));
            }
            let capacity = self.table_configs.capacity(to.table);
            let left = leaving.iter().filter(|key| key.table == to.table).count();
            if old.is_none() && self.flows.len(to.table) - left >= capacity as usize {
                return Err(cannot(format!("it is full: {capacity} of {capacity} entries")));
            }
            let instructions = &flow.instructions;
            let (instructions, call) =
                self.reflected_instructions(dialect, to, &matching, instructions)?;
            let flow = Flow {
                flags: flow.flags - FlowModFlags::SEND_FLOW_REM,
                synchronised: true,
                idle_timeout: 0,
                hard_timeout: 0,
                matching,
                instructions,
                ..*flow
            };
            all.push(Reflection { table: to.table, old, flow, call });
        }
        Ok(all)
    }

    /// What the reflection of an entry with these instructions does; `matching` is the reflection's.
    pub(crate) fn reflected_instructions(
        &self,
        dialect: Version,
        to: &Synchronised,
        matching: &Match,
        instructions: &Instructions,
    ) -> Result<(Instructions, Call), Refusal> {
        let cannot = |why: String| Refusal::CannotSynchronise { table: to.from, to: to.table, why };
        if is_of_conjunctions(matching, instructions) {
            return Err(cannot("conjunctions are not reflected".to_owned()));
        }
        let instructions = to.instructions.as_ref().unwrap_or(instructions);
        let lowered = || {
            self.rules().instructions(dialect, to.table, Some(matching), instructions)?;
            let elements = elements(&self.switch);
            let context = Context::Entry;
            Ok(lower_instructions(&self.layout, &elements, to.table, context, instructions)?)
        };
        let call = lowered().map_err(|refusal: Refusal| cannot(refusal.to_string()))?;
        Ok((instructions.clone(), call))
    }
}
