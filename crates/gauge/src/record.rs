//! What was captured, written to a file as it came.
//!
//! Each frame that the filter passes ends up in a pcap file, with the time that its latency counts to. A file that
//! cannot be written ends no measurement: [`Recording::end`] says so when all is over.

use port::pcap::Writer;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A file for captured frames; clones write to the same one.
#[derive(Clone)]
pub struct Recording(Arc<Inner>);

struct Inner {
    path: String,
    writer: Mutex<(Writer<File>, Option<io::Error>)>,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recording({})", self.path())
    }
}

impl Recording {
    /// Makes the file anew.
    pub fn create(path: &Path) -> io::Result<Recording> {
        let writer = Mutex::new((Writer::new(File::create(path)?)?, None));
        Ok(Recording(Arc::new(Inner { path: path.display().to_string(), writer })))
    }

    /// The file's name.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Adds a frame that came at this time since the Unix epoch.
    pub fn write(&self, ns: u64, bytes: &[u8]) {
        let mut inner = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.1.is_none()
            && let Err(error) = inner.0.write(ns, bytes)
        {
            inner.1 = Some(error);
        }
    }

    /// Hands all to the system; what went wrong since the file was made.
    pub fn end(&self) -> io::Result<()> {
        let mut inner = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        match inner.1.take() {
            Some(error) => Err(error),
            None => inner.0.flush(),
        }
    }
}
