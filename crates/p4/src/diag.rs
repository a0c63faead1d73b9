//! Diagnoses: what is wrong, exactly where, and what would be right.
//!
//! A [`Diagnostic`] has one message, the span it is about with a few words beneath it, notes that
//! may point elsewhere, and at most one help that says what would be right. The phases add to one
//! [`Diagnostics`], in which each mistake is told once; they go on after an error wherever there is
//! something sensible to go on with. [`render`](Diagnostics::render) prints them with source line and
//! caret, [`json`](Diagnostics::json) for programs.
//!
//! Checked by: `tests/golden`, which compare whole outputs.

use crate::source::{SourceMap, Span};
use std::collections::HashSet;
use std::fmt::Write as _;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program is refused.
    Error,
    /// It is accepted, though hardly meant so.
    Warning,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// One finding.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// A stable word for its kind, as `unknown-name`.
    pub code: &'static str,
    /// Where.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// A few words to stand under the caret.
    pub label: String,
    /// What else there is to say, and where.
    pub notes: Vec<(Span, String)>,
    /// What would be right.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code,
            span,
            message: message.into(),
            label: String::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// A warning.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// With words under the caret.
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.label = text.into();
        self
    }

    /// With a note about another place (or none).
    pub fn note(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.notes.push((span, text.into()));
        self
    }

    /// With what would be right.
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }

    /// With the nearest of these names as help, if one is near.
    pub fn nearest<'a>(self, name: &str, known: impl IntoIterator<Item = &'a str>) -> Diagnostic {
        match nearest(name, known) {
            Some(near) => self.help(format!("the nearest known name is `{near}`")),
            None => self,
        }
    }
}

/// The name nearest to `name` by edits, if it is near enough to be meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).clamp(1, 4);
    known
        .into_iter()
        .filter(|k| !k.is_empty() && *k != name)
        .map(|k| (distance(name, k), k))
        .filter(|(d, k)| *d <= limit && *d < k.chars().count())
        .min()
        .map(|(_, k)| k)
}

/// Insertions, deletions, replacements and swaps of neighbours from one word to the other; a change
/// of case alone counts as nothing, so that it comes first.
fn distance(a: &str, b: &str) -> usize {
    let fold = |s: &str| s.chars().map(|c| c.to_ascii_lowercase()).collect::<Vec<_>>();
    let (a, b) = (fold(a), fold(b));
    if a.len().abs_diff(b.len()) > 4 {
        return usize::MAX;
    }
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Errors told in one run, at most; a note says how many more there were.
const TOLD_MAX: usize = 100;

/// What was found.
#[derive(Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    seen: HashSet<(Span, &'static str)>,
    errors: usize,
    warnings: usize,
}

impl Diagnostics {
    /// Adds one, unless its kind was told of this place before.
    pub fn add(&mut self, diagnostic: Diagnostic) {
        if !self.seen.insert((diagnostic.span, diagnostic.code)) {
            return;
        }
        // Warnings take no error's place.
        let count = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        if *count <= TOLD_MAX {
            self.list.push(diagnostic);
        }
    }

    /// How many warnings there were, those not kept included.
    pub fn warnings(&self) -> usize {
        self.warnings
    }

    /// How many errors there were, those not kept included.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// All that was kept, in the order found.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// As text for a person: message, place, source line, caret, notes, help.
    pub fn render(&self, map: &SourceMap) -> String {
        let mut out = String::new();
        for d in &self.list {
            let _ = writeln!(out, "{}[{}]: {}", d.severity.word(), d.code, d.message);
            snippet(&mut out, map, d.span, &d.label, '^');
            for (span, text) in &d.notes {
                let _ = writeln!(out, "  note: {text}");
                snippet(&mut out, map, *span, "", '-');
            }
            if let Some(help) = &d.help {
                let _ = writeln!(out, "  help: {help}");
            }
            out.push('\n');
        }
        let told = self.list.iter().filter(|d| d.severity == Severity::Error).count();
        if self.errors > told {
            let _ = writeln!(out, "... and {} more errors", self.errors - told);
        }
        if self.warnings > TOLD_MAX {
            let _ = writeln!(out, "... and {} more warnings", self.warnings - TOLD_MAX);
        }
        out
    }

    /// As JSON values.
    pub fn json(&self, map: &SourceMap) -> serde_json::Value {
        let place = |span: Span| match map.locate(span) {
            Some(l) => serde_json::json!({
                "file": l.file, "line": l.line, "column": l.column,
                "end_line": l.end_line, "end_column": l.end_column,
            }),
            None => serde_json::Value::Null,
        };
        let one = |d: &Diagnostic| {
            serde_json::json!({
                "severity": d.severity.word(),
                "code": d.code,
                "message": d.message,
                "label": d.label,
                "place": place(d.span),
                "notes": d.notes.iter()
                    .map(|(s, t)| serde_json::json!({"place": place(*s), "text": t}))
                    .collect::<Vec<_>>(),
                "help": d.help,
            })
        };
        self.list.iter().map(one).collect()
    }
}

/// The place, its first line, and a mark under what is meant.
fn snippet(out: &mut String, map: &SourceMap, span: Span, label: &str, mark: char) {
    let (Some(at), Some(file)) = (map.locate(span), map.file(span)) else { return };
    let number = at.line.to_string();
    let margin = " ".repeat(number.len());
    let _ = writeln!(out, "{margin}--> {}:{}:{}", at.file, at.line, at.column);
    let line = file.line(at.line);
    let _ = writeln!(out, "{margin} |");
    let _ = writeln!(out, "{number} | {}", line.replace('\t', " "));
    let before = " ".repeat(at.column as usize - 1);
    let end = if at.end_line == at.line { at.end_column } else { line.chars().count() as u32 + 1 };
    let marks = mark.to_string().repeat(end.saturating_sub(at.column).max(1) as usize);
    let _ = writeln!(out, "{}", format!("{margin} | {before}{marks} {label}").trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        assert_eq!(nearest("ethrnet", ["ipv4", "ethernet", "tcp"]), Some("ethernet"));
        assert_eq!(nearest("IPV4", ["ipv6", "ipv4"]), Some("ipv4"));
        assert_eq!(nearest("dst", ["src", "port"]), None);
        assert_eq!(nearest("x", ["y"]), None);
        assert_eq!(nearest("staet", ["state"]), Some("state"));
        assert_eq!(nearest("", ["state"]), None);
    }

    #[test]
    fn each_mistake_is_told_once_and_many_are_counted() {
        let mut d = Diagnostics::default();
        for _ in 0..3 {
            d.add(Diagnostic::error("a", Span { lo: 1, hi: 2 }, "x"));
        }
        assert_eq!(d.errors(), 1);
        for i in 0..300 {
            d.add(Diagnostic::error("b", Span { lo: i + 1, hi: i + 2 }, "x"));
        }
        assert_eq!(d.errors(), 301);
        assert!(d.render(&SourceMap::default()).ends_with("... and 201 more errors\n"));
    }
}
