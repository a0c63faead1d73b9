//! What code has done to state, packet by packet, for whoever runs a packet again that code has left.
//!
//! A packet that bails out is run from the start, and is not to count, measure, read, write or draw again what it
//! has counted, measured, read, written or drawn. What it does up to that place follows from its bytes, the tables and these
//! answers alone, so it asks for them in the same order.
//!
//! Cost: two words for each operation, and those of its answer.
//! Checked by: the tests below and in `tests/state.rs`; `datapath`'s `tests/differential`.

use crate::records::Records;
use interp::Color;
use ir::Bits;

/// Something that a packet has done to state, and what it was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// It was counted in an array.
    Count,
    /// A meter measured it.
    Meter(Color),
    /// It read a register, or zero past the end of one.
    Read(Bits),
    /// It wrote a register.
    Write,
    /// It drew a random number.
    Random(Bits),
}

/// Kinds of entries, in the lowest byte of a head; above it, how many bits the answer has.
const COUNT: u64 = 0;
const METER: u64 = 1;
const READ: u64 = 2;
const WRITE: u64 = 3;
const RANDOM: u64 = 4;
const WIDTH: u32 = 8;

/// What the packets of a burst have done, in order: a head for each, and the words of the answer.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    records: Records,
    /// Operations that were no counts.
    asks: u32,
}

impl Journal {
    /// Another burst begins.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.records.clear();
        self.asks = 0;
    }

    /// How many operations there were whose answers depend on others, or others' on them.
    pub(crate) fn asks(&self) -> u32 {
        self.asks
    }

    #[inline]
    pub(crate) fn count(&mut self, packet: usize) {
        self.records.put(packet, [0, COUNT]);
    }

    #[inline]
    pub(crate) fn write(&mut self, packet: usize) {
        self.asks += 1;
        self.records.put(packet, [0, WRITE]);
    }

    /// A meter's answer: the colour, and above it the level.
    #[inline]
    pub(crate) fn meter(&mut self, packet: usize, answer: u64) {
        self.asks += 1;
        self.records.put(packet, [0, METER, answer]);
    }

    #[inline]
    pub(crate) fn read(&mut self, packet: usize, width: u32, value: &[u64]) {
        self.asks += 1;
        let head = READ | u64::from(width) << WIDTH;
        match *value {
            [word] => self.records.put(packet, [0, head, word]),
            _ => self.records.add(packet, head, value),
        }
    }

    pub(crate) fn random(&mut self, packet: usize, width: u32, value: &[u64]) {
        self.asks += 1;
        self.records.add(packet, RANDOM | u64::from(width) << WIDTH, value);
    }

    /// What a packet has done, in order.
    pub(crate) fn of(&self, packet: usize) -> Vec<Did> {
        let did = |record: &[u64]| {
            let (head, value) = record.split_first()?;
            let width = (head >> WIDTH) as u32;
            Some(match head & 0xff {
                COUNT => Did::Count,
                METER => {
                    let answer = *value.first()?;
                    Did::Meter(Color { color: answer as u8, level: (answer >> 8) as u8 })
                }
                READ => Did::Read(Bits::from_words(value, width)),
                WRITE => Did::Write,
                _ => Did::Random(Bits::from_words(value, width)),
            })
        };
        self.records.of(packet).filter_map(did).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_has_its_own_in_order() {
        let mut journal = Journal::default();
        journal.count(0);
        journal.read(63, 130, &[1, 2, 3]);
        journal.meter(0, 0x0702);
        journal.write(63);
        journal.random(0, 8, &[200]);
        let wide = Bits::from_words(&[1, 2, 3], 130);
        assert_eq!(journal.of(63), [Did::Read(wide), Did::Write]);
        let color = Color { color: 2, level: 7 };
        let drawn = Did::Random(Bits::from_u128(200, 8));
        assert_eq!(journal.of(0), [Did::Count, Did::Meter(color), drawn]);
        assert_eq!(journal.of(1), []);
        journal.clear();
        assert_eq!(journal.of(0), []);
    }
}
