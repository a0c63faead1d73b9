//! What is seen of a burst's packets before they are judged.

use super::index::Places;
use super::parse::Subject;
use super::record::NONE;
use super::tuple::Key;
use smallvec::SmallVec;

/// Packets that are taken through the stages together.
pub(super) const BURST: usize = 64;

/// What was seen of a burst's packets before they are judged, in steps that lie [`LAG`] packets apart: what one asks
/// the memory for is there when the next one needs it.
#[derive(Debug)]
pub(super) struct Sight {
    pub(super) seen: [Seen; BURST],
    /// Those that have no key, in their order.
    pub(super) odd: SmallVec<[Subject; 4]>,
    /// Bits by packet: it has no key; it needs more than the record; it has a hint; it may be in its second bucket.
    pub(super) odds: u64,
    pub(super) others: u64,
    pub(super) hinted: u64,
    pub(super) elsewhere: u64,
}

/// What was seen of a packet. Two in a line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Seen {
    pub(super) key: Key,
    pub(super) places: Places,
    /// The record that may be the packet's connection's.
    pub(super) likely: u32,
}

const _: () = assert!(size_of::<Seen>() == 32);

impl Seen {
    /// Nothing yet.
    pub(super) const NONE: Seen = Seen { key: Key::NONE, places: Places::NONE, likely: NONE };
}

impl Default for Box<Sight> {
    fn default() -> Box<Sight> {
        Box::new(Sight {
            seen: [Seen::NONE; BURST],
            odd: SmallVec::new(),
            odds: 0,
            others: 0,
            hinted: 0,
            elsewhere: 0,
        })
    }
}

impl Sight {
    /// A burst begins. What was [seen](Seen) of each packet is written when it is read.
    pub(super) fn begin(&mut self) {
        self.odd.clear();
        (self.odds, self.others, self.hinted, self.elsewhere) = (0, 0, 0, 0);
    }
}
