//! What others ask the network: [`Underlay`].

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};

use crate::follow::{Admitted, Asked, Doubts, publish, read_anew, run};
use crate::lookup::{Next, Unreachable};
use crate::netlink::{Asker, News};
use crate::state::State;

/// Wishes that wait for the thread, at most.
const WISHES_MAX: usize = 1024;

/// How the network is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Octets that the kernel keeps of news that are not read yet. Above `net.core.rmem_max` it takes `CAP_NET_ADMIN`.
    pub receive_buffer: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { receive_buffer: 4 << 20 }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often news were lost, and everything was read anew.
    pub overruns: u64,
    /// How often something was read anew.
    pub rereads: u64,
    /// Messages of the kernel that could not be read.
    pub malformed: u64,
    /// Routes and rules that are skipped, as they were read: see the head of this crate.
    pub ignored: u64,
    /// Failures of the sockets.
    pub failures: u64,
    /// Neighbours that the kernel was asked to resolve.
    pub asks: u64,
    /// Wishes that came within a second of the same one before.
    pub asks_limited: u64,
    /// Wishes that the kernel refused, or for which there was no room.
    pub asks_refused: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) overruns: AtomicU64,
    pub(crate) rereads: AtomicU64,
    malformed: AtomicU64,
    ignored: AtomicU64,
    failures: AtomicU64,
    asks: AtomicU64,
    asks_limited: AtomicU64,
    pub(crate) asks_refused: AtomicU64,
}

/// Wakes the thread, and tells it what to ask for.
pub(crate) struct Wake {
    pub(crate) fd: OwnedFd,
    wishes: Mutex<Vec<(u32, IpAddr)>>,
}

impl Wake {
    fn ring(&self) {
        // Full means that the thread has not woken yet, and it will.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    pub(crate) fn take(&self) -> Vec<(u32, IpAddr)> {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        std::mem::take(&mut *lock(&self.wishes))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread and those who ask share.
pub(crate) struct Shared {
    state: RwLock<State>,
    version: AtomicU64,
    pub(crate) stop: AtomicBool,
    pub(crate) wake: Wake,
    pub(crate) counts: Counters,
    asked: Mutex<Asked>,
    /// What was logged.
    logged: Mutex<BTreeSet<&'static str>>,
}

impl Shared {
    pub(crate) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the state. `change` says whether an answer may be another one now; what it gives beside that is dropped without
    /// the lock.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> (bool, T)) -> T {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let (changed, kept) = change(&mut state);
        if changed {
            publish(&self.version);
        }
        drop(state);
        kept
    }

    /// Logs something of this kind the first time.
    pub(crate) fn once(&self, kind: &'static str, log: impl FnOnce()) {
        if lock(&self.logged).insert(kind) {
            log();
        }
    }

    pub(crate) fn ignore(&self, why: &'static str) {
        self.counts.ignored.fetch_add(1, Relaxed);
        self.once(why, || {
            tracing::warn!("a route or rule is skipped, as it is one by {why}");
        });
    }

    pub(crate) fn malformed(&self, kind: u16, error: &str) {
        self.counts.malformed.fetch_add(1, Relaxed);
        self.once("malformed", || {
            tracing::warn!(kind, error, "a message of the kernel about its network cannot be read");
        });
    }

    pub(crate) fn failed(&self, doing: &'static str, error: &io::Error) {
        self.counts.failures.fetch_add(1, Relaxed);
        self.once(doing, || tracing::warn!(%error, "{doing} failed; it is tried again"));
    }
}

/// The network of one namespace. Its thread ends when this is dropped.
pub struct Underlay {
    pub(crate) shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Underlay {
    /// Begins to follow the network of the calling thread's namespace.
    pub fn start() -> io::Result<Underlay> {
        Underlay::start_with(Settings::default())
    }

    /// The same with settings of one's own.
    pub fn start_with(settings: Settings) -> io::Result<Underlay> {
        let mut asker = Asker::open()?;
        let news = News::open(settings.receive_buffer)?;
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            state: RwLock::default(),
            version: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            wake: Wake { fd, wishes: Mutex::default() },
            counts: Counters::default(),
            asked: Mutex::default(),
            logged: Mutex::default(),
        });
        read_anew(&shared, &mut asker, Doubts::ALL)?;
        let following = shared.clone();
        let builder = std::thread::Builder::new().name("underlay".to_owned());
        let thread = builder.spawn(move || run(&following, news, asker))?;
        Ok(Underlay { shared, thread: Some(thread) })
    }

    /// A number that is another one after any answer of [`Underlay::resolve`] may have changed: one atomic load.
    pub fn version(&self) -> u64 {
        self.shared.version.load(Acquire)
    }

    /// How a packet of this host gets to `to`, with this source (else the kernel's choice) and mark.
    pub fn resolve(
        &self,
        to: IpAddr,
        from: Option<IpAddr>,
        mark: u32,
    ) -> Result<Next, Unreachable> {
        self.shared.look(|state| state.resolve(to, from, mark))
    }

    /// Has the kernel resolve a neighbour, or confirm one that was not heard of for long. Once a second for each at most. Never
    /// blocks: the thread asks. The kernel forgets neighbours that nobody uses, so who sends past it asks now and then.
    pub fn ask(&self, device: u32, gateway: IpAddr) {
        let counts = &self.shared.counts;
        match lock(&self.shared.asked).admit(device, gateway, Instant::now()) {
            Admitted::Yes => {}
            Admitted::Lately => {
                counts.asks_limited.fetch_add(1, Relaxed);
                return;
            }
            Admitted::Full => {
                counts.asks_refused.fetch_add(1, Relaxed);
                return;
            }
        }
        let mut wishes = lock(&self.shared.wake.wishes);
        if wishes.len() >= WISHES_MAX {
            counts.asks_refused.fetch_add(1, Relaxed);
            return;
        }
        wishes.push((device, gateway));
        drop(wishes);
        counts.asks.fetch_add(1, Relaxed);
        self.shared.wake.ring();
    }

    /// Whether packets to the address are this host's.
    pub fn is_local(&self, address: IpAddr) -> bool {
        self.shared.look(|state| state.is_local(address))
    }

    /// Which device has this local address.
    pub fn device_of(&self, address: IpAddr) -> Option<u32> {
        self.shared.look(|state| state.owners.get(&address).copied())
    }

    /// The number of a device.
    pub fn index_of(&self, name: &str) -> Option<u32> {
        self.shared
            .look(|state| state.links().find(|link| link.name == name).map(|link| link.index))
    }

    /// Looks at all that is known, while nothing changes. Keep it short: news wait, and in the end are lost. Ask the underlay
    /// nothing meanwhile: that may wait for ever.
    pub fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        self.shared.look(look)
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        let counts = &self.shared.counts;
        Counts {
            overruns: counts.overruns.load(Relaxed),
            rereads: counts.rereads.load(Relaxed),
            malformed: counts.malformed.load(Relaxed),
            ignored: counts.ignored.load(Relaxed),
            failures: counts.failures.load(Relaxed),
            asks: counts.asks.load(Relaxed),
            asks_limited: counts.asks_limited.load(Relaxed),
            asks_refused: counts.asks_refused.load(Relaxed),
        }
    }
}

impl Drop for Underlay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Release);
        self.shared.wake.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
