//! One request to a collector: HTTP/1.1, a connection for each, bounded in time and in what is read.
//!
//! What an answer means is OTLP's: 200 with `partialSuccess` tells what was rejected; 429, 502, 503 and 504 ask to come again,
//! after `Retry-After` seconds if they say so; all others are final.

use crate::config::Endpoint;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// How long a connection, a write and a read may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// An answer is read so far.
const ANSWER_MAX: u64 = 64 * 1024;
/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It was taken, but for so many records.
    Taken { rejected: u64 },
    /// It is to be asked again, after so long if the collector says so.
    Later { why: String, after: Option<Duration> },
    /// It will never be taken.
    Refused(String),
}

/// Sends a body of JSON.
pub(super) fn post(endpoint: &Endpoint, path: &str, body: &str) -> Answer {
    match exchange(endpoint, path, body) {
        Ok(answer) => read(&answer),
        Err(error) => Answer::Later { why: error.to_string(), after: None },
    }
}

fn exchange(endpoint: &Endpoint, path: &str, body: &str) -> std::io::Result<Vec<u8>> {
    let mut last = None;
    for address in (endpoint.host.as_str(), endpoint.port).to_socket_addrs()? {
        let mut stream = match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => stream,
            Err(error) => {
                last = Some(error);
                continue;
            }
        };
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let head = format!(
            "POST {}{path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: millrace/{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            endpoint.path,
            endpoint.authority(),
            env!("CARGO_PKG_VERSION"),
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
        return Ok(answer);
    }
    Err(last.unwrap_or_else(|| std::io::Error::other("the name has no address")))
}

/// What an answer means.
fn read(answer: &[u8]) -> Answer {
    let later = |why: String| Answer::Later { why, after: None };
    let Some(end) = answer.windows(4).position(|at| at == b"\r\n\r\n") else {
        return later("the answer ended in its head".to_owned());
    };
    let head = String::from_utf8_lossy(&answer[..end]);
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let Some(code) = status.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok()) else {
        return later("the answer is not HTTP".to_owned());
    };
    let after = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case("retry-after");
        is_it.then(|| value.trim().parse().ok().map(Duration::from_secs)).flatten()
    });
    match code {
        200..300 => Answer::Taken { rejected: rejected(&answer[end + 4..]) },
        429 | 502..=504 => Answer::Later { why: status.to_owned(), after },
        _ => Answer::Refused(status.to_owned()),
    }
}

/// Records that were not taken, by `partialSuccess`. A body in chunks is looked through for its object.
fn rejected(body: &[u8]) -> u64 {
    let from = body.iter().position(|b| *b == b'{').unwrap_or(body.len());
    let to = body.iter().rposition(|b| *b == b'}').map_or(from, |at| at + 1);
    let told: Value = serde_json::from_slice(&body[from..to.max(from)]).unwrap_or_default();
    let partial = &told["partialSuccess"];
    let count = ["rejectedLogRecords", "rejectedSpans"].into_iter().find_map(|name| {
        let value = &partial[name];
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    });
    count.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_mean_what_otlp_says() {
        let of = |text: &str| read(text.as_bytes());
        assert_eq!(of("HTTP/1.1 200 OK\r\n\r\n{}"), Answer::Taken { rejected: 0 });
        assert_eq!(of("HTTP/1.1 200 OK\r\n\r\n"), Answer::Taken { rejected: 0 });
        let part = "HTTP/1.1 200 OK\r\n\r\n2f\r\n{\"partialSuccess\":{\"rejectedLogRecords\":\"3\"}}\r\n0\r\n\r\n";
        assert_eq!(of(part), Answer::Taken { rejected: 3 });
        let busy = of("HTTP/1.1 503 Busy\r\nretry-after: 7\r\n\r\n");
        let after = Some(Duration::from_secs(7));
        assert_eq!(busy, Answer::Later { why: "HTTP/1.1 503 Busy".to_owned(), after });
        assert_eq!(of("HTTP/1.1 400 Bad\r\n\r\n"), Answer::Refused("HTTP/1.1 400 Bad".to_owned()));
        assert!(matches!(of("SSH-2.0\r\n\r\n"), Answer::Later { .. }));
        assert!(matches!(of("HTTP/1.1 200 OK\r\n"), Answer::Later { .. }));
    }
}
