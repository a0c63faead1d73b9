//! No absolute path of somebody's machine, and no host name of a package registry: the tree is for everybody.
//!
//! `Cargo.lock` names the registry of every package; it may name the public one alone.

use crate::report::Report;
use crate::tree::Tree;

/// Where files of one machine lie. Joined here, so that this file does not name them either.
const FOLDERS: [&str; 6] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/work", "space/"),
    concat!("C:\\Us", "ers\\"),
];

/// Registries.
const HOSTS: [&str; 12] = [
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("proxy.gol", "ang.org"),
    concat!("ruby", "gems.org"),
    concat!("docker", ".io"),
    concat!("ghcr", ".io"),
    concat!("quay", ".io"),
    concat!("spar", "se+http"),
    concat!("arti", "factory"),
];

/// The only source of a package in a `Cargo.lock`.
const PUBLIC: &str =
    concat!("source = \"registry+https://github.com/rust-lang/crates", ".io-index\"");

/// See [`RULES`](super::RULES).
pub fn check(tree: &Tree, report: &mut Report) -> Result<(), String> {
    for (path, text) in tree.texts() {
        let is_lock = path == "Cargo.lock" || path.ends_with("/Cargo.lock");
        for (i, line) in text.lines().enumerate() {
            if is_lock {
                if line.starts_with("source = ") && line != PUBLIC {
                    let wrong = format!("a package from elsewhere: {line}");
                    report.add(path, i + 1, wrong, "lock it with the public registry");
                }
                continue;
            }
            if let Some(folder) = FOLDERS.iter().find(|folder| names(line, folder)) {
                let wrong = format!("{folder} is a folder of one machine");
                report.add(path, i + 1, wrong, "name it relative to the root, or by a variable");
            }
            if let Some(host) = HOSTS.iter().find(|host| line.contains(**host)) {
                report.add(path, i + 1, format!("{host} is a package registry"), "leave it out");
            }
        }
    }
    Ok(())
}

/// Whether an absolute path in this line starts with `folder`.
fn names(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let inside = |c: char| c.is_alphanumeric() || "._-/\\$}*~".contains(c);
        let starts = !line[..at].chars().next_back().is_some_and(inside);
        starts && line[at + folder.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '.')
    })
}
