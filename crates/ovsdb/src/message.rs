//! A stream of bytes as JSON-RPC messages, within bounds (RFC 7047 §4, JSON-RPC 1.0).
//!
//! Messages follow each other with nothing between them, so a message ends where its outermost brace closes. [`Frames`]
//! finds that place byte by byte, each byte once, before anything is parsed.

use crate::value::shortened;
use serde_json::{Map as Object, Value as Json};

/// A message is so long at most. The largest by far is the first answer to a monitor.
pub const LENGTH_MAX: usize = 256 << 20;
/// JSON nests so deep at most; a transaction's answer needs nine levels.
pub const DEPTH_MAX: u32 = 64;

/// Bytes that have come, up to the end of a message.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    /// So many have been looked at.
    seen: usize,
    depth: u32,
    in_string: bool,
    escaped: bool,
    length_max: usize,
}

/// Why a stream is none of messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A message is too long.
    #[error("a message is longer than {0} octets")]
    Long(usize),
    /// It nests too deep.
    #[error("a message nests deeper than {DEPTH_MAX} levels")]
    Deep,
    /// Between messages stands something else.
    #[error("a message begins with the octet {0:#04x}: an opening brace was expected")]
    Begin(u8),
    /// No JSON.
    #[error("a message is no JSON: {0}")]
    Json(String),
    /// JSON, but no message.
    #[error("{0} is no JSON-RPC message")]
    Shape(String),
}

impl Default for Frames {
    fn default() -> Frames {
        Frames::new(LENGTH_MAX)
    }
}

impl Frames {
    /// Nothing has come yet; a message is so long at most.
    pub fn new(length_max: usize) -> Frames {
        Frames {
            bytes: Vec::new(),
            seen: 0,
            depth: 0,
            in_string: false,
            escaped: false,
            length_max,
        }
    }

    /// These have come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, if it has come. After an error the stream cannot be read further.
    pub fn take(&mut self) -> Result<Option<Json>, MessageError> {
        if self.depth == 0 {
            let blank = |byte: &u8| byte.is_ascii_whitespace();
            let from = self.bytes.iter().position(|byte| !blank(byte)).unwrap_or(self.bytes.len());
            self.bytes.drain(..from);
            self.seen = 0;
            match self.bytes.first() {
                None => return Ok(None),
                Some(b'{') => {}
                Some(other) => return Err(MessageError::Begin(*other)),
            }
        }
        while let Some(byte) = self.bytes.get(self.seen) {
            self.seen += 1;
            match (self.in_string, byte) {
                (true, _) if self.escaped => self.escaped = false,
                (true, b'\\') => self.escaped = true,
                (_, b'"') => self.in_string = !self.in_string,
                (true, _) => {}
                (false, b'{' | b'[') => self.depth += 1,
                (false, b'}' | b']') => self.depth -= 1,
                (false, _) => {}
            }
            if self.depth > DEPTH_MAX {
                return Err(MessageError::Deep);
            }
            if self.depth == 0 {
                let json = serde_json::from_slice(&self.bytes[..self.seen]);
                self.bytes.drain(..self.seen);
                self.seen = 0;
                return json.map(Some).map_err(|error| MessageError::Json(error.to_string()));
            }
            if self.seen > self.length_max {
                return Err(MessageError::Long(self.length_max));
            }
        }
        Ok(None)
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Something is asked, and an answer with this id is expected.
    Request {
        /// What.
        method: String,
        /// Its arguments.
        params: Vec<Json>,
        /// Its name.
        id: Json,
    },
    /// Something is told.
    Notification {
        /// What.
        method: String,
        /// Its arguments.
        params: Vec<Json>,
    },
    /// An answer.
    Response {
        /// What was asked for, or why there is none.
        result: Result<Json, Json>,
        /// The request's name.
        id: Json,
    },
}

impl Message {
    /// From JSON.
    pub fn of_json(json: Json) -> Result<Message, MessageError> {
        let shape = |json: &Json| MessageError::Shape(shortened(&json.to_string()));
        let Json::Object(mut fields) = json else { return Err(shape(&json)) };
        let mut take = |name: &str| fields.remove(name).unwrap_or(Json::Null);
        let (method, params, id) = (take("method"), take("params"), take("id"));
        let (result, error) = (take("result"), take("error"));
        match (method, params, id) {
            (Json::String(method), Json::Array(params), Json::Null) => {
                Ok(Message::Notification { method, params })
            }
            (Json::String(method), Json::Array(params), id) => {
                Ok(Message::Request { method, params, id })
            }
            (Json::Null, Json::Null, id) if !id.is_null() => {
                let result = if error.is_null() { Ok(result) } else { Err(error) };
                Ok(Message::Response { result, id })
            }
            (method, _, id) => Err(shape(&serde_json::json!({"method": method, "id": id}))),
        }
    }

    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let fields: Object<String, Json> = match self {
            Message::Request { method, params, id } => [
                ("method".to_owned(), Json::from(method.as_str())),
                ("params".to_owned(), Json::from(params.clone())),
                ("id".to_owned(), id.clone()),
            ]
            .into_iter()
            .collect(),
            Message::Notification { method, params } => [
                ("method".to_owned(), Json::from(method.as_str())),
                ("params".to_owned(), Json::from(params.clone())),
                ("id".to_owned(), Json::Null),
            ]
            .into_iter()
            .collect(),
            Message::Response { result, id } => {
                let (result, error) = match result {
                    Ok(result) => (result.clone(), Json::Null),
                    Err(error) => (Json::Null, error.clone()),
                };
                [
                    ("result".to_owned(), result),
                    ("error".to_owned(), error),
                    ("id".to_owned(), id.clone()),
                ]
                .into_iter()
                .collect()
            }
        };
        Json::Object(fields).to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn all(frames: &mut Frames) -> Result<Vec<Json>, MessageError> {
        let mut found = Vec::new();
        while let Some(json) = frames.take()? {
            found.push(json);
        }
        Ok(found)
    }

    #[test]
    fn messages_are_found_however_they_are_cut() {
        let text = r#" {"a":"}{\"\\"}{"b":[{},[{"c":1}]]}
            {"d":"\\"}"#;
        let wanted =
            vec![json!({"a": "}{\"\\"}), json!({"b": [{}, [{"c": 1}]]}), json!({"d": "\\"})];
        for size in 1..text.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for part in text.as_bytes().chunks(size) {
                frames.push(part);
                found.extend(all(&mut frames).expect("messages"));
            }
            assert_eq!(found, wanted, "in parts of {size}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused_at_once() {
        let error = |bytes: &[u8], most| {
            let mut frames = Frames::new(most);
            frames.push(bytes);
            all(&mut frames).expect_err("no message")
        };
        assert_eq!(error(b"x", 99), MessageError::Begin(b'x'));
        assert_eq!(error(b"[]", 99), MessageError::Begin(b'['));
        assert_eq!(error(b"{\"a\":", 4), MessageError::Long(4));
        let deep = format!("{{\"a\":{}", "[".repeat(99));
        assert_eq!(error(deep.as_bytes(), 999), MessageError::Deep);
        assert!(matches!(error(b"{]", 99), MessageError::Json(_)));
        assert!(matches!(error(b"{\"a\":\xff}", 99), MessageError::Json(_)));
    }

    #[test]
    fn messages_are_told_apart() {
        let of = |json: Json| Message::of_json(json);
        let (method, params, id) = ("echo".to_owned(), vec![], json!("x"));
        let request = Message::Request { method: method.clone(), params: params.clone(), id };
        assert_eq!(of(json!({"method": "echo", "params": [], "id": "x"})), Ok(request));
        let notification = Message::Notification { method, params };
        assert_eq!(of(json!({"method": "echo", "params": [], "id": null})), Ok(notification));
        let response = Message::Response { result: Err(json!("e")), id: json!(1) };
        assert_eq!(of(json!({"result": null, "error": "e", "id": 1})), Ok(response));
        for wrong in [json!({}), json!({"method": 1, "id": 1}), json!({"method": "m", "params": 1})]
        {
            assert!(of(wrong.clone()).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut frames = Frames::new(100);
            frames.push(&bytes);
            drop(all(&mut frames));
        }

        #[test]
        fn a_message_is_read_as_it_was_written(method in "[a-z]{1,9}", text in any::<String>(), id in 1u64..9) {
            let params = vec![json!(text), json!({"k": [text]})];
            for message in [
                Message::Request { method: method.clone(), params: params.clone(), id: json!(id) },
                Message::Notification { method: method.clone(), params: params.clone() },
                Message::Response { result: Ok(json!(params)), id: json!(id) },
                Message::Response { result: Err(json!(text)), id: json!(id) },
            ] {
                let mut frames = Frames::default();
                frames.push(&message.to_bytes());
                let json = frames.take().expect("JSON").expect("whole");
                prop_assert_eq!(Message::of_json(json), Ok(message));
            }
        }
    }
}
