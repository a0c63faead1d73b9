//! One frame: an owned buffer with headroom, and what came with it.
//!
//! The bytes sit somewhere in the middle of the buffer; headers are pushed into the room before
//! them and pulled from their start without moving the rest. When the room is used up the bytes
//! move, at worst into a larger buffer: no operation fails for lack of room.
//!
//! Two sizes of buffer serve all traffic: [`SMALL_BYTES`] for what a wire carries, [`BIG_BYTES`]
//! for frames that stand for many segments. A driver with buffers of its own lends them in the heap's
//! place ([`Frame::borrowed`]); nobody notices but the port that takes the buffer back
//! ([`Frame::reclaim`]).
//!
//! Invariant: `start + len <= buffer length`.
//! Cost: a new buffer is an allocation and a clearing; a recycled one (see [`Pool`](crate::Pool)),
//! a pop.

use std::ptr::NonNull;

use crate::offload::{Csum, Offload};
use crate::sys::buffer::Buffer;
pub use crate::sys::buffer::{BufferOwner, Mbuf};

/// Room kept before the bytes of a fresh frame, in bytes.
pub const HEADROOM: usize = 128;
/// A small buffer, headroom included, in bytes.
pub const SMALL_BYTES: usize = 2048;
/// A big buffer, headroom included: 64 KiB of IP datagram, and room for headers, in bytes.
pub const BIG_BYTES: usize = 68 * 1024;
/// The longest frame that fits a small buffer behind its headroom, in bytes.
pub const SMALL_LEN_MAX: usize = SMALL_BYTES - HEADROOM;
/// The longest frame that fits a big buffer behind its headroom, in bytes.
pub const BIG_LEN_MAX: usize = BIG_BYTES - HEADROOM;

/// One frame: a cache line.
///
/// Dropping it frees its memory; [`Pool::give`](crate::Pool::give) recycles it.
#[repr(align(64))]
pub struct Frame {
    buffer: Buffer,
    start: u32,
    len: u32,
    /// The port it came in by, as the worker numbers its ports; 0 until somebody says.
    pub rx_port: u32,
    /// When it came in: nanoseconds since the Unix epoch, or of a virtual clock; 0 if unknown.
    pub rx_ns: u64,
    /// What it still owes.
    pub offload: Offload,
}

const _: () = assert!(size_of::<Frame>() == 64);

/// A borrowed buffer that goes back to its owner, and the frame that is in it.
#[derive(Clone, Copy, Debug)]
pub struct Reclaimed {
    /// What the owner knows the buffer by.
    pub token: NonNull<()>,
    /// Bytes of the buffer before the frame.
    pub start: usize,
    /// The frame's bytes.
    pub len: usize,
    /// The frame begins elsewhere, or is of another length, than when the buffer was borrowed.
    pub edited: bool,
}

impl Frame {
    /// An empty frame with a buffer for `len` bytes behind the usual headroom. Prefer
    /// [`Pool::take`](crate::Pool::take) where a pool is at hand.
    pub fn with_room(len: usize) -> Frame {
        Frame::from_buffer(Buffer::zeroed(buffer_bytes(len)))
    }

    /// A frame with a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Frame {
        let mut frame = Frame::with_room(bytes.len());
        frame.replace(bytes);
        frame
    }

    /// An empty frame in a given buffer.
    pub(crate) fn from_buffer(buffer: Buffer) -> Frame {
        let start = HEADROOM.min(buffer.len()) as u32;
        Frame { buffer, start, ..Frame::hollow() }
    }

    /// The buffer, for the pool.
    #[inline]
    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// A frame of `len` bytes that begin `start` bytes into a borrowed buffer of `buffer_len` bytes from
    /// `buffer` on, which `owner` knows by `token`. Whoever drops the frame, or moves its bytes for
    /// want of room, releases the buffer.
    ///
    /// # Safety
    /// The buffer is initialised memory that any thread may read and write, and nobody else touches
    /// it until it was released or reclaimed. `start + len <= buffer_len`.
    #[allow(unsafe_code)]
    #[inline]
    pub unsafe fn borrowed(
        owner: &'static BufferOwner,
        token: NonNull<()>,
        buffer: NonNull<u8>,
        buffer_len: u16,
        start: u16,
        len: u16,
    ) -> Frame {
        // SAFETY: the caller's promise.
        let buffer = unsafe { Buffer::borrowed(owner, token, buffer, buffer_len, (start, len)) };
        Frame { buffer, start: start.into(), len: len.into(), ..Frame::hollow() }
    }

    /// A frame that is still where it was borrowed.
    pub(crate) fn borrowed_in(buffer: Buffer, csum: Csum) -> Frame {
        let (start, len) = buffer.borrowed_as();
        let offload = Offload { csum, gso: None };
        Frame { buffer, start: start.into(), len: len.into(), offload, ..Frame::hollow() }
    }

    /// Makes a hollow frame, where it lies, one as [`borrowed`](Self::borrowed) would make.
    ///
    /// # Safety
    /// As for [`borrowed`](Self::borrowed).
    #[allow(unsafe_code)]
    #[inline]
    pub unsafe fn borrow(
        &mut self,
        owner: &'static BufferOwner,
        token: NonNull<()>,
        buffer: NonNull<u8>,
        buffer_len: u16,
        start: u16,
        len: u16,
    ) {
        debug_assert!(self.is_hollow(), "only a hollow frame can be borrowed a buffer");
        (self.rx_port, self.rx_ns, self.offload) = (0, 0, Offload::NONE);
        // SAFETY: the caller's promise.
        let borrowed = unsafe { Buffer::borrowed(owner, token, buffer, buffer_len, (start, len)) };
        // What was there needs no end, as it was hollow.
        std::mem::forget(std::mem::replace(&mut self.buffer, borrowed));
        (self.start, self.len) = (start.into(), len.into());
    }

    /// Whether its buffer is borrowed from `owner`.
    #[inline]
    pub fn is_borrowed_from(&self, owner: &'static BufferOwner) -> bool {
        self.buffer.is_borrowed_from(owner)
    }

    /// Hands a borrowed buffer back to its owner without a release. The frame is hollow then. `None`,
    /// and nothing happens, if its buffer is another's.
    #[inline]
    pub fn reclaim(&mut self, owner: &'static BufferOwner) -> Option<Reclaimed> {
        let (at, held) = self.buffer.borrowed_as();
        let token = self.buffer.reclaim(owner)?;
        let edited = (self.start, self.len) != (at.into(), held.into());
        let (start, len) = (self.start(), self.len());
        self.set(0, 0);
        Some(Reclaimed { token, start, len, edited })
    }

    /// A frame without a buffer, to stand where one was taken away.
    #[inline]
    pub const fn hollow() -> Frame {
        let buffer = Buffer::hollow();
        Frame { buffer, start: 0, len: 0, rx_port: 0, rx_ns: 0, offload: Offload::NONE }
    }

    /// Whether it has no buffer.
    #[inline]
    pub fn is_hollow(&self) -> bool {
        self.buffer.is_hollow()
    }

    /// Takes the frame out and leaves a hollow one.
    #[inline]
    pub fn take(&mut self) -> Frame {
        std::mem::replace(self, Frame::hollow())
    }

    /// The bytes, from the Ethernet header on.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.buffer[self.start()..self.end()]
    }

    /// The bytes, to be changed in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let (start, end) = (self.start(), self.end());
        &mut self.buffer[start..end]
    }

    /// How many bytes, from the Ethernet header on.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn start(&self) -> usize {
        self.start as usize
    }

    #[inline]
    fn end(&self) -> usize {
        self.start as usize + self.len as usize
    }

    /// Both lie within the buffer, which has less than 4 GiB.
    #[inline]
    fn set(&mut self, start: usize, len: usize) {
        (self.start, self.len) = (start as u32, len as u32);
    }

    /// Room before the bytes.
    pub fn headroom(&self) -> usize {
        self.start as usize
    }

    /// Room behind the bytes.
    pub fn tailroom(&self) -> usize {
        self.buffer.len() - self.end()
    }

    /// The size of the buffer, headroom included.
    pub fn buffer_len(&self) -> usize {
        self.buffer.len()
    }

    /// The whole buffer, where in it the bytes begin, and how many they are.
    #[inline]
    pub fn parts_mut(&mut self) -> (&mut [u8], usize, usize) {
        let (start, len) = (self.start(), self.len());
        (&mut self.buffer, start, len)
    }

    /// Puts `n` bytes before the others and returns them; their content is arbitrary. The offload
    /// shifts with them.
    #[inline]
    pub fn push_front(&mut self, n: usize) -> &mut [u8] {
        if n > self.start() {
            self.make_room(n + HEADROOM, 0);
        }
        let start = self.start() - n;
        self.set(start, self.len() + n);
        self.offload.shift(isize::try_from(n).unwrap_or(isize::MAX));
        &mut self.buffer[start..start + n]
    }

    /// Removes the first `n` bytes (all, if there are fewer). The offload shifts with them.
    #[inline]
    pub fn pull_front(&mut self, n: usize) {
        let n = n.min(self.len());
        self.set(self.start() + n, self.len() - n);
        self.offload.shift(-isize::try_from(n).unwrap_or(isize::MAX));
    }

    /// Keeps the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.set(self.start(), self.len().min(len));
    }

    /// Makes it `len` bytes long; new bytes at the end are zero.
    pub fn set_len(&mut self, len: usize) {
        if len > self.len() {
            let more = len - self.len();
            self.make_tailroom(more);
            let end = self.end();
            self.buffer[end..end + more].fill(0);
        }
        self.set(self.start(), len);
    }

    /// Appends `bytes`.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.make_tailroom(bytes.len());
        let end = self.end();
        self.buffer[end..end + bytes.len()].copy_from_slice(bytes);
        self.set(self.start(), self.len() + bytes.len());
    }

    /// Makes `bytes` its content, with the usual headroom. The offload stays as it is: whoever
    /// moved the transport header calls [`Offload::shift`].
    pub fn replace(&mut self, bytes: &[u8]) {
        if self.buffer.len() < HEADROOM + bytes.len() {
            self.buffer = Buffer::zeroed(buffer_bytes(bytes.len()));
        }
        self.set(HEADROOM, bytes.len());
        self.buffer[HEADROOM..HEADROOM + bytes.len()].copy_from_slice(bytes);
    }

    /// Forgets bytes, offload and origin; what the pool hands out.
    pub fn reset(&mut self) {
        self.set(HEADROOM.min(self.buffer.len()), 0);
        self.rx_port = 0;
        self.rx_ns = 0;
        self.offload = Offload::NONE;
    }

    /// The whole room behind the headroom, for a reader that learns the length afterwards and then
    /// calls [`set_filled`](Frame::set_filled). Content arbitrary; the frame is emptied.
    pub fn room_mut(&mut self) -> &mut [u8] {
        self.set(HEADROOM.min(self.buffer.len()), 0);
        let start = self.start();
        &mut self.buffer[start..]
    }

    /// Declares the first `len` bytes of the room filled (at most what there is).
    pub fn set_filled(&mut self, len: usize) {
        self.set(self.start(), len.min(self.buffer.len() - self.start()));
    }

    /// Copies port, time and offload from another frame.
    pub fn copy_metadata(&mut self, other: &Frame) {
        self.rx_port = other.rx_port;
        self.rx_ns = other.rx_ns;
        self.offload = other.offload;
    }

    fn make_tailroom(&mut self, more: usize) {
        if more > self.tailroom() {
            self.make_room(HEADROOM, more);
        }
    }

    /// Moves the bytes so that at least `front` bytes are before and `back` behind them.
    fn make_room(&mut self, front: usize, back: usize) {
        let (at, len) = (self.start(), self.len());
        let wanted = front + len + back;
        if wanted <= self.buffer.len() {
            self.buffer.copy_within(at..at + len, front);
        } else {
            let mut buffer = Buffer::zeroed(buffer_bytes(wanted));
            buffer[front..front + len].copy_from_slice(self.data());
            self.buffer = buffer;
        }
        self.set(front, len);
    }
}

/// A copy of its own, metadata included.
impl Clone for Frame {
    fn clone(&self) -> Frame {
        let mut frame = Frame::copy_of(self.data());
        frame.copy_metadata(self);
        frame
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = &self.data()[..self.len().min(64)];
        f.debug_struct("Frame")
            .field("len", &self.len)
            .field("rx_port", &self.rx_port)
            .field("rx_ns", &self.rx_ns)
            .field("offload", &self.offload)
            .field("data", &format_args!("{shown:02x?}"))
            .finish()
    }
}

/// The buffer for a frame of `len` bytes: small, big, or made to measure.
fn buffer_bytes(len: usize) -> usize {
    if len <= SMALL_LEN_MAX {
        SMALL_BYTES
    } else if len <= BIG_LEN_MAX {
        BIG_BYTES
    } else {
        len + HEADROOM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_with_headroom() {
        let frame = Frame::copy_of(&[1, 2, 3]);
        assert_eq!(frame.data(), [1, 2, 3]);
        assert_eq!((frame.headroom(), frame.buffer_len()), (HEADROOM, SMALL_BYTES));
        assert_eq!(Frame::copy_of(&[0; SMALL_LEN_MAX]).buffer_len(), SMALL_BYTES);
        assert_eq!(Frame::copy_of(&[0; SMALL_LEN_MAX + 1]).buffer_len(), BIG_BYTES);
        assert!(Frame::copy_of(&[7; BIG_LEN_MAX + 1]).data().iter().all(|&b| b == 7));
    }

    #[test]
    fn pushes_and_pulls_beyond_the_headroom() {
        let mut frame = Frame::copy_of(b"payload");
        frame.offload.csum = Csum::Partial { start: 2, offset: 0 };
        for round in 0..100u8 {
            frame.push_front(50).fill(round);
        }
        assert_eq!(frame.len(), 5007);
        assert_eq!(frame.offload.csum, Csum::Partial { start: 5002, offset: 0 });
        assert_eq!(&frame.data()[5000..], b"payload");
        assert!(frame.data()[..50].iter().all(|&b| b == 99));
        frame.pull_front(5000);
        assert_eq!(frame.data(), b"payload");
        assert_eq!(frame.offload.csum, Csum::Partial { start: 2, offset: 0 });
        frame.pull_front(100);
        assert!(frame.is_empty());
        assert_eq!(frame.offload.csum, Csum::None);
    }

    #[test]
    fn lengthens_with_zeros() {
        let mut frame = Frame::copy_of(&[0xff; 100]);
        frame.truncate(10);
        frame.set_len(60);
        assert!(frame.data()[10..].iter().all(|&b| b == 0));
        frame.set_len(3000);
        assert_eq!(frame.len(), 3000);
        assert_eq!(&frame.data()[..10], &[0xff; 10]);
        frame.truncate(5000);
        assert_eq!(frame.len(), 3000);
    }

    /// Random operations on a frame and on a plain vector.
    #[test]
    fn behaves_as_a_vector() {
        let mut random = crate::prng::Prng::new(7);
        for _ in 0..200 {
            let mut frame = Frame::copy_of(&[]);
            let mut model: Vec<u8> = Vec::new();
            for _ in 0..40 {
                let n = random.below(900) as usize;
                let byte = random.below(256) as u8;
                match random.below(6) {
                    0 => {
                        frame.push_front(n).fill(byte);
                        model.splice(0..0, std::iter::repeat_n(byte, n));
                    }
                    1 => {
                        frame.pull_front(n);
                        model.drain(..n.min(model.len()));
                    }
                    2 => {
                        frame.extend(&vec![byte; n]);
                        model.extend(std::iter::repeat_n(byte, n));
                    }
                    3 => {
                        frame.truncate(n);
                        model.truncate(n);
                    }
                    4 => {
                        frame.set_len(n);
                        model.resize(n, 0);
                    }
                    _ => {
                        frame.replace(&vec![byte; n]);
                        model = vec![byte; n];
                    }
                }
                assert_eq!(frame.data(), model);
            }
        }
    }
}
