//! Emission: valid headers in the deparser's order, then the payload.
//!
//! An unchanged packet is not emitted at all: its bytes are the input's. Otherwise the headers are written to one
//! buffer and the payload stays where it is in the input, unless it has moved to another bit of its byte.
//!
//! Checksums are written for the emission only and taken back afterwards. Those of the usual kinds are code
//! ([`sums`](super::sums)); the others are worked out here.

use super::bits::Writer;
use super::eval::Env;
use super::hash::{self, Sum};
use super::layout::at;
use super::run::Run;
use super::state::Copy;
use interp::Packet;
use ir::{Bits, Checksum, ChecksumAlgorithm, ChecksumMode, FieldRef, HashAlgorithm};

/// What an emission gave; its headers are in the run's buffer, unless the packet is the received one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emitted {
    /// The received bytes, so nothing was written to the buffer.
    pub(crate) same: bool,
    /// The bytes are those received.
    unchanged: bool,
    /// Where in the input the payload starts.
    pub(crate) payload: usize,
}

impl Emitted {
    /// The packet; `buffer` is what it was emitted to.
    pub(crate) fn packet<'b>(&self, buffer: &'b [u8], input: &'b [u8]) -> Packet<'b> {
        let headers = if self.same { &input[..self.payload] } else { buffer };
        Packet { headers, payload: &input[self.payload..], unchanged: self.unchanged }
    }
}

/// What the emissions of a run need.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// What was emitted last.
    pub(crate) emitted: Vec<u8>,
    /// What a service was given.
    pub(crate) served: Vec<u8>,
    before: Vec<u8>,
    after: Vec<u8>,
    payload: Vec<u8>,
    /// Checksum fields that were written, with what they held, by whom code called.
    pub(crate) undo: Vec<(FieldRef, Bits)>,
}

impl Run<'_> {
    /// Emits the packet as it is now, with at most as many bytes as a `truncate` said.
    pub(crate) fn emit_cut(&mut self, copy: &mut Copy) -> Emitted {
        let emitted = self.emit(copy);
        let most = copy.words[at::CUT] as usize;
        let buffer = &mut self.buffers.emitted;
        if emitted.packet(buffer, self.input).len() <= most {
            return emitted;
        }
        // What is left of a payload is no tail of the input any more: it is copied.
        if emitted.same {
            buffer.clear();
            buffer.extend_from_slice(&self.input[..emitted.payload]);
        }
        let payload = &self.input[emitted.payload..];
        let room = most.saturating_sub(buffer.len()).min(payload.len());
        buffer.truncate(most);
        buffer.extend_from_slice(&payload[..room]);
        Emitted { same: false, unchanged: false, payload: self.input.len() }
    }

    /// Emits the packet as it is now.
    pub(crate) fn emit(&mut self, copy: &mut Copy) -> Emitted {
        let layout = self.layout;
        if copy.unchanged(layout) {
            let payload = (copy.cursor() / 8).min(self.input.len());
            return Emitted { same: true, unchanged: true, payload };
        }
        let sums = copy.is_changed() || layout.checksum_always;
        if sums && let Some(code) = &self.code.sums {
            // From here on there is a difference to speak of: the checksums written first.
            copy.touch(layout);
            copy.words[layout.sums / 8] = 0;
            self.buffers.undo.clear();
            let parsed = copy.parsed.as_ptr();
            self.enter(copy, code, parsed);
        }
        let payload = self.write_packet(copy);
        if sums && self.code.sums.is_some() {
            self.take_back(copy);
        }
        let emitted = &self.buffers.emitted;
        let unchanged = emitted.len() == payload && self.input.starts_with(emitted);
        Emitted { same: false, unchanged, payload }
    }

    /// Checksum fields hold again what they held.
    fn take_back(&mut self, copy: &mut Copy) {
        let (layout, first) = (self.layout, self.layout.sums / 8);
        while let Some((field, old)) = self.buffers.undo.pop() {
            copy.write(layout, field, &old);
        }
        let written = copy.words[first];
        if written != 0 {
            // The last one first, as two may have written one field.
            for (i, checksum) in layout.program.checksums.iter().enumerate().take(64).rev() {
                if written >> i & 1 == 1 {
                    let width = layout.width(checksum.field);
                    let old = Bits::from_words(&[copy.words[first + 1 + i]], width);
                    copy.write(layout, checksum.field, &old);
                }
            }
        }
    }

    /// Writes headers, and what of the payload must be copied; where in the input the rest starts.
    fn write_packet(&mut self, copy: &Copy) -> usize {
        let (layout, values) = (self.layout, copy.now());
        let mut writer = Writer::new(&mut self.buffers.emitted);
        for header in &layout.program.deparser {
            if values.valid(*header) {
                let (bytes, bits) = values.header(layout, *header);
                writer.bits_of(bytes, 0, bits);
            }
        }
        let source = copy.source.bytes(self.input);
        let end = 8 * source.len();
        let mut at = copy.cursor().min(end);
        if writer.bits() % 8 != at % 8 {
            writer.bits_of(source, at, end - at);
            return self.input.len();
        }
        if !at.is_multiple_of(8) {
            let rest = 8 - at % 8;
            writer.bits_of(source, at, rest);
            at += rest;
        }
        let (front, tail) = copy.source.rest(at / 8, self.input);
        writer.bits_of(front, 0, 8 * front.len());
        tail
    }

    /// Writes a checksum that code leaves to this.
    pub(crate) fn checksum(&mut self, copy: &mut Copy, number: usize, checksum: &Checksum) {
        if let Some(value) = self.checksum_value(copy, checksum) {
            let layout = self.layout;
            let old = copy.now().read(layout, checksum.field);
            let first = layout.sums / 8;
            match old.width() {
                ..=64 if number < 64 => {
                    copy.words[first] |= 1 << number;
                    copy.words[first + 1 + number] = old.low_u64();
                }
                _ => self.buffers.undo.push((checksum.field, old)),
            }
            copy.write(layout, checksum.field, &value);
        }
    }

    /// What to write to a checksum's field, if anything (see [`ir::ChecksumMode`]).
    fn checksum_value(&mut self, copy: &Copy, checksum: &Checksum) -> Option<Bits> {
        let layout = self.layout;
        let mut buffers = std::mem::take(self.buffers);
        let Buffers { before, after, payload, .. } = &mut buffers;
        let new = (|| {
            let header = copy.now().header_of(layout, checksum.field)?;
            let now = self.env(copy, &[]);
            if checksum.condition.as_ref().is_some_and(|c| !now.holds(c)) {
                return None;
            }
            let old = copy.now().read(layout, checksum.field);
            if checksum.zero_is_none && old.is_zero() {
                return None;
            }
            // A difference is between values of the same length.
            let exact = checksum.mode != ChecksumMode::Incremental;
            now.concat(&checksum.inputs, after, exact);
            let was_parsed = copy.then().valid(header);
            if checksum.mode != ChecksumMode::Always && was_parsed {
                Env { values: copy.then(), ..self.env(copy, &[]) }.concat(
                    &checksum.inputs,
                    before,
                    exact,
                );
                if before == after {
                    return None;
                }
            }
            let new = match (checksum.mode, checksum.algorithm) {
                (ChecksumMode::Incremental, ChecksumAlgorithm::Csum16) => {
                    if !was_parsed {
                        return None;
                    }
                    let n = before.len().max(after.len()).next_multiple_of(2);
                    before.resize(n, 0);
                    after.resize(n, 0);
                    u32::from(hash::adjust(old.low_u32() as u16, before, after))
                }
                (_, algorithm) => {
                    let rest = match checksum.payload {
                        true => self.payload(copy, payload),
                        false => &[],
                    };
                    match algorithm {
                        ChecksumAlgorithm::Csum16 => {
                            let mut sum = Sum::default();
                            sum.add(after);
                            sum.add(rest);
                            u32::from(!sum.fold())
                        }
                        // The bytes of the remainder go out lowest first (RFC 9260 appendix A).
                        ChecksumAlgorithm::Crc32c => hash::crc32c(&[after, rest]).swap_bytes(),
                    }
                }
            };
            let new = Bits::from_u128(u128::from(new), old.width());
            let zero = checksum.zero_is_none && new.is_zero();
            let new = if zero { Bits::ones(old.width()) } else { new };
            (new != old).then_some(new)
        })();
        *self.buffers = buffers;
        new
    }

    /// The unparsed rest; copied to `room` only if it starts within a byte.
    fn payload<'s>(&'s self, copy: &'s Copy, room: &'s mut Vec<u8>) -> &'s [u8] {
        let (source, cursor) = (copy.source.bytes(self.input), copy.cursor());
        if cursor.is_multiple_of(8) {
            return source.get(cursor / 8..).unwrap_or_default();
        }
        let bits = (8 * source.len()).saturating_sub(cursor);
        Writer::new(room).bits_of(source, cursor, bits);
        room
    }

    /// The ones' complement sum of the unparsed rest.
    pub(crate) fn payload_sum(&self, copy: &Copy) -> u16 {
        let (mut sum, mut room) = (Sum::default(), Vec::new());
        sum.add(self.payload(copy, &mut room));
        sum.fold()
    }

    /// A hash of so many bits of inputs, which fill whole bytes, and of the unparsed rest behind them.
    pub(crate) fn payload_hash(
        &self,
        copy: &Copy,
        algorithm: HashAlgorithm,
        mut bytes: Vec<u8>,
        bits: usize,
    ) -> Bits {
        let mut room = Vec::new();
        let rest = self.payload(copy, &mut room);
        if rest.is_empty() {
            return hash::hash(algorithm, &bytes, bits);
        }
        bytes.extend_from_slice(rest);
        hash::hash(algorithm, &bytes, 8 * bytes.len())
    }
}
