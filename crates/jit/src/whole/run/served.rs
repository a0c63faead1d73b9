//! Services of a whole program: what they are handed, and the packet as they leave it.

use super::super::emit::Emitted;
use super::super::state::{Copy, Source};
use super::{End, Run};
use interp::limits::REPARSES_MAX;
use ir::DropReason;
use smallvec::SmallVec;

impl Run<'_> {
    /// Why the pass ends there, if it does; and whether the packet was parsed anew.
    pub(super) fn service(
        &mut self,
        copy: &mut Copy,
        id: ir::ServiceId,
        args: &[u64],
        results: &[ir::MetaId],
    ) -> (Option<End>, bool) {
        let service = &self.layout.program.services[id.index()];
        if service.edits {
            if self.reparses == REPARSES_MAX {
                return (Some(End::Drop(DropReason::RecirculationLimit)), false);
            }
            self.reparses += 1;
        }
        let mut changed = false;
        let words_of = |result: &ir::Param| result.width.div_ceil(64) as usize;
        let mut answers: SmallVec<[u64; 24]> = SmallVec::new();
        answers.resize(service.results.iter().map(words_of).sum(), 0);
        let mut bytes = std::mem::take(&mut self.buffers.served);
        bytes.clear();
        // Nothing to emit as long as the packet is as it was parsed.
        let emitted = match copy.is_as_parsed(self.layout) {
            true => None,
            false => Some(self.emit(copy)),
        };
        match &emitted {
            None => bytes.extend_from_slice(copy.source.bytes(self.input)),
            Some(emitted) => {
                let packet = emitted.packet(&self.buffers.emitted, self.input);
                bytes.extend_from_slice(packet.headers);
                bytes.extend_from_slice(packet.payload);
            }
        }
        let passes = self.externs.service_words(service, args, &mut bytes, &mut answers);
        let end = match passes {
            false => Some(End::Drop(DropReason::Service)),
            true if service.edits => self.served(copy, &mut bytes, emitted, &mut changed),
            true => None,
        };
        self.buffers.served = bytes;
        if end.is_some() {
            return (end, changed);
        }
        let mut answers = &answers[..];
        for (meta, result) in results.iter().zip(&service.results) {
            let (answer, more) = answers.split_at(words_of(result));
            answers = more;
            if self.layout.checksum_meta[meta.index()] {
                copy.touch(self.layout);
            }
            let at = self.layout.meta[meta.index()].0 / 8;
            copy.words[at..at + answer.len()].copy_from_slice(answer);
        }
        (None, changed)
    }

    /// Goes on with a packet as a service has left it, parsed anew.
    fn served(
        &mut self,
        copy: &mut Copy,
        bytes: &mut Vec<u8>,
        emitted: Option<Emitted>,
        changed: &mut bool,
    ) -> Option<End> {
        let same = emitted.is_none() && *bytes == copy.source.bytes(self.input);
        if same && copy.parses_alike(self.layout) {
            return None;
        }
        *changed = true;
        let emitted = emitted.unwrap_or_else(|| self.emit(copy));
        let headers = emitted.packet(&self.buffers.emitted, self.input).headers.len();
        // What it left alone of the payload stays where it is.
        let kept = bytes.get(headers..) == Some(&self.input[emitted.payload..]);
        let same = kept && emitted.same && bytes[..headers] == self.input[..headers];
        copy.source = match (same, kept) {
            (true, _) => Source::default(),
            (false, true) => {
                bytes.truncate(headers);
                Source::new(std::mem::take(bytes), self.input, emitted.payload)
            }
            (false, false) => Source::new(std::mem::take(bytes), self.input, self.input.len()),
        };
        (!self.parse(copy)).then_some(End::Drop(DropReason::ParserReject))
    }
}
