//! Where the single values of a type are: its cells, one for each single value, and one in front of the fields
//! of each header for whether it is valid.

use crate::ast::StructKind;
use crate::hir::Program;
use crate::types::*;
use std::rc::Rc;

/// Cells of a type that is followed, at most. Larger ones are taken as set.
const CELLS_MAX: usize = 8192;

/// What a cell is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// A value that is in no header.
    Plain,
    /// Whether a header is valid.
    Valid,
    /// A value in a header.
    Inner,
}

/// How the parts of a type are laid out.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Not followed.
    Nothing,
    /// One value.
    Value,
    /// Struct or tuple: where each field begins, and its type.
    Struct(Vec<(u32, TyId)>),
    /// The same of a header.
    Header(Vec<(u32, TyId)>),
    /// Of a union.
    Union(Vec<(u32, TyId)>),
    /// Elements, and cells of each.
    Stack(TyId, u32),
}

/// The cells of a type.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) cells: Vec<Cell>,
    pub(super) kind: Kind,
}

impl Shape {
    fn nothing() -> Shape {
        Shape { cells: Vec::new(), kind: Kind::Nothing }
    }

    /// Where a field begins, and its type.
    pub(super) fn field(&self, i: u32) -> Option<(u32, TyId)> {
        match &self.kind {
            Kind::Struct(f) | Kind::Header(f) | Kind::Union(f) => f.get(i as usize).copied(),
            _ => None,
        }
    }

    /// Where elements begin, and their type.
    pub(super) fn elements(&self) -> Option<(u32, u32, TyId)> {
        match self.kind {
            Kind::Stack(e, each) if each > 0 => Some((self.cells.len() as u32 / each, each, e)),
            _ => None,
        }
    }

    /// Places of the cells that say whether a header is valid.
    pub(super) fn validities(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.cells).filter(|(_, c)| **c == Cell::Valid).map(|(i, _)| i)
    }

    /// Places of values that are in no header.
    pub(super) fn plain(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.cells).filter(|(_, c)| **c == Cell::Plain).map(|(i, _)| i)
    }
}

/// The shapes of all types that were met.
#[derive(Default)]
pub(super) struct Shapes {
    known: Vec<Option<Rc<Shape>>>,
}

impl Shapes {
    /// A type's shape.
    pub(super) fn of(&mut self, p: &Program, types: &mut Types, ty: TyId) -> Rc<Shape> {
        let at = ty.0 as usize;
        if let Some(Some(shape)) = self.known.get(at) {
            return shape.clone();
        }
        let shape = Rc::new(self.make(p, types, ty));
        if self.known.len() <= at {
            self.known.resize(at + 1, None);
        }
        self.known[at] = Some(shape.clone());
        shape
    }

    fn make(&mut self, p: &Program, types: &mut Types, ty: TyId) -> Shape {
        let value = Shape { cells: vec![Cell::Plain], kind: Kind::Value };
        match types.get(ty).clone() {
            Ty::Struct(id, args) => {
                let s = &p.structs[id.index()];
                let fields: Vec<TyId> = s
                    .fields
                    .iter()
                    .map(|f| types.substitute(f.ty, &s.type_params, &args))
                    .collect();
                self.fields(p, types, &fields, s.kind)
            }
            Ty::Tuple(parts) => self.fields(p, types, &parts, StructKind::Struct),
            Ty::Stack(e, n) => {
                let element = self.of(p, types, e);
                let each = element.cells.len();
                let all = each.saturating_mul(n as usize);
                if all > CELLS_MAX || each == 0 {
                    return Shape::nothing();
                }
                let cells = element.cells.iter().copied().cycle().take(all).collect();
                Shape { cells, kind: Kind::Stack(e, each as u32) }
            }
            Ty::Bool
            | Ty::Int
            | Ty::Error
            | Ty::Bit(_)
            | Ty::Signed(_)
            | Ty::Varbit(_)
            | Ty::Enum(_)
            | Ty::New(_)
            | Ty::Var(_) => value,
            _ => Shape::nothing(),
        }
    }

    fn fields(
        &mut self,
        p: &Program,
        types: &mut Types,
        fields: &[TyId],
        kind: StructKind,
    ) -> Shape {
        let header = kind == StructKind::Header;
        let mut cells = if header { vec![Cell::Valid] } else { Vec::new() };
        let mut list = Vec::new();
        for ty in fields {
            list.push((cells.len() as u32, *ty));
            let part = self.of(p, types, *ty);
            cells.extend(part.cells.iter().map(|c| if header { Cell::Inner } else { *c }));
            if cells.len() > CELLS_MAX {
                return Shape::nothing();
            }
        }
        let kind = match kind {
            StructKind::Header => Kind::Header(list),
            StructKind::Union => Kind::Union(list),
            StructKind::Struct => Kind::Struct(list),
        };
        Shape { cells, kind }
    }
}
