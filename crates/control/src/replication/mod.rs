//! Replication: this switch as a member of a group, of which one forwards and the others can go on at any time.
//!
//! In: `--replication` ([`group`](crate::config::group)), the bridges of the process. Out: connections of all trackers, told to the others or copied from
//! the active member; the gate of all bridges; frames that move addresses. The rules are the crate [`replication`]'s.
//!
//! | module | is |
//! |---|---|
//! | [`engine`] | what carries the stream and keeps the store; [`nats`] is one, and [`absent`] stands for it in a build without |
//! | [`links`] | heartbeats, and sockets that close |
//! | [`witness`] | sockets that say when this process has ended, with [`own_files`] |
//! | [`lease`] | until when connections are opened here |
//! | [`notify`] | a program that is told of roles |
//! | [`copy`] | trackers: followed, or a copy |
//! | [`balancers`] | balancers' backends, and flows that their table does not know |
//! | [`address`] | frames by which a network learns where an address is |
//! | [`registers`] | registers of P4 programs |
//! | [`share`] | a share: its copy, who wants what, its addresses |
//! | [`run`] | the thread |
//!
//! Checked by: the tests of its modules; `lab/ha`, with two switches, a broker and traffic in namespaces; the crate's simulation.

#[cfg(not(feature = "replication-nats"))]
mod absent;
mod address;
mod balancers;
mod copy;
mod engine;
mod lease;
mod links;
#[cfg(feature = "replication-nats")]
mod nats;
mod notify;
mod own_files;
mod registers;
mod run;
mod share;
mod witness;

use crate::bridges::Bridges;
use crate::config::group::Settings;
use crate::failure::Failure;
use crate::group::{Counts, Group, Shown};
use crate::sync::lock;
use copy::Copy;
use share::Share;
use std::sync::mpsc::{Sender as Answer, channel as answer};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};

/// A question waits so long for its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Who looks waits so long, and then gets what was shown last.
const GLANCE: Duration = Duration::from_millis(200);

/// What is asked of a member.
enum Asked {
    Promote(Option<String>, Answer<Result<(), String>>),
    Demote(Option<String>, Answer<Result<(), String>>),
    Drain(Option<String>, Answer<Result<String, String>>),
    Rebalance(Answer<Result<(), String>>),
    Forget(String, Answer<Result<(), String>>),
    /// Shows what is known.
    Show(Answer<()>),
    End,
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
        if cfg!(not(feature = "replication-nats")) {
            return Err(Failure::Usage(format!("--replication: {}", crate::nats::ABSENT)));
        }
        let bound = links::bind(settings).map_err(Failure::Bad)?;
        let shares = shares(settings, bridges);
        let shown = shown(settings).map_err(Failure::Bad)?;
        let shown = Arc::new(Mutex::new(shown));
        let runner = run::Runner::new(settings.clone(), bridges.clone(), shares, shown.clone());
        let runner = runner.map_err(Failure::Bad)?;
        let (ask, asked) = channel(16);
        let thread = std::thread::Builder::new()
            .name("replication".to_owned())
            .spawn(move || runner.run(bound, asked))
            .map_err(|error| Failure::Bad(format!("--replication: there is no thread: {error}")))?;
        Ok(Arc::new(Replication { ask, shown, thread: Mutex::new(Some(thread)) }))
    }

    fn asks<T>(&self, what: impl FnOnce(Answer<Result<T, String>>) -> Asked) -> Result<T, String> {
        let (to, from) = answer();
        let busy = || "the member does not answer: see the log".to_owned();
        self.ask.try_send(what(to)).map_err(|_| busy())?;
        from.recv_timeout(PATIENCE).map_err(|_| busy())?
    }
}

/// A standby's copies, one of each share.
fn shares(settings: &Settings, bridges: &Bridges) -> Vec<Share> {
    match &settings.shares[..] {
        [] => {
            let copy = Copy::standby(bridges, None).older_than(settings.min_age);
            let copy = copy.with_registers(&settings.registers);
            vec![Share::new(copy, settings.addresses.clone())]
        }
        shares => shares
            .iter()
            .map(|share| {
                let copy = Copy::standby(bridges, Some(share.services.clone()));
                let copy = copy.older_than(settings.min_age);
                Share::new(copy, share.addresses.clone())
            })
            .collect(),
    }
}

/// What is shown before anything is known.
fn shown(settings: &Settings) -> Result<Shown, String> {
    let (group, member) = (settings.group.clone(), settings.member.clone());
    let members = settings.members(0, 0).map_err(|why| why.to_string())?;
    Ok(Shown {
        group,
        member,
        views: members.all().iter().map(|member| member.view(0)).collect(),
        drained: vec![false; members.all().len()],
        missing: vec![Vec::new(); members.all().len()],
        stripes: vec![None; members.all().len()],
        counts: Counts::default(),
    })
}

impl Group for Replication {
    fn shown(&self) -> Shown {
        // A thread that stands still keeps nobody from looking.
        let (to, from) = answer();
        if self.ask.try_send(Asked::Show(to)).is_ok() {
            let _ = from.recv_timeout(GLANCE);
        }
        lock(&self.shown).clone()
    }

    fn promote(&self, share: Option<String>) -> Result<(), String> {
        self.asks(|to| Asked::Promote(share, to))
    }

    fn demote(&self, share: Option<String>) -> Result<(), String> {
        self.asks(|to| Asked::Demote(share, to))
    }

    fn drain(&self, share: Option<String>) -> Result<String, String> {
        self.asks(|to| Asked::Drain(share, to))
    }

    fn rebalance(&self) -> Result<(), String> {
        self.asks(Asked::Rebalance)
    }

    fn forget(&self, member: String) -> Result<(), String> {
        self.asks(|to| Asked::Forget(member, to))
    }

    fn stop(&self) {
        if self.ask.try_send(Asked::End).is_ok()
            && let Some(thread) = lock(&self.thread).take()
        {
            let _ = thread.join();
        }
    }
}
