//! Connections that outlive a switch: `millrace conntrack export`, `import`, and `run --state`.
//!
//! The file is an [image](service::conntrack::image). It is written beside its name and renamed when it is on
//! the disk, so that under its name there is a whole one or none. It tells who talks to whom: only its owner may
//! read it.
//!
//! `run --state` reads the file at the start, and writes it every `--state-interval` and when the switch stops: what
//! is under the name is always whole, and no older than the interval, also if the switch was killed. An image of a
//! switch that went on behind it tells so: TCP's windows of its connections are then not checked. A file that cannot
//! be read as an image, or a place that cannot be written, stops the start before anything else has begun, so that
//! nobody loses connections unawares.
//!
//! The time since the image was taken, by the system's clock, is taken off what each connection has left.

use crate::failure::Failure;
use crate::sync::lock;
use datapath::services::Connections;
use serde::{Deserialize, Serialize};
use service::conntrack::image::{Image, Restored};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use switch::Switch;

/// Largest image that is read: 10⁷ connections take a tenth of it.
const IMAGE_MAX: u64 = 16 << 30;

/// Seconds since 1970.
pub(crate) fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub(crate) fn connections(switch: &Switch) -> Result<&Connections, String> {
    let none = || "this switch tracks no connections: it runs a P4 program".to_owned();
    switch.services().connections().map(|connections| &**connections).ok_or_else(none)
}

/// The name that a file has before it is whole.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    beside.into()
}

/// A new file that only its owner may read. What a process of the same number has left there is removed.
fn make(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    match options.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            options.open(path)
        }
        outcome => outcome,
    }
}

/// Writes a file so that under its name there is all of it or what was there before.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<u64>,
) -> Result<u64, String> {
    let beside = beside(path);
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    let written = (|| {
        let file = make(&beside)?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let told = write(&mut out)?;
        out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        std::fs::rename(&beside, path)?;
        // The name is on the disk when its folder is.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(told)
    })();
    if written.is_err() {
        // Perhaps it was not even made.
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(failed)
}

/// Reads an image; says how many seconds ago it was taken, which it knows from then on.
fn read(path: &Path) -> Result<(Image, u64), String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(|e| told(&e))?;
    let about = file.metadata().map_err(|e| told(&e))?;
    if !about.is_file() || about.len() > IMAGE_MAX {
        return Err(told(&"not a file of at most 16 GiB"));
    }
    let mut bytes = Vec::with_capacity(about.len() as usize);
    file.read_to_end(&mut bytes).map_err(|e| told(&e))?;
    let mut image = Image::read(bytes).map_err(|e| told(&e))?;
    let age = clock().saturating_sub(image.taken_at());
    image.age(age.saturating_mul(1_000_000_000));
    Ok((image, age))
}

/// Packets may have come behind an image that was not the last thing its switch did: windows have moved.
fn loosened(image: &mut Image) -> bool {
    let went_on = image.went_on();
    if went_on {
        image.loosen();
    }
    went_on
}

/// Takes over the connections of an image that this process may read.
pub(crate) fn take(switch: &Switch, path: &Path) -> Result<Answer, String> {
    let connections = connections(switch)?;
    let (mut image, age) = read(path)?;
    let unchecked = loosened(&mut image);
    let told = connections.import(&mut image, &|| switch.now_ns());
    Ok(restored(&told, age, unchecked))
}

/// Writes an image of all to a client.
pub(crate) fn send(switch: &Switch, client: &UnixStream) -> std::io::Result<()> {
    let connections = connections(switch).map_err(std::io::Error::other)?;
    let mut out = BufWriter::with_capacity(1 << 18, client);
    connections.export(&|| switch.now_ns(), clock(), &mut out)?;
    out.flush()
}

/// Saves an image that a switch has sent; how many connections it has. What the switch broke off does not take a good
/// file's place.
pub fn save(path: &Path, bytes: &[u8]) -> Result<usize, Failure> {
    let image = Image::read(bytes.to_vec())
        .map_err(|e| Failure::Bad(format!("from the switch, whose log may say why: {e}")))?;
    replace(path, |out| out.write_all(bytes).map(|()| 0)).map_err(Failure::Bad)?;
    Ok(image.len())
}

/// What became of an image.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// TCP's windows are not checked: the switch went on behind the image.
    pub windows_unchecked: bool,
    /// Connections that were taken over.
    pub imported: u64,
    /// Those whose time was over.
    pub expired: u64,
    /// Those that the switch had.
    pub known: u64,
    /// Those that were replaced by newer ones.
    pub replaced: u64,
    /// Those without room.
    pub no_room: u64,
    /// Those imported without their block of ports.
    pub unbound: u64,
    /// Seconds since the image was taken.
    pub age_seconds: u64,
}

fn restored(told: &Restored, age_seconds: u64, windows_unchecked: bool) -> Answer {
    Answer {
        windows_unchecked,
        imported: told.connections,
        expired: told.expired,
        known: told.known,
        replaced: told.replaced,
        no_room: told.no_room,
        unbound: told.unbound,
        age_seconds,
    }
}

/// The same in a line.
pub(crate) fn print(answer: &Answer) -> String {
    let mut out = format!("{} connections imported", answer.imported);
    let rest = [
        (answer.expired, "whose time was over"),
        (answer.known, "that the switch had"),
        (answer.replaced, "replaced by newer ones"),
        (answer.no_room, "without room"),
        (answer.unbound, "imported without their block of ports"),
    ];
    for (n, what) in rest.into_iter().filter(|(n, _)| *n != 0) {
        out.push_str(&format!(", {n} {what}"));
    }
    out.push_str(&format!("; taken {} seconds ago", answer.age_seconds));
    if answer.windows_unchecked {
        out.push_str(" of a switch that went on: TCP's windows are not checked");
    }
    out.push('\n');
    out
}

/// `run --state`: where connections wait for the next process.
pub(crate) struct State {
    path: PathBuf,
    /// What an earlier switch has left.
    left: Option<(Image, u64)>,
}

/// Writes the file now and then, until it is dropped.
pub(crate) struct Writing {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

impl State {
    /// Looks whether the file can be written and, unless its connections come from elsewhere, reads it.
    pub(crate) fn open(path: &Path, reads: bool) -> Result<State, Failure> {
        let failed = |what: &str, e: &dyn std::fmt::Display| {
            Failure::Bad(format!("--state: {} {what}: {e}", path.display()))
        };
        let left = match std::fs::metadata(path) {
            Ok(about) if !about.is_file() => {
                return Err(failed("cannot be used", &"it is there, and is no file"));
            }
            Ok(_) if reads => Some(read(path).map_err(|e| {
                Failure::Bad(format!("--state {e}; move it away to start without its connections"))
            })?),
            Ok(_) => None,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("cannot be used", &error)),
        };
        let beside = beside(path);
        make(&beside)
            .and_then(|_| std::fs::remove_file(&beside))
            .map_err(|e| failed("cannot be written", &e))?;
        Ok(State { path: path.to_path_buf(), left })
    }

    /// Takes over what an earlier switch has left.
    pub(crate) fn begin(&mut self, switch: &Switch) -> Result<(), Failure> {
        let Some((mut image, age)) = self.left.take() else { return Ok(()) };
        let connections = connections(switch).map_err(Failure::Bad)?;
        let unchecked = loosened(&mut image);
        let told = connections.import(&mut image, &|| switch.now_ns());
        let told = print(&restored(&told, age, unchecked));
        tracing::info!(path = %self.path.display(), "{}", told.trim_end());
        Ok(())
    }

    /// Writes the file every so often from now on.
    pub(crate) fn write_every(
        &self,
        switch: &Switch,
        interval: Duration,
    ) -> Result<Writing, Failure> {
        let stop: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let (stops, switch, path) = (stop.clone(), switch.clone(), self.path.clone());
        let write = move || {
            let mut failing = false;
            loop {
                let waits = stops.1.wait_timeout_while(lock(&stops.0), interval, |stop| !*stop);
                if *waits.unwrap_or_else(|poisoned| poisoned.into_inner()).0 {
                    return;
                }
                match (write(&switch, &path, false), failing) {
                    (Err(error), false) => {
                        failing = true;
                        tracing::warn!(%error, "--state: the file is as it was; it is tried again");
                    }
                    (Ok(connections), true) => {
                        failing = false;
                        tracing::info!(path = %path.display(), connections, "connections written again");
                    }
                    _ => {}
                }
            }
        };
        let thread = std::thread::Builder::new().name("state".into()).spawn(write);
        Ok(Writing { stop, thread: Some(thread.map_err(Failure::bad)?) })
    }

    /// Leaves the connections of a switch that has stopped.
    pub(crate) fn end(&self, switch: &Switch) -> Result<(), Failure> {
        let count =
            write(switch, &self.path, true).map_err(|e| Failure::Bad(format!("--state: {e}")))?;
        tracing::info!(path = %self.path.display(), connections = count, "connections written");
        Ok(())
    }
}

fn write(switch: &Switch, path: &Path, stopped: bool) -> Result<u64, String> {
    let connections = connections(switch)?;
    let now_ns = || switch.now_ns();
    replace(path, |out| match stopped {
        true => connections.export_stopped(&now_ns, clock(), out),
        false => connections.export(&now_ns, clock(), out),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert_eq!(replace(&path, |out| out.write_all(b"one").map(|()| 3)), Ok(3));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let broken = replace(&path, |out| {
            out.write_all(b"two")?;
            Err(std::io::Error::other("no more"))
        });
        assert_eq!(broken, Err(format!("cannot write {}: no more", path.display())));
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_became_of_an_image_is_told_in_a_line() {
        let told = Restored { connections: 3, known: 1, ..Restored::default() };
        let line = "3 connections imported, 1 that the switch had; taken 9 seconds ago\n";
        assert_eq!(print(&restored(&told, 9, false)), line);
        assert!(print(&restored(&told, 9, true)).contains("TCP's windows are not checked"));
    }

    fn switch() -> Switch {
        crate::program::tables::start(1, Vec::new(), 1000, switch::EngineKind::Interp, None)
            .unwrap()
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "no image").unwrap();
        for (path, why) in [
            (at("no/folder/state"), "cannot be written"),
            (at("file/state"), "cannot be"),
            (dir.path().to_path_buf(), "is no file"),
            ("/dev/null".into(), "is no file"),
            (at("file"), "move it away"),
        ] {
            let Err(Failure::Bad(text)) = State::open(&path, true) else { panic!("{path:?}") };
            assert!(text.starts_with("--state") && text.contains(why), "{text}");
            assert!(text.contains(&path.display().to_string()), "{text}");
        }
        // Who takes over has its connections from elsewhere.
        assert!(State::open(&at("file"), false).is_ok());
        assert_eq!(std::fs::read(at("file")).unwrap(), b"no image");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn the_file_is_written_again_and_again_and_is_whole_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let (path, switch) = (dir.path().join("state"), switch());
        let state = State::open(&path, true).unwrap();
        assert!(!path.exists());
        let writing = state.write_every(&switch, Duration::from_millis(1)).unwrap();
        let mut seen = std::collections::HashSet::new();
        let until = Instant::now() + Duration::from_secs(60);
        while seen.len() < 3 {
            assert!(Instant::now() < until, "it is written three times");
            if let Ok(about) = std::fs::metadata(&path) {
                use std::os::unix::fs::MetadataExt;
                seen.insert((about.ino(), about.mtime_nsec()));
                read(&path).unwrap();
            }
        }
        drop(writing);
        // Who is killed leaves what was written last; who begins reads it, and leaves it there.
        assert!(read(&path).unwrap().0.went_on());
        let mut state = State::open(&path, true).unwrap();
        state.begin(&switch).unwrap();
        assert!(path.exists());
        assert!(state.end(&switch).is_ok());
        assert!(!read(&path).unwrap().0.went_on());
        switch.stop();
    }
}
