//! Accepts, reads requests, answers them.
//!
//! Bounds: [`CLIENTS_MAX`] connections at a time, beyond which one is closed at once and counted; a request of
//! [`REQUEST_MAX`] octets; a client that does not take its answer within [`WRITE_MAX`] is let go.

use super::commands::{Context, answer};
use ovsdb::message::{Frames, Message};
use serde_json::Value as Json;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Connections at a time.
pub const CLIENTS_MAX: usize = 32;
/// Octets of a request.
pub const REQUEST_MAX: usize = 1 << 20;
/// How long an answer may take to be taken.
pub const WRITE_MAX: Duration = Duration::from_secs(10);

/// A socket that commands are asked at. Dropped, it is removed.
pub struct Server {
    path: PathBuf,
    /// Device and inode: the file is removed only while it is ours.
    identity: Option<(u64, u64)>,
    stop: Arc<AtomicBool>,
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

impl Server {
    /// Listens there. A file that nobody listens at is replaced.
    pub fn start(path: &Path, context: Context) -> std::io::Result<Server> {
        if UnixStream::connect(path).is_ok() {
            let text = format!("another process listens at {}", path.display());
            return Err(std::io::Error::new(std::io::ErrorKind::AddrInUse, text));
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        // Commands change the switch: its owner and group may ask, as Open vSwitch has it.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o770);
        std::fs::set_permissions(path, mode)?;
        let stop: Arc<AtomicBool> = Arc::default();
        let server = Server { path: path.to_owned(), identity: identity(path), stop: stop.clone() };
        let context = Arc::new(context);
        let body = move || accept(&listener, &context, &stop);
        std::thread::Builder::new().name("unixctl".to_owned()).spawn(body)?;
        Ok(server)
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        drop(UnixStream::connect(&self.path));
        if self.identity.is_some()
            && identity(&self.path) == self.identity
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "the socket is not removed");
        }
    }
}

/// One place less while it lives.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn accept(listener: &UnixListener, context: &Arc<Context>, stop: &AtomicBool) {
    let clients: Arc<AtomicUsize> = Arc::default();
    for stream in listener.incoming() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "unixctl: a connection is not accepted");
                // Out of descriptors: others may be closed meanwhile.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        let count = clients.fetch_add(1, Ordering::Relaxed);
        let place = Place(clients.clone());
        if count >= CLIENTS_MAX {
            tracing::warn!(CLIENTS_MAX, "unixctl: a connection is closed, there are too many");
            context.counts.refused.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let context = context.clone();
        let name = std::thread::Builder::new().name("unixctl-client".to_owned());
        let body = move || {
            let _place = place;
            if let Err(error) = serve(stream, &context) {
                tracing::debug!(%error, "unixctl: a connection broke");
            }
        };
        if let Err(error) = name.spawn(body) {
            tracing::warn!(%error, "unixctl: no thread for a connection");
        }
    }
}

fn serve(mut stream: UnixStream, context: &Context) -> std::io::Result<()> {
    stream.set_write_timeout(Some(WRITE_MAX))?;
    let mut frames = Frames::new(REQUEST_MAX);
    let mut buffer = vec![0; 16 << 10];
    let wrong = |text: String| std::io::Error::new(std::io::ErrorKind::InvalidData, text);
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        frames.push(&buffer[..count]);
        while let Some(json) = frames.take().map_err(|error| wrong(error.to_string()))? {
            let message = Message::of_json(json).map_err(|error| wrong(error.to_string()))?;
            let Message::Request { method, params, id } = message else { continue };
            let text = |json: &Json| json.as_str().map(str::to_owned);
            let words: Option<Vec<String>> = params.iter().map(text).collect();
            context.counts.received.fetch_add(1, Ordering::Relaxed);
            let result = match words {
                Some(words) => answer(context, &method, &words),
                None => Err(format!("\"{method}\" command has a parameter that is no text")),
            };
            // An answer ends with a line's end, as those of Open vSwitch do.
            let ended = |mut text: String| {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                Json::from(text)
            };
            let result = result.map(ended).map_err(ended);
            stream.write_all(&Message::Response { result, id }.to_bytes())?;
        }
    }
}
