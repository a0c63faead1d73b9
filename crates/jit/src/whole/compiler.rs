//! Makes code of a program and of its actions.

use super::code::{
    ActionCode, Actions, BlockCode, Code, HashCode, How, KeyCode, Made, Parts, WRITES_MAX, same,
    shape, widths,
};
use super::function::{Flow, Making, flags};
use super::layout::Layout;
use super::site::end;
use crate::compile::{Error, machines};
use crate::isa::{self, Settings};
use crate::memory;
use crate::value::{Base, store_be};
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::FunctionBuilderContext;
use ir::{Action, ActionId, Expr, FieldRef, HashAlgorithm, Key, Op, Program, Terminator};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

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

/// A key field: how many bytes it has; the word and its bits, or the number of a function.
struct Field(usize, Result<(usize, u64), usize>);

/// What is known of functions once they are made.
struct Numbered {
    parser: Option<usize>,
    blocks: Vec<Option<usize>>,
    keys: Vec<Vec<Field>>,
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
            let bytes = key.width.div_ceil(8) as i32;
            if let Expr::Field(FieldRef::Meta(id)) = key.expr
                && let (at, width) = layout.meta[id.index()]
                && (1..=64).contains(&width)
                && width == key.width
            {
                return Field(bytes as usize, Ok((at / 8, u64::MAX >> (64 - width))));
            }
            let number = making.function(&[], |g| {
                let value = g.value(&key.expr);
                let value = value.cast(&mut g.b, key.width).cast(&mut g.b, 8 * bytes as u32);
                let to = Base::new(g.args, flags());
                store_be(&mut g.b, to, 0, 0, 8 * bytes as u32, 0..bytes, &value);
                g.ret(end::NONE);
            });
            Field(bytes as usize, Err(number))
        };
        let keys = lists.iter().map(|list| list.iter().map(&mut key).collect()).collect();
        let numbered = Numbered { parser, blocks, keys, sums };
        let made = finish(making)?;
        let entry = |number: usize| made.entries[number].clone();
        let ends = program.blocks.iter().map(|block| block.end.clone());
        let blocks = numbered.blocks.iter().zip(ends);
        let blocks = blocks.map(|(n, end)| BlockCode { entry: n.map(entry), end }).collect();
        let key = |Field(bytes, how): &Field| {
            let how = how
                .map_or_else(|number| How::Code(entry(number)), |(at, bits)| How::Word(at, bits));
            KeyCode { bytes: *bytes, how }
        };
        let keys = numbered.keys.iter().map(|list| list.iter().map(key).collect());
        Ok(Code {
            parser: numbered.parser.map(entry),
            blocks: Arc::new(blocks),
            keys: Arc::new(keys.collect()),
            key_of: Arc::new(key_of),
            sums: numbered.sums.map(entry),
            actions: Actions::default(),
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
        let mut all = Actions::default();
        let mut packets = HashMap::default();
        let mut new = Vec::new();
        let mut make = |action: &Arc<Action>| {
            let body = &action.body;
            (!body.is_empty()).then(|| {
                making.function(&action.param_widths(), |g| {
                    g.clear_missed(body);
                    if g.ops(body) == Flow::On {
                        g.ret(end::NONE);
                    }
                })
            })
        };
        for (id, action) in actions {
            match code.actions.get(id) {
                Some(known) if same(&known.action, action) => all.insert(id, known.clone()),
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
            let words_of = |width: u32| (width as usize).div_ceil(64);
            let words = widths(&action).map(words_of).sum();
            let code = ActionCode { action, entry, idle, words, writes, _made: Some(made.clone()) };
            match id {
                Ok(id) => all.insert(id, code),
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
