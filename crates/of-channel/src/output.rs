//! Bytes on their way to the peer: a queue of segments.
//!
//! Messages are encoded at the end of the last segment; a segment of [`SEGMENT`] bytes or more gets
//! no more messages. The front one is written and dropped, so an answer of any size costs time
//! linear in it, and its memory is given back as the peer takes it.

use openflow::codec::{self, EncodeError};
use openflow::{Message, Version, Xid};
use std::collections::VecDeque;

/// Bytes from which on a segment is full.
const SEGMENT: usize = 256 << 10;

/// Bytes to write.
#[derive(Default)]
pub(crate) struct Output {
    segments: VecDeque<Vec<u8>>,
    /// Bytes of the front segment that are written.
    written: usize,
    pending: usize,
}

impl Output {
    /// Bytes that are still to be written.
    pub(crate) fn pending(&self) -> usize {
        self.pending
    }

    /// Bytes to write next; empty if there are none.
    pub(crate) fn front(&self) -> &[u8] {
        self.segments.front().map_or(&[], |s| &s[self.written..])
    }

    /// Takes note that so many bytes of [`front`](Self::front) are written.
    pub(crate) fn wrote(&mut self, n: usize) {
        self.written += n;
        self.pending -= n;
        let Some(front) = self.segments.front_mut() else { return };
        if self.written < front.len() {
            return;
        }
        self.written = 0;
        if self.pending > 0 || front.capacity() > SEGMENT {
            self.segments.pop_front();
        } else {
            // The next answers need not allocate.
            front.clear();
        }
    }

    /// Encodes a message and returns its bytes.
    pub(crate) fn encode(
        &mut self,
        version: Version,
        xid: Xid,
        message: &Message,
    ) -> Result<&[u8], EncodeError> {
        self.encode_by(|segment| codec::encode_into(segment, version, xid, message))
    }

    /// The same by a function that appends a message.
    pub(crate) fn encode_by(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> Result<&[u8], EncodeError> {
        let segment = self.last();
        let before = segment.len();
        encode(segment)?;
        Ok(self.grown(before))
    }

    /// Adds bytes that are encoded already.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let segment = self.last();
        let before = segment.len();
        segment.extend_from_slice(bytes);
        self.grown(before);
    }

    fn last(&mut self) -> &mut Vec<u8> {
        if self.segments.back().is_none_or(|s| s.len() >= SEGMENT) {
            self.segments.push_back(Vec::new());
        }
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    fn grown(&mut self, before: usize) -> &[u8] {
        let added = self.segments.back().map_or(&[][..], |s| &s[before..]);
        self.pending += added.len();
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order_whatever_the_writes() {
        let mut output = Output::default();
        let mut expected = Vec::new();
        let mut seen = Vec::new();
        let mut random = 12345u32;
        for i in 0..2000u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let message = Message::EchoReply(vec![i as u8; (random >> 16) as usize % 3000]);
            let bytes = output.encode(Version::V13, Xid(i), &message).unwrap();
            expected.extend_from_slice(bytes);
            output.append(&[i as u8; 3]);
            expected.extend_from_slice(&[i as u8; 3]);
            if random & 3 == 0 {
                let n = output.front().len().min((random >> 8) as usize % 20_000);
                seen.extend_from_slice(&output.front()[..n]);
                output.wrote(n);
            }
            assert_eq!(output.pending(), expected.len() - seen.len());
        }
        while !output.front().is_empty() {
            seen.extend_from_slice(output.front());
            output.wrote(output.front().len());
        }
        assert!(seen == expected && output.pending() == 0);
    }

    #[test]
    fn memory_goes_as_it_is_written() {
        let mut output = Output::default();
        for _ in 0..40 {
            output.append(&[0; SEGMENT / 2]);
        }
        assert_eq!(output.segments.len(), 20);
        while output.pending() > 0 {
            output.wrote(output.front().len());
        }
        assert!(output.segments.len() <= 1);
        assert!(output.segments.iter().all(|s| s.capacity() <= SEGMENT));
    }

    #[test]
    fn a_message_that_cannot_be_said_leaves_nothing() {
        let mut output = Output::default();
        assert!(output.encode(Version::V10, Xid(1), &Message::GetAsyncRequest).is_err());
        assert!(output.pending() == 0 && output.front().is_empty());
    }
}
