//! `p4_do`: lines of `millrace p4 do`.

use crate::controllers::p4::P4;
use crate::program::host;
use crate::protocol::Reply;
use crate::role::Role;
use crate::verb::{At, Verb};
use serde::{Deserialize, Serialize};

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub struct P4Do {
    /// The lines.
    pub text: String,
}

impl Verb for P4Do {
    const NAME: &'static str = "p4_do";
    const ABOUT: &'static str = "Tables, entries and the rest of a P4 program, by name";
    type Answer = host::Done;

    fn answer(self, at: &At<'_>) -> Result<Reply<host::Done>, String> {
        let p4 = at.controllers()?.find::<P4>().ok_or_else(none)?;
        Ok(Reply::Answer(p4.commands(&self.text)))
    }

    /// A line may change anything.
    fn role(&self) -> Role {
        Role::Operate
    }

    fn text(answer: &host::Done) -> String {
        answer.told.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// Why a switch takes none of it.
pub(crate) fn none() -> String {
    "this switch runs OpenFlow's tables; `millrace run --p4 PROGRAM.p4` runs a P4 program"
        .to_owned()
}
