//! Checksum fields, written when a packet is emitted.
//!
//! A checksum compares what its inputs were right after parsing with what they are now (see
//! [`ir::ChecksumMode`]). One whose own header was not parsed has no former value: `Incremental`
//! leaves it as it was written, `IfChanged` computes it.
//!
//! Checked by: tests that compare every mode with a computation from the emitted bytes.

use crate::context::Context;
use crate::eval::Env;
use crate::hash::{Sum, adjust, crc32c, hash};
use crate::layout::Layout;
use crate::source::{Parts, Writer};
use crate::store::Store;
use ir::{Bits, Checksum, ChecksumAlgorithm, ChecksumMode, FieldRef, HashAlgorithm};
use smallvec::SmallVec;

/// Buffers of this module, kept between packets.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    before: Vec<u8>,
    after: Vec<u8>,
    payload: Vec<u8>,
}

/// Fields written, with the values that they had.
pub(crate) type Undo = SmallVec<[(FieldRef, Bits); 2]>;

/// Writes the checksum fields of a packet that is about to be emitted.
pub(crate) fn write(
    layout: &Layout,
    context: &mut Context,
    input: &[u8],
    scratch: &mut Scratch,
) -> Undo {
    let mut undo = Undo::new();
    if !context.changed && !layout.checksum_always {
        return undo;
    }
    // From here on there is a difference to speak of: the checksums written first.
    context.touch(layout);
    let Context { store, parsed, source, cursor, .. } = context;
    let parts = source.parts(input);
    for checksum in &layout.program.checksums {
        if let Some(value) = value(layout, checksum, store, parsed, parts, *cursor, scratch) {
            undo.push((checksum.field, store.read(layout, checksum.field)));
            store.write(layout, checksum.field, &value);
        }
    }
    undo
}

/// What to write to a checksum's field, if anything.
fn value(
    layout: &Layout,
    checksum: &Checksum,
    store: &Store,
    parsed: &Store,
    parts: Parts<'_>,
    cursor: usize,
    scratch: &mut Scratch,
) -> Option<Bits> {
    let header = store.header_of(layout, checksum.field)?;
    let now = Env { layout, store, args: &[], parts, cursor };
    if checksum.condition.as_ref().is_some_and(|c| !now.holds(c)) {
        return None;
    }
    let old = store.read(layout, checksum.field);
    if checksum.zero_is_none && old.is_zero() {
        return None;
    }
    // A difference is between values of the same length.
    let exact = checksum.mode != ChecksumMode::Incremental;
    now.concat(&checksum.inputs, &mut scratch.after, exact);
    let was_parsed = parsed.valid(header);
    if checksum.mode != ChecksumMode::Always && was_parsed {
        let then = Env { layout, store: parsed, args: &[], parts, cursor };
        then.concat(&checksum.inputs, &mut scratch.before, exact);
        if scratch.before == scratch.after {
            return None;
        }
    }
    let new = match (checksum.mode, checksum.algorithm) {
        (ChecksumMode::Incremental, ChecksumAlgorithm::Csum16) => {
            if !was_parsed {
                return None;
            }
            // The inputs' length may differ only by a mistake that the verifier refuses.
            let n = scratch.before.len().max(scratch.after.len()).next_multiple_of(2);
            scratch.before.resize(n, 0);
            scratch.after.resize(n, 0);
            u32::from(adjust(old.low_u32() as u16, &scratch.before, &scratch.after))
        }
        (_, algorithm) => {
            let (front, tail) = match checksum.payload {
                true => payload(parts, cursor, &mut scratch.payload),
                false => (&[][..], &[][..]),
            };
            match algorithm {
                ChecksumAlgorithm::Csum16 => {
                    let mut sum = Sum::default();
                    [&scratch.after, front, tail].iter().for_each(|run| sum.add(run));
                    u32::from(!sum.fold())
                }
                // The bytes of the remainder go out lowest first (RFC 9260 appendix A).
                ChecksumAlgorithm::Crc32c => crc32c(&[&scratch.after, front, tail]).swap_bytes(),
            }
        }
    };
    let new = Bits::from_u128(u128::from(new), old.width());
    let new = if checksum.zero_is_none && new.is_zero() { Bits::ones(old.width()) } else { new };
    (new != old).then_some(new)
}

/// The ones' complement sum of the unparsed rest.
pub(crate) fn payload_sum(context: &Context, input: &[u8], scratch: &mut Scratch) -> u16 {
    let parts = context.source.parts(input);
    let (front, tail) = payload(parts, context.cursor, &mut scratch.payload);
    let mut sum = Sum::default();
    [front, tail].iter().for_each(|run| sum.add(run));
    sum.fold()
}

/// A hash of so many bits of inputs, which fill whole bytes, and of the unparsed rest behind them.
pub(crate) fn payload_hash(
    context: &Context,
    input: &[u8],
    scratch: &mut Scratch,
    algorithm: HashAlgorithm,
    mut bytes: Vec<u8>,
    bits: usize,
) -> Bits {
    let parts = context.source.parts(input);
    let (front, tail) = payload(parts, context.cursor, &mut scratch.payload);
    if front.is_empty() && tail.is_empty() {
        return hash(algorithm, &bytes, bits);
    }
    bytes.extend([front, tail].concat());
    hash(algorithm, &bytes, 8 * bytes.len())
}

/// The unparsed rest in two runs of bytes; copied only if it starts within a byte.
fn payload<'a>(parts: Parts<'a>, cursor: usize, copy: &'a mut Vec<u8>) -> (&'a [u8], &'a [u8]) {
    if cursor.is_multiple_of(8) {
        return parts.rest(cursor / 8);
    }
    Writer::new(copy).parts(&parts, cursor, parts.bits().saturating_sub(cursor));
    (copy, &[])
}
