//! The interpreter engine's snapshots against the interpreter on the plain pipeline, which reads
//! every entry in order: random programs, updates in transactions, packets.
//!
//! A difference prints the pipeline as a `.mill` file, and the packet.

use datapath::replica::InterpEngine;
use datapath::{Engine, Forward, Scratch};
use interp::{Collect, Color, Input, Machine, MemoryExterns, Start};
use ir::testing::{self, Rng};
use ir::{MeterId, Pipeline, Update, Verdict};
use state::counters::CounterArena;
use std::sync::Arc;
use testkit::lookups::Lookups;

/// The subject and its oracle.
struct Pair {
    pipeline: Pipeline,
    engine: InterpEngine,
    snapshot: Arc<dyn Forward>,
    scratch: Scratch,
    machine: Machine,
    /// Packets that an entry matched.
    hits: u64,
    committed: u64,
}

impl Pair {
    fn new(pipeline: Pipeline) -> Pair {
        let arena = Arc::new(CounterArena::new(1 << 16));
        let (engine, snapshot) = InterpEngine::new(pipeline.program().clone(), 1, arena);
        let (scratch, machine) = (Scratch::default(), Machine::new());
        Pair { pipeline, engine, snapshot, scratch, machine, hits: 0, committed: 0 }
    }

    fn transact(&mut self, updates: &[Update]) {
        if self.pipeline.transact(updates).is_ok() {
            self.engine.apply(&self.pipeline, updates, 0);
            self.committed += 1;
        }
    }

    fn publish(&mut self) {
        let never = || unreachable!("nobody holds the snapshot before the last one");
        self.snapshot = self.engine.publish(&never);
        assert_eq!(self.snapshot.version(), self.pipeline.version());
    }

    fn compare(&mut self, bytes: &[u8], seed: u64) {
        let externs = || {
            let mut externs = MemoryExterns::new(self.pipeline.program());
            externs.dead_ports.insert(1);
            externs.meters.insert(MeterId(1), Color { color: 2, level: 9 });
            externs
        };
        let input = Input { bytes, in_port: 3, now_ns: 5, start: Start::Pipeline };
        let (mut mine, mut plain) = (externs(), externs());
        let (mut outputs, mut expected) = (Collect::default(), Collect::default());
        let verdict = self.snapshot.run(&mut self.scratch, input, &mut mine, &mut outputs);
        let right = self.machine.run(&self.pipeline, input, &mut plain, &mut expected, None);
        self.hits += mine.tables.values().map(|(hits, _)| hits).sum::<u64>();
        let same = verdict == right
            && outputs == expected
            && mine.tables == plain.tables
            && mine.entries == plain.entries
            && mine.counters == plain.counters
            && mine.registers == plain.registers;
        assert!(
            same,
            "seed {seed}: {verdict}, right is {right}\n{outputs:x?}\nright is\n{expected:x?}\n\
             {:?}\nright is\n{:?}\npacket {bytes:02x?}\n{}",
            mine.entries,
            plain.entries,
            ir::text::print_pipeline(&self.pipeline)
        );
        let traced =
            self.snapshot.trace(&mut self.scratch, input, &mut externs(), &mut Collect::default());
        assert_eq!(traced.0, right);
    }
}

/// Tables whose entries are hit often: the index of every kind of key, under updates.
#[test]
fn lookups_agree_with_the_linear_scan() {
    let (mut rounds, mut hits, mut committed) = (0u64, 0, 0);
    for seed in 0..220 {
        let mut random = Lookups::new(seed);
        let mut pair = Pair::new(Pipeline::new(random.program()).unwrap());
        for round in 0..30 {
            // Sometimes many updates come between two publications, sometimes one or none.
            for _ in 0..random.rng().below(4) {
                let updates: Vec<Update> = {
                    let mut then = pair.pipeline.clone();
                    let count = random.rng().pick(&[1, 1, 2, 20]);
                    let mut updates = Vec::new();
                    for _ in 0..count {
                        let update = random.update(&then);
                        // Mostly transactions that succeed, as updates are drawn one after another.
                        if then.transact(std::slice::from_ref(&update)).is_ok()
                            || random.rng().one_in(20)
                        {
                            updates.push(update);
                        }
                    }
                    updates
                };
                pair.transact(&updates);
            }
            pair.publish();
            if round % 5 == 4 {
                pair.engine.settle();
            }
            for _ in 0..6 {
                rounds += 1;
                pair.compare(&random.packet(), seed);
            }
        }
        hits += pair.hits;
        committed += pair.committed;
    }
    println!("{rounds} packets, {hits} hits, {committed} transactions");
    assert!(hits > rounds / 2, "entries are hit too seldom to tell");
}

/// The whole language, with updates.
#[test]
fn any_program_agrees_with_the_plain_pipeline() {
    let mut forwarded = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed ^ 0xabcd);
        let program = Arc::new(testing::program(seed));
        let mut pair = Pair::new(Pipeline::new(program).unwrap());
        for _ in 0..12 {
            for _ in 0..1 + rng.below(6) {
                let update = testing::update(&pair.pipeline, &mut rng);
                pair.transact(&[update]);
            }
            pair.publish();
            for _ in 0..4 {
                let packet = testing::packet(&mut rng);
                pair.compare(&packet, seed);
            }
        }
        let input = Input { bytes: &[0; 64], in_port: 1, now_ns: 0, start: Start::Pipeline };
        let externs = &mut MemoryExterns::new(pair.pipeline.program());
        let verdict = pair.snapshot.run(&mut pair.scratch, input, externs, &mut Collect::default());
        forwarded += usize::from(verdict == Verdict::Forward);
    }
    assert!(forwarded > 20, "{forwarded}");
}
