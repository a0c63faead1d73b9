//! A bridge's journal: opened, put back, begun, handed over.

use super::openflow::{self, Keeping, Whole};
use super::p4;
use super::place::Place;
use crate::failure::Failure;
use crate::sync::lock;
use journal::{Journal, Restored, Source, Status};
use of_pipeline::Agent;
use p4_runtime::device::{Device, KeptPipeline};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Whom a folder is written for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// OpenFlow's entries.
    OpenFlow,
    /// A P4 program's.
    P4,
}

impl Owner {
    fn word(self) -> &'static str {
        match self {
            Owner::OpenFlow => "OpenFlow",
            Owner::P4 => "a P4 program",
        }
    }
}

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
pub struct Kept {
    journal: Journal,
    /// Who knows all that there is.
    source: Arc<dyn Fn() -> Box<dyn Source> + Send + Sync>,
}

fn failure(error: journal::Error) -> Failure {
    Failure::Bad(format!("--persist: {error}"))
}

impl Opened {
    /// Opens the folder of a bridge, and reads it.
    pub(crate) fn open(place: &Place, bridge: &str, owner: Owner) -> Result<Opened, Failure> {
        let folder = place.of_bridge(bridge);
        let opened = Journal::open(&folder, owner.word(), place.sync);
        let (journal, restored) = opened.map_err(failure)?;
        Ok(Opened { journal, restored })
    }

    /// The same, where another process is about to let go of it.
    pub(crate) fn open_after(place: &Place, bridge: &str, owner: Owner) -> Result<Opened, Failure> {
        let began = Instant::now();
        loop {
            let folder = place.of_bridge(bridge);
            match Journal::open(&folder, owner.word(), place.sync) {
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

    fn tell_cut(&self, folder: &str) {
        if let Some(cut) = &self.restored.cut {
            tracing::warn!(
                folder, good = cut.good, bytes = cut.bytes, kept = %cut.file.display(),
                "the log's end cannot be read, as after a loss of power; what is before it is put back"
            );
        }
    }

    /// Puts what was kept into an agent that has nothing yet.
    pub(crate) fn put_back(&mut self, agent: &Mutex<Agent>) -> Result<(), Failure> {
        let folder = self.journal.folder().display().to_string();
        self.tell_cut(&folder);
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

    /// The P4 program that was kept has to be the one that the process is started with, unless a client has pushed it.
    pub(crate) fn check_program(&self, file: &Path, text: &str) -> Result<(), Failure> {
        let kept = KeptPipeline::of(&self.restored.map).map_err(|e| Failure::Bad(e.text))?;
        let other = kept.filter(|kept| kept.config.p4_device_config != text.as_bytes());
        match other.map(|kept| kept.started) {
            None => Ok(()),
            Some(false) => {
                tracing::warn!(
                    file = %file.display(),
                    "the program of the file is not used: one that was pushed or loaded since is kept"
                );
                Ok(())
            }
            Some(true) => Err(Failure::Bad(format!(
                "--persist: {} has the entries of another program than {} is now; start with that one, or move the \
                 folder away to begin without its entries",
                self.journal.folder().display(),
                file.display()
            ))),
        }
    }

    /// Puts what was kept into a device that nobody has written to.
    pub(crate) fn put_back_p4(&mut self, device: &Device) -> Result<(), Failure> {
        let folder = self.journal.folder().display().to_string();
        self.tell_cut(&folder);
        let map = std::mem::take(&mut self.restored.map);
        let told = device.put_back(&map);
        let told = told.map_err(|e| Failure::Bad(format!("--persist: {folder}: {}", e.text)))?;
        tracing::info!(
            folder,
            records = self.restored.records,
            pipeline = told.pipeline,
            entities = told.entities,
            "what was kept is put back; --entries is not read"
        );
        Ok(())
    }

    /// Keeps all that changes in a device from now on.
    pub(crate) fn begin_p4(self, device: &Arc<Device>) -> Result<Kept, Failure> {
        let Opened { journal, .. } = self;
        let of = Arc::downgrade(device);
        device.keep(|image| {
            let source = Box::new(p4::Whole(of.clone()));
            journal.begin(&p4::record(image), source).map_err(failure)?;
            let writes = journal.clone();
            let keeper = p4::Keeping::new(journal.clone());
            Ok::<_, Failure>((Box::new(keeper) as _, Arc::new(move || writes.flush()) as _))
        })?;
        Ok(Kept { journal, source: Arc::new(move || Box::new(p4::Whole(of.clone()))) })
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
        let of = Arc::downgrade(agent);
        Ok(Kept { journal, source: Arc::new(move || Box::new(Whole(of.clone()))) })
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
        let source = (self.source)();
        let began = Instant::now();
        loop {
            match self.journal.reopen(&*source) {
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
