//! Why a frame was lost at a port, and counters by reason.
//!
//! Each reason is one line in the list below, from which come its name (stable, snake_case, used as
//! a metric label) and its meaning in words.

use std::fmt;

macro_rules! reasons {
    ($($variant:ident $name:literal $meaning:literal;)*) => {
        /// Why a port lost a frame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $meaning] $variant,)* }

        impl DropReason {
            /// All reasons, in order of their discriminants.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant),*];

            /// The stable name: `tx_ring_full`, ...
            pub fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// The meaning, a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(DropReason::$variant => $meaning,)* }
            }
        }
    };
}

reasons! {
    TxRingFull "tx_ring_full" "The port's transmit ring or socket buffer was full.";
    TxQueueFull "tx_queue_full" "The port's egress queue held as many frames as it may.";
    TxLinkDown "tx_link_down" "The port was down.";
    TxTooLong "tx_too_long" "The frame was longer than the port's MTU allows.";
    TxTooShort "tx_too_short" "The frame was shorter than an Ethernet header.";
    TxNoOffload "tx_no_offload" "The frame's offload could be neither carried nor completed in software.";
    TxRefused "tx_refused" "The kernel refused the frame.";
    TxIo "tx_io" "Writing the frame failed.";
    PortGone "port_gone" "The interface did not exist.";
    RxTruncated "rx_truncated" "The frame did not fit the receive buffer.";
    RxBadOffload "rx_bad_offload" "The frame came with an offload header that makes no sense.";
    RxCorrupt "rx_corrupt" "The frame's descriptor or file record was damaged.";
    InjectedLoss "injected_loss" "The fault injector dropped the frame.";
    PatchLoop "patch_loop" "The frame had gone through 64 patch ports: bridges form a circle.";
    TunnelRefused "tunnel_refused" "The tunnel port could not send the frame; its refusals say why.";
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A counter for each [`DropReason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drops {
    counts: [u64; DropReason::ALL.len()],
}

impl Default for Drops {
    fn default() -> Drops {
        Drops { counts: [0; DropReason::ALL.len()] }
    }
}

impl Drops {
    /// Counts `n` frames under `reason`.
    pub fn add(&mut self, reason: DropReason, n: u64) {
        self.counts[reason as usize] += n;
    }

    /// The count of one reason.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.counts[reason as usize]
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Drops) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
    }

    /// Whether nothing was counted.
    #[inline]
    pub fn is_zero(&self) -> bool {
        // Without branches, so that it takes a few instructions on wide registers.
        self.counts.iter().fold(0, |all, n| all | n) == 0
    }

    /// The sum over all reasons.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&r| (r, self.get(r))).filter(|&(_, n)| n > 0)
    }
}

/// Losses of a [`TxReport`], which are rare: as long as there are none, it is one word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses(Option<Box<Drops>>);

impl Losses {
    /// Counts `n` frames under `reason`.
    pub fn add(&mut self, reason: DropReason, n: u64) {
        if n > 0 {
            self.0.get_or_insert_default().add(reason, n);
        }
    }

    /// The count of one reason.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0.as_ref().map_or(0, |drops| drops.get(reason))
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Losses) {
        other.iter().for_each(|(reason, n)| self.add(reason, n));
    }

    /// Whether nothing was counted.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.0.is_none()
    }

    /// The sum over all reasons.
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, n)| n).sum()
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        self.0.iter().flat_map(|drops| drops.iter())
    }
}

/// What became of frames that a transmit queue had accepted. Three words, as each queue makes one a burst.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxReport {
    /// Frames handed on.
    pub sent: u64,
    /// Their bytes, from the Ethernet header on.
    pub sent_bytes: u64,
    /// Frames lost after they had been accepted.
    pub drops: Losses,
}

impl TxReport {
    /// Counts one frame of `len` bytes as sent.
    pub fn count_sent(&mut self, len: usize) {
        self.sent += 1;
        self.sent_bytes += len as u64;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &TxReport) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.drops.merge(&other.drops);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_snake_case_and_distinct() {
        let mut seen = std::collections::BTreeSet::new();
        for &reason in DropReason::ALL {
            assert!(reason.name().chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{reason}");
            assert!(seen.insert(reason.name()), "{reason} twice");
        }
    }

    #[test]
    fn counts_add_up() {
        let mut a = Drops::default();
        a.add(DropReason::TxRingFull, 2);
        let mut b = a;
        b.add(DropReason::InjectedLoss, 1);
        a.merge(&b);
        assert_eq!(a.total(), 5);
        let all: Vec<_> = a.iter().collect();
        assert_eq!(all, [(DropReason::TxRingFull, 4), (DropReason::InjectedLoss, 1)]);
    }

    #[test]
    fn losses_are_counted_as_drops_are() {
        let mut losses = Losses::default();
        losses.add(DropReason::TxIo, 0);
        assert_eq!((losses.is_zero(), losses.total(), losses.iter().count()), (true, 0, 0));
        losses.add(DropReason::TxIo, 3);
        let mut sum = Losses::default();
        sum.merge(&losses);
        sum.merge(&losses);
        sum.add(DropReason::TxRingFull, 1);
        assert_eq!((sum.get(DropReason::TxIo), sum.get(DropReason::PortGone)), (6, 0));
        assert_eq!((sum.is_zero(), sum.total()), (false, 7));
        assert_eq!(
            sum.iter().collect::<Vec<_>>(),
            [(DropReason::TxRingFull, 1), (DropReason::TxIo, 6)]
        );
    }
}
