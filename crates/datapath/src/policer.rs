//! Ingress policing: what a port receives beyond a rate is dropped, before anything looks at it (Open vSwitch's
//! `ingress_policing_*`).
//!
//! Two rates, of bits and of packets, each with what may come at once; a frame passes if both let it. The buckets are
//! shared by all workers, so the rates hold for the port. What they drop is counted under `policed`.
//!
//! Cost: a port without a policer, one bit of its flags for each burst. One with, a lock for each burst, and an update or
//! two of a shared word for each frame; its frames leave their driver's buffers first.
//! Checked by: the tests below; `tests/worker.rs`.

use crate::bucket::Bucket;

/// What a port may receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policing {
    /// Bits a second, and bits at once.
    pub bits: Option<(u64, u64)>,
    /// Packets a second, and packets at once.
    pub packets: Option<(u64, u64)>,
}

impl Policing {
    /// Everything may come.
    pub fn is_empty(&self) -> bool {
        *self == Policing::default()
    }
}

/// A port's policer.
#[derive(Debug)]
pub struct Policer {
    config: Policing,
    bits: Option<Bucket>,
    packets: Option<Bucket>,
}

impl Policer {
    /// By a configuration; all that may come at once may come now.
    pub fn new(config: Policing) -> Policer {
        let bits = config.bits.map(|(bps, burst)| Bucket::new(bps, Some(burst / 8)));
        // A packet is as a byte: eight bits.
        let packets =
            config.packets.map(|(pps, burst)| Bucket::new(pps.saturating_mul(8), Some(burst)));
        Policer { config, bits, packets }
    }

    /// What was configured.
    pub fn config(&self) -> Policing {
        self.config
    }

    /// A frame of so many bytes may pass; then it is charged.
    pub fn admits(&self, now_ns: u64, bytes: u64) -> bool {
        let ready = |bucket: &Option<Bucket>| {
            bucket.as_ref().is_none_or(|bucket| bucket.ready_ns() <= now_ns)
        };
        if !ready(&self.bits) || !ready(&self.packets) {
            return false;
        }
        self.bits.iter().for_each(|bucket| bucket.charge(now_ns, bytes));
        self.packets.iter().for_each(|bucket| bucket.charge(now_ns, 1));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Of so many frames, one every `gap_ns`, those that pass.
    fn passed(policer: &Policer, frames: u64, gap_ns: u64, bytes: u64) -> u64 {
        let one = |n: u64| u64::from(policer.admits(1_000 * MS + n * gap_ns, bytes));
        (0..frames).map(one).sum()
    }

    #[test]
    fn bits_a_second_hold_behind_what_may_come_at_once() {
        let policer = Policer::new(Policing { bits: Some((8_000_000, 80_000)), packets: None });
        // 10,000 bytes at once, then 1 byte in a microsecond; 1,000 frames of 1,000 bytes in a second.
        let all = passed(&policer, 10_000, MS / 10, 1000);
        assert!((1005..=1015).contains(&all), "{all}");
    }

    #[test]
    fn packets_a_second_hold_whatever_their_size() {
        let policer = Policer::new(Policing { bits: None, packets: Some((1000, 16)) });
        let all = passed(&policer, 10_000, MS / 10, 64);
        assert!((1010..=1020).contains(&all), "{all}");
        let policer = Policer::new(Policing { bits: None, packets: Some((1000, 16)) });
        let all = passed(&policer, 10_000, MS / 10, 9000);
        assert!((1010..=1020).contains(&all), "{all}");
    }

    #[test]
    fn the_stricter_of_two_rates_holds() {
        let both = Policing { bits: Some((8_000_000, 8_000)), packets: Some((10, 1)) };
        let all = passed(&Policer::new(both), 10_000, MS / 10, 1000);
        assert!((10..=12).contains(&all), "{all}");
    }
}
