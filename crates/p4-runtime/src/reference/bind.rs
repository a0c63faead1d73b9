//! References of a P4Info, from the text of annotations.

use super::refs::{MULTICAST, Reference, References, Target, WORD};
use crate::code::{Fault, fault};
use crate::proto::info;
use crate::schema::Schema;
use crate::translation::Sdn;
use ir::program::MatchKind;
use std::collections::BTreeMap;

/// The multicast groups, by these names.
const GROUPS: (&str, &str) = ("builtin::multicast_group_table", "multicast_group_id");

/// What an annotation refers to: a table and a field of it. None if it is another annotation.
fn referred(annotation: &str) -> Option<Result<(String, String), String>> {
    // p4c writes tokens with spaces between.
    let text: String = annotation.chars().filter(|c| !c.is_whitespace()).collect();
    let rest = text.strip_prefix('@')?.strip_prefix(WORD)?;
    if !rest.is_empty() && !rest.starts_with('(') {
        return None;
    }
    let inner = rest.strip_prefix('(').and_then(|r| r.strip_suffix(')'));
    let parts: Vec<&str> = inner.map_or(Vec::new(), |r| r.split(',').collect());
    let name = |text: &str| text.trim_matches('"').to_owned();
    Some(match parts[..] {
        [table, field] if !table.is_empty() && !field.is_empty() => Ok((name(table), name(field))),
        _ => Err(format!("@{WORD} needs a table and a field, as in @{WORD}(vrfs, vrf_id)")),
    })
}

/// Something that refers.
struct From<'a> {
    id: u32,
    annotations: &'a [String],
    sdn: &'a Sdn,
    at: String,
}

/// All references; or where one is wrong.
pub(crate) fn bind(info: &info::P4Info, schema: &Schema) -> Result<References, Fault> {
    let mut out = References::default();
    for t in &info.tables {
        let id = t.preamble.as_ref().map_or(0, |p| p.id);
        let Some(own) = schema.tables.get(&id) else { continue };
        let mut from = Vec::new();
        for f in &t.match_fields {
            let Some(field) = own.fields.iter().find(|own| own.id == f.id) else { continue };
            let at = format!("table `{}`, key `{}`", own.name, f.name);
            let refers = f.annotations.iter().any(|a| referred(a).is_some());
            if refers && !matches!(field.kind, MatchKind::Exact | MatchKind::Optional) {
                return Err(fault!(
                    InvalidArgument,
                    "P4Info, {at}: it is {}; exact and optional keys may refer to others",
                    field.kind.word()
                ));
            }
            from.push(From { id: f.id, annotations: &f.annotations, sdn: &field.sdn, at });
        }
        let found = references(info, schema, &mut out, from)?;
        if !found.is_empty() {
            out.keys.insert(id, found);
        }
    }
    for a in &info.actions {
        let id = a.preamble.as_ref().map_or(0, |p| p.id);
        let Some(own) = schema.actions.get(&id) else { continue };
        let from = a.params.iter().filter_map(|p| {
            let param = own.params.iter().find(|own| own.id == p.id)?;
            let at = format!("action `{}`, parameter `{}`", own.name, p.name);
            Some(From { id: p.id, annotations: &p.annotations, sdn: &param.sdn, at })
        });
        let found = references(info, schema, &mut out, from.collect())?;
        if !found.is_empty() {
            out.params.insert(id, found);
        }
    }
    Ok(out)
}

/// Fields of a table, and what refers to each: its id, and its name in words.
type Set = BTreeMap<u32, (u32, String)>;

/// What these refer to; those that refer to one table belong together.
fn references(
    info: &info::P4Info,
    schema: &Schema,
    out: &mut References,
    from: Vec<From<'_>>,
) -> Result<Vec<Reference>, Fault> {
    // By table: sets of pairs, field to what refers to it. A field is in a set once.
    let mut tables: BTreeMap<u32, Vec<Set>> = BTreeMap::new();
    for f in &from {
        for annotation in f.annotations {
            let Some(said) = referred(annotation) else { continue };
            let wrong = |what: String| fault!(InvalidArgument, "P4Info, {}: {what}", f.at);
            let (table, field) = said.map_err(wrong)?;
            let (table, field) = target(info, schema, &table, &field, f.sdn).map_err(wrong)?;
            let sets = tables.entry(table).or_default();
            let free = sets.iter().position(|set| !set.contains_key(&field));
            let at = free.unwrap_or_else(|| {
                sets.push(Set::new());
                sets.len() - 1
            });
            sets[at].insert(field, (f.id, f.at.clone()));
        }
    }
    let mut found = Vec::new();
    for (table, set) in
        tables.into_iter().flat_map(|(t, sets)| sets.into_iter().map(move |s| (t, s)))
    {
        let fields: Vec<u32> = set.keys().copied().collect();
        let (ids, at): (Vec<u32>, Vec<String>) = set.into_values().unzip();
        let to = place(schema, out, table, fields);
        found.push(Reference { from: ids, to, told: at.join(" and ") });
    }
    Ok(found)
}

/// A table's and a field's id, by their names.
fn target(
    info: &info::P4Info,
    schema: &Schema,
    table: &str,
    field: &str,
    sdn: &Sdn,
) -> Result<(u32, u32), String> {
    let groups = |name: &str| name == GROUPS.0;
    if groups(table) {
        return match (field == GROUPS.1, sdn) {
            (true, Sdn::Text(_)) => {
                Err("multicast groups have numbers, and this is written as a string".to_owned())
            }
            (true, _) => Ok((MULTICAST, 1)),
            (false, _) => {
                Err(format!("`{table}` has no field `{field}` here; it has {}", GROUPS.1))
            }
        };
    }
    let named = |p: &&info::Preamble| p.name == table || p.alias == table;
    let found = info.tables.iter().find(|t| t.preamble.as_ref().is_some_and(|p| named(&p)));
    let id = found.and_then(|t| t.preamble.as_ref()).map(|p| p.id);
    let Some(own) = id.and_then(|id| schema.tables.get(&id)) else {
        return Err(format!("it refers to the table `{table}`, which the P4Info has not"));
    };
    let Some(f) = own.fields.iter().find(|f| f.name == field) else {
        let names: Vec<&str> = own.fields.iter().take(16).map(|f| f.name.as_str()).collect();
        return Err(format!(
            "the table `{table}` has no key `{field}`; it has {}",
            names.join(", ")
        ));
    };
    if !matches!(f.kind, MatchKind::Exact | MatchKind::Optional) {
        let word = f.kind.word();
        return Err(format!(
            "the key `{field}` of `{table}` is {word}; an exact one can be referred to"
        ));
    }
    if matches!(f.sdn, Sdn::Text(_)) != matches!(sdn, Sdn::Text(_)) {
        return Err(format!("the key `{field}` of `{table}` is written in another way"));
    }
    Ok((own.id, f.id))
}

/// The place of a target among all.
fn place(schema: &Schema, out: &mut References, table: u32, fields: Vec<u32>) -> usize {
    let same = |t: &Target| t.table == table && t.fields == fields;
    if let Some(at) = out.targets.iter().position(same) {
        return at;
    }
    let told = match schema.tables.get(&table) {
        None => "multicast group".to_owned(),
        Some(t) => {
            let names = t.fields.iter().filter(|f| fields.contains(&f.id));
            let names: Vec<String> = names.map(|f| format!("`{}`", f.name)).collect();
            format!("table `{}`, {}", t.name, names.join(", "))
        }
    };
    out.targets.push(Target { table, fields, told });
    let at = out.targets.len() - 1;
    out.of_table.entry(table).or_default().push(at);
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_read_as_compilers_write_them() {
        let good = Some(Ok(("vrfs".to_owned(), "vrf_id".to_owned())));
        for text in [
            "@refers_to(vrfs,vrf_id)",
            "@refers_to(vrfs , vrf_id)",
            "@refers_to(\"vrfs\", \"vrf_id\")",
        ] {
            assert_eq!(referred(text), good, "{text}");
        }
        let spread = referred("@refers_to(builtin : : multicast_group_table , multicast_group_id)");
        assert_eq!(spread, Some(Ok((GROUPS.0.to_owned(), GROUPS.1.to_owned()))));
        for other in ["@id(1)", "@refers_to_nothing(a,b)", "refers_to(a,b)", "@"] {
            assert_eq!(referred(other), None, "{other}");
        }
        for wrong in
            ["@refers_to", "@refers_to(a)", "@refers_to(a,b,c)", "@refers_to(,b)", "@refers_to(a,b"]
        {
            assert!(matches!(referred(wrong), Some(Err(_))), "{wrong}");
        }
    }
}
