//! Tokens of P4-16 (specification §6.3) and of its preprocessor.
//!
//! One lexer serves both: the preprocessor works on tokens, so a span always points into a file that
//! someone wrote. Comments and white space are dropped; what matters of them to the preprocessor, a
//! token's being the first of its line or having space before it, is kept in the token.

use crate::diag::{Diagnostic, Diagnostics};
use crate::source::Span;
use std::rc::Rc;

/// An identifier or other short text, shared.
pub type Name = Rc<str>;

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tok {
    /// An identifier, a contextual keyword among them.
    Ident(Name),
    /// A reserved word.
    Kw(&'static str),
    /// An integer literal as written.
    Int(Name),
    /// A string literal's contents, escapes resolved.
    Str(Name),
    /// Punctuation.
    P(&'static str),
    /// A character that begins no token: an error where the text is taken, and nothing in text that a
    /// condition leaves out.
    Bad(char),
    /// The end of the program.
    Eof,
}

/// A token.
#[derive(Clone, Debug)]
pub struct Token {
    /// What it is.
    pub tok: Tok,
    /// Where it is; of a token out of a macro, where the macro was used.
    pub span: Span,
    /// The first of its line.
    pub first: bool,
    /// White space or a comment is before it.
    pub spaced: bool,
}

/// Words that are no names (§6.3.2, appendix A); `apply`, `key`, `actions`, `state`, `entries`,
/// `type`, `priority` and `list` are names where the grammar allows.
const RESERVED: &[&str] = &[
    "abstract",
    "action",
    "bit",
    "bool",
    "break",
    "const",
    "continue",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "for",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "match_kind",
    "out",
    "package",
    "parser",
    "return",
    "select",
    "string",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "true",
    "tuple",
    "typedef",
    "value_set",
    "varbit",
    "void",
    "_",
];

/// Longest first, so that the first one that fits is right. `>>` is put together by the parser, since
/// two `>` may close two lists of type arguments.
const PUNCTUATION: &[&str] = &[
    "|+|=", "|-|=", "&&&", "...", "|+|", "|-|", "<<=", "&&", "||", "==", "!=", "<=", ">=", "++",
    "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", "..", "##", "+:", "(", ")", "[", "]",
    "{", "}", "<", ">", "!", "~", "+", "-", "*", "/", "%", "&", "|", "^", "=", ":", ",", ";", ".",
    "?", "@", "#",
];

impl Tok {
    /// A name or a reserved word.
    pub fn word(&self) -> Option<&str> {
        match self {
            Tok::Ident(name) => Some(name),
            Tok::Kw(word) => Some(word),
            _ => None,
        }
    }

    /// As it could be written.
    pub fn text(&self) -> String {
        match self {
            Tok::Ident(s) | Tok::Int(s) => s.to_string(),
            Tok::Kw(s) | Tok::P(s) => (*s).to_string(),
            Tok::Str(s) => format!("{s:?}"),
            Tok::Bad(c) => c.to_string(),
            Tok::Eof => String::new(),
        }
    }

    /// For "found ...".
    pub fn describe(&self) -> String {
        match self {
            Tok::Eof => "the end of the file".to_string(),
            Tok::Kw(word) => format!("the keyword `{word}`"),
            Tok::Str(_) => "a string".to_string(),
            other => format!("`{}`", other.text()),
        }
    }

    /// The token that a word is.
    pub fn from_word(word: &str) -> Tok {
        match RESERVED.iter().find(|r| **r == word) {
            Some(reserved) => Tok::Kw(reserved),
            None => Tok::Ident(word.into()),
        }
    }
}

/// All tokens of a text that begins at offset `start`, without an end token.
pub fn lex(text: &str, start: u32, diagnostics: &mut Diagnostics) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0, start, diagnostics, first: true, spaced: false };
    let mut tokens = Vec::with_capacity(text.len() / 4);
    while lexer.space() {
        if let Some(tok) = lexer.next() {
            let (tok, from) = tok;
            let span = Span { lo: start + from as u32, hi: start + lexer.at as u32 };
            tokens.push(Token { tok, span, first: lexer.first, spaced: lexer.spaced });
            lexer.first = false;
            lexer.spaced = false;
        }
    }
    tokens
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    start: u32,
    diagnostics: &'a mut Diagnostics,
    first: bool,
    spaced: bool,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&mut self, from: usize, code: &'static str, message: impl Into<String>, help: &str) {
        let span = Span { lo: self.start + from as u32, hi: self.start + self.at as u32 };
        let d = Diagnostic::error(code, span, message);
        self.diagnostics.add(if help.is_empty() { d } else { d.help(help) });
    }

    /// Skips white space and comments; false at the end.
    fn space(&mut self) -> bool {
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else { return false };
            if c == '\n' {
                self.first = true;
                self.spaced = true;
                self.at += 1;
            } else if c.is_whitespace() || c == '\u{feff}' {
                self.spaced = true;
                self.at += c.len_utf8();
            } else if rest.starts_with("\\\n") || rest.starts_with("\\\r\n") {
                self.spaced = true;
                self.at += rest.find('\n').map_or(1, |n| n + 1);
            } else if rest.starts_with("//") {
                self.spaced = true;
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(inside) = rest.strip_prefix("/*") {
                self.spaced = true;
                match inside.find("*/") {
                    Some(n) => self.at += n + 4,
                    None => {
                        let from = self.at;
                        self.at += 2;
                        let help = "close it with `*/`";
                        self.error(from, "unclosed-comment", "this comment never ends", help);
                        self.at = self.text.len();
                    }
                }
            } else {
                return true;
            }
        }
    }

    fn next(&mut self) -> Option<(Tok, usize)> {
        let from = self.at;
        let c = self.rest().chars().next()?;
        if c.is_ascii_alphabetic() || c == '_' {
            let word = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
            return Some((Tok::from_word(word), from));
        }
        if c.is_ascii_digit() {
            let digits = self.take(|c| c.is_ascii_alphanumeric() || c == '_').into();
            return Some((Tok::Int(digits), from));
        }
        if c == '"' {
            return Some((self.string(), from));
        }
        if let Some(p) = PUNCTUATION.iter().find(|p| self.rest().starts_with(**p)) {
            self.at += p.len();
            return Some((Tok::P(p), from));
        }
        self.at += c.len_utf8();
        Some((Tok::Bad(c), from))
    }

    fn take(&mut self, accept: impl Fn(char) -> bool) -> &str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A string may go on in the next line (annotations hold whole texts): if the next quote looks like
    /// an end, with what follows an argument after it, and not like the beginning of another string.
    fn closes(&self) -> bool {
        let rest = self.rest();
        let mut escaped = false;
        let end = rest.bytes().position(|b| {
            let quote = b == b'"' && !escaped;
            escaped = b == b'\\' && !escaped;
            quote
        });
        let Some(end) = end else { return false };
        rest[end + 1..].trim_start().starts_with([')', ',', ']', '}', ';', '"'])
    }

    fn string(&mut self) -> Tok {
        let from = self.at;
        self.at += 1;
        let mut value = String::new();
        while let Some(c) = self.rest().chars().next() {
            if c == '\n' && !self.closes() {
                break;
            }
            self.at += c.len_utf8();
            match c {
                '"' => return Tok::Str(value.into()),
                '\\' => {
                    let Some(next) = self.rest().chars().next() else { break };
                    self.at += next.len_utf8();
                    match next {
                        'n' => value.push('\n'),
                        't' => value.push('\t'),
                        'r' => value.push('\r'),
                        '\n' => {}
                        other => value.push(other),
                    }
                }
                c => value.push(c),
            }
        }
        self.error(from, "unclosed-string", "this string never ends", "close it with `\"`");
        Tok::Str(value.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toks(text: &str) -> (Vec<String>, usize) {
        let mut d = Diagnostics::default();
        let tokens = lex(text, 1, &mut d);
        (tokens.iter().map(|t| t.tok.text()).collect(), d.errors())
    }

    #[test]
    fn tokens_are_the_longest() {
        let (t, errors) = toks("a|+|b|+|=c &&& d && 8w0xFF .. ... >>= x++y");
        assert_eq!(errors, 0);
        let want = "a |+| b |+|= c &&& d && 8w0xFF .. ... > >= x ++ y";
        assert_eq!(t, want.split(' ').collect::<Vec<_>>());
    }

    #[test]
    fn comments_and_lines() {
        let mut d = Diagnostics::default();
        let t = lex("a /* x\n y */ b // c\n#d \\\n e", 1, &mut d);
        let firsts: Vec<bool> = t.iter().map(|t| t.first).collect();
        assert_eq!(firsts, [true, false, true, false, false]);
        assert_eq!(toks("/* never").1, 1);
        assert_eq!(toks("\"never\n x").1, 1);
        assert_eq!(toks("é x \u{0}").0, ["é", "x", "\u{0}"]);
    }

    #[test]
    fn strings_have_escapes() {
        let mut d = Diagnostics::default();
        let t = lex(r#""a\"b\\n""#, 1, &mut d);
        assert_eq!(t[0].tok, Tok::Str("a\"b\\n".into()));
    }
}
