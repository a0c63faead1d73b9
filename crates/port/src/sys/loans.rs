//! Frames that are known by their lender's tokens alone.
//!
//! A driver that keeps beside its buffers what there is to say of a frame (DPDK's mbufs do) need not have
//! it copied: the shortest way through a worker carries pointers. [`Loans`] is a burst of them as it has come in,
//! each shown to generated code as an [`abi::Packet`] in the same pass in which the driver looks at it; [`Batch`] is
//! what is gathered for a port, over several bursts if that is worth while.
//!
//! Invariant: all tokens in a list are of its lender, point to [`Native`]s, and each stands for a buffer that
//! nobody else has; within it lies the frame. An empty list may have any lender. The first packets of a burst are its
//! frames as they came in, one for each, and where they lie only as long as nobody has dealt them.
#![allow(unsafe_code)]

use super::buffer::{Buffer, Lender, Native};
use crate::{BURST_MAX, Burst, Csum, Frame};
use abi::{Outcome, Packet, status};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

const _: () = assert!(BURST_MAX == abi::BURST_MAX);

/// Frames in a [`Batch`], at most.
pub const BATCH_MAX: usize = 2 * BURST_MAX;
/// How many batches there are to [deal](Loans::deal) into, so that any place of eight bits is one.
pub const PLACES: usize = 256;

/// Frames in buffers of a driver's own, in order of arrival, of which nobody has made [`Frame`]s. Nothing is
/// owed of them, and of no mark is anything known. Those that are left when it ends go back to their lender.
#[derive(Debug, Default)]
pub struct Loans {
    lender: Option<&'static Lender>,
    tokens: Vec<NonNull<()>>,
    /// The frames as generated code sees them, then room.
    packets: Vec<Packet<'static>>,
    in_port: u32,
    sizes: Sizes,
    /// A bit for each of the first 64: the device vouches for the transport checksum.
    valid: u64,
}

// SAFETY: each token is the only way to its buffer, which may be used and released on any thread; packets are read
// only together with the tokens of their frames.
unsafe impl Send for Loans {}

/// How long frames are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of all of them.
    pub bytes: u32,
    /// None is shorter.
    pub least: u16,
    /// None is longer.
    pub most: u16,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes::NONE
    }
}

impl Sizes {
    /// Of no frames.
    const NONE: Sizes = Sizes { bytes: 0, least: u16::MAX, most: 0 };

    /// There is one more.
    #[inline(always)]
    pub fn add(&mut self, len: u16) {
        self.bytes += u32::from(len);
        (self.least, self.most) = (self.least.min(len), self.most.max(len));
    }
}

/// What a token says.
#[derive(Clone, Copy)]
struct Said {
    buffer: *mut u8,
    buffer_len: u16,
    start: u16,
    len: u32,
}

impl Said {
    /// Shows the frame as a packet.
    ///
    /// # Safety
    /// Before anybody sees the packet: as [`Packet::show`] demands, the frame being within its buffer.
    #[inline(always)]
    unsafe fn show(&self, packet: &mut Packet<'static>, in_port: u32) {
        let start = self.start.into();
        let data = self.buffer.wrapping_add(start);
        // SAFETY: the caller's promise.
        unsafe { packet.show(data, self.start.into(), self.len, in_port) };
    }
}

/// Reads what a token says.
///
/// # Safety
/// It points to a [`Native`]; what that says is as [`Loans`] demands.
#[inline(always)]
unsafe fn said(token: NonNull<()>) -> Said {
    let at = token.cast::<Native>().as_ptr();
    // SAFETY: the caller's promise, for each field.
    unsafe {
        Said {
            buffer: (&raw const (*at).buffer).read(),
            buffer_len: (&raw const (*at).buffer_len).read(),
            start: (&raw const (*at).start).read(),
            len: (&raw const (*at).len).read(),
        }
    }
}

/// Says where in its buffer a frame lies.
///
/// # Safety
/// The token points to a [`Native`], which nobody else reads or writes now.
#[inline(always)]
unsafe fn say(token: NonNull<()>, start: u16, len: u16) {
    let at = token.cast::<Native>().as_ptr();
    // SAFETY: the caller's promise, for each field.
    unsafe {
        (&raw mut (*at).start).write(start);
        (&raw mut (*at).len).write(len.into());
        (&raw mut (*at).len_here).write(len);
    }
}

/// Has a frame begin `by` bytes later, or earlier where that is negative; it ends where it did. One that had `least`
/// bytes or more has no fewer then: zeros follow. So much of it is done as the buffer has room for. Returns how long it
/// is then.
///
/// # Safety
/// The token points to a [`Native`], and to a buffer with a frame in it, which nobody else reads or
/// writes now.
unsafe fn shift(token: NonNull<()>, by: i32, least: u16) -> u16 {
    // SAFETY: the caller's promise.
    let said = unsafe { said(token) };
    // Within the buffer, which has less than 64 KiB.
    let end = (u32::from(said.start) + said.len).min(said.buffer_len.into()) as u16;
    let start = u32::from(said.start).saturating_add_signed(by).min(end.into()) as u16;
    let mut len = end - start;
    if len < least && said.len >= least.into() {
        let more = (said.buffer_len - end).min(least - len);
        // SAFETY: so many bytes from the frame's end on lie in its buffer, which is initialised memory and the
        // caller's alone.
        unsafe { said.buffer.add(end.into()).write_bytes(0, more.into()) };
        len += more;
    }
    // SAFETY: the caller's promise; the frame still lies within its buffer.
    unsafe { say(token, start, len) };
    len
}

fn csum(valid: u128, at: usize) -> Csum {
    match valid.unbounded_shr(at as u32) & 1 {
        0 => Csum::None,
        _ => Csum::Valid,
    }
}

/// As [`shift`], if that is nothing unusual; else nothing happens.
///
/// # Safety
/// As for [`shift`].
#[inline(always)]
unsafe fn shift_a_little(token: NonNull<()>, by: i32, least: u16) -> Option<u32> {
    /// Zeros that are written at once, bytes.
    const ZEROS: u32 = 8;
    // SAFETY: the caller's promise.
    let said = unsafe { said(token) };
    // Whatever `by` is: a sum that has come round is less than none.
    let start = i32::from(said.start).wrapping_add(by);
    let mut len = (said.len as i32).wrapping_sub(by);
    if start | len < 0 {
        return None;
    }
    if len < least.into() {
        let (end, more) = (u32::from(said.start) + said.len, i32::from(least) - len);
        let room = end + ZEROS <= said.buffer_len.into();
        if said.len < least.into() || more > ZEROS as i32 || !room {
            return None;
        }
        // SAFETY: so many bytes from the frame's end on lie in its buffer, which is the caller's alone.
        unsafe { said.buffer.add(end as usize).cast::<[u8; ZEROS as usize]>().write([0; _]) };
        len += more;
    }
    // SAFETY: the caller's promise; the frame lies within its buffer, which has less than 64 KiB.
    unsafe { say(token, start as u16, len as u16) };
    Some(len as u32)
}

/// As [`shift`], and counts among `sizes` how long the frame is then.
///
/// # Safety
/// As for [`shift`].
// Not within the loop that deals: it needs all registers there are.
#[inline(never)]
unsafe fn shift_counted(token: NonNull<()>, by: i32, least: u16, sizes: &mut Sizes) -> u32 {
    // SAFETY: the caller's promise.
    let len = unsafe { shift(token, by, least) };
    (sizes.least, sizes.most) = (sizes.least.min(len), sizes.most.max(len));
    len.into()
}

impl Loans {
    /// None, with room for a burst.
    pub fn new() -> Loans {
        let mut loans = Loans::default();
        loans.make_room();
        loans
    }

    #[cold]
    fn make_room(&mut self) {
        self.tokens.reserve(BURST_MAX);
        self.packets.resize_with(BURST_MAX, Packet::none);
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Frames that are added from now on have come in by this port.
    #[inline(always)]
    pub fn set_in_port(&mut self, in_port: u32) {
        self.in_port = in_port;
    }

    /// Adds a frame to a burst that is not full. `valid`: the device vouches for its transport checksum.
    ///
    /// # Safety
    /// `lender`'s tokens point to [`Native`]s, and it is the same for all in the list; the token stands for a buffer of its own,
    /// initialised memory that any thread may read and write and nobody else touches until it was released or
    /// taken out; the frame lies within it, and the buffer has less than 64 KiB.
    pub unsafe fn push(&mut self, lender: &'static Lender, token: NonNull<()>, valid: bool) {
        self.lender = Some(lender);
        if self.packets.len() < BURST_MAX {
            self.make_room();
        }
        let at = self.tokens.len();
        self.valid |= u64::from(valid).unbounded_shl(at as u32);
        // SAFETY: a token of its lender's.
        let said = unsafe { said(token) };
        // Within the buffer, so not longer than that.
        self.sizes.add(said.len as u16);
        // SAFETY: what it says of its frame holds, and the buffer is this list's alone.
        unsafe { said.show(&mut self.packets[at], self.in_port) };
        self.tokens.push(token);
    }

    /// Room for the tokens of a burst, of an empty list: see [`fill`](Self::fill).
    #[inline(always)]
    pub fn room(&mut self) -> &mut [MaybeUninit<NonNull<()>>; BURST_MAX] {
        if self.packets.len() < BURST_MAX || self.tokens.capacity() - self.tokens.len() < BURST_MAX
        {
            self.make_room();
        }
        let room = self.tokens.spare_capacity_mut();
        room.first_chunk_mut().expect("so many were reserved")
    }

    /// Fills an empty list with the first `n` frames whose tokens were written into its [room](Self::room), of whose
    /// checksums nothing is known, if of none there is anything `odd` (a bit is set) and each lies within its buffer; else
    /// nothing happens, and it says so.
    ///
    /// # Safety
    /// `lender`'s tokens point to [`Native`]s. So many were written, and if it is not `odd`,
    /// what [`push`](Self::push) demands holds of it, but for where in its buffer the frame lies.
    #[inline(always)]
    pub unsafe fn fill(
        &mut self,
        lender: &'static Lender,
        n: usize,
        odd: impl Fn(NonNull<()>) -> u64,
    ) -> bool {
        let (in_port, empty) = (self.in_port, self.tokens.is_empty());
        let tokens = self.tokens.spare_capacity_mut();
        if !empty || n > tokens.len().min(self.packets.len()) {
            return false;
        }
        // Whether all is well is found out without a branch for each, and how long they are in numbers of the
        // machine's own size.
        let (mut odds, mut room, mut bytes, mut least, mut most) = (0, 0, 0, u32::MAX, 0);
        for (token, packet) in tokens[..n].iter().zip(&mut self.packets) {
            // SAFETY: it was written.
            let token = unsafe { token.assume_init() };
            // SAFETY: a token of its lender's.
            let said = unsafe { said(token) };
            odds |= odd(token);
            // Less than none, as the sign says, if it is not within the buffer.
            room |= i64::from(said.buffer_len) - i64::from(said.start) - i64::from(said.len);
            bytes = said.len.wrapping_add(bytes);
            (least, most) = (least.min(said.len), most.max(said.len));
            // SAFETY: nobody is shown these packets unless all of them are within their buffers.
            unsafe { said.show(packet, in_port) };
        }
        let all = odds == 0 && room >= 0;
        if all {
            // A buffer has less than 64 KiB.
            let (least, most) = (least.min(u32::from(u16::MAX)) as u16, most as u16);
            (self.lender, self.valid) = (Some(lender), 0);
            self.sizes = Sizes { bytes, least, most };
            // SAFETY: so many were written.
            unsafe { self.tokens.set_len(n) };
        }
        all
    }

    /// Shows all of them to `f`, to be edited, and for what becomes of them to be noted.
    #[inline(always)]
    pub fn show<R>(&mut self, f: impl for<'a> FnOnce(&mut [Packet<'a>]) -> R) -> R {
        let n = self.tokens.len();
        // Whatever `f` is, it may put no packet here that does not live for ever, as it knows nothing of `'a`.
        f(&mut self.packets[..n])
    }

    /// What has become of each.
    #[inline(always)]
    pub fn outcomes(&self) -> impl ExactSizeIterator<Item = &Outcome> {
        self.packets[..self.tokens.len()].iter().map(|packet| &**packet)
    }

    /// How long they are.
    #[inline(always)]
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Whether of any frame's transport checksum something is known.
    #[inline(always)]
    pub fn vouches(&self) -> bool {
        self.valid != 0
    }

    /// What is known of each frame's transport checksum.
    pub fn csums(&self) -> impl ExactSizeIterator<Item = Csum> {
        (0..self.len()).map(|at| csum(self.valid.into(), at))
    }

    /// Moves frames into batches, in order, until one is met that cannot be: each into that of the number which `place`
    /// makes of the one port that it goes to. Only as many of the batches as are `used` have room. Those that are dropped go back to their lender, and `dropped` hears why. A
    /// frame that goes to several ports or none, has no outcome, or whose batch has no room, stays, and all
    /// behind it. Returns how many went.
    ///
    /// A frame that goes into a batch begins as many bytes later as its outcome's shift says, or earlier where that is
    /// negative, and ends where it did; but one that had `least` bytes or more has no fewer then: zeros follow. Never does
    /// a frame leave its buffer.
    #[inline(always)]
    pub fn deal(
        &mut self,
        (batches, used): (&mut [Batch; PLACES], usize),
        least: u16,
        place: impl Fn(u32) -> u8,
        dropped: &mut dyn FnMut(u32),
    ) -> usize {
        let n = self.tokens.len().min(self.packets.len());
        let Some(lender) = self.lender else { return 0 };
        let foreign = |batch: &Batch| {
            !batch.is_empty() && !batch.lender.is_some_and(|own| std::ptr::eq(own, lender))
        };
        let used = used.min(PLACES);
        if batches[..used].iter().any(foreign) {
            return 0;
        }
        // Whatever happens here, no token is in two lists: at worst some are lost.
        // SAFETY: none is fewer than there are.
        unsafe { self.tokens.set_len(0) };
        // SAFETY: so many were there, and they stay where they are.
        let tokens = unsafe { std::slice::from_raw_parts(self.tokens.as_ptr(), n) };
        let packets = &self.packets[..n];
        let (valid, mut sizes, mut at) = (self.valid, self.sizes, 0);
        while at < n {
            // Nearly all of them: no calls, so that all that is needed stays in registers.
            if valid == 0 {
                for (token, packet) in tokens[at..].iter().zip(&packets[at..]) {
                    let Some(port) = packet.single() else { break };
                    let batch = &mut batches[usize::from(place(port))];
                    if !batch.has_room() {
                        break;
                    }
                    let mut len = packet.len();
                    if packet.shift != 0 {
                        // SAFETY: a token of its lender's, whose buffer is this list's alone.
                        match unsafe { shift_a_little(*token, packet.shift, least) } {
                            Some(new) => len = new,
                            None => break,
                        }
                        (sizes.least, sizes.most) =
                            (sizes.least.min(len as u16), sizes.most.max(len as u16));
                    }
                    batch.push(*token, len);
                    at += 1;
                }
            }
            if at == n {
                break;
            }
            let (token, packet) = (tokens[at], &packets[at]);
            if packet.status == status::DROP {
                // SAFETY: nobody has it any more.
                unsafe { lender.release(token) };
                dropped(packet.reason);
            } else {
                let Some(port) = packet.single() else { break };
                let batch = &mut batches[usize::from(place(port))];
                if !batch.has_room() {
                    break;
                }
                let len = match packet.shift {
                    0 => packet.len(),
                    // SAFETY: a token of its lender's, whose buffer is this list's alone.
                    by => unsafe { shift_counted(token, by, least, &mut sizes) },
                };
                let bit = u128::from(valid.unbounded_shr(at as u32) & 1);
                batch.valid |= bit.unbounded_shl(batch.tokens.len() as u32);
                batch.push(token, len);
            }
            at += 1;
        }
        for batch in batches[..used].iter_mut().filter(|batch| !batch.is_empty()) {
            batch.lender = Some(lender);
            let own = &mut batch.sizes;
            (own.least, own.most) = (own.least.min(sizes.least), own.most.max(sizes.most));
        }
        if at < n {
            self.keep(at, n);
        } else {
            (self.lender, self.valid, self.sizes) = (None, 0, Sizes::default());
        }
        at
    }

    /// Of `n` tokens and packets, those from `first` on are what is left.
    #[cold]
    fn keep(&mut self, first: usize, n: usize) {
        let tokens = self.tokens.as_mut_ptr();
        // SAFETY: so many were there, of which those before `first` have gone.
        unsafe {
            std::ptr::copy(tokens.add(first), tokens, n - first);
            self.tokens.set_len(n - first);
        }
        (first..n).for_each(|at| self.packets.swap(at - first, at));
        self.valid = self.valid.unbounded_shr(first as u32);
        self.sizes = Sizes::default();
        for token in &self.tokens {
            // SAFETY: a token of its lender's.
            self.sizes.add(unsafe { said(*token) }.len as u16);
        }
    }

    /// Makes frames of all of them, behind those of a burst that has room for them.
    pub fn become_frames(&mut self, burst: &mut Burst) {
        (self.valid, self.sizes) = {
            let valid = self.valid.into();
            let Some(lender) = self.lender.take() else { return };
            // SAFETY: tokens of its lender's, which leave the list.
            unsafe { frames(lender, self.tokens.drain(..), valid, burst) };
            (0, Sizes::default())
        };
    }
}

/// Makes frames of what tokens stand for.
///
/// # Safety
/// They are tokens of its lender's, as [`Loans::push`] demands, and nobody has them any more.
unsafe fn frames(
    lender: &'static Lender,
    tokens: impl Iterator<Item = NonNull<()>>,
    valid: u128,
    burst: &mut Burst,
) {
    for (at, token) in tokens.enumerate() {
        // SAFETY: the caller's promise.
        let Said { buffer, buffer_len, start, len } = unsafe { said(token) };
        // Within the buffer, so not longer than that.
        let place = (start, len as u16);
        // SAFETY: there is a buffer.
        let buffer = unsafe { NonNull::new_unchecked(buffer) };
        // SAFETY: as was promised when it was added.
        let buffer = unsafe { Buffer::lent(lender, token, buffer, buffer_len, place) };
        drop(burst.push(Frame::lent_in(buffer, csum(valid, at))));
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        release_all(self.lender, &mut self.tokens);
    }
}

/// Gives frames back.
fn release_all(lender: Option<&'static Lender>, tokens: &mut Vec<NonNull<()>>) {
    let Some(lender) = lender else { return };
    for token in tokens.drain(..) {
        // SAFETY: nobody has it any more.
        unsafe { lender.release(token) }
    }
}

/// Frames in buffers of a driver's own that are to leave by one queue, in order. Their tokens say where they lie now.
/// Nothing is owed of them. Those that are left when it ends go back to their lender.
#[derive(Debug)]
pub struct Batch {
    lender: Option<&'static Lender>,
    /// With room for so many.
    tokens: Vec<NonNull<()>>,
    room: usize,
    sizes: Sizes,
    /// A bit for each: a device vouches for the transport checksum.
    valid: u128,
}

// SAFETY: as of `Loans`.
unsafe impl Send for Batch {}

impl Batch {
    /// None.
    pub fn new() -> Batch {
        let (tokens, room) = (Vec::with_capacity(BATCH_MAX), BATCH_MAX);
        Batch { lender: None, tokens, room, sizes: Sizes::NONE, valid: 0 }
    }

    /// None, and no room for any.
    pub const fn none() -> Batch {
        Batch { lender: None, tokens: Vec::new(), room: 0, sizes: Sizes::NONE, valid: 0 }
    }

    /// There is room for one more.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.tokens.len() < self.room
    }

    /// Adds a frame of so many bytes. It is lost if there is no room.
    #[inline(always)]
    fn push(&mut self, token: NonNull<()>, len: u32) {
        let at = self.tokens.len();
        if at < self.room {
            self.sizes.bytes += len;
            // SAFETY: there is room for so many.
            unsafe {
                self.tokens.as_mut_ptr().add(at).write(token);
                self.tokens.set_len(at + 1);
            }
        }
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// How long they are; `least` and `most` are bounds.
    #[inline(always)]
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Makes frames of the first ones, as many as the burst has room for.
    pub fn become_frames(&mut self, burst: &mut Burst) {
        let Some(lender) = self.lender else { return };
        let n = burst.room().min(self.tokens.len());
        let valid = self.valid;
        // SAFETY: tokens of its lender's, which leave the list.
        unsafe { frames(lender, self.tokens.drain(..n), valid, burst) };
        self.valid = valid.unbounded_shr(n as u32);
        if self.is_empty() {
            (self.lender, self.sizes) = (None, Sizes::default());
        }
    }

    /// Gives all of them back.
    pub fn release(&mut self) {
        release_all(self.lender.take(), &mut self.tokens);
        (self.valid, self.sizes) = (0, Sizes::NONE);
    }

    /// Hands all to their lender without a release, behind those in `to`, if it is this one; else nothing happens, and it
    /// says so. Their bytes may have changed since they were lent, and where they begin: their tokens say so.
    #[inline]
    pub fn redeem(&mut self, lender: &'static Lender, to: &mut Vec<NonNull<()>>) -> bool {
        let own = self.lender.is_some_and(|own| std::ptr::eq(own, lender));
        if own {
            (self.lender, self.valid, self.sizes) = (None, 0, Sizes::default());
            to.extend_from_slice(&self.tokens);
            self.tokens.clear();
        }
        own
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        release_all(self.lender, &mut self.tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static RELEASED: Cell<usize> = const { Cell::new(0) };
    }

    unsafe fn release(token: NonNull<()>) {
        RELEASED.set(RELEASED.get() + 1);
        // SAFETY: every token of these tests is a box that was leaked for it, and so is its buffer.
        unsafe {
            let kept = Box::from_raw(token.cast::<Native>().as_ptr());
            drop(Box::from_raw(kept.buffer.cast::<[u8; 512]>()));
        }
    }

    // SAFETY: `release` frees boxes, on any thread; a token is a `Native`.
    static LENDER: Lender = unsafe { Lender::of_natives("test", release) };
    // SAFETY: as above.
    static OTHER: Lender = unsafe { Lender::of_natives("other", release) };

    fn lend(loans: &mut Loans, lender: &'static Lender, bytes: &[u8], valid: bool) {
        let mut memory = Box::new([0u8; 512]);
        memory[100..100 + bytes.len()].copy_from_slice(bytes);
        let buffer = Box::into_raw(memory).cast();
        let (len, len_here) = (bytes.len() as u32, bytes.len() as u16);
        let kept =
            Native { start: 100, buffer_len: 512, len, buffer, len_here, ..Native::default() };
        let token = NonNull::from(Box::leak(Box::new(kept))).cast();
        // SAFETY: memory that nobody else knows of, and a structure of that kind.
        unsafe { loans.push(lender, token, valid) };
    }

    fn datas(burst: &Burst) -> Vec<&[u8]> {
        burst.frames().iter().map(Frame::data).collect()
    }

    /// Where each frame lies, and what is in it; both lengths are the same.
    fn told(tokens: &[NonNull<()>]) -> Vec<(u16, Vec<u8>)> {
        let told = tokens.iter().map(|token| {
            // SAFETY: a token of these tests, whose frame lies in 512 bytes.
            let (kept, buffer) = unsafe {
                let kept = token.cast::<Native>().as_ref();
                (kept, std::slice::from_raw_parts(kept.buffer, 512))
            };
            assert_eq!(kept.len, u32::from(kept.len_here));
            let start = usize::from(kept.start);
            (kept.start, buffer[start..start + kept.len as usize].to_vec())
        });
        told.collect()
    }

    const NOWHERE_TO_GO: u16 = 1000;

    /// Deals as packets say that begin so many bytes later.
    fn deal(
        loans: &mut Loans,
        (places, by): (&[u16], &[i32]),
        least: u16,
        batches: &mut [Batch; PLACES],
    ) -> usize {
        loans.show(|packets| {
            for (at, packet) in packets.iter_mut().enumerate() {
                (packet.status, packet.outputs_len) = match places.get(at) {
                    Some(&NOWHERE_TO_GO) | None => (status::DROP, 0),
                    Some(_) => (status::FORWARD, 1),
                };
                packet.reason = 5;
                packet.outputs[0].port = places.get(at).copied().unwrap_or_default().into();
                packet.shift = by.get(at).copied().unwrap_or(0);
            }
        });
        let dropped = &mut |reason| assert_eq!(reason, 5);
        loans.deal((batches, 2), least, |port| port as u8, dropped)
    }

    /// Batches of which so many have room.
    fn batches(n: usize) -> Box<[Batch; PLACES]> {
        let mut all = Box::new([const { Batch::none() }; PLACES]);
        all[..n].fill_with(Batch::new);
        all
    }

    #[test]
    fn frames_begin_elsewhere() {
        let mut loans = Loans::new();
        for bytes in [&b"abcdefgh"[..], b"abcdefgh", b"abcdefgh", b"ab", b"abcdefgh"] {
            lend(&mut loans, &LENDER, bytes, false);
        }
        assert_eq!(loans.sizes(), Sizes { bytes: 34, least: 2, most: 8 });
        // What lies behind a frame is anything.
        loans.show(|packets| {
            for packet in packets {
                let (data, _) = packet.bytes();
                // SAFETY: so many bytes of its buffer lie behind the eighth.
                unsafe { data.add(8).write_bytes(9, 404) };
            }
        });
        let mut batches = batches(1);
        deal(&mut loans, (&[0; 5], &[0, 4, -2, 1]), 6, &mut batches);
        let was = |start: u16, bytes: &[u8]| (start, bytes.to_vec());
        let expected = [
            was(100, b"abcdefgh"),
            was(104, b"efgh\0\0"),
            was(98, b"\0\0abcdefgh"),
            was(101, b"b"),
            was(100, b"abcdefgh"),
        ];
        assert_eq!(told(&batches[0].tokens), expected);
        assert_eq!(batches[0].sizes(), Sizes { bytes: 33, least: 1, most: 10 });
        // Never out of the buffer.
        let mut moved = |by: &[i32], least| {
            let mut tokens = Vec::new();
            assert!(batches[0].redeem(&LENDER, &mut tokens));
            let mut loans = Loans::new();
            for token in tokens {
                // SAFETY: redeemed, so they are ours.
                unsafe { loans.push(&LENDER, token, false) };
            }
            deal(&mut loans, (&[0; 5], by), least, &mut batches);
            let told = told(&batches[0].tokens);
            told.iter().map(|(start, bytes)| (*start, bytes.len())).collect::<Vec<_>>()
        };
        let edges = moved(&[i32::MIN, i32::MAX, -2, 1, 400], 0);
        assert_eq!(edges, [(0, 108), (110, 0), (96, 12), (102, 0), (108, 0)]);
        assert_eq!(moved(&[0, 0, -96], 0)[2], (0, 108));
        assert_eq!(moved(&[100, 0, 108], 50)[..3], [(100, 50), (110, 0), (108, 50)]);
        assert!(moved(&[i32::MAX; 5], u16::MAX).iter().all(|(_, len)| *len == 0));
    }

    #[test]
    fn frames_are_seen_dealt_redeemed_and_released_once() {
        let mut loans = Loans::new();
        loans.set_in_port(7);
        for (n, bytes) in [&b"a"[..], b"bc", b"def", b"ghij", b"k"].iter().enumerate() {
            lend(&mut loans, &LENDER, bytes, n % 2 == 1);
        }
        assert_eq!((loans.len(), loans.sizes()), (5, Sizes { bytes: 11, least: 1, most: 4 }));
        let valid: Vec<Csum> = loans.csums().collect();
        assert_eq!(valid, [Csum::None, Csum::Valid, Csum::None, Csum::Valid, Csum::None]);
        loans.show(|packets| {
            for packet in packets {
                assert_eq!(packet.in_port(), 7);
                let (data, len) = packet.bytes();
                // SAFETY: the packet's own bytes.
                unsafe { std::slice::from_raw_parts_mut(data, len) }.make_ascii_uppercase();
            }
        });
        let mut batches = batches(2);
        // The third goes nowhere, and for the last there is no batch.
        assert_eq!(deal(&mut loans, (&[1, 0, NOWHERE_TO_GO, 1, 2], &[]), 0, &mut batches), 4);
        assert_eq!((loans.len(), RELEASED.get()), (1, 1));
        assert_eq!(loans.sizes(), Sizes { bytes: 1, least: 1, most: 1 });
        assert!(loans.outcomes().map(|outcome| outcome.outputs[0].port).eq([2]));
        // Of all that were dealt, none was shorter or longer.
        assert_eq!(batches[1].sizes(), Sizes { bytes: 5, least: 1, most: 4 });
        let mut tokens = Vec::new();
        assert!(!batches[1].redeem(&OTHER, &mut tokens));
        let mut burst = Burst::new();
        loans.become_frames(&mut burst);
        batches[1].become_frames(&mut burst);
        assert_eq!((datas(&burst), batches[1].len()), (vec![&b"K"[..], b"A", b"GHIJ"], 0));
        assert_eq!(burst.frames()[0].headroom(), 100);
        let csums: Vec<Csum> = burst.frames().iter().map(|frame| frame.offload.csum).collect();
        assert_eq!(csums, [Csum::None, Csum::None, Csum::Valid]);
        burst.clear();
        assert_eq!(RELEASED.get(), 4);
        assert!(batches[0].redeem(&LENDER, &mut tokens));
        assert_eq!((tokens.len(), batches[0].len(), RELEASED.get()), (1, 0, 4));
        // SAFETY: redeemed, so they are ours again.
        tokens.drain(..).for_each(|token| unsafe { release(token) });
        // A batch that was emptied takes another's frames; while one holds some, all stay.
        lend(&mut loans, &OTHER, b"x", true);
        assert_eq!(deal(&mut loans, (&[1], &[]), 0, &mut batches), 1);
        lend(&mut loans, &LENDER, b"z", false);
        assert_eq!(deal(&mut loans, (&[0], &[]), 0, &mut batches), 0);
        assert_eq!((batches[0].len(), batches[1].len(), loans.len()), (0, 1, 1));
        // What is known of a checksum goes along.
        batches[1].become_frames(&mut burst);
        assert_eq!((datas(&burst), burst.frames()[0].offload.csum), (vec![&b"x"[..]], Csum::Valid));
        drop(burst);
        assert_eq!(RELEASED.get(), 6);
        drop(loans);
        drop(batches);
        assert_eq!(RELEASED.get(), 7);
        let mut loans = Loans::new();
        lend(&mut loans, &OTHER, b"y", true);
        let mut burst = Burst::new();
        loans.become_frames(&mut burst);
        assert_eq!(burst.frames()[0].offload.csum, Csum::Valid);
    }

    /// A batch takes no more than it has room for, and what is left goes on as it was.
    #[test]
    fn batches_grow_over_bursts_until_they_are_full() {
        let (mut loans, mut batches) = (Loans::new(), batches(1));
        let mut number = 0u16;
        let mut next = |loans: &mut Loans| {
            for _ in 0..BURST_MAX - loans.len() {
                lend(loans, &LENDER, &number.to_be_bytes(), number.is_multiple_of(3));
                number += 1;
            }
        };
        for expected in [64, 64, 0] {
            next(&mut loans);
            // One that stays, stays where it was.
            let by = if expected == 0 { [-2; 64] } else { [0; 64] };
            assert_eq!(deal(&mut loans, (&[0; 64], &by), 0, &mut batches), expected);
        }
        let (mut burst, mut seen) = (Burst::new(), 0u16);
        let mut check = |burst: &mut Burst| {
            for frame in burst.drain() {
                let valid = frame.offload.csum == Csum::Valid;
                assert_eq!((frame.data(), valid), (&seen.to_be_bytes()[..], seen % 3 == 0));
                seen += 1;
            }
        };
        while !batches[0].is_empty() {
            batches[0].become_frames(&mut burst);
            check(&mut burst);
        }
        assert_eq!(deal(&mut loans, (&[0; 10], &[]), 0, &mut batches), 64);
        batches[0].become_frames(&mut burst);
        check(&mut burst);
        assert_eq!((seen, RELEASED.get()), (138, 192));
    }

    #[test]
    fn only_what_is_plain_and_whole_fills_a_burst() {
        let kept = |start, len| Native {
            start,
            buffer_len: 512,
            len,
            buffer: std::ptr::dangling_mut(),
            len_here: 9,
            ..Native::default()
        };
        let mut all = [kept(0, 512), kept(512, 0), kept(100, 60)];
        let mut fill = |n: usize, change: fn(&mut Native)| {
            let mut loans = Loans::default();
            change(&mut all[1]);
            for (kept, place) in all.iter_mut().zip(loans.room()) {
                place.write(NonNull::from(kept).cast());
            }
            let odd = |token: NonNull<()>| {
                // SAFETY: a structure each, whose `len_here` says whether it is plain.
                let kept = unsafe { token.cast::<Native>().as_ref() };
                u64::from(kept.len_here ^ 9)
            };
            // SAFETY: as above; of what is not odd, the frame is not looked at here.
            let filled = unsafe { loans.fill(&LENDER, n, odd) };
            let (n, sizes) = (loans.len(), loans.sizes());
            std::mem::take(&mut loans.tokens).clear();
            (filled, n, sizes)
        };
        assert_eq!(fill(3, |_| {}), (true, 3, Sizes { bytes: 572, least: 0, most: 512 }));
        assert_eq!(fill(0, |_| {}), (true, 0, Sizes::default()));
        assert!(!fill(3, |k| k.len = 1).0);
        assert_eq!(fill(1, |_| {}), (true, 1, Sizes { bytes: 512, least: 512, most: 512 }));
        assert!(!fill(3, |k| (k.start, k.len) = (1, u32::MAX)).0);
        assert!(!fill(3, |k| (k.start, k.len, k.len_here) = (1, 2, 8)).0);
        assert!(fill(3, |k| k.len_here = 9).0);
        assert!(!fill(65, |_| {}).0);
    }
}
