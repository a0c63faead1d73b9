//! A place in the JSON: its value, its path, typed access.

use num_bigint::BigInt;
use num_traits::{Num as _, ToPrimitive as _};
use serde_json::Value;

/// What cannot be translated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{node}: {text}")]
pub struct Refused {
    /// The node of the JSON, as `pipelines[0].tables[2].key[0]`.
    pub node: String,
    /// What is wrong with it, and what would be right.
    pub text: String,
}

pub(super) type Result<T> = std::result::Result<T, Refused>;

/// Hexadecimal digits of a constant, at most.
const DIGITS_MAX: usize = 1024;

/// A value and where it is.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    pub(super) value: &'a Value,
    path: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value) -> Node<'a> {
        Node { value, path: String::new() }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &str {
        if self.path.is_empty() { "the JSON" } else { &self.path }
    }

    pub(super) fn no<T>(&self, text: impl Into<String>) -> Result<T> {
        Err(self.refused(text))
    }

    pub(super) fn refused(&self, text: impl Into<String>) -> Refused {
        Refused { node: self.path().to_owned(), text: text.into() }
    }

    /// A member, unless it is missing or null.
    pub(super) fn get(&self, key: &str) -> Option<Node<'a>> {
        let value = self.value.get(key).filter(|v| !v.is_null())?;
        let path = match self.path.is_empty() {
            true => key.to_owned(),
            false => format!("{}.{key}", self.path),
        };
        Some(Node { value, path })
    }

    pub(super) fn field(&self, key: &str) -> Result<Node<'a>> {
        self.get(key).ok_or_else(|| self.refused(format!("it has no `{key}`")))
    }

    /// An element of an array.
    pub(super) fn at(&self, i: usize) -> Result<Node<'a>> {
        match self.value.get(i) {
            Some(value) => Ok(Node { value, path: format!("{}[{i}]", self.path) }),
            None => self.no(format!("it has no element {i}")),
        }
    }

    pub(super) fn items(&self) -> Result<Vec<Node<'a>>> {
        let Some(all) = self.value.as_array() else {
            return self.no("an array is needed");
        };
        let item = |(i, value)| Node { value, path: format!("{}[{i}]", self.path) };
        Ok(all.iter().enumerate().map(item).collect())
    }

    /// The elements of a member; none if it is missing.
    pub(super) fn list(&self, key: &str) -> Result<Vec<Node<'a>>> {
        self.get(key).map_or(Ok(Vec::new()), |n| n.items())
    }

    pub(super) fn str(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.refused("a string is needed"))
    }

    pub(super) fn name(&self) -> Result<&'a str> {
        self.field("name")?.str()
    }

    pub(super) fn number(&self) -> Result<u32> {
        let n = self.value.as_u64().and_then(|n| u32::try_from(n).ok());
        n.ok_or_else(|| self.refused("a number of 32 bits is needed"))
    }

    /// A member that is true or false; false if it is missing.
    pub(super) fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None => Ok(false),
            Some(n) => n.value.as_bool().ok_or_else(|| n.refused("true or false is needed")),
        }
    }

    /// A constant: `0x1f`, `-0x01`.
    pub(super) fn hex(&self) -> Result<BigInt> {
        let text = self.str()?;
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", text),
        };
        let digits = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")).unwrap_or(rest);
        let good = (1..=DIGITS_MAX).contains(&digits.len())
            && digits.bytes().all(|b| b.is_ascii_hexdigit());
        match BigInt::from_str_radix(&format!("{sign}{digits}"), 16) {
            Ok(n) if good => Ok(n),
            _ => self.no(format!("hexadecimal digits are needed, {DIGITS_MAX} at most")),
        }
    }

    pub(super) fn small_hex(&self) -> Result<u32> {
        let n = self.hex()?;
        n.to_u32().ok_or_else(|| self.refused("a number of 32 bits is needed"))
    }

    /// The members `type` and `value`.
    pub(super) fn typed(&self) -> Result<(&'a str, Node<'a>)> {
        let kind = self.field("type")?.str()?;
        Ok((kind, self.field("value")?))
    }

    /// A pair of names.
    pub(super) fn pair(&self) -> Result<(&'a str, &'a str)> {
        match self.value.as_array().map(Vec::len) {
            Some(2) => Ok((self.at(0)?.str()?, self.at(1)?.str()?)),
            _ => self.no("a pair of names is needed"),
        }
    }
}
