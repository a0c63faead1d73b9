//! A port of which no more than so many packets a second are taken, whatever is there.
//!
//! What it is not asked for waits in its driver, and is lost there if it comes too fast for long: nothing is received
//! and then thrown away. Of several receive queues each has an equal part of the rate. A queue that was silent
//! makes up for a burst at most.
//!
//! Cost: a reading of the clock a burst, and whenever a queue is asked in vain. Its queues have no descriptor to sleep on:
//! one that is readable while none may be taken would keep its worker awake.
//! Checked by: the tests below.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::around::Around;
use crate::burst::BURST_MAX;
use crate::{BorrowedBurst, Burst, Drops, Pool, Port, RxError, RxQueue};

/// A port around another.
pub struct Paced {
    inner: Box<dyn Port>,
    per_second: f64,
}

impl Paced {
    /// Takes so many packets a second of `inner` at most; at least 1.
    pub fn new(inner: Box<dyn Port>, per_second: u64) -> Paced {
        Paced { inner, per_second: per_second.max(1) as f64 }
    }
}

impl Around for Paced {
    fn inner(&self) -> &dyn Port {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Port {
        &mut *self.inner
    }

    fn around_rx(&mut self, inner: Box<dyn RxQueue>) -> Box<dyn RxQueue> {
        let queues = self.inner.info().rx_queues.max(1) as f64;
        let pace = Pace::new(self.per_second / queues, Instant::now());
        Box::new(Rx { inner, pace })
    }
}

/// When the next packets may be taken.
struct Pace {
    /// From one packet to the next.
    interval: Duration,
    due: Instant,
}

impl Pace {
    fn new(per_second: f64, now: Instant) -> Pace {
        Pace { interval: Duration::from_secs_f64(1.0 / per_second), due: now }
    }

    fn allows(&self, now: Instant) -> bool {
        now >= self.due
    }

    fn took(&mut self, packets: usize, now: Instant) {
        let owed = self.interval * BURST_MAX as u32;
        let since = now.checked_sub(owed).map_or(self.due, |since| since.max(self.due));
        self.due = since + self.interval * packets as u32;
    }
}

struct Rx {
    inner: Box<dyn RxQueue>,
    pace: Pace,
}

impl Rx {
    fn paced(
        &mut self,
        take: impl FnOnce(&mut dyn RxQueue) -> Result<usize, RxError>,
    ) -> Result<usize, RxError> {
        let now = Instant::now();
        if !self.pace.allows(now) {
            return Ok(0);
        }
        let packets = take(&mut *self.inner)?;
        self.pace.took(packets, now);
        Ok(packets)
    }
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        self.paced(|inner| inner.rx(burst, pool))
    }

    fn rx_borrowed(
        &mut self,
        borrowed: &mut BorrowedBurst,
        burst: &mut Burst,
        pool: &mut Pool,
    ) -> Result<usize, RxError> {
        self.paced(|inner| inner.rx_borrowed(borrowed, burst, pool))
    }

    fn local(&self) -> Option<bool> {
        self.inner.local()
    }

    fn done(&mut self) {
        self.inner.done();
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn drops(&self) -> Drops {
        self.inner.drops()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory;

    /// Of a queue that always has a burst, asked every so often for a second.
    fn taken(pace: &mut Pace, from: Instant, every: Duration) -> usize {
        let (mut now, mut packets) = (from, 0);
        while now < from + Duration::from_secs(1) {
            if pace.allows(now) {
                pace.took(BURST_MAX, now);
                packets += BURST_MAX;
            }
            now += every;
        }
        packets
    }

    #[test]
    fn the_rate_is_kept_however_often_it_is_asked() {
        let begun = Instant::now();
        for per_second in [10_000, 1_000_000] {
            for every in [1, 5, 31].map(Duration::from_micros) {
                let mut pace = Pace::new(per_second as f64, begun);
                let packets = taken(&mut pace, begun, every);
                assert!(packets.abs_diff(per_second) <= 2 * BURST_MAX, "{packets}, {every:?}");
                // A second of silence is made up for by one burst.
                let more = taken(&mut pace, begun + Duration::from_secs(2), every);
                assert!(more.abs_diff(per_second) <= 3 * BURST_MAX, "{more}, {every:?}");
            }
        }
    }

    #[test]
    fn what_is_not_taken_waits() {
        let (port, far) = memory::port("paced", memory::Config::default()).unwrap();
        let mut port = Paced::new(Box::new(port), 100);
        let (mut rx, mut pool) = (port.rx_queue(0).unwrap(), Pool::new());
        (0..150).for_each(|_| assert!(far.inject_bytes(&[0; 60])));
        let mut burst = Burst::new();
        let begun = Instant::now();
        let mut take = || {
            let n = rx.rx(&mut burst, &mut pool).unwrap();
            burst.drain().for_each(|frame| pool.give(frame));
            n
        };
        assert_eq!(take(), BURST_MAX);
        // 64 packets at 100 a second: the next ones come after 640 ms; a burst of that was owed at the most.
        let mut asked = 0;
        while take() == 0 {
            asked += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(asked > 0 && begun.elapsed() >= Duration::from_millis(600), "{asked}");
    }
}
