//! Lists of what may still break a rule. Each is a file of text under `crates/xtask/baseline`, and only shrinks.

use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// The circles of imports.
pub const CIRCLES: &str = "crates/xtask/baseline/circles.txt";
/// The files that are too long.
pub const LONG_FILES: &str = "crates/xtask/baseline/long_files.txt";
/// The documents with table cells that are too wide.
pub const WIDE_CELLS: &str = "crates/xtask/baseline/wide_cells.txt";

/// A circle of imports.
#[derive(Clone, Debug, Eq)]
pub struct Circle {
    /// Its crate.
    pub name: String,
    /// Its files.
    pub files: BTreeSet<String>,
    /// Where it is listed.
    pub line: usize,
}

impl PartialEq for Circle {
    fn eq(&self, other: &Circle) -> bool {
        self.name == other.name && self.files == other.files
    }
}

/// Circles of imports.
#[derive(Debug, Default)]
pub struct Circles {
    /// All of them.
    pub circles: Vec<Circle>,
}

impl Circles {
    /// The circles that are listed: a line `CRATE: N files`, then a file a line, indented.
    pub fn read(tree: &Tree) -> Result<Circles, String> {
        let mut out = Circles::default();
        for (i, line) in tree.text(CIRCLES).unwrap_or("").lines().enumerate() {
            let line_number = i + 1;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(file) = line.strip_prefix("    ") {
                let circle = out.circles.last_mut();
                let circle = circle.ok_or_else(|| {
                    format!("{CIRCLES}:{line_number}: a file before the line of its circle")
                })?;
                circle.files.insert(file.trim().to_string());
            } else {
                let (name, _) = line.split_once(':').ok_or_else(|| {
                    format!("{CIRCLES}:{line_number}: wanted CRATE: N files, got {line}")
                })?;
                let (name, files) = (name.to_string(), BTreeSet::new());
                out.circles.push(Circle { name, files, line: line_number });
            }
        }
        Ok(out)
    }

    /// The text of the list.
    pub fn print(&self) -> String {
        let mut text = String::from(
            "# Circles of imports inside crates that are still allowed (`cargo xtask check circles`).\n\
             # The list only shrinks: mend one, then run `cargo xtask baseline`.\n",
        );
        for circle in &self.circles {
            text += &format!("\n{}: {} files\n", circle.name, circle.files.len());
            for file in &circle.files {
                text += &format!("    {file}\n");
            }
        }
        text
    }
}

/// Files, and a number for each.
#[derive(Debug, Default)]
pub struct Numbers {
    /// File to number, with the line that says so.
    pub of: BTreeMap<String, (usize, usize)>,
}

impl Numbers {
    /// The numbers that are listed: `NUMBER FILE` a line.
    pub fn read(tree: &Tree, path: &str) -> Result<Numbers, String> {
        let mut out = Numbers::default();
        for (i, line) in tree.text(path).unwrap_or("").lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let parts = line.trim().split_once(' ');
            let parsed = parts.and_then(|(n, file)| Some((n.parse().ok()?, file.trim())));
            let (number, file): (usize, &str) = parsed
                .ok_or_else(|| format!("{path}:{}: wanted NUMBER FILE, got {line}", i + 1))?;
            out.of.insert(file.to_string(), (number, i + 1));
        }
        Ok(out)
    }

    /// The text of the list, under a heading.
    pub fn print(&self, heading: &str) -> String {
        let mut text = format!(
            "{heading}# The list only shrinks: mend one, then run `cargo xtask baseline`.\n"
        );
        for (file, (number, _)) in &self.of {
            text += &format!("{number:>6} {file}\n");
        }
        text
    }
}
