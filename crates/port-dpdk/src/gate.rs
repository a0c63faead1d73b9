//! Keeps DPDK's interrupt thread out of devices that workers are in.
//!
//! net_memif answers its peer on DPDK's interrupt thread: when the peer goes, that thread unmaps the
//! rings and frees what describes them, and when one comes, it sets them up, while bursts of other
//! threads read both. The driver has no lock between the two and DPDK no place to put one. So the
//! thread itself is held: a descriptor of ours that is always readable has it call [`hold`], and there
//! it stays. When any of the other descriptors that it would look after becomes readable, the thread
//! `dpdk-events` asks everybody out of the queues of all guarded devices, lets the interrupt thread
//! through until it comes back to the gate, and lets everybody in again.
//!
//! A memif client is connected by starting its device, once; a peer that is not there, or goes, is not
//! asked again. `dpdk-events` does that too: it stops and starts the device of a client without link.
//!
//! Invariants: while anybody is in a queue of a guarded device, the interrupt thread is in [`hold`] and
//! nobody starts, stops or closes such a device. A worker never waits: a queue that it must not enter
//! has no frames, or takes none.
//! Cost: for guarded devices, a lock that is nearly always free for each burst; no other device knows
//! of it. The thread is there from the first guarded device on, and sleeps while nothing happens.
//! Checked by: `tests/devices.rs`, `lab/dpdk_memif`.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::sys::{self, Device};

/// A client whose peer is not there is started again after so long.
const ABSENT_RETRY: Duration = Duration::from_millis(50);
/// A client that has reached its peer has so long to agree with it on rings. Patient, since a server of
/// DPDK 22.11 that finds its client gone before it has greeted it closes a descriptor twice over.
const AGREE_WITHIN: Duration = Duration::from_secs(2);
/// Between two times that the interrupt thread is let through, at least.
const PAUSE: Duration = Duration::from_millis(1);
/// How often it is let through where nobody can say what it waits for.
const BLIND: Duration = Duration::from_millis(10);

/// Who may be in a device's queues.
pub(crate) struct Guard {
    /// One for each queue, receive queues first; held by who is in it.
    lines: Box<[Mutex<()>]>,
    /// The device is started: only then may anybody be in it.
    runs: AtomicBool,
    /// It connects to its peer, and not its peer to it.
    calls: bool,
    /// When it was started last.
    since: Mutex<Instant>,
}

/// Somebody is in a queue.
pub(crate) type Entered<'a> = MutexGuard<'a, ()>;

impl Guard {
    /// What a device of this driver with so many queues needs; readies the gate if it needs any.
    pub(crate) fn of(driver: &str, devargs: &[u8], lines: usize) -> io::Result<Option<Guard>> {
        if driver != "net_memif" {
            return Ok(None);
        }
        ready()?;
        Ok(Some(Guard {
            lines: (0..lines).map(|_| Mutex::new(())).collect(),
            runs: AtomicBool::new(false),
            calls: calls(devargs),
            since: Mutex::new(Instant::now()),
        }))
    }

    /// Enters a queue; `None` if it must not be entered now.
    #[inline]
    pub(crate) fn enter(&self, line: usize) -> Option<Entered<'_>> {
        let entered = match self.lines[line].try_lock() {
            Ok(entered) => entered,
            Err(TryLockError::Poisoned(entered)) => entered.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        // Written only by who holds all of them.
        self.runs.load(Ordering::Relaxed).then_some(entered)
    }

    /// Keeps everybody out until the result is dropped.
    fn shut(&self) -> Vec<Entered<'_>> {
        self.lines.iter().map(lock).collect()
    }
}

/// Whether a memif device of these devargs connects to its peer, which it does if nothing is said.
fn calls(devargs: &[u8]) -> bool {
    let mut words = devargs.split(|&b| b == b',');
    let role = words.rfind(|word| word.starts_with(b"role="));
    // As the driver looks for them: anywhere in the word.
    let says = |name: &[u8]| role.is_some_and(|word| word.windows(name.len()).any(|w| w == name));
    !says(b"server") && !says(b"master")
}

/// What the gate and those who use it share.
struct Gate {
    /// The interrupt thread may leave it, once.
    open: bool,
    /// How often it has come in.
    entered: u64,
}

static GATE: Mutex<Gate> = Mutex::new(Gate { open: false, entered: 0 });
static CHANGED: Condvar = Condvar::new();
/// Held by who starts, stops or closes guarded devices, or lets the interrupt thread through.
static CONTROL: Mutex<()> = Mutex::new(());
/// Held while `dpdk-events` has references of its own to devices. Taken before [`CONTROL`].
static BORROWED: Mutex<()> = Mutex::new(());
/// All guarded devices.
static GUARDED: Mutex<Vec<Weak<Device>>> = Mutex::new(Vec::new());
/// The gate's descriptors, or why there is no gate.
static READY: OnceLock<Result<Fds, String>> = OnceLock::new();

struct Fds {
    /// Always readable: it brings the interrupt thread in.
    gate: RawFd,
    /// Wakes `dpdk-events`.
    bell: OwnedFd,
}

/// Of nothing that is locked here can a panic leave half of something behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the interrupt thread is while workers may be in guarded devices.
extern "C" fn hold(_: *mut c_void) {
    let mut gate = lock(&GATE);
    gate.entered += 1;
    CHANGED.notify_all();
    while !gate.open {
        gate = CHANGED.wait(gate).unwrap_or_else(PoisonError::into_inner);
    }
    gate.open = false;
}

/// Lets the interrupt thread through, and waits until it is back.
fn pass() {
    let mut gate = lock(&GATE);
    let before = gate.entered;
    gate.open = true;
    CHANGED.notify_all();
    while gate.entered == before {
        gate = CHANGED.wait(gate).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Makes the gate and its thread, the first time; the interrupt thread is held when this returns.
fn ready() -> io::Result<&'static Fds> {
    let make = || -> io::Result<Fds> {
        let gate = eventfd(1, EventfdFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let fds = Fds { gate: gate.as_raw_fd(), bell };
        sys::call_on(gate, hold)?;
        let mut held = lock(&GATE);
        while held.entered == 0 {
            held = CHANGED.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        drop(held);
        std::thread::Builder::new().name("dpdk-events".into()).spawn(watch)?;
        Ok(fds)
    };
    let made = READY.get_or_init(|| make().map_err(|error| error.to_string()));
    made.as_ref().map_err(|error| io::Error::other(format!("holding DPDK's interrupts: {error}")))
}

/// Runs `f` while nobody else starts, stops or closes guarded devices, and the interrupt thread is
/// held.
pub(crate) fn while_held<R>(f: impl FnOnce() -> R) -> R {
    let _control = lock(&CONTROL);
    f()
}

/// Starts a guarded device that was set up. A client whose peer is not there is started all the same,
/// as far as anybody can see: it has no link.
pub(crate) fn start(device: &Arc<Device>) -> io::Result<()> {
    let fds = ready()?;
    while_held(|| restart(device))?;
    lock(&GUARDED).push(Arc::downgrade(device));
    // A full bell rings all the same.
    let _ = rustix::io::write(&fds.bell, &1u64.to_ne_bytes());
    Ok(())
}

/// Stops and starts a guarded device. The caller has [`CONTROL`].
fn restart(device: &Device) -> io::Result<()> {
    let Some(guard) = &device.guard else { return Ok(()) };
    let _shut = guard.shut();
    let result = device.restart();
    guard.runs.store(result.is_ok(), Ordering::Relaxed);
    *lock(&guard.since) = Instant::now();
    match result {
        Err(_) if guard.calls => Ok(()),
        result => result,
    }
}

/// What the interrupt thread waits for beside the gate; `None` if nobody can say. It waits by an epoll
/// instance of its own, which is the one that has the gate's descriptor in it.
fn watched(gate: RawFd) -> Option<Vec<RawFd>> {
    for entry in std::fs::read_dir("/proc/self/fd").ok()?.flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        if target.as_os_str() != "anon_inode:[eventpoll]" {
            continue;
        }
        let info = std::path::Path::new("/proc/self/fdinfo").join(entry.file_name());
        let Ok(text) = std::fs::read_to_string(info) else { continue };
        let fds = targets(&text);
        if fds.contains(&gate) {
            return Some(fds.into_iter().filter(|fd| *fd != gate).collect());
        }
    }
    None
}

/// The descriptors in an epoll instance, from what Linux says of it.
fn targets(fdinfo: &str) -> Vec<RawFd> {
    let number = |line: &str| line.strip_prefix("tfd:")?.split_whitespace().next()?.parse().ok();
    fdinfo.lines().filter_map(number).collect()
}

/// What `dpdk-events` does, for good.
fn watch() {
    // Made before this thread is, but for the moment in which it is stored.
    let fds = match READY.wait() {
        Ok(fds) => fds,
        Err(_) => return,
    };
    loop {
        // A device may end while this thread sleeps.
        let first = borrowed(|devices| devices.iter().filter_map(|device| due(device)).min());
        let waiting = watched(fds.gate);
        let most = waiting.is_none().then_some(BLIND);
        let now = Instant::now();
        let until = first.map(|at| at.saturating_duration_since(now)).into_iter().chain(most).min();
        let blind = waiting.is_none();
        if sleep(&fds.bell, waiting.as_deref().unwrap_or_default(), until) || blind {
            borrowed(|devices| {
                while_held(|| {
                    let _shut: Vec<_> =
                        devices.iter().filter_map(|d| d.guard.as_ref()).map(Guard::shut).collect();
                    pass();
                });
            });
            std::thread::sleep(PAUSE);
        }
        borrowed(|devices| {
            for device in devices {
                if due(device).is_some_and(|at| at <= Instant::now())
                    && let Err(error) = while_held(|| restart(device))
                {
                    tracing::warn!(%error, "restarting a DPDK device");
                }
            }
        });
    }
}

/// Calls `f` with the guarded devices that are there. One whose user drops it meanwhile ends when `f` returns.
fn borrowed<R>(f: impl FnOnce(&[Arc<Device>]) -> R) -> R {
    let _borrowed = lock(&BORROWED);
    let devices: Vec<Arc<Device>> = {
        let mut guarded = lock(&GUARDED);
        guarded.retain(|device| device.strong_count() > 0);
        guarded.iter().filter_map(Weak::upgrade).collect()
    };
    f(&devices)
    // The devices are dropped before the lock is.
}

/// Waits until each guarded device without a user is closed. Its name is then free for another.
pub(crate) fn settle() {
    drop(lock(&BORROWED));
}

/// When a device is to be started again: a client without link, once its last attempt has had its time.
fn due(device: &Device) -> Option<Instant> {
    let guard = device.guard.as_ref()?;
    if !guard.calls || device.link().is_ok_and(|link| link.up != 0) {
        return None;
    }
    let patience = match guard.runs.load(Ordering::Relaxed) {
        true => AGREE_WITHIN,
        false => ABSENT_RETRY,
    };
    Some(*lock(&guard.since) + patience)
}

/// Sleeps until the bell rings, one of the descriptors has something to say, or the time has come.
/// Returns whether one has.
fn sleep(bell: &OwnedFd, others: &[RawFd], most: Option<Duration>) -> bool {
    let others: Vec<_> = others.iter().map(|fd| sys::borrowed(*fd)).collect();
    let mut fds = vec![PollFd::new(bell, PollFlags::IN)];
    let events = PollFlags::IN | PollFlags::PRI | PollFlags::RDHUP;
    fds.extend(others.iter().map(|fd| PollFd::from_borrowed_fd(*fd, events)));
    let timeout = most.and_then(|most| Timespec::try_from(most).ok());
    if poll(&mut fds, timeout.as_ref()).is_err() {
        // A signal, or no memory: the loop comes by again.
        std::thread::sleep(PAUSE);
        return false;
    }
    // Empty is what we want.
    let _ = rustix::io::read(bell, &mut [0u8; 8]);
    fds[1..].iter().any(|fd| !fd.revents().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_from_servers_as_the_driver_does() {
        for server in ["net_memif0,role=server", "net_memif,id=1,role=master,bsize=2048"] {
            assert!(!calls(server.as_bytes()), "{server}");
        }
        for client in
            ["net_memif0", "net_memif0,role=client", "net_memif0,role=slave,socket=server"]
        {
            assert!(calls(client.as_bytes()), "{client}");
        }
    }

    #[test]
    fn the_targets_of_an_epoll_instance_are_read() {
        let text = "pos:\t0\nflags:\t02\nmnt_id:\t16\nino:\t1057\n\
                    tfd:        5 events:       1f data:        5  pos:0 ino:61 sdev:7\n\
                    tfd:       12 events:     201b data:        c  pos:0 ino:61 sdev:7\n";
        assert_eq!(targets(text), [5, 12]);
        assert!(targets("").is_empty());
    }

    #[test]
    fn a_queue_is_entered_by_one_while_the_device_runs() {
        let guard = Guard {
            lines: (0..2).map(|_| Mutex::new(())).collect(),
            runs: AtomicBool::new(false),
            calls: false,
            since: Mutex::new(Instant::now()),
        };
        assert!(guard.enter(0).is_none());
        guard.runs.store(true, Ordering::Relaxed);
        let entered = guard.enter(0);
        assert!(entered.is_some() && guard.enter(0).is_none() && guard.enter(1).is_some());
        drop(entered);
        let shut = guard.shut();
        assert!(guard.enter(0).is_none() && guard.enter(1).is_none());
        drop(shut);
        assert!(guard.enter(0).is_some());
    }
}
