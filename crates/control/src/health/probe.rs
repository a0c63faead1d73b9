//! One question to one backend, within a time.
//!
//! TCP: a connection that opens is an answer. HTTP: a status line with a status that is expected. ICMP: an echo reply with the
//! same identifier, number and octets; by a ping socket, or a raw one where the kernel gives no ping sockets
//! (`net.ipv4.ping_group_range`).
//!
//! Bounded: of an HTTP answer [`HEAD_MAX`] octets are read.

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use service::balance::check::{Ask, Check};
use std::io::Error;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

/// Octets of an HTTP answer's first line, at most.
const HEAD_MAX: usize = 512;

/// Asks a backend: how many nanoseconds the answer took, or why it is none.
pub(super) async fn ask(check: &Check, host: IpAddr) -> Result<u64, String> {
    let begin = Instant::now();
    let answer = async {
        match &check.ask {
            Ask::Tcp => connect(check, host).await.map(drop),
            Ask::Http { path, host: name, expect } => http(check, host, path, name, *expect).await,
            Ask::Icmp => echo(check, host).await,
        }
    };
    match tokio::time::timeout(check.timeout, answer).await {
        Err(_) => Err(format!("no answer within {} ms", check.timeout.as_millis())),
        Ok(Err(why)) => Err(why),
        Ok(Ok(())) => Ok(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX)),
    }
}

/// What the kernel says, without its number.
fn says(error: &Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_ascii_lowercase(),
        None => text,
    }
}

async fn connect(check: &Check, host: IpAddr) -> Result<TcpStream, String> {
    let socket = if host.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let begun = socket.and_then(|socket| {
        if !check.device.is_empty() {
            socket.bind_device(Some(check.device.as_bytes()))?;
        }
        if let Some(source) = check.source {
            socket.bind(SocketAddr::new(source, 0))?;
        }
        Ok(socket)
    });
    let socket = begun.map_err(|error| says(&error))?;
    let stream = socket.connect(SocketAddr::new(host, check.port)).await;
    stream.map_err(|error| says(&error))
}

async fn http(
    check: &Check,
    host: IpAddr,
    path: &str,
    name: &str,
    (first, last): (u16, u16),
) -> Result<(), String> {
    let mut stream = connect(check, host).await?;
    let own = SocketAddr::new(host, check.port).to_string();
    let name = if name.is_empty() { &own } else { name };
    let question = format!(
        "GET {path} HTTP/1.1\r\nHost: {name}\r\nUser-Agent: millrace-check\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(question.as_bytes()).await.map_err(|error| says(&error))?;
    let mut head = Vec::new();
    let mut part = [0; HEAD_MAX];
    while !head.contains(&b'\n') && head.len() < HEAD_MAX {
        let n = stream.read(&mut part).await.map_err(|error| says(&error))?;
        if n == 0 {
            break;
        }
        head.extend_from_slice(&part[..n]);
    }
    let line = head.split(|octet| *octet == b'\n').next().unwrap_or_default();
    match status(line) {
        None => Err("what it answers is no HTTP".to_owned()),
        Some(status) if (first..=last).contains(&status) => Ok(()),
        Some(status) => Err(format!("status {status}")),
    }
}

/// The status of an answer's first line.
fn status(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    words.next().filter(|version| version.starts_with("HTTP/"))?;
    words.next()?.parse().ok().filter(|status| (100..=999).contains(status))
}

/// The octets of an echo request, behind its header.
const ECHO: &[u8] = b"millrace-check";

async fn echo(check: &Check, host: IpAddr) -> Result<(), String> {
    let (socket, raw) = echo_socket(check, host).map_err(|error| says(&error))?;
    let (request, reply) = if host.is_ipv4() { (8, 0) } else { (128, 129) };
    // A raw socket hears all replies of the host: the identifier is this question's.
    let ident = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0) as u16;
    let [high, low] = ident.to_be_bytes();
    let mut message = vec![request, 0, 0, 0, high, low, 0, 1];
    message.extend_from_slice(ECHO);
    if host.is_ipv4() {
        let sum = !wire::checksum::sum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    socket.send(&message).await.map_err(|error| says(&error))?;
    let mut answer = [0; 256];
    loop {
        let n = socket.recv(&mut answer).await.map_err(|error| says(&error))?;
        // With a raw socket of IPv4, the IP header comes first.
        let skip = if raw && host.is_ipv4() { usize::from(answer[0] & 15) * 4 } else { 0 };
        let Some([kind, _, _, _, a, b, 0, 1, rest @ ..]) = answer[..n].get(skip..) else {
            continue;
        };
        // A ping socket has an identifier of its own.
        if *kind == reply && rest == ECHO && (!raw || [*a, *b] == [high, low]) {
            return Ok(());
        }
    }
}

/// A socket for echo requests to this host alone, and whether it is a raw one.
fn echo_socket(check: &Check, host: IpAddr) -> std::io::Result<(UdpSocket, bool)> {
    let (family, protocol) = match host {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let open = |kind| socket_with(family, kind, flags, Some(protocol));
    let (socket, raw) = match open(SocketType::DGRAM) {
        Ok(socket) => (socket, false),
        Err(_) => (open(SocketType::RAW)?, true),
    };
    let socket = UdpSocket::from_std(std::net::UdpSocket::from(socket))?;
    if !check.device.is_empty() {
        socket.bind_device(Some(check.device.as_bytes()))?;
    }
    if let Some(source) = check.source {
        rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    }
    rustix::net::connect(&socket, &SocketAddr::new(host, 0))?;
    Ok((socket, raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_status_line_has_a_status() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503"), Some(503));
        for line in [&b"HTTP/1.1"[..], b"HTTP/1.1 99 x", b"SSH-2.0-x 200", b"\xff 200", b""] {
            assert_eq!(status(line), None);
        }
    }
}
