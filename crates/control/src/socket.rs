//! The server's end of the control socket ([`protocol`](crate::protocol)).
//!
//! The switch listens on a UNIX socket ([`default_path`](crate::client::default_path) unless `--ctl` says otherwise).
//! Whoever may connect may look and change: the system asks for the right to write to the socket's file, which only its
//! owner has, and a group that `--ctl-group` names. What is in the socket's place stays, unless it is a socket that
//! nobody listens on; the file is removed at the end, unless another has taken its place.

use crate::protocol::{Answer, REQUEST_MAX, Reply, Request, line};
use of_channel::unix::{self, Found, Identity, SocketFile};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use serde_json::Value;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use switch::Pulse;

/// A client that says nothing for so long is let go.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections served at the same time, at most.
const CLIENTS_MAX: usize = 32;

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
        let beside = self.path.file_name().unwrap_or_default().display();
        let beside = self.path.with_file_name(format!(".{beside}.{}", std::process::id()));
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
        answer: impl Fn(Request) -> Result<Reply<Value>, String> + Send + Sync + 'static,
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
    answer: Arc<impl Fn(Request) -> Result<Reply<Value>, String> + Send + Sync + 'static>,
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
            // Whoever does not listen is not told.
            let _ = (&stream).write_all(&line(&error).unwrap_or_default());
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
    answer: &(impl Fn(Request) -> Result<Reply<Value>, String> + ?Sized),
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut lines = BufReader::new(stream.take(REQUEST_MAX));
    let mut asked = Vec::new();
    while lines.read_until(b'\n', &mut asked)? > 0 {
        let outcome = match Request::read(&asked) {
            Ok(request) => answer(request),
            Err(error) => Err(format!("not a request: {error}")),
        };
        match outcome {
            Ok(Reply::Stream(value, write)) => {
                stream.write_all(&line(&Answer::Result(value))?)?;
                // A reader may pause for as long as it likes.
                stream.set_write_timeout(None)?;
                return write(stream);
            }
            Ok(Reply::Answer(value)) => stream.write_all(&line(&Answer::Result(value))?)?,
            Err(text) => stream.write_all(&line(&Answer::Error(text))?)?,
        }
        asked.clear();
        lines.get_mut().set_limit(REQUEST_MAX);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ask, follow};
    use crate::failure::Failure;
    use crate::verbs::{capture::Capture, stats::Stats, trace::Trace};

    #[test]
    fn asks_and_answers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ctl");
        let place = Place { path: path.clone(), group: None };
        let server = place
            .open()
            .unwrap()
            .serve(None, |request| match &request.verb[..] {
                "stats" => Ok(Reply::Answer(serde_json::json!({"ports": []}))),
                "trace" => Err(format!("no port {}", request.arguments["in_port"])),
                "capture" => {
                    Ok(Reply::Stream(Value::Null, Box::new(|mut out| out.write_all(b"frames"))))
                }
                verb => panic!("{verb}"),
            })
            .unwrap();
        assert_eq!(ask(Some(path.as_path()), &Stats {}).unwrap(), serde_json::json!({"ports": []}));
        let refused = ask(Some(path.as_path()), &Trace { in_port: 9, packet: String::new() });
        assert!(matches!(refused, Err(Failure::Bad(text)) if text == "no port 9"));
        let mut frames = String::new();
        follow(Some(path.as_path()), &Capture::default())
            .unwrap()
            .read_to_string(&mut frames)
            .unwrap();
        assert_eq!(frames, "frames");
        assert_eq!(place.open().unwrap_err().to_string(), another().to_string());
        let mut raw = UnixStream::connect(&path).unwrap();
        for wrong in ["garbage", "{}", "{\"command\":1}", "[]"] {
            raw.write_all(format!("{wrong}\n").as_bytes()).unwrap();
            let mut reply = String::new();
            BufReader::new(&raw).read_line(&mut reply).unwrap();
            assert!(reply.contains("not a request"), "{reply}");
        }
        drop(server);
        assert!(!path.exists());
        assert!(ask(Some(path.as_path()), &Stats {}).is_err());
    }

    fn place(dir: &tempfile::TempDir, name: &str) -> Place {
        Place { path: dir.path().join(name), group: None }
    }

    fn served(socket: Socket) -> Server {
        socket.serve(None, |_| Ok(Reply::Answer(Value::Null))).unwrap()
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
        assert!(ask(Some(at.path.as_path()), &Stats {}).is_ok());
        // One that takes over puts its own in the place of the one that is there.
        let mut third = served(at.open_beside().unwrap());
        assert!(ask(Some(at.path.as_path()), &Stats {}).is_ok());
        let before = unix::identity(&at.path);
        third.settle().unwrap();
        assert_ne!(unix::identity(&at.path), before);
        drop(second);
        assert!(ask(Some(at.path.as_path()), &Stats {}).is_ok());
        drop(third);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
