//! Which crate may depend on which: `crates/xtask/order.toml` lists layers from the lowest to the highest.
//!
//! A crate depends on crates of lower layers alone. `only` narrows that for a crate, and `tests` allows a crate's tests
//! what its code may not use. Everything in that file must still be true of the tree.

use crate::document::line_of;
use crate::report::Report;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// The table.
pub const TABLE: &str = "crates/xtask/order.toml";

/// See [`RULES`](super::RULES).
pub fn check(tree: &Tree, report: &mut Report) -> Result<(), String> {
    let Some(text) = tree.text(TABLE) else {
        report.add(TABLE, 0, "the table of layers is missing", "list the crates by layers");
        return Ok(());
    };
    let table: toml::Table = text.parse().map_err(|e| format!("{TABLE}: {e}"))?;
    let crates = tree.crates()?;

    let mut layer_of: BTreeMap<&str, usize> = BTreeMap::new();
    let layers = table.get("layers").and_then(|l| l.as_array()).into_iter().flatten();
    for (number, layer) in layers.enumerate() {
        for name in words(layer) {
            if layer_of.insert(name, number).is_some() {
                report.add(TABLE, quoted(text, name), format!("{name} stands twice"), "leave one");
            }
        }
    }
    for name in layer_of.keys().filter(|n| !crates.contains_key(**n)) {
        report.add(TABLE, quoted(text, name), format!("there is no crate {name}"), "take it out");
    }
    let lists = |section: &str| -> BTreeMap<&str, BTreeSet<&str>> {
        let table = table.get(section).and_then(|s| s.as_table());
        table.into_iter().flatten().map(|(k, v)| (k.as_str(), words(v).collect())).collect()
    };
    let (only, tests) = (lists("only"), lists("tests"));
    for (section, list) in [("only", &only), ("tests", &tests)] {
        for name in list.keys().filter(|n| !crates.contains_key(**n)) {
            report.add(
                TABLE,
                0,
                format!("[{section}] has no crate {name} to speak of"),
                "take it out",
            );
        }
    }

    for (name, one) in &crates {
        let manifest = format!("{}/Cargo.toml", one.folder);
        let source = tree.text(&manifest).unwrap_or("");
        let Some(layer) = layer_of.get(name.as_str()) else {
            report.add(
                &manifest,
                1,
                format!("{name} is in no layer"),
                format!("add it to {TABLE}"),
            );
            continue;
        };
        let may = |dependency: &str| {
            layer_of.get(dependency).is_some_and(|l| l < layer)
                && only.get(name.as_str()).is_none_or(|list| list.contains(dependency))
        };
        let mut for_tests = tests.get(name.as_str()).cloned().unwrap_or_default();
        for (dependency, is_test) in dependencies(&one.manifest) {
            if !crates.contains_key(dependency) {
                continue;
            }
            let line = line_of(source, |l| {
                l.strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
            });
            // A test may use what code may, and what the table says.
            if is_test && (for_tests.remove(dependency) || may(dependency)) {
                continue;
            }
            if !may(dependency) {
                let mend = match only.get(name.as_str()) {
                    Some(list) if list.is_empty() => "it uses none of our crates".to_string(),
                    Some(list) => format!("it may use {} alone", join(list)),
                    None => "it may use crates of lower layers alone".to_string(),
                };
                let wrong = format!("{name} depends on {dependency}");
                report.add(&manifest, line, wrong, format!("{mend} ({TABLE})"));
            }
        }
        for stale in for_tests {
            let wrong = format!("[tests] lists {stale} for {name}, whose tests do not use it");
            report.add(
                TABLE,
                line_of(text, |l| l.starts_with(name.as_str())),
                wrong,
                "take it out",
            );
        }
        for stale in only.get(name.as_str()).into_iter().flatten() {
            if !dependencies(&one.manifest).any(|(d, test)| d == *stale && !test) {
                let wrong = format!("[only] lists {stale} for {name}, which does not use it");
                report.add(
                    TABLE,
                    line_of(text, |l| l.starts_with(name.as_str())),
                    wrong,
                    "take it out",
                );
            }
        }
    }
    Ok(())
}

/// What a manifest depends on, and whether for tests alone.
pub(crate) fn dependencies(manifest: &toml::Table) -> impl Iterator<Item = (&str, bool)> {
    let per_target = manifest.get("target").and_then(|t| t.as_table()).into_iter().flatten();
    let places = per_target.filter_map(|(_, t)| t.as_table()).chain([manifest]);
    places.flat_map(|place| {
        [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
            .into_iter()
            .flat_map(move |(section, is_test)| {
                let list = place.get(section).and_then(|s| s.as_table());
                list.into_iter().flatten().map(move |(name, _)| (name.as_str(), is_test))
            })
    })
}

fn words(value: &toml::Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(|v| v.as_str())
}

fn quoted(text: &str, name: &str) -> usize {
    line_of(text, |line| line.contains(&format!("\"{name}\"")))
}

fn join(list: &BTreeSet<&str>) -> String {
    list.iter().copied().collect::<Vec<_>>().join(", ")
}
