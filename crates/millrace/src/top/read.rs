//! What is asked of the switch: counters each time, and what the page at hand needs beside them.

use super::pages::{Page, Scope};
use control::client::{To, ask};
use control::failure::Failure;
use control::verb::Verb;
use control::verbs::conntrack::{Answer as Connections, Conntrack, Known};
use control::verbs::explain::{self, Explain};
use control::verbs::flows::{self, Flows, Sort};
use control::verbs::stats::{self, Stats};
use std::time::Instant;

/// Entries that are asked for: those that a packet hit last.
const FLOWS: usize = 1000;

/// Answers of one moment.
pub(super) struct Reading {
    pub(super) at: Instant,
    pub(super) stats: stats::Answer,
    /// On its page; or why there is none.
    pub(super) flows: Option<Result<flows::Answer, String>>,
    /// How tables are looked up, on their page.
    pub(super) tables: Option<explain::Answer>,
    /// On its page; or why there is none.
    pub(super) connections: Option<Result<Known, String>>,
}

/// Asks a switch.
pub(super) struct Reader<'a> {
    to: To<'a>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(to: To<'a>) -> Reader<'a> {
        Reader { to }
    }

    /// The answers that a page shows.
    pub(super) fn read(&self, page: Page, scope: &Scope) -> Result<Reading, Failure> {
        let stats = self.ask(&Stats {})?;
        let at = Instant::now();
        let flows = (page == Page::Flows).then(|| {
            let filter = scope.table.as_deref().map(flow_table).unwrap_or_default();
            let flows = self.ask(&Flows { filter, sort: Sort::Recent, limit: FLOWS });
            flows.map_err(Failure::text)
        });
        let explained = matches!(page, Page::Tables | Page::Flows);
        let tables = if explained { Some(self.ask(&Explain {})?) } else { None };
        let connections = (page == Page::Connections).then(|| {
            let question = Conntrack::default();
            match self.ask(&question).map_err(Failure::text)? {
                Connections::Known(known) => Ok(known),
                Connections::Flushed { .. } => {
                    Err("the switch's answer is another one's".to_owned())
                }
            }
        });
        Ok(Reading { at, stats, flows, tables, connections })
    }

    fn ask<V: Verb>(&self, question: &V) -> Result<V::Answer, Failure> {
        let answer = ask(self.to, question)?;
        serde_json::from_value(answer)
            .map_err(|error| Failure::Bad(format!("the switch's answer: {error}")))
    }
}

/// The filter of a table's entries. Tables of OpenFlow are called `t` and their number.
fn flow_table(name: &str) -> String {
    format!("table={}", name.strip_prefix('t').unwrap_or(name))
}
