//! The questions that can be asked of a switch, one file for each.
//!
//! A module prepares the switch, runs traffic and messages beside each other, and turns what was
//! captured into [`Run`]s: figures, latencies, and findings where the switch did wrong. It starts
//! from a switch without flow entries but one of lowest priority that drops.

pub mod barrier;
pub mod echo;
pub mod forwarding;
pub mod insertion;
pub mod punt;
pub mod statistics;

use crate::bench::Bench;
use crate::error::Error;
use crate::report::Run;

/// A question.
#[derive(Debug)]
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// What it asks, in a line.
    pub about: &'static str,
    /// The single figures of its runs.
    pub figures: &'static [&'static str],
    /// The latencies of its runs.
    pub latencies: &'static [&'static str],
    /// Asks it; each step is told to the second argument.
    pub run: Ask,
}

/// See [`Module::run`].
pub type Ask = fn(&mut Bench, &mut dyn FnMut(&str)) -> Result<Vec<Run>, Error>;

/// All of them, in the order in which they are asked.
pub const MODULES: &[Module] = &[
    echo::MODULE,
    forwarding::MODULE,
    insertion::MODULE,
    barrier::MODULE,
    punt::PACKET_IN,
    punt::PACKET_OUT,
    statistics::MODULE,
];
