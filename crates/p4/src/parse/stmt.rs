//! Statements.

use super::{Failed, Parser, Result, Shape};
use crate::ast::*;
use crate::diag::Diagnostic;
use crate::lex::Tok;

impl Parser<'_> {
    /// Statements in braces; one that cannot be read is skipped.
    pub(super) fn block(&mut self, annotations: Vec<Annotation>) -> Result<Block> {
        let start = self.expect("{")?;
        let (stmts, end) = self.deeper(|p| p.items(Self::stmt))?;
        Ok(Block { annotations, stmts, span: start.to(end) })
    }

    /// A statement or declaration.
    pub(super) fn stmt(&mut self) -> Result<Stmt> {
        self.deeper(Self::stmt_inside)
    }

    fn stmt_inside(&mut self) -> Result<Stmt> {
        let start = self.span();
        let annotations = self.annotations()?;
        let kind = match self.peek() {
            Tok::P("{") => StmtKind::Block(self.block(annotations)?),
            Tok::P(";") => {
                self.bump();
                StmtKind::Empty
            }
            Tok::Kw("if") => self.if_stmt()?,
            Tok::Kw("exit") => {
                self.bump();
                self.expect(";")?;
                StmtKind::Exit
            }
            Tok::Kw("break") => {
                self.bump();
                self.expect(";")?;
                StmtKind::Break
            }
            Tok::Kw("continue") => {
                self.bump();
                self.expect(";")?;
                StmtKind::Continue
            }
            Tok::Kw("return") => {
                self.bump();
                let value = if self.is(";") { None } else { Some(self.expr()?) };
                self.expect(";")?;
                StmtKind::Return(value)
            }
            Tok::Kw("switch") => self.switch_stmt()?,
            Tok::Kw("for") => self.for_stmt()?,
            Tok::Kw("const") => StmtKind::Decl(Box::new(self.constant(annotations)?)),
            _ if self.is_base_type() && !self.is_word("error") => {
                StmtKind::Decl(Box::new(self.variable(annotations)?))
            }
            Tok::Ident(_) | Tok::P(".") | Tok::Kw("error") if self.is_typed_name() => {
                StmtKind::Decl(Box::new(self.variable(annotations)?))
            }
            Tok::Ident(_) | Tok::P(".") if self.is_instance() => {
                StmtKind::Decl(Box::new(self.instance(annotations)?))
            }
            Tok::Ident(_) | Tok::P(".") | Tok::Kw("this") | Tok::P("(") | Tok::Kw("error") => {
                let kind = self.simple_stmt()?;
                self.expect(";")?;
                kind
            }
            _ => return self.expected("a statement"),
        };
        Ok(Stmt { kind, span: start.to(self.before()) })
    }

    /// An assignment or a call, without its `;`.
    fn simple_stmt(&mut self) -> Result<StmtKind> {
        let left = self.lvalue()?;
        let Some(op) = self.assignment() else {
            if matches!(left.kind, ExprKind::Call(..)) {
                return Ok(StmtKind::Call(left));
            }
            return self.expected("`=` or `(`");
        };
        let right = self.expr()?;
        Ok(StmtKind::Assign(op, left, right))
    }

    /// What may stand before `=` or be called: no operators.
    fn lvalue(&mut self) -> Result<Expr> {
        self.binary(11)
    }

    /// `=` or an operator with `=` (1.2.5 §12.1), which is read.
    fn assignment(&mut self) -> Option<Option<BinaryOp>> {
        use BinaryOp::*;
        let Tok::P(p) = self.peek() else { return None };
        if *p == ">" && self.is_at(1, ">=") && self.adjacent(1) {
            self.bump();
            self.bump();
            return Some(Some(Shr));
        }
        let op = match *p {
            "=" => None,
            "+=" => Some(Add),
            "-=" => Some(Sub),
            "*=" => Some(Mul),
            "/=" => Some(Div),
            "%=" => Some(Mod),
            "&=" => Some(And),
            "|=" => Some(Or),
            "^=" => Some(Xor),
            "<<=" => Some(Shl),
            "|+|=" => Some(AddSat),
            "|-|=" => Some(SubSat),
            _ => return None,
        };
        self.bump();
        Some(op)
    }

    fn if_stmt(&mut self) -> Result<StmtKind> {
        self.bump();
        self.expect("(")?;
        let condition = self.expr()?;
        self.expect(")")?;
        let then = Box::new(self.stmt()?);
        let or_else = if self.eat_word("else") {
            // A chain of `else if`s is no nesting to a reader.
            self.depth = self.depth.saturating_sub(2);
            let stmt = self.stmt();
            self.depth += 2;
            Some(Box::new(stmt?))
        } else {
            None
        };
        Ok(StmtKind::If(condition, then, or_else))
    }

    fn switch_stmt(&mut self) -> Result<StmtKind> {
        self.bump();
        self.expect("(")?;
        let value = self.expr()?;
        self.expect(")")?;
        self.expect("{")?;
        let (cases, _) = self.items(|p| {
            let label = if p.is_word("default") {
                Label::Default(p.bump())
            } else {
                Label::Value(p.expr()?)
            };
            p.expect(":")?;
            let body = if p.is("{") { Some(p.block(Vec::new())?) } else { None };
            if body.is_none() && !p.is_word("default") && p.is(";") {
                let span = p.span();
                let d = Diagnostic::error("syntax", span, "a case has a block or nothing at all");
                p.tell(d.help("write `{}` for a case that does nothing"));
                return Err(Failed);
            }
            Ok(SwitchCase { label, body })
        })?;
        Ok(StmtKind::Switch(value, cases))
    }

    fn for_stmt(&mut self) -> Result<StmtKind> {
        self.bump();
        self.expect("(")?;
        // `for (T x in ...)`.
        let ranged = self.attempt(Shape::ForIn, |p| {
            p.annotations()?;
            let ty = p.ty()?;
            let name = p.name()?;
            p.expect_word("in")?;
            Ok((ty, name))
        });
        if let Some((ty, name)) = ranged {
            let a = self.expr()?;
            let set = if self.eat("..") { ForSet::Range(a, self.expr()?) } else { ForSet::Expr(a) };
            self.expect(")")?;
            let body = self.stmt()?;
            return Ok(StmtKind::ForIn(ty, name, Box::new(set), Box::new(body)));
        }
        let untyped = self.attempt(Shape::ForInUntyped, |p| {
            let name = p.name()?;
            p.expect_word("in")?;
            Ok(name)
        });
        if let Some(name) = untyped {
            let d =
                Diagnostic::error("syntax", name.span, "the variable of a `for` lacks its type");
            self.tell(
                d.help(format!("write the type in front: `for (bit<8> {} in ...)`", name.name)),
            );
            return Err(Failed);
        }
        let mut init = Vec::new();
        while !self.is(";") {
            let start = self.span();
            let annotations = self.annotations()?;
            let kind = if self.is_typed_name() {
                StmtKind::Decl(Box::new(self.variable_head(annotations)?))
            } else {
                self.simple_stmt()?
            };
            init.push(Stmt { kind, span: start.to(self.before()) });
            if !self.eat(",") {
                break;
            }
        }
        self.expect(";")?;
        let condition = self.expr()?;
        self.expect(";")?;
        let update = self.list(")", |p| {
            let start = p.span();
            let kind = p.simple_stmt()?;
            Ok(Stmt { kind, span: start.to(p.before()) })
        })?;
        let body = self.stmt()?;
        Ok(StmtKind::For(init, condition, update, Box::new(body)))
    }
}
