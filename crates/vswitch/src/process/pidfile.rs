//! A file with the process's number, locked while it lives.

use rustix::fs::FlockOperation;
use rustix::process::{Flock, FlockType};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file. Dropped, it is removed.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    /// Its lock goes when it is closed.
    _file: File,
}

/// The process that has a pid file's lock.
fn owner(path: &Path) -> io::Result<Option<i32>> {
    // Locks of this process do not count, and closing the file would give them up: it has none yet.
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let lock = Flock::from(FlockType::WriteLock);
    let found = rustix::process::fcntl_getlk(&file, &lock)?;
    Ok(found.map(|lock| lock.pid.map_or(0, |pid| pid.as_raw_nonzero().get())))
}

impl PidFile {
    /// Writes it. Refused while another process has it.
    pub fn create(path: &Path, overwrite: bool) -> io::Result<PidFile> {
        if !overwrite && let Some(pid) = owner(path)? {
            let text = format!("{}: already running as pid {pid}, aborting", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let pid = std::process::id();
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".tmp{pid}"));
        let beside = PathBuf::from(beside);
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(&beside)?;
        // Locked before it is in its place: a reader never finds it without its owner.
        rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(format!("{pid}\n").as_bytes())?;
        fs::rename(&beside, path)?;
        Ok(PidFile { path: path.to_owned(), _file: file })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let ours = fs::read_to_string(&self.path)
            .is_ok_and(|text| text.trim() == std::process::id().to_string());
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the pid file is not removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_names_this_process_and_goes_with_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("x.pid");
        fs::write(&path, "1\n").expect("a stale file");
        let file = PidFile::create(&path, false).expect("nobody has it");
        assert_eq!(fs::read_to_string(&path).expect("a file"), format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
    }
}
