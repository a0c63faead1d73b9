//! Patch ports: two ports of switches that share their workers, as if a cable joined them.
//!
//! A port is opened at a [`Panel`] under its name and its peer's. Two that name each other are joined; until then, and
//! while either is down, there is no carrier. Each worker has a [queue to itself](crate::local) for each direction.
//!
//! Invariants: a frame that finds the queue full is counted at the port that it was to leave by. What is left in a queue when
//! its reader goes is counted as [`KernelStats::tx_dropped`] of that port.
//! Checked by: the tests below; between switches by the tests of `control::bridges`.

mod kind;

pub use kind::KIND;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::{EventfdFlags, eventfd};

use crate::local::{Hops, Receiver, Sender, Wire};
use crate::{
    Batch, DropReason, Error, Frame, KernelStats, LinkState, Pool, Port, PortInfo, RxQueue,
    TxQueue, TxReport, gso,
};

pub use crate::local::{FRAMES_MAX, HOPS_MAX};

/// The payload of the longest frames: no patch port is the reason that one is too long.
const MTU: u32 = 65_535;

/// Where patch ports of switches on the same workers meet. Clones are the same one.
#[derive(Clone)]
pub struct Panel(Arc<Inner>);

struct Inner {
    hops: Hops,
    cables: Mutex<HashMap<(String, String), Weak<Cable>>>,
}

/// Both directions between two ports: from the first, in the order of their names, and from the second.
struct Cable {
    wires: Vec<[Arc<Wire>; 2]>,
    /// Bits of [`OPEN`] and [`WANTED`], those of the second end two places higher.
    state: AtomicU8,
    /// Readable once there is something new for an end's control side.
    news: [OwnedFd; 2],
}

const OPEN: u8 = 1;
const WANTED: u8 = 2;
/// Both ends are there, and wanted up.
const JOINED: u8 = 0b1111;

/// What is guarded is valid after each step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Panel {
    /// For switches on so many workers.
    pub fn new(workers: usize) -> Panel {
        Panel(Arc::new(Inner { hops: Hops::new(workers), cables: Mutex::default() }))
    }

    /// The hops of bursts on its workers, for other ports that lead from switch to switch.
    pub fn hops(&self) -> Hops {
        self.0.hops.clone()
    }

    /// Opens the end `name` of a cable whose other end is `peer`. Each end is there once.
    pub fn open(&self, name: &str, peer: &str) -> Result<Patch, Error> {
        if name == peer {
            let what = "a patch port that is its own peer".to_owned();
            return Err(Error::Unsupported { name: name.to_owned(), what });
        }
        let (first, second) = if name < peer { (name, peer) } else { (peer, name) };
        let end = usize::from(name != first);
        let mut cables = lock(&self.0.cables);
        cables.retain(|_, cable| cable.strong_count() > 0);
        let key = (first.to_owned(), second.to_owned());
        let cable = match cables.get(&key).and_then(Weak::upgrade) {
            Some(cable) => cable,
            None => {
                let cable = Arc::new(Cable::new(name, self.0.hops.workers())?);
                cables.insert(key, Arc::downgrade(&cable));
                cable
            }
        };
        if cable.is(end, OPEN) {
            return Err(Error::Busy { name: name.to_owned(), what: "the patch port of this name" });
        }
        cable.set(end, OPEN | WANTED, true);
        let workers = self.0.hops.workers();
        let info = PortInfo {
            name: name.to_owned(),
            kind: KIND.word,
            mac: crate::mac_of_name(name),
            mtu: MTU,
            curr_speed_kbps: 0,
            carries_offload: true,
            described: false,
            rx_queues: workers,
            warnings: Vec::new(),
        };
        let (panel, opened) = (self.0.clone(), vec![false; workers]);
        Ok(Patch { info, panel, cable, end, opened, sending: 0 })
    }
}

impl Cable {
    fn new(name: &str, workers: usize) -> Result<Cable, Error> {
        let news = || {
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
                .map_err(|e| Error::io(name, "making an eventfd", "", e))
        };
        Ok(Cable {
            wires: (0..workers).map(|_| Default::default()).collect(),
            state: AtomicU8::new(0),
            news: [news()?, news()?],
        })
    }

    fn is(&self, end: usize, bits: u8) -> bool {
        let bits = bits << (2 * end);
        self.state.load(Ordering::Acquire) & bits == bits
    }

    fn is_joined(&self) -> bool {
        self.state.load(Ordering::Acquire) == JOINED
    }

    /// Sets or clears bits of an end; the other one's control side is told.
    fn set(&self, end: usize, bits: u8, on: bool) {
        let bits = bits << (2 * end);
        match on {
            true => self.state.fetch_or(bits, Ordering::AcqRel),
            false => self.state.fetch_and(!bits, Ordering::AcqRel),
        };
        // Refused only if 2^64 - 2 were written and not read: then it is readable all the same.
        let _ = rustix::io::write(&self.news[1 - end], &1u64.to_ne_bytes());
    }
}

/// The control side of a patch port.
pub struct Patch {
    info: PortInfo,
    panel: Arc<Inner>,
    cable: Arc<Cable>,
    /// Which end of the cable.
    end: usize,
    opened: Vec<bool>,
    /// Transmit queues that were opened: one for each worker, in order.
    sending: usize,
}

impl Port for Patch {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn link(&mut self) -> LinkState {
        // Empty is what we want.
        let _ = rustix::io::read(&self.cable.news[self.end], &mut [0u8; 8]);
        let admin_up = self.cable.is(self.end, WANTED);
        LinkState { admin_up, carrier: self.cable.is_joined(), present: true }
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.cable.news[self.end].as_fd())
    }

    fn set_admin(&mut self, up: bool) -> Result<(), Error> {
        self.cable.set(self.end, WANTED, up);
        Ok(())
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        self.info.check_rx_queue(queue, self.opened.get(queue) == Some(&true))?;
        self.opened[queue] = true;
        let wire = self.cable.wires[queue][1 - self.end].clone();
        Ok(Box::new(Receiver::new(wire, queue, self.panel.hops.clone())))
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        let worker = self.sending;
        let Some(wires) = self.cable.wires.get(worker) else {
            let queues = self.cable.wires.len();
            return Err(Error::NoQueue { name: self.info.name.clone(), queue: worker, queues });
        };
        self.sending += 1;
        let to = Sender::new(wires[self.end].clone(), worker, self.panel.hops.clone());
        let (cable, spare) = (self.cable.clone(), Pool::default());
        Ok(Box::new(Tx { cable, to, spare, report: TxReport::default() }))
    }

    fn kernel_stats(&mut self) -> KernelStats {
        let tx_dropped = self.cable.wires.iter().map(|wires| wires[self.end].lost()).sum();
        KernelStats { tx_dropped, ..KernelStats::default() }
    }

    fn worker_of(&self, queue: usize) -> Option<usize> {
        Some(queue)
    }
}

impl Drop for Patch {
    fn drop(&mut self) {
        self.cable.set(self.end, OPEN | WANTED, false);
    }
}

/// Sends to the other end.
struct Tx {
    cable: Arc<Cable>,
    to: Sender,
    spare: Pool,
    report: TxReport,
}

impl Tx {
    /// The hops of what is sent now, unless it must not go.
    fn check(&self) -> Result<u8, DropReason> {
        match self.cable.is_joined() {
            true => self.to.check(),
            false => Err(DropReason::TxLinkDown),
        }
    }

    fn push(&mut self, frame: Frame, hops: u8) {
        self.report.count_sent(frame.len());
        self.to.push(frame, hops);
    }
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        let hops = self.check()?;
        gso::check_len(frame, MTU)?;
        let copy = self.spare.clone_of(frame);
        self.push(copy, hops);
        Ok(())
    }

    fn tx_owned(&mut self, frame: Frame, pool: &mut Pool) -> Result<(), DropReason> {
        let checked = self.check().and_then(|hops| gso::check_len(&frame, MTU).map(|()| hops));
        match checked {
            Ok(hops) => {
                self.push(frame, hops);
                Ok(())
            }
            Err(reason) => {
                pool.give(frame);
                Err(reason)
            }
        }
    }

    fn tx_batch(&mut self, batch: &mut Batch, _: &mut Pool, refused: &mut dyn FnMut(DropReason)) {
        match self.check() {
            Ok(hops) => {
                self.report.sent += batch.len() as u64;
                self.report.sent_bytes += u64::from(batch.sizes().bytes);
                self.to.push_batch(batch, hops);
            }
            Err(reason) => {
                (0..batch.len()).for_each(|_| refused(reason));
                batch.release();
            }
        }
    }

    fn flush(&mut self) -> TxReport {
        self.to.flush();
        std::mem::take(&mut self.report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Burst;

    /// Queues of both ends of a cable, of one worker.
    struct Ends {
        a: Patch,
        b: Patch,
        to: Box<dyn TxQueue>,
        from: Box<dyn RxQueue>,
    }

    fn ends(panel: &Panel) -> Ends {
        let mut a = panel.open("a", "b").unwrap();
        assert!(!a.link().carrier);
        let mut b = panel.open("b", "a").unwrap();
        let (to, from) = (a.tx_queue().unwrap(), b.rx_queue(0).unwrap());
        Ends { a, b, to, from }
    }

    fn take(queue: &mut dyn RxQueue) -> Vec<u8> {
        let (mut burst, mut pool) = (Burst::new(), Pool::new());
        queue.rx(&mut burst, &mut pool).unwrap();
        burst.frames().iter().map(|frame| frame.data()[0]).collect()
    }

    #[test]
    fn what_one_end_sends_the_other_takes_in_order_with_its_offload() {
        let panel = Panel::new(1);
        let Ends { mut to, mut from, a: _a, b: _b } = ends(&panel);
        assert_eq!(from.local(), Some(false));
        let mut frame = Frame::copy_of(&[7; 60]);
        frame.offload.csum = crate::Csum::Partial { start: 34, offset: 16 };
        to.tx(&frame).unwrap();
        for n in 0..100 {
            to.tx_owned(Frame::copy_of(&[n; 60]), &mut Pool::new()).unwrap();
        }
        assert_eq!(from.local(), Some(false), "what was not flushed is not there");
        let report = to.flush();
        assert_eq!((report.sent, report.sent_bytes), (101, 6060));
        assert_eq!(from.local(), Some(true));
        let mut burst = Burst::new();
        assert_eq!(from.rx(&mut burst, &mut Pool::new()).unwrap(), 64);
        assert_eq!(burst.frames()[0].offload, frame.offload);
        assert_eq!(burst.frames()[63].data()[0], 62);
        assert_eq!(take(&mut *from), (63..100).collect::<Vec<u8>>());
        assert!(take(&mut *from).is_empty());
        assert_eq!(from.local(), Some(false));
    }

    #[test]
    fn ends_join_when_both_name_each_other_and_part_when_one_goes() {
        let panel = Panel::new(1);
        let Ends { mut a, b, mut to, mut from } = ends(&panel);
        assert!(crate::wait_readable(a.event_fd().unwrap(), std::time::Duration::ZERO));
        assert_eq!(a.link(), LinkState::UP);
        assert!(matches!(panel.open("a", "b"), Err(Error::Busy { .. })));
        assert!(matches!(panel.open("a", "a"), Err(Error::Unsupported { .. })));
        // One that names another peer is not joined.
        assert!(!panel.open("c", "a").unwrap().link().carrier);
        a.set_admin(false).unwrap();
        assert!(!a.link().is_up());
        assert_eq!(to.tx(&Frame::copy_of(&[1; 60])), Err(DropReason::TxLinkDown));
        a.set_admin(true).unwrap();
        to.tx(&Frame::copy_of(&[1; 60])).unwrap();
        to.flush();
        assert_eq!(take(&mut *from), [1]);
        // What nobody takes any more is counted.
        to.tx(&Frame::copy_of(&[1; 60])).unwrap();
        to.flush();
        drop(from);
        drop(b);
        assert_eq!(a.kernel_stats().tx_dropped, 1);
        assert!(crate::wait_readable(a.event_fd().unwrap(), std::time::Duration::ZERO));
        assert!(!a.link().carrier);
        assert!(panel.open("b", "a").unwrap().link().carrier);
    }

    #[test]
    fn a_full_queue_and_circles_are_refused_with_their_reasons() {
        let panel = Panel::new(1);
        let Ends { mut a, mut b, mut to, mut from } = ends(&panel);
        for _ in 0..FRAMES_MAX {
            to.tx(&Frame::copy_of(&[1; 60])).unwrap();
        }
        assert_eq!(to.tx(&Frame::copy_of(&[1; 60])), Err(DropReason::TxQueueFull));
        to.flush();
        assert_eq!(to.tx(&Frame::copy_of(&[1; 60])), Err(DropReason::TxQueueFull));
        while !take(&mut *from).is_empty() {}
        from.done();
        // There and back again.
        let (mut back, mut home) = (b.tx_queue().unwrap(), a.rx_queue(0).unwrap());
        let mut hops = 0;
        let outcome = loop {
            let (way, end) = match hops % 2 {
                0 => (&mut to, &mut from),
                _ => (&mut back, &mut home),
            };
            if let Err(reason) = way.tx(&Frame::copy_of(&[1; 60])) {
                break reason;
            }
            way.flush();
            assert_eq!(take(&mut **end), [1]);
            hops += 1;
        };
        assert_eq!((hops, outcome), (u32::from(HOPS_MAX), DropReason::PatchLoop));
        // The burst is done: others are not meant.
        home.done();
        assert_eq!(to.tx(&Frame::copy_of(&[1; 60])), Ok(()));
    }

    #[test]
    fn frames_of_different_hops_come_in_different_bursts() {
        let panel = Panel::new(1);
        let Ends { mut to, mut from, a: _a, b: _b } = ends(&panel);
        to.tx(&Frame::copy_of(&[1; 60])).unwrap();
        panel.0.hops.set(0, 5);
        to.tx(&Frame::copy_of(&[2; 60])).unwrap();
        panel.0.hops.set(0, 0);
        to.tx(&Frame::copy_of(&[3; 60])).unwrap();
        to.flush();
        for (wanted, hops) in [(1, 1), (2, 6), (3, 1)] {
            assert_eq!(take(&mut *from), [wanted]);
            assert_eq!(panel.0.hops.get(0), hops);
        }
    }
}
