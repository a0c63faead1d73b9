//! The program on real packets, by the interpreter; bytes compared exactly.

mod action_set;
mod actions;
mod bed;
mod entries;
mod fields;
mod filter;
mod frames;
mod interning;
mod model;
mod tunnels;
