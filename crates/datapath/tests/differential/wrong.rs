//! Engines that are wrong on purpose: the harness finds each, makes it small and prints a file that
//! can be kept.

use crate::harness::case::{Case, Step, contents};
use crate::harness::print::mill;
use crate::harness::race::race;
use crate::harness::run::{Buffers, Fault as Kinds, Mismatch, run};
use crate::harness::shrink::shrink;
use crate::harness::source::{Kind, Source};
use crate::harness::{Subject, Tested};
use datapath::counts::Counts;
use datapath::engine::TableExplanation;
use datapath::meter::LiveMeter;
use datapath::program_state::ProgramState;
use datapath::replica::InterpEngine;
use datapath::{Engine, Forward, Scratch};
use interp::filetest::Interpreter;
use interp::{Externs, Input, NullExterns, Packet, Punt, Sink};
use ir::testing::{self, Rng};
use ir::text::filetest::{Document, run as run_document};
use ir::{Bits, DigestId, Pipeline, TableId, Update, Verdict};
use std::sync::Arc;
use std::time::Duration;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Entries that are deleted stay.
    KeepsDeleted,
    /// Long packets lose a bit.
    TurnsABit,
    /// Two outputs come in the other order.
    SwapsOutputs,
    /// Nothing is counted.
    CountsNothing,
    /// A version is published before the updates behind the first of a transaction.
    PublishesHalf,
    /// A drop is another drop.
    OtherReason,
    /// It panics on IPv6.
    Panics,
}

const FAULTS: [Fault; 7] = [
    Fault::KeepsDeleted,
    Fault::TurnsABit,
    Fault::SwapsOutputs,
    Fault::CountsNothing,
    Fault::PublishesHalf,
    Fault::OtherReason,
    Fault::Panics,
];

/// The interpreter engine with a fault.
struct Wrong {
    engine: InterpEngine,
    fault: Fault,
    late: Vec<(Pipeline, Vec<Update>)>,
}

/// A snapshot with a fault.
struct WrongForward {
    forward: Arc<dyn Forward>,
    fault: Fault,
}

impl Wrong {
    fn snapshot(&self, forward: Arc<dyn Forward>) -> Arc<dyn Forward> {
        Arc::new(WrongForward { forward, fault: self.fault })
    }
}

impl Engine for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn apply(&mut self, pipeline: &Pipeline, updates: &[Update], now_ns: u64) {
        let kept: Vec<Update> = match self.fault {
            Fault::KeepsDeleted => {
                updates.iter().filter(|u| !matches!(u, Update::Delete(..))).cloned().collect()
            }
            Fault::PublishesHalf if updates.len() > 1 => {
                self.late.push((pipeline.clone(), updates[1..].to_vec()));
                updates[..1].to_vec()
            }
            _ => updates.to_vec(),
        };
        self.engine.apply(pipeline, &kept, now_ns);
    }

    fn publish(&mut self, nudge: &dyn Fn()) -> Arc<dyn Forward> {
        let forward = self.engine.publish(nudge);
        for (pipeline, updates) in self.late.drain(..) {
            self.engine.apply(&pipeline, &updates, 0);
        }
        self.snapshot(forward)
    }

    fn explain(&self) -> Vec<TableExplanation> {
        self.engine.explain()
    }
}

impl Tested for Wrong {}

/// Passes copies on, with the fault.
struct WrongSink<'a> {
    sink: &'a mut dyn Sink,
    fault: Fault,
    held: Option<(u32, u32, Vec<u8>)>,
}

impl Sink for WrongSink<'_> {
    fn output(&mut self, port: u32, queue: u32, packet: Packet<'_>) {
        let mut bytes = packet.to_vec();
        if self.fault == Fault::TurnsABit && bytes.len() > 40 {
            bytes[17] ^= 1;
        }
        match self.held.take() {
            None if self.fault == Fault::SwapsOutputs => self.held = Some((port, queue, bytes)),
            held => {
                let unchanged = false;
                self.sink.output(port, queue, Packet { headers: &bytes, payload: &[], unchanged });
                if let Some((port, queue, headers)) = held {
                    let headers = &headers;
                    self.sink.output(port, queue, Packet { headers, payload: &[], unchanged });
                }
            }
        }
    }

    fn punt(&mut self, punt: Punt<'_>) {
        self.sink.punt(punt);
    }

    fn digest(&mut self, digest: DigestId, args: &[Bits]) {
        self.sink.digest(digest, args);
    }
}

impl Forward for WrongForward {
    fn version(&self) -> u64 {
        self.forward.version()
    }

    fn state(&self) -> &Arc<ProgramState> {
        self.forward.state()
    }

    fn tally(&self) -> &datapath::tally::Tally {
        self.forward.tally()
    }

    fn meter(&self, meter: ir::MeterId) -> Option<&LiveMeter> {
        self.forward.meter(meter)
    }

    fn burst(
        &self,
        scratch: &mut Scratch,
        packets: &mut [abi::Packet<'_>],
        counts: &mut Counts<'_>,
        now_ns: u64,
    ) {
        self.forward.burst(scratch, packets, counts, now_ns);
    }

    fn run(
        &self,
        scratch: &mut Scratch,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
    ) -> Verdict {
        let v6 = input.bytes.get(12..14) == Some(&[0x86, 0xdd]);
        assert!(!(self.fault == Fault::Panics && v6), "it panics on IPv6");
        let mut wrong = WrongSink { sink, fault: self.fault, held: None };
        let verdict = match self.fault {
            Fault::CountsNothing => self.forward.run(scratch, input, &mut NullExterns, &mut wrong),
            _ => self.forward.run(scratch, input, externs, &mut wrong),
        };
        if let Some((port, queue, headers)) = wrong.held {
            let headers = &headers[..];
            let packet = Packet { headers, payload: &[], unchanged: false };
            wrong.sink.output(port, queue, packet);
        }
        match verdict {
            Verdict::Drop(ir::DropReason::InvalidTtl) if self.fault == Fault::OtherReason => {
                Verdict::Drop(ir::DropReason::Action)
            }
            verdict => verdict,
        }
    }

    fn trace(
        &self,
        scratch: &mut Scratch,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
    ) -> (Verdict, interp::Trace) {
        self.forward.trace(scratch, input, externs, sink)
    }
}

fn subject(fault: Fault) -> Subject {
    Subject::new("wrong", move |program, arena| {
        let (engine, forward) = InterpEngine::new(program, 1, arena);
        let wrong = Wrong { engine, fault, late: Vec::new() };
        let forward = wrong.snapshot(forward);
        (wrong, forward)
    })
}

fn count(case: &Case) -> (usize, usize) {
    let of = |step: &Step| match step {
        Step::Transact(updates) => (updates.len(), 0),
        Step::Burst { packets, .. } => (0, packets.len()),
        _ => (0, 0),
    };
    case.steps.iter().map(of).fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
}

fn small(case: &Case, how: &Mismatch, subject: &Subject) -> (Case, Mismatch) {
    let mut buffers = Buffers::default();
    shrink(case, how, Duration::from_secs(20), &mut |case| run(case, subject, &mut buffers).err())
}

#[test]
fn every_fault_is_found_made_small_and_printed() {
    let mut buffers = Buffers::default();
    for fault in FAULTS {
        let subject = subject(fault);
        let found = (0..200).find_map(|seed| {
            let case = Source::new(Kind::Shaped, seed).case(150);
            let how = run(&case, &subject, &mut buffers).err();
            // An id that comes again while its entry stays makes the engine panic.
            let wanted = |how: &Mismatch| (how.kind() == Kinds::Panic) == (fault == Fault::Panics);
            how.filter(|how| wanted(how)).map(|how| (case, how))
        });
        let (case, how) = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
        let (small, how) = small(&case, &how, &subject);
        let (updates, packets) = count(&small);
        let file = mill(&small, &how, &subject.name, "An engine that is wrong on purpose.");
        // An entry or two, its deletion, a packet.
        assert!(updates <= 4 && packets == 1, "{fault:?}: {updates} {packets}\n{file}");
        let document = Document::parse(&file).unwrap_or_else(|e| panic!("{fault:?}: {e}\n{file}"));
        let report = run_document(&document, &mut Interpreter::new());
        assert!(report.failures.is_empty(), "{fault:?}: {:?}\n{file}", report.failures);
        // The packet itself, at least.
        let expected = file.lines().filter(|l| l.starts_with("; expect")).count();
        assert!(expected >= 1, "{fault:?}\n{file}");
        // What only a deletion shows is told as one.
        if fault == Fault::KeepsDeleted {
            let gone = ["\ndelete ", "\n  delete ", "\ntransaction {"];
            assert!(gone.iter().any(|word| file.contains(word)), "{file}");
        }
    }
}

#[test]
fn a_fault_beside_forwarding_becomes_a_case_of_one_thread() {
    let mut buffers = Buffers::default();
    let subject = subject(Fault::TurnsABit);
    // A worker that is done before anything is published meets no fault.
    let found = (3..40).find_map(|seed| {
        let case = Source::new(Kind::Shaped, seed).case(600);
        race(&case, &subject, &mut buffers).err()
    });
    let found = found.expect("it is wrong");
    let how = run(&found.0, &subject, &mut buffers).expect_err("the same without threads");
    let (small, _) = small(&found.0, &how, &subject);
    assert_eq!(count(&small).1, 1);
}

#[test]
fn contents_lead_to_the_same_pipeline() {
    let same = |a: &Pipeline, b: &Pipeline| {
        let tables = 0..a.program().tables.len() as u32;
        tables.map(TableId).all(|t| {
            let (a, b) = (a.entries(t), b.entries(t));
            a.len() == b.len()
                && a.default() == b.default()
                && a.iter().all(|e| b.get(e.id) == Some(e))
        }) && a.groups().eq(b.groups())
            && a.meters().eq(b.meters())
            && a.added_actions().eq(b.added_actions())
    };
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut p = Pipeline::new(Arc::new(testing::program(seed))).expect("it is valid");
        for _ in 0..60 {
            let update = testing::update(&p, &mut rng);
            let _ = p.transact(&[update]);
        }
        let mut fresh = Pipeline::new(p.program().clone()).expect("it is valid");
        for update in contents(&p) {
            // Groups refer to each other in any order.
            let _ = fresh.transact(&[update]);
        }
        contents(&p).into_iter().for_each(|update| drop(fresh.transact(&[update])));
        assert!(same(&fresh, &p), "seed {seed}");
    }
}
