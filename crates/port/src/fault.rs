//! A port that does to another port's frames what bad cables do: loss, duplication, reordering,
//! corruption, each with a probability, from a seed.
//!
//! Faults happen on receiving and on sending, each queue with numbers of its own, so a run with the
//! same seed and the same traffic repeats itself exactly. A frame that is to be reordered is held
//! back until the next one has passed, or until nothing else is there.
//!
//! Invariant: every frame is delivered at least once, or counted as `injected_loss`.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::around::Around;
use crate::marks::Marks;
use crate::prng::Prng;
use crate::{Burst, DropReason, Drops, Frame, Pool, Port, RxError, RxQueue, TxQueue, TxReport};

/// Probabilities, each from 0 (never) to 1 (always).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Of losing a frame.
    pub loss: f64,
    /// Of delivering it twice.
    pub duplication: f64,
    /// Of delivering it after its successor.
    pub reordering: f64,
    /// Of flipping one of its bits.
    pub corruption: f64,
}

/// A port around another.
pub struct FaultInjector {
    inner: Box<dyn Port>,
    faults: Faults,
    seeds: Prng,
}

impl FaultInjector {
    /// Injects `faults` into what passes through `inner`.
    pub fn new(inner: Box<dyn Port>, faults: Faults, seed: u64) -> FaultInjector {
        FaultInjector { inner, faults, seeds: Prng::new(seed) }
    }

    fn dice(&mut self) -> Dice {
        Dice { faults: self.faults, random: Prng::new(self.seeds.next_u64()), held: None }
    }
}

impl Around for FaultInjector {
    fn inner(&self) -> &dyn Port {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Port {
        &mut *self.inner
    }

    fn around_rx(&mut self, inner: Box<dyn RxQueue>) -> Box<dyn RxQueue> {
        let dice = self.dice();
        let waiting = std::collections::VecDeque::new();
        Box::new(Rx { inner, dice, waiting, taken: Burst::new(), drops: Drops::default() })
    }

    fn around_tx(&mut self, inner: Box<dyn TxQueue>) -> Box<dyn TxQueue> {
        let dice = self.dice();
        Box::new(Tx { inner, dice, spare: Pool::default(), report: TxReport::default() })
    }

    /// Frames come out in another burst than they came in by, without what stood beside them.
    fn marks_through(&self) -> Option<Arc<dyn Marks>> {
        None
    }
}

/// Decides what happens to each frame.
struct Dice {
    faults: Faults,
    random: Prng,
    held: Option<Frame>,
}

impl Dice {
    /// Passes a frame on to `deliver`, zero to two times, perhaps after its successor. Gives it
    /// back if it is lost.
    fn roll(
        &mut self,
        mut frame: Frame,
        pool: &mut Pool,
        mut deliver: impl FnMut(Frame),
    ) -> Option<Frame> {
        // All numbers are drawn for every frame, so that one fault's probability does not change
        // where another one strikes.
        let [loss, duplication, reordering, corruption] = [
            self.faults.loss,
            self.faults.duplication,
            self.faults.reordering,
            self.faults.corruption,
        ]
        .map(|p| self.random.chance(p));
        let (place, bit) = (self.random.next_u64(), self.random.below(8));
        if loss {
            return Some(frame);
        }
        if corruption && !frame.is_empty() {
            let place = (place % frame.len() as u64) as usize;
            frame.data_mut()[place] ^= 1 << bit;
        }
        let duplicate = duplication.then(|| pool.clone_of(&frame));
        if reordering && self.held.is_none() {
            self.held = Some(frame);
            duplicate.into_iter().for_each(deliver);
            return None;
        }
        deliver(frame);
        duplicate.into_iter().chain(self.held.take()).for_each(deliver);
        None
    }
}

struct Rx {
    inner: Box<dyn RxQueue>,
    dice: Dice,
    /// Frames that found the caller's burst full; at most two bursts and one frame.
    waiting: std::collections::VecDeque<Frame>,
    taken: Burst,
    drops: Drops,
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        if self.waiting.is_empty() {
            let result = self.inner.rx(&mut self.taken, pool);
            for frame in self.taken.drain() {
                let waiting = &mut self.waiting;
                if let Some(lost) = self.dice.roll(frame, pool, |frame| waiting.push_back(frame)) {
                    pool.give(lost);
                    self.drops.add(DropReason::InjectedLoss, 1);
                }
            }
            if self.waiting.is_empty() {
                // Its successor has not come, and nobody wakes us for a frame that we hold.
                self.waiting.extend(self.dice.held.take());
            }
            if self.waiting.is_empty() {
                result?;
            }
        }
        let count = self.waiting.len().min(burst.room());
        for frame in self.waiting.drain(..count) {
            // At most as many as there is room.
            drop(burst.push(frame));
        }
        Ok(count)
    }

    fn local(&self) -> Option<bool> {
        self.inner.local()
    }

    fn done(&mut self) {
        self.inner.done();
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn drops(&self) -> Drops {
        let mut drops = self.inner.drops();
        drops.merge(&self.drops);
        drops
    }
}

struct Tx {
    inner: Box<dyn TxQueue>,
    dice: Dice,
    spare: Pool,
    report: TxReport,
}

impl Tx {
    fn send(&mut self, frame: Frame, pool: &mut Pool) {
        let (inner, report) = (&mut self.inner, &mut self.report);
        let mut passed = Vec::new();
        let lost = self.dice.roll(frame, pool, |frame| passed.push(frame));
        for frame in passed {
            if let Err(reason) = inner.tx_owned(frame, pool) {
                report.drops.add(reason, 1);
            }
        }
        if let Some(lost) = lost {
            pool.give(lost);
            report.drops.add(DropReason::InjectedLoss, 1);
        }
    }
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        let mut spare = std::mem::take(&mut self.spare);
        let copy = spare.clone_of(frame);
        self.send(copy, &mut spare);
        self.spare = spare;
        Ok(())
    }

    fn tx_owned(&mut self, frame: Frame, pool: &mut Pool) -> Result<(), DropReason> {
        self.send(frame, pool);
        Ok(())
    }

    fn flush(&mut self) -> TxReport {
        if let Some(held) = self.dice.held.take()
            && let Err(reason) = self.inner.tx_owned(held, &mut self.spare)
        {
            self.report.drops.add(reason, 1);
        }
        let mut report = std::mem::take(&mut self.report);
        report.merge(&self.inner.flush());
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{self, Config};

    fn run(faults: Faults, seed: u64) -> (Vec<u32>, Vec<u32>, u64) {
        let (port, far) = memory::port("m", Config::default()).unwrap();
        let mut port = FaultInjector::new(Box::new(port), faults, seed);
        let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue().unwrap());
        let (mut burst, mut pool) = (Burst::new(), Pool::new());
        let number = |frame: &Frame| u32::from_be_bytes(frame.data()[..4].try_into().unwrap());
        let (mut received, mut lost) = (Vec::new(), 0);
        for i in 0..1000u32 {
            let mut bytes = [0; 60];
            bytes[..4].copy_from_slice(&i.to_be_bytes());
            far.inject_bytes(&bytes);
            tx.tx(&Frame::copy_of(&bytes)).unwrap();
        }
        lost += tx.flush().drops.get(DropReason::InjectedLoss);
        // A whole burst may be lost, so an empty one does not mean the end.
        for _ in 0..200 {
            rx.rx(&mut burst, &mut pool).unwrap();
            received.extend(burst.frames().iter().map(number));
            burst.recycle(&mut pool);
        }
        let mut sent = Vec::new();
        while let Some(frame) = far.take() {
            sent.push(number(&frame));
        }
        lost += rx.drops().get(DropReason::InjectedLoss);
        (received, sent, lost)
    }

    #[test]
    fn without_faults_nothing_changes() {
        let all: Vec<u32> = (0..1000).collect();
        assert_eq!(run(Faults::default(), 1), (all.clone(), all, 0));
    }

    #[test]
    fn loses_what_it_counts_and_repeats_itself() {
        let faults = Faults { loss: 0.1, reordering: 0.1, ..Faults::default() };
        let (received, sent, lost) = run(faults, 5);
        assert_eq!(received.len() + sent.len() + lost as usize, 2000);
        assert!((100..300).contains(&lost), "{lost}");
        assert!(!received.is_sorted() && !sent.is_sorted());
        assert_eq!(run(faults, 5), (received.clone(), sent, lost));
        assert_ne!(run(faults, 6).0, received);
    }

    #[test]
    fn always_means_always() {
        let all = Faults { duplication: 1.0, ..Faults::default() };
        assert_eq!(run(all, 1).0.len(), 2000);
        let none = Faults { loss: 1.0, ..Faults::default() };
        assert_eq!(run(none, 1), (Vec::new(), Vec::new(), 2000));
    }

    #[test]
    fn flips_one_bit() {
        let (port, far) = memory::port("m", Config::default()).unwrap();
        let faults = Faults { corruption: 1.0, ..Faults::default() };
        let mut port = FaultInjector::new(Box::new(port), faults, 3);
        let mut tx = port.tx_queue().unwrap();
        tx.tx(&Frame::copy_of(&[0; 60])).unwrap();
        tx.flush();
        let ones: u32 = far.take().unwrap().data().iter().map(|b| b.count_ones()).sum();
        assert_eq!(ones, 1);
    }
}
