//! Links that change: how soon clients and workers learn of it.

mod common;

use common::config;
use port::{LinkState, Port, PortInfo, RxQueue, TxQueue, memory};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use switch::{PortEvent, Switch};

/// A cable that the test plugs and unplugs.
struct Cable {
    plugged: AtomicBool,
    event: OwnedFd,
}

impl Cable {
    fn set(&self, plugged: bool) {
        self.plugged.store(plugged, SeqCst);
        rustix::io::write(&self.event, &1u64.to_ne_bytes()).unwrap();
    }
}

/// A memory port on such a cable, whose descriptor tells of changes as an interface's does.
struct Plugged {
    inner: memory::Memory,
    cable: Arc<Cable>,
}

impl Port for Plugged {
    fn info(&self) -> &PortInfo {
        self.inner.info()
    }

    fn link(&mut self) -> LinkState {
        // There is nothing to drain if nothing has happened.
        let _ = rustix::io::read(&self.cable.event, &mut [0; 8]);
        LinkState { carrier: self.cable.plugged.load(SeqCst), ..self.inner.link() }
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.cable.event.as_fd())
    }

    fn set_admin(&mut self, up: bool) -> Result<(), port::Error> {
        self.inner.set_admin(up)
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, port::Error> {
        self.inner.rx_queue(queue)
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, port::Error> {
        self.inner.tx_queue()
    }
}

/// Without its events, a port is asked four times a second: a change right after an answer waits for
/// a quarter of a second. One of many that comes much sooner has been told by the event.
#[test]
fn a_ports_own_event_is_not_waited_for() {
    let switch = Switch::start(config(1)).unwrap();
    let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let cable = Arc::new(Cable { plugged: AtomicBool::new(true), event });
    let (inner, _far) = memory::port("p1", memory::Config::default()).unwrap();
    switch.add_port(Some(1), Box::new(Plugged { inner, cable: cable.clone() })).unwrap();
    let told = |live: bool| {
        let event = switch.next_port_event(Duration::from_secs(60));
        let Some(PortEvent::Added(view) | PortEvent::Modified(view)) = event else {
            panic!("{event:?}")
        };
        assert_eq!(view.is_live(), live);
    };
    told(true);
    let mut soonest = Duration::MAX;
    for round in 0..20 {
        let start = Instant::now();
        cable.set(round % 2 == 1);
        told(round % 2 == 1);
        soonest = soonest.min(start.elapsed());
    }
    assert!(soonest < Duration::from_millis(100), "{soonest:?}");
    // Ports that go take their descriptors with them: the thread watches on.
    switch.remove_port(1).unwrap();
    let removed = switch.next_port_event(Duration::from_secs(60));
    assert!(matches!(removed, Some(PortEvent::Removed(_))));
    switch.stop();
}
