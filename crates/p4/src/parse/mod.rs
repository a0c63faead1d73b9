//! The parser: tokens to the syntax tree (specification appendix G).
//!
//! Recursive descent. Where the grammar needs to know types from values it is decided by shape: a
//! declaration is a type and a name, found by trying; `(T) x` is a cast if what follows can begin an
//! operand, and before `+`, `-` and `(` if `T` was declared as a type. A `<` after a name begins type
//! arguments if a list of types, `>` and `(` or `.` follow.
//!
//! Errors: what is expected and what was found, and then the parser goes on: at the next statement,
//! the next state or property, the next declaration, by the braces. Each such step moves on, so any
//! text ends. Nesting is bounded by [`DEPTH_MAX`] and chains of operators by [`CHAIN_MAX`], so that
//! whatever walks the tree needs a bounded stack.

mod decl;
mod expr;
mod stmt;
mod types;

use crate::ast::*;
use crate::diag::{Diagnostic, Diagnostics};
use crate::lex::{Tok, Token};
use crate::source::Span;
use std::collections::HashSet;

/// Nested expressions, statements, types, at most.
pub const DEPTH_MAX: usize = 200;
/// Operators, calls or `else if`s one after the other, at most.
pub const CHAIN_MAX: usize = 2000;

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shape {
    TypeArguments,
    Cast,
    SetTuple,
    TypedName,
    Instance,
    Object,
    ForIn,
    ForInUntyped,
}

/// Something could not be read; it was told already.
#[derive(Debug)]
struct Failed;

type Result<T> = std::result::Result<T, Failed>;

/// Reads a program: what could be read of it, with everything wrong told.
pub fn parse(tokens: &[Token], diagnostics: &mut Diagnostics) -> Vec<Decl> {
    let mut p = Parser {
        tokens,
        at: 0,
        diagnostics,
        depth: 0,
        types: HashSet::new(),
        trying: 0,
        vain: HashSet::new(),
        no_greater: false,
    };
    let mut decls = Vec::new();
    while !p.at_end() {
        let before = p.at;
        match p.declaration() {
            Ok(Some(decl)) => decls.push(decl),
            Ok(None) => {}
            Err(Failed) => p.next_declaration(before),
        }
    }
    decls
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    diagnostics: &'a mut Diagnostics,
    depth: usize,
    /// Names that were declared as types, anywhere.
    types: HashSet<Name>,
    /// Nothing is told while this is not 0: a shape is being tried.
    trying: u32,
    /// A `>` ends the expression: it is a type's width.
    no_greater: bool,
    /// Where which shape was tried in vain. Without it, shapes inside of shapes would be tried again
    /// and again, twice as often with each level.
    vain: HashSet<(usize, Shape)>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a Tok {
        &self.tokens[self.at].tok
    }

    fn peek_at(&self, n: usize) -> &'a Tok {
        &self.tokens[(self.at + n).min(self.tokens.len() - 1)].tok
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// Of the token before this one.
    fn before(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    fn at_end(&self) -> bool {
        *self.peek() == Tok::Eof
    }

    fn bump(&mut self) -> Span {
        let span = self.span();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        span
    }

    fn is(&self, p: &str) -> bool {
        matches!(self.peek(), Tok::P(q) if *q == p)
    }

    fn is_at(&self, n: usize, p: &str) -> bool {
        matches!(self.peek_at(n), Tok::P(q) if *q == p)
    }

    fn is_word(&self, w: &str) -> bool {
        self.peek().word() == Some(w)
    }

    fn eat(&mut self, p: &str) -> bool {
        let yes = self.is(p);
        if yes {
            self.bump();
        }
        yes
    }

    fn eat_word(&mut self, w: &str) -> bool {
        let yes = self.is_word(w);
        if yes {
            self.bump();
        }
        yes
    }

    fn tell(&mut self, d: Diagnostic) {
        if self.trying == 0 {
            self.diagnostics.add(d);
        }
    }

    /// Tells that something else was expected here.
    fn expected<T>(&mut self, what: &str) -> Result<T> {
        if self.trying == 0 {
            if let Tok::Bad(c) = self.peek() {
                let text = format!("{c:?} begins no token");
                let span = self.span();
                self.tell(Diagnostic::error("unknown-character", span, text));
                return Err(Failed);
            }
            let found = self.peek().describe();
            let mut span = self.span();
            let d = Diagnostic::error("syntax", span, format!("expected {what}, found {found}"));
            // A missing end is best shown where it is missing.
            let d = if (what == "`;`" || what == "`)`") && self.tokens[self.at].first && self.at > 0
            {
                span = self.before();
                let after = Span { lo: span.hi.saturating_sub(1).max(1), hi: span.hi };
                Diagnostic::error("syntax", after, format!("expected {what} after this"))
            } else {
                d
            };
            self.tell(d);
        }
        Err(Failed)
    }

    fn expect(&mut self, p: &'static str) -> Result<Span> {
        if self.is(p) { Ok(self.bump()) } else { self.expected(&format!("`{p}`")) }
    }

    fn expect_word(&mut self, w: &str) -> Result<Span> {
        if self.is_word(w) { Ok(self.bump()) } else { self.expected(&format!("`{w}`")) }
    }

    fn name(&mut self) -> Result<Ident> {
        match self.peek() {
            Tok::Ident(name) => {
                let name = name.clone();
                Ok(Ident { name, span: self.bump() })
            }
            Tok::Kw(word) if *word != "_" => {
                let text = format!("`{word}` is a keyword and cannot be a name");
                let span = self.span();
                self.tell(Diagnostic::error("syntax", span, text));
                Err(Failed)
            }
            _ => self.expected("a name"),
        }
    }

    /// Runs `f` one level deeper, unless that is too deep.
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            let span = self.span();
            let text = format!("nested more than {DEPTH_MAX} deep");
            self.trying = 0;
            self.tell(Diagnostic::error("too-deep", span, text));
            return Err(Failed);
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    fn chain_full<T>(&mut self) -> Result<T> {
        let span = self.span();
        let text = format!("more than {CHAIN_MAX} of these in a row");
        self.tell(Diagnostic::error("too-deep", span, text));
        Err(Failed)
    }

    /// Tries to read something; if it cannot be read, nothing happened.
    fn attempt<T>(&mut self, shape: Shape, f: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        let (at, depth) = (self.at, self.depth);
        if self.vain.contains(&(at, shape)) {
            return None;
        }
        self.trying += 1;
        let result = f(self);
        self.trying = self.trying.saturating_sub(1);
        if result.is_err() {
            self.at = at;
            self.vain.insert((at, shape));
        }
        self.depth = depth;
        result.ok()
    }

    /// Items with commas between them up to `close`, which is read too. A comma may be last.
    fn list<T>(
        &mut self,
        close: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while !self.is(close) {
            items.push(item(self)?);
            if !self.eat(",") {
                break;
            }
        }
        if !self.is(close) {
            return self.expected(&format!("`,` or `{close}`"));
        }
        self.bump();
        Ok(items)
    }

    /// Skips the rest of a declaration that could not be read: to after its `;` or its closing brace,
    /// or to a line that begins like another declaration.
    fn next_declaration(&mut self, from: usize) {
        if self.at == from {
            self.bump();
        }
        // How deep in braces the trouble was.
        let mut depth: i32 = 0;
        for t in &self.tokens[from..self.at] {
            match t.tok {
                Tok::P("{") => depth += 1,
                Tok::P("}") => depth -= 1,
                _ => {}
            }
        }
        loop {
            match self.peek() {
                Tok::Eof => return,
                Tok::P("{") => depth += 1,
                Tok::P("}") => {
                    depth -= 1;
                    if depth <= 0 {
                        self.bump();
                        self.eat(";");
                        return;
                    }
                }
                Tok::P(";") if depth <= 0 => {
                    self.bump();
                    return;
                }
                Tok::Kw(
                    "struct" | "header" | "header_union" | "typedef" | "control" | "parser"
                    | "extern" | "package" | "enum",
                ) if self.tokens[self.at].first && self.at > from && self.starts_line() => return,
                _ => {}
            }
            self.bump();
        }
    }

    /// This token begins its line at the left margin, as declarations do: a sign that braces were lost.
    fn starts_line(&self) -> bool {
        // Without the text at hand, a token right after a line's end has offset one past it.
        let t = &self.tokens[self.at];
        t.first
            && self.at > 0
            && !matches!(self.tokens[self.at - 1].tok, Tok::P("@" | "," | "(" | "<"))
    }

    /// Skips to after the next `;` on this level of braces, or before the `}` that closes it.
    fn next_statement(&mut self, from: usize) {
        if self.at == from && !self.is("}") {
            self.bump();
        }
        let mut depth: i32 = 0;
        loop {
            match self.peek() {
                Tok::Eof => return,
                Tok::P("{") => depth += 1,
                Tok::P("}") => {
                    if depth == 0 {
                        return;
                    }
                    depth -= 1;
                    if depth == 0 {
                        self.bump();
                        return;
                    }
                }
                Tok::P(";") if depth == 0 => {
                    self.bump();
                    return;
                }
                _ => {}
            }
            self.bump();
        }
    }

    /// Items up to `}`, which is read too; one that cannot be read is skipped.
    fn items<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<(Vec<T>, Span)> {
        let mut items = Vec::new();
        while !self.is("}") {
            if self.at_end() {
                return self.expected("`}`");
            }
            let from = self.at;
            match item(self) {
                Ok(x) => items.push(x),
                Err(Failed) => self.next_statement(from),
            }
        }
        let end = self.bump();
        Ok((items, end))
    }

    fn annotations(&mut self) -> Result<Vec<Annotation>> {
        let mut list = Vec::new();
        while self.is("@") {
            self.bump();
            let name = match self.peek().word() {
                Some(word) => {
                    let name = word.into();
                    Ident { name, span: self.bump() }
                }
                None => return self.expected("an annotation's name"),
            };
            if &*name.name == "pragma" && self.peek().word().is_some() {
                // The old form: a name and the rest of the line (§20.1.3).
                let name: Name = self.peek().word().unwrap_or("").into();
                let name = Ident { name, span: self.bump() };
                let from = self.at;
                while !self.tokens[self.at].first && !self.at_end() {
                    self.bump();
                }
                let body = AnnotationBody::Tokens(self.tokens[from..self.at].to_vec());
                list.push(Annotation { name, body });
                continue;
            }
            let body = match self.peek() {
                Tok::P("(") => {
                    self.bump();
                    AnnotationBody::Tokens(self.balanced(")")?)
                }
                Tok::P("[") => {
                    self.bump();
                    self.structured()?
                }
                _ => AnnotationBody::Empty,
            };
            list.push(Annotation { name, body });
        }
        Ok(list)
    }

    fn structured(&mut self) -> Result<AnnotationBody> {
        if self.eat("]") {
            return Ok(AnnotationBody::Exprs(Vec::new()));
        }
        if matches!(self.peek(), Tok::Ident(_)) && self.is_at(1, "=") {
            let pairs = self.list("]", |p| {
                let name = p.name()?;
                p.expect("=")?;
                Ok((name, p.expr()?))
            })?;
            return Ok(AnnotationBody::Pairs(pairs));
        }
        Ok(AnnotationBody::Exprs(self.list("]", Self::expr)?))
    }

    fn balanced(&mut self, close: &'static str) -> Result<Vec<Token>> {
        let from = self.at;
        let mut stack = vec![close];
        while let Some(want) = stack.last().copied() {
            match self.peek() {
                Tok::Eof => return self.expected(&format!("`{want}`")),
                Tok::P("(") => stack.push(")"),
                Tok::P("[") => stack.push("]"),
                Tok::P("{") => stack.push("}"),
                Tok::P(p @ (")" | "]" | "}")) => {
                    if *p != want {
                        return self.expected(&format!("`{want}`"));
                    }
                    stack.pop();
                }
                _ => {}
            }
            self.bump();
        }
        Ok(self.tokens[from..self.at - 1].to_vec())
    }
}

#[cfg(test)]
mod tests;
