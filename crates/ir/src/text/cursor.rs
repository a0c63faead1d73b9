//! A place in the tokens, and what can be asked of it.

use super::error::Error;
use super::lex::{Kind, Literal, Token};
use crate::bits::Bits;

/// A cursor over the tokens of one item or of a whole text.
#[derive(Clone)]
pub(super) struct Cursor<'t> {
    tokens: &'t [Token],
    at: usize,
}

pub(super) type Parsed<T> = Result<T, Error>;

const END: Kind = Kind::End;

impl<'t> Cursor<'t> {
    pub(super) fn new(tokens: &'t [Token]) -> Cursor<'t> {
        Cursor { tokens, at: 0 }
    }

    pub(super) fn peek(&self) -> &'t Kind {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> &'t Kind {
        self.tokens.get(self.at + ahead).map_or(&END, |t| &t.kind)
    }

    pub(super) fn next(&mut self) -> &'t Kind {
        let kind = self.peek();
        if self.at < self.tokens.len() {
            self.at += 1;
        }
        kind
    }

    /// Line and column of the token ahead.
    pub(super) fn place(&self) -> (u32, u32) {
        let t = self.tokens.get(self.at).or(self.tokens.last());
        t.map_or((1, 1), |t| (t.line, t.column))
    }

    pub(super) fn error<T>(&self, text: impl Into<String>) -> Parsed<T> {
        let (line, column) = self.place();
        Err(Error { line, column, text: text.into() })
    }

    pub(super) fn expected<T>(&self, what: &str) -> Parsed<T> {
        self.error(format!("expected {what}, found {}", self.peek()))
    }

    pub(super) fn is(&self, punct: &str) -> bool {
        matches!(self.peek(), Kind::Punct(p) if *p == punct)
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Kind::Word(w) if w == word)
    }

    pub(super) fn eat(&mut self, punct: &str) -> bool {
        let is = self.is(punct);
        self.at += usize::from(is);
        is
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        self.at += usize::from(is);
        is
    }

    pub(super) fn want(&mut self, punct: &str) -> Parsed<()> {
        if self.eat(punct) { Ok(()) } else { self.expected(&format!("`{punct}`")) }
    }

    pub(super) fn want_word(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    /// A name, quoted or not.
    pub(super) fn name(&mut self, what: &str) -> Parsed<String> {
        match self.peek() {
            Kind::Word(w) | Kind::Quoted(w) => {
                self.at += 1;
                Ok(w.clone())
            }
            _ => self.expected(what),
        }
    }

    pub(super) fn at_end(&self) -> bool {
        matches!(self.peek(), Kind::Separator | Kind::End) || self.is("}")
    }

    pub(super) fn skip_separators(&mut self) {
        while matches!(self.peek(), Kind::Separator) {
            self.at += 1;
        }
    }

    /// The end of a statement: a separator, or what ends the list of statements.
    pub(super) fn end_statement(&mut self) -> Parsed<()> {
        match self.peek() {
            Kind::Separator => {
                self.skip_separators();
                Ok(())
            }
            Kind::End => Ok(()),
            Kind::Punct("}") => Ok(()),
            _ => self.expected("the end of the statement"),
        }
    }

    /// `{ statement ... }`.
    pub(super) fn statements(
        &mut self,
        mut each: impl FnMut(&mut Cursor<'t>) -> Parsed<()>,
    ) -> Parsed<()> {
        self.want("{")?;
        self.skip_separators();
        while !self.eat("}") {
            if matches!(self.peek(), Kind::End) {
                return self.expected("`}`");
            }
            each(self)?;
            self.end_statement()?;
        }
        Ok(())
    }

    pub(super) fn literal(&mut self, what: &str) -> Parsed<&'t Literal> {
        match self.peek() {
            Kind::Literal(l) => {
                self.at += 1;
                Ok(l)
            }
            _ => self.expected(what),
        }
    }

    /// A number that fits in this many bits.
    pub(super) fn number(&mut self, what: &str, bits: u32) -> Parsed<u128> {
        let at = self.clone();
        let l = self.literal(what)?;
        match l.value.to_u128() {
            Some(v) if bits >= 128 || v >> bits == 0 => Ok(v),
            _ => at.error(format!("{} is too large for {what}: at most {bits} bits", l.value)),
        }
    }

    pub(super) fn u32(&mut self, what: &str) -> Parsed<u32> {
        Ok(self.number(what, 32)? as u32)
    }

    /// A value of exactly this width.
    pub(super) fn value(&mut self, width: u32) -> Parsed<Bits> {
        let at = self.clone();
        let l = self.literal(&format!("a value of {width} bits"))?;
        fit(l, width).or_else(|text| at.error(text))
    }
}

/// The literal at this width.
pub(super) fn fit(l: &Literal, width: u32) -> Result<Bits, String> {
    let v = l.value.cast(width);
    if v.cast(l.value.width().max(width)) != l.value.cast(l.value.width().max(width)) {
        return Err(format!("{} does not fit in {width} bits", l.value));
    }
    Ok(v)
}

/// ` (did you mean ...?)`, if a known name is near.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let best = known.into_iter().map(|k| (distance(name, k), k)).min();
    match best {
        Some((d, k)) if d <= 1 + name.len() / 3 => format!("; did you mean `{k}`?"),
        _ => String::new(),
    }
}

/// Edit distance, of at most the first 64 bytes.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (&a.as_bytes()[..a.len().min(64)], &b.as_bytes()[..b.len().min(64)]);
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
