//! A table is rearranged aside: updates at every stage of it against the interpreter on the plain pipeline, and
//! readers beside, who never miss an entry that stays.

use datapath::compiled::{JitEngine, Options};
use datapath::counts::{Counts, NoServices};
use datapath::engine::{Engine, Forward, Scratch};
use interp::{Collect, Input, Machine, MemoryExterns, Start};
use ir::testing::Rng;
use ir::{ActionCall, Bits, Entry, EntryId, KeyMatch, Pattern, Pipeline, TableId, Update, Verdict};
use port::prng::Prng;
use state::counters::CounterArena;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PROGRAM: &str = "\
use std
meta mark: 8
action drop { drop }
action forward(port: 32) { output port }
table t { key eth.dst ternary; key eth.src ternary; default drop; capacity 8192; counters }
block start { apply t }
block done { end }
";

/// Entries that stay; above them come others.
const STAY: u32 = 600;

struct Bed {
    engine: JitEngine,
    truth: Pipeline,
    shown: Pipeline,
    forward: Arc<dyn Forward>,
    arena: Arc<CounterArena>,
    scratch: Scratch,
    machine: Machine,
}

impl Bed {
    fn new() -> Bed {
        Bed::with(Options::default())
    }

    fn with(options: Options) -> Bed {
        let truth = ir::text::pipeline(PROGRAM).unwrap();
        let arena = Arc::new(CounterArena::new(1 << 16));
        let options = Options { quiet: Duration::ZERO, whole: false, ..options };
        let program = truth.program().clone();
        let (engine, forward) = JitEngine::new(program, 1, arena.clone(), options).unwrap();
        (0..9000).for_each(|_| assert!(arena.allocate().is_ok()));
        let (scratch, machine) = (Scratch::default(), Machine::new());
        Bed { engine, shown: truth.clone(), truth, forward, arena, scratch, machine }
    }

    fn apply(&mut self, updates: &[Update]) {
        self.truth.transact(updates).unwrap();
        self.engine.apply(&self.truth, updates, 0);
    }

    fn publish(&mut self) {
        self.forward = self.engine.publish(&|| {});
        self.shown = self.truth.clone();
    }

    fn forward_to(&self, port: u32) -> ActionCall {
        let id = self.truth.program().find_action("forward").unwrap();
        ActionCall::with(id, [Bits::from_u128(port.into(), 32)])
    }

    /// An entry of one of some fifty masks.
    fn entry(&self, id: u32, rng: &mut Rng, port: u32) -> Arc<Entry> {
        let lens = (rng.pick(&[6, 12, 30, 40, 44, 48]), rng.pick(&[3, 6, 28, 36, 42, 45]));
        self.entry_of(id, rng, port, lens)
    }

    /// An entry of prefixes of these lengths.
    fn entry_of(&self, id: u32, rng: &mut Rng, port: u32, (dst, src): (u32, u32)) -> Arc<Entry> {
        let masked = |rng: &mut Rng, key: u16, kept: u32| {
            let mask = Bits::from_u128(!0 << (48 - kept) & 0xffff_ffff_ffff, 48);
            let value = u128::from(rng.next_u64() & 0xfc00_000f_ffff);
            let value = Bits::from_u128(value, 48).and(&mask);
            KeyMatch { key, pattern: Pattern::Masked(value, mask) }
        };
        let matches = [masked(rng, 0, dst), masked(rng, 1, src)];
        Arc::new(Entry {
            id: EntryId(id),
            priority: rng.below(1000) as i32,
            matches: matches.into(),
            action: self.forward_to(port),
            cookie: 0,
            idle_timeout_ns: 0,
            hard_timeout_ns: 0,
        })
    }

    /// A frame that meets an entry of the table, more or less.
    fn frame(&self, rng: &mut Rng) -> [u8; 60] {
        let entries: Vec<_> = self.shown.entries(TableId(0)).iter().collect();
        let mut frame = [0; 60];
        if !entries.is_empty() && !rng.one_in(20) {
            let entry = &entries[rng.below(entries.len())];
            for m in entry.matches.iter() {
                let Pattern::Masked(value, mask) = &m.pattern else { unreachable!() };
                let noise = u128::from(rng.next_u64()) & !mask.low_u128() & 0xffff_ffff_ffff;
                let bytes = (value.low_u128() | noise).to_be_bytes();
                frame[6 * m.key as usize..][..6].copy_from_slice(&bytes[10..]);
            }
        }
        frame
    }

    /// Sends frames by what is published, and compares with what it should be.
    fn compare(&mut self, rng: &mut Rng, frames: usize) {
        for _ in 0..frames {
            let frame = self.frame(rng);
            let input = Input { bytes: &frame, in_port: 1, now_ns: 5, start: Start::Pipeline };
            let mut externs = MemoryExterns::new(self.shown.program());
            let mut outputs = Collect::default();
            let verdict = self.machine.run(&self.shown, input, &mut externs, &mut outputs, None);
            let want: Vec<u32> = outputs.outputs.iter().map(|copy| copy.port).collect();
            let want = if matches!(verdict, Verdict::Forward) { want } else { Vec::new() };
            // Code leaves it to the interpreter where it is not made yet.
            let got = send(&*self.forward, &self.arena, &mut self.scratch, &frame);
            assert!(got.is_none() || got == Some(want), "{got:?}");
            let mut mine = Collect::default();
            let own = &mut MemoryExterns::new(self.shown.program());
            assert_eq!(self.forward.run(&mut self.scratch, input, own, &mut mine), verdict);
            assert_eq!(mine, outputs);
        }
    }

    fn explained(&self) -> String {
        self.engine.explain()[0].choice.clone()
    }

    /// Takes what came of a job; whether the table moved to what was made beside it.
    fn finish(&mut self, done: datapath::engine::Done) -> bool {
        let code = self.engine.code().map(Arc::as_ptr);
        let better = self.engine.finish(done);
        if better {
            self.publish();
        }
        better && code == self.engine.code().map(Arc::as_ptr)
    }
}

/// The ports that a frame goes to; none if code leaves it to the interpreter.
fn send(
    forward: &dyn Forward,
    arena: &Arc<CounterArena>,
    scratch: &mut Scratch,
    frame: &[u8; 60],
) -> Option<Vec<u32>> {
    let mut buffer = [0u8; 128];
    buffer[64..124].copy_from_slice(frame);
    let mut burst = [abi::Packet::new(&mut buffer, 64, 60, 1)];
    let counters = arena.worker();
    let (mut services, mut random, live) = (NoServices, Prng::new(0), abi::Live::default());
    let answers = (&mut services as &mut _, &mut random as &mut _);
    let mut counts = Counts::new(0, forward.state(), &counters, answers, &live, 5);
    forward.burst(scratch, &mut burst, &mut counts, 5);
    match burst[0].status {
        abi::status::FORWARD => Some(burst[0].outputs().iter().map(|o| o.port).collect()),
        abi::status::DROP => Some(Vec::new()),
        _ => None,
    }
}

/// Entries that a model of the table holds: what may be changed, or taken out.
struct Held {
    ids: Vec<u32>,
    next: u32,
}

impl Held {
    fn update(&mut self, bed: &Bed, rng: &mut Rng) -> Update {
        let port = 100 + rng.below(5) as u32;
        match rng.below(10) {
            0 if !self.ids.is_empty() => {
                let id = self.ids[rng.below(self.ids.len())];
                let mut entry =
                    Entry::clone(bed.truth.entries(TableId(0)).get(EntryId(id)).unwrap());
                entry.action = bed.forward_to(port);
                Update::Modify(TableId(0), Arc::new(entry))
            }
            1..=4 if self.ids.len() > STAY as usize => {
                let at = rng.below(self.ids.len());
                Update::Delete(TableId(0), EntryId(self.ids.swap_remove(at)))
            }
            _ => {
                // Numbers come back, soon or late.
                self.next = (self.next + 1) % 8000;
                while self.ids.contains(&self.next) {
                    self.next = (self.next + 1) % 8000;
                }
                self.ids.push(self.next);
                let mut entry = bed.entry(self.next, rng, port);
                // A table has no two entries of one key and priority.
                while bed
                    .truth
                    .entries(TableId(0))
                    .find_strict(entry.priority, &entry.matches)
                    .is_some()
                {
                    entry = bed.entry(self.next, rng, port);
                }
                Update::Insert(TableId(0), entry)
            }
        }
    }
}

#[test]
fn what_changes_while_a_table_is_rearranged_is_not_lost() {
    let (mut moved, mut late) = (0, 0);
    for seed in 0..6 {
        let (mut bed, rng) = (Bed::new(), &mut Rng::new(seed));
        let mut held = Held { ids: Vec::new(), next: 0 };
        let mut change = |bed: &mut Bed, rng: &mut Rng, count: usize| {
            // One by one: each is drawn by what the ones before have left.
            for _ in 0..count {
                let update = held.update(bed, rng);
                bed.apply(&[update]);
            }
        };
        change(&mut bed, rng, 1500);
        bed.publish();
        let (mut job, mut done) = (None, None);
        for _ in 0..300 {
            match rng.below(12) {
                0..3 => {
                    let count = rng.pick(&[1, 5, 60]);
                    change(&mut bed, rng, count);
                }
                // More than a publication brings up to date.
                3 if rng.one_in(2) && (job.is_some() || done.is_some()) => {
                    change(&mut bed, rng, 4000);
                    late += 1;
                }
                4 | 5 => bed.publish(),
                6 if bed.shown.version() == bed.truth.version() => {
                    if bed.engine.settle() {
                        bed.publish();
                    }
                }
                7 | 8 if job.is_none() => job = bed.engine.job(),
                9 if done.is_none() => done = job.take().map(|job: datapath::engine::Job| job()),
                10 => {
                    if let Some(done) = done.take() {
                        moved += usize::from(bed.finish(done));
                    }
                }
                _ => bed.compare(rng, 3),
            }
            bed.compare(rng, 1);
        }
        bed.publish();
        bed.compare(rng, 300);
        assert!(bed.explained().contains("keys of traffic, it asks"), "{}", bed.explained());
    }
    assert!(moved >= 3 && late >= 2, "{moved} tables moved, {late} times much came late");
}

/// Entries of so many masks that bit vectors take least; code is made for them, and the copies that serve share it.
#[test]
fn a_table_is_looked_up_by_code_of_its_own() {
    let (mut bed, rng) = (Bed::new(), &mut Rng::new(5));
    let mut entries = Vec::new();
    for id in 0..900 {
        let lens = (2 + rng.below(47) as u32, 2 + rng.below(47) as u32);
        let entry = bed.entry_of(id, rng, id % 7 + 2, lens);
        entries.push(entry.clone());
        bed.apply(&[Update::Insert(TableId(0), entry)]);
    }
    bed.publish();
    let is_generated = |bed: &Bed| bed.explained().contains("bytes of code made for them");
    for _ in 0..20 {
        bed.compare(rng, 200);
        if let Some(done) = bed.engine.job().map(|job: datapath::engine::Job| job()) {
            bed.finish(done);
        }
        if bed.engine.settle() {
            bed.publish();
        }
    }
    #[cfg(target_arch = "x86_64")]
    assert!(
        is_generated(&bed) || !is_x86_feature_detected!("avx512bw"),
        "no code of its own: {}",
        bed.explained()
    );
    // Both replicas, while entries go, come again, and do something else.
    for round in 0..40 {
        let (gone, other) = (rng.below(900), rng.below(900));
        bed.apply(&[Update::Delete(TableId(0), entries[gone].id)]);
        if round % 2 == 0 {
            bed.publish();
            bed.compare(rng, 40);
        }
        bed.apply(&[Update::Insert(TableId(0), entries[gone].clone())]);
        let mut changed = Entry::clone(&entries[other]);
        changed.action = bed.forward_to(round + 20);
        entries[other] = Arc::new(changed);
        bed.apply(&[Update::Modify(TableId(0), entries[other].clone())]);
        bed.publish();
        bed.compare(rng, 40);
    }
}

/// What comes between the plan of a decomposition and the copy of the rules that it is for.
#[test]
fn a_plan_is_given_up_when_its_rules_change() {
    let template = Some("decomposed".parse().unwrap());
    let mut decomposed = 0;
    for seed in 0..20 {
        let (mut bed, rng) =
            (Bed::with(Options { template, ..Options::default() }), &mut Rng::new(seed));
        let count = 20 + rng.below(20) as u32;
        let some: Vec<Update> =
            (0..count).map(|id| Update::Insert(TableId(0), bed.entry(id, rng, id))).collect();
        bed.apply(&some);
        bed.publish();
        bed.engine.settle();
        // It hides what was there.
        let mut entry = Entry::clone(&bed.entry(count, rng, 99));
        entry.priority = 5000;
        entry.matches = entry.matches[..1].into();
        let late = match seed % 3 {
            0 => vec![Update::Insert(TableId(0), Arc::new(entry))],
            1 => vec![
                Update::Delete(TableId(0), EntryId(0)),
                Update::Insert(TableId(0), Arc::new(entry)),
            ],
            _ => Vec::new(),
        };
        bed.apply(&late);
        bed.publish();
        for _ in 0..3 {
            while let Some(job) = bed.engine.job() {
                let done = job();
                bed.finish(done);
                bed.compare(rng, 100);
            }
            bed.engine.settle();
        }
        bed.compare(rng, 300);
        decomposed += usize::from(bed.explained().contains("decomposed serves"));
    }
    assert!(decomposed > 10, "{decomposed} of 20 tables are decomposed in the end");
}

#[test]
fn a_table_that_is_cleared_meanwhile_keeps_what_it_has() {
    let (mut bed, rng) = (Bed::new(), &mut Rng::new(5));
    let all: Vec<Update> =
        (0..900).map(|id| Update::Insert(TableId(0), bed.entry(id, rng, id))).collect();
    bed.apply(&all);
    bed.publish();
    while let Some(job) = bed.engine.job() {
        let done = job();
        bed.finish(done);
    }
    bed.engine.settle();
    let job = bed.engine.job().expect("nine hundred entries have come");
    let few: Vec<Update> =
        (0..3).map(|id| Update::Insert(TableId(0), bed.entry(id, rng, id))).collect();
    bed.apply(&[Update::Clear(TableId(0))]);
    bed.apply(&few);
    bed.publish();
    let done = job();
    assert!(!bed.finish(done));
    bed.compare(rng, 200);
}

#[test]
fn readers_never_miss_what_stays() {
    let (mut bed, rng) = (Bed::new(), &mut Rng::new(77));
    let exact = |bed: &Bed, id: u32| {
        let full = Bits::ones(48);
        let value =
            |n: u32| Pattern::Masked(Bits::from_u128(u128::from(n) * 0x10_0001, 48), full.clone());
        let matches =
            [KeyMatch { key: 0, pattern: value(id) }, KeyMatch { key: 1, pattern: value(id + 7) }];
        let entry = Entry {
            id: EntryId(id),
            priority: 5000,
            matches: matches.into(),
            action: bed.forward_to(id),
            cookie: 0,
            idle_timeout_ns: 0,
            hard_timeout_ns: 0,
        };
        Update::Insert(TableId(0), Arc::new(entry))
    };
    let stay: Vec<Update> = (0..STAY).map(|id| exact(&bed, id)).collect();
    bed.apply(&stay);
    let mut held = Held { ids: Vec::new(), next: STAY };
    let mut moved = 0;
    let current = Mutex::new(bed.forward.clone());
    let (stop, read) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let arena = bed.arena.clone();
        let publish = |bed: &mut Bed| *current.lock().unwrap() = bed.forward.clone();
        bed.publish();
        publish(&mut bed);
        let (current, stop, read) = (&current, &stop, &read);
        let reader = scope.spawn(move || {
            let mut scratch = Scratch::default();
            let mut id = 0;
            while !stop.load(Ordering::Relaxed) {
                id = (id + 331) % STAY;
                let mut frame = [0; 60];
                for (at, n) in [(0, id), (6, id + 7)] {
                    let bytes = (u64::from(n) * 0x10_0001).to_be_bytes();
                    frame[at..at + 6].copy_from_slice(&bytes[2..]);
                }
                let forward = current.lock().unwrap().clone();
                let ports = send(&*forward, &arena, &mut scratch, &frame);
                assert!(ports.is_none() || ports == Some(vec![id]), "{ports:?} for {id}");
                read.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 0..400 {
            for _ in 0..10 {
                let update = loop {
                    let update = held.update(&bed, rng);
                    match &update {
                        Update::Insert(_, entry) if entry.id.0 < STAY => {
                            held.ids.retain(|id| *id >= STAY)
                        }
                        _ => break update,
                    }
                };
                bed.apply(&[update]);
            }
            bed.publish();
            publish(&mut bed);
            if round % 4 == 0 && !bed.engine.settle() {
                while let Some(job) = bed.engine.job() {
                    let done = job();
                    moved += usize::from(bed.finish(done));
                    publish(&mut bed);
                }
            }
            assert!(!reader.is_finished(), "the reader missed an entry");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(moved >= 1 && read.into_inner() > 1000, "{moved} moves");
}
