//! Ports to the host, as devices of the underlay: what a bridge sends to its own port and is for a tunnel is taken out, and
//! packets that tunnels send enter the bridge there.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use port::local::{Receiver, Sender, Wire};
use port::terminal::{Attend, Attended, Take};
use port::{Burst, Frame, KernelStats, Pool, RxError, RxQueue};

use crate::hub::inlet::Inlet;
use crate::hub::pending::Pending;
use crate::hub::shared::{Device, Shared};

/// Attends to ports to the host.
pub(super) struct Host(pub(super) Arc<Shared>);

impl Attend for Host {
    fn attend(&self, interface: &str) -> Option<Attended> {
        let shared = &self.0;
        let workers = 0..shared.hops.workers();
        let pending: Result<Vec<_>, _> = workers.clone().map(|_| Pending::new()).collect();
        let pending = match pending {
            Ok(pending) => pending,
            Err(error) => {
                tracing::error!(port = %interface, %error, "no tunnel goes by this port: making a timer failed");
                return None;
            }
        };
        let wires: Vec<Arc<Wire>> = workers.clone().map(|_| Arc::default()).collect();
        let device = Arc::new(Device { interface: interface.to_owned(), wires, pending });
        shared.devices.rcu(|devices| {
            let mut devices = Vec::clone(devices);
            devices.push(device.clone());
            devices
        });
        shared.changed();
        let receive = workers.clone().map(|worker| {
            let (wire, hops) = (device.wires[worker].clone(), shared.hops.clone());
            let again = Sender::new(wire.clone(), worker, hops.clone());
            let receiver = Receiver::new(wire, worker, hops);
            let (shared, device) = (shared.clone(), device.clone());
            Box::new(Rx { receiver, again, shared, device, worker }) as Box<dyn RxQueue>
        });
        let takers = workers.clone().map(|worker| {
            Box::new(Taker(Inlet::new(shared.clone(), interface.to_owned(), worker)))
                as Box<dyn Take>
        });
        let counted = device.clone();
        Some(Attended {
            receive: receive.collect(),
            takers: takers.collect(),
            lost: Box::new(move || {
                let rx_dropped = counted.wires.iter().map(|wire| wire.lost()).sum();
                KernelStats { rx_dropped, ..KernelStats::default() }
            }),
            held: Box::new(Registered { shared: shared.clone(), device }),
        })
    }
}

/// Until this is dropped, the device is one of the hub's.
struct Registered {
    shared: Arc<Shared>,
    device: Arc<Device>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.devices.rcu(|devices| {
            let mut devices = Vec::clone(devices);
            devices.retain(|device| !Arc::ptr_eq(device, &self.device));
            devices
        });
        self.shared.changed();
        self.device.pending.iter().for_each(Pending::clear);
    }
}

/// What one worker sends to the port.
struct Taker(Inlet);

impl Take for Taker {
    #[inline]
    fn wants(&mut self, frame: &Frame) -> bool {
        self.0.wants(frame)
    }

    fn take(&mut self, frame: &mut Frame, pool: &mut Pool) {
        self.0.take(frame, pool);
    }

    fn flush(&mut self) {
        self.0.flush();
    }
}

/// Packets that tunnels have sent, of one worker.
struct Rx {
    receiver: Receiver,
    /// To the same wire, for packets that have waited.
    again: Sender,
    shared: Arc<Shared>,
    device: Arc<Device>,
    worker: usize,
}

impl Rx {
    fn pending(&self) -> &Pending {
        &self.device.pending[self.worker]
    }
}

impl RxQueue for Rx {
    fn rx(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let pending = &self.device.pending[self.worker];
        if pending.is_due() {
            let again = &mut self.again;
            pending.look(&*self.shared.underlay, Instant::now(), |frame, port| {
                match again.check() {
                    Ok(hops) => again.push(frame, hops),
                    Err(_) => port.unsent.add(&port.name, crate::Refused::QueueFull),
                }
            });
            again.flush();
        }
        self.receiver.rx(burst, pool)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.pending().fd())
    }

    fn local(&self) -> Option<bool> {
        Some(self.receiver.local() == Some(true) || self.pending().is_due())
    }

    fn done(&mut self) {
        self.receiver.done();
    }
}
