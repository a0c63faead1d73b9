//! No circle of imports above two files inside a crate.
//!
//! A parent and its child may name each other; three files that do are read as one. See [`imports`](crate::imports) for
//! what counts. Checked against `crates/xtask/baseline/circles.txt`, whose circles may only lose files.

use crate::baseline::{CIRCLES, Circle, Circles};
use crate::imports::{Imports, of_crate};
use crate::report::Report;
use crate::tree::Tree;

/// See [`RULES`](super::RULES).
pub fn check(tree: &Tree, report: &mut Report) -> Result<(), String> {
    let listed = Circles::read(tree)?;
    let found = find(tree)?;
    for circle in &found.circles {
        if listed.circles.contains(circle) {
            continue;
        }
        let known = listed.circles.iter().find(|old| circle.files.is_subset(&old.files));
        if known.is_some() {
            let wrong = format!("a circle of {} has fewer files than are listed", circle.name);
            report.add(CIRCLES, 0, wrong, "cargo xtask baseline");
            continue;
        }
        let imports = imports_of(tree, &circle.name)?;
        let way = imports.way_round(&circle.files);
        let (file, line) = way.first().cloned().unwrap_or_default();
        let steps: Vec<String> = way.iter().map(|(f, l)| format!("{f}:{l}")).collect();
        let mut wrong = format!(
            "a circle of {} files in {} that {CIRCLES} does not list; one way round: {}",
            circle.files.len(),
            circle.name,
            steps.join(" -> ")
        );
        // One that has grown: what joined it.
        let grown = listed.circles.iter().find(|old| !circle.files.is_disjoint(&old.files));
        if let Some(old) = grown {
            let new: Vec<&str> = circle.files.difference(&old.files).map(String::as_str).collect();
            wrong += &format!("; new in it: {}", new.join(", "));
        }
        report.add(&file, line, wrong, "move what both sides need to a file that neither imports");
    }
    for old in &listed.circles {
        if !found.circles.iter().any(|c| c.name == old.name && !c.files.is_disjoint(&old.files)) {
            let wrong = format!("a circle of {} files in {} is gone", old.files.len(), old.name);
            report.add(CIRCLES, old.line, wrong, "cargo xtask baseline");
        }
    }
    let files: usize = found.circles.iter().map(|c| c.files.len()).sum();
    report.notes.push(format!("circles of imports: {} ({files} files)", found.circles.len()));
    Ok(())
}

/// The circles that there are.
pub fn find(tree: &Tree) -> Result<Circles, String> {
    let mut out = Circles::default();
    for name in tree.crates()?.keys() {
        for files in imports_of(tree, name)?.circles() {
            out.circles.push(Circle { name: name.clone(), files, line: 0 });
        }
    }
    Ok(out)
}

/// The imports inside a crate.
fn imports_of(tree: &Tree, name: &str) -> Result<Imports, String> {
    let crates = tree.crates()?;
    let folder = &crates.get(name).ok_or_else(|| format!("no crate {name}"))?.folder;
    let roots = ["src/lib.rs", "src/main.rs"].map(|root| format!("{folder}/{root}"));
    Ok(roots
        .iter()
        .find(|root| tree.has(root))
        .map(|root| of_crate(tree, root))
        .unwrap_or_default())
}
