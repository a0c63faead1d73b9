//! Cells of a table of flows, as sets of values.

/// What a row demands of one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cell {
    /// Nothing.
    Any,
    /// These bits.
    Bits {
        /// What the bits must be.
        value: u128,
        /// Which bits.
        mask: u128,
    },
    /// A number within these ends.
    Range {
        /// The lowest.
        lo: u128,
        /// The highest.
        hi: u128,
    },
}

/// What two patterns have in common.
pub(super) enum Meet {
    Nothing,
    Cell(Cell),
    /// Something that is no pattern.
    Odd,
}

impl Cell {
    /// One value.
    pub fn exact(value: u128, bits: u32) -> Cell {
        Cell::Bits { value, mask: top(bits) }.canonical(bits)
    }

    /// The leading `len` bits of a value.
    pub fn prefix(value: u128, len: u32, bits: u32) -> Cell {
        let mask = top(bits) & !top(bits.saturating_sub(len));
        Cell::Bits { value, mask }.canonical(bits)
    }

    /// The one spelling of patterns that mean the same: bits rather than a range where they do,
    /// ignored bits zero. An empty range stays as it is and matches nothing.
    #[must_use]
    pub fn canonical(self, bits: u32) -> Cell {
        let all = top(bits);
        match self {
            Cell::Any => Cell::Any,
            Cell::Bits { mask, .. } if mask & all == 0 => Cell::Any,
            Cell::Bits { value, mask } => {
                Cell::Bits { value: value & mask & all, mask: mask & all }
            }
            Cell::Range { lo, hi } => {
                let hi = hi.min(all);
                let below = below_highest(lo ^ hi);
                if lo > hi || lo & below != 0 || hi & below != below {
                    Cell::Range { lo, hi }
                } else {
                    Cell::Bits { value: lo, mask: all & !below }.canonical(bits)
                }
            }
        }
    }

    /// Whether a value satisfies it.
    pub fn contains(&self, key: u128) -> bool {
        match *self {
            Cell::Any => true,
            Cell::Bits { value, mask } => (key ^ value) & mask == 0,
            Cell::Range { lo, hi } => lo <= key && key <= hi,
        }
    }

    /// Lowest and highest value that satisfy it.
    pub(super) fn ends(&self, bits: u32) -> (u128, u128) {
        match *self {
            Cell::Any => (0, top(bits)),
            Cell::Bits { value, mask } => (value, value | top(bits) & !mask),
            Cell::Range { lo, hi } => (lo, hi),
        }
    }

    /// Whether all values between the ends satisfy it.
    pub(super) fn is_convex(&self, bits: u32) -> bool {
        match *self {
            Cell::Bits { mask, .. } => prefix_len(mask, bits).is_some(),
            _ => true,
        }
    }

    /// Whether every value that satisfies `other` satisfies this. Both canonical.
    pub fn covers(&self, other: &Cell, bits: u32) -> bool {
        match (*self, *other) {
            (Cell::Any, _) => true,
            (_, Cell::Any) => false,
            (Cell::Bits { value, mask }, Cell::Bits { value: inner, mask: finer }) => {
                mask & !finer == 0 && (value ^ inner) & mask == 0
            }
            // Below the highest bit in which the ends differ every bit takes both values.
            (Cell::Bits { value, mask }, Cell::Range { lo, hi }) => {
                mask & below_highest(lo ^ hi) == 0 && (value ^ lo) & mask == 0
            }
            (Cell::Range { lo, hi }, inner) => {
                let (low, high) = inner.ends(bits);
                lo <= low && high <= hi
            }
        }
    }

    pub(super) fn meet(&self, other: &Cell, bits: u32) -> Meet {
        if self.covers(other, bits) {
            return Meet::Cell(*other);
        }
        if other.covers(self, bits) {
            return Meet::Cell(*self);
        }
        if let (Cell::Bits { value: a, mask: m }, Cell::Bits { value: b, mask: n }) =
            (*self, *other)
        {
            let both = Cell::Bits { value: a | b, mask: m | n };
            return if (a ^ b) & m & n == 0 { Meet::Cell(both) } else { Meet::Nothing };
        }
        let ((a, b), (c, d)) = (self.ends(bits), other.ends(bits));
        let (lo, hi) = (a.max(c), b.min(d));
        match (lo > hi, self.is_convex(bits) && other.is_convex(bits)) {
            (true, _) => Meet::Nothing,
            (false, true) => Meet::Cell(Cell::Range { lo, hi }.canonical(bits)),
            (false, false) => Meet::Odd,
        }
    }

    /// How many values satisfy it, less one.
    pub(super) fn size_less_one(&self, bits: u32) -> u128 {
        match *self {
            Cell::Bits { mask, .. } => top(bits.saturating_sub(mask.count_ones())),
            _ => {
                let (lo, hi) = self.ends(bits);
                hi.saturating_sub(lo)
            }
        }
    }
}

/// The largest number of a width.
pub(super) fn top(bits: u32) -> u128 {
    u128::MAX.checked_shr(128u32.saturating_sub(bits)).unwrap_or(0)
}

/// All bits below the highest that is set, and that one.
pub(super) fn below_highest(n: u128) -> u128 {
    u128::MAX.checked_shr(n.leading_zeros()).unwrap_or(0)
}

/// The length of a mask that is a prefix.
pub(super) fn prefix_len(mask: u128, bits: u32) -> Option<u32> {
    let free = top(bits) & !mask;
    (free & free.wrapping_add(1) == 0).then(|| mask.count_ones())
}
