//! Planned IR to machine code.

pub mod unit;

pub use unit::{Counts, DirectEntry, NodeSpec, Tables, Unit};
