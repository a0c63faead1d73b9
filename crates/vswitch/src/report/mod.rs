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
mod rows;
mod sources;
#[cfg(test)]
mod tests;

pub use sources::{Report, Views};

use ovsdb::{Datum, Transaction};
use rows::Rows;

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
