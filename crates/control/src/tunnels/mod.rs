//! Tunnels of the process: the hub that all bridges' tunnel ports are opened at, and the kernel's network below it.
//!
//! | module | holds |
//! |---|---|
//! | `kernel` | routes, addresses and neighbours, from when the first port asks for them |
//! | `sockets` | packets by devices that are no ports of the process |
//! | `follow` | the map of options, from a bridge's agent to its tunnel ports |
//! | `show` | the answers of `ovs/route/*` and `tnl/*` |

pub(crate) mod follow;
mod kernel;
pub mod show;
mod sockets;

pub use kernel::Kernel;

use port::kind::Environment;
use port::patch::Panel;
use std::sync::Arc;
use tunnel::hub::Hub;
use tunnel::kinds;

/// Whether the database's interfaces of this type are tunnel ports.
pub fn are_of_type(word: &str) -> bool {
    let kinds = [&kinds::GENEVE, &kinds::VXLAN, &kinds::GRE, &kinds::ERSPAN];
    kinds.iter().any(|kind| kind.database.iter().any(|one| one.word == word))
}

/// With what ports of the same workers meet at: the panel of patch ports, the hub of tunnel ports.
pub(crate) fn meeting(environment: Environment, workers: usize) -> Environment {
    let panel = Panel::new(workers);
    let kernel = Arc::new(Kernel::default());
    let hub = Hub::new(panel.hops(), kernel.clone());
    environment.with(panel).with(hub.terminal()).with(hub).with(kernel)
}
