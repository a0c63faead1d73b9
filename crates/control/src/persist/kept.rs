//! A bridge's journal: opened, put back, begun, handed over.

use super::openflow::{self, Keeping, Whole};
use super::place::Place;
use crate::failure::Failure;
use crate::sync::lock;
use journal::{Journal, Restored, Source, Status};
use of_pipeline::Agent;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Whom a folder of OpenFlow's entries is written for.
const OPENFLOW: &str = "OpenFlow";
/// A process that hands over may need so long to let go of its folder.
const HELD_MAX: Duration = Duration::from_secs(5);
const HELD_PAUSE: Duration = Duration::from_millis(10);

/// A journal that was opened, and what it held.
pub(crate) struct Opened {
    journal: Journal,
    restored: Restored,
}

/// The journal of a bridge that runs.
#[derive(Clone)]
pub(crate) struct Kept {
    journal: Journal,
    agent: Arc<Mutex<Agent>>,
}

fn failure(error: journal::Error) -> Failure {
    Failure::Bad(format!("--persist: {error}"))
}

impl Opened {
    /// Opens the folder of a bridge, and reads it.
    pub(crate) fn open(place: &Place, bridge: &str) -> Result<Opened, Failure> {
        let folder = place.of_bridge(bridge);
        let (journal, restored) = Journal::open(&folder, OPENFLOW, place.sync).map_err(failure)?;
        Ok(Opened { journal, restored })
    }

    /// The same, where another process is about to let go of it.
    pub(crate) fn open_after(place: &Place, bridge: &str) -> Result<Opened, Failure> {
        let began = Instant::now();
        loop {
            let folder = place.of_bridge(bridge);
            match Journal::open(&folder, OPENFLOW, place.sync) {
                Ok((journal, restored)) => return Ok(Opened { journal, restored }),
                Err(journal::Error::InUse { .. }) if began.elapsed() < HELD_MAX => {
                    std::thread::sleep(HELD_PAUSE);
                }
                Err(error) => return Err(failure(error)),
            }
        }
    }

    /// Nothing was kept there before.
    pub(crate) fn is_fresh(&self) -> bool {
        self.restored.fresh
    }

    /// Puts what was kept into an agent that has nothing yet.
    pub(crate) fn put_back(&mut self, agent: &Mutex<Agent>) -> Result<(), Failure> {
        let folder = self.journal.folder().display().to_string();
        if let Some(cut) = &self.restored.cut {
            tracing::warn!(
                folder, good = cut.good, bytes = cut.bytes, kept = %cut.file.display(),
                "the log's end cannot be read, as after a loss of power; what is before it is put back"
            );
        }
        let map = std::mem::take(&mut self.restored.map);
        let told = openflow::put_back(&mut lock(agent), &map)
            .map_err(|why| Failure::Bad(format!("--persist: {folder}: {why}")))?;
        tracing::info!(
            folder,
            records = self.restored.records,
            flows = told.flows,
            groups = told.groups,
            meters = told.meters,
            timed_out = told.timed_out,
            "what was kept is put back; --flows, --groups and --meters are not read"
        );
        Ok(())
    }

    /// Keeps all that changes from now on.
    pub(crate) fn begin(self, agent: &Arc<Mutex<Agent>>) -> Result<Kept, Failure> {
        let Opened { journal, .. } = self;
        let source = Whole(Arc::downgrade(agent));
        let mut held = lock(agent);
        let whole = openflow::whole(&held);
        journal.begin(&whole, Box::new(source)).map_err(failure)?;
        let writes = journal.clone();
        held.set_keeper(Box::new(Keeping::new(journal.clone())), Arc::new(move || writes.flush()));
        drop(held);
        Ok(Kept { journal, agent: agent.clone() })
    }
}

impl Kept {
    /// What the journal says of itself.
    pub(crate) fn status(&self) -> Status {
        self.journal.status()
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> String {
        self.journal.folder().display().to_string()
    }

    /// All that was changed so far is written.
    pub(crate) fn flush(&self) {
        self.journal.flush();
    }

    /// Nothing is kept from now on, and another process may have the folder.
    pub(crate) fn close(&self) {
        self.journal.close();
    }

    /// Has the folder again.
    pub(crate) fn reopen(&self) {
        let source = Whole(Arc::downgrade(&self.agent));
        let began = Instant::now();
        loop {
            match self.journal.reopen(&source as &dyn Source) {
                Ok(()) => return,
                Err(journal::Error::InUse { .. }) if began.elapsed() < HELD_MAX => {
                    std::thread::sleep(HELD_PAUSE);
                }
                Err(error) => {
                    tracing::error!(%error, "changes are not kept over a restart");
                    return;
                }
            }
        }
    }

    /// The bridge is gone for good: so is what was kept of it.
    pub(crate) fn forget(&self) {
        self.journal.close();
        if let Err(error) = std::fs::remove_dir_all(self.journal.folder()) {
            tracing::warn!(folder = self.folder(), %error, "a removed bridge's folder stays");
        }
    }
}
