//! Where a packet's values lie in the memory that code of whole programs works on.
//!
//! First words that code and driver share ([`at`]), then validity, one byte a header, then metadata in whole
//! words, then how long varbit fields are, then headers as they lie in a packet. What a pass begins with as zeros
//! is one run of bytes.

use ir::program::intrinsic;
use ir::{ChecksumMode, Expr, FieldRef, HeaderId, MetaId, ParserOp, Program, StackId, Transition};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Words that code and driver share, by number.
pub(crate) mod at {
    /// The packet's [`Copy`](super::super::state::Copy).
    pub(crate) const COPY: usize = 0;
    /// The run that it belongs to.
    pub(crate) const RUN: usize = 1;
    /// The bytes that are parsed.
    pub(crate) const DATA: usize = 2;
    /// How many bits they are.
    pub(crate) const BITS: usize = 3;
    /// Where the unparsed rest begins, in bits.
    pub(crate) const CURSOR: usize = 4;
    /// Where an action wants control to go: one more than the block's number.
    pub(crate) const GOTO: usize = 5;
    /// A header, or metadata that a checksum looks at, may differ from what was parsed.
    pub(crate) const CHANGED: usize = 6;
    /// Emitting the valid headers gives the bits that were parsed, as long as nothing changed.
    pub(crate) const IN_ORDER: usize = 7;
    /// Where the next header in order may be in the deparser's list.
    pub(crate) const NEXT_ORDER: usize = 8;
    /// The lookup missed, its default action does nothing, and nothing was done since.
    pub(crate) const MISSED: usize = 9;
    /// Bytes that an output has at most.
    pub(crate) const CUT: usize = 10;
    /// Parser states entered.
    pub(crate) const STEPS: usize = 11;
    /// The first word of values.
    pub(crate) const VALUES: usize = 12;
}

/// Bits of a field within its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldPlace {
    pub(crate) offset: u32,
    pub(crate) width: u32,
    pub(crate) varbit: bool,
}

/// A header type.
#[derive(Clone, Debug)]
pub(crate) struct TypePlace {
    pub(crate) fields: Vec<FieldPlace>,
    /// Bits of all fixed-width fields.
    pub(crate) fixed: u32,
    /// Greatest width of the varbit field; 0 without one.
    pub(crate) varbit: u32,
}

/// A header instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderPlace {
    /// Its first byte.
    pub(crate) at: usize,
    /// Room in bytes.
    pub(crate) bytes: usize,
    pub(crate) ty: usize,
    /// Its place in the deparser's order, if it is there exactly once.
    pub(crate) order: Option<u32>,
}

/// The layout of a program. Places are in bytes from the first word on.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) program: Arc<Program>,
    /// The first word and the width of each metadata field.
    pub(crate) meta: Vec<(usize, u32)>,
    /// All of it.
    pub(crate) meta_bytes: Range<usize>,
    /// The first header's length of its varbit field, 4 bytes each.
    pub(crate) varbit: usize,
    pub(crate) headers: Vec<HeaderPlace>,
    pub(crate) types: Vec<TypePlace>,
    /// Checksums that code has written: a word of bits, then what each field held.
    pub(crate) sums: usize,
    /// Words in all.
    pub(crate) words: usize,
    /// Words of headers.
    pub(crate) header_words: Range<usize>,
    /// Words besides those of headers that checksums may look at, which are kept as they were parsed.
    pub(crate) kept: [Range<usize>; 2],
    /// Metadata that some checksum looks at.
    pub(crate) checksum_meta: Vec<bool>,
    /// Some checksum is written at every emission.
    pub(crate) checksum_always: bool,
    /// Words of metadata that the parser may read, and those that it may write, if some service may edit packets.
    pub(crate) parser_reads: Vec<Range<usize>>,
    pub(crate) parser_writes: Vec<Range<usize>>,
}

/// Validity, one byte a header.
pub(crate) const VALID: usize = 8 * at::VALUES;

impl Layout {
    pub(crate) fn new(program: &Arc<Program>) -> Layout {
        let mut end = VALID + program.headers.len().next_multiple_of(8);
        let mut place = |bytes: usize| {
            let start = end;
            end += bytes.next_multiple_of(8);
            start
        };
        let meta_start = place(0);
        let meta: Vec<_> = program
            .metadata
            .iter()
            .map(|m| (place(8 * (m.width as usize).div_ceil(64)), m.width))
            .collect();
        let meta_bytes = meta_start..place(0);
        let varbit = place(4 * program.headers.len());
        let types: Vec<TypePlace> = program
            .header_types
            .iter()
            .map(|ty| {
                let mut offset = 0;
                let fields = ty.fields.iter().map(|f| {
                    let field = FieldPlace { offset, width: f.width, varbit: f.varbit };
                    offset += f.width;
                    field
                });
                TypePlace {
                    fields: fields.collect(),
                    fixed: ty.fixed_width(),
                    varbit: ty.fields.iter().filter(|f| f.varbit).map(|f| f.width).sum(),
                }
            })
            .collect();
        let mut headers: Vec<HeaderPlace> = program
            .headers
            .iter()
            .map(|h| {
                let ty = h.header_type.index();
                let bytes = (types[ty].fixed + types[ty].varbit).div_ceil(8) as usize;
                // Code may copy whole words.
                HeaderPlace { at: place(bytes + 7), bytes, ty, order: None }
            })
            .collect();
        for (at, header) in (0u32..).zip(&program.deparser) {
            let once = program.deparser.iter().filter(|h| *h == header).count() == 1;
            headers[header.index()].order = once.then_some(at);
        }
        let sums = place(8 * (1 + program.checksums.len()));
        let mut checksum_meta = vec![false; program.metadata.len()];
        let mut note = |e: &Expr| {
            if let Expr::Field(FieldRef::Meta(id)) = e {
                checksum_meta[id.index()] = true;
            }
        };
        for checksum in &program.checksums {
            checksum.inputs.iter().chain(&checksum.condition).for_each(|e| e.visit(&mut note));
        }
        let (parser_reads, parser_writes) = match program.services.iter().any(|s| s.edits) {
            true => parser_metadata(program, &meta),
            false => (Vec::new(), Vec::new()),
        };
        // All but metadata, if no checksum looks at that.
        let first = headers.iter().map(|header| header.at).min().unwrap_or(sums);
        let header_words = first / 8..sums / 8;
        let kept = match checksum_meta.iter().any(|looks| *looks) {
            true => [at::VALUES..first / 8, 0..0],
            false => [at::VALUES..meta_start / 8, varbit / 8..first / 8],
        };
        Layout {
            header_words,
            kept,
            meta,
            meta_bytes,
            varbit,
            headers,
            types,
            sums,
            words: end / 8,
            checksum_meta,
            checksum_always: program.checksums.iter().any(|c| c.mode == ChecksumMode::Always),
            parser_reads,
            parser_writes,
            program: program.clone(),
        }
    }

    pub(crate) fn type_of(&self, header: HeaderId) -> &TypePlace {
        &self.types[self.headers[header.index()].ty]
    }

    /// The elements of a stack, by number of their headers.
    pub(crate) fn stack(&self, stack: StackId) -> Range<usize> {
        let stack = &self.program.stacks[stack.index()];
        let first = stack.first.index();
        first..first + stack.size as usize
    }

    pub(crate) fn width(&self, field: FieldRef) -> u32 {
        self.program.field_width(field).unwrap_or(0)
    }

    pub(crate) fn is_varbit(&self, field: FieldRef) -> bool {
        let (header, field) = match field {
            FieldRef::Meta(_) => return false,
            FieldRef::Header(header, field) => (header, field),
            FieldRef::Last(stack, field) => (self.program.stacks[stack.index()].first, field),
        };
        self.type_of(header).fields[field.index()].varbit
    }
}

/// Words of metadata that the parser may read, and those that it may write.
fn parser_metadata(
    program: &Program,
    meta: &[(usize, u32)],
) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let (mut reads, mut writes) = (BTreeSet::new(), BTreeSet::from([intrinsic::PARSER_ERROR]));
    let mut note = |e: &Expr| {
        e.visit(&mut |e| {
            if let Expr::Field(FieldRef::Meta(id)) = e {
                reads.insert(*id);
            }
        });
    };
    for state in &program.parser {
        for op in &state.ops {
            match op {
                ParserOp::Extract { varbit, .. } | ParserOp::ExtractNext { varbit, .. } => {
                    varbit.iter().for_each(&mut note);
                }
                ParserOp::Advance(e) | ParserOp::Verify(e, _) => note(e),
                ParserOp::Assign(field, e) => {
                    note(e);
                    if let FieldRef::Meta(id) = field {
                        writes.insert(*id);
                    }
                }
            }
        }
        if let Transition::Select { keys, .. } = &state.next {
            keys.iter().for_each(&mut note);
        }
    }
    // Neighbours are one range.
    let words = |ids: BTreeSet<MetaId>| {
        let mut all: Vec<Range<usize>> = Vec::new();
        for id in ids {
            let (at, width) = meta[id.index()];
            let words = at / 8..at / 8 + (width as usize).div_ceil(64);
            match all.last_mut() {
                Some(last) if last.end == words.start => last.end = words.end,
                _ => all.push(words),
            }
        }
        all
    };
    (words(reads), words(writes))
}
