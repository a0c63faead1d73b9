//! A tunnel port: its control side and its receive queues.
//!
//! Each worker has a queue of its own ([`local`](port::local)), which the worker's inlets fill. Where the kernel has sockets,
//! there is one queue more, of worker 0: it takes packets out of them, for all tunnel ports, so that any one suffices.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use port::local::Receiver;
use port::{
    Burst, Error, KernelStats, LinkState, Offload, Pool, Port, PortInfo, RxError, RxQueue, TxQueue,
};

use crate::hub::inlet::Inlet;
use crate::hub::outlet::Tx;
use crate::hub::shared::{Shared, TunnelPort};
use crate::refused::Refused;
use crate::table::Table;
use crate::underlay::Sockets;

/// The payload of the longest frames: it is up to the underlay what is too long.
const MTU: u32 = 65_535;

/// The control side.
pub(super) struct Tunnel {
    info: PortInfo,
    shared: Arc<Shared>,
    port: Arc<TunnelPort>,
    opened: Vec<bool>,
    /// Transmit queues that were opened: one for each worker, in order.
    sending: usize,
}

impl Tunnel {
    pub(super) fn new(shared: Arc<Shared>, port: Arc<TunnelPort>) -> Tunnel {
        let rx_queues = shared.hops.workers() + usize::from(shared.sockets.is_some());
        let info = PortInfo {
            name: port.name.clone(),
            kind: port.out.config().kind.word(),
            mac: mac(&port.name),
            mtu: MTU,
            curr_speed_kbps: 0,
            carries_offload: false,
            described: true,
            rx_queues,
            warnings: Vec::new(),
        };
        Tunnel { info, shared, port, opened: vec![false; rx_queues], sending: 0 }
    }
}

/// A stable, locally administered address made from a name.
fn mac(name: &str) -> [u8; 6] {
    use std::hash::BuildHasher;
    let hash = foldhash::fast::FixedState::default().hash_one(name);
    let [.., a, b, c, d, e] = hash.to_be_bytes();
    [0x02, a, b, c, d, e]
}

impl Port for Tunnel {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn link(&mut self) -> LinkState {
        let admin_up = self.port.wanted_up.load(Ordering::Relaxed);
        LinkState { admin_up, carrier: true, present: true }
    }

    fn set_admin(&mut self, up: bool) -> Result<(), Error> {
        self.port.wanted_up.store(up, Ordering::Relaxed);
        Ok(())
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        self.info.check_rx_queue(queue, self.opened.get(queue) == Some(&true))?;
        self.opened[queue] = true;
        if let Some(wire) = self.port.wires.get(queue) {
            let (wire, hops) = (wire.clone(), self.shared.hops.clone());
            return Ok(Box::new(Receiver::new(wire, queue, hops)));
        }
        match &self.shared.sockets {
            Some(sockets) => {
                let of = "the kernel's sockets".to_owned();
                let inlet = Inlet::new(self.shared.clone(), of, 0);
                Ok(Box::new(FromSockets { sockets: sockets.clone(), inlet }))
            }
            None => {
                let (name, queues) = (self.info.name.clone(), self.info.rx_queues);
                Err(Error::NoQueue { name, queue, queues })
            }
        }
    }

    fn worker_of(&self, queue: usize) -> Option<usize> {
        Some(if queue < self.port.wires.len() { queue } else { 0 })
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        let (worker, queues) = (self.sending, self.port.wires.len());
        if worker >= queues {
            return Err(Error::NoQueue { name: self.info.name.clone(), queue: worker, queues });
        }
        self.sending += 1;
        Ok(Box::new(Tx::new(self.shared.clone(), self.port.clone(), worker)))
    }

    /// What came and was refused counts as an error; what was lost in a queue, or while it waited, as dropped.
    fn kernel_stats(&mut self) -> KernelStats {
        let of = |late: bool| {
            let refusals = self.port.unsent.iter();
            let these =
                refusals.filter(|(reason, _)| late == (*reason == Refused::NeighbourUnknown));
            these.map(|(_, n)| n).sum()
        };
        KernelStats {
            rx_dropped: self.port.wires.iter().map(|wire| wire.lost()).sum(),
            rx_errors: self.port.untaken.iter().map(|(_, n)| n).sum(),
            tx_dropped: of(true),
            tx_errors: of(false),
            ..KernelStats::default()
        }
    }
}

/// The port is no longer in the table.
impl Drop for Tunnel {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.ports.retain(|port| port.id != self.port.id);
        let mut table = Table::default();
        for port in &state.ports {
            // They were together before.
            if let Err(error) = table.add(port.out.config(), port.clone()) {
                tracing::error!(port = %port.name, %error, "a tunnel port is lost");
            }
        }
        self.shared.publish(&state, table);
    }
}

/// Takes packets out of the kernel's sockets, for all tunnel ports. It gives no frames itself: each goes to its port's queue.
struct FromSockets {
    sockets: Arc<dyn Sockets>,
    inlet: Inlet,
}

impl RxQueue for FromSockets {
    fn rx(&mut self, _: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let inlet = &mut self.inlet;
        let mut give = |packet: &[u8], offload: Offload| {
            let mut frame = pool.copy_of(packet);
            let kind = if packet.first().is_some_and(|first| first >> 4 == 6) {
                [0x86, 0xdd]
            } else {
                [0x08, 0x00]
            };
            let ethernet = frame.push_front(14);
            ethernet[..12].fill(0);
            ethernet[12..].copy_from_slice(&kind);
            frame.offload = offload;
            if inlet.wants(&frame) {
                inlet.take(&mut frame, pool);
            } else {
                pool.give(frame);
            }
        };
        self.sockets.receive(&mut give);
        self.inlet.flush();
        Ok(0)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.sockets.fd())
    }
}
