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
//! Lists are counted through in the order in which [`of_lower`] makes steps of them: so a number that a packet
//! comes with ([`Mark`]) names an action. Packets of the control side's own have no entry, so that their lists are
//! kept for a while ([`Injections`](crate::injections::Injections)), as are the `learn`s in them.
//!
//! Checked by: `tests/pause.rs`.

use crate::agent::Agent;
use crate::flow::FlowKey;
use ir::{EntryId, GroupId};
use of_lower::rest::{Left, Part};
use of_lower::{as_bucket, needs_entry, until_exit};
use openflow::{Action, Instruction, ToController};
use std::sync::Arc;
use switch::Caller;

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

/// The action, unless it is a goto, and what stands behind it.
fn find(list: &Left, mark: Mark) -> Option<(Option<Action>, Left)> {
    let (Mark::Told(mut left) | Mark::Called(mut left)) = mark;
    if left == 0 {
        return None;
    }
    for (at, part) in list.parts.iter().enumerate() {
        let rest = |instructions: Vec<Instruction>| {
            let own = Part { instructions, ..*part };
            [own].into_iter().chain(list.parts[at + 1..].iter().cloned()).collect()
        };
        let applied = part.instructions.iter().find_map(|i| match i {
            Instruction::ApplyActions(actions) => Some(actions),
            _ => None,
        });
        match applied.map(|actions| search(actions, mark, left)) {
            Some(Search::Found(action, behind, true)) => {
                let instructions = vec![Instruction::ApplyActions(behind)];
                let parts = vec![Part { instructions, ..*part }];
                return Some((Some(action), Left { parts, cloned: true }));
            }
            Some(Search::Found(action, behind, false)) => {
                // The packet was metered before anything was done.
                let others = part.instructions.iter().filter(|i| {
                    use Instruction::{ApplyActions, Meter, StatTrigger};
                    !matches!(i, ApplyActions(_) | Meter(_) | StatTrigger(_))
                });
                let behind = [Instruction::ApplyActions(behind)].into_iter();
                let parts = rest(behind.chain(others.cloned()).collect());
                return Some((Some(action), Left { parts, ..*list }));
            }
            Some(Search::Ends(_)) => return None,
            Some(Search::Goes(still)) => left = still,
            None => {}
        }
        // Where something is done behind it, a goto comes back.
        let tail = !list.cloned && at + 1 == list.parts.len();
        let goes = part.instructions.iter().any(|i| matches!(i, Instruction::GotoTable(_)));
        if goes && !tail && matches!(mark, Mark::Called(_)) {
            left -= 1;
            if left == 0 {
                return Some((None, Left { parts: list.parts[at + 1..].to_vec(), ..*list }));
            }
        }
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
    fn list_of(&self, doer: Doer) -> Option<Arc<Left>> {
        let flow = doer.key.and_then(|key| self.stores.flows.get(key));
        let cookie = flow.map_or(u64::MAX, |flow| flow.cookie);
        let table = doer.key.map_or(0, |key| key.table);
        let instructions = match (doer.bucket, flow) {
            (Some((group, at)), _) => {
                let bucket = self.stores.groups.get(group.0)?.bucket_at(at as usize)?;
                let actions = as_bucket(until_exit(&bucket.actions)).into_iter().cloned();
                vec![Instruction::ApplyActions(actions.collect())]
            }
            (None, Some(flow)) => flow.instructions.to_vec(),
            // Not that of an entry that went meanwhile.
            (None, None) if doer.key.is_some() => return None,
            (None, None) => return self.injections.get(doer.injection).cloned(),
        };
        let parts = vec![Part { table, cookie, instructions }];
        Some(Arc::new(Left { parts, cloned: false }))
    }

    /// The entry of a table of the pipeline.
    pub(crate) fn flow_key(
        &self,
        table: Option<ir::TableId>,
        entry: Option<EntryId>,
    ) -> Option<FlowKey> {
        let table = self.env.layout.flow_table(table?)?;
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
        let (action, mut rest) = find(&*self.list_of(doer)?, Mark::Told(which))?;
        let Some(Action::Controller(to)) = action else { return None };
        if !to.pause {
            return Some((to, None));
        }
        for caller in callers.iter().rev() {
            if rest.cloned {
                break;
            }
            let key = self.flow_key(caller.table, caller.entry);
            let by = Doer { key, bucket: caller.bucket, ..doer };
            let found = self.list_of(by).and_then(|of| find(&of, Mark::Called(caller.site)));
            // Nothing is behind a call that no list counts, nor is it known of an entry that went meanwhile.
            let Some((_, behind)) = found else { continue };
            rest.parts.extend(behind.parts);
            rest.cloned = behind.cloned;
        }
        let parts = &mut rest.parts;
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
        Some((to, Some(rest)))
    }
}
