//! Types, each kept once (specification §7).
//!
//! A [`TyId`] stands for a type; equal types have equal ids, so comparing is cheap. Types that a
//! program declares (structs, enums, externs, parsers ...) are an id into `hir`'s lists and their type
//! arguments. [`Ty::Infer`] is a type not known yet, of which `check::unify` keeps what it turned out
//! to be; [`Ty::Var`] is a type parameter inside of its own declaration.

use crate::lex::Name;
use crate::limits::{DEPTH_MAX, LEAVES_MAX};
use std::collections::HashMap;
use std::rc::Rc;

/// A type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TyId(pub u32);

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into the list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// An enumeration, serializable or not.
    EnumId
    /// A struct, header or header union.
    StructId
    /// A type made by `type`.
    NewtypeId
    /// An extern object's type.
    ExternId
    /// A parser or control: a type, or one with a body.
    ApplyId
    /// A package type.
    PackageId
    /// A function, extern or not.
    FunctionId
    /// An action.
    ActionId
    /// A table.
    TableId
    /// A value set.
    ValueSetId
    /// A variable, parameter or constructor parameter.
    VarId
    /// An instance of an extern, parser, control or package.
    InstanceId
    /// A type parameter.
    TypeVarId
}

/// A type's shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// Unknown because of a mistake told already; fits everything.
    Bad,
    /// No value.
    Void,
    /// `bool`.
    Bool,
    /// `string`.
    String,
    /// `int`, of any size.
    Int,
    /// `error`.
    Error,
    /// `match_kind`.
    MatchKind,
    /// `bit<w>`.
    Bit(u32),
    /// `int<w>`.
    Signed(u32),
    /// `varbit<w>`.
    Varbit(u32),
    /// An enum without or with a representation.
    Enum(EnumId),
    /// Struct, header, union.
    Struct(StructId, Rc<[TyId]>),
    /// `T[n]`.
    Stack(TyId, u32),
    /// `tuple<...>`.
    Tuple(Rc<[TyId]>),
    /// `list<T>`.
    List(TyId),
    /// `type T x`.
    New(NewtypeId),
    /// An extern object.
    Extern(ExternId, Rc<[TyId]>),
    /// A parser or control.
    Apply(ApplyId, Rc<[TyId]>),
    /// A package.
    Package(PackageId, Rc<[TyId]>),
    /// A type parameter.
    Var(TypeVarId),
    /// Not known yet.
    Infer(u32),
    /// `{ ... }` before anything says what it makes: names of a struct-valued expression, types of the
    /// elements, and whether it ends in `...`.
    Literal(Option<Rc<[Name]>>, Rc<[TyId]>, bool),
    /// `...`.
    Dots,
    /// `{#}`.
    Invalid,
    /// A set of values.
    Set(TyId),
    /// What `t.apply()` gives.
    TableResult(TableId),
    /// `t.apply().action_run`.
    ActionRun(TableId),
}

/// All types.
#[derive(Clone, Debug, Default)]
pub struct Types {
    list: Vec<Ty>,
    ids: HashMap<Ty, TyId>,
    /// Of each type, how many single values it holds and how deep it is nested.
    sizes: Vec<Size>,
    /// Of each struct, the same, a type parameter being one value.
    structs: HashMap<StructId, Size>,
    /// A type was asked for that is larger than any may be, and of this size.
    pub too_large: Option<Size>,
}

/// Single values in a type, and types inside of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Single values.
    pub leaves: u64,
    /// Types inside of types.
    pub depth: u32,
}

/// Types that are always there.
pub mod basic {
    use super::TyId;
    /// A mistake told already.
    pub const BAD: TyId = TyId(0);
    /// `void`.
    pub const VOID: TyId = TyId(1);
    /// `bool`.
    pub const BOOL: TyId = TyId(2);
    /// `string`.
    pub const STRING: TyId = TyId(3);
    /// `int`.
    pub const INT: TyId = TyId(4);
    /// `error`.
    pub const ERROR: TyId = TyId(5);
    /// `match_kind`.
    pub const MATCH_KIND: TyId = TyId(6);
    /// `bit<32>`.
    pub const BIT32: TyId = TyId(7);
    /// `...`.
    pub const DOTS: TyId = TyId(8);
    /// `{#}`.
    pub const INVALID: TyId = TyId(9);
}

impl Types {
    /// The basic ones.
    pub fn new() -> Types {
        let mut types = Types::default();
        let order = [
            Ty::Bad,
            Ty::Void,
            Ty::Bool,
            Ty::String,
            Ty::Int,
            Ty::Error,
            Ty::MatchKind,
            Ty::Bit(32),
            Ty::Dots,
            Ty::Invalid,
        ];
        for ty in order {
            types.id(ty);
        }
        types
    }

    /// The id of a type.
    pub fn id(&mut self, ty: Ty) -> TyId {
        if let Some(id) = self.ids.get(&ty) {
            return *id;
        }
        let size = self.size(&ty);
        if size.leaves > LEAVES_MAX || size.depth > DEPTH_MAX {
            self.too_large.get_or_insert(size);
            return basic::BAD;
        }
        let id = TyId(self.list.len() as u32);
        self.list.push(ty.clone());
        self.sizes.push(size);
        self.ids.insert(ty, id);
        id
    }

    /// Takes note of a struct's fields, before any type is made of the struct.
    pub fn note_struct(&mut self, id: StructId, fields: impl Iterator<Item = TyId>) {
        let size = self.sum(fields);
        self.structs.insert(id, size);
    }

    fn sum(&self, parts: impl Iterator<Item = TyId>) -> Size {
        parts.map(|p| self.sizes[p.0 as usize]).fold(Size::default(), |a, b| Size {
            leaves: a.leaves.saturating_add(b.leaves),
            depth: a.depth.max(b.depth),
        })
    }

    fn size(&self, ty: &Ty) -> Size {
        let inner = match ty {
            Ty::Struct(s, args) => {
                let own = self.structs.get(s).copied().unwrap_or_default();
                let args = self.sum(args.iter().copied());
                Size {
                    leaves: own.leaves.max(1).saturating_mul(args.leaves.max(1)),
                    depth: own.depth + args.depth,
                }
            }
            Ty::Stack(e, n) => {
                let e = self.sizes[e.0 as usize];
                Size { leaves: e.leaves.saturating_mul((*n).into()), ..e }
            }
            Ty::Extern(_, args) | Ty::Apply(_, args) | Ty::Package(_, args) | Ty::Tuple(args) => {
                self.sum(args.iter().copied())
            }
            // What is written out holds no more than is written.
            Ty::Literal(..) => return Size { leaves: 1, depth: 1 },
            Ty::List(e) | Ty::Set(e) => self.sizes[e.0 as usize],
            _ => return Size { leaves: 1, depth: 1 },
        };
        Size { leaves: inner.leaves.max(1), depth: inner.depth + 1 }
    }

    /// A type's shape.
    pub fn get(&self, id: TyId) -> &Ty {
        &self.list[id.0 as usize]
    }

    /// `bit<w>`.
    pub fn bit(&mut self, width: u32) -> TyId {
        self.id(Ty::Bit(width))
    }

    /// The type with each part for which `f` has another one replaced by that.
    pub fn map(&mut self, id: TyId, f: &mut dyn FnMut(&Ty) -> Option<TyId>) -> TyId {
        self.clone_map(id, &mut |_, ty| f(ty))
    }

    /// As [`map`](Self::map), with the types themselves at hand.
    pub fn clone_map(
        &mut self,
        id: TyId,
        f: &mut dyn FnMut(&mut Types, &Ty) -> Option<TyId>,
    ) -> TyId {
        let ty = self.get(id).clone();
        if let Some(other) = f(self, &ty) {
            return other;
        }
        let mut each = |types: &mut Types, args: &Rc<[TyId]>| -> Rc<[TyId]> {
            args.iter().map(|a| types.clone_map(*a, f)).collect()
        };
        let new = match &ty {
            Ty::Struct(s, args) if !args.is_empty() => Ty::Struct(*s, each(self, args)),
            Ty::Extern(s, args) if !args.is_empty() => Ty::Extern(*s, each(self, args)),
            Ty::Apply(s, args) if !args.is_empty() => Ty::Apply(*s, each(self, args)),
            Ty::Package(s, args) if !args.is_empty() => Ty::Package(*s, each(self, args)),
            Ty::Tuple(args) => Ty::Tuple(each(self, args)),
            Ty::Literal(names, args, dots) => Ty::Literal(names.clone(), each(self, args), *dots),
            Ty::Stack(e, n) => Ty::Stack(self.clone_map(*e, f), *n),
            Ty::List(e) => Ty::List(self.clone_map(*e, f)),
            Ty::Set(e) => Ty::Set(self.clone_map(*e, f)),
            _ => return id,
        };
        self.id(new)
    }

    /// The type with type parameters replaced.
    pub fn substitute(&mut self, id: TyId, vars: &[TypeVarId], args: &[TyId]) -> TyId {
        if vars.is_empty() {
            return id;
        }
        self.map(id, &mut |ty| match ty {
            Ty::Var(v) => vars.iter().position(|w| w == v).and_then(|i| args.get(i)).copied(),
            _ => None,
        })
    }
}
