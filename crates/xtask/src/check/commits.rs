//! Subjects of at most 72 characters, for commits that are not yet on `origin/main`.
//!
//! Skipped, and said so, where there is no git, no checkout or no such branch.

use crate::report::Report;
use crate::tree::Tree;
use std::process::Command;

/// The most characters of a subject.
pub const SUBJECT_MAX: usize = 72;

/// See [`RULES`](super::RULES).
pub fn check(tree: &Tree, report: &mut Report) -> Result<(), String> {
    let args = ["log", "--format=%h %s", "origin/main..HEAD", "--"];
    let out = match Command::new("git").arg("-C").arg(tree.root()).args(args).output() {
        Ok(out) if out.status.success() && tree.root().join(".git").exists() => out,
        Ok(_) => {
            report.notes.push("skipped: commits (no checkout with a branch origin/main)".into());
            return Ok(());
        }
        Err(_) => {
            report.notes.push("skipped: commits (no git)".into());
            return Ok(());
        }
    };
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        let (hash, subject) = line.split_once(' ').unwrap_or((line, ""));
        let len = subject.chars().count();
        if len > SUBJECT_MAX {
            let wrong =
                format!("the subject has {len} characters, at most {SUBJECT_MAX}: {subject}");
            report.add(&format!("commit {hash}"), 0, wrong, "git rebase, reword");
        }
    }
    Ok(())
}
