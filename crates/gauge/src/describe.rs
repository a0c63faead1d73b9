//! Traffic described by ranges of header fields, and traffic from a capture file.
//!
//! A description is a list of `FIELD=VALUE` or `FIELD=LOW-HIGH`, separated by commas:
//!
//! ```text
//! ip_src=198.18.0.1-198.18.0.100,udp_dst=1000-1009,vlan=5,len=64-1518
//! ```
//!
//! Every field runs through its range by itself, one step for each frame, from its low end again when it has
//! reached the high one; so ranges of coprime lengths give all combinations in the end. Frames are made until
//! every field is at its beginning again, at most [`FRAMES_MAX`]. `each=FIELD` in place of that: the named
//! field counts fastest and the others are carried over, as digits do.
//!
//! A recording keeps each frame's bytes, but for the probe over its end, and the times between them, divided by
//! a factor.

use crate::probe::{self, Probe};
use crate::traffic::Frames;
use port::pcap::{LINKTYPE_ETHERNET, Reader};
use std::io::Read;
use std::net::Ipv4Addr;

/// The most frames of a description or a recording.
pub const FRAMES_MAX: usize = 1 << 16;

/// Fields that a description may name: how they are written and how many bits they have.
const FIELDS: [(&str, Form); 10] = [
    ("eth_src", Form::Mac),
    ("eth_dst", Form::Mac),
    ("vlan", Form::Number(12)),
    ("pcp", Form::Number(3)),
    ("ip_src", Form::Address),
    ("ip_dst", Form::Address),
    ("dscp", Form::Number(6)),
    ("ttl", Form::Number(8)),
    ("udp_src", Form::Number(16)),
    ("udp_dst", Form::Number(16)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Mac,
    Address,
    Number(u32),
}

impl Form {
    fn parse(self, text: &str) -> Option<u64> {
        match self {
            Form::Number(bits) => text.parse().ok().filter(|v| *v >> bits == 0),
            Form::Address => text.parse::<Ipv4Addr>().ok().map(|a| u32::from(a).into()),
            Form::Mac => {
                let mut value = 0;
                let mut bytes = 0;
                for part in text.split(':') {
                    let well = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
                    let byte = u64::from_str_radix(part, 16).ok().filter(|_| well)?;
                    value = value << 8 | byte;
                    bytes += 1;
                }
                (bytes == 6).then_some(value)
            }
        }
    }

    fn example(self) -> String {
        match self {
            Form::Mac => "02:00:00:00:00:01".into(),
            Form::Address => "198.18.0.1-198.18.0.100".into(),
            Form::Number(bits) => format!("a number below {}, or LOW-HIGH", 1u64 << bits),
        }
    }
}

/// A range, both ends included.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: u64,
    high: u64,
}

impl Range {
    fn len(self) -> u64 {
        self.high - self.low + 1
    }

    fn at(self, step: u64) -> u64 {
        self.low + step % self.len()
    }
}

fn range(key: &str, text: &str, form: Form) -> Result<Range, String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (form.parse(low.trim()), form.parse(high.trim())) {
        (Some(low), Some(high)) if low <= high => Ok(Range { low, high }),
        _ => Err(format!("{key}={text}: expected {}", form.example())),
    }
}

/// Makes the frames of a description.
pub fn described(text: &str) -> Result<Frames, String> {
    let mut ranges: Vec<(&str, Range)> = Vec::new();
    let (mut len, mut fastest) = (Range { low: 64, high: 64 }, None);
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("{part}: expected FIELD=VALUE or FIELD=LOW-HIGH"))?;
        let (key, value) = (key.trim(), value.trim());
        if key == "len" {
            len = range(key, value, Form::Number(11))?;
            if len.low < 64 || len.high > 1518 {
                return Err(format!(
                    "{part}: expected lengths from 64 to 1518, check sequence included"
                ));
            }
        } else if key == "each" {
            fastest = Some(value);
        } else if let Some((name, form)) = FIELDS.iter().find(|(name, _)| *name == key) {
            if ranges.iter().any(|(n, _)| n == name) {
                return Err(format!("{key} is given twice"));
            }
            ranges.push((name, range(key, value, *form)?));
        } else {
            let known: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
            return Err(format!("unknown field {key:?}; known: {}, len, each", known.join(", ")));
        }
    }
    if let Some(first) = fastest {
        let at = ranges.iter().position(|(name, _)| *name == first);
        let at = at.ok_or_else(|| format!("each={first}: that field has no range here"))?;
        ranges[..=at].rotate_right(1);
    }
    let lens = ranges.iter().map(|(_, r)| r.len()).chain([len.len()]);
    let turns = lens.fold(1u64, |all, n| match fastest {
        Some(_) => all.saturating_mul(n),
        None => lcm(all, n),
    });
    let count = turns.min(FRAMES_MAX as u64);
    let frames = (0..count).map(|i| {
        let mut carried = i;
        let mut step = |range: &Range| match fastest {
            None => i,
            Some(_) => {
                let step = carried % range.len();
                carried /= range.len();
                step
            }
        };
        let mut frame = base();
        let mut tag = None;
        for (name, range) in &ranges {
            put(&mut frame, &mut tag, name, range.at(step(range)));
        }
        let len = len.at(step(&len)) as usize - 4;
        finish(frame, tag, len)
    });
    Ok(Frames { frames: frames.collect(), offsets: None })
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

/// The shortest probe.
fn base() -> Vec<u8> {
    probe::frame(probe::LEN_MIN, 0, Probe { stream: 0, seq: 0, due: 0 })
}

fn put(frame: &mut [u8], tag: &mut Option<u16>, name: &str, value: u64) {
    let bytes = value.to_be_bytes();
    match name {
        "eth_dst" => frame[..6].copy_from_slice(&bytes[2..]),
        "eth_src" => frame[6..12].copy_from_slice(&bytes[2..]),
        "vlan" => *tag = Some(tag.unwrap_or(0) & 0xf000 | value as u16),
        "pcp" => *tag = Some(tag.unwrap_or(0) & 0x0fff | (value as u16) << 13),
        "ip_src" => frame[26..30].copy_from_slice(&bytes[4..]),
        "ip_dst" => frame[30..34].copy_from_slice(&bytes[4..]),
        "dscp" => frame[15] = (value as u8) << 2,
        "ttl" => frame[22] = value as u8,
        "udp_src" => frame[34..36].copy_from_slice(&bytes[6..]),
        "udp_dst" => frame[36..38].copy_from_slice(&bytes[6..]),
        // The table of fields has no other.
        _ => {}
    }
}

/// Pushes the tag, and makes the frame so long.
fn finish(frame: Vec<u8>, tag: Option<u16>, len: usize) -> Vec<u8> {
    let tagged = if tag.is_some() { 4 } else { 0 };
    let len = len.clamp(probe::LEN_MIN + tagged, probe::LEN_MAX) - tagged;
    let mut bytes = frame;
    bytes.truncate(probe::PAYLOAD);
    bytes.resize(len, 0);
    bytes[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    bytes[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    probe::checksum(&mut bytes[14..34]);
    if let Some(tci) = tag {
        let [high, low] = tci.to_be_bytes();
        bytes.splice(12..12, [0x81, 0x00, high, low]);
    }
    bytes
}

/// Reads a capture file of Ethernet frames. `faster`: the times between frames are divided by this; none: the
/// schedule of the measurement counts.
pub fn recorded(file: impl Read, faster: Option<f64>) -> Result<Frames, String> {
    let mut reader = Reader::new(file).map_err(|e| e.to_string())?;
    let (mut frames, mut offsets) = (Vec::new(), Vec::new());
    let (mut first, mut latest) = (None, 0);
    while frames.len() < FRAMES_MAX
        && let Some(record) = reader.next_record().map_err(|e| e.to_string())?
    {
        let begin = *first.get_or_insert(record.ns);
        let after = record.ns.saturating_sub(begin) as f64 / faster.unwrap_or(1.0);
        // A file may be out of order; a schedule is not.
        latest = (after as u64).max(latest);
        offsets.push(latest);
        let mut frame = record.data.to_vec();
        probe::uncheck(&mut frame);
        frames.push(frame);
    }
    if frames.is_empty() {
        return Err(format!("holds no frames (of link type {LINKTYPE_ETHERNET}, Ethernet)"));
    }
    Ok(Frames { frames, offsets: faster.map(|_| offsets) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::pcap::Writer;

    #[test]
    fn ranges_run_side_by_side_or_as_digits() {
        let ports = |text: &str| -> Vec<(u8, u16)> {
            let frames = described(text).unwrap().frames;
            let port = |f: &Vec<u8>| u16::from_be_bytes([f[36], f[37]]);
            frames.iter().map(|f| (f[29], port(f))).collect()
        };
        let text = "ip_src=198.18.0.1-198.18.0.2,udp_dst=5-7";
        assert_eq!(ports(text), [(1, 5), (2, 6), (1, 7), (2, 5), (1, 6), (2, 7)]);
        let each = format!("{text},each=udp_dst");
        assert_eq!(ports(&each), [(1, 5), (1, 6), (1, 7), (2, 5), (2, 6), (2, 7)]);
        assert_eq!(ports("udp_dst=9").len(), 1);
        assert_eq!(ports("").len(), 1);
        assert_eq!(ports("udp_dst=0-65535,ip_src=10.0.0.0-10.9.9.9").len(), FRAMES_MAX);
    }

    #[test]
    fn frames_are_whole_and_can_be_stamped() {
        let text = "vlan=7,pcp=3,len=64-1518,ttl=9,dscp=46,eth_src=02:00:00:00:00:0a";
        let frames = described(text).unwrap().frames;
        assert_eq!(frames.len(), 1455);
        for (i, frame) in frames.iter().enumerate() {
            assert_eq!(frame.len(), (i + 60).max(64));
            assert_eq!(frame[12..16], [0x81, 0, 0x60, 7]);
            assert_eq!((frame[11], frame[19], frame[26]), (10, 46 << 2, 9));
            assert_eq!(usize::from(u16::from_be_bytes([frame[20], frame[21]])), frame.len() - 18);
            let sum: u32 =
                frame[18..38].chunks(2).map(|p| u32::from(u16::from_be_bytes([p[0], p[1]]))).sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
            let (mut frame, probe) = (frame.clone(), Probe { stream: 1, seq: 2, due: 3 });
            probe::stamp(&mut frame, probe);
            assert_eq!(probe::parse(&frame), Some(probe));
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let error = |text: &str| described(text).unwrap_err();
        assert!(error("udp").contains("expected FIELD=VALUE"));
        assert!(error("udp_dst=70000").contains("a number below 65536"));
        assert!(error("udp_dst=9-8").contains("or LOW-HIGH"));
        assert!(error("ip_src=1.2.3").contains("198.18.0.1-"));
        assert!(error("eth_src=2:0:0:0:0:1").contains("02:00:00:00:00:01"));
        assert!(error("len=63").contains("from 64 to 1518"));
        assert!(error("tcp=1").contains("unknown field \"tcp\"; known: eth_src"));
        assert!(error("ttl=1,ttl=2").contains("twice"));
        assert!(error("ttl=1,each=vlan").contains("has no range"));
    }

    #[test]
    fn a_recording_keeps_its_gaps_or_shares_them_out() {
        let mut writer = Writer::new(Vec::new()).unwrap();
        for (ns, len) in [(1_000_000, 20), (1_500_000, 300), (1_200_000, 60), (3_000_000, 60)] {
            writer.write(ns, &vec![7; len]).unwrap();
        }
        let file = writer.into_inner().unwrap();
        let frames = recorded(&file[..], Some(1.0)).unwrap();
        assert_eq!(frames.frames.iter().map(Vec::len).collect::<Vec<_>>(), [60, 300, 60, 60]);
        assert_eq!(frames.offsets.unwrap(), [0, 500_000, 500_000, 2_000_000]);
        assert_eq!(recorded(&file[..], Some(4.0)).unwrap().offsets.unwrap()[3], 500_000);
        assert_eq!(recorded(&file[..], None).unwrap().offsets, None);
        assert!(recorded(&file[..24], None).unwrap_err().contains("no frames"));
        assert!(recorded(&b"nonsense"[..], None).is_err());
    }
}
