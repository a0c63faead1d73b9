//! What code leaves behind for each packet of a burst: records of a few words, found again packet by packet.
//!
//! Cost: one word beside a record's own, and a bit test for a packet that has none.
//! Checked by: the tests of [`crate::journal`], and below.

use abi::BURST_MAX;

/// Records in the order in which they came. In front of each: where the packet's next one is, in the upper half, and how many
/// words it has.
#[derive(Debug)]
pub(crate) struct Records {
    words: Vec<u64>,
    /// By packet: it has some; where the first and the last one are.
    some: u64,
    first: [u32; BURST_MAX],
    last: [u32; BURST_MAX],
}

impl Default for Records {
    fn default() -> Records {
        Records { words: Vec::new(), some: 0, first: [0; BURST_MAX], last: [0; BURST_MAX] }
    }
}

impl Records {
    /// Another burst begins.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.some = 0;
    }

    /// There are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.some == 0
    }

    /// Adds one of these words, but for the first one, which is left to this, for a packet.
    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, packet: usize, mut words: [u64; N]) {
        self.link(packet);
        words[0] = N as u64 - 1;
        self.words.extend_from_slice(&words);
    }

    /// Adds one for a packet: a word, and those behind it.
    #[inline]
    pub(crate) fn add(&mut self, packet: usize, head: u64, rest: &[u64]) {
        self.link(packet);
        self.words.extend_from_slice(&[1 + rest.len() as u64, head]);
        self.words.extend_from_slice(rest);
    }

    /// What comes next is a packet's.
    #[inline]
    fn link(&mut self, packet: usize) {
        let (packet, at) = (packet % BURST_MAX, self.words.len());
        match self.some >> packet & 1 {
            0 => self.first[packet] = at as u32,
            _ => self.words[self.last[packet] as usize] |= (at as u64) << 32,
        }
        self.some |= 1 << packet;
        self.last[packet] = at as u32;
    }

    /// A packet's, in order.
    pub(crate) fn of(&self, packet: usize) -> impl Iterator<Item = &[u64]> {
        let has = packet < BURST_MAX && self.some >> packet & 1 != 0;
        let mut next = has.then(|| self.first[packet] as usize);
        std::iter::from_fn(move || {
            let at = next?;
            let front = *self.words.get(at)?;
            // None leads to the first of all.
            next = ((front >> 32) != 0).then_some((front >> 32) as usize);
            self.words.get(at + 1..)?.get(..front as u32 as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_has_its_own_in_order() {
        let mut records = Records::default();
        assert_eq!(records.of(0).count(), 0);
        records.add(63, 7, &[1, 2]);
        records.put(0, [0, 8]);
        records.put(63, [0, 9, 3]);
        records.add(63, 10, &[]);
        assert!(records.of(63).eq([&[7, 1, 2][..], &[9, 3], &[10]]));
        assert!(records.of(0).eq([&[8][..]]));
        assert_eq!(records.of(1).count() + records.of(64).count(), 0);
        records.clear();
        assert_eq!(records.of(63).count(), 0);
        records.add(63, 1, &[]);
        assert!(records.of(63).eq([&[1][..]]));
    }
}
