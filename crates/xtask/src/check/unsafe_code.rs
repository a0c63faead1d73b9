//! `unsafe` stands only in the modules that ARCHITECTURE.md lists, and each block and `impl` says why it is sound.
//!
//! The section "Unsafe code" lists modules (`port::sys`, which takes those below it along) and files of tests. What it
//! lists must have unsafe code. A function pointer's type (`unsafe extern "C" fn(...)`) does nothing and may stand anywhere.

use crate::document::{code_spans, section};
use crate::lex::{Kind, Token, tokens};
use crate::report::Report;
use crate::tree::Tree;
use std::collections::BTreeMap;

const DOCUMENT: &str = "ARCHITECTURE.md";
/// The section that lists modules.
pub const HEADING: &str = "Unsafe code";

/// See [`RULES`](super::RULES).
pub fn check(tree: &Tree, report: &mut Report) -> Result<(), String> {
    let mut listed: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for (line, text) in section(tree.text(DOCUMENT).unwrap_or(""), HEADING) {
        let places = code_spans(text).filter(|span| span.contains("::") || span.contains('/'));
        listed.extend(places.map(|place| (place, (line, false))));
    }
    for (path, text) in tree.rust() {
        let tokens = tokens(text);
        let module = module(path);
        for (at, token) in tokens.iter().enumerate() {
            if !token.is("unsafe") {
                continue;
            }
            let use_ = what(&tokens, at);
            if use_ == Use::Type {
                continue;
            }
            let place = listed.iter_mut().find(|(place, _)| covers(place, path, module.as_deref()));
            match place {
                Some((_, (_, used))) => *used = true,
                None => report.add(
                    path,
                    token.line,
                    "unsafe code in a module that ARCHITECTURE.md does not list",
                    format!("write it safe, or move it to a listed module (section \"{HEADING}\")"),
                ),
            }
            if use_ == Use::Block && !is_justified(&tokens, at) {
                report.add(
                    path,
                    token.line,
                    "an unsafe block without a SAFETY comment",
                    "say above it why it is sound",
                );
            }
        }
    }
    for (place, (line, used)) in listed {
        if !used {
            let wrong = format!("{place} has no unsafe code");
            report.add(DOCUMENT, line, wrong, "take it from the list");
        }
    }
    Ok(())
}

#[derive(PartialEq, Eq)]
enum Use {
    /// A block or an `impl`.
    Block,
    /// A function, a trait or what is foreign: who uses it must take care.
    Declaration,
    /// The type of a pointer to a function, or an attribute.
    Type,
}

/// What the word `unsafe` at `at` begins.
fn what(tokens: &[Token<'_>], at: usize) -> Use {
    let mut rest = tokens[at + 1..].iter().filter(|t| t.kind != Kind::Comment);
    let mut next = rest.next();
    let is_foreign = next.is_some_and(|t| t.is("extern"));
    if is_foreign {
        next = rest.next();
        if next.is_some_and(|t| t.kind == Kind::Text) {
            next = rest.next();
        }
    }
    match next {
        Some(t) if t.is("fn") => match rest.next() {
            Some(t) if t.is("(") => Use::Type,
            _ => Use::Declaration,
        },
        Some(t) if t.is("trait") || is_foreign => Use::Declaration,
        Some(t) if t.is("(") => Use::Type,
        _ => Use::Block,
    }
}

/// Whether a SAFETY comment stands in the statement of `unsafe`, or right above it or its line.
fn is_justified(tokens: &[Token<'_>], at: usize) -> bool {
    let justifies = |t: &&Token<'_>| t.kind == Kind::Comment && t.text.contains("SAFETY");
    let ends = |t: &&Token<'_>| t.kind == Kind::Mark && matches!(t.text, ";" | "{" | "}");
    let statement = tokens[..at].iter().rev().take_while(|t| !ends(t));
    let above = (tokens[..at].iter().rev())
        .skip_while(|t| t.line == tokens[at].line)
        .take_while(|t| t.kind == Kind::Comment);
    statement.chain(above).any(|t| justifies(&t))
}

/// `crates/port-xdp/src/sys/mod.rs` is `port_xdp::sys`; what lies outside `src` is no module of a library.
fn module(path: &str) -> Option<String> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let rest = rest.strip_suffix(".rs")?;
    let rest = rest.strip_suffix("/mod").unwrap_or(rest);
    let mut module = name.replace('-', "_");
    if rest != "lib" && rest != "main" {
        module = format!("{module}::{}", rest.replace('/', "::"));
    }
    Some(module)
}

/// Whether a listed place is this file, or above it.
fn covers(place: &str, path: &str, module: Option<&str>) -> bool {
    place == path
        || module
            .and_then(|m| m.strip_prefix(place))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}
