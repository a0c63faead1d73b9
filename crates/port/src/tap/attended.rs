//! A TAP port that somebody attends to ([`terminal`](crate::terminal)): queue 0 is the TAP's, the others are theirs.
//!
//! A frame that is taken counts as sent.

use crate::terminal::{Attended, Take};
use crate::{DropReason, Error, Frame, KernelStats, Pool, PortInfo, RxQueue, TxQueue, TxReport};
use std::any::Any;

/// What a port keeps of those who attend to it.
pub(super) struct Guests {
    /// Each is opened once.
    receive: Vec<Option<Box<dyn RxQueue>>>,
    /// Those not yet given to a worker, the last worker's first.
    takers: Vec<Box<dyn Take>>,
    /// How many there were.
    workers: usize,
    lost: Box<dyn Fn() -> KernelStats + Send>,
    _held: Box<dyn Any + Send>,
}

impl Guests {
    pub(super) fn new(attended: Attended) -> Guests {
        let Attended { receive, mut takers, lost, held } = attended;
        takers.reverse();
        let workers = takers.len();
        let receive = receive.into_iter().map(Some).collect();
        Guests { receive, takers, workers, lost, _held: held }
    }

    /// Their receive queues.
    pub(super) fn queues(&self) -> usize {
        self.receive.len()
    }

    /// Opens one of them.
    pub(super) fn rx_queue(
        &mut self,
        queue: usize,
        info: &PortInfo,
    ) -> Result<Box<dyn RxQueue>, Error> {
        info.check_rx_queue(queue + 1, matches!(self.receive.get(queue), Some(None)))?;
        let name = || info.name.clone();
        let queues = info.rx_queues;
        let receive = self.receive.get_mut(queue).and_then(Option::take);
        receive.ok_or_else(|| Error::NoQueue { name: name(), queue: queue + 1, queues })
    }

    /// Puts who looks at what the next worker sends in front of its queue.
    pub(super) fn tx_queue(
        &mut self,
        tx: impl TxQueue + 'static,
        info: &PortInfo,
    ) -> Result<Box<dyn TxQueue>, Error> {
        let (name, queue) = (info.name.clone(), self.workers - self.takers.len());
        let taker = self.takers.pop();
        let taker = taker.ok_or(Error::NoQueue { name, queue, queues: self.workers })?;
        Ok(Box::new(Tx { tx, taker, spare: Pool::default(), report: TxReport::default() }))
    }

    pub(super) fn lost(&self) -> KernelStats {
        (self.lost)()
    }
}

struct Tx<T> {
    tx: T,
    taker: Box<dyn Take>,
    spare: Pool,
    report: TxReport,
}

impl<T: TxQueue> TxQueue for Tx<T> {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        if !self.taker.wants(frame) {
            return self.tx.tx(frame);
        }
        self.report.count_sent(frame.len());
        let mut copy = self.spare.clone_of(frame);
        self.taker.take(&mut copy, &mut self.spare);
        Ok(())
    }

    fn tx_owned(&mut self, mut frame: Frame, pool: &mut Pool) -> Result<(), DropReason> {
        self.tx_taken(&mut frame, pool)
    }

    fn tx_taken(&mut self, frame: &mut Frame, pool: &mut Pool) -> Result<(), DropReason> {
        if !self.taker.wants(frame) {
            return self.tx.tx_taken(frame, pool);
        }
        self.report.count_sent(frame.len());
        self.taker.take(frame, pool);
        Ok(())
    }

    fn flush(&mut self) -> TxReport {
        self.taker.flush();
        let mut report = self.tx.flush();
        report.merge(&std::mem::take(&mut self.report));
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::{Hops, Receiver, Wire};
    use std::sync::{Arc, Mutex};

    /// Sends into a list.
    struct Host(Arc<Mutex<Vec<u8>>>);

    impl TxQueue for Host {
        fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
            self.0.lock().unwrap().push(frame.data()[0]);
            Ok(())
        }

        fn flush(&mut self) -> TxReport {
            TxReport { sent: 1, ..TxReport::default() }
        }
    }

    /// Takes frames that begin with an odd octet.
    struct Odd(Arc<Mutex<Vec<u8>>>);

    impl Take for Odd {
        fn wants(&mut self, frame: &Frame) -> bool {
            frame.data()[0] % 2 == 1
        }

        fn take(&mut self, frame: &mut Frame, pool: &mut Pool) {
            self.0.lock().unwrap().push(frame.data()[0]);
            pool.give(frame.take());
        }

        fn flush(&mut self) {
            self.0.lock().unwrap().push(0xff);
        }
    }

    #[test]
    fn what_is_wanted_is_taken_and_the_rest_goes_to_the_host() {
        let (host, taken) = (Arc::default(), Arc::default());
        let hops = Hops::new(1);
        let receive = Receiver::new(Arc::new(Wire::default()), 0, hops);
        let mut guests = Guests::new(Attended {
            receive: vec![Box::new(receive)],
            takers: vec![Box::new(Odd(Arc::clone(&taken)))],
            lost: Box::new(KernelStats::default),
            held: Box::new(()),
        });
        let info = PortInfo {
            name: "t".into(),
            kind: "internal",
            mac: [2; 6],
            mtu: 1500,
            curr_speed_kbps: 0,
            carries_offload: true,
            described: false,
            rx_queues: 1 + guests.queues(),
            warnings: Vec::new(),
        };
        let mut tx = guests.tx_queue(Host(Arc::clone(&host)), &info).unwrap();
        assert!(guests.tx_queue(Host(Arc::clone(&host)), &info).is_err());
        let mut pool = Pool::new();
        for n in 0..4u8 {
            tx.tx(&Frame::copy_of(&[n; 60])).unwrap();
            tx.tx_owned(Frame::copy_of(&[n + 10; 60]), &mut pool).unwrap();
        }
        let report = tx.flush();
        assert_eq!((report.sent, report.sent_bytes), (5, 240));
        assert_eq!(*taken.lock().unwrap(), [1, 11, 3, 13, 0xff]);
        assert_eq!(*host.lock().unwrap(), [0, 10, 2, 12]);
        assert_eq!(guests.rx_queue(0, &info).unwrap().local(), Some(false));
        assert!(matches!(guests.rx_queue(0, &info), Err(Error::Busy { .. })));
        assert!(matches!(guests.rx_queue(1, &info), Err(Error::NoQueue { .. })));
    }
}
