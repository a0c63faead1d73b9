//! The kind `patch`.

use super::Panel;
use crate::error::Error;
use crate::kind::{Attached, Attachment, Database, Environment, Kind, OffWire, TakeOver};
use crate::port::Port;
use crate::spec::words::required;
use std::fmt;

/// `patch:PEER`
pub static KIND: Kind = Kind {
    form: "patch:PEER",
    about: "one end of a cable between bridges of the same process",
    use_for: "bridges of the same process",
    must_be_named: Some("NAME=patch:PEER"),
    off_wire: Some(OffWire { why: "patch ports join bridges of one process", instead: None }),
    queue_per_worker: true,
    database: &[Database {
        word: "patch",
        attach: |_, options| Attached::new(Peer(options.get("peer").cloned().unwrap_or_default())),
    }],
    ..Kind::plain("patch", |text, at| {
        Ok(Attached::new(Peer(required(text, at, "the other port's name", "NAME=patch:PEER")?)))
    })
};

/// The port of this name.
struct Peer(String);

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patch:{}", self.0)
    }
}

impl Attachment for Peer {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn default_name(&self) -> &str {
        KIND.word
    }

    /// Opens it at the panel of the environment.
    fn open(&self, name: &str, environment: &Environment) -> Result<Box<dyn Port>, Error> {
        match environment.get::<Panel>() {
            Some(panel) => Ok(Box::new(panel.open(name, &self.0)?)),
            None => {
                let what = "patch ports are opened at a panel that switches share".to_owned();
                Err(Error::Unsupported { name: name.to_owned(), what })
            }
        }
    }

    fn take_over(&self) -> TakeOver {
        TakeOver::Shared
    }
}
