//! Messages of a burst that are not even noted, since the limit lets none of its port pass.
//!
//! In: before the burst, whether the limit refuses its port; each message as compiled code comes to it. Out: what is counted, and
//! frames of which nothing is left, which are dropped as `punt_rate_limit`.
//!
//! A burst has one time, so what the limit refuses at its start it refuses to its end. A flood of packets for the
//! controller then costs little more than a flood that is dropped.
//!
//! Checked by: `jit`'s `tests/state.rs`; `switch`'s `tests/punts.rs`, which counts every frame.

use crate::notify::HeldBack;
use abi::{BURST_MAX, status};
use ir::DropReason;

/// What is held back of a burst.
#[derive(Clone, Debug)]
pub struct Held {
    active: bool,
    /// By packet: something is.
    some: u64,
    punts: [u8; BURST_MAX],
    digests: [u8; BURST_MAX],
}

impl Default for Held {
    fn default() -> Held {
        Held { active: false, some: 0, punts: [0; BURST_MAX], digests: [0; BURST_MAX] }
    }
}

impl Held {
    /// Another burst begins, whose messages are held back or not.
    #[inline]
    pub fn begin(&mut self, active: bool) {
        self.active = active;
        if self.some != 0 {
            *self = Held { active, ..Held::default() };
        }
    }

    /// A packet of the burst comes to a message: it is held back.
    #[inline]
    pub fn holds_back(&mut self, packet: usize, punt: bool) -> bool {
        if self.active {
            let packet = packet % BURST_MAX;
            self.some |= 1 << packet;
            let count = if punt { &mut self.punts } else { &mut self.digests };
            count[packet] = count[packet].saturating_add(1);
        }
        self.active
    }

    /// Something of the burst was held back.
    #[inline]
    pub fn any(&self) -> bool {
        self.some != 0
    }

    /// What was held back, but for what code has left, which comes to its messages again. Frames of which nothing else is left
    /// are dropped for that.
    pub(crate) fn settle(&self, packets: &mut [abi::Packet<'_>]) -> HeldBack {
        let mut held = HeldBack::default();
        let mut left = self.some;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            let Some(packet) = packets.get_mut(at).filter(|packet| packet.status != status::BAIL)
            else {
                continue;
            };
            let mut punts = u64::from(self.punts[at]);
            if packet.status == status::DROP && punts > 0 {
                // Counted where it is dropped.
                packet.reason = DropReason::PuntRateLimit as u32;
                punts -= 1;
            }
            held.punts += punts;
            held.digests += u64::from(self.digests[at]);
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_frame_decides_what_is_counted() {
        let mut buffers = vec![vec![0; 64]; 5];
        let mut packets: Vec<abi::Packet<'_>> =
            buffers.iter_mut().map(|buffer| abi::Packet::new(buffer, 0, 64, 1)).collect();
        for (packet, is) in packets.iter_mut().zip([
            status::DROP,
            status::FORWARD,
            status::BAIL,
            status::DROP,
            status::DROP,
        ]) {
            packet.status = is;
            packet.reason = DropReason::NoOutput as u32;
        }
        let mut held = Held::default();
        held.begin(false);
        assert!(!held.holds_back(0, true) && !held.any());
        held.begin(true);
        // Three messages of the first, one each of the next two, and a digest of the fourth.
        for (packet, punt) in [(0, true), (0, false), (0, true), (1, true), (2, true), (3, false)] {
            assert!(held.holds_back(packet, punt));
        }
        assert!(held.any());
        let counted = held.settle(&mut packets);
        assert_eq!((counted.punts, counted.digests), (2, 2));
        let limit = DropReason::PuntRateLimit as u32;
        let reasons: Vec<bool> = packets.iter().map(|packet| packet.reason == limit).collect();
        assert_eq!(reasons, [true, false, false, false, false]);
        held.begin(true);
        assert!(!held.any());
    }
}
