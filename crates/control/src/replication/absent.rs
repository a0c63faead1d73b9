//! No engine: this is built without a client of NATS. `--replication` is refused before anybody reaches for it.

use super::engine::{Brought, Engine};
use crate::config::group::Settings;
use crate::nats::ABSENT;
use replication::Owner;
use replication::pool::Claims;
use tokio::sync::mpsc::Sender;

/// Has no values.
pub(crate) enum Nats {}

impl Engine for Nats {
    fn publish(&self, _: Vec<u8>) -> bool {
        match *self {}
    }

    fn has_room(&self) -> bool {
        match *self {}
    }

    fn write(&self, _: &str, _: u64, _: Owner) {
        match *self {}
    }

    fn claim(&self, _: &str, _: u64, _: Claims) {
        match *self {}
    }
}

/// Fails, and says why.
pub(crate) async fn start(_: &Settings, _: Sender<Brought>) -> Result<Nats, String> {
    Err(ABSENT.to_owned())
}
