//! Engines against the interpreter on the plain pipeline: the same program, entries, updates and
//! packets, and every effect compared.
//!
//! | module | holds |
//! |---|---|
//! | [`source`] | where cases come from: kinds of random programs, updates and packets |
//! | [`p4`] | the project's P4 programs, or a folder's, as such a source |
//! | [`walk`] | packets that follow a parser, entries of values that they have |
//! | [`case`] | a case: a program and the steps that follow, as data |
//! | [`run`] | a case on an engine and on its oracle, compared after every packet |
//! | [`race`] | the same with the updates on a thread of their own |
//! | [`effects`] | what a packet does: copies in order, verdict; what it counts |
//! | [`shrink`] | a failing case made small |
//! | [`print`] | a failing case as a `.mill` test file, with the oracle's answers |
//!
//! The oracle is [`interp::Machine`] on [`ir::Pipeline`], which reads every entry in order. It shares
//! with the subject the interpreter of a packet that compiled code leaves, and neither lookup
//! structure nor compiled code. Compared are, for each packet, verdict, copies (port, queue, bytes,
//! order), punts and digests; at the end of a program, table counters, entries' and groups' counters
//! with their times of use, counter arrays and registers.
//!
//! Chance is drawn by the number of the packet, so that both sides draw the same; meters are those
//! that have no memory; port [`run::DEAD_PORT`] is down.
//!
//! The test, the example and the fuzz target `differential` include this module, and use their parts
//! of it.
#![allow(dead_code)]

pub(crate) mod case;
pub(crate) mod effects;
pub(crate) mod p4;
pub(crate) mod print;
pub(crate) mod race;
pub(crate) mod run;
pub(crate) mod shrink;
pub(crate) mod source;

use case::{Case, Incoming, Step};
use datapath::compiled::{JitEngine, Options, Template};
use datapath::replica::InterpEngine;
use datapath::{Engine, Forward};
use ir::Program;
use run::{Buffers, run};
use source::{Kind, Source};
use state::counters::CounterArena;
use std::sync::Arc;
use std::time::Duration;

/// An engine under test.
pub(crate) trait Tested: Engine {
    /// Why its code leaves packets to the interpreter, by the number of the reason.
    fn bails(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

impl Tested for InterpEngine {}

impl Tested for JitEngine {
    fn bails(&self) -> Vec<Arc<str>> {
        self.code().map(|code| code.compiled.bails().to_vec()).unwrap_or_default()
    }
}

/// An engine and its first snapshot.
pub(crate) type Made = (Box<dyn Tested>, Arc<dyn Forward>);

/// Makes an engine for one worker.
pub(crate) type Make = dyn Fn(Arc<Program>, Arc<CounterArena>) -> Made + Send + Sync;

/// A kind of engine under test.
pub(crate) struct Subject {
    /// As `engines` of a test file spells it: `interp`, `jit(template=hash)`.
    pub(crate) name: String,
    /// Its constructor.
    pub(crate) make: Box<Make>,
}

impl Subject {
    /// The engine that a constructor makes.
    pub(crate) fn new<E: Tested + 'static>(
        name: &str,
        make: impl Fn(Arc<Program>, Arc<CounterArena>) -> (E, Arc<dyn Forward>) + Send + Sync + 'static,
    ) -> Subject {
        let make = move |program, arena| -> Made {
            let (engine, forward) = make(program, arena);
            (Box::new(engine), forward)
        };
        Subject { name: name.to_string(), make: Box::new(make) }
    }

    /// The interpreter engine.
    pub(crate) fn interp() -> Subject {
        Subject::new("interp", |program, arena| InterpEngine::new(program, 1, arena))
    }

    /// The compiling engine with options.
    fn jit(name: &str, options: Options) -> Subject {
        Subject::new(name, move |program, arena| {
            let made = JitEngine::new(program, 1, arena, options.clone());
            made.unwrap_or_else(|e| panic!("there is no compiled code here: {e}"))
        })
    }

    /// The compiling engine in every way: as it is, compiling beside forwarding, without rewrites,
    /// without decomposition, with one version of everything, and with each template forced.
    pub(crate) fn compiled() -> Vec<Subject> {
        let usual = || Options { synchronous: true, ..Options::default() };
        let mut list = vec![
            Subject::jit("jit", usual()),
            Subject::jit(
                "jit(later)",
                Options { synchronous: false, quiet: Duration::ZERO, ..usual() },
            ),
            Subject::jit("jit(opt=none)", Options { passes: opt::Options::none(), ..usual() }),
            Subject::jit("jit(decompose=no)", Options { decompose: false, ..usual() }),
            Subject::jit("jit(direct=no)", Options { direct_max: 0, ..usual() }),
            Subject::jit("jit(versions=one)", {
                let code = jit::Options { one_version: true, ..jit::Options::default() };
                Options { code, ..usual() }
            }),
        ];
        for template in Template::all() {
            // Without waiting for quiet, tables are rearranged in the midst of updates.
            let quiet = Duration::ZERO;
            let options = Options { template: Some(template), quiet, ..usual() };
            list.push(Subject::jit(&format!("jit(template={template})"), options));
        }
        list
    }
}

/// The body of the fuzz target. Of `data`, a byte chooses the engine, a byte the kind of program, and
/// eight are the seed of program, entries and updates; the rest is packets: port, length, bytes. They
/// come in after those of the seed, in one burst after the other. A length beyond the end means all
/// the rest.
///
/// # Panics
/// If engine and interpreter differ; with the case as a `.mill` file.
pub(crate) fn fuzz(data: &[u8]) {
    let [way, kind, rest @ ..] = data else { return };
    let Some((seed, mut rest)) = rest.split_at_checked(8) else { return };
    let subjects = Subject::compiled();
    let subject = &subjects[usize::from(*way) % subjects.len()];
    let kind = Kind::ALL[usize::from(*kind) % Kind::ALL.len()];
    let seed = seed.iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte));
    let mut case = Source::new(kind, seed).case(40);
    let mut packets = Vec::new();
    while let [in_port, length, tail @ ..] = rest {
        let (bytes, next) = tail.split_at(usize::from(*length).min(tail.len()));
        packets.push(Incoming { in_port: u32::from(*in_port), bytes: bytes.to_vec() });
        rest = next;
    }
    let bursts = packets.chunks(7).map(|p| Step::Burst { late: false, packets: p.to_vec() });
    case.steps.extend(bursts);
    let mut buffers = Buffers::default();
    if let Err(how) = run(&case, subject, &mut buffers) {
        let mut fails = |case: &Case| run(case, subject, &mut buffers).err();
        let (case, how) = shrink::shrink(&case, &how, Duration::from_secs(20), &mut fails);
        let head = format!("{} differs from the interpreter.", subject.name);
        panic!("{}", print::mill(&case, &how, &subject.name, &head));
    }
}
