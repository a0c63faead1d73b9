//! Packets of a burst that are left to come alone, and what they might open.

use super::state::Apart;

/// Which connections packets of this burst might open later, by the hashes of their tuples.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) now: Apart,
    /// A bit for each of them, and all of them.
    pub(super) bits: u64,
    pub(super) opening: Vec<u64>,
    /// Of which packets were left to come alone.
    pub(super) left: [u64; 64],
    /// Of which packets were left in vain.
    pub(super) vain: [u64; 64],
    /// How often that may yet be; some come back with each tick.
    pub(super) credit: u32,
    pub(super) tick: u32,
}

/// Packets that may be left in vain at once, and in a tick.
pub(super) const CREDIT_MAX: u32 = 256;

pub(super) const CREDIT_EACH: u32 = 32;

impl Pending {
    pub(super) const NEW: Pending = Pending {
        now: Apart::Never,
        bits: 0,
        opening: Vec::new(),
        left: [0; 64],
        vain: [0; 64],
        credit: CREDIT_MAX,
        tick: 0,
    };

    pub(super) fn bit(hash: u64) -> usize {
        (hash >> 58) as usize
    }

    /// Whether an earlier packet of the burst might open this connection.
    pub(super) fn has(&self, hash: u64) -> bool {
        self.bits >> Pending::bit(hash) & 1 != 0 && self.opening.contains(&hash)
    }

    /// A packet that was left might open this connection.
    pub(super) fn opens(&mut self, hash: u64) {
        if !self.has(hash) {
            self.bits |= 1 << Pending::bit(hash);
            self.opening.push(hash);
        }
    }

    /// A packet might open this connection later. True if an earlier one might, too, and this one is to come alone.
    pub(super) fn meets(&mut self, hash: u64, now: u32) -> bool {
        if !self.has(hash) {
            self.opens(hash);
            return false;
        }
        let ticks = now.saturating_sub(self.tick);
        self.credit = self.credit.saturating_add(ticks.saturating_mul(CREDIT_EACH)).min(CREDIT_MAX);
        self.tick = now;
        let bit = Pending::bit(hash);
        if self.credit == 0 || self.vain[bit] == hash {
            return false;
        }
        self.left[bit] = hash;
        true
    }

    /// Nobody has opened this connection, of which packets may have been left.
    pub(super) fn none(&mut self, hash: u64) {
        let bit = Pending::bit(hash);
        if self.left[bit] == hash {
            (self.left[bit], self.vain[bit]) = (0, hash);
            self.credit = self.credit.saturating_sub(1);
        }
    }

    /// It was opened.
    pub(super) fn opened(&mut self, hash: u64) {
        let bit = Pending::bit(hash);
        if self.vain[bit] == hash {
            self.vain[bit] = 0;
        }
    }
}
