//! `p4_load`: another P4 program in place of the one that runs.

use super::p4_do::none;
use crate::controllers::p4::P4;
use crate::program::host;
use crate::program::p4_file::P4Source;
use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub struct P4Load {
    /// Which program, by paths that the switch can read.
    pub source: P4Source,
}

impl Verb for P4Load {
    const NAME: &'static str = "p4_load";
    const ABOUT: &'static str = "Another P4 program in place of the one that runs";
    type Answer = host::Loaded;

    fn answer(self, at: &At<'_>) -> Result<Reply<host::Loaded>, String> {
        let p4 = at.controllers()?.find::<P4>().ok_or_else(none)?;
        p4.load(&self.source).map(Reply::Answer)
    }

    fn change(&self) -> Option<Change> {
        let text = self.source.file.display().to_string();
        Some(Change { kind: "p4_program", how: "modify", text })
    }

    fn names_files(&self) -> bool {
        true
    }

    fn text(answer: &host::Loaded) -> String {
        let mut out = format!(
            "version {}: compiled in {} ms, in force {} ms later; {} entries of {} tables came along\n",
            answer.version, answer.compile_ms, answer.swap_ms, answer.entries, answer.tables
        );
        // Writing to a string does not fail.
        for line in &answer.left {
            let _ = writeln!(out, "left behind: {line}");
        }
        out
    }
}
