//! A `WriteRequest` as it comes over the connection, looked through in place.
//!
//! Most updates of large writes are plain: an entry of a table with its match fields, a priority and one action. Those are
//! read where they lie, with no message made of them. Any other update becomes a message, as prost makes it.
//!
//! In: the bytes of a request. Out: all of the request but its updates as a message, and the updates, each plain or a message.
//!
//! Invariants: a plain update means what prost would make of it. Whatever prost might see otherwise is not plain: a field that
//! comes twice, that is unknown, or whose number does not fit. Bytes that prost refuses are refused, with its words.
//! Cost: one pass; no allocation for a plain update, but for the room of all of them together.
//! Checked by: the tests below; `tests/model`, half of whose writes come this way.

use crate::proto::v1;
use prost::{DecodeError, Message as _};
use std::borrow::Cow;
use std::ops::Range;

/// What a match field says, wherever its bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match<'b> {
    /// Nothing.
    Empty,
    /// A value.
    Exact(&'b [u8]),
    /// A value that might be left out.
    Optional(&'b [u8]),
    /// Value and mask.
    Ternary(&'b [u8], &'b [u8]),
    /// Value and prefix length.
    Lpm(&'b [u8], i32),
    /// Low and high end.
    Range(&'b [u8], &'b [u8]),
    /// Something else.
    Other,
}

impl<'b> From<&'b v1::FieldMatch> for Match<'b> {
    fn from(m: &'b v1::FieldMatch) -> Match<'b> {
        use v1::field_match::FieldMatchType as F;
        match &m.field_match_type {
            None => Match::Empty,
            Some(F::Exact(m)) => Match::Exact(&m.value),
            Some(F::Optional(m)) => Match::Optional(&m.value),
            Some(F::Ternary(m)) => Match::Ternary(&m.value, &m.mask),
            Some(F::Lpm(m)) => Match::Lpm(&m.value, m.prefix_len),
            Some(F::Range(m)) => Match::Range(&m.low, &m.high),
            Some(F::Other(_)) => Match::Other,
        }
    }
}

/// An entry with nothing but match fields, a priority and an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain<'r> {
    /// The update's type.
    pub(crate) kind: i32,
    /// The table's id.
    pub(crate) table_id: u32,
    /// Match fields by id.
    pub(crate) matches: &'r [(u32, Match<'r>)],
    /// Its priority.
    pub(crate) priority: i32,
    /// The action's id.
    pub(crate) action_id: u32,
    /// Arguments by the parameter's id.
    pub(crate) params: &'r [(u32, &'r [u8])],
}

/// An update that was looked through.
enum Update<'b> {
    Plain(PlainAt<'b>),
    Message(Box<v1::Update>),
}

/// A plain update, and where its fields are.
struct PlainAt<'b> {
    bytes: &'b [u8],
    kind: i32,
    table_id: u32,
    priority: i32,
    action_id: u32,
    matches: Range<u32>,
    params: Range<u32>,
}

/// Match fields and arguments of all plain updates.
#[derive(Default)]
struct Fields<'b> {
    matches: Vec<(u32, Match<'b>)>,
    params: Vec<(u32, &'b [u8])>,
}

/// A request.
pub(crate) struct Request<'b> {
    /// All but the updates.
    pub(crate) head: v1::WriteRequest,
    updates: Vec<Update<'b>>,
    fields: Fields<'b>,
}

impl<'b> Request<'b> {
    /// Looks through a request.
    pub(crate) fn read(bytes: &'b [u8]) -> Result<Request<'b>, DecodeError> {
        match Self::looked_through(bytes) {
            Some(request) => Ok(request),
            // What is wrong with it, or that nothing is, says prost.
            None => {
                let mut head = v1::WriteRequest::decode(bytes)?;
                let updates = std::mem::take(&mut head.updates).into_iter();
                let updates = updates.map(|update| Update::Message(Box::new(update))).collect();
                Ok(Request { head, updates, fields: Fields::default() })
            }
        }
    }

    fn looked_through(bytes: &'b [u8]) -> Option<Request<'b>> {
        let mut fields = Fields::default();
        let (mut updates, mut rest) = (Vec::new(), Vec::new());
        let mut scan = Scan(bytes);
        while !scan.0.is_empty() {
            let from = scan.0;
            match scan.field()? {
                (4, Value::Bytes(bytes)) => {
                    if updates.is_empty() {
                        // The others are about as long.
                        updates.reserve(from.len() / bytes.len().max(1) / 2 + 1);
                    }
                    updates.push(match fields.plain(bytes) {
                        Some(plain) => Update::Plain(plain),
                        None => Update::Message(Box::new(v1::Update::decode(bytes).ok()?)),
                    });
                }
                _ => rest.extend_from_slice(&from[..from.len() - scan.0.len()]),
            }
        }
        let head = v1::WriteRequest::decode(&rest[..]).ok()?;
        Some(Request { head, updates, fields })
    }

    /// How many updates there are.
    pub(crate) fn len(&self) -> usize {
        self.updates.len()
    }

    /// An update, if it is plain.
    pub(crate) fn plain(&self, n: usize) -> Option<Plain<'_>> {
        let Update::Plain(p) = self.updates.get(n)? else { return None };
        let PlainAt { kind, table_id, priority, action_id, .. } = *p;
        let at = |range: &Range<u32>| range.start as usize..range.end as usize;
        let matches = self.fields.matches.get(at(&p.matches))?;
        let params = self.fields.params.get(at(&p.params))?;
        Some(Plain { kind, table_id, matches, priority, action_id, params })
    }

    /// An update as a message.
    pub(crate) fn update(&self, n: usize) -> Cow<'_, v1::Update> {
        match &self.updates[n] {
            Update::Message(update) => Cow::Borrowed(update),
            Update::Plain(p) => match v1::Update::decode(p.bytes) {
                Ok(update) => Cow::Owned(update),
                Err(error) => unreachable!("prost refuses a plain update: {error}"),
            },
        }
    }
}

/// The value of a field: of the two kinds that plain updates have.
#[derive(Clone, Copy)]
enum Value<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// What is left of a message.
struct Scan<'b>(&'b [u8]);

impl<'b> Scan<'b> {
    fn varint(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        if *first < 0x80 {
            return Some(u64::from(*first));
        }
        let mut number = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            if shift == 63 && *byte > 1 {
                return None;
            }
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// The next field, if it is of one of these kinds.
    fn field(&mut self) -> Option<(u32, Value<'b>)> {
        let key = u32::try_from(self.varint()?).ok()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(len)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            _ => return None,
        };
        (key >> 3 != 0).then_some((key >> 3, value))
    }
}

/// Sets what comes once.
fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

fn unsigned(number: u64) -> Option<u32> {
    number.try_into().ok()
}

fn signed(number: u64) -> Option<i32> {
    number.try_into().ok()
}

/// Values of a message whose fields 1 and 2 are bytes.
fn pair(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut one, mut two) = (None, None);
    let mut scan = Scan(bytes);
    while !scan.0.is_empty() {
        match scan.field()? {
            (1, Value::Bytes(bytes)) => once(&mut one, bytes)?,
            (2, Value::Bytes(bytes)) => once(&mut two, bytes)?,
            _ => return None,
        }
    }
    Some((one.unwrap_or_default(), two.unwrap_or_default()))
}

/// The same with field 1 alone.
fn single(bytes: &[u8]) -> Option<&[u8]> {
    match bytes.is_empty() {
        true => Some(bytes),
        false => only(bytes, 1),
    }
}

fn lpm(bytes: &[u8]) -> Option<(&[u8], i32)> {
    let (mut value, mut len) = (None, None);
    let mut scan = Scan(bytes);
    while !scan.0.is_empty() {
        match scan.field()? {
            (1, Value::Bytes(bytes)) => once(&mut value, bytes)?,
            (2, Value::Number(number)) => once(&mut len, signed(number)?)?,
            _ => return None,
        }
    }
    Some((value.unwrap_or_default(), len.unwrap_or_default()))
}

fn field_match(bytes: &[u8]) -> Option<(u32, Match<'_>)> {
    let (mut id, mut told) = (None, None);
    let mut scan = Scan(bytes);
    while !scan.0.is_empty() {
        let told_now = match scan.field()? {
            (1, Value::Number(number)) => {
                once(&mut id, unsigned(number)?)?;
                continue;
            }
            (2, Value::Bytes(bytes)) => Match::Exact(single(bytes)?),
            (7, Value::Bytes(bytes)) => Match::Optional(single(bytes)?),
            (4, Value::Bytes(bytes)) => lpm(bytes).map(|(value, len)| Match::Lpm(value, len))?,
            (3, Value::Bytes(bytes)) => pair(bytes).map(|(v, mask)| Match::Ternary(v, mask))?,
            (6, Value::Bytes(bytes)) => pair(bytes).map(|(low, high)| Match::Range(low, high))?,
            _ => return None,
        };
        once(&mut told, told_now)?;
    }
    Some((id.unwrap_or_default(), told.unwrap_or(Match::Empty)))
}

fn param(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (mut id, mut value) = (None, None);
    let mut scan = Scan(bytes);
    while !scan.0.is_empty() {
        match scan.field()? {
            (2, Value::Number(number)) => once(&mut id, unsigned(number)?)?,
            (3, Value::Bytes(bytes)) => once(&mut value, bytes)?,
            _ => return None,
        }
    }
    Some((id.unwrap_or_default(), value.unwrap_or_default()))
}

/// The only field of a message, which has this number and is a message.
fn only(bytes: &[u8], number: u32) -> Option<&[u8]> {
    let mut scan = Scan(bytes);
    match scan.field()? {
        (n, Value::Bytes(inner)) if n == number && scan.0.is_empty() => Some(inner),
        _ => None,
    }
}

impl<'b> Fields<'b> {
    /// An update, if it is plain.
    fn plain(&mut self, bytes: &'b [u8]) -> Option<PlainAt<'b>> {
        let (matches, params) = (self.matches.len(), self.params.len());
        let plain = self.plain_from(bytes, matches as u32, params as u32);
        if plain.is_none() {
            self.matches.truncate(matches);
            self.params.truncate(params);
        }
        plain
    }

    fn plain_from(&mut self, bytes: &'b [u8], matches: u32, params: u32) -> Option<PlainAt<'b>> {
        let (mut kind, mut entity) = (None, None);
        let mut scan = Scan(bytes);
        while !scan.0.is_empty() {
            match scan.field()? {
                (1, Value::Number(number)) => once(&mut kind, signed(number)?)?,
                (2, Value::Bytes(bytes)) => once(&mut entity, bytes)?,
                _ => return None,
            }
        }
        let (mut table_id, mut priority, mut action) = (None, None, None);
        let mut scan = Scan(only(entity?, 2)?);
        while !scan.0.is_empty() {
            match scan.field()? {
                (1, Value::Number(number)) => once(&mut table_id, unsigned(number)?)?,
                (2, Value::Bytes(bytes)) => self.matches.push(field_match(bytes)?),
                (3, Value::Bytes(bytes)) => once(&mut action, only(bytes, 1)?)?,
                (4, Value::Number(number)) => once(&mut priority, signed(number)?)?,
                _ => return None,
            }
        }
        let mut action_id = None;
        let mut scan = Scan(action?);
        while !scan.0.is_empty() {
            match scan.field()? {
                (1, Value::Number(number)) => once(&mut action_id, unsigned(number)?)?,
                (4, Value::Bytes(bytes)) => self.params.push(param(bytes)?),
                _ => return None,
            }
        }
        Some(PlainAt {
            bytes,
            kind: kind.unwrap_or_default(),
            table_id: table_id.unwrap_or_default(),
            priority: priority.unwrap_or_default(),
            action_id: action_id.unwrap_or_default(),
            matches: matches..self.matches.len() as u32,
            params: params..self.params.len() as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use v1::entity::Entity as E;
    use v1::field_match::{Exact, FieldMatchType as F, Lpm, Optional, Range, Ternary};

    /// The message that a plain update stands for.
    fn message(p: &Plain<'_>) -> v1::Update {
        let of = |(id, m): &(u32, Match<'_>)| v1::FieldMatch {
            field_id: *id,
            field_match_type: match *m {
                Match::Empty => None,
                Match::Exact(v) => Some(F::Exact(Exact { value: v.to_vec() })),
                Match::Optional(v) => Some(F::Optional(Optional { value: v.to_vec() })),
                Match::Ternary(v, m) => {
                    Some(F::Ternary(Ternary { value: v.to_vec(), mask: m.to_vec() }))
                }
                Match::Lpm(v, len) => Some(F::Lpm(Lpm { value: v.to_vec(), prefix_len: len })),
                Match::Range(low, high) => {
                    Some(F::Range(Range { low: low.to_vec(), high: high.to_vec() }))
                }
                Match::Other => unreachable!("it is not plain"),
            },
        };
        let param = |(id, v): &(u32, &[u8])| v1::action::Param { param_id: *id, value: v.to_vec() };
        let action =
            v1::Action { action_id: p.action_id, params: p.params.iter().map(param).collect() };
        let entry = v1::TableEntry {
            table_id: p.table_id,
            r#match: p.matches.iter().map(of).collect(),
            priority: p.priority,
            action: Some(v1::TableAction { r#type: Some(v1::table_action::Type::Action(action)) }),
            ..v1::TableEntry::default()
        };
        let entity = Some(v1::Entity { entity: Some(E::TableEntry(entry)) });
        v1::Update { r#type: p.kind, entity }
    }

    fn request() -> v1::WriteRequest {
        let matches = [
            F::Exact(Exact { value: vec![7; 4] }),
            F::Exact(Exact { value: vec![1; 200] }),
            F::Optional(Optional { value: Vec::new() }),
            F::Ternary(Ternary { value: vec![1], mask: vec![3] }),
            F::Lpm(Lpm { value: vec![10, 0], prefix_len: 12 }),
            F::Range(Range { low: vec![1], high: vec![0xff; 130] }),
        ];
        let matches = matches.into_iter().zip(1..);
        let matches = matches
            .map(|(m, id)| v1::FieldMatch { field_id: id * 1000, field_match_type: Some(m) });
        let params = [0u32, 9, 70_000]
            .map(|id| v1::action::Param { param_id: id, value: vec![id as u8; id as usize % 40] });
        let action = v1::Action { action_id: 0x0100_0001, params: params.to_vec() };
        let action = v1::TableAction { r#type: Some(v1::table_action::Type::Action(action)) };
        let plain = v1::TableEntry {
            table_id: 0x0200_0001,
            r#match: matches.collect(),
            action: Some(action),
            priority: 300,
            ..v1::TableEntry::default()
        };
        let noted = v1::TableEntry { metadata: vec![1, 2], ..plain.clone() };
        let minus = v1::TableEntry { priority: -1, ..plain.clone() };
        let bare = v1::TableEntry { action: None, ..plain.clone() };
        let all = [plain.clone(), noted, minus, bare, plain];
        let update = |(entry, kind): (v1::TableEntry, i32)| v1::Update {
            r#type: kind,
            entity: Some(v1::Entity { entity: Some(E::TableEntry(entry)) }),
        };
        let mut updates: Vec<v1::Update> = all.into_iter().zip(0..).map(update).collect();
        updates.push(v1::Update::default());
        v1::WriteRequest {
            device_id: 1 << 40,
            role: "é".into(),
            election_id: Some(v1::Uint128 { high: 3, low: u64::MAX }),
            updates,
            atomicity: 1,
            ..v1::WriteRequest::default()
        }
    }

    /// What is read of bytes is what prost makes of them; how many of the updates were plain.
    fn same(bytes: &[u8]) -> usize {
        match (Request::read(bytes), v1::WriteRequest::decode(bytes)) {
            (Ok(read), Ok(mut whole)) => {
                assert_eq!(read.len(), whole.updates.len());
                let mut plain = 0;
                for (n, update) in whole.updates.iter().enumerate() {
                    assert_eq!(*read.update(n), *update);
                    if let Some(p) = read.plain(n) {
                        assert_eq!(message(&p), *update);
                        plain += 1;
                    }
                }
                whole.updates.clear();
                assert_eq!(read.head, whole);
                plain
            }
            (Err(own), Err(theirs)) => {
                assert_eq!(own.to_string(), theirs.to_string());
                0
            }
            (own, theirs) => panic!("{:?}, {theirs:?}", own.map(|r| r.head)),
        }
    }

    #[test]
    fn plain_updates_are_read_in_place_and_others_are_messages() {
        assert_eq!(same(&request().encode_to_vec()), 2);
        assert_eq!(same(&[]), 0);
    }

    /// Bytes changed, left out and cut off: it stays with prost's view.
    #[test]
    fn damaged_requests_are_what_prost_makes_of_them() {
        let whole = request().encode_to_vec();
        let (mut state, mut plain) = (5u64, 0);
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        for round in 0..40_000 {
            let mut bytes = whole.clone();
            for _ in 0..1 + draw(3) {
                let at = draw(bytes.len());
                match draw(4) {
                    0 => bytes[at] = draw(256) as u8,
                    1 => bytes[at] ^= 1 << draw(8),
                    2 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, draw(256) as u8),
                }
            }
            if round % 8 == 0 {
                bytes.truncate(draw(bytes.len()));
            }
            plain += same(&bytes);
        }
        assert!(plain > 10_000, "{plain}");
    }
}
