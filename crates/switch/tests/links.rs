//! Links that change: how soon clients and workers learn of it.

mod common;

use common::config;
use port::{LinkState, Port, PortInfo, RxQueue, TxQueue, memory};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
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

/// A memory port whose carrier comes and goes without an event, as Linux may tell of it a second late.
struct Silent {
    inner: memory::Memory,
    state: Arc<SilentState>,
}

struct SilentState {
    plugged: AtomicBool,
    glances: AtomicUsize,
}

impl Port for Silent {
    fn info(&self) -> &PortInfo {
        self.inner.info()
    }

    fn link(&mut self) -> LinkState {
        LinkState { carrier: self.state.plugged.load(SeqCst), ..self.inner.link() }
    }

    fn glance(&self) -> Option<bool> {
        self.state.glances.fetch_add(1, SeqCst);
        Some(self.state.plugged.load(SeqCst))
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

/// While a group watches a port, ports are glanced at much more often than they are asked: the soonest
/// of many changes right after an answer is told long before the next one.
#[test]
fn ports_are_glanced_at_while_a_group_watches_one() {
    let switch = Switch::start(config(1)).unwrap();
    let state =
        Arc::new(SilentState { plugged: AtomicBool::new(true), glances: AtomicUsize::new(0) });
    let (inner, _far) = memory::port("p1", memory::Config::default()).unwrap();
    switch.add_port(Some(1), Box::new(Silent { inner, state: state.clone() })).unwrap();
    let told = |live: bool| {
        let event = switch.next_port_event(Duration::from_secs(60));
        let Some(PortEvent::Added(view) | PortEvent::Modified(view)) = event else {
            panic!("{event:?}")
        };
        assert_eq!(view.is_live(), live);
    };
    told(true);
    state.plugged.store(false, SeqCst);
    told(false);
    assert_eq!(state.glances.load(SeqCst), 0, "nobody watches");

    let group = |watch_port| {
        let action = testkit::station::call("out", &[1]);
        let counter = ir::CounterId(switch.allocate_counter().unwrap());
        let bucket = ir::Bucket { weight: 1, watch_port, watch_group: None, action, counter };
        let counter = ir::CounterId(switch.allocate_counter().unwrap());
        let kind = ir::GroupKind::FastFailover;
        let group = ir::Group { kind, buckets: vec![bucket], hash: [].into(), counter };
        ir::Update::SetGroup(ir::GroupId(1), Arc::new(group))
    };
    switch.transact(&[group(Some(1))]).unwrap();
    let mut soonest = Duration::MAX;
    for round in 0..20 {
        let start = Instant::now();
        state.plugged.store(round % 2 == 0, SeqCst);
        told(round % 2 == 0);
        soonest = soonest.min(start.elapsed());
    }
    assert!(soonest < Duration::from_millis(100), "{soonest:?}");
    assert!(state.glances.load(SeqCst) > 0);

    // It no longer does, nor does one that is not there.
    for update in [group(None), group(Some(1)), ir::Update::RemoveGroup(ir::GroupId(1))] {
        switch.transact(&[update]).unwrap();
    }
    common::until("nobody watches", || {
        let before = state.glances.load(SeqCst);
        std::thread::sleep(Duration::from_millis(100));
        state.glances.load(SeqCst) == before
    });
    switch.stop();
}
