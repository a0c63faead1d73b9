use super::{DecisionTree, Fields, LEAF_MAX, Useless};
use crate::linear::Linear;
use crate::rule::{Layout, Range, Rule};
use crate::structure::Structure;
use random::Random;

/// A small generator (SplitMix64).
mod random {
    pub(super) struct Random(pub(super) u64);

    impl Random {
        pub(super) fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        }

        pub(super) fn below(&mut self, n: usize) -> usize {
            (self.next() % n.max(1) as u64) as usize
        }
    }
}

const LENS: [usize; 7] = [8, 2, 1, 4, 16, 6, 9];

fn layout() -> Layout {
    Layout::new(&LENS).unwrap()
}

/// A rule as OVN has them: one field nearly always, a few others.
fn rule(random: &mut Random, id: u32) -> Rule {
    let layout = layout();
    let (mut value, mut mask) = (vec![0; layout.key_len()], vec![0; layout.key_len()]);
    let mut ranges = Vec::new();
    for (at, field) in layout.fields().iter().enumerate() {
        let often = if at == 0 { 9 } else { 3 };
        if random.below(10) >= often {
            continue;
        }
        let span = field.offset..field.offset + field.len;
        match random.below(8) {
            0 if at == 3 || at == 4 => {
                let (a, b) = (random.below(4) as u128, random.below(4) as u128);
                let (offset, len) = (field.offset as u32, field.len as u8);
                ranges.push(Range { offset, len, lo: a.min(b), hi: a.max(b) });
            }
            1 => mask[span.end - 1] = [0x80, 0x03, 0xf0][random.below(3)],
            2 => mask[field.offset] = 0xff,
            _ => mask[span.clone()].fill(0xff),
        }
        value[span.end - 1] = random.below(4) as u8;
        value[field.offset] |= [0, 0, 0, 0x80][random.below(4)];
    }
    let priority = random.below(4) as u32;
    let mut rule = Rule::new(id, priority, u64::from(id), &value, &mask);
    rule.ranges = ranges.into();
    rule.action = random.next() as u32;
    rule
}

fn key(random: &mut Random) -> Vec<u8> {
    let layout = layout();
    let mut key = vec![0; layout.key_len()];
    for field in layout.fields() {
        key[field.offset + field.len - 1] = random.below(4) as u8;
        key[field.offset] |= [0, 0, 0, 0x80][random.below(4)];
    }
    key
}

#[test]
fn it_answers_as_the_oracle_whatever_comes_and_goes() {
    let (mut whole, mut useless) = (0, 0);
    for seed in 0..60 {
        let mut random = Random(seed);
        let layout = layout();
        let mut tree = DecisionTree::new(&layout).unwrap();
        let mut linear = Linear::new(layout.clone());
        let mut held: Vec<Rule> = Vec::new();
        let most = [8, 30, 90][seed as usize % 3];
        for step in 0..400 {
            if held.len() < most && random.below(3) > 0 {
                let rule = rule(&mut random, step);
                linear.insert(&rule).unwrap();
                held.push(rule.clone());
                if tree.insert(&rule) == Err(Useless) {
                    useless += 1;
                    // Whoever has it throws it away, and makes another one of what there is.
                    match DecisionTree::of(&layout, &held) {
                        Some(made) => tree = made,
                        None => break,
                    }
                }
            } else if !held.is_empty() {
                let at = random.below(held.len());
                if random.below(3) == 0 {
                    held[at].action = random.next() as u32;
                    tree.set_action(&held[at], held[at].action);
                    linear.set_action(held[at].id, held[at].action);
                } else {
                    let rule = held.swap_remove(at);
                    tree.remove(&rule);
                    linear.remove(rule.id);
                }
            }
            assert_eq!(tree.len(), held.len());
            for _ in 0..20 {
                let key = key(&mut random);
                let found = tree.find(&mut (&layout, &key[..]));
                assert_eq!(found, linear.lookup(&key), "seed {seed}, step {step}, {key:02x?}");
            }
            whole += 1;
        }
        held.drain(..).for_each(|rule| tree.remove(&rule));
        assert_eq!((tree.len(), tree.listed), (0, 0), "seed {seed}");
    }
    assert!(whole > 15_000, "most of it was tried: {whole} steps, {useless} times of no use");
}

/// Counts what is read.
struct Counted<'a>(&'a Layout, &'a [u8], Vec<usize>);

impl Fields for Counted<'_> {
    fn word(&mut self, field: usize) -> u64 {
        self.2.push(field);
        (self.0, self.1).word(field)
    }

    fn bytes(&mut self, field: usize, out: &mut [u8]) {
        self.2.push(field);
        (self.0, self.1).bytes(field, out);
    }
}

#[test]
fn fields_that_decide_nothing_are_not_read() {
    let layout = layout();
    // Twenty logical switches; in each a port and an address are told apart.
    let mut rules = Vec::new();
    for switch in 0..20 {
        for port in 0..5 {
            let (mut value, mut mask) = (vec![0; layout.key_len()], vec![0; layout.key_len()]);
            (value[7], value[9]) = (switch, port);
            mask[..10].fill(0xff);
            rules.push(Rule::new(rules.len() as u32, 100, 0, &value, &mask));
        }
        let (mut value, mut mask) = (vec![0; layout.key_len()], vec![0; layout.key_len()]);
        value[7] = switch;
        mask[..8].fill(0xff);
        // The last field of all, behind everything else.
        *mask.last_mut().unwrap() = 0xff;
        rules.push(Rule::new(rules.len() as u32, 50, 0, &value, &mask));
    }
    let tree = DecisionTree::of(&layout, &rules).unwrap();
    for (at, rule) in rules.iter().enumerate() {
        let mut counted = Counted(&layout, &rule.value, Vec::new());
        let found = tree.find(&mut counted);
        assert_eq!(found.entry, if at % 6 == 5 { at as u32 - 5 } else { at as u32 });
        counted.2.sort_unstable();
        assert_eq!(counted.2, [0, 1], "of {} fields", LENS.len());
    }
}

#[test]
fn values_that_come_and_go_leave_nothing_behind() {
    let layout = Layout::new(&[6, 2]).unwrap();
    let mut tree = DecisionTree::new(&layout).unwrap();
    let rule = |mac: u32| {
        let mut value = [0; 8];
        value[2..6].copy_from_slice(&mac.to_be_bytes());
        Rule::new(mac, 1, 0, &value, &[0xff; 8])
    };
    for mac in 0..100_000 {
        tree.insert(&rule(mac)).unwrap();
        if mac >= 50 {
            tree.remove(&rule(mac - 50));
        }
    }
    assert_eq!(tree.len(), 50);
    assert!(tree.nodes.len() < 200, "{} nodes", tree.nodes.len());
}

#[test]
fn what_it_cannot_part_it_declines() {
    let layout = Layout::new(&[4]).unwrap();
    // Each a bit of its own: none of them parts the others.
    let rules: Vec<Rule> = (0..32)
        .chain(0..32)
        .zip(0..)
        .map(|(bit, id)| {
            let mask = 1u32.rotate_left(bit).to_be_bytes();
            Rule::new(id, 1, 0, &mask, &mask)
        })
        .collect();
    assert!(DecisionTree::of(&layout, &rules[..LEAF_MAX]).is_some());
    assert!(DecisionTree::of(&layout, &rules).is_none());
    // A range over a part of a field, and a key that is too long.
    let mut rule = Rule::new(1, 1, 0, &[0; 4], &[0; 4]);
    rule.ranges = Box::new([Range { offset: 1, len: 2, lo: 3, hi: 9 }]);
    assert_eq!(DecisionTree::new(&layout).unwrap().insert(&rule), Err(Useless));
    assert!(DecisionTree::new(&Layout::new(&[300]).unwrap()).is_none());
}
