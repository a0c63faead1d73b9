//! From the copies that an engine sends to frames on ports.
//!
//! While one packet runs, its outputs are only noted: the port, the new header bytes (in one scratch
//! buffer) and where the payload starts in the received frame. When the run is over, each note
//! becomes a frame; the last one reuses the received frame's buffer, so that a packet that goes to
//! one port is not copied, however long its payload (64 KiB GSO frames).
//!
//! A frame whose transport checksum is left to the port (virtio-net partial checksum) keeps that
//! when its headers change: the field must then hold the sum of the new pseudo header, which is
//! written anew.
//!
//! A frame that came in at the least Ethernet length or more and that an action made shorter is
//! padded back to it, as a wire would carry it (IEEE 802.3 §4.2.3.3).

use crate::ports::{PortFlags, PortTable};
use crate::punt::{Message, Punt, PuntRing};
use interp::Packet;
use ir::{Bits, DigestId, DropReason};
use port::{Csum, Frame, Pool};
use smallvec::SmallVec;

/// Least length of an Ethernet frame without its checksum, in bytes.
pub const ETHERNET_MIN: usize = 60;

/// Where the bytes of a noted copy come from.
#[derive(Clone, Debug)]
enum Content {
    /// The received frame as it is.
    Same,
    /// Header bytes at this place of the scratch buffer, then the received frame from `payload` on.
    Headers {
        start: usize,
        end: usize,
        payload: usize,
    },
    /// All bytes at this place of the scratch buffer.
    Whole { start: usize, end: usize },
}

#[derive(Clone, Debug)]
struct Note {
    port: u32,
    queue: u32,
    content: Content,
}

/// Notes of one packet's copies, and what the control side is told of it.
#[derive(Default)]
pub struct Notes {
    notes: SmallVec<[Note; 4]>,
    bytes: Vec<u8>,
}

/// A copy ready to leave: the port, the queue, the frame.
pub struct Outgoing {
    /// The port number.
    pub port: u32,
    /// The port's queue.
    pub queue: u32,
    /// The frame.
    pub frame: Frame,
}

/// What an engine writes to while one packet runs.
pub struct Collector<'a> {
    /// Where outputs are noted.
    pub notes: &'a mut Notes,
    /// The received bytes.
    pub input: &'a [u8],
    /// The port they came in by.
    pub in_port: u32,
    /// The received frame's checksum state.
    pub csum: Csum,
    /// The time, in nanoseconds.
    pub now_ns: u64,
    /// The ring to the control side.
    pub ring: &'a PuntRing,
    /// Copies that reached the ring.
    pub punted: u32,
    /// Why copies did not.
    pub refused: SmallVec<[DropReason; 1]>,
}

impl interp::Sink for Collector<'_> {
    fn output(&mut self, port: u32, queue: u32, packet: Packet<'_>) {
        let content = if packet.unchanged {
            Content::Same
        } else {
            let start = self.notes.bytes.len();
            self.notes.bytes.extend_from_slice(packet.headers);
            match payload_offset(self.input, packet.payload) {
                Some(payload) => Content::Headers { start, end: self.notes.bytes.len(), payload },
                None => {
                    self.notes.bytes.extend_from_slice(packet.payload);
                    Content::Whole { start, end: self.notes.bytes.len() }
                }
            }
        };
        self.notes.notes.push(Note { port, queue, content });
    }

    fn punt(&mut self, punt: interp::Punt<'_>) {
        if let Err(reason) = self.ring.admit(self.now_ns) {
            return self.refused.push(reason);
        }
        let mut bytes = [punt.packet.headers, punt.packet.payload].concat();
        if let Csum::Partial { start, offset } = self.csum {
            let shift = bytes.len() as isize - self.input.len() as isize;
            let start = usize::from(start).saturating_add_signed(shift);
            if !punt.packet.unchanged {
                // Not an IP frame any more, perhaps: then there is nothing to mend.
                let _ = wire::offload::pseudo_header_partial(&mut bytes);
            }
            let _ = wire::offload::complete_partial_checksum(&mut bytes, start, usize::from(offset));
        }
        let message = Message::Punt(Punt {
            reason: punt.reason,
            table: punt.table,
            entry: punt.entry,
            args: punt.args.to_vec(),
            in_port: self.in_port,
            bytes,
        });
        match self.ring.send(message) {
            Ok(()) => self.punted += 1,
            Err(reason) => self.refused.push(reason),
        }
    }

    fn digest(&mut self, digest: DigestId, args: &[Bits]) {
        let sent = self
            .ring
            .admit(self.now_ns)
            .and_then(|()| self.ring.send(Message::Digest { digest, args: args.to_vec() }));
        if let Err(reason) = sent {
            self.refused.push(reason);
        }
    }
}

/// Where `payload` starts in `input`, if it is its tail (the very bytes, not equal ones).
fn payload_offset(input: &[u8], payload: &[u8]) -> Option<usize> {
    if payload.is_empty() {
        return Some(input.len());
    }
    let tail = input.as_ptr_range().end == payload.as_ptr_range().end && payload.len() <= input.len();
    tail.then(|| input.len() - payload.len())
}

impl Notes {
    /// Turns the notes into frames, in order, and forgets them. `frame` is the received one; it goes
    /// out as the last copy, or back to the pool. `drop` is told of copies that may not leave.
    pub fn finish(
        &mut self,
        mut frame: Frame,
        pool: &mut Pool,
        ports: &PortTable,
        mut drop: impl FnMut(u32, DropReason),
        mut out: impl FnMut(Outgoing, &mut Pool),
    ) {
        let mut refuse = |note: &Note| -> bool {
            let reason = match ports.get(note.port).map(|p| p.flags()) {
                None => DropReason::PortUnknown,
                Some(flags) if flags.has(PortFlags::NO_FORWARD) => DropReason::PortNoForward,
                Some(flags) if !flags.has(PortFlags::UP) => DropReason::PortDown,
                Some(_) => return false,
            };
            drop(note.port, reason);
            true
        };
        self.notes.retain(|note| !refuse(note));
        let last = self.notes.pop();
        for note in self.notes.drain(..) {
            let copy = match note.content {
                Content::Same => pool.clone_of(&frame),
                Content::Headers { start, end, payload } => {
                    let mut copy = pool.clone_of(&frame);
                    rewrite(&mut copy, &self.bytes[start..end], payload);
                    copy
                }
                Content::Whole { start, end } => whole(&frame, &self.bytes[start..end], pool),
            };
            out(Outgoing { port: note.port, queue: note.queue, frame: copy }, pool);
        }
        if let Some(note) = last {
            match note.content {
                Content::Same => {}
                Content::Headers { start, end, payload } => rewrite(&mut frame, &self.bytes[start..end], payload),
                Content::Whole { start, end } => {
                    let new = whole(&frame, &self.bytes[start..end], pool);
                    pool.give(std::mem::replace(&mut frame, new));
                }
            }
            out(Outgoing { port: note.port, queue: note.queue, frame }, pool);
        } else {
            pool.give(frame);
        }
        self.bytes.clear();
    }
}

/// Puts new headers in place of the first `payload` bytes.
fn rewrite(frame: &mut Frame, headers: &[u8], payload: usize) {
    let before = frame.len();
    if headers.len() < payload {
        frame.pull_front(payload - headers.len());
    } else if headers.len() > payload {
        frame.push_front(headers.len() - payload);
    }
    frame.data_mut()[..headers.len()].copy_from_slice(headers);
    mend(frame, before);
}

fn whole(frame: &Frame, bytes: &[u8], pool: &mut Pool) -> Frame {
    let mut copy = pool.copy_of(bytes);
    copy.copy_metadata(frame);
    copy.offload.shift(bytes.len() as isize - frame.len() as isize);
    mend(&mut copy, frame.len());
    copy
}

fn mend(frame: &mut Frame, before: usize) {
    if let Csum::Partial { .. } = frame.offload.csum {
        // Not an IP frame any more, perhaps: then there is nothing to mend.
        let _ = wire::offload::pseudo_header_partial(frame.data_mut());
    }
    if frame.len() < ETHERNET_MIN && before >= ETHERNET_MIN {
        frame.set_len(ETHERNET_MIN);
    }
}
