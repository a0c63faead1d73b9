//! Bonds of a bridge: what they are to be, the thread that runs them, what is told of them.
//!
//! In: [`Bond`]s of a bridge's configuration, links of ports, frames of LACP, what slots have sent. Out: what NORMAL is
//! told of bonds ([`of_pipeline::vlans::bonds`]), frames of LACP, packets by which stations elsewhere learn of another
//! member. How bonds behave is [`bond`]'s; here are its clock and its ports.
//!
//! | file | is |
//! |---|---|
//! | `config` | a bond as people write it |
//! | `state` | bonds with the ports that are there, and what NORMAL is told |
//! | `run` | the thread, which is there while a bridge has bonds |
//! | `ask` | `bond/*` and `lacp/*` of `ovs-appctl` |
//!
//! Holds true: what NORMAL was told last is what bonds say, but for the moment of a change.
//! Locks: a bridge's state → its agent.

mod ask;
mod config;
mod run;
mod state;
#[cfg(test)]
mod tests;

pub use ask::ask;
pub(crate) use config::check;
pub use config::{Bond, BondError};
pub(crate) use run::Bonds;
