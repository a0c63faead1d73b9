//! Random tables, decomposed, against the same tables read row by row.

use classify::decomposed::Decomposed;
use classify::linear::Linear;
use classify::{Hit, Layout, Range, Rule, Structure, Table};
use plan::Model;
use plan::decompose::{Cell, Column, Declined, Flows, Goal, Limits, Row, Tree, decompose};

/// Xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// What kinds of pattern a table's columns have.
#[derive(Clone, Copy)]
enum Style {
    Exact,
    Prefix,
    Mask,
    Range,
    Mixed,
}

fn cell(random: &mut Random, style: Style, bits: u32) -> Cell {
    let all = (1u128 << bits) - 1;
    let value = u128::from(random.below(1 << bits));
    let style = match (style, random.below(4)) {
        (Style::Mixed, 0) => Style::Exact,
        (Style::Mixed, 1) => Style::Prefix,
        (Style::Mixed, 2) => Style::Mask,
        (Style::Mixed, _) => Style::Range,
        (other, _) => other,
    };
    match style {
        _ if random.below(3) == 0 => Cell::Any,
        Style::Exact => Cell::exact(value, bits),
        Style::Prefix => Cell::prefix(value, random.below(u64::from(bits) + 1) as u32, bits),
        Style::Mask => Cell::Bits { value, mask: u128::from(random.below(1 << bits)) },
        Style::Range | Style::Mixed => {
            let hi = (value + u128::from(random.below(1 << bits))).min(all);
            Cell::Range { lo: value, hi }
        }
    }
}

fn table(random: &mut Random) -> Flows {
    let styles = [Style::Exact, Style::Prefix, Style::Mask, Style::Range, Style::Mixed];
    let columns: Vec<Column> = (0..1 + random.below(4))
        .map(|n| Column { name: format!("c{n}"), bits: 1 + random.below(5) as u32 })
        .collect();
    let of: Vec<Style> = columns.iter().map(|_| styles[random.below(5) as usize]).collect();
    let count = random.below(14) as u32;
    let row = |id, random: &mut Random| {
        let cells = columns.iter().zip(&of).map(|(c, &style)| cell(random, style, c.bits));
        Row { id, action: id, cells: cells.collect() }
    };
    let rows = (0..count).map(|id| row(id, random)).collect();
    Flows { columns, rows }
}

fn check(flows: &Flows, tree: &Tree, random: &mut Random) {
    assert!(tree.depth() <= flows.columns.len(), "{tree}");
    assert!(tree.ns > 0.0);
    for (n, node) in tree.nodes.iter().enumerate() {
        assert!(!node.columns.is_empty() && !node.rows.is_empty(), "{tree}");
        for row in &node.rows {
            if let plan::Target::Node(to) = row.target {
                assert!(to as usize > n, "{tree}");
            }
        }
    }
    for _ in 0..64 {
        let key: Vec<u128> =
            flows.columns.iter().map(|c| u128::from(random.below(1 << c.bits))).collect();
        assert_eq!(tree.lookup(&key), flows.lookup(&key), "{key:?}\n{flows:#?}\n{tree}");
    }
}

#[test]
fn a_decomposed_table_answers_as_its_rows_do() {
    let random = &mut Random(0x9e37_79b9_7f4a_7c15);
    let model = Model::builtin();
    let (mut split, mut whole) = ([0, 0], 0);
    for n in 0..20_000 {
        let flows = table(random);
        let limits = Limits { share: n % 7 != 0, ..Limits::default() };
        for (at, goal) in [Goal::FastTemplate, Goal::OneColumn].into_iter().enumerate() {
            match decompose(&flows, goal, &limits, &model) {
                Ok(tree) => {
                    split[at] += 1;
                    check(&flows, &tree, random);
                }
                Err(_) => whole += 1,
            }
        }
    }
    assert!(split[0] > 5_000 && split[1] > 5_000 && whole > 1_000, "{split:?} {whole}");
}

#[test]
fn large_tables_stay_within_the_bounds() {
    let random = &mut Random(7);
    let model = Model::builtin();
    let columns = || {
        ["src", "dst", "sport", "dport"].map(|name| Column { name: name.into(), bits: 16 }).to_vec()
    };
    for count in [300, 2000] {
        let cells = |random: &mut Random| -> Box<[Cell]> {
            let style = [Style::Prefix, Style::Prefix, Style::Exact, Style::Range];
            style.into_iter().map(|style| cell(random, style, 16)).collect()
        };
        let rows: Vec<Row> =
            (0..count).map(|id| Row { id, action: 0, cells: cells(random) }).collect();
        let flows = Flows { columns: columns(), rows };
        let limits = Limits::default();
        match decompose(&flows, Goal::FastTemplate, &limits, &model) {
            Ok(tree) => {
                assert!(tree.nodes.len() <= limits.tables_max);
                check(&flows, &tree, random);
            }
            Err(reason) => assert!(matches!(
                reason,
                Declined::Rows { .. } | Declined::Tables { .. } | Declined::Overlap
            )),
        }
    }
}

/// A packed rule: fields of one, two and three bytes, of few values, so that much overlaps.
fn packed(random: &mut Random, layout: &Layout, id: u32) -> Rule {
    let (mut value, mut mask) = (Vec::new(), Vec::new());
    let mut ranges = Vec::new();
    for field in layout.fields() {
        let top = u32::MAX >> (32 - 8 * field.len as u32);
        let word =
            |random: &mut Random| (random.below(4) << 6) as u32 & top | random.below(3) as u32;
        let (v, m) = match random.below(9) {
            0..3 => (0, 0),
            3..5 => (word(random), top),
            5..7 => (word(random), top & !(top >> random.below(9))),
            7 => (word(random), word(random)),
            _ => {
                let (a, b) = (word(random), word(random));
                let (lo, hi) = (a.min(b).into(), a.max(b).into());
                ranges.push(Range { offset: field.offset as u32, len: field.len as u8, lo, hi });
                (0, 0)
            }
        };
        value.extend(&v.to_be_bytes()[4 - field.len..]);
        mask.extend(&m.to_be_bytes()[4 - field.len..]);
    }
    // Few priorities, so that many are equal.
    let mut rule = Rule::new(id, random.below(3) as u32, random.below(4), &value, &mask);
    rule.ranges = ranges.into();
    rule.with_action(id * 7 + 1)
}

#[test]
fn a_tree_of_tables_answers_as_linear_does() {
    let random = &mut Random(0xdead_beef);
    let model = Model::builtin();
    let mut built = 0;
    for n in 0..3000 {
        let lens: Vec<usize> =
            (0..2 + random.below(3)).map(|_| 1 + random.below(3) as usize).collect();
        let layout = Layout::new(&lens).expect("short").with_seed(n);
        let count = if n % 50 == 0 { 60 } else { random.below(16) as u32 };
        let rules: Vec<Rule> = (0..count).map(|id| packed(random, &layout, id)).collect();
        let Ok((flows, places)) = Flows::of_rules(&layout, &[], &rules) else { continue };
        let goal = if n % 2 == 0 { Goal::OneColumn } else { Goal::FastTemplate };
        let Ok(tree) = decompose(&flows, goal, &Limits::default(), &model) else { continue };
        built += 1;
        let mut subject = Decomposed::new(layout.clone(), &rules, &tree.packed(&places))
            .unwrap_or_else(|error| panic!("{error}\n{tree}"));
        let mut oracle = Linear::new(layout.clone());
        for rule in &rules {
            oracle.insert(rule).expect("linear takes all");
        }
        if let Some(rule) = rules.first() {
            let action = random.below(99) as u32;
            assert!(subject.set_action(rule.id, action) && oracle.set_action(rule.id, action));
        }
        let stride = layout.stride();
        let count = 70;
        let mut keys = vec![0u8; stride * count];
        for key in keys.chunks_mut(stride) {
            for byte in &mut key[..layout.key_len()] {
                *byte = (random.below(4) << 6 | random.below(3)) as u8;
            }
        }
        let (mut got, mut want) = (vec![Hit::MISS; count], vec![Hit::MISS; count]);
        subject.lookup_burst(&keys, stride, &mut got);
        oracle.lookup_burst(&keys, stride, &mut want);
        assert_eq!(got, want, "{rules:#?}\n{tree}");
        for (key, want) in keys.chunks(stride).zip(&want) {
            assert_eq!(subject.lookup(&key[..layout.key_len()]), *want);
        }
        // Changes make it give way, and answers stay right.
        let mut table = Table::from_structure(Box::new(subject));
        let extra = packed(random, &layout, 1000);
        let gone = rules.get(random.below(4) as usize).map(|rule| rule.id);
        if n % 3 == 0 {
            table.insert(&extra).expect("sound");
            oracle.insert(&extra).expect("sound");
        }
        if let Some(gone) = gone {
            assert_eq!(table.remove(gone).map(|r| r.id), oracle.remove(gone).map(|r| r.id));
        }
        table.lookup_burst(&keys, stride, &mut got);
        oracle.lookup_burst(&keys, stride, &mut want);
        assert_eq!(got, want);
    }
    assert!(built > 1500, "{built}");
}
