//! The rules of the tree, one file each.
//!
//! A rule reads the [`Tree`] and adds what breaks it to the [`Report`].

pub mod circles;
pub mod code_map;
pub mod commits;
pub mod documents;
pub mod lab;
pub mod order;
pub mod places;
pub mod sizes;
pub mod threads;
pub mod unsafe_code;

use crate::report::Report;
use crate::tree::Tree;

/// A rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it demands.
    pub is: &'static str,
    check: fn(&Tree, &mut Report) -> Result<(), String>,
}

/// All rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "order",
        is: "a crate depends only on crates of lower layers (crates/xtask/order.toml)",
        check: order::check,
    },
    Rule {
        name: "circles",
        is: "no circle of imports above two files inside a crate",
        check: circles::check,
    },
    Rule {
        name: "unsafe",
        is: "unsafe code only where ARCHITECTURE.md lists it, each block with a SAFETY comment",
        check: unsafe_code::check,
    },
    Rule {
        name: "threads",
        is: "ARCHITECTURE.md lists the threads that the code names, and no others",
        check: threads::check,
    },
    Rule {
        name: "code-map",
        is: "ARCHITECTURE.md's code map has every crate and folder, and no others",
        check: code_map::check,
    },
    Rule {
        name: "documents",
        is: "no word of a document or an issue that is not in the tree",
        check: documents::check,
    },
    Rule {
        name: "lab",
        is: "every executable script of lab/ stands in one list of lab/run, and lists name no others",
        check: lab::check,
    },
    Rule {
        name: "sizes",
        is: "no file above 1,000 lines, no table cell of a document above 200 characters",
        check: sizes::check,
    },
    Rule {
        name: "commits",
        is: "subjects of commits that are not yet on origin/main have at most 72 characters",
        check: commits::check,
    },
    Rule {
        name: "places",
        is: "no absolute path of a machine, no host name of a package registry",
        check: places::check,
    },
];

/// Holds the tree to the rules of these names; to all of them if there are none.
pub fn run(tree: &Tree, names: &[&str]) -> Result<Report, String> {
    if let Some(name) = names.iter().find(|n| !RULES.iter().any(|r| r.name == **n)) {
        let all: Vec<&str> = RULES.iter().map(|r| r.name).collect();
        return Err(format!("no rule {name}; there are {}", all.join(", ")));
    }
    let mut report = Report::default();
    for rule in RULES {
        if names.is_empty() || names.contains(&rule.name) {
            (rule.check)(tree, &mut report)?;
        }
    }
    Ok(report)
}
