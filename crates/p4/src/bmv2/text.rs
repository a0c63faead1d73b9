//! Lines of the program and the nodes that they come from; names that P4 takes.

use crate::lex::RESERVED;
use std::collections::HashSet;

/// Words that mean something beside those of the language, in some places.
const ALSO_RESERVED: &[&str] = &[
    "accept",
    "actions",
    "apply",
    "entries",
    "isValid",
    "key",
    "list",
    "pragma",
    "priority",
    "reject",
    "setInvalid",
    "setValid",
    "start",
    "state",
    "static_assert",
    "type",
];

/// Names of one scope.
#[derive(Debug, Default)]
pub(super) struct Scope {
    used: HashSet<String>,
}

impl Scope {
    /// A name that P4 takes and that is new here, as near to this one as can be.
    pub(super) fn add(&mut self, name: &str) -> String {
        let good = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut base: String = name.chars().take(200).map(good).collect();
        if base.is_empty() || base.starts_with(|c: char| c.is_ascii_digit()) || reserved(&base) {
            base.insert_str(0, "x_");
        }
        let mut unique = base.clone();
        let mut n = 1;
        while !self.used.insert(unique.clone()) {
            n += 1;
            unique = format!("{base}_{n}");
        }
        unique
    }
}

/// A word that has a meaning of its own.
fn reserved(name: &str) -> bool {
    RESERVED.contains(&name) || ALSO_RESERVED.contains(&name)
}

/// This is a name as it is.
pub(super) fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty()
        && name.chars().all(good)
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !reserved(name)
}

/// A string of P4.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A name for the control plane that stands as it is.
pub(super) fn called(name: &str) -> String {
    format!("@name({})", quoted(&format!(".{name}")))
}

/// The program's text.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) text: String,
    /// The node of each line.
    pub(super) nodes: Vec<String>,
    node: String,
    indent: usize,
}

impl Writer {
    /// Lines from here on come from this node.
    pub(super) fn at(&mut self, node: &str) {
        if self.node != node {
            self.node = node.to_owned();
        }
    }

    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if line.starts_with('}') {
            self.indent = self.indent.saturating_sub(1);
        }
        for _ in 0..self.indent.min(16) {
            self.text.push_str("    ");
        }
        self.text.push_str(line);
        self.text.push('\n');
        self.nodes.push(self.node.clone());
        if line.ends_with('{') {
            self.indent += 1;
        }
    }
}

impl Writer {
    /// What another one has written, with the nodes that it comes from.
    pub(super) fn append(&mut self, other: Writer) {
        for (line, node) in other.text.lines().zip(&other.nodes) {
            self.at(node);
            self.line(line.trim_start());
        }
    }
}
