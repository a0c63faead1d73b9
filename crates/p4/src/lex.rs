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
    /// A character constant of a directive, as written between its quotes.
    Char(Name),
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
pub(crate) const RESERVED: &[&str] = &[
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
            Tok::Char(s) => format!("'{s}'"),
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
    let mut lexer = Lexer::new(text.into(), start);
    let mut tokens = Vec::with_capacity(text.len() / 4);
    while let Some(token) = lexer.token(diagnostics) {
        tokens.push(token);
    }
    tokens
}

/// Reads a text from front to back, as the preprocessor asks for it: token by token, the rest of a
/// directive's line, or over lines that a condition leaves out, which are not read as tokens.
#[derive(Debug)]
pub struct Lexer {
    text: Rc<str>,
    at: usize,
    start: u32,
    first: bool,
    spaced: bool,
    /// The first string that goes over a line's end: the likely culprit if one never ends.
    over_lines: Option<Span>,
}

/// What white space and comments end at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    /// A token.
    Token,
    /// The line's end, if that was asked for.
    Line,
    /// The text's end.
    End,
}

/// Bytes of a backslash and a line's end at the beginning of a text, with blanks between them; 0 if
/// there is none.
fn splice(rest: &str) -> usize {
    let Some(after) = rest.strip_prefix('\\') else { return 0 };
    let blank = after.find(|c| !matches!(c, ' ' | '\t' | '\r')).unwrap_or(after.len());
    if after[blank..].starts_with('\n') { blank + 2 } else { 0 }
}

/// Bytes up to the line's end, which a backslash before it puts off.
fn line_bytes(rest: &str) -> usize {
    let mut at = 0;
    while let Some(n) = rest[at..].find(['\n', '\\']) {
        at += n;
        match splice(&rest[at..]) {
            0 if rest[at..].starts_with('\n') => return at,
            0 => at += 1,
            n => at += n,
        }
    }
    rest.len()
}

impl Lexer {
    /// At the beginning of a text, whose first byte has the offset `start`.
    pub fn new(text: Rc<str>, start: u32) -> Lexer {
        Lexer { text, at: 0, start, first: true, spaced: false, over_lines: None }
    }

    fn span(&self, from: usize) -> Span {
        Span { lo: self.start + from as u32, hi: self.start + self.at as u32 }
    }

    /// The next token; `None` at the end.
    pub fn token(&mut self, diagnostics: &mut Diagnostics) -> Option<Token> {
        match self.gap(false, diagnostics) {
            Gap::Token => Some(self.read(false, diagnostics)),
            _ => None,
        }
    }

    /// The next token of the line; `None` at its end.
    pub fn token_in_line(&mut self, diagnostics: &mut Diagnostics) -> Option<Token> {
        match self.gap(true, diagnostics) {
            Gap::Token => Some(self.read(true, diagnostics)),
            _ => None,
        }
    }

    /// If a directive begins here, takes its `#`, and says where that is.
    pub fn directive(&mut self, diagnostics: &mut Diagnostics) -> Option<Span> {
        let text = self.text.clone();
        if self.gap(false, diagnostics) != Gap::Token
            || !self.first
            || !text[self.at..].starts_with('#')
        {
            return None;
        }
        self.at += 1;
        self.first = false;
        Some(self.span(self.at - 1))
    }

    /// Goes over lines that are left out, up to the next directive; takes its `#`. Only comments and
    /// quotes that are closed in their line are looked at (as C's preprocessor does).
    pub fn skip_to_directive(&mut self) -> Option<Span> {
        let text = self.text.clone();
        loop {
            let rest = &text[self.at..];
            let c = rest.chars().next()?;
            match c {
                '\n' => {
                    self.first = true;
                    self.at += 1;
                }
                '#' if self.first => {
                    self.at += 1;
                    self.first = false;
                    return Some(self.span(self.at - 1));
                }
                '\\' if splice(rest) > 0 => self.at += splice(rest),
                '/' if rest.starts_with("//") => self.at += line_bytes(rest),
                '/' if rest.starts_with("/*") => {
                    self.at += rest[2..].find("*/").map_or(rest.len(), |n| n + 4);
                }
                '"' | '\'' => {
                    self.first = false;
                    self.at += 1 + closed_in_line(&rest[1..], c).unwrap_or(0);
                }
                c => {
                    self.first &= c.is_whitespace();
                    self.at += c.len_utf8();
                }
            }
        }
    }

    /// The word that comes next in the line, if one does.
    pub fn word_in_line(&mut self, diagnostics: &mut Diagnostics) -> Option<(Name, Span)> {
        if self.gap(true, diagnostics) != Gap::Token {
            return None;
        }
        let c = self.text[self.at..].chars().next()?;
        if !(c.is_ascii_alphabetic() || c == '_') {
            return None;
        }
        let from = self.at;
        let word = self.word();
        Some((word, self.span(from)))
    }

    /// The rest of the line as it is written, without blanks around it.
    pub fn raw_line(&mut self) -> (String, Span) {
        let text = self.text.clone();
        let rest = &text[self.at..];
        let all = &rest[..line_bytes(rest)];
        let inner = all.trim();
        let from = self.at + (all.len() - all.trim_start().len());
        self.at = from + inner.len();
        let span = self.span(from);
        self.at = from - (all.len() - all.trim_start().len()) + all.len();
        (inner.to_string(), span)
    }

    /// As [`raw_line`](Self::raw_line), and nothing is taken.
    pub fn peek_line(&self) -> (&str, Span) {
        let rest = &self.text[self.at..];
        let all = &rest[..line_bytes(rest)];
        let from = self.at + (all.len() - all.trim_start().len());
        let inner = all.trim();
        let lo = self.start + from as u32;
        (inner, Span { lo, hi: lo + inner.len() as u32 })
    }

    fn error(
        &mut self,
        span: Span,
        code: &'static str,
        message: impl Into<String>,
        help: &str,
        diagnostics: &mut Diagnostics,
    ) {
        let mut d = Diagnostic::error(code, span, message).help(help);
        if let Some(over) = self.over_lines.filter(|over| over.lo != span.lo) {
            d = d.note(over, "a string goes over several lines from here; is its end missing?");
        }
        diagnostics.add(d);
    }

    /// Skips white space and comments.
    fn gap(&mut self, in_line: bool, diagnostics: &mut Diagnostics) -> Gap {
        let text = self.text.clone();
        loop {
            let rest = &text[self.at..];
            let Some(c) = rest.chars().next() else { return Gap::End };
            if c == '\n' {
                if in_line {
                    return Gap::Line;
                }
                self.first = true;
                self.spaced = true;
                self.at += 1;
            } else if c.is_whitespace() || c == '\u{feff}' {
                self.spaced = true;
                self.at += c.len_utf8();
            } else if splice(rest) > 0 {
                self.spaced = true;
                self.at += splice(rest);
            } else if rest.starts_with("//") {
                self.spaced = true;
                self.at += line_bytes(rest);
            } else if let Some(inside) = rest.strip_prefix("/*") {
                self.spaced = true;
                match inside.find("*/") {
                    Some(n) => self.at += n + 4,
                    None => {
                        let from = self.at;
                        self.at += 2;
                        let (span, help) = (self.span(from), "close it with `*/`");
                        let text = "this comment never ends";
                        self.error(span, "unclosed-comment", text, help, diagnostics);
                        self.at = self.text.len();
                    }
                }
            } else {
                return Gap::Token;
            }
        }
    }

    /// The token here, where one begins.
    fn read(&mut self, in_line: bool, diagnostics: &mut Diagnostics) -> Token {
        let from = self.at;
        let rest = &self.text[self.at..];
        let c = rest.chars().next().unwrap_or(' ');
        let tok = if c.is_ascii_alphabetic() || c == '_' {
            Tok::from_word(&self.word())
        } else if c.is_ascii_digit() {
            Tok::Int(self.word())
        } else if c == '"' {
            self.string(in_line, diagnostics)
        } else if let Some(length) =
            (in_line && c == '\'').then(|| closed_in_line(&rest[1..], c)).flatten()
        {
            self.at += 1 + length;
            Tok::Char(rest[1..length].into())
        } else if let Some(p) = PUNCTUATION.iter().find(|p| rest.starts_with(**p)) {
            self.at += p.len();
            Tok::P(p)
        } else {
            self.at += c.len_utf8();
            Tok::Bad(c)
        };
        let token = Token { tok, span: self.span(from), first: self.first, spaced: self.spaced };
        self.first = false;
        self.spaced = false;
        token
    }

    /// Letters, digits and underscores; a backslash at a line's end is left out of them.
    fn word(&mut self) -> Name {
        let text = self.text.clone();
        let part = |at: usize| {
            let rest = &text[at..];
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            &rest[..end.unwrap_or(rest.len())]
        };
        let first = part(self.at);
        self.at += first.len();
        let mut all: Option<String> = None;
        loop {
            let over = splice(&text[self.at..]);
            let more = if over > 0 { part(self.at + over) } else { "" };
            if more.is_empty() {
                break;
            }
            all.get_or_insert_with(|| first.to_string()).push_str(more);
            self.at += over + more.len();
        }
        all.map_or_else(|| first.into(), Name::from)
    }

    /// A string: up to the next quote without a backslash before it, over line ends, too (§6.4.3.3); in a
    /// directive it ends in its line.
    fn string(&mut self, in_line: bool, diagnostics: &mut Diagnostics) -> Tok {
        let text = self.text.clone();
        let from = self.at;
        self.at += 1;
        let mut value = String::new();
        let mut over = false;
        while let Some(c) = text[self.at..].chars().next() {
            if c == '\n' {
                if in_line {
                    break;
                }
                over = true;
            }
            self.at += c.len_utf8();
            match c {
                '"' => {
                    if over {
                        let span =
                            Span { lo: self.start + from as u32, hi: self.start + from as u32 + 1 };
                        self.over_lines.get_or_insert(span);
                    }
                    return Tok::Str(value.into());
                }
                '\\' => {
                    let Some(next) = text[self.at..].chars().next() else { break };
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
        let end = text[from..].find('\n').map_or(text.len(), |n| from + n);
        let span = Span { lo: self.start + from as u32, hi: self.start + end as u32 };
        self.error(
            span,
            "unclosed-string",
            "this string never ends",
            "close it with `\"`",
            diagnostics,
        );
        Tok::Str(value.into())
    }
}

/// Bytes up to and with the quote that closes a text in quotes, if one does before the line ends.
fn closed_in_line(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (i, c) in rest.char_indices() {
        match c {
            '\n' if !escaped => return None,
            c if c == quote && !escaped => return Some(i + 1),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    None
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
        let (t, errors) = toks("a // b \\\n c\nd // e \\ \n f \\x\ng");
        assert_eq!((t.join(" ").as_str(), errors), ("a d g", 0), "a comment's line goes on, too");
        assert_eq!(toks("con\\\nst 8w\\\r\n0x\\\nF a \\\n b").0, ["const", "8w0xF", "a", "b"]);
        assert_eq!(toks("é x \u{0}").0, ["é", "x", "\u{0}"]);
    }

    #[test]
    fn strings_have_escapes() {
        let mut d = Diagnostics::default();
        let t = lex(r#""a\"b\\n""#, 1, &mut d);
        assert_eq!(t[0].tok, Tok::Str("a\"b\\n".into()));
    }

    #[test]
    fn strings_end_at_their_quote_whatever_is_behind_it() {
        let strings = |text: &str| -> Vec<String> {
            let mut d = Diagnostics::default();
            let tokens = lex(text, 1, &mut d);
            assert_eq!(d.errors(), 0, "{text}");
            let tok = |t: &Token| if let Tok::Str(s) = &t.tok { Some(s.to_string()) } else { None };
            tokens.iter().filter_map(tok).collect()
        };
        assert_eq!(strings("\"a\n b\" // then a comment\n \"c\""), ["a\n b", "c"]);
        assert_eq!(strings("\"a\nb\" name \"c\nd\" + 1"), ["a\nb", "c\nd"]);
        assert_eq!(strings("\"x /* \n y\" /* \" */ \"\\\\\""), ["x /* \n y", "\\"]);
        assert_eq!(strings("\"a \\\" \n b\" <= 2"), ["a \" \n b"]);
    }

    #[test]
    fn a_string_that_never_ends_names_the_one_that_took_its_quote() {
        let mut d = Diagnostics::default();
        lex("a \"one;\nb \"two\";\nc \"three\";\n", 1, &mut d);
        assert_eq!(d.errors(), 1);
        let told = &d.list()[0];
        assert_eq!(told.code, "unclosed-string");
        assert_eq!(told.notes[0].0.lo, 3, "the first string is the likely one");
    }
}
