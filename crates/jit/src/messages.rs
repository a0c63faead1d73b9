//! What a burst has told the control side ([`crate::told`]), until it is read.

use crate::records::Records;
use ir::DigestId;

/// Something is told.
pub(crate) const TOLD: u64 = 1;
/// A copy of the packet is.
pub(crate) const PUNTED: u64 = 2;

/// The number of a reason or of a digest.
pub(crate) fn number(what: u64) -> u32 {
    (what >> 8) as u32
}

/// It is a punt.
pub(crate) fn is_punt(what: u64) -> bool {
    what & 0xff == 0
}

/// What a packet has told that has told this.
pub(crate) fn noted(what: u64) -> u64 {
    if is_punt(what) { TOLD | PUNTED } else { TOLD }
}

/// A digest whose repeats may be left out ([`ir::Op::Digest`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeatable<'a> {
    /// Which digest.
    pub digest: DigestId,
    /// The values that say what it is about, each behind its width.
    pub about: &'a [u64],
    /// The other ones.
    pub rest: &'a [u64],
}

impl<'a> Repeatable<'a> {
    /// If it is one. `words` are the values.
    #[inline]
    pub(crate) fn of(what: u64, words: &'a [u64]) -> Option<Repeatable<'a>> {
        let mut left = (what >> abi::state::ONCE).checked_sub(1)?;
        let mut at = 0;
        while left > 0 {
            at += 1 + words.get(at)?.div_ceil(64) as usize;
            left -= 1;
        }
        let (about, rest) = words.split_at_checked(at)?;
        Some(Repeatable { digest: DigestId(number(what)), about, rest })
    }
}

/// What a burst has told: for each message what it is, its place, what was looked up last, and values.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) records: Records,
    /// A message while it is put together.
    rest: Vec<u64>,
}

impl Messages {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.records.clear();
    }

    /// `args` are the values, each behind its width.
    #[inline]
    pub(crate) fn add(&mut self, packet: usize, what: u64, place: u64, last: u64, args: &[u64]) {
        self.rest.clear();
        self.rest.extend([place, last]);
        self.rest.extend_from_slice(args);
        self.records.add(packet, what, &self.rest);
    }
}
