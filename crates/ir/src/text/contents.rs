//! The parser of what controllers put into a pipeline: entries, defaults, groups, meters, value
//! sets, added actions. Each item becomes one [`Update`].

use super::code::{Names, lookup};
use super::cursor::{Cursor, Parsed, nearest};
use super::error::Error;
use super::lex::Kind;
use super::parse::{self, Item, word};
use crate::expr::Expr;
use crate::id::{CounterId, EntryId, GroupId, MeterId, TableId, ValueSetId};
use crate::pipeline::{
    ActionCall, Band, Bucket, Entry, Group, GroupKind, KeyMatch, Meter, Pattern, Pipeline, Update,
};
use crate::program::Program;
use std::sync::Arc;

/// Does what the items say, in their order (added actions and groups before what uses them). `next`
/// is the id of the next entry that gives none.
pub(super) fn apply(pipeline: &mut Pipeline, items: &[Item], next: &mut u32) -> Parsed<()> {
    for item in items {
        let added = item.keyword == "action" && parse_added(pipeline, item)?;
        if added {
            continue;
        }
        let mut c = item.cursor();
        let at = c.clone();
        let update = match item.keyword.as_str() {
            "entry" => entry(pipeline, &mut c, next)?,
            "default" => default(pipeline, &mut c)?,
            "group" => group(pipeline, &mut c)?,
            "meter" => meter(&mut c)?,
            "members" => members(pipeline.program(), &mut c)?,
            _ => continue,
        };
        c.end_statement()?;
        commit(pipeline, update, &at)?;
    }
    Ok(())
}

fn commit(pipeline: &mut Pipeline, update: Update, at: &Cursor<'_>) -> Parsed<()> {
    let (line, column) = at.place();
    let fail =
        |(_, e): (usize, crate::pipeline::UpdateError)| Error { line, column, text: e.to_string() };
    pipeline.transact(&[update]).map(drop).map_err(fail)
}

fn parse_added(pipeline: &mut Pipeline, item: &Item) -> Parsed<bool> {
    let mut c = item.cursor();
    let at = c.clone();
    let program = pipeline.program().clone();
    let (action, Some(id)) = parse::action(&program, &mut c)? else { return Ok(false) };
    c.end_statement()?;
    commit(pipeline, Update::AddAction(id, Arc::new(action)), &at)?;
    Ok(true)
}

/// A call of any action of the pipeline.
pub(super) fn call(p: &Pipeline, c: &mut Cursor<'_>) -> Parsed<ActionCall> {
    let known: Vec<&str> = p
        .program()
        .actions
        .iter()
        .map(|a| a.name.as_str())
        .chain(p.added_actions().map(|(_, a)| a.name.as_str()))
        .collect();
    parse::call(c, |n| p.find_action(n), |id| p.action(id).map(|a| &**a), &known)
}

pub(super) fn table_id(p: &Program, c: &mut Cursor<'_>) -> Parsed<TableId> {
    lookup(c, "table", |n| p.find_table(n), p.tables.iter().map(|t| &*t.name))
}

pub(super) fn default(p: &Pipeline, c: &mut Cursor<'_>) -> Parsed<Update> {
    let table = table_id(p.program(), c)?;
    c.want("=>")?;
    Ok(Update::SetDefault(table, call(p, c)?))
}

/// `table pattern... option=value... => call`.
pub(super) fn entry(p: &Pipeline, c: &mut Cursor<'_>, next: &mut u32) -> Parsed<Update> {
    let (table, mut entry) = entry_key(p, c, next)?;
    c.want("=>")?;
    entry.action = call(p, c)?;
    *next = entry.id.0.wrapping_add(1);
    Ok(Update::Insert(table, Arc::new(entry)))
}

/// An entry up to its `=>`; its action is yet to come.
pub(super) fn entry_key(p: &Pipeline, c: &mut Cursor<'_>, next: &u32) -> Parsed<(TableId, Entry)> {
    let id = table_id(p.program(), c)?;
    let table = &p.program().tables[id.index()];
    let mut entry = Entry {
        id: EntryId(*next),
        priority: 0,
        matches: Default::default(),
        action: ActionCall::new(Default::default()),
        cookie: 0,
        idle_timeout_ns: 0,
        hard_timeout_ns: 0,
    };
    let mut matches: Vec<KeyMatch> = Vec::new();
    let mut position = 0;
    while !c.is("=>") && !c.at_end() {
        let named = matches!(c.peek_at(1), Kind::Punct("="));
        if !named {
            let Some(key) = table.key.get(position) else {
                return c.error(format!("table {} has {position} keys, no more", table.name));
            };
            if let Some(pattern) = key_pattern(c, key.width)? {
                matches.push(KeyMatch { key: position as u16, pattern });
            }
            position += 1;
            continue;
        }
        if let Kind::Word(w) = c.peek()
            && option(c, w, &mut entry)?
        {
            continue;
        }
        let at = c.clone();
        let n = c.name("a key")?;
        c.want("=")?;
        let Some(i) = table.key.iter().position(|k| k.name == n) else {
            let options = ["priority", "id", "cookie", "idle_ns", "hard_ns"];
            let near = nearest(&n, table.key.iter().map(|k| &*k.name).chain(options));
            return at.error(format!("table {} has no key `{n}`{near}", table.name));
        };
        if matches.iter().any(|m| m.key as usize == i) {
            return at.error(format!("key {n} is given twice"));
        }
        if let Some(pattern) = key_pattern(c, table.key[i].width)? {
            matches.push(KeyMatch { key: i as u16, pattern });
        }
    }
    matches.sort_by_key(|m| m.key);
    entry.matches = matches.into();
    Ok((id, entry))
}

/// `word=number`, if the word is one of an entry's options.
fn option(c: &mut Cursor<'_>, word: &str, entry: &mut Entry) -> Parsed<bool> {
    if !matches!(word, "priority" | "id" | "cookie" | "idle_ns" | "hard_ns") {
        return Ok(false);
    }
    c.next();
    c.want("=")?;
    match word {
        "priority" => {
            let at = c.clone();
            let negative = c.eat("-");
            let v = c.number("a priority", 32)? as i64;
            let v = if negative { -v } else { v };
            match i32::try_from(v) {
                Ok(v) => entry.priority = v,
                Err(_) => return at.error("a priority lies between -2^31 and 2^31 - 1"),
            }
        }
        "id" => entry.id = EntryId(c.u32("an entry's id")?),
        "cookie" => entry.cookie = c.number("a cookie", 64)? as u64,
        "idle_ns" => entry.idle_timeout_ns = c.number("nanoseconds", 64)? as u64,
        _ => entry.hard_timeout_ns = c.number("nanoseconds", 64)? as u64,
    }
    Ok(true)
}

/// `v`, `v/len`, `v &&& m`, `a..b`, or `_` for nothing.
fn key_pattern(c: &mut Cursor<'_>, width: u32) -> Parsed<Option<Pattern>> {
    if c.eat_word("_") {
        return Ok(None);
    }
    let v = c.value(width)?;
    Ok(Some(if c.eat("/") {
        Pattern::Prefix(v, c.u32("a prefix length")?)
    } else if c.eat("&&&") {
        Pattern::Masked(v, c.value(width)?)
    } else if c.eat("..") {
        Pattern::Range(v, c.value(width)?)
    } else {
        Pattern::Exact(v)
    }))
}

/// `word=number` as often as it comes, for these words.
fn numbers(c: &mut Cursor<'_>, known: &[&str]) -> Parsed<Vec<(String, u64)>> {
    let mut out = Vec::new();
    while let Kind::Word(w) = c.peek() {
        if !matches!(c.peek_at(1), Kind::Punct("=")) {
            break;
        }
        if !known.contains(&w.as_str()) {
            let near = nearest(w, known.iter().copied());
            return c.error(format!("`{w}` is not known here{near}"));
        }
        c.next();
        c.next();
        out.push((
            w.clone(),
            c.number(w, if w == "rate" || w == "burst" { 64 } else { 32 })? as u64,
        ));
    }
    Ok(out)
}

pub(super) fn group(p: &Pipeline, c: &mut Cursor<'_>) -> Parsed<Update> {
    let id = GroupId(c.u32("a group's number")?);
    let kind = word(
        c,
        "a kind of group",
        &[
            ("all", GroupKind::All),
            ("select", GroupKind::Select),
            ("indirect", GroupKind::Indirect),
            ("fast_failover", GroupKind::FastFailover),
            ("slots", GroupKind::Slots),
        ],
    )?;
    let (mut buckets, mut hash, mut counter) = (Vec::new(), Vec::new(), CounterId(0));
    for (_, v) in numbers(c, &["counter"])? {
        counter = CounterId(v as u32);
    }
    if c.eat_word("hash") {
        c.want("(")?;
        let names = Names::new(p.program(), &[]);
        while !c.eat(")") {
            if !hash.is_empty() {
                c.want(",")?;
            }
            let e: Expr = names.expr(c, None)?;
            hash.push(e);
        }
    }
    c.statements(|c| {
        c.want_word("bucket")?;
        let mut bucket = Bucket {
            weight: 1,
            watch_port: None,
            watch_group: None,
            action: ActionCall::new(Default::default()),
            counter: CounterId(0),
        };
        let at = c.clone();
        for (w, v) in numbers(c, &["weight", "watch_port", "watch_group", "counter"])? {
            match w.as_str() {
                "weight" => match u16::try_from(v) {
                    Ok(v) => bucket.weight = v,
                    Err(_) => return at.error("a weight is at most 65535"),
                },
                "watch_port" => bucket.watch_port = Some(v as u32),
                "watch_group" => bucket.watch_group = Some(GroupId(v as u32)),
                _ => bucket.counter = CounterId(v as u32),
            }
        }
        c.want("=>")?;
        bucket.action = call(p, c)?;
        buckets.push(bucket);
        Ok(())
    })?;
    let group = Group { kind, buckets, hash: hash.into(), counter };
    Ok(Update::SetGroup(id, Arc::new(group)))
}

pub(super) fn meter(c: &mut Cursor<'_>) -> Parsed<Update> {
    let id = MeterId(c.u32("a meter's number")?);
    let packets = word(c, "a unit", &[("packets", true), ("bits", false)])?;
    let mut meter = Meter { packets, bands: Vec::new() };
    c.statements(|c| {
        c.want_word("band")?;
        let mut band = Band { rate: 0, burst: 0, color: 0, level: 0 };
        let at = c.clone();
        for (w, v) in numbers(c, &["rate", "burst", "color", "level"])? {
            let byte = |v: u64| match u8::try_from(v) {
                Ok(v) => Ok(v),
                Err(_) => at.error(format!("{w} is at most 255")),
            };
            match w.as_str() {
                "rate" => band.rate = v,
                "burst" => band.burst = v,
                "color" => band.color = byte(v)?,
                _ => band.level = byte(v)?,
            }
        }
        meter.bands.push(band);
        Ok(())
    })?;
    Ok(Update::SetMeter(id, Arc::new(meter)))
}

/// `value_set = pattern, ...`.
pub(super) fn members(p: &Program, c: &mut Cursor<'_>) -> Parsed<Update> {
    let known = p.value_sets.iter().map(|s| &*s.name);
    let id: ValueSetId = lookup(c, "value set", |n| p.find_value_set(n), known)?;
    c.want("=")?;
    let mut out = Vec::new();
    while !c.at_end() {
        if !out.is_empty() {
            c.want(",")?;
        }
        out.push(parse::select_pattern(p, c, p.value_sets[id.index()].width)?);
    }
    Ok(Update::SetValueSet(id, out))
}
