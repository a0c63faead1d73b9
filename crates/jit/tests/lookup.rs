//! Generated lookups against linear search: rule sets of every number of pieces and lines, while rules come and go.

use classify::bit_vectors::BitVectors;
use classify::classbench::Draw;
use classify::linear::Linear;
use classify::{Hit, Layout, Range, Rule, Structure, Table};

/// Whether there is code on this machine; without it these tests compare the structure's own loops.
fn is_generated(subject: &mut BitVectors) -> bool {
    let is = subject.generate(&jit::lookup::generate);
    assert_eq!(is, subject.code_bytes() > 0);
    #[cfg(target_arch = "x86_64")]
    assert_eq!(is, is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq"));
    is
}

/// A rule whose pieces are demanded in full, in half, by a range or not at all; of few values, so that many meet.
fn rule(draw: &mut Draw, lens: &[usize], id: u32) -> Rule {
    let (mut value, mut mask, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
    for &len in lens {
        let kind = draw.below(6);
        if kind == 5 && len == 2 {
            let lo = draw.below(40) as u128;
            let hi = lo + draw.below(600) as u128;
            ranges.push(Range { offset: value.len() as u32, len: 2, lo, hi });
        }
        for _ in 0..len {
            let [m, of] = [[0, 0], [1, 1], [3, 3], [255, 3], [0, 0], [0, 0]][kind];
            mask.push(m);
            value.push(draw.word() as u8 & of);
        }
    }
    let mut rule = Rule::new(id, draw.below(1000) as u32, u64::from(id), &value, &mask);
    rule.ranges = ranges.into();
    rule.with_action(draw.below(99) as u32)
}

#[test]
fn generated_lookups_answer_as_linear_search() {
    let mut draw = Draw::new(11);
    let mut hits_seen = 0;
    for (parts, count) in
        (1..=9).flat_map(|parts| [100, 513, 1100, 1600, 2040].map(|count| (parts, count)))
    {
        // Some fields of one byte, which makes a piece of its own.
        let lens: Vec<usize> = (0..parts).map(|at| if at % 4 == 3 { 1 } else { 2 }).collect();
        let layout = Layout::new(&lens).unwrap();
        let (len, stride) = (layout.key_len(), layout.stride() + 8 * draw.below(2));
        let mut oracle = Linear::new(layout.clone());
        for id in 0..count {
            oracle.insert(&rule(&mut draw, &lens, id)).unwrap();
        }
        // A single field has few sets of rules that its values meet, but may have too many rows.
        let Ok(mut subject) = BitVectors::of(layout, oracle.iter()) else { continue };
        is_generated(&mut subject);
        let mut keys = vec![0; 95 * stride];
        for step in 0..30 {
            for key in keys.chunks_mut(stride) {
                key[..len].fill_with(|| draw.word() as u8 & [3, 3, 1, 0xff][step % 4]);
            }
            let burst = [95, 1, 32, 7][step % 4];
            let mut hits = vec![Hit::default(); burst];
            subject.lookup_burst(&keys, stride, &mut hits);
            for (key, hit) in keys.chunks(stride).zip(hits) {
                let want = oracle.lookup(&key[..len]);
                assert_eq!(hit, want, "{parts} pieces, {count} rules, step {step}");
                hits_seen += u32::from(hit.is_hit());
            }
            // Rules go, come again, answer otherwise, and come anew (and stand beside, from then on).
            let id = draw.below(count as usize) as u32;
            let gone = subject.remove(id);
            assert_eq!(gone, oracle.remove(id));
            if let Some(gone) = gone.filter(|_| step % 3 != 0) {
                subject.insert(&gone).unwrap();
                oracle.insert(&gone).unwrap();
            }
            let other = draw.below(count as usize) as u32;
            assert_eq!(subject.set_action(other, 7), oracle.set_action(other, 7));
            if step == 25 {
                let late = rule(&mut draw, &lens, count + 1);
                subject.insert(&late).unwrap();
                oracle.insert(&late).unwrap();
            }
        }
    }
    assert!(hits_seen > 10_000, "{hits_seen}");
}

#[test]
fn rules_that_look_at_nothing_are_found_by_no_pieces() {
    let layout = Layout::new(&[2, 2]).unwrap();
    let any = |id, priority| Rule::new(id, priority, u64::from(id), &[0; 4], &[0; 4]);
    let mut subject = BitVectors::of(layout.clone(), [any(4, 1), any(5, 2)]).unwrap();
    is_generated(&mut subject);
    let keys = [1; 24];
    let mut hits = [Hit::MISS; 3];
    subject.lookup_burst(&keys, 8, &mut hits);
    assert!(hits.iter().all(|hit| hit.entry == 5));
    subject.remove(5);
    subject.remove(4);
    subject.lookup_burst(&keys, 8, &mut hits);
    assert_eq!(hits, [Hit::MISS; 3]);
    // None at all.
    let mut subject = BitVectors::of(layout, []).unwrap();
    is_generated(&mut subject);
    let mut hits = [Hit { entry: 1, action: 1 }; 3];
    subject.lookup_burst(&keys, 8, &mut hits);
    assert_eq!(hits, [Hit::MISS; 3]);
    subject.lookup_burst(&[], 8, &mut []);
}

#[test]
fn copies_share_code_and_outlive_each_other() {
    let mut draw = Draw::new(3);
    let lens = [2, 2, 2, 1];
    let layout = Layout::new(&lens).unwrap();
    let mut table = Table::with_layout(layout.clone());
    let mut oracle = Linear::new(layout.clone());
    for id in 0..600 {
        let rule = rule(&mut draw, &lens, id);
        table.insert(&rule).unwrap();
        oracle.insert(&rule).unwrap();
    }
    let mut first = table.rebuilt(classify::Kind::BitVectors).unwrap();
    let is = first.generate(&jit::lookup::generate);
    // Other tests' code comes and goes beside it.
    assert!(!is || jit::memory::live_bytes() > 0);
    let second = first.snapshot();
    drop(first);
    let keys: Vec<u8> = (0..64 * 8).map(|_| draw.word() as u8 & 3).collect();
    let mut hits = [Hit::MISS; 64];
    second.lookup_burst(&keys, 8, &mut hits);
    for (key, hit) in keys.chunks(8).zip(hits) {
        assert_eq!(hit, oracle.lookup(&key[..7]));
    }
    let accounting = second.accounting(&mut std::iter::empty()).unwrap();
    assert_eq!(accounting.contains("bytes of code made for them"), is, "{accounting}");
    // A structure of another kind has none.
    assert!(!table.generate(&jit::lookup::generate));
}

#[test]
#[should_panic(expected = "a burst")]
fn too_few_keys_are_refused() {
    let layout = Layout::new(&[2, 2]).unwrap();
    let mut subject = BitVectors::of(layout, [Rule::new(1, 1, 1, &[1; 4], &[255; 4])]).unwrap();
    is_generated(&mut subject);
    subject.lookup_burst(&[0; 15], 8, &mut [Hit::MISS; 2]);
}
