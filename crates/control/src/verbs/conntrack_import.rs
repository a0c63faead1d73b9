//! `conntrack_import`: the connections of an image are taken over.

use crate::image;
use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub struct ConntrackImport {
    /// Which image, by a path that the switch can read.
    pub path: PathBuf,
}

impl Verb for ConntrackImport {
    const NAME: &'static str = "conntrack_import";
    const ABOUT: &'static str = "Takes over the connections of an image";
    type Answer = image::Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<image::Answer>, String> {
        image::take(at.switch()?, &self.path).map(Reply::Answer)
    }

    fn change(&self) -> Option<Change> {
        Some(Change { kind: "conntrack", how: "add", text: self.path.display().to_string() })
    }

    fn names_files(&self) -> bool {
        true
    }

    fn text(answer: &image::Answer) -> String {
        image::print(answer)
    }
}
