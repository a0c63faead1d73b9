//! The preprocessor (specification §6.1), as C's in its assembler mode, which is what P4's programs are
//! written for: `#include`, `#define` with and without parameters, `#undef`, `#if`, `#ifdef`, `#ifndef`,
//! `#elif`, `#elifdef`, `#elifndef`, `#else`, `#endif`, `#error`, `#warning`; `#pragma`, `#line` and
//! `#ident` are read over. A line that begins with `#` and no directive is a comment, with a warning.
//!
//! It works on tokens: a macro's tokens take the place of its use and carry the span of the use. So
//! every diagnosis points at text that somebody wrote, and no table of line numbers is needed. Tokens are pulled
//! from a stack: files that include each other, upon them the macros that are being expanded. A macro
//! is left alone while its own tokens are on the stack, and a name that was left alone stays so. A
//! macro's arguments may therefore begin in its own expansion and go on behind it, over directives, too.
//! Text that a condition leaves out is not read as tokens.
//!
//! Bounds, so that any text ends: [`INCLUDES_MAX`] nested files, [`CALLS_MAX`] nested macro calls, and
//! what [`Limits`] says of bytes, files and tokens. Work is counted, too, in tokens that are looked at:
//! macros that expand to nothing end as well.

mod arithmetic;
mod expand;

use crate::diag::{Diagnostic, Diagnostics, nearest};
use crate::lex::{Lexer, Name, Tok, Token, lex};
use crate::limits::{self, Limits};
use crate::source::{SourceMap, Span};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Files that include each other, nested.
pub const INCLUDES_MAX: usize = 64;
/// Macro calls in arguments of macro calls, nested.
pub const CALLS_MAX: usize = 256;
/// Tokens that are looked at, for each that there may be in the end.
const WORK_FACTOR: usize = 16;

/// Files that come with the compiler, found after all folders were searched.
pub const EMBEDDED: &[(&str, &str)] = &[
    ("core.p4", include_str!("../include/core.p4")),
    ("v1model.p4", include_str!("../include/v1model.p4")),
    ("millrace.p4", include_str!("../include/millrace.p4")),
];

/// Where included files come from.
pub trait Files {
    /// A file's text; `None` if there is no such file. The error says why it was not read.
    fn read(&self, path: &Path, bytes_max: u64) -> Result<Option<String>, String>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path, bytes_max: u64) -> Result<Option<String>, String> {
        match crate::file::read_text(path, bytes_max) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.missing() => Ok(None),
            Err(e) => Err(e.to_string()),
        }
    }
}

/// No files but those that come with the compiler.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path, _: u64) -> Result<Option<String>, String> {
        Ok(None)
    }
}

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folders to search for included files, in order.
    pub include: Vec<PathBuf>,
    /// Macros defined from the start: name and text.
    pub define: Vec<(String, String)>,
    /// How large the program may be.
    pub limits: Limits,
}

/// Directives, and what are words of some.
const DIRECTIVES: &[&str] = &[
    "if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif", "define", "undef",
    "include", "error", "warning", "pragma", "line", "ident",
];

/// Macros that are always there.
const BUILT_IN: &[&str] =
    &["__LINE__", "__FILE__", "__BASE_FILE__", "__COUNTER__", "__INCLUDE_LEVEL__"];

#[derive(Clone)]
struct Macro {
    span: Span,
    params: Option<Vec<Name>>,
    /// The last parameter takes all arguments from there on.
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

/// A file that is being read.
struct Reading {
    path: PathBuf,
    lexer: Lexer,
    conditions: Vec<Condition>,
    /// The first line that begins with `#` and no directive, and how many more there are.
    comments: Option<(Span, usize)>,
}

impl Reading {
    fn live(&self) -> bool {
        self.conditions.last().is_none_or(|c| c.live)
    }
}

/// A token, and whether it is left alone if it names a macro.
#[derive(Clone)]
struct Piece {
    token: Token,
    alone: bool,
}

/// Tokens that take the place of a macro's use, or of an argument.
struct Source {
    pieces: std::vec::IntoIter<Piece>,
    /// The macro that they come from.
    of: Option<Name>,
}

/// What is expanded: a text's tokens, or those of an argument alone.
struct Expansion {
    sources: Vec<Source>,
    /// Below the sources lie the files.
    files: bool,
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
        active: HashMap::new(),
        reading: Vec::new(),
        bytes: 0,
        opened: 0,
        work: 0,
        calls: 0,
        counter: 0,
        full: false,
        once: Vec::new(),
    };
    p.predefine("__MILLRACE__", "1");
    for (name, value) in &options.define {
        p.predefine(name, value);
    }
    p.open(path, text, false, Span::default());
    let mut out: Vec<Token> = Vec::new();
    let mut all = Expansion { sources: Vec::new(), files: true };
    while let Some(piece) = p.expanded(&mut all) {
        if out.len() >= options.limits.tokens {
            let text = format!("the program has more than {} tokens", options.limits.tokens);
            p.too_large(piece.token.span, text);
            break;
        }
        out.push(piece.token);
    }
    let end = match map.add("", "", true) {
        Some((_, at)) => out.last().map_or(Span { lo: at, hi: at }, |t| Span {
            lo: t.span.hi.saturating_sub(1).max(1),
            hi: t.span.hi,
        }),
        None => Span::default(),
    };
    out.push(Token { tok: Tok::Eof, span: end, first: true, spaced: true });
    out
}

struct Preprocessor<'a> {
    map: &'a mut SourceMap,
    diagnostics: &'a mut Diagnostics,
    files: &'a dyn Files,
    options: &'a Options,
    macros: HashMap<Name, Macro>,
    /// Macros whose tokens are on a stack, and how often.
    active: HashMap<Name, u32>,
    /// Files that include each other, the innermost last.
    reading: Vec<Reading>,
    bytes: usize,
    opened: usize,
    work: usize,
    calls: usize,
    counter: u32,
    full: bool,
    /// Files that said `#pragma once`.
    once: Vec<PathBuf>,
}

impl Preprocessor<'_> {
    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.add(Diagnostic::error(code, span, message));
    }

    /// Tells that the program is too large, once, and ends it here.
    fn too_large(&mut self, span: Span, message: String) {
        if !self.full {
            self.full = true;
            self.error("too-large", span, message);
        }
    }

    /// Counts tokens that are looked at.
    fn works(&mut self, pieces: usize, span: Span) {
        self.work += pieces;
        let most = self.options.limits.tokens.saturating_mul(WORK_FACTOR);
        if self.work > most {
            self.too_large(span, format!("macros take more than {most} steps to expand"));
        }
    }

    fn predefine(&mut self, name: &str, value: &str) {
        let Some((_, start)) = self.map.add("<command line>", value, true) else { return };
        let body = lex(value, start, self.diagnostics);
        let span = Span { lo: start, hi: start + value.len() as u32 };
        self.macros
            .insert(name.into(), Macro { span, params: None, variadic: false, body: body.into() });
    }

    /// Goes on with a file.
    fn open(&mut self, path: &Path, text: &str, embedded: bool, from: Span) {
        let name = path.to_string_lossy().into_owned();
        let limits = &self.options.limits;
        self.bytes = self.bytes.saturating_add(text.len());
        self.opened += 1;
        if self.opened > limits.files {
            let text = format!("more than {} files are included", limits.files);
            return self.too_large(from, text);
        }
        let added = match self.bytes > limits.text_bytes {
            true => None,
            false => self.map.add(&name, text, embedded),
        };
        let Some((index, start)) = added else {
            let most = limits::bytes(limits.text_bytes as u128);
            return self.too_large(from, format!("{name} makes the program larger than {most}"));
        };
        let text = self.map.get(index).text.clone();
        self.reading.push(Reading {
            path: path.to_path_buf(),
            lexer: Lexer::new(text, start),
            conditions: Vec::new(),
            comments: None,
        });
    }

    /// Is done with the innermost file.
    fn close(&mut self) {
        let Some(done) = self.reading.pop() else { return };
        for c in done.conditions {
            let d = Diagnostic::error("unclosed-if", c.span, "this condition never ends");
            self.diagnostics.add(d.help("close it with `#endif`"));
        }
        if let Some((span, more)) = done.comments {
            let also = match more {
                0 => String::new(),
                1 => "; so is one more line of this file".to_string(),
                n => format!("; so are {n} more lines of this file"),
            };
            let text = format!("no directive: the line is taken as a comment{also}");
            let d = Diagnostic::warning("no-directive", span, text);
            self.diagnostics.add(d.help("write comments with `//`"));
        }
    }

    /// The next token of the files that is taken; directives on the way are done. With `stay`, none of
    /// another file than the one that is read now.
    fn pull(&mut self, stay: bool) -> Option<Token> {
        while !self.full {
            let depth = self.reading.len();
            let reading = self.reading.last_mut()?;
            let live = reading.live();
            let hash = match live {
                true => reading.lexer.directive(self.diagnostics),
                false => reading.lexer.skip_to_directive(),
            };
            if let Some(hash) = hash {
                self.directive(hash, live);
                if stay && self.reading.len() > depth {
                    return None;
                }
                continue;
            }
            if live && let Some(token) = reading.lexer.token(self.diagnostics) {
                return Some(token);
            }
            if stay {
                return None;
            }
            self.close();
        }
        None
    }

    // Directives. Each leaves the file behind its line.

    fn directive(&mut self, hash: Span, live: bool) {
        let Some(reading) = self.reading.last_mut() else { return };
        let before = reading.lexer.peek_line().1;
        let Some((word, at)) = reading.lexer.word_in_line(self.diagnostics) else {
            let (rest, span) = reading.lexer.raw_line();
            // `#` alone is nothing, and `# 1 "file"` says where the text comes from.
            if live && !rest.is_empty() && !rest.starts_with(|c: char| c.is_ascii_digit()) {
                self.comment(hash.to(span));
            }
            return;
        };
        let span = hash.to(at);
        match &*word {
            "if" | "ifdef" | "ifndef" => {
                let live_now = live && self.holds(&word, span);
                if let Some(reading) = self.reading.last_mut() {
                    reading.conditions.push(Condition {
                        span,
                        live: live_now,
                        taken: live_now,
                        last: false,
                        outer: live,
                    });
                }
            }
            "elif" | "elifdef" | "elifndef" | "else" | "endif" => self.branch(&word, span),
            _ if !live => {}
            "define" => self.define(span),
            "undef" => match self.word_in_line() {
                Some((name, _)) => {
                    self.macros.remove(&name);
                }
                None => self.error("bad-directive", span, "#undef needs a name"),
            },
            "include" => return self.include(span),
            "import" | "include_next" => {
                let text = format!("#{word} is not supported");
                let d = Diagnostic::error("bad-directive", span, text);
                self.diagnostics.add(d.help("write `#include`, and `#pragma once` in the file"));
            }
            "error" | "warning" => {
                let text = format!("#{word} {}", self.raw_line().0);
                self.diagnostics.add(if &*word == "error" {
                    Diagnostic::error("error-directive", span, text)
                } else {
                    Diagnostic::warning("warning-directive", span, text)
                });
            }
            "pragma" => {
                if self.word_in_line().is_some_and(|(w, _)| &*w == "once")
                    && let Some(reading) = self.reading.last()
                {
                    self.once.push(reading.path.clone());
                }
            }
            "line" | "ident" => {}
            other => {
                // A blank behind `#` is a comment's rather than a directive's.
                let typo = nearest(other, DIRECTIVES.iter().copied())
                    .filter(|_| hash.hi == at.lo && other.len() > 2);
                match typo {
                    Some(near) => {
                        let text =
                            format!("no directive: the line with #{other} is taken as a comment");
                        let d = Diagnostic::warning("no-directive", span, text);
                        self.diagnostics.add(d.help(format!("the nearest directive is `#{near}`")));
                    }
                    None => self.comment(hash.to(before)),
                }
            }
        }
        self.raw_line();
    }

    fn comment(&mut self, span: Span) {
        let Some(reading) = self.reading.last_mut() else { return };
        match &mut reading.comments {
            Some((_, more)) => *more += 1,
            none => *none = Some((span, 0)),
        }
    }

    fn word_in_line(&mut self) -> Option<(Name, Span)> {
        self.reading.last_mut()?.lexer.word_in_line(self.diagnostics)
    }

    fn raw_line(&mut self) -> (String, Span) {
        self.reading.last_mut().map_or_else(Default::default, |r| r.lexer.raw_line())
    }

    /// The rest of a directive.
    fn line(&mut self) -> Vec<Token> {
        let mut tokens = Vec::new();
        let Some(reading) = self.reading.last_mut() else { return tokens };
        while let Some(token) = reading.lexer.token_in_line(self.diagnostics) {
            tokens.push(token);
        }
        let span = tokens.first().map_or(Span::default(), |t| t.span);
        self.works(tokens.len(), span);
        tokens
    }

    fn is_defined(&self, name: &str) -> bool {
        self.macros.contains_key(name) || BUILT_IN.contains(&name) || name == "__has_include"
    }

    /// What an `#if` or `#elif` of any kind asks.
    fn holds(&mut self, word: &str, span: Span) -> bool {
        if matches!(word, "if" | "elif") {
            let rest = self.line();
            return self.condition(rest, span);
        }
        match self.word_in_line() {
            Some((name, _)) => self.is_defined(&name) != word.ends_with("ndef"),
            None => {
                self.error("bad-directive", span, format!("#{word} needs a name"));
                false
            }
        }
    }

    fn branch(&mut self, word: &str, span: Span) {
        let Some(reading) = self.reading.last_mut() else { return };
        let Some(c) = reading.conditions.last() else {
            let text = format!("#{word} without an #if before it");
            return self.error("stray-directive", span, text);
        };
        let (outer, taken, last, opened) = (c.outer, c.taken, c.last, c.span);
        if word == "endif" {
            reading.conditions.pop();
            return;
        }
        if last {
            let d = Diagnostic::error("stray-directive", span, format!("#{word} after #else"));
            self.diagnostics.add(d.note(opened, "the condition begins here"));
        }
        let live = outer && !taken && !last && (word == "else" || self.holds(word, span));
        if let Some(c) = self.reading.last_mut().and_then(|r| r.conditions.last_mut()) {
            c.live = live;
            c.taken |= live;
            c.last |= word == "else";
        }
    }

    fn define(&mut self, span: Span) {
        let rest = self.line();
        let Some(name) = rest.first().and_then(|t| t.tok.word()) else {
            return self.error("bad-directive", span, "#define needs a name");
        };
        if name == "defined" || name == "__has_include" {
            let text = format!("`{name}` cannot be a macro");
            return self.error("bad-macro", rest[0].span, text);
        }
        let name: Name = name.into();
        let span = rest[0].span;
        let mut body = &rest[1..];
        let mut params = None;
        let mut variadic = false;
        if let Some(open) = body.first().filter(|t| t.tok == Tok::P("(") && !t.spaced) {
            let Some(close) = body.iter().position(|t| t.tok == Tok::P(")")) else {
                let d =
                    Diagnostic::error("bad-macro", open.span, "the list of parameters never ends");
                return self.diagnostics.add(d.help("close it with `)`"));
            };
            let mut names: Vec<Name> = Vec::new();
            let list = &body[1..close];
            let mut at = 0;
            while at < list.len() {
                let t = &list[at];
                let dots = |i: usize| list.get(i).is_some_and(|t| t.tok == Tok::P("..."));
                let comma = at > 0;
                if comma && (t.tok != Tok::P(",") || at + 1 == list.len()) || variadic {
                    let text = "parameters are names with commas between them";
                    return self.error("bad-macro", t.span, text);
                }
                at += usize::from(comma);
                let t = &list[at];
                at += 1;
                if let Some(word) = t.tok.word() {
                    if names.iter().any(|n| **n == *word) {
                        let text = format!("the parameter `{word}` is there twice");
                        return self.error("bad-macro", t.span, text);
                    }
                    names.push(word.into());
                    // `args...` takes the rest under a name of its own.
                    variadic = dots(at);
                    at += usize::from(variadic);
                } else if t.tok == Tok::P("...") {
                    names.push("__VA_ARGS__".into());
                    variadic = true;
                } else {
                    let text = "parameters are names with commas between them";
                    return self.error("bad-macro", t.span, text);
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

    /// The name of a file, whether it was in quotes, and where it stands.
    fn file_name(&mut self, span: Span) -> Option<(String, bool, Span)> {
        let (raw, at) = self.reading.last()?.lexer.peek_line();
        let raw = raw.to_string();
        let named =
            [("<", '>', false), ("\"", '"', true)].into_iter().find_map(|(open, close, quoted)| {
                let inner = raw.strip_prefix(open)?;
                let end = inner.find(close)?;
                let hi = at.lo + end as u32 + 2;
                Some((inner[..end].to_string(), quoted, Span { lo: at.lo, hi }))
            });
        if named.is_some() {
            return named;
        }
        let unclosed = raw.starts_with(['<', '"']);
        let line = if unclosed { Vec::new() } else { self.line() };
        match Self::named(&self.expand_all(line)) {
            Some((name, quoted, at)) => Some((name, quoted, at)),
            None if unclosed => {
                let close = if raw.starts_with('<') { ">" } else { "\"" };
                let text = format!("the file's name never ends; close it with `{close}`");
                self.error("bad-directive", span, text);
                None
            }
            None => {
                self.error("bad-directive", span, "#include needs <file> or \"file\"");
                None
            }
        }
    }

    /// The name of a file that tokens are.
    fn named(tokens: &[Token]) -> Option<(String, bool, Span)> {
        let first = tokens.first()?;
        match &first.tok {
            Tok::Str(name) => Some((name.to_string(), true, first.span)),
            Tok::P("<") => {
                let end = tokens.iter().position(|t| t.tok == Tok::P(">"))?;
                let name = spelled(&tokens[1..end]);
                Some((name, false, first.span.to(tokens[end].span)))
            }
            _ => None,
        }
    }

    /// Looks for a file: its text, path, and whether it comes with the compiler; or where it was not.
    fn find(&self, name: &str, quoted: bool) -> Result<(String, PathBuf, bool), NotFound> {
        let mut folders: Vec<PathBuf> = Vec::new();
        if quoted && let Some(from) = self.reading.last() {
            folders.push(from.path.parent().unwrap_or(Path::new("")).to_path_buf());
        }
        folders.extend(self.options.include.iter().cloned());
        let left = self.options.limits.text_bytes.saturating_sub(self.bytes) as u64;
        for folder in &folders {
            let path = folder.join(name);
            match self.files.read(&path, left) {
                Ok(Some(text)) => return Ok((text, path, false)),
                Ok(None) => {}
                Err(why) => return Err(NotFound::Refused(path, why)),
            }
        }
        match EMBEDDED.iter().find(|(n, _)| *n == name) {
            Some((n, text)) => Ok(((*text).to_string(), PathBuf::from(format!("<{n}>")), true)),
            None => Err(NotFound::Nowhere(folders)),
        }
    }

    fn include(&mut self, span: Span) {
        let named = self.file_name(span);
        self.raw_line();
        let Some((name, quoted, span)) = named else { return };
        if name.trim().is_empty() {
            return self.error("bad-directive", span, "#include names no file");
        }
        if self.reading.len() > INCLUDES_MAX {
            let text = format!("files include each other more than {INCLUDES_MAX} deep");
            self.error("include-depth", span, text);
            // Files that include each other twice would be read 2^64 times.
            self.full = true;
            return;
        }
        match self.find(&name, quoted) {
            Ok((_, path, _)) if self.once.contains(&path) => {}
            Ok((text, path, embedded)) => self.open(&path, &text, embedded, span),
            Err(NotFound::Refused(path, why)) => {
                let text = format!("`{}` cannot be included: {why}", path.display());
                self.error("unreadable-file", span, text);
            }
            Err(NotFound::Nowhere(folders)) => {
                let text = format!("the file `{name}` is in none of the folders searched");
                let d = Diagnostic::error("no-such-file", span, text);
                let known = EMBEDDED.iter().map(|(n, _)| *n);
                let shown = |f: &PathBuf| match f.as_os_str().is_empty() {
                    true => ".".to_string(),
                    false => f.display().to_string(),
                };
                let help = match nearest(&name, known) {
                    Some(near) => format!("the nearest file that comes with millrace is <{near}>"),
                    None if folders.is_empty() => "name a folder to search with -I".to_string(),
                    None => {
                        let list: Vec<String> = folders.iter().map(shown).collect();
                        format!("searched: {}; name another folder with -I", list.join(", "))
                    }
                };
                self.diagnostics.add(d.help(help));
            }
        }
    }

    // Expansion.

    /// What `#if` asks: `defined` and `__has_include` look at names before they are expanded.
    fn condition(&mut self, rest: Vec<Token>, span: Span) -> bool {
        let mut tokens = Vec::new();
        let mut i = 0;
        while i < rest.len() {
            let word = rest[i].tok.word();
            let paren = rest.get(i + 1).is_some_and(|t| t.tok == Tok::P("("));
            let at = i + 1 + usize::from(paren);
            let (value, next) = match word {
                Some("defined") => {
                    let Some(name) = rest.get(at).and_then(|t| t.tok.word()) else {
                        self.error("bad-directive", rest[i].span, "`defined` needs a name");
                        return false;
                    };
                    (self.is_defined(name), at + 1)
                }
                Some("__has_include") if paren => {
                    let close = (at..rest.len()).rfind(|k| rest[*k].tok == Tok::P(")"));
                    let inner = rest.get(at..close.unwrap_or(at)).unwrap_or(&[]);
                    let named = match Self::named(inner) {
                        None => Self::named(&self.expand_all(inner.to_vec())),
                        named => named,
                    };
                    let Some((name, quoted, _)) = named else {
                        let text = "`__has_include` needs (<file>) or (\"file\")";
                        self.error("bad-directive", rest[i].span, text);
                        return false;
                    };
                    // What follows the name, up to its `)`.
                    let end = (at..rest.len()).find(|k| match quoted {
                        true => matches!(rest[*k].tok, Tok::P(")")),
                        false => rest[*k].tok == Tok::P(")") && *k > at,
                    });
                    (self.find(&name, quoted).is_ok(), end.unwrap_or(at))
                }
                _ => {
                    tokens.push(rest[i].clone());
                    i += 1;
                    continue;
                }
            };
            if paren && rest.get(next).is_none_or(|t| t.tok != Tok::P(")")) {
                self.error("bad-directive", rest[i].span, "a `)` is missing");
                return false;
            }
            let tok = Tok::Int(if value { "1" } else { "0" }.into());
            tokens.push(Token { tok, ..rest[i].clone() });
            i = next + usize::from(paren);
        }
        let expanded = self.expand_all(tokens);
        match arithmetic::holds(&expanded) {
            Ok(holds) => holds,
            Err((at, text)) => {
                let at = expanded.get(at).or(expanded.last()).map_or(span, |t| t.span);
                self.error("bad-condition", at, text);
                false
            }
        }
    }
}

/// Why there is no text of a file.
enum NotFound {
    /// It is there, and it is not read.
    Refused(PathBuf, String),
    /// It is in none of these folders.
    Nowhere(Vec<PathBuf>),
}

/// Tokens as they could be written, blanks where there were some.
fn spelled(tokens: &[Token]) -> String {
    let mut text = String::new();
    for (i, t) in tokens.iter().enumerate() {
        if i > 0 && t.spaced {
            text.push(' ');
        }
        text.push_str(&t.tok.text());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(&'static str, &'static str);

    impl Files for One {
        fn read(&self, path: &Path, _: u64) -> Result<Option<String>, String> {
            match path == Path::new("inc/device") {
                true => Err("this is a character device".into()),
                false => Ok((path == Path::new(self.0)).then(|| self.1.to_string())),
            }
        }
    }

    fn run(text: &str) -> (String, Vec<&'static str>) {
        let (mut map, mut d) = (SourceMap::default(), Diagnostics::default());
        let files = One("inc/a.p4", "A #include \"b.p4\"\n#include \"a.p4\"\n");
        let options = Options {
            include: vec![PathBuf::from("inc")],
            define: vec![("N".into(), "4".into())],
            ..Options::default()
        };
        let tokens = preprocess(&mut map, &mut d, &files, &options, Path::new("x.p4"), text);
        let words: Vec<String> = tokens.iter().map(|t| t.tok.text()).collect();
        let codes = d.list().iter().map(|d| d.code).collect();
        (words.join(" ").trim_end().to_string(), codes)
    }

    fn good(text: &str) -> String {
        let (out, codes) = run(text);
        assert!(codes.is_empty(), "{text}: {codes:?}");
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

    /// Each as `cpp -x assembler-with-cpp` answers.
    #[test]
    fn conditions_are_computed_as_c_does() {
        let holds = |c: &str| {
            let (out, codes) = run(&format!("#define CHAR 'a'\n#if {c}\na\n#endif"));
            (out == "a", codes)
        };
        let so = [
            // One unsigned operand makes both so, and a number that fits no other way.
            "-1 > 0u",
            "-1 / 2u > 1",
            "0u - 1 == 0xFFFFFFFFFFFFFFFF",
            "18446744073709551615 == -1",
            "0x8000000000000000 > 0",
            "(1 ? -1 : 0u) > 0",
            "(-1 > 0u) == 1u && -1 < (0 == 0u)",
            "~0u > 0 && ~0 < 0 && !0u > -1",
            "-1 % 10u == 5",
            "(-9223372036854775807 - 1) / -1 < 0",
            // A shift is of its left side's kind, and a negative one goes the other way.
            "-8 >> 1u == -4 && -1 >> 63 == -1 && -1 >> 100 == -1",
            "1 << -1 == 0 && 2 >> -1 == 4 && -1 >> -1 == -2",
            "(1 << 64) == 0 && 0x8000000000000000 >> 63 == 1",
            // Characters.
            "'a' == 97 && CHAR == 'a' && '\"' == 34 && ' ' == 32",
            "'\\n' == 10 && '\\'' == 39 && '\\\\' == 92 && '\\0' == 0 && '\\e' == 27",
            "'\\x41' == 65 && '\\101' == 'A' && '\\1011' == 0x4131",
            "'\\377' < 0 && '\\x80' == -128",
            "'ab' == 24930 && 'abcde' == 'bcde'",
            // Commas: the last value.
            "1, 2",
            "0, 1",
            "(0, 1) && 1 || (2, 0)",
            "0 ? 1, 0 : 3",
            "1 ? 2 : 0, 1",
        ];
        for c in so {
            assert_eq!(holds(c), (true, vec![]), "{c}");
        }
        for c in ["1, 0", "(2, 0)", "0 && (1, 2)", "1 << 64", "-1 < 0u", "'\\0'", "1 ? 0, 0 : 1"] {
            assert_eq!(holds(c), (false, vec![]), "{c}");
        }
        for c in ["''", "'a", "1,", ", 1", "(1,)", "18446744073709551616", "'\\xg'", "1 'a'"] {
            assert_eq!(holds(c), (false, vec!["bad-condition"]), "{c}");
        }
        let (_, codes) = run("#define C 'a'\nC");
        assert_eq!(codes, Vec::<&str>::new(), "a character is a token; the parser refuses it");
    }

    #[test]
    fn an_expansion_is_read_again_with_the_text_behind_it() {
        assert_eq!(good("#define A(x) <x>\n#define B A\nB(1) B B(2)"), "< 1 > A < 2 >");
        assert_eq!(good("#define f(a) a*g\n#define g(a) f(a)\nf(2)(9)"), "2 * 9 * g");
        assert_eq!(good("#define F(a, b) b a\nF(1,\n#ifdef X\n2\n#else\n3\n#endif\n)"), "3 1");
        assert_eq!(good("#define F(x) x\n#define O F(\nO 7)"), "7");
        assert_eq!(good("#define F(x, ...) x(__VA_ARGS__)\nF(a) F(a, b, c)"), "a ( ) a ( b , c )");
        assert_eq!(good("#define F(x, r...) x(1, ## r)\nF(a) F(a, b)"), "a ( 1 ) a ( 1 , b )");
        assert_eq!(good("#define G(a, b, c) c a\nG((q, r), {1, 2})"), "2 } ( q , r )");
    }

    #[test]
    fn includes_are_named_by_macros_and_asked_for() {
        let text = "#define INC <core.p4>\n#define Q \"v1model.p4\"\n#include INC\n#include Q\n";
        assert!(good(text).contains("packet_in"));
        let asked = "#if __has_include(<core.p4>) && !__has_include(\"no.p4\")\na\n#endif\n";
        assert_eq!(good(asked), "a");
        assert_eq!(good("#define I <a.p4>\n#if __has_include(I)\nb\n#endif\n"), "b");
        assert_eq!(good("#ifdef __has_include\nc\n#elifdef N\nd\n#endif"), "c");
        assert_eq!(run("#include <device>").1, ["unreadable-file"]);
        assert_eq!(run("#include <>").1, ["bad-directive"]);
    }

    #[test]
    fn lines_that_are_no_directives_are_comments_with_a_warning() {
        for text in ["# it's a \"comment\na", "#choose.apply();\na", "#!/bin/p4\na", "  #### x\na"]
        {
            let (out, codes) = run(text);
            assert_eq!((out.as_str(), codes), ("a", vec!["no-directive"]), "{text}");
        }
        assert_eq!(run("# one\n# two\n# three\na").1, ["no-directive"], "told once a file");
        assert_eq!(good("#ident \"x 1.2\"\n#\n# 7 \"y.p4\" 1\na"), "a");
    }

    #[test]
    fn text_that_is_left_out_is_not_read_as_tokens() {
        assert_eq!(good("#if 0\nsay \"hello\n#else\na\n#endif\nb"), "a b");
        assert_eq!(good("#if 0\n\"it's /* \" #endif\n/* \n#endif\n*/ x 'y\n#endif\nb"), "b");
        assert_eq!(good("#if 0\n// over \\\n#endif\n#endif\nb"), "b");
        assert_eq!(good("#if 1\na\n#elif 1/0 \"\n#elif )\n#endif\nb"), "a b");
        assert_eq!(good("#if 0 && 1/0 || 010 == 8 && 16 >> 2 == 4 && 201L > 2U\nc\n#endif"), "c");
    }

    #[test]
    fn what_is_wrong_is_told() {
        assert_eq!(run("#if 1").1, ["unclosed-if"]);
        assert_eq!(run("#endif\n#else").1, ["stray-directive", "stray-directive"]);
        assert_eq!(run("#if 1/0\n#endif\n#if\n#endif\n#if 1 1\n#endif").1, ["bad-condition"; 3]);
        assert_eq!(run("#inclde <core.p4>").1, ["no-directive"]);
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
        // Macros that expand to nothing, include loops, arguments of arguments.
        let mut empty = String::from("#define E0\n");
        for i in 1..12 {
            empty += &format!("#define E{i} {}\n", format!("E{} ", i - 1).repeat(16));
        }
        assert_eq!(run(&(empty + "E11")).1, ["too-large"]);
        let nest = format!("#define F(x) x x\n{}1{}", "F(".repeat(200), ")".repeat(200));
        assert_eq!(run(&nest).1, ["too-large"]);
        let deep = format!("#define F(x) x\n{}1{}", "F(".repeat(2000), ")".repeat(2000));
        assert!(run(&deep).1.contains(&"too-deep"));
        let twice = One("inc/a.p4", "#include \"a.p4\"\n#include \"a.p4\"\n");
        let (mut map, mut d) = (SourceMap::default(), Diagnostics::default());
        preprocess(&mut map, &mut d, &twice, &Options::default(), Path::new("inc/x.p4"), twice.1);
        assert_eq!(d.list().last().map(|d| d.code), Some("include-depth"));
    }
}
