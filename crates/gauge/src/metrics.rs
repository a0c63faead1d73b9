//! The switch's own metrics, as it tells them to Prometheus: the management channel of switches that are programs.
//!
//! In: the address of a page in the text exposition format, version 0.0.4. Out: each sample by its name with its
//! labels. Plain HTTP/1.0 is asked for, so that the answer ends with the connection.
//!
//! Holds true: an answer longer than [`BYTES_MAX`] is refused, one that does not end within [`PATIENCE`] likewise; no
//! text panics.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The longest answer, in bytes.
pub const BYTES_MAX: usize = 16 << 20;
/// The longest that an answer may take.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Fetches and reads a page: `http://HOST:PORT/PATH`.
pub fn scrape(url: &str) -> Result<BTreeMap<String, f64>, String> {
    let form = || format!("{url}: expected http://HOST:PORT/PATH");
    let rest = url.strip_prefix("http://").ok_or_else(form)?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, "metrics"));
    if path.contains(|c: char| c.is_control() || c == ' ') || host.is_empty() {
        return Err(form());
    }
    let failed = |e: std::io::Error| format!("{url}: {e}");
    let address = host.to_socket_addrs().map_err(failed)?.next().ok_or_else(form)?;
    let until = Instant::now() + PATIENCE;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\nAccept: text/plain\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let (mut answer, mut chunk) = (Vec::new(), [0; 1 << 16]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("{url}: no whole answer within {} s", PATIENCE.as_secs()));
        }
        stream.set_read_timeout(Some(left)).map_err(failed)?;
        match stream.read(&mut chunk).map_err(failed)? {
            0 => break,
            n => answer.extend_from_slice(&chunk[..n]),
        }
        if answer.len() > BYTES_MAX {
            return Err(format!("{url}: the answer is longer than {BYTES_MAX} bytes"));
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| format!("{url}: no HTTP answer"))?;
    let status = head.lines().next().unwrap_or("");
    if status.split_whitespace().nth(1) != Some("200") {
        return Err(format!("{url}: {status}"));
    }
    Ok(samples(body))
}

/// Reads samples, one a line: `NAME VALUE` or `NAME{LABELS} VALUE`, perhaps with a time behind. Other lines are
/// passed over.
pub fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|l| !l.starts_with('#')) {
        // A label's value may hold blanks and braces; what follows the last brace holds none.
        let at = match line.rfind('}') {
            Some(brace) => brace + 1,
            None => line.find(' ').unwrap_or(line.len()),
        };
        let (name, rest) = line.split_at(at);
        let value = rest.split_whitespace().next().and_then(|v| v.parse().ok());
        if let (false, Some(value)) = (name.is_empty(), value) {
            found.insert(name.to_string(), value);
        }
    }
    found
}

/// Any text. A fuzz target's body.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    for (name, _) in samples(&String::from_utf8_lossy(data)) {
        assert!(!name.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn samples_are_read_with_their_labels() {
        let text =
            "# HELP a b\na 1\nb{x=\"y z} 3\",p=\"1\"} 2.5 170000\n\nc NaN\nd\n{} x\ne +Inf\n";
        let found = samples(text);
        assert_eq!(found["a"], 1.0);
        assert_eq!(found["b{x=\"y z} 3\",p=\"1\"}"], 2.5);
        assert!(found["c"].is_nan() && found["e"].is_infinite());
        assert_eq!(found.len(), 4);
        let mut prng = port::prng::Prng::new(1);
        for _ in 0..2000 {
            let bytes: Vec<u8> =
                (0..prng.below(60)).map(|_| b"ab{}\" 1.#\n\xff"[prng.below(11) as usize]).collect();
            fuzz(&bytes);
        }
    }

    fn serve(answer: &'static str) -> Result<BTreeMap<String, f64>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let n = stream.read(&mut request).unwrap();
            assert!(request[..n].starts_with(b"GET /metrics HTTP/1.0\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let found = scrape(&url);
        server.join().unwrap();
        found
    }

    #[test]
    fn a_page_is_fetched_or_the_reason_told() {
        assert_eq!(serve("HTTP/1.1 200 OK\r\nA: b\r\n\r\nx_total 7\n").unwrap()["x_total"], 7.0);
        assert!(serve("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err().contains("404"));
        assert!(serve("nonsense").unwrap_err().contains("no HTTP answer"));
        assert!(scrape("https://x/").unwrap_err().contains("expected http://HOST:PORT/PATH"));
        assert!(scrape("http:///x").unwrap_err().contains("expected"));
    }
}
