//! SNMP version 2c (RFC 1901, RFC 3416), as much as a measurement needs: values asked for by GetRequest.
//!
//! In: an agent's address, its community, object identifiers. Out: a value each. The encoding is BER (X.690) with
//! definite lengths, as agents send it.
//!
//! Holds true: no bytes panic; an answer that is none to our request is passed over; a request is sent
//! [`ATTEMPTS`] times, [`PATIENCE`] apart, before the agent counts as silent.

use std::fmt;
use std::net::{ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

/// How often a request is sent.
pub const ATTEMPTS: u32 = 3;
/// How long each time an answer is waited for.
pub const PATIENCE: Duration = Duration::from_millis(700);
/// SNMP's port (RFC 3417).
pub const PORT_DEFAULT: u16 = 161;

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const NULL: u8 = 0x05;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const GET: u8 = 0xa0;
const RESPONSE: u8 = 0xa2;
/// `version` of 2c.
const V2C: u64 = 1;

/// What an object holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A counter, gauge, time or integer.
    Number(i128),
    /// A string.
    Octets(Vec<u8>),
    /// The agent has no such object or instance.
    Missing,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(n) => n.fmt(f),
            Value::Octets(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Value::Missing => f.write_str("missing"),
        }
    }
}

/// Asks an agent (`HOST[:PORT]`) for objects; their values in the order of the question.
pub fn get(agent: &str, community: &str, oids: &[&str]) -> Result<Vec<Value>, String> {
    let failed = |e: std::io::Error| format!("snmp {agent}: {e}");
    let host = match agent.contains(':') {
        true => agent.to_string(),
        false => format!("{agent}:{PORT_DEFAULT}"),
    };
    let address = host.to_socket_addrs().map_err(failed)?.next();
    let address = address.ok_or_else(|| format!("snmp {agent}: no such host"))?;
    let own = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(own).map_err(failed)?;
    socket.connect(address).map_err(failed)?;
    // Told apart from late answers to others.
    let id = (crate::clock::now() >> 8) as u32 & 0x3fff_ffff | 0x4000_0000;
    let names: Vec<Vec<u8>> = oids.iter().map(|o| oid(o)).collect::<Result<_, _>>()?;
    let request = request(community, id, &names);
    let mut answer = [0; 65536];
    for _ in 0..ATTEMPTS {
        socket.send(&request).map_err(failed)?;
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            socket.set_read_timeout(Some(left)).map_err(failed)?;
            let Ok(n) = socket.recv(&mut answer) else { break };
            let Some((to, error, found)) = response(&answer[..n]) else { continue };
            if to != u64::from(id) {
                continue;
            }
            if error != 0 || found.len() != names.len() {
                return Err(format!("snmp {agent}: error status {error}, {} values", found.len()));
            }
            return Ok(found);
        }
    }
    let ms = PATIENCE.as_millis();
    Err(format!("snmp {agent}: no answer to {ATTEMPTS} requests, {ms} ms apart"))
}

/// An object identifier's bytes (X.690 §8.19).
fn oid(text: &str) -> Result<Vec<u8>, String> {
    let bad = || format!("{text}: expected an object identifier, as in 1.3.6.1.2.1.1.3.0");
    let parts =
        text.trim_start_matches('.').split('.').map(|p| p.parse::<u32>().map_err(|_| bad()));
    let parts = parts.collect::<Result<Vec<u32>, _>>()?;
    let [first, second, rest @ ..] = &parts[..] else { return Err(bad()) };
    if *first > 2 || *second > 39 {
        return Err(bad());
    }
    let mut bytes = vec![(first * 40 + second) as u8];
    for part in rest {
        let digits = (1..5).take_while(|i| part >> (7 * i) > 0).count();
        for i in (0..=digits).rev() {
            let more = if i > 0 { 0x80 } else { 0 };
            bytes.push((part >> (7 * i)) as u8 & 0x7f | more);
        }
    }
    Ok(bytes)
}

/// A tag, a length and the contents.
fn tlv(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    match contents.len() {
        n if n < 128 => bytes.push(n as u8),
        n if n < 256 => bytes.extend([0x81, n as u8]),
        n => bytes.extend([0x82, (n >> 8) as u8, n as u8]),
    }
    bytes.extend_from_slice(contents);
    bytes
}

/// A number that is not negative.
fn integer(value: u32) -> Vec<u8> {
    let bytes = [&[0][..], &value.to_be_bytes()].concat();
    // The shortest form whose first bit is 0.
    let skip = (0..4).take_while(|i| bytes[*i] == 0 && bytes[i + 1] & 0x80 == 0).count();
    tlv(INTEGER, &bytes[skip..])
}

fn request(community: &str, id: u32, names: &[Vec<u8>]) -> Vec<u8> {
    let bindings: Vec<u8> = names
        .iter()
        .flat_map(|name| tlv(SEQUENCE, &[tlv(OID, name), tlv(NULL, &[])].concat()))
        .collect();
    let pdu = [integer(id), integer(0), integer(0), tlv(SEQUENCE, &bindings)].concat();
    let head = [integer(V2C as u32), tlv(OCTETS, community.as_bytes())].concat();
    tlv(SEQUENCE, &[head, tlv(GET, &pdu)].concat())
}

/// Takes one element off the front: its tag and contents.
fn take<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if *first & 0x80 != 0 {
        let (digits, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if !(1..=4).contains(&digits.len()) {
            return None;
        }
        length = digits.iter().fold(0, |n, d| n << 8 | usize::from(*d));
        rest = after;
    }
    let (contents, after) = rest.split_at_checked(length)?;
    *bytes = after;
    Some((*tag, contents))
}

fn expect<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    take(bytes).filter(|(found, _)| *found == tag).map(|(_, contents)| contents)
}

/// A number of at most 16 bytes, signed or not.
fn number(bytes: &[u8], signed: bool) -> Option<i128> {
    let first = *bytes.first().filter(|_| bytes.len() <= 9)?;
    let start = if signed && first & 0x80 != 0 { -1 } else { 0 };
    Some(bytes.iter().fold(start, |n, b| n << 8 | i128::from(*b)))
}

/// The request's number, the error status and the values of an answer; none if it is no answer.
fn response(bytes: &[u8]) -> Option<(u64, i128, Vec<Value>)> {
    let mut rest = bytes;
    let mut message = expect(&mut rest, SEQUENCE)?;
    if number(expect(&mut message, INTEGER)?, true)? != i128::from(V2C) {
        return None;
    }
    expect(&mut message, OCTETS)?;
    let mut pdu = expect(&mut message, RESPONSE)?;
    let id = u64::try_from(number(expect(&mut pdu, INTEGER)?, true)?).ok()?;
    let error = number(expect(&mut pdu, INTEGER)?, true)?;
    expect(&mut pdu, INTEGER)?;
    let mut bindings = expect(&mut pdu, SEQUENCE)?;
    let mut values = Vec::new();
    while !bindings.is_empty() {
        let mut binding = expect(&mut bindings, SEQUENCE)?;
        expect(&mut binding, OID)?;
        let (tag, contents) = take(&mut binding)?;
        values.push(match tag {
            INTEGER => Value::Number(number(contents, true)?),
            // Counter32, Gauge32, TimeTicks, Counter64 (RFC 2578 §7.1).
            0x41 | 0x42 | 0x43 | 0x46 => Value::Number(number(contents, false)?),
            // Null, noSuchObject, noSuchInstance, endOfMibView (RFC 3416 §3).
            NULL | 0x80..=0x82 => Value::Missing,
            _ => Value::Octets(contents.to_vec()),
        });
    }
    Some((id, error, values))
}

/// Any datagram. A fuzz target's body.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    if let Some((_, _, values)) = response(data) {
        assert!(values.len() <= data.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::prng::Prng;

    #[test]
    fn identifiers_and_numbers_have_their_shortest_form() {
        assert_eq!(oid("1.3.6.1.2.1.1.3.0").unwrap(), [0x2b, 6, 1, 2, 1, 1, 3, 0]);
        assert_eq!(oid(".1.3.6.1.4.1.8072").unwrap(), [0x2b, 6, 1, 4, 1, 0xbf, 8]);
        assert_eq!(oid("2.39.4294967295").unwrap(), [119, 0x8f, 0xff, 0xff, 0xff, 0x7f]);
        for text in ["", "1", "3.1", "1.40", "1.3.x", "1.3..1"] {
            assert!(oid(text).is_err(), "{text}");
        }
        assert_eq!(integer(0), [2, 1, 0]);
        assert_eq!(integer(127), [2, 1, 127]);
        assert_eq!(integer(128), [2, 2, 0, 128]);
        assert_eq!(integer(u32::MAX), [2, 5, 0, 255, 255, 255, 255]);
        assert_eq!(number(&[0xff, 0x7f], true), Some(-129));
        assert_eq!(number(&[0xff; 8], false), Some(u64::MAX.into()));
        assert_eq!(number(&[], false), None);
    }

    /// The answer of an agent that has these values.
    fn answer(request: &[u8], error: u32, values: &[(u8, &[u8])]) -> Vec<u8> {
        let mut rest = request;
        let mut message = expect(&mut rest, SEQUENCE).unwrap();
        expect(&mut message, INTEGER).unwrap();
        assert_eq!(expect(&mut message, OCTETS).unwrap(), b"public");
        let mut pdu = expect(&mut message, GET).unwrap();
        let id = tlv(INTEGER, expect(&mut pdu, INTEGER).unwrap());
        let bindings: Vec<u8> = values
            .iter()
            .flat_map(|(tag, v)| tlv(SEQUENCE, &[tlv(OID, &[0x2b]), tlv(*tag, v)].concat()))
            .collect();
        let pdu = [id, integer(error), integer(0), tlv(SEQUENCE, &bindings)].concat();
        let head = [integer(1), tlv(OCTETS, b"public")].concat();
        tlv(SEQUENCE, &[head, tlv(RESPONSE, &pdu)].concat())
    }

    #[test]
    fn an_agent_is_asked() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let agent = socket.local_addr().unwrap().to_string();
        let long = [b'x'; 300];
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            let (n, from) = socket.recv_from(&mut buffer).unwrap();
            let values = [(0x46, &[0xff; 8][..]), (OCTETS, &long), (0x81, &[]), (INTEGER, &[0xfe])];
            let right = answer(&buffer[..n], 0, &values);
            // Nonsense and an answer to somebody else come first.
            socket.send_to(b"nonsense", from).unwrap();
            let mut foreign = right.clone();
            let at = foreign.windows(2).position(|w| w == [INTEGER, 4]).unwrap();
            foreign[at + 5] ^= 1;
            socket.send_to(&foreign, from).unwrap();
            socket.send_to(&right, from).unwrap();
            let (n, from) = socket.recv_from(&mut buffer).unwrap();
            socket.send_to(&answer(&buffer[..n], 5, &[]), from).unwrap();
        });
        let oids = ["1.3.6.1.2.1.31.1.1.1.6.1", "1.3.1", "1.3.2", "1.3.3"];
        let values = get(&agent, "public", &oids).unwrap();
        let expected = [
            Value::Number(u64::MAX.into()),
            Value::Octets(vec![b'x'; 300]),
            Value::Missing,
            Value::Number(-2),
        ];
        assert_eq!(values, expected);
        assert!(get(&agent, "public", &["1.3.1"]).unwrap_err().contains("error status 5"));
        thread.join().unwrap();
    }

    #[test]
    fn any_datagram_can_be_read() {
        let request = request("public", 7, &[oid("1.3.6").unwrap()]);
        let good = answer(&request, 0, &[(0x41, &[1, 2, 3])]);
        assert_eq!(response(&good), Some((7, 0, vec![Value::Number(0x010203)])));
        let mut prng = Prng::new(2);
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..prng.below(4) {
                let at = prng.below(bytes.len() as u64) as usize;
                bytes[at] = prng.next_u64() as u8;
            }
            bytes.truncate(prng.below(bytes.len() as u64 + 1) as usize);
            fuzz(&bytes);
        }
        for n in 0..good.len() {
            assert_eq!(response(&good[..n]), None);
        }
    }
}
