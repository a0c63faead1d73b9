//! Replication: this switch as a member of a group, of which one forwards and the others can go on at any time.
//!
//! In: `--replication` ([`settings`]), the bridges of the process. Out: connections of all trackers, told to the others or copied from
//! the active member; the gate of all bridges; frames that move addresses. The rules are the crate [`replication`]'s.
//!
//! | module | is |
//! |---|---|
//! | [`settings`] | what the option says |
//! | [`engine`] | what carries the stream and keeps the store; [`nats`] is one |
//! | [`links`] | heartbeats, and sockets that close |
//! | [`copy`] | trackers: followed, or a copy |
//! | [`address`] | frames by which a network learns where an address is |
//! | [`run`] | the thread |
//!
//! Checked by: the tests of its modules; `lab/ha`, with two switches, a broker and traffic in namespaces; the crate's simulation.

mod address;
mod copy;
mod engine;
mod links;
mod nats;
mod run;
pub(crate) mod settings;

use crate::bridges::Bridges;
use crate::failure::Failure;
use crate::sync::lock;
use copy::Copy;
use replication::{Role, Store, View};
use settings::Settings;
use std::collections::BTreeMap;
use std::sync::mpsc::{Sender as Answer, channel as answer};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};

/// A question waits so long for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is asked of a member.
enum Asked {
    Promote(Answer<Result<(), String>>),
    Demote(Answer<Result<(), String>>),
    Drain(Answer<Result<String, String>>),
    End,
}

/// What has happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// Heartbeats heard.
    pub(crate) beats: u64,
    /// Messages brought, and their octets.
    pub(crate) messages: u64,
    pub(crate) octets: u64,
    /// Messages that were none.
    pub(crate) damaged: u64,
    /// Messages sent, their octets, and those that the engine did not take.
    pub(crate) sent: u64,
    pub(crate) sent_octets: u64,
    pub(crate) unsent: u64,
    /// How often more had changed than there was room for.
    pub(crate) full: u64,
    /// Between a message's being sent and its being taken, by the two clocks.
    pub(crate) lag_ns: u64,
    /// Records told, and applied.
    pub(crate) told: u64,
    pub(crate) applied: u64,
    /// Records for trackers that are not here, records that were none, connections without room.
    pub(crate) unknown: u64,
    pub(crate) refused: u64,
    pub(crate) no_room: u64,
    /// Promotions and demotions, by reason.
    pub(crate) promotions: BTreeMap<&'static str, u64>,
    pub(crate) demotions: BTreeMap<&'static str, u64>,
}

impl Counts {
    fn promoted(&mut self, reason: &'static str) {
        *self.promotions.entry(reason).or_default() += 1;
    }

    fn demoted(&mut self, reason: &'static str) {
        *self.demotions.entry(reason).or_default() += 1;
    }
}

/// What people are shown.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) group: String,
    pub(crate) member: String,
    pub(crate) view: View,
    pub(crate) counts: Counts,
}

/// This process as a member.
pub(crate) struct Replication {
    ask: Sender<Asked>,
    shown: Arc<Mutex<Shown>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Replication {
    /// Becomes a standby at once: when this returns, no frame passes. The thread decides what it is from then on.
    pub(crate) fn start(
        settings: &Settings,
        bridges: &Bridges,
    ) -> Result<Arc<Replication>, Failure> {
        let bound = links::bind(settings).map_err(Failure::Bad)?;
        let copy = Copy::standby(bridges);
        let view = View {
            role: Role::Standby,
            epoch: 0,
            protected: false,
            synced: false,
            seq: 0,
            gaps: 0,
            stale: 0,
            store: Store::default(),
            peers: Vec::new(),
        };
        let (group, member) = (settings.group.clone(), settings.member.clone());
        let shown = Shown { group, member, view, counts: Counts::default() };
        let shown = Arc::new(Mutex::new(shown));
        let runner = run::Runner::new(settings.clone(), bridges.clone(), copy, shown.clone());
        let runner = runner.map_err(Failure::Bad)?;
        let (ask, asked) = channel(16);
        let thread = std::thread::Builder::new()
            .name("replication".to_owned())
            .spawn(move || runner.run(bound, asked))
            .map_err(|error| Failure::Bad(format!("--replication: there is no thread: {error}")))?;
        Ok(Arc::new(Replication { ask, shown, thread: Mutex::new(Some(thread)) }))
    }

    /// What is known of the group.
    pub(crate) fn shown(&self) -> Shown {
        lock(&self.shown).clone()
    }

    fn asks<T>(&self, what: impl FnOnce(Answer<Result<T, String>>) -> Asked) -> Result<T, String> {
        let (to, from) = answer();
        let busy = || "the member does not answer: see the log".to_owned();
        self.ask.try_send(what(to)).map_err(|_| busy())?;
        from.recv_timeout(PATIENCE).map_err(|_| busy())?
    }

    /// It forwards, whoever else does.
    pub(crate) fn promote(&self) -> Result<(), String> {
        self.asks(Asked::Promote)
    }

    /// It forwards no more, whoever else does, until it is told to.
    pub(crate) fn demote(&self) -> Result<(), String> {
        self.asks(Asked::Demote)
    }

    /// It hands over, and says to whom.
    pub(crate) fn drain(&self) -> Result<String, String> {
        self.asks(Asked::Drain)
    }

    /// It hands over if it can, and ends.
    pub(crate) fn stop(&self) {
        if self.ask.try_send(Asked::End).is_ok()
            && let Some(thread) = lock(&self.thread).take()
        {
            let _ = thread.join();
        }
    }
}
