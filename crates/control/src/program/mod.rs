//! What a switch forwards by: OpenFlow's tables or a P4 program, filled from files.

pub(crate) mod again;
pub mod entries;
pub mod host;
pub mod lines;
pub(crate) mod p4_entries;
pub mod p4_file;
pub mod services;
pub mod tables;
