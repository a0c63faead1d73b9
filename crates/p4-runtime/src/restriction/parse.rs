//! From tokens to a tree.

use super::text::{Tok, Token, Wrong, address, wrong};

/// Expressions inside of expressions, at most.
const DEPTH_MAX: u32 = 100;

/// An expression and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    pub(super) at: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Truth(bool),
    /// A number: negative, bytes with the highest first, as it is told.
    Number(bool, Vec<u8>, String),
    /// A key or a parameter, and one of its fields.
    Name(String, Option<String>),
    Attribute(String),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Implies(Box<Expr>, Box<Expr>),
    Compare(&'static str, Box<Expr>, Box<Expr>),
}

/// What stands between semicolons.
#[derive(Debug)]
pub(super) struct Clause {
    pub(super) expr: Expr,
    pub(super) from: usize,
    pub(super) to: usize,
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    text: &'a str,
    depth: u32,
}

/// All clauses of a text, one at least.
pub(super) fn clauses(tokens: &[Token], text: &str) -> Result<Vec<Clause>, Wrong> {
    let mut p = Parser { tokens, at: 0, text, depth: 0 };
    let mut out = Vec::new();
    loop {
        let from = p.peek().from;
        let expr = p.implication()?;
        let to = p.tokens[p.at - 1].to;
        out.push(Clause { expr, from, to });
        let semicolon = p.takes(";");
        if p.peek().tok == Tok::End {
            return Ok(out);
        }
        if !semicolon {
            return Err(p.wrong("`;` or the end is needed before this"));
        }
    }
}

const COMPARISONS: &[&str] = &["==", "!=", "<=", ">=", "<", ">"];

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn wrong(&self, what: impl Into<String>) -> Wrong {
        wrong(self.text, self.peek().from, what)
    }

    fn takes(&mut self, sign: &'static str) -> bool {
        let there = self.peek().tok == Tok::Sign(sign);
        self.at += usize::from(there);
        there
    }

    fn implication(&mut self) -> Result<Expr, Wrong> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong(format!("it nests more than {DEPTH_MAX} deep")));
        }
        let left = self.disjunction()?;
        let expr = if self.takes("->") {
            let right = self.disjunction()?;
            if self.peek().tok == Tok::Sign("->") {
                return Err(self.wrong("`->` does not follow another one; use parentheses"));
            }
            Expr { at: left.at, kind: Kind::Implies(Box::new(left), Box::new(right)) }
        } else {
            left
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn disjunction(&mut self) -> Result<Expr, Wrong> {
        let mut left = self.conjunction()?;
        while self.takes("||") {
            let right = self.conjunction()?;
            left = Expr { at: left.at, kind: Kind::Or(Box::new(left), Box::new(right)) };
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Expr, Wrong> {
        let mut left = self.comparison()?;
        while self.takes("&&") {
            let right = self.comparison()?;
            left = Expr { at: left.at, kind: Kind::And(Box::new(left), Box::new(right)) };
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Expr, Wrong> {
        let left = self.unary()?;
        let Some(op) = COMPARISONS.iter().copied().find(|op| self.peek().tok == Tok::Sign(op))
        else {
            return Ok(left);
        };
        self.at += 1;
        let right = self.unary()?;
        if let Tok::Sign(next) = self.peek().tok
            && COMPARISONS.contains(&next)
        {
            let what = format!("`{next}` does not follow another comparison; use parentheses");
            return Err(self.wrong(what));
        }
        Ok(Expr { at: left.at, kind: Kind::Compare(op, Box::new(left), Box::new(right)) })
    }

    fn unary(&mut self) -> Result<Expr, Wrong> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong(format!("it nests more than {DEPTH_MAX} deep")));
        }
        let at = self.peek().from;
        let expr = if self.takes("!") {
            Expr { at, kind: Kind::Not(Box::new(self.unary()?)) }
        } else if self.takes("-") {
            match self.unary()? {
                Expr { kind: Kind::Number(negative, bytes, told), .. } => {
                    Expr { at, kind: Kind::Number(!negative, bytes, format!("-{told}")) }
                }
                other => return Err(wrong(self.text, other.at, "`-` is for numbers")),
            }
        } else {
            self.primary()?
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn primary(&mut self) -> Result<Expr, Wrong> {
        let Token { tok, from: at, to } = self.peek().clone();
        let told = self.text[at..to].to_owned();
        let expr = |kind| Ok(Expr { at, kind });
        self.at += 1;
        match tok {
            Tok::Number(bytes) => expr(Kind::Number(false, bytes, told)),
            Tok::Name(name) if name == "true" || name == "false" => {
                expr(Kind::Truth(name == "true"))
            }
            Tok::Name(name) if self.peek().tok == Tok::Sign("(") => {
                self.at += 1;
                let Tok::Quoted(text) = self.peek().tok.clone() else {
                    return Err(self.wrong("an address in single quotes is needed"));
                };
                let bytes = address(&name, &text);
                let what = || format!("`{text}` is no {name} address");
                let bytes = bytes.ok_or_else(|| wrong(self.text, at, what()))?;
                self.at += 1;
                if !self.takes(")") {
                    return Err(self.wrong("`)` is missing"));
                }
                expr(Kind::Number(false, bytes, format!("{name}('{text}')")))
            }
            Tok::Name(name) => {
                let field = match self.takes("::") {
                    true => Some(self.name("the field of a key")?),
                    false => None,
                };
                expr(Kind::Name(name, field))
            }
            Tok::Sign("::") => {
                let name = self.name("an attribute")?;
                expr(Kind::Attribute(name))
            }
            Tok::Sign("(") => {
                let inner = self.implication()?;
                match self.takes(")") {
                    true => expr(inner.kind),
                    false => Err(self.wrong("`)` is missing")),
                }
            }
            Tok::End => Err(wrong(self.text, at, "a condition is missing")),
            Tok::Quoted(_) | Tok::Sign(_) => {
                Err(wrong(self.text, at, format!("`{told}` does not stand here")))
            }
        }
    }

    fn name(&mut self, what: &str) -> Result<String, Wrong> {
        match self.peek().tok.clone() {
            Tok::Name(name) => {
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.wrong(format!("the name of {what} is needed"))),
        }
    }
}
