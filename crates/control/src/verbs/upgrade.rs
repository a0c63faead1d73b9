//! `upgrade`: another binary takes this process's place ([`upgrade`](crate::upgrade)).

use super::take_over::may_hand_over;
use crate::protocol::Reply;
use crate::upgrade::{binary, child};
use crate::verb::{At, Change, Verb};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub use child::Said;

/// The question.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Upgrade {
    /// The new binary; the running one's path, if none is named.
    pub binary: Option<PathBuf>,
    /// Nothing is done if the file is the one that runs.
    pub if_changed: bool,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The new binary.
    pub binary: PathBuf,
    /// Its version, as it tells it.
    pub version: String,
    /// It is started: what becomes of it follows, a line each ([`Said`]).
    pub starts: bool,
}

impl Verb for Upgrade {
    const NAME: &'static str = "upgrade";
    const ABOUT: &'static str = "Another binary takes this process's place, with its arguments";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let binary = self.binary.map_or_else(binary::own_path, Ok)?;
        if !binary.is_absolute() {
            return Err(format!("{}: give the whole path of the binary", binary.display()));
        }
        let is_same = binary::is_running(&binary)?;
        if self.if_changed && is_same {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            return Ok(Reply::Answer(Answer { binary, version, starts: false }));
        }
        let version = binary::version(&binary)?;
        let handover = may_hand_over(at)?.clone();
        let ctl = handover.ctl().map(Path::to_path_buf);
        let ctl = ctl.ok_or("this process has no control socket to take over by")?;
        if std::process::id() == 1 {
            return Err("this is the first process of its container, which ends with it: start another container \
                        with the new binary and --take-over"
                .to_owned());
        }
        let new = binary.clone();
        Ok(Reply::Stream(
            Answer { binary, version, starts: true },
            Box::new(move |client| child::run(&new, &ctl, &handover, client)),
        ))
    }

    fn text(answer: &Answer) -> String {
        let (binary, version) = (answer.binary.display(), &answer.version);
        match answer.starts {
            true => format!("{binary}, millrace {version}, is started\n"),
            false => format!("{binary}, millrace {version}, is what runs\n"),
        }
    }

    fn change(&self) -> Option<Change> {
        let text = self.binary.as_ref().map_or_else(String::new, |it| it.display().to_string());
        Some(Change { kind: "process", how: "replace", text })
    }

    fn names_files(&self) -> bool {
        true
    }
}
