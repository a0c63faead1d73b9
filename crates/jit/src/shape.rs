//! What the compiler needs to know about a program's declarations, worked out once.
//!
//! Holds true: offsets are those of the wire; a header's `order` is its place in the deparser, if it
//! is there exactly once; `fields` numbers all fields of all header instances in a row.

use ir::{Action, Expr, FieldId, FieldRef, HeaderId, Op, Program, StackId};
use smallvec::SmallVec;

/// A header instance.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    /// Bits of the fixed fields.
    pub(crate) fixed: u32,
    /// Greatest width of the varbit field in bits, if there is one.
    pub(crate) varbit: Option<u32>,
    /// Place in the deparser.
    pub(crate) order: Option<u32>,
    /// Number of its first field.
    pub(crate) first_field: usize,
}

/// Declarations, worked out.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Header instances.
    pub(crate) headers: Vec<Header>,
    /// Fields of all header instances.
    pub(crate) fields: usize,
    /// Headers that operations make valid or invalid, copy or shift.
    pub(crate) structural: Vec<bool>,
    /// Places in the deparser that can move when headers come or go: all before this one.
    pub(crate) moving: u32,
    /// Bytes of the longest header.
    pub(crate) longest: u32,
}

impl Shape {
    pub(crate) fn new<'a>(program: &Program, ops: impl Iterator<Item = &'a Op>) -> Shape {
        let mut fields = 0;
        let headers: Vec<Header> = (0..program.headers.len() as u32)
            .map(|h| {
                let ty = program.type_of(HeaderId(h));
                let first_field = fields;
                fields += ty.fields.len();
                let mut places = program.deparser.iter().enumerate().filter(|(_, d)| d.0 == h);
                let order = match (places.next(), places.next()) {
                    (Some((at, _)), None) => Some(at as u32),
                    _ => None,
                };
                Header {
                    fixed: ty.fixed_width(),
                    varbit: ty.fields.iter().find(|f| f.varbit).map(|f| f.width),
                    order,
                    first_field,
                }
            })
            .collect();
        let mut structural = vec![false; headers.len()];
        let mut mark = |header: HeaderId| {
            structural[header.index()] = true;
            if let Some(union) = program.headers[header.index()].union {
                for member in &program.unions[union.index()].members {
                    structural[member.index()] = true;
                }
            }
        };
        for op in ops {
            op.visit(&mut |op| match op {
                Op::SetValid(h) | Op::SetInvalid(h) => mark(*h),
                Op::CopyHeader { to, .. } => mark(*to),
                Op::PushFront(stack, _) | Op::PopFront(stack, _) => {
                    elements(program, *stack).for_each(&mut mark)
                }
                _ => {}
            });
        }
        let last = (0..).zip(&program.deparser).filter(|(_, h)| structural[h.index()]);
        let moving = last.map(|(at, _): (u32, _)| at + 1).max().unwrap_or(0);
        let bits = |h: &Header| h.fixed + h.varbit.unwrap_or(0);
        let longest = headers.iter().map(bits).max().unwrap_or(0).div_ceil(8);
        Shape { headers, fields, structural, moving, longest }
    }

    /// The number of a header's field.
    pub(crate) fn field(&self, header: HeaderId, field: FieldId) -> usize {
        self.headers[header.index()].first_field + field.index()
    }
}

/// The elements of a stack.
pub(crate) fn elements(
    program: &Program,
    stack: StackId,
) -> impl Iterator<Item = HeaderId> + use<> {
    let stack = &program.stacks[stack.index()];
    (stack.first.0..stack.first.0 + stack.size).map(HeaderId)
}

/// Calls `f` on every place that an expression reads (a header for its validity, too).
pub(crate) fn reads(program: &Program, e: &Expr, f: &mut dyn FnMut(Read)) {
    e.visit(&mut |e| match e {
        Expr::Field(field) => read_field(program, *field, f),
        Expr::Valid(header) => f(Read::Header(*header)),
        Expr::StackSize(stack) => elements(program, *stack).for_each(|h| f(Read::Header(h))),
        _ => {}
    });
}

fn read_field(program: &Program, field: FieldRef, f: &mut dyn FnMut(Read)) {
    match field {
        FieldRef::Meta(id) => f(Read::Meta(id.index())),
        FieldRef::Header(header, field) => f(Read::Field(header, field)),
        FieldRef::Last(stack, field) => {
            elements(program, stack).for_each(|h| f(Read::Field(h, field)))
        }
    }
}

/// Something that an expression reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// A metadata field, by number.
    Meta(usize),
    /// Whether a header is valid.
    Header(HeaderId),
    /// A field of a header.
    Field(HeaderId, FieldId),
}

/// Parameters that an action's body looks at.
pub(crate) fn params_used(action: &Action) -> SmallVec<[u32; 8]> {
    let mut used = SmallVec::new();
    for op in &action.body {
        op.visit(&mut |op| {
            op.exprs(&mut |e| {
                e.visit(&mut |e| {
                    if let ir::Expr::Param(i) = e {
                        used.push(*i);
                    }
                });
            });
        });
    }
    used
}
