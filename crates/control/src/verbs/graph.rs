//! `graph`: tables, and where packets may go on from them.
//!
//! Of OpenFlow's tables: what entries say (`goto_table`, `resubmit`, `ct(table=)`), counted. At most [`LOOK_MAX`] entries
//! are looked at, so that nobody waits long for the agent; `partial` says that there are more. Of a P4 program: which
//! table may be applied next, by the program's blocks.

use crate::bridges::Bridge;
use crate::protocol::Reply;
use crate::sync::lock;
use crate::verb::{At, Verb};
use ir::{BlockId, Program, Terminator};
use openflow::{Action, Instruction, TableId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Entries that are looked at.
const LOOK_MAX: usize = 50_000;

/// The question.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Graph {}

/// The answer.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Ways from table to table.
    pub edges: Vec<Edge>,
    /// There are more entries than were looked at.
    pub partial: bool,
}

/// A way from a table to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Edge {
    /// From this table.
    pub from: String,
    /// To this one.
    pub to: String,
    /// `goto_table`, `resubmit`, `ct`, or `apply` in a P4 program.
    pub by: String,
    /// Entries that go there; 0 where the program does.
    pub entries: usize,
}

impl Verb for Graph {
    const NAME: &'static str = "graph";
    const ABOUT: &'static str = "Tables, and where packets may go on from them";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let bridge = at.bridge()?;
        Ok(Reply::Answer(match of_entries(&bridge) {
            Some(answer) => answer,
            None => bridge.switch().with_pipeline(|p| of_program(p.program())),
        }))
    }

    fn text(answer: &Answer) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        for Edge { from, to, by, entries } in &answer.edges {
            let _ = writeln!(out, "{from} -> {to}  {by}, {entries} entries");
        }
        out
    }
}

/// By what OpenFlow's entries say.
fn of_entries(bridge: &Bridge) -> Option<Answer> {
    let openflow = bridge.openflow()?;
    let agent = lock(&openflow.agent);
    let flows = agent.flows();
    let mut counted: BTreeMap<(u8, u8, &'static str), usize> = BTreeMap::new();
    let all = (0..flows.tables()).flat_map(|table| flows.iter(table as u8));
    for (key, flow) in all.take(LOOK_MAX) {
        let mut ways = BTreeSet::new();
        for instruction in flow.instructions.iter() {
            match instruction {
                Instruction::GotoTable(table) => drop(ways.insert((table.0, "goto_table"))),
                Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => {
                    of_actions(key.table, actions, &mut ways);
                }
                _ => {}
            }
        }
        for (to, by) in ways {
            *counted.entry((key.table, to, by)).or_default() += 1;
        }
    }
    let name = |table: u8| format!("t{table}");
    let edges = counted.into_iter().map(|((from, to, by), entries)| {
        let (from, to, by) = (name(from), name(to), by.to_owned());
        Edge { from, to, by, entries }
    });
    Some(Answer { edges: edges.collect(), partial: flows.total().0 > LOOK_MAX })
}

fn of_actions(own: u8, actions: &[Action], ways: &mut BTreeSet<(u8, &'static str)>) {
    for action in actions {
        match action {
            Action::Resubmit { table, .. } => {
                let to = if *table == TableId::ALL { own } else { table.0 };
                ways.insert((to, "resubmit"));
            }
            Action::Ct(ct) => {
                ways.extend(ct.table.map(|table| (table.0, "ct")));
            }
            Action::Clone(inner) => of_actions(own, inner, ways),
            _ => {}
        }
    }
}

/// By the blocks of a program: from each table those that may be applied next.
fn of_program(program: &Program) -> Answer {
    let mut edges = Vec::new();
    for block in &program.blocks {
        let Terminator::Apply { table, hit, miss, by_action } = &block.end else { continue };
        let first = [*hit, *miss].into_iter().chain(by_action.iter().map(|(_, block)| *block));
        let mut next = BTreeSet::new();
        applied_next(program, first.collect(), &mut next);
        let name = |table: ir::TableId| program.tables[table.0 as usize].name.clone();
        edges.extend(next.into_iter().map(|to| {
            let (from, to, by) = (name(*table), name(ir::TableId(to)), "apply".to_owned());
            Edge { from, to, by, entries: 0 }
        }));
    }
    Answer { edges, partial: false }
}

fn applied_next(program: &Program, mut blocks: Vec<BlockId>, next: &mut BTreeSet<u32>) {
    let mut seen = BTreeSet::new();
    while let Some(at) = blocks.pop() {
        let Some(block) = program.blocks.get(at.0 as usize).filter(|_| seen.insert(at.0)) else {
            continue;
        };
        match &block.end {
            Terminator::Jump(to) => blocks.push(*to),
            Terminator::If { then, or_else, .. } => blocks.extend([*then, *or_else]),
            Terminator::Apply { table, .. } => drop(next.insert(table.0)),
            Terminator::Exit => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridges::BridgeConfig;
    use crate::bridges::bed::{ask, bridges, flow};
    use switch::EngineKind;

    #[test]
    fn ways_are_those_that_entries_say() {
        let bridges = bridges(1, EngineKind::Interp);
        bridges.add(BridgeConfig::named("br0")).unwrap();
        flow(&bridges, "br0", "priority=1,arp,actions=goto_table:1");
        flow(&bridges, "br0", "priority=1,ip,actions=goto_table:1");
        flow(&bridges, "br0", "priority=2,tcp,actions=resubmit(,2),resubmit(,2)");
        flow(&bridges, "br0", "priority=3,udp,actions=ct(table=3)");
        flow(&bridges, "br0", "table=1,actions=drop");
        let told = Graph::text(&ask(&bridges, Graph {}).unwrap());
        let wanted = "t0 -> t1  goto_table, 2 entries\nt0 -> t2  resubmit, 1 entries\nt0 -> t3  ct, 1 entries\n";
        assert_eq!(told, wanted);
        bridges.stop();
    }
}
