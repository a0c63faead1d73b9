//! What signals do to `run`.
//!
//! | signal | does |
//! |---|---|
//! | SIGINT, SIGTERM, SIGQUIT | end the switch, in order; if that takes longer than [`END_MAX`], in disorder |
//! | SIGHUP | applies the configuration file anew ([`reload`](crate::reload)), where there is one |
//! | SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGIO | are told in a line, and do nothing |
//! | SIGXFSZ | a file that may not grow is an error in writing, which is counted |
//! | SIGPIPE | ignored, as the language does |
//!
//! A thread takes them, so that they are obeyed however long the start takes.

use crate::guard;
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXFSZ,
};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use switch::Switch;

/// So long the switch may take to end: connections of controllers, workers.
const END_MAX: Duration = Duration::from_secs(10);

/// What the taking thread and the rest of the process share.
#[derive(Default)]
struct Shared {
    /// The switch, to tell who hangs.
    switch: OnceLock<Switch>,
    /// What SIGHUP does, on a thread of its own.
    reload: OnceLock<Arc<dyn Fn() + Send + Sync>>,
    /// All threads have ended; what is written now may take its time.
    ended: Mutex<bool>,
}

/// The end of the switch, by a signal or by whoever has a waker.
pub(crate) struct Signals {
    comes: UnixStream,
    wakes: UnixStream,
    shared: Arc<Shared>,
}

/// How a signal that is taken is called.
fn name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(|| signal.to_string(), str::to_owned)
}

impl Signals {
    /// Takes signals from now on.
    pub(crate) fn take() -> std::io::Result<Signals> {
        let (comes, wakes) = UnixStream::pair()?;
        let all = [
            SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGIO, SIGXFSZ,
        ];
        let mut signals = signal_hook::iterator::Signals::new(all)?;
        let shared: Arc<Shared> = Arc::default();
        let (mut waker, of) = (wakes.try_clone()?, shared.clone());
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            let mut ending = false;
            for signal in signals.forever() {
                let name = name(signal);
                match signal {
                    SIGINT | SIGTERM | SIGQUIT if !std::mem::replace(&mut ending, true) => {
                        tracing::info!(signal = %name, "told to end");
                        // Nobody waits any more: the process is ending already.
                        let _ = waker.write_all(b"x");
                        let of = of.clone();
                        let ender = std::thread::Builder::new().name("ender".into());
                        if let Err(error) = ender.spawn(move || of.end_in_time(&name)) {
                            tracing::warn!(%error, "the end is not watched");
                        }
                    }
                    // The end has begun.
                    SIGINT | SIGTERM | SIGQUIT => {}
                    // Whoever wrote is told by the error.
                    SIGXFSZ => tracing::warn!(signal = %name, "a file may not grow any more"),
                    SIGHUP if of.reload.get().is_some() => of.reload(),
                    _ => tracing::info!(signal = %name, "ignored"),
                }
            }
        })?;
        Ok(Signals { comes, wakes, shared })
    }

    /// The switch whose threads are to end.
    pub(crate) fn of(&self, switch: &Switch) {
        // There is one.
        let _ = self.shared.switch.set(switch.clone());
    }

    /// SIGHUP does this from now on.
    pub(crate) fn on_hangup(&self, reload: impl Fn() + Send + Sync + 'static) {
        // There is one.
        let _ = self.shared.reload.set(Arc::new(reload));
    }

    /// What is written there ends [`wait`](Self::wait), too.
    pub(crate) fn waker(&self) -> std::io::Result<UnixStream> {
        self.wakes.try_clone()
    }

    /// Waits for the end.
    pub(crate) fn wait(&self) {
        let mut fds = [PollFd::new(&self.comes, PollFlags::IN)];
        while let Err(rustix::io::Errno::INTR) = rustix::event::poll(&mut fds, None) {}
    }

    /// All threads have ended.
    pub(crate) fn ended(&self) {
        *crate::sync::lock(&self.shared.ended) = true;
    }
}

impl Shared {
    /// Signals are taken meanwhile.
    fn reload(&self) {
        let Some(reload) = self.reload.get().cloned() else { return };
        let thread = std::thread::Builder::new().name("reload".to_owned());
        if let Err(error) = thread.spawn(move || reload()) {
            tracing::error!(%error, "the configuration is not applied");
        }
    }

    /// Ends the process if it has not come to its end in time.
    fn end_in_time(&self, signal: &str) {
        let until = Instant::now() + END_MAX;
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        let ended = crate::sync::lock(&self.ended);
        if *ended {
            return;
        }
        let busy = self.switch.get().map_or_else(Vec::new, Switch::busy_workers);
        let busy: Vec<String> = busy.iter().map(ToString::to_string).collect();
        let who = if busy.is_empty() { "no worker".to_owned() } else { busy.join(", ") };
        guard::end(&format!(
            "{signal}: the switch has not ended within {} seconds; {who} stands still",
            END_MAX.as_secs()
        ))
    }
}

/// A descriptor that is readable once SIGINT or SIGTERM came.
pub struct EndSignals(UnixStream);

/// From now on SIGINT and SIGTERM are what [`came`] tells, in place of ending the process.
pub fn on_end() -> std::io::Result<EndSignals> {
    let (read, write) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(EndSignals(read))
}

/// Waits for SIGINT or SIGTERM, at most so long; says whether one came.
pub fn came(signals: &EndSignals, timeout: std::time::Duration) -> bool {
    use std::os::fd::AsFd;
    port::wait_readable(signals.0.as_fd(), timeout)
}
