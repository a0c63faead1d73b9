//! The verifier: the rules that a program, and whatever is put into it, obey.
//!
//! Everything after the verifier (interpreter, compiler, lookup structures) takes these rules for
//! granted and neither checks them again nor survives their breach. In: a [`Program`] or a
//! [`Pipeline`](crate::Pipeline) and the thing about to enter it. Out: nothing, or the first broken rule as an
//! [`Error`] that names the rule, the place, what is wrong there and what would be right.
//!
//! Names
//! - N1: a name is not empty and unique among its kind; header instances, stacks and unions are one
//!   kind; fields, parameters and keys are unique where they are declared.
//! - N2: no two places are spelled alike: a field's name holds no dot, a header's does not end in
//!   `.last`, no metadata field reads like a field of a header, no parser state is called `accept`
//!   or `reject`.
//! - N3: the first metadata fields are the intrinsic ones.
//! - N4: every id refers to something that exists.
//!
//! Widths
//! - W1: fields, parameters and register cells are 1 to [`FIELD_WIDTH_MAX`] bits wide, varbit fields 1 to
//!   [`VARBIT_WIDTH_MAX`].
//! - W2: the two operands of an operator have the same width (shifts and concatenation excepted).
//! - W3: a value has the width that its use asks for.
//! - W4: a condition, and an operand of a logical operator, is one bit wide.
//! - W5: a slice lies within what it is taken from.
//! - W6: an expression is 1 to [`WIDTH_MAX`] bits wide; a varbit field alone, and inputs of a hash together,
//!   may be as wide as they are declared.
//! - W7: expressions, `if`s and loops are nested at most [`DEPTH_MAX`] deep.
//! - W8: a CRC is 8 to 32 bits wide, its parameters no wider.
//! - W9: all header instances together have room for at most [`HEADERS_BYTES_MAX`] bytes.
//!
//! Expressions
//! - X1: parameters are read in actions only.
//! - X2: `lookahead` and `remaining` are read in the parser only.
//!
//! Headers
//! - H1: only the last field of a header type is varbit.
//! - H2: a stack has 1 to 255 elements, consecutive, of one type, each of which knows its place;
//!   stacks are declared in the order of their elements.
//! - H3: a member of a union is in one union, once, and is no element of a stack.
//! - H4: a varbit field is neither assigned nor sliced; it changes with its whole header, or is copied
//!   from one of the same greatest width.
//! - H5: a header is copied to one of the same type.
//! - H6: a push or pop is by 1 to the stack's size.
//!
//! Parser, deparser, checksums
//! - P1: an extraction gives a varbit width if, and only if, the header's type has a varbit field.
//! - P2: a case has one pattern for each key, of the key's width.
//! - P3: an error code of the program's own is not 0.
//! - P4: a pattern's value is zero outside its mask; a range does not end before it begins.
//! - D1: the deparser names a header once.
//! - C1: a checksum lives in a field of a header, 16 bits wide for `csum16`, 32 for `crc32c`, which
//!   is not among its inputs.
//! - C2: a checksum's inputs are a multiple of 16 bits.
//! - C3: only a `csum16` without payload is incremental.
//!
//! Actions, tables, blocks
//! - A1: a call has one argument for each parameter, of its width.
//! - A2: a digest has one value for each of its fields, of its width.
//! - A4: a call of a service has one value for each argument, of its width, and writes metadata, each once
//!   and of a result's width; it writes the first results, and perhaps not all.
//! - A3: what is kept over a pass is named once.
//! - T1: a key field is as wide as its expression; a table has at most 65,535 of them.
//! - T2: a table lists an action once, and a decision by action names those that the table allows.
//! - T3: an action that a table uses goes to, or clones to, blocks later than any that applies it.
//! - B1: control only goes to later blocks.
//! - B2: `goto` appears in actions only.
//! - B3: a clone in a block starts at a later block.
//! - L1: a loop's body neither goes elsewhere nor makes copies: no `goto`, group, clone, output, punt,
//!   reparse, call, service, resubmission or recirculation.
//! - L2: what a copy does in place has no `goto`.
//!
//! What is put into a pipeline
//! - E1: an entry's patterns come by ascending key position, at most one for each.
//! - E2: a pattern is one that the key's kind of match allows: a value anywhere, a prefix for `lpm`
//!   and `ternary`, a mask for `ternary`, a range for `range`.
//! - E3: a pattern has the key's width, is zero outside prefix or mask, and its range does not end
//!   before it begins.
//! - E4: an `exact` key is present.
//! - E5: an entry's action is one that the table allows; a default may also be the declared one.
//! - G1: an `indirect` group has exactly one bucket.
//! - G2: a bucket's action does not `goto`.
//! - G3: a bucket's action clones only to blocks later than any that may use a group.
//! - G4: groups do not refer to each other in a circle, nor in a chain of more than
//!   [`GROUP_CHAIN_MAX`]. (Numbers that are computed are bounded at run time.)
//! - V1: a value set's members are values, masks and ranges of its width.
//!
//! An action is checked by itself for everything but T3, G2 and G3, which depend on who uses it. An
//! action that only an injected packet runs is used by no table, so it may clone to any block, the
//! first one included: the clone is then the packet's one way through the blocks.
//!
//! Cost: a program, once over everything; an entry, its patterns, arguments and the body of its
//! action; no allocation unless a rule is broken.
//! Checked by: `tests`, which breaks every rule.

mod calls;
mod code;
mod program;
mod rule;
#[cfg(test)]
mod tests;

pub(crate) use code::leaves_a_loop;
pub use rule::{DEPTH_MAX, Error, GROUP_CHAIN_MAX, Rule};

use self::calls::{Targets, arguments, position};
use self::rule::{Result, ensure};
use crate::bits::Bits;
use crate::call::ActionCall;
use crate::contents::{Entry, Group, GroupKind, Pattern};
use crate::expr::Expr;
use crate::id::{ActionId, BlockId, GroupId, TableId};
use crate::op::Op;
use crate::program::{Action, MatchKind, Program, Select, Table, Terminator, ValueSet};
use code::Scope;
use hashbrown::HashMap;

/// What is checked of a pipeline beside its program.
pub trait Contents {
    /// The program.
    fn program(&self) -> &Program;

    /// An action of the program, or one that was added.
    fn action(&self, id: ActionId) -> Option<&Action>;

    /// A group.
    fn group(&self, id: GroupId) -> Option<&Group>;
}

/// A whole program.
pub fn program(program: &Program) -> Result {
    program::check(program)
}

/// One block, at its place in the program.
pub fn block(program: &Program, id: BlockId) -> Result {
    ensure!(id.index() < program.blocks.len(), N4, "there is no {id}");
    program::block(program, id.index())
}

/// An action by itself, whoever may use it.
pub fn action(program: &Program, action: &Action) -> Result {
    program::action(program, action)
}

/// An entry about to be inserted into a table, or to replace one there.
pub fn entry(pipeline: &dyn Contents, table: TableId, entry: &Entry) -> Result {
    let program = pipeline.program();
    let inner = |t: &Table| {
        patterns(t, entry)?;
        if let Some(allowed) = &t.actions {
            ensure!(
                allowed.contains(&entry.action.action),
                E5,
                "the table does not allow {}; {}",
                action_name(pipeline, &entry.action),
                allowed_names(program, allowed)
            );
        }
        call_at(pipeline, table, &entry.action)
    };
    let t = declared(program, table)?;
    inner(t).map_err(|e| e.within(format_args!("table {}, {}", t.name, entry.id)))
}

/// A table's new default action.
pub fn table_call(pipeline: &dyn Contents, table: TableId, call: &ActionCall) -> Result {
    let program = pipeline.program();
    let inner = |t: &Table| {
        if let Some(allowed) = &t.actions {
            ensure!(
                allowed.contains(&call.action) || t.default.action == call.action,
                E5,
                "the table does not allow {}; {}",
                action_name(pipeline, call),
                allowed_names(program, allowed)
            );
        }
        call_at(pipeline, table, call)
    };
    let t = declared(program, table)?;
    inner(t).map_err(|e| e.within(format_args!("table {}, default action", t.name)))
}

/// A group about to be added, or to replace one of that number.
pub fn group(pipeline: &dyn Contents, id: GroupId, group: &Group) -> Result {
    let program = pipeline.program();
    let inner = || {
        if group.kind == GroupKind::Indirect {
            let n = group.buckets.len();
            ensure!(n == 1, G1, "{n} buckets; an indirect group has exactly one");
        }
        for e in &*group.hash {
            Scope::plain(program).expr(e).map_err(|e| e.within("hash input"))?;
        }
        for (i, bucket) in group.buckets.iter().enumerate() {
            let check = || {
                let action = called(pipeline, &bucket.action)?;
                let targets = Targets::of(&action.body);
                ensure!(targets.goto.is_none(), G2, "action {} says goto", action.name);
                if let Some(target) = targets.clone {
                    let last = last_group_user(program);
                    ensure!(
                        last.is_none_or(|last| target > last),
                        G3,
                        "action {} clones to {target}, but {} may use groups; clone to a later block",
                        action.name,
                        last.unwrap_or_default()
                    );
                }
                Ok(())
            };
            check().map_err(|e| e.within(format_args!("bucket {i}")))?;
        }
        chain(pipeline, id, group)
    };
    inner().map_err(|e| e.within(id))
}

/// The new members of a value set.
pub fn value_set(set: &ValueSet, members: &[Select]) -> Result {
    for (i, member) in members.iter().enumerate() {
        code::select_pattern(member, set.width)
            .and_then(|()| {
                ensure!(
                    !matches!(member, Select::ValueSet(_)),
                    V1,
                    "a value set; members are values, masks and ranges"
                );
                Ok(())
            })
            .map_err(|e| Error { rule: Rule::V1, ..e })
            .map_err(|e| e.within(format_args!("value set {}, member {i}", set.name)))?;
    }
    Ok(())
}

fn declared(program: &Program, table: TableId) -> Result<&Table> {
    program.tables.get(table.index()).ok_or_else(|| {
        Error::new(Rule::N4, format!("the program has {} tables", program.tables.len()))
            .within(table)
    })
}

fn action_name(pipeline: &dyn Contents, call: &ActionCall) -> String {
    match pipeline.action(call.action) {
        Some(a) => format!("action {}", a.name),
        None => call.action.to_string(),
    }
}

fn allowed_names(program: &Program, allowed: &[ActionId]) -> String {
    let names: Vec<&str> = allowed
        .iter()
        .filter_map(|a| program.actions.get(a.index()))
        .map(|a| a.name.as_str())
        .collect();
    match names.as_slice() {
        [] => "it allows none".to_string(),
        names => format!("it allows {}", names.join(", ")),
    }
}

/// The called action, its arguments being right.
fn called<'a>(pipeline: &'a dyn Contents, call: &ActionCall) -> Result<&'a Action> {
    let Some(action) = pipeline.action(call.action) else {
        return Err(Error::new(Rule::N4, format!("there is no {}", call.action)));
    };
    arguments(action, call)?;
    Ok(action)
}

/// A call by a table: arguments, and where the action goes.
fn call_at(pipeline: &dyn Contents, table: TableId, call: &ActionCall) -> Result {
    let action = called(pipeline, call)?;
    position(pipeline.program(), table, action)
}

/// The last block in which a group may be used: by an operation of the block itself, or by an action
/// that a table applied there allows (any action, if the table allows all).
fn last_group_user(program: &Program) -> Option<BlockId> {
    let uses = |ops: &[Op]| {
        let mut found = false;
        ops.iter().for_each(|op| op.visit(&mut |op| found |= matches!(op, Op::Group { .. })));
        found
    };
    let by_table = |t: &Table| match &t.actions {
        None => true,
        Some(list) => list
            .iter()
            .chain([&t.default.action])
            .filter_map(|a| program.actions.get(a.index()))
            .any(|a| uses(&a.body)),
    };
    let found = program.blocks.iter().rposition(|b| {
        uses(&b.ops)
            || matches!(&b.end, Terminator::Apply { table, .. }
                if program.tables.get(table.index()).is_some_and(by_table))
    });
    found.map(|i| BlockId(i as u32))
}

/// Rule G4. What is there already has no circle, so a new one passes through the new group.
fn chain(pipeline: &dyn Contents, id: GroupId, group: &Group) -> Result {
    /// `seen` holds the greatest depth at which a group was walked from, so that each is walked at
    /// most [`GROUP_CHAIN_MAX`] times.
    fn walk(
        pipeline: &dyn Contents,
        group: &Group,
        path: &mut Vec<GroupId>,
        seen: &mut HashMap<GroupId, usize>,
    ) -> Result {
        for next in successors(pipeline, group) {
            let names = || {
                let names: Vec<String> =
                    path.iter().chain([&next]).map(|g| g.to_string()).collect();
                names.join(" -> ")
            };
            ensure!(
                !path.contains(&next),
                G4,
                "groups refer to each other in a circle: {}",
                names()
            );
            let Some(g) = pipeline.group(next) else { continue };
            ensure!(
                path.len() < GROUP_CHAIN_MAX,
                G4,
                "a chain of more than {GROUP_CHAIN_MAX} groups: {}",
                names()
            );
            let depth = path.len();
            if seen.get(&next).is_some_and(|d| *d >= depth) {
                continue;
            }
            seen.insert(next, depth);
            path.push(next);
            walk(pipeline, g, path, seen)?;
            path.pop();
        }
        Ok(())
    }
    walk(pipeline, group, &mut vec![id], &mut HashMap::new())
}

/// Groups that a group's buckets hand the packet to or watch, as far as their numbers are constant
/// or arguments; each one once.
fn successors(pipeline: &dyn Contents, group: &Group) -> Vec<GroupId> {
    let mut out: Vec<GroupId> = group.buckets.iter().filter_map(|b| b.watch_group).collect();
    for bucket in &group.buckets {
        let Some(action) = pipeline.action(bucket.action.action) else { continue };
        let mut visit = |op: &Op| {
            let Op::Group { group } = op else { return };
            let number = match group {
                Expr::Const(v) => Some(v.low_u32()),
                Expr::Param(i) => bucket.action.args.get(*i as usize).map(Bits::low_u32),
                _ => None,
            };
            out.extend(number.map(GroupId));
        };
        action.body.iter().for_each(|op| op.visit(&mut visit));
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// Rules E1 to E4.
fn patterns(table: &Table, entry: &Entry) -> Result {
    let mut next = 0usize;
    for m in &entry.matches {
        let at = m.key as usize;
        let Some(key) = table.key.get(at) else {
            let n = table.key.len();
            return Err(Error::new(Rule::N4, format!("key {at}: the table has {n} keys")));
        };
        ensure!(at >= next, E1, "key {} comes out of order or twice", key.name);
        if let Some(absent) = table.key[next..at].iter().find(|k| k.kind == MatchKind::Exact) {
            return Err(absent_key(absent));
        }
        next = at + 1;
        let (kind, fits) = match &m.pattern {
            Pattern::Exact(_) => ("a value", true),
            Pattern::Prefix(..) => {
                ("a prefix", matches!(key.kind, MatchKind::Lpm | MatchKind::Ternary))
            }
            Pattern::Masked(..) => ("a mask", key.kind == MatchKind::Ternary),
            Pattern::Range(..) => ("a range", key.kind == MatchKind::Range),
        };
        ensure!(
            fits,
            E2,
            "key {} is matched {}, which allows no {}",
            key.name,
            key.kind.word(),
            kind.trim_start_matches("a ")
        );
        pattern(&key.name, &m.pattern, key.width)
            .map_err(|e| e.within(format_args!("key {}", key.name)))?;
    }
    match table.key[next..].iter().find(|k| k.kind == MatchKind::Exact) {
        Some(absent) => Err(absent_key(absent)),
        None => Ok(()),
    }
}

fn absent_key(key: &crate::program::Key) -> Error {
    Error::new(Rule::E4, format!("key {} is matched exact, so it needs a value", key.name))
}

/// Rule E3.
fn pattern(key: &str, pattern: &Pattern, width: u32) -> Result {
    let shown = || crate::text::print_pattern(key, pattern);
    let wide = |v: &Bits| {
        ensure!(v.width() == width, E3, "{} bits given, it has {width}", v.width());
        Ok(())
    };
    match pattern {
        Pattern::Exact(v) => wide(v),
        Pattern::Prefix(v, len) => {
            wide(v)?;
            ensure!(*len <= width, E3, "a prefix of {len} bits, it has {width}");
            ensure!(
                v.and(&Bits::prefix_mask(*len, width)) == *v,
                E3,
                "{} has bits set below the prefix; they must be zero",
                shown()
            );
            Ok(())
        }
        Pattern::Masked(v, mask) => {
            wide(v)?;
            wide(mask)?;
            ensure!(
                v.and(mask) == *v,
                E3,
                "{} has bits set outside the mask; they must be zero",
                shown()
            );
            Ok(())
        }
        Pattern::Range(lo, hi) => {
            wide(lo)?;
            wide(hi)?;
            ensure!(lo.compare(hi).is_le(), E3, "the range {} ends before it begins", shown());
            Ok(())
        }
    }
}
