//! The parser of declarations.
//!
//! A text is a list of items. They are read by kind, not by place: first every name is declared, in
//! the order of the text, then bodies are read, so that an item may speak of a later one. An item of
//! a library gives way to one of the same kind and name in the text that uses it.

use super::code::{Names, lookup};
use super::cursor::{Cursor, Parsed, fit, nearest};
use super::error::Error;
use super::lex::{self, Kind, Token};
use super::libraries;
use super::print::CAPACITY;
use crate::bits::Bits;
use crate::expr::Expr;
use crate::id::{
    ActionId, BlockId, HeaderId, HeaderTypeId, ParserStateId, StackId, TableId, UnionId,
};
use crate::pipeline::ActionCall;
use crate::program::{
    Action, Block, Checksum, ChecksumAlgorithm, ChecksumMode, CounterArray, Digest, Field,
    HeaderInstance, HeaderType, Key, MatchKind, MetaField, Param, ParserOp, ParserState, Preface,
    Program, Register, Select, SelectCase, Service, Stack, Table, Terminator, Transition, Union,
    ValueSet,
};
use std::sync::Arc;

/// One item: its tokens, whose first one is the keyword.
pub(super) struct Item {
    pub(super) keyword: String,
    /// The name that comes after the keyword, if one does.
    name: Option<String>,
    pub(super) tokens: Vec<Token>,
}

impl Item {
    /// Behind the keyword.
    pub(super) fn cursor(&self) -> Cursor<'_> {
        let mut c = Cursor::new(&self.tokens);
        c.next();
        c
    }

    fn is_added_action(&self) -> bool {
        self.keyword == "action" && {
            let mut c = self.cursor();
            c.next();
            if c.is("(") {
                while !matches!(c.next(), Kind::Punct(")") | Kind::End) {}
            }
            c.is_word("id")
        }
    }
}

/// Words that begin an item; those of the second list speak of a pipeline's contents.
const DECLARATIONS: &[&str] = &[
    "type",
    "header",
    "stack",
    "union",
    "meta",
    "value_set",
    "register",
    "counter",
    "digest",
    "service",
    "reject",
    "preface",
    "state",
    "deparser",
    "checksum",
    "action",
    "table",
    "block",
    "blocks",
    "fill",
];
const CONTENTS: &[&str] = &["entry", "default", "group", "meter", "members"];

/// All items of a text and of the libraries it uses.
pub(super) fn items(text: &str, first_line: u32) -> Parsed<Vec<Item>> {
    let own = split(text, first_line)?;
    let mut out = Vec::new();
    for item in &own {
        if item.keyword == "use" {
            let mut c = item.cursor();
            let at = c.clone();
            let n = c.name("a library")?;
            let Some(source) = libraries::find(&n) else {
                let near = nearest(&n, libraries::NAMES.iter().copied());
                return at.error(format!("there is no library `{n}`{near}"));
            };
            c.end_statement()?;
            let given = |i: &Item| {
                own.iter().any(|o| o.keyword == i.keyword && o.name.is_some() && o.name == i.name)
            };
            out.extend(split(source, 1)?.into_iter().filter(|i| !given(i)));
        }
    }
    out.extend(own.into_iter().filter(|i| i.keyword != "use"));
    Ok(out)
}

/// Items of one text. A statement that begins with none of the known words is an error.
fn split(text: &str, first_line: u32) -> Parsed<Vec<Item>> {
    let tokens = lex::tokens(text, first_line)?;
    let mut out = Vec::new();
    let mut current: Vec<Token> = Vec::new();
    let mut depth = 0usize;
    for t in tokens {
        match &t.kind {
            Kind::Punct("{") => depth += 1,
            Kind::Punct("}") => match depth.checked_sub(1) {
                Some(d) => depth = d,
                None => {
                    let text = "this `}` closes nothing".to_string();
                    return Err(Error { line: t.line, column: t.column, text });
                }
            },
            _ => {}
        }
        let ends = depth == 0 && t.kind == Kind::Separator || t.kind == Kind::End;
        if !ends {
            current.push(t);
            continue;
        }
        if current.is_empty() {
            continue;
        }
        let mut tokens = std::mem::take(&mut current);
        tokens.push(Token { kind: Kind::End, line: t.line, column: t.column });
        let mut c = Cursor::new(&tokens);
        let keyword = match c.peek() {
            Kind::Word(w)
                if w == "use"
                    || DECLARATIONS.contains(&w.as_str())
                    || CONTENTS.contains(&w.as_str()) =>
            {
                w.clone()
            }
            Kind::Word(w) => {
                let known = DECLARATIONS.iter().chain(CONTENTS).copied();
                return c.error(format!("`{w}` begins no declaration{}", nearest(w, known)));
            }
            _ => return c.expected("a declaration"),
        };
        c.next();
        let name = match c.peek() {
            Kind::Word(w) | Kind::Quoted(w) => Some(w.clone()),
            _ => None,
        };
        out.push(Item { keyword, name, tokens });
    }
    Ok(out)
}

/// The program that the items declare. It is not verified.
pub(super) fn program(items: &[Item]) -> Parsed<Program> {
    let mut p = Program::new();
    let of = |kinds: &'static [&'static str]| {
        items.iter().filter(move |i| kinds.contains(&i.keyword.as_str()))
    };
    for item in of(&["type"]) {
        let ty = header_type(&mut item.cursor())?;
        p.header_types.push(ty);
    }
    for item in of(&["header", "stack"]) {
        let mut c = item.cursor();
        if item.keyword == "header" { header(&mut p, &mut c) } else { stack(&mut p, &mut c) }?;
        c.end_statement()?;
    }
    for item in of(&["union", "meta", "value_set", "register", "counter", "digest", "service"]) {
        let mut c = item.cursor();
        simple(&mut p, &item.keyword, &mut c)?;
        c.end_statement()?;
    }
    // Names first, so that bodies may speak of what comes later.
    for item in of(&["state", "action", "table", "block"]) {
        if !item.is_added_action() {
            announce(&mut p, item)?;
        }
    }
    let (mut states, mut tables, mut blocks) = (0, 0, 0);
    let mut actions = 0;
    for item in items {
        let mut c = item.cursor();
        match item.keyword.as_str() {
            "reject" => {
                c.want_word("continues")?;
                p.reject_continues = true;
            }
            "preface" => {
                let ports = c.number("ports", 16)? as u16;
                let bytes = c.number("bytes", 16)? as u16;
                p.preface = Some(Preface { ports, bytes });
            }
            "state" => {
                let (ops, next) = state(&p, &mut c)?;
                p.parser[states].ops = ops;
                p.parser[states].next = next;
                states += 1;
            }
            "deparser" => {
                while !c.at_end() {
                    deparser(&mut p, &mut c)?;
                }
            }
            "checksum" => {
                let sum = checksum(&p, &mut c)?;
                p.checksums.push(sum);
            }
            "action" if !item.is_added_action() => {
                let a = action(&p, &mut c)?.0;
                p.actions[actions] = Arc::new(a);
                actions += 1;
            }
            "table" => {
                let t = table(&p, &mut c)?;
                p.tables[tables] = t;
                tables += 1;
            }
            _ => continue,
        }
        c.end_statement()?;
    }
    for item in of(&["block"]) {
        let mut c = item.cursor();
        let (ops, end) = block(&p, BlockId(blocks as u32), &mut c)?;
        p.blocks[blocks].ops = ops;
        p.blocks[blocks].end = end;
        blocks += 1;
        c.end_statement()?;
    }
    let mut none = false;
    for item in of(&["blocks"]) {
        let mut c = item.cursor();
        c.want_word("none")?;
        c.end_statement()?;
        none = true;
    }
    if p.blocks.is_empty() && !p.tables.is_empty() && !none {
        in_order(&mut p);
    }
    Ok(p)
}

/// One block for each table, in order, and one to end with.
fn in_order(p: &mut Program) {
    for (i, t) in p.tables.iter().enumerate() {
        let next = BlockId(i as u32 + 1);
        let table = TableId(i as u32);
        let end = Terminator::Apply { table, hit: next, miss: next, by_action: Vec::new() };
        p.blocks.push(Block { name: t.name.clone(), ops: Vec::new(), end });
    }
    let mut name = "done".to_string();
    while p.blocks.iter().any(|b| b.name == name) {
        name.push('_');
    }
    p.blocks.push(Block { name, ops: Vec::new(), end: Terminator::Exit });
}

fn width(c: &mut Cursor<'_>) -> Parsed<u32> {
    c.want(":")?;
    c.u32("a width in bits")
}

fn header_type(c: &mut Cursor<'_>) -> Parsed<HeaderType> {
    let name = c.name("the header type's name")?;
    let mut fields = Vec::new();
    c.statements(|c| {
        let name = c.name("a field's name")?;
        let width = width(c)?;
        fields.push(Field { name, width, varbit: c.eat_word("varbit") });
        Ok(())
    })?;
    c.end_statement()?;
    Ok(HeaderType { name, fields })
}

fn type_name(p: &Program, c: &mut Cursor<'_>) -> Parsed<HeaderTypeId> {
    let known = p.header_types.iter().map(|t| &*t.name);
    lookup(c, "header type", |n| p.find_header_type(n), known)
}

fn header(p: &mut Program, c: &mut Cursor<'_>) -> Parsed<()> {
    let name = c.name("the header's name")?;
    c.want(":")?;
    let header_type = type_name(p, c)?;
    p.headers.push(HeaderInstance { name, header_type, stack: None, union: None });
    Ok(())
}

fn stack(p: &mut Program, c: &mut Cursor<'_>) -> Parsed<()> {
    let name = c.name("the stack's name")?;
    c.want(":")?;
    let header_type = type_name(p, c)?;
    c.want(",")?;
    let at = c.clone();
    let size = c.u32("how many elements")?;
    if size > 255 {
        return at.error(format!("a stack of {size} elements; 1 to 255 are allowed"));
    }
    let id = StackId(p.stacks.len() as u32);
    let first = HeaderId(p.headers.len() as u32);
    for i in 0..size {
        let name = format!("{name}[{i}]");
        p.headers.push(HeaderInstance { name, header_type, stack: Some((id, i)), union: None });
    }
    p.stacks.push(Stack { name, first, size });
    Ok(())
}

fn simple(p: &mut Program, keyword: &str, c: &mut Cursor<'_>) -> Parsed<()> {
    let name = c.name("a name")?;
    match keyword {
        "union" => {
            c.want(":")?;
            let id = UnionId(p.unions.len() as u32);
            let mut members = Vec::new();
            while !c.at_end() {
                let h = Names::new(p, &[]).header(c)?;
                p.headers[h.index()].union = Some(id);
                members.push(h);
            }
            p.unions.push(Union { name, members });
        }
        "meta" => {
            let width = width(c)?;
            p.metadata.push(MetaField { name, width });
        }
        "value_set" => {
            let width = width(c)?;
            c.want(",")?;
            p.value_sets.push(ValueSet { name, width, capacity: c.u32("a capacity")? });
        }
        "register" => {
            let width = width(c)?;
            c.want(",")?;
            p.registers.push(Register { name, width, size: c.u32("a number of cells")? });
        }
        "counter" => {
            c.want(":")?;
            p.counters.push(CounterArray { name, size: c.u32("a number of cells")? });
        }
        "service" => {
            let args = params(c)?;
            let results = if c.eat("->") { params(c)? } else { Vec::new() };
            p.services.push(Service { name, args, results, edits: c.eat_word("edits") });
        }
        _ => p.digests.push(Digest { name, fields: params(c)? }),
    }
    Ok(())
}

/// `(name: width, ...)`, or nothing.
fn params(c: &mut Cursor<'_>) -> Parsed<Vec<Param>> {
    let mut out = Vec::new();
    if c.eat("(") {
        while !c.eat(")") {
            if !out.is_empty() {
                c.want(",")?;
            }
            let name = c.name("a parameter's name")?;
            out.push(Param { name, width: width(c)? });
        }
    }
    Ok(out)
}

fn announce(p: &mut Program, item: &Item) -> Parsed<()> {
    let mut c = item.cursor();
    let name = c.name(&format!("the {}'s name", item.keyword))?;
    match item.keyword.as_str() {
        "state" => {
            p.parser.push(ParserState { name, ops: Vec::new(), next: Transition::Accept });
        }
        "action" => {
            let params = params(&mut c)?;
            p.actions.push(Arc::new(Action { name, params, body: Vec::new() }));
        }
        "table" => p.tables.push(Table {
            name,
            key: Arc::new([]),
            actions: None,
            default: ActionCall::new(ActionId(0)),
            default_const: false,
            capacity: CAPACITY,
            counters: false,
        }),
        _ => p.blocks.push(Block { name, ops: Vec::new(), end: Terminator::Exit }),
    }
    Ok(())
}

// Parser and deparser.

fn state(p: &Program, c: &mut Cursor<'_>) -> Parsed<(Vec<ParserOp>, Transition)> {
    let names = Names::new(p, &[]);
    c.name("the state's name")?;
    let mut ops = Vec::new();
    let mut next = None;
    c.statements(|c| {
        if next.is_some() {
            return c.error("the state has already ended");
        }
        let assigned = matches!(c.peek_at(1), Kind::Punct("="));
        let word = match c.peek() {
            Kind::Word(w) if !assigned => w.as_str(),
            _ => "",
        };
        let varbit = |c: &mut Cursor<'_>| {
            if c.eat(",") { names.expr(c, None).map(Some) } else { Ok(None) }
        };
        match word {
            "extract" => {
                c.next();
                if c.eat_word("next") {
                    let stack = names.stack(c)?;
                    ops.push(ParserOp::ExtractNext { stack, varbit: varbit(c)? });
                } else {
                    let header = names.header(c)?;
                    ops.push(ParserOp::Extract { header, varbit: varbit(c)? });
                }
            }
            "advance" => {
                c.next();
                ops.push(ParserOp::Advance(names.expr(c, Some(32))?));
            }
            "verify" => {
                c.next();
                let e = names.expr(c, Some(1))?;
                c.want(",")?;
                ops.push(ParserOp::Verify(e, c.number("an error code", 8)? as u8));
            }
            "goto" => {
                c.next();
                next = Some(Transition::State(state_name(p, c)?));
            }
            "accept" | "reject" | "select" => next = Some(transition(&names, c, 0)?),
            _ => {
                let f = names.assigned_field(c)?;
                c.want("=")?;
                ops.push(ParserOp::Assign(f, names.expr(c, p.field_width(f))?));
            }
        }
        Ok(())
    })?;
    Ok((ops, next.unwrap_or(Transition::Accept)))
}

fn state_name(p: &Program, c: &mut Cursor<'_>) -> Parsed<ParserStateId> {
    lookup(c, "parser state", |n| p.find_state(n), p.parser.iter().map(|s| &*s.name))
}

fn transition(names: &Names<'_>, c: &mut Cursor<'_>, depth: u32) -> Parsed<Transition> {
    if depth >= crate::verify::DEPTH_MAX {
        return c.error("selects are nested too deep");
    }
    if c.eat_word("accept") {
        return Ok(Transition::Accept);
    }
    if c.eat_word("reject") {
        return Ok(Transition::Reject);
    }
    if !c.eat_word("select") {
        return Ok(Transition::State(state_name(names.program, c)?));
    }
    let mut keys = Vec::new();
    if !c.is("{") {
        keys.push(names.expr(c, None)?);
        while c.eat(",") {
            keys.push(names.expr(c, None)?);
        }
    }
    let at = c.clone();
    let widths: Option<Vec<u32>> = keys.iter().map(|k| names.width(k)).collect();
    let Some(widths) = widths else { return at.error("a key of the select has no width") };
    let mut cases = Vec::new();
    c.statements(|c| {
        let mut patterns = Vec::new();
        while !c.is("=>") {
            if !patterns.is_empty() {
                c.want(",")?;
            }
            let Some(width) = widths.get(patterns.len()) else {
                return c.error(format!("more patterns than the {} keys", widths.len()));
            };
            patterns.push(select_pattern(names.program, c, *width)?);
        }
        c.want("=>")?;
        cases.push(SelectCase { patterns, next: transition(names, c, depth + 1)? });
        Ok(())
    })?;
    Ok(Transition::Select { keys, cases })
}

/// `_`, `v`, `v/len`, `v &&& m`, `a..b` or `in set`.
pub(super) fn select_pattern(p: &Program, c: &mut Cursor<'_>, width: u32) -> Parsed<Select> {
    if c.eat_word("_") {
        return Ok(Select::Any);
    }
    if c.eat_word("in") {
        let known = p.value_sets.iter().map(|s| &*s.name);
        return Ok(Select::ValueSet(lookup(c, "value set", |n| p.find_value_set(n), known)?));
    }
    let v = c.value(width)?;
    Ok(if c.eat("&&&") {
        let mask = c.value(width)?;
        Select::Masked(v, mask)
    } else if c.eat("..") {
        Select::Range(v, c.value(width)?)
    } else if c.eat("/") {
        let len = c.u32("a prefix length")?;
        Select::Masked(v, Bits::prefix_mask(len.min(width), width))
    } else {
        Select::Masked(v, Bits::ones(width))
    })
}

fn deparser(p: &mut Program, c: &mut Cursor<'_>) -> Parsed<()> {
    let at = c.clone();
    let n = c.name("a header or a stack")?;
    if let Some(h) = p.find_header(&n) {
        p.deparser.push(h);
    } else if let Some(s) = p.find_stack(&n) {
        let Stack { first, size, .. } = p.stacks[s.index()];
        p.deparser.extend((first.0..first.0 + size).map(HeaderId));
    } else {
        let known = p.headers.iter().map(|h| &*h.name).chain(p.stacks.iter().map(|s| &*s.name));
        return at.error(format!("there is no header or stack `{n}`{}", nearest(&n, known)));
    }
    Ok(())
}

fn checksum(p: &Program, c: &mut Cursor<'_>) -> Parsed<Checksum> {
    let names = Names::new(p, &[]);
    let field = names.field(c)?;
    let algorithm = word(
        c,
        "a checksum function",
        &[("csum16", ChecksumAlgorithm::Csum16), ("crc32c", ChecksumAlgorithm::Crc32c)],
    )?;
    let mode = word(
        c,
        "when it is written",
        &[
            ("incremental", ChecksumMode::Incremental),
            ("if_changed", ChecksumMode::IfChanged),
            ("always", ChecksumMode::Always),
        ],
    )?;
    let mut sum = Checksum {
        field,
        algorithm,
        mode,
        inputs: Vec::new(),
        payload: false,
        condition: None,
        zero_is_none: false,
    };
    c.statements(|c| {
        let at = c.clone();
        match c.name("`inputs`, `payload`, `if` or `zero_is_none`")?.as_str() {
            "inputs" => {
                sum.inputs.push(names.expr(c, None)?);
                while c.eat(",") {
                    sum.inputs.push(names.expr(c, None)?);
                }
            }
            "payload" => sum.payload = true,
            "if" => sum.condition = Some(names.expr(c, Some(1))?),
            "zero_is_none" => sum.zero_is_none = true,
            _ => return at.expected("`inputs`, `payload`, `if` or `zero_is_none`"),
        }
        Ok(())
    })?;
    Ok(sum)
}

/// One of a few words.
pub(super) fn word<T: Copy>(c: &mut Cursor<'_>, what: &str, known: &[(&str, T)]) -> Parsed<T> {
    let words = || known.iter().map(|(w, _)| *w);
    let list: Vec<String> = words().map(|w| format!("`{w}`")).collect();
    let at = c.clone();
    let n = c.name(&format!("{what} ({})", list.join(", ")))?;
    match known.iter().find(|(w, _)| *w == n) {
        Some((_, v)) => Ok(*v),
        None => {
            let near = nearest(&n, words());
            at.error(format!("`{n}` is not {what} ({}){near}", list.join(", ")))
        }
    }
}

// Actions, tables, blocks.

/// An action; the id, if it gives one.
pub(super) fn action(p: &Program, c: &mut Cursor<'_>) -> Parsed<(Action, Option<ActionId>)> {
    let name = c.name("the action's name")?;
    let params = params(c)?;
    let id = if c.eat_word("id") {
        c.want("=")?;
        Some(ActionId(c.u32("an action's id")?))
    } else {
        None
    };
    let body = Names::new(p, &params).body(c, 0)?;
    Ok((Action { name, params, body }, id))
}

fn action_name(p: &Program, c: &mut Cursor<'_>) -> Parsed<ActionId> {
    lookup(c, "action", |n| p.find_action(n), p.actions.iter().map(|a| &*a.name))
}

/// `name(value, ...)` or `#id(value, ...)`; `find` gives what a name or an id means.
pub(super) fn call<'a>(
    c: &mut Cursor<'_>,
    by_name: impl Fn(&str) -> Option<ActionId>,
    by_id: impl Fn(ActionId) -> Option<&'a Action>,
    known: &[&str],
) -> Parsed<ActionCall> {
    let at = c.clone();
    let id = if c.eat("#") {
        ActionId(c.u32("an action's id")?)
    } else {
        lookup(c, "action", by_name, known.iter().copied())?
    };
    let Some(action) = by_id(id) else { return at.error(format!("there is no {id}")) };
    let mut args = Vec::new();
    if c.eat("(") {
        while !c.eat(")") {
            if !args.is_empty() {
                c.want(",")?;
            }
            let at = c.clone();
            let l = c.literal("a value")?;
            // One argument too many is the verifier's to refuse; it needs some width until then.
            let width = action.params.get(args.len()).map_or(l.width.unwrap_or(32), |p| p.width);
            args.push(fit(l, width).or_else(|text| at.error(text))?);
        }
    }
    Ok(ActionCall::with(id, args))
}

fn program_call(p: &Program, c: &mut Cursor<'_>) -> Parsed<ActionCall> {
    let known: Vec<&str> = p.actions.iter().map(|a| a.name.as_str()).collect();
    call(c, |n| p.find_action(n), |id| p.actions.get(id.index()).map(|a| &**a), &known)
}

const KINDS: [(&str, MatchKind); 5] = [
    ("exact", MatchKind::Exact),
    ("lpm", MatchKind::Lpm),
    ("ternary", MatchKind::Ternary),
    ("range", MatchKind::Range),
    ("optional", MatchKind::Optional),
];

fn table(p: &Program, c: &mut Cursor<'_>) -> Parsed<Table> {
    let names = Names::new(p, &[]);
    let at = c.clone();
    let name = c.name("the table's name")?;
    let mut key: Vec<Key> = Vec::new();
    let mut shared = None;
    let mut actions = None;
    let mut default = None;
    let (mut default_const, mut capacity, mut counters) = (false, CAPACITY, false);
    c.statements(|c| {
        let at = c.clone();
        let what = "`key`, `actions`, `default`, `const default`, `capacity` or `counters`";
        match c.name(what)?.as_str() {
            "key" if c.is_word("like") && !matches!(c.peek_at(1), Kind::Punct("=")) => {
                c.next();
                let known = p.tables.iter().map(|t| &*t.name);
                let other = lookup(c, "table", |n| p.find_table(n), known)?;
                shared = Some(p.tables[other.index()].key.clone());
            }
            "key" => key.push(table_key(&names, c)?),
            "actions" => {
                let list: &mut Vec<ActionId> = actions.get_or_insert_default();
                while !c.at_end() {
                    list.push(action_name(p, c)?);
                }
            }
            "const" => {
                c.want_word("default")?;
                default_const = true;
                default = Some(program_call(p, c)?);
            }
            "default" => default = Some(program_call(p, c)?),
            "capacity" => capacity = c.u32("a capacity")?,
            "counters" => counters = true,
            _ => return at.expected(what),
        }
        Ok(())
    })?;
    let default = match default {
        Some(call) => call,
        None => match p.find_action("miss").or_else(|| p.find_action("drop")) {
            Some(id) => ActionCall::new(id),
            None => {
                return at.error(format!(
                    "table {name} says no `default`, and there is no action `miss` or `drop`"
                ));
            }
        },
    };
    let key = match shared {
        Some(key) => key,
        None => key.into(),
    };
    Ok(Table { name, key, actions, default, default_const, capacity, counters })
}

/// `[name =] expression kind`.
fn table_key(names: &Names<'_>, c: &mut Cursor<'_>) -> Parsed<Key> {
    let own = if matches!(c.peek_at(1), Kind::Punct("=")) {
        let n = c.name("the key's name")?;
        c.want("=")?;
        Some(n)
    } else {
        None
    };
    let at = c.clone();
    let expr = names.expr(c, None)?;
    let kind = word(c, "a kind of match", &KINDS)?;
    let name = match (own, &expr) {
        (Some(n), _) => n,
        (None, Expr::Field(f)) => names.program.field_name(*f),
        (None, e) => super::print::expr(names.program, &[], e),
    };
    let Some(width) = names.width(&expr) else { return at.error("the key has no width") };
    Ok(Key { name, expr, kind, width })
}

fn block(
    p: &Program,
    own: BlockId,
    c: &mut Cursor<'_>,
) -> Parsed<(Vec<crate::op::Op>, Terminator)> {
    let names = Names::new(p, &[]);
    c.name("the block's name")?;
    let following = BlockId(own.0 + 1);
    let has_following = following.index() < p.blocks.len();
    let mut ops = Vec::new();
    let mut end = None;
    c.statements(|c| {
        if end.is_some() {
            return c.error("the block has already ended");
        }
        let assigned = matches!(c.peek_at(1), Kind::Punct("=" | "["));
        let word = match c.peek() {
            Kind::Word(w) if !assigned => w.as_str(),
            _ => "",
        };
        end = Some(match word {
            "end" => {
                c.next();
                Terminator::Exit
            }
            "jump" => {
                c.next();
                Terminator::Jump(names.block(c)?)
            }
            "branch" => {
                c.next();
                let condition = names.expr(c, Some(1))?;
                c.want_word("then")?;
                let then = names.block(c)?;
                c.want_word("else")?;
                Terminator::If { condition, then, or_else: names.block(c)? }
            }
            "apply" => {
                c.next();
                let known = p.tables.iter().map(|t| &*t.name);
                let table = lookup(c, "table", |n| p.find_table(n), known)?;
                let (mut hit, mut miss, mut by_action) = (None, None, Vec::new());
                while !c.at_end() {
                    if c.eat_word("hit") {
                        hit = Some(names.block(c)?);
                    } else if c.eat_word("miss") {
                        miss = Some(names.block(c)?);
                    } else if c.eat_word("on") {
                        let a = action_name(p, c)?;
                        by_action.push((a, names.block(c)?));
                    } else {
                        return c.expected("`hit`, `miss` or `on`");
                    }
                }
                if !has_following && (hit.is_none() || miss.is_none()) {
                    return c.error("the last block cannot go on; say where with `hit` and `miss`");
                }
                let hit = hit.unwrap_or(following);
                Terminator::Apply { table, hit, miss: miss.unwrap_or(following), by_action }
            }
            _ => {
                ops.push(names.op(c, 0)?);
                return Ok(());
            }
        });
        Ok(())
    })?;
    let fall = if has_following { Terminator::Jump(following) } else { Terminator::Exit };
    Ok((ops, end.unwrap_or(fall)))
}

/// The item speaks of a pipeline's contents.
pub(super) fn is_content(item: &Item) -> bool {
    CONTENTS.contains(&item.keyword.as_str()) || item.is_added_action()
}
