//! What second passes cost: a use case of SoftFlow's without any, as it is, and with second passes in full, in turns.
//!
//! - *none*: what follows a service is joined to the call by hand, as if whoever wrote the entries had known the way: no
//!   table is looked up for what comes back, nothing that a service says is looked at, nothing is counted for it. The entries
//!   for what comes back are not there.
//! - *coalesced*: the pipeline as it is, its second passes compiled ([`opt::unroll`]).
//! - *full*: the same, but that tables are looked up whole, by all fields, in each pass. Parsing is not done again, nor is it in an Open vSwitch
//!   that a packet comes back to: it is no part of what is compared.
//!
//! What a second pass costs is what a pipeline with it takes longer than *none*; what coalescing saves is the share of *full*'s
//! second pass that the coalesced one does not cost. All three call the services with the same packets, and each is checked
//! by the interpreter beforehand, as the bench does.
//!
//! One function for each runs a turn, so that a profiler tells their instructions apart.

use super::check;
use super::contents::Contents;
use super::lane::{Bed, Kind, Lane};
use super::measure::{self, Sample, Tally, median};
use super::trace::Trace;
use control::failure::Failure;
use ir::{Action, ActionId, Bits, Entry, Expr, FieldRef, MetaId, Op, TableId, Terminator, Update};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// In their order.
pub(crate) const NAMES: [&str; 3] = ["none", "coalesced", "full"];
/// Calls of services one behind the other, at most.
const DEPTH_MAX: u64 = 16;

/// One of the three.
struct Side {
    bed: Bed,
    lane: Lane,
    at: usize,
    samples: Vec<Sample>,
    tally: Tally,
}

/// All three, so many turns of so long each.
pub(crate) fn run(
    contents: &Contents,
    trace: &Trace,
    ports: u32,
    turns: usize,
    time: Duration,
) -> Result<Value, Failure> {
    let without = joined(contents).map_err(Failure::Bad)?;
    let mut full = contents.clone();
    full.passes.narrow = false;
    let mut sides = Vec::new();
    let mut mismatches = 0;
    for contents in [&without, contents, &full] {
        let bed = Bed::new(Kind::Jit, contents, ports, 1)?;
        mismatches +=
            check::Oracle::new(contents, ports, trace.len_max())?.engine(&bed, trace).mismatches;
        let lane = bed.lane(0, trace.len_max());
        sides.push(Side { bed, lane, at: 0, samples: Vec::new(), tally: Tally::new() });
    }
    let Ok([mut none, mut coalesced, mut full]) = <[Side; 3]>::try_from(sides) else {
        return Err(Failure::usage("three of them are compared"));
    };
    // Connections open, caches and predictors are warm.
    turn::<0>(&mut none, trace, time);
    turn::<1>(&mut coalesced, trace, time);
    turn::<2>(&mut full, trace, time);
    for side in [&mut none, &mut coalesced, &mut full] {
        side.samples.clear();
        side.tally = Tally::new();
    }
    for n in 0..turns {
        // Whoever comes first or behind whom, each is as often as the others.
        for side in 0..3 {
            match (n + side) % 3 {
                0 => turn::<0>(&mut none, trace, time),
                1 => turn::<1>(&mut coalesced, trace, time),
                _ => turn::<2>(&mut full, trace, time),
            }
        }
    }
    let sides = [&none, &coalesced, &full];
    let ns = |side: &Side| -> Vec<f64> { side.samples.iter().map(Sample::ns).collect() };
    let medians = sides.map(|side| median(ns(side)));
    let least = sides.map(|side| ns(side).into_iter().fold(f64::INFINITY, f64::min));
    // Of each turn, beside what ran next to it.
    let paired = (0..turns).map(|n| saved(&sides.map(|side| side.samples[n].ns())));
    let named =
        |values: [f64; 3]| -> BTreeMap<&str, f64> { NAMES.into_iter().zip(values).collect() };
    Ok(json!({
        "turns": turns,
        "mismatches": mismatches,
        "interpreted": sides.map(|side| side.tally.left),
        "packets": named(sides.map(|side| side.samples.iter().map(|s| s.packets as f64).sum())),
        "ns_median": named(medians),
        "ns_least": named(least),
        "saved_by_medians": saved(&medians),
        "saved_by_least": saved(&least),
        "saved_by_turns": median(paired.collect()),
        "compile_ms": named(sides.map(|side| side.bed.compile.as_secs_f64() * 1e3)),
    }))
}

/// What share of the second pass in full is saved.
fn saved([none, coalesced, full]: &[f64; 3]) -> f64 {
    1.0 - (coalesced - none) / (full - none)
}

/// A turn; a function of its own for each of the three.
#[inline(never)]
fn turn<const WHICH: usize>(side: &mut Side, trace: &Trace, time: Duration) {
    std::hint::black_box(WHICH);
    let sample = measure::lane(&mut side.lane, trace, &mut side.at, time, &mut side.tally);
    side.samples.push(sample);
}

/// For people.
pub(crate) fn text(value: &Value) -> String {
    let of = |part: &str, name: &str| value[part][name].as_f64().unwrap_or(0.0);
    let percent = |part: &str| 100.0 * value[part].as_f64().unwrap_or(0.0);
    let mut out = String::new();
    for name in NAMES {
        out += &format!(
            "{name}: {:.2} ns a packet, {:.2} at least\n",
            of("ns_median", name),
            of("ns_least", name)
        );
    }
    out + &format!(
        "coalescing saves of a second pass {:.0} % by medians, {:.0} % by the least, {:.0} % by the median of {} turns; \
         mismatches {}; left to the interpreter {}\n",
        percent("saved_by_medians"),
        percent("saved_by_least"),
        percent("saved_by_turns"),
        value["turns"],
        value["mismatches"],
        value["interpreted"],
    )
}

/// The same contents with what follows each call of a service joined to it, and without the entries for what comes back.
fn joined(contents: &Contents) -> Result<Contents, String> {
    let actions: BTreeMap<ActionId, &Arc<Action>> = contents
        .updates
        .iter()
        .filter_map(|update| match update {
            Update::AddAction(id, action) => Some((*id, action)),
            _ => None,
        })
        .collect();
    // What a packet carries is told by the operation itself; the stage is the third.
    let stage = actions.values().find_map(|action| match action.body.last() {
        Some(Op::Recirculate { keep }) => keep.get(2).copied(),
        _ => None,
    });
    let stage = stage.ok_or("no entry hands packets to a service")?;
    let program = &contents.program;
    let first = program.blocks.iter().find_map(|block| match block.end {
        Terminator::Apply { table, .. } => Some(table),
        _ => None,
    });
    let first = first.ok_or("the program has no table")?;
    let is_stage = |key: &ir::Key| key.expr == Expr::Field(FieldRef::Meta(stage));
    let column = program.tables[first.index()].key.iter().position(is_stage);
    let column = column.ok_or("the first table does not look at the stage")?;
    let join = Join { contents, actions, first, column, stage };
    let mut updates = Vec::new();
    for update in &contents.updates {
        updates.push(match update {
            Update::Insert(table, entry) if *table == first && !join.serves(entry, 0) => continue,
            Update::AddAction(id, action) => {
                let mut action = Action::clone(action);
                action.body = join.body(&action.body, 0)?;
                Update::AddAction(*id, Arc::new(action))
            }
            update => update.clone(),
        });
    }
    Ok(Contents { updates, ..contents.clone() })
}

/// What is needed to join what follows to a call.
struct Join<'a> {
    contents: &'a Contents,
    actions: BTreeMap<ActionId, &'a Arc<Action>>,
    first: TableId,
    /// Of the first table: the key field that is the stage.
    column: usize,
    stage: MetaId,
}

impl Join<'_> {
    /// The entry may be for packets that have been through so many services.
    fn serves(&self, entry: &Entry, stage: u64) -> bool {
        let width = self.contents.program.metadata[self.stage.index()].width;
        let stage = Bits::from_u128(stage.into(), width);
        let own = entry.matches.iter().find(|m| usize::from(m.key) == self.column);
        own.is_none_or(|m| m.pattern.matches(&stage))
    }

    /// The stage that entries which come first for it are for, and the first one of them.
    fn next(&self, element: u64) -> Result<(u64, &Entry), String> {
        // The call's own place in the chain is where the best entry for its answers stands.
        let entries = self.contents.updates.iter().filter_map(|update| match update {
            Update::Insert(table, entry) if *table == self.first => Some(entry),
            _ => None,
        });
        let element = Bits::from_u128(element.into(), 32);
        let of = |entry: &&Arc<Entry>| {
            let program = &self.contents.program;
            let names = |m: &&ir::KeyMatch| {
                let key = &program.tables[self.first.index()].key[usize::from(m.key)];
                key.width == 32 && m.pattern.matches(&element) && !self.serves(entry, 0)
            };
            entry.matches.iter().find(names).is_some()
        };
        let best = entries.filter(of).max_by_key(|entry| entry.priority);
        let best = best.ok_or("nothing is said of what comes back from a service")?;
        let stage = (1..DEPTH_MAX).find(|stage| self.serves(best, *stage));
        Ok((stage.unwrap_or(DEPTH_MAX), best))
    }

    /// Operations with what follows in place of another pass.
    fn body(&self, ops: &[Op], stage: u64) -> Result<Vec<Op>, String> {
        let mut out = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            let Op::Recirculate { .. } = op else {
                out.push(op.clone());
                continue;
            };
            let element = ops[..at].iter().rev().find_map(|op| match op {
                Op::Service { args, .. } => match args.first() {
                    Some(Expr::Const(number)) => Some(number.low_u64()),
                    _ => None,
                },
                _ => None,
            });
            let element = element.ok_or("a packet comes back that no service has had")?;
            let (then, entry) = self.next(element)?;
            if then <= stage {
                return Err("services call each other in a circle".to_string());
            }
            let action = self.actions.get(&entry.action.action).ok_or("no such action")?;
            let args = &entry.action.args;
            let behind: Result<Vec<Op>, String> =
                action.body.iter().map(|op| with(op, args)).collect();
            out.extend(self.body(&behind?, then)?);
        }
        Ok(out)
    }
}

/// An operation with an action's arguments in it.
fn with(op: &Op, args: &[Bits]) -> Result<Op, String> {
    let value = |e: &Expr| match e {
        Expr::Param(n) => args.get(*n as usize).map_or(e.clone(), |arg| Expr::Const(arg.clone())),
        e => e.clone(),
    };
    let op = match op {
        Op::Assign(to, e) => Op::Assign(*to, value(e)),
        Op::Service { service, args, results } => {
            let args = args.iter().map(value).collect();
            Op::Service { service: *service, args, results: results.clone() }
        }
        op => op.clone(),
    };
    let mut left = false;
    op.visit(&mut |op| {
        op.exprs(&mut |e| e.visit(&mut |e| left |= matches!(e, Expr::Param(_))));
    });
    match left {
        true => Err("what follows a service computes with an entry's argument".to_string()),
        false => Ok(op),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    fn contents(name: &str) -> Contents {
        let case = cases::parse(name).unwrap();
        Contents::load(0, case.services(), |entry| {
            case.entries(&mut |line| entry(&line).unwrap());
            Ok(())
        })
        .unwrap()
    }

    fn recirculations(contents: &Contents) -> usize {
        let bodies = contents.updates.iter().filter_map(|update| match update {
            Update::AddAction(_, action) => Some(&action.body),
            _ => None,
        });
        bodies.flatten().filter(|op| matches!(op, Op::Recirculate { .. })).count()
    }

    #[test]
    fn what_follows_services_is_joined_to_their_calls() {
        for (name, services) in [("softflow:a", 1), ("softflow:b", 2)] {
            let whole = contents(name);
            assert_eq!(recirculations(&whole), services, "{name}");
            let joined = joined(&whole).unwrap();
            assert_eq!(recirculations(&joined), 0, "{name}");
            let gone = whole.updates.len() - joined.updates.len();
            assert_eq!(gone, services + 1, "{name}: the entries for what comes back");
            let calls = joined.updates.iter().filter_map(|update| match update {
                Update::AddAction(_, action) => {
                    Some(action.body.iter().filter(|op| matches!(op, Op::Service { .. })).count())
                }
                _ => None,
            });
            assert_eq!(calls.max(), Some(services), "{name}: one behind the other");
        }
        // A plain pipeline has no second pass.
        assert!(super::joined(&contents("l2:10")).is_err());
    }

    #[test]
    fn a_share_of_what_a_full_pass_costs() {
        assert_eq!(saved(&[100.0, 102.0, 110.0]), 0.8);
    }

    #[test]
    fn all_three_forward_alike() {
        let whole = contents("softflow:b");
        let case = cases::parse("softflow:b").unwrap();
        let trace = Trace::of_case(&*case, 100, |_| {});
        let value = run(&whole, &trace, 0, 1, Duration::from_millis(20)).unwrap();
        assert_eq!(value["mismatches"], 0);
        assert_eq!(value["interpreted"], serde_json::json!([0, 0, 0]));
        assert!(text(&value).contains("coalesced: "), "{}", text(&value));
    }
}
