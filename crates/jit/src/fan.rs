//! Entries of a table in code that differ in one value and in the twin they go to.
//!
//! A gateway's first table tells customers apart by their VLAN, does the same for all, and sends each
//! to a table of its own; those tables are alike. Compared one by one, the entries cost a compare
//! each and, as customers come in any order, a branch that nobody predicts. Such a *fan* is taken at
//! once: which entry and which table is worked out as numbers, and the code behind is one.

use crate::emit::{Ended, Gen};
use crate::flow::gotos;
use crate::unit::{DirectEntry, NodeSpec};
use crate::value::Val;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::{BlockId, Op, Pattern, Terminator};

/// Fewer entries are compared one by one.
const LEAST: usize = 3;

/// One entry of a fan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Blade {
    /// The value of the column in which entries differ.
    value: u64,
    /// The entry's id.
    entry: u64,
    /// The node that it goes to.
    node: u64,
}

/// Entries that differ in one value and in the twin they go to.
#[derive(Clone, Debug)]
pub(crate) struct Fan {
    /// How many entries there are.
    pub(crate) len: usize,
    /// The key field in which they differ.
    pub(crate) key: u16,
    /// One of the nodes they go to.
    pub(crate) node: usize,
    blades: Vec<Blade>,
}

/// The twins' leader, or the node itself.
fn leader(nodes: &[NodeSpec], node: usize) -> usize {
    nodes[node].leader.unwrap_or(node)
}

impl<'f, 'p> Gen<'f, 'p> {
    /// The fan that entries begin with.
    pub(crate) fn fan(&self, from: BlockId, entries: &[DirectEntry]) -> Option<Fan> {
        let nodes = &self.plan.unit.nodes;
        let first = entries.first()?;
        let to = self.goes_to(from, first)?;
        let other = entries.get(1)?;
        let differ = |a: &DirectEntry, b: &DirectEntry| {
            let pairs = a.matches.iter().zip(&b.matches);
            let mut which = pairs.filter(|(a, b)| a != b).map(|(a, _)| a.key);
            (which.next(), which.next())
        };
        let (Some(key), None) = differ(first, other) else { return None };
        let blade = |e: &DirectEntry, node: usize| {
            let m = e.matches.iter().find(|m| m.key == key)?;
            match &m.pattern {
                Pattern::Exact(v) if v.width() <= 64 => Some(Blade {
                    value: v.limbs().first().copied().unwrap_or(0),
                    entry: u64::from(e.entry.0),
                    node: node as u64,
                }),
                _ => None,
            }
        };
        let mut blades = vec![blade(first, to)?];
        for entry in &entries[1..] {
            let alike = entry.matches.len() == first.matches.len()
                && entry.call.args == first.call.args
                && entry.matches.iter().zip(&first.matches).all(|(a, b)| a.key == b.key)
                && differ(first, entry) == (Some(key), None)
                && self.same_but_for_goto(first, entry);
            let Some(node) = self.goes_to(from, entry).filter(|_| alike) else { break };
            if leader(nodes, node) != leader(nodes, to) || !self.same_key(node, to) {
                break;
            }
            let Some(blade) = blade(entry, node) else { break };
            if blades.iter().any(|b| b.value == blade.value) {
                break;
            }
            blades.push(blade);
        }
        let len = blades.len();
        blades.sort_unstable_by_key(|b| b.value);
        (len >= LEAST).then_some(Fan { len, key, node: to, blades })
    }

    /// The node that an entry sends packets to, with nothing on the way.
    fn goes_to(&self, from: BlockId, entry: &DirectEntry) -> Option<usize> {
        let plan = self.plan;
        let body = &plan.unit.program.actions.get(&entry.call.action)?.body;
        let mut targets = Vec::new();
        gotos(body, &mut |block| targets.push(block));
        let [target] = targets[..] else { return None };
        let calls = |op: &Op| matches!(op, Op::Service { .. });
        let mut stops = false;
        body.iter().for_each(|op| op.visit(&mut |op| stops |= calls(op)));
        if stops {
            return None;
        }
        // Not within a choice.
        let outside = body.contains(&Op::Goto(target));
        let block = plan.program.blocks.get(target.index())?;
        let node = plan.flow.node_of.get(target.index()).copied().flatten()?;
        let applies = matches!(block.end, Terminator::Apply { .. }) && block.ops.is_empty();
        let waits = plan.unit.nodes[node].direct.is_none();
        (outside && target > from && applies && waits).then_some(node)
    }

    /// Two entries do the same but for the table they go to.
    fn same_but_for_goto(&self, a: &DirectEntry, b: &DirectEntry) -> bool {
        let actions = &self.plan.unit.program.actions;
        let (Some(a), Some(b)) = (actions.get(&a.call.action), actions.get(&b.call.action)) else {
            return false;
        };
        let same = |(x, y): (&Op, &Op)| match (x, y) {
            (Op::Goto(_), Op::Goto(_)) => true,
            _ => x == y,
        };
        a.params == b.params && a.body.len() == b.body.len() && a.body.iter().zip(&b.body).all(same)
    }

    /// The keys of two nodes' tables are read from the same places.
    fn same_key(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.plan.unit.nodes[a], &self.plan.unit.nodes[b]);
        let key = |node: &NodeSpec, column: u16| {
            let table = &self.plan.program.tables[node.applied.index()];
            table.key.get(column as usize).map(|k| k.expr.clone())
        };
        a.columns.iter().all(|column| key(a, *column) == key(b, *column))
    }

    /// One bit, whether the value is one of the fan's; then entry and node.
    pub(crate) fn spread(&mut self, fan: &Fan, value: &Val) -> (Val, Value, Value) {
        let Some(first) = fan.blades.first().copied() else {
            let zero = self.constant(0);
            return (Val::bool(false), zero, zero);
        };
        let value = value.to_i64_low(&mut self.b);
        let step = |of: fn(&Blade) -> u64| {
            let by = fan.blades.get(1).map_or(0, |b| of(b).wrapping_sub(of(&first)));
            let at = |i: usize| of(&first).wrapping_add(by.wrapping_mul(i as u64));
            fan.blades.iter().enumerate().all(|(i, b)| of(b) == at(i)).then_some(by)
        };
        let steps = (step(|b| b.value), step(|b| b.entry), step(|b| b.node));
        if let (Some(1), Some(entry), Some(node)) = steps {
            let place = self.b.ins().iadd_imm_s(value, (first.value as i64).wrapping_neg());
            let len = self.constant(fan.len as u64);
            let within =
                self.compare(cranelift_codegen::ir::condcodes::IntCC::UnsignedLessThan, place, len);
            let mut at = |by: u64, first: u64| {
                let far = self.b.ins().imul_imm_s(place, by as i64);
                self.b.ins().iadd_imm_s(far, first as i64)
            };
            let (entry, node) = (at(entry, first.entry), at(node, first.node));
            return (within, entry, node);
        }
        let mut any = Val::bool(false);
        let (mut entry, mut node) = (self.constant(first.entry), self.constant(first.node));
        for blade in &fan.blades {
            let k = self.constant(blade.value);
            let here = self.compare(cranelift_codegen::ir::condcodes::IntCC::Equal, value, k);
            let (e, n) = (self.constant(blade.entry), self.constant(blade.node));
            entry = self.select(&here, e, entry);
            node = self.select(&here, n, node);
            any = self.or(&any, &here);
        }
        (any, entry, node)
    }

    /// Takes the packets of a fan's entries; others go on behind. `columns` are the key's values.
    pub(crate) fn fan_out(
        &mut self,
        spec: &NodeSpec,
        fan: &Fan,
        first: &DirectEntry,
        columns: &[Val],
    ) -> Result<(), Ended> {
        let plan = self.plan;
        let mut matches = Val::bool(true);
        let mut value = Val::zero(1);
        for m in &first.matches {
            let column = spec.columns.iter().position(|c| *c == m.key);
            let Some(column) = column.and_then(|c| columns.get(c)) else {
                return Err(self.bail("an entry with an unexpected key field"));
            };
            if m.key == fan.key {
                value = column.clone();
                continue;
            }
            let here = self.pattern(&m.pattern, column);
            matches = self.and(&matches, &here);
        }
        let (found, entry, node) = self.spread(fan, &value);
        matches = self.and(&matches, &found);
        let rest = match matches.known_truth() {
            Some(false) => return Ok(()),
            known => {
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                match known {
                    Some(_) => {
                        self.b.ins().jump(yes, &[]);
                    }
                    None => self.branch(&matches, yes, no),
                }
                self.enter(yes);
                no
            }
        };
        self.count_direct(spec.table, Some(entry));
        let target = &plan.unit.nodes[fan.node];
        self.run_to(&first.call, &mut |g| {
            let _: Result<(), Ended> = g.park(fan.node, target, Some(node));
            Ended
        });
        self.enter(rest);
        Ok(())
    }
}
