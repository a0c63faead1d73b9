//! The server: a running switch, what programs it, and its control socket.
//!
//! | module | is |
//! |---|---|
//! | [`server`] | the switch in the foreground: started, served, stopped |
//! | [`bridges`] | switches that share its workers: added, changed and removed while packets pass |
//! | [`config`] | what it is told: a file and options, checked as a whole |
//! | [`config::diff`] | what differs between two configurations, as changes in their order |
//! | `normal` | VLANs of ports and mirrors, as people write them |
//! | [`controllers`] | what programs it, a file each: OpenFlow, P4 |
//! | `ports` | its ports: planned, opened, let go |
//! | [`port_kinds`] | the kinds of ports, a line each |
//! | [`program`] | switches of OpenFlow's tables or of a P4 program, filled from files |
//! | [`protocol`], [`socket`], [`client`] | the control socket, both ends |
//! | [`role`], [`doors`] | who may ask what there: a socket for each role |
//! | [`verbs`] | what can be asked there, a file each |
//! | [`reload`] | another configuration: planned, applied, taken back |
//! | [`fleet`] | a configuration that comes from a store, for gateways without a controller |
//! | `health` | checks of balancers' backends |
//! | `otlp` | logs and spans of slow work for a collector of OpenTelemetry |
//! | `metrics` | counters for Prometheus, a file for each part of the switch |
//! | [`page`] | the web page, and what it asks |
//! | [`takeover`] | one process goes on where another one is |
//! | [`upgrade`] | the running process starts another binary, which does that |
//! | [`persist`] | what controllers programmed outlives it |
//! | [`image`] | connections that outlive it |
//! | [`confine`] | what the process gives up |
//! | [`logging`], [`signals`], `guard`, `room`, `supervisor` | the process: its log, its end, its faults, its limits, who watches it |
//!
//! In: [`config::Options`]. Out: a switch that runs until a signal ends it, and answers at its socket meanwhile.

pub mod bfd;
pub mod bonds;
mod bounds;
pub mod bridges;
pub mod client;
pub mod config;
pub mod confine;
pub mod controller;
pub mod controllers;
pub mod dial;
#[cfg(test)]
mod documented;
pub mod doors;
pub mod engine;
pub mod failure;
pub mod fleet;
#[doc(hidden)]
pub mod fuzz;
mod group;
mod guard;
mod health;
pub mod image;
pub mod logging;
pub mod metrics;
pub mod model;
mod nats;
mod normal;
pub mod otlp;
pub mod output;
pub mod page;
pub mod persist;
pub mod port_kinds;
mod ports;
pub mod program;
pub mod protocol;
pub mod reload;
mod replication;
pub mod role;
mod room;
pub mod server;
pub mod signals;
mod socket;
mod start;
mod supervisor;
pub mod sync;
pub mod takeover;
pub mod tunnels;
pub mod upgrade;
pub mod verb;
pub mod verbs;
