//! Random operations on every structure and on `linear`, compared after each.

use classify::bit_vectors::BitVectors;
use classify::cuts::Cuts;
use classify::hash::Hash;
use classify::linear::Linear;
use classify::lpm::Lpm;
use classify::range::Intervals;
use classify::scan::Scan;
use classify::tuple_merge::TupleMerge;
use classify::tuple_space::TupleSpace;
use classify::{Hit, InsertError, Kind, Layout, Range, Rule, Structure, Table};

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

    /// Bytes from a small alphabet, so that rules overlap and keys match.
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| [0, 1, 2, 0x80, 0xff][self.below(5)]).collect()
    }
}

/// What masks a case draws.
#[derive(Clone, Copy, Debug)]
enum Masks {
    One,
    Prefixes,
    Ranges,
    Any,
}

fn draw(random: &mut Random, layout: &Layout, masks: Masks, step: u32) -> Rule {
    let len = layout.key_len();
    let mut mask = vec![0u8; len];
    match masks {
        Masks::One => (0..len).for_each(|i| mask[i] = [0xff, 0xf0, 0, 0x81][i % 4]),
        Masks::Prefixes => {
            mask.fill(0xff);
            let field = *layout.fields().last().unwrap();
            let bits = random.below(field.len * 8 + 1);
            for i in 0..field.len {
                let ones = bits.saturating_sub(i * 8).min(8);
                mask[field.offset + i] = !(0xff_u16 >> ones) as u8;
            }
        }
        Masks::Ranges => {
            let field = *layout.fields().last().unwrap();
            mask.fill(0xf3);
            let bits = if random.below(2) == 0 { 0 } else { random.below(field.len * 8 + 1) };
            for i in 0..field.len {
                let ones = bits.saturating_sub(i * 8).min(8);
                mask[field.offset + i] = !(0xff_u16 >> ones) as u8;
            }
        }
        Masks::Any => match random.below(8) {
            0 => {}
            1 => mask.fill(0xff),
            _ => {
                for _ in 0..1 + random.below(2) {
                    if len > 0 {
                        mask[random.below(len)] = [0xff, 0xf0, 0x81][random.below(3)];
                    }
                }
            }
        },
    }
    let priority = match masks {
        Masks::Prefixes => {
            mask.iter().map(|m| m.count_ones()).sum::<u32>() * 2 + random.below(2) as u32
        }
        _ => random.below(4) as u32,
    };
    let mut priority = priority;
    if !matches!(masks, Masks::Any) && step > 20 && random.below(10) == 0 {
        mask.fill(0);
        priority = if random.below(4) == 0 { 150 } else { 0 };
    } else if matches!(masks, Masks::One | Masks::Ranges) {
        priority += 1;
    }
    let seq = if random.below(4) == 0 { 7 } else { u64::from(step) };
    let id = random.below(300) as u32;
    let mut rule = Rule::new(id, priority, seq, &random.bytes(len), &mask);
    rule.action = random.next() as u32;
    if matches!(masks, Masks::Ranges) && mask.iter().any(|&m| m != 0) && random.below(4) > 0 {
        let field = *layout.fields().last().unwrap();
        let draw = |random: &mut Random| {
            random.bytes(field.len).iter().fold(0u128, |n, &b| n << 8 | u128::from(b))
        };
        let (a, b, len) = (draw(random), draw(random), field.len as u8);
        rule.ranges =
            Box::new([Range { offset: field.offset as u32, len, lo: a.min(b), hi: a.max(b) }]);
    }
    if matches!(masks, Masks::Any) && random.below(3) == 0 && len > 0 {
        let mut ranges = Vec::new();
        for _ in 0..1 + random.below(2) {
            let width = 1 + random.below(len.min(16));
            let offset = random.below(len - width + 1);
            let draw = |random: &mut Random| {
                random.bytes(width).iter().fold(0u128, |n, &b| n << 8 | u128::from(b))
            };
            let (a, b) = (draw(random), draw(random));
            ranges.push(Range {
                offset: offset as u32,
                len: width as u8,
                lo: a.min(b),
                hi: a.max(b),
            });
        }
        rule.ranges = ranges.into();
    }
    rule
}

fn sorted(rules: impl Iterator<Item = Rule>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = rules.collect();
    rules.sort_by_key(|r| r.id);
    rules
}

/// What is looked up: one key at a time and bursts of them.
trait Subject {
    fn lookup(&self, key: &[u8]) -> Hit;
    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]);
    fn name(&self) -> &'static str;
}

impl Subject for Box<dyn Structure> {
    fn lookup(&self, key: &[u8]) -> Hit {
        (**self).lookup(key)
    }
    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        (**self).lookup_burst(keys, stride, hits);
    }
    fn name(&self) -> &'static str {
        self.kind().name()
    }
}

impl Subject for Cuts {
    fn lookup(&self, key: &[u8]) -> Hit {
        Structure::lookup(self, key)
    }
    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        Structure::lookup_burst(self, keys, stride, hits);
    }
    fn name(&self) -> &'static str {
        self.kind().name()
    }
}

impl Subject for TupleMerge {
    fn lookup(&self, key: &[u8]) -> Hit {
        Structure::lookup(self, key)
    }
    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        Structure::lookup_burst(self, keys, stride, hits);
    }
    fn name(&self) -> &'static str {
        self.kind().name()
    }
}

impl Subject for Table {
    fn lookup(&self, key: &[u8]) -> Hit {
        self.lookup(key)
    }
    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        self.lookup_burst(keys, stride, hits);
    }
    fn name(&self) -> &'static str {
        self.kind().name()
    }
}

/// Looks up some keys, each alone and all as a burst. Now and then the burst is longer than usual
/// or its keys farther apart than they need be.
fn probe(random: &mut Random, oracle: &Linear, subjects: &[&dyn Subject], step: u32) {
    let layout = oracle.layout();
    let len = layout.key_len();
    let count = match random.below(50) {
        0 => 70,
        1 => 0,
        _ => 1 + random.below(5),
    };
    let stride = layout.stride() + if random.below(4) == 0 { 8 } else { 0 };
    let mut keys = vec![0; count * stride];
    let mut want = Vec::new();
    for i in 0..count {
        let mut key = random.bytes(len);
        // Half of the keys come from a rule, so that deep matches happen on long keys too.
        if random.below(2) == 0
            && let Some(rule) = oracle.iter().nth(random.below(oracle.len()))
        {
            (0..len).for_each(|i| key[i] = key[i] & !rule.mask[i] | rule.value[i]);
        }
        want.push(oracle.lookup(&key));
        for subject in subjects {
            assert_eq!(subject.lookup(&key), want[i], "{} step {step} {key:x?}", subject.name());
        }
        keys[i * stride..][..len].copy_from_slice(&key);
    }
    for subject in subjects {
        let mut got = vec![Hit { entry: 9999, action: 9999 }; count];
        subject.lookup_burst(&keys, stride, &mut got);
        assert_eq!(got, want, "{} step {step}", subject.name());
    }
}

/// Plays on the structures themselves; rules that one declines are kept out of all.
fn play(layout: &Layout, masks: Masks, make: &dyn Fn() -> Box<dyn Structure>, steps: u32) {
    let mut random = Random(layout.key_len() as u64 * 131 + masks as u64);
    let (mut oracle, mut subject) = (Linear::new(layout.clone()), make());
    let mut taken = 0;
    for step in 0..steps {
        // Now and then mostly removals, down to empty.
        let shrink = step % 500 > 400;
        if random.below(10) < if shrink { 2 } else { 7 } {
            let rule = draw(&mut random, layout, masks, step);
            let before = subject.len();
            match subject.insert(&rule) {
                Ok(()) => {
                    oracle.insert(&rule).unwrap();
                    taken += 1;
                }
                Err(InsertError::Declined(_)) => assert_eq!(subject.len(), before),
                Err(refused) => assert_eq!(oracle.insert(&rule), Err(refused)),
            }
        } else if random.below(3) == 0 {
            let (id, action) = (random.below(300) as u32, random.next() as u32);
            assert_eq!(subject.set_action(id, action), oracle.set_action(id, action));
        } else {
            let id = random.below(300) as u32;
            assert_eq!(subject.remove(id), oracle.remove(id), "step {step}");
        }
        assert_eq!(subject.len(), oracle.len());
        probe(&mut random, &oracle, &[&subject], step);
        if step % 200 == 0 {
            assert_eq!(sorted(subject.iter()), sorted(oracle.iter()));
            let (mine, its) = (subject.explain(), oracle.explain());
            assert_eq!(
                (mine.entries, mine.masks, mine.ranged),
                (its.entries, its.masks, its.ranged)
            );
        }
    }
    assert!(taken > steps / 8, "{}: {taken} rules of {steps} steps taken", subject.kind());
    let ids: Vec<u32> = subject.iter().map(|r| r.id).collect();
    for id in ids {
        assert_eq!(subject.remove(id), oracle.remove(id));
        probe(&mut random, &oracle, &[&subject], steps);
    }
    assert_eq!((subject.len(), subject.explain().masks), (0, 0));
}

fn layouts() -> Vec<Layout> {
    [&[1][..], &[4], &[2, 4], &[7], &[8], &[4, 4, 2, 2, 1], &[6, 16], &[60, 4], &[63, 3], &[200]]
        .into_iter()
        .map(|lens| Layout::new(lens).unwrap().with_seed(lens.len() as u64))
        .collect()
}

#[test]
fn tuple_space_answers_as_linear() {
    for layout in layouts() {
        for masks in [Masks::One, Masks::Prefixes, Masks::Ranges, Masks::Any] {
            if !matches!(masks, Masks::One | Masks::Any) && layout.key_len() == 200 {
                continue;
            }
            let make = || Box::new(TupleSpace::new(layout.clone())) as Box<dyn Structure>;
            play(&layout, masks, &make, 1500);
        }
    }
}

#[test]
fn scan_answers_as_linear() {
    for layout in layouts() {
        for masks in [Masks::One, Masks::Prefixes, Masks::Ranges, Masks::Any] {
            if !matches!(masks, Masks::One | Masks::Any) && layout.key_len() == 200 {
                continue;
            }
            let make = || Box::new(Scan::new(layout.clone())) as Box<dyn Structure>;
            play(&layout, masks, &make, 1500);
        }
    }
}

#[test]
fn tuple_merge_answers_as_linear() {
    for layout in layouts() {
        for masks in [Masks::One, Masks::Prefixes, Masks::Ranges, Masks::Any] {
            if !matches!(masks, Masks::One | Masks::Any) && layout.key_len() == 200 {
                continue;
            }
            let make = || Box::new(TupleMerge::new(layout.clone())) as Box<dyn Structure>;
            play(&layout, masks, &make, 1500);
        }
    }
}

#[test]
fn cuts_answer_as_linear() {
    for layout in layouts() {
        for masks in [Masks::One, Masks::Prefixes, Masks::Ranges, Masks::Any] {
            if !matches!(masks, Masks::One | Masks::Any) && layout.key_len() == 200 {
                continue;
            }
            let make = || Box::new(Cuts::new(layout.clone())) as Box<dyn Structure>;
            play(&layout, masks, &make, 1500);
        }
    }
}

/// Rules that are all there at first, then others that come and go.
#[test]
fn arranged_tuples_answer_as_linear() {
    for layout in layouts() {
        for masks in [Masks::One, Masks::Prefixes, Masks::Ranges, Masks::Any] {
            if !matches!(masks, Masks::One | Masks::Any) && layout.key_len() == 200 {
                continue;
            }
            let mut random = Random(99 + layout.key_len() as u64);
            let mut oracle = Linear::new(layout.clone());
            for step in 0..250 {
                let _ = oracle.insert(&draw(&mut random, &layout, masks, step));
            }
            // One comes twice, and one is of another table.
            let twice = oracle.iter().next();
            let wrong = Rule::new(7777, 1, 1, &[0; 3], &[0; 3]);
            let rules = oracle.iter().chain(twice).chain([wrong]);
            let mut cuts = Cuts::of(layout.clone(), rules).unwrap();
            let rules = oracle.iter().chain(oracle.iter().next());
            let mut subject = TupleMerge::arranged(layout.clone(), rules);
            assert_eq!(sorted(subject.iter()), sorted(oracle.iter()));
            assert_eq!(sorted(cuts.iter()), sorted(oracle.iter()));
            for step in 250..700 {
                let rule = draw(&mut random, &layout, masks, step);
                let removed = oracle.remove(rule.id);
                assert_eq!(subject.remove(rule.id), removed);
                assert_eq!(cuts.remove(rule.id), removed);
                if random.below(2) == 0 {
                    let inserted = oracle.insert(&rule);
                    assert_eq!(subject.insert(&rule), inserted);
                    assert_eq!(cuts.insert(&rule), inserted);
                }
                probe(&mut random, &oracle, &[&subject, &cuts], step);
            }
        }
    }
}

/// Bits of rules that are there at first; others come and go, and all are taken together now and then.
#[test]
fn bit_vectors_answer_as_linear() {
    let made = |layout: &Layout, rules: &mut dyn Iterator<Item = Rule>| {
        let bits = BitVectors::of(layout.clone(), rules).ok()?;
        Some(Box::new(bits) as Box<dyn Structure>)
    };
    let (mut played, mut anew) = (0, 0);
    for layout in layouts() {
        for (masks, count) in [
            (Masks::One, 300),
            (Masks::Prefixes, 700),
            (Masks::Ranges, 30),
            (Masks::Any, 700),
            (Masks::Any, 1500),
            (Masks::Any, 0),
        ] {
            if layout.key_len() == 200 {
                continue;
            }
            let mut random = Random(u64::from(count) + layout.key_len() as u64);
            let drawn = |random: &mut Random, step: u32| {
                let mut rule = draw(random, &layout, masks, step);
                // Those of more than two bytes are declined.
                if matches!(masks, Masks::Any) {
                    rule.ranges = [].into();
                }
                rule
            };
            let mut oracle = Linear::new(layout.clone());
            for step in 0..count {
                let mut rule = drawn(&mut random, step);
                rule.id += 500 * (step % 4);
                let _ = oracle.insert(&rule);
            }
            let twice = oracle.iter().next();
            let subject = made(&layout, &mut oracle.iter().chain(twice));
            let Some(mut subject) = subject else { continue };
            played += 1;
            assert_eq!(sorted(subject.iter()), sorted(oracle.iter()));
            for step in 0..500 {
                let rule = drawn(&mut random, step);
                if random.below(3) > 0 {
                    assert_eq!(subject.remove(rule.id), oracle.remove(rule.id));
                }
                let inserted = oracle.insert(&rule);
                match subject.insert(&rule) {
                    Err(InsertError::Declined(_)) => {
                        anew += 1;
                        let Some(next) = made(&layout, &mut oracle.iter()) else { break };
                        subject = next;
                    }
                    other => assert_eq!(other, inserted),
                }
                let id = random.below(200) as u32;
                assert_eq!(subject.set_action(id, step), oracle.set_action(id, step));
                probe(&mut random, &oracle, &[&subject], step);
            }
        }
    }
    assert!(played >= 10 && anew >= 5, "{played} tables, {anew} times made anew");
}

#[test]
fn hash_answers_as_linear() {
    for layout in layouts() {
        let make = || Box::new(Hash::new(layout.clone())) as Box<dyn Structure>;
        play(&layout, Masks::One, &make, 1500);
    }
}

#[test]
fn lpm_answers_as_linear() {
    for layout in layouts().into_iter().filter(|l| l.key_len() < 200) {
        let field = layout.fields().len() - 1;
        let make = || Box::new(Lpm::new(layout.clone(), field).unwrap()) as Box<dyn Structure>;
        play(&layout, Masks::Prefixes, &make, 3000);
    }
    assert!(Lpm::new(Layout::new(&[17]).unwrap(), 0).is_err());
    assert!(Lpm::new(Layout::new(&[1]).unwrap(), 1).is_err());
}

#[test]
fn intervals_answer_as_linear() {
    for layout in layouts().into_iter().filter(|l| l.fields().last().unwrap().len <= 8) {
        let field = layout.fields().len() - 1;
        let make =
            || Box::new(Intervals::new(layout.clone(), field).unwrap()) as Box<dyn Structure>;
        play(&layout, Masks::Ranges, &make, 3000);
    }
    assert!(Intervals::new(Layout::new(&[9]).unwrap(), 0).is_err());
    assert!(Intervals::new(Layout::new(&[1]).unwrap(), 1).is_err());
    assert!(Intervals::new(Layout::new(&[1, 0]).unwrap(), 1).is_err());
}

/// Equal priorities are decided by `seq`, which a trie does not see: it must decline them.
#[test]
fn lpm_declines_what_seq_would_decide() {
    let mut lpm = Lpm::new(Layout::new(&[1, 1]).unwrap(), 1).unwrap();
    let rule = |id, priority, mask: [u8; 2]| Rule::new(id, priority, u64::from(id), &[0; 2], &mask);
    let declined = |lpm: &mut Lpm, r: Rule| matches!(lpm.insert(&r), Err(InsertError::Declined(_)));
    assert!(!declined(&mut lpm, rule(1, 10, [0xff, 0xf0])));
    assert!(declined(&mut lpm, rule(2, 10, [0, 0])));
    assert!(declined(&mut lpm, rule(2, 10, [0xff, 0xff])));
    assert!(declined(&mut lpm, rule(2, 10, [0xff, 0xc0])));
    assert!(declined(&mut lpm, rule(2, 11, [0xfe, 0xff])));
    assert!(!declined(&mut lpm, rule(2, 9, [0, 0])));
    assert!(declined(&mut lpm, rule(3, 9, [0xff, 0])));
    let entry = |lpm: &Lpm, key: &[u8]| lpm.lookup(key).entry;
    assert_eq!((entry(&lpm, &[0, 1]), entry(&lpm, &[7, 1]), lpm.len()), (1, 2, 2));
    assert!(lpm.remove(2).is_some());
    assert!(!declined(&mut lpm, rule(3, 9, [0xff, 0])));
    assert_eq!((lpm.lookup(&[0, 99]).entry, lpm.lookup(&[7, 1])), (3, Hit::MISS));
}

#[test]
fn a_table_without_key_takes_the_best_rule() {
    let layout = Layout::new(&[]).unwrap();
    let make = || Box::new(TupleSpace::new(layout.clone())) as Box<dyn Structure>;
    play(&layout, Masks::Any, &make, 500);
    let make = || Box::new(Scan::new(layout.clone())) as Box<dyn Structure>;
    play(&layout, Masks::Any, &make, 500);
    let make = || Box::new(TupleMerge::new(layout.clone())) as Box<dyn Structure>;
    play(&layout, Masks::Any, &make, 500);
    let make = || Box::new(Cuts::new(layout.clone())) as Box<dyn Structure>;
    play(&layout, Masks::Any, &make, 500);
    let make = || Box::new(Hash::new(layout.clone())) as Box<dyn Structure>;
    play(&layout, Masks::One, &make, 500);
}

/// A table under all of a structure's changes, with a replica that sees the same operations.
#[test]
fn a_table_answers_as_linear_whatever_serves() {
    for layout in layouts() {
        for forced in std::iter::once(None).chain(Kind::ALL.map(Some)) {
            let mut random = Random(77 + layout.key_len() as u64);
            let make = || Table::with_kind(layout.clone(), forced);
            let (mut left, mut right) = (make(), make());
            let mut oracle = Linear::new(layout.clone());
            let mut served = std::collections::BTreeSet::new();
            for step in 0..2000u32 {
                let masks = match step / 250 % 5 {
                    0 => Masks::One,
                    1 | 2 if layout.key_len() < 200 => Masks::Prefixes,
                    3 if layout.key_len() < 200 => Masks::Ranges,
                    _ => Masks::Any,
                };
                if step % 250 == 0 {
                    left.clear();
                    right.clear();
                    oracle = Linear::new(layout.clone());
                }
                match random.below(20) {
                    0 => assert_eq!(left.reoptimise(), right.reoptimise()),
                    1..=5 => {
                        let id = random.below(300) as u32;
                        let want = oracle.remove(id);
                        assert_eq!(left.remove(id), want);
                        assert_eq!(right.remove(id), want);
                    }
                    _ => {
                        let rule = draw(&mut random, &layout, masks, step);
                        let taken = left.insert(&rule);
                        assert_eq!(taken, right.insert(&rule));
                        match taken {
                            Ok(_) => assert_eq!(forced.unwrap_or(left.kind()), left.kind()),
                            Err(InsertError::Declined(_)) => assert!(forced.is_some()),
                            Err(_) => {}
                        }
                        if !matches!(taken, Err(InsertError::Declined(_))) {
                            assert_eq!(taken.map(|_| ()), oracle.insert(&rule));
                        }
                    }
                }
                served.insert(left.kind());
                assert_eq!(left.choice(), right.choice());
                assert_eq!(left.len(), oracle.len());
                probe(&mut random, &oracle, &[&left, &right], step);
                if step % 50 == 0 {
                    assert!(left.iter().eq(right.iter()));
                    assert_eq!(sorted(left.iter()), sorted(oracle.iter()));
                    for kind in Kind::ALL {
                        match left.rebuilt(kind) {
                            Ok(built) => {
                                assert_eq!(built.kind(), kind);
                                // What is drawn below is the same, however many kinds there are.
                                let mut random = Random(u64::from(step) + kind as u64);
                                probe(&mut random, &oracle, &[&built], step);
                                assert_eq!(sorted(built.iter()), sorted(oracle.iter()));
                            }
                            Err(_) => {
                                let any = [Kind::Linear, Kind::TupleSpace, Kind::TupleMerge];
                                assert!(!any.contains(&kind));
                            }
                        }
                    }
                }
            }
            if forced.is_none() && layout.key_len() < 200 {
                // Ranges of 16 bytes are too wide for intervals.
                let wide = layout.fields().last().unwrap().len > 8;
                assert_eq!(served.len(), if wide { 3 } else { 4 }, "{served:?}");
            }
        }
    }
}

#[test]
fn a_large_table_moves_to_the_general_form_at_once_and_back_by_choice() {
    let mut table = Table::with_layout(Layout::new(&[4]).unwrap());
    for n in 0..1000u32 {
        table.insert(&Rule::new(n, 32, 0, &n.to_be_bytes(), &[0xff; 4])).unwrap();
    }
    assert_eq!(table.kind(), Kind::Hash);
    let moved = table.insert(&Rule::new(5000, 24, 0, &[0; 4], &[0xff, 0xff, 0xff, 0])).unwrap();
    let classify::Inserted::Moved(moved) = moved else { panic!("no hash holds two masks") };
    assert_eq!(moved.to_string(), "hash to tuple_merge: 2 distinct masks");
    table.insert(&Rule::new(5001, 0, 0, &[0; 4], &[0; 4])).unwrap();
    table.insert(&Rule::new(5002, 8, 0, &[10, 0, 0, 0], &[0xff, 0, 0, 0])).unwrap();
    assert_eq!(table.reoptimise().unwrap().to_string(), "tuple_merge to lpm");
    assert_eq!(table.lookup(&[10, 1, 2, 3]).entry, 5002);
    assert_eq!(table.lookup(&[0, 0, 0, 3]).entry, 3);
    assert_eq!(table.lookup(&[0, 0, 9, 3]).entry, 5001);
    assert_eq!(table.reoptimise(), None);
}

#[test]
fn a_structure_from_elsewhere_serves_until_it_declines() {
    let layout = Layout::new(&[4]).unwrap();
    let mut hash = Hash::new(layout.clone());
    let exact = |n: u32| Rule::new(n, 9, 0, &n.to_be_bytes(), &[0xff; 4]).with_action(n + 1);
    (0..100).for_each(|n| hash.insert(&exact(n)).unwrap());
    let mut table = Table::from_structure(Box::new(hash));
    assert_eq!(
        table.choice().to_string(),
        "table (exact, 100 entries, 1 masks)\n  \
         hash         chosen: planned for these entries\n  \
         lpm          passed over: hash was planned\n  \
         scan         passed over: hash was planned\n  \
         tuple_merge  passed over: hash was planned"
    );
    assert_eq!(table.insert(&exact(100)), Ok(classify::Inserted::InPlace));
    assert!(table.set_action(100, 7) && !table.set_action(101, 7));
    assert_eq!(table.lookup(&100u32.to_be_bytes()), Hit { entry: 100, action: 7 });
    let built = table.rebuilt(Kind::Lpm).unwrap();
    assert_eq!((built.kind(), built.len(), table.kind()), (Kind::Lpm, 101, Kind::Hash));
    let second = Rule::new(500, 1, 0, &[0; 4], &[0xff, 0, 0, 0]);
    let classify::Inserted::Moved(moved) = table.insert(&second).unwrap() else {
        panic!("no hash holds two masks")
    };
    assert_eq!(moved.to_string(), "hash to scan: 2 distinct masks");
    let answers = |n: u32| table.lookup(&n.to_be_bytes());
    assert_eq!((answers(3), answers(999)), (Hit { entry: 3, action: 4 }, second.hit()));
    assert_eq!(table.rebuilt(Kind::Hash).unwrap_err().to_string(), "2 distinct masks");
    assert_eq!(
        table.rebuilt(Kind::Decomposed).unwrap_err().to_string(),
        "it is planned from the entries of a table"
    );
}

#[test]
fn a_forced_table_declines_rather_than_moves() {
    let layout = Layout::new(&[4]).unwrap();
    let mut table = Table::with_kind(layout, Some(Kind::Hash));
    table.insert(&Rule::new(1, 1, 0, &[1; 4], &[0xff; 4])).unwrap();
    let declined = table.insert(&Rule::new(2, 1, 0, &[1; 4], &[0xff, 0, 0, 0])).unwrap_err();
    assert_eq!(declined.to_string(), "declined: 2 distinct masks");
    assert_eq!((table.kind(), table.len(), table.lookup(&[1; 4]).entry), (Kind::Hash, 1, 1));
}

#[test]
fn a_hundred_thousand_entries_of_five_fields_stay_small() {
    let layout = Layout::new(&[4, 4, 2, 2, 1]).unwrap();
    let mut table = TupleSpace::new(layout);
    let mut random = Random(5);
    for id in 0..100_000u32 {
        let (src, dst) = (random.below(25) as u32, random.below(25) as u32);
        let mut mask = vec![0xff; 13];
        mask[..4].copy_from_slice(&(!(u32::MAX >> src)).to_be_bytes());
        mask[4..8].copy_from_slice(&(!(u32::MAX >> dst)).to_be_bytes());
        let value: Vec<u8> = (0..13).map(|_| random.next() as u8).collect();
        table.insert(&Rule::new(id, id, 0, &value, &mask)).unwrap();
    }
    let bytes = table.memory_bytes();
    assert!(bytes < 20_000_000, "{bytes}");
    assert_eq!(table.explain().masks, 625);
}

#[test]
fn structures_cross_threads() {
    fn crosses<T: Send + Sync>() {}
    crosses::<Table>();
    crosses::<Box<dyn Structure>>();
}
