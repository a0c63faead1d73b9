//! The preprocessor (specification §6.1): `#include`, `#define` with and without parameters, `#undef`,
//! `#if`, `#ifdef`, `#ifndef`, `#elif`, `#else`, `#endif`, `#error`, `#warning`; `#pragma` and
//! `#line` are read over.
//!
//! It works on tokens, as C's does: a macro's tokens take the place of its use, are expanded again
//! with the macro itself left alone, and carry the span of the use. So every diagnosis points at
//! text that somebody wrote, and no table of line numbers is needed.
//!
//! Bounds, so that any text ends: [`INCLUDES_MAX`] nested files, [`TOKENS_MAX`] tokens in all.

use crate::diag::{Diagnostic, Diagnostics, nearest};
use crate::lex::{Name, Tok, Token, lex};
use crate::source::{SourceMap, Span};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Files that include each other, nested.
pub const INCLUDES_MAX: usize = 64;
/// Tokens after expansion.
pub const TOKENS_MAX: usize = 4_000_000;

/// Files that come with the compiler, found after all folders were searched.
pub const EMBEDDED: &[(&str, &str)] = &[
    ("core.p4", include_str!("../include/core.p4")),
    ("v1model.p4", include_str!("../include/v1model.p4")),
    ("millrace.p4", include_str!("../include/millrace.p4")),
];

/// Where included files come from.
pub trait Files {
    /// A file's text, if it exists and can be read.
    fn read(&self, path: &Path) -> Option<String>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Option<String> {
        let bytes = std::fs::read(path).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// No files but those that come with the compiler.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path) -> Option<String> {
        None
    }
}

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folders to search for included files, in order.
    pub include: Vec<PathBuf>,
    /// Macros defined from the start: name and text.
    pub define: Vec<(String, String)>,
}

#[derive(Clone)]
struct Macro {
    span: Span,
    params: Option<Vec<Name>>,
    /// The last parameter is `__VA_ARGS__`: all arguments from there on.
    variadic: bool,
    body: Rc<[Token]>,
}

/// One `#if` that is open.
struct Condition {
    span: Span,
    /// Its text is taken now.
    live: bool,
    /// One of its branches was taken.
    taken: bool,
    /// `#else` was seen.
    last: bool,
    /// The text around it is taken.
    outer: bool,
}

/// Preprocesses a file: all tokens, with an end token.
pub fn preprocess(
    map: &mut SourceMap,
    diagnostics: &mut Diagnostics,
    files: &dyn Files,
    options: &Options,
    path: &Path,
    text: &str,
) -> Vec<Token> {
    let mut p = Preprocessor {
        map,
        diagnostics,
        files,
        options,
        macros: HashMap::new(),
        out: Vec::new(),
        depth: 0,
        full: false,
        once: Vec::new(),
    };
    p.predefine("__MILLRACE__", "1");
    for (name, value) in &options.define {
        p.predefine(name, value);
    }
    p.file(path, text, false, Span::default());
    let end = match p.map.add("", "", true) {
        Some((_, at)) => p.out.last().map_or(Span { lo: at, hi: at }, |t| Span {
            lo: t.span.hi.saturating_sub(1).max(1),
            hi: t.span.hi,
        }),
        None => Span::default(),
    };
    p.out.push(Token { tok: Tok::Eof, span: end, first: true, spaced: true });
    p.out
}

struct Preprocessor<'a> {
    map: &'a mut SourceMap,
    diagnostics: &'a mut Diagnostics,
    files: &'a dyn Files,
    options: &'a Options,
    macros: HashMap<Name, Macro>,
    out: Vec<Token>,
    depth: usize,
    full: bool,
    /// Files that said `#pragma once`.
    once: Vec<PathBuf>,
}

impl Preprocessor<'_> {
    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.add(Diagnostic::error(code, span, message));
    }

    fn predefine(&mut self, name: &str, value: &str) {
        let Some((_, start)) = self.map.add("<command line>", value, true) else { return };
        let body = lex(value, start, self.diagnostics);
        let span = Span { lo: start, hi: start + value.len() as u32 };
        self.macros
            .insert(name.into(), Macro { span, params: None, variadic: false, body: body.into() });
    }

    fn file(&mut self, path: &Path, text: &str, embedded: bool, from: Span) {
        let name = path.to_string_lossy().into_owned();
        let Some((_, start)) = self.map.add(&name, text, embedded) else {
            return self.error(
                "too-large",
                from,
                format!("{name} makes the program larger than 256 MiB"),
            );
        };
        let tokens = lex(text, start, self.diagnostics);
        let mut conditions: Vec<Condition> = Vec::new();
        let mut at = 0;
        while at < tokens.len() && !self.full {
            let live = conditions.last().is_none_or(|c| c.live);
            if tokens[at].first && tokens[at].tok == Tok::P("#") {
                let end = line_end(&tokens, at);
                self.directive(&tokens[at..end], &mut conditions, live, path);
                at = end;
                continue;
            }
            // Everything up to the next directive.
            let end = (at + 1..tokens.len())
                .find(|i| tokens[*i].first && tokens[*i].tok == Tok::P("#"))
                .unwrap_or(tokens.len());
            if live {
                let mut out = std::mem::take(&mut self.out);
                self.expand(&tokens[at..end], &mut Vec::new(), None, &mut out);
                self.out = out;
            }
            at = end;
        }
        for c in conditions {
            let d = Diagnostic::error("unclosed-if", c.span, "this condition never ends");
            self.diagnostics.add(d.help("close it with `#endif`"));
        }
    }

    fn directive(
        &mut self,
        line: &[Token],
        conditions: &mut Vec<Condition>,
        live: bool,
        path: &Path,
    ) {
        let hash = line[0].span;
        let Some(first) = line.get(1) else { return };
        let Some(word) = first.tok.word().map(str::to_string) else {
            if live && !matches!(first.tok, Tok::Int(_)) {
                self.error("bad-directive", first.span, "a directive begins with a word");
            }
            return;
        };
        let rest = &line[2..];
        let span = hash.to(first.span);
        match word.as_str() {
            "if" | "ifdef" | "ifndef" => {
                let live_now = live
                    && match word.as_str() {
                        "if" => self.condition(rest, span),
                        _ => match rest.first().and_then(|t| t.tok.word()) {
                            Some(name) => self.macros.contains_key(name) == (word == "ifdef"),
                            None => {
                                self.error("bad-directive", span, format!("#{word} needs a name"));
                                false
                            }
                        },
                    };
                conditions.push(Condition {
                    span,
                    live: live_now,
                    taken: live_now,
                    last: false,
                    outer: live,
                });
            }
            "elif" | "else" | "endif" => {
                let Some(c) = conditions.last() else {
                    let text = format!("#{word} without an #if before it");
                    return self.error("stray-directive", span, text);
                };
                let (outer, taken, last, opened) = (c.outer, c.taken, c.last, c.span);
                if word == "endif" {
                    conditions.pop();
                    return;
                }
                if last {
                    let d =
                        Diagnostic::error("stray-directive", span, format!("#{word} after #else"));
                    self.diagnostics.add(d.note(opened, "the condition begins here"));
                }
                let live =
                    outer && !taken && !last && (word == "else" || self.condition(rest, span));
                if let Some(c) = conditions.last_mut() {
                    c.live = live;
                    c.taken |= live;
                    c.last |= word == "else";
                }
            }
            _ if !live => {}
            "define" => self.define(rest, span),
            "undef" => match rest.first().and_then(|t| t.tok.word()) {
                Some(name) => {
                    self.macros.remove(name);
                }
                None => self.error("bad-directive", span, "#undef needs a name"),
            },
            "include" => self.include(rest, span, path),
            "error" | "warning" => {
                let text = match (rest.first(), rest.last()) {
                    (Some(a), Some(b)) => self.map.text(a.span.to(b.span)).to_string(),
                    _ => String::new(),
                };
                let text = format!("#{word} {text}");
                self.diagnostics.add(if word == "error" {
                    Diagnostic::error("error-directive", span, text)
                } else {
                    Diagnostic::warning("warning-directive", span, text)
                });
            }
            "pragma" => {
                if rest.first().and_then(|t| t.tok.word()) == Some("once") {
                    self.once.push(path.to_path_buf());
                }
            }
            "line" => {}
            other => {
                const KNOWN: &[&str] = &[
                    "if", "ifdef", "ifndef", "elif", "else", "endif", "define", "undef", "include",
                    "error", "warning", "pragma", "line",
                ];
                let d = Diagnostic::error(
                    "bad-directive",
                    span,
                    format!("there is no directive #{other}"),
                );
                self.diagnostics.add(d.nearest(other, KNOWN.iter().copied()));
            }
        }
    }

    fn define(&mut self, rest: &[Token], span: Span) {
        let Some(name) = rest.first().and_then(|t| t.tok.word()) else {
            return self.error("bad-directive", span, "#define needs a name");
        };
        let name: Name = name.into();
        let span = rest[0].span;
        let mut body = &rest[1..];
        let mut params = None;
        let mut variadic = false;
        if let Some(open) = body.first().filter(|t| t.tok == Tok::P("(") && !t.spaced) {
            let mut names = Vec::new();
            let Some(close) = body.iter().position(|t| t.tok == Tok::P(")")) else {
                let d =
                    Diagnostic::error("bad-macro", open.span, "the list of parameters never ends");
                return self.diagnostics.add(d.help("close it with `)`"));
            };
            for (i, t) in body[1..close].iter().enumerate() {
                match (&t.tok, i % 2) {
                    (tok, 0) if tok.word().is_some() => names.push(tok.word().unwrap_or("").into()),
                    (Tok::P(","), 1) => {}
                    (Tok::P("..."), 0) if i + 2 == close => {
                        names.push("__VA_ARGS__".into());
                        variadic = true;
                    }
                    _ => {
                        let text = "parameters are names with commas between them";
                        return self.error("bad-macro", t.span, text);
                    }
                }
            }
            params = Some(names);
            body = &body[close + 1..];
        }
        let same = |m: &Macro| {
            m.params == params
                && m.variadic == variadic
                && m.body.len() == body.len()
                && m.body.iter().zip(body).all(|(a, b)| a.tok == b.tok)
        };
        if let Some(old) = self.macros.get(&name).filter(|m| !same(m)) {
            let d = Diagnostic::warning(
                "macro-redefined",
                span,
                format!("the macro `{name}` is defined again, differently"),
            );
            self.diagnostics.add(d.note(old.span, "it was defined here"));
        }
        self.macros.insert(name, Macro { span, params, variadic, body: body.into() });
    }

    fn include(&mut self, rest: &[Token], span: Span, from: &Path) {
        let mut expanded = Vec::new();
        let rest = match rest.first().map(|t| &t.tok) {
            Some(Tok::Str(_)) | Some(Tok::P("<")) => rest,
            _ => {
                self.expand(rest, &mut Vec::new(), None, &mut expanded);
                &expanded
            }
        };
        let (name, quoted, span) = match rest.first().map(|t| &t.tok) {
            Some(Tok::Str(name)) => (name.to_string(), true, rest[0].span),
            Some(Tok::P("<")) => {
                let Some(end) = rest.iter().position(|t| t.tok == Tok::P(">")) else {
                    return self.error(
                        "bad-directive",
                        span,
                        "the file's name never ends; close it with `>`",
                    );
                };
                let inner = Span { lo: rest[0].span.hi, hi: rest[end].span.lo };
                (self.map.text(inner).to_string(), false, rest[0].span.to(rest[end].span))
            }
            _ => return self.error("bad-directive", span, "#include needs <file> or \"file\""),
        };
        if self.depth == INCLUDES_MAX {
            let text = format!("files include each other more than {INCLUDES_MAX} deep");
            return self.error("include-depth", span, text);
        }
        let mut folders: Vec<PathBuf> = Vec::new();
        if quoted {
            folders.push(from.parent().unwrap_or(Path::new("")).to_path_buf());
        }
        folders.extend(self.options.include.iter().cloned());
        let found =
            folders.iter().map(|d| d.join(&name)).find_map(|p| Some((self.files.read(&p)?, p)));
        let (text, path, embedded) = match found {
            Some((text, path)) => (text, path, false),
            None => match EMBEDDED.iter().find(|(n, _)| *n == name) {
                Some((n, text)) => ((*text).to_string(), PathBuf::from(format!("<{n}>")), true),
                None => {
                    let mut d = Diagnostic::error(
                        "no-such-file",
                        span,
                        format!("the file `{name}` is in none of the folders searched"),
                    );
                    let known = EMBEDDED.iter().map(|(n, _)| *n);
                    if let Some(near) = nearest(&name, known) {
                        d = d
                            .help(format!("the nearest file that comes with millrace is <{near}>"));
                    } else if folders.is_empty() {
                        d = d.help("name a folder to search with -I");
                    } else {
                        let list: Vec<String> = folders
                            .iter()
                            .map(|f| {
                                if f.as_os_str().is_empty() {
                                    ".".into()
                                } else {
                                    f.display().to_string()
                                }
                            })
                            .collect();
                        d = d.help(format!(
                            "searched: {}; name another folder with -I",
                            list.join(", ")
                        ));
                    }
                    return self.diagnostics.add(d);
                }
            },
        };
        if self.once.contains(&path) {
            return;
        }
        self.depth += 1;
        self.file(&path, &text, embedded, span);
        self.depth -= 1;
    }

    /// Appends the tokens with macros expanded, except those in `active`. Tokens of a macro's body
    /// take the span of its use.
    fn expand(
        &mut self,
        tokens: &[Token],
        active: &mut Vec<Name>,
        site: Option<Span>,
        out: &mut Vec<Token>,
    ) {
        let mut i = 0;
        while i < tokens.len() {
            if out.len() >= TOKENS_MAX {
                if !self.full {
                    self.full = true;
                    let text = format!("macros expand to more than {TOKENS_MAX} tokens");
                    self.error("too-large", tokens[i].span, text);
                }
                return;
            }
            let token = &tokens[i];
            let span = site.unwrap_or(token.span);
            i += 1;
            let name = match &token.tok {
                Tok::Ident(name) => name.clone(),
                Tok::Kw(word) if self.macros.contains_key(*word) => (*word).into(),
                _ => {
                    out.push(Token { span, ..token.clone() });
                    continue;
                }
            };
            let found =
                self.macros.get(&name).filter(|_| !active.contains(&name) && active.len() < 64);
            let Some(m) = found.cloned() else {
                let tok = match &*name {
                    "__LINE__" => {
                        let line = self.map.locate(span).map_or(0, |l| l.line);
                        Tok::Int(line.to_string().into())
                    }
                    "__FILE__" => Tok::Str(self.map.file(span).map_or("", |f| &f.name).into()),
                    _ => token.tok.clone(),
                };
                out.push(Token { tok, span, first: token.first, spaced: token.spaced });
                continue;
            };
            let Some(params) = &m.params else {
                active.push(name);
                let body = paste(&m.body, self.diagnostics);
                self.expand(&body, active, Some(span), out);
                active.pop();
                continue;
            };
            if tokens.get(i).is_none_or(|t| t.tok != Tok::P("(")) {
                out.push(Token { span, ..token.clone() });
                continue;
            }
            let Some((mut args, after)) = arguments(tokens, i) else {
                let d = Diagnostic::error(
                    "bad-macro",
                    span,
                    format!("the arguments of `{name}` never end"),
                );
                self.diagnostics.add(d.help("close them with `)`"));
                return;
            };
            let whole = site.unwrap_or(token.span.to(tokens[after - 1].span));
            if m.variadic && args.len() + 1 >= params.len() {
                let comma = Token { tok: Tok::P(","), span, first: false, spaced: false };
                let rest = args.split_off(params.len() - 1);
                args.push(rest.join(&comma));
            }
            let empty = params.is_empty() && args.len() == 1 && args[0].is_empty();
            if args.len() != params.len() && !empty {
                let d = Diagnostic::error(
                    "bad-macro",
                    whole,
                    format!(
                        "the macro `{name}` takes {} arguments, not {}",
                        params.len(),
                        args.len()
                    ),
                );
                self.diagnostics.add(d.note(m.span, "it is defined here"));
                i = after;
                continue;
            }
            // Arguments are expanded before they take their parameters' places, except beside ##.
            let mut full: Vec<Option<Vec<Token>>> = vec![None; args.len()];
            let mut body = Vec::new();
            for (j, t) in m.body.iter().enumerate() {
                let beside = |k: Option<usize>| {
                    k.and_then(|k| m.body.get(k)).is_some_and(|t| t.tok == Tok::P("##"))
                };
                let param = t.tok.word().and_then(|w| params.iter().position(|p| **p == *w));
                match param {
                    Some(p) if beside(j.checked_sub(1)) || beside(Some(j + 1)) => {
                        body.extend(args[p].iter().cloned());
                    }
                    Some(p) if j > 0 && m.body[j - 1].tok == Tok::P("#") => {
                        body.pop();
                        let text: Vec<String> = args[p].iter().map(|t| t.tok.text()).collect();
                        body.push(Token { tok: Tok::Str(text.join(" ").into()), ..t.clone() });
                    }
                    Some(p) => {
                        if full[p].is_none() {
                            let mut expanded = Vec::new();
                            self.expand(&args[p], active, site, &mut expanded);
                            full[p] = Some(expanded);
                        }
                        body.extend(full[p].iter().flatten().cloned());
                    }
                    None => body.push(t.clone()),
                }
                if body.len() > TOKENS_MAX {
                    break;
                }
            }
            let body = paste(&body, self.diagnostics);
            active.push(name);
            self.expand(&body, active, Some(whole), out);
            active.pop();
            i = after;
        }
    }

    fn condition(&mut self, rest: &[Token], span: Span) -> bool {
        // `defined` looks at names before they are expanded.
        let mut tokens = Vec::new();
        let mut i = 0;
        while i < rest.len() {
            if rest[i].tok.word() == Some("defined") {
                let paren = rest.get(i + 1).is_some_and(|t| t.tok == Tok::P("("));
                let at = i + 1 + usize::from(paren);
                let Some(name) = rest.get(at).and_then(|t| t.tok.word()) else {
                    self.error("bad-directive", rest[i].span, "`defined` needs a name");
                    return false;
                };
                let value = if self.macros.contains_key(name) { "1" } else { "0" };
                tokens.push(Token { tok: Tok::Int(value.into()), ..rest[at].clone() });
                i = at + 1 + usize::from(paren);
            } else {
                tokens.push(rest[i].clone());
                i += 1;
            }
        }
        let mut expanded = Vec::new();
        self.expand(&tokens, &mut Vec::new(), None, &mut expanded);
        let mut c = Arithmetic { tokens: &expanded, at: 0, depth: 0 };
        let value = c.value(0);
        match value {
            Ok(v) if c.at == expanded.len() => v != 0,
            Ok(_) => {
                self.error("bad-condition", expanded[c.at].span, "the condition ends before this");
                false
            }
            Err(text) => {
                let at = expanded.get(c.at).or(expanded.last()).map_or(span, |t| t.span);
                self.error("bad-condition", at, text);
                false
            }
        }
    }
}

fn line_end(tokens: &[Token], at: usize) -> usize {
    (at + 1..tokens.len()).find(|i| tokens[*i].first).unwrap_or(tokens.len())
}

/// The arguments in parentheses from `tokens[open]` on, and the index after them.
fn arguments(tokens: &[Token], open: usize) -> Option<(Vec<Vec<Token>>, usize)> {
    let mut args = vec![Vec::new()];
    let mut depth = 0;
    for (i, t) in tokens.iter().enumerate().skip(open) {
        match &t.tok {
            Tok::P("(") | Tok::P("{") | Tok::P("[") => {
                depth += 1;
                if depth == 1 {
                    continue;
                }
            }
            Tok::P(")") | Tok::P("}") | Tok::P("]") => {
                depth -= 1;
                if depth == 0 {
                    return Some((args, i + 1));
                }
            }
            Tok::P(",") if depth == 1 => {
                args.push(Vec::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = args.last_mut() {
            last.push(t.clone());
        }
    }
    None
}

/// Joins the tokens on both sides of each `##`.
fn paste(body: &[Token], diagnostics: &mut Diagnostics) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(body.len());
    let mut i = 0;
    while i < body.len() {
        if body[i].tok == Tok::P("##") && !out.is_empty() && i + 1 < body.len() {
            let left = out.pop().map_or_else(String::new, |t| t.tok.text());
            let text = left + &body[i + 1].tok.text();
            let mut tokens = lex(&text, body[i].span.lo, diagnostics);
            tokens.iter_mut().for_each(|t| t.span = body[i].span);
            out.extend(tokens);
            i += 2;
        } else {
            out.push(body[i].clone());
            i += 1;
        }
    }
    out
}

/// `#if` arithmetic: 64-bit, names that are no macros are 0.
struct Arithmetic<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", ">", "<=", ">="],
    &["<<"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Arithmetic<'_> {
    fn peek(&self) -> Option<&str> {
        match &self.tokens.get(self.at)?.tok {
            Tok::P(p) => Some(p),
            _ => None,
        }
    }

    fn value(&mut self, level: usize) -> Result<i64, String> {
        self.depth += 1;
        if self.depth > 512 {
            return Err("the condition is nested too deeply".into());
        }
        let result = self.value_inside(level);
        self.depth -= 1;
        result
    }

    fn value_inside(&mut self, level: usize) -> Result<i64, String> {
        let Some(ops) = LEVELS.get(level) else { return self.unary() };
        let mut a = self.value(level + 1)?;
        while let Some(op) = self.peek().and_then(|p| ops.iter().find(|o| **o == p)).copied() {
            self.at += 1;
            let b = self.value(level + 1)?;
            let bool = |v: bool| i64::from(v);
            a = match op {
                "||" => bool(a != 0 || b != 0),
                "&&" => bool(a != 0 && b != 0),
                "|" => a | b,
                "^" => a ^ b,
                "&" => a & b,
                "==" => bool(a == b),
                "!=" => bool(a != b),
                "<" => bool(a < b),
                ">" => bool(a > b),
                "<=" => bool(a <= b),
                ">=" => bool(a >= b),
                "<<" => a.checked_shl(b.clamp(0, 64) as u32).unwrap_or(0),
                "+" => a.wrapping_add(b),
                "-" => a.wrapping_sub(b),
                "*" => a.wrapping_mul(b),
                _ => match if op == "/" { a.checked_div(b) } else { a.checked_rem(b) } {
                    Some(v) => v,
                    None => return Err("division by zero".into()),
                },
            };
        }
        if level == 0 && self.peek() == Some("?") {
            self.at += 1;
            let yes = self.value(0)?;
            if self.peek() != Some(":") {
                return Err("`?` needs a `:`".into());
            }
            self.at += 1;
            let no = self.value(0)?;
            return Ok(if a != 0 { yes } else { no });
        }
        Ok(a)
    }

    fn unary(&mut self) -> Result<i64, String> {
        let Some(token) = self.tokens.get(self.at) else {
            return Err("the condition ends where a value should be".into());
        };
        self.at += 1;
        match &token.tok {
            Tok::Int(text) => match crate::literal::integer(text) {
                Ok(i) => i64::try_from(&i.value).map_err(|_| "the number is too large".to_string()),
                Err(e) => Err(e),
            },
            Tok::Kw("true") => Ok(1),
            Tok::Ident(_) | Tok::Kw(_) => Ok(0),
            Tok::P("(") => {
                let v = self.value(0)?;
                if self.peek() != Some(")") {
                    return Err("a `)` is missing".into());
                }
                self.at += 1;
                Ok(v)
            }
            Tok::P(op @ ("!" | "-" | "+" | "~")) => {
                let op = *op;
                let v = self.value(LEVELS.len())?;
                Ok(match op {
                    "!" => i64::from(v == 0),
                    "-" => v.wrapping_neg(),
                    "~" => !v,
                    _ => v,
                })
            }
            other => {
                self.at -= 1;
                Err(format!("{} is no value", other.describe()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(&'static str, &'static str);

    impl Files for One {
        fn read(&self, path: &Path) -> Option<String> {
            (path == Path::new(self.0)).then(|| self.1.to_string())
        }
    }

    fn run(text: &str) -> (String, Vec<&'static str>) {
        let (mut map, mut d) = (SourceMap::default(), Diagnostics::default());
        let files = One("inc/a.p4", "A #include \"b.p4\"\n#include \"a.p4\"\n");
        let options =
            Options { include: vec![PathBuf::from("inc")], define: vec![("N".into(), "4".into())] };
        let tokens = preprocess(&mut map, &mut d, &files, &options, Path::new("x.p4"), text);
        let words: Vec<String> = tokens.iter().map(|t| t.tok.text()).collect();
        let codes = d.list().iter().map(|d| d.code).collect();
        (words.join(" ").trim_end().to_string(), codes)
    }

    fn good(text: &str) -> String {
        let (out, codes) = run(text);
        assert!(codes.is_empty(), "{codes:?}");
        out
    }

    #[test]
    fn macros_expand_with_arguments_and_stop_at_themselves() {
        assert_eq!(good("#define A B\n#define B A x\nA y"), "A x y");
        assert_eq!(good("#define F(x, y) y + x\nF(1, F(2, (3, 4)))"), "( 3 , 4 ) + 2 + 1");
        assert_eq!(good("#define F(x) x\nF F (\n 1\n)"), "F 1");
        assert_eq!(
            good("#define J(a,b) a##b\n#define S(a) #a\nJ(x,1) S(q r) J(8w,1)"),
            "x1 \"q r\" 8w1"
        );
        assert_eq!(good("#define E() 7\nE() N"), "7 4");
        assert_eq!(good("#define control ctl\ncontrol"), "ctl");
        assert_eq!(good("#define L a \\\n  b\nL\n#undef L\nL __LINE__"), "a b L 5");
    }

    #[test]
    fn conditions_choose() {
        assert_eq!(
            good("#if N == 4 && defined(N) && !defined X\na\n#elif 1\nb\n#else\nc\n#endif"),
            "a"
        );
        assert_eq!(good("#ifdef X\na\n#elif (N << 1) > 0x7\nb\n#else\nc\n#endif"), "b");
        assert_eq!(good("#ifndef N\n#if 1\na\n#else\nb\n#endif\n#else\nc\n#endif"), "c");
        assert_eq!(good("#if 0\n#error no\n#include <nothing>\n'\n#endif\n"), "");
        assert_eq!(good("#if UNKNOWN ? 1 : 0\na\n#endif"), "");
    }

    #[test]
    fn what_is_wrong_is_told() {
        assert_eq!(run("#if 1").1, ["unclosed-if"]);
        assert_eq!(run("#endif\n#else").1, ["stray-directive", "stray-directive"]);
        assert_eq!(run("#if 1/0\n#endif\n#if\n#endif\n#if 1 1\n#endif").1, ["bad-condition"; 3]);
        assert_eq!(run("#inclde <core.p4>").1, ["bad-directive"]);
        assert_eq!(run("#include <cor.p4>").1, ["no-such-file"]);
        assert_eq!(run("#error it's wrong").1, ["error-directive"]);

        assert_eq!(run("#define F(x) x\nF(1,2) F(").1, ["bad-macro", "bad-macro"]);
        assert_eq!(run("#define A 1\n#define A 2\n").1, ["macro-redefined"]);
    }

    #[test]
    fn bounded_whatever_the_text() {
        let (_, codes) = run("#include <a.p4>\n");
        assert!(codes.contains(&"include-depth") || codes.contains(&"no-such-file"), "{codes:?}");
        let mut bomb = String::from("#define A0 x x x x x x x x\n");
        for i in 1..12 {
            bomb += &format!("#define A{i} A{0} A{0} A{0} A{0} A{0} A{0} A{0} A{0}\n", i - 1);
        }
        assert_eq!(run(&(bomb + "A11")).1, ["too-large"]);
    }
}
