//! The link aggregation control protocol (IEEE 802.1AX-2020 §6.4).
//!
//! | file | is |
//! |---|---|
//! | [`pdu`] | its frames |
//! | [`machine`] | one bond's actor, with what it knows of its partner |

pub mod machine;
pub mod pdu;

pub use machine::{Counts, Link, LinkConfig, LinkStatus, Machine, Status};
pub use pdu::{Info, Pdu, state};
