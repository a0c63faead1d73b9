//! A folder to the map that it holds.
//!
//! The newest snapshot that is whole counts, and the logs from its number on, as long as each goes on where the one before
//! ends. The first frame that is not right ends it: what is behind is cut off, and told.

use crate::error::Error;
use crate::frame::Frames;
use crate::record::{self, Head, Kind, Map};
use std::fs;
use std::path::{Path, PathBuf};

/// What a folder held.
#[derive(Debug, Default)]
pub struct Restored {
    /// The map.
    pub map: Map,
    /// Nothing was there: this is a new folder.
    pub fresh: bool,
    /// Records that were read behind the snapshot.
    pub records: u64,
    /// What could not be read.
    pub cut: Option<Cut>,
    /// The number that no file has yet.
    pub(crate) next: u64,
    /// The number that the next record has.
    pub(crate) sequence: u64,
}

/// The end of a log that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The log.
    pub file: PathBuf,
    /// Bytes of it that were read.
    pub good: u64,
    /// Bytes behind them, with those of later logs.
    pub bytes: u64,
}

pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.display().to_string();
    move |error| Error::Io { path, error }
}

pub(crate) fn snapshot(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("snap-{number:016x}"))
}

pub(crate) fn log(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("log-{number:016x}"))
}

/// Numbers of snapshots and of logs, in order.
pub(crate) fn list(folder: &Path) -> Result<(Vec<u64>, Vec<u64>), Error> {
    let (mut snapshots, mut logs) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(io(folder))? {
        let name = entry.map_err(io(folder))?.file_name();
        let Some(name) = name.to_str() else { continue };
        let number = |digits: &str| {
            u64::from_str_radix(digits, 16).ok().filter(|n| format!("{n:016x}") == digits)
        };
        if let Some(number) = name.strip_prefix("snap-").and_then(number) {
            snapshots.push(number);
        } else if let Some(number) = name.strip_prefix("log-").and_then(number) {
            logs.push(number);
        }
    }
    snapshots.sort_unstable();
    logs.sort_unstable();
    Ok((snapshots, logs))
}

/// A snapshot that is whole: its head and its map; otherwise what is wrong, and the head as far as it is right.
pub fn read_snapshot(bytes: &[u8]) -> Result<(Map, u64, String), (&'static str, Option<String>)> {
    let mut frames = Frames::new(bytes, 0);
    let head = frames.next().and_then(Head::read).filter(|head| head.kind == Kind::Snapshot);
    let Some(head) = head else { return Err(("it does not begin as one", None)) };
    let mut map = Map::new();
    let mut ended = false;
    for payload in frames.by_ref() {
        if payload == record::end(map.len() as u64) {
            ended = true;
            break;
        }
        if !record::apply(&mut map, payload) {
            break;
        }
    }
    match ended && frames.left() == 0 {
        true => Ok((map, head.first, head.owner)),
        false => Err(("it does not end as one", Some(head.owner))),
    }
}

/// Does to the map what a log says, whose first record is to have this number. The bytes that were right, and the number of
/// the next record.
pub fn read_log(bytes: &[u8], map: &mut Map, first: u64) -> (usize, u64) {
    let mut frames = Frames::new(bytes, 0);
    let head = frames.next().and_then(Head::read);
    if head.is_none_or(|head| head.kind != Kind::Log || head.first != first) {
        return (0, first);
    }
    frames.renumber(first);
    loop {
        let (good, next) = (frames.offset(), frames.sequence());
        match frames.next() {
            Some(payload) if record::apply(map, payload) => {}
            _ => return (good, next),
        }
    }
}

/// Reads a folder that is there.
pub(crate) fn read(folder: &Path, owner: &str) -> Result<Restored, Error> {
    let (snapshots, logs) = list(folder)?;
    let next = snapshots.iter().chain(&logs).max().map_or(1, |last| last + 1);
    if snapshots.is_empty() && logs.is_empty() {
        return Ok(Restored { fresh: true, next, ..Restored::default() });
    }
    let other = |wrote: String| Error::Other {
        path: folder.display().to_string(),
        wrote,
        ours: owner.to_owned(),
    };
    let mut wrong = None;
    let mut base = None;
    for number in snapshots.iter().rev() {
        let path = snapshot(folder, *number);
        let bytes = fs::read(&path).map_err(io(&path))?;
        match read_snapshot(&bytes) {
            Ok((_, _, wrote)) | Err((_, Some(wrote))) if wrote != owner => {
                return Err(other(wrote));
            }
            Ok((map, first, _)) => {
                base = Some((*number, map, first));
                break;
            }
            Err((why, _)) => {
                wrong.get_or_insert_with(|| format!("{}: {why}", path.display()));
            }
        }
    }
    let Some((number, mut map, first)) = base else {
        let why = wrong.unwrap_or_else(|| "there are only logs".to_owned());
        return Err(Error::Damaged { path: folder.display().to_string(), why });
    };
    let (mut sequence, mut cut) = (first, None::<Cut>);
    // A log that is not there ends it as one that cannot be read does.
    let mut expected = number;
    for number in logs.into_iter().filter(|log| *log >= number) {
        let path = log(folder, number);
        let bytes = fs::read(&path).map_err(io(&path))?;
        if let Some(cut) = &mut cut {
            cut.bytes += bytes.len() as u64;
            continue;
        }
        let (good, then) = match number == expected {
            true => read_log(&bytes, &mut map, sequence),
            false => (0, sequence),
        };
        sequence = then;
        expected += 1;
        if good < bytes.len() {
            cut = Some(Cut { file: path, good: good as u64, bytes: (bytes.len() - good) as u64 });
        }
    }
    Ok(Restored { map, fresh: false, records: sequence - first, cut, next, sequence })
}
