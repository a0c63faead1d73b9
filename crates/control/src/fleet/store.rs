//! The store: buckets of JetStream's key-value store.
//!
//! `millrace-GROUP-config` has one key, `version`; its history is the last 64 writes. Operators write it, and only over the revision that
//! they have read. `millrace-GROUP-members` has a key for each member, which that member writes.

use super::ack::Ack;
use super::place::{Place, is_name};
use super::version::Version;
use async_nats::jetstream::kv::{self, Operation, UpdateErrorKind};
use async_nats::{Client, Event};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc::UnboundedSender;
use tokio_stream::StreamExt as _;

/// Writes of a version that are remembered: as many as JetStream can.
const HISTORY: i64 = 64;
const KEY: &str = "version";

/// What the store holds of a version.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) revision: u64,
    /// Or why it is none.
    pub(crate) version: Result<Version, String>,
    /// When it was written, by the server's clock.
    pub(crate) written: SystemTime,
}

impl Head {
    fn of(entry: &kv::Entry) -> Head {
        let version = match entry.operation {
            Operation::Put => Version::decode(&entry.value),
            Operation::Delete | Operation::Purge => Err("somebody has deleted it".to_owned()),
        };
        Head { revision: entry.revision, version, written: entry.created.into() }
    }

    /// How long it has waited, by both clocks.
    pub(crate) fn age(&self) -> Duration {
        SystemTime::now().duration_since(self.written).unwrap_or_default()
    }

    /// For how long it still waits for a confirmation; none if it does not, or not any more.
    pub(crate) fn waits(&self) -> Option<Duration> {
        let waits = self.version.as_ref().ok()?.waits.as_ref()?;
        let left = Duration::from_secs(waits.seconds).saturating_sub(self.age());
        (!left.is_zero()).then_some(left)
    }
}

/// What a member has said.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) member: String,
    pub(crate) ack: Ack,
    /// How long ago.
    pub(crate) age: Duration,
}

/// Why a version was not written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotWritten {
    /// Somebody else was faster.
    Raced,
    Failed(String),
}

/// A client that goes on trying. Events go to `to`.
pub(crate) async fn member(place: &Place, to: UnboundedSender<Event>) -> Result<Client, String> {
    let options = crate::nats::options(&place.server)?.retry_on_initial_connect().event_callback(
        move |event| {
            // Nobody listens any more where it fails.
            let _ = to.send(event);
            async {}
        },
    );
    let connected = options.connect(place.server.urls.clone()).await;
    connected.map_err(|error| format!("{}: {error}", place.shown()))
}

/// A client that is connected, or why it is not.
pub(crate) async fn connected(place: &Place) -> Result<Client, String> {
    let failed = |why: String| format!("{}: {why}", place.shown());
    let options = crate::nats::options(&place.server).map_err(failed)?;
    options.connect(place.server.urls.clone()).await.map_err(|error| failed(error.to_string()))
}

/// Both buckets.
pub(crate) struct Store {
    versions: kv::Store,
    members: kv::Store,
}

impl Store {
    /// Opens them; they are made if they are not there.
    pub(crate) async fn open(client: &Client, group: &str) -> Result<Store, String> {
        let jetstream = async_nats::jetstream::new(client.clone());
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
        Ok(entry.as_ref().map(Head::of))
    }

    /// The version that was written last, and each one that is written from now on.
    pub(crate) async fn watch(&self) -> Result<kv::Watch, String> {
        self.versions.watch_with_history(KEY).await.map_err(|error| error.to_string())
    }

    /// The next one of them; none when it has to be begun anew.
    pub(crate) async fn next(watch: &mut kv::Watch) -> Option<Head> {
        watch.next().await?.ok().as_ref().map(Head::of)
    }

    /// All that is remembered, the oldest first.
    pub(crate) async fn history(&self) -> Result<Vec<Head>, String> {
        let mut entries = self.versions.history(KEY).await.map_err(|error| error.to_string())?;
        let mut all = Vec::new();
        while let Some(entry) = entries.next().await {
            all.push(Head::of(&entry.map_err(|error| error.to_string())?));
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
