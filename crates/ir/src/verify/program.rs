//! The rules of declarations: everything that a program holds, in the order of its fields.

use super::calls::{arguments, position};
use super::code::{self, Scope, declared_field, declared_width, select_pattern};
use super::rule::{DEPTH_MAX, Error, Result, Rule, ensure};
use crate::bits::WIDTH_MAX;
use crate::expr::{Expr, FieldRef};
use crate::id::{ActionId, BlockId, HeaderId, StackId, TableId, UnionId};
use crate::program::{
    Action, Checksum, ChecksumAlgorithm, ChecksumMode, HEADERS_BYTES_MAX, HeaderInstance,
    HeaderType, Param, ParserOp, ParserState, Program, Select, Table, Terminator, Transition,
    intrinsic,
};
use hashbrown::HashSet;
use std::sync::Arc;

/// All of it.
pub(super) fn check(p: &Program) -> Result {
    names(p)?;
    p.header_types.iter().try_for_each(header_type)?;
    headers(p)?;
    metadata(p)?;
    let here = |e: Error| e.within("program");
    for s in &p.value_sets {
        declared_width("value set", &s.name, s.width).map_err(here)?;
    }
    for r in &p.registers {
        declared_width("register", &r.name, r.width).map_err(here)?;
    }
    for d in &p.digests {
        params("field", &d.fields).map_err(|e| e.within(format_args!("digest {}", d.name)))?;
    }
    for s in &p.services {
        let here = |e: Error| e.within(format_args!("service {}", s.name));
        params("argument", &s.args).map_err(here)?;
        params("result", &s.results).map_err(here)?;
    }
    for s in &p.parser {
        state(p, s).map_err(|e| e.within(format_args!("state {}", s.name)))?;
    }
    deparser(p)?;
    for (i, c) in p.checksums.iter().enumerate() {
        checksum(p, c).map_err(|e| e.within(format_args!("checksum {}", i + 1)))?;
    }
    p.actions.iter().try_for_each(|a| action(p, a))?;
    tables(p)?;
    (0..p.blocks.len()).try_for_each(|i| block(p, i))
}

/// See [`action`](super::action).
pub(super) fn action(program: &Program, action: &Action) -> Result {
    let inner = || {
        ensure!(!action.name.is_empty(), N1, "the name is empty");
        params("parameter", &action.params)?;
        let scope = Scope::action(program, &action.params);
        scope.ops(&action.body)
    };
    inner().map_err(|e| e.within(format_args!("action {}", action.name)))
}

/// Rule N1 for one kind of thing.
fn unique<'a>(kind: &str, names: impl IntoIterator<Item = &'a str>) -> Result {
    let mut seen = HashSet::new();
    for name in names {
        ensure!(!name.is_empty(), N1, "a {kind} has an empty name");
        ensure!(seen.insert(name), N1, "two {kind}s are called {name}; rename one");
    }
    Ok(())
}

fn names(p: &Program) -> Result {
    macro_rules! kinds {
        ($($kind:literal $field:ident)*) => {
            $(unique($kind, p.$field.iter().map(|x| x.name.as_str()))?;)*
        };
    }
    let here = |e: Error| e.within("program");
    let inner = || {
        kinds!("header type" header_types "metadata field" metadata "value set" value_sets
            "parser state" parser "action" actions "table" tables "block" blocks
            "register" registers "counter array" counters "digest" digests "service" services);
        let headers = p.headers.iter().map(|h| h.name.as_str());
        let stacks = p.stacks.iter().map(|s| s.name.as_str());
        let unions = p.unions.iter().map(|u| u.name.as_str());
        unique("header, stack or union", headers.chain(stacks).chain(unions))?;
        for h in &p.headers {
            ensure!(
                !h.name.ends_with(".last"),
                N2,
                "header {}: names that end in .last are those of stacks' last elements",
                h.name
            );
        }
        for s in &p.parser {
            ensure!(
                !matches!(s.name.as_str(), "accept" | "reject"),
                N2,
                "a parser state is called {}, which is a transition of its own",
                s.name
            );
        }
        Ok(())
    };
    inner().map_err(here)
}

fn header_type(ty: &HeaderType) -> Result {
    let inner = || {
        unique("field", ty.fields.iter().map(|f| f.name.as_str()))?;
        for (i, f) in ty.fields.iter().enumerate() {
            declared_field(f)?;
            ensure!(!f.name.contains('.'), N2, "field {}: its name holds a dot", f.name);
            ensure!(
                !f.varbit || i + 1 == ty.fields.len(),
                H1,
                "field {} is varbit, but it is not the last one",
                f.name
            );
        }
        let fixed = ty.fields.iter().filter(|f| !f.varbit);
        let total: u64 = fixed.map(|f| u64::from(f.width)).sum();
        let max = u64::from(WIDTH_MAX);
        ensure!(total <= max, W6, "{total} bits of fixed fields in all; at most {max}");
        Ok(())
    };
    inner().map_err(|e| e.within(format_args!("header type {}", ty.name)))
}

fn headers(p: &Program) -> Result {
    for (i, h) in p.headers.iter().enumerate() {
        let id = HeaderId(i as u32);
        let inner = || {
            ensure!(
                h.header_type.index() < p.header_types.len(),
                N4,
                "there is no {}; there are {} header types",
                h.header_type,
                p.header_types.len()
            );
            if let Some((stack, at)) = h.stack {
                let holds = p
                    .stacks
                    .get(stack.index())
                    .is_some_and(|s| at < s.size && s.first.0.checked_add(at) == Some(id.0));
                ensure!(holds, H2, "it claims to be element {at} of {stack}, which it is not");
                ensure!(h.union.is_none(), H3, "an element of a stack is a member of a union");
            }
            if let Some(union) = h.union {
                let holds = p.unions.get(union.index()).is_some_and(|u| u.members.contains(&id));
                ensure!(holds, H3, "it claims to be a member of {union}, which it is not");
            }
            Ok(())
        };
        inner().map_err(|e: Error| e.within(format_args!("header {}", h.name)))?;
    }
    let bytes = |h: &HeaderInstance| {
        let fields = &p.header_types[h.header_type.index()].fields;
        fields.iter().map(|f| u64::from(f.width)).sum::<u64>().div_ceil(8)
    };
    let all: u64 = p.headers.iter().map(bytes).sum();
    let room = || {
        let max = HEADERS_BYTES_MAX;
        ensure!(
            all <= max,
            W9,
            "there is room for {all} bytes; at most {max}: use narrower varbit fields"
        );
        Ok(())
    };
    room().map_err(|e: Error| e.within("all headers together"))?;
    for (i, s) in p.stacks.iter().enumerate() {
        let inner = || {
            ensure!((1..=255).contains(&s.size), H2, "{} elements; 1 to 255 are allowed", s.size);
            let before = &p.stacks[..i];
            ensure!(
                before.iter().all(|b| b.first < s.first),
                H2,
                "its elements come before those of a stack declared earlier"
            );
            let first = p.headers.get(s.first.index());
            for at in 0..s.size {
                let element = p.headers.get(s.first.index() + at as usize);
                let holds = element.is_some_and(|h| {
                    h.stack == Some((StackId(i as u32), at))
                        && Some(h.header_type) == first.map(|f| f.header_type)
                        && h.name == format!("{}[{at}]", s.name)
                });
                ensure!(
                    holds,
                    H2,
                    "element {at} must be a header called {}[{at}], of the stack's type, after the one before",
                    s.name
                );
            }
            Ok(())
        };
        inner().map_err(|e: Error| e.within(format_args!("stack {}", s.name)))?;
    }
    for (i, u) in p.unions.iter().enumerate() {
        let inner = || {
            for (at, m) in u.members.iter().enumerate() {
                let Some(h) = p.headers.get(m.index()) else {
                    let text = format!("there is no {m}; there are {} headers", p.headers.len());
                    return Err(Error::new(Rule::N4, text));
                };
                ensure!(!u.members[..at].contains(m), H3, "member {} is named twice", h.name);
                ensure!(h.stack.is_none(), H3, "member {} is an element of a stack", h.name);
                ensure!(
                    h.union == Some(UnionId(i as u32)),
                    H3,
                    "member {} belongs to another union or to none",
                    h.name
                );
            }
            Ok(())
        };
        inner().map_err(|e: Error| e.within(format_args!("union {}", u.name)))?;
    }
    Ok(())
}

fn metadata(p: &Program) -> Result {
    let inner = || {
        for (i, (name, width)) in intrinsic::FIELDS.iter().enumerate() {
            let holds = p.metadata.get(i).is_some_and(|m| m.name == *name && m.width == *width);
            ensure!(holds, N3, "field {i} must be {name}, {width} bits wide");
        }
        for m in &p.metadata {
            declared_width("field", &m.name, m.width)?;
            let Some((head, field)) = m.name.rsplit_once('.') else { continue };
            let header = head
                .strip_suffix(".last")
                .and_then(|s| p.find_stack(s))
                .map(|s| p.stacks[s.index()].first)
                .or_else(|| p.find_header(head));
            let clash = header.is_some_and(|h| p.type_of(h).field(field).is_some());
            ensure!(!clash, N2, "{} is spelled like the field of a header; rename it", m.name);
        }
        Ok(())
    };
    inner().map_err(|e: Error| e.within("metadata"))
}

/// Names and widths of parameters, or of a digest's fields.
pub(super) fn params(kind: &str, params: &[Param]) -> Result {
    unique(kind, params.iter().map(|p| p.name.as_str()))?;
    params.iter().try_for_each(|p| declared_width(kind, &p.name, p.width))
}

fn state(p: &Program, s: &ParserState) -> Result {
    let scope = Scope::parser(p);
    for (i, op) in s.ops.iter().enumerate() {
        let inner = || match op {
            ParserOp::Extract { header, varbit } => {
                let n = p.headers.len();
                ensure!(header.index() < n, N4, "there is no {header}; there are {n} headers");
                extract(p, scope, *header, varbit)
            }
            ParserOp::ExtractNext { stack, varbit } => {
                let n = p.stacks.len();
                ensure!(stack.index() < n, N4, "there is no {stack}; there are {n} stacks");
                extract(p, scope, p.stacks[stack.index()].first, varbit)
            }
            ParserOp::Advance(e) => scope.expr(e).map(drop),
            ParserOp::Assign(f, e) => scope.assign(*f, e),
            ParserOp::Verify(e, code) => {
                ensure!(*code != 0, P3, "error code 0 means that there is no error");
                scope.condition(e)
            }
        };
        inner().map_err(|e: Error| e.within(format_args!("step {}", i + 1)))?;
    }
    transition(p, &s.next, 0)
}

fn extract(p: &Program, scope: Scope<'_>, header: HeaderId, varbit: &Option<Expr>) -> Result {
    let ty = p.type_of(header);
    let has = ty.fields.last().is_some_and(|f| f.varbit);
    match varbit {
        Some(_) if !has => Err(Error::new(
            Rule::P1,
            format!("a varbit width is given, but header type {} has no varbit field", ty.name),
        )),
        None if has => Err(Error::new(
            Rule::P1,
            format!("header type {} has a varbit field; give its width", ty.name),
        )),
        Some(e) => scope.expr(e).map(drop),
        None => Ok(()),
    }
}

fn transition(p: &Program, t: &Transition, depth: u32) -> Result {
    ensure!(depth < DEPTH_MAX, W7, "selects are nested too deep");
    match t {
        Transition::Accept | Transition::Reject => Ok(()),
        Transition::State(s) => {
            let n = p.parser.len();
            ensure!(s.index() < n, N4, "there is no {s}; there are {n} states");
            Ok(())
        }
        Transition::Select { keys, cases } => {
            let scope = Scope::parser(p);
            let widths: Vec<u32> = keys.iter().map(|e| scope.expr(e)).collect::<Result<_>>()?;
            for (i, case) in cases.iter().enumerate() {
                let inner = || {
                    let (have, want) = (case.patterns.len(), widths.len());
                    ensure!(have == want, P2, "{have} patterns for {want} keys");
                    for (pattern, width) in case.patterns.iter().zip(&widths) {
                        select_pattern(pattern, *width)?;
                        if let Select::ValueSet(id) = pattern {
                            let Some(set) = p.value_sets.get(id.index()) else {
                                return Err(Error::new(Rule::N4, format!("there is no {id}")));
                            };
                            ensure!(
                                set.width == *width,
                                P2,
                                "value set {} holds values of {} bits, the key has {width}",
                                set.name,
                                set.width
                            );
                        }
                    }
                    transition(p, &case.next, depth + 1)
                };
                inner().map_err(|e: Error| e.within(format_args!("case {}", i + 1)))?;
            }
            Ok(())
        }
    }
}

fn deparser(p: &Program) -> Result {
    let mut seen = HashSet::new();
    for h in &p.deparser {
        let mut inner = || {
            let Some(header) = p.headers.get(h.index()) else {
                let text = format!("there is no {h}; there are {} headers", p.headers.len());
                return Err(Error::new(Rule::N4, text));
            };
            ensure!(seen.insert(*h), D1, "{} is named twice", header.name);
            Ok(())
        };
        inner().map_err(|e: Error| e.within("deparser"))?;
    }
    Ok(())
}

fn checksum(p: &Program, c: &Checksum) -> Result {
    let scope = Scope::plain(p);
    let (word, want) = match c.algorithm {
        ChecksumAlgorithm::Csum16 => ("csum16", 16),
        ChecksumAlgorithm::Crc32c => ("crc32c", 32),
    };
    let width = scope.target(c.field)?;
    ensure!(matches!(c.field, FieldRef::Header(..)), C1, "the field is not one of a header");
    ensure!(width == want, C1, "{word} in a field of {width} bits; it needs {want}");
    let mut total = 0u32;
    for e in &c.inputs {
        total = total.saturating_add(scope.expr(e)?);
        let mut inside = false;
        e.visit(&mut |e| inside |= matches!(e, Expr::Field(f) if *f == c.field));
        ensure!(!inside, C1, "{} is among its own inputs", p.field_name(c.field));
    }
    ensure!(
        total.is_multiple_of(16) && total <= WIDTH_MAX,
        C2,
        "inputs of {total} bits; a multiple of 16 is needed, at most {}",
        WIDTH_MAX
    );
    ensure!(
        c.mode != ChecksumMode::Incremental
            || c.algorithm == ChecksumAlgorithm::Csum16 && !c.payload,
        C3,
        "incremental, but it is {word}{}; use if_changed",
        if c.payload { " over the payload" } else { "" }
    );
    c.condition.iter().try_for_each(|e| scope.condition(e))
}

fn tables(p: &Program) -> Result {
    let mut checked: HashSet<*const crate::program::Key> = HashSet::new();
    for (i, t) in p.tables.iter().enumerate() {
        let mut inner = || {
            if t.key.is_empty() || checked.insert(t.key.as_ptr()) {
                keys(p, t)?;
            }
            table(p, TableId(i as u32), t)
        };
        inner().map_err(|e| e.within(format_args!("table {}", t.name)))?;
    }
    Ok(())
}

fn keys(p: &Program, t: &Table) -> Result {
    let max = usize::from(u16::MAX);
    ensure!(t.key.len() <= max, T1, "{} key fields; at most {max}", t.key.len());
    unique("key", t.key.iter().map(|k| k.name.as_str()))?;
    for k in t.key.iter() {
        let have =
            Scope::plain(p).expr(&k.expr).map_err(|e| e.within(format_args!("key {}", k.name)))?;
        ensure!(
            have == k.width,
            T1,
            "key {} is declared with {} bits, its expression has {have}",
            k.name,
            k.width
        );
        code::declared_width("key", &k.name, k.width)?;
    }
    Ok(())
}

fn action_exists(p: &Program, a: ActionId) -> Result {
    let n = p.actions.len();
    ensure!(a.index() < n, N4, "there is no {a}; there are {n} actions");
    Ok(())
}

fn table(p: &Program, id: TableId, t: &Table) -> Result {
    for (i, a) in t.actions.iter().flatten().enumerate() {
        action_exists(p, *a)?;
        let action: &Arc<_> = &p.actions[a.index()];
        let twice = t.actions.as_ref().is_some_and(|l| l[..i].contains(a));
        ensure!(!twice, T2, "action {} is listed twice", action.name);
        position(p, id, action)?;
    }
    action_exists(p, t.default.action).map_err(|e| e.within("default action"))?;
    let action = &p.actions[t.default.action.index()];
    arguments(action, &t.default)
        .and_then(|()| position(p, id, action))
        .map_err(|e| e.within("default action"))
}

/// One block.
pub(super) fn block(p: &Program, index: usize) -> Result {
    let b = &p.blocks[index];
    let own = BlockId(index as u32);
    let later = |to: BlockId| {
        let n = p.blocks.len();
        ensure!(to.index() < n, N4, "there is no {to}; there are {n} blocks");
        ensure!(
            to > own,
            B1,
            "control goes to block {}, which is not later",
            p.blocks[to.index()].name
        );
        Ok(())
    };
    let inner = || {
        Scope::block(p, own).ops(&b.ops)?;
        match &b.end {
            Terminator::Exit => Ok(()),
            Terminator::Jump(to) => later(*to),
            Terminator::If { condition, then, or_else } => {
                Scope::plain(p).condition(condition)?;
                later(*then)?;
                later(*or_else)
            }
            Terminator::Apply { table, hit, miss, by_action } => {
                let n = p.tables.len();
                let Some(t) = p.tables.get(table.index()) else {
                    let text = format!("there is no {table}; there are {n} tables");
                    return Err(Error::new(Rule::N4, text));
                };
                later(*hit)?;
                later(*miss)?;
                for (i, (a, to)) in by_action.iter().enumerate() {
                    action_exists(p, *a)?;
                    let name = &p.actions[a.index()].name;
                    let known =
                        t.default.action == *a || t.actions.as_ref().is_none_or(|l| l.contains(a));
                    ensure!(known, T2, "table {} does not allow action {name}", t.name);
                    let twice = by_action[..i].iter().any(|(b, _)| b == a);
                    ensure!(!twice, T2, "action {name} is decided on twice");
                    later(*to)?;
                }
                Ok(())
            }
        }
    };
    inner().map_err(|e| e.within(format_args!("block {}", b.name)))
}
