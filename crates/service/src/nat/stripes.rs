//! Stripes: which outside ports are one translator's own, where several share addresses.
//!
//! Two translators that share an address must never give one port to two connections. Each has stripes of its own, of
//! [`STRIPES`]: it gives out no port of another's. A port that a connection has already stays its own, whoever's the stripe is, so
//! translations that were told translate alike everywhere.
//!
//! A port is of the stripe of its number modulo [`STRIPES`]; where senders have blocks of ports, a block is, by its number. Pools that
//! keep ports, or in which ports follow from the sender (RFC 7422), choose nothing: both translators come to the same.

/// How many there are.
pub const STRIPES: u32 = 64;

/// The stripes that are a translator's own, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripes(pub u64);

impl Stripes {
    /// Those of one who is alone.
    pub const ALL: Stripes = Stripes(!0);

    /// Whether it may give this port out.
    #[inline]
    pub fn has(self, port: u16) -> bool {
        self.0 >> (u32::from(port) % STRIPES) & 1 != 0
    }

    /// Whether it may give out the ports of the block that begins here.
    pub(crate) fn has_block(self, first: u16, size: u16) -> bool {
        self.has(first / size.max(1))
    }
}

impl Default for Stripes {
    fn default() -> Stripes {
        Stripes::ALL
    }
}
