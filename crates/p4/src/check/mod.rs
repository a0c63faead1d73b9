//! The checker: the syntax tree to the typed tree, with everything the specification asks for checked.
//!
//! Declarations are read in order, as names must be declared before they are used (§6.8); that is
//! also why nothing can be recursive. After a mistake the thing at fault gets the type
//! [`Ty::Bad`], which fits everywhere, so that it is told once.
//!
//! | module | checks |
//! |---|---|
//! | `names` | scopes, look-up, nearest names |
//! | `types` | types as written, what may be inside of what (§7.2) |
//! | `unify` | inference, implicit casts (§8.11.2) |
//! | `expr`, `fold` | expressions, members, casts, values at compile time |
//! | `call` | arguments, overloads, directions, constructors, methods |
//! | `stmt` | statements, and where each is allowed |
//! | `flow` | warnings of values that are not there yet |
//! | `decl` | declarations; parsers' states; actions, functions, packages |
//! | `table` | tables' properties, entries |

mod call;
mod decl;
mod expr;
mod flow;
mod fold;
mod names;
mod stmt;
mod table;
mod types;
mod unify;

use crate::ast;
use crate::diag::{Diagnostic, Diagnostics};
use crate::hir;
use crate::lex::Name;
use crate::source::Span;
use crate::types::*;
use names::{Scope, Sym};
use std::collections::HashMap;

/// Where statements and expressions stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the top, or among the locals of a parser or control.
    Declarations,
    /// A parser's state.
    State,
    /// A control's apply block.
    Apply,
    /// An action.
    Action,
    /// A function or method.
    Function,
    /// A table's properties.
    Table,
}

#[derive(Clone, Debug)]
struct Context {
    place: Place,
    /// What a function returns.
    result: Option<TyId>,
    /// Loops around.
    loops: u32,
    /// The extern whose method is defined here.
    this: Option<TyId>,
    /// A parser's or control's inside.
    inside: Option<bool>,
}

/// Checks a program: the typed tree of what is right of it. It may be lowered only if there were no
/// errors.
pub fn check(decls: &[ast::Decl], diagnostics: &mut Diagnostics) -> hir::Program {
    let mut checker = Checker {
        d: diagnostics,
        p: hir::Program { types: Types::new(), ..hir::Program::default() },
        scopes: vec![Scope::default()],
        infer: Vec::new(),
        context: Context {
            place: Place::Declarations,
            result: None,
            loops: 0,
            this: None,
            inside: None,
        },
        later: decls
            .iter()
            .filter(|d| !d.name.name.is_empty())
            .map(|d| (d.name.name.clone(), d.name.span))
            .collect(),
        deprecated: HashMap::new(),
    };
    for decl in decls {
        checker.top(decl);
    }
    checker.finish();
    let mut program = checker.p;
    if diagnostics.errors() == 0 {
        flow::warn(&mut program, diagnostics);
    }
    program
}

struct Checker<'a> {
    d: &'a mut Diagnostics,
    p: hir::Program,
    scopes: Vec<Scope>,
    /// What the inferred types are.
    infer: Vec<Option<TyId>>,
    context: Context,
    /// All names at the top, to tell those used too early.
    later: HashMap<Name, Span>,
    /// What should not be used any more, by where it is declared, and why.
    deprecated: HashMap<Span, Option<Name>>,
}

impl Checker<'_> {
    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.d.add(Diagnostic::error(code, span, message));
    }

    fn show(&mut self, ty: TyId) -> String {
        let ty = self.zonk(ty);
        self.p.show(ty)
    }

    fn new_var(&mut self, name: &ast::Ident, ty: TyId, kind: hir::VarKind) -> VarId {
        let id = VarId(self.p.vars.len() as u32);
        self.p.vars.push(hir::Var { name: name.name.clone(), ty, span: name.span, kind });
        id
    }

    /// Runs `f` in another context and scope.
    fn within<T>(&mut self, context: Context, f: impl FnOnce(&mut Self) -> T) -> T {
        let old = std::mem::replace(&mut self.context, context);
        self.scopes.push(Scope::default());
        let result = f(self);
        self.scopes.pop();
        self.context = old;
        result
    }

    fn finish(&mut self) {
        let main = self.scopes[0].names.get("main").map(|e| (e.sym.clone(), e.span));
        // A function may be called so, too.
        if let Some((Sym::Instance(id), span)) = main {
            let ty = self.p.instances[id.index()].construct.ty;
            if matches!(self.p.ty(ty), Ty::Package(..)) {
                self.p.main = Some(id);
            } else if *self.p.ty(ty) != Ty::Bad {
                self.error("no-main", span, "`main` is no package");
            }
        }
    }
}
