//! Sending many frames at once past a socket's transmit ring: frames of an XDP program's test run that really leave.
//!
//! A driver that cannot send from a socket's memory, veth's among them, has the kernel build a packet (`sk_buff`) of
//! each descriptor of a transmit ring, which the interface at the other end then takes apart again: that is most of
//! what such a frame costs. `BPF_PROG_TEST_RUN` with `BPF_F_TEST_XDP_LIVE_FRAMES` (Linux 5.18) makes XDP frames from
//! pages that it recycles, and hands them to the driver as a redirect would. The program
//! ([`program::receive_and_send`]) fills each with the next of the slots that lie in a map that we share with it.
//!
//! A call costs some 20 us, most of them the making of a pool of pages, and then a fraction of what the ring takes for
//! a frame; so it is for bursts ([`LIVE_MIN`]). The program that is run must be attached somewhere, as the kernel would
//! otherwise rewrite its table of attached programs twice a call and wait for every processor each time; it is the
//! one that receives on the interface.
//!
//! Whether frames can leave so is the interface's to say ([`port::link::XdpFeatures`]): a veth takes them only while the
//! one at its other end polls (it has an XDP program, or GRO is on). What it does not take is lost without a word.
//!
//! Invariants: slots and header are written only while no run is under way, as a run is a call of ours made under
//! `&mut`. A frame is counted as sent if the program has taken its slot.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::sys::{self, Mapping};

/// Frames that a run may have, at most.
pub(crate) const LIVE_MAX: usize = 256;
/// Fewer leave by the ring: a run costs as much as about so many frames there.
pub(crate) const LIVE_MIN: usize = 24;
/// Room for a frame.
pub(crate) const SLOT_BYTES: usize = 2048;
/// Before the slots: the number of the next one, and the length of all frames.
pub(crate) const HEADER_BYTES: usize = 64;
const NEXT: usize = 0;
const LEN: usize = 4;
/// What a map holds.
pub(crate) const MAP_BYTES: usize = HEADER_BYTES + LIVE_MAX * SLOT_BYTES;
/// The shortest frame that a run makes.
const LEN_MIN: usize = 14;
/// Frames that go to the driver together; a veth's ring holds 256.
const BATCH: u32 = 64;

/// The maps that the program needs, before there is one.
pub(crate) struct Maps {
    slots: OwnedFd,
    mapping: Mapping,
    /// Of one entry, the interface: whichever namespace a run is made in, frames leave by this one.
    target: OwnedFd,
}

/// The slots, and the program that sends them.
pub(crate) struct Live {
    maps: Maps,
    program: OwnedFd,
    /// Frames in the slots.
    filled: usize,
    len: usize,
}

impl Maps {
    /// For an interface of this thread's namespace.
    pub(crate) fn new(ifindex: u32) -> io::Result<Maps> {
        let slots = sys::create_shared_array(MAP_BYTES as u32)?;
        let mapping = Mapping::of_map(slots.as_fd(), MAP_BYTES)?;
        let target = sys::create_device_map()?;
        sys::set_map_u32(target.as_fd(), 0, ifindex)?;
        Ok(Maps { slots, mapping, target })
    }

    /// What holds the slots.
    pub(crate) fn slots(&self) -> &OwnedFd {
        &self.slots
    }

    /// What holds the interface.
    pub(crate) fn target(&self) -> &OwnedFd {
        &self.target
    }
}

impl Live {
    /// With a program that was made for these maps, and is attached.
    pub(crate) fn new(maps: Maps, program: OwnedFd) -> Live {
        Live { maps, program, filled: 0, len: 0 }
    }

    /// Whether frames of this length can be sent.
    pub(crate) fn fits(len: usize) -> bool {
        (LEN_MIN..=SLOT_BYTES).contains(&len)
    }

    /// Forgets what the slots hold: frames of `len` bytes follow.
    pub(crate) fn begin(&mut self, len: usize) {
        self.filled = 0;
        self.len = len.clamp(LEN_MIN, SLOT_BYTES);
    }

    /// Fills the next slot, if there is one and the frame is as long as was said.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        if self.filled == LIVE_MAX || bytes.len() != self.len {
            return false;
        }
        let slot = self.slot(self.filled);
        // SAFETY: `slot` has room for `SLOT_BYTES` within the mapping and `len` is not more; `&mut self` says that no
        // run reads it now; `bytes` is memory of our own and not the map's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), slot.as_ptr(), bytes.len()) };
        self.filled += 1;
        true
    }

    /// Sends what the slots hold: how many frames the program took, and what stopped it before the last.
    pub(crate) fn run(&mut self) -> (usize, io::Result<()>) {
        let frames = self.filled as u32;
        self.word(NEXT).store(0, Relaxed);
        self.word(LEN).store(self.len as u32, Relaxed);
        let (mut taken, mut done) = (0, Ok(()));
        while taken < frames && done.is_ok() {
            let before = taken;
            done = sys::run_live(self.program.as_fd(), self.len as u32, frames - taken, BATCH);
            // A driver or a peer that wrote more there would be one that breaks the kernel's bounds.
            taken = self.word(NEXT).load(Relaxed).min(frames);
            match &done {
                // A signal ends a run between two batches.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => done = Ok(()),
                Ok(()) if taken == before => {
                    done = Err(io::Error::other("the program took no frame"))
                }
                _ => {}
            }
        }
        self.filled = 0;
        (taken as usize, done)
    }

    fn slot(&self, index: usize) -> NonNull<u8> {
        let at = HEADER_BYTES + index.min(LIVE_MAX - 1) * SLOT_BYTES;
        // SAFETY: a slot that ends within the `MAP_BYTES` of the mapping.
        unsafe { self.maps.mapping.start().add(at) }
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: within the header, aligned; the program reads and writes it as one word, too.
        unsafe { AtomicU32::from_ptr(self.maps.mapping.start().as_ptr().add(at).cast()) }
    }
}
