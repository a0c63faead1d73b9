//! `conntrack_export`: an image of all connections, as a stream.

use crate::image;
use crate::protocol::Reply;
use crate::role::Role;
use crate::verb::{At, Verb};
use serde::{Deserialize, Serialize};

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub struct ConntrackExport {}

impl Verb for ConntrackExport {
    const NAME: &'static str = "conntrack_export";
    const ABOUT: &'static str = "An image of all connections: a stream";
    type Answer = ();

    fn answer(self, at: &At<'_>) -> Result<Reply<()>, String> {
        image::connections(at.switch()?)?;
        let switch = at.switch()?.clone();
        Ok(Reply::Stream((), Box::new(move |client| image::send(&switch, client))))
    }

    /// All connections leave.
    fn role(&self) -> Role {
        Role::Operate
    }

    fn text((): &()) -> String {
        String::new()
    }
}
