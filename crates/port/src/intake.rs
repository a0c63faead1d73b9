//! Buffers for receiving frames whose length is known only afterwards.
//!
//! A small buffer suits most frames, but a host with default offloads sends 64 KiB at a time. Each
//! slot has a small frame followed by overflow memory; when big frames are about, slots hold big
//! frames instead, so that the kernel copies straight into place and nothing is copied twice.
//!
//! Invariant: a frame that leaves has the smallest buffer that suits it, so short frames never pin
//! big buffers.
//! Cost: overflow memory is reserved, 64 KiB a slot, but touched only when used.

use crate::frame::{BIG_BYTES, BIG_LEN_MAX, SMALL_LEN_MAX};
use crate::{Frame, Pool};

/// For how many rounds after the last big frame slots stay big.
const BIG_ROUNDS: u32 = 64;

/// The slots.
pub(crate) struct Intake {
    slots: Vec<Frame>,
    overflow: Vec<Vec<u8>>,
    rounds_left: u32,
}

impl Intake {
    /// `slots` slots, all small.
    pub(crate) fn new(slots: usize) -> Intake {
        Intake {
            slots: (0..slots).map(|_| Frame::with_room(0)).collect(),
            overflow: (0..slots).map(|_| vec![0; BIG_BYTES]).collect(),
            rounds_left: 0,
        }
    }

    /// The first `count` slots, ready to be filled, with their overflow memory.
    pub(crate) fn rooms(
        &mut self,
        count: usize,
        pool: &mut Pool,
    ) -> (&mut [Frame], &mut [Vec<u8>]) {
        let count = count.min(self.slots.len());
        let wants_big = self.rounds_left > 0;
        self.rounds_left = self.rounds_left.saturating_sub(1);
        let room = if wants_big { BIG_LEN_MAX } else { SMALL_LEN_MAX };
        for slot in &mut self.slots[..count] {
            if (slot.buffer_len() >= BIG_BYTES) != wants_big {
                let fresh = pool.take(room);
                pool.give(std::mem::replace(slot, fresh));
            }
        }
        (&mut self.slots[..count], &mut self.overflow[..count])
    }

    /// Takes the frame of `len` bytes that slot `index` has received. The caller has checked that
    /// `len` fits slot and overflow.
    pub(crate) fn take(&mut self, index: usize, len: usize, pool: &mut Pool) -> Frame {
        if len > SMALL_LEN_MAX {
            self.rounds_left = BIG_ROUNDS;
        }
        let slot = &mut self.slots[index];
        let room = slot.room_mut();
        let in_slot = len.min(room.len());
        if len > in_slot {
            let mut frame = pool.take(len);
            frame.replace(&room[..in_slot]);
            frame.extend(&self.overflow[index][..len - in_slot]);
            return frame;
        }
        if len <= SMALL_LEN_MAX && room.len() > SMALL_LEN_MAX {
            return pool.copy_of(&room[..len]);
        }
        let mut frame = std::mem::replace(slot, pool.take(len));
        frame.set_filled(len);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_frame_and_overflow_and_learns() {
        let (mut intake, mut pool) = (Intake::new(2), Pool::new());
        let mut random = crate::prng::Prng::new(4);
        for round in 0..500 {
            let big = round / 100 % 2 == 1;
            let lens = if big { [60, 60_000] } else { [1514, 60] };
            let (rooms, overflow) = intake.rooms(2, &mut pool);
            let mut sent = Vec::new();
            for (i, len) in lens.into_iter().enumerate() {
                let bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                let room = rooms[i].room_mut();
                let first = len.min(room.len());
                room[..first].copy_from_slice(&bytes[..first]);
                overflow[i][..len - first].copy_from_slice(&bytes[first..]);
                sent.push(bytes);
            }
            for (i, bytes) in sent.iter().enumerate() {
                let frame = intake.take(i, bytes.len(), &mut pool);
                assert_eq!(frame.data(), bytes);
                assert_eq!(frame.buffer_len() > BIG_BYTES / 2, bytes.len() > SMALL_LEN_MAX);
                pool.give(frame);
            }
        }
    }
}
