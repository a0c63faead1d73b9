//! Threads that stand still are told, those that live are not.

use port::{
    Burst, DropReason, Error, Frame, LinkState, Pool, Port, PortInfo, RxError, RxQueue, TxQueue,
    TxReport,
};
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use switch::{Config, EngineKind, Switch};
use testkit::station::program;

/// What all that is waited for must happen within, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A port whose receive queue waits until it is let go on, and says when it has begun to.
struct Blocking {
    info: PortInfo,
    begun: Sender<()>,
    go_on: Arc<Mutex<Receiver<()>>>,
}

struct Blocks(Sender<()>, Arc<Mutex<Receiver<()>>>);
struct Swallows;

impl Port for Blocking {
    fn info(&self) -> &PortInfo {
        &self.info
    }
    fn link(&mut self) -> LinkState {
        LinkState { admin_up: true, carrier: true, present: true }
    }
    fn set_admin(&mut self, _: bool) -> Result<(), Error> {
        Ok(())
    }
    fn rx_queue(&mut self, _: usize) -> Result<Box<dyn RxQueue>, Error> {
        Ok(Box::new(Blocks(self.begun.clone(), self.go_on.clone())))
    }
    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        Ok(Box::new(Swallows))
    }
}

impl RxQueue for Blocks {
    fn rx(&mut self, _: &mut Burst, _: &mut Pool) -> Result<usize, RxError> {
        // Errors are of tests that have ended.
        let _ = self.0.send(());
        let _ = self.1.lock().unwrap().recv();
        Err(RxError::Ended)
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl TxQueue for Swallows {
    fn tx(&mut self, _: &Frame) -> Result<(), DropReason> {
        Ok(())
    }
    fn flush(&mut self) -> TxReport {
        TxReport::default()
    }
}

fn start(workers: usize) -> Switch {
    let config = Config {
        program: program(),
        workers,
        cpus: Vec::new(),
        punt_rate: 1000,
        engine: EngineKind::Interp,
        validate: None,
    };
    Switch::start(config).unwrap()
}

/// Gives the first worker a queue in which it waits.
fn block(switch: &Switch) -> Sender<()> {
    let (begun, has_begun) = channel();
    let (go_on, wait) = channel();
    let info = PortInfo {
        name: "blocks".into(),
        kind: "test",
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        curr_speed_kbps: 0,
        carries_offload: false,
        described: false,
        rx_queues: 1,
        warnings: Vec::new(),
    };
    let port = Blocking { info, begun, go_on: Arc::new(Mutex::new(wait)) };
    switch.add_port(Some(1), Box::new(port)).unwrap();
    has_begun.recv_timeout(PATIENCE).expect("a worker has come to the queue");
    go_on
}

#[test]
fn a_worker_that_waits_in_a_port_is_told_by_name_and_place() {
    let switch = start(2);
    let go_on = block(&switch);
    let (tell, told) = channel();
    switch.watch(Duration::from_millis(500), move |still| tell.send(still).unwrap()).unwrap();
    let still = told.recv_timeout(PATIENCE).expect("it is told");
    assert_eq!(still.thread, "worker-0");
    assert!(!still.place.is_empty(), "{still}");
    assert!(switch.busy_workers().iter().any(|still| still.thread == "worker-0"));
    drop(go_on);
    switch.stop();
}

#[test]
fn a_thread_of_a_client_that_does_not_beat_is_told() {
    let switch = start(1);
    let pulse = switch.pulse("client");
    pulse.here();
    let (tell, told) = channel();
    switch.watch(Duration::from_millis(500), move |still| tell.send(still).unwrap()).unwrap();
    assert_eq!(told.recv_timeout(PATIENCE).expect("it is told").thread, "client");
    switch.stop();
}

#[test]
fn a_switch_that_stops_or_goes_is_not_accused() {
    let (tell, told) = channel();
    let switch = start(1);
    let pulse = switch.pulse("client that has ended");
    drop(pulse);
    let to = tell.clone();
    switch.watch(Duration::from_millis(100), move |still| to.send(still).unwrap()).unwrap();
    switch.stop();
    drop(switch);
    let switch = start(1);
    switch.watch(Duration::from_millis(100), move |still| tell.send(still).unwrap()).unwrap();
    drop(switch);
    // Both have dropped what they would tell by: their threads have ended.
    assert_eq!(told.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
}
