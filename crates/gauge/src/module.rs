//! The questions that can be asked of a switch, one file for each.
//!
//! A module prepares the switch, runs traffic and messages beside each other, and turns what was
//! captured into [`Run`](crate::run::Run)s: figures, latencies, and findings where the switch did wrong. It starts
//! from a switch without flow entries but one of lowest priority that drops.

pub mod actions;
pub mod barrier;
pub mod cliffs;
pub mod connections;
pub mod counters;
pub mod described;
pub mod echo;
pub mod failover;
pub mod forwarding;
pub mod load;
pub mod loss;
pub mod meter;
pub mod punt;
pub mod restart;
pub mod search;
pub mod statistics;
pub mod updates;

mod question;

pub use question::{Ask, Module, Over};

/// All of them, in the order in which they are asked.
pub const MODULES: &[Module] = &[
    echo::MODULE,
    forwarding::MODULE,
    loss::MODULE,
    search::THROUGHPUT,
    actions::MODULE,
    described::MODULE,
    updates::INSERTION,
    updates::MODIFICATION,
    updates::DELETION,
    updates::PRIORITY,
    updates::OCCUPANCY,
    updates::ORDER,
    barrier::MODULE,
    load::UPDATE_RATE,
    load::POLLING,
    load::ECHO_LOADED,
    punt::PACKET_IN,
    punt::PACKET_OUT,
    search::PACKET_IN_RATE,
    search::PACKET_OUT_RATE,
    statistics::MODULE,
    counters::MODULE,
    meter::MODULE,
    failover::MODULE,
    cliffs::FLOWS,
    cliffs::MASKS,
    connections::MODULE,
    restart::MODULE,
];
