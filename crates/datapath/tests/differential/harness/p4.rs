//! P4 programs as cases: all of `examples/p4` and `filetests/p4`, with entries and packets near those that
//! their packet tests have. A program without a packet test has the entries of its text file, if there is
//! one, and gets packets of all the others.
//!
//! Entries are those that a test adds, with arguments of other entries' calls and now and then a pattern
//! with another bit; packets are those that a test sends, with other bytes, cut or longer. So most packets
//! match something, and what matches changes.

use ir::testing::Rng;
use ir::text::filetest::{Engine, Injected, Outcome, Parsing};
use ir::{
    Bits, DropReason, Entry, EntryId, Pattern, Pipeline, Program, RegisterId, TableId, Update,
    Verdict,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// Entries taken of a text file, at most.
const ENTRIES_MAX: usize = 40;

/// A program with what its packet test does.
struct Known {
    program: Arc<Program>,
    entries: Vec<(TableId, Arc<Entry>)>,
    /// Groups and value sets.
    groups: Vec<Update>,
    packets: Vec<(u32, Vec<u8>)>,
}

static PROGRAMS: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in ["examples/p4", "filetests/p4"] {
        let listed = std::fs::read_dir(project().join(folder)).expect("the project's folder");
        files.extend(listed.flatten().map(|e| e.path()));
    }
    files.retain(|f| f.extension().is_some_and(|e| e == "p4"));
    files.sort();
    files.iter().map(|f| known(f)).collect()
});

/// The project's root: above whichever package this is built into.
fn project() -> &'static Path {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above.into_iter().find(|p| p.join("examples/p4").exists()).expect("the project's root")
}

/// Takes down what a packet test does; nothing ever leaves.
#[derive(Default)]
struct Recorder {
    packets: Vec<(u32, Vec<u8>)>,
}

impl Engine for Recorder {
    fn load(&mut self, _: &Pipeline) {}

    fn update(&mut self, _: &[Update], _: &Pipeline) {}

    fn packet(&mut self, packet: &Injected<'_>) -> Outcome {
        self.packets.push((packet.in_port, packet.bytes.to_vec()));
        let verdict = Verdict::Drop(DropReason::NoOutput);
        Outcome { events: Vec::new(), verdict, trace: Vec::new() }
    }

    fn parse(&mut self, _: &[u8]) -> Option<Parsing> {
        None
    }

    fn set_register(&mut self, _: RegisterId, _: u32, _: &Bits) {}

    fn register(&mut self, _: RegisterId, _: u32) -> Option<Bits> {
        None
    }

    fn set_port(&mut self, _: u32, _: bool) {}

    fn stats(&mut self, _: &str) -> Option<String> {
        None
    }
}

fn known(path: &Path) -> Known {
    let text = std::fs::read_to_string(path).expect("a program");
    let lowered = ::p4::with_stack(|| {
        let mut c = ::p4::front(&::p4::preprocess::Disk, &Default::default(), path, &text);
        ::p4::lower::lower(&c.program, &mut c.diagnostics)
    });
    let lowered = lowered.unwrap_or_else(|| panic!("{} is not compiled", path.display()));
    let mut control = ::p4::control::Control::new(lowered).expect("a good program");
    let mut recorder = Recorder::default();
    if let Ok(test) = std::fs::read_to_string(path.with_extension("stf")) {
        ::p4::stf::run(&test, &mut control, &mut recorder);
    } else if let Ok(entries) = std::fs::read_to_string(path.with_extension("txt")) {
        let some: Vec<&str> = entries.lines().take(ENTRIES_MAX).collect();
        ::p4::commands::run(&some.join("\n"), &mut control, &mut ::p4::commands::Blind);
    }
    let (mut entries, mut groups) = (Vec::new(), Vec::new());
    for update in control.pipeline.contents() {
        match update {
            Update::Insert(table, entry) => entries.push((table, entry)),
            update @ (Update::SetGroup(..) | Update::SetValueSet(..)) => groups.push(update),
            _ => {}
        }
    }
    let program = control.pipeline.program().clone();
    Known { program, entries, groups, packets: recorder.packets }
}

/// Updates and packets of one program.
pub(crate) struct Programs {
    known: &'static Known,
    rng: Rng,
    /// Entries and groups of the test that are still to be put in first.
    first: usize,
}

impl Programs {
    pub(crate) fn new(seed: u64) -> Programs {
        let mut rng = Rng::new(seed ^ 0x9416);
        let known = &PROGRAMS[rng.below(PROGRAMS.len())];
        Programs { known, rng, first: 0 }
    }

    pub(crate) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    pub(crate) fn program(&self) -> Arc<Program> {
        self.known.program.clone()
    }

    fn id(&mut self) -> EntryId {
        EntryId(1000 + self.rng.below(3000) as u32)
    }

    /// An update that the pipeline may refuse.
    pub(crate) fn update(&mut self, p: &Pipeline) -> Update {
        let known = self.known;
        let at = self.first;
        self.first += 1;
        if let Some(group) = known.groups.get(at) {
            return group.clone();
        }
        if let Some((table, entry)) = known.entries.get(at - known.groups.len()) {
            return Update::Insert(*table, entry.clone());
        }
        if known.entries.is_empty() {
            return Update::Clear(TableId(0));
        }
        let (table, entry) = &known.entries[self.rng.below(known.entries.len())];
        let there: Vec<&Arc<Entry>> = p.entries(*table).iter().collect();
        let victim = (!there.is_empty()).then(|| there[self.rng.below(there.len())].clone());
        let mut call = entry.action.clone();
        for arg in &mut call.args {
            if self.rng.one_in(4) {
                *arg = self.rng.bits(arg.width());
            }
        }
        match (self.rng.below(10), victim) {
            (0..=2, Some(victim)) => Update::Delete(*table, victim.id),
            (3..=4, Some(victim)) => {
                Update::Modify(*table, Arc::new(Entry { action: call, ..(*victim).clone() }))
            }
            (5, _) => Update::SetDefault(*table, call),
            _ => {
                let mut matches = entry.matches.clone();
                if !matches.is_empty() && self.rng.one_in(2) {
                    let m = self.rng.below(matches.len());
                    matches[m].pattern = self.other(&matches[m].pattern);
                }
                let priority = entry.priority + self.rng.below(3) as i32;
                let id = self.id();
                Update::Insert(
                    *table,
                    Arc::new(Entry { id, matches, priority, action: call, ..(**entry).clone() }),
                )
            }
        }
    }

    /// The same kind of pattern with a bit turned that it looks at.
    fn other(&mut self, pattern: &Pattern) -> Pattern {
        let mut turned = |v: &Bits, least: u32| {
            let at = least + self.rng.below((v.width() - least).max(1) as usize) as u32;
            v.xor(&Bits::from_u128(1, v.width()).shl(at.min(v.width() - 1)))
        };
        match pattern {
            Pattern::Exact(v) => Pattern::Exact(turned(v, 0)),
            Pattern::Prefix(v, len) if *len > 0 => {
                Pattern::Prefix(turned(v, v.width() - len), *len)
            }
            Pattern::Masked(v, mask) => Pattern::Masked(turned(v, 0).and(mask), mask.clone()),
            other => other.clone(),
        }
    }

    pub(crate) fn packet(&mut self) -> (u32, Vec<u8>) {
        let mut packets = &self.known.packets;
        if packets.is_empty() {
            packets = &PROGRAMS[self.rng.below(PROGRAMS.len())].packets;
        }
        let Some(n) = packets.len().checked_sub(1) else { return (1, vec![0; 60]) };
        let (mut port, mut bytes) = packets[self.rng.below(n + 1)].clone();
        if self.rng.one_in(8) {
            port = packets[self.rng.below(n + 1)].0;
        }
        for _ in 0..self.rng.below(3) {
            if !bytes.is_empty() {
                let at = self.rng.below(bytes.len());
                bytes[at] ^= 1 << self.rng.below(8);
            }
        }
        match self.rng.below(8) {
            0 => bytes.truncate(self.rng.below(bytes.len() + 1)),
            1 => bytes.extend(vec![0x5a; self.rng.below(64)]),
            _ => {}
        }
        (port, bytes)
    }
}
