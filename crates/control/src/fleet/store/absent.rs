//! The store where there is no client of NATS: reaching for it fails, and says why. Its types have no values.

use super::told::{Head, NotWritten, Said};
use crate::config::group::Server;
use crate::fleet::Place;
use crate::fleet::ack::Ack;
use crate::fleet::version::Version;
use crate::nats::ABSENT;
use tokio::sync::mpsc::UnboundedSender;

/// What no client tells.
pub(crate) enum Event {}

impl Event {
    pub(crate) fn is_there(&self) -> bool {
        match *self {}
    }

    pub(crate) fn is_gone(&self) -> bool {
        match *self {}
    }

    pub(crate) async fn fault(&self, _: &Server) -> Option<String> {
        match *self {}
    }
}

/// No client.
pub(crate) enum Client {}

impl Client {
    pub(crate) fn is_connected(&self) -> bool {
        match *self {}
    }
}

/// What follows no store.
pub(crate) enum Watch {}

/// No store.
pub(crate) enum Store {}

pub(crate) async fn member(_: &Place, _: UnboundedSender<Event>) -> Result<Client, String> {
    Err(ABSENT.to_owned())
}

pub(crate) async fn connected(_: &Place) -> Result<Client, String> {
    Err(ABSENT.to_owned())
}

impl Store {
    pub(crate) async fn open(client: &Client, _: &str) -> Result<Store, String> {
        match *client {}
    }

    pub(crate) async fn head(&self) -> Result<Option<Head>, String> {
        match *self {}
    }

    pub(crate) async fn watch(&self) -> Result<Watch, String> {
        match *self {}
    }

    pub(crate) async fn next(watch: &mut Watch) -> Option<Head> {
        match *watch {}
    }

    pub(crate) async fn history(&self) -> Result<Vec<Head>, String> {
        match *self {}
    }

    pub(crate) async fn write(&self, _: &Version, _: u64) -> Result<(), NotWritten> {
        match *self {}
    }

    pub(crate) async fn said(&self) -> Result<Vec<Said>, String> {
        match *self {}
    }

    pub(crate) async fn say(&self, _: &str, _: &Ack) -> Result<(), String> {
        match *self {}
    }

    pub(crate) async fn forget(&self, _: &str) -> Result<(), String> {
        match *self {}
    }
}
