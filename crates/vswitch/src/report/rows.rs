//! Rows with the columns that are to be written.

use ovsdb::{Datum, Uuid};

/// Columns of a row, by name.
pub(super) type Columns = Vec<(&'static str, Datum)>;

/// Columns of rows, each by its table and number.
#[derive(Default)]
pub(super) struct Rows(pub(super) Vec<(&'static str, Uuid, Columns)>);

impl Rows {
    pub(super) fn put(&mut self, table: &'static str, uuid: Uuid, columns: Columns) {
        self.0.push((table, uuid, columns));
    }
}

/// A value or none.
pub(super) fn maybe<T: Into<Datum>>(value: Option<T>) -> Datum {
    value.map_or_else(Datum::empty, Into::into)
}

/// A counter as the database has it.
pub(super) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What a row asked for and does not get, under one key.
pub(super) fn unsupported(
    notes: Option<String>,
    refusal: Option<&String>,
) -> Vec<(String, String)> {
    let note = notes.map(|line| ("unsupported".to_owned(), line));
    let refused = refusal.map(|why| ("error".to_owned(), why.clone()));
    note.into_iter().chain(refused).collect()
}
