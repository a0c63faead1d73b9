//! What all parts of a hub share: ports, devices, the table, counters.
//!
//! Workers read snapshots and add to counters; the control side makes new snapshots, under one lock.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use contract::tunnel::OptionMap;
use port::local::{Hops, Wire};

use crate::headers::Outgoing;
use crate::hub::pending::Pending;
use crate::hub::watch::Watcher;
use crate::refused::Refused;
use crate::table::Table;
use crate::underlay::{Sockets, Underlay};

/// Counters of refusals, one for each reason.
pub(super) struct Refusals {
    counts: [AtomicU64; Refused::ALL.len()],
}

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals { counts: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl fmt::Debug for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Refusals {
    /// Counts a frame; the first one of a reason is logged.
    #[cold]
    pub(super) fn add(&self, of: &str, reason: Refused) {
        if self.counts[reason as usize].fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(port = %of, reason = %reason, "{}", reason.meaning());
        }
    }

    /// Reasons that occurred, with their counts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Refused, u64)> {
        let count = |reason: Refused| self.counts[reason as usize].load(Ordering::Relaxed);
        Refused::ALL.iter().map(move |r| (*r, count(*r))).filter(|(_, n)| *n > 0)
    }
}

/// A tunnel port.
pub(super) struct TunnelPort {
    pub(super) name: String,
    /// Tells it from one of the same name that was there before.
    pub(super) id: u64,
    pub(super) out: Outgoing,
    /// The map that descriptors are laid out by.
    pub(super) map: ArcSwap<OptionMap>,
    /// Frames that came in, for each worker.
    pub(super) wires: Vec<Arc<Wire>>,
    pub(super) wanted_up: AtomicBool,
    /// Who is shown inner frames first.
    pub(super) watcher: Watcher,
    /// Of what it was to send.
    pub(super) unsent: Refusals,
    /// Of what came for it.
    pub(super) untaken: Refusals,
}

impl fmt::Debug for TunnelPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tunnel port {}", self.name)
    }
}

/// A port to the host by which packets leave and come.
pub(super) struct Device {
    pub(super) interface: String,
    /// Packets that enter its bridge, for each worker.
    pub(super) wires: Vec<Arc<Wire>>,
    /// Packets whose next hop's address is not known yet, for each worker.
    pub(super) pending: Vec<Pending>,
}

/// Ports and devices that there are.
#[derive(Default)]
pub(super) struct State {
    pub(super) ports: Vec<Arc<TunnelPort>>,
    pub(super) ids: u64,
}

pub(super) struct Shared {
    pub(super) hops: Hops,
    pub(super) underlay: Arc<dyn Underlay>,
    pub(super) sockets: Option<Arc<dyn Sockets>>,
    state: Mutex<State>,
    pub(super) table: ArcSwap<Table<Arc<TunnelPort>>>,
    pub(super) devices: ArcSwap<Vec<Arc<Device>>>,
    /// Changes with ports and devices.
    generation: AtomicU64,
    /// Of packets that no port is for.
    pub(super) untaken: Refusals,
}

impl Shared {
    pub(super) fn new(hops: Hops, underlay: Arc<dyn Underlay>) -> Shared {
        Shared {
            hops,
            sockets: underlay.sockets(),
            underlay,
            state: Mutex::default(),
            table: ArcSwap::default(),
            devices: ArcSwap::default(),
            generation: AtomicU64::new(0),
            untaken: Refusals::default(),
        }
    }

    /// What is guarded is valid after each step.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of what workers have learnt of ports, devices and routes: it is to be learnt anew when this changes.
    #[inline]
    pub(super) fn version(&self) -> (u64, u64) {
        (self.underlay.version(), self.generation())
    }

    /// Changes with ports and devices.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The port by which a device's packets leave, if it is one here.
    pub(super) fn device(&self, index: u32) -> Option<Arc<Device>> {
        let devices = self.devices.load();
        let is = |device: &&Arc<Device>| self.underlay.index_of(&device.interface) == Some(index);
        devices.iter().find(is).cloned()
    }

    /// Makes the table of these ports current, and has the kernel's sockets follow.
    pub(super) fn publish(&self, state: &State, table: Table<Arc<TunnelPort>>) {
        if let Some(sockets) = &self.sockets {
            let mut udp: Vec<u16> = table.udp_ports().map(|(port, _)| port).collect();
            udp.sort_unstable();
            if let Err(error) = sockets.listen(&udp, table.takes_gre()) {
                let ports = state.ports.len();
                tracing::warn!(%error, ports, "packets of tunnels do not come by the kernel's sockets");
            }
        }
        self.table.store(Arc::new(table));
        self.changed();
    }
}

/// Answers of the underlay, for one worker and one port.
pub(super) type Routes<T> = HashMap<(IpAddr, Option<IpAddr>), T, foldhash::fast::RandomState>;
