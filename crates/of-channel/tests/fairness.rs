//! One connection's barrier does not keep others waiting, however long the workers take to pass it.

mod common;

use common::*;
use openflow::{Message, Version};
use port::{Burst, LinkState, Pool, Port, PortInfo, RxError, RxQueue, TxQueue, memory};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A memory port whose worker stays in a burst for as long as the gate is shut.
struct Slow {
    inner: memory::Memory,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    shut: Mutex<()>,
    inside: AtomicBool,
}

struct SlowRx {
    inner: Box<dyn RxQueue>,
    gate: Arc<Gate>,
    had_burst: bool,
}

impl Port for Slow {
    fn info(&self) -> &PortInfo {
        self.inner.info()
    }

    fn link(&mut self) -> LinkState {
        self.inner.link()
    }

    fn set_admin(&mut self, up: bool) -> Result<(), port::Error> {
        self.inner.set_admin(up)
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, port::Error> {
        let inner = self.inner.rx_queue(queue)?;
        Ok(Box::new(SlowRx { inner, gate: self.gate.clone(), had_burst: false }))
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, port::Error> {
        self.inner.tx_queue()
    }
}

impl RxQueue for SlowRx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        // A worker that has just woken takes its version with the first burst, so the gate is behind that.
        if std::mem::take(&mut self.had_burst) {
            self.gate.inside.store(true, Ordering::SeqCst);
            drop(self.gate.shut.lock().unwrap());
        }
        let count = self.inner.rx(burst, pool)?;
        self.had_burst = count > 0;
        Ok(count)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }
}

#[test]
fn a_barrier_that_waits_for_a_worker_keeps_nobody_else_waiting() {
    let bed = Bed::new(listening());
    let gate = Arc::<Gate>::default();
    let (inner, host) = memory::port("slow", memory::Config::default()).unwrap();
    let slow = Slow { inner, gate: gate.clone() };
    bed.switch.add_port(None, Box::new(slow)).unwrap();
    let mut first = bed.controller(Version::V13);
    first.barrier();

    let shut = gate.shut.lock().unwrap();
    assert!(host.inject_bytes(&frame(1, 60)));
    wait_for("the worker is behind its burst", || gate.inside.load(Ordering::SeqCst));
    first.send(&Message::FlowMod(flow(1)));
    let barrier = first.send(&Message::BarrierRequest);
    let echo = first.send(&Message::EchoRequest(Vec::new()));
    // Others come, ask and program; only their barriers wait, too.
    let mut others = Vec::new();
    for n in 2..10 {
        let mut other = Controller::silent(bed.connect(), Version::V13);
        let versions = Some(openflow::VersionSet::of(&[Version::V13]));
        other.send(&Message::Hello(openflow::Hello { versions }));
        assert!(matches!(other.next(), Some((_, Message::Hello(_)))));
        other.send(&Message::FlowMod(flow(n)));
        assert_eq!(other.dump().len(), n as usize, "the flow is there, if not in force");
        let asked = other.send(&Message::BarrierRequest);
        others.push((other, asked));
    }
    assert!(first.next_within(Duration::from_millis(50)).is_none(), "it has not passed");
    for (other, _) in &mut others {
        assert!(other.next_within(Duration::from_millis(1)).is_none(), "nor have they");
    }

    drop(shut);
    let all = first.until(echo);
    assert!(matches!(&all[..], [(x, Message::BarrierReply), _] if *x == barrier), "{all:?}");
    for (other, asked) in &mut others {
        assert!(matches!(other.until(*asked).last(), Some((_, Message::BarrierReply))));
    }
}

#[test]
fn a_switch_ends_while_a_barrier_waits() {
    let mut bed = Bed::new(listening());
    let gate = Arc::<Gate>::default();
    let (inner, host) = memory::port("slow", memory::Config::default()).unwrap();
    let slow = Slow { inner, gate: gate.clone() };
    bed.switch.add_port(None, Box::new(slow)).unwrap();
    let mut controller = bed.controller(Version::V13);
    let shut = gate.shut.lock().unwrap();
    assert!(host.inject_bytes(&frame(1, 60)));
    wait_for("the worker is behind its burst", || gate.inside.load(Ordering::SeqCst));
    controller.send(&Message::FlowMod(flow(1)));
    controller.send(&Message::BarrierRequest);
    assert!(controller.next_within(Duration::from_millis(20)).is_none());
    // The channel ends without the worker.
    bed.channel = None;
    assert!(controller.next().is_none(), "the connection ends");
    drop(shut);
}
