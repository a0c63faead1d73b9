//! A table's entries against the plainest equivalent: a list, sorted when it is read.

use ir::pipeline::UpdateError;
use ir::testing::Rng;
use ir::{
    ActionCall, ActionId, Bits, Entry, EntryId, KeyMatch, Pattern, Pipeline, TableId, Update,
};
use std::cmp::Reverse;
use std::sync::Arc;

const TABLE: TableId = TableId(0);
/// The first of the actions that are added.
const ADDED: u32 = 1000;

fn pipeline() -> Pipeline {
    let text = "use std
action send(port: 32) { output port }
table t { key eth.type exact; key ipv4.dst lpm }
block start { apply t hit last miss last }
block last { end }
";
    ir::text::pipeline(text).unwrap()
}

fn entry(random: &mut Rng, id: u32) -> Entry {
    let len = random.pick(&[0, 8, 16, 24, 32]);
    let value = if len == 0 { 0 } else { (random.below(4) as u64) << (32 - len) };
    let mut matches = vec![KeyMatch {
        key: 0,
        pattern: Pattern::Exact(Bits::from_u128(0x800 + random.below(2) as u128, 16)),
    }];
    if len > 0 {
        let value = Bits::from_u128(value.into(), 32);
        matches.push(KeyMatch { key: 1, pattern: Pattern::Prefix(value, len) });
    }
    Entry {
        id: EntryId(id),
        priority: random.below(3) as i32,
        matches: matches.into(),
        action: send(random),
        cookie: random.below(1 << 20) as u64,
        idle_timeout_ns: 0,
        hard_timeout_ns: 0,
    }
}

fn send(random: &mut Rng) -> ActionCall {
    ActionCall::with(ir::ActionId(0), [Bits::from_u128(random.below(1000) as u128, 32)])
}

/// What the table should hold, in the order of insertion.
type Model = Vec<(u64, Arc<Entry>)>;

fn prefix_len(entry: &Entry) -> u32 {
    match entry.matches.get(1).map(|m| &m.pattern) {
        Some(Pattern::Prefix(_, len)) => *len,
        _ => 0,
    }
}

/// Does an update to the model; false if it must be refused.
fn follow(model: &mut Model, sequence: &mut u64, update: &Update) -> bool {
    let alike = |a: &Entry, b: &Entry| a.priority == b.priority && a.matches == b.matches;
    match update {
        Update::Insert(_, new) => {
            let clash = model.iter().any(|(_, e)| e.id == new.id || alike(e, new));
            if !clash {
                *sequence += 1;
                model.push((*sequence, new.clone()));
            }
            !clash
        }
        Update::Modify(_, new) => match model.iter_mut().find(|(_, e)| e.id == new.id) {
            Some((_, held)) if alike(held, new) => {
                *held = new.clone();
                true
            }
            _ => false,
        },
        Update::Delete(_, id) => match model.iter().position(|(_, e)| e.id == *id) {
            Some(at) => {
                model.remove(at);
                true
            }
            None => false,
        },
        _ => unreachable!("not drawn here"),
    }
}

#[test]
fn entries_are_those_of_a_plain_list() {
    for seed in 0..20 {
        let mut random = Rng::new(seed);
        let (mut pipeline, mut model, mut sequence) = (pipeline(), Model::new(), 0);
        // One that is told what the first one has taken.
        let mut behind = pipeline.clone();
        let (mut done, mut refused) = (0, 0);
        for _ in 0..300 {
            let updates: Vec<Update> = (0..1 + random.below(4))
                .map(|_| {
                    let id = random.below(24) as u32;
                    let held = model.iter().find(|(_, e)| e.id.0 == id).map(|(_, e)| e.clone());
                    match (random.below(8), held) {
                        (0..3, Some(held)) => {
                            let changed = Entry { action: send(&mut random), ..(*held).clone() };
                            Update::Modify(TABLE, Arc::new(changed))
                        }
                        (3..5, _) => Update::Delete(TABLE, EntryId(id)),
                        (5, _) => Update::Modify(TABLE, Arc::new(entry(&mut random, id))),
                        _ => Update::Insert(TABLE, Arc::new(entry(&mut random, id))),
                    }
                })
                .collect();
            let (mut next, mut count) = (model.clone(), sequence);
            let refuses = updates.iter().position(|u| !follow(&mut next, &mut count, u));
            match (pipeline.transact(&updates), refuses) {
                (Ok(version), None) => {
                    assert_eq!(behind.follow(&updates), Ok(version));
                    (model, sequence) = (next, count);
                    done += 1;
                }
                (Err((at, _)), Some(expected)) => {
                    assert_eq!(at, expected);
                    refused += 1;
                }
                (got, expected) => panic!("{updates:?}: {got:?}, but the list says {expected:?}"),
            }
            let mut best: Vec<_> = model.iter().collect();
            best.sort_by_key(|(n, e)| (Reverse(e.priority), Reverse(prefix_len(e)), *n));
            let entries = pipeline.entries(TABLE);
            assert_eq!(entries.len(), best.len());
            assert!(entries.iter().eq(best.iter().map(|(_, e)| e)), "seed {seed}");
            assert!(behind.entries(TABLE).iter().eq(entries.iter()), "seed {seed}");
            for (_, e) in &model {
                assert_eq!(entries.get(e.id), Some(e));
                assert_eq!(entries.find_strict(e.priority, &e.matches), Some(e));
                assert_eq!(behind.entries(TABLE).find_strict(e.priority, &e.matches), Some(e));
            }
            assert_eq!(entries.get(EntryId(24)), None);
        }
        assert!(done > 60 && refused > 60, "{done} transactions done, {refused} refused");
    }
}

/// One entry by itself is what a transaction of it would be; who follows looks at ids all the same.
#[test]
fn one_entry_is_a_transaction() {
    let mut random = Rng::new(3);
    let (mut one, mut many) = (pipeline(), pipeline());
    for id in 0..200 {
        let entry = Arc::new(entry(&mut random, id % 150));
        let update = Update::Insert(TABLE, entry.clone());
        let done = many.transact(std::slice::from_ref(&update)).map_err(|(_, e)| e);
        assert_eq!(one.insert(TABLE, &entry), done);
        assert_eq!(one.version(), many.version());
        if done.is_ok() {
            let again = many.follow(&[update]).map_err(|(_, e)| e);
            assert!(matches!(again, Err(UpdateError::EntryExists { .. })), "{again:?}");
        }
    }
    assert!(one.entries(TABLE).iter().eq(many.entries(TABLE).iter()));
    let gone = many.follow(&[Update::Delete(TABLE, EntryId(999))]);
    assert!(matches!(gone, Err((0, UpdateError::NoEntry { .. }))));
}

/// Places that call an action, counted by looking at all of them.
fn places(p: &Pipeline, id: ActionId) -> usize {
    let entries = p.entries(TABLE);
    let calls = |call: &&ActionCall| call.action == id;
    entries.iter().map(|e| &e.action).filter(calls).count()
        + std::iter::once(entries.default()).filter(calls).count()
        + p.groups().flat_map(|(_, g)| &g.buckets).map(|b| &b.action).filter(calls).count()
}

#[test]
fn an_action_can_be_removed_once_nothing_calls_it() {
    let mut random = Rng::new(5);
    let mut p = pipeline();
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let call = |random: &mut Rng| match random.below(4) {
            0 => send(random),
            n => ActionCall::new(ActionId(ADDED + n as u32 - 1)),
        };
        let some = |random: &mut Rng| {
            let id = random.below(12) as u32;
            Arc::new(Entry { action: call(random), ..entry(random, id) })
        };
        let one = |random: &mut Rng| match random.below(40) {
            0..=9 => {
                let old = p.entries(TABLE).get(EntryId(random.below(12) as u32)).cloned();
                let entry = old.unwrap_or_else(|| some(random));
                Update::Modify(TABLE, Arc::new(Entry { action: call(random), ..(*entry).clone() }))
            }
            10..=17 => Update::Delete(TABLE, EntryId(random.below(12) as u32)),
            18 => Update::Clear(TABLE),
            19 | 20 => Update::SetDefault(TABLE, call(random)),
            21..=25 => {
                let id = ActionId(ADDED + random.below(3) as u32);
                let action = ir::Action {
                    name: format!("added{}", id.0),
                    params: Vec::new(),
                    body: Vec::new(),
                };
                Update::AddAction(id, Arc::new(action))
            }
            26..=30 => Update::RemoveAction(ActionId(ADDED + random.below(3) as u32)),
            31 | 32 => {
                let bucket = |random: &mut Rng| ir::Bucket {
                    weight: 1,
                    watch_port: None,
                    watch_group: None,
                    action: call(random),
                    counter: ir::CounterId(1),
                };
                let buckets = (0..random.below(4)).map(|_| bucket(random)).collect();
                let (kind, counter) = (ir::GroupKind::All, ir::CounterId(2));
                let group = ir::Group { kind, buckets, hash: [].into(), counter };
                Update::SetGroup(ir::GroupId(random.below(3) as u32), Arc::new(group))
            }
            33 => Update::RemoveGroup(ir::GroupId(random.below(3) as u32)),
            _ => Update::Insert(TABLE, some(random)),
        };
        let updates: Vec<Update> = (0..1 + random.below(3)).map(|_| one(&mut random)).collect();
        let id = ActionId(ADDED + random.below(3) as u32);
        let before = places(&p, id);
        match p.transact(&updates) {
            Ok(_) => taken += 1,
            Err((_, UpdateError::ActionInUse { id, users })) => {
                refused += 1;
                if updates.len() == 1 {
                    assert_eq!(users, places(&p, id));
                }
            }
            Err(_) => assert_eq!(before, places(&p, id), "a refused transaction changes nothing"),
        }
        // What is there says whether it may go.
        if p.added_actions().any(|(added, _)| added == id) {
            let gone = p.clone().transact(&[Update::RemoveAction(id)]);
            match places(&p, id) {
                0 => assert!(gone.is_ok()),
                users => {
                    assert!(
                        matches!(gone, Err((0, UpdateError::ActionInUse { users: n, .. })) if n == users)
                    );
                }
            }
        }
    }
    assert!(taken > 3000 && refused > 1000, "{taken} taken, {refused} refused");
}
