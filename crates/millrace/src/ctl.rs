//! The control socket, both ends: one JSON object asked, one answered, a line each.
//!
//! The switch listens on a UNIX socket ([`default_path`] unless `--ctl` says otherwise); `trace`,
//! `stats`, `explain` and `dump` ask there. Whoever may connect may look, set egress queues (`queue`),
//! and change a P4 program's entries or the program (`p4 do`, `p4 load`): the system asks for the
//! right to write to the socket's file, which only its owner has, and a group that `--ctl-group` names. What is in the
//! socket's place stays, unless it is a socket that nobody listens on; the file is removed at the end, unless another
//! has taken its place.
//! `capture`'s answer and that of `conntrack export` are streams: after one line that says that it was
//! understood, the capture's bytes until either side closes, or the image's. `run --take-over` holds a conversation
//! there.

use control::failure::Failure;
use of_channel::unix::{self, Found, Identity, SocketFile};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use switch::Pulse;

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
        source: control::program::p4_file::P4Source,
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
    /// What this writes, after a value.
    Stream(Value, Streaming),
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

/// Clients that may wait to be accepted.
const BACKLOG: u32 = 128;
/// The thread that accepts says so often that it lives.
const BEAT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Pause after an error in accepting: out of descriptors, most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where a control socket is to be, and who may ask there beside its owner.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// A group's number.
    pub(crate) group: Option<u32>,
}

impl Place {
    /// Tells what is in the way; `ours` is a socket whose place may be taken.
    pub(crate) fn check(&self, ours: Option<Identity>) -> std::io::Result<()> {
        unix::may_bind(&self.path)?;
        if unix::look(&self.path)? == Found::Live && unix::identity(&self.path) != ours {
            return Err(another());
        }
        Ok(())
    }

    /// A socket there; whoever connects waits until it is served.
    pub(crate) fn open(&self) -> std::io::Result<Socket> {
        unix::clear(&self.path)?;
        if unix::look(&self.path)? == Found::Live {
            return Err(another());
        }
        self.bind(&self.path)
    }

    /// A socket beside it, to be [put](Server::settle) in the place of the one that is there, which another process is
    /// about to leave.
    pub(crate) fn open_beside(&self) -> std::io::Result<Socket> {
        let beside = self.path.with_file_name(format!(".ctl.{}", std::process::id()));
        unix::clear(&beside)?;
        self.bind(&beside)
    }

    fn bind(&self, path: &Path) -> std::io::Result<Socket> {
        let (listener, file) = unix::bind(path, Mode::RUSR | Mode::WUSR, BACKLOG)?;
        if let Some(group) = self.group {
            std::os::unix::fs::lchown(path, None, Some(group))?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
        }
        Ok(Socket { listener, file, place: self.clone() })
    }
}

fn another() -> Error {
    let text = "another switch is listening there; give this one --ctl PATH";
    Error::new(ErrorKind::AddrInUse, text)
}

/// A group by name or number.
pub(crate) fn group(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let groups = std::fs::read_to_string("/etc/group").map_err(|e| format!("/etc/group: {e}"))?;
    let found = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (group, number) = (fields.next()?, fields.nth(1)?);
        (group == name).then(|| number.parse().ok()).flatten()
    });
    found.ok_or_else(|| {
        format!("/etc/group has no group {name:?}; give its name there, or a number")
    })
}

/// A control socket that nobody serves yet.
#[derive(Debug)]
pub(crate) struct Socket {
    listener: UnixListener,
    file: SocketFile,
    place: Place,
}

/// The switch's end; the socket is removed when it is dropped.
pub(crate) struct Server {
    file: SocketFile,
    place: Place,
    /// The thread that accepts ends once the other end is closed.
    _alive: UnixStream,
}

impl Socket {
    /// Answers in the background.
    pub(crate) fn serve(
        self,
        pulse: Option<Pulse>,
        answer: impl Fn(Request) -> Result<Reply, String> + Send + Sync + 'static,
    ) -> std::io::Result<Server> {
        let Socket { listener, file, place } = self;
        let (ends, alive) = UnixStream::pair()?;
        let accepting = move || accept(&listener, &ends, pulse.as_ref(), Arc::new(answer));
        std::thread::Builder::new().name("ctl".into()).spawn(accepting)?;
        Ok(Server { file, place, _alive: alive })
    }
}

impl Server {
    /// Where it listens, or is about to.
    pub(crate) fn path(&self) -> &Path {
        &self.place.path
    }

    /// Puts a socket that was made beside its place there.
    pub(crate) fn settle(&mut self) -> std::io::Result<()> {
        self.file.rename(&self.place.path)
    }
}

/// Accepts clients until the other end of `ends` is closed.
fn accept(
    listener: &UnixListener,
    ends: &UnixStream,
    pulse: Option<&Pulse>,
    answer: Arc<impl Fn(Request) -> Result<Reply, String> + Send + Sync + 'static>,
) {
    let (clients, mut failing) = (Arc::new(()), false);
    if let Some(pulse) = pulse {
        pulse.here();
    }
    loop {
        if let Some(pulse) = pulse {
            pulse.beat();
        }
        let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(ends, PollFlags::IN)];
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, Some(&BEAT));
        if !fds[1].revents().is_empty() {
            return;
        }
        let stream = match listener.accept().and_then(|(stream, _)| {
            stream.set_nonblocking(false)?;
            Ok(stream)
        }) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => {
                // Said once for a run of them.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "cannot accept clients of the control socket");
                }
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        failing = false;
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
                Ok(Reply::Stream(value, write)) => {
                    let mut begun = serde_json::to_vec(&Answer::Result(value))?;
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

/// An outcome as it is answered.
pub(crate) fn answer_of(outcome: Result<Value, String>) -> impl Serialize {
    match outcome {
        Ok(value) => Answer::Result(value),
        Err(text) => Answer::Error(text),
    }
}

/// Asks a running switch.
pub(crate) fn ask(path: Option<&Path>, request: &Request) -> Result<Value, Failure> {
    begin(path, request).map(|(value, _)| value)
}

/// Asks a running switch for what is a stream: the bytes that follow its answer.
pub(crate) fn follow(path: Option<&Path>, request: &Request) -> Result<impl Read, Failure> {
    begin(path, request).map(|(_, rest)| rest)
}

/// Asks a running switch for a conversation; its answer, and what follows.
pub(crate) fn talk(
    path: Option<&Path>,
    request: &Request,
) -> Result<(Value, BufReader<UnixStream>), Failure> {
    begin(path, request)
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
        let place = Place { path: path.clone(), group: None };
        let server = place
            .open()
            .unwrap()
            .serve(None, |request| match request {
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
                Request::Capture(_) => {
                    Ok(Reply::Stream(Value::Null, Box::new(|mut out| out.write_all(b"frames"))))
                }
            })
            .unwrap();
        assert_eq!(ask(Some(&path), &Request::Stats).unwrap(), serde_json::json!({"ports": []}));
        let refused = ask(Some(&path), &Request::Trace { in_port: 9, packet: String::new() });
        assert!(matches!(refused, Err(Failure::Bad(text)) if text == "no port 9"));
        let mut frames = String::new();
        let capture = Request::Capture(CaptureRequest::default());
        follow(Some(&path), &capture).unwrap().read_to_string(&mut frames).unwrap();
        assert_eq!(frames, "frames");
        assert_eq!(place.open().unwrap_err().to_string(), another().to_string());
        let mut raw = UnixStream::connect(&path).unwrap();
        raw.write_all(b"garbage\n").unwrap();
        let mut reply = String::new();
        BufReader::new(&raw).read_line(&mut reply).unwrap();
        assert!(reply.contains("not a request"), "{reply}");
        drop(server);
        assert!(!path.exists());
        assert!(ask(Some(&path), &Request::Stats).is_err());
    }

    fn place(dir: &tempfile::TempDir, name: &str) -> Place {
        Place { path: dir.path().join(name), group: None }
    }

    fn served(socket: Socket) -> Server {
        socket.serve(None, |_| Ok(Reply::Value(Value::Null))).unwrap()
    }

    #[test]
    fn a_socket_is_its_owner_s_or_a_group_s_whatever_the_umask_says() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let own = place(&dir, "own");
        let _own = own.open().unwrap();
        assert_eq!(mode(&own.path), 0o600);
        let gid = rustix::process::getegid().as_raw();
        let shared = Place { group: Some(gid), ..place(&dir, "shared") };
        let _shared = shared.open().unwrap();
        assert_eq!(mode(&shared.path), 0o660);
        let beside = place(&dir, "beside").open_beside().unwrap();
        assert_eq!(mode(beside.file.path()), 0o600);
        assert_eq!((group("0"), group("root")), (Ok(0), Ok(0)));
        assert!(group("no such group").unwrap_err().contains("has no group \"no such group\""));
    }

    #[test]
    fn what_is_no_stale_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = place(&dir, "precious.toml");
        std::fs::write(&file.path, "precious").unwrap();
        let error = file.open().unwrap_err().to_string();
        assert!(error.contains("no socket") && file.check(None).is_err(), "{error}");
        assert_eq!(std::fs::read_to_string(&file.path).unwrap(), "precious");
        let link = place(&dir, "link");
        std::os::unix::fs::symlink(&file.path, &link.path).unwrap();
        assert!(link.open().is_err() && link.path.is_symlink());
        let folder = place(&dir, "folder");
        std::fs::create_dir(&folder.path).unwrap();
        assert!(folder.open().is_err() && folder.path.is_dir());
        let live = place(&dir, "live");
        let first = served(live.open().unwrap());
        let which = unix::identity(&live.path);
        assert!(live.open().is_err() && live.check(None).is_err());
        assert!(live.check(which).is_ok(), "its place may be taken by who takes over");
        assert_eq!(unix::identity(&live.path), which);
        drop(first);
        let nowhere = Place { path: dir.path().join("no/such/folder"), group: None };
        assert!(nowhere.check(None).is_err() && nowhere.open().is_err());
    }

    #[test]
    fn one_that_ends_leaves_the_socket_of_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let at = place(&dir, "ctl");
        let first = served(at.open().unwrap());
        std::fs::remove_file(&at.path).unwrap();
        let second = served(at.open().unwrap());
        drop(first);
        assert!(ask(Some(&at.path), &Request::Stats).is_ok());
        // One that takes over puts its own in the place of the one that is there.
        let mut third = served(at.open_beside().unwrap());
        assert!(ask(Some(&at.path), &Request::Stats).is_ok());
        let before = unix::identity(&at.path);
        third.settle().unwrap();
        assert_ne!(unix::identity(&at.path), before);
        drop(second);
        assert!(ask(Some(&at.path), &Request::Stats).is_ok());
        drop(third);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
