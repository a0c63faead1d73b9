//! What lookups find, as callers have it and in the 8 octets that tables keep.

/// What a lookup found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Hit {
    /// The id of the rule that won, or [`Hit::MISS_ENTRY`].
    pub entry: u32,
    /// The action that the caller gave the rule; 0 on a miss.
    pub action: u32,
}

impl Hit {
    /// In place of an entry: nothing matched. No rule may have this id.
    pub const MISS_ENTRY: u32 = u32::MAX;
    /// Nothing matched.
    pub const MISS: Hit = Hit { entry: Hit::MISS_ENTRY, action: 0 };

    /// A rule matched.
    #[inline]
    pub fn is_hit(self) -> bool {
        self.entry != Hit::MISS_ENTRY
    }
}

impl Default for Hit {
    fn default() -> Hit {
        Hit::MISS
    }
}

/// A [`Hit`] as a payload; [`EMPTY`](crate::buckets::EMPTY) for a miss.
#[inline(always)]
pub(crate) fn pack(hit: Hit) -> u64 {
    u64::from(hit.action) << 32 | u64::from(hit.entry)
}

/// The [`Hit`] of a payload.
#[inline(always)]
pub(crate) fn unpack(payload: u64) -> Hit {
    Hit { entry: payload as u32, action: (payload >> 32) as u32 }
}
