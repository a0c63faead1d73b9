//! Where a collector of OpenTelemetry is, by `--otlp` and what belongs to it.

use crate::failure::Failure;
use std::time::Duration;

/// Where a collector is, and what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpAt {
    pub(crate) endpoint: Endpoint,
    /// What of a switch's work is slow.
    pub(crate) slow_from: Duration,
}

/// The same unless the options say otherwise.
const SLOW_MS: u64 = 100;

/// By `--otlp` and `--otlp-slow`.
pub fn otlp_at(url: Option<&str>, slow_ms: Option<u64>) -> Result<Option<OtlpAt>, Failure> {
    let Some(url) = url else {
        return match slow_ms {
            None => Ok(None),
            Some(_) => Err(Failure::usage("--otlp-slow is of --otlp: give it, too")),
        };
    };
    let endpoint = Endpoint::read(url).map_err(|e| Failure::Usage(format!("--otlp {url}: {e}")))?;
    let slow_from = Duration::from_millis(slow_ms.unwrap_or(SLOW_MS));
    Ok(Some(OtlpAt { endpoint, slow_from }))
}

/// OTLP's port over HTTP.
const PORT: u16 = 4318;

/// Where a collector is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// A name or an address; of IPv6 without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Before `/v1/logs`; empty mostly.
    pub(crate) path: String,
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

impl Endpoint {
    /// Of `http://HOST[:PORT][/PATH]`.
    fn read(url: &str) -> Result<Endpoint, String> {
        let expected = "http://HOST[:PORT] was expected, as in http://127.0.0.1:4318";
        if url.starts_with("https://") {
            return Err(
                "there is no TLS to collectors: name one at this machine, by http://".to_owned()
            );
        }
        let rest = url.strip_prefix("http://").ok_or(expected)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.trim_end_matches('/');
        let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        if authority.is_empty()
            || authority.contains('@')
            || !is_plain(url)
            || path.contains(['?', '#'])
        {
            return Err(expected.to_owned());
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(v6) => v6.split_once(']').ok_or(expected)?,
            None => authority.find(':').map_or((authority, ""), |at| authority.split_at(at)),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| expected)?,
            None if port.is_empty() => PORT,
            None => return Err(expected.to_owned()),
        };
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        match host.is_empty() {
            true => Err(expected.to_owned()),
            false => Ok(Endpoint { host: host.to_owned(), port, path }),
        }
    }

    /// As `Host` has it.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slow_is_said_with_a_collector_alone() {
        let of = |url, slow| otlp_at(url, slow).map(|at| at.map(|at| at.slow_from.as_millis()));
        assert!(matches!(of(None, None), Ok(None)));
        assert!(matches!(of(Some("http://c"), None), Ok(Some(100))));
        assert!(matches!(of(Some("http://c"), Some(7)), Ok(Some(7))));
        assert!(of(None, Some(7)).is_err() && of(Some("c"), None).is_err());
    }

    #[test]
    fn endpoints_are_read_and_others_refused() {
        let of = |url: &str| Endpoint::read(url).map(|endpoint| endpoint.to_string());
        assert_eq!(of("http://collector"), Ok("http://collector:4318".to_owned()));
        assert_eq!(of("http://127.0.0.1:7/"), Ok("http://127.0.0.1:7".to_owned()));
        assert_eq!(of("http://[::1]:7/a/b/"), Ok("http://[::1]:7/a/b".to_owned()));
        assert!(of("https://collector").unwrap_err().contains("no TLS"));
        for url in [
            "collector:4318",
            "http://",
            "http://:1",
            "http://a:b",
            "http://a@b",
            "http://[::1",
            "http://[::1]x",
            "http://a/ b",
            "http://a/?x",
        ] {
            assert!(of(url).unwrap_err().contains("http://HOST[:PORT]"), "{url}");
        }
    }
}
