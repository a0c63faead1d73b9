//! `millrace bench`, and `millrace-bench`: what a pipeline costs a packet, beside the loop that one would write by hand.
//!
//! `bench pipeline` replays traces from memory through a pipeline, ports left out;
//! `bench use-case` writes a use case's flow entries and traffic to files, for other switches.
//! `bench classify` is about lookup structures alone, `bench xdp` about a kind of port.
//!
//! | module | holds |
//! |---|---|
//! | [`pipeline`] | `bench pipeline` and `bench use-case` |
//! | [`cases`] | the use cases: flow entries and traffic |
//! | [`limit`] | the hand-written loop for each |
//! | [`contents`] | flow entries as a program's contents |
//! | [`frame`], [`trace`], [`attack`] | frames, where they lie, how they are made hostile |
//! | [`lane`] | an engine, and a worker's way through it |
//! | [`check`] | the interpreter judges a sample, before anything is timed |
//! | [`measure`] | timed runs |
//! | [`stages`] | what second passes behind services cost |
//! | [`update`] | updates while frames flow |
//! | [`constructs`] | every construct of either language, beside plain output |
//! | [`samples`] | other people's P4 programs, each beside as many plain tables |
//! | [`feed`], [`wired`] | ports in memory; a whole switch of one worker behind them |
//! | [`load`] | frames that come in beside what is measured, at a rate |
//! | [`reactive`] | changes of a controller, one new flow after another, beside traffic |
//! | [`flood`] | known users of the gateway beside a flood of unknown ones |
//! | [`classify`] | lookup structures on ClassBench's rules |
//! | [`ovn`] | an OVN chassis's tables, with traffic between its ports |
//! | [`p4runtime`] | writes and reads of P4Runtime, beside a server that only decodes |
//! | [`bridges`] | bridges in a row, joined by patch ports or by a tunnel |
//! | [`calibrate`] | prices of this machine |
//! | [`options`] | the command line |
//! | [`xdp`] | the switch on AF_XDP ports, beside a bare forwarding loop |
//!
//! What is compared is measured in turns: a run of one, a run of the other, and so on, medians of
//! each; so other load on the machine falls on both.

/// As the standard library's, but whoever reads may stop reading.
macro_rules! print {
    ($($text:tt)*) => {
        control::output::say(format_args!($($text)*))
    };
}

/// Likewise.
macro_rules! println {
    ($($text:tt)*) => {
        control::output::say(format_args!("{}\n", format_args!($($text)*)))
    };
}

mod attack;
mod bridges;
mod cache;
mod calibrate;
mod cases;
mod check;
mod classify;
mod constructs;
mod contents;
mod feed;
mod flood;
mod frame;
mod lane;
mod limit;
mod load;
mod measure;
pub mod options;
mod ovn;
mod p4runtime;
mod pipeline;
mod reactive;
mod samples;
mod stages;
mod trace;
mod update;
mod wired;
mod xdp;

pub use attack::Attack;
pub use bridges::tunnels::Way;
pub use constructs::Language;

use bridges::{patch, tunnels};
use control::failure::Failure;
use options::BenchCommand;

/// `millrace bench`.
pub fn run(command: BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Pipeline(options) => pipeline::pipeline(&options),
        BenchCommand::UseCase(options) => pipeline::use_case(&options),
        BenchCommand::Constructs(options) => constructs::run(&options),
        BenchCommand::Samples(options) => samples::run(&options),
        BenchCommand::Reactive(options) => reactive::run(&options),
        BenchCommand::Flood(options) => flood::run(&options),
        BenchCommand::Classify(options) => self::classify::run(&options),
        BenchCommand::P4runtime(options) => p4runtime::run(&options),
        BenchCommand::Patch(options) => patch::run(&options),
        BenchCommand::Tunnels(options) => tunnels::run(&options),
        BenchCommand::Xdp(options) => xdp::run(&options),
        BenchCommand::Calibrate(options) => calibrate::calibrate(&options),
    }
}
