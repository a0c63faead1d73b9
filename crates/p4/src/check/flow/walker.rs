//! The walk: variables and their cells, the places that expressions name, and what is told of them.

use super::shape::{Cell, Kind, Shape, Shapes};
use super::state::{ASKED, NO, State, TESTED, YES};
use crate::ast::Direction;
use crate::diag::{Diagnostic, Diagnostics};
use crate::hir::{Const, Expr, ExprKind, Param, Program};
use crate::source::Span;
use crate::types::*;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Statements that are walked over for one parser, control, function or action, at most.
pub(super) const STEPS_MAX: u32 = 1 << 16;

/// Cells of all variables of a body, at most.
const CELLS_MAX: u32 = 1 << 18;

/// Cells that an expression names: the first of each thing it may mean, and the type of these.
pub(super) struct Place {
    pub(super) bases: Vec<u32>,
    pub(super) ty: TyId,
}

/// The bits of a cell, and what made it invalid.
pub(super) type Known = (u8, Option<(Span, &'static str)>);

/// What may be followed when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Body {
    Function(FunctionId),
    Apply(ApplyId),
}

/// A cell of a parameter when a body ends: the parameter, the cell's offset, its bits, and whether it is about
/// a header's validity.
pub(super) type End = (usize, u32, u8, bool);

/// Ways out of a loop.
#[derive(Default)]
pub(super) struct Loop {
    pub(super) breaks: State,
    pub(super) continues: State,
}

/// The walk over a program.
pub(super) struct Walker<'a> {
    pub(super) p: &'a Program,
    types: &'a mut Types,
    d: &'a mut Diagnostics,
    shapes: Shapes,
    /// Variables of the body at hand: the first cell and the type.
    vars: Vec<Option<(u32, TyId)>>,
    cells: u32,
    /// At the point at hand.
    pub(super) state: State,
    /// At the `return`s of the function or action at hand, and at each `exit`.
    pub(super) returns: State,
    pub(super) exits: State,
    pub(super) loops: Vec<Loop>,
    /// Nothing is told if it is not zero.
    pub(super) quiet: u32,
    pub(super) steps: u32,
    /// Actions that were followed and told of.
    pub(super) followed: HashSet<ActionId>,
    /// What made a header invalid.
    causes: HashMap<u32, (Span, &'static str)>,
    /// Slices written of values of which nothing else was.
    slices: HashMap<u32, Vec<(u32, u32)>>,
    /// Of functions, controls and parsers: which cells of their parameters are not valid and set when they
    /// end, if those that came in were.
    pub(super) ends: HashMap<Body, Vec<End>>,
    /// Fields told to be written early.
    pub(super) early: HashSet<Span>,
}

impl<'a> Walker<'a> {
    pub(super) fn new(p: &'a Program, types: &'a mut Types, d: &'a mut Diagnostics) -> Walker<'a> {
        Walker {
            p,
            types,
            d,
            shapes: Shapes::default(),
            vars: vec![None; p.vars.len()],
            cells: 0,
            state: State::default(),
            returns: State::default(),
            exits: State::default(),
            loops: Vec::new(),
            quiet: 0,
            steps: 0,
            followed: HashSet::new(),
            causes: HashMap::new(),
            slices: HashMap::new(),
            ends: HashMap::new(),
            early: HashSet::new(),
        }
    }

    /// Begins a body. What it does not declare is taken as set.
    pub(super) fn begin(&mut self, params: &[Param]) {
        self.vars.fill(None);
        self.causes.clear();
        self.slices.clear();
        self.cells = 0;
        self.steps = 0;
        self.state = State::start();
        (self.returns, self.exits) = (State::default(), State::default());
        for param in params {
            self.declare(param.var, param.ty);
            if param.direction != Direction::Out {
                self.set_var(param.var);
            }
        }
    }

    /// The ways to the end of a body meet; what they make of its parameters is kept for its callers, whom an
    /// `exit` ends, too.
    pub(super) fn ends(&mut self, body: Option<Body>, params: &[Param]) {
        let (returns, exits) = (self.returns.take(), self.exits.take());
        self.state.join(&returns);
        if let Some(body) = body.filter(|_| self.state.reached) {
            self.keep_end(body, params);
        }
        self.state.join(&exits);
    }

    fn keep_end(&mut self, body: Body, params: &[Param]) {
        let mut end = Vec::new();
        for (i, param) in params.iter().enumerate() {
            let Some(place) = self.var(param.var) else { continue };
            let shape = self.shape(place.ty);
            for (offset, cell) in (0u32..).zip(&shape.cells) {
                let bits = self.state.get(place.bases[0] + offset) & !ASKED;
                if *cell != Cell::Plain && bits & !YES != 0 {
                    end.push((i, offset, bits, *cell == Cell::Valid));
                }
            }
        }
        self.ends.insert(body, end);
    }

    /// Does what a body does that was walked before, if all that comes in is valid and set.
    pub(super) fn known_end(
        &mut self,
        body: Body,
        params: &[Param],
        args: &[Option<Expr>],
        at: Span,
    ) -> bool {
        if !self.ends.contains_key(&body) {
            return false;
        }
        for (param, arg) in params.iter().zip(args) {
            let (false, Some(arg)) = (param.direction == Direction::Out, arg) else { continue };
            let shape = self.shape(param.ty);
            if shape.validities().next().is_none() {
                continue;
            }
            let Some(place) = self.place(arg).filter(|p| p.ty == param.ty) else { return false };
            let good = |w: &Self, cell: u32| match w.state.get(cell) {
                0 => true,
                bits => bits & NO == 0 && bits & YES != 0,
            };
            let headers = (0u32..).zip(&shape.cells).filter(|(_, cell)| **cell != Cell::Plain);
            let [base] = place.bases[..] else { return false };
            if !headers.into_iter().all(|(offset, _)| good(self, base + offset)) {
                return false;
            }
        }
        for (param, arg) in params.iter().zip(args) {
            if let (Direction::Out, Some(arg)) = (param.direction, arg) {
                self.write(arg);
            }
            if let (Direction::InOut, Some(arg)) = (param.direction, arg) {
                // Headers stay as they are, as far as nothing else is known of them.
                if let Some(place) = self.place(arg) {
                    let shape = self.shape(place.ty);
                    for base in &place.bases {
                        shape.plain().for_each(|c| self.state.put(base + c, YES));
                    }
                }
            }
        }
        let end = self.ends.get(&body).cloned().unwrap_or_default();
        for (i, offset, bits, valid) in end {
            let (Some(param), Some(Some(arg))) = (params.get(i), args.get(i)) else { continue };
            if !matches!(param.direction, Direction::Out | Direction::InOut) {
                continue;
            }
            let Some(place) = self.place(arg).filter(|p| p.ty == param.ty) else { continue };
            let [base] = place.bases[..] else { continue };
            self.state.put(base + offset, bits);
            if valid && bits & (NO | TESTED) != 0 {
                self.causes.insert(base + offset, (at, "the header becomes invalid in this call"));
            }
        }
        true
    }

    /// Tells, unless the same is told elsewhere.
    pub(super) fn tell(&mut self, d: Diagnostic) {
        if self.quiet == 0 {
            self.d.add(d);
        }
    }

    pub(super) fn shape(&mut self, ty: TyId) -> Rc<Shape> {
        self.shapes.of(self.p, self.types, ty)
    }

    pub(super) fn ty(&self, ty: TyId) -> &Ty {
        self.types.get(ty)
    }

    /// A variable of which nothing is set.
    pub(super) fn declare(&mut self, v: VarId, ty: TyId) {
        let shape = self.shape(ty);
        let size = shape.cells.len() as u32;
        if size == 0 || self.cells + size > CELLS_MAX {
            return;
        }
        let base = match self.vars[v.index()] {
            Some((base, _)) => base,
            None => {
                let base = self.cells;
                self.cells += size;
                self.vars[v.index()] = Some((base, ty));
                base
            }
        };
        self.state.fill(base, size, NO);
        if !self.slices.is_empty() || !self.causes.is_empty() {
            for cell in base..base + size {
                self.slices.remove(&cell);
                self.causes.remove(&cell);
            }
        }
    }

    /// All of a variable is set.
    pub(super) fn set_var(&mut self, v: VarId) {
        if let Some((base, ty)) = self.vars[v.index()] {
            self.fill(base, ty, YES);
        }
    }

    /// All cells of a thing.
    pub(super) fn fill(&mut self, base: u32, ty: TyId, bits: u8) {
        let size = self.shape(ty).cells.len() as u32;
        self.state.fill(base, size, bits);
    }

    /// A variable's cells.
    pub(super) fn var(&self, v: VarId) -> Option<Place> {
        self.vars[v.index()].map(|(base, ty)| Place { bases: vec![base], ty })
    }

    /// The cells that an expression names, if it names any that are followed.
    pub(super) fn place(&mut self, e: &Expr) -> Option<Place> {
        match &e.kind {
            ExprKind::Var(v) => self.var(*v),
            ExprKind::Field(inner, i) => {
                let mut place = self.place(inner)?;
                let (offset, ty) = self.shape(place.ty).field(*i)?;
                place.bases.iter_mut().for_each(|base| *base += offset);
                Some(Place { ty, ..place })
            }
            ExprKind::Index(inner, at) => {
                let place = self.place(inner)?;
                let shape = self.shape(place.ty);
                let at = match &at.value {
                    Some(Const::Int(n)) => Some(u32::try_from(n).ok()?),
                    _ => None,
                };
                // A tuple's.
                if let (Kind::Struct(_), Some(i)) = (&shape.kind, at) {
                    let (offset, ty) = shape.field(i)?;
                    return Some(Place {
                        bases: place.bases.iter().map(|b| b + offset).collect(),
                        ty,
                    });
                }
                self.elements(place, at)
            }
            ExprKind::Next(inner) | ExprKind::Last(inner) => {
                let place = self.place(inner)?;
                self.elements(place, None)
            }
            _ => None,
        }
    }

    /// One element of a stack, or all that may be meant.
    fn elements(&mut self, stack: Place, at: Option<u32>) -> Option<Place> {
        let (count, each, ty) = self.shape(stack.ty).elements()?;
        let which = match at {
            Some(i) if i >= count => return None,
            Some(i) => i..i + 1,
            None => 0..count,
        };
        let bases = stack.bases.iter().flat_map(|b| which.clone().map(move |i| b + i * each));
        Some(Place { bases: bases.collect(), ty })
    }

    pub(super) fn is_header(&mut self, ty: TyId) -> bool {
        matches!(self.shape(ty).kind, Kind::Header(_))
    }

    /// What an expression like this looks like in a program.
    fn text(&mut self, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Var(v) => self.p.vars[v.index()].name.to_string(),
            ExprKind::Field(inner, i) => {
                let base = self.text(inner);
                let Ty::Struct(s, _) = self.ty(inner.ty) else { return base };
                format!("{base}.{}", self.p.structs[s.index()].fields[*i as usize].name)
            }
            ExprKind::Index(inner, at) => {
                let base = self.text(inner);
                match &at.value {
                    Some(Const::Int(n)) => format!("{base}[{n}]"),
                    _ => format!("{base}[...]"),
                }
            }
            ExprKind::Next(inner) => format!("{}.next", self.text(inner)),
            ExprKind::Last(inner) => format!("{}.last", self.text(inner)),
            _ => String::new(),
        }
    }

    /// What to write behind the name of a thing for one of its cells.
    fn suffix(&mut self, ty: TyId, cell: u32) -> String {
        let shape = self.shape(ty);
        let fields = match &shape.kind {
            Kind::Struct(f) | Kind::Header(f) | Kind::Union(f) => f,
            Kind::Stack(e, each) => {
                return format!("[{}]{}", cell / each, self.suffix(*e, cell % each));
            }
            Kind::Value | Kind::Nothing => return String::new(),
        };
        let Some(i) = fields.iter().rposition(|(offset, _)| *offset <= cell) else {
            return String::new();
        };
        let name = match self.ty(ty) {
            Ty::Struct(s, _) => format!(".{}", self.p.structs[s.index()].fields[i].name),
            _ => format!("[{i}]"),
        };
        name + &self.suffix(fields[i].1, cell - fields[i].0)
    }

    /// The variable at the root.
    fn root(e: &Expr) -> Option<VarId> {
        match &e.kind {
            ExprKind::Var(v) => Some(*v),
            ExprKind::Field(a, _)
            | ExprKind::Index(a, _)
            | ExprKind::Next(a)
            | ExprKind::Last(a) => Self::root(a),
            _ => None,
        }
    }

    /// It names a part of a variable.
    pub(super) fn is_place(e: &Expr) -> bool {
        Self::root(e).is_some()
    }

    /// Somebody asked whether a header is valid, in a way that decides nothing; so it may be.
    pub(super) fn ask(&mut self, header: &Expr) {
        let Some(place) = self.place(header) else { return };
        let shape = self.shape(place.ty);
        for base in &place.bases {
            for cell in shape.validities().map(|c| base + c) {
                let bits = self.state.get(cell);
                self.state.put(cell, bits | YES | ASKED);
            }
        }
    }

    /// The cell that says whether a header is valid, if it is one for certain.
    pub(super) fn validity(&mut self, header: &Expr) -> Option<u32> {
        let place = self.place(header)?;
        match place.bases[..] {
            [base] if self.is_header(place.ty) => Some(base),
            _ => None,
        }
    }

    /// A header was found invalid.
    pub(super) fn found_invalid(&mut self, header: &Expr, at: Span) {
        let Some(cell) = self.validity(header) else { return };
        let bits = self.state.get(cell);
        match bits & NO {
            0 => {
                self.state.put(cell, TESTED | ASKED);
                self.causes.insert(cell, (at, "it is found invalid here"));
            }
            _ => self.state.put(cell, bits & !YES | ASKED),
        }
    }

    /// A header was found valid.
    pub(super) fn found_valid(&mut self, header: &Expr) {
        if let Some(cell) = self.validity(header) {
            self.state.put(cell, YES | ASKED);
        }
    }

    /// A header, or all that may be meant, becomes valid or invalid.
    pub(super) fn make(&mut self, header: &Expr, valid: bool, at: Span) {
        let Some(place) = self.place(header) else { return };
        // Which one is not known.
        if !valid && place.bases.len() > 1 {
            return;
        }
        if valid {
            self.sole(header);
        }
        let shape = self.shape(place.ty);
        for base in &place.bases {
            for cell in shape.validities().map(|c| base + c) {
                self.state.put(cell, if valid { YES } else { NO });
                if !valid {
                    self.causes.insert(cell, (at, "the header becomes invalid here"));
                }
            }
        }
    }

    /// A member of a union becomes valid, the others invalid.
    fn sole(&mut self, member: &Expr) {
        let ExprKind::Field(union, _) = &member.kind else { return };
        let Some(place) = self.place(union) else { return };
        let shape = self.shape(place.ty);
        if !matches!(shape.kind, Kind::Union(_)) || place.bases.len() > 1 {
            return;
        }
        for base in &place.bases {
            for cell in shape.validities().map(|c| base + c) {
                self.state.put(cell, NO);
                let text = "the header becomes invalid here, as another of its union becomes valid";
                self.causes.insert(cell, (member.span, text));
            }
        }
    }

    /// All that an expression names is written.
    pub(super) fn write(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Slice(inner, hi, lo) => self.write_slice(inner, Some((*hi, *lo))),
            ExprKind::PlusSlice(inner, ..) => self.write_slice(inner, None),
            _ => {
                let Some(place) = self.place(e) else { return };
                if self.is_header(place.ty) {
                    self.sole(e);
                }
                place.bases.iter().for_each(|base| self.fill(*base, place.ty, YES));
            }
        }
    }

    /// Some bits of a value are written. Those written so far may make it whole.
    fn write_slice(&mut self, value: &Expr, bits: Option<(u32, u32)>) {
        let Some(place) = self.place(value) else { return };
        let width = match self.ty(place.ty) {
            Ty::Bit(w) | Ty::Signed(w) => *w,
            _ => 0,
        };
        for cell in place.bases {
            if self.state.get(cell) & NO == 0 {
                continue;
            }
            let known = self.slices.entry(cell).or_default();
            known.extend(bits);
            known.sort_unstable_by_key(|(_, lo)| *lo);
            known.dedup();
            let whole = known.iter().fold(0, |next, (hi, lo)| match *lo <= next {
                true => next.max(hi + 1),
                false => next,
            });
            // Where a slice lies that is not known is not known either.
            let whole = whole >= width || bits.is_none();
            self.state.put(cell, if whole { YES } else { NO | YES });
        }
    }

    /// These bits were written by a slice that holds them.
    pub(super) fn has_slice(&mut self, value: &Expr, hi: u32, lo: u32) -> bool {
        let Some(place) = self.place(value) else { return false };
        let [cell] = place.bases[..] else { return false };
        let known = self.slices.get(&cell);
        self.state.get(cell) & YES != 0
            && known.is_some_and(|known| known.iter().any(|(h, l)| *h >= hi && *l <= lo))
    }

    /// What is in one place is now in another of the same type: values, and whether headers are valid.
    pub(super) fn copy(&mut self, from: &Place, to: &Place) {
        let cells = self.known(from);
        self.give(to, &cells);
    }

    /// What is known of a thing as something to copy. Values that are not there are told where they are read.
    pub(super) fn known(&mut self, from: &Place) -> Vec<Known> {
        let shape = self.shape(from.ty);
        let [base] = from.bases[..] else {
            // One of many: valid, unless none is.
            let valid = |w: &Self, c: u32| from.bases.iter().any(|b| w.state.get(b + c) & NO == 0);
            let bits = |(c, cell): (u32, &Cell)| match *cell == Cell::Plain || valid(self, c) {
                true => (YES, None),
                false => (from.bases.iter().fold(0, |all, b| all | self.state.get(b + c)), None),
            };
            return (0u32..).zip(&shape.cells).map(bits).collect();
        };
        let known = |(offset, cell): (u32, &Cell)| match cell {
            Cell::Plain => (YES, None),
            Cell::Inner => (self.state.get(base + offset) & !ASKED, None),
            Cell::Valid => {
                let at = base + offset;
                (self.state.get(at) & !ASKED, self.causes.get(&at).copied())
            }
        };
        (0u32..).zip(&shape.cells).map(known).collect()
    }

    /// A place gets what is known of another. If it may be one of many, no header is less valid than before.
    pub(super) fn give(&mut self, to: &Place, cells: &[Known]) {
        let [base] = to.bases[..] else {
            to.bases.iter().for_each(|base| self.fill(*base, to.ty, YES));
            return;
        };
        for (at, (bits, cause)) in (base..).zip(cells) {
            self.state.put(at, *bits);
            if let Some(cause) = cause {
                self.causes.insert(at, *cause);
            } else if !self.causes.is_empty() {
                self.causes.remove(&at);
            }
        }
    }

    /// Tells if fields of an invalid header are used here. Whether something was told.
    pub(super) fn use_fields(&mut self, e: &Expr) -> bool {
        if self.quiet > 0 || !self.state.reached {
            return false;
        }
        let mut part = e;
        loop {
            part = match &part.kind {
                ExprKind::Field(inner, _) => {
                    if self.is_header(inner.ty) && self.use_header(inner, e.span) {
                        return true;
                    }
                    inner
                }
                ExprKind::Index(inner, _) | ExprKind::Next(inner) | ExprKind::Last(inner) => inner,
                _ => return false,
            };
        }
    }

    fn use_header(&mut self, header: &Expr, at: Span) -> bool {
        let Some(place) = self.place(header) else { return false };
        let (mut perhaps, mut first) = (false, None);
        for cell in place.bases {
            let bits = self.state.get(cell);
            let invalid = bits & (NO | TESTED) != 0;
            match bits & YES != 0 {
                _ if !invalid => return false,
                // Asked for, or nothing was done to it.
                true if bits & ASKED != 0 || bits & NO == 0 => return false,
                true => perhaps = true,
                false => {}
            }
            first.get_or_insert(cell);
        }
        let Some(cell) = first else { return false };
        if self.early.contains(&at) {
            return true;
        }
        let name = self.text(header);
        let (code, text) = match perhaps {
            true => ("maybe-invalid-header", format!("a field of `{name}`, which may be invalid")),
            false => ("invalid-header", "a field of an invalid header".to_string()),
        };
        let mut d = Diagnostic::warning(code, at, text);
        match (self.causes.get(&cell), Self::root(header)) {
            (Some((span, why)), _) => d = d.note(*span, *why),
            (None, Some(v)) => {
                let var = &self.p.vars[v.index()];
                d = d.note(
                    var.span,
                    format!("`{}` is declared here, with no valid header", var.name),
                );
            }
            (None, None) => {}
        }
        let help = match perhaps {
            true => "ask first: `isValid()`",
            false => "use the field first, or make the header valid",
        };
        self.tell(d.help(help));
        true
    }

    /// Tells if a value is used that may not be there.
    pub(super) fn use_value(&mut self, e: &Expr) {
        if self.quiet > 0 || !self.state.reached {
            return;
        }
        let Some(place) = self.place(e) else { return };
        let Some((certain, suffix)) = self.unset(&place) else { return };
        let name = self.text(e) + &suffix;
        let (code, text) = match certain {
            true => ("uninitialised", format!("`{name}` is read before anything is written to it")),
            false => (
                "maybe-uninitialised",
                format!("`{name}` may be read before anything is written to it"),
            ),
        };
        let mut d = Diagnostic::warning(code, e.span, text);
        if let Some(v) = Self::root(e) {
            let var = &self.p.vars[v.index()];
            d = d.note(var.span, "it is declared here");
            if matches!(var.kind, crate::hir::VarKind::Local) {
                d = d.help("give it a value where it is declared");
            }
        }
        self.tell(d);
    }

    /// A value of a thing that is not set for certain (or perhaps not): what to write behind the thing's name.
    fn unset(&mut self, place: &Place) -> Option<(bool, String)> {
        let shape = self.shape(place.ty);
        let certain = |bits: u8| bits & NO != 0 && bits & YES == 0;
        if place.bases.len() > 1 {
            let all = |w: &Self, c: u32| place.bases.iter().all(|b| certain(w.state.get(b + c)));
            let cell = shape.plain().find(|c| all(self, *c))?;
            return Some((true, self.suffix(place.ty, cell)));
        }
        let base = *place.bases.first()?;
        let get = |w: &Self, c: u32| w.state.get(base + c);
        let first = shape.plain().find(|c| get(self, *c) & NO != 0)?;
        if shape.cells.iter().all(|c| *c == Cell::Plain)
            && shape.plain().all(|c| certain(get(self, c)))
        {
            return Some((true, String::new()));
        }
        let cell = shape.plain().find(|c| certain(get(self, *c)));
        Some((cell.is_some(), self.suffix(place.ty, cell.unwrap_or(first))))
    }

    /// What of a parameter is not set.
    pub(super) fn unset_leaf(&mut self, param: &Param) -> Option<(bool, String)> {
        let place = self.var(param.var)?;
        let (certain, suffix) = self.unset(&place)?;
        Some((certain, format!("{}{suffix}", param.name)))
    }
}
