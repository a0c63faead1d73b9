//! Groups: copies for buckets.
//!
//! A bucket's action runs on a copy of the packet, which ends with it; a `goto` in it has no effect.
//! A bucket that watches a port and a group is live while either is (OpenFlow 1.3.5 §6.5); one that
//! watches nothing always is.
//!
//! `Select` chooses by weighted rendezvous hashing (Thaler and Ravishankar 1998; weights after
//! Schindelhauer and Schomaker 2005): every live bucket draws a number from the packet's hash and its
//! own position, `-log2(u) / weight`, and the least one wins. So each bucket gets packets in
//! proportion to its weight, and when a bucket dies or comes back only the packets that were or will
//! be its own move. The packet's hash is CRC-32C of the group's inputs; `u` is `mix64(hash << 32 |
//! position + 1) / 2^64`; logarithms have 16 binary places, in integers, so that every engine and
//! machine chooses alike. Ties go to the greater `u`, then to the earlier bucket.
//!
//! `Slots` takes the bucket at the place that the same hash says, modulo their number: who holds the group decides for
//! each slot, as a bond does that moves some of its packets from one port to another.
//!
//! Cost: a hash of the inputs, and for each live bucket 16 multiplications.

use crate::context::Context;
use crate::hash::{crc32c, mix64};
use crate::machine::{End, GROUP_DEPTH_MAX, Run};
use crate::show;
use crate::trace::Kind;
use ir::{Bucket, DropReason, Group, GroupId, GroupKind, PortIs};

/// Buckets looked at to find out whether one is live, at most.
const LIVENESS_STEPS_MAX: u32 = 4096;

impl<'a> Run<'a> {
    /// Hands copies to the buckets that a group selects.
    pub(crate) fn group(&mut self, context: &Context, id: GroupId) {
        self.open(Kind::Group, || format!("group {}", id.0));
        match self.view.group(id) {
            None => self.lose(DropReason::GroupUnknown),
            Some(_) if context.group_depth == GROUP_DEPTH_MAX => self.lose(DropReason::GroupLoop),
            Some(group) => self.group_found(context, id, group),
        }
        self.close();
    }

    fn group_found(&mut self, context: &Context, id: GroupId, group: &'a Group) {
        self.externs.count(group.counter, context.length);
        let chosen = match group.kind {
            GroupKind::All => {
                for (at, bucket) in group.buckets.iter().enumerate() {
                    self.bucket(context, id, at, bucket);
                }
                (!group.buckets.is_empty()).then_some(None)
            }
            GroupKind::Indirect => group.buckets.first().map(|b| Some((0, b))),
            GroupKind::FastFailover => {
                group.buckets.iter().enumerate().find(|(_, b)| self.live(b)).map(Some)
            }
            GroupKind::Select => {
                self.env(context, &[]).concat(&group.hash, self.emitted, true);
                let hash = crc32c(&[self.emitted]);
                self.select(hash, &group.buckets).map(Some)
            }
            GroupKind::Slots => {
                self.env(context, &[]).concat(&group.hash, self.emitted, true);
                let hash = crc32c(&[self.emitted]) as usize;
                let slot = hash.checked_rem(group.buckets.len());
                slot.map(|at| Some((at, &group.buckets[at])))
            }
        };
        match chosen {
            Some(Some((at, bucket))) => self.bucket(context, id, at, bucket),
            Some(None) => {}
            None => self.lose(DropReason::GroupDead),
        }
    }

    fn bucket(&mut self, context: &Context, id: GroupId, at: usize, bucket: &'a Bucket) {
        let action = self.view.action(bucket.action.action);
        self.open(Kind::Bucket, || {
            let call = action.map(|a| show::call(a, &bucket.action.args));
            format!("bucket {at}: {}", call.unwrap_or_default())
        });
        let made = self.copy(context, |run, copy| {
            copy.group_depth += 1;
            copy.bucket = Some((id, at as u32));
            run.externs.count(bucket.counter, copy.length);
            let body = action.map_or(&[][..], |a| &a.body);
            run.ops(copy, body, &bucket.action.args).unwrap_or(End::Exit)
        });
        if !made {
            self.lose(DropReason::GroupLoop);
        }
        self.close();
    }

    fn select(&self, hash: u32, buckets: &'a [Bucket]) -> Option<(usize, &'a Bucket)> {
        let live = buckets.iter().enumerate().filter(|(_, b)| b.weight > 0 && self.live(b));
        live.min_by_key(|(at, b)| Draw::new(hash, *at, b.weight))
    }

    fn live(&self, bucket: &Bucket) -> bool {
        self.live_within(bucket, 0, &mut LIVENESS_STEPS_MAX.clone())
    }

    fn live_within(&self, bucket: &Bucket, depth: u32, steps: &mut u32) -> bool {
        if *steps == 0 {
            return false;
        }
        *steps -= 1;
        let mut group_live = |id| {
            let group = self.view.group(id).filter(|_| depth < GROUP_DEPTH_MAX);
            group.is_some_and(|g| g.buckets.iter().any(|b| self.live_within(b, depth + 1, steps)))
        };
        match (bucket.watch_port, bucket.watch_group) {
            (None, None) => true,
            (Some(port), _) if self.externs.port_is(PortIs::Live, port) => true,
            (_, Some(id)) => group_live(id),
            (Some(_), None) => false,
        }
    }
}

/// A bucket's number for one packet: the least one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Draw {
    /// `u`, as a fraction of 2^64.
    u: u64,
    /// `-log2(u)`, 16 binary places.
    log: u64,
    weight: u16,
}

impl Draw {
    fn new(hash: u32, at: usize, weight: u16) -> Draw {
        let u = mix64(u64::from(hash) << 32 | (at as u64 + 1));
        Draw { u, log: (64 << 16) - log2(u.max(1)), weight }
    }
}

impl Ord for Draw {
    fn cmp(&self, other: &Draw) -> std::cmp::Ordering {
        let ours = self.log * u64::from(other.weight);
        let theirs = other.log * u64::from(self.weight);
        ours.cmp(&theirs).then(other.u.cmp(&self.u))
    }
}

impl PartialOrd for Draw {
    fn partial_cmp(&self, other: &Draw) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The binary logarithm of a positive number with 16 binary places, rounded down: each squaring of
/// the number, scaled to [1, 2), gives one more place.
fn log2(x: u64) -> u64 {
    let whole = u64::from(63 - x.leading_zeros());
    // Scaled to [1, 2) with 31 binary places.
    let mut scaled = x << (63 - whole) >> 32;
    let mut log = whole;
    for _ in 0..16 {
        let square = (scaled * scaled) >> 31;
        let place = square >> 32;
        log = log << 1 | place;
        scaled = square >> place;
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(hash: u32, weights: &[(usize, u16)]) -> usize {
        weights.iter().min_by_key(|(at, w)| Draw::new(hash, *at, *w)).unwrap().0
    }

    #[test]
    fn log2_is_the_logarithm() {
        assert_eq!(log2(1), 0);
        assert_eq!(log2(2), 1 << 16);
        assert_eq!(log2(1 << 63), 63 << 16);
        for x in (1..2000).chain((0..2000).map(|i| u64::MAX / 2000 * i + 1)) {
            let exact = (x as f64).log2() * 65536.0;
            assert!((log2(x) as f64 - exact).abs() < 3.0, "{x}");
        }
    }

    #[test]
    fn shares_follow_weights_and_only_the_dead_bucket_s_flows_move() {
        let all = [(0, 1), (1, 2), (2, 5), (3, 2)];
        let left = [(0, 1), (1, 2), (3, 2)];
        let mut shares = [0u32; 4];
        let flows = 40_000;
        for hash in (0..flows).map(|i: u32| mix64(u64::from(i)) as u32) {
            let chosen = choose(hash, &all);
            shares[chosen] += 1;
            if chosen != 2 {
                assert_eq!(choose(hash, &left), chosen);
            }
        }
        for (at, weight) in all {
            let expected = flows * u32::from(weight) / 10;
            assert!(shares[at].abs_diff(expected) < expected / 10, "{shares:?}");
        }
    }

    #[test]
    fn the_choice_is_stable() {
        let weights: Vec<(usize, u16)> = (0..5).map(|i| (i, 1)).collect();
        let chosen: Vec<usize> =
            [0, 1, 2, 0xdead_beef, u32::MAX].iter().map(|h| choose(*h, &weights)).collect();
        assert_eq!(chosen, [1, 1, 0, 4, 2]);
    }
}
