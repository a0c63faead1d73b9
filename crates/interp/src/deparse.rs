//! Emission: valid headers in the deparser's order, then the payload.
//!
//! An unchanged packet is not emitted at all: its bytes are the input's. Otherwise the headers are
//! written to one buffer and the payload stays where it is in the input, unless the headers' length
//! has moved it to another bit of its byte; then it is copied behind them. If the last byte is not
//! full, it is padded with zero bits.
//!
//! Checksums are written for the emission only and taken back afterwards, so that each emission
//! sees the difference to what was parsed.

use crate::checksum;
use crate::context::Context;
use crate::machine::Run;
use crate::sink::Packet;
use crate::source::Writer;

/// What an emission gave; its headers are in the run's buffer, unless the packet is unchanged.
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

impl Run<'_> {
    /// Emits the packet as it is now, with at most as many bytes as a `truncate` said.
    pub(crate) fn emit_cut(&mut self, context: &mut Context) -> Emitted {
        let emitted = self.emit(context);
        let most = context.cut as usize;
        if emitted.packet(self.emitted, self.input).len() <= most {
            return emitted;
        }
        // What is left of a payload is no tail of the input any more: it is copied.
        if emitted.same {
            self.emitted.clear();
            self.emitted.extend_from_slice(&self.input[..emitted.payload]);
        }
        let payload = &self.input[emitted.payload..];
        let room = most.saturating_sub(self.emitted.len()).min(payload.len());
        self.emitted.truncate(most);
        self.emitted.extend_from_slice(&payload[..room]);
        Emitted { same: false, unchanged: false, payload: self.input.len() }
    }

    /// Emits the packet as it is now.
    pub(crate) fn emit(&mut self, context: &mut Context) -> Emitted {
        if context.unchanged(self.layout) {
            let payload = (context.cursor / 8).min(self.input.len());
            return Emitted { same: true, unchanged: true, payload };
        }
        let undo = checksum::write(self.layout, context, self.input, self.scratch);
        let payload = self.write_packet(context);
        for (field, value) in undo.iter().rev() {
            context.store.write(self.layout, *field, value);
        }
        let unchanged = self.emitted.len() == payload && self.input.starts_with(self.emitted);
        Emitted { same: false, unchanged, payload }
    }

    /// Writes headers, and what of the payload must be copied; where in the input the rest starts.
    fn write_packet(&mut self, context: &Context) -> usize {
        let layout = self.layout;
        let mut writer = Writer::new(self.emitted);
        for header in &layout.program.deparser {
            if context.store.valid(*header) {
                let (bytes, bits) = context.store.header(layout, *header);
                writer.bytes(bytes, bits);
            }
        }
        let parts = context.source.parts(self.input);
        let end = parts.bits();
        let mut at = context.cursor.min(end);
        if writer.bits() % 8 != at % 8 {
            writer.parts(&parts, at, end - at);
            return self.input.len();
        }
        if !at.is_multiple_of(8) {
            let rest = 8 - at % 8;
            writer.parts(&parts, at, rest);
            at += rest;
        }
        let (front, tail) = parts.rest(at / 8);
        writer.bytes(front, 8 * front.len());
        self.input.len() - tail.len()
    }
}
