//! The thread of a member: it follows the store, applies what comes, and says what has become of it.

use super::ack::{Ack, Outcome};
use super::cache::{Cache, Refused};
use super::plain::Plain;
use super::store::{self, Event, Head, Store};
use super::version::of_member;
use super::{Begun, Place, View};
use crate::failure::Failure;
use crate::logging::now;
use crate::reload::Reload;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

/// How often a member says that it is there.
pub(crate) const BEAT: Duration = Duration::from_secs(10);
/// Between two attempts to open the store.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it is looked whether time to confirm has run out.
const LOOK: Duration = Duration::from_millis(100);

/// A member; its thread ends when this is dropped.
pub(crate) struct Fleet {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Fleet {
    /// What is shown of a process that starts with this.
    pub(crate) fn view(begun: &Begun) -> Arc<View> {
        let view = View::default();
        let refused = begun.refused.as_ref();
        view.change(|shown| {
            shown.group.clone_from(&begun.place.group);
            shown.refused = refused.is_some().into();
            shown.offered = refused.map_or(begun.running.number, |refused| refused.number);
            shown.ack = Ack {
                number: shown.offered,
                outcome: if refused.is_some() { Outcome::Refused } else { Outcome::Applied },
                error: refused.map(|refused| refused.error.clone()).unwrap_or_default(),
                running: begun.running.number,
                digest: begun.running.digest.clone(),
                since: now(),
                program: env!("CARGO_PKG_VERSION").to_owned(),
            };
        });
        Arc::new(view)
    }

    /// Follows the store. The process is ready: what it was started with is good.
    pub(crate) fn start(
        begun: &Begun,
        reload: &Arc<Reload>,
        view: &Arc<View>,
    ) -> Result<Fleet, Failure> {
        begun.is_ready();
        if let Some(refused) = &begun.refused {
            let Refused { number, error, .. } = refused;
            tracing::error!(
                version = number,
                error,
                "a version of the configuration was refused at the start"
            );
        }
        tracing::info!(
            version = begun.running.number,
            group = begun.place.group,
            member = begun.place.member,
            "configuration of the fleet"
        );
        let (end, ends) = oneshot::channel();
        let member = Member {
            place: begun.place.clone(),
            cache: begun.cache.clone(),
            reload: reload.clone(),
            view: view.clone(),
            running: begun.running.clone(),
            waiting: None,
            seen: None,
        };
        let thread = std::thread::Builder::new()
            .name("fleet".to_owned())
            .spawn(move || member.run(ends))
            .map_err(|error| Failure::Bad(format!("--config: there is no thread: {error}")))?;
        Ok(Fleet { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Why a version was not applied.
enum Not {
    Refused(String),
    Restart(String),
}

struct Member {
    place: Place,
    cache: Cache,
    reload: Arc<Reload>,
    view: Arc<View>,
    /// What the process is.
    running: Plain,
    /// What it was before, while what it is waits for a confirmation.
    waiting: Option<Plain>,
    /// The revision that was looked at last.
    seen: Option<u64>,
}

impl Member {
    fn run(mut self, mut ends: oneshot::Receiver<()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return tracing::error!(%error, "the fleet's store is not followed"),
        };
        runtime.block_on(async {
            let (to, mut events) = unbounded_channel();
            let client = match store::member(&self.place, to).await {
                Ok(client) => client,
                Err(error) => return tracing::error!(error, "the fleet's store is not followed"),
            };
            let mut said = false;
            loop {
                let opened = async {
                    // Nothing is asked of a server that is away: each question would wait.
                    while !client.is_connected() {
                        self.wait(&mut events, &mut said, AGAIN).await;
                    }
                    Store::open(&client, &self.place.group).await
                };
                let opened = tokio::select! {
                    _ = &mut ends => return,
                    opened = opened => opened,
                };
                match opened {
                    Ok(opened) => {
                        if self.follow(&opened, &mut events, &mut said, &mut ends).await {
                            return;
                        }
                    }
                    Err(error) => self.fault(&mut said, &error),
                }
                tokio::select! {
                    _ = &mut ends => return,
                    () = self.wait(&mut events, &mut said, AGAIN) => {}
                }
            }
        });
        runtime.shutdown_timeout(Duration::from_millis(100));
    }

    /// Waits so long; takes what the client tells, and what becomes of a version that waits.
    async fn wait(
        &mut self,
        events: &mut UnboundedReceiver<Event>,
        said: &mut bool,
        span: Duration,
    ) {
        let until = tokio::time::Instant::now() + span;
        while tokio::time::Instant::now() < until {
            self.look();
            let least = until.min(tokio::time::Instant::now() + LOOK);
            if let Ok(Some(event)) = tokio::time::timeout_at(least, events.recv()).await {
                self.event(&event, said).await;
            }
        }
    }

    /// Says once in each outage what is wrong.
    fn fault(&self, said: &mut bool, error: &str) {
        if !std::mem::replace(said, true) {
            let version = self.running.number;
            tracing::warn!(error, version, "the fleet's store is away: goes on with what it has");
        }
    }

    /// Whether it is connected anew.
    async fn event(&self, event: &Event, said: &mut bool) -> bool {
        if event.is_there() {
            *said = false;
            self.view.change(|shown| shown.connected = true);
            tracing::info!("the fleet's store is there");
            return true;
        }
        if event.is_gone() {
            self.view.change(|shown| shown.connected = false);
            self.fault(said, "the server is gone");
        } else if let Some(why) = event.fault(&self.place.server).await {
            self.fault(said, &why);
        }
        false
    }

    /// Follows the store until it cannot; whether this is the end.
    async fn follow(
        &mut self,
        store: &Store,
        events: &mut UnboundedReceiver<Event>,
        said: &mut bool,
        ends: &mut oneshot::Receiver<()>,
    ) -> bool {
        let mut watch = match store.watch().await {
            Ok(watch) => watch,
            Err(error) => {
                self.fault(said, &error);
                return false;
            }
        };
        let mut beat = tokio::time::interval(BEAT);
        let mut look = tokio::time::interval(LOOK);
        loop {
            let head = tokio::select! {
                _ = &mut *ends => return true,
                head = Store::next(&mut watch) => match head {
                    Some(head) => head,
                    None => return false,
                },
                // What a watch has missed while the server was away is read.
                event = events.recv() => match event {
                    Some(event) if self.event(&event, said).await => match store.head().await {
                        Ok(Some(head)) => head,
                        _ => continue,
                    },
                    _ => continue,
                },
                _ = look.tick() => {
                    if self.look() {
                        self.say(store, said).await;
                    }
                    continue;
                }
                _ = beat.tick() => {
                    self.say(store, said).await;
                    continue;
                }
            };
            if self.seen == Some(head.revision) {
                continue;
            }
            self.seen = Some(head.revision);
            self.take(&head).await;
            self.say(store, said).await;
        }
    }

    async fn say(&self, store: &Store, said: &mut bool) {
        let ack = self.view.shown().ack;
        if let Err(error) = store.say(&self.place.member, &ack).await {
            self.fault(said, &error);
        }
    }

    /// Takes what the store holds.
    async fn take(&mut self, head: &Head) {
        let version = match &head.version {
            Ok(version) => version,
            Err(error) => {
                self.view.change(|shown| shown.damaged += 1);
                return tracing::error!(error, "what the fleet's store holds is no version");
            }
        };
        let offered = &version.version;
        self.view.change(|shown| shown.offered = offered.number);
        if *offered == self.running {
            if self.waiting.is_some() && version.waits.is_none() {
                self.confirmed().await;
            }
            return;
        }
        self.take_back();
        if *offered == self.running {
            return;
        }
        let known = self.cache.refused().filter(|refused| refused.digest == offered.digest);
        if let Some(refused) = known {
            return self.outcome(offered.number, Outcome::Refused, refused.error);
        }
        let within = match (&version.waits, head.waits()) {
            (Some(_), None) => {
                let why = "it came when the time to confirm was over".to_owned();
                return self.outcome(offered.number, Outcome::Lapsed, why);
            }
            (_, within) => within,
        };
        match self.apply(offered, within).await {
            Ok(changes) => {
                let before = std::mem::replace(&mut self.running, offered.clone());
                self.waiting = within.map(|_| before);
                let outcome = match within {
                    Some(_) => Outcome::Waits,
                    None => {
                        self.good();
                        Outcome::Applied
                    }
                };
                tracing::info!(
                    version = offered.number,
                    changes,
                    by = offered.by,
                    "configuration of the fleet {}",
                    outcome.word()
                );
                self.outcome(offered.number, outcome, String::new());
            }
            Err(Not::Restart(settings)) => {
                let why = match within {
                    None => format!("{settings} change with a restart: restart this member"),
                    Some(_) => format!(
                        "{settings} change with a restart, which takes confirmed versions alone"
                    ),
                };
                tracing::warn!(
                    version = offered.number,
                    why,
                    "configuration of the fleet not applied"
                );
                self.outcome(offered.number, Outcome::Restart, why);
            }
            Err(Not::Refused(why)) => {
                tracing::error!(
                    version = offered.number,
                    why,
                    "configuration of the fleet refused"
                );
                let (number, digest) = (offered.number, offered.digest.clone());
                let kept = self.cache.keep_refused(&Refused { number, digest, error: why.clone() });
                if let Err(error) = kept {
                    tracing::warn!(error, "a refused configuration is not kept");
                }
                self.outcome(offered.number, Outcome::Refused, why);
            }
        }
    }

    /// Applies a version as one transaction: the number of its changes, or why it was not.
    async fn apply(&self, version: &Plain, within: Option<Duration>) -> Result<usize, Not> {
        let refused = |why: String| Not::Refused(why);
        let (text, _) = of_member(&version.text, &self.place.member).map_err(refused)?;
        let (number, tried) = (version.number, self.cache.tried(version.number));
        self.cache.put(&format!("version-{number}.toml"), text.as_bytes()).map_err(refused)?;
        let (reload, file) = (self.reload.clone(), tried.clone());
        let applied = tokio::task::spawn_blocking(move || {
            let plan = reload.plan(Some(&file)).map_err(Not::Refused)?;
            if !plan.restart.is_empty() {
                return Err(Not::Restart(plan.restart.join(", ")));
            }
            reload.apply(Some(&file), within).map_err(Not::Refused)
        });
        let applied = applied.await.map_err(|error| Not::Refused(error.to_string()))?;
        match &applied {
            Ok(_) if within.is_none() => self.cache.came_to(number, "current.toml"),
            // Until it is confirmed, a start takes what was before.
            Ok(_) => {}
            Err(Not::Refused(_)) => self.cache.came_to(number, "refused.toml"),
            Err(Not::Restart(_)) => drop(std::fs::remove_file(tried)),
        }
        applied.map(|applied| applied.changes.len())
    }

    /// What runs is good: the next start may take it where the store is away.
    fn good(&self) {
        if let Err(error) = self.cache.keep_good(&self.running) {
            tracing::warn!(error, "the last good configuration is not kept");
        }
    }

    /// Somebody has confirmed what runs.
    async fn confirmed(&mut self) {
        let number = self.running.number;
        if self.reload.confirm().is_ok() {
            self.waiting = None;
            self.cache.came_to(number, "current.toml");
            self.good();
            tracing::info!(version = number, "configuration of the fleet confirmed");
            return self.outcome(number, Outcome::Applied, String::new());
        }
        // Time has run out a moment ago: it is applied anew.
        let Some(before) = self.waiting.take() else { return };
        let version = std::mem::replace(&mut self.running, before);
        match self.apply(&version, None).await {
            Ok(_) => {
                self.running = version;
                self.good();
                self.outcome(number, Outcome::Applied, String::new());
            }
            Err(Not::Refused(why) | Not::Restart(why)) => {
                self.outcome(number, Outcome::Refused, why);
            }
        }
    }

    /// What waits for a confirmation is undone, since something else has come.
    fn take_back(&mut self) {
        let Some(before) = self.waiting.take() else { return };
        // It fails where time has run out a moment ago.
        let _ = self.reload.rollback();
        let version = std::mem::replace(&mut self.running, before).number;
        drop(std::fs::remove_file(self.cache.tried(version)));
        self.outcome(self.running.number, Outcome::Applied, String::new());
    }

    /// Looks whether time has run out; whether it has.
    fn look(&mut self) -> bool {
        if self.waiting.is_none() || self.reload.waits() {
            return false;
        }
        let Some(before) = self.waiting.take() else { return false };
        let version = std::mem::replace(&mut self.running, before).number;
        drop(std::fs::remove_file(self.cache.tried(version)));
        tracing::warn!(version, "configuration of the fleet not confirmed: rolled back");
        self.outcome(version, Outcome::Lapsed, "nobody has confirmed it in time".to_owned());
        true
    }

    fn outcome(&self, number: u64, outcome: Outcome, error: String) {
        self.view.change(|shown| {
            match outcome {
                Outcome::Applied => shown.applied += 1,
                Outcome::Refused | Outcome::Restart => shown.refused += 1,
                Outcome::Lapsed => shown.lapsed += 1,
                Outcome::Waits => {}
            }
            let Plain { number: running, digest, .. } = &self.running;
            let program = shown.ack.program.clone();
            let digest = digest.clone();
            shown.ack =
                Ack { number, outcome, error, running: *running, digest, since: now(), program };
        });
    }
}
