//! Planned IR to machine code.
//!
//! In: a [`Unit`]: an optimised program, the nodes at which tables are looked up, and the entries of
//! those small tables that become code. Out: [`Compiled`], which runs bursts: lookups are answered by
//! whoever implements [`Tables`]; the code counts in [`abi::Counters`].
//!
//! One function, a *segment*, is made for the start of a burst, one for packets that come with a rare
//! order of headers, and one for each version of what comes behind a lookup. A packet runs in a segment until it waits at the next lookup, is done, or *bails out*: it
//! reached something that is not compiled, and must be run from the start by code of the whole program ([`whole`]) or
//! the interpreter. Until a
//! packet is done nothing of it is written, so bailing out is free, and correctness never depends on
//! how much is compiled.
//!
//! | module | holds |
//! |---|---|
//! | [`unit`] | what is compiled, and who answers while it runs |
//! | `compile` | from a unit to code, by way of a cache |
//! | `run` | the driver: a burst on its way through the segments |
//! | `plan`, `shape`, `flow`, `graph`, `set`, `frame` | what is worked out before: places, what may hold and what is looked at, the unrolled parser; where the parts of a burst's memory lie |
//! | `stops` | calls of services, at which packets wait, too |
//! | `segment` | one function: a loop over packets |
//! | `version`, `kept` | what code knows of a packet, and which code that makes; what a packet keeps while it waits |
//! | `emit`, `parse`, `ops`, `commit` | the state of a packet and expressions; states; operations and blocks; the packet's bytes at the end |
//! | `lay`, `copies` | copies of a packet that goes on to change; where it goes, as the worker reads it |
//! | `state`, `host`, `journal`, `records` | operations on state: in code; the functions that it calls; what they have done, for packets that bail out later |
//! | `told` | what is told the control side |
//! | `groups`, `buckets` | groups: code that chooses buckets and runs them; the data that it reads |
//! | `unused` | drops loads that nobody needs |
//! | `mutant` | faults that tests plant, each of which the random differential finds |
//! | `fan` | entries that differ in one value and in the twin they go to |
//! | [`value`] | values of any width in generated code |
//! | [`whole`] | a second compiler, of the whole language, for one packet at a time |
//! | [`isa`], [`memory`], `bails` | instruction sets; executable memory; reasons to bail out |
//!
//! Invariants, but for [`whole`]: generated code calls nothing but [`abi::state`], needs no relocations, and touches nothing but what
//! [`abi::Context`] points to; a packet that did not bail out has the verdict, copies and counters
//! that the interpreter would have given it.
//! Checked by: `tests/differential.rs` (random programs) and `tests/openflow.rs`, both against the
//! interpreter.

#[cfg(test)]
extern crate self as jit;

mod bails;
mod buckets;
mod commit;
mod compile;
mod copies;
mod deal;
mod emit;
mod fan;
mod flow;
mod frame;
mod graph;
mod groups;
mod host;
pub mod isa;
mod journal;
mod kept;
mod lay;
pub mod lookup;
pub mod memory;
mod messages;
mod mutant;
mod ops;
mod parse;
mod plan;
#[cfg(test)]
mod planted;
mod records;
mod run;
mod scratch;
mod segment;
mod set;
mod shape;
mod state;
mod stops;
mod told;
pub mod unit;
mod unused;
pub mod value;
mod version;
pub mod whole;

pub use buckets::{Groups, NO_ACTION};
pub use compile::{Cache, Compiled, Error, Isa, Options, Text, compile};
pub use copies::{Copy, Headers};
pub use journal::Did;
pub use messages::Repeatable;
pub use scratch::{Answered, Said, Scratch};
pub use told::{Told, What};
pub use unit::{
    DirectEntry, Handed, NoServices, NodeSpec, Services, State, Tables, Unit, are_twins, pair_twins,
};
