//! The control socket, both ends: one JSON object asked, one answered, a line each.
//!
//! The switch listens on a UNIX socket ([`default_path`] unless `--ctl` says otherwise); `trace`,
//! `stats`, `explain` and `dump` ask there. Whoever may connect may look, set egress queues (`queue`),
//! and change a P4 program's entries or the program (`p4 do`, `p4 load`): the system asks for the
//! right to write to the socket's file, which only its owner has.
//! `capture`'s answer and that of `conntrack export` are streams: after one line that says that it was
//! understood, the capture's bytes until either side closes, or the image's. `run --take-over` holds a conversation
//! there.

use crate::Failure;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Longest request line, in bytes: a file of P4 entries.
const REQUEST_MAX: u64 = 64 << 20;
/// A client that says nothing for so long is let go.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// What can be asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "command")]
pub(crate) enum Request {
    /// Counters of ports, tables and the switch.
    Stats,
    /// How each table is looked up.
    Explain,
    /// A stage of the compiled pipeline as text.
    Dump {
        /// `ir`, `opt`, `plan`, `clif`, `asm`.
        stage: String,
    },
    /// What happens to a packet.
    Trace {
        /// The port it comes in by.
        in_port: u32,
        /// Its bytes in hexadecimal.
        packet: String,
    },
    /// Frames as they come and go.
    Capture(CaptureRequest),
    /// Egress queues: some are set, then all are told.
    Queue {
        /// Settings as users write them.
        set: Vec<String>,
        /// Ports that lose theirs, by name or number.
        clear: Vec<String>,
    },
    /// Connections: told, or forgotten.
    Conntrack {
        /// They are forgotten.
        flush: bool,
        /// Those of this zone.
        zone: Option<u16>,
        /// So many are told, at most.
        limit: usize,
    },
    /// An image of all connections: a stream.
    ConntrackExport,
    /// The connections of an image are taken over.
    ConntrackImport {
        /// Which, by a path that the switch can read.
        path: PathBuf,
    },
    /// Another process takes this one's place: what both then say, `takeover` tells.
    TakeOver,
    /// Services: one is added, one is set, one is taken away, then all are told.
    Service {
        /// Name, kind and settings of the one to add.
        add: Option<Vec<String>>,
        /// Name and settings of the one to set.
        set: Option<Vec<String>>,
        /// Name of the one to take away.
        remove: Option<String>,
    },
    /// Lines of `millrace p4 do`.
    P4Do {
        /// The lines.
        text: String,
    },
    /// Another P4 program in place of the one that runs.
    P4Load {
        /// Which, by paths that the switch can read.
        source: crate::cli::P4Source,
    },
}

/// Which frames, and how they are to be told.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CaptureRequest {
    /// Of this port only.
    pub(crate) port: Option<u32>,
    /// Those that come in.
    pub(crate) ingress: bool,
    /// Those that go out.
    pub(crate) egress: bool,
    /// Those that hit entries of this table, by number or name.
    pub(crate) table: Option<String>,
    /// Only entries with this cookie.
    pub(crate) cookie: Option<u64>,
    /// Those that are dropped.
    #[serde(default)]
    pub(crate) dropped: bool,
    /// Bytes kept of each.
    pub(crate) snap_len: usize,
    /// So many frames.
    pub(crate) count: Option<u64>,
    /// Lines for a person in place of pcapng.
    pub(crate) text: bool,
}

/// Writes to a client for as long as there is something to write.
type Streaming = Box<dyn FnOnce(&UnixStream) -> std::io::Result<()> + Send>;

/// What is answered.
pub(crate) enum Reply {
    /// A value.
    Value(Value),
    /// What this writes.
    Stream(Streaming),
}

/// Connections served at the same time, at most.
const CLIENTS_MAX: usize = 32;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Result(Value),
    Error(String),
}

/// Where the socket is unless `--ctl` says otherwise: in the user's run-time folder, `/run` for root.
pub(crate) fn default_path() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/run/millrace.ctl");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) => PathBuf::from(dir).join("millrace.ctl"),
        None => std::env::temp_dir()
            .join(format!("millrace-{}.ctl", rustix::process::getuid().as_raw())),
    }
}

/// The switch's end; the socket is removed when it is dropped.
pub(crate) struct Server {
    path: PathBuf,
}

impl Server {
    /// Listens, and answers in the background.
    pub(crate) fn start(
        path: &Path,
        answer: impl Fn(Request) -> Result<Reply, String> + Send + Sync + 'static,
    ) -> std::io::Result<Server> {
        if path.exists() {
            if UnixStream::connect(path).is_ok() {
                return Err(std::io::Error::other(
                    "another switch is listening there; give this one --ctl PATH",
                ));
            }
            // Left by a switch that was killed.
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        let answer = Arc::new(answer);
        std::thread::Builder::new().name("ctl".into()).spawn(move || {
            let clients = Arc::new(());
            for stream in listener.incoming().flatten() {
                if Arc::strong_count(&clients) > CLIENTS_MAX {
                    let error = Answer::Error(format!("{CLIENTS_MAX} others are being answered"));
                    let told = serde_json::to_vec(&error).unwrap_or_default();
                    // Whoever does not listen is not told.
                    let _ = (&stream).write_all(&[&told[..], b"\n"].concat());
                    continue;
                }
                let (answer, client) = (answer.clone(), clients.clone());
                let serving = std::thread::Builder::new().name("ctl-client".into());
                let started = serving.spawn(move || {
                    if let Err(error) = serve(&stream, &*answer) {
                        tracing::debug!(%error, "control socket");
                    }
                    drop(client);
                });
                if let Err(error) = started {
                    tracing::warn!(%error, "cannot serve the control socket");
                }
            }
        })?;
        Ok(Server { path: path.to_path_buf() })
    }

    /// Where it listens.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(
    mut stream: &UnixStream,
    answer: &(impl Fn(Request) -> Result<Reply, String> + ?Sized),
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut lines = BufReader::new(stream.take(REQUEST_MAX));
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        let reply = match serde_json::from_str(&line) {
            Ok(request) => match answer(request) {
                Ok(Reply::Value(value)) => Answer::Result(value),
                Ok(Reply::Stream(write)) => {
                    let mut begun = serde_json::to_vec(&Answer::Result(Value::Null))?;
                    begun.push(b'\n');
                    stream.write_all(&begun)?;
                    // A reader may pause for as long as it likes.
                    stream.set_write_timeout(None)?;
                    return write(stream);
                }
                Err(text) => Answer::Error(text),
            },
            Err(error) => Answer::Error(format!("not a request: {error}")),
        };
        let mut bytes = serde_json::to_vec(&reply)?;
        bytes.push(b'\n');
        stream.write_all(&bytes)?;
        line.clear();
        lines.get_mut().set_limit(REQUEST_MAX);
    }
    Ok(())
}

/// Asks a running switch.
pub(crate) fn ask(path: Option<&Path>, request: &Request) -> Result<Value, Failure> {
    begin(path, request).map(|(value, _)| value)
}

/// Asks a running switch for what is a stream: the bytes that follow its answer.
pub(crate) fn follow(path: Option<&Path>, request: &Request) -> Result<impl Read, Failure> {
    begin(path, request).map(|(_, rest)| rest)
}

/// Asks a running switch for a conversation.
pub(crate) fn talk(
    path: Option<&Path>,
    request: &Request,
) -> Result<BufReader<UnixStream>, Failure> {
    begin(path, request).map(|(_, rest)| rest)
}

fn begin(
    path: Option<&Path>,
    request: &Request,
) -> Result<(Value, BufReader<UnixStream>), Failure> {
    let path = path.map_or_else(default_path, Path::to_path_buf);
    let failed = |error: std::io::Error| {
        Failure::Bad(format!(
            "cannot ask the switch at {}: {error}; is `millrace run` running? if it has another control socket, name it with --ctl",
            path.display()
        ))
    };
    let mut stream = UnixStream::connect(&path).map_err(failed)?;
    let mut line = serde_json::to_vec(request).map_err(Failure::bad)?;
    line.push(b'\n');
    stream.write_all(&line).map_err(failed)?;
    let (mut reply, mut stream) = (String::new(), BufReader::new(stream));
    stream.read_line(&mut reply).map_err(failed)?;
    match serde_json::from_str(&reply)
        .map_err(|e| Failure::Bad(format!("the switch answered nonsense: {e}")))?
    {
        Answer::Result(value) => Ok((value, stream)),
        Answer::Error(text) => Err(Failure::Bad(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_and_answers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ctl");
        let server = Server::start(&path, |request| match request {
            Request::Stats => Ok(Reply::Value(serde_json::json!({"ports": []}))),
            Request::Trace { in_port, .. } => Err(format!("no port {in_port}")),
            Request::Explain
            | Request::Dump { .. }
            | Request::Queue { .. }
            | Request::Conntrack { .. }
            | Request::ConntrackExport
            | Request::ConntrackImport { .. }
            | Request::TakeOver
            | Request::Service { .. }
            | Request::P4Do { .. }
            | Request::P4Load { .. } => Ok(Reply::Value(Value::Null)),
            Request::Capture(_) => Ok(Reply::Stream(Box::new(|mut out| out.write_all(b"frames")))),
        })
        .unwrap();
        assert_eq!(ask(Some(&path), &Request::Stats).unwrap(), serde_json::json!({"ports": []}));
        let refused = ask(Some(&path), &Request::Trace { in_port: 9, packet: String::new() });
        assert!(matches!(refused, Err(Failure::Bad(text)) if text == "no port 9"));
        let mut frames = String::new();
        let capture = Request::Capture(CaptureRequest::default());
        follow(Some(&path), &capture).unwrap().read_to_string(&mut frames).unwrap();
        assert_eq!(frames, "frames");
        assert!(Server::start(&path, |_| Ok(Reply::Value(Value::Null))).is_err());
        let mut raw = UnixStream::connect(&path).unwrap();
        raw.write_all(b"garbage\n").unwrap();
        let mut reply = String::new();
        BufReader::new(&raw).read_line(&mut reply).unwrap();
        assert!(reply.contains("not a request"), "{reply}");
        drop(server);
        assert!(!path.exists());
        assert!(ask(Some(&path), &Request::Stats).is_err());
    }
}
