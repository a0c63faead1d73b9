//! The kernel's network, which is followed from when the first port asks for it.

use super::sockets::KernelSockets;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use tunnel::underlay::{Next, Sockets};
use underlay::Underlay;

/// Routes, addresses and neighbours of the network namespace that the process was started in.
#[derive(Default)]
pub struct Kernel {
    /// None if the kernel does not tell.
    started: Arc<OnceLock<Option<Underlay>>>,
    sockets: OnceLock<Option<Arc<KernelSockets>>>,
}

/// What is known of the network, from now on.
fn started(of: &OnceLock<Option<Underlay>>) -> Option<&Underlay> {
    let start = || match Underlay::start() {
        Ok(underlay) => Some(underlay),
        Err(error) => {
            tracing::error!(%error, "routes cannot be followed, so tunnels carry nothing");
            None
        }
    };
    of.get_or_init(start).as_ref()
}

impl Kernel {
    /// What is known of the network; none if the kernel does not tell.
    pub fn network(&self) -> Option<&Underlay> {
        started(&self.started)
    }
}

impl tunnel::underlay::Underlay for Kernel {
    fn version(&self) -> u64 {
        self.network().map_or(0, Underlay::version)
    }

    fn resolve(&self, to: IpAddr, from: Option<IpAddr>, mark: u32) -> Option<Next> {
        let next = self.network()?.resolve(to, from, mark).ok()?;
        Some(Next {
            device: next.device,
            source: next.source,
            local_mac: next.local_mac,
            gateway: next.gateway,
            neighbour: next.neighbour,
            mtu: next.mtu,
        })
    }

    fn ask(&self, device: u32, gateway: IpAddr) {
        if let Some(network) = self.network() {
            network.ask(device, gateway);
        }
    }

    fn is_local(&self, address: IpAddr) -> bool {
        self.network().is_some_and(|network| network.is_local(address))
    }

    fn index_of(&self, name: &str) -> Option<u32> {
        self.network()?.index_of(name)
    }

    fn sockets(&self) -> Option<Arc<dyn Sockets>> {
        let make = || match KernelSockets::new(self.started.clone()) {
            Ok(sockets) => Some(Arc::new(sockets)),
            Err(error) => {
                tracing::error!(%error, "tunnels reach no device but bridges' own");
                None
            }
        };
        let sockets = self.sockets.get_or_init(make).clone()?;
        Some(sockets)
    }
}

/// As [`Kernel::network`], for sockets.
pub(super) fn network(of: &OnceLock<Option<Underlay>>) -> Option<&Underlay> {
    started(of)
}
