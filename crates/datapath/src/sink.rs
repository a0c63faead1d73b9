//! From the copies that an engine sends to frames on ports.
//!
//! While one packet runs, its outputs are only noted: the port, the new header bytes (in one scratch
//! buffer) and where the payload starts in the received frame. When the run is over, each note
//! becomes a frame; the last one reuses the received frame's buffer, so that a packet that goes to
//! one port is not copied, however long its payload (64 KiB GSO frames).
//!
//! What compiled code has sent is noted likewise ([`Notes::send_all`]): copies that are as the packet is in the end are the
//! received frame, in which code has written the changes; those that were sent before it changed have their headers beside it.
//!
//! A frame whose transport checksum is left to the port (virtio-net partial checksum) keeps that
//! when its headers change: the field must then hold the sum of the new pseudo header, which is
//! written anew.
//!
//! A frame that came in at the least Ethernet length or more and that an action made shorter is
//! padded back to it, as a wire would carry it (IEEE 802.3 §4.2.3.3).

use crate::ports::{PortCell, PortFlags, PortTable};
use crate::punt::{Message, Punt, PuntRing};
use crate::repeats::Place;
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
    /// Header bytes at this place of the scratch buffer, then the received frame from `payload` on. If they are not `changed`,
    /// they are those that came in.
    Headers { start: usize, end: usize, payload: usize, changed: bool },
    /// All bytes at this place of the scratch buffer.
    Whole { start: usize, end: usize },
    /// The received frame as compiled code has left it. Behind such a copy all are like it.
    Left { shift: i32, changed: bool },
}

#[derive(Clone, Debug)]
struct Note {
    port: u32,
    queue: u32,
    content: Content,
}

/// Notes of one packet's copies.
#[derive(Default)]
pub struct Notes {
    notes: SmallVec<[Note; 4]>,
    bytes: Vec<u8>,
}

/// A copy ready to leave: the port, the queue, the frame.
pub struct OutputCopy {
    /// The port number.
    pub port: u32,
    /// The port's queue.
    pub queue: u32,
    /// The frame.
    pub frame: Frame,
}

/// What an engine writes to while one packet runs.
pub struct Collector<'a> {
    notes: &'a mut Notes,
    input: &'a [u8],
    in_port: u32,
    csum: Csum,
    now_ns: u64,
    ring: &'a PuntRing,
    notified: Notified,
    /// Digests that did not reach the ring. No frame is lost with them.
    digests_refused: u32,
}

/// What became of a packet's copies for the control side.
#[derive(Debug, Default)]
pub struct Notified {
    /// Copies that reached the ring.
    pub punted: u32,
    /// Why others did not.
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
                Some(payload) => {
                    let end = self.notes.bytes.len();
                    Content::Headers { start, end, payload, changed: true }
                }
                None => {
                    self.notes.bytes.extend_from_slice(packet.payload);
                    Content::Whole { start, end: self.notes.bytes.len() }
                }
            }
        };
        self.notes.notes.push(Note { port, queue, content });
    }

    fn punt(&mut self, punt: interp::Punt<'_>) {
        if self.admits_punt() {
            self.send_punt(&punt);
        }
    }

    fn digest(&mut self, digest: DigestId, args: &[Bits]) {
        if self.admits_digest() {
            self.send_digest(digest, args, None);
        }
    }
}

impl<'a> Collector<'a> {
    /// Notes outputs of a packet that came in as these bytes, by this port, with this checksum state; messages go to the
    /// ring.
    #[inline]
    pub fn new(
        notes: &'a mut Notes,
        (input, in_port, csum): (&'a [u8], u32, Csum),
        ring: &'a PuntRing,
        now_ns: u64,
    ) -> Collector<'a> {
        let (notified, digests_refused) = (Notified::default(), 0);
        Collector { notes, input, in_port, csum, now_ns, ring, notified, digests_refused }
    }

    /// The packet has run: counts what became of its messages, at the port that it came in by.
    #[inline]
    pub(crate) fn count(self, cell: &PortCell) -> Notified {
        let Collector { notified, digests_refused, .. } = self;
        for reason in &notified.refused {
            cell.count_drop(*reason, 1);
        }
        if notified.punted > 0 {
            cell.count_punts(u64::from(notified.punted));
        }
        if digests_refused > 0 {
            cell.count_digests_refused(u64::from(digests_refused));
        }
        notified
    }
}

impl Collector<'_> {
    /// The limit lets a copy of the packet pass. If not, that is counted.
    pub(crate) fn admits_punt(&mut self) -> bool {
        match self.ring.admit(self.in_port, self.now_ns) {
            Ok(()) => true,
            Err(reason) => {
                self.notified.refused.push(reason);
                false
            }
        }
    }

    /// Sends a copy that may pass.
    pub(crate) fn send_punt(&mut self, punt: &interp::Punt<'_>) {
        let mut bytes = [punt.packet.headers, punt.packet.payload].concat();
        if let Csum::Partial { start, offset } = self.csum {
            let shift = bytes.len() as isize - self.input.len() as isize;
            let start = usize::from(start).saturating_add_signed(shift);
            if !punt.packet.unchanged {
                pseudo_header(&mut bytes, start);
            }
            let _ =
                wire::offload::complete_partial_checksum(&mut bytes, start, usize::from(offset));
        }
        if bytes.len() < ETHERNET_MIN && self.input.len() >= ETHERNET_MIN {
            bytes.resize(ETHERNET_MIN, 0);
        }
        let message = Message::Punt(Punt {
            reason: punt.reason,
            table: punt.table,
            entry: punt.entry,
            bucket: punt.bucket,
            callers: punt.callers.to_vec(),
            args: punt.args.to_vec(),
            in_port: self.in_port,
            bytes,
        });
        match self.ring.send(self.in_port, message) {
            Ok(()) => self.notified.punted += 1,
            Err(reason) => self.notified.refused.push(reason),
        }
    }

    /// The limit lets a digest pass. If not, that is counted.
    pub(crate) fn admits_digest(&mut self) -> bool {
        let admitted = self.ring.admit(self.in_port, self.now_ns).is_ok();
        self.digests_refused += u32::from(!admitted);
        admitted
    }

    /// Sends a digest that may pass, and says whether there was room. Lanes remember what it says by this place.
    pub(crate) fn send_digest(
        &mut self,
        digest: DigestId,
        args: &[Bits],
        place: Option<Place>,
    ) -> bool {
        let message = Message::Digest { digest, args: args.to_vec(), place };
        let sent = self.ring.send(self.in_port, message).is_ok();
        self.digests_refused += u32::from(!sent);
        sent
    }
}

/// Where `payload` starts in `input`, if it is its tail (the very bytes, not equal ones).
fn payload_offset(input: &[u8], payload: &[u8]) -> Option<usize> {
    if payload.is_empty() {
        return Some(input.len());
    }
    let tail =
        input.as_ptr_range().end == payload.as_ptr_range().end && payload.len() <= input.len();
    tail.then(|| input.len() - payload.len())
}

impl Notes {
    /// Notes a copy of the frame as it is.
    pub fn send_same(&mut self, port: u32, queue: u32) {
        self.notes.push(Note { port, queue, content: Content::Same });
    }

    /// Notes all copies that compiled code has sent of a frame, which is as it came in but for what code has written.
    pub fn send_all<'c>(
        &mut self,
        frame: &Frame,
        outcome: &abi::Outcome,
        copies: impl Iterator<Item = jit::Copy<'c>>,
    ) {
        // Several copies one behind the other may have the same headers.
        let mut last: Option<(usize, Content)> = None;
        for jit::Copy { output, headers } in copies {
            let content = match (headers, &last) {
                (None, _) => Content::Left { shift: outcome.shift, changed: outcome.changed != 0 },
                (Some(headers), Some((number, content))) if headers.number == *number => {
                    content.clone()
                }
                (Some(headers), _) => {
                    let content = self.lay(&headers, frame);
                    last = Some((headers.number, content.clone()));
                    content
                }
            };
            self.notes.push(Note { port: output.port, queue: output.queue, content });
        }
    }

    fn lay(&mut self, headers: &jit::Headers<'_>, frame: &Frame) -> Content {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(headers.bytes);
        let (mut payload, mut changed) = (headers.payload, headers.changed);
        let rest = headers.received.unwrap_or(frame.data()).get(payload..).unwrap_or_default();
        let is_cut = headers.bytes.len() + rest.len() > headers.cut;
        if is_cut || headers.received.is_some() {
            // The rest is no tail of the frame.
            let room = headers.cut.saturating_sub(headers.bytes.len()).min(rest.len());
            self.bytes.extend_from_slice(&rest[..room]);
            self.bytes.truncate(start.saturating_add(headers.cut));
            (payload, changed) = (frame.len(), changed || is_cut);
        }
        Content::Headers { start, end: self.bytes.len(), payload, changed }
    }

    /// Whether nothing is noted.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Says in a packet's outcome what is noted of it, where it lies as it came in. False, with nothing done, if there
    /// is no room for that: copies with changes, too many of them, or bytes that are not in front of what came in.
    pub fn put_in(&self, packet: &mut abi::Packet<'_>) -> bool {
        let to = |note: &Note| abi::Output { port: note.port, queue: note.queue };
        if let [note] = &self.notes[..]
            && let Content::Headers { start, end, payload, changed: true } = note.content
        {
            return packet.replace_front(&self.bytes[start..end], payload, to(note));
        }
        let mut outputs = [abi::Output::default(); abi::OUTPUTS_MAX];
        let Some(outputs) = outputs.get_mut(..self.notes.len()) else { return false };
        for (output, note) in outputs.iter_mut().zip(&self.notes) {
            if !matches!(note.content, Content::Same) {
                return false;
            }
            *output = to(note);
        }
        packet.forward(outputs)
    }

    /// Nothing was noted.
    pub fn forget(&mut self) {
        self.notes.clear();
        self.bytes.clear();
    }

    /// Turns the notes into frames, in order, and forgets them. `frame` is the received one; it goes
    /// out as the last copy, or back to the pool. `drop` hears of copies that may not leave.
    pub fn finish(
        &mut self,
        mut frame: Frame,
        pool: &mut Pool,
        ports: &PortTable,
        mut drop: impl FnMut(u32, DropReason),
        mut out: impl FnMut(OutputCopy, &mut Pool),
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
        let mut left = false;
        // From the first copy on that is as code has left the frame, it is that itself.
        let mut leave = |frame: &mut Frame, shift: i32, changed: bool| {
            if !std::mem::replace(&mut left, true) {
                edit(frame, shift, changed);
            }
        };
        for note in self.notes.drain(..) {
            let copy = match note.content {
                Content::Same => pool.clone_of(&frame),
                Content::Left { shift, changed } => {
                    leave(&mut frame, shift, changed);
                    pool.clone_of(&frame)
                }
                Content::Headers { start, end, payload, changed } => {
                    let mut copy = pool.clone_of(&frame);
                    rewrite(&mut copy, &self.bytes[start..end], payload, changed);
                    copy
                }
                Content::Whole { start, end } => whole(&frame, &self.bytes[start..end], pool),
            };
            out(OutputCopy { port: note.port, queue: note.queue, frame: copy }, pool);
        }
        if let Some(note) = last {
            match note.content {
                Content::Same => {}
                Content::Left { shift, changed } => leave(&mut frame, shift, changed),
                Content::Headers { start, end, payload, changed } => {
                    rewrite(&mut frame, &self.bytes[start..end], payload, changed)
                }
                Content::Whole { start, end } => {
                    let new = whole(&frame, &self.bytes[start..end], pool);
                    pool.give(std::mem::replace(&mut frame, new));
                }
            }
            out(OutputCopy { port: note.port, queue: note.queue, frame }, pool);
        } else {
            pool.give(frame);
        }
        self.bytes.clear();
    }
}

/// Puts new headers in place of the first `payload` bytes.
fn rewrite(frame: &mut Frame, headers: &[u8], payload: usize, changed: bool) {
    let before = frame.len();
    if headers.len() < payload {
        frame.pull_front(payload - headers.len());
    } else if headers.len() > payload {
        frame.push_front(headers.len() - payload);
    }
    frame.data_mut()[..headers.len()].copy_from_slice(headers);
    if changed {
        mend(frame, before);
    }
}

/// Makes the frame what compiled code has made of its bytes, which are edited already.
#[inline]
pub(crate) fn edit(frame: &mut Frame, shift: i32, changed: bool) {
    let before = frame.len();
    match shift {
        0 => {}
        // The bytes are there: they were written into the headroom.
        shift if shift < 0 => {
            frame.push_front(shift.unsigned_abs() as usize);
        }
        shift => frame.pull_front(shift.unsigned_abs() as usize),
    }
    if changed {
        mend(frame, before);
    }
}

fn whole(frame: &Frame, bytes: &[u8], pool: &mut Pool) -> Frame {
    let mut copy = pool.copy_of(bytes);
    copy.copy_metadata(frame);
    let by = bytes.len() as isize - frame.len() as isize;
    // Headers that come or go move the transport header; a payload that a service made longer or shorter does not.
    let stays = |start: u16| wire::layers::Layers::of(bytes).l4 == Some(start.into());
    match frame.offload.csum {
        Csum::Partial { start, .. } if by != 0 && stays(start) => {}
        _ => copy.offload.shift(by),
    }
    mend(&mut copy, frame.len());
    copy
}

/// Mends a frame whose bytes were changed and which had `before` of them: the sum of the pseudo header
/// where the checksum is left to the port, and the least length.
pub fn mend(frame: &mut Frame, before: usize) {
    if let Csum::Partial { start, .. } = frame.offload.csum {
        pseudo_header(frame.data_mut(), start.into());
    }
    if frame.len() < ETHERNET_MIN && before >= ETHERNET_MIN {
        frame.set_len(ETHERNET_MIN);
    }
}

/// Writes the sum of the pseudo header anew for a checksum that is left to the port and starts at
/// `start`. Where the outermost transport header is another one (the frame was put into a tunnel) or
/// none (it is not IP any more), there is nothing to mend.
fn pseudo_header(bytes: &mut [u8], start: usize) {
    if wire::layers::Layers::of(bytes).l4 == Some(start) {
        let _ = wire::offload::pseudo_header_partial(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::PortShared;
    use crate::punt::{self, PuntReceiver};
    use interp::Sink;
    use ir::PuntReason;
    use std::sync::Arc;
    use testkit::packet::Udp;

    #[test]
    fn a_partial_checksum_stays_in_its_place_where_the_payload_grows_and_moves_with_headers() {
        let mut pool = Pool::new();
        let udp = Udp::default().frame();
        let mut frame = Frame::copy_of(&udp);
        let place = wire::pseudo_header_partial(frame.data_mut()).unwrap();
        frame.offload.csum = Csum::Partial { start: place.start, offset: place.offset };
        let completed = |frame: &Frame| {
            let Csum::Partial { start, offset } = frame.offload.csum else { panic!("partial") };
            let mut bytes = frame.data().to_vec();
            wire::complete_partial_checksum(&mut bytes, start.into(), offset.into()).unwrap();
            let mut right = bytes.clone();
            wire::offload::fill_checksums(&mut right).unwrap();
            assert_eq!(bytes, right);
            start
        };
        for by in [-2isize, 0, 6] {
            // As a service leaves it: lengths and the header's checksum follow, the sum of the pseudo-header too.
            let mut bytes = frame.data().to_vec();
            bytes.resize((udp.len() as isize + by) as usize, 7);
            let len = (bytes.len() - 14) as u16;
            bytes[16..18].copy_from_slice(&len.to_be_bytes());
            bytes[38..40].copy_from_slice(&(len - 20).to_be_bytes());
            wire::ipv4::Packet::new_header_checked(&mut bytes[14..]).unwrap().fill_checksum();
            assert_eq!(completed(&whole(&frame, &bytes, &mut pool)), place.start, "{by}");
            let tagged = [&bytes[..12], &[0x81, 0, 0, 5], &bytes[12..]].concat();
            if by == 0 {
                assert_eq!(completed(&whole(&frame, &tagged, &mut pool)), place.start + 4);
            }
        }
    }

    struct Bench {
        ports: PortTable,
        pool: Pool,
        notes: Notes,
        ring: PuntRing,
        punts: PuntReceiver,
    }

    /// What came of one packet: copies by port, and what was refused.
    type Came = (Vec<(u32, Frame)>, Vec<(u32, DropReason)>);

    impl Bench {
        fn new() -> Bench {
            let mut ports = PortTable::default();
            for (number, flags) in [
                (1, PortFlags::UP),
                (2, PortFlags::UP),
                (3, 0),
                (4, PortFlags::UP | PortFlags::NO_FORWARD),
            ] {
                ports.insert(Arc::new(PortShared::new(number, "p", flags, 1)));
            }
            let (ring, punts) = punt::ring(1000);
            Bench { ports, pool: Pool::new(), notes: Notes::default(), ring, punts }
        }

        /// Runs `emit` as an engine would on `frame`, then finishes.
        fn run(&mut self, frame: Frame, emit: impl FnOnce(&[u8], &mut Collector<'_>)) -> Came {
            let received = (frame.data(), 1, frame.offload.csum);
            let mut collector = Collector::new(&mut self.notes, received, &self.ring, 0);
            emit(frame.data(), &mut collector);
            let (mut out, mut refused) = (Vec::new(), Vec::new());
            let drop = |port, reason| refused.push((port, reason));
            let keep = |o: OutputCopy, _: &mut Pool| out.push((o.port, o.frame));
            self.notes.finish(frame, &mut self.pool, &self.ports, drop, keep);
            (out, refused)
        }
    }

    fn changed<'a>(headers: &'a [u8], payload: &'a [u8]) -> Packet<'a> {
        Packet { headers, payload, unchanged: false }
    }

    fn same(input: &[u8]) -> Packet<'_> {
        Packet { headers: input, payload: &[], unchanged: true }
    }

    fn bytes(out: &[(u32, Frame)]) -> Vec<(u32, &[u8])> {
        out.iter().map(|(port, frame)| (*port, frame.data())).collect()
    }

    #[test]
    fn the_only_copy_is_the_received_buffer() {
        let mut bench = Bench::new();
        let frame = Frame::copy_of(&[7; 3000]);
        let at = frame.data().as_ptr();
        let (out, _) = bench.run(frame, |input, c| c.output(1, 0, same(input)));
        assert_eq!(out[0].1.data().as_ptr(), at);
        let (frame, _) = out.into_iter().map(|(_, f)| (f, ())).next().unwrap();
        // Four bytes more in front: the payload stays where it is.
        let payload = frame.data()[100..].as_ptr();
        let (out, _) =
            bench.run(frame, |input, c| c.output(2, 0, changed(&[9; 104], &input[100..])));
        assert_eq!(out[0].1.len(), 3004);
        assert_eq!(out[0].1.data()[104..].as_ptr(), payload);
        assert_eq!((out[0].1.data()[103], out[0].1.data()[104]), (9, 7));
    }

    #[test]
    fn every_copy_has_its_own_bytes_in_order() {
        let mut bench = Bench::new();
        let input: Vec<u8> = (0..100).collect();
        let (out, refused) = bench.run(Frame::copy_of(&input), |i, c| {
            c.output(1, 0, changed(&[1; 10], &i[20..]));
            c.output(2, 0, same(i));
            c.output(9, 0, same(i));
            c.output(3, 0, same(i));
            c.output(4, 0, same(i));
            c.output(1, 0, changed(&[2; 50], &i[20..]));
            // Not a tail of the input: all of it is taken over.
            c.output(2, 0, changed(&[3; 60], &i[20..30]));
            c.output(1, 0, changed(&[4; 80], &[]));
            c.output(2, 0, changed(&[5; 30], &i[30..]));
        });
        let with = |head: &[u8], tail: &[u8]| [head, tail].concat();
        let expected = [
            (1, with(&[1; 10], &input[20..])),
            (2, input.clone()),
            (1, with(&[2; 50], &input[20..])),
            (2, with(&[3; 60], &input[20..30])),
            (1, vec![4; 80]),
            (2, with(&[5; 30], &input[30..])),
        ];
        let expected: Vec<(u32, &[u8])> = expected.iter().map(|(p, b)| (*p, &b[..])).collect();
        assert_eq!(bytes(&out), expected);
        use DropReason::{PortDown, PortNoForward, PortUnknown};
        assert_eq!(refused, [(9, PortUnknown), (3, PortDown), (4, PortNoForward)]);
        // Nothing is left for the next packet.
        let (out, refused) = bench.run(Frame::copy_of(&input), |_, _| {});
        assert!(out.is_empty() && refused.is_empty());
    }

    #[test]
    fn a_frame_made_too_short_is_padded_and_a_runt_is_not() {
        let mut bench = Bench::new();
        let (out, _) = bench.run(Frame::copy_of(&[0xff; 64]), |i, c| {
            c.output(1, 0, changed(&[1; 10], &i[18..]));
            c.output(2, 0, changed(&[1; 10], &i[18..]));
        });
        for (_, frame) in &out {
            assert_eq!(frame.len(), ETHERNET_MIN);
            assert_eq!(frame.data()[10..56], [0xff; 46]);
            assert_eq!(frame.data()[56..], [0; 4]);
        }
        let runt = Frame::copy_of(&[0xff; 30]);
        let (out, _) = bench.run(runt, |i, c| c.output(1, 0, changed(&[1; 10], &i[20..])));
        assert_eq!(out[0].1.len(), 20);
        let (out, _) = bench.run(Frame::copy_of(&[]), |i, c| c.output(1, 0, changed(&[1; 2], i)));
        assert_eq!(out[0].1.data(), [1, 1]);
    }

    fn partial(frame: &Udp) -> Frame {
        let (bytes, place) = frame.partial();
        let mut frame = Frame::copy_of(&bytes);
        frame.offload.csum = Csum::Partial { start: place.start, offset: place.offset };
        frame
    }

    fn complete(frame: &Frame) -> Vec<u8> {
        let mut bytes = frame.data().to_vec();
        let Csum::Partial { start, offset } = frame.offload.csum else {
            panic!("still to be done")
        };
        wire::complete_partial_checksum(&mut bytes, start.into(), offset.into()).unwrap();
        bytes
    }

    #[test]
    fn a_checksum_left_to_the_port_follows_the_headers() {
        let mut bench = Bench::new();
        let before = Udp::default();
        let after = Udp { vlans: vec![5], dst: [192, 0, 2, 1], dst_port: 99, ..Udp::default() };
        let whole = after.frame();
        // The pipeline's own idea of the checksum does not matter.
        let mut headers = whole[..14 + 4 + 20 + 8].to_vec();
        headers[44..46].copy_from_slice(&[0xde, 0xad]);
        let (out, _) = bench.run(partial(&before), |i, c| {
            c.output(1, 0, changed(&headers, &i[42..]));
            c.output(2, 0, same(i));
            c.output(1, 0, changed(&headers, &i[42..]));
        });
        assert_eq!(complete(&out[0].1), whole);
        assert_eq!(complete(&out[1].1), before.frame());
        assert_eq!(complete(&out[2].1), whole);
    }

    #[test]
    fn a_checksum_inside_of_a_tunnel_is_not_mixed_up_with_the_tunnels() {
        let mut bench = Bench::new();
        let inner = Udp::default();
        let outer = Udp { payload: inner.partial().0, ..Udp::default() };
        let mut headers = outer.frame()[..42].to_vec();
        let (out, _) = bench.run(partial(&inner), |i, c| c.output(1, 0, changed(&headers, i)));
        let frame = &out[0].1;
        assert_eq!(frame.data()[..42], headers);
        assert_eq!(frame.offload.csum, Csum::Partial { start: 76, offset: 6 });
        headers.extend(inner.frame());
        assert_eq!(complete(frame), headers);
    }

    fn punt(packet: Packet<'_>) -> interp::Punt<'_> {
        let (table, entry, bucket) = (None, None, None);
        let (reason, args, callers) = (PuntReason::Action, &[], &[]);
        interp::Punt { reason, table, entry, bucket, callers, args, packet }
    }

    #[test]
    fn punted_copies_have_complete_checksums() {
        let mut bench = Bench::new();
        let before = Udp::default();
        let after = Udp { vlans: vec![5], src: [192, 0, 2, 1], ..Udp::default() };
        let headers = &after.frame()[..46];
        bench.run(partial(&before), |i, c| {
            c.punt(punt(same(i)));
            c.punt(punt(changed(headers, &i[42..])));
            assert_eq!((c.notified.punted, c.notified.refused.len()), (2, 0));
        });
        for right in [before.frame(), after.frame()] {
            let Some(Message::Punt(punt)) = bench.punts.try_recv() else { panic!("punted") };
            assert_eq!(punt.bytes, right);
        }
    }

    #[test]
    fn refused_punts_say_why_and_refused_digests_are_no_drops() {
        let mut bench = Bench::new();
        bench.run(Frame::copy_of(&[1; 60]), |i, c| {
            (0..150).for_each(|_| c.digest(DigestId(1), &[]));
            assert_eq!((c.digests_refused, c.notified.refused.len()), (50, 0));
            (0..3).for_each(|_| c.punt(punt(same(i))));
            assert_eq!((c.notified.punted, c.digests_refused), (0, 50));
            assert_eq!(c.notified.refused[..], [DropReason::PuntRateLimit; 3]);
        });
    }
}
