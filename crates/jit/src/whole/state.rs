//! One copy of the packet, as code of whole programs and its driver share it.

#![allow(unsafe_code)]

use super::bits::Writer;
use super::layout::{Layout, VALID, at};
use super::paths::{Doing, StateId, TOP};
use ir::{Bits, EntryId, FieldRef, GroupId, HeaderId, MetaId, StackId, TableId};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The bytes that a parser reads: the input, or bytes of an earlier pass that end as the input does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    own: Option<Arc<Vec<u8>>>,
    /// So many bytes are its own; behind them comes the input from `tail` on.
    front: usize,
    tail: usize,
}

impl Source {
    /// Bytes of its own, then the input from `tail` on.
    pub(crate) fn new(mut front: Vec<u8>, input: &[u8], tail: usize) -> Source {
        let own = front.len();
        front.extend_from_slice(input.get(tail..).unwrap_or_default());
        Source { own: Some(Arc::new(front)), front: own, tail }
    }

    /// It is the input, whole.
    pub(crate) fn is_input(&self) -> bool {
        self.own.is_none()
    }

    /// All bytes.
    pub(crate) fn bytes<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        self.own.as_ref().map_or(input, |own| own)
    }

    /// What is left from byte `at` on: bytes of its own, and where in the input the rest begins.
    pub(crate) fn rest(&self, at: usize, input: &[u8]) -> (&[u8], usize) {
        match &self.own {
            None => (&[], at.min(input.len())),
            Some(own) => {
                let front = own.get(at..self.front).unwrap_or_default();
                (front, (self.tail + at.saturating_sub(self.front)).min(input.len()))
            }
        }
    }
}

/// What keys see of [`ir::op::Guise`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) in_port: u32,
    /// Values of some key fields, by their places.
    pub(crate) columns: SmallVec<[(u32, Bits); 2]>,
    pub(crate) tables: SmallVec<[TableId; 2]>,
}

/// A copy of the packet.
#[derive(Debug, Default)]
pub(crate) struct Copy {
    /// As [`Layout`] says.
    pub(crate) words: Vec<u64>,
    /// The same right after parsing; meaningful while the packet is changed.
    pub(crate) parsed: Vec<u64>,
    pub(crate) source: Source,
    /// What this pass began with.
    pub(crate) origin: Source,
    /// How many bytes that is.
    pub(crate) length: u32,
    /// The table looked up last, and what matched.
    pub(crate) last: Option<(TableId, Option<EntryId>)>,
    /// The bucket whose action runs, until it looks a table up.
    pub(crate) bucket: Option<(GroupId, u32)>,
    /// How many calls its original is inside of.
    pub(crate) outside: usize,
    pub(crate) group_depth: u32,
    pub(crate) clone_depth: u32,
    /// What the keys of some tables see in place of what there is, during a call.
    pub(crate) guise: Option<Seen>,
    /// What is known of it, for lookups by paths.
    pub(crate) at: StateId,
    /// The action that runs for it, if what it does is followed.
    pub(crate) doing: Option<Doing>,
    /// Metadata that the next pass keeps.
    pub(crate) keep: SmallVec<[MetaId; 8]>,
    /// What the parser may read of metadata, as it was when parsing began.
    parser_read: SmallVec<[u64; 8]>,
    /// What it may write, as it was when parsing ended.
    parser_wrote: SmallVec<[u64; 16]>,
}

/// The words as bytes.
pub(crate) fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: words are initialised memory of eight bytes each, and any bytes may be read.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), 8 * words.len()) }
}

fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: as above; any bytes make words.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), 8 * words.len()) }
}

/// Copies these words, and with them the headers that are valid: nobody looks at what others hold. A program has room
/// for kilobytes of headers, and a packet has few.
fn copy_words(to: &mut [u64], from: &[u64], layout: &Layout, before: &[Range<usize>]) {
    for part in before {
        to[part.clone()].copy_from_slice(&from[part.clone()]);
    }
    let sums = layout.header_words.end..layout.words;
    to[sums.clone()].copy_from_slice(&from[sums]);
    let mut first = 0;
    for group in bytes(from)[VALID..VALID + layout.headers.len()].chunks(8) {
        // Most have none.
        if group.iter().any(|valid| *valid != 0) {
            for (header, valid) in layout.headers[first..].iter().zip(group) {
                if *valid != 0 {
                    let place = header.at / 8..(header.at + header.bytes).div_ceil(8);
                    to[place.clone()].copy_from_slice(&from[place]);
                }
            }
        }
        first += group.len();
    }
}

impl Copy {
    /// A received frame of so many bytes, of which so many are no part of its length; nothing parsed yet.
    pub(crate) fn reset(&mut self, layout: &Layout, length: usize, preface: u32) {
        if self.words.len() != layout.words {
            self.words = vec![0; layout.words];
        }
        bytes_mut(&mut self.words)[layout.meta_bytes.clone()].fill(0);
        self.source = Source::default();
        self.origin = Source::default();
        self.length = u32::try_from(length).unwrap_or(u32::MAX).saturating_sub(preface);
        self.group_depth = 0;
        self.clone_depth = 0;
        self.outside = 0;
        self.begin_pass();
    }

    /// Nothing was looked up yet.
    pub(crate) fn begin_pass(&mut self) {
        self.last = None;
        self.bucket = None;
        self.words[at::MISSED] = 0;
        self.words[at::GOTO] = 0;
        self.words[at::CUT] = u64::from(u32::MAX);
        self.guise = None;
        (self.at, self.doing) = (TOP, None);
    }

    /// Nothing of the source was parsed yet.
    pub(crate) fn begin_parsing(&mut self, layout: &Layout, input: &[u8]) {
        let headers = layout.program.headers.len();
        bytes_mut(&mut self.words)[VALID..VALID + headers].fill(0);
        let source = self.source.bytes(input);
        let (data, bits) = (source.as_ptr() as u64, 8 * source.len() as u64);
        let words = &mut self.words;
        (words[at::DATA], words[at::BITS]) = (data, bits);
        (words[at::CURSOR], words[at::CHANGED], words[at::IN_ORDER]) = (0, 0, 1);
        (words[at::NEXT_ORDER], words[at::STEPS]) = (0, 0);
    }

    /// Keeps what the parser may read of metadata.
    pub(crate) fn keep_read(&mut self, layout: &Layout) {
        self.parser_read.clear();
        for words in &layout.parser_reads {
            self.parser_read.extend_from_slice(&self.words[words.clone()]);
        }
    }

    /// Keeps what it may have written.
    pub(crate) fn keep_wrote(&mut self, layout: &Layout) {
        self.parser_wrote.clear();
        for words in &layout.parser_writes {
            self.parser_wrote.extend_from_slice(&self.words[words.clone()]);
        }
    }

    /// Emitting this copy gives the bytes that were parsed.
    pub(crate) fn is_as_parsed(&self, layout: &Layout) -> bool {
        !self.is_changed() && self.words[at::IN_ORDER] != 0 && !layout.checksum_always
    }

    /// Parsing the same bytes once more changes nothing: the parser would read the same metadata, and what it writes
    /// is there. Of a copy that [is as parsed](Self::is_as_parsed).
    pub(crate) fn parses_alike(&self, layout: &Layout) -> bool {
        let alike = |mut kept: &[u64], places: &[Range<usize>]| {
            places.iter().all(|words| {
                let (first, more) = kept.split_at(words.len().min(kept.len()));
                kept = more;
                *first == self.words[words.clone()]
            })
        };
        alike(&self.parser_read, &layout.parser_reads)
            && alike(&self.parser_wrote, &layout.parser_writes)
    }

    pub(crate) fn copy_from(&mut self, layout: &Layout, other: &Copy) {
        self.words.resize(layout.words, 0);
        let before = 0..layout.header_words.start;
        copy_words(&mut self.words, &other.words, layout, std::slice::from_ref(&before));
        if other.is_changed() && !layout.program.checksums.is_empty() {
            self.parsed.resize(layout.words, 0);
            copy_words(&mut self.parsed, &other.parsed, layout, &layout.kept);
        }
        self.source.clone_from(&other.source);
        self.origin.clone_from(&other.origin);
        self.length = other.length;
        self.last = other.last;
        self.bucket = other.bucket;
        self.guise.clone_from(&other.guise);
        (self.at, self.doing) = (TOP, None);
        self.parser_read.clone_from(&other.parser_read);
        self.parser_wrote.clone_from(&other.parser_wrote);
        self.group_depth = other.group_depth;
        self.clone_depth = other.clone_depth;
    }

    pub(crate) fn cursor(&self) -> usize {
        self.words[at::CURSOR] as usize
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.words[at::CHANGED] != 0
    }

    /// Emitting this copy gives the received bytes.
    pub(crate) fn unchanged(&self, layout: &Layout) -> bool {
        self.is_as_parsed(layout) && self.source.is_input()
    }

    /// Something that the emitted bytes depend on is about to change.
    pub(crate) fn touch(&mut self, layout: &Layout) {
        if !self.is_changed() {
            self.words[at::CHANGED] = 1;
            if !layout.program.checksums.is_empty() {
                self.parsed.resize(self.words.len(), 0);
                copy_words(&mut self.parsed, &self.words, layout, &layout.kept);
            }
        }
    }

    /// As [`touch`](Self::touch), for a write to this field. False if the write has no effect.
    pub(crate) fn touch_field(&mut self, layout: &Layout, field: FieldRef) -> bool {
        match field {
            FieldRef::Meta(id) => {
                if layout.checksum_meta[id.index()] {
                    self.touch(layout);
                }
                true
            }
            _ if self.now().header_of(layout, field).is_none() => false,
            _ => {
                self.touch(layout);
                true
            }
        }
    }

    /// Values as they are now.
    pub(crate) fn now(&self) -> Values<'_> {
        Values { bytes: bytes(&self.words) }
    }

    /// Values as they were right after parsing.
    pub(crate) fn then(&self) -> Values<'_> {
        Values { bytes: bytes(&self.parsed) }
    }

    pub(crate) fn valid(&self, header: HeaderId) -> bool {
        self.now().valid(header)
    }

    fn set_valid_byte(&mut self, header: HeaderId, valid: bool) {
        bytes_mut(&mut self.words)[VALID + header.index()] = u8::from(valid);
    }

    pub(crate) fn set_varbit(&mut self, layout: &Layout, header: HeaderId, bits: u32) {
        let at = layout.varbit + 4 * header.index();
        bytes_mut(&mut self.words)[at..at + 4].copy_from_slice(&bits.to_ne_bytes());
    }

    /// Bytes of a header, to be filled.
    pub(crate) fn header_mut(&mut self, layout: &Layout, header: HeaderId) -> &mut [u8] {
        let place = layout.headers[header.index()];
        &mut bytes_mut(&mut self.words)[place.at..place.at + place.bytes]
    }

    /// Marks a header as valid, and the other members of its union as invalid.
    pub(crate) fn mark_valid(&mut self, layout: &Layout, header: HeaderId) {
        if let Some(union) = layout.program.headers[header.index()].union {
            for member in &layout.program.unions[union.index()].members {
                self.set_valid_byte(*member, false);
            }
        }
        self.set_valid_byte(header, true);
    }

    /// Makes a header valid, with zero fields unless it already was.
    pub(crate) fn set_valid(&mut self, layout: &Layout, header: HeaderId) {
        if !self.valid(header) {
            self.header_mut(layout, header).fill(0);
            self.set_varbit(layout, header, 0);
        }
        self.mark_valid(layout, header);
    }

    pub(crate) fn set_invalid(&mut self, header: HeaderId) {
        self.set_valid_byte(header, false);
    }

    /// `to = from`, validity and all fields; both have the same type.
    pub(crate) fn copy_header(&mut self, layout: &Layout, to: HeaderId, from: HeaderId) {
        if to == from {
            return;
        }
        if !self.valid(from) {
            return self.set_invalid(to);
        }
        let (to_place, from_place) = (layout.headers[to.index()], layout.headers[from.index()]);
        let n = to_place.bytes.min(from_place.bytes);
        bytes_mut(&mut self.words).copy_within(from_place.at..from_place.at + n, to_place.at);
        let bits = self.now().varbit(layout, from);
        self.set_varbit(layout, to, bits);
        self.mark_valid(layout, to);
    }

    /// `to = from` of varbit fields of one greatest width; the header of `to` is valid.
    pub(crate) fn copy_varbit(&mut self, layout: &Layout, to: FieldRef, from: FieldRef) {
        let Some(header) = self.now().header_of(layout, to) else { return };
        let bits = match self.now().place(layout, from) {
            Some((bytes, offset, n)) => Bits::extract(bytes, offset, n as u32),
            None => Bits::zero(0),
        };
        self.set_varbit(layout, header, bits.width());
        if bits.width() > 0 {
            self.write(layout, to, &bits);
        }
    }

    /// Shifts a stack up. False, with nothing done, if a valid element would fall off the end.
    pub(crate) fn push_front(&mut self, layout: &Layout, stack: StackId, count: u32) -> bool {
        let (elements, count) = (layout.stack(stack), count as usize);
        let id = |i: usize| HeaderId(i as u32);
        if count > elements.len() || elements.clone().rev().take(count).any(|i| self.valid(id(i))) {
            return false;
        }
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

    /// Sets a field; does nothing in an invalid header. A varbit field keeps its width.
    pub(crate) fn write(&mut self, layout: &Layout, field: FieldRef, value: &Bits) {
        let (header, field) = match field {
            FieldRef::Meta(id) => return self.write_meta(layout, id, value),
            FieldRef::Header(header, field) => (header, field),
            FieldRef::Last(stack, field) => match self.now().last(layout, stack) {
                Some(header) => (header, field),
                None => return,
            },
        };
        if !self.valid(header) {
            return;
        }
        let place = layout.type_of(header).fields[field.index()];
        let width = if place.varbit { self.now().varbit(layout, header) } else { place.width };
        let bytes = self.header_mut(layout, header);
        if value.width() == width {
            value.deposit(bytes, place.offset as usize);
        } else {
            value.cast(width).deposit(bytes, place.offset as usize);
        }
    }

    fn write_meta(&mut self, layout: &Layout, id: MetaId, value: &Bits) {
        let (at, width) = layout.meta[id.index()];
        let words = (width as usize).div_ceil(64);
        let value = value.cast(width);
        self.words[at / 8..at / 8 + words].copy_from_slice(&value.limbs()[..words]);
    }

    /// Sets a metadata field of at most 64 bits to a number that it has room for.
    pub(crate) fn set_meta(&mut self, layout: &Layout, id: MetaId, value: u64) {
        self.words[layout.meta[id.index()].0 / 8] = value;
    }

    /// The low 32 bits of a metadata field.
    pub(crate) fn meta_u32(&self, layout: &Layout, id: MetaId) -> u32 {
        self.words[layout.meta[id.index()].0 / 8] as u32
    }

    /// Zeroes all metadata but those.
    pub(crate) fn keep_meta(&mut self, layout: &Layout, keep: &[MetaId]) {
        let kept: SmallVec<[_; 8]> = keep
            .iter()
            .map(|id| (FieldRef::Meta(*id), self.now().read(layout, FieldRef::Meta(*id))))
            .collect();
        bytes_mut(&mut self.words)[layout.meta_bytes.clone()].fill(0);
        for (field, value) in &kept {
            self.write(layout, *field, value);
        }
    }
}

/// Values to be read.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    /// Values at an address that code gave: the words of a copy, or of what was parsed.
    ///
    /// # Safety
    /// So many words as the layout has are there, initialised, and not written while this is used.
    pub(crate) unsafe fn at(layout: &Layout, words: *const u64) -> Values<'a> {
        // SAFETY: by the caller.
        Values { bytes: bytes(unsafe { std::slice::from_raw_parts(words, layout.words) }) }
    }

    pub(crate) fn valid(&self, header: HeaderId) -> bool {
        self.bytes[VALID + header.index()] != 0
    }

    pub(crate) fn varbit(&self, layout: &Layout, header: HeaderId) -> u32 {
        let at = layout.varbit + 4 * header.index();
        let bytes = &self.bytes[at..at + 4];
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    /// How many elements of a stack are valid.
    pub(crate) fn stack_size(&self, layout: &Layout, stack: StackId) -> usize {
        layout.stack(stack).filter(|i| self.valid(HeaderId(*i as u32))).count()
    }

    /// The last valid element of a stack.
    pub(crate) fn last(&self, layout: &Layout, stack: StackId) -> Option<HeaderId> {
        layout.stack(stack).rev().map(|i| HeaderId(i as u32)).find(|h| self.valid(*h))
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
    pub(crate) fn header(&self, layout: &Layout, header: HeaderId) -> (&'a [u8], usize) {
        let (place, ty) = (layout.headers[header.index()], layout.type_of(header));
        let varbit = if ty.varbit == 0 { 0 } else { self.varbit(layout, header) };
        (&self.bytes[place.at..place.at + place.bytes], (ty.fixed + varbit) as usize)
    }

    /// Where a header field's bits are: the bytes, the bit they start at, how many there are.
    fn place(&self, layout: &Layout, field: FieldRef) -> Option<(&'a [u8], usize, usize)> {
        let header = self.header_of(layout, field)?;
        let (FieldRef::Header(_, field) | FieldRef::Last(_, field)) = field else { return None };
        let place = layout.type_of(header).fields[field.index()];
        let width = if place.varbit { self.varbit(layout, header) } else { place.width };
        let at = layout.headers[header.index()];
        Some((&self.bytes[at.at..at.at + at.bytes], place.offset as usize, width as usize))
    }

    /// A field's value; zero in an invalid header.
    pub(crate) fn read(&self, layout: &Layout, field: FieldRef) -> Bits {
        let width = layout.width(field);
        if let FieldRef::Meta(id) = field {
            let at = layout.meta[id.index()].0;
            let words: SmallVec<[u64; 4]> = self.bytes[at..at + 8 * (width as usize).div_ceil(64)]
                .as_chunks::<8>()
                .0
                .iter()
                .map(|word| u64::from_ne_bytes(*word))
                .collect();
            return Bits::from_words(&words, width);
        }
        match self.place(layout, field) {
            None => Bits::zero(width),
            Some((bytes, offset, n)) if n as u32 == width => Bits::extract(bytes, offset, width),
            Some((bytes, offset, n)) => Bits::extract(bytes, offset, n as u32).cast(width),
        }
    }

    /// Appends a field's value to a bit string; of a varbit field, with `exact`, the bits that it has.
    pub(crate) fn append(
        &self,
        layout: &Layout,
        field: FieldRef,
        exact: bool,
        writer: &mut Writer<'_>,
    ) {
        if matches!(field, FieldRef::Meta(_)) {
            return writer.value(&self.read(layout, field));
        }
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
}
