//! `explain`: how each table is looked up, and what the code for bursts leaves.

use super::packets::{self, Packets};
use crate::protocol::Reply;
use crate::verb::{At, Verb};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub struct Explain {}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The engine.
    pub engine: String,
    /// Tables that have entries.
    pub tables: Vec<Table>,
    /// What the code for bursts leaves, a reason each.
    pub leaves: Vec<String>,
    /// Packets by what has run them; none where only one table was asked for.
    pub packets: Option<Packets>,
}

/// Of one table.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    /// Its name.
    pub table: String,
    /// Entries.
    pub entries: u64,
    /// How it is looked up, and why.
    pub choice: String,
    /// Bytes that its lookup structure takes.
    pub memory_bytes: u64,
}

impl Verb for Explain {
    const NAME: &'static str = "explain";
    const ABOUT: &'static str = "How each table is looked up, and why";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let tables = at.switch()?.explain().into_iter().map(|t| Table {
            table: t.table,
            entries: t.entries as u64,
            choice: t.choice,
            memory_bytes: t.memory_bytes as u64,
        });
        Ok(Reply::Answer(Answer {
            engine: at.switch()?.engine().to_owned(),
            tables: tables.collect(),
            leaves: at.switch()?.leaves(),
            packets: Some(packets::of(&at.switch()?.ran())),
        }))
    }

    fn text(answer: &Answer) -> String {
        let mut out = String::new();
        if answer.tables.is_empty() {
            out.push_str("no table has entries\n");
        }
        // Writing to a string does not fail.
        for t in &answer.tables {
            let _ = writeln!(out, "{}\n  {} bytes", t.choice.trim_end(), t.memory_bytes);
        }
        // Of one table that was asked for, that is all.
        let Some(packets) = &answer.packets else { return out };
        match &answer.leaves[..] {
            [] => out.push_str("the code for bursts runs every packet\n"),
            leaves => {
                out.push_str("the code for bursts leaves:\n");
                leaves.iter().for_each(|leaf| {
                    let _ = writeln!(out, "  {leaf}");
                });
            }
        }
        packets::print(&mut out, packets);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_code_leaves_stands_before_the_packets() {
        let packets = Some(packets::tests::some());
        let answer = Answer { leaves: vec!["a meter".to_owned()], packets, ..Answer::default() };
        let explained = Explain::text(&answer);
        let head = "no table has entries\nthe code for bursts leaves:\n  a meter\npackets run by";
        assert!(explained.starts_with(head), "{explained}");
        let one = Explain::text(&Answer { packets: None, ..answer });
        assert_eq!(one, "no table has entries\n");
    }
}
