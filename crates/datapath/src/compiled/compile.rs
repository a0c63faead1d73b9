//! From a program and what its tables hold to code.

use super::code::Code;
use crate::records::RETIRED;
use crate::tally::{Reason, Tally};
use ir::{ActionCall, ActionId, Expr, Op, Program, TableId, Terminator};
use jit::{NodeSpec, Unit};
use opt::Contents;
use opt::unroll::{copied_action, original_table};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

/// The numbers to count bail-outs under, those of the code's own.
fn reasons(compiled: &jit::Compiled, tally: &Tally) -> Box<[Reason]> {
    let own: HashSet<&str> = compiled.leaves().iter().map(|text| &**text).collect();
    let number = |text: &Arc<str>| match own.contains(&**text) {
        true => tally.reason(text),
        false => Reason::OTHER,
    };
    compiled.bails().iter().map(number).collect()
}

/// What one table is to the code generator.
pub(super) struct TableFacts {
    pub(super) columns: Vec<u16>,
    pub(super) variants: Vec<ActionId>,
    pub(super) stride: u32,
    pub(super) direct: Option<Vec<jit::DirectEntry>>,
}

/// All that compiling needs; nothing of it changes meanwhile.
pub(super) struct Input {
    pub(super) program: Arc<Program>,
    pub(super) contents: Contents,
    pub(super) tables: Vec<TableFacts>,
    /// By number: actions of groups' buckets, and inputs of their hashes.
    pub(super) buckets: Vec<ActionId>,
    pub(super) hashes: Vec<Option<Arc<[Expr]>>>,
    /// Those of tables of which little may be left in a copy of the pipeline.
    pub(super) entries: opt::Entries,
    /// Tables for which it is left out, since they change often.
    pub(super) restless: Vec<TableId>,
    pub(super) changes: Vec<u64>,
    pub(super) epoch: u64,
    pub(super) passes: opt::Options,
    pub(super) options: jit::Options,
    pub(super) tally: Arc<Tally>,
}

impl Input {
    pub(super) fn compile(self, cache: &mut jit::Cache) -> Result<Code, jit::Error> {
        let start = Instant::now();
        let entries = Some(&self.entries);
        let optimised = opt::optimise_with(&self.program, &self.contents, &self.passes, entries);
        let tables = self.program.tables.len();
        let (mut nodes, mut views) = (Vec::new(), Vec::new());
        for (block, at) in optimised.program.blocks.iter().zip(0..) {
            let Terminator::Apply { table: applied, .. } = &block.end else { continue };
            let table = original_table(*applied, tables);
            let facts = &self.tables[table.index()];
            let own = |id: ActionId| match id {
                RETIRED => RETIRED,
                id => copied_action(id, *applied, tables),
            };
            let call = |call: &ActionCall| ActionCall {
                action: own(call.action),
                args: call.args.clone(),
            };
            let left = |e: &opt::residual::Left| jit::DirectEntry {
                entry: e.entry,
                matches: e.matches.clone(),
                call: call(&e.call),
            };
            let narrowed = optimised.residuals.iter().find(|r| r.applied == *applied);
            let thinned = optimised.thinned.iter().find(|t| t.applied == *applied);
            // What cannot run there is not in the code: whoever meets it after all leaves.
            let missed = self.contents.tables[table.index()].default.action;
            let runs =
                |id: &ActionId| *id == missed || thinned.is_none_or(|t| t.actions.contains(id));
            let variant = |id: &ActionId| if runs(id) { own(*id) } else { RETIRED };
            let direct = |e: &jit::DirectEntry| {
                let matches = match thinned {
                    Some(thinned) => thinned.view.rest(&e.matches)?,
                    None => e.matches.clone(),
                };
                Some(jit::DirectEntry { entry: e.entry, matches, call: call(&e.call) })
            };
            let own_index = narrowed.is_none() && facts.direct.is_none();
            let view = thinned.map(|t| &t.view).filter(|v| own_index && v.columns != facts.columns);
            views.push(view.cloned());
            nodes.push(NodeSpec {
                block: ir::BlockId(at),
                table,
                applied: *applied,
                columns: view.map_or(&facts.columns, |view| &view.columns).clone(),
                actions: facts.variants.iter().map(variant).collect(),
                record_words: facts.stride,
                direct: match narrowed {
                    Some(residual) => Some(residual.left.iter().map(left).collect()),
                    None => facts.direct.as_ref().map(|all| {
                        all.iter().filter(|e| runs(&e.call.action)).filter_map(direct).collect()
                    }),
                },
                default: call(&self.contents.tables[table.index()].default),
                leader: None,
            });
        }
        jit::pair_twins(&optimised.program, &mut nodes);
        let value_sets = self.contents.value_sets.clone();
        let (buckets, hashes) = (self.buckets, self.hashes);
        let unit = Unit { program: Arc::new(optimised), nodes, value_sets, buckets, hashes };
        let compiled = jit::compile(&unit, cache, &self.options)?;
        let live = &unit.program;
        let bodies = live.actions.values().map(|action| &action.body);
        let groups = live.program.blocks.iter().map(|block| &block.ops).chain(bodies).any(|ops| {
            let mut found = false;
            ops.iter().for_each(|op| op.visit(&mut |op| found |= matches!(op, Op::Group { .. })));
            found
        });
        Ok(Code {
            unit,
            reasons: reasons(&compiled, &self.tally),
            compiled,
            contents: self.contents,
            changes: self.changes,
            epoch: self.epoch,
            restless: self.restless,
            groups,
            views,
            compile_time: start.elapsed(),
        })
    }
}
