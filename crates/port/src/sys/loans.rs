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

mod shown;

use self::shown::Seen;
use super::buffer::{Buffer, Lender, Native};
use crate::{BURST_MAX, Burst, Csum, Frame};
use abi::{Outcome, Packet, status};
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

const _: () = assert!(BURST_MAX == abi::BURST_MAX);

/// Frames in a [`Batch`], at most.
pub const BATCH_MAX: usize = 2 * BURST_MAX;
/// How many batches there are to [deal](Loans::deal) into, so that any place of eight bits is one.
pub const PLACES: usize = 256;
/// The place of a batch that no port has, and in which nothing stays. With room for a burst, it makes frames that are
/// dropped among others cheap.
pub const SINK: u8 = 254;

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
    room: Room,
    /// A bit for each of the first 64: the device vouches for the transport checksum.
    valid: u64,
    /// Some of the last burst were dropped.
    drops: bool,
}

// SAFETY: each token is the only way to its buffer, which may be used and released on any thread; packets are read
// only together with the tokens of their frames.
unsafe impl Send for Loans {}

/// So many bytes each frame has around it in its buffer, at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    front: u16,
    behind: u16,
}

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

/// As [`shift`], for a frame that lies as the packet was shown, if that is nothing unusual; else nothing happens.
///
/// # Safety
/// As for [`shift`]; the token is the packet's.
#[inline(always)]
unsafe fn shift_a_little(token: NonNull<()>, packet: &Packet<'_>, least: u16) -> Option<u32> {
    /// Zeros that are written at once, bytes.
    const ZEROS: u32 = 8;
    let (by, was) = (packet.shift, packet.len());
    // Whatever `by` is: a sum that has come round is less than none.
    let start = (packet.headroom() as i32).wrapping_add(by);
    let mut len = (was as i32).wrapping_sub(by);
    if start | len < 0 {
        return None;
    }
    if len < least.into() {
        // SAFETY: the caller's promise.
        let said = unsafe { said(token) };
        let (end, more) = (u32::from(said.start) + was, i32::from(least) - len);
        let room = end + ZEROS <= said.buffer_len.into();
        if was < least.into() || more > ZEROS as i32 || !room {
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

/// Where a frame goes: to one port, beginning so many bytes later.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Way {
    port: u32,
    shift: i32,
}

impl Way {
    /// That of all packets, if they have one, and it is the same.
    #[inline(always)]
    fn of_all(packets: &[Packet<'_>]) -> Option<Way> {
        let of =
            |packet: &Packet<'_>| packet.single().map(|port| Way { port, shift: packet.shift });
        let first = of(packets.first()?)?;
        packets[1..].iter().all(|packet| of(packet) == Some(first)).then_some(first)
    }
}

/// A burst's frames, of which none is spoken of, if all go one way.
struct Whole {
    sizes: Sizes,
    room: Room,
    /// No frame gets shorter than that by a shift.
    least: u16,
}

impl Whole {
    /// Moves all into a batch, and says how long they are then. None if there is no room, or some and not all want to be
    /// padded alike, or one of them perhaps has no room around it, and nothing has happened then.
    #[inline(always)]
    fn go(
        &self,
        tokens: &[NonNull<()>],
        Way { shift, .. }: Way,
        batch: &mut Batch,
    ) -> Option<Sizes> {
        if batch.room - batch.tokens.len() < tokens.len() {
            return None;
        }
        let mut sizes = self.sizes;
        if shift != 0 {
            sizes = self.shift(tokens, shift)?;
        }
        batch.tokens.extend_from_slice(tokens);
        batch.sizes.bytes += sizes.bytes;
        Some(sizes)
    }

    /// Has all begin `by` bytes later.
    #[inline]
    fn shift(&self, tokens: &[NonNull<()>], by: i32) -> Option<Sizes> {
        /// Zeros that are written at once, bytes.
        const ZEROS: u16 = 8;
        let (wide, n) = (i64::from(by), tokens.len() as i64);
        let (least, most) = (i64::from(self.sizes.least) - wide, i64::from(self.sizes.most) - wide);
        if i64::from(self.room.front) + wide < 0 || least < 0 || most > u16::MAX.into() {
            return None;
        }
        // Of zeros, so many for each.
        let pad = (i64::from(self.least) - least).max(0);
        if pad > 0 {
            let alike = self.sizes.least == self.sizes.most && self.sizes.least >= self.least;
            if !alike || pad > ZEROS.into() || self.room.behind < ZEROS {
                return None;
            }
        }
        let longer = (pad - wide) as i32;
        for token in tokens {
            // SAFETY: a token of its lender's, whose buffer is the caller's alone, and has room for that around the frame, or in
            // it; so many zeros fit behind it where some are wanted.
            unsafe {
                let Said { buffer, start, len, .. } = said(*token);
                if pad > 0 {
                    let end = usize::from(start) + len as usize;
                    buffer.add(end).cast::<[u8; ZEROS as usize]>().write([0; _]);
                }
                let start = u32::from(start).wrapping_add_signed(by);
                say(*token, start as u16, len.wrapping_add_signed(longer) as u16);
            }
        }
        let bytes = i64::from(self.sizes.bytes) + n * i64::from(longer);
        Some(Sizes { bytes: bytes as u32, least: (least + pad) as u16, most: (most + pad) as u16 })
    }
}

/// Frames of a burst that are dropped, and why.
struct Gone {
    tokens: [NonNull<()>; BURST_MAX],
    reasons: [u32; BURST_MAX],
    len: usize,
}

impl Gone {
    #[inline(always)]
    fn new() -> Gone {
        Gone { tokens: [NonNull::dangling(); _], reasons: [0; _], len: 0 }
    }

    /// Adds one, if it is dropped; there are no more of them than a burst has.
    #[inline(always)]
    fn push(&mut self, token: NonNull<()>, reason: u32, dropped: bool) {
        let at = self.len % BURST_MAX;
        (self.tokens[at], self.reasons[at]) = (token, reason);
        self.len += usize::from(dropped);
    }

    /// Gives them back, and says why.
    ///
    /// # Safety
    /// The lender's, and nobody has them any more.
    #[inline(never)]
    unsafe fn end(&self, lender: &'static Lender, dropped: &mut dyn FnMut(u32, u64)) {
        // SAFETY: the caller's promise.
        unsafe { lender.release_all(&self.tokens[..self.len]) };
        for alike in self.reasons[..self.len].chunk_by(|a, b| a == b) {
            dropped(alike[0], alike.len() as u64);
        }
    }
}

/// So many batches are filled without reading how full they are for each frame.
const FEW: usize = 10;
/// Bits of a number of frames in [`to_few`]: fewer than a burst has.
const COUNT_BITS: usize = BURST_MAX.trailing_zeros() as usize;
const _: () = assert!(FEW * COUNT_BITS <= 64);

/// All batches have room for so many more.
fn has_room(batches: &[Batch], n: usize) -> bool {
    batches.iter().all(|batch| batch.room - batch.tokens.len() >= n)
}

/// Deals frames that go to one port until one is met that does not. Returns how many.
///
/// How many have gone into each batch stands in one register. If that stood in memory, it would be read soon after it
/// was written where the next frame goes to the same port, and else not, which a processor cannot guess either.
///
/// There are [`FEW`] batches at most, with room for all. The last frame of a full burst is left, as its count might not fit.
#[inline(always)]
fn to_few(
    (tokens, packets): (&[NonNull<()>], &[Packet<'_>]),
    (batches, place): (&mut [Batch], &impl Fn(u32) -> u8),
    least: u16,
    sizes: &mut Sizes,
) -> usize {
    let mut ends = [std::ptr::null_mut::<NonNull<()>>(); FEW];
    for (end, batch) in ends.iter_mut().zip(&mut *batches) {
        *end = batch.tokens.spare_capacity_mut().as_mut_ptr().cast();
    }
    let (mut counts, mut at, mut shifted) = (0u64, 0, false);
    let counted = |counts: u64, place: usize| (counts >> (place * COUNT_BITS)) as usize % BURST_MAX;
    for (token, packet) in tokens.iter().zip(packets).take(BURST_MAX - 1) {
        let Some(port) = packet.single() else { break };
        let place = usize::from(place(port));
        if place >= batches.len() {
            break;
        }
        if packet.shift != 0 {
            // SAFETY: a token of its lender's, whose buffer is the caller's alone.
            let Some(len) = (unsafe { shift_a_little(*token, packet, least) }) else { break };
            (sizes.least, sizes.most) = (sizes.least.min(len as u16), sizes.most.max(len as u16));
            shifted = true;
        }
        // SAFETY: a list that is there; each has room for as many as there are tokens.
        unsafe { ends[place].add(counted(counts, place)).write(*token) };
        counts += 1 << (place * COUNT_BITS);
        at += 1;
    }
    let alike = (sizes.least == sizes.most && !shifted).then_some(sizes.least);
    for (place, batch) in batches.iter_mut().enumerate() {
        let (before, n) = (batch.tokens.len(), counted(counts, place));
        if n == 0 {
            continue;
        }
        // SAFETY: so many were written behind those that were there.
        unsafe { batch.tokens.set_len(before + n) };
        batch.sizes.bytes += match alike {
            Some(len) => n as u32 * u32::from(len),
            // SAFETY: tokens of their lender's.
            None => batch.tokens[before..].iter().map(|t| unsafe { said(*t) }.len).sum(),
        };
    }
    at
}

/// Deals frames that go to one port as they are, or are dropped, until one is met that is neither, or whose batch has no
/// room; without a branch on which it is. Returns how many.
#[inline(always)]
fn among_drops(
    tokens: &[NonNull<()>],
    packets: &[Packet<'_>],
    batches: &mut [Batch; PLACES],
    place: &impl Fn(u32) -> u8,
    gone: &mut Gone,
) -> usize {
    let mut at = 0;
    for (token, packet) in tokens.iter().zip(packets) {
        let (drop, single) = (packet.status == status::DROP, packet.single().is_some());
        if !(drop | single) | (packet.shift != 0) {
            break;
        }
        let place = select_unpredictable(drop, SINK, place(packet.outputs[0].port));
        let batch = &mut batches[usize::from(place)];
        if !batch.has_room() {
            break;
        }
        gone.push(*token, packet.reason, drop);
        batch.push(*token, packet.len());
        at += 1;
    }
    batches[usize::from(SINK)].empty();
    at
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
        self.room = Room::default();
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
    /// checksums nothing is known, if all are plain: each lies within one buffer, that nobody else uses, and the device has
    /// said nothing of it. Else nothing happens, and it says so.
    ///
    /// # Safety
    /// `lender`'s tokens point to [`Native`]s. So many were written, and of one that is plain what [`push`](Self::push)
    /// demands holds.
    #[inline(always)]
    pub unsafe fn fill(&mut self, lender: &'static Lender, n: usize) -> bool {
        let (in_port, empty) = (self.in_port, self.tokens.is_empty());
        let tokens = self.tokens.spare_capacity_mut();
        if !empty || n > tokens.len().min(self.packets.len()) {
            return false;
        }
        // SAFETY: nobody is shown these packets unless all of them are plain.
        let seen = unsafe { shown::show(&tokens[..n], &mut self.packets[..n], in_port) };
        if let Some(Seen { sizes, room }) = seen {
            (self.lender, self.valid) = (Some(lender), 0);
            (self.sizes, self.room) = (sizes, room);
            // SAFETY: so many were written.
            unsafe { self.tokens.set_len(n) };
        }
        seen.is_some()
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
    /// makes of the one port that it goes to. Only as many of the batches as are `used` have room, and perhaps the
    /// [sink](SINK). Those that are dropped go back to their lender, and `dropped` hears why, and how many. A
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
        dropped: &mut dyn FnMut(u32, u64),
    ) -> usize {
        let n = self.tokens.len().min(self.packets.len());
        let Some(lender) = self.lender else { return 0 };
        let foreign = |batch: &Batch| {
            !batch.is_empty() && !batch.lender.is_some_and(|own| std::ptr::eq(own, lender))
        };
        let used = used.min(usize::from(SINK));
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
        let mut gone = Gone::new();
        if valid == 0 {
            let all = Whole { sizes, room: self.room, least };
            if let Some(way) = Way::of_all(packets)
                && let Some(now) = all.go(tokens, way, &mut batches[usize::from(place(way.port))])
            {
                (at, sizes) = (n, now);
            } else if self.drops {
                // Which of them are dropped, nobody can guess: all are done alike.
                at = among_drops(tokens, packets, batches, &place, &mut gone);
            } else if used <= FEW && has_room(&batches[..used], n) {
                let to = (&mut batches[..used], &place);
                at = to_few((tokens, packets), to, least, &mut sizes);
            }
        }
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
                        match unsafe { shift_a_little(*token, packet, least) } {
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
                gone.push(token, packet.reason, true);
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
        self.drops = gone.len > 0;
        if self.drops {
            // SAFETY: the lender's, and nobody has them any more.
            unsafe { gone.end(lender, dropped) };
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
    // SAFETY: nobody has them any more, and they leave the list.
    unsafe { lender.release_all(tokens) };
    tokens.clear();
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

    /// Forgets what was dealt here as well as elsewhere.
    #[inline(always)]
    fn empty(&mut self) {
        // SAFETY: none is fewer than there are.
        unsafe { self.tokens.set_len(0) };
        self.sizes = Sizes::NONE;
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
            if to.is_empty() {
                // The lists change places, and this one has room for as many as before.
                std::mem::swap(to, &mut self.tokens);
                self.tokens.reserve(self.room);
            } else {
                to.extend_from_slice(&self.tokens);
                self.tokens.clear();
            }
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
        let dropped = &mut |reason, _| assert_eq!(reason, 5);
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

    /// Whichever way a burst is dealt (all alike, drops among others, one by one), each frame is where, and as long as, it
    /// would be alone.
    #[test]
    fn bursts_are_dealt_as_their_frames_would_be_alone() {
        const LEAST: u16 = 60;
        let mut random = crate::prng::Prng::new(11);
        let (mut loans, mut batches) = (Loans::new(), batches(2));
        for _ in 0..if cfg!(miri) { 10 } else { 3000 } {
            let mut any = |n: u64| random.below(n);
            let (n, alike, drops) = (1 + any(64) as usize, any(2) == 0, any(3) == 0);
            // All there is room for, to one port, but beginning elsewhere each.
            let (n, ports) = if any(5) == 0 { (64, 1) } else { (n, 2) };
            if any(4) != 0 {
                batches[usize::from(SINK)] = Batch::new();
            } else {
                batches[usize::from(SINK)] = Batch::none();
            }
            let pick = |any: &mut dyn FnMut(u64) -> u64| {
                let by = [0, 0, 4, -4, 12, -130, 70][any(7) as usize];
                (
                    any(ports) as u16,
                    by,
                    [60, 64, 100, 58, 61][any(5) as usize],
                    100 + any(60) as u16,
                )
            };
            let same = pick(&mut any);
            let frames: Vec<_> =
                (0..n).map(|_| if alike { same } else { pick(&mut any) }).collect();
            let gone: Vec<bool> = (0..n).map(|_| drops && any(3) == 0).collect();
            let plain = !alike || any(2) == 0;
            let (mut tokens, mut expected) = (Vec::new(), [Vec::new(), Vec::new()]);
            for ((place, by, len, start), gone) in frames.iter().zip(&gone) {
                let mut memory = Box::new([7u8; 512]);
                memory[usize::from(*start)..][..*len as usize].fill(1);
                // What a burst of others has in front of and behind it is not enough for all to go alike.
                let buffer_len = if plain { 512 } else { start + *len as u16 + any(12) as u16 };
                let first = (i32::from(*start) + by).clamp(0, i32::from(*start) + *len as i32);
                let end = usize::from(*start) + *len as usize;
                let mut bytes = memory[first as usize..end].to_vec();
                if *len >= LEAST.into() && bytes.len() < LEAST.into() {
                    let more =
                        (usize::from(LEAST) - bytes.len()).min(usize::from(buffer_len) - end);
                    bytes.resize(bytes.len() + more, 0);
                }
                if !gone {
                    expected[usize::from(*place)].push((first as u16, bytes));
                }
                let buffer = Box::into_raw(memory).cast();
                let (start, len, len_here) = (*start, *len, *len as u16);
                let kept = Native { start, buffer_len, len, buffer, len_here, ..Native::default() };
                tokens.push(NonNull::from(Box::leak(Box::new(kept))).cast());
            }
            loans.room().iter_mut().zip(&tokens).for_each(|(to, token)| {
                to.write(*token);
            });
            // SAFETY: tokens of these tests, each a box of its own.
            if !unsafe { loans.fill(&LENDER, n) } {
                // SAFETY: as above.
                tokens.iter().for_each(|token| unsafe { loans.push(&LENDER, *token, false) });
            }
            loans.show(|packets| {
                for (packet, (frame, gone)) in packets.iter_mut().zip(frames.iter().zip(&gone)) {
                    (packet.status, packet.outputs_len) = (status::FORWARD, 1);
                    (packet.outputs[0].port, packet.shift) = (frame.0.into(), frame.1);
                    if *gone {
                        (packet.status, packet.outputs_len, packet.shift) = (status::DROP, 0, 0);
                        packet.reason = 5;
                    }
                }
            });
            let (mut heard, before) = (0, RELEASED.get());
            let dealt =
                loans.deal((&mut batches, 2), LEAST, |port| port as u8, &mut |reason, n| {
                    assert_eq!(reason, 5);
                    heard += n as usize;
                });
            let lost = gone.iter().filter(|gone| **gone).count();
            assert_eq!((dealt, heard, RELEASED.get() - before), (n, lost, lost));
            assert!(batches[usize::from(SINK)].is_empty() && loans.is_empty());
            for (batch, expected) in batches.iter_mut().zip(&expected) {
                let told = told(&batch.tokens);
                assert_eq!(&told, expected, "alike: {alike}, drops: {drops}");
                let lens = || told.iter().map(|(_, bytes)| bytes.len());
                let Sizes { bytes, least, most } = batch.sizes();
                assert_eq!(bytes as usize, lens().sum::<usize>());
                assert!(lens().all(|len| (least.into()..=most.into()).contains(&len)));
                batch.release();
            }
        }
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
            ..Native::default()
        };
        let mut all = [kept(0, 512), kept(512, 0), kept(100, 60)];
        let mut fill = |n: usize, change: fn(&mut Native)| {
            let mut loans = Loans::default();
            change(&mut all[1]);
            for (kept, place) in all.iter_mut().zip(loans.room()) {
                place.write(NonNull::from(kept).cast());
            }
            // SAFETY: as above; of what is not odd, the frame is not looked at here.
            let filled = unsafe { loans.fill(&LENDER, n) };
            let (n, sizes) = (loans.len(), loans.sizes());
            std::mem::take(&mut loans.tokens).clear();
            (filled, n, sizes)
        };
        assert_eq!(fill(3, |_| {}), (true, 3, Sizes { bytes: 572, least: 0, most: 512 }));
        assert_eq!(fill(0, |_| {}), (true, 0, Sizes::default()));
        assert!(!fill(3, |k| k.len = 1).0);
        assert_eq!(fill(1, |_| {}), (true, 1, Sizes { bytes: 512, least: 512, most: 512 }));
        assert!(!fill(3, |k| (k.start, k.len) = (1, u32::MAX)).0);
        assert!(!fill(3, |k| (k.start, k.len, k.flags) = (1, 2, 8)).0);
        assert!(!fill(3, |k| (k.flags, k.references) = (0, 2)).0);
        assert!(fill(3, |k| k.references = 1).0);
        assert!(!fill(65, |_| {}).0);
    }
}
