//! NATS as the engine: the stream over its core, the store in JetStream's key-value store.
//!
//! Messages go by the subject `millrace.GROUP`. The store is the bucket `millrace-GROUP`, whose key `owner` names the active member; of a
//! share, `owner.SHARE` does. Where ports have a pool, `stripes` and `stripes.SHARE` say who has claimed what. A server
//! without JetStream carries the stream all the same: what the store would settle is then settled by heartbeats alone, and that
//! is said.
//!
//! Bounded: so many messages wait for the server at most ([`WAITING`]); what comes beyond is lost, and standbys notice.

use super::engine::{Brought, Engine};
use crate::config::group::{Server, Settings};
use crate::nats::AGAIN;
use async_nats::jetstream::kv;
use async_nats::{Client, ConnectOptions, Event, connection::State};
use replication::Owner;
use replication::pool::Claims;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_stream::StreamExt;

/// Messages that wait for the server, at most.
const WAITING: usize = 256;
/// Between two attempts to reach the store.
const STORE_AGAIN: Duration = Duration::from_secs(1);

/// What the store holds of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Owner,
    Claims,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Owner, Kind::Claims];

    fn word(self) -> &'static str {
        match self {
            Kind::Owner => "owner",
            Kind::Claims => "stripes",
        }
    }

    /// What is told of a value; nothing of claims that nobody has written so: what is known of them stays.
    fn stored(self, share: &str, revision: u64, value: Option<&[u8]>) -> Option<Brought> {
        let share = share.to_owned();
        Some(match (self, value) {
            (Kind::Owner, value) => Brought::Stored(share, revision, value.and_then(Owner::decode)),
            (Kind::Claims, None) => Brought::Claims(share, revision, None),
            (Kind::Claims, Some(value)) => match Claims::decode(value) {
                Some(claims) => Brought::Claims(share, revision, Some(claims)),
                None => {
                    tracing::warn!(share, revision, "the store's claims of stripes are none");
                    return None;
                }
            },
        })
    }

    fn not_written(self, share: Option<String>) -> Brought {
        match self {
            Kind::Owner => Brought::NotWritten(share),
            Kind::Claims => Brought::NotClaimed(share),
        }
    }
}

/// What is to be written: of which share, over which revision.
struct Write {
    kind: Kind,
    share: String,
    revision: u64,
    value: String,
}

enum Out {
    Message(Vec<u8>),
    Write(Write),
}

/// The shares, and what the store holds of each.
struct Keys {
    shares: Vec<String>,
    kinds: &'static [Kind],
}

/// The key of a share.
fn key(kind: Kind, share: &str) -> String {
    let word = kind.word();
    if share.is_empty() { word.to_owned() } else { format!("{word}.{share}") }
}

/// The share of a key, and what it holds; none of a key that is another's.
fn share(key: &str) -> Option<(Kind, &str)> {
    let (word, share) = key.split_once('.').unwrap_or((key, ""));
    Kind::ALL.into_iter().find(|kind| kind.word() == word).map(|kind| (kind, share))
}

/// A client of NATS; it ends when this is dropped.
pub(crate) struct Nats {
    out: Sender<Out>,
}

impl Engine for Nats {
    fn publish(&self, octets: Vec<u8>) -> bool {
        self.out.try_send(Out::Message(octets)).is_ok()
    }

    fn has_room(&self) -> bool {
        self.out.capacity() > WAITING / 2
    }

    fn write(&self, share: &str, revision: u64, owner: Owner) {
        // Without room the write is asked for again, when the store has said something.
        let (kind, share, value) = (Kind::Owner, share.to_owned(), owner.encode());
        let _ = self.out.try_send(Out::Write(Write { kind, share, revision, value }));
    }

    fn claim(&self, share: &str, revision: u64, claims: Claims) {
        let (kind, share, value) = (Kind::Claims, share.to_owned(), claims.encode());
        let _ = self.out.try_send(Out::Write(Write { kind, share, revision, value }));
    }
}

/// Reaches for the servers, again and again; in a runtime of tokio. What it brings goes to `to`.
pub(crate) async fn start(settings: &Settings, to: Sender<Brought>) -> Result<Nats, String> {
    let options = options(&settings.server, &to)?;
    let client = options
        .connect(settings.server.urls.clone())
        .await
        .map_err(|error| format!("server={}: {error}", settings.server.urls.join(",")))?;
    let (out, waiting) = channel(WAITING);
    tokio::spawn(receive(client.clone(), settings.group.clone(), to.clone()));
    let shares = match &settings.shares[..] {
        [] => vec![String::new()],
        shares => shares.iter().map(|share| share.name.clone()).collect(),
    };
    let kinds = if settings.pool { &Kind::ALL[..] } else { &Kind::ALL[..1] };
    tokio::spawn(send(client, settings.group.clone(), Keys { shares, kinds }, waiting, to));
    Ok(Nats { out })
}

fn options(server: &Server, to: &Sender<Brought>) -> Result<ConnectOptions, String> {
    let (to, said) = (to.clone(), Arc::new(AtomicBool::new(false)));
    let reached = Arc::new(server.clone());
    Ok(crate::nats::options(server)?
        .no_echo()
        .retry_on_initial_connect()
        .subscription_capacity(64 << 10)
        .event_callback(move |event| {
            let (to, said, reached) = (to.clone(), said.clone(), reached.clone());
            async move {
                let brought = match event {
                    Event::Connected => {
                        said.store(false, Ordering::Relaxed);
                        Brought::Connected(true)
                    }
                    Event::Disconnected | Event::Closed => Brought::Connected(false),
                    Event::SlowConsumer(_) => {
                        tracing::warn!("messages of the group came faster than they were applied");
                        return;
                    }
                    other => {
                        let Some(why) = crate::nats::fault(&reached, &other).await else { return };
                        // Once in each outage: it is tried ten times a second.
                        if !said.swap(true, Ordering::Relaxed) {
                            tracing::warn!(why, "the engine of the group");
                        }
                        Brought::Fault(why)
                    }
                };
                let _ = to.send(brought).await;
            }
        }))
}

/// What others publish.
async fn receive(client: Client, group: String, to: Sender<Brought>) {
    loop {
        let Ok(mut messages) = client.subscribe(format!("millrace.{group}")).await else { return };
        while let Some(message) = messages.next().await {
            if to.send(Brought::Message(message.payload.to_vec())).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// What this member publishes and writes.
async fn send(
    client: Client,
    group: String,
    keys: Keys,
    mut waiting: Receiver<Out>,
    to: Sender<Brought>,
) {
    let subject = async_nats::Subject::from(format!("millrace.{group}"));
    let (writes, asked) = channel((keys.shares.len() * keys.kinds.len()).max(4));
    tokio::spawn(store(client.clone(), group, keys, asked, to.clone()));
    while let Some(out) = waiting.recv().await {
        match out {
            // What waits while the server is away is old when it comes back.
            Out::Message(_) if client.connection_state() != State::Connected => {}
            Out::Message(octets) => {
                let _ = client.publish(subject.clone(), octets.into()).await;
            }
            Out::Write(write) => {
                let not = write.kind.not_written(Some(write.share.clone()));
                if writes.try_send(write).is_err() {
                    let _ = to.send(not).await;
                }
            }
        }
    }
}

/// The store: followed, and written.
async fn store(
    client: Client,
    group: String,
    keys: Keys,
    mut asked: Receiver<Write>,
    to: Sender<Brought>,
) {
    let mut said = false;
    loop {
        let bucket = match bucket(&client, &group).await {
            Ok(bucket) => bucket,
            Err(error) => {
                if !std::mem::replace(&mut said, true) {
                    tracing::warn!(
                        error,
                        "the group has no store: heartbeats alone say who is active; start nats-server with -js"
                    );
                }
                while asked.try_recv().is_ok() {}
                for kind in keys.kinds {
                    if to.send(kind.not_written(None)).await.is_err() {
                        return;
                    }
                }
                tokio::time::sleep(STORE_AGAIN).await;
                continue;
            }
        };
        said = false;
        if !follow(&bucket, &keys, &mut asked, &to).await {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn bucket(client: &Client, group: &str) -> Result<kv::Store, String> {
    let jetstream = async_nats::jetstream::new(client.clone());
    let name = format!("millrace-{group}");
    if let Ok(bucket) = jetstream.get_key_value(&name).await {
        return Ok(bucket);
    }
    let config = kv::Config { bucket: name, history: 1, ..kv::Config::default() };
    jetstream.create_key_value(config).await.map_err(|error| error.to_string())
}

/// Tells what the store holds until it cannot; false if nobody listens any more.
async fn follow(
    bucket: &kv::Store,
    keys: &Keys,
    asked: &mut Receiver<Write>,
    to: &Sender<Brought>,
) -> bool {
    let Ok(mut watch) = bucket.watch_all().await else { return true };
    // What was there before the watch began.
    for share in &keys.shares {
        for kind in keys.kinds {
            if !tell(bucket, *kind, share, to).await {
                return !to.is_closed();
            }
        }
    }
    loop {
        tokio::select! {
            entry = watch.next() => match entry {
                Some(Ok(entry)) => {
                    let Some((kind, share)) = share(&entry.key) else { continue };
                    let stored = kind.stored(share, entry.revision, Some(&entry.value));
                    if let Some(stored) = stored
                        && to.send(stored).await.is_err()
                    {
                        return false;
                    }
                }
                Some(Err(_)) | None => return true,
            },
            write = asked.recv() => {
                let Some(Write { kind, share, revision, value }) = write else { return false };
                let octets = value.clone().into_bytes();
                match bucket.update(key(kind, &share), value.into(), revision).await {
                    Ok(revision) => {
                        if let Some(stored) = kind.stored(&share, revision, Some(&octets))
                            && to.send(stored).await.is_err()
                        {
                            return false;
                        }
                    }
                    Err(_) => {
                        if to.send(kind.not_written(Some(share.clone()))).await.is_err() {
                            return false;
                        }
                        if !tell(bucket, kind, &share, to).await {
                            return !to.is_closed();
                        }
                    }
                }
            }
        }
    }
}

/// Reads what the store holds of a share and tells it; false if it cannot be read, or nobody listens.
async fn tell(bucket: &kv::Store, kind: Kind, share: &str, to: &Sender<Brought>) -> bool {
    match bucket.entry(key(kind, share)).await {
        Ok(entry) => {
            let revision = entry.as_ref().map_or(0, |entry| entry.revision);
            let value = entry.as_ref().map(|entry| &entry.value[..]);
            match kind.stored(share, revision, value) {
                Some(stored) => to.send(stored).await.is_ok(),
                None => true,
            }
        }
        Err(error) => {
            tracing::debug!(%error, "the store cannot be read");
            false
        }
    }
}
