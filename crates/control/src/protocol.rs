//! What goes over the control socket: a JSON object asked, one answered, a line each.
//!
//! A question is `{"command": VERB, ...}`, the verb's arguments beside its name, and `"bridge": NAME` where it is not the
//! first bridge that is asked. The answer is `{"result": ...}` or
//! `{"error": TEXT}`; behind the result of some verbs follows a stream. docs/control.md describes it for users.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::os::unix::net::UnixStream;

/// Changes with every change after which a client of before would misread an answer.
pub const VERSION: u32 = 1;

/// Longest line of a question, in bytes: a file of P4 entries.
pub(crate) const REQUEST_MAX: u64 = 64 << 20;

/// The key that names the verb.
const COMMAND: &str = "command";

/// The key that names the bridge.
const BRIDGE: &str = "bridge";

/// A question: which verb, of which bridge, and its arguments.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) verb: String,
    pub(crate) bridge: Option<String>,
    pub(crate) arguments: Value,
}

impl Request {
    /// Of a line.
    pub(crate) fn read(line: &[u8]) -> Result<Request, String> {
        let mut arguments: Map<String, Value> =
            serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let verb = arguments.remove(COMMAND).ok_or_else(|| format!("missing field `{COMMAND}`"))?;
        let Value::String(verb) = verb else { return Err(format!("{COMMAND} must be a string")) };
        let bridge = match arguments.remove(BRIDGE) {
            None | Some(Value::Null) => None,
            Some(Value::String(bridge)) => Some(bridge),
            Some(_) => return Err(format!("{BRIDGE} must be a string")),
        };
        Ok(Request { verb, bridge, arguments: Value::Object(arguments) })
    }

    /// As a line, its end included.
    pub(crate) fn line(&self) -> serde_json::Result<Vec<u8>> {
        let mut whole = Map::from_iter([(COMMAND.to_owned(), Value::from(self.verb.as_str()))]);
        if let Some(bridge) = &self.bridge {
            whole.insert(BRIDGE.to_owned(), Value::from(bridge.as_str()));
        }
        if let Value::Object(arguments) = &self.arguments {
            whole.extend(arguments.clone());
        }
        line(&whole)
    }
}

/// A line of its own, its end included.
pub(crate) fn line(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Result(Value),
    Error(String),
}

impl From<Result<Value, String>> for Answer {
    fn from(outcome: Result<Value, String>) -> Answer {
        outcome.map_or_else(Answer::Error, Answer::Result)
    }
}

/// Writes to a client for as long as there is something to write.
pub(crate) type Streaming = Box<dyn FnOnce(&UnixStream) -> std::io::Result<()> + Send>;

/// What a verb answers.
pub enum Reply<A> {
    /// A value.
    Answer(A),
    /// What this writes, after a value.
    Stream(A, Streaming),
}
