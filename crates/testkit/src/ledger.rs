//! Conformance ledgers: a document of a standard's requirements against the citations in code and tests.
//!
//! A citation is a comment `//= STANDARD-VERSION §SECTION: what it says, in our own words`, which
//! goes on in `//=` lines below it. The document lists the requirements of each section by hand, with
//! their state and the tests that show them; between `<!-- made -->` and `<!-- end -->` stands what
//! is made here: the citations of the section, and a count of all rows. With `BLESS=1` a ledger's test
//! writes it anew.
//!
//! Held to: every cited section is in the document; every test that it names is there; what is done
//! or partly done names a test; what is left out, or done in part, says why; nothing made is stale.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const MADE: &str = "<!-- made -->";
const END: &str = "<!-- end -->";
const STATES: [&str; 3] = ["done", "partly", "left out"];

/// A section of a version: `1.3.5`, `6.4`.
type Place = (String, String);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Citation {
    test: bool,
    /// From `crates/` on.
    path: String,
    text: String,
}

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// What follows `//= ` in a line, if it is a line of a citation.
fn cited(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//= ")
}

/// A standard's ledger.
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    /// How citations name the standard: `openflow`.
    pub standard: &'static str,
    /// The version of headings that name none.
    pub version: &'static str,
    /// The document, from the project's root.
    pub document: &'static str,
}

/// A citation begins here, of whatever standard.
fn begins(citation: &str) -> bool {
    citation.split_once(" §").is_some_and(|(head, _)| !head.contains(' '))
}

/// What follows a standard's name in a citation of it.
fn of_standard<'a>(citation: &'a str, standard: &str) -> Option<&'a str> {
    citation.strip_prefix(standard)?.strip_prefix('-')
}

/// The citations of a file by place, and the names of its functions.
fn read(
    standard: &str,
    path: &str,
    source: &str,
    citations: &mut BTreeMap<Place, Vec<Citation>>,
    functions: &mut BTreeSet<String>,
) {
    let mut test = path.contains("/tests/") || path.ends_with("/tests.rs");
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        test |= line.trim() == "mod tests {";
        let declared = line
            .trim_start()
            .trim_start_matches("pub ")
            .trim_start_matches("async ")
            .strip_prefix("fn ");
        if let Some(name) = declared.and_then(|rest| rest.split(['(', '<']).next()) {
            functions.insert(name.to_string());
        }
        let Some(rest) = cited(line).and_then(|c| of_standard(c, standard)) else { continue };
        let (version, rest) = rest.split_once(" §").unwrap_or_else(|| panic!("{path}: {line}"));
        let (sections, text) = rest.split_once(": ").unwrap_or_else(|| panic!("{path}: {line}"));
        let mut text = text.to_string();
        while let Some(more) = lines.peek().and_then(|l| cited(l)).filter(|l| !begins(l)) {
            text.push(' ');
            text.push_str(more);
            lines.next();
        }
        for section in sections.split(", ") {
            let section = section.trim_start_matches('§').to_string();
            citations.entry((version.to_string(), section)).or_default().push(Citation {
                test,
                path: path.to_string(),
                text: text.clone(),
            });
        }
    }
}

/// The section that a heading names: `### §6.4 Flow table modification`, of the ledger's version unless it says
/// another one: `### 1.0.2 §4.6 Modification`.
fn heading(line: &str, own: &str) -> Option<Place> {
    let rest = line.strip_prefix("### ")?;
    let (version, rest) = rest.split_once('§')?;
    let version = if version.is_empty() { own } else { version.trim() };
    Some((version.to_string(), rest.split_whitespace().next()?.to_string()))
}

fn made_citations(citations: &[Citation]) -> String {
    let mut out = String::new();
    for citation in citations {
        let kind = if citation.test { "Test" } else { "Code" };
        let _ = writeln!(out, "- {kind} `{}`: {}", citation.path, citation.text);
    }
    out
}

/// The cells of a row of a table of requirements; none for other lines.
fn row(line: &str) -> Option<[&str; 3]> {
    let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split(" | ").collect();
    let [requirement, state, shown] = cells[..] else { return None };
    let state = state.trim();
    STATES.iter().any(|s| state.starts_with(s)).then_some([requirement.trim(), state, shown.trim()])
}

impl Ledger {
    /// Checks the document in the project at `root`; with `BLESS` in the environment it is written anew.
    ///
    /// # Panics
    /// If something is wrong in it, or stale.
    pub fn check(&self, root: &Path) {
        let mut paths = Vec::new();
        sources(&root.join("crates"), &mut paths);
        let mut citations: BTreeMap<Place, Vec<Citation>> = BTreeMap::new();
        let mut functions = BTreeSet::new();
        for path in paths {
            let source = std::fs::read_to_string(&path).unwrap();
            let relative = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            // This file's own examples are none.
            if !relative.ends_with("testkit/src/ledger.rs") {
                read(self.standard, &relative, &source, &mut citations, &mut functions);
            }
        }
        citations.values_mut().for_each(|c| c.sort());

        let path = root.join(self.document);
        let old = std::fs::read_to_string(&path).unwrap();
        let mut faults = Vec::new();
        let mut counts = [0; 3];
        let mut listed = BTreeSet::new();
        let mut place: Option<Place> = None;
        // Everything but what is made; the count comes last, when it is known.
        let mut new = String::new();
        let mut count_at = None;
        let mut skipping = false;
        for line in old.lines() {
            if line == END {
                skipping = false;
            }
            if skipping {
                continue;
            }
            if line.starts_with('#') {
                place = heading(line, self.version);
                if let Some(place) = &place
                    && !listed.insert(place.clone())
                {
                    faults.push(format!("section {} is there twice", place.1));
                }
            }
            if let Some([requirement, state, shown]) = row(line) {
                let kind = STATES.iter().position(|s| state.starts_with(s)).unwrap();
                counts[kind] += 1;
                if kind != 0 && !state.contains(": ") {
                    faults.push(format!("`{requirement}` does not say why it is {}", STATES[kind]));
                }
                let tests: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
                if kind != 2 && tests.is_empty() {
                    faults.push(format!("`{requirement}` names no test"));
                }
                let missing = tests.iter().filter(|test| !functions.contains(**test));
                faults.extend(
                    missing.map(|test| format!("`{requirement}`: there is no test {test}")),
                );
            }
            new.push_str(line);
            new.push('\n');
            if line == MADE {
                skipping = true;
                match &place {
                    Some(place) => {
                        new.push_str(&made_citations(citations.get(place).map_or(&[], |c| &c[..])));
                    }
                    None => count_at = Some(new.len()),
                }
            }
        }
        if let Some(at) = count_at {
            let [done, partly, out] = counts;
            let text = format!("{done} requirements done, {partly} partly, {out} left out.\n");
            new.insert_str(at, &text);
        }
        for (version, section) in citations.keys().filter(|place| !listed.contains(*place)) {
            faults.push(format!("{version} §{section} is cited and not in the ledger"));
        }
        assert!(faults.is_empty(), "{}:\n{}", self.document, faults.join("\n"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, new).unwrap();
        } else if new != old {
            let stale = new.lines().find(|line| !old.lines().any(|l| l == *line));
            panic!(
                "{} is stale; run again with BLESS=1. First new line: {}",
                self.document,
                stale.unwrap_or("(lines went)")
            );
        }
    }
}
