//! Packets as text: `eth/ipv4(dst=10.1.2.3)/udp(dport=53)/payload(len=8)`.
//!
//! Headers are the program's instances (or a stack's name for its next element), fields that are
//! not given are filled in by the `fill` rules of the program's text, else zero. Rules:
//!
//! ```text
//! fill eth.type = 0x800                      ; a value
//! fill eth.type = next { vlan: 0x8100, ... } ; by the header that follows, zero if not listed
//! fill ipv4.ihl = words                      ; length of this header in 32-bit words
//! fill ipv4.len = bytes                      ; bytes from this header's start to the packet's end
//! fill ipv6.len = bytes_after                ; bytes behind this header
//! fill ipv4.checksum = csum_header           ; RFC 1071 over this header
//! fill icmp.checksum = csum_rest             ; over this header and all behind it
//! fill tcp.checksum = csum_ip                ; the same with the pseudo-header of the IP header before
//! fill udp.checksum = csum_ip_nonzero        ; the same, zero written as all ones
//! ```
//!
//! The reverse, [`Packet::show`], prints the shortest text that gives the same packet.

use crate::bits::Bits;
use crate::expr::FieldRef;
use crate::id::{FieldId, HeaderId, StackId};
use crate::program::Program;
use crate::text::Error;
use crate::text::code::Names;
use crate::text::cursor::{Cursor, Parsed, fit, nearest};
use crate::text::lex::Kind;
use crate::text::parse::Item;
use crate::text::value::{name, value};
use std::collections::BTreeMap;

/// How a field that is not given is filled in.
#[derive(Clone, Debug, PartialEq)]
enum Rule {
    Value(Bits),
    Next(Vec<(String, Bits)>),
    Words,
    Bytes,
    BytesAfter,
    CsumHeader,
    CsumRest,
    CsumIp,
    CsumIpNonzero,
}

/// The fill rules of a text.
#[derive(Clone, Debug, Default)]
pub struct Fills {
    /// By the header's (or its stack's) name and the field.
    rules: Vec<(String, FieldId, Rule)>,
}

impl Fills {
    pub(super) fn parse(program: &Program, items: &[Item]) -> Parsed<Fills> {
        let mut fills = Fills::default();
        for item in items.iter().filter(|i| i.keyword == "fill") {
            let mut c = item.cursor();
            fills.rule(program, &mut c)?;
            c.end_statement()?;
        }
        Ok(fills)
    }

    fn rule(&mut self, program: &Program, c: &mut Cursor<'_>) -> Parsed<()> {
        let at = c.clone();
        let n = c.name("a field")?;
        let Some((head, field)) = n.rsplit_once('.') else {
            return at.error(format!("`{n}` is no field of a header"));
        };
        let first = program
            .find_stack(head)
            .map(|s| program.stacks[s.index()].first)
            .or_else(|| program.find_header(head));
        // A library's rule for a header that the text declares differently, or not at all.
        let Some(id) = first.and_then(|h| program.type_of(h).field(field)) else {
            while !c.at_end() || c.is("}") {
                c.next();
            }
            return Ok(());
        };
        let width = first.map_or(0, |h| program.type_of(h).fields[id.index()].width);
        c.want("=")?;
        let rule = if let Kind::Literal(_) = c.peek() {
            Rule::Value(c.value(width)?)
        } else {
            let at = c.clone();
            match c.name("a value or a fill rule")?.as_str() {
                "next" => Rule::Next(next_rules(c, width)?),
                "words" => Rule::Words,
                "bytes" => Rule::Bytes,
                "bytes_after" => Rule::BytesAfter,
                "csum_header" => Rule::CsumHeader,
                "csum_rest" => Rule::CsumRest,
                "csum_ip" => Rule::CsumIp,
                "csum_ip_nonzero" => Rule::CsumIpNonzero,
                other => return at.error(format!("`{other}` is no fill rule")),
            }
        };
        self.rules.push((head.to_string(), id, rule));
        Ok(())
    }

    fn get(&self, head: &str, field: FieldId) -> Option<&Rule> {
        self.rules.iter().rev().find(|(h, f, _)| h == head && *f == field).map(|(_, _, r)| r)
    }
}

fn next_rules(c: &mut Cursor<'_>, width: u32) -> Parsed<Vec<(String, Bits)>> {
    let mut out = Vec::new();
    c.want("{")?;
    while !c.eat("}") {
        if !out.is_empty() {
            c.want(",")?;
        }
        let n = c.name("a header")?;
        c.want(":")?;
        out.push((n, c.value(width)?));
    }
    Ok(out)
}

/// A header of a packet, with the fields that were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which instance.
    pub header: HeaderId,
    /// Fields given; a varbit field has the width it was given with.
    pub given: BTreeMap<FieldId, Bits>,
}

/// A packet as written: headers, then payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Headers in order.
    pub parts: Vec<Part>,
    /// What comes behind them.
    pub payload: Vec<u8>,
}

/// What the headers of a packet hold, as an engine's parser sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsing {
    /// Headers in the order in which they were extracted, with all fields' values.
    pub headers: Vec<(HeaderId, Vec<Bits>)>,
    /// The rest.
    pub payload: Vec<u8>,
}

/// The name under which fill rules know an instance: its own, or its stack's.
fn head(program: &Program, h: HeaderId) -> &str {
    let instance = &program.headers[h.index()];
    match instance.stack {
        Some((s, _)) => &program.stacks[s.index()].name,
        None => &instance.name,
    }
}

impl Packet {
    /// Reads `header(field=value, ...)/.../payload`, or `hex aabbcc...` for raw bytes.
    pub(super) fn parse(program: &Program, c: &mut Cursor<'_>) -> Parsed<Packet> {
        let mut packet = Packet::default();
        let mut used: BTreeMap<StackId, u32> = BTreeMap::new();
        loop {
            if let Kind::Literal(l) = c.peek() {
                c.next();
                packet.payload.extend(l.value.to_be_bytes());
            } else if c.is_word("payload") {
                c.next();
                payload(c, &mut packet.payload)?;
            } else {
                let at = c.clone();
                if !packet.payload.is_empty() {
                    return at.error("a header behind the payload");
                }
                let header = part_header(program, c, &mut used)?;
                let given = given(program, header, c)?;
                if packet.parts.iter().any(|p| p.header == header) {
                    let n = &program.headers[header.index()].name;
                    return at.error(format!("header {n} is there twice"));
                }
                packet.parts.push(Part { header, given });
            }
            if !c.eat("/") {
                return Ok(packet);
            }
        }
    }

    /// Changes fields: `header.field=value, ...` up to `)`.
    pub(super) fn set(&mut self, program: &Program, c: &mut Cursor<'_>) -> Parsed<()> {
        let names = Names::new(program, &[]);
        while !c.eat(")") {
            let at = c.clone();
            let f = names.field(c)?;
            let FieldRef::Header(header, field) = f else {
                return at.error("only fields of headers can be set");
            };
            let Some(part) = self.parts.iter_mut().find(|p| p.header == header) else {
                let n = &program.headers[header.index()].name;
                return at.error(format!("the packet has no header {n}"));
            };
            c.want("=")?;
            part.given.insert(field, field_value(program, header, field, c)?);
            if !c.is(")") {
                c.want(",")?;
            }
        }
        Ok(())
    }

    /// The packet's bytes. Headers that are no whole bytes are packed bit by bit; the last byte is
    /// padded with zeros.
    pub fn bytes(&self, program: &Program, fills: &Fills) -> Vec<u8> {
        let mut headers: Vec<Vec<Bits>> = Vec::new();
        for (i, part) in self.parts.iter().enumerate() {
            let ty = program.type_of(part.header);
            let own = head(program, part.header);
            let next = self.parts.get(i + 1).map(|p| head(program, p.header));
            let mut values = Vec::new();
            for (at, f) in ty.fields.iter().enumerate() {
                let id = FieldId(at as u32);
                let zero = Bits::zero(if f.varbit { 0 } else { f.width });
                let filled = || match fills.get(own, id) {
                    Some(Rule::Value(v)) => Some(v.clone()),
                    Some(Rule::Next(list)) => {
                        list.iter().find(|(n, _)| Some(n.as_str()) == next).map(|(_, v)| v.clone())
                    }
                    _ => None,
                };
                values.push(part.given.get(&id).cloned().or_else(filled).unwrap_or(zero));
            }
            headers.push(values);
        }
        self.lengths(program, fills, &mut headers);
        for i in (0..self.parts.len()).rev() {
            self.checksum(program, fills, &mut headers, i);
        }
        self.pack(&headers, 0)
    }

    fn lengths(&self, program: &Program, fills: &Fills, headers: &mut [Vec<Bits>]) {
        let bits = |h: &[Bits]| h.iter().map(|b| b.width() as usize).sum::<usize>();
        let mut behind = self.payload.len() * 8;
        for (part, h) in self.parts.iter().zip(headers).rev() {
            let own = bits(h);
            for (at, value) in h.iter_mut().enumerate() {
                let id = FieldId(at as u32);
                let n = match fills.get(head(program, part.header), id) {
                    _ if part.given.contains_key(&id) => continue,
                    Some(Rule::Words) => own / 32,
                    Some(Rule::Bytes) => (own + behind).div_ceil(8),
                    Some(Rule::BytesAfter) => behind.div_ceil(8),
                    _ => continue,
                };
                *value = Bits::from_u128(n as u128, value.width());
            }
            behind += own;
        }
    }

    fn checksum(&self, program: &Program, fills: &Fills, headers: &mut [Vec<Bits>], i: usize) {
        let part = &self.parts[i];
        for at in 0..headers[i].len() {
            let id = FieldId(at as u32);
            if part.given.contains_key(&id) {
                continue;
            }
            let Some(rule) = fills.get(head(program, part.header), id) else { continue };
            let sum = match rule {
                Rule::CsumHeader => {
                    let only = Packet::default();
                    add(0, &only.pack(&headers[i..=i], 0))
                }
                Rule::CsumRest => add(0, &self.pack(headers, i)),
                Rule::CsumIp | Rule::CsumIpNonzero => {
                    let rest = self.pack(headers, i);
                    let pseudo = self.pseudo(program, headers, i);
                    add(add(0, &rest) + pseudo + rest.len() as u64, &[])
                }
                _ => continue,
            };
            let mut value = !fold(sum);
            if *rule == Rule::CsumIpNonzero && value == 0 {
                value = 0xffff;
            }
            headers[i][at] = Bits::from_u128(value.into(), headers[i][at].width());
        }
    }

    /// The sum of addresses and protocol of the last header before `i` that has them.
    fn pseudo(&self, program: &Program, headers: &[Vec<Bits>], i: usize) -> u64 {
        for at in (0..i).rev() {
            let ty = program.type_of(self.parts[at].header);
            if let (Some(s), Some(d), Some(p)) =
                (ty.field("src"), ty.field("dst"), ty.field("proto"))
            {
                let h = &headers[at];
                let addresses =
                    add(add(0, &h[s.index()].to_be_bytes()), &h[d.index()].to_be_bytes());
                return addresses + h[p.index()].low_u64();
            }
        }
        0
    }

    /// Headers from `first` on and the payload, as bytes.
    fn pack(&self, headers: &[Vec<Bits>], first: usize) -> Vec<u8> {
        let total: usize =
            headers[first..].iter().flatten().map(|b| b.width() as usize).sum::<usize>();
        let bits = total + self.payload.len() * 8;
        let mut out = vec![0u8; bits.div_ceil(8)];
        let mut at = 0;
        for b in headers[first..].iter().flatten() {
            b.deposit(&mut out, at);
            at += b.width() as usize;
        }
        if at.is_multiple_of(8) {
            out[at / 8..].copy_from_slice(&self.payload);
        } else {
            for byte in &self.payload {
                Bits::from_u128((*byte).into(), 8).deposit(&mut out, at);
                at += 8;
            }
        }
        out
    }

    /// The text of a packet that an engine's parser has taken apart: only fields that filling would
    /// not give. `None` if no such text gives the same bytes.
    pub fn show(
        program: &Program,
        fills: &Fills,
        parsed: &Parsing,
        bytes: &[u8],
    ) -> Option<String> {
        let mut packet = Packet { parts: Vec::new(), payload: parsed.payload.clone() };
        for (header, values) in &parsed.headers {
            let ids = (0..).map(FieldId);
            let given = ids.zip(values.iter().cloned()).collect();
            packet.parts.push(Part { header: *header, given });
        }
        if packet.bytes(program, fills) != bytes {
            return None;
        }
        for i in 0..packet.parts.len() {
            let ids: Vec<FieldId> = packet.parts[i].given.keys().copied().collect();
            for id in ids {
                let Some(v) = packet.parts[i].given.remove(&id) else { continue };
                if packet.bytes(program, fills) != bytes {
                    packet.parts[i].given.insert(id, v);
                }
            }
        }
        Some(packet.text(program))
    }

    /// As [`show`](Self::show), for a packet made from another one by changing a few fields:
    /// `set(field=value, ...)`. `None` if that cannot be said so.
    pub fn show_change(
        &self,
        program: &Program,
        fills: &Fills,
        parsed: &Parsing,
        bytes: &[u8],
    ) -> Option<String> {
        let own: Vec<HeaderId> = self.parts.iter().map(|p| p.header).collect();
        let other: Vec<HeaderId> = parsed.headers.iter().map(|(h, _)| *h).collect();
        if own.is_empty() || own != other {
            return None;
        }
        let mut changed = self.clone();
        let mut set: Vec<(usize, FieldId)> = Vec::new();
        for (i, (_, values)) in parsed.headers.iter().enumerate() {
            for (id, v) in (0..).map(FieldId).zip(values) {
                if changed.parts[i].given.get(&id) != Some(v) {
                    changed.parts[i].given.insert(id, v.clone());
                    set.push((i, id));
                }
            }
        }
        if changed.bytes(program, fills) != bytes {
            return None;
        }
        // Leave out what the input or filling gives anyway.
        let mut kept = Vec::new();
        for (i, id) in set {
            let v = changed.parts[i].given.remove(&id);
            if let Some(old) = self.parts[i].given.get(&id) {
                changed.parts[i].given.insert(id, old.clone());
            }
            if changed.bytes(program, fills) != bytes
                && let Some(v) = v
            {
                let f = FieldRef::Header(self.parts[i].header, id);
                let n = program.field_name(f);
                kept.push(format!("{}={}", name(&n), field_text(program, f, &v)));
                changed.parts[i].given.insert(id, v);
            }
        }
        Some(format!("set({})", kept.join(", ")))
    }

    /// The packet as it reads back.
    pub fn text(&self, program: &Program) -> String {
        let mut out = Vec::new();
        for part in &self.parts {
            let instance = &program.headers[part.header.index()];
            let ty = program.type_of(part.header);
            let mut text = name(&instance.name);
            let fields: Vec<String> = part
                .given
                .iter()
                .map(|(f, v)| {
                    let at = FieldRef::Header(part.header, *f);
                    format!("{}={}", name(&ty.fields[f.index()].name), field_text(program, at, v))
                })
                .collect();
            if !fields.is_empty() {
                text.push_str(&format!("({})", fields.join(", ")));
            }
            out.push(text);
        }
        if !self.payload.is_empty() {
            let counted = self.payload.iter().enumerate().all(|(i, b)| *b == i as u8);
            out.push(if counted && self.payload.len() > 1 {
                format!("payload(len={})", self.payload.len())
            } else {
                format!("0x{}", hex(&self.payload))
            });
        }
        if out.is_empty() { "payload".to_string() } else { out.join("/") }
    }
}

/// Lower-case digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn field_text(program: &Program, f: FieldRef, v: &Bits) -> String {
    let FieldRef::Header(h, id) = f else { return v.to_string() };
    let field = &program.type_of(h).fields[id.index()];
    if field.varbit { format!("0x{}", hex(&v.to_be_bytes())) } else { value(&field.name, v) }
}

fn field_value(
    program: &Program,
    header: HeaderId,
    field: FieldId,
    c: &mut Cursor<'_>,
) -> Parsed<Bits> {
    let f = &program.type_of(header).fields[field.index()];
    let at = c.clone();
    let l = c.literal("a value")?;
    if !f.varbit {
        return fit(l, f.width).or_else(|text| at.error(text));
    }
    if l.value.width() > f.width {
        return at.error(format!(
            "{} bits given, {} has at most {}",
            l.value.width(),
            f.name,
            f.width
        ));
    }
    Ok(l.value.clone())
}

fn part_header(
    program: &Program,
    c: &mut Cursor<'_>,
    used: &mut BTreeMap<StackId, u32>,
) -> Parsed<HeaderId> {
    let at = c.clone();
    let n = c.name("a header, a stack or a payload")?;
    if let Some(h) = program.find_header(&n) {
        if let Some((s, i)) = program.headers[h.index()].stack {
            let next = used.entry(s).or_default();
            *next = (*next).max(i + 1);
        }
        return Ok(h);
    }
    let Some(s) = program.find_stack(&n) else {
        let known = program.headers.iter().map(|h| &*h.name);
        let near = nearest(&n, known.chain(program.stacks.iter().map(|s| &*s.name)));
        return at.error(format!("there is no header or stack `{n}`{near}"));
    };
    let stack = &program.stacks[s.index()];
    let next = used.entry(s).or_default();
    if *next >= stack.size {
        return at.error(format!("stack {n} has only {} elements", stack.size));
    }
    *next += 1;
    Ok(HeaderId(stack.first.0 + *next - 1))
}

/// `(field=value, ...)`, or nothing.
fn given(
    program: &Program,
    header: HeaderId,
    c: &mut Cursor<'_>,
) -> Parsed<BTreeMap<FieldId, Bits>> {
    let mut out = BTreeMap::new();
    if !c.eat("(") {
        return Ok(out);
    }
    let ty = program.type_of(header);
    while !c.eat(")") {
        if !out.is_empty() {
            c.want(",")?;
        }
        let at = c.clone();
        let n = c.name("a field")?;
        let Some(id) = ty.field(&n) else {
            let near = nearest(&n, ty.fields.iter().map(|f| &*f.name));
            return at.error(format!("header type {} has no field `{n}`{near}", ty.name));
        };
        c.want("=")?;
        out.insert(id, field_value(program, header, id, c)?);
    }
    Ok(out)
}

/// Nothing, `(len=N)` for the bytes 0, 1, 2, ..., or `(0x...)`.
fn payload(c: &mut Cursor<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    if !c.eat("(") {
        return Ok(());
    }
    if c.eat_word("len") {
        c.want("=")?;
        let at = c.clone();
        let len = c.u32("a length in bytes")?;
        if len > 65_535 {
            return at.error("a payload has at most 65535 bytes");
        }
        out.extend((0..len).map(|i| i as u8));
    } else {
        out.extend(c.literal("`len=` or bytes in hexadecimal")?.value.to_be_bytes());
    }
    c.want(")")
}

/// Bytes in hexadecimal, with or without blanks.
pub(super) fn raw(text: &str, line: u32) -> Result<Vec<u8>, Error> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let nibbles: Option<Vec<u32>> = digits.iter().map(|c| c.to_digit(16)).collect();
    match nibbles {
        Some(n) if n.len().is_multiple_of(2) => {
            Ok(n.chunks(2).map(|p| (p[0] << 4 | p[1]) as u8).collect())
        }
        _ => {
            let text = "expected pairs of hexadecimal digits".to_string();
            Err(Error { line, column: 1, text })
        }
    }
}

/// RFC 1071: adds 16-bit words.
fn add(sum: u64, bytes: &[u8]) -> u64 {
    let word = |w: &[u8]| u64::from(w[0]) << 8 | w.get(1).map_or(0, |b| u64::from(*b));
    bytes.chunks(2).map(word).sum::<u64>() + sum
}

fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
