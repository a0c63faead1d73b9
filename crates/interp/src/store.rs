//! The values of one copy of the packet: metadata, headers, validity.
//!
//! Invariants: at most one member of a union is valid; the bytes of an invalid header mean nothing
//! and are never read.

use crate::layout::Layout;
use crate::source::Writer;
use ir::{Bits, FieldRef, HeaderId, MetaId, StackId};

/// Metadata and headers.
#[derive(Debug, Default)]
pub(crate) struct Store {
    bytes: Vec<u8>,
    valid: Vec<bool>,
    /// Bits of each header's varbit field.
    varbit: Vec<u32>,
}

impl Store {
    /// All metadata zero, no header valid.
    pub(crate) fn reset(&mut self, layout: &Layout) {
        self.bytes.resize(layout.bytes, 0);
        self.bytes[..layout.meta_bytes].fill(0);
        self.valid.resize(layout.headers.len(), false);
        self.varbit.resize(layout.headers.len(), 0);
        self.clear_headers();
    }

    /// No header is valid.
    pub(crate) fn clear_headers(&mut self) {
        self.valid.fill(false);
    }

    /// All metadata zero.
    pub(crate) fn clear_meta(&mut self, layout: &Layout) {
        self.bytes[..layout.meta_bytes].fill(0);
    }

    pub(crate) fn copy_from(&mut self, other: &Store) {
        self.bytes.clone_from(&other.bytes);
        self.valid.clone_from(&other.valid);
        self.varbit.clone_from(&other.varbit);
    }

    pub(crate) fn valid(&self, header: HeaderId) -> bool {
        self.valid[header.index()]
    }

    /// How many elements of a stack are valid.
    pub(crate) fn stack_size(&self, layout: &Layout, stack: StackId) -> usize {
        layout.stack(stack).filter(|i| self.valid[*i]).count()
    }

    /// The last valid element of a stack.
    pub(crate) fn last(&self, layout: &Layout, stack: StackId) -> Option<HeaderId> {
        layout.stack(stack).rev().find(|i| self.valid[*i]).map(|i| HeaderId(i as u32))
    }

    /// The header that a field is in, if it is in one and that is valid.
    pub(crate) fn header_of(&self, layout: &Layout, field: FieldRef) -> Option<HeaderId> {
        match field {
            FieldRef::Meta(_) => None,
            FieldRef::Header(header, _) => self.valid(header).then_some(header),
            FieldRef::Last(stack, _) => self.last(layout, stack),
        }
    }

    /// Bytes of a header, and how many bits of them count.
    pub(crate) fn header(&self, layout: &Layout, header: HeaderId) -> (&[u8], usize) {
        let place = &layout.headers[header.index()];
        let bits = layout.types[place.ty].fixed + self.varbit[header.index()] as usize;
        (&self.bytes[place.bytes.clone()], bits)
    }

    /// Bytes of a header, to be filled.
    pub(crate) fn header_mut(&mut self, layout: &Layout, header: HeaderId) -> &mut [u8] {
        &mut self.bytes[layout.headers[header.index()].bytes.clone()]
    }

    /// Sets the width of a header's varbit field.
    pub(crate) fn set_varbit(&mut self, header: HeaderId, bits: u32) {
        self.varbit[header.index()] = bits;
    }

    /// Where a field's bits are: the bytes, the bit they start at, how many there are (above them,
    /// the field is zero). `None` in an invalid header.
    fn place(&self, layout: &Layout, field: FieldRef) -> Option<(&[u8], usize, usize)> {
        let (header, field) = match field {
            FieldRef::Meta(id) => {
                let (bytes, width) = &layout.meta[id.index()];
                let offset = 8 * bytes.len() - *width as usize;
                return Some((&self.bytes[bytes.clone()], offset, *width as usize));
            }
            FieldRef::Header(header, field) => (header, field),
            FieldRef::Last(stack, field) => (self.last(layout, stack)?, field),
        };
        if !self.valid(header) {
            return None;
        }
        let place = layout.type_of(header).fields[field.index()];
        let width = if place.varbit { self.varbit[header.index()] } else { place.width };
        let bytes = &self.bytes[layout.headers[header.index()].bytes.clone()];
        Some((bytes, place.offset, width as usize))
    }

    /// Appends a field's value to a bit string; of a varbit field, with `exact`, the bits that it has.
    pub(crate) fn append(
        &self,
        layout: &Layout,
        field: FieldRef,
        exact: bool,
        writer: &mut Writer<'_>,
    ) {
        let place = self.place(layout, field);
        let width = match exact && layout.is_varbit(field) {
            true => place.as_ref().map_or(0, |(_, _, n)| *n),
            false => layout.width(field) as usize,
        };
        match place {
            Some((bytes, offset, n)) => {
                writer.zeros(width - n);
                writer.bits_of(bytes, offset, n);
            }
            None => writer.zeros(width),
        }
    }

    /// A field's value; zero in an invalid header.
    pub(crate) fn read(&self, layout: &Layout, field: FieldRef) -> Bits {
        let width = layout.width(field);
        match self.place(layout, field) {
            None => Bits::zero(width),
            Some((bytes, offset, n)) if n as u32 == width => match window(bytes, offset, n) {
                Some(value) => Bits::from_u128(u128::from(value), width),
                None => Bits::extract(bytes, offset, width),
            },
            Some((bytes, offset, n)) => Bits::extract(bytes, offset, n as u32).cast(width),
        }
    }

    /// Sets a field; does nothing in an invalid header. A varbit field keeps its width.
    pub(crate) fn write(&mut self, layout: &Layout, field: FieldRef, value: &Bits) {
        let (header, field) = match field {
            FieldRef::Meta(id) => return self.write_meta(layout, id, value),
            FieldRef::Header(header, field) => (header, field),
            FieldRef::Last(stack, field) => match self.last(layout, stack) {
                Some(header) => (header, field),
                None => return,
            },
        };
        if !self.valid(header) {
            return;
        }
        let place = layout.type_of(header).fields[field.index()];
        let width = if place.varbit { self.varbit[header.index()] } else { place.width };
        let bytes = &mut self.bytes[layout.headers[header.index()].bytes.clone()];
        if value.width() == width {
            value.deposit(bytes, place.offset);
        } else {
            value.cast(width).deposit(bytes, place.offset);
        }
    }

    fn write_meta(&mut self, layout: &Layout, id: MetaId, value: &Bits) {
        let (bytes, width) = &layout.meta[id.index()];
        if *width <= 64 {
            let mask = if *width == 64 { u64::MAX } else { (1 << *width) - 1 };
            return self.set_meta(layout, id, value.low_u64() & mask);
        }
        let whole = value.cast(*width).cast(8 * bytes.len() as u32);
        whole.deposit(&mut self.bytes[bytes.clone()], 0);
    }

    /// Sets a metadata field to a small number.
    pub(crate) fn set_meta(&mut self, layout: &Layout, id: MetaId, value: u64) {
        let bytes = &mut self.bytes[layout.meta[id.index()].0.clone()];
        let value = value.to_be_bytes();
        let n = bytes.len().min(8);
        let at = bytes.len() - n;
        bytes[at..].copy_from_slice(&value[8 - n..]);
    }

    /// A metadata field of at most 32 bits.
    pub(crate) fn meta_u32(&self, layout: &Layout, id: MetaId) -> u32 {
        self.read(layout, FieldRef::Meta(id)).low_u32()
    }

    /// Marks a header as valid, and the other members of its union as invalid.
    pub(crate) fn mark_valid(&mut self, layout: &Layout, header: HeaderId) {
        if let Some(union) = layout.program.headers[header.index()].union {
            for member in &layout.program.unions[union.index()].members {
                self.valid[member.index()] = false;
            }
        }
        self.valid[header.index()] = true;
    }

    /// Makes a header valid, with zero fields unless it already was.
    pub(crate) fn set_valid(&mut self, layout: &Layout, header: HeaderId) {
        if !self.valid(header) {
            self.header_mut(layout, header).fill(0);
            self.varbit[header.index()] = 0;
        }
        self.mark_valid(layout, header);
    }

    /// Makes a header invalid.
    pub(crate) fn set_invalid(&mut self, header: HeaderId) {
        self.valid[header.index()] = false;
    }

    /// `to = from`, validity and all fields; both have the same type.
    pub(crate) fn copy_header(&mut self, layout: &Layout, to: HeaderId, from: HeaderId) {
        if to == from {
            return;
        }
        if !self.valid(from) {
            return self.set_invalid(to);
        }
        let at = |h: HeaderId| layout.headers[h.index()].bytes.clone();
        let n = at(to).len().min(at(from).len());
        self.bytes.copy_within(at(from).start..at(from).start + n, at(to).start);
        self.varbit[to.index()] = self.varbit[from.index()];
        self.mark_valid(layout, to);
    }

    /// `to = from` of varbit fields of one greatest width; the header of `to` is valid.
    pub(crate) fn copy_varbit(&mut self, layout: &Layout, to: FieldRef, from: FieldRef) {
        let Some(header) = self.header_of(layout, to) else { return };
        let bits = match self.place(layout, from) {
            Some((bytes, offset, n)) => Bits::extract(bytes, offset, n as u32),
            None => Bits::zero(0),
        };
        self.varbit[header.index()] = bits.width();
        if bits.width() > 0 {
            self.write(layout, to, &bits);
        }
    }

    /// Shifts a stack up and makes the first `count` elements valid, with zero fields. False, with
    /// nothing done, if a valid element would fall off the end.
    pub(crate) fn push_front(&mut self, layout: &Layout, stack: StackId, count: u32) -> bool {
        let elements = layout.stack(stack);
        let count = count as usize;
        if count > elements.len() {
            return false;
        }
        if elements.clone().rev().take(count).any(|i| self.valid[i]) {
            return false;
        }
        let id = |i: usize| HeaderId(i as u32);
        for i in (elements.start + count..elements.end).rev() {
            self.copy_header(layout, id(i), id(i - count));
        }
        for i in elements.start..elements.start + count {
            self.set_invalid(id(i));
            self.set_valid(layout, id(i));
        }
        true
    }

    /// Shifts a stack down; the first `count` elements are lost.
    pub(crate) fn pop_front(&mut self, layout: &Layout, stack: StackId, count: u32) {
        let elements = layout.stack(stack);
        let count = (count as usize).min(elements.len());
        let id = |i: usize| HeaderId(i as u32);
        for i in elements.start..elements.end - count {
            self.copy_header(layout, id(i), id(i + count));
        }
        for i in elements.end - count..elements.end {
            self.set_invalid(id(i));
        }
    }
}

/// `width` bits from bit `offset` on, if they are few and the eight bytes they start in are there.
fn window(bytes: &[u8], offset: usize, width: usize) -> Option<u64> {
    let shift = offset % 8;
    if width == 0 || width + shift > 64 {
        return None;
    }
    let word = match bytes.get(offset / 8..)?.first_chunk() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => bytes[offset / 8..].iter().rev().fold(0, |word, b| word >> 8 | u64::from(*b) << 56),
    };
    Some(word << shift >> (64 - width))
}
