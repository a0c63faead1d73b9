//! What merged tuples do with hostile and with ordinary rules.

use super::*;
use crate::linear::Linear;

fn prefix(id: u32, (src, src_len): (u32, u32), (dst, dst_len): (u32, u32)) -> Rule {
    let mask = |len: u32| u32::MAX.checked_shl(32 - len).unwrap_or(0).to_be_bytes();
    let bytes = |n: u32| n.to_be_bytes();
    let value = [bytes(src), bytes(dst), [0; 4]].concat();
    let mask = [mask(src_len), mask(dst_len), [0; 4]].concat();
    Rule::new(id, id, u64::from(id), &value, &mask)
}

fn layout() -> Layout {
    Layout::new(&[4, 4, 2, 2]).unwrap()
}

fn check(subject: &TupleMerge, oracle: &Linear, keys: impl Iterator<Item = [u8; 12]>) {
    for key in keys {
        assert_eq!(subject.lookup(&key), oracle.lookup(&key), "{key:x?}");
    }
}

#[test]
fn close_masks_share_a_tuple() {
    let mut subject = TupleMerge::new(layout());
    // The first is a prefix in both, so both are addresses from the start.
    for len in [20, 21, 22, 23, 24] {
        subject.insert(&prefix(len, (len << 12, len), (len << 20, 24))).unwrap();
    }
    assert_eq!((subject.explain().masks, subject.tuples()), (5, 1));
    // Without a destination it is another tuple, which takes more precise ones, too.
    subject.insert(&prefix(50, (1 << 30, 16), (0, 0))).unwrap();
    assert_eq!(subject.tuples(), 2);
    for id in [20, 21, 22, 23, 24, 50] {
        assert!(subject.remove(id).is_some());
    }
    assert_eq!((subject.tuples(), subject.len()), (0, 0));
}

#[test]
fn a_tuple_parts_when_a_chain_grows_too_long() {
    let mut oracle = Linear::new(layout());
    let mut subject = TupleMerge::with_chain_max(layout(), 4);
    let mut add = |rule: Rule| {
        subject.insert(&rule).unwrap();
        oracle.insert(&rule).unwrap();
    };
    add(prefix(0, (0x0a00_0000, 9), (0, 0)));
    for id in 1..200 {
        add(prefix(id, (0x0a00_0000 | id << 8, 24 + id % 9), (id << 16, id % 17)));
    }
    assert!(subject.tuples() < 40 && subject.chain_longest() <= 4, "{}", subject.tuples());
    let keys = (0..4000u32).map(|n| {
        let (src, dst) = (0x0a00_0000 | (n % 200) << 8 | (n % 5), (n % 211) << 16);
        let mut key = [0; 12];
        key[..4].copy_from_slice(&src.to_be_bytes());
        key[4..8].copy_from_slice(&dst.to_be_bytes());
        key
    });
    check(&subject, &oracle, keys);
}

/// Holds that every row knows what comes before it, and the first of a chain how long that is at most.
fn assert_chains(subject: &TupleMerge) {
    let mut rows = 0;
    for head in subject.rows().filter(|&row| subject.aside[row as usize].before & HEAD != 0) {
        let chain: Vec<u32> = subject.chain(Some(head)).collect();
        rows += chain.len();
        let noted = subject.aside[head as usize].before & !HEAD;
        assert!(chain.len() <= noted as usize);
        assert!(subject.heads.heads(subject.hash_of(head)).any(|other| other == head));
        for pair in chain.windows(2) {
            assert_eq!(subject.aside[pair[1] as usize].before, pair[0]);
            assert!(subject.is_ahead(pair[0], pair[1]));
        }
    }
    assert_eq!(rows, subject.len());
}

#[test]
fn chains_stay_sound_as_rules_come_and_go() {
    for chain_max in [1, 4, 40] {
        let mut subject = TupleMerge::with_chain_max(layout(), chain_max);
        let mut oracle = Linear::new(layout());
        let mut state = 11u64;
        for step in 0..6000u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let id = (state >> 33) as u32 % 300;
            let mut rule = prefix(id, (0x0a00_0000 | (id % 5), 24 + id % 9), (id << 20, id % 13));
            rule.priority = id * 7919 % 101;
            if oracle.remove(id).is_some() {
                assert_eq!(subject.remove(id).map(|rule| rule.id), Some(id));
            } else {
                oracle.insert(&rule).unwrap();
                subject.insert(&rule).unwrap();
            }
            if step % 50 == 0 {
                assert_chains(&subject);
                let key = |n: u32| {
                    let src = (0x0a00_0000 | (n % 6)).to_be_bytes();
                    [&src[..], &(n << 20).to_be_bytes(), &[0; 4]].concat()
                };
                let keys = (0..300).filter_map(|n| key(n).try_into().ok());
                check(&subject, &oracle, keys);
            }
        }
    }
}

#[test]
fn what_cannot_be_parted_stays_and_is_found() {
    let mut oracle = Linear::new(layout());
    let mut subject = TupleMerge::with_chain_max(layout(), 4);
    for id in 0..300u32 {
        let mut rule = prefix(id, (7, 32), (9, 32));
        // Both ends on either side of the middle, so that no leading bit is shared.
        let (lo, hi) = (32_000 - 100 * u128::from(id), 33_000 + 50 * u128::from(id));
        let range = |offset| Range { offset, len: 2, lo, hi };
        rule.priority = 1000 - id;
        rule.ranges = match id % 3 {
            0 => [range(8)].into(),
            1 => [range(8), range(10)].into(),
            _ => [range(8), range(10), range(9)].into(),
        };
        subject.insert(&rule).unwrap();
        oracle.insert(&rule).unwrap();
    }
    assert_eq!((subject.tuples(), subject.chain_longest()), (1, 300));
    let keys = || {
        (0..3000u32).map(|n| {
            let (a, b) = ((n * 21) as u16, (n * 37) as u16);
            let mut key = [0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0];
            key[8..10].copy_from_slice(&a.to_be_bytes());
            key[10..].copy_from_slice(&b.to_be_bytes());
            key
        })
    };
    check(&subject, &oracle, keys());
    for id in (0..300).step_by(2) {
        assert_eq!(subject.remove(id), oracle.remove(id));
    }
    check(&subject, &oracle, keys());
    assert!(subject.iter().count() == 150 && subject.apart.len() == 50);
}

#[test]
fn all_masks_different_stay_all_there() {
    let layout = Layout::new(&[8]).unwrap();
    let mut oracle = Linear::new(layout.clone());
    let rule = |id: u32| {
        let mask = (0x1_0001u64 << (id % 48)) | u64::from(id / 48) << 56;
        let value = mask & 0x5555_5555_5555_5555;
        Rule::new(id, id % 7, u64::from(id), &value.to_be_bytes(), &mask.to_be_bytes())
    };
    (0..2000).for_each(|id| oracle.insert(&rule(id)).unwrap());
    let one_by_one = TupleMerge::of(layout.clone(), (0..2000).map(rule));
    let arranged = TupleMerge::arranged(layout, (0..2000).map(rule));
    for n in 0..2000u64 {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let want = oracle.lookup(&key);
        assert_eq!((one_by_one.lookup(&key), arranged.lookup(&key)), (want, want));
    }
}
