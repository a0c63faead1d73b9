//! The client's end of the control socket.

pub use crate::dial::default_path;

use crate::dial::{nonsense, talk};
use crate::failure::Failure;
use crate::verb::Verb;
use serde_json::Value;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Whom to ask: a control socket, or the usual one, and a bridge there, or the first one.
#[derive(Clone, Copy, Debug, Default)]
pub struct To<'a> {
    /// The control socket.
    pub ctl: Option<&'a Path>,
    /// The bridge.
    pub bridge: Option<&'a str>,
}

impl<'a> From<Option<&'a Path>> for To<'a> {
    fn from(ctl: Option<&'a Path>) -> To<'a> {
        To { ctl, bridge: None }
    }
}

/// Asks a running switch.
pub fn ask<'a, V: Verb>(to: impl Into<To<'a>>, question: &V) -> Result<Value, Failure> {
    begin(to.into(), question).map(|(value, _)| value)
}

/// Asks a running switch, and reads its answer.
pub fn answer<'a, V: Verb>(to: impl Into<To<'a>>, question: &V) -> Result<V::Answer, Failure> {
    read::<V>(ask(to, question)?)
}

/// An answer, read.
pub fn read<V: Verb>(answer: Value) -> Result<V::Answer, Failure> {
    serde_json::from_value(answer).map_err(|e| nonsense(&e))
}

/// Asks a running switch for what is a stream: its answer, and the bytes that follow.
pub fn follow_answered<'a, V: Verb>(
    to: impl Into<To<'a>>,
    question: &V,
) -> Result<(Value, BufReader<UnixStream>), Failure> {
    begin(to.into(), question)
}

/// Asks a running switch for what is a stream: the bytes that follow its answer.
pub fn follow<'a, V: Verb>(
    to: impl Into<To<'a>>,
    question: &V,
) -> Result<BufReader<UnixStream>, Failure> {
    begin(to.into(), question).map(|(_, rest)| rest)
}

fn begin<V: Verb>(to: To<'_>, question: &V) -> Result<(Value, BufReader<UnixStream>), Failure> {
    talk(to.ctl, to.bridge, V::NAME, serde_json::to_value(question).map_err(Failure::bad)?)
}

/// The answer for people.
pub fn text<V: Verb>(answer: Value) -> Result<String, Failure> {
    read::<V>(answer).map(|answer| V::text(&answer))
}
