//! ARCHITECTURE.md's code map has every crate and every folder of the root, and nothing that is not there.
//!
//! Its table lists crates in the order of dependence: what a crate uses stands above it. Below the table stand the other
//! folders (`lab/`) and files. The words `crate::module` of the whole document must name modules that exist.

use super::order;
use crate::document::{code_spans, section};
use crate::report::Report;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = "ARCHITECTURE.md";
/// The section.
pub const HEADING: &str = "Code map";

/// See [`RULES`](super::RULES).
pub fn check(tree: &Tree, report: &mut Report) -> Result<(), String> {
    let crates = tree.crates()?;
    let text = tree.text(DOCUMENT).unwrap_or("");
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    let mut paths: BTreeMap<&str, usize> = BTreeMap::new();
    let mut first = 0;
    for (line, text) in section(text, HEADING) {
        first = if first == 0 { line } else { first };
        if let Some(row) = text.strip_prefix("| `") {
            rows.insert(row.split('`').next().unwrap_or(""), line);
        } else {
            paths.extend(code_spans(text).filter(|s| s.contains('/')).map(|s| (s, line)));
        }
    }
    for (name, one) in &crates {
        let Some(line) = rows.get(name.as_str()) else {
            report.add(
                DOCUMENT,
                first,
                format!("the code map lacks the crate {name}"),
                "add a row",
            );
            continue;
        };
        for (used, is_test) in order::dependencies(&one.manifest) {
            if !is_test && rows.get(used).is_some_and(|of_used| of_used > line) {
                let wrong = format!("{name} uses {used}, which stands below it");
                report.add(DOCUMENT, *line, wrong, "move the row down");
            }
        }
    }
    for (name, line) in rows.iter().filter(|(name, _)| !crates.contains_key(**name)) {
        report.add(DOCUMENT, *line, format!("there is no crate {name}"), "take the row out");
    }
    for (path, line) in paths.iter().filter(|(path, _)| !tree.has(path)) {
        report.add(DOCUMENT, *line, format!("{path} is not in the tree"), "name what is there");
    }
    let folders: BTreeSet<&str> =
        tree.files().filter_map(|path| path.split_once('/')).map(|(folder, _)| folder).collect();
    for folder in folders.into_iter().filter(|f| *f != "crates") {
        let is_named = |path: &&str| path.split('/').next() == Some(folder);
        if !paths.keys().any(is_named) {
            let wrong = format!("the code map lacks the folder {folder}/");
            report.add(DOCUMENT, first, wrong, "say below the table what is in it");
        }
    }
    modules(tree, text, report, &crates.keys().map(|n| n.replace('-', "_")).collect());
    Ok(())
}

/// `datapath::worker::receive`: the crate is ours, so `worker` must be a module or a name that the crate has.
fn modules(tree: &Tree, text: &str, report: &mut Report, crates: &BTreeSet<String>) {
    for (i, line) in text.lines().enumerate() {
        let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        for word in words.filter(|w| w.contains("::")) {
            let mut parts = word.trim_end_matches(':').split("::");
            let name = parts.next().unwrap_or("");
            if !crates.contains(name) {
                continue;
            }
            let folder = format!("crates/{}/src", name.replace('_', "-"));
            let missing = parts.find(|part| !part.is_empty() && !knows(tree, &folder, part));
            if let Some(part) = missing {
                let wrong = format!("{word}: nothing under {folder} is called {part}");
                report.add(DOCUMENT, i + 1, wrong, "name what is there");
            }
        }
    }
}

/// Whether a file, a folder or a word of the code there is called so.
fn knows(tree: &Tree, folder: &str, name: &str) -> bool {
    let inside = |path: &str| path.starts_with(&format!("{folder}/"));
    let is_word = |text: &str| {
        text.match_indices(name).any(|(at, _)| {
            let part = |c: char| c.is_alphanumeric() || c == '_';
            !text[..at].ends_with(part) && !text[at + name.len()..].starts_with(part)
        })
    };
    tree.rust().any(|(path, text)| {
        inside(path)
            && (path.ends_with(&format!("/{name}.rs"))
                || path.contains(&format!("/{name}/"))
                || is_word(text))
    })
}
