//! One copy of the packet on its way through the program.

use crate::layout::Layout;
use crate::source::{Parts, Source};
use crate::store::Store;
use ir::{Bits, BlockId, EntryId, FieldRef, GroupId, HeaderId, MetaId, TableId};
use smallvec::SmallVec;

/// A copy of the packet: values, unparsed rest, and what the end of its pass depends on.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// Values as they are now.
    pub(crate) store: Store,
    /// Values as they were right after parsing; meaningful while `changed`, and only in programs
    /// that have checksums.
    pub(crate) parsed: Store,
    /// A header, or metadata that a checksum looks at, may differ from what was parsed.
    pub(crate) changed: bool,
    /// Every bit that the parser consumed is in a valid header, and emitting them gives these bits
    /// in this order. (As long as nothing `changed`.)
    pub(crate) in_order: bool,
    /// Where the next header in order may be in the deparser's list.
    next_order: u32,
    /// The bytes that were parsed last.
    pub(crate) source: Source,
    /// Where the unparsed rest begins, in bits.
    pub(crate) cursor: usize,
    /// The bytes that this pass began with.
    pub(crate) origin: Source,
    /// How many bytes those are.
    pub(crate) length: u32,
    /// The table looked up last, and what matched.
    pub(crate) last: Option<(TableId, Option<EntryId>)>,
    /// The bucket whose action runs, until it looks a table up.
    pub(crate) bucket: Option<(GroupId, u32)>,
    /// How many calls its original is inside of.
    pub(crate) outside: usize,
    /// That lookup missed, its default action does nothing, and nothing was done since.
    pub(crate) missed: bool,
    /// Where an action wants control to go.
    pub(crate) goto: Option<BlockId>,
    /// Groups that this copy is inside of.
    pub(crate) group_depth: u32,
    /// Clones that this copy is inside of.
    pub(crate) clone_depth: u32,
    /// Bytes that an output of this pass has at most.
    pub(crate) cut: u32,
    /// What the keys of some tables see otherwise, during a call.
    pub(crate) guise: Option<Seen>,
}

/// How the keys of some tables see a packet.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) in_port: u32,
    pub(crate) columns: Vec<(u32, Bits)>,
    pub(crate) tables: SmallVec<[TableId; 2]>,
}

impl Context {
    /// A received frame of so many bytes, of which so many are no part of its length; nothing parsed yet.
    pub(crate) fn reset(&mut self, layout: &Layout, length: usize, preface: u32) {
        self.store.reset(layout);
        self.source.reset();
        self.origin.reset();
        self.length = u32::try_from(length).unwrap_or(u32::MAX).saturating_sub(preface);
        self.group_depth = 0;
        self.clone_depth = 0;
        self.outside = 0;
        self.begin_pass();
        self.begin_parsing();
    }

    /// Nothing was looked up yet.
    pub(crate) fn begin_pass(&mut self) {
        self.last = None;
        self.bucket = None;
        self.missed = false;
        self.goto = None;
        self.cut = u32::MAX;
        self.guise = None;
    }

    /// Nothing of the source was parsed yet.
    pub(crate) fn begin_parsing(&mut self) {
        self.store.clear_headers();
        self.cursor = 0;
        self.changed = false;
        self.in_order = true;
        self.next_order = 0;
    }

    pub(crate) fn copy_from(&mut self, other: &Context) {
        self.store.copy_from(&other.store);
        if other.changed {
            self.parsed.copy_from(&other.parsed);
        }
        self.changed = other.changed;
        self.in_order = other.in_order;
        self.next_order = other.next_order;
        self.source.copy_from(&other.source);
        self.cursor = other.cursor;
        self.origin.copy_from(&other.origin);
        self.length = other.length;
        self.last = other.last;
        self.bucket = other.bucket;
        self.missed = other.missed;
        self.goto = other.goto;
        self.guise.clone_from(&other.guise);
        self.group_depth = other.group_depth;
        self.clone_depth = other.clone_depth;
        self.cut = other.cut;
    }

    /// The bytes that were parsed last.
    pub(crate) fn parts<'a>(&'a self, input: &'a [u8]) -> Parts<'a> {
        self.source.parts(input)
    }

    /// The parser has read this header.
    pub(crate) fn note_extracted(&mut self, layout: &Layout, header: HeaderId) {
        match layout.headers[header.index()].order {
            Some(order) if order >= self.next_order => self.next_order = order + 1,
            _ => self.in_order = false,
        }
    }

    /// Emitting this copy gives the received bytes.
    pub(crate) fn unchanged(&self, layout: &Layout) -> bool {
        !self.changed && self.in_order && !layout.checksum_always && self.source.is_input()
    }

    /// Something that the emitted bytes depend on is about to change.
    pub(crate) fn touch(&mut self, layout: &Layout) {
        if !self.changed {
            self.changed = true;
            if !layout.program.checksums.is_empty() {
                self.parsed.copy_from(&self.store);
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
            _ if self.store.header_of(layout, field).is_none() => false,
            _ => {
                self.touch(layout);
                true
            }
        }
    }

    /// Zeroes all metadata but those.
    pub(crate) fn keep_meta(&mut self, layout: &Layout, keep: &[MetaId]) {
        let kept: SmallVec<[_; 8]> = keep
            .iter()
            .map(|id| (FieldRef::Meta(*id), self.store.read(layout, FieldRef::Meta(*id))))
            .collect();
        self.store.clear_meta(layout);
        for (field, value) in &kept {
            self.store.write(layout, *field, value);
        }
    }
}
