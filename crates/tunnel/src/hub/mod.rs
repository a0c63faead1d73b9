//! Where tunnel ports, the underlay and ports to the host meet.
//!
//! A [`Hub`] is made once for a process, for its workers. It opens tunnel ports ([`Hub::open`]), and attends to ports to the
//! host ([`Hub::terminal`]): both kinds find theirs in the [`Environment`](port::kind::Environment).
//!
//! A frame that a bridge sends to a tunnel port gets its headers and enters the bridge whose own port is the device of the
//! route, as if it had been received there. What a bridge sends to its own port, and is for a tunnel, comes out of that
//! tunnel's port. All of it stays on one worker. By other devices, the kernel's sockets are the way ([`Sockets`]).
//!
//! Invariants: workers take no lock that the control side holds for long, and see ports, devices and routes by snapshots;
//! no frame is lost uncounted ([`Hub::refusals`]).
//! Checked by: the tests of this module, two hubs back to back.
//!
//! [`Sockets`]: crate::underlay::Sockets

mod control;
mod device;
mod inlet;
mod joined;
mod outlet;
mod pending;
mod reassembly;
mod shared;
mod watch;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use contract::tunnel::OptionMap;
use port::local::Hops;
use port::terminal::Terminal;
use port::{Error, Port};

use crate::config::Config;
use crate::headers::Outgoing;
use crate::refused::Refused;
use crate::table::Table;
use crate::underlay::Underlay;
use shared::{Refusals, Shared, TunnelPort};
use watch::Watcher;

/// Where tunnel ports, the underlay and ports to the host meet. Clones are the same one.
#[derive(Clone)]
pub struct Hub(Arc<Shared>);

pub use watch::{Watch, Watched};

/// Frames that were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The port; None: packets that no port was found for.
    pub port: Option<String>,
    /// They were to be sent; if not, they came in.
    pub sending: bool,
    /// Why.
    pub reason: Refused,
    /// How many.
    pub count: u64,
}

impl Hub {
    /// For switches on the workers of these hops, which are those of the panel of patch ports
    /// ([`Panel::hops`](port::patch::Panel::hops)).
    pub fn new(hops: Hops, underlay: Arc<dyn Underlay>) -> Hub {
        Hub(Arc::new(Shared::new(hops, underlay)))
    }

    /// Opens a tunnel port. Names are there once; so is what comes in by it.
    pub fn open(&self, name: &str, config: Config) -> Result<Box<dyn Port>, Error> {
        let mut state = self.0.state();
        if state.ports.iter().any(|port| port.name == name) {
            return Err(Error::Busy {
                name: name.to_owned(),
                what: "the tunnel port of this name",
            });
        }
        let mut table = Table::default();
        let workers = 0..self.0.hops.workers();
        state.ids += 1;
        let port = Arc::new(TunnelPort {
            name: name.to_owned(),
            id: state.ids,
            out: Outgoing::new(config),
            map: ArcSwap::default(),
            wires: workers.map(|_| Arc::default()).collect(),
            wanted_up: AtomicBool::new(true),
            watcher: Watcher::default(),
            unsent: Refusals::default(),
            untaken: Refusals::default(),
        });
        for port in state.ports.iter().chain([&port]) {
            table.add(port.out.config(), port.clone()).map_err(|conflict| Error::Unsupported {
                name: name.to_owned(),
                what: conflict.to_string(),
            })?;
        }
        state.ports.push(port.clone());
        self.0.publish(&state, table);
        Ok(Box::new(control::Tunnel::new(self.0.clone(), port)))
    }

    /// Who attends to ports to the host, for their environment.
    pub fn terminal(&self) -> Terminal {
        Terminal(Arc::new(device::Host(self.0.clone())))
    }

    /// By which map the descriptors of a port are laid out from now on. Says whether there is such a port.
    pub fn set_options(&self, port: &str, map: Arc<OptionMap>) -> bool {
        let state = self.0.state();
        let port = state.ports.iter().find(|candidate| candidate.name == port);
        port.inspect(|port| port.map.store(map)).is_some()
    }

    /// Inner frames that come to a port are shown to this from now on, before the port has them; `None` ends that. Says
    /// whether there is such a port. One that is opened anew is not watched.
    pub fn set_watch(&self, port: &str, watch: Option<Watch>) -> bool {
        let state = self.0.state();
        let port = state.ports.iter().find(|candidate| candidate.name == port);
        port.inspect(|port| port.watcher.set(watch)).is_some()
    }

    /// The tunnel ports with their options.
    pub fn ports(&self) -> Vec<(String, Config)> {
        let state = self.0.state();
        state.ports.iter().map(|port| (port.name.clone(), port.out.config().clone())).collect()
    }

    /// What was refused, and why.
    pub fn refusals(&self) -> Vec<Refusal> {
        let of = |port: Option<&str>, sending, refusals: &Refusals| {
            let port = port.map(str::to_owned);
            let refusal = |(reason, count)| Refusal { port: port.clone(), sending, reason, count };
            refusals.iter().map(refusal).collect::<Vec<_>>()
        };
        let mut all = of(None, false, &self.0.untaken);
        for port in &self.0.state().ports {
            all.extend(of(Some(&port.name), true, &port.unsent));
            all.extend(of(Some(&port.name), false, &port.untaken));
        }
        all
    }
}
