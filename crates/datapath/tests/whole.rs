//! When packets that the code of bursts leaves run by code of whole programs, and when the interpreter runs them.

use datapath::compiled::{JitEngine, Options};
use datapath::engine::{Engine, Forward, Scratch};
use datapath::tally::Ran;
use interp::{Collect, Input, NullExterns, Start};
use ir::{Action, ActionCall, ActionId, Bits, Pipeline, TableId, Update};
use state::counters::CounterArena;
use std::sync::Arc;

const PROGRAM: &str = "\
use std
action many(port: 32) { output port; eth.src = 7; output 2; clone done }
table t { key eth.dst exact; default many(1); capacity 4096; counters }
block start { apply t }
block done { output 9 }
";

struct Bed {
    engine: JitEngine,
    pipeline: Pipeline,
    forward: Arc<dyn Forward>,
    scratch: Scratch,
}

impl Bed {
    fn new(options: Options) -> Bed {
        let pipeline = ir::text::pipeline(PROGRAM).unwrap();
        let arena = Arc::new(CounterArena::new(1 << 16));
        let program = pipeline.program().clone();
        let (engine, forward) = JitEngine::new(program, 1, arena, options).unwrap();
        Bed { engine, pipeline, forward, scratch: Scratch::default() }
    }

    fn apply(&mut self, updates: &[Update]) {
        self.pipeline.transact(updates).unwrap();
        self.engine.apply(&self.pipeline, updates, 0);
        self.forward = self.engine.publish(&|| {});
    }

    /// What has run a packet. It goes where the pipeline says.
    fn run(&mut self) -> Ran {
        let input = Input { bytes: &[5; 60], in_port: 1, now_ns: 3, start: Start::Pipeline };
        let (mut sink, mut right) = (Collect::default(), Collect::default());
        self.scratch.ran = Ran::Interpreter;
        let verdict = self.forward.run(&mut self.scratch, input, &mut NullExterns, &mut sink);
        let wanted =
            interp::Machine::new().run(&self.pipeline, input, &mut NullExterns, &mut right, None);
        assert_eq!((verdict, sink), (wanted, right));
        self.scratch.ran
    }

    /// All jobs that there are; what came of them is published.
    fn work(&mut self) {
        while let Some(job) = self.engine.job() {
            let done = job();
            if self.engine.finish(done) {
                self.forward = self.engine.publish(&|| {});
            }
        }
    }

    fn plan(&self) -> String {
        self.engine.dump("plan").unwrap()
    }
}

/// An action that the pipeline does not have yet, as the default.
fn new_action(id: u32) -> Vec<Update> {
    let text = PROGRAM.replace("eth.src = 7", &format!("eth.src = {id}"));
    let other = ir::text::pipeline(&text).unwrap();
    let action: Action = (*other.program().actions[0]).clone();
    let action = Action { name: format!("many{id}"), ..action };
    let call = ActionCall::with(ActionId(id), [Bits::from_u128(4, 32)]);
    vec![Update::AddAction(ActionId(id), Arc::new(action)), Update::SetDefault(TableId(0), call)]
}

#[test]
fn code_is_made_on_a_control_core_and_again_for_what_is_new() {
    let mut bed = Bed::new(Options::default());
    assert_eq!(bed.run(), Ran::Interpreter);
    assert!(
        bed.plan().contains("left to the interpreter (the code for whole programs is being made)")
    );
    assert!(!bed.engine.is_settled());
    bed.work();
    assert!(bed.engine.is_settled());
    assert_eq!(bed.run(), Ran::Whole);
    assert!(bed.plan().contains("left to the code of whole programs: "), "{}", bed.plan());
    // One action does not take long.
    bed.apply(&new_action(50));
    assert_eq!(bed.run(), Ran::Whole);
    let many: Vec<Update> = (51..60).flat_map(new_action).collect();
    bed.apply(&many);
    assert_eq!(bed.run(), Ran::Interpreter);
    bed.work();
    assert_eq!(bed.run(), Ran::Whole);
    // The same number, and another action: code of the old one must not run.
    bed.apply(&[
        Update::SetDefault(TableId(0), ActionCall::with(ActionId(0), [Bits::from_u128(1, 32)])),
        Update::RemoveAction(ActionId(50)),
    ]);
    assert_eq!(bed.run(), Ran::Whole);
    let other = ir::text::pipeline(&PROGRAM.replace("eth.src = 7", "eth.src = 8")).unwrap();
    let action = Action { name: "other".into(), ..(*other.program().actions[0]).clone() };
    let call = ActionCall::with(ActionId(50), [Bits::from_u128(4, 32)]);
    bed.apply(&[
        Update::AddAction(ActionId(50), Arc::new(action)),
        Update::SetDefault(TableId(0), call),
    ]);
    bed.run();
    bed.work();
    assert_eq!(bed.run(), Ran::Whole);
}

#[test]
fn another_program_has_code_of_its_own() {
    let mut bed = Bed::new(Options::default());
    bed.work();
    let job = {
        bed.apply(&(60..70).flat_map(new_action).collect::<Vec<_>>());
        bed.engine.job().expect("actions without code are work")
    };
    let other = ir::text::pipeline(&PROGRAM.replace("output 2", "output 3")).unwrap();
    bed.apply(&[Update::SetProgram(other.program().clone())]);
    assert_eq!(bed.run(), Ran::Interpreter);
    // What was made for the program before is of no use.
    let done = job();
    if bed.engine.finish(done) {
        bed.forward = bed.engine.publish(&|| {});
    }
    assert_eq!(bed.run(), Ran::Interpreter);
    bed.work();
    assert_eq!(bed.run(), Ran::Whole);
}

#[test]
fn who_compiles_while_a_transaction_waits_never_interprets() {
    let mut bed = Bed::new(Options { synchronous: true, ..Options::default() });
    assert_eq!(bed.run(), Ran::Whole);
    bed.apply(&new_action(70));
    assert_eq!(bed.run(), Ran::Whole);
    let mut bed = Bed::new(Options { synchronous: true, whole: false, ..Options::default() });
    assert_eq!(bed.run(), Ran::Interpreter);
    assert!(bed.plan().contains("left to the interpreter (the interpreter is to run"));
}

/// While packets are not too many to be run one at a time, a change does not wait for code of bursts.
#[test]
fn a_change_waits_for_code_of_bursts_only_if_much_traffic_comes() {
    let mut bed = Bed::new(Options::default());
    bed.work();
    let waited = [1_400_000, 1_600_000].map(|per_second| {
        bed.engine.note_traffic(per_second);
        bed.apply(&new_action(per_second as u32));
        assert_eq!(bed.run(), Ran::Whole);
        let waited = bed.engine.code().is_some();
        bed.work();
        assert!(bed.engine.code().is_some());
        waited
    });
    assert_eq!(waited, [false, true]);
}
