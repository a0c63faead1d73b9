//! Atoms, sets and maps, from and to JSON (RFC 7047 §5.1).

use crate::schema::{AtomType, BaseType, ColumnType};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// A row's name: 128 bits, written as 8-4-4-4-12 hexadecimal digits (RFC 4122).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub u128);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
        write!(f, "{a}-{b}-{c}-{}-{}", &digits[16..20], &digits[20..])
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Uuid, ValueError> {
        let wrong = || ValueError::Uuid(shortened(text));
        let bytes = text.as_bytes();
        let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        if bytes.len() != 36 {
            return Err(wrong());
        }
        let mut value = 0u128;
        for (at, byte) in bytes.iter().enumerate() {
            match (is_dash(at), *byte, (*byte as char).to_digit(16)) {
                (true, b'-', _) => {}
                (false, _, Some(digit)) => value = value << 4 | u128::from(digit),
                _ => return Err(wrong()),
            }
        }
        Ok(Uuid(value))
    }
}

/// A real number, ordered so that sets of them are sets: by [`f64::total_cmp`]. JSON has no infinities and no NaN.
#[derive(Clone, Copy, Debug)]
pub struct Real(pub f64);

impl PartialEq for Real {
    fn eq(&self, other: &Real) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Real {}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Real) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Real {
    fn cmp(&self, other: &Real) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// One value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    /// 64 bits with a sign.
    Integer(i64),
    /// A real number.
    Real(Real),
    /// True or false.
    Boolean(bool),
    /// Text.
    String(String),
    /// Another row.
    Uuid(Uuid),
    /// A row that the same transaction inserts, by the name it has there. Servers never send it.
    Named(String),
}

impl Atom {
    /// As JSON.
    pub fn to_json(&self) -> Json {
        match self {
            Atom::Integer(value) => Json::from(*value),
            Atom::Real(value) => Json::from(value.0),
            Atom::Boolean(value) => Json::from(*value),
            Atom::String(value) => Json::from(value.as_str()),
            Atom::Uuid(value) => Json::from(vec!["uuid".to_owned(), value.to_string()]),
            Atom::Named(name) => Json::from(vec!["named-uuid", name]),
        }
    }

    /// From JSON, as this type says.
    pub fn of_json(json: &Json, wanted: AtomType) -> Result<Atom, ValueError> {
        let atom = match wanted {
            AtomType::Integer => json.as_i64().map(Atom::Integer),
            AtomType::Real => json.as_f64().map(|value| Atom::Real(Real(value))),
            AtomType::Boolean => json.as_bool().map(Atom::Boolean),
            AtomType::String => json.as_str().map(|text| Atom::String(text.to_owned())),
            AtomType::Uuid => match json.as_array().map(Vec::as_slice) {
                Some([kind, text]) if kind == "uuid" => match text.as_str() {
                    Some(text) => Some(Atom::Uuid(text.parse()?)),
                    None => None,
                },
                _ => None,
            },
        };
        atom.ok_or_else(|| ValueError::Type { wanted, got: shortened(&json.to_string()) })
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Integer(value) => write!(f, "{value}"),
            Atom::Real(value) => write!(f, "{}", value.0),
            Atom::Boolean(value) => write!(f, "{value}"),
            Atom::String(value) => write!(f, "{value}"),
            Atom::Uuid(value) => write!(f, "{value}"),
            Atom::Named(name) => write!(f, "{name}"),
        }
    }
}

macro_rules! atoms {
    ($($from:ty => |$value:ident| $atom:expr;)*) => { $(
        impl From<$from> for Atom {
            fn from($value: $from) -> Atom {
                $atom
            }
        }

        impl From<$from> for Datum {
            fn from(value: $from) -> Datum {
                Datum::Set(BTreeSet::from([Atom::from(value)]))
            }
        }
    )* };
}

atoms! {
    i64 => |value| Atom::Integer(value);
    f64 => |value| Atom::Real(Real(value));
    bool => |value| Atom::Boolean(value);
    &str => |value| Atom::String(value.to_owned());
    String => |value| Atom::String(value);
    Uuid => |value| Atom::Uuid(value);
}

impl From<Atom> for Datum {
    fn from(atom: Atom) -> Datum {
        Datum::Set(BTreeSet::from([atom]))
    }
}

/// What a column of one row holds. A single value is a set of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// Values, each once.
    Set(BTreeSet<Atom>),
    /// Values by key.
    Map(BTreeMap<Atom, Atom>),
}

impl Datum {
    /// No value.
    pub fn empty() -> Datum {
        Datum::Set(BTreeSet::new())
    }

    /// These values.
    pub fn set<A: Into<Atom>>(values: impl IntoIterator<Item = A>) -> Datum {
        Datum::Set(values.into_iter().map(Into::into).collect())
    }

    /// These pairs.
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Datum {
        Datum::Map(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// How many values or pairs there are.
    pub fn len(&self) -> usize {
        match self {
            Datum::Set(set) => set.len(),
            Datum::Map(map) => map.len(),
        }
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As JSON: a set of one as its value.
    pub fn to_json(&self) -> Json {
        match self {
            Datum::Set(set) => match set.first() {
                Some(atom) if set.len() == 1 => atom.to_json(),
                _ => tagged("set", set.iter().map(Atom::to_json).collect()),
            },
            Datum::Map(map) => {
                let pair =
                    |(key, value): (&Atom, &Atom)| Json::from(vec![key.to_json(), value.to_json()]);
                tagged("map", map.iter().map(pair).collect())
            }
        }
    }

    /// From JSON, as this type says. How many values there are is not looked at, so that a difference can be read.
    pub fn of_json(json: &Json, wanted: &ColumnType) -> Result<Datum, ValueError> {
        let tagged = match json.as_array().map(Vec::as_slice) {
            Some([tag, Json::Array(items)]) => tag.as_str().map(|tag| (tag, items)),
            _ => None,
        };
        let key = wanted.key.atom;
        match (&wanted.value, tagged) {
            (Some(value), Some(("map", pairs))) => {
                let mut map = BTreeMap::new();
                for pair in pairs {
                    let Some([k, v]) = pair.as_array().map(Vec::as_slice) else {
                        return Err(ValueError::Pair(shortened(&pair.to_string())));
                    };
                    map.insert(Atom::of_json(k, key)?, Atom::of_json(v, value.atom)?);
                }
                Ok(Datum::Map(map))
            }
            (Some(_), _) => Err(ValueError::Map(shortened(&json.to_string()))),
            (None, Some(("set", items))) => {
                let atoms = items.iter().map(|item| Atom::of_json(item, key));
                Ok(Datum::Set(atoms.collect::<Result<_, _>>()?))
            }
            (None, _) => Ok(Datum::Set(BTreeSet::from([Atom::of_json(json, key)?]))),
        }
    }

    /// What a column holds of which an insertion says nothing: nothing, or the type's plainest value (§5.2.1).
    pub fn default_of(column: &ColumnType) -> Datum {
        match (&column.value, column.min) {
            (None, 0) => Datum::empty(),
            (None, _) => Datum::from(plainest(&column.key)),
            (Some(_), 0) => Datum::Map(BTreeMap::new()),
            (Some(value), _) => {
                Datum::Map(BTreeMap::from([(plainest(&column.key), plainest(value))]))
            }
        }
    }

    /// Applies a difference as `update2` sends it (ovsdb-server(7) §4.1.14): columns of at most one value hold the new
    /// one; of a set, what is there goes and what is not there comes; of a map, a pair that is there goes, another
    /// value of a key takes the place of the old one.
    pub fn apply(&mut self, difference: Datum, column: &ColumnType) {
        if column.max == 1 {
            *self = difference;
            return;
        }
        match (self, difference) {
            (Datum::Set(set), Datum::Set(difference)) => {
                for atom in difference {
                    if !set.remove(&atom) {
                        set.insert(atom);
                    }
                }
            }
            (Datum::Map(map), Datum::Map(difference)) => {
                for (key, value) in difference {
                    if map.get(&key) == Some(&value) {
                        map.remove(&key);
                    } else {
                        map.insert(key, value);
                    }
                }
            }
            (datum, difference) => *datum = difference,
        }
    }

    /// The values of a set, in order; none of a map.
    pub fn atoms(&self) -> impl Iterator<Item = &Atom> {
        match self {
            Datum::Set(set) => Some(set.iter()),
            Datum::Map(_) => None,
        }
        .into_iter()
        .flatten()
    }

    /// The rows that a set or the values of a map refer to.
    pub fn uuids(&self) -> impl Iterator<Item = Uuid> {
        let of_map = match self {
            Datum::Set(_) => None,
            Datum::Map(map) => Some(map.values()),
        };
        self.atoms().chain(of_map.into_iter().flatten()).filter_map(|atom| match atom {
            Atom::Uuid(uuid) => Some(*uuid),
            _ => None,
        })
    }

    /// The value of a text key in a map.
    pub fn get(&self, key: &str) -> Option<&Atom> {
        match self {
            Datum::Set(_) => None,
            Datum::Map(map) => map.get(&Atom::String(key.to_owned())),
        }
    }
}

fn tagged(tag: &str, items: Vec<Json>) -> Json {
    Json::Array(vec![Json::from(tag), Json::Array(items)])
}

fn plainest(base: &BaseType) -> Atom {
    if let Some(first) = base.choices.as_ref().and_then(|choices| choices.first()) {
        return first.clone();
    }
    match base.atom {
        AtomType::Integer => Atom::Integer(0),
        AtomType::Real => Atom::Real(Real(0.0)),
        AtomType::Boolean => Atom::Boolean(false),
        AtomType::String => Atom::String(String::new()),
        AtomType::Uuid => Atom::Uuid(Uuid(0)),
    }
}

/// At most so much of what was wrong is shown.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// Why JSON is no value of a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Another kind of value.
    #[error("{got} is not of the type {wanted}")]
    Type {
        /// The type.
        wanted: AtomType,
        /// What came instead.
        got: String,
    },
    /// A map was expected.
    #[error("{0} is no map: [\"map\", [[KEY, VALUE], ...]] was expected")]
    Map(String),
    /// A pair of a map was expected.
    #[error("{0} is no pair of a map")]
    Pair(String),
    /// A UUID was expected.
    #[error("{0} is no UUID: 8-4-4-4-12 hexadecimal digits were expected")]
    Uuid(String),
    /// More or fewer values than the column holds.
    #[error("{got} values, where {min} to {max} are allowed")]
    Count {
        /// How many there are.
        got: usize,
        /// The fewest.
        min: usize,
        /// The most.
        max: usize,
    },
    /// A value out of the column's bounds.
    #[error("{value} is not allowed: {allowed}")]
    Bounds {
        /// The value.
        value: String,
        /// What is.
        allowed: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn column(json: Json) -> ColumnType {
        ColumnType::of_json(&json).expect("a type")
    }

    #[test]
    fn a_uuid_is_read_as_it_is_written_and_in_no_other_form() {
        let text = "0123abcd-4567-89ab-cdef-0123456789ab";
        let uuid: Uuid = text.parse().expect("a UUID");
        assert_eq!(uuid, Uuid(0x0123_abcd_4567_89ab_cdef_0123_4567_89ab));
        assert_eq!(uuid.to_string(), text);
        for wrong in
            ["", "0123abcd", "0123abcd-4567-89ab-cdef-0123456789a", &text.replace('b', "g")]
        {
            assert!(wrong.parse::<Uuid>().is_err(), "{wrong}");
        }
        let moved = "0123abcd4-567-89ab-cdef-0123456789ab";
        assert!(moved.parse::<Uuid>().is_err());
    }

    #[test]
    fn values_are_read_by_their_type() {
        let set = column(json!({"key": "integer", "min": 0, "max": "unlimited"}));
        let read = |json| Datum::of_json(&json, &set);
        assert_eq!(read(json!(7)), Ok(Datum::from(7)));
        assert_eq!(read(json!(["set", []])), Ok(Datum::empty()));
        assert_eq!(read(json!(["set", [3, 1, 3]])), Ok(Datum::set([1, 3])));
        let error = read(json!(["set", ["x"]])).expect_err("text is no integer");
        assert_eq!(error.to_string(), "\"x\" is not of the type integer");
        let map = column(json!({"key": "string", "value": "uuid", "min": 0, "max": 9}));
        let uuid = Uuid(5);
        let read = |json| Datum::of_json(&json, &map);
        let json = json!(["map", [["a", ["uuid", uuid.to_string()]]]]);
        assert_eq!(read(json), Ok(Datum::map([("a", uuid)])));
        assert_eq!(read(json!("a")), Err(ValueError::Map("\"a\"".to_owned())));
        assert!(matches!(read(json!(["map", [["a"]]])), Err(ValueError::Pair(_))));
        assert!(matches!(read(json!(["map", [["a", ["uuid", 5]]]])), Err(ValueError::Type { .. })));
    }

    #[test]
    fn a_difference_is_applied_as_ovsdb_server_means_it() {
        let set = column(json!({"key": "integer", "min": 0, "max": "unlimited"}));
        let mut datum = Datum::set([1, 2]);
        datum.apply(Datum::set([2, 3]), &set);
        assert_eq!(datum, Datum::set([1, 3]));
        let map = column(json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"}));
        let mut datum = Datum::map([("stays", "1"), ("goes", "2"), ("changes", "3")]);
        datum.apply(Datum::map([("goes", "2"), ("changes", "4"), ("comes", "5")]), &map);
        assert_eq!(datum, Datum::map([("stays", "1"), ("changes", "4"), ("comes", "5")]));
        let one = column(json!({"key": "integer", "min": 0, "max": 1}));
        let mut datum = Datum::from(1);
        datum.apply(Datum::from(2), &one);
        assert_eq!(datum, Datum::from(2));
        datum.apply(Datum::empty(), &one);
        assert_eq!(datum, Datum::empty());
    }

    #[test]
    fn what_an_insertion_leaves_out_is_the_plainest_value() {
        let default = |json| Datum::default_of(&column(json));
        assert_eq!(default(json!("string")), Datum::from(""));
        assert_eq!(default(json!({"key": "uuid", "min": 0, "max": 1})), Datum::empty());
        let map = json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"});
        assert_eq!(default(map), Datum::Map(BTreeMap::new()));
        let choices = json!({"key": {"type": "string", "enum": ["set", ["b", "a"]]}});
        assert_eq!(default(choices), Datum::from("a"));
    }

    fn atoms(kind: AtomType) -> BoxedStrategy<Atom> {
        match kind {
            AtomType::Integer => any::<i64>().prop_map(Atom::Integer).boxed(),
            AtomType::Real => (-1e300..1e300).prop_map(|r| Atom::Real(Real(r))).boxed(),
            AtomType::Boolean => any::<bool>().prop_map(Atom::Boolean).boxed(),
            AtomType::String => any::<String>().prop_map(Atom::String).boxed(),
            AtomType::Uuid => any::<u128>().prop_map(|bits| Atom::Uuid(Uuid(bits))).boxed(),
        }
    }

    fn kinds() -> impl Strategy<Value = AtomType> {
        use AtomType::{Boolean, Integer, Real, String, Uuid};
        prop::sample::select(vec![Integer, Real, Boolean, String, Uuid])
    }

    fn columns() -> impl Strategy<Value = (ColumnType, Datum)> {
        (kinds(), prop::option::of(kinds())).prop_flat_map(|(key, value)| {
            let base = |atom: AtomType| BaseType::plain(atom);
            let column =
                ColumnType { key: base(key), value: value.map(base), min: 0, max: usize::MAX };
            let datum = match value {
                None => prop::collection::btree_set(atoms(key), 0..5).prop_map(Datum::Set).boxed(),
                Some(value) => prop::collection::btree_map(atoms(key), atoms(value), 0..5)
                    .prop_map(Datum::Map)
                    .boxed(),
            };
            (Just(column), datum)
        })
    }

    proptest! {
        #[test]
        fn values_are_read_as_they_were_written((column, datum) in columns()) {
            let text = datum.to_json().to_string();
            let json: Json = serde_json::from_str(&text).expect("JSON");
            prop_assert_eq!(Datum::of_json(&json, &column), Ok(datum));
        }
    }
}
