//! Protected ports: no packet that came in by one of them leaves by another, whatever sends it there (Open vSwitch's
//! `Port.protected`).
//!
//! The ports are part of the program, as blocks of numbers with the same highest bits. A program without such ports has
//! nothing of this. Cost: for each block a comparison of the ingress port, and for packets of protected ports one of the
//! port that they go to.

use super::config::Reach;
use crate::headers::Headers;
use ir::{BinaryOp, DropReason, Expr, FieldRef, Op};
use std::sync::Arc;

/// Blocks of a set of ports, at most. Each output compares with all of them.
pub const BLOCKS_MAX: usize = 256;

/// Numbers of ports, as blocks that have the same highest bits: value and mask, disjoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSet(Arc<[(u32, u32)]>);

impl FromIterator<u32> for PortSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ports: I) -> PortSet {
        let mut ports: Vec<u32> = ports.into_iter().collect();
        ports.sort_unstable();
        ports.dedup();
        let (mut blocks, mut rest) = (Vec::new(), &ports[..]);
        while let Some(first) = rest.first().copied() {
            // The largest block that begins here and of which all numbers are there.
            let mut bits = 0;
            loop {
                let len = 1_usize << (bits + 1);
                let last = first.checked_add(len as u32 - 1);
                let whole = first.is_multiple_of(len as u32)
                    && rest.get(len - 1).is_some_and(|at| Some(*at) == last);
                if bits == 30 || !whole {
                    break;
                }
                bits += 1;
            }
            blocks.push((first, u32::MAX << bits));
            rest = &rest[1 << bits..];
        }
        PortSet(blocks.into())
    }
}

impl PortSet {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.0.len()
    }

    /// The port is one of them.
    pub fn contains(&self, port: u32) -> bool {
        self.0.iter().any(|(value, mask)| port & mask == *value)
    }

    /// Whether a number of 32 bits is one of them.
    fn has(&self, port: &Expr) -> Expr {
        let is = |(value, mask): &(u32, u32)| {
            let value = Expr::int((*value).into(), 32);
            match *mask {
                u32::MAX => port.clone().eq(value),
                mask => {
                    let mask = Expr::int(mask.into(), 32);
                    Expr::binary(BinaryOp::And, port.clone(), mask).eq(value)
                }
            }
        };
        self.0.iter().map(is).reduce(Expr::or).unwrap_or(Expr::bool(false))
    }
}

/// The packet came in by a protected port.
pub(crate) fn from_protected(h: &Headers) -> Expr {
    h.protected.has(&h.in_port())
}

/// Does what sends the packet to a port, unless both are protected.
pub(crate) fn unless_protected(h: &Headers, to: &Expr, sends: Vec<Op>) -> Vec<Op> {
    if h.protected.is_empty() {
        return sends;
    }
    let withheld = Op::Assign(FieldRef::Meta(h.withheld), Expr::bool(true));
    let condition = from_protected(h).and(h.protected.has(to));
    vec![Op::If { condition, then: vec![withheld], or_else: sends }]
}

/// The reason for a packet of which nothing else was sent.
pub(crate) fn drop_withheld(h: &Headers) -> Option<Op> {
    let then = vec![Op::Drop(DropReason::ProtectedPort)];
    let condition = Expr::meta(h.withheld);
    (!h.protected.is_empty()).then(|| Op::If { condition, then, or_else: Vec::new() })
}

/// Some of the ports that a flood goes to: for packets of other ports, and for those of protected ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaches {
    /// For packets of ports that are not protected.
    pub open: Reach,
    /// For those of protected ports.
    pub protected: Reach,
}

impl Reaches {
    /// Of the ports that are selected.
    pub fn of(selected: impl Iterator<Item = u32> + Clone, protected: &PortSet) -> Reaches {
        let others = selected.clone().filter(|port| !protected.contains(*port));
        Reaches { open: Reach::of(selected), protected: Reach::of(others) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_their_members_in_few_blocks() {
        let sets: [Vec<u32>; 6] = [
            vec![],
            vec![7],
            vec![0, 1, 2, 3, u32::MAX, u32::MAX - 1],
            (1..4000).collect(),
            (0..64).map(|n| 3 * n).collect(),
            vec![5, 5, 6, 7, 8],
        ];
        for numbers in sets {
            let set: PortSet = numbers.iter().copied().collect();
            let near = numbers.iter().flat_map(|n| [n.wrapping_sub(1), *n, n.wrapping_add(1)]);
            for number in near.chain(0..70) {
                assert_eq!(set.contains(number), numbers.contains(&number), "{number}");
            }
        }
        assert_eq!((1..4000).collect::<PortSet>().blocks(), 17);
        assert_eq!((0..4096).collect::<PortSet>().blocks(), 1);
    }

    #[test]
    fn packets_of_protected_ports_reach_the_others() {
        let set: PortSet = [2, 3].into_iter().collect();
        let reaches = Reaches::of([1, 2, 3].into_iter(), &set);
        assert_eq!(reaches, Reaches { open: Reach::Several, protected: Reach::Only(1) });
        let reaches = Reaches::of([2].into_iter(), &set);
        assert_eq!(reaches, Reaches { open: Reach::Only(2), protected: Reach::None });
    }
}
