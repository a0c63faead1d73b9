//! Types, type arguments and parameters.

use super::{Failed, Parser, Result, Shape};
use crate::ast::*;
use crate::lex::Tok;

impl Parser<'_> {
    /// The next token can only begin a type.
    pub(super) fn is_base_type(&self) -> bool {
        matches!(
            self.peek(),
            Tok::Kw(
                "bool"
                    | "bit"
                    | "int"
                    | "varbit"
                    | "string"
                    | "void"
                    | "tuple"
                    | "error"
                    | "match_kind"
            )
        )
    }

    /// A type, stacks included.
    pub(super) fn ty(&mut self) -> Result<Type> {
        self.deeper(Self::ty_inside)
    }

    fn ty_inside(&mut self) -> Result<Type> {
        let mut ty = self.plain_type()?;
        while self.is("[") {
            self.bump();
            let size = self.expr()?;
            let end = self.expect("]")?;
            let span = ty.span.to(end);
            ty = Type { kind: TypeKind::Stack(Box::new(ty), Box::new(size)), span };
        }
        Ok(ty)
    }

    /// A type without a stack's brackets.
    fn plain_type(&mut self) -> Result<Type> {
        let start = self.span();
        let kind = match self.peek() {
            Tok::Kw("_") => {
                self.bump();
                TypeKind::Dontcare
            }
            Tok::Kw("bool") => {
                self.bump();
                TypeKind::Bool
            }
            Tok::Kw("error") => {
                self.bump();
                TypeKind::Error
            }
            Tok::Kw("match_kind") => {
                self.bump();
                TypeKind::MatchKind
            }
            Tok::Kw("string") => {
                self.bump();
                TypeKind::String
            }
            Tok::Kw("void") => {
                self.bump();
                TypeKind::Void
            }
            Tok::Kw("bit") => {
                self.bump();
                TypeKind::Bit(if self.is("<") { Some(Box::new(self.width()?)) } else { None })
            }
            Tok::Kw("int") => {
                self.bump();
                if self.is("<") {
                    TypeKind::SignedInt(Box::new(self.width()?))
                } else {
                    TypeKind::Int
                }
            }
            Tok::Kw("varbit") => {
                self.bump();
                if !self.is("<") {
                    return self.expected("`<` and the greatest width in bits");
                }
                TypeKind::Varbit(Box::new(self.width()?))
            }
            Tok::Kw("tuple") => {
                self.bump();
                self.expect("<")?;
                TypeKind::Tuple(self.list(">", Self::ty)?)
            }
            Tok::Ident(name) if &**name == "list" && self.is_at(1, "<") => {
                self.bump();
                self.bump();
                let inner = self.ty()?;
                self.expect(">")?;
                TypeKind::List(Box::new(inner))
            }
            Tok::Ident(_) | Tok::P(".") => {
                let path = self.path()?;
                let args = if self.is("<") { self.type_args()? } else { Vec::new() };
                TypeKind::Named(path, args)
            }
            _ => return self.expected("a type"),
        };
        Ok(Type { kind, span: start.to(self.before()) })
    }

    /// `<width>`: a literal or an expression in parentheses (§7.1.6.2).
    fn width(&mut self) -> Result<Expr> {
        self.expect("<")?;
        if !matches!(self.peek(), Tok::P("(" | "-" | "~" | "+" | ".") | Tok::Int(_) | Tok::Ident(_))
        {
            return self.expected("a width: a number, or an expression in parentheses");
        }
        // More than the grammar has: any expression, as long as no `>` is in it.
        let old = std::mem::replace(&mut self.no_greater, true);
        let width = self.expr();
        self.no_greater = old;
        let width = width?;
        self.expect(">")?;
        Ok(width)
    }

    pub(super) fn path(&mut self) -> Result<Path> {
        let top = self.eat(".");
        Ok(Path { top, ident: self.name()? })
    }

    /// `<T, ...>`.
    pub(super) fn type_args(&mut self) -> Result<Vec<Type>> {
        self.expect("<")?;
        self.list(">", Self::ty)
    }

    /// `<T, ...>` of a declaration, if there is one.
    pub(super) fn type_params(&mut self) -> Result<Vec<Ident>> {
        if !self.eat("<") {
            return Ok(Vec::new());
        }
        let names = self.list(">", Self::name)?;
        self.types.extend(names.iter().map(|n| n.name.clone()));
        Ok(names)
    }

    /// `(parameters)`.
    pub(super) fn params(&mut self) -> Result<Vec<Param>> {
        self.expect("(")?;
        self.list(")", |p| {
            let annotations = p.annotations()?;
            let direction = match p.peek() {
                Tok::Kw("in") => Direction::In,
                Tok::Kw("out") => Direction::Out,
                Tok::Kw("inout") => Direction::InOut,
                _ => Direction::None,
            };
            if direction != Direction::None {
                p.bump();
            }
            let ty = p.ty()?;
            let name = p.name()?;
            let default = if p.eat("=") { Some(p.expr()?) } else { None };
            Ok(Param { annotations, direction, ty, name, default })
        })
    }

    /// A type and a name after it: how a declaration begins. Nothing is read.
    pub(super) fn is_typed_name(&mut self) -> bool {
        let at = self.at;
        let yes = self
            .attempt(Shape::TypedName, |p| {
                p.ty()?;
                if matches!(p.peek(), Tok::Ident(_)) { Ok(()) } else { Err(Failed) }
            })
            .is_some();
        self.at = at;
        yes
    }

    /// A type, arguments in parentheses, and a name: how an instance begins. Nothing is read.
    pub(super) fn is_instance(&mut self) -> bool {
        let at = self.at;
        let yes = self
            .attempt(Shape::Instance, |p| {
                p.ty()?;
                p.expect("(")?;
                p.balanced(")")?;
                if matches!(p.peek(), Tok::Ident(_)) { Ok(()) } else { Err(Failed) }
            })
            .is_some();
        self.at = at;
        yes
    }
}
