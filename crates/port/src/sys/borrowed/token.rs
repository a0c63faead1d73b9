//! A driver's token, and the place of its frame that it names.
#![allow(unsafe_code)]

use crate::burst::Burst;
use crate::frame::Frame;
use crate::offload::Csum;
use crate::sys::buffer::{Buffer, BufferOwner, Mbuf};
use abi::Packet;
use std::ptr::NonNull;

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
    pub(super) const NONE: Sizes = Sizes { bytes: 0, least: u16::MAX, most: 0 };

    /// There is one more.
    #[inline(always)]
    pub fn add(&mut self, len: u16) {
        self.bytes += u32::from(len);
        (self.least, self.most) = (self.least.min(len), self.most.max(len));
    }
}

/// Has the processor fetch what lies there.
#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: a prefetch reads nothing and never faults.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) at,
                options(readonly, nostack, preserves_flags));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Where a token's frame lies.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) buffer: *mut u8,
    pub(super) buffer_len: u16,
    pub(super) start: u16,
    pub(super) len: u32,
}

impl Extent {
    /// Shows the frame as a packet.
    ///
    /// # Safety
    /// Before anybody sees the packet: as [`Packet::show`] demands, the frame being within its buffer.
    #[inline(always)]
    pub(super) unsafe fn show(&self, packet: &mut Packet<'static>, in_port: u32) {
        let start = self.start.into();
        let data = self.buffer.wrapping_add(start);
        // Code reads it when the whole burst is shown, and then cannot go on without.
        prefetch(data);
        // SAFETY: the caller's promise.
        unsafe { packet.show(data, self.start.into(), self.len, in_port) };
    }
}

/// Reads where a token's frame lies.
///
/// # Safety
/// It points to a [`Mbuf`]; what that says is as [`BorrowedBurst`] demands.
#[inline(always)]
pub(super) unsafe fn read_extent(token: NonNull<()>) -> Extent {
    let at = token.cast::<Mbuf>().as_ptr();
    // SAFETY: the caller's promise, for each field.
    unsafe {
        Extent {
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
/// The token points to a [`Mbuf`], which nobody else reads or writes now.
#[inline(always)]
pub(super) unsafe fn write_extent(token: NonNull<()>, start: u16, len: u16) {
    let at = token.cast::<Mbuf>().as_ptr();
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
/// The token points to a [`Mbuf`], and to a buffer with a frame in it, which nobody else reads or
/// writes now.
pub(super) unsafe fn shift(token: NonNull<()>, by: i32, least: u16) -> u16 {
    // SAFETY: the caller's promise.
    let extent = unsafe { read_extent(token) };
    // Within the buffer, which has less than 64 KiB.
    let end = (u32::from(extent.start) + extent.len).min(extent.buffer_len.into()) as u16;
    let start = u32::from(extent.start).saturating_add_signed(by).min(end.into()) as u16;
    let mut len = end - start;
    if len < least && extent.len >= least.into() {
        let more = (extent.buffer_len - end).min(least - len);
        // SAFETY: so many bytes from the frame's end on lie in its buffer, which is initialised memory and the
        // caller's alone.
        unsafe { extent.buffer.add(end.into()).write_bytes(0, more.into()) };
        len += more;
    }
    // SAFETY: the caller's promise; the frame still lies within its buffer.
    unsafe { write_extent(token, start, len) };
    len
}

pub(super) fn csum(valid: u128, at: usize) -> Csum {
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
pub(super) unsafe fn shift_a_little(
    token: NonNull<()>,
    packet: &Packet<'_>,
    least: u16,
) -> Option<u32> {
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
        let extent = unsafe { read_extent(token) };
        let (end, more) = (u32::from(extent.start) + was, i32::from(least) - len);
        let room = end + ZEROS <= extent.buffer_len.into();
        if was < least.into() || more > ZEROS as i32 || !room {
            return None;
        }
        // SAFETY: so many bytes from the frame's end on lie in its buffer, which is the caller's alone.
        unsafe { extent.buffer.add(end as usize).cast::<[u8; ZEROS as usize]>().write([0; _]) };
        len += more;
    }
    // SAFETY: the caller's promise; the frame lies within its buffer, which has less than 64 KiB.
    unsafe { write_extent(token, start as u16, len as u16) };
    Some(len as u32)
}

/// As [`shift`], and counts among `sizes` how long the frame is then.
///
/// # Safety
/// As for [`shift`].
// Not within the loop that deals: it needs all registers there are.
#[inline(never)]
pub(super) unsafe fn shift_counted(
    token: NonNull<()>,
    by: i32,
    least: u16,
    sizes: &mut Sizes,
) -> u32 {
    // SAFETY: the caller's promise.
    let len = unsafe { shift(token, by, least) };
    (sizes.least, sizes.most) = (sizes.least.min(len), sizes.most.max(len));
    len.into()
}

/// Makes frames of what tokens stand for.
///
/// # Safety
/// They are tokens of its owner's, as [`BorrowedBurst::push`] demands, and nobody has them any more.
pub(super) unsafe fn frames(
    owner: &'static BufferOwner,
    tokens: impl Iterator<Item = NonNull<()>>,
    valid: u128,
    burst: &mut Burst,
) {
    for (at, token) in tokens.enumerate() {
        // SAFETY: the caller's promise.
        let Extent { buffer, buffer_len, start, len } = unsafe { read_extent(token) };
        // Within the buffer, so not longer than that.
        let place = (start, len as u16);
        // SAFETY: there is a buffer.
        let buffer = unsafe { NonNull::new_unchecked(buffer) };
        // SAFETY: as was promised when it was added.
        let buffer = unsafe { Buffer::borrowed(owner, token, buffer, buffer_len, place) };
        drop(burst.push(Frame::borrowed_in(buffer, csum(valid, at))));
    }
}

/// Gives frames back.
pub(super) fn release_all(owner: Option<&'static BufferOwner>, tokens: &mut Vec<NonNull<()>>) {
    let Some(owner) = owner else { return };
    // SAFETY: nobody has them any more, and they leave the list.
    unsafe { owner.release_all(tokens) };
    tokens.clear();
}
