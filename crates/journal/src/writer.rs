//! The journal of a running process.
//!
//! [`Journal::append`] puts a record behind those before, in memory. [`Journal::flush`] writes what was appended, all of it at
//! once, whoever appended it; so many changes cost one write. Whoever appends does so under a lock of its own, which makes
//! the order; whoever answers flushes first, outside that lock.
//!
//! Locks: `pending` is held for the time of a copy. `file` is held while something is written, and taken before `pending`.

use crate::background::{self, Bell};
use crate::error::Error;
use crate::record::{Head, Kind, Record};
use crate::restore::{self, Restored, io};
use crate::source::Source;
use crate::{frame, record};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A log is made shorter when it is longer than this and than twice its snapshot.
pub const LOG_MIN: u64 = 16 << 20;
/// Bytes of records that wait for a snapshot that is being written, at most.
const PENDING_MAX: usize = 256 << 20;

/// When files are on the disk: a killed process loses nothing in any case, a machine without power may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Before [`Journal::flush`] returns.
    Always,
    /// So long after that, at most.
    Within(Duration),
    /// When the system pleases.
    Never,
}

/// What a journal says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Why records cannot be written; none if they can.
    pub failing: Option<String>,
    /// How often it came to that.
    pub failures: u64,
    /// Records that were dropped meanwhile.
    pub dropped: u64,
    /// Records that were appended.
    pub records: u64,
    /// Snapshots that were written.
    pub snapshots: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of its snapshot.
    pub snapshot_bytes: u64,
}

/// What becomes of appended records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// They are dropped: nobody has begun.
    Closed,
    /// They are written.
    Open,
    /// They wait: a snapshot is being written that they come behind.
    Anew,
    /// They are dropped: the disk has failed.
    Failing,
}

/// Records in memory.
pub(crate) struct Pending {
    pub(crate) phase: Phase,
    frames: Vec<u8>,
    /// Of the next record.
    sequence: u64,
    status: Status,
}

/// The log that is written.
pub(crate) struct Log {
    pub(crate) file: Option<Arc<File>>,
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) snapshot_bytes: u64,
    /// It was written since it was synced.
    pub(crate) unsynced: bool,
    /// Its number is greater than that of the snapshot that it goes with.
    pub(crate) compacts: bool,
    /// What is written next is taken from here, so that its room is kept.
    spare: Vec<u8>,
    lock: Option<File>,
}

pub(crate) struct Inner {
    pub(crate) folder: PathBuf,
    pub(crate) owner: Mutex<String>,
    pub(crate) sync: Sync,
    pub(crate) log_min: u64,
    pub(crate) pending: Mutex<Pending>,
    pub(crate) file: Mutex<Log>,
    /// Records appended, and those that need not be waited for: written, or dropped.
    appended: AtomicU64,
    done: AtomicU64,
    pub(crate) bell: Bell,
}

/// A journal. Clones are handles of the same one.
#[derive(Clone)]
pub struct Journal(pub(crate) Arc<Inner>);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is guarded is consistent between any two statements.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A new file that only its owner may read.
fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// The names of a folder are on the disk.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Writes a snapshot so that under its name there is all of it or nothing; how long it is.
pub(crate) fn write_snapshot(
    folder: &Path,
    head: &Head,
    whole: &Record,
    syncs: bool,
) -> std::io::Result<u64> {
    let path = restore::snapshot(folder, head.number);
    let beside = path.with_extension("new");
    let written = (|| {
        let mut file = create(&beside)?;
        let (mut bytes, mut out) = (0, Vec::new());
        let (head, last) = (head.bytes(), record::end(whole.len() as u64));
        let parts = whole.parts(record::PART);
        let payloads = [&head[..]].into_iter().chain(parts).chain([&last[..]]);
        for (sequence, payload) in payloads.enumerate() {
            out.clear();
            if !frame::push(&mut out, sequence as u64, payload) {
                return Err(too_long());
            }
            file.write_all(&out)?;
            bytes += out.len() as u64;
        }
        if syncs {
            file.sync_all()?;
        }
        fs::rename(&beside, &path)?;
        if syncs {
            sync_folder(folder)?;
        }
        Ok(bytes)
    })();
    if written.is_err() {
        // Perhaps it was not even made.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn too_long() -> std::io::Error {
    std::io::Error::other("a change of 4 GiB or more")
}

/// Removes what a snapshot has made superfluous, unfinished files among it.
pub(crate) fn remove_before(folder: &Path, number: u64) {
    let Ok((snapshots, logs)) = restore::list(folder) else { return };
    let old = |list: Vec<u64>| list.into_iter().filter(move |n| *n < number);
    let snapshots = old(snapshots).map(|n| restore::snapshot(folder, n));
    let logs = old(logs).map(|n| restore::log(folder, n));
    for path in snapshots.chain(logs) {
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "an old file of the journal stays");
        }
    }
}

impl Pending {
    pub(crate) fn count_snapshot(&mut self) {
        self.status.snapshots += 1;
    }
}

impl Journal {
    /// Opens a folder, which is made if it is not there, for what is called `owner`, and reads what it holds. Nothing is
    /// written before [`begin`](Self::begin).
    pub fn open(folder: &Path, owner: &str, sync: Sync) -> Result<(Journal, Restored), Error> {
        Journal::open_with(folder, owner, sync, LOG_MIN)
    }

    /// The same, whose log is made shorter from this length on.
    pub fn open_with(
        folder: &Path,
        owner: &str,
        sync: Sync,
        log_min: u64,
    ) -> Result<(Journal, Restored), Error> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(io(folder))?;
        let held = hold(folder)?;
        let mut restored = restore::read(folder, owner)?;
        if let Some(cut) = &mut restored.cut {
            // The next snapshot removes the log.
            let kept = folder.join("cut");
            fs::copy(&cut.file, &kept).map_err(io(&kept))?;
            cut.file = kept;
        }
        let pending = Pending {
            phase: Phase::Closed,
            frames: Vec::new(),
            sequence: restored.sequence,
            status: Status::default(),
        };
        let log = Log {
            file: None,
            number: restored.next.saturating_sub(1),
            bytes: 0,
            snapshot_bytes: 0,
            unsynced: false,
            compacts: false,
            spare: Vec::new(),
            lock: Some(held),
        };
        let journal = Journal(Arc::new(Inner {
            folder: folder.to_owned(),
            owner: Mutex::new(owner.to_owned()),
            sync,
            log_min,
            pending: Mutex::new(pending),
            file: Mutex::new(log),
            appended: AtomicU64::new(0),
            done: AtomicU64::new(0),
            bell: Bell::default(),
        }));
        Ok((journal, restored))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// The map is this from now on: writes it as a snapshot, and opens a log behind it. A thread looks after both from now
    /// on, and asks `source` for the map if the disk fails.
    pub fn begin(&self, whole: &Record, source: Box<dyn Source>) -> Result<(), Error> {
        self.begin_anew();
        self.write_anew(whole).map_err(io(&self.0.folder))?;
        background::start(self, source).map_err(io(&self.0.folder))
    }

    /// What is appended from now on comes behind a map that is about to be written.
    pub fn begin_anew(&self) {
        let mut pending = lock(&self.0.pending);
        pending.phase = Phase::Anew;
        pending.frames.clear();
    }

    /// Writes the map of the moment of [`begin_anew`](Self::begin_anew).
    pub(crate) fn write_anew(&self, whole: &Record) -> std::io::Result<()> {
        let inner = &*self.0;
        let mut log = lock(&inner.file);
        let first = {
            let pending = lock(&inner.pending);
            pending.sequence - frames_in(&pending.frames)
        };
        let owner = lock(&inner.owner).clone();
        let number = log.number + 1;
        // Attempts that failed leave nothing that a later one could be taken for.
        log.number = number;
        let head = Head { kind: Kind::Snapshot, number, first, owner };
        let syncs = inner.sync != Sync::Never;
        let written = write_snapshot(&inner.folder, &head, whole, syncs);
        let done = written.and_then(|bytes| {
            remove_before(&inner.folder, number);
            self.open_log(&mut log, number, first)?;
            log.snapshot_bytes = bytes;
            log.compacts = false;
            Ok(())
        });
        if let Err(error) = done {
            self.failed(&mut log, &error);
            return Err(error);
        }
        let mut pending = lock(&inner.pending);
        // Meanwhile too much may have come.
        if pending.phase == Phase::Anew {
            pending.phase = Phase::Open;
            pending.status.failing = None;
            pending.status.snapshots += 1;
        }
        Ok(())
    }

    /// From now on records go to a new log.
    fn open_log(&self, log: &mut Log, number: u64, first: u64) -> std::io::Result<()> {
        let path = restore::log(&self.0.folder, number);
        let owner = lock(&self.0.owner).clone();
        let head = Head { kind: Kind::Log, number, first, owner };
        let mut bytes = Vec::new();
        if !frame::push(&mut bytes, 0, &head.bytes()) {
            return Err(too_long());
        }
        let mut file = create(&path)?;
        if let Err(error) = file.write_all(&bytes) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        if self.0.sync == Sync::Always {
            file.sync_all()?;
            sync_folder(&self.0.folder)?;
        }
        log.file = Some(Arc::new(file));
        log.number = number;
        log.bytes = bytes.len() as u64;
        log.unsynced = true;
        Ok(())
    }

    /// Puts a record behind those before. It is on its way to the file when [`flush`](Self::flush) returns.
    pub fn append(&self, record: &Record) {
        if record.is_empty() {
            return;
        }
        let inner = &*self.0;
        let mut pending = lock(&inner.pending);
        match pending.phase {
            Phase::Open | Phase::Anew => {}
            Phase::Closed => return,
            Phase::Failing => {
                pending.status.dropped += 1;
                return;
            }
        }
        let sequence = pending.sequence;
        let full = pending.frames.len() + record.bytes().len() > PENDING_MAX;
        if full && pending.phase == Phase::Anew
            || !frame::push(&mut pending.frames, sequence, record.bytes())
        {
            drop_all(&mut pending, "more changes at once than there is room for");
            inner.done.store(inner.appended.load(Ordering::Acquire), Ordering::Release);
            drop(pending);
            inner.bell.ring();
            return;
        }
        pending.sequence += 1;
        pending.status.records += 1;
        inner.appended.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns when all that was appended before is written, or dropped because it cannot be.
    pub fn flush(&self) {
        let inner = &*self.0;
        let wanted = inner.appended.load(Ordering::Acquire);
        if inner.done.load(Ordering::Acquire) >= wanted {
            return;
        }
        // While a snapshot is being written, which may take long, nothing is promised.
        if lock(&inner.pending).phase != Phase::Open {
            return;
        }
        let mut log = lock(&inner.file);
        // Somebody else may have written it meanwhile.
        if inner.done.load(Ordering::Acquire) >= wanted {
            return;
        }
        let mut frames = std::mem::take(&mut log.spare);
        let upto = {
            let mut pending = lock(&inner.pending);
            if pending.phase != Phase::Open {
                return;
            }
            std::mem::swap(&mut frames, &mut pending.frames);
            inner.appended.load(Ordering::Acquire)
        };
        let written = self.write(&mut log, &frames);
        frames.clear();
        log.spare = frames;
        if let Err(error) = written {
            self.failed(&mut log, &error);
        }
        inner.done.fetch_max(upto, Ordering::AcqRel);
    }

    fn write(&self, log: &mut Log, frames: &[u8]) -> std::io::Result<()> {
        let Some(file) = log.file.clone() else { return Ok(()) };
        let before = log.bytes;
        let written = (&*file).write_all(frames).and_then(|()| match self.0.sync {
            Sync::Always => file.sync_data(),
            _ => Ok(()),
        });
        if let Err(error) = written {
            // Half a record would be cut off when it is read: this spares the next process the warning.
            if let Err(error) = file.set_len(before) {
                tracing::debug!(%error, "half a record stays at the end of the log");
            }
            return Err(error);
        }
        log.bytes += frames.len() as u64;
        log.unsynced = self.0.sync != Sync::Always;
        if !log.compacts && log.bytes > self.0.log_min.max(2 * log.snapshot_bytes) {
            let first = {
                let pending = lock(&self.0.pending);
                pending.sequence - frames_in(&pending.frames)
            };
            self.open_log(log, log.number + 1, first)?;
            log.compacts = true;
            self.0.bell.ring();
        }
        Ok(())
    }

    /// The disk has failed: nothing is written from now on, until a snapshot is.
    pub(crate) fn failed(&self, log: &mut Log, error: &std::io::Error) {
        let inner = &*self.0;
        log.file = None;
        log.compacts = false;
        let mut pending = lock(&inner.pending);
        let first = pending.status.failing.is_none();
        drop_all(&mut pending, &error.to_string());
        inner.done.store(inner.appended.load(Ordering::Acquire), Ordering::Release);
        drop(pending);
        if first {
            tracing::error!(
                folder = %inner.folder.display(), %error,
                "changes are not kept over a restart until the disk takes them again; the switch goes on"
            );
        }
        inner.bell.ring();
    }

    /// It is failing, and a snapshot may mend it.
    pub(crate) fn is_failing(&self) -> bool {
        lock(&self.0.pending).phase == Phase::Failing
    }

    /// What it says of itself.
    pub fn status(&self) -> Status {
        let log = self.0.file.try_lock();
        let mut pending = lock(&self.0.pending);
        // Who looks does not wait for the disk.
        if let Ok(log) = log {
            pending.status.log_bytes = log.bytes;
            pending.status.snapshot_bytes = log.snapshot_bytes;
        }
        pending.status.clone()
    }

    /// Writes and syncs what was appended, and lets go of the folder: another process may have it from now on. What is
    /// appended later is dropped.
    pub fn close(&self) {
        self.flush();
        let mut log = lock(&self.0.file);
        let mut pending = lock(&self.0.pending);
        pending.phase = Phase::Closed;
        pending.frames.clear();
        drop(pending);
        if let Some(file) = log.file.take()
            && self.0.sync != Sync::Never
            && let Err(error) = file.sync_all()
        {
            tracing::error!(folder = %self.0.folder.display(), %error, "the journal's end is not synced");
        }
        log.compacts = false;
        drop(log.lock.take());
    }

    /// Has the folder again after [`close`](Self::close), and writes the map of now as `source` has it.
    pub fn reopen(&self, source: &dyn Source) -> Result<(), Error> {
        let folder = &self.0.folder;
        if lock(&self.0.file).lock.is_some() {
            return Ok(());
        }
        let held = hold(folder)?;
        let (snapshots, logs) = restore::list(folder)?;
        let mut log = lock(&self.0.file);
        log.lock = Some(held);
        log.number = snapshots.into_iter().chain(logs).max().unwrap_or(0).max(log.number);
        drop(log);
        match source.whole(&|| self.begin_anew()) {
            Some(whole) => self.write_anew(&whole).map_err(io(folder)),
            None => Ok(()),
        }
    }
}

/// Has the folder for this process alone.
fn hold(folder: &Path) -> Result<File, Error> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(Error::InUse { path: folder.display().to_string() })
        }
        Err(fs::TryLockError::Error(error)) => Err(io(&path)(error)),
    }
}

/// What is in memory is dropped, and nothing is written.
fn drop_all(pending: &mut Pending, why: &str) {
    let lost = frames_in(&pending.frames);
    pending.frames = Vec::new();
    pending.phase = Phase::Failing;
    pending.status.dropped += lost;
    pending.status.failures += u64::from(pending.status.failing.is_none());
    pending.status.failing = Some(why.to_owned());
}

/// How many frames these are.
fn frames_in(mut bytes: &[u8]) -> u64 {
    let mut count = 0;
    while let Some((length, _)) = bytes.split_first_chunk::<4>() {
        let end = (frame::HEAD + u32::from_le_bytes(*length) as usize).min(bytes.len());
        bytes = &bytes[end..];
        count += 1;
    }
    count
}
