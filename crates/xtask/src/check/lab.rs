//! Every script of `lab/` stands in one of the lists of `lab/run`, so that none is written and never run.
//!
//! A script is an executable file, or a folder with one that is named `run`.
//!
//! A list is an assignment of the shell at the beginning of a line: `name=(word word ...)`, over one line or more. Its words
//! are names of scripts; a list of lists (`"${other[@]}"`) says nothing. A list that is not run by
//! itself says so by its name: scripts that want something of the caller, and helpers of others.

use crate::report::Report;
use crate::tree::Tree;
use std::collections::BTreeMap;

const RUN: &str = "lab/run";

/// See [`RULES`](super::RULES).
pub fn check(tree: &Tree, report: &mut Report) -> Result<(), String> {
    let listed = lists(tree.text(RUN).unwrap_or(""));
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for (line, list, name) in &listed {
        if ![format!("lab/{name}"), format!("lab/{name}/run")].iter().any(|p| tree.is_executable(p))
        {
            let wrong = format!(
                "{list} has {name}, and neither lab/{name} nor lab/{name}/run is an executable file"
            );
            report.add(RUN, *line, wrong, "take it out, or make the file executable");
        }
        if let Some(other) = seen.insert(name, list) {
            let wrong = format!("{name} stands in {list} and in {other}");
            report.add(RUN, *line, wrong, "leave it in one list");
        }
    }
    let scripts = tree.files().filter_map(|path| Some((path, path.strip_prefix("lab/")?)));
    let scripts = scripts.map(|(path, name)| (path, name.strip_suffix("/run").unwrap_or(name)));
    for (path, name) in scripts.filter(|(path, name)| *path != RUN && !name.contains('/')) {
        if !seen.contains_key(name) && tree.is_executable(path) {
            let mend =
                "add it to beside or alone; to by_hand or helpers, if the gate cannot run it";
            report.add(path, 1, format!("no list of {RUN} has {name}, so nothing runs it"), mend);
        }
    }
    Ok(())
}

/// Line, list and word of each word in a list.
fn lists(text: &str) -> Vec<(usize, &str, &str)> {
    let (mut found, mut open) = (Vec::new(), None);
    for (at, line) in text.lines().enumerate() {
        let mut rest = line;
        if open.is_none() {
            let Some((name, words)) = line.split_once("=(") else { continue };
            let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
            if name.is_empty() || !name.chars().all(is_name) {
                continue;
            }
            (open, rest) = (Some(name), words);
        }
        let (words, ends) = rest.split_once(')').map_or((rest, false), |(words, _)| (words, true));
        if let Some(list) = open {
            let words = words.split_whitespace().filter(|word| !word.contains(['$', '"']));
            found.extend(words.map(|word| (at + 1, list, word)));
        }
        if ends {
            open = None;
        }
    }
    found
}
