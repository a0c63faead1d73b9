//! Frames that are known by their lender's tokens alone.
//!
//! A driver that keeps beside its buffers what there is to say of a frame (DPDK's mbufs do) need not have
//! it copied: the shortest way through a worker carries pointers. [`Loans`] is a burst of them, and what is
//! gathered for a port, too.
//!
//! Invariant: all tokens in a list are of its lender, which has a layout, and each stands for a buffer that
//! nobody else has; within it lies the frame. An empty list may have any lender.
#![allow(unsafe_code)]

use super::buffer::{Buffer, Layout, Lender};
use crate::{BURST_MAX, Burst, Csum, Frame};
use std::ptr::NonNull;

/// Frames in buffers of a driver's own, in order of arrival, of which nobody has made [`Frame`]s. Nothing is
/// owed of them, and of no mark is anything known. Those that are left when it ends go back to their lender.
#[derive(Debug, Default)]
pub struct Loans {
    lender: Option<&'static Lender>,
    tokens: Vec<NonNull<()>>,
    sizes: Sizes,
    /// A bit for each of the first 64: the device vouches for the transport checksum.
    valid: u64,
}

// SAFETY: each token is the only way to its buffer, which may be used and released on any thread.
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
        Sizes { bytes: 0, least: u16::MAX, most: 0 }
    }
}

impl Sizes {
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
    buffer: NonNull<u8>,
    buffer_len: u16,
    start: u16,
    len: u16,
}

/// Reads what a token says.
///
/// # Safety
/// It points to a structure of this layout; what it says is as [`Loans`] demands.
#[inline(always)]
unsafe fn said(layout: &Layout, token: NonNull<()>) -> Said {
    // SAFETY: the caller's promise, for each field.
    unsafe {
        let at = token.cast::<u8>();
        Said {
            buffer: at.add(layout.buffer).cast::<NonNull<u8>>().read(),
            buffer_len: at.add(layout.buffer_len).cast::<u16>().read(),
            start: at.add(layout.start).cast::<u16>().read(),
            // Within the buffer, so not longer than that.
            len: at.add(layout.len).cast::<u32>().read() as u16,
        }
    }
}

/// Says where in its buffer a frame lies.
///
/// # Safety
/// The token points to a structure of this layout, which nobody else reads or writes now.
#[inline(always)]
unsafe fn say(layout: &Layout, token: NonNull<()>, start: u16, len: u16) {
    // SAFETY: the caller's promise, for each field.
    unsafe {
        let at = token.cast::<u8>();
        at.add(layout.start).cast::<u16>().write(start);
        at.add(layout.len).cast::<u32>().write(len.into());
        if let Some(len_here) = layout.len_here {
            at.add(len_here).cast::<u16>().write(len);
        }
    }
}

/// Has a frame begin `by` bytes later, or earlier where that is negative; it ends where it did. One that had `least`
/// bytes or more has no fewer then: zeros follow. So much of it is done as the buffer has room for.
///
/// # Safety
/// The token points to a structure of this layout, and to a buffer with a frame in it, which nobody else reads or
/// writes now.
unsafe fn shift(layout: &Layout, token: NonNull<()>, by: i16, least: u16) {
    // SAFETY: the caller's promise.
    let said = unsafe { said(layout, token) };
    let end = said.start.saturating_add(said.len).min(said.buffer_len);
    let start = said.start.saturating_add_signed(by).min(end);
    let mut len = end - start;
    if len < least && said.len >= least {
        let more = (said.buffer_len - end).min(least - len);
        // SAFETY: so many bytes from the frame's end on lie in its buffer, which is initialised memory and the
        // caller's alone.
        unsafe { said.buffer.add(end.into()).write_bytes(0, more.into()) };
        len += more;
    }
    // SAFETY: the caller's promise; the frame still lies within its buffer.
    unsafe { say(layout, token, start, len) };
}

fn csum(valid: u64, at: usize) -> Csum {
    match valid.unbounded_shr(at as u32) & 1 {
        0 => Csum::None,
        _ => Csum::Valid,
    }
}

/// No frames are without a lender that has a layout.
const NOWHERE: Layout = Layout { buffer: 0, buffer_len: 0, start: 0, len: 0, len_here: None };

impl Loans {
    /// None, with room for a burst.
    pub fn new() -> Loans {
        Loans { tokens: Vec::with_capacity(BURST_MAX), ..Loans::default() }
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

    #[inline(always)]
    fn layout(&self) -> Layout {
        self.lender.and_then(|lender| lender.layout).unwrap_or(NOWHERE)
    }

    /// Adds a frame. `valid`: the device vouches for its transport checksum.
    ///
    /// # Safety
    /// `lender` has a layout, and is the same for all in the list; the token stands for a buffer of its own,
    /// initialised memory that any thread may read and write and nobody else touches until it was released or
    /// taken out; the frame lies within it, and the buffer has less than 64 KiB.
    #[inline(always)]
    pub unsafe fn push(&mut self, lender: &'static Lender, token: NonNull<()>, valid: bool) {
        self.lender = Some(lender);
        self.vouch(valid);
        // SAFETY: a token of this layout.
        self.sizes.add(unsafe { said(&self.layout(), token) }.len);
        self.tokens.push(token);
    }

    /// Notes whether the device vouches for the next one's checksum.
    #[inline(always)]
    fn vouch(&mut self, valid: bool) {
        self.valid |= u64::from(valid).unbounded_shl(self.tokens.len() as u32);
    }

    /// For each frame the whole buffer, where in it the bytes begin, and how many they are.
    #[inline(always)]
    pub fn parts_mut(&mut self) -> impl ExactSizeIterator<Item = (&mut [u8], usize, usize)> {
        let layout = self.layout();
        self.tokens.iter().map(move |token| {
            // SAFETY: a token of this layout.
            let said = unsafe { said(&layout, *token) };
            // SAFETY: initialised bytes that this token alone leads to, and each token is in the list once;
            // the list is borrowed exclusively.
            let buffer = unsafe {
                std::slice::from_raw_parts_mut(said.buffer.as_ptr(), said.buffer_len.into())
            };
            (buffer, said.start.into(), said.len.into())
        })
    }

    /// How long they are. Of frames that were dealt, `least` and `most` are those of all that were dealt with them.
    #[inline(always)]
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// What is known of each frame's transport checksum.
    pub fn csums(&self) -> impl ExactSizeIterator<Item = Csum> {
        (0..self.len()).map(|at| csum(self.valid, at))
    }

    /// Adds frames, of whose checksums nothing is known, to an empty list. `sizes`: how long they are.
    ///
    /// # Safety
    /// As for [`push`](Self::push), for each.
    #[inline(always)]
    pub unsafe fn extend(&mut self, lender: &'static Lender, tokens: &[NonNull<()>], sizes: Sizes) {
        (self.lender, self.sizes) = (Some(lender), sizes);
        self.tokens.extend_from_slice(tokens);
    }

    /// Moves the frames into lists: the n-th into that which the n-th of `places` names, or back to the lender if
    /// there is none such. The lists are empty, or hold frames of the same lender.
    ///
    /// Before that, the n-th begins the n-th of `by` bytes later, or earlier where that is negative, and ends where
    /// it did; but one that had `least` bytes or more has no fewer then: zeros follow. `by` may be shorter than the
    /// list. Never does a frame leave its buffer.
    // On its own, so that a few registers hold all that its loop needs.
    #[inline(never)]
    pub fn deal(&mut self, places: &[u16], by: &[i16], least: u16, lists: &mut [Loans]) {
        let layout = self.layout();
        let Some(lender) = self.lender.take() else { return };
        let valid = std::mem::take(&mut self.valid);
        let mut sizes = Sizes::default();
        self.sizes = sizes;
        let foreign = |list: &Loans| {
            !list.is_empty() && !list.lender.is_some_and(|own| std::ptr::eq(own, lender))
        };
        let lists = match lists.iter().any(foreign) {
            true => &mut [],
            false => lists,
        };
        for (at, token) in self.tokens.drain(..).enumerate() {
            let place = places.get(at).copied().unwrap_or(u16::MAX);
            if let Some(by) = by.get(at)
                && *by != 0
            {
                // SAFETY: a token of this layout, whose buffer is this list's alone.
                unsafe { shift(&layout, token, *by, least) };
            }
            match lists.get_mut(usize::from(place)) {
                Some(list) => {
                    // SAFETY: a token of this layout.
                    let len = unsafe { said(&layout, token) }.len;
                    sizes.add(len);
                    list.sizes.bytes += u32::from(len);
                    if valid != 0 {
                        list.vouch(valid.unbounded_shr(at as u32) & 1 != 0);
                    }
                    list.tokens.push(token);
                }
                // SAFETY: nobody has it any more.
                None => unsafe { lender.release(token) },
            }
        }
        for list in lists.iter_mut().filter(|list| !list.is_empty()) {
            list.lender = Some(lender);
            list.sizes.least = list.sizes.least.min(sizes.least);
            list.sizes.most = list.sizes.most.max(sizes.most);
        }
    }

    /// Makes frames of all of them, behind those of a burst that has room for them.
    pub fn become_frames(&mut self, burst: &mut Burst) {
        let (layout, valid) = (self.layout(), std::mem::take(&mut self.valid));
        self.sizes = Sizes::default();
        let Some(lender) = self.lender.take() else { return };
        for (at, token) in self.tokens.drain(..).enumerate() {
            // SAFETY: a token of this layout, which leaves the list.
            let Said { buffer, buffer_len, start, len } = unsafe { said(&layout, token) };
            // SAFETY: as was promised when it was added.
            let buffer = unsafe { Buffer::lent(lender, token, buffer, buffer_len, (start, len)) };
            drop(burst.push(Frame::lent_in(buffer, csum(valid, at))));
        }
    }

    /// Hands all to their lender without a release, if it is this one; else nothing happens, and there is none.
    /// Their bytes may have changed since they were lent, and where they begin: their tokens say so. Those that
    /// are not taken from the iterator are lost.
    #[inline(always)]
    pub fn redeem(&mut self, lender: &'static Lender) -> Option<std::vec::Drain<'_, NonNull<()>>> {
        if !self.lender.is_some_and(|own| std::ptr::eq(own, lender)) {
            return None;
        }
        (self.lender, self.valid, self.sizes) = (None, 0, Sizes::default());
        Some(self.tokens.drain(..))
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        let Some(lender) = self.lender else { return };
        for token in self.tokens.drain(..) {
            // SAFETY: nobody has it any more.
            unsafe { lender.release(token) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// What a driver keeps beside a buffer.
    #[repr(C)]
    struct Kept {
        start: u16,
        buffer_len: u16,
        len: u32,
        buffer: *mut u8,
        len_here: u16,
    }

    const LAYOUT: Layout =
        Layout { buffer: 8, buffer_len: 2, start: 0, len: 4, len_here: Some(16) };

    thread_local! {
        static RELEASED: Cell<usize> = const { Cell::new(0) };
    }

    unsafe fn release(token: NonNull<()>) {
        RELEASED.set(RELEASED.get() + 1);
        // SAFETY: every token of these tests is a box that was leaked for it, and so is its buffer.
        unsafe {
            let kept = Box::from_raw(token.cast::<Kept>().as_ptr());
            drop(Box::from_raw(kept.buffer.cast::<[u8; 512]>()));
        }
    }

    // SAFETY: `release` frees boxes, on any thread; a token is a `Kept`.
    static LENDER: Lender = unsafe { Lender::with_layout("test", release, LAYOUT) };
    // SAFETY: as above.
    static OTHER: Lender = unsafe { Lender::with_layout("other", release, LAYOUT) };

    fn lend(loans: &mut Loans, lender: &'static Lender, bytes: &[u8], valid: bool) {
        let mut memory = Box::new([0u8; 512]);
        memory[100..100 + bytes.len()].copy_from_slice(bytes);
        let buffer = Box::into_raw(memory).cast();
        let (len, len_here) = (bytes.len() as u32, bytes.len() as u16);
        let kept = Kept { start: 100, buffer_len: 512, len, buffer, len_here };
        let token = NonNull::from(Box::leak(Box::new(kept))).cast();
        // SAFETY: memory that nobody else knows of, and a structure of that layout.
        unsafe { loans.push(lender, token, valid) };
    }

    fn datas(burst: &Burst) -> Vec<&[u8]> {
        burst.frames().iter().map(Frame::data).collect()
    }

    /// Where each frame lies, and what is in it; both lengths are the same.
    fn told(loans: &Loans) -> Vec<(u16, Vec<u8>)> {
        let told = loans.tokens.iter().map(|token| {
            // SAFETY: a token of these tests, whose frame lies in 512 bytes.
            let (kept, buffer) = unsafe {
                let kept = token.cast::<Kept>().as_ref();
                (kept, std::slice::from_raw_parts(kept.buffer, 512))
            };
            assert_eq!(kept.len, u32::from(kept.len_here));
            let start = usize::from(kept.start);
            (kept.start, buffer[start..start + kept.len as usize].to_vec())
        });
        told.collect()
    }

    #[test]
    fn frames_begin_elsewhere() {
        let mut loans = Loans::new();
        for bytes in [&b"abcdefgh"[..], b"abcdefgh", b"abcdefgh", b"ab", b"abcdefgh"] {
            lend(&mut loans, &LENDER, bytes, false);
        }
        assert_eq!(loans.sizes(), Sizes { bytes: 34, least: 2, most: 8 });
        // What lies behind a frame is anything.
        loans.parts_mut().for_each(|(buffer, ..)| buffer[108..].fill(9));
        let mut list = [Loans::new()];
        // The last one is not spoken of.
        loans.deal(&[0; 5], &[0, 4, -2, 1], 6, &mut list);
        let was = |start: u16, bytes: &[u8]| (start, bytes.to_vec());
        let expected = [
            was(100, b"abcdefgh"),
            was(104, b"efgh\0\0"),
            was(98, b"\0\0abcdefgh"),
            was(101, b"b"),
            was(100, b"abcdefgh"),
        ];
        assert_eq!(told(&list[0]), expected);
        assert_eq!(list[0].sizes(), Sizes { bytes: 33, least: 1, most: 10 });
        // Never out of the buffer.
        let mut moved = |by: &[i16], least| {
            let [dealt] = &mut list;
            let mut loans = std::mem::take(dealt);
            loans.deal(&[0; 5], by, least, &mut list);
            told(&list[0]).iter().map(|(start, bytes)| (*start, bytes.len())).collect::<Vec<_>>()
        };
        let edges = moved(&[i16::MIN, i16::MAX, -2, 1, 400], 0);
        assert_eq!(edges, [(0, 108), (110, 0), (96, 12), (102, 0), (108, 0)]);
        assert_eq!(moved(&[0, 0, -96], 0)[2], (0, 108));
        assert_eq!(moved(&[100, 0, 108], 50)[..3], [(100, 50), (110, 0), (108, 50)]);
        assert!(moved(&[i16::MAX; 5], u16::MAX).iter().all(|(_, len)| *len == 0));
    }

    #[test]
    fn frames_are_seen_dealt_redeemed_and_released_once() {
        let mut loans = Loans::new();
        for (n, bytes) in [&b"a"[..], b"bc", b"def", b"ghij"].iter().enumerate() {
            lend(&mut loans, &LENDER, bytes, n % 2 == 1);
        }
        assert_eq!((loans.len(), loans.sizes()), (4, Sizes { bytes: 10, least: 1, most: 4 }));
        let valid: Vec<Csum> = loans.csums().collect();
        assert_eq!(valid, [Csum::None, Csum::Valid, Csum::None, Csum::Valid]);
        for (buffer, start, len) in loans.parts_mut() {
            assert_eq!((buffer.len(), start), (512, 100));
            buffer[start..start + len].make_ascii_uppercase();
        }
        let mut lists = [Loans::new(), Loans::new()];
        // The third goes nowhere.
        loans.deal(&[1, 0, 9, 1], &[], 0, &mut lists);
        assert_eq!((loans.len(), RELEASED.get()), (0, 1));
        assert_eq!(loans.sizes(), Sizes::default());
        // Of all that were dealt, none was shorter or longer.
        assert_eq!(lists[1].sizes(), Sizes { bytes: 5, least: 1, most: 4 });
        assert!(lists[1].redeem(&OTHER).is_none());
        let mut burst = Burst::new();
        lists[1].become_frames(&mut burst);
        assert_eq!((datas(&burst), lists[1].len()), (vec![&b"A"[..], b"GHIJ"], 0));
        assert_eq!(burst.frames()[0].headroom(), 100);
        burst.clear();
        assert_eq!(RELEASED.get(), 3);
        let tokens: Vec<_> = lists[0].redeem(&LENDER).unwrap().collect();
        assert_eq!((tokens.len(), lists[0].len(), RELEASED.get()), (1, 0, 3));
        // SAFETY: redeemed, so they are ours again.
        tokens.into_iter().for_each(|token| unsafe { release(token) });
        // A list that was emptied takes another's; while one holds something, all go back.
        lend(&mut loans, &OTHER, b"x", true);
        lend(&mut lists[1], &LENDER, b"z", false);
        loans.deal(&[0], &[], 0, &mut lists);
        assert_eq!((lists[0].len(), lists[1].len(), RELEASED.get()), (0, 1, 5));
        lists[1] = Loans::new();
        lend(&mut loans, &OTHER, b"x", true);
        lend(&mut loans, &OTHER, b"y", true);
        // There are fewer places than frames.
        loans.deal(&[0], &[], 0, &mut lists);
        assert_eq!((lists[0].len(), lists[1].len(), RELEASED.get()), (1, 0, 7));
        lists[0].become_frames(&mut burst);
        assert_eq!(datas(&burst), [b"x"]);
        // What is known of a checksum goes along.
        assert_eq!(burst.frames()[0].offload.csum, Csum::Valid);
        drop(burst);
        drop(lists);
        assert_eq!(RELEASED.get(), 8);
        lend(&mut loans, &OTHER, b"y", true);
        let mut burst = Burst::new();
        loans.become_frames(&mut burst);
        assert_eq!(burst.frames()[0].offload.csum, Csum::Valid);
    }
}
