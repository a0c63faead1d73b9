//! Tunnel ports: Geneve, VXLAN, GRE and ERSPAN over IPv4 and IPv6.
//!
//! The ports are opened at a [`Hub`]; their [kinds](kinds) find it in the environment. Below that:
//! a tunnel port takes the outer headers off a frame and puts a descriptor in their place
//! ([`contract::tunnel`]), and the other way round. In: options of a port ([`Config`]), a descriptor with an inner frame, or
//! a packet from the underlay. Out: the octets of outer headers ([`headers::Outgoing`]), or what a packet carries
//! ([`parse::Received`]) and whose it is ([`table::Table`]).
//!
//! Invariants:
//! - No octets from outside panic. A frame that is not taken or not sent has a reason ([`Refused`]).
//! - Making and reading headers allocates nothing.
//! - What is sent equals what Open vSwitch's userspace datapath sends, but for the UDP source port and what
//!   `tests/octets.rs` lists with its reason.
//!
//! Checked by: Open vSwitch's answers (`conformance/tunnels` records them), the fuzz target `tunnel`.

pub mod config;
pub mod descriptor;
pub mod fragments;
pub mod headers;
pub mod hub;
pub mod inner;
pub mod kinds;
pub mod parse;
pub mod plain;
pub mod ready;
pub mod refused;
pub mod table;
pub mod underlay;

#[doc(hidden)]
pub mod fuzz;

#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, Given, Inherit, Kind};
pub use hub::Hub;
pub use refused::Refused;
pub use underlay::Underlay;
