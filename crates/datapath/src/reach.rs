//! Which tables packets may come to, by whatever runs them.
//!
//! The optimiser knows more, but of what code is made of: what lies behind something that code leaves is dead to it.
//! Here calls, clones, groups and second passes lead on. Conditions are not looked at, so a table that is said to be
//! reached may not be; one that is not, never is.
//!
//! Cost: each block and action that is reached, once. For the control side.
//! Checked by: the tests here.

use ir::{ActionId, Op, Program, Terminator};
use opt::Contents;
use std::collections::BTreeSet;

/// By table: some packet may come to it.
pub(crate) fn tables(program: &Program, contents: &Contents) -> Vec<bool> {
    let mut reach = Reach {
        program,
        contents,
        blocks: vec![false; program.blocks.len()],
        tables: vec![false; program.tables.len()],
        actions: BTreeSet::new(),
        todo: Vec::new(),
    };
    reach.block(0);
    while let Some(at) = reach.todo.pop() {
        let block = &program.blocks[at];
        reach.ops(&block.ops);
        match &block.end {
            Terminator::Exit => {}
            Terminator::Jump(to) => reach.block(to.index()),
            Terminator::If { then, or_else, .. } => {
                reach.block(then.index());
                reach.block(or_else.index());
            }
            Terminator::Apply { table, hit, miss, by_action } => {
                reach.block(hit.index());
                reach.block(miss.index());
                by_action.iter().for_each(|(_, to)| reach.block(to.index()));
                if !std::mem::replace(&mut reach.tables[table.index()], true) {
                    let held = &contents.tables[table.index()];
                    held.actions.iter().for_each(|id| reach.action(*id));
                    reach.action(held.default.action);
                }
            }
        }
    }
    reach.tables
}

struct Reach<'a> {
    program: &'a Program,
    contents: &'a Contents,
    blocks: Vec<bool>,
    tables: Vec<bool>,
    actions: BTreeSet<ActionId>,
    todo: Vec<usize>,
}

impl Reach<'_> {
    fn block(&mut self, at: usize) {
        if let Some(reached) = self.blocks.get_mut(at)
            && !std::mem::replace(reached, true)
        {
            self.todo.push(at);
        }
    }

    fn action(&mut self, id: ActionId) {
        if !self.actions.insert(id) {
            return;
        }
        let (contents, program) = (self.contents, self.program);
        let action = contents.actions.get(&id).or_else(|| program.actions.get(id.index()));
        if let Some(action) = action {
            self.ops(&action.body);
        }
    }

    fn ops(&mut self, ops: &[Op]) {
        let mut groups = false;
        for op in ops {
            op.visit(&mut |op| match op {
                Op::Goto(to) | Op::Clone { block: to, .. } | Op::Call { block: to, .. } => {
                    self.block(to.index())
                }
                Op::Group { .. } => groups = true,
                _ => {}
            });
        }
        if groups {
            // A bucket may run any action.
            let (contents, program) = (self.contents, self.program);
            let own = (0..program.actions.len() as u32).map(ActionId);
            contents.actions.keys().copied().chain(own).for_each(|id| self.action(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::Pipeline;

    /// Five tables: the first is applied; the others by a call of an entry's action, by a clone of a block's, by an
    /// action of a bucket's, and by nothing.
    #[test]
    fn what_is_called_cloned_or_in_a_bucket_is_reached() {
        let mut b = ir::builder::Builder::new();
        let eth_t = b.header_type("eth_t", &[("dst", 48), ("src", 48)]);
        let eth = b.header("eth", eth_t);
        let start = b.state("start");
        let extract = ir::ParserOp::Extract { header: eth, varbit: None };
        b.set_state(start, vec![extract], ir::Transition::Accept);
        b.emit(eth);
        let blocks: Vec<_> = (0..7).map(|n| b.block(&format!("b{n}"))).collect();
        b.action("none", &[], vec![]);
        let call = Op::Call { block: blocks[2], until: blocks[6], guise: None, site: 0 };
        b.action("call", &[], vec![call]);
        b.action("group", &[], vec![Op::Group { group: ir::Expr::int(1, 32) }]);
        b.action("bucket", &[], vec![Op::Goto(blocks[5])]);
        let key: std::sync::Arc<[ir::Key]> = std::sync::Arc::new([ir::Key {
            name: "dst".to_owned(),
            expr: ir::Expr::header(eth, b.field(eth, "dst")),
            kind: ir::MatchKind::Exact,
            width: 48,
        }]);
        let tables: Vec<_> = (0..5)
            .map(|n| {
                b.table(ir::Table {
                    name: format!("t{n}"),
                    key: key.clone(),
                    actions: None,
                    default: ir::ActionCall::new(ActionId(0)),
                    default_const: false,
                    capacity: 16,
                    counters: true,
                })
            })
            .collect();
        let mut apply = |at: usize, ops, table: usize, next: usize| {
            let (hit, miss) = (blocks[next], blocks[next]);
            let end = Terminator::Apply { table: tables[table], hit, miss, by_action: vec![] };
            b.set_block(blocks[at], ops, end);
        };
        let copy = Op::Clone { block: blocks[3], copy: ir::Copy::Current };
        apply(0, vec![copy], 0, 6);
        apply(2, vec![], 1, 6);
        apply(3, vec![], 2, 6);
        apply(5, vec![], 3, 6);
        apply(4, vec![], 4, 6);
        b.set_block(blocks[1], vec![], Terminator::Exit);
        b.set_block(blocks[6], vec![], Terminator::Exit);
        let program = std::sync::Arc::new(b.finish());
        let mut pipeline = Pipeline::new(program.clone()).unwrap();
        let reached = |pipeline: &Pipeline| tables_of(pipeline);
        assert_eq!(reached(&pipeline), [true, false, true, false, false]);
        let entry = |table: usize, id: u32, action: u32| {
            let pattern = ir::Pattern::Exact(ir::Bits::from_u128(5, 48));
            let entry = ir::Entry {
                id: ir::EntryId(id),
                matches: [ir::KeyMatch { key: 0, pattern }].into_iter().collect(),
                priority: 0,
                action: ir::ActionCall::new(ActionId(action)),
                cookie: 0,
                idle_timeout_ns: 0,
                hard_timeout_ns: 0,
            };
            ir::Update::Insert(tables[table], std::sync::Arc::new(entry))
        };
        pipeline.transact(&[entry(0, 1, 1)]).unwrap();
        assert_eq!(reached(&pipeline), [true, true, true, false, false]);
        pipeline.transact(&[entry(1, 2, 2)]).unwrap();
        assert_eq!(reached(&pipeline), [true, true, true, true, false]);
    }

    fn tables_of(pipeline: &Pipeline) -> Vec<bool> {
        tables(pipeline.program(), &opt::contents(pipeline))
    }
}
