//! `cargo xtask baseline`: the baselines, shrunk to what still breaks a rule.

use crate::baseline::{CIRCLES, Circles, LONG_FILES, Numbers, WIDE_CELLS};
use crate::check::{circles, sizes};
use crate::tree::Tree;

/// Writes the baselines: what is listed and still true, and with `grow` what is new. Says what it did.
pub fn rewrite(tree: &Tree, grow: bool) -> Result<Vec<String>, String> {
    let mut said = Vec::new();
    let mut circles = circles::find(tree)?;
    let listed = Circles::read(tree)?;
    if !grow {
        // What is new stays a finding.
        circles.circles.retain(|c| listed.circles.iter().any(|l| c.files.is_subset(&l.files)));
    }
    said.push(format!(
        "{CIRCLES}: {} circles, were {}",
        circles.circles.len(),
        listed.circles.len()
    ));
    write(tree, CIRCLES, &circles.print())?;

    let headings = [
        (
            LONG_FILES,
            "# Lines of files above 1,000 that are still allowed (`cargo xtask check sizes`).\n",
        ),
        (
            WIDE_CELLS,
            "# Table cells above 200 characters, by document (`cargo xtask check sizes`).\n",
        ),
    ];
    for (path, heading) in headings {
        let found =
            if path == LONG_FILES { sizes::long_files(tree) } else { sizes::wide_cells(tree) };
        let listed = Numbers::read(tree, path)?;
        let mut kept = Numbers::default();
        for (file, number) in found {
            let before = listed.of.get(&file).map(|(n, _)| *n);
            let number = match before {
                Some(before) if !grow => number.min(before),
                None if !grow => continue,
                _ => number,
            };
            kept.of.insert(file, (number, 0));
        }
        said.push(format!("{path}: {} files, were {}", kept.of.len(), listed.of.len()));
        write(tree, path, &kept.print(heading))?;
    }
    Ok(said)
}

fn write(tree: &Tree, path: &str, text: &str) -> Result<(), String> {
    let place = tree.root().join(path);
    let folder = place.parent().ok_or("a baseline lies in a folder")?;
    std::fs::create_dir_all(folder).map_err(|e| format!("{path}: {e}"))?;
    std::fs::write(&place, text).map_err(|e| format!("{path}: {e}"))
}
