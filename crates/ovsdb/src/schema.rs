//! Tables, columns and their types, as `get_schema` tells them (RFC 7047 §3.2).

use crate::value::{Atom, Datum, Real, ValueError, shortened};
use serde_json::{Map as Object, Value as Json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A database's tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// The database's name.
    pub name: String,
    /// Its version, three numbers with points.
    pub version: String,
    /// Tables by name.
    pub tables: BTreeMap<String, Table>,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Columns by name. `_uuid` and `_version`, which every table has, are not among them.
    pub columns: BTreeMap<String, Column>,
    /// Its rows stay when no other row refers to them.
    pub is_root: bool,
    /// It holds so many rows at most.
    pub max_rows: Option<u64>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// What it holds.
    pub kind: ColumnType,
    /// It may change after its row was inserted.
    pub mutable: bool,
    /// It is not kept on disk.
    pub ephemeral: bool,
}

/// What a column holds: a set, or a map if there is a type of values.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnType {
    /// Of a set's values, of a map's keys.
    pub key: BaseType,
    /// Of a map's values.
    pub value: Option<BaseType>,
    /// So many values or pairs at least: 0 or 1.
    pub min: usize,
    /// So many at most; `usize::MAX` without a limit.
    pub max: usize,
}

/// The kinds of atoms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomType {
    /// 64 bits with a sign.
    Integer,
    /// A real number.
    Real,
    /// True or false.
    Boolean,
    /// Text.
    String,
    /// Another row.
    Uuid,
}

impl fmt::Display for AtomType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AtomType::Integer => "integer",
            AtomType::Real => "real",
            AtomType::Boolean => "boolean",
            AtomType::String => "string",
            AtomType::Uuid => "uuid",
        })
    }
}

/// A kind of atoms, and which of them.
#[derive(Clone, Debug, PartialEq)]
pub struct BaseType {
    /// The kind.
    pub atom: AtomType,
    /// Only these.
    pub choices: Option<BTreeSet<Atom>>,
    /// The least integer, real number, or length of text in characters.
    pub min: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
    /// The least and greatest integer, exactly.
    pub integers: (i64, i64),
    /// What rows' table they name, and whether such a reference keeps its row.
    pub refers_to: Option<(String, RefType)>,
}

/// Whether a reference keeps its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefType {
    /// It does.
    Strong,
    /// It goes when the row goes.
    Weak,
}

/// Why JSON is no schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct SchemaError {
    /// Table and column, as far as known.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

fn wrong<T>(what: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError { place: String::new(), what: what.into() })
}

impl SchemaError {
    fn within(mut self, place: &str) -> SchemaError {
        self.place = match self.place.is_empty() {
            true => place.to_owned(),
            false => format!("{place}.{}", self.place),
        };
        self
    }
}

fn object<'a>(json: &'a Json, what: &str) -> Result<&'a Object<String, Json>, SchemaError> {
    match json.as_object() {
        Some(object) => Ok(object),
        None => wrong(format!("{what} was expected, not {}", shortened(&json.to_string()))),
    }
}

fn flag(object: &Object<String, Json>, name: &str, default: bool) -> Result<bool, SchemaError> {
    match object.get(name) {
        None => Ok(default),
        Some(Json::Bool(value)) => Ok(*value),
        Some(other) => wrong(format!("{name} is {}", shortened(&other.to_string()))),
    }
}

impl Schema {
    /// From the answer to `get_schema`.
    pub fn of_json(json: &Json) -> Result<Schema, SchemaError> {
        let whole = object(json, "a schema")?;
        let text = |name| match whole.get(name).and_then(Json::as_str) {
            Some(text) => Ok(text.to_owned()),
            None => wrong(format!("{name} is missing")),
        };
        let tables = whole.get("tables").unwrap_or(&Json::Null);
        let mut schema =
            Schema { name: text("name")?, version: text("version")?, tables: BTreeMap::new() };
        for (name, table) in object(tables, "an object of tables")? {
            let table = Table::of_json(table).map_err(|e| e.within(name))?;
            schema.tables.insert(name.clone(), table);
        }
        Ok(schema)
    }

    /// A column, if it is there.
    pub fn column(&self, table: &str, column: &str) -> Option<&Column> {
        self.tables.get(table)?.columns.get(column)
    }
}

impl Table {
    fn of_json(json: &Json) -> Result<Table, SchemaError> {
        let whole = object(json, "a table")?;
        let mut columns = BTreeMap::new();
        let all = whole.get("columns").unwrap_or(&Json::Null);
        for (name, column) in object(all, "an object of columns")? {
            let column = Column::of_json(column).map_err(|e| e.within(name))?;
            columns.insert(name.clone(), column);
        }
        let max_rows = whole.get("maxRows").and_then(Json::as_u64);
        Ok(Table { columns, is_root: flag(whole, "isRoot", false)?, max_rows })
    }
}

impl Column {
    fn of_json(json: &Json) -> Result<Column, SchemaError> {
        let whole = object(json, "a column")?;
        Ok(Column {
            kind: ColumnType::of_json(whole.get("type").unwrap_or(&Json::Null))?,
            mutable: flag(whole, "mutable", true)?,
            ephemeral: flag(whole, "ephemeral", false)?,
        })
    }
}

impl ColumnType {
    /// From a `<type>`.
    pub fn of_json(json: &Json) -> Result<ColumnType, SchemaError> {
        if json.is_string() {
            return Ok(ColumnType { key: BaseType::of_json(json)?, value: None, min: 1, max: 1 });
        }
        let whole = object(json, "a type")?;
        let count = |name, default: usize| match whole.get(name) {
            None => Ok(default),
            Some(Json::String(word)) if name == "max" && word == "unlimited" => Ok(usize::MAX),
            Some(json) => match json.as_u64() {
                Some(count) => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
                None => wrong(format!("{name} is {}", shortened(&json.to_string()))),
            },
        };
        let (min, max) = (count("min", 1)?, count("max", 1)?);
        if min > 1 || max < 1 || min > max {
            return wrong(format!("{min} to {max} values: 0 or 1, to 1 or more, was expected"));
        }
        let key = whole.get("key").unwrap_or(&Json::Null);
        let key = BaseType::of_json(key).map_err(|e| e.within("key"))?;
        let value = whole.get("value").map(BaseType::of_json).transpose();
        Ok(ColumnType { key, value: value.map_err(|e| e.within("value"))?, min, max })
    }

    /// This type allows this value.
    pub fn check(&self, datum: &Datum) -> Result<(), ValueError> {
        let got = datum.len();
        if got < self.min || got > self.max {
            return Err(ValueError::Count { got, min: self.min, max: self.max });
        }
        match (datum, &self.value) {
            (Datum::Set(set), None) => set.iter().try_for_each(|atom| self.key.check(atom)),
            (Datum::Map(map), Some(of_values)) => map.iter().try_for_each(|(key, value)| {
                self.key.check(key).and_then(|()| of_values.check(value))
            }),
            // An empty set and an empty map are the same to a server.
            (Datum::Set(set), Some(_)) if set.is_empty() => Ok(()),
            (Datum::Set(_), Some(_)) => {
                Err(ValueError::Map(shortened(&datum.to_json().to_string())))
            }
            (Datum::Map(_), None) => Err(ValueError::Type {
                wanted: self.key.atom,
                got: shortened(&datum.to_json().to_string()),
            }),
        }
    }
}

impl BaseType {
    /// Every atom of a kind.
    pub fn plain(atom: AtomType) -> BaseType {
        let integers = (i64::MIN, i64::MAX);
        BaseType { atom, choices: None, min: None, max: None, integers, refers_to: None }
    }

    fn of_json(json: &Json) -> Result<BaseType, SchemaError> {
        let kind = |json: &Json| match json.as_str() {
            Some("integer") => Ok(AtomType::Integer),
            Some("real") => Ok(AtomType::Real),
            Some("boolean") => Ok(AtomType::Boolean),
            Some("string") => Ok(AtomType::String),
            Some("uuid") => Ok(AtomType::Uuid),
            _ => wrong(format!("{} is no type of atoms", shortened(&json.to_string()))),
        };
        if json.is_string() {
            return Ok(BaseType::plain(kind(json)?));
        }
        let whole = object(json, "a type of atoms")?;
        let mut base = BaseType::plain(kind(whole.get("type").unwrap_or(&Json::Null))?);
        if let Some(choices) = whole.get("enum") {
            let any = ColumnType { key: base.clone(), value: None, min: 0, max: usize::MAX };
            match Datum::of_json(choices, &any) {
                Ok(Datum::Set(choices)) => base.choices = Some(choices),
                Ok(Datum::Map(_)) => return wrong("enum is a map"),
                Err(error) => return wrong(format!("enum: {error}")),
            }
        }
        let number = |words: [&str; 3]| words.iter().find_map(|word| whole.get(*word));
        if let Some(least) = number(["minInteger", "minReal", "minLength"]) {
            base.min = least.as_f64();
            base.integers.0 = least.as_i64().unwrap_or(i64::MIN);
        }
        if let Some(greatest) = number(["maxInteger", "maxReal", "maxLength"]) {
            base.max = greatest.as_f64();
            base.integers.1 = greatest.as_i64().unwrap_or(i64::MAX);
        }
        if let Some(table) = whole.get("refTable").and_then(Json::as_str) {
            let weak = whole.get("refType").and_then(Json::as_str) == Some("weak");
            let kind = if weak { RefType::Weak } else { RefType::Strong };
            base.refers_to = Some((table.to_owned(), kind));
        }
        Ok(base)
    }

    fn check(&self, atom: &Atom) -> Result<(), ValueError> {
        let within = |value: f64| {
            self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
        };
        let fits = match (self.atom, atom) {
            (AtomType::Integer, Atom::Integer(value)) => {
                (self.integers.0..=self.integers.1).contains(value)
            }
            (AtomType::Real, Atom::Real(Real(value))) => within(*value),
            (AtomType::String, Atom::String(text)) => within(text.chars().count() as f64),
            (AtomType::Boolean, Atom::Boolean(_)) => true,
            (AtomType::Uuid, Atom::Uuid(_) | Atom::Named(_)) => true,
            (wanted, other) => {
                let got = shortened(&other.to_json().to_string());
                return Err(ValueError::Type { wanted, got });
            }
        };
        if fits && self.choices.as_ref().is_none_or(|choices| choices.contains(atom)) {
            return Ok(());
        }
        let value = shortened(&atom.to_json().to_string());
        Err(ValueError::Bounds { value, allowed: self.allowed() })
    }

    /// What is allowed, in words.
    fn allowed(&self) -> String {
        if let Some(choices) = &self.choices {
            let words: Vec<String> = choices.iter().map(Atom::to_string).collect();
            return format!("one of {}", words.join(", "));
        }
        let what = if self.atom == AtomType::String { "characters" } else { "the value" };
        match (self.min, self.max) {
            (Some(min), Some(max)) => format!("{what}: {min} to {max}"),
            (Some(min), None) => format!("{what}: {min} at least"),
            (None, Some(max)) => format!("{what}: {max} at most"),
            (None, None) => "anything".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn column(json: Json) -> ColumnType {
        ColumnType::of_json(&json).expect("a type")
    }

    #[test]
    fn a_schema_tells_tables_columns_and_types() {
        let schema = Schema::of_json(&json!({
            "name": "db", "version": "1.2.3", "cksum": "1 2",
            "tables": {"T": {"isRoot": true, "maxRows": 1, "columns": {
                "refs": {"type": {"key": {"type": "uuid", "refTable": "U", "refType": "weak"},
                                  "min": 0, "max": "unlimited"}},
                "n": {"type": {"key": {"type": "integer", "minInteger": 1, "maxInteger": 3}},
                      "mutable": false, "ephemeral": true}}}},
        }))
        .expect("a schema");
        let table = &schema.tables["T"];
        assert!(table.is_root && table.max_rows == Some(1));
        let refs = &schema.column("T", "refs").expect("a column").kind;
        assert_eq!(refs.key.refers_to, Some(("U".to_owned(), RefType::Weak)));
        assert_eq!((refs.min, refs.max), (0, usize::MAX));
        let n = schema.column("T", "n").expect("a column");
        assert!(!n.mutable && n.ephemeral);
        assert!(schema.column("T", "m").is_none() && schema.column("V", "n").is_none());
    }

    #[test]
    fn an_error_says_where_the_schema_is_wrong() {
        let error = |json| Schema::of_json(&json).expect_err("no schema").to_string();
        let with = |kind: Json| {
            json!({"name": "d", "version": "1.0.0",
                   "tables": {"T": {"columns": {"c": {"type": kind}}}}})
        };
        assert_eq!(error(with(json!("float"))), "T.c: \"float\" is no type of atoms");
        assert_eq!(error(with(json!({"key": "float"}))), "T.c.key: \"float\" is no type of atoms");
        let many = json!({"key": "integer", "min": 2, "max": 2});
        assert!(error(with(many)).starts_with("T.c: 2 to 2 values"));
        assert_eq!(error(json!({"version": "1.0.0"})), ": name is missing");
        assert!(error(json!(3)).contains("a schema was expected, not 3"));
    }

    #[test]
    fn values_out_of_bounds_are_refused_with_what_is_allowed() {
        let check = |json, datum: Datum| column(json).check(&datum).map_err(|e| e.to_string());
        let three = json!({"key": {"type": "integer", "minInteger": 1, "maxInteger": 3}});
        assert_eq!(check(three.clone(), Datum::from(3)), Ok(()));
        let refused = check(three.clone(), Datum::from(4)).expect_err("4 is more than 3");
        assert_eq!(refused, "4 is not allowed: the value: 1 to 3");
        assert!(check(three.clone(), Datum::empty()).expect_err("none").starts_with("0 values"));
        assert!(check(three.clone(), Datum::from("x")).is_err());
        assert!(check(three, Datum::map([(1, 1)])).is_err());
        let words = json!({"key": {"type": "string", "enum": ["set", ["a", "b"]]}, "min": 0});
        let refused = check(words, Datum::from("c")).expect_err("c is none of them");
        assert_eq!(refused, "\"c\" is not allowed: one of a, b");
        let short = json!({"key": {"type": "string", "maxLength": 2}});
        assert!(check(short.clone(), Datum::from("ab")).is_ok());
        assert!(check(short, Datum::from("abc")).is_err());
        let map = json!({"key": "string", "value": "integer", "min": 0, "max": 2});
        assert!(check(map.clone(), Datum::empty()).is_ok());
        assert!(check(map.clone(), Datum::from("a")).is_err());
        assert!(check(map, Datum::map([("a", 1)])).is_ok());
    }
}
