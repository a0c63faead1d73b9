//! The store, by a client of NATS.

use super::told::{Head, NotWritten, Said};
use crate::config::group::Server;
use crate::fleet::ack::Ack;
use crate::fleet::place::{Place, is_name};
use crate::fleet::version::Version;
use async_nats::connection::State;
use async_nats::jetstream::kv::{self, Operation, UpdateErrorKind};
use std::time::SystemTime;
use tokio::sync::mpsc::UnboundedSender;
use tokio_stream::StreamExt as _;

/// Writes of a version that are remembered: as many as JetStream can.
const HISTORY: i64 = 64;
const KEY: &str = "version";

/// What a client tells.
pub(crate) struct Event(async_nats::Event);

impl Event {
    /// The server is there.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.0, async_nats::Event::Connected)
    }

    /// The server is gone.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.0, async_nats::Event::Disconnected | async_nats::Event::Closed)
    }

    /// What is wrong, if something is.
    pub(crate) async fn fault(&self, server: &Server) -> Option<String> {
        crate::nats::fault(server, &self.0).await
    }
}

/// A client.
pub(crate) struct Client(async_nats::Client);

impl Client {
    /// Whether the server is there.
    pub(crate) fn is_connected(&self) -> bool {
        self.0.connection_state() == State::Connected
    }
}

fn head(entry: &kv::Entry) -> Head {
    let version = match entry.operation {
        Operation::Put => Version::decode(&entry.value),
        Operation::Delete | Operation::Purge => Err("somebody has deleted it".to_owned()),
    };
    Head { revision: entry.revision, version, written: entry.created.into() }
}

/// A client that goes on trying. Events go to `to`.
pub(crate) async fn member(place: &Place, to: UnboundedSender<Event>) -> Result<Client, String> {
    let options = crate::nats::options(&place.server)?.retry_on_initial_connect().event_callback(
        move |event| {
            // Nobody listens any more where it fails.
            let _ = to.send(Event(event));
            async {}
        },
    );
    let connected = options.connect(place.server.urls.clone()).await;
    connected.map(Client).map_err(|error| format!("{}: {error}", place.shown()))
}

/// A client that is connected, or why it is not.
pub(crate) async fn connected(place: &Place) -> Result<Client, String> {
    let failed = |why: String| format!("{}: {why}", place.shown());
    let options = crate::nats::options(&place.server).map_err(failed)?;
    let connected = options.connect(place.server.urls.clone()).await;
    connected.map(Client).map_err(|error| failed(error.to_string()))
}

/// Both buckets.
pub(crate) struct Store {
    versions: kv::Store,
    members: kv::Store,
}

impl Store {
    /// Opens them; they are made if they are not there.
    pub(crate) async fn open(client: &Client, group: &str) -> Result<Store, String> {
        let jetstream = async_nats::jetstream::new(client.0.clone());
        let bucket = async |name: String, history| -> Result<kv::Store, String> {
            if let Ok(bucket) = jetstream.get_key_value(&name).await {
                return Ok(bucket);
            }
            let config = kv::Config { bucket: name.clone(), history, ..kv::Config::default() };
            let made = jetstream.create_key_value(config).await;
            made.map_err(|error| {
                format!("there is no store {name}: {error}; start nats-server with -js")
            })
        };
        let versions = bucket(format!("millrace-{group}-config"), HISTORY).await?;
        let members = bucket(format!("millrace-{group}-members"), 1).await?;
        Ok(Store { versions, members })
    }

    /// The version that was written last.
    pub(crate) async fn head(&self) -> Result<Option<Head>, String> {
        let entry = self.versions.entry(KEY).await.map_err(|error| error.to_string())?;
        Ok(entry.as_ref().map(head))
    }

    /// The version that was written last, and each one that is written from now on.
    pub(crate) async fn watch(&self) -> Result<kv::Watch, String> {
        self.versions.watch_with_history(KEY).await.map_err(|error| error.to_string())
    }

    /// The next one of them; none when it has to be begun anew.
    pub(crate) async fn next(watch: &mut kv::Watch) -> Option<Head> {
        watch.next().await?.ok().as_ref().map(head)
    }

    /// All that is remembered, the oldest first.
    pub(crate) async fn history(&self) -> Result<Vec<Head>, String> {
        let mut entries = self.versions.history(KEY).await.map_err(|error| error.to_string())?;
        let mut all = Vec::new();
        while let Some(entry) = entries.next().await {
            all.push(head(&entry.map_err(|error| error.to_string())?));
        }
        Ok(all)
    }

    /// Writes a version over the revision that was read; 0 if there was none.
    pub(crate) async fn write(&self, version: &Version, revision: u64) -> Result<(), NotWritten> {
        match self.versions.update(KEY, version.encode().into(), revision).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => {
                Err(NotWritten::Raced)
            }
            Err(error) => Err(NotWritten::Failed(error.to_string())),
        }
    }

    /// What members have said, by name.
    pub(crate) async fn said(&self) -> Result<Vec<Said>, String> {
        let mut keys = self.members.keys().await.map_err(|error| error.to_string())?;
        let mut names = Vec::new();
        while let Some(key) = keys.next().await {
            names.push(key.map_err(|error| error.to_string())?);
        }
        names.retain(|name| is_name(name));
        names.sort();
        let mut all = Vec::new();
        for member in names {
            let entry = self.members.entry(&member).await.map_err(|error| error.to_string())?;
            let Some(entry) = entry.filter(|entry| entry.operation == Operation::Put) else {
                continue;
            };
            let Some(ack) = Ack::decode(&entry.value) else { continue };
            let written: SystemTime = entry.created.into();
            let age = SystemTime::now().duration_since(written).unwrap_or_default();
            all.push(Said { member, ack, age });
        }
        Ok(all)
    }

    /// Says what has become of a version at a member.
    pub(crate) async fn say(&self, member: &str, ack: &Ack) -> Result<(), String> {
        let put = self.members.put(member, ack.encode().into()).await;
        put.map(drop).map_err(|error| error.to_string())
    }

    /// Forgets what a member has said.
    pub(crate) async fn forget(&self, member: &str) -> Result<(), String> {
        self.members.purge(member).await.map_err(|error| error.to_string())
    }
}
