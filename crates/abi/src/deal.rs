//! Where a packet goes, said by code in one octet, so that whoever sends need not look at packets again.
//!
//! A worker gives each port that frames can be dealt to a *place* ([`Ways`]). Code writes the place of each packet that
//! goes to one of these as one frame ([`Dealt`]); a frame that is lent by its driver it moves within its buffer, too, as the
//! driver's [`Mbuf`] says. All else stays [`NOWHERE`], and what is to become of it stands in its packet alone.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;

/// Packets in a burst, at most.
pub const BURST_MAX: usize = 64;
/// No place: what becomes of the packet stands in its outcome.
pub const NOWHERE: u8 = u8::MAX;
/// The place of what is dropped.
pub const SINK: u8 = u8::MAX - 1;
/// Port numbers below this have places.
pub const PORTS_NEAR: usize = 256;
/// A frame that had so many octets or more has no fewer when it leaves: zeros follow.
pub const FRAME_MIN: u32 = 60;

/// By port: its place; then [`NOWHERE`] for all others.
pub type Places = [u8; PORTS_NEAR + 1];

/// No port has a place.
static NO_PLACES: Places = [NOWHERE; PORTS_NEAR + 1];

/// What there is to say of a frame that its driver lends, as DPDK lays an mbuf out. So it is constants of the code that say where
/// things stand, and nothing that is read for each frame.
#[derive(Debug)]
#[repr(C)]
pub struct Mbuf {
    /// The buffer's address.
    pub buffer: *mut u8,
    /// The owner's own, as are all that are named so.
    pub own1: u64,
    /// Where in the buffer the frame begins.
    pub start: u16,
    /// Users of the buffer; the owner's to look at, as are the next two.
    pub references: u16,
    /// Buffers that the frame lies in.
    pub segments: u16,
    /// See [`own1`](Self::own1).
    pub own2: u16,
    /// What the device says of the frame, in the owner's words.
    pub flags: u64,
    /// See [`own1`](Self::own1).
    pub own3: u32,
    /// The frame's bytes.
    pub len: u32,
    /// Those of them that are in this buffer: all.
    pub len_here: u16,
    /// See [`own1`](Self::own1).
    pub own4: [u16; 6],
    /// The buffer's bytes.
    pub buffer_len: u16,
}

const _: () = {
    use std::mem::offset_of;
    // As `struct mr_mbuf` has them, of which the C compiler asserts that an mbuf does.
    assert!(offset_of!(Mbuf, start) == 16 && offset_of!(Mbuf, flags) == 24);
    assert!(offset_of!(Mbuf, len) == 36 && offset_of!(Mbuf, len_here) == 40);
    assert!(offset_of!(Mbuf, buffer_len) == 54 && size_of::<*mut u8>() == 8);
};

impl Default for Mbuf {
    /// Of an empty buffer.
    fn default() -> Mbuf {
        Mbuf {
            buffer: std::ptr::dangling_mut(),
            own1: 0,
            start: 0,
            references: 1,
            segments: 1,
            own2: 0,
            flags: 0,
            own3: 0,
            len: 0,
            len_here: 0,
            own4: [0; 6],
            buffer_len: 0,
        }
    }
}

/// Where the packets of a burst may be dealt to.
#[derive(Clone, Copy, Debug)]
pub struct Ways<'a> {
    places: &'a Places,
    /// Of each packet the driver's [`Mbuf`], if there are such.
    mbufs: *const NonNull<()>,
    /// The packets, and how many.
    of: (*const (), usize),
    lent: PhantomData<&'a [NonNull<()>]>,
}

impl<'a> Ways<'a> {
    /// Nowhere.
    #[inline]
    pub const fn none() -> Ways<'static> {
        let (null, of) = (std::ptr::null(), (std::ptr::null(), 0));
        Ways { places: &NO_PLACES, mbufs: null, of, lent: PhantomData }
    }

    /// To these places, for packets that are lent, which code moves. They have as many [`Mbuf`]s.
    ///
    /// # Safety
    /// Each of these points to the [`Mbuf`] of the packet with its number, which says rightly where in its buffer the packet
    /// lies; nobody else reads or writes it as long as this is used, and packets stay at their places.
    #[inline(always)]
    pub unsafe fn lent<P>(places: &'a Places, mbufs: &'a [NonNull<()>], packets: &[P]) -> Ways<'a> {
        let of = (packets.as_ptr().cast(), mbufs.len());
        Ways { places, mbufs: mbufs.as_ptr(), of, lent: PhantomData }
    }

    /// The same for these packets: nowhere, if they are not those that it was made for.
    #[inline(always)]
    #[must_use]
    pub fn of<P>(self, packets: &[P]) -> Ways<'a> {
        match self.of.0 == packets.as_ptr().cast() && packets.len() <= self.of.1 {
            true => self,
            false => Ways::none(),
        }
    }

    /// By port.
    #[inline(always)]
    pub const fn places(&self) -> *const u8 {
        self.places.as_ptr()
    }

    /// By packet, or null.
    #[inline(always)]
    pub const fn mbufs(&self) -> *const NonNull<()> {
        self.mbufs
    }
}

/// Where code has dealt the packets of a burst to.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Dealt {
    /// By packet: its place.
    pub places: [u8; BURST_MAX],
    /// Not zero: a frame was moved, as its [`Mbuf`] says.
    pub moved: u32,
    /// Padding.
    pub reserved: [u32; 15],
}

impl Dealt {
    /// Nowhere.
    pub const NONE: Dealt = Dealt { places: [NOWHERE; BURST_MAX], moved: 0, reserved: [0; 15] };

    /// Each of the first so many packets has a place below `used`, or is dropped.
    #[inline(always)]
    pub fn is_complete(&self, n: usize, used: u8) -> bool {
        // Looked at all at once.
        let odd = |(at, place): (usize, &u8)| at < n && *place >= used && *place != SINK;
        !self.places.iter().enumerate().fold(false, |any, place| any | odd(place))
    }
}
