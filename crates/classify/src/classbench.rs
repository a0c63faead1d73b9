//! Rule sets and headers in ClassBench's form (Taylor, Turner, *ClassBench*, IEEE/ACM ToN 2007): read,
//! drawn, and made afresh.
//!
//! A rule file has a rule a line, the first that matches wins:
//!
//! ```text
//! @src/len  dst/len  lo : hi  lo : hi  proto/mask  [flags/mask]
//! ```
//!
//! with addresses in dotted decimals, the port ranges of source and destination in decimals, protocol and
//! flags in hexadecimals; the flags are left out of account. A trace has a header a line, five decimals
//! (source, destination, source port, destination port, protocol) and, maybe, the number of the rule that
//! it was drawn from or meets, counted from 0. Columns are apart by blanks or tabs; empty lines and lines
//! that begin with `#` are passed over.
//!
//! Keys are thirteen bytes, [`layout`]; the n-th rule of a set of `count` has id n, priority `count - n`.
//!
//! [`fresh`] makes a set that resembles a given one in what decides how hard it is: which lengths of
//! prefixes, ports and protocols come together, in which order, and how prefixes nest.
//!
//! Nothing here opens a file. Checked by: the unit tests below; the fuzz target `classbench`.

use crate::rule::{Layout, Range, Rule};

/// Bytes of a key.
pub const KEY_LEN: usize = 13;
/// Bytes from one key of a burst to the next.
pub const STRIDE: usize = 16;
/// Rules of a file, at most.
pub const RULES_MAX: usize = 1 << 24;
/// Headers of a file, at most.
pub const HEADERS_MAX: usize = 1 << 26;

/// The layout of the keys: addresses, ports, protocol.
pub fn layout() -> Layout {
    // Thirteen bytes are less than the longest key.
    Layout::new(&[4, 4, 2, 2, 1]).unwrap_or_else(|e| unreachable!("{e}"))
}

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong with it, and what would be right.
    pub what: String,
}

/// A header of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The key that it makes.
    pub key: [u8; KEY_LEN],
    /// The rule that the trace names.
    pub rule: Option<u32>,
}

/// Addresses, ports and protocol of a rule, as its line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    /// Source and destination, and the lengths of their prefixes.
    prefixes: [(u32, u32); 2],
    /// Source and destination, lowest and highest.
    ports: [(u16, u16); 2],
    /// Protocol and mask.
    proto: (u8, u8),
}

impl Line {
    fn rule(&self, id: u32, count: u32) -> Rule {
        let masks = self.prefixes.map(|(_, len)| prefix_mask(len));
        let (mut value, mut mask) = ([0; KEY_LEN], [0; KEY_LEN]);
        for (at, ((address, _), bits)) in self.prefixes.iter().zip(masks).enumerate() {
            value[4 * at..][..4].copy_from_slice(&(address & bits).to_be_bytes());
            mask[4 * at..][..4].copy_from_slice(&bits.to_be_bytes());
        }
        (value[12], mask[12]) = (self.proto.0 & self.proto.1, self.proto.1);
        let mut rule = Rule::new(id, count - id, u64::from(id), &value, &mask).with_action(id);
        let ranges = self.ports.iter().zip([8, 10]);
        rule.ranges = ranges
            .map(|(&(lo, hi), offset)| Range { offset, len: 2, lo: lo.into(), hi: hi.into() })
            .collect();
        rule.normalised()
    }
}

fn prefix_mask(len: u32) -> u32 {
    u32::MAX.checked_shl(32 - len.min(32)).unwrap_or(0)
}

/// Reads a rule file. Ranges are normalised, as every structure takes them.
pub fn rules(text: &str) -> Result<Vec<Rule>, ParseError> {
    let lines = lines(text, RULES_MAX, "rules", line)?;
    let count = lines.len() as u32;
    Ok((0..).zip(lines).map(|(id, line)| line.rule(id, count)).collect())
}

/// Reads a trace.
pub fn trace(text: &str) -> Result<Vec<Header>, ParseError> {
    lines(text, HEADERS_MAX, "headers", header)
}

/// Reads what each line holds.
fn lines<T>(
    text: &str,
    most: usize,
    of: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, ParseError> {
    let mut found = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if found.len() == most {
            return Err(ParseError {
                line,
                what: format!("more than {most} {of}; split the file"),
            });
        }
        found.push(read(text).map_err(|what| ParseError { line, what })?);
    }
    Ok(found)
}

fn line(text: &str) -> Result<Line, String> {
    const FORM: &str = "@src/len dst/len lo : hi lo : hi proto/mask";
    let text = text.strip_prefix('@').ok_or_else(|| format!("it must begin with @: {FORM}"))?;
    // A colon may stand alone or touch its numbers.
    let spaced = text.replace(':', " : ");
    let mut words = spaced.split_whitespace();
    let mut next = |what: &str| words.next().ok_or_else(|| format!("{what} is missing: {FORM}"));
    let prefixes = [prefix(next("the source")?)?, prefix(next("the destination")?)?];
    let mut ports = [(0, 0); 2];
    for (range, of) in ports.iter_mut().zip(["source", "destination"]) {
        let lo = port(next(&format!("the {of} port's low end"))?)?;
        let colon = next(&format!("the colon of the {of} port"))?;
        if colon != ":" {
            return Err(format!("{colon:?} stands where the {of} port's colon should: {FORM}"));
        }
        let hi = port(next(&format!("the {of} port's high end"))?)?;
        if lo > hi {
            return Err(format!(
                "the {of} port's range {lo} : {hi} is empty; its low end must not exceed its high end"
            ));
        }
        *range = (lo, hi);
    }
    let proto = next("the protocol")?;
    let parts = proto.split_once('/').and_then(|(value, mask)| Some((hex(value)?, hex(mask)?)));
    let proto = parts.ok_or_else(|| {
        format!("{proto:?} is no protocol; it is written 0xVALUE/0xMASK, a byte each")
    })?;
    if let Some(flags) = words.next() {
        let known = flags.split_once('/').is_some_and(|(v, m)| is_hex(v) && is_hex(m));
        if !known {
            return Err(format!("{flags:?} is no flags; they are written 0xVALUE/0xMASK"));
        }
    }
    match words.next() {
        Some(word) => Err(format!("{word:?} is more than a rule has: {FORM} flags/mask")),
        None => Ok(Line { prefixes, ports, proto }),
    }
}

fn prefix(word: &str) -> Result<(u32, u32), String> {
    let bad = || format!("{word:?} is no prefix; it is written 10.0.0.0/8");
    let (address, len) = word.split_once('/').ok_or_else(bad)?;
    let address: std::net::Ipv4Addr = address.parse().map_err(|_| bad())?;
    let len = decimal(len).filter(|len| *len <= 32).ok_or_else(|| {
        format!("{word:?} has no length that a prefix of an address can have: 0 to 32")
    })?;
    Ok((address.to_bits() & prefix_mask(len as u32), len as u32))
}

fn port(word: &str) -> Result<u16, String> {
    let port = decimal(word).and_then(|port| u16::try_from(port).ok());
    port.ok_or_else(|| format!("{word:?} is no port: 0 to 65535"))
}

/// Digits alone.
fn decimal(word: &str) -> Option<u64> {
    let digits = !word.is_empty() && word.len() <= 18 && word.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| word.parse().ok()).flatten()
}

fn digits(word: &str) -> Option<&str> {
    let digits = word.strip_prefix("0x").or(word.strip_prefix("0X")).unwrap_or(word);
    let sound = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    sound.then_some(digits)
}

fn is_hex(word: &str) -> bool {
    digits(word).is_some()
}

fn hex(word: &str) -> Option<u8> {
    u8::from_str_radix(digits(word)?, 16).ok()
}

fn header(text: &str) -> Result<Header, String> {
    const FORM: &str = "source destination source-port destination-port protocol [rule]";
    let mut words = text.split_whitespace();
    let mut key = [0; KEY_LEN];
    let columns = [
        ("the source", 0, 4),
        ("the destination", 4, 4),
        ("the source port", 8, 2),
        ("the destination port", 10, 2),
        ("the protocol", 12, 1),
    ];
    for (what, at, len) in columns {
        let word = words.next().ok_or_else(|| format!("{what} is missing: {FORM}"))?;
        let most = u64::from(u32::MAX) >> (32 - 8 * len);
        let value = decimal(word).filter(|value| *value <= most);
        let value = value.ok_or_else(|| format!("{word:?} is not {what}: 0 to {most}"))?;
        key[at..at + len].copy_from_slice(&value.to_be_bytes()[8 - len..]);
    }
    let rule = match words.next() {
        None => None,
        Some(word) => {
            let rule = decimal(word).filter(|rule| *rule < RULES_MAX as u64);
            let rule = rule.ok_or_else(|| format!("{word:?} is no rule: 0 to {}", RULES_MAX - 1));
            Some(rule? as u32)
        }
    };
    match words.next() {
        Some(word) => Err(format!("{word:?} is more than a header has: {FORM}")),
        None => Ok(Header { key, rule }),
    }
}

/// A rule as a line of a file. Rules come back by [`rules`] as they were, if [`rules`] or [`fresh`] made
/// them; of others, whose masks are no prefixes, what a line can say.
pub fn write_rule(rule: &Rule) -> String {
    let word = |bytes: &[u8]| bytes.iter().fold(0u32, |n, &byte| n << 8 | u32::from(byte));
    let prefix = |at: usize| {
        let address = std::net::Ipv4Addr::from_bits(word(&rule.value[at..at + 4]));
        format!("{address}/{}", word(&rule.mask[at..at + 4]).leading_ones())
    };
    let ports = |at: usize| {
        let (value, mask) = (word(&rule.value[at..at + 2]), word(&rule.mask[at..at + 2]));
        let range = rule.ranges.iter().find(|range| range.offset as usize == at);
        let whole = (u128::from(value), u128::from(value | !mask & 0xffff));
        let (lo, hi) = range.map_or(whole, |range| (range.lo, range.hi));
        format!("{lo} : {hi}")
    };
    format!(
        "@{}\t{}\t{}\t{}\t0x{:02X}/0x{:02X}",
        prefix(0),
        prefix(4),
        ports(8),
        ports(10),
        rule.value[12],
        rule.mask[12]
    )
}

/// A header as a line of a trace.
pub fn write_header(key: &[u8], rule: Option<u32>) -> String {
    let number = |bytes: &[u8]| bytes.iter().fold(0u32, |n, &byte| n << 8 | u32::from(byte));
    let columns = [0..4, 4..8, 8..10, 10..12, 12..13].map(|at| number(&key[at]).to_string());
    let mut line = columns.join("\t");
    if let Some(rule) = rule {
        line.push_str(&format!("\t{rule}"));
    }
    line
}

/// A plain source of numbers; the same from the same seed.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// From a seed.
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    /// Any number (SplitMix64).
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.word()) * end as u128) >> 64) as usize
    }

    /// Items in another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Headers that some rule matches, `STRIDE` bytes each: of any rule its lowest corner, its highest, or, half
/// of the time, any point in it.
pub fn headers(rules: &[Rule], count: usize, seed: u64) -> Vec<u8> {
    let mut draw = Draw::new(seed);
    let mut keys = vec![0; count * STRIDE];
    if rules.is_empty() {
        return keys;
    }
    for key in keys.chunks_exact_mut(STRIDE) {
        let rule = &rules[draw.below(rules.len())];
        let fill = draw.below(4);
        for ((to, &value), &mask) in key.iter_mut().zip(&rule.value).zip(&rule.mask) {
            let any = match fill {
                0 => 0,
                1 => 0xff,
                _ => draw.word() as u8,
            };
            *to = value | any & !mask;
        }
        for range in &rule.ranges {
            let value = match fill {
                0 => range.lo,
                1 => range.hi,
                _ => range.lo + u128::from(draw.word()) % (range.hi - range.lo + 1),
            };
            let at = range.offset as usize;
            key[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
        }
    }
    keys
}

/// A new set of up to `count` rules that resembles another of this layout.
///
/// Each rule has the lengths of prefixes, the ports, the protocol and about the rank of some rule of the
/// other set. Its prefixes are those of two more rules that have them as long or longer, cut; addresses
/// are then permuted so that what shares so many bits still does, and no more. Rules that match the same
/// are made once, so there may be fewer.
pub fn fresh(rules: &[Rule], count: usize, seed: u64) -> Vec<Rule> {
    if rules.is_empty() {
        return Vec::new();
    }
    let mut draw = Draw::new(seed);
    let address = |rule: &Rule, at: usize| {
        let word = |bytes: &[u8]| bytes.iter().fold(0u32, |n, &byte| n << 8 | u32::from(byte));
        (word(&rule.value[at..at + 4]), word(&rule.mask[at..at + 4]).leading_ones())
    };
    // Of each field, the addresses of rules in the order of their lengths, and where each length begins.
    let sorted = [0, 4].map(|at| {
        let mut all: Vec<(u32, u32)> = rules.iter().map(|rule| address(rule, at)).collect();
        all.sort_unstable_by_key(|&(_, len)| len);
        let from: Vec<usize> =
            (0..=32).map(|len| all.partition_point(|&(_, other)| other < len)).collect();
        (all, from)
    });
    let salts = [draw.word(), draw.word()];
    let mut seen = hashbrown::HashSet::new();
    let mut made: Vec<(usize, Rule)> = Vec::new();
    for _ in 0..4 * count {
        if made.len() == count {
            break;
        }
        let place = draw.below(rules.len());
        let mut rule = rules[place].clone();
        for (field, (all, from)) in sorted.iter().enumerate() {
            let (_, len) = address(&rule, 4 * field);
            let from = from[len as usize];
            let (other, _) = all[from + draw.below(all.len() - from)];
            let moved = permuted(other, salts[field]) & prefix_mask(len);
            rule.value[4 * field..][..4].copy_from_slice(&moved.to_be_bytes());
        }
        if seen.insert((rule.value.clone(), rule.mask.clone(), rule.ranges.clone())) {
            made.push((place, rule));
        }
    }
    made.sort_by_key(|(place, _)| *place);
    let count = made.len() as u32;
    let ranked = (0..).zip(made).map(|(id, (_, mut rule)): (u32, _)| {
        (rule.id, rule.action, rule.priority, rule.seq) = (id, id, count - id, u64::from(id));
        rule
    });
    ranked.collect()
}

/// Another address for each, so that two that share a prefix still share one as long, and no longer one.
fn permuted(address: u32, salt: u64) -> u32 {
    (0..32).fold(0, |bits, at| {
        let above = address & prefix_mask(at);
        let flip = mix(salt ^ u64::from(above) << 8 ^ u64::from(at)) as u32 & 1;
        bits | (address >> (31 - at) & 1 ^ flip) << (31 - at)
    })
}

/// Any bytes as a rule file and as a trace: what is read can be written and reads back the same.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(read) = rules(&text) {
        let lines: Vec<String> = read.iter().map(write_rule).collect();
        let again = rules(&lines.join("\n"));
        // A protocol's mask may be any byte, and all else a line says: nothing is lost.
        assert_eq!(again.as_ref(), Ok(&read));
        for key in headers(&read, 8, 1).chunks(STRIDE).filter(|_| !read.is_empty()) {
            assert!(read.iter().any(|rule| rule.matches(&key[..KEY_LEN])));
        }
        fresh(&read, 8, 2).iter().for_each(|rule| {
            assert!(rule.checked(&layout()).is_ok(), "{rule}");
        });
    }
    if let Ok(read) = trace(&text) {
        let lines: Vec<String> = read.iter().map(|h| write_header(&h.key, h.rule)).collect();
        assert_eq!(trace(&lines.join("\n")), Ok(read));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "@10.1.0.0/16\t0.0.0.0/0\t0 : 65535\t80 : 443\t0x06/0xFF\t0x0000/0x0000\t\n\
                       # a remark\n\n@1.2.3.4/32 5.6.7.8/31 7:7 0 : 1023 0x11/0xff\n";

    #[test]
    fn rules_are_read_and_written() {
        let read = rules(TWO).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].id, read[0].priority, read[1].id, read[1].priority), (0, 2, 1, 1));
        assert!(read[0].matches(&[10, 1, 9, 9, 1, 2, 3, 4, 0, 0, 0, 80, 6]));
        assert!(!read[0].matches(&[10, 1, 9, 9, 1, 2, 3, 4, 0, 0, 0, 79, 6]));
        assert!(read[1].matches(&[1, 2, 3, 4, 5, 6, 7, 9, 0, 7, 3, 255, 17]));
        let lines: Vec<String> = read.iter().map(write_rule).collect();
        assert_eq!(lines[0], "@10.1.0.0/16\t0.0.0.0/0\t0 : 65535\t80 : 443\t0x06/0xFF");
        assert_eq!(rules(&lines.join("\n")).unwrap(), read);
    }

    #[test]
    fn what_is_no_rule_is_refused_in_words() {
        let refused = |text: &str| rules(text).unwrap_err().to_string();
        let rest = "0 : 1 0 : 1 0/0";
        assert!(refused("10.0.0.0/8 0.0.0.0/0").starts_with("line 1: it must begin with @"));
        assert_eq!(
            refused(&format!("\n@10.0.0/8 0.0.0.0/0 {rest}")),
            "line 2: \"10.0.0/8\" is no prefix; it is written 10.0.0.0/8"
        );
        assert_eq!(
            refused(&format!("@10.0.0.0/33 0.0.0.0/0 {rest}")),
            "line 1: \"10.0.0.0/33\" has no length that a prefix of an address can have: 0 to 32"
        );
        assert_eq!(
            refused("@1.0.0.0/8 0.0.0.0/0 9 : 8 0 : 1 0/0"),
            "line 1: the source port's range 9 : 8 is empty; its low end must not exceed its high end"
        );
        assert!(refused("@1.0.0.0/8 0.0.0.0/0 9 : 65536 0 : 1 0/0").contains("is no port"));
        assert!(refused("@1.0.0.0/8 0.0.0.0/0 9 - 10 0 : 1 0/0").contains("colon should"));
        assert!(refused("@1.0.0.0/8 0.0.0.0/0 9 : 10 0 : 1 0x100/0").contains("no protocol"));
        assert!(refused("@1.0.0.0/8 0.0.0.0/0 9 : 10 0 : 1").contains("the protocol is missing"));
        assert!(refused("@1.0.0.0/8 0.0.0.0/0 9 : 10 0 : 1 6/ff x").contains("no flags"));
        assert!(refused("@1.0.0.0/8 0.0.0.0/0 9 : 10 0 : 1 6/ff 0/0 9").contains("more than"));
    }

    #[test]
    fn headers_are_read_and_written() {
        let text = "167772161\t16909060\t80\t65535\t6\t17\n0 0 0 0 255";
        let read = trace(text).unwrap();
        assert_eq!(read[0].key, [10, 0, 0, 1, 1, 2, 3, 4, 0, 80, 255, 255, 6]);
        assert_eq!((read[0].rule, read[1].rule), (Some(17), None));
        let lines: Vec<String> = read.iter().map(|h| write_header(&h.key, h.rule)).collect();
        assert_eq!(lines.join("\n"), text.replace("0 0 0 0 255", "0\t0\t0\t0\t255"));
        let refused = |text: &str| trace(text).unwrap_err().to_string();
        assert_eq!(refused("1 2 3 4 256"), "line 1: \"256\" is not the protocol: 0 to 255");
        assert!(refused("1 2 3 4").contains("the protocol is missing"));
        assert!(refused("1 2 65536 4 5").contains("\"65536\" is not the source port: 0 to 65535"));
        assert!(refused("1 2 3 4 5 -1").contains("is no rule"));
        assert!(refused("1 2 3 4 5 6 7").contains("more than a header"));
    }

    #[test]
    fn drawn_headers_meet_their_rules() {
        let read = rules(TWO).unwrap();
        let keys = headers(&read, 1000, 7);
        for key in keys.chunks(STRIDE) {
            assert!(read.iter().any(|rule| rule.matches(&key[..KEY_LEN])) && key[13..] == [0; 3]);
        }
    }

    #[test]
    fn a_fresh_set_resembles_and_differs() {
        let text: Vec<String> = (0..500)
            .map(|n| {
                let (a, b) = (n % 7, n % 11);
                format!(
                    "@10.{a}.{b}.0/{} 20.{b}.{a}.{}/32 0:65535 {n}:{n} 6/ff",
                    8 + n % 24,
                    n % 256
                )
            })
            .collect();
        let given = rules(&text.join("\n")).unwrap();
        let made = fresh(&given, 2000, 3);
        assert!(made.len() > 1500 && made == fresh(&given, 2000, 3));
        assert!(made != fresh(&given, 2000, 4));
        let masks = |rules: &[Rule]| -> std::collections::BTreeSet<Box<[u8]>> {
            rules.iter().map(|rule| rule.mask.clone()).collect()
        };
        assert!(masks(&made).is_subset(&masks(&given)));
        assert!(made.iter().zip(0..).all(|(rule, id)| rule.id == id
            && rule.priority == made.len() as u32 - id
            && rule.checked(&layout()).is_ok()));
        // What shares a prefix still does, and no longer one.
        for (a, b) in [(0x0a00_0001u32, 0x0a00_0101u32), (1, 0x8000_0000), (5, 5)] {
            let (x, y) = (permuted(a, 9), permuted(b, 9));
            assert_eq!((x ^ y).leading_zeros(), (a ^ b).leading_zeros());
        }
    }

    #[test]
    fn any_bytes_are_borne() {
        let mut draw = Draw::new(1);
        let alphabet = b"@0123456789./: \t\nxabcfF#-";
        for _ in 0..2000 {
            let len = draw.below(200);
            let mut bytes: Vec<u8> = (0..len).map(|_| alphabet[draw.below(25)]).collect();
            fuzz(&bytes);
            let mut text = TWO.as_bytes().to_vec();
            let at = draw.below(text.len());
            text[at] = alphabet[draw.below(25)];
            fuzz(&text);
            bytes.extend(draw.word().to_le_bytes());
            fuzz(&bytes);
        }
    }
}
