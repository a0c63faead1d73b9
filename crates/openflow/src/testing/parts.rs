//! Random parts that several kinds of messages and actions have.

use super::rng::Rng;
use crate::action::Subfield;
use crate::extension::Bits;
use crate::ids::PortNo;
use crate::version::Version;

/// Up to three of a kind.
pub(crate) fn list<T>(rng: &mut Rng, mut entry: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    (0..rng.below(4)).map(|_| entry(rng)).collect()
}

/// A port that the version can number, reserved ones included.
pub fn port(rng: &mut Rng, version: Version) -> PortNo {
    match (rng.below(4), version) {
        (0, _) => rng.choose(&PortNo::RESERVED).0,
        (1, v) if v >= Version::V13 => PortNo(1 + rng.u32() % 0xffff_feff),
        _ => PortNo(1 + rng.u32() % 0xfeff),
    }
}

/// Random bits of a field that actions may write, or of one that they may read.
pub(crate) fn bits(rng: &mut Rng, written: bool) -> Bits {
    use crate::field::FieldId::*;
    let fields = [Reg0, EthDst, Ipv4Src, VlanTci, XXReg1, XReg5, Ipv6Dst, IpTos, InPort, Metadata];
    let field = rng.choose(if written { &fields[..8] } else { &fields });
    // Nicira's ingress ports have 16 bits, and one run at most 64.
    let width = if field == InPort { 16 } else { field.info().bits.min(64) as u16 };
    let offset = rng.u16() % width;
    let count = 1 + rng.u16() % (width - offset);
    Bits { of: Subfield { field, offset }.narrowed(count), count }
}
