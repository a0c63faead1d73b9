//! A lowered program under control: entries, groups and sessions by the names that a person uses.
//!
//! In: names, keys and values as text. Out: [`Update`]s, each checked by the pipeline before it is
//! handed on. It keeps the pipeline as it then is; engines follow the updates. STF files and the
//! text form of entries are both written in its terms.

use crate::lower::Lowered;
use crate::lower::names::{ActionName, KeyName, TableName, find};
use ir::program::MatchKind;
use ir::{
    ActionCall, Bits, Bucket, CounterId, Entry, EntryId, Group, GroupId, GroupKind, KeyMatch,
    Pattern, Pipeline, TableId, Update,
};
use num_bigint::BigUint;
use num_traits::Num;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of the group that clones of ingress by a mirroring session go to, for multicast group `n`.
const MIRROR_GROUP: u32 = 0x8000_0000;

/// A program with what is put into it.
#[derive(Debug)]
pub struct Control {
    /// The program's names.
    pub names: crate::lower::names::Names,
    /// The pipeline as it is.
    pub pipeline: Pipeline,
    next_entry: u32,
    /// Nodes of multicast: replica number and ports.
    nodes: Vec<(u16, Vec<u16>)>,
    /// Multicast groups: which nodes.
    groups: BTreeMap<u32, Vec<usize>>,
    /// Members of groups that mirroring sessions use.
    mirrored: Vec<u32>,
}

/// A number as written: digits, and which hexadecimal or binary digits are wild.
struct Number {
    value: BigUint,
    mask: Option<BigUint>,
}

fn number(text: &str) -> Result<Number, String> {
    let plain = text.replace('_', "");
    // A width in front, as in P4, says nothing that the key does not say.
    let plain = match plain.split_once('w') {
        Some((w, rest)) if w.chars().all(|c| c.is_ascii_digit()) && !w.is_empty() => {
            rest.to_string()
        }
        _ => plain,
    };
    let bad = || format!("`{text}` is no number");
    if plain.contains(':') || plain.matches('.').count() == 3 {
        return address(&plain).map(|value| Number { value, mask: None }).ok_or_else(bad);
    }
    if let Some(rest) = plain.strip_prefix('-') {
        let _ = rest;
        return Err(format!("`{text}`: negative numbers are written as their bits"));
    }
    let (radix, bits, digits) = match plain.get(..2) {
        Some("0x" | "0X") => (16, 4, &plain[2..]),
        Some("0b" | "0B") => (2, 1, &plain[2..]),
        Some("0o" | "0O") => (8, 3, &plain[2..]),
        _ => (10, 0, plain.as_str()),
    };
    if !digits.contains('*') || bits == 0 {
        let value = BigUint::from_str_radix(digits, radix).map_err(|_| bad())?;
        return Ok(Number { value, mask: None });
    }
    let (mut value, mut mask) = (BigUint::ZERO, BigUint::ZERO);
    for c in digits.chars() {
        value <<= bits;
        mask <<= bits;
        if c != '*' {
            value |= BigUint::from(c.to_digit(radix).ok_or_else(bad)?);
            mask |= BigUint::from((1u32 << bits) - 1);
        }
    }
    Ok(Number { value, mask: Some(mask) })
}

/// An IPv4, IPv6 or MAC address.
fn address(text: &str) -> Option<BigUint> {
    if let Ok(a) = text.parse::<std::net::Ipv4Addr>() {
        return Some(BigUint::from_bytes_be(&a.octets()));
    }
    if let Ok(a) = text.parse::<std::net::Ipv6Addr>() {
        return Some(BigUint::from_bytes_be(&a.octets()));
    }
    let bytes: Option<Vec<u8>> = text.split(':').map(|b| u8::from_str_radix(b, 16).ok()).collect();
    bytes.filter(|b| b.len() == 6).map(|b| BigUint::from_bytes_be(&b))
}

/// A number of `width` bits.
fn bits(n: &BigUint, width: u32, text: &str) -> Result<Bits, String> {
    if n.bits() > u64::from(width) {
        return Err(format!("`{text}` needs {} bits and has {width}", n.bits()));
    }
    let bytes = n.to_bytes_be();
    Ok(Bits::from_be_bytes(&bytes, bytes.len() as u32 * 8).cast(width))
}

/// A value as text, of `width` bits.
pub fn value(text: &str, width: u32) -> Result<Bits, String> {
    match text {
        "true" => return Ok(Bits::from_u128(1, width)),
        "false" => return Ok(Bits::zero(width)),
        _ => {}
    }
    let n = number(text)?;
    if n.mask.is_some() {
        return Err(format!("`{text}`: a value has no wild digits"));
    }
    bits(&n.value, width, text)
}

/// What a key must look like, as text: `5`, `0x1*`, `5&&&7`, `10.0.0.0/8`, `1..5`, `1->5`, `*`.
pub fn pattern(text: &str, key: &KeyName) -> Result<Option<Pattern>, String> {
    let w = key.width;
    let only = |kinds: &[MatchKind], what: &str| {
        if kinds.contains(&key.kind) {
            Ok(())
        } else {
            Err(format!(
                "`{text}`: {what} for the key `{}`, which is {}",
                key.name,
                key.kind.word()
            ))
        }
    };
    if text == "*" || text == "_" {
        if key.kind == MatchKind::Exact {
            return Err(format!("the key `{}` is exact and needs a value", key.name));
        }
        return Ok(None);
    }
    let whole = Bits::ones(w);
    if let Some((a, b)) = text.split_once("&&&") {
        only(&[MatchKind::Ternary, MatchKind::Optional], "a mask")?;
        let (a, m) = (value(a.trim(), w)?, value(b.trim(), w)?);
        if key.kind == MatchKind::Optional && !m.is_zero() && m != whole {
            return Err(format!("`{text}`: an optional key is given whole or not at all"));
        }
        return Ok(if m.is_zero() { None } else { Some(Pattern::Masked(a.and(&m), m)) }).map(|p| {
            match p {
                Some(Pattern::Masked(a, m)) if m == whole && key.kind == MatchKind::Optional => {
                    Some(Pattern::Exact(a))
                }
                p => p,
            }
        });
    }
    if let Some((a, b)) = text.split_once("->").or_else(|| text.split_once("..")) {
        only(&[MatchKind::Range], "a range")?;
        return Ok(Some(Pattern::Range(value(a.trim(), w)?, value(b.trim(), w)?)));
    }
    if let Some((a, len)) = text.split_once('/') {
        only(&[MatchKind::Lpm, MatchKind::Ternary], "a prefix")?;
        let len: u32 = len.trim().parse().ok().filter(|l| *l <= w).ok_or_else(|| {
            format!("`{text}`: a prefix of the key `{}` has 0 to {w} bits", key.name)
        })?;
        let a = value(a.trim(), w)?.and(&Bits::prefix_mask(len, w));
        return Ok(if len == 0 { None } else { Some(Pattern::Prefix(a, len)) });
    }
    let n = number(text)?;
    let v = bits(&n.value, w, text)?;
    match n.mask {
        None if key.kind == MatchKind::Range => Ok(Some(Pattern::Range(v.clone(), v))),
        None => Ok(Some(Pattern::Exact(v))),
        Some(mask) => {
            // Digits in front of those written are given, as zero.
            let digits =
                text.trim_start_matches("0x").trim_start_matches("0b").replace('_', "").len()
                    as u32;
            let each = if text.starts_with("0b") { 1 } else { 4 };
            let high = if digits * each < w {
                whole.sub(&Bits::ones(digits * each).cast(w))
            } else {
                Bits::zero(w)
            };
            let mask =
                Bits::from_be_bytes(&mask.to_bytes_be(), mask.to_bytes_be().len() as u32 * 8)
                    .cast(w)
                    .or(&high);
            if mask.is_zero() {
                return Ok(None);
            }
            match (key.kind, mask.prefix_len()) {
                (MatchKind::Lpm, Some(len)) => Ok(Some(Pattern::Prefix(v.and(&mask), len))),
                (MatchKind::Ternary, _) => Ok(Some(Pattern::Masked(v.and(&mask), mask))),
                _ if mask == whole => Ok(Some(Pattern::Exact(v))),
                _ => Err(format!(
                    "`{text}`: wild digits for the key `{}`, which is {}",
                    key.name,
                    key.kind.word()
                )),
            }
        }
    }
}

impl Control {
    /// A program with its own entries.
    pub fn new(lowered: Lowered) -> Result<Control, String> {
        let pipeline = Pipeline::new(Arc::new(lowered.program)).map_err(|e| e.to_string())?;
        let next_entry = lowered.entries.len() as u32 + 1;
        let mut control = Control {
            names: lowered.names,
            pipeline,
            next_entry,
            nodes: Vec::new(),
            groups: BTreeMap::new(),
            mirrored: Vec::new(),
        };
        let mut updates = Vec::new();
        for (table, entry) in lowered.entries {
            let update = Update::Insert(table, Arc::new(entry));
            // The first of two equal entries wins; the second is never reached.
            if control.pipeline.transact(std::slice::from_ref(&update)).is_ok() {
                updates.push(update);
            }
        }
        Ok(control)
    }

    fn commit(&mut self, updates: Vec<Update>) -> Result<Vec<Update>, String> {
        match self.pipeline.transact(&updates) {
            Ok(_) => Ok(updates),
            Err((_, e)) => Err(e.to_string()),
        }
    }

    /// The table with this name.
    pub fn table(&self, name: &str) -> Result<&TableName, String> {
        self.names.table(name).ok_or_else(|| {
            let known = self.names.tables.iter().map(|t| t.name.as_str());
            let near = crate::diag::nearest(name, known);
            let near = near.map_or(String::new(), |n| format!("; the nearest known name is `{n}`"));
            format!("there is no table `{name}`{near}")
        })
    }

    fn action<'t>(table: &'t TableName, name: &str) -> Result<&'t ActionName, String> {
        table.action(name).ok_or_else(|| {
            let known: Vec<&str> = table.actions.iter().map(|a| a.name.as_str()).collect();
            format!(
                "the table `{}` has no action `{name}`; it has {}",
                table.name,
                known.join(", ")
            )
        })
    }

    fn call(
        table: &TableName,
        action: &str,
        args: &[(Option<String>, String)],
    ) -> Result<ActionCall, String> {
        let a = Self::action(table, action)?;
        if args.len() != a.params.len() {
            return Err(format!(
                "`{}` takes {} arguments, not {}",
                a.name,
                a.params.len(),
                args.len()
            ));
        }
        let mut values: Vec<Option<Bits>> = vec![None; a.params.len()];
        for (i, (name, text)) in args.iter().enumerate() {
            let at = match name {
                Some(n) => a
                    .params
                    .iter()
                    .position(|(p, _)| p == n)
                    .ok_or_else(|| format!("`{}` has no parameter `{n}`", a.name))?,
                None => i,
            };
            values[at] = Some(value(text, a.params[at].1)?);
        }
        let values: Option<Vec<Bits>> = values.into_iter().collect();
        let values = values.ok_or_else(|| format!("`{}`: an argument is given twice", a.name))?;
        Ok(ActionCall::with(a.id, values))
    }

    /// Adds an entry; its id, too. Higher priorities win.
    pub fn add(
        &mut self,
        table: &str,
        keys: &[(Option<String>, String)],
        priority: i32,
        action: &str,
        args: &[(Option<String>, String)],
    ) -> Result<(EntryId, Vec<Update>), String> {
        let t = self.table(table)?.clone();
        let mut patterns: Vec<Option<Option<Pattern>>> = vec![None; t.keys.len()];
        for (i, (name, text)) in keys.iter().enumerate() {
            let at = match name {
                Some(n) => Self::key(&t, n, i)?,
                None if i < t.keys.len() => i,
                None => {
                    return Err(format!(
                        "the table `{}` has {} keys, not {}",
                        t.name,
                        t.keys.len(),
                        keys.len()
                    ));
                }
            };
            patterns[at] = Some(pattern(text, &t.keys[at])?);
        }
        let mut matches = Vec::new();
        for (i, p) in patterns.into_iter().enumerate() {
            match p {
                Some(Some(pattern)) => matches.push(KeyMatch { key: i as u16, pattern }),
                Some(None) => {}
                None if t.keys[i].kind == MatchKind::Exact => {
                    return Err(format!("the key `{}` is exact and needs a value", t.keys[i].name));
                }
                None => {}
            }
        }
        let id = EntryId(self.next_entry);
        let entry = Entry {
            id,
            priority,
            matches: matches.into(),
            action: Self::call(&t, action, args)?,
            cookie: 0,
            idle_timeout_ns: 0,
            hard_timeout_ns: 0,
        };
        let updates = self.commit(vec![Update::Insert(t.id, Arc::new(entry))])?;
        self.next_entry += 1;
        Ok((id, updates))
    }

    /// The key that a name means: itself, an end of it, or one that it ends with.
    fn key(t: &TableName, name: &str, position: usize) -> Result<usize, String> {
        let plain = {
            let mut out = String::new();
            let mut chars = name.chars().peekable();
            while let Some(c) = chars.next() {
                if c == '$' {
                    out.push('[');
                    while let Some(d) = chars.next_if(char::is_ascii_digit) {
                        out.push(d);
                    }
                    out.push(']');
                } else {
                    out.push(c);
                }
            }
            out
        };
        let names: Vec<(usize, &str)> =
            t.keys.iter().enumerate().map(|(i, k)| (i, k.name.as_str())).collect();
        if let Some((i, _)) = find(&names, |n| n.1, &plain) {
            return Ok(*i);
        }
        // P4-14's `valid(h)` is called as the header.
        let valid: Vec<(usize, &str)> =
            names.iter().filter_map(|(i, n)| Some((*i, n.strip_suffix(".isValid()")?))).collect();
        if let Some((i, _)) = find(&valid, |n| n.1, &plain) {
            return Ok(*i);
        }
        // Slices and validity as other tools spell them.
        let squeeze = |s: &str| s.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>();
        let same: Vec<usize> = names
            .iter()
            .filter(|(_, n)| {
                let (a, b) = (squeeze(n), squeeze(&plain));
                a.ends_with(&b) || b.ends_with(&a) || a.replace("isValid", "valid").ends_with(&b)
            })
            .map(|(i, _)| *i)
            .collect();
        match same.as_slice() {
            [one] => Ok(*one),
            _ if names.len() == 1 && position == 0 => Ok(0),
            _ => {
                let known: Vec<&str> = names.iter().map(|n| n.1).collect();
                Err(format!(
                    "the table `{}` has no key `{name}`; it has {}",
                    t.name,
                    known.join(", ")
                ))
            }
        }
    }

    /// Sets a table's default action.
    pub fn set_default(
        &mut self,
        table: &str,
        action: &str,
        args: &[(Option<String>, String)],
    ) -> Result<Vec<Update>, String> {
        let t = self.table(table)?.clone();
        let call = Self::call(&t, action, args)?;
        self.commit(vec![Update::SetDefault(t.id, call)])
    }

    /// Removes an entry.
    pub fn remove(&mut self, table: TableId, entry: EntryId) -> Result<Vec<Update>, String> {
        self.commit(vec![Update::Delete(table, entry)])
    }

    /// A multicast group without members.
    pub fn group_create(&mut self, group: u32) -> Result<Vec<Update>, String> {
        self.groups.insert(group, Vec::new());
        self.group_updates(group)
    }

    /// A multicast node; its handle.
    pub fn node_create(&mut self, rid: u16, ports: Vec<u16>) -> usize {
        self.nodes.push((rid, ports));
        self.nodes.len() - 1
    }

    /// Puts a node into a group.
    pub fn node_associate(&mut self, group: u32, node: usize) -> Result<Vec<Update>, String> {
        if node >= self.nodes.len() {
            return Err(format!("there is no node {node}; {} were made", self.nodes.len()));
        }
        self.groups
            .get_mut(&group)
            .ok_or(format!("there is no multicast group {group}"))?
            .push(node);
        self.group_updates(group)
    }

    fn group_updates(&mut self, group: u32) -> Result<Vec<Update>, String> {
        let copies: Vec<(u16, u16)> = self
            .groups
            .get(&group)
            .into_iter()
            .flatten()
            .flat_map(|n| self.nodes[*n].1.iter().map(|p| (*p, self.nodes[*n].0)))
            .collect();
        let bucket = |action: ActionCall| Bucket {
            weight: 1,
            watch_port: None,
            watch_group: None,
            action,
            counter: CounterId(0),
        };
        let set = |id: u32, buckets: Vec<Bucket>| {
            let group =
                Group { kind: GroupKind::All, buckets, hash: Vec::new(), counter: CounterId(0) };
            Update::SetGroup(GroupId(id), Arc::new(group))
        };
        let mut updates = Vec::new();
        if let Some(action) = self.names.multicast {
            let call = |(port, rid): &(u16, u16)| {
                let args = [Bits::from_u128((*port).into(), 9), Bits::from_u128((*rid).into(), 16)];
                bucket(ActionCall::with(action, args))
            };
            updates.push(set(group, copies.iter().map(call).collect()));
        }
        if self.mirrored.contains(&group)
            && let Some(action) = self.names.mirror_ingress
        {
            let call = |(port, _): &(u16, u16)| {
                bucket(ActionCall::with(action, [Bits::from_u128((*port).into(), 9)]))
            };
            updates.push(set(MIRROR_GROUP | group, copies.iter().map(call).collect()));
        }
        self.commit(updates)
    }

    /// A mirroring session that sends to a port.
    pub fn mirror(&mut self, session: u32, port: u16) -> Result<Vec<Update>, String> {
        let mut all = Vec::new();
        for table in ["v1.mirror_i2e_session", "v1.mirror_e2e_session"] {
            if self.names.table(table).is_some_and(|t| t.name == table) {
                let keys = [(None, session.to_string())];
                let args = [(None, port.to_string())];
                all.extend(self.add(table, &keys, 0, "port", &args)?.1);
            }
        }
        Ok(all)
    }

    /// A mirroring session that sends to a multicast group.
    pub fn mirror_group(&mut self, session: u32, group: u32) -> Result<Vec<Update>, String> {
        self.mirrored.push(group);
        self.groups.entry(group).or_default();
        let mut all = self.group_updates(group)?;
        let keys = [(None, session.to_string())];
        let args = [(None, (MIRROR_GROUP | group).to_string())];
        all.extend(self.add("v1.mirror_i2e_session", &keys, 0, "group", &args)?.1);
        Ok(all)
    }
}
