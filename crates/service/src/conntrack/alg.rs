//! Protocols that say in one connection where another will come: FTP (RFC 959, RFC 2428) and TFTP (RFC 1350).
//!
//! A connection that is kept with a helper ([`Alg`]) is a *control connection*. What its packets announce is *expected*: a
//! connection from the other end to the address and port that was named. The first packet that fits is related to the control
//! connection (`+rel`), has its mark and label, and its original tuple; so has the connection that is kept for it, for as long as it is
//! there, as in Open vSwitch.
//!
//! Where the control connection is translated, so is what it announces: the address, and the port where another
//! connection is expected there. FTP's line may then have another length; segments behind it have their sequence numbers moved, and
//! acknowledgments of them back (as Linux's `nf_conntrack_seqadj`). The data connection is translated to match.
//!
//! Lines are read where one begins and nowhere else. A segment whose last line may be such an announcement, and is cut off,
//! is dropped, to be repeated with the rest: let through, it would name an address that means nothing outside, or a connection
//! that nobody expects. An announcement of another's address is not believed (FTP's bounce, RFC 2577).
//!
//! Bounded: control connections, and one expectation for each, which ends after [`EXPECTED_SECONDS`].
//! Checked by: the tests below, `tests/alg.rs`, `fuzz::conntrack`.

use super::state::Direction;
use super::tuple::Tuple;
use hashbrown::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use wire::IpProtocol;

/// Control connections, at most.
pub(crate) const CONTROLS_MAX: usize = 16_384;
/// Seconds that an announced connection is waited for.
pub(crate) const EXPECTED_SECONDS: u32 = 300;
/// Octets of a line that is cut off and may yet be an announcement.
const LINE_MAX: usize = 160;
/// Ports tried for what is announced.
const PORTS_MAX: u16 = 64;

/// Which protocol a control connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Alg {
    /// FTP, over TCP.
    Ftp,
    /// TFTP, over UDP.
    Tftp,
}

impl Alg {
    /// The protocol of its control connections.
    pub(crate) fn protocol(self) -> IpProtocol {
        match self {
            Alg::Ftp => IpProtocol::TCP,
            Alg::Tftp => IpProtocol::UDP,
        }
    }
}

/// How far sequence numbers of one direction are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shift {
    /// Behind this number by `after`, up to it by `before`.
    at: u32,
    before: i32,
    after: i32,
}

impl Shift {
    /// A segment that begins at `seq` has become longer by so much.
    pub(crate) fn lengthen(&mut self, seq: u32, by: i32) {
        // A repeated segment is not counted twice.
        if by != 0 && (self.before == self.after || is_after(seq, self.at)) {
            (self.at, self.before, self.after) = (seq, self.after, self.after.wrapping_add(by));
        }
    }

    /// What is added to a sequence number.
    pub(crate) fn of(&self, seq: u32) -> u32 {
        (if is_after(seq, self.at) { self.after } else { self.before }) as u32
    }

    /// What is taken off an acknowledgment by the other side.
    pub(crate) fn of_ack(&self, ack: u32) -> u32 {
        self.of(ack.wrapping_sub(self.before as u32))
    }

    pub(crate) fn is_none(&self) -> bool {
        self.before == 0 && self.after == 0
    }
}

fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

/// What is kept of a control connection.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) alg: Alg,
    /// By direction: where lines begin, of which the last two are known.
    lines: [[Option<u32>; 2]; 2],
    pub(crate) shifts: [Shift; 2],
    expected: Option<Key>,
}

impl Control {
    pub(crate) fn new(alg: Alg) -> Control {
        Control { alg, lines: [[None; 2]; 2], shifts: [Shift::default(); 2], expected: None }
    }

    /// Whether a line begins at this number. What comes first of a direction begins with one.
    fn begins(&self, direction: Direction, seq: u32) -> bool {
        let lines = &self.lines[direction as usize];
        *lines == [None; 2] || lines.contains(&Some(seq))
    }

    /// A line ends before this number.
    fn ended(&mut self, direction: Direction, seq: u32) {
        let lines = &mut self.lines[direction as usize];
        if !lines.contains(&Some(seq)) {
            *lines = [Some(seq), lines[0]];
        }
    }
}

/// What tells an expected connection's first packet: all of its tuple but the source port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    src: u128,
    dst: u128,
    dst_port: u16,
    zone: u16,
    protocol: u8,
    v6: bool,
}

impl Key {
    pub(crate) fn of(tuple: &Tuple) -> Key {
        Key {
            src: tuple.src,
            dst: tuple.dst,
            dst_port: tuple.dst_port,
            zone: tuple.zone,
            protocol: tuple.protocol.0,
            v6: tuple.v6,
        }
    }
}

/// A connection that was announced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// The control connection's original tuple.
    pub(crate) parent: Tuple,
    pub(crate) mark: u32,
    pub(crate) label: u128,
    /// The announcing end: what the connection's destination is, before any translation.
    pub(crate) end: (u128, u16),
    /// What that end knows the other one as.
    pub(crate) peer: u128,
    deadline: u32,
    control: u32,
}

/// Control connections, what they announce, and what has come of it.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    pub(crate) controls: HashMap<u32, Control>,
    expected: HashMap<Key, Expected>,
    /// Connections that were expected, and their control connections' original tuples.
    related: HashMap<u32, Tuple>,
}

impl Helpers {
    /// Whether something is expected.
    #[inline]
    pub(crate) fn expects(&self) -> bool {
        !self.expected.is_empty()
    }

    /// What this packet is expected as.
    pub(crate) fn expected(&self, tuple: &Tuple, now: u32) -> Option<Expected> {
        self.expected.get(&Key::of(tuple)).filter(|expected| expected.deadline > now).copied()
    }

    /// An expected connection is kept at this place.
    pub(crate) fn came(&mut self, tuple: &Tuple, at: u32, parent: Tuple) {
        let key = Key::of(tuple);
        if let Some(expected) = self.expected.remove(&key)
            && let Some(control) = self.controls.get_mut(&expected.control)
            && control.expected == Some(key)
        {
            control.expected = None;
        }
        self.related.insert(at, parent);
    }

    /// The original tuple of the control connection of one that was expected.
    pub(crate) fn parent(&self, at: u32) -> Option<Tuple> {
        self.related.get(&at).copied()
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, at: u32) {
        self.related.remove(&at);
        if let Some(key) = self.controls.remove(&at).and_then(|control| control.expected) {
            self.expected.remove(&key);
        }
    }

    /// A control connection, which has tuple `from` before translation and `to` behind it in the packet's direction, announces its
    /// sender's port. The port that is announced to the other end: the same, where nothing is translated or it is free. None if
    /// there is none.
    #[expect(clippy::too_many_arguments, reason = "all of what an announcement is")]
    pub(crate) fn expect(
        &mut self,
        at: u32,
        (from, to): (&Tuple, &Tuple),
        parent: Tuple,
        (mark, label): (u32, u128),
        protocol: IpProtocol,
        (port, wanted): (u16, u16),
        may_move: bool,
        (now, deadline): (u32, u32),
    ) -> Option<u16> {
        let old = self.controls.get(&at)?.expected;
        let mut key = Key {
            src: to.dst,
            dst: to.src,
            dst_port: wanted,
            zone: from.zone,
            protocol: protocol.0,
            v6: from.v6,
        };
        // A repeated announcement is what it was.
        let same = old.filter(|old| {
            let expected = self.expected.get(old);
            Key { dst_port: 0, ..*old } == Key { dst_port: 0, ..key }
                && expected.is_some_and(|expected| expected.end == (from.src, port))
        });
        match same {
            Some(same) => key = same,
            None => {
                let free = |key: &Key| {
                    old == Some(*key)
                        || self.expected.get(key).is_none_or(|other| other.deadline <= now)
                };
                let ports = if may_move { PORTS_MAX } else { 1 };
                let next = |n: u16| match wanted.wrapping_add(n) {
                    port @ 0..1024 if n > 0 => port + 1024,
                    port => port,
                };
                key = (0..ports).map(|n| Key { dst_port: next(n), ..key }).find(free)?;
                if let Some(old) = old {
                    self.expected.remove(&old);
                }
            }
        }
        let end = (from.src, port);
        let peer = from.dst;
        let expected = Expected { parent, mark, label, end, peer, deadline, control: at };
        if let Some(taken) = self.expected.insert(key, expected)
            && taken.control != at
            && let Some(other) = self.controls.get_mut(&taken.control)
        {
            other.expected = None;
        }
        self.controls.get_mut(&at)?.expected = Some(key);
        Some(key.dst_port)
    }

    /// What a segment of a control connection announces. `payload` begins at `seq`.
    pub(crate) fn read(
        &mut self,
        at: u32,
        direction: Direction,
        seq: u32,
        payload: &[u8],
    ) -> Result<Option<Announced>, Partial> {
        let Some(control) = self.controls.get_mut(&at) else { return Ok(None) };
        if control.lines[direction as usize] == [None; 2] {
            control.ended(direction, seq);
        }
        let (mut found, mut begin) = (None, 0);
        let mut begins = control.begins(direction, seq);
        for (n, _) in payload.iter().enumerate().filter(|(_, octet)| **octet == b'\n') {
            if begins && found.is_none() {
                found = announced(direction, &payload[begin..=n]).map(|mut announced| {
                    announced.place = announced.place.start + begin..announced.place.end + begin;
                    announced
                });
            }
            (begin, begins) = (n + 1, true);
        }
        let rest = &payload[begin..];
        if rest.is_empty() && !payload.is_empty() {
            control.ended(direction, seq.wrapping_add(payload.len() as u32));
        } else if begins && is_partial(direction, rest) {
            return Err(Partial);
        } else if control.begins(direction, seq) {
            // The beginning of this line is known, and of no other.
            control.ended(direction, seq.wrapping_add(begin as u32));
        }
        Ok(found)
    }
}

/// A line that may be an announcement is cut off.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Partial;

/// What a line announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Announced {
    form: Form,
    /// What of the payload names address and port.
    pub(crate) place: Range<usize>,
    /// The address, if it is named.
    pub(crate) address: Option<u128>,
    pub(crate) port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `10,0,0,1,19,137`
    Commas,
    /// `|1|10.0.0.1|5001|`, with this delimiter.
    Extended(u8),
    /// A port.
    Port,
}

impl Announced {
    /// The same with another address and port.
    pub(crate) fn text(&self, (address, v6): (u128, bool), port: u16) -> String {
        let address_v4 = Ipv4Addr::from(address as u32);
        match self.form {
            Form::Commas => {
                let [a, b, c, d] = address_v4.octets();
                format!("{a},{b},{c},{d},{},{}", port >> 8, port & 0xff)
            }
            Form::Extended(delimiter) => {
                let d = char::from(delimiter);
                match v6 {
                    true => format!("{d}2{d}{}{d}{port}{d}", Ipv6Addr::from(address)),
                    false => format!("{d}1{d}{address_v4}{d}{port}{d}"),
                }
            }
            Form::Port => port.to_string(),
        }
    }
}

/// What lines with an announcement begin with: commands of the client, answers of the server.
fn words(direction: Direction) -> [&'static [u8]; 2] {
    match direction {
        Direction::Original => [b"PORT ", b"EPRT "],
        Direction::Reply => [b"227 ", b"229 "],
    }
}

fn is_partial(direction: Direction, line: &[u8]) -> bool {
    let may_be = |word: &[u8]| {
        let len = line.len().min(word.len());
        line[..len].eq_ignore_ascii_case(&word[..len])
    };
    (1..LINE_MAX).contains(&line.len()) && words(direction).into_iter().any(may_be)
}

/// What a whole line announces.
fn announced(direction: Direction, line: &[u8]) -> Option<Announced> {
    let words = words(direction);
    let is =
        |word: &&[u8]| line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let which = words.iter().position(is)?;
    let mut at = words[which].len();
    if direction == Direction::Reply {
        // Words for people, then the numbers, mostly in brackets.
        let rest = &line[at..];
        at += match rest.iter().position(|octet| *octet == b'(') {
            Some(bracket) => bracket + 1,
            None if which == 0 => rest.iter().position(u8::is_ascii_digit)?,
            None => return None,
        };
    } else {
        at += line[at..].iter().take_while(|octet| **octet == b' ').count();
    }
    let text = &line[at..];
    let announced = match (direction, which) {
        (_, 0) => {
            let (numbers, len) = commas(text)?;
            let [a, b, c, d, hi, lo] = numbers;
            let address = u32::from_be_bytes([a, b, c, d]).into();
            let port = u16::from_be_bytes([hi, lo]);
            Announced { form: Form::Commas, place: at..at + len, address: Some(address), port }
        }
        (Direction::Original, _) => {
            let delimiter = *text.first().filter(|d| (33..=126).contains(*d))?;
            let mut parts = text[1..].split(|octet| *octet == delimiter);
            let (kind, address, port) = (parts.next()?, parts.next()?, parts.next()?);
            // What is behind the last delimiter.
            parts.next()?;
            let (text_len, digits) = (address.len(), port.len());
            let address = std::str::from_utf8(address).ok()?;
            let address = match kind {
                b"1" => address.parse::<Ipv4Addr>().ok()?.to_bits().into(),
                b"2" => address.parse::<Ipv6Addr>().ok()?.to_bits(),
                _ => return None,
            };
            let port = number(port)?;
            let end = at + 1 + kind.len() + 1 + text_len + 1 + digits + 1;
            let (form, address) = (Form::Extended(delimiter), Some(address));
            Announced { form, place: at..end, address, port }
        }
        (Direction::Reply, _) => {
            let [delimiter, second, third, digits @ ..] = text else { return None };
            let len = digits.iter().position(|octet| octet == delimiter)?;
            let port = number(&digits[..len])?;
            let all = second == delimiter && third == delimiter;
            all.then_some(())?;
            let start = at + 3;
            Announced { form: Form::Port, place: start..start + len, address: None, port }
        }
    };
    (announced.port != 0).then_some(announced)
}

/// A port in decimal digits.
fn number(digits: &[u8]) -> Option<u16> {
    let decimal = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| decimal)?.parse().ok()
}

/// Six numbers below 256 with commas between them, and their length.
fn commas(text: &[u8]) -> Option<([u8; 6], usize)> {
    let (mut numbers, mut at) = ([0; 6], 0);
    for (n, number) in numbers.iter_mut().enumerate() {
        if n > 0 {
            (text.get(at) == Some(&b',')).then_some(())?;
            at += 1;
        }
        let digits = text[at..].iter().take_while(|octet| octet.is_ascii_digit()).count();
        let digits = text.get(at..at + digits).filter(|digits| (1..=3).contains(&digits.len()))?;
        *number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        at += digits.len();
    }
    Some((numbers, at))
}

/// Whether a TFTP packet asks for a file: to read it, or to write it.
pub(crate) fn is_request(payload: &[u8]) -> bool {
    matches!(payload, [0, 1 | 2, _, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_are_read_and_written() {
        let (there, back) = (Direction::Original, Direction::Reply);
        let v4 = u128::from(Ipv4Addr::new(10, 0, 0, 5).to_bits());
        let v6: Ipv6Addr = "fd00::5".parse().unwrap();
        for (way, line, address, port, new) in [
            (there, "PORT 10,0,0,5,19,137\r\n", Some(v4), 5001, "PORT 10,0,0,5,4,1\r\n"),
            (there, "port  10,0,0,5,19,137\n", Some(v4), 5001, "port  10,0,0,5,4,1\n"),
            (there, "EPRT |1|10.0.0.5|5001|\r\n", Some(v4), 5001, "EPRT |1|10.0.0.5|1025|\r\n"),
            (
                there,
                "EPRT !2!fd00::5!5001!\r\n",
                Some(v6.to_bits()),
                5001,
                "EPRT !2!fd00::5!1025!\r\n",
            ),
            (
                back,
                "227 Entering Passive Mode (10,0,0,5,19,137).\r\n",
                Some(v4),
                5001,
                "227 Entering Passive Mode (10,0,0,5,4,1).\r\n",
            ),
            (back, "227 =10,0,0,5,19,137\r\n", Some(v4), 5001, "227 =10,0,0,5,4,1\r\n"),
            (back, "229 Extended (|||5001|)\r\n", None, 5001, "229 Extended (|||1025|)\r\n"),
        ] {
            let found = announced(way, line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((found.address, found.port), (address, port), "{line}");
            let v6 = address.is_some_and(|address| address > u32::MAX.into());
            let text = found.text((address.unwrap_or(v4), v6), 1025);
            let written = [&line[..found.place.start], &text, &line[found.place.end..]].concat();
            assert_eq!(written, new);
        }
        for (way, line) in [
            (there, "PORT 10,0,0,5,19\r\n"),
            (there, "PORT 10,0,0,256,19,1\r\n"),
            (there, "PORT 10,0,0,5,0,0\r\n"),
            (there, "PORT 10,0,0,,5,0,0\r\n"),
            (there, "PORT\r\n"),
            (there, "SITE PORT 10,0,0,5,19,137\r\n"),
            (there, "EPRT |3|10.0.0.5|5001|\r\n"),
            (there, "EPRT |1|10.0.0.5|65536|\r\n"),
            (there, "EPRT |1|10.0.0.5|5001\r\n"),
            (there, "EPRT \r\n"),
            (there, "227 (10,0,0,5,19,137)\r\n"),
            (back, "PORT 10,0,0,5,19,137\r\n"),
            (back, "227 none\r\n"),
            (back, "229 (||5001|)\r\n"),
            (back, "229 (|||+501|)\r\n"),
            (back, "229 (|||5001\r\n"),
        ] {
            assert_eq!(announced(way, line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn lines_count_where_they_begin_and_are_whole() {
        let mut helpers = Helpers::default();
        helpers.controls.insert(0, Control::new(Alg::Ftp));
        let mut read = |seq: u32, text: &str| {
            helpers.read(0, Direction::Original, seq, text.as_bytes()).map(|found| found.is_some())
        };
        assert_eq!(read(1, "USER a\r\n"), Ok(false));
        for partial in ["P", "POR", "PORT ", "PORT 10,0", "EPRT |1|10.0.0.5|5001|"] {
            assert_eq!(read(9, partial), Err(Partial), "{partial}");
        }
        assert_eq!(read(9, "NOOP\r\nPORT 10,0,0,5,19,137\r\n"), Ok(true));
        assert_eq!(read(500, "PORT 10,0,0,5,19,137\r\n"), Ok(false), "in the middle of something");
        assert_eq!(read(500, "x\nPORT 10,0,0,5,19,137\r\n"), Ok(true));
        assert_eq!(read(9, "PORT 10,0,0,5,19,137\r\n"), Ok(false), "long ago");
        let long = format!("PORT {}", "1".repeat(LINE_MAX));
        assert_eq!(read(500 + 24, &long), Ok(false), "no announcement is so long");
    }

    #[test]
    fn numbers_move_behind_what_has_become_longer() {
        let mut shift = Shift::default();
        assert!(shift.is_none() && shift.of(7) == 0);
        shift.lengthen(1000, 4);
        shift.lengthen(1000, 4);
        assert_eq!([999, 1000, 1001, 2000].map(|seq| shift.of(seq)), [0, 0, 4, 4]);
        assert_eq!(shift.of_ack(1024), 4);
        shift.lengthen(2000, -2);
        assert_eq!([1500, 2000, 2001].map(|seq| shift.of(seq)), [4, 4, 2]);
        assert_eq!([2004, 2022].map(|ack| ack - shift.of_ack(ack)), [2000, 2020]);
    }
}
