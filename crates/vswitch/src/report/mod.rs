//! Columns that are written back.
//!
//! In: what the database asks for, what the switch has, refuses and shows. Out: one transaction with the columns that the
//! replica shows otherwise, or none. So a report that was lost is sent again by the next one, and a database that is
//! restarted without its columns in memory gets them anew.
//!
//! `cur_cfg` is in the same transaction: who waits for it finds numbers and errors beside it.

mod bridge;
mod controller;
mod interface;
pub mod machine;
mod port;
pub(crate) mod root;
#[cfg(test)]
mod tests;

use crate::actual::{Actual, Refusals};
use crate::desired::Desired;
use crate::switch::{BridgeView, ControllerView, InterfaceView};
use ovsdb::{Database, Datum, Transaction, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// What the switch shows.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// Bridges by name.
    pub bridges: BTreeMap<String, BridgeView>,
    /// Interfaces by name.
    pub interfaces: BTreeMap<String, InterfaceView>,
    /// Controllers by bridge and target.
    pub controllers: BTreeMap<String, BTreeMap<String, ControllerView>>,
}

/// What is reported.
pub struct Report<'a> {
    /// The database as it was seen last.
    pub database: &'a Database,
    /// What the database asks for.
    pub desired: &'a Desired,
    /// What the switch has.
    pub actual: &'a Actual,
    /// What it refused.
    pub refusals: &'a Refusals,
    /// What it shows.
    pub views: &'a Views,
    /// The types of interfaces that it has.
    pub interface_types: &'a [String],
    /// What a datapath can do.
    pub capabilities: &'a BTreeMap<String, String>,
    /// Only these ports are reported; all without them.
    pub only: Option<&'a BTreeSet<String>>,
    /// Statistics are due.
    pub statistics: bool,
    /// Figures of the machine, if they are due.
    pub machine: Option<BTreeMap<String, String>>,
}

/// Columns of a row, by name.
type Columns = Vec<(&'static str, Datum)>;

/// Columns of rows, each by its table and number.
#[derive(Default)]
struct Rows(Vec<(&'static str, Uuid, Columns)>);

impl Rows {
    fn put(&mut self, table: &'static str, uuid: Uuid, columns: Columns) {
        self.0.push((table, uuid, columns));
    }
}

impl Report<'_> {
    /// What has to be written; none if nothing has.
    pub fn transaction(&self, lock: Option<&str>) -> Option<Transaction> {
        let database = self.database;
        let mut rows = Rows::default();
        for bridge in self.desired.bridges.values() {
            bridge::report(self, bridge, &mut rows);
        }
        // Last, so that it stands behind what it promises.
        if let Some(root) = &self.desired.root {
            root::report(self, root, &mut rows);
        }
        let mut transaction = Transaction::new();
        if let Some(lock) = lock {
            transaction.assert(lock);
        }
        let before = transaction.len();
        for (table, uuid, columns) in rows.0 {
            let Some(row) = database.row(table, uuid) else { continue };
            let differs = |(column, datum): &(&str, Datum)| {
                row.get(column).is_some_and(|now| !same(now, datum))
            };
            let columns: Vec<_> = columns.into_iter().filter(differs).collect();
            if !columns.is_empty() {
                transaction.update(table, uuid, columns);
            }
        }
        (transaction.len() > before).then_some(transaction)
    }
}

/// An empty set and an empty map are the same to a server.
fn same(a: &Datum, b: &Datum) -> bool {
    a == b || (a.is_empty() && b.is_empty())
}

/// A value or none.
fn maybe<T: Into<Datum>>(value: Option<T>) -> Datum {
    value.map_or_else(Datum::empty, Into::into)
}

/// A counter as the database has it.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What a row asked for and does not get, under one key.
fn unsupported(notes: Option<String>, refusal: Option<&String>) -> Vec<(String, String)> {
    let note = notes.map(|line| ("unsupported".to_owned(), line));
    let refused = refusal.map(|why| ("error".to_owned(), why.clone()));
    note.into_iter().chain(refused).collect()
}
