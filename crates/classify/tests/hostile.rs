//! Rules made to defeat an arrangement: nothing is lost, memory stays linear, and the general form never takes
//! much more steps than tuple space search does.

use classify::classbench::Draw;
use classify::cuts::Cuts;
use classify::linear::Linear;
use classify::tuple_merge::TupleMerge;
use classify::{Hit, Kind, Layout, Range, Rule, Structure, Table};

/// Every rule has a mask of its own.
fn all_masks_differ(count: u32) -> Vec<Rule> {
    let mut draw = Draw::new(1);
    let rule = |id: u32| {
        let mask = (u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1) & draw.word();
        let mask = mask ^ u64::from(id);
        let value = draw.word() & mask;
        Rule::new(id, id % 50, u64::from(id), &value.to_be_bytes(), &mask.to_be_bytes())
    };
    (0..count).map(rule).collect()
}

/// Every rule demands the same bits, and differs in a range that has no leading bits in common.
fn all_collide(count: u32) -> Vec<Rule> {
    let rule = |id: u32| {
        let mask = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        let mut rule = Rule::new(id, count - id, 0, &[7, 7, 7, 7, 0, 0, 0, 0], &mask);
        let (lo, hi) = (0x7fff - id % 0x7f00, 0x8000 + id * 7 % 0x7f00);
        rule.ranges = [Range { offset: 4, len: 2, lo: lo.into(), hi: hi.into() }].into();
        rule
    };
    (0..count).map(rule).collect()
}

/// Prefixes inside each other, so that each key meets many.
fn all_nest(count: u32) -> Vec<Rule> {
    let mut draw = Draw::new(3);
    let rule = |id: u32| {
        let lens = [draw.below(33) as u32, draw.below(33) as u32];
        let masks = lens.map(|len| u32::MAX.checked_shl(32 - len).unwrap_or(0).to_be_bytes());
        Rule::new(id, lens[0] + lens[1], u64::from(id), &[0; 8], &masks.concat())
    };
    (0..count).map(rule).collect()
}

fn keys(rules: &[Rule], count: usize) -> Vec<[u8; 8]> {
    let mut draw = Draw::new(9);
    let key = |_| {
        let rule = &rules[draw.below(rules.len())];
        let mut key = draw.word().to_be_bytes();
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = rule.value[at] | *byte & !rule.mask[at];
        }
        key
    };
    (0..count).map(key).collect()
}

fn agrees(subject: &Table, oracle: &Linear, keys: &[[u8; 8]]) {
    let mut hits = vec![Hit::MISS; keys.len()];
    subject.lookup_burst(keys.as_flattened(), 8, &mut hits);
    for (key, hit) in keys.iter().zip(hits) {
        let wanted = oracle.lookup(key);
        assert_eq!((hit, subject.lookup(key)), (wanted, wanted), "{}", subject.kind());
    }
}

#[test]
fn hostile_rules_are_all_found() {
    for (name, rules) in [
        ("all masks differ", all_masks_differ(1500)),
        ("all collide", all_collide(1500)),
        ("all nest", all_nest(1500)),
    ] {
        let layout = Layout::new(&[4, 4]).unwrap();
        let (half, rest) = rules.split_at(750);
        let mut oracle = Linear::new(layout.clone());
        let mut table = Table::with_layout(layout.clone());
        for rule in half {
            oracle.insert(rule).unwrap();
            table.insert(rule).unwrap();
        }
        let keys = keys(&rules, 300);
        agrees(&table, &oracle, &keys);
        // A better arrangement is built beside, and sees what comes and goes from then on.
        let mut other = table.arranged();
        agrees(&other, &oracle, &keys);
        for (n, rule) in rest.iter().enumerate() {
            let gone = oracle.remove(half[n].id);
            oracle.insert(rule).unwrap();
            for table in [&mut table, &mut other] {
                assert_eq!(table.remove(half[n].id), gone, "{name}");
                table.insert(rule).unwrap();
            }
            if n % 150 == 0 {
                agrees(&table, &oracle, &keys);
                agrees(&other, &oracle, &keys);
            }
        }
        agrees(&table, &oracle, &keys);
        agrees(&other, &oracle, &keys);
        assert_eq!((table.len(), other.len()), (750, 750));
    }
}

/// Rules that have all but their ranges in common are not left to a form that compares them one by one.
#[test]
fn what_differs_in_ranges_alone_is_parted() {
    let layout = Layout::new(&[4, 2, 2]).unwrap();
    let mut state = 1u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u128::from((state >> 33) % below)
    };
    let mut oracle = Linear::new(layout.clone());
    let mut table = Table::with_layout(layout.clone());
    for n in 0..2000u32 {
        let mut rule = Rule::new(n, n, 1, &[9; 8], &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        // About the middle, so that the ends share no leading bits.
        let mut range = |offset| {
            let (lo, hi) = (32_767 - draw(3000), 32_768 + draw(3000));
            Range { offset, len: 2, lo, hi }
        };
        rule.ranges = [range(4), range(6)].into();
        oracle.insert(&rule).unwrap();
        table.insert(&rule).unwrap();
    }
    table.reoptimise();
    assert_eq!(table.kind(), Kind::TupleMerge);
    let arranged = table.arranged();
    assert!(arranged.kind().is_general());
    let keys: Vec<[u8; 8]> = (0..300)
        .map(|_| {
            let mut key = [9; 8];
            key[4..6].copy_from_slice(&(29_000 + draw(7000) as u16).to_be_bytes());
            key[6..].copy_from_slice(&(29_000 + draw(7000) as u16).to_be_bytes());
            key
        })
        .collect();
    agrees(&table, &oracle, &keys);
    agrees(&arranged, &oracle, &keys);
    // By the keys that are looked up, the arrangement is hardly worse than what came of itself.
    let keys = || keys.iter().map(|key| &key[..]);
    let arranged = table.arranged_for(&mut keys());
    assert!(arranged.ns(&mut keys()).unwrap() <= 1.3 * table.ns(&mut keys()).unwrap());
}

#[test]
fn memory_stays_linear() {
    for make in [all_masks_differ, all_collide, all_nest] {
        let bytes = |count: u32| {
            let layout = Layout::new(&[4, 4]).unwrap();
            let rules = make(count);
            let merged = TupleMerge::arranged(layout.clone(), rules.iter().cloned());
            let cuts = Cuts::of(layout, rules).map_or(0, |cuts| cuts.memory_bytes());
            [merged.memory_bytes(), cuts].map(|bytes| bytes / count as usize)
        };
        let (few, many) = (bytes(500), bytes(4000));
        assert!(
            many.iter().zip(few).all(|(many, few)| *many <= 2 * few.max(300)),
            "{few:?} {many:?}"
        );
    }
}

#[test]
fn what_no_bits_part_is_declined_and_found_elsewhere() {
    let layout = Layout::new(&[4, 4]).unwrap();
    let rules = all_collide(6000);
    assert!(Cuts::of(layout.clone(), rules.clone()).is_err());
    // One by one: at some rule the cuts decline, and the general form takes over from a copy.
    let mut table = Table::with_kind(layout.clone(), None);
    for rule in &rules[..3000] {
        table.insert(rule).unwrap();
    }
    table = table.rebuilt(Kind::Cuts).unwrap();
    for rule in &rules[3000..] {
        table.insert(rule).unwrap();
    }
    assert_eq!((table.kind(), table.len()), (Kind::TupleMerge, 6000));
    let mut oracle = Linear::new(layout);
    rules.iter().for_each(|rule| oracle.insert(rule).unwrap());
    agrees(&table, &oracle, &keys(&rules, 50));
}

#[test]
fn an_arrangement_that_serves_badly_is_improved() {
    let layout = Layout::new(&[4, 4]).unwrap();
    // The first rules say nothing of those that come after them: tuples that all can afford are coarse.
    let mut table = Table::with_layout(layout);
    let mut draw = Draw::new(5);
    for id in 0..4000u32 {
        let len = if id < 400 { 2 + id % 7 } else { 20 + id % 13 };
        let mask = (u32::MAX << (32 - len)).to_be_bytes();
        let wild = if id % 3 == 0 { mask } else { [0; 4] };
        let value: Vec<u8> = draw
            .word()
            .to_be_bytes()
            .iter()
            .zip(mask.iter().chain(&wild))
            .map(|(v, m)| v & m)
            .collect();
        table
            .insert(&Rule::new(
                id,
                len * 10 + id % 7,
                u64::from(id),
                &value,
                &[mask, wild].concat(),
            ))
            .unwrap();
    }
    let better = table.improved(&mut std::iter::empty()).expect("there is a better arrangement");
    let rules: Vec<Rule> = table.iter().collect();
    let keys = classify::probes::sample(&rules);
    let ns = |table: &Table| {
        let probes = table.probes(&mut keys.iter().map(|key| &**key)).unwrap();
        probes.ns(table.kind(), table.memory_bytes())
    };
    assert!(ns(&better) <= classify::table::WORTH * ns(&table));
    for key in &keys {
        assert_eq!(better.lookup(key), table.lookup(key));
    }
    let line = better.accounting(&mut std::iter::empty()).expect("the general form serves");
    assert!(
        line.starts_with("wildcards: 4000 entries in ")
            && line.contains("expected, a lookup asks ")
    );
    // Nothing better again at once.
    assert!(better.improved(&mut keys.iter().map(|key| &**key)).is_none());
}
