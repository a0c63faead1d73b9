//! A whole program as machine code: its parser, blocks, key fields, checksums, and the actions there are.
//!
//! None of it depends on entries: what a table holds is looked up, and arguments are handed over. So code is made
//! once for a program, and once for each action that comes later.

use super::function::{Making, Site};
use super::layout::Layout;
use crate::compile::{Error, machines};
use crate::isa::{self, Settings};
use crate::memory::{self, Entry};
use crate::value::{Base, store_be};
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::FunctionBuilderContext;
use foldhash::fast::FixedState;
use ir::{Action, ActionId, Expr, FieldRef, Group, HashAlgorithm, Key, Op, Program, Terminator};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Words of metadata that are kept while an action runs in place of a copy, at most.
pub(crate) const WRITES_MAX: usize = 8;

/// Functions that were made together, and what Rust does for them.
#[derive(Debug)]
struct Made {
    entries: Vec<Entry>,
    _sites: Vec<Arc<Site>>,
}

/// A block.
#[derive(Clone, Debug)]
pub(crate) struct BlockCode {
    /// Its operations; none if it has none, and decides nothing.
    pub(crate) entry: Option<Entry>,
    pub(crate) end: Terminator,
}

/// An action.
#[derive(Clone, Debug)]
pub(crate) struct ActionCode {
    action: Arc<Action>,
    /// None if it does nothing.
    pub(crate) entry: Option<Entry>,
    /// It does nothing, or ends the pass at once.
    pub(crate) idle: bool,
    /// It changes nothing of the packet but these words of metadata; none if it changes more.
    pub(crate) writes: Option<SmallVec<[Range<usize>; 2]>>,
    _made: Option<Arc<Made>>,
}

/// A hash that groups choose by.
#[derive(Clone, Debug)]
struct HashCode {
    inputs: Arc<[Expr]>,
    entry: Entry,
}

/// What code of a program is made of beside it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// Actions that packets of the control side's begin with.
    pub injected: &'a [Arc<Action>],
    /// Inputs of the hashes that groups choose by.
    pub hashes: &'a [Arc<[Expr]>],
}

/// A whole program as machine code. Shared between threads, never changed.
#[derive(Clone, Debug)]
pub struct Code {
    pub(crate) layout: Arc<Layout>,
    pub(crate) parser: Option<Entry>,
    pub(crate) blocks: Arc<Vec<BlockCode>>,
    /// Lists of key fields, each field as a function that writes it.
    pub(crate) keys: Arc<Vec<Vec<Entry>>>,
    /// By table, which of the lists it has.
    pub(crate) key_of: Arc<Vec<usize>>,
    pub(crate) sums: Option<Entry>,
    pub(crate) actions: HashMap<ActionId, ActionCode, FixedState>,
    /// Actions that the control side's packets begin with, by what they do.
    injected: HashMap<u64, ActionCode, FixedState>,
    /// Inputs of groups' hashes, by where they lie in memory, as functions that work the hash out. They are
    /// kept, so that nothing else comes to lie there.
    hashes: HashMap<usize, HashCode, FixedState>,
    _made: Arc<Made>,
    compile_time: Duration,
}

/// What makes code.
pub struct Compiler {
    isa: OwnedTargetIsa,
    frontend: FunctionBuilderContext,
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compiler")
    }
}

impl Compiler {
    /// For the machine that this runs on.
    pub fn new(settings: Settings) -> Result<Compiler, Error> {
        Ok(Compiler { isa: isa::host(settings)?, frontend: FunctionBuilderContext::new() })
    }
}

/// What is known of functions once they are made.
struct Numbered {
    parser: Option<usize>,
    blocks: Vec<Option<usize>>,
    keys: Vec<Vec<usize>>,
    sums: Option<usize>,
}

impl Compiler {
    fn making<'m>(&'m mut self, layout: &'m Layout) -> Making<'m> {
        Making {
            layout,
            isa: &*self.isa,
            frontend: &mut self.frontend,
            sites: Vec::new(),
            bodies: Vec::new(),
            made: Vec::new(),
            functions: 0,
            failed: None,
        }
    }

    /// Makes a program's code, without actions.
    pub fn program(&mut self, program: &Arc<Program>) -> Result<Code, Error> {
        let begun = Instant::now();
        let layout = Arc::new(Layout::new(program));
        let mut making = self.making(&layout);
        let parser = (!program.parser.is_empty()).then(|| making.function(&[], |g| g.states()));
        let block = |block: &ir::Block| {
            let decides = matches!(block.end, Terminator::If { .. });
            let idle = block.ops.is_empty() && !decides;
            (!idle).then(|| making.function(&[], |g| g.block_of(&block.ops, &block.end)))
        };
        let blocks = program.blocks.iter().map(block).collect();
        let sums = (!program.checksums.is_empty()).then(|| making.function(&[], |g| g.checksums()));
        // Tables share lists of key fields.
        let mut lists: Vec<&Arc<[Key]>> = Vec::new();
        let mut key_of = Vec::new();
        for table in &program.tables {
            let at = lists.iter().position(|list| Arc::ptr_eq(list, &table.key));
            key_of.push(at.unwrap_or(lists.len()));
            if at.is_none() {
                lists.push(&table.key);
            }
        }
        let mut key = |key: &Key| {
            making.function(&[], |g| {
                let value = g.value(&key.expr);
                let bytes = key.width.div_ceil(8) as i32;
                let value = value.cast(&mut g.b, key.width).cast(&mut g.b, 8 * bytes as u32);
                let to = Base::new(g.args, super::function::flags());
                store_be(&mut g.b, to, 0, 0, 8 * bytes as u32, 0..bytes, &value);
                g.ret(super::function::end::NONE);
            })
        };
        let keys = lists.iter().map(|list| list.iter().map(&mut key).collect()).collect();
        let numbered = Numbered { parser, blocks, keys, sums };
        let made = finish(making)?;
        let entry = |number: usize| made.entries[number].clone();
        let ends = program.blocks.iter().map(|block| block.end.clone());
        let blocks = numbered.blocks.iter().zip(ends);
        let blocks = blocks.map(|(n, end)| BlockCode { entry: n.map(entry), end }).collect();
        let keys = numbered.keys.iter().map(|list| list.iter().map(|n| entry(*n)).collect());
        Ok(Code {
            parser: numbered.parser.map(entry),
            blocks: Arc::new(blocks),
            keys: Arc::new(keys.collect()),
            key_of: Arc::new(key_of),
            sums: numbered.sums.map(entry),
            actions: HashMap::default(),
            injected: HashMap::default(),
            hashes: HashMap::default(),
            _made: Arc::new(made),
            compile_time: begun.elapsed(),
            layout,
        })
    }

    /// Makes code of these actions and of these parts, and lets all others go.
    pub fn actions<'a>(
        &mut self,
        code: &Code,
        actions: impl Iterator<Item = (ActionId, &'a Arc<Action>)>,
        parts: Parts<'_>,
    ) -> Result<Code, Error> {
        let begun = Instant::now();
        let layout = code.layout.clone();
        let mut making = self.making(&layout);
        let mut all = HashMap::default();
        let mut packets = HashMap::default();
        let mut new = Vec::new();
        let mut make = |action: &Arc<Action>| {
            let body = &action.body;
            (!body.is_empty()).then(|| {
                making.function(&action.param_widths(), |g| {
                    g.clear_missed(body);
                    if g.ops(body) == super::function::Flow::On {
                        g.ret(super::function::end::NONE);
                    }
                })
            })
        };
        for (id, action) in actions {
            match code.actions.get(&id) {
                Some(known) if same(&known.action, action) => drop(all.insert(id, known.clone())),
                _ => new.push((Ok(id), action.clone(), make(action))),
            }
        }
        for action in parts.injected {
            match code.injected(action) {
                Some(known) => drop(packets.insert(shape(action), known.clone())),
                None => new.push((Err(shape(action)), action.clone(), make(action))),
            }
        }
        let (mut hashes, mut new_hashes) = (HashMap::default(), Vec::new());
        for inputs in parts.hashes {
            match code.hashes.values().find(|known| known.inputs == *inputs) {
                Some(HashCode { entry, .. }) => {
                    let (inputs, entry) = (inputs.clone(), entry.clone());
                    hashes.insert(inputs.as_ptr() as usize, HashCode { inputs, entry });
                }
                None => {
                    let known = new_hashes.iter().find(|(_, other)| *other == inputs);
                    let number = known.map(|(number, _)| *number).unwrap_or_else(|| {
                        let hash = Expr::Hash {
                            algorithm: HashAlgorithm::Crc32c,
                            width: 32,
                            inputs: inputs.to_vec(),
                        };
                        making.function(&[], |g| {
                            let value = g.value(&hash).to_i64_low(&mut g.b);
                            g.b.ins().return_(&[value]);
                        })
                    });
                    new_hashes.push((number, inputs));
                }
            }
        }
        let made = Arc::new(finish(making)?);
        for (number, inputs) in new_hashes {
            let (inputs, entry) = (inputs.clone(), made.entries[number].clone());
            hashes.insert(inputs.as_ptr() as usize, HashCode { inputs, entry });
        }
        for (id, action, number) in new {
            let entry = number.map(|number| made.entries[number].clone());
            let idle = action.body.iter().all(|op| matches!(op, Op::Exit));
            let mut words = SmallVec::new();
            let writes = writes(&layout, &action.body, &mut words).then_some(words);
            let code = ActionCode { action, entry, idle, writes, _made: Some(made.clone()) };
            match id {
                Ok(id) => drop(all.insert(id, code)),
                Err(shape) => drop(packets.insert(shape, code)),
            }
        }
        Ok(Code {
            actions: all,
            injected: packets,
            hashes,
            compile_time: begun.elapsed(),
            ..code.clone()
        })
    }
}

/// Compiles what was generated.
fn finish(making: Making<'_>) -> Result<Made, Error> {
    let Making { isa, sites, made, failed, .. } = making;
    if let Some(why) = failed {
        return Err(Error::Whole(why));
    }
    let machines: Vec<_> = machines(isa, made, false)?.into_iter().map(|(m, _)| m).collect();
    let entries = memory::publish_many(&machines)?;
    for site in &sites {
        if let Some(entry) = site.body.and_then(|body| entries.get(body)) {
            let _ = site.entry.set(entry.clone());
        }
    }
    Ok(Made { entries, _sites: sites })
}

impl Code {
    /// The program that it is of.
    pub fn program(&self) -> &Arc<Program> {
        &self.layout.program
    }

    /// This action, as it is, is no part of it.
    pub fn lacks(&self, id: ActionId, action: &Arc<Action>) -> bool {
        self.actions.get(&id).is_none_or(|known| !same(&known.action, action))
    }

    /// Code of an action that a packet of the control side's begins with, if it does the same as one that there is
    /// code for; its name does not matter.
    pub(crate) fn injected(&self, action: &Action) -> Option<&ActionCode> {
        let known = self.injected.get(&shape(action))?;
        let same = known.action.body == action.body && widths(&known.action).eq(widths(action));
        same.then_some(known)
    }

    /// Packets of the control side's that begin with this action run by this code.
    pub fn injects(&self, action: &Action) -> bool {
        self.injected(action).is_some()
    }

    /// Code of a group's hash.
    pub(crate) fn group_hash(&self, group: &Group) -> Option<&Entry> {
        self.hashes.get(&(group.hash.as_ptr() as usize)).map(|known| &known.entry)
    }

    /// The hash over these inputs is worked out by code.
    pub fn hashes(&self, inputs: &Arc<[Expr]>) -> bool {
        self.hashes.contains_key(&(inputs.as_ptr() as usize))
    }

    /// How long the last step of making it took.
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }

    /// Words that a packet's values take.
    pub fn words(&self) -> usize {
        self.layout.words
    }

    /// Bytes of machine code, of the program and of its actions.
    pub fn code_bytes(&self) -> (usize, usize) {
        let of = |entries: &[Entry]| entries.iter().map(|e| e.bytes().len()).sum();
        let actions = self.actions.values().filter_map(|a| a.entry.as_ref());
        (of(&self._made.entries), actions.map(|e| e.bytes().len()).sum())
    }
}

fn widths(action: &Action) -> impl Iterator<Item = u32> {
    action.params.iter().map(|param| param.width)
}

/// A number for what an action does.
fn shape(action: &Action) -> u64 {
    let widths: SmallVec<[u32; 8]> = widths(action).collect();
    FixedState::default().hash_one((&widths[..], &action.body))
}

/// These operations change nothing of the packet but metadata that no checksum looks at, whose words are listed.
fn writes(layout: &Layout, ops: &[Op], words: &mut SmallVec<[Range<usize>; 2]>) -> bool {
    ops.iter().all(|op| match op {
        Op::Output { .. } | Op::Punt { .. } | Op::Digest { .. } | Op::Count { .. } => true,
        Op::Drop(_) | Op::Exit => true,
        Op::If { then, or_else, .. } => {
            writes(layout, then, words) && writes(layout, or_else, words)
        }
        Op::Assign(FieldRef::Meta(id), _) if !layout.checksum_meta[id.index()] => {
            let (at, width) = layout.meta[id.index()];
            let range = at / 8..at / 8 + (width as usize).div_ceil(64);
            if !words.contains(&range) {
                words.push(range);
            }
            // To keep many costs more than a copy of the packet.
            words.iter().map(Range::len).sum::<usize>() <= WRITES_MAX
        }
        _ => false,
    })
}

fn same(a: &Arc<Action>, b: &Arc<Action>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}
