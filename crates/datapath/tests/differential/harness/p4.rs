//! P4 programs as cases: all of `examples/p4` and `filetests/p4`, and of the folders and files in [`FOLDERS`] those
//! that compile.
//!
//! Entries are those that a program's packet test or text file adds, with arguments of other entries'
//! calls and now and then a pattern with another bit, and others for every table and action; packets are
//! those that a test sends, with other bytes, cut or longer, and others that follow the parser
//! ([`walk`](ir::testing::walk)). So many packets match something, and what matches changes.

use ir::testing::Rng;
use ir::testing::walk::{self, Pool};
use ir::{
    Band, Bits, Entry, EntryId, Meter, MeterId, Pattern, Pipeline, Program, Select, TableId,
    Update, ValueSetId,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};

/// Entries taken of a text file, at most.
const ENTRIES_MAX: usize = 40;

/// Folders and files of other people's programs; to be set before the first case.
pub(crate) static FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Groups, multicast trees and sessions that programs find, as far as they have any.
const GROUPS: &str = "\
mc_mgrp_create 1
mc_node_create 1 1 2 3
mc_node_associate 1 0
mc_mgrp_create 2
mc_node_create 2 2 4
mc_node_associate 2 1
mirroring_add 1 3
mirroring_add 2 4
mirroring_add_mc 5 1";

/// A program with what its packet test does.
struct Known {
    program: Arc<Program>,
    entries: Vec<(TableId, Arc<Entry>)>,
    /// Groups and value sets.
    groups: Vec<Update>,
    /// Members of value sets, by the sets.
    sets: Vec<Vec<Select>>,
    packets: Vec<(u32, Vec<u8>)>,
    pool: Pool,
}

/// A program's file, compiled when it is first asked for; nothing if it is not.
struct File(PathBuf, OnceLock<Option<Known>>);

impl File {
    fn known(&self) -> Option<&Known> {
        self.1.get_or_init(|| known(&self.0)).as_ref()
    }
}

static PROGRAMS: LazyLock<Vec<File>> = LazyLock::new(|| {
    let mut folders = ["examples/p4", "filetests/p4"].map(|f| project().join(f)).to_vec();
    folders.extend(FOLDERS.get().into_iter().flatten().cloned());
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in folders {
        if folder.is_file() {
            files.push(folder);
            continue;
        }
        let listed = std::fs::read_dir(&folder);
        let listed = listed.unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut list: Vec<PathBuf> = listed.flatten().map(|e| e.path()).collect();
        list.retain(|f| f.extension().is_some_and(|e| e == "p4"));
        list.sort();
        files.extend(list);
    }
    files.into_iter().map(|f| File(f, OnceLock::new())).collect()
});

/// How many programs there are, and how many of them compile.
pub(crate) fn programs() -> (usize, usize) {
    (PROGRAMS.len(), PROGRAMS.iter().filter(|f| f.known().is_some()).count())
}

/// The project's root: above whichever package this is built into.
fn project() -> &'static Path {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above.into_iter().find(|p| p.join("examples/p4").exists()).expect("the project's root")
}

fn known(path: &Path) -> Option<Known> {
    let text = String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned();
    let lowered = ::p4::with_stack(|| {
        let mut c = ::p4::front(&::p4::preprocess::Disk, &Default::default(), path, &text);
        if c.diagnostics.errors() > 0 {
            return None;
        }
        ::p4::lower::lower(&c.program, &mut c.diagnostics)
    });
    let ours = path.starts_with(project());
    assert!(lowered.is_some() || !ours, "{} is not compiled", path.display());
    let mut control = ::p4::control::Control::new(lowered?).expect("a good program");
    let mut recorder = ::p4::stf::Recorder::default();
    if let Some(test) = ::p4::stf::beside(path) {
        ::p4::stf::run(&test, &mut control, &mut recorder);
    } else if let Ok(entries) = std::fs::read_to_string(path.with_extension("txt")) {
        let some: Vec<&str> = entries.lines().take(ENTRIES_MAX).collect();
        ::p4::commands::run(&some.join("\n"), &mut control, &mut ::p4::commands::Blind);
    }
    ::p4::commands::run(GROUPS, &mut control, &mut ::p4::commands::Blind);
    let program = control.pipeline.program().clone();
    let mut pool = Pool::of(&program);
    let mut sets = vec![Vec::new(); program.value_sets.len()];
    let (mut entries, mut groups) = (Vec::new(), Vec::new());
    for update in control.pipeline.contents() {
        match update {
            Update::Insert(table, entry) => {
                entry.matches.iter().for_each(|m| pool.add_pattern(&m.pattern));
                entries.push((table, entry));
            }
            Update::SetValueSet(set, members) => {
                sets[set.index()].extend(members.iter().cloned());
                groups.push(Update::SetValueSet(set, members));
            }
            update @ Update::SetGroup(..) => groups.push(update),
            _ => {}
        }
    }
    // Sets that nothing fills in, too, have members now and then.
    for (members, set) in sets.iter_mut().zip(&program.value_sets) {
        let value = Bits::from_u128(1, set.width);
        members.push(Select::Masked(value, Bits::ones(set.width)));
    }
    Some(Known { program, entries, groups, sets, packets: recorder.packets, pool })
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
        loop {
            if let Some(known) = PROGRAMS[rng.below(PROGRAMS.len())].known() {
                return Programs { known, rng, first: 0 };
            }
        }
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
        let has_tables = !known.program.tables.is_empty();
        if known.entries.is_empty() || self.rng.one_in(2) {
            return match self.rng.below(12) {
                0 if !known.sets.is_empty() => self.value_set(),
                1 if self.rng.one_in(2) => self.meter(),
                1 if !known.groups.is_empty() => self.rng.pick(&known.groups),
                _ if has_tables => self.fresh(p),
                _ => Update::RemoveMeter(MeterId(0)),
            };
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

    /// Some of the members of a value set.
    fn value_set(&mut self) -> Update {
        let set = self.rng.below(self.known.sets.len());
        let some = self.known.sets[set].iter().filter(|_| !self.rng.one_in(3));
        let capacity = self.known.program.value_sets[set].capacity as usize;
        Update::SetValueSet(ValueSetId(set as u32), some.take(capacity).cloned().collect())
    }

    /// A meter of one band or two.
    fn meter(&mut self) -> Update {
        let band = |rng: &mut Rng, color| Band {
            rate: 1 + rng.below(1000) as u64,
            burst: rng.below(10) as u64,
            color,
            level: 0,
        };
        let bands = (1..=1 + self.rng.below(2) as u8).map(|color| band(&mut self.rng, color));
        let meter = Meter { packets: true, bands: bands.collect() };
        Update::SetMeter(MeterId(self.rng.below(8) as u32), Arc::new(meter))
    }

    /// Something new in any table: an entry, another action for one, none, another default.
    fn fresh(&mut self, p: &Pipeline) -> Update {
        let known = self.known;
        let table = self.rng.below(known.program.tables.len());
        let id = TableId(table as u32);
        let call = walk::call(p, id, &known.pool, &mut self.rng);
        let there = p.entries(id);
        if !there.is_empty() && self.rng.one_in(4) {
            let victim = there.iter().nth(self.rng.below(there.len())).expect("one of them");
            return match self.rng.one_in(2) {
                true => Update::Delete(id, victim.id),
                false => Update::Modify(id, Arc::new(Entry { action: call, ..(**victim).clone() })),
            };
        }
        if self.rng.one_in(12) {
            return Update::SetDefault(id, call);
        }
        let number = self.id();
        let entry = walk::entry(&known.program, id, number, call, &known.pool, &mut self.rng);
        Update::Insert(id, Arc::new(entry))
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
        let (known, packets) = (self.known, &self.known.packets);
        let (mut port, mut bytes) = if packets.is_empty() || self.rng.one_in(2) {
            let bytes = walk::packet(&known.program, &known.pool, &known.sets, &mut self.rng);
            (self.rng.below(5) as u32, bytes)
        } else {
            packets[self.rng.below(packets.len())].clone()
        };
        if self.rng.one_in(8) {
            port = self.rng.below(9) as u32;
        }
        for _ in 0..self.rng.below(6).saturating_sub(3) {
            if !bytes.is_empty() {
                let at = self.rng.below(bytes.len());
                bytes[at] ^= 1 << self.rng.below(8);
            }
        }
        match self.rng.below(12) {
            0 => bytes.truncate(self.rng.below(bytes.len() + 1)),
            1 => bytes.extend(vec![0x5a; self.rng.below(64)]),
            _ => {}
        }
        (port, bytes)
    }
}
