//! Where the parts of a burst's memory lie.
//!
//! All of it is one block, which begins with an [`abi::Context`]. Segments get the block's address, and
//! everything else lies at a constant from there: generated code has one register for it in place of a
//! pointer for each list of keys, answers and items, which it would have to load or to keep.
//!
//! Points come last, since code is generated before all of them are known.

use abi::{BURST_MAX, Context, Hit, NodeIo, PointIo};
use ir::HeaderId;

/// Parts begin at multiples of this.
const ALIGN: usize = 64;

/// The layout of the state area: zeros twice, scratch, then slots for each packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// Bytes of zeros, for invalid headers and again for new ones.
    pub(crate) zeros: u32,
    /// Bytes of scratch.
    pub(crate) scratch: u32,
    /// Bytes of a packet's slots.
    pub(crate) stride: u32,
    /// By metadata field: offset of its words.
    pub(crate) meta: Vec<Option<i32>>,
    /// By header: offset of its base; its varbit field's length follows.
    pub(crate) headers: Vec<Option<i32>>,
    /// By field: offset of the written flag; its value follows.
    pub(crate) fields: Vec<Option<i32>>,
    /// Bytes of the headers that can move.
    pub(crate) edge: Option<i32>,
    /// Whether headers lie in order.
    pub(crate) in_order: Option<i32>,
    /// Whether there are outputs that no copy was laid for.
    pub(crate) unlaid: Option<i32>,
    /// Bytes that outputs have at most.
    pub(crate) cut: Option<i32>,
    /// Why a copy was given up.
    pub(crate) lost: Option<i32>,
    /// What the control side is told.
    pub(crate) told: Option<i32>,
    /// What was looked up last, where that is told.
    pub(crate) last: Option<i32>,
    /// For a packet that waits within an action: where it wants to go, whether its lookup missed, and the
    /// action's arguments.
    pub(crate) action: i32,
    /// For a packet that waits at a stop behind changes of its headers: which of these were written, by bits.
    pub(crate) changed: i32,
    /// Headers that can be, and where the address and the octets of each are laid, as they would leave.
    pub(crate) images: Vec<(HeaderId, i32)>,
}

impl Slots {
    /// Where packets' slots start.
    pub(crate) fn start(&self) -> u32 {
        2 * self.zeros + self.scratch
    }
}

/// Offsets in bytes from the block's beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    stations: Vec<Station>,
    state: usize,
    points: usize,
}

/// What belongs to a node, or to a stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Station {
    /// Keys; of a stop, the words of its arguments.
    pub(crate) keys: usize,
    /// Answers.
    pub(crate) hits: usize,
    /// Nodes whose tables are looked up.
    pub(crate) tables: usize,
}

impl Frame {
    /// For stations, whose keys are so many bytes apart, and these slots.
    pub(crate) fn new(strides: impl ExactSizeIterator<Item = usize>, slots: &Slots) -> Frame {
        let mut end = size_of::<Context>() + strides.len() * size_of::<NodeIo>();
        let mut part = |bytes: usize| {
            let at = end.next_multiple_of(ALIGN);
            end = at + bytes;
            at
        };
        let stations = strides.map(|stride| Station {
            keys: part(BURST_MAX * stride),
            hits: part(BURST_MAX * size_of::<Hit>()),
            tables: part(BURST_MAX * size_of::<u32>()),
        });
        let stations = stations.collect();
        let state = part(slots.start() as usize + BURST_MAX * slots.stride as usize);
        Frame { stations, state, points: part(0) }
    }

    /// Bytes of all of it, with so many points.
    pub(crate) fn bytes(&self, points: usize) -> usize {
        self.point(points)
    }

    /// A station's parts.
    pub(crate) fn station(&self, station: usize) -> Station {
        self.stations[station]
    }

    /// A station's [`NodeIo`].
    pub(crate) fn io(&self, station: usize) -> usize {
        size_of::<Context>() + station * size_of::<NodeIo>()
    }

    /// Zeros, scratch, and the packets' slots.
    pub(crate) fn state(&self) -> usize {
        self.state
    }

    /// A [`PointIo`].
    pub(crate) fn point(&self, point: usize) -> usize {
        self.points + point * size_of::<PointIo>()
    }
}

const _: () = assert!(align_of::<PointIo>() <= ALIGN && align_of::<Context>() <= ALIGN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_side_by_side() {
        let slots = Slots { zeros: 64, scratch: 128, stride: 192, ..Slots::default() };
        let frame = Frame::new([8, 24, 40].into_iter(), &slots);
        let mut parts = vec![(0, size_of::<Context>())];
        parts.extend((0..3).map(|i| (frame.io(i), size_of::<NodeIo>())));
        for (i, stride) in [8, 24, 40].into_iter().enumerate() {
            let Station { keys, hits, tables } = frame.station(i);
            parts.extend([(keys, 64 * stride), (hits, 64 * 8), (tables, 64 * 4)]);
            assert!([keys, hits, tables].iter().all(|at| at.is_multiple_of(ALIGN)));
        }
        parts.push((frame.state(), 64 + 64 + 128 + 64 * 192));
        parts.extend((0..2).map(|i| (frame.point(i), size_of::<PointIo>())));
        assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{parts:?}");
        assert!(frame.point(0).is_multiple_of(ALIGN) && frame.stations.len() == 3);
        assert_eq!(frame.bytes(2), frame.point(1) + size_of::<PointIo>());
    }
}
