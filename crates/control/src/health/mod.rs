//! Checks of balancers' backends, and drains that end: what the control side does for services that spread flows.
//!
//! In: the balancers of all bridges, with what their settings say of checks. Out: [`Backends`](service::balance::Backends) that
//! are told who lives; events and changes for who looks. Sockets are this process's, in its network namespace: the kernel's
//! routes decide where checks leave, unless the settings name an address or an interface.
//!
//! | module | is |
//! |---|---|
//! | `probe` | one question to one backend |
//! | `run` | the thread: who is asked when |
//!
//! One thread, `health`, asks all at once and never waits for one. What packets go by is published by the balancer; nothing is
//! compiled for it.
//!
//! Checked by: the tests here, with sockets of this machine; `lab/health`, with backends that die.

mod probe;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use run::Health;

use crate::program::services::owners;
use datapath::services::elements::Named;
use std::sync::Arc;
use switch::Switch;

/// The balancers of a switch; of those that share their backends, the first.
pub(crate) fn balancers(switch: &Switch) -> Vec<Arc<Named>> {
    owners(switch).into_iter().filter(|named| named.spread().is_some()).collect()
}
