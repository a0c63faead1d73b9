//! Transactions and snapshots as bytes.
//!
//! ```text
//! 1 | u32 length | key | u32 length | value      put
//! 0 | u32 length | key                           removed
//! ```
//!
//! A record is a list of these. The payload of a file's first frame:
//!
//! ```text
//! "millrace journal 1\n" | kind | u64 number of the file | u64 first sequence number of its log | for whom
//! ```

use std::collections::BTreeMap;

const MAGIC: &[u8] = b"millrace journal 1\n";
/// Bytes of a frame of a snapshot, about.
pub(crate) const PART: usize = 1 << 20;
const PUT: u8 = 1;
const REMOVE: u8 = 0;

/// What a map consists of.
pub type Map = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// One transaction: keys that are put, and keys that are removed, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    bytes: Vec<u8>,
    items: usize,
    /// Where items begin, so that a snapshot can be cut between them.
    starts: Vec<usize>,
}

impl Record {
    fn field(&mut self, bytes: &[u8]) {
        // What does not fit a length is refused by `Journal::append`, which counts all bytes.
        self.bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    fn begin(&mut self, op: u8) {
        self.starts.push(self.bytes.len());
        self.items += 1;
        self.bytes.push(op);
    }

    /// The key has this value from now on.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.begin(PUT);
        self.field(key);
        self.field(value);
    }

    /// The key is no more there.
    pub fn remove(&mut self, key: &[u8]) {
        self.begin(REMOVE);
        self.field(key);
    }

    /// How many keys it is about.
    pub fn len(&self) -> usize {
        self.items
    }

    /// It is about none.
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Forgets all, and keeps the room.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
        self.items = 0;
    }

    /// As bytes, of which [`map_of`] makes what it says.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same in parts of about so many bytes, none of which cuts an item.
    pub(crate) fn parts(&self, bytes: usize) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        let ends = self.starts.iter().skip(1).copied().chain([self.bytes.len()]);
        let all = self.bytes.len();
        ends.filter_map(move |end| {
            if end - from < bytes && end < all || end == from {
                return None;
            }
            let part = &self.bytes[from..end];
            from = end;
            Some(part)
        })
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    let (field, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = behind;
    Some(field)
}

/// What a record says of one key: its value, or none.
pub(crate) type Item<'a> = (&'a [u8], Option<&'a [u8]>);

/// The items of a record; none if it is none.
pub(crate) fn items(mut payload: &[u8]) -> Option<Vec<Item<'_>>> {
    let mut items = Vec::new();
    while let Some((op, rest)) = payload.split_first() {
        payload = rest;
        let key = field(&mut payload)?;
        match *op {
            PUT => items.push((key, Some(field(&mut payload)?))),
            REMOVE => items.push((key, None)),
            _ => return None,
        }
    }
    Some(items)
}

/// Does to the map what a record says: all of it, or false.
#[must_use]
pub(crate) fn apply(map: &mut Map, payload: &[u8]) -> bool {
    let Some(items) = items(payload) else { return false };
    for (key, value) in items {
        match value {
            Some(value) => drop(map.insert(key.into(), value.into())),
            None => drop(map.remove(key)),
        }
    }
    true
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Snapshot = b's' as isize,
    Log = b'l' as isize,
}

/// What the bytes of a record make of nothing; none if they are no record.
pub fn map_of(bytes: &[u8]) -> Option<Map> {
    let mut map = Map::new();
    apply(&mut map, bytes).then_some(map)
}

/// The first frame of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    /// Of the log's first record.
    pub(crate) first: u64,
    pub(crate) owner: String,
}

impl Head {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let numbers = [self.number.to_le_bytes(), self.first.to_le_bytes()].concat();
        [MAGIC, &[self.kind as u8], &numbers, self.owner.as_bytes()].concat()
    }

    pub(crate) fn read(payload: &[u8]) -> Option<Head> {
        let (kind, rest) = payload.strip_prefix(MAGIC)?.split_first()?;
        let kind = match kind {
            b's' => Kind::Snapshot,
            b'l' => Kind::Log,
            _ => return None,
        };
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (first, owner) = rest.split_first_chunk::<8>()?;
        let owner = std::str::from_utf8(owner).ok()?.to_owned();
        let (number, first) = (u64::from_le_bytes(*number), u64::from_le_bytes(*first));
        Some(Head { kind, number, first, owner })
    }
}

/// The last frame of a snapshot: an item that no key is, and how many keys there were.
pub(crate) fn end(keys: u64) -> Vec<u8> {
    [&[0xff][..], &keys.to_le_bytes()].concat()
}
