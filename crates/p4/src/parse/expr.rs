//! Expressions, by binding strength (specification appendix G.4), and sets.

use super::{CHAIN_MAX, Failed, Parser, Result, Shape};
use crate::ast::*;
use crate::diag::Diagnostic;
use crate::lex::Tok;
use crate::literal;
use crate::source::Span;

/// How tightly an operator binds; loosest first. `?:` is looser than all.
fn strength(op: BinaryOp) -> u8 {
    use BinaryOp::*;
    match op {
        LogicalOr => 1,
        LogicalAnd => 2,
        Eq | Ne => 3,
        Lt | Gt | Le | Ge => 4,
        Or => 5,
        Xor => 6,
        And => 7,
        Shl | Shr => 8,
        Add | Sub | AddSat | SubSat | Concat => 9,
        Mul | Div | Mod => 10,
    }
}

fn expr(kind: ExprKind, span: Span) -> Expr {
    Expr { kind, span }
}

impl Parser<'_> {
    /// An expression.
    pub(super) fn expr(&mut self) -> Result<Expr> {
        self.deeper(Self::ternary)
    }

    fn ternary(&mut self) -> Result<Expr> {
        let condition = self.binary(1)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let yes = self.expr()?;
        self.expect(":")?;
        let no = self.expr()?;
        let span = condition.span.to(no.span);
        Ok(expr(ExprKind::Mux(Box::new(condition), Box::new(yes), Box::new(no)), span))
    }

    /// The operator here and how many tokens it has.
    fn operator(&self) -> Option<(BinaryOp, usize)> {
        use BinaryOp::*;
        let Tok::P(p) = self.peek() else { return None };
        if self.no_greater && matches!(*p, ">" | ">=") {
            return None;
        }
        Some((
            match *p {
                "*" => Mul,
                "/" => Div,
                "%" => Mod,
                "+" => Add,
                "-" => Sub,
                "|+|" => AddSat,
                "|-|" => SubSat,
                "<<" => Shl,
                ">" if self.is_at(1, ">") && self.adjacent(1) => {
                    if self.is_at(2, ">=") && self.adjacent(2) {
                        return None;
                    }
                    return Some((Shr, 2));
                }
                ">" if self.is_at(1, ">=") && self.adjacent(1) => return None,
                "<=" => Le,
                ">=" => Ge,
                "<" => Lt,
                ">" => Gt,
                "==" => Eq,
                "!=" => Ne,
                "&" => And,
                "^" => Xor,
                "|" => Or,
                "++" => Concat,
                "&&" => LogicalAnd,
                "||" => LogicalOr,
                _ => return None,
            },
            1,
        ))
    }

    /// The token `n` ahead follows the one before it without space.
    pub(super) fn adjacent(&self, n: usize) -> bool {
        self.tokens.get(self.at + n).is_some_and(|t| !t.spaced && !t.first)
    }

    pub(super) fn binary(&mut self, least: u8) -> Result<Expr> {
        let mut left = self.unary()?;
        let mut chain = 0;
        while let Some((op, tokens)) = self.operator() {
            if strength(op) < least {
                break;
            }
            chain += 1;
            if chain > CHAIN_MAX {
                return self.chain_full();
            }
            (0..tokens).for_each(|_| {
                self.bump();
            });
            let right = self.deeper(|p| p.binary(strength(op) + 1))?;
            let span = left.span.to(right.span);
            left = expr(ExprKind::Binary(op, Box::new(left), Box::new(right)), span);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr> {
        let op = match self.peek() {
            Tok::P("!") => UnaryOp::LogicalNot,
            Tok::P("~") => UnaryOp::Not,
            Tok::P("-") => UnaryOp::Neg,
            Tok::P("+") => UnaryOp::Plus,
            _ => return self.postfix(),
        };
        let start = self.bump();
        let inner = self.deeper(Self::unary)?;
        let span = start.to(inner.span);
        Ok(expr(ExprKind::Unary(op, Box::new(inner)), span))
    }

    fn postfix(&mut self) -> Result<Expr> {
        let mut e = self.primary()?;
        let mut chain = 0;
        loop {
            chain += 1;
            if chain > CHAIN_MAX {
                return self.chain_full();
            }
            match self.peek() {
                Tok::P(".") => {
                    self.bump();
                    let name = match self.peek().word() {
                        // Methods and fields may be called as keywords that are names elsewhere.
                        Some(word) if matches!(self.peek(), Tok::Ident(_)) => {
                            let name = word.into();
                            Ident { name, span: self.bump() }
                        }
                        _ => self.name()?,
                    };
                    let span = e.span.to(name.span);
                    e = expr(ExprKind::Member(Box::new(e), name), span);
                }
                Tok::P("[") => {
                    self.bump();
                    let first = self.expr()?;
                    if self.eat(":") {
                        let second = self.expr()?;
                        let span = e.span.to(self.expect("]")?);
                        e = expr(
                            ExprKind::Slice(Box::new(e), Box::new(first), Box::new(second)),
                            span,
                        );
                    } else if self.eat("+:") {
                        let second = self.expr()?;
                        let span = e.span.to(self.expect("]")?);
                        e = expr(
                            ExprKind::PlusSlice(Box::new(e), Box::new(first), Box::new(second)),
                            span,
                        );
                    } else {
                        let span = e.span.to(self.expect("]")?);
                        e = expr(ExprKind::Index(Box::new(e), Box::new(first)), span);
                    }
                }
                Tok::P("(") => {
                    let args = self.args()?;
                    let span = e.span.to(self.before());
                    e = expr(ExprKind::Call(Box::new(e), Vec::new(), args), span);
                }
                Tok::P("<") if matches!(e.kind, ExprKind::Path(_) | ExprKind::Member(..)) => {
                    let Some(types) = self.attempt(Shape::TypeArguments, |p| {
                        let types = p.type_args()?;
                        let call = p.is("(");
                        let member = p.is(".") && matches!(p.peek_at(1), Tok::Ident(_));
                        if call || member { Ok(types) } else { Err(Failed) }
                    }) else {
                        return Ok(e);
                    };
                    if self.is("(") {
                        let args = self.args()?;
                        let span = e.span.to(self.before());
                        e = expr(ExprKind::Call(Box::new(e), types, args), span);
                    } else {
                        let ExprKind::Path(path) = e.kind else { return Ok(e) };
                        let span = e.span.to(self.before());
                        let ty = Type { kind: TypeKind::Named(path, types), span };
                        e = expr(ExprKind::Type(Box::new(ty)), span);
                    }
                }
                _ => return Ok(e),
            }
        }
    }

    /// `(arguments)`.
    pub(super) fn args(&mut self) -> Result<Vec<Arg>> {
        self.expect("(")?;
        self.list(")", |p| {
            let start = p.span();
            let name = if matches!(p.peek(), Tok::Ident(_)) && p.is_at(1, "=") {
                let name = p.name()?;
                p.expect("=")?;
                Some(name)
            } else {
                None
            };
            let value = if *p.peek() == Tok::Kw("_") {
                p.bump();
                None
            } else {
                Some(p.expr()?)
            };
            Ok(Arg { name, value, span: start.to(p.before()) })
        })
    }

    pub(super) fn primary(&mut self) -> Result<Expr> {
        let start = self.span();
        match self.peek() {
            Tok::Int(text) => {
                self.bump();
                match literal::integer(text) {
                    Ok(i) => Ok(expr(ExprKind::Int(i.value, i.width), start)),
                    Err(text) => {
                        self.tell(Diagnostic::error("bad-number", start, text));
                        Ok(expr(ExprKind::Bad, start))
                    }
                }
            }
            Tok::Str(text) => {
                self.bump();
                Ok(expr(ExprKind::Str(text.clone()), start))
            }
            Tok::Kw("true") => {
                self.bump();
                Ok(expr(ExprKind::Bool(true), start))
            }
            Tok::Kw("false") => {
                self.bump();
                Ok(expr(ExprKind::Bool(false), start))
            }
            Tok::Kw("this") => {
                self.bump();
                Ok(expr(ExprKind::This, start))
            }
            Tok::P("...") => {
                self.bump();
                Ok(expr(ExprKind::Dots, start))
            }
            Tok::P("{") => self.braces(),
            Tok::P("(") => self.parentheses(),
            Tok::Ident(name) if &**name == "list" && self.is_at(1, "<") => self.type_operand(),
            Tok::Ident(_) => {
                let path = self.path()?;
                Ok(expr(ExprKind::Path(path), start))
            }
            Tok::P(".") if matches!(self.peek_at(1), Tok::Ident(_)) => {
                let path = self.path()?;
                Ok(expr(ExprKind::Path(path), start.to(self.before())))
            }
            Tok::Kw("error") | Tok::Kw("match_kind") => {
                let ty = self.ty()?;
                Ok(expr(ExprKind::Type(Box::new(ty)), start))
            }
            _ if self.is_base_type() => self.type_operand(),
            _ => self.expected("an expression"),
        }
    }

    /// A type where only its members or its construction make sense.
    fn type_operand(&mut self) -> Result<Expr> {
        let ty = self.ty()?;
        if !self.is(".") && !self.is("(") {
            let text = "a type stands where a value should be";
            self.tell(
                Diagnostic::error("syntax", ty.span, text)
                    .help("put it in parentheses in front of a value to cast"),
            );
            return Err(Failed);
        }
        let span = ty.span;
        Ok(expr(ExprKind::Type(Box::new(ty)), span))
    }

    /// `{...}`: a list, a struct-valued expression, an invalid header.
    fn braces(&mut self) -> Result<Expr> {
        let start = self.expect("{")?;
        if self.is("#") {
            self.bump();
            let end = self.expect("}")?;
            return Ok(expr(ExprKind::Invalid, start.to(end)));
        }
        let named = matches!(self.peek(), Tok::Ident(_)) && self.is_at(1, "=");
        let mut dots = false;
        let kind = if named {
            let mut fields = Vec::new();
            while !self.is("}") {
                if self.is("...") {
                    self.bump();
                    dots = true;
                    self.eat(",");
                    break;
                }
                let name = self.name()?;
                self.expect("=")?;
                fields.push((name, self.expr()?));
                if !self.eat(",") {
                    break;
                }
            }
            ExprKind::Struct(fields, dots)
        } else {
            let mut items = Vec::new();
            while !self.is("}") {
                if self.is("...") {
                    self.bump();
                    dots = true;
                    self.eat(",");
                    break;
                }
                items.push(self.expr()?);
                if !self.eat(",") {
                    break;
                }
            }
            ExprKind::List(items, dots)
        };
        if !self.is("}") {
            return self.expected("`,` or `}`");
        }
        let end = self.bump();
        Ok(expr(kind, start.to(end)))
    }

    /// A cast, or an expression in parentheses.
    fn parentheses(&mut self) -> Result<Expr> {
        let start = self.span();
        let cast = self.attempt(Shape::Cast, |p| {
            p.expect("(")?;
            let known =
                p.is_base_type() || matches!(p.peek(), Tok::Ident(n) if p.types.contains(n));
            let ty = p.ty()?;
            p.expect(")")?;
            let operand = match p.peek() {
                Tok::Ident(_) | Tok::Int(_) | Tok::Str(_) | Tok::P("!" | "~" | "{" | "...") => true,
                Tok::Kw("true" | "false" | "this" | "error") => true,
                Tok::P("(" | "-" | "+" | ".") => known,
                _ => false,
            };
            if operand { Ok(ty) } else { Err(Failed) }
        });
        if let Some(ty) = cast {
            let inner = self.deeper(Self::unary)?;
            let span = start.to(inner.span);
            return Ok(expr(ExprKind::Cast(Box::new(ty), Box::new(inner)), span));
        }
        self.expect("(")?;
        let old = std::mem::replace(&mut self.no_greater, false);
        let e = self.expr();
        self.no_greater = old;
        let e = e?;
        let end = self.expect(")")?;
        // The parentheses belong to what is shown of it.
        Ok(Expr { span: start.to(end), ..e })
    }

    /// A set of a select case or an entry: one, or several in parentheses.
    pub(super) fn set(&mut self) -> Result<Expr> {
        if self.is("(") {
            let start = self.span();
            let tuple = self.attempt(Shape::SetTuple, |p| {
                p.expect("(")?;
                let first = p.simple_set()?;
                if !p.is(",") && !p.is(")") {
                    return Err(Failed);
                }
                let mut sets = vec![first];
                let mut several = false;
                while p.eat(",") {
                    several = true;
                    if p.is(")") {
                        break;
                    }
                    sets.push(p.simple_set()?);
                }
                p.expect(")")?;
                // `(a) &&& b`, `(a) + b`: the parentheses belong to an expression.
                if !several && !p.is(":") {
                    return Err(Failed);
                }
                Ok(sets)
            });
            if let Some(sets) = tuple {
                return Ok(expr(ExprKind::SetTuple(sets), start.to(self.before())));
            }
        }
        self.simple_set()
    }

    fn simple_set(&mut self) -> Result<Expr> {
        let start = self.span();
        match self.peek() {
            Tok::Kw("_") => {
                self.bump();
                return Ok(expr(ExprKind::Dontcare, start));
            }
            Tok::Kw("default") => {
                self.bump();
                return Ok(expr(ExprKind::Default, start));
            }
            _ => {}
        }
        let a = self.expr()?;
        if self.eat("&&&") {
            let b = self.expr()?;
            let span = start.to(b.span);
            return Ok(expr(ExprKind::Mask(Box::new(a), Box::new(b)), span));
        }
        if self.eat("..") {
            let b = self.expr()?;
            let span = start.to(b.span);
            return Ok(expr(ExprKind::Range(Box::new(a), Box::new(b)), span));
        }
        Ok(a)
    }
}
