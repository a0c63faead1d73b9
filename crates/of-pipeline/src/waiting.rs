//! Packets that wait for their controller (ovs-actions(7), `controller(pause)`), and what they go on with.
//!
//! A packet that waits is told to the controller with all that it has left to do, its *rest*, and nothing is kept of it
//! here: what the controller sends back to resume it (`NXT_RESUME`) is that rest. It goes on as a packet of the control
//! side's own.
//!
//! The rest is a list of [`Part`]s, each what is left of one list of actions, the innermost first: of the entry or the
//! bucket that paused, then of each list that has led there by a `resubmit` ([`switch::Caller`]), outwards. Beside them
//! come the packet's stack and its action set. A copy (of `clone`, of a bucket, of `ct(table=)`) waits alone: what made
//! it has gone on, so the rest ends where the copy does.
//!
//! Lists are counted through in the order in which [`crate::lower`] makes steps of them: so a number that a packet
//! comes with ([`Mark`]) names an action. Packets of the control side's own have no entry, so that their lists are
//! kept for a while ([`Injections`]), as are the `learn`s in them.
//!
//! Checked by: `tests/pause.rs`.

use crate::agent::Agent;
use crate::flow_table::FlowKey;
use crate::lower::{Waits, as_bucket, needs_entry, until_exit};
use ir::{EntryId, GroupId};
use openflow::{
    Action, FlowMod, Instruction, Match, Message, TableId, ToController, Version, Xid, decode,
    encode,
};
use std::collections::VecDeque;
use std::sync::Arc;
use switch::Caller;

/// Lists of packets that the control side has sent are known for so many packets.
const INJECTIONS_MAX: usize = 1024;

/// What is left of one list of actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The table of the entry.
    pub(crate) table: u8,
    /// Its cookie.
    pub(crate) cookie: u64,
    /// In their order.
    pub(crate) instructions: Vec<Instruction>,
}

/// What a packet goes on with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    /// What is known of the packet beside its bytes.
    pub(crate) pipeline: Match,
    /// Its stack and its action set.
    pub(crate) waits: Waits,
    /// The innermost first.
    pub(crate) parts: Vec<Part>,
    /// It is a clone: its action set is not done in the end.
    pub(crate) cloned: bool,
}

/// An action of a list, counted from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Of those that tell what is found by the list ([`needs_entry`]).
    Told(u16),
    /// Of the calls of tables.
    Called(u16),
}

/// Looking for an action.
enum Search {
    /// It was none of these; so many are left to be counted.
    Goes(u16),
    /// It was none of these, and nothing is done behind them.
    Ends(u16),
    /// It, what stands behind it in its list, and whether that is a clone's.
    Found(Action, Vec<Action>, bool),
}

fn search(actions: &[Action], mark: Mark, mut left: u16) -> Search {
    for (at, action) in actions.iter().enumerate() {
        let counts = match (action, mark) {
            (Action::Controller(to), Mark::Told(_)) => needs_entry(to),
            (Action::Resubmit { .. }, Mark::Called(_)) => true,
            _ => false,
        };
        if counts {
            left -= 1;
            if left == 0 {
                return Search::Found(action.clone(), actions[at + 1..].to_vec(), false);
            }
        }
        match action {
            Action::Clone(inner) => match search(inner, mark, left) {
                Search::Found(action, rest, _) => return Search::Found(action, rest, true),
                Search::Goes(still) | Search::Ends(still) => left = still,
            },
            Action::Controller(to) if to.pause => return Search::Ends(left),
            Action::Exit => return Search::Ends(left),
            _ => {}
        }
    }
    Search::Goes(left)
}

/// The action, what stands behind it in all parts, and whether that is a clone's.
fn find(parts: &[Part], mark: Mark) -> Option<(Action, Vec<Part>, bool)> {
    let (Mark::Told(mut left) | Mark::Called(mut left)) = mark;
    if left == 0 {
        return None;
    }
    for (at, part) in parts.iter().enumerate() {
        let mut found = None;
        let mut rest: Vec<Instruction> = Vec::new();
        for instruction in &part.instructions {
            match instruction {
                Instruction::ApplyActions(actions) if found.is_none() => {
                    match search(actions, mark, left) {
                        Search::Found(action, behind, cloned) => {
                            found = Some((action, cloned));
                            rest.push(Instruction::ApplyActions(behind));
                        }
                        Search::Goes(still) => left = still,
                        Search::Ends(_) => return None,
                    }
                }
                // The packet was metered before anything was done.
                Instruction::Meter(_) | Instruction::StatTrigger(_) => {}
                other => rest.push(other.clone()),
            }
        }
        let Some((action, cloned)) = found else { continue };
        if cloned {
            rest.truncate(1);
        }
        let mut all = vec![Part { instructions: rest, ..*part }];
        if !cloned {
            all.extend_from_slice(&parts[at + 1..]);
        }
        return Some((action, all, cloned));
    }
    None
}

/// No entry is at hand whose timeouts these could shorten.
fn without_entry(actions: &mut Vec<Action>) {
    actions.retain(|action| !matches!(action, Action::FinTimeout(_)));
    for action in actions {
        if let Action::Clone(inner) = action {
            without_entry(inner);
        }
    }
}

impl Rest {
    /// As bytes, for the controller to keep: the stack, then the action set and each part as a flow-mod of 1.5, so that
    /// what comes back is checked as any entry is.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.cloned), self.waits.stack.len() as u8];
        for value in &self.waits.stack {
            bytes.extend(value.to_be_bytes());
        }
        let set = &self.waits.action_set;
        let first = match set.is_empty() {
            true => Vec::new(),
            false => vec![Instruction::WriteActions(set.clone())],
        };
        let first = Part { table: 0, cookie: 0, instructions: first };
        let matches = [self.pipeline.clone()].into_iter().chain(std::iter::repeat(Match::new()));
        for (part, matching) in [&first].into_iter().chain(&self.parts).zip(matches) {
            let part = FlowMod {
                dialect: Version::V15,
                table_id: TableId(part.table),
                cookie: part.cookie,
                ..FlowMod::add(matching, part.instructions.iter().cloned().collect())
            };
            // One that is too long for a message cannot be resumed, and says so then.
            let part = encode(Version::V15, Xid(0), &Message::FlowMod(part));
            bytes.extend(part.unwrap_or_default());
        }
        bytes
    }

    /// The same, read; none of what is no rest.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Rest> {
        let (&[cloned, stacked], bytes) = bytes.split_first_chunk::<2>()?;
        if cloned > 1 {
            return None;
        }
        let (stack, mut bytes) = bytes.split_at_checked(16 * usize::from(stacked))?;
        let stack = stack.as_chunks::<16>().0.iter().map(|value| u128::from_be_bytes(*value));
        let waits = Waits { stack: stack.collect(), action_set: Vec::new() };
        let mut rest = Rest { waits, cloned: cloned == 1, ..Rest::default() };
        let mut first = true;
        while let Some(length) = bytes.get(2..4) {
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            let (message, behind) = bytes.split_at_checked(length)?;
            let Ok((_, Message::FlowMod(part))) = decode(Version::V15, message) else {
                return None;
            };
            bytes = behind;
            let instructions: Vec<Instruction> = part.instructions.into_iter().collect();
            if std::mem::take(&mut first) {
                rest.pipeline = part.matching;
                rest.waits.action_set = match <[Instruction; 1]>::try_from(instructions) {
                    Ok([Instruction::WriteActions(set)]) => set,
                    Err(none) if none.is_empty() => Vec::new(),
                    _ => return None,
                };
                continue;
            }
            let (table, cookie) = (part.table_id.0, part.cookie);
            rest.parts.push(Part { table, cookie, instructions });
        }
        (!first && bytes.is_empty()).then_some(rest)
    }
}

/// A packet of the control side's own.
struct Injected {
    number: u32,
    parts: Arc<[Part]>,
    learns: Vec<u32>,
}

/// The lists of packets that the control side has sent, in which something waits, learns, or leads to a table.
#[derive(Default)]
pub(crate) struct Injections {
    last: u32,
    known: VecDeque<Injected>,
}

impl Injections {
    /// The number of the next one, which is not 0.
    pub(crate) fn next(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1).max(1);
        self.last
    }

    /// Keeps it; gives back the `learn`s of one that is forgotten.
    pub(crate) fn keep(&mut self, number: u32, parts: &[Part], learns: Vec<u32>) -> Vec<u32> {
        self.known.push_back(Injected { number, parts: parts.into(), learns });
        let old = match self.known.len() > INJECTIONS_MAX {
            true => self.known.pop_front(),
            false => None,
        };
        old.map_or(Vec::new(), |old| old.learns)
    }

    fn get(&self, number: u32) -> Option<&Arc<[Part]>> {
        self.known.iter().rev().find(|one| one.number == number).map(|one| &one.parts)
    }
}

/// Whether something in a list is found by the packet's number.
pub(crate) fn is_found(parts: &[Part]) -> bool {
    let lists = parts.iter().flat_map(|part| &part.instructions);
    let lists = lists.filter_map(|instruction| match instruction {
        Instruction::ApplyActions(actions) => Some(actions),
        _ => None,
    });
    lists.flat_map(|actions| Action::flat(actions)).any(|action| match action {
        Action::Resubmit { .. } | Action::Learn(_) => true,
        Action::Controller(to) => needs_entry(to),
        _ => false,
    })
}

/// What a packet that waits goes on with, and whether it is a clone.
pub(crate) type Left = (Vec<Part>, bool);

/// Who does something.
#[derive(Clone, Copy)]
pub(crate) struct Doer {
    /// The entry found last, if any.
    pub(crate) key: Option<FlowKey>,
    /// The bucket, if it is one.
    pub(crate) bucket: Option<(GroupId, u32)>,
    /// The packet's number, if it is the control side's own.
    pub(crate) injection: u32,
}

impl Agent {
    /// The list of who does something.
    fn parts_of(&self, doer: Doer) -> Option<Vec<Part>> {
        let flow = doer.key.and_then(|key| self.flows.get(key));
        let cookie = flow.map_or(u64::MAX, |flow| flow.cookie);
        if let Some((group, at)) = doer.bucket {
            let bucket = self.groups.get(group.0)?.bucket_at(at as usize)?;
            let actions = as_bucket(until_exit(&bucket.actions)).into_iter().cloned().collect();
            let table = doer.key.map_or(0, |key| key.table);
            let instructions = vec![Instruction::ApplyActions(actions)];
            return Some(vec![Part { table, cookie, instructions }]);
        }
        if let (Some(key), Some(flow)) = (doer.key, flow) {
            let instructions = flow.instructions.to_vec();
            return Some(vec![Part { table: key.table, cookie, instructions }]);
        }
        self.injections
            .get(doer.injection)
            .filter(|_| doer.key.is_none())
            .map(|parts| parts.to_vec())
    }

    /// The entry of a table of the pipeline.
    pub(crate) fn flow_key(
        &self,
        table: Option<ir::TableId>,
        entry: Option<EntryId>,
    ) -> Option<FlowKey> {
        let table = self.layout.flow_table(table?)?;
        Some(FlowKey { table, id: entry?.0 })
    }

    /// The action that told the controller, and what the packet goes on with if it waits. `which` counts it among those
    /// of its list.
    pub(crate) fn told(
        &self,
        doer: Doer,
        which: u16,
        callers: &[Caller],
    ) -> Option<(ToController, Option<Left>)> {
        let (action, mut parts, mut cloned) = find(&self.parts_of(doer)?, Mark::Told(which))?;
        let Action::Controller(to) = action else { return None };
        if !to.pause {
            return Some((to, None));
        }
        for caller in callers.iter().rev() {
            let key = self.flow_key(caller.table, caller.entry);
            let by = Doer { key, bucket: caller.bucket, ..doer };
            let found = self.parts_of(by).and_then(|of| find(&of, Mark::Called(caller.site)));
            // Nothing is behind a call that no list counts, nor is it known of an entry that went meanwhile.
            let Some((_, behind, ends)) = found else { continue };
            parts.extend(behind);
            cloned |= ends;
            if cloned {
                break;
            }
        }
        for instruction in parts.iter_mut().flat_map(|part| &mut part.instructions) {
            if let Instruction::ApplyActions(actions) = instruction {
                without_entry(actions);
            }
        }
        parts.retain(|part| {
            part.instructions.iter().any(|i| match i {
                Instruction::ApplyActions(actions) => !actions.is_empty(),
                _ => true,
            })
        });
        Some((to, Some((parts, cloned))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::{FieldId, PortNo};

    #[test]
    fn a_rest_comes_back_as_it_was_and_what_is_none_does_not() {
        let apply = |port| Instruction::ApplyActions(vec![Action::output(PortNo(port))]);
        let rest = Rest {
            pipeline: Match::new().with(FieldId::InPort, 3).with(FieldId::Reg4, 5),
            waits: Waits {
                stack: vec![7, u128::MAX],
                action_set: vec![Action::PopVlan, Action::output(PortNo(9))],
            },
            parts: vec![
                Part {
                    table: 7,
                    cookie: 1,
                    instructions: vec![apply(1), Instruction::ClearActions],
                },
                Part {
                    table: 0,
                    cookie: 2,
                    instructions: vec![Instruction::GotoTable(TableId(4))],
                },
            ],
            cloned: false,
        };
        let bytes = rest.encode();
        assert_eq!(Rest::decode(&bytes), Some(rest.clone()));
        let cloned = Rest { cloned: true, waits: Waits::default(), ..rest };
        assert_eq!(Rest::decode(&cloned.encode()), Some(cloned));
        // At the end of a message less is left to do, and that is a rest.
        let ends: Vec<usize> =
            (0..bytes.len()).filter(|n| Rest::decode(&bytes[..*n]).is_some()).collect();
        assert_eq!(ends.len(), 2, "{ends:?}");
        assert_eq!(Rest::decode(&[2; 100]), None);
    }
}
