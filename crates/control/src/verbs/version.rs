//! `version`: which protocol the switch speaks, and which verbs it knows.

use super::ALL;
use crate::protocol::{Reply, VERSION};
use crate::verb::{At, Verb};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub struct Version {}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The protocol of the control socket.
    pub protocol: u32,
    /// The version of millrace.
    pub millrace: String,
    /// The process that answers.
    pub pid: u32,
    /// Verbs, and what each does.
    pub verbs: BTreeMap<String, String>,
}

impl Verb for Version {
    const NAME: &'static str = "version";
    const ABOUT: &'static str = "The protocol, and its verbs";
    type Answer = Answer;

    fn answer(self, _: &At<'_>) -> Result<Reply<Answer>, String> {
        Ok(Reply::Answer(Answer {
            protocol: VERSION,
            millrace: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            verbs: ALL.iter().map(|row| (row.name.to_owned(), row.about.to_owned())).collect(),
        }))
    }

    fn text(answer: &Answer) -> String {
        let mut out = format!("millrace {}, protocol {}\n", answer.millrace, answer.protocol);
        // Writing to a string does not fail.
        for (verb, about) in &answer.verbs {
            let _ = writeln!(out, "{verb:<17} {about}");
        }
        out
    }
}
