//! `dump`: a stage of the compiled pipeline as text.

use crate::protocol::Reply;
use crate::verb::{At, Verb};
use serde::{Deserialize, Serialize};

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub struct Dump {
    /// `ir`, `opt`, `plan`, `clif` or `asm`.
    pub stage: String,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Which stage.
    pub stage: String,
    /// The engine.
    pub engine: String,
    /// The stage.
    pub text: String,
}

impl Verb for Dump {
    const NAME: &'static str = "dump";
    const ABOUT: &'static str = "A stage of the compiled pipeline";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let text = at.switch()?.dump(&self.stage)?;
        Ok(Reply::Answer(Answer {
            stage: self.stage,
            engine: at.switch()?.engine().to_owned(),
            text,
        }))
    }

    fn text(answer: &Answer) -> String {
        answer.text.clone()
    }
}
