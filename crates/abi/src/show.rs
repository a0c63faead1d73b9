//! Packets that are shown in the same places, burst after burst.

#![allow(unsafe_code)]

use super::{Packet, status};

impl Packet<'_> {
    /// Shows another packet in this one's place, with which nothing was done yet. Where it would go is not erased, as
    /// [`outputs_len`](super::Outcome::outputs_len) says that it goes nowhere.
    ///
    /// # Safety
    /// Before the packet gets to generated code: `len` bytes from `data` on, and `headroom` in front of them, are
    /// initialised memory of one buffer that nobody else reads or writes for as long as the packet lives or until
    /// another is shown in its place.
    #[inline(always)]
    pub unsafe fn show(&mut self, data: *mut u8, headroom: u32, len: u32, in_port: u32) {
        (self.data, self.len, self.headroom, self.in_port) = (data, len, headroom, in_port);
        let outcome = &mut self.outcome;
        (outcome.status, outcome.outputs_len) = (status::PENDING, 0);
        (outcome.changed, outcome.laid) = (0, 0);
        (outcome.reason, outcome.lookups, outcome.shift) = (0, 0, 0);
    }
}
