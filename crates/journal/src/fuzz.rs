//! The body of the fuzz target `journal`, which a unit test runs too. Hidden: only tests and the fuzz target call it.

use crate::frame::push;
use crate::record::{Head, Kind, Map, end, items};
use crate::restore::{read_log, read_snapshot};

/// The number that the first record of a log has here.
const FIRST: u64 = 7;

/// Payloads that the bytes are cut into: each byte of a length is followed by so many.
fn payloads(mut data: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while let Some((length, rest)) = data.split_first() {
        let (payload, behind) = rest.split_at(usize::from(*length).min(rest.len()));
        all.push(payload);
        data = behind;
    }
    all
}

fn file(kind: Kind, payloads: &[&[u8]], last: Option<&[u8]>) -> Vec<u8> {
    let head = Head { kind, number: 1, first: FIRST, owner: "fuzz".to_owned() };
    let mut out = Vec::new();
    assert!(push(&mut out, 0, &head.bytes()), "a short frame");
    // Records have the log's numbers, parts of a snapshot go on from its head.
    let from = if kind == Kind::Log { FIRST } else { 1 };
    for (sequence, payload) in (from..).zip(payloads.iter().copied().chain(last)) {
        assert!(push(&mut out, sequence, payload), "a short frame");
    }
    out
}

/// Files of a journal: any bytes as they are; the same as payloads of right frames; and those with a byte changed. What is
/// read is a prefix of whole records, and reads the same when the rest is cut off.
pub fn journal(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    log(rest);
    if let Ok((map, ..)) = read_snapshot(rest) {
        snapshot(&map);
    }
    let payloads = payloads(rest);
    let mut bytes = file(Kind::Log, &payloads, None);
    let (good, next) = log(&bytes);
    let right = payloads.iter().take_while(|payload| items(payload).is_some()).count();
    assert_eq!(next, FIRST + right as u64, "all records up to the first that is none");
    assert_eq!(good == bytes.len(), right == payloads.len());
    let place = usize::from(*choice) * bytes.len() / 256;
    bytes[place] ^= 1 << (choice % 8);
    let (cut, _) = log(&bytes);
    assert!(cut <= place && cut <= good, "nothing from a changed byte on is read");
    let mut map = Map::new();
    let mut whole = file(Kind::Log, &payloads[..right], None);
    assert_eq!(read_log(&whole, &mut map, FIRST).0, whole.len());
    whole.truncate(place.min(whole.len()));
    log(&whole);
    snapshot(&map);
}

/// Reads a log twice: as it is, and what was right of it.
fn log(bytes: &[u8]) -> (usize, u64) {
    let (mut map, mut again) = (Map::new(), Map::new());
    let (good, next) = read_log(bytes, &mut map, FIRST);
    assert!(good <= bytes.len() && next >= FIRST);
    if good > 0 {
        assert_eq!(read_log(&bytes[..good], &mut again, FIRST), (good, next));
    }
    assert_eq!(map, again);
    (good, next)
}

/// A map comes back from a snapshot of it, and from no part of one.
fn snapshot(map: &Map) {
    let mut record = crate::Record::default();
    map.iter().for_each(|(key, value)| record.put(key, value));
    let parts: Vec<&[u8]> = record.parts(64).collect();
    let bytes = file(Kind::Snapshot, &parts, Some(&end(map.len() as u64)));
    let read = read_snapshot(&bytes).map(|(read, first, _)| (read == *map, first));
    assert_eq!(read.ok(), Some((true, FIRST)));
    assert!(read_snapshot(&bytes[..bytes.len() - 1]).is_err(), "it is whole or none");
}

#[cfg(test)]
mod tests {
    use crate::Record;

    /// SplitMix64.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A choice, and records with few keys, of which some are spoilt.
    fn input(seed: u64) -> Vec<u8> {
        let mut state = seed;
        let mut below = |bound: u64| (next(&mut state) % bound) as u8;
        let mut out = vec![below(256)];
        for _ in 0..below(8) {
            let mut record = Record::default();
            for _ in 0..below(4) {
                let key = [b'k', below(5)];
                match below(3) {
                    0 => record.remove(&key),
                    _ => record.put(&key, &vec![below(256); usize::from(below(20))]),
                }
            }
            let mut bytes = record.bytes().to_vec();
            if let (0, true) = (below(8), !bytes.is_empty()) {
                let place = usize::from(below(bytes.len() as u64));
                bytes[place] ^= below(256);
            }
            out.push(bytes.len() as u8);
            out.extend(bytes);
        }
        out
    }

    #[test]
    fn what_is_read_of_any_file_is_whole_records() {
        super::journal(&[]);
        for seed in 0..3000 {
            let mut bytes = input(seed);
            super::journal(&bytes);
            bytes.truncate(bytes.len() / 2);
            super::journal(&bytes);
        }
    }
}
