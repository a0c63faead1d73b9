//! Connects to a control socket, and asks one question there.

use crate::doors::path_for;
use crate::failure::Failure;
use crate::protocol::{Answer, Request};
use crate::role::Role;
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Where the socket is unless `--ctl` says otherwise: in the user's run-time folder, `/run` for root.
pub fn default_path() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/run/millrace.ctl");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) => PathBuf::from(dir).join("millrace.ctl"),
        None => std::env::temp_dir()
            .join(format!("millrace-{}.ctl", rustix::process::getuid().as_raw())),
    }
}

/// Where the package's service has its socket.
const OF_THE_SERVICE: &str = "/run/millrace/millrace.ctl";

/// Where a client looks unless `--ctl` says otherwise: there, or where the package's service is.
fn usual_path() -> PathBuf {
    let own = default_path();
    let service = Path::new(OF_THE_SERVICE);
    if own.symlink_metadata().is_err() && service.symlink_metadata().is_ok() {
        return service.to_owned();
    }
    own
}

/// By the socket of the role that the caller has.
fn connect(path: &Path) -> std::io::Result<UnixStream> {
    let refused = match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => error,
        connected => return connected,
    };
    let others = Role::OTHERS.iter().rev();
    let mut others = others.filter_map(|role| UnixStream::connect(path_for(path, *role)).ok());
    others.next().ok_or(refused)
}

/// Asks a running switch for a conversation; its answer, and what follows.
pub(crate) fn talk(
    path: Option<&Path>,
    bridge: Option<&str>,
    verb: &str,
    arguments: Value,
) -> Result<(Value, BufReader<UnixStream>), Failure> {
    let path = path.map_or_else(usual_path, Path::to_path_buf);
    let failed = |error: std::io::Error| {
        Failure::Bad(format!(
            "cannot ask the switch at {}: {error}; is `millrace run` running? if it has another control socket, name it with --ctl",
            path.display()
        ))
    };
    let mut stream = connect(&path).map_err(failed)?;
    let request = Request { verb: verb.to_owned(), bridge: bridge.map(str::to_owned), arguments };
    stream.write_all(&request.line().map_err(Failure::bad)?).map_err(failed)?;
    let (mut reply, mut stream) = (String::new(), BufReader::new(stream));
    stream.read_line(&mut reply).map_err(failed)?;
    match serde_json::from_str(&reply).map_err(|e| nonsense(&e))? {
        Answer::Result(value) => Ok((value, stream)),
        Answer::Error(text) => Err(Failure::Bad(text)),
    }
}

pub(crate) fn nonsense(error: &serde_json::Error) -> Failure {
    Failure::Bad(format!("the switch answered nonsense: {error}"))
}
