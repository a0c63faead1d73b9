//! The compiling engine's decisions: what is compiled at once, what on a control core, what serves
//! meanwhile. That code and interpreter agree is `differential`'s business.

use datapath::compiled::{JitEngine, Options};
use datapath::counts::{Counts, NoServices};
use datapath::engine::{Engine, Forward, Scratch};
use ir::{
    ActionCall, ActionId, Bits, Entry, EntryId, KeyMatch, Pattern, Pipeline, TableId, Update,
};
use port::prng::Prng;
use state::counters::{CounterArena, WorkerCounters};
use std::sync::Arc;
use std::time::Duration;

const PROGRAM: &str = "\
use std
meta mark: 8
action drop { drop }
action forward(port: 32) { output port }
action twice(port: 32) { output port; output 7 }
table t { key eth.dst ternary; key eth.src ternary; default drop; capacity 4096; counters }
block start { apply t }
block done { end }
";

/// Packets that are handed over begin anew, one stage higher.
const ROUNDS: &str = "\
use std
meta stage: 8
service looks() -> ()
action drop { drop }
action out(port: 32) { output port }
action again { service looks(); stage = stage + 1; recirculate stage }
table t {
  key stage ternary; key eth.dst ternary; key eth.src ternary; default drop; capacity 4096; counters
}
block start { apply t hit end miss end }
block end { end }
";

struct Bed {
    engine: JitEngine,
    pipeline: Pipeline,
    forward: Arc<dyn Forward>,
    arena: Arc<CounterArena>,
    counters: WorkerCounters,
    scratch: Scratch,
    live: abi::Live,
}

fn action(pipeline: &Pipeline, name: &str, args: &[u128]) -> ActionCall {
    let id = pipeline.program().find_action(name).unwrap();
    ActionCall::with(id, args.iter().map(|a| Bits::from_u128(*a, 32)))
}

impl Bed {
    fn new(options: Options) -> Bed {
        Bed::of(PROGRAM, options)
    }

    fn of(program: &str, options: Options) -> Bed {
        let pipeline = ir::text::pipeline(program).unwrap();
        let arena = Arc::new(CounterArena::new(1 << 16));
        let program = pipeline.program().clone();
        // What runs packets that code leaves is the business of `whole.rs`.
        let options = Options { whole: false, ..options };
        let (engine, forward) = JitEngine::new(program, 1, arena.clone(), options).unwrap();
        let counters = arena.worker();
        (0..5000).for_each(|_| assert!(arena.allocate().is_ok()));
        let live = abi::Live::all_but([]);
        Bed { engine, pipeline, forward, arena, counters, scratch: Scratch::default(), live }
    }

    fn apply(&mut self, updates: &[Update]) {
        self.pipeline.transact(updates).unwrap();
        self.engine.apply(&self.pipeline, updates, 0);
        self.forward = self.engine.publish(&|| {});
        assert_eq!(self.forward.version(), self.pipeline.version());
    }

    fn entry(&self, id: u32, dst: u128, call: ActionCall) -> Update {
        let keys = &self.pipeline.program().tables[0].key;
        let key = keys.iter().position(|key| key.name == "eth.dst").unwrap() as u16;
        let matches = vec![KeyMatch { key, pattern: Pattern::Exact(Bits::from_u128(dst, 48)) }];
        self.entry_with(id, matches, call)
    }

    fn entry_with(&self, id: u32, matches: Vec<KeyMatch>, call: ActionCall) -> Update {
        Update::Insert(
            TableId(0),
            Arc::new(Entry {
                id: EntryId(id),
                priority: 1,
                matches: matches.into(),
                action: call,
                cookie: 0,
                idle_timeout_ns: 0,
                hard_timeout_ns: 0,
            }),
        )
    }

    /// Where a packet to `dst` goes; `None` if code leaves it to the interpreter.
    fn send(&mut self, dst: u64) -> Option<Vec<u32>> {
        let mut buffer = [0u8; 128];
        buffer[64..70].copy_from_slice(&dst.to_be_bytes()[2..]);
        let mut burst = [abi::Packet::new(&mut buffer, 64, 60, 1)];
        let forward = self.forward.clone();
        let state = forward.state();
        let (mut services, mut random) = (NoServices, Prng::new(0));
        let answers = (&mut services as &mut _, &mut random as &mut _);
        let mut counts = Counts::new(0, state, &self.counters, answers, &self.live, 5);
        forward.burst(&mut self.scratch, &mut burst, &mut counts, 5);
        match burst[0].status {
            abi::status::FORWARD => Some(burst[0].outputs().iter().map(|o| o.port).collect()),
            abi::status::DROP => Some(Vec::new()),
            _ => None,
        }
    }

    fn work(&mut self) -> bool {
        let Some(job) = self.engine.job() else { return false };
        let done = job();
        if self.engine.finish(done) {
            self.forward = self.engine.publish(&|| {});
        }
        true
    }
}

#[test]
fn few_entries_are_code_and_many_are_looked_up() {
    let mut bed = Bed::new(Options { synchronous: true, ..Options::default() });
    assert_eq!(bed.send(7), Some(vec![]));
    for id in 0..3 {
        let call = action(&bed.pipeline, "forward", &[100 + u128::from(id)]);
        bed.apply(&[bed.entry(id, u128::from(id), call)]);
        assert_eq!(bed.send(id.into()), Some(vec![100 + id]));
    }
    assert!(bed.engine.code().unwrap().unit.nodes[0].direct.is_some());
    let many: Vec<Update> = (3..2000)
        .map(|id| {
            let call = action(&bed.pipeline, "forward", &[100 + u128::from(id)]);
            bed.entry(id, u128::from(id), call)
        })
        .collect();
    bed.apply(&many);
    let code = bed.engine.code().unwrap().clone();
    assert!(code.unit.nodes[0].direct.is_none());
    // From now on, entries are edits.
    for id in 2000..3000 {
        let call = action(&bed.pipeline, "forward", &[100 + u128::from(id)]);
        bed.apply(&[bed.entry(id, u128::from(id), call)]);
        bed.apply(&[Update::Delete(TableId(0), EntryId(id - 2000))]);
    }
    assert!(Arc::ptr_eq(bed.engine.code().unwrap(), &code));
    assert_eq!(bed.send(999), Some(vec![]));
    assert_eq!(bed.send(1000), Some(vec![1100]));
    assert_eq!(bed.send(2999), Some(vec![3099]));
    assert_eq!(bed.arena.read(1000).unwrap().packets, 1);
    assert_eq!(bed.forward.state().table(TableId(0)), (7, 5));
}

#[test]
fn what_code_does_not_know_is_interpreted_until_it_is_compiled() {
    let mut bed = Bed::new(Options::default());
    let many: Vec<Update> = (0..100)
        .map(|id| bed.entry(id, u128::from(id), action(&bed.pipeline, "forward", &[1])))
        .collect();
    bed.apply(&many);
    // No time is left for compiling while a transaction waits.
    bed.engine.spend_budget();
    bed.apply(&[bed.entry(100, 100, action(&bed.pipeline, "twice", &[9]))]);
    assert_eq!(bed.send(5), Some(vec![1]));
    assert_eq!(bed.send(100), None);
    assert!(bed.work());
    assert_eq!(bed.send(100), Some(vec![9, 7]));
    assert!(!bed.work());

    // Another key field: the whole table is looked up otherwise.
    let src = KeyMatch { key: 1, pattern: Pattern::Exact(Bits::from_u128(0, 48)) };
    bed.engine.spend_budget();
    bed.apply(&[bed.entry_with(101, vec![src], action(&bed.pipeline, "forward", &[3]))]);
    assert_eq!(bed.send(5), None);
    assert!(bed.work());
    assert_eq!(bed.send(5), Some(vec![1]));
    assert_eq!(bed.send(5555), Some(vec![3]));

    // The default action is part of the code.
    bed.engine.spend_budget();
    bed.apply(&[Update::SetDefault(TableId(0), action(&bed.pipeline, "forward", &[8]))]);
    assert_eq!(bed.send(5), None);
    assert!(bed.work());
    bed.apply(&[Update::Delete(TableId(0), EntryId(101))]);
    assert_eq!(bed.send(5555), Some(vec![8]));
}

/// While there is little traffic, nobody waits for code that the interpreter can stand in for.
#[test]
fn light_traffic_is_interpreted_until_there_is_code() {
    let mut bed = Bed::new(Options::default());
    let forward = |bed: &Bed, port| action(&bed.pipeline, "forward", &[port]);
    let sent = [19_000, 21_000].map(|per_second| {
        bed.engine.note_traffic(per_second);
        bed.apply(&[bed.entry(per_second as u32, 1, forward(&bed, per_second.into()))]);
        let sent = bed.send(1);
        assert_eq!(bed.work(), sent.is_none());
        let sent = (sent, bed.send(1));
        bed.apply(&[Update::Delete(TableId(0), EntryId(per_second as u32))]);
        while bed.work() {}
        sent
    });
    assert_eq!(sent, [(None, Some(vec![19_000])), (Some(vec![21_000]), Some(vec![21_000]))]);
}

#[test]
fn what_was_compiled_too_late_is_not_used() {
    let mut bed = Bed::new(Options::default());
    bed.engine.spend_budget();
    bed.apply(&[bed.entry(0, 1, action(&bed.pipeline, "forward", &[1]))]);
    assert_eq!(bed.send(1), None);
    let job = bed.engine.job().unwrap();
    assert!(bed.engine.job().is_none(), "one at a time");
    bed.engine.spend_budget();
    bed.apply(&[Update::Delete(TableId(0), EntryId(0))]);
    let done = job();
    if bed.engine.finish(done) {
        bed.engine.spend_budget();
        bed.forward = bed.engine.publish(&|| {});
    }
    assert_ne!(bed.send(1), Some(vec![1]));
    while bed.work() {}
    assert_eq!(bed.send(1), Some(vec![]));
}

#[test]
fn a_removed_action_s_id_may_come_back_as_another_action() {
    let mut bed = Bed::new(Options::default());
    let id = ActionId(bed.pipeline.program().actions.len() as u32);
    let body = |port: u128| {
        let op = ir::Op::Output { port: ir::Expr::int(port, 32) };
        Arc::new(ir::Action { name: format!("a{port}"), params: Vec::new(), body: vec![op] })
    };
    bed.apply(&[Update::AddAction(id, body(11))]);
    let many: Vec<Update> =
        (0..50).map(|n| bed.entry(n, u128::from(n), ActionCall::new(id))).collect();
    bed.apply(&many);
    while bed.work() {}
    assert_eq!(bed.send(3), Some(vec![11]));
    let all: Vec<Update> = (0..50).map(|n| Update::Delete(TableId(0), EntryId(n))).collect();
    bed.apply(&[&all[..], &[Update::RemoveAction(id), Update::AddAction(id, body(22))]].concat());
    bed.engine.spend_budget();
    bed.apply(&many);
    assert_ne!(bed.send(3), Some(vec![11]));
    while bed.work() {}
    assert_eq!(bed.send(3), Some(vec![22]));
}

#[test]
fn a_table_that_has_become_quiet_becomes_code() {
    let quiet = Duration::from_millis(500);
    let mut bed = Bed::new(Options { quiet, ..Options::default() });
    let call = action(&bed.pipeline, "forward", &[1]);
    let all: Vec<Update> = (0..6).map(|n| bed.entry(n, u128::from(n), call.clone())).collect();
    let told = std::time::Instant::now();
    bed.apply(&all);
    while bed.work() {}
    let direct = bed.engine.code().unwrap().unit.nodes[0].direct.is_some();
    // A machine that took as long as that for its code may have looked again.
    assert!(!direct || told.elapsed() >= quiet);
    std::thread::sleep(quiet * 2);
    bed.engine.settle();
    while bed.work() {}
    assert!(bed.engine.code().unwrap().unit.nodes[0].direct.is_some());
    assert_eq!(bed.send(5), Some(vec![1]));
}

/// Patterns of stage, destination and source, where there are some.
fn fields(stage: Option<u128>, dst: Option<u128>, src: Option<u128>) -> Vec<KeyMatch> {
    let all = [(stage, 8), (dst, 48), (src, 48)].into_iter().zip(0..);
    let some = all.filter_map(|((value, width), key)| {
        Some(KeyMatch { key, pattern: Pattern::Exact(Bits::from_u128(value?, width)) })
    });
    some.collect()
}

fn ranked(update: Update, priority: i32) -> Update {
    match update {
        Update::Insert(table, entry) => {
            Update::Insert(table, Arc::new(Entry { priority, ..(*entry).clone() }))
        }
        other => other,
    }
}

#[test]
fn where_the_stage_is_known_a_table_is_looked_up_by_the_other_fields() {
    let quiet = Duration::ZERO;
    let mut bed = Bed::of(ROUNDS, Options { quiet, ..Options::default() });
    let (again, out) = (action(&bed.pipeline, "again", &[]), |bed: &Bed, port| {
        action(&bed.pipeline, "out", &[port])
    });
    let mut all: Vec<Update> = (0..40).map(|n| bed.entry(n, n.into(), again.clone())).collect();
    for (id, dst, port, priority) in [(100, Some(7), 77, 20), (101, None, 1, 10)] {
        let entry = bed.entry_with(id, fields(Some(1), dst, None), out(&bed, port));
        all.push(ranked(entry, priority));
    }
    bed.apply(&all);
    let columns = |bed: &Bed| -> Vec<Vec<u16>> {
        let nodes = &bed.engine.code().unwrap().unit.nodes;
        nodes.iter().filter(|n| n.direct.is_none()).map(|n| n.columns.clone()).collect()
    };
    assert_eq!(columns(&bed), [[1]], "the stage is 0 where packets come in");
    let told = |bed: &Bed| bed.engine.explain().remove(0).choice;
    let line = "where packets come in, 40 of its entries are left, looked up by 1 of 2 fields: hash serves";
    assert!(told(&bed).contains(line), "{}", told(&bed));
    assert_eq!(
        (bed.send(5), bed.send(7), bed.send(99)),
        (Some(vec![1]), Some(vec![77]), Some(vec![]))
    );

    // Entries come, change and go, and the code stays.
    let code = bed.engine.code().unwrap().clone();
    bed.apply(&[bed.entry(41, 41, again.clone()), Update::Delete(TableId(0), EntryId(5))]);
    assert!(Arc::ptr_eq(bed.engine.code().unwrap(), &code));
    assert_eq!((bed.send(41), bed.send(5)), (Some(vec![1]), Some(vec![])));
    let Update::Insert(table, six) = bed.entry(6, 6, out(&bed, 66)) else { unreachable!() };
    bed.apply(&[Update::Modify(table, six)]);
    while bed.work() {}
    assert_eq!((bed.send(6), bed.send(41)), (Some(vec![66]), Some(vec![1])));

    // One of a later stage that looks at another field concerns the first pass only by being there.
    bed.engine.spend_budget();
    bed.apply(&[bed.entry_with(102, fields(Some(2), None, Some(3)), out(&bed, 5))]);
    assert_eq!(bed.send(41), Some(vec![1]));

    // One of this stage that does: packets leave the code until there is other code.
    bed.engine.spend_budget();
    let entry = bed.entry_with(103, fields(Some(0), Some(8), Some(0)), out(&bed, 8));
    bed.apply(&[ranked(entry, 30)]);
    assert_eq!((bed.send(8), bed.send(9)), (None, None));
    assert!(bed.work());
    assert_eq!(columns(&bed), [[1, 2]]);
    assert_eq!((bed.send(8), bed.send(9)), (Some(vec![8]), Some(vec![1])));
    bed.apply(&[Update::Clear(TableId(0))]);
    while bed.work() {}
    assert_eq!(bed.send(9), Some(vec![]));
}

#[test]
fn what_is_looked_up_in_part_answers_as_all_entries_do() {
    let mut rng = ir::testing::Rng::new(11);
    let (mut answered, mut parts) = (0, 0);
    for _ in 0..12 {
        let mut bed = Bed::of(ROUNDS, Options { quiet: Duration::ZERO, ..Options::default() });
        let mut ids: Vec<u32> = Vec::new();
        for round in 0..60u32 {
            let mut updates = Vec::new();
            for n in 0..if round == 0 { 60 } else { 3 } {
                if !ids.is_empty() && round > 0 && rng.one_in(3) {
                    let id = ids.swap_remove(rng.below(ids.len()));
                    updates.push(Update::Delete(TableId(0), EntryId(id)));
                    continue;
                }
                let stage = [None, Some(0), Some(1), Some(2)][rng.below(4)];
                let stage = if rng.one_in(3) { stage } else { None };
                let dst = (!rng.one_in(20)).then(|| rng.below(40) as u128);
                let src = rng.one_in(40).then_some(0);
                let call = match rng.below(3) {
                    0 => action(&bed.pipeline, "again", &[]),
                    1 if stage.is_none() => action(&bed.pipeline, "again", &[]),
                    2 if rng.one_in(4) => action(&bed.pipeline, "drop", &[]),
                    _ => action(&bed.pipeline, "out", &[rng.below(9) as u128]),
                };
                let id = 100 * round + n;
                ids.push(id);
                let entry = bed.entry_with(id, fields(stage, dst, src), call);
                updates.push(ranked(entry, rng.below(1 << 20) as i32));
            }
            if rng.one_in(2) {
                bed.engine.spend_budget();
            }
            bed.apply(&updates);
            if rng.one_in(3) {
                while bed.work() {}
            }
            let code = bed.engine.code().map(|code| code.unit.nodes.clone()).unwrap_or_default();
            parts += code.iter().filter(|n| n.direct.is_none() && n.columns.len() == 1).count();
            for dst in 0..42 {
                let Some(sent) = bed.send(dst) else { continue };
                answered += 1;
                assert_eq!(sent, rounds(&bed.pipeline, dst), "to {dst}");
            }
        }
    }
    assert!(answered > 10_000 && parts > 100, "{answered} {parts}");
}

/// What comes of a packet, stage by stage, by looking at all entries.
fn rounds(pipeline: &Pipeline, dst: u64) -> Vec<u32> {
    let name = |call: &ActionCall| pipeline.program().actions[call.action.index()].name.clone();
    for stage in 0..16 {
        let key =
            [Bits::from_u128(stage, 8), Bits::from_u128(dst.into(), 48), Bits::from_u128(0, 48)];
        let entries = pipeline.entries(TableId(0));
        let hits = entries.iter().filter(|entry| entry.matches(&key));
        let Some(best) = hits.max_by_key(|entry| entry.priority) else { return Vec::new() };
        match name(&best.action).as_str() {
            "again" => {}
            "drop" => return Vec::new(),
            _ => return vec![best.action.args[0].low_u128() as u32],
        }
    }
    Vec::new()
}

/// Packets hand copies to a group.
const GROUPED: &str = "\
use std
action drop { drop }
action out(port: 32) { output port }
action marked(port: 32, mac: 48) { eth.dst = mac; output port }
action hand(to: 32) { group to }
table t { key eth.dst ternary; default drop; capacity 4096; counters }
block start { apply t }
block done { end }
";

fn bucket(watch_port: Option<u32>, weight: u16, action: ActionCall) -> ir::Bucket {
    ir::Bucket { weight, watch_port, watch_group: None, action, counter: ir::CounterId(40) }
}

fn group(kind: ir::GroupKind, buckets: Vec<ir::Bucket>, hash: Vec<ir::Expr>) -> Update {
    let group = ir::Group { kind, buckets, hash: hash.into(), counter: ir::CounterId(41) };
    Update::SetGroup(ir::GroupId(5), Arc::new(group))
}

/// A change of a group, or a port that goes down, is an edit: the code stays as it is.
#[test]
fn groups_are_data_of_the_code() {
    use ir::GroupKind::{All, FastFailover, Indirect, Select};
    let mut bed = Bed::of(GROUPED, Options { synchronous: true, ..Options::default() });
    let out = |bed: &Bed, port: u32| action(&bed.pipeline, "out", &[port.into()]);
    let hand = action(&bed.pipeline, "hand", &[5]);
    let source = bed.pipeline.program().find_field("eth.src").unwrap();
    let hash = vec![ir::Expr::Field(source)];
    let entries: Vec<Update> = (0..100).map(|n| bed.entry(n, n.into(), hand.clone())).collect();
    bed.apply(&entries);
    // Of each kind one, so that the code knows the action and the hash.
    bed.apply(&[group(Select, vec![bucket(None, 1, out(&bed, 9))], hash.clone())]);
    assert_eq!(bed.send(1), Some(vec![9]));
    let code = bed.engine.code().unwrap().clone();
    let slots = [5, 5].map(|port| bucket(Some(1000), 0, out(&bed, port)));
    bed.apply(&[group(ir::GroupKind::Slots, slots.to_vec(), hash.clone())]);
    assert_eq!(bed.send(1), Some(vec![5]), "a slot is taken whether it is live or not");
    let one = bucket(None, 0, out(&bed, 7));
    bed.apply(&[group(Indirect, vec![one.clone()], Vec::new())]);
    assert_eq!(bed.send(1), Some(vec![7]));
    let three = [1, 2, 3].map(|port| bucket(None, 0, out(&bed, port)));
    bed.apply(&[group(All, three.to_vec(), Vec::new())]);
    assert_eq!(bed.send(2), Some(vec![1, 2, 3]));
    let watching = [1, 2].map(|port| bucket(Some(port), 0, out(&bed, port)));
    bed.apply(&[group(FastFailover, watching.to_vec(), Vec::new())]);
    assert_eq!(bed.send(3), Some(vec![1]));
    // A link goes down, and comes back: no version of anything changes.
    for (down, expected) in [(1, vec![2]), (2, vec![])] {
        bed.live.set(down, false);
        assert_eq!(bed.send(3), Some(expected));
    }
    bed.live.set(1, true);
    assert_eq!(bed.send(3), Some(vec![1]));
    bed.live.set(2, true);
    let weighed = [(1, 0), (2, 3)].map(|(port, weight)| bucket(None, weight, out(&bed, port)));
    bed.apply(&[group(Select, weighed.to_vec(), hash)]);
    assert_eq!(bed.send(4), Some(vec![2]), "of weight 0, none is chosen");
    bed.apply(&[Update::RemoveGroup(ir::GroupId(5))]);
    assert_eq!(bed.send(4), Some(vec![]));
    assert!(Arc::ptr_eq(bed.engine.code().unwrap(), &code), "code was made anew");
    assert_eq!(bed.arena.read(41).unwrap().packets, 9);
    assert_eq!(bed.arena.read(40).unwrap().packets, 10);
}

/// Without time to compile, what is new to groups is left to others until there is code.
#[test]
fn what_is_new_to_groups_is_left_until_it_is_compiled() {
    let mut bed = Bed::of(GROUPED, Options::default());
    let hand = action(&bed.pipeline, "hand", &[5]);
    let entries: Vec<Update> = (0..100).map(|n| bed.entry(n, n.into(), hand.clone())).collect();
    let out = action(&bed.pipeline, "out", &[7]);
    let indirect = |call| group(ir::GroupKind::Indirect, vec![bucket(None, 0, call)], Vec::new());
    bed.apply(&[&entries[..], &[indirect(out.clone())]].concat());
    while bed.work() {}
    assert_eq!(bed.send(1), Some(vec![7]));
    bed.engine.spend_budget();
    let mut marked = action(&bed.pipeline, "marked", &[6, 6]);
    marked.args[1] = Bits::from_u128(6, 48);
    bed.apply(&[indirect(marked)]);
    assert_eq!(bed.send(1), None, "the bucket's action is new");
    bed.apply(&[indirect(out)]);
    assert_eq!(bed.send(1), Some(vec![7]));
}
