//! What an expression of the typed tree comes to: a value, or a place that holds one.

use crate::hir::Const;
use crate::types::*;
use ir::{Expr, FieldRef, HeaderId, MetaId, StackId};
use std::rc::Rc;

/// A value, or a place that holds one.
#[derive(Clone, Debug)]
pub(super) enum V {
    /// A bit string and its width.
    E(Expr, u32),
    /// A field.
    F(FieldRef, u32),
    /// Bits of a place.
    Slice(Box<V>, u32, u32),
    /// A struct, tuple or union, by field.
    S(Rc<[V]>, TyId),
    /// A header.
    H(HeaderId, TyId),
    /// A stack: elements; the stack, if the pipeline language has it; else its next index.
    K(Rc<[V]>, Option<StackId>, Option<MetaId>),
    /// An element known at run time.
    Dyn(Rc<[V]>, Box<Expr>),
    /// A constant without a width, or one of several values.
    C(Const),
    /// An object.
    O(usize),
    /// An invalid header or union.
    Invalid,
    /// Nothing.
    Void,
}

impl V {
    /// Every metadata field in it.
    pub(super) fn metas(&self, f: &mut dyn FnMut(MetaId)) {
        match self {
            V::F(FieldRef::Meta(m), _) => f(*m),
            V::S(items, _) => items.iter().for_each(|i| i.metas(f)),
            V::K(items, _, next) => {
                items.iter().for_each(|i| i.metas(f));
                if let Some(m) = next {
                    f(*m);
                }
            }
            _ => {}
        }
    }

    /// Every stack's own next index in it.
    pub(super) fn nexts(&self, f: &mut dyn FnMut(MetaId)) {
        match self {
            V::S(items, _) => items.iter().for_each(|i| i.nexts(f)),
            V::K(_, _, next) => next.iter().for_each(|m| f(*m)),
            _ => {}
        }
    }

    /// An index in it is read when it is used.
    pub(super) fn moves(&self) -> bool {
        match self {
            V::Dyn(..) | V::F(FieldRef::Last(..), _) => true,
            V::Slice(inner, ..) => inner.moves(),
            V::S(items, _) => items.iter().any(V::moves),
            _ => false,
        }
    }

    /// Every header in it, in order.
    pub(super) fn headers(&self, f: &mut dyn FnMut(HeaderId)) {
        match self {
            V::H(h, _) => f(*h),
            V::S(items, _) | V::K(items, ..) => items.iter().for_each(|i| i.headers(f)),
            _ => {}
        }
    }
}

/// Every bit string's place in a place.
pub(super) fn leaves(v: &V) -> Vec<V> {
    match v {
        V::S(items, _) => items.iter().flat_map(leaves).collect(),
        other => vec![other.clone()],
    }
}
