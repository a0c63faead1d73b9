//! Who supervises the process: systemd, or whatever speaks its protocol (sd_notify(3)).
//!
//! It is told when packets pass (READY), when a configuration is applied (RELOADING), what runs (STATUS), when the end begins
//! (STOPPING), which process goes on after a take-over (MAINPID), and, where it asks for it, that the process lives
//! (WATCHDOG): twice in its bound. A thread of the switch that stands still ends the process itself ([`guard`](crate::guard)).
//! Nothing is kept in its store of descriptors (FDSTORE): sockets of ports go to a new process by the take-over, and those
//! of a process that was killed hold frames that are late.
//!
//! Without a supervisor all of this does nothing.

use sd_notify::NotifyState;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Said once that it does not listen.
static DEAF: AtomicBool = AtomicBool::new(false);

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states)
        && !DEAF.swap(true, Ordering::Relaxed)
    {
        tracing::warn!(%error, "the service manager cannot be told (NOTIFY_SOCKET)");
    }
}

/// Packets pass, and what is to be shown of the process.
pub(crate) fn ready(status: &str) {
    let me = std::process::id();
    // The process before may have been the main one.
    tell(&[NotifyState::MainPid(me), NotifyState::Ready, NotifyState::Status(status)]);
    watchdog();
}

/// Another configuration is being applied.
pub(crate) fn reloading() {
    tell(&[NotifyState::Reloading]);
}

/// That is over.
pub(crate) fn reloaded(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The end has begun.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// This process goes on in place of ours.
pub(crate) fn main_process_is(pid: u32) {
    tell(&[NotifyState::MainPid(pid)]);
}

/// Tells that the process lives, if that is asked for.
fn watchdog() {
    let Some(bound) = sd_notify::watchdog_enabled() else { return };
    let pause = (bound / 2).max(Duration::from_millis(100));
    let thread = std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
        loop {
            tell(&[NotifyState::Watchdog]);
            std::thread::sleep(pause);
        }
    });
    if let Err(error) = thread {
        tracing::error!(%error, "the service manager's watchdog is not told that the process lives");
    }
}
