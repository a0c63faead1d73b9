//! What is known of a packet at a place of its way: bits of metadata, and of key fields that are more than metadata.
//!
//! A fact holds of every packet that comes there. Most of OpenFlow's metadata is zero nearly everywhere, so that is a
//! bit a field.

use ir::program::intrinsic;
use ir::{Expr, FieldRef, HeaderId, Key, MetaId, ParserOp, Program};
use opt::known::{Known, WIDTH_MAX};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A key field by its expression: tables that look at the same have one number for it.
pub(super) type Column = u16;

/// Columns of a table's key, by position; none where nothing is ever known.
pub(super) type Columns = Arc<[Option<Column>]>;

/// What is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Facts {
    /// Metadata that is zero, a bit each.
    zero: SmallVec<[u64; 4]>,
    /// Of other metadata: number, bits that are zero, bits that are one. In order.
    metas: SmallVec<[(u32, u128, u128); 4]>,
    /// The same of key fields.
    columns: SmallVec<[(Column, u128, u128); 4]>,
}

/// A key field.
#[derive(Debug)]
struct ColumnExpr {
    expr: Expr,
    width: u32,
    /// It is this metadata, whole.
    meta: Option<MetaId>,
    /// What it is worked out of.
    metas: BTreeSet<MetaId>,
    headers: BTreeSet<HeaderId>,
}

/// What of a program facts are about.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    columns: Vec<ColumnExpr>,
    by_expr: HashMap<Expr, Column>,
    /// Lists of key fields, which tables share, and their columns.
    lists: Vec<(Arc<[Key]>, Columns)>,
    /// By table.
    of_table: Vec<usize>,
    /// Metadata that the parser writes.
    parsed: Vec<MetaId>,
}

impl Subjects {
    pub(super) fn new(program: &Program) -> Subjects {
        let mut subjects = Subjects::default();
        let mut parsed: BTreeSet<MetaId> = [intrinsic::PARSER_ERROR].into();
        for op in program.parser.iter().flat_map(|state| &state.ops) {
            if let ParserOp::Assign(FieldRef::Meta(meta), _) = op {
                parsed.insert(*meta);
            }
        }
        subjects.parsed = parsed.into_iter().collect();
        for table in &program.tables {
            let known = |(list, _): &(Arc<[Key]>, _)| Arc::ptr_eq(list, &table.key);
            let at = subjects.lists.iter().position(known).unwrap_or_else(|| {
                let columns = table.key.iter().map(|key| subjects.column(program, key)).collect();
                subjects.lists.push((table.key.clone(), columns));
                subjects.lists.len() - 1
            });
            subjects.of_table.push(at);
        }
        subjects
    }

    /// The number of a key field; none if nothing is ever known of it.
    fn column(&mut self, program: &Program, key: &Key) -> Option<Column> {
        if key.width == 0 || key.width > WIDTH_MAX {
            return None;
        }
        if let Some(column) = self.by_expr.get(&key.expr) {
            return Some(*column);
        }
        let number = Column::try_from(self.columns.len()).ok()?;
        let (mut metas, mut headers, mut fixed) = (BTreeSet::new(), BTreeSet::new(), true);
        key.expr.visit(&mut |e| match e {
            Expr::Field(FieldRef::Meta(meta)) => drop(metas.insert(*meta)),
            Expr::Field(FieldRef::Header(header, _)) | Expr::Valid(header) => {
                headers.insert(*header);
            }
            Expr::Field(FieldRef::Last(stack, _)) | Expr::StackSize(stack) => {
                let stack = &program.stacks[stack.index()];
                let elements = stack.first.0..stack.first.0 + stack.size;
                headers.extend(elements.map(HeaderId));
            }
            Expr::Lookahead { .. } | Expr::Remaining | Expr::Param(_) => fixed = false,
            _ => {}
        });
        if !fixed {
            return None;
        }
        let meta = match key.expr {
            Expr::Field(FieldRef::Meta(meta)) => Some(meta),
            _ => None,
        };
        let (expr, width) = (key.expr.clone(), key.width);
        self.by_expr.insert(expr.clone(), number);
        self.columns.push(ColumnExpr { expr, width, meta, metas, headers });
        Some(number)
    }

    /// How many columns there are.
    pub(super) fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Columns of a table's key, by position.
    pub(super) fn of_table(&self, table: usize) -> Columns {
        self.lists[self.of_table[table]].1.clone()
    }
}

/// Facts, and what they are about.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) program: &'a Program,
    pub(super) subjects: &'a Subjects,
    pub(super) facts: &'a Facts,
}

impl About<'_> {
    /// Of an expression's value. `args`: of the action's arguments.
    pub(super) fn known(&self, e: &Expr, args: &[Known]) -> Known {
        match e {
            Expr::Const(bits) => Known::of(bits),
            Expr::Field(FieldRef::Meta(meta)) => self.facts.meta(self.program, *meta),
            Expr::Param(i) => args.get(*i as usize).copied().unwrap_or(Known::nothing(0)),
            Expr::Field(_) | Expr::Valid(_) | Expr::StackSize(_) => self.nothing(e),
            Expr::Lookahead { .. } | Expr::Remaining | Expr::Hash { .. } => self.nothing(e),
            Expr::Slice(inner, hi, lo) => self.known(inner, args).slice(*hi, *lo),
            Expr::Cast(inner, width) => self.known(inner, args).cast(*width),
            Expr::SignCast(inner, width) => self.known(inner, args).sign_cast(*width),
            Expr::Unary(op, inner) => self.known(inner, args).unary(*op),
            Expr::Binary(op, a, b) => Known::binary(*op, self.known(a, args), self.known(b, args)),
            Expr::Mux(condition, a, b) => match self.known(condition, args).only() {
                Some(0) => self.known(b, args),
                Some(_) => self.known(a, args),
                None => {
                    let mut either = self.known(a, args);
                    either.join(&self.known(b, args));
                    either
                }
            },
        }
    }

    fn nothing(&self, e: &Expr) -> Known {
        let width = match e {
            Expr::Field(field) => self.program.field_width(*field),
            _ => e.width(self.program, &[]),
        };
        Known::nothing(width.unwrap_or(0))
    }

    /// Of a key field.
    pub(super) fn column(&self, column: Column) -> Known {
        let of = &self.subjects.columns[usize::from(column)];
        let mut known = self.known(&of.expr, &[]).cast(of.width);
        if let Ok(at) = self.facts.columns.binary_search_by_key(&column, |(c, ..)| *c) {
            let (_, zeros, ones) = self.facts.columns[at];
            known.learn(zeros, ones);
        }
        known
    }
}

fn has(zero: &[u64], meta: MetaId) -> bool {
    zero.get(meta.index() / 64).is_some_and(|word| word >> (meta.index() % 64) & 1 == 1)
}

impl Facts {
    /// Of a packet that was received and parsed.
    pub(super) fn received(program: &Program, subjects: &Subjects) -> Facts {
        let mut facts = Facts::default();
        for meta in (0..program.metadata.len() as u32).map(MetaId) {
            facts.set_zero(meta, true);
        }
        for meta in [intrinsic::IN_PORT, intrinsic::PACKET_LENGTH, intrinsic::NOW] {
            facts.forget(subjects, meta);
        }
        facts.parsed(subjects);
        facts
    }

    fn set_zero(&mut self, meta: MetaId, zero: bool) {
        let at = meta.index() / 64;
        if self.zero.len() <= at {
            if !zero {
                return;
            }
            self.zero.resize(at + 1, 0);
        }
        let bit = 1 << (meta.index() % 64);
        match zero {
            true => self.zero[at] |= bit,
            false => self.zero[at] &= !bit,
        }
        // Facts that are the same look the same.
        while self.zero.last() == Some(&0) {
            self.zero.pop();
        }
    }

    fn meta(&self, program: &Program, meta: MetaId) -> Known {
        let width = program.metadata[meta.index()].width;
        if has(&self.zero, meta) {
            return Known::value(0, width);
        }
        match self.metas.binary_search_by_key(&meta.0, |(m, ..)| *m) {
            Ok(at) => Known { width, zeros: self.metas[at].1, ones: self.metas[at].2 },
            Err(_) => Known::nothing(width),
        }
    }

    fn put(&mut self, meta: MetaId, known: Known) {
        let zero = known.only() == Some(0);
        self.set_zero(meta, zero);
        let place = self.metas.binary_search_by_key(&meta.0, |(m, ..)| *m);
        let kept = !zero && known.zeros | known.ones != 0;
        match (place, kept) {
            (Ok(at), true) => self.metas[at] = (meta.0, known.zeros, known.ones),
            (Ok(at), false) => drop(self.metas.remove(at)),
            (Err(at), true) => self.metas.insert(at, (meta.0, known.zeros, known.ones)),
            (Err(_), false) => {}
        }
    }

    /// Metadata is written.
    pub(super) fn set(&mut self, subjects: &Subjects, meta: MetaId, value: Known) {
        self.put(meta, value);
        self.columns
            .retain(|(column, ..)| !subjects.columns[usize::from(*column)].metas.contains(&meta));
    }

    /// Nothing is known of metadata any more.
    pub(super) fn forget(&mut self, subjects: &Subjects, meta: MetaId) {
        self.set(subjects, meta, Known::nothing(0));
    }

    /// A header may be another one, in part or whole.
    pub(super) fn forget_header(&mut self, subjects: &Subjects, header: HeaderId) {
        self.columns.retain(|(column, ..)| {
            !subjects.columns[usize::from(*column)].headers.contains(&header)
        });
    }

    /// Any header may be another one.
    pub(super) fn forget_headers(&mut self, subjects: &Subjects) {
        self.columns
            .retain(|(column, ..)| subjects.columns[usize::from(*column)].headers.is_empty());
    }

    /// The packet was parsed.
    pub(super) fn parsed(&mut self, subjects: &Subjects) {
        self.forget_headers(subjects);
        for meta in &subjects.parsed {
            self.forget(subjects, *meta);
        }
    }

    /// A key field has these bits.
    pub(super) fn learn(
        &mut self,
        program: &Program,
        subjects: &Subjects,
        column: Column,
        new: Known,
    ) {
        let of = &subjects.columns[usize::from(column)];
        if let Some(meta) = of.meta {
            let mut known = self.meta(program, meta);
            known.learn(new.zeros, new.ones);
            self.put(meta, known);
            return;
        }
        let about = About { program, subjects, facts: self };
        let mut known = about.column(column);
        let follows = about.known(&of.expr, &[]).cast(of.width);
        known.learn(new.zeros, new.ones);
        // What follows from metadata is not kept twice.
        let (zeros, ones) = (known.zeros & !follows.zeros, known.ones & !follows.ones);
        match self.columns.binary_search_by_key(&column, |(c, ..)| *c) {
            Ok(at) => (self.columns[at].1, self.columns[at].2) = (zeros, ones),
            Err(at) if zeros | ones != 0 => self.columns.insert(at, (column, zeros, ones)),
            Err(_) => {}
        }
    }

    /// What is known if it is this or that.
    pub(super) fn join(&mut self, program: &Program, other: &Facts) {
        let metas: BTreeSet<u32> = (0..program.metadata.len() as u32).collect();
        let mut joined = Facts::default();
        for meta in metas.into_iter().map(MetaId) {
            let mut known = self.meta(program, meta);
            known.join(&other.meta(program, meta));
            joined.put(meta, known);
        }
        for (column, zeros, ones) in &self.columns {
            let theirs = other.columns.iter().find(|(c, ..)| c == column);
            let Some((_, z, o)) = theirs else { continue };
            let both = (zeros & z, ones & o);
            if both.0 | both.1 != 0 {
                joined.columns.push((*column, both.0, both.1));
            }
        }
        *self = joined;
    }
}
