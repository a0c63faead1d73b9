//! Rewrites of a program by what its entries show.
//!
//! In: a program and [`Contents`], a summary of what its tables hold. Out: an [`Optimised`] program
//! that does the same to every packet as long as the contents stay within that summary, and does
//! less: the parser stops early, dead tables, actions, checksums and tests are gone. The same:
//! verdict, copies (port, queue, bytes), punts, digests, counters. Packets that the control plane
//! injects run their action on the program as it was.
//!
//! | module | holds |
//! |---|---|
//! | [`optimise`] | the list of passes |
//! | [`contents()`] | the summary of a pipeline |
//! | `specialise` | first: what packets can reach, and all that follows from known bits |
//! | `thread_jumps`, `merge_blocks`, `drop_unreachable` | fewer, longer blocks |
//! | `calls`, `copies` | in front of all: what is called as a copy of blocks that lead back; what copies share |
//! | [`unroll`], [`residual`] | what follows a service as a copy of the pipeline; what is left of tables there |
//! | `drop_checksums`, `drop_dead_writes`, `cut_parser` | what nobody looks at |
//! | `join_slices` | fields written whole |
//! | `known`, `state`, `simplify` | known bits; facts at a place; expressions under facts |
//! | `uses`, `set`, `mark` | what live code reads and writes; sets; operations that must not go |
//!
//! Invariants: what comes out obeys the verifier (but that copies of tables name default actions of the pipeline, not the
//! copies of these, which are what they do); ids stay, dead things are emptied. A lookup is
//! never removed, since tables count them.
//! Cost: proportional to the live part of the program, but for one copy of its declarations.
//! Checked by: `tests/oracle.rs`, random pipelines and packets before and after every pass;
//! `tests/openflow.rs`, the same for OpenFlow, and what is left of whole use cases.

mod calls;
mod contents;
mod copies;
mod cut_parser;
mod drop_checksums;
mod drop_dead_writes;
mod drop_unreachable;
mod join_slices;
pub mod known;
mod mark;
mod merge_blocks;
pub mod residual;
mod set;
mod simplify;
mod specialise;
mod state;
mod thread_jumps;
pub mod unroll;
mod uses;
mod work;

pub use contents::{Buckets, Contents, TableContents, contents};
pub use residual::{Residual, Thinned, View};
pub use work::{Bail, LiveTable, Note, Options};

use residual::Part;
use work::Work;

use ir::{Action, ActionId, Entry, Op, Program, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A program that was rewritten. Ids are those of the input: what is dead is emptied, not renumbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Optimised {
    /// The program.
    pub program: Program,
    /// Live actions, rewritten.
    pub actions: BTreeMap<ActionId, Arc<Action>>,
    /// By table; `None` for one that no live block applies.
    pub tables: Vec<Option<LiveTable>>,
    /// What is left of tables in copies of the pipeline.
    pub residuals: Vec<Residual>,
    /// Tables in copies of the pipeline whose actions cannot all run there, or of whose key less matters there.
    pub thinned: Vec<Thinned>,
    /// What the passes did, in their order.
    pub notes: Vec<Note>,
}

/// Entries of tables, best first; of those that are not to be narrowed, none.
pub type Entries = BTreeMap<TableId, Vec<Arc<Entry>>>;

/// Rewrites a program for what its tables hold.
pub fn optimise(program: &Program, contents: &Contents, options: &Options) -> Optimised {
    optimise_with(program, contents, options, None)
}

/// The same; with entries, what follows a service may be laid out as copies of the pipeline, with what is left of
/// tables there. Ids of tables and actions in copies are those that [`unroll`] says.
pub fn optimise_with(
    program: &Program,
    contents: &Contents,
    options: &Options,
    entries: Option<&Entries>,
) -> Optimised {
    if !options.reach || calls(program, contents, options.bail) {
        return as_it_was(program, contents);
    }
    // Copies are either for calls or for what follows services.
    let unrolls = options.unroll && unroll::may(program, contents);
    if options.calls
        && options.bail.calls
        && !unrolls
        && let Some((laid, held)) = calls::lay_out(program, contents)
    {
        let copies = laid.tables.len() / program.tables.len().max(1) - 1;
        let mut work = specialise::specialise(&laid, &held, options);
        work.note("calls", format!("{copies} calls laid out"));
        return passes(work, options);
    }
    // A packet may go on from the last copy: then more of them serve, up to a bound.
    let mut copies = 2;
    let mut changed = BTreeSet::new();
    while let Some(entries) = entries
        && options.unroll
        && options.bail.passes
    {
        let Some((unrolled, held)) = unroll::unroll(program, contents, copies, &changed) else {
            break;
        };
        let narrow = specialise::Narrow { entries, tables: program.tables.len() };
        let mut parts = specialise::parts(&unrolled, &held, options, &narrow);
        let narrowed = residual::narrowed(held.clone(), &parts);
        let mut work = specialise::specialise(&unrolled, &narrowed, options);
        // Where nothing tells the copies apart, packets go on from any.
        let apart = parts.iter().any(Part::tells_apart);
        let goes_on = apart && unroll::goes_on(work.actions.iter(), copies);
        if goes_on && copies < unroll::COPIES_MAX {
            copies = (2 * copies).min(unroll::COPIES_MAX);
            continue;
        }
        if !options.narrow {
            // As many copies as packets take, each with whole tables.
            parts.clear();
            work = specialise::specialise(&unrolled, &held, options);
        }
        // Where packets may have been changed in front of a service that only looks, they are parsed again. What is
        // known behind it is then less, so that more may be found.
        let found = unroll::changed(&work.program, &work.actions, &work.tables, copies);
        if !found.is_subset(&changed) {
            changed.extend(found);
            continue;
        }
        let (mut residuals, mut thinned) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Part::Left(residual) => residuals.push(residual),
                Part::Thinned(one) => thinned.push(one),
            }
        }
        let left: usize = residuals.iter().map(|residual| residual.left.len()).sum();
        work.note(
            "unroll",
            format!(
                "{copies} copies, {} tables narrowed to {left} entries, {} with fewer actions or fields",
                residuals.len(),
                thinned.len()
            ),
        );
        return Optimised { residuals, thinned, ..passes(work, options) };
    }
    // What packets can reach, and what is known of them there. First, since all else then looks at
    // the live part only; and once, since blocks only lead to later ones.
    passes(specialise::specialise(program, contents, options), options)
}

/// The passes behind the first.
fn passes(mut work: Work<'_>, options: &Options) -> Optimised {
    // Tests that were decided leave blocks that only jump.
    if options.thread_jumps {
        thread_jumps::thread_jumps(&mut work);
    }
    // Then those blocks have lost all that led to them, and others all but one.
    drop_unreachable::drop_unreachable(&mut work);
    if options.merge_blocks {
        merge_blocks::merge_blocks(&mut work);
    }
    // By now every operation left may run. A checksum reads many fields and metadata, so the idle
    // ones go before anybody asks who reads what.
    if options.drop_checksums {
        drop_checksums::drop_checksums(&mut work);
    }
    // A write of a slice reads the rest of its field, so that none in front of it would be dead.
    if options.join_slices {
        join_slices::join_slices(&mut work);
    }
    // What nobody reads need not be written, and what then is not read need not be there.
    if options.drop_dead_writes {
        drop_dead_writes::drop_dead_writes(&mut work);
    }
    // Last, since it serves what all others left.
    if options.cut_parser {
        cut_parser::cut_parser(&mut work);
    }
    finish(work)
}

/// Something is called, or done on a copy in place that leads elsewhere, and not given up.
fn calls(program: &Program, contents: &Contents, bail: Bail) -> bool {
    let leads = |op: &Op| {
        let kind = matches!(
            op,
            Op::Clone { .. }
                | Op::Call { .. }
                | Op::Reparse
                | Op::Resubmit { .. }
                | Op::Recirculate { .. }
        ) || matches!(op, Op::Service { .. }) && !bail.copied_services;
        let unknown = matches!(op, Op::Group { .. }) && contents.buckets.is_none();
        (kind || unknown) && !bail.at(op)
    };
    let blocks = program.blocks.iter().map(|b| &b.ops);
    let actions = program.actions.iter().chain(contents.actions.values()).map(|a| &a.body);
    let mut found = false;
    for ops in blocks.chain(actions) {
        let mut at = |op: &Op| match op {
            Op::Call { .. } => found |= !bail.calls,
            Op::OnCopy { body } if !bail.copies => {
                body.iter().for_each(|op| op.visit(&mut |op| found |= leads(op)));
            }
            _ => {}
        };
        ops.iter().for_each(|op| op.visit(&mut at));
    }
    found
}

/// No pass: everything lives.
fn as_it_was(program: &Program, contents: &Contents) -> Optimised {
    let live = |t: &TableContents| Some(live_table(t));
    Optimised {
        program: program.clone(),
        actions: contents.actions.clone(),
        tables: contents.tables.iter().map(live).collect(),
        residuals: Vec::new(),
        thinned: Vec::new(),
        notes: Vec::new(),
    }
}

pub(crate) fn live_table(t: &TableContents) -> LiveTable {
    let mut actions = t.actions.clone();
    if let Err(at) = actions.binary_search(&t.default.action) {
        actions.insert(at, t.default.action);
    }
    LiveTable { columns: t.columns.clone(), actions }
}

fn finish(work: Work<'_>) -> Optimised {
    let Work { mut program, actions, tables, notes, .. } = work;
    for (i, own) in program.actions.iter_mut().enumerate() {
        match actions.get(&ActionId(i as u32)) {
            Some(live) => *own = live.clone(),
            None if own.body.is_empty() => {}
            None => {
                let (name, params) = (own.name.clone(), own.params.clone());
                *own = Arc::new(Action { name, params, body: Vec::new() });
            }
        }
    }
    Optimised { program, actions, tables, residuals: Vec::new(), thinned: Vec::new(), notes }
}
