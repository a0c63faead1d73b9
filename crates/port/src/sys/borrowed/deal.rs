//! Dealing: each frame of a burst into the batch of the port that it goes to.
//!
//! Nearly always all frames go one way, or to a few ports, or some are dropped; each of these has a loop of its own.
#![allow(unsafe_code)]

use super::BorrowedBurst;
use super::batch::{Batch, PLACES, SINK};
use super::token::{Extent, Room, Sizes, read_extent, shift_a_little, shift_counted, write_extent};
use crate::burst::BURST_MAX;
use crate::sys::buffer::BufferOwner;
use abi::{Packet, status};
use std::hint::select_unpredictable;
use std::ptr::NonNull;

/// Where a frame goes: to one port, beginning so many bytes later.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Route {
    port: u32,
    shift: i32,
}

impl Route {
    /// That of all packets, if they have one, and it is the same.
    #[inline(always)]
    fn of_all(packets: &[Packet<'_>]) -> Option<Route> {
        let of =
            |packet: &Packet<'_>| packet.single().map(|port| Route { port, shift: packet.shift });
        let first = of(packets.first()?)?;
        packets[1..].iter().all(|packet| of(packet) == Some(first)).then_some(first)
    }
}

/// A burst's frames, if the device reports nothing of them and all go one way.
struct Uniform {
    sizes: Sizes,
    room: Room,
    /// No frame gets shorter than that by a shift.
    least: u16,
}

impl Uniform {
    /// Moves all into a batch, and says how long they are then. None if there is no room, or some and not all want to be
    /// padded alike, or one of them perhaps has no room around it, and nothing has happened then.
    #[inline(always)]
    fn go(
        &self,
        tokens: &[NonNull<()>],
        Route { shift, .. }: Route,
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
            // SAFETY: a token of its owner's, whose buffer is the caller's alone, and has room for that around the frame, or in
            // it; so many zeros fit behind it where some are wanted.
            unsafe {
                let Extent { buffer, start, len, .. } = read_extent(*token);
                if pad > 0 {
                    let end = usize::from(start) + len as usize;
                    buffer.add(end).cast::<[u8; ZEROS as usize]>().write([0; _]);
                }
                let start = u32::from(start).wrapping_add_signed(by);
                write_extent(*token, start as u16, len.wrapping_add_signed(longer) as u16);
            }
        }
        let bytes = i64::from(self.sizes.bytes) + n * i64::from(longer);
        Some(Sizes { bytes: bytes as u32, least: (least + pad) as u16, most: (most + pad) as u16 })
    }
}

/// Frames of a burst that are dropped, and why.
struct Discarded {
    tokens: [NonNull<()>; BURST_MAX],
    reasons: [u32; BURST_MAX],
    len: usize,
}

impl Discarded {
    #[inline(always)]
    fn new() -> Discarded {
        Discarded { tokens: [NonNull::dangling(); _], reasons: [0; _], len: 0 }
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
    /// The owner's, and nobody has them any more.
    #[inline(never)]
    unsafe fn end(&self, owner: &'static BufferOwner, dropped: &mut dyn FnMut(u32, u64)) {
        // SAFETY: the caller's promise.
        unsafe { owner.release_all(&self.tokens[..self.len]) };
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
            // SAFETY: a token of its owner's, whose buffer is the caller's alone.
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
            // SAFETY: tokens of their owner's.
            None => batch.tokens[before..].iter().map(|t| unsafe { read_extent(*t) }.len).sum(),
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
    discarded: &mut Discarded,
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
        discarded.push(*token, packet.reason, drop);
        batch.push(*token, packet.len());
        at += 1;
    }
    batches[usize::from(SINK)].empty();
    at
}

impl BorrowedBurst {
    /// Moves frames into batches, in order, until one is met that cannot be: each into that of the number which `place`
    /// makes of the one port that it goes to. Only as many of the batches as are `used` have room, and perhaps the
    /// [sink](SINK). Those that are dropped go back to their owner, and `dropped` hears why, and how many. A
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
        let Some(owner) = self.owner else { return 0 };
        let foreign = |batch: &Batch| {
            !batch.is_empty() && !batch.owner.is_some_and(|own| std::ptr::eq(own, owner))
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
        let mut discarded = Discarded::new();
        if valid == 0 {
            let all = Uniform { sizes, room: self.room, least };
            if let Some(route) = Route::of_all(packets)
                && let Some(now) =
                    all.go(tokens, route, &mut batches[usize::from(place(route.port))])
            {
                (at, sizes) = (n, now);
            } else if self.drops {
                // Which of them are dropped, nobody can guess: all are done alike.
                at = among_drops(tokens, packets, batches, &place, &mut discarded);
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
                        // SAFETY: a token of its owner's, whose buffer is this list's alone.
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
                discarded.push(token, packet.reason, true);
            } else {
                let Some(port) = packet.single() else { break };
                let batch = &mut batches[usize::from(place(port))];
                if !batch.has_room() {
                    break;
                }
                let len = match packet.shift {
                    0 => packet.len(),
                    // SAFETY: a token of its owner's, whose buffer is this list's alone.
                    by => unsafe { shift_counted(token, by, least, &mut sizes) },
                };
                let bit = u128::from(valid.unbounded_shr(at as u32) & 1);
                batch.valid |= bit.unbounded_shl(batch.tokens.len() as u32);
                batch.push(token, len);
            }
            at += 1;
        }
        self.drops = discarded.len > 0;
        if self.drops {
            // SAFETY: the owner's, and nobody has them any more.
            unsafe { discarded.end(owner, dropped) };
        }
        for batch in batches[..used].iter_mut().filter(|batch| !batch.is_empty()) {
            batch.owner = Some(owner);
            let own = &mut batch.sizes;
            (own.least, own.most) = (own.least.min(sizes.least), own.most.max(sizes.most));
        }
        if at < n {
            self.keep(at, n);
        } else {
            (self.owner, self.valid, self.sizes) = (None, 0, Sizes::default());
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
            // SAFETY: a token of its owner's.
            self.sizes.add(unsafe { read_extent(*token) }.len as u16);
        }
    }
}
