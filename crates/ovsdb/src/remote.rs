//! Where a server is: `unix:PATH`, `tcp:HOST[:PORT]`, `ssl:HOST[:PORT]`, in the words of ovsdb(7).

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// OVSDB's port (IANA).
pub const PORT_DEFAULT: u16 = 6640;

/// A server to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    /// A UNIX domain socket.
    Unix(PathBuf),
    /// TCP.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// TLS over TCP.
    Tls {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
}

/// Why a text names no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// Another kind.
    #[error("{0}: unix:PATH, tcp:HOST[:PORT] or ssl:HOST[:PORT] was expected")]
    Kind(String),
    /// A server that connects to its clients.
    #[error("{0}: this client connects to servers, it does not listen for them: use {1}")]
    Passive(String, &'static str),
    /// Nothing after the kind.
    #[error("{0}: {1} is missing")]
    Missing(String, &'static str),
    /// No port.
    #[error("{0}: {1} is no port: a number from 1 to 65535 was expected")]
    Port(String, String),
}

/// `HOST:PORT`, `[V6]:PORT`, `HOST`, `[V6]`, or a bare IPv6 address.
fn host_and_port(spec: &str, rest: &str) -> Result<(String, u16), RemoteError> {
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, tail)) => (host, Some(tail.strip_prefix(':').unwrap_or(tail))),
        None => match rest.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => (rest, None),
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    if host.is_empty() {
        return Err(RemoteError::Missing(spec.to_owned(), "the host"));
    }
    let number = match port {
        None => PORT_DEFAULT,
        Some(port) => match port.parse() {
            Ok(number) if number != 0 => number,
            _ => return Err(RemoteError::Port(spec.to_owned(), port.to_owned())),
        },
    };
    Ok((host.to_owned(), number))
}

impl FromStr for Remote {
    type Err = RemoteError;

    fn from_str(spec: &str) -> Result<Remote, RemoteError> {
        let Some((kind, rest)) = spec.split_once(':') else {
            return Err(RemoteError::Kind(spec.to_owned()));
        };
        match kind {
            "unix" if rest.is_empty() => {
                Err(RemoteError::Missing(spec.to_owned(), "the socket's path"))
            }
            "unix" => Ok(Remote::Unix(PathBuf::from(rest))),
            "tcp" => host_and_port(spec, rest).map(|(host, port)| Remote::Tcp { host, port }),
            "ssl" | "tls" => {
                host_and_port(spec, rest).map(|(host, port)| Remote::Tls { host, port })
            }
            "punix" => Err(RemoteError::Passive(spec.to_owned(), "unix:PATH")),
            "ptcp" => Err(RemoteError::Passive(spec.to_owned(), "tcp:HOST[:PORT]")),
            "pssl" | "ptls" => Err(RemoteError::Passive(spec.to_owned(), "ssl:HOST[:PORT]")),
            _ => Err(RemoteError::Kind(spec.to_owned())),
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, host, port) = match self {
            Remote::Unix(path) => return write!(f, "unix:{}", path.display()),
            Remote::Tcp { host, port } => ("tcp", host, port),
            Remote::Tls { host, port } => ("ssl", host, port),
        };
        match host.contains(':') {
            true => write!(f, "{kind}:[{host}]:{port}"),
            false => write!(f, "{kind}:{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_read_and_printed() {
        for (text, printed) in [
            ("unix:/run/db.sock", "unix:/run/db.sock"),
            ("tcp:127.0.0.1", "tcp:127.0.0.1:6640"),
            ("tcp:db:1", "tcp:db:1"),
            ("tcp:::1", "tcp:[::1]:6640"),
            ("tcp:[::1]:7", "tcp:[::1]:7"),
            ("tcp:[::1]", "tcp:[::1]:6640"),
            ("ssl:db", "ssl:db:6640"),
            ("tls:db", "ssl:db:6640"),
        ] {
            assert_eq!(text.parse::<Remote>().expect(text).to_string(), printed);
        }
    }

    #[test]
    fn errors_say_what_was_expected() {
        let error = |text: &str| text.parse::<Remote>().expect_err(text).to_string();
        assert!(error("db").contains("unix:PATH, tcp:HOST[:PORT] or ssl:HOST[:PORT]"));
        assert!(error("udp:db").contains("unix:PATH"));
        assert_eq!(error("unix:"), "unix:: the socket's path is missing");
        assert_eq!(error("tcp:"), "tcp:: the host is missing");
        assert!(error("tcp:db:0").contains("0 is no port"));
        assert!(error("tcp:[::1]x").contains("x is no port"));
        assert!(error("ptcp:6640").ends_with("use tcp:HOST[:PORT]"));
    }
}
