//! The server: a running switch, and what programs it.
//!
//! [`program`] makes switches of OpenFlow's tables or of a P4 program, and fills them from files.

pub mod engine;
pub mod failure;
pub mod model;
pub mod output;
pub mod program;
pub mod sync;
