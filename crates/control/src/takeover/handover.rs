//! How far the running process has come in handing over.

use crate::sync::lock;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::Duration;

/// Each waits for the other so long at the end, at most.
const PARTING: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nobody has asked.
    Own,
    /// Somebody is taking over.
    Asked,
    /// Packets stop here; the process is to free its control socket and end.
    Ending,
    /// It has freed it.
    Freed,
    /// The new one was told, or is gone.
    Told,
}

/// The running process's part.
pub(crate) struct Handover {
    phase: Mutex<Phase>,
    changed: Condvar,
    /// Ends the process's wait.
    wake: UnixStream,
    /// What is to be done once there is no way back, before the process ends.
    at_the_end: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Where the control socket is, once it is served.
    ctl: OnceLock<PathBuf>,
}

impl Handover {
    /// Nobody has asked yet. What is written to `wake` ends the process's wait.
    pub(crate) fn new(wake: UnixStream) -> Handover {
        Handover {
            phase: Mutex::new(Phase::Own),
            changed: Condvar::new(),
            wake,
            at_the_end: Mutex::new(None),
            ctl: OnceLock::new(),
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        *lock(&self.phase) = phase;
        self.changed.notify_all();
    }

    pub(crate) fn wait_for(&self, wanted: Phase) {
        let waits = |phase: &mut Phase| *phase != wanted;
        // A poisoned lock is taken all the same: the phase is set in one step.
        drop(self.changed.wait_timeout_while(lock(&self.phase), PARTING, waits));
    }

    /// The process ends because another has taken over.
    pub(crate) fn is_ending(&self) -> bool {
        *lock(&self.phase) == Phase::Ending
    }

    /// The control socket is free: waits until the new process was told.
    pub(crate) fn freed(&self) {
        // Whoever was told meanwhile waits for nothing more.
        let mut phase = lock(&self.phase);
        if *phase == Phase::Ending {
            *phase = Phase::Freed;
        }
        drop(phase);
        self.changed.notify_all();
        self.wait_for(Phase::Told);
    }

    /// Somebody is taking over from now on, unless somebody is already.
    pub(crate) fn ask(&self) -> Result<(), String> {
        let mut phase = lock(&self.phase);
        if *phase != Phase::Own {
            return Err("another process is taking over already".to_owned());
        }
        *phase = Phase::Asked;
        Ok(())
    }

    /// The control socket is served there.
    pub(crate) fn served_at(&self, ctl: &Path) {
        // There is one.
        let _ = self.ctl.set(ctl.to_owned());
    }

    /// Where another process can ask this one to hand over.
    pub(crate) fn ctl(&self) -> Option<&Path> {
        self.ctl.get().map(PathBuf::as_path)
    }

    /// Nobody is taking over.
    pub(crate) fn is_own(&self) -> bool {
        *lock(&self.phase) == Phase::Own
    }

    /// Does this once there is no way back.
    pub(crate) fn at_the_end(&self, does: impl FnOnce() + Send + 'static) {
        *lock(&self.at_the_end) = Some(Box::new(does));
    }

    /// Does nothing then.
    pub(crate) fn nothing_at_the_end(&self) {
        drop(lock(&self.at_the_end).take());
    }

    /// There is no way back.
    pub(crate) fn ending(&self) {
        self.enter(Phase::Ending);
        let does = lock(&self.at_the_end).take();
        if let Some(does) = does {
            does();
        }
    }

    /// Somebody is taking over, and there is a way back.
    pub(crate) fn is_asked(&self) -> bool {
        *lock(&self.phase) == Phase::Asked
    }

    /// Ends the process's wait.
    pub(crate) fn end(&self) -> std::io::Result<()> {
        (&self.wake).write_all(b"x")
    }
}
