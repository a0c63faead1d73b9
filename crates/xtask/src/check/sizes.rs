//! No file above 1,000 lines but tables of data; no table cell of a document above 200 characters.
//!
//! Rust, Python, C and scripts count as files; a table of data says `Table of data` in its first ten lines. Documents are
//! README.md and those under `docs/`. Both have baselines. A long file may shrink below its listed length unasked.

use crate::baseline::{LONG_FILES, Numbers, WIDE_CELLS};
use crate::report::Report;
use crate::tree::Tree;
use std::collections::BTreeMap;

/// The most lines of a file.
pub const LINES_MAX: usize = 1000;
/// The most characters of a table cell.
pub const CELL_MAX: usize = 200;

/// See [`RULES`](super::RULES).
pub fn check(tree: &Tree, report: &mut Report) -> Result<(), String> {
    let (found, listed) = (long_files(tree), Numbers::read(tree, LONG_FILES)?);
    for (file, lines) in &found {
        let most = listed.of.get(file).map_or(LINES_MAX, |(n, _)| *n);
        if *lines > most {
            let wrong = format!("{lines} lines, at most {most}");
            report.add(file, LINES_MAX + 1, wrong, "divide it: a second idea is a second file");
        }
    }
    for (file, (_, line)) in listed.of.iter().filter(|(file, _)| !found.contains_key(*file)) {
        let wrong = format!("{file} has at most {LINES_MAX} lines now, or is gone");
        report.add(LONG_FILES, *line, wrong, "cargo xtask baseline");
    }
    report.notes.push(format!("files above {LINES_MAX} lines: {}", found.len()));

    let (found, listed) = (wide_cells(tree), Numbers::read(tree, WIDE_CELLS)?);
    for (file, cells) in &found {
        let most = listed.of.get(file).map_or(0, |(n, _)| *n);
        if *cells > most {
            // Which of them is new, nobody knows: the last is named.
            let text = tree.text(file).unwrap_or("");
            let (line, len) = wide_in(text).last().copied().unwrap_or_default();
            let wrong = format!(
                "{cells} table cells above {CELL_MAX} characters, at most {most}; one has {len}"
            );
            report.add(file, line, wrong, "say it below the table");
        }
    }
    for (file, (most, line)) in &listed.of {
        let cells = found.get(file).copied().unwrap_or(0);
        if cells < *most {
            let wrong = format!("{file} has {cells} cells above {CELL_MAX} characters, not {most}");
            report.add(WIDE_CELLS, *line, wrong, "cargo xtask baseline");
        }
    }
    let cells: usize = found.values().sum();
    report
        .notes
        .push(format!("table cells above {CELL_MAX} characters: {cells} ({} files)", found.len()));
    Ok(())
}

/// The files that are too long, with their lines.
pub fn long_files(tree: &Tree) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for (path, text) in tree.texts() {
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_code = match name.rsplit_once('.') {
            Some((_, end)) => matches!(end, "rs" | "py" | "c" | "h" | "sh" | "lua"),
            None => text.starts_with("#!"),
        };
        let lines = text.lines().count();
        let is_data = || text.lines().take(10).any(|line| line.contains("Table of data"));
        if is_code && lines > LINES_MAX && !is_data() {
            out.insert(path.to_string(), lines);
        }
    }
    out
}

/// The documents with cells that are too wide, and how many each has.
pub fn wide_cells(tree: &Tree) -> BTreeMap<String, usize> {
    let documents = tree.texts().filter(|(path, _)| {
        *path == "README.md" || path.starts_with("docs/") && path.ends_with(".md")
    });
    documents
        .map(|(path, text)| (path.to_string(), wide_in(text).len()))
        .filter(|(_, cells)| *cells > 0)
        .collect()
}

/// The lines of cells that are too wide, with their lengths.
fn wide_in(text: &str) -> Vec<(usize, usize)> {
    let (mut fenced, mut out) = (false, Vec::new());
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        fenced ^= line.starts_with("```");
        if fenced || !line.starts_with('|') {
            continue;
        }
        // `\|` is a character of its cell.
        let cells = line.replace("\\|", "/");
        for cell in cells.split('|') {
            let len = cell.trim().chars().count();
            if len > CELL_MAX {
                out.push((i + 1, len));
            }
        }
    }
    out
}
