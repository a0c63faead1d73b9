//! Scopes and look-up (specification §6.8).

use super::Checker;
use crate::ast::{Annotation, Decl, DeclKind, Ident, Path};
use crate::diag::{Diagnostic, nearest};
use crate::hir::{Const, annotated, annotation_text};
use crate::lex::Name;
use crate::source::Span;
use crate::types::*;
use std::collections::HashMap;
use std::rc::Rc;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Sym {
    /// A type without parameters.
    Type(TyId),
    Struct(StructId),
    Extern(ExternId),
    Apply(ApplyId),
    Package(PackageId),
    Var(VarId),
    Const(Const, TyId),
    Instance(InstanceId),
    Action(ActionId),
    /// Functions that differ in their parameters.
    Functions(Vec<FunctionId>),
    Table(TableId),
    ValueSet(ValueSetId),
    /// A mistake told already.
    Bad,
}

impl Sym {
    /// For messages.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Sym::Type(_) | Sym::Struct(_) => "a type",
            Sym::Extern(_) => "an extern type",
            Sym::Apply(_) => "a parser or control",
            Sym::Package(_) => "a package",
            Sym::Var(_) => "a variable",
            Sym::Const(..) => "a constant",
            Sym::Instance(_) => "an instance",
            Sym::Action(_) => "an action",
            Sym::Functions(_) => "a function",
            Sym::Table(_) => "a table",
            Sym::ValueSet(_) => "a value set",
            Sym::Bad => "unknown",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) sym: Sym,
    pub(super) span: Span,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) names: HashMap<Name, Entry>,
}

/// The warning for the use of a name that should not be used any more.
pub(super) fn deprecated(name: &str, at: Span, declared: Span, why: Option<&str>) -> Diagnostic {
    let d = Diagnostic::warning("deprecated", at, format!("`{name}` is deprecated"));
    let d = d.note(declared, "it is declared here");
    match why {
        Some(why) => d.help(why),
        None => d,
    }
}

impl Checker<'_> {
    /// Gives a name its meaning in the innermost scope.
    pub(super) fn declare(&mut self, name: &Ident, sym: Sym) {
        if name.name.is_empty() {
            return;
        }
        let Some(scope) = self.scopes.last_mut() else { return };
        if let Some(old) = scope.names.get_mut(&name.name) {
            if let (Sym::Functions(all), Sym::Functions(new)) = (&mut old.sym, &sym) {
                all.extend(new.iter().copied());
                return;
            }
            let span = old.span;
            let text = format!("the name `{}` is declared twice", name.name);
            let d = Diagnostic::error("duplicate-name", name.span, text);
            self.d.add(d.note(span, "it was declared here"));
            return;
        }
        scope.names.insert(name.name.clone(), Entry { sym, span: name.span });
    }

    /// What a name stands for, if anything. Tells if it should not be used any more.
    pub(super) fn find(&mut self, path: &Path) -> Option<&Entry> {
        let name = &path.ident.name;
        let scopes = match path.top {
            true => &self.scopes[..1],
            false => &self.scopes[..],
        };
        let entry = scopes.iter().rev().find_map(|s| s.names.get(name))?;
        if let Some(why) = self.deprecated.get(&entry.span) {
            self.d.add(deprecated(name, path.ident.span, entry.span, why.as_deref()));
        }
        Some(entry)
    }

    /// A declaration's annotations; takes note if they say that it should not be used any more. Functions are
    /// told of where they are called, as others may have their name.
    pub(super) fn annotations(&mut self, decl: &Decl) -> Rc<[Annotation]> {
        let function = matches!(decl.kind, DeclKind::Function(..) | DeclKind::ExternFunction(_));
        if !function && annotated(&decl.annotations, "deprecated") {
            let why = annotation_text(&decl.annotations, "deprecated").map(Name::from);
            self.deprecated.insert(decl.name.span, why);
        }
        decl.annotations.as_slice().into()
    }

    /// The value of a constant that was just declared, if it is known.
    pub(super) fn constant_at_top(&self, name: &Ident) -> Option<Const> {
        match &self.scopes.last()?.names.get(&name.name)?.sym {
            Sym::Const(value, _) => Some(value.clone()),
            _ => None,
        }
    }

    /// What a name stands for; tells if nothing.
    pub(super) fn lookup(&mut self, path: &Path) -> Sym {
        match self.find(path) {
            Some(entry) => entry.sym.clone(),
            None => {
                self.unknown(path, |_| true);
                Sym::Bad
            }
        }
    }

    /// Tells that a name is not known, and which known one is nearest among those that would do.
    pub(super) fn unknown(&mut self, path: &Path, fits: impl Fn(&Sym) -> bool) {
        let name = &path.ident.name;
        let text = format!("the name `{name}` is not known here");
        let mut d = Diagnostic::error("unknown-name", path.ident.span, text);
        if let Some(span) = self.later.get(name).filter(|s| s.lo > path.ident.span.lo) {
            d = d.note(*span, "it is declared here, further down");
            d = d.help("move the declaration in front of its use");
        } else {
            let known = self.scopes.iter().flat_map(|s| s.names.iter());
            let mut known: Vec<&str> =
                known.filter(|(_, e)| fits(&e.sym)).map(|(n, _)| &**n).collect();
            known.sort_unstable();
            if let Some(near) = nearest(name, known) {
                d = d.help(format!("the nearest known name is `{near}`"));
            }
        }
        self.d.add(d);
    }

    /// Runs `f` in a scope of its own.
    pub(super) fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(Scope::default());
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// Tells of names that occur twice in a list.
    pub(super) fn unique<'a>(&mut self, what: &str, names: impl IntoIterator<Item = &'a Ident>) {
        let mut seen: HashMap<&Name, Span> = HashMap::new();
        for ident in names {
            if let Some(first) = seen.get(&ident.name) {
                let text = format!("the {what} `{}` is there twice", ident.name);
                let d = Diagnostic::error("duplicate-name", ident.span, text);
                self.d.add(d.note(*first, "it is here, too"));
            } else {
                seen.insert(&ident.name, ident.span);
            }
        }
    }
}
