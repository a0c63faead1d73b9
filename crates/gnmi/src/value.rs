//! Values of leaves, in each encoding.

use crate::fault::{Fault, fault};
use crate::proto::typed_value::Value as Typed;
use crate::proto::{Encoding, TypedValue};
use serde_json::Value as Json;

/// A leaf's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of an enumeration.
    Word(&'static str),
    /// A string.
    Text(String),
    /// A boolean.
    Bool(bool),
    /// An unsigned number of 32 bits.
    Number(u32),
    /// An unsigned number of 64 bits.
    Long(u64),
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// As fields of `TypedValue`.
    Proto,
    /// As JSON.
    Json,
    /// As RFC 7951 has it.
    JsonIetf,
}

impl Written {
    /// All.
    pub const ALL: [Encoding; 3] = [Encoding::Json, Encoding::JsonIetf, Encoding::Proto];

    /// What a request asks for.
    pub fn asked(encoding: i32) -> Result<Written, Fault> {
        Ok(match Encoding::try_from(encoding) {
            Ok(Encoding::Proto) => Written::Proto,
            Ok(Encoding::Json) => Written::Json,
            Ok(Encoding::JsonIetf) => Written::JsonIetf,
            Ok(other) => {
                let name = other.as_str_name();
                return Err(fault!(
                    Unimplemented,
                    "encoding: {name} is not done here; ask for JSON, JSON_IETF or PROTO"
                ));
            }
            Err(_) => {
                return Err(fault!(InvalidArgument, "encoding: there is no encoding {encoding}"));
            }
        })
    }

    /// JSON as a value; PROTO has none for it, and takes that of RFC 7951.
    pub fn tree(self, json: &Json) -> TypedValue {
        let bytes = json.to_string().into_bytes();
        let value = match self {
            Written::Json => Typed::JsonVal(bytes),
            Written::JsonIetf | Written::Proto => Typed::JsonIetfVal(bytes),
        };
        TypedValue { value: Some(value) }
    }
}

impl Value {
    /// As JSON. Numbers of 64 bits are strings in RFC 7951.
    pub fn json(&self, written: Written) -> Json {
        match self {
            Value::Word(word) => Json::from(*word),
            Value::Text(text) => Json::from(text.as_str()),
            Value::Bool(on) => Json::from(*on),
            Value::Number(n) => Json::from(*n),
            Value::Long(n) if written == Written::Json => Json::from(*n),
            Value::Long(n) => Json::from(n.to_string()),
        }
    }

    /// As a leaf's value.
    pub fn typed(&self, written: Written) -> TypedValue {
        if written != Written::Proto {
            return written.tree(&self.json(written));
        }
        let value = match self {
            Value::Word(word) => Typed::StringVal((*word).to_owned()),
            Value::Text(text) => Typed::StringVal(text.clone()),
            Value::Bool(on) => Typed::BoolVal(*on),
            Value::Number(n) => Typed::UintVal(u64::from(*n)),
            Value::Long(n) => Typed::UintVal(*n),
        };
        TypedValue { value: Some(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_three_forms() {
        let json = |value: &Value, written| match value.typed(written).value.unwrap() {
            Typed::JsonVal(bytes) | Typed::JsonIetfVal(bytes) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        };
        let long = Value::Long(u64::MAX);
        assert_eq!(json(&long, Written::Json), "18446744073709551615");
        assert_eq!(json(&long, Written::JsonIetf), "\"18446744073709551615\"");
        assert_eq!(long.typed(Written::Proto).value, Some(Typed::UintVal(u64::MAX)));
        assert_eq!(json(&Value::Number(7), Written::JsonIetf), "7");
        assert_eq!(json(&Value::Text("a\"b".into()), Written::Json), r#""a\"b""#);
        assert_eq!(
            Value::Word("UP").typed(Written::Proto).value,
            Some(Typed::StringVal("UP".into()))
        );
    }

    #[test]
    fn encodings_that_are_not_done_are_refused_by_name() {
        assert_eq!(Written::asked(0), Ok(Written::Json));
        let fault = Written::asked(Encoding::Ascii as i32).unwrap_err();
        assert_eq!(fault.code, tonic::Code::Unimplemented);
        assert!(fault.text.contains("ASCII"), "{}", fault.text);
        assert_eq!(Written::asked(77).unwrap_err().code, tonic::Code::InvalidArgument);
    }
}
