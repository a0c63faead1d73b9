//! How far the running process has come in handing over.

use crate::ports::Ports;
use crate::sync::lock;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex};
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
    ports: Ports,
}

impl Handover {
    /// Nobody has asked yet. What is written to `wake` ends the process's wait.
    pub(crate) fn new(wake: UnixStream, ports: Ports) -> Handover {
        Handover { phase: Mutex::new(Phase::Own), changed: Condvar::new(), wake, ports }
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

    /// Somebody is taking over, and there is a way back.
    pub(crate) fn is_asked(&self) -> bool {
        *lock(&self.phase) == Phase::Asked
    }

    /// The ports of the switch.
    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Ends the process's wait.
    pub(crate) fn end(&self) -> std::io::Result<()> {
        (&self.wake).write_all(b"x")
    }
}
