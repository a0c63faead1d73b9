//! The thread of a journal: syncs the log, compacts it, and mends it after the disk failed.

use crate::record::{Head, Kind, Record};
use crate::restore::{self, read_log, read_snapshot};
use crate::source::Source;
use crate::writer::{Journal, Phase, Sync, lock, remove_before, write_snapshot};
use std::fs;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

/// Pauses between attempts to write again.
const RETRY: Duration = Duration::from_secs(1);

/// Wakes the thread.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *lock(&self.rung) = true;
        self.heard.notify_one();
    }

    fn wait(&self, most: Duration) {
        let waits = |rung: &mut bool| !*rung;
        let waited = self.heard.wait_timeout_while(lock(&self.rung), most, waits);
        let (mut rung, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        *rung = false;
    }
}

/// Starts the thread, which ends some time after the journal's last handle is gone.
pub(crate) fn start(journal: &Journal, source: Box<dyn Source>) -> std::io::Result<()> {
    let weak = Arc::downgrade(&journal.0);
    let thread = std::thread::Builder::new().name("journal".to_owned());
    thread.spawn(move || run(weak, &*source)).map(drop)
}

fn run(weak: Weak<crate::writer::Inner>, source: &dyn Source) {
    let mut tried = None::<Instant>;
    loop {
        let Some(inner) = weak.upgrade() else { return };
        let journal = Journal(inner);
        let pause = match journal.0.sync {
            Sync::Within(time) => time.min(RETRY),
            _ => RETRY,
        };
        let due = tried.is_none_or(|tried| tried.elapsed() >= RETRY);
        if journal.is_failing() && due {
            tried = Some(Instant::now());
            if mend(&journal, source) {
                tried = None;
            }
        }
        compact(&journal);
        // Records that came while a snapshot was written have nobody who waits for them.
        journal.flush();
        sync(&journal);
        journal.0.bell.wait(pause);
    }
}

/// Writes the whole map anew; whether that is done.
fn mend(journal: &Journal, source: &dyn Source) -> bool {
    let whole: Option<Record> = source.whole(&|| journal.begin_anew());
    let Some(whole) = whole else { return false };
    match journal.write_anew(&whole) {
        Ok(()) => {
            let dropped = journal.status().dropped;
            tracing::warn!(
                folder = %journal.folder().display(), dropped,
                "the disk takes changes again: all that there is was written anew"
            );
            true
        }
        Err(_) => false,
    }
}

fn sync(journal: &Journal) {
    if !matches!(journal.0.sync, Sync::Within(_)) {
        return;
    }
    let file = {
        let mut log = lock(&journal.0.file);
        let unsynced = std::mem::take(&mut log.unsynced);
        log.file.clone().filter(|_| unsynced)
    };
    // Nobody who writes waits for it.
    if let Some(file) = file
        && let Err(error) = file.sync_data()
    {
        journal.failed(&mut lock(&journal.0.file), &error);
    }
}

/// Makes one snapshot of the last one and the logs up to the one that is written.
fn compact(journal: &Journal) {
    let (number, wanted) = {
        let log = lock(&journal.0.file);
        (log.number, log.compacts && log.file.is_some())
    };
    if !wanted {
        return;
    }
    let done = compacted(journal, number);
    let mut log = lock(&journal.0.file);
    // What has failed meanwhile writes a snapshot of its own.
    if log.number != number || !log.compacts {
        return;
    }
    match done {
        Ok(bytes) => {
            log.snapshot_bytes = bytes;
            log.compacts = false;
            drop(log);
            remove_before(&journal.0.folder, number);
            let mut pending = lock(&journal.0.pending);
            if pending.phase == Phase::Open {
                pending.count_snapshot();
            }
        }
        Err(error) => journal.failed(&mut log, &error),
    }
}

fn compacted(journal: &Journal, number: u64) -> std::io::Result<u64> {
    let folder = &journal.0.folder;
    let other = |what: &str| std::io::Error::other(what.to_owned());
    let (snapshots, logs) = restore::list(folder).map_err(std::io::Error::other)?;
    let base = snapshots.into_iter().filter(|n| *n < number).max();
    let base = base.ok_or_else(|| other("the snapshot before the log is gone"))?;
    let bytes = fs::read(restore::snapshot(folder, base))?;
    let read = read_snapshot(&bytes).map_err(|(why, _)| other(why))?;
    let (mut map, mut sequence, owner) = read;
    drop(bytes);
    for log in logs.into_iter().filter(|log| (base..number).contains(log)) {
        let bytes = fs::read(restore::log(folder, log))?;
        let (good, then) = read_log(&bytes, &mut map, sequence);
        if good < bytes.len() {
            return Err(other("the log on the disk is not what was written"));
        }
        sequence = then;
    }
    let mut whole = Record::default();
    map.iter().for_each(|(key, value)| whole.put(key, value));
    drop(map);
    let head = Head { kind: Kind::Snapshot, number, first: sequence, owner };
    let syncs = journal.0.sync != Sync::Never;
    write_snapshot(folder, &head, &whole, syncs)
}
