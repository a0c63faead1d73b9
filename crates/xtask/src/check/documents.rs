//! No word of a document that is not in the tree, nor of an issue: who reads a comment must be able to follow it.
//!
//! Three forms: a Markdown file's name; a document's name before a number of a section; an issue's number. A link of a document
//! to a file must lead to one, and so must a path of the tree between backticks.

use crate::document::code_spans;
use crate::report::Report;
use crate::tree::{OUTPUTS, Tree};

/// Words that name a document when a section's number follows.
const DOCUMENTS: [&str; 10] = [
    "DESIGN",
    "STYLE",
    "BRIEF",
    "ROADMAP",
    "PLAN",
    "NOTES",
    "SPEC",
    "ARCHITECTURE",
    "contract",
    "milestone",
];

/// What tests of documents call a document that they make.
const TO_PLANT: &str = "planted.md";
/// Its trees have documents of their own.
const PLANTED: &str = "crates/xtask/tests/planted.rs";

/// See [`RULES`](super::RULES).
pub fn check(tree: &Tree, report: &mut Report) -> Result<(), String> {
    for (path, text) in tree.texts().filter(|(path, _)| *path != PLANTED) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (i, line) in text.lines().enumerate() {
            let line_number = i + 1;
            for name in markdown_names(line) {
                if !exists(tree, folder, name) && !name.ends_with(TO_PLANT) {
                    let wrong = format!("{name} is not in the tree");
                    report.add(path, line_number, wrong, "say here what it says, or add it");
                }
            }
            for word in sections(line) {
                if !tree.files().any(|p| p.rsplit('/').next() == Some(&format!("{word}.md"))) {
                    let wrong = format!("a section of {word}, which is not in the tree");
                    report.add(path, line_number, wrong, "say here what it says");
                }
            }
            if is_prose(path) && names_issue(line) {
                report.add(
                    path,
                    line_number,
                    "an issue, which is not in the tree",
                    "say here what it says",
                );
            }
            if path.ends_with(".md") {
                for span in paths(tree, line) {
                    if !tree.has(span) && !exists(tree, folder, span) {
                        let wrong = format!("{span} is not in the tree");
                        report.add(path, line_number, wrong, "name what is there");
                    }
                }
                for target in links(line) {
                    if !exists(tree, folder, target) {
                        let wrong = format!("a link to {target}, which is not in the tree");
                        report.add(path, line_number, wrong, "link to what is there");
                    }
                }
            }
        }
    }
    Ok(())
}

fn is_prose(path: &str) -> bool {
    !path.ends_with(".lock") && !path.ends_with(".json") && !path.ends_with(".svg")
}

/// Whether a file is where the name says: from the root, from this folder, or by its last parts anywhere.
fn exists(tree: &Tree, folder: &str, name: &str) -> bool {
    let mut parts: Vec<&str> = folder.split('/').filter(|p| !p.is_empty()).collect();
    for part in name.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let plain = name.trim_start_matches("../").trim_start_matches("./");
    let end = format!("/{plain}");
    tree.has(&parts.join("/")) || tree.has(plain) || tree.files().any(|p| p.ends_with(&end))
}

/// Names of Markdown files in a line, but for those of pages elsewhere and those with a part that the reader fills in.
fn markdown_names(line: &str) -> Vec<&str> {
    let inside = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let mut out = Vec::new();
    for (at, _) in line.match_indices(".md") {
        let end = at + 3;
        if line[end..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let head = &line[..at];
        let start = head
            .rfind(|c: char| !inside(c))
            .map_or(0, |i| i + head[i..].chars().next().map_or(1, char::len_utf8));
        let before = head[..start].chars().next_back();
        let elsewhere = head[start..].starts_with("//")
            || matches!(before, Some('*' | '$' | '}' | '<' | '>' | '{'));
        if start < at && !elsewhere {
            out.push(&line[start..end]);
        }
    }
    out
}

/// Documents before a section's number: the word, a space, perhaps `§`, a digit.
fn sections(line: &str) -> Vec<&'static str> {
    let found = |word: &&&str| {
        line.match_indices(**word).any(|(at, _)| {
            let starts = !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let Some(rest) = line[at + word.len()..].strip_prefix(' ') else { return false };
            starts && rest.trim_start_matches(['§', ' ']).starts_with(|c: char| c.is_ascii_digit())
        })
    };
    DOCUMENTS.iter().filter(found).copied().collect()
}

/// The word issue, and a number.
fn names_issue(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    lower.match_indices("issue").any(|(at, word)| {
        let starts = !lower[..at].ends_with(|c: char| c.is_alphanumeric() || "_-/".contains(c));
        let rest = &lower[at + word.len()..];
        let Some(rest) = rest.strip_prefix('s').unwrap_or(rest).strip_prefix(' ') else {
            return false;
        };
        starts && rest.trim_start_matches('#').starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Paths of the tree between backticks, each a word that starts with a folder of the root and has neither a part to fill in nor
/// a folder of outputs.
fn paths<'a>(tree: &Tree, line: &'a str) -> Vec<&'a str> {
    let plain = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let of_tree = |word: &&str| {
        let folder = word.split('/').next().unwrap_or("");
        let is_output = word.split('/').any(|part| OUTPUTS.contains(&part));
        word.contains('/') && !folder.is_empty() && !is_output && tree.has(folder)
    };
    (code_spans(line).flat_map(str::split_whitespace))
        .map(|word| word.trim_end_matches(['.', ':']))
        .filter(|word| plain(word))
        .filter(of_tree)
        .collect()
}

/// Targets of links in a line: files of the tree alone, without the part of a page.
fn links(line: &str) -> Vec<&str> {
    let targets = line.match_indices("](").filter_map(|(at, _)| {
        let rest = &line[at + 2..];
        rest.find(')').map(|end| rest[..end].split('#').next().unwrap_or(""))
    });
    targets.filter(|t| !t.is_empty() && !t.contains("://") && !t.starts_with("mailto:")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        // Names that are in the tree, as this file is held to the rule, too.
        let line = "see `./README.md`, (ARCHITECTURE.md) and ../CONTRIBUTING.md.";
        assert_eq!(markdown_names(line), ["./README.md", "ARCHITECTURE.md", "../CONTRIBUTING.md"]);
        assert!(markdown_names("*.md https://host/x.md NAME.mdx .md {x}.md").is_empty());
    }

    #[test]
    fn sections_and_issues() {
        let word = concat!("DES", "IGN");
        assert_eq!(sections(&format!("({word} 5.7)")), [word]);
        assert_eq!(sections(&format!("{word} §6")), [word]);
        assert_eq!(sections(concat!("(contr", "act 8.1)")), [concat!("contr", "act")]);
        assert!(sections("RE_DESIGN 5 DESIGNS 4 DPDK 22.11").is_empty());
        assert!(names_issue(concat!("see iss", "ue 28")) && names_issue(concat!("Iss", "ues #4")));
        assert!(!names_issue("issue1000-bmv2.p4 issues an order") && !names_issue("reissue 4"));
    }

    #[test]
    fn links_to_files() {
        assert_eq!(links("[a](b/c) [d](https://e) [f](#g) [h](README.md#j)"), ["b/c", "README.md"]);
    }
}
