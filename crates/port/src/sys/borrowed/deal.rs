//! Dealing: each frame of a burst into the batch of the port that it goes to.
//!
//! Nearly always code has said where ([`abi::deal`]), and frames lie there already: then tokens are all that is touched
//! ([`BorrowedBurst::deal_as`]). Otherwise packets are looked at ([`BorrowedBurst::deal`]).
#![allow(unsafe_code)]

use super::BorrowedBurst;
use super::batch::{Batch, PLACES};
use super::token::{Sizes, read_extent, shift_a_little, shift_counted};
use crate::burst::BURST_MAX;
use crate::sys::buffer::BufferOwner;
use abi::deal::SINK;
use abi::{Dealt, status};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::slice;

/// Frames of a burst that are dropped, and why.
struct Discarded {
    /// As many as there are of these were written.
    tokens: [MaybeUninit<NonNull<()>>; BURST_MAX],
    reasons: [MaybeUninit<u32>; BURST_MAX],
    len: usize,
}

impl Discarded {
    #[inline(always)]
    fn new() -> Discarded {
        let (tokens, reasons) = ([MaybeUninit::uninit(); _], [MaybeUninit::uninit(); _]);
        Discarded { tokens, reasons, len: 0 }
    }

    /// Adds one; there are no more of them than a burst has.
    #[inline(always)]
    fn push(&mut self, token: NonNull<()>, reason: u32) {
        self.tokens[self.len].write(token);
        self.reasons[self.len].write(reason);
        self.len += 1;
    }

    /// Gives them back, and says why.
    ///
    /// # Safety
    /// The owner's, and nobody has them any more.
    #[inline(never)]
    unsafe fn end(&self, owner: &'static BufferOwner, dropped: &mut dyn FnMut(u32, u64)) {
        // SAFETY: so many were written.
        let (tokens, reasons) = unsafe {
            let (tokens, reasons) = (self.tokens.as_ptr().cast(), self.reasons.as_ptr().cast());
            (slice::from_raw_parts(tokens, self.len), slice::from_raw_parts(reasons, self.len))
        };
        // SAFETY: the caller's promise.
        unsafe { owner.release_all(tokens) };
        for alike in reasons.chunk_by(|a: &u32, b| a == b) {
            dropped(alike[0], alike.len() as u64);
        }
    }
}

/// So many batches are filled without reading how full they are for each frame.
const FEW: usize = 9;
/// Bits of a number of frames in [`Sorted::of`]: fewer than a burst has.
const COUNT_BITS: usize = BURST_MAX.trailing_zeros() as usize;
const _: () = assert!((FEW + 1) * COUNT_BITS <= 64 && FEW < SINK as usize);

/// All batches have room for so many more.
fn has_room(batches: &[Batch], n: usize) -> bool {
    batches.iter().all(|batch| batch.room - batch.tokens.len() >= n)
}

/// How many frames of a burst that does not go one way went to each of the first places, and to the sink.
struct Sorted(u64);

impl Sorted {
    /// Writes each frame behind the end of its place, that of the sink being the last.
    ///
    /// How many have gone to each place stands in one register. If that stood in memory, it would be read soon after it
    /// was written where the next frame goes to the same port, and else not, which a processor cannot guess either.
    ///
    /// # Safety
    /// Behind the end of each place that occurs is room for as many tokens.
    #[inline(always)]
    unsafe fn of(
        tokens: &[NonNull<()>],
        places: &[u8],
        ends: &[*mut NonNull<()>; FEW + 1],
    ) -> Sorted {
        let mut counts = 0u64;
        for (token, place) in tokens.iter().zip(places) {
            let place = usize::from(*place).min(FEW);
            let bit = place * COUNT_BITS;
            // SAFETY: the caller's promise.
            unsafe { ends[place].add((counts >> bit) as usize % BURST_MAX).write(*token) };
            counts += 1 << bit;
        }
        Sorted(counts)
    }

    fn count(&self, place: usize) -> usize {
        (self.0 >> (place * COUNT_BITS)) as usize % BURST_MAX
    }
}

/// How long frames are, as their tokens say.
#[inline(always)]
fn sizes_of(tokens: &[NonNull<()>]) -> Sizes {
    let mut sizes = Sizes::NONE;
    for token in tokens {
        // SAFETY: a token of its owner's. No frame is longer than its buffer.
        sizes.add(unsafe { read_extent(*token) }.len as u16);
    }
    sizes
}

impl BorrowedBurst {
    /// Moves frames into batches, in order, until one is met that cannot be: each into that of the number which `place`
    /// makes of the one port that it goes to. Only as many of the batches as are `used` have room. Those that are dropped go back to their owner, and `dropped` hears why, and how many. A
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
                discarded.push(token, packet.reason);
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
        if discarded.len > 0 {
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

    /// Moves all frames to where code has dealt them ([`abi::deal`]): batches of these places, or back to their owner. False, with
    /// nothing done, if it has not dealt all of them to batches that are `used`, or if one of these has not room for all.
    #[inline(always)]
    pub fn deal_as(
        &mut self,
        (batches, used): (&mut [Batch; PLACES], usize),
        dealt: &Dealt,
        dropped: &mut dyn FnMut(u32, u64),
    ) -> bool {
        let n = self.tokens.len().min(self.packets.len()).min(BURST_MAX);
        let Some(owner) = self.owner else { return false };
        let used = used.min(usize::from(SINK));
        let others = |batch: &Batch| batch.owner.is_some_and(|own| !std::ptr::eq(own, owner));
        if n < self.tokens.len()
            || self.valid != 0
            || !dealt.is_complete(n, used as u8)
            || !has_room(&batches[..used], n)
            || batches[..used].iter().any(|batch| !batch.is_empty() && others(batch))
        {
            return false;
        }
        // Whatever happens here, no token is in two lists: at worst some are lost.
        // SAFETY: none is fewer than there are.
        unsafe { self.tokens.set_len(0) };
        // SAFETY: so many were there, and they stay where they are.
        let tokens = unsafe { std::slice::from_raw_parts(self.tokens.as_ptr(), n) };
        let (packets, places) = (&self.packets[..n], &dealt.places[..n]);
        let sizes = match dealt.moved {
            0 => self.sizes,
            _ => sizes_of(tokens),
        };
        let first = places.first().copied().unwrap_or(SINK);
        let mut discarded = Discarded::new();
        if places.iter().fold(true, |same, place| same & (*place == first)) {
            match first {
                SINK => tokens
                    .iter()
                    .zip(packets)
                    .for_each(|(token, packet)| discarded.push(*token, packet.reason)),
                _ => {
                    let batch = &mut batches[usize::from(first)];
                    batch.tokens.extend_from_slice(tokens);
                    batch.sizes.bytes += sizes.bytes;
                }
            }
        } else if used <= FEW {
            let mut ends = [std::ptr::null_mut::<NonNull<()>>(); FEW + 1];
            for (end, batch) in ends.iter_mut().zip(&mut batches[..used]) {
                *end = batch.tokens.spare_capacity_mut().as_mut_ptr().cast();
            }
            ends[FEW] = discarded.tokens.as_mut_ptr().cast();
            // SAFETY: places are those of batches that are used, each of which has room for all, or the sink, and those that are
            // dropped are no more than a burst.
            let sorted = unsafe { Sorted::of(tokens, places, &ends) };
            for (place, batch) in batches[..used].iter_mut().enumerate() {
                let (before, n) = (batch.tokens.len(), sorted.count(place));
                if n == 0 {
                    continue;
                }
                // SAFETY: so many were written behind those that were there.
                unsafe { batch.tokens.set_len(before + n) };
                batch.sizes.bytes += match sizes.least == sizes.most {
                    true => n as u32 * u32::from(sizes.least),
                    false => sizes_of(&batch.tokens[before..]).bytes,
                };
            }
            discarded.len = sorted.count(FEW);
            if discarded.len > 0 {
                let mut at = 0;
                for (packet, place) in packets.iter().zip(places) {
                    discarded.reasons[at % BURST_MAX].write(packet.reason);
                    at += usize::from(*place == SINK);
                }
            }
        } else {
            for ((token, packet), place) in tokens.iter().zip(packets).zip(places) {
                if *place == SINK {
                    discarded.push(*token, packet.reason);
                    continue;
                }
                // SAFETY: a token of its owner's.
                batches[usize::from(*place)].push(*token, unsafe { read_extent(*token) }.len);
            }
        }
        if discarded.len > 0 {
            // SAFETY: the owner's, and nobody has them any more.
            unsafe { discarded.end(owner, dropped) };
        }
        for batch in batches[..used].iter_mut().filter(|batch| !batch.is_empty()) {
            batch.owner = Some(owner);
            let own = &mut batch.sizes;
            (own.least, own.most) = (own.least.min(sizes.least), own.most.max(sizes.most));
        }
        (self.owner, self.valid, self.sizes) = (None, 0, Sizes::default());
        true
    }

    /// Code has dealt these frames, and not all of them go there: packets say of those that it has moved where they are now.
    #[cold]
    pub fn forget_dealt(&mut self, dealt: &Dealt) {
        if dealt.moved == 0 {
            return;
        }
        for ((token, packet), place) in self.tokens.iter().zip(&mut self.packets).zip(&dealt.places)
        {
            if *place < SINK && packet.shift != 0 {
                // SAFETY: a token of its owner's.
                let extent = unsafe { read_extent(*token) };
                packet.was_moved(extent.start.into(), extent.len);
                self.sizes.add(extent.len as u16);
            }
        }
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
