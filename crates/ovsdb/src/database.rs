//! The replica, and how notifications change it (RFC 7047 §4.1.6, ovsdb-server(7) §4.1.13 to 4.1.15).
//!
//! A [`Database`] is a value: rows are shared between an older and a newer one. So a reader keeps the one it has, and
//! tells what changed by [`Database::changes`].

use crate::schema::{ColumnType, Schema, Table};
use crate::value::{Atom, Datum, Uuid, ValueError, shortened};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The columns that are followed, by table.
pub type Followed = BTreeMap<String, Vec<String>>;

/// One committed state of the tables that are followed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Database {
    tables: BTreeMap<String, BTreeMap<Uuid, Arc<Row>>>,
}

/// A row: what it holds by column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    columns: BTreeMap<String, Datum>,
}

impl Row {
    /// What a column holds; none if the column is not followed.
    pub fn get(&self, column: &str) -> Option<&Datum> {
        self.columns.get(column)
    }

    /// All columns.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Datum)> {
        self.columns.iter().map(|(name, datum)| (name.as_str(), datum))
    }

    /// The only value of a column; none if it is empty, a map, or has several.
    pub fn only(&self, column: &str) -> Option<&Atom> {
        let mut atoms = self.get(column)?.atoms();
        let first = atoms.next()?;
        atoms.next().is_none().then_some(first)
    }

    /// The only value, text.
    pub fn text(&self, column: &str) -> Option<&str> {
        match self.only(column)? {
            Atom::String(text) => Some(text),
            _ => None,
        }
    }

    /// The only value, an integer.
    pub fn integer(&self, column: &str) -> Option<i64> {
        match self.only(column)? {
            Atom::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The only value, true or false.
    pub fn boolean(&self, column: &str) -> Option<bool> {
        match self.only(column)? {
            Atom::Boolean(value) => Some(*value),
            _ => None,
        }
    }

    /// The rows that a column refers to.
    pub fn uuids(&self, column: &str) -> impl Iterator<Item = Uuid> {
        self.get(column).into_iter().flat_map(Datum::uuids)
    }

    /// The text of a key in a map of texts.
    pub fn key(&self, column: &str, key: &str) -> Option<&str> {
        match self.get(column)?.get(key)? {
            Atom::String(text) => Some(text),
            _ => None,
        }
    }
}

/// What became of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is new.
    Inserted(Arc<Row>),
    /// It was so, and is now so.
    Modified(Arc<Row>, Arc<Row>),
    /// It was so, and is gone.
    Deleted(Arc<Row>),
}

/// Why an update cannot be applied. The replica is then not what the server has, and must be asked for anew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// No update at all.
    #[error("{0} is no update of tables")]
    Shape(String),
    /// A table or column that nobody asked for.
    #[error("an update of {0}, which is not followed")]
    Unknown(String),
    /// No row's name.
    #[error("{table}: {source}")]
    Uuid {
        /// The table.
        table: String,
        /// What is wrong.
        source: ValueError,
    },
    /// A column's value is of another type.
    #[error("{table}.{column}: {source}")]
    Value {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// What is wrong.
        source: ValueError,
    },
    /// A row that is not there changes, or one that is there comes.
    #[error("{table}: the row {uuid} {what}")]
    Row {
        /// The table.
        table: String,
        /// The row.
        uuid: Uuid,
        /// What is wrong.
        what: &'static str,
    },
}

/// The form of updates: RFC 7047's, or that of ovsdb-server's `monitor_cond`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `update`: old and new values.
    Plain,
    /// `update2` and `update3`: differences.
    Differences,
}

impl Database {
    /// The rows of a table.
    pub fn rows(&self, table: &str) -> impl Iterator<Item = (Uuid, &Arc<Row>)> {
        self.tables.get(table).into_iter().flatten().map(|(uuid, row)| (*uuid, row))
    }

    /// A row.
    pub fn row(&self, table: &str, uuid: Uuid) -> Option<&Arc<Row>> {
        self.tables.get(table)?.get(&uuid)
    }

    /// The only row of a table such as `Open_vSwitch`, which holds one.
    pub fn only(&self, table: &str) -> Option<(Uuid, &Arc<Row>)> {
        self.rows(table).next()
    }

    /// How many rows there are in all.
    pub fn len(&self) -> usize {
        self.tables.values().map(BTreeMap::len).sum()
    }

    /// There is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What differs from an earlier state, by table and row. Rows that both share are not compared.
    pub fn changes<'a>(&'a self, before: &'a Database) -> Vec<(&'a str, Uuid, Change)> {
        let none = BTreeMap::new();
        let mut changes = Vec::new();
        let names = before.tables.keys().filter(|name| !self.tables.contains_key(*name));
        for table in self.tables.keys().chain(names) {
            let now = self.tables.get(table).unwrap_or(&none);
            let then = before.tables.get(table).unwrap_or(&none);
            for (uuid, old) in then.iter().filter(|(uuid, _)| !now.contains_key(uuid)) {
                changes.push((table.as_str(), *uuid, Change::Deleted(old.clone())));
            }
            for (uuid, row) in now {
                let change = match then.get(uuid) {
                    None => Change::Inserted(row.clone()),
                    Some(old) if Arc::ptr_eq(old, row) || old == row => continue,
                    Some(old) => Change::Modified(old.clone(), row.clone()),
                };
                changes.push((table.as_str(), *uuid, change));
            }
        }
        changes
    }

    /// Applies one update, whole or, with an error, not at all.
    pub fn apply(
        &mut self,
        schema: &Schema,
        followed: &Followed,
        form: Form,
        update: &Json,
    ) -> Result<(), UpdateError> {
        let shape = || UpdateError::Shape(shortened(&update.to_string()));
        let mut touched = BTreeMap::new();
        for (name, rows) in update.as_object().ok_or_else(shape)? {
            let unknown = || UpdateError::Unknown(shortened(name));
            let columns = followed.get(name).ok_or_else(unknown)?;
            let of = Of { name, table: schema.tables.get(name).ok_or_else(unknown)?, columns };
            let mut kept = self.tables.get(name).cloned().unwrap_or_default();
            for (uuid, change) in rows.as_object().ok_or_else(shape)? {
                let wrong = |source| UpdateError::Uuid { table: name.clone(), source };
                of.apply(&mut kept, uuid.parse().map_err(wrong)?, form, change)?;
            }
            touched.insert(name.clone(), kept);
        }
        self.tables.append(&mut touched);
        Ok(())
    }
}

/// A table that is followed.
struct Of<'a> {
    name: &'a str,
    table: &'a Table,
    columns: &'a [String],
}

impl Of<'_> {
    fn apply(
        &self,
        rows: &mut BTreeMap<Uuid, Arc<Row>>,
        uuid: Uuid,
        form: Form,
        change: &Json,
    ) -> Result<(), UpdateError> {
        let shape = || UpdateError::Shape(shortened(&change.to_string()));
        let wrong = |what| UpdateError::Row { table: self.name.to_owned(), uuid, what };
        let fields = change.as_object().ok_or_else(shape)?;
        match form {
            Form::Plain => match (fields.get("old"), fields.get("new")) {
                (_, Some(new)) => drop(rows.insert(uuid, Arc::new(self.row(new)?))),
                (Some(_), None) => {
                    rows.remove(&uuid).ok_or_else(|| wrong("goes, but was not there"))?;
                }
                (None, None) => return Err(shape()),
            },
            Form::Differences => {
                let Some((kind, row)) = fields.iter().next().filter(|_| fields.len() == 1) else {
                    return Err(shape());
                };
                match kind.as_str() {
                    "initial" | "insert" => drop(rows.insert(uuid, Arc::new(self.row(row)?))),
                    "delete" => {
                        rows.remove(&uuid).ok_or_else(|| wrong("goes, but was not there"))?;
                    }
                    "modify" => {
                        let old = rows.get_mut(&uuid);
                        let old = old.ok_or_else(|| wrong("changes, but was not there"))?;
                        let mut new = Row::clone(old);
                        for (column, kind, difference) in self.values(row)? {
                            if let Some(datum) = new.columns.get_mut(column) {
                                datum.apply(difference, kind);
                            }
                        }
                        *old = Arc::new(new);
                    }
                    _ => return Err(shape()),
                }
            }
        }
        Ok(())
    }

    /// A whole row; what it does not name holds what an insertion gives it.
    fn row(&self, json: &Json) -> Result<Row, UpdateError> {
        let default = |column: &String| {
            let kind = &self.table.columns.get(column)?.kind;
            Some((column.clone(), Datum::default_of(kind)))
        };
        let mut row = Row { columns: self.columns.iter().filter_map(default).collect() };
        for (column, _, datum) in self.values(json)? {
            row.columns.insert(column.to_owned(), datum);
        }
        Ok(row)
    }

    /// The columns that a row or difference names.
    fn values<'a>(
        &'a self,
        json: &'a Json,
    ) -> Result<Vec<(&'a str, &'a ColumnType, Datum)>, UpdateError> {
        let shape = || UpdateError::Shape(shortened(&json.to_string()));
        let mut values = Vec::new();
        for (column, json) in json.as_object().ok_or_else(shape)? {
            // Some servers add them unasked.
            if column == "_uuid" || column == "_version" {
                continue;
            }
            let known = self.columns.contains(column).then(|| self.table.columns.get(column));
            let Some(Some(known)) = known else {
                return Err(UpdateError::Unknown(format!("{}.{}", self.name, shortened(column))));
            };
            let datum = Datum::of_json(json, &known.kind).map_err(|source| UpdateError::Value {
                table: self.name.to_owned(),
                column: column.clone(),
                source,
            })?;
            values.push((column.as_str(), &known.kind, datum));
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        let set = json!({"key": "integer", "min": 0, "max": "unlimited"});
        let map = json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"});
        let columns =
            json!({"name": {"type": "string"}, "set": {"type": set}, "map": {"type": map}});
        let tables = json!({"T": {"columns": columns}});
        Schema::of_json(&json!({"name": "d", "version": "1.0.0", "tables": tables}))
            .expect("a schema")
    }

    fn followed() -> Followed {
        let columns = ["name", "set", "map"].map(str::to_owned).to_vec();
        Followed::from([("T".to_owned(), columns)])
    }

    fn apply(database: &mut Database, form: Form, update: Json) -> Result<(), String> {
        database.apply(&schema(), &followed(), form, &update).map_err(|e| e.to_string())
    }

    const ONE: &str = "00000000-0000-0000-0000-000000000001";

    #[test]
    fn differences_make_the_same_rows_as_whole_values() {
        let (mut plain, mut differences) = (Database::default(), Database::default());
        let steps = [
            (
                json!({"T": {ONE: {"new": {"name": "a", "set": ["set", [1, 2]], "map": ["map", []]}}}}),
                json!({"T": {ONE: {"insert": {"name": "a", "set": ["set", [1, 2]]}}}}),
            ),
            (
                json!({"T": {ONE: {"old": {"name": "a"}, "new": {"name": "b", "set": ["set", [2, 3]],
                                   "map": ["map", [["k", "v"]]]}}}}),
                json!({"T": {ONE: {"modify": {"name": "b", "set": ["set", [1, 3]],
                                   "map": ["map", [["k", "v"]]]}}}}),
            ),
            (json!({"T": {ONE: {"old": {"name": "b"}}}}), json!({"T": {ONE: {"delete": null}}})),
        ];
        for (whole, difference) in steps {
            apply(&mut plain, Form::Plain, whole).expect("an update");
            apply(&mut differences, Form::Differences, difference).expect("an update");
            assert_eq!(plain, differences);
        }
        assert!(plain.is_empty());
    }

    #[test]
    fn changes_name_the_rows_that_differ() {
        let mut database = Database::default();
        let two = ONE.replace('1', "2");
        let rows = json!({"T": {ONE: {"insert": {"name": "a"}}, &two: {"insert": {"name": "b"}}}});
        apply(&mut database, Form::Differences, rows).expect("an update");
        let before = database.clone();
        assert!(database.changes(&before).is_empty());
        let change = json!({"T": {ONE: {"modify": {"name": "c"}}, &two: {"delete": null}}});
        apply(&mut database, Form::Differences, change).expect("an update");
        let changes = database.changes(&before);
        let names: Vec<_> = changes
            .iter()
            .map(|(_, uuid, change)| match change {
                Change::Inserted(row) => (uuid.0, "inserted", row.text("name")),
                Change::Modified(_, row) => (uuid.0, "modified", row.text("name")),
                Change::Deleted(row) => (uuid.0, "deleted", row.text("name")),
            })
            .collect();
        assert_eq!(names, [(2, "deleted", Some("b")), (1, "modified", Some("c"))]);
        assert!(matches!(before.changes(&Database::default())[0].2, Change::Inserted(_)));
    }

    #[test]
    fn an_update_that_does_not_fit_changes_nothing() {
        let mut database = Database::default();
        let mut refused = |update| {
            let before = database.clone();
            let error = apply(&mut database, Form::Differences, update).expect_err("refused");
            assert_eq!(database, before);
            error
        };
        let row = |json: Json| json!({"T": {ONE: json}});
        assert!(refused(json!(3)).contains("3 is no update"));
        assert_eq!(refused(json!({"U": {}})), "an update of U, which is not followed");
        assert!(refused(json!({"T": {"x": {"delete": null}}})).contains("x is no UUID"));
        assert!(refused(row(json!({"delete": null}))).ends_with("goes, but was not there"));
        assert!(refused(row(json!({"modify": {}}))).ends_with("changes, but was not there"));
        assert!(refused(row(json!({"other": {}}))).contains("is no update"));
        let column = refused(row(json!({"insert": {"x": 1}})));
        assert_eq!(column, "an update of T.x, which is not followed");
        let value = refused(row(json!({"insert": {"name": 1}})));
        assert_eq!(value, "T.name: 1 is not of the type string");
        // The first row would fit, the second does not.
        let both = json!({"T": {ONE: {"insert": {}}, "00000000-0000-0000-0000-000000000002": 1}});
        assert!(refused(both).contains("is no update"));
    }
}
