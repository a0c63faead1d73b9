//! A burst in several tables at once against each key alone in its own, and both against `linear`.

use classify::linear::Linear;
use classify::{Hit, Kind, Layout, Rule, Structure, Table, lookup_mixed};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        // Few values, so that keys meet rules.
        (0..len).map(|_| if self.below(3) == 0 { self.below(5) as u8 } else { 0 }).collect()
    }
}

/// Tables of one layout, each beside its oracle. Some are under one mask, some under another, some
/// have rules that match everything, some are no hashes at all, some are empty. If `alike`, all have
/// the same seed and mask.
fn tables(random: &mut Random, layout: &Layout, count: usize, alike: bool) -> Vec<(Table, Linear)> {
    let len = layout.key_len();
    let all = vec![0xff; len];
    let mut part = all.clone();
    part[..len / 2].fill(0);
    (0..count)
        .map(|at| {
            let forced = [None, None, None, Some(Kind::TupleSpace), Some(Kind::Linear)];
            let layout = layout.clone().with_seed(if alike { 5 } else { at as u64 % 3 });
            let mut table = Table::with_kind(layout.clone(), forced[at % forced.len()]);
            let mut oracle = Linear::new(layout);
            let mask = if at % 4 == 3 && !alike { &part } else { &all };
            for id in 0..[0, 3, 40, 300][random.below(4)] {
                let mut rule = Rule::new(id, 5, u64::from(id), &random.bytes(len), mask);
                if id == 1 && random.below(3) > 0 {
                    rule = Rule::new(id, 1, 0, &vec![0; len], &vec![0; len]);
                }
                if id == 2 && random.below(5) == 0 {
                    rule.mask = part.clone().into();
                }
                let rule = rule.with_action(random.below(1000) as u32);
                table.insert(&rule).unwrap();
                oracle.insert(&rule).unwrap();
            }
            // Rules that went away leave room that must not look like a key.
            for id in (0..300).filter(|id| id % 3 == 2) {
                assert_eq!(table.remove(id), oracle.remove(id));
            }
            (table, oracle)
        })
        .collect()
}

#[test]
fn several_tables_at_once_answer_as_each_alone() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut kinds = std::collections::BTreeSet::new();
    for lens in [&[1][..], &[6], &[8], &[2, 4], &[4, 4, 2, 2, 1], &[16], &[16, 8], &[30, 30]] {
        let layout = Layout::new(lens).unwrap();
        let (len, mut hit) = (layout.key_len(), 0);
        for round in 0..30 {
            let tables = tables(&mut random, &layout, 1 + round % 12, round % 5 < 2);
            kinds.extend(tables.iter().map(|(table, _)| table.kind()));
            for count in [0, 1, 2, 9, 16, 32, 33, 70] {
                let stride = layout.stride() + 8 * random.below(2);
                let mut keys = vec![0; count * stride];
                let of: Vec<u8> = (0..count).map(|_| random.below(tables.len()) as u8).collect();
                let all: Vec<&Table> = tables.iter().map(|(table, _)| table).collect();
                let mut want = vec![];
                for (key, &of) in keys.chunks_mut(stride).zip(&of) {
                    key[..len].copy_from_slice(&random.bytes(len));
                    let (table, oracle) = &tables[usize::from(of)];
                    want.push(oracle.lookup(&key[..len]));
                    assert_eq!(table.lookup(&key[..len]), want[want.len() - 1]);
                }
                let mut got = vec![Hit { entry: 77_777, action: 7 }; count];
                lookup_mixed(&all, &of, &keys, stride, &mut got);
                assert_eq!(got, want, "{lens:?}, {count} keys");
                hit += got.iter().filter(|hit| hit.is_hit()).count();
            }
        }
        assert!(hit > 200, "{lens:?}: only {hit} keys hit");
    }
    assert!([Kind::Hash, Kind::TupleSpace, Kind::Linear].iter().all(|kind| kinds.contains(kind)));
}

/// A table may have nothing but a rule that matches everything, or nothing at all, whatever the key.
#[test]
fn tables_without_a_mask_answer_beside_others() {
    let make = || Table::new(8).unwrap();
    let (mut exact, mut all, none) = (make(), make(), make());
    let key = 0xffff_ffffu64.to_le_bytes();
    exact.insert(&Rule::new(4, 9, 0, &key, &[0xff; 8]).with_action(1)).unwrap();
    all.insert(&Rule::new(5, 0, 0, &[0; 8], &[0; 8]).with_action(2)).unwrap();
    let tables = [&all, &none, &exact];
    for count in [3, 9, 30] {
        let mut got = vec![Hit { entry: 9, action: 9 }; count];
        let of: Vec<u8> = (0..count).map(|i| (i % 3) as u8).collect();
        lookup_mixed(&tables, &of, &key.repeat(count), 8, &mut got);
        for (i, &hit) in got.iter().enumerate() {
            assert_eq!(hit, tables[i % 3].lookup(&key));
        }
        let of = [all.lookup(&key), Hit::MISS, Hit { entry: 4, action: 1 }];
        assert_eq!(got[..3], of);
    }
}

#[test]
#[should_panic(expected = "a burst holds one key per answer")]
fn too_few_keys_are_refused() {
    let table = Table::new(4).unwrap();
    lookup_mixed(&[&table], &[0; 2], &[0; 15], 8, &mut [Hit::MISS; 2]);
}
