//! ARCHITECTURE.md lists the threads that the code names, and no others.
//!
//! The section "Threads" has a table whose first column is a name; `worker-N` stands for a name with a number. In code a
//! thread's name is what `std::thread::Builder::name` is given: a text, or a parameter whose callers give a text.
//! Code for tests is left out.

use crate::document::{code_spans, section};
use crate::lex::{Kind, Token, code, matching};
use crate::report::Report;
use crate::tree::Tree;
use std::collections::BTreeMap;

const DOCUMENT: &str = "ARCHITECTURE.md";
/// The section that lists threads.
pub const HEADING: &str = "Threads";

/// See [`RULES`](super::RULES).
pub fn check(tree: &Tree, report: &mut Report) -> Result<(), String> {
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, text) in section(tree.text(DOCUMENT).unwrap_or(""), HEADING) {
        if text.starts_with("| `")
            && let Some(name) = code_spans(text).next()
        {
            listed.insert(name, line);
        }
    }
    let sources: Vec<(&str, Vec<Token<'_>>)> = (tree.rust())
        .filter(|(path, _)| path.contains("/src/") && path.starts_with("crates/"))
        .filter(|(path, _)| !path.ends_with("/tests.rs") && !path.contains("/tests/"))
        .filter(|(path, _)| !path.starts_with("crates/xtask/"))
        .map(|(path, text)| (path, code(text)))
        .collect();
    let mut named: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for (path, tokens) in &sources {
        for at in 0..tokens.len() {
            let Some((line, argument)) = naming(tokens, at) else { continue };
            let names = names(&sources, path, tokens, at, argument);
            if names.is_empty() {
                let mend = "give Builder::name a text, or a parameter whose callers give one first";
                report.add(path, line, "a thread's name cannot be read", mend);
            }
            named.extend(names.into_iter().map(|name| (name, (*path, line))));
        }
    }
    for (name, (path, line)) in &named {
        if !listed.contains_key(name.as_str()) {
            let wrong = format!("the thread {name} is not listed");
            report.add(path, *line, wrong, format!("add it to {DOCUMENT}, section \"{HEADING}\""));
        }
    }
    for (name, line) in listed {
        if !named.contains_key(name) {
            report.add(DOCUMENT, line, format!("no code names a thread {name}"), "take it out");
        }
    }
    Ok(())
}

/// The argument of `thread::Builder::new().name(...)`, if `at` is the word `Builder` of one.
fn naming<'t, 'a>(tokens: &'t [Token<'a>], at: usize) -> Option<(usize, &'t [Token<'a>])> {
    let shape = ["Builder", ":", ":", "new", "(", ")", ".", "name", "("];
    let here = tokens.get(at..at + shape.len())?;
    let fits = here.iter().zip(shape).all(|(token, text)| token.is(text));
    let of_thread = at >= 3 && tokens[at - 3].is("thread");
    if !fits || !of_thread {
        return None;
    }
    let open = at + shape.len() - 1;
    Some((tokens[open].line, &tokens[open + 1..matching(tokens, open) - 1]))
}

/// What the argument may be.
fn names(
    sources: &[(&str, Vec<Token<'_>>)],
    path: &str,
    tokens: &[Token<'_>],
    at: usize,
    argument: &[Token<'_>],
) -> Vec<String> {
    if let Some(text) = argument.iter().find(|t| t.kind == Kind::Text) {
        return vec![name_of(text.text)];
    }
    let Some(variable) = argument.iter().find(|t| t.kind == Kind::Word) else { return Vec::new() };
    // `let name = format!("worker-{index}")`, the nearest above it.
    let bound = (0..at)
        .rev()
        .find(|i| tokens[*i].is("let") && tokens[i + 1].is(variable.text) && tokens[i + 2].is("="));
    let function = (0..at).rev().find(|i| tokens[*i].is("fn"));
    if let Some(bound) = bound.filter(|bound| function.is_none_or(|f| f < *bound)) {
        let value = tokens[bound..at].iter().take_while(|t| !t.is(";"));
        return value.filter(|t| t.kind == Kind::Text).map(|t| name_of(t.text)).collect();
    }
    // A parameter: what the callers in this crate say first.
    let Some(function) = function.and_then(|f| tokens.get(f + 1)) else { return Vec::new() };
    let crate_of = |path: &str| path.split("/src/").next().map(String::from);
    let mut out = Vec::new();
    for (_, tokens) in sources.iter().filter(|(other, _)| crate_of(other) == crate_of(path)) {
        for call in tokens.windows(3) {
            if call[0].is(function.text) && call[1].is("(") && call[2].kind == Kind::Text {
                out.push(name_of(call[2].text));
            }
        }
    }
    out
}

/// A name as it is listed: `"worker-{index}"` is `worker-N`.
fn name_of(literal: &str) -> String {
    let text = literal.trim_matches('"');
    let Some((head, rest)) = text.split_once('{') else { return text.to_string() };
    format!("{head}N{}", rest.split_once('}').map_or("", |(_, tail)| tail))
}
