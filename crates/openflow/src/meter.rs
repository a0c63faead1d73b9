//! Meters and their bands (1.3.5 §7.3.4.4, §7.3.5.10 to §7.3.5.12). 1.0 has none.

use crate::ids::{Age, MeterId};
use bitflags::bitflags;

bitflags! {
    /// How a meter counts.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MeterFlags: u16 {
        /// Rates in kilobits per second.
        const KBPS = 1 << 0;
        /// Rates in packets per second.
        const PKTPS = 1 << 1;
        /// Use the bands' burst sizes.
        const BURST = 1 << 2;
        /// Collect statistics.
        const STATS = 1 << 3;
    }
}

/// What a meter-mod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MeterModCommand {
    /// Create the meter.
    Add,
    /// Replace its flags and bands.
    Modify,
    /// Delete it, with all flow entries that use it.
    Delete,
}

/// What a band does to a packet above its rate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BandKind {
    /// Drop it.
    Drop,
    /// Raise the drop precedence in its DSCP by this many levels.
    DscpRemark {
        /// Levels to add.
        prec_level: u8,
    },
    /// An experimenter's.
    Experimenter {
        /// Who.
        experimenter: u32,
        /// The bytes after the id.
        data: Vec<u8>,
    },
}

/// One band of a meter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Band {
    /// From here on the band works, in the meter's unit.
    pub rate: u32,
    /// Kilobits or packets that may exceed it at once.
    pub burst_size: u32,
    /// What it does.
    pub kind: BandKind,
}

/// Creates, changes or deletes a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterMod {
    /// What to do.
    pub command: MeterModCommand,
    /// How it counts.
    pub flags: MeterFlags,
    /// Which; [`MeterId::ALL`] in a delete for every one.
    pub meter_id: MeterId,
    /// Its bands.
    pub bands: Vec<Band>,
}

/// A meter as the switch describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// How it counts.
    pub flags: MeterFlags,
    /// Which.
    pub meter_id: MeterId,
    /// Its bands.
    pub bands: Vec<Band>,
}

/// What a band has worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandStats {
    /// Packets.
    pub packet_count: u64,
    /// Bytes.
    pub byte_count: u64,
}

/// What a meter has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterStats {
    /// Which.
    pub meter_id: MeterId,
    /// Flow entries that use it.
    pub flow_count: u32,
    /// Packets in.
    pub packet_in_count: u64,
    /// Bytes in.
    pub byte_in_count: u64,
    /// How long it has existed.
    pub age: Age,
    /// Per band, in order.
    pub bands: Vec<BandStats>,
}

/// What meters the switch can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterFeatures {
    /// How many.
    pub max_meter: u32,
    /// Bit *n* is band type *n* (1 drop, 2 DSCP remark).
    pub band_types: u32,
    /// The flags that it understands, in the low bits.
    pub capabilities: u32,
    /// Bands per meter.
    pub max_bands: u8,
    /// Colour values.
    pub max_color: u8,
    /// `OFPMFF_*` bits (1.5); 0 before.
    pub features: u32,
}
