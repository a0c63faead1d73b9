//! The configuration of synchronised tables (1.4.1 §5.11): which table reflects which other one.

use openflow::Instructions;
use openflow::Version;
use openflow::syntax::{Context as Syntax, parse_actions};
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
    pub(crate) table: u8,
    pub(crate) from: u8,
    pub(crate) why: String,
}
