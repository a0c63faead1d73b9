//! `lpm` against `linear`: random operations over fields of every width, with and without a side
//! key, and hostile sets of prefixes in every order.

use classify::linear::Linear;
use classify::lpm::Lpm;
use classify::{Declined, Hit, InsertError, Kind, Layout, Rule, Structure, Table};

/// A small generator (SplitMix64), seeded per case so that a failure repeats.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// Mostly zeros, so that prefixes overlap at every length.
    fn bits(&mut self) -> u128 {
        let wide = |r: &mut Random| u128::from(r.next()) << 64 | u128::from(r.next());
        match self.below(4) {
            0 => wide(self),
            1 => 0,
            _ => wide(self) & wide(self) & wide(self),
        }
    }
}

/// What a case's keys look like: side fields before and behind the prefix field.
struct Case {
    bits: u32,
    before: usize,
    behind: usize,
    /// Values of the side key.
    values: usize,
}

impl Case {
    fn field_len(&self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    fn layout(&self) -> Layout {
        Layout::new(&[self.before, self.field_len(), self.behind]).unwrap().with_seed(5)
    }

    /// Packs a key, or a mask: the field right-aligned in its bytes.
    fn packed(&self, side: u8, bits: u128) -> Vec<u8> {
        let field = bits >> (128 - self.bits);
        let mut key = vec![side; self.before];
        key.extend(&field.to_be_bytes()[16 - self.field_len()..]);
        key.extend(vec![side.wrapping_mul(7); self.behind]);
        key
    }

    fn rule(&self, random: &mut Random, step: u32) -> Rule {
        let id = random.below(400) as u32;
        let seq = if random.below(4) == 0 { 7 } else { u64::from(step) };
        if random.below(30) == 0 {
            let zeros = vec![0; self.layout().key_len()];
            let priority = if random.below(4) == 0 { 300 } else { random.below(3) as u32 };
            return Rule::new(id, priority, seq, &zeros, &zeros).with_action(step);
        }
        let len = random.below(self.bits as usize + 1) as u32;
        let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
        let side = random.below(self.values) as u8;
        let mut packed = self.packed(0xff, mask);
        // What lies behind is masked in part.
        packed[self.before + self.field_len()..].iter_mut().for_each(|b| *b &= 0x3c);
        let value = self.packed(side, random.bits());
        let priority = 10 + 2 * len + random.below(2) as u32;
        Rule::new(id, priority, seq, &value, &packed).with_action(step)
    }

    fn key(&self, random: &mut Random, held: &[Rule]) -> Vec<u8> {
        let side = random.below(self.values + 1) as u8;
        let mut key = self.packed(side, random.bits());
        if random.below(3) > 0 && !held.is_empty() {
            // In a prefix, or just outside.
            let rule = &held[random.below(held.len())];
            for ((key, value), mask) in key.iter_mut().zip(&rule.value).zip(&rule.mask) {
                *key = *key & !mask | value;
            }
            if random.below(4) == 0 {
                let at = random.below(key.len());
                key[at] ^= 1 << random.below(8);
            }
        }
        key
    }
}

fn sorted(rules: impl Iterator<Item = Rule>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = rules.collect();
    rules.sort_by_key(|r| r.id);
    rules
}

/// Looks keys up one by one and in a burst.
fn compare(oracle: &Linear, subject: &Lpm, keys: &[Vec<u8>], spare: usize) {
    let stride = oracle.layout().stride() + 8 * spare;
    let mut packed = vec![0; stride * keys.len()];
    for (to, key) in packed.chunks_mut(stride).zip(keys) {
        to[..key.len()].copy_from_slice(key);
    }
    let mut hits = vec![Hit { entry: 9, action: 9 }; keys.len()];
    subject.lookup_burst(&packed, stride, &mut hits);
    for (key, hit) in keys.iter().zip(hits) {
        assert_eq!(subject.lookup(key), oracle.lookup(key), "{key:x?}");
        assert_eq!(hit, oracle.lookup(key), "{key:x?} in a burst");
    }
}

fn play(case: &Case, steps: u32) {
    let mut random = Random(u64::from(case.bits) * 1000 + case.values as u64);
    let mut oracle = Linear::new(case.layout());
    let mut subject = Lpm::new(case.layout(), 1).unwrap();
    let (mut taken, mut declined) = (0, 0);
    for step in 0..steps {
        let shrink = step % 600 > 480;
        match random.below(10) {
            0 => {
                let id = random.below(400) as u32;
                assert_eq!(subject.set_action(id, step), oracle.set_action(id, step));
            }
            n if n < if shrink { 2 } else { 7 } => {
                let rule = case.rule(&mut random, step);
                match subject.insert(&rule) {
                    Ok(()) => {
                        oracle.insert(&rule).unwrap();
                        taken += 1;
                    }
                    Err(InsertError::DuplicateId(id)) => {
                        assert!(oracle.iter().any(|r| r.id == id));
                    }
                    Err(InsertError::Declined(_)) => declined += 1,
                    Err(refused) => panic!("{refused}"),
                }
            }
            _ => {
                let ids: Vec<u32> = oracle.iter().map(|r| r.id).collect();
                let id = ids.get(random.below(ids.len())).copied().unwrap_or(1);
                assert_eq!(subject.remove(id), oracle.remove(id));
            }
        }
        assert_eq!(subject.len(), oracle.len());
        if step % 8 == 0 {
            let held: Vec<Rule> = oracle.iter().collect();
            let count = [1, 5, 32, 33, 70][random.below(5)];
            let keys: Vec<_> = (0..count).map(|_| case.key(&mut random, &held)).collect();
            compare(&oracle, &subject, &keys, random.below(3));
        }
        if step % 200 == 0 {
            assert_eq!(sorted(subject.iter()), sorted(oracle.iter()));
            assert_eq!(subject.explain().masks, oracle.explain().masks);
        }
    }
    assert!(taken > steps / 8 && declined > 0, "{taken} rules held, {declined} declined");
    for rule in sorted(oracle.iter()) {
        assert_eq!(subject.remove(rule.id), Some(rule));
    }
    assert!(subject.is_empty());
    compare(&Linear::new(case.layout()), &subject, &[case.key(&mut random, &[])], 0);
}

#[test]
fn fields_of_every_width_alone() {
    for bits in [1, 6, 8, 12, 16, 20, 24, 32, 33, 48, 64, 100, 128] {
        play(&Case { bits, before: 0, behind: 0, values: 1 }, 1_500);
    }
}

#[test]
fn side_keys_of_one_value() {
    for bits in [8, 12, 32, 48, 128] {
        play(&Case { bits, before: 2, behind: 0, values: 1 }, 1_500);
        play(&Case { bits, before: 0, behind: 3, values: 1 }, 1_500);
    }
}

#[test]
fn side_keys_of_few_and_many_values() {
    for bits in [8, 12, 20, 32, 64, 128] {
        for values in [3, 60] {
            play(&Case { bits, before: 2, behind: 1, values }, 1_500);
        }
    }
    play(&Case { bits: 32, before: 11, behind: 9, values: 20 }, 1_500);
}

/// IPv4 prefixes of all lengths over one address, of one or two priorities each.
fn ladder(address: u32, step: u32) -> Vec<Rule> {
    let rung = |len: u32| {
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        let value = (address & mask).to_be_bytes();
        let id = 2 * len + step * 100;
        let best = Rule::new(id, 2 * len, 1, &value, &mask.to_be_bytes()).with_action(id);
        let other = Rule::new(id + 1, 2 * len, 2, &value, &mask.to_be_bytes()).with_action(id + 1);
        [best, other]
    };
    (0..=32).flat_map(rung).collect()
}

#[test]
fn ladders_climbed_and_torn_down_in_any_order() {
    let mut random = Random(3);
    for round in 0..12u32 {
        let layout = Layout::new(&[4]).unwrap();
        let mut oracle = Linear::new(layout.clone());
        let mut subject = Lpm::new(layout, 0).unwrap();
        let address = [0, u32::MAX, 0x0a01_02ff, 0x8000_0000][round as usize % 4];
        // The second differs from the first in its last bits only.
        let mut rules = ladder(address, 0);
        rules.extend(ladder(address ^ 5, 1).split_off(30 * 2));
        let probe = |oracle: &Linear, subject: &Lpm| {
            let keys = [0, 1, 4, 5, 6, 0x10, 0x80, 0x100, 0x1000, 0x8_0000, 0x80_0000, 1 << 31];
            let keys: Vec<_> = keys.iter().map(|k| (address ^ k).to_be_bytes().to_vec()).collect();
            compare(oracle, subject, &keys, 0);
        };
        let shuffle = |rules: &mut Vec<Rule>, random: &mut Random| match round % 3 {
            0 => rules.reverse(),
            1 => {}
            _ => (0..rules.len()).for_each(|i| rules.swap(i, random.below(i + 1))),
        };
        shuffle(&mut rules, &mut random);
        for rule in &rules {
            subject.insert(rule).unwrap();
            oracle.insert(rule).unwrap();
            assert_eq!(subject.insert(rule), Err(InsertError::DuplicateId(rule.id)));
            probe(&oracle, &subject);
        }
        shuffle(&mut rules, &mut random);
        for rule in &rules {
            assert!(subject.set_action(rule.id, 77) && oracle.set_action(rule.id, 77));
            probe(&oracle, &subject);
            assert_eq!(subject.remove(rule.id), oracle.remove(rule.id));
            assert_eq!(subject.remove(rule.id), None);
            assert!(!subject.set_action(rule.id, 1));
            probe(&oracle, &subject);
        }
    }
}

#[test]
fn what_does_not_fit_is_declined_and_changes_nothing() {
    let layout = Layout::new(&[2, 2]).unwrap();
    let mut subject = Lpm::new(layout.clone(), 1).unwrap();
    let rule = |id, priority, mask: [u8; 4]| Rule::new(id, priority, 0, &[8, 0, 0x12, 0], &mask);
    subject.insert(&rule(1, 20, [0xff, 0xff, 0xff, 0])).unwrap();
    let declined = |subject: &mut Lpm, rule: Rule| match subject.insert(&rule) {
        Err(InsertError::Declined(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        declined(&mut subject, rule(2, 20, [0xff, 0xff, 0xff, 0x80])),
        Declined::Priorities { shorter: 8, priority: 20, longer: 9, not_above: 20 }
    );
    assert_eq!(
        declined(&mut subject, rule(2, 21, [0xff, 0xff, 0xf0, 0])),
        Declined::Priorities { shorter: 4, priority: 21, longer: 8, not_above: 20 }
    );
    assert_eq!(declined(&mut subject, rule(2, 9, [0xff, 0, 0xf0, 0])), Declined::ExactPart);
    assert_eq!(
        declined(&mut subject, rule(2, 9, [0xff, 0xff, 0x0f, 0])),
        Declined::Ternary { fields: 1 }
    );
    assert_eq!(
        declined(&mut subject, rule(2, 20, [0; 4])),
        Declined::CatchAll { priority: 20, not_below: 20 }
    );
    assert_eq!(subject.len(), 1);
    subject.insert(&rule(3, 4, [0; 4]).with_action(6)).unwrap();
    assert_eq!(
        declined(&mut subject, rule(4, 4, [0xff, 0xff, 0, 0])),
        Declined::CatchAll { priority: 4, not_below: 4 }
    );
    assert_eq!(subject.lookup(&[8, 1, 0x12, 7]), Hit { entry: 3, action: 6 });
    assert_eq!(subject.lookup(&[8, 0, 0x12, 7]), Hit { entry: 1, action: 0 });
    // Rules of equal prefix may share a priority, and what held one off may go.
    subject.insert(&rule(5, 20, [0xff, 0xff, 0xff, 0])).unwrap();
    for id in [1, 3, 5] {
        assert!(subject.remove(id).is_some());
    }
    subject.insert(&rule(6, 1, [0xff, 0, 0x0f, 0xf0])).unwrap();
    assert_eq!(subject.lookup(&[8, 9, 0xf2, 0x0f]), Hit { entry: 6, action: 0 });
    assert!(Lpm::new(Layout::new(&[17]).unwrap(), 0).is_err());
    assert!(Lpm::new(layout, 2).is_err());
}

/// A table of a field of 12 bits is seen for what it is, and survives being moved away and back.
#[test]
fn tables_move_to_it_and_from_it() {
    for case in [
        Case { bits: 12, before: 0, behind: 0, values: 1 },
        Case { bits: 12, before: 2, behind: 0, values: 5 },
        Case { bits: 32, before: 2, behind: 1, values: 40 },
        Case { bits: 128, before: 0, behind: 2, values: 1 },
    ] {
        let mut random = Random(9);
        let mut table = Table::with_layout(case.layout());
        let mut oracle = Linear::new(case.layout());
        for id in 0..1_000u32 {
            let mut rule = case.rule(&mut random, id);
            if rule.mask.iter().all(|&b| b == 0) {
                rule.priority = 3;
            }
            rule.id = id;
            table.insert(&rule).unwrap();
            oracle.insert(&rule).unwrap();
        }
        table.reoptimise();
        assert_eq!(table.kind(), Kind::Lpm, "{}", table.choice().titled("t"));
        let held: Vec<Rule> = oracle.iter().collect();
        let ask = |table: &Table, oracle: &Linear, random: &mut Random| {
            for _ in 0..300 {
                let key = case.key(random, &held);
                assert_eq!(table.lookup(&key), oracle.lookup(&key));
            }
            assert_eq!(sorted(table.iter()), sorted(oracle.iter()));
        };
        ask(&table, &oracle, &mut random);
        let shape = table.shape();
        assert_eq!(shape.entries, 1_000);
        assert_eq!(shape.masks.len(), oracle.explain().masks);
        let len = case.layout().key_len();
        let mut odd = Rule::new(5_000, 1_000, 0, &vec![0; len], &vec![0; len]);
        odd.mask[len - 1] = 1;
        table.insert(&odd).unwrap();
        oracle.insert(&odd).unwrap();
        assert_ne!(table.kind(), Kind::Lpm);
        ask(&table, &oracle, &mut random);
        table.remove(5_000);
        oracle.remove(5_000);
        table.reoptimise();
        assert_eq!(table.kind(), Kind::Lpm);
        ask(&table, &oracle, &mut random);
    }
}
