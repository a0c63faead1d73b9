//! Where a program's metadata and header instances live in one flat byte buffer.
//!
//! Derived from a program once and kept by the [`Machine`](crate::Machine) for as long as the view
//! shows the same program. Every metadata field has whole bytes of its own, its value in the low
//! bits; every header instance has room for its longest form, and within it the bits lie as on the
//! wire, from the first bit on.

use ir::{Expr, FieldRef, HeaderId, Program, StackId};
use std::ops::Range;
use std::sync::Arc;

/// Bits of a field within its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldPlace {
    pub(crate) offset: usize,
    pub(crate) width: u32,
    pub(crate) varbit: bool,
}

/// A header instance.
#[derive(Clone, Debug)]
pub(crate) struct HeaderPlace {
    /// Its bytes in the buffer.
    pub(crate) bytes: Range<usize>,
    /// Its type's number.
    pub(crate) ty: usize,
    /// Its place in the deparser's order, if it is there exactly once.
    pub(crate) order: Option<u32>,
}

/// A header type.
#[derive(Clone, Debug)]
pub(crate) struct TypePlace {
    pub(crate) fields: Vec<FieldPlace>,
    /// Bits of all fixed-width fields.
    pub(crate) fixed: usize,
    /// Greatest width of the varbit field; 0 without one.
    pub(crate) varbit: usize,
}

/// The layout of a program.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) program: Arc<Program>,
    /// Bytes and width of each metadata field.
    pub(crate) meta: Vec<(Range<usize>, u32)>,
    /// Bytes of all metadata, at the buffer's start.
    pub(crate) meta_bytes: usize,
    pub(crate) headers: Vec<HeaderPlace>,
    pub(crate) types: Vec<TypePlace>,
    /// Bytes of the buffer.
    pub(crate) bytes: usize,
    /// Metadata that some checksum looks at.
    pub(crate) checksum_meta: Vec<bool>,
    /// Some checksum is written at every emission, whether or not anything changed.
    pub(crate) checksum_always: bool,
}

impl Layout {
    pub(crate) fn new(program: &Arc<Program>) -> Layout {
        let mut end = 0;
        let mut place = |bytes: usize| {
            let start = end;
            end += bytes;
            start..end
        };
        let meta: Vec<_> = program
            .metadata
            .iter()
            .map(|m| (place((m.width as usize).div_ceil(8)), m.width))
            .collect();
        let types: Vec<TypePlace> = program
            .header_types
            .iter()
            .map(|ty| {
                let mut offset = 0;
                let fields = ty.fields.iter().map(|f| {
                    let field = FieldPlace { offset, width: f.width, varbit: f.varbit };
                    offset += f.width as usize;
                    field
                });
                TypePlace {
                    fields: fields.collect(),
                    fixed: ty.fixed_width() as usize,
                    varbit: ty.fields.iter().filter(|f| f.varbit).map(|f| f.width as usize).sum(),
                }
            })
            .collect();
        let mut headers: Vec<HeaderPlace> = program
            .headers
            .iter()
            .map(|h| {
                let ty = h.header_type.index();
                let bits = types[ty].fixed + types[ty].varbit;
                HeaderPlace { bytes: place(bits.div_ceil(8)), ty, order: None }
            })
            .collect();
        for (at, header) in (0u32..).zip(&program.deparser) {
            let once = program.deparser.iter().filter(|h| *h == header).count() == 1;
            headers[header.index()].order = once.then_some(at);
        }
        let mut checksum_meta = vec![false; program.metadata.len()];
        let mut note = |e: &Expr| {
            if let Expr::Field(FieldRef::Meta(id)) = e {
                checksum_meta[id.index()] = true;
            }
        };
        for checksum in &program.checksums {
            checksum.inputs.iter().chain(&checksum.condition).for_each(|e| e.visit(&mut note));
        }
        Layout {
            meta_bytes: meta.last().map_or(0, |(bytes, _)| bytes.end),
            meta,
            headers,
            types,
            bytes: end,
            checksum_meta,
            checksum_always: program.checksums.iter().any(|c| c.mode == ir::ChecksumMode::Always),
            program: program.clone(),
        }
    }

    /// A header's type.
    pub(crate) fn type_of(&self, header: HeaderId) -> &TypePlace {
        &self.types[self.headers[header.index()].ty]
    }

    /// A field's width in bits (the greatest, of a varbit one).
    pub(crate) fn width(&self, field: FieldRef) -> u32 {
        match field {
            FieldRef::Meta(id) => self.meta[id.index()].1,
            field => self.in_header(field).map_or(0, |place| place.width),
        }
    }

    /// It is a varbit field.
    pub(crate) fn is_varbit(&self, field: FieldRef) -> bool {
        self.in_header(field).is_some_and(|place| place.varbit)
    }

    /// A field's place in its header; none of metadata.
    fn in_header(&self, field: FieldRef) -> Option<&FieldPlace> {
        let (header, field) = match field {
            FieldRef::Meta(_) => return None,
            FieldRef::Header(header, field) => (header, field),
            FieldRef::Last(stack, field) => (self.program.stacks[stack.index()].first, field),
        };
        Some(&self.type_of(header).fields[field.index()])
    }

    /// The elements of a stack, as indices of headers.
    pub(crate) fn stack(&self, stack: StackId) -> Range<usize> {
        let stack = &self.program.stacks[stack.index()];
        stack.first.index()..stack.first.index() + stack.size as usize
    }
}
