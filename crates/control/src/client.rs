//! The client's end of the control socket.

pub use crate::dial::default_path;

use crate::dial::{nonsense, talk};
use crate::failure::Failure;
use crate::verb::Verb;
use serde_json::Value;
use std::io::{BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Asks a running switch.
pub fn ask<V: Verb>(path: Option<&Path>, question: &V) -> Result<Value, Failure> {
    begin(path, question).map(|(value, _)| value)
}

/// Asks a running switch for what is a stream: the bytes that follow its answer.
pub fn follow<V: Verb>(path: Option<&Path>, question: &V) -> Result<impl Read + use<V>, Failure> {
    begin(path, question).map(|(_, rest)| rest)
}

fn begin<V: Verb>(
    path: Option<&Path>,
    question: &V,
) -> Result<(Value, BufReader<UnixStream>), Failure> {
    talk(path, V::NAME, serde_json::to_value(question).map_err(Failure::bad)?)
}

/// The answer for people.
pub fn text<V: Verb>(answer: Value) -> Result<String, Failure> {
    serde_json::from_value(answer).map(|answer| V::text(&answer)).map_err(|e| nonsense(&e))
}
