//! Sets of ports that are part of the program.

use ir::{BinaryOp, Expr};
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
    pub(super) fn has(&self, port: &Expr) -> Expr {
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
        // 1 to 2047 are eleven blocks, 2048 to 3999 five.
        assert_eq!((1..4000).collect::<PortSet>().blocks(), 16);
        assert_eq!((0..4096).collect::<PortSet>().blocks(), 1);
    }
}
