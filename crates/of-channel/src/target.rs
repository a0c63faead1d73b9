//! Where controllers are: `tcp:HOST[:PORT]` and `tls:HOST[:PORT]` to connect to,
//! `ptcp:[PORT][:ADDR]`, `pssl:[PORT][:ADDR]` and `punix:PATH` to listen on. The words are Open
//! vSwitch's, older and newer (`ssl:` is `tls:`, `ptls:` is `pssl:`); the port defaults to 6653 (IANA).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// OpenFlow's port.
pub const PORT_DEFAULT: u16 = 6653;

/// A controller to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// By TLS.
    pub tls: bool,
}

/// Where to listen for controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// TCP.
    Tcp {
        /// Address to bind; all, unless given.
        address: IpAddr,
        /// Port; 0 takes a free one.
        port: u16,
    },
    /// TLS over TCP.
    Tls {
        /// Address to bind; all, unless given.
        address: IpAddr,
        /// Port; 0 takes a free one.
        port: u16,
    },
    /// A UNIX domain socket.
    Unix(PathBuf),
}

impl Listen {
    /// Its TCP port, if it has one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Listen::Tcp { port, .. } | Listen::Tls { port, .. } => Some(*port),
            Listen::Unix(_) => None,
        }
    }

    /// Its file, if it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Listen::Tcp { .. } | Listen::Tls { .. } => None,
            Listen::Unix(path) => Some(path),
        }
    }
}

/// What is wrong with a specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Not one of the kinds.
    #[error("{0}: expected {1}")]
    Kind(String, &'static str),
    /// No host.
    #[error("{0}: the host is missing: tcp:HOST[:PORT]")]
    Host(String),
    /// The port is no number below 65536.
    #[error("{spec}: {port} is no port: a number from 1 to 65535 was expected")]
    Port {
        /// The whole specification.
        spec: String,
        /// The part.
        port: String,
    },
    /// The address is none.
    #[error("{spec}: {address} is no IP address")]
    Address {
        /// The whole specification.
        spec: String,
        /// The part.
        address: String,
    },
    /// No path.
    #[error("{0}: the path is missing: punix:PATH")]
    Path(String),
}

/// `HOST:PORT`, `[V6]:PORT`, `HOST`, `[V6]`, or a bare IPv6 address.
fn split_port(s: &str) -> (&str, Option<&str>) {
    if let Some(rest) = s.strip_prefix('[')
        && let Some((host, tail)) = rest.split_once(']')
    {
        return (host, tail.strip_prefix(':'));
    }
    match s.rsplit_once(':') {
        Some((host, _)) if host.contains(':') => (s, None),
        Some((host, port)) => (host, Some(port)),
        None => (s, None),
    }
}

fn port(spec: &str, text: &str) -> Result<u16, TargetError> {
    text.parse().map_err(|_| TargetError::Port { spec: spec.to_string(), port: text.to_string() })
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(spec: &str) -> Result<Target, TargetError> {
        let secure = spec.strip_prefix("tls:").or_else(|| spec.strip_prefix("ssl:"));
        let tls = secure.is_some();
        let rest = secure.or_else(|| spec.strip_prefix("tcp:")).ok_or_else(|| {
            TargetError::Kind(spec.to_string(), "tcp:HOST[:PORT] or tls:HOST[:PORT]")
        })?;
        let (host, number) = split_port(rest);
        if host.is_empty() {
            return Err(TargetError::Host(spec.to_string()));
        }
        let port = number.map_or(Ok(PORT_DEFAULT), |n| port(spec, n))?;
        Ok(Target { host: host.to_string(), port, tls })
    }
}

impl FromStr for Listen {
    type Err = TargetError;

    fn from_str(spec: &str) -> Result<Listen, TargetError> {
        if let Some(path) = spec.strip_prefix("punix:") {
            if path.is_empty() {
                return Err(TargetError::Path(spec.to_string()));
            }
            return Ok(Listen::Unix(PathBuf::from(path)));
        }
        let after = |word: &str| match spec.strip_prefix(word)? {
            "" => Some(""),
            rest => rest.strip_prefix(':'),
        };
        let secure = after("pssl").or_else(|| after("ptls"));
        let tls = secure.is_some();
        let rest = secure.or_else(|| after("ptcp")).ok_or_else(|| {
            let right = "ptcp:[PORT][:ADDR], pssl:[PORT][:ADDR] or punix:PATH";
            TargetError::Kind(spec.to_string(), right)
        })?;
        let (number, address) = match rest.split_once(':') {
            Some((number, address)) => (number, address),
            None => (rest, ""),
        };
        let port = if number.is_empty() { PORT_DEFAULT } else { port(spec, number)? };
        let bare = address.trim_start_matches('[').trim_end_matches(']');
        let address = if bare.is_empty() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        } else {
            bare.parse().map_err(|_| TargetError::Address {
                spec: spec.to_string(),
                address: address.to_string(),
            })?
        };
        Ok(if tls { Listen::Tls { address, port } } else { Listen::Tcp { address, port } })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.tls { "tls" } else { "tcp" };
        if self.host.contains(':') {
            write!(f, "{word}:[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{word}:{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, address, port) = match self {
            Listen::Tcp { address, port } => ("ptcp", address, port),
            Listen::Tls { address, port } => ("pssl", address, port),
            Listen::Unix(path) => return write!(f, "punix:{}", path.display()),
        };
        match address {
            IpAddr::V4(a) if a.is_unspecified() => write!(f, "{word}:{port}"),
            IpAddr::V4(a) => write!(f, "{word}:{port}:{a}"),
            IpAddr::V6(a) => write!(f, "{word}:{port}:[{a}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let t = |s: &str| s.parse::<Target>().map(|t| t.to_string());
        assert_eq!(t("tcp:10.0.0.1").unwrap(), "tcp:10.0.0.1:6653");
        assert_eq!(t("tcp:controller:6633").unwrap(), "tcp:controller:6633");
        assert_eq!(t("tcp:[::1]:6633").unwrap(), "tcp:[::1]:6633");
        assert_eq!(t("tcp:::1").unwrap(), "tcp:[::1]:6653");
        assert_eq!(t("tcp:").unwrap_err(), TargetError::Host("tcp:".into()));
        assert_eq!(
            t("tcp:a:70000").unwrap_err().to_string(),
            "tcp:a:70000: 70000 is no port: a number from 1 to 65535 was expected"
        );
        assert_eq!(t("tls:a").unwrap(), "tls:a:6653");
        assert_eq!(t("ssl:[::1]:1").unwrap(), "tls:[::1]:1");
        assert_eq!(
            t("a:1").unwrap_err().to_string(),
            "a:1: expected tcp:HOST[:PORT] or tls:HOST[:PORT]"
        );
    }

    #[test]
    fn listeners() {
        let l = |s: &str| s.parse::<Listen>().map(|l| l.to_string());
        assert_eq!(l("ptcp:").unwrap(), "ptcp:6653");
        assert_eq!(l("ptcp").unwrap(), "ptcp:6653");
        assert_eq!(l("ptcp:6634:127.0.0.1").unwrap(), "ptcp:6634:127.0.0.1");
        assert_eq!(l("ptcp::127.0.0.1").unwrap(), "ptcp:6653:127.0.0.1");
        assert_eq!(l("ptcp:1:[::1]").unwrap(), "ptcp:1:[::1]");
        assert_eq!(l("punix:/tmp/x").unwrap(), "punix:/tmp/x");
        assert!(matches!(l("punix:"), Err(TargetError::Path(_))));
        assert!(matches!(l("ptcp:1:host"), Err(TargetError::Address { .. })));
        assert_eq!(l("pssl:").unwrap(), "pssl:6653");
        assert_eq!(l("ptls:1:127.0.0.1").unwrap(), "pssl:1:127.0.0.1");
        assert!(matches!(l("ptcpx:1"), Err(TargetError::Kind(..))));
        assert!(matches!(l("tcp:a"), Err(TargetError::Kind(..))));
    }
}
