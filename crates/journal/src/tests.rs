use crate::record::Map;
use crate::writer::{Journal, Sync};
use crate::{Error, Record, Source, frame, restore};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A map that somebody else keeps, as the source of a journal.
#[derive(Clone, Default)]
struct Model(Arc<Mutex<Map>>);

impl Model {
    fn record(&self) -> Record {
        let mut record = Record::default();
        self.0.lock().unwrap().iter().for_each(|(key, value)| record.put(key, value));
        record
    }

    /// Puts and removes, here and in the journal.
    fn change(&self, journal: &Journal, puts: &[(&str, &str)], removes: &[&str]) {
        let mut map = self.0.lock().unwrap();
        let mut record = Record::default();
        for (key, value) in puts {
            record.put(key.as_bytes(), value.as_bytes());
            map.insert(key.as_bytes().into(), value.as_bytes().into());
        }
        for key in removes {
            record.remove(key.as_bytes());
            map.remove(key.as_bytes());
        }
        journal.append(&record);
    }

    fn map(&self) -> Map {
        self.0.lock().unwrap().clone()
    }
}

impl Source for Model {
    fn whole(&self, begin: &dyn Fn()) -> Option<Record> {
        let map = self.0.lock().unwrap();
        begin();
        let mut record = Record::default();
        map.iter().for_each(|(key, value)| record.put(key, value));
        Some(record)
    }
}

fn open(folder: &Path, log_min: u64) -> (Journal, Model, restore::Restored) {
    let (journal, restored) = Journal::open_with(folder, "test", Sync::Never, log_min).unwrap();
    let model = Model(Arc::new(Mutex::new(restored.map.clone())));
    journal.begin(&model.record(), Box::new(model.clone())).unwrap();
    (journal, model, restored)
}

/// The only log of a folder.
fn only_log(folder: &Path) -> std::path::PathBuf {
    let (_, logs) = restore::list(folder).unwrap();
    assert_eq!(logs.len(), 1);
    restore::log(folder, logs[0])
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn the_checksum_is_castagnolis() {
    // RFC 3720, B.4.
    assert_eq!(frame::crc32c(0, b"123456789"), 0xe306_9283);
    assert_eq!(frame::crc32c(0, &[0; 32]), 0x8a91_36aa);
    assert_eq!(frame::crc32c(0, &[0xff; 32]), 0x62a8_ab43);
    let split = frame::crc32c(frame::crc32c(0, b"1234"), b"56789");
    assert_eq!(split, 0xe306_9283);
}

#[test]
fn what_was_flushed_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("j");
    let (journal, model, restored) = open(&folder, 1 << 20);
    assert!(restored.fresh);
    model.change(&journal, &[("a", "1"), ("b", "2")], &[]);
    model.change(&journal, &[("c", "3"), ("b", "4")], &["a"]);
    journal.flush();
    // As after a kill: nobody has closed it. The lock goes with the process, here by a copy.
    let copied = dir.path().join("copy");
    copy(&folder, &copied);
    let (again, _, restored) = open(&copied, 1 << 20);
    assert!(!restored.fresh && restored.cut.is_none());
    assert_eq!(restored.records, 2);
    assert_eq!(restored.map, model.map());
    model.change(&again, &[("d", "5")], &[]);
    again.close();
    let (_, _, restored) = open(&copied, 1 << 20);
    assert_eq!((restored.records, &restored.map), (1, &model.map()));
}

#[test]
fn a_folder_is_one_process_s_and_one_owner_s() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, model, _) = open(dir.path(), 1 << 20);
    let path = dir.path().display().to_string();
    let error = Journal::open(dir.path(), "test", Sync::Never).err().unwrap();
    assert_eq!(
        error.to_string(),
        format!("{path} is in use by another process; stop it, or choose another folder")
    );
    journal.close();
    let error = Journal::open(dir.path(), "other", Sync::Never).err().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "{path} was written for test, and this is other; choose another folder, or move this one away to begin anew"
        )
    );
    // Its own process may have it again.
    model.change(&journal, &[("dropped", "as it is closed")], &[]);
    journal.reopen(&model).unwrap();
    model.change(&journal, &[("k", "v")], &[]);
    journal.close();
    let (_, _, restored) = open(dir.path(), 1 << 20);
    assert_eq!(restored.map, model.map());
}

/// A log with records of several keys, and the map after each.
fn small(folder: &Path) -> Vec<Map> {
    let (journal, model, _) = open(folder, 1 << 20);
    model.change(&journal, &[("base", "0")], &[]);
    journal.close();
    let (journal, model, _) = open(folder, 1 << 20);
    let mut maps = vec![model.map()];
    for n in 0..6 {
        let (a, b, value) = (format!("a{n}"), format!("b{n}"), format!("{n}").repeat(n));
        let before = format!("a{}", n / 2);
        let before = [&*before];
        let removes = if n > 2 { &before[..] } else { &[] };
        model.change(&journal, &[(&a, &value), (&b, &value)], removes);
        journal.flush();
        maps.push(model.map());
    }
    journal.close();
    maps
}

#[test]
fn a_log_cut_at_any_byte_gives_a_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("j");
    let maps = small(&folder);
    let log = only_log(&folder);
    let whole = fs::read(&log).unwrap();
    let mut seen = 0;
    for length in 0..=whole.len() {
        fs::write(&log, &whole[..length]).unwrap();
        let restored = restore::read(&folder, "test").unwrap();
        let at = maps.iter().position(|map| *map == restored.map);
        let at = at.unwrap_or_else(|| panic!("cut at {length}: half a record came back"));
        assert!(at >= seen, "cut at {length}: less comes back than of a shorter log");
        seen = at;
        assert_eq!(restored.records as usize, at);
        let at_end = length == whole.len() || restored.cut.is_none();
        assert_eq!(restored.cut.is_none(), at_end);
    }
    assert_eq!(seen, maps.len() - 1, "the whole log gives all of it");
}

#[test]
fn a_log_changed_at_any_byte_gives_a_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("j");
    let maps = small(&folder);
    let log = only_log(&folder);
    let whole = fs::read(&log).unwrap();
    for at in 0..whole.len() {
        for flip in [1u8, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            fs::write(&log, &bytes).unwrap();
            let restored = restore::read(&folder, "test").unwrap();
            let which = maps.iter().position(|map| *map == restored.map);
            let which = which.unwrap_or_else(|| panic!("byte {at}: half a record came back"));
            assert!(which < maps.len() - 1, "byte {at}: a wrong checksum went unseen");
            assert!(restored.cut.is_some(), "byte {at}");
        }
    }
}

#[test]
fn a_snapshot_that_is_not_whole_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("j");
    let maps = small(&folder);
    let (snapshots, _) = restore::list(&folder).unwrap();
    let path = restore::snapshot(&folder, snapshots[0]);
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        match restore::read(&folder, "test") {
            Err(Error::Damaged { .. }) => {}
            other => panic!("cut at {length}: {other:?}"),
        }
    }
    // A newer one that is not whole leaves the older one and its log in force.
    fs::write(&path, &whole).unwrap();
    fs::write(restore::snapshot(&folder, snapshots[0] + 1), &whole[..whole.len() - 1]).unwrap();
    assert_eq!(restore::read(&folder, "test").unwrap().map, *maps.last().unwrap());
}

#[test]
fn the_end_that_is_cut_off_is_kept_beside() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("j");
    let maps = small(&folder);
    let log = only_log(&folder);
    let mut bytes = fs::read(&log).unwrap();
    bytes.pop();
    fs::write(&log, &bytes).unwrap();
    let (journal, _, restored) = open(&folder, 1 << 20);
    assert_eq!(restored.map, maps[maps.len() - 2]);
    assert_eq!(fs::read(restored.cut.unwrap().file).unwrap(), bytes);
    journal.close();
    // And it is whole again.
    let (_, _, restored) = open(&folder, 1 << 20);
    assert!(restored.cut.is_none());
    assert_eq!(restored.map, maps[maps.len() - 2]);
}

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_long_log_is_compacted_while_more_comes() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("j");
    let (journal, model, _) = open(&folder, 1 << 12);
    for n in 0..20_000 {
        let (key, value) = (format!("k{}", n % 50), format!("{n}").repeat(8));
        model.change(&journal, &[(&key, &value)], &[]);
        if n % 7 == 0 {
            journal.flush();
        }
        if n % 1000 == 0 {
            // At any time what was flushed is what is there.
            journal.flush();
        }
    }
    eventually("it is compacted", || journal.status().snapshots > 3);
    let size = || -> u64 {
        fs::read_dir(&folder).unwrap().map(|e| e.unwrap().metadata().map_or(0, |m| m.len())).sum()
    };
    eventually("it stays small", || {
        model.change(&journal, &[("more", "x")], &[]);
        journal.flush();
        size() < 1 << 15
    });
    journal.close();
    let (_, _, restored) = open(&folder, 1 << 12);
    assert_eq!(restored.map, model.map());
}

#[test]
fn a_disk_that_fails_and_comes_back_leaves_it_whole() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("j");
    let (journal, model, _) = open(&folder, 1 << 12);
    model.change(&journal, &[("a", "1")], &[]);
    journal.flush();
    // The folder is gone: a log that is to begin cannot.
    let away = dir.path().join("away");
    fs::rename(&folder, &away).unwrap();
    let long = "x".repeat(1 << 13);
    model.change(&journal, &[("long", &long)], &[]);
    journal.flush();
    let status = journal.status();
    assert!(status.failing.is_some(), "{status:?}");
    assert_eq!(status.failures, 1);
    model.change(&journal, &[("b", "2")], &["a"]);
    // Nobody waits.
    journal.flush();
    // One that came while it was tried anew is dropped when that has failed.
    eventually("it is dropped", || journal.status().dropped >= 1);
    fs::rename(&away, &folder).unwrap();
    eventually("it is mended", || journal.status().failing.is_none());
    model.change(&journal, &[("c", "3")], &[]);
    journal.close();
    let (_, _, restored) = open(&folder, 1 << 12);
    assert_eq!(restored.map, model.map());
}

#[test]
fn many_writers_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("j");
    let (journal, model, _) = open(&folder, 1 << 14);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (journal, model) = (&journal, &model);
            let folder = &folder;
            scope.spawn(move || {
                for n in 0..2000 {
                    let key = format!("t{thread}-{}", n % 100);
                    model.change(journal, &[(&key, &n.to_string())], &[]);
                    journal.flush();
                }
                assert!(folder.exists());
            });
        }
    });
    assert_eq!(journal.status().records, 8000);
    journal.close();
    let (_, _, restored) = open(&folder, 1 << 14);
    assert_eq!(restored.map, model.map());
}
